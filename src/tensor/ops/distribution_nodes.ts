/**
 * The normal distribution, the error function without its exponential, and modified Bessel functions, as graphs. In and out:
 * nodes of float32 or float64, as in numeric.ts. Polynomials are our own Chebyshev interpolants, in powers of what each names.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { constant, type UOp } from "../../uop/core/uop.ts";
import { GradientArg, slope, withGradient } from "../../uop/graph/given_gradient.ts";
import {
  absNode,
  coefficients,
  erfcxNode,
  erfNode,
  expNode,
  floatConst,
  gt,
  horner,
  log1pNode,
  logNode,
  lt,
  over,
  poly,
  scale,
  shift,
  signOf,
} from "../nodes/numeric.ts";
import { erfcValue, gaussianNode, log1pValue, select } from "../nodes/special_nodes.ts";
import { erfinvFar, erfinvNear, erfinvNode } from "./higher_nodes.ts";

// ---- the error function times e^(x^2)

const ERFCX_SLOPE = slope((x, y) => shift(scale(x.mul(y), 2), -2 / Math.sqrt(Math.PI)));
/** erfc(x) e^(x^2) for x >= 1: beyond what polynomials are of, the first terms of its asymptotic series. */
function erfcxLarge(x: UOp): UOp {
  const end = x.dtype === dtypes.float64 ? 27 : 10, isFar = floatConst(end, x.dtype).lt(x);
  const r = over(1, isFar.where(x, floatConst(end, x.dtype))), q = r.mul(r);
  const series = horner([1, -1 / 2, 3 / 4, -15 / 8, 105 / 16, -945 / 32], q);
  return isFar.where(scale(r.mul(series), 1 / Math.sqrt(Math.PI)), erfcxNode(select(isFar, end, x)));
}
/** erfc(x) e^(x^2): 0 far out, infinite far below 0. */
export function erfcxValue(x: UOp): UOp {
  const a = absNode(x), isSmall = lt(a, 1), tail = erfcxLarge(select(isSmall, 1, a));
  const end = x.dtype === dtypes.float64 ? 27 : 10, square = gaussianNode(select(gt(a, end), end, a), -1); // infinite there
  const far = lt(x, 0).where(scale(square, 2).add(scale(tail, -1)), tail);
  const near = square.mul(erfcValue(isSmall.where(x, constant(0, x.dtype))));
  return withGradient(isSmall.where(near, far), [x], ERFCX_SLOPE);
}

// ---- the normal distribution

const DENSITY = 1 / Math.sqrt(2 * Math.PI);
function density(x: UOp): UOp {
  return scale(expNode(scale(x.mul(x), -0.5)), DENSITY);
}

const NDTR_SLOPE = slope((x) => density(x));
/** The share of a standard normal distribution below x. */
export function ndtrNode(x: UOp): UOp {
  const isFar = gt(absNode(x), Math.SQRT2), tail = upperTail(isFar.where(absNode(x), floatConst(2, x.dtype)));
  const near = shift(scale(erfNode(scale(select(isFar, 0, x), Math.SQRT1_2)), 0.5), 0.5);
  const far = lt(x, 0).where(tail, shift(scale(tail, -1), 1));
  return withGradient(isFar.where(far, near), [x], NDTR_SLOPE);
}
/** The share above x, from the root of 2 on: the square of x is not rounded before it is the exponent. */
function upperTail(x: UOp): UOp {
  const end = x.dtype === dtypes.float64 ? 38.75 : 14.25,
    isOver = gt(x, end),
    b = isOver.where(floatConst(end, x.dtype), x);
  return select(isOver, 0, scale(gaussianNode(b, 0.5).mul(erfcxNode(scale(b, Math.SQRT1_2))), 0.5));
}

/** The density over the share below: as a quotient of two small numbers it has no digits far below 0. */
const LOG_NDTR_SLOPE = slope((x) => {
  const isLow = lt(x, -Math.SQRT2), low = isLow.where(x, floatConst(-2, x.dtype));
  const far = over(Math.sqrt(2 / Math.PI), erfcxValue(scale(low, -Math.SQRT1_2)));
  return isLow.where(far, density(x).fdiv(ndtrNode(select(isLow, 0, x))));
});
/** The logarithm of {@linkcode ndtrNode}, also where that is 0. */
export function logNdtrNode(x: UOp): UOp {
  const isLow = lt(x, -Math.SQRT2), b = scale(isLow.where(x, floatConst(-2, x.dtype)), -Math.SQRT1_2);
  const low = logNode(scale(erfcxLarge(b), 0.5)).add(scale(x.mul(x), -0.5));
  const rest = select(isLow, 0, x), share = ndtrNode(rest), above = ndtrNode(scale(absNode(rest), -1));
  const near = lt(rest, 0).where(logNode(share), log1pNode(scale(above, -1)));
  return withGradient(isLow.where(low, near), [x], LOG_NDTR_SLOPE);
}

