/**
 * JavaScript lane by lane: what each dtype and each elementwise op is there, as text and as a function, and the walk of a
 * program that keeps a list of lanes for each value. codegen.ts writes the texts, interpret.ts runs the functions.
 *
 * @module
 */
import { type DType, dtypes } from "../../src/dtype/dtype.ts";
import { SpecError } from "../../src/helpers/errors.ts";
import { naturalExponent } from "../../src/renderer/natural.ts";
import { LinearVisitor } from "../../src/renderer/visitor.ts";
import { FUNCTIONS } from "../../src/uop/algebra/eval.ts";
import { argOf, type ConstValue, Int64 } from "../../src/uop/core/args.ts";
import { isAlu, opName, Ops } from "../../src/uop/core/ops.ts";
import type { UOp } from "../../src/uop/core/uop.ts";
import * as rt from "./js_runtime.ts";

/** A lane: a bigint for 64-bit integers. */
export type Value = number | bigint;

/** An expression of `a`, `b` and `c`: its text, and the function that it means. */
export interface Form {
  readonly text: string;
  run(a: Value, b: Value, c: Value): Value;
}
type Row<T> = readonly [text: string, run: (a: T, b: T, c: T) => T];

function form<T extends Value>([text, run]: Row<T>): Form {
  return { text, run };
}
const SAME: Form = form<Value>(["a", (a) => a]);

/** By text: what stands between its operands, and the operands in turn. */
const pieces = new Map<string, readonly string[]>();

/** The text of a form of these operands. */
export function fill(text: string, a: string, b = "", c = ""): string {
  let parts = pieces.get(text);
  if (parts === undefined) pieces.set(text, parts = text.split(/\b([abc])\b/));
  let out = parts[0];
  for (let i = 1; i < parts.length; i += 2) out += (parts[i] === "a" ? a : parts[i] === "b" ? b : c) + parts[i + 1];
  return out;
}

/** How a result that may lie outside of a dtype is wrapped or rounded. */
interface TypeForm {
  readonly wrap: Form;
  /** What the functions of a dtype that lies in memory as bits are called by. */
  readonly packed: "f16" | "bf16" | undefined;
}
const TYPES: (TypeForm | undefined)[] = [];
function add<T extends Value>(d: DType, wrap: Row<T>, packed?: TypeForm["packed"]): void {
  TYPES[d.id] = { wrap: form(wrap), packed };
}
add<number>(dtypes.bool, ["(a & 1)", (a) => a & 1]);
add<number>(dtypes.int8, ["(a << 24 >> 24)", (a) => a << 24 >> 24]);
add<number>(dtypes.uint8, ["(a & 255)", (a) => a & 255]);
add<number>(dtypes.int16, ["(a << 16 >> 16)", (a) => a << 16 >> 16]);
add<number>(dtypes.uint16, ["(a & 65535)", (a) => a & 65535]);
add<number>(dtypes.int32, ["(a | 0)", (a) => a | 0]);
add<number>(dtypes.uint32, ["(a >>> 0)", (a) => a >>> 0]);
add<bigint>(dtypes.int64, ["BigInt.asIntN(64, a)", (a) => BigInt.asIntN(64, a)]);
add<bigint>(dtypes.uint64, ["BigInt.asUintN(64, a)", (a) => BigInt.asUintN(64, a)]);
add<number>(dtypes.float16, ["f16round(a)", rt.f16round], "f16");
add<number>(dtypes.bfloat16, ["bf16round(a)", rt.bf16round], "bf16");
add<number>(dtypes.float32, ["fround(a)", rt.fround]);
add<number>(dtypes.float64, ["(a)", (a) => a]);

function typeOf(d: DType): TypeForm {
  const found = TYPES[d.id];
  if (found === undefined) throw new SpecError(`No JavaScript value for dtype ${d}`);
  return found;
}
/** True for dtypes whose values are bigint here. */
export function isBig(d: DType): boolean {
  return d.isInt && d.bits === 64;
}

