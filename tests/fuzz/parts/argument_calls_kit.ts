/**
 * More of argument_calls.ts: a valid call of what training is made of beside layers and optimizers: data sets and loaders,
 * metrics, averages of weights, checkpoints, modes of gradients and of random numbers.
 *
 * @module
 */
import { nn, state, Tensor } from "../../../mod.ts";
import { f32, free, made, type MakeCall, of } from "./argument_makers.ts";
import {
  any,
  type Arg,
  bool,
  bytes,
  choice,
  dataset,
  device,
  dtype,
  either,
  fn,
  indices,
  int,
  ints,
  iterable,
  list,
  maybe,
  num,
  opts,
  path,
  record,
  tensor,
  tensors,
  text,
  value,
  variadic,
} from "./argument_kinds.ts";

const inTensor = (...args: Arg[]): MakeCall => () => ({ self: Tensor, args });

const trained = (): Tensor[] => {
  const w = new Tensor([1, 2], { requiresGrad: true });
  w.square().sum().backward();
  return [w];
};
const model = (): { w: Tensor } => ({ w: new Tensor([1, 2], { requiresGrad: true }) });
const norm = (): Arg => opts({ normType: num(2) });
const items = [4, 5, 6];
const seed = { seed: int(1) };
const order = int(3);
const saved = await state.checkpointBytes({ model: model(), epoch: 1 });
const contents = (): Arg => record({ model: model(), epoch: 1 });

/** Members of Tensor itself. */
export const KIT_STATICS: Readonly<Record<string, MakeCall>> = {
  getRngState: inTensor(),
  setRngState: inTensor(record({ seed: "7", counter: 3 })),
  noGrad: inTensor(fn(() => 1)),
  inferenceMode: inTensor(fn(() => 1)),
  enableGrad: inTensor(fn(() => 1)),
  isGradEnabled: inTensor(),
};

const weight = (): Arg => tensor(Tensor.zeros([2, 3]));
const kaiming = (): Arg =>
  opts({ a: num(0.1), mode: choice("fanIn", "fanOut"), nonlinearity: choice("relu", "linear", "tanh") });

/** Functions. */
export const KIT_FUNCTIONS: Readonly<Record<string, MakeCall>> = {
  autocast: free(
    opts({ dtype: dtype("float16"), device: device("JS"), enabled: bool(true) }),
    fn(() => f32(2, 2).matmul(f32(2, 2))),
  ),
  "nn.data.collate": free(list([[1, [2, 3]], [4, [5, 6]]])),
  "nn.data.randomSplit": free(dataset(items), list([2, 1]), opts(seed)),
  "nn.utils.clipGradNorm": made(() => [tensors(trained()), num(1), norm()]),
  "nn.utils.clipGradValue": made(() => [tensors(trained()), num(1)]),
  "nn.utils.clipGradsWithNorm": made(() => [tensors(trained()), num(1), tensor(new Tensor(2))]),
  "nn.utils.getTotalNorm": made(() => [tensors([f32(2), f32(3)]), norm()]),
  "nn.utils.padSequence": made(() => [
    tensors([f32(2), f32(3)]),
    opts({ batchFirst: bool(true), paddingValue: value(0) }),
  ]),
  "nn.utils.unpadSequence": made(() => [tensor(f32(2, 3)), ints([2, 3]), opts({ batchFirst: bool(true) })]),
  "nn.utils.weightNorm": made(() => [record(new nn.Linear(2, 3)), maybe(text("weight")), maybe(int(0))]),
  "nn.utils.spectralNorm": made(() => [
    record(new nn.Linear(2, 3)),
    maybe(text("weight")),
    opts({ dim: int(0), nPowerIterations: int(2), eps: num(1e-9) }),
  ]),
  "nn.utils.removeSpectralNorm": made(() => [
    record(nn.utils.spectralNorm(new nn.Linear(2, 3))),
    maybe(text("weight")),
  ]),
  "nn.init.calculateGain": free(choice("linear", "tanh", "relu", "leakyRelu"), maybe(num(0.1))),
  "nn.init.uniform": made(() => [weight(), opts({ a: num(-1), b: num(1) })]),
  "nn.init.normal": made(() => [weight(), opts({ mean: num(1), std: num(2) })]),
  "nn.init.truncNormal": made(() => [weight(), opts({ mean: num(0), std: num(1), a: num(-1), b: num(1) })]),
  "nn.init.constant": made(() => [weight(), value(0.5)]),
  "nn.init.ones": made(() => [weight()]),
  "nn.init.zeros": made(() => [weight()]),
  "nn.init.eye": made(() => [weight()]),
  "nn.init.xavierUniform": made(() => [weight(), maybe(num(2))]),
  "nn.init.xavierNormal": made(() => [weight(), maybe(num(2))]),
  "nn.init.kaimingUniform": made(() => [weight(), kaiming()]),
  "nn.init.kaimingNormal": made(() => [weight(), kaiming()]),
  "nn.init.orthogonal": made(() => [weight(), maybe(num(2))]),
  "nn.init.dirac": made(() => [tensor(Tensor.zeros([2, 2, 3])), maybe(int(2))]),
  "nn.utils.removeWeightNorm": made(() => [record(nn.utils.weightNorm(new nn.Linear(2, 3))), maybe(text("weight"))]),
  "nn.utils.parametersToVector": made(() => [tensors([f32(2), f32(3)])]),
  "nn.utils.vectorToParameters": made(() => [tensor(f32(2)), tensors([f32(2).contiguous().realize()])]),
  "state.checkpointBytes": made(() => [contents()]),
  "state.saveCheckpoint": made(() => [path("/dev/null/no-1.safetensors"), contents(), opts({ keep: int(2) })]),
  "state.loadCheckpoint": made(() => [
    either(saved, bytes(saved), path("")),
    maybe(record({ model: model() })),
    opts({ strict: bool(true), rng: bool(false) }),
  ]),
  "state.latestCheckpoint": free(either("/dev/null/no", path(""))),
};

