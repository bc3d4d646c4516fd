/**
 * The programs of families of golden cases (fixtures/golden/families.py) in our API, by the name before " | ". Methods that
 * take the inputs in order, and what golden_cases.ts has under the same name, are not repeated.
 */
import { context } from "../../src/helpers/env.ts";
import { Tensor } from "../../src/tensor/tensor.ts";
import type { Program } from "./golden_cases.ts";
import { COMPLEX, SPECTRA } from "./golden_complex.ts";

const flipped = (a: Tensor) => a.flip(Array.from({ length: a.ndim }, (_, i) => i));
const changed = (a: Tensor, write: (t: Tensor) => unknown): Tensor => {
  const copy = a.clone();
  write(copy);
  return copy;
};
const minimal = (fn: () => Tensor) => context({ WINO: 1 }, fn);
/** As many spatial axes as the input has. */
const all = (k: number, a: Tensor) => new Array<number>(a.ndim - 2).fill(k);

const ELEMENTWISE: Record<string, Program> = {
  "where": (a, b, c) => a.where(b, c),
  "softmax": (a) => a.softmax(),
  "div trunc": (a, b) => a.div(b, { roundingMode: "trunc" }),
  "isnan": (a) => [a.isnan(), a.isinf(), a.isfinite()],
  "isinf one side": (a) => [a.isinf({ detectNegative: false }), a.isinf({ detectPositive: false })],
  "compare": (a, b) => [a.lt(b), a.le(b), a.gt(b), a.ge(b), a.eq(b), a.ne(b)],
  "bitcast int32": (a) => a.bitcast("int32"),
};
for (
  const d of [
    "bool",
    "int8",
    "uint8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "fp8e4m3",
    "fp8e5m2",
  ]
) {
  ELEMENTWISE[`cast ${d}`] = (a) => a.cast(d);
}

const REDUCTIONS: Record<string, Program> = {
  "sum last": (a) => a.sum(-1),
  "sum first keepdim": (a) => a.sum(0, { keepdim: true }),
  "prod last": (a) => a.prod(-1),
  "max last": (a) => a.max(-1),
  "min last": (a) => a.min(-1),
  "argmax last": (a) => a.argmax(-1),
  "argmin last": (a) => a.argmin(-1),
  "mean last": (a) => a.mean(-1),
  "var last": (a) => a.var(-1),
  "var population": (a) => a.var(0, { correction: 0 }),
  "varMean": (a) => a.varMean(-1),
  "stdMean": (a) => a.stdMean(-1),
  "any last": (a) => a.gt(1.5).any(-1),
  "all last": (a) => a.gt(-1.9).all(-1),
  "softmax first": (a) => a.softmax(0),
  "log_softmax": (a) => a.logSoftmax(),
  "log_softmax first": (a) => a.logSoftmax(0),
  "softmin first": (a) => a.softmin(0),
  "logsumexp": (a) => a.logsumexp(-1),
  "normalize": (a) => a.normalize({ dim: -1 }),
  "normalize p": (a) => [a.normalize({ p: 1, dim: -1 }), a.normalize({ p: 3, dim: 0 })],
  "batchnorm": (a, mean, variance, weight, bias) => a.batchnorm(weight, bias, mean, variance.rsqrt()),
  "cumsum last": (a) => a.cumsum(-1),
  "cumsum first": (a) => a.cumsum(0),
  "cumprod last": (a) => a.cumprod(-1),
  "cumprod first": (a) => a.cumprod(0),
  "cummax": (a) => a.cummax(-1),
  "cummin": (a) => a.cummin(-1),
  "logcumsumexp": (a) => a.logcumsumexp(-1),
  "quantile": (a) => a.quantile([0.25, 0.6], -1),
  "median": (a) => a.median(-1),
};

