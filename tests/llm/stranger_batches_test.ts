/**
 * Several texts at once, as people ask for them who come from vLLM, llama.cpp and transformers: lists of any length, each
 * prompt with options of its own, streams that are left, and readers that are slow.
 *
 * @module
 */
import assert from "node:assert/strict";
import type { Tensor } from "../../mod.ts";
import { type Completion, type GenerateOptions, LanguageModel } from "../../src/llm/llm.ts";

const FILE = new URL("../../examples/models/stories260K.gguf", import.meta.url);
const load = (sequences: number) => LanguageModel.load(FILE, { device: "WASM", context: 128, sequences });
const alone = await load(1), batch = await load(3);
const PROMPT = "Once upon a time", LONG = "Sara and her mom went to the park. They saw a big tree.";
const SCHEMA = { type: "object", properties: { age: { type: "integer", minimum: 0, maximum: 9 } }, required: ["age"] };
const ASKED: readonly (readonly [prompt: string, options: GenerateOptions])[] = [
  [PROMPT, { maxTokens: 14 }],
  [PROMPT, { maxTokens: 14, temperature: 0.8, seed: 7 }],
  ["The dog", { maxTokens: 12, temperature: 1, topK: 3, topP: 0.9, minP: 0.05, seed: 1 }],
  ["Lily and Ben", { maxTokens: 12, presencePenalty: 2, repetitionPenalty: 1.3 }],
  [PROMPT, { maxTokens: 40, stop: [" named", "xyz"] }],
  ["Tom saw", { maxTokens: 1 }],
  ["Write: ", { maxTokens: 24, schema: SCHEMA }],
  [LONG, {}],
  ["", { maxTokens: 5 }],
];
function told({ text, finish, promptTokens, tokens }: Completion): unknown {
  return { text, finish, promptTokens, ids: tokens.map((t) => t.id) };
}
const WANT: unknown[] = [];
for (const asked of ASKED) WANT.push(told(await alone.complete(...asked)));

Deno.test("batches: a list that is longer than the model has sequences is completed, in any order, each as alone", async () => {
  const order = [...ASKED.keys(), 0, 1].reverse();
  const got = await Promise.all(order.map((k) => batch.complete(...ASKED[k])));
  assert.deepEqual(got.map(told), order.map((k) => WANT[k]));
  // also by a model that writes one text at a time
  const [a, b] = await Promise.all([alone.complete(...ASKED[1]), alone.complete(...ASKED[0])]);
  assert.deepEqual([told(a), told(b)], [WANT[1], WANT[0]]);
});

Deno.test("batches: texts are embedded and scored all at once", async () => {
  const texts = ["The dog", "A cat sat", LONG, PROMPT, "Tom"], want: number[][] = [];
  const read = async (model: LanguageModel, text: string) => [
    ...(await Promise.all([model.embed(text), model.promptLogprobs(text)])).flatMap((told) =>
      told instanceof Float32Array ? [...told] : told.map((t) => t.logprobs?.own ?? 0)
    ),
  ];
  for (const text of texts) want.push(await read(alone, text));
  const got = await Promise.all(texts.map((text) => read(batch, text)));
  got.forEach((values, i) => {
    assert.equal(values.length, want[i].length);
    values.forEach((x, k) => assert.ok(Math.abs(x - want[i][k]) < 1e-4, `${x}, not ${want[i][k]}, of "${texts[i]}"`));
  });
});

Deno.test("batches: who waits may give up, and streams do not wait for each other", async () => {
  const stop = new AbortController(), running = ASKED.slice(0, 3).map((asked) => batch.complete(...asked));
  const [first, second] = [1, 2].map(() => batch.complete(LONG, { maxTokens: 9, signal: stop.signal }));
  const behind = batch.complete(...ASKED[4]);
  stop.abort();
  for (const c of [await first, await second]) {
    assert.deepEqual([c.text, c.finish, c.completionTokens], ["", "abort", 0]);
  }
  assert.deepEqual((await Promise.all(running)).map(told), WANT.slice(0, 3));
  assert.deepEqual(told(await behind), WANT[4]);
  const streams = ASKED.slice(0, 3).map(([prompt]) => batch.generate(prompt, { maxTokens: 9 }));
  for (const s of streams) await s.next();
  await assert.rejects(() => batch.complete(PROMPT), /the model is generating 3 others; wait until/);
  for (const s of streams) await s.return(undefined as never);
  assert.deepEqual(told(await batch.complete(...ASKED[0])), WANT[0]);
});

Deno.test("batches: texts wait once for a reader that is away, not at each of their tokens", async () => {
  const away = batch.generate(PROMPT, { maxTokens: 20 });
  await away.next();
  const set = globalThis.setTimeout;
  let waits = 0;
  globalThis.setTimeout = ((run: () => void, ms?: number) => {
    if ((ms ?? 0) > 0) waits++;
    return set(run, ms);
  }) as typeof setTimeout;
  try {
    assert.deepEqual(told(await batch.complete(...ASKED[7])), WANT[7]);
  } finally {
    globalThis.setTimeout = set;
  }
  assert.ok(waits <= 2, String(waits));
  let text = "";
  for await (const piece of away) text += piece.text;
  assert.ok((await alone.complete(PROMPT, { maxTokens: 20 })).text.endsWith(text));
});

Deno.test("batches: a text that is written is not forgotten under it, and ends with an error where its model goes", async () => {
  const model = await load(2), running = model.complete(LONG);
  const stream = model.generate(PROMPT);
  await stream.next();
  assert.throws(() => model.reset(), /Cannot forget the last text: the model is generating one; wait/);
  assert.deepEqual(told(await running), WANT[7]);
  const more = [model.complete(LONG), model.complete(LONG), stream.next()].map((p) => p.then(() => "", String));
  model[Symbol.dispose]();
  for (const error of await Promise.all([...more, stream.next().then(() => "", String)])) {
    if (error !== "") {
      assert.match(error, /^ArgumentError: Cannot generate a text: the model was disposed; load it again$/);
    }
  }
  assert.match(await more[0], /disposed/);
  assert.match(await more[1], /disposed/);
});

Deno.test("batches: a text is read, written and guessed by one capture each, however tokens are chosen", async () => {
  using model = await load(1);
  const { decoder } = model, logits = decoder.logits.bind(decoder), logitsOfAll = decoder.logitsOfAll.bind(decoder);
  const traced = new Map<number, number>(), trace = ({ shape: [n] }: Tensor) => traced.set(n, (traced.get(n) ?? 0) + 1);
  decoder.logits = (...given) => (trace(given[0]), logits(...given));
  decoder.logitsOfAll = (...given) => (trace(given[0]), logitsOfAll(...given));
  const drawn = { temperature: 1, seed: 1 },
    ways: GenerateOptions[] = [
      ...[{}, {}, { ...drawn }, { ...drawn, topK: 5, topP: 0.9, minP: 0.1 }, { repetitionPenalty: 1.2 }, {
        logprobs: 1,
      }],
      ...[{ logitBias: { 300: 3 } }, { grammar: 'root ::= " "? [a-zA-Z ,.]+' }],
    ];
  for (const [i, way] of ways.entries()) await model.complete(["The dog", "A cat"][i % 2], { maxTokens: 4, ...way });
  assert.deepEqual([...traced], [[32, 2], [1, 2]]); // as it is, and captured
  const said = "Lily saw a big dog. The dog was big. Lily saw a big";
  for (const way of ways.slice(0, 3)) await model.complete(said, { maxTokens: 12, speculate: 3, ...way });
  assert.deepEqual([...traced], [[32, 2], [1, 2], [4, 2]]);
});
