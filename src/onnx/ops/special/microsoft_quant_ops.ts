/**
 * ONNX: operators of com.microsoft that tools of quantization write: layers whose operands are small integers with a scale
 * and a zero point, which onnxruntime computes in whole numbers or through floats, and rounds once.
 *
 * @module
 */
import { dtypes } from "../../../dtype/dtype.ts";
import { Tensor } from "../../../tensor/tensor.ts";
import type { Call, OpRow, Result } from "../../values/node_call.ts";
import { valueOf } from "../../values/value.ts";
import { elementType, FLOAT, INT32, INT4, UINT4 } from "../../wire/element_types.ts";
import { centered, dequantizeLinear, productByRange, quantized, quantizeLinear, scaleOf } from "../quant_ops.ts";
import { lstmBy } from "../recurrent_ops.ts";
import { averages } from "../window_ops.ts";
import { attendPacked, embedded, ms } from "./microsoft_ops.ts";

/** The real numbers that integers with a scale and zero point are. */
function real(c: Call, x: number, scale: number, zero: number): Tensor {
  return centered(c, x, zero, -1).float().mul(scaleOf(c, scale, -1));
}
/** Real numbers as integers, by inputs that have the scale and the zero point. */
function rounded(c: Call, y: Tensor, scale: number, zero: number): Result {
  const code = c.has(zero) ? c.type(zero) : c.type(0);
  return quantized(y.div(c.x(scale).float().reshape([])), c.opt(zero)?.reshape([]), elementType(code)!);
}
/** A function of one tensor of integers, whose result is such. */
const through = (f: (c: Call, x: Tensor) => Tensor) => (c: Call): Result => rounded(c, f(c, real(c, 0, 1, 2)), 3, 4);
/** A function of two. */
const ofTwo = (f: (a: Tensor, b: Tensor) => Tensor) => (c: Call): Result =>
  rounded(c, f(real(c, 0, 1, 2), real(c, 3, 4, 5)), 6, 7);

/** A product of matrices, with a bias in the scale of the product; without a scale of the result it is of floats. */
function gemm(c: Call): Result {
  const flip = (t: Tensor, name: string) => c.int(name, 0) === 0 ? t : t.transpose(0, 1);
  const a = flip(centered(c, 0, 2, -2), "transA"), z = c.opt(5)?.cast(dtypes.int32);
  const flipped = flip(c.x(3).cast(dtypes.int32), "transB"), b = z === undefined ? flipped : flipped.sub(z);
  const product = a.matmul(b, { dtype: "int32" }), whole = c.has(6) ? product.add(c.x(6)) : product;
  const y = whole.float().mul(c.x(1).float().reshape([])).mul(scaleOf(c, 4, -1)).mul(c.float("alpha", 1));
  return c.has(7) ? rounded(c, y, 7, 8) : valueOf(y, FLOAT);
}
/** Parts of unlike scales: each three inputs from the third on. */
function concat(c: Call): Result {
  const parts = Array.from({ length: Math.floor((c.count - 2) / 3) }, (_, k) => {
    return real(c, 3 * k + 2, 3 * k + 3, 3 * k + 4);
  });
  const y = parts[0].cat(parts.slice(1), c.axis(c.int("axis"), parts[0].ndim));
  return quantized(y.div(c.x(0).float().reshape([])), c.opt(1)?.reshape([]), elementType(c.type(2))!);
}
/** What stands with channels last, with channels first, and back. */
function channelsFirst(c: Call, x: Tensor, f: (x: Tensor) => Tensor): Tensor {
  return c.int("channels_last", 0) === 1 ? f(x.movedim(-1, 1)).movedim(1, -1) : f(x);
}
function softmax(c: Call, x: Tensor): Tensor {
  const axis = c.axis(c.int("axis", -1), x.ndim);
  return c.int("opset", 13) >= 13 ? x.softmax(axis) : x.flatten(axis).softmax(-1).reshape(x.shape);
}
function mean(c: Call, x: Tensor): Tensor {
  const axes = c.axes(5, x.ndim) ?? x.shape.map((_, i) => i);
  return x.mean(axes, { keepdim: c.int("keepdims", 1) === 1 });
}

