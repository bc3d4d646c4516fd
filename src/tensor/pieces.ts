/**
 * Pieces of movement: builders of nodes that join, pad and cut along axes, for the methods of Tensor. Arguments are
 * checked by the callers, but for what a mode of padding can reach.
 *
 * @module
 */
import { type DType, dtypes } from "../dtype/dtype.ts";
import { ShapeError } from "../helpers/errors.ts";
import { expand, flip, pad, reshape, shrink } from "../uop/movement.ts";
import { Ops } from "../uop/ops.ts";
import { shapeOf } from "../uop/shape.ts";
import { constant, type UOp, uop } from "../uop/uop.ts";
import { scalarConst } from "./base.ts";

/** What is added before and after an axis, or where a piece of it starts and stops. */
export type Pair = readonly [number, number];

/** How `pad` fills: a value, the mirrored inside, the edge, or the other end. */
export type PadMode = "constant" | "reflect" | "replicate" | "circular";

/** 0, 1, ..., n-1 along `axis` of a tensor of `rank` axes, size 1 elsewhere. */
export function iotaAlong(n: number, axis: number, rank: number, dtype: DType = dtypes.int32): UOp {
  const shape = new Array<number>(rank).fill(1);
  shape[axis] = n;
  return reshape(uop(Ops.IOTA, dtype, [], n), shape);
}

/** Concatenates nodes of one dtype along `axis`: a balanced tree of selects over zero-padded parts. */
export function catNodes(nodes: readonly UOp[], axis: number): UOp {
  const parts = nodes.filter((u) => shapeOf(u)[axis] > 0);
  if (parts.length <= 1) return parts[0] ?? nodes[0];
  const sizes = parts.map((u) => shapeOf(u)[axis]);
  const total = sizes.reduce((a, b) => a + b, 0);
  const shape = [...shapeOf(parts[0])];
  const starts: number[] = [];
  for (let i = 0, at = 0; i < sizes.length; at += sizes[i++]) starts.push(at);
  shape[axis] = total;
  const position = expand(iotaAlong(total, axis, shape.length), shape);
  const build = (from: number, to: number): UOp => {
    if (to - from === 1) {
      const pairs = shape.map((): Pair => [0, 0]);
      pairs[axis] = [starts[from], total - starts[from] - sizes[from]];
      return pad(parts[from], pairs);
    }
    const mid = (from + to) >> 1;
    return position.lt(starts[mid]).where(build(from, mid), build(mid, to));
  };
  return build(0, parts.length);
}

/** Zero padding; another value is selected outside the mask of what was there. */
export function padConstant(x: UOp, pairs: readonly Pair[], value: number | boolean): UOp {
  if (pairs.every(([a, b]) => a === 0 && b === 0)) return x;
  const padded = pad(x, pairs);
  const fill = scalarConst(value, x.dtype);
  if (fill.arg === 0 && !Object.is(fill.arg, -0)) return padded;
  const shape = shapeOf(x);
  const ones = expand(reshape(constant(1, dtypes.bool), shape.map(() => 1)), shape);
  return pad(ones, pairs).where(padded, fill);
}

/** Pads one axis from what is inside. @throws {ShapeError} where there is not enough */
export function padAxis(x: UOp, axis: number, before: number, after: number, mode: PadMode): UOp {
  if (before === 0 && after === 0) return x;
  const shape = shapeOf(x);
  const n = shape[axis];
  const limit = mode === "reflect" ? n - 1 : mode === "circular" ? n : n > 0 ? Infinity : 0;
  if (before > limit || after > limit) {
    throw new ShapeError("pad", {
      shapes: [shape],
      axis,
      reason: `mode ${mode} can add at most ${limit} on a side of axis ${axis} of size ${n}, not ${
        Math.max(before, after)
      }`,
    });
  }
  const part = (start: number, stop: number) =>
    shrink(x, shape.map((s, i): Pair => i === axis ? [start, stop] : [0, s]));
  const repeated = (start: number, count: number) => expand(part(start, start + 1), shape.with(axis, count));
  const pieces: UOp[] = [];
  if (before > 0) {
    pieces.push(
      mode === "reflect"
        ? flip(part(1, before + 1), [axis])
        : mode === "circular"
        ? part(n - before, n)
        : repeated(0, before),
    );
  }
  pieces.push(x);
  if (after > 0) {
    pieces.push(
      mode === "reflect"
        ? flip(part(n - 1 - after, n - 1), [axis])
        : mode === "circular"
        ? part(0, after)
        : repeated(n - 1, after),
    );
  }
  return catNodes(pieces, axis);
}

/** Windows over the last axis, as one more axis: tile, cut into rows one step longer than the axis, keep their starts. */
export function unfoldLast(x: UOp, size: number, step: number): UOp {
  const shape = shapeOf(x);
  const lead = shape.slice(0, -1), n = shape[shape.length - 1];
  const count = Math.floor((n - size) / step) + 1;
  const all = lead.map((s): Pair => [0, s]), none = lead.map((): Pair => [0, 0]);
  if (n === 0 || size === 0) return expand(reshape(shrink(x, [...all, [0, 0]]), [...lead, 1, 0]), [...lead, count, 0]);
  if (size <= step) {
    const want = count * step;
    x = want <= n ? shrink(x, [...all, [0, want]]) : pad(x, [...none, [0, want - n]]);
    return shrink(reshape(x, [...lead, count, step]), [...all, [0, count], [0, size]]);
  }
  const row = n + step, want = count * row, tiles = Math.ceil(want / n);
  x = reshape(expand(reshape(x, [...lead, 1, n]), [...lead, tiles, n]), [...lead, tiles * n]);
  x = reshape(shrink(x, [...all, [0, want]]), [...lead, count, row]);
  return shrink(x, [...all, [0, count], [0, size]]);
}
