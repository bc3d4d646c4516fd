/**
 * Programs of newcomers who know PyTorch's loops, and read the guides alone: a typed training loop with all of the kit, its
 * checkpoint, logs of tensors, filters, iterations, complex weights, labels and weights as lists. Values are NumPy's.
 */
import assert from "node:assert/strict";
import { autocast, Device, grad, jit, jvp, nn, scan, state, Tensor, vmap, whileLoop } from "../../mod.ts";
import { CSVLogger, EarlyStopping, plotCurves, progress, SummaryWriter } from "../../src/train/train.ts";

Device.default = "WASM";
Device.get("WASM"); // its threads are no leak of the first test

async function near(x: Tensor, want: readonly number[], slack = 1e-5): Promise<void> {
  const got = await x.flatten().tolist<number[]>();
  assert.equal(got.length, want.length);
  got.forEach((v, i) => assert.ok(Math.abs(v - want[i]) <= slack * Math.max(1, Math.abs(want[i])), `${v}, ${want[i]}`));
}

class Mlp {
  readonly layers: nn.Sequential;
  constructor({ hidden }: { readonly hidden: number }) {
    this.layers = new nn.Sequential(
      new nn.Linear(4, hidden),
      new nn.GELU(),
      new nn.Dropout(0.1),
      new nn.Linear(hidden, 3),
    );
  }
  call(x: Tensor): Tensor {
    return this.layers.call(x);
  }
}

/** All that a run goes on from. */
function run(hidden = 8) {
  const model = new Mlp({ hidden }), optimizer = new nn.optim.AdamW(state.getParameters(model), { lr: 1e-2 });
  return {
    model,
    optimizer,
    scheduler: new nn.optim.OneCycleLR(optimizer, { maxLr: 0.05, totalSteps: 30 }),
    scaler: new nn.optim.GradScaler(),
    ema: new nn.EMA(model, { decay: 0.9 }),
  };
}

