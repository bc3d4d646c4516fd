/**
 * Programs of areas that others have not: statistics, complex signals, mixtures, sums by letters, orbits, transformers as
 * PyTorch has them, policies, variational losses, gradients by hand. What they come to is NumPy's, SciPy's or PyTorch's.
 */
import { assertClose, assertEquals } from "@std/assert";
import { fft, grad, jit, nn, scan, state, Tensor, valueAndGrad, vmap } from "../../mod.ts";
import { programs } from "./everyday.ts";

const program = programs("areas", 3);
const wide = { dtype: "float64" } as const;
const ramp = (n: number): Tensor => Tensor.arange(n, undefined, undefined, wide);
/** Numbers that are no pattern, by a formula. */
const sine = (by: number, ...shape: number[]): Tensor =>
  ramp(shape.reduce((x, y) => x * y)).mul(by).sin().reshape(shape);
const cosine = (by: number, ...shape: number[]): Tensor =>
  ramp(shape.reduce((x, y) => x * y)).mul(by).cos().reshape(shape);

program("a table as statisticians read it: moments, ranks, groups, a regression, a test of means", async () => {
  const i = ramp(24), a = i.mul(1.7).sin().mul(3).add(i.mod(5)), b = i.mul(7).mod(11).div(2);
  const near = async (t: Tensor, want: unknown, by = 1e-9): Promise<void> => assertClose(await t.tolist(), want, by);
  await near(Tensor.stack([a, b]).corrcoef().at(0, 1), -0.05787022350343687);
  // ranks with ties are means of places
  const ranks = (x: Tensor): Tensor =>
    x.unsqueeze(1).gt(x).sum(1).add(x.unsqueeze(1).ge(x).sum(1)).add(1).double().div(2);
  await near(Tensor.stack([ranks(a), ranks(b)]).corrcoef().at(0, 1), -0.07593331751096778);
  const z = a.sub(a.mean()).div(a.std(undefined, { correction: 0 }));
  await near(z.at([null, 3]), [-0.8005899748343771, 0.7718000724002206, -0.3127026905878219]);
  await near(z.pow(3).mean(), 0.15600143523367935);
  await near(z.pow(4).mean().sub(3), -0.9433297628574997);
  const groups = a.reshape([8, 3]);
  await near(groups.mean(0), [1.184453131640896, 2.558326116912662, 2.3288834995617944]);
  await near(groups.std(0), [2.5851581153631136, 3.009704274626885, 2.220756458287189]);
  const means = a.zerosLike().at([0, 3]).scatterReduce(0, i.mod(3).int(), a, "mean", false);
  await near(means, [1.184453131640896, 2.558326116912662, 2.3288834995617944]);
  const [counts, edges] = a.histogram(6);
  await near(counts.double(), [2, 3, 9, 2, 2, 6]);
  await near(edges.at([0, 2]), [-2.8841924756386703, -1.350163118249115]);
  const [beta, residuals] = Tensor.stack([a.onesLike(), a, a.square()], 1).lstsq(b);
  await near(beta, [2.52131554262226, -0.009363536638536063, -0.006185328152557676]);
  await near(residuals, [61.90937758714871]);
  await near(a.convolve(Tensor.full([5], 0.2, wide), { mode: "valid" }).at([0, 2]), [
    2.182653426341908,
    2.6617456939160022,
  ]);
  const places = a.sort()[0].searchsorted(new Tensor([0, 1, 2], wide), { right: true });
  await near(places.double().div(24), [0.16666666666666666, 0.375, 0.5833333333333334]);
  const [x, y] = a.split(12), error = x.var().div(12).add(y.var().div(12)).sqrt();
  await near(x.mean().sub(y.mean()).div(error), -0.5440740917424768);
  await near(a.sub(a.quantile(0.5)).abs().quantile(0.5), 1.3600948310897543);
});

