/**
 * Other sizes of images: interpolation, sampling at points, windows as columns and back, pixels to channels;
 * and what networks of images and of words normalize and look up by. Names, parameters and defaults are PyTorch's.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { floatOf, promote } from "../../dtype/promotion.ts";
import { ArgumentError, DTypeError, IndexError, ShapeError } from "../../helpers/errors.ts";
import { prod, rangeOf } from "../../helpers/math.ts";
import {
  checkBoolean,
  checkChoice,
  checkInteger,
  checkNumber,
  checkOptions,
  describe,
  describeList,
} from "../../helpers/options.ts";
import { checkShape } from "../handle/axes.ts";
import { checkTensor, TensorBase } from "../handle/base.ts";
import { constantAxes } from "../handle/dims.ts";
import { detachNode } from "../nodes/numeric.ts";
import type { InterpolateOptions, PerAxis } from "./conv.ts";
import type { PoolTensor } from "./pools.ts";

/** Options of {@linkcode ResampleTensor.interpolate}. */
export interface ResizeOptions extends Omit<InterpolateOptions, "mode"> {
  /** "linear" (default), "nearest", "nearest-exact", "bicubic" or "area", the mean of what falls into each element. */
  readonly mode?: InterpolateOptions["mode"] | "bilinear" | "trilinear" | "bicubic" | "area";
  /** The size as multiples of that of this, for all axes behind the channels or one an axis, rounded down. */
  readonly scaleFactor?: number | readonly number[];
  /** Whether positions are those of the size that the factor comes to, not of the factor itself. Default false. */
  readonly recomputeScaleFactor?: boolean;
  /**
   * Whether, where axes become smaller, all elements that fall into one count, not the nearest alone (linear and bicubic,
   * the latter then with a = -1/2, as in Pillow). Default false.
   */
  readonly antialias?: boolean;
}

/** Options of {@linkcode ResampleTensor.fold}. */
export interface FoldOptions {
  /** Steps between windows. Default 1. */
  readonly stride?: PerAxis;
  /** Steps between the elements of a window. Default 1. */
  readonly dilation?: PerAxis;
  /** Zeros around. Default 0. */
  readonly padding?: PerAxis;
}

/** The number of a row that is padding. */
function paddedRow(action: string, paddingIdx: number, rows: number): number {
  const at = checkInteger(action, "paddingIdx", paddingIdx);
  if (at >= -rows && at < rows) return at < 0 ? at + rows : at;
  throw new IndexError(action, { reason: `paddingIdx ${at} is none of ${rows} rows` });
}

/** Two numbers, of one or two. */
function pairOf(action: string, name: string, x: unknown, least: number): [number, number] {
  const list = typeof x === "number" ? [x, x] : x;
  if (
    Array.isArray(list) && list.length === 2 && Array.from(list).every((n) => Number.isSafeInteger(n) && n >= least)
  ) {
    return [list[0], list[1]];
  }
  throw new ArgumentError(action, {
    reason: `${name} must be one or two integers of at least ${least}, not ${describeList(x)}`,
  });
}

/** The four weights of cubic convolution (R. Keys, 1981; a = -3/4) at a share of the way between the middle two. */
function cubic(t: number): number[] {
  const a = -0.75, near = (x: number): number => ((a + 2) * x - (a + 3)) * x * x + 1;
  const far = (x: number): number => ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return [far(t + 1), near(t), near(1 - t), far(2 - t)];
}

/**
 * How much each of `n` elements counts in each of `out` ones that are `step` apart, [out, n]: a triangle, or with `isCubic`
 * Keys' kernel of a = -1/2, as wide as the step where that is above 1. Those outside are left out.
 */
