/**
 * Stochastic gradient descent and what is built on it: LARS, whose steps are as long as the weights, and Muon, whose
 * steps are orthogonal.
 *
 * @module
 */
import type { Checked } from "../../device/device.ts";
import { ArgumentError } from "../../helpers/errors.ts";
import { checkBoolean, checkInteger, checkOptions, describeList } from "../../helpers/options.ts";
import { gathered } from "../../tensor/shard.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import {
  checkRange,
  type FusedOptions,
  Optimizer,
  OPTIMIZER_OPTIONS,
  type OptimizerOptions,
  type Slot,
} from "./optimizer.ts";

/** Options of {@linkcode SGD}. */
export interface SGDOptions extends OptimizerOptions, FusedOptions {
  /** Share of the last update kept; 0 unless given. */
  readonly momentum?: number;
  /** Looks ahead by one update (Nesterov); false unless given. */
  readonly nesterov?: boolean;
  /** Whether the learning rate is part of the momentum, so that a change of it works slowly; false unless given. */
  readonly classic?: boolean;
}

/** Options of {@linkcode Muon}. */
export interface MuonOptions extends OptimizerOptions {
  /** Share of the last update kept; 0.95 unless given. */
  readonly momentum?: number;
  /** Looks ahead by one update (Nesterov); true unless given. */
  readonly nesterov?: boolean;
  /** Newton-Schulz iterations; 5 unless given. */
  readonly nsSteps?: number;
  /** Coefficients of an iteration's odd polynomial; 3.4445, -4.775, 2.0315 unless given. */
  readonly nsCoefficients?: readonly number[];
}

/** Options of {@linkcode LARS}. */
export interface LARSOptions extends MuonOptions {
  /** Whether the learning rate is part of the momentum; true unless given. */
  readonly classic?: boolean;
  /** Whether weight decay is added to the gradient, before momentum; true unless given. */
  readonly preWd?: boolean;
  /** Length of a step by length of the weights; 0.001 unless given, 0 for steps as long as they come. */
  readonly tcoef?: number;
}

/** A rule of the family, complete. */
interface Rule {
  readonly momentum: number;
  readonly weightDecay: number;
  readonly nesterov: boolean;
  readonly classic: boolean;
  readonly preWd: boolean;
  readonly tcoef: number;
  readonly nsSteps: number;
  readonly nsCoefficients: readonly number[];
}

const COEFFICIENTS = [3.4445, -4.775, 2.0315];

/** Throws where a rule looks ahead by no momentum. @throws {ArgumentError} */
function checkNesterov(action: string, { nesterov, momentum }: Rule): void {
  if (nesterov && momentum === 0) throw new ArgumentError(action, { reason: "nesterov needs a momentum" });
}

/** `g` as a matrix made orthogonal: products need all of it, so what is divided among devices is gathered. */
function orthogonal(g: Tensor, steps: number, coefficients: readonly number[]): Tensor {
  return gathered(g).reshape([g.shape[0] ?? 1, -1]).newtonSchulz(steps, coefficients).reshape(g.shape);
}

/** Descent with momentum: every rule of the family is a choice of these options. */
abstract class Descent extends Optimizer {
  private rule: Rule;
  private velocity: Tensor[];

  protected constructor(params: readonly Tensor[], options: OptimizerOptions & FusedOptions, rule: Rule) {
    super(params, options.lr ?? 1e-3, options);
    const name = this.constructor.name;
    checkRange(name, "momentum", rule.momentum, 0, 1);
    checkRange(name, "weightDecay", rule.weightDecay, 0, Infinity);
    checkRange(name, "tcoef", rule.tcoef, 0, Infinity);
    checkInteger(`make ${name}`, "nsSteps", rule.nsSteps, 0);
    const given: unknown = rule.nsCoefficients;
    if (!Array.isArray(given) || given.length === 0 || !Array.from(given).every((x) => typeof x === "number")) {
      throw new ArgumentError(`make ${name}`, {
        reason: `nsCoefficients must be a list of numbers, not ${describeList(given)}`,
      });
    }
    checkNesterov(`make ${name}`, rule);
    this.rule = rule;
    this.velocity = this.momentum > 0 ? this.moments() : [];
  }

  /** Share of the last update kept. */
  get momentum(): number {
    return this.rule.momentum;
  }
  set momentum(value: number) {
    this.change("momentum", { momentum: this.changed("momentum", value, 0, 1) });
    if (value === 0 || this.velocity.length > 0) return;
    this.velocity = this.moments();
    this.ready = false;
  }
  /** Whether it looks ahead by one update. */
  get nesterov(): boolean {
    return this.rule.nesterov;
  }
  set nesterov(value: boolean) {
    this.checkFree("nesterov");
    this.change("nesterov", {
      nesterov: checkBoolean(`set nesterov of ${this.constructor.name}`, "nesterov", value),
    });
  }
  /** Pull of the weights toward zero. */
  get weightDecay(): number {
    return this.rule.weightDecay;
  }
  set weightDecay(value: number) {
    this.change("weightDecay", { weightDecay: this.changed("weightDecay", value, 0, Infinity) });
  }
  private change(name: string, part: Partial<Rule>): void {
    const rule = { ...this.rule, ...part };
    checkNesterov(`set ${name} of ${this.constructor.name}`, rule);
    this.rule = rule;
  }

