/** Layers against PyTorch: outputs, gradients, statistics; bad arguments. @module */
import assert from "node:assert/strict";
import { ArgumentError, DTypeError, nn, ShapeError, state, Tensor } from "../../mod.ts";
import { close, fill, golden, setParameters } from "./support.ts";

interface Affine {
  weight: Tensor | undefined;
  bias?: Tensor | undefined;
  call(x: Tensor): Tensor;
}

const TABLE: readonly (readonly [string, () => Affine, number[]])[] = [
  ["linear", () => new nn.Linear(4, 3), [2, 4]],
  ["conv2d", () => new nn.Conv2d(2, 4, 3, { padding: 1, stride: 2, groups: 2 }), [1, 2, 5, 5]],
  ["conv1d", () => new nn.Conv1d(2, 3, 2, { dilation: 2 }), [2, 2, 6]],
  ["convT", () => new nn.ConvTranspose2d(2, 3, 3, { stride: 2, padding: 1, outputPadding: 1 }), [1, 2, 3, 3]],
  ["layernorm", () => new nn.LayerNorm([3, 4]), [2, 3, 4]],
  ["groupnorm", () => new nn.GroupNorm(2, 4), [2, 4, 3]],
  ["instancenorm", () => new nn.InstanceNorm(2), [2, 2, 2, 3]],
  ["rmsnorm", () => new nn.RMSNorm(5), [2, 5]],
];

for (const [name, make, shape] of TABLE) {
  Deno.test(`nn: ${name} agrees with PyTorch`, async () => {
    const layer = make(), want = golden[name];
    setParameters("bias" in layer ? [layer.bias, layer.weight] : [layer.weight]);
    const x = fill(shape, 0.53, 0.1);
    x.requiresGrad = true;
    const y = layer.call(x);
    y.mul(fill(y.shape, 0.9, 0.3)).sum().backward();
    await close(y, want.y);
    await close(x.grad, want.gx);
    await close(layer.weight!.grad, want.gw);
  });
}

Deno.test("nn: BatchNorm agrees with PyTorch, running statistics included", async () => {
  const layer = new nn.BatchNorm2d(2), want = golden.batchnorm;
  setParameters([layer.bias, layer.weight]);
  const x = fill([3, 2, 2, 2], 0.53, 0.1);
  x.requiresGrad = true;
  const y = Tensor.train(() => layer.call(x));
  y.mul(fill(y.shape, 0.9, 0.3)).sum().backward();
  Tensor.realize([y, x.grad!, layer.weight!.grad!, ...state.getParameters(layer)]);
  await close(y, want.y);
  await close(x.grad, want.gx);
  await close(layer.weight!.grad, want.gw);
  await close(layer.runningMean, want.rm);
  await close(layer.runningVar, want.rv);
  await close(layer.numBatchesTracked, [1]);
  await close(layer.call(x), want.ev);
});

Deno.test("nn: Embedding agrees with PyTorch", async () => {
  const layer = new nn.Embedding(5, 3), want = golden.embedding;
  setParameters([layer.weight]);
  const y = layer.call(new Tensor([[1, 4], [1, 0]]));
  assert.deepEqual(y.shape, [2, 2, 3]);
  y.mul(fill([2, 2, 3], 0.9, 0.3)).sum().backward();
  await close(y, want.y);
  await close(layer.weight.grad, want.gw);
  assert.throws(() => layer.call(new Tensor([0.5])), DTypeError);
});

Deno.test("nn: LSTMCell agrees with PyTorch over two steps", async () => {
  const cell = new nn.LSTMCell(3, 2), want = golden.lstm;
  setParameters([cell.biasHh, cell.biasIh, cell.weightHh, cell.weightIh]);
  const first = cell.call(fill([2, 3], 0.53, 0.1));
  const [h, c] = cell.call(fill([2, 3], 0.41, 0.7), first);
  await close(h, want.h);
  await close(c, want.c);
});

