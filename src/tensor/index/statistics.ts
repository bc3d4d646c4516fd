/**
 * Order statistics and counting: search in sorted values, counts, histograms, quantiles; and draws with the
 * probabilities that a tensor has. All are built on sorting, running counts and binary search, so nothing is quadratic. What
 * has a size that depends on the data reads it back and is asynchronous, unless `size` fixes it.
 *
 * @module
 */
import { type DType, dtypeMax, dtypes } from "../../dtype/dtype.ts";
import { floatOf, promote, sumDType, sumOf } from "../../dtype/promotion.ts";
import { ArgumentError, DTypeError, ShapeError } from "../../helpers/errors.ts";
import { prod, rangeOf, sameArray } from "../../helpers/math.ts";
import { checkChoice, checkInteger, checkNumber, checkOptions, describe, describeList } from "../../helpers/options.ts";
import { broadcastTo, permute, reshape } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { constant, iota, type UOp, uop } from "../../uop/core/uop.ts";
import { extentOf, extentsOf } from "../../uop/graph/extent.ts";
import { flat } from "../../uop/graph/given_gradient.ts";
import { type Axes, resolveAxes } from "../handle/axes.ts";
import { checkTensor, type NestedArray, type Operand, TensorBase } from "../handle/base.ts";
import { checkSameDevice } from "../handle/broadcast.ts";
import { constantAxis, type Dim } from "../handle/dims.ts";
import { filled } from "../nodes/movement_nodes.ts";
import { floatConst } from "../nodes/numeric.ts";
import { checkWeights, drawUniform, threefryNode } from "../nodes/random.ts";
import { castNode, scalarConst } from "../nodes/scalars.ts";
import { countKeys, foldKeys, searchNode } from "../nodes/segments.ts";
import { gatherNode, hostValues, hostValuesBehind } from "../nodes/select.ts";
import { reshapeSized } from "../nodes/symbolic_reshape.ts";
import type { ReduceOptions } from "../ops/reduce.ts";
import type { GatherTensor } from "./gather.ts";
import type { IndexingTensor } from "./indexing.ts";
import type { SortTensor } from "./sort.ts";

/** On which side of what is equal positions are found. */
export interface SearchOptions {
  /** Whether equal values are passed: positions are then behind them, else before. Default false. */
  readonly right?: boolean;
  /** The same by name. Default "left", or "right" with `right`. */
  readonly side?: "left" | "right";
}
/** Options of {@linkcode StatisticsTensor.searchsorted}. */
export interface SearchsortedOptions extends SearchOptions {
  /** Positions, of the shape of what is searched, that bring it in order: then it need not be sorted. */
  readonly sorter?: TensorBase;
}
/** Options of {@linkcode StatisticsTensor.bincount}. */
export interface BincountOptions {
  /** What each element counts, of the same shape; the result then has the dtype of its sums. Default 1. */
  readonly weights?: TensorBase;
  /** The least length of the result where there is no `size`. Default 0. */
  readonly minlength?: number;
  /** The length of the result; other values are not counted. */
  readonly size?: number;
}
/** Options of {@linkcode StatisticsTensor.histogram}. */
export interface HistogramOptions {
  /** Where the first bin begins. Default: the smallest value. */
  readonly min?: number;
  /** Where the last bin ends. Default: the largest value. */
  readonly max?: number;
  /** What each element counts, of the same shape. Default 1. */
  readonly weights?: TensorBase;
  /** Whether to divide so that the integral is 1. Default false. */
  readonly density?: boolean;
}
/** Options of quantiles. */
export interface QuantileOptions extends ReduceOptions {
  /** What stands for a position between two elements. Default "linear". */
  readonly interpolation?: Interpolation;
}
/** How a quantile between two elements is found. */
export type Interpolation = "linear" | "lower" | "higher" | "midpoint" | "nearest";

const INTERPOLATIONS: readonly string[] = ["linear", "lower", "higher", "midpoint", "nearest"];

function own(u: UOp): UOp {
  return uop(Ops.CONTIGUOUS, u.dtype, [u]);
}

