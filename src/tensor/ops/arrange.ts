/**
 * Arranging: tensors beside and above each other, in blocks and in all combinations; axes moved, turned and taken apart;
 * parts of a tensor replaced. All are made of movement and joins.
 *
 * @module
 */
import { ArgumentError, ShapeError } from "../../helpers/errors.ts";
import { rangeOf } from "../../helpers/math.ts";
import { checkBoolean, checkCount, checkInteger, checkOptions, describe } from "../../helpers/options.ts";
import { extentsOf } from "../../uop/graph/extent.ts";
import { type Axes, checkIntegers, checkShape, resolveAxis } from "../handle/axes.ts";
import { checkTensor, isTensor, type Operand, TensorBase } from "../handle/base.ts";
import { constantAxis, type Dim, narrowAxis } from "../handle/dims.ts";
import type { ElementwiseTensor } from "./elementwise.ts";
import type { JoinTensor } from "./join.ts";

/** Options of {@linkcode ArrangeTensor.trilIndices}. */
export interface TriangleOptions {
  /** Which diagonal: 0 is the main one, positive above. Default 0. */
  readonly offset?: number;
}

/** The families that it is written in. */
export interface ArrangeTensor extends ElementwiseTensor, JoinTensor {}
/** Tensors that are arranged. */
export abstract class ArrangeTensor extends TensorBase {
  // ---- axes

  /** The tensors along `dim`, without it. @throws {ShapeError} for a scalar */
  unbind(dim = 0): this[] {
    if (this.ndim === 0) throw new ShapeError("unbind", { shapes: [[]], reason: "a scalar has no axis to part" });
    const axis = resolveAxis("unbind", dim, this.shape);
    constantAxis("unbind", this.uop, axis, "padTo(shape) gives it one, and select(dim, i) one of them");
    return rangeOf(this.shape[axis]).map((i) => this.select(axis, i));
  }

  /** Position `index` of axis `dim`, which vanishes; it may be a variable. @throws {ShapeError} outside of it */
  select(dim: number, index: Dim): this {
    const shape = this.shape, axis = resolveAxis("select", dim, shape), n = shape[axis];
    if (this.isCutByVariables(axis, index)) {
      return this.wrapView(narrowAxis("select", this.uop, axis, index, 1)).squeeze(axis) as this;
    }
    const at = checkInteger("select", "index", index);
    if (n === undefined || at < -n || at >= n) {
      throw new ShapeError("select", {
        shapes: [shape],
        axis,
        reason: `there is no position ${at} along axis ${axis}`,
      });
    }
    return this.narrow(axis, at < 0 ? at + n : at, 1).squeeze(axis);
  }

  /** Whether an axis is symbolic, or one of these is a variable. */
  private isCutByVariables(axis: number, ...bounds: readonly Dim[]): boolean {
    return bounds.some(isTensor) || extentsOf(this.uop)?.[axis] !== undefined;
  }

  /**
   * `length` positions of axis `dim` from `start` on, each a number or a variable.
   *
   * @throws {ShapeError} beyond the axis, also for a variable that may be
   */
  narrow(dim: number, start: Dim, length: Dim): this {
    const shape = this.shape, axis = resolveAxis("narrow", dim, shape), n = shape[axis] ?? 0;
    if (this.isCutByVariables(axis, start, length)) {
      return this.wrapView(narrowAxis("narrow", this.uop, axis, start, length));
    }
    const first = checkInteger("narrow", "start", start), count = checkInteger("narrow", "length", length, 0);
    const from = first < 0 ? first + n : first;
    if (from < 0 || from + count > n) {
      throw new ShapeError("narrow", {
        shapes: [shape],
        axis,
        reason: `${count} from ${first} on do not lie within axis ${axis} of size ${n}`,
      });
    }
    return this.shrink(shape.map((_, i) => i === axis ? [from, from + count] as const : null));
  }

