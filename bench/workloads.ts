/**
 * The workloads of DESIGN.md section 8 on a CPU, with the shapes of PyTorch's and tinygrad's measurements: what to run
 * through `jit` with its operands as arguments, how much it computes, and whether a result is right.
 *
 * @module
 */
import type { Device as OpenDevice } from "../src/device/device.ts";
import { Device, GlobalCounters, jit, nn, state, Tensor } from "../mod.ts";
import { type Layer, Mlp, MnistConvNet, trainStep } from "./models.ts";

/** A workload made ready on a device. */
export interface Workload {
  /** Launches it once; the result is not waited for. */
  readonly run: () => Tensor;
  /** Throws where a result of `run` is wrong. */
  readonly check: (result: Tensor) => Promise<void>;
  readonly flops?: number;
  /** Bytes read and written at least. */
  readonly nbytes?: number;
}

/** One measurement, as `bench:json` prints it. */
export interface Measurement {
  readonly name: string;
  readonly device: string;
  readonly med_ms: number;
  readonly min_ms: number;
  readonly first_ms: number;
  readonly kernels: number;
  readonly gflops?: number;
  readonly gbs?: number;
}

type Setup = (device: string) => Workload;

/** About normally distributed, deviation 0.1: quick, seeded. */
function numbers(count: number, seed: number): Float32Array<ArrayBuffer> {
  const out = new Float32Array(count);
  let s = Math.imul(seed + 1, 0x9e3779b1) | 1;
  for (let i = 0; i < count; i++) {
    s ^= s << 13;
    s ^= s >>> 17;
    s ^= s << 5;
    const a = (s & 0x7ff) + ((s >>> 11) & 0x7ff) + ((s >>> 22) & 0x3ff) * 2;
    out[i] = (a / 3070 - 1) * 0.3;
  }
  return out;
}

interface Operand {
  readonly host: Float32Array;
  readonly tensor: Tensor;
}
/** The operand that a workload draws with a seed, on the host and on a device. */
export function operand(device: string, seed: number, ...shape: number[]): Operand {
  const host = numbers(shape.reduce((a, b) => a * b, 1), seed);
  return { host, tensor: new Tensor(host, { device }).reshape(shape).realize() };
}

/** What an element is, what it should be, and where it stands. */
type Sample = readonly [got: number, want: number, what: string];

/** Throws where an element is further from what it should be than `tolerance` of that, or of the samples' root mean square. */
function near(samples: readonly Sample[], tolerance: number): void {
  const finite = samples.filter(([, want]) => Number.isFinite(want));
  const rms = Math.sqrt(finite.reduce((s, [, want]) => s + want * want, 0) / Math.max(1, finite.length));
  for (const [got, want, what] of samples) {
    if (Number.isNaN(want) && Number.isNaN(got)) continue;
    if (!(Math.abs(got - want) <= tolerance * Math.max(rms, Math.abs(want)))) {
      throw new Error(`${what} is ${got}, should be ${want}`);
    }
  }
}

/** Some of `count` positions, spread evenly, the first and the last among them. */
function* samples(count: number, some: number = 97): Generator<number> {
  for (let i = 0; i < Math.min(count, some); i++) {
    yield Math.floor(i * (count - 1) / Math.max(1, Math.min(count, some) - 1));
  }
}

/** Checks some elements of a result against `want(position)`. */
function elements(want: (at: number) => number, tolerance: number): (result: Tensor) => Promise<void> {
  return async (result) => {
    const got = await result.data();
    near(Array.from(samples(got.length), (i) => [Number(got[i]), want(i), `element ${i}`]), tolerance);
  };
}

