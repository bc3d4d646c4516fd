/** The user's line: the first stack frame outside the library. @module */

const ROOT = import.meta.url.slice(0, import.meta.url.lastIndexOf("/src/helpers/"));
/** Few frames usually do; a formatted frame costs time and memory. */
const DEPTHS = [12, 60];

/** Lines seen so far, as strings of their own: a piece cut out of a stack trace would keep all of it alive. */
const known = new Map<string, string>();

function lineIn(stack: string): string | undefined {
  for (const line of stack.split("\n").slice(1)) {
    const m = /\(?((?:file|https?|blob|data):[^()\s]*:\d+:\d+)\)?$/.exec(line);
    if (m === null) continue;
    const at = m[1];
    if (
      ROOT !== "" &&
      (at.startsWith(`${ROOT}/src/`) || at.startsWith(`${ROOT}/backends/`) || at.startsWith(`${ROOT}/mod.ts`))
    ) continue;
    return at;
  }
  return undefined;
}

/** "file.ts:12:5" of the nearest caller outside `src/`, `backends/` and `mod.ts`; "an unknown line" if there is none. ~3 µs. */
export function userLine(): string {
  const holder = Error as { stackTraceLimit?: number };
  const limit = holder.stackTraceLimit;
  try {
    for (const depth of DEPTHS) {
      holder.stackTraceLimit = depth;
      const at = lineIn(new Error().stack ?? "");
      if (at === undefined) continue;
      let line = known.get(at);
      if (line === undefined) {
        if (known.size > 4096) known.clear();
        line = JSON.parse(JSON.stringify(at.replace(/^file:\/\//, ""))) as string;
        known.set(JSON.parse(JSON.stringify(at)), line);
      }
      return line;
    }
    return "an unknown line";
  } finally {
    holder.stackTraceLimit = limit;
  }
}
