/**
 * Factorizations beside those of decompositions.ts, and what is solved by them: eigenvalues of symmetric matrices, LU,
 * least squares, pseudoinverses, ranks, exponentials; over the last two axes, with gradients. Singular values and symmetric
 * eigenvalues are those of one algorithm: of a symmetric matrix moved by its norm the singular values are its
 * eigenvalues, moved as far.
 *
 * @module
 */
import { complexOf, dtypeEpsilon, dtypes } from "../../dtype/dtype.ts";
import { floatOf, promote } from "../../dtype/promotion.ts";
import { ArgumentError, DTypeError, ShapeError } from "../../helpers/errors.ts";
import { prod, rangeOf, sameArray } from "../../helpers/math.ts";
import { checkBoolean, checkChoice, checkInteger, checkNumber, checkOptions } from "../../helpers/options.ts";
import { broadcastTo } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { constant, type UOp, uop } from "../../uop/core/uop.ts";
import { GradientArg, withGradient } from "../../uop/graph/given_gradient.ts";
import { checkIntegers } from "../handle/axes.ts";
import { checkTensor, type Operand, TensorBase } from "../handle/base.ts";
import { broadcastShape } from "../handle/broadcast.ts";
import { isWeak } from "../handle/weak_numbers.ts";
import { iotaAlong } from "../nodes/movement_nodes.ts";
import { detachNode, floatConst } from "../nodes/numeric.ts";
import { reduceNode } from "../nodes/reduce_nodes.ts";
import { castNode } from "../nodes/scalars.ts";
import { PASSED, step } from "./decompositions.ts";
import { along, isDiagonal, minus, times, turned } from "./matrix_nodes.ts";
import type { ArrangeTensor } from "../ops/arrange.ts";
import type { NormOrder } from "./norms.ts";
import type { ProductTensor } from "./products.ts";
import { constantAxes } from "../handle/dims.ts";

/** Up to which singular values count as 0. */
export interface RankOptions {
  /** Absolutely; of several matrices a tensor may say it for each. Default 0. */
  readonly atol?: number | TensorBase;
  /** As a share of the largest, alike. Default: the larger size times the epsilon of the dtype, and 0 beside an `atol`. */
  readonly rtol?: number | TensorBase;
  /** Whether the matrices are symmetric. Default false. */
  readonly hermitian?: boolean;
}

/** Of eigenvalues: V diag(g) Vᵀ. */
const VALUES = new GradientArg((g, [, v]) => [times(v.mul(along(g, "column")), turned(v)), undefined]);
/** Of eigenvectors: V (skew(Vᵀ g) / E) Vᵀ with E_ij = w_j - w_i: they only turn. */
const VECTORS = new GradientArg((g, [, w], v) => {
  const all = times(turned(v), g),
    inner = minus(all, turned(all)).mul(0.5),
    own = isDiagonal(inner),
    zero = constant(0, w.dtype);
  const gaps = own.where(constant(1, w.dtype), minus(along(w, "column"), along(w, "row")));
  return [times(times(v, own.where(zero, inner.fdiv(gaps))), turned(v)), undefined];
});

/** x without its projection: (1 - a b) x. */
function rest(a: UOp, b: UOp, x: UOp): UOp {
  return minus(x, times(a, times(b, x)));
}
/**
 * Of P = A⁺: -Pᵀ g Pᵀ + (1 - A P) gᵀ P Pᵀ + Pᵀ P gᵀ (1 - P A) (Golub and Pereyra, 1973). Where A has as many independent
 * rows, or columns, as it has, A P, or P A, is 1: what rounding leaves of the difference would be multiplied by P three times.
 */
const PSEUDOINVERSE = new GradientArg((g, [a], p) => {
  const back = turned(p), up = turned(g), [m, n] = shapeOf(a).slice(-2), axes = shapeOf(a).length - 2;
  const rank = reduceNode(back.mul(a), Ops.ADD, [axes, axes + 1]); // the trace of A P
  const unless = (full: number, x: UOp): UOp => {
    const isFull = broadcastTo(constant(full - 0.5, a.dtype).lt(rank), shapeOf(x));
    return full > Math.min(m, n) ? x : isFull.where(constant(0, x.dtype), x);
  };
  const left = unless(m, rest(a, p, times(times(up, p), back))), right = times(times(back, p), up);
  const other = unless(n, minus(right, times(times(right, p), a)));
  return [minus(left.add(other), times(times(back, g), back))];
});

