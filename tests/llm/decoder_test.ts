/**
 * Decoders against llama.cpp: random models of several architectures (fixtures/logits.json, by llama_cpp.ts, which checks
 * all of them), and the trained one whose text everybody knows.
 */
import assert from "node:assert/strict";
import { Device, FormatError, Tensor } from "../../mod.ts";
import { encodeGguf, type GgufContents, LanguageModel, readGguf } from "../../src/llm/llm.ts";
import { ourLogits } from "./our_logits.ts";
import { randomModel } from "./random_models.ts";

Device.default = "WASM";
Tensor.zeros([1]).realize(); // opened before the tests
const STORIES = new URL("../../examples/models/stories260K.gguf", import.meta.url);
const LOGITS = JSON.parse(Deno.readTextFileSync(new URL("fixtures/logits.json", import.meta.url))) as Record<
  string,
  number[][]
>;
/** What the suite has time for, and how far llama.cpp's tables of GELU in half precision may be. */
const HERE: Readonly<Record<string, number>> = {
  "gpt-oss": 1e-4,
  gemma3: 0.02,
  phi3: 1e-4,
  qwen2moe: 1e-4,
  llama4: 1e-4,
  deepseek2: 1e-4,
  glm4moe: 1e-4,
};

async function fileOf(contents: GgufContents): Promise<Tensor> {
  return new Tensor(await encodeGguf(contents));
}

for (const [name, tolerance] of Object.entries(HERE)) {
  Deno.test(`decoder: ${name} has llama.cpp's logits`, async () => {
    const got = await ourLogits(await readGguf(await fileOf(randomModel(name))), name, "WASM");
    LOGITS[name].forEach((want, i) =>
      want.forEach((x, k) => assert.ok(Math.abs(x - got[i][k]) <= tolerance, `token ${i}: ${got[i][k]}, not ${x}`))
    );
  });
}

/** 60 tokens of llama.cpp's greedy text behind the begin token. */
const TEXT =
  "Once upon a time, there was a little girl named Lily. She loved to play outside in the park. One day, she saw " +
  "a big, red ball. She wanted to play with it, but it was too high.\nLily's mom said, \"Lily, let's go to the park.\"";

Deno.test("decoder: stories260K writes llama.cpp's story, however it is asked", async () => {
  using model = await LanguageModel.load(STORIES, { device: "WASM" });
  const { tokenizer } = model, ids = tokenizer.encode(TEXT);
  assert.deepEqual(ids.slice(0, 21), [
    ...[1, 403, 407, 261, 378, 432, 383, 286, 261, 376, 298, 315, 421, 395, 317, 426, 338, 401, 396, 267, 337],
  ]);
  const begun = await model.complete([1], { maxTokens: ids.length - 1, logprobs: 0 });
  assert.equal(begun.text, TEXT);
  assert.deepEqual([begun.finish, begun.promptTokens, begun.completionTokens], ["length", 1, ids.length - 1]);
  // a text of more than a chunk, of which nothing and then much is known
  const asked = TEXT.slice(0, 120), rest = TEXT.slice(120);
  const read = await model.complete(asked, { maxTokens: 12 });
  assert.ok(rest.startsWith(read.text) && read.text.length > 10, read.text);
  const again = await model.complete(asked, { maxTokens: 12 });
  assert.deepEqual([again.text, again.cachedTokens], [read.text, again.promptTokens - 1]);
  // texts that end it, log probabilities, a limit of nothing
  const stopped = await model.complete("Once upon a time", { stop: ["little girl", "girl"], maxTokens: 30 });
  assert.deepEqual([stopped.text, stopped.finish], [", there was a ", "stop"]);
  assert.equal((await model.complete("Once", { maxTokens: 0 })).text, "");
  const pieces = [];
  for await (const p of model.generate("Once upon a time", { maxTokens: 2, logprobs: 2 })) pieces.push(p);
  const { own, best } = pieces[0].logprobs!;
  assert.ok(own <= 0 && Math.abs(own - best[0].logprob) < 1e-6 && best[0].id === pieces[0].id && best[1].logprob < own);
});

