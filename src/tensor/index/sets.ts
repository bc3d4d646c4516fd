/**
 * Sets of values, and places by order: what two tensors have in common, bins of values, reductions to places of an axis.
 * With NumPy's and PyTorch's names, made of sorting, search and scatter.
 *
 * @module
 */
import { ShapeError } from "../../helpers/errors.ts";
import { checkBoolean, checkChoice, checkOptions } from "../../helpers/options.ts";
import { type Operand, TensorBase, type TensorLike } from "../handle/base.ts";
import { hostValues } from "../nodes/select.ts";
import type { DistinctTensor } from "./distinct.ts";
import type { PlaceTensor } from "./places.ts";

/** The families that it is written in. */
export interface SetTensor extends DistinctTensor, PlaceTensor {}
/** Tensors as sets of values. */
export abstract class SetTensor extends TensorBase {
  /**
   * The distinct values of this and `other`, ascending. Their number is read.
   *
   * ```ts
   * import { Tensor } from "../../../mod.ts";
   * const a = new Tensor([3, 1, 2, 1]), b = new Tensor([5, 2]);
   * console.log(await (await a.union1d(b)).tolist(), await (await a.intersect1d(b)).tolist()); // [1, 2, 3, 5] [2]
   * console.log(await (await a.setdiff1d(b)).tolist(), await (await a.setxor1d(b)).tolist()); // [1, 3] [1, 3, 5]
   * ```
   */
  async union1d(other: Operand): Promise<this> {
    return await this.joined("union1d", other).unique();
  }
  /** The distinct values that both this and `other` have, ascending. */
  async intersect1d(other: Operand): Promise<this> {
    const [values, mine, theirs] = await this.sides("intersect1d", other);
    return await values.maskedSelect(mine.bitwiseAnd(theirs));
  }
  /** The distinct values of this that `other` has not, ascending. */
  async setdiff1d(other: Operand): Promise<this> {
    const tests = this.operand(other, "setdiff1d") as this, values = await this.unique();
    return await values.maskedSelect(values.isin(tests, { invert: true }));
  }
  /** The distinct values that one of this and `other` has and the other has not, ascending. */
  async setxor1d(other: Operand): Promise<this> {
    const [values, mine, theirs] = await this.sides("setxor1d", other);
    return await values.maskedSelect(mine.bitwiseXor(theirs));
  }
  /** All values of both, one after the other. */
  private joined(action: string, other: Operand): this {
    return this.flatten().cat([(this.operand(other, action) as this).flatten()]);
  }
  /** The values of both, and which of them each has. */
  private async sides(action: string, other: Operand): Promise<[values: this, mine: this, theirs: this]> {
    const tests = this.operand(other, action) as this, values = await this.joined(action, other).unique();
    return [values, values.isin(this), values.isin(tests)];
  }

  /**
   * In which of the bins between `bins`, which ascend or descend, each element lies: 0 before all of them; int32. A value
   * at an edge is in the bin that begins there, with `right` in the one that ends there.
   *
   * ```ts
   * import { Tensor } from "../../../mod.ts";
   * console.log(await new Tensor([0.5, 2, 9]).digitize([1, 2, 3]).tolist()); // [0, 2, 3]
   * ```
   *
   * @throws {ShapeError} unless the bins are 1-D
   */
  digitize(bins: Operand, options: { readonly right?: boolean } = {}): this {
    const action = "digitize", { right = false } = checkOptions(action, options, ["right"]);
    checkBoolean(action, "right", right);
    const edges = this.operand(bins, action) as this;
    if (edges.ndim !== 1) throw new ShapeError(action, { shapes: [edges.shape], reason: "bins are 1-D" });
    const n = edges.shape[0], known = hostValues(edges.uop);
    const up = (): this => edges.searchsorted(this, { right: !right });
    const down = (): this => edges.flip(0).searchsorted(this, { right: !right }).sub(n, { reverse: true });
    if (n < 2) return up();
    if (known !== undefined) return known[0] > known[n - 1] ? down() : up();
    return edges.at(0).gt(edges.at(-1)).where(down(), up()) as this;
  }

  /** Elements at `indices` along `axis`, other axes broadcast: `takeAlongDim`. @throws {ShapeError} */
  takeAlongAxis(indices: TensorLike, axis: number | null = -1): this {
    return this.takeAlongDim(indices, axis);
  }

  /** The values in ascending order along the first axis. */
  msort(): this {
    return this.sort(0)[0];
  }

  /**
   * This with `source` combined into the positions of `index`, 1-D, along `dim` by `reduce`; without `includeSelf` what is
   * there does not count where something is written. `indexAdd` is that of sums.
   *
   * @throws {ShapeError}, {DTypeError} if the dtypes differ, {ArgumentError} for another reduction
   */
  indexReduce(
    dim: number,
    index: TensorLike,
    source: TensorLike,
    reduce: "prod" | "mean" | "amax" | "amin",
    includeSelf = true,
  ): this {
    const action = "indexReduce", [axis, at, given] = this.goingTo(action, dim, index, source);
    checkChoice(action, "reduce", reduce, ["prod", "mean", "amax", "amin"]);
    checkBoolean(action, "includeSelf", includeSelf);
    return this.scatterReduce(axis, at, given, reduce, includeSelf);
  }
}
