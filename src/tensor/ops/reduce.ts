/**
 * Reductions: sums, extrema, statistics, normalizations and the softmax family. Each reduction over several axes is one
 * REDUCE node, whose axes stay with size 1; a RESHAPE drops them. Small floats accumulate in float32. Scans are in
 * scan.ts.
 *
 * @module
 */
import type { Checked } from "../../device/device.ts";
import { type DType, type DTypeLike, dtypes, toDType } from "../../dtype/dtype.ts";
import { defaultFloat, floatOf, promote, sumDType, sumOf } from "../../dtype/promotion.ts";
import { ArgumentError, ShapeError } from "../../helpers/errors.ts";
import { prod, sameArray } from "../../helpers/math.ts";
import { checkNumber, checkOptions } from "../../helpers/options.ts";
import { broadcastTo, reshape } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { constant, type UOp } from "../../uop/core/uop.ts";
import { GradientArg, withGradient } from "../../uop/graph/given_gradient.ts";
import { type Axes, resolveAxes, resolveAxis } from "../handle/axes.ts";
import { type Operand, TensorBase } from "../handle/base.ts";
import { eqNode, negNode } from "../nodes/compare_nodes.ts";
import { iotaAlong } from "../nodes/movement_nodes.ts";
import { squaredMagnitude } from "../nodes/complex_nodes.ts";
import { detachNode, expNode, floatConst, logNode, rootNode, shift } from "../nodes/numeric.ts";
import { constantPower } from "../nodes/power.ts";
import { belowMax, countNode, meanNode, minAlong, orReduce, reduceNode } from "../nodes/reduce_nodes.ts";
import { drawUniform } from "../nodes/random.ts";
import { castNode } from "../nodes/scalars.ts";
import type { CloseOptions } from "./elementwise.ts";
import type { FunctionTensor } from "./functions.ts";
import { install, type Rows } from "./rows.ts";

/** Options of reductions. */
export interface ReduceOptions {
  /** Keeps reduced axes, with size 1. */
  readonly keepdim?: boolean;
}
/** Options of `sum` and `prod`: `dtype` is that of the accumulator and of the result. */
export interface SumOptions extends ReduceOptions {
  /** In which it is summed, and of the result. */
  readonly dtype?: DTypeLike;
}
/** Options of `var`, `std` and their pairs with the mean: the divisor is n - correction. */
export interface VarOptions extends ReduceOptions {
  /** Taken from the number of elements. Default 1. */
  readonly correction?: number;
}

const KEEP = ["keepdim"];

/** By how many axes follow the one that it is over: of softmax y, y (g - sum(g y)). */
const SOFTMAX: GradientArg[] = [];

function softmaxGradient(following: number): GradientArg {
  return SOFTMAX[following] ??= new GradientArg((g, _, y) => {
    const shape = shapeOf(y), along = reduceNode(g.mul(y), Ops.ADD, [shape.length - 1 - following]);
    return [y.mul(g.add(negNode(broadcastTo(along, shape))))];
  }, true);
}

/** The families that it is written in, and what stands in rows. */
export interface ReduceTensor extends FunctionTensor {
  /** Largest over `axis`; NaN if there is one. Empty: the smallest value of the dtype. @throws {ShapeError} */
  max(axis?: Axes | null, options?: ReduceOptions): this;
  /** Smallest over `axis`; NaN if there is one. Empty: the largest value of the dtype. @throws {ShapeError} */
  min(axis?: Axes | null, options?: ReduceOptions): this;
  /** Alias of `max`. @throws {ShapeError} */
  amax(axis?: Axes | null, options?: ReduceOptions): this;
  /** Alias of `min`. @throws {ShapeError} */
  amin(axis?: Axes | null, options?: ReduceOptions): this;
  /** Whether any is true (nonzero). @throws {ShapeError} */
  any(axis?: Axes | null, options?: ReduceOptions): this;
  /** Whether all are true (nonzero). @throws {ShapeError} */
  all(axis?: Axes | null, options?: ReduceOptions): this;
  /** Mean over `axis`; integers give the default float. @throws {ShapeError} */
  mean(axis?: Axes | null, options?: ReduceOptions): this;
  /** log(sum(e^x)) over `axis` without overflow. @throws {ShapeError} */
  logsumexp(axis?: Axes | null, options?: ReduceOptions): this;
}

