/** The user's line: the first stack frame outside the library. @module */

const ROOT = import.meta.url.slice(0, import.meta.url.lastIndexOf("/src/helpers/"));

/** "file.ts:12:5" of the nearest caller outside `src/`, `backends/` and `mod.ts`; "an unknown line" if there is none. ~3 µs. */
export function userLine(): string {
  const holder = Error as { stackTraceLimit?: number };
  const limit = holder.stackTraceLimit;
  holder.stackTraceLimit = 40;
  const stack = new Error().stack ?? "";
  holder.stackTraceLimit = limit;
  for (const line of stack.split("\n").slice(1)) {
    const m = /\(?((?:file|https?|blob|data):[^()\s]*:\d+:\d+)\)?$/.exec(line.trim());
    if (m === null) continue;
    const at = m[1];
    if (
      ROOT !== "" &&
      (at.startsWith(`${ROOT}/src/`) || at.startsWith(`${ROOT}/backends/`) || at.startsWith(`${ROOT}/mod.ts`))
    ) continue;
    return at.replace(/^file:\/\//, "");
  }
  return "an unknown line";
}
