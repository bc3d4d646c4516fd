/**
 * Items as a batch: tensors, numbers and arrays of them are put together along a new first axis, text into lists, and the
 * entries of lists and objects each by itself, so that items `[image, label]` are batches `[images, labels]`.
 *
 * @module
 */
import { ArgumentError, DataError } from "../../helpers/errors.ts";
import { sameArray } from "../../helpers/math.ts";
import { describe, isPlain } from "../../helpers/options.ts";
import type { NestedArray } from "../../tensor/handle/base.ts";
import { Tensor } from "../../tensor/tensor.ts";

/** What a part of items becomes in a batch. */
export type CollatedPart<F> = F extends Tensor | number | boolean | bigint | ArrayBufferView | NestedArray ? Tensor
  : F extends readonly unknown[] ? { [K in keyof F]: CollatedPart<F[K]> }
  : F extends string | null | undefined ? F[]
  : F extends object ? { [K in keyof F]: CollatedPart<F[K]> }
  : unknown;

/** What items become in a batch: a list is a tuple of parts. */
export type Collated<T> = T extends readonly unknown[] ? { [K in keyof T]: CollatedPart<T[K]> } : CollatedPart<T>;

type Numbers = Exclude<ArrayBufferView, DataView> & ArrayLike<number | bigint>;

function isNumbers(x: unknown): x is Numbers {
  return ArrayBuffer.isView(x) && !(x instanceof DataView);
}

/** How deep items may be: what is deeper contains itself. */
const DEEPEST = 100;

function checkDepth(depth: number): void {
  if (depth <= DEEPEST) return;
  throw new DataError("make a batch", {
    reason: `an item has more than ${DEEPEST} lists and objects within each other, or contains itself`,
  });
}

/** Whether a list has numbers alone, at any depth. */
function isNested(x: unknown, depth: number): boolean {
  checkDepth(depth);
  return Array.isArray(x)
    ? x.length > 0 && x.every((y) => isNested(y, depth + 1))
    : typeof x === "number" || typeof x === "boolean" || typeof x === "bigint";
}

function differ(path: string, what: string, i: number, a: unknown, b: unknown): never {
  throw new DataError(`make a batch of ${path}`, {
    reason: `${what} of its item 0 is ${a}, and of item ${i} ${b}; give all items one, or a collate function`,
  });
}

/** The items as one tensor, where they are such; what tensors come of it are put into `made`. */
function collatePart(items: readonly unknown[], path: string, depth: number, made: Tensor[]): unknown {
  const tensor = (t: Tensor): Tensor => made[made.push(t) - 1];
  checkDepth(depth);
  const [first] = items;
  if (first instanceof Tensor) {
    items.forEach((t, i) => {
      if (!(t instanceof Tensor)) differ(path, "the kind", i, "a tensor", describe(t));
      if (!sameArray(t.shape, first.shape)) differ(path, "the shape", i, `[${first.shape}]`, `[${t.shape}]`);
    });
    return tensor(Tensor.stack(items as Tensor[]));
  }
  if (isNumbers(first)) {
    const n = first.length, out = new (first.constructor as new (n: number) => Numbers)(items.length * n);
    items.forEach((x, i) => {
      if (!isNumbers(x) || x.constructor !== first.constructor) {
        differ(path, "the kind", i, describe(first), describe(x));
      }
      if (x.length !== n) differ(path, "the length", i, n, x.length);
      (out as unknown as { set(x: unknown, at: number): void }).set(x, i * n);
    });
    return tensor(new Tensor(out as never).reshape([items.length, n]));
  }
  if (isNested(first, depth) && !(depth === 0 && Array.isArray(first))) return tensor(new Tensor(items as NestedArray));
  if (Array.isArray(first)) {
    const lists = items.map((x, i) => {
      if (!Array.isArray(x)) differ(path, "the kind", i, "a list", describe(x));
      if (x.length !== first.length) differ(path, "the length", i, first.length, x.length);
      return x as readonly unknown[];
    });
    return first.map((_, k) => collatePart(lists.map((x) => x[k]), `${path}[${k}]`, depth + 1, made));
  }
  if (!isPlain(first)) return [...items];
  return Object.fromEntries(
    Object.keys(first).map((key) => {
      const parts = items.map((x, i) => {
        if (isPlain(x) && Object.hasOwn(x, key)) return x[key];
        return differ(path, `the field "${key}"`, i, describe(first[key]), "missing");
      });
      return [key, collatePart(parts, `${path}.${key}`, depth + 1, made)];
    }),
  );
}

/**
 * Items as a batch. Numbers are int32 where all of a batch are whole, as `new Tensor` has it; typed arrays keep their dtype.
 *
 * ```ts
 * import { nn } from "../../../mod.ts";
 * const [x, y] = nn.data.collate([[new Float32Array([1, 2]), 3], [new Float32Array([4, 5]), 6]]);
 * console.log(await x.tolist(), await y.tolist()); // [[1, 2], [4, 5]] [3, 6]
 * ```
 *
 * @throws {DataError} naming the part and the item that does not fit the first one
 * @throws {ArgumentError} for what is no list
 */
export function collate<T>(items: readonly T[]): Collated<T> {
  if (!Array.isArray(items)) {
    throw new ArgumentError("make a batch", { reason: `it takes a list of items, not ${describe(items)}` });
  }
  if (items.length === 0) throw new DataError("make a batch", { reason: "it has no items" });
  const tensors: Tensor[] = [], batch = collatePart(items, "items", 0, tensors);
  if (tensors.length > 0) Tensor.realize(tensors);
  return batch as Collated<T>;
}