const NDTRI_SLOPE = slope((_, y) => scale(expNode(scale(y.mul(y), 0.5)), 1 / DENSITY));
/** Where the share below is p: infinite at 0 and 1, NaN outside. */
export function ndtriNode(p: UOp): UOp {
  const d = p.dtype, one = floatConst(1, d), zero = constant(0, d), isWide = d === dtypes.float64;
  const isInside = zero.lt(p).and(p.lt(one)), q = isInside.where(p, floatConst(0.5, d));
  const other = shift(scale(q, -1), 1), isUpper = floatConst(0.5, d).lt(q), s = isUpper.where(other, q); // at most 1/2
  // the inverse error function of 1 - 2s, whose polynomials are in log(1 - (1 - 2s)^2)
  const w = scale(logNode(scale(s, 4)).add(log1pNode(scale(s, -1))), -1), root = w.sqrt();
  const x = shift(scale(s, -2), 1), isNear = lt(w, 5), isFar = floatConst(38, d).lt(w);
  const near = isNear.where(
    erfinvNear(isNear.where(w, one)),
    erfinvFar(isNear.or(isFar).where(floatConst(5, d), root)),
  );
  // beyond: the first terms of its asymptotic series
  const log = logNode(s),
    t = isFar.where(scale(log, -2).sqrt(), one),
    l = shift(logNode(t), -Math.log(DENSITY));
  let z = isFar.where(t.add(scale(l.fdiv(t), -1)), scale(x.mul(near), Math.SQRT2));
  // Newton's steps for the logarithm: the density over the share is its slope
  const steps = isWide ? 3 : 2, isTail = isWide ? lt(s, 0.05) : isFar;
  for (let k = 0; k < steps; k++) {
    const at = isTail.where(z, floatConst(2, d)), b = scale(at, Math.SQRT1_2), tail = erfcxLarge(b);
    const value = logNode(scale(tail, 0.5)).add(scale(b.mul(b), -1));
    z = isTail.where(at.add(value.add(scale(log, -1)).mul(tail).mul(floatConst(Math.sqrt(Math.PI / 2), d))), z);
  }
  if (isWide) z = isTail.where(z, scale(erfinvNode(x), Math.SQRT2));
  const inner = isUpper.where(z, scale(z, -1));
  const end = p.eq(zero).where(over(-1, zero), p.eq(one).where(over(1, zero), over(0, zero)));
  return withGradient(isInside.where(inner, end), [p], NDTRI_SLOPE);
}

const ENTR_SLOPE = slope((x) => shift(scale(logNode(x), -1), -1));
/** -x log(x): 0 at 0, -infinity below. */
export function entrNode(x: UOp): UOp {
  const zero = constant(0, x.dtype), value = scale(x.mul(logNode(x)), -1);
  return withGradient(x.eq(zero).where(zero, lt(x, 0).where(over(-1, zero), value)), [x], ENTR_SLOPE);
}

const XLOG1PY = new GradientArg((g, [x, y]) => {
  const zero = constant(0, x.dtype), isZero = x.eq(zero).and(lt(y, -1).or(y.eq(floatConst(-1, y.dtype))));
  return [() => isZero.where(zero, g.mul(log1pValue(y))), () => g.mul(x.fdiv(shift(y, 1)))];
}, true);
/** x log(1 + y), which is 0 where x is 0, unless y is NaN. */
export function xlog1pyNode(x: UOp, y: UOp): UOp {
  const isZero = x.eq(constant(0, x.dtype)).and(y.eq(y));
  return withGradient(select(isZero, 0, x.mul(log1pNode(y))), [x, y], XLOG1PY);
}

// ---- modified Bessel functions of the first kind

