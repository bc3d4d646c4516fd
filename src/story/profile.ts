/**
 * Where the time of a program goes: `profile(fn)`, and PROFILE=1 for a whole program. In: what profiler.ts collected while
 * it ran. Out: a summary, and a trace that Perfetto opens.
 *
 * @module
 */
import { getDevice, openDevices } from "../device/device.ts";
import { countText } from "../engine/front/listening.ts";
import { rooflineOf } from "../engine/roofline.ts";
import { byteText } from "../helpers/errors.ts";
import { checkBoolean, checkFunction, checkOptions } from "../helpers/options.ts";
import { groupBy } from "../helpers/math.ts";
import type { SpanKind } from "../helpers/spans.ts";
import { type CounterTrack, perfettoTrace, type Slice } from "./perfetto.ts";
import {
  type Collected,
  isWork,
  type ProfiledKernel,
  type ProfiledSpan,
  Profiler,
  type ThreadPart,
} from "./profiler.ts";

/** A thread in a profile: of CLANG, whose runtime tells what each did. */
export interface ProfiledThread {
  /** The device that it belongs to. */
  readonly device: string;
  /** 0 is the one that asks. */
  readonly thread: number;
  /** Launches of which it ran a part. */
  readonly launches: number;
  /** Milliseconds in which it ran parts of kernels. */
  readonly busyMs: number;
  /** Cores on which it ran; none where the system does not tell. */
  readonly cores: readonly number[];
}

/** A device in a profile. */
export interface ProfiledDevice {
  /** Its name. */
  readonly name: string;
  /** Milliseconds in which it ran kernels and copies. */
  busyMs: number;
  /** Milliseconds between its first and last kernel or copy in which it ran none. */
  idleMs: number;
  /** Kernels that it ran. */
  launches: number;
  /** Copies and fills. */
  copies: number;
  /** Steps that several ranks do together. */
  collectives: number;
}

/** Milliseconds that at least one of some pieces of time covers, and from the first's start to the last's end. */
function covered(pieces: readonly ProfiledSpan[]): { readonly busy: number; readonly all: number } {
  const sorted = pieces.toSorted((a, b) => a.startMs - b.startMs);
  let busy = 0, end = -Infinity;
  for (const { startMs, endMs } of sorted) {
    busy += Math.max(0, endMs - Math.max(startMs, end));
    end = Math.max(end, endMs);
  }
  return { busy, all: sorted.length === 0 ? 0 : end - sorted[0].startMs };
}

/** Where the time went. */
export class Profile<T> {
  /** What the function returned. */
  readonly result: T;
  /** Milliseconds in all. */
  readonly timeMs: number;
  /** Kernels, those that took longest first. */
  readonly kernels: readonly ProfiledKernel[];
  /** Devices that ran something. */
  readonly devices: readonly ProfiledDevice[];
  /** What threads ran, of devices that tell. */
  readonly threads: readonly ProfiledThread[];
  /** Milliseconds of the host by what it did: "schedule", "lower", "compile", "trace", "read", "run", "replay". */
  readonly host: Readonly<Partial<Record<SpanKind, number>>>;
  /** Milliseconds in which more than one device was at work. */
  readonly overlapMs: number;
  /** The most bytes in use on each device. */
  readonly peakBytes: Readonly<Record<string, number>>;
  readonly #collected: Collected;

  /** Internal: use {@linkcode profile}. */
  constructor(result: T, collected: Collected) {
    const { spans, kernels, startMs, endMs, samples } = collected;
    this.result = result;
    this.#collected = collected;
    this.timeMs = endMs - startMs;
    this.kernels = kernels.toSorted((a, b) => b.timeMs - a.timeMs);
    const work = spans.filter((s) => isWork(s.kind));
    const names = [...new Set(work.map((s) => s.device!))];
    let sum = 0;
    this.devices = names.map((name) => {
      const own = work.filter((s) => s.device === name), { busy, all } = covered(own);
      const count = (kind: SpanKind): number => own.filter((s) => s.kind === kind).length;
      const launches = count("launch"), copies = count("copy"), collectives = count("collective");
      sum += busy;
      return { name, busyMs: busy, idleMs: all - busy, launches, copies, collectives };
    });
    this.threads = threadsIn(collected.parts);
    this.overlapMs = sum - covered(work).busy;
    const host: Partial<Record<SpanKind, number>> = {};
    for (const { kind, startMs, endMs } of spans) {
      if (!isWork(kind)) host[kind] = (host[kind] ?? 0) + endMs - startMs;
    }
    this.host = host;
    this.peakBytes = Object.fromEntries([...samples].map(([name, list]) => [name, Math.max(...list.map((s) => s[1]))]));
  }

