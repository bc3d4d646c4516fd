/** Each golden case (fixtures/golden/generate.py) in our API: inputs to outputs. */
import type { Tensor } from "../../src/tensor/tensor.ts";
import { Tensor as T } from "../../src/tensor/tensor.ts";
import { dtypes } from "../../src/dtype/dtype.ts";
import { einsumOf, FAMILIES } from "./golden_families.ts";
import { OPS } from "./golden_ops.ts";

/** A golden case as a function. */
export type Program = (
  ...inputs: [a: Tensor, b: Tensor, c: Tensor, d: Tensor, e: Tensor]
) => Tensor | readonly Tensor[] | Promise<Tensor | readonly Tensor[]>;

/** Unary functions that are called in another way; "celu half" and the like share them. */
const UNARY: Record<string, Program> = { relu6: (a) => a.mul(2).relu6(), celu: (a) => a.celu(1.5) };

const MATH: Record<string, Program> = {
  "sub scalar": (a) => a.sub(1.5),
  "rsub scalar": (a) => a.sub(2, { reverse: true }),
  "mul by itself": (a) => a.mul(a),
  "int plus float scalar": (a) => a.add(1.5),
  "int64 plus float scalar": (a) => a.add(0.5),
  "half times float scalar": (a) => a.mul(1.5),
  "uint8 wraps": (a, b) => a.add(b),
  "int8 product wraps": (a, b) => a.mul(b),
  "int32 product wraps": (a, b) => a.mul(b),
  "int64 product": (a, b) => a.mul(b),
  "pow 3": (a) => a.pow(3),
  "pow 0.5": (a) => a.pow(0.5),
  "pow 1.5": (a) => a.pow(1.5),
  "pow -2": (a) => a.pow(-2),
  "pow base 2": (a) => a.pow(2, { reverse: true }),
  "bitwise and or xor": (a, b) => [a.bitwiseAnd(b), a.bitwiseOr(b), a.bitwiseXor(b)],
  "bitwise not": (a) => a.bitwiseNot(),
  "shifts": (a) => [a.lshift(3), a.rshift(2)],
  "comparisons of edges": (a, b) => [a.lt(b), a.le(b), a.gt(b), a.ge(b), a.eq(b), a.ne(b)],
  "classify": (a) => [a.isnan(), a.isinf(), a.isfinite()],
  "gelu tanh": (a) => a.gelu({ approximate: "tanh" }),
  "clamp": (a) => a.clamp(-1, 1.5),
  "clamp below": (a) => a.clamp(0.5),
  "where": (a, b) => a.gt(0).where(a, b),
  "where scalars": (a) => a.gt(0).where(1.5, -0.5),
  "maskedFill": (a, b) => a.maskedFill(b, -1.5),
  "cast to int32": (a) => a.cast("int32"),
  "cast to uint8": (a) => a.cast("uint8"),
  "cast to half": (a) => a.half(),
  "cast to bfloat16": (a) => a.bfloat16(),
  "cast double to float": (a) => a.float(),
  "cast int64 to double": (a) => a.double(),
  "cast int32 to int8": (a) => a.cast(dtypes.int8),
  "cast int8 to uint8": (a) => a.cast(dtypes.uint8),
  "cast to bool": (a) => a.bool(),
  "cast and back": (a) => a.double().mul(3).float(),
  "bitcast": (a) => a.bitcast("int32"),
  "bitcast int64 to int32": (a) => a.bitcast("int32"),
};

