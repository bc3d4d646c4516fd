/**
 * Norms of vectors and matrices, statistics that pass NaN over, what is most frequent or kth in order, differences and
 * integrals along an axis, covariances.
 *
 * @module
 */
import type { Checked } from "../../device/device.ts";
import { type DTypeLike, dtypes, toDType } from "../../dtype/dtype.ts";
import { floatOf, promote } from "../../dtype/promotion.ts";
import { ArgumentError, DTypeError, ShapeError } from "../../helpers/errors.ts";
import { rangeOf } from "../../helpers/math.ts";
import { checkInteger, checkNumber, checkOptions, describe, describeList } from "../../helpers/options.ts";
import { broadcastTo } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { constant, type UOp, uop } from "../../uop/core/uop.ts";
import { flat, GradientArg, withGradient } from "../../uop/graph/given_gradient.ts";
import { type Axes, resolveAxes, resolveAxis } from "../handle/axes.ts";
import { checkTensor, internals, type Operand, TensorBase, type TensorLike } from "../handle/base.ts";
import type { ScanTensor } from "../index/scan.ts";
import type { StatisticsTensor } from "../index/statistics.ts";
import { magnitudeNode } from "../nodes/complex_nodes.ts";
import { absNode, floatConst } from "../nodes/numeric.ts";
import { powNode } from "../nodes/power.ts";
import { minAlong, reduceNode } from "../nodes/reduce_nodes.ts";
import { castNode } from "../nodes/scalars.ts";
import { hostValues } from "../nodes/select.ts";
import type { ReduceOptions, SumOptions } from "../ops/reduce.ts";
import type { DecompositionTensor } from "./decompositions.ts";
import { conjugateNode } from "../../uop/graph/complex.ts";

/** Which norm: of order p, "fro" (2), or of matrices "nuc", the sum of the singular values. */
export type NormOrder = number | "fro" | "nuc";

/** Options of norms. */
export interface NormOptions extends ReduceOptions {
  /** The axes. Default: all; of matrix norms the last two. */
  readonly dim?: Axes | null;
  /** In which it is computed. */
  readonly dtype?: DTypeLike;
}

const FORMULAS = new Map<number, GradientArg>();

/** The gradient of the norm of order p: sign(x) |x|^(p-1) / norm^(p-1), and 0 where the norm is 0. */
function gradientOf(p: number): GradientArg {
  let rule = FORMULAS.get(p);
  if (rule === undefined) {
    rule = new GradientArg((g, [x], y) => {
      const shape = shapeOf(x), d = x.dtype, zero = constant(0, d), isZero = y.eq(zero);
      const norm = isZero.where(floatConst(1, d), y), wide = (u: UOp) => broadcastTo(u, shape);
      if (p === 2) return [x.mul(wide(isZero.where(zero, g.fdiv(norm))))];
      const power = floatConst(p - 1, d), a = absNode(x), none = a.eq(zero), one = floatConst(1, d);
      const slope = none.where(zero, powNode(none.where(one, a), broadcastTo(power, shape)));
      const sign = x.lt(zero).where(floatConst(-1, d), one);
      const share = isZero.where(zero, g.fdiv(powNode(norm, broadcastTo(power, shapeOf(norm)))));
      return [sign.mul(slope).mul(wide(share))];
    });
    FORMULAS.set(p, rule);
  }
  return rule;
}