function shares(n: number, out: number, step: number, isCubic: boolean): Float64Array {
  const wide = Math.max(step, 1), reach = (isCubic ? 2 : 1) * wide, all = new Float64Array(out * n);
  const near = (x: number): number => (1.5 * x - 2.5) * x * x + 1;
  const far = (x: number): number => ((-0.5 * x + 2.5) * x - 4) * x + 2;
  const kernel = (x: number): number => isCubic ? x < 1 ? near(x) : x < 2 ? far(x) : 0 : Math.max(1 - x, 0);
  for (let i = 0; i < out; i++) {
    const center = step * (i + 0.5), row = all.subarray(i * n, (i + 1) * n);
    const low = Math.max(Math.trunc(center - reach + 0.5), 0), high = Math.min(Math.trunc(center + reach + 0.5), n);
    let sum = 0;
    for (let j = low; j < high; j++) sum += row[j] = kernel(Math.abs((j - center + 0.5) / wide));
    for (let j = low; j < high; j++) row[j] /= sum;
  }
  return all;
}

/** The families that it is written in. */
export interface ResampleTensor extends PoolTensor {}
/** Tensors that are resampled. */
export abstract class ResampleTensor extends TensorBase {
  /**
   * Resizes the last axes to `size`, or all behind the first two by `scaleFactor`: by "linear" interpolation along each, by
   * "bicubic" (a = -3/4), by "nearest" or "nearest-exact" elements, or by the mean of an "area", as PyTorch defines them.
   * `alignCorners` (linear and bicubic) puts the first and last elements on those of the result. Values of uint8, as of
   * images, are interpolated linearly in float32 and rounded, halves up.
   *
   * @throws {DTypeError} between values of other integers @throws {ShapeError} for more sizes than axes
   * @throws {ArgumentError} without a size and a factor, or with both
   */
  interpolate(size?: readonly number[] | null, options: ResizeOptions = {}): this {
    const action = "interpolate", known = ["mode", "alignCorners", "scaleFactor", "recomputeScaleFactor", "antialias"];
    const given = checkOptions(action, options, known);
    const { mode = "linear", alignCorners = false, scaleFactor, recomputeScaleFactor = false } = given;
    const smooth = checkBoolean(action, "antialias", given.antialias ?? false);
    checkChoice(action, "mode", mode, [
      "linear",
      "bilinear",
      "trilinear",
      "nearest",
      "nearest-exact",
      "bicubic",
      "area",
    ]);
    const shape = this.shape;
    if (((size ?? undefined) === undefined) === (scaleFactor === undefined)) {
      throw new ArgumentError(action, { reason: "it takes a size, or a scaleFactor" });
    }
    let to: number[], scales: (number | undefined)[];
    if (scaleFactor === undefined) [to, scales] = [checkShape(action, size), []];
    else {
      const rank = typeof scaleFactor === "number"
        ? Math.max(shape.length - 2, 0)
        : Array.isArray(scaleFactor)
        ? scaleFactor.length
        : 0;
      scales = typeof scaleFactor === "number" ? new Array<number>(rank).fill(scaleFactor) : [...scaleFactor];
      if (
        rank === 0 || rank > shape.length || !scales.every((s) => typeof s === "number" && s > 0 && Number.isFinite(s))
      ) {
        throw new ArgumentError(action, {
          reason: `scaleFactor must be positive, one an axis, not ${describeList(scaleFactor)}`,
        });
      }
      to = scales.map((s, i) => Math.floor(shape[shape.length - rank + i] * s!));
      if (recomputeScaleFactor) scales = [];
    }
    if (to.length > shape.length) {
      throw new ShapeError(action, { shapes: [shape], reason: "there are more sizes than axes" });
    }
    const first = shape.length - to.length,
      whole = to.every((n, i) => scales[i] === undefined || n === shape[first + i] * scales[i]!);
    if (mode === "area") return this.averaged(action, to);
    const plain = mode === "bilinear" || mode === "trilinear" ? "linear" : mode;
    if (smooth && plain !== "linear" && plain !== "bicubic") {
      throw new ArgumentError(action, { reason: `antialias goes with linear and bicubic, not with ${describe(mode)}` });
    }
    if (!smooth && plain !== "bicubic" && (whole || (plain === "linear" && alignCorners))) {
      return this.interpolated(to, { mode: plain, ...plain === "linear" ? { alignCorners } : {} });
    }
    if (!this.dtype.isFloat && plain !== "nearest" && plain !== "nearest-exact") {
      throw new DTypeError(`${action} values of dtype`, { dtypes: [this.dtype], reason: "cast to a float first" });
    }
    // positions and weights by PyTorch's formulas, known on the host
    const d = this.dtype, isPlain = plain === "nearest" || plain === "nearest-exact";
    let x = isPlain ? this.wrap(this.uop) : this.cast(promote(d, dtypes.float32));
    to.forEach((out, i) => {
      const axis = first + i, n = shape[axis], step = scales[i] === undefined ? n / out : 1 / scales[i]!;
      const inside = (j: number): number => Math.min(Math.max(j, 0), n - 1), ks = rangeOf(out);
      if (isPlain) {
        x = x.picks(axis, ks.map((k) => inside(Math.floor((plain === "nearest" ? k : k + 0.5) * step))));
        return;
      }
      const aligned = out > 1 ? (n - 1) / (out - 1) : 0;
      if (smooth) {
        const weights = this.fromList(
          shares(n, out, alignCorners ? aligned : step, plain === "bicubic"),
          x.dtype,
        ) as this;
        x = x.transpose(axis, -1).dot(weights.cast(x.dtype).reshape([out, n]).transpose()).transpose(axis, -1);
        return;
      }
      const at = ks.map((k) => {
        const p = alignCorners ? k * aligned : (k + 0.5) * step - 0.5;
        return plain === "linear" ? Math.max(p, 0) : p;
      });
      const low = at.map(Math.floor),
        weights = at.map((p, k) => {
          const share = p - low[k];
          return plain === "linear" ? [1 - share, share] : cubic(share);
        });
      const taps = plain === "linear" ? [0, 1] : [-1, 0, 1, 2], own = x;
      x = taps.map((by, j) =>
        own.picks(axis, low.map((p) => inside(p + by))).mul(own.listed(axis, weights.map((w) => w[j])))
      )
        .reduce((a, b) => a.add(b));
    });
    return isPlain ? x : x.cast(d);
  }

