/**
 * Memory for keys and values: numbers of a dtype, or as llama.cpp's q8_0 has them: blocks of 32 with a byte each and one
 * scale in half precision, a half of float16's bytes.
 *
 * @module
 */
import { DType, type DTypeLike, dtypes, toDType } from "../../dtype/dtype.ts";
import { ArgumentError } from "../../helpers/errors.ts";
import { describe } from "../../helpers/options.ts";
import { Tensor } from "../../tensor/tensor.ts";

/** How keys and values are kept. */
export type CacheKind = DTypeLike | "q8_0";

/**
 * Keys and values of a layer: `[heads, context, dim]`, and where they are bytes, scales `[heads, context, blocks]`; of
 * recurrent layers the last inputs and the state.
 */
export interface LayerCache {
  readonly keys: Tensor;
  readonly values: Tensor;
  readonly keyScales?: Tensor;
  readonly valueScales?: Tensor;
}

/** Either half of a cache. */
export type CacheHalf = "keys" | "values";
const SCALES = { keys: "keyScales", values: "valueScales" } as const;

/** Elements with one scale. */
function blockOf(dim: number): number {
  return dim % 32 === 0 ? 32 : dim;
}

/** The kind that is asked for. @throws {ArgumentError} for what cannot hold numbers with a fraction */
export function checkCacheKind(action: string, kind: unknown): CacheKind {
  if (kind === "q8_0") return kind;
  const dtype = kind instanceof DType ? kind : dtypes[kind as "float32"];
  if (dtype?.kind === "float") return dtype;
  const given = kind instanceof DType ? kind.name : describe(kind);
  throw new ArgumentError(action, {
    reason: `cache is ${given}; keys and values are kept in a dtype of floats, as "float16", or as "q8_0"`,
  });
}

/** Memory of zeros for keys and values whose last axes are `keyDim` and `valueDim`, behind the axes of `shape`. */
export function emptyCache(
  kind: CacheKind,
  shape: readonly number[],
  keyDim: number,
  valueDim: number,
  device: string,
): LayerCache {
  const zeros = (n: number, dtype: DTypeLike) =>
    Tensor.zeros([...shape, n], { dtype: toDType(dtype), device }).contiguous();
  const checked = checkCacheKind("make a cache", kind);
  if (checked !== "q8_0") return { keys: zeros(keyDim, checked), values: zeros(valueDim, checked) };
  const scales = (dim: number) => zeros(dim / blockOf(dim), dtypes.float16);
  return {
    keys: zeros(keyDim, dtypes.int8),
    values: zeros(valueDim, dtypes.int8),
    keyScales: scales(keyDim),
    valueScales: scales(valueDim),
  };
}

/** All that a cache is made of. */
export function memoryOf(cache: LayerCache): readonly Tensor[] {
  return Object.values(cache) as Tensor[];
}
/** The cache of one of several sequences: a part of the same memory. */
export function cacheOfRow(cache: LayerCache, row: number): LayerCache {
  return Object.fromEntries(Object.entries(cache).map(([k, x]) => [k, (x as Tensor).at(row)])) as unknown as LayerCache;
}

type Index = Parameters<Tensor["setAt"]>[0] & readonly unknown[];

/** Writes float32 numbers `[..., dim]` at an index of all axes but the last. */
export function writeCache(cache: LayerCache, half: CacheHalf, index: Index, x: Tensor): void {
  const memory = cache[half], scales = cache[SCALES[half]];
  if (scales === undefined) {
    memory.setAt(index, x);
    return;
  }
  const dim = memory.shape.at(-1)!, blocks = x.unflatten(-1, [scales.shape.at(-1)!, blockOf(dim)]);
  const scale = blocks.abs().max(-1, { keepdim: true }).div(127).cast(dtypes.float16);
  const steps = blocks.div(scale.cast(dtypes.float32).maximum(1e-30)).round().clamp(-127, 127);
  memory.setAt(index, steps.cast(dtypes.int8).flatten(-2));
  scales.setAt(index, scale.squeeze(-1));
}

/** Numbers at an index, rounded to a dtype of floats. */
export function readCache(
  cache: LayerCache,
  half: CacheHalf,
  index: Index,
  dtype: DType = dtypes.float32,
): Tensor {
  const memory = cache[half], scales = cache[SCALES[half]];
  if (scales === undefined) return memory.at(...index).cast(dtype);
  const x = memory.at(...index).cast(dtypes.float32), dim = memory.shape.at(-1)!;
  const parts = x.unflatten(-1, [scales.shape.at(-1)!, blockOf(dim)]);
  return parts.mul(scales.at(...index).cast(dtypes.float32).unsqueeze(-1)).flatten(-2).cast(dtype);
}
