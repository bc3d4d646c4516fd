/**
 * Higher functions as graphs: the gamma function's logarithm and its derivatives, the inverse of the error function, divisors.
 * In and out: nodes of float32 or float64, as in numeric.ts, whose polynomials these are like: our own Chebyshev interpolants
 * of the remainder that each names.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { Ops } from "../../uop/core/ops.ts";
import { constant, type UOp, uop } from "../../uop/core/uop.ts";
import { GradientArg, slope, withGradient, zerosLike } from "../../uop/graph/given_gradient.ts";
import {
  absNode,
  coefficients,
  detachNode,
  erfNode,
  expNode,
  floatConst,
  floorNode,
  horner,
  logNode,
  lt,
  over,
  type Poly,
  poly,
  roundNode,
  scale,
  shift,
  signOf,
} from "../nodes/numeric.ts";
import { erfcValue, select } from "../nodes/special_nodes.ts";

/** lgamma(x) / ((x - 1) (x - 2)) in x - 3/2, 1 <= x <= 2. */
export const LGAMMA: Poly = coefficients(
  `0.483128950541 -0.14595990197 0.0629114048356 -0.0313080053543 0.0167967992206 -0.00943628826873 0.00545308050326
   -0.00311698205969 0.00186388494919 -0.00152448583466 0.000934933127787`,
  `0.48312895054098088995 -0.1459598959143060826 0.06291140107456439203 -0.031308487501010647937 0.016797098631274160293
   -0.0094256224485257977967 0.0054464578391260646433 -0.0032120740737152811673 0.001922916312790516038
   -0.0011644145847310124176 0.00071151906751529593439 -0.00043799307479613916213 0.0002713137386144692758
   -0.00016891782155248981555 0.00010535512483785591662 -0.000066141360223464143082 0.000043027681497650298193
   -0.000027201673025504751982 0.000013186019073996833906 -8.3550758697952728235e-6 0.000012140008083973406845
   -7.7606601525134468118e-6`,
);
/** x (lgamma(x) - (x - 1/2) log x + x - log(2 pi) / 2) in 1 / x^2, x >= 8. */
export const STIRLING: Poly = coefficients(
  "0.0833333332646 -0.0027776985452 0.000780034718983",
  `0.083333333333333333321 -0.0027777777777776747568 0.00079365079351172820504 -0.00059523802342912534121
   0.00084173252680224046543 -0.0019149659121629069991 0.0062081367662297933593 -0.020855820837463115117`,
);
/** x^2 (log x - 1 / 2x - digamma(x)) in 1 / x^2, x >= 8. */
const DIGAMMA = coefficients(
  "0.0833333333301 -0.00833332667975 0.00396610969887 -0.00394313711165",
  `0.083333333333333333328 -0.0083333333333332731479 0.0039682539681507785939 -0.004166666598264495496
   0.0075757347362521188869 -0.021088476563015532183 0.082846625841467673519 -0.41039193971231855747
   1.7723438848038760674`,
);
/** erfinv(x) / x in (w - 2.5) / 2.5 for w = -log(1 - x^2) <= 5. */
const ERFINV_NEAR = [1.50140935175, 0.616600691871, -0.0261082817529, -0.0195735618337, 0.00852594239123]
  .concat([-0.000487890635756, -0.000836490773861, 0.000292169011509, 2.51825623187e-5, -4.14343310226e-5])
  .concat([4.13954429994e-6, 2.94365337241e-6]);
/** erfinv(x) / x in (sqrt(w) - 4.25) / 2.1, 5 <= w <= 38. */
const ERFINV_FAR = [4.09222342367, 2.12095447655, 0.00314320469688, -0.00563426549868, 0.00412755696903]
  .concat([-0.00256640209492, 0.00186827199481, -0.00224984428072, 0.00231486591987, -0.00114125719096])
  .concat([0.00202790885402, -0.00453416302555, 0.0017305805505, 0.00335857726131, -0.00239239392577])
  .concat([-0.000628848170523, 0.000613782649134]);

/** Terms of a series by which small arguments are moved up, to where an asymptotic expansion holds. */
export const STEPS = 8;

/** So near to 0 that the gamma function is 1 / x in any dtype. */
const SMALL = 1e-17;

// ---- roots