  /** Axes `source` moved to `destination`; the others keep their order. @throws {ShapeError} for one axis twice */
  movedim(source: Axes, destination: Axes): this {
    const action = "movedim", shape = this.shape;
    const [from, to] = [source, destination].map((x) => {
      const list = checkIntegers(action, "the axes", typeof x === "number" ? [x] : x);
      return list.map((a) => resolveAxis(action, a, shape));
    });
    if (from.length !== to.length || new Set(from).size < from.length || new Set(to).size < to.length) {
      throw new ShapeError(action, {
        shapes: [shape],
        reason: `it takes as many different axes twice, not [${from.join(", ")}] and [${to.join(", ")}]`,
      });
    }
    const rest = rangeOf(shape.length).filter((a) => !from.includes(a));
    return this.permute(rangeOf(shape.length).map((a) => to.includes(a) ? from[to.indexOf(a)] : rest.shift()!));
  }

  /**
   * Turned by 90 degrees `k` (1) times, from the first of `dims` ([0, 1]) toward the second. `rot90(k, dims)` is the same.
   *
   * @throws {ShapeError} for one axis twice
   */
  rot90(
    options: number | { readonly k?: number; readonly dims?: readonly number[] } = {},
    axes?: readonly number[],
  ): this {
    const given = typeof options === "number" ? { k: options, dims: axes } : options;
    const { k = 1, dims = [0, 1] } = checkOptions("rot90", given, ["k", "dims"]);
    const [a, b] = checkIntegers("rot90", "dims", dims).map((d) => resolveAxis("rot90", d, this.shape));
    if (dims.length !== 2 || a === b || this.ndim < 2) {
      throw new ShapeError("rot90", { shapes: [this.shape], reason: "it takes two different axes" });
    }
    const turns = ((checkInteger("rot90", "k", k) % 4) + 4) % 4;
    if (turns === 2) return this.flip([a, b]);
    if (turns === 0) return this.permute(rangeOf(this.ndim));
    return turns === 1 ? this.flip(b).transpose(a, b) : this.transpose(a, b).flip(b);
  }

  /** Reverses the second axis. @throws {ShapeError} below two axes */
  fliplr(): this {
    if (this.ndim < 2) throw new ShapeError("fliplr", { shapes: [this.shape], reason: "it needs two axes" });
    return this.flip(1);
  }
  /** Reverses the first axis. @throws {ShapeError} for a scalar */
  flipud(): this {
    if (this.ndim < 1) throw new ShapeError("flipud", { shapes: [this.shape], reason: "it needs an axis" });
    return this.flip(0);
  }
  /** Matrices transposed: the last two axes swapped. @throws {ShapeError} below two axes */
  get mT(): this {
    if (this.ndim < 2) throw new ShapeError("mT", { shapes: [this.shape], reason: "it needs two axes" });
    return this.transpose(-2, -1);
  }
  /** Alias of {@linkcode transpose}. */
  swapaxes(axis0: number, axis1: number): this {
    for (const a of [axis0, axis1]) resolveAxis("swapaxes", a, this.shape);
    return this.transpose(axis0, axis1);
  }
  /** All elements along one axis. */
  ravel(): this {
    return this.reshape([-1 + (this.numel() === 0 ? 1 : 0)]);
  }
  /** Expanded to the shape of `other`. @throws {ShapeError} */
  expandAs(other: TensorBase): this {
    return this.expand((checkTensor("expandAs", "other", other) as this).symbolicShape);
  }
  /** Reshaped to the shape of `other`. @throws {ShapeError} */
  reshapeAs(other: TensorBase): this {
    return this.reshape((checkTensor("reshapeAs", "other", other) as this).symbolicShape);
  }
  /** Alias of {@linkcode reshapeAs}. */
  viewAs(other: TensorBase): this {
    return this.reshapeAs(other);
  }

  /** With axes of size 1 until there is one. */
  atleast1d(): this {
    return this.ndim >= 1 ? this : this.reshape([1]);
  }
  /** With axes of size 1 in front until there are two. */
  atleast2d(): this {
    return this.ndim >= 2 ? this : this.atleast1d().unsqueeze(0);
  }
  /** With axes of size 1, the last one behind, until there are three. */
  atleast3d(): this {
    return this.ndim >= 3 ? this : this.atleast2d().unsqueeze(-1);
  }

  // ---- parts