Deno.test("newcomers: a loop as PyTorch's, with loss and norm read after the step, averages, logs and a checkpoint", async () => {
  const folder = await Deno.makeTempDir();
  try {
    Tensor.manualSeed(3);
    const x = Tensor.randn([90, 4]).realize(), y = x.at(":", [0, 3]).argmax(1).realize();
    const [train, test] = nn.data.randomSplit(new nn.data.TensorDataset(x, y), [60, 30]);
    const loader = new nn.data.DataLoader(train, { batchSize: 20, shuffle: true, dropLast: true, seed: 1 });
    const all = run(), { model, optimizer, scheduler, scaler, ema } = all;
    const step = jit((x: Tensor, y: Tensor) =>
      Tensor.train(() => {
        optimizer.zeroGrad();
        const loss = autocast({ dtype: "bfloat16" }, () => model.call(x).crossEntropy(y, { labelSmoothing: 0.05 }));
        scaler.scale(loss).backward();
        scaler.unscale(optimizer);
        const norm = nn.utils.clipGradNorm(optimizer.params, 1);
        scaler.step(optimizer);
        scaler.update();
        ema.update();
        return { loss, norm };
      })
    );
    const history: { epoch: number; loss: number; norm: number; accuracy: number }[] = [];
    const stopping = new EarlyStopping({ patience: 5 });
    {
      using log = new CSVLogger(`${folder}/run.csv`);
      await using writer = new SummaryWriter(folder);
      for (const epoch of progress(Array(10).keys(), { total: 10 })) {
        const loss = new nn.metrics.Mean(), norm = new nn.metrics.Mean(), accuracy = new nn.metrics.Accuracy();
        for await (const [xs, ys] of loader) {
          const made = step(xs, ys);
          scheduler.step();
          loss.update(made.loss);
          norm.update(made.norm);
          writer.addScalar("loss", made.loss, epoch);
        }
        await Tensor.noGrad(() =>
          ema.use(async () => {
            for await (const [xs, ys] of new nn.data.DataLoader(test, { batchSize: 15 })) {
              accuracy.update(model.call(xs), ys);
            }
          })
        );
        const row = {
          epoch,
          loss: await loss.compute(),
          norm: await norm.compute(),
          accuracy: await accuracy.compute(),
        };
        history.push(row);
        log.log(row);
        if (stopping.step(row.loss)) break;
      }
    }
    const last = history[history.length - 1];
    assert.ok(last.loss < history[0].loss && last.accuracy > 0.6 && last.norm > 0, JSON.stringify(history));
    assert.match(plotCurves(history, { logY: true }), /<\/svg>$/);
    assert.match(await Deno.readTextFile(`${folder}/run.csv`), /^epoch,loss,norm,accuracy\n0,/);
    await state.saveCheckpoint(`${folder}/last.safetensors`, { ...all, epoch: history.length });
    const again = run();
    const rest = await state.loadCheckpoint(`${folder}/last.safetensors`, again);
    assert.deepEqual(rest, { epoch: history.length });
    assert.equal(await again.model.call(x).sub(model.call(x)).abs().max().item(), 0);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("newcomers: labels, weights of classes and parts of batches as lists", async () => {
  const x = new Tensor([[1, 2], [3, 1]], { dtype: "float32" }), w = new Tensor([1, 3], { dtype: "float32" });
  const want = (Math.log(1 + Math.E) + 3 * Math.log(1 + Math.E ** 2)) / 4;
  await near(Tensor.stack([x.crossEntropy([0, 1], w), x.crossEntropy([0, 1], [1, 3])]), [want, want]);
  await near(x.crossEntropy([0, 1], { weight: [1, 3] }), [want]);
  await near(x.logSoftmax(1).nllLoss([0, 1], [1, 3]), [want]);
  assert.throws(() => x.crossEntropy([0, 1], [1, 3, 2]), /it must be \[2\], one weight a class/);
  const logs = Tensor.zeros([6, 1, 3]).logSoftmax(2), ctc = logs.ctcLoss([[1, 2, 1]], [6], [3]);
  await near(ctc, [await logs.ctcLoss(new Tensor([[1, 2, 1]]), new Tensor([6]), new Tensor([3])).item()]);
  const batch = Tensor.stack([[1, 2], x.at(0), 7].slice(0, 2)), both = Tensor.hstack([[1], x.at(1)]);
  assert.deepEqual([await batch.tolist(), await both.tolist()], [[[1, 2], [1, 2]], [1, 3, 1]]);
});

Deno.test("newcomers: a Kalman filter by scan, and power iteration until it stands", async () => {
  const eye = Tensor.eye(2), a = new Tensor([[1, 1], [0, 1]], { dtype: "float32" }), h = new Tensor([[1.0, 0]]).float();
  const update = ([m, p]: [Tensor, Tensor], z: Tensor): [[Tensor, Tensor], Tensor] => {
    const before = a.matmul(m), spread = a.matmul(p).matmul(a.T).add(eye.mul(0.01));
    const gain = h.matmul(spread).matmul(h.T).add(1).solve(h.matmul(spread)).T;
    const after = before.add(gain.matmul(z.sub(h.matmul(before))));
    return [[after, eye.sub(gain.matmul(h)).matmul(spread)], after];
  };
  const [[mean], path] = scan(update, [Tensor.zeros([2]), Tensor.eye(2)], Tensor.arange(10).float().reshape([10, 1]));
  await near(mean, [8.89118106, 0.97586523]);
  assert.deepEqual(path.shape, [10, 2]);
  const m = new Tensor([[2, 1], [1, 3]], { dtype: "float32" });
  const [v] = await whileLoop(
    ([, moved]: [Tensor, Tensor]) => moved.gt(1e-6),
    ([v]: [Tensor, Tensor]): [Tensor, Tensor] => {
      const w = m.matmul(v), next = w.div(w.norm());
      return [next, next.sub(v).abs().max()];
    },
    [new Tensor([1, 0], { dtype: "float32" }), new Tensor(1, { dtype: "float32" })],
  );
  await near(Tensor.stack([v.dot(m.matmul(v)), m.eigh()[0].at(-1)]), Array(2).fill((5 + Math.sqrt(5)) / 2));
});

Deno.test("newcomers: complex weights are learned, Hessians along a direction, whitening", async () => {
  Tensor.manualSeed(5);
  const w = Tensor.zeros([2], { dtype: "complex64", requiresGrad: true }),
    optimizer = new nn.optim.Adam([w], { lr: 0.1 });
  const x = Tensor.randn([30, 2], { dtype: "complex64" }).realize();
  const y = x.matmul(new Tensor([{ re: 1, im: -1 }, { re: 0.5, im: 2 }])).realize();
  const step = jit(() =>
    Tensor.train(() => {
      optimizer.zeroGrad();
      const loss = x.matmul(w).sub(y).abs().square().mean().backward();
      optimizer.step();
      return loss;
    })
  );
  for (let i = 0; i < 200; i++) step();
  await near(w.viewAsReal(), [1, -1, 0.5, 2], 2e-3);
  const [, along] = jvp(grad((x: Tensor) => x.pow(3).sum()), [new Tensor([1.5, 2.5])], [new Tensor([1, 0.5]).float()]);
  await near(along, [9, 7.5]);
  const data = Tensor.randn([50, 3]).matmul(Tensor.randn([3, 3])).realize(), centered = data.sub(data.mean(0));
  const [, s, vt] = centered.svd(false), white = centered.matmul(vt.T).div(s).mul(7);
  await near(white.T.matmul(white).div(49), [1, 0, 0, 0, 1, 0, 0, 0, 1], 1e-3);
  assert.deepEqual(vmap((row: Tensor) => row.norm())(data).shape, [50]);
});
