/**
 * Convolutions and pooling of any number of spatial axes, by movement ops alone: `pool` turns windows into axes, and what
 * follows is a product and a sum, a mean or a maximum. The scheduler turns the windows into index arithmetic.
 *
 * @module
 */
import type { Checked } from "../../device/device.ts";
import { type DTypeLike, dtypeMin, dtypes, toDType } from "../../dtype/dtype.ts";
import { promote, sumDType } from "../../dtype/promotion.ts";
import { envNumber } from "../../helpers/env.ts";
import { ArgumentError, DTypeError, ShapeError } from "../../helpers/errors.ts";
import { ceilDiv, prod, rangeOf } from "../../helpers/math.ts";
import { checkChoice, checkInteger, checkOptions, describe, describeList } from "../../helpers/options.ts";
import { vmax } from "../../uop/algebra/bounds.ts";
import { ReduceArg } from "../../uop/core/args.ts";
import { broadcastTo, expand, flip, permute, reshape } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { constant, iota, type UOp, uop } from "../../uop/core/uop.ts";
import { GradientArg, withGradient } from "../../uop/graph/given_gradient.ts";
import { checkIntegers } from "../handle/axes.ts";
import { checkTensor, maybeTensor, TensorBase } from "../handle/base.ts";
import { checkSameDevice } from "../handle/broadcast.ts";
import { constantAxes, constantAxis, sizedAs } from "../handle/dims.ts";
import { padLast, type Pairs, pool } from "../nodes/windows.ts";
import type { ElementwiseTensor } from "../ops/elementwise.ts";
import { sumLast } from "../math/linalg.ts";
import { numeratorOf, type Places, placesOf, readAlong } from "./read_along.ts";
import { winograd } from "./winograd.ts";

/** One number for all spatial axes, or one an axis. */
export type PerAxis = number | readonly number[];

/** Options of {@linkcode ConvTensor.conv2d}. */
export interface ConvOptions {
  /** Channels are split into so many groups that do not mix. Default 1. */
  readonly groups?: number;
  /** Steps between windows. Default 1. */
  readonly stride?: PerAxis;
  /** Steps between the elements of a window. Default 1. */
  readonly dilation?: PerAxis;
  /** Zeros around: one number, one an axis, or before and after each axis with the last axis first. */
  readonly padding?: PerAxis;
  /** Dtype of the result; sums are at least as wide. */
  readonly dtype?: DTypeLike;
}

/** Options of {@linkcode ConvTensor.convTranspose2d}. */
export interface ConvTransposeOptions {
  /** Channels are split into so many groups that do not mix. Default 1. */
  readonly groups?: number;
  /** Steps between windows. Default 1. */
  readonly stride?: PerAxis;
  /** Steps between the elements of a window. Default 1. */
  readonly dilation?: PerAxis;
  /** Elements taken off both sides of each axis of the result. Default 0. */
  readonly padding?: PerAxis;
  /** Rows added at the end of each axis, where a stride leaves the size open. */
  readonly outputPadding?: PerAxis;
}

/** Options of pooling. */
export interface PoolOptions {
  /** Default: the kernel's size. */
  readonly stride?: PerAxis;
  /** Steps between the elements of a window. Default 1. */
  readonly dilation?: PerAxis;
  /** Elements added on both sides of each axis. Default 0. */
  readonly padding?: PerAxis;
  /** Also windows that begin inside and end outside. */
  readonly ceilMode?: boolean;
}

/** Options of resizing by whole sizes. */
export interface InterpolateOptions {
  /** Default "linear". */
  readonly mode?: "linear" | "nearest" | "nearest-exact";
  /** Whether the corner elements stay at the corners. Default false. */
  readonly alignCorners?: boolean;
}

const POOL_OPTIONS = ["stride", "dilation", "padding", "ceilMode"] as const;

/** As many integers, of at least `least`, as there are axes. @throws {ArgumentError} */
export function perAxis(action: string, name: string, value: unknown, rank: number, least: number): number[] {
  const list: unknown = typeof value === "number" ? new Array<number>(rank).fill(value) : value;
  const fits = (n: unknown) => Number.isSafeInteger(n) && n as number >= least;
  if (!Array.isArray(list) || list.length !== rank || !Array.from(list).every(fits)) {
    throw new ArgumentError(`${action} with ${name} ${describeList(list)}`, {
      reason: `it takes ${rank} integer${rank > 1 ? "s" : ""}${least === -Infinity ? "" : ` of at least ${least}`}`,
    });
  }
  return [...list];
}

