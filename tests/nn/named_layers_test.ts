/** Layers by PyTorch's names: padding, normalization of samples, comparisons, windows, lazy ones. Values are PyTorch's. @module */
import assert from "node:assert/strict";
import { Device, nn, state, Tensor } from "../../mod.ts";

await Device.open(Device.default); // its library is no leak of the first test
const row = (n: number): Tensor => Tensor.arange(n).float().reshape([1, 1, n]);
const square = (n: number): Tensor => Tensor.arange(n * n).float().reshape([1, 1, n, n]);
async function near(x: Tensor, want: readonly number[], slack = 2e-6): Promise<void> {
  const got = await x.flatten().tolist() as number[];
  assert.equal(got.length, want.length);
  got.forEach((v, i) => assert.ok(Math.abs(v - want[i]) <= slack * Math.max(1, Math.abs(want[i])), `${got} ${want}`));
}

const PADS: readonly [layer: { call(x: Tensor): Tensor }, x: Tensor, want: unknown][] = [
  [new nn.ZeroPad1d([1, 0]), row(3), [[[0, 0, 1, 2]]]],
  [new nn.ZeroPad2d(-1), square(4), [[[[5, 6], [9, 10]]]]],
  [new nn.ConstantPad2d([1, 0, 0, 1], 7), square(2), [[[[7, 0, 1], [7, 2, 3], [7, 7, 7]]]]],
  [new nn.ReflectionPad1d(2), row(4), [[[2, 1, 0, 1, 2, 3, 2, 1]]]],
  [new nn.ReplicationPad2d([0, 1, 1, 0]), square(2), [[[[0, 1, 1], [0, 1, 1], [2, 3, 3]]]]],
  [new nn.CircularPad1d([2, 1]), row(4), [[[2, 3, 0, 1, 2, 3, 0]]]],
];
for (const [layer, x, want] of PADS) {
  Deno.test(`named layers: ${layer.constructor.name}`, async () =>
    assert.deepEqual(await layer.call(x).tolist(), want));
}
Deno.test("named layers: pads of three axes", async () => {
  const x = Tensor.arange(8).float().reshape([1, 1, 2, 2, 2]);
  assert.equal(await new nn.ReplicationPad3d(1).call(x).sum().item(), 224);
  assert.equal(await new nn.CircularPad3d([1, 0, 0, 0, 0, 0]).call(x).sum().item(), 28 + 16);
  assert.equal(await new nn.ConstantPad3d([0, 1, 0, 0, 0, 0], -1).call(x).sum().item(), 24);
  assert.equal(await new nn.ReflectionPad3d([1, 0, 0, 0, 0, 0]).call(x).sum().item(), 28 + 16);
  assert.equal(await new nn.ReflectionPad2d([1, 0, 0, 0]).call(x.squeeze(0)).sum().item(), 28 + 16);
  assert.equal(await new nn.ZeroPad3d(1).call(x).sum().item(), 28);
  assert.equal(await new nn.ReplicationPad1d(1).call(x.reshape([1, 1, 8])).sum().item(), 28 + 7);
  assert.equal(await new nn.CircularPad2d(1).call(x.squeeze(0)).sum().item(), 28 * 4);
  assert.equal(await new nn.ConstantPad1d(1, 0.5).call(x.reshape([1, 1, 8])).sum().item(), 29);
});

Deno.test("named layers: InstanceNorm1d to 3d have PyTorch's defaults and take one sample", async () => {
  const [x, image] = [row(12).reshape([1, 2, 6]), row(8).reshape([1, 2, 2, 2])];
  const line = [-1.46384764, -0.87830859, -0.29276955, 0.29276949, 0.87830853, 1.46384764];
  await near(new nn.InstanceNorm1d(2).call(x), [...line, ...line]);
  await near(new nn.InstanceNorm1d(2).call(x.squeeze(0)), [...line, ...line]);
  const four = [-1.3416354, -0.4472118, 0.4472118, 1.3416354];
  await near(new nn.InstanceNorm2d(2).call(image), [...four, ...four]);
  assert.deepEqual(Object.keys(state.getStateDict(new nn.InstanceNorm2d(2))), []);
  assert.deepEqual(Object.keys(state.getStateDict(new nn.InstanceNorm3d(2, { affine: true }))), ["weight", "bias"]);
  assert.equal(nn.InstanceNorm2d.name, "InstanceNorm2d");
  assert.throws(
    () => new nn.InstanceNorm2d(2).call(x.squeeze(0)),
    /ShapeError: Cannot normalize groups of shape \[2, 6\]: InstanceNorm2d takes 2 axes behind the channels/,
  );
});

