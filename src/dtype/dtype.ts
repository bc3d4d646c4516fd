/**
 * Data types: interned frozen instances with an `id`, compared with `===`. Per-dtype tables are arrays indexed by `id`.
 * A vector dtype (`float32.vec(16)`) shares the `id` of its scalar and differs in `count`.
 *
 * @module
 */
import { DTypeError } from "../helpers/errors.ts";
import { describe } from "../helpers/options.ts";
import { showAs } from "../helpers/text.ts";

/** What family a dtype belongs to. */
export type DTypeKind = "void" | "bool" | "int" | "uint" | "float" | "complex";

/**
 * What the error of `structuredClone` and `postMessage` names, which would else copy the graph of a tensor without its
 * memory.
 */
const UNSENDABLE = Symbol(
  "send `await t.data()` and `t.shape` instead of a tensor, and the name of a dtype; as it is, it",
);

/** A data type. Instances are unique: compare with `===`. */
export class DType {
  /** Index into per-dtype tables; a vector shares its scalar's. */
  readonly id: number;
  /** As in PyTorch: "float32"; vectors print as "float32x16". */
  readonly name: string;
  /** Void, bool, integer, float or complex. */
  readonly kind: DTypeKind;
  /** Bits of one element in memory (bool is 8). */
  readonly bits: number;
  /** Lanes: 1 for a scalar. */
  readonly count: number;
  /** The dtype of one lane. */
  readonly scalar: DType;
  /** Position in the promotion order of PARITY.md section 3.1. */
  readonly priority: number;
  /** Whether values are pairs of floats: real and imaginary part. */
  readonly isComplex: boolean;
  private readonly vectors: Map<number, DType> | undefined;
  /** A symbol cannot be cloned, and every tensor has a dtype. */
  private readonly unsendable: symbol = UNSENDABLE;

  /** Use {@linkcode dtypes}; instances are made only there. */
  constructor(id: number, name: string, kind: DTypeKind, bits: number, priority: number, count = 1, scalar?: DType) {
    this.id = id;
    this.name = name;
    this.kind = kind;
    this.bits = bits;
    this.priority = priority;
    this.isComplex = kind === "complex";
    this.count = count;
    this.scalar = scalar ?? this;
    this.vectors = scalar ? undefined : new Map();
    Object.freeze(this);
  }

  /** Bytes of one value: all lanes of a vector. */
  get itemsize(): number {
    return (this.bits >> 3) * this.count;
  }

  /** The vector of `n` lanes of this scalar; the scalar itself for 1. */
  vec(n: number): DType {
    if (n === 1) return this.scalar;
    const table = this.scalar.vectors!;
    let v = table.get(n);
    if (v === undefined) {
      const s = this.scalar;
      table.set(n, v = new DType(s.id, `${s.name}x${n}`, s.kind, s.bits, s.priority, n, s));
    }
    return v;
  }

  /** Whether values are floats, or pairs of them. */
  get isFloat(): boolean {
    return this.kind === "float" || this.isComplex;
  }
  /** Of a complex dtype that of its parts; any other one itself. */
  get real(): DType {
    return !this.isComplex ? this : this.bits === 64 ? dtypes.float32 : dtypes.float64;
  }
  /** Signed or unsigned integer; bool is not one. */
  get isInt(): boolean {
    return this.kind === "int" || this.kind === "uint";
  }
  /** Whether it is an integer without a sign. */
  get isUnsigned(): boolean {
    return this.kind === "uint";
  }
  /** Whether it is bool. */
  get isBool(): boolean {
    return this.kind === "bool";
  }

  /** Its name. */
  toString(): string {
    return this.name;
  }

  /** Its name, in JSON. */
  toJSON(): string {
    return this.name;
  }
}

showAs(DType.prototype, String);

let nextId = 0;
function make(name: string, kind: DTypeKind, bits: number, priority: number): DType {
  return new DType(nextId++, name, kind, bits, priority);
}

/** The scalar dtypes by name, in the order of their `id`. */
const SCALARS = {
  void: make("void", "void", 0, -1),
  bool: make("bool", "bool", 8, 0),
  int8: make("int8", "int", 8, 1),
  uint8: make("uint8", "uint", 8, 2),
  int16: make("int16", "int", 16, 3),
  uint16: make("uint16", "uint", 16, 4),
  int32: make("int32", "int", 32, 5),
  uint32: make("uint32", "uint", 32, 6),
  int64: make("int64", "int", 64, 7),
  uint64: make("uint64", "uint", 64, 8),
  float16: make("float16", "float", 16, 12),
  bfloat16: make("bfloat16", "float", 16, 13),
  float32: make("float32", "float", 32, 14),
  float64: make("float64", "float", 64, 15),
  fp8e4m3: make("fp8e4m3", "float", 8, 10),
  fp8e5m2: make("fp8e5m2", "float", 8, 11),
};

