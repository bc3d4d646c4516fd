/**
 * How far a result may be from the truth, by class of operation and dtype. The truth is evaluated in double precision and
 * rounded once; ours rounds after every operation (small floats: in float32, then once).
 */
import { type DType, dtypeEpsilon } from "../src/dtype/dtype.ts";

/** A class of operations. Reasons are at {@linkcode toleranceOf}. */
export type ToleranceClass = "exact" | "arith" | "transcendental" | "accumulate" | "solve" | "minimal";

/** |got - want| <= absolute + relative |want|. */
export interface Tolerance {
  readonly relative: number;
  readonly absolute: number;
}

/** Multiples of the dtype's epsilon: relative to the result, and absolute for operands around 1. */
const MULTIPLES: Record<ToleranceClass, readonly [relative: number, absolute: number]> = {
  // selection, movement, integers, comparisons: the same bits
  exact: [0, 0],
  // up to four correctly rounded operations, each within half an epsilon; differences cancel against operands around 1
  arith: [3, 1],
  // decomposed functions are within two to four ulp; softmax and activations chain several, and cancel near zeros
  transcendental: [16, 8],
  // sums of up to some hundred products in any order: errors grow with the root of the count, relative to the operands
  accumulate: [16, 16],
  // chains of products and quotients over whole matrices, of condition numbers up to about ten
  solve: [64, 64],
  // Winograd's transforms sum terms that are up to 19 and 10 times the operands an axis, twice each, and cancel again
  minimal: [64, 256],
};

/**
 * The tolerance of a class for results of `dtype`, about four times what golden/report.ts measured at most, and two where
 * it measured little. Gradients were as near as results; where a result is exact they may be an epsilon off.
 */
export function toleranceOf(kind: ToleranceClass, dtype: DType, gradient = false): Tolerance {
  if (!dtype.isFloat) return { relative: 0, absolute: 0 };
  const [relative, absolute] = gradient ? MULTIPLES[kind].map((m) => m + 1) : MULTIPLES[kind];
  // small floats are computed in float32, so only the last rounding counts; a gradient may have rounded a result before
  const most = gradient ? 2 : 1, small = dtype.bits < 32;
  const eps = dtypeEpsilon(dtype), scale = small ? Math.min(1, most / Math.max(relative, 1)) : 1;
  return { relative: relative * scale * eps, absolute: absolute * scale * eps };
}

/** Whether `got` is within tolerance of `want`. NaN equals NaN; infinities only themselves. */
export function isWithin(got: number, want: number, t: Tolerance): boolean {
  if (Number.isNaN(want)) return Number.isNaN(got);
  if (!Number.isFinite(want) || !Number.isFinite(got)) return got === want;
  return Math.abs(got - want) <= t.absolute + t.relative * Math.abs(want);
}

/** Why two arrays differ ("element 3 is 1.5, want 2 ± 1e-6"), or undefined. */
export function difference(got: ArrayLike<number>, want: ArrayLike<number>, t: Tolerance): string | undefined {
  if (got.length !== want.length) return `${got.length} elements, want ${want.length}`;
  for (let i = 0; i < want.length; i++) {
    if (isWithin(got[i], want[i], t)) continue;
    return `element ${i} is ${got[i]}, want ${want[i]} ± ${
      (t.absolute + t.relative * Math.abs(want[i])).toPrecision(2)
    }`;
  }
  return undefined;
}
