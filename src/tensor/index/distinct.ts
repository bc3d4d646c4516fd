/**
 * Distinct values, of all elements or of slices along an axis: sorted, or where they differ from the one before; with where
 * each stands first, which of them each element is, and how often it occurs. Their number depends on the data: it is read,
 * and the functions are asynchronous, unless `size` fixes it.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { prod, rangeOf } from "../../helpers/math.ts";
import { checkInteger, checkOptions, checkScalar } from "../../helpers/options.ts";
import { broadcastTo, shrink } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { constant, type UOp, uop } from "../../uop/core/uop.ts";
import { resolveAxis } from "../handle/axes.ts";
import { TensorBase } from "../handle/base.ts";
import { placed } from "../handle/creation.ts";
import { constantAxis } from "../handle/dims.ts";
import { castNode, scalarConst } from "../nodes/scalars.ts";
import { gatherNode } from "../nodes/select.ts";
import type { JoinTensor } from "../ops/join.ts";
import type { IndexingTensor, SizeOptions } from "./indexing.ts";
import type { ScanTensor } from "./scan.ts";
import type { StatisticsTensor } from "./statistics.ts";

/** What {@linkcode DistinctTensor.unique} gives beside the values, in this order. */
export interface UniqueOptions extends SizeOptions {
  /** Where each value stands first, int32. */
  readonly returnIndex?: boolean;
  /** Which of the values each element is, int32, in the shape of the tensor. */
  readonly returnInverse?: boolean;
  /** How often each value occurs, int32. */
  readonly returnCounts?: boolean;
  /** The axis along which slices are compared as wholes, in the order of their first difference. Default: the flattened tensor. */
  readonly dim?: number;
}
/** At least one of what `unique` gives beside the values. */
export type UniqueFlags = { readonly returnIndex: true } | { readonly returnInverse: true } | {
  readonly returnCounts: true;
};
/** Options of {@linkcode DistinctTensor.uniqueConsecutive}. */
export interface ConsecutiveOptions {
  /** The axis along which slices are compared as wholes. Default: the flattened tensor. */
  readonly dim?: number;
}

/** In memory of its own. */
function own(u: UOp): UOp {
  return uop(Ops.CONTIGUOUS, u.dtype, [u]);
}

