/**
 * Ranks with a card each, started here as torchrun starts them: what `deno task bench:dist --cards N` measures.
 *
 * For 1, 2, 4 … N cards a line of JSON each: all-reduces of float32 (`GB/s` of bus bandwidth, 2 (n - 1) / n of the bytes over
 * the time, as NCCL's own tests count), a training step of a GPT-2 of 124 M parameters in bfloat16 by data parallel (8
 * texts of 1024 tokens a card), the same with weights, gradients and what the optimizer keeps divided in memory, a
 * ColumnLinear then RowLinear that two cards share, and what a step with some twenty collectives takes the host. Times are
 * medians by the clock, of steps that are waited for one by one. dist_peers.py prints the same of PyTorch.
 *
 * @module
 */
import { autocast, Device, GlobalCounters, jit, nn, state, Tensor } from "../mod.ts";
import { world } from "../src/collectives/engines.ts";
import * as dist from "../src/dist/dist.ts";
import { bufferOf } from "../src/device/buffer.ts";
import { realizedBuffer } from "../src/tensor/realize.ts";
import { argOf } from "../src/uop/core/args.ts";
import { Ops } from "../src/uop/core/ops.ts";
import { Gpt, type GptShape } from "../examples/gpt_support.ts";
import { median } from "../src/engine/tuning/race.ts";

/** Sizes of what is measured; small ones are for hosts without cards. */
interface Scale {
  readonly reduces: readonly number[];
  readonly gpt: GptShape;
  readonly texts: number;
  readonly features: number;
  readonly rows: number;
}
const SCALES: Readonly<Record<string, Scale>> = {
  big: {
    reduces: [1 << 20, 16 << 20, 256 << 20],
    gpt: { vocabulary: 50304, context: 1024, layers: 12, heads: 12, width: 768 },
    texts: 8,
    features: 8192,
    rows: 4096,
  },
  small: {
    reduces: [1 << 12, 1 << 16],
    gpt: { vocabulary: 256, context: 32, layers: 2, heads: 2, width: 32 },
    texts: 2,
    features: 64,
    rows: 32,
  },
};
const QUEUED = 20, WARM = 3, STEPS = 10, HOST_LAYERS = 10, HOST_STEPS = 200;

type Row = Record<string, number | string>;

/** Milliseconds of each of some calls that are waited for. */
async function times(call: () => Tensor, steps = STEPS): Promise<number[]> {
  const out: number[] = [];
  for (let i = 0; i < WARM + steps; i++) {
    const start = performance.now();
    call();
    await Device.get(Device.default).synchronize();
    if (i >= WARM) out.push(performance.now() - start);
  }
  return out;
}

async function allReduces(sizes: readonly number[]): Promise<Row[]> {
  const rows: Row[] = [], n = dist.size, device = Device.get(Device.default), { communicator } = world;
  for (const nbytes of sizes) {
    const t = Tensor.ones([nbytes / 4]).contiguous().realize(), { storage } = argOf(realizedBuffer(t.uop)!, Ops.BUFFER);
    const buffers = [bufferOf(storage)!], rounds: number[] = [];
    for (let round = 0; round < 8; round++) {
      await dist.barrier();
      const start = performance.now();
      for (let i = 0; i < QUEUED; i++) {
        const work = communicator!.start({ kind: "allReduce", op: "max" }, buffers, buffers, { isAgreed: true });
        if (i === QUEUED - 1) work.wait();
        else work.join();
      }
      await device.synchronize();
      rounds.push((performance.now() - start) / QUEUED);
    }
    const ms = median(rounds.slice(2));
    rows.push({ name: `allReduce ${nbytes >> 10} KiB`, ms, gbs: 2 * (n - 1) / n * nbytes / ms / 1e6 });
  }
  return rows;
}

async function gptStep(scale: string, mesh: dist.Mesh, isDivided: boolean): Promise<Row> {
  const { gpt, texts } = SCALES[scale], rows = texts * mesh.sizeOf("data");
  Tensor.manualSeed(1);
  const model = new Gpt(gpt, mesh);
  state.place(model, mesh, isDivided ? { shard: "data" } : {});
  const optimizer = new nn.optim.AdamW(state.getParameters(model), { lr: 1e-4 });
  const tokens = Tensor.randint([rows, gpt.context], { high: gpt.vocabulary }).realize();
  const put = tokens.shard(mesh, ["data", null]).realize();
  const step = jit((x: Tensor) =>
    Tensor.train(() => {
      optimizer.zeroGrad();
      const loss = autocast({ dtype: "bfloat16" }, () => model.loss(x, x)).backward();
      Tensor.realize([loss, ...optimizer.scheduleStep()]);
      return loss;
    })
  );
  let loss = step(put);
  const start = performance.now();
  loss = step(put);
  await Device.get(Device.default).synchronize();
  const captureMs = performance.now() - start, ms = median(await times(() => loss = step(put)));
  const kept = [...state.getParameters(model), ...Object.values(state.getStateDict(optimizer))];
  const part = (t: Tensor): number => t.nbytes() / (isDivided && t.numel() > 1 ? mesh.sizeOf("data") : 1);
  return {
    name: isDivided ? "gpt2 divided" : "gpt2",
    ms,
    texts_s: rows / ms * 1e3,
    capture_ms: captureMs,
    loss: await loss.item() as number,
    state_MB: kept.reduce((sum, t) => sum + part(t), 0) / 1e6,
    used_MB: GlobalCounters.memUsed / 1e6,
    collectives: GlobalCounters.collectiveCount,
  };
}

