/** Programs that people write with language models, whole: each checks what it gets against a truth of its own. */
import {
  assert,
  assertAlmostEquals,
  assertEquals,
  assertMatch,
  assertNotEquals,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { nn, Tensor } from "../../mod.ts";
import {
  type ChatMessage,
  encodeGguf,
  LanguageModel,
  loadLora,
  lora,
  type Piece,
  quantizeModel,
  readGguf,
  renderChat,
  serve,
  typed,
  type Usage,
  writeGguf,
} from "../../src/llm/llm.ts";
import { inFolder } from "../support/folder.ts";

const FILE = new URL("../../examples/models/stories260K.gguf", import.meta.url), PROMPT = "Once upon a time";
const TEMPLATE = "{{ bos_token }}{% for m in messages %}{{ m.role|capitalize }}: {{ m.content|trim }}\n{% endfor %}" +
  "{% if add_generation_prompt %}Assistant:{% endif %}";
const file = await readGguf(FILE);
const withTemplate = new Tensor(
  await encodeGguf({
    metadata: new Map(file.metadata).set("tokenizer.chat_template", typed("string", TEMPLATE)),
    tensors: file.tensors,
  }),
);
const load = (options = {}) => LanguageModel.load(withTemplate, { device: "WASM", context: 256, ...options });
/** llama.cpp's greedy text. */
const STORY =
  ", there was a little girl named Lily. She loved to play outside in the park. One day, she saw a big, red ball.";

async function all(pieces: AsyncGenerator<Piece, Usage>): Promise<[text: string, usage: Usage]> {
  let text = "";
  for (;;) {
    const { done, value } = await pieces.next();
    if (done) return [text, value];
    text += value.text;
  }
}

/** Can what renders templates be fetched, or is it here? */
const rendersTemplates = await renderChat([], TEMPLATE, {}).then(
  () => true,
  (e) => !/could not be loaded/.test(e.message),
);

Deno.test({
  name: "programs: a chat loop answers each turn as a model that reads all of it anew, and reads only what is new",
  ignore: !rendersTemplates,
  fn: chatLoop,
});
async function chatLoop(): Promise<void> {
  using model = await load();
  const messages: ChatMessage[] = [{ role: "system", content: "Tell stories." }];
  let known = 0;
  for (const content of ["Tell of a dog.", " And a cat? ", "The end?"]) {
    messages.push({ role: "user", content });
    const [text, usage] = await all(model.chat(messages, { maxTokens: 12, stop: "\n" }));
    using anew = await load();
    const written = await renderChat(messages, TEMPLATE, { bos_token: "<s>" });
    const alone = await anew.complete(anew.tokenizer.encode(written, { special: true, add: false }), {
      maxTokens: 12,
      stop: ["\n"],
    });
    assertEquals(text, alone.text);
    assert(usage.cachedTokens >= known && alone.cachedTokens === 0, `${usage.cachedTokens} of ${known}`);
    known = usage.promptTokens;
    messages.push({ role: "assistant", content: text });
  }
}

Deno.test("programs: a stream may be left, and the model goes on with the next", async () => {
  using model = await load();
  let shown = "";
  for await (const { text } of model.generate(PROMPT, { maxTokens: 60 })) {
    shown += text;
    if (shown.includes("Lily")) break;
  }
  assert(STORY.startsWith(shown), shown);
  const pieces = await Array.fromAsync(model.generate(PROMPT, { maxTokens: 41 }), (p) => p.text);
  assertEquals(pieces.join("").slice(0, 60), STORY.slice(0, 60));
  const [first, second] = [model.generate(PROMPT, { maxTokens: 2 }), model.generate(PROMPT, { maxTokens: 2 })];
  await first.next();
  await assertRejects(() => second.next(), Error, "the model is generating another");
  await first.return(undefined as never);
  const stream = ReadableStream.from(model.generate(PROMPT, { maxTokens: 5 }));
  const texts: string[] = [];
  for await (const p of stream) texts.push(p.text);
  assert(STORY.startsWith(texts.join("")));
});

Deno.test("programs: seeds and the settings of sampling do what they say", async () => {
  using model = await load();
  const text = async (options: object) => (await model.complete(PROMPT, { maxTokens: 24, ...options })).text;
  const greedy = await text({});
  assertEquals(await text({ temperature: 1, topK: 1 }), greedy);
  assertEquals(await text({ temperature: 1, topP: 1e-6 }), greedy);
  assertEquals(await text({ temperature: 1, minP: 1 }), greedy);
  assertEquals(await text({ temperature: 1.2, seed: 3 }), await text({ temperature: 1.2, seed: 3 }));
  const several = new Set<string>();
  for (let seed = 1; seed <= 4; seed++) several.add(await text({ temperature: 1.2, seed }));
  assert(several.size >= 3);
  const [comma] = model.tokenizer.encode(greedy, { add: false });
  assertNotEquals(await text({ logitBias: { [comma]: -100 } }), greedy);
  const { tokens } = await model.complete(PROMPT, { maxTokens: 5, logitBias: { [comma]: 100 } });
  assertEquals(new Set(tokens.map((t) => t.id)), new Set([comma]));
  for (
    const [options, why] of [
      [{ temperature: -1 }, /temperature/],
      [{ topP: 2 }, /topP/],
      [{ max_tokens: 5 }, /max_tokens.*maxTokens|maxTokens/],
      [{ temperature: "0.5" }, /temperature/],
      [{ topK: 1.5 }, /topK/],
      [{ seed: "x" }, /seed/],
    ] as const
  ) assertMatch(String(await text(options).catch((e) => e)), why);
});

Deno.test("programs: log probabilities are those of the softmax, and add up to 1", async () => {
  using model = await load();
  const ids = model.promptIds(PROMPT), n = model.decoder.vocabulary;
  const [token] = (await model.complete(ids, { maxTokens: 1, logprobs: n })).tokens;
  const sum = token.logprobs!.best.reduce((s, t) => s + Math.exp(t.logprob), 0);
  assertAlmostEquals(sum, 1, 1e-4);
  const logits = await model.decoder.forward(new Tensor(Int32Array.from(ids), { device: "WASM" }))
    .data() as Float32Array;
  const last = logits.subarray(-n),
    most = last.reduce((a, b) => Math.max(a, b)),
    total = last.reduce((s, x) => s + Math.exp(x - most), 0);
  for (const { id, logprob } of token.logprobs!.best.slice(0, 20)) {
    assertAlmostEquals(logprob, last[id] - most - Math.log(total), 1e-3);
  }
  const told = await model.promptLogprobs(PROMPT + STORY),
    odd = await model.promptLogprobs(PROMPT + STORY.split("").reverse().join(""));
  const mean = (x: typeof told) => x.slice(1).reduce((s, t) => s + t.logprobs!.own, 0) / (x.length - 1);
  assert(mean(told) > -1 && mean(odd) < -3, `${mean(told)} ${mean(odd)}`);
});

Deno.test("programs: stop texts end an answer wherever its tokens are cut, and are no part of it", async () => {
  using model = await load();
  for (const stop of ["Lily", "ily. S", " named", "re was", "t", [". One", ". She"], "loved to play outside in"]) {
    const list = typeof stop === "string" ? [stop] : stop,
      { text, finish } = await model.complete(PROMPT, { maxTokens: 60, stop });
    const at = Math.min(...list.map((s) => STORY.indexOf(s)));
    assertEquals([text, finish], [STORY.slice(0, at), "stop"]);
  }
  const never = await model.complete(PROMPT, { maxTokens: 20, stop: "Lilz" });
  assert(STORY.startsWith(never.text) && never.finish === "length");
  await assertRejects(() => model.complete(PROMPT, { stop: "" }), Error, "stop is no text");
});

Deno.test("programs: long prompts are read to the last place of the context, and no further", async () => {
  using model = await load({ context: 128 });
  const long = model.promptIds((PROMPT + STORY + " ").repeat(8));
  for (const n of [127, 126, 97, 65]) {
    const { text, promptTokens, completionTokens, finish } = await model.complete(long.slice(0, n));
    assertEquals([promptTokens, finish], [n, "length"]);
    assert(completionTokens >= 1 && completionTokens <= 129 - n, `${completionTokens} behind ${n}`);
    using wide = await load({ context: 256 });
    assert((await wide.complete(long.slice(0, n), { maxTokens: 40 })).text.startsWith(text.slice(0, 40)));
  }
  await assertRejects(() => model.complete(long.slice(0, 129)), Error, "128");
});

Deno.test("programs: an answer is stopped by a signal, before and while it comes", async () => {
  using model = await load();
  const stopped = await model.complete(PROMPT, { signal: AbortSignal.abort(), maxTokens: 9 });
  assertEquals([stopped.finish, stopped.text], ["abort", ""]);
  const controller = new AbortController(), pieces = model.generate(PROMPT, { signal: controller.signal });
  for (let i = 0; i < 3; i++) await pieces.next();
  controller.abort();
  const [rest, usage] = await all(pieces);
  assertEquals([usage.finish, rest.length < 12], ["abort", true]);
  assert(STORY.startsWith((await model.complete(PROMPT, { maxTokens: 8 })).text));
  const timed = await model.complete(PROMPT, { signal: AbortSignal.timeout(1) });
  assertEquals(timed.finish, "abort");
});

Deno.test("programs: a schema gives values that it allows, a grammar its words", async () => {
  using model = await load();
  const schema = {
    type: "object",
    properties: {
      name: { type: "string", minLength: 1, maxLength: 8 },
      age: { type: "integer", minimum: 1, maximum: 99 },
      pets: { type: "array", items: { enum: ["dog", "cat"] }, minItems: 1, maxItems: 3 },
      friend: { anyOf: [{ type: "null" }, { type: "boolean" }] },
    },
    required: ["name", "age", "pets", "friend"],
    additionalProperties: false,
  };
  for (const options of [{}, { temperature: 1.5, seed: 5 }, { temperature: 1, seed: 6 }]) {
    const { text, finish } = await model.complete(`${PROMPT}\n`, { schema, ...options }), x = JSON.parse(text);
    assertEquals([finish, Object.keys(x)], ["stop", ["name", "age", "pets", "friend"]]);
    assert(typeof x.name === "string" && x.name.length >= 1 && x.name.length <= 8, text);
    assert(Number.isInteger(x.age) && x.age >= 1 && x.age <= 99 && x.pets.length >= 1 && x.pets.length <= 3, text);
    assert(x.pets.every((p: string) => p === "dog" || p === "cat") && [null, true, false].includes(x.friend), text);
  }
  const { text } = await model.complete(PROMPT, {
    grammar: 'root ::= ("yes" | "no") " " [0-9]{2}',
    temperature: 1,
    seed: 1,
  });
  assertMatch(text, /^(yes|no) \d\d$/);
  await assertRejects(() => model.complete(PROMPT, { grammar: "root ::= (" }), Error, "Cannot read a grammar");
});

Deno.test("programs: guesses by a draft and by what came before give the text that comes without", async () => {
  using model = await load();
  using draft = await load();
  const prompt = `${PROMPT}${STORY} ${PROMPT}`;
  for (const options of [{}, { temperature: 0.8, seed: 4 }]) {
    const want = await model.complete(prompt, { maxTokens: 30, ...options });
    for (const more of [{ speculate: 4 }, { draft }, { draft, speculate: 7 }]) {
      const got = await model.complete(prompt, { maxTokens: 30, ...options, ...more });
      assertEquals(got.text, want.text);
      assert(got.guessedTokens > 0, JSON.stringify(options));
    }
  }
});

Deno.test("programs: adapters learn a sentence, are saved, loaded and merged", async () => {
  await inFolder(async (folder) => {
    using model = await load({ context: 32 });
    Tensor.manualSeed(1);
    const sentence = "The fox sings at night.", ids = Int32Array.from(model.promptIds(sentence));
    const x = new Tensor(ids.slice(0, -1), { device: "WASM" }), y = new Tensor(ids.slice(1), { device: "WASM" });
    const loss = () => model.decoder.forward(x).crossEntropy(y), before = await loss().item() as number;
    const adapters = lora(model, { rank: 4, targets: ["attn_q", "attn_v", "ffn_up", "ffn_down"] });
    const adam = new nn.optim.AdamW(Object.values(adapters.parameters), { lr: 0.02 });
    Tensor.train(() => {
      for (let i = 0; i < 20; i++) {
        adam.zeroGrad();
        loss().backward();
        adam.step();
      }
    });
    const after = await loss().item() as number;
    assert(after < before / 2, `${before} to ${after}`);
    model.reset();
    const learned = (await model.complete("The fox", { maxTokens: 6 })).text;
    assertStringIncludes(sentence, learned.trim().slice(0, 8));
    await writeGguf(`${folder}/fox.gguf`, adapters.contents());
    using other = await load({ context: 32 });
    loadLora(other, await readGguf(`${folder}/fox.gguf`));
    other.reset();
    assertEquals((await other.complete("The fox", { maxTokens: 6 })).text, learned);
  });
});

Deno.test("programs: a model is made smaller, written and loaded, and still tells the story", async () => {
  await inFolder(async (folder) => {
    await writeGguf(`${folder}/small.gguf`, quantizeModel(file, "Q8_0"));
    using small = await LanguageModel.load(`${folder}/small.gguf`, { device: "WASM", context: 64 });
    const { text } = await small.complete(PROMPT, { maxTokens: 16 });
    assertEquals(text.slice(0, 30), STORY.slice(0, 30));
    assert(small.decoder.nbytes < 0.4 * (await load()).decoder.nbytes);
  });
});

Deno.test("programs: a server streams to many at once, and who leaves early harms nobody", async () => {
  using model = await load({ sequences: 16, context: 64 });
  const server = serve(model, { port: 0 }), url = `${server.url}/v1/completions`;
  try {
    const ask = async (prompt: string, leave: boolean): Promise<string> => {
      const controller = new AbortController(), { signal } = controller;
      const body = JSON.stringify({ model: model.name, prompt, max_tokens: 16, temperature: 0, stream: true });
      const response = await fetch(url, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body,
        signal,
      });
      assertEquals([response.status, response.headers.get("content-type")], [200, "text/event-stream; charset=utf-8"]);
      let text = "", rest = "";
      try {
        for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
          const events = (rest + chunk).split("\n\n");
          rest = events.pop()!;
          for (const event of events) if (event !== "data: [DONE]") text += JSON.parse(event.slice(6)).choices[0].text;
          if (leave && text !== "") controller.abort();
        }
      } catch (e) {
        assert(leave && (e as Error).name === "AbortError", String(e));
      }
      return text;
    };
    const prompts = [PROMPT, "The cat", "Lily and Tom", "One day"];
    const alone: string[] = [];
    for (const p of prompts) alone.push(await ask(p, false));
    assert(STORY.startsWith(alone[0]));
    const many = await Promise.all(Array.from({ length: 16 }, (_, i) => ask(prompts[i % 4], i % 3 === 2)));
    many.forEach((text, i) => i % 3 === 2 ? assert(alone[i % 4].startsWith(text)) : assertEquals(text, alone[i % 4]));
  } finally {
    await server.stop();
  }
});
