/**
 * The incomplete gamma functions as graphs, and what draws of counts take of them: shares of Poisson's distribution and of
 * the binomial one without cancellation. In and out: nodes of float32 or float64, as in numeric.ts.
 *
 * P is summed by its power series up to its middle, Q beyond it by its continued fraction (DLMF 8.11.4 and 8.9.2), both in
 * nests of a fixed depth; near the middle of large orders both are erfc and Temme's expansion in powers of 1 / a (DLMF
 * 8.12.3 to 8.12.11), whose coefficients are exact rationals, rounded.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { DTypeError } from "../../helpers/errors.ts";
import { constant, type UOp } from "../../uop/core/uop.ts";
import { GradientArg, withGradient } from "../../uop/graph/given_gradient.ts";
import {
  absNode,
  expm1Node,
  expNode,
  floatConst,
  horner,
  logNode,
  lt,
  over,
  pick,
  poly,
  scale,
  shift,
  signOf,
} from "../nodes/numeric.ts";
import { powNode } from "../nodes/power.ts";
import { erfcValue } from "../nodes/special_nodes.ts";
import { LGAMMA, STEPS, STIRLING } from "./higher_nodes.ts";

/** Rows of powers of 1 / a, in each those of eta. */
function rows(text: string): readonly (readonly number[])[] {
  return text.split(";").map((row) => row.trim().split(/\s+/).map(Number));
}
/** The coefficients of Temme's expansion in float32. */
const TEMME_F32 = rows(`
  -0.3333333333 0.08333333333 -0.01481481481 0.001157407407 0.0003527336861 -0.000178755144 3.919263179e-5
   -2.185448511e-6 -1.854062211e-6;
  -0.001851851852 -0.003472222222 0.002645502646 -0.0009902263374 0.0002057613169 -4.01877572e-7;
  0.004133597884 -0.00268132716 0.0007716049383 2.00938786e-6;
  0.0006494341564 0.0002294720936
`);
/** In float64. */
const TEMME_F64 = rows(`
  -0.3333333333333333333 0.08333333333333333333 -0.01481481481481481481 0.001157407407407407407
   0.0003527336860670194004 -0.0001787551440329218107 0.00003919263178522437782 -2.185448510679992161e-6
   -1.854062210715159961e-6 8.296711340953086005e-7 -1.76659527368260793e-7 6.70785354340149858e-9
   1.026180978424030804e-8 -4.382036018453353187e-9 9.147699582236790234e-10 -2.551419399494624977e-11
   -5.830772132550425067e-11 2.436194802066741624e-11 -5.027669280114175589e-12 1.100439203195613477e-13
   3.371763262400985379e-13 -1.392388722418162066e-13 2.85348938070474432e-14 -5.139111834242572619e-16
   -1.975228829434944284e-15 8.099521156704561334e-16;
  -0.001851851851851851852 -0.003472222222222222222 0.002645502645502645503 -0.0009902263374485596708
   0.0002057613168724279835 -4.018775720164609053e-7 -0.00001809855033448997784 7.649160916081110085e-6
   -1.6120900894563446e-6 4.647127802807434342e-9 1.378633446915720959e-7 -5.752545603517704964e-8
   1.195162859977814732e-8 -1.754324171974764762e-11 -1.009154371060041263e-9 4.162792991842582636e-10
   -8.563907026492980638e-11 6.067215101604758615e-14 7.16249896481148539e-12 -2.933186643771437117e-12
   5.996696365683688723e-13 -2.16717865273233141e-16 -4.978339972369261641e-14 2.029162882371342477e-14;
  0.004133597883597883598 -0.00268132716049382716 0.0007716049382716049383 2.009387860082304527e-6
   -0.0001073665322636516052 0.00005292344882912012542 -0.00001276063518861872771 3.423578734096138074e-8
   1.372195730906293321e-6 -6.298992138380055023e-7 1.428061420606424179e-7 -2.047709842199086601e-10
   -1.409252991086752105e-8 6.228974084922022034e-9 -1.36704883966171135e-9 9.428356159014678195e-13
   1.287225240008931806e-10 -5.564595613436332115e-11 1.1975935546366981e-11 -4.168978225183863504e-15
   -1.094064042788459441e-12;
  0.000649434156378600823 0.000229472093621399177 -0.0004691894943952557121 0.000267720632062838853
   -0.00007561801671883976411 -2.396505113867296652e-7 0.00001108265411534730236 -5.674952826991596567e-6
   1.423090073243588391e-6 -2.786108029152814224e-11 -1.695840409193027729e-7 8.099464905388082363e-8
   -1.911116848597365406e-8 2.392862043980811797e-12 2.062013181548879844e-9 -9.460496661855132174e-10
   2.154104977577490784e-10 -1.388823336813903046e-14;
  -0.0008618882909167116986 0.0007840392217200666275 -0.0002990724803031901797 -1.463845257884341818e-6
   0.00006641498215465122187 -0.00003968365047179434664 0.0000113757269706784191 2.507497226237532802e-10
   -1.695414953655830601e-6 8.907507532205309689e-7 -2.292934834000804871e-7 2.956794137544049047e-11
   2.886582974270878363e-8 -1.418973943780321939e-8 3.446358049946489707e-9;
  -0.0003367985533663581503 -0.00006972813758365857774 0.0002772753244959392079 -0.000199325705161888477
   0.00006797780477937207839 1.419062920643967015e-7 -0.00001359404818976869328 8.01847025633420154e-6
   -2.29148117650809517e-6 -3.252473551298453952e-10 3.465284649108526496e-7 -1.844718719117134328e-7;
  0.0005313079364639922232 -0.0005921664373536938829 0.0002708782096718044828 7.902353232660327872e-7
   -0.00008153969367561968751 0.0000561168275310624965 -0.00001832911658284337557 -3.079613450603304783e-9
   3.465155368803609087e-6;
  0.0003443676068923776713 0.00005171790908260592193 -0.0003349316108114223631 0.0002812695154763237023
   -0.0001097658224468473102 -1.274100909548448538e-7 0.00002774445151156364416;
  -0.0006526239185953094189 0.00083949872067208728 -0.0004382970985417210051 -6.969091458420551971e-7
   0.0001664484664206754784;
  -0.0005967612901927462501 -0.00007204895416020010559 0.0006782308837667328362
`);

