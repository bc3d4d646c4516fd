/** Models that take back what they gave: caches that grow under one capture, states, sizes that are variables. @module */
import assert from "node:assert/strict";
import { Device, type DeviceName, jit, Tensor, Variable } from "../../mod.ts";
import * as onnx from "../../src/onnx/onnx.ts";
import { opensHere } from "../fixtures/devices.ts";
import { buildModel, type ModelSpec, type NodeSpec } from "./build_model.ts";

await Device.open(Device.default);
const F = 1, I = 7, device = "WASM", hasGpu = await opensHere("WEBGPU");
const DEVICES = ["WASM", ...(hasGpu ? ["WEBGPU"] : [])] as const;
const load = (spec: ModelSpec, on: DeviceName = device) => onnx.load(buildModel(spec), { device: on });
const ints = (name: string, values: readonly number[], dims: readonly number[] = [values.length]) => ({
  name,
  dims,
  values,
  type: I,
});

/** Attention of what comes to all that was there: positions by Range, a causal mask of both lengths. */
const ATTENTION: readonly NodeSpec[] = [
  ["Concat", ["past_key", "x"], ["present_key"], { axis: { int: 1 } }],
  ["Shape", ["past_key"], ["past_shape"]],
  ["Gather", ["past_shape", "one"], ["past"], { axis: { int: 0 } }],
  ["Shape", ["x"], ["x_shape"]],
  ["Gather", ["x_shape", "one"], ["new"], { axis: { int: 0 } }],
  ["Add", ["past", "new"], ["all"]],
  ["Range", ["past", "all", "one"], ["rows"]],
  ["Range", ["zero", "all", "one"], ["columns"]],
  ["Unsqueeze", ["rows", "axis1"], ["row"]],
  ["Greater", ["columns", "row"], ["later"]],
  ["Cast", ["later"], ["mask"], { to: { int: F } }],
  ["Mul", ["mask", "low"], ["bias"]],
  ["Unsqueeze", ["all", "axis0"], ["all1"]],
  ["Concat", ["minus1", "all1"], ["flat"], { axis: { int: 0 } }],
  ["Transpose", ["present_key"], ["turned"], { perm: { ints: [0, 2, 1] } }],
  ["MatMul", ["x", "turned"], ["dots"]],
  ["Reshape", ["dots", "flat"], ["scores"]],
  ["Add", ["scores", "bias"], ["biased"]],
  ["Softmax", ["biased"], ["weights"]],
  ["Shape", ["dots"], ["dots_shape"]],
  ["Reshape", ["weights", "dots_shape"], ["shares"]],
  ["MatMul", ["shares", "present_key"], ["y"]],
];
const DECODER: ModelSpec = {
  nodes: ATTENTION,
  inputs: { x: [F, [1, "new", 4]], past_key: [F, [1, "past", 4]] },
  outputs: { y: [F, [1, "new", 4]], present_key: [F, [1, "past + new", 4]] },
  initializers: [
    ints("zero", [0], []),
    ints("one", [1], []),
    ints("axis0", [0]),
    ints("axis1", [1]),
    ints("minus1", [-1]),
    { name: "low", dims: [], values: [-1e9] },
  ],
};
const rowsOn = (on: DeviceName, from: number, to: number): Tensor =>
  Tensor.arange(from * 4, to * 4).mul(0.37).sin().reshape([1, to - from, 4]).to(on).contiguous().realize();
const close = (a: number[], b: number[]) => a.forEach((x, i) => assert.ok(Math.abs(x - b[i]) < 1e-5, `${x} ${b[i]}`));

const numbersOf = async (t: onnx.OnnxOutput): Promise<number[]> => (await (t as Tensor).flatten().tolist()) as number[];

