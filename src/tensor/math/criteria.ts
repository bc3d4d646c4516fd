/**
 * Losses of regression and of embeddings, and how alike two tensors are. Names, parameters and defaults are
 * PyTorch's; what is taken as "reduction" is that of loss.ts.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { ArgumentError, IndexError, ShapeError } from "../../helpers/errors.ts";
import { sameArray } from "../../helpers/math.ts";
import { checkBoolean, checkChoice, checkInteger, checkNumber, checkOptions } from "../../helpers/options.ts";
import { Ops } from "../../uop/core/ops.ts";
import { type UOp, uop } from "../../uop/core/uop.ts";
import { resolveAxis } from "../handle/axes.ts";
import { checkTensor, maybeTensor, type Operand, TensorBase } from "../handle/base.ts";
import { broadcastShape } from "../handle/broadcast.ts";
import type { PlaceTensor } from "../index/places.ts";
import { hostValues } from "../nodes/select.ts";
import type { SpecialTensor } from "../ops/special.ts";
import type { LossOptions, LossTensor } from "./loss.ts";
import type { NormTensor } from "./norms.ts";

/** The families that it is written in. */
export interface CriterionTensor extends LossTensor, NormTensor, PlaceTensor, SpecialTensor {}
/** Tensors with more losses. */
export abstract class CriterionTensor extends TensorBase {
  /** The other operand, of the shape that both have. @throws {ShapeError} */
  private target(action: string, target: Operand): this {
    const y = this.operand(target, action) as this;
    broadcastShape(action, [this.shape, y.shape]);
    return y;
  }

  /** Losses reduced, by options that have been checked. */
  private summed(action: string, options: LossOptions): this {
    const { reduction = "mean" } = options;
    checkChoice(action, "reduction", reduction, ["mean", "sum", "none"]);
    return reduction === "none" ? this : reduction === "sum" ? this.sum() : this.mean();
  }

  /** (this - target)^2. @throws {ShapeError} where they do not broadcast */
  mseLoss(target: Operand, options: LossOptions & { readonly weight?: Operand } = {}): this {
    checkOptions("mseLoss", options, ["reduction", "weight"]);
    return this.sub(this.target("mseLoss", target)).square().weightedBy("mseLoss", options);
  }

  /** |this - target|. @throws {ShapeError} where they do not broadcast */
  l1Loss(target: Operand, options: LossOptions & { readonly weight?: Operand } = {}): this {
    checkOptions("l1Loss", options, ["reduction", "weight"]);
    return this.sub(this.target("l1Loss", target)).abs().weightedBy("l1Loss", options);
  }

  /** Losses times weights, whose sum the mean is over. */
  private weightedBy(action: string, options: LossOptions & { readonly weight?: Operand }): this {
    if (options.weight === undefined) return this.summed(action, options);
    const w = (this.operand(options.weight, action) as this).expand(this.symbolicShape), losses = this.mul(w);
    return (options.reduction ?? "mean") === "mean" ? losses.sum().div(w.sum()) : losses.summed(action, options);
  }

  /** d^2 / 2 for |d| = |this - target| up to `delta` (1), and delta (|d| - delta / 2) beyond. @throws {ArgumentError} unless delta > 0 */
  huberLoss(target: Operand, options: LossOptions & { readonly delta?: number } = {}): this {
    const { delta = 1 } = checkOptions("huberLoss", options, ["reduction", "delta"]);
    checkNumber("huberLoss", "delta", delta);
    if (!(delta > 0)) throw new ArgumentError("huberLoss", { reason: `delta must be above 0, not ${delta}` });
    const d = this.sub(this.target("huberLoss", target)), a = d.abs();
    const far = a.gt(delta), losses = far.where(a.sub(delta / 2).mul(delta), d.except(far).square().mul(0.5)) as this;
    return losses.summed("huberLoss", options);
  }

  /** d^2 / 2 beta for |d| = |this - target| below `beta` (1), and |d| - beta / 2 beyond. @throws {ArgumentError} for beta < 0 */
  smoothL1Loss(target: Operand, options: LossOptions & { readonly beta?: number } = {}): this {
    const { beta = 1 } = checkOptions("smoothL1Loss", options, ["reduction", "beta"]);
    if (!(beta >= 0)) throw new ArgumentError("smoothL1Loss", { reason: `beta must be at least 0, not ${beta}` });
    const d = this.sub(this.target("smoothL1Loss", target)), a = d.abs();
    const far = a.ge(beta), square = (): this => d.except(far).square().mul(0.5 / beta);
    const losses = beta === 0 ? a : far.where(a.sub(beta / 2), square()) as this;
    return losses.summed("smoothL1Loss", options);
  }