/** How many axes windows of this size have: a number stands for two. @throws {ArgumentError} for what is no size */
export function windowRank(action: string, name: string, size: PerAxis): number {
  if (typeof size === "number") return 2;
  if (Array.isArray(size)) return size.length;
  throw new ArgumentError(action, { reason: `${name} must be a number or a list of numbers, not ${describe(size)}` });
}

/** Padding as pairs, first spatial axis first. */
export function padPairs(action: string, padding: PerAxis, rank: number, least = 0): [number, number][] {
  if (rank > 0 && Array.isArray(padding) && padding.length === 2 * rank) { // before, after; the last axis first
    const list = perAxis(action, "padding", padding, 2 * rank, least);
    return rangeOf(rank).map((i) => [list[2 * (rank - 1 - i)], list[2 * (rank - 1 - i) + 1]]);
  }
  return perAxis(action, "padding", padding, rank, least).map((n) => [n, n]);
}

function reduceLast(op: Ops, x: UOp, count: number): UOp {
  const shape = shapeOf(x), keep = shape.length - count;
  const sum = uop(Ops.REDUCE, x.dtype, [x], new ReduceArg(op, rangeOf(count).map((i) => keep + i)));
  return reshape(sum, shape.slice(0, keep));
}

/** A constant of `shape`. */
function filled(value: number, like: UOp, shape: readonly number[]): UOp {
  return broadcastTo(constant(value, like.dtype), shape);
}

/**
 * The sum over windows: `x` `[N, groups, Cin, ...spatial]` with `weight` `[groups, Cout, Cin, ...kernel]` of the same dtype
 * gives `[N, groups, Cout, ...]`.
 */
function direct(x: UOp, weight: UOp, stride: readonly number[], dilation: readonly number[]): UOp {
  const [n, groups, channels] = shapeOf(x), [, each, , ...kernel] = shapeOf(weight), rank = kernel.length;
  const windows = pool(x, kernel, stride, dilation), spatial = rangeOf(rank);
  const sizes = shapeOf(windows).slice(3, 3 + rank);
  // both as [N, groups, Cout, ...sizes, Cin, ...kernel]
  const full = [n, groups, each, ...sizes, channels, ...kernel];
  const turned = permute(windows, [0, 1, ...spatial.map((i) => 3 + i), 2, ...spatial.map((i) => 3 + rank + i)]);
  const left = expand(reshape(turned, [n, groups, 1, ...sizes, channels, ...kernel]), full);
  const right = expand(reshape(weight, [1, groups, each, ...sizes.map(() => 1), channels, ...kernel]), full);
  return sumLast(left.mul(right), 1 + rank);
}

/** Larger than every position of the dtype of `place`, for NaN. */
function lastOf(place: UOp): number {
  return place.dtype.bits === 64 ? Number.MAX_SAFE_INTEGER : 2 ** 31 - 1;
}

/**
 * How much each element of a window `[..., ...kernel]` is its maximum: the first of equals most, but NaN more, and the last
 * NaN most; 0 for padding and what is less. `place` has positions that fall from the first on, and 0 for padding.
 */
function rankOf(pooled: UOp, place: UOp, largest: UOp, rank: number): UOp {
  const shape = shapeOf(pooled), zero = constant(0, place.dtype);
  const found = broadcastTo(reshape(largest, [...shapeOf(largest), ...new Array<number>(rank).fill(1)]), shape);
  const key = pooled.eq(found).where(place, zero);
  if (!pooled.dtype.isFloat) return key;
  return pooled.ne(pooled).and(zero.lt(place)).where(place.mul(-1).add(lastOf(place)), key);
}

/** The `place` of the element of each window that `rankOf` puts first. */
function placeOf(pooled: UOp, place: UOp, largest: UOp, rank: number): UOp {
  const best = reduceLast(Ops.MAX, rankOf(pooled, place, largest, rank), rank);
  return pooled.dtype.isFloat ? best.lt(vmax(place) + 1).where(best, best.mul(-1).add(lastOf(best))) : best;
}

