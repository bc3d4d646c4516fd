/**
 * Losses of regression, of embeddings and of sequences, and how alike two tensors are. Names, parameters and defaults are
 * PyTorch's; what is taken as "reduction" is that of loss.ts.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { floatOf, promote } from "../../dtype/promotion.ts";
import { ArgumentError, DTypeError, IndexError, ShapeError } from "../../helpers/errors.ts";
import { sameArray } from "../../helpers/math.ts";
import { checkBoolean, checkChoice, checkInteger, checkNumber, checkOptions } from "../../helpers/options.ts";
import { Ops } from "../../uop/core/ops.ts";
import { constant, type UOp, uop, variable } from "../../uop/core/uop.ts";
import { resolveAxis } from "../handle/axes.ts";
import { checkTensor, maybeTensor, type NestedArray, type Operand, TensorBase } from "../handle/base.ts";
import { broadcastShape } from "../handle/broadcast.ts";
import type { PlaceTensor } from "../index/places.ts";
import { hostValues } from "../nodes/select.ts";
import type { SpecialTensor } from "../ops/special.ts";
import type { LossOptions, LossTensor } from "./loss.ts";
import type { NormTensor } from "./norms.ts";

/** What stands for the logarithm of 0, so that no difference of two is NaN. */
const NEVER = -1e30;

/** Options of {@linkcode CriterionTensor.ctcLoss}. */
export interface CtcOptions extends LossOptions {
  /** The class that stands for no label. Default 0. */
  readonly blank?: number;
  /** Whether losses that are infinite count 0, with a gradient of 0. Default false. */
  readonly zeroInfinity?: boolean;
}

/** Throws for lengths known on the host that reach beyond what there is. @throws {ArgumentError} */
function checkLengths(action: string, name: string, lengths: UOp, most: number): void {
  const bad = hostValues(lengths)?.find((n) => n < 0 || n > most);
  if (bad === undefined) return;
  throw new ArgumentError(action, { reason: `${name} must lie between 0 and ${most}, and one is ${bad}` });
}