function matmul(m: number, k: number, n: number): Setup {
  return (device) => {
    const a = operand(device, 1, m, k), b = operand(device, 2, k, n);
    const fn = jit((a: Tensor, b: Tensor) => a.matmul(b));
    const want = (at: number): number => {
      let s = 0;
      const row = Math.floor(at / n), column = at % n;
      for (let i = 0; i < k; i++) s += a.host[row * k + i] * b.host[i * n + column];
      return s;
    };
    const sizes = m === 1 ? { nbytes: 4 * k * n } : { flops: 2 * m * k * n };
    return { run: () => fn(a.tensor, b.tensor), check: elements(want, 1e-4), ...sizes };
  };
}

function bmm(batch: number, m: number, k: number, n: number): Setup {
  return (device) => {
    const a = operand(device, 1, batch, m, k), b = operand(device, 2, batch, k, n);
    const fn = jit((a: Tensor, b: Tensor) => a.matmul(b));
    const want = (at: number): number => {
      let s = 0;
      const z = Math.floor(at / (m * n)), row = Math.floor(at / n) % m, column = at % n;
      for (let i = 0; i < k; i++) s += a.host[(z * m + row) * k + i] * b.host[(z * k + i) * n + column];
      return s;
    };
    return { run: () => fn(a.tensor, b.tensor), check: elements(want, 1e-4), flops: 2 * batch * m * k * n };
  };
}

function elementwise(
  count: number,
  operands: number,
  graph: (a: Tensor, b: Tensor) => Tensor,
  want: (a: number, b: number) => number,
): Setup {
  return (device) => {
    const a = operand(device, 1, count), b = operands > 1 ? operand(device, 2, count) : a;
    const nbytes = 4 * count * (operands + 1);
    const check = elements((i) => want(a.host[i], b.host[i]), 1e-5);
    if (operands === 1) {
      const fn = jit((a: Tensor) => graph(a, a));
      return { run: () => fn(a.tensor), check, nbytes };
    }
    const fn = jit(graph);
    return { run: () => fn(a.tensor, b.tensor), check, nbytes };
  };
}

function whole(count: number, graph: (a: Tensor) => Tensor, want: (a: Float32Array) => number): Setup {
  return (device) => {
    const a = operand(device, 1, count), fn = jit(graph);
    return { run: () => fn(a.tensor), check: elements(() => want(a.host), 1e-3), nbytes: 4 * count };
  };
}

/** A function of each row of 1024; `want` gives the row of results. */
function rows(graph: (a: Tensor) => Tensor, want: (row: Float32Array) => number[]): Setup {
  const height = 4096, width = 1024;
  return (device) => {
    const a = operand(device, 1, height, width), fn = jit(graph);
    const check = async (result: Tensor): Promise<void> => {
      const got = await result.data();
      const found: Sample[] = [];
      for (const r of samples(height, 9)) {
        const should = want(a.host.subarray(r * width, (r + 1) * width));
        should.forEach((x, i) => found.push([Number(got[r * width + i]), x, `element ${i} of row ${r}`]));
      }
      near(found, 1e-5);
    };
    return { run: () => fn(a.tensor), check, nbytes: 2 * 4 * height * width };
  };
}

function meanOf(xs: ArrayLike<number>, f: (x: number) => number = (x) => x): number {
  let s = 0;
  for (let i = 0; i < xs.length; i++) s += f(xs[i]);
  return s / xs.length;
}

function softmaxRow(row: ArrayLike<number>): number[] {
  let top = -Infinity;
  for (let i = 0; i < row.length; i++) top = Math.max(top, row[i]);
  const e = Array.from(row, (x) => Math.exp(x - top)), total = meanOf(e) * e.length;
  return e.map((x) => x / total);
}

