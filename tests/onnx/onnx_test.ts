/** ONNX models: called, under jit, with gradients; shapes on the host; hostile files refused by name. @module */
import assert from "node:assert/strict";
import { Device, GlobalCounters, jit, Tensor, Variable } from "../../mod.ts";
import * as onnx from "../../src/onnx/onnx.ts";
import { buildModel, type ModelSpec, type NodeSpec } from "./build_model.ts";
import { inFolder } from "../support/folder.ts";

await Device.open(Device.default); // not within a test: where constants that belong to no device are computed
const F = 1, I = 7;
const device = "WASM";
const load = (spec: ModelSpec, options: onnx.LoadOptions = {}) => onnx.load(buildModel(spec), { device, ...options });
const x23 = () => new Tensor([[1, 2, 3], [4, 5, 6]], { dtype: "float32", device });

const LINEAR: ModelSpec = {
  nodes: [["MatMul", ["x", "w"], ["h"]], ["Add", ["h", "b"], ["s"]], ["Relu", ["s"], ["y"]]],
  inputs: { x: [F, ["n", 3]] },
  outputs: { y: [F, ["n", 2]] },
  initializers: [
    { name: "w", dims: [3, 2], values: [1, -1, 0, 2, 1, 0] },
    { name: "b", dims: [2], values: [0.5, -10] },
  ],
};

Deno.test("onnx: a model is called by position and by name", async () => {
  const model = await load(LINEAR);
  assert.deepEqual(model.inputs, [{ name: "x", type: "float", shape: ["n", 3], kind: "tensor" }]);
  const want = [[4.5, 0], [10.5, 0]];
  assert.deepEqual(await (model.call(x23()).y as Tensor).tolist(), want);
  assert.deepEqual(await (model.call({ x: x23() }).y as Tensor).tolist(), want);
  assert.deepEqual(await ((await model.run([[1, 2, 3], [4, 5, 6]])).y as Tensor).tolist(), want);
});

Deno.test("onnx: under jit, and with gradients of its weights", async () => {
  const model = await load(LINEAR, { requiresGrad: true }), f = jit((x: Tensor) => model.call(x).y as Tensor);
  for (let i = 1; i <= 4; i++) {
    assert.deepEqual(await f(x23().mul(i)).tolist(), [[4 * i + 0.5, Math.max(0, 3 * i - 10)], [
      10 * i + 0.5,
      Math.max(0, 6 * i - 10),
    ]]);
  }
  const { w, b } = model.weights;
  const [gw, gb] = (model.call(x23()).y as Tensor).sum().gradient([w, b]);
  assert.deepEqual(await gw.tolist(), [[5, 0], [7, 0], [9, 0]]);
  assert.deepEqual(await gb.tolist(), [2, 0]);
});

Deno.test("onnx: a batch whose size is a variable", async () => {
  const model = await load({
    nodes: [["MatMul", ["x", "w"], ["h"]], ["Shape", ["h"], ["s"]], ["Reshape", ["h", "s"], ["r"]], ["Softmax", ["r"], [
      "y",
    ]]],
    inputs: LINEAR.inputs,
    outputs: LINEAR.outputs,
    initializers: [{ name: "w", dims: [3, 2], values: [0, 0, 0, 0, 0, 0] }],
  });
  const x = Tensor.ones([8, 3], { device }).contiguous().realize(), n = new Variable("n", 1, 8);
  const f = jit((t: Tensor) => model.call(t).y as Tensor);
  for (const size of [2, 3, 5, 8]) {
    const y = f(x.shrink([[0, n.bind(size)], [0, 3]]));
    assert.deepEqual(await y.tolist(), new Array(size).fill([0.5, 0.5]));
  }
});

Deno.test("onnx: arithmetic on shapes stays on the host", async () => {
  const model = await load({
    nodes: [
      ["Shape", ["x"], ["s"]],
      ["Gather", ["s", "zero"], ["n"]],
      ["Mul", ["n", "three"], ["m"]],
      ["Unsqueeze", ["m", "axes"], ["u"]],
      ["Concat", ["u", "one"], ["shape"], { axis: { int: 0 } }],
      ["Reshape", ["x", "shape"], ["y"]],
    ],
    inputs: { x: [F, ["a", "b"]] },
    outputs: { y: [F, ["c", 1]], shape: [I, [2]] },
    initializers: [
      { name: "zero", dims: [], values: [0], type: I },
      { name: "three", dims: [], values: [3], type: I },
      { name: "axes", dims: [1], values: [0], type: I },
      { name: "one", dims: [1], values: [1], type: I },
    ],
  });
  const x = x23().realize();
  GlobalCounters.reset();
  const y = model.call(x).y as Tensor;
  assert.deepEqual(await y.tolist(), [[1], [2], [3], [4], [5], [6]]);
  assert.equal(GlobalCounters.kernelCount, 0);
});

