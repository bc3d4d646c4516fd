/**
 * Data sets: anything with a length and `get(index)`, a list, a tensor, or something to iterate over. Here are those that
 * are made of tensors, and of other data sets.
 *
 * @module
 */
import { ArgumentError, DataError, ShapeError } from "../../helpers/errors.ts";
import { checkInteger, checkOptions, describe } from "../../helpers/options.ts";
import { Tensor } from "../../tensor/tensor.ts";
import type { Collated } from "./collate.ts";
import { checkIterable, checkSeed, epochSeed, permutationOf } from "./shuffling.ts";

/** Items by number. */
export interface Dataset<T, B = Collated<T>> {
  /** How many items there are. */
  readonly length: number;
  /** Item `index`, which may take its time. */
  get(index: number): T | Promise<T>;
  /** Several items as a batch at once, where that is faster than one by one. */
  batch?(indices: readonly number[]): B | Promise<B>;
}

/** What {@linkcode Subset} and the like take: a data set, or a list of items. */
export type DatasetLike<T, B = Collated<T>> = Dataset<T, B> | readonly T[];

/** What is given as a data set of items by number; a list is one of its entries, a tensor one of its rows. @throws {ArgumentError} */
export function datasetOf<T, B>(action: string, given: unknown): Dataset<T, B> {
  if (given instanceof Tensor) return new Rows(given) as unknown as Dataset<T, B>;
  if (Array.isArray(given) || (ArrayBuffer.isView(given) && !(given instanceof DataView))) {
    const list = given as readonly T[];
    return { length: list.length, get: (i) => list[i] };
  }
  const { length, get } = (given ?? {}) as Partial<Dataset<T, B>>;
  if (typeof get === "function" && Number.isSafeInteger(length) && (length as number) >= 0) {
    return given as Dataset<T, B>;
  }
  throw new ArgumentError(action, {
    reason: `a data set is a list, a tensor, or an object with a length and get(index), not ${describe(given)}${
      typeof get === "function" ? ` of length ${describe(length)}` : ""
    }`,
  });
}

/** @throws {DataError} for an index that is no number of an item, and for what is no list of indices */
export function checkIndices(indices: readonly number[], length: number): void {
  if (!Array.isArray(indices) && (!ArrayBuffer.isView(indices) || indices instanceof DataView)) {
    throw new DataError("load items", { reason: `it takes a list of their indices, not ${describe(indices)}` });
  }
  for (const i of indices) {
    if (Number.isInteger(i) && i >= 0 && i < length) continue;
    throw new DataError(`load item ${describe(i)}`, { reason: `the data set has items 0 to ${length - 1}` });
  }
}

/** Rows of a tensor, in one kernel. */
function rowsOf(t: Tensor, indices: readonly number[]): Tensor {
  // nothing computes on a file: its rows come one by one
  if (t.device.startsWith("DISK")) return Tensor.stack(indices.map((i) => t.at(i).to()));
  return t.at(new Tensor(Int32Array.from(indices), { device: t.device }));
}

/** A tensor as a data set: batches are rows of it. */
class Rows implements Dataset<Tensor, Tensor> {
  constructor(private readonly tensor: Tensor) {
    if (tensor.ndim === 0) throw new ShapeError("take rows of", { shapes: [[]], reason: "it has no axis" });
  }
  get length(): number {
    return this.tensor.shape[0];
  }
  get(index: number): Tensor {
    checkIndices([index], this.length);
    return this.tensor.at(index);
  }
  batch(indices: readonly number[]): Tensor {
    checkIndices(indices, this.length);
    return rowsOf(this.tensor, indices).realize();
  }
}

/**
 * Rows of several tensors of one length, as inputs and labels. A batch is gathered where the tensors are, in one schedule.
 *
 * ```ts
 * import { nn, Tensor } from "../../../mod.ts";
 * const data = new nn.data.TensorDataset(Tensor.rand([10, 3]), Tensor.arange(10));
 * for await (const [x, y] of new nn.data.DataLoader(data, { batchSize: 4 })) console.log(x.shape, y.shape);
 * ```
 */
export class TensorDataset<T extends readonly Tensor[] = Tensor[]> implements Dataset<T, T> {
  readonly tensors: T;
  readonly length: number;

  /** Takes the tensors, one by one or as a list. @throws {ShapeError} unless their first axes have one size */
  constructor(...tensors: T | readonly [T]) {
    const all = (Array.isArray(tensors[0]) ? tensors[0] : tensors) as T, action = "make a TensorDataset";
    if (all.length === 0 || !Array.from(all).every((t) => t instanceof Tensor)) {
      throw new ArgumentError(action, {
        reason: `it takes tensors, not ${all.length === 0 ? "none" : Array.from(all, describe).join(", ")}`,
      });
    }
    const shapes = all.map((t) => t.shape), [first] = shapes;
    if (shapes.some((s) => s.length === 0 || s[0] !== first[0])) {
      throw new ShapeError(`${action} of tensors of`, {
        shapes,
        axis: 0,
        reason: "their first axes must have one size",
      });
    }
    this.tensors = all;
    this.length = first[0];
  }
  /** Row `index` of each. @throws {DataError} if there is none */
  get(index: number): T {
    checkIndices([index], this.length);
    return this.tensors.map((t) => t.at(index)) as unknown as T;
  }
  /** These rows of each, realized. @throws {DataError} if there is none of one */
  batch(indices: readonly number[]): T {
    checkIndices(indices, this.length);
    const made = this.tensors.map((t) => rowsOf(t, indices));
    Tensor.realize(made);
    return made as unknown as T;
  }
}

