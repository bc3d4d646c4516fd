/**
 * Bytes of tensors as numbers: values one by one, and what can be said of all of them in one pass.
 *
 * @module
 */
import type { DType } from "../../dtype/dtype.ts";
import { numbersOf } from "../../dtype/numbers.ts";

/** A list of numbers that is read one by one. */
export type Numbers = ArrayLike<number | bigint>;

/** What is said of many numbers. */
export interface Statistics {
  readonly count: number;
  /** Of the finite ones; undefined where there are none. */
  readonly min: number | undefined;
  readonly max: number | undefined;
  readonly mean: number | undefined;
  readonly zeros: number;
  /** How many are NaN, how many infinite, and where the first of either is. */
  readonly nans: number;
  readonly infinities: number;
  readonly firstBad: number | undefined;
}

/** One pass over all values. */
export function statisticsOf(bytes: Uint8Array, dtype: DType): Statistics {
  const x = numbersOf(bytes, dtype);
  let min = Infinity, max = -Infinity, sum = 0, zeros = 0, nans = 0, infinities = 0, finite = 0, firstBad = -1;
  for (let i = 0; i < x.length; i++) {
    const v = Number(x[i]);
    if (v - v !== 0) {
      if (v !== v) nans++;
      else infinities++;
      if (firstBad < 0) firstBad = i;
      continue;
    }
    finite++;
    if (v === 0) zeros++;
    if (v < min) min = v;
    if (v > max) max = v;
    sum += v;
  }
  const known = finite > 0;
  return {
    count: x.length,
    min: known ? min : undefined,
    max: known ? max : undefined,
    mean: known ? sum / finite : undefined,
    zeros,
    nans,
    infinities,
    firstBad: firstBad < 0 ? undefined : firstBad,
  };
}

/** A number for people: four digits. */
export function numberText(x: number): string {
  if (Number.isInteger(x) && Math.abs(x) < 1e6) return String(x);
  return Number.isFinite(x) ? String(Number(x.toPrecision(4))) : String(x);
}

/** "mean 0.41, 0 to 3.2, 48 % zeros"; what is not there is not told. */
export function statisticsText(s: Statistics): string {
  if (s.count === 0) return "no elements";
  const parts: string[] = [];
  if (s.mean !== undefined) {
    if (s.min === s.max) parts.push(s.count === 1 ? numberText(s.min!) : `all ${numberText(s.min!)}`);
    else parts.push(`${numberText(s.min!)} to ${numberText(s.max!)}, mean ${numberText(s.mean)}`);
  }
  const percent = Math.round(100 * s.zeros / s.count);
  if (percent > 0 && s.min !== s.max) parts.push(`${percent} % zeros`);
  if (s.nans > 0) parts.push(`${s.nans} NaN`);
  if (s.infinities > 0) parts.push(`${s.infinities} infinite`);
  return parts.join(", ");
}

/** The position of an element in a shape. */
export function positionText(at: number, shape: readonly number[]): string {
  const out: number[] = [];
  for (let i = shape.length - 1; i >= 0; i--) {
    out.unshift(at % shape[i]);
    at = Math.floor(at / shape[i]);
  }
  return `[${out.join(", ")}]`;
}