/** A tensor whose values can be read. */
interface Read {
  data(): Promise<Float32Array | Float64Array>;
}

/** The squared magnitudes of numbers. */
function squaredSizes<T extends SystemTensor>(t: T): T {
  return t.dtype.isComplex ? t.real().square().add(t.imag().square()) : t.square();
}

/** The families that it is written in. */
export interface SystemTensor extends ArrangeTensor, ProductTensor {}
/** Tensors with more factorizations. */
export abstract class SystemTensor extends TensorBase {
  /** This as matrices of floats of at least 32 bits. @throws {ShapeError} */
  private asMatrices(action: string, square: boolean, real = true): this {
    const shape = this.shape, n = shape.length;
    if (this.dtype.isComplex && real) {
      throw new DTypeError(`${action} of dtype`, { dtypes: [this.dtype], reason: "it takes real matrices" });
    }
    if (n >= 2 && (!square || shape[n - 1] === shape[n - 2])) {
      constantAxes(action, this.uop, 2);
      return this.cast(promote(floatOf(this.dtype), dtypes.float32));
    }
    throw new ShapeError(action, {
      shapes: [shape],
      reason: square ? "it takes square matrices, in the last two axes" : "it takes matrices, of two axes or more",
    });
  }
  /** In memory of its own. */
  private inMemory(): this {
    return this.wrap(uop(Ops.CONTIGUOUS, this.dtype, [this.uop]));
  }
  /** What the lower triangle says of symmetric or Hermitian matrices; slopes are those by all elements, as PyTorch's. */
  private ofLower(): this {
    const half = this.tril(-1), other = this.dtype.isComplex ? half.conj() : half;
    const whole = this.tril().add(other.transpose(-1, -2));
    return this.wrap(withGradient(detachNode(whole.uop), [this.uop], PASSED));
  }
  /** These as vectors of matrices with these norms: one of size 1 is 1, and says nothing of NaN by itself. */
  private orNan(norms: this): this {
    return this.shape[this.ndim - 1] > 1 ? this : this.add(norms.mul(0));
  }
  /** Identity matrices like these. */
  private unit(): this {
    return this.constLike(1).tril().triu();
  }