/** Of y = x^(1/3): 1 / (3 y^2). */
const CBRT = new GradientArg((g, [_], y) => [g.fdiv(scale(y.mul(y), 3))]);
/** x^(1/3) with the sign of x, through the logarithm; a step of Newton's makes up for its rounding. */
export function cbrtNode(x: UOp): UOp {
  const a = absNode(x), near = scale(a.log2(), 1 / 3).exp2(), one = floatConst(1, x.dtype);
  const isPlain = floatConst(0, x.dtype).lt(a).and(a.lt(floatConst(Infinity, x.dtype)));
  const safe = isPlain.where(near, one), root = safe.add(scale(safe.add(a.fdiv(safe.mul(safe)).mul(-1)), -1 / 3));
  return withGradient(isPlain.where(root.mul(signOf(x)), x), [x], CBRT);
}

// ---- the error function

/** erfinv(x) / x by w = -log(1 - x^2), up to 5. */
export function erfinvNear(w: UOp): UOp {
  return horner(ERFINV_NEAR, scale(shift(w, -2.5), 1 / 2.5));
}
/** erfinv(x) / x by the root of w from 5 to 38. */
export function erfinvFar(root: UOp): UOp {
  return horner(ERFINV_FAR, scale(shift(root, -4.25), 1 / 2.1));
}

const ERFINV_SLOPE = slope((_, y) => scale(expNode(y.mul(y)), Math.sqrt(Math.PI) / 2));
/** The inverse of the error function: infinite at -1 and 1, NaN beyond. */
export function erfinvNode(x: UOp): UOp {
  const d = x.dtype, one = floatConst(1, d), a = absNode(x), inside = a.lt(one);
  const p = inside.where(x, constant(0, d)), q = inside.where(a, constant(0, d));
  const w = scale(logNode(shift(scale(q, -1), 1).mul(shift(q, 1))), -1), near = lt(w, 5);
  const five = floatConst(5, d), root = near.where(five, w).sqrt();
  let y = p.mul(near.where(erfinvNear(near.where(w, five)), erfinvFar(root)));
  if (d === dtypes.float64) { // one of Halley's steps from eight digits
    const z = absNode(y);
    const error = lt(q, 0.5).where(erfNode(z).add(scale(q, -1)), shift(scale(q, -1), 1).add(scale(erfcValue(z), -1)));
    const step = error.mul(scale(expNode(z.mul(z)), Math.sqrt(Math.PI) / 2));
    y = y.add(scale(step.fdiv(shift(z.mul(step), 1)).mul(signOf(p)), -1));
  }
  const end = a.eq(one).where(over(1, constant(0, d)).mul(signOf(x)), over(0, constant(0, d)));
  return withGradient(inside.where(y, end), [x], ERFINV_SLOPE);
}

// ---- the gamma function

/** sin(pi x), exact at whole numbers. */
function sinPi(x: UOp): UOp {
  const n = roundNode(x), rest = x.add(scale(n, -1)), half = scale(n, 0.5);
  const s = scale(rest, Math.PI).sin();
  return half.ne(half.trunc()).where(scale(s, -1), s);
}

/** log Gamma(x) for x > 0. */
function lgammaPositive(x: UOp): UOp {
  const d = x.dtype, large = floatConst(STEPS, d).lt(x), tiny = lt(x, 1);
  const n = large.where(floatConst(1.5, d), tiny.where(shift(x, 1), x)); // in [1, 8]
  const down = shift(floorNode(n), -1), one = floatConst(1, d);
  let product = one;
  for (let k = 1; k < STEPS; k++) product = product.mul(lt(n, k + 1).where(one, shift(n, -k)));
  const z = n.add(scale(down, -1)), core = shift(z, -1).mul(shift(z, -2)).mul(poly(LGAMMA, shift(z, -1.5)));
  const log = logNode(tiny.where(x, product)), near = core.add(tiny.where(scale(log, -1), log));
  const y = large.where(x, floatConst(STEPS, d)), r = over(1, y);
  const far = shift(y, -0.5).mul(shift(logNode(y), -1)).add(r.mul(poly(STIRLING, r.mul(r))));
  return large.where(shift(far, Math.log(2 * Math.PI) / 2 - 0.5), near);
}

