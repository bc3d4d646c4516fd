/**
 * Sizes and bounds that are variables: a bound {@link Variable}, or integer arithmetic of such, where a number may stand
 * in a shape or a slice. In: what users write; out: nodes whose axes have symbolic extents (uop/graph/extent.ts).
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { ArgumentError, ShapeError } from "../../helpers/errors.ts";
import { describe, describeList } from "../../helpers/options.ts";
import { vmax, vmin } from "../../uop/algebra/bounds.ts";
import { simplifySize } from "../../uop/algebra/sizes.ts";
import { broadcastTo, expand } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { int, INT32_MAX, type UOp } from "../../uop/core/uop.ts";
import {
  aligned,
  boundValue,
  exact,
  extentBetween,
  extentOf,
  extentsOf,
  extentText,
  isBoundNode,
  label,
  leastBetween,
  namedShape,
  sameExtent,
  sumOf,
  window,
} from "../../uop/graph/extent.ts";
import { iotaAlong } from "../nodes/movement_nodes.ts";
import { checkShape } from "./axes.ts";
import { isTensor, TensorBase } from "./base.ts";

/** A size or bound: a number, or a bound variable (or arithmetic of such, as `pos.bind(3).add(1)`). */
export type Dim = number | TensorBase;
/** The size of each axis; one size stands for a list of one. */
export type Shape = Dim | readonly Dim[];

/** Whether one of these, or of pairs of these, is a variable: what is none keeps to the paths of plain numbers. */
export function hasVariable(list: unknown): boolean {
  if (!Array.isArray(list)) return false;
  return list.some((x) => isTensor(x) || Array.isArray(x) && x.some(isTensor));
}

/** An expression in int32 where that holds it. */
function narrowed(u: UOp): UOp {
  const isShort = u.dtype === dtypes.int64 && vmin(u) >= -INT32_MAX && vmax(u) <= INT32_MAX;
  return isShort ? simplifySize(u.cast(dtypes.int32)) : u;
}

/** The node of a size or bound. @throws {ArgumentError} for what is neither an integer nor a bound variable */
export function dimNode(action: string, x: unknown): UOp {
  if (typeof x === "number" && Number.isInteger(x)) return int(x);
  if (x instanceof TensorBase && isBoundNode(x.uop)) return narrowed(simplifySize(exact(x.uop)));
  throw new ArgumentError(action, {
    reason: `${
      x instanceof TensorBase ? `a tensor of shape [${x.shape.join(", ")}]` : describe(x)
    } is no size: it takes integers and bound variables, as new Variable("n", 1, 9).bind(3)`,
  });
}

/** The largest value of each size, for the shape; -1 and null as they are. */
export function largestSizes(action: string, shape: readonly unknown[]): (number | null)[] {
  return shape.map((n) => {
    if (n === null || typeof n === "number") return n;
    const size = dimNode(action, n);
    checkCapacity(action, size);
    return vmax(size);
  });
}

/** What errors call a size; undefined for numbers. */
export function sizeName(n: unknown): string | undefined {
  return isTensor(n) ? extentText(n.uop) : undefined;
}

/** Throws unless an axis may have this size. @throws {ArgumentError} */
export function checkCapacity(action: string, size: UOp, most = 2): void {
  if (vmin(size) === vmax(size)) return;
  if (vmin(size) < 0 || vmax(size) < most) {
    throw new ArgumentError(action, {
      reason:
        `${extentText(size)} is a size from ${vmin(size)} to ${vmax(size)}; a symbolic one is at least 0, and its ` +
        "bound at least 2",
    });
  }
}

/** What `make` gives for the largest sizes of `shape`, with its sizes. @throws {ShapeError} {ArgumentError} for what are none */
export function shaped(action: string, shape: Shape, make: (sizes: readonly number[]) => UOp): UOp {
  const list = shape instanceof TensorBase ? [shape] : shape;
  if (!hasVariable(list)) return make(checkShape(action, list));
  const sizes = list as readonly Dim[];
  return withSizes(action, make(checkShape(action, largestSizes(action, sizes))), sizes, () => true);
}