  /**
   * Parts along `dim`: so many of nearly one size, the first ones larger by one, or between the positions listed.
   *
   * @throws {ShapeError} for a scalar
   */
  tensorSplit(indicesOrSections: number | readonly number[], dim = 0): this[] {
    const action = "tensorSplit", shape = this.shape, axis = resolveAxis(action, dim, shape), n = shape[axis];
    if (n === undefined) throw new ShapeError(action, { shapes: [shape], reason: "a scalar has no axis to part" });
    let ends: number[];
    if (typeof indicesOrSections === "number") {
      const most = Math.max(n, 2 ** 16), parts = checkCount(action, "the number of parts", indicesOrSections, 1, most);
      const each = Math.floor(n / parts);
      ends = rangeOf(parts).map((i) => (i + 1) * each + Math.min(i + 1, n % parts));
    } else {
      const list = checkIntegers(action, "the positions", indicesOrSections);
      ends = [...list.map((i) => Math.min(Math.max(i < 0 ? i + n : i, 0), n)), n];
    }
    return ends.map((end, i) => {
      const start = i === 0 ? 0 : ends[i - 1];
      return this.narrow(axis, Math.min(start, end), Math.max(end - start, 0));
    });
  }
  /** Parts along the second axis, of a list along its only one, as {@linkcode tensorSplit}. @throws {ShapeError} */
  hsplit(indicesOrSections: number | readonly number[]): this[] {
    return this.tensorSplit(indicesOrSections, this.ndim < 2 ? 0 : 1);
  }
  /** Parts along the first axis, as {@linkcode tensorSplit}. @throws {ShapeError} */
  vsplit(indicesOrSections: number | readonly number[]): this[] {
    return this.tensorSplit(indicesOrSections, 0);
  }

  /** This with position `index` of axis `dim` replaced by `src`. @throws {ShapeError} where that does not fit */
  selectScatter(src: this, dim: number, index: number): this {
    const axis = resolveAxis("selectScatter", dim, this.shape), n = this.shape[axis] ?? 0;
    checkTensor("selectScatter", "src", src);
    if (src.ndim !== this.ndim - 1) {
      throw new ShapeError("selectScatter", {
        shapes: [this.shape, src.shape],
        axis,
        reason: "src must be one part of it",
      });
    }
    const at = checkInteger("selectScatter", "index", index) < 0 ? index + n : index;
    return this.sliceScatter(src.unsqueeze(axis), axis, { start: at, end: at + 1 });
  }

  /** This with each `step`th position of axis `dim` from `start` to `end` replaced by `src`. @throws {ShapeError} where that does not fit */
  sliceScatter(
    src: this,
    dim = 0,
    options: { readonly start?: number; readonly end?: number; readonly step?: number } = {},
  ): this {
    const action = "sliceScatter", shape = this.shape, axis = resolveAxis(action, dim, shape), n = shape[axis] ?? 0;
    const { start = 0, end = n, step = 1 } = checkOptions(action, options, ["start", "end", "step"]);
    checkInteger(action, "step", step, 1);
    constantAxis(action, this.uop, axis, "setAt([...], src) of a copy writes to any");
    const [a, b] = [checkInteger(action, "start", start), checkInteger(action, "end", end)]
      .map((i) => Math.min(Math.max(i < 0 ? i + n : i, 0), n));
    const count = Math.max(Math.ceil((b - a) / step), 0), want = shape.with(axis, count);
    if (this.ndim === 0 || checkTensor(action, "src", src).shape.join() !== want.join()) {
      throw new ShapeError(action, {
        shapes: [shape, src.shape],
        axis,
        reason: `src must have shape [${want.join(", ")}]`,
      });
    }
    if (count === 0) return this.wrap(this.uop);
    // src with gaps between, as long as the axis, and where it stands
    const spread = (x: this): this => {
      const wide = x.unsqueeze(axis + 1).pad(
        shape.toSpliced(axis + 1, 0, 1).map((_, i) => [0, i === axis + 1 ? step - 1 : 0] as const),
      );
      const line = wide.reshape(shape.with(axis, count * step)), used = Math.min(count * step, n - a);
      const cut = line.narrow(axis, 0, used);
      return cut.pad(shape.map((_, i) => i === axis ? [a, n - a - used] as const : [0, 0] as const));
    };
    const mask = spread(src.constLike(true, { dtype: "bool" }));
    return mask.where(spread(src.cast(this.dtype)), this) as this;
  }

