/**
 * Whole quotients and remainders of nodes of one dtype.
 *
 * @module
 */
import { dtypes } from "../dtype/dtype.ts";
import { Ops } from "../uop/ops.ts";
import { type UOp, uop } from "../uop/uop.ts";
import { floatConst, lt, scale, shift, signOf } from "./numeric.ts";

/** A quotient and what is left. */
interface Divided {
  readonly quotient: UOp;
  readonly remainder: UOp;
}

/**
 * a / b as a whole quotient and a remainder, exact while |a / b| < 2^24 even where the device's quotients are some units
 * off: q b is formed without rounding (Veltkamp's splitting and Dekker's product, Numer. Math. 18, 1971), and a quotient
 * that is off by one is corrected.
 *
 * @param floor the remainder has the sign of the divisor (Python's // and %), else of the dividend (C's fmod)
 */
function dividedNode(a: UOp, b: UOp, floor: boolean): Divided {
  const d = b.dtype;
  const splitter = d === dtypes.float64 ? 2 ** 27 + 1 : 2 ** 12 + 1;
  const split = (x: UOp): [UOp, UOp] => {
    const c = scale(x, splitter), high = c.add(scale(c.add(scale(x, -1)), -1));
    return [high, x.add(scale(high, -1))];
  };
  let q = a.fdiv(b).trunc();
  const p = q.mul(b);
  const [qh, ql] = split(q), [bh, bl] = split(b);
  const rounding = qh.mul(bh).add(scale(p, -1)).add(qh.mul(bl)).add(ql.mul(bh)).add(ql.mul(bl));
  let r = a.add(scale(p, -1)).add(scale(rounding, -1));
  const zero = floatConst(0, d);
  const absB = b.mul(signOf(b)), signA = signOf(a), sign = signA.mul(signOf(b));
  const s = r.mul(signA); // the remainder of |a| by |b|, if q was right
  const over = lt(s, 0), under = absB.lt(s).or(absB.eq(s));
  r = over.where(r.add(absB.mul(signA)), under.where(r.add(scale(absB.mul(signA), -1)), r));
  q = over.where(q.add(scale(sign, -1)), under.where(q.add(sign), q));
  const below = a.mul(signA).lt(absB); // all is left; what is nearly infinite, or is, has no parts to multiply
  r = below.where(a, r);
  q = below.where(zero, q);
  if (!floor) return { quotient: q, remainder: r };
  const other = r.ne(zero).and(r.lt(zero).ne(b.lt(zero))).and(r.eq(r));
  return { quotient: other.where(shift(q, -1), q), remainder: other.where(r.add(b), r) };
}

/** The quotient of integers, rounded; bools count as int32. */
export function intDivide(a: UOp, b: UOp, mode: "trunc" | "floor"): UOp {
  if (a.dtype.isBool) {
    a = a.cast(dtypes.int32);
    b = b.cast(dtypes.int32);
  }
  return uop(mode === "floor" ? Ops.FLOORDIV : Ops.CDIV, a.dtype, [a, b]);
}

/** The quotient of floats as a whole number, right also where the device's division is some units off. */
export function wholeQuotient(a: UOp, b: UOp, mode: "trunc" | "floor"): UOp {
  const d = a.dtype, wide = d.bits < 32 ? dtypes.float32 : d;
  return dividedNode(a.cast(wide), b.cast(wide), mode === "floor").quotient.cast(d);
}

/** What is left of a / b: with the sign of b where `floor`, else with that of a. */
export function remainder(a: UOp, b: UOp, floor: boolean): UOp {
  const d = a.dtype;
  if (d.isFloat) {
    const wide = d.bits < 32 ? dtypes.float32 : d;
    return dividedNode(a.cast(wide), b.cast(wide), floor).remainder.cast(d);
  }
  if (d.isBool) return remainder(a.cast(dtypes.int32), b.cast(dtypes.int32), floor);
  return uop(floor ? Ops.FLOORMOD : Ops.CMOD, d, [a, b]);
}
