/**
 * Types and constants of C with vector extensions, as c.ts writes them: scalars, vectors, masks of lanes, literals. In: a
 * dtype or a value. Out: text; what a type needs is declared where it is used first.
 *
 * @module
 */
import { type DType, DTYPES, dtypes } from "../../dtype/dtype.ts";
import { SpecError } from "../../helpers/errors.ts";
import { type ConstValue, Int64 } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { throughAfter } from "../../uop/rewrite/walk.ts";
import { PRELUDE } from "./c_prelude.ts";
import type { CWriter } from "./cstyle.ts";

/** What each dtype is called in C (nothing where it has none), and in CUDA C, where 16-bit floats are their bits. */
const SCALARS: readonly (readonly [DType, c: string | undefined, cuda: string])[] = [
  [dtypes.bool, "_Bool", "bool"],
  [dtypes.int8, "signed char", "signed char"],
  [dtypes.uint8, "unsigned char", "unsigned char"],
  [dtypes.int16, "short", "short"],
  [dtypes.uint16, "unsigned short", "unsigned short"],
  [dtypes.int32, "int", "int"],
  [dtypes.uint32, "unsigned", "unsigned"],
  [dtypes.int64, "long long", "long long"],
  [dtypes.uint64, "unsigned long long", "unsigned long long"],
  [dtypes.float16, "_Float16", "unsigned short"],
  [dtypes.bfloat16, undefined, "unsigned short"],
  [dtypes.float32, "float", "float"],
  [dtypes.float64, "double", "double"],
];
const typeNames: (string | undefined)[] = [];
/** The names of CUDA C, by the id of the dtype. */
export const cudaNames: string[] = [];
for (const [d, c, cuda] of SCALARS) [typeNames[d.id], cudaNames[d.id]] = [c, cuda];

/** A scalar as part of a name: "i32". */
export function shortName(d: DType): string {
  return d.isBool ? "bool" : `${d.kind[0]}${d.bits}`;
}

function byBits(kind: "int" | "uint"): Readonly<Record<number, DType>> {
  return Object.fromEntries(DTYPES.filter((d) => d.kind === kind).map((d) => [d.bits, d]));
}
/** Integer types by their bits. */
const SIGNED: Readonly<Record<number, DType>> = byBits("int");
/** Those without a sign. */
const UNSIGNED: Readonly<Record<number, DType>> = byBits("uint");

/** What a scalar is called. */
export function scalarType(d: DType): string {
  const name = typeNames[d.id];
  if (name === undefined) throw new SpecError(`C has no type for dtype ${d}`);
  return name;
}

/** The type of a buffer's elements: a bool is a byte. */
export function memoryType(d: DType): string {
  return d.isBool ? "unsigned char" : scalarType(d);
}

/** The name of a vector type; other counts than powers of two take the next one. Masks ask for the integer type. */
export function vectorType(w: CWriter, d: DType): string {
  const name = `${shortName(d)}x${d.count}`, n = 2 ** Math.ceil(Math.log2(d.count)), scalar = scalarType(d);
  const bytes = n * (d.bits >> 3);
  w.declare("prelude", PRELUDE);
  w.declare(
    name,
    `typedef ${scalar} ${name} VEC(${n}, ${bytes}); ` +
      `typedef ${name} ${name}_u __attribute__((aligned(${d.bits >> 3}), may_alias));`,
  );
  return name;
}

/** The mask type for lanes of `bits`. */
export function maskType(w: CWriter, bits: number, count: number): string {
  return vectorType(w, SIGNED[bits].vec(count));
}

export function isVector(d: DType): boolean {
  return d.count > 1;
}
export function isMask(d: DType): boolean {
  return d.isBool && d.count > 1;
}
export function isPowerOfTwo(n: number): boolean {
  return (n & (n - 1)) === 0;
}

/** The lane bits in which a mask is kept; 0 for a constant, which has any. */
export function maskBits(w: CWriter, u: UOp): number {
  u = throughAfter(u);
  return u.op === Ops.CONST ? 0 : w.notes.get(u) ?? 8;
}

