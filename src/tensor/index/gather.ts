/**
 * Reading and writing along one axis by index tensors, one-hot codes, triangles. Reads are gated loads (select.ts), writes
 * combine what goes to one place (segments.ts). Negative indices count from the end, once.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { sumDType } from "../../dtype/promotion.ts";
import { ArgumentError, DTypeError, ShapeError } from "../../helpers/errors.ts";
import { prod, rangeOf, sameArray } from "../../helpers/math.ts";
import { checkBoolean, checkInteger, checkOptions, describe } from "../../helpers/options.ts";
import { simplifySize } from "../../uop/algebra/sizes.ts";
import { broadcastTo, permute, reshape, shrink } from "../../uop/core/build_movement.ts";
import { identityOf } from "../../uop/core/carrier.ts";
import { Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { constant, type UOp } from "../../uop/core/uop.ts";
import { extentsOf, label } from "../../uop/graph/extent.ts";
import { GradientArg, withGradient } from "../../uop/graph/given_gradient.ts";
import { resolveAxis } from "../handle/axes.ts";
import { isTensor, type Operand, TensorBase, type TensorLike } from "../handle/base.ts";
import { broadcastShape, checkSameDevice } from "../handle/broadcast.ts";
import { checkWithin, type Dim, dimNode, largestSizes, withSizes } from "../handle/dims.ts";
import { asFloats } from "../handle/weak_numbers.ts";
import { maxNode } from "../nodes/compare_nodes.ts";
import { allFilled, filled, iotaAlong, padConstant, type Pair } from "../nodes/movement_nodes.ts";
import { smallestOf } from "../nodes/reduce_nodes.ts";
import { castNode, scalarConst } from "../nodes/scalars.ts";
import { countKeys, foldKeys, lookUp, sorts } from "../nodes/segments.ts";
import { gatherNode, indexNode } from "../nodes/select.ts";
import type { ElementwiseTensor } from "../ops/elementwise.ts";

/** How {@linkcode GatherTensor.scatterReduce} combines. */
export type ScatterReduction = "sum" | "prod" | "mean" | "amax" | "amin";

/** The order that brings the last of `rank` axes to `axis`. */
function lastTo(axis: number, rank: number): number[] {
  return rangeOf(rank - 1).toSpliced(axis, 0, rank - 1);
}

/**
 * The gradient of an extreme of what is there and the values that go to it: the share of each that equals it; NaN where it
 * is NaN.
 */
function sharedAmong(axis: number, includeSelf: boolean): GradientArg {
  return new GradientArg((g, [x, values, keys], most) => {
    const rank = shapeOf(x).length, order = [...rangeOf(rank).filter((a) => a !== axis), axis];
    const last = (u: UOp) => rank === 0 ? reshape(u, [1]) : permute(u, order), at = Math.max(rank - 1, 0);
    const home = (u: UOp) => rank === 0 ? reshape(u, []) : permute(u, lastTo(axis, rank));
    const zero = constant(0, g.dtype), one = constant(1, g.dtype), top = last(most), size = shapeOf(top)[at];
    const goes = constant(-1, keys.dtype).lt(keys).and(keys.lt(size)),
      equal = values.eq(gatherNode(top, at, keys)).and(goes);
    const found = foldKeys(keys, equal.where(one, broadcastTo(zero, shapeOf(values))), size, Ops.ADD);
    // what nothing goes to stays what is there
    const same = last(x).eq(top), own = includeSelf ? same : found.any.where(same.constLike(0), same);
    const count = found.values.add(own.where(one, zero));
    const share = last(g).fdiv(count), nothing = share.mul(zero); // NaN of no members
    const read = (u: UOp) => gatherNode(u, at, keys), some = count.ne(zero);
    return [
      () => home(some.where(own.where(share, zero), nothing)),
      () =>
        goes.where(
          equal.where(read(some.where(share, zero)), read(some.where(broadcastTo(zero, shapeOf(top)), nothing))),
          zero,
        ),
      undefined,
    ];
  });
}

const DIAGONAL = ["offset", "dim1", "dim2"];
const SHARES = new Map<string, GradientArg>();

/** An expression within limits. */
function limited(x: UOp, low: number, high: number): UOp {
  const above = x.lt(low).where(x.constLike(low), x);
  return above.lt(high).where(above, x.constLike(high));
}

