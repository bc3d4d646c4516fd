/**
 * Exact values of ALU ops per dtype, for constant folding: floats rounded to their dtype, integers wrapped, 64-bit
 * integers by BigInt only where a number cannot hold them. Integer division by zero and shifts by the width or more
 * have no value here and are never folded.
 *
 * @module
 */
import { f32Bits, f64Bits, roundFloat, truncateTo } from "../../dtype/convert.ts";
import { type DType, dtypeMax, dtypeMin, dtypes } from "../../dtype/dtype.ts";
import { floorDiv, floorMod, wholeQuotient } from "../../helpers/math.ts";
import { argOf, type ConstValue, Int64 } from "../core/args.ts";
import { isComparison, Ops } from "../core/ops.ts";
import { constant, type UOp } from "../core/uop.ts";

function big(v: ConstValue, d: DType): bigint {
  const b = typeof v === "number" ? BigInt(v) : v.toBigInt();
  return d.isUnsigned ? BigInt.asUintN(64, b) : b;
}

function fromBig(b: bigint, d: DType): ConstValue {
  const w = d.isUnsigned ? BigInt.asUintN(64, b) : BigInt.asIntN(64, b);
  const n = Number(w);
  return Number.isSafeInteger(n) ? n : Int64.fromBigInt(w);
}

/** The value that `value` takes in `dtype`: rounded, wrapped, or 0 and 1 for bool. */
export function truncate(value: ConstValue, dtype: DType): ConstValue {
  if (dtype.isInt && dtype.bits === 64) {
    if (typeof value !== "number") return fromBig(value.toBigInt(), dtype);
    const t = Math.trunc(value) + 0;
    if (Number.isSafeInteger(t) && (t >= 0 || !dtype.isUnsigned)) return t;
    return Number.isFinite(t) ? fromBig(BigInt(t), dtype) : 0;
  }
  return truncateTo(dtype, typeof value === "number" ? value : Number(BigInt.asIntN(32, value.toBigInt())));
}

/** A constant of `dtype` from any number: wrapped or rounded as {@linkcode truncate}. */
export function constOf(value: ConstValue, dtype: DType): UOp {
  return constant(truncate(value, dtype), dtype);
}

function castValue(v: ConstValue, from: DType, to: DType): ConstValue {
  if (to.isFloat) return roundFloat(to, typeof v === "number" ? v : big(v, from));
  if (to.isBool) return typeof v === "number" && v === 0 ? 0 : 1;
  if (!from.isFloat) {
    return typeof v === "number" ? truncate(v, to) : truncate(fromBig(big(v, from), dtypes.int64), to);
  }
  const x = Math.trunc(v as number);
  if (x !== x) return 0;
  if (to.bits === 64) {
    if (x >= dtypeMax(to)) return fromBig(to.isUnsigned ? (1n << 64n) - 1n : (1n << 63n) - 1n, to);
    return fromBig(BigInt(Math.max(x, dtypeMin(to))), to);
  }
  return Math.min(Math.max(x, dtypeMin(to)), dtypeMax(to)) + 0;
}

const bytes = new DataView(new ArrayBuffer(8));

function bitcastValue(v: ConstValue, from: DType, to: DType): ConstValue | undefined {
  if (from.bits !== to.bits || from.isBool || to.isBool) return undefined;
  if (from.bits === 64) {
    const bits = from.isFloat ? undefined : big(v, from);
    bytes.setBigInt64(0, bits ?? f64Bits(v as number));
    return to.isFloat ? bytes.getFloat64(0) : fromBig(bytes.getBigInt64(0), to);
  }
  const x = v as number;
  if (from.bits === 32) {
    bytes.setInt32(0, from.isFloat ? f32Bits(x) : x);
    return to.isFloat ? bytes.getFloat32(0) : to.isUnsigned ? bytes.getUint32(0) : bytes.getInt32(0);
  }
  if (from.isFloat || to.isFloat) return undefined;
  return truncateTo(to, x);
}

type Binary<T> = Partial<Record<Ops, (a: T, b: T, bits: number) => T | undefined>>;