Deno.test("onnx: If, Loop and functions of the model", async () => {
  const branch = (op: string) => ({ nodes: [[op, ["x", "x"], ["r"]] as const], outputs: { r: [F, []] as const } });
  const model = await load({
    nodes: [
      ["ReduceSum", ["x"], ["sum"], { keepdims: { int: 0 } }],
      ["Greater", ["sum", "ten"], ["big"]],
      ["If", ["big"], ["v"], { then_branch: { graph: branch("Mul") }, else_branch: { graph: branch("Add") } }],
      ["Loop", ["count", "", "v"], ["last", "all"], {
        body: {
          graph: {
            nodes: [["Twice", ["c"], ["next"], {}, "t", "own"], ["Identity", ["go"], ["on"]], ["Identity", ["c"], [
              "seen",
            ]]],
            inputs: { i: [I, []], go: [9, []], c: [F, []] },
            outputs: { on: [9, []], next: [F, []], seen: [F, []] },
          },
        },
      }],
    ],
    inputs: { x: [F, ["n"]] },
    outputs: { last: [F, ["n"]], all: [F, [2, "n"]] },
    initializers: [{ name: "ten", dims: [], values: [10] }, { name: "count", dims: [], values: [2], type: I }],
    functions: [{ name: "Twice", domain: "own", inputs: ["a"], outputs: ["b"], nodes: [["Add", ["a", "a"], ["b"]]] }],
  });
  // what is whole and given as numbers decides under jit as well
  const chosen = await load({
    nodes: [["Equal", ["k", "one"], ["is"]], ["If", ["is"], ["y"], {
      then_branch: { graph: branch("Mul") },
      else_branch: { graph: branch("Add") },
    }]],
    inputs: { x: [F, ["n"]], k: [I, []] },
    outputs: { y: [F, ["n"]] },
    initializers: [{ name: "one", dims: [], values: [1], type: I }],
  });
  const squares = jit((x: Tensor) => chosen.call({ x, k: 1 }).y as Tensor);
  for (const n of [1, 2, 3]) {
    assert.deepEqual(await squares(new Tensor([n, 10], { dtype: "float32", device })).tolist(), [n * n, 100]);
  }
  const small = model.call([1, 2]), large = model.call([1, 20]);
  assert.deepEqual(await (small.last as Tensor).tolist(), [8, 16]);
  assert.deepEqual(await (small.all as Tensor).tolist(), [[2, 4], [4, 8]]);
  assert.deepEqual(await (large.last as Tensor).tolist(), [4, 1600]);
});

Deno.test("onnx: info tells what a file has and lacks", async () => {
  const text = String(
    await onnx.info(
      buildModel({ ...LINEAR, nodes: [...LINEAR.nodes, ["Marvel", ["y"], ["z"], {}, "m", "their.own"]] }),
    ),
  );
  assert.match(text, /x: float\[n, 3\]/);
  assert.match(text, /1 MatMul/);
  assert.match(text, /missing: their\.own\.Marvel/);
});