/** The gradient of the maxima of windows, whose last `rank` axes are the kernel's: that of each goes to one element. */
function toWinner(rank: number): GradientArg {
  return new GradientArg((g, [pooled, place], most) => {
    const shape = shapeOf(pooled),
      wide = (u: UOp) => broadcastTo(reshape(u, [...shape.slice(0, -rank), ...new Array<number>(rank).fill(1)]), shape);
    // what padding gets by its place, 0, reaches nothing
    const wins = place.eq(wide(placeOf(pooled, place, most, rank)));
    return [wins.where(wide(g), constant(0, g.dtype)), undefined];
  }, true);
}

const TO_WINNER: GradientArg[] = [];

/** The last `rank` axes of a shape. */
export function lastAxes(shape: readonly number[], rank: number): number[] {
  return rangeOf(rank).map((i) => shape.length - rank + i);
}

/** What a pooling call comes to. */
interface Window {
  readonly kernel: number[];
  readonly stride: number[];
  readonly dilation: number[];
  readonly pairs: [number, number][];
  /** Beyond `pairs`, at the end of each axis, for ceilMode. */
  readonly extra: number[];
}

function own(u: UOp): UOp {
  return uop(Ops.CONTIGUOUS, u.dtype, [u]);
}
const KEPT = new GradientArg((g) => [own(g)]);

/** The families that it is written in. */
export interface ConvTensor extends ElementwiseTensor {}
/** Tensors with convolution and pooling. */
export abstract class ConvTensor extends TensorBase {
  /**
   * Cross-correlation. `[N, Cin, ...spatial]` with `weight` `[Cout, Cin / groups, ...kernel]` gives `[N, Cout, ...]`, for
   * any number of spatial axes, and `[Cin, ...spatial]` gives `[Cout, ...]`; `bias` is `[Cout]`. Negative padding cuts. Small floats are accumulated in float32. Under the context variable WINO
   * floats convolve with 3x3 kernels and stride 1 by Winograd's algorithm, with fewer products (winograd.ts).
   * @throws {ShapeError} where ranks, channels or groups do not fit, or the kernel is larger than the padded input
   */
  conv2d<N extends string>(weight: this, bias?: this | null, options: Checked<ConvOptions, N> = {}): this {
    checkOptions("convolve", options, ["groups", "stride", "dilation", "padding", "dtype"]);
    if (this.isSample("convolve", weight, (w) => w[1] * (options.groups ?? 1))) {
      return this.unsqueeze(0).conv2d(weight, bias, options).squeeze(0);
    }
    const { groups = 1, stride = 1, dilation = 1, padding = 0 } = options;
    checkInteger("convolve", "groups", groups, 1);
    const shape = this.shape, w = checkTensor("convolve", "weight", weight).shape, rank = w.length - 2;
    const added = maybeTensor("convolve", "bias", bias);
    checkSameDevice("convolve", this.uop, weight.uop);
    if (added !== undefined) checkSameDevice("convolve", this.uop, added.uop);
    const fail = (axis: number, reason: string) => new ShapeError("convolve", { shapes: [shape, w], axis, reason });
    if (rank < 1 || shape.length !== w.length) {
      throw fail(0, `input and weight take one rank, of 3 or more: [N, Cin, ...] and [Cout, Cin / groups, ...]`);
    }
    if (shape[1] !== w[1] * groups) {
      throw fail(1, `${shape[1]} channels are not the ${w[1]} of the weight times ${groups} groups`);
    }
    if (w[0] % groups !== 0) throw fail(0, `${w[0]} output channels do not divide into ${groups} groups`);
    constantAxes("convolve", weight.uop, rank);
    const steps = perAxis("convolve", "stride", stride, rank, 1);
    const gaps = perAxis("convolve", "dilation", dilation, rank, 1);
    const pairs = padPairs("convolve", padding, rank, -Infinity);
    const kernel = w.slice(2);
    kernel.forEach((k, i) => {
      const n = shape[2 + i] + pairs[i][0] + pairs[i][1], cut = pairs[i].filter((p) => p < 0).map((p) => -p);
      if (cut.reduce((a, b) => a + b, 0) > shape[2 + i]) {
        throw fail(2 + i, `axis ${2 + i} of size ${shape[2 + i]} cannot lose ${cut.join(" and ")}`);
      }
      if (gaps[i] * (k - 1) + 1 > n) {
        throw fail(
          2 + i,
          `a kernel of extent ${gaps[i] * (k - 1) + 1} is larger than axis ${2 + i}, of padded size ${n}`,
        );
      }
    });
    const out = options.dtype === undefined ? promote(this.dtype, weight.dtype) : toDType(options.dtype);
    const wide = sumDType(out), each = w[0] / groups;
    const grouped = reshape(weight.uop.cast(wide), [groups, each, w[1], ...kernel]);
    const minimal = envNumber("WINO") > 0 && wide.isFloat && rank === 2 &&
      rangeOf(2).every((i) => kernel[i] === 3 && steps[i] === 1 && gaps[i] === 1);
    const sum = sizedAs("convolve", this.uop, lastAxes(shape, rank), () => {
      const padded = padLast(this.uop.cast(wide), pairs);
      const channelled = reshape(padded, [shape[0], groups, w[1], ...shapeOf(padded).slice(2)]);
      return minimal ? winograd(channelled, grouped) : direct(channelled, grouped, steps, gaps);
    });
    const y = this.wrap(reshape(sum, [shape[0], w[0], ...shapeOf(sum).slice(3)]).cast(out));
    return added === undefined ? y : this.addChannels("convolve", y, added);
  }

