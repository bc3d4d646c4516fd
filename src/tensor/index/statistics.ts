/**
 * Counting, built on sorting, running counts and binary search, so that nothing is quadratic: search in sorted values
 * and counts. What has a size that depends on the data reads it back and is asynchronous, unless `size` fixes it.
 *
 * @module
 */
import { type DType, dtypeMax, dtypes } from "../../dtype/dtype.ts";
import { promote, sumDType, sumOf } from "../../dtype/promotion.ts";
import { ArgumentError, DTypeError, ShapeError } from "../../helpers/errors.ts";
import { prod, sameArray } from "../../helpers/math.ts";
import { checkChoice, checkInteger, checkOptions } from "../../helpers/options.ts";
import { broadcastTo, reshape } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { constant, type UOp, uop } from "../../uop/core/uop.ts";
import { extentsOf } from "../../uop/graph/extent.ts";
import { checkTensor, type Operand, TensorBase, type TensorLike } from "../handle/base.ts";
import { checkSameDevice } from "../handle/broadcast.ts";
import { filled } from "../nodes/movement_nodes.ts";
import { castNode } from "../nodes/scalars.ts";
import { countKeys, foldKeys, searchNode } from "../nodes/segments.ts";
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
  readonly weights?: TensorLike;
  /** The least length of the result where there is no `size`. Default 0. */
  readonly minlength?: number;
  /** The length of the result; other values are not counted. */
  readonly size?: number;
}
function own(u: UOp): UOp {
  return uop(Ops.CONTIGUOUS, u.dtype, [u]);
}

/** The largest integer of a dtype. */
function largestOf(d: DType): number | bigint {
  return d.bits === 64 ? 2n ** (d.isUnsigned ? 64n : 63n) - 1n : dtypeMax(d);
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
    const shape = this.shape, { minlength = 0 } = options;
    if (!this.dtype.isInt && !this.dtype.isBool) {
      throw new DTypeError(`${action} of dtype`, { dtypes: [this.dtype], reason: "only integers are counted" });
    }
    if (shape.length !== 1) throw new ShapeError(action, { shapes: [shape], reason: "it must be 1-D" });
    const weights = this.weightsOf(action, options.weights);
    checkInteger(action, "minlength", minlength, 0);
    if (options.size === undefined) {
      if (this.boundShape[0] === 0) return Promise.resolve(this.counted(minlength, weights));
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

  /** The weights. @throws {ShapeError} unless they have this shape */
  protected weightsOf(action: string, given: TensorLike | undefined): this | undefined {
    const weights = given === undefined ? undefined : this.tensorOf(action, "weights", given);
    if (weights === undefined || sameArray(weights.shape, this.shape)) return weights;
    throw new ShapeError(action, {
      shapes: [this.shape, weights.shape],
      reason: "the weights must have the shape of the values",
    });
  }

  /** Counts, or sums of weights, of these integers, 1-D. */
  protected counted(size: number, weights: TensorBase | undefined): this {
    if (size === 0) {
      return this.wrap(broadcastTo(constant(0, weights === undefined ? dtypes.int32 : sumOf(weights.dtype)), [0]));
    }
    const inside = this.dtype.bits > 32 ? this.lt(size).where(this, -1) as this : this;
    const keys = castNode(inside.uop, dtypes.int32);
    if (weights === undefined) return this.wrap(countKeys(keys, size));
    const wide = castNode(weights.uop, sumDType(weights.dtype));
    return this.wrap(castNode(foldKeys(keys, wide, size, Ops.ADD).values, sumOf(weights.dtype)));
  }
}
