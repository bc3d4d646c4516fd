/**
 * `deno task bench:webgpu [--only a,b] [--scale N] [--out FILE]`: products, streams, reductions and launches on WEBGPU.
 *
 * Kernels are timed by the device's own timestamps, 20 runs each, the median counts; where there are none, by the wall
 * clock around a batch that is long against Deno's poll of 10 ms. Each result is checked at some elements against the
 * host. `--scale N` divides sizes, for software adapters. Prints a table, then a JSON report (to FILE with `--out`).
 *
 * @module
 */
import type { WebGpuDevice } from "../backends/webgpu/webgpu_device.ts";
import { Device, DeviceError, jit, Tensor } from "../mod.ts";
import type { Launch } from "../src/device/program.ts";
import { option } from "./json.ts";

const RUNS = 20;
/** The least milliseconds of a batch timed by the wall clock. */
const BATCH_MS = 400;

interface Result {
  readonly name: string;
  readonly shape: string;
  readonly med_ms: number;
  readonly min_ms: number;
  readonly kernels: number;
  readonly gflops?: number;
  readonly gbs?: number;
}

interface Workload {
  readonly shape: string;
  /** The computation, and its flops and bytes. */
  readonly build: () => Tensor;
  readonly flops?: number;
  readonly bytes?: number;
  /** What some elements must be. */
  readonly check: (out: Tensor) => Promise<void>;
}

const scale = Math.max(1, Number(option(Deno.args, "scale") ?? 1)), only = option(Deno.args, "only")?.split(",");
/** The device; where there is none that ends well. */
async function open(): Promise<WebGpuDevice> {
  try {
    return await Device.open("WEBGPU") as unknown as WebGpuDevice;
  } catch (error) {
    if (!(error instanceof DeviceError)) throw error;
    console.log(`nothing was measured: ${error.message}`);
    Deno.exit(0);
  }
}
const device = await open();
Device.default = "WEBGPU";

function close(name: string, got: number, want: number): void {
  if (Math.abs(got - want) <= 1e-3 * Math.max(1, Math.abs(want))) return;
  throw new Error(`${name} is ${got}, want ${want}`);
}
const rows = async (t: Tensor, k: number): Promise<number[]> => await t.at(k).tolist() as number[];
const normal = (shape: number[]): Tensor => Tensor.randn(shape).realize();

function product(n: number): Workload {
  const a = normal([n, n]), b = normal([n, n]);
  return {
    shape: `${n}x${n}`,
    build: () => a.matmul(b),
    flops: 2 * n ** 3,
    check: async (out) => {
      for (const [i, j] of [[0, 0], [n >> 1, n - 1], [n - 1, 3]]) {
        const row = await rows(a, i), column = await rows(b.permute([1, 0]), j);
        close(`[${i}, ${j}]`, (await rows(out, i))[j], row.reduce((s, v, k) => s + v * column[k], 0));
      }
    },
  };
}

function sum(): Workload {
  // three buffers, each as large as one binding may be, within a quarter of a card of 16 GB
  const n = Math.floor(Math.min(device.renderer.caps.maxBufferBytes! / 4, 2 ** 29) / scale / 1024) * 1024;
  const a = Tensor.full([n], 1.5).contiguous().realize(), b = Tensor.full([n], 2).contiguous().realize();
  return {
    shape: `${n}`,
    build: () => a.add(b),
    bytes: 12 * n,
    check: async (out) => {
      for (const i of [0, n >> 1, n - 1]) close(`[${i}]`, await out.at(i).item(), 3.5);
    },
  };
}

function rowwise(fn: (x: Tensor) => Tensor, host: (row: number[]) => number[]): Workload {
  const m = Math.ceil(16384 / scale), n = 4096, x = normal([m, n]);
  return {
    shape: `${m}x${n}`,
    build: () => fn(x),
    bytes: 8 * m * n,
    check: async (out) => {
      const row = await rows(x, m - 1), want = host(row), got = await rows(out, m - 1);
      for (const j of [0, 1, n >> 1, n - 1]) close(`[${m - 1}, ${j}]`, got[j] * n, want[j] * n);
    },
  };
}

function softmaxOf(row: number[]): number[] {
  const top = Math.max(...row), e = row.map((v) => Math.exp(v - top)), s = e.reduce((a, b) => a + b, 0);
  return e.map((v) => v / s);
}
function layernormOf(row: number[]): number[] {
  const n = row.length, mean = row.reduce((a, b) => a + b, 0) / n;
  const variance = row.reduce((a, b) => a + (b - mean) ** 2, 0) / n;
  return row.map((v) => (v - mean) / Math.sqrt(variance + 1e-5));
}

const WORKLOADS: Record<string, () => Workload> = {
  matmul_f32_4096: () => product(Math.ceil(4096 / scale)),
  matmul_f32_1024: () => product(Math.ceil(1024 / scale)),
  add_largest: sum,
  softmax: () => rowwise((x) => x.softmax(), softmaxOf),
  layernorm: () => rowwise((x) => x.layernorm(), layernormOf),
};

