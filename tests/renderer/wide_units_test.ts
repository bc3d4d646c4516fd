/** Products side by side that are one instruction: values by the interpreter of PTX, what becomes one, and what does not. */
import { assertEquals } from "@std/assert";
import { toProgram } from "../../src/codegen/to_program.ts";
import { withOpts } from "../../src/codegen/opt/opt.ts";
import { dtypes } from "../../src/dtype/dtype.ts";
import { cudaCaps } from "../../src/renderer/cuda_caps.ts";
import { PtxRenderer } from "../../src/renderer/ptx/ptx.ts";
import type { LinearProgram } from "../../src/renderer/renderer.ts";
import { productKernel, type ProductOptions } from "../codegen/products.ts";
import { integers, opts, paramsOf, run } from "../codegen/harness.ts";
import { runPtx } from "../fuzz/ptx.ts";
import { assemble, available, type Language } from "./assemble.ts";

const HOPPER = new PtxRenderer(cudaCaps({ arch: "sm_90a", hasTensorMaps: true }), "sm_90a");
const { bfloat16, float16, int8 } = dtypes, made: LinearProgram[] = [];

/** The unit of so many columns, by number. */
function unitOf(dtype: typeof bfloat16, columns: number): number {
  return HOPPER.caps.grid!.tensorCores.findIndex((c) => c.shared !== undefined && c.input === dtype && c.n === columns);
}

/** Columns of the products of a kernel, each once. */
function columnsIn(p: LinearProgram): number[] {
  const found = HOPPER.body(p, "k").matchAll(/wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k/g);
  return [...new Set([...found].map((m) => Number(m[1])))];
}

const CASES: readonly (readonly [
  name: string,
  sides: readonly [number, number, number],
  columns: number,
  more: string,
  want: readonly number[],
  options?: ProductOptions,
])[] = [
  ["three of 64 columns", [64, 192, 128], 64, "UPCAST:1:3", [192]],
  ["three of 64 columns along the sum", [64, 192, 128], 64, "UPCAST:1:3", [192], { transposeB: true }],
  ["rows above each other", [256, 192, 128], 64, "UPCAST:0:2 LOCAL:0:2 UPCAST:1:3", [192], { bias: true }],
  ["a left operand along its rows", [128, 128, 128], 64, "UPCAST:0:2 UPCAST:1:2", [128], { transposeA: true }],
  ["two of 128 columns", [64, 256, 128], 128, "UPCAST:1:2", [256], { dtype: float16 }],
  ["no more than 256 columns", [64, 320, 128], 64, "UPCAST:1:5", [256, 64]],
  ["three of 128 columns", [64, 384, 128], 128, "UPCAST:1:3", [256, 128], { transposeB: true }],
  ["columns of two groups of lanes", [64, 128, 128], 64, "LOCAL:1:2", [64]],
  ["bytes", [64, 192, 256], 64, "UPCAST:1:3", [192], { dtype: int8, transposeB: true }],
];
for (const [name, [m, n, k], columns, more, want, options] of CASES) {
  Deno.test(`wide units: ${name}`, () => {
    const dtype = options?.dtype ?? bfloat16, ast = productKernel(m, n, k, { dtype, ...options });
    const stages = [1, 2].map((input) => `STAGE:${input}:ring=2`).join(" ");
    const p = toProgram(withOpts(ast, opts(`TC:${unitOf(dtype, columns)} ${more} UNROLL:0:4 ${stages}`)), HOPPER);
    made.push(p);
    assertEquals(columnsIn(p), want);
    if (dtype === int8) return; // which the interpreter does not multiply
    const data = integers(paramsOf(ast)), [all] = run(ast, data, [], {});
    assertEquals(runPtx(p, data, [])[0], all);
  });
}

for (const language of ["PTX", "CUDA C"] as Language[]) {
  Deno.test({
    name: `wide units: ${language} assembles by ptxas, and no product waits for another`,
    ignore: !available[language],
    fn: () => assemble(language, made, "sm_90a"),
  });
}
