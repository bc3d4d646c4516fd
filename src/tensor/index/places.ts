/**
 * Reading and writing at places of one axis or of all elements: added, copied, filled; what is among others, in which bin,
 * repeated by counts. Made of gather, scatter and search.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { promote } from "../../dtype/promotion.ts";
import { ArgumentError, DTypeError, nameSizes, ShapeError } from "../../helpers/errors.ts";
import { prod } from "../../helpers/math.ts";
import { checkBoolean, checkInteger, checkOptions } from "../../helpers/options.ts";
import { Ops } from "../../uop/core/ops.ts";
import { iota, uop } from "../../uop/core/uop.ts";
import { type Axes, checkShape, resolveAxis } from "../handle/axes.ts";
import { checkTensor, type Operand, TensorBase, type TensorLike } from "../handle/base.ts";
import { broadcastShape } from "../handle/broadcast.ts";
import { placed } from "../handle/creation.ts";
import { asFloats } from "../handle/weak_numbers.ts";
import { isList } from "../nodes/host.ts";
import { hostValues } from "../nodes/select.ts";
import type { JoinTensor } from "../ops/join.ts";
import type { ScanTensor } from "./scan.ts";
import type { IndexingTensor } from "./indexing.ts";
import type { Index } from "./symbolic_index.ts";
import type { SearchOptions, StatisticsTensor } from "./statistics.ts";
import { extentsOf, withExtents } from "../../uop/graph/extent.ts";
import { reshape } from "../../uop/core/build_movement.ts";
import { checkWithin, sizeName } from "../handle/dims.ts";

/** The families that it is written in. */
export interface PlaceTensor extends IndexingTensor, JoinTensor, ScanTensor, StatisticsTensor {}
/** Tensors that are read and written at places. */
export abstract class PlaceTensor extends TensorBase {
  /** In memory of its own. */
  private storedCopy(): this {
    return this.wrap(uop(Ops.CONTIGUOUS, this.dtype, [this.uop]));
  }

  /** A list of positions along an axis under the shape of what goes there. */
  protected spreadAlong(action: string, axis: number, index: this, shape: readonly number[]): this {
    if (index.ndim > 1) throw new ShapeError(action, { shapes: [index.shape], reason: "the index must be 1-D" });
    if (shape.length === 0) return index.reshape([]);
    const m = index.numel(), want = shape.with(axis, m);
    const spread = index.reshape(want.map((_, i) => i === axis ? m : 1)).expand(want).uop;
    return this.wrap(withExtents(spread, extentsOf(this.uop)?.with(axis, undefined) ?? null));
  }

  /**
   * What is written along an axis: the axis, the places under the shape of what goes there, and that. @throws {ShapeError}
   * unless it has their shape
   */
  protected goingTo(
    action: string,
    dim: number,
    index: TensorLike,
    source: TensorLike,
  ): [axis: number, at: this, given: this] {
    const shape = this.shape, axis = resolveAxis(action, dim, shape), at = this.tensorOf(action, "index", index);
    const given = this.tensorOf(action, "source", source), from = given.shape;
    const want = shape.length === 0 ? [] : shape.with(axis, at.numel());
    if (from.join() !== want.join()) {
      throw new ShapeError(action, { shapes: [shape, from], axis, reason: `the source must be [${want.join(", ")}]` });
    }
    const spread = this.spreadAlong(action, axis, at, shape);
    want.forEach((_, i) => checkWithin(action, given.uop, spread.uop, i));
    return [axis, spread, asFloats(given, this.dtype)];
  }

  /** The positions of `index`, 1-D, along `dim`. @throws {ShapeError}, {IndexError} */
  indexSelect(dim: number, index: TensorLike): this {
    const given = this.tensorOf("indexSelect", "index", index),
      axis = resolveAxis("indexSelect", dim, this.shape),
      at = this.spreadAlong("indexSelect", axis, given, this.shape);
    return this.ndim === 0 ? this.reshape([1]).gather(0, given.reshape([-1])).reshape([]) : this.gather(axis, at);
  }

  /** This with alpha source added at the positions of `index`, 1-D, along `dim`. @throws {ShapeError}, {DTypeError} */
  indexAdd(dim: number, index: TensorLike, source: TensorLike, options: { readonly alpha?: number } = {}): this {
    const { alpha = 1 } = checkOptions("indexAdd", options, ["alpha"]);
    const [axis, at, given] = this.goingTo("indexAdd", dim, index, source);
    return this.scatterReduce(axis, at, alpha === 1 ? given : given.mul(alpha).cast(given.dtype), "sum");
  }

  /** This with source written at the positions of `index`, 1-D, along `dim`; of several the last. @throws {ShapeError}, {DTypeError} */
  indexCopy(dim: number, index: TensorLike, source: TensorLike): this {
    return this.scatter(...this.goingTo("indexCopy", dim, index, source));
  }

