/**
 * Reductions and scans that pass over NaN, weighted means and ranges, with NumPy's names. All are made of what tensors have
 * besides, and so are their gradients.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { floatOf, promote } from "../../dtype/promotion.ts";
import { ShapeError } from "../../helpers/errors.ts";
import { checkOptions } from "../../helpers/options.ts";
import { type Axes, resolveAxes } from "../handle/axes.ts";
import { TensorBase, type TensorLike } from "../handle/base.ts";
import type { ScanTensor } from "../index/scan.ts";
import type { ReduceOptions, VarOptions } from "../ops/reduce.ts";
import type { NormTensor } from "../math/norms.ts";

/** Options of {@linkcode NanTensor.average}. */
export interface AverageOptions extends ReduceOptions {
  /** How much each element counts: of the shape of the tensor, or 1-D along the one axis that is reduced. Default: alike. */
  readonly weights?: TensorLike;
}

/** The families that it is written in. */
export interface NanTensor extends NormTensor, ScanTensor {}
/** Tensors with reductions that pass over NaN. */
export abstract class NanTensor extends TensorBase {
  /** The largest over `axis` of what is not NaN; NaN where there is nothing else. @throws {ShapeError} */
  nanmax(axis?: Axes | null, options: ReduceOptions = {}): this {
    checkOptions("nanmax", options, ["keepdim"]);
    return this.extreme(-Infinity, axis, options, "max");
  }
  /** The smallest over `axis` of what is not NaN; NaN where there is nothing else. @throws {ShapeError} */
  nanmin(axis?: Axes | null, options: ReduceOptions = {}): this {
    checkOptions("nanmin", options, ["keepdim"]);
    return this.extreme(Infinity, axis, options, "min");
  }
  /** An extreme of what is not NaN, where NaN is as the other end. */
  private extreme(none: number, axis: Axes | undefined | null, options: ReduceOptions, name: "max" | "min"): this {
    const axes = resolveAxes(`nan${name}`, axis, this.shape);
    if (axes.some((a) => this.shape[a] === 0)) {
      throw new ShapeError(`nan${name}`, { shapes: [this.shape], reason: "there are no elements to compare" });
    }
    if (!this.dtype.isFloat) return this[name](axes, options);
    const isNone = this.isnan(), found = (isNone.where(none, this) as this)[name](axes, options);
    return isNone.all(axes, options).where(NaN, found) as this;
  }

  /**
   * The position of the largest along `axis` (of the flattened tensor without) that is not NaN; int32. Where there is nothing
   * but NaN it is 0.
   *
   * @throws {ShapeError} for nothing
   */
  nanargmax(axis?: number | null, options: ReduceOptions = {}): this {
    checkOptions("nanargmax", options, ["keepdim"]);
    return (this.dtype.isFloat ? this.isnan().where(-Infinity, this) as this : this).argmax(axis, options);
  }
  /** As {@linkcode nanargmax}, of the smallest. @throws {ShapeError} for nothing */
  nanargmin(axis?: number | null, options: ReduceOptions = {}): this {
    checkOptions("nanargmin", options, ["keepdim"]);
    return (this.dtype.isFloat ? this.isnan().where(Infinity, this) as this : this).argmin(axis, options);
  }

  /** The product over `axis` of what is not NaN; 1 of nothing. @throws {ShapeError} */
  nanprod(axis?: Axes | null, options: ReduceOptions = {}): this {
    checkOptions("nanprod", options, ["keepdim"]);
    return (this.isnan().where(1, this) as this).prod(axis, options);
  }
  /** `cumsum` along `axis` (0), where NaN counts 0. @throws {ShapeError} */
  nancumsum(axis = 0): this {
    return (this.isnan().where(0, this) as this).cumsum(axis);
  }
  /** `cumprod` along `axis` (0), where NaN counts 1. @throws {ShapeError} */
  nancumprod(axis = 0): this {
    return (this.isnan().where(1, this) as this).cumprod(axis);
  }

  /**
   * `var` over `axis` of what is not NaN: squared distances from the mean over their number less `correction` (1, as `var`
   * has it; NumPy's is 0); NaN where there are no more than that.
   *
   * @throws {ShapeError}
   */
  nanvar(axis?: Axes | null, options: VarOptions = {}): this {
    const { keepdim = false, correction = 1 } = checkOptions("nanvar", options, ["keepdim", "correction"]);
    const d = floatOf(this.dtype), wide = this.cast(promote(d, dtypes.float32)), isNone = wide.isnan();
    const axes = resolveAxes("nanvar", axis, this.shape), mean = wide.nanmean(axes, { keepdim: true });
    const squares = (isNone.where(0, wide.sub(mean)) as this).square().sum(axes, { keepdim });
    const count = isNone.logicalNot().sum(axes, { keepdim }).sub(correction);
    return count.gt(0).where(squares.div(count.maximum(0)), NaN).cast(d) as this;
  }
  /** The root of {@linkcode nanvar}. @throws {ShapeError} */
  nanstd(axis?: Axes | null, options: VarOptions = {}): this {
    checkOptions("nanstd", options, ["keepdim", "correction"]);
    return this.nanvar(axis, options).sqrt();
  }

  /**
   * The mean over `axis`, where each element counts as its weight says; floats.
   *
   * ```ts
   * import { Tensor } from "../../../mod.ts";
   * console.log(await new Tensor([1, 2, 6]).average(0, { weights: new Tensor([1, 1, 2]) }).item()); // 3.75
   * ```
   *
   * @throws {ShapeError} for weights of another shape
   */
  average(axis?: Axes | null, options: AverageOptions = {}): this {
    const action = "average", { weights, keepdim = false } = checkOptions(action, options, ["weights", "keepdim"]);
    if (weights === undefined) return this.mean(axis, { keepdim });
    const axes = resolveAxes(action, axis, this.shape), [only] = axes;
    let w = this.tensorOf(action, "weights", weights);
    if (axes.length === 1 && w.ndim === 1 && this.ndim > 1 && w.shape[0] === this.shape[only]) {
      w = w.reshape(this.shape.map((n, i) => i === only ? n : 1)).expand(this.symbolicShape) as this;
    }
    if (w.shape.join() !== this.shape.join()) {
      throw new ShapeError(action, {
        shapes: [this.shape, w.shape],
        reason: "the weights must have the shape of the values, or be 1-D along the one axis that is reduced",
      });
    }
    const d = promote(floatOf(this.dtype), floatOf(w.dtype)), wide = promote(d, dtypes.float32);
    const share = w.cast(wide);
    return this.cast(wide).mul(share).sum(axes, { keepdim }).div(share.sum(axes, { keepdim })).cast(d);
  }

  /** The largest less the smallest over `axis`. @throws {ShapeError} for nothing */
  ptp(axis?: Axes | null, options: ReduceOptions = {}): this {
    checkOptions("ptp", options, ["keepdim"]);
    return this.max(axis, options).sub(this.min(axis, options));
  }
}
