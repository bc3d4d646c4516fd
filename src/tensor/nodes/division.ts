/**
 * Whole quotients and remainders of nodes of one dtype: CDIV and CMOD, which are exact, and what rounding down makes of
 * them.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { Ops } from "../../uop/core/ops.ts";
import { constant, type UOp, uop } from "../../uop/core/uop.ts";
import { floatConst } from "./numeric.ts";

/** The quotient of integers, rounded; bools count as int32. */
export function intDivide(a: UOp, b: UOp, mode: "trunc" | "floor"): UOp {
  if (a.dtype.isBool) {
    a = a.cast(dtypes.int32);
    b = b.cast(dtypes.int32);
  }
  return uop(mode === "floor" ? Ops.FLOORDIV : Ops.CDIV, a.dtype, [a, b]);
}

/**
 * The quotient of floats as a whole number, as PyTorch has it: exact below 2^24 (2^53 in float64), else rounded once. What
 * is infinite stays so, but for infinity rounded down: NaN, as nothing is left of it.
 */
export function wholeQuotient(a: UOp, b: UOp, mode: "trunc" | "floor"): UOp {
  const d = a.dtype, wide = d.bits < 32 ? dtypes.float32 : d;
  a = a.cast(wide);
  b = b.cast(wide);
  const near = a.fdiv(b), quotient = a.cdiv(b), zero = floatConst(0, wide), infinity = floatConst(Infinity, wide);
  const isFinite = (x: UOp) => x.lt(infinity).and(floatConst(-Infinity, wide).lt(x));
  if (mode === "trunc") return isFinite(near).where(quotient, near).cast(d);
  const rest = a.cmod(b), other = rest.ne(zero).and(rest.lt(zero).ne(b.lt(zero))); // rounded up
  const down = other.where(quotient.add(-1), quotient),
    isWhole = isFinite(near).or(isFinite(a).ne(constant(1, dtypes.bool)));
  return b.ne(zero).and(isWhole).where(down, near).cast(d);
}

/** What is left of a / b: with the sign of b where `floor`, else with that of a. Exact but for the sum that rounding down takes. */
export function remainder(a: UOp, b: UOp, floor: boolean): UOp {
  const d = a.dtype;
  if (d.isBool) return remainder(a.cast(dtypes.int32), b.cast(dtypes.int32), floor);
  if (!d.isFloat) return uop(floor ? Ops.FLOORMOD : Ops.CMOD, d, [a, b]);
  if (!floor) return a.cmod(b);
  const rest = a.cmod(b), zero = floatConst(0, d);
  const other = rest.ne(zero).and(rest.lt(zero).ne(b.lt(zero))).and(rest.eq(rest));
  return other.where(rest.add(b), rest);
}
