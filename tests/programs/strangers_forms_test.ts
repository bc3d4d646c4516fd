/**
 * Ten programs as strangers write them who know PyTorch, NumPy, tinygrad or TensorFlow.js: a classifier, signals, statistics,
 * linear algebra, images, sequences, tables, grids, boxes, forms of calls. Values are NumPy's and PyTorch's.
 */
import assert from "node:assert/strict";
import { Device, fft, jit, nn, scan, scope, state, Tensor, windows } from "../../mod.ts";

await Device.open(Device.default); // its library is no leak of the first test

/** Compares numbers, to six digits of the largest. */
async function near(x: Tensor, want: readonly number[], slack = 5e-6): Promise<void> {
  const got = (await x.float().flatten().tolist()) as number[], most = Math.max(1, ...want.map(Math.abs));
  assert.equal(got.length, want.length);
  got.forEach((v, i) => assert.ok(Math.abs(v - want[i]) <= slack * most, `${i}: ${v}, not ${want[i]}`));
}
const list = async (x: Tensor): Promise<unknown> => await x.tolist();

Deno.test("strangers: a classifier with lazy layers, a chained schedule and a confusion matrix", async () => {
  Tensor.manualSeed(1);
  const angle = Tensor.arange(200).mul(2 * Math.PI / 100), radius = Tensor.arange(200).lt(100).where(1, 2) as Tensor;
  const x = Tensor.stack([angle.cos().mul(radius), angle.sin().mul(radius)], 1).realize();
  const y = Tensor.arange(200).ge(100).int().realize();
  const net = new nn.Sequential(new nn.LazyLinear(16), new nn.Tanh(), new nn.LazyLinear(2));
  assert.deepEqual(net.call(x).shape, [200, 2]);
  const opt = new nn.optim.AdamW(state.getParameters(net), { lr: 0.05 }), criterion = new nn.CrossEntropyLoss();
  const schedulers = [new nn.optim.CosineAnnealingLR(opt, { tMax: 60, etaMin: 0.005 })];
  const schedule = new nn.optim.ChainedScheduler(opt, {
    schedulers: [...schedulers, new nn.optim.ExponentialLR(opt, { gamma: 0.99 })],
  });
  const loader = new nn.data.DataLoader(new nn.data.TensorDataset(x, y), { batchSize: 50, shuffle: true });
  for (let epoch = 0; epoch < 30; epoch++) {
    for await (const [inputs, labels] of loader) {
      Tensor.train(() => {
        opt.zeroGrad();
        criterion.call(net.call(inputs), labels).backward();
        opt.step();
      });
    }
    schedule.step();
  }
  const found = net.call(x).argmax(1);
  assert.ok(await found.eq(y).mean().item() > 0.97);
  const confusion = await y.mul(2).add(found).bincount({ size: 4 }).reshape([2, 2]).tolist() as number[][];
  assert.equal(confusion.flat().reduce((a, b) => a + b), 200);
  const other = new nn.Sequential(new nn.Linear(2, 16), new nn.Tanh(), new nn.Linear(16, 2));
  state.loadStateDict(other, state.getStateDict(net));
  assert.deepEqual(await list(other.call(x).argmax(1)), await list(found));
});