program("complex signals: two tones, an envelope, its phase, a spectrum, a shift", async () => {
  const n = ramp(64),
    tone = (k: number, size = 1): Tensor => Tensor.polar(n.zerosLike().add(size), n.mul(2 * Math.PI * k / 64));
  const spectrum = fft.fft(tone(5).add(tone(-9, 0.5)));
  const [sizes, places] = spectrum.abs().topk(2);
  assertEquals(await places.tolist(), [5, 55]);
  assertClose(await sizes.tolist(), [64, 32], 1e-9);
  const real = n.mul(10 * Math.PI / 64).sin().mul(n.mul(4 * Math.PI / 64).cos().mul(0.3).add(1));
  // the analytic signal: frequencies above 0 twice, those below not
  const k = ramp(64), weights = k.eq(0).logicalOr(k.eq(32)).where(1, k.lt(32).where(2, 0));
  const analytic = fft.ifft(fft.fft(real).mul(weights));
  assertClose(await analytic.abs().at([0, 4]).tolist(), [
    1.3,
    1.294235584120969,
    1.2771638597533859,
    1.2494408836907636,
  ], 1e-9);
  const phase = analytic.angle().unwrap().at([0, 4]);
  assertClose(await phase.tolist(), [
    -1.5707963267948966,
    -1.0799224746714913,
    -0.5890486225480862,
    -0.09817477042468098,
  ], 1e-9);
  const power = fft.rfft(real.sub(real.mean())).abs().square().div(64).mul(2);
  assertClose(await power.at([3, 8]).tolist(), [0.72, 0, 32, 0, 0.72], 1e-9);
  const shifted = fft.ifft(fft.fft(real).mul(fft.fft(real.roll(3)).conj())).real();
  assertEquals(await shifted.argmax().item(), 61);
});

program("principal components, and a mixture of two normal distributions by expectation and maximization", async () => {
  const i = ramp(30), x = Tensor.stack([i.mul(1.3).sin().add(i.mod(2).mul(6)), i.mul(2.1).cos()], 1);
  const [, s, v] = x.sub(x.mean(0)).svd({ fullMatrices: false });
  assertClose(await s.square().div(29).tolist(), [9.967739182956356, 0.5160339692071677], 1e-9);
  assertClose(await v.at(0).abs().tolist(), [0.9999987792101468, 0.0015625550281330794], 1e-9);
  const density = (mean: Tensor, cov: Tensor): Tensor => {
    const L = cov.cholesky(), d = L.solveTriangular(x.sub(mean).T, { upper: false });
    return d.square().sum(0).mul(-0.5).exp().div(L.diagonal().prod().mul(2 * Math.PI));
  };
  const step = jit((w: Tensor, mean: Tensor, cov: Tensor) => {
    const p = vmap(density)(mean, cov).T.mul(w), r = p.div(p.sum(1, { keepdim: true })), count = r.sum(0);
    const next = r.T.matmul(x).div(count.unsqueeze(1)), d = x.unsqueeze(0).sub(next.unsqueeze(1));
    const spread = Tensor.einsum("kni,nk,knj->kij", [d, r, d]).div(count.reshape([2, 1, 1]));
    return [count.div(30), next, spread.add(Tensor.eye(2, wide).mul(1e-6))] as [Tensor, Tensor, Tensor];
  });
  let [w, mean, cov] = [
    Tensor.full([2], 0.5, wide),
    new Tensor([[0, 0], [5, 0]], wide),
    Tensor.eye(2, wide).expand([2, 2, 2]).contiguous(),
  ];
  for (let k = 0; k < 20; k++) [w, mean, cov] = step(w.realize(), mean.realize(), cov.realize());
  assertClose(await w.tolist(), [0.499999999999541, 0.5000000000004591], 1e-9);
  assertClose(await mean.tolist(), [[-0.02534013298939072, -0.002792473195909247], [
    6.025369755504784,
    0.006462538013471922,
  ]], 1e-9);
  assertClose(await cov.at(0).tolist(), [[0.4826347810789981, 0.015585129070304767], [
    0.015585129070304782,
    0.5040204602889211,
  ]], 1e-9);
});

program("sums by letters: attention, a bilinear form, a trace", async () => {
  const q = sine(0.3, 2, 3, 4), k = cosine(0.2, 2, 5, 4), v = sine(0.1, 2, 5, 6);
  const weights = Tensor.einsum("bqd,bkd->bqk", q, k).div(2).softmax(-1),
    out = Tensor.einsum("bqk,bkv->bqv", weights, v);
  const want = [
    -0.6162082595089288,
    -0.6486641507686147,
    -0.6746388042536811,
    -0.693872689812584,
    -0.7061736288186959,
    -0.7114187143556183,
  ];
  assertClose(await out.at(1, 2).tolist(), want, 1e-12);
  assertClose(await q.scaledDotProductAttention(k, v).at(1, 2).tolist(), want, 1e-12);
  const form = Tensor.einsum("bqd,de,bke->bqk", q, ramp(16).reshape([4, 4]).div(10), k).at(0, 0);
  assertClose(await form.tolist(), [
    6.497393151497296,
    2.963248799680887,
    -2.36836251109208,
    -6.263356902969193,
    -6.359083043576958,
  ], 1e-12);
  assertClose(await Tensor.einsum("bii->", Tensor.einsum("bqd,bkd->bqk", q, q)).item(), 10.904618393072266, 1e-12);
});