/** The norm of order `p` over `axes`, kept. */
function normNode(x: UOp, p: number, axes: readonly number[]): UOp {
  if (x.dtype.isComplex) return normNode(magnitudeNode(x), p, axes);
  const d = x.dtype, zero = constant(0, d), a = p < 0 ? x.eq(zero).where(zero, absNode(x)) : absNode(x); // of -0 it is -0
  // of nothing it is 0
  if (p === Infinity) return reduceNode(a, axes.some((i) => shapeOf(x)[i] === 0) ? Ops.ADD : Ops.MAX, axes);
  if (p === -Infinity) return minAlong(a, axes);
  if (p === 1) return reduceNode(a, Ops.ADD, axes);
  if (p === 0) return flat(reduceNode(x.ne(zero).where(floatConst(1, d), zero), Ops.ADD, axes), [x]);
  const shape = shapeOf(x), power = (u: UOp, e: number) => powNode(u, broadcastTo(floatConst(e, d), shapeOf(u)));
  const sum = reduceNode(p === 2 ? x.mul(x) : power(a, p), Ops.ADD, axes);
  const value = p === 2 ? sum.sqrt() : power(sum, 1 / p);
  return shape.includes(0) ? value : withGradient(value, [x], gradientOf(p));
}

/** The families that it is written in. */
export interface NormTensor extends DecompositionTensor, ScanTensor, StatisticsTensor {}
/** Tensors with norms and statistics. */
export abstract class NormTensor extends TensorBase {
  /**
   * The norm of order `ord` (2; Infinity, -Infinity and 0 too) of all elements, or of those over `dim`. The gradient is 0
   * where the norm is 0. Of nothing it is 0.
   *
   * @throws {ShapeError} if an axis is outside the rank, or for nothing where the order is negative, {ArgumentError} for what
   * is no order
   */
  vectorNorm<N extends string>(options: Checked<NormOptions, N> & { readonly ord?: number } = {}): this {
    const { ord = 2, dim, keepdim, dtype } = checkOptions("vectorNorm", options, ["ord", "dim", "keepdim", "dtype"]);
    return this.normed("vectorNorm", checkNumber("vectorNorm", "ord", ord), dim, keepdim, dtype);
  }

  /** A norm over axes. */
  private normed(action: string, p: number, dim: Axes | undefined | null, keepdim = false, dtype?: DTypeLike): this {
    const shape = this.shape, axes = resolveAxes(action, dim, shape);
    if (Number.isNaN(p)) throw new ArgumentError(action, { reason: "the order must be a number, not NaN" });
    if (p < 0) this.checkLeast(action, axes, p);
    const d = floatOf(dtype === undefined ? this.dtype : toDType(dtype)), wide = promote(d, dtypes.float32);
    const value = this.wrap(normNode(castNode(castNode(this.uop, d), wide), p, axes).cast(d.real));
    return keepdim ? value : value.reshape(shape.filter((_, i) => !axes.includes(i)));
  }

  /** Refuses the least of nothing. */
  private checkLeast(action: string, axes: readonly number[], order: number): void {
    const axis = axes.find((i) => this.shape[i] === 0);
    if (axis === undefined) return;
    throw new ShapeError(action, { shapes: [this.shape], axis, reason: `nothing has no norm of order ${order}` });
  }
  /** Of sizes, which are not below 0, the largest along an axis, 0 of none, or the least; kept. */
  private extremeSize(axis: number, order: number): this {
    if (order < 0) return this.min(axis, { keepdim: true });
    return this.shape[axis] === 0 ? this.sum(axis, { keepdim: true }) : this.max(axis, { keepdim: true });
  }

