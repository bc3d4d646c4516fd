/**
 * Matrix decompositions and linear systems, over the last two axes; the axes before are batches. Each is a fixed number
 * of steps on whole matrices, two to five kernels a step, in at least float32. All can be differentiated, by formulas and
 * not step by step (matrix_gradients.ts, cofactors.ts, svd_gradient.ts).
 *
 * @module
 */
import { type DType, dtypes } from "../../dtype/dtype.ts";
import { floatOf, promote } from "../../dtype/promotion.ts";
import { ArgumentError, DTypeError, ShapeError } from "../../helpers/errors.ts";
import { prod, sameArray } from "../../helpers/math.ts";
import { checkBoolean, checkChoice, checkOptions } from "../../helpers/options.ts";
import { broadcastTo } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { constant, type UOp, uop, variable } from "../../uop/core/uop.ts";
import { GradientArg, tied, withGradient } from "../../uop/graph/given_gradient.ts";
import { type Operand, TensorBase } from "../handle/base.ts";
import { broadcastShape } from "../handle/broadcast.ts";
import { constantAxes } from "../handle/dims.ts";
import { nativeSvd } from "../handle/native_svd.ts";
import type { GatherTensor } from "../index/gather.ts";
import type { IndexingTensor } from "../index/indexing.ts";
import type { SortTensor } from "../index/sort.ts";
import { directionNode, squaredMagnitude } from "../nodes/complex_nodes.ts";
import { iotaAlong } from "../nodes/movement_nodes.ts";
import { detachNode, floatConst } from "../nodes/numeric.ts";
import { hostValues } from "../nodes/select.ts";
import { Cofactors } from "./cofactors.ts";
import type { ComplexTensor } from "../ops/complex_parts.ts";
import type { LinalgTensor } from "./linalg.ts";
import { MatrixGradients } from "./matrix_gradients.ts";
import { isDiagonal } from "./matrix_nodes.ts";
import { type Decomposed, differentiable } from "./svd_gradient.ts";
import { conjugateNode } from "../../uop/graph/complex.ts";

/** Options of {@linkcode DecompositionTensor.svd}, which may also be the boolean alone. */
export interface SvdOptions {
  /** Whether `U` and `Vᵀ` are square. Default true. */
  readonly fullMatrices?: boolean;
}
/** Options of {@linkcode DecompositionTensor.qr}. */
export interface QrOptions {
  /** Whether `Q` is square, "complete", or has the first min(m, n) columns and `R` rows, "reduced". Default "complete". */
  readonly mode?: "complete" | "reduced";
}

/** Values known on the host up to which a matrix is checked for being invertible. */
const CHECKED = 4096;

/** Step `k` of up to `n` as a bound variable: one kernel serves all steps. */
export function step(k: number, n: number): UOp {
  return uop(Ops.BIND, dtypes.int32, [variable("step", 0, Math.max(n - 1, 0)), constant(k, dtypes.int32)]);
}

/** The pivots of elimination with row exchanges, in double precision; 0 where there is none. */
function pivotsOf(values: ArrayLike<number>, at: number, n: number): number[] {
  const a = Array.from({ length: n }, (_, i) => Array.from({ length: n }, (_, j) => values[at + i * n + j]));
  const pivots: number[] = [];
  for (let k = 0; k < n; k++) {
    let p = k;
    for (let i = k + 1; i < n; i++) if (Math.abs(a[i][k]) > Math.abs(a[p][k])) p = i;
    [a[k], a[p]] = [a[p], a[k]];
    pivots.push(a[k][k]);
    if (a[k][k] === 0) break;
    for (let i = k + 1; i < n; i++) {
      const f = a[i][k] / a[k][k];
      for (let j = k; j < n; j++) a[i][j] -= f * a[k][j];
    }
  }
  return pivots;
}

