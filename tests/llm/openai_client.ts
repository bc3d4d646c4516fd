/**
 * The official client of the protocol, npm's `openai` (Apache-2.0), against our server:
 *
 *     deno run -A --no-check tests/llm/openai_client.ts
 *
 * Prints "N checks"; ends with an error where something is not as the client expects it.
 */
import assert from "node:assert/strict";
import "../../mod.ts";
import { LanguageModel, renderChat, serve } from "../../src/llm/llm.ts";

const LIBRARY: string = "npm:openai@6.49.0";

interface Choice {
  readonly text: string;
  readonly message: { readonly content: string };
  readonly delta: { readonly content?: string };
  readonly finish_reason: string | null;
}
interface Answer {
  readonly choices: readonly Choice[];
  readonly usage: { readonly completion_tokens: number } | null;
}
type Create = (options: Record<string, unknown>) => Promise<Answer & AsyncIterable<Answer>>;
interface Client {
  readonly models: { list(): Promise<{ data: { id: string }[] }>; retrieve(id: string): Promise<{ id: string }> };
  readonly completions: { create: Create };
  readonly chat: { completions: { create: Create } };
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
await server.stop();
console.log(`${checks} checks`);
