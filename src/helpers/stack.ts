/**
 * The user's line: the first stack frame outside the library. Taking a stack costs 3 µs, making text of it twenty times
 * as much: a Site does so when it is asked.
 *
 * @module
 */

const ROOT = import.meta.url.slice(0, import.meta.url.lastIndexOf("/src/helpers/"));
/** Frames that are kept: calls nest deeper than this within the library only in recursions. */
const DEPTH = 32;

/** A line, as text or as the stack that it will be read from. */
export type Line = string | Site;

/** Lines seen so far, as strings of their own: a piece cut out of a stack trace would keep all of it alive. */
const known = new Map<string, string>();

function copied(text: string): string {
  return JSON.parse(JSON.stringify(text));
}

function lineIn(stack: string): string {
  for (const frame of stack.split("\n").slice(1)) {
    const m = /\(?((?:file|https?|blob|data):[^()\s]*:\d+:\d+)\)?$/.exec(frame);
    if (m === null) continue;
    const at = m[1];
    if (
      ROOT !== "" &&
      (at.startsWith(`${ROOT}/src/`) || at.startsWith(`${ROOT}/backends/`) || at.startsWith(`${ROOT}/mod.ts`))
    ) continue;
    let line = known.get(at);
    if (line === undefined) {
      if (known.size > 4096) known.clear();
      known.set(copied(at), line = copied(at.replace(/^file:\/\//, "")));
    }
    return line;
  }
  return "an unknown line";
}

/** Where the library was called: made there, read later or never. */
export class Site {
  private error: Error | undefined;
  private text: string;

  /** The line that calls the library now. @param before what the text begins with */
  constructor(before: string = "") {
    const holder = Error as { stackTraceLimit?: number };
    const limit = holder.stackTraceLimit;
    holder.stackTraceLimit = DEPTH;
    this.error = new Error();
    holder.stackTraceLimit = limit;
    this.text = before;
  }

  /** "file.ts:12:5" of the nearest caller outside `src/`, `backends/` and `mod.ts`; "an unknown line" if there is none. */
  toString(): string {
    if (this.error !== undefined) {
      this.text += lineIn(this.error.stack ?? "");
      this.error = undefined;
    }
    return this.text;
  }
}

/** The text of the user's line, at once. */
export function userLine(): string {
  return new Site().toString();
}