  /**
   * A norm of matrices, over the last two axes or `dim`: "fro" (default), "nuc", 1 and -1 (the largest and the least sum of
   * a column), Infinity and -Infinity (of a row), 2 and -2 (the largest and the least singular value). Of nothing the
   * largest is 0.
   *
   * @throws {ShapeError} below two axes, for one axis twice, or for the least of nothing, {ArgumentError} for another order
   */
  matrixNorm<N extends string>(options: Checked<NormOptions, N> & { readonly ord?: NormOrder } = {}): this {
    const action = "matrixNorm", { ord = "fro", dim, keepdim, dtype } = checkOptions(action, options, NORM);
    const pair = dim ?? [-2, -1], shape = this.shape;
    const [a, b] = Array.isArray(pair) ? pair.map((x) => resolveAxis(action, x, shape)) : [0, 0];
    if (!Array.isArray(pair) || pair.length !== 2 || a === b || shape.length < 2) {
      throw new ShapeError(action, {
        shapes: [shape],
        reason: `it takes two different axes, not ${describeList(pair)}`,
      });
    }
    const x = dtype === undefined ? this : this.cast<string>(dtype);
    if (typeof ord === "number" && ord < 0) this.checkLeast(action, ord === -1 ? [b] : ord === -2 ? [a, b] : [a], ord);
    let value: this;
    if (ord === "fro") value = x.normed(action, 2, [a, b], true);
    else if (ord === 1 || ord === -1 || ord === Infinity || ord === -Infinity) {
      const [inner, outer] = Math.abs(ord) === 1 ? [a, b] : [b, a], sums = x.abs().sum(inner, { keepdim: true });
      value = sums.extremeSize(outer, ord);
    } else if (ord === "nuc" || ord === 2 || ord === -2) {
      const values = x.permute([...rangeOf(shape.length).filter((i) => i !== a && i !== b), a, b]).svd(false)[1];
      const found = ord === "nuc" ? values.sum(-1) : values.extremeSize(values.ndim - 1, ord);
      value = found.reshape(shape.map((n, i) => i === a || i === b ? 1 : n));
    } else {
      throw new ArgumentError(action, {
        reason: `unknown ord ${describe(ord)}; known are fro, nuc, 1, -1, 2, -2, Infinity, -Infinity`,
      });
    }
    return keepdim ? value : value.reshape(shape.filter((_, i) => i !== a && i !== b));
  }

  /**
   * The norm of order `p` over `dim`, or of all elements; "fro" is 2, "nuc" that of matrices. `norm(p, dim)` is `norm({ p, dim })`.
   *
   * @throws {ShapeError}
   */
  norm<N extends string>(
    options: NormOrder | Checked<NormOptions, N> & { readonly p?: NormOrder } = {},
    dim?: Axes | null,
  ): this {
    const given = typeof options === "number" || typeof options === "string" ? { p: options, dim } : options;
    const { p = 2, ...rest } = checkOptions("norm", given, ["p", "dim", "keepdim", "dtype"]);
    if (p === "nuc") return this.matrixNorm<string>({ ord: p, ...rest });
    if (p !== "fro") checkNumber("norm", "p", p);
    return this.normed("norm", p === "fro" ? 2 : p, rest.dim, rest.keepdim, rest.dtype);
  }

  /** The norm of order `p` of this - other, of all elements. @throws {ShapeError} where they do not broadcast */
  dist(other: Operand, p = 2): this {
    return this.sub(other).normed("dist", checkNumber("dist", "p", p), undefined);
  }

  // ---- without NaN

  /** Sum over `axis` of what is not NaN. Dtypes as `sum`. @throws {ShapeError} */
  nansum<N extends string>(axis?: Axes | null, options: Checked<SumOptions, N> = {}): this {
    checkOptions("nansum", options, ["keepdim", "dtype"]);
    return (this.isnan().where(0, this) as this).sum<string>(axis, options);
  }

  /** Mean over `axis` of what is not NaN; NaN where there is nothing. @throws {ShapeError} */
  nanmean(axis?: Axes | null, options: ReduceOptions = {}): this {
    checkOptions("nanmean", options, ["keepdim"]);
    const d = floatOf(this.dtype), wide = this.cast(promote(d, dtypes.float32)), isNone = wide.isnan();
    const count = isNone.logicalNot().sum(axis, options);
    return (isNone.where(0, wide) as this).sum(axis, options).div(count).cast(d);
  }

  // ---- orders and counts

