/**
 * Batches of a data set, in order or shuffled, ahead of time and in threads where wanted. In: a data set; out: an iteration
 * an epoch. Where it is in an epoch is state, with the seed of the epoch: saved with a model, it goes on with the next batch.
 *
 * @module
 */
import { isLate, partsReady } from "../../device/parts.ts";
import { ArgumentError } from "../../helpers/errors.ts";
import {
  checkBoolean,
  checkFunction,
  checkInteger,
  checkNumber,
  checkOptions,
  describe,
} from "../../helpers/options.ts";
import { hasState } from "../../helpers/stateful.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { KeptNumbers } from "../optim/kept.ts";
import { collate, type Collated } from "./collate.ts";
import { checkIndices, type Dataset, type DatasetLike, datasetOf } from "./dataset.ts";
import { BatchSampler, RandomSampler, Sampler, SequentialSampler } from "./samplers.ts";
import { checkIterable, checkSeed, epochSeed } from "./shuffling.ts";

/** Options of {@linkcode DataLoader}. */
export interface DataLoaderOptions<T, B> {
  /** Items of a batch; 1 unless given. */
  readonly batchSize?: number;
  /** Whether each epoch has a new random order; false unless given. */
  readonly shuffle?: boolean;
  /** For the same orders each time; else they follow `Tensor.manualSeed`. */
  readonly seed?: number;
  /** Indices of an epoch, in place of `shuffle`: a sampler of `nn.data`, or any iterable. */
  readonly sampler?: Iterable<number> & { readonly length?: number };
  /** Indices of each batch, in place of `batchSize`, `shuffle`, `sampler` and `dropLast`. */
  readonly batchSampler?: Iterable<readonly number[]> & { readonly length?: number };
  /** Whether a last batch that is smaller is left out, as a captured step wants it; false unless given. */
  readonly dropLast?: boolean;
  /** What makes a batch of items; `nn.data.collate` unless given. */
  readonly collate?: (items: T[]) => B | Promise<B>;
  /** Threads that load items; 0 unless given. */
  readonly numWorkers?: number;
  /** The module that they import: it exports `dataset`, or a function that makes it, and `collate` if items are to be put together there. */
  readonly workerModule?: string | URL;
  /** Batches that are loaded ahead: by each worker (2 unless given), or without workers in all (0 unless given). */
  readonly prefetchFactor?: number;
  /** Milliseconds after which a worker that does not answer is an error; 0, for never, unless given. */
  readonly timeout?: number;
}

const OPTIONS = "batchSize shuffle seed sampler batchSampler dropLast collate numWorkers workerModule prefetchFactor " +
  "timeout";

/** Where a loader is: the epoch, the batches of it that were given, and its seed. */
type Position = readonly [epoch: number, done: number, seed: number];

/** What is iterated over instead of items by number. */
type Stream<T> = Iterable<T> | AsyncIterable<T>;

function streamOf<T>(x: unknown): Stream<T> | undefined {
  if (typeof x !== "object" || x === null || Array.isArray(x) || ArrayBuffer.isView(x) || "get" in x) return undefined;
  if (x instanceof Tensor || !(Symbol.asyncIterator in x || Symbol.iterator in x)) return undefined;
  return x as Stream<T>;
}

/**
 * Batches of a data set: `for await (const [x, y] of loader)`, or `for (...)` where nothing has to be waited for. Each
 * iteration is an epoch. `dataset` is a list, a tensor, an object with `length` and `get(index)`, or something to iterate
 * over, which has no length and no order but its own.
 *
 * ```ts
 * import { nn, Tensor } from "../../../mod.ts";
 * const data = new nn.data.TensorDataset(Tensor.rand([100, 3]), Tensor.arange(100));
 * const loader = new nn.data.DataLoader(data, { batchSize: 32, shuffle: true, dropLast: true });
 * let seen = 0;
 * for await (const [x, y] of loader) seen += x.shape[0] + 0 * y.numel();
 * console.log(loader.length, seen); // 3 96
 * ```
 *
 * With `numWorkers`, threads load the items: they import `workerModule`, which exports the data set. Batches come in the
 * same order. Threads end with the iteration, however it ends.
 *
 * In a state dictionary it is where it stands: loaded, the next iteration goes on behind the last batch that was given.
 */
export class DataLoader<T, B = Collated<T>> {
  static {
    hasState(this.prototype, (l) => ({ position: l.kept().tensor }));
  }
  /** Items by number; undefined where it is iterated over. */
  readonly dataset: Dataset<T, B> | undefined;
  /** Indices of each batch; undefined for what is iterated over. */
  readonly batchSampler: (Iterable<readonly number[]> & { readonly length?: number }) | undefined;
  readonly #stream: Stream<T> | undefined;
  readonly #options: DataLoaderOptions<T, B>;
  #seed: number | undefined;
  /** Whether an epoch has a seed. */
  #isRandom = false;
  #now: Position = [0, 0, 0];
  #kept: KeptNumbers | undefined;
  /** Whether the next iteration goes on with an epoch that was loaded. */
  #goesOn = false;
  /** What was put there last. */
  #written: readonly number[] = [];

