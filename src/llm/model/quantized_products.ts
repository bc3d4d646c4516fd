/**
 * Products of activations and weights as devices do them best: what matrix units take, and of weights in blocks, where a
 * device multiplies bytes four at a time (DOT): activations are quantized, 32 at a time, as llama.cpp does it, and the
 * planes of weights lie so that sixteen rows are read together. Both are ordinary operations of the graph: what sums of bytes
 * they leave, code generation finds.
 *
 * @module
 */
import { getDevice } from "../../device/device.ts";
import { type DType, dtypes } from "../../dtype/dtype.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { GradientArg, withGradient } from "../../uop/graph/given_gradient.ts";
import { type BlockFormat, numbersOf } from "../files/block_formats.ts";

/** Rows that lie together, and bytes of each that do: as many as a vector of the widest processors holds. */
const ROWS = 16, WORD = 4;
/** Activations with a scale of their own. */
const BLOCK = 32;
/** Quants of which all are in a plane: each of its elements stands for no more than so many. */
const FIELDS = 8;

/** Does a device multiply bytes of such weights `[m, n]`? */
export function multipliesBytes(device: string, format: BlockFormat, shape: readonly number[]): boolean {
  return format.bytes !== undefined && shape.length === 2 && shape[0] % ROWS === 0 &&
    getDevice(device).renderer.caps.hasDots === true;
}

/**
 * Rows of activations from which matrix units multiply: those of a chunk of a text. Below, nothing is rounded: texts that are
 * written together, and guesses, are what each is alone.
 */
export const UNIT_ROWS = 32;

/** Rows from which matrix units multiply activations in parts. Four by [4096, 4096] take 22 us of threads, in parts 34. */
const PART_ROWS = 8;

/** Do matrix units of a device multiply so many rows of activations by such weights, without rounding what is multiplied? */
export function multipliesParts(device: string, format: BlockFormat, rows: number): boolean {
  return rows >= PART_ROWS && format.plain === dtypes.bfloat16 && unitDType(device, format) === dtypes.bfloat16;
}

/**
 * The product of float32 `x` `[..., n]` and a bfloat16 weight `[m, n]`: float32 `[..., m]`. A float32 is the sum of three
 * bfloat16, of eight bits each (of an infinity the others are NaN), whose products are exact in float32: rows of all
 * parts are multiplied in one product, which reads the weight once, and are added up. Lazy.
 */
export function productOfParts(x: Tensor, weight: Tensor): Tensor {
  const n = x.shape[x.ndim - 1], parts: Tensor[] = [];
  // what is reduced for them is reduced once
  for (
    let left = x.reshape([-1, n]).contiguous();
    parts.length < 3;
    left = left.sub(parts.at(-1)!.cast(dtypes.float32))
  ) {
    parts.push(left.cast(dtypes.bfloat16));
  }
  const all = Tensor.stack(parts).contiguous(), y = all.matmul(weight.transpose(0, 1), { dtype: dtypes.float32 });
  return y.sum(0).reshape([...x.shape.slice(0, -1), weight.shape[0]]);
}

/**
 * What activations and weights are rounded to for the matrix units of a device, as llama.cpp and others do it there: float16
 * where weights are, else bfloat16, which has the range of float32. Undefined where it has no units for that, and for
 * weights of float32.
 */
export function unitDType(device: string, { plain }: BlockFormat): DType | undefined {
  if (plain === dtypes.float32) return undefined;
  const dtype = plain === dtypes.float16 ? dtypes.float16 : dtypes.bfloat16;
  const cores = getDevice(device).renderer.caps.grid?.tensorCores ?? [];
  return cores.some(({ input }) => input === dtype) ? dtype : undefined;
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

/** Activations as multiples of a scale for each {@linkcode BLOCK} of them. */
interface ByteRows {
  /** Int8 `[T, n]`. */
  readonly bytes: Tensor;
  /** Float32 `[T, n / 32]`. */
  readonly scale: Tensor;
  /** The mean of the rounded numbers of each group: float32 `[T, n / group]`. */
  readonly mean: Tensor;
}

/** `x` `[T, n]`, rounded to multiples of scales that lie between -127 and 127. Lazy. */
function inBytes(x: Tensor, group: number): ByteRows {
  const [t, n] = x.shape, blocks = x.reshape([t, n / BLOCK, BLOCK]);
  const scale = blocks.abs().max(-1, { keepdim: true }).mul(1 / 127).contiguous();
  const bytes = blocks.div(scale.eq(0).where(1, scale)).round().cast(dtypes.int8).reshape([t, n]).contiguous();
  const sums = bytes.reshape([t, n / BLOCK, BLOCK / group, group]).cast(dtypes.int32).sum(-1);
  const mean = sums.cast(dtypes.float32).mul(1 / group).mul(scale).reshape([t, n / group]).contiguous();
  return { bytes, scale: scale.reshape([t, n / BLOCK]), mean };
}

/** The gradient of a product as if nothing was rounded, by the numbers of the weight. */
const EXACT = new GradientArg((g, [, w]) => [() => new Tensor(g).matmul(new Tensor(w)).uop, undefined]);

/**
 * The product of `x` `[..., n]` and a weight `[m, n]` that {@linkcode multipliesBytes}: float32 `[..., m]`. Each element
 * that is summed is a product of bytes times the scales of their blocks, and the weight's offset times the mean of the
 * activations of its group, so that the sum over a group is one of bytes, and one offset. Lazy.
 */
export function productOfBytes(x: Tensor, planes: readonly Tensor[], format: BlockFormat): Tensor {
  const n = x.shape[x.ndim - 1], [m] = planes[0].shape, rows = x.reshape([-1, n]), [t] = rows.shape;
  const { quants, scale, offset } = format.bytes!(planes), size = quants.shape[quants.ndim - 1];
  const group = Math.min(size, BLOCK), groups = n / group, a = inBytes(rows, group);
  /** What is the same in groups of so many elements: `[1, m, groups, 1]`, or `[t, 1, groups, 1]`. */
  const each = (u: Tensor, elements: number, first: number, second: number): Tensor =>
    u.reshape([first, second, n / elements, 1]).expand([first, second, n / elements, elements / group])
      .reshape([first, second, groups, 1]);
  const q = quants.cast(dtypes.float32).reshape([1, m, groups, group]).mul(each(scale, size, 1, m));
  const b = a.bytes.cast(dtypes.float32).reshape([t, 1, groups, group]).mul(each(a.scale, BLOCK, t, 1));
  const y = b.mul(q).add(each(a.mean, group, t, 1).mul(each(offset, size, 1, m))).sum([-1, -2]);
  const numbers = numbersOf(planes, format);
  return new Tensor(withGradient(y.uop, [rows.uop, numbers.uop], EXACT)).reshape([...x.shape.slice(0, -1), m]);
}
