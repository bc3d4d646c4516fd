/**
 * Weights of layers that are computed from others wherever they are read: what {@linkcode weightNorm} and
 * {@linkcode spectralNorm} share.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import { describe } from "../../helpers/options.ts";
import { Tensor } from "../../tensor/tensor.ts";

/** Fields of a layer by name. */
export type Fields = Record<string, unknown>;

/** The fields of a layer. @throws {ArgumentError} for what is none, or no name of a weight */
export function fieldsOf(action: string, layer: unknown, name: unknown): Fields {
  if (typeof layer === "object" && layer !== null && typeof name === "string") return layer as Fields;
  throw new ArgumentError(action, {
    reason: `it takes a layer and the name of its weight, not ${describe(layer)} and ${describe(name)}`,
  });
}

/** The weight of a layer. @throws {ArgumentError} where it has none of this name */
export function weightOf(action: string, fields: Fields, name: string): Tensor {
  const weight = fields[name];
  if (weight instanceof Tensor) return weight;
  throw new ArgumentError(action, { reason: `the layer has no tensor ${name}, but ${describe(weight)}` });
}

/** A tensor in memory of its own, trained as the weight was. */
export function ownCopy(t: Tensor, weight: Tensor = t): Tensor {
  const own = t.detach().clone().realize();
  own.requiresGrad = weight.requiresGrad ?? true;
  return own;
}

/** Computes the weight wherever it is read, no field of which is left. */
export function computed(fields: Fields, name: string, compute: (own: Fields) => Tensor): void {
  Object.defineProperty(fields, name, {
    configurable: true,
    enumerable: false,
    get(this: Fields): Tensor {
      return compute(this);
    },
  });
}

/** Makes the weight a field again, with the value that it has, trained as `like` is, in place of the tensors `from`. */
export function restored(fields: Fields, name: string, like: string, from: readonly string[]): void {
  const weight = ownCopy(fields[name] as Tensor, fields[like] as Tensor);
  for (const field of from) delete fields[field];
  Object.defineProperty(fields, name, { value: weight, configurable: true, enumerable: true, writable: true });
}
