/**
 * The promotion lattice of PARITY.md section 3.2: result dtype = least upper bound. Scalars of JavaScript are weak:
 * they take the tensor's dtype unless their kind is higher (int tensor + 1.5 is the default float).
 *
 * @module
 */
import { envText } from "../helpers/env.ts";
import { DTypeError } from "../helpers/errors.ts";
import { roundFloat } from "./convert.ts";
import { type DType, dtypes, leastInt, mostInt, toDType } from "./dtype.ts";

const { bool, int8, uint8, int16, uint16, int32, uint32, int64, uint64, float16, bfloat16, float32, float64 } = dtypes;
const { fp8e4m3, fp8e5m2, complex64, complex128 } = dtypes;

/** Directed edges of the lattice, but for its weak float, which is {@linkcode defaultFloat} where integers meet there. */
const UP: readonly (readonly [DType, readonly DType[]])[] = [
  [bool, [int8, uint8]],
  [int8, [int16]],
  [uint8, [int16, uint16]],
  [int16, [int32]],
  [uint16, [int32, uint32]],
  [int32, [int64]],
  [uint32, [int64, uint64]],
  [int64, [fp8e4m3, fp8e5m2]],
  [uint64, [fp8e4m3, fp8e5m2]],
  [fp8e4m3, [float16, bfloat16]],
  [fp8e5m2, [float16, bfloat16]],
  [float16, [float32]],
  [bfloat16, [float32]],
  [float32, [float64, complex64]],
  [float64, [complex128]],
  [complex64, [complex128]],
  [complex128, []],
];

const above: Set<DType>[] = [];
for (const [d] of [...UP].reverse()) {
  const set = new Set<DType>([d]);
  for (const up of UP.find(([x]) => x === d)![1]) for (const x of above[up.id]) set.add(x);
  above[d.id] = set;
}

/** The dtype of floating-point values without one: float32 unless DEFAULT_FLOAT says otherwise. */
export function defaultFloat(): DType {
  return defaultOf("DEFAULT_FLOAT", "isFloat");
}

/** The dtype of integers without one: int32 unless DEFAULT_INT says otherwise. */
export function defaultInt(): DType {
  return defaultOf("DEFAULT_INT", "isInt");
}

/** The dtype that a context variable names. @throws {DTypeError} for one of another kind */
function defaultOf(name: "DEFAULT_FLOAT" | "DEFAULT_INT", kind: "isFloat" | "isInt"): DType {
  const dtype = toDType(envText(name));
  if (dtype[kind] && !dtype.isComplex) return dtype;
  const reason = `${name} takes ${kind === "isInt" ? "an integer" : "a float"} dtype`;
  throw new DTypeError("take as a default dtype", { dtypes: [dtype], reason });
}

const table: DType[] = [];

/** The lowest dtype above both: of integers that no integer dtype holds (uint64 and a signed one) a float. */
function join(a: DType, b: DType): DType {
  const key = (a.id << 5) | b.id;
  let best: DType | undefined = table[key];
  if (best === undefined) {
    for (const d of above[a.id]) if (above[b.id].has(d) && (best === undefined || d.priority < best.priority)) best = d;
    table[key] = best!;
  }
  return best!;
}

/** Least upper bound of two scalar dtypes. uint64 with a signed integer gives the default float. */
export function promote(a: DType, b: DType): DType {
  if (a === b) return a;
  const d = join(a, b);
  return d.isFloat && !a.isFloat && !b.isFloat ? defaultFloat() : d;
}

/** Least upper bound of several dtypes, in any order: beside a float the integers do not count. */
export function promoteAll(ds: readonly DType[]): DType {
  if (ds.length < 3) return promote(ds[0], ds[ds.length - 1]);
  const floats = ds.filter((d) => d.isFloat), [first, ...rest] = floats.length > 0 ? floats : ds;
  let best = complex128;
  for (const d of above[first.id]) if (d.priority < best.priority && rest.every((r) => above[r.id].has(d))) best = d;
  return best.isFloat && floats.length === 0 ? defaultFloat() : best;
}

/** Whether a whole number is a value of an integer dtype. */
export function holdsWhole(d: DType, x: number | bigint): boolean {
  return x >= leastInt(d) && x <= mostInt(d);
}

/** Whether a number is an integer to JavaScript's eye: -0 is not, which only a float holds. */
export function isWhole(x: number): boolean {
  return Number.isInteger(x) && !Object.is(x, -0);
}

/** Whether a whole number is an int32. */
export function isInt32(x: number): boolean {
  return x >= -(2 ** 31) && x < 2 ** 31;
}

/**
 * The dtype of a tensor of dtype `d` with a JavaScript scalar, which is weak: a float tensor keeps its dtype; a fraction
 * (and -0, NaN, infinity) makes integers the default float. A whole number takes an integer dtype that holds it, and, up to
 * 2^31, wraps in one that does not. Larger ones: beside uint32 they are int64; beside uint64 they wrap if negative;
 * else they are floats, unless the default float would round them, which makes them int64.
 */
export function promoteScalar(d: DType, x: number | boolean | bigint): DType {
  if (d.isFloat || typeof x === "boolean") return d;
  if (typeof x === "bigint") return d.isInt ? d : int64;
  if (!isWhole(x)) return defaultFloat();
  if (d.isInt && holdsWhole(d, x)) return d;
  if (Math.abs(x) < 2 ** 31) return d.isBool ? defaultInt() : d;
  if (d.bits === 64) return d.isUnsigned && x < 0 ? d : defaultFloat();
  return d === uint32 && holdsWhole(int64, x) ? int64 : scalarDType(x);
}

/** The dtype of a JavaScript scalar that stands alone: as beside bools. */
export function scalarDType(x: number | boolean | bigint): DType {
  if (typeof x === "boolean") return bool;
  if (typeof x === "bigint") return int64;
  if (!isWhole(x)) return defaultFloat();
  if (isInt32(x)) return defaultInt();
  const float = defaultFloat();
  return roundFloat(float, x) !== x && holdsWhole(int64, x) ? int64 : float;
}

/** The dtype in which a float function of `d` is computed: floats stay, others take the default float. */
export function floatOf(d: DType): DType {
  return d.isFloat ? d : defaultFloat();
}

/** Accumulator of a sum: bool and signed at least int32, unsigned at least uint32, small floats float32. */
export function sumDType(d: DType): DType {
  if (d.isFloat) return promote(d, float32);
  return d.isUnsigned ? promote(d, uint32) : promote(d, int32);
}

/** The dtype of a sum, product or scan: floats stay, bools and integers have that of the accumulator. */
export function sumOf(d: DType): DType {
  return d.isFloat ? d : sumDType(d);
}

/** True when every value of `from` is a value of `to`. */
export function isLossless(from: DType, to: DType): boolean {
  if (from === to || from.isBool) return true;
  if (from.isFloat) return to.isFloat && above[from.id].has(to);
  if (to.isFloat) {
    return to.bits > 8 && from.bits < (to === float64 ? 64 : to === float32 ? 32 : to === float16 ? 16 : 9);
  }
  if (to.isBool) return false;
  return from.isUnsigned
    ? to.bits > from.bits || (to.isUnsigned && to.bits >= from.bits)
    : !to.isUnsigned && to.bits >= from.bits;
}
