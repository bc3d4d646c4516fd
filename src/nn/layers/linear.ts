/**
 * The fully connected layer, and that of products of two inputs.
 *
 * @module
 */
import { checkInteger, checkOptions } from "../../helpers/options.ts";
import { checkTensor } from "../../tensor/handle/base.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import { uniformWeight } from "./init.ts";

/** Options of {@linkcode Linear} and {@linkcode Bilinear}. */
export interface LinearOptions {
  /** Whether to add a bias; true unless given. */
  readonly bias?: boolean;
}

/**
 * `x @ weight.T + bias`. Shape `[..., inFeatures]` to `[..., outFeatures]`.
 *
 * ```ts
 * import { nn, Tensor } from "../../../mod.ts";
 * const layer = new nn.Linear(784, 10);
 * layer.call(Tensor.zeros([64, 784])).shape; // [64, 10]
 * ```
 */
export class Linear {
  /** `[outFeatures, inFeatures]`, drawn from ±1/sqrt(inFeatures) as in PyTorch. */
  weight: Tensor;
  /** `[outFeatures]`, or undefined. */
  bias: Tensor | undefined;

  /** @throws {ArgumentError} for an unknown option or a size that is no positive integer */
  constructor(inFeatures: number, outFeatures: number, options: LinearOptions = {}) {
    checkOptions("make Linear", options, ["bias"]);
    checkInteger("make Linear", "inFeatures", inFeatures, 1);
    checkInteger("make Linear", "outFeatures", outFeatures, 1);
    const bound = 1 / Math.sqrt(inFeatures);
    this.weight = uniformWeight([outFeatures, inFeatures], bound);
    this.bias = options.bias ?? true ? uniformWeight([outFeatures], bound) : undefined;
  }

  /** @throws {ShapeError} if the last axis of `x` is not inFeatures */
  call(x: Tensor): Tensor {
    return checkTensor("apply Linear", "x", x).linear(this.weight.transpose(), this.bias);
  }
}

/**
 * `x1 weight[k] x2 + bias[k]` for each output k: `[..., in1Features]` and `[..., in2Features]` to `[..., outFeatures]`.
 *
 * ```ts
 * import { nn, Tensor } from "../../../mod.ts";
 * const layer = new nn.Bilinear(20, 30, 40);
 * layer.call(Tensor.zeros([8, 20]), Tensor.zeros([8, 30])).shape; // [8, 40]
 * ```
 */
export class Bilinear {
  /** `[outFeatures, in1Features, in2Features]`, drawn from ±1/sqrt(in1Features) as in PyTorch. */
  weight: Tensor;
  /** `[outFeatures]`, or undefined. */
  bias: Tensor | undefined;

  /** @throws {ArgumentError} for an unknown option or a size that is no positive integer */
  constructor(in1Features: number, in2Features: number, outFeatures: number, options: LinearOptions = {}) {
    const what = "make Bilinear", { bias = true } = checkOptions(what, options, ["bias"]);
    for (const [name, n] of Object.entries({ in1Features, in2Features, outFeatures })) checkInteger(what, name, n, 1);
    const bound = 1 / Math.sqrt(in1Features);
    this.weight = uniformWeight([outFeatures, in1Features, in2Features], bound);
    this.bias = bias ? uniformWeight([outFeatures], bound) : undefined;
  }

  /** @throws {ShapeError} unless both inputs have their features in the last axis, and the same axes before it */
  call(x1: Tensor, x2: Tensor): Tensor {
    return checkTensor("apply Bilinear", "x1", x1).bilinear(x2, this.weight, this.bias);
  }
}