/** Integers as numbers: exact up to 53 bits, bitwise ops up to 32. */
const INT_OPS: Binary<number> = {
  [Ops.ADD]: (a, b) => a + b,
  [Ops.SUB]: (a, b) => a - b,
  [Ops.MUL]: (a, b) => a * b,
  [Ops.MAX]: (a, b) => Math.max(a, b),
  [Ops.FLOORDIV]: (a, b) => b === 0 ? undefined : floorDiv(a, b),
  [Ops.FLOORMOD]: (a, b) => b === 0 ? undefined : floorMod(a, b),
  [Ops.CDIV]: (a, b) => b === 0 ? undefined : Math.trunc(a / b),
  [Ops.CMOD]: (a, b) => b === 0 ? undefined : a % b,
  [Ops.SHL]: (a, b, bits) => b < 0 || b >= bits ? undefined : a * 2 ** b,
  [Ops.SHR]: (a, b, bits) => b < 0 || b >= bits ? undefined : Math.floor(a / 2 ** b),
  [Ops.AND]: (a, b) => a & b,
  [Ops.OR]: (a, b) => a | b,
  [Ops.XOR]: (a, b) => a ^ b,
};

/** The quotient rounded down. */
function floorQuotient(a: bigint, b: bigint): bigint {
  return a / b - (a % b !== 0n && (a < 0n) !== (b < 0n) ? 1n : 0n);
}

/** Integers of 64 bits, before they wrap. */
const BIG_OPS: Binary<bigint> = {
  [Ops.ADD]: (a, b) => a + b,
  [Ops.SUB]: (a, b) => a - b,
  [Ops.MUL]: (a, b) => a * b,
  [Ops.MAX]: (a, b) => a > b ? a : b,
  [Ops.FLOORDIV]: (a, b) => b === 0n ? undefined : floorQuotient(a, b),
  [Ops.FLOORMOD]: (a, b) => b === 0n ? undefined : a - floorQuotient(a, b) * b,
  [Ops.CDIV]: (a, b) => b === 0n ? undefined : a / b,
  [Ops.CMOD]: (a, b) => b === 0n ? undefined : a % b,
  [Ops.SHL]: (a, b) => b < 0n || b >= 64n ? undefined : a << b,
  [Ops.SHR]: (a, b) => b < 0n || b >= 64n ? undefined : a >> b,
  [Ops.AND]: (a, b) => a & b,
  [Ops.OR]: (a, b) => a | b,
  [Ops.XOR]: (a, b) => a ^ b,
};

const FLOAT_OPS: Binary<number> = {
  [Ops.ADD]: (a, b) => a + b,
  [Ops.SUB]: (a, b) => a - b,
  [Ops.MUL]: (a, b) => a * b,
  [Ops.FDIV]: (a, b) => a / b,
  [Ops.MAX]: (a, b) => Math.max(a, b),
  [Ops.CDIV]: wholeQuotient,
  [Ops.CMOD]: (a, b) => a % b,
};

const BOOL_OPS: Binary<number> = {
  [Ops.ADD]: (a, b) => a | b,
  [Ops.MAX]: (a, b) => a | b,
  [Ops.OR]: (a, b) => a | b,
  [Ops.MUL]: (a, b) => a & b,
  [Ops.AND]: (a, b) => a & b,
  [Ops.XOR]: (a, b) => a ^ b,
};

function intValue(op: Ops, d: DType, a: ConstValue, b: ConstValue): ConstValue | undefined {
  if (d.bits === 64) {
    const bitwise = op === Ops.AND || op === Ops.OR || op === Ops.XOR;
    if (typeof a === "number" && typeof b === "number" && !bitwise) {
      const r = INT_OPS[op]?.(a, b, 64);
      if (r === undefined) return undefined;
      if (Number.isSafeInteger(r) && (r >= 0 || !d.isUnsigned)) return r + 0;
    }
    const r = BIG_OPS[op]?.(big(a, d), big(b, d), 64);
    return r === undefined ? undefined : fromBig(r, d);
  }
  if (d.bits === 32 && op === Ops.MUL) {
    const p = Math.imul(a as number, b as number);
    return d.isUnsigned ? p >>> 0 : p;
  }
  const r = INT_OPS[op]?.(a as number, b as number, d.bits);
  return r === undefined ? undefined : truncateTo(d, r) + 0;
}

