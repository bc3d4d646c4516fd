/** Functions written as ONNX models: read again with equal values, by onnxruntime where it can be fetched; errors. @module */
import assert from "node:assert/strict";
import { assertClose } from "./close.ts";
import { Device, nn, Tensor, Variable } from "../../mod.ts";
import * as onnx from "../../src/onnx/onnx.ts";
import { readModel } from "../../src/onnx/wire/messages.ts";
import { runDeno } from "../system/subprocess.ts";
import { methodSaves } from "./method_saves.ts";
import { randomSaves } from "./random_saves.ts";
import { Random } from "../support/random.ts";
import { savedModels } from "./saved_models.ts";
import { inFolder } from "../support/folder.ts";

Device.default = "WASM";
await Device.open("WASM");

const tensorsOf = (result: unknown): Tensor[] =>
  result instanceof Tensor ? [result] : Object.values(result as Record<string, Tensor>);

for (const [name, { f, args, others, options, has }] of Object.entries(savedModels())) {
  Deno.test(`onnx: ${name} is written and read again`, async () => {
    const bytes = await onnx.toBytes(f, args, options), model = await onnx.load(bytes);
    for (const given of others === undefined ? [args] : [args, others]) {
      const got = Object.values(model.call(...given)) as Tensor[], want = tensorsOf(f(...given));
      assert.equal(got.length, want.length);
      for (const [i, t] of want.entries()) await assertClose(got[i], t);
    }
    const ops = readModel(bytes, name).graph.nodes.map((n) => n.op);
    let at = -1;
    for (const op of has) {
      at = ops.indexOf(op, at + 1);
      assert.ok(at >= 0, `${op} of ${has} is not in this order among ${ops}`);
    }
  });
}

Deno.test("onnx: written models in onnxruntime, where it can be fetched", async () => {
  const { code, stdout, stderr } = await runDeno(["run", "-A", "--no-check", "tests/onnx/saved_models.ts"]);
  if (code !== 0 && /registry\.npmjs\.org|npm package|Failed loading/.test(stderr)) {
    console.log("npm's onnxruntime-node cannot be fetched: its comparison is left out");
    return;
  }
  assert.equal(code, 0, stdout + stderr);
  assert.equal(stdout.trim().split("\n").length, 39, stdout);
});

Deno.test("onnx: a reduction by key goes through its terms once, however many results there are", async () => {
  const terms = 3000, results = 2000, places = Array.from({ length: terms }, (_, i) => (i * 7919) % 2003 - 3);
  const index = new Tensor(places, { dtype: "int32" }).realize(), x = Tensor.zeros([results]).contiguous().realize();
  const f = (x: Tensor, i: Tensor, source: Tensor): Tensor => x.scatterReduce(0, i, source, "sum");
  const values = Tensor.arange(terms).float().realize(), args = [x, index, values];
  const bytes = await onnx.toBytes(f, args), { nodes } = readModel(bytes, "scatter").graph;
  const ops = nodes.map((n) => n.op);
  assert.ok(ops.includes("ScatterElements") && !ops.some((op) => /^(Reduce|Equal|MatMul)/.test(op)), `${ops}`);
  const want = new Array<number>(results).fill(0);
  for (const [i, p] of places.entries()) {
    const at = p < 0 ? p + results : p;
    if (at < results) want[at] += i; // what is beyond the end goes nowhere
  }
  const [got] = Object.values((await onnx.load(bytes)).call(...args)) as Tensor[];
  assert.deepEqual(await got.tolist(), want);
});

Deno.test("onnx: float64 stays float64 in means of padded windows and in layer normalization", async () => {
  const x = new Tensor(Float64Array.from({ length: 24 }, (_, i) => Math.sin(i * 1.7))).reshape([1, 2, 3, 4]).realize();
  const functions: Record<string, (x: Tensor) => Tensor> = {
    mean: (x) => x.avgPool2d(3, { padding: 1, stride: 1 }),
    norm: (x) => x.layernorm(-1),
    plainNorm: (x) => x.layernorm(-1, { eps: 2 ** -10 }),
  };
  for (const [name, f] of Object.entries(functions)) {
    const bytes = await onnx.toBytes(f, [x]), [got] = Object.values((await onnx.load(bytes)).call(x)) as Tensor[];
    const want = await f(x).data() as Float64Array;
    assert.equal(got.dtype.name, "float64");
    for (const [i, v] of [...await got.data() as Float64Array].entries()) {
      assert.ok(Math.abs(v - want[i]) <= 1e-15, `${name} ${i}: ${v}, want ${want[i]}`);
    }
    const { nodes } = readModel(bytes, name).graph;
    assert.equal(nodes.some((n) => n.op === "LayerNormalization"), name === "plainNorm");
  }
});

Deno.test("onnx: random programs are written, read again, and compute the same", async () => {
  const { compared, failures } = await randomSaves({ seed: 5, count: 16 });
  assert.deepEqual(failures, []);
  assert.ok(compared >= 10, `${compared}`);
});

