/**
 * The numbers behind one element: the expression of the kernel that made it, evaluated at that element alone, of sums the
 * largest terms first, and so on for the elements that it was made of. In: a trace with its values; out: a tree.
 *
 * @module
 */
import type { DType } from "../../dtype/dtype.ts";
import { numbersOf } from "../../dtype/numbers.ts";
import { unwrap } from "../../renderer/c/cstyle.ts";
import { naturalExponent } from "../../renderer/natural.ts";
import { evalOp } from "../../uop/algebra/eval.ts";
import { argOf, type ConstValue, Int64 } from "../../uop/core/args.ts";
import { carrierOf } from "../../uop/core/carrier.ts";
import { isAlu, isComparison, opName, Ops } from "../../uop/core/ops.ts";
import { rangesOf } from "../../uop/core/ranges.ts";
import { toposort, type UOp, variable } from "../../uop/core/uop.ts";
import type { Trace, TraceBuffer, TraceStep } from "./explain_record.ts";
import { numberText, positionText } from "./explain_values.ts";
import { paramTypes, plainAst } from "./script_kernels.ts";

/** One element, and what it was made of. */
export interface ElementTree {
  /** As "hidden[3, 1]". */
  readonly name: string;
  /** What it is; undefined where values were not kept. */
  readonly value: number | bigint | undefined;
  /** How it was computed, line by line; none for what was in memory before. */
  readonly how: readonly string[];
  /** Elements that it was computed from, those that count most first. */
  readonly from: readonly ElementTree[];
}

/** Iterations of a sum, and of all sums of an element, that are evaluated. */
const MOST_TERMS = 1 << 20;
/** Terms of a sum that are shown, and characters of an expression. */
const SHOWN_TERMS = 4, WIDEST = 160;

type Env = ReadonlyMap<UOp, number>;

/** A LOAD of the kernel's memory, at one element. */
interface Read {
  readonly buffer: TraceBuffer;
  readonly at: number;
  readonly value: ConstValue;
  /** The kind of number that the kernel takes the bytes for, where that is another one. */
  readonly as?: DType;
}

function toConst(x: number | bigint): ConstValue {
  if (typeof x === "number") return x;
  const n = Number(x);
  return Number.isSafeInteger(n) ? n : Int64.fromBigInt(x);
}
function toNumber(x: ConstValue): number {
  return x instanceof Int64 ? Number(x.toBigInt()) : x;
}
function text(x: ConstValue): string {
  return x instanceof Int64 ? `${x}` : numberText(x);
}

/** An expression of one kernel at one place. */
class Evaluation {
  private memo = new Map<UOp, ConstValue | undefined>();
  private left: { terms: number };

  constructor(
    private readonly read: (slot: number, at: number) => Read | undefined,
    private readonly nameOf: (r: Read) => string,
    private readonly env: Env,
    left?: { terms: number },
  ) {
    this.left = left ?? { terms: MOST_TERMS };
  }

  private at(more: Env): Evaluation {
    return new Evaluation(this.read, this.nameOf, new Map([...this.env, ...more]), this.left);
  }

  /** The value of a node; undefined where it is not known. */
  value(u: UOp): ConstValue | undefined {
    if (this.memo.has(u)) return this.memo.get(u);
    const v = this.compute(u);
    this.memo.set(u, v);
    return v;
  }

  private compute(u: UOp): ConstValue | undefined {
    switch (u.op) {
      case Ops.CONST:
        return argOf(u, Ops.CONST);
      case Ops.RANGE:
      case Ops.VARIABLE:
        return this.env.get(u);
      case Ops.LOAD:
        return this.load(u);
      case Ops.GETTUPLE:
        return u.src.length > 1 ? undefined : this.reduced(u.src[0])?.[u.arg as number];
      case Ops.REDUCE:
        return this.reduced(u)?.[0];
      case Ops.WHERE: {
        const c = this.value(u.src[0]);
        return c === undefined ? undefined : this.value(u.src[toNumber(c) !== 0 ? 1 : 2]);
      }
    }
    if (!isAlu(u.op)) return undefined;
    const values: ConstValue[] = [];
    for (const s of u.src) {
      const v = this.value(s);
      if (v === undefined) return undefined;
      values.push(v);
    }
    return evalOp(u.op, u.dtype, u.src[0].dtype, values);
  }