/** The largest integer of a dtype. */
function largestOf(d: DType): number | bigint {
  return d.bits === 64 ? 2n ** (d.isUnsigned ? 64n : 63n) - 1n : dtypeMax(d);
}

/**
 * A float over a whole number. Devices divide float32 differently, some to a few units in the last place: where a number
 * of 16 bits is the quotient, it is that one on all of them.
 */
function shortQuotient(x: UOp, by: number): UOp {
  const divisor = floatConst(by, x.dtype), quotient = x.fdiv(divisor);
  if (x.dtype !== dtypes.float32) return quotient;
  const bits = quotient.bitcast(dtypes.uint32).add(constant(0x80, dtypes.uint32));
  const short = bits.and(constant(0xffffff00, dtypes.uint32)).bitcast(x.dtype);
  return short.mul(divisor).eq(x).where(short, quotient);
}

/**
 * The value between two finite or infinite ones, at a share in (0, 1) of the way: an infinite one is all that counts. Its
 * gradient goes to both by that share.
 */
function between<T extends StatisticsTensor>(a: T, b: T, share: number | T): T {
  const rest = typeof share === "number" ? 1 - share : share.neg().add(1);
  return a.isinf().bitwiseOr(b.isinf()).where(a.mul(rest).add(b.mul(share)), a.lerp(b, share)) as T;
}

/**
 * The value at a share of the last axis, which is sorted and of symbolic size. Its place is computed in float32, which is
 * exact enough where the result does not jump there. @throws {ShapeError} where it may
 */
function atShare(action: string, sorted: UOp, share: number, interpolation: Interpolation): UOp {
  const shape = shapeOf(sorted), axis = shape.length - 1, d = sorted.dtype, one = shape.with(axis, 1);
  if (interpolation !== "linear" && (share * 64) % 1 !== 0) {
    constantAxis(action, sorted, axis, `with "linear" it may have any; padTo(shape) gives it one`);
  }
  const size = broadcastTo(extentOf(sorted, axis), one), place = size.add(-1).cast(dtypes.float32).mul(share);
  const low = place.cast(dtypes.int32), rest = place.add(low.cast(dtypes.float32).mul(-1));
  const exact = rest.eq(constant(0, dtypes.float32)), high = exact.where(low, low.add(1));
  const at = (u: UOp): UOp => gatherNode(sorted, axis, u);
  if (interpolation === "lower") return at(low);
  if (interpolation === "higher") return at(high);
  const half = constant(0.5, dtypes.float32);
  if (interpolation === "nearest") {
    const up = half.lt(rest).or(half.eq(rest).and(low.floorMod(2).eq(1)));
    return at(up.where(high, low));
  }
  const a = at(low), b = at(high), weight = (interpolation === "midpoint" ? broadcastTo(half, one) : rest).cast(d);
  const end = (u: UOp): UOp => u.mul(floatConst(0, d)).ne(floatConst(0, d)); // of infinity (and NaN, which is seen apart)
  const lerp = a.add(b.add(a.mul(-1)).mul(weight)), parts = a.mul(weight.mul(-1).add(1)).add(b.mul(weight));
  return exact.where(a, end(a).or(end(b)).where(parts, lerp));
}

/** The shares that a quantile is asked for. @throws {ArgumentError}, {ShapeError}, {DTypeError} */
export function sharesOf(action: string, q: unknown): readonly number[] | TensorBase {
  if (q instanceof TensorBase) {
    if (q.ndim > 1) throw new ShapeError(action, { shapes: [q.shape], reason: "q must be a scalar or 1-D" });
    if (q.dtype.isFloat) return q;
    throw new DTypeError(`${action} at shares of dtype`, { dtypes: [q.dtype], reason: "they must be floats" });
  }
  const shares: unknown = typeof q === "number" ? [q] : q;
  if (
    Array.isArray(shares) && shares.length > 0 &&
    Array.from(shares).every((x) => typeof x === "number" && x >= 0 && x <= 1)
  ) return shares;
  throw new ArgumentError(action, { reason: `q must lie in [0, 1], not ${describeList(q)}` });
}