const LGAMMA_SLOPE = slope((x) => digammaNode(x));
/** The logarithm of |Gamma(x)|: infinite at 0 and negative integers. */
export function lgammaNode(x: UOp): UOp {
  const d = x.dtype, a = absNode(x), isInf = a.eq(floatConst(Infinity, d)), b = select(isInf, 1, a);
  const value = lgammaPositive(x.eq(constant(0, d)).where(floatConst(1, d), b));
  // Gamma(x) Gamma(-x) = -pi / (x sin(pi x)): of x near 0 that is log |x|
  const reflected = scale(logNode(absNode(scale(b.mul(sinPi(b)), 1 / Math.PI))).add(value), -1);
  const found = lt(x, 0).and(floatConst(SMALL, d).lt(b)).where(reflected, value); // of tiny x both are -log |x|
  return withGradient(isInf.or(x.eq(constant(0, d))).where(floatConst(Infinity, d), found), [x], LGAMMA_SLOPE);
}

/** x where it is at least 8, else moved up by 8; and where it is not. */
function raised(x: UOp): [moved: UOp, low: UOp] {
  const low = lt(x, STEPS);
  return [low.where(shift(x, STEPS), x), low];
}

/** The derivative of {@linkcode lgammaNode} for x > 0. */
function digammaPositive(x: UOp): UOp {
  const [y, low] = raised(x), r = over(1, y), zero = constant(0, x.dtype);
  let sum = logNode(y).add(scale(r, -0.5)).add(scale(r.mul(r).mul(poly(DIGAMMA, r.mul(r))), -1));
  const from = low.where(x, floatConst(1, x.dtype));
  for (let k = STEPS - 1; k >= 0; k--) sum = sum.add(low.where(over(-1, shift(from, k)), zero));
  return sum;
}

/** cot(pi x) for |x| <= 1/2, not 0: 0 at the ends. */
function cotPi(x: UOp): UOp {
  const a = absNode(x), sine = (u: UOp): UOp => scale(u, Math.PI).sin();
  return sine(shift(scale(a, -1), 0.5)).fdiv(sine(a)).mul(signOf(x));
}

const DIGAMMA_SLOPE = slope((x) => polygammaNode(1, x));
/** The derivative of {@linkcode lgammaNode}: NaN at negative integers, infinite at 0. */
export function digammaNode(x: UOp): UOp {
  const d = x.dtype, below = lt(x, 0), a = below.where(scale(x, -1), x), zero = a.eq(constant(0, d));
  const value = digammaPositive(select(zero, 1, a)), rest = a.add(scale(roundNode(a), -1));
  // psi(-a) = psi(a) + 1 / a + pi cot(pi a)
  const isPole = rest.eq(constant(0, d)), cot = scale(cotPi(select(isPole, 0.5, rest)), Math.PI);
  const sum = lt(a, SMALL).where(over(1, a), value.add(over(1, a)).add(cot)); // of tiny a two of three may be infinite
  const reflected = isPole.where(over(0, constant(0, d)), sum);
  const found = below.where(reflected, value);
  return withGradient(zero.where(over(-1, x), found), [x], DIGAMMA_SLOPE);
}

/** Bernoulli's numbers B2, B4, ... */
const BERNOULLI = [1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798];

/** u^n by products, of which each is as large as what it is a part of. */
function repeated(u: UOp, n: number): UOp {
  let p = u;
  for (let i = 1; i < n; i++) p = p.mul(u);
  return p;
}

/** A number of few digits whose power n + 1 is about n!, and what is left of n!: neither is too large, as n! may be. */
function evenedFactorial(n: number): [base: number, rest: number] {
  const base = Math.round(factorial(n) ** (1 / (n + 1)) * 256) / 256;
  return [base, factorial(n) / base ** (n + 1)];
}

/**
 * n! times the sum over k of 1 / (x + k)^(n + 1), x > 0, by 12 terms and Euler and Maclaurin's formula for the rest. What is
 * raised to powers is c / (x + k), where c^(n + 1) is about n!: they are too large or too small where the sum is.
 */
function scaledZeta(n: number, x: UOp): UOp {
  const terms = 12, s = n + 1, [c, rest] = evenedFactorial(n), y = shift(x, terms), r = over(1, y);
  // nearer, the expansion is not one, and what it is for is too little to count
  const u = lt(y, s / 6 + 3).where(constant(0, x.dtype), over(c, y));
  const before = repeated(u, n), last = before.mul(u);
  let tail = scale(before, c / n).add(scale(last, 0.5)), p = last.mul(scale(r, s)), coefficient = 1;
  for (const [j, b] of BERNOULLI.entries()) {
    coefficient /= (2 * j + 1) * (2 * j + 2);
    tail = tail.add(scale(p, b * coefficient));
    p = p.mul(scale(r, s + 2 * j + 1)).mul(scale(r, s + 2 * j + 2));
  }
  let sum = repeated(over(c, shift(x, terms - 1)), s);
  for (let k = terms - 2; k >= 0; k--) sum = sum.add(repeated(over(c, shift(x, k)), s));
  return scale(sum.eq(floatConst(Infinity, x.dtype)).where(sum, sum.add(tail)), rest);
}

