/**
 * Nodes of matrices, in the last two axes of theirs: what formulas of gradients are made of.
 *
 * @module
 */
import { broadcastTo, permute, reshape, shrink } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { constant, type UOp } from "../../uop/core/uop.ts";
import { iotaAlong, type Pair } from "../nodes/movement_nodes.ts";
import { reduceNode } from "../nodes/reduce_nodes.ts";

/** The transposed matrix. */
export function turned(x: UOp): UOp {
  const rank = shapeOf(x).length;
  return permute(x, Array.from({ length: rank }, (_, i) => i < rank - 2 ? i : 2 * rank - 3 - i));
}

/** The product of matrices `[..., m, k]` and `[..., k, n]`. */
export function times(a: UOp, b: UOp): UOp {
  const [m, k] = shapeOf(a).slice(-2),
    [n] = shapeOf(b).slice(-1),
    lead = shapeOf(a).slice(0, -2),
    full = [...lead, m, n, k];
  const left = broadcastTo(reshape(a, [...lead, m, 1, k]), full),
    right = broadcastTo(reshape(turned(b), [...lead, 1, n, k]), full);
  return reshape(reduceNode(left.mul(right), Ops.ADD, [full.length - 1]), [...lead, m, n]);
}

/** a - b */
export function minus(a: UOp, b: UOp): UOp {
  return a.add(b.mul(-1));
}

/** The first `k` of an axis from the end. */
export function first(x: UOp, axis: -1 | -2, k: number): UOp {
  const shape = shapeOf(x), at = shape.length + axis;
  return shape[at] === k ? x : shrink(x, shape.map((n, i): Pair => [0, i === at ? k : n]));
}

/** `x` `[..., k]` under `[..., k, k]`: one value a column, or a row. */
export function along(x: UOp, axis: "column" | "row"): UOp {
  const shape = shapeOf(x), k = shape[shape.length - 1], lead = shape.slice(0, -1);
  return broadcastTo(reshape(x, [...lead, ...(axis === "column" ? [1, k] : [k, 1])]), [...lead, k, k]);
}

/** Where row and column are one, under the shape of `x`. */
export function isDiagonal(x: UOp): UOp {
  const shape = shapeOf(x),
    rank = shape.length,
    place = (axis: number) => broadcastTo(iotaAlong(shape[axis], axis, rank), shape);
  return place(rank - 2).eq(place(rank - 1));
}

/** Columns `start` to `stop` (not included). */
export function columnsOf(x: UOp, start: number, stop: number): UOp {
  const shape = shapeOf(x), last = shape.length - 1;
  return shrink(x, shape.map((n, i): Pair => i === last ? [start, stop] : [0, n]));
}

/** What stands on the diagonal and below (above with `upper`) in `x`, the diagonal times `diagonal`; 0 elsewhere. */
export function triangle(x: UOp, upper: boolean, diagonal: number): UOp {
  const shape = shapeOf(x), rank = shape.length, zero = constant(0, x.dtype);
  const place = (axis: number): UOp => broadcastTo(iotaAlong(shape[axis], axis, rank), shape);
  const row = place(rank - 2), column = place(rank - 1), isOut = upper ? column.lt(row) : row.lt(column);
  return isOut.where(zero, diagonal === 1 ? x : row.eq(column).where(x.mul(constant(diagonal, x.dtype)), x));
}
