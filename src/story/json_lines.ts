/**
 * What the page shows, as JSON lines for scripts: passes, kernels, notes or the timeline of a recording. In: its data; out:
 * lines, one a thing, with names in place of numbers.
 *
 * @module
 */
import { differenceRows, runsOf } from "./viz/page_compare.ts";
import type { VizData } from "./viz/viz_data.ts";

/** What there are lines of. */
export type LineKind = "passes" | "kernels" | "notes" | "timeline" | "differences";

/** All of them. */
export const LINE_KINDS: readonly LineKind[] = ["passes", "kernels", "notes", "timeline", "differences"];

/** The lines of a recording. @param other another one, of which "differences" tells what is not the same */
export function jsonLines(data: VizData, kind: LineKind, other?: VizData): string[] {
  const rows = {
    passes: passRows,
    kernels: kernelRows,
    notes: noteRows,
    timeline: timelineRows,
    differences: (data: VizData) => other === undefined ? [] : differenceRows(data, other),
  }[kind](data);
  return rows.map((row) => JSON.stringify(row));
}

function ownerOf({ works }: VizData, of: number | undefined): string | undefined {
  if (of === undefined) return undefined;
  const { kind, number, name } = works[of];
  return kind === "schedule" ? `schedule ${number}` : `kernel ${number} ${name}`.trimEnd();
}

function passRows(data: VizData): object[] {
  return data.passes.map((p, i) => {
    const rules: Record<string, number> = {};
    for (const [rule] of p.changes) {
      const { name, line } = data.rules[rule], text = line === undefined ? name : `${name} (${line})`;
      rules[text] = (rules[text] ?? 0) + 1;
    }
    const { name, depth, startMs, timeMs, before, after, changes } = p;
    const isChanged = before !== after || changes.length > 0;
    return {
      pass: i,
      name,
      of: ownerOf(data, p.of),
      depth,
      startMs,
      timeMs,
      changes: changes.length,
      isChanged,
      rules,
    };
  });
}

function kernelRows(data: VizData): object[] {
  const runs = runsOf(data);
  return data.kernels.map(({ name, device, opts, flops, bytes, uops, lines, source }, i) => {
    const { count: launches, ms: timeMs } = runs[i];
    const gflops = timeMs > 0 ? flops * launches / timeMs / 1e6 : undefined;
    const gbs = timeMs > 0 ? bytes * launches / timeMs / 1e6 : undefined;
    return {
      kernel: i,
      name,
      device,
      opts,
      flops,
      bytes,
      launches,
      timeMs,
      gflops,
      gbs,
      uops: uops.length,
      lines,
      source,
    };
  });
}

function noteRows(data: VizData): object[] {
  return data.notes.map(({ kind, text, work, node }, i) => {
    const of = node === undefined ? undefined : data.nodes[node];
    return { note: i, kind, text, of: ownerOf(data, work), op: of?.op, line: of?.line };
  });
}

function timelineRows(data: VizData): object[] {
  const passes = data.passes.map(({ name, of, depth, startMs, timeMs }) => (
    { kind: "pass", name, of: ownerOf(data, of), depth, startMs, timeMs }
  ));
  return [...data.events, ...passes].sort((a, b) => a.startMs - b.startMs || b.timeMs - a.timeMs);
}
