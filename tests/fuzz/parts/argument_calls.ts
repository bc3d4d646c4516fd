/**
 * A valid call of every public member of Tensor: its `this` (a float tensor of [2, 3] unless given) and its arguments,
 * each with its kind. What the generator of arguments.ts changes. A member that is in no table fails the test.
 *
 * @module
 */
import { kernel, Tensor } from "../../../mod.ts";
import { Mesh } from "../../../src/dist/dist.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { MeshShape } from "../../../src/uop/core/sharding.ts";
import { ACTIVATIONS, PARAMETRIC } from "../../../src/tensor/ops/activation.ts";
import { BINARY, type BinaryRow, CASTS, UNARY } from "../../../src/tensor/ops/elementwise.ts";
import { FUNCTIONS } from "../../../src/tensor/ops/functions.ts";
import { HIGHER_FUNCTIONS } from "../../../src/tensor/ops/higher_functions.ts";
import { REDUCTIONS } from "../../../src/tensor/ops/reduce.ts";
import { KIT_STATICS } from "./argument_calls_kit.ts";
import { OPS, STATIC_OPS } from "./argument_calls_ops.ts";
import { f32, i32, type MakeCall, matrix, ofMade, on } from "./argument_makers.ts";
import {
  any,
  type Arg,
  axes,
  bool,
  choice,
  count,
  data,
  device,
  dtype,
  either,
  fn,
  instance,
  int,
  ints,
  joined,
  list,
  listed,
  maybe,
  memory,
  num,
  operand,
  options,
  opts,
  record,
  scalar,
  shape,
  shares,
  size,
  tensor,
  tensors,
  text,
  value,
} from "./argument_kinds.ts";

type Node = ReturnType<typeof kernel.loop>;

const complex = (): Tensor => Tensor.complex(f32(2, 3), f32(2, 3));
/** Arguments that are made anew. */
const madeOn = (args: () => Arg[]): MakeCall => ofMade(() => f32(2, 3), args);

const keep = opts({ keepdim: bool(true) });
const typed = opts({ dtype: dtype("float32") });
const reverse = opts({ reverse: bool(true) });
const like = opts({ dtype: dtype("float32"), device: device("JS"), requiresGrad: bool(false) });
const TENSOR = { dtype: dtype("float32"), device: device("JS"), requiresGrad: bool(true) };
const sums = opts({ keepdim: bool(true), dtype: dtype("float32") });
const spread = opts({ keepdim: bool(true), correction: num(1) });
const axis = maybe(axes(1));
const one = maybe(int(1));
const window = (): Record<string, Arg> => ({ stride: axes([1, 1]), dilation: axes(1), padding: axes([0, 0]) });
/** Options of spectra over time, of frames of 4. */
const spectra = (): Record<string, Arg> => ({
  hopLength: int(2),
  winLength: int(4),
  window: tensor(f32(4)),
  center: bool(true),
  normalized: bool(false),
  onesided: bool(true),
});
const none: MakeCall = on();
const binary: MakeCall = on(operand(2), reverse);
const ints2 = (): Tensor => i32([1, 2]);

const words: MakeCall = ofMade(ints2, () => [operand(1), reverse]);

/** A call of an operator, by how its operands come. */
function operator(sides: BinaryRow[0]): MakeCall {
  return sides === "words" ? words : sides === "reversible" ? binary : on(operand(2));
}

function same(call: MakeCall, names: string): Record<string, MakeCall> {
  return Object.fromEntries(names.split(" ").map((name) => [name, call]));
}

/** Steps, distances and padding of a window over so many axes. */
const steps = (ones: number[]): Record<string, Arg> => ({
  stride: axes(ones),
  dilation: axes(ones),
  padding: axes(ones.map(() => 0)),
});
const average = { countIncludePad: bool(true), divisorOverride: int(2) }, largest = { returnIndices: bool(true) };
const pool = (size: number[], more: Record<string, Arg>): Arg[] => [
  axes(size),
  opts({ ...steps(size.map(() => 1)), ceilMode: bool(true), ...more }),
];

