/**
 * Everyday programs of people who come from PyTorch, written as they write them, without a cast or a way around: what
 * they learn is right, and `deno check` takes them as they stand.
 */
import { assert, assertClose, assertEquals } from "@std/assert";
import { autocast, grad, jit, nn, state, Tensor } from "../../mod.ts";
import { programs } from "./everyday.ts";

const program = programs("everyday training", 7);

/** A block of a decoder. */
class Block {
  readonly norm = new nn.LayerNorm(16);
  readonly project = new nn.Linear(16, 48);
  readonly out = new nn.Linear(16, 16);
  readonly dropout = new nn.Dropout(0.1);
  call(x: Tensor): Tensor {
    const [b, t] = x.shape;
    const [q, k, v] = this.project.call(this.norm.call(x)).reshape([b, t, 3, 2, 8]).permute([2, 0, 3, 1, 4]);
    const y = q.scaledDotProductAttention(k, v, undefined, { isCausal: true });
    return x.add(this.dropout.call(this.out.call(y.transpose(1, 2).reshape([b, t, 16]))));
  }
}
class GPT {
  readonly tokens = new nn.Embedding(5, 16);
  readonly places = new nn.Embedding(8, 16);
  readonly blocks = [new Block()];
  readonly head = new nn.Linear(16, 5, { bias: false });
  call(ids: Tensor): Tensor {
    let x = this.tokens.call(ids).add(this.places.call(Tensor.arange(ids.shape[1])));
    for (const block of this.blocks) x = block.call(x);
    return this.head.call(x);
  }
}

program("a GPT on letters: batches cut from a text, AdamW, cosine, clipping, dropout", async () => {
  const text = "abcde".repeat(40), vocabulary = [...new Set(text)].sort(), T = 8;
  const data = new Tensor([...text].map((c) => vocabulary.indexOf(c))).realize();
  const model = new GPT(), optimizer = new nn.optim.AdamW(state.getParameters(model), { lr: 3e-2 });
  const schedule = new nn.optim.CosineAnnealingLR(optimizer, { tMax: 30 });
  const step = jit((x: Tensor, y: Tensor) =>
    Tensor.train(() => {
      optimizer.zeroGrad();
      const loss = model.call(x).reshape([-1, 5]).crossEntropy(y.flatten()).backward();
      nn.optim.clipGradNorm(optimizer.params, 1);
      optimizer.step();
      return loss;
    })
  );
  const losses: number[] = [];
  for (let i = 0; i < 30; i++) {
    const offsets = [0, 3, 11, 24].map((o) => (o * (i + 1)) % (text.length - T - 1));
    const x = Tensor.stack(offsets.map((o) => data.at([o, o + T])));
    const y = Tensor.stack(offsets.map((o) => data.at([o + 1, o + T + 1])));
    losses.push(await step(x, y).item());
    schedule.step();
  }
  assert(losses[29] < 0.3 && losses[29] < losses[0] / 4, `${losses[0]} to ${losses[29]}`);
  const next = await model.call(new Tensor([[2, 3, 4]])).at(0, -1).argmax().item();
  assertEquals(vocabulary[next], "a");
});

program("decoding with a cache of keys and values is the whole pass", async () => {
  const [heads, size, steps] = [2, 4, 5], q = Tensor.randn([1, heads, steps, size]).realize();
  const [k, v] = [Tensor.randn(q.shape).realize(), Tensor.randn(q.shape).realize()];
  const whole = q.scaledDotProductAttention(k, v, undefined, { isCausal: true });
  const keys = Tensor.zeros([1, heads, 8, size]).contiguous().realize(), values = keys.clone().realize();
  const rows: Tensor[] = [];
  for (let t = 0; t < steps; t++) {
    keys.setAt([":", ":", t], k.at(":", ":", t));
    values.setAt([":", ":", t], v.at(":", ":", t));
    const [seen, held] = [keys, values].map((cache) => cache.at(":", ":", [0, t + 1]));
    rows.push(q.at(":", ":", [t, t + 1]).scaledDotProductAttention(seen, held).realize());
  }
  assertClose(await rows[0].cat(rows.slice(1), 2).sub(whole).abs().max().item(), 0, 1e-5);
});