Deno.test("named layers: comparisons of two and three tensors", async () => {
  const a = new Tensor([[1, 2, 3], [0, 1, 0]]).float(), b = new Tensor([[2, 1, 0], [0, 3, 4]]).float();
  const y = new Tensor([1, -1]).float();
  await near(new nn.CosineSimilarity().call(a, b), [0.47809142, 0.6]);
  await near(new nn.PairwiseDistance({ p: 1 }).call(a, b), [5.00000095, 5.99999905]);
  await near(new nn.CosineEmbeddingLoss({ margin: 0.1 }).call(a, b, y), [0.51095426]);
  await near(new nn.MarginRankingLoss({ margin: 0.5 }).call(a.at(":", 0), b.at(":", 1), y), [0.25]);
  await near(new nn.TripletMarginLoss({ margin: 2 }).call(a, b, a.add(1)), [4.16233110]);
  await near(new nn.GaussianNLLLoss().call(a, b, Tensor.full([2, 3], 2)), [1.63824034]);
  const logs = Tensor.arange(18).mod(5).float().reshape([3, 2, 3]).logSoftmax(-1);
  const loss = new nn.CTCLoss().call(logs, new Tensor([[1, 2], [2, 1]]), new Tensor([3, 3]), new Tensor([2, 1]));
  await near(loss, [1.28044475]);
});

Deno.test("named layers: windows", async () => {
  assert.deepEqual(await new nn.Unfold(2).call(square(3)).tolist(), [[[0, 1, 3, 4], [1, 2, 4, 5], [3, 4, 6, 7], [
    4,
    5,
    7,
    8,
  ]]]);
  const folded = await new nn.Fold([3, 3], 2).call(Tensor.ones([1, 4, 4])).tolist();
  assert.deepEqual(folded, [[[[1, 2, 1], [2, 4, 2], [1, 2, 1]]]]);
  assert.deepEqual(await new nn.LPPool1d(2, 2).call(new Tensor([[[3, 4, 0, 5]]]).float()).tolist(), [[[5, 5]]]);
  assert.deepEqual(await new nn.LPPool3d(1, 2).call(Tensor.ones([1, 1, 2, 2, 2])).tolist(), [[[[[8]]]]]);
  for (const [rank, Unpool] of [nn.MaxUnpool1d, nn.MaxUnpool2d, nn.MaxUnpool3d].entries()) {
    const x = Tensor.arange(4 ** (rank + 1)).float().reshape([1, 1, ...new Array<number>(rank + 1).fill(4)]);
    const kernel = new Array<number>(rank + 1).fill(2), [most, at] = x.maxPool2d(kernel, { returnIndices: true });
    const back = new Unpool(kernel).call(most, at);
    assert.deepEqual(await back.tolist(), await back.eq(x).where(x, 0).tolist());
    assert.equal(await back.sum().item(), await most.sum().item());
  }
  const drawn = new nn.FractionalMaxPool2d(2, { outputSize: 2 }).call(square(5));
  assert.deepEqual([
    drawn.shape,
    new nn.FractionalMaxPool3d(1, { outputSize: 2 }).call(Tensor.ones([1, 2, 2, 2])).shape,
  ], [
    [1, 1, 2, 2],
    [1, 2, 2, 2],
  ]);
});

