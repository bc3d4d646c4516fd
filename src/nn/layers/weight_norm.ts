/**
 * Weights as lengths times directions (T. Salimans and D. Kingma, "Weight Normalization", 2016). In: a layer. Out: the same
 * layer, whose weight is computed from two parameters wherever it is read.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import { rangeOf } from "../../helpers/math.ts";
import { resolveAxis } from "../../tensor/handle/axes.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { computed, type Fields, fieldsOf, ownCopy, restored, weightOf } from "./computed_weight.ts";

/** What {@linkcode weightNorm} adds to a layer: lengths, `[n, 1, ...]` of n along `dim`, and directions, of the weight's shape. */
export type WeightNormed<T, N extends string> = T & { readonly [K in `${N}G` | `${N}V`]: Tensor };

/**
 * Makes the weight `name` of a layer lengths times directions, as PyTorch's `nn.utils.weight_norm`: the parameters are then
 * `weightG`, the norms over all axes but `dim` (null: one norm of all), and `weightV`, which begins as the weight. Gives the
 * layer, whose `weight` is computed wherever it is read. Make the optimizer afterwards.
 *
 * ```ts
 * import { nn, state, Tensor } from "../../../mod.ts";
 * const layer = nn.utils.weightNorm(new nn.Linear(3, 2));
 * console.log(Object.keys(state.getStateDict(layer)), layer.weightG.shape); // ["bias", "weightG", "weightV"] [2, 1]
 * console.log(layer.call(Tensor.ones([4, 3])).shape); // [4, 2]
 * ```
 *
 * @throws {ArgumentError} where the layer has no such tensor, or it is normed already @throws {ShapeError} for another axis
 */
export function weightNorm<T extends object, N extends string = "weight">(
  layer: T,
  name: N = "weight" as N,
  dim: number | null = 0,
): WeightNormed<T, N> {
  const action = "norm a weight", fields = fieldsOf(action, layer, name), [g, v] = [`${name}G`, `${name}V`];
  if (fields[v] instanceof Tensor) {
    throw new ArgumentError(action, { reason: `${name} of the layer is normed already` });
  }
  const weight = weightOf(action, fields, name);
  const axis = dim === null ? undefined : resolveAxis(action, dim, weight.shape);
  const others = rangeOf(weight.ndim).filter((i) => i !== axis);
  // of a vector each element is its own direction
  const lengths = (t: Tensor): Tensor => others.length === 0 ? t.abs() : t.vectorNorm({ dim: others, keepdim: true });
  Object.assign(fields, { [g]: ownCopy(lengths(weight), weight), [v]: ownCopy(weight) });
  computed(fields, name, (own: Fields) => {
    const direction = own[v] as Tensor;
    return direction.mul((own[g] as Tensor).div(lengths(direction)));
  });
  return layer as WeightNormed<T, N>;
}

/**
 * Undoes {@linkcode weightNorm}: the weight is a parameter again, with the value that it has.
 *
 * ```ts
 * import { nn, state } from "../../../mod.ts";
 * const layer = nn.utils.removeWeightNorm(nn.utils.weightNorm(new nn.Linear(3, 2)));
 * console.log(Object.keys(state.getStateDict(layer)).sort()); // ["bias", "weight"]
 * ```
 *
 * @throws {ArgumentError} where that weight is not normed
 */
export function removeWeightNorm<T extends object>(layer: T, name = "weight"): T {
  const action = "undo the norm of a weight", fields = fieldsOf(action, layer, name), v = fields[`${name}V`];
  if (!(v instanceof Tensor) || !(fields[`${name}G`] instanceof Tensor)) {
    throw new ArgumentError(action, { reason: `${name} of the layer is not normed` });
  }
  restored(fields, name, `${name}V`, [`${name}G`, `${name}V`]);
  return layer;
}
