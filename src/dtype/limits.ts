/**
 * What dtypes can hold, as PyTorch's and NumPy's `finfo` and `iinfo` tell it. In: a dtype. Out: numbers.
 *
 * @module
 */
import { DTypeError } from "../helpers/errors.ts";
import { type DType, dtypeEpsilon, type DTypeLike, leastInt, mostInt, smallFloatOf, toDType } from "./dtype.ts";

/** What {@linkcode finfo} gives. */
export interface FloatInfo {
  /** The dtype: of complex numbers that of their parts. */
  readonly dtype: DType;
  /** Bits of a value. */
  readonly bits: number;
  /** The distance from 1 to the next value. */
  readonly eps: number;
  /** The largest finite value. */
  readonly max: number;
  /** The least finite value. */
  readonly min: number;
  /** The smallest positive value with all bits of its mantissa. */
  readonly tiny: number;
  /** The same. */
  readonly smallestNormal: number;
  /** The smallest positive value. */
  readonly smallestSubnormal: number;
  /** The power of ten of the last decimal digit that it holds beside 1. */
  readonly resolution: number;
}

/** What {@linkcode iinfo} gives. */
export interface IntegerInfo {
  /** The dtype. */
  readonly dtype: DType;
  /** Bits of a value. */
  readonly bits: number;
  /** The least value: a bigint where a number would round it. */
  readonly min: number | bigint;
  /** The largest value: a bigint where a number would round it. */
  readonly max: number | bigint;
}

/**
 * The numbers of a dtype of floats.
 *
 * ```ts
 * import { finfo } from "../../mod.ts";
 * console.log(finfo("float16").max, finfo("float16").eps); // 65504 0.0009765625
 * ```
 *
 * @throws {DTypeError} for integers and bool
 */
export function finfo<N extends string>(dtype: DTypeLike<N>): FloatInfo {
  const d = toDType(dtype).real, small = smallFloatOf(d), bias = small?.bias ?? (d.bits === 64 ? 1023 : 127);
  if (!d.isFloat) throw new DTypeError("tell finfo of dtype", { dtypes: [d], reason: "it is no float; use iinfo" });
  const eps = dtypeEpsilon(d), tiny = 2 ** (1 - bias);
  // without infinities the largest exponent is one of numbers, of which the last is NaN
  const max = small?.hasInfinity === false ? (2 - 2 * eps) * 2 ** (bias + 1) : (2 - eps) * 2 ** bias;
  const smallestSubnormal = tiny * eps, resolution = Number(`1e${-Math.floor(-Math.log10(eps))}`);
  return { dtype: d, bits: d.bits, eps, max, min: -max, tiny, smallestNormal: tiny, smallestSubnormal, resolution };
}

/**
 * The numbers of a dtype of integers.
 *
 * ```ts
 * import { iinfo } from "../../mod.ts";
 * console.log(iinfo("uint8").max, iinfo("int64").min); // 255 -9223372036854775808n
 * ```
 *
 * @throws {DTypeError} for floats and bool
 */
export function iinfo<N extends string>(dtype: DTypeLike<N>): IntegerInfo {
  const d = toDType(dtype);
  if (d.isInt) return { dtype: d, bits: d.bits, min: leastInt(d), max: mostInt(d) };
  throw new DTypeError("tell iinfo of dtype", {
    dtypes: [d],
    reason: `it is no integer${d.isFloat ? "; use finfo" : ""}`,
  });
}