/** The value of what lies in memory, and what lies there of a value. */
export function decoding(d: DType): Form {
  const { packed } = typeOf(d);
  return packed === undefined ? SAME : form([`${packed}value(a)`, rt[`${packed}value`]]);
}
export function encoding(d: DType): Form {
  const { packed } = typeOf(d);
  return packed === undefined ? SAME : form([`${packed}bits(a)`, rt[`${packed}bits`]]);
}

/** A number as a value of `d`: floats are rounded. */
export function valueOf(d: DType, value: ConstValue | bigint): Value {
  const x = value instanceof Int64 ? value.toBigInt() : value;
  if (isBig(d)) return typeOf(d).wrap.run(typeof x === "bigint" ? x : BigInt(Math.trunc(x)), 0n, 0n);
  return d.isFloat ? typeOf(d).wrap.run(Number(x), 0, 0) : Number(x);
}
/** A constant of dtype `d` as text. */
export function literal(d: DType, value: ConstValue): string {
  const x = valueOf(d, value);
  if (typeof x === "bigint") return `${x}n`;
  if (x !== x) return "NaN";
  if (x === 0) return Object.is(x, -0) && d.isFloat ? "(-0)" : "0";
  return typeOf(d).packed === undefined ? `(${x})` : fill(typeOf(d).wrap.text, `(${x})`);
}

function wrapped(d: DType, { text, run }: Form): Form {
  const { wrap } = typeOf(d);
  return { text: fill(wrap.text, text), run: (a, b, c) => wrap.run(run(a, b, c), 0, 0) };
}

function cast(to: DType, from: DType): Form {
  if (to.scalar === from.scalar) return SAME;
  if (to.isBool) {
    return isBig(from)
      ? form<Value>(["(a !== 0n ? 1 : 0)", (a) => a !== 0n ? 1 : 0])
      : form<Value>(["(a !== 0 ? 1 : 0)", (a) => a !== 0 ? 1 : 0]);
  }
  if (isBig(to)) {
    if (from.isFloat) return wrapped(to, { text: "toBig(a)", run: (a) => rt.toBig(a as number) });
    return wrapped(to, isBig(from) ? SAME : { text: "BigInt(a)", run: (a) => BigInt(a) });
  }
  if (!isBig(from)) return typeOf(to).wrap;
  if (to.isFloat) {
    return wrapped(
      to,
      to.bits < 64
        ? { text: "oddBig(a)", run: (a) => rt.oddBig(a as bigint) }
        : { text: "Number(a)", run: (a) => Number(a) },
    );
  }
  const { bits } = to, name = to.isUnsigned ? "asUintN" : "asIntN";
  return { text: `Number(BigInt.${name}(${bits}, a))`, run: (a) => Number(BigInt[name](bits, a as bigint)) };
}

function bitcast(to: DType, from: DType): Form {
  if (to.scalar === from.scalar) return SAME;
  const viewOf = (d: DType): rt.BitView => {
    const isFloat = d.isFloat && typeOf(d).packed === undefined;
    return `${isFloat ? "f" : d.kind === "int" ? "i" : "u"}${d.bits}` as rt.BitView;
  };
  const encode = encoding(from), decode = decoding(to), put = viewOf(from), take = viewOf(to);
  const into = rt.bits[put], out = rt.bits[take];
  return {
    text: fill(decode.text, `(bits.${put}[0] = ${encode.text}, bits.${take}[0])`),
    run: (a) => {
      into[0] = encode.run(a, 0, 0);
      return decode.run(out[0], 0, 0);
    },
  };
}

