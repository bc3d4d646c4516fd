/** Layers models of TensorFlow.js: values of layers, and what is refused by name. @module */
import assert from "node:assert/strict";
import { Device, Tensor } from "../../mod.ts";
import { type LayersOptions, type LayersSource, loadLayersModel } from "../../src/tfjs/tfjs.ts";
import { Random } from "../support/random.ts";

Device.default = "WASM";
await Device.open("WASM");

type Layer = Readonly<Record<string, unknown>>;
type Weights = Readonly<Record<string, readonly [shape: readonly number[], values: readonly number[]]>>;

/** A Sequential model of layers, and its weights. */
function chain(
  shape: readonly (number | null)[],
  layers: readonly (readonly [string, Layer])[],
  weights: Weights = {},
): LayersSource {
  return source({
    class_name: "Sequential",
    config: {
      layers: layers.map(([class_name, config], i) => ({
        class_name,
        config: { name: `l${i}`, ...config, ...(i === 0 ? { batch_input_shape: shape } : {}) },
      })),
    },
  }, weights);
}
function source(model: unknown, weights: Weights = {}): LayersSource & { model: Record<string, unknown> } {
  const values = Object.values(weights).flatMap(([, v]) => v);
  return {
    model: {
      format: "layers-model",
      modelTopology: { model_config: model },
      weightsManifest: [{
        paths: ["w.bin"],
        weights: Object.entries(weights).map(([name, [shape]]) => ({ name, shape, dtype: "float32" })),
      }],
    },
    files: { "w.bin": new Uint8Array(Float32Array.from(values).buffer) },
  };
}

/** By layer: the shape that goes in, config, weights, and what comes out of 0, 1, 2, …, as Keras computes it. */
const VALUES: readonly (readonly [string, readonly number[], Layer, Weights, unknown])[] = [
  ["Dense", [3], { units: 2 }, { "l0/kernel": [[3, 2], [1, 0, 0, 1, 1, 1]], "l0/bias": [[2], [10, 20]] }, [[12, 23]]],
  ["Dense", [2], { units: 1, use_bias: false, activation: "relu" }, { "l0/kernel": [[2, 1], [1, -3]] }, [[0]]],
  // windows of 2 by 2 in steps of 2 over 3 by 3: "same" adds a row and a column behind
  [
    "Conv2D",
    [3, 3, 1],
    { padding: "same", strides: [2, 2], use_bias: false },
    { "l0/kernel": [[2, 2, 1, 1], [1, 1, 1, 1]] },
    [[[[8], [7]], [[13], [8]]]],
  ],
  ["Conv2D", [2, 2, 1], { padding: "valid" }, { "l0/kernel": [[2, 2, 1, 1], [1, 2, 3, 4]], "l0/bias": [[1], [1]] }, [[[[
    21,
  ]]]]],
  ["DepthwiseConv2D", [1, 1, 2], { use_bias: false }, { "l0/depthwise_kernel": [[1, 1, 2, 2], [1, 2, 3, 4]] }, [[[[
    0,
    0,
    3,
    4,
  ]]]]],
  ["MaxPooling2D", [3, 3, 1], { pool_size: [2, 2], padding: "same" }, {}, [[[[4], [5]], [[7], [8]]]]],
  // a mean is over what is inside
  ["AveragePooling2D", [3, 3, 1], { pool_size: [2, 2], padding: "same" }, {}, [[[[2], [3.5]], [[6.5], [8]]]]],
  ["GlobalAveragePooling2D", [2, 2, 1], {}, {}, [[1.5]]],
  ["UpSampling2D", [1, 2, 1], { size: [1, 2] }, {}, [[[[0], [0], [1], [1]]]]],
  ["ZeroPadding2D", [1, 1, 1], { padding: [[0, 1], [1, 0]] }, {}, [[[[0], [0]], [[0], [0]]]]],
  ["Flatten", [2, 1, 2], {}, {}, [[0, 1, 2, 3]]],
  ["Reshape", [4], { target_shape: [2, 2] }, {}, [[[0, 1], [2, 3]]]],
  ["ReLU", [8], { max_value: 6 }, {}, [[0, 1, 2, 3, 4, 5, 6, 6]]],
  ["Embedding", [3], {}, { "l0/embeddings": [[3, 2], [1, 2, 3, 4, 5, 6]] }, [[[1, 2], [3, 4], [5, 6]]]],
  [
    "BatchNormalization",
    [2],
    { epsilon: 0 },
    {
      "l0/gamma": [[2], [2, 3]],
      "l0/beta": [[2], [1, 1]],
      "l0/moving_mean": [[2], [1, 0]],
      "l0/moving_variance": [[2], [4, 1]],
    },
    [[0, 4]],
  ],
];
for (const [type, shape, config, weights, want] of VALUES) {
  Deno.test(`layers model: ${type} ${JSON.stringify(config)}`, async () => {
    const model = await loadLayersModel(chain([null, ...shape], [[type, config]], weights));
    const n = shape.reduce((a, b) => a * b, 1), [y] = model.call(Tensor.arange(n).reshape([1, ...shape]).float());
    assert.deepEqual(await y.tolist(), want);
  });
}

