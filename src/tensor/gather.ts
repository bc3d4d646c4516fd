/**
 * Reading and writing along one axis by index tensors, one-hot codes, triangles. Everything is a sum over selected
 * positions, `sum(where(r == index, x[r], 0))`, which the compiler folds into one gated load; so an index out of range
 * reads 0. Negative indices count from the end, once.
 *
 * @module
 */
import { dtypes } from "../dtype/dtype.ts";
import { ArgumentError, DTypeError, ShapeError } from "../helpers/errors.ts";
import { rangeOf } from "../helpers/math.ts";
import { checkInteger } from "../helpers/options.ts";
import { broadcastTo, expand, permute, reshape, shrink } from "../uop/movement.ts";
import { Ops } from "../uop/ops.ts";
import { shapeOf } from "../uop/shape.ts";
import { constant, type UOp } from "../uop/uop.ts";
import { resolveAxis } from "./axes.ts";
import { type Operand, scalarConst, TensorBase } from "./base.ts";
import { castNode, maxNode } from "./elementwise.ts";
import { iotaAlong } from "./movement.ts";
import { reduceNode, smallestOf } from "./reduce.ts";
import { ScanTensor } from "./scan.ts";
import { gatherNode, indexNode, selectNode } from "./select.ts";

/** How {@linkcode GatherTensor.scatterReduce} combines. */
export type ScatterReduction = "sum" | "prod" | "mean" | "amax" | "amin";

/** Tensors with gather and scatter. */
export abstract class GatherTensor extends ScanTensor {
  /** Throws unless `index` fits this along all axes but one. */
  private checkIndex(action: string, axis: number, index: TensorBase): void {
    const shape = this.shape, other = index.shape;
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
  }

  /**
   * Elements at `index` along `dim`: shape of the index, which has the same rank and is no larger on other axes.
   *
   * @throws {ShapeError} or {IndexError}
   */
  gather(dim: number, index: TensorBase): this {
    const shape = this.shape, axis = resolveAxis("gather", dim, shape);
    this.checkIndex("gather", axis, index);
    const to = index.shape;
    const at = indexNode("gather", index.uop, shape[axis] ?? 1, axis);
    if (shape.length === 0) return this.wrap(this.uop);
    const x = shrink(this.uop, shape.map((n, i): [number, number] => [0, i === axis ? n : to[i]]));
    return this.wrap(gatherNode(x, axis, at));
  }

  /**
   * This with `src` written at `index` along `dim`; of several to one place the last wins, or `reduce` says how they
   * combine with what is there.
   *
   * @throws {ShapeError}, {DTypeError} if the dtypes differ, {ArgumentError} for another reduction
   */
  scatter(dim: number, index: TensorBase, src: Operand, reduce?: "add" | "multiply"): this {
    if (reduce === "add" || reduce === "multiply") {
      return this.scatterReduce(dim, index, src, reduce === "add" ? "sum" : "prod");
    }
    if (reduce !== undefined) {
      throw new ArgumentError("scatter", { reason: `unknown reduction "${String(reduce)}"; known are add, multiply` });
    }
    const [hit, source] = this.scattered("scatter", dim, index, src);
    const rank = this.ndim, n = shapeOf(hit)[rank];
    const place = expand(iotaAlong(n, rank, rank + 1), shapeOf(hit)).add(1);
    const last = reduceNode(hit.where(place, constant(0, dtypes.int32)), Ops.MAX, [rank]);
    const chosen = expand(last, shapeOf(hit)).eq(place);
    const value = reshape(selectNode(chosen, source, [rank]), this.shape);
    const any = constant(0, dtypes.int32).lt(reshape(last, this.shape));
    return this.wrap(any.where(value, this.uop));
  }

  /**
   * This with `src` combined into the places of `index` along `dim` by `reduce`. Without `includeSelf` what is there
   * does not count where something is written.
   *
   * @throws {ShapeError}, {DTypeError} if the dtypes differ, {ArgumentError} for another reduction
   */
  scatterReduce(dim: number, index: TensorBase, src: Operand, reduce: ScatterReduction, includeSelf = true): this {
    const [hit, source] = this.scattered("scatterReduce", dim, index, src);
    const rank = this.ndim, shape = this.shape, d = this.dtype, x = this.uop;
    const over = (op: Ops, identity: number | bigint) =>
      reshape(reduceNode(hit.where(source, scalarConst(identity, d)), op, [rank]), shape);
    const count = reshape(reduceNode(castNode(hit, dtypes.int32), Ops.ADD, [rank]), shape);
    const written = constant(0, dtypes.int32).lt(count);
    const own = (identity: number | bigint) => includeSelf ? x : written.where(scalarConst(identity, d), x);
    switch (reduce) {
      case "sum":
        return this.wrap(own(0).add(over(Ops.ADD, 0)));
      case "prod":
        return this.wrap(own(1).mul(over(Ops.MUL, 1)));
      case "mean": {
        const total = this.wrap(own(0).add(over(Ops.ADD, 0)));
        const members = this.wrap(includeSelf ? count.add(1) : written.where(count, constant(1, dtypes.int32)));
        return total.div(members, d.isFloat ? {} : { roundingMode: "floor" }).cast(d);
      }
      case "amax":
        return this.wrap(maxNode(own(smallestOf(d)), over(Ops.MAX, smallestOf(d))));
      case "amin": {
        const turn = (t: this) => d.isFloat ? t.neg() : t.bitwiseNot();
        const sources = src instanceof TensorBase
          ? src as this
          : this.wrap(broadcastTo(scalarConst(src as number, d), index.shape));
        return turn(turn(this).scatterReduce(dim, index, turn(sources), "amax", includeSelf));
      }
      default:
        throw new ArgumentError("scatterReduce", {
          reason: `unknown reduction "${String(reduce)}"; known are sum, prod, mean, amax, amin`,
        });
    }
  }

