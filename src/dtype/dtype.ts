/**
 * Data types: interned frozen instances with an `id`, compared with `===`. Per-dtype tables are arrays indexed by `id`.
 * A vector dtype (`float32.vec(16)`) shares the `id` of its scalar and differs in `count`.
 *
 * @module
 */
import { DTypeError } from "../helpers/errors.ts";

/** What family a dtype belongs to. */
export type DTypeKind = "void" | "bool" | "int" | "uint" | "float";

/** A data type. Instances are unique: compare with `===`. */
export class DType {
  /** Index into per-dtype tables; a vector shares its scalar's. */
  readonly id: number;
  /** As in PyTorch: "float32"; vectors print as "float32x16". */
  readonly name: string;
  readonly kind: DTypeKind;
  /** Bits of one element in memory (bool is 8). */
  readonly bits: number;
  /** Lanes: 1 for a scalar. */
  readonly count: number;
  /** The dtype of one lane. */
  readonly scalar: DType;
  /** Position in the promotion order of PARITY.md section 3.1. */
  readonly priority: number;
  private readonly vectors: Map<number, DType> | undefined;

  /** Use {@linkcode dtypes}; instances are made only there. */
  constructor(id: number, name: string, kind: DTypeKind, bits: number, priority: number, count = 1, scalar?: DType) {
    this.id = id;
    this.name = name;
    this.kind = kind;
    this.bits = bits;
    this.priority = priority;
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

  get isFloat(): boolean {
    return this.kind === "float";
  }
  /** Signed or unsigned integer; bool is not one. */
  get isInt(): boolean {
    return this.kind === "int" || this.kind === "uint";
  }
  get isUnsigned(): boolean {
    return this.kind === "uint";
  }
  get isBool(): boolean {
    return this.kind === "bool";
  }

  toString(): string {
    return this.name;
  }
}

let nextId = 0;
function make(name: string, kind: DTypeKind, bits: number, priority: number): DType {
  return new DType(nextId++, name, kind, bits, priority);
}

const void_ = make("void", "void", 0, -1);
const bool = make("bool", "bool", 8, 0);
const int8 = make("int8", "int", 8, 1);
const uint8 = make("uint8", "uint", 8, 2);
const int16 = make("int16", "int", 16, 3);
const uint16 = make("uint16", "uint", 16, 4);
const int32 = make("int32", "int", 32, 5);
const uint32 = make("uint32", "uint", 32, 6);
const int64 = make("int64", "int", 64, 7);
const uint64 = make("uint64", "uint", 64, 8);
const float16 = make("float16", "float", 16, 12);
const bfloat16 = make("bfloat16", "float", 16, 13);
const float32 = make("float32", "float", 32, 14);
const float64 = make("float64", "float", 64, 15);

/** All data types, with PyTorch's and C's names as aliases. */
export interface DTypes {
  readonly void: DType;
  readonly bool: DType;
  readonly int8: DType;
  readonly uint8: DType;
  readonly int16: DType;
  readonly uint16: DType;
  readonly int32: DType;
  readonly uint32: DType;
  readonly int64: DType;
  readonly uint64: DType;
  readonly float16: DType;
  readonly bfloat16: DType;
  readonly float32: DType;
  readonly float64: DType;
  readonly half: DType;
  readonly float: DType;
  readonly double: DType;
  readonly char: DType;
  readonly uchar: DType;
  readonly short: DType;
  readonly ushort: DType;
  readonly int: DType;
  readonly uint: DType;
  readonly long: DType;
  readonly ulong: DType;
}

/** The data types: `dtypes.float32`, `dtypes.int64`, ... */
export const dtypes: DTypes = Object.freeze({
  void: void_,
  bool,
  int8,
  uint8,
  int16,
  uint16,
  int32,
  uint32,
  int64,
  uint64,
  float16,
  bfloat16,
  float32,
  float64,
  half: float16,
  float: float32,
  double: float64,
  char: int8,
  uchar: uint8,
  short: int16,
  ushort: uint16,
  int: int32,
  uint: uint32,
  long: int64,
  ulong: uint64,
});

/** The scalar dtypes by `id`. */
export const DTYPES: readonly DType[] = Object.freeze([
  void_,
  bool,
  int8,
  uint8,
  int16,
  uint16,
  int32,
  uint32,
  int64,
  uint64,
  float16,
  bfloat16,
  float32,
  float64,
]);

/** A DType or its name. */
export type DTypeLike = DType | string;

/** The dtype that `x` is or names. @throws {DTypeError} for an unknown name. */
export function toDType(x: DTypeLike): DType {
  if (x instanceof DType) return x;
  const found = Object.hasOwn(dtypes, x) ? (dtypes as unknown as Record<string, DType>)[x] : undefined;
  if (found === undefined || found === void_) {
    throw new DTypeError(`use dtype "${String(x)}"`, {
      reason: `known are ${DTYPES.slice(1).map((d) => d.name).join(", ")}`,
    });
  }
  return found;
}

/** Smallest value of a scalar dtype; −Infinity for floats. 64-bit bounds are rounded to a double. */
export function dtypeMin(d: DType): number {
  if (d.kind === "float") return -Infinity;
  return d.kind === "int" ? -(2 ** (d.bits - 1)) : 0;
}

/** Largest value of a scalar dtype; Infinity for floats, 1 for bool. 64-bit bounds are rounded to a double. */
export function dtypeMax(d: DType): number {
  if (d.kind === "float") return Infinity;
  if (d.kind === "bool") return 1;
  return d.kind === "int" ? 2 ** (d.bits - 1) - 1 : 2 ** d.bits - 1;
}