program("an orbit of Lorenz's system by Runge and Kutta, as a scan, and its slope by the start", async () => {
  const field = (s: Tensor): Tensor => {
    const [x, y, z] = s.unbind(0);
    return Tensor.stack([y.sub(x).mul(10), x.mul(z.sub(28).neg()).sub(y), x.mul(y).sub(z.mul(8 / 3))]);
  };
  const dt = 0.005,
    move = (s: Tensor): Tensor => {
      const k1 = field(s),
        k2 = field(s.add(k1.mul(dt / 2))),
        k3 = field(s.add(k2.mul(dt / 2))),
        k4 = field(s.add(k3.mul(dt)));
      return s.add(k1.add(k2.mul(2)).add(k3.mul(2)).add(k4).mul(dt / 6));
    };
  const start = Tensor.ones([3], wide);
  const [end] = scan((s: Tensor) => [move(s), s.at(0)], start, undefined, { length: 100 });
  assertClose(await end.tolist(), [1.19828942448404, -8.867197346689146, 32.45475325702707], 1e-9);
  const few = (s: Tensor): Tensor => scan((s: Tensor) => [move(s), s.at(0)], s, undefined, { length: 10 })[0].sum();
  const slope = await grad(few)(start).tolist<number[]>(), h = 1e-6;
  for (let i = 0; i < 3; i++) {
    const by = Tensor.eye(3, wide).at(i).mul(h), change = few(start.add(by)).sub(few(start.sub(by))).div(2 * h);
    assertClose(slope[i], await change.item(), 1e-6);
  }
});

program("a layer of a transformer with PyTorch's weights, by its names", async () => {
  const layer = new nn.TransformerEncoderLayer(8, 2, {
    dimFeedforward: 16,
    dropout: 0,
    batchFirst: true,
    normFirst: true,
    activation: "gelu",
  });
  const shapes: [string, number[]][] = [
    ["self_attn.in_proj_weight", [24, 8]],
    ["self_attn.in_proj_bias", [24]],
    ["self_attn.out_proj.weight", [8, 8]],
    ["self_attn.out_proj.bias", [8]],
    ["linear1.weight", [16, 8]],
    ["linear1.bias", [16]],
    ["linear2.weight", [8, 16]],
    ["linear2.bias", [8]],
    ["norm1.weight", [8]],
    ["norm1.bias", [8]],
    ["norm2.weight", [8]],
    ["norm2.bias", [8]],
  ];
  const weights = shapes.map((
    [name, shape],
    j,
  ) => [
    name,
    sine(0.7, ...shape).zerosLike().add(ramp(shape.reduce((a, b) => a * b)).mul(0.7).add(j).sin().reshape(shape)).mul(
      0.4,
    ).float().realize(),
  ]);
  state.loadStateDict(layer, Object.fromEntries(weights));
  const x = cosine(0.5, 2, 3, 8).float(), mask = Tensor.full([3, 3], -Infinity).triu(1);
  const y = layer.call(x, { attnMask: mask });
  const want = [
    0.6256329253689268,
    -0.2333836243197452,
    -0.5174189019139512,
    -0.8533015951687609,
    -1.5415743887915747,
    -1.7892512047867388,
    -0.8676880145083524,
    0.6093710745652117,
  ];
  assertClose(await y.at(1, 2).tolist(), want, 2e-6);
});

program("a policy: its gradient, returns and advantages", async () => {
  const logits = sine(1, 4, 3).contiguous().realize(),
    acts = new Tensor([0, 2, 1, 1]),
    rewards = new Tensor([1, 0.5, -1, 2], wide);
  logits.requiresGrad = true;
  const logP = logits.logSoftmax(-1), chosen = logP.gather(1, acts.unsqueeze(1)).squeeze(1);
  const entropy = logP.exp().mul(logP).sum(-1).neg(),
    loss = chosen.mul(rewards).mean().neg().sub(entropy.mean().mul(0.01));
  loss.backward();
  assertClose(await loss.item(), 1.1020891420272974, 1e-12);
  assertClose(
    await logits.grad!.at(0).tolist(),
    [-0.20722661790583877, 0.10006574910533275, 0.10716086880050603],
    1e-12,
  );
  const r = new Tensor([1, 0, 2, 3], wide), zero = new Tensor(0, wide);
  const [, returns] = scan((g: Tensor, r: Tensor) => [r.add(g.mul(0.9)), r.add(g.mul(0.9))], zero, r.flip(0));
  assertClose(await returns.flip(0).tolist(), [4.807, 4.23, 4.7, 3], 1e-12);
  const values = new Tensor([0.5, 0.2, 0.1, 0.4, 0], wide),
    delta = r.add(values.at([1, null]).mul(0.9)).sub(values.at([0, -1]));
  const [, advantages] = scan(
    (a: Tensor, d: Tensor) => [d.add(a.mul(0.9 * 0.95)), d.add(a.mul(0.9 * 0.95))],
    zero,
    delta.flip(0),
  );
  assertClose(await advantages.flip(0).tolist(), [3.8631350749999998, 3.722965, 4.483, 2.6], 1e-12);
});

