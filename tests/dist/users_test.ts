/**
 * Programs as users of other libraries write them, of docs/distributed.md alone, on four devices against one: a convnet by
 * lists of devices (tinygrad), replicas and divided weights (PyTorch's DDP and FSDP), meshes of two axes (JAX).
 */
import { autocast, Device, jit, nn, state, Tensor } from "../../mod.ts";
import { ColumnLinear, Mesh, RowLinear, VocabEmbedding } from "../../src/dist/dist.ts";
import { assertClose } from "../support/assert.ts";
import { inFolder } from "../support/folder.ts";

Device.default = "JS";
const devices = ["JS", "JS:1", "JS:2", "JS:3"];
const line = Mesh.of({ data: 4 }, { devices }), grid = Mesh.of({ data: 2, model: 2 }, { devices });

/** How a program puts what it makes: on a mesh, or nowhere. */
interface Way {
  /** A batch, divided by its first dimension. */
  readonly batch: (t: Tensor) => Tensor;
  /** A model: on each device. */
  readonly copied: <M extends object>(model: M) => M;
  /** A model: divided in memory. */
  readonly divided: <M extends object>(model: M) => M;
}
const ALONE: Way = { batch: (t) => t, copied: (m) => m, divided: (m) => m };
const MANY: Way = {
  batch: (t) => t.shard(line, t.shape.map((_, i) => i === 0 ? "data" : null)).realize(),
  copied: (m) => state.place(m, line),
  divided: (m) => state.place(m, line, { shard: "data" }),
};

/** Losses of steps of an optimizer on what `lossOf` gives. */
async function losses(optimizer: nn.optim.Optimizer, lossOf: (step: number) => Tensor, steps = 3): Promise<number[]> {
  const out: number[] = [];
  for (let i = 0; i < steps; i++) {
    const loss = Tensor.train(() => {
      optimizer.zeroGrad();
      const loss = lossOf(i).backward();
      optimizer.step();
      return loss;
    });
    out.push(await loss.item() as number);
  }
  return out;
}
/** Made before the model is put anywhere, so that all ways have the same. */
function normal(...shape: number[]): Tensor {
  return Tensor.randn(shape).realize();
}
function labels(n: number, high: number): Tensor {
  return Tensor.randint([n], { high }).realize();
}