/** The values of `sorted`, ascending along its last axis, at places between its elements, of the same leading axes. */
export function atPlaces<T extends StatisticsTensor>(sorted: T, place: T, interpolation: Interpolation): T {
  const low = place.floor(), part = place.sub(low), at = (p: T): T => sorted.gather(-1, p.cast(dtypes.int32)) as T;
  const a = at(low), b = at(place.ceil());
  if (interpolation === "lower") return a;
  if (interpolation === "higher") return b;
  if (interpolation === "midpoint") return a.lerp(b, part.gt(0).where(0.5, part));
  if (interpolation === "linear") return part.eq(0).where(a, between(a, b, part)) as T;
  return part.gt(0.5).bitwiseOr(part.eq(0.5).bitwiseAnd(low.mod(2).eq(1))).where(b, a) as T;
}

/** The families that it is written in. */
export interface StatisticsTensor extends GatherTensor, IndexingTensor, SortTensor {}
/** Tensors with order statistics and counts. */
export abstract class StatisticsTensor extends TensorBase {
  /**
   * Where `values` would be inserted to keep the last axis of this, which is sorted ascending, in order: int32, of the
   * shape of `values`. This is `[n]`, or has the leading axes of `values`. NaN counts as the largest.
   *
   * ```ts
   * import { Tensor } from "../../../mod.ts";
   * console.log(await new Tensor([1, 3, 3, 7]).searchsorted(new Tensor([3, 0, 9])).tolist()); // [1, 0, 4]
   * ```
   *
   * @throws {ShapeError} if the leading axes differ, or this is a scalar
   */
  searchsorted(values: Operand, options: SearchsortedOptions = {}): this {
    const { right = false, side, sorter } = checkOptions("searchsorted", options, ["right", "side", "sorter"]);
    if (side !== undefined) checkChoice("searchsorted", "side", side, ["left", "right"]);
    if (right && side === "left") {
      throw new ArgumentError("searchsorted", { reason: 'it takes right, or side "left", not both' });
    }
    if (sorter !== undefined) {
      if (!sameArray(checkTensor("searchsorted", "sorter", sorter).shape, this.shape)) {
        throw new ShapeError("searchsorted", {
          shapes: [this.shape, sorter.shape],
          reason: "the sorter must have the shape of what is searched",
        });
      }
      return this.gather(-1, sorter).searchsorted(values, { right, side });
    }
    const v = this.operand(values, "searchsorted"), shape = this.shape, to = v.shape;
    checkSameDevice("searchsorted", this.uop, v.uop);
    const lead = shape.slice(0, -1);
    if (shape.length === 0 || (lead.length > 0 && !sameArray(lead, to.slice(0, -1)))) {
      throw new ShapeError("searchsorted", {
        shapes: [shape, to],
        reason: shape.length === 0 ? "a scalar has no axis to search" : "all axes but the last must be equal",
      });
    }
    const d = promote(this.dtype, v.dtype);
    const sorted = own(castNode(this.uop, d));
    const flat = lead.length === 0 ? [prod(to)] : to;
    const end = extentsOf(sorted)?.[lead.length]; // behind it stands what is larger than all
    const whole = end === undefined ? sorted : filled(sorted, lead.length, d.isFloat ? NaN : largestOf(d));
    const found = searchNode(whole, reshape(broadcastTo(castNode(v.uop, d), to), flat), right || side === "right");
    const place = this.wrap(reshape(found, to));
    return end === undefined ? place : place.minimum(this.wrap(end)) as this;
  }

