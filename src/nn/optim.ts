/**
 * Optimizers. Each takes parameters and statistics, and updates those that require a gradient; `step()` realizes the
 * parameters, the optimizer's state, pending assignments of the others, and the losses whose `backward()` filled the
 * gradients, in one schedule.
 *
 * All outputs for one parameter (the parameter and its moments) are elementwise functions of old values, so that one
 * kernel can write them together. What changes from step to step (learning rate, bias corrections) are tensors, so
 * that a captured step advances when it is replayed.
 *
 * @module
 */
import { checkOptions } from "../helpers/options.ts";
import { ArgumentError } from "../helpers/errors.ts";
import { forgetLosses, lossesOf } from "../tensor/backward.ts";
import { Tensor } from "../tensor/tensor.ts";

/** Options that every optimizer takes. */
export interface OptimizerOptions {
  /** Learning rate: a number, or a 1-element tensor that the optimizer keeps and reads at each step. */
  readonly lr?: number | Tensor;
  /** Pull of the weights toward zero; 0 unless given. */
  readonly weightDecay?: number;
}

function checkNumber(what: string, name: string, x: number, low: number, high: number): number {
  if (!(x >= low && x <= high)) {
    throw new ArgumentError(`make ${what}`, { reason: `${name} is ${x}, outside [${low}, ${high}]` });
  }
  return x;
}

/** A 1-element float32 tensor in memory of its own, beside `p`. */
function scalarState(value: number, p: Tensor): Tensor {
  return new Tensor([value], { dtype: "float32", device: p.device, requiresGrad: false });
}

/** What all optimizers share. Subclasses say how one parameter is updated. */
export abstract class Optimizer {
  /** The tensors that are updated: those given that require a gradient, or did not say. */
  readonly params: Tensor[];
  /** The other tensors given, as running statistics: realized by `step()`. */
  readonly buffers: Tensor[];
  /** The learning rate, shape `[1]`: `opt.lr.assign(...)` or {@linkcode setLr} changes it without recompiling. */
  readonly lr: Tensor;
  private ready = false;

  /**
   * Realizes the parameters: their initial values are drawn before the first step.
   * @throws {ArgumentError} where there is nothing to update, or the learning rate is negative
   */
  constructor(params: readonly Tensor[], lr: number | Tensor) {
    if (!Array.isArray(params) || !params.every((p) => p instanceof Tensor)) {
      throw new ArgumentError(`make ${this.constructor.name}`, {
        reason: "it takes a list of tensors, as state.getParameters(model) gives",
      });
    }
    const all = [...new Set(params)];
    for (const p of all) if (p.requiresGrad === undefined && p.isFloatingPoint()) p.requiresGrad = true;
    this.params = all.filter((p) => p.requiresGrad === true);
    this.buffers = all.filter((p) => p.requiresGrad !== true);
    const name = this.constructor.name;
    if (this.params.length === 0) {
      throw new ArgumentError(`make ${name}`, { reason: "none of its tensors requires a gradient" });
    }
    if (lr instanceof Tensor) {
      if (lr.numel() !== 1) {
        throw new ArgumentError(`make ${name}`, { reason: `lr has ${lr.numel()} elements, not 1` });
      }
      this.lr = lr;
    } else this.lr = scalarState(checkNumber(name, "lr", lr, 0, Infinity), this.params[0]);
    // Initial values are drawn before the first step, so that its graph is that of all later ones.
    Tensor.realize([this.lr, ...this.params, ...this.buffers]);
  }

  /** Sets the learning rate, now. */
  setLr(value: number): void {
    this.lr.assign(new Tensor([value], { dtype: this.lr.dtype, device: this.lr.device }).reshape(this.lr.shape))
      .realize();
  }

  /** Forgets the gradients of the parameters, and the losses that filled them. */
  zeroGrad(): void {
    forgetLosses(gradsOf(this.params));
    for (const p of this.params) p.grad = undefined;
  }

  /**
   * Updates the parameters: assigns in the graph, and realizes the tensors of {@linkcode scheduleStep}.
   * @throws {Error} outside `Tensor.train`, or where no parameter has a gradient
   */
  step(): void {
    Tensor.realize(this.scheduleStep());
    forgetLosses(gradsOf(this.params));
  }