  /** Smallest and largest over `dim`, or of all. @throws {ShapeError} outside the rank, or without elements */
  aminmax(dim?: number | null, options: ReduceOptions = {}): [min: this, max: this] {
    checkOptions("aminmax", options, ["keepdim"]);
    const axes = resolveAxes("aminmax", dim, this.shape);
    if (axes.some((a) => this.shape[a] === 0)) {
      throw new ShapeError("aminmax", { shapes: [this.shape], reason: "there are no elements to compare" });
    }
    return [this.min(axes, options), this.max(axes, options)];
  }

  /** How many over `dim`, or of all, are not 0; int32. @throws {ShapeError} */
  countNonzero(dim?: Axes | null): this {
    return this.ne(0).sum(dim);
  }

  /**
   * The kth smallest along `dim`, counted from 1, and its position (int32). NaN counts as the largest.
   *
   * @throws {ShapeError} if k is beyond the axis
   */
  kthvalue(k: number, dim = -1, options: ReduceOptions = {}): [values: this, indices: this] {
    const { keepdim = false } = checkOptions("kthvalue", options, ["keepdim"]);
    const shape = this.shape, axis = resolveAxis("kthvalue", dim, shape), n = shape[axis] ?? 1;
    checkInteger("kthvalue", "k", k, 1);
    if (k > n) {
      throw new ShapeError("kthvalue", { shapes: [shape], axis, reason: `axis ${axis} has no ${k} elements` });
    }
    return this.sort(axis).map((t) => t.picked(axis, k - 1, keepdim)) as [this, this];
  }

  /** Element `i` of an axis. */
  private picked(axis: number, i: number, keepdim: boolean): this {
    if (this.ndim === 0) return this;
    const part = this.shrink(this.shape.map((_, a) => a === axis ? [i, i + 1] as const : null));
    return keepdim ? part : part.squeeze(axis);
  }

  /**
   * The most frequent value along `dim`, the smallest of several, and the last position at which it stands (int32).
   *
   * @throws {ShapeError} outside the rank, or without elements
   */
  mode(dim = -1, options: ReduceOptions = {}): [values: this, indices: this] {
    const { keepdim = false } = checkOptions("mode", options, ["keepdim"]);
    const shape = this.shape, axis = resolveAxis("mode", dim, shape), last = shape.length - 1;
    if (last < 0) return [this.wrap(this.uop), this.constLike(0, { dtype: dtypes.int32 })];
    if (shape[axis] === 0) throw new ShapeError("mode", { shapes: [shape], axis, reason: "there are no elements" });
    const x = this.transpose(axis, last),
      [sorted, order] = x.sort(-1).map((t) => this.wrap(uop(Ops.CONTIGUOUS, t.dtype, [t.uop])));
    const end = sorted.searchsorted(sorted, { right: true }), count = end.sub(sorted.searchsorted(sorted));
    const place = end.gather(-1, count.argmax(-1, { keepdim: true })).sub(1);
    const values = sorted.gather(-1, place), indices = order.gather(-1, place);
    return [values, indices].map((t) => {
      const turned = t.transpose(axis, last) as this;
      return keepdim ? turned : turned.squeeze(axis);
    }) as [this, this];
  }

  // ---- along an axis

  /**
   * Differences of neighbors along `dim` (the last axis), `n` (1) times; `prepend` and `append` are joined before. Bools
   * give their exclusive or.
   *
   * @throws {ShapeError} for a scalar
   */
  diff(
    options: {
      readonly n?: number;
      readonly dim?: number;
      readonly prepend?: TensorBase;
      readonly append?: TensorBase;
    } = {},
  ): this {
    const { n = 1, dim = -1, prepend, append } = checkOptions("diff", options, ["n", "dim", "prepend", "append"]);
    checkInteger("diff", "n", n, 0);
    if (this.ndim === 0) throw new ShapeError("diff", { shapes: [[]], reason: "a scalar has no neighbors" });
    const axis = resolveAxis("diff", dim, this.shape);
    let x: this = this.wrap(this.uop);
    if (prepend !== undefined) x = (checkTensor("diff", "prepend", prepend) as this).cat([x], axis);
    if (append !== undefined) x = x.cat([checkTensor("diff", "append", append)], axis);
    for (let i = 0; i < n && x.shape[axis] > 0; i++) {
      const [before, after] = x.neighbors(axis);
      x = x.dtype.isBool ? after.bitwiseXor(before) : after.sub(before);
    }
    return x;
  }