  /** The element that a LOAD reads; false where its gate is closed. */
  private place(u: UOp): { readonly base: UOp; readonly at: number } | false | undefined {
    const [base, index, gate] = u.src[0].src;
    if (gate !== undefined && toNumber(this.value(gate) ?? 0) === 0) return false;
    const at = this.value(index);
    return at === undefined ? undefined : { base, at: toNumber(at) };
  }
  private load(u: UOp): ConstValue | undefined {
    const place = this.place(u);
    if (place === undefined) return undefined;
    if (place === false) return u.src.length > 1 ? this.value(u.src[1]) : 0;
    const { base, at } = place;
    if (base.op === Ops.STAGE) return this.inStage(base, at).value(base.src[0]);
    return base.op === Ops.PARAM ? this.read(argOf(base, Ops.PARAM).slot, at)?.value : undefined;
  }
  /** Where the element of a row is computed. */
  private inStage(stage: UOp, flat: number): Evaluation {
    const own = stage.src.slice(1), more = new Map<UOp, number>();
    for (let i = own.length - 1; i >= 0; i--) {
      const n = toNumber(this.value(own[i].src[0]) ?? 1);
      more.set(own[i], i === 0 ? flat : flat % n);
      flat = Math.floor(flat / n);
    }
    return this.at(more);
  }

  /** Calls `visit` for each iteration of a REDUCE; false where there are too many. */
  private iterate(u: UOp, visit: (e: Evaluation) => void): boolean {
    const ranges = u.src.slice(carrierOf(u).lanes), sizes = ranges.map((r) => toNumber(this.value(r.src[0]) ?? 0));
    const count = sizes.reduce((n, s) => n * s, 1);
    if ((this.left.terms -= count) < 0) return false;
    const index = sizes.map(() => 0);
    for (let n = 0; n < count; n++) {
      visit(this.at(new Map(ranges.map((r, i) => [r, index[i]]))));
      for (let i = index.length - 1; i >= 0 && ++index[i] === sizes[i]; i--) index[i] = 0;
    }
    return true;
  }
  private reduced(u: UOp): readonly ConstValue[] | undefined {
    const carrier = carrierOf(u), n = carrier.lanes;
    const sides = ["l", "r"].map((s) => carrier.dtypes.map((d, i) => variable(`${s}${i}`, -Infinity, Infinity, d)));
    const combined = carrier.combine(sides[0], sides[1]);
    let total: readonly (ConstValue | undefined)[] = carrier.identity;
    const isDone = this.iterate(u, (e) => {
      const lifts = u.src.slice(0, n).map((x) => e.value(x)), env = new Map<UOp, number>();
      // identities and values of up to 2^53: what is larger is not explained
      sides[0].forEach((v, i) => env.set(v, toNumber(total[i] ?? NaN)));
      sides[1].forEach((v, i) => env.set(v, toNumber(lifts[i] ?? NaN)));
      const at = new Evaluation(this.read, this.nameOf, env, this.left);
      total = combined.map((x) => at.value(x));
    });
    return isDone && total.every((x) => x !== undefined) ? total as ConstValue[] : undefined;
  }

  /** Reads of memory in an expression, rows included, outside of its sums. */
  reads(u: UOp): Read[] {
    const found: Read[] = [];
    for (const x of toposort([u], (v) => v.op !== Ops.REDUCE && v.op !== Ops.LOAD)) {
      if (x.op !== Ops.LOAD) continue;
      const place = this.place(x);
      if (place === undefined || place === false) continue;
      const { base, at } = place;
      if (base.op === Ops.STAGE) found.push(...this.inStage(base, at).reads(base.src[0]));
      else if (base.op === Ops.PARAM) {
        const r = this.read(argOf(base, Ops.PARAM).slot, at);
        if (r !== undefined) found.push(r);
      }
    }
    return found;
  }
  /** Sums, maxima and products in an expression, rows included, each where it is computed. */
  reduces(u: UOp): { readonly u: UOp; readonly at: Evaluation }[] {
    return toposort([u], (v) => v.op !== Ops.REDUCE && v.op !== Ops.LOAD).flatMap((x) => {
      if (x.op === Ops.REDUCE) return [{ u: x, at: this as Evaluation }];
      const place = x.op === Ops.LOAD ? this.place(x) : undefined;
      if (place === undefined || place === false || place.base.op !== Ops.STAGE) return [];
      return this.inStage(place.base, place.at).reduces(place.base.src[0]);
    });
  }
  /** The terms of a REDUCE with their values, the largest first; undefined where there are too many. */
  terms(u: UOp): { readonly at: Evaluation; readonly value: number }[] | undefined {
    const found: { at: Evaluation; value: number }[] = [],
      isAll = this.iterate(u, (e) => {
        found.push({ at: e, value: toNumber(e.value(u.src[0]) ?? NaN) });
      });
    const isMax = carrierOf(u).key.startsWith("MAX");
    const size = (x: number): number => x !== x ? Infinity : isMax ? x : Math.abs(x);
    return isAll ? found.sort((a, b) => size(b.value) - size(a.value)) : undefined;
  }

