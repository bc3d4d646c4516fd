/**
 * Optimizers by moments of gradients: Adam, AdamW, LAMB.
 *
 * @module
 */
import type { Checked } from "../../device/device.ts";
import { ArgumentError } from "../../helpers/errors.ts";
import { checkOptions, describe } from "../../helpers/options.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import { Decayed } from "./decayed.ts";
import { checkRange, type FusedOptions, OPTIMIZER_OPTIONS, type OptimizerOptions, type Slot } from "./optimizer.ts";

/** Options of {@linkcode Adam} and {@linkcode AdamW}. */
export interface AdamOptions extends OptimizerOptions, FusedOptions {
  /** Decay of the mean of gradients; 0.9 unless given. */
  readonly b1?: number;
  /** Decay of the mean of squared gradients; 0.999 unless given. */
  readonly b2?: number;
  /** Both, as PyTorch has them: the default of `b1` and `b2`. */
  readonly betas?: readonly [number, number];
  /** Added to the denominator; 1e-8 unless given. */
  readonly eps?: number;
}

/** Options with their defaults. */
export type Complete = AdamOptions & Required<Omit<AdamOptions, "device" | "fused" | "betas">>;

/** What an update of a parameter is made of. */
export interface Moments {
  /** The parameter, and its gradient. */
  readonly p: Tensor;
  readonly g: Tensor;
  /** Means of gradients, and of what {@linkcode AdamFamily.sizes} keeps of their sizes, with this gradient. */
  readonly mean: Tensor;
  readonly square: Tensor;
  /** 1 - b1^t and 1 - b2^t. */
  readonly c1: Tensor;
  readonly c2: Tensor;
  /** What {@linkcode AdamFamily.clocks} count, after this step. */
  readonly clocks: readonly Tensor[];
}

/** A number that is kept from step to step, with what it is after this one. */
export type Clock = readonly [state: Tensor, next: Tensor];

/** Means of gradients and of their squares, corrected for their start at zero: a rule says how both make an update. */
export abstract class AdamFamily extends Decayed {
  /** 1 - b1^t and 1 - b2^t: kept in this form because it does not cancel for small t. */
  private readonly correction1: Tensor;
  private readonly correction2: Tensor;
  private readonly mean: Tensor[];
  private readonly square: Tensor[];
  private b1Value: number;
  private b2Value: number;