/** The families that it is written in. */
export interface GatherTensor extends ElementwiseTensor {}
/** Tensors with gather and scatter. */
export abstract class GatherTensor extends TensorBase {
  /** The index, if it fits this along all axes but one. @throws {ShapeError} */
  private checkedIndex(action: string, axis: number, index: TensorLike): this {
    const at = this.tensorOf(action, "index", index), shape = this.shape, other = at.shape;
    checkSameDevice(action, this.uop, at.uop);
    if (other.length !== shape.length) {
      throw new ShapeError(action, { shapes: [shape, other], reason: "the index must have the same number of axes" });
    }
    const bad = other.findIndex((n, i) => i !== axis && n > shape[i]);
    if (bad >= 0) {
      throw new ShapeError(action, {
        shapes: [shape, other],
        axis: bad,
        reason: `axis ${bad} of the index has size ${other[bad]}, beyond ${shape[bad]}`,
      });
    }
    for (const i of rangeOf(shape.length)) if (i !== axis) checkWithin(action, this.uop, at.uop, i);
    return at;
  }

  /**
   * Elements at `index` along `dim`: shape of the index, which has the same rank and is no larger on other axes. Negative
   * positions count from the end, as in `at`; those out of range are errors where they are known on the host, and else
   * read 0.
   *
   * @throws {ShapeError} or {IndexError}
   */
  gather(dim: number, index: TensorLike): this {
    const shape = this.shape, axis = resolveAxis("gather", dim, shape);
    const given = this.checkedIndex("gather", axis, index), to = given.shape;
    const at = indexNode("gather", given.uop, this.uop, axis);
    if (shape.length === 0) return this.wrap(this.uop);
    // the index has no more elements than this along other axes: those beyond them are not read
    const whole = shape.reduce((u, _, i) => i === axis ? u : filled(u, i), this.uop);
    const x = shrink(whole, shape.map((n, i): [number, number] => [0, i === axis ? n : to[i]]));
    const found = gatherNode(x, axis, at), isSized = extentsOf(this.uop) !== null || extentsOf(at) !== null;
    if (isSized || !this.dtype.isFloat || prod(to) === 0 || !sorts(at, to[axis], shape[axis], 1)) {
      return this.wrap(found);
    }
    // as rows of one element, with the axis last
    const order = [...rangeOf(shape.length).filter((a) => a !== axis), axis], rows = prod(to) / to[axis];
    const last = (u: UOp, ...tail: number[]) => reshape(permute(u, order), [rows, shapeOf(u)[axis], ...tail]);
    const known = reshape(lookUp(last(x, 1), last(at), last(found, 1)), order.map((a) => to[a]));
    return this.wrap(permute(known, lastTo(axis, shape.length)));
  }

  /**
   * This with `src` written at `index` along `dim`; of several to one place the last (along `dim`) wins, or `reduce` says how they
   * combine with what is there.
   *
   * @throws {ShapeError}, {DTypeError} if the dtypes differ, {ArgumentError} for another reduction
   */
  scatter(dim: number, index: TensorLike, src: Operand, reduce?: "add" | "multiply"): this {
    if (reduce === "add" || reduce === "multiply") {
      return this.scatterReduce(dim, index, src, reduce === "add" ? "sum" : "prod");
    }
    if (reduce !== undefined) {
      throw new ArgumentError("scatter", { reason: `unknown reduction ${describe(reduce)}; known are add, multiply` });
    }
    const { keys, values, home } = this.scattered("scatter", dim, index, src);
    const found = foldKeys(keys, values, this.shape[resolveAxis("scatter", dim, this.shape)] ?? 1, "last");
    return this.wrap(home(found.any).where(home(found.values), this.uop));
  }

  /** This with `src` added at `index` along `dim`: `scatterReduce` by "sum". @throws {ShapeError}, {DTypeError} if the dtypes differ */
  scatterAdd(dim: number, index: TensorLike, src: Operand): this {
    return this.scatterReduce(dim, index, src, "sum");
  }

