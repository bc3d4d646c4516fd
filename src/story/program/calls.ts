/**
 * The calls that led to a line, and what stands in it: read from the stack that was kept with an operation, and from the
 * source files, where these can be read without asking. Nothing of it names the machine.
 *
 * @module
 */
import { type Frame, framesOf, type Line, lineText } from "../../helpers/stack.ts";

interface DenoLike {
  readonly readTextFileSync?: (path: string) => string;
  readonly permissions?: { querySync?(d: { name: "read"; path?: string }): { readonly state: string } };
}
const deno = (globalThis as { Deno?: DenoLike }).Deno;

/** Source files by path, as lines; empty where one cannot be read without asking. */
const sources = new Map<string, readonly string[]>();

function sourceLines(path: string): readonly string[] {
  let lines = sources.get(path);
  if (lines !== undefined) return lines;
  lines = [];
  try {
    if (path.startsWith("/") && deno?.permissions?.querySync?.({ name: "read", path }).state === "granted") {
      lines = deno.readTextFileSync!(path).split("\n");
    }
  } catch { /* it is gone: there is no text to show */ }
  sources.set(path, lines);
  return lines;
}

/** Path and line of "path:12:5". */
function placeOf(at: string): { readonly path: string; readonly line: number } | undefined {
  const m = /^(.*):(\d+):\d+$/.exec(at);
  return m === null ? undefined : { path: m[1], line: Number(m[2]) };
}

/** "file.ts:12" of "path/file.ts:12:5": nothing of the machine. */
export function shortLine(at: string): string {
  return lineText(at).replace(/:\d+$/, "");
}

/** The folders of an absolute path or file's URL at the beginning of a string. */
const FOLDERS = /(["'`])(?:(?:file:\/\/)?\/|(?:file:\/\/\/)?[A-Za-z]:[\\/])(?:[^"'`\\/]+[\\/]+)+(?=[^"'`\\/]*\1)/g;

/** Lines above one that are looked at for where its chain of calls begins. */
const MOST_ABOVE = 40;
/** A line that goes on with a chain of calls. */
const CONTINUES = /^\s*\??\.(?!\.)/;

/** Brackets that a line opens, less those that it closes, without those in comments and in texts of one line. */
function depthOf(line: string): number {
  const code = line.replace(/(["'`])(?:\\.|(?!\1).)*\1|\/\/.*$/g, "");
  return code.replace(/[^([{]/g, "").length - code.replace(/[^)\]}]/g, "").length;
}

/** The first line, from 0 on, of the chain of calls of which `line` is one; `line` itself where it is of none. */
function chainStart(lines: readonly string[], line: number): number {
  if (!CONTINUES.test(lines[line] ?? "")) return line;
  for (let i = line - 1, depth = 0; i >= 0 && line - i <= MOST_ABOVE; i--) {
    depth += depthOf(lines[i]);
    if (depth >= 0 && !CONTINUES.test(lines[i]) && !/^\s*(?:\/\/.*)?$/.test(lines[i])) return i;
  }
  return line;
}

/** The text of a line, "" where it cannot be read; of absolute paths in it the last part; behind where its chain of calls begins. */
export function sourceText(at: string): string {
  const place = placeOf(at);
  if (place === undefined) return "";
  const lines = sourceLines(place.path), line = place.line - 1, start = chainStart(lines, line);
  const own = (lines[line] ?? "").trim(), gap = line - start > 1 ? " … " : "";
  return (start === line ? own : lines[start].trim() + gap + own).replace(FOLDERS, "$1");
}

/** Where in the text that {@linkcode sourceText} gives a place is; undefined where it is not the text of that line alone. */
export function columnIn(at: string): number | undefined {
  const place = placeOf(at), own = place === undefined ? "" : sourceLines(place.path)[place.line - 1] ?? "";
  if (own.trim() !== sourceText(at)) return undefined;
  return Number(/\d+$/.exec(at)![0]) - 1 - (own.length - own.trimStart().length);
}

/** What is the same for all lines of a chain of calls, which make one value: the place itself where it is of none. */
export function chainOf(at: string): string {
  const place = placeOf(at);
  if (place === undefined) return at;
  const lines = sourceLines(place.path), start = chainStart(lines, place.line - 1);
  const isHead = start === place.line - 1 && CONTINUES.test(lines[place.line] ?? "");
  return start === place.line - 1 && !isHead ? at : `${place.path}:${start + 1}`;
}

/** A line that calls nothing: V8 takes the first one for that of a class whose static fields are computed. */
const IMPORTS = /^import\b(?!\s*[(.])/;

/** A call on the way to an operation. */
export interface Call {
  /** The user's function, "" for the top level. */
  readonly name: string;
  /** The line in it. */
  readonly at: string;
}

/** How an operation came to be asked for: the user's calls, outermost first, and what of the library they called last. */
export interface CallPath {
  readonly calls: readonly Call[];
  readonly method: string;
}

/** "softmax" of "NNTensor.softmax", "linear" of "new Linear". */
function methodOf({ call }: Frame): string {
  const whole = call.replace(/ \[as .*$/, ""), [owner, last = owner] = whole.split(/\.(?=[^.]*$)/);
  const name = last === "call" ? owner : last;
  const word = name.replace(/^new /, "").replace(/^(?:Function|Object)\./, "");
  if (!/^[A-Za-z]\w*$/.test(word)) return "";
  // capitals that open a word, but not the one that begins the next: "lstmCell" of "LSTMCell"
  return word.replace(/^[A-Z]+(?=[A-Z][a-z]|[\d_]|$)|^[A-Z]/, (capitals) => capitals.toLowerCase());
}

/** What a call is called for people: "fields of Net", and nothing for a function that only a table of the library names. */
function callName(call: string): string {
  const m = /^(.*)\.<(?:instance_members|static)_initializer>$/.exec(call);
  return m !== null ? `fields of ${m[1]}` : /^(?:Jit|Object)\.fn$/.test(call) ? "captured" : call;
}

const EXPLAIN = /\/src\/story\/explain\/explain\.ts:/;

/** The path to a line; without frames, the line alone. */
export function pathOf(site: Line | undefined): CallPath {
  if (site === undefined) return { calls: [], method: "" };
  const at = String(site), all = framesOf(site), end = all.findIndex((f) => EXPLAIN.test(f.at));
  const frames = end < 0 ? all : all.slice(0, end); // who asked for the explanation is no part of it
  const first = frames.findIndex((f) => !f.isLibrary);
  if (first < 0) return { calls: at === "an unknown line" ? [] : [{ name: "", at }], method: "" };
  const calls = frames.slice(first).filter((f) => !f.isLibrary && !IMPORTS.test(sourceText(f.at))).reverse()
    .map(({ call, at }) => ({ name: callName(call), at }));
  return { calls, method: first === 0 ? "" : methodOf(frames[first - 1]) };
}