for (const device of DEVICES) {
  Deno.test(`session on ${device}: steps along a cache that grows are one capture, and equal those without one`, async () => {
    const model = await load(DECODER, device), session = onnx.session(model, { length: 9 });
    for (let turn = 0; turn < 2; turn++) {
      session.reset();
      let past = Tensor.zeros([1, 0, 4], { device });
      for (const [from, to] of [[0, 3], [3, 4], [4, 5], [5, 6], [6, 7], [7, 9]]) {
        const x = rowsOn(device, from, to), want = await model.run({ x, past_key: past });
        assert.equal(session.position, from);
        const got = session.step({ x });
        assert.deepEqual(Object.keys(got), ["y"]);
        close(
          await numbersOf(got.y),
          await numbersOf(want.y),
        );
        past = (want.present_key as Tensor).contiguous().realize();
      }
    }
    const { eager, captures, replays } = session.stats; // of steps by one and by two positions
    assert.deepEqual([eager, captures, replays], [2, 2, 6]);
    assert.throws(
      () => session.step({ x: rowsOn(device, 0, 1) }),
      /room for 9 positions, and this would be 10.*reset\(\)/,
    );
    session.reset();
    assert.equal(session.position, 0);
    session.step({ x: rowsOn(device, 0, 1) });
  });

  Deno.test(`session on ${device}: what a step gives is computed in the same capture`, async () => {
    const model = await load(DECODER, device);
    const session = onnx.session(model, {
      length: 64,
      gives: ({ y }) => ({ sum: (y as Tensor).sum(), n: 3 as never }),
    });
    const sums: number[] = [];
    for (let i = 0; i < 6; i++) {
      sums.push(Number(await (session.step({ x: rowsOn(device, i, i + 1) }).sum as Tensor).item()));
    }
    let past = Tensor.zeros([1, 0, 4], { device });
    for (let i = 0; i < 6; i++) {
      const want = await model.run({ x: rowsOn(device, i, i + 1), past_key: past });
      close([sums[i]], [Number(await (want.y as Tensor).sum().item())]);
      past = (want.present_key as Tensor).contiguous().realize();
    }
  });

  Deno.test(`session on ${device}: states of one size take the place of those before`, async () => {
    const model = await load({
      nodes: [["Mul", ["state", "half"], ["h"]], ["Add", ["h", "x"], ["stateN"]], ["Neg", ["stateN"], ["y"]]],
      inputs: { x: [F, [2]], state: [F, [2]] },
      outputs: { y: [F, [2]], stateN: [F, [2]] },
      initializers: [{ name: "half", dims: [], values: [0.5] }],
    }, device);
    assert.throws(() => onnx.session(model), /none of its inputs is called past.*keeps: \{ input: "output" \}/);
    assert.throws(() => onnx.session(model, { keeps: { stat: "stateN" } }), /no input "stat" to keep, but x, state/);
    assert.throws(() => onnx.session(model, { keeps: { state: "z" } }), /no output "z" to keep, but y, stateN/);
    const session = onnx.session(model, { keeps: { state: "stateN" } }), x = Tensor.ones([2], { device }).contiguous();
    const seen = [];
    for (let i = 0; i < 4; i++) seen.push((await (session.step({ x }).y as Tensor).tolist() as number[])[0]);
    assert.deepEqual(seen, [-1, -1.5, -1.75, -1.875]);
    session.reset();
    const state = new Tensor([4, 4], { dtype: "float32", device });
    assert.deepEqual(await (session.step({ x, state }).y as Tensor).tolist(), [-3, -3]);
    assert.deepEqual(await (session.step({ x }).y as Tensor).tolist(), [-2.5, -2.5]);
  });
}

