/**
 * Functions of tensors as layers, for models that are lists of layers: activations, pools, shapes, losses. Each calls the
 * method of tensors that it is named for, with the arguments that it was made with: `new nn.MaxPool2d(2).call(x)` is
 * `x.maxPool2d(2)`. A list of layers is one, too.
 *
 * @module
 */
import { named } from "./init.ts";
import { checkTensor } from "../../tensor/handle/base.ts";
import type { Tensor } from "../../tensor/tensor.ts";

/** What is called with a tensor, and gives one. */
export interface Layer {
  /** Applies it. */
  call(x: Tensor): Tensor;
}
/** What is called with predictions and what they should be, and gives a loss. */
export interface Loss {
  /** The loss: a scalar, or of each element without reduction. */
  call(x: Tensor, target: Tensor): Tensor;
}

type Method = (...args: never[]) => unknown;
/** The names of methods that give one tensor. */
type Named = { [K in keyof Tensor]: Tensor[K] extends Method ? K : never }[keyof Tensor] & string;
/** The arguments of a method, as a constructor takes them. */
type ArgumentsOf<K extends Named> = Tensor[K] extends (...args: infer A) => unknown ? A : never;
/** Those behind the first, which is the target. */
type Rest<A> = A extends [first: unknown, ...rest: infer R] ? R : [];

/** The class of a layer that calls method `K`: it is made with the method's arguments. */
export type LayerClass<K extends Named> = new (...args: ArgumentsOf<K>) => Layer;
/** The class of a loss that calls method `K`: it is made with the arguments behind the target. */
export type LossClass<K extends Named> = new (...args: Rest<ArgumentsOf<K>>) => Loss;

/** The class of a layer that calls method `K` with the two or three tensors that it is called with, and then with the options that it is made with. */
export type ComparedClass<K extends Named> = new (...args: Trailing<ArgumentsOf<K>>) => {
  /** What the method gives. */
  call(x: Tensor, ...others: Leading<ArgumentsOf<K>>): Tensor;
};
/** Arguments before the options, and the options. */
type Leading<A> = A extends [...infer L, unknown?] ? L : never;
type Trailing<A> = A extends [...infer L, (infer O)?] ? [options?: O] : never;

/** The method of a tensor, by name. */
function methodOf(name: string, x: Tensor, method: string): (...args: unknown[]) => Tensor {
  const t = checkTensor(`apply ${name}`, "x", x) as unknown as Record<string, (...args: unknown[]) => Tensor>;
  return (...args) => t[method](...args);
}

/** The name of a class as that of a method. */
function lower(name: string): string {
  return name[0].toLowerCase() + name.slice(1);
}

