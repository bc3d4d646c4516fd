/**
 * The namespace `nn.init`: what weights begin with, written into tensors that are there. Each writes into a tensor at once,
 * outside of any graph, and gives it back.
 *
 * @module
 */
import { ArgumentError, ShapeError } from "../helpers/errors.ts";
import { prod } from "../helpers/math.ts";
import { checkChoice, checkInteger, checkNumber, checkOptions, checkValue } from "../helpers/options.ts";
import { checkTensor } from "../tensor/handle/base.ts";
import { Tensor } from "../tensor/tensor.ts";

/** Functions that a gain is known of. */
export type GainOf = "linear" | "conv" | "sigmoid" | "tanh" | "relu" | "leakyRelu" | "selu";

/** Options of {@linkcode kaimingUniform} and {@linkcode kaimingNormal}. */
export interface KaimingOptions {
  /** Slope below 0 of "leakyRelu"; 0 unless given. */
  readonly a?: number;
  /** What keeps its variance: what goes forward, or gradients ("fanOut"); "fanIn" unless given. */
  readonly mode?: "fanIn" | "fanOut";
  /** What follows the layer; "leakyRelu" unless given. */
  readonly nonlinearity?: GainOf;
}

/** Writes a value into a tensor. */
function written(action: string, tensor: Tensor, value: (shape: number[]) => Tensor): Tensor {
  const t = checkTensor(action, "the tensor", tensor);
  return Tensor.noGrad(() => {
    t.assign(value(t.shape).cast(t.dtype).to(t.device)).realize();
    return t;
  });
}

/** How many inputs an output has, and outputs an input, of a weight `[out, in, ...]`. @throws {ShapeError} */
function fans(action: string, { shape }: Tensor): { fanIn: number; fanOut: number } {
  if (shape.length < 2) {
    throw new ShapeError(action, { shapes: [shape], reason: "inputs and outputs are told by two axes or more" });
  }
  const [outputs, inputs, ...window] = shape;
  return { fanIn: inputs * prod(window), fanOut: outputs * prod(window) };
}

/** What a deviation is multiplied by, so that `nonlinearity` keeps it; `param` is the slope of "leakyRelu", 0.01 unless given. */
export function calculateGain(nonlinearity: GainOf, param = 0.01): number {
  const action = "calculate a gain",
    known = ["linear", "conv", "sigmoid", "tanh", "relu", "leakyRelu", "selu"] as const;
  checkChoice(action, "nonlinearity", nonlinearity, known);
  checkNumber(action, "param", param);
  if (nonlinearity === "tanh") return 5 / 3;
  if (nonlinearity === "selu") return 3 / 4;
  if (nonlinearity === "relu") return Math.SQRT2;
  return nonlinearity === "leakyRelu" ? Math.sqrt(2 / (1 + param ** 2)) : 1;
}

/** Fills with draws from [a, b); 0 and 1 unless given. */
export function uniform(tensor: Tensor, options: { readonly a?: number; readonly b?: number } = {}): Tensor {
  const { a = 0, b = 1 } = checkOptions("init uniform", options, ["a", "b"]);
  checkNumber("init uniform", "b", b);
  return written("init uniform", tensor, (shape) => Tensor.uniform(shape, { low: a, high: b }));
}

/** Fills with draws of a normal distribution. */
export function normal(tensor: Tensor, options: { readonly mean?: number; readonly std?: number } = {}): Tensor {
  const { mean = 0, std = 1 } = checkOptions("init normal", options, ["mean", "std"]);
  return written("init normal", tensor, (shape) => Tensor.normal(shape, { mean, std }));
}

/** Options of {@linkcode truncNormal}. */
export interface TruncNormalOptions {
  /** Of the distribution before it is cut; 0 unless given. */
  readonly mean?: number;
  /** Of the distribution before it is cut; 1 unless given. */
  readonly std?: number;
  /** The lowest value; -2 unless given. */
  readonly a?: number;
  /** The highest value; 2 unless given. */
  readonly b?: number;
}

/** Fills with draws of a normal distribution that lie in [a, b]. @throws {ArgumentError} unless a < b */
export function truncNormal(tensor: Tensor, options: TruncNormalOptions = {}): Tensor {
  const action = "init truncNormal";
  checkOptions(action, options, ["mean", "std", "a", "b"]);
  const { mean = 0, std = 1, a = -2, b = 2 } = options;
  checkNumber(action, "b", b);
  if (!(a < b) || !(std > 0)) {
    throw new ArgumentError(action, { reason: `it needs a < b and std > 0, not ${a}, ${b} and ${std}` });
  }
  return written(action, tensor, (shape) => {
    // the inverse of the distribution's integral, of draws between its values at both ends
    const [low, high] = [a, b].map((x) => new Tensor((x - mean) / (std * Math.SQRT2), { dtype: "float32" }).erf());
    const drawn = low.add(Tensor.rand(shape).mul(high.sub(low))).erfinv();
    return drawn.mul(std * Math.SQRT2).add(mean).clamp(a, b);
  });
}

/** Fills with a value. */
export function constant(tensor: Tensor, value: number): Tensor {
  checkValue("init constant", "value", value);
  return written("init constant", tensor, (shape) => Tensor.full(shape, value));
}
/** Fills with 1. */
export function ones(tensor: Tensor): Tensor {
  return constant(tensor, 1);
}
/** Fills with 0. */
export function zeros(tensor: Tensor): Tensor {
  return constant(tensor, 0);
}

