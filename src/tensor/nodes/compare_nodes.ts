/**
 * Signs, order and choice of nodes: what the methods of several families are made of. In: nodes of one dtype and shape,
 * bools too. Nothing is promoted or checked here.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { constant, type UOp } from "../../uop/core/uop.ts";
import { scalarConst } from "./scalars.ts";

/** -x; integers wrap. */
export function negNode(x: UOp): UOp {
  return x.mul(scalarConst(-1, x.dtype));
}

/** Logical not of a bool node. */
export function notNode(x: UOp): UOp {
  return x.xor(constant(1, dtypes.bool));
}

/** a <= b; false for NaN. */
export function leNode(a: UOp, b: UOp): UOp {
  return a.dtype.isFloat ? a.lt(b).or(a.eq(b)) : notNode(b.lt(a));
}

/** a == b as bool. */
export function eqNode(a: UOp, b: UOp): UOp {
  return a.dtype.isBool ? notNode(a.xor(b)) : a.eq(b);
}

/** The larger of both; NaN if either is. */
export function maxNode(a: UOp, b: UOp): UOp {
  return a.dtype.isBool ? a.or(b) : a.max(b);
}

/** The smaller of both; NaN if either is. Integers by inverted bits, which cannot overflow. */
export function minNode(a: UOp, b: UOp): UOp {
  const d = a.dtype;
  if (d.isBool) return a.and(b);
  const invert = (x: UOp) => d.isFloat ? negNode(x) : x.xor(scalarConst(-1, d));
  return invert(invert(a).max(invert(b)));
}