/** A row of so many elements: what `make` gives for the most that there may be. @throws {ArgumentError} below 0 */
export function sized(action: string, size: UOp, make: (n: number) => UOp): UOp {
  if (size.op === Ops.CONST) return make(Math.max(size.value, 0));
  checkCapacity(action, size);
  return label(make(vmax(size)), 0, size);
}

/** `u` with the sizes of `shape` that are variables: axes must have them, or get them where `may` says so. */
export function withSizes(action: string, u: UOp, shape: readonly unknown[], may: (axis: number) => boolean): UOp {
  shape.forEach((n, axis) => {
    if (!(n instanceof TensorBase)) return;
    const size = dimNode(action, n), own = extentsOf(u)?.[axis];
    if (own !== undefined ? sameExtent(own, size) : size.op === Ops.CONST) return;
    if (own === undefined && may(axis)) u = label(u, axis, size);
    else {
      refuse(
        action,
        u,
        axis,
        `axis ${axis} has size ${extentText(extentOf(u, axis))}, not ${extentText(size)}; shrink it first`,
      );
    }
  });
  return u;
}

/** @throws {ShapeError} that says why an axis of `u` does not do */
function refuse(action: string, u: UOp, axis: number, reason: string): never {
  throw new ShapeError(action, { shapes: [namedShape(u)], axis, reason });
}

/** Elements from `start` to `stop` of an axis, either of which may be a variable. @throws {ShapeError} outside the axis */
export function shrinkAxis(action: string, u: UOp, axis: number, start: unknown, stop: unknown): UOp {
  const to = stop === null || stop === undefined ? extentOf(u, axis) : dimNode(action, stop);
  return cutAxis(action, u, axis, dimNode(action, start ?? 0), to);
}

/**
 * `length` elements of an axis from `start` on, a number below 0 from its end; either may be a variable.
 * @throws {ShapeError} outside the axis
 */
export function narrowAxis(action: string, u: UOp, axis: number, start: unknown, length: unknown): UOp {
  const first = dimNode(action, start),
    from = first.op === Ops.CONST && first.value < 0 ? sumOf(extentOf(u, axis), first) : first;
  return cutAxis(action, u, axis, from, sumOf(from, dimNode(action, length)));
}

/** The element of an axis at a variable; the axis stays, with size 1. Undefined where it may be outside. */
export function pickAxis(u: UOp, axis: number, at: TensorBase): UOp | undefined {
  const from = simplifySize(exact(at.uop)), stop = simplifySize(from.add(1));
  if (axis >= shapeOf(u).length || vmin(from) < 0 || leastBetween(stop, extentOf(u, axis)) < 0) return undefined;
  return window(u, axis, from, int(1));
}

/** {@linkcode shrinkAxis} of nodes. @throws {ShapeError} for what may be outside */
function cutAxis(action: string, u: UOp, axis: number, from: UOp, to: UOp): UOp {
  const e = extentOf(u, axis), between = extentBetween(from, to), least = leastBetween(from, to);
  if (vmin(from) < 0) refuse(action, u, axis, `the start ${extentText(from)} may be ${vmin(from)}`);
  if (least < 0) {
    refuse(action, u, axis, `from ${extentText(from)} to ${extentText(to)} there may be ${least} elements`);
  }
  const [x, none] = aligned(between, int(0)), size = vmin(x) < 0 ? simplifySize(x.alu(Ops.MAX, none)) : between;
  if (leastBetween(to, e) < 0) {
    refuse(
      action,
      u,
      axis,
      `the stop ${extentText(to)} may be ${vmax(to)}, and axis ${axis} has size ${extentText(e)}; ` +
        "lower the bounds of its variables or make room; at([start, stop]) cuts a slice off there",
    );
  }
  checkCapacity(action, size);
  if (from.isConst(0) && sameExtent(size, e)) return u;
  return window(u, axis, from, size);
}

/**
 * Elements from `from` to `to` of an axis: what of them there is, as slices of Python have it. The size is
 * max(min(to, e) - max(from, 0), 0), of which the terms are left out that bounds decide. There is room for 2 at least,
 * for an axis of 1 repeats.
 */
