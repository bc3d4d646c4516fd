/**
 * ONNX: quantized numbers: scales and zero points for a tensor, an axis or blocks of one; products and convolutions of
 * small integers, which are exact in 32 bits.
 *
 * @module
 */
import { dtypeMax, dtypeMin, dtypes } from "../../dtype/dtype.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import { type Call, op, type OpRow, type Result } from "../values/node_call.ts";
import { type Value, valueOf } from "../values/value.ts";
import { type ElementType, elementType, UINT8 } from "../wire/element_types.ts";
import { castTensor } from "./casts.ts";
import { convolve } from "./window_ops.ts";

/** A scale or zero point as wide as a tensor of `shape`: one number, one an axis, one a block. */
function spread(t: Tensor, shape: readonly number[], axis: number, block: number): Tensor {
  if (t.numel() === 1) return t.reshape([]);
  if (block > 0) {
    const wide = t.repeatInterleave(block, axis), n = shape[axis];
    return wide.shape[axis] === n
      ? wide
      : wide.shrink(wide.shape.map((s, i): [number, number] => [0, i === axis ? n : s]));
  }
  return t.ndim <= 1 ? t.reshape(shape.map((_, i) => i === axis ? -1 : 1)) : t;
}
function axisOf(c: Call, rank: number): number {
  const axis = c.int("axis", 1);
  return axis < 0 ? axis + rank : Math.min(axis, Math.max(0, rank - 1));
}
/** Bounds of a type of integers. */
function rangeOf(type: ElementType): [number, number] {
  if (type.bits >= 8) return [dtypeMin(type.dtype), dtypeMax(type.dtype)];
  return type.dtype.isUnsigned ? [0, 2 ** type.bits - 1] : [-(2 ** (type.bits - 1)), 2 ** (type.bits - 1) - 1];
}
/** Rounded to a type, saturating. */
export function quantized(x: Tensor, zero: Tensor | undefined, type: ElementType, saturate = true): Value {
  if (type.dtype.isFloat) return castTensor(zero === undefined ? x : x.add(zero.float()), type, saturate);
  const [min, max] = rangeOf(type), r = x.round();
  const y = (zero === undefined ? r : r.add(zero.float())).clamp(min, max);
  return valueOf(y.cast(dtypes.int32).cast(type.dtype), type.code);
}

export function quantizeLinear(c: Call): Result {
  const x = c.x(0), axis = axisOf(c, x.ndim), block = c.int("block_size", 0);
  const code = c.has(2) ? c.type(2) : c.int("output_dtype", 0) || UINT8, zero = c.opt(2);
  const scale = spread(c.x(1).float(), x.shape, axis, block), y = x.float().div(scale);
  const z = zero === undefined || elementType(code)!.dtype.isFloat ? undefined : spread(zero, x.shape, axis, block);
  return quantized(y, z, elementType(code)!, c.int("saturate", 1) === 1);
}
export function dequantizeLinear(c: Call): Result {
  const x = c.x(0),
    axis = axisOf(c, x.ndim),
    block = c.int("block_size", 0),
    code = c.int("output_dtype", 0) || c.type(1);
  const wide = (t: Tensor) => t.dtype.isFloat ? t.float() : t.cast(dtypes.int32), zero = c.opt(2);
  const from = zero === undefined ? wide(x) : wide(x).sub(wide(spread(zero, x.shape, axis, block)));
  return valueOf(from.float().mul(spread(c.x(1).float(), x.shape, axis, block)).cast(c.dtype(code)), code);
}