/** A shift, the count modulo the width and in the kind of number that the value has. */
function shift(u: UOp): Form {
  const { dtype: d } = u, mask = d.bits - 1, from = isBig(u.src[1].dtype), left = u.op === Ops.SHL;
  if (isBig(d)) {
    const count = from ? (b: Value) => (b as bigint) & BigInt(mask) : (b: Value) => BigInt(b) & BigInt(mask);
    const text = `(a ${left ? "<<" : ">>"} (${from ? "b" : "BigInt(b)"} & ${mask}n))`;
    return { text, run: (a, b) => left ? (a as bigint) << count(b) : (a as bigint) >> count(b) };
  }
  const count = (b: Value): number => (from ? Number(BigInt.asUintN(32, b as bigint)) : b as number) & mask;
  const by = `(${from ? "Number(BigInt.asUintN(32, b))" : "b"} & ${mask})`;
  if (left) return { text: `(a << ${by})`, run: (a, b) => (a as number) << count(b) };
  if (d.isUnsigned) return { text: `(a >>> ${by})`, run: (a, b) => (a as number) >>> count(b) };
  return { text: `(a >> ${by})`, run: (a, b) => (a as number) >> count(b) };
}

type Rows<T> = Partial<Record<number, Row<T>>>;
/** Ops whose value is of the dtype as it is. */
const EXACT: Rows<Value> = {
  [Ops.CMPLT]: ["(a < b ? 1 : 0)", (a, b) => a < b ? 1 : 0],
  [Ops.CMPNE]: ["(a !== b ? 1 : 0)", (a, b) => a !== b ? 1 : 0],
  [Ops.CMPEQ]: ["(a === b ? 1 : 0)", (a, b) => a === b ? 1 : 0],
  [Ops.WHERE]: ["(a ? b : c)", (a, b, c) => a ? b : c],
};
/** Arithmetic of numbers, before it is wrapped; then what differs by kind. */
const NUMBERS: Rows<number> = {
  ...Object.fromEntries(
    Object.entries(FUNCTIONS).map(([op, run]) => [op, [`Math.${opName[Number(op)].toLowerCase()}(a)`, run]]),
  ),
  [Ops.EXP2]: ["2 ** a", (a) => 2 ** a],
  [Ops.NEG]: ["(-a)", (a) => -a],
  [Ops.ADD]: ["(a + b)", (a, b) => a + b],
  [Ops.SUB]: ["(a - b)", (a, b) => a - b],
  [Ops.MUL]: ["Math.imul(a, b)", Math.imul],
  [Ops.MULACC]: ["(Math.imul(a, b) + c)", (a, b, c) => Math.imul(a, b) + c],
  [Ops.FDIV]: ["(a / b)", (a, b) => a / b],
  [Ops.CDIV]: ["(a / b)", (a, b) => a / b],
  [Ops.CMOD]: ["(a % b)", (a, b) => a % b],
  [Ops.FLOORDIV]: ["Math.floor(a / b)", (a, b) => Math.floor(a / b)],
  [Ops.FLOORMOD]: ["(a - Math.floor(a / b) * b)", (a, b) => a - Math.floor(a / b) * b],
  [Ops.AND]: ["(a & b)", (a, b) => a & b],
  [Ops.OR]: ["(a | b)", (a, b) => a | b],
  [Ops.XOR]: ["(a ^ b)", (a, b) => a ^ b],
};
/** Products of floats, and of bigints, which the rows above serve as well. */
const PRODUCTS: Rows<number> = {
  [Ops.MUL]: ["(a * b)", (a, b) => a * b],
  [Ops.MULACC]: ["(a * b + c)", (a, b, c) => a * b + c],
};

