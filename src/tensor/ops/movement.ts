/**
 * Movement: the same elements under another shape or order. Nothing here computes; the scheduler turns all of it into
 * index arithmetic. Arguments are checked at the call; `pad` with a value is a select over padded parts.
 *
 * @module
 */
import { ArgumentError, nameSizes, ShapeError } from "../../helpers/errors.ts";
import { prod, rangeOf } from "../../helpers/math.ts";
import { checkAlone, checkChoice, checkInteger, checkOptions, checkScalar, describe } from "../../helpers/options.ts";
import { expand, flip, permute, reshape, shrink } from "../../uop/core/build_movement.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { extentOf, extentsOf, sameExtent, withExtents } from "../../uop/graph/extent.ts";
import { type Axes, checkIntegers, checkShape, padPairs, resolveAxes, resolveAxis } from "../handle/axes.ts";
import { TensorBase } from "../handle/base.ts";
import {
  constantAxis,
  type Dim,
  dimPairs,
  hasVariable,
  largestSizes,
  padAxisBy,
  padAxisTo,
  padDims,
  shrinkAxis,
  sizedAs,
  sizeName,
  sizesNow,
  withSizes,
} from "../handle/dims.ts";
import {
  diagonalNode,
  padAxis,
  padConstant,
  type PadMode,
  type Pair,
  trueOf,
  unfoldLast,
} from "../nodes/movement_nodes.ts";
import { scalarConst } from "../nodes/scalars.ts";
import { reshapeSized, squareDiagonal } from "../nodes/symbolic_reshape.ts";
import { parseRearrange } from "./rearrange.ts";

/** Options of {@linkcode MovementTensor.pad}. */
export interface PadOptions {
  /** How it fills. Default "constant". */
  readonly mode?: PadMode;
  /** What it fills with, in mode "constant". Default 0. */
  readonly value?: number | boolean;
}

/** What to pad with: 0 unless given. */
function checkFill(action: string, value: unknown): number | boolean {
  return value === undefined ? 0 : checkScalar(action, "value", value) as number | boolean;
}

/** Methods that move elements. */
export abstract class MovementTensor extends TensorBase {
  /**
   * The same elements in row-major order under another shape. One size may be -1 (what is left), null keeps the axis.
   * A symbolic axis keeps its size, or is split or joined with the axes behind it.
   *
   * @throws {ShapeError} if the sizes do not multiply to the number of elements
   */
  reshape(shape: Axes | readonly (Dim | null)[], ...more: never[]): this {
    checkAlone("reshape", shape, more);
    return this.reshapeTo("reshape", shape);
  }

  /** Alias of {@linkcode reshape}. */
  view(shape: Axes | readonly (Dim | null)[], ...more: never[]): this {
    checkAlone("view", shape, more);
    return this.reshapeTo("view", shape);
  }

  /** What `reshape` and `view` do. */
  private reshapeTo(action: string, shape: Axes | readonly (Dim | null)[]): this {
    if (!hasVariable(shape)) return this.wrapView(reshapeSized(this.uop, this.resolveShape(action, shape)));
    const list = shape as readonly (Dim | null)[];
    const made = reshapeSized(this.uop, this.resolveShape(action, largestSizes(action, list), list.map(sizeName)));
    return this.wrapView(withSizes(action, made, list, () => false));
  }

  /** A shape with its -1 found; `names` are those of sizes that are variables. @throws {ShapeError} */
  private resolveShape(action: string, sizes: unknown, names: readonly (string | undefined)[] = []): number[] {
    const from = this.shape;
    const list: unknown = typeof sizes === "number" ? [sizes] : sizes;
    if (!Array.isArray(list)) {
      throw new ArgumentError(action, { reason: `a shape must be a list of sizes, not ${describe(sizes)}` });
    }
    const shape = list.map((n, i) => {
      if (n !== null) return n as number;
      if (i >= from.length) {
        throw new ShapeError(action, { shapes: [from], axis: i, reason: `there is no axis ${i} to keep` });
      }
      return from[i];
    });
    if (names.length > 0) nameSizes(shape, names);
    const unknown = shape.indexOf(-1);
    if (unknown !== shape.lastIndexOf(-1)) {
      throw new ShapeError(action, { shapes: [from, shape], reason: "only one size may be -1" });
    }
    const known = checkShape(action, shape.filter((n) => n !== -1));
    const count = prod(known), total = prod(from);
    if (unknown >= 0) {
      if (count === 0 || total % count !== 0) {
        throw new ShapeError(action, {
          shapes: [from, shape],
          axis: unknown,
          reason: count === 0
            ? "-1 is ambiguous beside a size of 0"
            : `${total} elements do not divide into parts of ${count}`,
        });
      }
      shape[unknown] = total / count;
    } else if (count !== total) {
      throw new ShapeError(action, { shapes: [from, shape], reason: `they have ${total} and ${count} elements` });
    }
    return shape;
  }

