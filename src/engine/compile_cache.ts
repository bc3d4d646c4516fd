/**
 * From kernel ASTs to programs: lowered once for each structure and device, compiled together for a schedule.
 *
 * @module
 */
import { toProgram } from "../codegen/to_program.ts";
import type { Device } from "../device/device.ts";
import type { Program } from "../device/program.ts";
import { envNumber } from "../helpers/env.ts";
import { ArgumentError, SpecError } from "../helpers/errors.ts";
import { spans, timed } from "../helpers/spans.ts";
import type { LinearProgram } from "../renderer/renderer.ts";
import { type GraphKey, graphKey, sameKey } from "../schedule/cache/graph_key.ts";
import type { TemplateItem } from "../schedule/order/template.ts";
import { StructureCache } from "../schedule/cache/structure_cache.ts";
import { notes, owesNotes, wantsNotes } from "../uop/core/notes.ts";
import { printUOp } from "../uop/core/print.ts";
import type { Work } from "../uop/core/recording.ts";
import { specKernel, specLinear, verify } from "../uop/core/spec.ts";
import type { UOp } from "../uop/core/uop.ts";
import { passTimes, runWork } from "../uop/rewrite/record.ts";
import { debugCompile, debugRewrites, passSharesText } from "./debug.ts";
import { countText, debugPrint, forgotten } from "./front/listening.ts";
import { compiling } from "./front/runners.ts";
import { tellingProgress } from "./progress.ts";
import { knownOutcome, type Outcome, searchKernel, tunedKey, whyNotTuned } from "./tuning/search.ts";

/** Kernels that are kept: a program whose schedules are kept lives on with them. */
const MAX_KERNELS = 1 << 14;

const known = new StructureCache<Program>(MAX_KERNELS);
/** Kernels by what the store of lowered kernels calls them, and their device. */
const byName = new Map<string, Program>();

/** Kernels lowered and compiled so far in this process. */
export const compileStats: { lowered: number; lowerMs: number; compileMs: number } = {
  lowered: 0,
  lowerMs: 0,
  compileMs: 0,
};

/** Is told of each kernel that a schedule runs, while `tune` looks what there is. */
export const kernelsSeen: { listener: ((device: string, ast: UOp) => void) | undefined } = { listener: undefined };
/** Kernels that run with opts of `tune` in this process, by their keys (search.ts); and how often that has changed. */
export const tunedHere: Set<string> = new Set();
/** Forgets all kernels: each is compiled anew when it is needed. */
export function forgetKernels(): void {
  forgotten.count++;
  known.clear();
  byName.clear();
}

/** Notes what measuring found for a kernel, beside what it was chosen by. */
function tellSearch(device: Device, ast: UOp, chosen: Program, { program, ratio, tried, isKnown }: Outcome): void {
  const { name, opts = "" } = program.linear, before = chosen.linear.opts || "none", when = isKnown ? " before" : "";
  const text = program === chosen
    ? `BEAM measured ${countText(tried, "list")} of opts${when}: none is faster than ${before}, which the model chose`
    : `BEAM measured ${countText(tried, "list")} of opts${when}: ${opts || "none"} took ${
      ratio.toFixed(2)
    } of the time of ${before}, which the model chose`;
  const work: Work = { kind: "kernel", number: 0, device: device.name, name, ast, made: program.linear };
  notes.listener?.({
    kind: program === chosen ? "missed" : "passed",
    node: ast,
    text,
    numbers: { tried, ratio },
    of: work,
  });
}

/** The programs of kernels under opts that were found by measuring, where there are some: BEAM finds them now. */
function tuned(device: Device, asts: readonly UOp[], chosen: readonly Program[]): Program[] {
  const width = envNumber("BEAM");
  if (!(width > 0) && tunedHere.size === 0) return [...chosen];
  const isOpen = asts.map((ast) => whyNotTuned(device, ast) === undefined), total = isOpen.filter(Boolean).length;
  if (total === 0) return [...chosen];
  return tellingProgress(device.name, total, (tell) => {
    let done = 0;
    return asts.map((ast, i) => {
      if (!isOpen[i]) return chosen[i];
      tell(done++, Infinity);
      const key = tunedKey(device, ast);
      if (!(width > 0)) {
        return (tunedHere.has(key) ? knownOutcome(device, ast, chosen[i], key) : undefined)?.program ?? chosen[i];
      }
      const outcome = searchKernel(device, ast, chosen[i], { width }), { program, problems, ratio, isKnown } = outcome;
      if (wantsNotes()) tellSearch(device, ast, chosen[i], outcome);
      if (envNumber("DEBUG") >= 1) {
        for (const p of problems) debugPrint(`BEAM leaves out ${p.kernel} under ${p.opts}: ${p.reason}`);
        if (!isKnown) {
          debugPrint(`BEAM: ${program.linear.name} takes ${ratio.toFixed(2)} of its time under ${program.linear.opts}`);
        }
      }
      return program;
    });
  }, "tuning");
}

/** {@linkcode toProgram}, unless an earlier process has done it; what goes wrong in it shows the kernel. */
function program(ast: UOp, device: Device): LinearProgram {
  try {
    return compiling.lowered.before(ast, device, () => toProgram(ast, device.renderer));
  } catch (error) {
    if (!(error instanceof SpecError || error instanceof ArgumentError)) throw error;
    throw new SpecError(`${error.message}, in a kernel for ${device.name}`, printUOp(ast, 200));
  }
}

