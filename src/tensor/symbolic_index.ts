/**
 * Indices along symbolic axes, and indices that are variables: cuts of an axis by windows, whose start and size are
 * expressions. What is left of an index is for indexing.ts.
 *
 * @module
 */
import { IndexError } from "../helpers/errors.ts";
import { describeList } from "../helpers/options.ts";
import type { AxesArg, PairsArg, WindowArg } from "../uop/args.ts";
import { vmin } from "../uop/bounds.ts";
import { extentBetween, extentOf, extentsOf, extentText, isBoundNode } from "../uop/extent.ts";
import { flip, pad, reshape, shrink, window } from "../uop/movement.ts";
import { Ops } from "../uop/ops.ts";
import { shapeOf } from "../uop/shape.ts";
import { simplify } from "../uop/symbolic.ts";
import { int, type UOp } from "../uop/uop.ts";
import { TensorBase } from "./base.ts";
import { cutAxis, type Dim, dimNode, hasVariable, pickAxis } from "./dims.ts";
import type { Pair } from "./movement_nodes.ts";

/** [start, stop] or [start, stop, step]; null for a missing end. Ends may be bound variables. */
export type Slice = readonly [Dim | null, (Dim | null)?, (number | null)?];
/** One index of `at` and `setAt`. */
export type Index = number | bigint | null | ":" | "..." | Slice | TensorBase;

/** An index as users wrote it. */
export function describeIndex(x: unknown): string {
  return describeList(x);
}

/** Whether an index is a variable, or a slice with one. */
function isVariable(x: Index): boolean {
  return x instanceof TensorBase ? isBoundNode(x.uop) : Array.isArray(x) && hasVariable(x);
}

/** Every `step`-th element of an axis. */
function stride(u: UOp, axis: number, step: number): UOp {
  const shape = shapeOf(u), count = simplify(extentOf(u, axis).add(step - 1).floorDiv(step));
  const wide = window(u, axis, int(0), simplify(count.mul(step)));
  const rows = reshape(wide, shape.toSpliced(axis, 1, shapeOf(wide)[axis] / step, step));
  const kept = shrink(rows, shapeOf(rows).map((n, i): Pair => [0, i === axis + 1 ? 1 : n]));
  return reshape(kept, shapeOf(kept).toSpliced(axis + 1, 1));
}

/** A slice of an axis, of which ends or size are variables. @throws {IndexError} {ShapeError} that may be outside */
function cutSymbolic(action: string, u: UOp, axis: number, slice: Slice): UOp {
  const [start, stop, by] = slice, step = by ?? 1, e = extentOf(u, axis);
  if (!Number.isInteger(step) || step === 0 || (step < 0 && (start ?? stop ?? null) !== null)) {
    throw new IndexError(action, {
      axis,
      reason: `a slice whose ends or axis are variables cannot have the step ${describeIndex(step)}; ` +
        "cut it with step 1 first, then take the whole with that step",
    });
  }
  const place = (x: Dim | null | undefined, missing: UOp): UOp => {
    if (x === null || x === undefined) return missing;
    return typeof x === "number" && x < 0 ? simplify(e.add(dimNode(action, x))) : dimNode(action, x);
  };
  const cut = step < 0 ? flip(u, [axis]) : cutAxis(action, u, axis, place(start, int(0)), place(stop, e));
  return Math.abs(step) === 1 ? cut : stride(cut, axis, Math.abs(step));
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
  const rank = shapeOf(u).length, whole = u;
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
    const i = Number(x), from = i < 0 ? simplify(e!.add(i)) : int(i);
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
  return u === whole ? undefined : { u, rest };
}

/** The inverse of one movement of a cut at variables: what it moved, where it came from, and zero elsewhere. */
export function adjoint(moved: UOp, x: UOp): UOp {
  const from = moved.src[0], shape = shapeOf(from);
  switch (moved.op) {
    case Ops.WINDOW: {
      const { axis } = moved.arg as WindowArg, start = simplify(moved.src[1].mul(-1));
      return window(x, axis, start, extentOf(from, axis), shape[axis]);
    }
    case Ops.SHRINK:
      return pad(x, (moved.arg as PairsArg).pairs.map(([a, b], i): Pair => [a, shape[i] - b]));
    case Ops.FLIP:
      return flip(x, (moved.arg as AxesArg).axes);
  }
  return reshape(x, shape);
}
