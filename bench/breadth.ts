/**
 * How fast kernels are that nobody looked at: the workloads of breadth_workloads.ts under `jit`.
 *
 *     deno task bench:breadth --device D [--only a,b] [--scale big|small] [--peers torch.jsonl,compile.jsonl] [--json]
 *
 * A line each: microseconds of a call (median), kernels, FLOP or bytes a second, the first call, and a checksum (the mean
 * of absolute values), then geometric mean and worst. On CUDA a call is one of ten between two events, seven times; on
 * WEBGPU one of many that are waited for together, less the wait; else it is the wall clock of a call and of waiting for the
 * device, for up to 1.5 seconds. With peers (a JSON object a line: peer, name, med_us, check), the ratio to the better of
 * them, above 1 where this is faster, and whether checksums agree.
 * Exits with 1 where one fails or disagrees.
 *
 * @module
 */
import { Device, dtypes, GlobalCounters, jit, type Tensor } from "../mod.ts";
import type { CudaDevice } from "../backends/cuda/cuda_device.ts";
import { median } from "../src/engine/tuning/race.ts";
import { type BreadthWorkload, breadthWorkloads, type Scale } from "./breadth_workloads.ts";
import { option, type Peer, readPeers } from "./json.ts";

const REPLAYS = 10, ROUNDS = 7;
/** Calls that wait in a queue of WEBGPU together, at most. */
const QUEUED = 256;
/** Longest time of measuring one workload by the clock, in milliseconds, and the least and most calls. */
const BUDGET = 1500, LEAST = 5, MOST = 200;
/** Largest difference of checksums, as a share: operands of 16 bits are rounded at other places by others. */
const AGREES = 5e-3;

/** What was measured of one workload. */
export interface BreadthRow {
  readonly name: string;
  readonly med_us: number;
  readonly first_ms: number;
  readonly kernels: number;
  readonly check: number;
  readonly tflops?: number;
  readonly gbs?: number;
  readonly peer?: string;
  readonly ratio?: number;
  /** Whether the checksum is the peer's. */
  readonly agrees?: boolean;
}

/** Geometric mean; NaN of nothing. */
export function geometricMean(values: readonly number[]): number {
  return Math.exp(values.reduce((sum, v) => sum + Math.log(v), 0) / values.length);
}

/** The mean of absolute values, as exactly as the device has it. */
async function checksumOf(t: Tensor): Promise<number> {
  const wide = t.device === "WEBGPU" ? dtypes.float32 : dtypes.float64;
  return Number(await t.cast(wide).abs().mean().item());
}

/** Milliseconds of a call: between events on a card, else by the clock. */
export async function timeOf(call: () => readonly Tensor[], device: string, isWhole: boolean): Promise<number> {
  const open = Device.get(device), free = (ts: readonly Tensor[]) => ts.forEach((t) => t.dispose());
  if (device.startsWith("CUDA") && !isWhole) {
    const card = open as CudaDevice;
    return median(Array.from({ length: ROUNDS }, () =>
      card.timeSync(() => {
        for (let i = 0; i < REPLAYS; i++) free(call());
      }) / REPLAYS));
  }
  const once = async (): Promise<number> => {
    const start = performance.now(), made = call();
    await open.synchronize();
    const ms = performance.now() - start;
    free(made);
    return ms;
  };
  for (let i = 0; i < 3; i++) await once();
  if (device.startsWith("WEBGPU")) {
    // who waits for the queue is told late, whatever was in it: calls behind each other take what they take beside one call
    const run = async (calls: number): Promise<number> => {
      const start = performance.now();
      for (let i = 0; i < calls; i++) free(call());
      await open.synchronize();
      return performance.now() - start;
    };
    const few = Math.min(await run(1), await run(1)), rounds: number[] = [];
    let many = 4;
    while (many < QUEUED && await run(1 + many) < 4 * few) many *= 2;
    for (let i = 0; i < ROUNDS; i++) rounds.push((await run(1 + many) - await run(1)) / many);
    return median(rounds);
  }
  const times: number[] = [], end = performance.now() + BUDGET;
  while (times.length < LEAST || (performance.now() < end && times.length < MOST)) times.push(await once());
  return median(times);
}