const SHAPES: Record<string, Program> = {
  "permute and reshape": (a) => a.permute([2, 0, 1]).reshape([4, 6]),
  "expand": (a) => a.expand([3, 2, 4]),
  "flip": (a) => a.flip([0, 2]),
  "shrink and pad": (a) => a.shrink([[1, 3], [0, 2]]).pad([[0, 1], [1, 2]]),
  "pad value": (a) => a.pad([1, 0], { value: 2.5 }),
  "pad reflect": (a) => a.pad([2, 1], { mode: "reflect" }),
  "pad replicate": (a) => a.pad([2, 1], { mode: "replicate" }),
  "pad circular": (a) => a.pad([2, 1], { mode: "circular" }),
  "cat": (a, b) => a.cat([b, a], 1),
  "stack": (a, b) => a.stack([b], 1),
  "repeat": (a) => a.repeat([2, 3]),
  "repeatInterleave": (a) => a.repeatInterleave(2, 1),
  "roll": (a) => a.roll([1, -1], [0, 1]),
  "unfold": (a) => a.unfold(1, 3, 2),
  "diagonal": (a) => a.diagonal({ offset: 1, dim1: 0, dim2: 2 }),
  "tril": (a) => a.tril(-1),
  "triu": (a) => a.triu(1),
  "at number": (a) => a.at(1),
  "at slices": (a) => a.at([0, 2], [1, 4, 2]),
  "at backwards": (a) => a.flip([1]).at(-1, [null, null, 2]),
  "gather": (a, b) => a.gather(1, b),
  "oneHot": (a) => a.oneHot(4),
  "setAt": (a, b) => {
    const copy = a.clone();
    copy.setAt([1], b);
    return copy;
  },
};

const REDUCTIONS: Record<string, Program> = {
  "sum axis": (a) => a.sum([0, 2]),
  "sum keepdim": (a) => a.sum(-1, { keepdim: true }),
  "sum bool": (a) => a.sum(0),
  "sum half": (a) => a.sum(0),
  "sum of edges": (a) => a.sum(1),
  "prod": (a) => a.prod(1),
  "prod with zeros": (a) => a.prod(1),
  "max": (a) => a.max(1),
  "max with NaN": (a) => a.max(1),
  "min": (a) => a.min(0),
  "min int": (a) => a.min(1),
  "mean": (a) => a.mean([1, 2]),
  "mean half": (a) => a.mean(1),
  "var": (a) => a.var(1),
  "var population": (a) => a.var([0, 1], { correction: 0 }),
  "std": (a) => a.std(2, { keepdim: true }),
  "any all": (a) => [a.gt(1).any(1), a.gt(-1.5).all(1)],
  "argmax": (a) => a.argmax(1),
  "argmin": (a) => a.argmin(0),
  "logsumexp": (a) => a.logsumexp(1),
  "softmax": (a) => a.softmax(1),
  "softmax large": (a) => a.softmax(0),
  "logSoftmax": (a) => a.logSoftmax(0),
  "cumsum": (a) => a.cumsum(1),
  "cumprod": (a) => a.cumprod(0),
  "empty sum": (a) => a.sum(1),
};

const PRODUCTS: Record<string, Program> = {
  "matmul transposed": (a, b) => b.T.matmul(a.T, { reverse: true }),
  "mlp": (a, b, c, d) => a.linear(b, c).relu().matmul(d),
  "einsum ij,jk->ik": (a, b) => T.einsum("ij,jk->ik", [a, b]),
  "einsum transpose": (a) => T.einsum("ij->ji", [a]),
  "einsum trace": (a) => T.einsum("ii->", [a]),
  "einsum implicit": (a, b) => T.einsum("bij,bjk", [a, b]),
  "einsum ellipsis": (a, b) => T.einsum("...ij,jk->...ik", [a, b]),
  "einsum three": (a, b, c) => T.einsum("ia,ib,ic->abc", [a, b, c]),
  "attention": (a, b, c) => a.scaledDotProductAttention(b, c),
  "attention causal": (a, b, c) => a.scaledDotProductAttention(b, c, undefined, { isCausal: true }),
  "attention bool mask": (a, b, c, d) => a.scaledDotProductAttention(b, c, d),
  "attention added mask": (a, b, c, d) => a.scaledDotProductAttention(b, c, d),
  "attention gqa": (a, b, c) => a.scaledDotProductAttention(b, c, undefined, { enableGqa: true }),
  "conv1d": (a, b, c) => a.conv2d(b, c),
  "conv2d padded": (a, b, c) => a.conv2d(b, c, { padding: 1 }),
  "conv2d stride 2": (a, b) => a.conv2d(b, undefined, { stride: 2, padding: 1 }),
  "conv2d stride 3 kernel 2": (a, b) => a.conv2d(b, undefined, { stride: 3 }),
  "conv2d dilated": (a, b) => a.conv2d(b, undefined, { dilation: 2 }),
  "conv2d groups": (a, b) => a.conv2d(b, undefined, { groups: 2 }),
  "conv2d depthwise": (a, b) => a.conv2d(b, undefined, { groups: 3, padding: 1 }),
  "conv2d 1x1 stride 2": (a, b) => a.conv2d(b, undefined, { stride: 2 }),
  "conv2d mixed": (a, b) => a.conv2d(b, undefined, { stride: [2, 1], padding: [0, 2], dilation: [1, 3] }),
  "convTranspose2d stride": (a, b) => a.convTranspose2d(b, undefined, { stride: 2, padding: 1, outputPadding: 1 }),
  "convTranspose2d groups": (a, b) => a.convTranspose2d(b, undefined, { groups: 2, dilation: 2 }),
  "avgPool2d": (a) => a.avgPool2d(2),
  "avgPool2d padded": (a) => a.avgPool2d(3, { stride: 2, padding: 1 }),
  "avgPool2d exclude pad": (a) => a.avgPool2d(3, { stride: 2, padding: 1, countIncludePad: false }),
  "avgPool2d ceil": (a) => a.avgPool2d(3, { stride: 2, ceilMode: true }),
  "maxPool2d leftover": (a) => a.maxPool2d([2, 2]),
  "maxPool2d overlapping": (a) => a.maxPool2d(3, { stride: 1, padding: 1 }),
  "maxPool2d dilated": (a) => a.maxPool2d(2, { stride: 1, dilation: 2 }),
  "maxPool2d ceil": (a) => a.maxPool2d(2, { ceilMode: true }),
  "maxPool2d indices": (a) => a.maxPool2d(2, { returnIndices: true }),
};

