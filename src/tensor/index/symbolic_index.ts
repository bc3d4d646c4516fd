/**
 * Indices along symbolic axes, and indices that are variables: cuts of an axis by windows, whose start and size are
 * expressions. What is left of an index is for indexing.ts.
 *
 * @module
 */
import { IndexError } from "../../helpers/errors.ts";
import { describe, describeList } from "../../helpers/options.ts";
import { vmax, vmin } from "../../uop/algebra/bounds.ts";
import { simplifySize } from "../../uop/algebra/sizes.ts";
import { argOf } from "../../uop/core/args.ts";
import { flip, pad, reshape, shrink } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { int, type UOp } from "../../uop/core/uop.ts";
import { extentBetween, extentOf, extentsOf, extentText, isBoundNode, sumOf, window } from "../../uop/graph/extent.ts";
import { TensorBase } from "../handle/base.ts";
import { checkCapacity, clampAxis, type Dim, dimNode, hasVariable, pickAxis } from "../handle/dims.ts";
import type { TypedArray } from "../nodes/host.ts";
import type { Pair } from "../nodes/movement_nodes.ts";

/** [start, stop] or [start, stop, step], or a list of such; null for a missing end. Ends may be bound variables. */
export type Slice = readonly [Dim | null, (Dim | null)?, (number | null)?] | readonly (Dim | null)[];
/** One index of `at` and `setAt`. */
export type Index = number | bigint | null | ":" | "..." | Slice | TensorBase | TypedArray;

/** An index as users wrote it. */
export function describeIndex(x: unknown): string {
  return describeList(x);
}

/** Whether an index is a variable, or a slice with one. */
function isVariable(x: Index): boolean {
  return x instanceof TensorBase ? isBoundNode(x.uop) : Array.isArray(x) && hasVariable(x);
}

/** Every `step`-th element of an axis. */
function stride(action: string, u: UOp, axis: number, step: number): UOp {
  const shape = shapeOf(u), count = simplifySize(extentOf(u, axis).add(step - 1).floorDiv(step));
  checkCapacity(action, count);
  const wide = window(u, axis, int(0), simplifySize(count.mul(step)));
  const rows = reshape(wide, shape.toSpliced(axis, 1, shapeOf(wide)[axis] / step, step));
  const kept = shrink(rows, shapeOf(rows).map((n, i): Pair => [0, i === axis + 1 ? 1 : n]));
  return reshape(kept, shapeOf(kept).toSpliced(axis + 1, 1));
}

/**
 * A slice of an axis, of which ends or size are variables, cut off at the ends of the axis as Python does. Backward it is
 * a slice of the flipped axis: what was at i is at e - 1 - i.
 * @throws {IndexError} for a step that is no integer or 0, and an end of which bounds do not say whether it is negative
 */
function cutSymbolic(action: string, u: UOp, axis: number, slice: Slice): UOp {
  const [start, stop, by] = slice, step = by ?? 1, e = extentOf(u, axis);
  if (typeof step !== "number" || !Number.isInteger(step) || step === 0) {
    throw new IndexError(action, {
      axis,
      reason: `the step of a slice whose ends or axis are variables is an integer other than 0, not ${describe(step)}`,
    });
  }
  const place = (x: Dim | null | undefined, missing: UOp): UOp => {
    if (x === null || x === undefined) return missing;
    const own = dimNode(action, x), at = vmax(own) < 0 ? sumOf(e, own) : own;
    if (vmin(own) < 0 && vmax(own) >= 0) {
      throw new IndexError(action, {
        axis,
        reason:
          `the end ${extentText(own)} of a slice is from ${vmin(own)} to ${vmax(own)}: it counts from the start ` +
          "or, below 0, from the end of the axis; give its variable bounds that say which",
      });
    }
    return step > 0 ? simplifySize(at) : sumOf(e, at.mul(-1), int(-1));
  };
  const cut = clampAxis(action, step < 0 ? flip(u, [axis]) : u, axis, place(start, int(0)), place(stop, e));
  return Math.abs(step) === 1 ? cut : stride(action, cut, axis, Math.abs(step));
}

/**
 * `u` cut at variables, at slices whose ends are such, and along axes of symbolic size; and the indices that are left for
 * it: those axes whole, or their one element. Undefined where there is none. A variable that may be outside, or stands
 * beside other index tensors, is one of those. @throws {IndexError} {ShapeError} for what may be outside
 */
export function cutVariables(action: string, u: UOp, indices: readonly Index[]): { u: UOp; rest: Index[] } | undefined {
  const extents = extentsOf(u);
  if (extents === null && !indices.some(isVariable)) return undefined;
  const gathers = indices.some((x) => x instanceof TensorBase && !isVariable(x));
  const used = indices.reduce(
    (n: number, x) => n + (x === null || x === "..." ? 0 : x instanceof TensorBase && x.dtype.isBool ? x.ndim : 1),
    0,
  );
  const rank = shapeOf(u).length;
  let axis = 0;
  const rest = indices.map((x): Index => {
    if (x === "...") axis += Math.max(0, rank - used);
    if (x === null || x === "...") return x;
    const at = axis, e = extents?.[at];
    axis += x instanceof TensorBase && x.dtype.isBool ? x.ndim : 1;
    if (x instanceof TensorBase) {
      const picked = gathers || !isVariable(x) ? undefined : pickAxis(u, at, x);
      if (picked === undefined) return x;
      u = picked;
      return 0;
    }
    if (x === ":" || (e === undefined && !isVariable(x))) return x;
    if (at >= rank) throw new IndexError(action, { reason: `${used} indices for a tensor of ${rank} axes` });
    if (Array.isArray(x)) {
      u = cutSymbolic(action, u, at, x as Slice);
      return ":";
    }
    const i = Number(x), from = i < 0 ? simplifySize(e!.add(i)) : int(i);
    if (!Number.isInteger(i)) return x;
    if (vmin(from) < 0 || vmin(extentBetween(from, e!)) < 1) {
      throw new IndexError(action, {
        axis: at,
        reason: `index ${i} may be out of range: axis ${at} has the symbolic size ${extentText(e!)}, ` +
          `of which there may be ${vmin(e!)}`,
      });
    }
    u = window(u, at, from, int(1));
    return 0;
  });
  return rest.every((x, i) => x === indices[i]) ? undefined : { u, rest };
}

/** The inverse of one movement of a cut at variables: what it moved, where it came from, and zero elsewhere. */
export function adjoint(moved: UOp, x: UOp): UOp {
  const from = moved.src[0], shape = shapeOf(from);
  switch (moved.op) {
    case Ops.WINDOW: {
      const { axis } = argOf(moved, Ops.WINDOW), start = simplifySize(moved.src[1].mul(-1));
      return window(x, axis, start, extentOf(from, axis), shape[axis]);
    }
    case Ops.SHRINK:
      return pad(x, argOf(moved, Ops.SHRINK).pairs.map(([a, b], i): Pair => [a, shape[i] - b]));
    case Ops.FLIP:
      return flip(x, argOf(moved, Ops.FLIP).axes);
  }
  return reshape(x, shape);
}
