/**
 * Floats of fewer than 32 bits in the tests of an export, where they are their bits: functions of C that give their values.
 *
 * @module
 */
import { type DType, dtypes } from "../dtype/dtype.ts";
import type { PlanArray } from "./export_plan.ts";

/** Bits of exponent and mantissa. */
function partsOf(d: DType): [exponent: number, mantissa: number] {
  if (d === dtypes.float16) return [5, 10];
  if (d === dtypes.bfloat16) return [8, 7];
  return d.name.includes("e5m2") ? [5, 2] : [4, 3];
}

/** The name of the function for a dtype. */
export function f32FromF16(d: DType): string {
  return `value_of_${d.name}`;
}

/** Functions that give what such numbers are, for the dtypes of these arrays. */
export function smallFloatText(arrays: readonly PlanArray[]): string {
  const small = new Set(arrays.map((a) => a.dtype).filter((d) => d.isFloat && d.bits < 32)), out: string[] = [];
  for (const d of small) {
    const [e, m] = partsOf(d), bias = 2 ** (e - 1) - 1, most = 2 ** e - 1;
    const type = d.bits === 16 ? "unsigned short" : "unsigned char", hasInfinity = !(e === 4 && m === 3);
    const special = hasInfinity
      ? `if (e == ${most}) return m ? NAN : sign * INFINITY;`
      : `if (e == ${most} && m == 7) return NAN;`;
    out.push(
      `static double ${f32FromF16(d)}(${type} x) {`,
      `  double sign = x >> ${e + m} ? -1 : 1;`,
      `  int e = x >> ${m} & ${most}, m = x & ${2 ** m - 1};`,
      `  ${special}`,
      `  return sign * (e ? ldexp(m + ${2 ** m}, e - ${bias + m}) : ldexp(m, ${1 - bias - m}));`,
      "}",
    );
  }
  return out.join("\n");
}