Deno.test("nn: dropout of whole channels, and dropout that keeps mean and variance", async () => {
  Tensor.manualSeed(1);
  const y = await Tensor.train(() => new nn.Dropout2d(0.5).call(Tensor.ones([8, 16, 3, 2]))).sum([2, 3]).data();
  assert(Array.from(y, Number).every((v) => v === 0 || v === 12));
  const x = Tensor.randn([40000]), z = Tensor.train(() => new nn.AlphaDropout(0.3).call(x)).realize();
  assert(Math.abs(await z.mean().item() as number) < 0.03 && Math.abs((await z.std().item() as number) - 1) < 0.03);
  assert(await new nn.AlphaDropout(0.3).call(x).sub(x).abs().max().item() === 0);
  assert(await Tensor.train(() => new nn.AlphaDropout(1).call(x)).abs().max().item() === 0);
});

Deno.test("nn: Dropout is the identity outside training", async () => {
  const x = Tensor.ones([1000]);
  await close(new nn.Dropout(0.5).call(x).sum(), [1000]);
  Tensor.manualSeed(1);
  const y = Array.from(await Tensor.train(() => new nn.Dropout(0.5).call(x)).data(), Number);
  assert.deepEqual([...new Set(y)].sort(), [0, 2]);
  const kept = y.filter((v) => v === 2).length;
  assert.ok(kept > 400 && kept < 600, `${kept} kept`);
});

Deno.test("nn: weights require gradients, statistics do not, bounds are PyTorch's", async () => {
  const layer = new nn.BatchNorm(4);
  assert.equal(layer.weight!.requiresGrad, true);
  assert.ok(!layer.runningMean!.requiresGrad);
  const linear = new nn.Linear(16, 8);
  assert.deepEqual(linear.weight.shape, [8, 16]);
  const w = Array.from(await linear.weight.data(), Number);
  assert.ok(Math.max(...w) <= 0.25 && Math.min(...w) >= -0.25 && Math.max(...w) > 0.2);
  assert.equal(new nn.Linear(2, 2, { bias: false }).bias, undefined);
  assert.equal(new nn.LayerNorm(4, { elementwiseAffine: false }).weight, undefined);
});

Deno.test("nn: two layers do not share statistics", async () => {
  const a = new nn.BatchNorm(2), b = new nn.BatchNorm(2);
  Tensor.realize([...state.getParameters(a), ...state.getParameters(b)]);
  Tensor.train(() => a.call(fill([4, 2, 1, 1], 0.5, 0, 3)));
  Tensor.realize(state.getParameters(a));
  await close(b.runningMean, [0, 0]);
});

const BAD: readonly (readonly [string, () => unknown, new (...a: never[]) => Error, RegExp])[] = [
  ["an unknown option", () => new nn.Linear(2, 3, { biass: false } as object), ArgumentError, /Linear.*biass/],
  ["no size", () => new nn.Linear(0, 3), ArgumentError, /inFeatures.*0/],
  ["groups that do not divide", () => new nn.Conv2d(3, 4, 3, { groups: 2 }), ArgumentError, /3 and 4 channels/],
  ["padding same with a stride", () => new nn.Conv2d(3, 4, 3, { padding: "same", stride: 2 }), ArgumentError, /same/],
  ["group norm", () => new nn.GroupNorm(3, 4), ArgumentError, /4 channels/],
  [
    "batch norm of other channels",
    () => new nn.BatchNorm(3).call(Tensor.zeros([2, 4, 1, 1])),
    ShapeError,
    /\[2, 4, 1, 1\]/,
  ],
  ["layer norm of another tail", () => new nn.LayerNorm(3).call(Tensor.zeros([2, 4])), ShapeError, /\[2, 4\]/],
  ["dropout beyond 1", () => new nn.Dropout(1.5), ArgumentError, /1.5/],
];
for (const [name, fn, kind, text] of BAD) {
  Deno.test(`nn: bad argument: ${name}`, () => {
    assert.throws(fn, (e: unknown) => e instanceof kind && text.test((e as Error).message));
  });
}

Deno.test("nn: norms of an empty batch", async () => {
  for (const layer of [new nn.GroupNorm(1, 2), new nn.InstanceNorm(2), new nn.BatchNorm(2), new nn.LayerNorm(3)]) {
    const y = layer.call(Tensor.zeros([0, 2, 3]));
    assert.deepEqual([y.shape, await y.tolist()], [[0, 2, 3], []]);
  }
});

Deno.test("nn: padding same keeps the size", () => {
  for (const k of [1, 2, 3, 4, 5]) {
    assert.deepEqual(new nn.Conv2d(1, 2, k, { padding: "same" }).call(Tensor.zeros([1, 1, 7, 6])).shape, [1, 2, 7, 6]);
  }
});
