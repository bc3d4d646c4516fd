/**
 * What kernels of the JS device call, compiled or interpreted: bits of values, roundings, 64-bit division, and the checks
 * of each access.
 *
 * @module
 */
import { SpecError } from "../../src/helpers/errors.ts";

export {
  bf16BitsToF32 as bf16value,
  f32ToBf16Bits as bf16bits,
  oddNumber as oddBig,
  roundBf16 as bf16round,
} from "../../src/dtype/convert.ts";
export { f16Bits as f16bits, f16Round as f16round, f16Value as f16value } from "../../src/dtype/float16.ts";
export { wholeQuotient } from "../../src/helpers/math.ts";
export { matrixElements, multiply, multiplyShared, readShared } from "./grid.ts";

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

/** The names of views of eight bytes. */
export type BitView = `${"i" | "u"}${8 | 16 | 32 | 64}` | "f32" | "f64";
const bytes = new ArrayBuffer(8);
/** The same eight bytes as every kind of number. */
export const bits: Readonly<Record<BitView, { [at: number]: number | bigint }>> = {
  i8: new Int8Array(bytes),
  u8: new Uint8Array(bytes),
  i16: new Int16Array(bytes),
  u16: new Uint16Array(bytes),
  i32: new Int32Array(bytes),
  u32: new Uint32Array(bytes),
  i64: new BigInt64Array(bytes),
  u64: new BigUint64Array(bytes),
  f32: new Float32Array(bytes),
  f64: new Float64Array(bytes),
};

export const fround: (x: number) => number = Math.fround;

export function toBig(x: number): bigint {
  return Number.isFinite(x) ? BigInt(Math.trunc(x)) : 0n;
}
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