/**
 * The linear program of a kernel AST; both checked under SPEC=1. Where there is one, to tell again why `before` is as it is.
 *
 * @throws {SpecError}
 */
function lowered(ast: UOp, device: Device, before?: LinearProgram): LinearProgram {
  const make = (): LinearProgram => {
    const made = checked(ast, device);
    return before ?? made;
  };
  return runWork({ kind: "kernel", device: device.name, ast }, make, (linear) => linear.name);
}

function checked(ast: UOp, device: Device): LinearProgram {
  if (envNumber("SPEC") === 0) return program(ast, device);
  verify(ast, specKernel, "after scheduling");
  const linear = program(ast, device);
  verify(linear.uops, specLinear, `of ${linear.name}`);
  return linear;
}

/** Lowers kernels, each by one of these, and compiles them in one call. */
function compileAll(device: Device, lowering: readonly (() => LinearProgram)[]): Program[] {
  const start = performance.now(), level = envNumber("DEBUG"), counted = level >= 2 ? passTimes() : undefined;
  let between = start;
  const made = tellingProgress(device.name, lowering.length, (progress) => {
    const linear = debugRewrites(() =>
      lowering.map((lower) => {
        progress(0, 0);
        return lower();
      })
    );
    between = performance.now();
    const name = countText(linear.length, "kernel");
    return timed("compile", name, () => device.compiler.compile(linear, progress), (programs) => (
      { device: device.name, subject: programs }
    ));
  });
  compiling.lowered.keep(made);
  const lowerMs = between - start, compileMs = performance.now() - between;
  compileStats.lowered += lowering.length;
  compileStats.lowerMs += lowerMs;
  compileStats.compileMs += compileMs;
  if (level >= 1) debugCompile(device, lowering.length, lowerMs, compileMs);
  if (counted !== undefined) debugPrint(passSharesText(counted));
  return made;
}

/** The programs of kernel ASTs on a device; those not seen before are compiled in one call. */
export function compileKernels(device: Device, asts: readonly UOp[]): Program[] {
  const out = new Map<UOp, Program>();
  const missing: { key: GraphKey; asts: UOp[] }[] = [];
  for (const ast of new Set(asts)) {
    const key = graphKey([ast], [device.name, envNumber("NOOPT"), envNumber("ALLOW_TF32"), envNumber("BEAM")], true);
    const hit = known.get(key);
    if (hit !== undefined) {
      if (owesNotes(hit)) lowered(ast, device, hit.linear);
      out.set(ast, hit);
      continue;
    }
    const twin = missing.find((m) => sameKey(m.key, key));
    if (twin !== undefined) twin.asts.push(ast);
    else missing.push({ key, asts: [ast] });
  }
  if (missing.length > 0) {
    const chosen = compileAll(device, missing.map(({ asts: [ast] }) => () => lowered(ast, device)));
    const programs = tuned(device, missing.map((m) => m.asts[0]), chosen);
    missing.forEach((m, j) => {
      for (const ast of m.asts) out.set(ast, programs[j]);
      known.add(m.key, programs[j]);
      owesNotes(programs[j]); // they are told
    });
  }
  return asts.map((ast) => out.get(ast)!);
}

/**
 * The programs of steps on a device that are kernels. Those of a schedule that was read are there by name, and no AST is
 * asked for; what is measured, watched, or missing is compiled of its AST.
 */
export function compileSteps(device: Device, steps: readonly TemplateItem[]): Program[] {
  const isOther = envNumber("BEAM") > 0 || tunedHere.size > 0 || wantsNotes();
  const read = isOther ? NONE : readPrograms(device, steps);
  const others = steps.filter(({ stored }) => stored === undefined || !read.has(stored));
  const made = compileKernels(device, others.map((s) => s.ast!));
  let n = 0;
  return steps.map(({ stored }) => (stored === undefined ? undefined : read.get(stored)) ?? made[n++]);
}

const NONE: ReadonlyMap<string, Program> = new Map();

/** The programs that the store of lowered kernels has of steps, by their names there. */
function readPrograms(device: Device, steps: readonly TemplateItem[]): ReadonlyMap<string, Program> {
  const found = new Map<string, Program>(), linear = new Map<string, LinearProgram>();
  for (const step of steps) {
    const { stored } = step, before = stored === undefined ? undefined : byName.get(`${device.name} ${stored}`);
    if (before !== undefined) found.set(stored!, before);
    if (stored === undefined || before !== undefined || linear.has(stored)) continue;
    const read = (): LinearProgram | undefined =>
      compiling.lowered.named(stored, device, () => toProgram(step.ast!, device.renderer));
    // who listens is told of the AST
    const one = spans.listener === undefined ? read() : runWork(
      { kind: "kernel", device: device.name, ast: step.ast },
      read,
      (made) => made?.name ?? "",
    );
    if (one !== undefined) linear.set(stored, one);
  }
  if (linear.size === 0) return found;
  const made = compileAll(device, [...linear.values()].map((one) => () => one));
  if (byName.size + made.length > MAX_KERNELS) byName.clear();
  [...linear.keys()].forEach((name, i) => {
    byName.set(`${device.name} ${name}`, made[i]);
    found.set(name, made[i]);
  });
  return found;
}