  /**
   * The eigenvalues `[..., n]` of symmetric matrices, ascending, and their vectors, the columns of `[..., n, n]`. Only the
   * lower triangle (with `uplo` "U" the upper one) is looked at. Signs are not unique. Gradients of vectors are infinite or
   * NaN where two values are equal. Complex matrices are Hermitian: their values are real, and what is differentiated must not
   * depend on the directions of their vectors in the complex plane, which are not unique.
   *
   * @throws {ShapeError} unless they are square, {ArgumentError} for another triangle
   */
  eigh(options: { readonly uplo?: "L" | "U" } = {}): [values: this, vectors: this] {
    const action = "eigh", { uplo = "L" } = checkOptions(action, options, ["uplo"]);
    checkChoice(action, "uplo", uplo, ["L", "U"]);
    const a = this.asMatrices(action, true, false), n = a.shape[a.ndim - 1], out = floatOf(this.dtype);
    const half = uplo === "L" ? a.tril(-1) : a.triu(1), other = half.transpose(-1, -2);
    if (a.dtype.isComplex) {
      // the diagonal is real
      const middle = a.real().tril().triu().cast(a.dtype), x = half.add(other.conj()).add(middle);
      const sums = x.abs().sum(-1, { keepdim: true }).max(-2, { keepdim: true }), by = this.wrap(detachNode(sums.uop));
      const moved = x.add(by.expand(x.shape).tril().triu()), [, s, vh] = moved.svd();
      const found = this.wrap(detachNode(vh.orNan(by).uop)),
        v = found.conj().transpose(-1, -2).flip(-1),
        w = s.flip(-1).sub(by.squeeze([-2, -1]).unsqueeze(-1));
      // the values change by Re(vᴴ dA v)
      const own = v.conj().mul(a.dot(v)).real().sum(-2);
      const values = this.wrap(withGradient(detachNode(w.uop), [own.uop], PASSED));
      // and vectors turn to others by what stands beside it
      const gaps = this.wrap(detachNode(w.unsqueeze(-2).sub(w.unsqueeze(-1)).uop)),
        same = this.wrap(isDiagonal(gaps.uop));
      const change = v.conj().transpose(-1, -2).dot(a.sub(this.wrap(detachNode(a.uop)))).dot(v);
      const turns = same.where(0, change.div(same.where(1, gaps) as this)) as this;
      return [values.cast(out.real) as this, v.changing(v.add(v.dot(turns))).cast(out) as this];
    }
    const whole = half.add(other).add(a.tril().triu());
    if (prod(a.shape) === 0) return [a.sum(-1).cast(out), this.wrap(a.uop).cast(out)];
    const x = this.wrap(detachNode(whole.uop)).inMemory();
    // not below 0 then; a norm of 0 leaves nothing to turn
    const by = x.abs().sum(-1, { keepdim: true }).max(-2, { keepdim: true });
    const [, s, vt] = x.add(by.mul(x.unit())).svd();
    const values = s.flip(-1).sub(by.squeeze([-2, -1]).unsqueeze(-1)).inMemory();
    const vectors = vt.orNan(by).transpose(-1, -2).flip(-1).inMemory();
    const around = (w: UOp, v: UOp): [UOp, UOp] => [
      withGradient(w, [a.uop, v], VALUES),
      withGradient(v, [a.uop, w], VECTORS),
    ];
    const [w, v] = n === 0 ? [values.uop, vectors.uop] : around(...around(values.uop, vectors.uop));
    return [this.wrap(w).cast(out), this.wrap(v).cast(out)];
  }
  /** The values of {@linkcode eigh}. @throws {ShapeError} unless square */
  eigvalsh(options: { readonly uplo?: "L" | "U" } = {}): this {
    return this.eigh(options)[0];
  }
  /**
   * The eigenvalues `[..., n]` of square matrices of any kind, and their vectors, the columns of `[..., n, n]`, of length 1:
   * complex. The matrices are read, and their values found on the host; NaN where they are not finite. In no order; the
   * vectors' directions in the complex plane are not unique, and gradients of them infinite or NaN where two values are equal.
   *
   * ```ts
   * import { Tensor } from "../../../mod.ts";
   * const [values] = await new Tensor([[0, -1], [1, 0]]).eig();
   * console.log((await values.imag().sort())[0].shape); // [2]
   * ```
   *
   * @throws {ShapeError} unless they are square
   */
  async eig(): Promise<[values: this, vectors: this]> {
    const a = this.asMatrices("eig", true, false), shape = a.shape, n = shape[a.ndim - 1], size = n * n;
    const d = a.dtype.real, count = n === 0 ? 0 : prod(shape) / size;
    const given = await (a as unknown as Read).data(), step = a.dtype.isComplex ? 2 : 1;
    const now = this.uop; // as it is after it was read
    const { eigen } = await import("../../helpers/eigenvalues.ts");
    const values = new Float64Array(2 * count * n).fill(NaN), vectors = new Float64Array(2 * count * size).fill(NaN);
    const pairs = (from: Float64Array, to: Float64Array, at: number, part: number): void =>
      from.forEach((x, i) => to[2 * (at + i) + part] = x);
    for (let k = 0; k < count; k++) {
      const part = (by: number): Float64Array =>
        Float64Array.from({ length: size }, (_, i) => given[step * (k * size + i) + by]);
      const found = eigen({ re: part(0), im: step === 2 ? part(1) : new Float64Array(size) }, n);
      if (found === undefined) continue;
      for (const [p, name] of (["re", "im"] as const).entries()) {
        pairs(found.values[name], values, k * n, p);
        pairs(found.vectors[name], vectors, k * size, p);
      }
    }
    const tensor = (list: Float64Array, to: readonly number[]): this =>
      (this.fromList(list, d) as this).reshape([...to, 2]).viewAsComplex();
    const w = tensor(values, shape.slice(0, -1)), v = tensor(vectors, shape);
    if (count === 0) return [w, v];
    const z = this.wrap(castNode(now, complexOf(d)));
    // V⁻¹ dA V: what the values change by is its diagonal, and vectors turn to others by what stands beside it
    const inverse = (): this => v.inv(), moved = inverse().dot(z.sub(this.wrap(detachNode(z.uop)))).dot(v);
    const gaps = w.unsqueeze(-2).sub(w.unsqueeze(-1)), own = this.wrap(isDiagonal(gaps.real().uop));
    const turns = own.where(0, moved.div(own.where(1, gaps) as this)) as this, near = v.add(v.dot(turns));
    const lengths = squaredSizes(near).sum(-2, { keepdim: true }).sqrt();
    const around = (value: this, of: this): this =>
      this.wrap(withGradient(value.viewAsReal().inMemory().uop, [of.viewAsReal().inMemory().uop], PASSED))
        .viewAsComplex();
    return [around(w, moved.diagonal({ dim1: -2, dim2: -1 })), around(v, near.div(lengths))];
  }
  /** The values of {@linkcode eig}. @throws {ShapeError} unless square */
  async eigvals(): Promise<this> {
    return (await this.eig())[0];
  }
  /** The singular values, descending: those of `svd`. @throws {ShapeError} below two axes */
  svdvals(): this {
    return this.svd(false)[1];
  }