Deno.test("named layers: all that are named for a method call the one that their type says", async () => {
  const text = await Deno.readTextFile(new URL("../../src/nn/layers/method_layers.ts", import.meta.url));
  const rows = [
    ...text.matchAll(/^export const (\w+): \w+Class<"(\w+)"> = [^(]*\(\s*"(\w+)",?\s*(?:"(\w+)",?\s*)?\)/gm),
  ];
  assert.equal(rows.length, text.match(/^export const \w+: \w+Class</gm)!.length);
  for (const [, name, typed, given, method] of rows) {
    assert.deepEqual([given, method ?? given[0].toLowerCase() + given.slice(1)], [name, typed]);
    assert.equal(typeof (Tensor.prototype as unknown as Record<string, unknown>)[typed], "function", typed);
  }
});

const LAZY: readonly [string, { call(x: Tensor): Tensor }, shape: number[], out: number[], weights: object][] = [
  ["Linear", new nn.LazyLinear(3), [2, 5], [2, 3], { weight: [3, 5], bias: [3] }],
  ["Linear", new nn.LazyLinear(3, { bias: false }), [7], [3], { weight: [3, 7] }],
  ["Conv1d", new nn.LazyConv1d(4, 3), [2, 6, 5], [2, 4, 3], { weight: [4, 6, 3], bias: [4] }],
  ["Conv2d", new nn.LazyConv2d(4, 3), [1, 6, 5, 5], [1, 4, 3, 3], { weight: [4, 6, 3, 3], bias: [4] }],
  ["Conv3d", new nn.LazyConv3d(4, 1), [1, 2, 1, 1, 1], [1, 4, 1, 1, 1], { weight: [4, 2, 1, 1, 1], bias: [4] }],
  ["ConvTranspose1d", new nn.LazyConvTranspose1d(4, 2), [1, 6, 3], [1, 4, 4], { weight: [6, 4, 2], bias: [4] }],
  ["ConvTranspose2d", new nn.LazyConvTranspose2d(1, 2), [1, 6, 1, 1], [1, 1, 2, 2], {
    weight: [6, 1, 2, 2],
    bias: [1],
  }],
  ["ConvTranspose3d", new nn.LazyConvTranspose3d(1, 1), [1, 2, 1, 1, 1], [1, 1, 1, 1, 1], {
    weight: [2, 1, 1, 1, 1],
    bias: [1],
  }],
  ...([nn.LazyBatchNorm1d, nn.LazyBatchNorm2d, nn.LazyBatchNorm3d].map((
    Norm,
    i,
  ): [string, { call(x: Tensor): Tensor }, number[], number[], object] => {
    const shape = [2, 6, ...new Array<number>(i + 1).fill(2)];
    return ["BatchNorm", new Norm(), shape, shape, {
      weight: [6],
      bias: [6],
      runningMean: [6],
      runningVar: [6],
      numBatchesTracked: [1],
    }];
  })),
  ...([nn.LazyInstanceNorm1d, nn.LazyInstanceNorm2d, nn.LazyInstanceNorm3d].map((
    Norm,
    i,
  ): [string, { call(x: Tensor): Tensor }, number[], number[], object] => {
    const shape = [2, 6, ...new Array<number>(i + 1).fill(2)];
    return [`InstanceNorm${i + 1}d`, new Norm({ affine: true }), shape, shape, { weight: [6], bias: [6] }];
  })),
];
for (const [name, layer, shape, out, weights] of LAZY) {
  const was = layer.constructor.name;
  Deno.test(`named layers: ${was} [${shape}] becomes ${name}`, () => {
    assert.throws(() => state.getParameters({ layer }), {
      name: "ArgumentError",
      message:
        `Cannot list the weights of ${was}: it has none before it is called with a first tensor; call the model ` +
        "once, and make the optimizer then",
    });
    assert.deepEqual(layer.call(Tensor.ones(shape)).shape, out);
    const found = Object.entries(state.getStateDict(layer)).map(([key, t]): [string, number[]] => [key, t.shape]);
    assert.deepEqual([layer.constructor.name, Object.fromEntries(found)], [name, weights]);
    assert.deepEqual(layer.call(Tensor.ones(shape)).shape, out); // with the same weights
  });
}

Deno.test("named layers: a lazy model trains as the one with sizes", async () => {
  const net = new nn.Sequential(new nn.LazyLinear(8), new nn.Tanh(), new nn.LazyLinear(1));
  const x = Tensor.linspace(-1, 1, 32).reshape([32, 1]), y = x.mul(2).add(1);
  net.call(x);
  const opt = new nn.optim.Adam(state.getParameters(net), { lr: 0.05 });
  const first = await net.call(x).mseLoss(y).item();
  for (let i = 0; i < 40; i++) {
    Tensor.train(() => {
      opt.zeroGrad();
      net.call(x).mseLoss(y).backward();
      opt.step();
    });
  }
  assert.ok(await net.call(x).mseLoss(y).item() < first / 10);
});

for (
  const [text, act] of [
    ["ArgumentError: Cannot make ZeroPad2d: padding must be a number or 4 numbers", () => new nn.ZeroPad2d([1, 2])],
    [
      "ArgumentError: Cannot make ConstantPad1d: value must be a number",
      () => new nn.ConstantPad1d(1, undefined as unknown as number),
    ],
    ["ArgumentError: Cannot make ReflectionPad1d: padding must be", () => new nn.ReflectionPad1d(1.5)],
    ["ArgumentError: Cannot make Linear: outFeatures must be", () => new nn.LazyLinear(0).call(Tensor.ones([2]))],
    ["ArgumentError: Cannot apply LazyLinear: x must be", () => new nn.LazyLinear(1).call(3 as unknown as Tensor)],
    [
      "ShapeError: Cannot convTranspose1d shapes [1, 1, 2] and [1, 1, 2, 2]: the weight has 1 axes behind the channels",
      () => row(2).convTranspose1d(square(2)),
    ],
    [
      "ArgumentError: Cannot maxUnpool3d with kernelSize [1]: it takes 3 integers",
      () => row(2).maxUnpool3d(row(2), [1]),
    ],
    ["ArgumentError: Cannot lpPool1d: normType must be", () => row(2).lpPool1d(0, 1)],
  ] as const
) {
  Deno.test(`named layers: ${text} is said`, () => {
    assert.throws(act, (e: Error) => String(e).startsWith(text) || assert.fail(String(e)));
  });
}

Deno.test("named layers: InstanceNorm with running statistics is PyTorch's", async () => {
  const layer = new nn.InstanceNorm2d(2, { affine: true, trackRunningStats: true, momentum: 0.3 });
  const x = Tensor.arange(24).mul(1.1).sin().reshape([2, 2, 2, 3]).realize();
  const y = Tensor.train(() => layer.call(x));
  await near(y.at(1, 1, 0), [1.1282747983932495, 1.2336227893829346, -0.05092426389455795]);
  await near(layer.runningMean!, [-0.0010712146759033203, 0.003436810802668333]);
  await near(layer.runningVar!, [0.871550440788269, 0.8723890781402588]);
  Tensor.train(() => layer.call(x.mul(2).add(1)));
  await near(layer.runningMean!, [0.2971077263355255, 0.3092793822288513]);
  await near(layer.runningVar!, [1.296286940574646, 1.3002285957336426]);
  await near(layer.call(x).at(0, 1, 0), [0.00198402744717896, 0.595370352268219, 0.2417280673980713]);
  assert.equal(await layer.numBatchesTracked!.item(), 0); // PyTorch's layer does not count
  assert.deepEqual(Object.keys(state.getStateDict(new nn.InstanceNorm(2))), ["weight", "bias"]);
  assert.deepEqual(Object.keys(state.getStateDict(new nn.InstanceNorm1d(2, { trackRunningStats: true }))), [
    "runningMean",
    "runningVar",
    "numBatchesTracked",
  ]);
  assert.throws(() => layer.call(Tensor.ones([1, 3, 2, 2])), /axis 1 must have 2 channels/);
  assert.throws(() => new nn.InstanceNorm(2, { trackRunningStats: 1 as never }), /trackRunningStats/);
});
