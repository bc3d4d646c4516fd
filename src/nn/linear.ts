/**
 * The fully connected layer.
 *
 * @module
 */
import { checkInteger, checkOptions } from "../helpers/options.ts";
import { checkTensor } from "../tensor/handle/base.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { uniformWeight } from "./init.ts";

/** Options of {@linkcode Linear}. */
export interface LinearOptions {
  /** Whether to add a bias; true unless given. */
  readonly bias?: boolean;
}

/**
 * `x @ weight.T + bias`. Shape `[..., inFeatures]` to `[..., outFeatures]`.
 *
 * ```ts
 * import { nn, Tensor } from "../../mod.ts";
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
