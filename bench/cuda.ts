/**
 * `deno task bench:cuda [--only a,b] [--peers torch.jsonl,compile.jsonl] [--report out.json] [--ordinal N]`: the workloads
 * of cuda_workloads.ts, each as 20 replays of a captured function between two events, nine times, and the median, after
 * replays for 100 ms; results are checked. With the lines of PyTorch's measurements, the ratio to the better of them: above 1, this is faster.
 *
 * @module
 */
import type { CudaDevice } from "../backends/cuda/cuda_device.ts";
import { Device, GlobalCounters, jit, type Tensor } from "../mod.ts";
import { CUDA_WORKLOADS, errorOf, operandsOf } from "./cuda_workloads.ts";
import { option, type Peer, readPeers } from "./json.ts";
import { measure } from "./workloads.ts";

const REPLAYS = 20, ROUNDS = 9;
/** Milliseconds of replays before those that are measured: the engine of JavaScript compiles what runs often. */
const WARM_MS = 100;

/** What one kernel takes of a card. */
interface KernelFacts {
  readonly name: string;
  readonly registers: number;
  /** Bytes that a thread spilled, or its private arrays: 0 where all is in registers. */
  readonly localBytes: number;
}

/** One line of the report. */
interface Row {
  readonly name: string;
  readonly med_us: number;
  readonly min_us: number;
  /** The first call, compiling included. */
  readonly first_ms: number;
  readonly tflops?: number;
  readonly gbs?: number;
  /** Largest error as a share of what is accepted. */
  readonly error: number;
  readonly launches: number;
  readonly kernels: readonly KernelFacts[];
  readonly peer?: string;
  readonly peer_us?: number;
  readonly ratio?: number;
  readonly reach?: number;
}
interface Failure {
  readonly name: string;
  readonly failed: string;
}

function round(x: number, digits: number): number {
  return Number(x.toFixed(digits));
}

async function run(name: string, device: CudaDevice, peer: Peer | undefined): Promise<Row> {
  const w = CUDA_WORKLOADS[name], operands = operandsOf(w, device.name);
  await device.synchronize();
  const known = new Set(device.compiler.kernels());
  const fn = jit((...xs: Tensor[]) => w.graph(...xs), { reuseOutputs: true });
  const start = performance.now();
  fn(...operands);
  await device.synchronize();
  const firstMs = performance.now() - start;
  fn(...operands); // is captured
  const before = GlobalCounters.kernelCount, result = fn(...operands);
  const launches = GlobalCounters.kernelCount - before;
  for (const end = performance.now() + WARM_MS; performance.now() < end;) {
    for (let i = 0; i < REPLAYS; i++) fn(...operands);
    await device.synchronize();
  }
  const times = Array.from({ length: ROUNDS }, () =>
    device.timeSync(() => {
      for (let i = 0; i < REPLAYS; i++) fn(...operands);
    }) / REPLAYS).sort((a, b) => a - b);
  const error = await errorOf(w, result, operands), median = times[ROUNDS >> 1];
  const kernels = device.compiler.kernels().filter((k) => !known.has(k))
    .map(({ name, registers, localBytes }) => ({ name, registers, localBytes }));
  for (const t of operands) t.dispose();
  return {
    name,
    med_us: round(median * 1e3, 2),
    min_us: round(times[0] * 1e3, 2),
    first_ms: round(firstMs, 1),
    ...(w.flops !== undefined ? { tflops: round(w.flops / median / 1e9, 1) } : {}),
    ...(w.nbytes !== undefined ? { gbs: round(w.nbytes / median / 1e6, 0) } : {}),
    error: round(error, 4),
    launches,
    kernels,
    ...(peer !== undefined ? { peer: peer.peer, peer_us: peer.us, ratio: round(peer.us / (median * 1e3), 3) } : {}),
    ...(w.reach !== undefined ? { reach: w.reach } : {}),
  };
}

