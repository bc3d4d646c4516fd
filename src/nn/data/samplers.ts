/**
 * Which items come when: samplers give indices of one epoch, in an order that depends on a seed alone. A data loader gives
 * each epoch its seed; iterated without one, a sampler takes its own, or the next random word.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import { checkBoolean, checkInteger, checkOptions, describe } from "../../helpers/options.ts";
import { checkIterable, checkSeed, epochSeed, permutationOf, uniformOf } from "./shuffling.ts";

/** Options of samplers that choose at random. */
export interface RandomSamplerOptions {
  /** Whether an item may come several times; false unless given. */
  readonly replacement?: boolean;
  /** How many indices an epoch has; as many as there are items unless given. */
  readonly numSamples?: number;
  /** For the same order each time, epoch by epoch. */
  readonly seed?: number;
}

/** Indices of an epoch. */
export abstract class Sampler implements Iterable<number> {
  private epoch = 0;
  /** @param seed for the same orders each time */
  protected constructor(readonly seed: number | undefined) {}
  /** How many indices an epoch has. */
  abstract readonly length: number;
  /** The indices of the epoch of a seed. */
  abstract order(seed: number): Iterable<number>;
  /** Those of the next epoch, by the own seed or the next random word. */
  [Symbol.iterator](): Iterator<number> {
    return this.order(epochSeed(this.seed, this.epoch++))[Symbol.iterator]();
  }
}

/** The seed of an order. @throws {ArgumentError} */
function orderSeed(seed: number): number {
  return checkInteger("order items", "the seed", seed, 0);
}

/** How many items something has. */
function lengthOf(action: string, source: { readonly length: number } | number): number {
  if (typeof source === "string" || typeof source === "function") {
    throw new ArgumentError(action, { reason: `it takes a data set or a number of items, not ${describe(source)}` });
  }
  return checkInteger(action, "the length of the data set", typeof source === "number" ? source : source?.length, 0);
}

/** All items in order. */
export class SequentialSampler extends Sampler {
  readonly length: number;
  /** Of a data set, or of so many items. */
  constructor(source: { readonly length: number } | number) {
    super(undefined);
    this.length = lengthOf("make a SequentialSampler", source);
  }
  override *order(): Iterable<number> {
    for (let i = 0; i < this.length; i++) yield i;
  }
  override [Symbol.iterator](): Iterator<number> {
    return this.order()[Symbol.iterator]();
  }
}

/** All items in random order, or, with `replacement`, random items. */
export class RandomSampler extends Sampler {
  readonly length: number;
  private readonly count: number;
  private readonly replacement: boolean;
  /** Of a data set, or of so many items. @throws {ArgumentError} */
  constructor(source: { readonly length: number } | number, options: RandomSamplerOptions = {}) {
    const action = "make a RandomSampler";
    checkOptions(action, options, ["replacement", "numSamples", "seed"]);
    super(checkSeed(action, options.seed));
    this.count = lengthOf(action, source);
    this.replacement = options.replacement ?? false;
    this.length = checkInteger(action, "numSamples", options.numSamples ?? this.count, 0);
    if (this.length > 0 && this.count === 0) throw new ArgumentError(action, { reason: "the data set is empty" });
  }
  override order(seed: number): Iterable<number> {
    return this.drawn(orderSeed(seed));
  }
  private *drawn(seed: number): Iterable<number> {
    const { count, length } = this;
    if (this.replacement) {
      const random = uniformOf(seed);
      for (let i = 0; i < length; i++) yield Math.floor(random() * count);
    } else for (let i = 0; i < length; i += count) yield* permutationOf(count, seed + i).subarray(0, length - i);
  }
}

/** These items in random order. */
export class SubsetRandomSampler extends Sampler {
  readonly length: number;
  private readonly indices: readonly number[];
  /** @throws {ArgumentError} */
  constructor(indices: Iterable<number>, options: { readonly seed?: number } = {}) {
    const action = "make a SubsetRandomSampler";
    checkOptions(action, options, ["seed"]);
    super(checkSeed(action, options.seed));
    this.indices = Array.from(checkIterable(action, "indices", indices));
    for (const i of this.indices) checkInteger(action, "an index", i, 0);
    this.length = this.indices.length;
  }
  override order(seed: number): Iterable<number> {
    return this.drawn(orderSeed(seed));
  }
  private *drawn(seed: number): Iterable<number> {
    for (const i of permutationOf(this.length, seed)) yield this.indices[i];
  }
}