/** Rounded to bytes by its own range, which has zero in it; where all is zero, the scale is 1. */
function bytesByRange(x: Tensor): { readonly bytes: Tensor; readonly scale: Tensor; readonly zero: Tensor } {
  const max = x.max().maximum(0), min = x.min().minimum(0), range = max.sub(min).div(255);
  const scale = range.eq(0).where(1, range), zero = min.neg().div(scale).round().clamp(0, 255);
  return { bytes: x.div(scale).round().add(zero).clamp(0, 255), scale, zero };
}
function dynamicQuantize(c: Call): Result {
  const { bytes, scale, zero } = bytesByRange(c.x(0)), whole = (t: Tensor) => t.cast(dtypes.int32).cast(dtypes.uint8);
  return [whole(bytes), scale, whole(zero)];
}
/** Floats times small integers: the floats are rounded to bytes by their range first, and the product is of whole numbers. */
export function productByRange(x: Tensor, weights: Tensor, weightScale: Tensor): Tensor {
  const { bytes, scale, zero } = bytesByRange(x), whole = bytes.sub(zero).cast(dtypes.int32);
  return whole.matmul(weights, { dtype: "int32" }).float().mul(scale).mul(weightScale);
}

/** Small integers less their zero point, which is one, or one a row (`-2`) or column (`-1`). */
export function centered(c: Call, i: number, zero: number, axis: number): Tensor {
  const x = c.x(i).cast(dtypes.int32), z = c.opt(zero)?.cast(dtypes.int32);
  if (z === undefined) return x;
  if (z.numel() === 1) return x.sub(z.reshape([]));
  return x.sub(z.ndim === 1 && axis === -2 ? z.unsqueeze(1) : z);
}
function matmulInteger(c: Call): Result {
  return centered(c, 0, 2, -2).matmul(centered(c, 1, 3, -1), { dtype: "int32" }).cast(dtypes.int32);
}
/** Scales of rows or columns beside each other. */
export function scaleOf(c: Call, i: number, axis: number): Tensor {
  const s = c.x(i).float();
  return s.numel() === 1 ? s.reshape([]) : s.ndim === 1 && axis === -2 ? s.unsqueeze(1) : s;
}
function qlinearMatmul(c: Call): Result {
  const product = centered(c, 0, 2, -2).matmul(centered(c, 3, 5, -1), { dtype: "int32" }).float();
  const y = product.mul(scaleOf(c, 1, -2)).mul(scaleOf(c, 4, -1)).div(scaleOf(c, 6, -2));
  return quantized(y, c.opt(7), elementType(c.type(7))!);
}

/** Integers less a zero point, padded as zeros. What is convolved is laid down: each element is in many windows. */
function convInteger(c: Call): Result {
  const w = centered(c, 1, 3, 0), z = c.opt(3);
  const kernel = z !== undefined && z.numel() > 1
    ? c.x(1).cast(dtypes.int32).sub(z.cast(dtypes.int32).reshape([-1, ...w.shape.slice(1).map(() => 1)]))
    : w;
  return convolve(c, centered(c, 0, 2, 0).contiguous(), kernel).cast(dtypes.int32);
}
function qlinearConv(c: Call): Result {
  const channels = (t: Tensor, at: number): Tensor =>
    t.numel() === 1 ? t.reshape([]) : t.reshape([at === 0 ? -1 : 1, at === 0 ? 1 : -1, 1, 1]);
  const x = centered(c, 0, 2, 0), w = c.x(3).cast(dtypes.int32).sub(channels(c.x(5).cast(dtypes.int32), 0));
  const sum = convolve(c, x, w, c.opt(8)).float();
  const y = sum.mul(c.x(1).float().reshape([])).mul(channels(c.x(4).float(), 1)).div(c.x(6).float().reshape([]));
  return quantized(y, c.opt(7)?.reshape([]), elementType(c.type(7))!);
}

/** The rows of this family. */
export const QUANTIZED: readonly OpRow[] = [
  op("QuantizeLinear", quantizeLinear),
  op("DequantizeLinear", dequantizeLinear),
  op("DynamicQuantizeLinear", dynamicQuantize),
  op("MatMulInteger", matmulInteger),
  op("QLinearMatMul", qlinearMatmul),
  op("ConvInteger", convInteger),
  op("QLinearConv", qlinearConv),
];
