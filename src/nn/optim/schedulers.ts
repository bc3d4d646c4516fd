/**
 * Learning-rate schedules. Each sets the learning rate of its optimizer, a tensor, when it is made and at each `step()`:
 * nothing is compiled anew, and captured steps follow. Call `step()` outside of functions under jit. What a schedule
 * counts is in its state dictionary, by the names of its fields: loaded with its optimizer's, it goes on where it was.
 *
 * @module
 */
import { currentCapture } from "../../engine/front/listening.ts";
import { ArgumentError, JitError } from "../../helpers/errors.ts";
import {
  checkChoice,
  checkFunction,
  checkInteger,
  checkNumber,
  checkOptions,
  checkValue,
  describe,
} from "../../helpers/options.ts";
import { hasState } from "../../helpers/stateful.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import { KeptNumbers } from "./kept.ts";
import { checkOptimizer, checkRange, groupOf, type Optimizer, OptimizerGroup } from "./optimizer.ts";

/** What a schedule drives. */
export type Scheduled = Optimizer | OptimizerGroup;

/** A schedule: learning rates by the number of steps so far. */
export abstract class LRScheduler {
  static {
    hasState(this.prototype, (s) => ({ ...s, ...s.kept() }));
  }

  readonly #optimizers: readonly Optimizer[];
  readonly #epoch: KeptNumbers;
  readonly #base: KeptNumbers;
  readonly #last: KeptNumbers;
  /** What this object has set: after loading, other than the last learning rates. */
  #set: readonly number[];

