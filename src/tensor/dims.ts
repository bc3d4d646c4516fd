/**
 * Sizes and bounds that are variables: a bound {@link Variable}, or integer arithmetic of such, where a number may stand
 * in a shape or a slice. In: what users write; out: nodes whose axes have symbolic extents (uop/extent.ts).
 *
 * @module
 */
import { ArgumentError, ShapeError } from "../helpers/errors.ts";
import { describe } from "../helpers/options.ts";
import { vmax, vmin } from "../uop/bounds.ts";
import {
  boundValue,
  extentBetween,
  extentOf,
  extentsOf,
  extentText,
  isBoundNode,
  label,
  sameExtent,
} from "../uop/extent.ts";
import { window } from "../uop/movement.ts";
import { Ops } from "../uop/ops.ts";
import { shapeOf } from "../uop/shape.ts";
import { simplify } from "../uop/symbolic.ts";
import { int, type UOp } from "../uop/uop.ts";
import { TensorBase } from "./base.ts";

/** A size or bound: a number, or a bound variable (or arithmetic of such, as `pos.bind(3).add(1)`). */
export type Dim = number | TensorBase;

/** Whether one of these is a variable: what is none keeps to the paths of plain numbers. */
export function hasVariable(list: unknown): boolean {
  return Array.isArray(list) && list.some((x) => x instanceof TensorBase || hasVariable(x));
}

/** The node of a size or bound. @throws {ArgumentError} for what is neither an integer nor a bound variable */
export function dimNode(action: string, x: unknown): UOp {
  if (typeof x === "number" && Number.isInteger(x)) return int(x);
  if (x instanceof TensorBase && isBoundNode(x.uop)) return simplify(x.uop);
  throw new ArgumentError(action, {
    reason: `${
      x instanceof TensorBase ? `a tensor of shape [${x.shape.join(", ")}]` : describe(x)
    } is no size: it takes integers and bound variables, as new Variable("n", 1, 9).bind(3)`,
  });
}

/** The largest value of each size, for the shape; -1 and null as they are. */
export function largestSizes(action: string, shape: readonly unknown[]): (number | null)[] {
  return shape.map((n) => {
    if (!(n instanceof TensorBase)) return n as number | null;
    const size = dimNode(action, n);
    checkCapacity(action, size);
    return vmax(size);
  });
}

function checkCapacity(action: string, size: UOp): void {
  if (vmin(size) === vmax(size)) return;
  if (vmin(size) < 0 || vmax(size) < 2) {
    throw new ArgumentError(action, {
      reason:
        `${extentText(size)} is a size from ${vmin(size)} to ${vmax(size)}; a symbolic one is at least 0, and its ` +
        "bound at least 2",
    });
  }
}

/** `u` with the sizes of `shape` that are variables: axes must have them, or get them where `may` says so. */
export function withSizes(action: string, u: UOp, shape: readonly unknown[], may: (axis: number) => boolean): UOp {
  shape.forEach((n, axis) => {
    if (!(n instanceof TensorBase)) return;
    const size = dimNode(action, n), own = extentsOf(u)?.[axis];
    if (own !== undefined ? sameExtent(own, size) : size.op === Ops.CONST) return;
    if (own === undefined && may(axis)) u = label(u, axis, size);
    else {
      throw new ShapeError(action, {
        shapes: [shapeOf(u)],
        axis,
        reason: `axis ${axis} has size ${extentText(extentOf(u, axis))}, not ${extentText(size)}; shrink it first`,
      });
    }
  });
  return u;
}

/** Elements from `start` to `stop` of an axis, either of which may be a variable. @throws {ShapeError} outside the axis */
export function shrinkAxis(action: string, u: UOp, axis: number, start: unknown, stop: unknown): UOp {
  const to = stop === null || stop === undefined ? extentOf(u, axis) : dimNode(action, stop);
  return cutAxis(action, u, axis, dimNode(action, start ?? 0), to);
}

/** The element of an axis at a variable; the axis stays, with size 1. Undefined where it may be outside. */
export function pickAxis(u: UOp, axis: number, at: TensorBase): UOp | undefined {
  const from = simplify(at.uop), stop = simplify(from.add(1));
  if (axis >= shapeOf(u).length || vmin(from) < 0 || vmin(extentBetween(stop, extentOf(u, axis))) < 0) return undefined;
  return window(u, axis, from, int(1));
}

function cutAxis(action: string, u: UOp, axis: number, from: UOp, to: UOp): UOp {
  const e = extentOf(u, axis), size = extentBetween(from, to);
  const fail = (reason: string): never => {
    throw new ShapeError(action, { shapes: [shapeOf(u)], axis, reason });
  };
  if (vmin(from) < 0) fail(`the start ${extentText(from)} may be ${vmin(from)}`);
  if (vmin(size) < 0) fail(`from ${extentText(from)} to ${extentText(to)} there may be ${vmin(size)} elements`);
  if (vmin(extentBetween(to, e)) < 0) {
    fail(`the stop ${extentText(to)} may be ${vmax(to)}, and axis ${axis} has size ${extentText(e)}`);
  }
  checkCapacity(action, size);
  if (from.isConst(0) && sameExtent(size, e)) return u;
  return window(u, axis, from, size);
}

/** Zeros before and after an axis, as many as numbers or variables say. @throws {ShapeError} for negative amounts */
export function padAxisBy(action: string, u: UOp, axis: number, before: unknown, after: unknown): UOp {
  const front = dimNode(action, before), back = dimNode(action, after);
  for (const x of [front, back]) {
    if (vmin(x) >= 0) continue;
    throw new ShapeError(action, {
      shapes: [shapeOf(u)],
      axis,
      reason: `the amount ${extentText(x)} may be ${vmin(x)}; with variables nothing is cut`,
    });
  }
  const size = simplify(extentOf(u, axis).add(front).add(back));
  checkCapacity(action, size);
  return window(u, axis, simplify(front.mul(-1)), size);
}

/** The sizes of a node now: of symbolic axes the value that their variables are bound to. */
export function sizesNow(u: UOp): number[] {
  const extents = extentsOf(u);
  return shapeOf(u).map((n, i) => extents?.[i] === undefined ? n : boundValue(extents[i]!) ?? n);
}

/** Refuses an axis of symbolic size, where an operation needs to know how many elements there are. @throws {ShapeError} */
export function constantAxis(action: string, u: UOp, axis: number): void {
  const extent = extentsOf(u)?.[axis];
  if (extent === undefined) return;
  throw new ShapeError(action, {
    shapes: [shapeOf(u)],
    axis,
    reason: `axis ${axis} has the symbolic size ${
      extentText(extent)
    }; it takes a constant one: use numbers for its bounds`,
  });
}
