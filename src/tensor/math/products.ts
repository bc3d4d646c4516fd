/**
 * Products beside matmul: outer, inner and Kronecker's, over chosen axes, of vectors of three, added to something; distances
 * of all pairs, traces of matrices. All are made of those of linalg.ts.
 *
 * @module
 */
import { ArgumentError, ShapeError } from "../../helpers/errors.ts";
import { prod, rangeOf, sameArray } from "../../helpers/math.ts";
import { checkInteger, checkNumber, checkOptions, describe } from "../../helpers/options.ts";
import { resolveAxis } from "../handle/axes.ts";
import { checkTensor, TensorBase, type TensorLike } from "../handle/base.ts";
import { broadcastShape } from "../handle/broadcast.ts";
import type { PlaceTensor } from "../index/places.ts";
import type { JoinTensor } from "../ops/join.ts";
import type { NormTensor } from "./norms.ts";

/** Options of products that are added: beta times what is there, alpha times the product. */
export interface AddedOptions {
  /** Of what the product is added to. Default 1; 0 leaves it out, NaN too. */
  readonly beta?: number;
  /** Of the product. Default 1. */
  readonly alpha?: number;
}

/** The families that it is written in. */
export interface ProductTensor extends JoinTensor, NormTensor, PlaceTensor {}
/** Tensors with more products. */
export abstract class ProductTensor extends TensorBase {
  /** Throws unless both have the ranks given. */
  private ranked(action: string, rank: number, x: this, other: number): void {
    if (this.ndim === rank && checkTensor(action, "the operand", x).ndim === other) return;
    throw new ShapeError(action, {
      shapes: [this.shape, x.shape],
      reason: rank === other ? `both must be ${rank}-D` : `they must be ${rank}-D and ${other}-D`,
    });
  }

  /** Products of all pairs, `[n]` and `[m]` to `[n, m]`. @throws {ShapeError} unless both are 1-D */
  outer(vec2: TensorLike): this {
    const y = this.tensorOf("outer", "vec2", vec2);
    this.ranked("outer", 1, y, 1);
    return this.unsqueeze(1).mul(y);
  }

  /** Sums of products over the last axes of both; of a scalar the product. @throws {ShapeError} where these differ */
  inner(other: TensorLike): this {
    const y = this.tensorOf("inner", "other", other);
    return this.ndim === 0 || y.ndim === 0 ? this.mul(y) : this.tensordot(y, [[-1], [-1]]);
  }

  /**
   * Sums along `dim` of products with the conjugate of this, of shapes that broadcast: `[..., n, ...]` to `[..., ...]`.
   *
   * @throws {ShapeError} where they do not broadcast, or have other sizes along `dim`
   */
  vecdot(x2: this, dim = -1): this {
    const [a, b] = [this.shape, checkTensor("vecdot", "x2", x2).shape], shape = broadcastShape("vecdot", [a, b]);
    const axis = resolveAxis("vecdot", dim, shape), back = axis - shape.length;
    if (a.at(back) !== b.at(back)) {
      throw new ShapeError("vecdot", { shapes: [a, b], axis, reason: `they have other sizes along axis ${dim}` });
    }
    return this.conj().mul(x2).sum(axis);
  }

  /** The product of two matrices. @throws {ShapeError} unless both are 2-D */
  mm(mat2: this): this {
    checkTensor("mm", "mat2", mat2);
    this.ranked("mm", 2, mat2, 2);
    return this.dot(mat2);
  }

  /** The products of as many matrices. @throws {ShapeError} unless both are 3-D, of one size of batches */
  bmm(mat2: this): this {
    checkTensor("bmm", "mat2", mat2);
    this.ranked("bmm", 3, mat2, 3);
    if (this.shape[0] !== mat2.shape[0]) {
      throw new ShapeError("bmm", {
        shapes: [this.shape, mat2.shape],
        axis: 0,
        reason: "there must be as many of both",
      });
    }
    return this.dot(mat2);
  }

  /** The product with a vector. @throws {ShapeError} unless they are 2-D and 1-D */
  mv(vec: this): this {
    checkTensor("mv", "vec", vec);
    this.ranked("mv", 2, vec, 1);
    return this.dot(vec);
  }