/** The families that it is written in. */
export interface DistinctTensor extends IndexingTensor, JoinTensor, ScanTensor, StatisticsTensor {}
/** Tensors whose distinct values can be asked for. */
export abstract class DistinctTensor extends TensorBase {
  /**
   * The distinct values of the flattened tensor, ascending; NaN is one value. Without `size` a promise, as the count
   * must be computed and read; with it a tensor of that many, filled with `fillValue` (0) beyond. With any of
   * `returnIndex`, `returnInverse`, `returnCounts` a list of the values and these. With `dim` the distinct slices along it:
   * what is beside them counts positions of that axis.
   *
   * ```ts
   * import { Tensor } from "../../../mod.ts";
   * const [values, counts] = await new Tensor([3, 1, 3]).unique({ returnCounts: true });
   * console.log(await values.tolist(), await counts.tolist()); // [1, 3] [1, 2]
   * ```
   *
   * @throws {ArgumentError} for a negative size
   */
  unique(options: UniqueOptions & UniqueFlags & { readonly size: number }): this[];
  /** The distinct values in a tensor of fixed size. */
  unique(options: UniqueOptions & { readonly size: number }): this;
  /** The distinct values, and what else is asked for. */
  unique(options: UniqueOptions & UniqueFlags): Promise<this[]>;
  /** The distinct values. */
  unique(options?: UniqueOptions): Promise<this>;
  unique(options: UniqueOptions = {}): this | this[] | Promise<this | this[]> {
    const action = "unique";
    checkOptions(action, options, ["size", "fillValue", "returnIndex", "returnInverse", "returnCounts", "dim"]);
    if (options.dim !== undefined && options.dim !== null) return this.uniqueAlong(action, options);
    this.shape.forEach((_, axis) => constantAxis(action, this.uop, axis));
    const n = this.numel(), int32 = dtypes.int32;
    const fill = scalarConst(checkScalar(action, "fillValue", options.fillValue ?? 0), this.dtype);
    const listed = (values: UOp, index: () => UOp, inverse: () => UOp, counts: () => UOp): this | this[] => {
      const more = [
        ...options.returnIndex ? [index()] : [],
        ...options.returnInverse ? [inverse()] : [],
        ...options.returnCounts ? [counts()] : [],
      ];
      return more.length === 0 ? this.wrap(values) : [values, ...more].map((u) => this.wrap(u));
    };
    const zeros = (shape: readonly number[]) => () => broadcastTo(constant(0, int32), shape);
    if (n === 0) {
      const size = [options.size ?? 0];
      const all = listed(broadcastTo(fill, size), zeros(size), zeros(this.shape), zeros(size));
      return options.size === undefined ? Promise.resolve(all) : all;
    }
    const [values, order] = this.flatten().sort(0);
    const sorted = own(values.uop), tail = shrink(sorted, [[1, n]]), head = shrink(sorted, [[0, n - 1]]);
    let differs = sorted.dtype.isBool ? tail.xor(head) : tail.ne(head);
    if (sorted.dtype.isFloat) differs = differs.and(tail.eq(tail).or(head.eq(head)));
    const first = this.wrap(broadcastTo(constant(1, int32), [1]));
    // With one element it is a constant, which would live on the default device.
    const isNew = this.wrap(placed(own(first.cat([this.wrap(castNode(differs, int32))]).uop), this.device));
    const sized = (size: number): this | this[] => {
      const inverse = () => {
        const rank = isNew.cumsum(0).sub(1);
        return rank.gather(0, order.argsort(0)).reshape(this.shape).uop;
      };
      if (size === 0) return listed(broadcastTo(fill, [0]), zeros([0]), inverse, zeros([0]));
      // Where the k-th value begins; n behind the last.
      const { at, isHere } = this.truePositions(isNew.uop, size + 1);
      const begins = own(at), mine = shrink(begins, [[0, size]]), next = shrink(begins, [[1, size + 1]]);
      const here = shrink(isHere, [[0, size]]);
      const places = here.where(mine, constant(0, int32)); // all of them valid: exports of this take them as such
      return listed(
        here.where(gatherNode(sorted, 0, places), fill),
        () => here.where(gatherNode(own(order.uop), 0, places), constant(0, int32)),
        inverse,
        () => next.add(mine.mul(-1)),
      );
    };
    if (options.size !== undefined) return sized(checkInteger(action, "size", options.size, 0));
    return (async () => sized(Number(await isNew.sum().item())))();
  }

  /** {@linkcode unique} with a `dim`: of the number that each slice has among the distinct ones. */
  private uniqueAlong(action: string, options: UniqueOptions): this | this[] | Promise<this | this[]> {
    const { dim, fillValue = 0, returnIndex, returnInverse, returnCounts, ...rest } = options;
    const axis = resolveAxis(action, dim!, this.shape),
      fill = scalarConst(checkScalar(action, "fillValue", fillValue), this.dtype);
    const picked = ([, index, inverse, counts]: this[]): this | this[] => {
      const values = this.at(...new Array<":">(axis).fill(":"), index);
      const isThere = counts.gt(0).reshape(values.shape.map((n, i) => i === axis ? n : 1));
      const sized = options.size === undefined ? values : isThere.where(values, this.wrap(fill)) as this;
      const more = [...returnIndex ? [index] : [], ...returnInverse ? [inverse] : [], ...returnCounts ? [counts] : []];
      return more.length === 0 ? sized : [sized, ...more];
    };
    const keys = this.sliceRanks(axis),
      all = { ...rest, returnIndex: true, returnInverse: true, returnCounts: true } as const;
    const found: this[] | Promise<this[]> = keys.unique(all as UniqueOptions & UniqueFlags);
    return Array.isArray(found) ? picked(found) : found.then(picked);
  }

