/**
 * Losses. Class labels select by comparison with 0, 1, ..., classes - 1 and a sum, which the scheduler folds into one
 * load, so that no one-hot array is ever stored.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { floatOf, promote } from "../../dtype/promotion.ts";
import { ArgumentError, DTypeError, IndexError, ShapeError } from "../../helpers/errors.ts";
import { sameArray } from "../../helpers/math.ts";
import { checkChoice, checkInteger, checkOptions } from "../../helpers/options.ts";
import { ReduceArg } from "../../uop/core/args.ts";
import { broadcastTo, reshape } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { constant, iota, type UOp, uop } from "../../uop/core/uop.ts";
import { GradientArg, withGradient } from "../../uop/graph/given_gradient.ts";
import { checkTensor, type Operand, TensorBase, type TensorLike } from "../handle/base.ts";
import { checkSameDevice } from "../handle/broadcast.ts";
import { isList } from "../nodes/host.ts";
import { floatConst, logNode } from "../nodes/numeric.ts";
import { castNode } from "../nodes/scalars.ts";
import { hostValues } from "../nodes/select.ts";
import type { ActivationTensor } from "../ops/activation.ts";
import type { ReduceTensor } from "../ops/reduce.ts";
import { extentOf, extentText } from "../../uop/graph/extent.ts";

/** Labels that are checked where they are known. */
const MOST_LOOKED_AT = 65536;

/** What becomes of the losses of single elements. */
export type Reduction = "mean" | "sum" | "none";

/** Options of losses of one reduction. */
export interface LossOptions {
  /** Default "mean". */
  readonly reduction?: Reduction;
}

/** Options of {@linkcode LossTensor.crossEntropy}. */
export interface CrossEntropyOptions extends LossOptions {
  /** One factor a class, `[C]`. */
  readonly weight?: TensorLike;
  /** Labels that count nothing. */
  readonly ignoreIndex?: number;
  /** The share of the uniform distribution. Default 0. */
  readonly labelSmoothing?: number;
}

/** For each position, the element of `x` that `labels` names on `axis`; 0 where the label is no index. Axis vanishes. */
function pick(x: UOp, labels: UOp, axis: number): UOp {
  const shape = shapeOf(x), kept = shape.map((n, i) => i === axis ? 1 : n), rest = shape.filter((_, i) => i !== axis);
  const classes = iota(shape[axis]);
  const place = broadcastTo(reshape(classes, shape.map((n, i) => i === axis ? n : 1)), shape);
  const named = broadcastTo(reshape(broadcastTo(labels.cast(classes.dtype), rest), kept), shape);
  const chosen = place.eq(named).where(x, constant(0, x.dtype));
  return reshape(uop(Ops.REDUCE, x.dtype, [chosen], new ReduceArg(Ops.ADD, [axis])), rest);
}

/** log(x), at least -100. */
function logAtLeast(x: UOp): UOp {
  return logNode(x).max(constant(-100, x.dtype));
}

/** 1 - x */
function complement(x: UOp): UOp {
  return x.mul(-1).add(1);
}

/** The slope by the probability p, (p - y) / (p (1 - p)), has a divisor of at least 1e-12, as in PyTorch. */
const CROSS_ENTROPY = new GradientArg((g, [p, y]) => [
  () => g.mul(p.add(y.mul(-1)).fdiv(complement(p).mul(p).max(floatConst(1e-12, p.dtype)))),
  () => g.mul(logAtLeast(complement(p)).add(logAtLeast(p).mul(-1))),
], true);

