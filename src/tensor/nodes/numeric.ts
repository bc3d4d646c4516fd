/**
 * Transcendental functions as graphs of the primitives EXP2, LOG2, SIN, COS and SQRT. In and out: nodes of float32 or
 * float64 (callers widen half floats). Accurate to a few units in the last place, at zero too, and safe to
 * differentiate: the branch that a select does not take stays finite.
 *
 * Polynomials are our own Chebyshev interpolants (computed with 60 digits) of the remainder that each names; their
 * relative error is below 2e-9 for float32 and 2e-18 for float64.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { Ops } from "../../uop/core/ops.ts";
import { floatConst, type UOp, uop } from "../../uop/core/uop.ts";
import { slope, withGradient } from "../../uop/graph/given_gradient.ts";

export { floatConst };

/** Coefficients, lowest power first, for float32 and float64. */
export type Poly = readonly [f32: readonly number[], f64: readonly number[]];

/** Two lists of coefficients, as text. */
export function coefficients(f32: string, f64: string): Poly {
  const numbers = (text: string): number[] => text.split(/\s+/).map(Number);
  return [numbers(f32), numbers(f64)];
}

/** (asin(x) - x) / x^3 in z = x^2, |x| <= 1/2. */
const ASIN = coefficients(
  "0.166666663374 0.075000945435 0.0445994015285 0.0311006627355 0.0171492383577 0.0336908472028",
  `0.16666666666666666592 0.07500000000000117751 0.044642857142551892902 0.030381944475532339993
   0.022372157443507222419 0.017352816540325494994 0.013963780012203569641 0.011566459612121668568
   0.0096218429701002810177 0.0093195607947674462957 0.0030448799094556773959 0.019554513336123378949
   -0.019241671746743040654 0.02961201126495512036`,
);
/** (atan(x) - x) / x^3 in z = x^2, |x| <= tan(pi/8). */
const ATAN = coefficients(
  "-0.333333332793 0.199999772587 -0.142841511936 0.110713650219 -0.0862467614525 0.0504813851208",
  `-0.33333333333333333217 0.19999999999999804526 -0.14285714285659827606 0.11111111105155446565
   -0.090909087535008768442 0.076922963750321423991 -0.066664248857382553335 0.058789289978347751327
   -0.052304542706502445183 0.045515932206265491693 -0.034570561981427746882 0.016285756855221028291`,
);
/** (sinh(x) - x) / x^3 in z = x^2, |x| <= 1. */
const SINH = coefficients(
  "0.166666666468 0.00833333967592 0.000198381019687 2.80628025823e-6",
  `0.16666666666666666701 0.0083333333333332993552 0.00019841269841324197917 2.7557319191381816996e-6
   2.5052117695907823572e-8 1.6057679623801637746e-10 7.7461785930188274892e-13`,
);
/** (tanh(x) - x) / x^3 in z = x^2, |x| <= 5/8. */
const TANH = coefficients(
  "-0.333333331721 0.133333035569 -0.0539592595772 0.021768918651 -0.00834394551584 0.00229274481618",
  `-0.33333333333333332938 0.13333333333333041602 -0.05396825396789699169 0.021869488519008305756
   -0.008863235103240877925 0.0035921217511549622695 -0.0014557754120478055104 0.0005896606577757043347
   -0.00023759064960555619551 9.2571161295567682707e-5 -3.1201101425797400033e-5 6.48516348279311315e-6`,
);
/** (exp(x) - 1 - x) / x^2, |x| <= 1/2. */
const EXPM1 = coefficients(
  "0.5 0.166666666666 0.0416666677471 0.0083333334315 0.00138886728621 0.000198410735562 2.49397333001e-5",
  `0.49999999999999999863 0.16666666666666666658 0.04166666666666706171 0.0083333333333333596599
   0.0013888888888704548969 0.00019841269841146991866 2.4801587616145412717e-5 2.7557319433620242821e-6
   2.7557076636642723479e-7 2.5051946709721621128e-8 2.0962955815976075739e-9 1.6116496514371546473e-10`,
);
/** (log(1 + x) - x) / x^2, 1/sqrt(2) <= 1 + x <= sqrt(2). */
const LOG1P = coefficients(
  `-0.499999999431 0.333333227852 -0.250000110853 0.200014476945 -0.166675288081 0.142322852277 -0.124209501131
   0.118125686731 -0.11556577552 0.06767020336`,
  `-0.49999999999999999904 0.33333333333333337865 -0.25000000000000196065 0.19999999999997216794
   -0.16666666666598942803 0.14285714286185276296 -0.12500000009217021978 0.11111111078576661887
   -0.099999993573058608606 0.090909100245168898653 -0.083333590625173295765 0.076923070334708283869
   -0.071422390062785955663 0.066660130670656037536 -0.062588248080006078014 0.059000785912042376245
   -0.054874936513497212766 0.050476147752508825608 -0.05177703697430576042 0.059925122382910330809
   -0.053731930669100908616 0.022566410660897533046`,
);
/** erf(x) / x - 1 in z = x^2, |x| <= 1. */
const ERF = coefficients(
  "0.128379165848 -0.376126266667 0.112835947152 -0.0268542120106 0.00518908742343 -0.000801686428717 7.87587506e-5",
  `0.12837916709551257377 -0.37612638903183748056 0.11283791670954878666 -0.026866170645076793248
   0.0052239776248180144673 -0.00085483269808337899052 0.00012055331111642710923 -1.4925595266831181565e-5
   1.6461000484121368033e-6 -1.6350312701054695011e-7 1.4659775274047435814e-8 -1.137284885679167367e-9
   5.9571761477489114044e-11`,
);
/** log2(exp(x^2) erfc(x)) in (x - 5.625) / 4.625, 1 <= x <= 10.25, for float32. */
const ERFCX_LOG2: readonly number[] = [
  -3.33956189013,
  -1.15138578052,
  0.446677778841,
  -0.224868613997,
  0.12405262639,
  -0.0710849567764,
  0.0410609588341,
  -0.0238416300745,
  0.0147209964157,
  -0.00851027203435,
  0.00269145230824,
  -0.00108385182543,
  0.00284168407539,
  -0.001861536686,
  -0.000387477998588,
  0.000454393762103,
];
/**
 * exp(x^2) erfc(x) in t = (x - 3) / (x + 3), 1 <= x <= 27.5, for float64: the mapping of Shepherd and Laframboise,
 * "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x", Math. Comp. 36 (1981).
 */