  /**
   * This with `src` combined into the places of `index` along `dim` by `reduce`. Without `includeSelf` what is there
   * does not count where something is written.
   *
   * @throws {ShapeError}, {DTypeError} if the dtypes differ, {ArgumentError} for another reduction
   */
  scatterReduce(dim: number, index: TensorLike, src: Operand, reduce: ScatterReduction, includeSelf = true): this {
    const { keys, values, home } = this.scattered("scatterReduce", dim, index, src);
    checkBoolean("scatterReduce", "includeSelf", includeSelf);
    const size = this.shape[resolveAxis("scatterReduce", dim, this.shape)] ?? 1, d = this.dtype;
    const wide = d.isFloat ? sumDType(d) : d, x = castNode(this.uop, wide);
    /** What is written, and what is there, by one op. */
    const folded = (fold: typeof Ops.ADD | typeof Ops.MUL | typeof Ops.MAX, sign = (u: UOp) => u) => {
      const found = foldKeys(keys, sign(castNode(values, wide)), size, fold);
      const identity = scalarConst(fold === Ops.MAX ? smallestOf(wide) : identityOf(fold, wide), wide);
      const own = includeSelf ? sign(x) : home(found.any).where(identity, sign(x));
      const all = home(found.values);
      return fold === Ops.MAX ? maxNode(own, all) : own.alu(fold, all);
    };
    /** An extreme, whose gradient is divided among all that equal it. */
    const shared = (most: UOp) => {
      if (!wide.isFloat || this.numel() === 0) return most;
      const axis = resolveAxis("scatterReduce", dim, this.shape), name = `${axis} ${includeSelf}`;
      let rule = SHARES.get(name);
      if (rule === undefined) SHARES.set(name, rule = sharedAmong(axis, includeSelf));
      return withGradient(most, [x, castNode(values, wide), keys], rule);
    };
    switch (reduce) {
      case "sum":
        return this.wrap(castNode(folded(Ops.ADD), d));
      case "prod":
        return this.wrap(castNode(folded(Ops.MUL), d));
      case "mean": {
        const count = home(countKeys(keys, size)), one = constant(1, dtypes.int32);
        const members = this.wrap(includeSelf ? count.add(1) : constant(0, dtypes.int32).lt(count).where(count, one));
        return this.wrap(folded(Ops.ADD)).div(members, d.isFloat ? {} : { roundingMode: "floor" }).cast(d);
      }
      case "amax":
        return this.wrap(castNode(shared(folded(Ops.MAX)), d));
      case "amin": {
        const turn = (u: UOp) => wide.isFloat ? u.mul(-1) : u.xor(scalarConst(wide.isBool ? 1 : -1, wide));
        return this.wrap(castNode(shared(turn(folded(Ops.MAX, turn))), d));
      }
      default:
        throw new ArgumentError("scatterReduce", {
          reason: `unknown reduction ${describe(reduce)}; known are sum, prod, mean, amax, amin`,
        });
    }
  }

  /**
   * Where each source goes (-1 for nowhere) and the sources, both with `dim` last and as large as this on the
   * other axes; `home` puts an axis that is last back in its place.
   */
  private scattered(
    action: string,
    dim: number,
    index: TensorLike,
    src: Operand,
  ): { keys: UOp; values: UOp; home: (u: UOp) => UOp } {
    const shape = this.shape, axis = resolveAxis(action, dim, shape), rank = shape.length;
    const places = this.checkedIndex(action, axis, index), to = places.shape;
    let source: UOp;
    if (src instanceof TensorBase) {
      checkSameDevice(action, this.uop, src.uop);
      const from = asFloats(src as this, this.dtype);
      if (from.dtype !== this.dtype) {
        throw new DTypeError(action, {
          dtypes: [from.dtype, this.dtype],
          reason: `the source must have the target's dtype; give its cast("${this.dtype}")`,
        });
      }
      const bad = from.ndim !== rank || to.some((n, i) => n > from.shape[i]);
      if (bad) throw new ShapeError(action, { shapes: [from.shape, to], reason: "the source must cover the index" });
      source = shrink(allFilled(from.uop), to.map((n): Pair => [0, n]));
    } else {
      const given = this.written(src, action), sizes = shapeOf(given);
      if (!sameArray(broadcastShape(action, [sizes, to]), to)) {
        throw new ShapeError(action, { shapes: [sizes, to], reason: "the source does not broadcast to the index" });
      }
      source = broadcastTo(given, to);
    }
    const at = allFilled(indexNode(action, places.uop, this.uop, axis), -1); // what is beyond goes nowhere
    if (rank === 0) return { keys: reshape(at, [1]), values: reshape(source, [1]), home: (u) => reshape(u, []) };
    const order = [...rangeOf(rank).filter((a) => a !== axis), axis];
    const missing = to.map((m, i): Pair => [0, i === axis ? 0 : shape[i] - m]);
    const last = (u: UOp, fill: number) => permute(padConstant(u, missing, fill), order);
    return { keys: last(at, -1), values: last(source, 0), home: (u) => permute(u, lastTo(axis, rank)) };
  }

  /**
   * One more axis of size `numClasses`, a number or variable: 1 where its position is the value, else 0; int32.
   *
   * @throws {DTypeError} for floats
   */
  oneHot(numClasses: Dim): this {
    if (!isTensor(numClasses)) checkInteger("oneHot", "numClasses", numClasses, 0);
    const [classes] = largestSizes("oneHot", [numClasses]) as number[];
    if (!this.dtype.isInt) {
      throw new DTypeError("oneHot of dtype", { dtypes: [this.dtype], reason: "classes are integers" });
    }
    const shape = this.shape, full = [...shape, classes], rank = full.length;
    const place = broadcastTo(iotaAlong(classes, rank - 1, rank), full);
    const at = broadcastTo(reshape(castNode(this.uop, place.dtype), [...shape, 1]), full);
    const hit = castNode(place.eq(at), dtypes.int32);
    return this.wrap(withSizes("oneHot", hit, [...shape, numClasses], (i) => i === rank - 1));
  }

