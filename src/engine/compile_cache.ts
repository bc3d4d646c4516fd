/**
 * From kernel ASTs to programs: lowered once for each structure and device, compiled together for a schedule.
 *
 * @module
 */
import { toProgram } from "../codegen/to_program.ts";
import type { Device } from "../device/device.ts";
import type { Program } from "../device/program.ts";
import { envNumber } from "../helpers/env.ts";
import type { LinearProgram } from "../renderer/renderer.ts";
import { type GraphKey, graphKey, sameKey } from "../schedule/key.ts";
import { specKernel, specLinear, verify } from "../uop/spec.ts";
import type { UOp } from "../uop/uop.ts";
import { debugCompile, debugRewrites } from "./debug.ts";

interface Known {
  readonly key: GraphKey;
  readonly program: Program;
}

const known = new Map<number, Known[]>();

/** Kernels lowered and compiled so far in this process. */
export const compileStats: { lowered: number; lowerMs: number; compileMs: number } = {
  lowered: 0,
  lowerMs: 0,
  compileMs: 0,
};

/** The linear program of a kernel AST; both checked under SPEC=1. @throws {SpecError} */
function lowered(ast: UOp, device: Device): LinearProgram {
  if (envNumber("SPEC") === 0) return toProgram(ast, device.renderer);
  verify(ast, specKernel, "after scheduling");
  const linear = toProgram(ast, device.renderer);
  verify(linear.uops, specLinear, `of ${linear.name}`);
  return linear;
}

/** The programs of kernel ASTs on a device; those not seen before are compiled in one call. */
export function compileKernels(device: Device, asts: readonly UOp[]): Program[] {
  const out: (Program | undefined)[] = [];
  const missing: { key: GraphKey; ast: UOp; at: number[] }[] = [];
  asts.forEach((ast, i) => {
    const key = graphKey([ast], [device.name, envNumber("NOOPT")], true);
    const hit = known.get(key.hash)?.find((k) => sameKey(k.key, key));
    if (hit !== undefined) {
      out[i] = hit.program;
      return;
    }
    const twin = missing.find((m) => sameKey(m.key, key));
    if (twin !== undefined) twin.at.push(i);
    else missing.push({ key, ast, at: [i] });
  });
  if (missing.length > 0) {
    const start = performance.now();
    const linear = debugRewrites(() => missing.map((m) => lowered(m.ast, device)));
    const between = performance.now();
    const programs = device.compiler.compile(linear);
    const lowerMs = between - start, compileMs = performance.now() - between;
    compileStats.lowered += missing.length;
    compileStats.lowerMs += lowerMs;
    compileStats.compileMs += compileMs;
    if (envNumber("DEBUG") >= 1) debugCompile(device, missing.length, lowerMs, compileMs);
    missing.forEach((m, j) => {
      for (const i of m.at) out[i] = programs[j];
      const bucket = known.get(m.key.hash);
      const entry = { key: { ...m.key, order: [] }, program: programs[j] };
      if (bucket === undefined) known.set(m.key.hash, [entry]);
      else bucket.push(entry);
    });
  }
  return out as Program[];
}
