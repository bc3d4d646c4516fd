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
import { type ElementType, elementType, FLOAT, UINT8 } from "../wire/element_types.ts";
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
function quantized(x: Tensor, zero: Tensor | undefined, type: ElementType, saturate = true): Value {
  if (type.dtype.isFloat) return castTensor(zero === undefined ? x : x.add(zero.float()), type, saturate);
  const [min, max] = rangeOf(type), r = x.round();
  const y = (zero === undefined ? r : r.add(zero.float())).clamp(min, max);
  return valueOf(y.cast(dtypes.int32).cast(type.dtype), type.code);
}

function quantizeLinear(c: Call): Result {
  const x = c.x(0), axis = axisOf(c, x.ndim), block = c.int("block_size", 0);
  const code = c.has(2) ? c.type(2) : c.int("output_dtype", 0) || UINT8, zero = c.opt(2);
  const scale = spread(c.x(1).float(), x.shape, axis, block), y = x.float().div(scale);
  const z = zero === undefined || elementType(code)!.dtype.isFloat ? undefined : spread(zero, x.shape, axis, block);
  return quantized(y, z, elementType(code)!, c.int("saturate", 1) === 1);
}
function dequantizeLinear(c: Call): Result {
  const x = c.x(0),
    axis = axisOf(c, x.ndim),
    block = c.int("block_size", 0),
    code = c.int("output_dtype", 0) || c.type(1);
  const wide = (t: Tensor) => t.dtype.isFloat ? t.float() : t.cast(dtypes.int32), zero = c.opt(2);
  const from = zero === undefined ? wide(x) : wide(x).sub(wide(spread(zero, x.shape, axis, block)));
  return valueOf(from.float().mul(spread(c.x(1).float(), x.shape, axis, block)).cast(c.dtype(code)), code);
}

function dynamicQuantize(c: Call): Result {
  const x = c.x(0), max = x.max().maximum(0), min = x.min().minimum(0), scale = max.sub(min).div(255);
  const zero = min.neg().div(scale).round().clamp(0, 255);
  const y = x.div(scale).round().add(zero).clamp(0, 255);
  return [y.cast(dtypes.int32).cast(dtypes.uint8), scale, zero.cast(dtypes.int32).cast(dtypes.uint8)];
}

