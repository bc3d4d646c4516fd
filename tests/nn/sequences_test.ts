/** Recurrent layers, attention, transformer blocks, convolutions of other ranks: against PyTorch. @module */
import assert from "node:assert/strict";
import { ArgumentError, DTypeError, nn, ShapeError, state, Tensor } from "../../mod.ts";
import { close, fill, golden, setAll } from "./support.ts";

type Made = { call(x: Tensor, ...rest: never[]): unknown };

/** sum(y * sin) differentiated to the inputs, as generate.py does. */
function backward(y: Tensor): void {
  y.mul(fill(y.shape, 0.9, 0.3)).sum().backward();
}

const SEQUENCES: readonly (readonly [string, () => nn.LSTM | nn.GRU | nn.RNN, number[], number[][]?])[] = [
  ["lstmSequence", () => new nn.LSTM(3, 2), [4, 2, 3]],
  ["lstmDeep", () => new nn.LSTM(3, 2, { numLayers: 2, bidirectional: true, batchFirst: true }), [2, 4, 3], [
    [4, 2, 2],
    [4, 2, 2],
  ]],
  ["gruSequence", () => new nn.GRU(3, 2, { bias: false }), [4, 2, 3], [[1, 2, 2]]],
  ["gruDeep", () => new nn.GRU(3, 2, { numLayers: 2, bidirectional: true }), [4, 2, 3]],
  ["gruFlat", () => new nn.GRU(3, 2), [4, 3]],
  ["rnnSequence", () => new nn.RNN(3, 2, { nonlinearity: "relu", numLayers: 2 }), [3, 2, 3]],
];

for (const [name, make, shape, states] of SEQUENCES) {
  Deno.test(`nn: ${name} agrees with PyTorch`, async () => {
    const layer = make(), want = golden[name];
    setAll(layer);
    const x = fill(shape, 0.53, 0.1), given = states?.map((s) => fill(s, 0.31, 0.5));
    x.requiresGrad = true;
    const state = layer instanceof nn.LSTM ? given : given?.[0];
    const [y, last] = (layer.call as (x: Tensor, s?: unknown) => [Tensor, Tensor | Tensor[]]).call(layer, x, state);
    backward(y);
    await close(y, want.y);
    const parts = Array.isArray(last) ? last : [last];
    for (const [i, part] of parts.entries()) await close(part, want[`h${i}`]);
    await close(x.grad, want.gx);
    await close(layer.weightsOf(0).weightIh.grad, want.gw);
  });
}

Deno.test("nn: GRUCell and RNNCell agree with PyTorch over two steps", async () => {
  for (const [name, cell] of [["gruCell", new nn.GRUCell(3, 2)], ["rnnCell", new nn.RNNCell(3, 2)]] as const) {
    setAll(cell);
    await close(cell.call(fill([2, 3], 0.41, 0.7), cell.call(fill([2, 3], 0.53, 0.1))), golden[name].h);
  }
});

Deno.test("nn: recurrent weights have PyTorch's names", () => {
  const names = Object.keys(state.getStateDict(new nn.LSTM(3, 2, { bidirectional: true })));
  assert.deepEqual(names, [
    "weightIhL0",
    "weightHhL0",
    "biasIhL0",
    "biasHhL0",
    "weightIhL0Reverse",
    "weightHhL0Reverse",
    "biasIhL0Reverse",
    "biasHhL0Reverse",
  ]);
  const gru = new nn.GRU(3, 2, { bias: false });
  const dict = { weight_ih_l0: Tensor.ones([6, 3]), weight_hh_l0: Tensor.ones([6, 2]) };
  assert.equal(state.loadStateDict(gru, dict).length, 2);
});