/** The families that it is written in. */
export interface LossTensor extends ActivationTensor, ReduceTensor {}
/** Tensors with losses. */
export abstract class LossTensor extends TensorBase {
  /**
   * Negative log-likelihood of labels `Y`, of this as log-probabilities `[N, C, ...]` (or `[C]` with a scalar label).
   * `weight` is one factor a class, `[C]`; the mean is over the weights. Positions where Y is `ignoreIndex` count nothing.
   * @throws {ShapeError} where Y is not of this shape without the classes @throws {DTypeError} where Y is no integer
   * @throws {IndexError} for labels known on the host that name no class; others have loss 0 and count in the mean
   */
  nllLoss(
    Y: TensorLike,
    weight?: TensorLike | null,
    options: LossOptions & { readonly ignoreIndex?: number } = {},
  ): this {
    checkOptions("compute nllLoss", options, ["ignoreIndex", "reduction"]);
    const { ignoreIndex, reduction = "mean" } = options;
    if (ignoreIndex !== undefined) checkInteger("compute nllLoss", "ignoreIndex", ignoreIndex);
    checkReduction("compute nllLoss", reduction);
    const axis = this.ndim === 1 ? 0 : 1,
      classes = this.shape[axis],
      weights = this.classWeights(weight),
      y = this.tensorOf("compute nllLoss", "Y", Y);
    this.checkLabels("compute nllLoss", y, axis);
    this.checkClasses("compute nllLoss", y, axis, ignoreIndex);
    const losses = this.wrap(pick(this.uop, y.uop, axis)).neg();
    let factors: this | undefined;
    if (weights !== undefined) {
      this.checkFactors(weights, axis);
      const rest = shapeOf(losses.uop), spread = broadcastTo(weights.uop, [...rest, classes]);
      factors = this.wrap(pick(spread, y.uop, rest.length));
    }
    if (ignoreIndex !== undefined) {
      const counts = y.ne(ignoreIndex).cast(this.dtype);
      factors = factors === undefined ? counts : factors.mul(counts);
      // a masked loss is 0 even where the log-probability is infinite
      const kept = y.ne(ignoreIndex).where(losses, 0);
      return weighted(kept, factors, reduction);
    }
    return factors === undefined ? reduced(losses, reduction) : weighted(losses, factors, reduction);
  }

  /**
   * Cross entropy of logits `[N, C, ...]` (or `[C]`) with `Y`: class labels of that shape without axis 1, or
   * probabilities of the same shape. `labelSmoothing` mixes in the uniform distribution. `weight` is one factor a class,
   * `[C]`, also among the options; the mean of labels is over the weights. Labels that are `ignoreIndex` count nothing.
   * @throws {ShapeError} where Y has neither shape @throws {DTypeError} for labels that are no integers
   * @throws {IndexError} for labels known on the host that name no class; others have loss 0 and count in the mean
   */
  crossEntropy(Y: TensorLike, weight?: TensorLike | CrossEntropyOptions | null, options?: CrossEntropyOptions): this {
    const isWeight = weight instanceof TensorBase || isList(weight),
      given = (isWeight ? options : weight ?? options) ?? {};
    checkOptions("compute crossEntropy", given, ["weight", "ignoreIndex", "reduction", "labelSmoothing"]);
    const { reduction = "mean", labelSmoothing = 0, ignoreIndex } = given;
    const among = this.classWeights(given.weight);
    if (isWeight && among !== undefined || !isWeight && weight && options) {
      throw new ArgumentError("compute crossEntropy", {
        reason: isWeight
          ? "weight came twice; give it as an argument or among the options"
          : "options came twice; give them as one object",
      });
    }
    const factors = isWeight ? this.classWeights(weight) : among;
    if (ignoreIndex !== undefined) checkInteger("compute crossEntropy", "ignoreIndex", ignoreIndex);
    checkReduction("compute crossEntropy", reduction);
    checkSmoothing("compute crossEntropy", labelSmoothing);
    const axis = this.ndim === 1 ? 0 : 1, y = this.tensorOf("compute crossEntropy", "Y", Y);
    const logs = this.logSoftmax(axis);
    if (factors !== undefined) this.checkFactors(factors, axis);
    const each = factors?.reshape(this.shape.map((n, i) => i === axis ? n : 1));
    const all = each === undefined ? logs : logs.mul(each); // what is mixed in counts each class by its weight
    const smoothed = (losses: this, even: this): this =>
      labelSmoothing > 0 ? losses.mul(1 - labelSmoothing).sub(even.mul(labelSmoothing)) : losses;
    if (sameArray(this.shape, y.shape)) {
      return reduced(smoothed(all.mul(y).sum(axis).neg(), all.mean(axis)), reduction);
    }
    this.checkLabels("compute crossEntropy", y, axis);
    this.checkClasses("compute crossEntropy", y, axis, ignoreIndex);
    const losses = this.wrap(pick(all.uop, y.uop, axis)).neg(), even = all.mean(axis);
    if (factors === undefined && ignoreIndex === undefined) return reduced(smoothed(losses, even), reduction);
    const counts = ignoreIndex === undefined ? undefined : y.ne(ignoreIndex);
    const keep = (x: this): this => counts === undefined ? x : counts.where(x, 0) as this;
    const made = smoothed(keep(losses), keep(even));
    if (reduction !== "mean") return reduced(made, reduction);
    const own = factors === undefined ? undefined : this.wrap(
      pick(broadcastTo(factors.uop, [...shapeOf(losses.uop), this.shape[axis]]), y.uop, losses.ndim),
    );
    return made.sum().div((own === undefined ? counts!.cast(made.dtype) : keep(own)).sum());
  }