  /**
   * Sums of products over `dims` axes, the last of this and the first of `other`, or over the axes of two lists.
   *
   * @throws {ShapeError} where the sizes of these axes differ
   */
  tensordot(other: TensorLike, dims: number | readonly [readonly number[], readonly number[]] = 2): this {
    const action = "tensordot", y = this.tensorOf(action, "other", other), from = this.shape, to = y.shape;
    let left: number[], right: number[];
    if (typeof dims === "number") {
      checkInteger(action, "dims", dims, 0);
      if (dims > Math.min(from.length, to.length)) {
        throw new ShapeError(action, { shapes: [from, to], reason: `they do not both have ${dims} axes` });
      }
      [left, right] = [rangeOf(dims).map((i) => from.length - dims + i), rangeOf(dims)];
    } else {
      if (
        !Array.isArray(dims) || dims.length !== 2 || !Array.from(dims).every(Array.isArray) ||
        dims[0].length !== dims[1].length
      ) {
        throw new ArgumentError(action, {
          reason: `dims must be a number, or two lists as long, not ${describe(dims)}`,
        });
      }
      left = dims[0].map((a: number) => resolveAxis(action, a, from));
      right = dims[1].map((a: number) => resolveAxis(action, a, to));
      if (new Set(left).size < left.length || new Set(right).size < right.length) {
        throw new ShapeError(action, { shapes: [from, to], reason: "an axis is given twice" });
      }
    }
    const bad = left.findIndex((a, i) => from[a] !== to[right[i]]);
    if (bad >= 0) {
      throw new ShapeError(action, {
        shapes: [from, to],
        axis: left[bad],
        reason: `axis ${left[bad]} of the first has size ${from[left[bad]]}, axis ${right[bad]} of the second ${
          to[right[bad]]
        }`,
      });
    }
    const rows = rangeOf(from.length).filter((a) => !left.includes(a)), k = prod(left.map((a) => from[a]));
    const columns = rangeOf(to.length).filter((a) => !right.includes(a));
    const sizes = [rows.map((a) => from[a]), columns.map((a) => to[a])];
    const a = this.permute([...rows, ...left]).reshape([prod(sizes[0]), k]);
    const b = y.permute([...right, ...columns]).reshape([k, prod(sizes[1])]);
    return a.dot(b).reshape(sizes.flat());
  }

  /** Kronecker's product: blocks of `other` times each element; sizes multiply. */
  kron(other: TensorLike): this {
    const y = this.tensorOf("kron", "other", other), rank = Math.max(this.ndim, y.ndim);
    const [a, b] = [this.shape, y.shape].map((s) => [...new Array<number>(rank - s.length).fill(1), ...s]);
    const left = this.reshape(a.flatMap((n) => [n, 1])), right = y.reshape(b.flatMap((n) => [1, n]));
    return left.mul(right).reshape(a.map((n, i) => n * b[i]));
  }

  /** The vector product along `dim`, of size 3; other axes broadcast. @throws {ShapeError} for another size */
  cross(other: TensorLike, dim = -1): this {
    const action = "cross",
      y = this.tensorOf(action, "other", other),
      shape = broadcastShape(action, [this.shape, y.shape]);
    const axis = resolveAxis(action, dim, shape);
    if (
      this.ndim === 0 || y.ndim === 0 || this.ndim !== y.ndim || [this, y].some((t) => t.shape[axis] !== 3)
    ) {
      throw new ShapeError(action, {
        shapes: [this.shape, y.shape],
        axis,
        reason: `both need as many axes, and size 3 along axis ${axis}`,
      });
    }
    const [a, b] = [this.expand(shape), y.expand(shape)], next = (t: this, by: number): this => t.roll(-by, axis);
    return next(a, 1).mul(next(b, 2)).sub(next(a, 2).mul(next(b, 1)));
  }

