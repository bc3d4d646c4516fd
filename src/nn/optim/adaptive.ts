/**
 * Optimizers that divide each step by the root of squared gradients: RMSprop and Adadelta by that of their running mean,
 * Adagrad by that of their sum; and Rprop, which takes signs of gradients alone.
 *
 * @module
 */
import type { Checked } from "../../device/device.ts";
import { ArgumentError } from "../../helpers/errors.ts";
import { checkBoolean, checkOptions, describe } from "../../helpers/options.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import { Decayed } from "./decayed.ts";
import {
  checkRange,
  type FusedOptions,
  Optimizer,
  OPTIMIZER_OPTIONS,
  type OptimizerOptions,
  type Slot,
} from "./optimizer.ts";

/** Options of {@linkcode RMSprop}. */
export interface RMSpropOptions extends OptimizerOptions, FusedOptions {
  /** Decay of the mean of squared gradients; 0.99 unless given. */
  readonly alpha?: number;
  /** Added to the denominator; 1e-8 unless given. */
  readonly eps?: number;
  /** Share of the last update kept; 0 unless given. */
  readonly momentum?: number;
  /** Whether the square of the mean of gradients is taken off that of their squares; false unless given. */
  readonly centered?: boolean;
}

/** Options of {@linkcode Adagrad}. */
export interface AdagradOptions extends OptimizerOptions, FusedOptions {
  /** What the sums of squared gradients begin with; 0 unless given. */
  readonly initialAccumulatorValue?: number;
  /** Added to the denominator; 1e-10 unless given. */
  readonly eps?: number;
}

/** Options of {@linkcode Adadelta}. */
export interface AdadeltaOptions extends OptimizerOptions, FusedOptions {
  /** Decay of the means of squared gradients and updates; 0.9 unless given. */
  readonly rho?: number;
  /** Added to both means before their roots; 1e-6 unless given. */
  readonly eps?: number;
}

/** What all have: means or sums of squared gradients. */
abstract class Adaptive extends Decayed {
  /** Means or sums of squared gradients. */
  protected readonly square: Tensor[];

  protected constructor(params: readonly Tensor[], options: OptimizerOptions & FusedOptions, eps: number, lr = 1e-2) {
    super(params, { ...options, lr: options.lr ?? lr, weightDecay: options.weightDecay ?? 0, eps });
    this.square = this.moments();
  }
}

/** RMSprop (Tieleman and Hinton, 2012), as PyTorch has it; `centered` is Graves's (arXiv 1308.0850). */
export class RMSprop<N extends string = string> extends Adaptive {
  /** Decay of the mean of squared gradients. */
  readonly alpha: number;
  /** Share of the last update kept. */
  readonly momentum: number;
  /** Whether the square of the mean of gradients is taken off. */
  readonly centered: boolean;
  private readonly mean: Tensor[];
  private readonly velocity: Tensor[];

  /** lr 0.01, alpha 0.99, eps 1e-8, weightDecay, momentum 0 unless given. @throws {ArgumentError} for a bad option */
  constructor(params: readonly Tensor[], options: Checked<RMSpropOptions, N> = {}) {
    const known = [...OPTIMIZER_OPTIONS, "fused", "alpha", "eps", "momentum", "centered"];
    const { alpha = 0.99, momentum = 0, centered = false, eps = 1e-8 } = checkOptions("make RMSprop", options, known);
    super(params, options, eps);
    this.alpha = checkRange("RMSprop", "alpha", alpha, 0, 1);
    this.momentum = checkRange("RMSprop", "momentum", momentum, 0, 1);
    this.centered = checkBoolean("make RMSprop", "centered", centered);
    this.mean = centered ? this.moments() : [];
    this.velocity = momentum > 0 ? this.moments() : [];
  }

  /** Means and velocities. */
  protected override state(): Tensor[] {
    return [...this.square, ...this.mean, ...this.velocity];
  }

  /** `p -= lr * g / (sqrt(square) + eps)`, by way of the velocity. */
  protected override update(slots: readonly Slot[]): Tensor[] {
    const { alpha, eps, momentum, centered } = this, state: Tensor[] = [];
    for (const slot of slots) {
      const { at, value: p } = slot, v = this.square[at], g = this.pulled(slot, v);
      const square = v.mul(alpha).add(g.square().mul(1 - alpha));
      let spread = square;
      if (centered) {
        const m = this.mean[at], mean = m.mul(alpha).add(g.mul(1 - alpha));
        spread = square.sub(mean.square());
        this.keep(m, mean);
        state.push(m);
      }
      let up = g.div(spread.sqrt().add(eps));
      if (momentum > 0) {
        const velocity = this.velocity[at];
        up = velocity.mul(momentum).add(up);
        this.keep(velocity, up);
        state.push(velocity);
      }
      this.keep(v, square);
      this.write(slot, p.sub(up.mul(this.beside(this.lr, p))));
      state.push(v);
    }
    return state;
  }
}

/** Adagrad (Duchi, Hazan and Singer, JMLR 12, 2011), as PyTorch has it. */
export class Adagrad<N extends string = string> extends Adaptive {
  /** What the sums began with. */
  readonly initialAccumulatorValue: number;

  /** lr 0.01, eps 1e-10, weightDecay 0 unless given. @throws {ArgumentError} for a bad option */
  constructor(params: readonly Tensor[], options: Checked<AdagradOptions, N> = {}) {
    const known = [...OPTIMIZER_OPTIONS, "fused", "eps", "initialAccumulatorValue"];
    const { eps = 1e-10, initialAccumulatorValue = 0 } = checkOptions("make Adagrad", options, known);
    super(params, options, eps);
    const name = "initialAccumulatorValue";
    this.initialAccumulatorValue = checkRange("Adagrad", name, initialAccumulatorValue, 0, Infinity);
  }