/** The text of a mask with lanes of `bits`. */
export function mask(w: CWriter, u: UOp, text: string, bits: number): string {
  const from = maskBits(w, u), type = maskType(w, bits, u.dtype.count);
  if (from === bits) return text;
  if (from === 0) return u.isConst(0) ? `(${type}){}` : `(~(${type}){})`;
  return `__builtin_convertvector(${text}, ${type})`;
}

/** The bits that a bool op's result has: those of its first source that is no constant. */
export function commonBits(w: CWriter, src: readonly UOp[]): number {
  for (const s of src) {
    const bits = maskBits(w, s);
    if (bits !== 0) return bits;
  }
  return 8;
}

/** What `notes` holds for an integer of 32 bits that is kept in 64: a loop's, and what is computed of such in range. */
export const WIDE = 64;
const WIDE_TYPE = "long long";

function isWide(w: CWriter, u: UOp): boolean {
  u = throughAfter(u);
  return u.dtype === dtypes.int32 && w.notes.get(u) === WIDE;
}
/** Notes that `u` is kept in 64 bits if one of `src` is. */
export function widenLike(w: CWriter, u: UOp, src: readonly UOp[]): void {
  if (u.dtype === dtypes.int32 && src.some((s) => isWide(w, s))) w.notes.set(u, WIDE);
}

export function type(w: CWriter, d: DType, bits = 8): string {
  if (!isVector(d)) return d === dtypes.int32 && bits === WIDE ? WIDE_TYPE : scalarType(d);
  return isMask(d) ? maskType(w, bits, d.count) : vectorType(w, d);
}

/** An integer constant of any width. */
export function integerLiteral(d: DType, value: ConstValue): string {
  if (d.bits === 64) {
    const x = value instanceof Int64 ? value.toBigInt() : BigInt(Math.trunc(value));
    if (d.isUnsigned) return `${BigInt.asUintN(64, x)}ull`;
    if (x === -(1n << 63n)) return "(-9223372036854775807ll - 1)";
    return x < 0n ? `(${x}ll)` : `${x}ll`;
  }
  const x = value instanceof Int64 ? Number(value.toBigInt()) : value;
  if (d === dtypes.uint32) return `${x >>> 0}u`;
  if (x === -2147483648) return "(-2147483647 - 1)";
  return x < 0 ? `(${x})` : `${x}`;
}

/** A float32, float64 or float16 constant. */
export function floatLiteral(d: DType, value: number): string {
  const wide = d === dtypes.float64, suffix = wide ? "" : "f", x = wide ? value : Math.fround(value);
  if (x !== x) return `__builtin_nan${suffix}("")`;
  if (!Number.isFinite(x)) return x > 0 ? `__builtin_inf${suffix}()` : `(-__builtin_inf${suffix}())`;
  const digits = String(x), text = `${/[.e]/.test(digits) ? digits : `${digits}.0`}${suffix}`;
  if (d === dtypes.float16) return `((_Float16)${text})`;
  if (x < 0) return `(${text})`;
  return Object.is(x, -0) ? `(-0.0${suffix})` : text;
}

export function literal(w: CWriter, d: DType, value: ConstValue): string {
  const s = d.scalar;
  if (isMask(d)) return value === 0 ? `(${maskType(w, 8, d.count)}){}` : `(~(${maskType(w, 8, d.count)}){})`;
  const text = s.isFloat ? floatLiteral(s, value as number) : integerLiteral(s, value);
  return isVector(d) ? splat(w, d, text) : text;
}

export function splat(w: CWriter, d: DType, text: string): string {
  if (/^0(\.0f?)?(u|ll|ull)?$/.test(text)) return `(${type(w, d)}){}`;
  return `SPLAT(${type(w, d)}, ${scalarType(d.scalar)}, ${text})`;
}

/** The type whose arithmetic wraps. */
export function wrappingType(w: CWriter, d: DType): string {
  return type(w, d.bits < 32 && !isVector(d) ? dtypes.uint32 : UNSIGNED[d.bits].vec(d.count));
}
