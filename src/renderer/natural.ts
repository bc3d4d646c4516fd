/**
 * Powers of e in graphs, which have EXP2 alone: e^y is EXP2(y * log2(e)). The rounding of that product would cost large y
 * their last digits, so whoever computes EXP2 asks here first.
 *
 * @module
 */
import { isLog2E } from "../uop/algebra/symbolic.ts";
import { Ops } from "../uop/core/ops.ts";
import type { UOp } from "../uop/core/uop.ts";

/** The y of a node that is e^y; undefined for any other, and for floats of less than 32 bits. */
export function naturalExponent(u: UOp): UOp | undefined {
  if (u.op !== Ops.EXP2 || u.src[0].op !== Ops.MUL || u.dtype.bits < 32) return undefined;
  const [y, c] = u.src[0].src;
  return isLog2E(c) ? y : undefined;
}
