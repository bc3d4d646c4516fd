/**
 * The namespace `nn.optim`: optimizers, what is done to gradients before a step, learning-rate schedules.
 *
 * @module
 */
export { Adafactor, type AdafactorOptions } from "./optim/adafactor.ts";
export {
  Adadelta,
  type AdadeltaOptions,
  Adagrad,
  type AdagradOptions,
  RMSprop,
  type RMSpropOptions,
  Rprop,
  type RpropOptions,
} from "./optim/adaptive.ts";
export { Adam, type AdamOptions, AdamW, LAMB } from "./optim/adam.ts";
export { Adamax, NAdam, type NAdamOptions, RAdam, type RAdamOptions } from "./optim/adam_variants.ts";
export { ASGD, type ASGDOptions } from "./optim/asgd.ts";
export {
  CosineAnnealingWarmRestarts,
  type CosineRestartOptions,
  CyclicLR,
  type CyclicLROptions,
} from "./optim/cycles.ts";
export {
  type FusedOptions,
  Optimizer,
  OptimizerGroup,
  type OptimizerOptions,
  type Slot,
  type StepOptions,
} from "./optim/optimizer.ts";
export { LBFGS, type LBFGSOptions } from "./optim/lbfgs.ts";
export { clipGradNorm, clipGradValue, GradScaler, type GradScalerOptions } from "./optim/scaling.ts";
export {
  ChainedScheduler,
  ConstantLR,
  CosineAnnealingLR,
  type CosineAnnealingOptions,
  ExponentialLR,
  LambdaLR,
  LinearLR,
  type LinearLROptions,
  LRScheduler,
  LRSchedulerGroup,
  MultiplicativeLR,
  MultiStepLR,
  OneCycleLR,
  type OneCycleOptions,
  type PlateauOptions,
  type PolynomialDecayOptions,
  PolynomialDecayWithWarmup,
  PolynomialLR,
  ReduceLROnPlateau,
  type Scheduled,
  SequentialLR,
  type SequentialLROptions,
  StepLR,
  StepSchedule,
} from "./optim/schedulers.ts";
export { LARS, type LARSOptions, Muon, type MuonOptions, SGD, type SGDOptions } from "./optim/sgd.ts";