  /** Where in an expression what is not finite begins, as "log2(x[2] (-1)) = NaN"; undefined where all is finite. */
  notFinite(u: UOp): string | undefined {
    const v = this.value(u), here = (): string => `${unwrap(this.text(u))} = ${v === undefined ? "?" : text(v)}`;
    if (v === undefined || v instanceof Int64 || v - v === 0) return undefined;
    switch (u.op) {
      case Ops.REDUCE:
      case Ops.GETTUPLE: {
        const of = u.op === Ops.REDUCE ? u : u.src[0];
        if (of.op !== Ops.REDUCE || carrierOf(of).lanes > 1) return here();
        const terms = this.terms(of) ?? [], first = terms.find((t) => v !== v && t.value !== t.value) ?? terms[0];
        return first?.at.notFinite(of.src[0]) ?? here();
      }
      case Ops.WHERE:
        return this.notFinite(u.src[toNumber(this.value(u.src[0])!) !== 0 ? 1 : 2]);
      case Ops.LOAD: {
        const place = this.place(u);
        if (place === undefined || place === false || place.base.op !== Ops.STAGE) return here();
        return this.inStage(place.base, place.at).notFinite(place.base.src[0]);
      }
    }
    for (const s of u.src) {
      const found = s.dtype.isFloat ? this.notFinite(s) : undefined;
      if (found !== undefined) return found;
    }
    return here();
  }

  /** An expression in numbers and names. */
  text(u: UOp): string {
    const s = (i: number): string => this.text(u.src[i]);
    switch (u.op) {
      case Ops.CAST:
      case Ops.BITCAST:
        return s(0);
      case Ops.WHERE: {
        const c = this.value(u.src[0]);
        return c === undefined ? "?" : s(toNumber(c) !== 0 ? 1 : 2);
      }
      case Ops.ADD: {
        const [, b] = u.src, isMinus = b.op === Ops.MUL && b.src[1].isConst(-1);
        return `(${s(0)} ${isMinus ? `- ${this.text(b.src[0])}` : `+ ${s(1)}`})`;
      }
      case Ops.MUL:
        return `${s(0)} * ${s(1)}`;
      case Ops.FDIV:
        return `${s(0)} / ${s(1)}`;
      case Ops.MAX:
        return `max(${s(0)}, ${s(1)})`;
      case Ops.EXP2: {
        const y = naturalExponent(u);
        return y === undefined ? `2^${s(0)}` : `exp(${this.text(y)})`;
      }
      case Ops.REDUCE:
      case Ops.GETTUPLE: {
        const v = this.value(u), of = u.op === Ops.REDUCE ? u : u.src[0];
        return `${reduceName(of)} ${v === undefined ? "?" : text(v)}`;
      }
      case Ops.LOAD: {
        const place = this.place(u);
        if (place === undefined || place === false) return text(this.value(u) ?? NaN);
        if (place.base.op === Ops.STAGE) return this.inStage(place.base, place.at).text(place.base.src[0]);
        const r = this.reads(u)[0];
        return r === undefined ? "?" : `${this.nameOf(r)} (${text(r.value)})`;
      }
    }
    if (isAlu(u.op) && !isComparison(u.op) && u.src.length === 1) return `${opName[u.op].toLowerCase()}(${s(0)})`;
    const v = this.value(u);
    return v === undefined ? "?" : text(v);
  }
}

function reduceName(u: UOp): string {
  const { key } = carrierOf(u);
  return key === "ADD" ? "sum" : key === "MAX" ? "max" : key === "MUL" ? "product" : key.toLowerCase();
}

