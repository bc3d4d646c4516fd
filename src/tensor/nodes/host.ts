/**
 * Between JavaScript's values and the bytes of tensors: nested lists and TypedArrays in, TypedArrays and nested lists
 * out. Row-major, little-endian.
 *
 * @module
 */
import { f32ToBf16Bits, f32ToFp8Bits, fp8BitsToF32, oddNumber } from "../../dtype/convert.ts";
import { type ArrayClass, arrayClass, type DType, type DTypeName, DTYPES, dtypes } from "../../dtype/dtype.ts";
import { f16Bits, f16Value } from "../../dtype/float16.ts";
import { ArgumentError, ShapeError } from "../../helpers/errors.ts";
import { prod } from "../../helpers/math.ts";
import { describe } from "../../helpers/options.ts";

/** What `data()` gives. */
export type HostArray =
  | Uint8Array
  | Int8Array
  | Uint16Array
  | Int16Array
  | Uint32Array
  | Int32Array
  | BigUint64Array
  | BigInt64Array
  | Float16Array
  | Float32Array
  | Float64Array;

/** A complex number: what values of complex tensors are, given and read. */
export interface ComplexValue {
  /** The real part. */
  readonly re: number;
  /** The imaginary part. */
  readonly im: number;
}

/** Whether something is a complex number: an object with numbers `re` and `im`. */
export function isComplexValue(x: unknown): x is ComplexValue {
  return typeof x === "object" && x !== null && typeof (x as ComplexValue).re === "number" &&
    typeof (x as ComplexValue).im === "number";
}

/** What `tolist()` gives: nested lists, or a value for rank 0. */
export type NestedValues = number | boolean | bigint | ComplexValue | NestedValues[];

/** What `data()` gives where no dtype is named: arrays of numbers, of memory of their own, as `Blob` and `fetch` take them. */
export type NumberArray =
  | Uint8Array<ArrayBuffer>
  | Int8Array<ArrayBuffer>
  | Uint16Array<ArrayBuffer>
  | Int16Array<ArrayBuffer>
  | Uint32Array<ArrayBuffer>
  | Int32Array<ArrayBuffer>
  | Float16Array<ArrayBuffer>
  | Float32Array<ArrayBuffer>
  | Float64Array<ArrayBuffer>;

/** What `data()` gives for a dtype named. */
export type ArrayOf<D extends DTypeName = never> = [D] extends [never] ? NumberArray
  : D extends "bool" | "uint8" | "uchar" ? Uint8Array<ArrayBuffer>
  : D extends "int8" | "char" ? Int8Array<ArrayBuffer>
  : D extends "int16" | "short" ? Int16Array<ArrayBuffer>
  : D extends "uint16" | "ushort" ? Uint16Array<ArrayBuffer>
  : D extends "int32" | "int" ? Int32Array<ArrayBuffer>
  : D extends "uint32" | "uint" ? Uint32Array<ArrayBuffer>
  : D extends "int64" | "long" ? BigInt64Array<ArrayBuffer>
  : D extends "uint64" | "ulong" ? BigUint64Array<ArrayBuffer>
  : D extends "float16" | "half" ? Float16Array<ArrayBuffer>
  : D extends "float64" | "double" | "complex128" | "cdouble" ? Float64Array<ArrayBuffer>
  : Float32Array<ArrayBuffer>;

/** What `item()` gives for a dtype named. */
export type ItemOf<D extends DTypeName> = D extends "bool" ? boolean
  : D extends "int64" | "uint64" | "long" | "ulong" ? number | bigint
  : D extends "complex64" | "complex128" | "cfloat" | "cdouble" ? ComplexValue
  : number;

/** Any TypedArray. */
export type TypedArray = HostArray | Uint8ClampedArray;

type Scalar = number | boolean | bigint;
type Value = Scalar | ComplexValue;
/** Lists nested deeper contain themselves, or are a mistake. */
const MOST_AXES = 64;
/** The array that holds the bytes of each dtype (bits for bfloat16). */
const ARRAYS = new Map(DTYPES.slice(1).map((d) => [d, arrayClass<HostArray>(d)]));
/** Node.js before 24 has none: bits there, and Float32Array for users. */
const HAS_FLOAT16 = typeof Float16Array === "function";
ARRAYS.set(dtypes.float16, HAS_FLOAT16 ? Float16Array : Uint16Array);

function arrayType(dtype: DType): ArrayClass<HostArray> {
  const type = ARRAYS.get(dtype.real);
  if (type === undefined) {
    throw new ArgumentError(`hold ${dtype} on the host`, { reason: "this engine has no array for it" });
  }
  return type;
}

/** Whether the host has only bits of a dtype, in an array of integers. */
function isBits(dtype: DType): boolean {
  return dtype === dtypes.bfloat16 || (dtype.isFloat && dtype.bits === 8) ||
    (dtype === dtypes.float16 && !HAS_FLOAT16);
}