/** Members of tensors. */
export const METHODS: Readonly<Record<string, MakeCall>> = {
  ...same(none, Object.keys({ ...FUNCTIONS, ...HIGHER_FUNCTIONS, ...ACTIVATIONS, ...CASTS, ...UNARY }).join(" ")),
  ...same(
    none,
    "isComplex isreal real conj angle sgn isnan isfinite relu relu6 numel nbytes elementSize isFloatingPoint toString contiguous contiguousBackward detach " +
      "schedule wasm js data dataSync tolist tolistSync dispose qr",
  ),
  ...same(ofMade(complex, () => []), "imag viewAsReal"),
  viewAsComplex: ofMade(() => f32(3, 2), () => []),
  ...same(binary, "div pow"),
  ...Object.fromEntries(Object.entries(BINARY).map(([name, [sides]]) => [name, operator(sides)])),
  ...same(words, "lshift rshift"),
  ...OPS,
  ...same(on(operand(2)), "copysign ufix"),
  ...same(on(axis, keep), ["median", ...Object.keys(REDUCTIONS)].join(" ")),
  ...same(on(axis, sums), "sum prod"),
  ...same(on(axis, spread), "var std varMean stdMean"),
  ...same(on(one, keep), "argmax argmin"),
  ...same(on(one, typed), "softmax logSoftmax softmin"),
  ...same(on(one), "cumsum cummax cummin logcumsumexp"),
  ...same(on(maybe(num(0.5))), `dropout ${Object.keys(PARAMETRIC).join(" ")}`),
  ...same(on(maybe(size(1))), "tril triu"),
  ...same(
    ofMade(() => Tensor.ones([2, 3]).contiguous().realize(), () => [operand(2)]),
    "addInPlace subInPlace mulInPlace divInPlace floorDivInPlace modInPlace powInPlace",
  ),
  ...same(
    ofMade(() => i32([1, 2]).realize(), () => [operand(1)]),
    "bitwiseAndInPlace bitwiseOrInPlace bitwiseXorInPlace lshiftInPlace rshiftInPlace",
  ),
  ...same(
    ofMade(() => f32(4, 2), () => [maybe(int(0)), opts({ n: count(4), norm: choice("ortho", "backward", "forward") })]),
    "fft ifft",
  ),
  stft: ofMade(
    () => f32(2, 12),
    () => [int(4), opts({ ...spectra(), padMode: choice("reflect", "constant"), returnComplex: bool(true) })],
  ),
  istft: ofMade(
    () => Tensor.complex(f32(2, 3, 5), f32(2, 3, 5)),
    () => [int(4), opts({ ...spectra(), length: int(3), returnComplex: bool(false) })],
  ),
  rfft: on(maybe(int(-1)), opts({ n: count(4), norm: choice("ortho", "backward", "forward") })),
  irfft: ofMade(
    () => f32(3, 2),
    () => [maybe(int(-1)), opts({ n: count(4), norm: choice("ortho", "backward", "forward") })],
  ),
  fullLike: on(
    either(7, scalar(7), size(7)),
    opts({ dtype: dtype("float32"), device: device("JS"), requiresGrad: bool(false), buffer: bool(true) }),
  ),
  ...same(on(like), "zerosLike onesLike emptyLike randLike randnLike"),
  bitwiseNot: ofMade(ints2, () => []),
  asParam: on(int(0)),
  bernoulli: on(maybe(num(0.5))),
  poisson: ofMade(() => f32(3).abs(), () => []),
  binomial: ofMade(() => f32(3).abs().ceil(), () => [operand(0.5)]),
  exponential: on(maybe(num(2))),
  cauchy: on(opts({ median: num(1), sigma: num(2) })),
  logNormal: on(opts({ mean: num(0), std: num(0.5) })),
  geometric: on(num(0.5)),
  multinomial: on(maybe(either(1, int(1), opts({ numSamples: int(1), replacement: bool(true) })))),
  threefry: ofMade(ints2, () => [operand(3)]),
  sequential: on(list([(x: Tensor) => x.relu()])),
  matmulInPlace: ofMade(() => matrix().realize(), () => [operand(matrix())]),
  customKernel: ofMade(() => Tensor.empty([2]), () => [
    tensors([f32(2)]),
    fn((out: Node, x: Node = out) => {
      const i = kernel.loop(2);
      return [kernel.write(out, i, kernel.read(x, i).cast(out.dtype))];
    }),
    opts({ gradFxn: fn((g: Tensor) => [g]) }),
  ]),
  backward: ofMade(
    () => f32(2, 3).mul(new Tensor([1, 2, 3], { requiresGrad: true })),
    () => [maybe(operand(f32(2, 3)))],
  ),
  gradient: () => {
    const w = new Tensor([1, 2, 3], { requiresGrad: true });
    return { self: f32(2, 3).mul(w), args: [tensors([w]), opts({ gradient: operand(f32(2, 3)) })] };
  },
  realize: madeOn(() => [maybe(tensors([f32(2)]))]),
  kernelize: madeOn(() => [maybe(tensors([f32(2)]))]),
  clone: on(opts({ device: device("JS") })),
  to: on(maybe(device("JS"))),
  toInPlace: on(maybe(device("JS"))),
  ...same(on(list(["JS", "JS:1"]), maybe(either(0, int(0), opts({ axis: int(0) })))), "shard shardInPlace"),
  reshard: () => {
    const mesh = Mesh.of({ data: 2 }, { devices: ["JS", "JS:1"] });
    return { self: f32(2, 3).shard(mesh, ["data", null]), args: [instance(mesh, MeshShape), list([null, "data"])] };
  },
  shardLike: on(tensor(f32(2, 3))),
  item: ofMade(() => f32(1), () => []),
  itemSync: ofMade(() => f32(1), () => []),
  assign: ofMade(() => Tensor.ones([2, 3]).contiguous().realize(), () => [operand(2)]),
  replace: madeOn(() => [tensor(f32(2, 3))]),
  call: madeOn(
    () => [tensors([f32(2, 3)]), fn((x: Tensor, y: Tensor) => x.add(y)), opts({ gradFxn: fn((g: Tensor) => [g, g]) })],
  ),
  alu: madeOn(() => [int(Ops.ADD), operand(f32(2, 3))]),
  usum: madeOn(() => [list([f32(2, 3)])]),
  uprod: madeOn(() => [list([f32(2, 3)])]),
  cholesky: ofMade(matrix, () => [opts({ upper: bool(true) })]),
  ...same(ofMade(matrix, () => []), "inv det"),
  svd: ofMade(matrix, () => [maybe(either(false, bool(false), opts({ fullMatrices: bool(false) })))]),
  searchsorted: ofMade(() => i32([1, 3, 5]), () => [
    operand(i32([2, 3])),
    opts({ right: bool(true), sorter: tensor(i32([0, 1, 2])) }),
  ]),
  unique: on(opts({
    size: int(3),
    fillValue: scalar(0),
    returnIndex: bool(true),
    returnInverse: bool(true),
    returnCounts: bool(true),
  })),
  bincount: ofMade(ints2, () => [opts({ weights: listed(f32(2)), minlength: int(1), size: int(4) })]),
  histogram: ofMade(() => f32(3), () => [
    maybe(either(3, int(1), operand(1))),
    opts({ min: num(0), max: num(2), weights: listed(f32(3)), density: bool(true) }),
  ]),
  quantile: on(
    shares(0.5),
    axis,
    opts({ keepdim: bool(true), interpolation: choice("linear", "lower", "higher", "nearest", "midpoint") }),
  ),
  at: on(any(0), any([0, 2])),
  setAt: ofMade(() => Tensor.ones([2, 3]).contiguous().realize(), () => [list([0]), operand(2)]),
  maskedSelect: madeOn(() => [listed(f32(2, 3).gt(0)), opts({ size: int(2), fillValue: scalar(0) })]),
  nonzero: on(opts({ size: int(2), fillValue: scalar(0) })),
  sort: on(one, opts({ descending: bool(true), stable: bool(true) })),
  argsort: on(one, opts({ descending: bool(true), stable: bool(true) })),
  topk: on(size(2), one, opts({ largest: bool(true), sorted: bool(true) })),
  gather: madeOn(() => [int(1), listed(new Tensor([[0, 1], [1, 2]]))]),
  scatter: madeOn(
    () => [int(1), listed(new Tensor([[0, 1], [1, 2]])), operand(f32(2, 2)), maybe(choice("add", "multiply"))],
  ),
  scatterAdd: madeOn(() => [int(1), listed(new Tensor([[0, 1], [1, 2]])), operand(f32(2, 2))]),
  scatterReduce: madeOn(() => [
    int(1),
    listed(new Tensor([[0, 1], [1, 2]])),
    operand(f32(2, 2)),
    choice("sum", "prod", "mean", "amax", "amin"),
    maybe(bool(false)),
  ]),
  oneHot: ofMade(ints2, () => [size(3)]),
  cumprod: on(int(1)),
  nllLoss: madeOn(() => [
    listed(i32([0, 2])),
    maybe(listed(f32(3))),
    opts({ ignoreIndex: int(-1), reduction: choice("mean", "sum", "none") }),
  ]),
  sparseCategoricalCrossentropy: madeOn(() => [
    tensor(i32([0, 2])),
    opts({ ignoreIndex: int(-1), labelSmoothing: num(0.1), reduction: choice("mean", "sum", "none") }),
  ]),
  binaryCrossentropy: madeOn(() => [
    operand(f32(2, 3)),
    maybe(either("mean", choice("mean", "sum", "none"), record({}))),
  ]),
  conv2d: ofMade(() => f32(1, 2, 4, 4), () => [
    tensor(f32(2, 2, 2, 2)),
    maybe(tensor(f32(2))),
    opts({ groups: int(1), ...window(), dtype: dtype("float32") }),
  ]),
  convTranspose2d: ofMade(() => f32(1, 2, 4, 4), () => [
    tensor(f32(2, 2, 2, 2)),
    maybe(tensor(f32(2))),
    opts({ groups: int(1), ...window(), outputPadding: axes(0) }),
  ]),
  avgPool1d: ofMade(() => f32(1, 2, 4), () => pool([2], average)),
  avgPool3d: ofMade(() => f32(1, 2, 2, 2, 2), () => pool([2, 2, 2], average)),
  maxPool1d: ofMade(() => f32(1, 2, 4), () => pool([2], largest)),
  maxPool3d: ofMade(() => f32(1, 2, 2, 2, 2), () => pool([2, 2, 2], largest)),
  adaptiveMaxPool1d: ofMade(() => f32(1, 2, 4), () => [axes([2]), opts({ returnIndices: bool(true) })]),
  adaptiveMaxPool3d: ofMade(() => f32(1, 2, 2, 2, 2), () => [axes([1, 2, 1]), opts({ returnIndices: bool(true) })]),
  fractionalMaxPool2d: ofMade(() => f32(1, 2, 5, 5), () => [
    axes([2, 2]),
    options({ outputSize: axes([2, 3]), returnIndices: maybe(bool(true)) }),
  ]),
  fractionalMaxPool3d: ofMade(() => f32(1, 2, 5, 5, 5), () => [
    axes([2, 2, 2]),
    options({ outputSize: axes([2, 3, 2]), returnIndices: maybe(bool(true)) }),
  ]),
  conv1d: ofMade(() => f32(1, 2, 4), () => [
    tensor(f32(2, 2, 2)),
    maybe(tensor(f32(2))),
    opts({ groups: int(1), ...steps([1]), dtype: dtype("float32") }),
  ]),
  conv3d: ofMade(() => f32(1, 2, 2, 2, 2), () => [
    tensor(f32(2, 2, 2, 2, 2)),
    maybe(tensor(f32(2))),
    opts({ groups: int(1), ...steps([1, 1, 1]), dtype: dtype("float32") }),
  ]),
  asStrided: ofMade(() => f32(6), () => [ints([3, 2]), ints([1, 2]), maybe(count(1))]),
  avgPool2d: ofMade(() => f32(1, 2, 4, 4), () => [
    maybe(axes([2, 2])),
    opts({ ...window(), ceilMode: bool(true), countIncludePad: bool(true), divisorOverride: int(2) }),
  ]),
  lpPool2d: ofMade(
    () => f32(1, 2, 4, 4),
    () => [num(2), maybe(axes([2, 2])), opts({ stride: axes(1), ceilMode: bool(true) })],
  ),
  lpPool1d: ofMade(() => f32(1, 2, 4), () => [num(2), axes([2]), opts({ stride: axes([1]), ceilMode: bool(true) })]),
  lpPool3d: ofMade(
    () => f32(1, 1, 2, 2, 2),
    () => [num(2), axes([2, 2, 2]), opts({ stride: axes([1, 1, 1]), ceilMode: bool(true) })],
  ),
  convTranspose1d: ofMade(() => f32(1, 2, 4), () => [
    tensor(f32(2, 2, 2)),
    maybe(tensor(f32(2))),
    opts({ groups: int(1), stride: axes([1]), dilation: axes([1]), padding: axes([0]), outputPadding: axes([0]) }),
  ]),
  convTranspose3d: ofMade(() => f32(1, 2, 2, 2, 2), () => [
    tensor(f32(2, 2, 2, 2, 2)),
    maybe(tensor(f32(2))),
    opts({
      groups: int(1),
      stride: axes([1, 1, 1]),
      dilation: axes([1, 1, 1]),
      padding: axes([0, 0, 0]),
      outputPadding: axes([0, 0, 0]),
    }),
  ]),
  maxUnpool1d: ofMade(() => f32(1, 1, 2), () => [
    tensor(new Tensor([[[0, 2]]])),
    axes([2]),
    opts({ stride: axes([2]), dilation: axes([1]), padding: axes([0]), outputSize: ints([4]) }),
  ]),
  maxUnpool3d: ofMade(() => f32(1, 1, 1, 1, 2), () => [
    tensor(new Tensor([[[[[0, 2]]]]])),
    axes([2, 2, 2]),
    opts({ stride: axes([2, 2, 2]), dilation: axes([1, 1, 1]), padding: axes([0, 0, 0]), outputSize: ints([2, 2, 4]) }),
  ]),
  maxPool2d: ofMade(() => f32(1, 2, 4, 4), () => [
    maybe(axes([2, 2])),
    opts({ ...window(), ceilMode: bool(true), returnIndices: bool(true) }),
  ]),
  maxUnpool2d: ofMade(() => f32(1, 1, 2, 2), () => [
    tensor(new Tensor([[[[0, 2], [8, 10]]]])),
    maybe(axes([2, 2])),
    opts({ stride: axes([2, 2]), dilation: axes(1), padding: axes(0), outputSize: ints([4, 4]) }),
  ]),
  dot: madeOn(() => [operand(f32(3, 2)), opts({ dtype: dtype("float32") })]),
  matmul: ofMade(() => f32(3, 3), () => [operand(f32(3, 3)), opts({ reverse: bool(true), dtype: dtype("float32") })]),
  linear: madeOn(() => [operand(f32(3, 2)), maybe(operand(f32(2))), opts({ dtype: dtype("float32") })]),
  newtonSchulz: on(count(2), list([3, -4, 2]), maybe(num(1e-7))),
  scaledDotProductAttention: ofMade(() => f32(1, 2, 4), () => [
    tensor(f32(1, 2, 4)),
    tensor(f32(1, 2, 4)),
    maybe(tensor(f32(2, 2))),
    opts({ dropoutP: num(0.1), isCausal: bool(false), scale: num(0.5), enableGqa: bool(false) }),
  ]),
  allclose: on(operand(1), opts({ rtol: num(1e-5), atol: num(1e-8), equalNan: bool(true) })),
  isclose: on(operand(1), opts({ rtol: num(1e-5), atol: num(1e-8), equalNan: bool(true) })),
  layernorm: on(maybe(axes(-1)), opts({ eps: num(1e-5) })),
  batchnorm: madeOn(() => [
    maybe(operand(f32(3))),
    maybe(operand(f32(3))),
    operand(f32(3)),
    operand(f32(3)),
    maybe(axes(1)),
  ]),
  normalize: on(opts({ p: num(2), dim: int(1), eps: num(1e-12) })),
  hardsigmoid: on(opts({ alpha: num(0.2), beta: num(0.5) })),
  hardtanh: on(opts({ minVal: num(-1), maxVal: num(1) })),
  selu: on(opts({ alpha: num(1.6), gamma: num(1.05) })),
  gelu: on(opts({ approximate: choice("tanh", "none") })),
  isinf: on(opts({ detectPositive: bool(true), detectNegative: bool(true) })),
  cast: on(dtype("float16")),
  bitcast: on(dtype("int32")),
  ...same(on(maybe(operand(0)), maybe(operand(1))), "clamp clip"),
  lerp: on(operand(2), operand(0.5)),
  where: ofMade(() => f32(2, 3).gt(0), () => [operand(1), operand(2)]),
  maskedFill: madeOn(() => [operand(f32(2, 3).gt(0)), operand(2)]),
  constLike: on(scalar(7), opts({ dtype: dtype("float32") })),
  split: ofMade(() => f32(4), () => [either(2, size(1), list([])), maybe(int(0))]),
  chunk: ofMade(() => f32(4), () => [int(2), maybe(int(0))]),
  cat: madeOn(() => [joined([f32(2, 3)]), maybe(int(0))]),
  stack: madeOn(() => [joined([f32(2, 3)]), maybe(int(0))]),
  repeat: on(shape([1, 2])),
  roll: on(either(1, size(1), list([])), maybe(axes(1))),
  meshgrid: ofMade(ints2, () => [maybe(joined([i32([1, 2])])), opts({ indexing: choice("ij", "xy") })]),
  ...same(on(shape([3, 2])), "reshape view"),
  expand: on(shape([4, 2, 3])),
  permute: on(ints([1, 0])),
  transpose: on(maybe(int(1)), maybe(int(0))),
  flip: on(axes([0])),
  shrink: on(list([[0, 1], null])),
  shrinkTo: on(shape([1, 2])),
  pad: on(list([1, 1]), opts({ mode: choice("constant", "reflect", "replicate", "circular"), value: scalar(0) })),
  padTo: on(shape([3, 4]), opts({ value: scalar(0) })),
  squeeze: on(maybe(axes(0))),
  unsqueeze: on(int(0)),
  flatten: on(maybe(int(0)), maybe(int(1))),
  unflatten: on(int(1), shape([3, 1])),
  size: on(one),
  unfold: on(int(1), int(2), int(1)),
  diagonal: on(opts({ offset: int(0), dim1: int(0), dim2: int(1) })),
  rearrange: on(text("a b -> b a"), maybe(record({ a: 2 }))),
};

