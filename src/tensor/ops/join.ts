/**
 * Joining tensors along an axis, and the reverse: cat, stack, split, chunk; repeating and shifting. Joins are selects over
 * padded parts (movement_nodes.ts), so that nothing is copied before the scheduler says so; sizes and cuts may be variables
 * (dims.ts).
 *
 * @module
 */
import { promoteAll } from "../../dtype/promotion.ts";
import { ShapeError } from "../../helpers/errors.ts";
import { rangeOf } from "../../helpers/math.ts";
import { checkAlone, checkChoice, checkInteger, checkOptions } from "../../helpers/options.ts";
import { expand, reshape, shrink } from "../../uop/core/build_movement.ts";
import { deviceOf, shapeOf } from "../../uop/core/shape.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { extentsOf } from "../../uop/graph/extent.ts";
import { type Axes, checkIntegers, checkShape, resolveAxis } from "../handle/axes.ts";
import { type Operand, TensorBase } from "../handle/base.ts";
import { checkSameDevice } from "../handle/broadcast.ts";
import {
  chunkSizes,
  constantAxis,
  type Dim,
  dimNode,
  hasVariable,
  largestSizes,
  listNeeded,
  rolled,
  type Shape,
  splitAxis,
  withSizes,
} from "../handle/dims.ts";
import { catNodes, type Pair } from "../nodes/movement_nodes.ts";
import { reshapeSized } from "../nodes/symbolic_reshape.ts";
import type { MovementTensor } from "./movement.ts";

/** The shapes for an error about part `at`: all of a few, of many the first one and that. */
function shapesOf(parts: readonly TensorBase[], at: number): (readonly number[])[] {
  return (parts.length > 4 ? [parts[0], parts[at]] : parts).map((t) => t.shape);
}

/** The families that it is written in. */
export interface JoinTensor extends MovementTensor {}
/** Methods that cut and join tensors. */
export abstract class JoinTensor extends TensorBase {
  /**
   * Cuts along `dim`: into parts of `sizes` (the last may be smaller), or of the sizes listed, which may be variables.
   *
   * @throws {ShapeError} if the sizes listed do not add up to the axis
   */
  split(sizes: Axes | readonly Dim[], dim = 0): this[] {
    const shape = this.shape;
    const axis = resolveAxis("split", dim, shape);
    if (Array.isArray(sizes) && (hasVariable(sizes) || extentsOf(this.uop)?.[axis] !== undefined)) {
      return splitAxis("split", this.uop, axis, sizes).map((u) => this.wrapView(u));
    }
    constantAxis("split", this.uop, axis, "list the sizes of the parts");
    const n = shape[axis];
    let list: number[];
    if (typeof sizes === "number") {
      checkInteger("split", "the size", sizes, 1);
      list = rangeOf(Math.max(1, Math.ceil(n / sizes))).map((i) => Math.min(sizes, n - i * sizes));
    } else list = checkShape("split", sizes);
    const total = list.reduce((a, b) => a + b, 0);
    if (total !== n) {
      throw new ShapeError("split", {
        shapes: [shape],
        axis,
        reason: `[${list.join(", ")}] adds up to ${total}, axis ${axis} has size ${n}`,
      });
    }
    let at = 0;
    return list.map((m) => {
      const pairs = shape.map((s): Pair => [0, s]);
      pairs[axis] = [at, at += m];
      return this.wrapView(shrink(this.uop, pairs));
    });
  }

  /** At most `chunks` parts of equal size along `dim`; the last may be smaller. */
  chunk(chunks: number, dim = 0): this[] {
    checkInteger("chunk", "the number of chunks", chunks, 1);
    const axis = resolveAxis("chunk", dim, this.shape);
    if (extentsOf(this.uop)?.[axis] !== undefined) {
      return this.split(chunkSizes("chunk", this.uop, axis, chunks).map((u) => this.wrap(u)), axis);
    }
    return this.split(Math.max(1, Math.ceil(this.shape[axis] / chunks)), axis);
  }