/** A graph: a layer that is called twice, a sum, and two outputs, in an order that is none. */
const GRAPH = {
  class_name: "Functional",
  config: {
    layers: [
      { class_name: "Add", name: "sum", config: {}, inbound_nodes: [[["d", 0, 0, {}], ["d", 1, 0, {}]]] },
      { class_name: "InputLayer", name: "a", config: { batch_input_shape: [null, 1] }, inbound_nodes: [] },
      { class_name: "InputLayer", name: "b", config: { batch_input_shape: [null, 1] }, inbound_nodes: [] },
      {
        class_name: "Dense",
        name: "d",
        config: { use_bias: false },
        inbound_nodes: [[["a", 0, 0, {}]], [["b", 0, 0, {}]]],
      },
    ],
    input_layers: [["a", 0, 0], ["b", 0, 0]],
    output_layers: [["sum", 0, 0], ["d", 1, 0]],
  },
};
const TRIPLE: Weights = { "d/kernel": [[1, 1], [3]] };

Deno.test("layers model: a graph of layers, one of them called twice", async () => {
  const model = await loadLayersModel(source(GRAPH, TRIPLE)),
    one = (x: number) => new Tensor([[x]], { dtype: "float32" });
  assert.deepEqual(model.inputs, [{ name: "a", shape: [null, 1] }, { name: "b", shape: [null, 1] }]);
  const [sum, second] = model.call(one(1), one(10));
  assert.deepEqual([await sum.tolist(), await second.tolist()], [[[33]], [[30]]]);
  assert.throws(() => model.call(one(1)), /it takes a, b, and was given 1 inputs/);
  assert.throws(() => model.call(one(1), Tensor.zeros([1, 2])), /\[1, 2\]: "b" has the axes \[\?, 1\]/);
});

Deno.test("layers model: quantized weights, several files, layers of one's own", async () => {
  const weights = [{
    name: "l0/kernel",
    shape: [2, 1],
    dtype: "float32",
    quantization: { dtype: "uint8", scale: 0.5, min: -1 },
  }];
  const { model } = chain([null, 2], [["Dense", { use_bias: false }], ["Twice", { by: 2 }]]) as {
    model: Record<string, unknown>;
  };
  const made = {
    model: { ...model, weightsManifest: [{ paths: ["a", "b"], weights }] },
    files: { a: Uint8Array.of(2), b: Uint8Array.of(6) },
  };
  const layers: LayersOptions["layers"] = { Twice: ([x], { by }) => x.mul(Number(by)) };
  const [y] = (await loadLayersModel(made, { layers })).call(new Tensor([[5, 7]], { dtype: "float32" }));
  assert.deepEqual(await y.tolist(), [[28]]); // 2 * (0 * 5 + 2 * 7)
});

