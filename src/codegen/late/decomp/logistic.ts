/**
 * The logistic function of which only 16-bit floats become, from one power and one reciprocal.
 *
 * Graphs compute it on either side of 0, so that nothing overflows: with e = 2^-|x| it is 1 / (1 + e) above and e / (1 + e)
 * below. One formula serves both sides where the 1 is 2^-63: 2^-63 / (2^-63 + 2^(-x - 63)). Instructions that take
 * subnormal numbers as 0 do for it:
 * - a power below 2^-126 is less than 2^-63 of what it is added to, which the sum does not show;
 * - a divisor whose reciprocal is below 2^-126, or that overflows, gives less than 2^-189, which is 0 in float32.
 *
 * The exponent is rounded to 2^-18 or better where the function is above 2^-65: a relative error as quick functions have.
 *
 * @module
 */
import { Ops } from "../../../uop/core/ops.ts";
import { type UOp, uop } from "../../../uop/core/uop.ts";

/** log2 of what stands for 1. */
const UNIT = -63;

/** A logistic function as graphs have it: of `x` times `slope`, by two functions. */
export interface Logistic {
  readonly x: UOp;
  /** Above 0. */
  readonly slope: number;
  readonly power: UOp;
  readonly quotient: UOp;
}

/** The other operand of a binary op. */
function other(u: UOp, one: UOp): UOp | undefined {
  return u.src[0] === one ? u.src[1] : u.src[1] === one ? u.src[0] : undefined;
}

function constantOf(u: UOp): UOp | undefined {
  return u.src.find((s) => s.op === Ops.CONST);
}

/** The parts of x < 0 ? e * r : r, where e is 2^(x * (x < 0 ? 1 : -1) * slope) and r is 1 / (e + 1). */
export function logisticOf(u: UOp): Logistic | undefined {
  if (u.op !== Ops.WHERE) return undefined;
  const [negative, below, quotient] = u.src, x = negative.src[0];
  if (negative.op !== Ops.CMPLT || !negative.src[1].isConst(0)) return undefined;
  if (below.op !== Ops.MUL || quotient.op !== Ops.FDIV || !quotient.src[0].isConst(1)) return undefined;
  const power = other(below, quotient), sum = quotient.src[1];
  if (power?.op !== Ops.EXP2 || sum.op !== Ops.ADD || !other(sum, power)?.isConst(1)) return undefined;
  const exponent = power.src[0], slope = exponent.op === Ops.MUL ? constantOf(exponent) : undefined;
  if (slope === undefined || !(slope.value > 0)) return undefined;
  const distance = other(exponent, slope)!;
  const sign = distance.op === Ops.MUL ? other(distance, x) : undefined;
  if (sign?.op !== Ops.WHERE || sign.src[0] !== negative) return undefined;
  if (!sign.src[1].isConst(1) || !sign.src[2].isConst(-1)) return undefined;
  return { x, slope: slope.value, power, quotient };
}

/** `x` times `by`, where constants in it take the factor; undefined where it would be one more product, or out of range. */
function scaled(x: UOp, by: number): UOp | undefined {
  if (x.op === Ops.CONST) {
    const to = Math.fround(x.value * by);
    return Number.isFinite(to) ? x.constLike(to) : undefined;
  }
  if (x.op === Ops.MUL) {
    const [a, b] = x.src, right = scaled(b, by);
    if (right !== undefined) return a.mul(right);
    return scaled(a, by)?.mul(b);
  }
  if (x.op !== Ops.ADD) return undefined;
  const a = scaled(x.src[0], by), b = a === undefined ? undefined : scaled(x.src[1], by);
  return b === undefined ? undefined : a!.add(b);
}

/** The logistic function of `x` times `slope`. `isOwn`: nothing else needs `x`, so that constants in it may change. */
export function quickLogistic(x: UOp, slope: number, isOwn: boolean): UOp {
  const unit = x.constLike(2 ** UNIT);
  const exponent = ((isOwn ? scaled(x, -slope) : undefined) ?? x.mul(Math.fround(-slope))).add(UNIT);
  const power = uop(Ops.EXP2, x.dtype, [exponent], "flush");
  return uop(Ops.FDIV, x.dtype, [unit, power.add(unit)], "reciprocal");
}
