/**
 * Whole quotients and remainders of floats (CDIV and CMOD: C's trunc(a / b) and fmod), exact for all finite operands. In:
 * floats of stage P. Out: arithmetic of the same stage, and a loop.
 *
 * The quotient comes in digits, by long division: each is so short that its products with the divisor are exact, and so
 * is what is left. Nothing depends on how products round, or whether they are contracted with a sum. There are as many
 * digits as the exponents of the two are apart: mostly one.
 *
 * @module
 */
import { type DType, dtypes } from "../../../dtype/dtype.ts";
import { AccArg, argOf, AxisKind } from "../../../uop/core/args.ts";
import { Ops } from "../../../uop/core/ops.ts";
import { freeIds } from "../../../uop/core/ranges.ts";
import { constant, load, mayHave, range, store, toposort, type UOp, uop } from "../../../uop/core/uop.ts";
import { PatternMatcher, rule } from "../../../uop/rewrite/matcher.ts";
import { graphRewrite } from "../../../uop/rewrite/rewrite.ts";
import { UPat } from "../../../uop/rewrite/upat.ts";
import { broadcast, extract } from "../../ast/alu_builder.ts";

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
}

const F32: Format = { int: dtypes.int32, mantissa: 23, bias: 127, digit: 10, low: 12 };
const F64: Format = { int: dtypes.int64, mantissa: 52, bias: 1023, digit: 24, low: 26 };

const abs = (x: UOp): UOp => x.lt(0).where(x.mul(-1), x);

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

/** The largest of the lanes, as an int32. */
function largest(x: UOp): UOp {
  const lanes = Array.from({ length: x.dtype.count }, (_, l) => extract(x, l).cast(dtypes.int32));
  return lanes.reduce((a, b) => a.alu(Ops.MAX, b));
}

/** Divisions in one kernel: each is a loop of its own, which quotient and remainder share. */
class Divisions {
  private readonly known = new Map<UOp, Map<UOp, Division>>();
  private accumulators = 0;
  private ranges: number;

  constructor(sink: UOp) {
    const nodes = toposort(sink);
    this.ranges = freeIds(nodes).range;
    for (const u of nodes) {
      if (u.op === Ops.ACC) this.accumulators = Math.max(this.accumulators, argOf(u, Ops.ACC).id + 1);
    }
  }

  /** a / b as a whole quotient and a remainder. */
  of(a: UOp, b: UOp): Division {
    let list = this.known.get(a), made = list?.get(b);
    if (list === undefined) this.known.set(a, list = new Map());
    if (made === undefined) list.set(b, made = this.divide(a, b));
    return made;
  }

  /** Digits of mantissas, as many as the exponents are apart: the divisor is split in halves by its bits. */
  private digits(a: UOp, b: UOp, f: Format): Division {
    const d = a.dtype, n = d.count, int = f.int.vec(n), zero = constant(0, int), most = constant(f.digit, int);
    const [A, ea] = parts(abs(a), f), [B, eb] = parts(abs(b), f);
    const high = B.bitcast(int).and(constant(-1, int).shl(f.low)).bitcast(d), low = B.add(high.mul(-1));
    const inverse = constant(1, d).fdiv(B), apart = ea.add(eb.mul(-1)), whole = 2 ** (f.digit + 2);
    const end = largest(apart.alu(Ops.MAX, zero)).cdiv(f.digit).add(1);
    const r = range(end, this.ranges++, AxisKind.REDUCE);
    const acc = (first: UOp): UOp => uop(Ops.ACC, d, [first, r], new AccArg(this.accumulators++));
    const before = (x: UOp): UOp => load(x, r);
    const after = (x: UOp, value: UOp): UOp => load(x, store(x, value));
    const rests = acc(A), quotients = acc(constant(0, d)), done = broadcast(r.cast(f.int).mul(-f.digit), n);
    const left = apart.add(done).alu(Ops.MAX, zero), scale = power(left.lt(most).where(left, most), f, d);
    const value = before(rests).mul(scale);
    const digit = value.mul(inverse).add(whole + 0.5).trunc().add(-whole); // the nearest
    const rest = after(rests, value.add(digit.mul(high).mul(-1)).add(digit.mul(low).mul(-1)));
    const quotient = after(quotients, before(quotients).mul(scale).add(digit));
    const over = rest.lt(0), last = over.where(rest.add(B), rest), half = eb.shr(1);
    return {
      quotient: over.where(quotient.add(-1), quotient),
      remainder: last.mul(power(half, f, d)).mul(power(eb.add(half.mul(-1)), f, d)),
    };
  }

  private divide(a: UOp, b: UOp): Division {
    const d = a.dtype, A = abs(a), B = abs(b), format = d.bits === 64 ? F64 : F32;
    const made = this.digits(a, b, format);
    const signed = (x: UOp, isNegative: UOp) => isNegative.where(x.mul(-1), x);
    const isFraction = A.lt(B), none = constant(NaN, d), infinity = constant(Infinity, d);
    const meant = A.lt(infinity).and(constant(0, d).lt(B)); // and where b is no number, nothing is below it
    const quotient = signed(made.quotient, a.lt(0).ne(b.lt(0)));
    // 0 with the sign of a / b, by bits: a product with 0 loses it on some devices
    const int = format.int.vec(d.count), bits = a.bitcast(int).xor(b.bitcast(int));
    const zero = bits.and(constant(-1, int).shl(d.bits - 1)).bitcast(d);
    return {
      quotient: isFraction.where(zero, meant.where(quotient, none)),
      remainder: isFraction.where(a, meant.where(signed(made.remainder, a.lt(0)), none)),
    };
  }
}

const x = UPat.var("x"), y = UPat.var("y");

/**
 * Replaces whole quotients of floats, toward zero (exact where the dtype holds them), and their remainders, with the sign of
 * the dividend (exact). Both are NaN for infinite dividends and for a divisor of 0.
 */
export function decomposeFloatDivision(sink: UOp): UOp {
  if (!mayHave(sink, Ops.CDIV) && !mayHave(sink, Ops.CMOD)) return sink;
  let divisions: Divisions | undefined;
  const divided = (a: UOp, b: UOp, of: keyof Division): UOp | undefined => {
    if (!a.dtype.isFloat) return undefined;
    divisions ??= new Divisions(sink);
    if (a.dtype.bits >= 32) return divisions.of(a, b)[of];
    const wide = dtypes.float32.vec(a.dtype.count);
    return divisions.of(a.cast(wide), b.cast(wide))[of].cast(a.dtype);
  };
  return graphRewrite(
    sink,
    new PatternMatcher("float division", [
      rule(x.cdiv(y), ({ x, y }) => divided(x, y, "quotient")),
      rule(x.cmod(y), ({ x, y }) => divided(x, y, "remainder")),
    ]),
  );
}