program("a variational autoencoder: noise that gradients pass", async () => {
  const encode = new nn.Linear(6, 4), decode = new nn.Linear(2, 6);
  const x = Tensor.rand([32, 1]).mul([1, 1, 1, 0, 0, 0]).realize();
  const optimizer = new nn.optim.Adam(state.getParameters({ encode, decode }), { lr: 0.03 });
  let first = 0, last = 0;
  for (let i = 0; i < 40; i++) {
    const loss = Tensor.train(() => {
      optimizer.zeroGrad();
      const [mean, logVar] = encode.call(x).chunk(2, -1);
      const z = mean.add(logVar.mul(0.5).exp().mul(Tensor.randn(mean.shape)));
      const kl = logVar.exp().add(mean.square()).sub(1).sub(logVar).sum(-1).mul(0.5).mean();
      const loss = decode.call(z).sub(x).square().sum(-1).mean().add(kl.mul(0.01)).backward();
      optimizer.step();
      return loss;
    });
    last = await loss.item();
    if (i === 0) first = last;
  }
  assert(last < 0.5 * first, `${first} to ${last}`);
});

program("a residual network on digits: batch normalization, shortcuts, accuracy", async () => {
  const conv = (a: number, b: number) => ({ c: new nn.Conv2d(a, b, 3, { padding: 1 }), n: new nn.BatchNorm2d(b) });
  const stem = conv(1, 8), body = conv(8, 8), head = new nn.Linear(8 * 4 * 4, 10), model = { stem, body, head };
  const forward = (x: Tensor) => {
    const y = stem.n.call(stem.c.call(x)).relu();
    return head.call(body.n.call(body.c.call(y)).add(y).relu().maxPool2d([2, 2]).flatten(1));
  };
  const { images, labels } = await nn.datasets.digits(), x = images.at([0, 256]), y = labels.at([0, 256]);
  const optimizer = new nn.optim.SGD(state.getParameters(model), { lr: 0.1, momentum: 0.9 });
  const step = jit((x: Tensor, y: Tensor) =>
    Tensor.train(() => {
      optimizer.zeroGrad();
      const loss = forward(x).sparseCategoricalCrossentropy(y).backward();
      optimizer.step();
      return loss;
    })
  );
  for (let epoch = 0; epoch < 4; epoch++) {
    for (let i = 0; i < 256; i += 64) await step(x.at([i, i + 64]).realize(), y.at([i, i + 64]).realize()).item();
  }
  const accuracy = await forward(x).argmax(1).eq(y).mean().item();
  assert(accuracy > 0.9, `${(accuracy * 100).toFixed(1)} %`);
});

program("Q-learning with a replay buffer: the way to the right end", async () => {
  const q = { a: new nn.Linear(5, 16), b: new nn.Linear(16, 2) }, values = (s: Tensor) => q.b.call(q.a.call(s).relu());
  const optimizer = new nn.optim.Adam(state.getParameters(q), { lr: 0.03 });
  const buffer: { s: number; a: number; r: number; n: number; done: boolean }[] = [];
  for (let s = 0; s < 4; s++) {
    for (const a of [0, 1]) {
      const n = Math.max(0, s + (a === 1 ? 1 : -1));
      buffer.push({ s, a, r: n === 4 ? 1 : 0, n, done: n === 4 });
    }
  }
  const learn = jit((s: Tensor, a: Tensor, r: Tensor, n: Tensor, done: Tensor) =>
    Tensor.train(() => {
      optimizer.zeroGrad();
      const target = r.add(values(n.oneHot(5).float()).max(1).detach().mul(0.9).mul(done.logicalNot()));
      const loss = values(s.oneHot(5).float()).gather(1, a.unsqueeze(1)).squeeze(1).sub(target).square().mean()
        .backward();
      optimizer.step();
      return loss;
    })
  );
  for (let i = 0; i < 60; i++) {
    const of = (f: (b: typeof buffer[0]) => number) => new Tensor(buffer.map(f), { dtype: "int32" });
    const rewards = new Tensor(buffer.map((b) => b.r), { dtype: "float32" });
    learn(of((b) => b.s), of((b) => b.a), rewards, of((b) => b.n), new Tensor(buffer.map((b) => b.done))).realize();
  }
  const actions = await values(Tensor.eye(5)).argmax(1).tolist<number[]>();
  assertEquals(actions.slice(0, 4), [1, 1, 1, 1]);
});

