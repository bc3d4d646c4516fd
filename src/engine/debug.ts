/**
 * What DEBUG prints, on standard error: 1 schedules, compiling and captures (devices say themselves when they open);
 * 2 a line for each kernel and copy, and where compiling took its time; 3 its opts and buffers; 4 its AST as a tree and its source; 5 its linear UOps;
 * 6 every rewrite. TRACK_MATCH_STATS prints its table when the process ends.
 *
 * @module
 */
import type { Buffer } from "../device/buffer.ts";
import type { Device } from "../device/device.ts";
import type { Program } from "../device/program.ts";
import { envNumber } from "../helpers/env.ts";
import { byteText } from "../helpers/errors.ts";
import type { BoundSchedule } from "../schedule/schedule.ts";
import { exprText, listText, printTree } from "../uop/core/print.ts";
import type { PassRecord } from "../uop/core/recording.ts";
import type { UOp } from "../uop/core/uop.ts";
import { matchStats } from "../uop/rewrite/matcher.ts";
import { isRecording, passTimes, record } from "../uop/rewrite/record.ts";
import { countText, debugPrint } from "./front/listening.ts";
import { rooflineOf } from "./roofline.ts";
import { GlobalCounters } from "./stats.ts";

/** What is printed of a step of a schedule. */
export interface DebugItem {
  readonly bufs: readonly Buffer[];
  readonly ast: UOp | undefined;
  readonly line: string | undefined;
}

const COLORS = { red: 31, green: 32, yellow: 33, magenta: 35, gray: 90 } as const;

interface DenoLike {
  readonly noColor?: boolean;
  readonly stderr?: { isTerminal?(): boolean };
}

/** `text` in a color, where standard error is a terminal and nothing asks for plain text. */
function colored(text: string, color: keyof typeof COLORS): string {
  const deno = (globalThis as { Deno?: DenoLike }).Deno;
  const plain = envNumber("NO_COLOR") !== 0 || deno?.noColor === true || deno?.stderr?.isTerminal?.() !== true;
  return plain ? text : `\x1b[${COLORS[color]}m${text}\x1b[0m`;
}

function stepsText(kinds: readonly string[]): string {
  const count = (kind: string): number => kinds.filter((k) => k === kind).length;
  const parts = [countText(count("kernel"), "kernel")];
  if (count("copy") > 0) parts.push(countText(count("copy"), "copy", "copies"));
  if (count("collective") > 0) parts.push(countText(count("collective"), "collective"));
  if (count("view") > 0) parts.push(countText(count("view"), "view"));
  if (count("fill") > 0) parts.push(countText(count("fill"), "fill"));
  if (count("empty") > 0) parts.push(countText(count("empty"), "empty buffer"));
  return parts.join(", ");
}

/** DEBUG=1: what a schedule came to; given what passes had taken before, as under DEBUG=2, also what they took for it. */
export function debugSchedule(bound: BoundSchedule, timeMs: number, counted?: ReadonlyMap<string, number>): void {
  const { variant: { plan, entries, items }, order, cached } = bound;
  let planned = 0, needed = 0;
  for (const b of plan.blocks) planned += b.nbytes;
  plan.places.forEach((p, e) => needed += p === undefined ? 0 : entries[e].size * entries[e].dtype.itemsize);
  const memory = planned === 0 ? "" : `; intermediates take ${byteText(planned)} instead of ${byteText(needed)}`;
  debugPrint(
    `scheduled ${stepsText(items.map((i) => i.kind))} in ${timeMs.toFixed(2)} ms from ` +
      `${countText(order.length, "node")}, cache ${cached ? "hit" : "miss"}${memory}`,
  );
  if (counted !== undefined && !cached) debugPrint(passSharesText(counted));
}

/** DEBUG=1: kernels that were new. */
export function debugCompile(device: Device, kernels: number, lowerMs: number, compileMs: number): void {
  debugPrint(
    `compiled ${countText(kernels, "kernel")} for ${device.name}: ${lowerMs.toFixed(1)} ms to linear UOps, ` +
      `${compileMs.toFixed(1)} ms to code`,
  );
}

/** Passes below this part of the time are left out. */
const LEAST_SHARE = 0.02;

/** DEBUG=2: which part of the time each pass took since `before`; "" where none was counted. */
export function passSharesText(before: ReadonlyMap<string, number> = new Map()): string {
  const times = [...passTimes()].map(([name, ms]) => [name, ms - (before.get(name) ?? 0)] as const);
  const total = times.reduce((sum, [, ms]) => sum + ms, 0);
  const shares = times.filter(([, ms]) => ms > 0 && ms >= LEAST_SHARE * total).sort((a, b) => b[1] - a[1]);
  if (shares.length === 0) return "";
  return `passes: ${shares.map(([name, ms]) => `${name} ${(100 * ms / total).toFixed(0)} %`).join(", ")}`;
}

/** Devices whose roofline has been printed. */
const told = new WeakSet<Device>();