  /**
   * Values at points: of `[N, C, H, W]` at `grid` `[N, h, w, 2]`, x and y from -1 to 1, to `[N, C, h, w]`; of volumes
   * `[N, C, D, H, W]` at `[N, d, h, w, 3]`. `mode` "bilinear" (of volumes trilinear), "nearest" or, of images, "bicubic";
   * outside are zeros, or by `paddingMode` the "border" or a "reflection". Points on the border have no slope there, as in
   * PyTorch.
   *
   * @throws {ShapeError} where they do not fit
   */
  gridSample(
    grid: this,
    options: {
      readonly mode?: "bilinear" | "nearest" | "bicubic";
      readonly paddingMode?: "zeros" | "border" | "reflection";
      readonly alignCorners?: boolean;
    } = {},
  ): this {
    const action = "gridSample", known = ["mode", "paddingMode", "alignCorners"];
    const { mode = "bilinear", paddingMode = "zeros", alignCorners = false } = checkOptions(action, options, known);
    checkChoice(action, "mode", mode, ["bilinear", "nearest", "bicubic"]);
    checkChoice(action, "paddingMode", paddingMode, ["zeros", "border", "reflection"]);
    const shape = this.shape, at = checkTensor(action, "grid", grid).shape, rank = shape.length - 2;
    if (
      (rank !== 2 && rank !== 3) || at.length !== shape.length || at[rank + 1] !== rank || at[0] !== shape[0] ||
      shape.slice(2).includes(0) || (rank === 3 && mode === "bicubic")
    ) {
      throw new ShapeError(action, {
        shapes: [shape, at],
        reason: mode === "bicubic"
          ? '"bicubic" takes the forms [N, C, H, W] and [N, h, w, 2]'
          : "they take the forms [N, C, H, W] and [N, h, w, 2], or [N, C, D, H, W] and [N, d, h, w, 3]",
      });
    }
    constantAxes(action, this.uop, rank);
    const [n, c] = shape, to = at.slice(1, -1), points = prod(to), sizes = shape.slice(2).reverse(); // of x, y, z
    const within = (p: this, size: number): this => {
      const end = this.wrap(detachNode(p.clamp(0, size - 1).uop));
      return p.gt(0).bitwiseAnd(p.lt(size - 1)).where(p, end) as this;
    };
    const limited = (p: this, size: number): this => {
      if (paddingMode === "zeros") return p;
      if (paddingMode === "border") return within(p, size);
      // mirrored at the corners' centers, or at their edges
      const low = alignCorners ? 0 : -0.5, span = alignCorners ? size - 1 : size;
      if (span === 0) return p.mul(0);
      const away = p.sub(low).abs(), turns = away.div(span).floor(), rest = away.sub(turns.mul(span));
      return within(turns.mod(2).eq(0).where(rest.add(low), rest.mul(-1).add(span + low)) as this, size);
    };
    const precise = grid.cast(promote(floatOf(grid.dtype), dtypes.float32)); // halves cannot tell positions apart
    const raw = sizes.map((size, k) => {
      const p = precise.at("...", k).reshape([n, 1, points]);
      return alignCorners ? p.add(1).mul((size - 1) / 2) : p.add(1).mul(size / 2).sub(0.5);
    });
    const flat = this.reshape([n, c, prod(sizes)]);
    /** What stands at whole positions; zero outside. */
    const read = (given: readonly this[]): this => {
      const place = given.map((p, k) => mode === "bicubic" ? limited(p, sizes[k]) : p);
      const isIn = place.map((p, k) => p.ge(0).bitwiseAnd(p.le(sizes[k] - 1))).reduce((p, q) => p.bitwiseAnd(q));
      const whole = place.map((p, k) => (isIn.where(p, 0) as this).cast(dtypes.int32).clamp(0, sizes[k] - 1));
      const index = whole.reduceRight((sum, p, k) => k === rank - 1 ? p : sum.mul(sizes[k]).add(p));
      return isIn.where(flat.gather(2, index.expand([n, c, points])), 0) as this;
    };
    let value: this;
    if (mode === "nearest") value = read(raw.map((p, k) => limited(p, sizes[k]).round()));
    else if (mode === "bilinear") {
      const place = raw.map((p, k) => limited(p, sizes[k])), low = place.map((p) => p.floor());
      const share = place.map((p, k) => p.sub(low[k])), rest = share.map((u) => u.sub(1, { reverse: true }));
      value = rangeOf(1 << rank).map((corner) => {
        const isHigh = (k: number): boolean => (corner >> k & 1) === 1;
        const weight = share.map((u, k) => isHigh(k) ? u : rest[k]).reduce((p, q) => p.mul(q));
        return read(low.map((p, k) => isHigh(k) ? p.add(1) : p)).mul(weight);
      }).reduce((p, q) => p.add(q));
    } else {
      const [x, y] = raw, [x0, y0] = [x.floor(), y.floor()], a = -0.75;
      const near = (t: this): this => t.mul(a + 2).sub(a + 3).mul(t).mul(t).add(1);
      const far = (t: this): this => t.mul(a).sub(5 * a).mul(t).add(8 * a).mul(t).sub(4 * a);
      const weights = (t: this): this[] => {
        const s = t.sub(1, { reverse: true });
        return [far(t.add(1)), near(t), near(s), far(s.add(1))];
      };
      const [wx, wy] = [weights(x.sub(x0)), weights(y.sub(y0))];
      value = rangeOf(4).map((j) =>
        rangeOf(4).map((i) => read([x0.add(i - 1), y0.add(j - 1)]).mul(wx[i])).reduce((p, q) => p.add(q)).mul(wy[j])
      ).reduce((p, q) => p.add(q));
    }
    return value.reshape([n, c, ...to]).cast(this.dtype);
  }

