/**
 * Averaged stochastic gradient descent: steps that shorten by a power of their number, and a mean of where they led.
 *
 * @module
 */
import type { Checked } from "../../device/device.ts";
import { checkOptions } from "../../helpers/options.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import {
  checkRange,
  type FusedOptions,
  Optimizer,
  OPTIMIZER_OPTIONS,
  type OptimizerOptions,
  type Slot,
} from "./optimizer.ts";

/** Options of {@linkcode ASGD}. */
export interface ASGDOptions extends OptimizerOptions, FusedOptions {
  /** How fast steps shorten, and a pull of the weights toward zero by as much of each step; 0.0001 unless given. */
  readonly lambd?: number;
  /** Power by which steps shorten; 0.75 unless given. */
  readonly alpha?: number;
  /** The step from which means are taken; 1,000,000 unless given. */
  readonly t0?: number;
}

/** Averaged stochastic gradient descent (Polyak and Juditsky, SIAM J. Control Optim. 30, 1992), as PyTorch has it. */
export class ASGD<N extends string = string> extends Optimizer {
  /** How fast steps shorten. */
  readonly lambd: number;
  /** Power by which steps shorten. */
  readonly alpha: number;
  /** The step from which means are taken. */
  readonly t0: number;
  /** Pull of the weights toward zero, as a part of the gradient. */
  readonly weightDecay: number;
  /** The means of the weights since step `t0`, and before it the weights, by parameter; where fused, one vector of all. */
  readonly averages: readonly Tensor[];
  private readonly steps: Tensor;

  /** lr 0.01, lambd 0.0001, alpha 0.75, t0 1,000,000, weightDecay 0 unless given. @throws {ArgumentError} for a bad option */
  constructor(params: readonly Tensor[], options: Checked<ASGDOptions, N> = {}) {
    const known = [...OPTIMIZER_OPTIONS, "fused", "lambd", "alpha", "t0"];
    const { lr = 1e-2, lambd = 1e-4, alpha = 0.75, t0 = 1e6, weightDecay = 0 } = checkOptions(
      "make ASGD",
      options,
      known,
    );
    super(params, lr, options);
    this.lambd = checkRange("ASGD", "lambd", lambd, 0, Infinity);
    this.alpha = checkRange("ASGD", "alpha", alpha, 0, Infinity);
    this.t0 = checkRange("ASGD", "t0", t0, 0, Infinity);
    this.weightDecay = checkRange("ASGD", "weightDecay", weightDecay, 0, Infinity);
    this.averages = this.moments();
    this.steps = this.scalarState(0);
  }

  /** Steps and means. */
  protected override state(): Tensor[] {
    return [this.steps, ...this.averages];
  }

  /** `p -= eta (g + lambd p)`, eta the learning rate over (1 + lambd lr t)^alpha; the mean goes 1 / (t - t0) of the way to p. */
  protected override update(slots: readonly Slot[]): Tensor[] {
    const { steps, lr, lambd, alpha, t0, weightDecay } = this, state: Tensor[] = [steps];
    const count = this.beside(steps, lr), rate = lr.reshape([]);
    const eta = rate.div(rate.mul(count).mul(lambd).add(1).pow(alpha)), part = steps.sub(t0).clamp(1).reciprocal();
    for (const slot of slots) {
      const mean = this.averages[slot.at], p = slot.value.cast(mean.dtype), own = this.beside(eta, p).cast(mean.dtype);
      const pulled = slot.grad.cast(mean.dtype), g = weightDecay > 0 ? pulled.add(p.mul(weightDecay)) : pulled;
      const next = p.mul(own.mul(-lambd).add(1)).sub(g.mul(own));
      const average = mean.add(next.sub(mean).mul(this.beside(part, p).cast(mean.dtype)));
      this.keep(mean, average);
      this.write(slot, next);
      state.push(mean);
    }
    this.keep(steps, steps.add(1));
    return state;
  }
}
