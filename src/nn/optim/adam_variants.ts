/**
 * Rules of the Adam family that weigh its moments otherwise: NAdam looks ahead, RAdam waits until squares are known well
 * enough, Adamax divides by the largest gradient instead of by the root of squares.
 *
 * @module
 */
import type { Checked } from "../../device/device.ts";
import { checkBoolean } from "../../helpers/options.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import { AdamFamily, type AdamOptions, adamOptions, type Clock, type Moments } from "./adam.ts";
import { checkRange } from "./optimizer.ts";

/** Options of {@linkcode RAdam}. */
export interface RAdamOptions extends AdamOptions {
  /** Whether the pull toward zero is no part of the gradient, as AdamW's; false unless given. */
  readonly decoupledWeightDecay?: boolean;
}

/** Options of {@linkcode NAdam}. */
export interface NAdamOptions extends RAdamOptions {
  /** How fast the momentum comes to `b1`: 0.96 to this power is what is left after a step; 0.004 unless given. */
  readonly momentumDecay?: number;
}

/** Whether weight decay is decoupled. @throws {ArgumentError} */
function isDecoupled(what: string, { decoupledWeightDecay = false }: RAdamOptions): boolean {
  return checkBoolean(`make ${what}`, "decoupledWeightDecay", decoupledWeightDecay);
}

/** Adam with Nesterov's momentum (Dozat, ICLR Workshop 2016), as PyTorch has it. */
export class NAdam<N extends string = string> extends AdamFamily {
  /** How fast the momentum comes to `b1`. */
  readonly momentumDecay: number;
  /** 0.96^(t * momentumDecay), and the product of all momenta. */
  private readonly fade: Tensor;
  private readonly product: Tensor;

  /** lr 0.002, b1 0.9, b2 0.999, eps 1e-8, momentumDecay 0.004, weightDecay 0 unless given. @throws {ArgumentError} */
  constructor(params: readonly Tensor[], options: Checked<NAdamOptions, N> = {}) {
    const known = ["fused", "decoupledWeightDecay", "momentumDecay"];
    const complete = adamOptions("NAdam", options, { lr: 2e-3 }, known);
    super(params, complete, isDecoupled("NAdam", options));
    this.momentumDecay = checkRange("NAdam", "momentumDecay", options.momentumDecay ?? 0.004, 0, Infinity);
    this.fade = this.scalarState(1);
    this.product = this.scalarState(1);
  }
  protected override state(): Tensor[] {
    return [this.fade, this.product, ...super.state()];
  }

  /** The momentum of a step at which the fade is this. */
  private momentum(fade: Tensor): Tensor {
    return fade.mul(-0.5).add(1).mul(this.b1);
  }
  protected override clocks(): Clock[] {
    const fade = this.fade.mul(0.96 ** this.momentumDecay);
    return [[this.fade, fade], [this.product, this.product.mul(this.momentum(fade))]];
  }
  /** The gradient by this step's momentum, the mean by the next one's. */
  protected override direction({ g, mean, square, c2, clocks: [fade, product] }: Moments): Tensor {
    const now = this.momentum(fade), next = this.momentum(fade.mul(0.96 ** this.momentumDecay));
    const ofGradient = now.neg().add(1).div(product.neg().add(1));
    const ofMean = next.div(product.mul(next).neg().add(1));
    return g.mul(ofGradient).add(mean.mul(ofMean)).div(square.div(c2).sqrt().add(this.eps));
  }
}

/** Rectified Adam (Liu et al., arXiv 1908.03265), as PyTorch has it. */
export class RAdam<N extends string = string> extends AdamFamily {
  /** Steps so far, and the sum of (2k + 1) b2^k over them: the length of the average of squares but for a factor. */
  private readonly steps: Tensor;
  private readonly length: Tensor;

  /** lr 0.001, b1 0.9, b2 0.999, eps 1e-8, weightDecay 0 unless given. @throws {ArgumentError} for a bad option */
  constructor(params: readonly Tensor[], options: Checked<RAdamOptions, N> = {}) {
    const complete = adamOptions("RAdam", options, {}, ["fused", "decoupledWeightDecay"]);
    super(params, complete, isDecoupled("RAdam", options));
    this.steps = this.scalarState(0);
    this.length = this.scalarState(0);
  }
  protected override state(): Tensor[] {
    return [this.steps, this.length, ...super.state()];
  }

  /** Sums of what is positive: the paper's difference of two long averages cancels in float32. */
  protected override clocks(correction2: Tensor): Clock[] {
    const { steps, length } = this, part = correction2.neg().add(1).mul(steps.mul(2).add(1));
    return [[steps, steps.add(1)], [length, length.add(part)]];
  }
  /** The mean, divided by the root of squares once their average is longer than 5 steps. */
  protected override direction({ mean, square, c1, c2, clocks: [, length] }: Moments): Tensor {
    const { b2, eps } = this, most = 2 / (1 - b2) - 1, rho = length.mul(1 - b2).div(c2), isLong = rho.gt(5);
    const known = isLong.where(rho, 6); // roots of what is not used have no NaN
    const rect = known.sub(4).mul(known.sub(2)).mul(most).div(known.mul((most - 4) * (most - 2))).sqrt();
    const adapted = rect.mul(c2.sqrt()).div(square.sqrt().add(eps));
    return mean.div(c1).mul(isLong.where(adapted, 1));
  }
}

/** Adam by the largest gradient so far, which decays (Kingma and Ba, arXiv 1412.6980, section 7.1), as PyTorch has it. */
export class Adamax<N extends string = string> extends AdamFamily {
  /** lr 0.002, b1 0.9, b2 0.999, eps 1e-8, weightDecay 0 unless given. @throws {ArgumentError} for a bad option */
  constructor(params: readonly Tensor[], options: Checked<AdamOptions, N> = {}) {
    super(params, adamOptions("Adamax", options, { lr: 2e-3 }), false);
  }
  protected override sizes(kept: Tensor, g: Tensor): Tensor {
    return kept.mul(this.b2).maximum(g.abs().add(this.eps));
  }
  protected override direction({ mean, square, c1 }: Moments): Tensor {
    return mean.div(c1.mul(square));
  }
}