Deno.test("strangers: signals", async () => {
  const n = 64, t = Tensor.arange(n).div(n);
  const signal = t.mul(2 * Math.PI * 5).sin().add(t.mul(2 * Math.PI * 12).cos().mul(0.5)).realize();
  assert.deepEqual(await list(fft.rfft(signal).abs().topk(2)[1]), [5, 12]);
  const delayed = signal.roll(7).correlate(signal, { mode: "full" });
  assert.equal(await delayed.argmax().sub(n - 1).item(), 7);
  const z = fft.fft(signal).mul(fft.fftfreq(n, { d: 1 / n }).abs().le(8));
  await near(fft.ifft(z).real().at([0, 3]), [1.03e-6, 0.4713975, 0.8314699]);
  await near(signal.convolve(Tensor.ones([5]).div(5), { mode: "same" }).at([0, 3]), [0.328131, 0.43478, 0.619556]);
  await near(signal.unfold(0, 3, 1).median(-1).at([0, 3]), [0.5, 0.533245, 0.533245]);
  const both = Tensor.zeros([n]);
  both.setAt([0], 1);
  both.setAt([n / 2], 1);
  both.setAt([[1, n / 2]], 2);
  await near(fft.ifft(fft.fft(signal).mul(both)).abs().at([0, 3]), [1.118032, 0.784606, 0.518859]);
  assert.equal(await signal.sign().diff().ne(0).sum().item(), 9);
  await near(Tensor.linspace(0, 1, 5).interp(t, signal), [0.5, 1.5, 0.5, -0.5, -0.280051], 1e-5);
  const window = windows.hann(16), spectrum = signal.stft(16, { hopLength: 8, window });
  await near(spectrum.istft(16, { hopLength: 8, window }).sub(signal).abs().max(), [0], 1e-6);
  const wound = Tensor.arange(12).mul(2), angles = Tensor.complex(wound.cos(), wound.sin()).angle();
  await near(angles.unwrap(), [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22]);
});

Deno.test("strangers: statistics", async () => {
  const x = Tensor.arange(60).mul(37).mod(23).float().reshape([20, 3]).realize();
  await near(x.std(0), [7.067159, 6.378417, 7.131103]);
  await near(x.percentile([25, 50], 0), [5.75, 5.75, 4.75, 12, 10.5, 10.5]);
  await near(x.T.cov().at(0), [49.944737, -18.026316, -1.805263]);
  await near(x.T.corrcoef().at(2), [-0.035821, -0.462846, 1]);
  const [counts, edges] = x.histogram(5);
  assert.deepEqual(await list(counts), [13, 11, 12, 11, 13]);
  await near(edges, [0, 4.4, 8.8, 13.2, 17.6, 22]);
  assert.deepEqual(await list(x.histc(5)), [13, 11, 12, 11, 13]);
  assert.deepEqual(await list(x.histogram(5, { min: 0, max: 20 })[0]), [11, 11, 10, 10, 13]);
  await near(x.at(":", [0, 2]).lstsq(x.at(":", 2))[0], [0.530558, 0.252851]);
  const centered = x.sub(x.mean(0));
  await near(centered.pow(3).mean(0).div(centered.square().mean(0).pow(1.5)), [-0.139814, 0, 0.097403]);
  const [a, b] = [x.at(":", 0), x.at(":", 1)];
  await near(a.mean().sub(b.mean()).div(a.var().div(20).add(b.var().div(20)).sqrt()), [0.4462776]);
  await near(x.average(0, { weights: Tensor.arange(20) }), [11.673684, 10.3, 11.347368]);
  assert.deepEqual(await list(await x.maskedSelect(x.gt(x.percentile(95)))), [22, 22]);
  assert.deepEqual(await list((await x.gt(20).nonzero()).at([0, 2])), [[4, 1], [6, 0]]);
  const share = a.softmax(0);
  await near(share.mul(share.log()).sum().neg(), [1.0403], 5e-5);
  await near(x.at(0).logSoftmax(0).klDiv(x.at(1).softmax(0), { reduction: "sum" }), [13.9972], 5e-6);
  const drawn = a.at(Tensor.randint([100, 20], { low: 0, high: 20 })).mean(1);
  assert.ok(Math.abs(await drawn.mean().item() - 11.45) < 1.5);
});