  /**
   * How often each of 0, 1, ... occurs in this, 1-D of integers: int32, or with `weights` their sums. Without `size` a
   * promise of `max + 1` places (at least `minlength`), as the maximum must be computed and read; negative numbers then
   * reject it. With `size` what lies outside, negative numbers too, is not counted.
   *
   * @throws {DTypeError} unless this has an integer dtype, {ShapeError} unless it is 1-D, and the weights alike,
   * {ArgumentError} for negative numbers without `size`
   */
  bincount(options: BincountOptions & { readonly size: number }): this;
  /** How often each of 0, 1, ... occurs. Reads the maximum. */
  bincount(options?: BincountOptions): Promise<this>;
  bincount(options: BincountOptions = {}): this | Promise<this> {
    const action = "bincount";
    checkOptions(action, options, ["weights", "minlength", "size"]);
    const shape = this.shape, { weights, minlength = 0 } = options;
    if (!this.dtype.isInt && !this.dtype.isBool) {
      throw new DTypeError(`${action} of dtype`, { dtypes: [this.dtype], reason: "only integers are counted" });
    }
    if (shape.length !== 1) throw new ShapeError(action, { shapes: [shape], reason: "it must be 1-D" });
    this.checkWeights(action, weights);
    checkInteger(action, "minlength", minlength, 0);
    if (options.size === undefined) {
      if (shape[0] === 0) return Promise.resolve(this.counted(minlength, weights));
      return this.places().then((size) => this.counted(Math.max(size, minlength), weights));
    }
    return this.counted(checkInteger(action, "size", options.size, 0), weights);
  }

  /** One more than the largest of these integers. @throws {ArgumentError} where one is negative */
  private async places(): Promise<number> {
    const most = this.max(), least = this.dtype.isBool || this.dtype.isUnsigned ? undefined : this.min();
    const found = Number(await (least === undefined ? most : least.lt(0).where(least, most)).item());
    if (found >= 0) return found + 1;
    throw new ArgumentError("bincount", {
      reason: `${found} is negative; with { size } what lies outside of it is not counted`,
    });
  }

  /** Throws unless the weights have this shape. */
  private checkWeights(action: string, weights: TensorBase | undefined): void {
    if (weights !== undefined) checkTensor(action, "weights", weights);
    if (weights === undefined || sameArray(weights.shape, this.shape)) return;
    throw new ShapeError(action, {
      shapes: [this.shape, weights.shape],
      reason: "the weights must have the shape of the values",
    });
  }

  /** Counts, or sums of weights, of these integers, 1-D. */
  private counted(size: number, weights: TensorBase | undefined): this {
    if (size === 0) {
      return this.wrap(broadcastTo(constant(0, weights === undefined ? dtypes.int32 : sumOf(weights.dtype)), [0]));
    }
    const inside = this.dtype.bits > 32 ? this.lt(size).where(this, -1) as this : this;
    const keys = castNode(inside.uop, dtypes.int32);
    if (weights === undefined) return this.wrap(countKeys(keys, size));
    const wide = castNode(weights.uop, sumDType(weights.dtype));
    return this.wrap(castNode(foldKeys(keys, wide, size, Ops.ADD).values, sumOf(weights.dtype)));
  }