  /**
   * Repeats axes of size 1 without copying. -1 or null keeps an axis; more axes may be added in front.
   *
   * @throws {ShapeError} if another size would have to change
   */
  expand(shape: Axes | readonly (Dim | null)[], ...more: never[]): this {
    checkAlone("expand", shape, more);
    const from = this.shape;
    if (hasVariable(shape)) {
      const list = shape as readonly (Dim | null)[], extra = list.length - from.length;
      const made = this.expand(largestSizes("expand", list));
      return this.wrapView(withSizes("expand", made.uop, list, (axis) => axis < extra || from[axis - extra] === 1));
    }
    const list: unknown = typeof shape === "number" ? [shape] : shape;
    if (!Array.isArray(list)) {
      throw new ArgumentError("expand", { reason: `a shape must be a list of sizes, not ${describe(shape)}` });
    }
    checkShape("expand", Array.from(list, (n) => n === -1 || n === null ? 0 : n));
    const extra = list.length - from.length;
    if (extra < 0) {
      throw new ShapeError("expand", { shapes: [from, list], reason: `the target has fewer axes than the tensor` });
    }
    const full = [...new Array<number>(extra).fill(1), ...from];
    const target = list.map((n, i) => n === -1 || n === null ? full[i] : n);
    checkShape("expand", target);
    full.forEach((n, i) => {
      if (n !== target[i] && n !== 1) {
        throw new ShapeError("expand", {
          shapes: [from, list],
          axis: i,
          reason: `axis ${i} has size ${n}, only axes of size 1 can become ${target[i]}`,
        });
      }
    });
    return this.wrapView(expand(reshape(this.uop, full), target));
  }

  /** Axis i of the result is axis `order[i]`. @throws {ShapeError} if `order` is no permutation of the axes */
  permute(order: readonly number[], ...more: never[]): this {
    checkAlone("permute", order, more);
    const shape = this.shape;
    const list = checkIntegers("permute", "the order", order);
    const axes = list.map((a) => resolveAxis("permute", a, shape));
    if (axes.length !== shape.length || new Set(axes).size !== axes.length) {
      throw new ShapeError("permute", {
        shapes: [shape],
        reason: `[${list.join(", ")}] is no permutation of its ${shape.length} axes`,
      });
    }
    return this.wrapView(permute(this.uop, axes));
  }

  /** Swaps two axes. @throws {ShapeError} if one is outside the rank */
  transpose(dim0 = 1, dim1 = 0): this {
    const shape = this.shape;
    const a = resolveAxis("transpose", dim0, shape), b = resolveAxis("transpose", dim1, shape);
    if (a === b) return this.wrapView(this.uop);
    const order = rangeOf(shape.length);
    order[a] = b;
    order[b] = a;
    return this.wrapView(permute(this.uop, order));
  }

  /** The first two axes swapped; a tensor of fewer axes is itself. */
  get T(): this {
    return this.ndim < 2 ? this : this.transpose();
  }

  /** Reverses axes. @throws {ShapeError} for an axis outside the rank or given twice */
  flip(axis: Axes, ...more: never[]): this {
    checkAlone("flip", axis, more);
    if (axis === undefined || axis === null) {
      throw new ArgumentError("flip", {
        reason: `the axes must be a number or a list of numbers, not ${describe(axis)}`,
      });
    }
    return this.wrapView(flip(this.uop, resolveAxes("flip", axis, this.shape)));
  }

