/**
 * Ten programs of the first hours with a language model: loops of one's own, conversations, vocabularies, chances, JSON,
 * vectors, streams over HTTP that are left, many at once, texts that begin alike, long ones. Truths are from outside of what
 * is tested: the logits themselves, `JSON.parse`, counts of draws, and what the same texts give alone.
 */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { Tensor } from "../../mod.ts";
import { LanguageModel, serve } from "../../src/llm/llm.ts";

const FILE = new URL("../../examples/models/stories260K.gguf", import.meta.url);
const PROMPT = "Once upon a time";
const model = await LanguageModel.load(FILE, { device: "WASM", context: 256 });
const several = await LanguageModel.load(FILE, { device: "WASM", context: 256, sequences: 4 });

/** The logits behind each token, row by row. */
async function logitsOf(ids: readonly number[]): Promise<number[][]> {
  const tokens = new Tensor(Int32Array.from(ids), { device: "WASM" });
  return await model.decoder.forward(tokens).tolist() as number[][];
}
function logSoftmax(row: readonly number[]): number[] {
  const most = Math.max(...row), sum = Math.log(row.reduce((s, x) => s + Math.exp(x - most), 0));
  return row.map((x) => x - most - sum);
}
const near = (a: number, b: number, by = 1e-4) => assert(Math.abs(a - b) <= by, `${a} is not ${b}`);

Deno.test("first hours: a loop of one's own, by the largest logit, writes what complete writes", async () => {
  const ids = [...model.promptIds(PROMPT)];
  for (let i = 0; i < 12; i++) {
    const row = (await logitsOf(ids)).at(-1)!;
    ids.push(row.indexOf(Math.max(...row)));
  }
  const { tokens } = await model.complete(PROMPT, { maxTokens: 12 });
  assertEquals(tokens.map((t) => t.id), ids.slice(-12));
});

Deno.test("first hours: perplexity is that of the softmax of the logits", async () => {
  const text = "Once upon a time, there was a little girl named Lily. She loved to play.";
  const told = await model.promptLogprobs(text),
    ids = told.map((t) => t.id),
    rows = (await logitsOf(ids)).map(logSoftmax);
  ids.slice(1).forEach((id, i) => near(told[i + 1].logprobs!.own, rows[i][id], 2e-4));
  const mean = told.slice(1).reduce((s, t) => s + t.logprobs!.own, 0) / (ids.length - 1);
  assert(Math.exp(-mean) < 3, "it knows such stories");
  const scrambled = await model.promptLogprobs([...ids].reverse()), other = scrambled.slice(1);
  assert(other.reduce((s, t) => s + t.logprobs!.own, 0) / other.length < mean - 2);
});

Deno.test("first hours: a conversation grows, and only what is new is read", async () => {
  model.reset();
  let text = PROMPT, before = 0;
  for (const more of ["", " He ran", " The end"]) {
    text += more;
    const answer = await model.complete(text, { maxTokens: 6 });
    assert(answer.cachedTokens >= Math.max(0, before - 1), `${answer.cachedTokens} of ${before}`);
    const alone = await LanguageModel.load(FILE, { device: "WASM", context: 256 });
    assertEquals((await alone.complete(text, { maxTokens: 6 })).text, answer.text);
    alone[Symbol.dispose]();
    text += answer.text;
    before = answer.promptTokens + answer.completionTokens - 2;
  }
});

Deno.test("first hours: every text comes back from its tokens, whole and as a stream", () => {
  const { tokenizer } = model;
  for (
    const text of ["", " ", "a b", "  two  spaces ", "héllo", "🦕🦖 👩‍👩‍👧", "日本語", "\n\t", "a\u0301", "<s>", "</s>"]
  ) {
    const ids = tokenizer.encode(text), stream = tokenizer.stream();
    assertEquals(tokenizer.decode(ids), text);
    const pieces = ids.map((id) => stream.push(id));
    assertEquals(pieces.join("") + stream.end(), text);
    for (const piece of pieces) assert(!piece.includes("\ufffd"), `${JSON.stringify(text)} was split in a character`);
  }
});

Deno.test("first hours: draws come as often as the softmax says, and a bias forbids", async () => {
  const prompt = "Once upon a time, there was a", temperature = 1.5, draws = 300;
  const chance = logSoftmax((await logitsOf(model.promptIds(prompt))).at(-1)!.map((x) => x / temperature)).map(
    Math.exp,
  );
  const counts = new Map<number, number>();
  for (let seed = 0; seed < draws; seed++) {
    const [{ id }] = (await model.complete(prompt, { maxTokens: 1, temperature, seed })).tokens;
    counts.set(id, (counts.get(id) ?? 0) + 1);
  }
  // chi-square over the likely ones and the rest together: beyond 40 for 8 classes one time in 10^6
  const likely = [...chance.keys()].sort((a, b) => chance[b] - chance[a]).slice(0, 7), rest = { p: 1, n: draws };
  let chi = 0;
  for (const id of likely) {
    const p = chance[id], n = counts.get(id) ?? 0;
    chi += (n - draws * p) ** 2 / (draws * p);
    rest.p -= p;
    rest.n -= n;
  }
  chi += (rest.n - draws * rest.p) ** 2 / (draws * rest.p);
  assert(chi < 40, `chi-square is ${chi}`);
  const logitBias = { [likely[0]]: -Infinity };
  assertEquals((await model.complete(prompt, { maxTokens: 1, logitBias })).tokens[0].id, likely[1]);
});

