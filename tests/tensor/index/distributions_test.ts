/** Draws of counts and of long tails against their distributions. @module */
import assert from "node:assert/strict";
import { ArgumentError, Device, grad, jit, Tensor } from "../../../mod.ts";

await Device.open(Device.default); // its library is no leak of the first test

const N = 40000;
const f64 = (x: number, n = N) => Tensor.full([n], x, { dtype: "float64" });

/** The logarithm of Gamma, by Stirling's series from 20 on. */
function logGamma(x: number): number {
  let shift = 0;
  for (; x < 20; x++) shift -= Math.log(x);
  return shift + (x - 0.5) * Math.log(x) - x + Math.log(2 * Math.PI) / 2 + 1 / (12 * x) - 1 / (360 * x ** 3);
}
const poisson = (rate: number) => (k: number) => Math.exp(k * Math.log(rate) - rate - logGamma(k + 1));
const binomial = (n: number, p: number) => (k: number) =>
  k > n ? 0 : Math.exp(
    logGamma(n + 1) - logGamma(k + 1) - logGamma(n - k + 1) + k * Math.log(p) + (n - k) * Math.log1p(-p),
  );

/** Chi squared over cells of at least 20 expected draws, less its mean, in its own deviations. */
function excess(draws: readonly number[], share: (k: number) => number, from: number, to: number): number {
  const counts = new Map<number, number>();
  for (const k of draws) counts.set(k, (counts.get(k) ?? 0) + 1);
  let square = 0, cells = 0, seen = 0, expected = 0;
  const close = () => {
    square += (seen - expected) ** 2 / expected;
    [cells, seen, expected] = [cells + 1, 0, 0];
  };
  for (let k = from; k <= to; k++) {
    seen += counts.get(k) ?? 0;
    expected += share(k) * draws.length;
    if (expected >= 20) close();
  }
  assert.ok(cells > 1, `${cells} cells`);
  return (square - (cells - 1)) / Math.sqrt(2 * (cells - 1));
}

for (const dtype of ["float32", "float64"] as const) {
  for (const rate of [0.05, 0.7, 5, 9.99, 10, 33.3, 1000, 250000]) {
    Deno.test(`draws: Poisson's distribution of rate ${rate} in ${dtype}`, async () => {
      Tensor.manualSeed(7);
      const draws = await Tensor.full([N], rate, { dtype }).poisson().tolist() as number[];
      const wide = 8 * Math.sqrt(rate) + 12, from = Math.max(0, Math.floor(rate - wide));
      const over = excess(draws, poisson(rate), from, Math.ceil(rate + wide));
      assert.ok(Math.abs(over) < 4, String(over));
      assert.ok(draws.every((k) => Number.isInteger(k) && k >= 0 && Math.abs(k - rate) < wide));
    });
  }
  for (
    const [n, p] of [[1, 0.3], [7, 0.5], [1000, 0.001], [30, 0.9], [40, 0.25], [100, 0.5], [5000, 0.7], [1e6, 0.02]]
  ) {
    Deno.test(`draws: ${n} trials of probability ${p} in ${dtype}`, async () => {
      Tensor.manualSeed(8);
      const draws = await Tensor.full([N], n, { dtype }).binomial(p).tolist() as number[];
      const mean = n * p, wide = 8 * Math.sqrt(mean * (1 - p)) + 12, from = Math.max(0, Math.floor(mean - wide));
      const over = excess(draws, binomial(n, p), from, Math.min(n, Math.ceil(mean + wide)));
      assert.ok(Math.abs(over) < 4, String(over));
      assert.ok(draws.every((k) => Number.isInteger(k) && k >= 0 && k <= n));
    });
  }
}

for (const p of [0.9, 0.3, 0.01]) {
  Deno.test(`draws: trials up to a success of probability ${p}`, async () => {
    Tensor.manualSeed(9);
    const draws = await f64(0).geometric(p).tolist() as number[];
    const over = excess(draws, (k) => p * (1 - p) ** (k - 1), 1, Math.ceil(20 / p));
    assert.ok(Math.abs(over) < 4, String(over));
    assert.ok(draws.every((k) => k >= 1 && Number.isInteger(k)));
  });
}