Deno.test("strangers: linear algebra", async () => {
  const a = Tensor.arange(9).mul(7).mod(5).float().reshape([3, 3]).add(Tensor.eye(3).mul(4)), s = a.add(a.T);
  const [w, v] = s.eigh();
  await near(w, [2.907523, 9.52826, 19.564217]);
  await near(v.mul(w).matmul(v.T).sub(s).abs().max(), [0], 2e-5);
  await near(a.det(), [90]);
  await near(a.solve(new Tensor([1, 2, 3])), [-0.411111, 0.344444, 0.488889]);
  await near(a.cond(), [5.86743]);
  const [u, sizes, vt] = a.svd(false);
  await near(u.at(":", [0, 1]).mul(sizes.at(0)).matmul(vt.at([0, 1])).at(0), [2.02484, 3.910313, 2.727642]);
  await near(a.mul(0.1).matrixExp().at(0), [1.575174, 0.491557, 0.638651]);
  await near(new Tensor([[1, 2], [2, 4], [3, 1]]).pinv(), [-0.04, -0.08, 0.4, 0.12, 0.24, -0.2]);
  await near(Tensor.stack([a.norm(), a.norm("fro"), a.norm(2, 1).norm()]), [11.445523, 11.445523, 11.445523]);
  await near(a.triu().solveTriangular(Tensor.ones([3, 1]), { upper: true }), [-0.021429, 0.142857, 0.2]);
  let top = Tensor.ones([3]);
  for (let i = 0; i < 50; i++) {
    top = s.matmul(top);
    top = top.div(top.norm()).realize();
  }
  await near(top.vdot(s.matmul(top)), [19.564217]);
  const fit = Tensor.linspace(0, 1, 8).polyfit(Tensor.linspace(0, 1, 8).square().mul(3).add(1), 2);
  await near(fit, [3, 0, 1], 2e-5);
  const roots = await new Tensor([1, -6, 11, -6]).roots();
  await near(roots.real().sort(0)[0], [1, 2, 3], 2e-5);
});

Deno.test("strangers: images", async () => {
  const image = Tensor.arange(384).mul(31).mod(256).cast("uint8").reshape([2, 3, 8, 8]).realize(), f = image.float();
  const per = (values: number[]): Tensor => new Tensor(values).reshape([1, 3, 1, 1]);
  const normal = image.div(255).sub(per([0.485, 0.456, 0.406])).div(per([0.229, 0.224, 0.225]));
  await near(normal.mean([0, 2, 3]), [0.048377, 0.178922, 0.435207]);
  await near(image.pad([2, 2, 2, 2], { mode: "reflect" }).at(0, 0, 0), [
    ...[46, 15, 240, 15, 46, 77, 108, 139, 170, 201, 170, 139],
  ]);
  await near(f.interpolate([4, 4], { mode: "bilinear" }).at(0, 0, 0), [75.5, 73.5, 135.5, 197.5]);
  const smooth = f.interpolate([4, 4], { mode: "bilinear", antialias: true });
  await near(smooth.at(0, 0, 0), [79.122452, 71.785713, 133.785721, 189.142868]);
  const cubic = f.interpolate([16, 16], { mode: "bicubic", alignCorners: false });
  await near(cubic.at(0, 0, 0, [0, 3]), [-32.273438, -14.105469, 15.433594]);
  await near(f.mul(new Tensor([0.299, 0.587, 0.114]).reshape([3, 1, 1])).sum(1).at(0, 0, [0, 3]), [
    127.296005,
    158.29599,
    189.296005,
  ]);
  const box = Tensor.ones([3, 1, 3, 3]).div(9);
  await near(f.conv2d(box, undefined, { padding: 1, groups: 3 }).at(0, 0, 0, [0, 3]), [
    33.555557,
    46.444447,
    38.666664,
  ]);
  const a = Math.PI / 6, turn = [[Math.cos(a), -Math.sin(a), 0], [Math.sin(a), Math.cos(a), 0]];
  const grid = new Tensor([turn]).expand([2, 2, 3]).affineGrid([2, 3, 8, 8]);
  await near(f.gridSample(grid).at(0, 0, 3, [0, 4]), [83.709091, 34.597134, 57.443924, 80.290703], 1e-5);
  await near(image.rot90(1, [2, 3]).at(0, 0, 0), [217, 209, 201, 193, 185, 177, 169, 161]);
  await near(f.mul(1.2).clamp(0, 255).cast("uint8").at(0, 0, 0, [0, 4]), [0, 37, 74, 111]);
  await near(f.mul(0.3).add(f.at(new Tensor([1, 0])).mul(0.7)).at(0, 0, 0, [0, 3]), [44.8, 75.8, 106.8]);
  const channel = image.at(0, 0).flatten(), sums = channel.bincount({ size: 256 }).cumsum(0);
  assert.deepEqual(await list(sums.at(channel.int()).mul(255).floorDiv(64).at([0, 5])), [3, 35, 67, 99, 131]);
  const pixels = new Tensor(new Uint8ClampedArray([1, 2, 3, 255, 4, 5, 6, 255])).reshape([1, 2, 4]);
  assert.deepEqual(await list(pixels.at(":", ":", [0, 3]).permute([2, 0, 1])), [[[1, 4]], [[2, 5]], [[3, 6]]]);
  const cut = f.clone();
  cut.setAt([":", ":", [2, 4], [2, 4]], 0);
  assert.deepEqual(await list(cut.at(0, 0, 2)), [240, 15, 0, 0, 108, 139, 170, 201]);
  assert.deepEqual(new nn.Unfold([4, 4], { stride: 4 }).call(f).shape, [2, 48, 4]);
});

