/**
 * Draws from distributions whose parameters are elements of a tensor, or numbers. Counts are drawn by adding up
 * probabilities where few are likely, elsewhere by Hoermann's transformed rejection: "The transformed rejection method for
 * generating Poisson random variables" (Insurance: Mathematics and Economics 12, 1993) and "The generation of binomial
 * random variates" (J. Stat. Comput. Simul. 46, 1993). Devices draw all attempts of an element at once, so that there is
 * no loop: of as many as there are, all fail once in ten million draws, which then give the mean.
 *
 * @module
 */
import { type DType, dtypes } from "../../dtype/dtype.ts";
import { defaultFloat, floatOf } from "../../dtype/promotion.ts";
import { ArgumentError, DTypeError } from "../../helpers/errors.ts";
import { checkNumber, checkOptions } from "../../helpers/options.ts";
import { Ops } from "../../uop/core/ops.ts";
import { uop } from "../../uop/core/uop.ts";
import { flat } from "../../uop/graph/given_gradient.ts";
import { internals, type Operand, TensorBase } from "../handle/base.ts";
import { asFloats } from "../handle/weak_numbers.ts";
import { drawnLike, drawNormal, drawUniform } from "../nodes/random.ts";
import { castNode } from "../nodes/scalars.ts";
import { hostValuesBehind } from "../nodes/select.ts";
import { logPoissonNode } from "../ops/gamma_nodes.ts";
import type { SpecialTensor } from "../ops/special.ts";
import type { DrawTensor } from "./draws.ts";

/** Attempts of an element that are drawn at once. */
const ATTEMPTS = 12;
/** The mean from which counts are drawn by rejection; PyTorch and NumPy have the same. */
const MANY = 10;

/** The families that it is written in. */
export interface DistributionTensor extends DrawTensor, SpecialTensor {}
/** Tensors that are drawn from, or in whose shape something is drawn. */
export abstract class DistributionTensor extends TensorBase {
  /** Floats to draw in. @throws {DTypeError} for other dtypes */
  private floats(action: string): this {
    const d = this.dtype;
    if (d.isFloat && !d.isComplex) return this;
    const floats = asFloats(this, defaultFloat());
    if (floats !== this) return floats;
    throw new DTypeError(`${action} of dtype`, { dtypes: [d], reason: "it gives floats; take float() of this first" });
  }
  /** What is made of `draws` in the shape of this, computed in at least float32. */
  private drawn(action: string, draws: typeof drawUniform, make: (u: this) => TensorBase): this {
    const x = this.floats(action), d = x.dtype, wide = d === dtypes.float64 ? d : dtypes.float32;
    return this.wrap(flat(castNode(make(this.wrap(drawnLike(x.uop, draws, wide)) as this).uop, d), [x.uop]));
  }

  /**
   * Numbers of the exponential distribution of rate `lambd`, in the shape and dtype of this, whose values do not matter.
   * Default: 1. The gradient is 0.
   *
   * @throws {ArgumentError} for a rate that is not above 0 {DTypeError} unless this is of floats
   */
  exponential(lambd = 1): this {
    positive("exponential", "lambd", lambd);
    return this.drawn("exponential", drawUniform, (u) => u.neg().log1p().div(-lambd));
  }

  /**
   * Numbers of Cauchy's distribution around `median` (0) of scale `sigma` (1), in the shape and dtype of this.
   * See {@linkcode exponential}.
   *
   * @throws {ArgumentError} for a sigma that is not above 0 {DTypeError} unless this is of floats
   */
  cauchy(options: { readonly median?: number; readonly sigma?: number } = {}): this {
    const { median = 0, sigma = 1 } = checkOptions("cauchy", options, ["median", "sigma"]);
    checkNumber("cauchy", "median", median);
    positive("cauchy", "sigma", sigma);
    return this.drawn("cauchy", drawUniform, (u) => u.sub(0.5).mul(Math.PI).tan().mul(sigma).add(median));
  }

  /**
   * e to normal numbers of `mean` (1) and `std` (2), in the shape and dtype of this: PyTorch's defaults.
   * See {@linkcode exponential}.
   *
   * @throws {ArgumentError} for a std that is not above 0 {DTypeError} unless this is of floats
   */
  logNormal(options: { readonly mean?: number; readonly std?: number } = {}): this {
    const { mean = 1, std = 2 } = checkOptions("logNormal", options, ["mean", "std"]);
    checkNumber("logNormal", "mean", mean);
    positive("logNormal", "std", std);
    return this.drawn("logNormal", drawNormal, (z) => z.mul(std).add(mean).exp());
  }