  /**
   * Joins this and `tensors` along `dim`; lists of numbers among them are tensors. Dtypes are promoted.
   *
   * @throws {ShapeError} if they differ on another axis
   */
  cat(tensors: readonly Operand[] | TensorBase, dim = 0): this {
    const all = this.withOthers("cat", tensors);
    const shape = this.shape;
    const axis = resolveAxis("cat", dim, shape), home = all.find((t) => deviceOf(t.uop) !== null);
    for (const [i, t] of all.entries()) {
      checkSameDevice("cat", (home ?? t).uop, t.uop);
      const s = t.shape;
      const bad = s.length !== shape.length ? -1 : s.findIndex((n, i) => i !== axis && n !== shape[i]);
      if (s.length === shape.length && bad < 0 && s.length > 0) continue;
      throw new ShapeError("cat", {
        shapes: shapesOf(all, i),
        axis: bad < 0 ? axis : bad,
        reason: s.length === 0
          ? "scalars have no axis to join along; use stack"
          : bad < 0
          ? "they have different ranks"
          : `axis ${bad} has sizes ${shape[bad]} and ${s[bad]}`,
      });
    }
    const dtype = promoteAll(all.map((t) => t.dtype));
    return this.wrap(catNodes(all.map((t) => t.uop.cast(dtype)), axis));
  }

  /** This, and more tensors, lists or numbers as tensors. @throws {ArgumentError} for what is no list of them */
  protected withOthers(action: string, others: readonly Operand[] | TensorBase): this[] {
    const list: unknown = others instanceof TensorBase ? [others] : others;
    if (!Array.isArray(list)) throw listNeeded(action, others);
    return [this, ...Array.from(list, (x: Operand) => this.operand(x, action) as this)];
  }

  /** Joins this and `tensors` along a new axis. @throws {ShapeError} if the shapes differ */
  stack(tensors: readonly Operand[] | TensorBase, dim = 0): this {
    const all = this.withOthers("stack", tensors);
    const shape = this.shape;
    const axis = resolveAxis("stack", dim, shape, shape.length + 1);
    const dtype = promoteAll(all.map((t) => t.dtype)), home = all.find((t) => deviceOf(t.uop) !== null);
    const nodes = all.map((t, i) => {
      const s = t.shape;
      checkSameDevice("stack", (home ?? t).uop, t.uop);
      if (s.length !== shape.length || s.some((n, i) => n !== shape[i])) {
        throw new ShapeError("stack", { shapes: shapesOf(all, i), reason: "they must all be equal" });
      }
      return reshape(t.uop.cast(dtype), shape.toSpliced(axis, 0, 1));
    });
    return this.wrap(catNodes(nodes, axis));
  }

  /** Tiles: axis i is repeated `repeats[i]` times; more repeats than axes add axes in front. */
  repeat(repeats: Shape, ...more: never[]): this {
    checkAlone("repeat", repeats, more);
    const list = hasVariable(repeats) ? largestSizes("repeat", repeats as readonly Dim[]) : repeats;
    const from = this.shape, counts = checkShape("repeat", list), extra = counts.length - from.length;
    if (extra < 0) {
      throw new ShapeError("repeat", { shapes: [from], reason: `it needs at least ${from.length} repeats` });
    }
    const base = [...new Array<number>(extra).fill(1), ...from];
    let x = reshape(this.uop, base);
    base.forEach((_, axis) => {
      if (extentsOf(x)?.[axis] === undefined || counts[axis] === 1) return;
      if (Array.isArray(repeats) && repeats[axis] instanceof TensorBase) {
        constantAxis("repeat", x, axis, "repeat it a number of times, or flatten a stack");
      }
      x = catNodes(new Array<UOp>(counts[axis]).fill(x), axis);
      counts[axis] = 1;
    });
    const tall = shapeOf(x).flatMap((n) => [1, n]), wide = shapeOf(x).flatMap((n, i) => [counts[i], n]);
    let tiles = expand(reshape(x, tall), wide);
    if (hasVariable(repeats)) {
      tiles = withSizes(
        "repeat",
        tiles,
        (repeats as readonly Dim[]).flatMap((n) => [n, null]),
        (axis) => axis % 2 === 0,
      );
    }
    return this.wrap(reshape(tiles, shapeOf(x).map((n, i) => n * counts[i])));
  }