Deno.test("strangers: sequences", async () => {
  const batch = nn.utils.padSequence([new Tensor([1, 2, 3]), new Tensor([4])], { batchFirst: true });
  assert.deepEqual(await list(batch), [[1, 2, 3], [4, 0, 0]]);
  const embedding = new nn.Embedding(5, 4, { paddingIdx: 0 }), gru = new nn.GRU(4, 6, { batchFirst: true });
  const [out, last] = gru.call(embedding.call(batch));
  assert.deepEqual([out.shape, last.shape], [[2, 3, 6], [1, 2, 6]]);
  const mask = batch.ne(0), mean = out.mul(mask.unsqueeze(-1)).sum(1).div(mask.sum(1, { keepdim: true }));
  assert.deepEqual(mean.shape, [2, 6]);
  const logits = new Tensor([[1, 2], [3, 4]]).float();
  await near(logits.crossEntropy(new Tensor([1, -100]), { ignoreIndex: -100 }), [0.313262]);
  await near(Tensor.ones([2, 5, 3]).crossEntropy(Tensor.zeros([2, 3], { dtype: "int32" })), [1.609438]);
  const causal = Tensor.ones([3, 3]).tril().eq(0).where(-Infinity, Tensor.zeros([3, 3])).softmax(-1);
  await near(causal, [1, 0, 0, 0.5, 0.5, 0, 1 / 3, 1 / 3, 1 / 3]);
  const place = Tensor.arange(4).unsqueeze(1), rate = Tensor.arange(0, 6, 2).mul(-Math.log(1e4) / 6).exp();
  const code = Tensor.stack([place.mul(rate).sin(), place.mul(rate).cos()], -1).flatten(1);
  await near(code.at(1), [0.841471, 0.540302, 0.0463992, 0.998923, 0.00215443, 0.999998]);
  assert.deepEqual(await list(new Tensor([0, 1, 0]).float().multinomial(1)), [1]);
  const smoothed = scan(
    (c: Tensor, x: Tensor): [Tensor, Tensor] => {
      const y = c.mul(0.5).add(x.mul(0.5));
      return [y, y];
    },
    new Tensor(0).float(),
    new Tensor([1.5, 2, 3]),
  )[1];
  await near(smoothed, [0.75, 1.375, 2.1875]);
});