function factorial(n: number): number {
  return n < 2 ? 1 : n * factorial(n - 1);
}

/** The polynomial q with the nth derivative of cot(x) = q(cot(x)): its coefficients. */
function cotangent(n: number): number[] {
  let q = [0, 1]; // q' becomes -(1 + c^2) dq/dc
  for (let k = 0; k < n; k++) {
    const slope = q.slice(1).map((c, i) => -(i + 1) * c);
    q = [...slope, 0, 0].map((c, i) => c + (i < 2 ? 0 : slope[i - 2]));
  }
  return q;
}

/** From this order on, the terms of few poles are the derivative of pi cot(pi x). */
const FEW_POLES = 24;

/** The nth derivative of pi cot(pi x) for |x| <= 1/2: by that of the cotangent, or of many orders by the nearest poles. */
function cotangentSlope(n: number, x: UOp, isPole: UOp): UOp {
  if (n < FEW_POLES) return scale(horner(cotangent(n), cotPi(select(isPole, 0.5, x))), Math.PI ** (n + 1));
  const d = x.dtype, [c, rest] = evenedFactorial(n), near = select(isPole, 0.5, x);
  const term = (k: number): UOp => repeated(over(c, shift(near, k)), n + 1);
  let others = term(4);
  for (const k of [-4, 3, -3, 2, -2, 1, -1]) others = others.add(term(k));
  const own = term(0), isHuge = absNode(own).eq(floatConst(Infinity, d)); // then it is more than the others
  const half = absNode(near).eq(floatConst(0.5, d)); // of odd powers what lies on both sides cancels
  const sum = isHuge.where(own, own.add(others)), whole = n % 2 === 0 ? half.where(constant(0, d), sum) : sum;
  return scale(whole, n % 2 === 0 ? rest : -rest);
}

const POLYGAMMA: GradientArg[] = [];
/** The nth derivative of {@linkcode digammaNode}; infinite at 0 and below it at integers. */
export function polygammaNode(n: number, x: UOp): UOp {
  if (n === 0) return digammaNode(x);
  const d = x.dtype, zero = constant(0, d), below = lt(x, 0.5), a = below.where(shift(scale(x, -1), 1), x);
  const sign = n % 2 === 1 ? 1 : -1, value = scale(scaledZeta(n, a), sign);
  // (-1)^n psi(1 - x) - psi(x) is the nth derivative of pi cot(pi x), whose terms all have one sign
  const rest = below.where(x.add(scale(roundNode(x), -1)), floatConst(0.5, d));
  const isPole = rest.eq(zero), turned = cotangentSlope(n, rest, isPole);
  const isHuge = absNode(turned).eq(floatConst(Infinity, d));
  const reflected = isHuge.where(zero, scale(value, -sign)).add(scale(turned, -1));
  const found = below.where(isPole.where(floatConst(sign * Infinity, d), reflected), value);
  return withGradient(found, [x], POLYGAMMA[n] ??= slope((u) => polygammaNode(n + 1, u)));
}

// ---- sines, neighbors and divisors

/** The series of sinc'(x) / x in (pi x)^2: as many terms as count for |x| < 1/2. */
const SINC_SERIES = [6, 11].map((terms) =>
  Array.from({ length: terms }, (_, i) => (-1) ** (i + 1) * Math.PI ** 2 * (2 * i + 2) / factorial(2 * i + 3))
);
/** Near 0, where the difference of both terms has no digits, a series. */
const SINC_SLOPE = slope((x, y) => {
  const near = lt(absNode(x), 0.5), n = select(near, 1, x), z = near.where(x, constant(0, x.dtype));
  const far = scale(n, Math.PI).cos().add(scale(y, -1)).fdiv(n), turned = scale(z, Math.PI);
  return near.where(z.mul(horner(SINC_SERIES[x.dtype === dtypes.float64 ? 1 : 0], turned.mul(turned))), far);
});
/** sin(pi x) / (pi x), 1 at 0. */
export function sincNode(x: UOp): UOp {
  const zero = x.eq(constant(0, x.dtype)), n = select(zero, 1, x);
  return withGradient(select(zero, 1, sinPi(n).fdiv(scale(n, Math.PI))), [x], SINC_SLOPE);
}

