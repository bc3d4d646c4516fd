/**
 * Programs that people write to bring a model in or to take one out: a pipeline of scikit-learn, training that goes on in
 * C, a module under a host of its own, a binary without files beside it, a program for a shell, layers with packed weights,
 * round trips through ONNX, files with odd contents. Values are known by hand, or from PyTorch and NumPy.
 */
import assert from "node:assert/strict";
import { Device, nn, state, Tensor } from "../../mod.ts";
import { exportModel, exportModels } from "../../src/export/export.ts";
import * as onnx from "../../src/onnx/onnx.ts";
import { loadLayersModel } from "../../src/tfjs/tfjs.ts";
import { compilersHere, run } from "../export/build.ts";
import { buildModel } from "../onnx/build_model.ts";

Device.default = "WASM";
Tensor.zeros([1]).realize(); // opened before the tests
const folder = Deno.makeTempDirSync({ prefix: "dinograd-models-" });
globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));
const [compiler] = compilersHere().filter((c) => !c.isCpp);

function near(got: ArrayLike<number | bigint>, want: ArrayLike<number | bigint>, by = 1e-5, what = ""): void {
  assert.equal(got.length, want.length, what);
  for (let i = 0; i < got.length; i++) {
    const a = Number(got[i]), b = Number(want[i]);
    assert.ok(Math.abs(a - b) <= by || Number.isNaN(a) && Number.isNaN(b), `${what} ${i}: ${a} is not ${b}`);
  }
}
/** A layer of known numbers. */
function layer(inputs: number, outputs: number): nn.Linear {
  const made = new nn.Linear(inputs, outputs);
  const wave = (n: number) => Tensor.arange(n).mul(0.7).sin();
  made.weight.assign(wave(inputs * outputs).reshape([outputs, inputs])).realize();
  made.bias!.assign(wave(outputs).neg()).realize();
  return made;
}
const one = new Tensor([[1, 2, 3]], { dtype: "float32" }).realize();

Deno.test("models: a pipeline of scikit-learn gives labels, and scores by class", async () => {
  const model = await onnx.load(
    buildModel({
      nodes: [
        ["Scaler", ["x"], ["s"], { offset: { floats: [1, 0] }, scale: { floats: [1, 0.5] } }, "scale", "ai.onnx.ml"],
        [
          "LinearClassifier",
          ["s"],
          ["label", "p"],
          {
            coefficients: { floats: [1, 0, -1, 0] },
            intercepts: { floats: [0, 0] },
            classlabels_ints: { ints: [3, 7] },
            post_transform: { text: "SOFTMAX" },
          },
          "classify",
          "ai.onnx.ml",
        ],
        ["ZipMap", ["p"], ["scores"], { classlabels_int64s: { ints: [3, 7] } }, "zip", "ai.onnx.ml"],
      ],
      inputs: { x: [1, ["n", 2]] },
      outputs: { label: [7, ["n"]], scores: "maps" },
      domain: "ai.onnx.ml",
    }),
  );
  const { label, scores } = model.call([[2, 4], [0, 1]]), p = 1 / (1 + Math.exp(-2));
  assert.deepEqual(await (label as Tensor).tolist(), [3, 7]);
  const rows = scores as Record<string, number>[];
  assert.deepEqual(rows.map((r) => Object.keys(r)), [["3", "7"], ["3", "7"]]);
  near(rows.flatMap((r) => Object.values(r)), [p, 1 - p, 1 - p, p], 1e-6);
  const wrong = await onnx.load(
    buildModel({
      nodes: [["ZipMap", ["x"], ["scores"], { classlabels_int64s: { ints: [3, 7] } }, "zip", "ai.onnx.ml"]],
      inputs: { x: [1, ["n", 3]] },
      outputs: { scores: "maps" },
      domain: "ai.onnx.ml",
    }),
  );
  assert.throws(() => wrong.call([[1, 2, 3]]), /ZipMap "zip": its 2 classes do not fit scores of shape \[1, 3\]/);
});

