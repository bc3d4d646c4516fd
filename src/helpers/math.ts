/** Small integer arithmetic used everywhere. @module */

/** Product of a list; 1 when empty. */
export function prod(xs: readonly number[]): number {
  let p = 1;
  for (let i = 0; i < xs.length; i++) p *= xs[i];
  return p;
}

/** Ceiling of a / b for integers, b > 0. */
export function ceilDiv(a: number, b: number): number {
  return Math.ceil(a / b);
}

/** `x` rounded up to a multiple of `m`. */
export function roundUp(x: number, m: number): number {
  return Math.ceil(x / m) * m;
}

/** Greatest common divisor of |a| and |b|. */
export function gcd(a: number, b: number): number {
  a = Math.abs(a);
  b = Math.abs(b);
  while (b) [a, b] = [b, a % b];
  return a;
}

/** Floor division, as Python's `//`. */
export function floorDiv(a: number, b: number): number {
  return Math.floor(a / b);
}

/** Floor modulo, as Python's `%`: the sign of the divisor. */
export function floorMod(a: number, b: number): number {
  const r = a % b;
  return r !== 0 && (r < 0) !== (b < 0) ? r + b : r + 0;
}

/** Row-major strides, in elements. */
export function stridesOf(shape: readonly number[]): number[] {
  const strides = new Array<number>(shape.length);
  for (let i = shape.length - 1, s = 1; i >= 0; i--) {
    strides[i] = s;
    s *= shape[i];
  }
  return strides;
}

/** True when both arrays hold the same values in the same order. */
export function sameArray<T>(a: readonly T[], b: readonly T[]): boolean {
  if (a === b) return true;
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

/** 0, 1, ..., n - 1. */
export function rangeOf(n: number): number[] {
  return Array.from({ length: n }, (_, i) => i);
}