function clipped(line: string): string {
  return line.length > WIDEST ? `${line.slice(0, WIDEST - 4)} ...` : line;
}

/** What a trace tells of elements. */
export class Elements {
  private readonly asts = new Map<TraceStep, UOp | undefined>();
  private readonly decoded = new WeakMap<Uint8Array, Map<DType, ReturnType<typeof numbersOf>>>();

  /** @param nameOf what a buffer is called @param shapeOf its shape */
  constructor(
    private readonly trace: Trace,
    private readonly nameOf: (b: TraceBuffer) => string,
    private readonly shapeOf: (b: TraceBuffer) => readonly number[],
  ) {}

  /** The last step before number `before` that wrote a buffer. */
  private writer(b: TraceBuffer, before: number): TraceStep | undefined {
    const at = b.writers.filter((n) => n < before).pop();
    return at === undefined ? undefined : this.trace.steps[at];
  }
  /** The step that computed what a buffer held before another; none where that was in memory, or came from there. */
  private maker(b: TraceBuffer, before: number): TraceStep | undefined {
    const step = this.writer(b, before);
    return step?.kind === "copy" && step.bufs[1].writers.length === 0 ? undefined : step;
  }
  /** The numbers of a buffer as step `before` finds them, or what its bytes are as those of another dtype. */
  private numbers(b: TraceBuffer, before: number, dtype: DType = b.dtype): ReturnType<typeof numbersOf> | undefined {
    const bytes = this.bytesOf(b, before);
    if (bytes === undefined) return undefined;
    let known = this.decoded.get(bytes);
    if (known === undefined) this.decoded.set(bytes, known = new Map());
    let numbers = known.get(dtype);
    if (numbers === undefined) known.set(dtype, numbers = numbersOf(bytes, dtype));
    return numbers;
  }
  private bytesOf(b: TraceBuffer, before: number): Uint8Array | undefined {
    const step = this.writer(b, before), { part, buffer: { nbytes } } = b;
    const own = step === undefined ? b.initial : step.values[step.writes.indexOf(b)];
    return own ?? (part && this.bytesOf(part.of, before)?.slice(part.offset, part.offset + nbytes));
  }
  private name(b: TraceBuffer, at: number): string {
    const shape = this.shapeOf(b);
    return `${this.nameOf(b)}${shape.length === 0 ? "" : positionText(at, shape)}`;
  }

  /** The tree of an element, with about `limit` lines. */
  tree(b: TraceBuffer, at: number, limit: number, before: number = Infinity): ElementTree {
    const left = { lines: limit };
    return this.grow(b, at, before, left);
  }

  /** What in the expression of a step made an element NaN or infinite; undefined where that is not known. */
  notFinite(step: TraceStep, b: TraceBuffer, at: number): string | undefined {
    const found = step.kind === "kernel" ? this.store(step, b, at) : undefined;
    const text = found?.evaluation.notFinite(found.expression);
    return text === undefined ? undefined : clipped(text);
  }

  private grow(b: TraceBuffer, at: number, before: number, left: { lines: number }): ElementTree {
    const name = this.name(b, at), value = this.numbers(b, before)?.[at], step = this.maker(b, before);
    left.lines--;
    const leaf = (how: string[]): ElementTree => ({ name, value, how, from: [] });
    if (step === undefined || left.lines <= 0) return leaf([]);
    if (step.kind !== "kernel") {
      if (step.kind !== "copy") return leaf([step.kind]);
      return { name, value, how: ["copied"], from: [this.grow(step.bufs[1], at, step.number, left)] };
    }
    const found = this.store(step, b, at);
    if (found === undefined) return leaf(["by a kernel whose expression is not known"]);
    const { evaluation, expression } = found, how = [clipped(unwrap(evaluation.text(expression)))];
    const reads = new Map<string, Read>();
    const add = (list: readonly Read[]): void => {
      for (const r of list) reads.set(`${r.buffer.id} ${r.at}`, r);
    };
    add(evaluation.reads(expression));
    for (const { u, at } of evaluation.reduces(expression)) {
      const terms = at.terms(u);
      if (terms === undefined) {
        how.push(`${reduceName(u)} of more terms than are looked at`);
        continue;
      }
      const shown = terms.slice(0, SHOWN_TERMS);
      how.push(`${reduceName(u)} of ${terms.length} terms${terms.length > shown.length ? ", the largest" : ""}:`);
      for (const t of shown) {
        how.push(clipped(`  ${unwrap(t.at.text(u.src[0]))} = ${numberText(t.value)}`));
        add(t.at.reads(u.src[0]));
      }
    }
    left.lines -= how.length;
    const inner = [...reads.values()].filter((r) => this.maker(r.buffer, step.number) !== undefined);
    const from: ElementTree[] = [];
    for (const r of inner) {
      if (left.lines <= 0) break;
      from.push(this.grow(r.buffer, r.at, step.number, left));
    }
    return { name, value, how, from };
  }

