/**
 * ONNX: normalizations, products of matrices, contractions.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { prod } from "../../helpers/math.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { type Call, op, type OpRow, type Result } from "../values/node_call.ts";
import { valueOf } from "../values/value.ts";

/** The dtype that statistics are computed in: no smaller than float32. */
export function stash(x: Tensor): Tensor {
  return x.dtype === dtypes.float64 ? x : x.float();
}
/** A vector along axis 1. */
function ofChannels(v: Tensor, rank: number): Tensor {
  return v.reshape([1, -1, ...new Array<number>(Math.max(0, rank - 2)).fill(1)]);
}
/** Mean 0 and variance 1 over axes. */
function standardized(x: Tensor, axes: number[], epsilon: number): [y: Tensor, mean: Tensor, invStd: Tensor] {
  const mean = x.mean(axes, { keepdim: true }), centered = x.sub(mean);
  const invStd = centered.square().mean(axes, { keepdim: true }).add(epsilon).rsqrt();
  return [centered.mul(invStd), mean, invStd];
}

function batchNorm(c: Call): Result {
  const x = c.x(0), epsilon = c.float("epsilon", 1e-5), momentum = c.float("momentum", 0.9), wide = stash(x);
  const per = (v: Tensor) => ofChannels(stash(v), x.ndim),
    [scale, bias, mean, variance] = [1, 2, 3, 4].map((i) => c.x(i));
  const training = c.version >= 14 ? c.int("training_mode", 0) === 1 : c.version < 7 && c.int("is_test", 0) === 0;
  if (!training) {
    const factor = per(variance).add(epsilon).rsqrt().mul(per(scale));
    return c.like(wide.sub(per(mean)).mul(factor).add(per(bias)));
  }
  const axes = x.shape.map((_, i) => i).filter((i) => i !== 1), [y, m] = standardized(wide, axes, epsilon);
  const spread = wide.sub(m).square().mean(axes),
    kept = (old: Tensor, now: Tensor) => stash(old).mul(momentum).add(now.mul(1 - momentum)).cast(old.dtype);
  return [c.like(y.mul(per(scale)).add(per(bias))), kept(mean, m.reshape([-1])), kept(variance, spread)];
}

function instanceNorm(c: Call): Result {
  const x = c.x(0),
    axes = x.shape.map((_, i) => i).slice(2),
    [y] = standardized(stash(x), axes, c.float("epsilon", 1e-5));
  return c.like(y.mul(ofChannels(stash(c.x(1)), x.ndim)).add(ofChannels(stash(c.x(2)), x.ndim)));
}

function groupNorm(c: Call): Result {
  const x = c.x(0), groups = c.int("num_groups"), [n, channels] = x.shape, each = channels / groups;
  const [y] = standardized(
    stash(x).reshape([n, groups, prod(x.shape.slice(1)) / groups]),
    [2],
    c.float("epsilon", 1e-5),
  );
  const of = (v: Tensor) => stash(v.shape[0] === channels ? v : v.repeatInterleave(each));
  return c.like(y.reshape(x.shape).mul(ofChannels(of(c.x(1)), x.ndim)).add(ofChannels(of(c.x(2)), x.ndim)));
}

function layerNorm(c: Call): Result {
  const x = c.x(0), axis = c.axis(c.int("axis", -1), x.ndim), axes = x.shape.map((_, i) => i).slice(axis);
  const [y, mean, invStd] = standardized(stash(x), axes, c.float("epsilon", 1e-5));
  const scaled = y.cast(x.dtype).mul(c.x(1)), out = c.has(2) ? scaled.add(c.x(2)) : scaled;
  return [c.like(out), mean, invStd];
}

/** The input over the root of its mean square. */
function rmsNormalized(x: Tensor, axes: number[], epsilon: number): Tensor {
  const wide = stash(x);
  return wide.mul(wide.square().mean(axes, { keepdim: true }).add(epsilon).rsqrt());
}
function rmsNorm(c: Call): Result {
  const x = c.x(0), axis = c.axis(c.int("axis", -1), x.ndim), axes = x.shape.map((_, i) => i).slice(axis);
  const y = rmsNormalized(x, axes, c.float("epsilon", 1e-5)).cast(x.dtype);
  return valueOf(y.mul(c.x(1)), c.type(1));
}

function mvn(c: Call): Result {
  const x = c.x(0), axes = c.ints("axes", [0, 2, 3]).map((a) => c.axis(a, x.ndim)), wide = stash(x);
  const centered = wide.sub(wide.mean(axes, { keepdim: true }));
  return c.like(centered.div(centered.square().mean(axes, { keepdim: true }).sqrt().add(1e-9)));
}

/** Divided by a power of the sum of squares of the channels around. */
function lrn(c: Call): Result {
  const x = c.x(0), size = c.int("size"), less = Math.floor((size - 1) / 2), channels = x.shape[1], wide = stash(x);
  const around = wide.square().pad(x.shape.map((_, i): [number, number] => i === 1 ? [less, size - 1 - less] : [0, 0]));
  const parts = Array.from(
    { length: size },
    (_, k) => around.shrink(around.shape.map((n, i): [number, number] => i === 1 ? [k, k + channels] : [0, n])),
  );
  const sum = parts.reduce((a, b) => a.add(b));
  return c.like(wide.div(sum.mul(c.float("alpha", 1e-4) / size).add(c.float("bias", 1)).pow(c.float("beta", 0.75))));
}

function gemm(c: Call): Result {
  const flip = (x: Tensor, name: string) => c.int(name, 0) === 0 ? x : x.transpose(0, 1);
  const product = flip(c.x(0), "transA").matmul(flip(c.x(1), "transB")),
    alpha = c.float("alpha", 1),
    beta = c.float("beta", 1);
  const scaled = alpha === 1 ? product : product.mul(alpha), bias = c.opt(2);
  return c.like(bias === undefined || beta === 0 ? scaled : scaled.add(beta === 1 ? bias : bias.mul(beta)));
}

/** The rows of this family. */
export const NORMS: readonly OpRow[] = [
  op("BatchNormalization", batchNorm),
  op("InstanceNormalization", instanceNorm),
  op("GroupNormalization", groupNorm),
  op("LayerNormalization", layerNorm),
  op("RMSNormalization", rmsNorm),
  op("MeanVarianceNormalization", mvn),
  op("LRN", lrn),
  op("MatMul", (c) => c.like(c.x(0).matmul(c.x(1)))),
  op("Gemm", gemm),
  op("Einsum", (c) => c.like(Tensor.einsum(c.text("equation").replace(/\s+/g, ""), c.xs()))),
  op("Det", (c) => c.like(c.x(0).det())),
];