  /** Whether this is one sample, without the axis N, beside a weight. */
  private isSample(action: string, weight: this, channels: (shape: readonly number[]) => number): boolean {
    const { shape } = checkTensor(action, "weight", weight);
    return shape.length > 2 && this.ndim === shape.length - 1 && this.shape[0] === channels(shape);
  }

  /**
   * The transpose of {@linkcode conv2d} as a map. `[N, Cin, ...]` (or `[Cin, ...]`) with `weight` `[Cin, Cout / groups,
   * ...kernel]` gives `[N, Cout, ...]`, where an axis of size n becomes (n - 1) stride - 2 padding + dilation (k - 1) + outputPadding + 1.
   * @throws {ShapeError} as {@linkcode conv2d}
   */
  convTranspose2d(weight: this, bias?: this | null, options: ConvTransposeOptions = {}): this {
    checkOptions("convolve (transposed)", options, ["groups", "stride", "dilation", "padding", "outputPadding"]);
    if (this.isSample("convolve (transposed)", weight, (w) => w[0])) {
      return this.unsqueeze(0).convTranspose2d(weight, bias, options).squeeze(0);
    }
    const { groups = 1, stride = 1, dilation = 1, padding = 0, outputPadding = 0 } = options;
    checkInteger("convolve (transposed)", "groups", groups, 1);
    const shape = this.shape, w = checkTensor("convolve (transposed)", "weight", weight).shape, rank = w.length - 2;
    const added = maybeTensor("convolve (transposed)", "bias", bias);
    for (const t of [weight, added]) if (t !== undefined) checkSameDevice("convolve (transposed)", this.uop, t.uop);
    if (rank < 1 || shape.length !== w.length || shape[1] !== w[0] || w[0] % groups !== 0) {
      throw new ShapeError("convolve (transposed)", {
        shapes: [shape, w],
        axis: 1,
        reason: `they take the forms [N, Cin, ...] and [Cin, Cout / groups, ...], with ${groups} groups dividing Cin`,
      });
    }
    const steps = perAxis("convolve (transposed)", "stride", stride, rank, 1);
    const gaps = perAxis("convolve (transposed)", "dilation", dilation, rank, 1);
    const pairs = padPairs("convolve (transposed)", padding, rank);
    const more = perAxis("convolve (transposed)", "outputPadding", outputPadding, rank, 0);
    constantAxes("convolve (transposed)", weight.uop, rank);
    const kernel = w.slice(2), spatial = rangeOf(rank);
    if (steps.some((s) => s > 1) && steps.every((s, i) => s === 1 || (gaps[i] === 1 && kernel[i] % s === 0))) {
      const y = sizedAs("convolve (transposed)", this.uop, lastAxes(shape, rank), () => {
        return this.wrap(this.inSteps(weight, groups, steps, gaps, pairs.map(([a, b], i) => [-a, more[i] - b])));
      });
      return added === undefined ? y : this.addChannels("convolve (transposed)", y, added);
    }
    // the weight with input and output channels swapped within each group, and reversed
    let turned = reshape(weight.uop, [groups, w[0] / groups, w[1], ...kernel]);
    turned = permute(turned, [0, 2, 1, ...spatial.map((i) => 3 + i)]);
    turned = flip(reshape(turned, [groups * w[1], w[0] / groups, ...kernel]), spatial.map((i) => 2 + i));
    return sizedAs("convolve (transposed)", this.uop, lastAxes(shape, rank), () => {
      // the input with stride - 1 zeros between its elements
      let x = reshape(this.uop, [shape[0], shape[1], ...spatial.flatMap((i) => [shape[2 + i], 1])]);
      x = padLast(x, spatial.flatMap((i) => [[0, 0], [0, steps[i] - 1]] as [number, number][]));
      x = reshape(x, [shape[0], shape[1], ...spatial.map((i) => shape[2 + i] * steps[i])]);
      x = padLast(
        x,
        spatial.map((i) => {
          const reach = gaps[i] * (kernel[i] - 1);
          return [reach - pairs[i][0], reach - pairs[i][1] + more[i] - (steps[i] - 1)] as const;
        }),
      );
      return this.wrap(x).conv2d(this.wrap(turned), bias, { groups, dilation: gaps });
    });
  }