const ERFCX: readonly number[] = [
  0.17900115118138995042,
  -0.32623356004303722831,
  0.24560380171233087696,
  -0.15011593650077721507,
  0.071665837197978605212,
  -0.024392499318671480608,
  0.0042691363328193483366,
  0.00070774643891780723313,
  -0.00059706194811227547843,
  0.000045255298338981187463,
  0.000064056551069680151144,
  -0.000012860492094825897451,
  -7.9781093760333732176e-6,
  2.1199508298113206839e-6,
  1.2524517631410940607e-6,
  -2.9359551196857214124e-7,
  -2.3475061101605227082e-7,
  2.7427683103202734163e-8,
  4.7705908460059538221e-8,
  2.6351550873839999157e-9,
  -1.079671979035449463e-8,
  -1.7089797195577269212e-9,
  2.9880307711394622127e-9,
  -6.0829303131650220882e-10,
];

/** `x * value`, the constant rounded to the dtype of `x`. */
export function scale(x: UOp, value: number): UOp {
  return x.mul(floatConst(value, x.dtype));
}

/** `x + value`, the constant rounded to the dtype of `x`. */
export function shift(x: UOp, value: number): UOp {
  return x.add(floatConst(value, x.dtype));
}

/** x < value. */
export function lt(x: UOp, value: number): UOp {
  return x.lt(floatConst(value, x.dtype));
}

/** x > value. */
export function gt(x: UOp, value: number): UOp {
  return floatConst(value, x.dtype).lt(x);
}

/** `condition ? x : value`. */
export function pick(condition: UOp, x: UOp, value: number): UOp {
  return condition.where(x, floatConst(value, x.dtype));
}

/** `condition ? value : x`; a comparison with NaN is false, so NaN passes. */
function unless(condition: UOp, x: UOp, value: number): UOp {
  return condition.where(floatConst(value, x.dtype), x);
}

/** A number over x. */
export function over(value: number, x: UOp): UOp {
  return floatConst(value, x.dtype).fdiv(x);
}

/** Horner's rule. */
export function horner(coefficients: readonly number[], x: UOp): UOp {
  let p = floatConst(coefficients[coefficients.length - 1], x.dtype);
  for (let i = coefficients.length - 2; i >= 0; i--) p = shift(x.mul(p), coefficients[i]);
  return p;
}