  /**
   * How many elements fall into each bin, and the edges of the bins: `[bins]` and `[bins + 1]`. `bins` is a number of
   * equal bins between `min` and `max` (of the finite data), or ascending edges; the last bin is closed. Edges are float32
   * (float64 for float64), exact where bins are as wide as a whole number or a short fraction; where min and max are equal
   * they are half below and half above. Counts are int32; with `weights` or `density` floats. NaN falls into no bin, nor
   * does what lies outside of the edges.
   *
   * ```ts
   * import { Tensor } from "../../../mod.ts";
   * const [counts, edges] = Tensor.arange(7).histogram(3);
   * console.log(await counts.tolist(), await edges.tolist()); // [2, 2, 3] [0, 2, 4, 6]
   * ```
   *
   * @throws {ArgumentError} for no bins, min > max, ends that are not finite, or edges known on the host that descend;
   * {ShapeError} for weights of another shape
   */
  histogram(bins: number | TensorBase | NestedArray = 10, options: HistogramOptions = {}): [counts: this, edges: this] {
    const action = "histogram";
    checkOptions(action, options, ["min", "max", "weights", "density"]);
    const { min, max, weights, density = false } = options;
    this.checkWeights(action, weights);
    const d = promote(floatOf(this.dtype), dtypes.float32);
    const x = this.wrap(own(reshape(castNode(this.uop, d), [this.numel()])));
    let edges: this;
    if (typeof bins === "number") {
      checkInteger(action, "bins", bins, 1);
      for (const [name, end] of [["min", min], ["max", max]] as const) {
        if (end === undefined || Number.isFinite(end)) continue;
        throw new ArgumentError(action, { reason: `${name} must be a finite number, not ${describe(end)}` });
      }
      if (min !== undefined && max !== undefined && !(min <= max)) {
        throw new ArgumentError(action, { reason: `min must not be above max, not ${min} and ${max}` });
      }
      if (this.numel() === 0 && (min === undefined || max === undefined)) {
        throw new ArgumentError(action, { reason: "nothing has no range; give min and max" });
      }
      const ends = [min, max].map((x) => x === undefined ? undefined : this.wrap(floatConst(x, d)));
      edges = x.equalEdges(bins, ends[0], ends[1]);
    } else {
      const given = this.operand(bins, action) as this;
      edges = given.cast(d);
      if (edges.ndim !== 1 || edges.shape[0] < 2) {
        throw new ShapeError(action, { shapes: [edges.shape], reason: "edges are 1-D, at least two" });
      }
      const known = hostValues(given.uop),
        bad = known?.findIndex((v, i) => v !== v || (i > 0 && v < known[i - 1])) ?? -1;
      if (bad >= 0) {
        throw new ArgumentError(action, { reason: `edges must ascend, but edge ${bad} is ${known![bad]}` });
      }
    }
    edges = this.wrap(own(edges.uop));
    const count = edges.shape[0] - 1;
    const last = edges.at(count);
    const found = this.wrap(searchNode(edges.uop, x.uop, true)).sub(1);
    const bin = x.eq(last).where(count - 1, x.gt(last).logicalNot().bitwiseAnd(x.eq(x)).where(found, -1)) as this;
    let counts = bin.counted(count, weights === undefined ? undefined : this.wrap(weights.uop).flatten());
    if (density) {
      const c = counts.cast(d);
      counts = c.div(c.sum()).div(edges.at([1, null]).sub(edges.at([0, count])));
    }
    return [counts, edges];
  }

  /** The edges of `bins` equal bins between two ends, by default those of the finite values of this, 1-D. */
  private equalEdges(bins: number, min: this | undefined, max: this | undefined): this {
    const d = this.dtype, finite = this.isfinite();
    const least = min ?? finite.where(this, Infinity).min() as this, most = max ?? finite.where(this, -Infinity).max();
    // One end may lie beyond all values. Without finite values there are no ends.
    const low = max === undefined ? least : least.minimum(max), high = min === undefined ? most : most.maximum(min);
    const none = low.gt(high), spread = low.eq(high).where(0.5, this.wrap(floatConst(0, d))) as this;
    const from = none.where(0, low).sub(spread) as this, to = none.where(1, high).add(spread) as this;
    const step = broadcastTo(shortQuotient(to.sub(from).uop, bins), [bins + 1]);
    // Counted from the nearer end, so that both are exact; apart from the sum, which would else be fused with it or not.
    const place = iota(bins + 1), front = place.mul(2).lt(bins);
    const steps = castNode(front.where(place, place.mul(-1).add(bins)), d);
    const away = this.wrap(own(steps.mul(step)));
    return this.wrap(front).where(from.add(away), to.sub(away)) as this;
  }

  /**
   * The value below which the share `q` (in [0, 1]) of the elements over `axis` lies: floats. A list of shares adds a
   * first axis, and so does a tensor `[k]` of floats, through which gradients flow; its values are not checked. NaN where
   * there is one. Integers give the default float.
   *
   * @throws {ArgumentError} for a share outside [0, 1] or an unknown interpolation, {ShapeError} for nothing
   */
  quantile(q: number | readonly number[] | TensorBase, axis?: Axes | null, options: QuantileOptions = {}): this {
    checkOptions("quantile", options, ["keepdim", "interpolation"]);
    return this.quantiles("quantile", q, axis, options);
  }