/** Pairs of floats. They are dtypes of tensors alone: memory and kernels have the floats (uop/graph/complex.ts). */
const COMPLEX = {
  complex64: make("complex64", "complex", 64, 16),
  complex128: make("complex128", "complex", 128, 17),
};

/** All data types, with PyTorch's and C's names as aliases. */
export interface DTypes {
  /** No value. */
  readonly void: DType;
  /** True or false; a byte in memory. */
  readonly bool: DType;
  /** Signed, 8 bits. */
  readonly int8: DType;
  /** Unsigned, 8 bits. */
  readonly uint8: DType;
  /** Signed, 16 bits. */
  readonly int16: DType;
  /** Unsigned, 16 bits. */
  readonly uint16: DType;
  /** Signed, 32 bits: what whole numbers are. */
  readonly int32: DType;
  /** Unsigned, 32 bits. */
  readonly uint32: DType;
  /** Signed, 64 bits: what bigints are. */
  readonly int64: DType;
  /** Unsigned, 64 bits. */
  readonly uint64: DType;
  /** IEEE half precision. */
  readonly float16: DType;
  /** The upper half of a float32. */
  readonly bfloat16: DType;
  /** IEEE single precision: what other numbers are. */
  readonly float32: DType;
  /** IEEE double precision. */
  readonly float64: DType;
  /** 8 bits of OCP: 4 of exponent, 3 of mantissa, up to 448; has NaN, no infinity. */
  readonly fp8e4m3: DType;
  /** 8 bits of OCP: 5 of exponent, 2 of mantissa, up to 57344; has NaN and infinities. */
  readonly fp8e5m2: DType;
  /** Complex numbers: pairs of float32, real and imaginary part side by side. */
  readonly complex64: DType;
  /** Complex numbers: pairs of float64. */
  readonly complex128: DType;
  /** complex64. */
  readonly cfloat: DType;
  /** complex128. */
  readonly cdouble: DType;
  /** float16. */
  readonly half: DType;
  /** float32. */
  readonly float: DType;
  /** float64. */
  readonly double: DType;
  /** int8. */
  readonly char: DType;
  /** uint8. */
  readonly uchar: DType;
  /** int16. */
  readonly short: DType;
  /** uint16. */
  readonly ushort: DType;
  /** int32. */
  readonly int: DType;
  /** uint32. */
  readonly uint: DType;
  /** int64. */
  readonly long: DType;
  /** uint64. */
  readonly ulong: DType;
}

/** The data types: `dtypes.float32`, `dtypes.int64`, ... */
export const dtypes: DTypes = Object.freeze({
  ...SCALARS,
  ...COMPLEX,
  cfloat: COMPLEX.complex64,
  cdouble: COMPLEX.complex128,
  half: SCALARS.float16,
  float: SCALARS.float32,
  double: SCALARS.float64,
  char: SCALARS.int8,
  uchar: SCALARS.uint8,
  short: SCALARS.int16,
  ushort: SCALARS.uint16,
  int: SCALARS.int32,
  uint: SCALARS.uint32,
  long: SCALARS.int64,
  ulong: SCALARS.uint64,
});

/** The scalar dtypes of memory and kernels, by `id`: all but the complex ones. */
export const DTYPES: readonly DType[] = Object.freeze(Object.values(SCALARS));

/** The complex dtype whose parts are of `d`, which may be complex itself: complex64 for what is no float64. */
export function complexOf(d: DType): DType {
  return d.isComplex ? d : d === dtypes.float64 ? dtypes.complex128 : dtypes.complex64;
}

/** The name of the TypedArray that holds a dtype in memory: bits where JavaScript has no such numbers. */
export function arrayName(d: DType): string {
  d = d.real;
  const kind = d.isFloat && d.bits >= 32 ? "Float" : d.kind === "int" ? "Int" : "Uint";
  return `${d.isInt && d.bits === 64 ? "Big" : ""}${kind}${d.bits}Array`;
}

