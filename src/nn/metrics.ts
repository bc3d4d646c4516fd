/**
 * The namespace `nn.metrics`: numbers about predictions over many batches. In: predictions and labels, batch by batch; out:
 * a number when it is asked for. An update computes a few sums where the tensors are and waits for nothing; the sums of
 * batches are added in float64 on the host. Formulas as scikit-learn has them; what has no value, as 0 / 0, is 0 there.
 *
 * Updates are host work: call them with what a captured function returns, outside of it.
 *
 * @module
 */
import { currentCapture } from "../engine/front/listening.ts";
import { ArgumentError, JitError, ShapeError } from "../helpers/errors.ts";
import { sameArray } from "../helpers/math.ts";
import { checkBoolean, checkChoice, checkInteger, checkNumber, checkOptions, checkValue } from "../helpers/options.ts";
import { checkTensor } from "../tensor/handle/base.ts";
import { Tensor } from "../tensor/tensor.ts";

/** Batches whose sums are kept apart before they are added on the device. */
const FOLDED = 256;

/** What all metrics have. */
export abstract class Metric<V = number> {
  /** Sums of batches, `[k]`, realized. */
  private parts: Tensor[] = [];

  /** Adds the sums of a batch. */
  protected add(sums: Tensor): void {
    if (currentCapture() !== undefined) {
      throw new JitError("update a metric", {
        reason: "a function under jit() runs once; return the predictions, and update outside of it",
      });
    }
    this.parts.push(Tensor.noGrad(() => sums.detach().flatten()).realize());
    if (this.parts.length < FOLDED) return;
    this.parts = [Tensor.stack(this.parts).sum(0).realize()];
  }
  /** Adds the sum of numbers of a batch, and how many there are. */
  protected addMean(x: Tensor): void {
    const sum = x.sum();
    this.add(Tensor.stack([sum, Tensor.full([], x.numel(), { device: sum.device }).float()]));
  }
  /** The sums of all batches; zeros before the first one. */
  protected async sums(k: number): Promise<number[]> {
    const total = new Array<number>(k).fill(0);
    if (this.parts.length === 0) return total;
    const values = await Tensor.cat(this.parts.map((t) => t.to(this.parts[0].device))).data();
    for (let i = 0; i < values.length; i++) total[i % k] += Number(values[i]);
    return total;
  }
  /** The value over all batches so far. */
  abstract compute(): Promise<V>;
  /** Forgets all batches. */
  reset(): void {
    this.parts = [];
  }
}

/** The quotient, or 0 where there is none. */
function ratio(a: number, b: number): number {
  return b === 0 ? 0 : a / b;
}

/** Throws unless two tensors have one shape. @throws {ShapeError} */
function checkAlike(action: string, a: Tensor, b: Tensor): void {
  checkTensor(action, "the predictions", a);
  checkTensor(action, "the targets", b);
  if (sameArray(a.shape, b.shape)) return;
  throw new ShapeError(`${action} with predictions and targets of`, {
    shapes: [a.shape, b.shape],
    reason: "they must be equal, or the predictions have an axis of classes behind the first",
  });
}

/**
 * The classes that are predicted: scores `[N, C, ...]` beside labels `[N, ...]` by the largest, probabilities of the shape of
 * the labels by `threshold`, classes as they are.
 */
function classesOf(action: string, predicted: Tensor, target: Tensor, threshold: number): Tensor {
  checkTensor(action, "the predictions", predicted);
  if (checkTensor(action, "the targets", target).ndim + 1 === predicted.ndim) {
    const found = predicted.argmax(1);
    checkAlike(action, found, target);
    return found;
  }
  checkAlike(action, predicted, target);
  return predicted.isFloatingPoint() ? predicted.gt(threshold).int() : predicted;
}

/** Options of metrics of classes. @throws {ArgumentError} */
function classOptions<T extends ClassOptions>(action: string, options: T, more: readonly string[] = []): T {
  const { ignoreIndex } = checkOptions(action, options, [...more, "threshold", "ignoreIndex"]);
  if (ignoreIndex !== undefined) checkInteger(action, "ignoreIndex", ignoreIndex);
  return options;
}

