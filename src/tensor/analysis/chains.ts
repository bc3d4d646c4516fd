/**
 * Products of many matrices, powers of one, distances of all pairs of its rows: what few programs begin with.
 *
 * @module
 */
import { ArgumentError, ShapeError } from "../../helpers/errors.ts";
import { rangeOf } from "../../helpers/math.ts";
import { checkInteger, checkNumber } from "../../helpers/options.ts";
import { Ops } from "../../uop/core/ops.ts";
import { uop } from "../../uop/core/uop.ts";
import { type Operand, TensorBase } from "../handle/base.ts";
import type { DecompositionTensor } from "../math/decompositions.ts";
import type { ProductTensor } from "../math/products.ts";
import { constantAxis } from "../handle/dims.ts";

/** The families that it is written in. */
export interface ChainTensor extends DecompositionTensor, ProductTensor {}
/** Tensors with products of many. */
export abstract class ChainTensor extends TensorBase {
  /**
   * The distances, norms of order `p`, of all pairs of rows of a matrix `[n, k]`, of the first row before those of the second:
   * `[n (n - 1) / 2]`. The gradient of a distance of 0 is 0.
   *
   * @throws {ShapeError} unless it is 2-D, {ArgumentError} for an order below 0
   */
  pdist(p = 2): this {
    const [n] = this.shape;
    if (this.ndim !== 2) throw new ShapeError("pdist", { shapes: [this.shape], reason: "it must be 2-D" });
    if (!(checkNumber("pdist", "p", p) >= 0)) {
      throw new ArgumentError("pdist", { reason: `p must be at least 0, not ${p}` });
    }
    constantAxis("pdist", this.uop, 0, "cdist(this) gives the distances of all pairs of any number of rows");
    const pairs = rangeOf(n).flatMap((i) => rangeOf(n - i - 1).map((j) => [i, i + j + 1]));
    const rows = (side: number): this =>
      this.indexSelect(0, this.fromList(Int32Array.from(pairs, (pair) => pair[side])) as this) as this;
    return rows(0).sub(rows(1)).vectorNorm({ ord: p, dim: -1 });
  }

  /** The product of this and more matrices, in the order that takes the fewest multiplications. @throws {ShapeError} */
  multiDot(tensors: readonly Operand[] | TensorBase): this {
    const all = this.withOthers("multiDot", tensors);
    if (all.length < 2) throw new ArgumentError("multiDot", { reason: "it takes at least one matrix more" });
    const first = this.ndim === 1, end = all[all.length - 1].ndim === 1;
    all.forEach((t, i) => {
      if (t.ndim === 2 || (t.ndim === 1 && (i === 0 || i === all.length - 1))) return;
      throw new ShapeError("multiDot", {
        shapes: [t.shape],
        reason: "they are 2-D, the first and the last may be 1-D",
      });
    });
    const parts = all.map((t, i) => t.ndim === 2 ? t : t.unsqueeze(i === 0 ? 0 : 1));
    const sizes = [parts[0].shape[0], ...parts.map((t) => t.shape[1])], count = parts.length;
    // cost[i][j] of parts i to j, and where it is split
    const cost = rangeOf(count).map(() => new Array<number>(count).fill(0)), cut = cost.map((row) => [...row]);
    for (let width = 1; width < count; width++) {
      for (let i = 0; i + width < count; i++) {
        const j = i + width;
        cost[i][j] = Infinity;
        for (let k = i; k < j; k++) {
          const c = cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1];
          if (c < cost[i][j]) [cost[i][j], cut[i][j]] = [c, k];
        }
      }
    }
    const product = (i: number, j: number): this =>
      i === j ? parts[i] : product(i, cut[i][j]).dot(product(cut[i][j] + 1, j));
    const made = product(0, count - 1), shape = made.shape;
    return made.reshape([...first ? [] : [shape[0]], ...end ? [] : [shape[1]]]);
  }

  /** Square matrices to the power n, of the inverse for n < 0, by squaring. @throws {ShapeError} unless they are square */
  matrixPower(n: number): this {
    checkInteger("matrixPower", "n", n);
    const shape = this.shape, size = shape[shape.length - 1];
    if (shape.length < 2 || shape[shape.length - 2] !== size) {
      throw new ShapeError("matrixPower", {
        shapes: [shape],
        reason: "it takes square matrices, in the last two axes",
      });
    }
    if (n < 0) return this.inv().matrixPower(-n);
    const kept = (t: this): this => this.wrap(uop(Ops.CONTIGUOUS, t.dtype, [t.uop]));
    let result: this | undefined, square = this.wrap(this.uop);
    for (let left = n; left > 0; left = Math.floor(left / 2)) {
      if (left % 2 === 1) result = result === undefined ? square : result.dot(square);
      if (left > 1) square = kept(square.dot(square));
    }
    if (result !== undefined) return this.wrap(result.uop);
    return this.constLike(1).tril().triu();
  }
}
