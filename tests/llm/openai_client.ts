/**
 * The official client of the protocol, npm's `openai` (Apache-2.0), against our server:
 *
 *     deno run -A --no-check tests/llm/openai_client.ts
 *
 * Prints "N checks"; ends with an error where something is not as the client expects it.
 */
import assert from "node:assert/strict";
import { ArgumentError } from "../../mod.ts";
import { LanguageModel, renderChat, serve } from "../../src/llm/llm.ts";
import { toolFormOf } from "../../src/llm/text/tool_calls.ts";

const LIBRARY: string = "npm:openai@6.49.0";

interface Choice {
  readonly text: string;
  readonly message: {
    readonly content: string;
    readonly tool_calls?: readonly { id: string; function: { name: string; arguments: string } }[];
  };
  readonly delta: { readonly content?: string };
  readonly finish_reason: string | null;
}
interface Answer {
  readonly choices: readonly Choice[];
  readonly usage: { readonly completion_tokens: number } | null;
}
interface FullResponse {
  readonly output_text: string;
  readonly status: string;
  readonly output: readonly { readonly type: string; readonly name?: string }[];
  readonly usage: { readonly output_tokens: number };
}
interface ResponseStream extends AsyncIterable<{ readonly type: string; readonly delta: string }> {
  finalResponse(): Promise<FullResponse>;
}
type Create = (options: Record<string, unknown>) => Promise<Answer & AsyncIterable<Answer>>;
interface Client {
  readonly models: { list(): Promise<{ data: { id: string }[] }>; retrieve(id: string): Promise<{ id: string }> };
  readonly completions: { create: Create };
  readonly chat: { completions: { create: Create } };
  readonly embeddings: { create(o: Record<string, unknown>): Promise<{ data: { embedding: number[] }[] }> };
  readonly responses: {
    create(o: Record<string, unknown>): Promise<FullResponse>;
    stream(o: Record<string, unknown>): ResponseStream;
  };
}
const { OpenAI } = await import(LIBRARY) as { OpenAI: new (o: Record<string, unknown>) => Client };

const model = await LanguageModel.load(new URL("../../examples/models/stories260K.gguf", import.meta.url), {
  device: "WASM",
});
const server = serve(model, { port: 0, key: "k" }),
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "k", maxRetries: 0 });
const STORY = ", there was a little girl named Lily. She",
  base = { model: "stories260K", temperature: 0, max_tokens: 12 };
const messages = [{ role: "user", content: "Once upon a time" }];
let checks = 0;
async function check(fn: () => Promise<void>): Promise<void> {
  await fn();
  checks++;
}
const status = (n: number) => (e: unknown) => {
  assert.equal((e as { status: number }).status, n, String(e));
  return true;
};