/** Where labels count; undefined where all do. */
function counted(target: Tensor, ignoreIndex: number | undefined): Tensor | undefined {
  return ignoreIndex === undefined ? undefined : target.ne(ignoreIndex);
}

/** The mean of numbers or of the elements of tensors, as of the losses of an epoch, by `weight`, as the sizes of batches. */
export class Mean extends Metric {
  /** Adds a value. A tensor counts once, by its mean. */
  update(value: Tensor | number, weight = 1): this {
    checkNumber("update a mean", "weight", weight);
    const x = value instanceof Tensor
      ? value.float().mean()
      : new Tensor(checkValue("update a mean", "the value", value)).float();
    this.add(Tensor.stack([x.mul(weight), Tensor.full([], weight, { device: x.device }).float()]));
    return this;
  }
  /** The value over all batches so far. */
  override async compute(): Promise<number> {
    const [sum, weight] = await this.sums(2);
    return ratio(sum, weight);
  }
}

/** Options of {@linkcode Accuracy}. */
export interface AccuracyOptions {
  /** Counts as right where the label is among so many of the highest scores; 1 unless given. */
  readonly topk?: number;
  /** For probabilities of one class; 0.5 unless given. */
  readonly threshold?: number;
  /** Labels that do not count. */
  readonly ignoreIndex?: number;
}

/**
 * The share of right predictions: scores `[N, C, ...]`, classes or probabilities `[N, ...]`, beside labels `[N, ...]`.
 *
 * ```ts
 * import { nn, Tensor } from "../../mod.ts";
 * const accuracy = new nn.metrics.Accuracy();
 * accuracy.update(new Tensor([[0.1, 0.9], [0.8, 0.2]]), new Tensor([1, 1]));
 * accuracy.update(new Tensor([[0.1, 0.9], [0.8, 0.2]]), new Tensor([1, 0]));
 * console.log(await accuracy.compute()); // 0.75
 * ```
 */
export class Accuracy extends Metric {
  private readonly options: AccuracyOptions;
  /** Nothing has been seen yet. @throws {ArgumentError} for options out of range */
  constructor(options: AccuracyOptions = {}) {
    super();
    this.options = classOptions("make Accuracy", options, ["topk"]);
    checkInteger("make Accuracy", "topk", options.topk ?? 1, 1);
  }
  /** Adds a batch. @throws {ShapeError} */
  update(predicted: Tensor, target: Tensor): this {
    const { topk = 1, threshold = 0.5, ignoreIndex } = this.options, action = "update Accuracy";
    checkTensor(action, "the targets", target);
    let right: Tensor;
    if (topk > 1) {
      const { shape } = checkTensor(action, "the predictions", predicted);
      if (shape.length !== target.ndim + 1 || shape[1] < topk) {
        throw new ShapeError(`${action} of the ${topk} best with predictions of`, {
          shapes: [shape],
          reason: `it takes scores [N, C, ...] of at least ${topk} classes beside labels [${target.shape.join(", ")}]`,
        });
      }
      right = predicted.topk(topk, 1)[1].eq(target.unsqueeze(1)).any(1);
    } else right = classesOf(action, predicted, target, threshold).eq(target);
    const counts = counted(target, ignoreIndex);
    if (counts !== undefined) right = right.bitwiseAnd(counts);
    const total = counts === undefined ? Tensor.full([], right.numel(), { device: right.device }) : counts.sum();
    this.add(Tensor.stack([right.sum().float(), total.float()]));
    return this;
  }
  /** The value over all batches so far. */
  override async compute(): Promise<number> {
    const [right, all] = await this.sums(2);
    return ratio(right, all);
  }
}

/** The share of labels among the `k` highest scores: {@linkcode Accuracy} with `topk`. */
export class TopKAccuracy extends Accuracy {
  /** Of the `k` best. @throws {ArgumentError} for options out of range */
  constructor(k: number, options: Omit<AccuracyOptions, "topk"> = {}) {
    const action = "make TopKAccuracy";
    super({ ...classOptions(action, options), topk: checkInteger(action, "k", k, 1) });
  }
}

