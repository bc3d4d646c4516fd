/** Weights by name. @module */
import assert from "node:assert/strict";
import { ArgumentError, nn, ShapeError, state, Tensor } from "../../mod.ts";
import "../nn/support.ts";

class Model {
  layers: (nn.Linear | ((x: Tensor) => Tensor))[] = [new nn.Linear(2, 3), (x: Tensor) => x.relu(), new nn.Linear(3, 1)];
  norm: nn.BatchNorm = new nn.BatchNorm(2);
  table: Map<string, Tensor> = new Map([["a", new Tensor([1, 2])]]);
  self: unknown = this;
  raw: Float32Array = new Float32Array(3);
}

Deno.test("state: names walk fields, lists and maps", () => {
  assert.deepEqual(Object.keys(state.getStateDict(new Model())), [
    "layers.0.weight",
    "layers.0.bias",
    "layers.2.weight",
    "layers.2.bias",
    "norm.weight",
    "norm.bias",
    "norm.runningMean",
    "norm.runningVar",
    "norm.numBatchesTracked",
    "table.a",
  ]);
  assert.deepEqual(Object.keys(state.getStateDict([new Tensor(1)], { prefix: "m" })), ["m.0"]);
  assert.deepEqual(Object.keys(state.getStateDict(new Tensor(1), { prefix: "w" })), ["w"]);
});

Deno.test("state: parameters come once each", () => {
  const t = new Tensor([1]);
  assert.deepEqual(state.getParameters([t, { t }, [t]]), [t]);
  assert.equal(state.getParameters(new Model()).length, 10);
});

Deno.test("state: load copies into the model", async () => {
  const a = new Model(), b = new Model();
  const written = state.loadStateDict(b, state.getStateDict(a));
  assert.equal(written.length, 10);
  for (const [name, t] of Object.entries(state.getStateDict(a))) {
    assert.deepEqual(await state.getStateDict(b)[name].tolist(), await t.tolist(), name);
  }
  const l = b.layers[0] as nn.Linear;
  assert.equal(l.weight.requiresGrad, true);
});

Deno.test("state: load takes PyTorch's names, [] for [1], and casts", async () => {
  const norm = new nn.BatchNorm(2);
  state.loadStateDict(norm, {
    weight: new Tensor([1, 2], { dtype: "float64" }),
    bias: new Tensor([3, 4]),
    running_mean: new Tensor([5, 6], { dtype: "float32" }),
    running_var: new Tensor([7, 8], { dtype: "float32" }),
    num_batches_tracked: new Tensor(9, { dtype: "int64" }),
  });
  assert.deepEqual(await norm.runningMean!.tolist(), [5, 6]);
  assert.deepEqual(await norm.numBatchesTracked!.tolist(), [9]);
  assert.deepEqual(await norm.weight!.tolist(), [1, 2]);
  assert.equal(norm.weight!.dtype.name, "float32");
});

Deno.test("state: what load refuses leaves the model as it was", async () => {
  const layer = new nn.Linear(2, 1);
  const before = await layer.weight.tolist();
  const dict = { weight: Tensor.zeros([1, 2]), bias: Tensor.zeros([2]) };
  assert.throws(
    () => state.loadStateDict(layer, dict),
    (e: unknown) => e instanceof ShapeError && /load "bias".*\[2\].*\[1\]/.test(e.message),
  );
  assert.throws(
    () => state.loadStateDict(layer, { weight: Tensor.zeros([1, 2]) }),
    (e: unknown) => e instanceof ArgumentError && /lacks bias/.test(e.message),
  );
  assert.deepEqual(await layer.weight.tolist(), before);
  assert.equal(state.loadStateDict(layer, { weight: Tensor.zeros([1, 2]) }, { strict: false }).length, 1);
  assert.deepEqual(await layer.weight.tolist(), [[0, 0]]);
});
