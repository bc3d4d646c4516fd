/**
 * Adafactor: what Adam keeps of squares of gradients, for matrices as means of their rows and columns alone.
 *
 * @module
 */
import type { Checked } from "../../device/device.ts";
import { ArgumentError, DTypeError } from "../../helpers/errors.ts";
import { checkOptions, describe, isPlain } from "../../helpers/options.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import { checkRange, Optimizer, OPTIMIZER_OPTIONS, type OptimizerOptions, type Slot } from "./optimizer.ts";

/** Options of {@linkcode Adafactor}. */
export interface AdafactorOptions extends OptimizerOptions {
  /** The mean of squares takes 1 - t^beta2Decay of what it was before step t; -0.8 unless given. */
  readonly beta2Decay?: number;
  /**
   * The least root of what is divided by, and the least size of weights that steps are in proportion to; null, that is 2^-23
   * (2^-52 of float64, 2^-10 of float16, 2^-7 of bfloat16), and 0.001 unless given.
   */
  readonly eps?: readonly [least: number | null, size: number];
  /** The largest root mean square of an update; 1 unless given. */
  readonly d?: number;
}

/** What separates 1 from the next number, by dtype: of float32 unless it is here. */
const EPSILONS: Readonly<Record<string, number>> = { float64: 2 ** -52, float16: 2 ** -10, bfloat16: 2 ** -7 };

/** The root of the mean of squares. */
function rms(x: Tensor): Tensor {
  return x.square().mean().sqrt();
}

/**
 * Adafactor (Shazeer and Stern, arXiv 1804.04235), as PyTorch has it: for weights `[..., n, m]` it keeps n + m numbers, not
 * n m. A step is in proportion to the size of the weights; `lr` is the most that it is multiplied by, which falls as 1 /
 * sqrt(t) later.
 */
export class Adafactor<N extends string = string> extends Optimizer {
  /** The mean of squares takes 1 - t^beta2Decay of what it was before step t. */
  readonly beta2Decay: number;
  /** The largest root mean square of an update. */
  readonly d: number;
  /** Pull of the weights toward zero, beside the gradient. */
  readonly weightDecay: number;
  /** The least root of what is divided by, and the least size of weights. */
  readonly eps: readonly [least: number | null, size: number];
  /** Steps so far. */
  private readonly steps: Tensor;
  /** Means of squares over the last axis, and over that before it; of vectors, the squares' own means. */
  private readonly rows: Tensor[];
  private readonly columns: Tensor[];

  /**
   * lr 0.01, beta2Decay -0.8, eps [null, 0.001], d 1, weightDecay 0 unless given.
   * @throws {ArgumentError} for a bad option {DTypeError} for complex parameters
   */
  constructor(params: readonly Tensor[], options: Checked<AdafactorOptions, N> = {}) {
    const action = "make Adafactor", known = [...OPTIMIZER_OPTIONS, "beta2Decay", "eps", "d"];
    // elsewhere eps is one number
    const rest = checkOptions(action, isPlain(options) ? { ...options, eps: undefined } : options, known);
    const { lr = 1e-2, beta2Decay = -0.8, d = 1, weightDecay = 0 } = rest, { eps = [null, 1e-3] } = options;
    super(params, lr, options);
    for (const { dtype } of this.params) {
      if (dtype.isComplex) throw new DTypeError(action, { dtypes: [dtype], reason: "its parameters must be real" });
    }
    this.beta2Decay = checkRange("Adafactor", "beta2Decay", beta2Decay, -Infinity, 0);
    this.d = checkRange("Adafactor", "d", d, 1, Infinity);
    this.weightDecay = checkRange("Adafactor", "weightDecay", weightDecay, 0, Infinity);
    if (!Array.isArray(eps) || eps.length !== 2) {
      throw new ArgumentError(action, { reason: `eps are two numbers, not ${describe(eps)}` });
    }
    const [least, size] = eps;
    if (least !== null) checkRange("Adafactor", "eps[0]", least, 0, Infinity);
    this.eps = [least, checkRange("Adafactor", "eps[1]", size, 0, Infinity)];
    this.steps = this.scalarState(0);
    const isMatrix = (p: Tensor) => p.ndim > 1;
    this.rows = this.params.map((p) =>
      this.zerosFor(p, isMatrix(p) ? p.shape.map((n, i) => i === p.ndim - 1 ? 1 : n) : p.shape)
    );
    this.columns = this.params.map((p) =>
      this.zerosFor(p, isMatrix(p) ? p.shape.map((n, i) => i === p.ndim - 2 ? 1 : n) : [0])
    );
  }

  /** Steps and means. */
  protected override state(): Tensor[] {
    return [this.steps, ...this.rows, ...this.columns];
  }

  /** `p -= alpha g / sqrt(v) / max(1, rms(g / sqrt(v)) / d)`, v the outer product of means for matrices. */
  protected override update(slots: readonly Slot[]): Tensor[] {
    const { eps: [given, size], weightDecay } = this, t = this.steps.add(1), state: Tensor[] = [this.steps];
    const share = t.pow(this.beta2Decay), most = t.rsqrt();
    for (const { at, value, grad } of slots) {
      const row = this.rows[at], column = this.columns[at], d = row.dtype, p = value.cast(d), g = grad.cast(d);
      const least = given ?? EPSILONS[value.dtype.name] ?? 2 ** -23, part = this.beside(share, p).cast(d);
      const lr = this.beside(this.lr, p).cast(d), mixed = (old: Tensor, x: Tensor) => old.lerp(x, part);
      const square = g.square(), isMatrix = g.ndim > 1;
      const nextRow = mixed(row, isMatrix ? square.mean(-1, { keepdim: true }) : square);
      let v = nextRow;
      if (isMatrix) {
        const nextColumn = mixed(column, square.mean(-2, { keepdim: true }));
        v = nextRow.mul(nextColumn).div(nextRow.mean(-2, { keepdim: true }).clamp(least));
        this.keep(column, nextColumn);
        state.push(column);
      }
      const up = v.clamp(least ** 2).rsqrt().mul(g), alpha = rms(p).clamp(size).mul(lr.minimum(this.beside(most, p)));
      const decayed = weightDecay > 0 ? p.mul(lr.mul(-weightDecay).add(1)) : p;
      this.keep(row, nextRow);
      this.write({ at, value, grad }, decayed.sub(up.mul(alpha.div(rms(up).div(this.d).clamp(1)))));
      state.push(row);
    }
    this.keep(this.steps, t);
    return state;
  }
}
