/**
 * Files as others write them, beside what they compute: networks by PyTorch's two exporters (functions, external data, free
 * axes, branches and loops, a decoder with its past) and by onnxruntime's tools (quantized dynamically and statically, in
 * pairs and in operators, of few bits, by channels, optimized). Made by fixtures/onnx/exported.py and quantized.py.
 */
import assert from "node:assert/strict";
import { Device, jit, Tensor } from "../../mod.ts";
import * as onnx from "../../src/onnx/onnx.ts";

Device.default = "WASM";
Tensor.zeros([1]).realize(); // opened before the tests

type Numbers = readonly (number | boolean)[];
interface Told {
  readonly shape: readonly number[];
  readonly dtype: string;
  readonly data: Numbers;
}
interface Case {
  readonly name: string;
  /** In base 64. */
  readonly model: string;
  readonly files: Readonly<Record<string, string>>;
  readonly calls: readonly {
    readonly inputs: readonly (Told | number)[];
    readonly outputs: readonly Told[];
    /** By output: what one step of its last rounding is, 0 where it has none. */
    readonly steps?: readonly number[];
  }[];
}
async function stored(name: string): Promise<readonly Case[]> {
  const file = await Deno.open(new URL(`../fixtures/onnx/${name}.json.gz`, import.meta.url));
  return await new Response(file.readable.pipeThrough(new DecompressionStream("gzip"))).json();
}
const bytes = (text: string): Uint8Array<ArrayBuffer> => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
function tensorOf(t: Told | number): Tensor | number {
  if (typeof t === "number") return t;
  const data = t.dtype === "int64" ? BigInt64Array.from(t.data, BigInt) : Float64Array.from(t.data, Number);
  return new Tensor(data).cast(t.dtype).reshape([...t.shape]).realize();
}

/** How exact results of a dtype are, of the largest value. */
const EXACT: Readonly<Record<string, number>> = { float32: 2e-5, float16: 4e-3, bfloat16: 2e-2 };
/** Compares outputs, in order. */
async function compare(
  got: readonly Tensor[],
  want: readonly Told[],
  steps: readonly number[],
  what: string,
): Promise<void> {
  assert.equal(got.length, want.length, what);
  for (const [i, { shape, dtype, data }] of want.entries()) {
    const name = `${what}, output ${i}`, t = got[i];
    assert.deepEqual([t.shape, t.dtype.name], [shape, dtype], name);
    const found = Array.from(await t.data() as ArrayLike<number>, Number), all = data.map(Number);
    const largest = all.reduce((m, x) => Number.isFinite(x) ? Math.max(m, Math.abs(x)) : m, 1);
    // a sum that lies between two steps may be rounded to either
    const by = (EXACT[dtype] ?? 0) * largest + 1.001 * (steps[i] ?? 0);
    all.forEach((x, k) => {
      const same = Object.is(x, found[k]) || Math.abs(x - found[k]) <= by;
      assert.ok(same, `${name}: ${found[k]} at ${k} is not ${x}`);
    });
  }
}

for (const file of ["exported", "quantized"]) {
  for (const { name, model: text, files, calls } of await stored(file)) {
    Deno.test(`onnx of others: ${name}`, async () => {
      const beside = Object.fromEntries(Object.entries(files).map(([k, v]) => [k, bytes(v)]));
      assert.deepEqual((await onnx.info(bytes(text))).missing, []);
      const model = await onnx.load(bytes(text), { files: beside });
      for (const [k, { inputs, outputs, steps = [] }] of calls.entries()) {
        const xs = inputs.map(tensorOf), [...got] = await model.run(...xs);
        await compare(got as Tensor[], outputs, steps, `call ${k}`);
      }
    });
  }
}

Deno.test("onnx of others: decoders with a mask over all positions are stepped, and captured once for all lengths", async () => {
  for (const { name, model: text } of (await stored("exported")).filter((c) => c.name.endsWith("decoder"))) {
    const model = await onnx.load(bytes(text)), ids = [1, 7, 3, 3, 9, 2, 5, 8], seen = [0, 1, 1, 1, 1, 1, 1, 1];
    const row = (t: onnx.OnnxOutput): Promise<number[]> => (t as Tensor).at(0, -1).tolist() as Promise<number[]>;
    const int64 = (list: readonly number[]): Tensor => new Tensor([[...list]], { dtype: "int64" });
    const none = Object.fromEntries(model.inputs.slice(2).map((p) => [p.name, Tensor.zeros([1, 2, 0, 4])]));
    const decoder = onnx.session(model, { length: 12 });
    for (const form of ["tensors", "lists"] as const) {
      decoder.reset();
      for (const [from, to] of [[0, 3], [3, 4], [4, 5], [5, 6], [6, 8]]) { // a text, three words, and two at once
        const masks = { tensors: int64(seen.slice(0, to)), lists: [seen.slice(0, to)] }[form];
        const got = await row(decoder.step({ input_ids: int64(ids.slice(from, to)), attention_mask: masks }).logits);
        const all = { input_ids: int64(ids.slice(0, to)), attention_mask: int64(seen.slice(0, to)), ...none };
        const want = await row((await model.run(all)).logits), what = `${name} by ${form}, ${from} to ${to}`;
        got.forEach((v, i) => assert.ok(Math.abs(v - want[i]) < 2e-5, `${what}: ${v}, ${want[i]}`));
      }
      assert.equal(decoder.position, 8);
    }
    const { captures, replays } = decoder.stats;
    assert.deepEqual([captures, replays], [2, 4], name); // one word, and two
  }
});

Deno.test("onnx of others: outputs come in the order of the model, whatever they are called", async () => {
  const [found] = (await stored("exported")).filter((c) => c.name === "script recurrent");
  const model = await onnx.load(bytes(found.model)), names = model.outputs.map((p) => p.name);
  assert.notDeepEqual(names, [...names].sort((a, b) => Number(a) - Number(b))); // objects sort keys that are numbers
  const x = tensorOf(found.calls[0].inputs[0]) as Tensor, f = jit((x: Tensor) => model.call(x));
  for (let i = 0; i < 3; i++) {
    const [z, h] = f(x), out = model.call(x);
    assert.deepEqual([(z as Tensor).shape, (h as Tensor).shape], [[2, 3, 3], [4, 2, 5]]);
    assert.equal([...out][1], out[names[1]]);
  }
});