  /** Points of a grid `[N, h, w, 2]`, for {@linkcode gridSample}, moved by maps `[N, 2, 3]`; `size` is `[N, C, h, w]`. @throws {ShapeError} */
  affineGrid(size: readonly number[], options: { readonly alignCorners?: boolean } = {}): this {
    const { alignCorners = false } = checkOptions("affineGrid", options, ["alignCorners"]), shape = this.shape;
    const sizes = checkShape("affineGrid", size), [n, , h, w] = sizes;
    if (sizes.length !== 4 || shape.join() !== [n, 2, 3].join()) {
      throw new ShapeError("affineGrid", {
        shapes: [shape, sizes],
        reason: "they take the forms [N, 2, 3] and [N, C, h, w]",
      });
    }
    const line = (count: number): number[] =>
      rangeOf(count).map((i) => alignCorners ? (count > 1 ? 2 * i / (count - 1) - 1 : 0) : (2 * i + 1) / count - 1);
    const xs = line(w), points = line(h).flatMap((y) => xs.map((x) => [x, y, 1]));
    const base = this.fromList(Float64Array.from(points.flat()), this.dtype) as this;
    return base.cast(this.dtype).reshape([1, h * w, 3]).dot(this.transpose(1, 2)).reshape([n, h, w, 2]);
  }

