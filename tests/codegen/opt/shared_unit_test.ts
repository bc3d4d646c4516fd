/** Matrix units that read their operands from shared memory: values against the scalar kernel, and races. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { type DType, dtypes } from "../../../src/dtype/dtype.ts";
import { ArgumentError } from "../../../src/helpers/errors.ts";
import { type LinearProgram } from "../../../src/renderer/renderer.ts";
import { WGMMA } from "../../../src/renderer/tensor_core_table.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import type { UOp } from "../../../src/uop/core/uop.ts";
import { SIM_GRID, simCaps } from "../../fixtures/sim.ts";
import { compile, integers, opts, paramsOf, run } from "../harness.ts";
import { productKernel } from "../products.ts";

const UNITS = [...SIM_GRID.tensorCores, ...WGMMA], GPU = simCaps({ ...SIM_GRID, tensorCores: UNITS });

function numberOf(dtype: DType, n: number): number {
  return UNITS.findIndex((c) => c.shared !== undefined && c.input === dtype && c.n === n);
}

function count(p: LinearProgram, op: Ops): number {
  return p.uops.filter((u) => u.op === op).length;
}

function expectSame(ast: UOp, text: string): LinearProgram {
  const o = opts(text), data = integers(paramsOf(ast));
  const [want] = run(ast, data, [], {}), p = compile(ast, o, GPU), [got] = run(ast, data, o, GPU, [], p);
  got.forEach((x, i) => assertEquals(x, want[i], `[${i}] under ${text}`));
  return p;
}

for (const dtype of [dtypes.bfloat16, dtypes.float16]) {
  for (const transposeA of [false, true]) {
    for (const transposeB of [false, true]) {
      const name = `${dtype} ${transposeA ? "t" : "n"}${transposeB ? "t" : "n"}`;
      Deno.test(`shared units: ${name}`, () => {
        const ast = productKernel(64, 64, 192, { dtype, transposeA, transposeB, bias: true });
        const unit = `TC:-1:${numberOf(dtype, 64)} UNROLL:0:4`;
        for (const ring of [1, 2, 3]) {
          const p = expectSame(ast, `${unit} STAGE:1:ring=${ring} STAGE:2:ring=${ring}`);
          assertEquals([count(p, Ops.WMMA), count(p, Ops.LDMATRIX), p.grid!.size[0]], [4, 0, 128]);
          assertEquals(count(p, Ops.ASYNC_COPY) > 0, ring > 1);
        }
      });
    }
  }
}