/** The dtype whose values a TypedArray holds; undefined for what is none. */
export function dtypeOfArray(x: unknown): DType | undefined {
  if (!ArrayBuffer.isView(x) || x instanceof DataView) return undefined;
  if (x instanceof Uint8ClampedArray) return dtypes.uint8;
  for (const [dtype, type] of ARRAYS) {
    if (dtype.isBool || isBits(dtype)) continue;
    if (x instanceof type) return dtype;
  }
  return undefined;
}

/** Whether something is a TypedArray. */
export function isTypedArray(x: unknown): x is TypedArray {
  return ArrayBuffer.isView(x) && !(x instanceof DataView);
}

/** Whether something is a list of values: an array, or a TypedArray. */
export function isList(x: unknown): x is readonly unknown[] | TypedArray {
  return Array.isArray(x) || isTypedArray(x);
}

/** Nested lists, flat. */
interface Flat {
  readonly shape: number[];
  /** The values in order. */
  readonly flat: Value[];
  /** Where TypedArrays stand among them, each with the position after its last value. */
  readonly typed: readonly (readonly [array: TypedArray, end: number])[];
}

/**
 * The shape of nested lists and their values in order, among which may be what `isPart` says.
 * @throws {ShapeError} where lists of one level differ
 */
export function flattenNested(action: string, data: readonly unknown[], isPart?: (x: unknown) => boolean): Flat {
  const shape: number[] = [], typed: [TypedArray, number][] = [];
  for (let x: unknown = data; isList(x); x = x[0]) {
    if (shape.push(x.length) <= MOST_AXES) continue;
    throw new ShapeError(action, { reason: `the list is nested more than ${MOST_AXES} deep` });
  }
  const flat: Value[] = [];
  const walk = (x: unknown, depth: number, path: string): void => {
    if (depth === shape.length) {
      if (typeof x === "number" || typeof x === "boolean" || typeof x === "bigint" || isComplexValue(x)) flat.push(x);
      else if (isPart?.(x)) flat.push(x as Value);
      else if (isList(x)) {
        throw new ShapeError(action, {
          axis: depth,
          reason: `the list is ragged: data${path} is ${describe(x)}, its neighbors are values`,
        });
      } else {
        const what = typeof x === "symbol" ? "a symbol" : describe(x);
        throw new ArgumentError(action, { reason: `data${path} is ${what}, not a number, boolean or bigint` });
      }
      return;
    }
    if (!isList(x) || x.length !== shape[depth]) {
      throw new ShapeError(action, {
        axis: depth,
        reason: `the list is ragged: data${path} ${isList(x) ? `has ${x.length} entries` : "is a value"}, ` +
          `its first neighbor has ${shape[depth]}`,
      });
    }
    for (let i = 0; i < x.length; i++) walk(x[i], depth + 1, `${path}[${i}]`);
    if (isTypedArray(x)) typed.push([x, flat.length]);
  };
  walk(data, 0, "");
  return { shape, flat, typed };
}

/**
 * The bytes of `values` in `dtype`, converted as a cast would: floats are rounded to nearest even, integers cut toward
 * zero and wrapped, bool is 1 for what is not 0, NaN too.
 */
export function packHost(values: ArrayLike<Scalar>, dtype: DType): Uint8Array {
  const n = values.length;
  const out = new (arrayType(dtype))(n);
  if (out instanceof BigInt64Array || out instanceof BigUint64Array) {
    for (let i = 0; i < n; i++) {
      const v = values[i];
      out[i] = typeof v === "bigint" ? v : BigInt(toInteger(v));
    }
  } else if (dtype.isBool) {
    for (let i = 0; i < n; i++) out[i] = values[i] || Number.isNaN(values[i]) ? 1 : 0;
  } else if (dtype.isFloat && dtype.bits < 64) {
    const bits = dtype === dtypes.bfloat16
      ? f32ToBf16Bits
      : !isBits(dtype)
      ? (x: number) => x
      : dtype.bits === 16
      ? f16Bits
      : (x: number) => f32ToFp8Bits(x, dtype);
    for (let i = 0; i < n; i++) {
      const v = values[i];
      out[i] = bits(typeof v === "bigint" ? oddNumber(v) : Number(v));
    }
  } else {
    // A bigint beyond 2^53 must lose its high bits, not be rounded.
    const wrap = dtype.isInt;
    for (let i = 0; i < n; i++) {
      const v = values[i];
      out[i] = Number(wrap && typeof v === "bigint" ? BigInt.asIntN(32, v) : v);
    }
  }
  return new Uint8Array(out.buffer, out.byteOffset, out.byteLength);
}