  /** A summary for people: the host, devices, and the `top` kernels with their share of the device's roofline. */
  summary(top: number = 12): string {
    const { host, devices, kernels, peakBytes, overlapMs } = this, { dropped, spans, uncounted } = this.#collected;
    const parts = (["trace", "schedule", "lower", "compile", "read"] as const).filter((k) => host[k] !== undefined);
    const lines = [
      `profile: ${time(this.timeMs)}; host: ${parts.map((k) => `${k} ${time(host[k]!)}`).join(", ") || "nothing"}`,
    ];
    for (const { name, busyMs, idleMs, launches, copies, collectives } of devices) {
      const queued = spans.some((s) => s.device === name && s.isQueued) ? "; launches were only queued, not timed" : "";
      const together = collectives === 0 ? "" : `, ${countText(collectives, "collective")}`;
      lines.push(
        `${name}: ${countText(launches, "launch", "launches")}, ${
          countText(copies, "copy", "copies")
        }${together}, busy ${time(busyMs)}, idle ${time(idleMs)} in between, at most ${
          byteText(peakBytes[name] ?? 0)
        }${queued}`,
      );
    }
    for (const [device, own] of groupBy(this.threads, (t) => t.device)) {
      const of = own.map(({ thread, busyMs, launches, cores }) =>
        `${thread} ${time(busyMs)} of ${countText(launches, "launch", "launches")}${
          cores.length === 0 ? "" : ` on ${cores.length === 1 ? "core" : "cores"} ${cores.join(", ")}`
        }`
      );
      lines.push(`threads of ${device}: ${of.join("; ")}`);
    }
    for (const { name, launches } of devices) {
      const isTold = launches === 0 || this.threads.some((t) => t.device === name);
      const threads = isTold ? 0 : Number(threadsOf(name));
      if (threads > 1) {
        lines.push(`threads of ${name}: ${threads}, not told apart: their code has no clock, and is not told its core`);
      }
    }
    if (uncounted !== undefined) lines.push(`counters: ${uncounted}`);
    if (devices.length > 1) lines.push(`devices at work together: ${time(overlapMs)}`);
    if (kernels.length > 0) {
      const total = kernels.reduce((n, k) => n + k.timeMs, 0) || 1;
      lines.push("  launches       time  share   GFLOP/s      GB/s  roofline  kernel");
      for (const k of kernels.slice(0, top)) {
        const roof = roofOf(k.device),
          best = roof === undefined ? 0 : Math.max(k.flops / roof.gflops, k.bytes / roof.gbs) / 1e6;
        lines.push(
          `${String(k.launches).padStart(10)} ${time(k.timeMs).padStart(10)} ${
            (100 * k.timeMs / total).toFixed(1).padStart(5)
          }% ` +
            `${(k.flops / k.timeMs / 1e6).toFixed(1).padStart(9)} ${
              (k.bytes / k.timeMs / 1e6).toFixed(1).padStart(9)
            } ` +
            `${(roof === undefined ? "" : `${(100 * best / k.timeMs).toFixed(0)} %`).padStart(9)}  ${k.name}` +
            `${devices.length > 1 ? ` on ${k.device}` : ""}${k.line === undefined ? "" : `  ${k.line}`}${
              countsText(k)
            }`,
        );
      }
      if (kernels.length > top) lines.push(`  and ${kernels.length - top} kernels more`);
    }
    if (dropped > 0) lines.push(`${dropped} later spans were not kept`);
    return lines.join("\n");
  }

  /** The trace as Perfetto reads it (https://ui.perfetto.dev opens it; nothing is sent anywhere). */
  trace(title: string = "dinograd"): Uint8Array<ArrayBuffer> {
    const { startMs: origin, spans, samples, parts } = this.#collected,
      tracks = new Map<string, Slice[]>([["host", []]]);
    for (const { kind, name, startMs, endMs, device, kernel, flows, isQueued } of spans) {
      const isOnDevice = isWork(kind), row = isOnDevice ? device! : kind === "read" ? "reads" : "host";
      const notes: Record<string, string | number> = {};
      if (kernel !== undefined) {
        notes.gflop = kernel.flops / kernel.launches / 1e9;
        notes.megabytes = kernel.bytes / kernel.launches / 1e6;
        if (kernel.line !== undefined) notes.line = kernel.line;
      }
      if (isQueued) notes.clock = "host: it was only queued";
      const label = kind === "pass" || isOnDevice || kind === "read" || kind === name ? name : `${kind} ${name}`;
      if (!tracks.has(row)) tracks.set(row, []);
      tracks.get(row)!.push({
        name: label,
        category: kind,
        startMs: startMs - origin,
        endMs: endMs - origin,
        notes,
        flows,
      });
    }
    for (const { kernel: { name, device }, thread, core, startMs, endMs, counts } of parts) {
      const row = `${device} thread ${thread}`, notes: Record<string, number> = core < 0 ? {} : { core };
      for (const [what, n] of Object.entries(counts ?? {})) notes[what] = n;
      if (!tracks.has(row)) tracks.set(row, []);
      tracks.get(row)!.push({ name, category: "thread", startMs: startMs - origin, endMs: endMs - origin, notes });
    }
    const counters = [...samples].map(([name, list]): CounterTrack => (
      { name: `memory of ${name}`, samples: list.map(([ms, bytes]) => [ms - origin, bytes]) }
    ));
    return perfettoTrace(title, [...tracks].map(([name, slices]) => ({ name, slices })), counters);
  }