  /** Which source each target takes: [...shape, n] bool, and the sources spread likewise. */
  private scattered(action: string, dim: number, index: TensorBase, src: Operand): [UOp, UOp] {
    const shape = this.shape, axis = resolveAxis(action, dim, shape), rank = shape.length;
    this.checkIndex(action, axis, index);
    const to = index.shape;
    let source: UOp;
    if (src instanceof TensorBase) {
      if (src.dtype !== this.dtype) {
        throw new DTypeError(action, {
          dtypes: [src.dtype, this.dtype],
          reason: "the source must have the target's dtype",
        });
      }
      const bad = src.ndim !== rank || to.some((n, i) => n > src.shape[i]);
      if (bad) throw new ShapeError(action, { shapes: [src.shape, to], reason: "the source must cover the index" });
      source = shrink(src.uop, to.map((n): [number, number] => [0, n]));
    } else source = broadcastTo(castNode(this.operand(src).uop, this.dtype), to);
    const at = indexNode(action, index.uop, shape[axis], axis);
    const n = to[axis], full = [...shape, n];
    const order = [...rangeOf(rank).filter((a) => a !== axis), axis];
    // Sources move to the last axis; other axes beyond the index take nothing.
    const spread = (u: UOp, fill: UOp): UOp => {
      let v = reshape(permute(u, order), [...to.with(axis, 1), n]);
      const missing = to.map((m, i): [number, number] => [0, i === axis ? 0 : shape[i] - m]);
      if (missing.some(([, b]) => b > 0)) {
        const inside = rangeOf(rank).filter((i) => missing[i][1] > 0).map((i) =>
          expand(iotaAlong(shape[i], i, rank + 1), [...shape.with(axis, 1), n]).lt(to[i])
        ).reduce((a, b) => a.and(b));
        v = inside.where(this.wrap(v).pad([...missing, [0, 0]]).uop, fill);
      }
      return expand(v, full);
    };
    const target = expand(iotaAlong(shape[axis], axis, rank + 1), full);
    return [target.eq(spread(at, constant(-1, dtypes.int32))), spread(source, scalarConst(0, this.dtype))];
  }

  /**
   * One more axis of size `numClasses`: 1 where its position is the value, else 0; int32.
   *
   * @throws {DTypeError} for floats
   */
  oneHot(numClasses: number): this {
    checkInteger("oneHot", "numClasses", numClasses, 0);
    if (!this.dtype.isInt) {
      throw new DTypeError("oneHot of dtype", { dtypes: [this.dtype], reason: "classes are integers" });
    }
    const shape = this.shape, full = [...shape, numClasses], rank = full.length;
    const at = broadcastTo(reshape(castNode(this.uop, dtypes.int32), [...shape, 1]), full);
    return this.wrap(castNode(broadcastTo(iotaAlong(numClasses, rank - 1, rank), full).eq(at), dtypes.int32));
  }

  /** Zeros on one side of a diagonal. */
  private triangle(action: string, diagonal: number, lower: boolean): this {
    checkInteger(action, "diagonal", diagonal);
    const shape = this.shape, rank = shape.length;
    if (rank < 2) throw new ShapeError(action, { shapes: [shape], reason: "it needs at least two axes" });
    const row = broadcastTo(iotaAlong(shape[rank - 2], rank - 2, rank), shape);
    const column = broadcastTo(iotaAlong(shape[rank - 1], rank - 1, rank), shape);
    const zero = scalarConst(0, this.dtype);
    // column <= row + diagonal
    const below = column.lt(row.add(diagonal + 1));
    if (lower) return this.wrap(below.where(this.uop, zero));
    return this.wrap(column.lt(row.add(diagonal)).where(zero, this.uop));
  }
  /** The last two axes at and below a diagonal (0 is the main one, positive above), else 0. @throws {ShapeError} */
  tril(diagonal = 0): this {
    return this.triangle("tril", diagonal, true);
  }
  /** The last two axes at and above a diagonal, else 0. @throws {ShapeError} */
  triu(diagonal = 0): this {
    return this.triangle("triu", diagonal, false);
  }

  /** A matrix with this, which is 1-D, on its diagonal. @throws {ShapeError} */
  diag(): this {
    const shape = this.shape;
    if (shape.length !== 1) throw new ShapeError("diag", { shapes: [shape], reason: "it must be 1-D" });
    const n = shape[0], full = [n, n];
    const same = broadcastTo(iotaAlong(n, 0, 2), full).eq(broadcastTo(iotaAlong(n, 1, 2), full));
    return this.wrap(same.where(broadcastTo(this.uop, full), scalarConst(0, this.dtype)));
  }
}