  /**
   * A transposed convolution whose kernel is a whole number of strides long: a convolution for each place within a stride, as
   * channels of one (Shi et al., "Real-time single image and video super-resolution", 2016), between which no zero is added.
   */
  private inSteps(
    weight: this,
    groups: number,
    steps: readonly number[],
    gaps: readonly number[],
    ends: Pairs,
  ): UOp {
    const [cin, each, ...kernel] = weight.shape, spatial = rangeOf(kernel.length), rank = kernel.length;
    const length = kernel.map((k, i) => k / steps[i]), at = (i: number): number => 3 + 2 * i;
    const parts = reshape(weight.uop, [groups, cin / groups, each, ...spatial.flatMap((i) => [length[i], steps[i]])]);
    const order = [0, 2, ...spatial.map((i) => at(i) + 1), 1, ...spatial.map(at)];
    const turned = reshape(permute(parts, order), [groups * each * prod(steps), cin / groups, ...length]);
    const reach = length.map((k, i) => [gaps[i] * (k - 1), gaps[i] * (k - 1)] as const);
    const taps = this.wrap(flip(turned, spatial.map((i) => 2 + i)));
    const made = this.wrap(padLast(this.uop, reach)).conv2d(taps, null, { groups, dilation: gaps }).uop;
    // what is cut begins within a stride: apart from that loops are over strides
    const isCut = ends.some(([a, b]) => a !== 0 || b !== 0), y = isCut ? withGradient(own(made), [made], KEPT) : made;
    const [n, , ...sizes] = shapeOf(y), apart = reshape(y, [n, groups * each, ...steps, ...sizes]);
    const beside = permute(apart, [0, 1, ...spatial.flatMap((i) => [2 + rank + i, 2 + i])]);
    return padLast(reshape(beside, [n, groups * each, ...sizes.map((s, i) => s * steps[i])]), ends);
  }

  /**
   * Means over windows of the last axes (as many as `kernelSize` lists; a number stands for two). Integers give float32.
   * `countIncludePad: false` divides by the elements inside only, `divisorOverride` by itself.
   * @throws {ShapeError} where no window fits
   */
  avgPool2d(
    kernelSize: PerAxis = [2, 2],
    options: PoolOptions & { readonly countIncludePad?: boolean; readonly divisorOverride?: number } = {},
  ): this {
    checkOptions("average", options, [...POOL_OPTIONS, "countIncludePad", "divisorOverride"]);
    const { countIncludePad = true, divisorOverride } = options;
    if (divisorOverride !== undefined && checkInteger("average", "divisorOverride", divisorOverride) === 0) {
      throw new ArgumentError("average", { reason: "divisorOverride must not be 0" });
    }
    const w = poolWindow(this.shape, "average", kernelSize, options), rank = w.kernel.length;
    const out = this.dtype.isFloat ? this.dtype : dtypes.float32, wide = sumDType(out);
    const ends = w.pairs.map(([a, b], i) => [a, b + w.extra[i]] as const);
    const gather = (u: UOp, pairs: Pairs) => sumLast(pool(padLast(u, pairs), w.kernel, w.stride, w.dilation), rank);
    const sum = sizedAs("average", this.uop, lastAxes(this.shape, rank), () => gather(this.uop.cast(wide), ends));
    if (divisorOverride !== undefined) return this.wrap(sum.fdiv(divisorOverride).cast(out));
    const uniform = w.extra.every((n) => n === 0) &&
      (countIncludePad || w.pairs.every(([a, b]) => a === 0 && b === 0));
    if (uniform) return this.wrap(sum.fdiv(prod(w.kernel)).cast(out));
    const size = this.shape.slice(-rank).map((n, i) => countIncludePad ? n + w.pairs[i][0] + w.pairs[i][1] : n);
    const ones = filled(1, sum, size);
    const count = gather(ones, countIncludePad ? w.extra.map((n) => [0, n] as const) : ends);
    return this.wrap(sum.fdiv(broadcastTo(count, shapeOf(sum))).cast(out));
  }