  /**
   * How many trials it takes to succeed where each does with probability `p`, from 1 on, in the shape and dtype of this.
   * See {@linkcode exponential}.
   *
   * @throws {ArgumentError} for a probability outside (0, 1] {DTypeError} for bools and complex numbers
   */
  geometric(p: number): this {
    checkNumber("geometric", "p", p);
    if (!(p > 0 && p <= 1)) throw new ArgumentError("geometric", { reason: `p must lie in (0, 1], not ${p}` });
    const d = this.dtype;
    if (d.isBool || d.isComplex) {
      throw new DTypeError("geometric of dtype", {
        dtypes: [d],
        reason: "it gives counts; cast to integers or floats",
      });
    }
    const u = this.wrap(drawnLike(this.uop, drawUniform, dtypes.float32)) as this;
    const count = u.neg().log1p().div(Math.log1p(-p)).ceil().clamp(1) as this;
    return this.wrap(flat(castNode(count.uop, d), [this.uop]));
  }

  /**
   * Counts of Poisson's distribution at the rates in this, in its shape and dtype. The gradient is 0. Rates that were
   * computed are not looked at; below 0 they give NaN.
   *
   * @throws {ArgumentError} for a rate below 0 that is known on the host {DTypeError} unless of floats
   */
  poisson(): this {
    const x = this.floats("poisson");
    checkKnown("poisson", "a rate must be at least 0", [x], (rate) => rate < 0);
    return this.counts(x.dtype, [x], ([rate], u, v) => {
      const few = rate.clamp(undefined, MANY), many = rate.clamp(MANY);
      // Hoermann's constants
      const b = many.sqrt().mul(2.53).add(0.931), a = b.mul(0.02483).add(-0.059);
      const inverse = b.add(-3.4).reciprocal().mul(1.1328).add(1.1239),
        low = b.add(-2).reciprocal().mul(-3.6224).add(0.9277);
      const logShare = (k: this) => this.wrap(logPoissonNode(k.clamp(0).uop, spread(many, k).uop)) as this;
      const tried = attempts(
        u,
        v,
        { a, b, low, center: many.add(0.43) },
        (k, us) => v.mul(inverse).log().sub(a.div(us.square()).add(b).log()).le(logShare(k)) as this,
      );
      const first = few.neg().exp(), sum = added(u.at(0).add(0.5) as this, first, (p, i) => p.mul(few).div(i));
      return [
        rate.lt(MANY).where(sum, chosen(tried, many.floor() as this)) as this,
        rate.lt(0).logicalOr(rate.isnan()) as this,
      ];
    });
  }

  /**
   * How many of as many trials as this says succeed, each with the probability in `prob`; they broadcast. The gradient is 0.
   * Counts are whole numbers from 0 on. Values that were computed are not looked at; what is no count or no probability
   * gives NaN.
   *
   * @throws {ArgumentError} for what is no count or no probability, and is known on the host
   * @throws {ShapeError} where they do not broadcast {DTypeError} for complex numbers
   */
  binomial(prob: Operand): this {
    const action = "binomial", other = this.operand(prob, action) as this;
    const [n0, p0] = this.broadcasted(action, other);
    const d = floatOf(n0.dtype);
    if (d.isComplex) throw new DTypeError(`${action} of dtype`, { dtypes: [d], reason: "counts are real" });
    checkKnown(action, "a count must be a whole number of at least 0", [this], (n) => !(n >= 0 && n === Math.floor(n)));
    checkKnown(action, "a probability must lie in [0, 1]", [other], (p) => !(p >= 0 && p <= 1));
    const given = [n0, p0].map((u) => this.wrap(castNode(u, d)) as this);
    return this.counts(d, given, ([n, prob], u, v) => {
      const isHigh = prob.gt(0.5), p = isHigh.where(prob.neg().add(1), prob) as this, q = p.neg().add(1) as this;
      const mean = n.mul(p) as this, isMany = mean.ge(MANY) as this;
      const trials = isMany.where(n, 2 * MANY) as this, share = isMany.where(p, 0.5) as this;
      const spread2 = trials.mul(share).mul(share.neg().add(1)).sqrt() as this;
      const b = spread2.mul(2.53).add(1.15), a = b.mul(0.0248).add(-0.0873).add(share.mul(0.01));
      const low = b.reciprocal().mul(-4.2).add(0.92), alpha = b.reciprocal().mul(5.1).add(2.83).mul(spread2) as this;
      const mode = trials.add(1).mul(share).floor() as this, rest = share.neg().add(1) as this;
      const log = (k: this, x: this) => this.wrap(logPoissonNode(k.clamp(0).uop, spread(x, k).uop)) as this;
      const logShare = (k: this) =>
        log(k, trials.mul(share) as this).add(log(trials.sub(k) as this, trials.mul(rest) as this)) as this;
      const tried = attempts(
        u,
        v,
        { a, b, low, center: trials.mul(share).add(0.5) as this },
        (k, us) =>
          v.mul(alpha).div(a.div(us.square()).add(b)).log().le(logShare(k).sub(logShare(mode)))
            .logicalAnd(k.le(trials)) as this,
      );
      const odds = p.div(q), first = n.mul(p.neg().log1p()).exp() as this;
      const sum = added(u.at(0).add(0.5) as this, first, (w, i) => w.mul(n.add(1 - i)).mul(odds).div(i) as this);
      const found = isMany.where(chosen(tried, mode), sum.minimum(n)) as this;
      const isBad = n.lt(0).logicalOr(n.ne(n.floor())).logicalOr(prob.ge(0).logicalAnd(prob.le(1)).logicalNot());
      return [isHigh.where(n.sub(found), found) as this, isBad.logicalOr(n.isnan()) as this];
    });
  }

