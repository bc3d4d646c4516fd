/**
 * What calls of public functions and classes are made on or given: functions, weights with gradients, optimizers, layers.
 *
 * @module
 */
import { nn, Tensor } from "../../../mod.ts";
import { type Arg, bool, opts, tensor } from "./argument_kinds.ts";
import { f32 } from "./argument_makers.ts";

/** Functions that fail for nothing, as users' own may. */
export const exp = (x: unknown): Tensor => x instanceof Tensor ? x.exp() : f32(2).exp();
export const sum = (x: unknown): Tensor => x instanceof Tensor ? x.sum() : f32(2).sum();

export const weights = (): Tensor[] => [new Tensor([1, 2], { requiresGrad: true })];
export const trained = (): Tensor[] => {
  const w = weights();
  w[0].square().sum().backward();
  return w;
};
export const sgd = (): nn.optim.SGD => new nn.optim.SGD(trained(), { lr: 0.1 });
export const encoder = (): nn.TransformerEncoderLayer => new nn.TransformerEncoderLayer(4, 2, { dimFeedforward: 4 });
export const decoder = (): nn.TransformerDecoderLayer => new nn.TransformerDecoderLayer(4, 2, { dimFeedforward: 4 });
export const masks = (): Arg =>
  opts({ attnMask: tensor(f32(2, 2)), keyPaddingMask: tensor(Tensor.zeros([1, 2])), isCausal: bool(false) });