/** The gradient of the one is that of the other. */
export const PASSED: GradientArg = new GradientArg((g) => [g]);
const missing = new Map<string, GradientArg>();
/** Of what has no formula. @throws {DTypeError} where it is asked for */
function missingGradient(action: string): GradientArg {
  let found = missing.get(action);
  if (found === undefined) {
    found = new GradientArg((g) => {
      throw new DTypeError(`differentiate ${action} of complex dtype`, {
        dtypes: [g.dtype],
        reason: 'of more rows than columns only the first columns of Q are determined; give { mode: "reduced" }',
      });
    });
    missing.set(action, found);
  }
  return found;
}

/** The formulas of gradients, which solve systems themselves. */
interface Formulas {
  readonly matrices: MatrixGradients;
  readonly cofactors: Cofactors;
}

let known: Formulas | undefined;

/** The families that it is written in. */
export interface DecompositionTensor extends ComplexTensor, GatherTensor, IndexingTensor, LinalgTensor, SortTensor {}
/** Tensors with decompositions of matrices. */
export abstract class DecompositionTensor extends TensorBase {
  /** One for all: a formula is part of what a graph is known by. */
  private get formulas(): Formulas {
    if (known === undefined) {
      const none = this.wrap(constant(0, dtypes.float32)), make = (u: UOp): DecompositionTensor => none.wrap(u);
      const inverse = (a: UOp): UOp => make(a).inverted().uop,
        solve = (a: UOp, b: UOp): UOp => make(a).solved(make(b)).uop;
      known = { matrices: new MatrixGradients({ inverse, solve }), cofactors: new Cofactors(make) };
    }
    return known;
  }

  /** The float dtype in which matrices are decomposed. */
  private get precise(): DType {
    return promote(floatOf(this.dtype), dtypes.float32);
  }

  /** This as matrices in that dtype. @throws {ShapeError} below two axes, or unless they are square */
  private matrices(action: string, square: boolean): this {
    const shape = this.shape, n = shape.length;
    if (n < 2 || (square && shape[n - 1] !== shape[n - 2])) {
      throw new ShapeError(action, {
        shapes: [shape],
        reason: square ? "it takes square matrices, in the last two axes" : "it takes matrices, of two axes or more",
      });
    }
    constantAxes(action, this.uop, 2);
    return this.cast(this.precise);
  }

  /** This with conjugated elements: itself, of real ones. */
  private conjugated(): this {
    return this.dtype.isComplex ? this.wrap(conjugateNode(this.uop)) : this;
  }
  /** The squared magnitudes, real. */
  private squares(): this {
    return this.dtype.isComplex ? this.wrap(squaredMagnitude(this.uop)) : this.square();
  }
  /** The directions of numbers, 1 of 0: signs, of real ones. */
  private directions(): this {
    const d = this.dtype, one = this.wrap(constant(1, d));
    if (!d.isComplex) return this.lt(0).where(this.wrap(constant(-1, d)), one) as this;
    return this.eq(0).where(one, this.wrap(directionNode(this.uop))) as this;
  }

  /** Kept in memory of its own, so that nothing is computed twice. */
  private kept(): this {
    return this.wrap(uop(Ops.CONTIGUOUS, this.dtype, [this.uop]));
  }

  /** Row (-2) or column (-1) positions, broadcastable to this. */
  private along(axis: -1 | -2): this {
    const shape = this.shape, at = shape.length + axis;
    return this.wrap(iotaAlong(shape[at], at, shape.length));
  }

  /** Column `k`, `[..., m, 1]`. */
  private column(k: UOp): this {
    return this.at("...", this.wrap(k)).unsqueeze(-1);
  }
  /** Row `k`, `[..., 1, n]`. */
  private row(k: UOp): this {
    return this.at("...", this.wrap(k), ":").unsqueeze(-2);
  }

  /** Throws for a singular matrix whose values are known. @throws {ArgumentError} */
  private checkInvertible(action: string): void {
    const n = this.shape[this.ndim - 1];
    if (this.numel() > CHECKED || !this.dtype.isFloat && !this.dtype.isInt) return;
    const values = hostValues(this.uop);
    if (values === undefined) return;
    for (let at = 0; n > 0 && at < values.length; at += n * n) {
      const pivots = pivotsOf(Array.from(values, Number), at, n), bad = pivots.indexOf(0);
      if (bad < 0) continue;
      throw new ArgumentError(action, {
        reason: `${values.length > n * n ? `matrix ${at / (n * n)}` : "the matrix"} is singular: pivot ${bad} is 0`,
      });
    }
  }

