/**
 * Several texts at once: each is what it is alone, whatever joins, leaves or stops it, and what texts have in common is
 * read once.
 */
import assert from "node:assert/strict";
import { Device, Tensor } from "../../mod.ts";
import { encodeGguf, type GenerateOptions, LanguageModel, readGguf } from "../../src/llm/llm.ts";
import { emptyCache, memoryOf, readCache, writeCache } from "../../src/llm/model/cache_memory.ts";
import { samplingOf } from "../../src/llm/model/sampler.ts";
import { SequenceBatch } from "../../src/llm/model/sequence_batch.ts";
import { Decoder } from "../../src/llm/llm.ts";
import { Random } from "../support/random.ts";
import { randomModel } from "./random_models.ts";

Device.default = "WASM";
Tensor.zeros([1]).realize(); // opened before the tests
const STORIES = new URL("../../examples/models/stories260K.gguf", import.meta.url);
const BEGINS = [
  "Once upon a time",
  "Once upon a time, there was a boy",
  "The dog",
  "Lily and Tom went to the park to play. They saw a big slide and",
  "a",
];

Deno.test("batch: stories are what they are alone, however they join", async () => {
  using alone = await LanguageModel.load(STORIES, { device: "WASM", context: 128 });
  using together = await LanguageModel.load(STORIES, { device: "WASM", context: 128, sequences: 2 });
  const random = new Random(6),
    asked = Array.from({ length: 7 }, (_, i): [string, GenerateOptions] => [
      BEGINS[i % BEGINS.length],
      {
        maxTokens: random.int(5, 30),
        ...i % 5 === 1 ? { temperature: 0.8, seed: i } : {},
        ...i === 2 ? { repetitionPenalty: 1.3 } : {},
      },
    ]);
  const want: string[] = [];
  for (const [prompt, options] of asked) want.push((await alone.complete(prompt, options)).text);
  const got: string[] = [];
  let next = 0, most = 0, running = 0;
  const worker = async (slow: boolean) => {
    for (let i = next++; i < asked.length; i = next++) {
      most = Math.max(most, ++running);
      let text = "";
      for await (const piece of together.generate(...asked[i])) {
        text += piece.text;
        if (slow && random.below(8) === 0) await new Promise((r) => setTimeout(r, 3));
      }
      got[i] = text;
      running--;
    }
  };
  await Promise.all([worker(false), worker(true)]);
  assert.deepEqual(got, want);
  assert.equal(most, 2);
});

Deno.test("batch: random models of other kinds, too", async () => {
  for (const name of ["gpt-oss", "gemma3"]) {
    const file = await readGguf(new Tensor(await encodeGguf(randomModel(name)))),
      decoder = new Decoder(file, name, "WASM");
    const greedy = samplingOf("test", {}, decoder.vocabulary), random = new Random(4);
    const prompts = Array.from(
      { length: 2 },
      () => Array.from({ length: random.int(1, 9) }, () => random.below(decoder.vocabulary)),
    );
    const write = async (batch: SequenceBatch, prompt: readonly number[]) => {
      const ids: number[] = [];
      for await (const { id } of batch.generate(prompt, { sampling: greedy })) if (ids.push(id) === 12) break;
      return ids;
    };
    using one = new SequenceBatch(decoder);
    const want: number[][] = [];
    for (const p of prompts) want.push(await write(one, p));
    using batch = new SequenceBatch(decoder, undefined, 2);
    assert.deepEqual(await Promise.all(prompts.map((p) => write(batch, p))), want, name);
    assert.deepEqual(await write(batch, prompts[1]), want[1], name);
  }
});

