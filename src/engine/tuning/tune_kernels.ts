/**
 * What `tune` does: measures candidates for the kernels of a function, those that take most time first. `BEAM`, which does
 * so for every kernel that is compiled, uses search.ts too, whose results this process and later ones use.
 *
 * @module
 */
import type { Device } from "../../device/device.ts";
import { getDevice } from "../../device/device.ts";
import { takeTurn } from "../../device/pressure.ts";
import { withContext } from "../../helpers/env.ts";
import { ArgumentError, DeviceError, OutOfMemoryError } from "../../helpers/errors.ts";
import { checkFunction, checkInteger, checkNumber, checkOptions } from "../../helpers/options.ts";
import { clearScheduleCache } from "../../schedule/schedule.ts";
import { compileKernels, forgetKernels, kernelsSeen, tunedHere } from "../compile_cache.ts";
import { tellingProgress } from "../progress.ts";
import { type Outcome, type Problem, searchKernel, tunedKey, whyNotTuned } from "./search.ts";
import { Trial } from "./trial.ts";
import type { TuneOptions, TuneResult } from "./tune_options.ts";
import type { UOp } from "../../uop/core/uop.ts";

const BUDGET_MS = 10_000, WIDTH = 4;

/** A kernel to tune. */
interface Job {
  readonly device: Device;
  readonly ast: UOp;
  readonly key: string;
  /** Launches in one call of the function. */
  launches: number;
  /** Milliseconds of all of them. */
  ms: number;
}

/** The kernels that `fn` runs, each once. */
async function jobsOf(fn: () => unknown): Promise<Job[]> {
  const jobs = new Map<string, Job>();
  kernelsSeen.listener = (device, ast) => {
    const open = getDevice(device), key = tunedKey(open, ast), known = jobs.get(key);
    if (known !== undefined) known.launches++;
    else jobs.set(key, { device: open, ast, key, launches: 1, ms: 0 });
  };
  try {
    // what is captured would be replayed unseen
    await withContext("tune()", { JIT: 0, BEAM: 0 }, fn);
  } finally {
    kernelsSeen.listener = undefined;
  }
  return [...jobs.values()];
}

/** Takes the time of each kernel, those of most time first. */
function sortByTime(jobs: readonly Job[], until: number): Job[] {
  for (const job of jobs) {
    if (performance.now() >= until) break;
    const [program] = compileKernels(job.device, [job.ast]);
    let trial: Trial | undefined;
    try {
      trial = new Trial(job.device, job.ast, program);
      job.ms = trial.time(program) * job.launches;
    } catch (error) {
      if (!(error instanceof OutOfMemoryError)) throw error;
    } finally {
      trial?.free();
    }
  }
  return jobs.toSorted((a, b) => b.ms - a.ms);
}

/** As `tune` says. */
export async function tuneKernels(fn: () => unknown, options: TuneOptions): Promise<TuneResult> {
  checkFunction("tune", "fn", fn);
  const { budgetMs = BUDGET_MS, width = WIDTH, progress } = checkOptions("tune", options, [
    "budgetMs",
    "width",
    "progress",
  ]);
  if (!(checkNumber("tune", "budgetMs", budgetMs) >= 0)) {
    throw new ArgumentError("tune", { reason: `budgetMs must be a number of at least 0, not ${budgetMs}` });
  }
  checkInteger("tune", "width", width, 1);
  if (progress !== undefined) checkFunction("tune", "progress", progress);
  if (kernelsSeen.listener !== undefined) throw new ArgumentError("tune", { reason: "another tune() is running fn" });
  const start = performance.now(), all = await jobsOf(fn);
  const clockless = all.find((j) => whyNotTuned(j.device, j.ast)?.endsWith("has no clock"));
  if (clockless !== undefined) {
    throw new DeviceError("tune", {
      device: clockless.device.name,
      reason: `${clockless.device.name} has no clock: name a device that has, as Device.default = "WASM"`,
    });
  }
  const until = performance.now() + budgetMs, able = all.filter((j) => whyNotTuned(j.device, j.ast) === undefined);
  const jobs = sortByTime(able, until), problems: Problem[] = [];
  let improved = 0, known = 0, skipped = all.length - jobs.length, done = 0;
  let left = jobs.reduce((sum, j) => sum + j.ms, 0);
  try {
    for (const job of jobs) {
      const now = performance.now(), share = left > 0 ? job.ms / left : 0;
      const outcome = tuneOne(job, width, now + Math.max(0, until - now) * share, jobs.length, done++);
      left -= job.ms;
      problems.push(...outcome.problems);
      if (outcome.opts !== undefined) improved++;
      if (outcome.isKnown) known++;
      else if (outcome.tried === 0) skipped++;
      progress?.({
        total: jobs.length,
        done,
        device: job.device.name,
        kernel: outcome.program.linear.name,
        opts: outcome.opts === undefined ? undefined : outcome.program.linear.opts,
        ratio: outcome.ratio,
      });
      await takeTurn();
    }
  } finally {
    // whoever compiled them does so anew
    forgetKernels();
    clearScheduleCache();
  }
  return { kernels: all.length, improved, known, skipped, problems, timeMs: performance.now() - start };
}

function tuneOne({ device, ast, key }: Job, width: number, until: number, total: number, done: number): Outcome {
  const [chosen] = compileKernels(device, [ast]);
  const outcome = tellingProgress(device.name, total, (tell) => {
    tell(done, until - performance.now());
    return searchKernel(device, ast, chosen, { width, until });
  }, "tuning");
  if (outcome.opts !== undefined) tunedHere.add(key);
  return outcome;
}
