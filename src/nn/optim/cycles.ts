/**
 * Learning-rate schedules that come again: half cosines that begin anew, and rises and falls by turns.
 *
 * @module
 */
import { checkChoice, checkFunction, checkInteger, checkNumber, checkOptions } from "../../helpers/options.ts";
import { checkRange } from "./optimizer.ts";
import { type Scheduled, StepSchedule } from "./schedulers.ts";

/** Options of {@linkcode CosineAnnealingWarmRestarts}. */
export interface CosineRestartOptions {
  /** Steps of the first run down. */
  readonly t0: number;
  /** What each run is longer than the last by, an integer; 1 unless given. */
  readonly tMult?: number;
  /** The lowest learning rate; 0 unless given. */
  readonly etaMin?: number;
}

/** Half cosines from the learning rate to `etaMin`, one after the other (Loshchilov and Hutter, arXiv 1608.03983). */
export class CosineAnnealingWarmRestarts extends StepSchedule {
  private readonly options: Required<CosineRestartOptions>;
  /** @throws {ArgumentError} for a bad option */
  constructor(optimizer: Scheduled, options: CosineRestartOptions) {
    const what = "make CosineAnnealingWarmRestarts";
    const { t0, tMult = 1, etaMin = 0 } = checkOptions(what, options, ["t0", "tMult", "etaMin"]);
    super(optimizer);
    checkInteger(what, "t0", t0, 1);
    checkInteger(what, "tMult", tMult, 1);
    this.options = { t0, tMult, etaMin: checkNumber(what, "etaMin", etaMin) };
    this.start();
  }
  protected override at(epoch: number, base: number): number {
    const { t0, tMult, etaMin } = this.options;
    let length = t0, within = tMult === 1 ? epoch % t0 : epoch;
    while (within >= length) {
      within -= length;
      length *= tMult;
    }
    return etaMin + (base - etaMin) * (1 + Math.cos(Math.PI * within / length)) / 2;
  }
}

/** Options of {@linkcode CyclicLR}. */
export interface CyclicLROptions {
  /** The lowest learning rate, whatever the optimizer had. */
  readonly baseLr: number;
  /** The highest one of the first cycle. */
  readonly maxLr: number;
  /** Steps that rise; 2000 unless given. */
  readonly stepSizeUp?: number;
  /** Steps that fall; as many as rise unless given. */
  readonly stepSizeDown?: number;
  /** "triangular" unless given; "triangular2" halves each cycle's height, "exp_range" multiplies each step's by `gamma`. */
  readonly mode?: "triangular" | "triangular2" | "exp_range";
  /** Of "exp_range"; 1 unless given. */
  readonly gamma?: number;
  /** What the height is multiplied by, in place of `mode`: a function of the cycle, from 1, or of the step, from 0. */
  readonly scaleFn?: (x: number) => number;
  /** Whether `scaleFn` is of the cycle or of the step ("iterations"); "cycle" unless given. */
  readonly scaleMode?: "cycle" | "iterations";
}

/** From `baseLr` up to `maxLr` and down again, by turns (Smith, arXiv 1506.01186). Momentum stays as it is. */
export class CyclicLR extends StepSchedule {
  private readonly options: Required<Pick<CyclicLROptions, "baseLr" | "maxLr" | "stepSizeUp" | "stepSizeDown">>;
  private readonly scale: (cycle: number, epoch: number) => number;
  /** @throws {ArgumentError} for a bad option */
  constructor(optimizer: Scheduled, options: CyclicLROptions) {
    const what = "make CyclicLR";
    const known = "baseLr maxLr stepSizeUp stepSizeDown mode gamma scaleFn scaleMode".split(" ");
    const given = checkOptions(what, options, known);
    super(optimizer);
    const { baseLr, maxLr, stepSizeUp = 2000, stepSizeDown = stepSizeUp, mode = "triangular", gamma = 1 } = given;
    const { scaleFn, scaleMode = "cycle" } = given;
    checkRange("CyclicLR", "baseLr", baseLr, 0, Infinity);
    checkRange("CyclicLR", "maxLr", maxLr, 0, Infinity);
    checkInteger(what, "stepSizeUp", stepSizeUp, 1);
    checkInteger(what, "stepSizeDown", stepSizeDown, 1);
    checkChoice(what, "mode", mode, ["triangular", "triangular2", "exp_range"]);
    checkChoice(what, "scaleMode", scaleMode, ["cycle", "iterations"]);
    if (scaleFn !== undefined) {
      const scale = checkFunction(what, "scaleFn", scaleFn);
      this.scale = (cycle, epoch) =>
        checkNumber("compute a learning rate", "what scaleFn gives", scale(scaleMode === "cycle" ? cycle : epoch));
    } else if (mode === "exp_range") this.scale = (_, epoch) => gamma ** epoch;
    else this.scale = (cycle) => mode === "triangular" ? 1 : 2 ** (1 - cycle);
    this.options = { baseLr, maxLr, stepSizeUp, stepSizeDown };
    this.start();
  }
  protected override at(epoch: number): number {
    const { baseLr, maxLr, stepSizeUp, stepSizeDown } = this.options, length = stepSizeUp + stepSizeDown;
    const within = epoch % length, cycle = (epoch - within) / length + 1;
    const height = within <= stepSizeUp ? within / stepSizeUp : (length - within) / stepSizeDown;
    return baseLr + (maxLr - baseLr) * height * this.scale(cycle, epoch);
  }
}
