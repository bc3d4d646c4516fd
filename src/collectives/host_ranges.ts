/**
 * Ranges of device memory as bytes of the host, for engines that carry those: in place where the memory is the host's,
 * through a copy where it is not, and as float32 while floats of 8 and 16 bits are reduced.
 *
 * @module
 */
import type { Buffer } from "../device/buffer.ts";
import { bf16BitsToF32, f32ToBf16Bits, f32ToFp8Bits, fp8BitsToF32 } from "../dtype/convert.ts";
import { type DType, dtypes } from "../dtype/dtype.ts";
import { f16Bits, f16Value } from "../dtype/float16.ts";

/** Bytes of the host that stand for a range: their address, how many elements there are, and of which dtype. */
export interface HostRange {
  readonly address: bigint;
  readonly dtype: DType;
  readonly size: number;
  /** Keeps the memory alive. */
  readonly bytes: Uint8Array;
}

/** The address of bytes; `of` takes those of small arrays only once they have left the heap of the engine. */
export function addressOfBytes(bytes: Uint8Array): bigint {
  if (bytes.byteLength === 0) return 0n;
  const whole = new Uint8Array(bytes.buffer as ArrayBuffer);
  return Deno.UnsafePointer.value(Deno.UnsafePointer.of(whole)) + BigInt(bytes.byteOffset);
}

/** Elements as bits, 8 or 16 of them. */
function bitsArray(bytes: Uint8Array, dtype: DType): Uint8Array | Uint16Array {
  return dtype.itemsize === 1 ? bytes : new Uint16Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 2);
}

/** What the bits of a small float mean, and the bits of a number. */
function conversionOf(dtype: DType): readonly [toNumber: (bits: number) => number, toBits: (x: number) => number] {
  if (dtype === dtypes.float16) return [f16Value, f16Bits];
  if (dtype === dtypes.bfloat16) return [bf16BitsToF32, f32ToBf16Bits];
  return [(bits) => fp8BitsToF32(bits, dtype), (x) => f32ToFp8Bits(x, dtype)];
}

/** Whether a dtype is reduced as float32. */
function isWidened(dtype: DType): boolean {
  return dtype.isFloat && dtype.itemsize < 4;
}

/** The bytes of a range: the memory itself where it is the host's (`isOwn`), else fresh ones. */
function bytesOf(buffer: Buffer): { readonly bytes: Uint8Array; readonly isOwn: boolean } {
  const own = buffer.hostBytes();
  // words must start at multiples of their size to be seen as an array
  if (own !== undefined && own.byteOffset % buffer.dtype.itemsize === 0) return { bytes: own, isOwn: true };
  return { bytes: new Uint8Array(new ArrayBuffer(buffer.nbytes)), isOwn: false };
}

function rangeOf(bytes: Uint8Array, dtype: DType): HostRange {
  return { address: addressOfBytes(bytes), dtype, size: bytes.byteLength / dtype.itemsize, bytes };
}

/** A range to read. @param reduces whether its elements will be reduced */
export function rangeToRead(buffer: Buffer, reduces: boolean): HostRange {
  const { bytes, isOwn } = bytesOf(buffer), { dtype } = buffer;
  if (!isOwn) buffer.copyOut(bytes);
  if (!reduces || !isWidened(dtype)) return rangeOf(bytes, dtype);
  const [toNumber] = conversionOf(dtype), bits = bitsArray(bytes, dtype), wide = new Float32Array(buffer.size);
  for (let i = 0; i < wide.length; i++) wide[i] = toNumber(bits[i]);
  return rangeOf(new Uint8Array(wide.buffer), dtypes.float32);
}

/** A range to write, and what brings the bytes to the device when they are there. */
export function rangeToWrite(buffer: Buffer, reduces: boolean): readonly [range: HostRange, finish: () => void] {
  const { dtype } = buffer;
  if (!reduces || !isWidened(dtype)) {
    const { bytes, isOwn } = bytesOf(buffer);
    return [rangeOf(bytes, dtype), isOwn ? () => {} : () => void buffer.copyIn(bytes)];
  }
  const wide = new Float32Array(buffer.size), [, toBits] = conversionOf(dtype);
  const finish = (): void => {
    const bytes = new Uint8Array(new ArrayBuffer(buffer.nbytes)), bits = bitsArray(bytes, dtype);
    for (let i = 0; i < wide.length; i++) bits[i] = toBits(wide[i]);
    buffer.copyIn(bytes);
  };
  return [rangeOf(new Uint8Array(wide.buffer), dtypes.float32), finish];
}
