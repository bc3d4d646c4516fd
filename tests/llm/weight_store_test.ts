/**
 * Weights on a device: blocks are sorted into planes when they are loaded, and stand for the same numbers as before.
 */
import assert from "node:assert/strict";
import { Device, DTypeError, GlobalCounters, jit, Tensor } from "../../mod.ts";
import { BLOCK_FORMATS, type BlockFormat, dequantize, type GgufTensor, readGguf } from "../../src/llm/llm.ts";
import { Weight, WeightStore } from "../../src/llm/model/weight_store.ts";
import { LanguageModel, quantizeModel, writeGguf } from "../../src/llm/llm.ts";
import { inFolder } from "../support/folder.ts";
import { Random } from "../support/random.ts";

Device.get(Device.default);
const STORIES = new URL("../../examples/models/stories260K.gguf", import.meta.url);
const ROWS = 32, WIDTH = 512;
const QUANTIZED = [...BLOCK_FORMATS.values()].filter((f) => f.plain === undefined);

/** Bytes of rows of blocks that stand for numbers, none of them NaN. */
function blocksOf(format: BlockFormat, seed: number): Tensor {
  const random = new Random(seed), raw = new Uint8Array(ROWS * WIDTH / format.elements * format.nbytes);
  // bytes below 0x78 are no NaN in half precision, wherever the scales of a block lie
  for (let i = 0; i < raw.length; i++) raw[i] = random.below(0x78);
  return new Tensor(raw, { device: "WASM" }).reshape([ROWS, raw.length / ROWS]).realize();
}
function tensorOf(format: BlockFormat, raw: Tensor): GgufTensor {
  const load = () => dequantize(raw, format);
  return { name: "w", format, shape: [ROWS, WIDTH], nbytes: raw.nbytes(), raw: () => raw, load };
}

Deno.test("weights: planes are the same numbers, hardly more bytes, and go into one product", async () => {
  assert.equal(QUANTIZED.length, 23);
  const alone: string[] = [];
  for (const [i, format] of QUANTIZED.entries()) {
    const raw = blocksOf(format, i + 1), weight = new Weight(tensorOf(format, raw), raw.device);
    Tensor.realize([...weight.planes]);
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
    if (GlobalCounters.kernelCount - before > 1) alone.push(format.name);
  }
  // scales that are exponents are bits made a float: those are computed once, before the product
  assert.deepEqual(alone.filter((name) => !/^IQ[123]|^TQ1/.test(name)), ["MXFP4", "NVFP4"]);
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
  const raw = new Tensor(new Uint8Array(256 * 144), { device: "JS" }).reshape([1, 256 * 144]).realize();
  const file = { ...tensorOf(format, raw), shape: [1, 256 * 256] }, before = used();
  const tensors = new Map(Array.from({ length: 8 }, (_, i) => [`w${i}`, file]));
  const store = new WeightStore(tensors, device, "a file");
  for (const name of tensors.keys()) store.get(name);
  store.realize();
  assert.equal(store.nbytes(), 8 * 256 * 148);
  assert.ok(used() - before <= 1.05 * store.nbytes(), `${used() - before} bytes are held for ${store.nbytes()}`);
});