await check(async () => assert.equal((await client.models.list()).data[0].id, "stories260K"));
await check(async () => assert.equal((await client.models.retrieve("stories260K")).id, "stories260K"));
await check(async () => {
  const { choices, usage } = await client.chat.completions.create({ ...base, messages });
  assert.deepEqual([choices[0].message.content, choices[0].finish_reason, usage?.completion_tokens], [
    STORY,
    "length",
    12,
  ]);
});
await check(async () => {
  let text = "", tokens = 0;
  for await (
    const part of await client.chat.completions.create({
      ...base,
      messages,
      stream: true,
      stream_options: { include_usage: true },
    })
  ) {
    text += part.choices[0]?.delta.content ?? "";
    tokens += part.usage?.completion_tokens ?? 0;
  }
  assert.deepEqual([text, tokens], [STORY, 12]);
});
await check(async () => {
  const { choices } = await client.completions.create({ ...base, prompt: "Once upon a time", n: 2, stop: ["girl"] });
  assert.deepEqual(choices.map((c) => [c.text, c.finish_reason]), Array(2).fill([", there was a little ", "stop"]));
});
await check(async () => {
  let text = "";
  for await (const part of await client.completions.create({ ...base, prompt: "Once upon a time", stream: true })) {
    text += part.choices[0].text;
  }
  assert.equal(text, STORY);
});
await check(() =>
  assert.rejects(() => client.chat.completions.create({ ...base, model: "other", messages }), status(404))
);
await check(() => assert.rejects(() => client.chat.completions.create({ ...base, messages: [] }), status(400)));
const weather = {
  name: "weather",
  parameters: { type: "object", properties: { days: { type: "integer", minimum: 2, maximum: 7 } }, required: ["days"] },
};
await check(async () => {
  const { choices } = await client.chat.completions.create({
    ...base,
    max_tokens: 120,
    messages,
    tools: [{ type: "function", function: weather }],
    tool_choice: "required",
  });
  const [{ id, function: f }] = choices[0].message.tool_calls!;
  assert.ok(f.name === "weather" && JSON.parse(f.arguments).days >= 2 && id.startsWith("call_"));
  // the conversation goes on with what the tool said
  const told = [...messages, choices[0].message, { role: "tool", tool_call_id: id, content: "sunny" }];
  const next = await client.chat.completions.create({ ...base, messages: told });
  assert.ok(next.choices[0].message.content.length > 0);
});
await check(async () => {
  const a = await client.responses.create({
    model: base.model,
    temperature: 0,
    max_output_tokens: 12,
    input: "Once upon a time",
  });
  assert.deepEqual([a.output_text, a.status, a.usage.output_tokens], [STORY, "incomplete", 12]);
  const format = { type: "json_schema", name: "n", schema: { enum: ["only"] } };
  const b = await client.responses.create({ model: base.model, input: "a", text: { format } });
  assert.deepEqual([b.output_text, b.status], ['"only"', "completed"]);
});
await check(async () => {
  const stream = client.responses.stream({
    model: base.model,
    temperature: 0,
    max_output_tokens: 12,
    input: [{ role: "user", content: "Once upon a time" }],
  });
  let text = "";
  for await (const e of stream) if (e.type === "response.output_text.delta") text += e.delta;
  assert.deepEqual([text, (await stream.finalResponse()).output_text], [STORY, STORY]);
});
await check(async () => {
  const tools = [{ type: "function", ...weather }], input = "a", model = base.model;
  const stream = client.responses.stream({ model, input, tools, tool_choice: "required", temperature: 0 });
  const kinds: string[] = [];
  for await (const e of stream) kinds.push(e.type);
  const { output } = await stream.finalResponse();
  assert.deepEqual([output.length, output[0].type, output[0].name], [1, "function_call", "weather"]);
  assert.ok(kinds.includes("response.function_call_arguments.done"), kinds.join());
});
await check(async () => {
  const { data } = await client.embeddings.create({ model: base.model, input: ["a dog", "a cat"] });
  assert.deepEqual(data.map((d) => d.embedding.length), [64, 64]);
  assert.ok(Math.abs(Math.hypot(...data[0].embedding) - 1) < 1e-5);
});
const stranger = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "x", maxRetries: 0 });
await check(() => assert.rejects(() => stranger.models.list(), status(401)));
await check(async () => {
  // the other package: templates of models, rendered by npm's @huggingface/jinja
  const template = "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content | trim }}{% endfor %}" +
    "{% if add_generation_prompt %}<|assistant|>{% endif %}";
  assert.equal(
    await renderChat([{ role: "user", content: " hi " }], template, { bos_token: "<s>" }),
    "<s><|user|>hi<|assistant|>",
  );
  const refuses = "{{ raise_exception('no ' ~ messages[0].role) }}";
  await assert.rejects(
    () => renderChat([{ role: "system", content: "" }], refuses, {}),
    /Cannot render the model's chat template: no system/,
  );
});
await check(async () => {
  // templates come with models, from anywhere: they end
  const endless: readonly (readonly [string, RegExp])[] = [
    ["{% for i in range(10 ** 9) %}x{% endfor %}", /range has 1000000000 elements, more than 1048576/],
    [
      "{% for i in range(9999) %}{% for k in range(9999) %}{% endfor %}{% endfor %}",
      /it has not ended after 410000 steps/,
    ],
    ["{% for i in range(9999) %}".repeat(20) + "{% endfor %}".repeat(20), /it has not ended after 410000 steps/],
    ["{% macro f(x) %}{{ f(x) }}{{ f(x) }}{% endmacro %}{{ f(1) }}", /it is nested more than 500 deep/],
    [`{% set x = "ab" %}${"{% set x = x ~ x %}".repeat(40)}{{ x }}`, /it makes a value of 134217728 elements/],
    [`{% set x = [1, 2] %}${"{% set x = x + x %}".repeat(40)}{{ x | length }}`, /it has not ended after 410000 steps/],
    ["{% for i in range(10, 0, 0) %}{% endfor %}", /range takes numbers, and a step other than 0/],
    ["{% for %}", /Cannot render the model's chat template: ./],
  ];
  for (const [template, why] of endless) {
    await assert.rejects(() => renderChat([{ role: "user", content: "hi" }], template, {}), (error: unknown) => {
      assert.ok(error instanceof ArgumentError, String(error));
      assert.match(error.message, why);
      return true;
    });
  }
  const many = Array.from({ length: 2000 }, () => ({ role: "user", content: "a".repeat(100) }));
  const template = "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content | trim }}{% endfor %}";
  const long = await renderChat(many, template, { bos_token: "" });
  assert.equal(long.length, 2000 * 108, "what is long is no loop");
  const now = await renderChat(many, "{{ strftime_now('%Y-%m-%d %H:%M %b %B %%') }} {{ range(1, 9, 3) }}", {});
  assert.match(now, /^20\d\d-\d\d-\d\d \d\d:\d\d [A-Z][a-z]{2} [A-Z][a-z]+ % \[1, 4, 7\]$/);
});
await check(async () => {
  // how tools are called is seen in the template
  const turn = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}";
  const tools = "{% if tools %}{{ tools | tojson }}{% endif %}";
  const end = "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  const call = (before: string, object: string, after: string) =>
    `${tools}${turn}{% for c in m.tool_calls or [] %}${before}${object}${after}{% endfor %}${end}`;
  const named = '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}';
  const form = (template: string) => toolFormOf(template, {});
  const hermes = await form(call("<tool_call>\n", named, "\n</tool_call>"));
  assert.deepEqual([hermes.prefix, hermes.suffix, hermes.inTemplate], ["<tool_call>\n", "\n</tool_call>", true]);
  const mistral = await form(call("[TOOL_CALLS][", named, "]"));
  assert.deepEqual([mistral.prefix, mistral.suffix], ["[TOOL_CALLS][", "]"]);
  const llama = await form(call("", named.replace("arguments", "parameters"), ""));
  assert.deepEqual([llama.prefix, llama.suffix, llama.argumentsKey], ["", "", "parameters"]);
  assert.equal((await form(turn + end)).inTemplate, false);
});
await server.stop();
console.log(`${checks} checks`);