Deno.test("onnx: methods of tensors are written and read again, or are refused as docs/onnx.md says", async () => {
  const every = Number(Deno.env.get("METHODS_EVERY") ?? 40), from = 7;
  const { compared, refused, failures } = await methodSaves({ every, from });
  assert.deepEqual(failures, []);
  assert.ok(compared > 3000 / every, `${compared}`);
  const told = await Deno.readTextFile(new URL("../../docs/onnx.md", import.meta.url));
  for (const name of Object.values(refused).flat()) assert.ok(told.includes(`\`${name}\``), name);
});

Deno.test("onnx: orders are TopK, of all dtypes, with NaN as the largest and equal elements in their order", async () => {
  const values = [3, -1, 0, 3, 2, 7, -1, 0, 5, 3], many = [...values, ...values, ...values, ...values];
  for (
    const dtype of ["float32", "float64", "float16", "int8", "uint8", "int32", "uint32", "int64", "uint64"] as const
  ) {
    for (const list of [values, many]) {
      const kept = dtype.startsWith("u") ? list.map(Math.abs) : list;
      const data = dtype.startsWith("float") ? kept.with(2, NaN).with(5, Infinity) : kept;
      const x = new Tensor(data, { dtype }).reshape([2, list.length / 2]).realize();
      const f = (t: Tensor) => [...t.sort(-1), ...t.sort(0, { descending: true }), ...t.topk(3), t.argsort(1)];
      const bytes = await onnx.toBytes(f, [x]), ops = readModel(bytes, "orders").graph.nodes.map((n) => n.op);
      assert.equal(ops.filter((op) => op === "TopK").length, 3, `${dtype} ${list.length}: ${ops}`);
      const got = Object.values((await onnx.load(bytes)).call(x)) as Tensor[];
      for (const [i, want] of f(x).entries()) {
        assert.deepEqual(
          await got[i].tolist(),
          await want.tolist(),
          `${dtype} ${i}`,
        );
      }
    }
  }
});

Deno.test("onnx: quotients toward zero, lists that are read twice, and axes of one that are to be empty", async () => {
  const f = (x: Tensor, y: Tensor) => [
    x.div(y, { roundingMode: "trunc" }),
    x.mul(new Tensor([1, 2, 3])).add(new Tensor([1, 2, 3]).square()),
    x.shrink([[0, 1], null]).expand([1, 3]).shrink([[0, 0], null]).cat([y.shrink([[0, 0], null])], 0),
  ];
  const x = new Tensor([[7, -7, 5.5], [9, 0, -4]]).float().realize(),
    y = new Tensor([[2, 2, 2], [-4, 3, 3]]).float().realize();
  const got = Object.values((await onnx.load(await onnx.toBytes(f, [x, y]))).call(x, y)) as Tensor[];
  assert.deepEqual(await got[0].tolist(), [[3, -3, 2], [-2, 0, -1]]);
  for (const [i, want] of f(x, y).entries()) assert.deepEqual(await got[i].tolist(), await want.tolist());
});

Deno.test("onnx: weights have the names of the state dict, ports those that are asked for", async () => {
  const layer = new nn.Linear(4, 2),
    options = { weights: { layer }, inputs: ["row"], outputs: ["scores"], name: "tiny" };
  const bytes = await onnx.toBytes((x: Tensor) => layer.call(x), [Tensor.zeros([3, 4])], options);
  const model = await onnx.load(bytes);
  assert.deepEqual(Object.keys(model.weights).sort(), ["layer.bias", "layer.weight"]);
  assert.deepEqual(model.inputs.map((p) => [p.name, p.shape]), [["row", [3, 4]]]);
  assert.deepEqual(model.outputs.map((p) => [p.name, p.shape]), [["scores", [3, 2]]]);
});

Deno.test("onnx: a mean over a free axis divides by its size", async () => {
  const f = (x: Tensor) => [x.mean(0), x.sum(0).div(x.shape[0] as number), x.reshape([-1]), x.expand([2, -1, 3])];
  const model = await onnx.load(await onnx.toBytes(f, [Tensor.zeros([4, 3])], { dynamic: { x: { 0: "n" } } }));
  const x = Tensor.arange(15).reshape([5, 3]).float().realize();
  const got = Object.values(model.call(x)) as Tensor[];
  for (const [i, t] of f(x).entries()) await assertClose(got[i], t);
});

Deno.test("onnx: the largest and the least of whole numbers beyond 2^63", async () => {
  const f = (x: Tensor) => [x.max(), x.min(), ...x.cummin(0)],
    model = await onnx.load(
      await onnx.toBytes(f, [Tensor.zeros([3], { dtype: "uint64" })]),
    );
  const x = new Tensor([2n ** 64n - 64n, 128n, 2n ** 63n], { dtype: "uint64" }).realize();
  const want = f(x), got = Object.values(model.call(x)) as Tensor[];
  for (const [i, t] of got.entries()) assert.deepEqual(await t.tolist(), await want[i].tolist());
  assert.deepEqual(await got[0].tolist(), 2n ** 64n - 64n);
});

