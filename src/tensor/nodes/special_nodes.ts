/**
 * Special functions as graphs: exponentials and logarithms with digits near 0, the error function's complement, and functions
 * of two arguments. In and out: nodes of float32 or float64, as in numeric.ts.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { constant, type UOp } from "../../uop/core/uop.ts";
import { GradientArg, slope, withGradient } from "../../uop/graph/given_gradient.ts";
import { notNode } from "./compare_nodes.ts";
import {
  absNode,
  atanNode,
  erfcxNode,
  erfNode,
  expm1Node,
  expNode,
  floatConst,
  log1pNear,
  log1pNode,
  logNode,
  lt,
  over,
  scale,
  shift,
  signOf,
} from "./numeric.ts";

/** A number where a condition holds, else x. */
export function select(condition: UOp, value: number, x: UOp): UOp {
  return condition.where(floatConst(value, x.dtype), x);
}

/** x < 0, or -0. */
export function signBit(x: UOp): UOp {
  return lt(x, 0).or(lt(over(1, x), 0));
}

function positive(x: UOp): UOp {
  return constant(0, x.dtype).lt(x);
}

function isInfinite(x: UOp): UOp {
  return x.eq(floatConst(Infinity, x.dtype)).or(x.eq(floatConst(-Infinity, x.dtype)));
}

// ---- exponentials and logarithms

/** d log(1 + x) = 1 / (1 + x) */
const LOG1P_SLOPE = slope((x) => over(1, shift(x, 1)));
/** log(1 + x), with digits near 0. */
export function log1pValue(x: UOp): UOp {
  return withGradient(log1pNode(x), [x], LOG1P_SLOPE);
}

const EXPM1_SLOPE = slope((x) => expNode(x)); // of 1 + y far below 0 no digit is left
/** e^x - 1, with digits near 0. */
export function expm1Value(x: UOp): UOp {
  return withGradient(expm1Node(x), [x], EXPM1_SLOPE);
}

const LOGIT_SLOPE = slope((x) => {
  const product = x.mul(shift(scale(x, -1), 1)); // below 0 outside of 0 to 1
  return select(lt(product, 0), NaN, over(1, product));
});
/**
 * log(x / (1 - x)). Around 1/2 that of 1 + (2 x - 1) / (1 - x), whose dividend is exact: what a quotient near 1 is rounded
 * by would be all digits of its logarithm.
 */
export function logitNode(x: UOp): UOp {
  const y = shift(x, -0.5), near = lt(y.mul(y), 0.006);
  const odds = near.where(y.add(y), x).fdiv(shift(scale(x, -1), 1));
  return withGradient(near.where(log1pNear(odds), logNode(odds)), [x], LOGIT_SLOPE);
}

const XLOGY = new GradientArg((g, [x, y]) => {
  const zero = constant(0, x.dtype), isZero = x.eq(zero).and(notNode(y.ne(y)));
  // where x is 0 the value is, for all y: at y <= 0, too
  return [() => isZero.and(notNode(positive(y))).where(zero, g.mul(logNode(y))), () => g.mul(x.fdiv(y))];
}, true);
/** x log(y), which is 0 where x is 0, unless y is NaN. */
export function xlogyNode(x: UOp, y: UOp): UOp {
  const isZero = x.eq(constant(0, x.dtype)).and(notNode(y.ne(y)));
  return withGradient(select(isZero, 0, x.mul(logNode(y))), [x, y], XLOGY);
}

// ---- the error function

const ERFC_SLOPE = slope((x) => scale(expNode(scale(x.mul(x), -1)), -2 / Math.sqrt(Math.PI)));
/**
 * e^(-c x^2), c a power of 2, 0 <= x < 16 (64 in float64), of a square that is not rounded: far out its digits are those of
 * the exponential. Of x in steps so large that it has half the digits the square is exact, and what is left is small.
 */
export function gaussianNode(x: UOp, c: number): UOp {
  const steps = x.dtype === dtypes.float64 ? 2 ** 20 : 2 ** 8, high = scale(scale(x, steps).trunc(), 1 / steps);
  const rest = x.sub(high).mul(x.add(high));
  return expNode(scale(high.mul(high), -c)).mul(expNode(scale(rest, -c)));
}
/** 1 - erf(x), with digits where it is small. */
export function erfcValue(x: UOp): UOp {
  const a = x.mul(signOf(x)), small = lt(a, 1), end = x.dtype === dtypes.float64 ? 27.5 : 10.25;
  const beyond = floatConst(end, x.dtype).lt(a), b = select(small.or(beyond), 1, a);
  const tail = select(beyond, 0, gaussianNode(b, 1).mul(erfcxNode(b))),
    far = lt(x, 0).where(shift(scale(tail, -1), 2), tail);
  return withGradient(small.where(shift(scale(erfNode(x), -1), 1), far), [x], ERFC_SLOPE);
}

// ---- two arguments

const ATAN2 = new GradientArg((g, [y, x]) => {
  const square = y.mul(y).add(x.mul(x)), zero = square.eq(constant(0, y.dtype));
  const r = zero.where(constant(0, y.dtype), g.fdiv(select(zero, 1, square)));
  return [() => x.mul(r), () => scale(y, -1).mul(r)];
}, true);
/** The angle of the point (x, y), in [-pi, pi]; signs of zeros count. */
export function atan2Node(y: UOp, x: UOp): UOp {
  const d = y.dtype, a = signBit(y).where(scale(y, -1), y), b = absNode(x), both = isInfinite(y).and(isInfinite(x));
  // of -0, which its magnitude is too, the quotient would be negative
  const zero = constant(0, d), divisor = b.eq(zero).where(select(a.eq(zero), 1, zero), b);
  const ratio = both.where(floatConst(1, d), a.fdiv(divisor));
  const angle = atanNode(ratio), turned = signBit(x).where(shift(scale(angle, -1), Math.PI), angle);
  return withGradient(turned.mul(select(signBit(y), -1, floatConst(1, d))), [y, x], ATAN2);
}

const HYPOT = new GradientArg((g, [x, y], z) => [() => g.mul(x.fdiv(z)), () => g.mul(y.fdiv(z))], true);
/** sqrt(x^2 + y^2) without overflow. */
export function hypotNode(x: UOp, y: UOp): UOp {
  const d = x.dtype, a = absNode(x), b = absNode(y), high = a.max(b);
  const isZero = high.eq(constant(0, d)), infinite = isInfinite(x).or(isInfinite(y));
  const r = a.lt(b).where(a, b).fdiv(select(isZero.or(infinite), 1, high));
  const value = high.mul(shift(r.mul(r), 1).sqrt());
  return withGradient(select(infinite, Infinity, isZero.where(constant(0, d), value)), [x, y], HYPOT);
}