  /**
   * `Q` `[..., m, m]`, orthogonal, and `R` `[..., m, n]`, upper triangular, whose product is this, by Householder's
   * reflections; signs as in LAPACK. With `mode` "reduced" `Q` is `[..., m, k]` and `R` `[..., k, n]`, k = min(m, n), and
   * nothing of m by m is computed. Float32, float64 for float64. The gradient is not finite where the first k columns depend
   * on each other. Of complex numbers `Q` is unitary, and the diagonal of `R` real and not negative; gradients of those take
   * `mode` "reduced" where there are more rows than columns.
   *
   * @throws {ShapeError} below two axes @throws {ArgumentError} for another mode
   */
  qr(options: QrOptions = {}): [Q: this, R: this] {
    const mode = checkOptions("decompose", options, ["mode"]).mode ?? "complete";
    checkChoice("decompose", "mode", mode, ["complete", "reduced"]);
    const given = this.matrices("decompose", false);
    let r = given;
    const shape = r.shape, [m, n] = shape.slice(-2), lead = shape.slice(0, -2), d = r.dtype;
    const zero = this.wrap(constant(0, d));
    const k = Math.min(m, n), isReduced = mode === "reduced" && k < m, steps = Math.min(m - 1, n);
    let q = this.identity(m, lead, d);
    if (isReduced) q = q.at("...", [0, k]);
    const reflections: (readonly [v: this, tau: this])[] = [];
    for (let i = 0; i < steps; i++) {
      const place = step(i, steps), at = this.wrap(place), rows = r.along(-2);
      const x = rows.lt(at).where(zero, r.column(place)) as this; // [..., m, 1]
      const head = r.row(place).column(place); // [..., 1, 1]
      const squares = x.squares().sum(-2, { keepdim: true });
      const empty = squares.eq(0), norm = (empty.where(1, squares) as this).sqrt();
      const beta = d.isComplex ? head.directions().mul(norm).neg() : head.lt(0).where(norm, norm.neg()) as this;
      const v = rows.eq(at).where(head.sub(beta), x).kept() as this;
      // 2 / v'v, where v'v = 2 (norm^2 + |head| norm)
      const tau = empty.where(0, norm.square().add(head.abs().mul(norm)).reciprocal()).kept() as this;
      const w = v.conjugated().mul(r).sum(-2, { keepdim: true }); // v' R
      r = r.sub(tau.mul(v).mul(w)).kept() as this;
      if (isReduced) {
        reflections.push([v, tau]);
        continue;
      }
      const u = q.dot(v); // Q v
      q = q.sub(tau.mul(u).mul(v.conjugated().transpose(-1, -2))).kept() as this;
    }
    // The first columns of the product: from the last reflection to the first, so that no matrix has more.
    for (const [v, tau] of reflections.reverse()) {
      const w = v.conjugated().mul(q).sum(-2, { keepdim: true }); // v' Q
      q = q.sub(tau.mul(v).mul(w)).kept() as this;
    }
    const out = floatOf(this.dtype), isEmpty = prod(shape) === 0;
    const upper = (isReduced ? r.at("...", [0, k], ":") : r).triu();
    if (d.isComplex) {
      const turns = upper.diagonal({ dim1: -2, dim2: -1 }).directions(), rows = upper.shape[upper.ndim - 2];
      const of = (count: number): this =>
        count === k ? turns : turns.cat([this.wrap(broadcastTo(constant(1, d), [...lead, count - k]))], -1);
      const made = [q.mul(of(q.shape[q.ndim - 1]).unsqueeze(-2)), of(rows).conjugated().unsqueeze(-1).mul(upper)];
      if (q.shape[q.ndim - 1] > k) return made.map((t) => this.withoutGradient("qr", t).cast(out)) as [this, this];
      const [Q, R] = made.map((t) => this.wrap(detachNode(t.kept().uop))) as [this, this];
      // Q turns by X, skew: below the diagonal what Qᴴ dA R⁻¹ is there, and the imaginary part of its diagonal
      const change = given.sub(this.wrap(detachNode(given.uop))), first = change.at("...", [0, k]);
      const back = R.at("...", [0, k]).inv(), moved = Q.adjoint().dot(first).dot(back), below = moved.tril(-1);
      const X = below.sub(below.adjoint()).add(moved.sub(moved.conjugated()).mul(0.5).tril().triu()) as this;
      const beside = first.dot(back).sub(Q.dot(moved)), turned = Q.add(Q.dot(X)).add(beside);
      const upperNext = R.add(Q.adjoint().dot(change).sub(X.dot(R)).triu());
      return [Q.changing(turned).cast(out), R.changing(upperNext).cast(out)];
    }
    const [Q, R] = isEmpty ? [q.uop, upper.uop] : this.formulas.matrices.decomposed(given.uop, q.uop, upper.uop);
    return [this.wrap(Q).cast(out), this.wrap(R).cast(out)];
  }