program("two networks against each other, each with its optimizer", async () => {
  const g = new nn.Linear(1, 1), d = { a: new nn.Linear(1, 8), b: new nn.Linear(8, 1) };
  const judge = (x: Tensor) => d.b.call(d.a.call(x).tanh());
  const optG = new nn.optim.Adam(state.getParameters(g), { lr: 0.05 });
  const optD = new nn.optim.Adam(state.getParameters(d), { lr: 0.05 });
  const weight = d.a.weight.clone().realize();
  for (let i = 0; i < 3; i++) {
    const real = Tensor.randn([16, 1]).mul(0.5).add(3).realize();
    Tensor.train(() => {
      optD.zeroGrad();
      const fake = g.call(Tensor.randn([16, 1])).detach();
      judge(real).sigmoid().log().mean().add(judge(fake).neg().sigmoid().log().mean()).neg().backward();
      optD.step();
      optG.zeroGrad();
      judge(g.call(Tensor.randn([16, 1]))).sigmoid().log().mean().neg().backward();
      optG.step();
    });
  }
  const moved = await d.a.weight.sub(weight).abs().max().item();
  assert(moved > 0.01 && Number.isFinite(await g.weight.item()), `moved by ${moved}`);
});

program("half precision: autocast, and a scaler that leaves out overflown steps", async () => {
  const layer = new nn.Linear(4, 1), optimizer = new nn.optim.SGD(state.getParameters(layer), { lr: 0.1 });
  const scaler = new nn.optim.GradScaler({ initScale: 256 }), x = Tensor.randn([16, 4]).realize();
  const losses: number[] = [];
  for (let i = 0; i < 10; i++) {
    const loss = Tensor.train(() => {
      optimizer.zeroGrad();
      const loss = autocast({ dtype: "bfloat16" }, () => layer.call(x).sub(1)).float().square().mean();
      scaler.backward(loss);
      scaler.step(optimizer);
      return loss;
    });
    losses.push(await loss.item());
  }
  assert(losses[9] < losses[0] / 2, `${losses}`);
});

program("gradients of four small batches are those of the large one", async () => {
  const layer = new nn.Linear(3, 1), x = Tensor.randn([8, 3]).realize();
  layer.call(x).square().mean().backward();
  const whole = await layer.weight.grad!.data();
  layer.weight.grad = undefined;
  for (let i = 0; i < 8; i += 2) layer.call(x.at([i, i + 2])).square().mean().div(4).backward();
  const added = await layer.weight.grad!.data();
  assertClose([...added], [...whole], 1e-6);
});

program("training goes on from a file as if it had not ended", async () => {
  const make = () => {
    Tensor.manualSeed(3);
    const model = { a: new nn.Linear(2, 4), b: new nn.Linear(4, 1) };
    return { model, optimizer: new nn.optim.Adam(state.getParameters(model), { lr: 0.01 }) };
  };
  const x = Tensor.rand([8, 2]).realize();
  const train = ({ model, optimizer }: ReturnType<typeof make>, steps: number) => {
    for (let i = 0; i < steps; i++) {
      Tensor.train(() => {
        optimizer.zeroGrad();
        model.b.call(model.a.call(x).relu()).sub(1).square().mean().backward();
        optimizer.step();
      });
    }
  };
  const file = await Deno.makeTempFile({ suffix: ".safetensors" }), [one, two] = [make(), make()];
  train(one, 2);
  await state.safeSave(state.getStateDict(one), file);
  train(one, 3);
  state.loadStateDict(two, await state.safeLoad(file));
  train(two, 3);
  await Deno.remove(file);
  assertEquals([...await two.model.a.weight.data()], [...await one.model.a.weight.data()]);
});

