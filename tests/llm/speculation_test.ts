/**
 * Guessed tokens: the text is the one without guesses, wherever they come from, alone and beside others.
 */
import assert from "node:assert/strict";
import { Device, Tensor } from "../../mod.ts";
import { Decoder, encodeGguf, LanguageModel, readGguf } from "../../src/llm/llm.ts";
import { samplingOf } from "../../src/llm/model/sampler.ts";
import { guessByRepetition } from "../../src/llm/model/sequence.ts";
import { SequenceBatch } from "../../src/llm/model/sequence_batch.ts";
import { randomModel } from "./random_models.ts";

Device.default = "WASM";
Tensor.zeros([1]).realize(); // opened before the tests
const STORIES = new URL("../../examples/models/stories260K.gguf", import.meta.url);
const PROMPT = 'Lily saw a big dog. The dog was big. Lily said, "Hello, dog!" The dog';

Deno.test("speculation: stories are the same by repetition and by a draft model", async () => {
  using model = await LanguageModel.load(STORIES, { device: "WASM", context: 128, sequences: 2 });
  using draft = await LanguageModel.load(STORIES, { device: "WASM", context: 128 });
  const ways = [[{}, { speculate: 4 }, { speculate: 4, draft }], [{ temperature: 0.7, seed: 4 }, {
    speculate: 3,
  }]] as const;
  for (const [how, ...others] of ways) {
    const options = { maxTokens: 60, ...how }, plain = await model.complete(PROMPT, options);
    assert.equal(plain.guessedTokens, 0);
    for (const more of others) {
      const got = await model.complete(PROMPT, { ...options, ...more });
      assert.deepEqual([got.text, got.finish, got.completionTokens], [
        plain.text,
        plain.finish,
        plain.completionTokens,
      ]);
      const least = "draft" in more && !("seed" in how) ? 50 : 1;
      assert.ok(got.guessedTokens >= least, `${got.guessedTokens} guesses of ${Object.keys({ ...how, ...more })}`);
    }
  }
  const want = (await model.complete(PROMPT, { maxTokens: 40 })).text;
  const both = await Promise.all([4, 0].map((speculate) => model.complete(PROMPT, { maxTokens: 40, speculate })));
  assert.deepEqual(both.map((b) => b.text), [want, want]);
  const pressed = { maxTokens: 8, repetitionPenalty: 1.2 };
  const penalized = await model.complete(PROMPT, { ...pressed, speculate: 4 });
  assert.deepEqual([penalized.text, penalized.guessedTokens], [(await model.complete(PROMPT, pressed)).text, 0]);
  await assert.rejects(() => model.complete("a", { speculate: 17 }), /speculate is 17, not from 0 to 16/);
});

Deno.test("speculation: random models go to the end of their context the same way", async () => {
  for (const name of ["llama", "gemma3"]) {
    const file = await readGguf(new Tensor(await encodeGguf(randomModel(name)))),
      decoder = new Decoder(file, name, "WASM");
    const greedy = samplingOf("test", {}, decoder.vocabulary);
    using batch = new SequenceBatch(decoder);
    const write = async (count: number) => {
      const ids: number[] = [];
      const speculation = count === 0 ? undefined : { count, guess: guessByRepetition };
      for await (const { id } of batch.generate([3, 9, 3, 9], { sampling: greedy, speculation })) ids.push(id);
      return ids;
    };
    const want = await write(0);
    assert.equal(want.length, decoder.context - 3);
    assert.deepEqual(await write(3), want, name);
  }
});

Deno.test("speculation: what followed before is guessed", () => {
  for (
    const [tokens, want] of [[[1, 2, 3, 4, 1, 2], [3, 4]], [[5, 1, 2, 6, 9, 1, 2, 7, 1, 2], [7, 1]], [[1, 2, 3], []], [
      [],
      [],
    ]]
  ) {
    assert.deepEqual(guessByRepetition(tokens, 2), want);
  }
});
