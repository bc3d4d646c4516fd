/**
 * A valid call of every public method of a class that is no tensor's, and of what functions of functions give.
 *
 * @module
 */
import * as dinograd from "../../../mod.ts";
import { nn, state, Tensor, Variable } from "../../../mod.ts";
import { KIT_MEMBERS } from "./argument_calls_kit.ts";
import {
  any,
  type Arg,
  bool,
  bytes,
  choice,
  fn,
  instance,
  int,
  list,
  maybe,
  num,
  opts,
  tensor,
  tensors,
  value,
} from "./argument_kinds.ts";
import { f32, type MakeCall, of, ofMade } from "./argument_makers.ts";
import { decoder, encoder, exp, masks, sgd, sum, trained, weights } from "./argument_objects.ts";

/** Calls of what a function of functions gives. */
const applied = (make: () => unknown, ...args: Arg[]): MakeCall => () => ({ self: { call: make() }, args });

const scaler = (): nn.optim.GradScaler => new nn.optim.GradScaler();
const norm = of(() => new nn.BatchNorm(2), tensor(f32(1, 2, 3)));
const io = (): object => new state.TensorIO(new Tensor(new Uint8Array([1, 2, 3])).realize());
const step = opts({ when: tensor(new Tensor(true)), also: tensors([f32(1)]) });
const optimizerMembers = (make: () => object): Readonly<Record<string, MakeCall>> => ({
  setLr: of(make, num(0.5)),
  getLr: of(make),
  zeroGrad: of(make),
  step: () => ({ self: make(), args: [step], training: true }),
  scheduleStep: () => ({ self: make(), args: [step], training: true }),
});
const group = (): object => new nn.optim.OptimizerGroup(sgd());
const plain = (): object => new nn.optim.StepLR(sgd(), { stepSize: 1 });
/** Of a layer that takes [2, 3], made anew: ones that were made before may be in memory by now, on another device. */
const onThree = (self: () => object, ...more: Arg[]): MakeCall => ofMade(self, () => [tensor(f32(2, 3)), ...more]);
const sequence = tensor(f32(2, 1, 4));

