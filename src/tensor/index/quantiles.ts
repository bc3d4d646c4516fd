/**
 * Order statistics: what lies at a share of the sorted elements over axes, with and without NaN. All are built on sorting.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { floatOf, promote } from "../../dtype/promotion.ts";
import { ArgumentError, DTypeError, ShapeError } from "../../helpers/errors.ts";
import { prod, rangeOf } from "../../helpers/math.ts";
import { checkChoice, checkOptions, describe, describeList } from "../../helpers/options.ts";
import { broadcastTo, permute, reshape } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { constant, type UOp, uop } from "../../uop/core/uop.ts";
import { extentOf, extentsOf } from "../../uop/graph/extent.ts";
import { type Axes, resolveAxes } from "../handle/axes.ts";
import { TensorBase } from "../handle/base.ts";
import { constantAxis, type Dim } from "../handle/dims.ts";
import { asFloats } from "../handle/weak_numbers.ts";
import { floatConst } from "../nodes/numeric.ts";
import { castNode } from "../nodes/scalars.ts";
import { gatherNode } from "../nodes/select.ts";
import { reshapeSized } from "../nodes/symbolic_reshape.ts";
import type { ReduceOptions } from "../ops/reduce.ts";
import type { GatherTensor } from "./gather.ts";
import type { IndexingTensor } from "./indexing.ts";
import type { SortTensor } from "./sort.ts";

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

/**
 * The value between two finite or infinite ones, at a share in (0, 1) of the way: an infinite one is all that counts. Its
 * gradient goes to both by that share.
 */
function between<T extends QuantileTensor>(a: T, b: T, share: number | T): T {
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
function sharesOf(action: string, q: unknown): readonly number[] | TensorBase {
  if (q instanceof TensorBase) {
    if (q.ndim > 1) throw new ShapeError(action, { shapes: [q.shape], reason: "q must be a scalar or 1-D" });
    const shares = asFloats(q as QuantileTensor, dtypes.float32);
    if (shares.dtype.isFloat) return shares;
    throw new DTypeError(`${action} at shares of dtype`, { dtypes: [q.dtype], reason: "they must be floats" });
  }
  const shares: unknown = typeof q === "number" ? [q] : q;
  if (
    Array.isArray(shares) && shares.length > 0 &&
    Array.from(shares).every((x) => typeof x === "number" && x >= 0 && x <= 1)
  ) return shares;
  throw new ArgumentError(action, { reason: `q must lie in [0, 1], not ${describeList(q)}` });
}

/** Percents as shares. @throws {ArgumentError} for others than [0, 100] */
function hundredths(action: string, q: number | readonly number[] | TensorBase): number | number[] | TensorBase {
  if (q instanceof TensorBase) {
    const shares = asFloats(q as QuantileTensor, dtypes.float32);
    return shares.dtype.isFloat ? shares.div(100) : shares; // which is refused
  }
  const list: unknown = typeof q === "number" ? [q] : q;
  if (!Array.isArray(list) || Array.from(list).some((x) => typeof x !== "number" || !(x >= 0 && x <= 100))) {
    throw new ArgumentError(action, { reason: `q must lie in [0, 100], not ${describeList(q)}` });
  }
  return typeof q === "number" ? q / 100 : list.map((x: number) => x / 100);
}

/** The values of `sorted`, ascending along its last axis, at places between its elements, of the same leading axes. */
function atPlaces<T extends QuantileTensor>(sorted: T, place: T, interpolation: Interpolation): T {
  const low = place.floor(), part = place.sub(low), at = (p: T): T => sorted.gather(-1, p.cast(dtypes.int32)) as T;
  const a = at(low), b = at(place.ceil());
  if (interpolation === "lower") return a;
  if (interpolation === "higher") return b;
  if (interpolation === "midpoint") return a.lerp(b, part.gt(0).where(0.5, part));
  if (interpolation === "linear") return part.eq(0).where(a, between(a, b, part)) as T;
  return part.gt(0.5).bitwiseOr(part.eq(0.5).bitwiseAnd(low.mod(2).eq(1))).where(b, a) as T;
}

/** The families that it is written in. */
export interface QuantileTensor extends GatherTensor, IndexingTensor, SortTensor {}
/** Tensors with order statistics. */
export abstract class QuantileTensor extends TensorBase {
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

  /** {@linkcode quantile} at percents: `q` lies in [0, 100]. @throws {ArgumentError} {ShapeError} */
  percentile(q: number | readonly number[] | TensorBase, axis?: Axes | null, options: QuantileOptions = {}): this {
    checkOptions("percentile", options, ["keepdim", "interpolation"]);
    return this.quantiles("percentile", hundredths("percentile", q), axis, options);
  }
  /** {@linkcode nanquantile} at percents. @throws {ArgumentError} {ShapeError} */
  nanpercentile(q: number | readonly number[] | TensorBase, axis?: Axes | null, options: QuantileOptions = {}): this {
    checkOptions("nanpercentile", options, ["keepdim", "interpolation"]);
    return this.nanquantile(hundredths("nanpercentile", q), axis, options);
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
      const count = this.wrap(flat).symbolicShape[lead.length],
        end = typeof count === "number" ? count - 1 : count.sub(1);
      const place = this.wrap(shares.uop).cast(d).mul(end).reshape([shares.numel()]).expand([
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

  /** As `median`, of what is not NaN. @throws {ShapeError} */
  nanmedian(axis?: Axes | null, options: ReduceOptions = {}): this {
    checkOptions("nanmedian", options, ["keepdim"]);
    return this.nanquantile(0.5, axis, options);
  }

  /**
   * As `quantile`, of what is not NaN; NaN where there is nothing else.
   *
   * @throws {ArgumentError} for a share outside [0, 1] or an unknown interpolation, {ShapeError} for nothing
   */
  nanquantile(
    q: number | readonly number[] | TensorBase,
    axis?: Axes | null,
    options: ReduceOptions & { readonly interpolation?: Interpolation } = {},
  ): this {
    const action = "nanquantile";
    const { keepdim = false, interpolation = "linear" } = checkOptions(action, options, ["keepdim", "interpolation"]);
    checkChoice(action, "interpolation", interpolation, ["linear", "lower", "higher", "midpoint", "nearest"]);
    const given = sharesOf(action, q);
    const shape = this.shape, axes = resolveAxes(action, axis, shape), n = prod(axes.map((a) => shape[a]));
    if (n === 0) throw new ShapeError(action, { shapes: [shape], reason: "there are no elements to order" });
    const rest = rangeOf(shape.length).filter((a) => !axes.includes(a)), lead = rest.map((a) => shape[a]);
    const d = floatOf(this.dtype), wide = promote(d, dtypes.float32);
    const x = this.cast(wide).permute([...rest, ...axes]).reshape([...lead, n]);
    const count = x.isnan().logicalNot().sum(-1, { keepdim: true });
    const shares = given instanceof TensorBase
      ? this.wrap(given.uop).cast(wide)
      : this.fromList(Float64Array.from(given), wide);
    const k = shares.numel(), place = count.sub(1).clamp(0).cast(wide).mul(this.wrap(shares.uop).reshape([k]));
    const value = atPlaces(x.sort(-1)[0], place, interpolation).cast(d).permute([lead.length, ...rangeOf(lead.length)]);
    const one = keepdim ? shape.map((s, i) => axes.includes(i) ? 1 : s) : lead;
    return value.reshape(typeof q === "number" ? one : [...given instanceof TensorBase ? given.shape : [k], ...one]);
  }
}