Deno.test("batch: what another text has is copied, not read", async () => {
  using model = await LanguageModel.load(STORIES, { device: "WASM", context: 128, sequences: 2 });
  const long = BEGINS[3].repeat(2), first = await model.complete(long, { maxTokens: 3 });
  const running = model.generate(long, { maxTokens: 20 });
  await running.next();
  const second = await model.complete(`${long} jumped`, { maxTokens: 3 });
  assert.ok(second.cachedTokens >= first.promptTokens - 1, `${second.cachedTokens} of ${first.promptTokens}`);
  await assert.rejects(async () => {
    const other = model.generate("a", { maxTokens: 9 });
    await other.next();
    try {
      await model.complete("b");
    } finally {
      await other.return(undefined as never);
    }
  }, /the model is generating 2 others/);
  await running.return(undefined as never);
  using alone = await LanguageModel.load(STORIES, { device: "WASM", context: 128 });
  assert.equal(second.text, (await alone.complete(`${long} jumped`, { maxTokens: 3 })).text);
});

Deno.test("batch: a cache in q8_0 is within half a step of each number, and a quarter of the bytes", async () => {
  const random = new Random(12), values = Float32Array.from({ length: 2 * 5 * 64 }, () => random.next() * 6 - 3);
  const x = new Tensor(values).reshape([2, 5, 64]), cache = emptyCache("q8_0", [2, 9], 64, 40, "WASM");
  writeCache(cache, "keys", [":", [3, 8]], x);
  Tensor.realize(memoryOf(cache));
  const got = await readCache(cache, "keys", [":", [3, 8]]).data() as Float32Array;
  for (let at = 0; at < values.length; at += 32) {
    const step = Math.max(...values.subarray(at, at + 32).map(Math.abs)) / 127;
    for (let i = at; i < at + 32; i++) {
      assert.ok(Math.abs(got[i] - values[i]) <= 0.56 * step, `${got[i]}, not ${values[i]}`);
    }
  }
  const bytes = (kind: "q8_0" | "float32") =>
    memoryOf(emptyCache(kind, [2, 64], 64, 64, "WASM")).reduce((n, t) => n + t.nbytes(), 0);
  assert.equal(bytes("float32") / bytes("q8_0"), 4 * 32 / 34);
  const options = { device: "WASM", context: 128, cache: "q8_0" } as const;
  using alone = await LanguageModel.load(STORIES, options);
  using together = await LanguageModel.load(STORIES, { ...options, sequences: 2 });
  const ask = (model: LanguageModel, i: number) => model.complete(BEGINS[i], { maxTokens: 16 });
  const want = [await ask(alone, 0), await ask(alone, 2)].map((c) => c.text);
  assert.deepEqual((await Promise.all([ask(together, 0), ask(together, 2)])).map((c) => c.text), want);
  assert.ok(want[0].startsWith(", there was a little girl named Lily"), want[0]);
});

Deno.test("batch: a text that is given up while it is read ends before all of it is read", async () => {
  using model = await LanguageModel.load(STORIES, { context: 512, device: "WASM", sequences: 2 });
  const prompt = model.promptIds(" Lily likes to play in the park.".repeat(30)), stop = new AbortController();
  assert.ok(prompt.length > 250);
  const other = model.complete("Once upon a time", { maxTokens: 12 });
  const [got] = await Promise.all([
    model.complete(prompt, { maxTokens: 5, signal: stop.signal }),
    new Promise((go) => setTimeout(go)).then(() => stop.abort()),
  ]);
  assert.deepEqual([got.text, got.finish, got.completionTokens], ["", "abort", 0]);
  assert.equal((await other).text, ", there was a little girl named Lily. She");
  // what was read of it stays, and is less than all
  const again = await model.complete(prompt, { maxTokens: 5 });
  assert.ok(again.cachedTokens < prompt.length - 64, `${again.cachedTokens} of ${prompt.length} were read`);
  using alone = await LanguageModel.load(STORIES, { context: 512, device: "WASM" });
  assert.equal(again.text, (await alone.complete(prompt, { maxTokens: 5 })).text);
  const never = await model.complete("Once", { maxTokens: 5, signal: AbortSignal.abort() });
  assert.deepEqual([never.text, never.finish], ["", "abort"]);
});