  /** @throws {ArgumentError} for what is no data set, options out of range, or that exclude each other */
  constructor(dataset: DatasetLike<T, B> | Stream<T> | (T & Tensor), options: DataLoaderOptions<T, B> = {}) {
    const action = "make a DataLoader";
    checkOptions(action, options, OPTIONS.split(" "));
    const { batchSize = 1, shuffle = false, sampler, batchSampler, dropLast = false, numWorkers = 0 } = options;
    checkInteger(action, "batchSize", batchSize, 1);
    checkInteger(action, "numWorkers", numWorkers, 0);
    checkInteger(action, "prefetchFactor", options.prefetchFactor ?? 0, 0);
    checkBoolean(action, "shuffle", shuffle);
    checkBoolean(action, "dropLast", dropLast);
    checkNumber(action, "timeout", options.timeout ?? 0);
    const { workerModule } = options;
    if (workerModule !== undefined && typeof workerModule !== "string" && !(workerModule instanceof URL)) {
      throw new ArgumentError(action, { reason: `workerModule must be a URL or text, not ${describe(workerModule)}` });
    }
    if (options.collate !== undefined) checkFunction(action, "collate", options.collate);
    this.#seed = checkSeed(action, options.seed);
    this.#options = options;
    this.#stream = streamOf<T>(dataset);
    const both = (a: string, b: string): never => {
      throw new ArgumentError(action, { reason: `${a} and ${b} exclude each other` });
    };
    if (sampler !== undefined && shuffle) both("sampler", "shuffle");
    if (batchSampler !== undefined) {
      if (sampler !== undefined) both("batchSampler", "sampler");
      for (const name of ["batchSize", "shuffle", "dropLast"] as const) {
        if (options[name] !== undefined && options[name] !== false) both("batchSampler", name);
      }
    }
    if (numWorkers > 0 && workerModule === undefined) {
      throw new ArgumentError(action, {
        reason:
          "workers need workerModule, the URL of a module that exports the dataset: a data set cannot be sent to a " +
          'thread; write it as new URL("./my_dataset.ts", import.meta.url)',
      });
    }
    if (this.#stream !== undefined) {
      for (const name of ["shuffle", "sampler", "batchSampler", "numWorkers"] as const) {
        if (options[name]) both("a data set without length and get(index)", name);
      }
      return;
    }
    this.dataset = datasetOf<T, B>(action, dataset);
    for (const [name, given] of [["sampler", sampler], ["batchSampler", batchSampler]] as const) {
      if (given !== undefined) checkIterable(action, name, given);
    }
    const order = sampler ?? (shuffle ? new RandomSampler(this.dataset) : new SequentialSampler(this.dataset));
    this.batchSampler = batchSampler ?? new BatchSampler(order, batchSize, { dropLast });
    const own = this.batchSampler instanceof BatchSampler ? this.batchSampler.sampler : undefined;
    this.#isRandom = own instanceof Sampler && !(own instanceof SequentialSampler);
    if (own instanceof Sampler) this.#seed ??= own.seed;
  }

  /** How many batches an epoch has. @throws {ArgumentError} where nobody knows */
  get length(): number {
    const n = this.batchSampler?.length;
    if (n !== undefined && !Number.isNaN(n)) return n;
    throw new ArgumentError("count the batches of a DataLoader", {
      reason: `${this.#stream === undefined ? "its sampler" : "its data set"} has no length`,
    });
  }
  /** How many epochs have been iterated over to their end, or given up. */
  get epoch(): number {
    this.load();
    return this.#now[0];
  }