  /** Each element `repeats` times in a row along `dim`; of the flattened tensor without `dim`. */
  protected repeatedEvenly(repeats: Dim, dim?: number): this {
    const [count] = repeats instanceof TensorBase
      ? largestSizes("repeatInterleave", [repeats]) as number[]
      : [checkInteger("repeatInterleave", "repeats", repeats, 0)];
    if (dim === undefined) return this.flatten().repeatedEvenly(repeats, 0);
    const shape = this.shape;
    const axis = resolveAxis("repeatInterleave", dim, shape);
    const tall = shape.toSpliced(axis + 1, 0, 1), wide = shape.toSpliced(axis + 1, 0, count);
    const out = [...shape];
    out[axis] *= count;
    const many = wide.map((_, i) => i === axis + 1 ? repeats : null);
    const rows = withSizes("repeatInterleave", expand(reshape(this.uop, tall), wide), many, () => true);
    return this.wrap(reshapeSized(rows, out));
  }

  /**
   * Shifts circularly along `dims`; along the flattened tensor without. Shifts may be variables.
   *
   * @throws {ShapeError} for lists of two lengths
   */
  roll(shifts: Shape, dims?: Axes): this {
    const copied = (u: UOp): this => this.wrapCopy(u, "roll", "roll the value back, and assign to that tensor");
    if (dims === undefined) return copied(this.flatten().roll(shifts, 0).reshape(this.symbolicShape).uop);
    const list = Array.isArray(shifts) ? shifts as readonly Dim[] : [shifts as Dim];
    const by = hasVariable(list) ? list : checkIntegers("roll", "the shifts", list);
    const along = checkIntegers("roll", "the axes", typeof dims === "number" ? [dims] : dims);
    const shape = this.shape;
    if (by.length !== along.length) {
      throw new ShapeError("roll", { shapes: [shape], reason: `${by.length} shifts for ${along.length} axes` });
    }
    let x = this.uop;
    along.forEach((dim, i) => {
      const axis = resolveAxis("roll", dim, shape);
      const n = shape[axis] ?? 1; // a rank of 0 has an axis 0 of one element
      if (n <= 1) return;
      if (by[i] instanceof TensorBase || extentsOf(x)?.[axis] !== undefined) {
        x = rolled(x, axis, dimNode("roll", by[i]));
        return;
      }
      const shift = (((by[i] as number) % n) + n) % n;
      if (shift === 0) return;
      const all = shape.map((s): Pair => [0, s]);
      x = catNodes([shrink(x, all.with(axis, [n - shift, n])), shrink(x, all.with(axis, [0, n - shift]))], axis);
    });
    return copied(x);
  }

  /**
   * Coordinate tensors of this and `tensors`, each 1-D or scalar.
   *
   * @param options `indexing` "ij" (default) or "xy"
   */
  meshgrid(
    tensors: readonly Operand[] | TensorBase = [],
    options: { readonly indexing?: "ij" | "xy" } = {},
  ): this[] {
    checkOptions("meshgrid", options, ["indexing"]);
    const indexing = options.indexing ?? "ij";
    checkChoice("meshgrid", "indexing", indexing, ["ij", "xy"]);
    const all = this.withOthers("meshgrid", tensors);
    for (const t of all) {
      if (t.ndim > 1) {
        throw new ShapeError("meshgrid", { shapes: all.map((t) => t.shape), reason: "each must be 1-D or a scalar" });
      }
    }
    const place = rangeOf(all.length);
    if (indexing === "xy" && all.length > 1) [place[0], place[1]] = [1, 0];
    const shape = new Array<number>(all.length);
    const sizes = new Array<Dim>(all.length);
    all.forEach((t, i) => {
      shape[place[i]] = t.numel();
      sizes[place[i]] = t.ndim === 0 ? 1 : (t as MovementTensor).symbolicShape[0];
    });
    return all.map((t, i) => {
      const one = new Array<number>(all.length).fill(1);
      one[place[i]] = t.numel();
      return (t as this).wrapView(withSizes("meshgrid", expand(reshape(t.uop, one), shape), sizes, () => true));
    });
  }
}