  /** The conjugate of the transpose. */
  private adjoint(): this {
    return this.conjugated().transpose(-1, -2);
  }
  /** This, of complex numbers, which changes as `near` does, of the same value. */
  protected changing(near: this): this {
    const [value, from] = [this, near].map((t) => this.wrap(t.uop).viewAsReal().kept().uop);
    return this.wrap(withGradient(value, [from], PASSED)).viewAsComplex();
  }

  /** A result of complex numbers that has no formula for its gradient. */
  private withoutGradient(action: string, made: this): this {
    const pairs = this.wrap(made.uop).viewAsReal(), from = this.viewAsReal();
    return this.wrap(withGradient(pairs.kept().uop, [from.uop], missingGradient(action))).viewAsComplex();
  }

  /** Identity matrices `[...lead, n, n]`. */
  private identity(n: number, lead: readonly number[], d: DType): this {
    const full = [...lead, n, n], rank = full.length;
    const same = broadcastTo(iotaAlong(n, rank - 2, rank), full).eq(broadcastTo(iotaAlong(n, rank - 1, rank), full));
    return this.wrap(same.where(constant(1, d), constant(0, d)));
  }

  /**
   * The lower triangular `L` with `L Lᵀ` = this, symmetric and positive definite; NaN where it is not. With `upper` it is
   * `U` with `Uᵀ U`. Only that triangle of this is looked at, as in PyTorch and LAPACK; the gradient is symmetric. Of complex
   * numbers it is L with `L Lᴴ`, for a Hermitian this.
   *
   * @throws {ShapeError} unless the last two axes are square
   */
  cholesky(options: { readonly upper?: boolean } = {}): this {
    const { upper = false } = checkOptions("cholesky", options, ["upper"]);
    checkBoolean("cholesky", "upper", upper);
    const given = this.matrices("decompose", true), n = given.shape[given.ndim - 1];
    const symmetric = (upper ? given.adjoint() : given).mirrored();
    if (given.dtype.isComplex) {
      // the factor of the real matrix with [[re, -im], [im, re]] for each number is of that form too
      const L = symmetric.blocks().cholesky().unblocked().cast(floatOf(this.dtype)) as this;
      return upper ? L.adjoint() : L;
    }
    let a = symmetric;
    for (let i = 0; i < n; i++) {
      const k = step(i, n), at = this.wrap(k), rows = a.along(-2), columns = a.along(-1);
      const column = a.column(k), pivot = a.row(k).column(k);
      const below = rows.gt(at).bitwiseAnd(columns.gt(at)); // what is left to decompose
      const rest = a.sub(column.mul(column.transpose(-1, -2)).div(pivot));
      a = below.where(rest, columns.eq(at).where(column.div(pivot.sqrt()), a)).kept() as this;
    }
    const found = withGradient(a.tril().uop, [symmetric.uop], this.formulas.matrices.cholesky);
    const lower = (n === 0 ? a : this.wrap(found)).cast(floatOf(this.dtype)) as this;
    return upper ? lower.transpose(-1, -2) : lower;
  }

