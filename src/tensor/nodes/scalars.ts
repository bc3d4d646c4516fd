/**
 * Scalars of JavaScript and what becomes of values in another dtype: constants, casts, the dtype of a list.
 *
 * @module
 */
import { roundFloat } from "../../dtype/convert.ts";
import { complexOf, type DType, dtypes } from "../../dtype/dtype.ts";
import { defaultFloat, defaultInt, holdsWhole, isInt32, isWhole, promote, scalarDType } from "../../dtype/promotion.ts";
import { ArgumentError, DTypeError } from "../../helpers/errors.ts";
import { describe } from "../../helpers/options.ts";
import { Int64 } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { constant, type UOp } from "../../uop/core/uop.ts";
import { fromParts } from "../../uop/graph/complex.ts";
import type { ComplexValue } from "./host.ts";

/** A CONST for a JavaScript scalar in `dtype`, wrapped or rounded to it as a cast would. */
export function scalarConst(value: number | boolean | bigint, dtype: DType): UOp {
  if (dtype.isBool) return constant(value || value !== value ? 1 : 0, dtype); // NaN is true
  if (dtype.isFloat) {
    return constant(roundFloat(dtype, typeof value === "bigint" ? value : Number(value)), dtype);
  }
  let big: bigint;
  if (typeof value === "bigint") big = value;
  else {
    const x = Math.trunc(Number(value));
    if (!Number.isFinite(x)) {
      throw new DTypeError(`make a constant of dtype`, { dtypes: [dtype], reason: `${value} is no integer` });
    }
    if (dtype.bits < 64 || Number.isSafeInteger(x)) {
      if (dtype.bits === 64) {
        if (dtype.isUnsigned && x < 0) big = BigInt(x);
        else return constant(x, dtype);
      } else {
        const m = 2 ** dtype.bits;
        let w = ((x % m) + m) % m;
        if (!dtype.isUnsigned && w >= m / 2) w -= m;
        return constant(w, dtype);
      }
    } else big = BigInt(x);
  }
  const wrapped = dtype.isUnsigned ? BigInt.asUintN(dtype.bits, big) : BigInt.asIntN(dtype.bits, big);
  const n = Number(wrapped);
  return constant(Number.isSafeInteger(n) ? n : Int64.fromBigInt(wrapped), dtype);
}

/** A complex number in a complex dtype. */
export function complexConst({ re, im }: ComplexValue, dtype: DType): UOp {
  return fromParts([scalarConst(re, dtype.real), scalarConst(im, dtype.real)]);
}

/** Whether there is no complex number among values. */
function isReal(values: readonly unknown[]): values is readonly (number | boolean | bigint)[] {
  return !values.some((v) => typeof v === "object");
}

/** `u` in `dtype`: see `cast` in elementwise.ts. */
export function castNode(u: UOp, dtype: DType): UOp {
  const from = u.dtype;
  if (from === dtype) return u;
  if (from.isComplex || dtype.isComplex) return u.cast(dtype);
  if (from.isFloat && dtype.isInt) return floatToInt(u, dtype);
  if (u.op === Ops.CONST) return scalarConst(u.arg instanceof Int64 ? u.arg.toBigInt() : u.value, dtype);
  return u.cast(dtype);
}

/**
 * A float as an integer, alike on all devices, whose own conversions differ out of range: NaN is 0, int32 and int64 are
 * saturated; narrower dtypes are the low bits of an int32, uint32 those of an int64, and uint64 is saturated above, with
 * the bits of an int64 below 0.
 */