/** A polynomial by the coefficients for the dtype of x. */
export function poly([f32, f64]: Poly, x: UOp): UOp {
  return horner(x.dtype === dtypes.float64 ? f64 : f32, x);
}

/** x + x^3 p(x^2), where p is above 0: of -0 it is -0. */
function oddPoly(p: Poly, x: UOp): UOp {
  const z = x.mul(x);
  return x.add(x.mul(z).mul(poly(p, z)));
}

/** The same where p is below 0: a sum of -0 and 0 would be 0. */
function oddProduct(p: Poly, x: UOp): UOp {
  const z = x.mul(x);
  return x.mul(shift(z.mul(poly(p, z)), 1));
}

/** -1 where x < 0, else 1; constants, so without a gradient. */
export function signOf(x: UOp): UOp {
  return lt(x, 0).where(floatConst(-1, x.dtype), floatConst(1, x.dtype));
}

/** d |x| is the sign: 0 at 0, and at NaN, where what it is multiplied with is NaN. */
const SIGN = slope((x) => {
  const c = (v: number) => floatConst(v, x.dtype);
  return x.lt(c(0)).where(c(-1), c(0).lt(x).where(c(1), c(0)));
});

/** |x|, by its value `magnitude`. */
export function absNode(x: UOp, magnitude: UOp = x.mul(signOf(x))): UOp {
  return withGradient(magnitude, [x], SIGN);
}

/** e^x. Codegen computes `EXP2(x * log2 e)` without the rounding of the product. */
export function expNode(x: UOp): UOp {
  return scale(x, Math.LOG2E).exp2();
}

/** Natural logarithm. */
export function logNode(x: UOp): UOp {
  return scale(x.log2(), Math.LN2);
}

/** e^x - 1 without cancellation near zero. */
export function expm1Node(x: UOp): UOp {
  const small = lt(x.mul(signOf(x)), 0.5);
  const near = pick(small, x, 0);
  return small.where(near.mul(shift(near.mul(poly(EXPM1, near)), 1)), shift(expNode(x), -1)); // keeps -0
}

/** log(1 + x) without cancellation near zero. */
export function log1pNode(x: UOp): UOp {
  const small = gt(x, -0.2928).and(lt(x, 0.4142));
  return small.where(log1pNear(pick(small, x, 0)), logNode(shift(unless(small, x, 1), 1)));
}
/** log(1 + x) for 1 + x from sqrt(1/2) to sqrt(2). */
export function log1pNear(x: UOp): UOp {
  return x.add(x.mul(x).mul(poly(LOG1P, x)));
}

/** sin / cos. */
export function tanNode(x: UOp): UOp {
  return x.sin().fdiv(x.cos());
}

/** sqrt((1 - a) / 2), and 1 where `unused`. */
function halfComplement(unused: UOp, a: UOp): UOp {
  return unless(unused, scale(shift(scale(a, -1), 1), 0.5), 1).sqrt();
}

/** d s = x s^3 dx for s = 1 / sqrt(1 - x^2): at the ends of the domain infinite, as s is. */
const ARC = slope((x, s) => x.mul(s).mul(s).mul(s));
/** 1 / sqrt(1 - x^2), by factors: near 1 the difference of squares has no digits. */
function arcSlope(x: UOp): UOp {
  return withGradient(over(1, shift(scale(x, -1), 1).mul(shift(x, 1)).sqrt()), [x], ARC);
}
const ASIN_SLOPE = slope(arcSlope), ACOS_SLOPE = slope((x) => scale(arcSlope(x), -1));

/** asin(a) for 0 <= a <= 1: beyond 1/2 as pi/2 - 2 asin(sqrt((1 - a) / 2)). */
function asinPositive(a: UOp): UOp {
  const small = lt(a, 0.5);
  const t = small.where(a, halfComplement(small, a));
  const core = oddPoly(ASIN, t);
  return small.where(core, shift(scale(core, -2), Math.PI / 2));
}

/** Inverse sine; NaN outside [-1, 1]. */
export function asinNode(x: UOp): UOp {
  const s = signOf(x);
  return withGradient(asinPositive(x.mul(s)).mul(s), [x], ASIN_SLOPE);
}

