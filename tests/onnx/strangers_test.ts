/**
 * Programs that people write who come from PyTorch and JavaScript: models in place of functions, bytes as `fetch` gives
 * them, powers and functions whose gradients are given, lists for arrays.
 */
import assert from "node:assert/strict";
import { Device, jit, nn, state, Tensor } from "../../mod.ts";
import { exportModel } from "../../src/export/export.ts";
import * as onnx from "../../src/onnx/onnx.ts";
import { loadLayersModel, loadTFLite } from "../../src/tfjs/tfjs.ts";

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

Deno.test("strangers: a loaded model is tuned, saved, and loaded by the names of its file", async () => {
  Tensor.manualSeed(7);
  const net = new Net(), x = Tensor.randn([2, 4]).realize(), y = new Tensor([0, 2]);
  const model = await onnx.load(await onnx.toBytes(net, [x], { dynamic: { x: { 0: "batch" } } }), {
    requiresGrad: true,
  });
  const names = ["l1.bias", "l1.weight", "l2.bias", "l2.weight"];
  assert.deepEqual(Object.keys(state.getStateDict(model)).sort(), names);
  const optimizer = new nn.optim.Adam(state.getParameters(model), { lr: 0.05 });
  const step = jit((x: Tensor, y: Tensor) =>
    Tensor.train(() => {
      optimizer.zeroGrad();
      const loss = (model.call(x).y as Tensor).crossEntropy(y).backward();
      optimizer.step();
      return loss;
    })
  );
  const losses: number[] = [];
  for (let i = 0; i < 20; i++) losses.push(Number(await step(x, y).item()));
  assert.ok(losses[19] < 0.5 * losses[0], `${losses}`);
  const again = await onnx.load(await onnx.toBytes((x: Tensor) => model.call(x).y as Tensor, [x], { weights: model }));
  assert.deepEqual(Object.keys(again.weights).filter((n) => names.includes(n)).sort(), names);
  const want = await (model.call(x).y as Tensor).tolist() as number[][],
    got = await (again.call(x).y as Tensor).tolist();
  want.flat().forEach((v, i) => assert.ok(Math.abs(v - (got as number[][]).flat()[i]) < 1e-5));
  const other = await onnx.load(await onnx.toBytes(new Net(), [x]));
  await state.loadStateDict(other, state.getStateDict(model));
  assert.deepEqual(await other.weights["l2.bias"].tolist(), await model.weights["l2.bias"].tolist());
});

Deno.test("strangers: requests of any batch beside each other, one capture a size", async () => {
  const model = await onnx.load(
    await onnx.toBytes(new Net(), [Tensor.zeros([1, 4])], { dynamic: { x: { 0: "batch" } } }),
  );
  const f = jit((x: Tensor) => model.call(x).y as Tensor);
  const rows = await Promise.all(
    [1, 2, 3, 1, 2, 3, 1, 2, 3].map(async (n) => (await f(Tensor.ones([n, 4])).tolist() as number[][]).length),
  );
  assert.deepEqual(rows, [1, 2, 3, 1, 2, 3, 1, 2, 3]);
  assert.equal(f.stats.captures, 3);
});

Deno.test("strangers: texts in place of models, and arrays in place of tensors, are told with a way out", async () => {
  const page = new TextEncoder().encode("<!doctype html><title>Not found</title>");
  await assert.rejects(
    onnx.load(page),
    /Cannot load an ONNX model in memory: it is text, which begins with "<!doctype html>/,
  );
  const pointer = new TextEncoder().encode("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n");
  await assert.rejects(onnx.load(pointer), /it is text, which begins with "version https:\/\/git-lfs/);
  await assert.rejects(loadTFLite(pointer), /it is text, which begins with "version/);
  const model = await onnx.load(
    await onnx.toBytes(new Net(), [Tensor.zeros([1, 4])], { dynamic: { x: { 0: "batch" } } }),
  );
  const data = Float32Array.of(1, 2, 3, 4);
  assert.throws(
    () => model.call(data as never),
    /it takes a tensor, not a Float32Array: make one by new Tensor\(data\)\.reshape\(\[-1, 4\]\)/,
  );
  assert.deepEqual((model.call(new Tensor(data).reshape([-1, 4])).y as Tensor).shape, [1, 3]);
});

Deno.test("strangers: a loaded model with whole numbers and two inputs is exported, its weights by name", async () => {
  class Scaled {
    readonly table = new nn.Embedding(10, 4);
    readonly out = new nn.Linear(4, 2);
    call(ids: Tensor, scale: Tensor): Tensor {
      return this.out.call(this.table.call(ids).mul(scale));
    }
  }
  const ids = new Tensor([1, 2, 3]), scale = new Tensor([2], { dtype: "float32" });
  const model = await onnx.load(await onnx.toBytes(new Scaled(), [ids, scale]));
  const made = await exportModel((ids: Tensor, scale: Tensor) => model.call(ids, scale).y as Tensor, [ids, scale], {
    target: "c",
    name: "scaled",
    weights: model,
  });
  assert.match(
    made.text("scaled.h"),
    /void scaled_run\(scaled_context \*context, const int ids\[3\], const float scale\[1\], float y\[6\]\);/,
  );
  const names = made.plan.arrays.filter((a) => a.space === "weight").map((a) => a.name);
  assert.deepEqual(names.filter((n) => /^(out|table)_/.test(n)).sort(), ["out_bias", "out_weight", "table_weight"]);
});

Deno.test("strangers: a model is printed by what it takes and gives, and what info tells as a page", async () => {
  const bytes = await onnx.toBytes(new Net(), [Tensor.zeros([1, 4])], { dynamic: { x: { 0: "batch" } } });
  const model = await onnx.load(bytes, { device: "JS" }), told = await onnx.info(bytes);
  const out = model.outputs[0].shape!.join(", ");
  assert.equal(Deno.inspect(model), `OnnxModel (x: float[batch, 4]) -> (y: float[${out}]) JS`);
  assert.equal(Deno.inspect(told), String(told));
  assert.match(String(told), /^inputs\n {2}x: float\[batch, 4\]\noutputs\n/m);
});
