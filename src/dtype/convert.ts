/**
 * Values of one dtype in another: bits of float16, bfloat16 and fp8 (round to nearest even), and the value that a number
 * takes when it is stored in a dtype. Pure functions of numbers.
 *
 * @module
 */
import { type DType, dtypes, smallFloatOf } from "./dtype.ts";
import { f16Bits, f16Round } from "./float16.ts";

const f32 = new Float32Array(1);
const u32 = new Uint32Array(f32.buffer);
const f64 = new Float64Array(1), i64 = new BigInt64Array(f64.buffer);

/**
 * The 32 bits of `x` rounded to float32. NaN has one pattern: a NaN of JavaScript has the sign that the machine gave it, of
 * which the language says nothing, and which changes when the engine compiles the code that computes it.
 */
export function f32Bits(x: number): number {
  if (x !== x) return 0x7fc00000;
  f32[0] = x;
  return u32[0];
}

/** The 64 bits of `x`; NaN has one pattern, as in {@linkcode f32Bits}. */
export function f64Bits(x: number): bigint {
  if (x !== x) return 0x7ff8n << 48n;
  f64[0] = x;
  return i64[0];
}

/** The float32 with these bits. */
export function f32FromBits(bits: number): number {
  u32[0] = bits;
  return f32[0];
}

/**
 * The bits of `x` as float32, rounded to odd: cut, with the last bit set if anything was cut off. What is then rounded to
 * fewer bits is rounded as if it were `x` itself (Boldo and Melquiond, IEEE Trans. Computers 57, 2008).
 */
function oddBits(x: number): number {
  const bits = f32Bits(x);
  if (f32[0] === x || x !== x) return bits;
  if (Math.abs(f32[0]) > Math.abs(x)) u32[0]--;
  return u32[0] | 1;
}

/** `x` as a number, where that is rounded to odd if it must be: for a rounding to a float of fewer bits. */
export function oddNumber(x: bigint): number {
  const n = Number(x);
  if (BigInt(n) === x) return n;
  f64[0] = n;
  if (x < 0n ? BigInt(n) < x : BigInt(n) > x) i64[0]--; // toward zero
  i64[0] |= 1n;
  return f64[0];
}

/** The 16 bits of `x` as bfloat16, nearest even; NaN stays quiet. */
export function f32ToBf16Bits(x: number): number {
  const b = oddBits(x);
  if ((b & 0x7fffffff) > 0x7f800000) return (b >>> 16) | 0x40;
  return ((b + 0x7fff + ((b >>> 16) & 1)) >>> 16) & 0xffff;
}

/** The number that 16 bits mean as bfloat16. */
export function bf16BitsToF32(bits: number): number {
  u32[0] = bits << 16;
  return f32[0];
}

/** `x` rounded to bfloat16. */
export function roundBf16(x: number): number {
  return bf16BitsToF32(f32ToBf16Bits(x));
}

/**
 * The 8 bits of `x` as fp8, nearest even. What is too large becomes the largest value; infinity
 * stays infinite where the dtype has infinities (fp8e5m2), and is the largest value elsewhere (fp8e4m3).
 */
export function f32ToFp8Bits(x: number, d: DType): number {
  const v = f32FromBits(oddBits(x)), a = Math.abs(v), sign = v < 0 || Object.is(v, -0) ? 0x80 : 0;
  const { mantissa, bias, hasInfinity } = smallFloatOf(d)!;
  if (v !== v) return 0x7f;
  const infinity = 0x80 - (1 << mantissa), most = hasInfinity ? infinity - 1 : 0x7e;
  if (a === Infinity) return sign | (hasInfinity ? infinity : most);
  const exponent = Math.max(Math.floor(Math.log2(a)), 1 - bias), step = 2 ** (exponent - mantissa);
  const units = a / step, down = Math.floor(units), rest = units - down;
  const n = rest > 0.5 || (rest === 0.5 && down % 2 !== 0) ? down + 1 : down;
  // Subnormals have exponent bits 0; a mantissa that overflows counts the exponent up.
  const bits = ((exponent + bias - 1) << mantissa) + n;
  return sign | Math.min(bits, most);
}

/** The number that 8 bits mean as fp8. */
export function fp8BitsToF32(bits: number, d: DType): number {
  const { mantissa, bias, hasInfinity } = smallFloatOf(d)!;
  const sign = bits & 0x80 ? -1 : 1, exponent = (bits & 0x7f) >> mantissa, fraction = bits & ((1 << mantissa) - 1);
  if (hasInfinity && exponent === 0x7f >> mantissa) return fraction === 0 ? sign * Infinity : NaN;
  if (!hasInfinity && (bits & 0x7f) === 0x7f) return NaN;
  const unit = 1 << mantissa;
  return exponent === 0
    ? sign * fraction * 2 ** (1 - bias - mantissa)
    : sign * (unit + fraction) * 2 ** (exponent - bias - mantissa);
}

/** `x` rounded to the float dtype `d`, or that of the parts of a complex one, once. */
export function roundFloat(d: DType, x: number | bigint): number {
  if (d.isComplex) return roundFloat(d.real, x);
  if (typeof x === "bigint") x = d.bits === 64 ? Number(x) : oddNumber(x);
  if (d.bits === 32) return Math.fround(x);
  if (d.bits === 64) return x;
  if (d.bits === 8) return fp8BitsToF32(f32ToFp8Bits(x, d), d);
  return d.scalar.name === "bfloat16" ? roundBf16(x) : f16Round(x);
}

/** Writes `x` into memory as a value of `d`, little-endian. Integers wrap. */
export function writeScalar(view: DataView, at: number, d: DType, x: number | bigint): void {
  if (d === dtypes.float32) view.setUint32(at, f32Bits(Number(x)), true);
  else if (d === dtypes.float64) view.setBigInt64(at, f64Bits(Number(x)), true);
  else if (d === dtypes.float16) view.setUint16(at, f16Bits(Number(x)), true);
  else if (d === dtypes.bfloat16) view.setUint16(at, f32ToBf16Bits(Number(x)), true);
  else if (d.isFloat) view.setUint8(at, f32ToFp8Bits(Number(x), d));
  else if (d.bits === 64) view.setBigInt64(at, BigInt(x), true);
  else if (d.bits === 32) view.setInt32(at, Number(x), true);
  else if (d.bits === 16) view.setInt16(at, Number(x), true);
  else view.setInt8(at, Number(x));
}

/**
 * The value that `x` has once stored in `d`: floats are rounded, integers cut toward zero and wrapped, bool is 1 unless
 * `x` is 0. 64-bit integers come back as the nearest number.
 */
export function truncateTo(d: DType, x: number): number {
  switch (d.kind) {
    case "float":
      return roundFloat(d, x);
    case "bool":
      return x === 0 ? 0 : 1;
    case "int":
      if (d.bits === 32) return x | 0;
      if (d.bits === 8) return (x << 24) >> 24;
      if (d.bits === 16) return (x << 16) >> 16;
      return wrap64(x, true);
    case "uint":
      if (d.bits === 32) return x >>> 0;
      if (d.bits === 8) return x & 0xff;
      if (d.bits === 16) return x & 0xffff;
      return wrap64(x, false);
    default:
      return x;
  }
}

function wrap64(x: number, signed: boolean): number {
  const t = Math.trunc(x) + 0;
  if (Number.isSafeInteger(t) && (signed || t >= 0)) return t;
  if (!Number.isFinite(t)) return 0;
  const b = BigInt(t);
  return Number(signed ? BigInt.asIntN(64, b) : BigInt.asUintN(64, b));
}