export function clampAxis(action: string, u: UOp, axis: number, from: UOp, to: UOp): UOp {
  const e = extentOf(u, axis), first = most([from, int(0)]), ends = [to, e];
  const size = most([least(ends.flatMap((b) => [extentBetween(int(0), b), extentBetween(from, b)])), int(0)]);
  if (first.isConst(0) && sameExtent(size, e)) return u;
  if (vmin(size) === vmax(size)) return window(u, axis, first, size);
  checkCapacity(action, size, 1);
  return window(u, axis, first, size, Math.max(vmax(size), 2));
}

/** The largest of these expressions. */
function most(list: readonly UOp[]): UOp {
  return list.reduce((a, b) => {
    if (leastBetween(b, a) >= 0) return a;
    if (leastBetween(a, b) >= 0) return b;
    const [x, y] = aligned(a, b);
    return simplifySize(x.alu(Ops.MAX, y));
  });
}

/** The least of these expressions. */
function least(list: readonly UOp[]): UOp {
  return simplifySize(most(list.map((x) => simplifySize(x.mul(-1)))).mul(-1));
}

/** The parts of an axis that these sizes cut. @throws {ShapeError} unless they add up to it */
export function splitAxis(action: string, u: UOp, axis: number, sizes: readonly unknown[]): UOp[] {
  const e = extentOf(u, axis), ends = [int(0)];
  for (const size of sizes) ends.push(sumOf(ends[ends.length - 1], dimNode(action, size)));
  const total = ends[sizes.length];
  if (!sameExtent(total, e)) {
    refuse(action, u, axis, `the sizes add up to ${extentText(total)}, axis ${axis} has size ${extentText(e)}`);
  }
  return sizes.map((_, i) => cutAxis(action, u, axis, ends[i], ends[i + 1]));
}

/** An axis of symbolic size as the sizes of `count` equal parts. @throws {ShapeError} where it does not divide */
export function chunkSizes(action: string, u: UOp, axis: number, count: number): UOp[] {
  const e = extentOf(u, axis);
  if (simplifySize(e.floorMod(count)).isConst(0)) return new Array<UOp>(count).fill(simplifySize(e.floorDiv(count)));
  refuse(
    action,
    u,
    axis,
    `axis ${axis} has the symbolic size ${extentText(e)}, which is no multiple of ${count}; ` +
      "split it into parts of sizes that you list",
  );
}

/** An axis shifted circularly: element i goes to `by + i`. */
export function rolled(u: UOp, axis: number, by: UOp): UOp {
  const e = extentOf(u, axis), n = shapeOf(u)[axis], [amount, length] = aligned(by, e.alu(Ops.MAX, int(1)));
  const shift = simplifySize(amount.floorMod(length).cast(e.dtype));
  const first = window(u, axis, extentBetween(shift, e), e, n);
  const second = window(u, axis, simplifySize(shift.mul(-1)), e, n);
  const ones = shapeOf(u).map((_, i) => i === axis ? n : 1);
  const wraps = iotaAlong(n, axis, ones.length).lt(broadcastTo(shift, ones));
  return expand(wraps, shapeOf(u)).where(first, second);
}

/** A pair of sizes or bounds for each axis, or null. @throws {ArgumentError} for what is none */
export function dimPairs(action: string, list: readonly unknown[]): (readonly [Dim, Dim] | null)[] {
  return Array.from(list, (p) => {
    if (p === null || Array.isArray(p) && p.length === 2) return p as [Dim, Dim] | null;
    throw new ArgumentError(action, { reason: `it takes a pair or null for each axis, not ${describeList(p)}` });
  });
}

/** Amounts to pad by, of which some are variables, as pairs: given so, or flat, last axis first. @throws {ShapeError} */
export function padDims(list: readonly unknown[], shape: readonly number[]): (readonly [Dim, Dim] | null)[] {
  const rank = shape.length;
  if (list.some((p) => p === null || Array.isArray(p))) {
    if (list.length === rank) return dimPairs("pad", list);
    throw new ShapeError("pad", { shapes: [shape], reason: `${list.length} pairs for ${rank} axes` });
  }
  if (list.length % 2 !== 0 || list.length > 2 * rank) {
    throw new ShapeError("pad", {
      shapes: [shape],
      reason: `${list.length} amounts for ${rank} axes: it takes one before and one after an axis, last axis first`,
    });
  }
  return shape.map((_, axis) => {
    const i = 2 * (rank - 1 - axis);
    return i < list.length ? [list[i] as Dim, list[i + 1] as Dim] : null;
  });
}

