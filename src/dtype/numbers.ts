/**
 * Bytes as the numbers that they are: typed arrays of the elements of a dtype, over the same memory where there is such a
 * type, and as float32 of bfloat16 and of floats of 8 bits.
 *
 * @module
 */
import { bf16BitsToF32, fp8BitsToF32 } from "./convert.ts";
import { type DType, dtypes } from "./dtype.ts";

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
  const at = byteOffset % d.itemsize === 0 ? [buffer, byteOffset] as const : [bytes.slice().buffer, 0] as const;
  const size = length / d.itemsize;
  switch (d) {
    case dtypes.float64:
      return new Float64Array(...at, size);
    case dtypes.float32:
      return new Float32Array(...at, size);
    case dtypes.float16:
      return new Float16Array(at[0] as ArrayBuffer, at[1], size);
    case dtypes.bfloat16:
      return Float32Array.from(new Uint16Array(...at, size), bf16BitsToF32);
    case dtypes.int64:
      return new BigInt64Array(...at, size);
    case dtypes.uint64:
      return new BigUint64Array(...at, size);
    case dtypes.int32:
      return new Int32Array(...at, size);
    case dtypes.uint32:
      return new Uint32Array(...at, size);
    case dtypes.int16:
      return new Int16Array(...at, size);
    case dtypes.uint16:
      return new Uint16Array(...at, size);
    case dtypes.int8:
      return new Int8Array(...at, size);
    default:
      return d.isFloat ? Float32Array.from(bytes, (x) => fp8BitsToF32(x, d)) : bytes;
  }
}
