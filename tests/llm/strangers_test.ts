/** What people who come from other libraries try first: forms that work, and errors that say what does. */
import {
  assert,
  assertAlmostEquals,
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { dtypes, Tensor } from "../../mod.ts";
import { compileStats } from "../../src/engine/compile_cache.ts";
import {
  BLOCK_FORMATS,
  Decoder,
  decodeStep,
  dequantize,
  EmbeddingModel,
  encodeGguf,
  LanguageModel,
  loadLora,
  lora,
  ModelServer,
  modelSpec,
  newLlama,
  quantizeModel,
  serve,
  trainBpe,
  vocabularyOf,
  writeHfFolder,
} from "../../src/llm/llm.ts";

const FILE = new URL("../../examples/models/stories260K.gguf", import.meta.url);
const model = await LanguageModel.load(FILE, { device: "WASM", context: 512 });
const PROMPT = "Once upon a time";

Deno.test("strangers: a completion tells its tokens, with log probabilities where they are asked for", async () => {
  const { text, tokens } = await model.complete(PROMPT, { maxTokens: 4, logprobs: 2 });
  assertEquals(tokens.length, 4);
  assertEquals(model.tokenizer.decode(tokens.map((t) => t.id)), text);
  for (const { id, logprobs } of tokens) {
    assertEquals(logprobs?.best[0].id, id);
    assertEquals(logprobs?.own, logprobs?.best[0].logprob);
  }
  const [plain] = (await model.complete(PROMPT, { maxTokens: 1 })).tokens;
  assertEquals(plain.logprobs, undefined);
});

Deno.test("strangers: ids of tokens may be an Int32Array", async () => {
  const ids = model.tokenizer.encode(PROMPT);
  const { text } = await model.complete(Int32Array.from(ids), { maxTokens: 4 });
  assertEquals(text, (await model.complete(PROMPT, { maxTokens: 4 })).text);
  assertEquals(model.tokenizer.decode(Int32Array.from(ids)), PROMPT);
  assertThrows(() => model.tokenizer.decode(5 as unknown as number[]), Error, "a list of ids, not 5");
});

Deno.test("strangers: what is no list of messages is told what is one", async () => {
  for (const wrong of [PROMPT, [PROMPT], { role: "user", content: PROMPT }]) {
    await assertRejects(() => model.chat(wrong as never).next(), Error, "messages are a list as [{ role:");
  }
});

async function post(path: string, body: Record<string, unknown>): Promise<[number, string]> {
  const server = new ModelServer(model);
  const init = { method: "POST", body: JSON.stringify(body) };
  const response = await server.handle(new Request(`http://localhost/v1/${path}`, init));
  return [response.status, await response.text()];
}

/** What completions tell of tokens. */
interface Told {
  readonly tokens: readonly string[];
  readonly text_offset: readonly number[];
  readonly token_logprobs: readonly (number | null)[];
  readonly top_logprobs: readonly (Record<string, number> | null)[];
}

Deno.test("strangers: a text tells how probable its tokens are, as those of an answer are told", async () => {
  for (const prompt of [PROMPT, model.promptIds(PROMPT + ", there was a little girl named Lily. ".repeat(5))]) {
    const answer = await model.complete(prompt, { maxTokens: 40, logprobs: 3 });
    const ids = [...model.promptIds(prompt), ...answer.tokens.map((t) => t.id)];
    const told = await model.promptLogprobs(ids, { best: 3 }), start = ids.length - answer.tokens.length;
    assertEquals(told.map((t) => t.id), ids);
    assertEquals(told[0].logprobs, undefined);
    answer.tokens.forEach(({ logprobs }, i) => {
      const mine = told[start + i].logprobs!;
      assertAlmostEquals(mine.own, logprobs!.own, 1e-4);
      mine.best.forEach(({ logprob }, k) => assertAlmostEquals(logprob, logprobs!.best[k].logprob, 1e-4));
    });
    // what follows is as if nothing had been asked
    assertEquals((await model.complete(prompt, { maxTokens: 40 })).text, answer.text);
  }
  const ids = [...model.promptIds(PROMPT)], told = await model.promptLogprobs(ids);
  const logits = model.decoder.forward(new Tensor(Int32Array.from(ids), { device: "WASM" }));
  const rows = await logits.tolist() as number[][];
  ids.slice(1).forEach((id, i) => {
    const most = Math.max(...rows[i]), sum = rows[i].reduce((n, x) => n + Math.exp(x - most), 0);
    assertAlmostEquals(told[i + 1].logprobs!.own, rows[i][id] - most - Math.log(sum), 1e-4);
    assertEquals(told[i + 1].logprobs!.best, []);
  });
  await assertRejects(() => model.promptLogprobs([]), Error, "Cannot tell how probable a text is: it is empty");
  await assertRejects(() => model.promptLogprobs(PROMPT, { best: -1 }), Error, "best");
  await assertRejects(() => model.promptLogprobs(Array(513).fill(5)), Error, "513 tokens");
});

Deno.test("strangers: an echoed completion tells the tokens of its prompt, in streams too", async () => {
  for (const max_tokens of [0, 3]) {
    const body = { prompt: "Once upon", max_tokens, echo: true, logprobs: 1, temperature: 0 };
    const [choice] = JSON.parse((await post("completions", body))[1]).choices;
    const told = choice.logprobs as Told, shown = told.tokens.slice(1); // the first stands for no letters
    assertEquals(told.tokens.length, model.promptIds("Once upon").length + max_tokens);
    assertEquals(told.token_logprobs[0], null);
    assert(told.token_logprobs.slice(1).every((x) => x !== null && x < 0));
    assertEquals(told.top_logprobs.map((t) => t === null ? 0 : Object.keys(t).length), [0, ...shown.map(() => 1)]);
    assertEquals(choice.text.length, told.text_offset.at(-1)! + shown.at(-1)!.length);
    const letters = (i: number) => choice.text.slice(told.text_offset[i + 1], told.text_offset[i + 2]);
    shown.forEach((t, i) => assertEquals(letters(i), i === 0 ? t.trimStart() : t));
    const [, events] = await post("completions", { ...body, stream: true });
    const parts = [...events.matchAll(/^data: (\{.*)$/gm)].flatMap((m) => JSON.parse(m[1]).choices[0].logprobs ?? []);
    for (const key of ["tokens", "text_offset", "token_logprobs"] as const) {
      assertEquals(parts.flatMap((p: Told) => p[key] as unknown[]), [...told[key]]);
    }
  }
});

Deno.test("strangers: what completions cannot do is refused by name", async () => {
  const cases = [[{ suffix: "x" }, "suffix"], [{ logprobs: 21 }, "logprobs"]] as const;
  for (const [more, field] of cases) {
    const [status, text] = await post("completions", { prompt: "Once", max_tokens: 3, ...more });
    assertEquals(status, 400);
    assertStringIncludes(text, `'${field}'`);
  }
});

Deno.test("strangers: a function without parameters is called without arguments", async () => {
  const [status, text] = await post("chat/completions", {
    messages: [{ role: "user", content: PROMPT }],
    tools: [{ type: "function", function: { name: "now" } }],
    tool_choice: "required",
    max_tokens: 90,
  });
  assertEquals(status, 200);
  const [choice] = JSON.parse(text).choices;
  assertEquals(choice.finish_reason, "tool_calls", text);
  assertEquals(JSON.parse(choice.message.tool_calls[0].function.arguments), {});
});

Deno.test("strangers: options that the programs do not know are refused", async () => {
  for (const program of ["chat", "serve"]) {
    const path = new URL(`../../examples/${program}.ts`, import.meta.url).pathname;
    const { code, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", path, "--propmt", "x"],
    }).output();
    assert(code !== 0);
    assertStringIncludes(new TextDecoder().decode(stderr), "There is no option --propmt: known are");
  }
});

Deno.test("strangers: every mix that an error names can be written", async () => {
  const file = model.decoder.file();
  const error = assertThrows(() => quantizeModel(file, "Q9" as "F16"), Error, "known are ");
  const names = error.message.split("known are ")[1].split(", ");
  assert(names.length > 8);
  for (const name of names) quantizeModel(file, name as "F16");
  for (const name of ["F16", "BF16"]) assert((await encodeGguf(quantizeModel(file, name as "F16"))).length > 500_000);
});

Deno.test("strangers: a model, its parts and its weights print in a line each", () => {
  assertEquals(
    Deno.inspect(model),
    "LanguageModel stories260K: llama, 0.260 M parameters in 1.04 MB on WASM, context 512",
  );
  assertEquals(Deno.inspect(model.decoder), "Decoder: llama, 0.260 M parameters in 1.04 MB on WASM, context 512");
  assertEquals(Deno.inspect(model.tokenizer), "Tokenizer: spm, 512 tokens");
  assertEquals(Deno.inspect(model.decoder.weights.get("output_norm.weight")), "Weight [64] F32");
});

Deno.test("strangers: a cache that would round keys to whole numbers is refused, before weights are read", async () => {
  for (
    const [cache, told] of [["int8", '"int8"'], ["q4_0", '"q4_0"'], [dtypes.int32, "int32"], [
      "complex64",
      '"complex64"',
    ]]
  ) {
    await assertRejects(
      () => LanguageModel.load(FILE, { cache: cache as "float16" }),
      Error,
      `cache is ${told}; keys and values are kept in a dtype of floats, as "float16", or as "q8_0"`,
    );
  }
  assertThrows(() => model.decoder.makeCache("bool"), Error, 'Cannot make a cache: cache is "bool"');
  using half = await LanguageModel.load(FILE, { device: "WASM", context: 64, cache: dtypes.float16 });
  assertEquals(
    (await half.complete(PROMPT, { maxTokens: 8 })).text,
    (await model.complete(PROMPT, { maxTokens: 8 })).text,
  );
});

Deno.test("strangers: another number of tokens to choose among, or to tell of, needs no other kernels", async () => {
  const ask = async (topK: number, logprobs: number) => {
    const options = { maxTokens: 3, temperature: 0.8, seed: 5, topK, topP: 0.95, logprobs };
    const { tokens } = await model.complete(PROMPT, options);
    for (const t of tokens) assertEquals(t.logprobs!.best.length, logprobs);
    return tokens.map((t) => t.id);
  };
  await ask(40, 5);
  await ask(40, 5); // captured
  const before = { ...compileStats };
  for (const [topK, logprobs] of [[37, 6], [50, 7], [64, 8]]) await ask(topK, logprobs);
  assertEquals({ ...compileStats }, before);
  // three are drawn from only three, though more are looked at
  const best = (await model.complete(PROMPT, { maxTokens: 1, logprobs: 3 })).tokens[0].logprobs!.best.map((b) => b.id);
  const drawn = new Set<number>();
  for (let seed = 0; seed < 24; seed++) {
    drawn.add((await model.complete(PROMPT, { maxTokens: 1, temperature: 100, topK: 3, seed })).tokens[0].id);
  }
  assertEquals([...drawn].sort((a, b) => a - b), best.toSorted((a, b) => a - b));
});

/** What is told where something else is given than a function takes: the way to what it takes. */
const FILE_READ = "is no file that was read; await readGguf(path) gives one";
const MODEL_LOADED = "is no language model; await LanguageModel.load(path) gives one";
const TAKEN: Readonly<Record<string, readonly [call: (x: never) => unknown, told: string]>> = {
  "new LanguageModel": [(x) => new LanguageModel(x, "name"), FILE_READ],
  "new EmbeddingModel": [(x) => new EmbeddingModel(x, "name"), FILE_READ],
  "new Decoder": [(x) => new Decoder(x, "name", "WASM"), FILE_READ],
  quantizeModel: [(x) => quantizeModel(x, "Q8_0"), FILE_READ],
  writeHfFolder: [(x) => writeHfFolder("folder", x), FILE_READ],
  loadLora: [(x) => loadLora(model, x), FILE_READ],
  encodeGguf: [(x) => encodeGguf(x), "it is made of { metadata, tensors }, objects or maps both, not of"],
  serve: [(x) => serve(x, { port: 0 }), MODEL_LOADED],
  "new ModelServer": [(x) => new ModelServer(x), MODEL_LOADED],
  lora: [(x) => lora(x), MODEL_LOADED],
  decodeStep: [(x) => decodeStep(x), "is no decoder; model.decoder is one"],
  modelSpec: [(x) => modelSpec(x, "name"), "is no map, as file.metadata is"],
  vocabularyOf: [(x) => vocabularyOf(x), "is no metadata; new Metadata(file.metadata, name) is"],
  forward: [(x) => model.decoder.forward(x), "is no tensor of tokens; new Tensor(ids) makes one"],
  dequantize: [(x) => dequantize(new Tensor([1, 2]), x), 'is no format; BLOCK_FORMATS.get("Q8_0") is one'],
  trainBpe: [(x) => trainBpe(["a text"], { size: x }), "size must be an integer of at least 257, not"],
  newLlama: [(x) => newLlama({ layers: 1, dim: 8, heads: 2, context: 8 }, x), "the tokenizer has no tokens"],
};

Deno.test("strangers: what a function does not take is refused with what gives it", async () => {
  for (const [name, [call, told]] of Object.entries(TAKEN)) {
    for (const given of [undefined, null, "model.gguf", {}, [1], LanguageModel, new URL("file:///model.gguf")]) {
      await assertRejects(async () => await call(given as never), Error, told, `${name} of ${Deno.inspect(given)}`);
    }
  }
  assertThrows(() => serve(Promise.resolve(model) as never), Error, `a Promise ${MODEL_LOADED}`);
  await assertRejects(() => LanguageModel.load(FILE, null as never), Error, "the options must be an object with");
  assertThrows(() => trainBpe(5 as never, { size: 300 }), Error, "it learns from a text or a list of texts, not 5");
  assertThrows(() => trainBpe("a text", undefined as never), Error, "size must be an integer of at least 257");
  assertThrows(
    () => dequantize(new Tensor([1, 2]), BLOCK_FORMATS.get("Q8_0")!),
    Error,
    "rows of 2 bytes are no blocks",
  );
  assertThrows(() => model.decoder.forward(new Tensor([[1, 2]])), Error, "tokens are integers in one axis, not int32");
  assertThrows(() => model.decoder.forward(new Tensor([1.5])), Error, "not float32 of shape [1]");
});

Deno.test("strangers: a tokenizer learns from one text what it learns from a list of it", () => {
  const text = "the cat sat on the mat with the hat. ".repeat(20);
  assertEquals(trainBpe(text, { size: 280 }), trainBpe([text], { size: 280 }));
  assert((trainBpe(text, { size: 280 })["tokenizer.ggml.tokens"] as string[]).length > 257);
});

Deno.test("strangers: a loop of one's own may count positions with plain numbers", async () => {
  const { decoder, tokenizer } = model, cache = decoder.makeCache(), ids = model.promptIds(PROMPT), out = [...ids];
  for (let i = 0; out.length < ids.length + 4; i++) {
    const token = new Tensor(Int32Array.of(out[i]), { device: "WASM" });
    const next = await decoder.logits(token, i, 0, cache).argmax().item() as number;
    if (i >= ids.length - 1) out.push(next);
  }
  const { text } = await model.complete(PROMPT, { maxTokens: 4 });
  assertEquals(tokenizer.decode(out), PROMPT + text);
  const states = decoder.states(new Tensor(Int32Array.from(ids), { device: "WASM" }), 0, decoder.makeCache());
  assertEquals(states.shape, [ids.length, decoder.spec.dim]);
});