  /** This with `value` at the positions of `index`, 1-D, along `dim`. @throws {ShapeError}, {IndexError} */
  indexFill(dim: number, index: TensorLike, value: Operand): this {
    const axis = resolveAxis("indexFill", dim, this.shape), given = this.tensorOf("indexFill", "index", index);
    const at = this.spreadAlong("indexFill", axis, given, this.shape);
    const none = this.constLike(0, { dtype: dtypes.int32 });
    const hit = none.scatter(axis, at, 1).ne(0), fill = this.wrap(this.written(value, "indexFill"));
    if (fill.ndim > 0) throw new ShapeError("indexFill", { shapes: [fill.shape], reason: "the value must be one" });
    return hit.where(fill, this) as this;
  }

  /** The elements at flat positions, in the shape of `index`. @throws {IndexError} */
  take(index: TensorLike): this {
    const at = this.tensorOf("take", "index", index);
    return this.flatten().gather(0, at.flatten()).reshape(at.shape);
  }

  /** This with the elements of `source` written, or added with `accumulate`, at flat positions. @throws {ShapeError}, {DTypeError} */
  put(index: TensorLike, source: TensorLike, options: { readonly accumulate?: boolean } = {}): this {
    const { accumulate = false } = checkOptions("put", options, ["accumulate"]), shape = this.shape;
    checkBoolean("put", "accumulate", accumulate);
    const places = this.tensorOf("put", "index", index), given = this.tensorOf("put", "source", source);
    if (places.numel() !== given.numel()) {
      throw new ShapeError("put", { shapes: [places.shape, given.shape], reason: "there must be as many of both" });
    }
    const x = this.flatten(), at = places.flatten(), values = given.flatten();
    return (accumulate ? x.scatterReduce(0, at, values, "sum") : x.scatter(0, at, values)).reshape(shape);
  }

  /**
   * This with `values`, which broadcast, written where `at(...indices)` reads, or added with `accumulate`: positions that occur
   * several times then count as often. Else of several values the last one stays.
   *
   * @throws {IndexError}, {ShapeError}, {DTypeError}
   */
  indexPut(indices: readonly Index[], values: Operand, options: { readonly accumulate?: boolean } = {}): this {
    checkOptions("indexPut", options, ["accumulate"]);
    const list = isList(indices) ? indices : [indices as Index], n = this.numel();
    const places = reshape(placed(iota(n), this.device), this.shape);
    const flat = this.wrap(withExtents(places, extentsOf(this.uop))).at(...list);
    const given = this.wrap(this.written(values, "indexPut")).expand(flat.shape);
    return this.put(flat, given, options);
  }

  /** Elements at `indices` along `dim`, other axes broadcast; of the flattened tensor without `dim`. @throws {ShapeError} */
  takeAlongDim(indices: TensorLike, dim?: number | null): this {
    const at = this.tensorOf("takeAlongDim", "indices", indices);
    if (dim === undefined || dim === null) return this.flatten().gather(0, at.flatten());
    const axis = resolveAxis("takeAlongDim", dim, this.shape);
    if (this.ndim !== at.ndim) {
      throw new ShapeError("takeAlongDim", { shapes: [this.shape, at.shape], reason: "they need as many axes" });
    }
    const [a, b] = [this, at].map((t) => {
        const names = t.symbolicShape.map(sizeName);
        return nameSizes(t.shape.toSpliced(axis, 1), names.toSpliced(axis, 1));
      }),
      rest = broadcastShape("takeAlongDim", [a, b]);
    const wide = (t: this): this => t.expand(rest.toSpliced(axis, 0, t.shape[axis]));
    return wide(this).gather(axis, wide(at));
  }

  /** This where `mask` is true replaced by the elements of `source`, one after the other. @throws {DTypeError}, {ShapeError} */
  maskedScatter(mask: this, source: this): this {
    const action = "maskedScatter";
    if (!checkTensor(action, "mask", mask).dtype.isBool) {
      throw new DTypeError(`${action} by a mask of dtype`, { dtypes: [mask.dtype], reason: "it must be bool" });
    }
    source = asFloats(checkTensor(action, "source", source), this.dtype);
    if (source.dtype !== this.dtype) {
      const reason = `both must have one dtype; give the source's cast("${this.dtype}")`;
      throw new DTypeError(action, { dtypes: [this.dtype, source.dtype], reason });
    }
    const shape = broadcastShape(action, [this.shape, mask.shape]), m = mask.expand(shape), x = this.expand(shape);
    const list = source.flatten(), [count] = list.symbolicShape;
    if (prod(shape) === 0 || count === 0) return x;
    const last = typeof count === "number" ? count - 1 : count.sub(1);
    const at = m.flatten().cumsum(0).sub(1).minimum(last).maximum(0).storedCopy();
    const isThere = typeof count === "number" ? m : m.bitwiseAnd(count.gt(0) as this);
    return isThere.where(list.gather(0, at as this).reshape(shape), x) as this;
  }