const TEMME = [TEMME_F32, TEMME_F64] as const;

/** Depths of the series, of the continued fraction, of the series of small arguments, and of atanh's; by dtype. */
const DEPTHS = { near: [38, 76], far: [16, 60], small: [14, 26], atanh: [7, 17] } as const;

/** 1 of float64, 0 of float32. */
function widthOf(x: UOp): 0 | 1 {
  return x.dtype === dtypes.float64 ? 1 : 0;
}
function negate(x: UOp): UOp {
  return scale(x, -1);
}
function minus(a: UOp, b: UOp): UOp {
  return a.add(negate(b));
}

/** log(x / k) - x / k + 1, with digits where both are close; both are above 0. */
function logRest(x: UOp, k: UOp): UOp {
  const m = minus(x, k).fdiv(k);
  const isNear = lt(absNode(m), 0.5), n = pick(isNear, m, 0), s = n.fdiv(shift(n, 2)), z = s.mul(s);
  // 2 atanh(s) - m, where m = 2 s / (1 - s): 2 s - m = -s m
  const odd = Array.from({ length: DEPTHS.atanh[widthOf(m)] }, (_, k) => 2 / (2 * k + 3));
  const near = minus(s.mul(z).mul(horner(odd, z)), s.mul(n));
  return isNear.where(near, minus(logNode(x.fdiv(k)), m));
}

/** Gamma(a + 1) for 0 <= a < steps: factors down to below 1, and the logarithm of what is left. */
function factorial(a: UOp, steps: number): [product: UOp, log: UOp] {
  let product = floatConst(1, a.dtype), rest = a;
  for (let k = 1; k < steps; k++) {
    const isBelow = lt(a, k);
    product = isBelow.where(product, product.mul(shift(a, 1 - k)));
    rest = isBelow.where(rest, shift(a, -k));
  }
  return [product, rest.mul(shift(rest, -1)).mul(poly(LGAMMA, shift(rest, -0.5)))];
}

