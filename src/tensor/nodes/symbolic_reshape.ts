/**
 * Reshapes and diagonals of symbolic axes, as reads at computed places. A reshape may join such an axis to axes before it:
 * memory has room for the largest size, so that what is adjacent in row-major order is not adjacent in memory, and each
 * element is read at the place that its position comes from.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { ShapeError } from "../../helpers/errors.ts";
import { axisGroups, prod, rangeOf, stridesOf } from "../../helpers/math.ts";
import { simplifySize } from "../../uop/algebra/sizes.ts";
import { ReduceArg } from "../../uop/core/args.ts";
import { broadcastTo, expand, permute, reshape } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { constant, int, type UOp, uop } from "../../uop/core/uop.ts";
import { extentOf, extentsOf, label, productOf } from "../../uop/graph/extent.ts";
import { filled, iotaAlong } from "./movement_nodes.ts";

/** `u` under another shape of as many elements, in row-major order of those that there are. @throws {ShapeError} */
export function reshapeSized(u: UOp, to: readonly number[]): UOp {
  if (prod(to) > Number.MAX_SAFE_INTEGER) {
    throw new ShapeError("reshape", {
      shapes: [shapeOf(u), to],
      reason: "positions are counted up to 2^53; cut the axes to what is needed first",
    });
  }
  const extents = extentsOf(u);
  if (extents === null) return reshape(u, to);
  const from = shapeOf(u);
  for (const { i0, i1 } of axisGroups(from, to)) {
    const group = rangeOf(i1 - i0).map((k) => i0 + k), first = group.findIndex((k) => from[k] !== 1);
    if (group.some((k, at) => at > first && extents[k] !== undefined)) u = joinAxes(u, group);
  }
  return reshape(u, to);
}

/** Axes that follow each other as the last of them, the others with size 1. */
function joinAxes(u: UOp, axes: readonly number[]): UOp {
  const shape = shapeOf(u), rank = shape.length, axis = axes[axes.length - 1], sizes = axes.map((a) => shape[a]);
  const extents = axes.map((a) => extentOf(u, a)), room = prod(sizes), strides = stridesOf(sizes);
  const merged = shape.map((n, i) => i === axis ? room : axes.includes(i) ? 1 : n);
  const row = merged.map((_, i) => i === axis ? room : 1);
  const flat = reshape(axes.reduce((x, a) => filled(x, a), u), merged);
  let rest = iotaAlong(room, axis, rank), at: UOp | undefined;
  for (let k = axes.length - 1; k >= 0; k--) {
    const e = broadcastTo(simplifySize(extents[k].alu(Ops.MAX, int(1))), row),
      place = k === 0 ? rest : rest.floorMod(e);
    const term = place.mul(strides[k]);
    at = at === undefined ? term : at.add(term);
    rest = rest.floorDiv(e);
  }
  const full = [...merged, room], order = [...rangeOf(rank).filter((a) => a !== axis), axis];
  const wide = flat.dtype.isBool ? flat.cast(dtypes.int32) : flat;
  const source = expand(reshape(permute(wide, order), [...merged.with(axis, 1), room]), full);
  const hit = expand(iotaAlong(room, rank, rank + 1), full).eq(expand(reshape(at!, [...row, 1]), full));
  const found = hit.where(source, constant(0, wide.dtype));
  const picked = uop(Ops.REDUCE, wide.dtype, [found], new ReduceArg(Ops.ADD, [rank]));
  const total = extents.reduce(productOf);
  return label(reshape(picked, merged).cast(u.dtype), axis, total);
}

/** The diagonal of axes `a` and `b`, which have one size, as the last axis. */
export function squareDiagonal(u: UOp, a: number, b: number): UOp {
  const shape = shapeOf(u), rank = shape.length, rest = rangeOf(rank).filter((i) => i !== a && i !== b);
  const x = permute(u.dtype.isBool ? u.cast(dtypes.int32) : u, [...rest, a, b]), full = shapeOf(x);
  const along = (axis: number) => broadcastTo(iotaAlong(full[axis], axis, rank), full);
  const hit = along(rank - 2).eq(along(rank - 1)).where(x, constant(0, x.dtype));
  const picked = uop(Ops.REDUCE, x.dtype, [hit], new ReduceArg(Ops.ADD, [rank - 1]));
  return reshape(picked, full.slice(0, -1)).cast(u.dtype);
}
