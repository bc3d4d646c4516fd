/**
 * What the arrays of a script are called: the names of a state dict, else what the user's line calls the value, else what
 * made it. Names are unique in a script. Also what the lines are: source text, and the calls that led to a step.
 *
 * @module
 */
import { type Frame, framesOf, type Line, lineText } from "../../helpers/stack.ts";
import { TYPESCRIPT_WORDS } from "../../renderer/c/typescript.ts";
import type { TraceBuffer, TraceStep } from "./explain_record.ts";

/** Words that no array may be called. */
const RESERVED = new Set(
  ("break case catch class const continue debugger default delete do else enum export extends false finally for function if " +
    "import in instanceof new null return super switch this throw true try typeof var void while with yield let static await " +
    "async of Math Number BigInt Deno console data made recorded allowed name difference largest undefined NaN Infinity")
    .split(" ").concat(TYPESCRIPT_WORDS),
);

/** An identifier made of any text; "" of text without letters. */
function identifierOf(text: string): string {
  const clean = text.replace(/[^A-Za-z0-9_$]+/g, "_").replace(/^_+|_+$/g, "").replace(/^(?=\d)/, "_");
  return /[A-Za-z]/.test(clean) ? clean : "";
}

/** Names that are given once each. */
export class NameTable {
  private readonly taken = new Set<string>(RESERVED);

  /** `wish`, or with a number behind it. */
  take(wish: string): string {
    const base = identifierOf(wish) || "value";
    for (let i = 1;; i++) {
      const name = i === 1 ? base : `${base}_${i}`;
      if (this.taken.has(name)) continue;
      this.taken.add(name);
      return name;
    }
  }
  /** Whether a name is in use. */
  has(name: string): boolean {
    return this.taken.has(name);
  }
}

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

/** The text of a line, "" where it cannot be read. */
export function sourceText(at: string): string {
  const place = placeOf(at);
  return place === undefined ? "" : (sourceLines(place.path)[place.line - 1] ?? "").trim();
}

const ASSIGNS = [
  /\b(?:const|let|var)\s+([A-Za-z_$][\w$]*)\s*(?::[^=]+)?=[^=>]/,
  /\bthis\.([A-Za-z_$][\w$]*)\s*(?:\?\?)?=[^=>]/,
  /^(?:(?:readonly|private|public|protected|static|override)\s+)*#?([A-Za-z_$][\w$]*)\s*(?::[^=]+)?=[^=>]/,
];

/** What a line calls the value that it makes; "" where it says nothing. */
export function nameInLine(at: string): string {
  const text = sourceText(at);
  for (const pattern of ASSIGNS) {
    const m = pattern.exec(text);
    if (m !== null) return m[1];
  }
  return "";
}

/** A call on the way to a step. */
export interface Call {
  /** The user's function, "" for the top level. */
  readonly name: string;
  /** The line in it. */
  readonly at: string;
}

/** How a step came to be asked for: the user's calls, outermost first, and what of the library they called last. */
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
  const m = /^(.*)\.<instance_members_initializer>$/.exec(call);
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
  const calls = frames.slice(first).filter((f) => !f.isLibrary).reverse()
    .map(({ call, at }) => ({ name: callName(call), at }));
  return { calls, method: first === 0 ? "" : methodOf(frames[first - 1]) };
}

/** The names of buffers, given when they are first asked for. */
export class BufferNames {
  private readonly names = new Map<TraceBuffer, string>();
  /** By line the last of its steps: that one makes what the line names. */
  private readonly lastOf = new Map<string, number>();

  /** @param given names of a state dict, which go first */
  constructor(
    private readonly steps: readonly TraceStep[],
    given: ReadonlyMap<TraceBuffer, string>,
    private readonly table: NameTable,
  ) {
    for (const [b, name] of given) this.names.set(b, table.take(name));
    for (const { item, number } of steps) if (item.site !== undefined) this.lastOf.set(String(item.site), number);
  }

  /** The name of a buffer. */
  of(b: TraceBuffer): string {
    let name = this.names.get(b);
    if (name === undefined) this.names.set(b, name = this.table.take(this.wishOf(b)));
    return name;
  }

  /** What it would be called if it were alone. */
  wishOf(b: TraceBuffer): string {
    const known = this.names.get(b), writer = this.steps[b.writers[0]];
    if (known !== undefined) return known;
    if (writer === undefined || b.initial !== undefined) {
      return (b.line === undefined ? "" : nameInLine(String(b.line))) || "input";
    }
    const { site } = writer.item, at = site === undefined ? "" : String(site);
    const named = this.lastOf.get(at) === writer.number ? nameInLine(at) : "";
    return named || pathOf(site).method || plainName(writer);
  }
}

/** What a step makes, where no line tells. */
function plainName({ kind, item }: TraceStep): string {
  if (kind !== "kernel") return kind;
  return item.runner.kind === "CompiledKernel" && item.runner.name.startsWith("r_") ? "reduced" : "value";
}
