/**
 * Sorting along an axis: values with their positions, positions alone, the largest or smallest few. The order is found
 * by sorted_positions.ts.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { DTypeError, ShapeError } from "../../helpers/errors.ts";
import { prod } from "../../helpers/math.ts";
import { checkBoolean, checkInteger, checkOptions } from "../../helpers/options.ts";
import { broadcastTo } from "../../uop/core/build_movement.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { constant, type UOp } from "../../uop/core/uop.ts";
import { extentsOf, withExtents } from "../../uop/graph/extent.ts";
import { GradientArg, withGradient } from "../../uop/graph/given_gradient.ts";
import { resolveAxis } from "../handle/axes.ts";
import { isTensor, TensorBase } from "../handle/base.ts";
import { type Dim, shrinkAxis } from "../handle/dims.ts";
import { backTo, lastAxis } from "../nodes/movement_nodes.ts";
import { sorts } from "../nodes/segments.ts";
import { gatherNode } from "../nodes/select.ts";
import { sortedPositions } from "../nodes/sorted_positions.ts";

/** Options of {@linkcode SortTensor.sort} and {@linkcode SortTensor.argsort}. */
export interface SortOptions {
  /** Whether the largest come first. Default false. */
  readonly descending?: boolean;
  /** Whether equal elements keep their order: they always do. */
  readonly stable?: boolean;
}
function checkStable(action: string, options: SortOptions): void {
  const { stable = true } = checkOptions(action, options, ["descending", "stable"]);
  checkBoolean(action, "stable", stable);
}
/** Options of {@linkcode SortTensor.topk}. */
export interface TopkOptions {
  /** The largest (default) or the smallest. */
  readonly largest?: boolean;
  /** In order (default). Unordered results are not offered. */
  readonly sorted?: boolean;
}

/** The gradient of elements in another order along `axis`: those of the order back, which sorting the positions tells. */
function toPlaces(axis: number): GradientArg {
  return new GradientArg((g, [, at]) => {
    const back = backTo(sortedPositions(lastAxis(at, axis), { size: shapeOf(at)[axis] }), axis);
    return [ordered(g, axis, back), undefined];
  });
}
const TO_PLACES: GradientArg[] = [];

/** `x` in the order `at`, each position of `axis` once. */
function ordered(x: UOp, axis: number, at: UOp): UOp {
  const found = gatherNode(x, axis, at), shape = shapeOf(x), n = shape[axis];
  if (!x.dtype.isFloat || extentsOf(x) !== null || !sorts(at, n, n, prod(shape) / n)) return found;
  return withGradient(found, [x, at], TO_PLACES[axis] ??= toPlaces(axis));
}

/** Tensors with sorting. */
export abstract class SortTensor extends TensorBase {
  /** The order along an axis, as positions: all of them, or as many as `most`. */
  private positions(action: string, dim: number, descending: boolean, most?: number): [UOp, number] {
    if (this.dtype.isComplex) {
      throw new DTypeError(`${action} dtype`, {
        dtypes: [this.dtype],
        reason: "complex numbers have no order; take abs(), real() or imag() first",
      });
    }
    const shape = this.shape, axis = resolveAxis(action, dim, shape);
    const n = shape[axis] ?? 1;
    if (n <= 1 || shape.includes(0)) {
      return [withExtents(broadcastTo(constant(0, dtypes.int32), shape), extentsOf(this.uop)), axis];
    }
    return [backTo(sortedPositions(lastAxis(this.uop, axis), { descending, most }), axis), axis];
  }

  /**
   * Sorted values along `dim`, and where each came from (int32). Always stable, whatever `stable` says; NaN counts as the
   * largest.
   *
   * @throws {ShapeError} if `dim` is outside the rank
   */
  sort(dim = -1, options: SortOptions = {}): [values: this, indices: this] {
    checkStable("sort", options);
    const [at, axis] = this.positions("sort", dim, options.descending ?? false);
    const moved = this.ndim > 0 && this.shape[axis] > 1;
    return [this.wrap(moved ? ordered(this.uop, axis, at) : this.uop), this.wrap(at)];
  }

  /** The positions that sort along `dim`, int32. @throws {ShapeError} */
  argsort(dim = -1, options: SortOptions = {}): this {
    checkStable("argsort", options);
    return this.wrap(this.positions("argsort", dim, options.descending ?? false)[0]);
  }

  /**
   * The `k` largest along `dim` in descending order (or smallest, ascending), and their positions (int32).
   *
   * `sorted: false` asks for no particular order; it gets this one. `k` may be a variable.
   *
   * @throws {ShapeError} if k is, or may be, beyond the axis
   */
  topk(k: Dim, dim = -1, options: TopkOptions = {}): [values: this, indices: this] {
    checkOptions("topk", options, ["largest", "sorted"]);
    const shape = this.shape, axis = resolveAxis("topk", dim, shape);
    if (!isTensor(k)) checkInteger("topk", "k", k, 0);
    if (typeof k === "number" && k > (shape[axis] ?? 1)) {
      throw new ShapeError("topk", { shapes: [shape], axis, reason: `axis ${axis} has no ${k} elements` });
    }
    // of a symbolic axis there may be fewer than k: shrinkAxis says so
    const most = typeof k === "number" && extentsOf(this.uop)?.[axis] === undefined ? k : undefined;
    const [at] = this.positions("topk", axis, options.largest ?? true, most);
    if (shape.length === 0) return [this.wrap(this.uop), this.wrap(at)];
    const cut = shrinkAxis("topk", at, axis, 0, k);
    return [this.wrap(gatherNode(this.uop, axis, cut)), this.wrap(cut)];
  }
}