  /**
   * Maxima over windows of the last axes (as many as `kernelSize` lists; a number stands for two). Padding never wins. Of
   * equal maxima the first is it, of NaN the last: it has the gradient, and with `returnIndices` its position, flat in the
   * spatial axes, is given too, as int32
   * (int64 where they have 2^31 positions or more).
   * @throws {ShapeError} where no window fits @throws {ArgumentError} for a padding of more than half of the window
   */
  maxPool2d(kernelSize: PerAxis | undefined, options: PoolOptions & { readonly returnIndices: true }): [this, this];
  /** The largest of each window over the last axes, with its position where `returnIndices` asks for it. */
  maxPool2d(kernelSize?: PerAxis, options?: PoolOptions & { readonly returnIndices?: false }): this;
  maxPool2d(
    kernelSize: PerAxis = [2, 2],
    options: PoolOptions & { readonly returnIndices?: boolean } = {},
  ): this | [this, this] {
    checkOptions("pool", options, [...POOL_OPTIONS, "returnIndices"]);
    const w = poolWindow(this.shape, "pool", kernelSize, options), rank = w.kernel.length;
    const ends = w.pairs.map(([a, b], i) => [a, b + w.extra[i]] as const);
    const spatial = this.shape.slice(-rank);
    const gather = (u: UOp) => pool(padLast(u, ends), w.kernel, w.stride, w.dilation);
    const x = this.uop;
    const inside = broadcastTo(constant(1, dtypes.bool), spatial);
    const padded = ends.some(([a, b]) => a + b > 0);
    const pooled = sizedAs("pool", x, lastAxes(this.shape, rank), () => {
      if (!padded) return gather(x);
      const wide = padLast(x, ends), mask = broadcastTo(padLast(inside, ends), shapeOf(wide));
      // padding becomes the least value
      return pool(mask.where(wide, constant(dtypeMin(this.dtype), this.dtype)), w.kernel, w.stride, w.dilation);
    });
    // positions counted from the end, so that the first is the largest; 0 stands for padding
    const total = prod(spatial), fromEnd = gather(reshape(iota(total).mul(-1).add(total), spatial));
    const largest = reduceLast(Ops.MAX, pooled, rank), place = broadcastTo(fromEnd, shapeOf(pooled));
    const most = this.dtype.isFloat
      ? withGradient(largest, [pooled, place], TO_WINNER[rank] ??= toWinner(rank))
      : largest;
    if (!options.returnIndices) return this.wrap(most);
    return [this.wrap(most), this.wrap(placeOf(pooled, place, largest, rank).mul(-1).add(total))];
  }