/** Inverse cosine; accurate at 1 too. */
export function acosNode(x: UOp): UOp {
  const s = signOf(x), a = x.mul(s);
  const small = lt(a, 0.5);
  const t = small.where(x, halfComplement(small, a));
  const core = oddPoly(ASIN, t);
  const far = lt(x, 0).where(shift(scale(core, -2), Math.PI), scale(core, 2));
  return withGradient(small.where(shift(scale(core, -1), Math.PI / 2), far), [x], ACOS_SLOPE);
}

/** Inverse tangent: into [0, tan(pi/8)] by atan(a) = pi/4 + atan((a-1)/(a+1)) and pi/2 - atan(1/a). */
export function atanNode(x: UOp): UOp {
  const s = signOf(x), a = x.mul(s);
  const big = gt(a, 1);
  const t = big.where(over(1, pick(big, a, 1)), a);
  const mid = gt(t, Math.SQRT2 - 1);
  const u = mid.where(shift(t, -1).fdiv(shift(t, 1)), t);
  const core = oddProduct(ATAN, u);
  const quarter = mid.where(shift(core, Math.PI / 4), core);
  return big.where(shift(scale(quarter, -1), Math.PI / 2), quarter).mul(s);
}

const SINH_SLOPE = slope((x) => coshNode(x));

/** Hyperbolic sine. */
export function sinhNode(x: UOp): UOp {
  const s = signOf(x), a = x.mul(s);
  const small = lt(a, 1);
  const e = expNode(scale(a, 0.5)); // half the exponent: the result may be finite where e^a is not
  const far = scale(e, 0.5).mul(e).add(over(-0.5, e).fdiv(e));
  return withGradient(small.where(oddPoly(SINH, pick(small, x, 0)), far.mul(s)), [x], SINH_SLOPE);
}

const COSH_SLOPE = slope((x) => sinhNode(x));

/** Hyperbolic cosine. */
export function coshNode(x: UOp): UOp {
  const e = expNode(scale(x.mul(signOf(x)), 0.5));
  return withGradient(scale(e, 0.5).mul(e).add(over(0.5, e).fdiv(e)), [x], COSH_SLOPE);
}

/** d tanh x = 4 e / (1 + e)^2 with e = e^-2a: good digits also where it is tiny. */
const TANH_SLOPE = slope((x) => {
  const e = expNode(scale(x.mul(signOf(x)), -2)), r = over(1, shift(e, 1));
  return scale(e, 4).mul(r).mul(r);
});

/** Hyperbolic tangent: 1 - 2 / (e^2a + 1) away from zero. */
export function tanhNode(x: UOp): UOp {
  const s = signOf(x), a = x.mul(s);
  const small = lt(a, 0.625);
  // beyond 20 the result is 1 in every float dtype
  const e = expNode(scale(unless(gt(a, 20), a, 20), 2));
  const far = shift(over(-2, shift(e, 1)), 1).mul(s);
  return withGradient(small.where(oddProduct(TANH, pick(small, x, 0)), far), [x], TANH_SLOPE);
}

/** d asinh x = 1 / sqrt(x^2 + 1) */
const ASINH_SLOPE = slope((x) => over(1, shift(x.mul(x), 1).sqrt()));

/** Inverse hyperbolic sine: log1p(a + a^2 / (1 + sqrt(a^2 + 1))). */
export function asinhNode(x: UOp): UOp {
  const s = signOf(x), a = x.mul(s);
  const huge = gt(a, 2 ** 30);
  const n = unless(huge, a, 1);
  const near = log1pNode(n.add(n.mul(n).fdiv(shift(shift(n.mul(n), 1).sqrt(), 1))));
  const value = huge.where(shift(logNode(pick(huge, a, 1)), Math.LN2), near).mul(s);
  return withGradient(x.eq(floatConst(0, x.dtype)).where(x, value), [x], ASINH_SLOPE); // keeps -0
}

/** d s = -x s^3 dx for s = 1 / sqrt(x^2 - 1). */
const ACOSH_SECOND = slope((x, s) => scale(x.mul(s).mul(s).mul(s), -1));
/** d acosh x = 1 / sqrt(x^2 - 1), by factors: near 1 the difference of squares has no digits, and far out no square. */
const ACOSH_SLOPE = slope((x) => {
  const a = x.mul(signOf(x));
  return withGradient(over(1, shift(a, -1).sqrt().mul(shift(a, 1).sqrt())), [x], ACOSH_SECOND);
});