/** Some items of a data set, in the order of `indices`. */
export class Subset<T, B = Collated<T>> implements Dataset<T, B> {
  readonly dataset: Dataset<T, B>;
  readonly indices: readonly number[];
  /** As {@linkcode Dataset.batch}, where the data set has one. */
  readonly batch?: (indices: readonly number[]) => B | Promise<B>;

  /** @throws {DataError} for an index outside the data set @throws {ArgumentError} for what is none */
  constructor(dataset: DatasetLike<T, B>, indices: Iterable<number>) {
    this.dataset = datasetOf<T, B>("make a Subset", dataset);
    this.indices = Array.from(checkIterable("make a Subset", "indices", indices));
    checkIndices(this.indices, this.dataset.length);
    if (this.dataset.batch !== undefined) this.batch = (at) => this.dataset.batch!(this.inner(at));
  }
  /** How many items there are. */
  get length(): number {
    return this.indices.length;
  }
  private inner(at: readonly number[]): number[] {
    checkIndices(at, this.length);
    return at.map((i) => this.indices[i]);
  }
  /** Item `index` of the subset. */
  get(index: number): T | Promise<T> {
    return this.dataset.get(this.inner([index])[0]);
  }
}

/** Data sets one after the other. */
export class ConcatDataset<T> implements Dataset<T> {
  readonly datasets: readonly Dataset<T>[];
  readonly length: number;

  /** @throws {ArgumentError} for what is no data set */
  constructor(datasets: readonly DatasetLike<T>[]) {
    if (!Array.isArray(datasets) || datasets.length === 0) {
      throw new ArgumentError("make a ConcatDataset", {
        reason: `it takes a list of data sets, not ${describe(datasets)}`,
      });
    }
    this.datasets = Array.from(datasets, (d) => datasetOf<T, Collated<T>>("make a ConcatDataset", d));
    this.length = this.datasets.reduce((n, d) => n + d.length, 0);
  }
  /** Item `index` of all. @throws {DataError} if there is none */
  get(index: number): T | Promise<T> {
    checkIndices([index], this.length);
    for (const d of this.datasets) {
      if (index < d.length) return d.get(index);
      index -= d.length;
    }
    throw new DataError(`load item ${index}`, { reason: "a data set has become shorter" });
  }
}

/**
 * Parts of a data set, chosen at random without overlap: of these lengths, or these fractions of all (what they leave over
 * goes to the first parts, one each). The same for the same seed.
 *
 * ```ts
 * import { nn } from "../../../mod.ts";
 * const [train, test] = nn.data.randomSplit([1, 2, 3, 4, 5], [0.8, 0.2], { seed: 1 });
 * console.log(train.length, test.length); // 4 1
 * ```
 *
 * @throws {ArgumentError} unless they add up to the length, or to 1
 */
export function randomSplit<T, B = Collated<T>>(
  dataset: DatasetLike<T, B>,
  lengths: readonly number[],
  options: { readonly seed?: number } = {},
): Subset<T, B>[] {
  const action = "split a data set";
  checkOptions(action, options, ["seed"]);
  const seed = checkSeed(action, options.seed), all = datasetOf<T, B>(action, dataset), n = all.length;
  if (!Array.isArray(lengths) || Array.from(lengths).some((x) => typeof x !== "number" || !(x >= 0))) {
    throw new ArgumentError(action, {
      reason: `lengths must be a list of numbers of at least 0, not ${describe(lengths)}`,
    });
  }
  const total = lengths.reduce((a, b) => a + b, 0), isWhole = lengths.every(Number.isInteger) && total === n;
  if (!isWhole && Math.abs(total - 1) > 1e-6) {
    throw new ArgumentError(action, {
      reason: `lengths ${lengths.join(", ")} add up to ${total}, neither to ${n} items nor, as fractions, to 1`,
    });
  }
  const sizes = isWhole ? [...lengths] : lengths.map((x) => Math.floor(x * n + 1e-9));
  for (let i = 0, left = n - sizes.reduce((a, b) => a + b, 0); left > 0; left--, i++) sizes[i % sizes.length]++;
  const order = permutationOf(n, epochSeed(seed, 0));
  let start = 0;
  return sizes.map((size) => {
    checkInteger(action, "a length", size, 0);
    return new Subset<T, B>(all, order.subarray(start, start += size));
  });
}