  /**
   * Keeps [start, stop) of each axis; null keeps all of it. Bound variables may stand for numbers: the axis then has a
   * symbolic size, for which one kernel serves all values.
   *
   * @throws {ShapeError} outside the axis, also for a variable that may be
   */
  shrink(arg: readonly (readonly [Dim, Dim] | null)[]): this {
    const shape = this.shape;
    if (hasVariable(arg) && arg.length === shape.length) {
      return this.wrapView(
        dimPairs("shrink", arg).reduce(
          (u, p, axis) => p === null ? u : shrinkAxis("shrink", u, axis, p[0], p[1]),
          this.uop,
        ),
      );
    }
    if (!Array.isArray(arg) || arg.length !== shape.length) {
      throw new ShapeError("shrink", { shapes: [shape], reason: `it needs one [start, stop] or null for each axis` });
    }
    const pairs = Array.from(arg as readonly (Pair | null)[], (p, i): Pair => {
      if (p === null) return [0, shape[i]];
      const [start, stop] = checkIntegers("shrink", "a pair", p);
      if (p.length !== 2 || start < 0 || stop > shape[i] || start > stop) {
        throw new ShapeError("shrink", {
          shapes: [shape],
          axis: i,
          reason: `[${p.join(", ")}] does not lie within axis ${i} of size ${shape[i]}`,
        });
      }
      return [start, stop];
    });
    return this.wrapView(shrink(this.uop, pairs));
  }

  /** Keeps the first n of each axis; null keeps all. @throws {ShapeError} beyond the size */
  shrinkTo(shape: readonly (Dim | null)[]): this {
    const from = this.shape;
    if (!Array.isArray(shape) || shape.length !== from.length) {
      throw new ShapeError("shrinkTo", { shapes: [from], reason: "it needs one size or null for each axis" });
    }
    return this.shrink(Array.from(shape, (n) => n === null ? null : [0, n] as const));
  }

  /**
   * Pads. `padding` is a flat list in PyTorch's order (last axis first, before and after) or one pair (or null) an
   * axis. Negative amounts cut: zeros are added to what is left, the other modes add what was there before the cut.
   * Beside amounts that are bound variables nothing is cut, and the mode is "constant".
   *
   * @param options `mode` "constant" (default) with `value` (0), "reflect", "replicate" or "circular"
   * @throws {ShapeError} for too many amounts, or a mode that would reach beyond the tensor
   */
  pad(padding: readonly Dim[] | readonly (readonly [Dim, Dim] | null)[], options: PadOptions = {}): this {
    checkOptions("pad", options, ["mode", "value"]);
    const mode = options.mode ?? "constant";
    if (hasVariable(padding)) {
      if (mode !== "constant") {
        throw new ArgumentError("pad", {
          reason: `mode ${describe(mode)} takes numbers; amounts that are variables go with mode "constant"`,
        });
      }
      const amounts = padDims(padding, this.shape);
      return this.padBy(
        checkFill("pad", options.value),
        (x) => amounts.reduce((u, p, axis) => p === null ? u : padAxisBy("pad", u, axis, p[0], p[1]), x),
      );
    }
    const pairs = padPairs(padding, this.shape), value = checkFill("pad", options.value);
    const grow = pairs.map(([a, b]): Pair => [Math.max(a, 0), Math.max(b, 0)]);
    const copied = (u: UOp): this => this.wrapCopy(u, "pad", "assign what is inside to that tensor");
    if (mode === "constant") return copied(padConstant(this.cut(this.uop, pairs, true), grow, value));
    checkChoice("pad", "mode", mode, ["constant", "reflect", "replicate", "circular"]);
    // what is added comes from all that there was; a circle closes over what is left
    const first = mode === "circular", from = first ? this.cut(this.uop, pairs, true) : this.uop;
    const grown = grow.reduce((x, [before, after], axis) => padAxis(x, axis, before, after, mode), from);
    return copied(first ? grown : this.cut(grown, pairs, false));
  }