const padding = new Tensor([[false, false, true], [false, false, false]]);
const future = Tensor.ones([3, 3], { dtype: "bool" }).triu(1);
const HEADS: readonly (readonly [string, () => nn.MultiHeadAttention, number[][], nn.AttentionCallOptions])[] = [
  ["mhaSelf", () => new nn.MultiHeadAttention(4, 2), [[3, 2, 4]], { needWeights: true }],
  ["mhaSelf", () => new nn.MultiHeadAttention(4, 2), [[3, 2, 4]], {}],
  ["mhaCross", () => new nn.MultiHeadAttention(4, 2, { kdim: 3, vdim: 5, batchFirst: true }), [
    [2, 3, 4],
    [2, 5, 3],
    [2, 5, 5],
  ], { needWeights: true }],
  ["mhaMasked", () => new nn.MultiHeadAttention(4, 2, { batchFirst: true }), [[2, 3, 4]], {
    attnMask: future,
    keyPaddingMask: padding,
    needWeights: true,
    averageAttnWeights: false,
  }],
  ["mhaMasked", () => new nn.MultiHeadAttention(4, 2, { batchFirst: true }), [[2, 3, 4]], {
    isCausal: true,
    keyPaddingMask: padding,
  }],
  ["mhaFloat", () => new nn.MultiHeadAttention(4, 1, { bias: false }), [[3, 4]], { attnMask: fill([3, 3], 0.7, 0.2) }],
  ["mhaCausal", () => new nn.MultiHeadAttention(4, 2, { batchFirst: true }), [[2, 3, 4]], { isCausal: true }],
  ["mhaCausal", () => new nn.MultiHeadAttention(4, 2, { batchFirst: true }), [[2, 3, 4]], { attnMask: future }],
];
for (const [i, [name, make, shapes, options]] of HEADS.entries()) {
  Deno.test(`nn: ${name} (${i}) agrees with PyTorch`, async () => {
    const layer = make(), want = golden[name];
    setAll(layer);
    const xs = shapes.map((s, i) => fill(s, 0.53, 0.1 * i));
    xs[0].requiresGrad = true;
    const [y, weights] = layer.call(xs[0], xs[1], xs[2], options);
    backward(y);
    await close(y, want.y);
    await close(xs[0].grad, want.gx);
    if (options.needWeights) await close(weights, want.w);
    else assert.equal(weights, undefined);
  });
}

const small = { dimFeedforward: 6, dropout: 0 };
const stacks = { ...small, batchFirst: true };
const BLOCKS: readonly (readonly [string, () => Made, number[][], unknown[]])[] = [
  ["encoderLast", () => new nn.TransformerEncoderLayer(4, 2, { ...small, batchFirst: true }), [[2, 3, 4]], [
    { keyPaddingMask: padding },
  ]],
  [
    "encoderFirst",
    () => new nn.TransformerEncoderLayer(4, 2, { ...small, normFirst: true, activation: "gelu" }),
    [[3, 2, 4]],
    [],
  ],
  ["decoderLast", () => new nn.TransformerDecoderLayer(4, 2, small), [[3, 2, 4], [5, 2, 4]], [{ isCausal: true }]],
  [
    "decoderFirst",
    () => new nn.TransformerDecoderLayer(4, 2, { ...small, normFirst: true, batchFirst: true, bias: false }),
    [[2, 3, 4], [2, 5, 4]],
    [],
  ],
  [
    "encoderStack",
    () => new nn.TransformerEncoder(new nn.TransformerEncoderLayer(4, 2, stacks), 2, new nn.LayerNorm(4)),
    [[2, 3, 4]],
    [{ attnMask: future }],
  ],
  [
    "decoderStack",
    () => new nn.TransformerDecoder(new nn.TransformerDecoderLayer(4, 2, stacks), 2),
    [[2, 3, 4], [2, 5, 4]],
    [{ attnMask: nn.Transformer.generateSquareSubsequentMask(3) }],
  ],
  [
    "transformer",
    () => new nn.Transformer(4, 2, { ...stacks, numEncoderLayers: 2, numDecoderLayers: 1, normFirst: true }),
    [[2, 3, 4], [2, 3, 4]],
    [{ src: { keyPaddingMask: padding }, tgt: { isCausal: true }, memory: { keyPaddingMask: padding } }],
  ],
  ["bilinear", () => new nn.Bilinear(4, 3, 2), [[2, 5, 4], [2, 5, 3]], []],
  ["bilinearFlat", () => new nn.Bilinear(4, 3, 2, { bias: false }), [[4], [3]], []],
];
for (const [name, make, shapes, rest] of BLOCKS) {
  Deno.test(`nn: ${name} agrees with PyTorch`, async () => {
    const layer = make(), want = golden[name];
    setAll(layer);
    const xs = shapes.map((s, i) => fill(s, 0.53, 0.1 * i));
    xs[0].requiresGrad = true;
    const y = (layer.call as (...args: unknown[]) => Tensor).call(layer, ...xs, ...rest);
    backward(y);
    await close(y, want.y, 5e-5);
    await close(xs[0].grad, want.gx, 5e-5);
  });
}

