/**
 * What watches a whole program, as variables of the environment ask for it: VIZ, PROFILE, GRAPH, SAVE_SCHEDULE
 * and CAPTURE_KERNELS. `mod.ts`
 * loads this module only where one of them is set.
 *
 * @module
 */
import { execItems } from "../engine/exec.ts";
import { envNumber, envText } from "../helpers/env.ts";
import { listen } from "../helpers/spans.ts";
import type { BoundSchedule } from "../schedule/schedule.ts";
import { nodesPicture, stepsPicture } from "./picture.ts";
import { captureKernels } from "./kernel_capture.ts";
import { Profile } from "./profile.ts";
import { Profiler } from "./profiler.ts";
import { atEnd, type Runtime, runtimeHere, tell, writeFile } from "./program/runtime.ts";
import { VizRecorder } from "./viz/viz_data.ts";
import { watchViz } from "./viz/watch_viz.ts";

/** The value of a variable, where it asks for something. */
function asked(name: "VIZ" | "PROFILE" | "GRAPH" | "SAVE_SCHEDULE" | "CAPTURE_KERNELS"): string | undefined {
  const text = envText(name);
  return text === "" || text === "0" ? undefined : text;
}

/** Begins to watch. */
export function startWatching(): void {
  const runtime = runtimeHere(), viz = asked("VIZ"), profile = asked("PROFILE");
  if (viz !== undefined) watchViz(viz, runtime);
  if (profile !== undefined) watchProfile(profile, runtime);
  const graph = asked("GRAPH"), schedule = asked("SAVE_SCHEDULE");
  if (graph !== undefined) watchGraphs(graph === "1" ? "graph" : graph.replace(/\/$/, ""));
  if (schedule !== undefined) saveSchedules(schedule === "1" ? "schedule.json" : schedule, runtime);
  const kernels = asked("CAPTURE_KERNELS");
  if (kernels !== undefined) {
    const captured = captureKernels();
    atEnd(() => void writeFile("CAPTURE_KERNELS", kernels === "1" ? "kernels.json" : kernels, captured()));
  }
}

/** Schedules that are drawn. */
const MAX_PICTURES = 50;

/** Draws what is realized, and the steps that it takes, each schedule once, as it runs. */
function watchGraphs(folder: string): void {
  const seen = new WeakSet<object>();
  let count = 0;
  listen(({ kind, subject }) => {
    if (kind !== "run" || seen.has((subject as BoundSchedule).variant)) return;
    const bound = subject as BoundSchedule, { order, variant } = bound;
    seen.add(variant);
    if (++count > MAX_PICTURES) {
      return count === MAX_PICTURES + 1 ? tell(`GRAPH: ${MAX_PICTURES} schedules are drawn`) : undefined;
    }
    const used = new Set(order.flatMap((u) => u.src)), roots = order.filter((u) => !used.has(u));
    for (
      const [name, picture] of [["tensors", nodesPicture(roots)], ["schedule", stepsPicture(execItems(bound))]] as const
    ) {
      for (const form of ["svg", "dot"] as const) {
        writeFile("GRAPH", `${folder}/${count}_${name}.${form}`, picture[form]);
      }
    }
  });
}

/** Keeps all schedules of the program: steps, buffers, where these lie, kernels and lines. */
function saveSchedules(path: string, { title }: Runtime): void {
  const recorder = new VizRecorder(title, 0);
  listen((span) => {
    if (span.kind === "schedule" || span.kind === "run") recorder.hear(span);
  });
  atEnd(() => {
    const { schedules, kernels } = recorder.data();
    const named = kernels.map(({ name, device, opts, flops, bytes, lines }) => ({
      name,
      device,
      opts,
      flops,
      bytes,
      lines,
    }));
    writeFile("SAVE_SCHEDULE", path, `${JSON.stringify({ title, schedules, kernels: named }, null, 1)}\n`);
  });
}

/** Profiles the program; when it ends, prints a summary and writes the trace. */
function watchProfile(setting: string, { title }: Runtime): void {
  const path = setting === "1" ? "profile.pftrace" : setting,
    profiler = new Profiler(envNumber("PROFILE_COUNTERS") !== 0);
  let isDone = false;
  atEnd(() => {
    if (isDone) return;
    isDone = true;
    profiler.stop(); // what the summary measures is no part of it
    const profile = new Profile(undefined, profiler.collected());
    writeFile("PROFILE", path, profile.trace(title));
    tell(profile.summary());
  });
}
