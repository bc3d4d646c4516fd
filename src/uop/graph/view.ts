/**
 * Compositions of movement ops as one strided view: in, a chain of movement nodes; out, shape, strides, offset and mask
 * of the view of what is below it, or undefined where one view does not suffice.
 *
 * @module
 */
import { axisGroups, stridesOf } from "../../helpers/math.ts";
import { vmax, vmin } from "../algebra/bounds.ts";
import { argOf } from "../core/args.ts";
import { isMovement, Ops } from "../core/ops.ts";
import { shapeOf } from "../core/shape.ts";
import type { UOp } from "../core/uop.ts";

/** One strided view: element at indices i is at `offset + sum(i * strides)`, or zero where i is outside `mask`. */
export interface View {
  /** The size of each axis. */
  readonly shape: readonly number[];
  /** In elements; 0 along repeated axes, negative along flipped ones. */
  readonly strides: readonly number[];
  /** In elements. */
  readonly offset: number;
  /** The [start, stop) of each axis that holds data; undefined where all does. */
  readonly mask: readonly (readonly [number, number])[] | undefined;
}

/** The strides of `view` under another shape, or undefined where one view does not suffice. */
function reshapeView(view: View, shape: readonly number[]): View | undefined {
  if (view.mask !== undefined) {
    // only axes of size 1 may come and go under a mask
    const real = view.shape.map((n, i) => [n, i]).filter(([n]) => n !== 1), target = shape.filter((n) => n !== 1);
    if (real.length !== target.length || real.some(([n], i) => n !== target[i])) return undefined;
    if (view.shape.some((n, i) => n === 1 && view.mask![i][1] - view.mask![i][0] !== 1)) return undefined;
    let at = 0;
    const from = shape.map((n) => n === 1 ? -1 : real[at++][1]);
    const mask = from.map((i) => i < 0 ? [0, 1] as const : view.mask![i]);
    return { ...view, shape, strides: from.map((i) => i < 0 ? 0 : view.strides[i]), mask };
  }
  const strides = new Array<number>(shape.length).fill(0);
  if (shape.includes(0)) return { shape, strides, offset: view.offset, mask: undefined };
  for (const { i0, i1, j0, j1 } of axisGroups(view.shape, shape)) {
    const source: number[] = [];
    for (let k = i0; k < i1; k++) if (view.shape[k] !== 1) source.push(k);
    for (let k = 1; k < source.length; k++) {
      if (view.strides[source[k - 1]] !== view.strides[source[k]] * view.shape[source[k]]) return undefined;
    }
    let stride = source.length === 0 ? 0 : view.strides[source[source.length - 1]];
    for (let k = j1 - 1; k >= j0; k--) {
      if (shape[k] === 1) continue;
      strides[k] = stride;
      stride *= shape[k];
    }
  }
  return { shape, strides, offset: view.offset, mask: undefined };
}