/** Reductions: the result of `x` over axes, which stay with size 1. */
export const REDUCTIONS: Rows<(x: UOp, axes: readonly number[]) => UOp> = {
  max: largestOf,
  min: smallestAlong,
  amax: largestOf,
  amin: smallestAlong,
  any: anyOf,
  all: allOf,
  mean: (x, axes) => meanNode(castNode(x, wideOf(x)), axes).cast(floatOf(x.dtype)),
  logsumexp: (x, axes) => logOfSum(castNode(x, wideOf(x)), axes).cast(floatOf(x.dtype)),
};

/** The float dtype in which statistics of `x` are computed, at least float32. */
function wideOf(x: UOp): DType {
  return promote(floatOf(x.dtype), dtypes.float32);
}

function largestOf(x: UOp, axes: readonly number[]): UOp {
  return x.dtype.isBool ? anyOf(x, axes) : reduceNode(x, Ops.MAX, axes);
}

function smallestAlong(x: UOp, axes: readonly number[]): UOp {
  return x.dtype.isBool ? allOf(x, axes) : minAlong(x, axes);
}

function anyOf(x: UOp, axes: readonly number[]): UOp {
  return castNode(orReduce(castNode(castNode(x, dtypes.bool), dtypes.int32), axes), dtypes.bool);
}

function allOf(x: UOp, axes: readonly number[]): UOp {
  const yes = constant(1, dtypes.bool);
  return castNode(orReduce(castNode(castNode(x, dtypes.bool).xor(yes), dtypes.int32), axes), dtypes.bool).xor(yes);
}

function logOfSum(x: UOp, axes: readonly number[]): UOp {
  const d = x.dtype, max = detachNode(reduceNode(x, Ops.MAX, axes));
  // An infinite maximum would subtract to NaN.
  const finite = max.lt(constant(Infinity, d)).and(constant(-Infinity, d).lt(max));
  const base = finite.where(max, constant(0, d));
  const e = expNode(x.add(negNode(broadcastTo(base, shapeOf(x)))));
  return logNode(reduceNode(e, Ops.ADD, axes)).add(base);
}

/** Tensors with reductions. */
export abstract class ReduceTensor extends TensorBase {
  static {
    install(ReduceTensor, REDUCTIONS, (node, name) =>
      function (axis?: Axes | null, options: ReduceOptions = {}) {
        const axes = this.axes(name, axis, options);
        return this.finish(node(this.uop, axes), axes, options.keepdim);
      });
  }

  /** Drops `axes`, which have size 1, unless they are to be kept. */
  private finish(u: UOp, axes: readonly number[], keepdim: boolean | undefined): this {
    if (keepdim) return this.wrap(u);
    return this.wrap(reshape(u, shapeOf(u).filter((_, i) => !axes.includes(i))));
  }

  /** The axes to reduce, checked. */
  private axes(action: string, axis: Axes | undefined | null, options: ReduceOptions, allowed = KEEP): number[] {
    checkOptions(action, options, allowed);
    return resolveAxes(action, axis, this.shape);
  }

  /**
   * Sum over `axis` (one, several, or all). Bools and small integers widen to 32 bits; half floats accumulate in
   * float32 and are cast back; an empty sum is 0.
   *
   * @throws {ShapeError} if `axis` is outside [-ndim, ndim)
   */
  sum<N extends string>(axis?: Axes | null, options: Checked<SumOptions, N> = {}): this {
    const axes = this.axes("sum", axis, options, ["keepdim", "dtype"]);
    return this.finish(this.folded(Ops.ADD, axes, options), axes, options.keepdim);
  }

  /** The sum or product over `axes`, in the dtype given or that of a sum; small floats accumulate in float32. */
  private folded(op: Ops, axes: readonly number[], { dtype }: SumOptions): UOp {
    const given = dtype === undefined ? this.dtype : toDType(dtype), out = dtype === undefined ? sumOf(given) : given;
    const acc = out.isFloat ? sumDType(out) : out;
    return reduceNode(castNode(castNode(this.uop, given), acc), op, axes).cast(out);
  }

  /** Product over `axis`; an empty product is 1. Dtypes as {@linkcode sum}. @throws {ShapeError} as {@linkcode sum} */
  prod<N extends string>(axis?: Axes | null, options: Checked<SumOptions, N> = {}): this {
    const axes = this.axes("prod", axis, options, ["keepdim", "dtype"]);
    return this.finish(this.folded(Ops.MUL, axes, options), axes, options.keepdim);
  }