  /** Elimination with exchanges of rows: L below the diagonal of U, and where each row came from `[..., m]`; and the sign of that. */
  private factored(action: string, square: boolean): [lu: this, rows: this, pivots: this, sign: this] {
    const a = this.asMatrices(action, square, false),
      [m, n] = a.shape.slice(-2),
      lead = a.shape.slice(0, -2),
      k = Math.min(m, n);
    const int = (count: number): this =>
      this.wrap(iotaAlong(count, lead.length, lead.length + 1)).expand([...lead, count]);
    let w = a.inMemory(), order = int(m), sign = this.wrap(broadcastTo(constant(1, a.dtype), [...lead, 1, 1]));
    let pivots = int(k);
    const at = (axis: -1 | -2): this =>
      this.wrap(iotaAlong(a.shape[lead.length + 2 + axis], lead.length + 2 + axis, lead.length + 2));
    const rows = at(-2), columns = at(-1);
    for (let i = 0; i < k; i++) {
      const here = this.wrap(step(i, k)), column = w.at("...", here).unsqueeze(-1);
      const size = rows.lt(here).where(-1, this.wrap(detachNode(column.uop)).abs()) as this;
      const best = size.argmax(-2, { keepdim: true }).inMemory(); // [..., 1, 1]
      const top = w.gather(-2, best.expand([...lead, 1, n])), own = w.at("...", here, ":").unsqueeze(-2);
      const swapped = rows.eq(here).where(top, rows.eq(best).where(own, w)) as this;
      const pivot = top.at("...", here).unsqueeze(-1), zero = pivot.eq(0);
      const factor = swapped.at("...", here).unsqueeze(-1).div(zero.where(1, pivot) as this);
      const below = rows.gt(here), right = columns.gt(here);
      w = below.bitwiseAnd(right).where(
        swapped.sub(factor.mul(top)),
        below.bitwiseAnd(columns.eq(here)).where(factor, swapped),
      ) as this;
      w = w.inMemory();
      const flat = best.reshape([...lead, 1]),
        line = int(m),
        first = order.gather(-1, flat),
        second = order.at("...", here).unsqueeze(-1);
      order = (line.eq(here).where(first, line.eq(flat).where(second, order)) as this).inMemory();
      pivots = (int(k).eq(here).where(flat.add(1), pivots) as this).inMemory();
      sign = sign.mul(best.eq(here).where(1, sign.constLike(-1)) as this).inMemory();
    }
    return [w, order, pivots, sign.reshape(lead)];
  }