function floatToInt(u: UOp, dtype: DType): UOp {
  if (dtype.bits < 32) return castNode(floatToInt(u, dtypes.int32), dtype);
  if (dtype === dtypes.uint32) return castNode(floatToInt(u, dtypes.int64), dtype);
  const d = u.dtype;
  if (d.bits < 32) return floatToInt(u.cast(dtypes.float32), dtype);
  const end = 2 ** (dtype.bits - 1), c = (v: number) => constant(v, d);
  if (dtype === dtypes.uint64) {
    const high = u.lt(c(end)).xor(constant(1, dtypes.bool)); // also for NaN
    const low = floatToInt(high.where(c(0), u), dtypes.int64).cast(dtype);
    const rest = floatToInt(u.add(c(-end)), dtypes.int64).cast(dtype).add(scalarConst(1n << 63n, dtype));
    const top = u.lt(c(2 * end)).where(rest, scalarConst((1n << 64n) - 1n, dtype));
    return high.where(u.ne(u).where(scalarConst(0, dtype), top), low);
  }
  if (u.op === Ops.CONST) {
    const x = Math.trunc(u.value);
    const most = dtype.bits === 64 ? (1n << 63n) - 1n : end - 1;
    return scalarConst(x !== x ? 0 : x >= end ? most : x < -end ? -end : x, dtype);
  }
  const below = u.lt(c(end));
  const inside = below.where(u.lt(c(-end)).where(c(-end), u), c(0)).cast(dtype);
  return c(end).lt(u).or(c(end).eq(u)).where(
    scalarConst(dtype.bits === 64 ? (1n << 63n) - 1n : end - 1, dtype),
    inside,
  );
}

/** Throws for what is no scalar of JavaScript. */
export function checkScalar(x: unknown, action = "take an operand"): asserts x is number | boolean | bigint {
  if (typeof x === "number" || typeof x === "boolean" || typeof x === "bigint") return;
  throw new ArgumentError(action, { reason: `${describe(x)} is no tensor, number, boolean, bigint or nested list` });
}

/** Throws for a bigint that is no value of an integer dtype. */
export function checkFits(x: number | boolean | bigint, dtype: DType, action = "take an operand"): void {
  if (typeof x !== "bigint" || !dtype.isInt) return;
  if (holdsWhole(dtype, x)) return;
  const wide = [dtypes.int64, dtypes.uint64].find((d) => holdsWhole(d, x));
  throw new DTypeError(`${action} ${x} and a tensor of dtype`, {
    dtypes: [dtype],
    reason: wide === undefined
      ? "no integer dtype holds it; use a number"
      : `it does not fit; cast the tensor to ${wide}`,
  });
}

/**
 * The dtype that a list of JavaScript scalars has: float if any is a fraction; else int64 for a bigint, int32, bool. Whole
 * numbers beyond int32 make it a float too, or int64 where the default float would round any element, or where it stands
 * beside a tensor of uint32, int64 or uint64. Complex where any value is.
 */
export function inferDType(values: readonly (number | boolean | bigint | ComplexValue)[], beside?: DType): DType {
  if (!isReal(values)) return complexOf(promote(defaultFloat(), beside?.real ?? dtypes.bool));
  let best: DType = dtypes.bool, large = false;
  const int = defaultInt();
  for (const v of values) {
    if (typeof v === "boolean") continue;
    const d = typeof v === "number" && isWhole(v) && isInt32(v) ? int : scalarDType(v);
    if (!d.isFloat) best = best.isBool || d === dtypes.int64 ? d : best;
    else if (isWhole(v as number) && holdsWhole(dtypes.uint64, Math.abs(v as number))) large = true;
    else return d;
  }
  if (values.length === 0) return defaultFloat();
  if (!large) return best;
  const holds = (d: DType) => values.every((v) => typeof v === "boolean" || holdsWhole(d, v));
  if (beside?.isInt && beside.priority >= dtypes.uint32.priority && holds(beside)) return beside;
  const float = defaultFloat(), isRounded = (v: number) => roundFloat(float, v) !== v;
  const exact = best === dtypes.int64 || (beside?.isInt && beside.priority >= dtypes.uint32.priority) ||
    values.some((v) => typeof v === "number" && isRounded(v));
  return exact && holds(dtypes.int64) ? dtypes.int64 : float;
}