/** Attention of integers: its first product is of whole numbers. */
function attention(c: Call): Result {
  const product = centered(c, 0, 6, -2).matmul(centered(c, 1, 7, -1), { dtype: "int32" }).float();
  const all = product.mul(c.x(3).float().reshape([])).mul(scaleOf(c, 4, -1)).add(c.x(2));
  return attendPacked(c, all, new Array<number>(3).fill(all.shape[2] / 3), 5, 8);
}
function embedNorm(c: Call): Result {
  const table = (k: number): Tensor => real(c, 2 + k, 8 + k, 13 + k);
  const tables = {
    words: table(0),
    positions: table(1),
    segments: c.has(4) ? table(2) : undefined,
    scale: table(3),
    bias: table(4),
  };
  return embedded(c, tables, 7, c.count);
}
/** LSTM whose weights are integers: rows of what comes in, and states, are rounded by their range at each product. */
function lstm(c: Call): Result {
  return lstmBy(c, (d) => {
    const of = (weights: number, scale: number, zero: number) => {
      const at = (i: number): Tensor => c.x(i).at(d), z = c.has(zero) ? at(zero).cast(dtypes.int32) : undefined;
      const whole = at(weights).cast(dtypes.int32), w = z === undefined ? whole : whole.sub(z);
      return (x: Tensor): Tensor => productByRange(x, w, at(scale).float());
    };
    return { input: of(1, 8, 9), hidden: of(2, 10, 11) };
  });
}
/** Rows of a table whose elements have scales by blocks of an axis. */
function gatherBlocks(c: Call): Result {
  const rank = c.shape(0).length,
    from = c.axis(c.int("gather_axis", 0), rank),
    by = c.axis(c.int("quantize_axis", 1), rank);
  const bits = c.int("bits", 4), code = c.type(0), isPacked = code !== INT4 && code !== UINT4 && bits < 8;
  const numbers = (t: Tensor, n: number): Tensor => {
    return isPacked ? unpacked(t, bits).cast(dtypes.int32).at("...", [0, n]) : t.cast(dtypes.int32);
  };
  const x = numbers(c.x(0), c.shape(0)[rank - 1] * 8 / bits), scale = c.x(2), blocks = scale.shape[by];
  const zero = c.has(3) ? numbers(c.x(3), scale.shape[rank - 1]) : undefined, size = c.int("block_size", 128);
  const spread = (t: Tensor): Tensor =>
    t.repeatInterleave(size, by).shrink(x.shape.map((n): [number, number] => [0, n]));
  if (blocks * size < x.shape[by]) throw c.fail(`${blocks} blocks of ${size} do not make up ${x.shape[by]}`);
  const middle = zero === undefined ? (isPacked || bits === 8 && code === 2 ? 2 ** (bits - 1) : 0) : spread(zero);
  const index = c.x(1), at = index.lt(0).where(index.add(x.shape[from]), index).reshape([-1]);
  const y = x.sub(middle).float().mul(spread(scale).float()).indexSelect(from, at);
  return valueOf(
    y.reshape([...x.shape.slice(0, from), ...index.shape, ...x.shape.slice(from + 1)]).cast(scale.dtype),
    c.type(2),
  );
}

/** Each group of small unsigned integers in a byte, the lowest bits first, as numbers of their own on the last axis. */
function unpacked(bytes: Tensor, bits: number): Tensor {
  const parts = Array.from({ length: 8 / bits }, (_, i) => bytes.rshift(i * bits).bitwiseAnd(2 ** bits - 1));
  return parts[0].stack(parts.slice(1), -1).flatten(-2);
}
/**
 * A product with weights of a few bits, `[N, blocks, bytes]`, each block with a scale and perhaps a zero point; which block
 * a column is in may be given.
 */
