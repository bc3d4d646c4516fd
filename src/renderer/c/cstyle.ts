/**
 * The C family: a writer of linear programs whose text comes from tables (types and one rule an op), so that C, CUDA and
 * WGSL differ in data and not in code. The writer itself keeps order: what a later store could change is put into a
 * local before that store; everything else with one use is written where it is used.
 *
 * @module
 */
import type { DType } from "../../dtype/dtype.ts";
import { SpecError } from "../../helpers/errors.ts";
import { vmax, vmin } from "../../uop/algebra/bounds.ts";
import { argOf, type ConstValue } from "../../uop/core/args.ts";
import { opName, Ops } from "../../uop/core/ops.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { baseOf, throughAfter } from "../../uop/rewrite/walk.ts";
import type { Capabilities, LinearProgram, Renderer } from "../renderer.ts";

/** Text of one op from the texts of its sources. Sources are safe to place anywhere in an expression. */
export type CRule = (w: CWriter, u: UOp, src: readonly string[]) => string;

/**
 * Text of an op that is a statement of its own, with `;`. Sources are as in rules, and an INDEX is a pointer followed, if it
 * is gated, by its gate. `name` is that of the local that the statement has to declare, where the op has a value.
 */
export type CStatement = (w: CWriter, u: UOp, src: readonly string[], name: string) => string;

/** A place in memory: an element of a buffer argument or of kernel-local memory. */
export interface CAddress {
  /** PARAM or LOCAL. */
  readonly base: UOp;
  /** Name of the base, and the text of the flat index. */
  readonly name: string;
  readonly at: string;
}

/** One language of the family, as data. */
export interface CLanguage {
  readonly name: string;
  /** Rules by op: every op that a program may hold, except those that the writer handles (control, memory, order). */
  readonly rules: Readonly<Record<number, CRule>>;
  /** Ops that stay where they stand in the program: exchanges among threads, asynchronous copies, matrix units. */
  readonly statements?: Readonly<Record<number, CStatement>>;
  /**
   * The name of a type of locals; declares through {@linkcode CWriter.declare} what it needs. `note` is what
   * {@linkcode CWriter.notes} holds for the value.
   */
  type(w: CWriter, d: DType, note?: number): string;
  /** A constant. */
  literal(w: CWriter, d: DType, value: ConstValue): string;
  /** The text of a LOAD from memory. */
  load(w: CWriter, u: UOp, address: CAddress): string;
  /** The statement that writes `value`. */
  store(w: CWriter, value: UOp, text: string, address: CAddress): string;
  /** The text of `value` in the form in which `target` (an ACC or a LOAD) keeps its values. */
  convert(w: CWriter, value: UOp, text: string, target: UOp): string;
  /** `condition ? a : b` for a scalar condition, where only the chosen side may be evaluated. */
  choose(w: CWriter, d: DType, condition: string, a: string, b: string): string;
  /** Head of the function, and the locals that its arguments are unpacked into. */
  open(w: CWriter, program: LinearProgram, symbol: string): readonly string[];
  /** Head of the loop of a RANGE. */
  loop(w: CWriter, u: UOp, name: string, end: string): string;
  /** Declares a LOCAL; undefined where {@linkcode CWriter.declare} did. */
  local(w: CWriter, u: UOp, name: string): string | undefined;
  /** Statements that end the function; none where absent. */
  close?(program: LinearProgram): readonly string[];
  /** The declaration of a local with its value, `changes` where it is assigned later; C's where absent. */
  define?(type: string, name: string, text: string, changes: boolean): string;
  /** A hardware index (SPECIAL); absent where there are none. */
  special?(w: CWriter, u: UOp): string;
  /** Waits for the other threads of the group; absent where there are none. */
  readonly barrier?: string;
  /** The function `symbol` that calls the one of the user's text; absent where that is launched itself. */
  calls?(program: LinearProgram, symbol: string): string;
}

/** A rendered kernel: what it shares with other kernels of the same unit, and its own function. */
export interface CSource {
  /** Declarations by name, in order of dependence. */
  readonly declarations: ReadonlyMap<string, string>;
  readonly body: string;
}