  // ---- windows as columns

  /** Windows of `[N, C, H, W]` as columns `[N, C kh kw, L]`: PyTorch's `F.unfold`. @throws {ShapeError} */
  im2col(kernelSize: PerAxis, options: FoldOptions = {}): this {
    const action = "im2col", [k, s, d, p] = windowOf(action, kernelSize, options), shape = this.shape;
    if (shape.length !== 4) throw new ShapeError(action, { shapes: [shape], reason: "it takes the form [N, C, H, W]" });
    let x = this.pad([[0, 0], [0, 0], [p[0], p[0]], [p[1], p[1]]]);
    const [n, c, h, w] = x.shape, reach = [0, 1].map((i) => d[i] * (k[i] - 1) + 1);
    if (reach[0] > h || reach[1] > w) {
      throw new ShapeError(action, { shapes: [shape], reason: `windows of extent [${reach.join(", ")}] do not fit` });
    }
    x = x.unfold(2, reach[0], s[0]).unfold(3, reach[1], s[1]); // [N, C, oh, ow, rh, rw]
    const sizes = x.shape,
      every = (t: this, axis: number, step: number): this =>
        step === 1 ? t : t.at(...rangeOf(axis).map(() => ":" as const), [null, null, step]);
    x = every(every(x, 4, d[0]), 5, d[1]);
    return x.permute([0, 1, 4, 5, 2, 3]).reshape([n, c * k[0] * k[1], sizes[2] * sizes[3]]);
  }

  /** Columns `[N, C kh kw, L]` added up where their windows stand in `[N, C, ...outputSize]`: undoes {@linkcode im2col}. @throws {ShapeError} */
  fold(outputSize: PerAxis, kernelSize: PerAxis, options: FoldOptions = {}): this {
    const action = "fold",
      [k, s, d, p] = windowOf(action, kernelSize, options),
      to = pairOf(action, "outputSize", outputSize, 1);
    const shape = this.shape,
      count = [0, 1].map((i) => Math.floor((to[i] + 2 * p[i] - d[i] * (k[i] - 1) - 1) / s[i]) + 1);
    const area = k[0] * k[1];
    if (shape.length !== 3 || shape[1] % area !== 0 || shape[2] !== count[0] * count[1] || Math.min(...count) < 1) {
      throw new ShapeError(action, {
        shapes: [shape],
        reason: `it takes the form [N, C ${area}, ${count[0] * count[1]}], of ${count.join(" by ")} windows`,
      });
    }
    const [n, rows] = shape, c = rows / area;
    const x = this.reshape([n, c, k[0], k[1], count[0], count[1]]), wide = [to[0] + 2 * p[0], to[1] + 2 * p[1]];
    // each element of the windows has its places: a sum over them
    const sum = rangeOf(k[0]).flatMap((i) =>
      rangeOf(k[1]).map((j) => {
        let part = x.shrink([[0, n], [0, c], [i, i + 1], [j, j + 1], [0, count[0]], [0, count[1]]])
          .reshape([n, c, count[0], 1, count[1], 1]);
        part = part.pad([[0, 0], [0, 0], [0, 0], [0, s[0] - 1], [0, 0], [0, s[1] - 1]])
          .reshape([n, c, count[0] * s[0], count[1] * s[1]]);
        const used = [0, 1].map((a) => (count[a] - 1) * s[a] + 1), at = [i * d[0], j * d[1]];
        return part.shrink([[0, n], [0, c], [0, used[0]], [0, used[1]]])
          .pad([[0, 0], [0, 0], [at[0], wide[0] - used[0] - at[0]], [at[1], wide[1] - used[1] - at[1]]]);
      })
    ).reduce((a, b) => a.add(b));
    return sum.shrink([[0, n], [0, c], [p[0], p[0] + to[0]], [p[1], p[1] + to[1]]]);
  }