/** Of a matrix whose rows are a variable: what a graph makes of its shape, and the sizes that it must have. */
const n5 = 5;
const SHAPES: readonly [name: string, nodes: readonly NodeSpec[], want: (x: Tensor) => Tensor][] = [
  ["the last rows", [["Slice", ["x", "minus2", "big", "axis0"], ["y"]]], (x) => x.at([-2, null])],
  ["all but the last row", [["Slice", ["x", "zeros", "minus1", "axis0"], ["y"]]], (x) => x.at([0, -1])],
  ["half of the rows", [
    ["Shape", ["x"], ["s"]],
    ["Gather", ["s", "axis0"], ["n"], { axis: { int: 0 } }],
    ["Div", ["n", "twos"], ["h"]],
    ["Slice", ["x", "zeros", "h", "axis0"], ["y"]],
  ], (x) => x.at([0, Math.floor(n5 / 2)])],
  ["a flat list", [
    ["Size", ["x"], ["c"]],
    ["Unsqueeze", ["c", "axis0"], ["s"]],
    ["Reshape", ["x", "s"], ["y"]],
  ], (x) => x.reshape([-1])],
  ["a flat list by -1", [["Reshape", ["x", "minus1"], ["y"]]], (x) => x.reshape([-1])],
  ["a flat list by Flatten", [["Flatten", ["x"], ["y"], { axis: { int: 0 } }]], (x) => x.reshape([1, -1])],
  ["positions", [
    ["Shape", ["x"], ["s"]],
    ["Gather", ["s", "zero"], ["n"], { axis: { int: 0 } }],
    ["Range", ["zero", "n", "one"], ["r"]],
    ["Cast", ["r"], ["y"], { to: { int: F } }],
  ], () => Tensor.arange(n5).float()],
  ["a row of ones for each row", [
    ["Shape", ["x"], ["s"]],
    ["ConstantOfShape", ["s"], ["z"]],
    ["Expand", ["row", "s"], ["e"]],
    ["Add", ["z", "e"], ["y"]],
  ], (x) => Tensor.ones(x.shape)],
  [
    "the shape as numbers",
    [["Shape", ["x"], ["s"]], ["Cast", ["s"], ["y"], { to: { int: F } }]],
    () => new Tensor([n5, 3], { dtype: "float32" }),
  ],
  ["where a size is told by its bounds", [
    ["Shape", ["x"], ["s"]],
    ["Equal", ["s", "minus1"], ["q"]],
    ["Where", ["q", "one", "s"], ["t"]],
    ["Expand", ["row", "t"], ["y"]],
  ], (x) => Tensor.ones(x.shape)],
];
for (const [name, nodes, want] of SHAPES) {
  Deno.test(`onnx: of a matrix whose rows are a variable: ${name}`, async () => {
    const model = await load({
      nodes,
      inputs: { x: [F, ["n", 3]] },
      outputs: { y: [F, []] },
      initializers: [
        ints("zero", [0], []),
        ints("one", [1], []),
        ints("zeros", [0]),
        ints("axis0", [0]),
        ints("twos", [2]),
        ints("minus1", [-1]),
        ints("minus2", [-2]),
        ints("big", [2 ** 31 - 1]),
        { name: "row", dims: [1, 3], values: [1, 1, 1] },
      ],
    });
    const data = Tensor.arange(24).float().reshape([8, 3]).to(device).contiguous().realize();
    const n = new Variable("n", 2, 8), f = jit((x: Tensor) => model.call(x).y as Tensor);
    for (const size of [4, 7, n5]) {
      const y = f(data.shrink([[0, n.bind(size)], [0, 3]]));
      if (size === n5) assert.deepEqual(await y.tolist(), await want(data.at([0, n5]).contiguous()).tolist());
      else await y.tolist();
    }
    assert.equal(f.stats.captures, 1);
  });
}

Deno.test("onnx: what cannot take a size that is a variable says so", async () => {
  const model = await load({
    nodes: [["Shape", ["x"], ["s"]], ["Tile", ["x", "s"], ["y"]]],
    inputs: { x: [F, ["n", 3]] },
    outputs: { y: [F, []] },
  });
  const x = Tensor.ones([8, 3], { device }).contiguous().realize(), n = new Variable("n", 2, 8);
  assert.throws(
    () => model.call(x.shrink([[0, n.bind(4)], [0, 3]])),
    /its input 1 depends on a variable that is the size of an axis, which Tile cannot take/,
  );
});