/** A training step as the user waits for it: wall-clock time. */
async function trainingStep(device: string): Promise<Row> {
  const m = await measure("mnist_conv_train", device);
  return {
    name: "mnist_conv_train",
    med_us: m.med_ms * 1e3,
    min_us: m.min_ms * 1e3,
    first_ms: m.first_ms,
    error: 0,
    launches: m.kernels,
    kernels: [],
  };
}

function lineOf(r: Row | Failure): string {
  if ("failed" in r) return `${r.name.padEnd(36)} FAILED ${r.failed}`;
  const rate = r.tflops !== undefined ? `${r.tflops} TFLOP/s` : r.gbs !== undefined ? `${r.gbs} GB/s` : "";
  const spills = r.kernels.reduce((n, k) => Math.max(n, k.localBytes), 0);
  const ratio = r.ratio === undefined ? "" : `${r.ratio.toFixed(3)}${r.reach === undefined ? "" : ` (${r.reach})`}`;
  const registers = r.kernels.map((k) => k.registers).join(",");
  return [
    r.name.padEnd(36),
    r.med_us.toFixed(1).padStart(10),
    rate.padStart(15),
    ratio.padStart(14),
    String(r.launches).padStart(4),
    r.first_ms.toFixed(0).padStart(7),
    registers.padStart(10),
    (spills === 0 ? "" : `${spills} B local`).padStart(12),
    r.error > 1 ? `  WRONG by ${r.error}` : "",
  ].join(" ").trimEnd();
}

/** The commit, where there is a repository. */
function commit(): string {
  try {
    const { stdout } = new Deno.Command("git", { args: ["rev-parse", "--short", "HEAD"], stderr: "null" }).outputSync();
    return new TextDecoder().decode(stdout).trim();
  } catch {
    return "";
  }
}

async function main(args: readonly string[]): Promise<number> {
  const why = Device.list().find((d) => d.name === "CUDA")!.reason;
  if (why !== undefined) {
    console.log(`nothing was measured: CUDA is not available: ${why}`);
    return 0;
  }
  const ordinal = Number(option(args, "ordinal") ?? 0), name = ordinal === 0 ? "CUDA" : `CUDA:${ordinal}`;
  const device = Device.get(name) as CudaDevice, peers = await readPeers(args);
  const names = option(args, "only")?.split(",").filter((n) => n !== "") ??
    [...Object.keys(CUDA_WORKLOADS), "mnist_conv_train"];
  console.log(Object.entries(device.info()).map(([k, v]) => `${k}: ${v}`).join("\n"));
  const head = ["µs", "rate", "ratio (wanted)", "runs", "1st ms", "registers"], widths = [10, 15, 14, 4, 7, 10];
  console.log(`\n${"workload".padEnd(36)} ${head.map((h, i) => h.padStart(widths[i])).join(" ")}`);
  const rows: (Row | Failure)[] = [];
  for (const n of names) {
    let row: Row | Failure;
    try {
      if (n !== "mnist_conv_train" && !(n in CUDA_WORKLOADS)) throw new Error("there is no such workload");
      row = n === "mnist_conv_train" ? await trainingStep(name) : await run(n, device, peers.get(n));
    } catch (error) {
      row = { name: n, failed: (error as Error).message.split("\n")[0].slice(0, 300) };
    }
    rows.push(row);
    console.log(lineOf(row));
    device.allocator.drop();
    await new Promise((done) => setTimeout(done, 0)); // finalizers free what the workload left
  }
  const report = option(args, "report");
  if (report !== undefined) {
    const text = { date: new Date().toISOString(), commit: commit(), device: device.info(), rows };
    await Deno.writeTextFile(report, `${JSON.stringify(text, null, 1)}\n`);
  }
  return rows.every((r) => !("failed" in r) && r.error <= 1) ? 0 : 1;
}

if (import.meta.main) Deno.exit(await main(Deno.args.filter((a) => a !== "--")));