  /** This with the diagonal of axes `dim1` and `dim2` replaced by `src`, as `diagonal` gives it. @throws {ShapeError} where that does not fit */
  diagonalScatter(
    src: this,
    options: { readonly offset?: number; readonly dim1?: number; readonly dim2?: number } = {},
  ): this {
    const action = "diagonalScatter",
      { offset = 0, dim1 = 0, dim2 = 1 } = checkOptions(action, options, ["offset", "dim1", "dim2"]);
    const want = this.diagonal({ offset, dim1, dim2 }).shape, shape = this.shape;
    if (checkTensor(action, "src", src).shape.join() !== want.join()) {
      throw new ShapeError(action, { shapes: [shape, src.shape], reason: `src must have shape [${want.join(", ")}]` });
    }
    const a = resolveAxis(action, dim1, shape), b = resolveAxis(action, dim2, shape), d = want[want.length - 1];
    if (d === 0) return this.wrap(this.uop);
    // rows of one element each, moved to its column
    const order = [...rangeOf(shape.length).filter((i) => i !== a && i !== b), a, b];
    const x = this.permute(order), [rows, columns] = x.shape.slice(-2), lead = x.shape.slice(0, -2);
    const [skipRows, skipColumns] = [Math.max(-offset, 0), Math.max(offset, 0)];
    const none = lead.map(() => [0, 0] as const);
    const square = (t: this): this =>
      t.unsqueeze(-1).pad([...none, [0, 0], [0, d]]).reshape([...lead, d * (d + 1)]).narrow(-1, 0, d * d)
        .reshape([...lead, d, d])
        .pad([...none, [skipRows, rows - skipRows - d], [skipColumns, columns - skipColumns - d]]);
    const mask = square(src.constLike(true, { dtype: "bool" }));
    const made = mask.where(square(src.cast(this.dtype)), x) as this;
    return made.permute(order.map((_, i) => order.indexOf(i)));
  }

  // ---- joining

  /** Beside each other: along the second axis, of lists along their only one. @throws {ShapeError} */
  hstack(tensors: readonly Operand[] | TensorBase): this {
    const [first, ...rest] = this.withOthers("hstack", tensors).map((t) => t.atleast1d());
    return first.cat(rest, first.ndim < 2 ? 0 : 1);
  }
  /** Above each other: along the first axis, of at least two. @throws {ShapeError} */
  vstack(tensors: readonly Operand[] | TensorBase): this {
    const [first, ...rest] = this.withOthers("vstack", tensors).map((t) => t.atleast2d());
    return first.cat(rest, 0);
  }
  /** Behind each other: along the third axis, of at least three. @throws {ShapeError} */
  dstack(tensors: readonly Operand[] | TensorBase): this {
    const [first, ...rest] = this.withOthers("dstack", tensors).map((t) => t.atleast3d());
    return first.cat(rest, 2);
  }
  /** Lists as columns beside each other, and matrices. @throws {ShapeError} */
  columnStack(tensors: readonly Operand[] | TensorBase): this {
    const [first, ...rest] = this.withOthers("columnStack", tensors).map((t) => t.ndim < 2 ? t.reshape([-1, 1]) : t);
    return first.cat(rest, 1);
  }
  /** Matrices along a diagonal, zeros elsewhere; lists are rows. @throws {ShapeError} above two axes */
  blockDiag(tensors: readonly Operand[] | TensorBase): this {
    const parts = this.withOthers("blockDiag", tensors).map((t) => {
      if (t.ndim > 2) throw new ShapeError("blockDiag", { shapes: [t.shape], reason: "it takes matrices" });
      const part = t.atleast2d();
      constantAxis("blockDiag", part.uop, 1);
      return part;
    });
    const columns = parts.reduce((n, t) => n + t.shape[1], 0);
    let before = 0;
    const rows = parts.map((t) => {
      const from = before;
      before += t.shape[1];
      return t.pad([[0, 0], [from, columns - before]]);
    });
    return rows[0].cat(rows.slice(1), 0);
  }