Deno.test("onnx: a model in a file", () =>
  inFolder(async (folder) => {
    await onnx.save((x: Tensor) => x.mul(2), [Tensor.zeros([2])], `${folder}/double.onnx`);
    const model = await onnx.load(`${folder}/double.onnx`);
    assert.deepEqual(await (model.call(new Tensor([1, 2], { dtype: "float32" })).y as Tensor).tolist(), [2, 4]);
  }));

const x = Tensor.zeros([2, 3]).realize(), held = Tensor.zeros([3]).realize(), n = new Variable("n", 1, 2);
const REFUSED: readonly (readonly [string, (x: Tensor) => unknown, onnx.SaveOptions, RegExp])[] = [
  ["reads", (x) => (x.sum().itemSync() > 0 ? x : x.neg()), {}, /it reads or realizes what it computes/],
  ["reads its argument", (x) => x.dataSync().length > 0 ? x : x.neg(), {}, /it reads or realizes/],
  ["draws", (x) => x.add(Tensor.rand([3])), {}, /it draws random numbers.*eval mode/],
  [
    "assigns",
    (x) => held.assign(held.add(x.sum(0))),
    {},
    /it assigns to a tensor of shape \[3\].*return the new value/,
  ],
  ["is async", async (x) => await Promise.resolve(x), {}, /it is async/],
  ["gives nothing", () => 1, {}, /it gives no tensor/],
  ["takes bits of numbers", (x) => x.bitcast("int32"), {}, /no form for BITCAST of int32.*bits of numbers/],
  ["lacks an input that is named", (x) => x, { dynamic: { y: { 0: "n" } } }, /names input "y"; its inputs are x/],
  ["has no such axis", (x) => x, { dynamic: { x: { 2: "n" } } }, /names axis 2 of "x", which has shape \[2, 3\]/],
  [
    "depends on a size",
    (x) => x.shape[0] === 2 ? x.sin() : x.cos(),
    { dynamic: { x: { 0: "n" } } },
    /for n it computes something else: COS/,
  ],
  [
    "follows a square",
    (x) => x.sum().expand([(x.shape[0] as number) ** 2 + 1]),
    { dynamic: { x: { 0: "n" } } },
    /neither a sum nor a product/,
  ],
  [
    "takes one size alone",
    (x) => x.reshape([3, 2]),
    { dynamic: { x: { 0: "n" } } },
    /of other sizes for n it fails, as by "Cannot reshape .*": leave n out of `dynamic`/,
  ],
  ["is given two names for one input", (x) => x, { inputs: ["a", "b"] }, /inputs: 1 in the function, 2 names/],
  ["has an output called as its input", (x) => x.neg(), { outputs: ["x"] }, /an input and an output are called "x"/],
  ["is given names that are none", (x) => x, { inputs: [1] as unknown as string[] }, /inputs must be a list of names/],
  [
    "is given axes that are none",
    (x) => x,
    { dynamic: { x: ["n", 1] } as unknown as onnx.Dynamic },
    /dynamic must name axes/,
  ],
];
for (const [what, f, options, message] of REFUSED) {
  Deno.test(`onnx: a function that ${what} is not written`, async () => {
    await assert.rejects(() => onnx.toBytes(f, [x], options), (error: Error) => {
      assert.match(error.name, /^(ExportError|ArgumentError)$/);
      assert.match(error.message, message);
      return true;
    });
  });
}

Deno.test("onnx: a symbolic argument is refused, with what to do", async () => {
  const part = x.shrink([[0, n.bind(1)], [0, 3]]);
  await assert.rejects(() => onnx.toBytes((t: Tensor) => t, [part]), /give plain sizes, and name dynamic axes/);
});

Deno.test("onnx: written models that are spoiled are refused by name, or are others", async () => {
  const random = new Random(11), count = Number(Deno.env.get("SPOILED") ?? 40), odd: string[] = [];
  let refused = 0;
  for (const [name, { f, args, options }] of Object.entries(savedModels())) {
    const bytes = await onnx.toBytes(f, args, options);
    for (let i = 0; i < count; i++) {
      const spoiled = i % 4 === 0 ? bytes.slice(0, random.int(1, bytes.length)) : bytes.slice();
      for (let k = random.int(1, 3); k > 0; k--) spoiled[random.int(0, spoiled.length - 1)] = random.int(0, 255);
      try {
        await (await onnx.load(spoiled)).run(...args);
      } catch (error) {
        refused++;
        if (/^(Format|Argument|Shape|DType)Error$/.test((error as Error).name)) continue;
        odd.push(`${name} ${i}: ${(error as Error).stack}`);
      }
    }
  }
  assert.deepEqual(odd, []);
  assert.ok(refused > count, `${refused}`);
});