/** Writes ones into the diagonal of a matrix, and zeros beside it. @throws {ShapeError} unless it is a matrix */
export function eye(tensor: Tensor): Tensor {
  const { shape } = checkTensor("init eye", "the tensor", tensor);
  if (shape.length !== 2) throw new ShapeError("init eye", { shapes: [shape], reason: "it must be a matrix" });
  return written("init eye", tensor, ([n, m]) => Tensor.eye(n, m));
}

/** Fills by {@link https://proceedings.mlr.press/v9/glorot10a.html Glorot and Bengio (2010)}, uniformly. @throws {ShapeError} */
export function xavierUniform(tensor: Tensor, gain = 1): Tensor {
  const action = "init xavierUniform", { fanIn, fanOut } = fans(action, checkTensor(action, "the tensor", tensor));
  const bound = checkNumber(action, "gain", gain) * Math.sqrt(6 / (fanIn + fanOut));
  return uniform(tensor, { a: -bound, b: bound });
}
/** As {@linkcode xavierUniform}, by a normal distribution. @throws {ShapeError} for fewer than two axes */
export function xavierNormal(tensor: Tensor, gain = 1): Tensor {
  const action = "init xavierNormal", { fanIn, fanOut } = fans(action, checkTensor(action, "the tensor", tensor));
  return normal(tensor, { std: checkNumber(action, "gain", gain) * Math.sqrt(2 / (fanIn + fanOut)) });
}

/** The deviation of both of Kaiming's. */
function kaimingStd(action: string, tensor: Tensor, options: KaimingOptions): number {
  checkOptions(action, options, ["a", "mode", "nonlinearity"]);
  const { a = 0, mode = "fanIn", nonlinearity = "leakyRelu" } = options;
  checkChoice(action, "mode", mode, ["fanIn", "fanOut"]);
  return calculateGain(nonlinearity, a) / Math.sqrt(fans(action, checkTensor(action, "the tensor", tensor))[mode]);
}
/** Fills by He et al. (arXiv 1502.01852), uniformly. @throws {ShapeError} for fewer than two axes */
export function kaimingUniform(tensor: Tensor, options: KaimingOptions = {}): Tensor {
  const bound = Math.sqrt(3) * kaimingStd("init kaimingUniform", tensor, options);
  return uniform(tensor, { a: -bound, b: bound });
}
/** As {@linkcode kaimingUniform}, by a normal distribution. @throws {ShapeError} for fewer than two axes */
export function kaimingNormal(tensor: Tensor, options: KaimingOptions = {}): Tensor {
  return normal(tensor, { std: kaimingStd("init kaimingNormal", tensor, options) });
}

/**
 * Writes rows that are orthonormal, or columns where there are fewer of them, of the matrix of the first axis by all
 * others, times `gain`: any is as likely (Saxe, McClelland and Ganguli, arXiv 1312.6120; Mezzadri, math-ph/0609050).
 *
 * ```ts
 * import { nn, Tensor } from "../../mod.ts";
 * const w = nn.init.orthogonal(Tensor.zeros([2, 5])), products = w.matmul(w.transpose());
 * console.log(await products.allclose(Tensor.eye(2), { atol: 1e-5 }).item()); // true
 * ```
 *
 * @throws {ShapeError} for fewer than two axes
 */
export function orthogonal(tensor: Tensor, gain = 1): Tensor {
  const action = "init orthogonal", { shape } = checkTensor(action, "the tensor", tensor);
  checkNumber(action, "gain", gain);
  fans(action, tensor);
  return written(action, tensor, () => {
    const n = shape[0], m = prod(shape.slice(1)), isTall = n >= m;
    if (n * m === 0) return Tensor.zeros(shape);
    const [q, r] = Tensor.randn(isTall ? [n, m] : [m, n]).qr({ mode: "reduced" });
    const signed = q.mul(r.diagonal().ge(0).where(gain, -gain));
    return (isTall ? signed : signed.transpose()).reshape(shape);
  });
}

/**
 * Makes a convolution's weight, `[out, in, ...]`, keep as many channels as it can in each of `groups`: 1 in the middle of
 * the window. @throws {ShapeError} for other ranks than 3 to 5, {ArgumentError} for groups that do not divide the outputs
 */
export function dirac(tensor: Tensor, groups = 1): Tensor {
  const action = "init dirac", { shape } = checkTensor(action, "the tensor", tensor);
  checkInteger(action, "groups", groups, 1);
  if (shape.length < 3 || shape.length > 5) {
    throw new ShapeError(action, { shapes: [shape], reason: "a convolution's weight has three to five axes" });
  }
  const [outputs, inputs, ...window] = shape, each = outputs / groups;
  if (!Number.isInteger(each)) {
    throw new ArgumentError(action, { reason: `${outputs} outputs do not divide into ${groups} groups` });
  }
  return written(action, tensor, () => {
    const one = Tensor.eye(each, inputs).repeat([groups, 1]).reshape([outputs, inputs, ...window.map(() => 1)]);
    return one.pad([[0, 0], [0, 0], ...window.map((n): [number, number] => [n >> 1, n - 1 - (n >> 1)])]);
  });
}
