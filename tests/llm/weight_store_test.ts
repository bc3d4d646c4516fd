/**
 * Weights on a device: blocks are sorted into planes when they are loaded, and stand for the same numbers as before.
 */
import assert from "node:assert/strict";
import { Device, DTypeError, GlobalCounters, jit, Tensor } from "../../mod.ts";
import { BLOCK_FORMATS, type BlockFormat, dequantize, type GgufTensor, readGguf } from "../../src/llm/llm.ts";
import { Weight, WeightStore } from "../../src/llm/model/weight_store.ts";
import { plainTensor } from "../../src/llm/files/llama2c.ts";
import { LanguageModel, quantizeModel, writeGguf } from "../../src/llm/llm.ts";
import { inFolder } from "../support/folder.ts";
import { Random } from "../support/random.ts";

Device.get(Device.default);
const STORIES = new URL("../../examples/models/stories260K.gguf", import.meta.url);
const ROWS = 32, WIDTH = 512;
const QUANTIZED = [...BLOCK_FORMATS.values()].filter((f) => f.plain === undefined);

/** Bytes of rows of blocks that stand for numbers, none of them NaN. */
function blocksOf(format: BlockFormat, seed: number, rows = ROWS): Tensor {
  const random = new Random(seed), raw = new Uint8Array(rows * WIDTH / format.elements * format.nbytes);
  // bytes below 0x78 are no NaN in half precision, wherever the scales of a block lie
  for (let i = 0; i < raw.length; i++) raw[i] = random.below(0x78);
  return new Tensor(raw, { device: "WASM" }).reshape([rows, raw.length / rows]).realize();
}
function tensorOf(format: BlockFormat, raw: Tensor): GgufTensor {
  const load = () => dequantize(raw, format);
  return { name: "w", format, shape: [raw.shape[0], WIDTH], nbytes: raw.nbytes(), raw: () => raw, load };
}

Deno.test("weights: planes are the same numbers, hardly more bytes, and go into one product", async () => {
  assert.equal(QUANTIZED.length, 24);
  const alone: string[] = [];
  for (const [i, format] of QUANTIZED.entries()) {
    const raw = blocksOf(format, i + 1), weight = new Weight(tensorOf(format, raw), raw.device);
    weight.realize();
    assert.deepEqual(await weight.values().data(), await dequantize(raw, format).data(), format.name);
    assert.deepEqual(
      await weight.rows(new Tensor([2, 0], { device: "WASM" })).data(),
      await dequantize(raw, format).at(new Tensor([2, 0], { device: "WASM" })).data(),
      `rows of ${format.name}`,
    );
    assert.ok(weight.nbytes <= 1.1 * raw.nbytes(), `${format.name} takes ${weight.nbytes} of ${raw.nbytes()} bytes`);
    const x = Tensor.rand([1, WIDTH], { device: "WASM" }).realize(),
      f = jit((x: Tensor) => weight.product(x).realize());
    f(x);
    f(x);
    const before = GlobalCounters.kernelCount;
    f(x);
    // three of them quantize activations where bytes are multiplied
    if (GlobalCounters.kernelCount - before > (format.bytes === undefined ? 1 : 4)) alone.push(format.name);
  }
  // a scale that is made a float is computed once, before the product
  assert.deepEqual(alone.filter((name) => !/^IQ[123]|^TQ1/.test(name)), ["NVFP4"]);
});

Deno.test("weights: products of bytes are the numbers' but for rounding, and have their gradients", async () => {
  const device = "WASM", made: string[] = [];
  for (const format of QUANTIZED.filter((f) => f.bytes !== undefined)) {
    const weight = new Weight(tensorOf(format, blocksOf(format, 77)), device);
    weight.realize();
    const data = Float32Array.from({ length: 3 * WIDTH }, (_, i) => Math.sin(i * i + 1));
    const x = new Tensor(data, { device }).reshape([3, WIDTH]).realize();
    x.requiresGrad = true;
    const got = weight.product(x), want = x.matmul(weight.values().transpose(0, 1));
    const [a, b] = [await got.data(), await want.data()].map((d) => [...d].map(Number));
    const norm = (v: readonly number[]): number => Math.hypot(...v), error = norm(a.map((v, i) => v - b[i])) / norm(b);
    // llama.cpp's products of the same kind are as far: 8 bits with a scale for each 32 or 256
    assert.ok(error > 0 && error < 0.008, `${format.name}: ${error}`);
    const [g, h] = [got, want].map((y) => y.mul(Tensor.arange(ROWS, { device })).sum().gradient([x])[0]);
    const [p, q] = [await g.data(), await h.data()].map((d) => [...d].map(Number));
    assert.ok(norm(p.map((v, i) => v - q[i])) <= 1e-5 * norm(q), `${format.name}: the gradient`);
    made.push(format.name);
  }
  assert.deepEqual(made, [
    ...["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL"],
    ...["IQ4_XS", "TQ2_0", "MXFP4", "NVFP4", "Q1_0"],
  ]);
});