  /** All of an axis but the last, and all but the first. */
  private neighbors(axis: number): [this, this] {
    const before = rangeOf(axis).map(() => ":" as const);
    return [this.at(...before, [null, -1]), this.at(...before, [1, null])];
  }

  /** Areas of the trapezoids between neighbors along an axis. */
  private areas(
    action: string,
    x: TensorLike | undefined | null,
    options: TrapezoidOptions,
  ): [areas: this, axis: number] {
    const { dx = 1, dim = -1 } = checkOptions(action, options, ["dx", "dim"]);
    const axis = resolveAxis(action, dim, this.shape);
    if (this.ndim === 0) throw new ShapeError(action, { shapes: [[]], reason: "a scalar has no axis to sum along" });
    const [a, b] = this.neighbors(axis), sum = a.add(b);
    if (x === undefined || x === null) return [sum.mul(checkNumber(action, "dx", dx) / 2), axis];
    const at = this.tensorOf(action, "x", x);
    const along = at.ndim === 1 ? at.reshape(this.shape.map((_, i) => i === axis ? at.shape[0] : 1)) : at;
    const [p, q] = along.neighbors(at.ndim === 1 ? axis : resolveAxis(action, dim, at.shape));
    return [sum.mul(q.sub(p)).div(2), axis];
  }

  /** The integral along `dim` by trapezoids of width `dx`, or between the positions `x`. @throws {ShapeError} */
  trapezoid(x?: TensorLike | null, options: TrapezoidOptions = {}): this {
    const [areas, axis] = this.areas("trapezoid", x, options);
    return areas.sum(axis - this.ndim);
  }

  /** The running integral along `dim`, one element shorter. @throws {ShapeError} */
  cumulativeTrapezoid(x?: TensorLike | null, options: TrapezoidOptions = {}): this {
    const [areas, axis] = this.areas("cumulativeTrapezoid", x, options);
    return areas.cumsum(axis - this.ndim);
  }

