/**
 * What optimizers share that divide by a root or a size: what is added to the denominator, and a pull toward zero.
 *
 * @module
 */
import type { Tensor } from "../../tensor/tensor.ts";
import { checkRange, type FusedOptions, Optimizer, type OptimizerOptions, type Slot } from "./optimizer.ts";

/** Both numbers with the other options: those of an optimizer whose defaults are filled in. */
export interface DecayedOptions extends OptimizerOptions, FusedOptions {
  readonly lr: number | Tensor;
  readonly eps: number;
  readonly weightDecay: number;
}

/** An optimizer with `eps` and `weightDecay`, which may be set until a step is captured. */
export abstract class Decayed extends Optimizer {
  private epsValue: number;
  private decay: number;

  protected constructor(params: readonly Tensor[], options: DecayedOptions) {
    super(params, options.lr, options);
    const name = this.constructor.name;
    this.epsValue = checkRange(name, "eps", options.eps, 0, Infinity);
    this.decay = checkRange(name, "weightDecay", options.weightDecay, 0, Infinity);
  }
  /** Added to the denominator. */
  get eps(): number {
    return this.epsValue;
  }
  set eps(value: number) {
    this.epsValue = this.changed("eps", value, 0, Infinity);
  }
  /** Pull of the weights toward zero. */
  get weightDecay(): number {
    return this.decay;
  }
  set weightDecay(value: number) {
    this.decay = this.changed("weightDecay", value, 0, Infinity);
  }

  /** A gradient in the dtype of what is kept of it, with the pull toward zero. */
  protected pulled({ grad, value }: Slot, like: Tensor): Tensor {
    const g = grad.cast(like.dtype);
    return this.decay > 0 ? g.add(value.mul(this.decay)) : g;
  }
}