  /**
   * Assigns the update without realizing it, and returns what is to be realized in one schedule: parameters, state,
   * statistics and losses. `Tensor.realize([accuracy, ...opt.scheduleStep()])` reads the forward pass beside it.
   * @throws {Error} outside `Tensor.train`, or where no parameter has a gradient
   */
  scheduleStep(): Tensor[] {
    const name = this.constructor.name;
    if (!Tensor.training) {
      throw new Error(
        `Cannot step ${name}: Tensor.training is false; run the training step inside Tensor.train(() => ...)`,
      );
    }
    const at = [...this.params.keys()].filter((i) => this.params[i].grad !== undefined);
    if (at.length === 0) {
      throw new Error(`Cannot step ${name}: no parameter has a gradient; call loss.backward() before it`);
    }
    const losses = lossesOf(gradsOf(this.params)) as Tensor[];
    if (!this.ready) {
      Tensor.realize(this.state());
      this.ready = true;
    }
    const state = this.update(at);
    return [...losses, ...at.map((i) => this.params[i]), ...state, ...this.buffers];
  }

  /** All tensors that the optimizer keeps, but the learning rate. */
  protected abstract state(): Tensor[];
  /** Assigns new values to the parameters at `at`, all of which have gradients, and to state; returns the state that changed. */
  protected abstract update(at: readonly number[]): Tensor[];
}

/** The gradients that `params` have. */
function gradsOf(params: readonly Tensor[]): Tensor[] {
  return params.flatMap((p) => p.grad === undefined ? [] : [p.grad]);
}

/** Zeros like a parameter, in memory of their own, on its device. */
function momentOf(p: Tensor): Tensor {
  return Tensor.zeros(p.shape, { dtype: p.dtype, device: p.device, requiresGrad: false }).clone();
}

/** Options of {@linkcode SGD}. */
export interface SGDOptions extends OptimizerOptions {
  /** Share of the last update kept; 0 unless given. */
  readonly momentum?: number;
  /** Looks ahead by one update (Nesterov); false unless given. */
  readonly nesterov?: boolean;
}

/** Stochastic gradient descent, as PyTorch's: `v = momentum * v + g + weightDecay * p; p -= lr * v`. */
export class SGD extends Optimizer {
  /** Share of the last update kept. */
  readonly momentum: number;
  /** Whether it looks ahead by one update. */
  readonly nesterov: boolean;
  /** Pull of the weights toward zero. */
  readonly weightDecay: number;
  private readonly velocity: Tensor[];

  /** lr is 0.001 unless given. @throws {ArgumentError} for an unknown option or one out of range */
  constructor(params: readonly Tensor[], options: SGDOptions = {}) {
    checkOptions("make SGD", options, ["lr", "momentum", "nesterov", "weightDecay"]);
    super(params, options.lr ?? 1e-3);
    this.momentum = checkNumber("SGD", "momentum", options.momentum ?? 0, 0, 1);
    this.weightDecay = checkNumber("SGD", "weightDecay", options.weightDecay ?? 0, 0, Infinity);
    this.nesterov = options.nesterov ?? false;
    if (this.nesterov && this.momentum === 0) {
      throw new ArgumentError("make SGD", { reason: "nesterov needs a momentum" });
    }
    this.velocity = this.momentum > 0 ? this.params.map(momentOf) : [];
  }

  /** The velocities. */
  protected override state(): Tensor[] {
    return this.velocity;
  }

  /** `p -= lr * v`. */
  protected override update(at: readonly number[]): Tensor[] {
    const state: Tensor[] = [], lr = this.lr.reshape([]);
    for (const i of at) {
      const p = this.params[i];
      let g: Tensor = p.grad!;
      if (this.weightDecay > 0) g = g.add(p.mul(this.weightDecay));
      if (this.momentum > 0) {
        const v = this.velocity[i], next = v.mul(this.momentum).add(g);
        g = this.nesterov ? g.add(next.mul(this.momentum)) : next;
        v.assign(next);
        state.push(v);
      }
      p.assign(p.sub(g.mul(lr)).cast(p.dtype));
    }
    return state;
  }
}

/** Options of {@linkcode Adam} and {@linkcode AdamW}. */
export interface AdamOptions extends OptimizerOptions {
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
  /** Decay of the mean of gradients. */
  readonly b1: number;
  /** Decay of the mean of squared gradients. */
  readonly b2: number;
  /** Added to the denominator. */
  readonly eps: number;
  /** Pull of the weights toward zero. */
  readonly weightDecay: number;
  /** 1 - b1^t and 1 - b2^t: kept in this form because it does not cancel for small t. */
  private readonly correction1: Tensor;
  private readonly correction2: Tensor;
  private readonly mean: Tensor[];
  private readonly square: Tensor[];