  /** The Hermitian matrix of the lower triangle of this; it changes as the Hermitian part of this does. */
  private mirrored(): this {
    const lower = this.tril(-1), middle = this.tril().triu(), part = this.add(this.adjoint()).mul(0.5) as this;
    const own = this.dtype.isComplex ? middle.real().cast(this.dtype) : middle;
    const whole = lower.add(lower.adjoint()).add(own) as this;
    return this.dtype.isComplex ? whole.changing(part) : this.wrap(withGradient(whole.kept().uop, [part.uop], PASSED));
  }

  /** Complex matrices `[..., m, n]` as real ones `[..., 2m, 2n]`, of [[re, -im], [im, re]] for each number. */
  protected blocks(): this {
    const pairs = this.viewAsReal(), [re, im] = [pairs.at("...", 0), pairs.at("...", 1)], [m, n] = this.shape.slice(-2);
    const row = (a: this, b: this): this => a.unsqueeze(-1).cat([b.unsqueeze(-1)], -1).unsqueeze(-3);
    return row(re, im.neg()).cat([row(im, re)], -3).reshape([...this.shape.slice(0, -2), m, 2, n, 2].flat())
      .reshape([...this.shape.slice(0, -2), 2 * m, 2 * n]);
  }
  /** What has these blocks. */
  protected unblocked(): this {
    const [m, n] = this.shape.slice(-2), parts = this.reshape([...this.shape.slice(0, -2), m / 2, 2, n / 2, 2]);
    const [re, im] = [0, 1].map((k) => parts.at("...", k, ":", 0).unsqueeze(-1));
    return re.cat([im], -1).viewAsComplex();
  }

  /**
   * One pass of elimination of `[..., n, n + m]`, rows exchanged for the largest pivot: with `above` also above it, so
   * that the first n columns become the identity. Gives the rows, and the product of the pivots with its sign.
   */
  private eliminated(n: number, above: boolean): [rows: this, determinant: this] {
    let w = this.kept();
    const d = w.dtype, lead = w.shape.slice(0, -2);
    let determinant = this.wrap(broadcastTo(constant(1, d), [...lead, 1, 1]));
    for (let i = 0; i < n; i++) {
      const k = step(i, n), at = this.wrap(k), rows = w.along(-2);
      const column = w.column(k);
      const size = rows.lt(at).where(-1, this.wrap(detachNode(column.uop)).abs());
      const pivotAt = size.argmax(-2, { keepdim: true }).kept(); // [..., 1, 1]
      const top = w.gather(-2, pivotAt.expand([...lead, 1, w.shape[w.ndim - 1]])); // the pivot's row
      const pivot = top.column(k), self = w.row(k);
      const swapped = rows.eq(at).where(top, rows.eq(pivotAt).where(self, w)) as this;
      const factor = swapped.column(k).div(pivot);
      const reduced = swapped.sub(factor.mul(top));
      const own = above ? top.div(pivot) : top;
      const next = rows.eq(at).where(own, above ? reduced : rows.lt(at).where(swapped, reduced));
      determinant = determinant.mul(pivotAt.eq(at).where(pivot, pivot.neg())).kept() as this;
      w = next.kept() as this;
    }
    return [w, determinant];
  }