function attention(device: string): Workload {
  const heads = 8, length = 512, width = 64;
  const [q, k, v] = [1, 2, 3].map((seed) => operand(device, seed, 1, heads, length, width));
  const fn = jit((q: Tensor, k: Tensor, v: Tensor) => q.scaledDotProductAttention(k, v));
  const check = async (result: Tensor): Promise<void> => {
    const got = await result.data(), found: Sample[] = [];
    for (const at of samples(heads * length, 13)) {
      const base = Math.floor(at / length) * length;
      const scores = Array.from({ length }, (_, j) => {
        let s = 0;
        for (let c = 0; c < width; c++) s += q.host[at * width + c] * k.host[(base + j) * width + c];
        return s / Math.sqrt(width);
      });
      const p = softmaxRow(scores);
      for (let c = 0; c < width; c += 7) {
        const want = p.reduce((s, x, j) => s + x * v.host[(base + j) * width + c], 0);
        found.push([Number(got[at * width + c]), want, `query ${at}, lane ${c}`]);
      }
    }
    near(found, 1e-4);
  };
  return { run: () => fn(q.tensor, k.tensor, v.tensor), check, flops: 4 * heads * length * length * width };
}

function convolution(device: string): Workload {
  const batch = 8, channels = 64, side = 56;
  const x = operand(device, 1, batch, channels, side, side), w = operand(device, 2, channels, channels, 3, 3);
  const fn = jit((x: Tensor, w: Tensor) => x.conv2d(w, undefined, { padding: 1 }));
  const want = (at: number): number => {
    const column = at % side, row = Math.floor(at / side) % side;
    const out = Math.floor(at / (side * side)) % channels, n = Math.floor(at / (side * side * channels));
    let s = 0;
    for (let c = 0; c < channels; c++) {
      for (let dy = 0; dy < 3; dy++) {
        for (let dx = 0; dx < 3; dx++) {
          const y = row + dy - 1, z = column + dx - 1;
          if (y < 0 || z < 0 || y >= side || z >= side) continue;
          s += x.host[((n * channels + c) * side + y) * side + z] * w.host[((out * channels + c) * 3 + dy) * 3 + dx];
        }
      }
    }
    return s;
  };
  const flops = 2 * batch * channels * channels * 9 * side * side;
  return { run: () => fn(x.tensor, w.tensor), check: elements(want, 1e-4), flops };
}

/** A training step with Adam on 128 random images; the loss must fall over the run. */
function training(make: () => Layer, ...shape: number[]): Setup {
  return (device) => {
    // weights by chance begin up to 1.3 times from what the check of the first loss expects
    Tensor.manualSeed(0);
    const model = make();
    const parameters = state.getParameters(model);
    for (const p of parameters) p.toInPlace(device);
    const optimizer = new nn.optim.Adam(parameters, { lr: 1e-3 });
    const x = operand(device, 1, 128, ...shape).tensor;
    const labels = Int32Array.from({ length: 128 }, (_, i) => (i * 7 + (i >> 3)) % 10);
    const y = new Tensor(labels, { device }).realize();
    const step = jit((x: Tensor, y: Tensor) => trainStep(model, optimizer, x, y));
    let first: number | undefined;
    const check = async (loss: Tensor): Promise<void> => {
      const value = await loss.item();
      if (first === undefined) {
        first = value;
        near([[value, Math.log(10), "the first loss"]], 0.25);
      } else if (!(value < first)) throw new Error(`the loss is ${value} after training, and was ${first}`);
    };
    return { run: () => step(x, y), check };
  };
}

const M16 = 1 << 24, M4 = 1 << 22;

