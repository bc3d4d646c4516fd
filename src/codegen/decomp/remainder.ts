/**
 * Whole quotients and remainders of floats (CDIV and CMOD: C's trunc(a / b) and fmod), exact for all finite operands. In:
 * two floats of stage P. Out: arithmetic of the same stage.
 *
 * The quotient comes in digits, by long division: each is so short that its products with the divisor are exact, and so
 * is what is left. Nothing depends on how products round, or whether they are contracted with a sum.
 *
 * @module
 */
import { type DType, dtypes } from "../../dtype/dtype.ts";
import { Ops } from "../../uop/ops.ts";
import { constant, type UOp } from "../../uop/uop.ts";

/** What a division gives: the quotient rounded toward zero, and what is left, with the sign of the dividend. */
interface Division {
  readonly quotient: UOp;
  readonly remainder: UOp;
}

/** A format that is divided digit by digit in itself. */
interface Format {
  readonly int: DType;
  /** Bits of the mantissa that are stored, and the bias of the exponent. */
  readonly mantissa: number;
  readonly bias: number;
  /** Bits of a digit: with those of the upper half of a divisor they fit a mantissa. */
  readonly digit: number;
  /** Bits of the lower half of a divisor. */
  readonly low: number;
  /** The largest difference of two exponents. */
  readonly span: number;
}

const F32: Format = { int: dtypes.int32, mantissa: 23, bias: 127, digit: 10, low: 12, span: 276 };
const F64: Format = { int: dtypes.int64, mantissa: 52, bias: 1023, digit: 24, low: 26, span: 2097 };

const abs = (x: UOp): UOp => x.lt(0).where(x.mul(-1), x);

/** Digits of 28 bits in float64, which holds their products with float32 divisors, and every power that is needed. */
function divideWide(a: UOp, b: UOp): Division {
  const wide = dtypes.float64.vec(a.dtype.count), A = abs(a.cast(wide)), B = abs(b.cast(wide));
  const inverse = constant(1, wide).fdiv(B);
  let rest = A, quotient: UOp | undefined;
  for (let i = 9; i >= 0; i--) {
    const unit = 2 ** (28 * i), digit = rest.mul(inverse.mul(1 / unit)).trunc();
    rest = rest.add(digit.mul(B.mul(-unit)));
    quotient = quotient === undefined ? digit.mul(unit) : quotient.add(digit.mul(unit));
  }
  // the inverse is rounded: the last digit may be off by one
  const over = rest.lt(0), under = rest.lt(B).ne(constant(1, dtypes.bool.vec(a.dtype.count)));
  return {
    quotient: over.where(quotient!.add(-1), under.where(quotient!.add(1), quotient!)).cast(a.dtype),
    remainder: over.where(rest.add(B), under.where(rest.add(B.mul(-1)), rest)).cast(a.dtype),
  };
}

/** The bits of 2^k; `k` is an integer node within the exponents of normal numbers. */
function power(k: UOp, f: Format, d: DType): UOp {
  return k.add(f.bias).shl(f.mantissa).bitcast(d);
}

/** The mantissa of x > 0 as a number in [1, 2), and its exponent. */
function parts(x: UOp, f: Format): [UOp, UOp] {
  const d = x.dtype, int = f.int.vec(d.count), up = f.mantissa + 2;
  const tiny = x.lt(x.constLike(2 ** (1 - f.bias))); // subnormal: made normal first
  const bits = tiny.where(x.mul(2 ** up), x).bitcast(int), biased = bits.shr(f.mantissa);
  const exponent = biased.add(-f.bias), all = constant(-1, int).shl(f.mantissa).xor(-1);
  const mantissa = bits.and(all).or(constant(f.bias, int).shl(f.mantissa)).bitcast(d);
  return [mantissa, tiny.where(exponent.add(-up), exponent)];
}

/** Digits in the format itself, of mantissas: the divisor is split in halves by its bits. */
function divideNarrow(a: UOp, b: UOp, f: Format): Division {
  const d = a.dtype, int = f.int.vec(d.count), zero = constant(0, int), most = constant(f.digit, int);
  const [A, ea] = parts(abs(a), f), [B, eb] = parts(abs(b), f);
  const high = B.bitcast(int).and(constant(-1, int).shl(f.low)).bitcast(d), low = B.add(high.mul(-1));
  const inverse = constant(1, d).fdiv(B), apart = ea.add(eb.mul(-1)), whole = 2 ** (f.digit + 2);
  let rest = A, quotient = constant(0, d);
  for (let done = 0; done <= f.span; done += f.digit) {
    const left = apart.add(-done).alu(Ops.MAX, zero), scale = power(left.lt(most).where(left, most), f, d);
    const value = rest.mul(scale), digit = value.mul(inverse).add(whole + 0.5).trunc().add(-whole); // the nearest
    rest = value.add(digit.mul(high).mul(-1)).add(digit.mul(low).mul(-1));
    quotient = quotient.mul(scale).add(digit);
  }
  const over = rest.lt(0), last = over.where(rest.add(B), rest), half = eb.shr(1);
  return {
    quotient: over.where(quotient.add(-1), quotient),
    remainder: last.mul(power(half, f, d)).mul(power(eb.add(half.mul(-1)), f, d)),
  };
}

/** a / b as a whole quotient and a remainder. `hasWide`: the device computes in float64. */
function divide(a: UOp, b: UOp, hasWide: boolean): Division {
  const d = a.dtype, A = abs(a), B = abs(b), narrow = d.bits === 64 ? F64 : F32;
  const made = d.bits === 32 && hasWide ? divideWide(a, b) : divideNarrow(a, b, narrow);
  const signed = (x: UOp, isNegative: UOp) => isNegative.where(x.mul(-1), x);
  const isFraction = A.lt(B), none = constant(NaN, d), infinity = constant(Infinity, d);
  const meant = A.lt(infinity).and(constant(0, d).lt(B)); // and where b is no number, nothing is below it
  const quotient = signed(made.quotient, a.lt(0).ne(b.lt(0)));
  // 0 with the sign of a / b, by bits: a product with 0 loses it on some devices
  const int = narrow.int.vec(d.count), bits = a.bitcast(int).xor(b.bitcast(int));
  const zero = bits.and(constant(-1, int).shl(d.bits - 1)).bitcast(d);
  return {
    quotient: isFraction.where(zero, meant.where(quotient, none)),
    remainder: isFraction.where(a, meant.where(signed(made.remainder, a.lt(0)), none)),
  };
}

/** The whole quotient of floats, toward zero: exact where the dtype holds it. NaN for infinite dividends and for b = 0. */
export function floatQuotient(a: UOp, b: UOp, hasWide: boolean): UOp {
  return divide(a, b, hasWide).quotient;
}

/** The remainder of floats, with the sign of the dividend: exact. NaN for infinite dividends and for b = 0. */
export function floatRemainder(a: UOp, b: UOp, hasWide: boolean): UOp {
  return divide(a, b, hasWide).remainder;
}