  /**
   * Resizes the last axes to `size`, by "linear" interpolation along each, or by "nearest" or "nearest-exact" elements, as
   * PyTorch defines them. `alignCorners` (linear only) puts the first and last elements on those of the result. Values of
   * uint8, as of images, are interpolated in float32 and rounded, halves up.
   * @throws {DTypeError} for linear interpolation of other integers @throws {ShapeError} for more sizes than axes
   */
  protected interpolated(size: readonly number[], options: InterpolateOptions = {}): this {
    checkOptions("interpolate", options, ["mode", "alignCorners"]);
    const { mode = "linear", alignCorners = false } = options;
    checkChoice("interpolate", "mode", mode, ["linear", "nearest", "nearest-exact"]);
    const shape = this.shape, rank = checkIntegers("interpolate", "size", size).length;
    if (rank > shape.length) {
      throw new ShapeError("interpolate", { shapes: [shape], reason: `it has fewer axes than the size, ${rank}` });
    }
    perAxis("interpolate", "size", size, rank, 1);
    for (let i = 1; i <= rank; i++) constantAxis("interpolate", this.uop, shape.length - i);
    if (mode !== "linear") {
      return this.wrap(size.reduce((x, out, i) => {
        const axis = shape.length - rank + i, n = shape[axis];
        if (out === n) return x;
        // floor(j in / out), or floor((j + 1/2) in / out)
        return mode === "nearest"
          ? readAlong(x, axis, { n, out, factor: n, offset: 0, divisor: out })
          : readAlong(x, axis, { n, out, factor: 2 * n, offset: n, divisor: 2 * out });
      }, this.uop));
    }
    const rounds = this.dtype === dtypes.uint8;
    if (!this.dtype.isFloat && !rounds) {
      throw new DTypeError("interpolate linearly between values of dtype", {
        dtypes: [this.dtype],
        reason: "cast to a float first",
      });
    }
    const wide = rounds ? dtypes.float32 : sumDType(this.dtype);
    const result = size.reduce((x, out, i) => {
      const axis = shape.length - rank + i, n = shape[axis];
      if (out === n) return x;
      const low: Places = alignCorners
        ? { n, out, factor: n - 1, offset: 0, divisor: Math.max(out - 1, 1) }
        : { n, out, factor: 2 * n, offset: n - out, divisor: 2 * out };
      const part = numeratorOf(low, placesOf(low)).floorMod(low.divisor).cast(wide).fdiv(low.divisor);
      const share = reshape(part, rangeOf(shape.length).map((a) => a === axis ? out : 1));
      const a = readAlong(x, axis, low), b = readAlong(x, axis, { ...low, next: true });
      const weight = broadcastTo(share, shapeOf(a));
      return a.mul(weight.mul(-1).add(1)).add(b.mul(weight));
    }, this.uop.cast(wide));
    if (rounds) return this.wrap(result).add(0.5).cast(this.dtype); // at least 0: the cast cuts
    return this.wrap(result.cast(this.dtype));
  }

  /** Adds `[C]` along axis 1. */
  private addChannels(action: string, y: this, bias: this): this {
    const channels = y.shape[1];
    if (bias.numel() !== channels) {
      throw new ShapeError(`${action} with a bias of`, {
        shapes: [bias.shape],
        axis: 0,
        reason: `it must be [${channels}], one a channel`,
      });
    }
    return y.add(this.wrap(reshape(bias.uop, [1, channels, ...y.shape.slice(2).map(() => 1)])));
  }
}

/** The checked parameters of a pooling call. @throws {ShapeError} {ArgumentError} */
export function poolWindow(
  shape: readonly number[],
  action: string,
  kernelSize: PerAxis,
  options: PoolOptions,
): Window {
  const rank = windowRank(action, "kernelSize", kernelSize);
  if (shape.length < rank || rank === 0) {
    throw new ShapeError(action, { shapes: [shape], reason: `it has fewer axes than the kernel, ${rank}` });
  }
  const kernel = perAxis(action, "kernelSize", kernelSize, rank, 1);
  const stride = perAxis(action, "stride", options.stride ?? kernel, rank, 1);
  const dilation = perAxis(action, "dilation", options.dilation ?? 1, rank, 1);
  const pairs = padPairs(action, options.padding ?? 0, rank);
  pairs.forEach((pair, i) => {
    const most = Math.floor((dilation[i] * (kernel[i] - 1) + 1) / 2); // else a window lies in the padding alone
    if (Math.max(...pair) <= most) return;
    throw new ArgumentError(`${action} with padding [${pair.join(", ")}]`, {
      reason: `it may be half of the window's extent at most: ${most} for a kernel of ${kernel[i]}`,
    });
  });
  const extra = kernel.map((k, i) => {
    const axis = shape.length - rank + i, n = shape[axis] + pairs[i][0] + pairs[i][1];
    const extent = dilation[i] * (k - 1) + 1;
    if (extent > n) {
      throw new ShapeError(action, {
        shapes: [shape],
        axis,
        reason: `a window of extent ${extent} is larger than axis ${axis}, of padded size ${n}`,
      });
    }
    if (!options.ceilMode) return 0;
    let count = ceilDiv(n - extent, stride[i]) + 1;
    if ((count - 1) * stride[i] >= shape[axis] + pairs[i][0]) count--; // no window wholly in the padding
    return Math.max((count - 1) * stride[i] + extent - n, 0);
  });
  return { kernel, stride, dilation, pairs, extra };
}
