/**
 * Layers whose number of inputs is what the first tensor has that they are called with: from then on they are the layer
 * that they are named for, with its weights. An optimizer is made after that.
 *
 * @module
 */
import { ArgumentError } from "../../../helpers/errors.ts";
import { hasState } from "../../../helpers/stateful.ts";
import { named } from "../init.ts";
import { checkTensor } from "../../../tensor/handle/base.ts";
import type { Tensor } from "../../../tensor/tensor.ts";
import { Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d } from "../conv_layers.ts";
import { Linear } from "../linear.ts";
import type { Layer } from "../method_layers.ts";
import { BatchNorm, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d } from "../norm.ts";

type Made = new (size: number, ...rest: never[]) => Layer;
/** The class of a layer that is made without its number of inputs: all other arguments are those of `C`. */
export type LazyClass<C extends Made> = new (
  ...args: ConstructorParameters<C> extends [size: number, ...rest: infer R] ? R : never
) => InstanceType<C>;

/** The class of layers that become one of `layer` by the size of an axis. */
function lazy<C extends Made>(name: string, layer: C, axis: number): LazyClass<C> {
  const made = class {
    readonly #args: readonly unknown[];
    constructor(...args: unknown[]) {
      this.#args = args;
    }
    call(x: Tensor): Tensor {
      const size = checkTensor(`apply ${name}`, "x", x).shape.at(axis) ?? 0;
      const own = Object.assign(this, new layer(size, ...this.#args as never[]));
      return (Object.setPrototypeOf(own, layer.prototype) as Layer).call(x);
    }
  };
  named(made, name);
  hasState(made.prototype, () => {
    throw new ArgumentError(`list the weights of ${name}`, {
      reason: "it has none before it is called with a first tensor; call the model once, and make the optimizer then",
    });
  });
  return made as unknown as LazyClass<C>;
}

/** {@linkcode Linear} whose inFeatures are the last axis of the first tensor. */
export const LazyLinear: LazyClass<typeof Linear> = /* @__PURE__ */ lazy("LazyLinear", Linear, -1);
/** {@linkcode Conv1d} whose inChannels are those of the first tensor. */
export const LazyConv1d: LazyClass<typeof Conv1d> = /* @__PURE__ */ lazy("LazyConv1d", Conv1d, -2);
/** {@linkcode Conv2d} whose inChannels are those of the first tensor. */
export const LazyConv2d: LazyClass<typeof Conv2d> = /* @__PURE__ */ lazy("LazyConv2d", Conv2d, -3);
/** {@linkcode Conv3d} whose inChannels are those of the first tensor. */
export const LazyConv3d: LazyClass<typeof Conv3d> = /* @__PURE__ */ lazy("LazyConv3d", Conv3d, -4);
/** {@linkcode ConvTranspose1d} whose inChannels are those of the first tensor. */
export const LazyConvTranspose1d: LazyClass<typeof ConvTranspose1d> = /* @__PURE__ */ lazy(
  "LazyConvTranspose1d",
  ConvTranspose1d,
  -2,
);
/** {@linkcode ConvTranspose2d} whose inChannels are those of the first tensor. */
export const LazyConvTranspose2d: LazyClass<typeof ConvTranspose2d> = /* @__PURE__ */ lazy(
  "LazyConvTranspose2d",
  ConvTranspose2d,
  -3,
);
/** {@linkcode ConvTranspose3d} whose inChannels are those of the first tensor. */
export const LazyConvTranspose3d: LazyClass<typeof ConvTranspose3d> = /* @__PURE__ */ lazy(
  "LazyConvTranspose3d",
  ConvTranspose3d,
  -4,
);
/** {@linkcode BatchNorm} whose size is that of axis 1 of the first tensor. */
export const LazyBatchNorm1d: LazyClass<typeof BatchNorm> = /* @__PURE__ */ lazy("LazyBatchNorm1d", BatchNorm, 1);
/** {@linkcode BatchNorm} whose size is that of axis 1 of the first tensor. */
export const LazyBatchNorm2d: LazyClass<typeof BatchNorm> = /* @__PURE__ */ lazy("LazyBatchNorm2d", BatchNorm, 1);
/** {@linkcode BatchNorm} whose size is that of axis 1 of the first tensor. */
export const LazyBatchNorm3d: LazyClass<typeof BatchNorm> = /* @__PURE__ */ lazy("LazyBatchNorm3d", BatchNorm, 1);
/** {@linkcode InstanceNorm1d} whose size is the channels of the first tensor. */
export const LazyInstanceNorm1d: LazyClass<typeof InstanceNorm1d> = /* @__PURE__ */ lazy(
  "LazyInstanceNorm1d",
  InstanceNorm1d,
  -2,
);
/** {@linkcode InstanceNorm2d} whose size is the channels of the first tensor. */
export const LazyInstanceNorm2d: LazyClass<typeof InstanceNorm2d> = /* @__PURE__ */ lazy(
  "LazyInstanceNorm2d",
  InstanceNorm2d,
  -3,
);
/** {@linkcode InstanceNorm3d} whose size is the channels of the first tensor. */
export const LazyInstanceNorm3d: LazyClass<typeof InstanceNorm3d> = /* @__PURE__ */ lazy(
  "LazyInstanceNorm3d",
  InstanceNorm3d,
  -4,
);
