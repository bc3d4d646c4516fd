/** Programs of twelve fields as someone writes them who has read the pages alone, each beside what is known of its answer. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { Device, fft, grad, hessian, jacobian, jit, jvp, nn, state, Tensor, vmap, windows } from "../../mod.ts";
import { EarlyStopping, progress } from "../../src/train/train.ts";

Device.get();

Deno.test("stranger: rows of CSV text, a split, a loader, a loop with early stopping and the best weights", async () => {
  Tensor.manualSeed(3);
  const text = Array.from({ length: 120 }, (_, i) => `${i / 60 - 1},${(i * 37 % 120) / 60 - 1}`).join("\n");
  const rows = text.split("\n").map((line) => line.split(",").map(Number));
  const x = new Tensor(rows), y = x.matmul(new Tensor([[2], [-3]], { dtype: "float32" })).add(0.5);
  const [train, held] = nn.data.randomSplit(new nn.data.TensorDataset(x, y), [0.8, 0.2]);
  assertEquals([train.length, held.length], [96, 24]);
  const model = new nn.Linear(2, 1), optimizer = new nn.optim.Adam(state.getParameters(model), { lr: 0.1 });
  const loader = new nn.data.DataLoader(train, { batchSize: 32, shuffle: true });
  const stopping = new EarlyStopping({ patience: 3, minDelta: 1e-6 }), losses: number[] = [];
  let best: Record<string, number[]> = {};
  for (const _ of progress(Array(60).keys(), { label: "epochs" })) {
    for await (const [bx, by] of loader) {
      Tensor.train(() => {
        optimizer.zeroGrad();
        model.call(bx).mseLoss(by).backward();
        optimizer.step();
      });
    }
    let loss = 0;
    for await (const [bx, by] of new nn.data.DataLoader(held, { batchSize: 24 })) {
      loss += await Tensor.noGrad(() => model.call(bx).mseLoss(by)).item();
    }
    losses.push(loss);
    const stop = stopping.step(loss);
    if (loss === Math.min(...losses)) {
      best = { weight: await model.weight.flatten().tolist(), bias: await model.bias!.tolist() };
    }
    if (stop) break;
  }
  const [a, b] = best.weight;
  assert(Math.hypot(a - 2, b + 3, best.bias[0] - 0.5) < 0.1, `${a} ${b} ${best.bias}`);
});

Deno.test("stranger: k-means finds three clouds", async () => {
  Tensor.manualSeed(1);
  const centers = new Tensor([[0, 0], [5, 5], [0, 6]]).float();
  const points = Tensor.cat([0, 1, 2].map((k) => Tensor.randn([40, 2]).mul(0.3).add(centers.at(k))));
  let means = points.at(new Tensor([0, 40, 80]));
  for (let i = 0; i < 5; i++) {
    const nearest = points.cdist(means).argmin(1), of = nearest.oneHot(3).float();
    means = of.T.matmul(points).div(of.sum(0).unsqueeze(1)).realize();
  }
  assert(await means.sub(centers).abs().max().item() < 0.3);
  const counts: number[] = await points.cdist(means).argmin(1).bincount({ size: 3 }).tolist();
  assertEquals(counts, [40, 40, 40]);
});

Deno.test("stranger: PCA by the covariance's eigenvectors and by the SVD say the same", async () => {
  Tensor.manualSeed(2);
  const x = Tensor.randn([200, 4]).mul(new Tensor([4, 2, 1, 0.1])), centered = x.sub(x.mean(0)).realize();
  const [values, vectors] = x.T.cov().eigh(), [, sizes, vt] = centered.svd(false);
  const variance = sizes.square().div(199).flip(0);
  assert(await variance.sub(values).abs().max().item() < 1e-3);
  const same = vt.flip(0).mul(vectors.T).sum(1).abs();
  assert(await same.min().item() > 0.999);
  const scores = centered.matmul(vectors.at(":", [-2, null]));
  assertEquals(scores.shape, [200, 2]);
  const kept: number = await values.at([-2, null]).sum().div(values.sum()).item();
  assert(kept > 0.9 && kept < 1);
});

Deno.test("stranger: an image is blurred, its edges found, resized, cropped, flipped and put together", async () => {
  const image = Tensor.zeros([1, 1, 16, 16]).realize();
  image.setAt([0, 0, [4, 12], [4, 12]], 1);
  const line = new Tensor([1, 2, 1]).float().div(4), blur = line.outer(line).reshape([1, 1, 3, 3]);
  const smooth = image.conv2d(blur, null, { padding: 1 });
  assertEquals(await smooth.at(0, 0, 4, [3, 6]).tolist(), [0.1875, 0.5625, 0.75]);
  const sobel = new Tensor([[[[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]]]).float();
  const gx = image.conv2d(sobel, null, { padding: 1 }),
    gy = image.conv2d(sobel.transpose(-1, -2), null, { padding: 1 });
  const edges = gx.square().add(gy.square()).sqrt();
  assertEquals([await edges.at(0, 0, 8, 8).item(), await edges.at(0, 0, 8, 4).item()], [0, 4]);
  const half = image.interpolate([8, 8], { mode: "bilinear" }), crop = half.at("...", [1, 7], [1, 7]);
  assertEquals([half.shape, crop.shape], [[1, 1, 8, 8], [1, 1, 6, 6]]);
  assertEquals(await half.flip(-1).sub(half).abs().max().item(), 0);
  const bytes = image.at(0).permute([1, 2, 0]).expand([16, 16, 3]).mul(255).round().clamp(0, 255).cast("uint8");
  assertEquals([bytes.shape, (await bytes.data<"uint8">()).length], [[16, 16, 3], 768]);
  const sheet = Tensor.cat([image, image], 3).pad([1, 1, 1, 1], { value: 0.5 });
  assertEquals([sheet.shape, await sheet.at(0, 0, 0, 0).item()], [[1, 1, 18, 34], 0.5]);
});

Deno.test("stranger: words are counted, embedded and averaged, and sentences sorted by them", async () => {
  Tensor.manualSeed(5);
  const texts = ["good film", "a good good day", "bad film", "what a bad day", "good", "so bad"],
    labels = [1, 1, 0, 0, 1, 0];
  const words = [...new Set(texts.join(" ").split(" "))].sort(), at = new Map(words.map((w, i) => [w, i + 1]));
  const longest = Math.max(...texts.map((s) => s.split(" ").length));
  const ids = new Tensor(texts.map((s) => {
    const list = s.split(" ").map((w) => at.get(w)!);
    return [...list, ...Array(longest - list.length).fill(0)];
  }));
  const model = { words: new nn.Embedding(words.length + 1, 8), out: new nn.Linear(8, 2) };
  const forward = (x: Tensor) => {
    const there = x.ne(0).float().unsqueeze(-1);
    return model.out.call(model.words.call(x).mul(there).sum(1).div(there.sum(1)));
  };
  const optimizer = new nn.optim.AdamW(state.getParameters(model), { lr: 0.1 }), y = new Tensor(labels);
  const step = jit((x: Tensor, y: Tensor) =>
    Tensor.train(() => {
      optimizer.zeroGrad();
      const loss = forward(x).crossEntropy(y).backward();
      optimizer.step();
      return loss;
    })
  );
  for (let i = 0; i < 30; i++) step(ids, y);
  assertEquals(await forward(ids).argmax(1).tolist(), labels);
  const report = new nn.metrics.ConfusionMatrix(2);
  report.update(forward(ids), y);
  assertEquals(await report.compute(), [[3, 0], [0, 3]]);
});

Deno.test("stranger: a series' trend, seasons, moving mean and autocorrelation, and windows of it for a network", async () => {
  const n = 96, k = Tensor.arange(n).float(), season = k.mul(2 * Math.PI / 12).sin().mul(3);
  const series = k.mul(0.1).add(2).add(season).realize();
  const design = Tensor.stack([k, k.onesLike(), k.mul(2 * Math.PI / 12).sin()], 1);
  const [found] = design.lstsq(series.unsqueeze(1));
  assert(await found.flatten().sub(new Tensor([0.1, 2, 3])).abs().max().item() < 1e-3);
  const smooth = series.unfold(0, 12, 1).mean(1);
  const slope: number = await smooth.diff().mean().item();
  assert(Math.abs(slope - 0.1) < 1e-4);
  const rest = series.sub(k.mul(0.1)).sub(2),
    lag = (m: number) => rest.at([m, null]).mul(rest.at([null, n - m])).mean();
  assert(await lag(12).div(lag(0)).item() > 0.99);
  assert(await lag(6).div(lag(0)).item() < -0.99);
  const windows = series.unfold(0, 13, 1), inputs = windows.at(":", [0, 12]), targets = windows.at(":", -1);
  assertEquals([inputs.shape, targets.shape], [[84, 12], [84]]);
  const [h] = new nn.GRU(1, 4, { batchFirst: true }).call(inputs.unsqueeze(-1));
  assertEquals(h.shape, [84, 12, 4]);
});

Deno.test("stranger: conjugate gradients, Newton's method, bisection of many at once, and an ODE by Runge-Kutta", async () => {
  Tensor.manualSeed(4);
  const m = Tensor.randn([12, 12], { dtype: "float64" }),
    a = m.matmul(m.T).add(Tensor.eye(12, { dtype: "float64" })).realize();
  const b = Tensor.ones([12], { dtype: "float64" });
  let x = b.zerosLike(), r = b, p = r;
  for (let i = 0; i < 24; i++) {
    const ap = a.matmul(p), alpha = r.dot(r).div(p.dot(ap).add(1e-300)), next = r.sub(ap.mul(alpha));
    x = x.add(p.mul(alpha)).realize();
    p = next.add(p.mul(next.dot(next).div(r.dot(r).add(1e-300)))).realize();
    r = next.realize();
  }
  assert(await x.sub(a.solve(b)).abs().max().item() < 1e-6);

  const f = (v: Tensor) => Tensor.stack([v.at(0).square().add(v.at(1).square()).sub(4), v.at(0).mul(v.at(1)).sub(1)]);
  let root = new Tensor([2, 0.5], { dtype: "float64" });
  for (let i = 0; i < 6; i++) root = root.sub(jacobian(f)(root).solve(f(root))).realize();
  assert(await f(root).abs().max().item() < 1e-12);

  const targets = new Tensor([2, 3, 5], { dtype: "float64" });
  let low = targets.zerosLike(), high = targets;
  for (let i = 0; i < 45; i++) {
    const middle = low.add(high).div(2), under = middle.square().lt(targets);
    [low, high] = [under.where(middle, low), under.where(high, middle)];
    Tensor.realize([low, high]);
  }
  assert(await low.sub(targets.sqrt()).abs().max().item() < 1e-12);

  const rate = (s: Tensor) => Tensor.stack([s.at(1), s.at(0).neg()]), h = 0.05;
  let s = new Tensor([1, 0], { dtype: "float64" });
  const step = jit((s: Tensor) => {
    const k1 = rate(s), k2 = rate(s.add(k1.mul(h / 2))), k3 = rate(s.add(k2.mul(h / 2))), k4 = rate(s.add(k3.mul(h)));
    return s.add(k1.add(k2.mul(2)).add(k3.mul(2)).add(k4).mul(h / 6));
  });
  for (let i = 0; i < 40; i++) s = step(s);
  const [c, d]: number[] = await s.tolist();
  assert(Math.hypot(c - Math.cos(2), d + Math.sin(2)) < 1e-5);
});

Deno.test("stranger: pi, an option and a random walk by Monte Carlo, with their errors", async () => {
  Tensor.manualSeed(11);
  const n = 200_000, inside = Tensor.rand([n, 2]).square().sum(1).le(1).float();
  const pi: number = await inside.mean().mul(4).item(), off: number = await inside.std().mul(4 / Math.sqrt(n)).item();
  assert(Math.abs(pi - Math.PI) < 4 * off, `${pi} +- ${off}`);
  const [s0, strike, r, sigma] = [100, 105, 0.02, 0.2];
  const end = Tensor.randn([n]).mul(sigma).add(r - sigma ** 2 / 2).exp().mul(s0);
  const pay = end.sub(strike).relu().mul(Math.exp(-r)), price: number = await pay.mean().item();
  const normal = (x: number) => new Tensor([x], { dtype: "float64" }).ndtr().item();
  const d1 = (Math.log(s0 / strike) + r + sigma ** 2 / 2) / sigma;
  const exact = s0 * await normal(d1) - strike * Math.exp(-r) * await normal(d1 - sigma);
  const error: number = await pay.std().item() / Math.sqrt(n);
  assert(Math.abs(price - exact) < 4 * error, `${price} ${exact}`);
  const walks = Tensor.randint([500, 100], { low: 0, high: 2 }).mul(2).sub(1).cumsum(1);
  const spread: number = await walks.at(":", -1).float().var().item();
  assert(Math.abs(spread - 100) < 30, String(spread));
  const picked = new Tensor([0.2, 0, 0.8]).multinomial(1000, { replacement: true });
  const share: number[] = await picked.bincount({ size: 3 }).div(1000).tolist();
  assert(share[1] === 0 && Math.abs(share[2] - 0.8) < 0.06);
});

Deno.test("stranger: a tone is found in noise, filtered by FFT and by convolution, and its spectrogram drawn", async () => {
  Tensor.manualSeed(6);
  const rate = 1024, n = 1024, time = Tensor.arange(n).div(rate), tone = time.mul(2 * Math.PI * 100).sin();
  const noisy = tone.add(Tensor.randn([n]).mul(0.5)).realize();
  const spectrum = fft.rfft(noisy), frequencies = fft.rfftfreq(n, 1 / rate);
  assertEquals(await frequencies.at(spectrum.abs().argmax()).item(), 100);
  const band = frequencies.sub(100).abs().lt(5), clean = fft.irfft(spectrum.mul(band), -1, { n });
  const before: number = await noisy.sub(tone).square().mean().item();
  const after: number = await clean.sub(tone).square().mean().item();
  assert(after < before / 20, `${after} of ${before}`);
  const kernel = new Tensor([0.25, 0.5, 0.25]), direct = noisy.convolve(kernel);
  const size = n + 2,
    byFft = fft.irfft(fft.rfft(noisy, -1, { n: size }).mul(fft.rfft(kernel, -1, { n: size })), -1, { n: size });
  assert(await direct.sub(byFft).abs().max().item() < 1e-4);
  const frames = noisy.stft(128, { hopLength: 64, window: windows.hann(128), returnComplex: true });
  assertEquals(frames.shape, [65, 17]);
  const loudest: number = await frames.abs().mean(1).argmax().item(); // 12.5 times 8 Hz
  assert(loudest === 12 || loudest === 13, String(loudest));
});

Deno.test("stranger: complex numbers: roots of unity, a rotation, a Hermitian matrix, and a gradient", async () => {
  const n = 8, angles = Tensor.arange(n).mul(2 * Math.PI / n), roots = Tensor.polar(Tensor.ones([n]), angles);
  assert(await roots.pow(n).sub(1).abs().max().item() < 1e-5);
  assert(await roots.sum().abs().item() < 1e-5);
  const quarter = Tensor.complex(new Tensor([0]).float(), 1), turned = quarter.mul(new Tensor([{ re: 3, im: 4 }]));
  assertEquals(await turned.tolist(), [{ re: -4, im: 3 }]);
  assertEquals(await turned.abs().tolist(), [5]);
  const h = new Tensor([[{ re: 2, im: 0 }, { re: 0, im: -1 }], [{ re: 0, im: 1 }, { re: 2, im: 0 }]]);
  const [values, vectors] = h.eigh();
  assert(await values.sub(new Tensor([1, 3])).abs().max().item() < 1e-5);
  const back = vectors.mul(values).matmul(vectors.transpose(0, 1).conj());
  assert(await back.sub(h).abs().max().item() < 1e-5);
  const z = new Tensor([{ re: 1, im: 2 }], { requiresGrad: true });
  z.mul(z.conj()).real().sum().backward();
  assertEquals(await z.grad!.tolist(), [{ re: 2, im: 4 }]);
});

Deno.test("stranger: Hessian-vector products, per-sample gradients, and directional derivatives", async () => {
  const f = (x: Tensor) => x.pow(4).sum().add(x.at(0).mul(x.at(1)));
  const x = new Tensor([1, 2, 3]).float(), v = new Tensor([1, -1, 0.5]).float();
  const full: number[] = await hessian(f)(x).matmul(v).tolist();
  assertEquals(full, [11, -47, 54]);
  const [, forward] = jvp(grad(f), [x], [v]);
  assertEquals(await forward.tolist(), full);
  const product = grad((x: Tensor) => grad(f)(x).dot(v));
  assertEquals(await product(x).tolist(), full);
  const w = new Tensor([1, 2]).float(), data = new Tensor([[1, 0], [0, 1], [1, 1]]).float();
  const each = vmap(grad((w: Tensor, row: Tensor) => w.dot(row).square()), { inAxes: [null, 0] })(w, data);
  assertEquals(await each.tolist(), [[2, 0], [0, 4], [6, 6]]);
});

Deno.test("stranger: an operation with a gradient of its own, an average of weights, and weights by hand", async () => {
  const w = new Tensor([0.3, 1.7], { requiresGrad: true });
  const straight = w.add(w.round().sub(w).detach()); // rounds, and passes gradients on
  straight.mul(new Tensor([2, 3])).sum().backward();
  assertEquals([await straight.tolist(), await w.grad!.tolist()], [[0, 2], [2, 3]]);
  const model = new nn.Linear(1, 1, { bias: false }), ema = new nn.EMA(model, { decay: 0.5 });
  for (const value of [4, 8, 2]) {
    model.weight.assign([[value]]);
    ema.update(); // the first takes the weight as it is
  }
  assertEquals(await ema.use(() => model.weight.item()), 4);
  assertEquals(await model.weight.item(), 2);
  ema.copyTo(model);
  assertEquals(await model.weight.item(), 4);
  const slow = new Tensor([1], { requiresGrad: true, dtype: "float32" });
  for (let i = 0; i < 3; i++) {
    slow.grad = undefined;
    slow.square().sum().backward();
    Tensor.noGrad(() => slow.subInPlace(slow.grad!.mul(0.25)));
  }
  assertEquals(await slow.item(), 0.125);
});

Deno.test("stranger: mistakes say what to write instead", async () => {
  const x = Tensor.ones([2, 3]), n = Tensor.ones([3]);
  const rows: readonly (readonly [act: () => unknown, text: RegExp])[] = [
    [() => x.matmul(x), /shapes \[2, 3\] and \[2, 3\]: axis 1 of the first has size 3, axis 0 of the second 2/],
    [() => x.sum(2), /axis 2 is outside \[-2, 2\)|axis 2/],
    [() => x.sum(1, { keepdims: true } as never), /unknown option "keepdims"; known are .*keepdim/],
    [() => n.multinomial(4), /4 samples of 3 positions need replacement: true/],
    [() => n.multinomial(2, true as never), /the options must be an object with replacement, not true/],
    [() => vmap((v: Tensor) => v.sum(), [0] as never)(x), /an object with inAxes, outAxes, not a list/],
  ];
  for (const [act, text] of rows) assert(text.test(String(assertThrows(act))), String(text));
  await assertRejects(() => x.item(), Error);
});
