/**
 * When to stop: where a value has not become better for some time. In: a value an epoch; out: whether it is enough.
 *
 * @module
 */
import { checkChoice, checkInteger, checkNumber, checkOptions } from "../helpers/options.ts";

/** Options of {@linkcode EarlyStopping}. */
export interface EarlyStoppingOptions {
  /** How many values in a row may be no better; 10 unless given. */
  readonly patience?: number;
  /** By how much a value has to be better; 0 unless given. */
  readonly minDelta?: number;
  /** Whether small values are good ("min"), as losses, or large ones ("max"); "min" unless given. */
  readonly mode?: "min" | "max";
}

/**
 * Says when a value has not become better for a while.
 *
 * ```ts
 * import { EarlyStopping } from "./train.ts";
 * const stopping = new EarlyStopping({ patience: 2 });
 * console.log([3, 2, 2.5, 2.25, 2.1].map((loss) => stopping.step(loss))); // [false, false, false, true, true]
 * ```
 */
export class EarlyStopping {
  /** The best value so far; Infinity, or -Infinity, before the first. */
  best: number;
  /** How many values since then were no better. */
  since = 0;
  private readonly patience: number;
  private readonly minDelta: number;
  private readonly sign: number;

  /** Nothing has been seen yet. @throws {ArgumentError} for options out of range */
  constructor(options: EarlyStoppingOptions = {}) {
    const action = "make EarlyStopping";
    checkOptions(action, options, ["patience", "minDelta", "mode"]);
    this.patience = checkInteger(action, "patience", options.patience ?? 10, 1);
    this.minDelta = checkNumber(action, "minDelta", options.minDelta ?? 0);
    this.sign = checkChoice(action, "mode", options.mode ?? "min", ["min", "max"]) === "min" ? 1 : -1;
    this.best = this.sign * Infinity;
  }
  /** Takes a value; true where it is time to stop. */
  step(value: number): boolean {
    if (this.sign * (this.best - value) > this.minDelta || (!Number.isFinite(this.best) && Number.isFinite(value))) {
      [this.best, this.since] = [value, 0];
    } else this.since++;
    return this.since >= this.patience;
  }
}
