/**
 * Axes and shapes as users write them, checked: negative axes count from the end, one number stands for a list of one.
 * Everything here throws at the call, naming the action, the shape and the axis.
 *
 * @module
 */
import { ArgumentError, ShapeError } from "../../helpers/errors.ts";
import { rangeOf } from "../../helpers/math.ts";
import { CALLED, describe, describeList, isPlain } from "../../helpers/options.ts";

/** One axis or a list of them. */
export type Axes = number | readonly number[];

/** The axis in [0, rank) that `axis` names. @throws {ShapeError} outside [-rank, rank) */
export function resolveAxis(
  action: string,
  axis: unknown,
  shape: readonly number[],
  rank: number = shape.length,
): number {
  if (typeof axis !== "number" || !Number.isInteger(axis)) {
    const help = isPlain(axis) ? `; options come behind it: (-1, { ${Object.keys(axis).join(", ")} })` : "";
    throw new ArgumentError(action, { reason: `an axis must be an integer, not ${describe(axis)}${help}` });
  }
  // A scalar takes 0 and -1, as in PyTorch.
  const n = Math.max(rank, 1);
  if (axis < -n || axis >= n) {
    throw new ShapeError(action, {
      shapes: [shape],
      axis,
      reason: `axis ${axis} is outside [${-n}, ${n})`,
    });
  }
  return axis < 0 ? axis + n : axis;
}

/** The axes named, ascending; all of them for undefined. @throws {ShapeError} outside the rank, or twice the same */
export function resolveAxes(action: string, axes: Axes | undefined | null, shape: readonly number[]): number[] {
  if (axes === undefined || axes === null) return rangeOf(shape.length);
  const list = typeof axes === "number" ? [axes] : axes;
  if (!Array.isArray(list)) {
    throw new ArgumentError(action, {
      reason: `axes must be a number or a list of numbers, not ${describe(axes)}${
        isPlain(axes) ? `; options come behind them: ${action}(undefined, { ... })` : ""
      }`,
    });
  }
  const out = Array.from(list, (a) => resolveAxis(action, a, shape)).sort((a, b) => a - b);
  for (let i = 1; i < out.length; i++) {
    if (out[i] === out[i - 1]) {
      throw new ShapeError(action, { shapes: [shape], axis: out[i], reason: `axis ${out[i]} is given twice` });
    }
  }
  return shape.length === 0 ? [] : out;
}

/** The same list, if all entries are integers of at least 0. @throws {ShapeError} or {ArgumentError} */
export function checkShape(action: string, shape: unknown): number[] {
  const list = typeof shape === "number" ? [shape] : shape;
  if (!Array.isArray(list)) {
    throw new ArgumentError(action, { reason: `a shape must be a list of sizes, not ${describe(shape)}` });
  }
  for (let i = 0; i < list.length; i++) { // holes of a list, too
    const n: unknown = list[i];
    if (!Number.isSafeInteger(n) || (n as number) < 0) {
      const isVariable = typeof n === "object" && n !== null && CALLED in n && n[CALLED] !== undefined;
      throw new ShapeError(action, {
        shapes: [list.map(describe)],
        axis: i,
        reason: isVariable
          ? "its sizes are numbers; give the number itself, for each of which it is compiled"
          : `size ${describe(n)} of axis ${i} is no size`,
      });
    }
  }
  return [...list];
}

/** The list given, of integers. @throws {ArgumentError} */
export function checkIntegers(action: string, name: string, list: unknown): number[] {
  if (!Array.isArray(list) || !Array.from(list).every((n) => Number.isSafeInteger(n))) {
    throw new ArgumentError(action, { reason: `${name} must be a list of integers, not ${describeList(list)}` });
  }
  return [...list];
}

/** Amounts to pad with, as a pair an axis: a flat list has the last axis first. @throws {ShapeError} {ArgumentError} */
export function padPairs(padding: unknown, shape: readonly number[]): (readonly [number, number])[] {
  if (!Array.isArray(padding)) {
    throw new ArgumentError("pad", { reason: `padding must be a list, not ${describe(padding)}` });
  }
  if (padding.some((p) => p === null || Array.isArray(p))) {
    if (padding.length !== shape.length) {
      throw new ShapeError("pad", { shapes: [shape], reason: `${padding.length} pairs for ${shape.length} axes` });
    }
    return padding.map((p): readonly [number, number] => {
      if (p === null) return [0, 0];
      const pair = checkIntegers("pad", "a pair", p);
      if (pair.length !== 2) throw new ArgumentError("pad", { reason: `[${pair.join(", ")}] is no pair` });
      return [pair[0], pair[1]];
    });
  }
  const flat = checkIntegers("pad", "padding", padding);
  if (flat.length % 2 !== 0 || flat.length > 2 * shape.length) {
    throw new ShapeError("pad", {
      shapes: [shape],
      reason: flat.length % 2 !== 0
        ? `[${flat.join(", ")}] has an odd length, it needs a before and an after an axis`
        : `${flat.length / 2} pairs for ${shape.length} axes`,
    });
  }
  const pairs = shape.map((): readonly [number, number] => [0, 0]);
  for (let i = 0; i < flat.length; i += 2) pairs[shape.length - 1 - i / 2] = [flat[i], flat[i + 1]];
  return pairs;
}