const base = { inputs: { x: [F, [2]] as const }, outputs: { y: [F, [2]] as const } };
for (
  const [name, spec, want] of [
    ["a cycle", {
      ...base,
      nodes: [["Add", ["x", "b"], ["a"], {}, "first"], ["Add", ["a", "a"], ["b"], {}, "second"], ["Relu", ["a"], [
        "y",
      ]]],
    }, /second.* a cycle through Add "first"|first.* a cycle through Add "second"/],
    [
      "a name that nothing gives",
      { ...base, nodes: [["Add", ["x", "gone"], ["y"], {}, "sum"]] },
      /Add "sum" takes "gone"/,
    ],
    ["an output that nothing gives", { ...base, nodes: [["Relu", ["x"], ["z"]]] }, /output "y" .* by no node/],
    [
      "a name given twice",
      { ...base, nodes: [["Relu", ["x"], ["y"]], ["Abs", ["x"], ["y"], {}, "again"]] },
      /Abs "again" gives "y"/,
    ],
    ["an initializer that is too short", {
      ...base,
      nodes: [["Add", ["x", "w"], ["y"]]],
      initializers: [{ name: "w", dims: [2000000000], values: [1] }],
    }, /initializer "w" has 1 elements for the 2000000000/],
    ["a negative size", {
      ...base,
      nodes: [["Add", ["x", "w"], ["y"]]],
      initializers: [{ name: "w", dims: [-1], values: [1] }],
    }, /initializer "w" has a negative size/],
    ["a type that is none", {
      ...base,
      nodes: [["Add", ["x", "w"], ["y"]]],
      initializers: [{ name: "w", dims: [1], values: [1], type: 99 }],
    }, /initializer "w" has element type 99/],
    ["a function that calls itself", {
      ...base,
      nodes: [["F", ["x"], ["y"], {}, "f", "own"]],
      functions: [{
        name: "F",
        domain: "own",
        inputs: ["a"],
        outputs: ["b"],
        nodes: [["F", ["a"], ["b"], {}, "", "own"]],
      }],
    }, /function "F" calls itself/],
    ["functions that call each other", {
      ...base,
      nodes: [["F", ["x"], ["y"], {}, "f", "own"]],
      functions: ["F", "G"].map((name, i) => ({
        name,
        domain: "own",
        inputs: ["a"],
        outputs: ["b"],
        nodes: [["FG"[1 - i], ["a"], ["b"], {}, "", "own"]],
      })),
    }, /function "[FG]" calls itself/],
    ["a function of functions of 10^11 nodes", {
      ...base,
      nodes: [["F0", ["x"], ["y"], {}, "f", "own"]],
      functions: Array.from({ length: 12 }, (_, i) => ({
        name: `F${i}`,
        domain: "own",
        inputs: ["t0"],
        outputs: ["t10"],
        nodes: Array.from(
          { length: 10 },
          (_, k): NodeSpec =>
            i === 11 ? ["Identity", [`t${k}`], [`t${k + 1}`]] : [`F${i + 1}`, [`t${k}`], [`t${k + 1}`], {}, "", "own"],
        ),
      })),
    }, /own\.F0 "f" calls functions of 1000000000000 nodes, more than 1000000/],
  ] as readonly [string, ModelSpec, RegExp][]
) {
  Deno.test(`onnx: ${name} is refused`, async () => {
    await assert.rejects(load(spec), (e: Error) => e.name === "FormatError" && want.test(e.message));
  });
}