  /** Sums of squared gradients, without what they began with. */
  protected override state(): Tensor[] {
    return this.square;
  }

  /** `p -= lr * g / (sqrt(sum) + eps)`. */
  protected override update(slots: readonly Slot[]): Tensor[] {
    return slots.map((slot) => {
      const { at, value: p } = slot, v = this.square[at], g = this.pulled(slot, v), sum = v.add(g.square());
      const root = (this.initialAccumulatorValue === 0 ? sum : sum.add(this.initialAccumulatorValue)).sqrt();
      this.keep(v, sum);
      this.write(slot, p.sub(g.div(root.add(this.eps)).mul(this.beside(this.lr, p))));
      return v;
    });
  }
}

/** Adadelta (Zeiler, arXiv 1212.5701), as PyTorch has it. */
export class Adadelta<N extends string = string> extends Adaptive {
  /** Decay of both means. */
  readonly rho: number;
  /** Means of squared updates. */
  private readonly deltas: Tensor[];

  /** lr 1, rho 0.9, eps 1e-6, weightDecay 0 unless given. @throws {ArgumentError} for a bad option */
  constructor(params: readonly Tensor[], options: Checked<AdadeltaOptions, N> = {}) {
    const known = [...OPTIMIZER_OPTIONS, "fused", "rho", "eps"];
    const { rho = 0.9, eps = 1e-6 } = checkOptions("make Adadelta", options, known);
    super(params, options, eps, 1);
    this.rho = checkRange("Adadelta", "rho", rho, 0, 1);
    this.deltas = this.moments();
  }

  /** Means of squared gradients, and of squared updates. */
  protected override state(): Tensor[] {
    return [...this.square, ...this.deltas];
  }

  /** `p -= lr * g * sqrt(deltas + eps) / sqrt(square + eps)`. */
  protected override update(slots: readonly Slot[]): Tensor[] {
    const { rho, eps } = this, next = (mean: Tensor, x: Tensor) => mean.mul(rho).add(x.square().mul(1 - rho));
    return slots.flatMap((slot) => {
      const { at, value: p } = slot, v = this.square[at], d = this.deltas[at], g = this.pulled(slot, v);
      const square = next(v, g), up = g.mul(d.add(eps).sqrt().div(square.add(eps).sqrt()));
      this.keep(v, square);
      this.keep(d, next(d, up));
      this.write(slot, p.sub(up.mul(this.beside(this.lr, p))));
      return [v, d];
    });
  }
}

/** Options of {@linkcode Rprop}. */
export interface RpropOptions extends FusedOptions, Pick<OptimizerOptions, "lr" | "device"> {
  /** What a step is multiplied by where the gradient's sign changes, and where it stays; [0.5, 1.2] unless given. */
  readonly etas?: readonly [less: number, more: number];
  /** The least and the largest step; [1e-6, 50] unless given. */
  readonly stepSizes?: readonly [least: number, largest: number];
}

/** Rprop (Riedmiller and Braun, ICNN 1993), as PyTorch has it: steps by the sign of the gradient, each element's own. For whole batches. */
export class Rprop<N extends string = string> extends Optimizer {
  private readonly etas: readonly [number, number];
  private readonly stepSizes: readonly [number, number];
  private readonly previous: Tensor[];
  /** Steps over the learning rate, less 1. */
  private readonly steps: Tensor[];

  /** lr 0.01 unless given: the first step. @throws {ArgumentError} for a bad option */
  constructor(params: readonly Tensor[], options: Checked<RpropOptions, N> = {}) {
    const known = ["lr", "device", "fused", "etas", "stepSizes"], action = "make Rprop";
    const { etas = [0.5, 1.2], stepSizes = [1e-6, 50] } = checkOptions(action, options, known);
    super(params, options.lr ?? 1e-2, options);
    for (const [name, pair] of Object.entries({ etas, stepSizes })) {
      if (!Array.isArray(pair) || pair.length !== 2) {
        throw new ArgumentError(action, { reason: `${name} are two numbers, not ${describe(pair)}` });
      }
    }
    this.etas = [checkRange("Rprop", "etas[0]", etas[0], 0, 1), checkRange("Rprop", "etas[1]", etas[1], 1, Infinity)];
    const largest = checkRange("Rprop", "stepSizes[1]", stepSizes[1], 0, Infinity);
    this.stepSizes = [checkRange("Rprop", "stepSizes[0]", stepSizes[0], 0, largest), largest];
    this.previous = this.moments();
    this.steps = this.moments();
  }

  /** Gradients of before, and steps. */
  protected override state(): Tensor[] {
    return [...this.previous, ...this.steps];
  }

  /** `p -= sign(g) * step`; where the sign has changed, the step is shorter, and none is made. */
  protected override update(slots: readonly Slot[]): Tensor[] {
    const [less, more] = this.etas, [least, largest] = this.stepSizes;
    return slots.flatMap((slot) => {
      const { at, value: p } = slot, before = this.previous[at], steps = this.steps[at], lr = this.beside(this.lr, p);
      const g = slot.grad.cast(before.dtype), product = g.mul(before), turned = product.lt(0);
      const factor = turned.where(less, product.gt(0).where(more, 1));
      const step = steps.add(1).mul(lr).mul(factor).clamp(least, largest), kept = turned.where(0, g) as Tensor;
      this.keep(before, kept);
      this.keep(steps, step.div(lr).sub(1));
      this.write(slot, p.sub(kept.sign().mul(step)));
      return [before, steps];
    });
  }
}