  /** All choices of an element of this and one of each of `tensors`, all 1-D: one a row. @throws {ShapeError} for other ranks */
  cartesianProd(tensors: readonly Operand[] | TensorBase): this {
    const all = this.withOthers("cartesianProd", tensors), bad = all.find((t) => t.ndim !== 1);
    if (bad !== undefined) throw new ShapeError("cartesianProd", { shapes: [bad.shape], reason: "it takes lists" });
    if (all.length === 1) return this.wrap(this.uop);
    const [first, ...rest] = this.meshgrid(all.slice(1)).map((t) => t.flatten());
    return first.stack(rest, 1);
  }

  /**
   * All choices of `r` (2) elements of this, 1-D, in order: one a row. @throws {ShapeError} for another rank
   */
  combinations(options: { readonly r?: number; readonly withReplacement?: boolean } = {}): this {
    const { r = 2, withReplacement = false } = checkOptions("combinations", options, ["r", "withReplacement"]);
    checkInteger("combinations", "r", r, 0);
    checkBoolean("combinations", "withReplacement", withReplacement);
    if (this.ndim !== 1) throw new ShapeError("combinations", { shapes: [this.shape], reason: "it takes a list" });
    constantAxis("combinations", this.uop, 0);
    const n = this.shape[0], rows: number[][] = [];
    const choose = (from: number, chosen: readonly number[]): void => {
      if (chosen.length === r) {
        rows.push([...chosen]);
        return;
      }
      for (let i = from; i < n; i++) choose(withReplacement ? i : i + 1, [...chosen, i]);
    };
    if (r > 0) choose(0, []);
    if (rows.length === 0) return this.narrow(0, 0, 0).reshape(r === 0 ? [0] : [0, r]);
    const columns = rangeOf(r).map((k) => {
      const parts = rows.map((row) => this.narrow(0, row[k], 1));
      return parts[0].cat(parts.slice(1), 0);
    });
    return columns[0].stack(columns.slice(1), 1);
  }

  /** Alias of {@linkcode repeat}; fewer repeats than axes count from the last. */
  tile(dims: Axes): this {
    const list = checkShape("tile", dims);
    return this.repeat([...new Array<number>(Math.max(this.ndim - list.length, 0)).fill(1), ...list]);
  }

  /** Rows and columns of the lower triangle of a `row` by `col` matrix: int32 `[2, count]`. */
  static trilIndices<T>(
    this: new (data: number[][], options: { dtype: "int32" }) => T,
    row: number,
    col: number,
    options: TriangleOptions = {},
  ): T {
    return new this(triangle("trilIndices", row, col, options, (i, j, offset) => j - i <= offset), { dtype: "int32" });
  }
  /** Rows and columns of the upper triangle of a `row` by `col` matrix: int32 `[2, count]`. */
  static triuIndices<T>(
    this: new (data: number[][], options: { dtype: "int32" }) => T,
    row: number,
    col: number,
    options: TriangleOptions = {},
  ): T {
    return new this(triangle("triuIndices", row, col, options, (i, j, offset) => j - i >= offset), { dtype: "int32" });
  }
}

/** Positions of a matrix that are in a triangle. */
function triangle(
  action: string,
  row: number,
  col: number,
  options: TriangleOptions,
  isIn: (i: number, j: number, offset: number) => boolean,
): number[][] {
  const { offset = 0 } = checkOptions(action, options, ["offset"]), found: [number[], number[]] = [[], []];
  checkInteger(action, "row", row, 0);
  checkInteger(action, "col", col, 0);
  if (row * col > 2 ** 24) {
    throw new ArgumentError(action, { reason: `${describe(row)} by ${col} is too large a list` });
  }
  for (let i = 0; i < row; i++) {
    for (let j = 0; j < col; j++) {
      if (!isIn(i, j, offset)) continue;
      found[0].push(i);
      found[1].push(j);
    }
  }
  return found;
}
