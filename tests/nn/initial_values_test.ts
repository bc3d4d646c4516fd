/** What weights begin with: bounds, moments and structure, gains as PyTorch's, and misuse. @module */
import assert from "node:assert/strict";
import { ArgumentError, nn, ShapeError, Tensor } from "../../mod.ts";
import "./support.ts";

const { init } = nn;
/** Mean, deviation, least and largest. */
async function of(t: Tensor): Promise<{ mean: number; std: number; low: number; high: number }> {
  const [mean, std] = [await t.mean().item(), await t.std().item()];
  return { mean, std, low: await t.min().item(), high: await t.max().item() };
}
const close = (got: number, want: number, tolerance: number) =>
  assert.ok(Math.abs(got - want) <= tolerance, `${got}, not ${want}`);

/** Of [64, 32, 2]: fans of 64 and 128. Deviations are those of the distributions. */
const DRAWN: readonly (readonly [string, (t: Tensor) => Tensor, std: number, bound?: number])[] = [
  ["uniform", (t) => init.uniform(t, { a: -2, b: 2 }), 2 / Math.sqrt(3), 2],
  ["normal", (t) => init.normal(t, { std: 0.5 }), 0.5],
  ["truncNormal", (t) => init.truncNormal(t), 0.879626, 2], // scipy.stats.truncnorm(-2, 2).std()
  ["xavierUniform", (t) => init.xavierUniform(t, 2), 2 * Math.sqrt(2 / 192), 2 * Math.sqrt(6 / 192)],
  ["xavierNormal", (t) => init.xavierNormal(t), Math.sqrt(2 / 192)],
  ["kaimingUniform", (t) => init.kaimingUniform(t), Math.sqrt(2 / 64), Math.sqrt(6 / 64)],
  ["kaimingUniform", (t) => init.kaimingUniform(t, { mode: "fanOut", nonlinearity: "linear" }), Math.sqrt(1 / 128)],
  ["kaimingNormal", (t) => init.kaimingNormal(t, { a: 1 }), Math.sqrt(1 / 64)],
];
for (const [name, fill, std, bound] of DRAWN) {
  Deno.test(`init: ${name} has the deviation ${std.toFixed(3)}`, async () => {
    Tensor.manualSeed(7);
    const t = Tensor.zeros([64, 32, 2], { requiresGrad: true }), got = await of(fill(t));
    assert.equal(t.requiresGrad, true);
    close(got.mean, 0, 0.06 * std);
    close(got.std, std, 0.03 * std);
    if (bound === undefined) return;
    assert.ok(-bound <= got.low && got.high <= bound, `${got.low} to ${got.high}, outside of ${bound}`);
    close(got.high - got.low, 2 * bound, 0.02 * bound);
  });
}

for (const shape of [[4, 4], [3, 7], [7, 3], [6, 2, 2], [2, 3, 3]]) {
  Deno.test(`init: orthogonal [${shape}] has orthonormal rows, or columns`, async () => {
    const matrix = init.orthogonal(Tensor.zeros(shape), 3).reshape([shape[0], -1]).div(3), [n, m] = matrix.shape;
    const products = n <= m ? matrix.matmul(matrix.transpose()) : matrix.transpose().matmul(matrix);
    assert.ok(await products.allclose(Tensor.eye(Math.min(n, m)), { atol: 1e-5 }));
  });
}
Deno.test("init: of orthogonal matrices of order 1 both are drawn", async () => {
  Tensor.manualSeed(1);
  const t = Tensor.zeros([1, 1]), seen = new Set<number>();
  for (let i = 0; i < 16; i++) seen.add(Math.round(await init.orthogonal(t).item()));
  assert.deepEqual([...seen].sort(), [-1, 1]);
});

Deno.test("init: values that are not drawn", async () => {
  const half = new Tensor([[1, 2], [3, 4]], { dtype: "float16" });
  assert.deepEqual(await init.constant(half, 0.5).tolist(), [[0.5, 0.5], [0.5, 0.5]]);
  assert.equal(half.dtype, Tensor.zeros([], { dtype: "float16" }).dtype);
  assert.deepEqual(await init.ones(half).tolist(), [[1, 1], [1, 1]]);
  assert.deepEqual(await init.zeros(half).tolist(), [[0, 0], [0, 0]]);
  assert.deepEqual(await init.eye(Tensor.ones([2, 3])).tolist(), [[1, 0, 0], [0, 1, 0]]);
  // as torch.nn.init.dirac_(torch.empty(4, 2, 3), groups=2)
  const dirac = await init.dirac(Tensor.ones([4, 2, 3]), 2).tolist();
  const [one, none] = [[0, 1, 0], [0, 0, 0]];
  assert.deepEqual(dirac, [[one, none], [none, one], [one, none], [none, one]]);
});

Deno.test("init: a convolution with dirac's weight is the identity", async () => {
  const layer = new nn.Conv2d(3, 3, 3, { padding: 1, bias: false }), x = Tensor.randn([2, 3, 4, 5]).realize();
  init.dirac(layer.weight);
  assert.ok(await layer.call(x).allclose(x));
});

/** torch.nn.init.calculate_gain. */
const GAINS: readonly (readonly [nn.init.GainOf, number, number?])[] = [
  ["linear", 1],
  ["conv", 1],
  ["sigmoid", 1],
  ["tanh", 5 / 3],
  ["relu", Math.SQRT2],
  ["leakyRelu", 1.4141428569978354],
  ["leakyRelu", 1.3867504905630728, 0.2],
  ["selu", 0.75],
];
for (const [name, want, param] of GAINS) {
  Deno.test(`init: the gain of ${name}${param === undefined ? "" : `, ${param}`}`, () => {
    close(init.calculateGain(name, param), want, 1e-15);
  });
}

const MISUSE: readonly (readonly [string, () => unknown, typeof ArgumentError | typeof ShapeError])[] = [
  ["fans of a vector", () => init.xavierUniform(Tensor.zeros([3])), ShapeError],
  ["orthogonal vectors", () => init.orthogonal(Tensor.zeros([3])), ShapeError],
  ["an eye of three axes", () => init.eye(Tensor.zeros([1, 2, 3])), ShapeError],
  ["dirac of a matrix", () => init.dirac(Tensor.zeros([2, 3])), ShapeError],
  ["groups that do not divide", () => init.dirac(Tensor.zeros([3, 2, 3]), 2), ArgumentError],
  ["an unknown gain", () => init.calculateGain("softmax" as never), ArgumentError],
  ["an unknown mode", () => init.kaimingNormal(Tensor.zeros([2, 3]), { mode: "fan" as never }), ArgumentError],
  ["an empty range", () => init.truncNormal(Tensor.zeros([2]), { a: 2, b: 1 }), ArgumentError],
  ["what is no tensor", () => init.zeros([1, 2] as never), ArgumentError],
];
for (const [name, act, error] of MISUSE) {
  Deno.test(`init: ${name} is refused`, () => {
    assert.throws(act, error);
  });
}
