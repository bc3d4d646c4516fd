/** What `deno task llm:bench` says of a model, and models of random weights. */
import assert from "node:assert/strict";
import { Device, Tensor } from "../../mod.ts";
import { measureBatch, measureModel } from "../../bench/llm.ts";
import { SHAPES, syntheticModel } from "../../bench/llm_synthetic.ts";
import { BLOCK_FORMATS, LanguageModel } from "../../src/llm/llm.ts";

Device.default = "WASM";
Tensor.zeros([1]).realize(); // opened before the tests

Deno.test("llm:bench: random weights of every block format are as large as weights are", async () => {
  for (const { name, plain } of BLOCK_FORMATS.values()) {
    if (plain !== undefined && !/F16|F32/.test(name)) continue;
    const { tensors } = await syntheticModel(`tiny-${name.toLowerCase()}`, "WASM"),
      w = tensors.get("blk.0.attn_q.weight")!;
    assert.equal(w.format.name, name);
    assert.deepEqual([w.load().shape, w.nbytes], [[256, 256], w.raw().nbytes()]);
    const x = await Tensor.stack([w.load().float().abs().max(), w.load().float().std()], 0).data() as Float32Array;
    assert.ok(x[0] > 0.01 && x[0] < 1 && x[1] > 0.002, `${name}: up to ${x[0]}, deviation ${x[1]}`);
  }
});

Deno.test("llm:bench: figures fit each other and the model", async () => {
  using model = new LanguageModel(await syntheticModel("tiny-q8_0", "WASM"), "tiny", { device: "WASM" });
  const m = await measureModel(model, { prompt: 40, tokens: 6, runs: 1 }),
    { layers, dim, ffn, vocabulary } = SHAPES.tiny;
  const matrices = layers * (dim * (256 + 128 + 128 + 256) + 3 * dim * ffn) + vocabulary * dim;
  const norms = (2 * layers + 1) * dim;
  assert.deepEqual([m.model, m.device, m.prompt], ["tiny-q8_0", "WASM", 40]);
  assert.equal(m.parametersM, Number(((matrices + norms) / 1e6).toFixed(1)));
  assert.equal(model.decoder.nbytes, matrices / 32 * 34 + 4 * norms);
  assert.ok(m.kernels >= 10 * layers && Number.isInteger(m.kernels), String(m.kernels));
  assert.ok(m.touchedMB * 1e6 >= model.decoder.nbytesRead, String(m.touchedMB));
  for (const x of [m.prefill, m.decode, m.cpuMs, m.bandwidthGBs, m.share, m.firstMs, m.deviceMB]) {
    assert.ok(x > 0, JSON.stringify(m));
  }
  assert.ok(Math.abs(m.share * m.bandwidthGBs * 1e9 / (model.decoder.nbytesRead * m.decode) - 1) < 0.05);
  await assert.rejects(() => measureModel(model, { prompt: 9, tokens: 200, runs: 1 }), /context of 128 has no room/);
  await assert.rejects(() => syntheticModel("7b-q8_0", "WASM"), /no model "7b-q8_0"; known are tiny, 15m, 110m/);
  await assert.rejects(() => syntheticModel("tiny-q9", "WASM"), /the mix "Q9" is not known/);
});

Deno.test("llm:bench: texts at once are counted together", async () => {
  const file = await syntheticModel("tiny-q8_0", "WASM"), told = [];
  for (const sequences of [1, 4]) {
    using model = new LanguageModel(file, "tiny", { device: "WASM", sequences });
    const m = await measureBatch(model, { prompt: 20, tokens: 16, runs: 1 });
    assert.ok(m.decode > 0 && m.cpuMs > 0, JSON.stringify(m));
    told.push(m.sequences);
    await assert.rejects(() => measureBatch(model, { prompt: 20, tokens: 2, runs: 1 }), /more --tokens are needed/);
  }
  assert.deepEqual(told, [1, 4]);
});