/** Inverse hyperbolic cosine: log1p(t + sqrt(t (t + 2))) with t = x - 1; NaN below 1. */
export function acoshNode(x: UOp): UOp {
  const huge = gt(x, 2 ** 30);
  const t = shift(unless(huge, x, 2).alu(Ops.MAX, floatConst(0, x.dtype)), -1); // far below, t (t + 2) were positive
  const near = log1pNode(t.add(t.mul(shift(t, 2)).sqrt()));
  return withGradient(huge.where(shift(logNode(pick(huge, x, 1)), Math.LN2), near), [x], ACOSH_SLOPE);
}

/** d s = 2 x s^2 dx for s = 1 / (1 - x^2). */
const ATANH_SECOND = slope((x, s) => scale(x, 2).mul(s).mul(s));
/** d atanh x = 1 / (1 - x^2) = 1 / ((1 - x) (1 + x)) */
const ATANH_SLOPE = slope((x) => withGradient(over(1, shift(scale(x, -1), 1).mul(shift(x, 1))), [x], ATANH_SECOND));

/** Inverse hyperbolic tangent: log1p(2a / (1 - a)) / 2. */
export function atanhNode(x: UOp): UOp {
  const s = signOf(x), a = x.mul(s);
  const value = scale(log1pNode(scale(a, 2).fdiv(shift(scale(a, -1), 1))), 0.5).mul(s);
  return withGradient(value, [x], ATANH_SLOPE);
}

/** log2(erfc(b)) for 1 <= b <= 10.25, and little less beyond. `z` is b^2. */
function erfcLog2(b: UOp, z: UOp): UOp {
  return horner(ERFCX_LOG2, scale(shift(b, -5.625), 1 / 4.625)).add(scale(z, -Math.LOG2E));
}
/** erfc(b) e^(b^2) in float64, b >= 1. */
function erfcx(b: UOp): UOp {
  return horner(ERFCX, shift(b, -3).fdiv(shift(b, 3)));
}
/** erfc(b) e^(b^2), 1 <= b <= 10.25 (27.5 in float64). */
export function erfcxNode(b: UOp): UOp {
  return b.dtype === dtypes.float64 ? erfcx(b) : erfcLog2(b, floatConst(0, b.dtype)).exp2();
}
/** erfc(b), 1 <= b <= 10.25 (27.5 in float64): good digits also where it is tiny. `z` is b^2. */
function erfcNode(b: UOp, z: UOp): UOp {
  return b.dtype === dtypes.float64 ? expNode(scale(z, -1)).mul(erfcx(b)) : erfcLog2(b, z).exp2();
}

/** d erf x = 2 e^-x^2 / sqrt(pi) */
const ERF_SLOPE = slope((x) => scale(expNode(scale(x.mul(x), -1)), 2 / Math.sqrt(Math.PI)));

/** The error function. */
export function erfNode(x: UOp): UOp {
  const s = signOf(x), a = x.mul(s), small = lt(a, 1);
  const near = pick(small, x, 0), z = near.mul(near);
  const end = x.dtype === dtypes.float64 ? 6 : 4; // from there on it is 1
  const b = unless(small, unless(gt(a, end), a, end), 1);
  const far = shift(scale(erfcNode(b, b.mul(b)), -1), 1).mul(s);
  return withGradient(small.where(near.add(near.mul(poly(ERF, z))), far), [x], ERF_SLOPE);
}

/** The distribution function of the normal distribution at x: near 0, and far from it at -|x|, as a product of two. */
function normalParts(x: UOp): { small: UOp; center: UOp; b: UOp; root: UOp; other: UOp } {
  const wide = x.dtype === dtypes.float64, end = wide ? 56 : 22; // at the end it is 0
  const a = x.mul(signOf(x)), small = lt(a, Math.SQRT2);
  const near = scale(pick(small, x, 0), Math.SQRT1_2), square = near.mul(near);
  const center = shift(scale(near.add(near.mul(poly(ERF, square))), 0.5), 0.5);
  const b = unless(small, unless(gt(a, end), a, end), Math.SQRT2);
  const t = scale(b, Math.SQRT1_2), z = scale(b.mul(b), 0.5);
  const root = wide ? expNode(scale(z, -0.5)) : scale(erfcLog2(t, z), 0.5).exp2();
  return { small, center, b, root, other: wide ? root.mul(erfcx(t)) : root };
}

