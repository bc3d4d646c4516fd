/**
 * A valid call of every other public function and class: layers, optimizers, state, transforms, devices, kernels.
 *
 * @module
 */
import * as dinograd from "../../../mod.ts";
import { Device, nn, state, Tensor } from "../../../mod.ts";
import { Mesh } from "../../../src/dist/dist.ts";
import * as lazyLayers from "../../../src/nn/layers/named/lazy_layers.ts";
import * as padLayers from "../../../src/nn/layers/named/pad_layers.ts";
import * as layersOfFunctions from "../../../src/nn/layers/method_layers.ts";
import { MeshShape } from "../../../src/uop/core/sharding.ts";
import { type Call, f32, free, made, type MakeCall } from "./argument_makers.ts";
import { KERNEL_FUNCTIONS } from "./argument_calls_kernel.ts";
import { KIT_CLASSES, KIT_FUNCTIONS } from "./argument_calls_kit.ts";
import {
  any,
  type Arg,
  axes,
  bool,
  bytes,
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
  list,
  maybe,
  most,
  num,
  options,
  opts,
  orNumber,
  path,
  record,
  tensor,
  tensors,
  text,
  variadic,
} from "./argument_kinds.ts";
import { decoder, encoder, exp, sgd, sum, trained, weights } from "./argument_objects.ts";

const lr = either(0.1, num(1), tensor(f32(1)));
const RULE = { lr, weightDecay: num(0), device: device("JS") };
const MOMENTS = { b1: num(0.9), b2: num(0.999), eps: num(1e-8) };
const scheduled = (): Arg => instance(sgd(), nn.optim.Optimizer, nn.optim.OptimizerGroup);
const conv = (): Arg[] => [
  int(2),
  int(2),
  axes(2),
  opts({
    stride: axes(1),
    padding: either(0, axes(0), choice("same")),
    dilation: axes(1),
    groups: int(1),
    bias: bool(true),
  }),
];
const transposed = (): Arg[] => [
  int(2),
  int(2),
  axes(2),
  opts({
    stride: axes(1),
    padding: axes(0),
    dilation: axes(1),
    groups: int(1),
    bias: bool(true),
    outputPadding: axes(0),
  }),
];
const batchNorm = (): Arg[] => [
  int(2),
  opts({ eps: num(1e-5), affine: bool(true), trackRunningStats: bool(true), momentum: num(0.1) }),
];
const groupNorm = { eps: num(1e-5), affine: bool(true) };
const layerNorm = (): Arg[] => [axes([3]), opts({ eps: num(1e-5), elementwiseAffine: bool(true), bias: bool(true) })];
const cell = (): Arg[] => [int(3), int(2), opts({ bias: bool(true) })];
const layers = {
  numLayers: count(2),
  bias: bool(true),
  batchFirst: bool(true),
  dropout: num(0.1),
  bidirectional: bool(true),
};
const rmsNorm = (): Arg[] => [axes(3), opts({ eps: num(1e-5), elementwiseAffine: bool(true) })];
const attention = (): Arg[] => [
  int(4),
  int(2),
  opts({ dropout: num(0.1), bias: bool(true), kdim: int(4), vdim: int(4), batchFirst: bool(true) }),
];
const transformer = (): Arg[] => [
  int(4),
  int(2),
  opts({
    dimFeedforward: int(8),
    dropout: num(0.1),
    activation: either("relu", choice("relu", "gelu"), fn(() => 1)),
    layerNormEps: num(1e-5),
    batchFirst: bool(true),
    normFirst: bool(true),
    bias: bool(true),
  }),
];
const called = (): Arg => instance(new nn.LayerNorm(4), nn.LayerNorm);
const npy = await state.npyBytes(f32(2, 3));
const safe = await state.safeBytes({ w: f32(2, 3) });
const placed = (): Arg => opts({ device: device("JS") });
const archive = (): Arg => opts({ device: device("JS"), maxBytes: int(1000) });
const file = (): Arg => either(new Tensor(npy), path(""), tensor(f32(1)));