  /** Zeros on one side of a diagonal. */
  private triangle(action: string, diagonal: Dim, lower: boolean): this {
    if (!isTensor(diagonal)) checkInteger(action, "diagonal", diagonal);
    const shape = this.shape, rank = shape.length, by = dimNode(action, diagonal);
    if (rank < 2) throw new ShapeError(action, { shapes: [shape], reason: "it needs at least two axes" });
    const row = broadcastTo(iotaAlong(shape[rank - 2], rank - 2, rank), shape);
    const column = broadcastTo(iotaAlong(shape[rank - 1], rank - 1, rank), shape);
    const zero = scalarConst(0, this.dtype);
    // column <= row + diagonal
    const sum = simplifySize(by.add(lower ? 1 : 0)), most = shape[rank - 2] + shape[rank - 1]; // beyond it is all or nothing
    const near = sum.dtype === row.dtype ? sum : limited(sum, -most, most).cast(row.dtype);
    const end = row.add(broadcastTo(near, shape));
    if (lower) return this.wrap(column.lt(end).where(this.uop, zero));
    return this.wrap(column.lt(end).where(zero, this.uop));
  }
  /** The last two axes at and below a diagonal (0 is the main one, positive above), else 0; it may be a bound variable. @throws {ShapeError} */
  tril(diagonal: Dim = 0): this {
    return this.triangle("tril", diagonal, true);
  }
  /** The last two axes at and above a diagonal, else 0; it may be a bound variable. @throws {ShapeError} */
  triu(diagonal: Dim = 0): this {
    return this.triangle("triu", diagonal, false);
  }

  /**
   * A matrix with this, which is 1-D, on a diagonal (0 is the main one, positive above), or of a matrix that diagonal.
   *
   * @throws {ShapeError} for other ranks
   */
  diag(diagonal = 0): this {
    const shape = this.shape;
    checkInteger("diag", "diagonal", diagonal);
    if (shape.length === 2) return this.diagonal({ offset: diagonal });
    if (shape.length !== 1) throw new ShapeError("diag", { shapes: [shape], reason: "it must be 1-D or 2-D" });
    if (diagonal !== 0) return this.diagEmbed({ offset: diagonal });
    const n = shape[0], full = [n, n];
    const same = broadcastTo(iotaAlong(n, 0, 2), full).eq(broadcastTo(iotaAlong(n, 1, 2), full));
    const made = same.where(broadcastTo(this.uop, full), scalarConst(0, this.dtype)), e = extentsOf(this.uop)?.[0];
    return this.wrap(e === undefined ? made : label(made, 0, e));
  }

  /**
   * Matrices with the last axis on a diagonal, zeros elsewhere; they stand in axes `dim1` and `dim2`, the last two.
   *
   * @throws {ShapeError} for a scalar, or equal axes
   */
  diagEmbed(options: { readonly offset?: number; readonly dim1?: number; readonly dim2?: number } = {}): this {
    const action = "diagEmbed", { offset = 0, dim1 = -2, dim2 = -1 } = checkOptions(action, options, DIAGONAL);
    const shape = this.shape, rank = shape.length, wide = Math.abs(checkInteger(action, "offset", offset));
    const a = resolveAxis(action, dim1, shape, rank + 1), b = resolveAxis(action, dim2, shape, rank + 1);
    if (rank === 0 || a === b) {
      throw new ShapeError(action, { shapes: [shape], axis: a, reason: "it takes an axis, to two different ones" });
    }
    const n = shape[rank - 1] + wide, full = [...shape.slice(0, -1), n, n];
    const row = broadcastTo(iotaAlong(n, rank - 1, rank + 1), full),
      column = broadcastTo(iotaAlong(n, rank, rank + 1), full);
    const before: Pair = offset > 0 ? [wide, 0] : [0, wide]; // values stand in their columns
    const line = padConstant(this.uop, shape.map((_, i): Pair => i === rank - 1 ? before : [0, 0]), 0);
    const values = broadcastTo(reshape(line, [...shape.slice(0, -1), 1, n]), full);
    const placed = row.add(offset).eq(column).where(values, scalarConst(0, this.dtype)),
      e = extentsOf(line)?.[rank - 1];
    const made = this.wrap(e === undefined ? placed : label(placed, rank - 1, e));
    const order = rangeOf(rank - 1);
    for (const [to, from] of [[a, rank - 1], [b, rank]].sort(([p], [q]) => p - q)) order.splice(to, 0, from);
    return made.permute(order);
  }

  /** A matrix with all elements on a diagonal, zeros elsewhere. */
  diagflat(offset = 0): this {
    return this.reshape([this.numel()]).diagEmbed({ offset });
  }
}