  /** Which of the distinct slices along `axis`, in their order, each one is: int32 `[n]`. Pairs of columns become one, until one is left. */
  private sliceRanks(axis: number): this {
    const n = this.shape[axis], order = [axis, ...rangeOf(this.ndim).filter((i) => i !== axis)];
    const width = prod(this.shape) / Math.max(n, 1), int32 = dtypes.int32, wide = n > 46340 ? dtypes.int64 : int32;
    if (prod(this.shape) === 0) return this.wrap(placed(broadcastTo(constant(0, int32), [n]), this.device));
    let keys = this.permute(order).reshape([n, width]);
    for (let m = width;; m = keys.shape[1]) {
      const ranks = keys.denseRanks();
      if (m === 1) return ranks.reshape([n]);
      const even = (m % 2 === 0 ? ranks : ranks.pad([0, 1])).cast(wide), half = [n, even.shape[1] / 2, 2];
      const pairs = even.reshape(half);
      keys = pairs.at("...", 0).mul(n).add(pairs.at("...", 1));
    }
  }

  /** Which of the distinct values of its column, ascending, each element of this `[n, m]` is: int32. */
  private denseRanks(): this {
    const [n, m] = this.shape, [values, order] = this.sort(0), sorted = own(values.uop);
    const tail = shrink(sorted, [[1, n], [0, m]]), head = shrink(sorted, [[0, n - 1], [0, m]]);
    let differs = sorted.dtype.isBool ? tail.xor(head) : tail.ne(head);
    if (sorted.dtype.isFloat) differs = differs.and(tail.eq(tail).or(head.eq(head)));
    const isNew = this.wrap(castNode(differs, dtypes.int32)).pad([0, 0, 1, 0]);
    return this.wrap(own(isNew.cumsum(0).gather(0, order.argsort(0)).uop));
  }

  /**
   * The elements of the flattened tensor without those equal to the one before, which of them each element is, in the shape
   * of this, and how often each stands in a row (int32). With `dim` the slices along it, compared as wholes, and the positions
   * of that axis. With `size` so many of them, zeros beyond; without a promise, as their count must be read.
   */
  uniqueConsecutive(
    options: ConsecutiveOptions & { readonly size: number },
  ): [values: this, inverse: this, counts: this];
  /** All of them. */
  uniqueConsecutive(
    options?: ConsecutiveOptions & { readonly size?: undefined },
  ): Promise<[values: this, inverse: this, counts: this]>;
  uniqueConsecutive(options: ConsecutiveOptions & { readonly size?: number } = {}):
    | [this, this, this]
    | Promise<[this, this, this]> {
    const action = "uniqueConsecutive", { size, dim } = checkOptions(action, options, ["size", "dim"]);
    const isWhole = dim === undefined || dim === null, x = isWhole ? this.flatten() : this.wrap(this.uop);
    const axis = isWhole ? 0 : resolveAxis(action, dim, this.shape), n = x.shape[axis], { int32 } = dtypes;
    constantAxis(action, x.uop, axis);
    // a constant lives nowhere, and what is copied of it alone would be on the default device
    const none = this.wrap(placed(broadcastTo(constant(0, int32), [n]), this.device));
    const part = (t: this, along: number, start: number, stop: number): this =>
      t.shrink(t.shape.map((m, i) => i === along ? [start, stop] : [0, m]));
    const differs = (): this => {
      const apart = part(x, axis, 1, n).ne(part(x, axis, 0, n - 1));
      return (apart.ndim === 1 ? apart : apart.any(rangeOf(apart.ndim).filter((i) => i !== axis))).cast(int32);
    };
    const isNew = n === 0 ? none : this.wrap(own(part(none, 0, 0, 1).add(1).cat([differs()]).uop));
    const sized = (count: number): [this, this, this] => {
      const ranks = isNew.cumsum(0).sub(1), inverse = isWhole ? ranks.reshape(this.shape) : ranks;
      if (n === 0 || count === 0) return [part(x, axis, 0, 0), inverse, part(none, 0, 0, 0)];
      const starts = this.wrap(own(isNew.nonzero({ size: count + 1, fillValue: n }).flatten().uop));
      const mine = part(starts, 0, 0, count), next = part(starts, 0, 1, count + 1);
      const picked = x.at(...new Array<":">(axis).fill(":"), this.wrap(own(mine.clamp(0, n - 1).uop)));
      const isThere = mine.lt(n).reshape(picked.shape.map((m, i) => i === axis ? m : 1));
      return [isThere.where(picked, 0).cast(this.dtype) as this, inverse, next.sub(mine).cast(int32)];
    };
    if (size !== undefined) return sized(checkInteger(action, "size", size, 0));
    return (async () => sized(Number(await isNew.sum().item())))();
  }
}