  // ---- channels

  /** `[..., C r^2, H, W]` to `[..., C, H r, W r]`. @throws {ShapeError} where the channels do not divide */
  pixelShuffle(upscaleFactor: number): this {
    const r = checkInteger("pixelShuffle", "upscaleFactor", upscaleFactor, 1),
      shape = this.shape,
      lead = shape.slice(0, -3);
    const [c, h, w] = shape.slice(-3);
    if (shape.length < 3 || c % (r * r) !== 0) {
      throw new ShapeError("pixelShuffle", {
        shapes: [shape],
        axis: -3,
        reason: `its channels are no multiple of ${r * r}`,
      });
    }
    const k = lead.length, x = this.reshape([...lead, c / r / r, r, r, h, w]);
    return x.permute([...rangeOf(k), k, k + 3, k + 1, k + 4, k + 2]).reshape([...lead, c / r / r, h * r, w * r]);
  }
  /** `[..., C, H r, W r]` to `[..., C r^2, H, W]`. @throws {ShapeError} where the sizes do not divide */
  pixelUnshuffle(downscaleFactor: number): this {
    const r = checkInteger("pixelUnshuffle", "downscaleFactor", downscaleFactor, 1),
      shape = this.shape,
      lead = shape.slice(0, -3);
    const [c, h, w] = shape.slice(-3);
    if (shape.length < 3 || h % r !== 0 || w % r !== 0) {
      throw new ShapeError("pixelUnshuffle", { shapes: [shape], reason: `its sizes are no multiples of ${r}` });
    }
    const k = lead.length, x = this.reshape([...lead, c, h / r, r, w / r, r]);
    return x.permute([...rangeOf(k), k, k + 2, k + 4, k + 1, k + 3]).reshape([...lead, c * r * r, h / r, w / r]);
  }
  /** Channels (axis 1) of `groups` in turn. @throws {ShapeError} where they do not divide */
  channelShuffle(groups: number): this {
    checkInteger("channelShuffle", "groups", groups, 1);
    const [n, c, ...rest] = this.shape;
    if (this.ndim < 2 || c % groups !== 0) {
      throw new ShapeError("channelShuffle", {
        shapes: [this.shape],
        axis: 1,
        reason: `its channels are no multiple of ${groups}`,
      });
    }
    return this.reshape([n, groups, c / groups, ...rest]).transpose(1, 2).reshape(this.shape);
  }

  /** x over (k + alpha times the mean of squares of `size` neighboring channels)^beta. @throws {ShapeError} below two axes */
  localResponseNorm(
    size: number,
    options: { readonly alpha?: number; readonly beta?: number; readonly k?: number } = {},
  ): this {
    const action = "localResponseNorm",
      { alpha = 1e-4, beta = 0.75, k = 1 } = checkOptions(action, options, ["alpha", "beta", "k"]);
    checkInteger(action, "size", size, 1);
    checkNumber(action, "k", k);
    const shape = this.shape;
    if (shape.length < 2) throw new ShapeError(action, { shapes: [shape], reason: "it has no channels, in axis 1" });
    const before = Math.floor(size / 2),
      line = this.square().pad(shape.map((_, i) => i === 1 ? [before, size - 1 - before] as const : [0, 0] as const));
    return this.div(line.unfold(1, size, 1).mean(-1).mul(alpha).add(k).pow(beta));
  }

