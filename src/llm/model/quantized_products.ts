/**
 * Products of activations and weights in blocks where a device multiplies bytes four at a time (DOT): activations are
 * quantized, 32 at a time, as llama.cpp does it, and the planes of weights lie so that sixteen rows are read together. Both are
 * ordinary operations of the graph: what sums of bytes they leave, code generation finds.
 *
 * @module
 */
import { getDevice } from "../../device/device.ts";
import { dtypes } from "../../dtype/dtype.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { GradientArg, withGradient } from "../../uop/graph/given_gradient.ts";
import type { BlockFormat } from "../files/block_formats.ts";

/** Rows that lie together, and bytes of each that do: as many as a vector of the widest processors holds. */
const ROWS = 16, WORD = 4;
/** Activations with a scale of their own. */
const BLOCK = 32;
/** Quants of which all are in a plane: each of its elements stands for no more than so many. */
const FIELDS = 8;

/** Does a device multiply bytes of such weights `[m, n]`? */
export function multipliesBytes(device: string, format: BlockFormat, shape: readonly number[]): boolean {
  return format.hasBytes && shape.length === 2 && shape[0] % ROWS === 0 &&
    getDevice(device).renderer.caps.hasDots === true;
}

/** How a plane `[m, blocks, k]` lies in memory, and that memory seen as the plane again. */
export interface Layout {
  readonly laid: (plane: Tensor) => Tensor;
  readonly seen: (memory: Tensor) => Tensor;
}

/** The layout of planes of a format: sixteen rows side by side, of quants four bytes of each. */
export function layoutOf({ elements }: BlockFormat): Layout {
  const wordOf = (k: number, itemsize: number): number =>
    itemsize === 1 && k * FIELDS >= elements && k % WORD === 0 ? WORD : 1;
  return {
    laid: (x) => {
      const [m, blocks, k] = x.shape, word = wordOf(k, x.dtype.itemsize);
      return x.reshape([m / ROWS, ROWS, blocks, k / word, word]).permute([0, 2, 3, 1, 4]);
    },
    seen: (x) => {
      const [groups, blocks, words, rows, word] = x.shape;
      return x.permute([0, 3, 1, 2, 4]).reshape([groups * rows, blocks, words * word]);
    },
  };
}

/** What is rounded has the gradient that it would have without. */
const STRAIGHT = new GradientArg((g) => [g], true);

/** `x` `[..., n]` as multiples of a scale for each 32 elements that lie between -127 and 127: float32, lazy. */
export function inBytes(x: Tensor): Tensor {
  const { shape } = x, blocks = x.reshape([...shape.slice(0, -1), shape[shape.length - 1] / BLOCK, BLOCK]);
  const scale = blocks.abs().max(-1, { keepdim: true }).mul(1 / 127).contiguous();
  const bytes = blocks.div(scale.eq(0).where(1, scale)).round().cast(dtypes.int8).contiguous();
  const y = bytes.cast(dtypes.float32).mul(scale).reshape(shape);
  return new Tensor(withGradient(y.uop, [x.uop], STRAIGHT));
}
