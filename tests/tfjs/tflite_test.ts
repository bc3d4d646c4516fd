/** Files of TensorFlow Lite: operators, quantized tensors against arithmetic on whole numbers, branches, spoiled files. */
import assert from "node:assert/strict";
import { Device, jit, Tensor } from "../../mod.ts";
import { loadTFLite } from "../../src/tfjs/tfjs.ts";
import { buildTFLite, type Fields, type LiteGraphSpec, type LiteTensorSpec } from "./build_tflite.ts";

await Device.open(Device.default);
const device = "WASM", load = (...graphs: LiteGraphSpec[]) => loadTFLite(buildTFLite(...graphs), { device });
const x = (shape: readonly number[]): LiteTensorSpec => ({ name: "x", shape }), y = { name: "y", shape: [] };
const floats = (name: string, shape: readonly number[], values: readonly number[]): LiteTensorSpec => ({
  name,
  shape,
  data: Float32Array.from(values),
});
const ints = (name: string, values: readonly number[]): LiteTensorSpec => ({
  name,
  shape: [values.length],
  type: 2,
  data: Int32Array.from(values),
});
const count = (n: number): number[] => Array.from({ length: n }, (_, i) => i);
const input = (...shape: number[]) => Tensor.arange(shape.reduce((a, b) => a * b, 1)).float().reshape(shape).to(device);

/** A model of one operator: its constants behind x, what it gives for 0, 1, 2… */
const CASES: readonly (readonly [
  name: string,
  code: number,
  shape: readonly number[],
  constants: readonly LiteTensorSpec[],
  options: Fields | undefined,
  want: unknown,
])[] = [
  ["ADD with RELU", 0, [3], [floats("c", [1], [-1])], { 0: { byte: 1 } }, [0, 0, 1]],
  ["MUL with RELU6", 18, [3], [floats("c", [1], [4])], { 0: { byte: 3 } }, [0, 4, 6]],
  ["FULLY_CONNECTED, flattened", 9, [1, 2, 2], [
    floats("w", [2, 4], [1, 0, 0, 0, 0, 0, 0, 2]),
    floats("b", [2], [10, 20]),
  ], {
    0: { byte: 0 },
  }, [[10, 26]]],
  ["RESHAPE by an option", 22, [2, 3], [], { 0: { ints: [3, 2] } }, [[0, 1], [2, 3], [4, 5]]],
  ["CONV_2D, same", 3, [1, 2, 2, 1], [floats("w", [1, 2, 2, 1], [1, 1, 1, 1]), floats("b", [1], [0.5])], {
    0: { byte: 0 },
    1: { int: 1 },
    2: { int: 1 },
  }, [[[[6.5], [4.5]], [[5.5], [3.5]]]]],
  ["DEPTHWISE_CONV_2D", 4, [1, 2, 2, 2], [
    floats("w", [1, 2, 2, 2], [1, 10, 1, 10, 1, 10, 1, 10]),
    floats("b", [2], [0, 1]),
  ], {
    0: { byte: 1 },
    1: { int: 1 },
    2: { int: 1 },
    3: { int: 1 },
  }, [[[[12, 161]]]]],
  ["AVERAGE_POOL_2D", 1, [1, 2, 2, 1], [], {
    0: { byte: 1 },
    1: { int: 2 },
    2: { int: 2 },
    3: { int: 2 },
    4: { int: 2 },
  }, [[[[
    1.5,
  ]]]]],
  ["MEAN kept", 40, [2, 2], [ints("axes", [1])], { 0: { byte: 1 } }, [[0.5], [2.5]]],
  ["STRIDED_SLICE, one row", 45, [3, 2], [ints("b", [1, 0]), ints("e", [2, 2]), ints("s", [1, 1])], { 4: { int: 1 } }, [
    2,
    3,
  ]],
  ["TRANSPOSE", 39, [2, 3], [ints("p", [1, 0])], undefined, [[0, 3], [1, 4], [2, 5]]],
  ["PAD", 34, [1, 2], [{ ...ints("p", [0, 1, 1, 0]), shape: [2, 2] }], undefined, [[0, 0, 1], [0, 0, 0]]],
  ["LEAKY_RELU", 98, [2], [], { 0: { float: 0.5 } }, [0, 1]],
  ["RESIZE_NEAREST_NEIGHBOR", 97, [1, 1, 2, 1], [ints("size", [1, 4])], {}, [[[[0], [0], [1], [1]]]]],
  ["SOFTMAX", 25, [1, 2], [], { 0: { float: 1 } }, undefined],
];
for (const [name, code, shape, constants, options, want] of CASES) {
  Deno.test(`tflite: ${name}`, async () => {
    const channels = code === 4 ? { ...y, shape: [1, 1, 1, 2] } : y;
    const model = await load({
      tensors: [x(shape), channels, ...constants],
      inputs: [0],
      outputs: [1],
      operators: [{ code, inputs: [0, ...constants.map((_, i) => i + 2)], outputs: [1], options }],
    });
    assert.deepEqual(model.inputs, [{ name: "x", type: "float", shape: [...shape], kind: "tensor" }]);
    const f = jit((t: Tensor) => model.call(t).y as Tensor);
    for (let k = 0; k < 3; k++) {
      const got = await f(input(...shape)).tolist();
      if (want !== undefined) assert.deepEqual(got, want);
      else assert.ok(Math.abs((got as number[][])[0][1] - 1 / (1 + Math.exp(-1))) < 1e-6);
    }
  });
}