Deno.test("models: training goes on in C as it would by hand", async () => {
  if (compiler === undefined) return;
  const net = new nn.Linear(2, 1);
  Tensor.realize([net.weight.assign(Tensor.zeros([1, 2])), net.bias!.assign(Tensor.zeros([1]))]);
  const opt = new nn.optim.SGD(state.getParameters(net), { lr: 0.5, momentum: 0.9 });
  const learn = (x: Tensor, y: Tensor) =>
    Tensor.train(() => {
      opt.zeroGrad();
      const loss = net.call(x).sigmoid().sub(y).square().mean().backward();
      opt.step();
      return loss;
    });
  const rows = [[0, 1], [1, 0], [1, 1], [0, 0]], answers = [1, 0, 1, 0];
  const x = new Tensor(rows, { dtype: "float32" }).realize();
  const y = new Tensor(answers.map((a) => [a]), { dtype: "float32" }).realize();
  const made = await exportModels({ learn: [learn, [x, y]], scores: [(x: Tensor) => net.call(x).sigmoid(), [x]] }, {
    weights: { net, opt },
    name: "train",
    style: "plain",
  });
  const at = `${folder}/train`;
  await made.write(at);
  await Deno.writeTextFile(
    `${at}/main.c`,
    `#include "train.h"
#include <stdio.h>
static train_context c;
int main(void) {
  static const float x[8] = {0, 1, 1, 0, 1, 1, 0, 0}, y[4] = {1, 0, 1, 0};
  float loss[1], s[4];
  train_init(&c, train_weights());
  for (int i = 0; i < 20; i++) { train_learn(&c, x, y, loss); printf("%.8g ", (double)loss[0]); }
  train_scores(&c, x, s);
  for (int i = 0; i < 4; i++) printf("%.8g ", (double)s[i]);
  return 0;
}
`,
  );
  const strict = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-DTRAIN_EMBED"];
  await run(compiler.path, [...strict, "main.c", "train.c", "-o", "main", "-lm"], at);
  const printed = (await run(`${at}/main`, [], "/")).trim().split(" ").map(Number);
  // by hand, in doubles; the capture called the step twice
  let w = [0, 0, 0], v = [0, 0, 0];
  const losses: number[] = [], score = (r: number[]) => 1 / (1 + Math.exp(-(r[0] * w[0] + r[1] * w[1] + w[2])));
  for (let k = 0; k < 22; k++) {
    const g = [0, 0, 0];
    let loss = 0;
    rows.forEach((r, i) => {
      const s = score(r), d = (s - answers[i]) / 2 * s * (1 - s);
      loss += (s - answers[i]) ** 2 / 4;
      [r[0], r[1], 1].forEach((x, j) => g[j] += d * x);
    });
    losses.push(loss);
    v = v.map((x, j) => 0.9 * x + g[j]);
    w = w.map((x, j) => x - 0.5 * v[j]);
  }
  near(printed, [...losses.slice(2), ...rows.map(score)], 2e-6);
});

Deno.test("models: a host without our loader calls a module by what it exports", async () => {
  const net = layer(3, 2),
    made = await exportModel((x: Tensor) => net.call(x).relu(), [one], {
      target: "wasm",
      name: "net",
      weights: net,
    });
  const bytes = (name: string) => made.files.get(name) as Uint8Array<ArrayBuffer>;
  const { instance } = await WebAssembly.instantiate(bytes("net.wasm"), {});
  const e = instance.exports as Record<string, WebAssembly.Global & (() => void)>;
  const { buffer } = instance.exports.memory as WebAssembly.Memory;
  new Uint8Array(buffer, e.weights.value).set(bytes("net.bin"));
  e.init();
  new Float32Array(buffer, e.x.value, 3).set([1, 2, 3]);
  e.run();
  const w = (i: number) => Math.sin(0.7 * i);
  const want = [0, 1].map((o) => Math.max(0, w(3 * o) + 2 * w(3 * o + 1) + 3 * w(3 * o + 2) - w(o)));
  near(new Float32Array(buffer, e.y.value, 2), want);
});

Deno.test("models: lists of lists are what the types of a module's loader take", async () => {
  const net = layer(3, 2), made = await exportModel(net, [one], { target: "wasm", name: "typed", weights: net });
  await made.write(`${folder}/typed`);
  await Deno.writeTextFile(
    `${folder}/typed/use.ts`,
    `import { load } from "./typed.js";
const files = ["typed.wasm", "typed.bin"].map((f) => Deno.readFileSync(import.meta.dirname + "/" + f));
const net = await load(files[0], files[1]);
const rows: number[][] = [[1, 2, 3]];
const y: Float32Array = net.run(rows);
console.log(Array.from(y).join(" "), Array.from(net.run(Float32Array.of(1, 2, 3))).join(" "));
`,
  );
  const printed = await run(
    Deno.execPath(),
    ["run", "--check", "--no-config", "--allow-read", "use.ts"],
    `${folder}/typed`,
  );
  const want = Array.from(await net.call(one).data());
  near(printed.trim().split(" ").map(Number), [...want, ...want]);
});

