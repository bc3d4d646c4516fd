/**
 * The files that examples of the documentation read. In: an empty folder. Out: it has them: models of ONNX, TensorFlow and
 * GGUF, small and random, weights, a file of tokens, and a link to the models of this repository.
 *
 * @module
 */
import { nn, state, Tensor } from "../../mod.ts";
import { encodeGguf } from "../../src/llm/llm.ts";
import * as onnx from "../../src/onnx/onnx.ts";
import { randomEncoder } from "../llm/random_encoders.ts";
import { ROOT } from "../system/subprocess.ts";
import { buildTFLite } from "../tfjs/build_tflite.ts";
import { type GraphCase, modelOfCase } from "../tfjs/graph_cases.ts";

/** Modules that stand beside an example. */
export const EXAMPLE_MODULES: Readonly<Record<string, string>> = {
  "images.ts": `type Item = { readonly pixels: Float32Array; readonly label: number };
export const dataset: { readonly length: number; get(i: number): Promise<Item> } = {
  length: 640,
  get: (i) => Promise.resolve({ pixels: new Float32Array(3 * 32 * 32).fill(i), label: i % 10 }),
};`,
};

/** A picture's classes: 3 channels of 224 by 224 in x, ten numbers in y. */
async function classifier(path: string): Promise<void> {
  const conv = new nn.Conv2d(3, 4, 7, { stride: 32 }), last = new nn.Linear(4, 10);
  const f = (x: Tensor) => last.call(conv.call(x).relu().mean([2, 3]));
  await onnx.save(f, [Tensor.zeros([1, 3, 224, 224])], path, { inputs: ["x"], outputs: ["y"] });
}

/** A decoder that takes back its state. */
async function decoder(path: string): Promise<void> {
  const embedding = new nn.Embedding(20, 8), cell = new nn.Linear(16, 8), last = new nn.Linear(8, 20);
  const f = (ids: Tensor, before: Tensor) => {
    const now = cell.call(embedding.call(ids).squeeze(1).cat([before], 1)).tanh();
    return [last.call(now).unsqueeze(1), now];
  };
  await onnx.save(f, [Tensor.zeros([1, 1], { dtype: "int64" }), Tensor.zeros([1, 8])], path, {
    inputs: ["input_ids", "state"],
    outputs: ["logits", "stateN"],
  });
}

/** `model.json` and what lies beside it. */
async function writeTensorFlow(folder: string, model: unknown, files: Record<string, Uint8Array>): Promise<void> {
  await Deno.mkdir(folder, { recursive: true });
  await Deno.writeTextFile(`${folder}/model.json`, JSON.stringify(model));
  for (const [name, bytes] of Object.entries(files)) await Deno.writeFile(`${folder}/${name}`, bytes);
}

/** A model of layers that makes pictures twice as large. */
const TWICE = {
  format: "layers-model",
  modelTopology: {
    model_config: {
      class_name: "Sequential",
      config: {
        layers: [{ class_name: "UpSampling2D", config: { name: "up", batch_input_shape: [null, 20, 30, 3] } }],
      },
    },
  },
  weightsManifest: [{ paths: [], weights: [] }],
};

/** A graph of one operator. */
const GRAPH: GraphCase = {
  name: "Relu",
  nodes: [{ name: "scores", op: "Relu", input: ["x"], attr: { T: { type: "DT_FLOAT" } } }],
  constants: {},
  inputs: { x: { shape: [1, 224, 224, 3], values: [], dtype: "float32" } },
  outputs: ["scores"],
};

/** Puts the files into `folder`. */
export async function writeExampleFiles(folder: string): Promise<void> {
  await Deno.mkdir(`${folder}/examples`);
  await Deno.symlink(new URL("examples/models", ROOT).pathname, `${folder}/examples/models`);
  await Deno.copyFile(new URL("examples/models/stories260K.gguf", ROOT), `${folder}/model.gguf`);
  await Deno.writeFile(`${folder}/train.bin`, new Uint8Array(8192));
  await classifier(`${folder}/model.onnx`);
  await decoder(`${folder}/decoder.onnx`);
  await Deno.writeFile(`${folder}/all-MiniLM-L6-v2-Q8_0.gguf`, await encodeGguf(randomEncoder("bert")));
  await writeTensorFlow(`${folder}/models/x2`, TWICE, {});
  const { model, files } = modelOfCase(GRAPH);
  const signature = { outputs: { scores: { name: "scores" } } };
  await writeTensorFlow(`${folder}/model`, { ...model, signature }, files);
  const picture = { name: "picture", shape: [1, 96, 96, 3] }, scores = { name: "scores", shape: [1, 96, 96, 3] };
  const sum = { code: 0, inputs: [0, 0], outputs: [1], options: { 0: { byte: 0 } } };
  const graph = { tensors: [picture, scores], inputs: [0], outputs: [1], operators: [sum] };
  await Deno.writeFile(`${folder}/model.tflite`, buildTFLite(graph));
  await state.safeSave({ embedding: Tensor.rand([2000, 8]) }, `${folder}/model.safetensors`);
}