/** By program, numbers that do not depend on where it runs. */
const PROGRAMS: Readonly<Record<string, (way: Way) => Promise<readonly number[]>>> = {
  "a convnet with batch norm: losses, accuracy and running statistics": async ({ batch, copied }) => {
    const model = { conv: new nn.Conv2d(1, 8, 3), norm: new nn.BatchNorm(8), out: new nn.Linear(72, 10) };
    const x = batch(normal(32, 1, 8, 8)), y = batch(labels(32, 10));
    copied(model);
    const call = (x: Tensor): Tensor => {
      return model.out.call(model.norm.call(model.conv.call(x)).relu().maxPool2d(2).flatten(1));
    };
    const optimizer = new nn.optim.SGD(state.getParameters(model), { lr: 0.05, momentum: 0.9 });
    const trained = await losses(optimizer, () => call(x).sparseCategoricalCrossentropy(y));
    const right = await call(x).argmax(1).eq(y).mean().item() as number;
    return [...trained, right, ...await model.norm.runningMean!.data() as Iterable<number>];
  },
  "a residual block of grouped convolutions and group norm, divided in memory": ({ batch, divided }) => {
    const block = {
      first: new nn.Conv2d(4, 8, 3, { padding: 1 }),
      second: new nn.Conv2d(8, 8, 3, { padding: 1, groups: 2 }),
      norm: new nn.GroupNorm(2, 8),
      short: new nn.Conv2d(4, 8, 1),
    };
    const x = batch(normal(8, 4, 6, 6));
    divided(block);
    return losses(new nn.optim.SGD(state.getParameters(block), { lr: 0.1 }), () => {
      const deep = block.norm.call(block.second.call(block.first.call(x).relu()));
      return deep.add(block.short.call(x)).avgPool2d(2).mean([2, 3]).square().mean();
    });
  },
  "a transformer's layer, divided in memory": ({ batch, divided }) => {
    const layer = new nn.TransformerEncoderLayer(16, 4, { dimFeedforward: 32, dropout: 0, batchFirst: true });
    const x = batch(normal(4, 5, 16)), y = batch(normal(4, 5, 16));
    divided(layer);
    const optimizer = new nn.optim.AdamW(state.getParameters(layer), { lr: 1e-3 });
    return losses(optimizer, () => layer.call(x).sub(y).square().mean());
  },
  "a recurrent network on replicas": ({ batch, copied }) => {
    const model = { cells: new nn.LSTM(5, 6, { batchFirst: true }), out: new nn.Linear(6, 2) };
    const x = batch(normal(8, 4, 5)), y = batch(labels(8, 2));
    copied(model);
    return losses(new nn.optim.Adam(state.getParameters(model), { lr: 0.01 }), () => {
      const [states] = model.cells.call(x);
      return model.out.call(states.mean(1)).crossEntropy(y);
    });
  },
  "micro-batches in bfloat16, clipped, by a schedule of rates": async ({ batch, divided }) => {
    const model = { up: new nn.Linear(8, 32), norm: new nn.LayerNorm(32), down: new nn.Linear(32, 5) };
    const parts = [0, 1].map(() => ({ x: batch(normal(8, 8)), y: batch(labels(8, 5)) }));
    divided(model);
    const parameters = state.getParameters(model), optimizer = new nn.optim.AdamW(parameters, { lr: 0.01 });
    const rates = new nn.optim.CosineAnnealingLR(optimizer, { tMax: 10 }), out: number[] = [];
    for (let step = 0; step < 3; step++) {
      await Tensor.train(async () => {
        optimizer.zeroGrad();
        for (const { x, y } of parts) {
          const scores = autocast(
            { dtype: "bfloat16" },
            () => model.down.call(model.norm.call(model.up.call(x)).gelu()),
          );
          out.push(await scores.crossEntropy(y).div(parts.length).backward().item() as number);
        }
        nn.utils.clipGradNorm(parameters, 1);
        optimizer.step();
        rates.step();
      });
    }
    return out;
  },
  "two networks against each other, with an optimizer each": async ({ batch, divided }) => {
    const maker = new nn.Linear(3, 4), judge = { first: new nn.Linear(4, 8), second: new nn.Linear(8, 1) };
    const noise = batch(normal(8, 3)), real = batch(normal(8, 4));
    divided(maker), divided(judge);
    const score = (x: Tensor): Tensor => judge.second.call(judge.first.call(x).tanh()).mean();
    const makers = new nn.optim.Adam(state.getParameters(maker), { lr: 0.01 });
    const judges = new nn.optim.Adam(state.getParameters(judge), { lr: 0.01 }), out: number[] = [];
    for (let i = 0; i < 3; i++) {
      out.push(...await losses(judges, () => score(maker.call(noise).detach()).sub(score(real)), 1));
      out.push(...await losses(makers, () => score(maker.call(noise)).neg(), 1));
    }
    return out;
  },
  "a last batch that does not divide evenly": async ({ batch, copied }) => {
    const model = new nn.Linear(6, 3), x = normal(10, 6), y = labels(10, 3);
    copied(model);
    return [await model.call(batch(x)).crossEntropy(batch(y)).item() as number];
  },
  "what evaluation counts: the best three, a matrix of confusion, chosen scores": async ({ batch }) => {
    const scores = batch(normal(8, 5)), truth = batch(labels(8, 5));
    const confusion = truth.oneHot(5).float().T.matmul(scores.argmax(1).oneHot(5).float());
    const all = [
      scores.topk(3)[1].eq(truth.unsqueeze(1)).any(1).float().mean(),
      scores.sort(1)[0],
      confusion,
      scores.gather(1, truth.unsqueeze(1)),
      scores.gt(0).where(scores, 0).sum(1),
      scores.softmax(0).std(1),
    ];
    return (await Promise.all(all.map((t) => t.data()))).flatMap((values) => [...values as Iterable<number>]);
  },
};
for (const [name, program] of Object.entries(PROGRAMS)) {
  Deno.test(`users: ${name}`, async () => {
    const run = (way: Way): Promise<readonly number[]> => {
      Tensor.manualSeed(7);
      return program(way);
    };
    assertClose(await run(MANY), await run(ALONE), name.includes("bfloat16") ? 2 ** -8 : undefined);
  });
}