/** A dense layer of int8, by the arithmetic of whole numbers that its format is defined by. */
Deno.test("tflite: a quantized layer gives the whole numbers that integer arithmetic gives", async () => {
  const rows = 3,
    inside = 8,
    outside = 4,
    random = (n: number, from: number, to: number, seed: number) =>
      count(n).map((i) =>
        from + Math.floor(((Math.sin(i * 12.9898 + seed) * 43758.5453) % 1 + 1) % 1 * (to - from + 1))
      );
  const w = Int8Array.from(random(inside * outside, -127, 127, 1)),
    given = Int8Array.from(random(rows * inside, -128, 127, 2));
  const b = Int32Array.from(random(outside, -500, 500, 3)), sx = 0.05, zx = -7, sy = 0.4, zy = 11;
  const scales = [0.01, 0.02, 0.005, 0.04];
  const model = await load({
    tensors: [
      { name: "x", shape: [rows, inside], type: 9, scale: [sx], zero: [zx] },
      { name: "y", shape: [rows, outside], type: 9, scale: [sy], zero: [zy] },
      { name: "w", shape: [outside, inside], type: 9, data: w, scale: scales, axis: 0 },
      {
        name: "b",
        shape: [outside],
        type: 2,
        data: b,
        scale: scales.map((s) => Math.fround(s) * Math.fround(sx)),
        axis: 0,
      },
    ],
    inputs: [0],
    outputs: [1],
    operators: [{ code: 9, inputs: [0, 2, 3], outputs: [1], options: { 0: { byte: 0 } } }],
  });
  assert.deepEqual([model.inputs[0].type, model.outputs[0].type], ["int8", "int8"]);
  const got = await (model.call(new Tensor(given, { device }).reshape([rows, inside])).y as Tensor).data();
  let differ = 0;
  for (let r = 0; r < rows; r++) {
    for (let o = 0; o < outside; o++) {
      let sum = b[o];
      for (let i = 0; i < inside; i++) sum += (given[r * inside + i] - zx) * w[o * inside + i];
      const exact = sum * scales[o] * sx / sy + zy, want = Math.max(-128, Math.min(127, Math.round(exact)));
      const found = Number((got as Int8Array)[r * outside + o]);
      // halves may go either way
      assert.ok(Math.abs(found - Math.max(-128, Math.min(127, exact))) <= 0.5 + 1e-3, `${found} for ${exact}`);
      if (found !== want) differ++;
    }
  }
  assert.ok(differ <= 1);
});

