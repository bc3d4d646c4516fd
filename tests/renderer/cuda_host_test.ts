/**
 * What the CUDA C renderer writes means what the program says: every program written by hand, and the kernels of code
 * generation's tests, compiled as C++ for the CPU, give what the JS device gives.
 */
import { assertEquals } from "@std/assert";
import { context } from "../../mod.ts";
import { toProgram } from "../../src/codegen/to_program.ts";
import { groupsOf } from "../../src/device/program.ts";
import { CudaRenderer } from "../../src/renderer/cuda.ts";
import type { LinearProgram } from "../../src/renderer/renderer.ts";
import { KERNELS } from "../codegen/kernels.ts";
import { compileForHost, hostCompiler } from "./cuda_host.ts";
import { gpuPrograms } from "./gpu_programs.ts";
import { caps, checkPrograms, type Draw, drawOf } from "./oracle.ts";

const renderer = new CudaRenderer(caps, 90);
const kernels = (): LinearProgram[] => Object.values(KERNELS).map((k) => toProgram(k, renderer));
const whole = (): Draw => "whole";
const SUITES: [what: string, make: () => LinearProgram[], draw: (p: LinearProgram) => Draw][] = [
  ["programs written by hand", () => gpuPrograms(true), drawOf],
  ["kernels of code generation", kernels, whole],
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
