/**
 * The element types of ONNX: their names, how many bits they have in a file, and the dtype that holds them. In: codes of
 * TensorProto.DataType; out: rows. Types that no device has are held in a wider one: integers of 2 and 4 bits in 8,
 * floats of 4 and 8 bits without a dtype of ours in float32, where all their values fit exactly.
 *
 * @module
 */
import { type DType, dtypes } from "../../dtype/dtype.ts";

/** A float of few bits: how it is rounded to. */
export interface SmallType {
  readonly mantissa: number;
  /** Of the exponent. */
  readonly bias: number;
  /** The largest number. */
  readonly max: number;
  /** What lies beyond: infinity, NaN alone, or neither. */
  readonly beyond: "inf" | "nan" | "none";
  /** Whether -0 is NaN. */
  readonly unsignedZero?: boolean;
}
/** A type of elements. */
export interface ElementType {
  readonly code: number;
  readonly name: string;
  /** Bits of an element in a file; 0 of text. */
  readonly bits: number;
  /** What holds it. */
  readonly dtype: DType;
  readonly small?: SmallType;
}

/** Codes of TensorProto.DataType. */
export const FLOAT = 1, UINT8 = 2, INT8 = 3, INT32 = 6, INT64 = 7, STRING = 8, BOOL = 9, FLOAT16 = 10, DOUBLE = 11;
/** Codes of TensorProto.DataType, of small types. */
export const UINT64 = 13, BFLOAT16 = 16, UINT4 = 21, INT4 = 22, UINT2 = 25, INT2 = 26, E8M0 = 24;

const d = dtypes;
const ROWS: readonly (readonly [number, string, number, DType, SmallType?])[] = [
  [1, "float", 32, d.float32],
  [2, "uint8", 8, d.uint8],
  [3, "int8", 8, d.int8],
  [4, "uint16", 16, d.uint16],
  [5, "int16", 16, d.int16],
  [6, "int32", 32, d.int32],
  [7, "int64", 64, d.int64],
  [8, "string", 0, d.void],
  [9, "bool", 8, d.bool],
  [10, "float16", 16, d.float16],
  [11, "double", 64, d.float64],
  [12, "uint32", 32, d.uint32],
  [13, "uint64", 64, d.uint64],
  [14, "complex64", 64, d.complex64],
  [15, "complex128", 128, d.complex128],
  [16, "bfloat16", 16, d.bfloat16],
  [17, "float8e4m3fn", 8, d.fp8e4m3, { mantissa: 3, bias: 7, max: 448, beyond: "nan" }],
  [18, "float8e4m3fnuz", 8, d.float32, { mantissa: 3, bias: 8, max: 240, beyond: "nan", unsignedZero: true }],
  [19, "float8e5m2", 8, d.fp8e5m2, { mantissa: 2, bias: 15, max: 57344, beyond: "inf" }],
  [20, "float8e5m2fnuz", 8, d.float32, { mantissa: 2, bias: 16, max: 57344, beyond: "nan", unsignedZero: true }],
  [21, "uint4", 4, d.uint8],
  [22, "int4", 4, d.int8],
  [23, "float4e2m1", 4, d.float32, { mantissa: 1, bias: 1, max: 6, beyond: "none" }],
  [24, "float8e8m0", 8, d.float32],
  [25, "uint2", 2, d.uint8],
  [26, "int2", 2, d.int8],
];

const BY_CODE: ReadonlyMap<number, ElementType> = new Map(
  ROWS.map(([code, name, bits, dtype, small]) => [code, { code, name, bits, dtype, small }]),
);
const BY_DTYPE: ReadonlyMap<DType, number> = new Map(
  ROWS.filter(([code]) => code <= 17 || code === 19).map(([code, , , dtype]) => [dtype, code]),
);

/** The type of a code; undefined for one that ONNX does not have. */
export function elementType(code: number): ElementType | undefined {
  return BY_CODE.get(code);
}
/** The type of a name. */
export function elementTypeNamed(name: string): ElementType | undefined {
  return [...BY_CODE.values()].find((e) => e.name === name);
}
/** The code that a dtype of ours has by itself. */
export function codeOf(dtype: DType): number {
  return BY_DTYPE.get(dtype) ?? 0;
}
/** The name of a code. */
export function typeName(code: number): string {
  return BY_CODE.get(code)?.name ?? `type ${code}`;
}

/** The number that bits of a small float mean. */
function smallValue(bits: number, width: number, s: SmallType): number {
  const sign = bits >> (width - 1) ? -1 : 1, exponentBits = width - 1 - s.mantissa;
  const exponent = (bits >> s.mantissa) & ((1 << exponentBits) - 1), fraction = bits & ((1 << s.mantissa) - 1);
  if (s.unsignedZero && bits === 1 << (width - 1)) return NaN;
  const value = exponent === 0
    ? fraction * 2 ** (1 - s.bias - s.mantissa)
    : (1 + fraction / (1 << s.mantissa)) * 2 ** (exponent - s.bias);
  if (value > s.max) return s.beyond === "inf" && fraction === 0 ? sign * Infinity : NaN;
  return sign * value;
}

/** How many bytes `count` elements have in a file. */
export function packedBytes(type: ElementType, count: number): number {
  return Math.ceil(count * type.bits / 8);
}

/** The bytes of what holds `count` elements, of their bytes in a file: those themselves where they are as wide. */
export function unpackElements(type: ElementType, raw: Uint8Array, count: number): Uint8Array {
  const { code, bits, dtype } = type;
  if (bits >= 8 && dtype.itemsize * 8 === bits) return raw;
  const codes = new Uint8Array(count), per = 8 / bits;
  for (let i = 0; i < count; i++) {
    codes[i] = bits === 8 ? raw[i] : (raw[Math.floor(i / per)] >> (i % per * bits)) & ((1 << bits) - 1);
  }
  if (dtype === dtypes.uint8) return codes;
  if (dtype === dtypes.int8) {
    const half = 1 << (bits - 1);
    return new Uint8Array(Int8Array.from(codes, (x) => x >= half ? x - 2 * half : x).buffer);
  }
  const value = code === E8M0
    ? (x: number) => x === 255 ? NaN : 2 ** (x - 127)
    : (x: number) => smallValue(x, bits, type.small!);
  return new Uint8Array(Float32Array.from(codes, value).buffer);
}