program("a variational loss: its slopes by mean and variance, and draws that gradients pass", async () => {
  const mean = sine(1, 2, 3), logvar = cosine(1, 2, 3);
  const loss = (mu: Tensor, lv: Tensor): Tensor => lv.add(1).sub(mu.square()).sub(lv.exp()).sum(1).mean().mul(-0.5);
  const [value, [dMean, dVar]] = valueAndGrad(loss, { argnums: [0, 1] })(mean, logvar);
  assertClose(await value.item(), 1.149254023161875, 1e-12);
  assertClose(await dMean.tolist(), [[0, 0.42073549240394825, 0.45464871341284085], [
    0.0705600040299336,
    -0.3784012476539641,
    -0.4794621373315692,
  ]], 1e-12);
  assertClose(await dVar.tolist(), [[0.4295704571147613, 0.1791314248872259, -0.08510414689435528], [
    -0.15710513021977907,
    -0.11996322474877208,
    0.08199606064715415,
  ]], 1e-12);
  const noise = mean.randnLike().realize(), draw = (lv: Tensor): Tensor => mean.add(lv.mul(0.5).exp().mul(noise)).sum();
  assertClose(await grad(draw)(logvar).tolist(), await logvar.mul(0.5).exp().mul(noise).mul(0.5).tolist(), 1e-12);
});

program("two networks against each other: each learns by its own loss alone", async () => {
  const make = (inputs: number, outputs: number) =>
    new nn.Sequential(new nn.Linear(inputs, 16), new nn.Tanh(), new nn.Linear(16, outputs));
  const generator = make(2, 1), critic = make(1, 1), real = () => Tensor.randn([64, 1]).mul(0.5).add(2);
  const forG = new nn.optim.Adam(state.getParameters(generator), { lr: 5e-3, betas: [0.5, 0.99] });
  const forC = new nn.optim.Adam(state.getParameters(critic), { lr: 5e-3, betas: [0.5, 0.99] });
  const round = jit(() =>
    Tensor.train(() => {
      const fake = generator.call(Tensor.randn([64, 2]));
      forC.zeroGrad();
      const right = critic.call(real()), wrong = critic.call(fake.detach());
      const lossC = right.binaryCrossentropyLogits(right.onesLike()).add(
        wrong.binaryCrossentropyLogits(wrong.zerosLike()),
      );
      lossC.backward();
      forC.step();
      forG.zeroGrad();
      const judged = critic.call(fake), lossG = judged.binaryCrossentropyLogits(judged.onesLike());
      lossG.backward();
      forG.step();
      return [lossC, lossG] as [Tensor, Tensor];
    })
  );
  const before = await generator.call(Tensor.randn([256, 2])).mean().item();
  for (let k = 0; k < 400; k++) round();
  const after = await generator.call(Tensor.randn([256, 2])).mean().item();
  assertEquals([Math.abs(after - 2) < 0.6, Math.abs(before - 2) > 1], [true, true], `${before} to ${after}`);
});

program(
  "gradients by hand: Newton's method, a step by the natural gradient, momentum without an optimizer",
  async () => {
    const x = sine(1, 20, 2), y = x.at(":", 0).gt(x.at(":", 1)).cast("float64");
    const loss = (w: Tensor): Tensor => x.matmul(w).binaryCrossentropyLogits(y).add(w.square().sum().mul(0.05));
    let w = Tensor.zeros([2], wide);
    for (let k = 0; k < 8; k++) {
      const p = x.matmul(w).sigmoid(),
        H = x.T.mul(p.mul(p.neg().add(1))).matmul(x).div(20).add(Tensor.eye(2, wide).mul(0.1));
      w = w.sub(H.solve(grad(loss)(w))).realize();
    }
    assertClose(await grad(loss)(w).tolist(), [0, 0], 1e-12);
    const v = Tensor.zeros([2], { ...wide, requiresGrad: true }), speed = Tensor.zeros([2], wide);
    for (let k = 0; k < 300; k++) {
      loss(v).backward();
      Tensor.noGrad(() => {
        speed.assign(speed.mul(0.9).sub(v.grad!.mul(0.3)));
        v.assign(v.add(speed));
      });
      v.grad = undefined;
      Tensor.realize([v, speed]);
    }
    assertClose(await v.tolist(), await w.tolist(), 1e-6);
  },
);