/** I0(x) e^-x sqrt(x) in 2 end / x - 1, x >= end. */
const I0 = coefficients(
  "0.402176509445 0.00336055585193 0.000136216843115 1.11115254567e-5 1.47679210994e-6 3.63171030528e-7 1.08298982593e-7",
  `0.40052897918718268653 0.0016160154003827552163 0.000030355013467580845361 1.0944942081204502281e-6
   6.0263170011176227702e-8 4.5698009970885587805e-9 4.5056894732709361663e-10 5.5742977463090953474e-11
   8.4586436623217327005e-12 1.5513645941045071738e-12 3.3468948450981127947e-13 8.4236849954213528715e-14
   3.3214381794796931865e-14 1.7247385130859934189e-14 4.60360839458422074e-15`,
);
/** I1(x) e^-x sqrt(x) in 2 end / x - 1, x >= end. */
const I1 = coefficients(
  `0.389398459026 -0.00974958152655 -0.000219236669429 -1.50033230661e-5 -1.82671450466e-6 -4.21555437298e-7
   -1.22124984659e-7`,
  `0.39422021340612099595 -0.0047703982909136005684 -0.000049766991026247207748 -1.5068432513124259178e-6
   -7.6168570044268008659e-8 -5.4886549915253342524e-9 -5.2306196585193662695e-10 -6.3151112253767215057e-11
   -9.4073579402731166397e-12 -1.7007266363766067005e-12 -3.6294636365266885901e-13 -9.0154178188699294804e-14
   -3.4995265826728918901e-14 -1.827650567584729064e-14 -4.9352405208713433599e-15`,
);
/** Up to where power series are summed, whose terms are all positive: of float32 and float64, and their terms. */
const BESSEL_ENDS: readonly (readonly [end: number, terms: number])[] = [[8, 20], [16, 38]];

/** 1 / (k! (k + order)!), the coefficients of In(x) / (x / 2)^order in x^2 / 4. */
function besselSeries(order: number, terms: number): number[] {
  let c = 1;
  return Array.from({ length: terms }, (_, k) => (c /= k === 0 ? 1 : k * (k + order)));
}
/** In(x) for order 0 or 1, times e^-|x| where it is `scaled`. */
function besselNode(x: UOp, order: 0 | 1, scaled: boolean): UOp {
  const d = x.dtype, [end, terms] = BESSEL_ENDS[d === dtypes.float64 ? 1 : 0], a = absNode(x), isNear = lt(a, end);
  const n = isNear.where(x, constant(0, d)), f = select(isNear, end, a), isInf = a.eq(floatConst(Infinity, d));
  const series = horner(besselSeries(order, terms), scale(n.mul(n), 0.25));
  const near = order === 0 ? series : scale(n, 0.5).mul(series);
  const far = poly(order === 0 ? I0 : I1, shift(over(2 * end, f), -1)).fdiv(f.sqrt());
  const sign = order === 0 ? (u: UOp) => u : (u: UOp) => u.mul(signOf(x));
  if (scaled) return isNear.where(near.mul(expNode(scale(absNode(n), -1))), sign(far));
  const half = expNode(scale(f, 0.5)); // its square overflows earlier than the product
  return isNear.where(near, sign(select(isInf, Infinity, half.mul(far).mul(half))));
}
/** The derivatives: I1, and I0 - I1 / x, which is 1/2 at 0. */
const I0_SLOPE = slope((x) => i1Node(x));
const I1_SLOPE = slope((x, y) => i0Node(x).add(scale(ratio(x, y), -1)));
const I0E_SLOPE = slope((x, y) =>
  i1eNode(x).add(x.eq(constant(0, x.dtype)).where(constant(0, x.dtype), scale(y.mul(signOf(x)), -1)))
);
const I1E_SLOPE = slope((x, y) => i0eNode(x).add(scale(ratio(x, y), -1)).add(scale(absNode(y), -1)));
/** y / x, and 1/2 at 0. */
export function ratio(x: UOp, y: UOp): UOp {
  const isZero = x.eq(constant(0, x.dtype));
  return select(isZero, 0.5, y.fdiv(select(isZero, 1, x)));
}
/** I0(x). */
export function i0Node(x: UOp): UOp {
  return withGradient(besselNode(x, 0, false), [x], I0_SLOPE);
}
/** I0(x) e^-|x|. */
export function i0eNode(x: UOp): UOp {
  return withGradient(besselNode(x, 0, true), [x], I0E_SLOPE);
}
/** I1(x). */
export function i1Node(x: UOp): UOp {
  return withGradient(besselNode(x, 1, false), [x], I1_SLOPE);
}
/** I1(x) e^-|x|. */
export function i1eNode(x: UOp): UOp {
  return withGradient(besselNode(x, 1, true), [x], I1E_SLOPE);
}