  /** The factors of this = P L U: a permutation, and triangles, L with ones on its diagonal. @throws {ShapeError} below two axes */
  lu(): [P: this, L: this, U: this] {
    const [lu, rows] = this.factored("lu", false),
      [m, n] = lu.shape.slice(-2),
      k = Math.min(m, n),
      out = floatOf(this.dtype);
    const part = (t: this, axis: number): this => t.narrow2(axis, k),
      l = part(lu, -1).tril(-1),
      one = part(l.constLike(1), -1).tril().triu();
    const place = this.wrap(iotaAlong(m, rows.ndim - 1, rows.ndim + 1));
    const p = rows.unsqueeze(-2).eq(place).cast(out);
    return [p, l.add(one).cast(out), part(lu, -2).triu().cast(out)];
  }
  /** The first `k` of an axis from the end. */
  private narrow2(axis: number, k: number): this {
    const at = this.ndim + axis;
    return this.shrink(this.shape.map((n, i) => i === at ? [0, k] as const : [0, n] as const));
  }
  /** L below the diagonal of U, and by which row each was exchanged, counted from 1 (int32): for {@linkcode luSolve}. @throws {ShapeError} */
  luFactor(): [LU: this, pivots: this] {
    const [lu, , pivots] = this.factored("luFactor", false);
    return [lu.cast(floatOf(this.dtype)), pivots];
  }
  /**
   * `X` with A X = b, by what `A.luFactor()` gives: this and `pivots`; with `left` false X A = b, and with `adjoint` Aᴴ stands
   * for A. Axes before the matrices broadcast.
   *
   * @throws {ShapeError} where they do not fit
   */
  luSolve(pivots: this, b: this, options: { readonly left?: boolean; readonly adjoint?: boolean } = {}): this {
    const action = "luSolve", { left = true, adjoint = false } = checkOptions(action, options, ["left", "adjoint"]);
    for (const [name, x] of Object.entries({ left, adjoint })) checkBoolean(action, name, x);
    const lu = this.asMatrices(action, true, false),
      n = lu.shape[lu.ndim - 1],
      shape = checkTensor(action, "b", b).shape;
    if (
      checkTensor(action, "pivots", pivots).shape.at(-1) !== n || shape.length < 2 || shape.at(left ? -2 : -1) !== n
    ) {
      throw new ShapeError(action, {
        shapes: [this.shape, pivots.shape, shape],
        reason: left ? `both must have ${n} rows` : `pivots and the columns of b must be ${n}`,
      });
    }
    const turned = (t: this): this => t.transpose(-1, -2).conj();
    // Aᴴ Xᴴ = bᴴ
    if (!left) return turned(this.luSolve(pivots, turned(b), { adjoint: !adjoint }));
    const lead = broadcastShape(action, [lu.shape.slice(0, -2), pivots.shape.slice(0, -1), shape.slice(0, -2)]);
    const x = b.cast(promote(lu.dtype, b.dtype)).expand([...lead, ...shape.slice(-2)]);
    const upper = lu.triu(), lower = lu.tril(-1).add(lu.unit());
    if (adjoint) return turned(lower).solve(turned(upper).solve(x)).exchanged(pivots, true);
    return upper.solve(lower.solve(x.exchanged(pivots, false)));
  }
  /** Row i in turn with the one that `pivots` names, from 1; or `back`, the last one first. */
  private exchanged(pivots: this, back: boolean): this {
    const n = pivots.shape[pivots.ndim - 1], to = [...this.shape.slice(0, -2), 1, this.shape[this.ndim - 1]];
    let x = this.wrap(this.uop);
    for (const i of back ? rangeOf(n).reverse() : rangeOf(n)) {
      const rows = this.wrap(iotaAlong(n, x.ndim - 2, x.ndim)),
        other = pivots.at("...", i).sub(1).unsqueeze(-1).unsqueeze(-1);
      const own = x.at("...", i, ":").unsqueeze(-2), top = x.gather(-2, other.expand(to));
      x = (rows.eq(i).where(top, rows.eq(other).where(own, x)) as this).inMemory();
    }
    return x;
  }

