/** Integer hashes for interning and caches: 32-bit, by Math.imul; no strings, no BigInt. @module */

const f64 = new Float64Array(1);
const u32 = new Int32Array(f64.buffer);

/** Mixes `x` into the running hash `h`. */
export function mix(h: number, x: number): number {
  h = Math.imul(h ^ x, 0x9e3779b1);
  return (h ^ (h >>> 15)) | 0;
}

/** Hash of a number by its bits; −0 differs from 0, and every NaN is one value. */
export function hashNumber(x: number): number {
  if ((x | 0) === x && !(x === 0 && 1 / x < 0)) return mix(0x51ed270b, x);
  if (x !== x) return 0x6b43a9b5; // NaNs differ in bits
  f64[0] = x;
  return mix(mix(0x2545f491, u32[0]), u32[1]);
}

/** FNV-1a over UTF-16 code units. */
export function hashString(s: string): number {
  let h = 0x811c9dc5 | 0;
  for (let i = 0; i < s.length; i++) h = Math.imul(h ^ s.charCodeAt(i), 0x01000193);
  return h | 0;
}

/** 64 bits of a text. */
export function hash64(text: string): bigint {
  return BigInt.asUintN(64, BigInt(hashString(text)) << 32n | BigInt(hashString(`${text}.`) >>> 0));
}

/** Hash of a list of numbers, order and length included. */
export function hashNumbers(xs: readonly number[]): number {
  let h = mix(0x7f4a7c15, xs.length);
  for (let i = 0; i < xs.length; i++) h = mix(h, hashNumber(xs[i]));
  return h;
}
