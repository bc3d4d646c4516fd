/**
 * What a step would take on machines that are not here: a program is run for one rank of a mesh on the NULL device, which
 * computes nothing; its kernels and collectives are counted, and timed by a model.
 *
 * @module
 */
import { DONE } from "../collectives/communicator.ts";
import { world } from "../collectives/engines.ts";
import { OneProcess } from "../collectives/solo.ts";
import type { Buffer } from "../device/buffer.ts";
import { defaultDevice, getDevice, setDefaultDevice } from "../device/device.ts";
import { processes } from "../device/group.ts";
import { Mesh } from "../device/mesh.ts";
import { accessOf, stepLog } from "../engine/exec.ts";
import { CollectiveStep, CompiledKernel, type ExecItem } from "../engine/front/runners.ts";
import { ArgumentError } from "../helpers/errors.ts";
import { prod, sum } from "../helpers/math.ts";
import { checkOptions, describe } from "../helpers/options.ts";
import type { CollectiveArg } from "../uop/core/sharding.ts";

/** Machines for {@linkcode simulate}. Bandwidth and latency are of all axes of the mesh, or by axis. */
export interface SimulateOptions {
  /** How many ranks there are, along an axis "data", or the axes of a mesh with their sizes. */
  readonly ranks: number | Readonly<Record<string, number>>;
  /** Bytes a second that a rank sends. */
  readonly bandwidth: number | Readonly<Record<string, number>>;
  /** Seconds that a message is under way. */
  readonly latency: number | Readonly<Record<string, number>>;
  /** Operations a second of a rank. */
  readonly flops: number;
  /** Bytes a second of a rank's memory; unlimited unless given. */
  readonly memoryBandwidth?: number;
}

/** What a step takes, of one rank. */
export interface SimulatedStep {
  readonly ranks: number;
  /** Milliseconds of a step where kernels wait for each collective, as those of MPI do. */
  readonly timeMs: number;
  /** Milliseconds where collectives run beside kernels that do not need them: no order of these steps takes less. */
  readonly overlappedMs: number;
  /** Milliseconds of the kernels, and of the collectives. */
  readonly computeMs: number;
  readonly collectiveMs: number;
  readonly flops: number;
  /** Bytes that a rank sends, and in how many collectives. */
  readonly trafficBytes: number;
  readonly collectives: number;
  /** The most bytes of memory in use at a time. */
  readonly memoryBytes: number;
}

const action = "simulate ranks";

/** Ranks that are not there. */
class AbsentRanks extends OneProcess {
  readonly engine: string = "NULL";
  constructor(readonly size: number) {
    super();
  }
  start(): typeof DONE {
    return DONE;
  }
}

/**
 * What a rank sends in a collective, and after how many messages it is done: rings for bandwidth, trees for latency, as in
 * Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH" (2005). `nbytes` is what a
 * rank gives.
 */
export function collectiveCost(
  kind: CollectiveArg["kind"],
  ranks: number,
  nbytes: number,
): { readonly sent: number; readonly messages: number } {
  if (ranks === 1) return { sent: 0, messages: 0 };
  const share = (ranks - 1) / ranks, depth = Math.ceil(Math.log2(ranks));
  switch (kind) {
    case "allReduce":
      return { sent: 2 * share * nbytes, messages: 2 * depth };
    case "reduceScatter":
    case "allToAll":
      return { sent: share * nbytes, messages: depth };
    case "allGather":
    case "gather":
      return { sent: (ranks - 1) * nbytes, messages: depth };
    case "permute":
      return { sent: nbytes, messages: 1 };
    case "scatter":
      return { sent: 0, messages: 0 }; // each rank has all of it
  }
}

function along(value: number | Readonly<Record<string, number>>, axis: string): number {
  return typeof value === "number" ? value : value[axis];
}

/** The steps of a rank on a clock. */
class Clock {
  computeMs = 0;
  collectiveMs = 0;
  flops = 0;
  trafficBytes = 0;
  collectives = 0;
  private kernels = 0;
  /** When the links along axes are free: those of other axes are others. */
  private readonly links = new Map<string, number>();
  /** When what lies in memory is there, and when it has been read: by block, the ranges that are not over. */
  private readonly busy = new Map<Buffer, { readonly from: number; readonly to: number; readonly untilMs: number }[]>();

  constructor(private readonly options: SimulateOptions) {}

  get overlappedMs(): number {
    return Math.max(this.kernels, ...this.links.values());
  }