const MOVEMENT: Record<string, Program> = {
  "reshape": (a) => a.reshape([2, -1]),
  "flatten": (a) => a.flatten(1),
  "transpose": (a) => a.transpose(-2, -1),
  "squeeze": (a) => a.squeeze(1),
  "unsqueeze": (a) => a.unsqueeze(-2),
  "unflatten": (a) => a.unflatten(-1, [2, -1]),
  "expand": (a) => a.expand([2, 3, 4]),
  "flip": (a) => a.flip([0, -1]),
  "roll": (a) => a.roll([1, -2], [0, 1]),
  "roll flat": (a) => a.roll(2),
  "repeat": (a) => a.repeat([2, 1, 3]),
  "repeatInterleave": (a) => a.repeatInterleave(3, -1),
  "unfold": (a) => a.unfold(-1, 3, 2),
  "diagonal": (a) => a.diagonal({ offset: 1, dim1: -2, dim2: -1 }),
  "tril": (a) => a.tril(-1),
  "triu": (a) => a.triu(1),
  "pad": (a) => a.pad([1, 2]),
  "pad two": (a) => a.pad([1, -1, 0, 2], { value: 0.5 }),
  "split": (a) => a.split(2, -1),
  "chunk": (a) => a.chunk(3, 0),
  "rearrange": (a) => a.rearrange("a (b c) -> (c a) b", { b: 2 }),
  "shrink": (a) => a.shrink([[1, a.shape[0]], [0, 2]]),
  "permute": (a) => a.permute([2, 0, 1]),
  "cat": (a, b) => a.cat([b], 1),
  "stack": (a, b) => a.stack([b], -1),
  "meshgrid": (a, b) => a.meshgrid([b]),
  "meshgrid xy": (a, b) => a.meshgrid([b], { indexing: "xy" }),
};

const INDEXING: Record<string, Program> = {
  "at -1": (a) => a.at(-1),
  "at null": (a) => a.at(":", null),
  "at dots": (a) => a.at("...", 1),
  "at slice": (a) => a.at([1, null], [null, null, 2], [-3, null]),
  "at backward": (a) => a.at(":", [null, null, -2]),
  "at mixed": (a) => a.at(1, null, [1, 3], -1),
  "at reversed": (a) => a.at([null, null, -1], ":", [null, null, -1]),
  "at clamped": (a) => a.at([1, 99], [-99, 2]),
  "at axis 1": (a, b) => a.at(":", b),
  "at apart": (a, b, c) => a.at(b, ":", c),
  "at slice and list": (a, b) => a.at([1, null], b, null, [null, null, 2]),
  "at number and list": (a, b) => a.at(1, ":", b),
  "setAt row": (a, b) => changed(a, (t) => t.setAt([1], b)),
  "setAt slice": (a, b) => changed(a, (t) => t.setAt([[1, null], [null, null, 2]], b)),
  "setAt dots": (a, b) => changed(a, (t) => t.setAt(["...", 1], b)),
  "setAt last": (a, b) => changed(a, (t) => t.setAt([":", ":", -1], b)),
  "setAt backward": (a, b) => changed(a, (t) => t.setAt([":", [a.shape[1] % 2 === 0 ? -2 : null, null, -2]], b)),
  "setAt list": (a, b, c) => changed(a, (t) => t.setAt([c], b)),
  "setAt two": (a, b, c, d) => changed(a, (t) => t.setAt([c, d], b)),
  "setAt apart": (a, b, c, d) => changed(a, (t) => t.setAt([c, ":", d], b)),
  "setAt mask": (a, b, c) => changed(a, (t) => t.setAt([c], b)),
  "setAt mask values": (a, b, c) => changed(a, (t) => t.setAt([c], b)),
  "gather": (a, b) => a.gather(-1, b),
  "scatter": (a, b, c) => a.scatter(1, b, c),
  "scatter add": (a, b, c) => a.scatter(1, b, c, "add"),
  "sort descending": (a) => a.sort(-1, { descending: true }),
  "argsort first": (a) => a.argsort(0),
  "topk": (a) => a.topk(3),
  "topk smallest": (a) => a.topk(2, 0, { largest: false }),
  "oneHot": (a) => a.oneHot(5),
  "searchsorted right": (a, b) => a.searchsorted(b, { right: true }),
  "bincount weights": (a, b) => a.bincount({ weights: b }),
  "histogram": (a) => a.histogram(4),
  "unique": (a) => a.unique({ returnInverse: true, returnCounts: true }),
};
for (const how of ["sum", "prod", "mean", "amax", "amin"] as const) {
  INDEXING[`scatterReduce ${how}`] = (a, b, c) => a.scatterReduce(0, b, c, how);
  INDEXING[`scatterReduce ${how} without self`] = (a, b, c) => a.scatterReduce(0, b, c, how, false);
}

