/**
 * Norms over windows, and values put back to where maxima of windows were, of one, two and three axes.
 *
 * @module
 */
import { ArgumentError, DTypeError, ShapeError } from "../../helpers/errors.ts";
import { prod, sameArray } from "../../helpers/math.ts";
import { checkNumber, checkOptions } from "../../helpers/options.ts";
import { broadcastTo, reshape } from "../../uop/core/build_movement.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { constant } from "../../uop/core/uop.ts";
import { GradientArg, withGradient } from "../../uop/graph/given_gradient.ts";
import { checkIntegers } from "../handle/axes.ts";
import { checkTensor, TensorBase } from "../handle/base.ts";
import { constantAxis } from "../handle/dims.ts";
import { foldKeys } from "../nodes/segments.ts";
import { gatherNode, indexNode } from "../nodes/select.ts";
import { lastAxes, padPairs, type PerAxis, perAxis, type PoolOptions, poolWindow, windowRank } from "./conv.ts";
import type { PoolTensor } from "./pools.ts";

/** Options of {@linkcode UnpoolTensor.lpPool2d}. */
export type LpPoolOptions = Pick<PoolOptions, "stride" | "ceilMode">;
/** Options of {@linkcode UnpoolTensor.maxUnpool2d}: those of the pool, and the size of the result, where they leave it open. */
export type UnpoolOptions = Omit<PoolOptions, "ceilMode"> & { readonly outputSize?: readonly number[] };

/** Of values `[..., n]` written to places `[..., size]` at `keys`: what is at each one's place. */
const FROM_PLACES = new GradientArg(
  (g, [values, keys]) => [gatherNode(g, shapeOf(values).length - 1, keys), undefined],
  true,
);

/** The families that it is written in. */
export interface UnpoolTensor extends PoolTensor {}
/** Tensors with norms over windows, and with unpools. */
export abstract class UnpoolTensor extends TensorBase {
  /**
   * The sum of x^normType over windows of the last axes (as many as `kernelSize` lists; a number stands for two), to the
   * power 1 / normType: a norm for even orders, of what is not negative for all. A window that `ceilMode` lets begin inside
   * counts as if it was whole. The gradient of a sum of 0 is 0, as in PyTorch.
   *
   * @throws {ShapeError} where no window fits @throws {ArgumentError} for an order that is 0 or not finite
   */
  lpPool2d(
    normType: number,
    kernelSize: PerAxis = [2, 2],
    options: LpPoolOptions = {},
  ): this {
    return this.normOver("lpPool2d", normType, kernelSize, options);
  }
  /** {@linkcode lpPool2d} of one axis. @throws {ShapeError} {ArgumentError} */
  lpPool1d(normType: number, kernelSize: PerAxis, options: LpPoolOptions = {}): this {
    return this.normOver("lpPool1d", normType, perAxis("lpPool1d", "kernelSize", kernelSize, 1, 1), options);
  }
  /** {@linkcode lpPool2d} of three axes. @throws {ShapeError} {ArgumentError} */
  lpPool3d(normType: number, kernelSize: PerAxis, options: LpPoolOptions = {}): this {
    return this.normOver("lpPool3d", normType, perAxis("lpPool3d", "kernelSize", kernelSize, 3, 1), options);
  }

  /** The norm over windows. */
  private normOver(action: string, normType: number, kernelSize: PerAxis, options: LpPoolOptions): this {
    checkOptions(action, options, ["stride", "ceilMode"]);
    if (!Number.isFinite(checkNumber(action, "normType", normType)) || normType === 0) {
      throw new ArgumentError(action, { reason: `normType must be a number other than 0, not ${normType}` });
    }
    const { kernel } = poolWindow(this.shape, action, kernelSize, options);
    const sum = this.pow(normType).avgPool2d(kernel, options).mul(prod(kernel)), isZero = sum.eq(0);
    return isZero.where(0, (isZero.where(1, sum) as this).pow(1 / normType)) as this;
  }

  /**
   * Undoes {@linkcode maxPool2d}: puts each value at its flat index, and zeros elsewhere. Of several at one index, as where
   * overlapping windows share a maximum, the last is written, and all have the gradient of that place, as in PyTorch. An
   * index beyond the result writes nothing.
   * @throws {ShapeError} unless `indices` have this shape @throws {DTypeError} unless they are integers
   */
  maxUnpool2d(
    indices: this,
    kernelSize: PerAxis = [2, 2],
    options: UnpoolOptions = {},
  ): this {
    return this.unpooled(indices, kernelSize, options);
  }
  /** {@linkcode maxUnpool2d} of one axis. @throws {ShapeError} {DTypeError} */
  maxUnpool1d(indices: this, kernelSize: PerAxis, options: UnpoolOptions = {}): this {
    return this.unpooled(indices, perAxis("maxUnpool1d", "kernelSize", kernelSize, 1, 1), options);
  }
  /** {@linkcode maxUnpool2d} of three axes. @throws {ShapeError} {DTypeError} */
  maxUnpool3d(indices: this, kernelSize: PerAxis, options: UnpoolOptions = {}): this {
    return this.unpooled(indices, perAxis("maxUnpool3d", "kernelSize", kernelSize, 3, 1), options);
  }

  /** Values at their places among zeros, of as many axes as the kernel has. */
  private unpooled(indices: this, kernelSize: PerAxis, options: UnpoolOptions): this {
    checkOptions("unpool", options, ["stride", "dilation", "padding", "outputSize"]);
    const rank = windowRank("unpool", "kernelSize", kernelSize);
    checkTensor("unpool", "indices", indices);
    const shape = this.shape, lead = shape.slice(0, -rank), from = prod(shape.slice(-rank));
    const kernel = perAxis("unpool", "kernelSize", kernelSize, rank, 1);
    const stride = perAxis("unpool", "stride", options.stride ?? kernel, rank, 1);
    const gaps = perAxis("unpool", "dilation", options.dilation ?? 1, rank, 1);
    const pairs = padPairs("unpool", options.padding ?? 0, rank);
    if (rank === 0 || shape.length < rank) {
      throw new ShapeError("unpool", { shapes: [shape], reason: `it has fewer axes than the kernel, ${rank}` });
    }
    if (!sameArray(indices.shape, shape)) {
      throw new ShapeError("unpool", {
        shapes: [shape, indices.shape],
        reason: "there must be an index for each value",
      });
    }
    if (!indices.dtype.isInt) {
      throw new DTypeError("unpool with indices of dtype", {
        dtypes: [indices.dtype],
        reason: "they must be integers",
      });
    }
    const given = options.outputSize === undefined
      ? undefined
      : checkIntegers("unpool", "outputSize", options.outputSize).slice(-rank);
    const size = given ??
      kernel.map((k, i) =>
        (shape[lead.length + i] - 1) * stride[i] - pairs[i][0] - pairs[i][1] + gaps[i] * (k - 1) + 1
      );
    perAxis("unpool", "outputSize", size, rank, 0);
    const total = prod(size), result = broadcastTo(constant(0, this.dtype), [...lead, total]);
    for (const axis of lastAxes(shape, rank)) constantAxis("unpool", this.uop, axis);
    const keys = indexNode("unpool", reshape(indices.uop, [...lead, from]), result, lead.length);
    const values = reshape(this.uop, [...lead, from]);
    const spread = foldKeys(keys, values, total, "last").values;
    const made = this.dtype.isFloat && from > 0 ? withGradient(spread, [values, keys], FROM_PLACES) : spread;
    return this.wrap(reshape(made, [...lead, ...size]));
  }
}