  /** Whether all elements are close: a bool scalar. Options as `isclose`. */
  allclose(other: Operand, options: CloseOptions = {}): this {
    return this.isclose(other, options).all();
  }

  /** Variance (in the wide dtype) and mean, axes kept. */
  private moments(axes: readonly number[], correction: number): [variance: UOp, mean: UOp] {
    const x = castNode(this.uop, wideOf(this.uop));
    const mean = meanNode(x, axes);
    const away = x.add(negNode(broadcastTo(mean, shapeOf(x))));
    const square = away.dtype.isComplex ? squaredMagnitude(away) : away.mul(away);
    const sum = reduceNode(square, Ops.ADD, axes), n = countNode(square, axes, shapeOf(sum));
    const divisor = n.op === Ops.CONST
      ? floatConst(Math.max(n.value - correction, 0), n.dtype)
      : shift(n, -correction).alu(Ops.MAX, constant(0, n.dtype));
    return [sum.fdiv(divisor), mean];
  }

  /** Variance or its root, and the mean. */
  private spread(action: string, axis: Axes | undefined | null, options: VarOptions, root: boolean): [this, this] {
    const axes = this.axes(action, axis, options, ["keepdim", "correction"]);
    const [variance, mean] = this.moments(axes, options.correction ?? 1);
    const out = floatOf(this.dtype);
    const first = root ? rootNode(variance) : variance;
    return [
      this.finish(first.cast(out.real), axes, options.keepdim),
      this.finish(mean.cast(out), axes, options.keepdim),
    ];
  }

  /** Variance over `axis`: squared distances from the mean, over n - correction (1). @throws {ShapeError} */
  var(axis?: Axes | null, options: VarOptions = {}): this {
    return this.spread("var", axis, options, false)[0];
  }
  /** Standard deviation over `axis`. @throws {ShapeError} */
  std(axis?: Axes | null, options: VarOptions = {}): this {
    return this.spread("std", axis, options, true)[0];
  }
  /** Variance and mean. @throws {ShapeError} */
  varMean(axis?: Axes | null, options: VarOptions = {}): [this, this] {
    return this.spread("varMean", axis, options, false);
  }
  /** Standard deviation and mean. @throws {ShapeError} */
  stdMean(axis?: Axes | null, options: VarOptions = {}): [this, this] {
    return this.spread("stdMean", axis, options, true);
  }

  /**
   * Index of the largest element along `axis` (of the flattened tensor without), the first if there are several, or of
   * the first NaN; int32, or int64 where the axis has 2^31 elements or more.
   *
   * @throws {ShapeError} outside the rank, or without elements
   */
  argmax(axis?: number | null, options: ReduceOptions = {}): this {
    return this.argExtremum("argmax", axis, options, false);
  }
  /** Index of the smallest element, as {@linkcode argmax}. */
  argmin(axis?: number | null, options: ReduceOptions = {}): this {
    return this.argExtremum("argmin", axis, options, true);
  }

  /** The position of the first largest or least value. */
  private argExtremum(action: string, axis: number | undefined | null, options: ReduceOptions, least: boolean): this {
    checkOptions(action, options, KEEP);
    const shape = this.shape;
    if (axis === undefined || axis === null) {
      const flat = this.flatten().argExtremum(action, 0, {}, least);
      return options.keepdim ? flat.reshape(shape.map(() => 1)) : flat;
    }
    const at = resolveAxis(action, axis, shape);
    if (shape.length === 0) return this.wrap(this.broadcastConst(constant(0, dtypes.int32)));
    const n = shape[at];
    if (n === 0) throw new ShapeError(action, { shapes: [shape], axis: at, reason: `axis ${at} has no elements` });
    const x = this.dtype.isBool ? castNode(this.uop, dtypes.int32) : this.uop;
    const best = broadcastTo(least ? minAlong(x, [at]) : reduceNode(x, Ops.MAX, [at]), shape);
    const hit = x.dtype.isFloat ? x.eq(best).or(x.ne(x)) : eqNode(x, best);
    // The first hit is the one with the largest n - position.
    const rank = broadcastTo(iotaAlong(n, at, shape.length), shape).mul(-1).add(n);
    const first = reduceNode(hit.where(rank, constant(0, rank.dtype)), Ops.MAX, [at]).mul(-1).add(n);
    return this.finish(first, [at], options.keepdim);
  }

  // ---- the softmax family