Deno.test("onnx: external data is read from the model's folder alone", () =>
  inFolder(async (folder) => {
    await Deno.writeFile(`${folder}/w.bin`, new Uint8Array(Float32Array.of(0, 10, 20).buffer));
    const model = (external: Record<string, string>) =>
      buildModel({
        ...base,
        nodes: [["Add", ["x", "w"], ["y"]]],
        initializers: [{ name: "w", dims: [2], values: [], external }],
      });
    const at = `${folder}/model.onnx`,
      write = (external: Record<string, string>) => Deno.writeFile(at, model(external));
    await write({ location: "w.bin", offset: "4" });
    const { y } = (await onnx.load(at, { device })).call([1, 2]);
    assert.deepEqual(await (y as Tensor).tolist(), [11, 22]);
    for (
      const [external, want] of [
        [{ location: "../w.bin" }, /not in the model's folder/],
        [{ location: "/etc/passwd" }, /not in the model's folder/],
        [{ location: "w.bin", offset: "8" }, /needs 8 bytes at 8 .* which has 12/],
        [{ location: "w.bin", offset: "-4" }, /offset "-4"/],
        [{ location: "w.bin", length: "4" }, /needs 8 bytes/],
      ] as const
    ) {
      await write(external);
      await assert.rejects(onnx.load(at, { device }), want);
    }
    // in memory, as a page has it
    const inMemory = model({ location: "./w.bin", offset: "4" }), bytes = Float32Array.of(0, 10, 20).buffer;
    for (const file of [bytes, new Uint8Array(bytes)]) {
      const { y } = (await onnx.load(inMemory, { device, files: { "w.bin": file } })).call([1, 2]);
      assert.deepEqual(await (y as Tensor).tolist(), [11, 22]);
    }
    for (
      const [files, want] of [
        [undefined, /weights in "\.\/w\.bin", which a model in memory cannot open: give it as \{ files: \{/],
        [{ other: bytes }, /weights in "\.\/w\.bin"/],
        [{ "w.bin": "text" }, /"\.\/w\.bin" is "text", not bytes/],
        [[bytes], /files must be bytes by name/],
      ] as const
    ) {
      await assert.rejects(onnx.load(inMemory, { device, files: files as never }), want);
    }
  }));

Deno.test("onnx: constants of nodes, branches and functions may lie in files as well", async () => {
  const external = { location: "w.bin" }, files = { "w.bin": Float32Array.of(10, 20).buffer };
  const constant = (external: Record<string, string>): NodeSpec => [
    "Constant",
    [],
    ["k"],
    { value: { tensor: { name: "", dims: [2], values: [], external } } },
  ];
  const spec: ModelSpec = {
    ...base,
    nodes: [["If", ["q"], ["z"], {
      then_branch: {
        graph: {
          nodes: [["Add", ["x", "w"], ["a"]], ["Shift", ["a"], ["t"], {}, "n", "own"]],
          outputs: { t: [F, [2]] },
          initializers: [{ name: "w", dims: [2], values: [], external }],
        },
      },
      else_branch: { graph: { nodes: [["Neg", ["x"], ["e"]]], outputs: { e: [F, [2]] } } },
    }], ["Identity", ["z"], ["y"]]],
    initializers: [{ name: "q", dims: [], values: [1], type: 9 }],
    functions: [{
      name: "Shift",
      domain: "own",
      inputs: ["a"],
      outputs: ["b"],
      nodes: [constant(external), ["Sub", ["a", "k"], ["s"]], ["Mul", ["s", "k"], ["b"]]],
    }],
  };
  const { y } = (await onnx.load(buildModel(spec), { device, files })).call([1, 2]);
  assert.deepEqual(await (y as Tensor).tolist(), [10, 40]);
  await assert.rejects(onnx.load(buildModel(spec), { device }), /it has weights in "w\.bin"/);
});

Deno.test("onnx: wrong calls are told by name", async () => {
  const model = await load(LINEAR);
  assert.throws(() => model.call(), /input "x" is missing; it takes "x"/);
  assert.throws(() => model.call({ z: x23() }), /no input "z", but "x"/);
  assert.throws(() => model.call(x23(), x23()), /was given 2 inputs/);
  assert.throws(() => model.call(new Tensor([1, 2, 3], { dtype: "float32", device })), /it has the axes \[n, 3\]/);
  assert.throws(() => model.call(new Tensor([[1, 2]], { dtype: "float32", device })), /axis 1 is 3/);
  assert.throws(() => model.call(new Tensor([[true, true, false]], { device })), /use \.cast\("float32"\)/);
  const failing = await load({
    ...base,
    nodes: [["Reshape", ["x", "s"], ["y"], {}, "shaper"]],
    initializers: [{ name: "s", dims: [1], values: [5], type: I }],
  });
  assert.throws(() => failing.call([1, 2]), /Reshape "shaper": \[2\] does not become \[5\]/);
  // as PyTorch 2.13 writes the pads of fold: axis by axis
  const folded = await load({
    nodes: [[
      "Col2Im",
      ["x", "size", "block"],
      ["y"],
      { pads: { ints: [1, 1, 0, 0] }, strides: { ints: [2, 1] } },
      "fold",
    ]],
    inputs: { x: [F, [1, 6, 12]] },
    outputs: { y: [F, [1, 1, 4, 6]] },
    initializers: [{ name: "size", dims: [2], values: [4, 6], type: I }, {
      name: "block",
      dims: [2],
      values: [2, 3],
      type: I,
    }],
    opset: 18,
  });
  assert.throws(
    () => folded.call(Tensor.ones([1, 6, 12], { device })),
    /Col2Im "fold": its input has 12 blocks, and \[4, 6\] with pads \[1, 1, 0, 0\] has 2 by 5/,
  );
});

Deno.test("onnx: what has no elements yet fits free axes of any size", async () => {
  const model = await load({
    nodes: [["Identity", ["x"], ["y"]], ["Shape", ["past"], ["s"]]],
    inputs: { x: [F, ["batch", 2]], past: [F, ["batch", "length"]] },
    outputs: { y: [F, ["batch", 2]], s: [I, [2]] },
  });
  const x = Tensor.ones([3, 2], { device });
  const { y, s } = model.call({ x, past: Tensor.zeros([0, 5], { device }) });
  assert.deepEqual([(y as Tensor).shape, await (s as Tensor).tolist()], [[3, 2], [0, 5]]);
  assert.throws(() => model.call({ x, past: Tensor.zeros([2, 5], { device }) }), /which is batch, is 3 in "x"/);
});

Deno.test("onnx: spoiled models give named errors, never others", async () => {
  const bytes = buildModel(LINEAR);
  let seed = 5;
  const random = (n: number): number => (seed = (seed * 1103515245 + 12345) % 2 ** 31) % n;
  for (let i = 0; i < 300; i++) {
    const spoiled = bytes.slice(0, i % 3 === 0 ? random(bytes.length) : bytes.length);
    if (spoiled.length > 0) spoiled[random(spoiled.length)] = random(256);
    try {
      const model = await onnx.load(spoiled, { device });
      model.call(...model.inputs.map(() => x23()));
    } catch (error) {
      assert(
        ["FormatError", "ArgumentError", "ShapeError", "DTypeError"].includes((error as Error).name),
        `${(error as Error).stack}`,
      );
    }
  }
});