  /** The velocities. */
  protected override state(): Tensor[] {
    return this.velocity;
  }

  /** `p -= lr * v`. */
  protected override update(slots: readonly Slot[]): Tensor[] {
    const state: Tensor[] = [], { momentum, nesterov, weightDecay } = this;
    const { classic, preWd, tcoef, nsSteps, nsCoefficients } = this.rule;
    for (const slot of slots) {
      const lr = this.beside(this.lr, slot.value), step = tcoef === 0 ? lr : lr.mul(this.trust(slot));
      let p = slot.value, g = slot.grad;
      if (preWd && weightDecay > 0) g = g.add(p.mul(weightDecay));
      if (classic) g = g.mul(step);
      if (momentum > 0) {
        const v = this.velocity[slot.at], next = v.mul(momentum).add(g);
        g = nesterov ? g.add(next.mul(momentum)) : next;
        this.keep(v, next);
        state.push(v);
      }
      if (nsSteps > 0) g = orthogonal(g, nsSteps, nsCoefficients);
      if (!preWd && weightDecay > 0) p = p.mul(lr.mul(-weightDecay).add(1));
      if (!classic) g = g.mul(step);
      this.write(slot, p.sub(g));
    }
    return state;
  }

  /** How long a step is by how long the weights are; 1 where either is zero. */
  private trust({ value, grad }: Slot): Tensor {
    const p = value.float().square().sum().sqrt(), g = grad.float().square().sum().sqrt();
    const ratio = p.mul(this.rule.tcoef).div(g.add(p.mul(this.weightDecay)));
    return p.gt(0).where(g.gt(0).where(ratio, 1), 1);
  }
}

/** Stochastic gradient descent, as PyTorch's: `v = momentum * v + g + weightDecay * p; p -= lr * v`. */
export class SGD<N extends string = string> extends Descent {
  /** lr is 0.001 unless given. @throws {ArgumentError} for an unknown option or one out of range */
  constructor(params: readonly Tensor[], options: Checked<SGDOptions, N> = {}) {
    checkOptions("make SGD", options, [...OPTIMIZER_OPTIONS, "momentum", "nesterov", "classic", "fused"]);
    const { momentum = 0, weightDecay = 0, nesterov = false, classic = false } = options;
    const rest = { preWd: true, tcoef: 0, nsSteps: 0, nsCoefficients: COEFFICIENTS };
    super(params, options, { momentum, weightDecay, nesterov, classic, ...rest });
  }
}

/** Layer-wise adaptive rate scaling (You et al., arXiv 1708.03888): steps in proportion to the norm of the weights. */
export class LARS<N extends string = string> extends Descent {
  /** lr 0.001, momentum 0.9, weightDecay 0.0001 unless given. @throws {ArgumentError} for a bad option */
  constructor(params: readonly Tensor[], options: Checked<LARSOptions, N> = {}) {
    const known = ["momentum", "nesterov", "nsSteps", "nsCoefficients", "classic", "preWd", "tcoef"];
    checkOptions("make LARS", options, [...OPTIMIZER_OPTIONS, ...known]);
    const { momentum = 0.9, weightDecay = 1e-4, nesterov = false, classic = true, preWd = true } = options;
    const { tcoef = 0.001, nsSteps = 0, nsCoefficients = COEFFICIENTS } = options;
    super(params, options, { momentum, weightDecay, nesterov, classic, preWd, tcoef, nsSteps, nsCoefficients });
  }
}

/**
 * Muon (Jordan et al., 2024, https://kellerjordan.github.io/posts/muon): momentum made orthogonal by Newton-Schulz
 * iterations, with decoupled weight decay. For the matrices of hidden layers; a tensor of more axes is taken as a matrix
 * of its first axis by all others.
 */
export class Muon<N extends string = string> extends Descent {
  /** lr 0.001, momentum 0.95, weightDecay 0.1, nesterov true unless given. @throws {ArgumentError} for a bad option */
  constructor(params: readonly Tensor[], options: Checked<MuonOptions, N> = {}) {
    checkOptions("make Muon", options, [...OPTIMIZER_OPTIONS, "momentum", "nesterov", "nsSteps", "nsCoefficients"]);
    const { momentum = 0.95, weightDecay = 0.1, nesterov = true, nsSteps = 5, nsCoefficients = COEFFICIENTS } = options;
    const rest = { classic: false, preWd: false, tcoef: 0 };
    super(params, options, { momentum, weightDecay, nesterov, nsSteps, nsCoefficients, ...rest });
  }
}
