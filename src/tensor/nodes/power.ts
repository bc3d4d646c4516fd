/**
 * Powers of floats as graphs, with their gradients by formula: d x^e = e x^(e-1) dx + x^e log(x) de, which is right where
 * the graph of a power has selects. In and out: nodes of float32 or float64, as in numeric.ts. Edges are those of C's pow.
 *
 * @module
 */
import { constant, type UOp } from "../../uop/core/uop.ts";
import { flat, GradientArg, withGradient } from "../../uop/graph/given_gradient.ts";
import { floatConst, logNode, scale, signOf } from "./numeric.ts";

/** x^n by repeated squaring, n a positive integer. */
export function intPower(x: UOp, n: number): UOp {
  let result: UOp | undefined, square = x;
  for (let k = n;;) {
    if (k % 2 === 1) result = result === undefined ? square : result.mul(square);
    k = Math.floor(k / 2);
    if (k === 0) return result!;
    square = square.mul(square);
  }
}

/** The exponent is a constant: the second input. */
const CONSTANT_POWER = new GradientArg((g, [x, exponent]) => {
  const e = exponent.value;
  return [() => g.mul(constantPower(x, e - 1).mul(exponent))];
}, true);

/** Of the exponent none where the base is 0 and the power has no slope: 0^e for e >= 0. */
const POWER = new GradientArg((g, [x, e], y) => {
  const zero = constant(0, x.dtype);
  return [
    () => e.eq(zero).where(zero, g.mul(e.mul(powNode(x, e.add(-1))))),
    () => x.eq(zero).and(zero.lt(e).or(e.eq(zero))).where(zero, g.mul(y.mul(logNode(x)))),
  ];
}, true);

/**
 * x^exponent for a number: products up to the 64th power, with a square root for halves; else by logarithms. The
 * exponent is not 0.
 */
export function constantPower(x: UOp, exponent: number): UOp {
  const d = x.dtype, n = Math.abs(exponent), whole = Math.floor(n), c = floatConst(exponent, d);
  if (exponent === 0) return flat(floatConst(1, d), [x]);
  if (exponent === 0.5) return x.sqrt();
  if (n === whole && exponent > 0 && n <= 64) return intPower(x, n);
  let value: UOp;
  if (n > 64 || n * 2 !== Math.floor(n * 2)) value = power(x, c);
  else {
    // of half a power -0 counts as 0, and -Infinity as Infinity
    const root = whole !== n, zero = floatConst(0, d);
    const t = root && n !== 0.5
      ? x.eq(zero).where(zero, x.eq(floatConst(-Infinity, d)).where(floatConst(Infinity, d), x))
      : x;
    let r = whole > 0 ? intPower(t, whole) : undefined;
    if (root) r = r === undefined ? t.sqrt() : r.mul(t.sqrt());
    value = exponent < 0 ? floatConst(1, d).fdiv(r!) : r!;
  }
  return withGradient(value, [x, c], CONSTANT_POWER);
}

/** base^exponent for floats: 0^0 is 1, a negative base gives NaN unless the exponent is an integer. */
export function powNode(base: UOp, exponent: UOp): UOp {
  return withGradient(power(base, exponent), [base, exponent], POWER);
}

/** The value of a power. */
function power(base: UOp, exponent: UOp): UOp {
  const d = base.dtype, c = (v: number) => floatConst(v, d);
  const a = base.mul(signOf(base));
  const zero = a.eq(c(0));
  const magnitude = zero.where(c(1), a).log2().mul(exponent).exp2();
  const whole = exponent.trunc().eq(exponent);
  const half = scale(exponent, 0.5);
  const odd = whole.and(half.trunc().ne(half));
  const signed = odd.where(scale(magnitude, -1), magnitude);
  let r = base.lt(c(0)).where(whole.or(base.eq(c(-Infinity))).where(signed, c(NaN)), magnitude);
  const nothing = odd.where(base, c(0)); // 0^x has the sign of its base if x is odd
  r = zero.where(exponent.lt(c(0)).where(c(1).fdiv(nothing), nothing), r);
  r = exponent.ne(exponent).or(base.ne(base)).where(c(NaN), r);
  // What logarithms do not give: x^0 where x is 0, infinite or NaN, 1^x where x is infinite or NaN, (-1)^x where infinite.
  const infinite = (x: UOp) => x.eq(c(Infinity)).or(x.eq(c(-Infinity))), endless = (x: UOp) => x.ne(x).or(infinite(x));
  const atOne = base.eq(c(1)).and(endless(exponent)).or(base.eq(c(-1)).and(infinite(exponent)));
  return exponent.eq(c(0)).and(zero.or(endless(base))).or(atOne).where(c(1), r);
}
