/**
 * From a kernel AST to a linear program: the passes, the linearizer, and the limits of the device.
 *
 * @module
 */
import { dtypes } from "../dtype/dtype.ts";
import { envNumber } from "../helpers/env.ts";
import { DeviceError } from "../helpers/errors.ts";
import { type LinearProgram, programOf, type Renderer } from "../renderer/renderer.ts";
import { hasPhases } from "../uop/algebra/row_phases.ts";
import type { ParamArg } from "../uop/core/args.ts";
import { TextArg } from "../uop/core/custom_arg.ts";
import { Ops } from "../uop/core/ops.ts";
import { specKernel, specLinear, verify } from "../uop/core/spec.ts";
import { constant, renewedGraph, type UOp, uop } from "../uop/core/uop.ts";
import { runPass } from "../uop/rewrite/record.ts";
import { runPasses } from "../uop/rewrite/rewrite.ts";
import { joinPrograms, type PhaseKernels, phaseKernels } from "./late/join_phases.ts";
import { keyedKernels } from "./late/keyed_loops.ts";
import { linearize } from "./late/program_order.ts";
import { batchProducts } from "./late/unit_batches.ts";
import { nameOf, type Work, workOf } from "./machine/estimate.ts";
import { excessOf } from "./machine/group_limits.ts";
import { optsText } from "./opt/opt.ts";
import { KERNEL_PASSES, KernelState } from "./passes.ts";

function programOfKernel(ast: UOp, renderer: Renderer): LinearProgram {
  if (envNumber("SPEC") !== 0) verify(ast, specKernel, "before codegen");
  if (!renderer.caps.hasGrid && hasPhases(ast)) {
    const work = workOf(ast);
    return { ...programOfPhases(ast, phaseKernels(ast), work, renderer), ...streaming(work.bytes, renderer) };
  }
  const keyed = keyedKernels(ast, renderer.caps);
  if (keyed !== undefined) return programOfPhases(ast, keyed, keyed.kernels.map(workOf).reduce(addWork), renderer);
  const kernel = new KernelState(ast, renderer), uops = listOf(ast, kernel);
  const { flops, bytes } = workOf(kernel.simple), opts = optsText(kernel.applied);
  return { ...programOf(nameOf(kernel.optimized), uops, flops, bytes), opts, ...streaming(bytes, renderer) };
}

/** Do the results of a kernel that touches so many bytes go past the caches? */
function streaming(bytes: number, { caps }: Renderer): Pick<LinearProgram, "streams"> {
  return bytes >= (caps.streamedBytes ?? Infinity) ? { streams: true } : {};
}

/** The ordered list of a kernel. */
function listOf(ast: UOp, kernel: KernelState): readonly UOp[] {
  const lowered = runPasses(KERNEL_PASSES, ast, kernel);
  const list = (uops: readonly UOp[]): UOp => uop(Ops.TUPLE, dtypes.void, uops);
  const uops = runPass("linearize", () => lowered, () => batchProducts(linearize(lowered, kernel.caps.hasGrid)), list);
  if (envNumber("SPEC") !== 0) verify(uops, specLinear, "after linearize");
  return uops;
}

const alone = new WeakMap<Renderer, Renderer>();

/** The device as one thread of it sees it. */
function oneThread(renderer: Renderer): Renderer {
  let one = alone.get(renderer);
  if (one === undefined) {
    const { name, caps } = renderer;
    alone.set(renderer, one = { name, caps: { ...caps, threads: 1 }, render: (p) => renderer.render(p) });
  }
  return one;
}

/** The work of steps that are found here: what one stores and another reads counts for both. */
function addWork(a: Work, b: Work): Work {
  return { flops: a.flops + b.flops, bytes: a.bytes + b.bytes };
}

/** A kernel of several phases where loops run it: threads share its blocks. */
function programOfPhases(ast: UOp, phases: PhaseKernels, { flops, bytes }: Work, renderer: Renderer): LinearProgram {
  const one = oneThread(renderer);
  const uops = joinPrograms(phases, phases.kernels.map((k) => listOf(k, new KernelState(k, one))));
  if (envNumber("SPEC") !== 0) verify(uops, specLinear, "after phases are joined");
  return { ...programOf(nameOf(ast), uops, flops, bytes), opts: "" };
}

/** The program of a kernel that is given as text. @throws {DeviceError} where the device compiles another language */
function textProgram(ast: UOp, arg: TextArg, { name }: Renderer): LinearProgram {
  const { language, entry, text, written, groups, threads } = arg;
  if (name !== language) {
    throw new DeviceError(`run kernel ${entry}`, {
      device: name,
      reason: `it is written in ${language}, and the device compiles ${name}`,
    });
  }
  const params = ast.src.map(({ dtype, arg }, slot) => {
    const writes = written.includes(slot), { size } = arg as ParamArg;
    return { slot, dtype, size, reads: true, writes };
  });
  const bytes = params.reduce((sum, p) => sum + p.size * p.dtype.itemsize, 0);
  const [x, y, z] = groups.map((n) => constant(n, dtypes.int32));
  const grid = { groups: [x, y, z], size: threads } as const;
  return { name: entry, uops: [], params, vars: [], threads: 1, grid, flops: 0, bytes, text };
}

/**
 * Compiles a kernel AST (spec "kernel") to a linear program (spec "linear") for a device. Deterministic.
 *
 * @throws {DeviceError} for a program that the device has not the memory, threads or bindings for
 */
export function toProgram(ast: UOp, renderer: Renderer): LinearProgram {
  const { name: device, caps } = renderer;
  const isText = ast.arg instanceof TextArg;
  const program = isText ? textProgram(ast, ast.arg, renderer) : programOfKernel(renewedGraph(ast), renderer);
  const reason = excessOf(program, caps);
  if (reason !== undefined) throw new DeviceError(`compile kernel ${program.name}`, { device, reason });
  return program;
}
