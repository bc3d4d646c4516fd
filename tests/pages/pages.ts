/**
 * The code on the pages of the documentation, and what it prints. In: Markdown pages and sources with examples in their
 * comments. Out: the examples that fail, or whose `console.log(...); // text` prints another text; and for pages that are one program,
 * the text blocks that are not what the code above them prints. `deno run -A tests/pages/pages.ts` writes these anew.
 *
 * @module
 */
import { ROOT, runDeno } from "../system/subprocess.ts";

/** Pages whose blocks are one program, each followed by what it prints. */
export const PROGRAM_PAGES: readonly string[] = ["docs/pipeline.md"];

/** A fenced block of code. */
export interface Snippet {
  /** Relative to the project. */
  readonly file: string;
  /** Of its first line of code, from 1. */
  readonly line: number;
  readonly code: string;
  /** The words after the language. */
  readonly attributes: string;
}

/** The TypeScript examples of a page, or of the comments of a source. */
export function snippetsOf(file: string, text: string): Snippet[] {
  const prefix = file.endsWith(".md") ? "" : " +\\*(?: |$)";
  const fence = new RegExp(`^${prefix}\`\`\`ts\\b *(.*)\\n((?:${prefix}(?!\`\`\`).*\\n)*)${prefix}\`\`\`$`, "gm");
  return [...text.matchAll(fence)].map((m) => ({
    file,
    line: text.slice(0, m.index).split("\n").length + 1,
    attributes: m[1],
    code: m[2].replace(new RegExp(`^${prefix}`, "gm"), ""),
  }));
}

/** The code with its relative imports made absolute, under `root`: it can run from anywhere. */
function located(snippet: Snippet, root: URL = ROOT): string {
  return snippet.code.replace(/(from\s*")(\.\.?\/[^"]*)"/g, (whole, from: string, path: string) => {
    return path === "./images.ts" ? whole : `${from}${new URL(path, new URL(snippet.file, root)).href}"`;
  }).replaceAll("https://example.com/dinograd/", root.href);
}

/** Runs `main.ts` of these files with no permission but `flags`, type-checked if asked for; gives what it printed. */
export async function runModules(
  files: Record<string, string>,
  check: boolean,
  flags: readonly string[] = [],
  cwd: URL = ROOT,
): Promise<string> {
  const dir = await Deno.makeTempDir({ prefix: "dinograd-test-" });
  try {
    for (const [name, code] of Object.entries(files)) await Deno.writeTextFile(`${dir}/${name}`, code);
    const config = new URL("deno.json", ROOT).pathname;
    const { code: status, stdout, stderr } = await runDeno(
      ["run", "--no-prompt", ...flags, check ? "--check" : "--no-check", `--config=${config}`, `${dir}/main.ts`],
      { timeoutMs: 300_000, cwd },
    );
    if (status !== 0) throw new Error(`The examples fail: ${stderr}`);
    return stdout;
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

const HELPERS = `
export function textOf(values: readonly unknown[]): string {
  return values.map((v) => typeof v === "string" ? v : Deno.inspect(v, { depth: 8 })).join(" ");
}
export const print: (text: string) => void = console.log;
export const wrong: string[] = [];
const reached = new Set<string>();
/** Takes the place of a line that prints, and says what it prints. */
export function expect(at: string, want: string, ...values: unknown[]): void {
  reached.add(at);
  const bare = (s: string) => s.replace(/\\s+/g, "");
  if (bare(textOf(values)) !== bare(want)) wrong.push(at + " prints " + textOf(values) + ", not " + want);
}
/** Tells of lines that should have printed something, and were never come to. */
export function notReached(lines: readonly (readonly [at: string, want: string])[]): void {
  for (const [at, want] of lines) if (!reached.has(at)) wrong.push(at + " prints nothing, not " + want);
}
`;

/**
 * Runs examples, each a module of its own, all in one process: where one fails, and where it says in a comment that it prints
 * something, and prints something else, as "file:line ...". The library is that under `root`, which may be read if it is
 * a copy. @param check whether types are checked @param folder where examples run that may read and write files, and
 * modules that stand beside them
 */
export async function wrongExamples(
  snippets: readonly Snippet[],
  root: URL = ROOT,
  check: boolean = root === ROOT,
  folder?: { readonly url: URL; readonly modules: Readonly<Record<string, string>> },
): Promise<string[]> {
  const files: Record<string, string> = { "helpers.ts": HELPERS, ...folder?.modules },
    runs: string[] = [],
    places: string[] = [];
  snippets.forEach((snippet, i) => {
    let line = snippet.line - 1;
    const code = located(snippet, root).split("\n").map((text) => {
      line++;
      return snippet.attributes.endsWith("types")
        ? text
        : text.replace(/console\.log\((.*)\); \/\/ (.+)$/, (_, args: string, want: string) => {
          const place = `${JSON.stringify(`${snippet.file}:${line}`)}, ${JSON.stringify(want)}`;
          places.push(`[${place}]`);
          return `__expect(${place}, ${args});`;
        });
    }).join("\n");
    files[`example_${i}.ts`] = `import { expect as __expect } from "./helpers.ts";\n${code}\nexport { __expect };\n`;
    const at = JSON.stringify(`${snippet.file}:${snippet.line}`);
    const start = snippet.attributes.endsWith("types") ? "if (!wrong) await" : "await"; // or it is only type-checked
    runs.push(
      `${start} import("./example_${i}.ts").catch((error: unknown) => wrong.push(${at} + " fails: " + error));`,
    );
  });
  // what one example opens is not the device of the next
  const keep = `import { Device } from "${new URL("mod.ts", ROOT)}";\nDevice.default = Device.default;\n`;
  const main = `import { notReached, print, wrong } from "./helpers.ts";\n${keep}console.log = () => {};\n${
    runs.join("\n")
  }\nnotReached([${places}]);\nprint(JSON.stringify(wrong));\n`;
  const flags = folder !== undefined ? ["-A"] : root === ROOT ? [] : [`--allow-read=${root.pathname}`];
  return JSON.parse(await runModules({ ...files, "main.ts": main }, check, flags, folder?.url)) as string[];
}

/** A page that is one program, with the text blocks that its code prints. */
export async function printedPage(file: string, page: string): Promise<string> {
  const snippets = snippetsOf(file, page);
  const code = snippets.map((s) => `__block();\n${located(s)}`).join("\n");
  const printed = JSON.parse(
    await runModules({
      "helpers.ts": HELPERS,
      "main.ts": `import { print as __print, textOf as __text } from "./helpers.ts";
const __out: string[][] = [];
function __block(): void { __out.push([]); }
console.log = (...values: unknown[]) => { __out.at(-1)!.push(__text(values)); };
${code}
__print(JSON.stringify(__out.map((lines) => lines.join("\\n"))));`,
    }, true),
  ) as string[];
  let at = 0;
  return page.replace(
    /^(```ts\b.*\n(?:(?!```).*\n)*```\n)(\n```text\n(?:(?!```).*\n)*```\n)?/gm,
    (_, source: string) => {
      const text = printed[at++].trimEnd().replace(/[ \t]+$/gm, "");
      return text === "" ? source : `${source}\n\`\`\`text\n${text}\n\`\`\`\n`;
    },
  );
}

if (import.meta.main) {
  for (const file of PROGRAM_PAGES) {
    const url = new URL(file, ROOT), page = await Deno.readTextFile(url);
    const now = await printedPage(file, page);
    if (now !== page) await Deno.writeTextFile(url, now);
    console.log(`${file}: ${now === page ? "unchanged" : "written"}`);
  }
}