Deno.test("nn: blocks of an encoder begin as the one given, each with weights of its own", async () => {
  const block = new nn.TransformerEncoderLayer(4, 2, { ...stacks, activation: "gelu" });
  const encoder = new nn.TransformerEncoder(block, 2);
  const [first, second] = encoder.layers.map((layer) => layer.linear1.weight);
  assert.deepEqual(await first.tolist(), await block.linear1.weight.tolist());
  assert.deepEqual(await second.tolist(), await first.tolist());
  first.assign(Tensor.zeros([6, 4])).realize();
  assert.notDeepEqual(await second.tolist(), await first.tolist());
  assert.equal(state.getParameters(encoder).length, 2 * state.getParameters(block).length);
  assert.ok(state.getParameters(encoder).every((t) => t.requiresGrad));
});

Deno.test("nn: a transformer is drawn as Xavier's, within its bound", async () => {
  const net = new nn.Transformer(8, 2, { ...small, numEncoderLayers: 1, numDecoderLayers: 1 });
  for (const [name, t] of Object.entries(state.getStateDict(net))) {
    if (t.ndim < 2) continue;
    const bound = Math.sqrt(6 / (t.shape[0] + t.shape[1])), largest = await t.abs().max().item();
    assert.ok(largest <= bound && largest > bound * 0.8, `${name}: ${largest} of ${bound}`);
    assert.equal(t.requiresGrad, true);
  }
});

const STACKS: readonly (readonly [string, () => unknown, typeof ArgumentError | typeof ShapeError])[] = [
  ["a layer of another class", () => new nn.TransformerEncoder(new nn.Linear(2, 2) as never, 2), ArgumentError],
  ["no layers", () => new nn.TransformerDecoder(new nn.TransformerDecoderLayer(4, 2), 0), ArgumentError],
  ["a norm that is none", () => {
    return new nn.TransformerEncoder(new nn.TransformerEncoderLayer(4, 2), 1, 3 as never);
  }, ArgumentError],
  ["an unknown option", () => new nn.Transformer(4, 2, { layers: 3 } as never), ArgumentError],
  ["features of another size", () => new nn.Bilinear(4, 3, 2).call(fill([2, 4], 1, 0), fill([2, 4], 1, 0)), ShapeError],
  ["other batches", () => new nn.Bilinear(4, 3, 2).call(fill([2, 4], 1, 0), fill([3, 3], 1, 0)), ShapeError],
];
for (const [name, make, error] of STACKS) {
  Deno.test(`nn: ${name} is refused`, () => {
    assert.throws(make, error);
  });
}

const CONVOLUTIONS: readonly (readonly [string, () => { weight: Tensor; call(x: Tensor): Tensor }, number[]])[] = [
  ["conv3d", () => new nn.Conv3d(1, 2, 2, { padding: 1, stride: [1, 2, 1] }), [1, 1, 2, 3, 2]],
  ["convSame", () => new nn.Conv1d(2, 2, 4, { padding: "same", dilation: 2, groups: 2 }), [1, 2, 7]],
  ["convT1d", () => new nn.ConvTranspose1d(4, 2, 3, { stride: 2, outputPadding: 1, groups: 2 }), [1, 4, 3]],
  ["convT3d", () => new nn.ConvTranspose3d(1, 2, 2, { stride: [2, 1, 1], outputPadding: [1, 0, 0] }), [1, 1, 2, 2, 2]],
];
for (const [name, make, shape] of CONVOLUTIONS) {
  Deno.test(`nn: ${name} agrees with PyTorch`, async () => {
    const layer = make(), want = golden[name];
    setAll(layer);
    const x = fill(shape, 0.53, 0.1);
    x.requiresGrad = true;
    const y = layer.call(x);
    backward(y);
    await close(y, want.y);
    await close(x.grad, want.gx);
    await close(layer.weight.grad, want.gw);
  });
}