Deno.test("models: a binary holds its weights, and runs where nothing else is", async () => {
  if (compiler === undefined) return;
  const net = layer(3, 2),
    made = await exportModel((x: Tensor) => net.call(x).tanh(), [one], { name: "net", weights: net });
  const at = `${folder}/binary`;
  await made.write(at);
  await Deno.writeTextFile(
    `${at}/main.c`,
    `#include "net.h"
#include <stdio.h>
int main(void) {
  static net_context c;
  float x[3], y[2];
  if (scanf("%f %f %f", x, x + 1, x + 2) != 3) return 1;
  net_init(&c, net_weights());
  net_run(&c, x, y);
  printf("%.8g %.8g", (double)y[0], (double)y[1]);
  return 0;
}
`,
  );
  await run(compiler.path, ["-O2", "-DNET_EMBED", "main.c", "net.c", "-o", "app", "-lm"], at);
  const alone = `${folder}/alone`;
  await Deno.mkdir(alone);
  await Deno.rename(`${at}/app`, `${alone}/app`);
  await Deno.remove(at, { recursive: true });
  const child = new Deno.Command(`${alone}/app`, { cwd: alone, stdin: "piped", stdout: "piped" }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode("1 2 3\n"));
  await writer.close();
  const { success, stdout } = await child.output();
  assert.ok(success);
  near(new TextDecoder().decode(stdout).split(" ").map(Number), await net.call(one).tanh().data());
});

Deno.test("models: a program for a shell takes rows as they are written down, and gives all that it computes", async () => {
  const net = layer(3, 2);
  const f = (x: Tensor) => ({ scores: net.call(x).softmax(), best: net.call(x).argmax(-1) });
  const made = await exportModel(f, [one], { name: "net", weights: net, target: "deno" });
  await made.write(`${folder}/shell`);
  const main = `${folder}/shell/main.ts`, scores = await net.call(one).softmax().data();
  for (const given of ["[[1, 2, 3]]", "[1, 2, 3]", '{"inputs": {"x": [[1], [2], [3]]}}']) {
    const read = JSON.parse(await run(Deno.execPath(), ["run", "--no-config", "--allow-read", main, given], "/"));
    near(read.scores, scores);
    assert.deepEqual(read.best, [scores[0] > scores[1] ? 0 : 1]);
  }
});

Deno.test("models: layers of TensorFlow.js with weights packed into bytes", async () => {
  const layers = [
    {
      class_name: "Conv2D",
      config: { name: "c", filters: 1, kernel_size: [2, 2], activation: "relu", batch_input_shape: [null, 3, 3, 1] },
    },
    { class_name: "BatchNormalization", config: { name: "b", axis: -1, epsilon: 0.001 } },
    { class_name: "Flatten", config: { name: "f" } },
    { class_name: "Dense", config: { name: "d", units: 2, activation: "softmax" } },
  ];
  const lists: [string, number[], number[]][] = [
    ["c/kernel", [2, 2, 1, 1], [1, 0, 0, -1]],
    ["c/bias", [1], [0.5]],
    ["b/gamma", [1], [2]],
    ["b/beta", [1], [1]],
    ["b/moving_mean", [1], [0.25]],
    ["b/moving_variance", [1], [4]],
    ["d/kernel", [4, 2], [1, 0, 0, 1, 1, 1, -1, 0]],
    ["d/bias", [2], [0, 0.5]],
  ];
  const bytes: number[] = [], read = new Map<string, number[]>();
  const weights = lists.map(([name, shape, v]) => {
    const min = Math.min(...v), scale = (Math.max(...v) - min) / 255 || 1;
    const packed = v.map((x) => Math.round((x - min) / scale));
    bytes.push(...packed);
    read.set(name, packed.map((q) => q * scale + min));
    return { name, shape, dtype: "float32", quantization: { dtype: "uint8", min, scale } };
  });
  const model = await loadLayersModel({
    model: {
      modelTopology: { class_name: "Sequential", config: { name: "s", layers } },
      weightsManifest: [{ paths: ["w.bin"], weights }],
    },
    files: { "w.bin": Uint8Array.from(bytes) },
  });
  const picture = [[1, 2, 3], [4, 5, 6], [7, 8, 0]];
  const [y] = model.call(new Tensor(picture, { dtype: "float32" }).reshape([1, 3, 3, 1]));
  const k = read.get("c/kernel")!, d = read.get("d/kernel")!, bias = read.get("d/bias")!, flat: number[] = [];
  for (let i = 0; i < 2; i++) {
    for (let j = 0; j < 2; j++) {
      let sum = read.get("c/bias")![0];
      k.forEach((w, n) => sum += w * picture[i + (n >> 1)][j + (n & 1)]);
      flat.push((Math.max(0, sum) - 0.25) / Math.sqrt(4.001) * 2 + 1);
    }
  }
  const logits = [0, 1].map((o) => flat.reduce((sum, v, i) => sum + v * d[2 * i + o], bias[o])).map(Math.exp);
  near(await y.data() as Float32Array, logits.map((e) => e / (logits[0] + logits[1])), 1e-5);
});

