/**
 * Pools and convolutions of one and three axes by PyTorch's names, whose sizes may be one number, and pools over windows
 * that are drawn. What computes them takes any rank: conv.ts and pools.ts.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { ArgumentError, ShapeError } from "../../helpers/errors.ts";
import { prod } from "../../helpers/math.ts";
import { checkBoolean, checkNumber, checkOptions } from "../../helpers/options.ts";
import { checkTensor, TensorBase } from "../handle/base.ts";
import { drawUniform } from "../nodes/random.ts";
import { type ConvOptions, type ConvTransposeOptions, type PerAxis, perAxis, type PoolOptions } from "./conv.ts";
import type { PoolTensor } from "./pools.ts";
import { extentsOf, withExtents } from "../../uop/graph/extent.ts";
import { constantAxes } from "../handle/dims.ts";

/** Options of {@linkcode RankTensor.fractionalMaxPool2d}: the size of the result, or its share of that of this. */
export interface FractionalPoolOptions {
  /** Windows along each axis. */
  readonly outputSize?: PerAxis;
  /** The same as a share of the axis, in (0, 1). */
  readonly outputRatio?: PerAxis;
  /** Whether flat positions of the maxima are given, too; false unless given. */
  readonly returnIndices?: boolean;
}

/** Options of averages over windows. */
export type AveragePoolOptions = PoolOptions & {
  readonly countIncludePad?: boolean;
  readonly divisorOverride?: number;
};

/** Throws unless the windows of a weight have `rank` axes. @throws {ShapeError} */
function checkRank(action: string, x: TensorBase, weight: TensorBase, rank: number, channels: string): void {
  const { shape } = checkTensor(action, "weight", weight);
  if (shape.length === rank + 2) return;
  throw new ShapeError(action, {
    shapes: [x.shape, shape],
    reason: `the weight has ${rank} axes behind the channels: [${channels}, ...]`,
  });
}