Deno.test("first hours: what a schema allows is JSON of that form, at any temperature", async () => {
  const schema = {
    type: "object",
    properties: {
      name: { type: "string", maxLength: 8 },
      age: { type: "integer", minimum: 0, maximum: 120 },
      tags: { type: "array", items: { enum: ["a", "b", null] }, minItems: 1, maxItems: 3 },
    },
    required: ["name", "age", "tags"],
    additionalProperties: false,
  };
  for (const temperature of [0, 1, 2]) {
    const { text, finish } = await model.complete(PROMPT, { maxTokens: 200, schema, temperature, seed: 3 });
    const { name, age, tags, ...others } = JSON.parse(text);
    assertEquals([finish, typeof name, others], ["stop", "string", {}]);
    assert([...name].length <= 8 && Number.isInteger(age) && age >= 0 && age <= 120);
    assert(tags.length >= 1 && tags.length <= 3 && tags.every((t: unknown) => ["a", "b", null].includes(t as string)));
  }
});

Deno.test("first hours: vectors of texts have length 1, and over HTTP come as numbers and as base64", async () => {
  const a = await model.embed("A cat sat."), length = Math.hypot(...a), server = serve(several, { port: 0 });
  near(length, 1, 1e-5);
  try {
    const ask = async (more: object) => {
      const body = JSON.stringify({ model: several.name, input: ["A cat sat.", "A dog ran."], ...more });
      return (await (await fetch(`${server.url}/v1/embeddings`, { method: "POST", body })).json()).data;
    };
    const plain = await ask({}), packed = await ask({ encoding_format: "base64" });
    assertEquals(plain.map((d: { index: number }) => d.index), [0, 1]);
    plain[0].embedding.forEach((x: number, i: number) => near(x, a[i], 1e-5));
    const bytes = Uint8Array.from(atob(packed[0].embedding), (c) => c.charCodeAt(0));
    new Float32Array(bytes.buffer).forEach((x, i) => near(x, a[i], 1e-5));
  } finally {
    await server.stop();
  }
});

/** The texts of a stream of server-sent events, until `most` of them. */
async function streamed(response: Response, most = Infinity): Promise<string> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let all = "", text = "", n = 0, ended = false;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    all += value;
    for (let at = all.indexOf("\n\n"); at >= 0; all = all.slice(at + 2), at = all.indexOf("\n\n")) {
      const data = all.slice(0, at).replace(/^data: /, "");
      if (data === "[DONE]") ended = true;
      else text += JSON.parse(data).choices[0]?.text ?? "";
      if (++n >= most) {
        await reader.cancel();
        return text;
      }
    }
  }
  assert(ended, "a stream ends with [DONE]");
  return text;
}

Deno.test("first hours: streams over HTTP are left or stopped half way, and the next ones are whole", async () => {
  const server = serve(several, { port: 0 }), want = (await model.complete(PROMPT, { maxTokens: 40 })).text;
  const ask = (signal?: AbortSignal) => {
    const body = JSON.stringify({ model: several.name, prompt: PROMPT, max_tokens: 40, temperature: 0, stream: true });
    return fetch(`${server.url}/v1/completions`, { method: "POST", body, signal });
  };
  try {
    for (let i = 0; i < 6; i++) {
      assert(want.startsWith(await streamed(await ask(), 3)));
      const stop = new AbortController(), response = await ask(stop.signal), reader = response.body!.getReader();
      await reader.read();
      stop.abort();
      await assertRejects(async () => {
        while (!(await reader.read()).done);
      });
    }
    assertEquals(await streamed(await ask()), want);
    const health = await (await fetch(`${server.url}/health`)).json();
    assertEquals(health.status, "ok");
  } finally {
    await server.stop();
  }
});

Deno.test("first hours: ten at once are each what they are alone", async () => {
  const server = serve(several, { port: 0 }),
    prompts = Array.from({ length: 10 }, (_, i) => `${PROMPT}${", a".repeat(i)}`);
  try {
    const got = await Promise.all(prompts.map(async (prompt) => {
      const body = JSON.stringify({ model: several.name, prompt, max_tokens: 12, temperature: 0 });
      const answer = await (await fetch(`${server.url}/v1/completions`, { method: "POST", body })).json();
      return answer.choices[0].text;
    }));
    for (const [i, prompt] of prompts.entries()) {
      assertEquals(got[i], (await model.complete(prompt, { maxTokens: 12 })).text);
    }
  } finally {
    await server.stop();
  }
});

Deno.test("first hours: a text fills its context to the last place, and says what is too long", async () => {
  const ids = Array.from({ length: 256 }, (_, i) => 300 + i % 100);
  assertEquals((await model.complete(ids, { maxTokens: 9 })).completionTokens, 1);
  const { finish, completionTokens } = await model.complete(ids.slice(0, 250), { maxTokens: 99 });
  assertEquals([finish, completionTokens], ["length", 7]);
  const error = await assertRejects(() => model.complete([...ids, 5], { maxTokens: 1 }), Error);
  assertStringIncludes(error.message, "it has 257 tokens, and the context is 256");
  // a long text is the same, read in chunks or token by token
  const rows = await logitsOf(ids.slice(0, 200)),
    [{ id }] = (await model.complete(ids.slice(0, 200), { maxTokens: 1 })).tokens;
  assertEquals(id, rows.at(-1)!.indexOf(Math.max(...rows.at(-1)!)));
});
