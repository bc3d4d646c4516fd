/**
 * Models whose layers keep a state: logits of llama.cpp, and texts that are read in chunks, gone on with, and begun anew.
 */
import assert from "node:assert/strict";
import { Device, Tensor } from "../../mod.ts";
import { encodeGguf, type GgufInput, LanguageModel, readGguf, typed } from "../../src/llm/llm.ts";
import { ourLogits } from "./our_logits.ts";
import { randomModel } from "./random_models.ts";

Device.default = "WASM";
Tensor.zeros([1]).realize(); // opened before the tests
const LOGITS = JSON.parse(Deno.readTextFileSync(new URL("fixtures/logits.json", import.meta.url))) as Record<
  string,
  number[][]
>;

/** A random model with a context of 96 and a vocabulary of names, of which none ends a text. */
async function modelOf(name: string): Promise<LanguageModel> {
  const { metadata, tensors } = randomModel(name),
    more: Record<string, GgufInput> = {
      ...metadata as Record<string, GgufInput>,
      [`${name}.context_length`]: 96,
      "tokenizer.ggml.model": "llama",
      "tokenizer.ggml.tokens": Array.from({ length: 64 }, (_, i) => `▁t${i}`),
      "tokenizer.ggml.eos_token_id": typed("uint32", 0xffffffff),
    };
  const file = new Tensor(await encodeGguf({ metadata: more, tensors }));
  return await LanguageModel.load(file, { device: "WASM" });
}

for (const name of ["qwen3next", "mamba"]) {
  Deno.test(`recurrent: ${name} has llama.cpp's logits`, async () => {
    const got = await ourLogits(await readGguf(new Tensor(await encodeGguf(randomModel(name)))), name, "WASM");
    LOGITS[name].forEach((want, i) =>
      want.forEach((x, k) => assert.ok(Math.abs(x - got[i][k]) <= 1e-4, `token ${i}: ${got[i][k]}, not ${x}`))
    );
  });

  Deno.test(`recurrent: texts of ${name} are the same however they are read`, async () => {
    using model = await modelOf(name);
    const prompt = Array.from({ length: 45 }, (_, i) => (i * i + 7 * i) % 61), all = [...prompt];
    const run = async (ids: readonly number[], count: number) => {
      const got: number[] = [], pieces = model.generate(ids, { maxTokens: count });
      for (;;) {
        const { done, value } = await pieces.next();
        if (done) return { got, cached: value.cachedTokens };
        if (value.id !== undefined) got.push(value.id);
      }
    };
    const first = await run(prompt, 5);
    all.push(...first.got);
    // what the logits of all tokens at once say
    const logits = await model.decoder.forward(new Tensor(Int32Array.from(all))).argmax(1).data() as Int32Array;
    assert.deepEqual(first.got, [...logits.subarray(44, 49)].map(Number));
    // goes on with it, begins with a part of it, and with another text
    const next = await run([...all, 3], 2);
    assert.equal(next.cached, 49);
    assert.equal((await run(prompt.slice(0, 40), 1)).cached, 0);
    assert.deepEqual(await run([...all, 3], 2), { got: next.got, cached: 40 });
    assert.deepEqual((await run(prompt, 5)).got, first.got);
    await model.embed(prompt);
    assert.deepEqual((await run(prompt, 5)).got, first.got);
  });
}

Deno.test("recurrent: several texts at once are refused", async () => {
  const { metadata, tensors } = randomModel("mamba");
  const file = await readGguf(
    new Tensor(
      await encodeGguf({
        metadata: {
          ...metadata as Record<string, GgufInput>,
          "tokenizer.ggml.model": "llama",
          "tokenizer.ggml.tokens": Array.from({ length: 64 }, (_, i) => `t${i}`),
        },
        tensors,
      }),
    ),
  );
  assert.throws(
    () => new LanguageModel(file, "mamba", { device: "WASM", sequences: 2 }),
    /layers of mamba keep a state, which is that of one text; load it with one sequence/,
  );
  using one = new LanguageModel(file, "mamba", { device: "WASM", sequences: "auto" });
  assert.equal(one.sequences, 1);
});