/** The families that it is written in. */
export interface RankTensor extends PoolTensor {}
/** Tensors with sequences and volumes. */
export abstract class RankTensor extends TensorBase {
  /** `maxPool2d` of one axis. @throws {ShapeError} where no window fits */
  maxPool1d(kernelSize: PerAxis, options: PoolOptions & { readonly returnIndices: true }): [this, this];
  /** The values alone. */
  maxPool1d(kernelSize: PerAxis, options?: PoolOptions & { readonly returnIndices?: false }): this;
  maxPool1d(kernelSize: PerAxis, options?: PoolOptions & { readonly returnIndices?: boolean }): this | [this, this] {
    return this.maxPool2d(perAxis("maxPool1d", "kernelSize", kernelSize, 1, 1), options as PoolOptions);
  }
  /** `maxPool2d` of three axes. @throws {ShapeError} where no window fits */
  maxPool3d(kernelSize: PerAxis, options: PoolOptions & { readonly returnIndices: true }): [this, this];
  /** The values alone. */
  maxPool3d(kernelSize: PerAxis, options?: PoolOptions & { readonly returnIndices?: false }): this;
  maxPool3d(kernelSize: PerAxis, options?: PoolOptions & { readonly returnIndices?: boolean }): this | [this, this] {
    return this.maxPool2d(perAxis("maxPool3d", "kernelSize", kernelSize, 3, 1), options as PoolOptions);
  }
  /** `avgPool2d` of one axis. @throws {ShapeError} where no window fits */
  avgPool1d(kernelSize: PerAxis, options?: AveragePoolOptions): this {
    return this.avgPool2d(perAxis("avgPool1d", "kernelSize", kernelSize, 1, 1), options);
  }
  /** `avgPool2d` of three axes. @throws {ShapeError} where no window fits */
  avgPool3d(kernelSize: PerAxis, options?: AveragePoolOptions): this {
    return this.avgPool2d(perAxis("avgPool3d", "kernelSize", kernelSize, 3, 1), options);
  }
  /** `adaptiveMaxPool2d` of one axis. @throws {ShapeError} */
  adaptiveMaxPool1d(outputSize: PerAxis, options: { readonly returnIndices: true }): [this, this];
  /** The values alone. */
  adaptiveMaxPool1d(outputSize: PerAxis, options?: { readonly returnIndices?: false }): this;
  adaptiveMaxPool1d(outputSize: PerAxis, options?: { readonly returnIndices?: boolean }): this | [this, this] {
    return this.adaptiveMaxPool2d(perAxis("adaptiveMaxPool1d", "outputSize", outputSize, 1, 0), options as object);
  }
  /** `adaptiveMaxPool2d` of three axes. @throws {ShapeError} */
  adaptiveMaxPool3d(outputSize: PerAxis, options: { readonly returnIndices: true }): [this, this];
  /** The values alone. */
  adaptiveMaxPool3d(outputSize: PerAxis, options?: { readonly returnIndices?: false }): this;
  adaptiveMaxPool3d(outputSize: PerAxis, options?: { readonly returnIndices?: boolean }): this | [this, this] {
    return this.adaptiveMaxPool2d(perAxis("adaptiveMaxPool3d", "outputSize", outputSize, 3, 0), options as object);
  }
  /** `conv2d` of sequences `[N, Cin, L]` by `[Cout, Cin / groups, K]`. @throws {ShapeError} for another rank */
  conv1d(weight: this, bias?: this, options?: ConvOptions): this {
    checkRank("conv1d", this, weight, 1, "Cout, Cin / groups");
    return this.conv2d(weight, bias, options);
  }
  /** `conv2d` of volumes `[N, Cin, D, H, W]` by `[Cout, Cin / groups, ...]`. @throws {ShapeError} for another rank */
  conv3d(weight: this, bias?: this, options?: ConvOptions): this {
    checkRank("conv3d", this, weight, 3, "Cout, Cin / groups");
    return this.conv2d(weight, bias, options);
  }
  /** `convTranspose2d` of sequences `[N, Cin, L]` by `[Cin, Cout / groups, K]`. @throws {ShapeError} for another rank */
  convTranspose1d(weight: this, bias?: this, options?: ConvTransposeOptions): this {
    checkRank("convTranspose1d", this, weight, 1, "Cin, Cout / groups");
    return this.convTranspose2d(weight, bias, options);
  }
  /** `convTranspose2d` of volumes `[N, Cin, D, H, W]` by `[Cin, Cout / groups, ...]`. @throws {ShapeError} for another rank */
  convTranspose3d(weight: this, bias?: this, options?: ConvTransposeOptions): this {
    checkRank("convTranspose3d", this, weight, 3, "Cin, Cout / groups");
    return this.convTranspose2d(weight, bias, options);
  }

  /**
   * Maxima over windows of `kernelSize` in the last two axes that begin where a draw says, about evenly, for each channel
   * anew (Graham, "Fractional Max-Pooling", arXiv 1412.6071). A gradient goes to the maxima. With `returnIndices` their flat
   * positions in these axes, too.
   *
   * @throws {ArgumentError} unless there is either an outputSize or an outputRatio {ShapeError} where windows do not fit
   */
  fractionalMaxPool2d(
    kernelSize: PerAxis,
    options: FractionalPoolOptions & { readonly returnIndices: true },
  ): [this, this];
  /** The values alone. */
  fractionalMaxPool2d(kernelSize: PerAxis, options: FractionalPoolOptions & { readonly returnIndices?: false }): this;
  fractionalMaxPool2d(kernelSize: PerAxis, options: FractionalPoolOptions): this | [this, this] {
    return this.fractional("fractionalMaxPool2d", kernelSize, options, 2);
  }
  /** {@linkcode fractionalMaxPool2d} of three axes. @throws {ArgumentError} {ShapeError} */
  fractionalMaxPool3d(
    kernelSize: PerAxis,
    options: FractionalPoolOptions & { readonly returnIndices: true },
  ): [this, this];
  /** The values alone. */
  fractionalMaxPool3d(kernelSize: PerAxis, options: FractionalPoolOptions & { readonly returnIndices?: false }): this;
  fractionalMaxPool3d(kernelSize: PerAxis, options: FractionalPoolOptions): this | [this, this] {
    return this.fractional("fractionalMaxPool3d", kernelSize, options, 3);
  }

