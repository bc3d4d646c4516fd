/**
 * The namespace `nn.utils`: what is done to gradients before a step, weights as one vector, or as lengths and directions,
 * sequences of several lengths as one tensor.
 *
 * @module
 */
import { ArgumentError, ShapeError } from "../helpers/errors.ts";
import { prod, sameArray } from "../helpers/math.ts";
import { checkOptions, checkValue, describeList } from "../helpers/options.ts";
import { checkTensor } from "../tensor/handle/base.ts";
import { tensorList } from "../tensor/handle/dims.ts";
import { Tensor } from "../tensor/tensor.ts";

export {
  clipGradNorm,
  clipGradsWithNorm,
  clipGradValue,
  getTotalNorm,
  type TotalNormOptions,
} from "./optim/scaling.ts";

export {
  removeSpectralNorm,
  spectralNorm,
  type SpectralNormed,
  type SpectralNormOptions,
} from "./layers/spectral_norm.ts";
export { removeWeightNorm, weightNorm, type WeightNormed } from "./layers/weight_norm.ts";

/** At least one tensor. */
function some(action: string, tensors: readonly Tensor[]): Tensor[] {
  const list = tensorList(action, Array.isArray(tensors) ? tensors : null, "it") as Tensor[];
  if (list.length === 0) throw new ArgumentError(action, { reason: "there are no tensors" });
  return list;
}

/** All elements of tensors as one vector, in order. @throws {ArgumentError} where there are none */
export function parametersToVector(params: readonly Tensor[]): Tensor {
  return Tensor.cat(some("make a vector of parameters", params).map((p) => p.flatten()));
}

/**
 * Writes the elements of a vector into tensors, in order.
 *
 * ```ts
 * import { nn, state, Tensor } from "../../mod.ts";
 * const layer = new nn.Linear(2, 1), params = state.getParameters(layer);
 * nn.utils.vectorToParameters(new Tensor([1, 2, 0.5]), params);
 * console.log(await nn.utils.parametersToVector(params).tolist()); // [1, 2, 0.5]
 * ```
 *
 * @throws {ShapeError} unless it has as many
 */
export function vectorToParameters(vector: Tensor, params: readonly Tensor[]): void {
  const action = "write a vector to parameters", list = some(action, params);
  const { shape } = checkTensor(action, "the vector", vector), total = list.reduce((n, p) => n + p.numel(), 0);
  if (shape.length !== 1 || shape[0] !== total) {
    throw new ShapeError(action, { shapes: [shape], reason: `they have ${total} elements, which a vector must have` });
  }
  Tensor.noGrad(() => {
    let start = 0;
    for (const p of list) {
      const part = vector.at([start, start += p.numel()]);
      p.assign(part.reshape(p.shape).cast(p.dtype).to(p.device));
    }
    Tensor.realize(list);
  });
}

/** Options of {@linkcode padSequence}. */
export interface PadSequenceOptions {
  /** Whether the batch is the first axis, before the steps; false unless given. */
  readonly batchFirst?: boolean;
  /** What stands behind the shorter ones; 0 unless given. */
  readonly paddingValue?: number;
}

/**
 * Sequences `[L, ...]` of several lengths as one tensor, `[longest, N, ...]`, or `[N, longest, ...]` with `batchFirst`.
 * @throws {ShapeError} where they differ behind the first axis
 */
export function padSequence(sequences: readonly Tensor[], options: PadSequenceOptions = {}): Tensor {
  const action = "pad sequences", list = some(action, sequences);
  checkOptions(action, options, ["batchFirst", "paddingValue"]);
  const { batchFirst = false, paddingValue = 0 } = options, shapes = list.map((t) => t.shape), [first] = shapes;
  checkValue(action, "paddingValue", paddingValue);
  if (shapes.some((s) => s.length === 0 || !sameArray(s.slice(1), first.slice(1)))) {
    throw new ShapeError(`${action} of`, { shapes, reason: "all but their first axes must be equal" });
  }
  const longest = Math.max(...shapes.map((s) => s[0]));
  const padded = list.map((t) => t.padTo([longest, ...t.shape.slice(1)], { value: paddingValue }));
  return Tensor.stack(padded, batchFirst ? 0 : 1);
}

/** The sequences of {@linkcode padSequence}, by their lengths. @throws {ArgumentError} for lengths that it cannot have */
export function unpadSequence(
  padded: Tensor,
  lengths: readonly number[],
  options: { readonly batchFirst?: boolean } = {},
): Tensor[] {
  const action = "unpad sequences";
  checkOptions(action, options, ["batchFirst"]);
  const x = options.batchFirst ? checkTensor(action, "it", padded) : checkTensor(action, "it", padded).transpose(0, 1);
  const [count, longest = 0] = x.shape;
  const isList = Array.isArray(lengths) && lengths.length === count;
  if (!isList || !Array.from(lengths).every((n) => Number.isInteger(n) && n >= 0 && n <= longest)) {
    throw new ArgumentError(action, {
      reason: `${count} lengths of at most ${longest} are needed, not ${describeList(lengths)}`,
    });
  }
  return lengths.map((n, i) => prod(x.shape) === 0 ? x.at(i) : x.at(i, [0, n]));
}