  protected constructor(params: readonly Tensor[], options: Complete, private readonly decoupled: boolean) {
    super(params, options);
    const name = this.constructor.name;
    this.b1Value = checkRange(name, "b1", options.b1, 0, 1);
    this.b2Value = checkRange(name, "b2", options.b2, 0, 1);
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

  /** Corrections and moments. */
  protected override state(): Tensor[] {
    return [this.correction1, this.correction2, ...this.mean, ...this.square];
  }

  /** What is subtracted of a parameter, but for the learning rate: `mean / (sqrt(square) + eps)`, both corrected. */
  protected direction({ mean, square, c1, c2 }: Moments): Tensor {
    return mean.div(c1).div(square.div(c2).sqrt().add(this.eps));
  }
  /** What is kept of the sizes of gradients, with that of `g`: the mean of squares. */
  protected sizes(kept: Tensor, g: Tensor): Tensor {
    return kept.mul(this.b2).add(g.square().mul(1 - this.b2));
  }
  /** Numbers beside the corrections that a rule counts by, given 1 - b2^t before this step. */
  protected clocks(_correction2: Tensor): Clock[] {
    return [];
  }
  /** The update with the pull toward zero, where that is no part of the gradient. */
  protected decayed(up: Tensor, p: Tensor): Tensor {
    return this.weightDecay > 0 && this.decoupled ? up.add(p.mul(this.weightDecay)) : up;
  }

  /** `p -= lr * direction`. */
  protected override update(slots: readonly Slot[]): Tensor[] {
    const { b1, b2 } = this;
    const clocks = this.clocks(this.correction2);
    const next1 = this.correction1.mul(b1).add(1 - b1), next2 = this.correction2.mul(b2).add(1 - b2);
    const scalars: Clock[] = [[this.correction1, next1], [this.correction2, next2], ...clocks];
    const state = scalars.map(([kept]) => kept);
    for (const slot of slots) {
      const p = slot.value, m = this.mean[slot.at], v = this.square[slot.at];
      const [c1, c2, ...rest] = scalars.map(([, next]) => this.beside(next, p));
      const g = this.decoupled ? slot.grad.cast(m.dtype) : this.pulled(slot, m);
      const mean = m.mul(b1).add(g.mul(1 - b1)), square = this.sizes(v, g);
      const up = this.decayed(this.direction({ p, g, mean, square, c1, c2, clocks: rest }), p);
      this.keep(m, mean);
      this.keep(v, square);
      this.write(slot, p.sub(up.mul(this.beside(this.lr, p))));
      state.push(m, v);
    }
    for (const [kept, next] of scalars) this.keep(kept, next);
    return state;
  }
}

/** |p| / |update|, and 1 where either is zero. */
function trustRatio(p: Tensor, up: Tensor): Tensor {
  const a = p.float().square().sum().sqrt(), b = up.float().square().sum().sqrt();
  return a.gt(0).where(b.gt(0).where(a.div(b), 1), 1);
}

/** Options of the family, checked, with their defaults. @throws {ArgumentError} for an unknown option */
export function adamOptions(
  what: string,
  o: AdamOptions,
  defaults: Partial<Complete>,
  others: readonly string[] = ["fused"],
): Complete {
  checkOptions(`make ${what}`, o, [...OPTIMIZER_OPTIONS, "b1", "b2", "betas", "eps", ...others]);
  const all = { lr: 1e-3, b1: 0.9, b2: 0.999, eps: 1e-8, weightDecay: 0, ...defaults };
  const { betas = [all.b1, all.b2] } = o;
  if (betas?.length !== 2) {
    throw new ArgumentError(`make ${what}`, { reason: `betas are two numbers, not ${describe(betas)}` });
  }
  const { lr = all.lr, b1 = betas[0], b2 = betas[1], eps = all.eps, weightDecay = all.weightDecay } = o;
  return { ...o, lr, b1, b2, eps, weightDecay };
}

/** Adam (Kingma and Ba, arXiv 1412.6980). `weightDecay` is added to the gradient, as in PyTorch. */
export class Adam<N extends string = string> extends AdamFamily {
  /** lr 0.001, b1 0.9, b2 0.999, eps 1e-8, weightDecay 0 unless given. @throws {ArgumentError} for a bad option */
  constructor(params: readonly Tensor[], options: Checked<AdamOptions, N> = {}) {
    super(params, adamOptions("Adam", options, {}), false);
  }
}

/** Adam with decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101). */
export class AdamW<N extends string = string> extends AdamFamily {
  /** lr 0.001, b1 0.9, b2 0.999, eps 1e-8, weightDecay 0.01 unless given. @throws {ArgumentError} for a bad option */
  constructor(params: readonly Tensor[], options: Checked<AdamOptions, N> = {}) {
    super(params, adamOptions("AdamW", options, { weightDecay: 0.01 }), true);
  }
}

/** LAMB (You et al., arXiv 1904.00962): AdamW whose update of each parameter has the parameter's norm. */
export class LAMB<N extends string = string> extends AdamFamily {
  /** lr 0.001, b1 0.9, b2 0.999, eps 1e-6, weightDecay 0 unless given. @throws {ArgumentError} for a bad option */
  constructor(params: readonly Tensor[], options: Checked<Omit<AdamOptions, "fused">, N> = {}) {
    super(params, adamOptions("LAMB", options, { eps: 1e-6 }, []), true);
  }
  protected override decayed(up: Tensor, p: Tensor): Tensor {
    const whole = super.decayed(up, p);
    return whole.mul(trustRatio(p, whole));
  }
}