  /** The factors of classes that are given, a tensor or a list. */
  private classWeights(weight: TensorLike | null | undefined): this | undefined {
    return weight === undefined || weight === null ? undefined : this.tensorOf("weigh classes", "weight", weight);
  }
  /** Throws unless there is one factor a class. */
  private checkFactors(weights: this, axis: number): void {
    const classes = this.shape[axis];
    if (sameArray(weights.shape, [classes])) return;
    throw new ShapeError("weigh classes by", {
      shapes: [weights.shape],
      axis: 0,
      reason: `it must be [${extentText(extentOf(this.uop, axis))}], one weight a class`,
    });
  }

  /**
   * Cross entropy of logits `[..., C]` with integer labels `Y` `[...]`. Positions where Y is `ignoreIndex` count nothing;
   * without it, a label outside of the classes has loss 0 and counts in the mean.
   * @throws {ShapeError} where Y is not of this shape without the last axis @throws {DTypeError} where Y is no integer
   */
  sparseCategoricalCrossentropy(
    Y: this,
    options: LossOptions & { readonly ignoreIndex?: number; readonly labelSmoothing?: number } = {},
  ): this {
    const known = ["ignoreIndex", "labelSmoothing", "reduction"];
    checkOptions("compute sparseCategoricalCrossentropy", options, known);
    const { ignoreIndex, labelSmoothing = 0, reduction = "mean" } = options;
    if (ignoreIndex !== undefined) checkInteger("compute sparseCategoricalCrossentropy", "ignoreIndex", ignoreIndex);
    checkReduction("compute sparseCategoricalCrossentropy", reduction);
    checkSmoothing("compute sparseCategoricalCrossentropy", labelSmoothing);
    const axis = this.ndim - 1;
    this.checkLabels("compute sparseCategoricalCrossentropy", Y, axis);
    const logs = this.logSoftmax(-1);
    let losses = this.wrap(pick(logs.uop, Y.uop, axis)).neg();
    if (labelSmoothing > 0) losses = losses.mul(1 - labelSmoothing).sub(logs.mean(-1).mul(labelSmoothing));
    if (ignoreIndex === undefined) return reduced(losses, reduction);
    const kept = Y.ne(ignoreIndex).where(losses, 0);
    if (reduction !== "mean") return reduced(kept, reduction);
    return kept.sum().div(Y.ne(ignoreIndex).cast(losses.dtype).sum());
  }