/** One lane of an ALU op; of e^x the operand is x. */
function formOf(u: UOp): Form {
  const { op, dtype: d } = u, big = isBig(d), exact = EXACT[op];
  if (exact !== undefined) return form(exact);
  switch (op) {
    case Ops.CAST:
      return cast(d, u.src[0].dtype);
    case Ops.BITCAST:
      return bitcast(d, u.src[0].dtype);
    case Ops.TRUNC:
      return d.isFloat ? form<number>(["Math.trunc(a)", Math.trunc]) : SAME;
    case Ops.MAX:
      return big
        ? form<bigint>(["(a > b ? a : b)", (a, b) => a > b ? a : b])
        : form<number>(["Math.max(a, b)", (a, b) => Math.max(a, b)]);
    case Ops.SHL:
    case Ops.SHR:
      return wrapped(d, shift(u));
    case Ops.FLOORDIV:
      if (big) return form<bigint>(["floorDivBig(a, b)", rt.floorDivBig]);
      break;
    case Ops.FLOORMOD:
      if (big) return form<bigint>(["floorModBig(a, b)", rt.floorModBig]);
      break;
    case Ops.EXP2:
      if (naturalExponent(u) !== undefined) return wrapped(d, form<number>(["Math.exp(a)", Math.exp]));
      break;
    case Ops.CDIV:
      if (d.isFloat) return wrapped(d, form<number>(["wholeQuotient(a, b)", rt.wholeQuotient]));
      break;
    case Ops.NEG:
      if (d.isBool) return SAME;
      break;
    case Ops.SUB:
      if (d.isBool) return form(NUMBERS[Ops.XOR]!);
      break;
    case Ops.ADD:
      if (d.isBool) return wrapped(d, form(NUMBERS[Ops.OR]!));
  }
  const row = (big || d.isFloat ? PRODUCTS[op] : undefined) ?? NUMBERS[op];
  if (row === undefined) throw new SpecError(`The JS device cannot compute ${opName[op]}`);
  const { text, run } = wrapped(d, form(row));
  if (!big || (op !== Ops.CDIV && op !== Ops.CMOD)) return { text, run };
  return { text: `(b === 0n ? 0n : ${text})`, run: (a, b, c) => b === 0n ? 0n : run(a, b, c) };
}

/** Floating-point operations of an ALU op, over its lanes. */
export function flopsOf({ op, dtype }: UOp): number {
  if (!dtype.isFloat || op === Ops.CDIV || op === Ops.CMOD) return 0;
  return op === Ops.MAX || NUMBERS[op] !== undefined ? dtype.count * (op === Ops.MULACC ? 2 : 1) : 0;
}

/** A program lane by lane: `L` is what a lane is called by. */
export abstract class LaneVisitor<L> extends LinearVisitor<readonly L[]> {
  /** SPECIALs, each a loop around all that follows. */
  private specials = 0;

  /** A constant. */
  protected abstract literal(d: DType, value: ConstValue): L;
  /** The lanes of an ALU op: of each the operands. */
  protected abstract alu(u: UOp, form: Form, lanes: readonly (readonly L[])[]): readonly L[];
  /** Opens the loop of a RANGE or SPECIAL. */
  protected abstract override enterLoop(u: UOp): readonly L[];
  /** Closes the innermost block. */
  protected abstract close(): void;

  protected constant(u: UOp): readonly L[] {
    const lanes = new Array<L>(u.dtype.count).fill(this.literal(u.dtype, argOf(u, Ops.CONST)));
    this.values.set(u, lanes);
    return lanes;
  }
  protected param(): undefined {}
  protected override special(u: UOp): readonly L[] {
    this.specials++;
    return this.enterLoop(u);
  }
  protected leaveLoop(): void {
    this.close();
  }
  protected leaveIf(): void {
    this.close();
  }
  protected override walk(): void {
    super.walk();
    for (; this.specials > 0; this.specials--) this.close();
  }

  protected compute(u: UOp): readonly L[] | undefined | void {
    const count = u.dtype.count;
    if (u.op === Ops.VECTORIZE) return u.src.flatMap((s) => this.value(s));
    if (u.op === Ops.BROADCAST) return new Array<L>(count).fill(this.value(u.src[0])[0]);
    if (u.op === Ops.EXTRACT) return [this.value(u.src[0])[argOf(u, Ops.EXTRACT)]];
    if (u.op === Ops.LANES) {
      const both = u.src.flatMap((s) => this.value(s));
      return argOf(u, Ops.LANES).axes.map((l) => both[l]);
    }
    if (!isAlu(u.op)) throw new SpecError(`The JS device cannot run ${opName[u.op]}`);
    const natural = naturalExponent(u), src = (natural === undefined ? u.src : [natural]).map((s) => this.value(s));
    const lanes = Array.from({ length: count }, (_, l) => src.map((x) => x.length > 1 ? x[l] : x[0]));
    return this.alu(u, formOf(u), lanes);
  }
}
