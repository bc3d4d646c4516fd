/**
 * Parts of decompositions: the largest singular values of a matrix by products with few random vectors, principal components,
 * and some eigenvalues, also of pairs of matrices. With PyTorch's names.
 *
 * @module
 */
import { floatOf, promote } from "../../dtype/promotion.ts";
import { dtypes } from "../../dtype/dtype.ts";
import { ArgumentError, ShapeError } from "../../helpers/errors.ts";
import { checkBoolean, checkInteger, checkOptions } from "../../helpers/options.ts";
import { Ops } from "../../uop/core/ops.ts";
import { uop } from "../../uop/core/uop.ts";
import { checkTensor, maybeTensor, TensorBase } from "../handle/base.ts";
import type { SystemTensor } from "../math/systems.ts";
import { drawNormal } from "../nodes/random.ts";

/** Options of {@linkcode LowRankTensor.svdLowrank}. */
export interface LowRankOptions<T> {
  /** How many singular values; a few more than the rank that is looked for. Default 6, or the smaller size. */
  readonly q?: number;
  /** How often the vectors are multiplied again; more separates values that are near. Default 2. */
  readonly niter?: number;
  /** What is subtracted from the matrix first: of its shape, or one row for all. */
  readonly M?: T | null;
}
/** Options of {@linkcode LowRankTensor.pcaLowrank}. */
export interface PcaOptions {
  /** How many components. Default 6, or the smaller size. */
  readonly q?: number;
  /** Whether the mean of the rows is subtracted first. Default true. */
  readonly center?: boolean;
  /** As in {@linkcode LowRankOptions}. Default 2. */
  readonly niter?: number;
}
/** Options of {@linkcode LowRankTensor.lobpcg}. */
export interface LobpcgOptions<T> {
  /** How many eigenvalues. Default 1, of matrices without elements 0. */
  readonly k?: number;
  /** The matrix on the right side, symmetric and positive definite. Default the identity. */
  readonly B?: T | null;
  /** Whether the largest ones, descending, or the smallest, ascending. Default true. */
  readonly largest?: boolean;
}

/** The families that it is written in. */
export interface LowRankTensor extends SystemTensor {}
/** Tensors with parts of decompositions. */
export abstract class LowRankTensor extends TensorBase {
  /** Orthonormal columns that span those of this. */
  private spanned(): this {
    const q = this.qr({ mode: "reduced" })[0];
    return this.wrap(uop(Ops.CONTIGUOUS, q.dtype, [q.uop]));
  }
  /** The conjugate of the transpose. */
  private turned(): this {
    return (this.dtype.isComplex ? this.conj() : this).transpose(-1, -2) as this;
  }

  /**
   * The first `q` singular values and vectors of matrices `[..., m, n]`: `U` `[..., m, q]`, `S` `[..., q]`, `V` `[..., n, q]`,
   * this about `U diag(S) Vᴴ`. By products with random vectors (Halko, Martinsson and Tropp, 2009, algorithms 4.4 and 5.1),
   * which are right to the last digits where the rank is at most `q`, and cost no whole decomposition.
   *
   * @throws {ShapeError} below two axes @throws {ArgumentError} for a `q` beyond the smaller size
   */
  svdLowrank(options: LowRankOptions<this> = {}): [U: this, S: this, V: this] {
    const action = "svdLowrank", shape = this.shape, [m, n] = shape.slice(-2), least = Math.min(m, n);
    if (shape.length < 2) {
      throw new ShapeError(action, { shapes: [shape], reason: "it takes matrices, of two axes or more" });
    }
    const { q = Math.min(6, least), niter = 2, M } = checkOptions(action, options, ["q", "niter", "M"]);
    if (checkInteger(action, "q", q, 0) > least) {
      throw new ArgumentError(action, {
        reason: `q must be at most ${least}, the smaller size of [${shape}], not ${q}`,
      });
    }
    checkInteger(action, "niter", niter, 0);
    const out = floatOf(this.dtype), d = promote(out, dtypes.float32), mean = maybeTensor(action, "M", M);
    const given = this.cast(d), a = mean === undefined ? given : given.sub(mean.cast(d)), back = a.turned();
    const drawn = this.wrap(drawNormal([...shape.slice(0, -2), n, q], d.real)).cast(d);
    let basis = a.dot(drawn).spanned();
    for (let i = 0; i < niter; i++) basis = a.dot(back.dot(basis).spanned()).spanned();
    const [u, s, vh] = basis.turned().dot(a).svd(false);
    return [basis.dot(u).cast(out), s.cast(out.real), vh.turned().cast(out)] as [this, this, this];
  }

  /**
   * Principal components of rows: {@linkcode svdLowrank} of this less the mean of its rows. The columns of the third result are
   * the directions; `S² / (m - 1)` the variances along them.
   *
   * @throws as svdLowrank
   */
  pcaLowrank(options: PcaOptions = {}): [U: this, S: this, V: this] {
    const { center = true, ...rest } = checkOptions("pcaLowrank", options, ["q", "center", "niter"]);
    if (!checkBoolean("pcaLowrank", "center", center) || this.ndim < 2) return this.svdLowrank(rest);
    return this.svdLowrank({ ...rest, M: this.mean(-2, { keepdim: true }) });
  }

  /**
   * The `k` largest (or smallest) eigenvalues `E` `[..., k]` of symmetric matrices, and their vectors `X` `[..., n, k]`:
   * `this X = B X diag(E)`, with `Xᵀ B X` the identity. They are those of {@linkcode eigh}, of which a part is taken: nothing
   * is iterated until it is near enough, and there is no first guess. Of a pair of matrices the problem is that of
   * `L⁻¹ this L⁻ᵀ`, where `B = L Lᵀ`.
   *
   * @throws {ShapeError} unless they are square, and of one size @throws {ArgumentError} for a `k` beyond it
   */
  lobpcg(options: LobpcgOptions<this> = {}): [E: this, X: this] {
    const action = "lobpcg", shape = this.shape, n = shape[shape.length - 1];
    const { k = Math.min(1, n), B, largest = true } = checkOptions(action, options, ["k", "B", "largest"]);
    checkBoolean(action, "largest", largest);
    if (shape.length < 2 || shape[shape.length - 2] !== n) {
      throw new ShapeError(action, { shapes: [shape], reason: "it takes square matrices, in the last two axes" });
    }
    if (checkInteger(action, "k", k, 0) > n) {
      throw new ArgumentError(action, { reason: `k must be at most ${n}, the size of the matrices, not ${k}` });
    }
    const pick = (values: this, vectors: this): [this, this] => {
      const part = (t: this): this => largest ? t.at("...", [n - k, n]).flip(-1) : t.at("...", [0, k]);
      return [part(values), part(vectors)];
    };
    if (B === undefined || B === null) return pick(...this.eigh());
    const right = checkTensor(action, "B", B).shape;
    if (right.length < 2 || right[right.length - 1] !== n || right[right.length - 2] !== n) {
      throw new ShapeError(action, { shapes: [shape, right], reason: "both matrices must have one size" });
    }
    const lower = B.cholesky(), half = lower.solveTriangular(this, { upper: false });
    const [values, vectors] = pick(...lower.solveTriangular(half.turned(), { upper: false }).eigh());
    return [values, lower.turned().solveTriangular(vectors, { upper: true })];
  }
}
