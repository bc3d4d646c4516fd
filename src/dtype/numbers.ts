/**
 * Bytes as the numbers that they are: typed arrays of the elements of a dtype, over the same memory where there is such a
 * type, and as float32 of bfloat16 and of floats of 8 bits.
 *
 * @module
 */
import { bf16BitsToF32, fp8BitsToF32 } from "./convert.ts";
import { arrayClass, type DType, dtypes } from "./dtype.ts";

/** Elements that are numbers. */
export type Elements =
  | Float16Array
  | Float32Array
  | Float64Array
  | Int8Array
  | Int16Array
  | Int32Array
  | Uint8Array
  | Uint16Array
  | Uint32Array;
/** Elements of 64 bits. */
export type Longs = BigInt64Array | BigUint64Array;

/** The elements of bytes; those of bool are 0 and 1. */
export function numbersOf(bytes: Uint8Array, dtype: DType): Elements | Longs {
  const { buffer, byteOffset, length } = bytes, d = dtype.real;
  const isAligned = byteOffset % d.itemsize === 0, memory = (isAligned ? buffer : bytes.slice().buffer) as ArrayBuffer;
  const Class = d === dtypes.float16 ? Float16Array : arrayClass<Elements | Longs>(d);
  const elements = new Class(memory, isAligned ? byteOffset : 0, length / d.itemsize);
  if (d === dtypes.bfloat16) return Float32Array.from(elements as Uint16Array, bf16BitsToF32);
  return d.isFloat && d.bits === 8 ? Float32Array.from(elements as Uint8Array, (x) => fp8BitsToF32(x, d)) : elements;
}
