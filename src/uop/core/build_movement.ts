/**
 * Builders of movement nodes that fold as they build: no-ops vanish, neighbors of one kind merge, scalars stay scalars.
 * Arguments are already checked: these throw nothing.
 *
 * @module
 */
import { prod, sameArray } from "../../helpers/math.ts";
import { argOf, AxesArg, PairsArg, ShapeArg, type SkewArg } from "./args.ts";
import { Ops } from "./ops.ts";
import { shapeOf } from "./shape.ts";
import { type UOp, uop } from "./uop.ts";

/** Whether builders merge with nodes that tensors name, too: of what runs it does not matter what is a view of what. */
let mergesAll = false;

/** What `make` returns, for which movement is merged whoever names what: schedules, and what reads no gradients. */
export function mergingAll<T>(make: () => T): T {
  const before = mergesAll;
  mergesAll = true;
  try {
    return make();
  } finally {
    mergesAll = before;
  }
}

/** Whether {@linkcode mergingAll} runs. */
export function isMergingAll(): boolean {
  return mergesAll;
}

/**
 * Whether what is built of a movement node is built of what that moves: not where a tensor names it, whose gradient is asked
 * of this node. Schedules merge them; a shape of a constant is no target.
 */
function isPassed(x: UOp): boolean {
  return mergesAll || x.names === 0 || !x.dtype.isFloat || x.src[0].op === Ops.CONST;
}

/** Same elements in row-major order under another shape. */
export function reshape(x: UOp, shape: readonly number[]): UOp {
  if (sameArray(shapeOf(x), shape)) return x;
  if (x.op === Ops.RESHAPE && isPassed(x)) return reshape(x.src[0], shape);
  return uop(Ops.RESHAPE, x.dtype, [x], new ShapeArg(shape));
}

/** Repeats axes of size 1; the rank stays. */
export function expand(x: UOp, shape: readonly number[]): UOp {
  if (sameArray(shapeOf(x), shape)) return x;
  if (x.op === Ops.EXPAND && isPassed(x)) return expand(x.src[0], shape);
  return uop(Ops.EXPAND, x.dtype, [x], new ShapeArg(shape));
}

/** Axis i of the result is axis `order[i]` of `x`. */
export function permute(x: UOp, order: readonly number[]): UOp {
  if (order.every((a, i) => a === i)) return x;
  if (x.op === Ops.PERMUTE && isPassed(x)) {
    const inner = argOf(x, Ops.PERMUTE).axes;
    return permute(x.src[0], order.map((a) => inner[a]));
  }
  return uop(Ops.PERMUTE, x.dtype, [x], new AxesArg(order));
}

/** Zeros before and after each axis. */
export function pad(x: UOp, pairs: readonly (readonly [number, number])[]): UOp {
  if (pairs.every(([a, b]) => a === 0 && b === 0)) return x;
  return uop(Ops.PAD, x.dtype, [x], new PairsArg(pairs));
}

/** The part from start (included) to stop (excluded) of each axis. */
export function shrink(x: UOp, pairs: readonly (readonly [number, number])[]): UOp {
  const shape = shapeOf(x);
  if (pairs.every(([a, b], i) => a === 0 && b === shape[i])) return x;
  if (x.op === Ops.SHRINK && isPassed(x)) {
    const inner = argOf(x, Ops.SHRINK).pairs;
    return shrink(x.src[0], pairs.map(([a, b], i) => [inner[i][0] + a, inner[i][0] + b]));
  }
  return uop(Ops.SHRINK, x.dtype, [x], new PairsArg(pairs));
}

/** Reverses the axes listed. */
export function flip(x: UOp, axes: readonly number[]): UOp {
  const shape = shapeOf(x);
  const real = axes.filter((a) => shape[a] !== 1);
  if (real.length === 0) return x;
  return uop(Ops.FLIP, x.dtype, [x], new AxesArg(real.sort((a, b) => a - b)));
}

/**
 * Shifts position axis `axis` along `kernelAxis`: out[o, k] = x[o * stride + k * dilation, k]. All of those must exist.
 * Windows of an axis are this over a repetition of the axis.
 */
export function unskew(x: UOp, arg: SkewArg): UOp {
  return uop(Ops.UNSKEW, x.dtype, [x], arg);
}

/** The adjoint of {@linkcode unskew}: out[i, k] = x[(i - k * dilation) / stride, k], zero where that is no element. */
export function skew(x: UOp, arg: SkewArg): UOp {
  return uop(Ops.SKEW, x.dtype, [x], arg);
}

/** `x` under `shape`, where axes are added in front and sizes 1 are repeated, as NumPy broadcasts. */
export function broadcastTo(x: UOp, shape: readonly number[]): UOp {
  const from = shapeOf(x);
  const full = [...new Array<number>(shape.length - from.length).fill(1), ...from];
  return expand(reshape(x, full), shape);
}

/** Elements of a node. */
export function numelOf(x: UOp): number {
  return prod(shapeOf(x));
}