  /** The sizes with those of `axes` as 1. */
  private keptShape(axes: readonly number[]): Dim[] {
    return this.symbolicShape.map((size, i) => axes.includes(i) ? 1 : size);
  }

  /** {@linkcode quantile}, under the name of what was called. */
  private quantiles(
    action: string,
    q: number | readonly number[] | TensorBase,
    axis: Axes | undefined | null,
    options: QuantileOptions,
  ): this {
    const { keepdim = false, interpolation = "linear" } = options;
    const shares = sharesOf(action, q);
    if (!INTERPOLATIONS.includes(interpolation)) {
      throw new ArgumentError(action, {
        reason: `unknown interpolation ${describe(interpolation)}; known are ${INTERPOLATIONS.join(", ")}`,
      });
    }
    const shape = this.shape, axes = resolveAxes(action, axis, shape);
    const rest = rangeOf(shape.length).filter((a) => !axes.includes(a)), lead = rest.map((a) => shape[a]);
    const n = prod(axes.map((a) => shape[a])), out = floatOf(this.dtype), d = promote(out, dtypes.float32);
    if (n === 0) throw new ShapeError(action, { shapes: [shape], reason: "there are no elements to order" });
    const flat = reshapeSized(permute(this.uop, [...rest, ...axes]), [...lead, n]);
    const sorted = this.wrap(own(castNode(this.wrap(flat).sort(-1)[0].uop, d)));
    const highest = sorted.at("...", -1);
    if (shares instanceof TensorBase) {
      const place = this.wrap(shares.uop).cast(d).mul(n - 1).reshape([shares.numel()]).expand([
        ...lead,
        shares.numel(),
      ]);
      const found = atPlaces(sorted, place as this, interpolation), last = highest.unsqueeze(-1);
      const value = (last.isnan().where(last, found) as this).cast(out).permute([lead.length, ...rangeOf(lead.length)]);
      return value.reshape([...shares.shape, ...keepdim ? this.keptShape(axes) : lead]);
    }
    const results = shares.map((share: number): this => {
      if (extentsOf(flat)?.[lead.length] !== undefined) {
        const between = atShare(action, sorted.uop, share, interpolation);
        const value = highest.isnan().where(highest, sorted.wrap(reshape(between, lead))) as this;
        return value.cast(out).reshape(keepdim ? this.keptShape(axes) : value.symbolicShape);
      }
      const place = share * (n - 1), low = Math.floor(place), high = Math.ceil(place);
      const a = sorted.at("...", low), b = sorted.at("...", high);
      const found = interpolation === "lower"
        ? a
        : interpolation === "higher"
        ? b
        : interpolation === "nearest"
        ? place - low === 0.5 ? low % 2 === 0 ? a : b : place - low < 0.5 ? a : b
        : low === high
        ? a
        : between(a, b, interpolation === "midpoint" ? 0.5 : place - low);
      const value = highest.isnan().where(highest, found) as this;
      return value.cast(out).reshape(keepdim ? this.keptShape(axes) : value.symbolicShape);
    });
    return typeof q === "number" ? results[0] : results[0].stack(results.slice(1), 0);
  }

  /**
   * The middle of the elements over `axis`; the mean of the two in the middle where their number is even, as in NumPy
   * (`quantile(0.5, axis, { interpolation: "lower" })` is PyTorch's). Floats; NaN where there is one.
   *
   * @throws {ShapeError} outside the rank, or for nothing
   */
  median(axis?: Axes | null, options: ReduceOptions = {}): this {
    checkOptions("median", options, ["keepdim"]);
    return this.quantiles("median", 0.5, axis, options);
  }