  /**
   * The distances, norms of order `p`, of all rows of this from all of `x2`: `[..., n, k]` and `[..., m, k]` to
   * `[..., n, m]`. The gradient of a distance of 0 is 0.
   *
   * @throws {ShapeError} where k or the batch axes differ
   */
  cdist(x2: this, p = 2): this {
    const [a, b] = [this.shape, checkTensor("cdist", "x2", x2).shape];
    if (a.length < 2 || b.length < 2 || a[a.length - 1] !== b[b.length - 1]) {
      throw new ShapeError("cdist", {
        shapes: [a, b],
        reason: "they need rows of one length, in the last axis of two or more",
      });
    }
    broadcastShape("cdist", [a.slice(0, -2), b.slice(0, -2)]);
    return this.unsqueeze(-2).sub(x2.unsqueeze(-3)).vectorNorm({ ord: checkNumber("cdist", "p", p), dim: -1 });
  }

  /**
   * `this weight[k] x2 + bias[k]` for each output k: `[..., n]` and `[..., m]` with a weight `[out, n, m]` to `[..., out]`.
   *
   * @throws {ShapeError} unless both have the axes of the weight last, and the same axes before
   */
  bilinear(x2: this, weight: this, bias?: this | null): this {
    const action = "bilinear", a = this.shape, b = checkTensor(action, "x2", x2).shape;
    const [out, n, m] = checkTensor(action, "weight", weight).shape;
    if (weight.ndim !== 3 || a.at(-1) !== n || b.at(-1) !== m || !sameArray(a.slice(0, -1), b.slice(0, -1))) {
      throw new ShapeError(action, {
        shapes: [a, b, weight.shape],
        reason: "the weight is [out, n, m], their last axes have sizes n and m, and all others are equal",
      });
    }
    // the axes before are rows
    const rows = prod(a.slice(0, -1)),
      left = this.reshape([rows, 1, n]).dot(weight.permute([1, 0, 2]).reshape([n, out * m]));
    const products = left.reshape([rows, out, m]).mul(x2.reshape([rows, 1, m]));
    const y = products.sum(-1).cast(products.dtype).reshape([...a.slice(0, -1), out]);
    return bias === undefined || bias === null ? y : y.add(checkTensor(action, "bias", bias));
  }

  /** beta times this, which is spread over the product, and alpha times that. */
  private plus(action: string, options: AddedOptions, product: () => this): this {
    const { beta = 1, alpha = 1 } = checkOptions(action, options, ["beta", "alpha"]);
    const made = product(), scaled = alpha === 1 ? made : made.mul(alpha);
    const sum = beta === 0 ? scaled.add(this.constLike(0)) : scaled.add(beta === 1 ? this : this.mul(beta));
    if (sum.ndim === made.ndim && sum.shape.every((n, axis) => n === made.shape[axis])) return sum;
    throw new ShapeError(action, {
      shapes: [this.shape, made.shape],
      reason: "the product must be as large as the sum",
    });
  }

  /** beta this + alpha mat1 mat2, which are matrices. @throws {ShapeError} */
  addmm(mat1: this, mat2: this, options: AddedOptions = {}): this {
    return this.plus("addmm", options, () => checkTensor("addmm", "mat1", mat1).mm(mat2));
  }
  /** beta this + alpha mat vec. @throws {ShapeError} */
  addmv(mat: this, vec: this, options: AddedOptions = {}): this {
    return this.plus("addmv", options, () => checkTensor("addmv", "mat", mat).mv(vec));
  }
  /** beta this + alpha times the products of all pairs of two vectors. @throws {ShapeError} */
  addr(vec1: this, vec2: this, options: AddedOptions = {}): this {
    return this.plus("addr", options, () => checkTensor("addr", "vec1", vec1).outer(vec2));
  }
  /** beta this + alpha batch1 batch2, of as many matrices. @throws {ShapeError} */
  baddbmm(batch1: this, batch2: this, options: AddedOptions = {}): this {
    return this.plus("baddbmm", options, () => checkTensor("baddbmm", "batch1", batch1).bmm(batch2));
  }
  /** beta this + alpha times the sum of the products of as many matrices. @throws {ShapeError} */
  addbmm(batch1: this, batch2: this, options: AddedOptions = {}): this {
    return this.plus("addbmm", options, () => checkTensor("addbmm", "batch1", batch1).bmm(batch2).sum(0));
  }

  /** The sum of the diagonal of a matrix; dtypes as `sum`. @throws {ShapeError} unless it is 2-D */
  trace(): this {
    if (this.ndim !== 2) throw new ShapeError("trace", { shapes: [this.shape], reason: "it takes one matrix" });
    return this.diagonal().sum();
  }
}