const RESIZING: Record<string, Program> = {
  "interpolate linear": (a) => a.interpolate([7, 3]),
  "interpolate corners": (a) => a.interpolate([3, 8], { alignCorners: true }),
  "interpolate nearest": (a) => a.interpolate([7, 3], { mode: "nearest" }),
  "interpolate nearest-exact": (a) => a.interpolate([3, 7], { mode: "nearest-exact" }),
};

const LOSSES: Record<string, Program> = {
  "nllLoss": (a, b) => a.logSoftmax(1).nllLoss(b),
  "nllLoss weighted": (a, b, c) => a.logSoftmax(1).nllLoss(b, c),
  "nllLoss ignoring": (a, b) => a.logSoftmax(1).nllLoss(b, undefined, { ignoreIndex: 4 }),
  "nllLoss none": (a, b) => a.logSoftmax(1).nllLoss(b, undefined, { reduction: "none" }),
  "crossEntropy smoothed": (a, b) => a.crossEntropy(b, { labelSmoothing: 0.1 }),
  "crossEntropy sum": (a, b) => a.crossEntropy(b, { reduction: "sum" }),
  "sparseCategoricalCrossentropy ignoring": (a, b) => a.sparseCategoricalCrossentropy(b, { ignoreIndex: 2 }),
  "binaryCrossentropyLogits weighted": (a, b, c) => a.binaryCrossentropyLogits(b, { posWeight: c, reduction: "sum" }),
};

const ALL = { ...UNARY, ...MATH, ...SHAPES, ...REDUCTIONS, ...PRODUCTS, ...RESIZING, ...LOSSES };

/** The method that a name begins with, on the inputs in order. */
function methodOf(name: string): Program | undefined {
  const [method] = name.split(" ");
  if (!(method in T.prototype)) return undefined;
  return (a, ...rest) => (a as unknown as Record<string, Program>)[method](...rest as unknown as Parameters<Program>);
}

/**
 * The function of a golden case: of "sin | empty" that of "sin". "exp of edges", "exp half" and "add broadcast" are the
 * methods `exp` and `add` unless they have an entry of their own.
 */
export function programOf(name: string): Program {
  const [family, variant] = name.split(" | ");
  const own = variant === undefined ? undefined : FAMILIES[family] ?? OPS[family] ?? einsumOf(family);
  const program = own ?? ALL[family] ?? UNARY[family.split(" ")[0]] ?? methodOf(family);
  if (program === undefined) throw new Error(`golden case "${name}" has no entry in golden_cases.ts`);
  return program;
}

/** Cases where PyTorch's indices are int64 and ours int32. */
export const INT32_INDICES: ReadonlySet<string> = new Set(["maxPool2d indices"]);