  /** What softmax and its like exponentiate. */
  private softmaxInput(action: string, axis: number, dtype: DTypeLike | undefined): [UOp, number[], DType] {
    const at = resolveAxis(action, axis, this.shape);
    const out = dtype === undefined ? floatOf(this.dtype) : floatOf(toDType(dtype));
    const x = castNode(castNode(this.uop, out), promote(out, dtypes.float32));
    return [x, this.ndim === 0 ? [] : [at], out];
  }

  /**
   * e^x over its sum along `axis`, shifted by the maximum so that nothing overflows.
   *
   * @param options `dtype`: cast to it first
   * @throws {ShapeError} if `axis` is outside the rank
   */
  softmax<N extends string>(axis = -1, options: { readonly dtype?: DTypeLike<N> } = {}): this {
    checkOptions("softmax", options, ["dtype"]);
    const [x, axes, out] = this.softmaxInput("softmax", axis, options.dtype);
    const shape = shapeOf(x);
    const e = expNode(belowMax(x, axes)), y = e.fdiv(broadcastTo(reduceNode(e, Ops.ADD, axes), shape));
    if (axes.length === 0) return this.wrap(y.cast(out));
    return this.wrap(withGradient(y, [x], softmaxGradient(shape.length - 1 - axes[0])).cast(out));
  }

  /**
   * Draws of categories with the probabilities of {@linkcode softmax} along `dim`, relaxed by the temperature `tau` (Jang, Gu
   * and Poole, arXiv 1611.01144): near one-hot for a small one. With `hard` they are one-hot, with the gradient of the relaxed.
   *
   * @param options `tau` 1, `hard` false
   * @throws {ShapeError} if `dim` is outside the rank {ArgumentError} unless tau is above 0
   */
  gumbelSoftmax(dim = -1, options: { readonly tau?: number; readonly hard?: boolean } = {}): this {
    const action = "gumbelSoftmax", { tau = 1, hard = false } = checkOptions(action, options, ["tau", "hard"]);
    if (!(checkNumber(action, "tau", tau) > 0)) {
      throw new ArgumentError(action, { reason: `tau must be above 0, not ${tau}` });
    }
    const [x, [axis = 0], out] = this.softmaxInput(action, dim, undefined), shape = shapeOf(x);
    const u = drawUniform(shape, dtypes.float32), log = (v: UOp): UOp => negNode(logNode(v));
    const noise = log(log(u)); // u may be 0, which is never drawn
    const soft = this.wrap(x.add(castNode(noise, x.dtype)).fdiv(floatConst(tau, x.dtype))).softmax(axis);
    if (!hard || shape.length === 0) return soft.cast(out);
    const drawn = soft.argmax(axis, { keepdim: true }).eq(
      this.wrap(broadcastTo(iotaAlong(shape[axis], axis, shape.length), shape)),
    );
    const fixed = this.wrap(castNode(drawn.uop, x.dtype).add(negNode(detachNode(soft.uop))));
    return fixed.add(soft).cast(out);
  }

  /** {@linkcode softmax} of the last axis, of at least float32, where rows of -Infinity are zeros with a gradient of zeros. */
  protected maskedSoftmax(): this {
    const x = this.uop, shape = shapeOf(x), axes = [shape.length - 1];
    const d = x.dtype,
      max = reduceNode(x, Ops.MAX, axes),
      base = max.ne(constant(-Infinity, d)).where(max, constant(0, d));
    const e = expNode(x.add(negNode(broadcastTo(base, shape)))), sum = reduceNode(e, Ops.ADD, axes);
    const divisor = sum.ne(constant(0, d)).where(sum, constant(1, d));
    return this.wrap(withGradient(e.fdiv(broadcastTo(divisor, shape)), [x], softmaxGradient(0)));
  }

  /** Logarithm of {@linkcode softmax}. @throws {ShapeError} */
  logSoftmax<N extends string>(axis = -1, options: { readonly dtype?: DTypeLike<N> } = {}): this {
    checkOptions("logSoftmax", options, ["dtype"]);
    const [x, axes, out] = this.softmaxInput("logSoftmax", axis, options.dtype);
    const shape = shapeOf(x);
    const below = belowMax(x, axes);
    const log = logNode(reduceNode(expNode(below), Ops.ADD, axes));
    return this.wrap(below.add(negNode(broadcastTo(log, shape))).cast(out));
  }