Deno.test("strangers: tables", async () => {
  const key = new Tensor([2, 0, 2, 1, 0, 2]), value = new Tensor([1.5, 2, 3, 4, 5, 6.5]);
  assert.deepEqual(await list(key.bincount({ size: 3, weights: value })), [7, 4, 11]);
  await near(Tensor.zeros([3]).scatterReduce(0, key, value, "mean", false), [3.5, 4, 3.666667]);
  assert.deepEqual(await list(Tensor.zeros([3]).indexReduce(0, key, value, "amax", false)), [5, 4, 6.5]);
  let order = value.argsort(0, { descending: true });
  order = order.at(key.at(order).argsort(0, { stable: true }));
  assert.deepEqual([await list(key.at(order)), await list(value.at(order))], [[0, 0, 1, 2, 2, 2], [
    ...[5, 2, 4, 6.5, 3, 1.5],
  ]]);
  assert.deepEqual(await list(new Tensor([10, 20, 30]).at(new Tensor([0, 1, 2]).searchsorted(key))), [
    ...[30, 10, 30, 20, 10, 30],
  ]);
  await near(value.unfold(0, 3, 1).mean(-1), [2.166667, 3, 4, 5.166667]);
  const gaps = new Tensor([1, NaN, NaN, 4, NaN]), known = gaps.isnan().where(-1, Tensor.arange(5)) as Tensor;
  assert.deepEqual(await list(gaps.at(known.cummax(0)[0])), [1, 1, 1, 4, 4]);
  assert.deepEqual(await list(gaps.isnan().where(gaps.nanmean(), gaps) as Tensor), [1, 2.5, 2.5, 4, 2.5]);
  assert.deepEqual(await list(gaps.nanToNum(7)), [1, 7, 7, 4, 7]);
  assert.deepEqual(await list(await gaps.maskedSelect(gaps.isnan().logicalNot())), [1, 4]);
  const pivot = Tensor.zeros([2, 2]).indexPut(
    [new Tensor([0, 0, 1]), new Tensor([0, 1, 1])],
    new Tensor([1, 2, 3]).float(),
    { accumulate: true },
  );
  assert.deepEqual(await list(pivot), [[1, 2], [0, 3]]);
  assert.deepEqual(await list(value.digitize(value.quantile([0.25, 0.5, 0.75]))), [0, 0, 1, 2, 3, 3]);
  const [values, counts] = await key.unique({ returnCounts: true }), by = counts.argsort(0, { descending: true });
  assert.deepEqual([await list(values.at(by)), await list(counts.at(by))], [[2, 0, 1], [3, 2, 1]]);
  assert.deepEqual(await list(key.mul(2).add(value.gt(3)).bincount({ size: 6 }).reshape([3, 2])), [[1, 1], [0, 1], [
    2,
    1,
  ]]);
  assert.deepEqual(await list(key.unsqueeze(1).eq(key).tril(-1).sum(1)), [0, 0, 1, 0, 1, 2]);
  assert.deepEqual(await list(await key.setdiff1d([1])), [0, 2]);
  const rows = [{ a: 1, b: 2 }, { a: 3, b: 4 }];
  assert.deepEqual(await list(new Tensor(rows.map((r) => [r.a, r.b])).sum(0)), [4, 6]);
});

Deno.test("strangers: grids", async () => {
  const [x, y] = Tensor.linspace(-2, 1, 6).meshgrid([Tensor.linspace(-1, 1, 5)], { indexing: "xy" });
  let [re, im, count] = [x.zerosLike(), x.zerosLike(), x.zerosLike()];
  for (let i = 0; i < 20; i++) {
    [re, im] = [re.mul(re).sub(im.mul(im)).add(x), re.mul(im).mul(2).add(y)];
    count = count.add(re.square().add(im.square()).lt(4));
  }
  assert.equal(await count.sum().item(), 161);
  const life = new Tensor([[0, 1, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]]);
  const around = [-1, 0, 1].flatMap((i) => [-1, 0, 1].map((j) => [i, j])).filter(([i, j]) => i !== 0 || j !== 0)
    .map((by) => life.roll(by, [0, 1])).reduce((a, b) => a.add(b));
  const next = around.eq(3).logicalOr(life.bool().logicalAnd(around.eq(2))).int();
  assert.deepEqual(await list(next), [[0, 0, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]]);
  let heat = Tensor.zeros([16]).pad([[1, 1]], { value: 1 }).realize();
  const step = jit((u: Tensor) => new nn.ReplicationPad1d(1).call(u.unsqueeze(0)).squeeze(0).unfold(0, 3, 1).mean(-1));
  for (let i = 0; i < 5; i++) heat = step(heat).clone().realize();
  assert.ok(Math.abs(await heat.sum().item() - 2) < 1e-5); // what flows out of one place flows into another
});