/** All workloads by name. */
export const WORKLOADS: Readonly<Record<string, Setup>> = {
  matmul_256: matmul(256, 256, 256),
  matmul_1024: matmul(1024, 1024, 1024),
  matmul_2048: matmul(2048, 2048, 2048),
  gemv_4096: matmul(1, 4096, 4096),
  add_16M: elementwise(M16, 2, (a, b) => a.add(b), (a, b) => a + b),
  sum_16M: whole(M16, (a) => a.sum(), (a) => meanOf(a) * a.length),
  fused_16M: elementwise(
    M16,
    2,
    (a, b) => a.mul(b).add(a).relu().mul(2).sub(b).sqrt(),
    (a, b) => Math.sqrt(Math.max(a * b + a, 0) * 2 - b),
  ),
  softmax_4096x1024: rows((a) => a.softmax(-1), softmaxRow),
  layernorm_4096x1024: rows((a) => a.layernorm(), (row) => {
    const mean = meanOf(row), scale = 1 / Math.sqrt(meanOf(row, (x) => (x - mean) ** 2) + 1e-5);
    return Array.from(row, (x) => (x - mean) * scale);
  }),
  var_16M: whole(M16, (a) => a.var(), (a) => {
    const mean = meanOf(a);
    return meanOf(a, (x) => (x - mean) ** 2) * a.length / (a.length - 1);
  }),
  rmsnorm_4096x1024: rows((a) => a.mul(a.mul(a).mean(-1, { keepdim: true }).add(1e-6).rsqrt()), (row) => {
    const scale = 1 / Math.sqrt(meanOf(row, (x) => x * x) + 1e-6);
    return Array.from(row, (x) => x * scale);
  }),
  attention_8x512x64: attention,
  conv_64x56: convolution,
  gelu_4M: elementwise(
    M4,
    1,
    (a) => a.gelu({ approximate: "tanh" }),
    (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
  ),
  matmul_1000x777x333: matmul(1000, 777, 333),
  matmul_17x4096x129: matmul(17, 4096, 129),
  bmm_64x128x128x64: bmm(64, 128, 128, 64),
  mlp_train: training(() => new Mlp(), 784),
  mnist_conv_train: training(() => new MnistConvNet(), 1, 28, 28),
};

/** A workload that has run twice (so that it is captured), with its first result checked. */
export interface Prepared {
  readonly device: OpenDevice;
  /** Runs once and waits for the device. */
  readonly once: () => Promise<void>;
  readonly workload: Workload;
  readonly firstMs: number;
}

/** Makes a workload ready: the first call, which compiles, is timed; its result and that of the capture are checked. */
export async function prepare(name: string, deviceName: string): Promise<Prepared> {
  const setup = WORKLOADS[name];
  if (setup === undefined) throw new Error(`no workload ${name}; known are ${Object.keys(WORKLOADS).join(", ")}`);
  const device = Device.get(deviceName), workload = setup(deviceName);
  await device.synchronize();
  const start = performance.now();
  const result = workload.run();
  await device.synchronize();
  const firstMs = performance.now() - start;
  await workload.check(result);
  result.dispose();
  const once = async () => {
    const out = workload.run();
    await device.synchronize();
    out.dispose();
  };
  await once();
  return { device, once, workload, firstMs };
}

/** Measures a workload as PyTorch's numbers were: three runs to warm up, then a second of runs, from 5 to 200. */
export async function measure(name: string, deviceName: string): Promise<Measurement> {
  const { device, once, workload, firstMs } = await prepare(name, deviceName);
  for (let i = 0; i < 3; i++) await once();
  const times: number[] = [];
  let kernels = 0;
  const timed = async (): Promise<number> => {
    const before = GlobalCounters.kernelCount, start = performance.now();
    const out = workload.run();
    await device.synchronize();
    const ms = performance.now() - start;
    kernels = GlobalCounters.kernelCount - before;
    out.dispose();
    return ms;
  };
  const one = await timed();
  const count = Math.max(5, Math.min(200, Math.floor(1000 / Math.max(one, 1e-3))));
  for (let i = 0; i < count; i++) times.push(await timed());
  const last = workload.run();
  await workload.check(last);
  last.dispose();
  times.sort((a, b) => a - b);
  const median = times[times.length >> 1], round = (x: number, digits: number) => Number(x.toFixed(digits));
  return {
    name,
    device: device.name,
    med_ms: round(median, 4),
    min_ms: round(times[0], 4),
    first_ms: round(firstMs, 2),
    kernels,
    ...(workload.flops !== undefined ? { gflops: round(workload.flops / median / 1e6, 1) } : {}),
    ...(workload.nbytes !== undefined ? { gbs: round(workload.nbytes / median / 1e6, 2) } : {}),
  };
}