Deno.test("weights: a quantized file that was loaded is still the file", async () => {
  await inFolder(async (folder) => {
    const path = `${folder}/a.gguf`;
    await writeGguf(path, quantizeModel(await readGguf(STORIES), "Q8_0"));
    using model = await LanguageModel.load(path, { context: 32, device: "WASM" });
    const read = await readGguf(path), { tensors } = model.decoder.file();
    assert.deepEqual([...tensors.keys()], [...read.tensors.keys()]);
    for (const [name, t] of read.tensors) {
      assert.deepEqual(await tensors.get(name)!.raw().data(), await t.raw().data(), name);
    }
    const name = "blk.0.attn_q.weight", w = model.decoder.weights.get(name)!;
    assert.throws(() => w.memory, (e) => {
      assert.ok(e instanceof DTypeError);
      assert.match(
        e.message,
        /"blk.0.attn_q.weight" is in blocks of Q8_0; its parts are planes, its numbers values\(\)/,
      );
      return true;
    });
    assert.deepEqual(w.planes.map((x) => `${x.dtype} ${x.shape}`), ["float16 64,2,1", "int8 64,2,32"]);
    assert.deepEqual(w.values().shape, [64, 64]);
    assert.deepEqual(model.decoder.weights.get("output_norm.weight")!.memory.shape, [64]);
  });
});

Deno.test("weights: the bytes of a file go when they are sorted", () => {
  const format = BLOCK_FORMATS.get("Q4_K")!, device = "WASM", used = () => Device.memory()[device].bytes;
  const bytes = (i: number) => new Tensor(new Uint8Array(256 * 144).fill(i), { device: "JS" }).reshape([1, 256 * 144]);
  const tensors = new Map(Array.from({ length: 8 }, (_, i) => {
    const raw = bytes(i).realize();
    return [`w${i}`, { ...tensorOf(format, raw), shape: [1, 256 * 256] }];
  }));
  Device.get(device);
  const before = used();
  const store = new WeightStore(tensors, device, "a file");
  store.products(["w0", "w1"]);
  for (const name of tensors.keys()) store.get(name);
  store.realize();
  assert.equal(store.nbytes(), 8 * 256 * 148);
  assert.ok(used() - before <= store.nbytes(), `${used() - before} bytes are held for ${store.nbytes()}`);
});

Deno.test("weights: blocks of one format that read the same are one product, and still have names of their own", async () => {
  const rows = 20, formats = ["Q8_0", "Q4_K", "Q8_0"].map((name) => BLOCK_FORMATS.get(name)!), device = "WASM";
  const files = formats.map((format, i) => tensorOf(format, blocksOf(format, i + 1, rows)));
  const store = new WeightStore(new Map(files.map((t, i) => [`w${i}`, t])), device, "a file");
  const products = store.products(["w0", "w1", "w2"]), x = Tensor.rand([3, WIDTH], { device }).realize();
  store.realize();
  assert.deepEqual([...store.memory].map(([name, x]) => `${name} ${x.shape}`), [
    "w1.0 20,2,1",
    "w1.1 20,2,1",
    "w1.2 20,2,8",
    "w1.3 20,2,8",
    "w1.4 20,2,128",
    "w0+w2.0 40,16,1",
    "w0+w2.1 40,16,32",
  ]);
  const close = async (a: Tensor, b: Tensor) => {
    const [got, want] = [await a.data(), await b.data()] as [Float32Array, Float32Array];
    got.forEach((v, i) => assert.ok(Math.abs(v - want[i]) <= 1e-5 * (1 + Math.abs(want[i])), `${v} for ${want[i]}`));
  };
  const all = store.all, numbers = (i: number) => dequantize(files[i].raw(), formats[i]);
  for (const [i, y] of products(x).entries()) {
    assert.deepEqual(y.shape, [3, rows]);
    await close(y, x.matmul(numbers(i).transpose(0, 1)));
    assert.deepEqual(await all.get(`w${i}`)!.values().data(), await numbers(i).data());
  }
  // an adapter is added to its own part, and a part with one merged is a weight alone
  const [a, b] = [[2, WIDTH], [rows, 2]].map((shape) => Tensor.rand(shape, { device }).realize());
  all.get("w2")!.adapter = { a, b, scale: 0.5 };
  const changed = numbers(2).add(b.matmul(a).mul(0.5)), [plain, , other] = products(x);
  await close(plain, x.matmul(numbers(0).transpose(0, 1)));
  const want = x.matmul(changed.transpose(0, 1)).realize();
  const near = async (y: Tensor) =>
    assert.ok(await y.sub(want).abs().max().item() as number <= 1e-3 * (await want.abs().max().item() as number));
  await near(other);
  all.get("w2")!.merge();
  await near(products(x)[2]);
  await close(products(x)[0], x.matmul(numbers(0).transpose(0, 1)));
  // where rows lie sixteen together, a part of a stack is what the weight would be alone
  const laid = formats.map((format, i) => tensorOf(format, blocksOf(format, i + 1)));
  const stacks = new WeightStore(new Map(laid.map((t, i) => [`w${i}`, t])), device, "a file");
  const both = stacks.products(["w0", "w1", "w2"]);
  stacks.realize();
  const parts = both(x);
  for (const [i, t] of laid.entries()) {
    const weight = new Weight(t, device);
    weight.realize();
    const [got, own] = [await parts[i].data(), await weight.product(x).data()] as [Float32Array, Float32Array];
    // sums are in other tiles, and in another order
    const most = Math.max(...own.map(Math.abs));
    got.forEach((v, k) => assert.ok(Math.abs(v - own[k]) <= 1e-6 * most, `${formats[i].name}: ${v}, not ${own[k]}`));
    assert.deepEqual(await stacks.all.get(`w${i}`)!.values().data(), await t.load().data(), formats[i].name);
  }
  assert.deepEqual([...stacks.memory].slice(-2).map(([name, x]) => `${name} ${x.shape}`), [
    "w0+w2.0 4,16,1,16,1",
    "w0+w2.1 4,16,8,16,4",
  ]);
});

