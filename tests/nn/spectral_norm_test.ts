/** Weights by their largest singular value: training against PyTorch, also under jit, and misuse. @module */
import assert from "node:assert/strict";
import { ArgumentError, jit, nn, ShapeError, state, Tensor } from "../../mod.ts";
import { close, fill, golden, setParameters } from "./support.ts";

type Layer = { weight: Tensor; bias?: Tensor; call(x: Tensor): Tensor };
const { spectralNorm, removeSpectralNorm } = nn.utils;
const TABLE: readonly (readonly [string, () => Layer, number[], nn.utils.SpectralNormOptions?])[] = [
  ["spectralLinear", () => new nn.Linear(3, 2), [4, 3]],
  ["spectralConv", () => new nn.Conv2d(2, 3, 2), [1, 2, 3, 3], { nPowerIterations: 3 }],
  ["spectralTransposed", () => new nn.ConvTranspose1d(2, 3, 2), [1, 2, 3]],
];
for (const [name, make, shape, options] of TABLE) {
  for (const jitted of [false, true]) {
    Deno.test(`nn: ${name} agrees with PyTorch${jitted ? " under jit" : ""}`, async () => {
      const plain = make(), want = golden[name];
      setParameters([plain.bias, plain.weight]);
      const layer = spectralNorm(plain, "weight", options);
      const unit = (t: Tensor, a: number, b: number) => t.assign(fill(t.shape, a, b).normalize({ dim: 0 }));
      Tensor.realize([unit(layer.weightU, 0.7, 0.4), unit(layer.weightV, 0.6, 0.2)]);
      const optimizer = new nn.optim.SGD(state.getParameters(layer), { lr: 0.1 });
      const step = (x: Tensor) =>
        Tensor.train(() => {
          optimizer.zeroGrad();
          const y = layer.call(x);
          y.mul(fill(y.shape, 0.9, 0.3)).sum().backward();
          optimizer.step({ also: [y] });
          return y;
        });
      const run = jitted ? jit(step) : step, ys: number[] = [];
      for (let i = 0; i < 3; i++) ys.push(...await run(fill(shape, 0.53, 0.1 * i).realize()).data());
      await close(new Tensor(ys), want.y);
      await close(layer.call(fill(shape, 0.53, 0.1)), want.e);
      await close(layer.weightOrig, want.orig);
      await close(layer.weightU, want.u);
      await close(layer.weightV, want.v);
    });
  }
}

Deno.test("nn: a weight that begins normed has 1 as its largest singular value, and can be undone", async () => {
  Tensor.manualSeed(1); // fifteen iterations are few where the two largest singular values are close
  const layer = spectralNorm(new nn.Linear(6, 5)), before = await layer.weight.tolist();
  const largest = (await layer.weight.svdvals().data())[0];
  assert.ok(Math.abs(largest - 1) < 0.02, `${largest}`);
  assert.deepEqual(Object.keys(state.getStateDict(layer)).sort(), ["bias", "weightOrig", "weightU", "weightV"]);
  removeSpectralNorm(layer);
  assert.deepEqual(Object.keys(state.getStateDict(layer)).sort(), ["bias", "weight"]);
  assert.deepEqual(await layer.weight.tolist(), before);
});

const MISUSE: readonly (readonly [string, () => unknown, typeof ArgumentError | typeof ShapeError])[] = [
  ["no weight of this name", () => spectralNorm(new nn.Linear(2, 2), "kernel"), ArgumentError],
  ["normed twice", () => spectralNorm(spectralNorm(new nn.Linear(2, 2))), ArgumentError],
  ["another axis", () => spectralNorm(new nn.Linear(2, 2), "weight", { dim: 2 }), ShapeError],
  ["no iterations", () => spectralNorm(new nn.Linear(2, 2), "weight", { nPowerIterations: 0 }), ArgumentError],
  ["undone without", () => removeSpectralNorm(new nn.Linear(2, 2)), ArgumentError],
];
for (const [name, act, error] of MISUSE) {
  Deno.test(`nn: spectral norms refuse: ${name}`, () => {
    assert.throws(act, error);
  });
}
