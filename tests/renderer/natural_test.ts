import { assertStrictEquals } from "@std/assert";
import { dtypes } from "../../src/dtype/dtype.ts";
import { naturalExponent } from "../../src/renderer/natural.ts";
import { variable } from "../../src/uop/core/uop.ts";

const { float16, float32, float64 } = dtypes;
const x = variable("x", -1, 1, float32), y = variable("y", -1, 1, float64), half = variable("h", -1, 1, float16);

for (
  const [name, u, want] of [
    ["e^x", x.mul(Math.fround(Math.LOG2E)).exp2(), x],
    ["e^y in float64", y.mul(Math.LOG2E).exp2(), y],
    ["2^x", x.exp2(), undefined],
    ["another base", x.mul(2).exp2(), undefined],
    ["the constant of another dtype", y.mul(Math.fround(Math.LOG2E)).exp2(), undefined],
    ["float16, which is computed in float32", half.mul(Math.fround(Math.LOG2E)).exp2(), undefined],
    ["no power", x.mul(Math.fround(Math.LOG2E)), undefined],
  ] as const
) Deno.test(`natural exponents: ${name}`, () => assertStrictEquals(naturalExponent(u), want));