const median = (xs: readonly number[]): number => [...xs].sort((a, b) => a - b)[xs.length >> 1];

/** Times of the launches of a tensor that is not realized yet, in milliseconds a run. */
async function timesOf(launches: readonly Launch[]): Promise<number[]> {
  device.run(launches);
  await device.synchronize();
  const times: number[] = [];
  if (device.hasTimestamps) {
    for (let i = 0; i < RUNS; i++) times.push((await device.time(launches)).reduce((a, b) => a + b, 0) / 1e6);
    return times;
  }
  const graph = device.graph(launches);
  for (let n = 1;; n *= 2) {
    const start = performance.now();
    for (let i = 0; i < n; i++) graph.run();
    await device.synchronize();
    const ms = performance.now() - start;
    if (ms < BATCH_MS) continue;
    times.push(ms / n);
    if (times.length === 3) return times;
    n /= 2;
  }
}

/** What a computation launches: a jit function keeps the buffers of all its kernels. */
function captured(build: () => Tensor): { readonly f: () => Tensor; readonly launches: readonly Launch[] } {
  const launches: Launch[] = [], { graph } = device, f = jit(build, { reuseOutputs: true });
  device.graph = (list) => {
    launches.push(...list);
    return graph.call(device, list);
  };
  for (let i = 0; i < 3; i++) f();
  device.graph = graph;
  return { f, launches };
}

async function measure(name: string, w: Workload): Promise<Result> {
  const { f, launches } = captured(() => w.build().contiguous());
  const times = await timesOf(launches);
  await w.check(f());
  const med_ms = median(times), seconds = med_ms / 1e3;
  return {
    name,
    shape: w.shape,
    med_ms,
    min_ms: Math.min(...times),
    kernels: launches.length,
    ...(w.flops && { gflops: w.flops / seconds / 1e9 }),
    ...(w.bytes && { gbs: w.bytes / seconds / 1e9 }),
  };
}

/** Milliseconds of a kernel among many small ones in one submit, by the wall clock. */
async function overhead(): Promise<Result> {
  const chain = 200, runs = 50;
  const f = jit((x: Tensor) => {
    for (let i = 0; i < chain; i++) x = x.add(1).contiguous();
    return x;
  }, { reuseOutputs: true });
  const x = Tensor.zeros([256]).contiguous().realize();
  for (let i = 0; i < 3; i++) f(x);
  await device.synchronize();
  const times: number[] = [];
  for (let k = 0; k < 5; k++) {
    const start = performance.now();
    for (let i = 0; i < runs; i++) f(x);
    await device.synchronize();
    times.push((performance.now() - start) / runs / chain);
  }
  close("the chain", await f(x).at(0).item(), chain);
  const name = "launch_overhead", shape = `${chain} kernels in one submit`;
  return { name, shape, med_ms: median(times), min_ms: Math.min(...times), kernels: chain };
}

async function commit(): Promise<string> {
  try {
    const { stdout } = await new Deno.Command("git", { args: ["rev-parse", "--short", "HEAD"], stderr: "null" })
      .output();
    return new TextDecoder().decode(stdout).trim();
  } catch {
    return "";
  }
}

const results: Result[] = [], failures: { readonly name: string; readonly error: string }[] = [];
async function add(name: string, run: () => Promise<Result>): Promise<void> {
  if (only !== undefined && !only.includes(name)) return;
  try {
    const r = await run();
    results.push(r);
    const rate = r.gflops ? `${(r.gflops / 1e3).toFixed(2)} TFLOP/s` : r.gbs ? `${r.gbs.toFixed(0)} GB/s` : "";
    const time = name === "launch_overhead" ? `${(r.med_ms * 1e3).toFixed(2)} us` : `${r.med_ms.toFixed(3)} ms`;
    console.error(`${name.padEnd(18)} ${time.padStart(12)} ${rate.padStart(16)}  ${r.kernels} kernels, ${r.shape}`);
  } catch (error) {
    failures.push({ name, error: String((error as Error).message) });
    console.error(`${name.padEnd(18)} failed: ${(error as Error).message}`);
  }
}
for (const [name, make] of Object.entries(WORKLOADS)) await add(name, () => measure(name, make()));
await add("launch_overhead", overhead);
const clock = device.hasTimestamps ? "timestamps" : "wall";
const report = {
  date: new Date().toISOString(),
  commit: await commit(),
  clock,
  device: device.info(),
  results,
  failures,
};
const text = JSON.stringify(report, undefined, 1);
const out = option(Deno.args, "out");
if (out !== undefined) await Deno.writeTextFile(out, `${text}\n`);
else console.log(text);
if (failures.length > 0) Deno.exitCode = 1;
