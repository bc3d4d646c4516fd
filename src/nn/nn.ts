/**
 * The namespace `nn`: layers, called by `.call(x)`; `optim`, optimizers; `datasets`; `state`, weights by name.
 *
 * @module
 */
export {
  Conv1d,
  Conv2d,
  type ConvOptions,
  ConvTranspose1d,
  ConvTranspose2d,
  type ConvTransposeOptions,
} from "./conv.ts";
export { Dropout } from "./dropout.ts";
export { Embedding } from "./embedding.ts";
export { Linear, type LinearOptions } from "./linear.ts";
export { LSTMCell, type LSTMCellOptions } from "./lstm.ts";
export {
  BatchNorm,
  BatchNorm2d,
  type BatchNormOptions,
  GroupNorm,
  type GroupNormOptions,
  InstanceNorm,
  LayerNorm,
  LayerNorm2d,
  type LayerNormOptions,
  RMSNorm,
  type RMSNormOptions,
} from "./norm.ts";
export * as optim from "./optim.ts";
export * as datasets from "./datasets/mod.ts";
export * as state from "../state/state.ts";
