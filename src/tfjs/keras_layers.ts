/**
 * Keras layers on tensors: what each class computes, from its config and its weights. Axes are as Keras has them, channels
 * last unless the config says otherwise. Source: the documentation of Keras's layers.
 *
 * @module
 */
import { Tensor } from "../tensor/tensor.ts";
import type { Fault } from "./weights_manifest.ts";

/** A layer while it is called. */
export interface LayerCall {
  readonly inputs: readonly Tensor[];
  readonly config: Readonly<Record<string, unknown>>;
  /** A weight by its name in the layer: `kernel`. */
  weight(name: string): Tensor;
  readonly bad: Fault;
}
type Layer = (call: LayerCall) => Tensor;

const ACTIVATIONS: Readonly<Record<string, (x: Tensor) => Tensor>> = {
  linear: (x) => x,
  relu: (x) => x.relu(),
  relu6: (x) => x.relu6(),
  elu: (x) => x.elu(),
  selu: (x) => x.selu(),
  gelu: (x) => x.gelu(),
  sigmoid: (x) => x.sigmoid(),
  hard_sigmoid: (x) => x.mul(0.2).add(0.5).clamp(0, 1),
  tanh: (x) => x.tanh(),
  softmax: (x) => x.softmax(-1),
  softplus: (x) => x.softplus(),
  softsign: (x) => x.softsign(),
  swish: (x) => x.silu(),
  mish: (x) => x.mish(),
  exponential: (x) => x.exp(),
};

/** The activation that a config names. */
function activated(x: Tensor, { config, bad }: LayerCall): Tensor {
  const name = String(config.activation ?? "linear"), f = ACTIVATIONS[name];
  if (f === undefined) throw bad(`layer "${config.name}" has the activation "${name}", which is not known`);
  return f(x);
}
/** Two numbers of a config: one for both, or a list. */
function pairOf({ config }: LayerCall, name: string, otherwise: number | readonly number[] = 1): [number, number] {
  const x = (config[name] ?? otherwise) as number | readonly number[];
  return typeof x === "number" ? [x, x] : [x[0], x[1] ?? x[0]];
}
const isFirst = ({ config }: LayerCall): boolean => config.data_format === "channels_first";
/** Computes with channels first. */
function spatial(call: LayerCall, f: (x: Tensor) => Tensor): Tensor {
  const [x] = call.inputs;
  return isFirst(call) ? f(x) : f(x.permute([0, 3, 1, 2])).permute([0, 2, 3, 1]);
}
/** What "same" adds around: as much as the last window needs, the larger half behind. */
function samePadding(
  x: Tensor,
  kernel: readonly number[],
  stride: readonly number[],
  dilation: readonly number[],
): number[] {
  const pairs = kernel.map((k, i) => {
    const n = x.shape[2 + i] as number, windows = Math.ceil(n / stride[i]);
    const all = Math.max(0, (windows - 1) * stride[i] + (k - 1) * dilation[i] + 1 - n);
    return [Math.floor(all / 2), Math.ceil(all / 2)];
  });
  return pairs.reverse().flat();
}
function biased(y: Tensor, call: LayerCall): Tensor {
  return call.config.use_bias === false ? y : y.add(call.weight("bias"));
}
/** A convolution of the input by a weight `[Cout, Cin / groups, ...]`. */
function convolved(call: LayerCall, weight: Tensor, groups: (x: Tensor) => number): Tensor {
  const stride = pairOf(call, "strides"), dilation = pairOf(call, "dilation_rate");
  return spatial(call, (x) => {
    const padding = call.config.padding === "same"
      ? samePadding(x, weight.shape.slice(2) as number[], stride, dilation)
      : 0;
    return x.conv2d(weight, null, { stride, dilation, padding, groups: groups(x) });
  });
}
/** A kernel `[h, w, channels, multiplier]` of one input channel each. */
function depthwise(kernel: Tensor): Tensor {
  const [h, w, c, m] = kernel.shape as number[];
  return kernel.permute([2, 3, 0, 1]).reshape([c * m, 1, h, w]);
}
function pooled(call: LayerCall, isMean: boolean): Tensor {
  const size = pairOf(call, "pool_size", 2), stride = pairOf(call, "strides", size);
  return spatial(call, (x) => {
    const padding = call.config.padding === "same" ? samePadding(x, size, stride, [1, 1]) : 0;
    if (!isMean) return x.maxPool2d(size, { stride, padding });
    return x.avgPool2d(size, { stride, padding, countIncludePad: false });
  });
}
function normalized(call: LayerCall): Tensor {
  const { config, inputs: [x] } = call, { ndim } = x, last = Array.isArray(config.axis) ? config.axis[0] : config.axis;
  const axis = ((last as number | undefined ?? -1) + ndim) % ndim;
  const along = (t: Tensor): Tensor => t.reshape(x.shape.map((n, i) => i === axis ? n as number : 1));
  const { epsilon = 1e-3, scale = true, center = true } = config as {
    epsilon?: number;
    scale?: boolean;
    center?: boolean;
  };
  const y = x.sub(along(call.weight("moving_mean"))).div(along(call.weight("moving_variance")).add(epsilon).sqrt());
  const scaled = scale ? y.mul(along(call.weight("gamma"))) : y;
  return center ? scaled.add(along(call.weight("beta"))) : scaled;
}
const fold = (f: (a: Tensor, b: Tensor) => Tensor): Layer => ({ inputs }) => inputs.reduce(f);
const same: Layer = ({ inputs: [x] }) => x;
const axesOf = (call: LayerCall): number[] => isFirst(call) ? [2, 3] : [1, 2];