Deno.test("nn: dropout works inside layers, in training only", async () => {
  const lstm = new nn.LSTM(2, 64, { numLayers: 2, dropout: 1 }),
    attention = new nn.MultiHeadAttention(4, 2, { dropout: 1 });
  const x = fill([2, 1, 2], 0.5, 0), q = fill([2, 1, 4], 0.5, 0);
  const [plain] = lstm.call(x);
  assert.notDeepEqual(await Tensor.train(() => lstm.call(x)[0]).tolist(), await plain.tolist());
  await close(Tensor.train(() => attention.call(q)[0]), [0, 0, 0, 0, 0, 0, 0, 0]);
});

const x = Tensor.zeros([2, 3, 4]);
const BAD: readonly (readonly [string, () => unknown, new (...a: never[]) => Error, RegExp])[] = [
  [
    "LSTM options",
    () => new nn.LSTM(2, 3, { layers: 2 } as object),
    ArgumentError,
    /make LSTM: unknown option "layers"/,
  ],
  ["LSTM layers", () => new nn.LSTM(2, 3, { numLayers: 0 }), ArgumentError, /numLayers must be .* at least 1, not 0$/],
  ["GRU dropout", () => new nn.GRU(2, 3, { dropout: 2 }), ArgumentError, /dropout is 2, outside \[0, 1\]$/],
  [
    "RNN nonlinearity",
    () => new nn.RNN(2, 3, { nonlinearity: "gelu" as "relu" }),
    ArgumentError,
    /unknown nonlinearity "gelu"; known are tanh, relu$/,
  ],
  ["LSTM input", () => new nn.LSTM(2, 3).call(x), ShapeError, /\[2, 3, 4\]: it takes \[L, N, 2\], or \[L, 2\]$/],
  ["LSTM of no steps", () => new nn.LSTM(4, 3).call(Tensor.zeros([0, 1, 4])), ShapeError, /it has no steps$/],
  ["GRU state", () => new nn.GRU(4, 3).call(x, x), ShapeError, /its state must have shape \[1, 3, 3\]$/],
  ["cell input", () => new nn.LSTMCell(4, 3).call(x), ShapeError, /it takes \[N, 4\] or \[4\]$/],
  ["heads", () => new nn.MultiHeadAttention(4, 3), ArgumentError, /4 features do not divide into 3 heads$/],
  ["attention dropout", () => new nn.MultiHeadAttention(4, 2, { dropout: -1 }), ArgumentError, /dropout is -1/],
  ["ranks", () => new nn.MultiHeadAttention(4, 2).call(x, x.at(0)), ShapeError, /each needs three axes, or each two$/],
  [
    "mask shape",
    () => new nn.MultiHeadAttention(4, 2).call(x, x, x, { attnMask: Tensor.ones([3, 3]) }),
    ShapeError,
    /attnMask must have shape \[2, 2\]$/,
  ],
  [
    "mask dtype",
    () => new nn.MultiHeadAttention(4, 2).call(x, x, x, { attnMask: Tensor.ones([2, 2], { dtype: "int32" }) }),
    DTypeError,
    /int32: attnMask is bool, or a float that is added$/,
  ],
  [
    "padding shape",
    () => new nn.MultiHeadAttention(4, 2).call(x, x, x, { keyPaddingMask: padding }),
    ShapeError,
    /keyPaddingMask must have shape \[3, 2\]$/,
  ],
  ["activation", () => new nn.TransformerEncoderLayer(4, 2, { activation: "tanh" as "relu" }), ArgumentError, /"tanh"/],
  [
    "transposed same",
    () => new nn.ConvTranspose2d(1, 1, 3, { padding: "same" as unknown as number }),
    ArgumentError,
    /not a size$/,
  ],
];
for (const [name, fn, kind, text] of BAD) {
  Deno.test(`nn: bad argument: ${name}`, () => {
    assert.throws(fn, (e: unknown) => e instanceof kind && text.test((e as Error).message));
  });
}