  /** This, and 0 where a condition holds: infinities there have no part in the gradient. */
  private except(condition: this): this {
    return condition.where(0, this) as this;
  }

  /**
   * target (log(target) - this), of log-probabilities: Kullback and Leibler's divergence. With `logTarget` the target is
   * logarithms, too. "batchmean" is the sum over the size of the first axis.
   *
   * @throws {ShapeError} where they do not broadcast
   */
  klDiv(
    target: Operand,
    options: { readonly reduction?: "mean" | "sum" | "none" | "batchmean"; readonly logTarget?: boolean } = {},
  ): this {
    const action = "klDiv",
      { reduction = "mean", logTarget = false } = checkOptions(action, options, ["reduction", "logTarget"]);
    checkChoice(action, "reduction", reduction, ["mean", "sum", "none", "batchmean"]);
    checkBoolean(action, "logTarget", logTarget);
    const y = this.target(action, target);
    const losses = logTarget ? y.exp().mul(y.sub(this)) : y.xlogy(y).sub(y.mul(this));
    if (reduction === "batchmean") return losses.sum().div(this.symbolicShape[0] ?? 1);
    return losses.summed(action, { reduction });
  }

  /** e^x - target x for logarithms of rates (`logInput`), or x - target log(x + eps); with `full` and Stirling's term. @throws {ShapeError} */
  poissonNllLoss(
    target: Operand,
    options: LossOptions & { readonly logInput?: boolean; readonly full?: boolean; readonly eps?: number } = {},
  ): this {
    const action = "poissonNllLoss", known = ["logInput", "full", "eps", "reduction"];
    const { logInput = true, full = false, eps = 1e-8 } = checkOptions(action, options, known);
    checkBoolean(action, "logInput", logInput);
    checkBoolean(action, "full", full);
    const y = this.target(action, target);
    let losses = logInput ? this.exp().sub(y.mul(this)) : this.sub(y.mul(this.add(eps).log()));
    if (full) {
      const at = y.gt(1).where(y, 1) as this, rest = at.log().mul(at).sub(at).add(at.mul(2 * Math.PI).log().mul(0.5));
      losses = losses.add(y.gt(1).where(rest, 0) as this);
    }
    return losses.summed(action, options);
  }

  /** (log(variance) + (this - target)^2 / variance) / 2, of variances of at least `eps` (1e-6); with `full` and log(2 pi) / 2. @throws {ShapeError} */
  gaussianNllLoss(
    target: Operand,
    variance: Operand,
    options: LossOptions & { readonly full?: boolean; readonly eps?: number } = {},
  ): this {
    const action = "gaussianNllLoss",
      { full = false, eps = 1e-6 } = checkOptions(action, options, ["full", "eps", "reduction"]);
    checkBoolean(action, "full", full);
    let v = this.operand(variance, action) as this;
    if (v.ndim > 0 && v.ndim === this.ndim - 1) v = v.unsqueeze(-1); // one for all of the last axis
    const limited = v.lt(eps).where(eps, v) as this;
    const d = this.sub(this.target(action, target)), half = limited.log().add(d.square().div(limited)).mul(0.5);
    return (full ? half.add(0.5 * Math.log(2 * Math.PI)) : half).summed(action, options);
  }

  /** This, without a gradient. */
  protected detached(): UOp {
    return uop(Ops.DETACH, this.dtype, [this.uop]);
  }

  // ---- distances and likeness

  /** The cosine of the angle of this and `x2` along `dim` (1); norms are at least `eps` (1e-8). @throws {ShapeError} where they do not broadcast */
  cosineSimilarity(x2: this, dim = 1, options: { readonly eps?: number } = {}): this {
    const action = "cosineSimilarity", { eps = 1e-8 } = checkOptions(action, options, ["eps"]);
    const shape = broadcastShape(action, [this.shape, checkTensor(action, "x2", x2).shape]),
      axis = resolveAxis(action, dim, shape);
    const unit = (t: this): this => {
      const x = t.expand(shape), norm = x.vectorNorm({ dim: axis, keepdim: true });
      return x.div(norm.add(this.wrap(norm.maximum(eps).sub(norm).detached()))); // the limit leaves the slope, as in PyTorch
    };
    return shape.length === 0 ? unit(this).mul(unit(x2)) : unit(this).mul(unit(x2)).sum(axis);
  }