  /** The sign of the determinant and the logarithm of its size: 0 and -Infinity for singular matrices. @throws {ShapeError} unless square */
  slogdet(): [sign: this, logabsdet: this] {
    const [lu, , , sign] = this.factored("slogdet", true), out = floatOf(this.dtype);
    const d = lu.diagonal({ dim1: -2, dim2: -1 });
    return [sign.mul(d.sgn().prod(-1)).cast(out), d.abs().log().sum(-1).cast(out.real)];
  }

  /**
   * The logarithm of the determinant: NaN where that is negative, -Infinity for singular matrices.
   *
   * @throws {ShapeError} unless square @throws {DTypeError} for complex ones: see `slogdet`
   */
  logdet(): this {
    if (this.dtype.isComplex) {
      throw new DTypeError("logdet of dtype", {
        dtypes: [this.dtype],
        reason:
          "a complex determinant has many logarithms; slogdet() gives its direction and the logarithm of its size",
      });
    }
    const [sign, size] = this.slogdet();
    return sign.lt(0).where(NaN, size) as this;
  }

  /** Triangular matrices: `X` with this X = b, or X this = b with `left` false. @throws {ShapeError} where they do not fit */
  solveTriangular(
    b: this,
    options: { readonly upper: boolean; readonly left?: boolean; readonly unitriangular?: boolean },
  ): this {
    const action = "solveTriangular", given = checkOptions(action, options, ["upper", "left", "unitriangular"]);
    const { upper, left = true, unitriangular = false } = given;
    for (const [name, x] of Object.entries({ upper, left, unitriangular })) checkBoolean(action, name, x);
    checkTensor(action, "b", b);
    const a = this.asMatrices(action, true, false);
    const half = unitriangular ? (upper ? a.triu(1) : a.tril(-1)).add(a.unit()) : upper ? a.triu() : a.tril();
    if (b.ndim < 2) {
      throw new ShapeError(action, { shapes: [this.shape, b.shape], reason: "the right side has two axes or more" });
    }
    return half.solve(b, { left });
  }

  /** `X` with A X = this, where A = L Lᵀ of the triangle `L` (with `upper`: Uᵀ U). @throws {ShapeError} where they do not fit */
  choleskySolve(L: this, options: { readonly upper?: boolean } = {}): this {
    const { upper = false } = checkOptions("choleskySolve", options, ["upper"]);
    checkBoolean("choleskySolve", "upper", upper);
    const given = checkTensor("choleskySolve", "L", L), l = (upper ? given.transpose(-1, -2).conj() : given).tril();
    return l.transpose(-1, -2).conj().solve(l.solve(this));
  }

  /** The inverse of A = L Lᵀ, where this is the triangle `L` (with `upper`: U, A = Uᵀ U). @throws {ShapeError} unless square */
  choleskyInverse(options: { readonly upper?: boolean } = {}): this {
    const { upper = false } = checkOptions("choleskyInverse", options, ["upper"]);
    checkBoolean("choleskyInverse", "upper", upper);
    const l = this.asMatrices("choleskyInverse", true, false);
    return (l.unit().expand(l.shape) as this).choleskySolve(l, { upper }).cast(this.dtype) as this;
  }

  /**
   * The inverse in the sense of `tensordot` over `ind` axes: this as a matrix of its first `ind` axes by the others.
   *
   * @throws {ShapeError} unless there are as many positions in both
   */
  tensorinv(ind = 2): this {
    const action = "tensorinv", shape = this.shape;
    checkInteger(action, "ind", ind, 1);
    const rows = shape.slice(0, ind), columns = shape.slice(ind), n = prod(rows);
    if (n !== prod(columns) || columns.length === 0) {
      throw new ShapeError(action, {
        shapes: [shape],
        reason: `the first ${ind} axes must have as many positions as the others`,
      });
    }
    return this.reshape([n, n]).inv().reshape([...columns, ...rows]);
  }