  /**
   * `X` with `this X = b`, for square matrices `[..., n, n]` and `b` `[..., n, m]`, by Gauss-Jordan elimination with exchanges
   * of rows. As in PyTorch `b` of shape `[n]`, or of that of this without its last axis, is a vector for each matrix. Infinite
   * or NaN where a matrix is singular. With `left` false it is `X` with `X this = b`.
   *
   * @throws {ShapeError} where they do not fit @throws {ArgumentError} for a singular matrix whose values are known
   */
  solve(b: Operand, options: { readonly left?: boolean } = {}): this {
    const { left = true } = checkOptions("solve", options, ["left"]);
    if (!checkBoolean("solve", "left", left)) {
      const right = this.operand(b, "solve") as this;
      if (right.ndim < 2 || this.ndim < 2) return this.transpose(-1, -2).solve(right);
      return this.transpose(-1, -2).solve(right.transpose(-1, -2)).transpose(-1, -2);
    }
    const a = this.matrices("solve", true), n = a.shape[a.ndim - 1];
    const right = this.operand(b, "solve") as this;
    const vector = right.ndim === 1 || sameArray(right.shape, this.shape.slice(0, -1));
    const columns = vector ? right.unsqueeze(-1) : right;
    if (right.ndim === 0 || columns.shape[columns.ndim - 2] !== n) {
      throw new ShapeError("solve", {
        shapes: [this.shape, right.shape],
        reason: `the right side must have ${n} rows, or be [${n}]`,
      });
    }
    this.checkInvertible("solve");
    const d = promote(a.dtype, columns.dtype), m = columns.shape[columns.ndim - 1];
    const lead = broadcastShape("solve", [a.shape.slice(0, -2), columns.shape.slice(0, -2)]);
    if (n === 0 || m === 0 || prod(lead) === 0) {
      const nothing = broadcastTo(constant(0, d), vector ? [...lead, n] : [...lead, n, m]);
      return this.wrap(tied(nothing, [this.uop, right.uop]));
    }
    const x = a.cast(d).expand([...lead, n, n]).solved(columns.cast(d).expand([...lead, n, m]));
    const out = promote(floatOf(this.dtype), floatOf(right.dtype));
    return (vector ? x.squeeze(-1) : x).cast(out) as this;
  }

  /** {@linkcode solve} of matrices in one dtype, as many on both sides. */
  private solved(b: this): this {
    const [n, m] = b.shape.slice(-2), x = this.cat([b], -1).eliminated(n, true)[0].at("...", [n, n + m]);
    return this.wrap(withGradient(x.uop, [this.uop, b.uop], this.formulas.matrices.solution));
  }

  /** {@linkcode inv} of matrices, whatever their values. */
  protected inverted(): this {
    const shape = this.shape, n = shape[shape.length - 1];
    const one = this.identity(n, shape.slice(0, -2), this.dtype);
    const x = this.cat([one], -1).eliminated(n, true)[0].at("...", [n, 2 * n]);
    return this.wrap(withGradient(x.uop, [this.uop], this.formulas.matrices.inverse));
  }

  /**
   * The inverse of square matrices. Infinite or NaN where one is singular.
   *
   * @throws {ShapeError} unless square @throws {ArgumentError} for a singular matrix whose values are known
   */
  inv(): this {
    const a = this.matrices("invert", true), shape = a.shape;
    this.checkInvertible("invert");
    const found = prod(shape) === 0 ? this.wrap(tied(a.uop, [this.uop])) : a.inverted();
    return found.cast(floatOf(this.dtype)) as this;
  }

  /**
   * The determinant of square matrices: `[..., n, n]` to `[...]`. Its gradient are the cofactors, also of singular matrices.
   *
   * @throws {ShapeError} unless square
   */
  det(): this {
    const a = this.matrices("take the determinant of", true), shape = a.shape;
    const lead = shape.slice(0, -2), n = shape[shape.length - 1];
    // Behind a pivot of 0 all is NaN, and the determinant 0.
    const [, product] = a.eliminated(n, false);
    const value = this.zeroed(product), out = floatOf(this.dtype);
    if (prod(shape) === 0) return this.wrap(tied(value.reshape(lead).cast(out).uop, [this.uop]));
    const { matrices, cofactors } = this.formulas, from = a.dtype.isComplex ? matrices : cofactors;
    const found = withGradient(value.uop, [a.uop], from.determinant);
    return this.wrap(found).reshape(lead).cast(out) as this;
  }

  /** 0 for what became NaN although all values of this are finite. */
  private zeroed(product: this): this {
    const finite = this.isfinite().all([-2, -1], { keepdim: true });
    return product.isnan().bitwiseAnd(finite).where(0, product) as this;
  }