/** The class of layers that call a method, of the same name where none is given; `name` is the class's. */
function layer<K extends Named>(name: string, method: string = lower(name)): LayerClass<K> {
  const made = class implements Layer {
    readonly #args: readonly unknown[];
    constructor(...args: ArgumentsOf<K>) {
      this.#args = args;
    }
    call(x: Tensor): Tensor {
      return methodOf(name, x, method)(...this.#args);
    }
  };
  return named(made, name);
}

/** The class of losses that call a method with what is compared, and then what they were made with. */
function loss<C>(name: string, method: string = lower(name)): C {
  const made = class {
    readonly #args: readonly unknown[];
    constructor(...args: unknown[]) {
      this.#args = args;
    }
    call(x: Tensor, ...others: Tensor[]): Tensor {
      return methodOf(name, x, method)(...others, ...this.#args);
    }
  };
  return named(made, name) as C;
}

// ---- activations

/** `x.relu()`. */
export const ReLU: LayerClass<"relu"> = /* @__PURE__ */ layer("ReLU", "relu");
/** `x.relu6()`. */
export const ReLU6: LayerClass<"relu6"> = /* @__PURE__ */ layer("ReLU6", "relu6");
/** `x.leakyRelu(negSlope)`. */
export const LeakyReLU: LayerClass<"leakyRelu"> = /* @__PURE__ */ layer("LeakyReLU", "leakyRelu");
/** `x.elu(alpha)`. */
export const ELU: LayerClass<"elu"> = /* @__PURE__ */ layer("ELU", "elu");
/** `x.celu(alpha)`. */
export const CELU: LayerClass<"celu"> = /* @__PURE__ */ layer("CELU", "celu");
/** `x.selu({ alpha, gamma })`. */
export const SELU: LayerClass<"selu"> = /* @__PURE__ */ layer("SELU", "selu");
/** `x.gelu({ approximate })`. */
export const GELU: LayerClass<"gelu"> = /* @__PURE__ */ layer("GELU", "gelu");
/** `x.silu()`. */
export const SiLU: LayerClass<"silu"> = /* @__PURE__ */ layer("SiLU", "silu");
/** `x.mish()`. */
export const Mish: LayerClass<"mish"> = /* @__PURE__ */ layer("Mish");
/** `x.hardswish()`. */
export const Hardswish: LayerClass<"hardswish"> = /* @__PURE__ */ layer("Hardswish");
/** `x.hardsigmoid({ alpha, beta })`. */
export const Hardsigmoid: LayerClass<"hardsigmoid"> = /* @__PURE__ */ layer("Hardsigmoid");
/** `x.hardtanh({ minVal, maxVal })`. */
export const Hardtanh: LayerClass<"hardtanh"> = /* @__PURE__ */ layer("Hardtanh");
/** `x.hardshrink(lambd)`. */
export const Hardshrink: LayerClass<"hardshrink"> = /* @__PURE__ */ layer("Hardshrink");
/** `x.softshrink(lambd)`. */
export const Softshrink: LayerClass<"softshrink"> = /* @__PURE__ */ layer("Softshrink");
/** `x.tanhshrink()`. */
export const Tanhshrink: LayerClass<"tanhshrink"> = /* @__PURE__ */ layer("Tanhshrink");
/** `x.threshold(threshold, value)`. */
export const Threshold: LayerClass<"threshold"> = /* @__PURE__ */ layer("Threshold");
/** `x.rrelu({ lower, upper })`. */
export const RReLU: LayerClass<"rrelu"> = /* @__PURE__ */ layer("RReLU", "rrelu");
/** `x.sigmoid()`. */
export const Sigmoid: LayerClass<"sigmoid"> = /* @__PURE__ */ layer("Sigmoid");
/** `x.logsigmoid()`. */
export const LogSigmoid: LayerClass<"logsigmoid"> = /* @__PURE__ */ layer("LogSigmoid", "logsigmoid");
/** `x.tanh()`. */
export const Tanh: LayerClass<"tanh"> = /* @__PURE__ */ layer("Tanh");
/** `x.softplus(beta)`. */
export const Softplus: LayerClass<"softplus"> = /* @__PURE__ */ layer("Softplus");
/** `x.softsign()`. */
export const Softsign: LayerClass<"softsign"> = /* @__PURE__ */ layer("Softsign");
/** `x.glu(dim)`. */
export const GLU: LayerClass<"glu"> = /* @__PURE__ */ layer("GLU", "glu");
/** `x.softmax(axis)`. */
export const Softmax: LayerClass<"softmax"> = /* @__PURE__ */ layer("Softmax");
/** `x.softmin(axis)`. */
export const Softmin: LayerClass<"softmin"> = /* @__PURE__ */ layer("Softmin");
/** `x.logSoftmax(axis)`. */
export const LogSoftmax: LayerClass<"logSoftmax"> = /* @__PURE__ */ layer("LogSoftmax");

// ---- pools and images: kernels of any rank

/** `x.maxPool2d(kernelSize, options)`. */
export const MaxPool2d: LayerClass<"maxPool2d"> = /* @__PURE__ */ layer("MaxPool2d");
/** `x.avgPool2d(kernelSize, options)`. */
export const AvgPool2d: LayerClass<"avgPool2d"> = /* @__PURE__ */ layer("AvgPool2d");
/** `x.maxPool1d(kernelSize, options)`. */
export const MaxPool1d: LayerClass<"maxPool1d"> = /* @__PURE__ */ layer("MaxPool1d");
/** `x.maxPool3d(kernelSize, options)`. */
export const MaxPool3d: LayerClass<"maxPool3d"> = /* @__PURE__ */ layer("MaxPool3d");
/** `x.avgPool1d(kernelSize, options)`. */
export const AvgPool1d: LayerClass<"avgPool1d"> = /* @__PURE__ */ layer("AvgPool1d");
/** `x.avgPool3d(kernelSize, options)`. */
export const AvgPool3d: LayerClass<"avgPool3d"> = /* @__PURE__ */ layer("AvgPool3d");
/** `x.adaptiveMaxPool1d(outputSize, options)`. */
export const AdaptiveMaxPool1d: LayerClass<"adaptiveMaxPool1d"> = /* @__PURE__ */ layer("AdaptiveMaxPool1d");
/** `x.adaptiveMaxPool2d(outputSize, options)`. */
export const AdaptiveMaxPool2d: LayerClass<"adaptiveMaxPool2d"> = /* @__PURE__ */ layer("AdaptiveMaxPool2d");
/** `x.adaptiveMaxPool3d(outputSize, options)`. */
export const AdaptiveMaxPool3d: LayerClass<"adaptiveMaxPool3d"> = /* @__PURE__ */ layer("AdaptiveMaxPool3d");
/** `x.lpPool1d(normType, kernelSize, options)`. */
export const LPPool1d: LayerClass<"lpPool1d"> = /* @__PURE__ */ layer("LPPool1d", "lpPool1d");
/** `x.lpPool3d(normType, kernelSize, options)`. */
export const LPPool3d: LayerClass<"lpPool3d"> = /* @__PURE__ */ layer("LPPool3d", "lpPool3d");
/** `x.fractionalMaxPool2d(kernelSize, options)`. */
export const FractionalMaxPool2d: LayerClass<"fractionalMaxPool2d"> = /* @__PURE__ */ layer("FractionalMaxPool2d");
/** `x.fractionalMaxPool3d(kernelSize, options)`. */
export const FractionalMaxPool3d: LayerClass<"fractionalMaxPool3d"> = /* @__PURE__ */ layer("FractionalMaxPool3d");
/** `x.maxUnpool1d(indices, kernelSize, options)`: called with x and the indices. */
export const MaxUnpool1d: LossClass<"maxUnpool1d"> = /* @__PURE__ */ loss("MaxUnpool1d");
/** `x.maxUnpool2d(indices, kernelSize, options)`: called with x and the indices. */
export const MaxUnpool2d: LossClass<"maxUnpool2d"> = /* @__PURE__ */ loss("MaxUnpool2d");
/** `x.maxUnpool3d(indices, kernelSize, options)`: called with x and the indices. */
export const MaxUnpool3d: LossClass<"maxUnpool3d"> = /* @__PURE__ */ loss("MaxUnpool3d");
/** `x.im2col(kernelSize, options)`: PyTorch's `nn.Unfold`. */
export const Unfold: LayerClass<"im2col"> = /* @__PURE__ */ layer("Unfold", "im2col");
/** `x.fold(outputSize, kernelSize, options)`. */
export const Fold: LayerClass<"fold"> = /* @__PURE__ */ layer("Fold");
/** `x.lpPool2d(normType, kernelSize, options)`. */
export const LPPool2d: LayerClass<"lpPool2d"> = /* @__PURE__ */ layer("LPPool2d", "lpPool2d");
/** `x.adaptiveAvgPool1d(outputSize)`. */
export const AdaptiveAvgPool1d: LayerClass<"adaptiveAvgPool1d"> = /* @__PURE__ */ layer("AdaptiveAvgPool1d");
/** `x.adaptiveAvgPool2d(outputSize)`. */
export const AdaptiveAvgPool2d: LayerClass<"adaptiveAvgPool2d"> = /* @__PURE__ */ layer("AdaptiveAvgPool2d");
/** `x.adaptiveAvgPool3d(outputSize)`. */
export const AdaptiveAvgPool3d: LayerClass<"adaptiveAvgPool3d"> = /* @__PURE__ */ layer("AdaptiveAvgPool3d");
/** `x.interpolate(size, options)`. */
export const Upsample: LayerClass<"interpolate"> = /* @__PURE__ */ layer("Upsample", "interpolate");
/** `x.pixelShuffle(factor)`. */
export const PixelShuffle: LayerClass<"pixelShuffle"> = /* @__PURE__ */ layer("PixelShuffle");
/** `x.pixelUnshuffle(factor)`. */
export const PixelUnshuffle: LayerClass<"pixelUnshuffle"> = /* @__PURE__ */ layer("PixelUnshuffle");
/** `x.channelShuffle(groups)`. */
export const ChannelShuffle: LayerClass<"channelShuffle"> = /* @__PURE__ */ layer("ChannelShuffle");
/** `x.localResponseNorm(size, options)`. */
export const LocalResponseNorm: LayerClass<"localResponseNorm"> = /* @__PURE__ */ layer("LocalResponseNorm");
/** `x.pad(padding, { mode, value })`. */
export const Pad: LayerClass<"pad"> = /* @__PURE__ */ layer("Pad");
/** `x.unflatten(dim, sizes)`. */
export const Unflatten: LayerClass<"unflatten"> = /* @__PURE__ */ layer("Unflatten");

// ---- losses

/** `x.mseLoss(target, options)`. */
export const MSELoss: LossClass<"mseLoss"> = /* @__PURE__ */ loss("MSELoss", "mseLoss");
/** `x.l1Loss(target, options)`. */
export const L1Loss: LossClass<"l1Loss"> = /* @__PURE__ */ loss("L1Loss");
/** `x.smoothL1Loss(target, options)`. */
export const SmoothL1Loss: LossClass<"smoothL1Loss"> = /* @__PURE__ */ loss("SmoothL1Loss");
/** `x.huberLoss(target, options)`. */
export const HuberLoss: LossClass<"huberLoss"> = /* @__PURE__ */ loss("HuberLoss");
/** `x.crossEntropy(target, options)`. */
export const CrossEntropyLoss: LossClass<"crossEntropy"> = /* @__PURE__ */ loss("CrossEntropyLoss", "crossEntropy");
/** `x.nllLoss(target, weight, options)`. */
export const NLLLoss: LossClass<"nllLoss"> = /* @__PURE__ */ loss("NLLLoss", "nllLoss");
/** `x.binaryCrossentropy(target, reduction)`. */
export const BCELoss: LossClass<"binaryCrossentropy"> = /* @__PURE__ */ loss("BCELoss", "binaryCrossentropy");
/** `x.binaryCrossentropyLogits(target, options)`. */
export const BCEWithLogitsLoss: LossClass<"binaryCrossentropyLogits"> = /* @__PURE__ */ loss(
  "BCEWithLogitsLoss",
  "binaryCrossentropyLogits",
);
/** `x.klDiv(target, options)`. */
export const KLDivLoss: LossClass<"klDiv"> = /* @__PURE__ */ loss("KLDivLoss", "klDiv");
/** `x.softMarginLoss(target, options)`. */
export const SoftMarginLoss: LossClass<"softMarginLoss"> = /* @__PURE__ */ loss("SoftMarginLoss");
/** `x.hingeEmbeddingLoss(target, options)`. */
export const HingeEmbeddingLoss: LossClass<"hingeEmbeddingLoss"> = /* @__PURE__ */ loss("HingeEmbeddingLoss");
/** `x.poissonNllLoss(target, options)`. */
export const PoissonNLLLoss: LossClass<"poissonNllLoss"> = /* @__PURE__ */ loss("PoissonNLLLoss", "poissonNllLoss");
/** `x.multiMarginLoss(target, options)`. */
export const MultiMarginLoss: LossClass<"multiMarginLoss"> = /* @__PURE__ */ loss("MultiMarginLoss");
/** `x.multilabelMarginLoss(target, options)`. */
export const MultiLabelMarginLoss: LossClass<"multilabelMarginLoss"> = /* @__PURE__ */ loss(
  "MultiLabelMarginLoss",
  "multilabelMarginLoss",
);
/** `x.multilabelSoftMarginLoss(target, options)`. */
export const MultiLabelSoftMarginLoss: LossClass<"multilabelSoftMarginLoss"> = /* @__PURE__ */ loss(
  "MultiLabelSoftMarginLoss",
  "multilabelSoftMarginLoss",
);
/** `x.cosineSimilarity(x2, dim, options)`: called with both. */
export const CosineSimilarity: LossClass<"cosineSimilarity"> = /* @__PURE__ */ loss("CosineSimilarity");
/** `x.pairwiseDistance(x2, options)`: called with both. */
export const PairwiseDistance: LossClass<"pairwiseDistance"> = /* @__PURE__ */ loss("PairwiseDistance");
/** `x.gaussianNllLoss(target, variance, options)`. */
export const GaussianNLLLoss: ComparedClass<"gaussianNllLoss"> = /* @__PURE__ */ loss(
  "GaussianNLLLoss",
  "gaussianNllLoss",
);
/** `x.cosineEmbeddingLoss(x2, target, options)`. */
export const CosineEmbeddingLoss: ComparedClass<"cosineEmbeddingLoss"> = /* @__PURE__ */ loss("CosineEmbeddingLoss");
/** `x.marginRankingLoss(x2, target, options)`. */
export const MarginRankingLoss: ComparedClass<"marginRankingLoss"> = /* @__PURE__ */ loss("MarginRankingLoss");
/** `x.tripletMarginLoss(positive, negative, options)`. */
export const TripletMarginLoss: ComparedClass<"tripletMarginLoss"> = /* @__PURE__ */ loss("TripletMarginLoss");
/** `x.ctcLoss(targets, inputLengths, targetLengths, options)`. */
export const CTCLoss: ComparedClass<"ctcLoss"> = /* @__PURE__ */ loss("CTCLoss", "ctcLoss");