/** Functions and layers, there and back through ONNX. */
const x = Tensor.arange(40).mul(1.3).sin().reshape([2, 5, 4]).realize();
const picture = Tensor.arange(256).mul(0.9).cos().reshape([1, 4, 8, 8]).realize();
const norm = new nn.BatchNorm(4), heads = new nn.MultiheadAttention(4, 2, { batchFirst: true });
const lstm = new nn.LSTM(4, 3, { batchFirst: true }), gru = new nn.GRU(4, 3, { batchFirst: true });
const deconv = new nn.ConvTranspose2d(4, 3, 3, { stride: 2, padding: 1 }), table = new nn.Embedding(10, 4);
const groups = new nn.GroupNorm(2, 4), instances = new nn.InstanceNorm(4);
const ROUND: Readonly<Record<string, readonly [(...args: Tensor[]) => Tensor | Tensor[], ...Tensor[]]>> = {
  LSTM: [(x) => lstm.call(x)[0], x],
  GRU: [(x) => gru.call(x)[0], x],
  attention: [(x) => heads.call(x, x, x)[0], x],
  "a transposed convolution": [(x) => deconv.call(x), picture],
  "batch statistics": [(x) => norm.call(x), picture],
  "groups and instances": [(x) => [groups.call(x), instances.call(x)], picture],
  "an embedding": [(i) => table.call(i), new Tensor([[1, 2], [3, 0]])],
  sizes: [(x) => [
    x.interpolate([16, 12], { mode: "nearest" }),
    x.interpolate([12, 16], { mode: "bilinear" }),
  ], picture],
  pads: [
    (x) =>
      (["reflect", "replicate", "circular", "constant"] as const).map((mode) =>
        x.pad([[0, 0], [0, 0], [1, 2], [2, 1]], { mode })
      ),
    picture,
  ],
  einsum: [(x) => Tensor.einsum("bij,bkj->bik", x, x), x],
  "running sums": [(x) => [x.cumsum(1), x.roll(1, 1), x.flip([0]), x.repeat([1, 2, 1])], x],
  triangles: [(x) => [x.triu(), x.tril(1)], x],
  "whole numbers": [
    (a, b) => [a.div(b, { roundingMode: "trunc" }), a.mod(b), a.bitwiseAnd(b), a.lshift(1), a.neg()],
    new Tensor([7, -7, 8]),
    new Tensor([2, 2, 3]),
  ],
  truths: [(x) => [x.gt(0), x.isnan(), x.gt(0).logicalAnd(x.lt(1)), x.gt(0).any(), x.gt(0).all(1)], x],
  casts: [(x) => [x.cast("int32"), x.half(), x.cast("bool"), x.cast("int64"), x.abs().cast("uint8")], x.mul(3)],
  pools: [(x) => [x.maxPool2d(2), x.avgPool2d(3, { stride: 2, padding: 1 })], picture],
  activations: [(x) => [x.gelu(), x.silu(), x.mish(), x.softplus(), x.hardswish(), x.leakyRelu(0.1), x.erf()], x],
  places: [
    (x, i) => [x.gather(1, i), x.scatter(1, i, x.gather(1, i).mul(2)), i.oneHot(4)],
    x,
    new Tensor([[[0, 1, 2, 3]], [[3, 2, 1, 0]]]),
  ],
  views: [(x) => [x.unfold(1, 2, 1), x.chunk(2, 1)[1], x.stack([x], 0), x.cat([x], -1), x.unsqueeze(0)], x],
  norms: [(x) => [x.norm(), x.std(-1), x.logsumexp(-1), x.logSoftmax(-1), x.argmax(-1), x.maskedFill(x.gt(0), -1)], x],
};
for (const [name, [f, ...args]] of Object.entries(ROUND)) {
  Deno.test(`models: there and back through ONNX: ${name}`, async () => {
    for (const a of args) a.realize();
    const bytes = await onnx.toBytes((...args: Tensor[]) => f(...args), args);
    const want = [f(...args)].flat(), got = [...(await onnx.load(bytes)).call(...args)] as Tensor[];
    assert.equal(got.length, want.length);
    for (const [i, w] of want.entries()) {
      assert.deepEqual([got[i].dtype.name, got[i].shape], [w.dtype.name, w.shape]);
      near(await got[i].data() as Float32Array, await w.data() as Float32Array, 1e-5, `output ${i}`);
    }
  });
}