/** Options of metrics by class. */
export interface ClassOptions {
  /** For probabilities of one class; 0.5 unless given. */
  readonly threshold?: number;
  /** Labels that do not count. */
  readonly ignoreIndex?: number;
}

/** How often each class (a row) was taken for each (a column). */
export class ConfusionMatrix extends Metric<number[][]> {
  private readonly options: ClassOptions;
  /** Of so many classes. @throws {ArgumentError} */
  constructor(readonly numClasses: number, options: ClassOptions = {}) {
    super();
    checkInteger("make ConfusionMatrix", "numClasses", numClasses, 1);
    this.options = classOptions("make ConfusionMatrix", options);
  }
  /** Adds a batch: as {@linkcode Accuracy.update}. Labels outside the classes do not count. */
  update(predicted: Tensor, target: Tensor): this {
    const { threshold = 0.5, ignoreIndex } = this.options, n = this.numClasses;
    const found = classesOf("update ConfusionMatrix", predicted, target, threshold).flatten(), truth = target.flatten();
    const counts = counted(truth, ignoreIndex);
    let rows = truth.int().oneHot(n).float();
    if (counts !== undefined) rows = rows.mul(counts.unsqueeze(1));
    this.add(rows.transpose().matmul(found.int().oneHot(n).float()));
    return this;
  }
  /** The value over all batches so far. */
  override async compute(): Promise<number[][]> {
    const n = this.numClasses, sums = await this.sums(n * n);
    return Array.from({ length: n }, (_, i) => sums.slice(i * n, (i + 1) * n));
  }
}

/** How values of classes become one: see {@linkcode F1}. */
export type Average = "binary" | "macro" | "micro" | "weighted" | "none";

/** Options of {@linkcode Precision}, {@linkcode Recall} and {@linkcode F1}. */
export interface ScoreOptions extends ClassOptions {
  /** How many classes there are; 2 unless given. */
  readonly numClasses?: number;
  /**
   * "binary": of class 1. "macro": the mean over classes. "weighted": by how often each is. "micro": over all. "none": a list.
   * "binary" unless given, "macro" where there are more than two classes.
   */
  readonly average?: Average;
}

/** What precision, recall and F1 have in common. */
abstract class Score extends Metric<number | number[]> {
  private readonly matrix: ConfusionMatrix;
  private readonly average: Average;
  /** Nothing has been seen yet. @throws {ArgumentError} for options out of range */
  constructor(options: ScoreOptions = {}) {
    super();
    const action = `make ${new.target.name}`;
    classOptions(action, options, ["numClasses", "average"]);
    const { numClasses = 2, average = numClasses === 2 ? "binary" : "macro", ...rest } = options;
    this.average = checkChoice(action, "average", average, ["binary", "macro", "micro", "weighted", "none"]);
    if (average === "binary" && numClasses !== 2) {
      throw new ArgumentError(action, { reason: `"binary" is for 2 classes, not ${numClasses}; average by "macro"` });
    }
    this.matrix = new ConfusionMatrix(numClasses, rest);
  }
  /** Adds a batch: as {@linkcode Accuracy.update}. */
  update(predicted: Tensor, target: Tensor): this {
    this.matrix.update(predicted, target);
    return this;
  }
  /** Forgets all batches. */
  override reset(): void {
    this.matrix.reset();
  }
  /** Of right ones, and how many were predicted and are there. */
  protected abstract score(right: number, predicted: number, there: number): number;
  /** The value over all batches so far. */
  override async compute(): Promise<number | number[]> {
    const m = await this.matrix.compute(), sum = (x: readonly number[]) => x.reduce((a, b) => a + b, 0);
    const right = m.map((row, i) => row[i]),
      there = m.map(sum),
      predicted = m.map((_, i) => sum(m.map((row) => row[i])));
    const each = right.map((r, i) => this.score(r, predicted[i], there[i]));
    switch (this.average) {
      case "none":
        return each;
      case "binary":
        return each[1];
      case "micro":
        return this.score(sum(right), sum(predicted), sum(there));
      case "weighted":
        return ratio(sum(each.map((x, i) => x * there[i])), sum(there));
      case "macro": { // over classes that occur, as scikit-learn's labels are
        const seen = each.filter((_, i) => there[i] + predicted[i] > 0);
        return ratio(sum(seen), seen.length);
      }
    }
  }
}