  /** Where it stands, as a tensor that a state dictionary has. */
  private kept(): KeptNumbers {
    this.load();
    if (this.#kept === undefined) this.#kept = new KeptNumbers(this.#now);
    else if (this.#now.some((x, i) => x !== this.#written[i])) this.#kept.values = this.#now;
    this.#written = this.#kept.values;
    return this.#kept;
  }
  /** Takes what a checkpoint has put there. */
  private load(): void {
    const values = this.#kept?.values;
    if (values === undefined || values === this.#written) return;
    this.#written = values;
    this.#now = [values[0], values[1], values[2]];
    this.#goesOn = true;
  }

  /** Begins an epoch, or goes on with one that was loaded: its batches, without those that were given. */
  private begin(): Iterator<readonly number[]> {
    this.load();
    let [epoch, done, seed] = this.#now;
    if (!this.#goesOn && done > 0) [epoch, done] = [epoch + 1, 0]; // the last iteration was left
    if (done === 0) seed = this.#isRandom ? epochSeed(this.#seed, epoch) : 0;
    this.#now = [epoch, done, seed];
    this.#goesOn = false;
    const { batchSampler } = this;
    const batches = batchSampler === undefined
      ? [][Symbol.iterator]()
      : (batchSampler instanceof BatchSampler ? batchSampler.order(seed) : batchSampler)[Symbol.iterator]();
    for (let i = 0; i < done; i++) batches.next();
    return batches;
  }
  private given(): void {
    const [epoch, done, seed] = this.#now;
    this.#now = [epoch, done + 1, seed];
  }
  private end(): void {
    this.#now = [this.#now[0] + 1, 0, 0];
  }

  /** A batch of items. */
  private put(items: T[]): B | Promise<B> {
    return (this.#options.collate ?? collate as unknown as (items: T[]) => B)(items);
  }
  /** The batch of these indices, by this thread: a promise where an item is one. */
  private here(indices: readonly number[]): B | Promise<B> {
    const dataset = this.dataset!;
    if (dataset.batch !== undefined && this.#options.collate === undefined) return dataset.batch(indices);
    checkIndices(indices, dataset.length);
    const items = Array.from(indices, (i) => dataset.get(i));
    if (!items.some((x) => x instanceof Promise)) return this.put(items as T[]);
    return Promise.all(items).then((all) => this.put(all));
  }

  /** The batches of an epoch. */
  async *[Symbol.asyncIterator](): AsyncGenerator<B, void, void> {
    if (isLate()) await partsReady();
    if (this.#stream !== undefined) return yield* this.streamed(this.#stream);
    const { numWorkers = 0, prefetchFactor, workerModule, timeout = 0 } = this.#options;
    const ahead = 1 + (numWorkers > 0 ? Math.max(1, numWorkers * (prefetchFactor ?? 2)) : prefetchFactor ?? 0);
    const workers = numWorkers > 0 ? await import("./workers.ts") : undefined;
    const batches = this.begin(), queue: Promise<B>[] = [];
    const pool = workers && new workers.WorkerPool(workerModule!, numWorkers, timeout);
    const start = async (indices: readonly number[]): Promise<B> => {
      if (pool === undefined) return await this.here(indices);
      checkIndices(indices, this.dataset!.length);
      const { items, batch } = await pool.load(Array.from(indices));
      return items === undefined ? batch as B : await this.put(items as T[]);
    };
    try {
      for (let isEnd = false;;) {
        while (!isEnd && queue.length < ahead) {
          const { done, value } = batches.next();
          if (done) isEnd = true;
          else {
            const batch = start(value);
            batch.catch(() => {}); // told when its turn comes
            queue.push(batch);
          }
        }
        const next = queue.shift();
        if (next === undefined) break;
        const batch = await next;
        this.given();
        yield batch;
      }
      this.end();
    } finally {
      pool?.close();
    }
  }

  /** The batches of an epoch, at once. @throws {ArgumentError} where one has to be waited for */
  *[Symbol.iterator](): Generator<B, void, void> {
    const wait = (): never => {
      throw new ArgumentError("iterate over a DataLoader", {
        reason: "its batches have to be waited for; write for await (const batch of loader)",
      });
    };
    if ((this.#options.numWorkers ?? 0) > 0) wait();
    if (this.#stream !== undefined) {
      if (!(Symbol.iterator in this.#stream)) wait();
      for (const items of this.grouped(this.#stream as Iterable<T>)) {
        const batch = this.put(items);
        if (batch instanceof Promise) wait();
        yield batch as B;
      }
      return this.end();
    }
    const batches = this.begin();
    for (let next = batches.next(); !next.done; next = batches.next()) {
      const batch = this.here(next.value);
      if (batch instanceof Promise) {
        batch.catch(() => {});
        wait();
      }
      this.given();
      yield batch as B;
    }
    this.end();
  }

  private *grouped(items: Iterable<T>): Generator<T[]> {
    const { batchSize = 1, dropLast = false } = this.#options;
    let batch: T[] = [];
    for (const x of items) {
      if (batch.push(x) < batchSize) continue;
      yield batch;
      batch = [];
    }
    if (batch.length > 0 && !dropLast) yield batch;
  }
  private async *streamed(items: Stream<T>): AsyncGenerator<B, void, void> {
    const { batchSize = 1, dropLast = false } = this.#options;
    let batch: T[] = [];
    for await (const x of items) {
      if (batch.push(x) < batchSize) continue;
      yield await this.put(batch);
      batch = [];
    }
    if (batch.length > 0 && !dropLast) yield await this.put(batch);
    this.end();
  }
}