/** An expression not written yet. */
interface Pending {
  readonly text: string;
  /** Memory and accumulators that it reads: it must be evaluated before they change. */
  readonly reads: ReadonlySet<UOp>;
}

const NOTHING: ReadonlySet<UOp> = new Set();
/** Longer expressions get a name. */
const MAX_INLINE = 100;
const TRIVIAL = /^(?:\w+(?:\.\w+)?|\(-[\w.]+\))$/;

/** `(x)` without its parentheses, where they are one pair. */
export function unwrap(text: string): string {
  if (!text.startsWith("(") || !text.endsWith(")")) return text;
  let depth = 0;
  for (let i = 0; i < text.length - 1; i++) {
    const c = text[i];
    if (c === "(") depth++;
    else if (c === ")" && --depth === 0) return text;
  }
  return text.slice(1, -1);
}

/** An identifier made of any text. */
export function identifier(text: string): string {
  const clean = text.replace(/[^A-Za-z0-9_]/g, "_");
  return /^[A-Za-z_]/.test(clean) ? clean : `_${clean}`;
}

/** True where an integer ADD, MUL, SUB or NEG cannot leave its dtype: then plain signed arithmetic is defined. */
export function staysInRange(u: UOp): boolean {
  const [a, b, c] = u.src;
  let lo = vmin(a), hi = vmax(a);
  if (u.op === Ops.NEG) [lo, hi] = [-hi, -lo];
  else if (u.op === Ops.ADD) [lo, hi] = [lo + vmin(b), hi + vmax(b)];
  else if (u.op === Ops.SUB) [lo, hi] = [lo - vmax(b), hi - vmin(b)];
  else {
    const corners = [lo * vmin(b), lo * vmax(b), hi * vmin(b), hi * vmax(b)];
    [lo, hi] = [Math.min(...corners), Math.max(...corners)];
    if (u.op === Ops.MULACC) [lo, hi] = [Math.min(lo, lo + vmin(c)), Math.max(hi, hi + vmax(c))];
  }
  return lo >= -(2 ** (u.dtype.bits - 1)) && hi < 2 ** (u.dtype.bits - 1) && Math.max(-lo, hi) <= 2 ** 53;
}

/** Writes one program in one language. Rules use it to declare types and helpers, and to ask for texts. */
export class CWriter {
  readonly declarations: Map<string, string> = new Map();
  /** Free for the language: a fact about a value that later rules need, as the bits of a mask's lane. */
  readonly notes: Map<UOp, number> = new Map();
  private readonly lines: string[] = [];
  private readonly names = new Map<UOp, string>();
  private readonly pending = new Map<UOp, Pending>();
  private readonly uses = new Map<UOp, number>();
  private reads = new Set<UOp>();
  private depth = 1;
  private next = 0;

  constructor(readonly language: CLanguage, readonly program: LinearProgram) {}

  /** Adds a declaration once. */
  declare(name: string, text: string): void {
    if (!this.declarations.has(name)) this.declarations.set(name, text);
  }
  /** The name of a type. */
  type(d: DType): string {
    return this.language.type(this, d);
  }

  private line(text: string): void {
    this.lines.push("  ".repeat(this.depth) + text);
  }

  /** The text of a value, for one use of it. */
  private take(u: UOp): string {
    const name = this.names.get(u);
    if (name !== undefined) return name;
    if (u.op === Ops.CONST) return this.language.literal(this, u.dtype, u.arg as ConstValue);
    if (u.op === Ops.AFTER) return this.take(u.src[0]);
    const p = this.pending.get(u);
    if (p === undefined) {
      throw new SpecError(`${opName[u.op]} is used before it stands in the program ${this.program.name}`);
    }
    this.pending.delete(u);
    for (const r of p.reads) this.reads.add(r);
    return p.text;
  }

  private define(u: UOp, text: string): void {
    const name = `v${this.next++}`;
    this.line(this.declaration(this.language.type(this, u.dtype, this.notes.get(u)), name, unwrap(text), false));
    this.names.set(u, name);
  }
  private declaration(type: string, name: string, text: string, changes: boolean): string {
    return this.language.define?.(type, name, text, changes) ?? `${type} ${name} = ${text};`;
  }