const layer = (change: Layer): LayersSource =>
  source({
    ...GRAPH,
    config: { ...GRAPH.config, layers: [...GRAPH.config.layers.slice(1), { ...GRAPH.config.layers[0], ...change }] },
  }, TRIPLE);
const manifest = (change: Layer): LayersSource => {
  const made = source(GRAPH, TRIPLE), [group] = made.model.weightsManifest as Layer[];
  return { ...made, model: { ...made.model, weightsManifest: [{ ...group, ...change }] } };
};
const REFUSED: readonly (readonly [string, LayersSource, RegExp])[] = [
  ["no JSON", { model: "{", files: {} }, /it is no JSON/],
  ["no topology", { model: { weightsManifest: [] }, files: {} }, /modelTopology is no object/],
  [
    "another class of model",
    source({ class_name: "Other", config: { layers: [] } }),
    /class Other, neither Sequential/,
  ],
  ["an unknown layer", layer({ class_name: "Warp" }), /layer "sum" is of class Warp.*give it by \{ layers: \{ Warp:/],
  ["a name of every object", layer({ class_name: "constructor" }), /class constructor, which is not known/],
  ["a layer that is not there", layer({ inbound_nodes: [[["z", 0, 0]]] }), /"sum" takes "z", which is no layer/],
  ["a cycle", layer({ inbound_nodes: [[["sum", 0, 0]]] }), /"sum" takes what it gives/],
  ["a call that is not there", layer({ inbound_nodes: [[["d", 2, 0]]] }), /takes call 2 of "d", which has 2/],
  ["two of one name", layer({ name: "d" }), /two layers are called "d"/],
  ["a file elsewhere", manifest({ paths: ["../w.bin"] }), /"\.\.\/w\.bin", which is not in the model's folder/],
  ["a file that is missing", manifest({ paths: ["v.bin"] }), /the file "v\.bin" of its weights is missing/],
  [
    "too few bytes",
    manifest({ weights: [{ name: "d/kernel", shape: [2, 1], dtype: "float32" }] }),
    /ends at byte 8 .* has 4/,
  ],
  ["too many bytes", manifest({ weights: [] }), /its weights have 0 bytes, and their files 4/],
  ["a shape that is none", manifest({ weights: [{ name: "k", shape: [-1], dtype: "float32" }] }), /has shape \[-1\]/],
  ["another dtype", manifest({ weights: [{ name: "k", shape: [1], dtype: "string" }] }), /weight "k" is string/],
];
for (const [what, from, message] of REFUSED) {
  Deno.test(`layers model: ${what} is refused`, async () => {
    await assert.rejects(() => loadLayersModel(from), (error: Error) => {
      assert.equal(error.name, "FormatError");
      assert.match(error.message, message);
      return true;
    });
  });
}

Deno.test("layers model: a weight or an activation that is missing is named where it is used", async () => {
  const bare = await loadLayersModel(chain([null, 1], [["Dense", {}]]));
  assert.throws(() => bare.call(Tensor.zeros([1, 1])), /layer "l0" \(Dense\) has no weight "l0\/kernel"/);
  const odd = await loadLayersModel(chain([null, 1], [["Activation", { activation: "cube" }]]));
  assert.throws(() => odd.call(Tensor.zeros([1, 1])), /the activation "cube", which is not known/);
});

Deno.test("layers model: text that is spoiled gives named errors, never others", async () => {
  const { model, files } = source(GRAPH, TRIPLE), text = JSON.stringify(model), random = new Random(3);
  let refused = 0;
  for (let i = 0; i < 400; i++) {
    const at = random.int(0, text.length - 1), letter = String.fromCharCode(random.int(32, 126));
    const spoiled = text.slice(0, at) + letter + text.slice(at + random.int(0, 2));
    try {
      (await loadLayersModel({ model: spoiled, files })).call(Tensor.ones([1, 1]), Tensor.ones([1, 1]));
    } catch (error) {
      refused++;
      assert.match((error as Error).name, /^(Format|Argument|Shape|DType|Promotion)Error$/, (error as Error).stack);
    }
  }
  assert.ok(refused > 100, `${refused}`);
});