/** Public functions, by their path in mod.ts. */
export const FUNCTIONS: Readonly<Record<string, MakeCall>> = {
  ...KIT_FUNCTIONS,
  "Device.get": () => ({ self: Device, args: [maybe(device("JS"))] }),
  "Device.open": () => ({ self: Device, args: [device("JS")] }),
  "Device.canonicalize": () => ({ self: Device, args: [text("js:0")] }),
  "Device.list": () => ({ self: Device, args: [] }),
  "Device.memory": () => ({ self: Device, args: [] }),
  "Device.synchronize": () => ({ self: Device, args: [maybe(device("JS"))] }),
  ...KERNEL_FUNCTIONS,
  "GlobalCounters.reset": () => ({ self: dinograd.GlobalCounters, args: [] }),
  ...Object.fromEntries(["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"].map((name) => [
    `fft.${name}`,
    free(tensor(f32(4, 3)), maybe(int(-1)), opts({ n: count(4), norm: choice("ortho", "backward", "forward") })),
  ])),
  ...Object.fromEntries(["fft", "ifft", "rfft", "irfft"].flatMap((name) =>
    [2, "n"].map((of) => [
      `fft.${name}${of}`,
      free(
        tensor(f32(4, 3)),
        maybe(axes([0, 1])),
        opts({ s: list([4, 4]), norm: choice("ortho", "backward", "forward") }),
      ),
    ])
  )),
  ...Object.fromEntries(
    ["fftshift", "ifftshift"].map((name) => [`fft.${name}`, free(tensor(f32(4, 3)), maybe(axes([0, 1])))]),
  ),
  ...Object.fromEntries(["fftfreq", "rfftfreq"].map((name) => [
    `fft.${name}`,
    free(
      count(4),
      orNumber(opts({ d: num(0.5), dtype: dtype("float32"), device: device("JS"), requiresGrad: bool(false) })),
    ),
  ])),
  ...Object.fromEntries(["hann", "hamming", "blackman", "bartlett", "kaiser"].map((name) => [
    `windows.${name}`,
    free(
      count(4),
      opts({
        periodic: bool(true),
        ...(name === "kaiser" ? { beta: num(8) } : {}),
        dtype: dtype("float32"),
        device: device("JS"),
        requiresGrad: bool(false),
      }),
    ),
  ])),
  checkpoint: free(fn(exp)),
  context: free(record({ NOOPT: 0 }), fn(() => 1)),
  display: free(
    tensor(f32(2, 3)),
    opts({ image: bool(true), min: num(0), max: num(1), scale: int(1) }),
  ),
  grad: free(fn(sum), opts({ argnums: axes(0), hasAux: bool(false) })),
  valueAndGrad: free(fn(sum), opts({ argnums: axes(0), hasAux: bool(false) })),
  jacobian: free(fn(exp), opts({ argnums: axes(0) })),
  hessian: free(fn(sum), opts({ argnums: axes(0) })),
  scan: free(
    fn((carry: unknown, x: Tensor) => [carry instanceof Tensor ? carry.add(x) : f32(1), x]),
    any(f32(1)),
    any(f32(3, 1)),
    opts({ reverse: bool(true), unroll: bool(true), length: int(3) }),
  ),
  whileLoop: free(
    fn((x: unknown) => (x instanceof Tensor ? x : f32(1)).lt(3).all()),
    fn((x: unknown) => x instanceof Tensor ? x.add(1) : x),
    any(f32(2)),
    opts({ maxSteps: most(2) }),
  ),
  vmap: free(
    fn(sum),
    opts({ inAxes: either(0, int(0), list([0])), outAxes: int(0) }),
  ),
  jvp: free(fn(exp), list([f32(2)]), list([f32(2)])),
  jit: free(fn(exp), opts({ reuseOutputs: bool(false), donate: either([], ints([0]), bool(true)) })),
  onCompile: free(fn(() => {})),
  finfo: free(dtype("float32")),
  iinfo: free(dtype("int32")),
  tune: free(fn(() => {}), opts({ budgetMs: num(0), width: int(1), progress: fn(() => {}) })),
  record: free(fn(() => 1)),
  scope: free(fn(() => f32(2))),
  schedule: made(() => [tensors([f32(2, 3)])]),
  viewOf: made(() => [tensor(f32(2, 3))]),
  "nn.optim.clipGradNorm": made(() => [tensors(trained()), num(1), opts({ normType: num(2) })]),
  "nn.optim.clipGradValue": made(() => [tensors(trained()), num(1)]),
  "state.fromFile": free(
    path(new URL(import.meta.url)),
    opts({ dtype: dtype("uint8"), shape: either([4], ints([4]), int(4)), offset: int(0), device: device("JS") }),
  ),
  "state.getParameters": free(any({ w: f32(2) })),
  "state.distSave": made(() => [any({ w: f32(2) }), path("/dev/null/no.safetensors")]),
  "state.distLoad": made(() => [any({ w: f32(2) }), path("/dev/null/no.safetensors")]),
  "state.place": made(() => {
    const mesh = Mesh.of({ data: 2 }, { devices: ["JS", "JS:1"] });
    return [any({ w: f32(2) }), instance(mesh, MeshShape), opts({ shard: text("data") })];
  }),
  "state.getStateDict": free(any({ w: f32(2) }), opts({ prefix: text("a") })),
  "state.loadStateDict": made(() => [
    any({ w: f32(2).clone() }),
    record({ w: f32(2) }),
    opts({ strict: bool(true), verbose: bool(false), consume: bool(false), realize: bool(true) }),
  ]),
  "state.npyBytes": made(() => [tensor(f32(2, 3))]),
  "state.npyLoad": made(() => [file(), placed()]),
  "state.npyParse": made(() => [bytes(npy), placed()]),
  "state.npySave": made(() => [tensor(f32(2, 3)), path("/dev/null/no.npy")]),
  "state.npzLoad": made(() => [file(), archive()]),
  "state.npzSave": made(() => [record({ w: f32(2) }), path("/dev/null/no.npz"), opts({ compressed: bool(true) })]),
  "state.safeBytes": made(() => [record({ w: f32(2, 3) }), opts({ metadata: record({ a: "b" }) })]),
  "state.safeLoad": made(() => [either(new Tensor(safe), path(""), tensor(f32(1))), placed()]),
  "state.safeLoadMetadata": made(() => [either(new Tensor(safe), path(""), tensor(f32(1)))]),
  "state.safeParse": made(() => [bytes(safe), placed()]),
  "state.safeSave": made(() => [
    record({ w: f32(2) }),
    path("/dev/null/no.safetensors"),
    opts({ metadata: record({ a: "b" }), maxShardBytes: int(100) }),
  ]),
  "state.tarExtract": made(() => [file(), archive()]),
  "state.torchLoad": made(() => [file(), archive()]),
  "state.zipExtract": made(() => [file(), archive()]),
};