/** log Gamma(x + 1) - log(2 pi x) / 2 - x log x + x, for x >= 8. */
function stirlingRest(x: UOp): UOp {
  const r = over(1, x);
  return r.mul(poly(STIRLING, r.mul(r)));
}

/** x^a e^-x / Gamma(a + 1), for a and x above 0: the share of a in Poisson's distribution of rate x. */
function poissonShare(a: UOp, x: UOp): UOp {
  const isSmall = lt(a, STEPS), low = pick(isSmall, a, 1), high = isSmall.where(floatConst(STEPS, a.dtype), a);
  const end = widthOf(a) === 1 ? 800 : 200, near = pick(lt(x, end), x, end), [product, log] = factorial(low, STEPS);
  const small = powNode(near, low).fdiv(product).mul(expNode(negate(near.add(log)))); // e^-x is 0 beyond
  const exponent = minus(high.mul(logRest(x, high)), stirlingRest(high));
  return isSmall.where(small, expNode(exponent).fdiv(scale(high, 2 * Math.PI).sqrt()));
}

/** Q of orders a below 3 at x below 2, where it may be small: 1 - x^a / Gamma(a + 1) (1 + sum of a (-x)^n / ((a + n) n!)). */
function smallUpper(a: UOp, x: UOp): UOp {
  const n = DEPTHS.small[widthOf(a)], [product, log] = factorial(a, 3);
  let sum = a.fdiv(shift(a, n));
  for (let k = n - 1; k >= 1; k--) sum = a.fdiv(shift(a, k)).add(scale(x, -1 / (k + 1)).mul(sum));
  const power = minus(a.mul(logNode(x)), log.add(logNode(product)));
  return minus(x.mul(sum).mul(expNode(power)), expm1Node(power));
}

/** P and Q of a and x that are finite and above 0. */
function shares(a: UOp, x: UOp): [lower: UOp, upper: UOp] {
  const d = a.dtype, w = widthOf(a), c = (v: number) => floatConst(v, d), ratio = minus(x, a).fdiv(a);
  const rest = (u: UOp) => shift(negate(u), 1), share = poissonShare(a, x);
  // the middle of large orders
  const isMiddle = c(20).lt(a).and(lt(absNode(ratio), 0.4)), order = pick(isMiddle, a, 32);
  const point = pick(isMiddle, x, 32), half = negate(logRest(point, order)), sign = signOf(minus(point, order));
  const inverse = over(1, order), eta = scale(half, 2).sqrt().mul(sign), side = order.mul(half).sqrt().mul(sign);
  const series = TEMME[w].map((row) => horner(row, eta)).reduceRight((sum, row) => row.add(inverse.mul(sum)));
  const edge = expNode(negate(order.mul(half))).fdiv(scale(order, 2 * Math.PI).sqrt()).mul(series);
  const lowerMiddle = minus(scale(erfcValue(negate(side)), 0.5), edge),
    upperMiddle = scale(erfcValue(side), 0.5).add(edge);
  // the series of P, up to a + 1 at least
  const isFar = shift(a, 1).lt(x).and(c(2).lt(x)), near = isFar.or(isMiddle).where(c(0), x);
  let sum = c(1);
  for (let k = DEPTHS.near[w]; k >= 1; k--) sum = shift(near.fdiv(shift(a, k)).mul(sum), 1);
  // the continued fraction of Q, beyond
  const fx = pick(isFar, x, 4), fa = pick(isFar, a, 1), step = (k: number) => minus(shift(fx, 2 * k + 1), fa);
  let fraction = step(DEPTHS.far[w]);
  for (let k = DEPTHS.far[w]; k >= 1; k--) {
    fraction = minus(step(k - 1), scale(shift(negate(fa), k), k).fdiv(fraction));
  }
  // where Q is the smaller one at small arguments: both conditions keep its terms from cancelling
  const early = lt(x, 0.5).where(a.mul(logNode(x)).lt(c(-0.4)), scale(x, 1.1).lt(a));
  const isSmall = early.where(isFar, lt(x, 2)), small = smallUpper(pick(isSmall, a, 1), pick(isSmall, x, 1));
  const isUpper = isFar.or(isSmall), upper = isFar.where(share.mul(fa).fdiv(fraction), small), lower = share.mul(sum);
  return [
    isMiddle.where(lowerMiddle, isUpper.where(rest(upper), lower)),
    isMiddle.where(upperMiddle, isUpper.where(upper, rest(lower))),
  ];
}

