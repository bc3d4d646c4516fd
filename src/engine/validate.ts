/**
 * Comparing what a device computed with what the interpreter did: VALIDATE_WITH_JS.
 *
 * @module
 */
import { bf16BitsToF32, fp8BitsToF32 } from "../dtype/convert.ts";
import { f16Value } from "../dtype/float16.ts";
import { type DType, dtypes, smallFloatOf } from "../dtype/dtype.ts";
import { argOf } from "../uop/core/args.ts";
import { isAlu, Ops } from "../uop/core/ops.ts";
import { toposort, type UOp } from "../uop/core/uop.ts";

/**
 * How far floats may be apart, relative to the largest of 1, their size and the mean size of all: sums are taken in another
 * order, and where terms cancel, what others come to is nearer to the size of the terms than what is left. Over the golden
 * cases kernels of WASM and CLANG were 1.2e-4 apart in float32, 4.4e-16 in float64, and never in less bits, where two roundings are
 * left for sums that fall to either side of a tie.
 */
function toleranceOf(dtype: DType): number | undefined {
  const small = smallFloatOf(dtype);
  if (small !== undefined) return 2 ** (1 - small.mantissa);
  return dtype === dtypes.float64 ? 1e-12 : dtype === dtypes.float32 ? 4.8e-4 : undefined;
}

function floatAt(view: DataView, i: number, dtype: DType): number {
  if (dtype === dtypes.float64) return view.getFloat64(i * 8, true);
  if (dtype === dtypes.float32) return view.getFloat32(i * 4, true);
  if (dtype.bits === 8) return fp8BitsToF32(view.getUint8(i), dtype);
  const bits = view.getUint16(i * 2, true);
  return dtype === dtypes.float16 ? f16Value(bits) : bf16BitsToF32(bits);
}

/** The dtype with fewest bits that `value` is rounded to on the way: sums that fall to either side of a tie differ there. */
export function roundedTo(value: UOp): DType {
  let least = value.dtype;
  const bits = (d: DType): number => smallFloatOf(d)?.mantissa ?? Infinity;
  for (const u of toposort(value)) {
    if ((isAlu(u.op) || u.op === Ops.REDUCE) && bits(u.dtype) < bits(least)) least = u.dtype;
  }
  return least;
}

/** By slot of a kernel AST: what is stored there is rounded to this on the way. */
export function roundedOf(ast: UOp): Map<number, DType> {
  const found = new Map<number, DType>();
  for (const u of toposort(ast)) {
    if (u.op !== Ops.STORE || u.src[0].op !== Ops.INDEX || u.src[0].src[0].op !== Ops.PARAM) continue;
    found.set(argOf(u.src[0].src[0], Ops.PARAM).slot, roundedTo(u.src[1]));
  }
  return found;
}

/** The mean size of what is finite among floats. */
function meanSize(view: DataView, count: number, dtype: DType): number {
  let sum = 0, finite = 0;
  for (let i = 0; i < count; i++) {
    const x = Math.abs(floatAt(view, i, dtype));
    if (x < Infinity) [sum, finite] = [sum + x, finite + 1];
  }
  return sum / Math.max(1, finite);
}

/**
 * Where two buffers of a dtype differ first, as text; undefined where they agree.
 * @param rounded what their elements were rounded to before ({@linkcode roundedTo})
 */
export function difference(
  got: Uint8Array,
  want: Uint8Array,
  dtype: DType,
  rounded: DType = dtype,
): string | undefined {
  const tolerance = dtype.isFloat ? toleranceOf(rounded) : undefined, size = dtype.itemsize;
  const a = new DataView(got.buffer, got.byteOffset, got.byteLength);
  const b = new DataView(want.buffer, want.byteOffset, want.byteLength);
  let least = NaN;
  for (let i = 0; i * size < got.byteLength; i++) {
    if (tolerance === undefined) {
      for (let k = i * size; k < (i + 1) * size; k++) {
        if (got[k] !== want[k]) return `element ${i} of ${dtype} has the byte ${got[k]}, not ${want[k]}`;
      }
      continue;
    }
    const x = floatAt(a, i, dtype), y = floatAt(b, i, dtype);
    if (Object.is(x, y) || x === y || Math.abs(x - y) <= tolerance * Math.max(1, Math.abs(y))) continue;
    if (Number.isNaN(least)) least = meanSize(b, want.byteLength / size, dtype);
    if (Math.abs(x - y) <= tolerance * least) continue;
    return `element ${i} of ${dtype} is ${x}, not ${y}`;
  }
  return undefined;
}
