/**
 * Movement on nodes: builders that join, pad and cut along axes, for the methods of Tensor. Arguments are checked by the
 * callers, but for what a mode of padding can reach.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { ShapeError } from "../../helpers/errors.ts";
import { prod, rangeOf } from "../../helpers/math.ts";
import { vmax, vmin } from "../../uop/algebra/bounds.ts";
import { simplifySize } from "../../uop/algebra/sizes.ts";
import { SkewArg } from "../../uop/core/args.ts";
import { broadcastTo, expand, flip, pad, permute, reshape, shrink, unskew } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { constant, int, iota, type UOp, uop } from "../../uop/core/uop.ts";
import { extentBetween, extentOf, extentsOf, extentText, window, withExtents } from "../../uop/graph/extent.ts";
import { scalarConst } from "./scalars.ts";
import { pool } from "./windows.ts";

/** What is added before and after an axis, or where a piece of it starts and stops. */
export type Pair = readonly [number, number];

/** How `pad` fills: a value, the mirrored inside, the edge, or the other end. */
export type PadMode = "constant" | "reflect" | "replicate" | "circular";

/** 0, 1, ..., n-1 along `axis` of a tensor of `rank` axes, size 1 elsewhere: int32, or int64 where that cannot count so far. */
export function iotaAlong(n: number, axis: number, rank: number): UOp {
  const shape = new Array<number>(rank).fill(1);
  shape[axis] = n;
  return reshape(iota(n), shape);
}

/** As many elements along `axis` as memory holds: beyond a symbolic size stands `fill`. */
export function filled(x: UOp, axis: number, fill: number | bigint | boolean = 0): UOp {
  const e = extentsOf(x)?.[axis], shape = shapeOf(x), n = shape[axis];
  if (e === undefined) return x;
  const wide = window(x, axis, int(0), int(n), n), value = scalarConst(fill, x.dtype);
  if (value.arg === 0 && !Object.is(value.arg, -0)) return wide;
  const inside = iotaAlong(n, axis, shape.length).lt(broadcastTo(e, shape.map((_, i) => i === axis ? n : 1)));
  return expand(inside, shape).where(wide, value);
}

/** {@linkcode filled} along all axes. */
export function allFilled(x: UOp, fill: number | bigint | boolean = 0): UOp {
  if (extentsOf(x) === null) return x;
  return shapeOf(x).reduce((u, _, axis) => filled(u, axis, fill), x);
}

/**
 * Parts that one kernel joins: it looks for each element among all of them, and takes the longer to compile the more there
 * are. Where there are few elements, that is all of its time.
 */
const MOST_PARTS = 128, MOST_SMALL_PARTS = 64, FEW_ELEMENTS = 1 << 16;

/**
 * Concatenates nodes of one dtype along `axis`: a balanced tree of selects over zero-padded parts. Of many parts, some at
 * a time are joined in memory.
 */
export function catNodes(nodes: readonly UOp[], axis: number): UOp {
  let parts = nodes.filter((u) => shapeOf(u)[axis] > 0);
  const isSmall = parts.length <= MOST_PARTS && parts.reduce((n, u) => n + prod(shapeOf(u)), 0) <= FEW_ELEMENTS;
  const most = isSmall ? MOST_SMALL_PARTS : MOST_PARTS;
  while (parts.length > most && parts.every((u) => extentsOf(u)?.[axis] === undefined)) {
    // as many groups as parts of a group, if that is enough
    const groups = Math.max(Math.ceil(parts.length / most), Math.min(most, Math.ceil(Math.sqrt(parts.length))));
    const each = Math.ceil(parts.length / groups), all = parts;
    parts = Array.from({ length: Math.ceil(all.length / each) }, (_, g) => {
      const part = selectParts(all.slice(g * each, (g + 1) * each), axis);
      return uop(Ops.CONTIGUOUS, part.dtype, [part]);
    });
  }
  return parts.length === 0 ? nodes[0] : selectParts(parts, axis);
}