/** It follows x at its pace, except where that is y already, and is not moved by y. */
const NEXTAFTER = new GradientArg((g, [x, y]) => [x.eq(y).where(constant(0, g.dtype), g), () => zerosLike(y)], true);
/** The next number after x in the direction of y: of float32 and float64 by their bits. */
export function nextafterNode(x: UOp, y: UOp): UOp {
  const d = x.dtype, int = d.bits === 64 ? dtypes.int64 : d.bits === 32 ? dtypes.int32 : dtypes.int16;
  const c = (v: number) => constant(v, int), up = x.lt(y), zero = constant(0, d);
  const away = up.xor(lt(x, 0)), bits = x.bitcast(int);
  const smallest = up.where(
    c(1),
    d.bits === 64 ? c(1).or(c(1).shl(c(63))) : c(d.bits === 32 ? 1 - 2 ** 31 : 1 - 2 ** 15),
  )
    .bitcast(d);
  const stepped = bits.add(away.where(c(1), c(-1))).bitcast(d);
  const moved = x.eq(zero).where(smallest, stepped);
  return withGradient(x.ne(x).or(y.ne(y)).where(x.add(y), x.eq(y).where(y, moved)), [x, y], NEXTAFTER);
}

/** The mantissa follows x, over its power of two, which is constant. */
const FREXP = new GradientArg((g, [, power]) => [g.mul(power), undefined]);
/**
 * x as a mantissa in [1/2, 1) and an exponent, int32: by the bits of float32 or float64 alone, since there are devices
 * whose arithmetic takes subnormal numbers for 0.
 */
export function frexpNodes(x: UOp): [mantissa: UOp, exponent: UOp] {
  const d = x.dtype, [int, digits] = d === dtypes.float64 ? [dtypes.int64, 52] : [dtypes.int32, 23];
  const bias = 2 ** (d.bits - digits - 2) - 1, c = (v: number) => constant(v, int), last = 2 * bias + 1;
  const exponentOf = (b: UOp): UOp => b.shr(c(digits)).and(c(last));
  const bits = x.bitcast(int), low = c(1).shl(c(digits)).sub(c(1)), field = exponentOf(bits), below = bits.and(low);
  const isSmall = field.eq(c(0)), isPlain = isSmall.where(below, c(last).sub(field)).ne(c(0));
  // subnormal numbers have their leading digit anywhere: as whole numbers they are plain
  const y = isSmall.where(below.cast(d).bitcast(int), bits), e = exponentOf(y).sub(c(bias - 1));
  const exponent = isPlain.where(isSmall.where(e.sub(c(bias + digits - 1)), e), c(0)).cast(dtypes.int32);
  const sign = bits.and(c(1).shl(c(d.bits - 1))), rest = y.and(low).or(sign);
  const m = isPlain.where(rest.or(c(bias - 1).shl(c(digits))).bitcast(d), x);
  const power = detachNode(isPlain.where(m.fdiv(isPlain.where(x, floatConst(1, d))), floatConst(1, d)));
  return [withGradient(m, [x, power], FREXP), exponent];
}

/** Steps of Euclid's algorithm that one kernel makes: all of them do the same, so that one is compiled. */
const STEPS_OF_GCD = 8;

/** The greatest common divisor of integers by Euclid's algorithm, as many steps as two neighbors of Fibonacci's take. */
export function gcdNode(a: UOp, b: UOp): UOp {
  const d = a.dtype, zero = constant(0, d);
  const size = (u: UOp): UOp => d.isUnsigned ? u : u.lt(zero).where(u.mul(-1), u);
  let x = size(a), y = size(b);
  for (let i = 1; i <= Math.ceil(1.45 * d.bits); i++) {
    const done = y.eq(zero), rest = x.floorMod(done.where(constant(1, d), y));
    [x, y] = [done.where(x, y), done.where(zero, rest)];
    if (i % STEPS_OF_GCD === 0) [x, y] = [x, y].map((u) => uop(Ops.CONTIGUOUS, d, [u]));
  }
  return x;
}