  /** Gives a value its text: inline where it is used once, else a local. `reads` were collected by `take`. */
  private put(u: UOp, text: string): void {
    const uses = this.uses.get(u) ?? 0;
    const reads = this.reads;
    if (reads.size > 0) this.reads = new Set();
    if (uses === 0) return;
    if (TRIVIAL.test(text) && reads.size === 0) this.names.set(u, text);
    else if (uses === 1 && text.length <= MAX_INLINE) {
      this.pending.set(u, { text, reads: reads.size > 0 ? reads : NOTHING });
    } else this.define(u, text);
  }

  /** Writes pending expressions that read `what` (all that read anything: "memory"; all: "all") into locals. */
  private settle(what: UOp | "memory" | "all"): void {
    for (const [u, p] of this.pending) {
      if (what !== "all" && (what === "memory" ? p.reads.size === 0 : !p.reads.has(what))) continue;
      this.pending.delete(u);
      this.define(u, p.text);
    }
  }

  private statement(text: string): void {
    this.reads.clear();
    this.line(text);
  }
  private enter(head: string): void {
    this.reads.clear();
    this.settle("all");
    this.line(`${head} {`);
    this.depth++;
  }
  private leave(): void {
    this.settle("memory");
    this.depth--;
    this.line("}");
  }

  /** The address of an INDEX that is about to be used, and its gate. */
  private address(u: UOp): CAddress & { readonly gate: string | undefined } {
    u = throughAfter(u);
    if (u.op !== Ops.INDEX) throw new SpecError(`${opName[u.op]} is no address in the program ${this.program.name}`);
    const base = baseOf(u);
    return {
      base,
      name: this.names.get(base)!,
      at: unwrap(this.take(u.src[1])),
      gate: u.src.length > 2 ? this.take(u.src[2]) : undefined,
    };
  }

  private load(u: UOp): void {
    const base = baseOf(u.src[0]);
    if (base.op === Ops.ACC) {
      this.reads.add(base);
      if (this.notes.has(base)) this.notes.set(u, this.notes.get(base)!);
      return this.put(u, this.names.get(base)!);
    }
    const { gate, ...address } = this.address(u.src[0]);
    let text = this.language.load(this, u, address);
    if (gate !== undefined) {
      const alt = u.src.length > 1
        ? this.language.convert(this, u.src[1], this.take(u.src[1]), u)
        : this.language.literal(this, u.dtype, 0);
      text = this.language.choose(this, u.dtype, gate, text, alt);
    }
    const changes = base.op !== Ops.PARAM || this.program.params[argOf(base, Ops.PARAM).slot].writes;
    if (changes) this.reads.add(base);
    this.put(u, text);
  }

  private store(u: UOp): void {
    const base = baseOf(u.src[0]), value = u.src[1];
    if (base.op === Ops.ACC) {
      const text = this.language.convert(this, value, this.take(value), base);
      this.settle(base);
      return this.statement(`${this.names.get(base)} = ${unwrap(text)};`);
    }
    const { gate, ...address } = this.address(u.src[0]);
    if (gate !== undefined) throw new SpecError(`A gated STORE in the program ${this.program.name}`);
    const text = this.take(value);
    this.settle(base);
    this.statement(this.language.store(this, value, text, address));
  }

  /** An op of {@linkcode CLanguage.statements}. */
  private still(u: UOp, write: CStatement): void {
    const texts: string[] = [];
    for (const s of u.src) {
      if (s.dtype.kind === "void") continue; // order only
      const place = throughAfter(s);
      if (place.op !== Ops.INDEX) texts.push(this.take(s));
      else {
        const { name, at, gate } = this.address(place);
        texts.push(`&${name}[${at}]`);
        if (gate !== undefined) texts.push(gate);
      }
    }
    this.settle("memory");
    const name = u.dtype.kind === "void" ? "" : `v${this.next++}`;
    this.statement(write(this, u, texts, name));
    if (name !== "") this.names.set(u, name);
  }