function apply(u: UOp, v: View): View | undefined {
  const shape = shapeOf(u);
  switch (u.op) {
    case Ops.RESHAPE:
      return reshapeView(v, shape);
    case Ops.EXPAND:
      return {
        shape,
        strides: shape.map((n, i) => v.shape[i] === n ? v.strides[i] : 0),
        offset: v.offset,
        mask: v.mask?.map((m, i) =>
          v.shape[i] === shape[i] ? m : m[1] > m[0] ? [0, shape[i]] as const : [0, 0] as const
        ),
      };
    case Ops.PERMUTE: {
      const { axes } = argOf(u, Ops.PERMUTE);
      return { ...v, shape, strides: axes.map((a) => v.strides[a]), mask: v.mask && axes.map((a) => v.mask![a]) };
    }
    case Ops.FLIP: {
      const { axes } = argOf(u, Ops.FLIP);
      let { offset } = v;
      for (const a of axes) offset += (v.shape[a] - 1) * v.strides[a];
      return {
        shape,
        strides: v.strides.map((s, i) => axes.includes(i) ? -s : s),
        offset,
        mask: v.mask?.map((m, i) => axes.includes(i) ? [v.shape[i] - m[1], v.shape[i] - m[0]] as const : m),
      };
    }
    case Ops.SHRINK: {
      const { pairs } = argOf(u, Ops.SHRINK);
      let { offset } = v;
      pairs.forEach(([start], i) => offset += start * v.strides[i]);
      const clip = (x: number, i: number): number => Math.max(0, Math.min(x - pairs[i][0], shape[i]));
      const mask = full(v.mask?.map(([a, b], i) => [clip(a, i), clip(b, i)] as const), shape);
      return { shape, strides: v.strides, offset, mask };
    }
    case Ops.UNSKEW: {
      const { axis, kernelAxis, stride, dilation } = argOf(u, Ops.UNSKEW);
      if (v.mask !== undefined) return undefined;
      const strides = v.strides.slice();
      strides[kernelAxis] += dilation * strides[axis];
      strides[axis] *= stride;
      return { shape, strides, offset: v.offset, mask: undefined };
    }
    case Ops.PAD: {
      const { pairs } = argOf(u, Ops.PAD);
      let { offset } = v;
      pairs.forEach(([before], i) => offset -= before * v.strides[i]);
      const inner = v.mask ?? v.shape.map((n) => [0, n] as const);
      const mask = inner.map(([a, b], i) => [a + pairs[i][0], b + pairs[i][0]] as const);
      return { shape, strides: v.strides, offset, mask };
    }
    default:
      return undefined;
  }
}

/** No mask where the mask covers everything. */
function full(mask: View["mask"], shape: readonly number[]): View["mask"] {
  return mask === undefined || mask.every(([a, b], i) => a === 0 && b === shape[i]) ? undefined : mask;
}

/** A node as a view of the node below its movement ops. */
export interface NodeView {
  readonly base: UOp;
  /** Undefined where one view does not suffice. */
  readonly view: View | undefined;
  /** What the offset has besides: `stride` elements for each one of `start`, an expression of variables. */
  readonly moving: readonly Moving[];
}

/** A part of an offset that is a variable. */
export interface Moving {
  readonly start: UOp;
  readonly stride: number;
}

/** Whether a WINDOW has a constant size and lies within its source, wherever it starts. */
export function isInside(u: UOp): boolean {
  const { axis, capacity } = argOf(u, Ops.WINDOW), [x, start, size] = u.src;
  return size.op === Ops.CONST && vmin(start) >= 0 && vmax(start) + capacity <= shapeOf(x)[axis];
}

/** The node below the movement ops of `u`, and the view of it that `u` is. `now` reads realized nodes through. */
export function nodeView(u: UOp, now: (u: UOp) => UOp = (x) => x): NodeView {
  const chain: UOp[] = [];
  let base = now(u);
  while (isMovement(base.op)) {
    chain.push(base);
    base = now(base.src[0]);
  }
  const shape = shapeOf(base);
  let view: View | undefined = { shape, strides: stridesOf(shape), offset: 0, mask: undefined };
  const moving: Moving[] = [];
  for (let i = chain.length - 1; i >= 0 && view !== undefined; i--) {
    const node = chain[i];
    if (node.op === Ops.WINDOW && view.mask === undefined && isInside(node)) {
      moving.push({ start: node.src[1], stride: view.strides[argOf(node, Ops.WINDOW).axis] });
      view = { ...view, shape: shapeOf(node) };
    } else view = apply(node, view);
  }
  if (view !== undefined) view = { ...view, strides: view.strides.map((s, i) => view!.shape[i] === 1 ? 0 : s) };
  return { base, view, moving };
}

/** Whether a view is a range of its buffer from `offset` on: row-major, without gaps, repeats or mask. */
export function isRange(view: View): boolean {
  if (view.mask !== undefined) return false;
  const dense = stridesOf(view.shape);
  return view.shape.every((n, i) => n === 1 || view.strides[i] === dense[i]);
}