/** The share of predictions of a class that are right. */
export class Precision extends Score {
  /** Of one class. */
  protected score(right: number, predicted: number): number {
    return ratio(right, predicted);
  }
}
/** The share of a class that is found. */
export class Recall extends Score {
  /** Of one class. */
  protected score(right: number, _: number, there: number): number {
    return ratio(right, there);
  }
}
/** The harmonic mean of precision and recall. */
export class F1 extends Score {
  /** Of one class. */
  protected score(right: number, predicted: number, there: number): number {
    return ratio(2 * right, predicted + there);
  }
}

/**
 * The area under the receiver operating characteristic: how often a score of class 1 is above one of class 0, ties by half.
 * Scores `[N]` beside labels of 0 and 1, or `[N, C]`: the mean of each class against the others. It keeps all scores.
 */
export class AUROC extends Metric {
  private readonly kept: (readonly [scores: Tensor, labels: Tensor])[] = [];
  /** Adds a batch. @throws {ShapeError} */
  update(scores: Tensor, target: Tensor): this {
    const action = "update AUROC", { shape } = checkTensor(action, "the scores", scores);
    checkTensor(action, "the labels", target);
    const fits = shape.length === 2 ? sameArray(target.shape, [shape[0]]) : sameArray(target.shape, shape);
    const last = this.kept.at(-1)?.[0];
    if (!fits || (last !== undefined && last.shape[1] !== shape[1])) {
      throw new ShapeError(`${action} with scores and labels of`, {
        shapes: [shape, target.shape],
        reason: "it takes [N] or, of as many classes each time, [N, C] beside [N]",
      });
    }
    const pair = Tensor.noGrad(() => [scores.detach().float().clone(), target.detach().int().clone()] as const);
    Tensor.realize(pair);
    this.kept.push(pair);
    return this;
  }
  /** Forgets all batches. */
  override reset(): void {
    this.kept.length = 0;
  }
  /** The value over all batches so far. @throws {ArgumentError} where only one class has been seen */
  override async compute(): Promise<number> {
    const scores: number[][] = [], labels: number[] = [];
    for (const [s, y] of this.kept) {
      const values = await s.data(), width = s.shape[1] ?? 1;
      for (let i = 0; i < values.length; i += width) scores.push(Array.from(values.subarray(i, i + width), Number));
      labels.push(...Array.from(await y.data(), Number));
    }
    const width = scores[0]?.length ?? 0;
    if (width <= 1) return area(scores.map(([s]) => s), labels.map((y) => y === 1));
    const each = Array.from({ length: width }, (_, c) => area(scores.map((s) => s[c]), labels.map((y) => y === c)));
    return each.reduce((a, b) => a + b, 0) / width;
  }
}

/** By the sum of the ranks of what is true: Mann and Whitney (1947). */
function area(scores: readonly number[], isTrue: readonly boolean[]): number {
  const order = [...scores.keys()].sort((a, b) => scores[a] - scores[b]), positives = isTrue.filter((x) => x).length;
  const negatives = scores.length - positives;
  if (positives === 0 || negatives === 0) {
    throw new ArgumentError("compute AUROC", {
      reason: `of a class there are ${positives} items, and ${negatives} of others; both must occur`,
    });
  }
  let ranks = 0;
  for (let i = 0, j = 0; i < order.length; i = j) {
    let hits = 0;
    for (; j < order.length && scores[order[j]] === scores[order[i]]; j++) hits += Number(isTrue[order[j]]);
    ranks += hits * (i + j + 1) / 2;
  }
  return (ranks - positives * (positives + 1) / 2) / (positives * negatives);
}