Deno.test("decoder: seeds repeat, and options change what is drawn", async () => {
  using model = await LanguageModel.load(STORIES, { device: "WASM", context: 64 });
  const options = { maxTokens: 12, temperature: 1, seed: 5 };
  const draw = async (more: object) => (await model.complete("Once upon a time", { ...options, ...more })).text;
  const first = await draw({});
  assert.equal(await draw({}), first);
  assert.notEqual(await draw({ seed: 6 }), first);
  const greedy = await draw({ temperature: 0 });
  assert.equal(await draw({ topP: 1e-6 }), greedy);
  assert.equal(await draw({ minP: 1 }), greedy);
  assert.equal(await draw({ topK: 1 }), greedy);
  const firstId = async (more: object): Promise<number> => {
    for await (const { id } of model.generate("Once upon a time", { ...options, ...more })) return id!;
    throw new Error("nothing came");
  };
  const id = await firstId({ temperature: 0 });
  assert.notEqual(await firstId({ temperature: 0, logitBias: { [id]: -100 } }), id);
  assert.notEqual(
    await draw({ temperature: 0, maxTokens: 40, presencePenalty: 5 }),
    await draw({ temperature: 0, maxTokens: 40 }),
  );
});

Deno.test("decoder: penalties count the text alone, also where the context ends", async () => {
  const tell = async (context: number) => {
    using model = await LanguageModel.load(STORIES, { device: "WASM", context });
    const ids = model.tokenizer.encode(TEXT).slice(0, 37),
      options = { maxTokens: 3, repetitionPenalty: 3, logprobs: 0 };
    const out: number[] = [];
    for await (const { id } of model.generate(ids, options)) out.push(id!);
    return out;
  };
  assert.deepEqual(await tell(40), await tell(128));
});

Deno.test("decoder: draws follow the probabilities", async () => {
  using model = await LanguageModel.load(STORIES, { device: "WASM", context: 32 });
  const prompt = model.tokenizer.encode("Once upon a time, there was a"), count = 200;
  const top = [];
  for await (const p of model.generate(prompt, { maxTokens: 1, logprobs: 3 })) top.push(...p.logprobs!.best);
  const seen = new Map<number, number>();
  for (let seed = 0; seed < count; seed++) {
    for await (const p of model.generate(prompt, { maxTokens: 1, temperature: 1, seed })) {
      seen.set(p.id!, (seen.get(p.id!) ?? 0) + 1);
    }
  }
  for (const { id, logprob } of top) {
    const p = Math.exp(logprob), got = (seen.get(id) ?? 0) / count, room = 4 * Math.sqrt(p * (1 - p) / count) + 1e-3;
    assert.ok(Math.abs(got - p) <= room, `token ${id}: ${got} of draws, probability ${p}`);
  }
});

Deno.test("decoder: what cannot be is told by name", async () => {
  using model = await LanguageModel.load(STORIES, { device: "WASM", context: 16 });
  const refuse = (prompt: unknown, options: object, why: RegExp) =>
    assert.rejects(() => model.complete(prompt as string, options), (e: unknown) => {
      assert.match(String(e), why);
      return true;
    });
  await refuse(
    "Once upon a time, there was a little girl named Lily. She ran.",
    {},
    /it has \d+ tokens, and the context is 16/,
  );
  await refuse("a", { temperature: -1 }, /temperature is -1, not from 0 to 100/);
  await refuse("a", { topP: 2 }, /topP is 2, not from 0 to 1/);
  await refuse("a", { stop: [""] }, /stop is no text/);
  await refuse("a", { logitBias: { 999: 1 } }, /logitBias names token 999; tokens are 0 to 511/);
  await refuse("a", { tempo: 1 }, /unknown option "?tempo/);
  await refuse([600], {}, /no list of tokens from 0 to 511/);
  await refuse([], {}, /the prompt is empty/);
  const contents = randomModel("llama");
  const without = (name: string) => {
    const { [name]: _, ...tensors } = contents.tensors as Record<string, Tensor>;
    return { metadata: contents.metadata, tensors };
  };
  const changed = (key: string, value: number | string) => ({
    ...contents,
    metadata: { ...contents.metadata, [key]: value },
  });
  for (
    const [file, why] of [
      [without("blk.1.attn_k.weight"), /it has no tensor "blk\.1\.attn_k\.weight"/],
      [without("token_embd.weight"), /it has no tensor "token_embd\.weight"/],
      [changed("general.architecture", "cat"), /its architecture is "cat"; known are llama/],
      [changed("llama.embedding_length", 32), /tensor "token_embd\.weight" has shape \[64, 64\], not \[64, 32\]/],
      [changed("llama.attention.head_count", 3), /with 3 heads and 2 of keys and values are no model/],
      [changed("llama.block_count", 0), /0 layers of 64/],
      [changed("llama.rope.dimension_count", 99), /heads of 16, of which 99/],
      [contents, /its tokenizer is "no_vocab"/],
    ] as readonly (readonly [GgufContents, RegExp])[]
  ) {
    await assert.rejects(async () => await LanguageModel.load(await fileOf(file), { device: "WASM" }), (e: unknown) => {
      assert.ok(e instanceof FormatError, String(e));
      assert.match(e.message, why);
      return true;
    });
  }
});