  /**
   * The covariances of variables, one a row, over observations, one a column: `[n, m]` to `[n, n]`, `[m]` to a scalar.
   * `fweights` `[m]`, whole numbers, are how often each observation was made, `aweights` how much it counts; the divisor is
   * their sum less `correction` (1). The result has the dtype that floats of this and `aweights` promote to.
   *
   * @throws {ShapeError} above two axes, or for weights of another length @throws {DTypeError} for `fweights` of no integers
   * @throws {ArgumentError} for weights below 0, where they are known on the host
   */
  cov(
    options: { readonly correction?: number; readonly fweights?: TensorLike; readonly aweights?: TensorLike } = {},
  ): this {
    const { correction = 1, ...given } = checkOptions("cov", options, ["correction", "fweights", "aweights"]);
    const [fweights, aweights] = (["fweights", "aweights"] as const).map((name) =>
      given[name] === undefined ? undefined : this.tensorOf("cov", name, given[name])
    );
    if (this.ndim > 2) throw new ShapeError("cov", { shapes: [this.shape], reason: "it takes one or two axes" });
    if (fweights !== undefined && !fweights.dtype.isInt) {
      throw new DTypeError("cov with fweights of dtype", {
        dtypes: [fweights.dtype],
        reason: "they are counts, whole numbers; what weighs otherwise is aweights",
      });
    }
    const d = floatOf(aweights?.dtype.isFloat ? promote(this.dtype, aweights.dtype) : this.dtype);
    const rows = this.cast(promote(d, dtypes.float32)), m = this.shape[this.ndim - 1] ?? 1;
    const x = rows.reshape([this.ndim === 2 ? this.shape[0] : 1, m]);
    for (const [name, w] of [["fweights", fweights], ["aweights", aweights]] as const) {
      if (w === undefined) continue;
      if (w.ndim !== 1 || w.shape[0] !== m) {
        throw new ShapeError("cov", { shapes: [this.shape, w.shape], reason: `${name} must be [${m}]` });
      }
      const less = hostValues(w.uop)?.find((v) => v < 0);
      if (less !== undefined) {
        throw new ArgumentError("cov", { reason: `${name} must be at least 0, and one is ${less}` });
      }
    }
    const all = [fweights, aweights].flatMap((t) => t === undefined ? [] : t.cast(rows.dtype.real));
    const w = all.length === 0 ? undefined : all.reduce((a, b) => a.mul(b));
    const count = this.symbolicShape[this.ndim - 1] ?? 1, total = w === undefined ? count : w.sum();
    const mean = (w === undefined ? x : x.mul(w)).sum(-1, { keepdim: true }).div(total), away = x.sub(mean);
    let divisor: number | this;
    if (w === undefined) {
      divisor = typeof count === "number" ? Math.max(count - correction, 0) : count.sub(correction).maximum(0);
    } else {
      // total - correction * sum(w * a) / total: what cancels is subtracted before it is rounded by a quotient
      const own = total as this, a = all[all.length - 1];
      divisor = (aweights === undefined ? own.sub(correction) : w.mul(own.sub(a.mul(correction))).sum().div(own))
        .maximum(0) as this;
    }
    const found = (w === undefined ? away : away.mul(w)).dot(conjugate(away).transpose(0, 1)).div(divisor).cast(d);
    return x.shape[0] === 1 ? found.reshape([]) : found;
  }

  /**
   * Each slice along `dim` scaled down to a norm of `maxnorm`, where its norm of order `p` is larger. @throws {ShapeError}
   */
  renorm(p: number, dim: number, maxnorm: number): this {
    checkNumber("renorm", "p", p);
    if (!(checkNumber("renorm", "maxnorm", maxnorm) >= 0)) {
      throw new ArgumentError("renorm", { reason: `maxnorm must be at least 0, not ${maxnorm}` });
    }
    const axis = resolveAxis("renorm", dim, this.shape);
    if (this.ndim < 2) {
      throw new ShapeError("renorm", { shapes: [this.shape], reason: "its slices need two axes or more" });
    }
    const dims = rangeOf(this.ndim).filter((i) => i !== axis), large = this.normed("renorm", p, dims, true).gt(maxnorm);
    // of a NaN that stays as it is the norm has no part in the gradient
    const size = (large.where(this, 0) as this).normed("renorm", p, dims, true);
    return this.mul(large.where(size.add(1e-7).reciprocal().mul(maxnorm), 1));
  }

  /** Correlations of variables, one a row, limited to [-1, 1]; a scalar for one variable. @throws {ShapeError} */
  corrcoef(): this {
    const c = this.cov();
    if (c.ndim === 0) return c.div(c);
    const deviation = c.diagonal().sqrt(), found = c.div(deviation.unsqueeze(-1)).div(deviation.unsqueeze(0));
    return c.dtype.isComplex ? found : found.clamp(-1, 1);
  }
}

function conjugate<T extends TensorBase>(t: T): T {
  return t.dtype.isComplex ? internals.wrap(t, conjugateNode(t.uop)) : t;
}

const NORM = ["ord", "dim", "keepdim", "dtype"];

/** Options of {@linkcode NormTensor.trapezoid}. */
export interface TrapezoidOptions {
  /** The distance of neighbors. Default 1. */
  readonly dx?: number;
  /** The axis. Default -1. */
  readonly dim?: number;
}
