/**
 * The namespace `nn`: layers, called by `.call(x)`; `optim`, optimizers; `datasets`; `state`, weights by name.
 *
 * @module
 */
export {
  type AttentionCallOptions,
  MultiHeadAttention,
  MultiheadAttention,
  type MultiHeadAttentionOptions,
} from "./layers/attention.ts";
export {
  type CellOptions,
  GRUCell,
  type GRUCellOptions,
  LSTMCell,
  LSTMCell as LstmCell,
  type LSTMCellOptions,
  type Nonlinearity,
  RNNCell,
  type RNNCellOptions,
} from "./layers/cells.ts";
export {
  Conv1d,
  Conv2d,
  Conv3d,
  type ConvOptions,
  ConvTranspose1d,
  ConvTranspose2d,
  ConvTranspose3d,
  type ConvTransposeOptions,
} from "./layers/conv_layers.ts";
export { AlphaDropout, Dropout, Dropout1d, Dropout2d, Dropout3d } from "./layers/dropout.ts";
export { Embedding } from "./layers/embedding.ts";
export {
  AdaptiveAvgPool1d,
  AdaptiveAvgPool2d,
  AdaptiveAvgPool3d,
  AdaptiveMaxPool1d,
  AdaptiveMaxPool2d,
  AdaptiveMaxPool3d,
  AvgPool1d,
  AvgPool2d,
  AvgPool3d,
  BCELoss,
  BCEWithLogitsLoss,
  CELU,
  ChannelShuffle,
  CrossEntropyLoss,
  ELU,
  GELU,
  GLU,
  Hardshrink,
  Hardsigmoid,
  Hardswish,
  Hardtanh,
  HingeEmbeddingLoss,
  HuberLoss,
  KLDivLoss,
  L1Loss,
  type Layer,
  type LayerClass,
  LeakyReLU,
  LocalResponseNorm,
  LogSigmoid,
  LogSoftmax,
  type Loss,
  type LossClass,
  LPPool2d,
  MaxPool1d,
  MaxPool2d,
  MaxPool3d,
  Mish,
  MSELoss,
  MultiLabelMarginLoss,
  MultiLabelSoftMarginLoss,
  MultiMarginLoss,
  NLLLoss,
  Pad,
  PixelShuffle,
  PixelUnshuffle,
  PoissonNLLLoss,
  ReLU,
  ReLU6,
  RReLU,
  SELU,
  Sigmoid,
  SiLU,
  SmoothL1Loss,
  SoftMarginLoss,
  Softmax,
  Softmin,
  Softplus,
  Softshrink,
  Softsign,
  Tanh,
  Tanhshrink,
  Threshold,
  Unflatten,
  Upsample,
} from "./layers/method_layers.ts";
export { Flatten, Identity, PReLU, Sequential } from "./layers/sequential.ts";
export { Bilinear, Linear, type LinearOptions } from "./layers/linear.ts";
export {
  BatchNorm,
  BatchNorm as BatchNorm1d,
  BatchNorm as BatchNorm3d,
  BatchNorm2d,
  type BatchNormOptions,
  GroupNorm,
  type GroupNormOptions,
  InstanceNorm,
  LayerNorm,
  LayerNorm2d,
  type LayerNormOptions,
  RMSNorm,
  RMSNorm as RmsNorm,
  type RMSNormOptions,
} from "./layers/norm.ts";
export { GRU, LSTM, type RecurrentOptions, RNN, type RNNOptions } from "./layers/recurrent.ts";
export {
  type SequenceMasks,
  TransformerDecoderLayer,
  TransformerEncoderLayer,
  type TransformerLayerOptions,
} from "./layers/transformer.ts";
export {
  Transformer,
  TransformerDecoder,
  TransformerEncoder,
  type TransformerMasks,
  type TransformerOptions,
} from "./layers/encoder_decoder.ts";
export { AveragedModel, EMA, type EMAOptions } from "./optim/averaging.ts";
export * as init from "./initial_values.ts";
export * as metrics from "./metrics.ts";
export * as utils from "./utils.ts";
export * as optim from "./optim.ts";
export * as data from "./data/data.ts";
export * as datasets from "./datasets/datasets.ts";
export * as state from "../state/state.ts";