/** e to the mean cross entropy of scores `[..., C]` and labels `[...]`. */
export class Perplexity extends Metric {
  private readonly ignoreIndex: number | undefined;
  /** Nothing has been seen yet. @throws {ArgumentError} for options out of range */
  constructor(options: { readonly ignoreIndex?: number } = {}) {
    super();
    const { ignoreIndex } = checkOptions("make Perplexity", options, ["ignoreIndex"]);
    this.ignoreIndex = ignoreIndex === undefined
      ? undefined
      : checkInteger("make Perplexity", "ignoreIndex", ignoreIndex);
  }
  /** Adds a batch. @throws {ShapeError} */
  update(scores: Tensor, target: Tensor): this {
    const action = "update Perplexity", { shape } = checkTensor(action, "the scores", scores), { ignoreIndex } = this;
    const truth = checkTensor(action, "the labels", target).flatten();
    if (shape.length === 0 || !sameArray(shape.slice(0, -1), target.shape)) {
      throw new ShapeError(`${action} with scores and labels of`, {
        shapes: [shape, target.shape],
        reason: "the scores must have one more axis, of classes, behind those of the labels",
      });
    }
    const loss = scores.float().reshape([-1, shape[shape.length - 1]]).crossEntropy(truth, {
      reduction: "sum",
      ignoreIndex,
    });
    const count = counted(truth, ignoreIndex)?.sum() ?? Tensor.full([], truth.numel(), { device: loss.device });
    this.add(Tensor.stack([loss, count.float()]));
    return this;
  }
  /** The value over all batches so far. */
  override async compute(): Promise<number> {
    const [sum, count] = await this.sums(2);
    return Math.exp(ratio(sum, count));
  }
}

/** The mean of squared differences; of `{ squared: false }` its root. */
export class MSE extends Metric {
  private readonly squared: boolean;
  /** Nothing has been seen yet. @throws {ArgumentError} for options out of range */
  constructor(options: { readonly squared?: boolean } = {}) {
    super();
    const { squared = true } = checkOptions("make MSE", options, ["squared"]);
    this.squared = checkBoolean("make MSE", "squared", squared);
  }
  /** Adds a batch. @throws {ShapeError} */
  update(predicted: Tensor, target: Tensor): this {
    checkAlike("update MSE", predicted, target);
    this.addMean(predicted.float().sub(target.float()).square());
    return this;
  }
  /** The value over all batches so far. */
  override async compute(): Promise<number> {
    const [sum, n] = await this.sums(2), mean = ratio(sum, n);
    return this.squared ? mean : Math.sqrt(mean);
  }
}

/** The mean of absolute differences. */
export class MAE extends Metric {
  /** Adds a batch. @throws {ShapeError} */
  update(predicted: Tensor, target: Tensor): this {
    checkAlike("update MAE", predicted, target);
    this.addMean(predicted.float().sub(target.float()).abs());
    return this;
  }
  /** The value over all batches so far. */
  override async compute(): Promise<number> {
    const [sum, n] = await this.sums(2);
    return ratio(sum, n);
  }
}

/** The coefficient of determination: 1 less the squared differences over those from the mean of the targets. */
export class R2 extends Metric {
  private origin: Tensor | undefined;
  /** Adds a batch. @throws {ShapeError} */
  update(predicted: Tensor, target: Tensor): this {
    checkAlike("update R2", predicted, target);
    const y = target.float();
    // sums about the mean of the first batch lose no digits where targets are far from 0
    this.origin ??= Tensor.noGrad(() => y.detach().mean().clone()).realize();
    const from = y.sub(this.origin.to(y.device)), n = Tensor.full([], y.numel(), { device: y.device }).float();
    this.add(Tensor.stack([predicted.float().sub(y).square().sum(), from.sum(), from.square().sum(), n]));
    return this;
  }
  /** Forgets all batches. */
  override reset(): void {
    super.reset();
    this.origin = undefined;
  }
  /** The value over all batches so far. */
  override async compute(): Promise<number> {
    const [left, sum, squares, n] = await this.sums(4), spread = squares - ratio(sum * sum, n);
    if (spread > 0) return 1 - left / spread;
    return left === 0 ? 1 : 0;
  }
}
