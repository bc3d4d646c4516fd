/**
 * How much memory a model takes, and what would fit where that is more than there is: it is told before the machine runs
 * out of memory where it says how much it has, and otherwise when an allocation fails.
 *
 * @module
 */
import { getDevice } from "../../device/device.ts";
import { bytesLeft } from "../../device/ledger.ts";
import { dtypes, toDType } from "../../dtype/dtype.ts";
import { byteText, OutOfMemoryError } from "../../helpers/errors.ts";
import type { Gguf } from "../files/gguf.ts";
import type { CacheKind } from "../model/cache_memory.ts";
import type { ModelSpec } from "../model/model_spec.ts";
import { chunksOf, scoreBytes } from "../model/sequence.ts";

/** What a model is loaded with. */
export interface LoadedAs {
  readonly name: string;
  readonly device: string;
  /** Tokens of a text, and how many texts there are at once. */
  readonly context: number;
  readonly sequences: number;
  /** How keys and values are kept; undefined for an encoder, which keeps none. */
  readonly cache: CacheKind | undefined;
}

/** Formats that a model can be written in, and the bits that a weight takes there. */
const SMALLER = [["Q8_0", 8.5], ["Q4_K_M", 4.9]] as const;

/** The bytes of keys and values, of the tables of positions, and of the scores of a chunk of a prompt, which are there three times. */
function nbytesOfTexts(spec: ModelSpec, { device, context, sequences, cache }: Omit<LoadedAs, "name">): number {
  const { layers, heads, kvHeads, headDim, valueDim, rope, dim } = spec;
  // an encoder reads all of a text at once
  if (cache === undefined) return 4 * (spec.context * rope.dim + sequences * context * (4 * dim + 3 * heads * context));
  const element = cache === "q8_0" ? 1 + 2 / 32 : toDType(cache).itemsize;
  const chunks = chunksOf(device, heads, context), scores = scoreBytes(heads, chunks[chunks.length - 1], context);
  return context * (sequences * layers * kvHeads * (headDim + valueDim) * element + 4 * rope.dim) + scores;
}

/** Options with which a model would take no more than `room` bytes. */
function fitting(weights: number, spec: ModelSpec, as: LoadedAs, room: number): string[] {
  const longest = (change: Partial<LoadedAs>): number => {
    let context = 2 ** Math.floor(Math.log2(as.context));
    while (context >= 64 && weights + nbytesOfTexts(spec, { ...as, ...change, context }) > room) context /= 2;
    return context;
  };
  if (as.cache === undefined) return [];
  const out: string[] = [], plain = longest({}), one = longest({ sequences: 1 }), small = longest({ cache: "q8_0" });
  if (plain >= 64) out.push(`{ context: ${plain} }`);
  if (one > plain && one >= 64) out.push(`{ sequences: 1, context: ${one} }`);
  if (small > plain && small >= 64) out.push(`{ cache: "q8_0", context: ${small} }`);
  return out;
}

/** What is said where `room` bytes do not suffice, or fewer than are needed could be had. */
function shortage(file: Gguf, spec: ModelSpec, as: LoadedAs, room: number | undefined): OutOfMemoryError {
  const weights = nbytesOfWeights(file), texts = nbytesOfTexts(spec, as), { sequences, context, device } = as;
  const has = room === undefined ? "" : `, and ${byteText(room)} are there`;
  const options = room === undefined ? [] : fitting(weights, spec, as, room);
  let count = 0;
  for (const t of file.tensors.values()) count += t.shape.reduce((a, b) => a * b, 1);
  const formats = SMALLER.map(([name, bits]) => [name, count * bits / 8] as const).filter(([, n]) => n < 0.8 * weights);
  const less = as.cache === undefined
    ? []
    : ['fewer tokens ({ context }), fewer texts ({ sequences: 1 }) and { cache: "q8_0" } take less'];
  const advice = [
    ...options.length > 0 ? [`these would fit: ${options.join(", ")}`] : less,
    ...formats.map(([name, n]) => `quantizeModel(file, "${name}") writes weights of ${byteText(Math.round(n))}`),
  ];
  return new OutOfMemoryError({
    device,
    nbytes: Math.ceil(weights + texts),
    reason: `the weights of ${as.name} take ${byteText(weights)}, what is kept and computed of ${sequences} ` +
      `text${sequences === 1 ? "" : "s"} of ${context} tokens ${byteText(Math.ceil(texts))}${has}${
        advice.map((x) => `; ${x}`).join("")
      }`,
  });
}
function nbytesOfWeights(file: Gguf): number {
  let sum = 0;
  for (const t of file.tensors.values()) sum += t.nbytes;
  return sum;
}

/** What was found before anything was allocated. */
class Shortage extends Error {
  constructor(readonly told: OutOfMemoryError) {
    super(told.message);
  }
}

/**
 * What `make` gives, which allocates what a model needs, and calls `fits` before it does.
 *
 * @throws {OutOfMemoryError} saying what the model takes and what would fit, where there is not enough memory
 */
export function withinMemory<T>(file: Gguf, spec: ModelSpec, as: LoadedAs, make: (fits: () => void) => T): T {
  const room = bytesLeft(as.device), before = getDevice(as.device).allocator.used;
  const isTooMuch = room !== undefined && nbytesOfWeights(file) + nbytesOfTexts(spec, as) > room;
  const fits = (): void => {
    if (isTooMuch) throw new Shortage(shortage(file, spec, as, room));
  };
  try {
    return make(fits);
  } catch (error) {
    if (error instanceof Shortage) throw error.told;
    // the engine has no name for an array that is too large
    const isFull = error instanceof OutOfMemoryError || (error as Error)?.name === "RangeError";
    if (!isFull) throw error;
    const had = getDevice(as.device).allocator.used - before;
    throw shortage(file, spec, as, error instanceof OutOfMemoryError && had > 0 ? had : undefined);
  }
}

/** What a model is loaded with, of options. */
export function loadedAs(
  spec: ModelSpec,
  as: { name: string; device: string; context?: number; sequences: number; cache?: CacheKind },
): LoadedAs {
  const { name, device, context, sequences, cache = dtypes.float32 } = as;
  return { name, device, sequences, cache, context: Math.min(context ?? spec.context, spec.context) };
}