const BRANCH = (c: number): LiteGraphSpec => ({
  tensors: [x([2]), y, floats("c", [1], [c])],
  inputs: [0],
  outputs: [1],
  operators: [{ code: 18, inputs: [0, 2], outputs: [1], options: {} }],
});
Deno.test("tflite: a condition chooses one of two graphs", async () => {
  const main: LiteGraphSpec = {
    tensors: [x([2]), y, { name: "q", shape: [], type: 6 }],
    inputs: [2, 0],
    outputs: [1],
    operators: [{ code: 118, inputs: [2, 0], outputs: [1], options: { 0: { int: 1 }, 1: { int: 2 } } }],
  };
  const model = await load(main, BRANCH(10), BRANCH(-1));
  const t = new Tensor([1, 2], { dtype: "float32", device });
  assert.deepEqual(await (model.call({ q: true, x: t }).y as Tensor).tolist(), [10, 20]);
  assert.deepEqual(await (model.call({ q: false, x: t }).y as Tensor).tolist(), [-1, -2]);
  await assert.rejects(
    load({ ...main, operators: [{ ...main.operators[0], options: { 0: { int: 0 } } }] }),
    /graph 0 is within itself/,
  );
  await assert.rejects(load(main), /it has no graph 1/);
});

Deno.test("tflite: files that are none, or lie, are refused by name", async () => {
  const good = BRANCH(1), spec = (change: Partial<LiteGraphSpec>) => load({ ...good, ...change });
  await assert.rejects(
    loadTFLite(new Uint8Array(100)),
    /Cannot read the model of TensorFlow Lite model in memory: it does not begin/,
  );
  await assert.rejects(
    loadTFLite(new Uint8Array([200, 9, 9, 9, 84, 70, 76, 51])),
    /truncated: 4 bytes at 151587272 are needed/,
  );
  const op = good.operators[0];
  await assert.rejects(
    spec({ operators: [{ ...op, code: 16 }] }),
    /operator 0, which gives "y", is operator 16, which is not known/,
  );
  await assert.rejects(spec({ operators: [{ ...op, inputs: [0, 9] }] }), /tensor 9 is asked for, and there are 3/);
  await assert.rejects(spec({ operators: [{ ...op, inputs: [1, 2] }] }), /tensor 1, "y", is taken before it is given/);
  await assert.rejects(spec({ operators: [] }), /tensor 1, "y", is taken before it is given/);
  await assert.rejects(
    spec({ tensors: [x([2]), y, floats("c", [3], [1])] }),
    /tensor "c" has 4 bytes, and \[3\] of its type is 12/,
  );
  await assert.rejects(spec({ tensors: [x([2]), y, { ...floats("c", [1], [1]), type: 8 }] }), /tensor "c" has type 8/);
  await assert.rejects(
    spec({ tensors: [x([2]), y, { name: "c", shape: [2], type: 9, data: Int8Array.of(1, 2), scale: [1, 2, 3] }] }),
    /tensor "c" has 3 scales for the axis 0 of \[2\]/,
  );
});

Deno.test("tflite: spoiled files give named errors, never others", async () => {
  const bytes = buildTFLite(BRANCH(3));
  let seed = 7, refused = 0;
  const next = (n: number) => (seed = (seed * 48271) % 2147483647) % n;
  for (let k = 0; k < 300; k++) {
    const spoiled = bytes.slice(0, k % 3 === 0 ? next(bytes.length) : bytes.length);
    for (let i = 0; i < 1 + k % 4 && spoiled.length > 8; i++) spoiled[8 + next(spoiled.length - 8)] = next(256);
    try {
      const model = await loadTFLite(spoiled, { device });
      model.call(...model.inputs.map(() => Tensor.zeros([2], { device })));
    } catch (error) {
      assert.match(
        (error as Error).name,
        /^(FormatError|ArgumentError|ShapeError|DTypeError)$/,
        (error as Error).stack,
      );
      refused++;
    }
  }
  assert.ok(refused > 100);
});
