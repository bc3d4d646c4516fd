/**
 * Powers of floats as graphs, with their gradients by formula: d x^e = e x^(e-1) dx + x^e log(x) de, which is right where
 * the graph of a power has selects. In and out: nodes of float32 or float64, as in numeric.ts. Edges are those of C's pow.
 *
 * @module
 */
import { type DType, dtypes } from "../../dtype/dtype.ts";
import { Int64 } from "../../uop/core/args.ts";
import { constant, type UOp } from "../../uop/core/uop.ts";
import { flat, GradientArg, withGradient } from "../../uop/graph/given_gradient.ts";
import { floatConst, logNode, scale, shift, signOf } from "./numeric.ts";
import { scalarConst } from "./scalars.ts";

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

/** x^n by repeated squaring, n a positive integer: each product is a leading half and a rest, as in {@linkcode powerOf}. */
function longPower(x: UOp, n: number): UOp {
  const format = formatOf(x), high = leadOf(x, format);
  type Long = readonly [high: UOp, low: UOp];
  const times = ([a, b]: Long, [p, q]: Long): Long => {
    const first = a.mul(p), rest = a.mul(q).add(b.mul(p.add(q))), top = leadOf(first.add(rest), format);
    return [top, rest.sub(top.sub(first))];
  };
  let result: Long | undefined, square: Long = [high, x.sub(high)];
  for (let k = n;;) {
    if (k % 2 === 1) result = result === undefined ? square : times(result, square);
    k = Math.floor(k / 2);
    if (k === 0) break;
    square = times(square, square);
  }
  const value = result![0].add(result![1]);
  // of what is infinite there is no rest, and 0 has a sign
  return value.ne(value).or(value.eq(constant(0, x.dtype))).where(intPower(x, n), value);
}

/**
 * x^exponent for a number: products up to the 64th power, a square root, or the reciprocals of that, of x and of its
 * square, as PyTorch computes these; else by logarithms.
 */
export function constantPower(x: UOp, exponent: number): UOp {
  const d = x.dtype, n = Math.abs(exponent), isWhole = Number.isInteger(exponent), c = floatConst(exponent, d);
  if (exponent === 0) return flat(floatConst(1, d), [x]);
  if (exponent === 0.5) return x.sqrt();
  if (isWhole && exponent > 0 && n <= 3) return intPower(x, n);
  let value: UOp;
  if (isWhole && exponent > 0 && n <= 64) value = longPower(x, n);
  else if (n === 0.5 || n === 1 || n === 2) value = floatConst(1, d).fdiv(n === 0.5 ? x.sqrt() : intPower(x, n));
  else value = power(x, c);
  return withGradient(value, [x, c], CONSTANT_POWER);
}

/** base^exponent for floats: 0^0 is 1, a negative base gives NaN unless the exponent is an integer. */
export function powNode(base: UOp, exponent: UOp): UOp {
  return withGradient(power(base, exponent), [base, exponent], POWER);
}

/** The base and the exponent where a node is a power, other than one that is a few products or a root. */
export function findPower(u: UOp): [base: UOp, exponent: UOp] | undefined {
  return u.arg === POWER || u.arg === CONSTANT_POWER ? [u.src[1], u.src[2]] : undefined;
}

/** The value of a power. */
function power(base: UOp, exponent: UOp): UOp {
  const d = base.dtype, c = (v: number) => floatConst(v, d), a = base.mul(signOf(base));
  const magnitude = powerOf(a, exponent);
  const whole = exponent.trunc().eq(exponent);
  const half = scale(exponent, 0.5);
  const odd = whole.and(half.trunc().ne(half));
  const signed = odd.where(scale(magnitude, -1), magnitude);
  let r = base.lt(c(0)).where(whole.where(signed, c(NaN)), magnitude);
  // of 0 and of what is infinite it has the sign of the base if the exponent is odd
  const isZero = a.eq(c(0)), edge = odd.where(base, isZero.where(c(0), a));
  r = isZero.or(a.eq(c(Infinity))).where(exponent.lt(c(0)).where(c(1).fdiv(edge), edge), r);
  r = exponent.ne(exponent).or(base.ne(base)).where(c(NaN), r);
  return exponent.eq(c(0)).or(base.eq(c(1))).where(c(1), r); // also of NaN
}

/** Of float32 and float64: how many digits there are, and how far the series go. */
interface Format {
  /** Bits of the fraction. */
  readonly digits: number;
  /** Of its exponent: the bias. */
  readonly bias: number;
  readonly ints: DType;
  /** The bits of sqrt(1/2). */
  readonly root: UOp;
  /** All but the lower half of the fraction. */
  readonly upper: UOp;
  /** Terms of the series of the logarithm, and of the exponential. */
  readonly terms: readonly [log: number, exp: number];
}
const FLOAT32: Format = {
  digits: 23,
  bias: 127,
  ints: dtypes.int32,
  root: constant(0x3f3504f3, dtypes.int32),
  upper: constant(-(2 ** 12), dtypes.int32),
  terms: [5, 8],
};
const FLOAT64: Format = {
  digits: 52,
  bias: 1023,
  ints: dtypes.int64,
  root: constant(new Int64(0x3fe6a09e, 0x667f3bcd), dtypes.int64),
  upper: constant(new Int64(-1, -(2 ** 27)), dtypes.int64),
  terms: [12, 15],
};

/** 2 / (3 ln 2), and ln 2: what float64 leaves of them, computed with 60 digits. */
const TO_LOG = 2 / 3 / Math.LN2, TO_LOG_REST = 5.0577616648125907e-17, LN2_REST = 2.3190468138462996e-17;

