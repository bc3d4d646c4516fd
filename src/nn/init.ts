/**
 * What the layers share: initial weights, and sizes by axis.
 *
 * @module
 */
import { ArgumentError } from "../helpers/errors.ts";
import { describeList } from "../helpers/options.ts";
import { Tensor } from "../tensor/tensor.ts";

/** A weight drawn from [-bound, bound), as PyTorch initializes linear layers and convolutions. Requires a gradient. */
export function uniformWeight(shape: number[], bound: number): Tensor {
  return Tensor.uniform(shape, { low: -bound, high: bound, requiresGrad: true });
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