  private visit(u: UOp): void {
    const still = this.language.statements?.[u.op];
    if (still !== undefined) return this.still(u, still);
    switch (u.op) {
      case Ops.CONST:
      case Ops.SINK:
      case Ops.GROUP:
      case Ops.TUPLE:
      case Ops.AFTER:
        return;
      case Ops.PARAM:
        this.names.set(u, `b${argOf(u, Ops.PARAM).slot}`);
        return;
      case Ops.VARIABLE:
        this.names.set(u, `var_${identifier(argOf(u, Ops.VARIABLE).name)}`);
        return;
      case Ops.SPECIAL:
        if (this.language.special === undefined) break;
        return this.define(u, this.language.special(this, u));
      case Ops.RANGE: {
        const { id, sub } = argOf(u, Ops.RANGE);
        const name = sub === 0 ? `i${id}` : `i${id}_${sub}`;
        this.names.set(u, name);
        return this.enter(this.language.loop(this, u, name, this.take(u.src[0]))); // it stands beside "<"
      }
      case Ops.IF:
        return this.enter(`if (${unwrap(this.take(u.src[0]))})`);
      case Ops.END:
      case Ops.ENDIF:
        return this.leave();
      case Ops.BARRIER:
        if (this.language.barrier === undefined) return;
        this.settle("memory");
        return this.line(this.language.barrier);
      case Ops.LOCAL: {
        const name = `local${argOf(u, Ops.LOCAL).id}`, text = this.language.local(this, u, name);
        this.names.set(u, name);
        if (text !== undefined) this.line(text);
        return;
      }
      case Ops.ACC: {
        const name = `acc${argOf(u, Ops.ACC).id}`;
        const text = this.language.convert(this, u.src[0], this.take(u.src[0]), u);
        this.names.set(u, name);
        return this.statement(this.declaration(this.type(u.dtype), name, unwrap(text), true));
      }
      case Ops.INDEX:
        // one INDEX read and written: its index is used twice
        if ((this.uses.get(u) ?? 0) > 1) {
          for (const s of u.src.slice(1)) {
            const p = this.pending.get(s);
            if (p === undefined) continue;
            this.pending.delete(s);
            this.define(s, p.text);
          }
        }
        return;
      case Ops.LOAD:
        return this.load(u);
      case Ops.STORE:
        return this.store(u);
    }
    const rule = this.language.rules[u.op];
    if (rule === undefined) throw new SpecError(`${this.language.name} cannot write ${opName[u.op]}`);
    this.put(u, rule(this, u, u.src.map((s) => this.take(s))));
  }

  /** The whole function. */
  write(symbol: string): CSource {
    for (const u of this.program.uops) {
      if (u.op === Ops.AFTER) continue; // its users are users of what it orders
      for (const x of u.src) {
        const s = throughAfter(x);
        this.uses.set(s, (this.uses.get(s) ?? 0) + 1);
      }
    }
    const head = this.language.open(this, this.program, symbol);
    for (const u of this.program.uops) this.visit(u);
    const indented = (lines: readonly string[]): string[] => lines.map((x) => `  ${x}`);
    const tail = this.language.close?.(this.program) ?? [];
    const body = [head[0], ...indented(head.slice(1)), ...this.lines, ...indented(tail), "}", ""].join("\n");
    return { declarations: this.declarations, body };
  }
}

/** A renderer of the family: declarations first, then the function. */
export class CStyleRenderer implements Renderer {
  constructor(readonly language: CLanguage, readonly caps: Capabilities) {}
  get name(): string {
    return this.language.name;
  }
  /** Declarations and function apart, the function under another name than the program's; the user's text as it is. */
  parts(program: LinearProgram, symbol: string): CSource {
    const { text } = program;
    if (text !== undefined) {
      // sources are kept by their text, which may have several functions
      const end = this.language.calls?.(program, symbol) ?? `// ${program.name}\n`;
      return { declarations: new Map(), body: `${text}\n${end}` };
    }
    return new CWriter(this.language, program).write(symbol);
  }
  render(program: LinearProgram): string {
    const { declarations, body } = this.parts(program, identifier(program.name));
    return [...declarations.values(), body].join("\n");
  }
}
