/** More of argument_calls.ts: a valid call of what stands beside tinygrad's ops. */
import { Tensor } from "../../../mod.ts";
import { BINARY_SPECIAL } from "../../../src/tensor/ops/special.ts";
import type { MakeCall } from "./argument_calls.ts";
import {
  type Arg,
  axes,
  bool,
  choice,
  dtype,
  either,
  int,
  ints,
  list,
  maybe,
  num,
  operand,
  options,
  opts,
  record,
  tensor,
  tensors,
} from "./argument_kinds.ts";

const f32 = (...sizes: number[]): Tensor => Tensor.ones(sizes);
const i32 = (values: number[]): Tensor => new Tensor(values, { dtype: "int32" });
/** Arguments of a float tensor of [2, 3]. */
const on = (...args: Arg[]): MakeCall => () => ({ self: f32(2, 3), args });
/** Arguments of another one. */
const of = (self: () => Tensor, args: () => Arg[]): MakeCall => () => ({ self: self(), args: args() });

/** One call for several. */
const same = (call: MakeCall, names: string): Record<string, MakeCall> =>
  Object.fromEntries(names.split(" ").map((name) => [name, call]));
const reduction = choice("mean", "sum", "none");
const window = { stride: axes(1), dilation: axes(1), padding: axes(0) };
const matrix = (): Tensor => new Tensor([[4, 1], [1, 3]], { dtype: "float32" });
const keep = opts({ keepdim: bool(true) }), added = opts({ beta: num(2), alpha: num(3) });
const pair = of(() => i32([4, 6]), () => [operand(2)]);