  /** Counts by parameters of one shape: a draw of all attempts, in at least float32, NaN where it is bad. */
  private counts(
    d: DType,
    given: readonly this[],
    draw: (params: readonly this[], u: this, v: this) => [count: this, isBad: this],
  ): this {
    const wide = d === dtypes.float64 ? d : dtypes.float32, shape = given[0].shape;
    const params = given.map((x) => this.wrap(castNode(x.uop, wide)) as this);
    const uniform = () => this.wrap(drawUniform([ATTEMPTS, ...shape], wide)) as this;
    const [count, isBad] = draw(params, uniform().sub(0.5) as this, uniform().neg().add(1) as this);
    const value = isBad.where(NaN, count) as this;
    return this.wrap(flat(castNode(value.uop, d), given.map((x) => x.uop)));
  }
}

/** `x` in the shape of `k`, which has attempts in front. */
function spread<T extends DistributionTensor>(x: T, k: T): T {
  return x.expand(k.shape) as T;
}

/** Counts that u and v propose, and -1 where they are not taken: v is in (0, 1], u in [-1/2, 1/2). */
function attempts<T extends DistributionTensor>(
  u: T,
  v: T,
  { a, b, low, center }: Readonly<Record<"a" | "b" | "low" | "center", T>>,
  isBelow: (k: T, us: T) => T,
): T {
  const us = u.abs().neg().add(0.5).clamp(1e-9) as T;
  const k = a.mul(2).div(us).add(b).mul(u).add(center).floor() as T;
  const isInside = us.ge(0.07).logicalAnd(v.le(low)), isOut = k.lt(0).logicalOr(us.lt(0.013).logicalAnd(v.gt(us)));
  const isTaken = isInside.logicalOr(isOut.logicalNot().logicalAnd(isBelow(k, us)));
  return internals.wrap(k, uop(Ops.CONTIGUOUS, k.dtype, [isTaken.where(k, -1).uop])) as T;
}

/** The first attempt that is taken, else `instead`. */
function chosen<T extends DistributionTensor>(tried: T, instead: T): T {
  let value = instead;
  for (let i = ATTEMPTS - 1; i >= 0; i--) value = tried.at(i).ge(0).where(tried.at(i), value) as T;
  return value;
}

/**
 * The least count at which the sum of probabilities passes u, up to where it stays what it is: rounded, it may end below 1.
 */
function added<T extends DistributionTensor>(u: T, first: T, next: (share: T, count: number) => T): T {
  let share = first, sum = first, count = u.mul(0) as T;
  for (let k = 1; k <= 44; k++) {
    share = next(share, k);
    const more = sum.add(share) as T;
    count = u.ge(sum).logicalAnd(more.gt(sum)).where(k, count) as T;
    sum = more;
  }
  return count;
}

/** A number above 0. @throws {ArgumentError} */
function positive(action: string, name: string, value: number): void {
  checkNumber(action, name, value);
  if (value > 0 && value < Infinity) return;
  throw new ArgumentError(action, { reason: `${name} must be above 0 and finite, not ${value}` });
}

/** Throws for values that the host knows, and that are bad. @throws {ArgumentError} */
function checkKnown(action: string, rule: string, given: readonly TensorBase[], isBad: (x: number) => boolean): void {
  for (const { uop } of given) {
    const bad = hostValuesBehind(uop)?.find((x: number | bigint) => isBad(Number(x)));
    if (bad !== undefined) throw new ArgumentError(action, { reason: `${rule}, not ${bad}` });
  }
}