/** Items by weight, each as often as its weight says; without replacement, items of weight above 0 by their weights in turn. */
export class WeightedRandomSampler extends Sampler {
  readonly length: number;
  private readonly weights: readonly number[];
  private readonly replacement: boolean;
  /** @throws {ArgumentError} for weights that are negative, or too few above 0 */
  constructor(
    weights: Iterable<number>,
    numSamples?: number,
    options: { readonly replacement?: boolean; readonly seed?: number } = {},
  ) {
    const action = "make a WeightedRandomSampler";
    checkOptions(action, options, ["replacement", "seed"]);
    super(checkSeed(action, options.seed));
    this.weights = Array.from(checkIterable(action, "weights", weights));
    this.replacement = options.replacement ?? true;
    const bad = this.weights.find((w) => typeof w !== "number" || !(w >= 0 && w < Infinity));
    if (bad !== undefined) {
      throw new ArgumentError(action, { reason: `weights must be finite and at least 0, not ${describe(bad)}` });
    }
    this.length = checkInteger(action, "numSamples", numSamples ?? this.weights.length, 0);
    const some = this.weights.filter((w) => w > 0).length;
    if (this.length > 0 && some < (this.replacement ? 1 : this.length)) {
      throw new ArgumentError(action, { reason: `${this.length} are to be drawn, and ${some} weights are above 0` });
    }
  }
  override order(seed: number): Iterable<number> {
    return this.drawn(orderSeed(seed));
  }
  private *drawn(seed: number): Iterable<number> {
    const { weights, length } = this, random = uniformOf(seed);
    if (!this.replacement) { // the largest of u^(1/w) first: Efraimidis and Spirakis (2006)
      const keys = weights.map((w) => w > 0 ? Math.log(random()) / w : -Infinity);
      yield* [...keys.keys()].sort((a, b) => keys[b] - keys[a]).slice(0, length);
      return;
    }
    let sum = 0;
    const sums = Float64Array.from(weights, (w) => sum += w);
    for (let n = 0; n < length; n++) {
      const x = random() * sum;
      let low = 0, high = sums.length - 1;
      while (low < high) {
        const mid = (low + high) >> 1;
        if (sums[mid] > x) high = mid;
        else low = mid + 1;
      }
      yield low;
    }
  }
}

/** Options of {@linkcode DistributedSampler}. */
export interface DistributedSamplerOptions {
  /** Whether the order is random; true unless given. */
  readonly shuffle?: boolean;
  /** The same in all processes; 0 unless given. */
  readonly seed?: number;
  /** Whether what cannot be divided evenly is left out; else some items come twice. False unless given. */
  readonly dropLast?: boolean;
}

/**
 * The share of one of several processes: items rank, rank + size, ... of one order. All shares are of one length. Call
 * `setEpoch(n)` before each epoch for another order.
 */
export class DistributedSampler extends Sampler {
  readonly length: number;
  private readonly count: number;
  private readonly shuffle: boolean;
  private at = 0;
  /** @param size how many processes there are @param rank which one this is @throws {ArgumentError} */
  constructor(
    source: { readonly length: number } | number,
    readonly size: number,
    readonly rank: number,
    private readonly options: DistributedSamplerOptions = {},
  ) {
    const action = "make a DistributedSampler";
    checkOptions(action, options, ["shuffle", "seed", "dropLast"]);
    super(checkSeed(action, options.seed) ?? 0);
    checkInteger(action, "size", size, 1);
    checkInteger(action, "rank", rank, 0);
    if (rank >= size) throw new ArgumentError(action, { reason: `rank is ${rank}, and size ${size}` });
    this.count = lengthOf(action, source);
    this.shuffle = options.shuffle === undefined || checkBoolean(action, "shuffle", options.shuffle);
    if (options.dropLast !== undefined) checkBoolean(action, "dropLast", options.dropLast);
    this.length = (options.dropLast ? Math.floor : Math.ceil)(this.count / size);
  }
  /** The epoch whose order is next. */
  setEpoch(epoch: number): void {
    this.at = checkInteger("set an epoch", "it", epoch, 0);
  }
  override *order(): Iterable<number> {
    const { count, size, rank, length } = this;
    const order = this.shuffle ? permutationOf(count, epochSeed(this.seed, this.at)) : undefined;
    for (let i = 0; i < length; i++) {
      const place = (rank + i * size) % count;
      yield order === undefined ? place : order[place];
    }
  }
}

/** Lists of indices of a sampler: what is loaded together. */
export class BatchSampler implements Iterable<readonly number[]> {
  /** @throws {ArgumentError} */
  constructor(
    readonly sampler: Iterable<number> & { readonly length?: number },
    readonly batchSize: number,
    readonly options: { readonly dropLast?: boolean } = {},
  ) {
    const action = "make a BatchSampler";
    checkIterable(action, "the sampler", sampler);
    checkInteger(action, "batchSize", batchSize, 1);
    const { dropLast } = checkOptions(action, options, ["dropLast"]);
    if (dropLast !== undefined) checkBoolean(action, "dropLast", dropLast);
  }
  /** How many batches an epoch has; NaN where the sampler does not say how many indices. */
  get length(): number {
    return (this.options.dropLast ? Math.floor : Math.ceil)((this.sampler.length ?? NaN) / this.batchSize);
  }
  /** The batches of the epoch of a seed. */
  order(seed: number): Iterable<readonly number[]> {
    const { sampler } = this;
    orderSeed(seed);
    return this.batched(sampler instanceof Sampler ? sampler.order(seed) : sampler);
  }
  [Symbol.iterator](): Iterator<readonly number[]> {
    return this.batched(this.sampler)[Symbol.iterator]();
  }
  private *batched(indices: Iterable<number>): Iterable<readonly number[]> {
    let batch: number[] = [];
    for (const i of indices) {
      batch.push(i);
      if (batch.length < this.batchSize) continue;
      yield batch;
      batch = [];
    }
    if (batch.length > 0 && !this.options.dropLast) yield batch;
  }
}
