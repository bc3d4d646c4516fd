/**
 * The C family: a writer of linear programs whose text comes from tables (types and one rule an op), so that C, CUDA and
 * WGSL differ in data and not in code. The writer itself keeps order: what a later store could change is put into a
 * local before that store; everything else with one use is written where it is used.
 *
 * @module
 */
import type { DType } from "../../dtype/dtype.ts";
import { vmax, vmin } from "../../uop/algebra/bounds.ts";
import { argOf, type ConstValue } from "../../uop/core/args.ts";
import { FUNCTION_OPS, opName, Ops } from "../../uop/core/ops.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { throughAfter } from "../../uop/rewrite/walk.ts";
import type { Capabilities, LinearProgram, Renderer } from "../renderer.ts";
import { LinearVisitor, type Place } from "../visitor.ts";

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
  /** Name of the base. */
  readonly name: string;
  /** The text of the flat index. */
  readonly at: string;
  /** That of the bits of lanes that a LOAD reads; of all where absent. */
  readonly mask?: string;
}

/** One language of the family, as data. */
export interface CLanguage {
  /** As errors and `info()` say it. */
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
  close?(program: LinearProgram, w: CWriter): readonly string[];
  /** The declaration of a local with its value, `changes` where it is assigned later; C's where absent. */
  define?(type: string, name: string, text: string, changes: boolean): string;
  /** Integers and loads of so many characters are written wherever they are used, rather than named; none where absent. */
  readonly repeats?: number;
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
  /** The function. */
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

/** A rule for each function of one float, from its name in lower case. */
export function functionRules(make: (name: string) => CRule): Record<number, CRule> {
  return Object.fromEntries(FUNCTION_OPS.map((op) => [op, make(opName[op].toLowerCase())]));
}

/** `(x)` without its parentheses, where they are one pair, and not those of a sequence. */
export function unwrap(text: string): string {
  if (!text.startsWith("(") || !text.endsWith(")")) return text;
  let depth = 0;
  for (let i = 0; i < text.length - 1; i++) {
    const c = text[i];
    if (c === "(" || c === "{") depth++;
    else if (c === "}") depth--;
    else if (c === "," && depth === 1) return text;
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

/** What a kernel that stands among others calls its arguments, and what it declares: b0, i0, acc0, local0, v0 where absent. */
export interface KernelNames {
  /** A buffer argument. */
  param(slot: number): string;
  /** The counter of a RANGE, an ACC, a LOCAL, or the value of any other uop that needs a name. */
  own(u: UOp): string;
  /** The loop of a RANGE has ended: its name is free. */
  leave(range: UOp): void;
}

/** Writes one program in one language. Rules use it to declare types and helpers, and to ask for texts. */
export class CWriter extends LinearVisitor<string> {
  /** Helpers that the source needs, by name. */
  readonly declarations: Map<string, string> = new Map();
  /** Free for the language: a fact about a value that later rules need, as the bits of a mask's lane. */
  readonly notes: Map<UOp, number> = new Map();
  private readonly lines: string[] = [];
  private readonly pending = new Map<UOp, Pending>();
  private readonly uses = new Map<UOp, number>();
  private reads = new Set<UOp>();
  private depth = 1;
  private next = 0;

  /** A writer of one program. @param names what stands for b0, i0, v0 and their like */
  constructor(
    readonly language: CLanguage,
    program: LinearProgram,
    private readonly names: KernelNames | undefined = undefined,
  ) {
    super(program, language.name);
  }

  /** Adds a declaration once. */
  declare(name: string, text: string): void {
    if (!this.declarations.has(name)) this.declarations.set(name, text);
  }
  /** The name of a type. */
  type(d: DType): string {
    return this.language.type(this, d);
  }

  /** Adds a line. */
  private line(text: string): void {
    this.lines.push("  ".repeat(this.depth) + text);
  }

  /** A literal. */
  protected constant(u: UOp): string {
    return this.language.literal(this, u.dtype, argOf(u, Ops.CONST));
  }
  /** An expression that is not written yet, for one use of it. */
  protected override unlisted(u: UOp): string {
    const p = this.pending.get(u);
    if (p === undefined) return super.unlisted(u);
    this.pending.delete(u);
    for (const r of p.reads) this.reads.add(r);
    return p.text;
  }

  /** Gives the text of a value a name where it is used more than once. */
  private define(u: UOp, text: string): string {
    const name = this.names?.own(u) ?? `v${this.next++}`;
    this.line(this.declaration(this.language.type(this, u.dtype, this.notes.get(u)), name, unwrap(text), false));
    this.values.set(u, name);
    return name;
  }
  /** Declares a name. */
  private declaration(type: string, name: string, text: string, changes: boolean): string {
    return this.language.define?.(type, name, text, changes) ?? `${type} ${name} = ${text};`;
  }

  /** Gives a value its text: inline where it is used once, else a local. `reads` were collected by `value`. */
  private put(u: UOp, text: string): string | undefined {
    const uses = this.uses.get(u) ?? 0;
    const reads = this.reads;
    if (reads.size > 0) this.reads = new Set();
    if (uses === 0) return;
    if (TRIVIAL.test(text) && reads.size === 0) return text;
    const repeats = text.length <= (this.language.repeats ?? 0) && (u.dtype.isInt || u.op === Ops.LOAD);
    if (repeats && reads.size === 0) return text;
    if (uses > 1 || text.length > MAX_INLINE) return this.define(u, text);
    this.pending.set(u, { text, reads: reads.size > 0 ? reads : NOTHING });
  }

  /** Writes pending expressions that read `what` (all that read anything: "memory"; all: "all") into locals. */
  private settle(what: UOp | "memory" | "all"): void {
    for (const [u, p] of this.pending) {
      if (what !== "all" && (what === "memory" ? p.reads.size === 0 : !p.reads.has(what))) continue;
      this.pending.delete(u);
      this.define(u, p.text);
    }
  }

  /** Adds a statement. */
  private statement(text: string): void {
    this.reads.clear();
    this.line(text);
  }
  /** Opens a block. */
  private enter(head: string): void {
    this.reads.clear();
    this.settle("all");
    this.line(`${head} {`);
    this.depth++;
  }
  /** Closes it. */
  private leave(): void {
    this.settle("memory");
    this.depth--;
    this.line("}");
  }

  /** The name of a buffer argument. */
  protected param(u: UOp): string {
    const { slot } = argOf(u, Ops.PARAM);
    return this.names?.param(slot) ?? `b${slot}`;
  }
  /** The name of a scalar argument. */
  protected variable(u: UOp): string {
    return `var_${identifier(argOf(u, Ops.VARIABLE).name)}`;
  }
  /** A hardware index. */
  protected override special(u: UOp): string {
    const { special } = this.language;
    return special === undefined ? this.unknown(u) : this.define(u, special(this, u));
  }
  /** Memory of the kernel. */
  protected local(u: UOp): string {
    const name = this.names?.own(u) ?? `local${argOf(u, Ops.LOCAL).id}`, text = this.language.local(this, u, name);
    if (text !== undefined) this.line(text);
    return name;
  }

  /** A variable that changes. */
  protected acc(u: UOp): string {
    const name = this.names?.own(u) ?? `acc${argOf(u, Ops.ACC).id}`;
    if (u.src.length === 0) { // a matrix unit sets it
      this.statement(`${this.type(u.dtype)} ${name};`);
      return name;
    }
    const text = this.language.convert(this, u.src[0], this.value(u.src[0]), u);
    this.statement(this.declaration(this.type(u.dtype), name, unwrap(text), true));
    return name;
  }
  /** Its value now. */
  protected readAcc(u: UOp, acc: UOp): string | undefined {
    this.reads.add(acc);
    if (this.notes.has(acc)) this.notes.set(u, this.notes.get(acc)!);
    return this.put(u, this.value(acc));
  }
  /** Another value for it. */
  protected writeAcc(acc: UOp, value: UOp): void {
    const text = this.language.convert(this, value, this.value(value), acc);
    this.settle(acc);
    this.statement(`${this.value(acc)} = ${unwrap(text)};`);
  }

  /** One INDEX read and written: its index is used twice. */
  protected override index(u: UOp): void {
    if ((this.uses.get(u) ?? 0) <= 1) return;
    for (const s of u.src.slice(1)) {
      const p = this.pending.get(s);
      if (p === undefined) continue;
      this.pending.delete(s);
      this.define(s, p.text);
    }
  }
  /** The address that a place is, and its gate. */
  private address({ base, index, gate }: Place): CAddress & { readonly gate: string | undefined } {
    const at = unwrap(this.value(index));
    return { base, name: this.value(base), at, gate: gate === undefined ? undefined : this.value(gate) };
  }

  /** Reads memory. */
  protected load(u: UOp, place: Place): string | undefined {
    const { gate, ...address } = this.address(place), { base } = place;
    const mask = u.src.length > 2 ? { mask: this.value(u.src[2]) } : undefined;
    let text = this.language.load(this, u, { ...address, ...mask });
    if (gate !== undefined) {
      const alt = u.src.length > 1
        ? this.language.convert(this, u.src[1], this.value(u.src[1]), u)
        : this.language.literal(this, u.dtype, 0);
      text = this.language.choose(this, u.dtype, gate, text, alt);
    }
    const changes = base.op !== Ops.PARAM || this.program.params[argOf(base, Ops.PARAM).slot].writes;
    if (changes) this.reads.add(base);
    return this.put(u, text);
  }
  /** Writes memory. */
  protected store(value: UOp, place: Place): void {
    const address = this.address(place), text = this.value(value);
    this.settle(place.base);
    this.statement(this.language.store(this, value, text, address));
  }

  /** A loop. */
  protected enterLoop(u: UOp): string {
    const { id, sub } = argOf(u, Ops.RANGE), name = this.names?.own(u) ?? (sub === 0 ? `i${id}` : `i${id}_${sub}`);
    this.enter(this.language.loop(this, u, name, this.value(u.src[0]))); // it stands beside "<"
    return name;
  }
  /** Its end. */
  protected leaveLoop(range: UOp): void {
    this.leave();
    this.names?.leave(range);
  }
  /** A condition. */
  protected enterIf(u: UOp): void {
    this.enter(`if (${unwrap(this.value(u.src[0]))})`);
  }
  /** Its end. */
  protected leaveIf(): void {
    this.leave();
  }
  /** Waits for the other threads of the group. */
  protected override barrier(): void {
    if (this.language.barrier === undefined) return;
    this.settle("memory");
    this.line(this.language.barrier);
  }

  /** An op of {@linkcode CLanguage.statements}. */
  private still(u: UOp, write: CStatement): string | undefined {
    const texts: string[] = [];
    for (const s of u.src) {
      if (s.dtype.kind === "void") continue; // order only
      if (throughAfter(s).op !== Ops.INDEX) texts.push(this.value(s));
      else {
        const { name, at, gate } = this.address(this.placeOf(s));
        texts.push(`&${name}[${at}]`);
        if (gate !== undefined) texts.push(gate);
      }
    }
    this.settle("memory");
    const name = u.dtype.kind === "void" ? undefined : `v${this.next++}`;
    this.statement(write(this, u, texts, name ?? ""));
    return name;
  }
  /** What is computed. */
  protected compute(u: UOp): string | undefined {
    const still = this.language.statements?.[u.op], rule = this.language.rules[u.op];
    if (still !== undefined) return this.still(u, still);
    if (rule === undefined) return this.unknown(u);
    return this.put(u, rule(this, u, u.src.map((s) => this.value(s))));
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
    this.walk();
    const indented = (lines: readonly string[]): string[] => lines.map((x) => `  ${x}`);
    const tail = this.language.close?.(this.program, this) ?? [];
    const body = [head[0], ...indented(head.slice(1)), ...this.lines, ...indented(tail), "}", ""].join("\n");
    return { declarations: this.declarations, body };
  }
}

/** A renderer of the family: declarations first, then the function. */
export class CStyleRenderer implements Renderer {
  /** A language, for a device that can do this. */
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
