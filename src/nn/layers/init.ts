/**
 * What the layers share: initial weights, copies of layers, and sizes by axis.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import { describeList } from "../../helpers/options.ts";
import { Tensor } from "../../tensor/tensor.ts";

/** A weight drawn from [-bound, bound), as PyTorch initializes linear layers and convolutions. Requires a gradient. */
export function uniformWeight(shape: number[], bound: number): Tensor {
  return Tensor.uniform(shape, { low: -bound, high: bound, requiresGrad: true });
}

/** A matrix drawn by Xavier's uniform bound (Glorot and Bengio, 2010). Requires a gradient. */
export function xavierUniform(shape: readonly number[]): Tensor {
  const [rows, columns] = shape;
  return uniformWeight([rows, columns], Math.sqrt(6 / (rows + columns)));
}

/** A layer as another is, with all layers that it has: each tensor in memory of its own. Functions are those of the first. */
export function copyOf<T>(x: T, seen: Map<unknown, unknown> = new Map()): T {
  if (typeof x !== "object" || x === null) return x;
  if (seen.has(x)) return seen.get(x) as T;
  if (x instanceof Tensor) {
    const own = x.detach().clone();
    own.requiresGrad = x.requiresGrad;
    seen.set(x, own);
    return own as T;
  }
  const copy: object = Array.isArray(x) ? [] : Object.create(Object.getPrototypeOf(x));
  seen.set(x, copy);
  for (const [name, field] of Object.entries(Object.getOwnPropertyDescriptors(x))) {
    Object.defineProperty(copy, name, "value" in field ? { ...field, value: copyOf(field.value, seen) } : field);
  }
  return copy as T;
}

/** A class that is made by a function, by the name that it is exported by. */
export function named<C>(made: C, name: string): C {
  return Object.defineProperty(made, "name", { value: name });
}

/** Whether something can be called as a layer: an object with a method `call`, but no tensor, whose `call` is another. */
export function isLayer(x: unknown): x is { call(x: Tensor): Tensor } {
  return typeof x === "object" && x !== null && !(x instanceof Tensor) &&
    typeof (x as { call?: unknown }).call === "function";
}

/** A list of `rank` times a number, or the list itself: of integers of at least `min`. @throws {ArgumentError} */
export function sizesOf(
  what: string,
  name: string,
  size: number | readonly number[],
  rank: number,
  min: number,
): number[] {
  const list: unknown = typeof size === "number" ? new Array<number>(rank).fill(size) : size;
  if (Array.isArray(list) && list.length > 0 && Array.from(list).every((n) => Number.isSafeInteger(n) && n >= min)) {
    return [...list];
  }
  throw new ArgumentError(what, {
    reason: `${name} must be an integer${min > -Infinity ? ` of at least ${min}` : ""} or a list of such, not ${
      typeof size === "number" ? size : describeList(size)
    }`,
  });
}