/** Measures one workload on the default device. */
export async function measureBreadth(name: string, w: BreadthWorkload, peer?: Peer): Promise<BreadthRow> {
  const device = Device.default, open = Device.get(device), operands = w.make();
  const fn = jit((...xs: Tensor[]) => w.graph(...xs)), call = (): Tensor[] => fn(...operands);
  await open.synchronize();
  const start = performance.now(), first = call();
  await open.synchronize();
  const firstMs = performance.now() - start, check = await checksumOf(first[0]);
  call(); // is captured
  const before = GlobalCounters.kernelCount, replayed = call();
  await open.synchronize();
  const kernels = GlobalCounters.kernelCount - before;
  if (w.isWhole !== true) { // a training step gives another loss each time
    const again = await checksumOf(replayed[0]);
    if (again !== check) throw new Error(`a replay gives ${again}, the first call ${check}`);
  }
  const ms = await timeOf(call, device, w.isWhole === true);
  for (const t of operands) t.dispose();
  const round = (x: number, digits: number): number => Number(x.toPrecision(digits));
  const agrees = peer?.check === undefined ? undefined : Math.abs(check - peer.check) <= AGREES * Math.abs(peer.check);
  return {
    name,
    med_us: round(ms * 1e3, 4),
    first_ms: round(firstMs, 3),
    kernels,
    check: round(check, 6),
    ...(w.flops !== undefined ? { tflops: round(w.flops / ms / 1e9, 3) } : {}),
    ...(w.nbytes !== undefined ? { gbs: round(w.nbytes / ms / 1e6, 3) } : {}),
    ...(peer !== undefined ? { peer: peer.peer, ratio: round(peer.us / (ms * 1e3), 3) } : {}),
    ...(agrees !== undefined ? { agrees } : {}),
  };
}

function lineOf(r: BreadthRow): string {
  const rate = r.tflops !== undefined ? `${r.tflops} TFLOP/s` : r.gbs !== undefined ? `${r.gbs} GB/s` : "";
  return [
    r.name.padEnd(20),
    r.med_us.toFixed(1).padStart(11),
    String(r.kernels).padStart(5),
    rate.padStart(16),
    r.first_ms.toFixed(0).padStart(7),
    (r.ratio === undefined ? "" : r.ratio.toFixed(3)).padStart(8),
    (r.peer ?? "").padEnd(14),
    r.agrees === false ? `  checksum ${r.check} is not the peer's` : "",
  ].join(" ").trimEnd();
}

async function main(args: readonly string[]): Promise<number> {
  const named = option(args, "device");
  if (named !== undefined) await Device.open(named);
  Device.default = named ?? Device.default;
  const device = Device.default, isCard = device.startsWith("CUDA") || device.startsWith("WEBGPU");
  const scale = (option(args, "scale") ?? (isCard ? "big" : "small")) as Scale;
  const workloads = breadthWorkloads(scale, scale === "big" && !device.startsWith("WEBGPU"));
  const only = option(args, "only")?.split(",").filter((n) => n !== "") ?? Object.keys(workloads);
  const peers = await readPeers(args);
  const isJson = args.includes("--json"), ratios: number[] = [];
  let failed = 0;
  for (const name of only) {
    try {
      if (!Object.hasOwn(workloads, name)) {
        throw new Error(`no such workload; known are ${Object.keys(workloads).join(", ")}`);
      }
      const row = await measureBreadth(name, workloads[name], peers.get(name));
      if (row.agrees === false) failed++;
      if (row.ratio !== undefined) ratios.push(row.ratio);
      console.log(isJson ? JSON.stringify({ device, ...row }) : lineOf(row));
    } catch (error) {
      failed++;
      if (peers.has(name)) ratios.push(NaN);
      const reason = String((error as Error).message).slice(0, 300);
      console.log(isJson ? JSON.stringify({ device, name, error: reason }) : `${name.padEnd(20)} FAILED ${reason}`);
    }
    await new Promise((done) => setTimeout(done, 0)); // a macrotask, so that what the last one left is freed
  }
  const known = ratios.filter((r) => !Number.isNaN(r));
  if (known.length > 0) {
    const [mean, worst] = [geometricMean(known), Math.min(...known)].map((x) => x.toFixed(3));
    console.error(`${device}: geometric mean ${mean}, worst ${worst}, of ${known.length}; ${failed} failed`);
  }
  return failed === 0 ? 0 : 1;
}

if (import.meta.main) Deno.exit(await main(Deno.args.filter((a) => a !== "--")));