Deno.test("weights: elements that come from a file and read the same are one product, until one of them is trained", async () => {
  const device = "WASM", sizes = [6, 4, 4];
  const made = (on: string) =>
    new Map(sizes.map((m, i) => {
      const x = Tensor.arange(m * 8, { device: on as "JS" }).mul(0.37).add(i).sin().reshape([m, 8]).realize();
      return [`w${i}`, plainTensor(`w${i}`, x, on)];
    }));
  const store = new WeightStore(made("JS"), device, "a file"), x = Tensor.rand([3, 8], { device }).realize();
  const products = store.products(["w0", "w1", "w2"]), names = () => [...store.memory.keys()].sort();
  const near = async (given: readonly Tensor[]) => {
    for (const [i, y] of given.entries()) {
      const want = x.matmul(store.get(`w${i}`).values().transpose(0, 1));
      assert.deepEqual(y.shape, [3, sizes[i]]);
      assert.ok(await y.sub(want).abs().max().item() as number < 1e-5);
    }
  };
  store.realize();
  assert.deepEqual(names(), ["w0+w1+w2"]);
  await near(products(x));
  assert.equal(store.nbytes(), 4 * 8 * 14);
  // one is written to: it has memory of its own, and the others keep theirs
  const w = store.get("w1").memory;
  w.assign(w.mul(0).add(2)).realize();
  await near(products(x));
  assert.ok((await products(x)[1].sub(x.sum(1, { keepdim: true }).mul(2)).abs().max().item() as number) < 1e-5);
  assert.deepEqual(names(), ["w0+w1+w2", "w1"]);
  for (const i of [0, 2]) void store.get(`w${i}`).memory;
  await near(products(x));
  assert.deepEqual(names(), ["w0", "w1", "w2"]);
  // what is on the device is somebody's, and stays where it is
  const there = new WeightStore(made(device), device, "a file");
  there.products(["w0", "w1", "w2"]);
  there.realize();
  assert.deepEqual([...there.memory.keys()], ["w0", "w1", "w2"]);
});

Deno.test("weights: a token of a model in a file takes eight kernels a layer", async () => {
  using model = await LanguageModel.load(STORIES, { context: 64, device: "WASM" });
  const counts: number[] = [];
  for await (const _ of model.generate("Once upon", { maxTokens: 6 })) counts.push(GlobalCounters.kernelCount);
  const { layers } = model.spec, last = counts.at(-1)! - counts.at(-2)!;
  assert.ok(last <= 8 * layers + 3, `${last} kernels for ${layers} layers`);
});

Deno.test("weights: a token of a quantized model takes no kernels for squares and sizes of what is in memory", async () => {
  const path = new URL("../../examples/models/kjv5m-q4_k_m.gguf", import.meta.url);
  using model = await LanguageModel.load(path, { context: 32, device: "WASM" });
  const counts: number[] = [];
  for await (const _ of model.generate("In the", { maxTokens: 6 })) counts.push(GlobalCounters.kernelCount);
  const { layers } = model.spec, last = counts.at(-1)! - counts.at(-2)!;
  assert.ok(last <= 27 * layers, `${last} kernels for ${layers} layers`);
});