/** What each class of layers computes. */
export const KERAS_LAYERS: Readonly<Record<string, Layer>> = {
  Activation: (c) => activated(c.inputs[0], c),
  ReLU: ({ inputs: [x], config }) => config.max_value == null ? x.relu() : x.clamp(0, config.max_value as number),
  LeakyReLU: ({ inputs: [x], config }) => x.leakyRelu(Number(config.alpha ?? config.negative_slope ?? 0.3)),
  ELU: ({ inputs: [x] }) => x.elu(),
  Softmax: ({ inputs: [x], config }) => x.softmax(Number(config.axis ?? -1)),
  PReLU: ({ inputs: [x], weight }) => x.gt(0).where(x, x.mul(weight("alpha"))),
  Dropout: same,
  SpatialDropout2D: same,
  GaussianNoise: same,
  Add: fold((a, b) => a.add(b)),
  Subtract: fold((a, b) => a.sub(b)),
  Multiply: fold((a, b) => a.mul(b)),
  Maximum: fold((a, b) => a.maximum(b)),
  Minimum: fold((a, b) => a.minimum(b)),
  Average: ({ inputs }) => inputs.reduce((a, b) => a.add(b)).div(inputs.length),
  Concatenate: ({ inputs, config }) => Tensor.cat([...inputs], Number(config.axis ?? -1)),
  Dense: (c) => activated(biased(c.inputs[0].matmul(c.weight("kernel")), c), c),
  Embedding: ({ inputs: [x], weight }) => weight("embeddings").at(x.cast("int32")),
  Flatten: ({ inputs: [x] }) => x.reshape([x.shape[0] as number, -1]),
  Reshape: ({ inputs: [x], config }) => x.reshape([x.shape[0] as number, ...config.target_shape as number[]]),
  Permute: ({ inputs: [x], config }) => x.permute([0, ...config.dims as number[]]),
  Conv2D: (c) =>
    activated(biased(convolved(c, c.weight("kernel").permute([3, 2, 0, 1]), () => Number(c.config.groups ?? 1)), c), c),
  DepthwiseConv2D: (c) =>
    activated(biased(convolved(c, depthwise(c.weight("depthwise_kernel")), (x) => x.shape[1] as number), c), c),
  SeparableConv2D: (c) => {
    const each = convolved(c, depthwise(c.weight("depthwise_kernel")), (x) => x.shape[1] as number);
    return activated(biased(each.matmul(c.weight("pointwise_kernel").flatten(0, 2)), c), c);
  },
  MaxPooling2D: (c) => pooled(c, false),
  AveragePooling2D: (c) => pooled(c, true),
  GlobalAveragePooling2D: (c) => c.inputs[0].mean(axesOf(c), { keepdim: c.config.keepdims === true }),
  GlobalMaxPooling2D: (c) => c.inputs[0].max(axesOf(c), { keepdim: c.config.keepdims === true }),
  UpSampling2D: (c) => {
    const [h, w] = pairOf(c, "size", 2), mode = c.config.interpolation === "bilinear" ? "linear" : "nearest";
    return spatial(c, (x) => x.interpolate([(x.shape[2] as number) * h, (x.shape[3] as number) * w], { mode }));
  },
  ZeroPadding2D: (c) => {
    const given = (c.config.padding ?? 1) as number | (number | number[])[];
    const pairs = (typeof given === "number" ? [given, given] : given).map((p) => typeof p === "number" ? [p, p] : p);
    return spatial(c, (x) => x.pad([[0, 0], [0, 0], ...pairs] as [number, number][]));
  },
  BatchNormalization: normalized,
  LayerNormalization: ({ inputs: [x], config, weight }) =>
    x.layernorm(-1, { eps: Number(config.epsilon ?? 1e-3) }).mul(weight("gamma")).add(weight("beta")),
};
