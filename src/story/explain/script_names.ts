/**
 * What the arrays of a script are called: the names of a state dict, else what the user's line calls the value, else what
 * made it. Names are unique in a script.
 *
 * @module
 */
import { TYPESCRIPT_WORDS } from "../../renderer/c/typescript.ts";
import { chainOf, columnIn, pathOf, sourceText } from "../program/calls.ts";
import type { TraceBuffer, TraceStep } from "./explain_record.ts";

/** Words that no array may be called: those of the language, in a module; what a script uses; what it declares itself. */
const RESERVED = new Set(
  ("break case catch class const continue debugger default delete do else enum export extends false finally for function if " +
    "import in instanceof new null return super switch this throw true try typeof var void while with yield let static await " +
    "async of implements interface package private protected public eval arguments " +
    "undefined NaN Infinity globalThis Math Number BigInt Deno console Error URL ArrayBuffer DataView Int8Array Uint8Array " +
    "Uint8ClampedArray Int16Array Uint16Array Int32Array Uint32Array BigInt64Array BigUint64Array Float16Array Float32Array " +
    "Float64Array data made recorded allowed name difference largest floor isFar $rounds$")
    .split(" ").concat(TYPESCRIPT_WORDS),
);

/** An identifier made of any text; "" of text without letters. */
function identifierOf(text: string): string {
  const clean = text.replace(/[^\p{ID_Continue}$]+/gu, "_").replace(/^_+|_+$/g, "").replace(
    /^(?!\p{ID_Start}|[_$])/u,
    "_",
  );
  return /\p{L}/u.test(clean) ? clean : "";
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

const ASSIGNS = [
  /\b(?:const|let|var)\s+([\p{ID_Start}_$][\p{ID_Continue}$]*)\s*(?::[^=]+)?=[^=>]/u,
  /\bthis\.#?([\p{ID_Start}_$][\p{ID_Continue}$]*)\s*(?:\?\?)?=[^=>]/u,
  /^(?:(?:readonly|private|public|protected|static|override)\s+)*#?([\p{ID_Start}_$][\p{ID_Continue}$]*)\s*(?::[^=]+)?=[^=>]/u,
];

/** A value that is no tensor: what is explained or profiled stands in the same line. */
const EXPLAINS = /^\s*(?:await\s+)?(?:\w+\.)?(?:explain|profile|record)\(/;

/** What a line calls the value that it makes, of several declarations the one in which the call stands; "" where it says nothing. */
function nameInLine(at: string): string {
  const text = sourceText(at), column = columnIn(at);
  for (const pattern of ASSIGNS) {
    const m = pattern.exec(text);
    if (m === null) continue;
    const rest = m.index + m[0].length - 1, all = [{ name: m[1], at: rest }, ...declaredBehind(text, rest)];
    const own = all.length === 1 ? all[0] : all.findLast((d) => column !== undefined && d.at < column);
    return own === undefined || EXPLAINS.test(text.slice(own.at)) ? "" : own.name;
  }
  return "";
}

/** The other names that a declaration declares, and where their values begin. */
function declaredBehind(text: string, from: number): { readonly name: string; readonly at: number }[] {
  const out: { name: string; at: number }[] = [],
    next = /,\s*([\p{ID_Start}_$][\p{ID_Continue}$]*)\s*(?::[^=,()]+)?=(?=[^=>])/uy;
  let depth = 0, quote = "";
  for (let i = from; i < text.length; i++) {
    const c = text[i];
    if (quote !== "") {
      if (c === "\\") i++;
      else if (c === quote) quote = "";
    } else if ("\"'`".includes(c)) quote = c;
    else if ("([{".includes(c)) depth++;
    else if (")]}".includes(c)) depth--;
    else if (c === "," && depth === 0) {
      next.lastIndex = i;
      const m = next.exec(text);
      if (m !== null) out.push({ name: m[1], at: next.lastIndex });
    }
  }
  return out;
}

/** The names of buffers, given when they are first asked for. */
export class BufferNames {
  private readonly names = new Map<TraceBuffer, string>();
  /** By line, or chain of calls over several, the last of its steps: that one makes what the line names. */
  private readonly lastOf = new Map<string, number>();

  /** @param given names of a state dict, which go first */
  constructor(
    private readonly steps: readonly TraceStep[],
    given: ReadonlyMap<TraceBuffer, string>,
    private readonly table: NameTable,
  ) {
    for (const [b, name] of given) this.names.set(b, table.take(name));
    for (const { item, number } of steps) {
      if (item.site !== undefined) this.lastOf.set(chainOf(String(item.site)), number);
    }
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
    const named = this.lastOf.get(chainOf(at)) === writer.number ? nameInLine(at) : "";
    return named || pathOf(site).method || plainName(writer);
  }
}

/** What a step makes, where no line tells. */
function plainName({ kind, item }: TraceStep): string {
  if (kind !== "kernel") return kind;
  return item.runner.kind === "CompiledKernel" && item.runner.name.startsWith("r_") ? "reduced" : "value";
}