  /**
   * Binary cross entropy of this as probabilities with `Y` of the same shape. Logarithms are at least -100; losses are
   * multiplied by `weight`, before they are reduced.
   * @throws {ShapeError} where the shapes do not broadcast
   */
  binaryCrossentropy(
    Y: Operand,
    reduction: Reduction | LossOptions & { readonly weight?: Operand } = "mean",
  ): this {
    if (typeof reduction !== "string") checkOptions("compute binaryCrossentropy", reduction, ["reduction", "weight"]);
    const weight = typeof reduction === "object" ? reduction.weight : undefined;
    const mode = typeof reduction === "object" ? reduction.reduction ?? "mean" : reduction;
    checkReduction("compute binaryCrossentropy", mode);
    const [p, q] = this.broadcasted("compute binaryCrossentropy of", Y), d = floatOf(p.dtype);
    const wide = promote(d, dtypes.float32), a = castNode(p, wide), b = castNode(q, wide);
    const loss = b.mul(logAtLeast(a)).add(complement(b).mul(logAtLeast(complement(a)))).mul(-1);
    const losses = this.wrap(withGradient(loss, [a, b], CROSS_ENTROPY).cast(d));
    return reduced(weight === undefined ? losses : losses.mul(weight), mode);
  }

  /**
   * Binary cross entropy of this as logits with `Y` of the same shape, without overflow; `posWeight` multiplies the
   * positive part, `weight` the losses before they are reduced.
   * @throws {ShapeError} where the shapes do not broadcast
   */
  binaryCrossentropyLogits(
    Y: Operand,
    options: LossOptions & { readonly posWeight?: Operand; readonly weight?: Operand } = {},
  ): this {
    checkOptions("compute binaryCrossentropyLogits", options, ["reduction", "posWeight", "weight"]);
    const { reduction = "mean", posWeight, weight } = options;
    checkReduction("compute binaryCrossentropyLogits", reduction);
    const y = this.operand(Y, "compute binaryCrossentropyLogits") as this;
    const yes = this.logsigmoid().mul(y), no = this.neg().logsigmoid().mul(y.neg().add(1));
    const losses = (posWeight === undefined ? yes : yes.mul(posWeight)).add(no).neg();
    return reduced(weight === undefined ? losses : losses.mul(weight), reduction);
  }

  /** Throws unless the labels fit the scores. */
  private checkLabels(action: string, Y: this, axis: number): void {
    const want = this.shape.filter((_, i) => i !== axis);
    checkSameDevice(`${action} of`, this.uop, checkTensor(action, "Y", Y).uop);
    if (this.ndim === 0 || !sameArray(Y.shape, want)) {
      throw new ShapeError(action, {
        shapes: [this.shape, Y.shape],
        axis,
        reason: `labels must have shape [${want.join(", ")}], that of the input without axis ${axis}`,
      });
    }
    if (!Y.dtype.isInt) {
      throw new DTypeError(`${action} with labels of dtype`, { dtypes: [Y.dtype], reason: "labels are integers" });
    }
  }

  /** Throws for labels that name no class, where they are known on the host. @throws {IndexError} */
  private checkClasses(action: string, Y: this, axis: number, ignoreIndex?: number): void {
    const classes = this.shape[axis], known = hostValues(Y.uop);
    if (known === undefined || known.length > MOST_LOOKED_AT) return;
    for (const v of known) {
      if ((v >= 0 && v < classes) || Number(v) === ignoreIndex) continue;
      const ignored = ignoreIndex === undefined
        ? `the option { ignoreIndex: ${v} } leaves such labels out`
        : `ignoreIndex is ${ignoreIndex}`;
      throw new IndexError(action, { axis, reason: `label ${v} is none of ${classes} classes; ${ignored}` });
    }
  }
}

function checkReduction(action: string, reduction: unknown): void {
  checkChoice(action, "reduction", reduction, ["mean", "sum", "none"]);
}

function checkSmoothing(action: string, smoothing: number): void {
  if (!(smoothing >= 0 && smoothing <= 1)) {
    throw new ArgumentError(`${action} with labelSmoothing ${smoothing}`, { reason: "it lies between 0 and 1" });
  }
}

function reduced<T extends LossTensor>(losses: T, reduction: Reduction): T {
  return (reduction === "none" ? losses : reduction === "sum" ? losses.sum() : losses.mean());
}

function weighted<T extends LossTensor>(losses: T, factors: T, reduction: Reduction): T {
  const products = losses.mul(factors);
  if (reduction !== "mean") return reduced(products, reduction);
  return products.sum().div(factors.sum());
}
