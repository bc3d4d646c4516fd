/**
 * float16 in numbers and in bits, without `Float16Array` and `Math.f16round`, which Node.js has from 24 on. Numbers are
 * rounded once, to nearest even.
 *
 * @module
 */
const f64 = new Float64Array(1), words = new Uint32Array(f64.buffer);
/** Adding and subtracting it leaves a float64 below 2^51 without its fraction, rounded to even. */
const WHOLE = 2 ** 52;

/** The 16 bits of `x` as float16: too large is infinity, NaN stays quiet. */
export function f16Bits(x: number): number {
  if (x !== x) return 0x7e00;
  f64[0] = x;
  const high = words[1], sign = (high >>> 16) & 0x8000, a = Math.abs(x);
  if (!(a < 65536)) return sign | 0x7c00;
  // subnormals, below 2^-14, have the step of the least normal numbers
  const exponent = Math.max(((high >>> 20) & 0x7ff) - 1023, -14);
  const steps = a * 2 ** (10 - exponent) + WHOLE - WHOLE;
  return sign | (((exponent + 14) << 10) + steps);
}

/** The number that 16 bits mean as float16. */
export function f16Value(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >>> 10) & 31, fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1024 + fraction) * 2 ** (exponent - 25);
}

/** `x` rounded to float16. */
export function f16Round(x: number): number {
  return f16Value(f16Bits(x));
}