const threshold = { threshold: num(0.5), ignoreIndex: int(-1) };
const scoring = free(
  opts({ numClasses: int(3), average: choice("macro", "micro", "weighted", "none"), ...threshold }),
);
const ids = (): Arg[] => [
  iterable([0, 1, 2]),
  int(2),
  opts({ dropLast: bool(true) }),
];

/** Classes, as constructors. */
export const KIT_CLASSES: Readonly<Record<string, MakeCall>> = {
  "nn.AveragedModel": made(() => [any(model())]),
  "nn.EMA": made(() => [any(model()), opts({ decay: num(0.5), warmup: bool(true) })]),
  "nn.data.BatchSampler": free(...ids()),
  "nn.data.ConcatDataset": free(list([items, items])),
  "nn.data.DataLoader": free(
    dataset(items),
    opts({
      batchSize: int(2),
      shuffle: bool(true),
      seed: int(1),
      dropLast: bool(true),
      collate: fn(() => 1),
      numWorkers: int(0),
      workerModule: path(new URL(import.meta.url)),
      prefetchFactor: int(1),
      timeout: num(0),
    }),
  ),
  "nn.data.DistributedSampler": free(
    either(6, int(6), dataset(items)),
    int(2),
    int(1),
    opts({ shuffle: bool(true), seed: int(1), dropLast: bool(true) }),
  ),
  "nn.data.RandomSampler": free(
    either(3, int(3), dataset(items)),
    opts({ replacement: bool(true), numSamples: int(2), seed: int(1) }),
  ),
  "nn.data.SequentialSampler": free(either(3, int(3), dataset(items))),
  "nn.data.Subset": free(dataset(items), indices([2, 0])),
  "nn.data.SubsetRandomSampler": free(indices([2, 0]), opts(seed)),
  "nn.data.TensorDataset": made(() => [variadic(tensors([f32(2, 3)]))]),
  "nn.data.WeightedRandomSampler": free(
    either([1, 2], list([]), indices([])),
    maybe(int(1)),
    opts({ replacement: bool(false), seed: int(1) }),
  ),
  "nn.metrics.AUROC": free(),
  "nn.metrics.Accuracy": free(opts({ topk: int(1), ...threshold })),
  "nn.metrics.ConfusionMatrix": free(int(3), opts(threshold)),
  "nn.metrics.F1": scoring,
  "nn.metrics.MAE": free(),
  "nn.metrics.MSE": free(opts({ squared: bool(false) })),
  "nn.metrics.Mean": free(),
  "nn.metrics.Perplexity": free(opts({ ignoreIndex: int(1) })),
  "nn.metrics.Precision": scoring,
  "nn.metrics.R2": free(),
  "nn.metrics.Recall": scoring,
  "nn.metrics.TopKAccuracy": free(int(2), opts(threshold)),
};

