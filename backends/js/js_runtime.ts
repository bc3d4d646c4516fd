/**
 * What kernels of the JS device call, compiled or interpreted: bits of values, roundings, 64-bit division, and the checks
 * of each access.
 *
 * @module
 */
import { f32ToBf16Bits, oddNumber } from "../../src/dtype/convert.ts";
import { f16Bits, f16Round, f16Value } from "../../src/dtype/float16.ts";
import { SpecError } from "../../src/helpers/errors.ts";
import { wholeQuotient as quotientOf } from "../../src/helpers/math.ts";

export { matrixElements, multiply } from "./grid.ts";

/** Memory as a kernel sees it. */
export type Elements = Uint8Array | BigInt64Array;

/** A kernel; its locals are kept between launches, with what they hold. */
export type Kernel = (
  bufs: readonly Elements[],
  vars: readonly (number | bigint)[],
  begin: number,
  end: number,
  locals: readonly Elements[],
  count: { read: number; written: number; flops: number },
) => void;

const bitBytes = new ArrayBuffer(8);

/** The same eight bytes as every kind of number. */
export interface BitViews {
  readonly i8: Int8Array;
  readonly u8: Uint8Array;
  readonly i16: Int16Array;
  readonly u16: Uint16Array;
  readonly i32: Int32Array;
  readonly u32: Uint32Array;
  readonly i64: BigInt64Array;
  readonly u64: BigUint64Array;
  readonly f32: Float32Array;
  readonly f64: Float64Array;
}
export const bits: BitViews = {
  i8: new Int8Array(bitBytes),
  u8: new Uint8Array(bitBytes),
  i16: new Int16Array(bitBytes),
  u16: new Uint16Array(bitBytes),
  i32: new Int32Array(bitBytes),
  u32: new Uint32Array(bitBytes),
  i64: new BigInt64Array(bitBytes),
  u64: new BigUint64Array(bitBytes),
  f32: new Float32Array(bitBytes),
  f64: new Float64Array(bitBytes),
};
const f32 = new Float32Array(1), u32 = new Uint32Array(f32.buffer);

/** The bits of `x` rounded to bfloat16, ties to even. */
export const bf16bits: (x: number) => number = f32ToBf16Bits;
/** A 64-bit integer for a rounding to a float of fewer than 53 bits. */
export const oddBig: (x: bigint) => number = oddNumber;
export function bf16value(b: number): number {
  u32[0] = b << 16;
  return f32[0];
}
export function bf16round(x: number): number {
  return bf16value(bf16bits(x));
}
export const f16bits: (x: number) => number = f16Bits;
export const f16value: (bits: number) => number = f16Value;
export const f16round: (x: number) => number = f16Round;
export const fround: (x: number) => number = Math.fround;

export function toBig(x: number): bigint {
  return Number.isFinite(x) ? BigInt(Math.trunc(x)) : 0n;
}
/** The whole quotient of floats. */
export const wholeQuotient: (a: number, b: number) => number = quotientOf;
export function floorDivBig(a: bigint, b: bigint): bigint {
  if (b === 0n) return 0n;
  const q = a / b;
  return a % b !== 0n && (a < 0n) !== (b < 0n) ? q - 1n : q;
}
export function floorModBig(a: bigint, b: bigint): bigint {
  return b === 0n ? 0n : a - floorDivBig(a, b) * b;
}

/** What kernels call b0 is buffer 0. */
function memoryName(name: string): string {
  return name.replace(/^b(?=\d)/, "buffer ");
}

/** @throws {SpecError} where an access leaves its buffer */
export function check(at: number, n: number, size: number, name: string): void {
  if (!(at >= 0 && at + n <= size)) {
    throw new SpecError(
      `Access to ${n > 1 ? `${n} elements` : "an element"} at ${at} of ${memoryName(name)}, which has ${size}`,
    );
  }
}
/** @throws {SpecError} where a vector does not start at a multiple of its length */
export function aligned(at: number, n: number, name: string): void {
  if (at % n !== 0) throw new SpecError(`Access to ${n} elements at ${at} of ${memoryName(name)} is not aligned`);
}