/** Small integers less their zero point, which is one, or one a row (`-2`) or column (`-1`). */
function centered(c: Call, i: number, zero: number, axis: number): Tensor {
  const x = c.x(i).cast(dtypes.int32), z = c.opt(zero)?.cast(dtypes.int32);
  if (z === undefined) return x;
  if (z.numel() === 1) return x.sub(z.reshape([]));
  return x.sub(z.ndim === 1 && axis === -2 ? z.unsqueeze(1) : z);
}
function matmulInteger(c: Call): Result {
  return centered(c, 0, 2, -2).matmul(centered(c, 1, 3, -1), { dtype: "int32" }).cast(dtypes.int32);
}
/** Scales of rows or columns beside each other. */
function scaleOf(c: Call, i: number, axis: number): Tensor {
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

/** The real numbers that integers with a scale and zero point are: inputs `i`, `i + 1`, `i + 2`. */
function real(c: Call, i: number): Tensor {
  return centered(c, i, i + 2, 0).float().mul(c.x(i + 1).float().reshape([]));
}
/** Inputs are triples of a tensor, scale and zero point; the scale and zero point of the result follow. */
const qlinear = (name: string, operands: number, f: (c: Call, xs: Tensor[]) => Tensor, since = 1): OpRow =>
  op(
    name,
    (c) => {
      const y = f(c, Array.from({ length: operands }, (_, k) => real(c, 3 * k))), at = 3 * operands;
      const type = elementType(c.has(at + 1) ? c.type(at + 1) : c.type(0))!;
      return quantized(y.div(c.x(at).float().reshape([])), c.opt(at + 1)?.reshape([]), type);
    },
    [],
    since,
    "com.microsoft",
  );

/** The rows of this family. */
export const QUANTIZED: readonly OpRow[] = [
  op("QuantizeLinear", quantizeLinear),
  op("DequantizeLinear", dequantizeLinear),
  op("QuantizeLinear", quantizeLinear, [], 1, "com.microsoft"),
  op("DequantizeLinear", dequantizeLinear, [], 1, "com.microsoft"),
  op("DynamicQuantizeLinear", dynamicQuantize),
  op("MatMulInteger", matmulInteger),
  op("QLinearMatMul", qlinearMatmul),
  op("ConvInteger", convInteger),
  op("QLinearConv", qlinearConv),
  qlinear("QLinearAdd", 2, (_, [a, b]) => a.add(b)),
  qlinear("QLinearMul", 2, (_, [a, b]) => a.mul(b)),
  qlinear("QLinearSigmoid", 1, (_, [x]) => x.sigmoid()),
  qlinear("QLinearLeakyRelu", 1, (c, [x]) => x.leakyRelu(c.float("alpha", 0.01))),
  qlinear(
    "QLinearGlobalAveragePool",
    1,
    (c, [x]) =>
      x.mean(
        x.shape.map((_, i) => i).slice(
          c.int("channels_last", 0) === 1 ? 1 : 2,
          c.int("channels_last", 0) === 1 ? -1 : undefined,
        ),
        { keepdim: true },
      ),
  ),
  op(
    "MatMulIntegerToFloat",
    (c) => {
      const product = centered(c, 0, 4, -2).matmul(centered(c, 1, 5, -1), { dtype: "int32" }).float();
      const y = product.mul(scaleOf(c, 2, -2)).mul(scaleOf(c, 3, -1));
      return valueOf(c.has(6) ? y.add(c.x(6)) : y, FLOAT);
    },
    [],
    1,
    "com.microsoft",
  ),
  op(
    "DynamicQuantizeMatMul",
    (c) => {
      const x = c.x(0), max = x.max().maximum(0), min = x.min().minimum(0), scale = max.sub(min).div(255);
      const zero = min.neg().div(scale).round().clamp(0, 255),
        q = x.div(scale).round().add(zero).clamp(0, 255).sub(zero);
      const product = q.cast(dtypes.int32).matmul(centered(c, 1, 3, -1), { dtype: "int32" }).float();
      const y = product.mul(scale).mul(scaleOf(c, 2, -1));
      return c.has(4) ? y.add(c.x(4)) : y;
    },
    [],
    1,
    "com.microsoft",
  ),
  op("MatMulNBits", matmulNBits, [], 1, "com.microsoft"),
];

/** A product with weights of a few bits, `[N, blocks, bytes]`, each block with a scale and perhaps a zero point. */
function matmulNBits(c: Call): Result {
  const x = c.x(0),
    n = c.int("N"),
    k = c.int("K"),
    bits = c.int("bits", 4),
    block = c.int("block_size"),
    per = 8 / bits;
  const unpacked = (bytes: Tensor): Tensor => {
    const parts = Array.from({ length: per }, (_, i) => bytes.rshift(i * bits).bitwiseAnd(2 ** bits - 1));
    return parts[0].stack(parts.slice(1), -1).flatten(-2);
  };
  const blocks = Math.ceil(k / block), q = unpacked(c.x(1).reshape([n, blocks, -1])).float();
  const scale = c.x(2).float().reshape([n, blocks, 1]);
  let zero: Tensor | undefined;
  if (c.has(3)) {
    const z = c.x(3);
    zero = z.dtype.isFloat
      ? z.float().reshape([n, blocks, 1])
      : unpacked(z.reshape([n, -1])).at(":", [0, blocks]).float().unsqueeze(2);
  }
  const w = q.sub(zero ?? 2 ** (bits - 1)).mul(scale).reshape([n, blocks * block]).at(":", [0, k]);
  const y = x.float().matmul(w.transpose(0, 1));
  return c.like(c.has(5) ? y.add(c.x(5).float()) : y);
}