type Batch = (self: { update(a: Tensor, b: Tensor): object }) => object;
const scores = (): Tensor => new Tensor([[0.1, 0.7, 0.2], [0.6, 0.3, 0.1], [0.2, 0.2, 0.6]]);
const labels = (): Tensor => new Tensor([1, 0, 2]);
/** A metric beside which a batch is put: scores and labels, or `two` of one shape. */
function metric(make: () => Parameters<Batch>[0], two?: () => [Tensor, Tensor]): Readonly<Record<string, MakeCall>> {
  const batch = two ?? ((): [Tensor, Tensor] => [scores(), labels()]);
  return {
    update: () => ({ self: make(), args: batch().map((t) => tensor(t)) }),
    compute: () => ({ self: make().update(...batch()), args: [] }),
  };
}
const pair = (): [Tensor, Tensor] => [f32(2, 3), Tensor.zeros([2, 3])];
const mean = of(() => new nn.metrics.Mean().update(2));
const tensorData = (): object => new nn.data.TensorDataset(f32(4, 3), f32(4));
const averaged = (): nn.AveragedModel => new nn.AveragedModel(model());

/** Methods of classes; of a class that is not listed those of the class it extends serve. */
export const KIT_MEMBERS: Readonly<Record<string, Readonly<Record<string, MakeCall>>>> = {
  AveragedModel: {
    update: of(averaged),
    apply: of(averaged),
    restore: of(averaged),
    use: of(averaged, fn(() => 1)),
    copyTo: () => ({ self: averaged(), args: [any(model())] }),
  },
  BatchSampler: { order: of(() => new nn.data.BatchSampler([0, 1, 2], 2), order) },
  ConcatDataset: { get: of(() => new nn.data.ConcatDataset([items, items]), int(4)) },
  DistributedSampler: {
    order: of(() => new nn.data.DistributedSampler(6, 2, 1)),
    setEpoch: of(() => new nn.data.DistributedSampler(6, 2, 1), int(1)),
  },
  RandomSampler: { order: of(() => new nn.data.RandomSampler(3), order) },
  SequentialSampler: { order: of(() => new nn.data.SequentialSampler(3)) },
  Subset: { get: of(() => new nn.data.Subset(items, [2, 0]), int(1)) },
  SubsetRandomSampler: { order: of(() => new nn.data.SubsetRandomSampler([2, 0]), order) },
  TensorDataset: { get: of(tensorData, int(1)), batch: of(tensorData, indices([1, 2])) },
  WeightedRandomSampler: { order: of(() => new nn.data.WeightedRandomSampler([1, 2]), order) },
  Metric: { reset: mean },
  Mean: {
    update: of(() => new nn.metrics.Mean(), either(1, value(1), tensor(f32(1))), maybe(num(2))),
    compute: mean,
  },
  Accuracy: metric(() => new nn.metrics.Accuracy()),
  TopKAccuracy: metric(() => new nn.metrics.TopKAccuracy(2)),
  ConfusionMatrix: metric(() => new nn.metrics.ConfusionMatrix(3)),
  Score: { ...metric(() => new nn.metrics.F1({ numClasses: 3 })), reset: of(() => new nn.metrics.F1()) },
  AUROC: { ...metric(() => new nn.metrics.AUROC()), reset: of(() => new nn.metrics.AUROC()) },
  Perplexity: metric(() => new nn.metrics.Perplexity()),
  MSE: metric(() => new nn.metrics.MSE(), pair),
  MAE: metric(() => new nn.metrics.MAE(), pair),
  R2: { ...metric(() => new nn.metrics.R2(), pair), reset: of(() => new nn.metrics.R2()) },
};