  /** Maxima over drawn windows of the last `rank` axes. */
  private fractional(
    action: string,
    kernelSize: PerAxis,
    options: FractionalPoolOptions,
    rank: number,
  ): this | [this, this] {
    const { outputSize, outputRatio, returnIndices = false } = checkOptions(action, options, [
      "outputSize",
      "outputRatio",
      "returnIndices",
    ]);
    checkBoolean(action, "returnIndices", returnIndices);
    if ((outputSize === undefined) === (outputRatio === undefined)) {
      throw new ArgumentError(action, { reason: "it takes either an outputSize or an outputRatio" });
    }
    const shape = this.shape, first = shape.length - rank, lead = shape.slice(0, first), from = shape.slice(first);
    const kernel = perAxis(action, "kernelSize", kernelSize, rank, 1);
    constantAxes(action, this.uop, rank);
    if (first < 1 || from.some((n, i) => n < kernel[i])) {
      throw new ShapeError(action, { shapes: [shape, kernel], reason: `a window must fit into the last ${rank} axes` });
    }
    // a share of an axis is that of so many of its positions
    const shares: unknown = typeof outputRatio === "number" ? from.map(() => outputRatio) : outputRatio;
    const size = Array.isArray(shares)
      ? shares.map((share: unknown, i) => Math.floor(checkNumber(action, "outputRatio", share) * from[i]))
      : outputSize;
    const to = perAxis(action, outputSize === undefined ? "outputRatio" : "outputSize", size, rank, 0);
    from.forEach((n, i) => {
      if (Number.isInteger(to[i]) && to[i] >= 1 && to[i] + kernel[i] - 1 <= n) return;
      throw new ShapeError(action, {
        shapes: [shape],
        axis: first + i,
        reason: `axis ${first + i} has room for 1 to ${n - kernel[i] + 1} windows of ${kernel[i]}, not ${to[i]}`,
      });
    });
    let x: this = this.wrap(this.uop), places = this.span(from).expand(shape) as this;
    from.forEach((n, i) => {
      const [k, out] = [kernel[i], to[i]], draw = this.wrap(drawUniform([...lead, 1], dtypes.float32)) as this;
      const scale = out > 1 ? (n - k) / (out - 1) : 0, at = this.span([out]).float() as this;
      const even = at.add(draw).mul(scale).floor().sub(draw.mul(scale).floor()) as this;
      const starts = at.lt(out - 1).where(even, n - k).cast(dtypes.int32) as this; // the last window ends at the end
      const all = starts.unsqueeze(-1).add(this.span([k])).clamp(0, n - 1) as this;
      const axis = first + i, size = x.shape.map((m, j) => j === axis ? out * k : m);
      const spread = all.reshape(size.map((m, j) => j < first || j === axis ? m : 1)).expand(size).uop;
      const index = this.wrap(withExtents(spread, extentsOf(this.uop))) as this;
      x = x.gather(axis, index) as this;
      places = places.gather(axis, index) as this;
    });
    const [values, at] = x.maxPool2d(kernel, { returnIndices: true });
    if (!returnIndices) return values;
    const indices = places.flatten(first).gather(first, at.flatten(first) as this).reshape(values.shape) as this;
    return [values, indices];
  }
  /** Positions of a shape, in order. */
  private span(shape: readonly number[]): this {
    return (this.fromList(Int32Array.from({ length: prod(shape) }, (_, i) => i)) as this).reshape(shape) as this;
  }
}