  /** `x` without what negative amounts cut off, before (`first`) or after the positive ones are added. */
  private cut(x: UOp, pairs: readonly Pair[], first: boolean): UOp {
    if (pairs.every(([a, b]) => a >= 0 && b >= 0)) return x;
    const sizes = shapeOf(x), { shape } = this;
    return shrink(
      x,
      pairs.map(([a, b], axis): Pair => {
        const pair = [Math.max(-a, 0), sizes[axis] - Math.max(-b, 0)] as const;
        if (pair[0] <= pair[1]) return pair;
        const lost = [a, b].filter((n) => n < 0).map((n) => -n).join(" and ");
        throw new ShapeError("pad", {
          shapes: [shape],
          axis,
          reason: `axis ${axis} of size ${
            first ? shape[axis] : `${shape[axis]}, padded ${sizes[axis]},`
          } cannot lose ${lost}`,
        });
      }),
    );
  }

  /** What `grow`, which pads with zeros, makes of this, with `value` where it added something. */
  private padBy(value: number | boolean, grow: (x: UOp) => UOp): this {
    const x = this.uop, wide = grow(x), fill = scalarConst(value, x.dtype);
    if (fill.arg === 0 && !Object.is(fill.arg, -0)) return this.wrap(wide);
    return this.wrap(grow(withExtents(trueOf(shapeOf(x)), extentsOf(x))).where(wide, fill));
  }

  /**
   * Pads at the end of each axis up to `shape`; null keeps the axis. Sizes may be variables; a symbolic axis gets a
   * constant size by a number.
   *
   * @throws {ShapeError} if an axis is larger
   */
  padTo(shape: readonly (Dim | null)[], options: { readonly value?: number | boolean } = {}): this {
    checkOptions("padTo", options, ["value"]);
    const from = this.shape;
    if (!Array.isArray(shape) || shape.length !== from.length) {
      throw new ShapeError("padTo", { shapes: [from], reason: "it needs one size or null for each axis" });
    }
    if (hasVariable(shape) || extentsOf(this.uop) !== null) {
      return this.padBy(
        checkFill("padTo", options.value),
        (x) => shape.reduce((u: UOp, to, axis) => to === null ? u : padAxisTo("padTo", u, axis, to), x),
      );
    }
    const pairs = from.map((n, axis): Pair => {
      const to = shape[axis] === null ? n : shape[axis] as number;
      checkInteger("padTo", `size of axis ${axis}`, to, 0);
      if (to < n) {
        throw new ShapeError("padTo", { shapes: [from, shape], axis, reason: `axis ${axis} is larger already` });
      }
      return [0, to - n];
    });
    return this.wrap(padConstant(this.uop, pairs, checkFill("padTo", options.value)));
  }

  /** Drops axes of size 1: all, or those of `dim` whose size is 1. @throws {ShapeError} for an axis outside the rank */
  squeeze(dim?: Axes): this {
    const shape = this.shape, axes = resolveAxes("squeeze", dim, shape);
    return this.wrapView(reshape(this.uop, shape.filter((n, i) => n !== 1 || !axes.includes(i))));
  }

  /** Inserts an axis of size 1 before `dim`. @throws {ShapeError} outside [-ndim-1, ndim] */
  unsqueeze(dim: number): this {
    const shape = this.shape;
    const axis = resolveAxis("unsqueeze", dim, shape, shape.length + 1);
    return this.wrapView(reshape(this.uop, shape.toSpliced(axis, 0, 1)));
  }

  /** Merges axes `startDim` to `endDim`, both included, into one. */
  flatten(startDim = 0, endDim = -1): this {
    const shape = this.shape;
    const a = resolveAxis("flatten", startDim, shape), b = resolveAxis("flatten", endDim, shape);
    if (a > b) {
      throw new ShapeError("flatten", { shapes: [shape], axis: a, reason: `axis ${a} comes after axis ${b}` });
    }
    const merged = [...shape.slice(0, a), prod(shape.slice(a, b + 1)), ...shape.slice(b + 1)];
    return this.wrapView(reshapeSized(this.uop, merged));
  }

  /** Splits one axis into several; one size may be -1. @throws {ShapeError} if they do not multiply to its size */
  unflatten(dim: number, sizes: readonly number[]): this {
    const shape = this.shape;
    const axis = resolveAxis("unflatten", dim, shape);
    const list = checkIntegers("unflatten", "the sizes", sizes);
    const known = prod(list.filter((n) => n !== -1));
    const open = list.filter((n) => n === -1).length;
    if (open > 1 || (open === 1 ? known === 0 || shape[axis] % known !== 0 : known !== shape[axis])) {
      throw new ShapeError("unflatten", {
        shapes: [shape],
        axis,
        reason: `axis ${axis} of size ${shape[axis]} does not split into [${list.join(", ")}]`,
      });
    }
    const found = list.map((n) => n === -1 ? shape[axis] / known : n);
    const to = [...shape.slice(0, axis), ...found, ...shape.slice(axis + 1)];
    return sizedAs("unflatten", this.uop, [axis], () => this.reshape(to));
  }