const PRODUCTS: Record<string, Program> = {
  "attention mask": (a, b, c, d) => a.scaledDotProductAttention(b, c, d),
  "conv": (a, b) => a.conv2d(b),
  "conv stride": (a, b) => a.conv2d(b, undefined, { stride: 2, padding: 1 }),
  "conv dilation": (a, b) => a.conv2d(b, undefined, { dilation: 2 }),
  "conv groups": (a, b) => a.conv2d(b, undefined, { groups: 2 }),
  "conv bias": (a, b, c) => a.conv2d(b, c, { padding: 1 }),
  "conv winograd": (a, b) => minimal(() => a.conv2d(b)),
  "conv winograd bias": (a, b, c) => minimal(() => a.conv2d(b, c, { padding: 1 })),
  "conv winograd groups": (a, b) => minimal(() => a.conv2d(b, undefined, { groups: 2, padding: [2, 2, 1, 1] })),
  "convTranspose": (a, b) => a.convTranspose2d(b),
  "convTranspose stride": (a, b) => a.convTranspose2d(b, undefined, { stride: 2, padding: 1, outputPadding: 1 }),
  "convTranspose groups": (a, b) => a.convTranspose2d(b, undefined, { groups: 2, dilation: 2 }),
  "avgPool 2": (a) => a.avgPool2d(all(2, a)),
  "avgPool 3 stride 2": (a) => a.avgPool2d(3, { stride: 2 }),
  "avgPool pad": (a) => a.avgPool2d(3, { stride: 2, padding: 1 }),
  "avgPool wide": (a) => a.avgPool2d([2, 3], { stride: [1, 2] }),
  "maxPool 2": (a) => a.maxPool2d(all(2, a)),
  "maxPool 3 stride 2": (a) => a.maxPool2d(3, { stride: 2 }),
  "maxPool pad": (a) => a.maxPool2d(3, { stride: 2, padding: 1 }),
  "maxPool wide": (a) => a.maxPool2d([2, 3], { stride: [1, 2] }),
  "maxPool indices": (a) => a.maxPool2d(2, { returnIndices: true }),
  "maxUnpool": (a) => {
    const [values, indices] = a.maxPool2d(2, { returnIndices: true });
    return values.maxUnpool2d(indices, 2);
  },
  "interpolate linear": (a) => a.interpolate([5, 7]),
  "interpolate nearest": (a) => a.interpolate([5, 7], { mode: "nearest" }),
  "interpolate nearest-exact": (a) => a.interpolate([5, 7], { mode: "nearest-exact" }),
  "interpolate corners": (a) => a.interpolate([5, 7], { alignCorners: true }),
  "interpolate line": (a) => a.interpolate([7]),
};

const LOSSES: Record<string, Program> = {};
for (const reduction of ["mean", "sum", "none"] as const) {
  LOSSES[`nllLoss ${reduction}`] = (a, b) => a.logSoftmax(1).nllLoss(b, undefined, { reduction });
  LOSSES[`crossEntropy ${reduction}`] = (a, b) => a.crossEntropy(b, { reduction });
  LOSSES[`crossEntropy smoothed ${reduction}`] = (a, b) => a.crossEntropy(b, { reduction, labelSmoothing: 0.2 });
  LOSSES[`sparseCategoricalCrossentropy ${reduction}`] = (a, b) => a.sparseCategoricalCrossentropy(b, { reduction });
  LOSSES[`binaryCrossentropy ${reduction}`] = (a, b) => a.binaryCrossentropy(b, reduction);
  LOSSES[`binaryCrossentropyLogits ${reduction}`] = (a, b) => a.binaryCrossentropyLogits(b, { reduction });
}

const MATRICES: Record<string, Program> = {
  "svd values": (a) => a.svd(false)[1],
  "svd product": (a) => {
    const [u, s, vt] = a.svd(false);
    return u.mul(s.unsqueeze(-2)).matmul(vt);
  },
  "newtonSchulz": (a) => a.newtonSchulz(1, [1.5, -0.5]),
  "fft ortho": (a) => a.fft(-1, { norm: "ortho" }),
  "fft first": (a) => a.fft(0),
  "fft n": (a) => a.fft(-1, { n: 6 }),
};

/** What each family computes. */
export const FAMILIES: Readonly<Record<string, Program>> = {
  ...COMPLEX,
  ...SPECTRA,
  ...ELEMENTWISE,
  ...REDUCTIONS,
  ...MOVEMENT,
  ...INDEXING,
  ...PRODUCTS,
  ...LOSSES,
  ...MATRICES,
};

/** A view of an input, by its name in the data. */
export const VIEWS: Readonly<Record<string, (t: Tensor) => Tensor>> = {
  T: (t) => t.permute(Array.from({ length: t.ndim }, (_, i) => t.ndim - 1 - i)),
  flip: flipped,
  step: (t) => t.at("...", [null, null, 2]),
  expand: (t) => t.expand([3, ...t.shape.slice(1)]),
};

/** The einsum of "einsum ij,jk->ik". */
export function einsumOf(name: string): Program | undefined {
  if (!name.startsWith("einsum ")) return undefined;
  const formula = name.slice("einsum ".length), count = formula.split(",").length;
  return (...inputs) => Tensor.einsum(formula, inputs.slice(0, count));
}