/** Throws for labels that count and name no class, where they are known on the host. @throws {IndexError} */
function checkClasses(action: string, targets: TensorBase, lengths: UOp, classes: number): void {
  const values = hostValues(targets.uop), counts = hostValues(lengths), width = targets.shape[targets.ndim - 1];
  if (values === undefined || counts === undefined || values.length > 65536) return;
  const isPadding = (at: number): boolean => targets.ndim === 2 && at % width >= Number(counts[Math.floor(at / width)]);
  const bad = Array.from(values, Number).find((v, at) => (v < 0 || v >= classes) && !isPadding(at));
  if (bad !== undefined) throw new IndexError(action, { reason: `label ${bad} is none of ${classes} classes` });
}

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
    const w = (this.operand(options.weight, action) as this).expand(this.shape), losses = this.mul(w);
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
    if (reduction === "batchmean") return losses.sum().div(this.shape[0] ?? 1);
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
  private detached(): UOp {
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
    const hit = losses.mul(y.flatten().oneHot(classes).eq(0)).sum(1).div(classes);
    return (this.ndim < 2 ? hit.reshape([]) : hit).summed(action, options);
  }

  /**
   * Of each row of `[N, C]`, or of `[C]`: the sum of max(0, 1 - x[j] + x[i]) over its labels j and all i that are none, over
   * C. Labels are positions up to the first -1 of a row of `target`, which has the shape of this.
   *
   * @throws {ShapeError} for other shapes {IndexError} for a label that is no class, where labels are known on the host
   */
  multilabelMarginLoss(target: this, options: LossOptions = {}): this {
    const action = "multilabelMarginLoss";
    checkOptions(action, options, ["reduction"]);
    if (this.ndim < 1 || this.ndim > 2 || !sameArray(this.shape, checkTensor(action, "target", target).shape)) {
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
    const losses = counted.sum([1, 2]).div(classes) as this;
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

  // ---- sequences

  /**
   * Connectionist temporal classification (A. Graves et al., 2006): of log-probabilities `[T, N, C]` (or `[T, C]`) for
   * `targets` `[N, S]` (or all of them, one after the other), of which the first `inputLengths` and `targetLengths` count.
   * The mean is that of losses over their targets' lengths. Infinite where a target cannot be reached.
   *
   * @throws {ShapeError} where they do not fit, {DTypeError} for targets that are no integers
   */
  ctcLoss(
    targets: this,
    inputLengths: this | NestedArray | number,
    targetLengths: this | NestedArray | number,
    options: CtcOptions = {},
  ): this {
    const action = "ctcLoss", known = ["blank", "reduction", "zeroInfinity"];
    const { blank = 0, reduction = "mean", zeroInfinity = false } = checkOptions(action, options, known);
    checkBoolean(action, "zeroInfinity", zeroInfinity);
    checkChoice(action, "reduction", reduction, ["mean", "sum", "none"]);
    const single = this.ndim === 2,
      x = single ? this.unsqueeze(1) : this,
      d = promote(floatOf(this.dtype), dtypes.float32);
    checkTensor(action, "targets", targets);
    if (x.ndim !== 3 || targets.ndim > 2 || targets.ndim < 1) {
      throw new ShapeError(action, {
        shapes: [this.shape, targets.shape],
        reason: "it takes log-probabilities [T, N, C] and targets [N, S]",
      });
    }
    if (!targets.dtype.isInt) {
      throw new DTypeError(`${action} with targets of dtype`, {
        dtypes: [targets.dtype],
        reason: "classes are integers",
      });
    }
    const [steps, n, classes] = x.shape, int = dtypes.int32;
    if (checkInteger(action, "blank", blank, 0) >= classes) {
      throw new ArgumentError(action, { reason: `blank ${blank} is none of ${classes} classes` });
    }
    const lengths = [inputLengths, targetLengths].map((l, i) => {
      const given = (this.operand(typeof l === "number" ? [l] : l, action) as this).cast(int).flatten();
      if (sameArray(given.shape, [n])) return given;
      throw new ShapeError(action, {
        shapes: [given.shape],
        reason: `${["inputLengths", "targetLengths"][i]} must be [${n}]`,
      });
    });
    const [T, L] = lengths;
    checkLengths(action, "inputLengths", T.uop, steps);
    checkLengths(action, "targetLengths", L.uop, targets.shape[targets.ndim - 1]);
    checkClasses(action, targets, L.uop, classes);
    let labels = targets.cast(int);
    if (labels.ndim === 1 && n === 1) labels = labels.unsqueeze(0);
    else if (labels.ndim === 1) { // one after the other
      const most = labels.shape[0], place = labels.constLike(1).cumsum(0).sub(1).unsqueeze(0);
      const at = place.add(L.cumsum(0).sub(L).unsqueeze(1)).clamp(0, Math.max(most - 1, 0));
      labels = most === 0 ? labels.reshape([1, 0]).expand([n, 0]) : labels.take(at);
    } else if (labels.shape[0] !== n) {
      throw new ShapeError(action, {
        shapes: [this.shape, targets.shape],
        axis: 0,
        reason: `there must be ${n} targets`,
      });
    }
    // a blank before each label and at the end
    const [, most] = labels.shape, width = 2 * most + 1;
    const wide = labels.unsqueeze(2).pad([[0, 0], [0, 0], [1, 0]], { value: blank }).reshape([n, 2 * most])
      .pad([[0, 0], [0, 1]], { value: blank });
    const before = wide.pad([[0, 0], [2, 0]], { value: blank }).shrink([[0, n], [0, width]]);
    const place = wide.constLike(1).cumsum(1).sub(1),
      skips = wide.ne(blank).bitwiseAnd(wide.ne(before)).bitwiseAnd(place.ge(2));
    const safe = wide.clamp(0, classes - 1).storedAs(),
      own = x.cast(d).maximum(NEVER).gather(2, safe.unsqueeze(0).expand([steps, n, width])).storedAs();
    const never = this.wrap(constant(NEVER, d));
    let alpha = place.lt(2).where(own.select3(0, n, width), never) as this;
    const moved = (a: this, by: number): this =>
      a.pad([[0, 0], [by, 0]], { value: NEVER }).shrink([[0, n], [0, width]]);
    for (let t = 1; t < steps; t++) {
      const k = uop(Ops.BIND, int, [variable("step", 0, steps - 1), constant(t, int)]), at = this.wrap(k);
      const one = moved(alpha, 1),
        two = skips.where(moved(alpha, 2), never) as this,
        high = alpha.maximum(one).maximum(two);
      const base = this.wrap(high.detached()), part = (a: this): this => a.sub(base).exp();
      const sum = part(alpha).add(part(one)).add(part(two)).log().add(base);
      const next = sum.add(own.at(at)).maximum(NEVER);
      alpha = (T.unsqueeze(1).gt(at).where(next, alpha) as this).storedAs();
    }
    const end = alpha.gather(1, L.mul(2).unsqueeze(1).storedAs()).squeeze(1);
    const last = alpha.gather(1, L.mul(2).sub(1).clamp(0).unsqueeze(1).storedAs()).squeeze(1);
    const found = L.gt(0).where(end.logaddexp(last), end).neg() as this, isFar = found.gt(-NEVER / 2);
    const losses = isFar.where(zeroInfinity ? 0 : Infinity, found).cast(this.dtype) as this;
    if (reduction === "none") return single ? losses.reshape([]) : losses;
    return reduction === "sum" ? losses.sum() : losses.div(L.clamp(1)).mean();
  }

  /** Kept in memory of its own. */
  private storedAs(): this {
    return this.wrap(uop(Ops.CONTIGUOUS, this.dtype, [this.uop]));
  }
  /** Position `t` of the first axis. */
  private select3(t: number, n: number, width: number): this {
    return this.shrink([[t, t + 1], [0, n], [0, width]]).reshape([n, width]);
  }
}