/** Members of Tensor itself. */
export const STATICS: Readonly<Record<string, MakeCall>> = {
  ...STATIC_OPS,
  ...KIT_STATICS,
  full: () => ({ self: Tensor, args: [shape([2, 3]), either(7, scalar(7), size(7)), opts(TENSOR)] }),
  ...Object.fromEntries(
    ["zeros", "ones", "empty", "invalids", "randn", "scaledUniform", "glorotUniform"].map((name) => [
      name,
      () => ({ self: Tensor, args: [shape([2, 3]), opts(TENSOR)] }),
    ]),
  ),
  ...same(() => ({ self: Tensor, args: [tensor(f32(3)), operand(2)] }), "complex polar"),
  fromBlob: () => ({
    self: Tensor,
    args: [memory(new Float32Array(6)), shape([2, 3]), opts(TENSOR)],
  }),
  const: () => ({ self: Tensor, args: [either(7, scalar(1), data(1)), maybe(dtype("float32"))] }),
  arange: () => ({
    self: Tensor,
    args: [
      either(0, num(1), size(1)),
      maybe(either(5, num(1), size(1))),
      maybe(either(1, num(1), size(1))),
      opts(TENSOR),
    ],
  }),
  logspace: () => ({ self: Tensor, args: [value(0), value(1), size(5), opts({ ...TENSOR, base: num(2) })] }),
  geomspace: () => ({ self: Tensor, args: [value(1), value(2), size(5), opts(TENSOR)] }),
  linspace: () => ({ self: Tensor, args: [value(0), value(1), size(5), opts(TENSOR)] }),
  eye: () => ({ self: Tensor, args: [size(2), maybe(size(3)), opts(TENSOR)] }),
  manualSeed: () => ({ self: Tensor, args: [maybe(either(7, int(1), scalar(1)))] }),
  rand: () => ({ self: Tensor, args: [shape([2, 3]), opts({ ...TENSOR, contiguous: bool(true) })] }),
  randint: () => ({
    self: Tensor,
    args: [shape([2, 3]), opts({ dtype: dtype("int32"), device: device("JS"), low: int(0), high: int(5) })],
  }),
  normal: () => ({ self: Tensor, args: [shape([2, 3]), opts({ ...TENSOR, mean: num(0), std: num(1) })] }),
  uniform: () => ({ self: Tensor, args: [shape([2, 3]), opts({ ...TENSOR, low: num(0), high: num(1) })] }),
  kaimingUniform: () => ({ self: Tensor, args: [shape([2, 3]), opts({ ...TENSOR, a: num(0.1) })] }),
  kaimingNormal: () => ({ self: Tensor, args: [shape([2, 3]), opts({ ...TENSOR, a: num(0.1) })] }),
  randperm: () => ({ self: Tensor, args: [size(5), opts({ dtype: dtype("int32"), device: device("JS") })] }),
  randomBits: () => ({
    self: Tensor,
    args: [either([1, 2], list([]), tensor(f32(1))), either(0, int(1), tensor(f32(1)), scalar(1n)), int(3)],
  }),
  cat: () => ({ self: Tensor, args: [joined([f32(2, 3), f32(2, 3)]), maybe(int(0))] }),
  stack: () => ({ self: Tensor, args: [joined([f32(2, 3), f32(2, 3)]), maybe(int(0))] }),
  ...same(
    () => ({ self: Tensor, args: [joined([f32(2, 2), f32(2, 2)])] }),
    "hstack vstack dstack columnStack blockDiag multiDot",
  ),
  cartesianProd: () => ({ self: Tensor, args: [joined([f32(2), f32(2)])] }),
  meshgrid: () => ({ self: Tensor, args: [joined([f32(2), f32(2)]), opts({ indexing: choice("ij", "xy") })] }),
  where: () => ({ self: Tensor, args: [listed(f32(2, 3).gt(0)), operand(1), operand(2)] }),
  realize: () => ({ self: Tensor, args: [tensors([f32(2, 3)])] }),
  kernelize: () => ({ self: Tensor, args: [tensors([f32(2, 3)])] }),
  train: () => ({ self: Tensor, args: [fn(() => 1)] }),
  einsum: () => ({ self: Tensor, args: [text("ij,jk->ik"), joined([f32(2, 3), f32(3, 2)]), typed] }),
};
