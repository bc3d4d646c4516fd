/**
 * The part of a computed node along one dimension, as the same computed of the parts of what it is computed of. In: a node,
 * a dimension, and who gives parts of others. Out: a node; undefined for memory, and for what needs more than the part.
 *
 * @module
 */
import { prod } from "../../helpers/math.ts";
import { argOf, reduceOf } from "../../uop/core/args.ts";
import { expand, pad, permute, reshape, shrink } from "../../uop/core/build_movement.ts";
import { isAlu, isMovement, Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { type UOp, uop } from "../../uop/core/uop.ts";
import { moveLike } from "../../uop/graph/resolve.ts";

/** One of `count` parts of `size` along dimension `dim` of `u`; `part` gives that of a source. */
export function partBelow(
  u: UOp,
  dim: number,
  size: number,
  count: number,
  part: (x: UOp, dim: number) => UOp,
): UOp | undefined {
  const shape = shapeOf(u), sizes = shape.with(dim, size), [x] = u.src;
  if (isAlu(u.op)) {
    if (u.op === Ops.BITCAST && u.dtype.itemsize !== x.dtype.itemsize) return undefined;
    return uop(u.op, u.dtype, u.src.map((s) => shapeOf(s).length === 0 ? s : part(s, dim)), u.arg);
  }
  if (u.op === Ops.REDUCE) {
    return reduceOf(u).axes.includes(dim) ? undefined : uop(u.op, u.dtype, [part(x, dim)], u.arg);
  }
  if (!isMovement(u.op)) return undefined;
  const from = shapeOf(x);
  switch (u.op) {
    case Ops.EXPAND:
      return from[dim] === 1 ? expand(x, sizes) : expand(part(x, dim), sizes);
    case Ops.PERMUTE: {
      const { axes } = argOf(u, Ops.PERMUTE);
      return permute(part(x, axes[dim]), axes);
    }
    case Ops.RESHAPE: {
      const below = sourceDim(from, shape, dim, count);
      return below === undefined ? undefined : reshape(part(x, below), sizes);
    }
    case Ops.PAD: {
      const { pairs } = argOf(u, Ops.PAD);
      return pairs[dim].every((n) => n === 0) ? pad(part(x, dim), pairs) : undefined;
    }
    case Ops.SHRINK: {
      const { pairs } = argOf(u, Ops.SHRINK), [start, stop] = pairs[dim];
      return start === 0 && stop === from[dim] ? shrink(part(x, dim), pairs.with(dim, [0, size])) : undefined;
    }
    case Ops.FLIP:
      return argOf(u, Ops.FLIP).axes.includes(dim) ? undefined : moveLike(u, part(x, dim));
    case Ops.UNSKEW:
    case Ops.SKEW: {
      const { axis, kernelAxis } = argOf(u, Ops.SKEW);
      return axis === dim || kernelAxis === dim ? undefined : moveLike(u, part(x, dim));
    }
    case Ops.WINDOW:
      return argOf(u, Ops.WINDOW).axis === dim ? undefined : moveLike(u, part(x, dim));
  }
  return undefined;
}

/**
 * The dimension of `from` whose parts are those of dimension `dim` of `to`, its shape after a reshape: both are the first
 * of their group, that of dimensions whose elements are the same, and both divide by `count`, unless nothing else is in it.
 */
export function sourceDim(
  from: readonly number[],
  to: readonly number[],
  dim: number,
  count: number,
): number | undefined {
  if (prod(to) === 0 || to[dim] === 1) return undefined;
  const before = prod(to.slice(0, dim));
  let below = 0, passed = 1;
  while (below < from.length && (passed < before || from[below] === 1)) passed *= from[below++];
  if (passed !== before || below === from.length) return undefined;
  return from[below] === to[dim] || (from[below] % count === 0 && to[dim] % count === 0) ? below : undefined;
}