/** Zeros before and after an axis, as many as numbers or variables say. @throws {ShapeError} for negative amounts */
export function padAxisBy(action: string, u: UOp, axis: number, before: unknown, after: unknown): UOp {
  const front = dimNode(action, before), back = dimNode(action, after);
  for (const x of [front, back]) {
    if (vmin(x) >= 0) continue;
    refuse(action, u, axis, `the amount ${extentText(x)} may be ${vmin(x)}; with variables nothing is cut`);
  }
  const size = sumOf(extentOf(u, axis), front, back);
  checkCapacity(action, size);
  return window(u, axis, simplifySize(front.mul(-1)), size);
}

/** Zeros after an axis, up to a number or variable. @throws {ShapeError} if the axis may be larger */
export function padAxisTo(action: string, u: UOp, axis: number, to: unknown): UOp {
  const size = dimNode(action, to), e = extentOf(u, axis);
  if (leastBetween(e, size) < 0) {
    refuse(action, u, axis, `axis ${axis} of size ${extentText(e)} may be larger than ${extentText(size)}`);
  }
  checkCapacity(action, size);
  return window(u, axis, int(0), size);
}

/** Throws where `at` may have more elements along an axis than `u`, whose size is symbolic. @throws {ShapeError} */
export function checkWithin(action: string, u: UOp, at: UOp, axis: number): void {
  if (extentsOf(u)?.[axis] === undefined) return;
  const [e, own] = [extentOf(u, axis), extentOf(at, axis)];
  if (leastBetween(own, e) >= 0) return;
  refuse(
    action,
    u,
    axis,
    `axis ${axis} has the symbolic size ${extentText(e)}, and the index ${extentText(own)}, which may be more; ` +
      "raise the least value of its variable, or cut the index to it",
  );
}

/** The sizes of a node now: of symbolic axes the value that their variables are bound to. */
export function sizesNow(u: UOp): number[] {
  const extents = extentsOf(u);
  return shapeOf(u).map((n, i) => extents?.[i] === undefined ? n : boundValue(extents[i]!) ?? n);
}

/**
 * Refuses an axis of symbolic size, where an operation needs to know how many elements there are, and says what to do.
 * @throws {ShapeError}
 */
export function constantAxis(
  action: string,
  u: UOp,
  axis: number,
  cure = "padTo(shape) gives it one, with zeros behind",
): void {
  const extent = extentsOf(u)?.[axis];
  if (extent === undefined) return;
  refuse(action, u, axis, `axis ${axis} has the symbolic size ${extentText(extent)}; it takes a constant one: ${cure}`);
}

/** {@linkcode constantAxis} of the last `count` axes. @throws {ShapeError} */
export function constantAxes(action: string, u: UOp, count: number): void {
  const rank = shapeOf(u).length;
  for (let axis = Math.max(rank - count, 0); axis < rank; axis++) constantAxis(action, u, axis);
}

/**
 * What `fn` builds of `u`, where an axis of `axes` of symbolic size may be one that it cannot take: then the error is that
 * of `action` on `u`, and not of what it is made of. @throws {ShapeError}
 */
export function sizedAs<T extends UOp | readonly UOp[] | TensorBase>(
  action: string,
  u: UOp,
  axes: readonly number[],
  fn: () => T,
): T {
  try {
    const made = fn();
    for (const x of made instanceof TensorBase ? [] : [made].flat() as UOp[]) extentsOf(x);
    return made;
  } catch (error) {
    if (error instanceof ShapeError) { for (const axis of axes) constantAxis(action, u, axis); }
    throw error;
  }
}

/** A tensor or a list of tensors, as a list. @throws {ArgumentError} for anything else */
export function tensorList(action: string, tensors: unknown, name = "it"): TensorBase[] {
  const list = tensors instanceof TensorBase ? [tensors] : tensors;
  if (!Array.isArray(list) || !Array.from(list).every(isTensor)) throw listNeeded(action, list, name);
  return list;
}

/** What is thrown where a list of `what` is needed. */
export function listNeeded(action: string, given: unknown, name = "it", what = "tensors"): ArgumentError {
  return new ArgumentError(action, { reason: `${name} takes a list of ${what}, not ${describeList(given)}` });
}
