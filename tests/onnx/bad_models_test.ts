/**
 * Models that ask for more than there is, and models whose types lie: each is refused by the name of its node, with the
 * shapes and types at fault. What lies is judged as onnxruntime 1.30 judges it, which was asked about every row.
 *
 * @module
 */
import assert from "node:assert/strict";
import { Device, type Tensor } from "../../mod.ts";
import * as onnx from "../../src/onnx/onnx.ts";
import { type Attr, buildModel, type ModelSpec, type NodeSpec, type TensorSpec } from "./build_model.ts";

await Device.open(Device.default);
const F = 1, I = 7, B = 9, device = "WASM", HUGE = 2 ** 40;
const ints = (name: string, values: number[], dims = [values.length]): TensorSpec => ({ name, dims, values, type: I });
const floats = (name: string, values: number[], dims = [values.length]): TensorSpec => ({ name, dims, values });
const picture = floats("m", [1, 1, 1, 1], [1, 1, 2, 2]);
const side: NodeSpec[] = [["ConstantOfShape", ["q"], ["m"]], ["ConstantOfShape", ["r"], ["n"]]];
const sides = [ints("q", [2 ** 20, 1]), ints("r", [1, 2 ** 20])];

interface Large {
  readonly inputs: readonly string[];
  readonly constants: readonly TensorSpec[];
  readonly attributes?: Readonly<Record<string, Attr>>;
  readonly opset?: number;
  readonly before?: readonly NodeSpec[];
  readonly want: RegExp;
}
const RESULT = /its result \[[\d, ]+\] of \w+ takes [\d.]+ (TB|GB), and WASM holds 4\.29 GB at most \(/;
const LIST = /a list of [\d.e+]+ positions would be made on the host, which takes 67108864 at most \(its inputs are/;
const LARGE: Readonly<Record<string, Large>> = {
  Expand: { inputs: ["x", "s"], constants: [ints("s", [HUGE, 2])], want: RESULT },
  Tile: { inputs: ["x", "s"], constants: [ints("s", [HUGE])], want: RESULT },
  Range: {
    inputs: ["a", "b", "c"],
    constants: [ints("a", [0], []), ints("b", [1e11], []), ints("c", [1], [])],
    want: RESULT,
  },
  ConstantOfShape: { inputs: ["s"], constants: [ints("s", [HUGE])], want: RESULT },
  "Resize by sizes": { inputs: ["x", "", "", "s"], constants: [ints("s", [HUGE])], want: LIST },
  "Resize by scales": {
    inputs: ["x", "", "s"],
    constants: [floats("s", [1e12])],
    attributes: { mode: { text: "linear" } },
    want: LIST,
  },
  Upsample: { inputs: ["x", "s"], constants: [floats("s", [1e12])], opset: 9, want: LIST },
  OneHot: {
    inputs: ["i", "s", "v"],
    constants: [ints("i", [1]), ints("s", [HUGE], []), floats("v", [0, 1])],
    want: RESULT,
  },
  Pad: { inputs: ["x", "s"], constants: [ints("s", [HUGE, 0])], want: RESULT },
  "Pad by edges": {
    inputs: ["x", "s"],
    constants: [ints("s", [HUGE, 0])],
    attributes: { mode: { text: "edge" } },
    want: LIST,
  },
  CenterCropPad: { inputs: ["x", "s"], constants: [ints("s", [HUGE])], opset: 18, want: RESULT },
  HannWindow: { inputs: ["s"], constants: [ints("s", [HUGE], [])], want: LIST },
  AffineGrid: {
    inputs: ["t", "s"],
    constants: [floats("t", [1, 0, 0, 0, 1, 0], [1, 2, 3]), ints("s", [1, 1, HUGE, 4])],
    opset: 20,
    want: LIST,
  },
  MelWeightMatrix: {
    inputs: ["n", "d", "r", "lo", "hi"],
    constants: [
      ints("n", [HUGE], []),
      ints("d", [16], []),
      ints("r", [8000], []),
      floats("lo", [0], []),
      floats("hi", [4000], []),
    ],
    want: LIST,
  },
  RandomNormal: { inputs: [], constants: [], attributes: { shape: { ints: [HUGE] } }, want: RESULT },
  Multinomial: {
    inputs: ["p"],
    constants: [floats("p", [0, 1], [1, 2])],
    attributes: { sample_size: { int: HUGE } },
    want: RESULT,
  },
  MaxUnpool: {
    inputs: ["m", "i", "s"],
    constants: [
      floats("m", [1], [1, 1, 1, 1]),
      ints("i", [0], [1, 1, 1, 1]),
      ints("s", [1, 1, HUGE, 1]),
    ],
    attributes: { kernel_shape: { ints: [1, 1] } },
    want: RESULT,
  },
  MatMul: { inputs: ["m", "n"], constants: sides, before: side, want: RESULT },
  Add: { inputs: ["m", "n"], constants: sides, before: side, want: RESULT },
  Conv: {
    inputs: ["m", "n"],
    constants: [picture, floats("n", [1], [1, 1, 1, 1])],
    attributes: { pads: { ints: [HUGE, 0, HUGE, 0] } },
    want: RESULT,
  },
  ConvTranspose: {
    inputs: ["m", "n"],
    constants: [picture, floats("n", [1], [1, 1, 1, 1])],
    attributes: { strides: { ints: [HUGE, 1] } },
    want: RESULT,
  },
  DFT: { inputs: ["m", "s"], constants: [floats("m", [1, 1, 1, 1], [1, 4, 1]), ints("s", [HUGE], [])], want: LIST },
  RoiAlign: {
    inputs: ["m", "r", "b"],
    constants: [picture, floats("r", [0, 0, 1, 1], [1, 4]), ints("b", [0])],
    attributes: { output_height: { int: HUGE }, output_width: { int: 4 } },
    want: LIST,
  },
  Split: { inputs: ["x"], constants: [], attributes: { num_outputs: { int: HUGE } }, opset: 18, want: LIST },
  LRN: {
    inputs: ["m"],
    constants: [floats("m", [1, 1, 1, 1], [1, 4, 1, 1])],
    attributes: { size: { int: HUGE } },
    want: /its sizes are beyond what the host makes \(its inputs are \[1, 4, 1, 1\] with 1, 1, 1, 1\)/,
  },
};
for (const [name, { inputs, constants, attributes, opset = 17, before = [], want }] of Object.entries(LARGE)) {
  Deno.test(`onnx: a huge ${name} is refused by its name, with shapes and a way out`, async () => {
    const [op] = name.split(" "), given = ["x", ...constants.map((t) => t.name)];
    const model = await onnx.load(
      buildModel({
        nodes: [...before, [op, inputs, ["y"], attributes ?? {}, "big"]],
        inputs: { x: [F, [2]] },
        outputs: { y: [0, ["n"]] },
        initializers: constants,
        opset,
      }),
      { device },
    );
    assert.ok(given.length > 0);
    const check = (error: Error): boolean => {
      assert.equal(error.name, "FormatError");
      assert.ok(error.message.startsWith(`Cannot run ONNX node ${op} "big": `), error.message);
      assert.match(error.message, want);
      assert.match(error.message, /: (give the model smaller inputs, or load it by|the sizes come from the model's)/);
      return true;
    };
    assert.throws(() => model.call([1, 2]), check);
    await assert.rejects(model.run([1, 2]), check);
  });
}

Deno.test("onnx: what is large and could be is let by: nothing is made until it is read", async () => {
  const model = await onnx.load(
    buildModel({
      nodes: [["Expand", ["x", "s"], ["wide"]], ["ReduceMax", ["wide"], ["y"], { keepdims: { int: 0 } }]],
      inputs: { x: [F, [2]] },
      outputs: { y: [F, []] },
      initializers: [ints("s", [2 ** 28, 2])],
    }),
    { device },
  );
  assert.equal((model.call([1, 2]).y as Tensor).ndim, 0); // 2.1 GB, if it were made
});

Deno.test("onnx: a loop of more turns than a graph may have is stopped by its name", async () => {
  // functions of functions, so that few turns are many nodes
  const times = (name: string, inner: string, n: number) => ({
    name,
    domain: "own",
    inputs: ["v0"],
    outputs: [`v${n}`],
    nodes: Array.from(
      { length: n },
      (_, i): NodeSpec => [inner, [`v${i}`], [`v${i + 1}`], {}, undefined, inner === "Identity" ? "" : "own"],
    ),
  });
  const body = {
    nodes: [["Identity", ["go"], ["on"]], ["Many", ["v"], ["w"], {}, undefined, "own"]] as NodeSpec[],
    inputs: { i: [I, []], go: [B, []], v: [F, [2]] } as const,
    outputs: { on: [B, []], w: [F, [2]] } as const,
  };
  const model = await onnx.load(
    buildModel({
      nodes: [["Loop", ["count", "yes", "x"], ["y"], { body: { graph: body } }, "forever"]],
      inputs: { x: [F, [2]] },
      outputs: { y: [F, [2]] },
      initializers: [ints("count", [HUGE], []), { name: "yes", dims: [], values: [1], type: B }],
      domain: "own",
      functions: [times("Many", "Some", 200), times("Some", "Identity", 500)],
    }),
    { device },
  );
  assert.throws(
    () => model.call([1, 2]),
    /Cannot run ONNX node Loop "forever": with all nodes within it this run has more than 1000000/,
  );
});

/** What the models below share. */

const base = { inputs: { x: [F, [2]] }, outputs: { y: [F, [2]] } } as const;
const weight = (type = F): TensorSpec => ({ name: "w", dims: [2], values: [1, 0], type });
const branch = (to: string): Attr => ({
  graph: { nodes: [["Neg", ["x"], [to], {}, to]], outputs: { [to]: [I, [2]] } },
});
/** Models of one or two nodes, and why they are refused. */
const LIES: Readonly<Record<string, readonly [ModelSpec, RegExp]>> = {
  "an output": [
    { ...base, nodes: [["Neg", ["x"], ["y"], {}, "n"]], outputs: { y: [I, [2]] } },
    /Cannot run ONNX node Neg "n": it gives float, and the model says that "y" is int64/,
  ],
  "a name within": [
    { ...base, nodes: [["Neg", ["x"], ["h"], {}, "n"], ["Neg", ["h"], ["y"]]], values: { h: [I, [2]] } },
    /Cannot run ONNX node Neg "n": it gives float, and the model says that "h" is int64/,
  ],
  "an output of a branch": [
    {
      ...base,
      nodes: [["If", ["w"], ["y"], { then_branch: branch("t"), else_branch: branch("e") }, "if"]],
      initializers: [{ name: "w", dims: [], values: [1], type: B }],
    },
    /Cannot run ONNX node Neg "t": it gives float, and the model says that "t" is int64/,
  ],
  "a weight as input": [
    {
      nodes: [["Identity", ["w"], ["y"]]],
      inputs: { w: [I, [2]] },
      outputs: { y: [F, [2]] },
      initializers: [weight()],
    },
    /initializer "w" is float, and the input of its name int64/,
  ],
  "the shape of a weight as input": [
    {
      nodes: [["Identity", ["w"], ["y"]]],
      inputs: { w: [F, [3]] },
      outputs: { y: [F, [2]] },
      initializers: [weight()],
    },
    /initializer "w" has the shape \[2\], and the input of its name \[3\]/,
  ],
  "two inputs of one type": [
    { ...base, nodes: [["Add", ["x", "w"], ["y"], {}, "n"]], initializers: [weight(I)] },
    /Add "n": its input 0 is float and its input 1 int64, which must be one type: put a Cast before it/,
  ],
  "an index": [
    { ...base, nodes: [["Gather", ["x", "w"], ["y"], {}, "n"]], initializers: [weight()] },
    /Gather "n": its input 1 is float, not int64/,
  ],
  "a shape": [
    { ...base, nodes: [["Reshape", ["x", "w"], ["y"], {}, "n"]], initializers: [weight()] },
    /Reshape "n": its input 1 is float, not int64/,
  ],
  "a truth": [
    { ...base, nodes: [["Not", ["x"], ["y"], {}, "n"]], outputs: { y: [B, [2]] } },
    /Not "n": its input 0 is float, not bool/,
  ],
  "a condition": [
    { ...base, nodes: [["Where", ["w", "x", "x"], ["y"], {}, "n"]], initializers: [weight(I)] },
    /Where "n": its input 0 is int64, not bool/,
  ],
  "an attribute": [
    { ...base, nodes: [["Softmax", ["x"], ["y"], { axis: { float: 0 } }, "n"]] },
    /Softmax "n": its attribute axis is a float, not a whole number/,
  ],
};
for (const [name, [spec, want]] of Object.entries(LIES)) {
  Deno.test(`onnx: types that lie are refused by name: ${name}`, async () => {
    const given = spec.inputs?.x === undefined ? [] : [[1, 2]];
    await assert.rejects(async () => (await onnx.load(buildModel(spec), { device })).call(...given), want);
  });
}

Deno.test("onnx: an output of other sizes than declared is told once, and given", async () => {
  const said: string[] = [], { warn } = console;
  console.warn = (text: string) => void said.push(text);
  try {
    const nodes: NodeSpec[] = [["Neg", ["x"], ["y"]]];
    const model = await onnx.load(buildModel({ nodes, inputs: { x: [F, ["n"]] }, outputs: { y: [F, [3]] } }), {
      device,
    });
    for (let i = 0; i < 2; i++) assert.deepEqual(await (model.call([1, 2]).y as Tensor).tolist(), [-1, -2]);
    assert.deepEqual(await (model.call([1, 2, 3]).y as Tensor).tolist(), [-1, -2, -3]);
  } finally {
    console.warn = warn;
  }
  assert.deepEqual(said, ['The ONNX model says that "y" is [3], and gives [2]']);
});