  /**
   * `X` with this X = b in the sense of `tensordot` over all axes of X, which are those of this after the axes of `b`; `dims`
   * are moved to the end before.
   *
   * @throws {ShapeError} where they do not fit @throws {ArgumentError} for `dims` that are no list of integers
   */
  tensorsolve(b: this, dims?: readonly number[]): this {
    const action = "tensorsolve", to = checkTensor(action, "b", b).shape;
    const moved = checkIntegers(action, "dims", dims ?? []);
    const a = moved.length === 0 ? this : this.movedim(moved, moved.map((_, i) => i - moved.length)) as this;
    const columns = a.shape.slice(to.length), n = prod(to);
    if (prod(columns) !== n || prod(a.shape.slice(0, to.length)) !== n) {
      throw new ShapeError(action, {
        shapes: [this.shape, to],
        reason: "the axes of b and those after them must have as many positions",
      });
    }
    return a.reshape([n, n]).solve(b.reshape([n])).reshape(columns);
  }

  /** Where singular values are above what counts as 0. */
  private tolerance(action: string, s: this, options: RankOptions, sizes: readonly number[]): this {
    const { atol, rtol } = options;
    for (const [name, x] of Object.entries({ atol, rtol })) {
      if (x instanceof TensorBase && !x.dtype.isFloat && !isWeak(x)) {
        throw new DTypeError(`${action} to ${name} of dtype`, { dtypes: [x.dtype], reason: "a tolerance is a float" });
      }
      if (x !== undefined && x !== null && !(x instanceof TensorBase) && !(checkNumber(action, name, x) >= 0)) {
        throw new ArgumentError(action, { reason: `${name} must be at least 0, not ${x}` });
      }
    }
    const usual = Math.max(...sizes) * dtypeEpsilon(s.dtype), largest = s.max(-1, { keepdim: true });
    /** A limit for each matrix. */
    const limit = (x: number | TensorBase): this =>
      x instanceof TensorBase
        ? this.wrap(x.uop).cast(s.dtype).unsqueeze(-1) as this
        : this.wrap(floatConst(x, s.dtype));
    const least = limit(atol ?? 0), isNone = atol === undefined || atol === null || atol === 0;
    let share = limit(rtol ?? (isNone || atol instanceof TensorBase ? usual : 0));
    if ((rtol === undefined || rtol === null) && atol instanceof TensorBase) {
      share = least.gt(0).where(0, share) as this;
    }
    return largest.mul(share).maximum(least);
  }

  /** How many singular values are not 0; int32. None of a matrix with NaN is. @throws {ShapeError} below two axes */
  matrixRank(options: RankOptions = {}): this {
    const action = "matrixRank", { hermitian = false } = checkOptions(action, options, RANK);
    checkBoolean(action, "hermitian", hermitian);
    const a = this.asMatrices(action, hermitian, false), s = hermitian ? a.eigvalsh().abs() : a.svdvals();
    return s.gt(this.tolerance(action, s, options, a.shape.slice(-2))).sum(-1);
  }

  /**
   * The pseudoinverse (Moore and Penrose's): `[..., m, n]` to `[..., n, m]`. Of symmetric matrices, if they are said to be
   * `hermitian`, only the lower triangle is looked at. @throws {ShapeError} below two axes
   */
  pinv(options: RankOptions = {}): this {
    const action = "pinv", { hermitian = false } = checkOptions(action, options, RANK);
    checkBoolean(action, "hermitian", hermitian);
    const a = this.asMatrices(action, hermitian, false), [m, n] = a.shape.slice(-2), out = floatOf(this.dtype);
    if (prod(a.shape) === 0) return a.transpose(-1, -2).cast(out);
    if (a.dtype.isComplex) {
      // that of the real matrix of blocks has blocks too
      const { atol, rtol } = options,
        usual = atol ? undefined : Math.max(m, n) * dtypeEpsilon(a.dtype.real),
        t = this.wrap(a.uop);
      return (hermitian ? t.ofLower() : t).blocks().pinv({ atol, rtol: rtol ?? usual }).unblocked().cast(out);
    }
    const of = hermitian ? a.ofLower() : a, given = this.wrap(detachNode(of.uop));
    const [u, s, vt] = given.svd(false), keep = s.gt(this.tolerance(action, s, options, [m, n]));
    const inverse = keep.where((keep.where(s, 1) as this).reciprocal(), 0) as this;
    const made = vt.transpose(-1, -2).mul(inverse.unsqueeze(-2)).dot(u.transpose(-1, -2)).inMemory();
    return this.wrap(withGradient(made.uop, [of.uop], PSEUDOINVERSE)).cast(out);
  }