function formatOf({ dtype }: UOp): Format {
  return dtype === dtypes.float64 ? FLOAT64 : FLOAT32;
}
/** `x` without the lower half of its digits: of two such the product is exact. */
function leadOf(x: UOp, { ints, upper }: Format): UOp {
  return x.bitcast(ints).and(upper).bitcast(x.dtype);
}
/** `x` without the lower half of its digits: of two such the product is exact. */
export function leadNode(x: UOp): UOp {
  return leadOf(x, formatOf(x));
}

/** c0 + c1 x + c2 x^2 + ..., by Horner's rule. */
function series(x: UOp, coefficients: readonly number[]): UOp {
  const c = coefficients.map((v) => floatConst(v, x.dtype));
  return c.reduceRight((sum, next) => sum.mul(x).add(next));
}

/**
 * a^y of a positive, finite `a`, as 2^(y log2 a). Of the logarithm, its product with `y` and what the exponential adds
 * to 1 there is a leading half, whose products are exact, and a rest: so that the error is less than one unit in the last
 * place, and what is a float is that. Halves are cut off as bits, which no compiler regroups. That a product of two numbers
 * of half the digits is exact is the device of T. J. Dekker, "A floating-point technique for extending the available
 * precision" (1971); the series are that of artanh, and Taylor's of e^x.
 */
function powerOf(a: UOp, y: UOp): UOp {
  const d = a.dtype,
    format = formatOf(a),
    { digits, bias, ints, root, terms } = format;
  const c = (v: number) => floatConst(v, d), count = (v: number) => scalarConst(v, ints);
  const minus = (x: UOp) => scale(x, -1), lead = (x: UOp) => leadOf(x, format);
  const split = (v: number, beyond: number): [high: UOp, low: UOp] => {
    const high = d === dtypes.float64 ? Math.fround(v) : Math.round(v * 4096) / 4096;
    return [c(high), c(v - high + beyond)];
  };

  // a = 2^e (1 + f), 1 + f between sqrt(1/2) and sqrt(2)
  const tiny = a.lt(c(2 ** (1 - bias))), bits = tiny.where(scale(a, 2 ** (digits + 1)), a).bitcast(ints);
  const e = bits.sub(root).shr(digits), f = shift(bits.sub(e.shl(digits)).bitcast(d), -1);
  const exponent = e.cast(d).add(tiny.where(c(-digits - 1), c(0)));
  // s = f / (2 + f), of which log(1 + f) is 2 artanh(s) = 2/3 s (3 + s^2 + 3/5 s^4 + 3/7 s^6 + ...)
  const over = c(1).fdiv(shift(f, 2)), s = f.mul(over), sHigh = lead(s), fHigh = lead(f);
  const left = f.add(scale(sHigh, -2)).sub(sHigh.mul(fHigh)).sub(sHigh.mul(f.sub(fHigh)));
  const sLow = left.mul(over), z = s.mul(s), zHigh = sHigh.mul(sHigh);
  const far = z.mul(z).mul(series(z, Array.from({ length: terms[0] }, (_, i) => 3 / (2 * i + 5))));
  const zLow = far.add(sLow.mul(sHigh.add(s)));
  const tHigh = lead(zHigh.add(zLow).add(c(3))), tLow = zLow.sub(shift(tHigh, -3).sub(zHigh));
  const near = sHigh.mul(tHigh), rest = sLow.mul(tHigh).add(tLow.mul(s));
  const pHigh = lead(near.add(rest)), pLow = rest.sub(pHigh.sub(near));
  const [toLog, toLogLow] = split(TO_LOG, TO_LOG_REST);
  const logHigh = pHigh.mul(toLog), logLow = pHigh.mul(toLogLow).add(scale(pLow, TO_LOG));
  const xHigh = lead(logHigh.add(logLow).add(exponent)), xLow = logLow.sub(xHigh.sub(exponent).sub(logHigh));

  // times y, beyond which it is 0 or infinite, or 1
  const most = c(2 ** (digits + 9)), yNow = y.lt(most).where(minus(most).lt(y).where(y, minus(most)), most);
  const yHigh = lead(yNow), high = yHigh.mul(xHigh), low = yNow.sub(yHigh).mul(xHigh).add(yNow.mul(xLow));
  const sum = high.add(low), end = bias + 2, start = -bias - digits - 2;
  const isOver = c(end).lt(sum), isUnder = sum.lt(c(start)), inside = isOver.or(isUnder).where(c(0), sum);
  const n = inside.add(inside.lt(c(0)).where(c(-0.5), c(0.5))).trunc(), k = n.cast(dtypes.int32);

  // 2^n e^((sum - n) ln 2)
  const top = high.sub(n), g = lead(top.add(low)), gLow = low.sub(g.sub(top));
  const [ln2, ln2Low] = split(Math.LN2, LN2_REST);
  const w = g.mul(ln2), wLow = gLow.mul(c(Math.LN2)).add(g.mul(ln2Low)), all = w.add(wLow);
  let factorial = 1;
  const taylor = Array.from({ length: terms[1] - 1 }, (_, i) => 1 / (factorial *= i + 2));
  const small = wLow.add(all.mul(all).mul(series(all, taylor)));
  const one = lead(shift(w, 1)), value = one.add(c(1).sub(one).add(w).add(small));
  const half = k.shr(1);
  const powerOfTwo = (m: UOp) => m.cast(ints).add(count(bias)).shl(digits).bitcast(d);
  const result = value.mul(powerOfTwo(half)).mul(powerOfTwo(k.sub(half)));
  return isOver.where(c(Infinity), isUnder.where(c(0), result));
}
