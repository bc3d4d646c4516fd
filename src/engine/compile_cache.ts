/**
 * From kernel ASTs to programs: lowered once for each structure and device, compiled together for a schedule.
 *
 * @module
 */
import { toProgram } from "../codegen/to_program.ts";
import type { Device } from "../device/device.ts";
import type { Program } from "../device/program.ts";
import { envNumber } from "../helpers/env.ts";
import { type GraphKey, graphKey, sameKey } from "../schedule/key.ts";
import type { UOp } from "../uop/uop.ts";

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
    const linear = missing.map((m) => toProgram(m.ast, device.renderer));
    const lowered = performance.now();
    const programs = device.compiler.compile(linear);
    compileStats.lowered += missing.length;
    compileStats.lowerMs += lowered - start;
    compileStats.compileMs += performance.now() - lowered;
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