  /**
   * `X` of the least |this X - b|, of the least norm where there are several; the squares of what is left, a column each
   * (`[..., 0]` unless there are more rows than columns), the rank (int32) and the singular values.
   *
   * @throws {ShapeError} where they do not fit
   */
  lstsq(
    b: Operand,
    options: { readonly rcond?: number } = {},
  ): [solution: this, residuals: this, rank: this, singularValues: this] {
    const action = "lstsq",
      { rcond } = checkOptions(action, options, ["rcond"]),
      a = this.asMatrices(action, false, false);
    const right = this.operand(b, action) as this, [m, n] = a.shape.slice(-2);
    const vector = right.ndim === 1 || (a.ndim > 2 && sameArray(right.shape, this.shape.slice(0, -1)));
    const y = (vector ? right.unsqueeze(-1) : right).cast(promote(a.dtype, floatOf(right.dtype)));
    if (y.ndim < 2 || y.shape[y.ndim - 2] !== m) {
      throw new ShapeError(action, { shapes: [this.shape, right.shape], reason: `the right side must have ${m} rows` });
    }
    const x = a.pinv({ rtol: rcond }).dot(y), s = this.wrap(detachNode(a.uop)).svdvals();
    const left = m > n ? squaredSizes(a.dot(x).sub(y)).sum(-2) : x.sum(-2).narrow2(-1, 0);
    return [vector ? x.squeeze(-1) : x, left, a.matrixRank({ rtol: rcond }), s];
  }

  /** The condition number by a norm `p` (2): that of this times that of the inverse; infinite where there is none. @throws {ShapeError} */
  cond(p: NormOrder = 2): this {
    const a = this.asMatrices("cond", p !== 2 && p !== -2);
    if (prod(a.shape.slice(-2)) === 0) return a.matrixNorm({ ord: typeof p === "number" ? Math.abs(p) : p });
    if (p !== 2 && p !== -2) {
      const inverse = prod(a.shape) === 0 ? a : a.inverted(),
        whole = (t: this): this => t.isfinite().all([-2, -1]) as this;
      const isSingular = whole(a).bitwiseAnd(whole(inverse).logicalNot());
      return isSingular.where(Infinity, a.matrixNorm({ ord: p }).mul(inverse.matrixNorm({ ord: p }))) as this;
    }
    const s = a.svdvals(), [high, low] = [s.max(-1), s.min(-1)];
    return p === 2 ? high.div(low) : low.div(high);
  }

  /** e to the power of square matrices, by a series of what is halved until it is small, and squared as often. @throws {ShapeError} unless square */
  matrixExp(): this {
    const a = this.asMatrices("matrixExp", true, false), d = a.dtype.real, n = a.shape[a.ndim - 1];
    if (prod(a.shape) === 0) return this.wrap(a.uop).cast(floatOf(this.dtype));
    // halvings until the norm is below 1/2; of one that needs more, no digit of the result would be right
    const most = d === dtypes.float64 ? 53 : 24, terms = d === dtypes.float64 ? 16 : 10;
    const norm = this.wrap(detachNode(a.abs().sum(-2, { keepdim: true }).max(-1, { keepdim: true }).uop));
    const halvings = norm.mul(2).maximum(1).log2().ceil().clamp(0, most).inMemory();
    const x = a.mul(halvings.neg().exp2()).inMemory(), one = a.unit();
    let sum: this = one;
    for (let k = terms; k >= 1; k--) sum = one.add(x.dot(sum).div(k)).inMemory();
    for (const k of rangeOf(most)) {
      sum = (halvings.gt(this.wrap(step(k, most))).where(sum.dot(sum), sum) as this).inMemory();
    }
    return (n === 1 ? a.exp() : sum).cast(floatOf(this.dtype));
  }
}

const RANK = ["atol", "rtol", "hermitian"];