/** {@linkcode catNodes} of parts that are not empty, in one kernel. */
function selectParts(parts: readonly UOp[], axis: number): UOp {
  if (parts.length === 1) return parts[0];
  if (parts.some((u) => extentsOf(u)?.[axis] !== undefined)) return catSized(parts, axis);
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

/**
 * Two nodes of size 1 along `axis` side by side. A kernel computes both at once, with what they have in common: it has
 * copies of its body along such an axis (schedule/fuse/stacked.ts).
 */
export function pairNodes(first: UOp, second: UOp, axis: number): UOp {
  const shape = shapeOf(first).with(axis, 2), position = iotaAlong(2, axis, shape.length);
  return expand(position.lt(1), shape).where(expand(first, shape), expand(second, shape));
}

/** {@linkcode catNodes} of parts of which some have a symbolic size. */
function catSized(parts: readonly UOp[], axis: number): UOp {
  const starts = [int(0)];
  for (const u of parts) starts.push(simplifySize(starts[starts.length - 1].add(extentOf(u, axis))));
  const total = starts.pop()!, capacity = vmax(total), shape = shapeOf(parts[0]).with(axis, capacity);
  const one = shape.map((_, i) => i === axis ? capacity : 1), position = iotaAlong(capacity, axis, shape.length);
  const build = (from: number, to: number): UOp => {
    if (to - from === 1) return window(parts[from], axis, simplifySize(starts[from].mul(-1)), total, capacity);
    const mid = (from + to) >> 1;
    return expand(position.lt(broadcastTo(starts[mid], one)), shape).where(build(from, mid), build(mid, to));
  };
  return build(0, parts.length);
}

/** `u` with axis `axis` last. */
export function lastAxis(u: UOp, axis: number): UOp {
  return permute(u, [...rangeOf(shapeOf(u).length).filter((a) => a !== axis), axis]);
}
/** `u` with its last axis as axis `axis`: what {@linkcode lastAxis} does, undone. */
export function backTo(u: UOp, axis: number): UOp {
  const last = shapeOf(u).length - 1;
  return permute(u, rangeOf(last).toSpliced(axis, 0, last));
}

/** Zero padding; another value is selected outside the mask of what was there. */
export function padConstant(x: UOp, pairs: readonly Pair[], value: number | boolean): UOp {
  if (pairs.every(([a, b]) => a === 0 && b === 0)) return x;
  const padded = pad(x, pairs);
  const fill = scalarConst(value, x.dtype);
  if (fill.arg === 0 && !Object.is(fill.arg, -0)) return padded;
  const shape = shapeOf(x);
  return pad(withExtents(trueOf(shape), extentsOf(x)), pairs).where(padded, fill);
}

/** True everywhere. */
export function trueOf(shape: readonly number[]): UOp {
  return broadcastTo(constant(1, dtypes.bool), shape);
}

/** Pads one axis from what is inside. @throws {ShapeError} where there is not enough */
export function padAxis(x: UOp, axis: number, before: number, after: number, mode: PadMode): UOp {
  if (before === 0 && after === 0) return x;
  const shape = shapeOf(x), e = extentOf(x, axis);
  const n = vmin(e); // of a symbolic axis the least
  const limit = mode === "reflect" ? n - 1 : mode === "circular" ? n : n > 0 ? Infinity : 0;
  if (before > limit || after > limit) {
    throw new ShapeError("pad", {
      shapes: [shape],
      axis,
      reason: `mode ${mode} can add at most ${limit} on a side of axis ${axis} of size ${extentText(e)}, not ${
        Math.max(before, after)
      }`,
    });
  }
  const part = (start: number, stop: number) =>
    shrink(x, shape.map((s, i): Pair => i === axis ? [start, stop] : [0, s]));
  /** `count` elements, `back` before the end. */
  const atEnd = (count: number, back = 0) =>
    e.op === Ops.CONST
      ? part(n - back - count, n - back)
      : window(x, axis, extentBetween(int(count + back), e), int(count));
  const repeated = (u: UOp, count: number) => expand(u, shape.with(axis, count));
  const pieces: UOp[] = [];
  if (before > 0) {
    pieces.push(
      mode === "reflect"
        ? flip(part(1, before + 1), [axis])
        : mode === "circular"
        ? atEnd(before)
        : repeated(part(0, 1), before),
    );
  }
  pieces.push(x);
  if (after > 0) {
    pieces.push(
      mode === "reflect"
        ? flip(atEnd(after, 1), [axis])
        : mode === "circular"
        ? part(0, after)
        : repeated(atEnd(1), after),
    );
  }
  return catNodes(pieces, axis);
}

/** Windows over the last axis, as one more axis. */
export function unfoldLast(x: UOp, size: number, step: number): UOp {
  const shape = shapeOf(x), lead = shape.slice(0, -1), n = shape[lead.length];
  if (n > 0 && size > 0) return pool(x, [size], [step], [1]);
  const none = shrink(x, [...lead.map((s): Pair => [0, s]), [0, 0]]);
  return expand(reshape(none, [...lead, 1, 0]), [...lead, Math.floor((n - size) / step) + 1, 0]);
}

/** The diagonal of axes `a` and `b`, `offset` columns to the right, as the last axis. */
export function diagonalNode(u: UOp, a: number, b: number, offset: number): UOp {
  const shape = shapeOf(u);
  const rest = rangeOf(shape.length).filter((i) => i !== a && i !== b);
  const lead = rest.map((i) => shape[i]);
  const skipRows = Math.min(Math.max(-offset, 0), shape[a]), skipColumns = Math.min(Math.max(offset, 0), shape[b]);
  const d = Math.min(shape[a] - skipRows, shape[b] - skipColumns);
  const all = lead.map((n): Pair => [0, n]);
  let x = permute(u, [...rest, a, b]);
  x = shrink(x, [...all, [skipRows, skipRows + d], [skipColumns, skipColumns + d]]);
  if (d === 0) return reshape(x, [...lead, 0]);
  // out[0, k] = x[k, k]: a view, through which one can write
  return reshape(unskew(x, new SkewArg(lead.length, lead.length + 1, 1, 1, 1)), [...lead, d]);
}