/** Public classes, by their path in mod.ts, as constructors. */
export const CLASSES: Readonly<Record<string, MakeCall>> = {
  ...KIT_CLASSES,
  Tensor: free(
    maybe(data([[1, 2], [3, 4]])),
    opts({ dtype: dtype("float32"), device: device("JS"), requiresGrad: bool(true) }),
  ),
  Variable: free(text("n"), int(1), int(9)),
  "nn.BatchNorm": free(...batchNorm()),
  "nn.BatchNorm1d": free(...batchNorm()),
  "nn.BatchNorm2d": free(...batchNorm()),
  "nn.BatchNorm3d": free(...batchNorm()),
  "nn.Conv1d": free(...conv()),
  "nn.Conv2d": free(...conv()),
  "nn.Conv3d": free(...conv()),
  "nn.ConvTranspose1d": free(...transposed()),
  "nn.ConvTranspose2d": free(...transposed()),
  "nn.ConvTranspose3d": free(...transposed()),
  "nn.Dropout": free(maybe(num(0.5))),
  "nn.Dropout1d": free(maybe(num(0.5))),
  "nn.Dropout2d": free(maybe(num(0.5))),
  "nn.Dropout3d": free(maybe(num(0.5))),
  "nn.AlphaDropout": free(maybe(num(0.5))),
  "nn.Embedding": free(int(5), int(3)),
  "nn.GRU": free(int(3), int(2), opts(layers)),
  "nn.GRUCell": free(...cell()),
  "nn.GroupNorm": free(int(2), int(4), opts(groupNorm)),
  "nn.InstanceNorm": free(int(4), opts(groupNorm)),
  "nn.InstanceNorm1d": free(int(4), opts(groupNorm)),
  "nn.InstanceNorm2d": free(int(4), opts(groupNorm)),
  "nn.InstanceNorm3d": free(int(4), opts(groupNorm)),
  "nn.LSTM": free(int(3), int(2), opts(layers)),
  "nn.LSTMCell": free(...cell()),
  "nn.LstmCell": free(...cell()),
  "nn.LayerNorm": free(...layerNorm()),
  "nn.LayerNorm2d": free(...layerNorm()),
  "nn.Linear": free(int(3), int(2), opts({ bias: bool(true) })),
  "nn.MultiHeadAttention": free(...attention()),
  "nn.MultiheadAttention": free(...attention()),
  "nn.RMSNorm": free(...rmsNorm()),
  "nn.RmsNorm": free(...rmsNorm()),
  "nn.RNN": free(int(3), int(2), opts({ ...layers, nonlinearity: choice("relu", "tanh") })),
  "nn.RNNCell": free(int(3), int(2), opts({ bias: bool(true), nonlinearity: choice("relu", "tanh") })),
  "nn.Sequential": made(() => {
    const double = (x: Tensor) => x.mul(2);
    return [variadic(either(double, fn(double), list([])))];
  }),
  "nn.Identity": free(),
  "nn.Flatten": free(maybe(int(1)), maybe(int(-1))),
  "nn.PReLU": free(opts({ numParameters: int(1), init: num(0.1) })),
  "nn.Bilinear": free(int(3), int(2), int(4), opts({ bias: bool(true) })),
  "nn.Transformer": free(
    ...transformer().slice(0, 2).map(maybe),
    opts({ dimFeedforward: int(8), numEncoderLayers: int(1), numDecoderLayers: int(1), normFirst: bool(true) }),
  ),
  "nn.TransformerDecoder": made(() => [instance(decoder(), nn.TransformerDecoderLayer), int(2), maybe(called())]),
  "nn.TransformerEncoder": made(() => [instance(encoder(), nn.TransformerEncoderLayer), int(2), maybe(called())]),
  "nn.TransformerDecoderLayer": free(...transformer()),
  "nn.TransformerEncoderLayer": free(...transformer()),
  "nn.optim.Adam": made(() => [tensors(weights()), opts({ ...RULE, ...MOMENTS, fused: bool(true) })]),
  "nn.optim.AdamW": made(() => [tensors(weights()), opts({ ...RULE, ...MOMENTS, fused: bool(true) })]),
  "nn.optim.Adagrad": made(() => [
    tensors(weights()),
    opts({ ...RULE, initialAccumulatorValue: num(0.1), eps: num(1e-8), fused: bool(true) }),
  ]),
  "nn.optim.RMSprop": made(() => [
    tensors(weights()),
    opts({ ...RULE, alpha: num(0.9), eps: num(1e-8), momentum: num(0.5), centered: bool(true), fused: bool(true) }),
  ]),
  "nn.optim.Rprop": made(() => [
    tensors(weights()),
    opts({ lr: RULE.lr, device: RULE.device, etas: list([0.5, 1.2]), stepSizes: list([1e-6, 50]), fused: bool(true) }),
  ]),
  "nn.optim.ASGD": made(() => [
    tensors(weights()),
    opts({ ...RULE, lambd: num(0.1), alpha: num(0.5), t0: num(2), fused: bool(true) }),
  ]),
  "nn.optim.Adafactor": made(() => [
    tensors(weights()),
    opts({ ...RULE, beta2Decay: num(-0.5), eps: list([1e-8, 0.01]), d: num(1.5) }),
  ]),
  "nn.optim.LBFGS": made(() => [
    tensors(weights()),
    opts({
      lr: num(1),
      maxIter: int(2),
      maxEval: int(3),
      toleranceGrad: num(1e-7),
      toleranceChange: num(1e-9),
      historySize: int(2),
      lineSearchFn: choice("strongWolfe"),
    }),
  ]),
  "nn.optim.Adadelta": made(() => [
    tensors(weights()),
    opts({ ...RULE, rho: num(0.9), eps: num(1e-6), fused: bool(true) }),
  ]),
  "nn.optim.NAdam": made(() => [
    tensors(weights()),
    opts({ ...RULE, ...MOMENTS, momentumDecay: num(0.01), decoupledWeightDecay: bool(true), fused: bool(true) }),
  ]),
  "nn.optim.RAdam": made(() => [
    tensors(weights()),
    opts({ ...RULE, ...MOMENTS, decoupledWeightDecay: bool(true), fused: bool(true) }),
  ]),
  "nn.optim.Adamax": made(() => [tensors(weights()), opts({ ...RULE, ...MOMENTS, fused: bool(true) })]),
  "nn.optim.LAMB": made(() => [tensors(weights()), opts({ ...RULE, ...MOMENTS })]),
  "nn.optim.SGD": made(() => [
    tensors(weights()),
    opts({ ...RULE, momentum: num(0.9), nesterov: bool(true), classic: bool(true), fused: bool(true) }),
  ]),
  "nn.optim.LARS": made(() => [
    tensors(weights()),
    opts({
      ...RULE,
      momentum: num(0.9),
      nesterov: bool(true),
      nsSteps: count(0),
      nsCoefficients: list([3, -4, 2]),
      classic: bool(true),
      preWd: bool(true),
      tcoef: num(0.001),
    }),
  ]),
  "nn.optim.Muon": made(() => [
    tensors(weights()),
    opts({
      ...RULE,
      momentum: num(0.9),
      nesterov: bool(true),
      nsSteps: count(2),
      nsCoefficients: list([3, -4, 2]),
    }),
  ]),
  "nn.optim.OptimizerGroup": made(() => [variadic(instance(sgd(), nn.optim.Optimizer))]),
  "nn.optim.LRSchedulerGroup": made(
    () => [variadic(instance(new nn.optim.StepLR(sgd(), { stepSize: 1 }), nn.optim.LRScheduler))],
  ),
  "nn.optim.LambdaLR": made(() => [scheduled(), fn(() => 0.5)]),
  "nn.optim.MultiplicativeLR": made(() => [scheduled(), fn(() => 0.5)]),
  "nn.optim.StepLR": made(() => [scheduled(), options({ stepSize: int(1), gamma: maybe(num(0.1)) })]),
  "nn.optim.MultiStepLR": made(() => [scheduled(), options({ milestones: ints([1]), gamma: maybe(num(0.1)) })]),
  "nn.optim.ExponentialLR": made(() => [scheduled(), options({ gamma: num(0.5) })]),
  "nn.optim.LinearLR": made(
    () => [scheduled(), opts({ startFactor: num(0.5), endFactor: num(1), totalIters: int(5) })],
  ),
  "nn.optim.ConstantLR": made(() => [scheduled(), opts({ factor: num(0.5), totalIters: int(5) })]),
  "nn.optim.CosineAnnealingWarmRestarts": made(
    () => [scheduled(), options({ t0: int(2), tMult: maybe(int(2)), etaMin: maybe(num(0)) })],
  ),
  "nn.optim.CyclicLR": made(() => [
    scheduled(),
    options({
      baseLr: num(0.1),
      maxLr: num(1),
      stepSizeUp: maybe(int(2)),
      stepSizeDown: maybe(int(3)),
      mode: maybe(choice("triangular", "triangular2", "exp_range")),
      gamma: maybe(num(0.9)),
      scaleFn: maybe(fn(() => 0.5)),
      scaleMode: maybe(choice("cycle", "iterations")),
    }),
  ]),
  "nn.optim.SequentialLR": made(() => {
    const o = sgd(), both = [1, 2].map((stepSize) => new nn.optim.StepLR(o, { stepSize }));
    return [
      instance(o, nn.optim.Optimizer, nn.optim.OptimizerGroup),
      options({ schedulers: list(both), milestones: ints([3]) }),
    ];
  }),
  "nn.optim.ChainedScheduler": made(() => {
    const o = sgd(), both = [1, 2].map((stepSize) => new nn.optim.StepLR(o, { stepSize }));
    return [instance(o, nn.optim.Optimizer, nn.optim.OptimizerGroup), options({ schedulers: list(both) })];
  }),
  "nn.optim.PolynomialLR": made(() => [scheduled(), opts({ totalIters: int(5), power: num(1) })]),
  "nn.optim.CosineAnnealingLR": made(
    () => [scheduled(), options({ tMax: int(5), etaMin: maybe(num(0)), warmupSteps: maybe(int(1)) })],
  ),
  "nn.optim.PolynomialDecayWithWarmup": made(() => [
    scheduled(),
    options({ totalSteps: int(5), warmupSteps: int(1), endLr: maybe(num(0)), power: maybe(num(2)) }),
  ]),
  "nn.optim.OneCycleLR": made(() => [
    scheduled(),
    options({
      maxLr: num(1),
      totalSteps: int(5),
      pctStart: maybe(num(0.3)),
      annealStrategy: maybe(choice("cos", "linear")),
      divFactor: maybe(num(25)),
      finalDivFactor: maybe(num(1e4)),
    }),
  ]),
  "nn.optim.ReduceLROnPlateau": made(() => [
    scheduled(),
    opts({
      mode: choice("min", "max"),
      factor: num(0.1),
      patience: int(1),
      threshold: num(1e-4),
      thresholdMode: choice("rel", "abs"),
      cooldown: int(1),
      minLr: num(0),
      eps: num(1e-8),
    }),
  ]),
  "nn.optim.GradScaler": free(
    opts({ initScale: num(2), growthFactor: num(2), backoffFactor: num(0.5), growthInterval: int(3) }),
  ),
  "state.TensorIO": made(() => [tensor(new Tensor(new Uint8Array([1, 2])))]),
};