  /**
   * Sums, means or maxima of rows of `weight` `[V, D]`: of indices `[B, L]` of each row, or of a list of all indices in bags
   * that begin at `offsets` `[B]`; with `includeLastOffset` these are `[B + 1]`, and the last is where the last bag ends.
   * `perSampleWeights` multiply what is summed. The row of `paddingIdx` counts nowhere. A bag of nothing is 0.
   *
   * @throws {ShapeError} where they do not fit, {DTypeError} unless this is integers, {IndexError} for a padding that is no row
   */
  embeddingBag(
    weight: this,
    offsets?: this | null,
    options: {
      readonly mode?: "sum" | "mean" | "max";
      readonly perSampleWeights?: TensorBase;
      readonly includeLastOffset?: boolean;
      readonly paddingIdx?: number;
    } = {},
  ): this {
    const action = "embeddingBag", known = ["mode", "perSampleWeights", "includeLastOffset", "paddingIdx"];
    const { mode = "mean", perSampleWeights, includeLastOffset = false, paddingIdx } = checkOptions(
      action,
      options,
      known,
    );
    checkChoice(action, "mode", mode, ["sum", "mean", "max"]);
    checkBoolean(action, "includeLastOffset", includeLastOffset);
    if (!this.dtype.isInt) {
      throw new DTypeError(`${action} of dtype`, { dtypes: [this.dtype], reason: "indices are integers" });
    }
    if (checkTensor(action, "weight", weight).ndim !== 2) {
      throw new ShapeError(action, { shapes: [weight.shape], reason: "the weight is [V, D]" });
    }
    const isList = this.ndim === 1;
    if (isList === ((offsets ?? undefined) === undefined) || (!isList && this.ndim !== 2)) {
      throw new ShapeError(action, { shapes: [this.shape], reason: "it takes [B, L], or a list with offsets" });
    }
    const width = weight.shape[1], count = this.numel();
    const padding = paddingIdx === undefined ? undefined : paddedRow(action, paddingIdx, weight.shape[0]);
    let rows = weight.indexSelect(0, this.flatten());
    if (perSampleWeights !== undefined) {
      rows = rows.mul((checkTensor(action, "perSampleWeights", perSampleWeights) as this).flatten().unsqueeze(1));
    }
    if (!isList && padding === undefined && this.shape[1] > 0) {
      const bags = rows.reshape([...this.shape, width]);
      return mode === "sum" ? bags.sum(1) : mode === "mean" ? bags.mean(1) : bags.max(1);
    }
    // the bag of each index, and how many there are; one more takes what counts nowhere
    const place = this.flatten().constLike(1, { dtype: dtypes.int32 }).cumsum(0).sub(1) as this;
    const starts = isList ? checkTensor(action, "offsets", offsets!) : undefined, ends = starts?.numel();
    if (includeLastOffset && !(ends! > 0)) {
      throw new ShapeError(action, { shapes: [this.shape], reason: "the last bag needs an offset where it ends" });
    }
    const bags = ends === undefined ? this.shape[0] : ends - (includeLastOffset ? 1 : 0);
    let bag = starts?.searchsorted(place, { right: true }).sub(1) ?? place.floorDiv(Math.max(this.shape[1], 1));
    if (padding !== undefined) bag = this.flatten().eq(padding).where(bags, bag) as this;
    const zeros = weight.shrink([[0, 1], [0, width]]).constLike(0).expand([bags + 1, width]);
    const how = mode === "sum" ? "sum" : mode === "mean" ? "mean" : "amax";
    const made = zeros.scatterReduce(0, bag.unsqueeze(1).expand([count, width]), rows, how, false);
    return made.shrink([[0, bags], [0, width]]);
  }
}

/** Sizes, steps, gaps and padding of windows of two axes. */
function windowOf(action: string, kernelSize: PerAxis, options: FoldOptions): [number, number][] {
  const { stride = 1, dilation = 1, padding = 0 } = checkOptions(action, options, ["stride", "dilation", "padding"]);
  return [
    pairOf(action, "kernelSize", kernelSize, 1),
    pairOf(action, "stride", stride, 1),
    pairOf(action, "dilation", dilation, 1),
    pairOf(action, "padding", padding, 0),
  ];
}