/** Refuses what PyTorch has no slope for, either. */
function ofOrder(a: UOp): never {
  throw new DTypeError("differentiate the incomplete gamma function by its order, of dtype", {
    dtypes: [a.dtype],
    reason: "it has no formula; detach() the order",
  });
}
/** Of {@linkcode density}. */
const DENSITY = new GradientArg((g, [a, x], y) => [
  () => ofOrder(a),
  () => g.mul(y.mul(shift(shift(a, -1).fdiv(x), -1))),
], true);
/** x^(a - 1) e^-x / Gamma(a). */
function density(a: UOp, x: UOp): UOp {
  const zero = constant(0, a.dtype), isIn = zero.lt(a).and(zero.lt(x));
  const share = poissonShare(pick(isIn, a, 1), pick(isIn, x, 1)).mul(a).fdiv(x);
  return withGradient(isIn.where(share, expNode(minus(shift(a, -1).mul(logNode(x)), x))), [a, x], DENSITY);
}
function slopeOf(sign: 1 | -1): GradientArg {
  return new GradientArg((g, [a, x]) => [() => ofOrder(a), () => g.mul(scale(density(a, x), sign))], true);
}
const LOWER = slopeOf(1), UPPER = slopeOf(-1);

/** The value where a and x are finite and above 0, else the limit: `atZero` where x is less, `far` where it is more. */
function withEdges(a: UOp, x: UOp, which: 0 | 1): UOp {
  const d = a.dtype, zero = constant(0, d), infinite = floatConst(Infinity, d), nan = floatConst(NaN, d);
  const isIn = zero.lt(a).and(zero.lt(x)).and(a.lt(infinite)).and(x.lt(infinite));
  const value = shares(pick(isIn, a, 1), pick(isIn, x, 1))[which];
  const before = floatConst(which, d), after = floatConst(1 - which, d);
  const isBad = a.ne(a).or(x.ne(x)).or(lt(a, 0)).or(lt(x, 0)).or(a.eq(infinite).and(x.eq(infinite)));
  const isBefore = a.eq(infinite).or(x.eq(zero)), isCorner = a.eq(zero).and(x.eq(zero));
  const edge = isBad.where(nan, isCorner.where(nan, isBefore.where(before, after)));
  return isIn.where(value, edge);
}

/** The regularized lower incomplete gamma function P(a, x). */
export function igammaNode(a: UOp, x: UOp): UOp {
  return withGradient(withEdges(a, x, 0), [a, x], LOWER);
}
/** The regularized upper incomplete gamma function Q(a, x). */
export function igammacNode(a: UOp, x: UOp): UOp {
  return withGradient(withEdges(a, x, 1), [a, x], UPPER);
}

/** The logarithm of x^k e^-x / k!, for whole k from 0 on and x above 0, to a few units of its rounding. */
export function logPoissonNode(k: UOp, x: UOp): UOp {
  const isSmall = lt(k, STEPS), low = pick(isSmall, k, 1), high = isSmall.where(floatConst(STEPS, k.dtype), k);
  const [product, log] = factorial(low, STEPS);
  const small = minus(minus(low.mul(logNode(x)), x), log.add(logNode(product)));
  const half = scale(logNode(scale(high, 2 * Math.PI)), -0.5);
  return isSmall.where(small, minus(high.mul(logRest(x, high)), stirlingRest(high)).add(half));
}
