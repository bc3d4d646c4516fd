/**
 * Optimizers by moments of gradients: Adam, AdamW, LAMB.
 *
 * @module
 */
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

/** Options of {@linkcode Adam} and {@linkcode AdamW}. */
export interface AdamOptions extends OptimizerOptions, FusedOptions {
  /** Decay of the mean of gradients; 0.9 unless given. */
  readonly b1?: number;
  /** Decay of the mean of squared gradients; 0.999 unless given. */
  readonly b2?: number;
  /** Added to the denominator; 1e-8 unless given. */
  readonly eps?: number;
}

/** How a rule of the Adam family differs. */
type AdamRule = "adam" | "adamw" | "lamb";

/** Adam, AdamW and LAMB: means of gradients and of their squares, corrected for their start at zero. */
abstract class AdamFamily extends Optimizer {
  /** 1 - b1^t and 1 - b2^t: kept in this form because it does not cancel for small t. */
  private readonly correction1: Tensor;
  private readonly correction2: Tensor;
  private readonly mean: Tensor[];
  private readonly square: Tensor[];
  private b1Value: number;
  private b2Value: number;
  private epsValue: number;
  private decay: number;

  protected constructor(private readonly rule: AdamRule, params: readonly Tensor[], options: Complete) {
    super(params, options.lr, options);
    const name = this.constructor.name;
    this.b1Value = checkRange(name, "b1", options.b1, 0, 1);
    this.b2Value = checkRange(name, "b2", options.b2, 0, 1);
    this.epsValue = checkRange(name, "eps", options.eps, 0, Infinity);
    this.decay = checkRange(name, "weightDecay", options.weightDecay, 0, Infinity);
    this.correction1 = this.scalarState(0);
    this.correction2 = this.scalarState(0);
    this.mean = this.moments();
    this.square = this.moments();
  }

  /** Decay of the mean of gradients. */
  get b1(): number {
    return this.b1Value;
  }
  set b1(value: number) {
    this.b1Value = this.changed("b1", value, 0, 1);
  }
  /** Decay of the mean of squared gradients. */
  get b2(): number {
    return this.b2Value;
  }
  set b2(value: number) {
    this.b2Value = this.changed("b2", value, 0, 1);
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

  /** Corrections and moments. */
  protected override state(): Tensor[] {
    return [this.correction1, this.correction2, ...this.mean, ...this.square];
  }

  /** `p -= lr * mean / (sqrt(square) + eps)`, both corrected. */
  protected override update(slots: readonly Slot[]): Tensor[] {
    const { b1, b2, eps, weightDecay, rule } = this;
    const next1 = this.correction1.mul(b1).add(1 - b1), next2 = this.correction2.mul(b2).add(1 - b2);
    const state = [this.correction1, this.correction2];
    for (const slot of slots) {
      const p = slot.value, m = this.mean[slot.at], v = this.square[slot.at];
      const c1 = this.beside(next1, p), c2 = this.beside(next2, p), lr = this.beside(this.lr, p);
      let g = slot.grad.cast(m.dtype);
      if (weightDecay > 0 && rule === "adam") g = g.add(p.mul(weightDecay));
      const mean = m.mul(b1).add(g.mul(1 - b1)), square = v.mul(b2).add(g.square().mul(1 - b2));
      let up = mean.div(c1).div(square.div(c2).sqrt().add(eps));
      if (weightDecay > 0 && rule !== "adam") up = up.add(p.mul(weightDecay));
      if (rule === "lamb") up = up.mul(trustRatio(p, up));
      this.keep(m, mean);
      this.keep(v, square);
      this.write(slot, p.sub(up.mul(lr)));
      state.push(m, v);
    }
    this.keep(this.correction1, next1);
    this.keep(this.correction2, next2);
    return state;
  }
}

/** |p| / |update|, and 1 where either is zero. */
function trustRatio(p: Tensor, up: Tensor): Tensor {
  const a = p.float().square().sum().sqrt(), b = up.float().square().sum().sqrt();
  return a.gt(0).where(b.gt(0).where(a.div(b), 1), 1);
}

/** Options with their defaults. */
type Complete = AdamOptions & Required<Omit<AdamOptions, "device" | "fused">>;

function adamOptions(
  what: string,
  o: AdamOptions,
  defaults: { readonly eps: number; readonly weightDecay: number },
  fusable = true,
): Complete {
  checkOptions(`make ${what}`, o, [...OPTIMIZER_OPTIONS, "b1", "b2", "eps", ...fusable ? ["fused"] : []]);
  const { lr = 1e-3, b1 = 0.9, b2 = 0.999, eps = defaults.eps, weightDecay = defaults.weightDecay } = o;
  return { ...o, lr, b1, b2, eps, weightDecay };
}

/** Adam (Kingma and Ba, arXiv 1412.6980). `weightDecay` is added to the gradient, as in PyTorch. */
export class Adam extends AdamFamily {
  /** lr 0.001, b1 0.9, b2 0.999, eps 1e-8, weightDecay 0 unless given. @throws {ArgumentError} for a bad option */
  constructor(params: readonly Tensor[], options: AdamOptions = {}) {
    super("adam", params, adamOptions("Adam", options, { eps: 1e-8, weightDecay: 0 }));
  }
}

/** Adam with decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101). */
export class AdamW extends AdamFamily {
  /** lr 0.001, b1 0.9, b2 0.999, eps 1e-8, weightDecay 0.01 unless given. @throws {ArgumentError} for a bad option */
  constructor(params: readonly Tensor[], options: AdamOptions = {}) {
    super("adamw", params, adamOptions("AdamW", options, { eps: 1e-8, weightDecay: 0.01 }));
  }
}

/** LAMB (You et al., arXiv 1904.00962): AdamW whose update of each parameter has the parameter's norm. */
export class LAMB extends AdamFamily {
  /** lr 0.001, b1 0.9, b2 0.999, eps 1e-6, weightDecay 0 unless given. @throws {ArgumentError} for a bad option */
  constructor(params: readonly Tensor[], options: Omit<AdamOptions, "fused"> = {}) {
    super("lamb", params, adamOptions("LAMB", options, { eps: 1e-6, weightDecay: 0 }, false));
  }
}
