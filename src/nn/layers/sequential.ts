/**
 * Layers one after the other, and those without a method of tensors that is called alike.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import { checkInteger, checkNumber, checkOptions, describe } from "../../helpers/options.ts";
import { hasState } from "../../helpers/stateful.ts";
import { checkTensor } from "../../tensor/handle/base.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { isLayer } from "./init.ts";
import type { Layer } from "./method_layers.ts";

/**
 * Layers, or functions of a tensor, each of which is called with what the one before gives. Their weights are named by their
 * places, as PyTorch's: "0.weight".
 *
 * ```ts
 * import { nn, Tensor } from "../../../mod.ts";
 * const net = new nn.Sequential([new nn.Linear(2, 8), new nn.ReLU(), (x) => x.mul(2), new nn.Linear(8, 1)]);
 * console.log(net.call(Tensor.zeros([3, 2])).shape); // [3, 1]
 * console.log(Object.keys(nn.state.getStateDict(net)).join(" ")); // 0.weight 0.bias 3.weight 3.bias
 * ```
 */
export class Sequential {
  static {
    hasState(this.prototype, (s) => ({ ...s.layers }));
  }
  /** What is called, in order. */
  readonly layers: readonly (Layer | ((x: Tensor) => Tensor))[];

  /** Takes the layers as a list, or as arguments. @throws {ArgumentError} for what is neither a layer nor a function */
  constructor(layers: readonly (Layer | ((x: Tensor) => Tensor))[]);
  /** The layers as arguments, as PyTorch has them. */
  constructor(...layers: readonly (Layer | ((x: Tensor) => Tensor))[]);
  constructor(...given: readonly unknown[]) {
    const layers = (given.length === 1 && Array.isArray(given[0]) ? given[0] : given) as unknown[];
    for (const [i, l] of layers.entries()) {
      if (typeof l === "function" && !/^class\b/.test(Function.prototype.toString.call(l))) continue;
      if (isLayer(l)) continue;
      const reason = typeof l === "function" ? `layer ${i} is a class; make one: new ${l.name}()` : undefined;
      throw new ArgumentError("make Sequential", {
        reason: reason ?? `layer ${i} must be a layer, with a method call, or a function, not ${describe(l)}`,
      });
    }
    this.layers = [...layers] as (Layer | ((x: Tensor) => Tensor))[];
  }

  /** What the last layer gives. @throws {ArgumentError} where a layer gives no tensor */
  call(x: Tensor): Tensor {
    let y = checkTensor("apply Sequential", "x", x);
    for (const [i, l] of this.layers.entries()) {
      y = checkTensor("apply Sequential", `what layer ${i} gives`, typeof l === "function" ? l(y) : l.call(y));
    }
    return y;
  }
  /** The layers. */
  [Symbol.iterator](): Iterator<Layer | ((x: Tensor) => Tensor)> {
    return this.layers[Symbol.iterator]();
  }
}

/** Gives what it is given. */
export class Identity {
  /** The tensor. */
  call(x: Tensor): Tensor {
    return checkTensor("apply Identity", "x", x);
  }
}

/** `x.flatten(startDim, endDim)`, by default of all axes but the first. */
export class Flatten {
  /** From axis `startDim` (1) to `endDim` (the last). */
  constructor(readonly startDim: number = 1, readonly endDim: number = -1) {
    checkInteger("make Flatten", "startDim", startDim);
    checkInteger("make Flatten", "endDim", endDim);
  }
  /** @throws {ShapeError} for axes that it has not */
  call(x: Tensor): Tensor {
    return checkTensor("apply Flatten", "x", x).flatten(this.startDim, this.endDim);
  }
}

/** `x.prelu(weight)` with a weight that is learned: one, or one a channel. */
export class PReLU {
  /** `[numParameters]`, from 0.25 on. */
  weight: Tensor;
  /** @throws {ArgumentError} for an unknown option */
  constructor(options: { readonly numParameters?: number; readonly init?: number } = {}) {
    const { numParameters = 1, init = 0.25 } = checkOptions("make PReLU", options, ["numParameters", "init"]);
    checkInteger("make PReLU", "numParameters", numParameters, 1);
    checkNumber("make PReLU", "init", init);
    this.weight = Tensor.full([numParameters], init, { dtype: "float32", requiresGrad: true }).clone();
  }
  /** @throws {ShapeError} for another number of channels */
  call(x: Tensor): Tensor {
    return checkTensor("apply PReLU", "x", x).prelu(this.weight);
  }
}
