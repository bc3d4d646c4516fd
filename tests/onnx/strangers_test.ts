/**
 * Programs that people write who come from PyTorch and JavaScript: models in place of functions, bytes as `fetch` gives
 * them, powers and functions whose gradients are given, lists for arrays.
 */
import assert from "node:assert/strict";
import { Device, nn, Tensor } from "../../mod.ts";
import { exportModel } from "../../src/export/export.ts";
import * as onnx from "../../src/onnx/onnx.ts";
import { loadLayersModel } from "../../src/tfjs/tfjs.ts";

Device.default = "WASM";
Tensor.zeros([1]).realize(); // opened before the tests

class Net {
  readonly l1 = new nn.Linear(4, 8);
  readonly l2 = new nn.Linear(8, 3);
  call(x: Tensor): Tensor {
    return this.l2.call(this.l1.call(x).relu());
  }
}

Deno.test("strangers: a model is saved as such, and its bytes are read as fetch gives them", async () => {
  const net = new Net(), x = Tensor.randn([2, 4]).realize();
  const bytes = await onnx.toBytes(net, [x], { dynamic: { x: { 0: "batch" } } });
  assert.equal(bytes.buffer.byteLength, bytes.length);
  const model = await onnx.load(await new Response(bytes).arrayBuffer());
  assert.deepEqual(Object.keys(model.weights).sort(), ["l1.bias", "l1.weight", "l2.bias", "l2.weight"]);
  assert.deepEqual(await (model.call(x).y as Tensor).tolist(), await net.call(x).tolist());
  assert.deepEqual((await onnx.info(bytes.buffer)).parameters, model.weights["l1.weight"].numel() + 8 + 24 + 3);
  await assert.rejects(onnx.toBytes({} as Net, [x]), /f must be a function, not an object/);
});

const ONE: Readonly<Record<string, [operator: string, (x: Tensor) => Tensor]>> = {
  "x ** 1.5": ["Pow", (x) => x.pow(1.5)],
  "x ** -1.7": ["Pow", (x) => x.pow(-1.7)],
  "x ** 7": ["Pow", (x) => x.pow(7)],
  "x ** x": ["Pow", (x) => x.pow(x)],
  asin: ["Asin", (x) => x.asin()],
  asinh: ["Asinh", (x) => x.asinh()],
  elu: ["Elu", (x) => x.elu()],
  softsign: ["Softsign", (x) => x.softsign()],
  sinh: ["Sinh", (x) => x.sinh()],
  gelu: ["Gelu", (x) => x.gelu()],
};
for (const [name, [operator, f]] of Object.entries(ONE)) {
  Deno.test(`strangers: ${name} is one operator`, async () => {
    const x = new Tensor([[0.5, 0.25], [0.75, 0.125]]).realize(), bytes = await onnx.toBytes(f, [x]);
    assert.deepEqual((await onnx.info(bytes)).operators, { Identity: 1, [operator]: 1 });
    assert.deepEqual(await ((await onnx.load(bytes)).call(x).y as Tensor).tolist(), await f(x).tolist());
  });
}

Deno.test("strangers: an exported module takes nested lists, and refuses what it would misread", async () => {
  const net = new Net(), x = Tensor.randn([2, 4]).realize(), folder = await Deno.makeTempDir();
  try {
    const into = new URL(`file://${folder}/`);
    await (await exportModel(net, [x], { target: "wasm", name: "net" })).write(into);
    const { run } = await (await import(new URL("net.js", into).href)).load();
    const got = Float32Array.from(run(await x.tolist())), want = await net.call(x).data();
    got.forEach((v, i) => assert(Math.abs(v - (want[i] as number)) < 1e-5));
    assert.throws(() => run(new Float32Array(3)), /x takes 8 numbers, not 3/);
    assert.throws(() => run({ x: [1] }), /x takes 8 numbers, not undefined/);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("strangers: models of pages are read from array buffers, and graph models are told apart", async () => {
  const layer = { class_name: "Dense", config: { name: "d", units: 1, use_bias: false, batch_input_shape: [null, 2] } };
  const json = {
    modelTopology: { class_name: "Sequential", config: { layers: [layer] } },
    weightsManifest: [{ paths: ["a.bin"], weights: [{ name: "d/kernel", shape: [2, 1], dtype: "float32" }] }],
  };
  const files = { "a.bin": Float32Array.of(2, 3).buffer }, model = await loadLayersModel({ model: json, files });
  assert.deepEqual(await model.call(new Tensor([[10, 1]]))[0].tolist(), [[23]]);
  await assert.rejects(
    loadLayersModel({ model: { ...json, format: "graph-model" }, files }),
    /Cannot read the layers model in memory: it is a graph model/,
  );
});
