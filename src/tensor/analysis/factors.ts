/**
 * Products of reflections, and polynomials that are fitted or solved: what least squares, triangular systems and
 * eigenvalues give together. With PyTorch's and NumPy's names.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { floatOf, promote } from "../../dtype/promotion.ts";
import { ArgumentError, ShapeError } from "../../helpers/errors.ts";
import { checkBoolean, checkCount, checkOptions } from "../../helpers/options.ts";
import { checkTensor, TensorBase, type TensorLike } from "../handle/base.ts";
import type { ComplexValue } from "../nodes/host.ts";
import { scalarConst } from "../nodes/scalars.ts";
import type { SystemTensor } from "../math/systems.ts";
import type { SampledTensor } from "./sampled.ts";
import { constantAxes, constantAxis } from "../handle/dims.ts";

/** A tensor whose values can be read. */
interface Read {
  tolist(): Promise<(number | bigint | boolean | ComplexValue)[]>;
}

/** The families that it is written in. */
export interface FactorTensor extends SampledTensor, SystemTensor {}
/** Tensors with products of reflections, and with polynomials. */
export abstract class FactorTensor extends TensorBase {
  /** The sum of conj(this) times `other`, both 1-D and as long. @throws {ShapeError} */
  vdot(other: TensorLike): this {
    const y = this.tensorOf("vdot", "other", other), [a, b] = [this.shape, y.shape];
    if (a.length !== 1 || b.length !== 1 || a[0] !== b[0]) {
      throw new ShapeError("vdot", { shapes: [a, b], reason: "both must be 1-D and as long" });
    }
    return this.vecdot(y);
  }

  /**
   * The product of reflections 1 - tau_i v_i v_iᴴ, its first n columns, `[..., m, n]`: v_i is column i of this (`[..., m, n]`)
   * below the diagonal, 1 on it and 0 above, and `tau` is `[..., k]`. By their compact form 1 - V T Vᴴ (Schreiber and Van
   * Loan, 1989).
   *
   * @throws {ShapeError} unless m >= n >= k
   */
  householderProduct(tau: this): this {
    const action = "householderProduct", [v, t] = this.compact(action, tau), [m, n] = this.shape.slice(-2);
    if (m < n) {
      throw new ShapeError(action, { shapes: [this.shape, tau.shape], reason: `there are more columns than rows` });
    }
    const one = this.identityPart(m, n);
    return one.sub(v.dot(t.dot(v.at("...", [0, n], ":").transpose(-1, -2).conj()))) as this;
  }

  /**
   * Q `other`, where Q is the whole product of the reflections of {@linkcode householderProduct}, `[..., m, m]`; or with `left`
   * false `other` Q; with `transpose` by Qᴴ.
   *
   * @throws {ShapeError} where they do not fit
   */
  ormqr(tau: this, other: this, options: { readonly left?: boolean; readonly transpose?: boolean } = {}): this {
    const action = "ormqr", { left = true, transpose = false } = checkOptions(action, options, ["left", "transpose"]);
    checkBoolean(action, "left", left);
    checkBoolean(action, "transpose", transpose);
    const [v, t] = this.compact(action, tau), m = this.shape.at(-2);
    if (checkTensor(action, "other", other).ndim < 2 || other.shape.at(left ? -2 : -1) !== m) {
      throw new ShapeError(action, {
        shapes: [this.shape, other.shape],
        reason: `the other must have ${m} ${left ? "rows" : "columns"}`,
      });
    }
    const turned = v.transpose(-1, -2).conj(), inner = transpose ? t.transpose(-1, -2).conj() : t;
    const part = left ? v.dot(inner.dot(turned.dot(other))) : other.dot(v).dot(inner).dot(turned);
    return other.sub(part) as this;
  }