/** The bytes of values in a complex dtype: pairs of their parts. */
export function packPairs(values: ArrayLike<Value>, dtype: DType): Uint8Array {
  const both: Scalar[] = [];
  for (let i = 0; i < values.length; i++) {
    const v = values[i];
    if (typeof v === "object") both.push(v.re, v.im);
    else both.push(v, 0);
  }
  return packHost(both, dtype.real);
}

function toInteger(x: number | boolean): number {
  const n = Math.trunc(Number(x));
  return Number.isFinite(n) ? n : 0;
}

/** A copy of the bytes of a TypedArray. */
export function copyBytes(x: ArrayBufferView): Uint8Array {
  return new Uint8Array(x.buffer, x.byteOffset, x.byteLength).slice();
}

/**
 * The values in `bytes`: Uint8Array for bool, Float16Array for float16 (Float32Array where the engine has none),
 * BigInt64Array for int64, Float32Array for bfloat16 and fp8, pairs of floats side by side for complex dtypes. Shares the memory of `bytes` where it can.
 */
export function typedArrayOf(bytes: Uint8Array, dtype: DType): HostArray {
  dtype = dtype.real;
  const n = bytes.byteLength / dtype.itemsize;
  const aligned = bytes.byteOffset % dtype.itemsize === 0 ? bytes : bytes.slice();
  const raw = new (arrayType(dtype))(aligned.buffer, aligned.byteOffset, n);
  if (!isBits(dtype)) return raw;
  if (dtype === dtypes.float16) return Float32Array.from(raw as Uint16Array, f16Value);
  if (dtype.bits === 8) return Float32Array.from(raw as Uint8Array, (x) => fp8BitsToF32(x, dtype));
  const bits = new Uint32Array(n);
  for (let i = 0; i < n; i++) bits[i] = (raw[i] as number) << 16;
  return new Float32Array(bits.buffer);
}

/** Up to here a number is every integer. */
const EXACT = 2n ** 53n;

/** So many values are put in lists between two pauses: well below a millisecond. */
const PART = 1 << 14;

/** Makes {@linkcode nestedOf}, and pauses now and then, where others may have a turn. */
export function* nestedParts(values: HostArray, shape: readonly number[], dtype: DType): Generator<void, NestedValues> {
  const value = (i: number): Value => {
    const v = values[i];
    if (dtype.isComplex) return { re: values[2 * i] as number, im: values[2 * i + 1] as number };
    if (dtype.isBool) return v !== 0;
    if (typeof v !== "bigint") return v;
    return -EXACT <= v && v <= EXACT ? Number(v) : v;
  };
  if (shape.length === 0) return value(0);
  let lists: NestedValues[] = [], since = 0;
  for (let i = 0, n = prod(shape); i < n; i++) {
    lists.push(value(i));
    if ((i + 1) % PART === 0) yield;
  }
  for (let axis = shape.length - 1; axis > 0; axis--) {
    const parts = lists, size = shape[axis];
    lists = [];
    for (let k = 0, n = prod(shape.slice(0, axis)); k < n; k++) {
      lists.push(parts.slice(k * size, (k + 1) * size));
      if ((since += size + 1) < PART) continue;
      since = 0;
      yield;
    }
  }
  return lists;
}

/** Nested lists of the values in row-major order: booleans for bool, bigint only beyond 2^53, { re, im } of complex dtypes. */
export function nestedOf(values: HostArray, shape: readonly number[], dtype: DType): NestedValues {
  const parts = nestedParts(values, shape, dtype);
  for (;;) {
    const { done, value } = parts.next();
    if (done) return value;
  }
}

/** Values as text, nested in brackets; long axes show both ends. */
export function formatValues(values: HostArray, shape: readonly number[], dtype: DType): string {
  const edge = prod(shape) > 1000 ? 3 : Infinity;
  const number = (v: number): string =>
    Object.is(v, -0) ? "-0" : String(Number(v.toPrecision(dtype.real.bits === 64 ? 8 : 5)));
  const value = (i: number): string => {
    const v = values[i];
    if (dtype.isBool) return v === 0 ? "false" : "true";
    if (dtype.isComplex) {
      const re = number(values[2 * i] as number), im = number(values[2 * i + 1] as number);
      return `${re}${im.startsWith("-") ? "" : "+"}${im}i`;
    }
    return typeof v === "bigint" || !dtype.isFloat ? String(v) : number(v);
  };
  const build = (axis: number, at: number, stride: number): string => {
    if (axis === shape.length) return value(at);
    const n = shape[axis], step = n === 0 ? 0 : stride / n;
    const parts: string[] = [];
    for (let i = 0; i < n; i++) {
      if (i >= edge && i < n - edge) {
        parts.push("...");
        i = n - edge - 1;
      } else parts.push(build(axis + 1, at + i * step, step));
    }
    const last = axis === shape.length - 1;
    return `[${parts.join(last ? ", " : `,\n${" ".repeat(axis + 1)}`)}]`;
  };
  return build(0, 0, prod(shape));
}