/** A class of typed arrays. */
export interface ArrayClass<A> {
  /** Zeros. */
  new (length: number): A;
  /** Elements in memory, from a byte on. */
  new (buffer: ArrayBufferLike, offset?: number, length?: number): A;
  /** Numbers; of 64-bit integers bigints. */
  from(values: ArrayLike<number | bigint>): A;
}

/** The class of the arrays that {@linkcode arrayName} names, as its caller knows them. */
export function arrayClass<A>(d: DType): ArrayClass<A> {
  return (globalThis as unknown as Record<string, ArrayClass<A>>)[arrayName(d)];
}

/**
 * The layout of a float of fewer than 32 bits: bits of its mantissa, the bias of its exponent, and whether the largest exponent
 * is that of infinities and NaN. Without those, all bits set are NaN, and the others numbers.
 */
export interface SmallFloat {
  readonly mantissa: number;
  readonly bias: number;
  readonly hasInfinity: boolean;
}

/** The layout of a float of fewer than 32 bits; undefined for other dtypes. */
export function smallFloatOf(d: DType): SmallFloat | undefined {
  return SMALL_FLOATS.get(d.scalar);
}

const SMALL_FLOATS: ReadonlyMap<DType, SmallFloat> = new Map([
  [dtypes.float16, { mantissa: 10, bias: 15, hasInfinity: true }],
  [dtypes.bfloat16, { mantissa: 7, bias: 127, hasInfinity: true }],
  [dtypes.fp8e4m3, { mantissa: 3, bias: 7, hasInfinity: false }],
  [dtypes.fp8e5m2, { mantissa: 2, bias: 15, hasInfinity: true }],
]);

/** The name of a dtype, or PyTorch's or C's name for it. */
export type DTypeName = Exclude<keyof DTypes, "void">;

/**
 * Text that a program makes: where `N` is the type of an argument, all text but literals, which the compiler knows and
 * compares with the names that there are. Text that it does not know is checked when it is used.
 */
export type MadeText<N extends string = string> = string extends N ? N & Record<never, never> : never;

/**
 * A DType or its name. Editors complete names. Where `N` is the type of an argument, as in `Tensor.zeros` and `cast`, a
 * literal that names none is refused by the compiler; text that a program makes passes, and is checked when it is used.
 */
export type DTypeLike<N extends string = string> = DType | DTypeName | MadeText<N>;

/** The dtype that `x` is or names. @throws {DTypeError} for an unknown name. */
export function toDType(x: DTypeLike): DType {
  if (x instanceof DType) return x;
  const found = typeof x === "string" && Object.hasOwn(dtypes, x) ? dtypes[x as keyof DTypes] : undefined;
  if (found === undefined || found === dtypes.void) {
    throw new DTypeError(`use dtype ${describe(x)}`, {
      reason: `known are ${[...DTYPES.slice(1), ...Object.values(COMPLEX)].map((d) => d.name).join(", ")}`,
    });
  }
  return found;
}

/** Smallest value of a scalar dtype; −Infinity for floats. 64-bit bounds are rounded to a double. */
export function dtypeMin(d: DType): number {
  if (d.kind === "float") return -Infinity;
  return d.kind === "int" ? -(2 ** (d.bits - 1)) : 0;
}

/** The distance from 1 to the next number of a dtype of floats, or of the parts of complex ones. */
export function dtypeEpsilon(d: DType): number {
  return 2 ** -(smallFloatOf(d)?.mantissa ?? (d.real.bits === 64 ? 52 : 23));
}

/** Largest value of a scalar dtype; Infinity for floats, 1 for bool. 64-bit bounds are rounded to a double. */
export function dtypeMax(d: DType): number {
  if (d.kind === "float") return Infinity;
  if (d.kind === "bool") return 1;
  return d.kind === "int" ? 2 ** (d.bits - 1) - 1 : 2 ** d.bits - 1;
}

/** Smallest value of an integer dtype, exactly: a bigint where a number would round it. */
export function leastInt(d: DType): number | bigint {
  return d.isUnsigned ? 0 : d.bits === 64 ? -(1n << 63n) : -(2 ** (d.bits - 1));
}

/** Largest value of an integer dtype, exactly: a bigint where a number would round it. */
export function mostInt(d: DType): number | bigint {
  const bits = d.isUnsigned ? d.bits : d.bits - 1;
  return bits > 53 ? (1n << BigInt(bits)) - 1n : 2 ** bits - 1;
}