  /** The size of each axis now: as `shape`, but of symbolic axes what their variables are bound to. */
  get boundShape(): number[] {
    return sizesNow(this.uop);
  }

  /**
   * The size of each axis, of symbolic ones the bound variable (or expression) that it is: what may be passed as a shape,
   * where `shape` has the largest value.
   */
  get symbolicShape(): (number | this)[] {
    const extents = extentsOf(this.uop);
    return this.shape.map((n, i) => extents?.[i] === undefined ? n : this.wrap(extents[i]!));
  }

  /** The size of axis `dim`, or the shape. */
  size(): number[];
  /** The size of one axis, or of all. @throws {IndexError} if `dim` is outside [-ndim, ndim) */
  size(dim: number): number;
  size(dim?: number): number | number[] {
    return dim === undefined ? this.shape : this.shape[resolveAxis("size", dim, this.shape)];
  }

  /**
   * Windows of `size`, every `step`, along `dim`; the window is a new last axis, `dim` counts the windows.
   *
   * @throws {ShapeError} if `size` is beyond the axis
   */
  unfold(dim: number, size: number, step: number): this {
    checkInteger("unfold", "size", size, 0);
    checkInteger("unfold", "step", step, 1);
    const shape = this.shape;
    const axis = resolveAxis("unfold", dim, shape);
    if (shape.length === 0 && size <= 1) return this.reshape([1]).shrink([[0, size]]); // a scalar is a window of one
    constantAxis("unfold", this.uop, axis);
    if (size > (shape[axis] ?? 1)) {
      throw new ShapeError("unfold", {
        shapes: [shape],
        axis,
        reason: `windows of ${size} do not fit axis ${axis} of size ${shape[axis] ?? 1}`,
      });
    }
    const last = shape.length - 1;
    const order = [...rangeOf(shape.length).filter((a) => a !== axis), axis];
    const windows = unfoldLast(permute(this.uop, order), size, step);
    const back = rangeOf(last).toSpliced(axis, 0, last);
    return this.wrapView(permute(windows, [...back, last + 1]));
  }

  /** The diagonal of axes `dim1` and `dim2`, appended as the last axis. @throws {ShapeError} for equal axes */
  diagonal(options: { readonly offset?: number; readonly dim1?: number; readonly dim2?: number } = {}): this {
    checkOptions("diagonal", options, ["offset", "dim1", "dim2"]);
    const shape = this.shape;
    const offset = checkInteger("diagonal", "offset", options.offset ?? 0);
    const a = resolveAxis("diagonal", options.dim1 ?? 0, shape), b = resolveAxis("diagonal", options.dim2 ?? 1, shape);
    if (a === b || shape.length < 2) {
      throw new ShapeError("diagonal", { shapes: [shape], axis: a, reason: "it needs two different axes" });
    }
    const own = extentOf(this.uop, a);
    if (offset === 0 && extentsOf(this.uop)?.[a] !== undefined && sameExtent(own, extentOf(this.uop, b))) {
      return this.wrapView(squareDiagonal(this.uop, a, b));
    }
    for (const axis of [a, b]) constantAxis("diagonal", this.uop, axis);
    return this.wrapView(diagonalNode(this.uop, a, b, offset));
  }

  /**
   * Rearranges by a formula as einops': `"b (h w) c -> b h w c"`, with `...`, `1`, `()` and named sizes.
   *
   * @throws {ArgumentError} for a malformed formula, {ShapeError} if it does not fit the shape
   */
  rearrange(formula: string, sizes: Readonly<Record<string, number>> = {}): this {
    const plan = parseRearrange(formula, this.shape, sizes);
    const turn = (): UOp => reshapeSized(permute(reshape(this.uop, plan.split), plan.order), plan.joined);
    return this.wrapView(sizedAs("rearrange", this.uop, rangeOf(this.ndim), turn));
  }
}