async function columnsThenRows(scale: string, mesh: dist.Mesh): Promise<Row> {
  const { features, rows } = SCALES[scale];
  const up = new dist.ColumnLinear(features, 4 * features, mesh, { bias: false });
  const down = new dist.RowLinear(4 * features, features, mesh, { bias: false });
  for (const t of state.getParameters([up, down])) t.replace(t.cast("bfloat16").realize());
  state.place({ up, down }, mesh);
  const x = Tensor.randn([rows, features]).cast("bfloat16").realize().shard(mesh, [null, null]).realize();
  const f = jit((x: Tensor) => down.call(up.call(x).relu()).reshard(mesh, [null, null]).realize());
  f(x), f(x);
  const ms = median(await times(() => f(x)));
  return { name: "column, row", ms, tflops: 16 * rows * features ** 2 / ms / 1e9 };
}

/** What a replay of a step of small layers, divided in memory, takes the host: the card is idle before each. */
async function hostOfStep(mesh: dist.Mesh): Promise<Row> {
  const layers = Array.from({ length: HOST_LAYERS }, () => new nn.Linear(64, 64));
  state.place(layers, mesh, { shard: "data" });
  const optimizer = new nn.optim.SGD(state.getParameters(layers), { lr: 0.02 });
  const x = Tensor.ones([64, 64]).contiguous().shard(mesh, ["data", null]).realize(), times: number[] = [];
  const step = jit((x: Tensor) =>
    Tensor.train(() => {
      optimizer.zeroGrad();
      const loss = layers.reduce((t, l) => l.call(t).tanh(), x).square().mean().backward();
      optimizer.step();
      return loss.realize();
    })
  );
  for (let i = 0; i < HOST_STEPS; i++) {
    const start = performance.now();
    step(x);
    times.push(performance.now() - start);
    await Device.get(Device.default).synchronize();
  }
  const before = GlobalCounters.collectiveCount;
  step(x);
  return {
    name: "host of a step",
    ms: median(times.slice(HOST_STEPS / 2)),
    collectives: GlobalCounters.collectiveCount - before,
  };
}

/** What one rank measures; rank 0 prints it. */
async function measureRank(scale: string): Promise<void> {
  await dist.init();
  const n = dist.size, say = (row: Row) => dist.rank === 0 && console.log(JSON.stringify({ cards: n, ...row }));
  const meshOf = (axes: Record<string, number>): dist.Mesh =>
    n === 1 ? dist.Mesh.of(axes, { devices: [Device.default] }) : dist.Mesh.of(axes);
  if (n > 1) { for (const row of await allReduces(SCALES[scale].reduces)) say(row); }
  if (n <= 2) say(await columnsThenRows(scale, meshOf({ model: n })));
  say(await gptStep(scale, meshOf({ data: n, model: 1 }), false));
  if (n === 1) return;
  say(await gptStep(scale, meshOf({ data: n, model: 1 }), true));
  say(await hostOfStep(meshOf({ data: n })));
}

/** Runs this with 1, 2, 4 … `cards` ranks one after the other, each with a card of its own; how many failed. */
export async function measureCards(cards: number): Promise<number> {
  let failed = 0;
  for (let n = 1; n <= cards; n *= 2) {
    const ranks = Array.from({ length: n }, (_, r) =>
      new Deno.Command(Deno.execPath(), {
        args: ["run", "-A", "--no-check", import.meta.url],
        env: {
          RANK: String(r),
          WORLD_SIZE: String(n),
          LOCAL_RANK: String(r),
          LOCAL_WORLD_SIZE: String(n),
          MASTER_ADDR: "127.0.0.1",
          MASTER_PORT: String(29600 + n),
          DEV: "CUDA",
        },
        stdin: "null",
      }).spawn());
    for (const { code } of await Promise.all(ranks.map((r) => r.status))) failed += code === 0 ? 0 : 1;
  }
  return failed;
}

if (import.meta.main) await measureRank(Deno.args[0] ?? "big");