Deno.test("strangers: boxes", async () => {
  const boxes = new Tensor([[0, 0, 2, 2], [1, 1, 3, 3], [5, 5, 6, 6]]).float(), scores = new Tensor([0.9, 0.8, 0.7]);
  const low = boxes.at(":", null, [0, 2]).maximum(boxes.at(null, ":", [0, 2]));
  const size = boxes.at(":", null, [2, 4]).minimum(boxes.at(null, ":", [2, 4])).sub(low).clamp(0);
  const both = size.at("...", 0).mul(size.at("...", 1)), side = boxes.at(":", [2, 4]).sub(boxes.at(":", [0, 2]));
  const area = side.prod(1), overlap = both.div(area.unsqueeze(1).add(area).sub(both));
  await near(overlap, [1, 1 / 7, 0, 1 / 7, 1, 0, 0, 0, 1]);
  // non-maximum suppression, one box after the other, on the host
  const table = await overlap.tolist() as number[][], order = await scores.argsort(0, { descending: true }).tolist();
  const kept = (order as number[]).reduce<number[]>((k, i) => k.every((j) => table[i][j] < 0.1) ? [...k, i] : k, []);
  assert.deepEqual(kept, [0, 2]);
});

Deno.test("strangers: forms of calls", async () => {
  assert.deepEqual(await list(scope(() => new Tensor([1]).add(1))), [2]);
  assert.deepEqual(Array.from(new Tensor([1, 2]).dataSync() as Int32Array), [1, 2]);
  const sums: unknown[] = [];
  for (const row of new Tensor([[1, 2], [3, 4]])) sums.push(await row.sum().item());
  assert.deepEqual(sums, [3, 7]);
  assert.equal(`${new Tensor([1, 2])}`.includes("[1, 2]"), true);
  assert.deepEqual(new Tensor([1, 2, 3]).at([null, null, -1]).shape, [3]);
  assert.deepEqual(new nn.Sequential(new nn.Linear(2, 3), (x: Tensor) => x.relu()).call(Tensor.ones([1, 2])).shape, [
    1,
    3,
  ]);
  const twice = jit((x: Tensor) => x.mul(2).realize());
  for (const i of [1, 2, 3]) assert.deepEqual(await list(twice(new Tensor([i]).float())), [2 * i]);
  for (
    const [text, act] of [
      ["sizes are one array, as in [2, 3]", () => (Tensor.zeros as (...s: number[]) => Tensor)(2, 3)],
      ["it takes one array, not 2 arguments: reshape([2, 2])", () => {
        const x = Tensor.ones([4]) as unknown as { reshape(...s: number[]): Tensor };
        return x.reshape(2, 2);
      }],
      [
        'unknown option "keepdims"; known are keepdim, dtype',
        () => Tensor.ones([2]).sum(0, { keepdims: true } as object),
      ],
      ["use `await t.maskedSelect(m)`", () => new Tensor([1, 2]).at(new Tensor([true, false]))],
      ["write a.add(b)", () => (new Tensor([1]) as unknown as number) + 1],
    ] as const
  ) {
    assert.throws(act, (e: Error) => e.message.includes(text) || assert.fail(e.message));
  }
});