function compare(op: Ops, d: DType, a: ConstValue, b: ConstValue): number {
  if (typeof a !== "number" || typeof b !== "number") {
    const x = big(a, d), y = big(b, d);
    return (op === Ops.CMPLT ? x < y : (x === y) === (op === Ops.CMPEQ)) ? 1 : 0;
  }
  return (op === Ops.CMPLT ? a < b : op === Ops.CMPEQ ? a === b : a !== b) ? 1 : 0;
}

/** Functions of one float, before the result is rounded. */
export const FUNCTIONS: Partial<Record<Ops, (x: number) => number>> = {
  [Ops.EXP2]: (x) => Math.pow(2, x),
  [Ops.LOG2]: Math.log2,
  [Ops.SIN]: Math.sin,
  [Ops.COS]: Math.cos,
  [Ops.SQRT]: Math.sqrt,
};

function unaryValue(op: Ops, d: DType, v: ConstValue): ConstValue | undefined {
  if (op === Ops.NEG) return d.isFloat ? -(v as number) : intValue(Ops.SUB, d, 0, v);
  if (op === Ops.TRUNC) return d.isFloat ? Math.trunc(v as number) : v;
  if (!d.isFloat) return undefined;
  const f = FUNCTIONS[op];
  return f === undefined ? undefined : roundFloat(d, f(v as number));
}

/** DOT: unsigned bytes of `a` times signed ones of `b`, and `c`. */
function dotOf(a: number, b: number, c: number): number {
  return [0, 8, 16, 24].reduce((sum, i) => sum + (a >>> i & 255) * (b << (24 - i) >> 24), c) | 0;
}

/**
 * The value of `op` applied to `values`, one lane. `dtype` is the result's, `from` the dtype of the first operand (of
 * the second for WHERE). undefined where the op has no value (integer division by zero) or is no ALU op.
 */
export function evalOp(op: Ops, dtype: DType, from: DType, values: readonly ConstValue[]): ConstValue | undefined {
  const d = dtype.scalar, f = from.scalar;
  const [a, b, c] = values;
  if (op === Ops.CAST) return castValue(a, f, d);
  if (op === Ops.BITCAST) return bitcastValue(a, f, d);
  if (op === Ops.WHERE) return a !== 0 ? b : c;
  if (isComparison(op)) return compare(op, f, a, b);
  if (values.length === 1) return unaryValue(op, d, a);
  if (op === Ops.MULACC) {
    const p = d.isFloat ? (a as number) * (b as number) : evalOp(Ops.MUL, d, d, [a, b])!;
    return d.isFloat ? roundFloat(d, (p as number) + (c as number)) : evalOp(Ops.ADD, d, d, [p, c]);
  }
  if (op === Ops.DOT) return dotOf(a as number, b as number, c as number);
  if (values.length !== 2) return undefined;
  if (d.isFloat) {
    const r = FLOAT_OPS[op]?.(a as number, b as number, d.bits);
    return r === undefined ? undefined : roundFloat(d, r);
  }
  return d.isBool ? BOOL_OPS[op]?.(a as number, b as number, 1) : intValue(op, d, a, b);
}

/** The constant that `op` of constants is; undefined where it has no value or a source is no constant. */
export function foldConst(op: Ops, dtype: DType, srcs: readonly UOp[]): UOp | undefined {
  if (srcs.length === 0) return undefined;
  for (let i = 0; i < srcs.length; i++) if (srcs[i].op !== Ops.CONST) return undefined;
  const values = new Array<ConstValue>(srcs.length);
  for (let i = 0; i < srcs.length; i++) values[i] = argOf(srcs[i], Ops.CONST);
  const value = evalOp(op, dtype, srcs[0].dtype, values);
  return value === undefined ? undefined : constant(value, dtype);
}
