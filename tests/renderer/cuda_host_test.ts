/**
 * What the CUDA C renderer writes means what the program says: every program written by hand, and the kernels of code
 * generation's tests, compiled as C++ for the CPU, give what the JS device gives.
 */
import { assert, assertEquals } from "@std/assert";
import { context, schedule, Tensor } from "../../mod.ts";
import { toProgram } from "../../src/codegen/to_program.ts";
import { groupsOf } from "../../src/device/program.ts";
import { CudaRenderer } from "../../src/renderer/c/cuda_c.ts";
import type { LinearProgram } from "../../src/renderer/renderer.ts";
import { opName, Ops } from "../../src/uop/core/ops.ts";
import { KERNELS } from "../codegen/kernels.ts";
import { compileForHost, hostCompiler } from "./cuda_host.ts";
import { gpuPrograms } from "./gpu_programs.ts";
import { caps, checkPrograms, type Draw, drawOf } from "./oracle.ts";
import { optimized } from "../fixtures/optimized.ts";

const renderer = new CudaRenderer(caps, 90);
const kernels = (): LinearProgram[] => Object.values(KERNELS).map((k) => toProgram(k, renderer));
/** Products on matrix units, staged in shared memory, and rows shared by the threads of a group. */
function scheduled(): LinearProgram[] {
  const t = (shape: number[], dtype: string) => Tensor.empty(shape, { dtype, device: "NULL" });
  const product = (dtype: string, n: number) => t([128, n], dtype).matmul(t([n, 128], dtype));
  const outputs = [
    product("bfloat16", 64),
    product("float16", 128).relu(),
    t([64, 64], "float16").matmul(t([64, 64], "float16").transpose()).add(t([64], "float16")),
    product("int8", 64),
    product("float32", 64),
    t([16, 512], "float32").sum(1),
    t([8, 512], "float16").max(1),
    t([33, 100], "float32").transpose().contiguous(),
  ];
  const items = outputs.flatMap((o) => schedule([o])).filter((i) => i.ast !== undefined);
  const programs = items.map((i) => toProgram(i.ast!, renderer));
  for (const op of [Ops.WMMA, Ops.BARRIER, Ops.SHUFFLE]) {
    assert(programs.some((p) => p.uops.some((u) => u.op === op)), `no program has ${opName[op]}`);
  }
  return programs;
}
const whole = (): Draw => "whole";
const SUITES: [what: string, make: () => LinearProgram[], draw: (p: LinearProgram) => Draw][] = [
  ["programs written by hand", () => gpuPrograms(true), drawOf],
  ["kernels of code generation", kernels, whole],
  ["kernels of schedules", optimized(scheduled), whole],
  ["plain kernels", () => context({ NOOPT: 1 }, kernels), whole],
];
for (const [what, make, draw] of SUITES) {
  Deno.test({
    name: `CUDA C as C++: ${what} give what JS gives (CLANG)`,
    ignore: hostCompiler === undefined,
    fn: async () => {
      const programs = make();
      using host = await compileForHost(programs);
      const failed = checkPrograms(programs, draw, (k) => (buffers, vars, packed) => {
        host.run(k, buffers, packed, groupsOf(programs[k], vars));
      });
      assertEquals(failed, []);
    },
  });
}