  /**
   * `U`, the singular values `S` in descending order, and `Vᵀ`: this = `U diag(S) Vᵀ`, by Jacobi's rotations of pairs of
   * columns (Hestenes, 1958), all disjoint pairs at once. `U` is `[..., m, m]` and `Vᵀ` `[..., n, n]`, or with
   * `fullMatrices` false only their first min(m, n) columns and rows. Signs are not unique. Gradients are those of the first
   * min(m, n) vectors, and infinite or NaN where two singular values are equal; that of the values alone is finite. Complex
   * matrices have unitary vectors, `Vᴴ` in place of `Vᵀ`, and real values; directions of their vectors in the complex plane
   * are not unique, and what is differentiated must not depend on them.
   *
   * @throws {ShapeError} below two axes
   */
  svd(fullMatrices: boolean | SvdOptions = true): [U: this, S: this, Vt: this] {
    if (typeof fullMatrices === "object") {
      fullMatrices = checkOptions("decompose", fullMatrices, ["fullMatrices"]).fullMatrices ?? true;
    }
    checkBoolean("decompose", "fullMatrices", fullMatrices);
    const a = this.matrices("decompose", false), shape = a.shape, [m, n] = shape.slice(-2);
    if (m < n) {
      const [u, s, vt] = this.transpose(-1, -2).svd(fullMatrices);
      return [vt.transpose(-1, -2), s, u.transpose(-1, -2)];
    }
    if (a.dtype.isComplex) {
      const { u, s, vt } = this.wrap(detachNode(a.uop)).rotatedFully(fullMatrices),
        [U, V] = [u, vt].map((x) => this.wrap(x));
      // the values change by Re(uᴴ dA v)
      const own = U.at("...", [0, n]).conjugated().mul(a.dot(V.conjugated().transpose(-1, -2))).real().sum(-2);
      const S = this.wrap(withGradient(s, [own.uop], PASSED)),
        [first, right] = this.turnedBy(a, U.at("...", [0, n]), s, V);
      const left = U.shape[U.ndim - 1] === n ? first : first.cat([U.at("...", [n, null])], -1);
      return [left.cast(floatOf(this.dtype)), S.cast(floatOf(this.dtype).real), right.cast(floatOf(this.dtype))] as [
        this,
        this,
        this,
      ];
    }
    const raw = nativeSvd(a.uop, fullMatrices ? m : n) ?? a.rotatedFully(fullMatrices), out = floatOf(this.dtype);
    const found = prod(shape) === 0 ? raw : differentiable(a.uop, raw);
    return [this.wrap(found.u).cast(out), this.wrap(found.s).cast(out), this.wrap(found.vt).cast(out)];
  }

  /**
   * The first vectors of singular values `s`, complex, as they turn with `a`: U by F (P S + S Pᴴ) and V by F (S P + Pᴴ S) of
   * P = Uᴴ dA V, F_ij = 1 / (s_j² - s_i²), and by what of dA is beside all. The direction of a pair in the plane is U's.
   */
  private turnedBy(a: this, U: this, s: UOp, Vt: this): [left: this, right: this] {
    const V = Vt.adjoint(), S = this.wrap(detachNode(s)), change = a.sub(this.wrap(detachNode(a.uop)));
    const P = U.adjoint().dot(change).dot(V).kept(), Q = P.adjoint(), column = S.unsqueeze(-1), row = S.unsqueeze(-2);
    const own = this.wrap(isDiagonal(row.mul(column).uop)),
      gaps = own.where(1, row.square().sub(column.square())) as this;
    const turn = (x: this): this => own.where(0, x.div(gaps)) as this;
    const alone = P.sub(Q).mul(0.5).div(row).tril().triu(); // the imaginary parts of the diagonal, over s
    const left = U.dot(turn(P.mul(row).add(Q.mul(column)) as this).add(alone));
    const right = V.dot(turn(P.mul(column).add(Q.mul(row)) as this));
    const outside = change.dot(V).sub(U.dot(P)).div(row), inside = change.adjoint().dot(U).sub(V.dot(Q)).div(row);
    return [U.changing(U.add(left).add(outside)), V.changing(V.add(right).add(inside)).adjoint()];
  }