  /**
   * Draws positions with probabilities proportional to this, 1-D or one distribution a row; int32. Weights must be finite
   * and at least 0, and some of each row more: as many as are drawn without replacement. Those that were computed are not
   * looked at, and what breaks this then draws any positions.
   *
   * @param options `numSamples` 1, `replacement` false
   * @throws {ShapeError} for other ranks, {ArgumentError} for more samples than positions without replacement, and for such
   * weights that are known on the host
   */
  multinomial(options: { readonly numSamples?: number; readonly replacement?: boolean } = {}): this {
    const action = "multinomial";
    checkOptions(action, options, ["numSamples", "replacement"]);
    const { numSamples = 1, replacement = false } = options;
    checkInteger(action, "numSamples", numSamples, 1);
    const shape = this.shape;
    if (shape.length !== 1 && shape.length !== 2) {
      throw new ShapeError(action, { shapes: [shape], reason: "weights must be 1-D or 2-D" });
    }
    const n = shape[shape.length - 1], rows = shape.length === 2 ? shape[0] : 1;
    if (!replacement && numSamples > n) {
      throw new ArgumentError(action, { reason: `${numSamples} samples of ${n} positions need replacement: true` });
    }
    checkWeights(action, hostValuesBehind(this.uop), n, replacement ? 1 : numSamples);
    const weights = this.float().reshape([rows, n]);
    let picked: this;
    if (replacement || numSamples === 1) { // where the running sum passes a uniform share of the total
      const running = weights.cumsum(1);
      const total = running.at(":", [-1, null]);
      const u = this.wrap(drawUniform([rows, numSamples], dtypes.float32)).mul(total) as this;
      picked = running.unsqueeze(1).le(u.unsqueeze(2)).sum(-1).clamp(0, n - 1) as this;
    } else { // keys log(u) / w: Efraimidis and Spirakis, "Weighted random sampling with a reservoir" (2006)
      const u = this.wrap(drawUniform([rows, n], dtypes.float32)).mul(-1).add(1) as this;
      picked = u.log().div(weights).topk(numSamples, 1)[1];
    }
    return picked.cast(dtypes.int32).reshape(shape.length === 2 ? [rows, numSamples] : [numSamples]);
  }

  /**
   * 1 with the probability that this says at each place, or with `p` at all of them, else 0; the dtype of this. Its gradient
   * is 0. Probabilities that were computed are not looked at: those above 1 always draw 1, those below 0 and NaN never.
   *
   * @throws {ArgumentError} for a probability outside [0, 1] that is known on the host {DTypeError} without `p` unless of floats
   */
  bernoulli(p?: number): this {
    const action = "bernoulli", d = this.dtype, shape = this.shape;
    if (p === undefined && (!d.isFloat || d.isComplex)) {
      throw new DTypeError(`${action} of dtype`, { dtypes: [d], reason: "probabilities are floats; or give p" });
    }
    for (const share of p === undefined ? hostValuesBehind(this.uop) ?? [] : [checkNumber(action, "p", p)]) {
      if (share >= 0 && share <= 1) continue;
      throw new ArgumentError(action, { reason: `a probability must lie in [0, 1], not ${share}` });
    }
    const share = p === undefined ? castNode(this.uop, dtypes.float32) : floatConst(p, dtypes.float32);
    return this.wrap(flat(castNode(drawUniform(shape, dtypes.float32).lt(broadcastTo(share, shape)), d), [this.uop]));
  }

  /**
   * threefry2x32 of the 64-bit counters in this under the 64-bit keys in `seed`; uint64.
   * @throws {DTypeError} unless both are integers
   */
  threefry(seed: Operand): this {
    const key = this.operand(seed, "threefry");
    for (const { dtype } of [this, key]) {
      if (dtype.isInt) continue;
      throw new DTypeError("threefry of dtype", { dtypes: [dtype], reason: "counters and keys are integers" });
    }
    const [x, k] = this.cast(dtypes.uint64).broadcasted("threefry", this.wrap(castNode(key.uop, dtypes.uint64)));
    const low = (u: UOp) => castNode(u.and(scalarConst(0xffffffff, dtypes.uint64)), dtypes.uint32);
    const high = (u: UOp) => castNode(u.shr(scalarConst(32, dtypes.uint64)), dtypes.uint32);
    const [a, b] = threefryNode([low(k), high(k)], [low(x), high(x)]).map((u) => castNode(u, dtypes.uint64));
    return this.wrap(b.shl(scalarConst(32, dtypes.uint64)).or(a));
  }
}