program("weights of another framework, by the names that they have there", async () => {
  const net = { conv: new nn.Conv2d(1, 2, 3), norm: new nn.BatchNorm2d(2), fc: new nn.Linear(2, 3) };
  const file: Record<string, Tensor> = {
    "conv.weight": Tensor.ones([2, 1, 3, 3]),
    "conv.bias": new Tensor([1, 2], { dtype: "float32" }),
    "norm.weight": Tensor.ones([2]),
    "norm.bias": Tensor.zeros([2]),
    "norm.running_mean": Tensor.zeros([2]),
    "norm.running_var": Tensor.ones([2]),
    "norm.num_batches_tracked": new Tensor(5, { dtype: "int64" }),
    "fc.weight": Tensor.eye(3).at(":", [0, 2]),
    "fc.bias": Tensor.zeros([3]),
  };
  const camel = (name: string) => name.replace(/_(\w)/g, (_, c) => c.toUpperCase());
  const bytes = await state.safeBytes(file), read = await state.safeParse(bytes);
  state.loadStateDict(net, Object.fromEntries(Object.entries(read).map(([name, t]) => [camel(name), t])));
  const y = net.fc.call(net.norm.call(net.conv.call(Tensor.ones([1, 1, 3, 3]))).flatten(1));
  assertClose(await y.tolist(), [[10, 11, 0]], 1e-3);
});

program("no gradients where they are not wanted, and weights that stay", () => {
  const frozen = new nn.Linear(2, 2), head = new nn.Linear(2, 1);
  for (const p of state.getParameters(frozen)) p.requiresGrad = false;
  const features = Tensor.noGrad(() => frozen.call(Tensor.ones([4, 2])).relu());
  head.call(features).sum().backward();
  assertEquals([features.requiresGrad ?? false, frozen.weight.grad, head.weight.grad?.shape], [false, undefined, [
    1,
    2,
  ]]);
});

program("a loop of epochs: shuffled batches, a smaller last one, a validation loss, early stopping", async () => {
  const x = Tensor.rand([22, 3]).realize(), y = x.matmul([[1], [2], [3]]).realize(), model = new nn.Linear(3, 1);
  const optimizer = new nn.optim.Adam(state.getParameters(model), { lr: 0.2 });
  let best = Infinity, since = 0, epochs = 0;
  for (; epochs < 30 && since < 10; epochs++) {
    const order = Tensor.randperm(16);
    for (let i = 0; i < 16; i += 6) {
      const rows = order.at([i, Math.min(i + 6, 16)]);
      Tensor.train(() => {
        optimizer.zeroGrad();
        model.call(x.at(rows)).sub(y.at(rows)).square().mean().backward();
        optimizer.step();
      });
    }
    const loss = await model.call(x.at([16, 22])).sub(y.at([16, 22])).square().mean().item();
    since = loss < best ? 0 : since + 1;
    best = Math.min(best, loss);
  }
  assert(best < 0.1, `${best} after ${epochs} epochs`);
});

program("a style of functions: parameters in a record, gradients of it, an update by map", async () => {
  type Params = { w: Tensor; b: Tensor };
  let params: Params = { w: Tensor.zeros([2]), b: Tensor.zeros([]) };
  const x = new Tensor([[1, 0], [0, 1], [1, 1]], { dtype: "float32" }), y = new Tensor([3, 4, 6], { dtype: "float32" });
  const slope = jit(grad((p: Params) => x.matmul(p.w).add(p.b).sub(y).square().mean()));
  for (let i = 0; i < 80; i++) {
    const g = slope(params);
    params = { w: params.w.sub(g.w.mul(0.4)).realize(), b: params.b.sub(g.b.mul(0.4)).realize() };
  }
  assertClose([...await params.w.data(), await params.b.item()], [2, 3, 1], 0.05);
});