function column(x: number, digits: number, width: number): string {
  return (Number.isFinite(x) ? x : 0).toFixed(digits).padStart(width);
}

/** DEBUG=2: one line for what has run. `what` is a kernel's program, or what else it is in words. */
export function debugStep({ bufs, line }: DebugItem, device: Device, what: Program | string, timeMs: number): void {
  const kernel = typeof what !== "string";
  const flops = kernel ? what.linear.flops : 0;
  const bytes = kernel ? what.linear.bytes : bufs[0]?.nbytes ?? 0;
  const number = GlobalCounters.kernelCount + GlobalCounters.copyCount;
  let share = "";
  if (kernel) {
    const roof = rooflineOf(device);
    if (roof !== undefined && !told.has(device)) {
      told.add(device);
      debugPrint(`roofline of ${device.name}: ${roof.gflops.toFixed(1)} GFLOP/s, ${roof.gbs.toFixed(1)} GB/s`);
    }
    if (roof !== undefined) {
      const best = Math.max(flops / roof.gflops, bytes / roof.gbs) / 1e6; // ms at the roof
      const percent = 100 * best / timeMs;
      const text = `${column(percent, 0, 4)} %`;
      share = "  " + (timeMs < 0.1 ? text : colored(text, percent >= 50 ? "green" : percent >= 20 ? "yellow" : "red"));
    }
  }
  const name = (kernel ? what.linear.name : what).padEnd(38);
  debugPrint(
    `*** ${device.name.padEnd(7)}${String(number).padStart(5)} ${kernel ? name : colored(name, "magenta")} arg ` +
      `${String(bufs.length).padStart(2)} mem ${byteText(GlobalCounters.memUsed).padStart(8)} tm ` +
      `${column(timeMs * 1e3, 2, 10)}us/${column(GlobalCounters.timeSumS * 1e3, 2, 9)}ms (` +
      `${column(flops / timeMs / 1e6, 1, 7)} GFLOP/s ${column(bytes / timeMs / 1e6, 1, 7)} GB/s${share})` +
      `${line === undefined ? "" : `  ${colored(line, "gray")}`}`,
  );
}

let shown: WeakSet<Program> | undefined;

/** DEBUG=3 and more: what a kernel is, before it runs. From 4 on once for each kernel. */
export function debugKernel(item: DebugItem, program: Program, level: number): void {
  const { linear, source } = program;
  const buffers = linear.params.map((p, slot) => {
    const b = item.bufs[slot];
    const access = `${p.reads ? "r" : ""}${p.writes ? "w" : ""}`;
    const shape = b.shape === undefined ? `x${b.size}` : `[${b.shape.join(", ")}]`;
    return `${slot}:${access} ${b.dtype} ${shape}${b.offset === 0 ? "" : ` at ${b.offset}`}`;
  });
  debugPrint(`${linear.name}: opts ${linear.opts || "none"}; buffers ${buffers.join(", ")}`);
  if (level < 4 || (shown ??= new WeakSet()).has(program)) return;
  shown.add(program);
  if (item.ast !== undefined) debugPrint(printTree(item.ast));
  debugPrint(source);
  if (level >= 5) debugPrint(listText(linear.uops));
}

/** Runs `fn`, and under DEBUG=6 prints every rewrite in it. */
export function debugRewrites<T>(fn: () => T): T {
  if (envNumber("DEBUG") < 6 || isRecording()) return fn();
  const { result, passes } = record(fn);
  for (const p of passes) debugPrint(passText(p));
  return result;
}

/** A pass as text: a line, and one for each rewrite in it. */
export function passText(p: PassRecord): string {
  const indent = "  ".repeat(p.depth);
  const head = `${indent}${p.name}: ${countText(p.changes.length, "rewrite")} in ${p.timeMs.toFixed(2)} ms`;
  return [
    head,
    ...p.changes.map((c) => `${indent}  ${oneLine(c.rule)}: ${exprText(c.from, 3)} -> ${exprText(c.to, 3)}`),
  ]
    .join("\n");
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, " ");
}

/** The table of TRACK_MATCH_STATS, most expensive rules first; "" where nothing was counted. */
export function matchStatsText(limit: number = 40): string {
  const stats = matchStats();
  if (stats.length === 0) return "";
  const lines = stats.slice(0, limit).map((s) =>
    `${column(s.timeMs, 2, 10)} ${String(s.hits).padStart(8)} /${String(s.tries).padStart(9)}  ${s.matcher}: ${
      oneLine(s.rule)
    }`
  );
  return ["        ms     hits /    tries  rule", ...lines, passSharesText()].filter((l) => l !== "").join("\n");
}

let watching = false;

/** Prints the rule statistics when the process ends, where they are counted. */
export function watchStats(): void {
  if (watching || envNumber("TRACK_MATCH_STATS") === 0) return;
  watching = true;
  globalThis.addEventListener?.("unload", () => {
    const text = matchStatsText();
    if (text !== "") debugPrint(text);
  });
}