  /** Whether each element is among `testElements` (with `invert`: is not). NaN is among nothing. */
  isin(testElements: Operand, options: { readonly assumeUnique?: boolean; readonly invert?: boolean } = {}): this {
    const { assumeUnique = false, invert = false } = checkOptions("isin", options, ["assumeUnique", "invert"]);
    checkBoolean("isin", "assumeUnique", assumeUnique);
    checkBoolean("isin", "invert", invert);
    const tests = this.operand(testElements, "isin") as this, count = tests.numel();
    let found = this.constLike(false, { dtype: dtypes.bool });
    if (count > 0) {
      const d = promote(this.dtype, tests.dtype),
        x = this.cast(d),
        sorted = tests.cast(d).flatten().sort(0)[0].storedCopy();
      const at = sorted.searchsorted(x).clamp(0, count - 1);
      found = sorted.gather(0, at.flatten()).reshape(this.shape).eq(x);
    }
    return invert ? found.logicalNot() : found;
  }

  /**
   * The places in an array of `shape` that flat positions are, an int tensor for each of its axes: int32 of smaller
   * integers, int64 where an axis is longer than int32 counts. Positions are not looked at: they must lie in [0, the product
   * of `shape`).
   *
   * @throws {DTypeError} unless positions are integers, {ShapeError} for bad sizes
   */
  unravelIndex(shape: Axes): this[] {
    const action = "unravelIndex", sizes = checkShape(action, shape);
    if (!this.dtype.isInt) {
      throw new DTypeError(`${action} of dtype`, { dtypes: [this.dtype], reason: "positions are integers" });
    }
    const least = sizes.some((n) => n > 0x7fffffff) ? dtypes.int64 : dtypes.int32;
    let rest: this = this.dtype.bits < least.bits ? this.cast(least) : this.wrap(this.uop);
    const places: this[] = [];
    for (const n of sizes.toReversed()) {
      places.unshift(rest.mod(Math.max(n, 1)));
      rest = rest.floorDiv(Math.max(n, 1));
    }
    return places;
  }

  /** In which of the bins between ascending `boundaries` each element lies, as `searchsorted`; int32. @throws {ShapeError} */
  bucketize(boundaries: Operand, options: SearchOptions = {}): this {
    const edges = this.operand(boundaries, "bucketize") as this;
    if (edges.ndim !== 1) throw new ShapeError("bucketize", { shapes: [edges.shape], reason: "boundaries are 1-D" });
    return edges.searchsorted(this, options);
  }

  /**
   * Each position along `dim` (of the flattened tensor without) as often as `repeats` `[n]` says. How many there are is
   * the sum of counts that are known on the host, or `outputSize`.
   */
  private repeatedBy(repeats: this, dim: number | undefined, outputSize: number | undefined): this {
    const action = "repeatInterleave";
    if (dim === undefined) return this.flatten().repeatedBy(repeats, 0, outputSize);
    const axis = resolveAxis(action, dim, this.shape), n = this.shape[axis] ?? 1;
    if (!repeats.dtype.isInt) {
      throw new DTypeError(`${action} by counts of dtype`, { dtypes: [repeats.dtype], reason: "counts are integers" });
    }
    if (repeats.ndim !== 1 || (repeats.shape[0] !== n && repeats.shape[0] !== 1)) {
      throw new ShapeError(action, { shapes: [this.shape, repeats.shape], axis, reason: `there must be ${n} counts` });
    }
    const counts = repeats.cast(dtypes.int32).expand([n]);
    let total = outputSize;
    if (total === undefined) {
      const known = hostValues(repeats.uop);
      if (known === undefined) {
        throw new ArgumentError(action, {
          reason: "how many elements there will be is not known on the host; give { outputSize }",
        });
      }
      if (known.some((v) => v < 0)) throw new ArgumentError(action, { reason: "counts must be at least 0" });
      total = Array.from(known, Number).reduce((a, b) => a + b, 0) * (known.length === 1 ? n : 1);
    }
    const ends = counts.cumsum(0).storedCopy(), place = this.constLike(0, { dtype: dtypes.int32 });
    const iota = (place.flatten().at([0, 1]).expand([checkInteger(action, "outputSize", total, 0)]) as this)
      .add(1).cumsum(0).sub(1);
    const at = ends.searchsorted(iota, { right: true });
    return this.indexSelect(axis, at);
  }

  /**
   * Each element `repeats` times in a row along `dim`; of the flattened tensor without `dim`. Counts `[n]`, one an element,
   * must be known on the host, or `outputSize` says what they add up to.
   *
   * @throws {ShapeError} for another number of counts, {ArgumentError} where their sum is not known
   */
  repeatInterleave(
    repeats: Operand,
    dim?: number,
    options: { readonly outputSize?: number } = {},
  ): this {
    const { outputSize } = checkOptions("repeatInterleave", options, ["outputSize"]);
    if (outputSize !== undefined) checkInteger("repeatInterleave", "outputSize", outputSize, 0);
    if (typeof repeats === "object") {
      const counts = this.operand(repeats, "repeatInterleave") as this;
      if (counts.ndim > 0) return this.repeatedBy(counts, dim, outputSize);
    }
    return this.repeatedEvenly(repeats as number, dim);
  }
}
