/** Graph models of TensorFlow.js: operators beside what TensorFlow.js gives, files that are none, weights of few bits. */
import assert from "node:assert/strict";
import { Device, jit, Tensor } from "../../mod.ts";
import { loadGraphModel, loadLayersModel } from "../../src/tfjs/tfjs.ts";
import { GRAPH_CASES, modelOfCase } from "./graph_cases.ts";

await Device.open(Device.default);
const device = "WASM";
const EXPECTED = JSON.parse(
  await Deno.readTextFile(new URL("../fixtures/tfjs/graphs.json", import.meta.url)),
) as Record<
  string,
  { shape: number[]; values: number[] }[]
>;

Deno.test("graph models: every case has what TensorFlow.js gives for it", () => {
  assert.deepEqual(GRAPH_CASES.map((c) => c.name).sort(), Object.keys(EXPECTED).sort());
});
for (const c of GRAPH_CASES) {
  Deno.test(`graph models: ${c.name}`, async () => {
    const model = await loadGraphModel(modelOfCase(c), { device });
    const inputs = Object.entries(c.inputs).map(([, { shape, values, dtype }]) =>
      new Tensor([...values], { dtype, device }).reshape([...shape])
    );
    const results = Object.values(await model.run(...inputs)) as Tensor[];
    assert.equal(results.length, EXPECTED[c.name].length);
    for (const [i, { shape, values }] of EXPECTED[c.name].entries()) {
      assert.deepEqual(results[i].shape, shape);
      const got = Array.from(await results[i].data() as Float32Array, Number);
      got.forEach((x, k) =>
        assert.ok(Math.abs(x - values[k]) <= 1e-5 * Math.max(1, Math.abs(values[k])), `${x} ${values[k]}`)
      );
    }
  });
}

const caseOf = (name: string) => modelOfCase(GRAPH_CASES.find((c) => c.name === name)!);
type Topology = {
  node: { name: string; op: string; input: string[]; attr: Record<string, unknown> }[];
  library?: unknown;
};
/** A case whose nodes are changed. */
function changed(name: string, change: (t: Topology) => void): Parameters<typeof loadGraphModel>[0] {
  const source = caseOf(name), topology = structuredClone(source.model.modelTopology) as Topology;
  change(topology);
  return { ...source, model: { ...source.model, modelTopology: topology } };
}

Deno.test("graph models: files that are none, or lie, are refused by name", async () => {
  const bad: readonly (readonly [(t: Topology) => void, RegExp])[] = [
    [(t) => t.node.at(-1)!.op = "Foo", /node "y" is Foo, an operator that is not known/],
    [(t) => t.node.at(-1)!.input.push("z"), /node "y" takes "z", which nothing gives/],
    [(t) => t.node.at(-1)!.input[0] = "y", /node "y" needs its own result/],
    [(t) => t.library = { function: [{}] }, /it has functions, which control flow consists of/],
    [
      (t) => t.node.splice(0, 1, { name: "x", op: "Const", input: [], attr: {} }),
      /constant "x" is none of its weights/,
    ],
    [(t) => t.node.at(-1)!.attr = 3 as never, /the attributes of "y" is no object/],
  ];
  for (const [change, text] of bad) await assert.rejects(loadGraphModel(changed("Slice", change)).then(() => {}), text);
  await assert.rejects(loadGraphModel({ model: "{", files: {} }), /it is no JSON/);
  await assert.rejects(loadGraphModel({ ...caseOf("Slice"), files: {} }), /the file "w.bin" of its weights is missing/);
  await assert.rejects(loadLayersModel(caseOf("Slice")), /it is a graph model: load it by loadGraphModel/);
  await assert.rejects(
    loadGraphModel({ model: { format: "layers-model", modelTopology: {}, weightsManifest: [] }, files: {} }),
    /it is a layers model: load it by loadLayersModel/,
  );
});

Deno.test("graph models: weights of few bits are made floats once", async () => {
  const { model } = caseOf("BiasAdd");
  const weights = [{
    name: "bias",
    shape: [3],
    dtype: "float32",
    quantization: { dtype: "uint8", scale: 0.5, min: -1 },
  }];
  const source = {
    model: { ...model, weightsManifest: [{ paths: ["w.bin"], weights }] },
    files: { "w.bin": Uint8Array.of(0, 2, 7) },
  };
  const loaded = await loadGraphModel(source, { device });
  assert.deepEqual(await loaded.weights.bias.tolist(), [-1, 0, 2.5]);
  const f = jit((x: Tensor) => Object.values(loaded.call(x))[0] as Tensor),
    x = Tensor.zeros([1, 2, 2, 3], { device }).contiguous();
  for (let i = 0; i < 3; i++) assert.deepEqual((await f(x).tolist() as number[][][][])[0][0][0], [-1, 0, 2.5]);
  assert.equal(f.stats.kernels, 1);
  const halves = [{ name: "bias", shape: [3], dtype: "float32", quantization: { dtype: "float16" } }];
  const bytes = new Uint8Array(Uint16Array.of(0x3c00, 0xc000, 0x7bff).buffer);
  const made = await loadGraphModel({
    model: { ...model, weightsManifest: [{ paths: ["w"], weights: halves }] },
    files: { w: bytes },
  });
  assert.deepEqual(await made.weights.bias.tolist(), [1, -2, 65504]);
});