  /** The norm of order `p` (2) of this - x2 + eps (1e-6), over the last axis. @throws {ShapeError} where they do not broadcast */
  pairwiseDistance(
    x2: this,
    options: { readonly p?: number; readonly eps?: number; readonly keepdim?: boolean } = {},
  ): this {
    const { p = 2, eps = 1e-6, keepdim } = checkOptions("pairwiseDistance", options, ["p", "eps", "keepdim"]);
    const d = this.sub(checkTensor("pairwiseDistance", "x2", x2)).add(eps);
    return d.vectorNorm({ ord: checkNumber("pairwiseDistance", "p", p), dim: -1, keepdim });
  }

  /** 1 - cos for a target of 1, and max(0, cos - margin) for -1, of pairs of rows. @throws {ShapeError} */
  cosineEmbeddingLoss(x2: this, target: this, options: LossOptions & { readonly margin?: number } = {}): this {
    const action = "cosineEmbeddingLoss", { margin = 0 } = checkOptions(action, options, ["margin", "reduction"]);
    checkTensor(action, "x2", x2);
    const last = checkTensor(action, "target", target).ndim, eps = 1e-12;
    const dot = (a: this, b: this): this => a.mul(b).sum(last),
      one = dot(this, this).add(eps),
      two = dot(x2, x2).add(eps);
    const cos = dot(this, x2).div(one.mul(two).sqrt());
    const losses = target.eq(1).where(cos.sub(1, { reverse: true }), target.eq(-1).where(cos.sub(margin).relu(), 0));
    return (losses as this).summed(action, options);
  }

  /** max(0, -target (this - x2) + margin). @throws {ShapeError} */
  marginRankingLoss(x2: this, target: this, options: LossOptions & { readonly margin?: number } = {}): this {
    const action = "marginRankingLoss", { margin = 0 } = checkOptions(action, options, ["margin", "reduction"]);
    const d = this.sub(checkTensor(action, "x2", x2)).mul(checkTensor(action, "target", target));
    return d.sub(margin, { reverse: true }).hinge().summed(action, options);
  }

  /** The larger of this and 0, with the whole slope at 0, as a limit has it. */
  private hinge(): this {
    return this.lt(0).where(0, this) as this;
  }

  /** x for a target of 1, and max(0, margin - x) for -1. @throws {ShapeError} */
  hingeEmbeddingLoss(target: this, options: LossOptions & { readonly margin?: number } = {}): this {
    const action = "hingeEmbeddingLoss", { margin = 1 } = checkOptions(action, options, ["margin", "reduction"]);
    checkTensor(action, "target", target);
    const away = target.ne(1).where(this.sub(margin, { reverse: true }).hinge(), 0) as this;
    return away.add(target.ne(-1).where(this, 0) as this).summed(action, options);
  }

  /** log(1 + e^(-target x)). @throws {ShapeError} */
  softMarginLoss(target: Operand, options: LossOptions = {}): this {
    checkOptions("softMarginLoss", options, ["reduction"]);
    return this.mul(this.target("softMarginLoss", target)).neg().softplus().summed("softMarginLoss", options);
  }

  /** The mean over classes of the binary cross entropy of logits `[..., C]`, times `weight` `[C]`. @throws {ShapeError} */
  multilabelSoftMarginLoss(target: this, weight?: this | null, options: LossOptions = {}): this {
    const action = "multilabelSoftMarginLoss";
    checkOptions(action, options, ["reduction"]);
    const y = this.target(action, checkTensor(action, "target", target)), no = this.neg().logsigmoid();
    const w = maybeTensor(action, "weight", weight);
    const each = y.mul(this.logsigmoid()).add(y.sub(1, { reverse: true }).mul(no)).neg();
    return (w === undefined ? each : each.mul(w)).mean(-1).summed(action, options);
  }