  /** All but the result and the single spans, as plain data. */
  toJSON(): object {
    const { timeMs, kernels, devices, threads, host, overlapMs, peakBytes } = this;
    return { timeMs, kernels, devices, threads, host, overlapMs, peakBytes };
  }
}

/** Threads by device and number. */
function threadsIn(parts: readonly ThreadPart[]): ProfiledThread[] {
  const groups = groupBy(parts, ({ kernel, thread }) => `${kernel.device} ${String(thread).padStart(4)}`);
  return [...groups].sort(([a], [b]) => a < b ? -1 : 1).map(([, own]) => ({
    device: own[0].kernel.device,
    thread: own[0].thread,
    launches: own.length,
    busyMs: own.reduce((ms, { startMs, endMs }) => ms + endMs - startMs, 0),
    cores: [...new Set(own.map((p) => p.core))].filter((core) => core >= 0).sort((a, b) => a - b),
  }));
}

/** What counters say of a kernel: instructions per cycle, misses, faults, and what others took. */
function countsText({ counts, launches }: ProfiledKernel): string {
  if (counts === undefined) return "";
  const { cycles, instructions, cacheMisses, pageFaults, contextSwitches, cpuMs } = counts, parts: string[] = [];
  const each = (n: number): string => String(Number((n / launches).toPrecision(3)));
  if (cycles !== undefined && instructions !== undefined) {
    parts.push(`${(instructions / Math.max(1, cycles)).toFixed(2)} instructions a cycle`);
  }
  if (cacheMisses !== undefined) parts.push(`${each(cacheMisses)} cache misses`);
  if (pageFaults !== undefined && pageFaults > 0) parts.push(`${each(pageFaults)} page faults`);
  if (contextSwitches !== undefined && contextSwitches > 0) parts.push(`${each(contextSwitches)} context switches`);
  if (cpuMs !== undefined) parts.push(`${each(1000 * cpuMs)} µs on cores`);
  return parts.length === 0 ? "" : `  (${parts.join(", ")} a launch)`;
}

function time(ms: number): string {
  return ms >= 1000 ? `${(ms / 1000).toFixed(2)} s` : `${ms.toFixed(ms >= 10 ? 1 : 3)} ms`;
}

/** How many threads a device has, as it says. */
function threadsOf(name: string): unknown {
  try {
    return getDevice(name).info().threads ?? 0;
  } catch {
    return 0; // it is gone
  }
}

/** What a device reaches at best; undefined where that is not known, or the device is gone. */
function roofOf(name: string): { readonly gflops: number; readonly gbs: number } | undefined {
  try {
    return rooflineOf(getDevice(name));
  } catch {
    return undefined;
  }
}

/**
 * Calls `fn`, and tells where its time went until what it returned is there and its devices have done what was queued:
 * kernels, devices, threads, the host, memory. What runs beside it is told, too. Kernels are launched one by one while it
 * listens, but on CLANG and WEBGPU. With `counters` the threads of CLANG count page faults, context switches and time on
 * cores of each kernel, and cycles, instructions and cache misses as far as the system (Linux) allows it; the summary says
 * what it does not.
 *
 * ```ts
 * import { Tensor } from "../../mod.ts";
 * import { profile } from "./profile.ts";
 * const x = Tensor.rand([64, 64]);
 * const p = await profile(() => x.matmul(x).sum().item());
 * console.log(p.kernels.length > 0, p.summary().startsWith("profile:")); // true true
 * // await Deno.writeFile("product.pftrace", p.trace());
 * ```
 */
export async function profile<T>(
  fn: () => T,
  options: { readonly counters?: boolean } = {},
): Promise<Profile<Awaited<T>>> {
  checkFunction("profile", "fn", fn);
  checkOptions("profile", options, ["counters"]);
  const profiler = new Profiler(
    options.counters === undefined ? false : checkBoolean("profile", "counters", options.counters),
  );
  try {
    const result = await fn();
    await Promise.all(openDevices().map((d) => d.synchronize()));
    await profiler.settled();
    profiler.stop();
    return new Profile(result, profiler.collected());
  } finally {
    profiler.stop();
  }
}