/** d x F(x) = F(x) + x f(x), with the density f: e^(-x^2 / 2) / sqrt(2 pi). */
const GELU_SLOPE = slope((x) => {
  const { small, center, b, root, other } = normalParts(x), below = scale(other.mul(root), 0.5);
  const share = small.where(center, lt(x, 0).where(below, shift(scale(below, -1), 1)));
  const at = small.where(x, lt(x, 0).where(scale(b, -1), b)); // not infinite
  return share.add(at.mul(scale(expNode(scale(at.mul(at), -0.5)), 1 / Math.sqrt(2 * Math.PI))));
});

/**
 * x times the distribution function of the normal distribution, (1 + erf(x / sqrt 2)) / 2. Far below 0 that is subnormal,
 * which some devices take as zero, before the product is: x is multiplied by its roots instead.
 */
export function geluNode(x: UOp): UOp {
  const { small, center, root, other } = normalParts(x);
  const below = scale(x, 0.5).mul(other).mul(root), above = x.mul(shift(scale(other.mul(root), -0.5), 1));
  return withGradient(small.where(x.mul(center), lt(x, 0).where(below, above)), [x], GELU_SLOPE);
}

/** d sigmoid x = e / (1 + e)^2 with e = e^-|x| */
const SIGMOID_SLOPE = slope((x) => {
  const e = expNode(scale(x.mul(signOf(x)), -1)), r = over(1, shift(e, 1));
  return e.mul(r).mul(r);
});

/** 1 / (1 + e^-x) without overflow on either side. */
export function sigmoidNode(x: UOp): UOp {
  const negative = lt(x, 0);
  const e = expNode(x.mul(negative.where(floatConst(1, x.dtype), floatConst(-1, x.dtype))));
  const r = over(1, shift(e, 1));
  return withGradient(negative.where(e.mul(r), r), [x], SIGMOID_SLOPE);
}

const SOFTPLUS_SLOPE = slope((x) => sigmoidNode(x));

/** log(1 + e^x) without overflow. */
export function softplusNode(x: UOp): UOp {
  const negative = lt(x, 0);
  const e = expNode(x.mul(negative.where(floatConst(1, x.dtype), floatConst(-1, x.dtype))));
  return withGradient(log1pNode(e).add(negative.where(floatConst(0, x.dtype), x)), [x], SOFTPLUS_SLOPE);
}

/** log(e^a + e^b) without overflow. */
export function logaddexpNode(a: UOp, b: UOp): UOp {
  const high = a.alu(Ops.MAX, b), low = scale(scale(a, -1).alu(Ops.MAX, scale(b, -1)), -1);
  // Equal infinities would give NaN as their difference. Of equal numbers it is 0, and has a gradient.
  const infinite = a.eq(b).and(a.eq(floatConst(Infinity, a.dtype)).or(a.eq(floatConst(-Infinity, a.dtype))));
  const difference = infinite.where(floatConst(0, a.dtype), low.add(scale(high, -1)));
  return high.add(log1pNode(expNode(difference)));
}

/** The largest integer not above x. */
export function floorNode(x: UOp): UOp {
  const t = x.trunc();
  return x.lt(t).where(shift(t, -1), t);
}

/** The smallest integer not below x. */
export function ceilNode(x: UOp): UOp {
  const t = x.trunc();
  return t.lt(x).where(shift(t, 1), t);
}

/** The nearest integer, halves to the even one. */
export function roundNode(x: UOp): UOp {
  const t = x.trunc(), s = signOf(x);
  const rest = x.add(scale(t, -1)).mul(s); // exact
  const half = scale(t, 0.5);
  const up = gt(rest, 0.5).or(rest.eq(floatConst(0.5, x.dtype)).and(half.trunc().ne(half)));
  return up.where(t.add(s), t);
}

/** True for NaN. */
export function isNanNode(x: UOp): UOp {
  return x.ne(x);
}

/** The square root, with the gradient 0 at 0 instead of an infinite one: for what is not below 0. */
export function rootNode(x: UOp): UOp {
  const zero = x.eq(floatConst(0, x.dtype));
  return zero.where(floatConst(0, x.dtype), unless(zero, x, 1).sqrt());
}

/** `x`, without a gradient. */
export function detachNode(x: UOp): UOp {
  return uop(Ops.DETACH, x.dtype, [x]);
}