/** Public methods of classes, by class. Of a class that is not listed those of the class it extends serve. */
export const MEMBERS: Readonly<Record<string, Readonly<Record<string, MakeCall>>>> = {
  ...KIT_MEMBERS,
  Variable: { bind: of(() => new Variable("n", 1, 9), int(3)), toString: of(() => new Variable("n", 1, 9)) },
  BatchNorm: { call: norm, calcStats: norm },
  Conv2d: { call: of(() => new nn.Conv2d(2, 2, 2), tensor(f32(1, 2, 3, 3))) },
  Conv1d: { call: of(() => new nn.Conv1d(2, 2, 2), tensor(f32(1, 2, 3))) },
  Conv3d: { call: of(() => new nn.Conv3d(2, 2, 2), tensor(f32(1, 2, 3, 3, 3))) },
  ConvTranspose2d: { call: of(() => new nn.ConvTranspose2d(2, 2, 2), tensor(f32(1, 2, 3, 3))) },
  ConvTranspose1d: { call: of(() => new nn.ConvTranspose1d(2, 2, 2), tensor(f32(1, 2, 3))) },
  ConvTranspose3d: { call: of(() => new nn.ConvTranspose3d(2, 2, 2), tensor(f32(1, 2, 3, 3, 3))) },
  Dropout: { call: onThree(() => new nn.Dropout()) },
  Dropout2d: { call: onThree(() => new nn.Dropout2d()) },
  AlphaDropout: { call: onThree(() => new nn.AlphaDropout()) },
  Embedding: { call: of(() => new nn.Embedding(5, 3), tensor(Tensor.arange(1, 3))) },
  GRU: {
    call: of(() => new nn.GRU(3, 2), tensor(f32(2, 1, 3)), maybe(tensor(f32(1, 1, 2)))),
    weightsOf: of(() => new nn.GRU(3, 2), int(0), maybe(bool(false))),
  },
  RNN: {
    call: of(() => new nn.RNN(3, 2), tensor(f32(2, 1, 3)), maybe(tensor(f32(1, 1, 2)))),
    weightsOf: of(() => new nn.RNN(3, 2), int(0), maybe(bool(false))),
  },
  LSTM: {
    call: of(() => new nn.LSTM(3, 2), tensor(f32(2, 1, 3)), maybe(list([f32(1, 1, 2), f32(1, 1, 2)]))),
    weightsOf: of(() => new nn.LSTM(3, 2), int(0), maybe(bool(false))),
  },
  GRUCell: { call: onThree(() => new nn.GRUCell(3, 2), maybe(tensor(f32(2, 2)))) },
  RNNCell: { call: onThree(() => new nn.RNNCell(3, 2), maybe(tensor(f32(2, 2)))) },
  LSTMCell: { call: onThree(() => new nn.LSTMCell(3, 2), maybe(list([f32(2, 2), f32(2, 2)]))) },
  GroupNorm: { call: of(() => new nn.GroupNorm(1, 2), tensor(f32(1, 2, 3))) },
  InstanceNorm: { call: of(() => new nn.InstanceNorm(2), tensor(f32(1, 2, 3))) },
  InstanceNorm1d: { call: of(() => new nn.InstanceNorm1d(2), tensor(f32(1, 2, 3))) },
  InstanceNorm2d: { call: of(() => new nn.InstanceNorm2d(2), tensor(f32(1, 2, 3, 2))) },
  InstanceNorm3d: { call: of(() => new nn.InstanceNorm3d(2), tensor(f32(1, 2, 3, 1, 2))) },
  LayerNorm: { call: onThree(() => new nn.LayerNorm(3)) },
  LayerNorm2d: { call: of(() => new nn.LayerNorm2d(2), tensor(f32(1, 2, 3, 3))) },
  Linear: { call: onThree(() => new nn.Linear(3, 2)) },
  RMSNorm: { call: onThree(() => new nn.RMSNorm(3)) },
  MultiHeadAttention: {
    call: of(
      () => new nn.MultiHeadAttention(4, 2),
      sequence,
      maybe(sequence),
      maybe(sequence),
      opts({
        attnMask: tensor(f32(2, 2)),
        keyPaddingMask: tensor(Tensor.zeros([1, 2])),
        isCausal: bool(true),
        needWeights: bool(true),
        averageAttnWeights: bool(true),
      }),
    ),
  },
  Sequential: { call: onThree(() => new nn.Sequential([(x: Tensor) => x.mul(2)])) },
  Identity: { call: onThree(() => new nn.Identity()) },
  Flatten: { call: onThree(() => new nn.Flatten()) },
  PReLU: { call: onThree(() => new nn.PReLU()) },
  LBFGS: {
    zeroGrad: of(() => new nn.optim.LBFGS(trained())),
    step: () => {
      const w = new Tensor([1, 2], { requiresGrad: true }), self = new nn.optim.LBFGS([w], { maxIter: 1 });
      return { self, args: [fn(() => w.square().sum().backward())] };
    },
  },
  Bilinear: { call: ofMade(() => new nn.Bilinear(3, 3, 2), () => [tensor(f32(2, 3)), tensor(f32(2, 3))]) },
  Transformer: {
    call: of(
      () => new nn.Transformer(4, 2, { dimFeedforward: 4, numEncoderLayers: 1, numDecoderLayers: 1 }),
      sequence,
      sequence,
      opts({ src: masks(), tgt: masks(), memory: masks() }),
    ),
  },
  TransformerEncoder: { call: of(() => new nn.TransformerEncoder(encoder(), 2), sequence, maybe(masks())) },
  TransformerDecoder: {
    call: of(() => new nn.TransformerDecoder(decoder(), 2), sequence, sequence, maybe(masks()), maybe(masks())),
  },
  TransformerEncoderLayer: { call: of(encoder, sequence, maybe(masks())) },
  TransformerDecoderLayer: { call: of(decoder, sequence, sequence, maybe(masks()), maybe(masks())) },
  SGD: optimizerMembers(sgd),
  Adam: optimizerMembers(() => new nn.optim.Adam(trained())),
  AdamW: optimizerMembers(() => new nn.optim.AdamW(trained())),
  Adagrad: optimizerMembers(() => new nn.optim.Adagrad(trained())),
  ASGD: optimizerMembers(() => new nn.optim.ASGD(trained())),
  Adafactor: optimizerMembers(() => new nn.optim.Adafactor(trained())),
  Rprop: optimizerMembers(() => new nn.optim.Rprop(trained())),
  RMSprop: optimizerMembers(() => new nn.optim.RMSprop(trained())),
  Adadelta: optimizerMembers(() => new nn.optim.Adadelta(trained())),
  NAdam: optimizerMembers(() => new nn.optim.NAdam(trained())),
  RAdam: optimizerMembers(() => new nn.optim.RAdam(trained())),
  Adamax: optimizerMembers(() => new nn.optim.Adamax(trained())),
  LAMB: optimizerMembers(() => new nn.optim.LAMB(trained())),
  LARS: optimizerMembers(() => new nn.optim.LARS(trained())),
  Muon: optimizerMembers(() => new nn.optim.Muon(trained())),
  OptimizerGroup: {
    zeroGrad: of(group),
    step: () => ({ self: group(), args: [step], training: true }),
    scheduleStep: () => ({ self: group(), args: [step], training: true }),
  },
  LRSchedulerGroup: { step: of(() => new nn.optim.LRSchedulerGroup(plain() as nn.optim.StepLR)) },
  StepSchedule: { step: of(plain) },
  OneCycleLR: { step: of(() => new nn.optim.OneCycleLR(sgd(), { maxLr: 1, totalSteps: 3 })) },
  ReduceLROnPlateau: { step: of(() => new nn.optim.ReduceLROnPlateau(sgd()), value(0.5)) },
  GradScaler: {
    scale: of(scaler, tensor(f32(1))),
    backward: () => ({ self: scaler(), args: [tensor(weights()[0].sum())] }),
    unscale: () => ({ self: scaler(), args: [instance(sgd(), nn.optim.Optimizer, nn.optim.OptimizerGroup)] }),
    update: of(scaler),
    step: () => ({
      self: scaler(),
      args: [instance(sgd(), nn.optim.Optimizer, nn.optim.OptimizerGroup), opts({ also: tensors([f32(1)]) })],
      training: true,
    }),
  },
  TensorIO: {
    tell: of(io),
    seek: of(io, int(1), maybe(choice("start", "current", "end"))),
    read: of(io, maybe(num(2))),
    readinto: of(io, bytes(new Uint8Array(2))),
    write: of(io, bytes(new Uint8Array(2))),
  },
  // what functions of functions give
  grad: { call: applied(() => dinograd.grad(sum), any(f32(2, 3))) },
  valueAndGrad: { call: applied(() => dinograd.valueAndGrad(sum), any(f32(2, 3))) },
  jacobian: { call: applied(() => dinograd.jacobian(exp), any(f32(2, 3))) },
  hessian: { call: applied(() => dinograd.hessian(sum), any(f32(2, 3))) },
  vmap: { call: applied(() => dinograd.vmap(sum), any(f32(2, 3))) },
  checkpoint: { call: applied(() => dinograd.checkpoint(exp), any(f32(2, 3))) },
  jit: { call: applied(() => dinograd.jit(exp), any(f32(2, 3))) },
};