/** Members of tensors. */
export const OPS: Readonly<Record<string, MakeCall>> = {
  ...Object.fromEntries(Object.keys(BINARY_SPECIAL).map((name) => [name, on(operand(2))])),
  gcd: pair,
  lcm: pair,
  floatPower: on(operand(2)),
  ldexp: on(operand(2)),
  round: on(opts({ decimals: int(1) })),
  signbit: on(),
  addcmul: on(operand(2), operand(3), opts({ value: num(2) })),
  addcdiv: on(operand(2), operand(3), opts({ value: num(2) })),
  nanToNum: on(opts({ nan: num(1), posinf: num(2), neginf: num(3) })),
  logit: on(maybe(num(0.1))),
  polygamma: on(int(2)),
  threshold: on(num(0.5), num(1)),
  glu: of(() => f32(2, 4), () => [maybe(int(1))]),
  prelu: on(tensor(Tensor.ones([3]))),
  vectorNorm: on(opts({ ord: num(2), dim: axes(1), keepdim: bool(true), dtype: dtype("float32") })),
  matrixNorm: on(
    opts({
      ord: either("fro", choice("fro", "nuc"), num(2)),
      dim: axes([0, 1]),
      keepdim: bool(true),
      dtype: dtype("float32"),
    }),
  ),
  norm: on(
    opts({
      p: either("fro", choice("fro", "nuc"), num(2)),
      dim: axes(1),
      keepdim: bool(true),
      dtype: dtype("float32"),
    }),
  ),
  dist: on(operand(2), maybe(num(3))),
  nansum: on(maybe(axes(1)), opts({ keepdim: bool(true), dtype: dtype("float32") })),
  ...Object.fromEntries(["nanmean", "nanmedian"].map((name) => [name, on(maybe(axes(1)), keep)])),
  nanquantile: on(
    either(0.5, num(1), list([])),
    maybe(axes(1)),
    opts({ keepdim: bool(true), interpolation: choice("linear", "lower", "higher", "nearest", "midpoint") }),
  ),
  aminmax: on(maybe(axes(1)), keep),
  countNonzero: on(maybe(axes(1))),
  kthvalue: on(int(1), maybe(int(1)), keep),
  mode: on(maybe(int(1)), keep),
  diff: on(opts({ n: int(1), dim: int(1), prepend: tensor(f32(2, 3)), append: tensor(f32(2, 3)) })),
  trapezoid: on(maybe(tensor(f32(3))), opts({ dx: num(2), dim: int(1) })),
  cumulativeTrapezoid: on(maybe(tensor(f32(3))), opts({ dx: num(2), dim: int(1) })),
  cov: on(opts({ correction: num(1), fweights: tensor(i32([1, 2, 3])), aweights: tensor(f32(3)) })),
  corrcoef: on(),
  outer: of(() => f32(3), () => [tensor(f32(2))]),
  inner: on(tensor(f32(3))),
  mm: on(tensor(f32(3, 2))),
  bmm: of(() => f32(1, 2, 3), () => [tensor(f32(1, 3, 2))]),
  mv: on(tensor(f32(3))),
  tensordot: on(tensor(f32(3, 2)), maybe(either(1, int(1), list([])))),
  kron: on(tensor(f32(3, 2))),
  cross: on(tensor(f32(2, 3)), maybe(int(1))),
  cdist: on(tensor(f32(4, 3)), maybe(num(2))),
  addmm: on(tensor(f32(2, 4)), tensor(f32(4, 3)), added),
  addmv: of(() => f32(2), () => [tensor(f32(2, 3)), tensor(f32(3)), added]),
  addr: on(tensor(f32(2)), tensor(f32(3)), added),
  baddbmm: of(() => f32(1, 2, 3), () => [tensor(f32(1, 2, 4)), tensor(f32(1, 4, 3)), added]),
  addbmm: on(tensor(f32(1, 2, 4)), tensor(f32(1, 4, 3)), added),
  multiDot: on(tensors([f32(3, 2), f32(2, 4)])),
  trace: on(),
  matrixPower: of(() => f32(2, 2), () => [int(2)]),
  unbind: on(maybe(int(0))),
  select: on(int(1), int(0)),
  narrow: on(int(1), int(0), int(2)),
  movedim: on(axes(0), axes(1)),
  rot90: on(opts({ k: int(1), dims: ints([0, 1]) })),
  ...same(on(), "fliplr flipud ravel atleast1d atleast2d atleast3d"),
  swapaxes: on(int(0), int(1)),
  ...same(on(tensor(f32(2, 3))), "expandAs reshapeAs viewAs"),
  tensorSplit: on(either(2, int(2), ints([])), maybe(int(1))),
  ...same(on(either(2, int(2), ints([]))), "hsplit vsplit"),
  selectScatter: on(tensor(f32(3)), int(0), int(1)),
  sliceScatter: on(tensor(f32(1, 3)), maybe(int(0)), opts({ start: int(0), end: int(1), step: int(1) })),
  diagonalScatter: on(tensor(f32(2)), opts({ offset: int(0), dim1: int(0), dim2: int(1) })),
  ...same(on(tensors([f32(2, 3)])), "hstack vstack dstack columnStack blockDiag"),
  cartesianProd: of(() => f32(2), () => [tensors([f32(2)])]),
  combinations: of(() => f32(3), () => [opts({ r: int(2), withReplacement: bool(true) })]),
  tile: on(axes([2, 1])),
  diag: of(() => i32([1, 2]), () => [maybe(int(0))]),
  diagEmbed: on(opts({ offset: int(1), dim1: int(0), dim2: int(1) })),
  diagflat: on(maybe(int(1))),
  repeatInterleave: on(either(2, int(2), tensor(f32(1)), ints([])), maybe(int(1)), opts({ outputSize: int(4) })),
  indexSelect: on(int(1), tensor(i32([0, 2]))),
  indexAdd: on(int(1), tensor(i32([0, 2])), tensor(f32(2, 2)), opts({ alpha: num(2) })),
  indexCopy: on(int(1), tensor(i32([0, 2])), tensor(f32(2, 2))),
  indexFill: on(int(1), tensor(i32([0, 2])), operand(2)),
  take: on(tensor(i32([0, 2]))),
  put: on(tensor(i32([0, 2])), tensor(f32(2)), opts({ accumulate: bool(true) })),
  takeAlongDim: on(tensor(new Tensor([[0, 1], [1, 2]])), maybe(int(1))),
  maskedScatter: on(tensor(new Tensor([true, false, true])), tensor(f32(4))),
  isin: on(operand(2), opts({ assumeUnique: bool(true), invert: bool(true) })),
  bucketize: on(operand(f32(3)), opts({ right: bool(true) })),
  ...same(on(operand(2), opts({ reduction, weight: operand(f32(2, 3)) })), "mseLoss l1Loss"),
  huberLoss: on(operand(2), opts({ reduction, delta: num(1) })),
  smoothL1Loss: on(operand(2), opts({ reduction, beta: num(1) })),
  klDiv: on(operand(2), opts({ reduction: choice("mean", "sum", "none", "batchmean"), logTarget: bool(true) })),
  poissonNllLoss: on(operand(2), opts({ reduction, logInput: bool(true), full: bool(true), eps: num(1e-3) })),
  gaussianNllLoss: on(operand(2), operand(1), opts({ reduction, full: bool(true), eps: num(1e-3) })),
  cosineSimilarity: on(tensor(f32(2, 3)), maybe(int(1)), opts({ eps: num(1e-3) })),
  pairwiseDistance: on(tensor(f32(2, 3)), opts({ p: num(2), eps: num(1e-3), keepdim: bool(true) })),
  cosineEmbeddingLoss: on(tensor(f32(2, 3)), tensor(f32(2)), opts({ reduction, margin: num(0) })),
  marginRankingLoss: on(tensor(f32(2, 3)), tensor(f32(2, 3)), opts({ reduction, margin: num(0) })),
  hingeEmbeddingLoss: on(tensor(f32(2, 3)), opts({ reduction, margin: num(0) })),
  softMarginLoss: on(operand(f32(2, 3)), opts({ reduction })),
  multilabelSoftMarginLoss: on(tensor(f32(2, 3)), maybe(tensor(f32(3))), opts({ reduction })),
  multiMarginLoss: on(tensor(i32([0, 2])), maybe(tensor(f32(3))), opts({ reduction, p: int(1), margin: num(1) })),
  tripletMarginLoss: on(
    tensor(f32(2, 3)),
    tensor(f32(2, 3)),
    opts({ reduction, margin: num(1), p: num(2), eps: num(1e-3), swap: bool(true) }),
  ),
  ctcLoss: of(() => f32(4, 1, 3), () => [
    tensor(new Tensor([[1, 2]])),
    operand([4]),
    operand([2]),
    opts({ blank: int(0), reduction, zeroInfinity: bool(true) }),
  ]),
  crossEntropy: on(
    tensor(i32([0, 2])),
    maybe(either(f32(3), tensor(f32(3)), record({}))),
    opts({ ignoreIndex: int(1), reduction, labelSmoothing: num(0.1) }),
  ),
  binaryCrossentropyLogits: on(
    operand(f32(2, 3)),
    opts({ reduction, posWeight: operand(f32(3)), weight: operand(f32(3)) }),
  ),
  ...same(on(axes([2, 2])), "adaptiveAvgPool2d"),
  adaptiveAvgPool1d: on(axes([2])),
  adaptiveAvgPool3d: of(() => f32(2, 2, 3), () => [axes([1, 2, 2])]),
  adaptiveMaxPool2d: on(axes([2, 2]), opts({ returnIndices: bool(true) })),
  interpolate: of(() => f32(1, 1, 2, 2), () => [
    axes([3, 3]),
    opts({
      mode: choice("linear", "nearest", "nearest-exact", "bilinear", "bicubic", "area"),
      alignCorners: bool(true),
    }),
  ]),
  gridSample: of(() => f32(1, 1, 2, 2), () => [
    tensor(f32(1, 1, 1, 2)),
    opts({
      mode: choice("bilinear", "nearest", "bicubic"),
      paddingMode: choice("zeros", "border", "reflection"),
      alignCorners: bool(true),
    }),
  ]),
  affineGrid: of(() => f32(1, 2, 3), () => [ints([1, 1, 2, 2]), opts({ alignCorners: bool(true) })]),
  im2col: of(() => f32(1, 1, 3, 3), () => [axes(2), opts(window)]),
  fold: of(() => f32(1, 4, 4), () => [axes(3), axes(2), opts(window)]),
  pixelShuffle: of(() => f32(4, 2, 2), () => [int(2)]),
  pixelUnshuffle: of(() => f32(1, 2, 2), () => [int(2)]),
  channelShuffle: of(() => f32(1, 4, 2), () => [int(2)]),
  localResponseNorm: on(int(2), opts({ alpha: num(1), beta: num(1), k: num(1) })),
  dropout2d: on(maybe(num(0.5))),
  embeddingBag: of(() => new Tensor([[0, 1]]), () => [
    tensor(f32(3, 2)),
    maybe(either(undefined, tensor(i32([0])))),
    opts({ mode: choice("sum", "mean", "max"), perSampleWeights: tensor(f32(1, 2)) }),
  ]),
  ...same(of(matrix, () => [opts({ uplo: choice("L", "U") })]), "eigh eigvalsh"),
  ...same(of(matrix, () => []), "svdvals lu luFactor slogdet matrixExp eig eigvals"),
  luSolve: of(matrix, () => [tensor(i32([1, 2])), tensor(f32(2, 1))]),
  solve: of(matrix, () => [operand(i32([1, 2])), opts({ left: bool(true) })]),
  solveTriangular: of(matrix, () => [
    tensor(f32(2, 1)),
    options({ upper: bool(true), left: maybe(bool(true)), unitriangular: maybe(bool(true)) }),
  ]),
  choleskySolve: of(() => f32(2, 1), () => [tensor(matrix()), opts({ upper: bool(true) })]),
  ...same(of(matrix, () => [opts({ atol: num(0.1), rtol: num(0.1), hermitian: bool(true) })]), "matrixRank pinv"),
  lstsq: of(matrix, () => [operand(f32(2, 1)), opts({ rcond: num(0.1) })]),
  cond: of(matrix, () => [maybe(either(1, choice("fro", "nuc"), num(1)))]),
  uniqueConsecutive: on(opts({ size: int(2), dim: int(1) })),
  indexPut: on(list([1]), operand(f32(3)), opts({ accumulate: bool(true) })),
  renorm: on(num(2), int(1), num(0.5)),
  rrelu: on(opts({ lower: num(0.1), upper: num(0.2), training: bool(true) })),
};

/** Members of Tensor itself. */
export const STATIC_OPS: Readonly<Record<string, MakeCall>> = same(
  () => ({ self: Tensor, args: [int(2), int(3), opts({ offset: int(1) })] }),
  "trilIndices triuIndices",
);