  /** {@linkcode svd} of m >= n by rotations of all disjoint pairs of columns at once, in kernels of any device. */
  private rotatedFully(fullMatrices: boolean): Decomposed {
    const a = this.wrap(this.uop), shape = a.shape, [m, n] = shape.slice(-2);
    const d = a.dtype, lead = shape.slice(0, -2);
    const even = n + n % 2;
    let w = a.cat([this.identity(n, lead, d)], -2).pad([0, even - n, 0, 0]).kept(); // this over V
    const sweeps = n < 2 ? 0 : Math.ceil(Math.log2(n)) + (d === dtypes.float64 ? 6 : 4);
    for (let round = 0; round < sweeps * (even - 1); round++) w = w.rotated(m, even);
    const columns = w.at("...", [0, m], ":"), norms = columns.squares().sum(-2).sqrt();
    const [values, order] = norms.kept().sort(-1, { descending: true });
    const kept = order.at("...", [0, n]).kept(), pick = kept.unsqueeze(-2);
    const ordered = w.gather(-1, pick.expand([...lead, m + n, n])).kept();
    const v = ordered.at("...", [m, null], ":");
    // The columns are orthogonal: reflections give their directions and complete them.
    const [q, r] = ordered.at("...", [0, m], ":").qr({ mode: fullMatrices ? "complete" : "reduced" });
    const signs = d.isComplex
      ? undefined
      : r.diagonal({ dim1: -2, dim2: -1 }).lt(0).where(this.wrap(floatConst(-1, d)), 1).unsqueeze(-2) as this;
    const turned = signs === undefined ? q.at("...", [0, n]) : q.at("...", [0, n]).mul(signs);
    const u = fullMatrices && m > n ? turned.cat([q.at("...", [n, m])], -1) : turned;
    return { u: u.uop, s: values.at("...", [0, n]).uop, vt: v.conjugated().transpose(-1, -2).uop };
  }

  /**
   * All columns but the first moved on by one; then column i turned against column n-1-i, until their first `m` rows are
   * orthogonal. Each column sees the other one from its side, so that all do the same: one kernel.
   */
  private rotated(m: number, n: number): this {
    const axis = this.ndim - 1, d = this.dtype.real;
    const parts = [this.at("...", [0, 1]), this.at("...", [n - 1, n]), this.at("...", [1, n - 1])];
    const own = parts[0].cat(parts.slice(1), axis), other = own.flip(axis);
    const x = own.at("...", [0, m], ":"), y = other.at("...", [0, m], ":");
    const over = (t: this) => t.sum(-2, { keepdim: true });
    // in memory: where both are as long, their difference must have one size from both sides, to the last digit
    const xx = over(x.squares()).kept(), yy = xx.flip(axis), product = over(x.conjugated().mul(y));
    const { isComplex } = this.dtype, xy = isComplex ? product.abs() : product;
    const done = xy.square().le(xx.mul(yy).mul(d === dtypes.float64 ? 1e-34 : 1e-17));
    const zeta = yy.sub(xx).div(done.where(1, xy.mul(2)));
    // where both are as long, one of them turns forward
    const behind = this.wrap(iotaAlong(n, axis, this.ndim)).ge(n / 2);
    const backward = zeta.lt(0).bitwiseOr(zeta.eq(0).bitwiseAnd(behind));
    const one = this.wrap(floatConst(1, d));
    const t = backward.where(-1, one).div(zeta.abs().add(zeta.square().add(1).sqrt()));
    const tangent = done.where(0, t) as this, c = tangent.square().add(1).rsqrt();
    // complex columns are turned so that their product is real
    const beside = isComplex ? other.mul(product.directions().conjugated()) : other;
    return c.mul(own.sub(tangent.mul(beside))).kept() as this;
  }
}
