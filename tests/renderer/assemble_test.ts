/**
 * Everything that is rendered for CUDA devices assembles: programs written by hand, the kernels of code generation's tests
 * with and without opts, and what schedules of the golden cases make. No GPU is needed. ASSEMBLE=all takes every golden
 * case, else every twelfth.
 */
import { assert } from "@std/assert";
import { context, Tensor } from "../../mod.ts";
import { makeNullDevice, nullBackend } from "../../backends/null/null.ts";
import { toProgram } from "../../src/codegen/to_program.ts";
import { registerBackend } from "../../src/device/device.ts";
import { toDType } from "../../src/dtype/dtype.ts";
import { CudaRenderer } from "../../src/renderer/c/cuda_c.ts";
import { cudaCaps } from "../../src/renderer/cuda_caps.ts";
import { PtxRenderer } from "../../src/renderer/ptx/ptx.ts";
import type { LinearProgram, Renderer } from "../../src/renderer/renderer.ts";
import { KERNELS } from "../codegen/kernels.ts";
import { type Program, programOf } from "../golden/golden_cases.ts";
import { VIEWS } from "../golden/golden_families.ts";
import { ARCHS, assemble, available, type Language, LANGUAGES } from "./assemble.ts";
import { gpuPrograms } from "./gpu_programs.ts";

const caps = cudaCaps({ arch: "sm_90a" });
const renderers: Record<Language, Renderer> = {
  PTX: new PtxRenderer(caps, "sm_90a"),
  "CUDA C": new CudaRenderer(caps, 90),
};
const languages = Object.keys(LANGUAGES) as Language[];

/** What the NULL device of each language was given to compile. */
const recorded: Record<Language, LinearProgram[]> = { PTX: [], "CUDA C": [] };
registerBackend({
  ...nullBackend,
  open: (n) => {
    const language = languages[n];
    const render = (p: LinearProgram): string => `${recorded[language].push(p)}`;
    return makeNullDevice({ name: language, caps: renderers[language].caps, render }, n === 0 ? "NULL" : `NULL:${n}`);
  },
});

interface Case {
  readonly name: string;
  readonly inputs: readonly (readonly [dtype: string, shape: readonly number[], values: unknown, view?: string])[];
  readonly grads?: readonly unknown[];
}
const cases: Case[] = JSON.parse(Deno.readTextFileSync(new URL("../fixtures/golden/golden.json", import.meta.url)));

/** Gradients of a weighted sum; none where it does not depend on all of `wanted`. */
function gradients(out: Tensor, wanted: readonly Tensor[]): readonly Tensor[] {
  if (wanted.length === 0) return [];
  const loss = out.mul(Tensor.empty(out.shape, { device: out.device })).sum();
  try {
    return loss.gradient([...wanted]);
  } catch {
    return [];
  }
}

/** Schedules a case on a device; false where that fails, as where shapes depend on data, which NULL does not have. */
async function schedule(c: Case, device: string): Promise<boolean> {
  const inputs = c.inputs.map(([dtype, shape, , view = ""]) => {
    const t = Tensor.empty(shape, { dtype: toDType(dtype), device });
    return VIEWS[view]?.(t) ?? t;
  });
  try {
    const out = await programOf(c.name)(...inputs as Parameters<Program>);
    const outputs: readonly Tensor[] = out instanceof Tensor ? [out] : out;
    Tensor.realize([
      ...outputs,
      ...gradients(outputs[0], inputs.filter((_, i) => c.grads !== undefined && c.grads[i] !== null)),
    ]);
    return true;
  } catch {
    return false;
  }
}

const all = Deno.env.get("ASSEMBLE") === "all";
let kernels = 0, left = 0;

for (const language of languages) {
  const ignore = !available[language], tool = LANGUAGES[language];
  const programs = new Map<string, () => LinearProgram[] | Promise<LinearProgram[]>>([
    ["written by hand", () => gpuPrograms(language === "CUDA C")],
    [
      "of the tests of code generation",
      () =>
        [0, 1].flatMap((NOOPT) =>
          context({ NOOPT }, () => Object.values(KERNELS).map((k) => toProgram(k, renderers[language])))
        ),
    ],
    ["of golden cases", async () => {
      const device = language === languages[0] ? "NULL" : "NULL:1";
      const chosen = cases.filter((_, i) => all || i % 12 === 0);
      let scheduled = 0;
      for (const c of chosen) if (await context({ DEV: device }, () => schedule(c, device))) scheduled++;
      assert(scheduled > chosen.length * 0.95, `${scheduled} of ${chosen.length} cases were scheduled`);
      return recorded[language];
    }],
  ]);
  for (const [what, make] of programs) {
    if (ignore) left += ARCHS.length;
    Deno.test({
      name: `assemble: ${language} ${what}, by ${tool}`,
      ignore,
      fn: async () => {
        const list = await make();
        assert(list.length > 50, `${list.length} kernels`);
        for (const arch of ARCHS) {
          await assemble(language, list, arch);
          kernels += list.length;
          console.log(`assemble: ${list.length} kernels in ${language} ${what} for ${arch}`);
        }
      },
    });
  }
}

Deno.test("assemble: what was done and what was left out", () => {
  console.log(`assemble: ${kernels} kernels assembled for ${ARCHS.join(" and ")}, ${left} checks left out`);
  assert(kernels > 0 || left === ARCHS.length * languages.length * 3);
});