  /** The expression that a kernel stored in an element, where it was evaluated. */
  private store(
    step: TraceStep,
    b: TraceBuffer,
    at: number,
  ): { readonly evaluation: Evaluation; readonly expression: UOp } | undefined {
    let ast = this.asts.get(step);
    if (!this.asts.has(step)) this.asts.set(step, ast = plainAst(step));
    if (ast === undefined) return undefined;
    const types = paramTypes(ast);
    const read = (slot: number, i: number): Read | undefined => {
      const buffer = step.bufs[slot], as = types[slot] ?? buffer.dtype, x = this.numbers(buffer, step.number, as)?.[i];
      if (x === undefined) return undefined;
      const value = toConst(x);
      return as === buffer.dtype
        ? { buffer, at: i, value }
        : { buffer, at: Math.floor(i * as.itemsize / buffer.dtype.itemsize), value, as };
    };
    const name = (r: Read): string => `${this.name(r.buffer, r.at)}${r.as === undefined ? "" : ` as ${r.as}`}`;
    for (const store of toposort(ast).filter((u) => u.op === Ops.STORE && u.src[0].op === Ops.INDEX)) {
      const [base, index] = store.src[0].src;
      if (base.op !== Ops.PARAM || step.bufs[argOf(base, Ops.PARAM).slot] !== b) continue;
      const env = solve(index, at, (env) => new Evaluation(read, name, env));
      if (env !== undefined) return { evaluation: new Evaluation(read, name, env), expression: store.src[1] };
    }
    return undefined;
  }
}

/** Values of the ranges of an index for which it is `want`; undefined where there are none, or too many to try. */
function solve(index: UOp, want: number, evaluate: (env: Env) => Evaluation): Env | undefined {
  const ranges = rangesOf(index), sizes = ranges.map((r) => Number(r.src[0].arg ?? 0));
  const at = (values: readonly number[]): number =>
    Number(evaluate(new Map(ranges.map((r, i) => [r, values[i]]))).value(index) ?? NaN);
  const zeros = ranges.map(() => 0), start = at(zeros);
  // most indices are sums of ranges times strides: the digits of what is left
  const strides = ranges.map((_, i) => sizes[i] > 1 ? at(zeros.map((z, k) => k === i ? 1 : z)) - start : 0);
  const order = ranges.map((_, i) => i).filter((i) => strides[i] > 0).sort((a, b) => strides[b] - strides[a]);
  const digits = [...zeros];
  let left = want - start;
  for (const i of order) {
    digits[i] = Math.min(sizes[i] - 1, Math.floor(left / strides[i]));
    left -= digits[i] * strides[i];
  }
  if (digits.every((d) => d >= 0) && at(digits) === want) return new Map(ranges.map((r, i) => [r, digits[i]]));
  const count = sizes.reduce((n, s) => n * s, 1);
  if (count > MOST_TERMS / 16) return undefined;
  const values = [...zeros];
  for (let n = 0; n < count; n++) {
    if (at(values) === want) return new Map(ranges.map((r, i) => [r, values[i]]));
    for (let i = values.length - 1; i >= 0 && ++values[i] === sizes[i]; i--) values[i] = 0;
  }
  return undefined;
}

/** A tree as indented lines. */
export function treeText(t: ElementTree, indent: string = ""): string {
  const value = t.value === undefined ? "not kept" : typeof t.value === "bigint" ? `${t.value}` : numberText(t.value);
  const own = [`${indent}${t.name} = ${value}`, ...t.how.map((line) => `${indent}  ${line}`)];
  return [...own, ...t.from.map((f) => treeText(f, `${indent}    `))].join("\n");
}
