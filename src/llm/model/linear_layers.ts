/**
 * What blocks are made of: norms and products by the names of their weights, and where in the sequence a call is.
 *
 * @module
 */
import { prod } from "../../helpers/math.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import type { ModelSpec } from "./model_spec.ts";
import type { RopeTable } from "./rope_tables.ts";
import type { Weight, WeightStore } from "./weight_store.ts";

/** Where in the sequence a call is. */
export interface Place {
  /** The position of the first token, a bound variable or 0. */
  readonly start: Tensor | number;
  /** The position behind the last token: how many keys there are. */
  readonly end: Tensor | number;
  /** How many of the tokens are text: others, behind them, fill the call. */
  readonly count: Tensor | number;
  /** Angles of the positions, for layers without and with a window. */
  readonly angles: RopeTable;
  readonly windowAngles: RopeTable;
  /** Where each row is of a sequence of its own. */
  readonly rows?: SequenceRows;
}

/** Rows of several sequences: row i has the one token of the one whose cache is the i-th. */
export interface SequenceRows {
  /** The position of each, bound variables. */
  readonly starts: readonly Tensor[];
  /** The same as a tensor: int32 `[B]`. */
  readonly positions: Tensor;
}

/** A function of activations `[T, n]`. */
export type Layer = (x: Tensor) => Tensor;

/** Elements of the last axis by the root of their mean square. */
export function rmsNorm(x: Tensor, eps: number): Tensor {
  return x.mul(x.square().mean(-1, { keepdim: true }).add(eps).rsqrt());
}

/**
 * A norm of rows of `size` by the name of its weight, which they share, or of which each of `rows` has a part.
 *
 * @throws {FormatError} for a weight of another size
 */
export function normLayer(
  spec: ModelSpec,
  store: WeightStore,
  name: string,
  size: number = spec.dim,
  rows = 1,
): Layer | undefined {
  const sized = (name: string): Weight | undefined => {
    const w = store.maybe(name), n = w === undefined ? size : prod(w.shape);
    return n === size || n === rows * size ? w : store.maybe(name, [size]);
  };
  const weight = sized(`${name}.weight`), bias = sized(`${name}.bias`);
  if (weight === undefined && !(spec.architecture === "olmo" && /norm$/.test(name))) return undefined;
  return (x) => {
    const centered = spec.norm === "layer" ? x.sub(x.mean(-1, { keepdim: true })) : x;
    const y = rmsNorm(centered, spec.eps);
    const w = weight?.values();
    const scaled = w === undefined ? y : y.mul(w.numel() === size ? w : w.reshape([-1, size]));
    return bias === undefined ? scaled : scaled.add(bias.values());
  };
}

/** A norm that must be there. @throws {FormatError} naming its weight */
export function neededNorm(spec: ModelSpec, store: WeightStore, name: string): Layer {
  const norm = normLayer(spec, store, name);
  if (norm === undefined) store.get(`${name}.weight`);
  return norm!;
}

/** A product by the name of its weight `[m, n]`, with its bias if there is one. */
export function linear(store: WeightStore, name: string, m: number, n: number): Layer | undefined {
  const weight = store.maybe(`${name}.weight`, [m, n]), bias = store.maybe(`${name}.bias`, [m]);
  if (weight === undefined) return undefined;
  return (x) => {
    const y = weight.product(x);
    return bias === undefined ? y : y.add(bias.values());
  };
}
/** Products of one `x` by the names of their weights `[sizes[i], n]`, which must be there, each with its bias. */
export function products(
  store: WeightStore,
  names: readonly string[],
  sizes: readonly number[],
  n: number,
): (x: Tensor) => Tensor[] {
  const biases = names.map((name, i) => store.maybe(`${name}.bias`, [sizes[i]]));
  names.forEach((name, i) => store.get(`${name}.weight`, [sizes[i], n]));
  const all = store.products(names.map((name) => `${name}.weight`));
  return (x) =>
    all(x).map((y, i) => {
      const bias = biases[i];
      return bias === undefined ? y : y.add(bias.values());
    });
}
/** A product that must be there. @throws {FormatError} naming its weight */
export function needed(store: WeightStore, name: string, m: number, n: number): Layer {
  store.get(`${name}.weight`, [m, n]);
  return linear(store, name, m, n)!;
}