Deno.test("models: a safetensors file of odd contents is what its bytes say", async () => {
  const parts: [string, string, number[], number[]][] = [
    ["größe/β", "BF16", [2], [0x80, 0x3f, 0x20, 0xc1]], // 1, -10
    ["half", "F16", [1, 2], [0x00, 0x3e, 0x00, 0x7c]], // 1.5, Infinity
    ["fp8", "F8_E4M3", [2], [0x38, 0xb8]], // 1, -1
    ["e5m2", "F8_E5M2", [1], [0x3c]], // 1
    ["flag", "BOOL", [3], [1, 0, 1]],
    ["u64", "U64", [1], [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]],
    ["scalar", "I16", [], [0xfe, 0xff]], // -2
    ["empty", "F32", [0, 3], []],
    ["constructor", "U8", [1], [7]],
  ];
  let at = 0;
  const header: Record<string, unknown> = { __metadata__: { format: "pt", "a b": "ä" } }, data: number[] = [];
  for (const [name, dtype, shape, bytes] of parts) {
    header[name] = { dtype, shape, data_offsets: [at, at += bytes.length] };
    data.push(...bytes);
  }
  const text = new TextEncoder().encode(JSON.stringify(header)),
    head = new Uint8Array(Math.ceil(text.length / 8) * 8 + 8);
  head.fill(0x20).set(text);
  const file = new Uint8Array([...new Uint8Array(BigUint64Array.of(BigInt(head.length)).buffer), ...head, ...data]);
  const read = state.safeParse(file),
    want: Record<string, unknown> = {
      "größe/β": [1, -10],
      half: [[1.5, Infinity]],
      fp8: [1, -1],
      e5m2: [1],
      flag: [true, false, true],
      u64: [2n ** 64n - 1n],
      scalar: -2,
      empty: [],
      constructor: [7],
    };
  assert.deepEqual(Object.keys(read).sort(), Object.keys(want).sort());
  for (const [name, values] of Object.entries(want)) assert.deepEqual(await read[name].tolist(), values, name);
  assert.deepEqual(read.empty.shape, [0, 3]);
});

Deno.test("models: a checkpoint of PyTorch becomes an ONNX model, and that a module", async () => {
  const saved = await state.torchLoad<{ model: state.StateDict }>(
    new URL("../state/fixtures/checkpoint.pt", import.meta.url),
  );
  const net = new nn.Linear(2, 1);
  state.loadStateDict(net, saved.model);
  const [w, b] = [await net.weight.data(), await net.bias!.data()], rows = [[1, 2], [-3, 0.5]];
  const want = rows.map(([p, q]) => p * w[0] + q * w[1] + b[0]);
  const given = new Tensor(rows).realize(), model = await onnx.load(await onnx.toBytes(net, [given]));
  near(await (model.call(given).y as Tensor).data() as Float32Array, want);
  const made = await exportModel((x: Tensor) => model.call(x).y as Tensor, [given], {
    target: "wasm",
    name: "point",
    weights: model,
  });
  await made.write(`${folder}/point`);
  const { run: call } = await (await import(`file://${folder}/point/point.js`)).load(
    made.files.get("point.wasm"),
    made.files.get("point.bin"),
  );
  near(call(rows), want);
});

Deno.test("models: one page holds all of a model, asks for nothing, and names its fields", async () => {
  const net = layer(3, 2),
    made = await exportModel(net, [one], { name: "net", weights: net, target: "web", single: true });
  assert.deepEqual([...made.files.keys()], ["index.html"]);
  const html = made.text("index.html");
  assert.equal(/(?:src|href)="(?!data:)|https?:\/\//.exec(html)?.[0], undefined);
  assert.match(html, /<html lang=|<label for="input">/);
});
