/** What people who come from other libraries try first: forms that work, and errors that say what does. */
import { assert, assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import "../../mod.ts";
import { encodeGguf, LanguageModel, ModelServer, quantizeModel } from "../../src/llm/llm.ts";

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

Deno.test("strangers: offsets of an echoed completion count the prompt, in streams too", async () => {
  const body = { prompt: "Once", max_tokens: 3, echo: true, logprobs: 1, temperature: 0 };
  const [choice] = JSON.parse((await post("completions", body))[1]).choices;
  const { tokens, text_offset } = choice.logprobs as { tokens: string[]; text_offset: number[] };
  assertEquals(tokens.length, 3);
  tokens.forEach((t, i) => assertEquals(choice.text.slice(text_offset[i], text_offset[i] + t.length), t));
  const [, events] = await post("completions", { ...body, stream: true });
  const told = [...events.matchAll(/"text_offset":\[(\d+)\]/g)].map((m) => Number(m[1]));
  assertEquals(told, text_offset);
});

Deno.test("strangers: what completions cannot do is refused by name", async () => {
  const cases = [[{ suffix: "x" }, "suffix"], [{ echo: true, logprobs: 1, max_tokens: 0 }, "logprobs"]] as const;
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
      args: ["run", "-A", "--no-check", "--unstable-no-legacy-abort", path, "--propmt", "x"],
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