Deno.test("users: attention whose heads are divided, and a vocabulary: layers made of one device's", async () => {
  Tensor.manualSeed(5);
  const width = 16, heads = 4, x = normal(2, 6, width), mine = () => new nn.Linear(width, width, { bias: false });
  const whole = { q: mine(), k: mine(), v: mine(), out: mine() };
  const column = () => new ColumnLinear(width, width, grid, { bias: false });
  const parts = { q: column(), k: column(), v: column(), out: new RowLinear(width, width, grid, { bias: false }) };
  for (const name of ["q", "k", "v", "out"] as const) {
    parts[name].weight.assign(whole[name].weight.shardLike(parts[name].weight)).realize();
  }
  const attend = (x: Tensor, { q, k, v, out }: typeof whole | typeof parts): Tensor => {
    const split = (t: Tensor): Tensor => t.reshape([2, 6, heads, width / heads]).transpose(1, 2);
    const [a, b, c] = [q, k, v].map((layer) => split(layer.call(x)));
    return out.call(a.scaledDotProductAttention(b, c, undefined, { isCausal: true }).transpose(1, 2).flatten(2));
  };
  const got = attend(x.shard(grid, ["data", null, null]), parts);
  assertClose(await got.data(), await attend(x, whole).data());

  const table = new VocabEmbedding(10, width, grid), head = new ColumnLinear(width, 10, grid, { bias: false });
  const ids = Tensor.randint([4, 6], { high: 10 }).realize(), put = ids.shard(grid, ["data", null]);
  const loss = head.call(table.call(put)).reshape([24, 10]).crossEntropy(put.flatten());
  const [rows, scores] = [table.weight, head.weight].map((t) => t.reshard(grid, [null, null]).to("JS"));
  const want = rows.at(ids).matmul(scores.T).reshape([24, 10]).crossEntropy(ids.flatten());
  assertClose([await loss.item()], [await want.item()]);
});

Deno.test("users: a layer of weights along two axes, stepped by hand, captured", async () => {
  const run = async (mesh?: Mesh): Promise<number[]> => {
    Tensor.manualSeed(2);
    const put = (t: Tensor, spec: (string | null)[]): Tensor => mesh === undefined ? t : t.shard(mesh, spec).realize();
    const weights = [put(normal(12, 16), [null, "model"]), put(normal(16, 4), ["model", null])], out: number[] = [];
    const x = put(normal(16, 12), ["data", null]), y = put(normal(16, 4), ["data", null]);
    for (const w of weights) w.requiresGrad = true;
    const step = jit((x: Tensor, y: Tensor) => {
      const loss = x.matmul(weights[0]).tanh().matmul(weights[1]).sub(y).square().mean();
      loss.gradient(weights).forEach((g, i) => weights[i].assign(weights[i].detach().sub(g.mul(0.01))));
      Tensor.realize([loss, ...weights]);
      return loss;
    });
    for (let i = 0; i < 4; i++) out.push(await step(x, y).item() as number);
    return out;
  };
  assertClose(await run(grid), await run());
});

Deno.test("users: a divided model and its optimizer go on from a checkpoint on fewer devices", () =>
  inFolder(async (folder) => {
    Tensor.manualSeed(9);
    const x = normal(8, 6),
      file = `${folder}/model.safetensors`,
      few = Mesh.of({ data: 2 }, { devices: ["JS", "JS:1"] });
    const make = (mesh: Mesh) => {
      const model = state.place(new nn.Linear(6, 8), mesh, { shard: "data" });
      const optimizer = new nn.optim.Adam(state.getParameters(model), { lr: 0.1 });
      const rows = x.shard(mesh, ["data", null]);
      return { model, optimizer, steps: () => losses(optimizer, () => model.call(rows).square().mean(), 2) };
    };
    const first = make(line), second = make(few);
    await first.steps();
    await state.distSave({ model: first.model, optimizer: first.optimizer }, file);
    await state.distLoad({ model: second.model, optimizer: second.optimizer }, file);
    assertClose(await second.steps(), await first.steps());
  }));