  /** The sum over other classes of max(0, margin - x[target] + x)^p, over the number of classes. @throws {ShapeError} */
  multiMarginLoss(
    target: this,
    weight?: this | null,
    options: LossOptions & { readonly p?: number; readonly margin?: number } = {},
  ): this {
    const action = "multiMarginLoss",
      { p = 1, margin = 1 } = checkOptions(action, options, ["p", "margin", "reduction"]);
    checkTensor(action, "target", target);
    const w = maybeTensor(action, "weight", weight);
    if (this.ndim > 2 || target.numel() !== (this.ndim === 2 ? this.shape[0] : 1)) {
      throw new ShapeError(action, {
        shapes: [this.shape, target.shape],
        reason: "they take the forms [N, C] and [N], or [C] and a scalar",
      });
    }
    const x = this.ndim < 2 ? this.reshape([1, -1]) : this, [n, classes] = x.shape, y = target.reshape([n, 1]);
    const own = x.gather(1, y), gap = x.sub(own).add(margin).relu();
    let losses = checkInteger(action, "p", p, 1) === 1 ? gap : gap.pow(p);
    if (w !== undefined) losses = losses.mul(w.take(y));
    const hit = losses.mul(y.flatten().oneHot(classes).eq(0)).mean(1);
    return (this.ndim < 2 ? hit.reshape([]) : hit).summed(action, options);
  }

  /**
   * Of each row of `[N, C]`, or of `[C]`: the sum of max(0, 1 - x[j] + x[i]) over its labels j and all i that are none, over
   * C. Labels are positions up to the first -1 of a row of `target`, which has the shape of this. A scalar is one class.
   *
   * @throws {ShapeError} for other shapes {IndexError} for a label that is no class, where labels are known on the host
   */
  multilabelMarginLoss(target: this, options: LossOptions = {}): this {
    const action = "multilabelMarginLoss";
    checkOptions(action, options, ["reduction"]);
    if (this.ndim > 2 || !sameArray(this.shape, checkTensor(action, "target", target).shape)) {
      throw new ShapeError(action, {
        shapes: [this.shape, target.shape],
        reason: "both take the form [N, C], or [C]",
      });
    }
    const x = this.ndim < 2 ? this.reshape([1, -1]) : this, [n, classes] = x.shape;
    if (classes === 0) throw new ShapeError(action, { shapes: [this.shape], reason: "there are no classes" });
    const y = target.reshape([n, classes]).cast(dtypes.int32), isLabel = y.ge(0).cumprod(1).bool();
    const bad = Array.from(hostValues(target.uop) ?? [], Number).find((label) => label < -1 || label >= classes);
    if (bad !== undefined) throw new IndexError(action, { reason: `label ${bad} is none of ${classes} classes` });
    const places = isLabel.where(y, -1).unsqueeze(2), all = y.constLike(1).cumsum(1).sub(1).unsqueeze(1);
    const isOther = places.eq(all).any(1).logicalNot(), own = x.gather(1, y.clamp(0, classes - 1));
    const gaps = x.unsqueeze(1).sub(own.unsqueeze(2)).add(1).relu(); // [N, label, class]
    const counted = isLabel.unsqueeze(2).bitwiseAnd(isOther.unsqueeze(1)).where(gaps, 0) as this;
    const losses = counted.sum(1).mean(1) as this;
    return (this.ndim < 2 ? losses.reshape([]) : losses).summed(action, options);
  }

  /** max(0, |this - positive| - |this - negative| + margin), by distances of order `p`; with `swap` that of both from each other counts, where it is less. @throws {ShapeError} */
  tripletMarginLoss(
    positive: this,
    negative: this,
    options: LossOptions & {
      readonly margin?: number;
      readonly p?: number;
      readonly eps?: number;
      readonly swap?: boolean;
    } = {},
  ): this {
    const action = "tripletMarginLoss", known = ["margin", "p", "eps", "swap", "reduction"];
    const { margin = 1, p = 2, eps = 1e-6, swap = false } = checkOptions(action, options, known);
    checkBoolean(action, "swap", swap);
    if (!(checkNumber(action, "margin", margin) > 0)) {
      throw new ArgumentError(action, { reason: `margin must be above 0, not ${margin}` });
    }
    checkTensor(action, "positive", positive);
    const near = this.pairwiseDistance(positive, { p, eps });
    let far = this.pairwiseDistance(checkTensor(action, "negative", negative), { p, eps });
    if (swap) far = far.minimum(positive.pairwiseDistance(negative, { p, eps }));
    return near.sub(far).add(margin).hinge().summed(action, options);
  }
}
