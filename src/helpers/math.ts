/** Small integer arithmetic used everywhere. @module */

/** Product of a list; 1 when empty. */
export function prod(xs: readonly number[]): number {
  let p = 1;
  for (let i = 0; i < xs.length; i++) p *= xs[i];
  return p;
}

/** Sum of a list; 0 when empty. */
export function sum(xs: readonly number[]): number {
  let n = 0;
  for (let i = 0; i < xs.length; i++) n += xs[i];
  return n;
}

/** The elements of a list by what `keyOf` gives of them, keys in the order in which they come first. */
export function groupBy<K, T>(xs: readonly T[], keyOf: (x: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const x of xs) {
    const key = keyOf(x), group = groups.get(key);
    if (group === undefined) groups.set(key, [x]);
    else group.push(x);
  }
  return groups;
}

/** Ceiling of a / b for integers, b > 0. */
export function ceilDiv(a: number, b: number): number {
  return Math.ceil(a / b);
}

/** `x` rounded up to a multiple of `m`. */
export function roundUp(x: number, m: number): number {
  return Math.ceil(x / m) * m;
}

/** The largest divisor of `n` that is at most `limit`. */
export function divisorUpTo(n: number, limit: number): number {
  for (let k = Math.min(n, limit); k > 1; k--) if (n % k === 0) return k;
  return 1;
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

/**
 * The smallest groups of axes that two shapes of as many elements have in common: axes `i0` to `i1` of `from` hold as many as
 * axes `j0` to `j1` of `to`. Of shapes of no element, those behind the last 0 of the other may hold more.
 */
export function axisGroups(
  from: readonly number[],
  to: readonly number[],
): { readonly i0: number; readonly i1: number; readonly j0: number; readonly j1: number }[] {
  const groups = [];
  for (let i = 0, j = 0; i < from.length || j < to.length;) {
    const i0 = i, j0 = j;
    let a = i < from.length ? from[i++] : 1, b = j < to.length ? to[j++] : 1;
    while (a !== b && (i < from.length || j < to.length)) {
      const isShort = b === 0 || (a !== 0 && a < b);
      if (isShort ? i < from.length : j === to.length) a *= from[i++];
      else b *= to[j++];
    }
    groups.push({ i0, i1: i, j0, j1: j });
  }
  return groups;
}

/** 0, 1, ..., n - 1. */
export function rangeOf(n: number): number[] {
  return Array.from({ length: n }, (_, i) => i);
}

const bytes = new DataView(new ArrayBuffer(8));

/** A finite number in units of the smallest one, 2^-1074. */
function unitsOf(x: number): bigint {
  bytes.setFloat64(0, Math.abs(x));
  const bits = bytes.getBigUint64(0), exponent = bits >> 52n, fraction = bits & ((1n << 52n) - 1n);
  return exponent === 0n ? fraction : (fraction | (1n << 52n)) << (exponent - 1n);
}

/** a / b toward zero: the exact whole quotient, rounded once. NaN for infinite dividends and for b = 0. */
export function wholeQuotient(a: number, b: number): number {
  const rest = a % b;
  if (rest !== rest) return NaN;
  if (Math.abs(a) < Math.abs(b)) return b < 0 ? a * -0 : a * 0; // 0 with its sign
  const near = (a - rest) / b;
  if (Math.abs(near) < 2 ** 51) return Math.round(near);
  return Number(unitsOf(a) / unitsOf(b)) * ((a < 0) === (b < 0) ? 1 : -1);
}

/** Bytes one after the other. */
export function concatBytes(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}