function matmulNBits(c: Call): Result {
  const n = c.int("N"), k = c.int("K"), bits = c.int("bits", 4), block = c.int("block_size");
  const x = c.x(0), blocks = Math.ceil(k / block), wide = (t: Tensor): Tensor => t.float().reshape([n, blocks, 1]);
  const q = unpacked(c.x(1).reshape([n, blocks, -1]), bits).float();
  let zero: Tensor | undefined;
  if (c.has(3)) {
    const z = c.x(3);
    zero = wide(z.dtype.isFloat ? z : unpacked(z.reshape([n, -1]), bits).at(":", [0, blocks]));
  }
  const of = (t: Tensor): Tensor => {
    return c.has(4)
      ? t.reshape([n, blocks]).indexSelect(1, c.x(4))
      : t.expand([n, blocks, block]).reshape([n, -1]).at(":", [0, k]);
  };
  const whole = q.reshape([n, blocks * block]).at(":", [0, k]);
  const w = (zero === undefined ? whole.sub(2 ** (bits - 1)) : whole.sub(of(zero))).mul(of(wide(c.x(2))));
  const y = x.float().matmul(w.transpose(0, 1));
  return c.like(c.has(5) ? y.add(c.x(5).float()) : y);
}

/** The rows of this family. */
export const MICROSOFT_QUANTIZED: readonly OpRow[] = [
  ms("QuantizeLinear", "axis", quantizeLinear),
  ms("DequantizeLinear", "axis", dequantizeLinear),
  ms("QGemm", "alpha transA transB", gemm),
  ms("QLinearAdd", "", ofTwo((a, b) => a.add(b))),
  ms("QLinearMul", "", ofTwo((a, b) => a.mul(b))),
  ms("QLinearSigmoid", "", through((_, x) => x.sigmoid())),
  ms("QLinearLeakyRelu", "alpha", through((c, x) => x.leakyRelu(c.float("alpha", 0.01)))),
  ms(
    "QLinearGlobalAveragePool",
    "channels_last",
    through((c, x) => channelsFirst(c, x, (t) => t.mean(t.shape.map((_, i) => i).slice(2), { keepdim: true }))),
  ),
  ms("QLinearConcat", "axis", concat),
  ms(
    "QLinearAveragePool",
    "auto_pad ceil_mode channels_last count_include_pad kernel_shape pads strides",
    through((c, x) => channelsFirst(c, x, (t) => averages(c, t))),
  ),
  ms("QLinearSoftmax", "axis opset", through(softmax)),
  ms("QLinearReduceMean", "axes keepdims", through(mean)),
  ms("QLinearWhere", "", (c) => rounded(c, Tensor.where(c.x(0), real(c, 1, 2, 3), real(c, 4, 5, 6)), 7, 8)),
  ms("QAttention", "mask_filter_value num_heads scale unidirectional", attention),
  ms("QEmbedLayerNormalization", "epsilon", embedNorm),
  ms(
    "DynamicQuantizeLSTM",
    "activation_alpha activation_beta activations clip direction hidden_size input_forget",
    lstm,
  ),
  ms("GatherBlockQuantized", "bits block_size gather_axis quantize_axis", gatherBlocks),
  ms("ReduceSumInteger", "axes keepdims", (c) => {
    const axes = c.ints("axes").map((a) => c.axis(a, c.shape(0).length)), keepdim = c.int("keepdims", 1) === 1;
    return valueOf(c.x(0).cast(dtypes.int32).sum(axes, { keepdim }).cast(dtypes.int32), INT32);
  }),
  ms("MatMulIntegerToFloat", "", (c) => {
    const product = centered(c, 0, 4, -2).matmul(centered(c, 1, 5, -1), { dtype: "int32" }).float();
    const y = product.mul(scaleOf(c, 2, -2)).mul(scaleOf(c, 3, -1));
    return valueOf(c.has(6) ? y.add(c.x(6)) : y, FLOAT);
  }),
  ms("DynamicQuantizeMatMul", "", (c) => {
    const y = productByRange(c.x(0), centered(c, 1, 3, -1), scaleOf(c, 2, -1));
    return c.has(4) ? y.add(c.x(4)) : y;
  }),
  ms("MatMulNBits", "K N accuracy_level bits block_size", matmulNBits),
];