/** The largest distance between shares of draws below a number, and the distribution function there. */
function distance(draws: number[], below: (x: number) => number): number {
  draws.sort((a, b) => a - b);
  return Math.max(...draws.map((x, i) => Math.max(Math.abs(below(x) - i / N), Math.abs(below(x) - (i + 1) / N))));
}
const erf = async (x: number[]) => await new Tensor(x, { dtype: "float64" }).erf().tolist() as number[];
for (const dtype of ["float64", "float32"] as const) {
  const x = () => Tensor.zeros([N], { dtype });
  Deno.test(`draws: exponential, Cauchy's and log-normal numbers in ${dtype}`, async () => {
    Tensor.manualSeed(10);
    const of = async (t: Tensor) => await t.tolist() as number[];
    const most = 1.95 / Math.sqrt(N); // of Kolmogorov and Smirnov at 0.001
    assert.ok(distance(await of(x().exponential(2.5)), (v) => -Math.expm1(-2.5 * v)) < most);
    assert.ok(distance(await of(x().exponential()), (v) => -Math.expm1(-v)) < most);
    const cauchy = distance(
      await of(x().cauchy({ median: 3, sigma: 0.5 })),
      (v) => 0.5 + Math.atan((v - 3) / 0.5) / Math.PI,
    );
    assert.ok(cauchy < most);
    const logs = (await of(x().logNormal({ mean: 1.5, std: 0.25 }))).map((v) => (Math.log(v) - 1.5) / 0.25);
    const shares = await erf(logs.toSorted((a, b) => a - b).map((v) => v / Math.SQRT2));
    let i = 0;
    assert.ok(distance(logs, () => 0.5 + shares[Math.min(i++ >> 1, N - 1)] / 2) < most * 1.1);
  });
}

Deno.test("draws: shapes, dtypes, broadcasting, gradients, captured functions, and the seed", async () => {
  Tensor.manualSeed(3);
  const rates = new Tensor([[0.5, 20], [3, 400]], { dtype: "float16", requiresGrad: true });
  const counts = rates.poisson();
  assert.deepEqual([counts.shape, counts.dtype.name], [[2, 2], "float16"]);
  counts.sum().backward();
  assert.deepEqual(await rates.grad!.tolist(), [[0, 0], [0, 0]]);
  assert.deepEqual(new Tensor([[5], [6]]).binomial(new Tensor([0.5, 0.25, 1])).shape, [2, 3]);
  assert.deepEqual(await new Tensor([4, 9]).binomial(1).tolist(), [4, 9]);
  assert.deepEqual(await new Tensor([4, 9]).binomial(0).tolist(), [0, 0]);
  assert.deepEqual(await Tensor.zeros([3]).poisson().tolist(), [0, 0, 0]);
  assert.deepEqual(Tensor.zeros([0, 2]).poisson().shape, [0, 2]);
  assert.equal(Tensor.zeros([4], { dtype: "int64" }).geometric(0.5).dtype.name, "int64");
  assert.deepEqual(await Tensor.zeros([3]).geometric(1).tolist(), [1, 1, 1]);
  const bad = new Tensor([-1, NaN, 0.5, 2]).mul(1);
  assert.deepEqual(await bad.poisson().isnan().at([0, 2]).tolist(), [true, true]);
  assert.deepEqual(await Tensor.full([4], 3).add(0.5).binomial(0.5).isnan().tolist(), [true, true, true, true]);
  const f = jit((x: Tensor) => x.poisson()), x = Tensor.full([200], 50.5).contiguous().realize();
  const seen: string[] = [];
  for (let i = 0; i < 4; i++) seen.push(String(await f(x).tolist()));
  assert.equal(new Set(seen).size, 4);
  const again = () => {
    Tensor.manualSeed(1);
    return Tensor.full([50], 30.5).poisson().tolist();
  };
  assert.deepEqual(await again(), await again());
  assert.deepEqual(await grad((v: Tensor) => v.exponential().sum())(new Tensor([1.5, 2])).tolist(), [0, 0]);
});

for (
  const [text, make] of [
    ["Cannot poisson: a rate must be at least 0, not -1", () => new Tensor([0.5, -1]).poisson()],
    ["Cannot binomial: a count must be a whole number of at least 0, not 1.5", () => new Tensor([1.5]).binomial(0.5)],
    ["Cannot binomial: a probability must lie in [0, 1], not 2", () => new Tensor([1]).binomial(new Tensor([2]))],
    ["Cannot exponential: lambd must be above 0 and finite, not 0", () => new Tensor([1.5]).exponential(0)],
    ["Cannot cauchy: sigma must be above 0 and finite, not -1", () => new Tensor([1.5]).cauchy({ sigma: -1 })],
    ["Cannot logNormal: std must be above 0 and finite, not 0", () => new Tensor([1.5]).logNormal({ std: 0 })],
    ["Cannot geometric: p must lie in (0, 1], not 0", () => new Tensor([1.5]).geometric(0)],
  ] as const
) {
  Deno.test(`draws: ${text} is refused`, () => {
    assert.throws(make, (e: Error) => e instanceof ArgumentError && e.message.startsWith(text));
  });
}
