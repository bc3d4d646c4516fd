/**
 * What launching costs: `deno run -A bench/replay_bench.ts [--device D] [--replays N]`. A JSON line each:
 *
 * - `eager`: microseconds a kernel from making the graph to its end, at a hit of the schedule cache; for one kernel a
 *   realize, and for 100.
 * - `replay`: microseconds a launch of `jit` with one kernel, and what each further kernel adds, on kernels of two elements.
 * - `threads`: what a kernel takes that all threads share, and the same with one thread (in a process of its own); the
 *   barrier is what is over the latter divided by the threads. Kernels compute much on little, so that memory is idle.
 * - `train`: a replayed training step (mlp_train), beside the sum of its kernels' own times.
 * - `symbolic`: attention over 16 and over 4096 positions of one capture, and over 4096 that are a number.
 * - `memory`: `--replays` (1,000,000) replays: resident memory after a tenth of them and at the end, both when all that is
 *   unreachable has been collected, and the most that there was in between; live bytes at both.
 *
 * @module
 */
import { Device, GlobalCounters, jit, Tensor, Variable } from "../mod.ts";
import { settleMemory } from "../src/device/pressure.ts";
import { context } from "../src/helpers/env.ts";
import { option } from "./json.ts";
import { WORKLOADS } from "./workloads.ts";

/** The least microseconds of a call, of several rounds. */
function micros(call: () => unknown, count: number, rounds = 7): number {
  for (let i = 0; i < 4; i++) call();
  let best = Infinity;
  for (let r = 0; r < rounds; r++) {
    const start = performance.now();
    for (let i = 0; i < count; i++) call();
    best = Math.min(best, (performance.now() - start) / count);
  }
  return best * 1e3;
}

function round(x: number): number {
  return Math.round(x * 1000) / 1000;
}

type Step = (x: Tensor) => Tensor;
const addOne: Step = (x) => x.add(1);

/** `count` kernels, each of which reads all that the one before has written: none can be made one with the next. */
function chain(x: Tensor, count: number, step = addOne): Tensor {
  for (let i = 0; i < count; i++) x = step(x.flip(0)).contiguous();
  return x;
}

function eager(): Record<string, number> {
  const x = Tensor.zeros([16]).contiguous().realize();
  const one = micros(() => chain(x, 1).realize().dispose(), 300);
  const hundred = micros(() => chain(x, 100).realize().dispose(), 10) / 100;
  return { one_us: round(one), of_100_us: round(hundred) };
}

/** Launch and kernel overhead of replays of kernels with `size` elements; about `kernels` of them a round. */
function replay(size: number, many: number, step = addOne, kernels = 20000): Record<string, number> {
  const x = Tensor.zeros([size]).contiguous().realize();
  const time = (count: number): number => {
    const f = jit((x: Tensor) => chain(x, count, step), { reuseOutputs: true });
    return micros(() => f(x), Math.max(5, Math.floor(kernels / count)));
  };
  const one = time(1), all = time(many);
  return { launch_us: round(one), kernel_us: round((all - one) / (many - 1)) };
}

/** Kernels that are worth several threads on few elements. */
function heavy(): number {
  return replay(1 << 15, 20, (x) => x.sin().sin(), 200).kernel_us;
}

async function threads(device: string): Promise<Record<string, number>> {
  const count = Device.get(device).renderer.caps.threads, kernel = heavy();
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", import.meta.url, "--device", device, "--heavy"],
    env: { THREADS: "1" },
    stderr: "inherit",
  }).output();
  const alone = Number(new TextDecoder().decode(stdout));
  return { threads: count, kernel_us: kernel, alone_us: alone, barrier_us: round(kernel - alone / count) };
}

/** A training step as a whole, and kernel by kernel. */
function train(device: string): Record<string, number> {
  const { run } = WORKLOADS.mlp_train(device);
  for (let i = 0; i < 3; i++) run();
  const sum = (): number => {
    GlobalCounters.reset();
    context({ DEBUG: 2 }, run);
    return GlobalCounters.timeSumS * 1e6;
  };
  const { error } = console;
  console.error = () => {};
  let kernels = Infinity, whole = Infinity;
  try {
    for (let i = 0; i < 15; i++) {
      kernels = Math.min(kernels, sum());
      whole = Math.min(whole, micros(run, 10, 1));
    }
  } finally {
    console.error = error;
  }
  return { replay_us: round(whole), kernels_us: round(kernels), ratio: round(whole / kernels) };
}

function symbolic(): Record<string, number> {
  const heads = 8, width = 64, most = 4096, pos = new Variable("pos", 1, most);
  const make = (n: number): Tensor => Tensor.randn([1, heads, n, width]).realize();
  const q = make(1), k = make(most), v = make(most);
  const f = jit(
    (q: Tensor, n: Tensor) => q.scaledDotProductAttention(k.at(":", ":", [0, n]), v.at(":", ":", [0, n])),
    { reuseOutputs: true },
  );
  const time = (n: number): number => {
    const bound = pos.bind(n);
    return micros(() => f(q, bound), 20);
  };
  const fixed = jit((q: Tensor, k: Tensor, v: Tensor) => q.scaledDotProductAttention(k, v), { reuseOutputs: true });
  let short = Infinity, long = Infinity, plain = Infinity;
  for (let i = 0; i < 3; i++) {
    short = Math.min(short, time(16));
    long = Math.min(long, time(most));
    plain = Math.min(plain, micros(() => fixed(q, k, v), 20));
  }
  return {
    at_16_us: round(short),
    at_4096_us: round(long),
    ratio: round(long / short),
    fixed_4096_us: round(plain),
    over_fixed: round(long / plain),
  };
}

async function memory(replays: number): Promise<Record<string, number>> {
  const f = jit((x: Tensor) => x.sum().add(x).contiguous().mul(2)), x = Tensor.ones([64]).contiguous().realize();
  const rss = (): number => Math.round(Deno.memoryUsage().rss / 1024);
  const settled = async (): Promise<number> => {
    await settleMemory();
    return rss();
  };
  const live = (): number => Object.values(Device.memory()).reduce((n, m) => n + m.bytes, 0);
  let from = 0, liveFrom = 0, most = 0;
  for (let i = 0; i < replays; i++) {
    using _ = f(x);
    if (i % 1000 !== 0) continue;
    await new Promise((done) => setImmediate(done));
    if (i === Math.floor(replays / 10000) * 1000) [from, liveFrom] = [await settled(), live()];
    most = Math.max(most, rss());
  }
  return { replays, from_kb: from, to_kb: await settled(), most_kb: most, live_from: liveFrom, live_to: live() };
}

async function main(args: readonly string[]): Promise<void> {
  const device = Device.default = option(args, "device") ?? Device.default;
  if (args.includes("--heavy")) return console.log(heavy());
  const replays = Number(option(args, "replays") ?? 1e6);
  const print = (name: string, values: Record<string, number>): void =>
    console.log(JSON.stringify({ name, device, ...values }));
  print("eager", eager());
  print("replay", replay(2, 1000));
  print("threads", await threads(device));
  print("train", train(device));
  print("symbolic", symbolic());
  print("memory", await memory(replays));
}

if (import.meta.main) await main(Deno.args.filter((a) => a !== "--"));
