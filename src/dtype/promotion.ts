/**
 * The promotion lattice of PARITY.md section 3.2: result dtype = least upper bound. Scalars of JavaScript are weak:
 * they take the tensor's dtype unless their kind is higher (int tensor + 1.5 is the default float).
 *
 * @module
 */
import { type DType, DTYPES, dtypes, toDType } from "./dtype.ts";
import { envText } from "../helpers/env.ts";
import { DTypeError } from "../helpers/errors.ts";

const { bool, int8, uint8, int16, uint16, int32, uint32, int64, uint64, float16, bfloat16, float32, float64 } = dtypes;
const { fp8e4m3, fp8e5m2 } = dtypes;

/** Directed edges of the lattice. int64 and uint64 meet at the default float, as in JAX. */
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
  [float32, [float64]],
  [float64, []],
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
  if (dtype[kind]) return dtype;
  const reason = `${name} takes ${kind === "isInt" ? "an integer" : "a float"} dtype`;
  throw new DTypeError("take as a default dtype", { dtypes: [dtype], reason });
}

const table: (DType | undefined)[] = [];

/** Least upper bound of two scalar dtypes. int64 with uint64 gives the default float. */
export function promote(a: DType, b: DType): DType {
  if (a === b) return a;
  if (a.isInt && b.isInt && a.bits === 64 && b.bits === 64) return defaultFloat();
  const key = a.id * DTYPES.length + b.id;
  let best = table[key];
  if (best === undefined) {
    for (const d of above[a.id]) if (above[b.id].has(d) && (best === undefined || d.priority < best.priority)) best = d;
    table[key] = best;
  }
  return best!;
}

/** Least upper bound of several dtypes. */
export function promoteAll(ds: readonly DType[]): DType {
  return ds.reduce(promote);
}

/** The dtype of a tensor of dtype `d` with a JavaScript scalar of `kind`: the scalar is weak. */
export function promoteScalar(d: DType, kind: "bool" | "int" | "float" | "bigint"): DType {
  if (kind === "bool") return d;
  if (kind === "float") return d.isFloat ? d : defaultFloat();
  if (kind === "bigint") return d.isFloat || d.isInt ? d : int64;
  return d.isBool ? defaultInt() : d;
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
