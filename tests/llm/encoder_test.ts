/**
 * Encoders of texts against llama.cpp's vectors (fixtures/encoders.json, by llama_cpp.ts), alone and in batches.
 */
import assert from "node:assert/strict";
import { Device, Tensor } from "../../mod.ts";
import { EmbeddingModel, encodeGguf, LanguageModel } from "../../src/llm/llm.ts";
import { ENCODED, ENCODER_VARIANTS, randomEncoder } from "./random_encoders.ts";

Device.default = "WASM";
Tensor.zeros([1]).realize(); // opened before the tests
const VECTORS = JSON.parse(Deno.readTextFileSync(new URL("fixtures/encoders.json", import.meta.url))) as Record<
  string,
  number[][]
>;
const fileOf = async (name: string) => new Tensor(await encodeGguf(randomEncoder(name)));

for (const name of Object.keys(ENCODER_VARIANTS)) {
  Deno.test(`encoder: ${name} has llama.cpp's vectors`, async () => {
    const model = await EmbeddingModel.load(await fileOf(name), { device: "WASM" });
    const got = await model.embed(ENCODED, { normalize: false });
    // tables of GELU, and keys, are in half precision there
    VECTORS[name].forEach((want, i) =>
      want.forEach((x, k) => assert.ok(Math.abs(x - got[i][k]) < 3e-3, `text ${i}: ${got[i][k]}, not ${x}`))
    );
  });
}

Deno.test("encoder: texts of a batch are those alone, and of length 1", async () => {
  const model = await EmbeddingModel.load(await fileOf("bert"), { device: "WASM" });
  const texts = Array.from({ length: 11 }, (_, i) => "abcd ba".slice(i % 5) + " d".repeat(i)),
    all = await model.embed(texts);
  for (const [i, text] of texts.entries()) {
    const [alone] = await model.embed([text]);
    alone.forEach((x, k) => assert.ok(Math.abs(x - all[i][k]) < 1e-5, `text ${i}: ${all[i][k]}, not ${x}`));
    assert.ok(Math.abs(alone.reduce((s, x) => s + x * x, 0) - 1) < 1e-5);
  }
  assert.deepEqual(await model.embed([]), []);
  await assert.rejects(() => model.embed(["a", "abc ".repeat(40)]), /text 1 has \d+ tokens, and the context is 64/);
  await assert.rejects(
    async () => LanguageModel.load(await fileOf("bert")),
    /its architecture is "bert", an encoder of texts; EmbeddingModel loads it/,
  );
  const unpooled = randomEncoder("bert");
  (unpooled.metadata as Record<string, unknown>)["bert.pooling_type"] = 0;
  await assert.rejects(
    async () => EmbeddingModel.load(new Tensor(await encodeGguf(unpooled))),
    /its texts are not pooled by their mean, first or last token/,
  );
});
