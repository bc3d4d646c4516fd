/** What a source imports, by its text alone. @module */

/** The text without comments; `strings` false also empties string literals. Regular expressions are left alone. */
export function stripped(text: string, strings: boolean): string {
  const token = /\/\*[\s\S]*?\*\/|\/\/[^\n]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\[\s\S])*`/g;
  return text.replace(token, (t) => {
    if (t.startsWith("/")) return t.startsWith("/*") ? " " : "";
    return strings ? t : t[0] + t[0];
  });
}

/** The module specifiers of a source: imports, re-exports, dynamic and type imports. */
export function specifiersOf(text: string): string[] {
  const code = stripped(text, true);
  const found: string[] = [];
  for (
    const pattern of [
      /(?:^|[\n;}])\s*(?:import|export)\b[^"'`;]*?\bfrom\s*"([^"]+)"/g,
      /(?:^|[\n;}])\s*import\s*"([^"]+)"/g,
      /\bimport\(\s*"([^"]+)"/g,
    ]
  ) for (const m of code.matchAll(pattern)) found.push(m[1]);
  return found;
}