/** Setters of properties: one argument. */
export const SETTERS: Readonly<Record<string, () => Call>> = {
  "Tensor.requiresGrad": () => ({ self: f32(2), args: [maybe(bool(true))] }),
  "Tensor.training": () => ({ self: Tensor, args: [bool(false)] }),
  "Device.default": () => ({ self: Device, args: [device("JS")] }),
};

/** What is exported and takes no part, with the reason. */
export const LEFT_OUT: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    Object.keys(layersOfFunctions).map((name) => [`new nn.${name}`, "calls a method, which checks its arguments"]),
  ),
  ...Object.fromEntries(
    Object.keys(lazyLayers).map((name) => [`new nn.${name}`, "takes what its layer takes, when it is called first"]),
  ),
  ...Object.fromEntries(
    Object.keys(padLayers).map((name) => [`new nn.${name}`, "refuses bad sizes: tests/nn/named_layers_test.ts"]),
  ),
  "Tensor.fromUrl": "needs a server; tests/tensor/handle/creation_test.ts",
  "webgpu": "a device that may not be here",
  "cuda": "a device that may not be here",
  "clang": "a device that may not be here",
  "nn.datasets.cifar": "needs files; tests/nn/datasets/cifar_test.ts",
  "nn.datasets.mnist": "needs files; tests/nn/datasets/mnist_test.ts",
  "nn.datasets.digits": "takes nothing",
  "toJSON": "always an error, which says how; tests/tensor/ops/op_forms_test.ts",
  "init": "opens all that opens; tests/tensor/errors_test.ts",
  "new nn.data.Sampler": "abstract",
  "new nn.metrics.Metric": "abstract",
  "new nn.optim.Optimizer": "abstract",
  "new nn.optim.LRScheduler": "abstract",
  "new nn.optim.StepSchedule": "abstract",
  "new BufferCopy": "what schedule() gives; nobody makes one",
  "new BufferXfer": "what schedule() gives; nobody makes one",
  "new CollectiveStep": "what schedule() gives; nobody makes one",
  "new CompiledKernel": "what schedule() gives; nobody makes one",
  "new CustomOp": "what schedule() gives; nobody makes one",
  "new EmptyOp": "what schedule() gives; nobody makes one",
  "new ExecItem": "what schedule() gives; nobody makes one",
  "new ViewOp": "what schedule() gives; nobody makes one",
};
