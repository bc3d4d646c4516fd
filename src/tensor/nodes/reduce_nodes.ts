/**
 * Reductions of nodes: one REDUCE each, whose axes stay with size 1. What the methods of several families are made of; axes
 * are resolved and dtypes chosen by the callers.
 *
 * @module
 */
import { type DType, dtypeMax, dtypeMin, leastInt, mostInt } from "../../dtype/dtype.ts";
import { prod } from "../../helpers/math.ts";
import { ReduceArg } from "../../uop/core/args.ts";
import { vmin } from "../../uop/algebra/bounds.ts";
import { broadcastTo, pad, shrink } from "../../uop/core/build_movement.ts";
import { identityOf } from "../../uop/core/carrier.ts";
import { Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { constant, type UOp, uop } from "../../uop/core/uop.ts";
import { extentsOf, withExtents } from "../../uop/graph/extent.ts";
import { negNode } from "./compare_nodes.ts";
import { detachNode, floatConst } from "./numeric.ts";
import { scalarConst } from "./scalars.ts";

/** Reduces `axes` of `x`, which stay with size 1. Axes of size 1 cost nothing, empty ones give the identity. */
export function reduceNode(x: UOp, op: Ops, axes: readonly number[]): UOp {
  const shape = shapeOf(x);
  const real = axes.filter((a) => shape[a] !== 1);
  if (real.length === 0) return x;
  if (real.some((a) => shape[a] === 0)) {
    const nothing = ofNothing(x, axes, scalarConst(identityOf(op, x.dtype), x.dtype));
    if (!x.dtype.isFloat || op === Ops.MAX) return nothing;
    // Zeros that depend on x: its gradient is nothing, but that of what was broadcast into it is zeros.
    const extents = extentsOf(x), open = real.filter((a) => extents?.[a] !== undefined);
    const none = shape.map((n, i): [number, number] =>
      real.includes(i) && !open.includes(i) ? [0, Math.min(n, 1)] : [0, n]
    );
    const grow = shape.map((n, i): [number, number] => [0, axes.includes(i) && n === 0 ? 1 : 0]);
    return reduceNode(pad(shrink(x, none), grow), Ops.ADD, open).add(nothing);
  }
  return uop(Ops.REDUCE, x.dtype, [x], new ReduceArg(op, real));
}

/** A value for each place beside `axes` of `x`, which have no elements. */
function ofNothing(x: UOp, axes: readonly number[], value: UOp): UOp {
  const sizes = extentsOf(x)?.map((e, i) => axes.includes(i) ? undefined : e) ?? null;
  return withExtents(broadcastTo(value, shapeOf(x).map((n, i) => axes.includes(i) ? 1 : n)), sizes);
}

/** The smallest along `axes`, which stay with size 1. */
export function minAlong(x: UOp, axes: readonly number[]): UOp {
  const d = x.dtype;
  const shape = shapeOf(x);
  if (axes.some((a) => shape[a] === 0)) return ofNothing(x, axes, scalarConst(d.isInt ? mostInt(d) : dtypeMax(d), d));
  const invert = (u: UOp) => d.isFloat ? negNode(u) : u.xor(scalarConst(-1, d));
  return invert(reduceNode(invert(x), Ops.MAX, axes));
}

/** The largest of bools or words along `axes`, which stay with size 1; 0 where there is nothing. */
export function orReduce(x: UOp, axes: readonly number[]): UOp {
  const shape = shapeOf(x);
  if (axes.some((a) => shape[a] === 0)) return ofNothing(x, axes, constant(0, x.dtype));
  const made = reduceNode(x, Ops.MAX, axes), extents = extentsOf(x);
  if (axes.every((a) => extents?.[a] === undefined || vmin(extents[a]!) > 0)) return made;
  return made.alu(Ops.MAX, constant(0, x.dtype)); // of nothing it is the least there is
}

/** Mean of float nodes over `axes`, kept; NaN where there is nothing. */
export function meanNode(x: UOp, axes: readonly number[]): UOp {
  const sum = reduceNode(x, Ops.ADD, axes);
  return sum.fdiv(countNode(x, axes, shapeOf(sum)));
}

/** How many elements `axes` of a float node hold, in its dtype: a constant, or of `shape` where one is symbolic. */
export function countNode(x: UOp, axes: readonly number[], shape: readonly number[]): UOp {
  const sizes = shapeOf(x), extents = extentsOf(x), symbolic = axes.filter((a) => extents?.[a] !== undefined);
  const known = floatConst(prod(axes.map((a) => symbolic.includes(a) ? 1 : sizes[a])), x.dtype);
  if (symbolic.length === 0) return known;
  return broadcastTo(symbolic.reduce((n, a) => n.mul(extents![a]!.cast(x.dtype)), known), shape);
}

/** x minus its maximum along `axes`; the maximum is a constant to the gradient, as it cancels. */
export function belowMax(x: UOp, axes: readonly number[]): UOp {
  const max = detachNode(reduceNode(x, Ops.MAX, axes));
  return x.add(negNode(broadcastTo(max, shapeOf(x))));
}

/** The identity of MAX for a dtype, exact for 64-bit integers. */
export function smallestOf(d: DType): number | bigint {
  return d.isInt ? leastInt(d) : dtypeMin(d);
}
