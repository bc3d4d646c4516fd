/**
 * What the layers share: initial weights, and sizes by axis.
 *
 * @module
 */
import { Tensor } from "../tensor/tensor.ts";

/** A weight drawn from [-bound, bound), as PyTorch initializes linear layers and convolutions. Requires a gradient. */
export function uniformWeight(shape: number[], bound: number): Tensor {
  return Tensor.uniform(shape, { low: -bound, high: bound, requiresGrad: true });
}

/** A pair for a number, the list itself otherwise. */
export function sizesOf(size: number | readonly number[], rank: number): number[] {
  return typeof size === "number" ? new Array<number>(rank).fill(size) : [...size];
}