  protected constructor(private readonly rule: AdamRule, params: readonly Tensor[], options: Required<AdamOptions>) {
    super(params, options.lr);
    const name = this.constructor.name;
    this.b1 = checkNumber(name, "b1", options.b1, 0, 1);
    this.b2 = checkNumber(name, "b2", options.b2, 0, 1);
    this.eps = checkNumber(name, "eps", options.eps, 0, Infinity);
    this.weightDecay = checkNumber(name, "weightDecay", options.weightDecay, 0, Infinity);
    this.correction1 = scalarState(0, this.params[0]);
    this.correction2 = scalarState(0, this.params[0]);
    this.mean = this.params.map(momentOf);
    this.square = this.params.map(momentOf);
  }

  /** Corrections and moments. */
  protected override state(): Tensor[] {
    return [this.correction1, this.correction2, ...this.mean, ...this.square];
  }

  /** `p -= lr * mean / (sqrt(square) + eps)`, both corrected. */
  protected override update(at: readonly number[]): Tensor[] {
    const { b1, b2, eps, weightDecay, rule } = this;
    const next1 = this.correction1.mul(b1).add(1 - b1), next2 = this.correction2.mul(b2).add(1 - b2);
    const c1 = next1.reshape([]), c2 = next2.reshape([]), lr = this.lr.reshape([]);
    const state = [this.correction1, this.correction2];
    for (const i of at) {
      const p = this.params[i], m = this.mean[i], v = this.square[i];
      let g: Tensor = p.grad!;
      if (weightDecay > 0 && rule === "adam") g = g.add(p.mul(weightDecay));
      const mean = m.mul(b1).add(g.mul(1 - b1)), square = v.mul(b2).add(g.square().mul(1 - b2));
      let up = mean.div(c1).div(square.div(c2).sqrt().add(eps));
      if (weightDecay > 0 && rule !== "adam") up = up.add(p.mul(weightDecay));
      if (rule === "lamb") up = up.mul(trustRatio(p, up));
      m.assign(mean.cast(m.dtype));
      v.assign(square.cast(v.dtype));
      p.assign(p.sub(up.mul(lr)).cast(p.dtype));
      state.push(m, v);
    }
    this.correction1.assign(next1);
    this.correction2.assign(next2);
    return state;
  }
}

/** |p| / |update|, and 1 where either is zero. */
function trustRatio(p: Tensor, up: Tensor): Tensor {
  const a = p.float().square().sum().sqrt(), b = up.float().square().sum().sqrt();
  return a.gt(0).where(b.gt(0).where(a.div(b), 1), 1);
}

function adamOptions(
  what: string,
  o: AdamOptions,
  defaults: { readonly eps: number; readonly weightDecay: number },
): Required<AdamOptions> {
  checkOptions(`make ${what}`, o, ["lr", "b1", "b2", "eps", "weightDecay"]);
  return {
    lr: o.lr ?? 1e-3,
    b1: o.b1 ?? 0.9,
    b2: o.b2 ?? 0.999,
    eps: o.eps ?? defaults.eps,
    weightDecay: o.weightDecay ?? defaults.weightDecay,
  };
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
  constructor(params: readonly Tensor[], options: AdamOptions = {}) {
    super("lamb", params, adamOptions("LAMB", options, { eps: 1e-6, weightDecay: 0 }));
  }
}

/** Several optimizers stepped as one, each with its own parameters and learning rate. */
export class OptimizerGroup {
  /** Its optimizers. */
  readonly optimizers: readonly Optimizer[];
  /** Takes the optimizers to step together. */
  constructor(...optimizers: readonly Optimizer[]) {
    this.optimizers = optimizers;
  }
  /** The tensors that are updated. */
  get params(): Tensor[] {
    return this.optimizers.flatMap((o) => o.params);
  }
  /** Forgets all gradients. */
  zeroGrad(): void {
    for (const o of this.optimizers) o.zeroGrad();
  }
  /** As {@linkcode Optimizer.scheduleStep}. */
  scheduleStep(): Tensor[] {
    return this.optimizers.flatMap((o) => o.scheduleStep());
  }
  /** As {@linkcode Optimizer.step}, in one schedule. */
  step(): void {
    Tensor.realize(this.scheduleStep());
    for (const o of this.optimizers) forgetLosses(gradsOf(o.params));
  }
}