  /** Takes the next step. */
  add(item: ExecItem): void {
    const { runner } = item, { reads, writes } = accessOf(item), all = [...reads, ...writes];
    if (runner instanceof CompiledKernel) {
      const { flops, bytes } = runner.program.linear, { memoryBandwidth = Infinity } = this.options;
      const ms = 1e3 * Math.max(flops / this.options.flops, bytes / memoryBandwidth);
      this.flops += flops;
      this.computeMs += ms;
      this.kernels = Math.max(this.kernels, this.readyMs(all)) + ms;
    } else if (runner instanceof CollectiveStep) {
      const { kind, mesh, axes } = runner.what, ranks = prod(axes.map((a) => mesh.sizeOf(a)));
      const { sent, messages } = collectiveCost(kind, ranks, sum(reads.map((b) => b.nbytes)));
      const slowest = (f: (axis: string) => number): number => Math.max(...axes.map(f));
      const ms = 1e3 *
        (slowest((a) => sent / along(this.options.bandwidth, a)) +
          messages * slowest((a) => along(this.options.latency, a)));
      this.trafficBytes += sent;
      if (sent > 0) this.collectives++;
      this.collectiveMs += ms;
      // it begins when kernels have come here, which wrote what it reads
      const link = axes.join(), endMs = Math.max(this.links.get(link) ?? 0, this.kernels, this.readyMs(all)) + ms;
      this.links.set(link, endMs);
      this.note(all, endMs);
    }
  }

  /** When nothing that is under way uses the memory of buffers any more. */
  private readyMs(bufs: readonly Buffer[]): number {
    let ms = 0;
    for (const b of bufs) {
      for (const r of this.busy.get(b.base) ?? []) {
        if (r.from < b.offset + b.nbytes && b.offset < r.to) ms = Math.max(ms, r.untilMs);
      }
    }
    return ms;
  }
  private note(bufs: readonly Buffer[], untilMs: number): void {
    for (const b of bufs) {
      const list = (this.busy.get(b.base) ?? []).filter((r) => r.untilMs > this.kernels);
      list.push({ from: b.offset, to: b.offset + b.nbytes, untilMs });
      this.busy.set(b.base, list);
    }
  }
}

/** Throws for what is no machine. */
function checkMachine(options: SimulateOptions, axes: Readonly<Record<string, number>>): void {
  checkOptions(action, options, ["ranks", "bandwidth", "latency", "flops", "memoryBandwidth"]);
  const positive = (name: string, value: unknown, isZeroFine = false): void => {
    if (typeof value === "number" && (value > 0 || (isZeroFine && value === 0))) return;
    throw new ArgumentError(action, { reason: `${name} must be a number above 0, not ${describe(value)}` });
  };
  positive("flops", options.flops);
  if (options.memoryBandwidth !== undefined) positive("memoryBandwidth", options.memoryBandwidth);
  for (const axis of Object.keys(axes)) {
    positive(`bandwidth of axis ${axis}`, along(options.bandwidth, axis));
    positive(`latency of axis ${axis}`, along(options.latency, axis), true);
  }
}

/**
 * Simulates a step of `program` on a mesh: the function that `program` gives for the mesh is called twice, and the second
 * call is counted. Nothing is computed: what is read from tensors is zero. Time is a model, memory and traffic are those of
 * the steps that such a rank would run.
 *
 * ```ts
 * import { nn, state, Tensor } from "../../mod.ts";
 * import { simulate } from "./dist.ts";
 * const machine = { ranks: 1000, bandwidth: 50e9, latency: 5e-6, flops: 400e12, memoryBandwidth: 3e12 };
 * const step = simulate(machine, (mesh) => {
 *   const model = state.place(new nn.Linear(1024, 1024), mesh);
 *   const x = Tensor.ones([8000, 1024]).shard(mesh, ["data", null]).realize();
 *   return () => Tensor.realize([model.call(x).square().sum().backward(), model.weight.grad!]);
 * });
 * console.log(step.collectives, step.timeMs > step.overlappedMs - 1e-9); // 2 true
 * ```
 * @throws {ArgumentError} for a machine that is none, and among processes that were started together
 */
export function simulate(options: SimulateOptions, program: (mesh: Mesh) => () => unknown): SimulatedStep {
  const { ranks } = options ?? {}, axes = typeof ranks === "number" ? { data: ranks } : ranks;
  if (typeof axes !== "object" || axes === null) {
    throw new ArgumentError(action, { reason: `ranks must be a number, or sizes by axis, not ${describe(ranks)}` });
  }
  checkMachine(options, axes);
  if (processes.place !== undefined) {
    throw new ArgumentError(action, { reason: "this process has joined others: simulate in one that is alone" });
  }
  const device = "NULL", size = prod(Object.values(axes)), before = defaultDevice(), { communicator } = world;
  const { allocator } = getDevice(device),
    clock = new Clock(options),
    listener = stepLog.listener,
    atFirst = allocator.used;
  let memoryBytes = 0;
  try {
    processes.place = { rank: 0, size, device };
    world.communicator = new AbsentRanks(size);
    setDefaultDevice(device);
    const step = program(Mesh.of(axes));
    step();
    stepLog.listener = {
      before: () => memoryBytes = Math.max(memoryBytes, allocator.used - atFirst),
      after: (item) => clock.add(item),
    };
    step();
  } finally {
    stepLog.listener = listener;
    processes.place = undefined;
    world.communicator = communicator;
    setDefaultDevice(before);
  }
  const { computeMs, collectiveMs, overlappedMs, flops, trafficBytes, collectives } = clock,
    timeMs = computeMs + collectiveMs;
  return { ranks: size, timeMs, overlappedMs, computeMs, collectiveMs, flops, trafficBytes, collectives, memoryBytes };
}
