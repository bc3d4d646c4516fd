/**
 * What the arrays of a script are called: the names of a state dict, else what the user's line calls the value, else what
 * made it. Names are unique in a script.
 *
 * @module
 */
import { TYPESCRIPT_WORDS } from "../../renderer/c/typescript.ts";
import { pathOf, sourceText } from "../program/calls.ts";
import type { TraceBuffer, TraceStep } from "./explain_record.ts";

/** Words that no array may be called: those of the language, in a module; what a script uses; what it declares itself. */
const RESERVED = new Set(
  ("break case catch class const continue debugger default delete do else enum export extends false finally for function if " +
    "import in instanceof new null return super switch this throw true try typeof var void while with yield let static await " +
    "async of implements interface package private protected public eval arguments " +
    "undefined NaN Infinity globalThis Math Number BigInt Deno console Error URL ArrayBuffer DataView Int8Array Uint8Array " +
    "Uint8ClampedArray Int16Array Uint16Array Int32Array Uint32Array BigInt64Array BigUint64Array Float16Array Float32Array " +
    "Float64Array data made recorded allowed name difference largest floor isFar")
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

/** A value that is no tensor: what is explained stands in the same line. */
const EXPLAINS = /^\s*(?:await\s+)?(?:\w+\.)?explain\(/;

/** What a line calls the value that it makes; "" where it says nothing. */
function nameInLine(at: string): string {
  const text = sourceText(at);
  for (const pattern of ASSIGNS) {
    const m = pattern.exec(text);
    if (m === null) continue;
    const rest = text.slice(m.index + m[0].length - 1);
    return declaresMore(rest) || EXPLAINS.test(rest) ? "" : m[1];
  }
  return "";
}

/** Whether the rest of a declaration declares another name: then none is that of all that the line makes. */
function declaresMore(text: string): boolean {
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if ("([{".includes(c)) depth++;
    else if (")]}".includes(c)) depth--;
    else if (c === "," && depth === 0 && /^\s*[\p{ID_Start}_$][\p{ID_Continue}$]*\s*=[^=>]/u.test(text.slice(i + 1))) {
      return true;
    }
  }
  return false;
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