  /** V and T of a product of reflections 1 - V T Vᴴ: T⁻¹ is the upper triangle of Vᴴ V, with 1 / tau on the diagonal. */
  private compact(action: string, tau: this): [v: this, t: this] {
    const shape = this.shape, k = checkTensor(action, "tau", tau).shape.at(-1) ?? 0;
    const lead = shape.slice(0, -2).join(), [m, n] = shape.slice(-2);
    if (
      shape.length < 2 || tau.ndim !== shape.length - 1 || k > Math.min(m, n) || tau.shape.slice(0, -1).join() !== lead
    ) {
      throw new ShapeError(action, {
        shapes: [shape, tau.shape],
        reason: "they take the forms [..., m, n] and [..., k], with k at most m and n",
      });
    }
    constantAxes(action, this.uop, 2);
    constantAxes(action, tau.uop, 1);
    const v = this.at("...", [0, k]).tril(-1).add(this.identityPart(m, k)) as this;
    const above = v.transpose(-1, -2).conj().dot(v).triu(1), scale = tau.unsqueeze(-2);
    // T = D (1 + U D)⁻¹, which takes a tau of 0, too
    const inner = above.mul(scale).add(this.identityPart(k, k)) as this;
    return [v, tau.unsqueeze(-1).mul(inner.solveTriangular(this.identityPart(k, k), { upper: true })) as this];
  }
  /** The first columns of the identity, for each matrix. */
  private identityPart(rows: number, columns: number): this {
    const shape = [...this.shape.slice(0, -2), rows, columns];
    const one = this.wrap(scalarConst(1, this.dtype)).expand(shape);
    return one.tril().sub(one.tril(-1)) as this;
  }

  /**
   * The polynomial of degree `deg` that is nearest to the points (this, `y`), by least squares: coefficients `[deg + 1]`, the
   * highest power first, as {@linkcode SampledTensor.polyval} takes them; of several columns of `y` `[n, k]` as many.
   *
   * ```ts
   * import { Tensor } from "../../../mod.ts";
   * const line = new Tensor([0, 1, 2, 3]).polyfit(new Tensor([1, 3, 5, 7]), 1);
   * console.log(await line.round({ decimals: 3 }).tolist()); // [2, 1]
   * ```
   *
   * @throws {ShapeError} unless this is 1-D and `y` has as many rows
   */
  polyfit(y: TensorLike, deg: number): this {
    const action = "polyfit", values = this.tensorOf(action, "y", y), rows = values.shape[0];
    if (this.ndim !== 1 || values.ndim < 1 || values.ndim > 2 || rows !== this.shape[0] || rows === 0) {
      throw new ShapeError(action, {
        shapes: [this.shape, values.shape],
        reason: "it takes points [n] and values [n] or [n, k]",
      });
    }
    const d = promote(promote(floatOf(this.dtype), floatOf(values.dtype)), dtypes.float32);
    const powers = this.cast(d).vander(checkCount(action, "deg", deg, 0) + 1) as this;
    const lengths = powers.square().sum(0).sqrt(), safe = lengths.eq(0).where(1, lengths) as this;
    const found = powers.div(safe).lstsq(values.cast(d))[0] as this;
    return found.div(values.ndim === 1 ? safe : safe.unsqueeze(1)) as this;
  }

  /**
   * The roots of the polynomial whose coefficients this has, 1-D, the highest power first: complex, the eigenvalues of its
   * companion matrix. Zeros at both ends are left out, those at the end are roots 0. The coefficients are read.
   *
   * ```ts
   * import { Tensor } from "../../../mod.ts";
   * const roots = await new Tensor([1, -3, 2]).roots();
   * console.log(await roots.real().sort(0)[0].round().tolist()); // [1, 2]
   * ```
   *
   * @throws {ShapeError} unless it is 1-D, {ArgumentError} where all coefficients are 0
   */
  async roots(): Promise<this> {
    if (this.ndim !== 1) throw new ShapeError("roots", { shapes: [this.shape], reason: "coefficients are 1-D" });
    constantAxis("roots", this.uop, 0, "give those that there are, as at([0, count])");
    const isZero = (await (this.eq(0) as unknown as Read).tolist()) as boolean[];
    const start = isZero.indexOf(false), end = isZero.lastIndexOf(false) + 1, n = end - start - 1;
    if (start < 0) throw new ArgumentError("roots", { reason: "all coefficients are 0: everything is a root" });
    const d = promote(floatOf(this.dtype), dtypes.float32), c = this.cast(d).at([start, end]) as this;
    const none = this.fromList(new Float64Array(2 * (this.shape[0] - end)), d.real) as this;
    const zeros = none.reshape([-1, 2]).viewAsComplex() as this;
    if (n === 0) return zeros;
    const top = c.at([1, null]).div(c.at(0)).neg().unsqueeze(0) as this;
    if (n === 1) return (top.flatten().cast(zeros.dtype) as this).cat([zeros]);
    const below = this.fromList(
      Float64Array.from({ length: n * (n - 1) }, (_, i) => i % (n + 1) === 0 ? 1 : 0),
      d.real,
    );
    const found = await top.cat([(below as this).reshape([n - 1, n]).cast(d)]).eigvals() as this;
    return found.cat([zeros]);
  }
}
