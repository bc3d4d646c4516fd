/**
 * The loss of sequences whose labels are not aligned: connectionist temporal classification.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { floatOf, promote } from "../../dtype/promotion.ts";
import { ArgumentError, DTypeError, IndexError, ShapeError } from "../../helpers/errors.ts";
import { sameArray } from "../../helpers/math.ts";
import { checkBoolean, checkChoice, checkInteger, checkOptions } from "../../helpers/options.ts";
import { Ops } from "../../uop/core/ops.ts";
import { constant, type UOp, uop, variable } from "../../uop/core/uop.ts";
import { type NestedArray, TensorBase, type TensorLike } from "../handle/base.ts";
import { extentOf, extentText } from "../../uop/graph/extent.ts";
import { hostValues } from "../nodes/select.ts";
import type { CriterionTensor } from "./criteria.ts";
import type { LossOptions } from "./loss.ts";

/** What stands for the logarithm of 0, so that no difference of two is NaN. */
const NEVER = -1e30;

/** Options of {@linkcode CtcTensor.ctcLoss}. */
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
export interface CtcTensor extends CriterionTensor {}
/** Tensors with the loss of sequences. */
export abstract class CtcTensor extends TensorBase {
  /**
   * Connectionist temporal classification (A. Graves et al., 2006): of log-probabilities `[T, N, C]` (or `[T, C]`) for
   * `targets` `[N, S]` (or all of them, one after the other), of which the first `inputLengths` and `targetLengths` count.
   * The mean is that of losses over their targets' lengths. Infinite where a target cannot be reached.
   *
   * @throws {ShapeError} where they do not fit, {DTypeError} for targets that are no integers
   */
  ctcLoss(
    targets: TensorLike,
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
    const goals = this.tensorOf(action, "targets", targets);
    if (x.ndim !== 3 || goals.ndim > 2 || goals.ndim < 1) {
      throw new ShapeError(action, {
        shapes: [this.shape, goals.shape],
        reason: "it takes log-probabilities [T, N, C] and targets [N, S]",
      });
    }
    if (!goals.dtype.isInt) {
      throw new DTypeError(`${action} with targets of dtype`, {
        dtypes: [goals.dtype],
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
        reason: `${["inputLengths", "targetLengths"][i]} must be [${extentText(extentOf(x.uop, 1))}]`,
      });
    });
    const [T, L] = lengths;
    checkLengths(action, "inputLengths", T.uop, steps);
    checkLengths(action, "targetLengths", L.uop, goals.shape[goals.ndim - 1]);
    checkClasses(action, goals, L.uop, classes);
    let labels = goals.cast(int);
    if (labels.ndim === 1 && n === 1) labels = labels.unsqueeze(0);
    else if (labels.ndim === 1) { // one after the other
      const most = labels.shape[0], place = labels.constLike(1).cumsum(0).sub(1).unsqueeze(0);
      const at = place.add(L.cumsum(0).sub(L).unsqueeze(1)).clamp(0, Math.max(most - 1, 0));
      labels = most === 0 ? labels.reshape([1, 0]).expand([n, 0]) : labels.take(at);
    } else if (labels.shape[0] !== n) {
      throw new ShapeError(action, {
        shapes: [this.shape, goals.shape],
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
