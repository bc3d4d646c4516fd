/**
 * The user's line: the first stack frame outside the library. Taking a stack costs 3 µs, making text of it twenty times
 * as much: a Site does so when it is asked.
 *
 * @module
 */

import { workingFolder } from "./env.ts";

/** The folder of the sources; "" in a bundle. */
const ROOT = import.meta.url?.match(/^(.*)\/src\/helpers\/[^/]*$/)?.[1] ?? "";
/** What lines of the library begin with: in a bundle its file, and what a bundler has split off that. */
const OWN = ROOT === ""
  ? [import.meta.url?.match(/^.*\/[^/.-]+/)?.[0] ?? "?"]
  : ["/src/", "/backends/", "/mod.ts"].map((part) => ROOT + part);
/** Frames that are kept: calls nest deeper than this within the library only in recursions. */
const DEPTH = 32;

/** A line, as text or as the stack that it will be read from. */
export type Line = string | Site;

/** Lines seen so far, as strings of their own: a piece cut out of a stack trace would keep all of it alive. */
const known = new Map<string, string>();

function copied(text: string): string {
  return JSON.parse(JSON.stringify(text));
}

/** A call that led to an operation. */
export interface Frame {
  /** What was called, as "Net.call"; "" for the top level of a module. */
  readonly call: string;
  /** The line in it that called on, as "file.ts:12:5". */
  readonly at: string;
  /** Whether it is a function of the library. */
  readonly isLibrary: boolean;
}

/** While somebody wants them, a Site that is read keeps all of its frames: how many do. */
export const siteFrames: { wanted: number } = { wanted: 0 };

function kept(at: string): string {
  let line = known.get(at);
  if (line === undefined) {
    if (known.size > 4096) known.clear();
    known.set(copied(at), line = copied(at.replace(/^file:\/\//, "")));
  }
  return line;
}

function isLibrary(at: string): boolean {
  return OWN.some((own) => at.startsWith(own) && (ROOT !== "" || !at.includes("/", own.length)));
}

/** "at call (place)" of V8, "call@place" of others; places are URLs, and paths in Bun. */
const FRAME = /^\s*(?:at (?:async )?)?(?:(.*)(?: \(|@))?((?:(?:file|https?|blob|data):|\/)[^()\s]*:\d+:\d+)\)?$/;

/** The call and the place of a line of a stack; undefined for others. */
function frameOf(text: string): readonly [call: string, at: string] | undefined {
  const m = FRAME.exec(text);
  return m === null ? undefined : [m[1] ?? "", m[2].startsWith("/") ? `file://${m[2]}` : m[2]];
}

function lineIn(stack: string, isOwn: boolean): string {
  // of a row: after the constructor, who calls it, and the rule
  for (const frame of stack.split("\n").slice(isOwn ? 4 : 1)) {
    const at = frameOf(frame)?.[1];
    if (at !== undefined && (isOwn || !isLibrary(at))) return kept(at);
  }
  return "an unknown line";
}

function framesIn(stack: string): Frame[] {
  return stack.split("\n").slice(1).flatMap((frame) => {
    const found = frameOf(frame);
    return found === undefined ? [] : [{ call: copied(found[0]), at: kept(found[1]), isLibrary: isLibrary(found[1]) }];
  });
}

const frames = new WeakMap<Site, readonly Frame[]>();

/** The calls that led to a line, the innermost first; none unless {@linkcode siteFrames} were wanted when it was first read. */
export function framesOf(line: Line): readonly Frame[] {
  return line instanceof Site ? frames.get(line) ?? [] : [];
}

/** Where the library was called: made there, read later or never. */
export class Site {
  private error: Error | undefined;
  private text: string;
  /** Whether it is a line of the library. */
  private readonly isOwn: boolean;

  /** The line that calls the library now. @param before what the text begins with */
  constructor(before: string = "", isOwn: boolean = false) {
    const holder = Error as { stackTraceLimit?: number };
    const limit = holder.stackTraceLimit;
    holder.stackTraceLimit = isOwn ? 4 : DEPTH;
    this.error = new Error();
    holder.stackTraceLimit = limit;
    this.text = before;
    this.isOwn = isOwn;
  }

  /** "file.ts:12:5" of the nearest caller outside `src/`, `backends/` and `mod.ts`; "an unknown line" if there is none. */
  toString(): string {
    if (this.error !== undefined) {
      const stack = this.error.stack ?? "";
      this.text += lineIn(stack, this.isOwn);
      if (siteFrames.wanted > 0) frames.set(this, framesIn(stack));
      this.error = undefined;
    }
    return this.text;
  }
}

/** The line that calls who calls this, of the library too: a row of a table. */
export function rowSite(): Site {
  return new Site("", true);
}

/**
 * A line as it may be in a file that goes elsewhere: of the library from its root on, of the working folder from there on,
 * else the name of the file alone.
 */
export function lineText(line: Line): string {
  const text = String(line), known = short.get(text) ?? shortLine(text);
  if (short.size > 4096) short.clear();
  short.set(text, known);
  return known;
}

const short = new Map<string, string>();

function shortLine(text: string): string {
  const own = ROOT.replace(/^file:\/\//, "");
  if (own !== "" && text.startsWith(`${own}/`)) return text.slice(own.length + 1);
  const folder = workingFolder();
  if (folder !== "" && text.startsWith(folder)) return text.slice(folder.length);
  return /^(?:[a-z]+:)?\/.*\//.test(text) && !/^https?:/.test(text) ? text.slice(text.lastIndexOf("/") + 1) : text;
}

/** The text of the user's line, at once. */
export function userLine(): string {
  return new Site().toString();
}