  /** Takes the learning rates that the optimizers have now as those of the start, unless these are given. */
  constructor(optimizer: Scheduled, base?: readonly number[]) {
    checkOptimizer(`make ${this.constructor.name}`, optimizer);
    this.#optimizers = optimizer instanceof OptimizerGroup ? optimizer.optimizers : [optimizer];
    this.#set = this.#optimizers.map((o) => o.getLr());
    this.#epoch = new KeptNumbers([0], []);
    this.#base = new KeptNumbers(base ?? this.#set);
    this.#last = new KeptNumbers(this.#set);
  }
  /** What is driven. */
  protected get optimizers(): readonly Optimizer[] {
    return this.#optimizers;
  }
  /** Steps so far. */
  get lastEpoch(): number {
    return this.#epoch.values[0];
  }
  set lastEpoch(steps: number) {
    this.#epoch.values = [checkInteger(`set lastEpoch of ${this.constructor.name}`, "lastEpoch", steps, 0)];
  }
  /** The learning rates at the start, by optimizer. */
  get baseLrs(): readonly number[] {
    return this.#base.values;
  }
  /** The learning rates now, by optimizer. */
  get lastLr(): readonly number[] {
    return this.#last.values;
  }
  /** What a state dictionary holds, by name. */
  protected kept(): Record<string, Tensor> {
    return { lastEpoch: this.#epoch.tensor, baseLrs: this.#base.tensor, lastLr: this.#last.tensor };
  }
  /** Throws inside a function under jit(), which would keep one step's numbers. @throws {JitError} */
  protected checkOutside(): void {
    if (currentCapture() === undefined) return;
    throw new JitError(`step ${this.constructor.name}`, {
      reason: "a function under jit() would keep this step's learning rate; step it outside, between calls",
    });
  }
  /** Sets the learning rates, where they change. */
  protected setLrs(rates: readonly number[]): void {
    const last = this.lastLr;
    rates.forEach((lr, i) => (lr !== last[i] || lr !== this.#set[i]) && this.#optimizers[i].setLr(lr));
    this.#set = [...rates];
    if (rates.some((lr, i) => lr !== last[i])) this.#last.values = rates;
  }
}

/** The learning rate of a schedule after `epoch` steps. */
let rateOf: (s: StepSchedule, epoch: number, base: number) => number;

/** What a schedule's learning rate does not fall below. */
let floorOf: (s: StepSchedule) => number;

/** A schedule that is a function of the number of steps. */
export abstract class StepSchedule extends LRScheduler {
  static {
    rateOf = (s, epoch, base) => s.at(epoch, base);
    floorOf = (s) => s.floor;
  }
  /** The learning rate after `epoch` steps, of `base` at the start. */
  protected abstract at(epoch: number, base: number): number;
  /** What the learning rate ends at, whatever it was at the start. */
  protected get floor(): number {
    return 0;
  }
  /** Sets what belongs to the start. Subclasses call it once their fields are there. */
  protected start(): void {
    this.setLrs(this.baseLrs.map((base) => this.at(0, base)));
  }
  /** Goes one step on. @throws {JitError} inside a function under jit() */
  step(): void {
    this.checkOutside();
    const epoch = this.lastEpoch + 1;
    this.setLrs(this.baseLrs.map((base) => this.at(epoch, base)));
    this.lastEpoch = epoch;
  }
}

/** The learning rate times a function of the number of steps. */
export class LambdaLR extends StepSchedule {
  private readonly fn: (epoch: number) => number;
  /** Takes the function, alone or as the option `lrLambda`, and sets the learning rate of step 0. */
  constructor(
    optimizer: Scheduled,
    fn: ((epoch: number) => number) | { readonly lrLambda: (epoch: number) => number },
  ) {
    super(optimizer);
    const action = `make ${this.constructor.name}`, isAlone = typeof fn === "function";
    const given = isAlone ? fn : checkOptions(action, fn, ["lrLambda"]).lrLambda;
    this.fn = checkFunction(action, isAlone ? "fn" : "lrLambda", given);
    this.start();
  }
  protected override at(epoch: number, base: number): number {
    return base * checkNumber("compute a learning rate", "what the function gives", this.fn(epoch));
  }
}

/** The learning rate times what a function gave for each step so far, from step 1 on. */
export class MultiplicativeLR extends LambdaLR {
  /** Takes the function, alone or as the option `lrLambda`. */
  constructor(
    optimizer: Scheduled,
    fn: ((epoch: number) => number) | { readonly lrLambda: (epoch: number) => number },
  ) {
    const of = typeof fn === "function" ? fn : checkOptions("make MultiplicativeLR", fn, ["lrLambda"]).lrLambda;
    checkFunction("make MultiplicativeLR", "fn", of);
    const products = [1];
    super(optimizer, (epoch) => {
      for (let k = products.length; k <= epoch; k++) products.push(products[k - 1] * of(k));
      return products[epoch];
    });
  }
}

/** Times `gamma` (0.1) every `stepSize` steps. */
export class StepLR extends LambdaLR {
  /** @throws {ArgumentError} for a stepSize that is no positive integer */
  constructor(optimizer: Scheduled, options: { readonly stepSize: number; readonly gamma?: number }) {
    const { stepSize, gamma = 0.1 } = checkOptions("make StepLR", options, ["stepSize", "gamma"]);
    checkInteger("make StepLR", "stepSize", stepSize, 1);
    super(optimizer, (epoch) => gamma ** Math.floor(epoch / stepSize));
  }
}

/** Times `gamma` (0.1) at each of the steps `milestones`. */
export class MultiStepLR extends LambdaLR {
  /** @throws {ArgumentError} for milestones that are no list of integers */
  constructor(optimizer: Scheduled, options: { readonly milestones: readonly number[]; readonly gamma?: number }) {
    const { milestones, gamma = 0.1 } = checkOptions("make MultiStepLR", options, ["milestones", "gamma"]);
    if (!Array.isArray(milestones)) {
      throw new ArgumentError("make MultiStepLR", { reason: `milestones must be a list, not ${describe(milestones)}` });
    }
    for (const m of milestones) checkInteger("make MultiStepLR", "milestones", m, 0);
    super(optimizer, (epoch) => gamma ** milestones.filter((m: number) => m <= epoch).length);
  }
}

/** Times `gamma` at every step. */
export class ExponentialLR extends LambdaLR {
  /** @throws {ArgumentError} for an unknown option */
  constructor(optimizer: Scheduled, options: { readonly gamma: number }) {
    const { gamma } = checkOptions("make ExponentialLR", options, ["gamma"]);
    checkRange("ExponentialLR", "gamma", gamma, 0, Infinity);
    super(optimizer, (epoch) => gamma ** epoch);
  }
}

/** Options of {@linkcode LinearLR}. */
export interface LinearLROptions {
  /** Factor at the start; 1/3 unless given. */
  readonly startFactor?: number;
  /** Factor at the end; 1 unless given. */
  readonly endFactor?: number;
  /** Steps from one to the other; 5 unless given. */
  readonly totalIters?: number;
}

/** From `startFactor` to `endFactor` times the learning rate, in a line: a warmup, or a decay. */
export class LinearLR extends LambdaLR {
  /** @throws {ArgumentError} for a bad option */
  constructor(optimizer: Scheduled, options: LinearLROptions = {}) {
    const { startFactor = 1 / 3, endFactor = 1, totalIters = 5 } = checkOptions("make LinearLR", options, [
      "startFactor",
      "endFactor",
      "totalIters",
    ]);
    checkInteger("make LinearLR", "totalIters", totalIters, 1);
    super(optimizer, (epoch) => startFactor + (endFactor - startFactor) * Math.min(1, epoch / totalIters));
  }
}

/** Times `factor` (1/3) for the first `totalIters` (5) steps. */
export class ConstantLR extends LambdaLR {
  /** @throws {ArgumentError} for a bad option */
  constructor(optimizer: Scheduled, options: { readonly factor?: number; readonly totalIters?: number } = {}) {
    const { factor = 1 / 3, totalIters = 5 } = checkOptions("make ConstantLR", options, ["factor", "totalIters"]);
    checkInteger("make ConstantLR", "totalIters", totalIters, 0);
    checkRange("ConstantLR", "factor", factor, 0, 1);
    super(optimizer, (epoch) => epoch < totalIters ? factor : 1);
  }
}

/** Down to 0 in `totalIters` (5) steps, as the `power` (1) of what is left. */
export class PolynomialLR extends LambdaLR {
  /** @throws {ArgumentError} for a bad option */
  constructor(optimizer: Scheduled, options: { readonly totalIters?: number; readonly power?: number } = {}) {
    const { totalIters = 5, power = 1 } = checkOptions("make PolynomialLR", options, ["totalIters", "power"]);
    checkInteger("make PolynomialLR", "totalIters", totalIters, 1);
    super(optimizer, (epoch) => (1 - Math.min(1, epoch / totalIters)) ** power);
  }
}

/** Options of {@linkcode CosineAnnealingLR}. */
export interface CosineAnnealingOptions {
  /** Steps from the learning rate down to `etaMin`. */
  readonly tMax: number;
  /** The lowest learning rate; 0 unless given. */
  readonly etaMin?: number;
  /** Steps before that in which the learning rate rises in a line from 0; 0 unless given. */
  readonly warmupSteps?: number;
}

/** Half a cosine from the learning rate to `etaMin` (Loshchilov and Hutter, arXiv 1608.03983), and back. */
export class CosineAnnealingLR extends StepSchedule {
  private readonly options: Required<CosineAnnealingOptions>;
  /** @throws {ArgumentError} for a bad option */
  constructor(optimizer: Scheduled, options: CosineAnnealingOptions) {
    super(optimizer);
    const known = ["tMax", "etaMin", "warmupSteps"];
    const { tMax, etaMin = 0, warmupSteps = 0 } = checkOptions("make CosineAnnealingLR", options, known);
    checkInteger("make CosineAnnealingLR", "tMax", tMax, 1);
    checkInteger("make CosineAnnealingLR", "warmupSteps", warmupSteps, 0);
    this.options = { tMax, etaMin, warmupSteps };
    this.start();
  }
  protected override get floor(): number {
    return this.options.etaMin;
  }
  protected override at(epoch: number, base: number): number {
    const { tMax, etaMin, warmupSteps } = this.options;
    if (epoch < warmupSteps) return base * (epoch + 1) / (warmupSteps + 1);
    return etaMin + (base - etaMin) * (1 + Math.cos(Math.PI * (epoch - warmupSteps) / tMax)) / 2;
  }
}

/** Options of {@linkcode PolynomialDecayWithWarmup}. */
export interface PolynomialDecayOptions {
  /** Steps in all. */
  readonly totalSteps: number;
  /** The first of them, in which the learning rate rises in a line from 0. */
  readonly warmupSteps: number;
  /** The learning rate at the end; 0 unless given. */
  readonly endLr?: number;
  /** Power of what is left; 2 unless given. */
  readonly power?: number;
}

/** A warmup in a line, then a polynomial down to `endLr`: the schedule of LARS and LAMB in MLPerf. */
export class PolynomialDecayWithWarmup extends StepSchedule {
  private readonly options: Required<PolynomialDecayOptions>;
  /** @throws {ArgumentError} for a bad option */
  constructor(optimizer: Scheduled, options: PolynomialDecayOptions) {
    const what = "make PolynomialDecayWithWarmup";
    const known = ["totalSteps", "warmupSteps", "endLr", "power"];
    super(optimizer);
    const { totalSteps, warmupSteps, endLr = 0, power = 2 } = checkOptions(what, options, known);
    checkInteger(what, "warmupSteps", warmupSteps, 0);
    checkInteger(what, "totalSteps", totalSteps, warmupSteps + 1);
    this.options = { totalSteps, warmupSteps, endLr, power };
    this.start();
  }
  protected override at(epoch: number, base: number): number {
    const { totalSteps, warmupSteps, endLr, power } = this.options;
    if (epoch < warmupSteps) return base * (epoch + 1) / (warmupSteps + 1);
    const left = Math.max(0, 1 - (epoch - warmupSteps) / (totalSteps - warmupSteps));
    return endLr + (base - endLr) * left ** power;
  }
}

/** Options of {@linkcode OneCycleLR}. */
export interface OneCycleOptions {
  /** The highest learning rate, whatever the optimizer had. */
  readonly maxLr: number;
  /** Steps in all. */
  readonly totalSteps: number;
  /** Share of the steps that rise; 0.3 unless given. */
  readonly pctStart?: number;
  /** "cos" unless given, or "linear". */
  readonly annealStrategy?: "cos" | "linear";
  /** The first learning rate is the highest divided by this; 25 unless given. */
  readonly divFactor?: number;
  /** The last learning rate is the first divided by this; 10000 unless given. */
  readonly finalDivFactor?: number;
}

/** Up to `maxLr` and down again, in one cycle (Smith and Topin, arXiv 1708.07120). Momentum stays as it is. */
export class OneCycleLR extends StepSchedule {
  private readonly options: Required<OneCycleOptions>;
  /** @throws {ArgumentError} for a bad option */
  constructor(optimizer: Scheduled, options: OneCycleOptions) {
    const what = "make OneCycleLR";
    const known = ["maxLr", "totalSteps", "pctStart", "annealStrategy", "divFactor", "finalDivFactor"];
    const given = checkOptions(what, options, known);
    super(optimizer);
    const { maxLr, totalSteps, pctStart = 0.3, annealStrategy = "cos", divFactor = 25, finalDivFactor = 1e4 } = given;
    checkInteger(what, "totalSteps", totalSteps, 1);
    checkRange("OneCycleLR", "maxLr", maxLr, 0, Infinity);
    checkRange("OneCycleLR", "pctStart", pctStart, 0, 1);
    checkChoice(what, "annealStrategy", annealStrategy, ["cos", "linear"]);
    this.options = { maxLr, totalSteps, pctStart, annealStrategy, divFactor, finalDivFactor };
    this.start();
  }
  /** @throws {RangeError} beyond `totalSteps` */
  override step(): void {
    const { totalSteps } = this.options;
    if (this.lastEpoch + 1 > totalSteps) {
      throw new ArgumentError("step OneCycleLR", { reason: `its ${totalSteps} steps are over` });
    }
    super.step();
  }
  protected override at(epoch: number): number {
    const { maxLr, totalSteps, pctStart, annealStrategy, divFactor, finalDivFactor } = this.options;
    const first = maxLr / divFactor, last = first / finalDivFactor, top = pctStart * totalSteps - 1;
    const [from, to, part] = epoch <= top
      ? [first, maxLr, epoch / top]
      : [maxLr, last, (epoch - top) / (totalSteps - 1 - top)];
    if (annealStrategy === "linear") return from + (to - from) * part;
    return to + (from - to) * (1 + Math.cos(Math.PI * part)) / 2;
  }
}

/** Options of {@linkcode ReduceLROnPlateau}. */
export interface PlateauOptions {
  /** Whether the metric should fall or rise; "min" unless given. */
  readonly mode?: "min" | "max";
  /** What the learning rate is multiplied by; 0.1 unless given. */
  readonly factor?: number;
  /** Steps without progress that are borne; 10 unless given. */
  readonly patience?: number;
  /** What counts as progress; 0.0001 unless given. */
  readonly threshold?: number;
  /** Whether the threshold is a share of the best, or a difference; "rel" unless given. */
  readonly thresholdMode?: "rel" | "abs";
  /** Steps after a reduction in which nothing is counted; 0 unless given. */
  readonly cooldown?: number;
  /** The lowest learning rate; 0 unless given. */
  readonly minLr?: number;
  /** Smaller reductions are left out; 1e-8 unless given. */
  readonly eps?: number;
}

/** Reduces the learning rate when a metric has stopped to improve. */
export class ReduceLROnPlateau extends LRScheduler {
  private readonly options: Required<PlateauOptions>;
  readonly #best: KeptNumbers;
  readonly #bad: KeptNumbers = new KeptNumbers([0], []);
  readonly #resting: KeptNumbers = new KeptNumbers([0], []);

  /** @throws {ArgumentError} for a bad option */
  constructor(optimizer: Scheduled, options: PlateauOptions = {}) {
    const what = "make ReduceLROnPlateau";
    checkOptions(what, options, "mode factor patience threshold thresholdMode cooldown minLr eps".split(" "));
    super(optimizer);
    const { mode = "min", factor = 0.1, patience = 10, threshold = 1e-4, thresholdMode = "rel" } = options;
    const { cooldown = 0, minLr = 0, eps = 1e-8 } = options;
    checkChoice(what, "mode", mode, ["min", "max"]);
    checkChoice(what, "thresholdMode", thresholdMode, ["rel", "abs"]);
    if (!(factor >= 0 && factor < 1)) throw new ArgumentError(what, { reason: `factor is ${factor}, not in [0, 1)` });
    checkInteger(what, "patience", patience, 0);
    checkInteger(what, "cooldown", cooldown, 0);
    this.options = { mode, factor, patience, threshold, thresholdMode, cooldown, minLr, eps };
    this.#best = new KeptNumbers([mode === "min" ? Infinity : -Infinity], []);
  }

  /** The best metric, and the steps since it, and those to rest, with what every schedule keeps. */
  protected override kept(): Record<string, Tensor> {
    return { ...super.kept(), best: this.#best.tensor, bad: this.#bad.tensor, resting: this.#resting.tensor };
  }

  private isBetter(x: number): boolean {
    const { mode, threshold, thresholdMode } = this.options, sign = mode === "min" ? -1 : 1;
    const [best] = this.#best.values;
    const goal = thresholdMode === "rel" ? best * (1 + sign * threshold) : best + sign * threshold;
    return mode === "min" ? x < goal : x > goal;
  }

  /** Counts a step with this metric. @throws {JitError} inside a function under jit() */
  step(metric: number): void {
    checkValue("step ReduceLROnPlateau", "metric", metric);
    this.checkOutside();
    const { factor, patience, cooldown, minLr, eps } = this.options;
    const better = this.isBetter(metric), [resting] = this.#resting.values;
    const bad = better || resting > 0 ? 0 : this.#bad.values[0] + 1, isOver = bad > patience;
    if (isOver) {
      this.setLrs(this.lastLr.map((lr) => {
        const next = Math.max(lr * factor, minLr);
        return lr - next > eps ? next : lr;
      }));
    }
    this.lastEpoch++;
    if (better) this.#best.values = [metric];
    this.#bad.values = [isOver ? 0 : bad];
    this.#resting.values = [isOver ? cooldown : Math.max(0, resting - 1)];
  }
}

/** A list of schedules that are functions of steps. @throws {ArgumentError} */
function checkSchedules(action: string, schedulers: unknown): readonly StepSchedule[] {
  if (!Array.isArray(schedulers) || schedulers.length === 0) {
    throw new ArgumentError(action, { reason: `schedulers must be a list of some, not ${describe(schedulers)}` });
  }
  for (const s of schedulers) {
    if (s instanceof StepSchedule) continue;
    throw new ArgumentError(action, {
      reason: `it takes schedulers that are functions of steps, not ${describe(s)}`,
    });
  }
  return [...schedulers];
}

/**
 * Schedules at once: each is given the learning rate that the one before it has at this step, so that their factors are
 * multiplied. Where one has a floor (`etaMin`), all go on from the learning rate that there is, as in PyTorch: its distance
 * from the floor changes by the factor of this step. The first is to be made first. One that does not read the learning
 * rate, as {@linkcode OneCycleLR}, stands first. Step this alone.
 */
export class ChainedScheduler extends StepSchedule {
  readonly #schedulers: readonly StepSchedule[];
  readonly #rates = new Map<number, number[]>();
  /** @throws {ArgumentError} for other schedules than functions of steps */
  constructor(optimizer: Scheduled, options: { readonly schedulers: readonly StepSchedule[] }) {
    const action = "make ChainedScheduler";
    const schedulers = checkSchedules(action, checkOptions(action, options, ["schedulers"]).schedulers);
    super(optimizer, schedulers[0].baseLrs);
    this.#schedulers = schedulers;
    this.start();
  }
  protected override at(epoch: number, base: number): number {
    const all = this.#schedulers, rates = this.#rates.get(base) ?? [];
    if (epoch === 0 || all.every((s) => floorOf(s) === 0)) return all.reduce((lr, s) => rateOf(s, epoch, lr), base);
    this.#rates.set(base, rates);
    for (let e = rates.length; e < epoch; e++) {
      rates.push(all.reduce((lr, s) => {
        const floor = floorOf(s), [was, is] = [e, e + 1].map((at) => rateOf(s, at, base) - floor);
        return Math.abs(was) > 1e-9 * Math.abs(base - floor) ? floor + (lr - floor) * is / was : lr + is;
      }, e === 0 ? this.at(0, base) : rates[e - 1]));
    }
    return rates[epoch - 1];
  }
}

/** Options of {@linkcode SequentialLR}. */
export interface SequentialLROptions {
  /** Schedules of the same optimizer, in order. */
  readonly schedulers: readonly StepSchedule[];
  /** The steps at which the second and all later ones begin. */
  readonly milestones: readonly number[];
}

/**
 * Schedules one after the other, each of which begins at its milestone as if it was new. All of them start from the
 * learning rates that the first did, which is to be made first. Step this alone.
 */
export class SequentialLR extends StepSchedule {
  readonly #schedulers: readonly StepSchedule[];
  readonly #starts: readonly number[];
  /** @throws {ArgumentError} for other schedules than functions of steps, or milestones that do not rise between them */
  constructor(optimizer: Scheduled, options: SequentialLROptions) {
    const action = "make SequentialLR";
    const { schedulers: given, milestones } = checkOptions(action, options, ["schedulers", "milestones"]);
    const schedulers = checkSchedules(action, given);
    if (!Array.isArray(milestones) || milestones.length !== schedulers.length - 1) {
      throw new ArgumentError(action, { reason: `${schedulers.length} schedulers have one milestone less` });
    }
    const starts = [0, ...Array.from(milestones, (m: unknown) => checkInteger(action, "milestones", m, 0))];
    if (starts.some((m, i) => i > 0 && m <= starts[i - 1])) {
      throw new ArgumentError(action, { reason: `milestones must rise from above 0, unlike ${milestones.join(", ")}` });
    }
    super(optimizer, schedulers[0].baseLrs);
    this.#schedulers = schedulers;
    this.#starts = starts;
    this.start();
  }
  protected override at(epoch: number, base: number): number {
    const i = this.#starts.findLastIndex((start) => start <= epoch);
    return rateOf(this.#schedulers[i], epoch - this.#starts[i], base);
  }
}

/** Several schedules stepped as one. */
export class LRSchedulerGroup {
  /** Its schedules. */
  readonly schedulers: readonly StepSchedule[];
  /** Takes the schedules to step together, or lists of them. @throws {ArgumentError} for what is none, and for none */
  constructor(...schedulers: readonly (StepSchedule | readonly StepSchedule[])[]) {
    this.schedulers = groupOf<StepSchedule>("make LRSchedulerGroup", "schedulers", StepSchedule, schedulers);
  }
  /** Steps all. */
  step(): void {
    for (const s of this.schedulers) s.step();
  }
}