  /** Softmax of the negated tensor. @throws {ShapeError} */
  softmin<N extends string>(axis = -1, options: { readonly dtype?: DTypeLike<N> } = {}): this {
    checkOptions("softmin", options, ["dtype"]);
    resolveAxis("softmin", axis, this.shape);
    const t = this.dtype.isFloat ? this : this.cast(defaultFloat());
    return t.neg().softmax(axis, options);
  }

  // ---- normalization

  /**
   * (x - mean) / sqrt(variance + eps) over `axis`, without weights.
   *
   * @param options `eps` 1e-5
   * @throws {ShapeError}
   */
  layernorm(axis: Axes = -1, options: { readonly eps?: number } = {}): this {
    checkOptions("layernorm", options, ["eps"]);
    const axes = resolveAxes("layernorm", axis, this.shape);
    const x = castNode(this.uop, wideOf(this.uop)), shape = shapeOf(x);
    const y = x.add(negNode(broadcastTo(meanNode(x, axes), shape)));
    const deviation = shift(meanNode(y.mul(y), axes), options.eps ?? 1e-5).sqrt();
    return this.wrap(y.mul(broadcastTo(floatConst(1, x.dtype).fdiv(deviation), shape)).cast(floatOf(this.dtype)));
  }

  /**
   * (x - mean) * invstd * weight + bias, each of these of the size of `axis` (by default 1).
   *
   * @throws {ShapeError} if a size differs
   */
  batchnorm(
    weight: Operand | null | undefined,
    bias: Operand | null | undefined,
    mean: Operand,
    invstd: Operand,
    axis: Axes = 1,
  ): this {
    const axes = resolveAxes("batchnorm", axis, this.shape);
    const shape = this.shape;
    const along = shape.map((n, i) => axes.includes(i) ? n : 1);
    const place = (x: Operand, name: string): this => {
      const t = this.operand(x) as this;
      if (t.numel() === 1 || sameArray(t.shape, along)) return t;
      const count = prod(along);
      if (t.numel() !== count) {
        throw new ShapeError("batchnorm", {
          shapes: [shape, t.shape],
          axis: axes[0],
          reason: `${name} has ${t.numel()} elements, axis ${axes.join(", ")} has ${count}`,
        });
      }
      return t.reshape(along);
    };
    const factor = weight === null || weight === undefined
      ? place(invstd, "invstd")
      : place(weight, "weight").mul(place(invstd, "invstd"));
    const y = this.sub(place(mean, "mean")).mul(factor);
    return bias === null || bias === undefined ? y : y.add(place(bias, "bias"));
  }

  /**
   * Over the p-norm along `dim`, which is at least `eps`; p = 0 counts what is not zero, and p = -Infinity is
   * the least magnitude.
   *
   * @param options `p` 2, `dim` 1, `eps` 1e-12
   * @throws {ShapeError}
   */
  normalize(options: { readonly p?: number; readonly dim?: number; readonly eps?: number } = {}): this {
    checkOptions("normalize", options, ["p", "dim", "eps"]);
    const { p = 2, dim = 1, eps = 1e-12 } = options;
    const at = resolveAxis("normalize", dim, this.shape);
    const x = castNode(this.uop, wideOf(this.uop));
    const t = this.wrap(x);
    const keep = { keepdim: true };
    let norm: this;
    checkNumber("normalize", "p", p);
    if (p === 0) norm = t.ne(0).sum(at, keep).cast(x.dtype);
    else if (p === Infinity) norm = t.abs().max(at, keep);
    else if (p === 2) {
      norm = this.wrap(
        rootNode(t.wrap(t.dtype.isComplex ? squaredMagnitude(t.uop) : t.square().uop).sum(at, keep).uop),
      );
    } else if (p === 1) norm = t.abs().sum(at, keep);
    else if (p > 0) norm = this.wrap(rootOf(t.abs().pow(p).sum(at, keep).uop, p));
    else if (p === -Infinity) norm = t.abs().min(at, keep);
    else norm = t.abs().pow(p).sum(at, keep).pow(1 / p);
    return t.div(norm.clamp(eps)).cast(floatOf(this.dtype));
  }
}

/** x^(1/p) of what is not negative, with the gradient 0 at 0 instead of an infinite one. */
function rootOf(x: UOp, p: number): UOp {
  const zero = x.eq(floatConst(0, x.dtype)), safe = zero.where(floatConst(1, x.dtype), x);
  return zero.where(floatConst(0, x.dtype), constantPower(safe, 1 / p));
}
