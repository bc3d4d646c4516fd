/**
 * The server: the protocol by plain requests, streams, errors as statuses, limits, and clients that vanish. The official
 * client tests it in openai_client.ts, where it can be fetched.
 */
import assert from "node:assert/strict";
import { Device, Tensor, Variable } from "../../mod.ts";
import { LanguageModel, ModelServer, readGguf, serve } from "../../src/llm/llm.ts";
import { ROOT, runDeno, runWithNpm } from "../system/subprocess.ts";

Device.default = "WASM";
Tensor.zeros([1]).realize(); // opened before the tests
const STORIES = new URL("../../examples/models/stories260K.gguf", import.meta.url), CHAT = "/v1/chat/completions";
const model = await LanguageModel.load(STORIES, { context: 128 });
const PROMPT = "Once upon a time", STORY = ", there was a little girl named Lily. She";
const server = new ModelServer(model, { queue: 2, maxBody: 10_000, bodyMs: 300 });

interface Any {
  readonly [key: string]: Any;
}
async function post(path: string, body: unknown, to: ModelServer = server): Promise<[number, Any]> {
  const response = await to.handle(
    new Request(`http://x${path}`, { method: "POST", body: typeof body === "string" ? body : JSON.stringify(body) }),
  );
  return [response.status, await response.json()];
}
/** The data of the events of a stream. */
async function events(body: unknown, path = CHAT, to: ModelServer = server): Promise<Any[]> {
  const response = await to.handle(new Request(`http://x${path}`, { method: "POST", body: JSON.stringify(body) }));
  assert.equal(response.headers.get("content-type"), "text/event-stream; charset=utf-8");
  const blocks = (await response.text()).split("\n\n");
  assert.equal(blocks.pop(), "");
  assert.equal(blocks.pop(), "data: [DONE]");
  return blocks.map((b) => JSON.parse(b.slice("data: ".length)));
}
const greedy = { model: "stories260K", temperature: 0, max_tokens: 12 };

Deno.test("server: completions, with usage, several prompts, echo, stop and log probabilities", async () => {
  const [status, a] = await post("/v1/completions", { ...greedy, prompt: PROMPT, logprobs: 2 });
  assert.equal(status, 200);
  assert.deepEqual([a.object, a.model, a.choices[0].text, a.choices[0].finish_reason], [
    "text_completion",
    "stories260K",
    STORY,
    "length",
  ]);
  assert.deepEqual([a.usage.prompt_tokens, a.usage.completion_tokens, a.usage.total_tokens], [5, 12, 17]);
  const log = a.choices[0].logprobs;
  assert.equal((log.tokens as unknown as string[]).join(""), STORY);
  assert.equal(Object.keys(log.top_logprobs[0]).length, 2);
  const [, b] = await post("/v1/completions", { ...greedy, prompt: [PROMPT, [1, 403]], echo: true, max_tokens: 2 });
  assert.ok((b.choices[0].text as unknown as string).startsWith(PROMPT + ","));
  assert.deepEqual([b.choices.length, b.choices[1].index], [2, 1]);
  const [, c] = await post("/v1/completions", { ...greedy, prompt: PROMPT, stop: "little" });
  assert.deepEqual([c.choices[0].text, c.choices[0].finish_reason], [", there was a ", "stop"]);
  const [, d] = await post("/v1/completions", { prompt: PROMPT, n: 2, seed: 1, max_tokens: 8 });
  const [, e] = await post("/v1/completions", { prompt: PROMPT, n: 2, seed: 1, max_tokens: 8 });
  const texts = (x: Any) => [x.choices[0].text, x.choices[1].text];
  assert.deepEqual(texts(d), texts(e));
  assert.notEqual(d.choices[0].text, d.choices[1].text);
  assert.equal(d.usage.prompt_tokens, 5);
});

Deno.test("server: chats, whole and streamed, are the same text", async () => {
  const messages = [{ role: "user", content: [{ type: "text", text: PROMPT }] }];
  const [status, a] = await post(CHAT, { ...greedy, messages, logprobs: true, top_logprobs: 1 });
  assert.deepEqual([status, a.object, a.choices[0].message.role, a.choices[0].message.content], [
    200,
    "chat.completion",
    "assistant",
    STORY,
  ]);
  assert.equal((a.choices[0].logprobs.content as unknown as unknown[]).length, 12);
  const parts = await events({ ...greedy, messages, stream: true, stream_options: { include_usage: true } });
  assert.deepEqual(parts[0].choices[0].delta, { role: "assistant", content: "" });
  assert.equal(parts.map((p) => p.choices[0]?.delta.content ?? "").join(""), STORY);
  assert.equal(parts.at(-2)!.choices[0].finish_reason, "length");
  assert.deepEqual([parts.at(-1)!.choices.length, parts.at(-1)!.usage.completion_tokens], [0, 12]);
  const text = await events({ ...greedy, prompt: PROMPT, stream: true }, "/v1/completions");
  assert.equal(text.map((p) => p.choices[0].text).join(""), STORY);
});

Deno.test("server: answers keep to formats and grammars, and tools are called where they must be", async () => {
  using long = await LanguageModel.load(STORIES, { context: 512 });
  const to = new ModelServer(long), common = { ...greedy, messages, max_tokens: 120 };
  const ask = async (more: object) => {
    const [status, a] = await post(CHAT, { ...common, ...more }, to);
    assert.equal(status, 200, JSON.stringify(a));
    return a.choices[0];
  };
  const schema = { type: "array", items: { enum: ["x", 5] }, minItems: 2, maxItems: 2 };
  const list = await ask({ response_format: { type: "json_schema", json_schema: { name: "n", schema } } });
  const items = JSON.parse(String(list.message.content)) as unknown[];
  assert.ok(items.length === 2 && items.every((x) => x === "x" || x === 5), JSON.stringify(items));
  assert.equal(list.finish_reason, "stop");
  assert.match(String((await ask({ grammar: 'root ::= "yes" | "no"' })).message.content), /^(yes|no)$/);
  for (const tool_choice of ["required", { type: "function", function: { name: "weather" } }]) {
    const { message, finish_reason } = await ask({ tools: [TOOL], tool_choice });
    const [call] = message.tool_calls as unknown as Any[];
    assert.deepEqual([finish_reason, message.content, call.function.name], ["tool_calls", null, "weather"]);
    const { days } = JSON.parse(String(call.function.arguments)) as { days: number };
    assert.ok(days >= 2 && days <= 7);
  }
  const parts = await events({ ...common, tools: [TOOL], tool_choice: "required", stream: true }, CHAT, to);
  const deltas = parts.flatMap((p) => (p.choices[0]?.delta.tool_calls ?? []) as unknown as Any[]);
  assert.deepEqual([deltas[0].function.name, deltas[0].index], ["weather", 0]);
  assert.match(deltas.map((d) => d.function.arguments).join(""), /^\{"days":[2-7]\}$/);
  assert.equal(parts.at(-1)!.choices[0].finish_reason, "tool_calls");
});

Deno.test("server: the page to chat is small, and needs no key", async () => {
  const keyed = new ModelServer(model, { key: "k" }), page = await keyed.handle(new Request("http://x/"));
  const text = await page.text();
  assert.deepEqual([page.status, page.headers.get("content-type")], [200, "text/html; charset=utf-8"]);
  assert.ok(text.length < 20_000 && text.includes("v1/chat/completions"));
  const [, script] = /<script type="module">([\s\S]*)<\/script>/.exec(text)!;
  assert.doesNotThrow(() => new Function(`return async () => {${script}}`));
});

Deno.test("server: embeddings are the mean of states, of length 1, however they are told", async () => {
  const input = [PROMPT, [1, 403, 407]], [status, a] = await post("/v1/embeddings", { input });
  assert.deepEqual([status, a.object, a.usage.prompt_tokens], [200, "list", 8]);
  const [first, second] = (a.data as unknown as { embedding: number[] }[]).map((d) => d.embedding);
  assert.ok(Math.abs(Math.hypot(...first) - 1) < 1e-5 && first.length === 64);
  const other = await model.embed([1, 403, 407]);
  assert.deepEqual(second, [...other]);
  const [, b] = await post("/v1/embeddings", { input: PROMPT, encoding_format: "base64", dimensions: 16 });
  const bytes = Uint8Array.fromBase64(String(b.data[0].embedding)), part = first.slice(0, 16);
  const short = [...new Float32Array(bytes.buffer)], size = Math.hypot(...part);
  short.forEach((x, i) => assert.ok(Math.abs(x - part[i] / size) < 1e-6));
  // states of a text in several chunks are those of one token after the other: with the last norm, and before the output
  const text = model.promptIds(`${PROMPT}, there was a little girl named Lily. She loved to play outside in the park.`);
  const { decoder } = model,
    cache = decoder.makeCache(),
    place = new Variable("place", 0, 100),
    sum = new Float64Array(64);
  for (const [i, id] of text.entries()) {
    const states = decoder.states(new Tensor(Int32Array.of(id)), place.bind(i), cache);
    Tensor.realize([states, ...cache.flatMap((c) => [c.keys, c.values])]);
    (await states.data() as Float32Array).forEach((x, k) => sum[k] += x);
  }
  const length = Math.hypot(...sum), got = await model.embed(text);
  got.forEach((x, k) => assert.ok(Math.abs(x - sum[k] / length) < 1e-4, `${k}: ${x}, not ${sum[k] / length}`));
});

Deno.test("server: models, health and metrics", async () => {
  const get = async (path: string) => await server.handle(new Request(`http://x${path}`));
  const list = await (await get("/v1/models")).json();
  assert.deepEqual([list.object, list.data[0].id, list.data[0].object], ["list", "stories260K", "model"]);
  assert.equal((await (await get("/v1/models/stories260K")).json()).id, "stories260K");
  assert.equal((await get("/v1/models/other")).status, 404);
  assert.equal((await (await get("/health")).json()).status, "ok");
  await post("/v1/completions", { ...greedy, prompt: PROMPT });
  assert.match(await (await get("/metrics")).text(), /^dinograd_completion_tokens_total [1-9]/m);
});

const messages = [{ role: "user", content: "a" }];
const TOOL = {
  type: "function",
  function: {
    name: "weather",
    parameters: {
      type: "object",
      properties: { days: { $ref: "#/$defs/few" } },
      required: ["days"],
      $defs: { few: { type: "integer", minimum: 2, maximum: 7 } },
    },
  },
};
const WRONG: readonly (readonly [string, unknown, number, RegExp])[] = [
  ["/v1/completions", "{", 400, /no JSON in UTF-8/],
  ["/v1/completions", "[]", 400, /no JSON object/],
  ["/v1/completions", { prompt: 5 }, 400, /'prompt' must be a text/],
  ["/v1/completions", { prompt: [[600]] }, 400, /'prompt' must be a text/],
  ["/v1/completions", { prompt: "a", temperature: 3 }, 400, /'temperature' must be a number from 0 to 2/],
  ["/v1/completions", { prompt: "a", temperature: "1" }, 400, /'temperature'/],
  ["/v1/completions", { prompt: "a", max_tokens: 1.5 }, 400, /'max_tokens' must be a whole number/],
  ["/v1/completions", { prompt: "a", n: 99 }, 400, /'n' must be a number from 1 to 16/],
  ["/v1/completions", { prompt: "a", stop: [1] }, 400, /'stop' must be/],
  ["/v1/completions", { prompt: "a", logit_bias: { "9999": 1 } }, 400, /'logit_bias' must map tokens below 512/],
  ["/v1/completions", { prompt: "a", stream: 1 }, 400, /'stream' must be true or false/],
  ["/v1/completions", { prompt: "a", stream_options: {} }, 400, /'stream_options' is only for streams/],
  ["/v1/completions", { prompt: "a", model: "gpt" }, 404, /there is no model 'gpt'; this is 'stories260K'/],
  ["/v1/completions", { prompt: "cat ".repeat(200) }, 400, /the prompt has \d+ tokens, and the context is 128/],
  ["/v1/completions", "x".repeat(20_000), 413, /more than 10000 bytes/],
  [CHAT, {}, 400, /'messages' must be a list/],
  [CHAT, { messages: [{}] }, 400, /'messages\[0\]\.role' must be a text/],
  [
    CHAT,
    { messages: [{ role: "user", content: [{ type: "image_url" }] }] },
    400,
    /only have parts of the type text/,
  ],
  [CHAT, { messages, top_logprobs: 2 }, 400, /'top_logprobs' needs 'logprobs'/],
  [CHAT, { messages, tools: [{}] }, 400, /'tools\[0\].type' must be function/],
  [CHAT, { messages, tools: [TOOL, TOOL] }, 400, /'tools' has two of the name weather/],
  [CHAT, { messages, tools: [TOOL], tool_choice: "x" }, 400, /'tool_choice' must be none, auto/],
  [CHAT, { messages, tool_choice: "required" }, 400, /'tool_choice' needs 'tools'/],
  [
    CHAT,
    { messages, tools: [TOOL], tool_choice: { type: "function", function: { name: "g" } } },
    400,
    /names g, which is none of 'tools'/,
  ],
  [CHAT, { messages, response_format: { type: "xml" } }, 400, /'response_format' must have the type/],
  [CHAT, { messages, response_format: { type: "json_schema" } }, 400, /json_schema.schema' must be/],
  [
    CHAT,
    { messages, response_format: { type: "json_schema", json_schema: { schema: { not: {} } } } },
    400,
    /"not" cannot be kept to/,
  ],
  ["/v1/completions", { prompt: "a", grammar: "root ::= x" }, 400, /there is no rule "x"/],
  ["/v1/responses", { input: 5 }, 400, /'input' must be a text or a list/],
  ["/v1/responses", { input: "a", previous_response_id: "r" }, 400, /'previous_response_id' is not kept/],
  ["/v1/embeddings", {}, 400, /'input' must be a text/],
  ["/v1/embeddings", { input: "a", dimensions: 65 }, 400, /'dimensions' must be a number from 1 to 64/],
  ["/v1/embeddings", { input: "cat ".repeat(200) }, 400, /the prompt has \d+ tokens/],
  ["/v1/audio", {}, 404, /there is no \/v1\/audio/],
  ["/v1/models", {}, 405, /takes GET, not POST/],
];

Deno.test("server: bad requests get a status and a reason, and the server goes on", async () => {
  for (const [path, body, status, why] of WRONG) {
    const [got, answer] = await post(path, body);
    assert.equal(got, status, `${JSON.stringify(body).slice(0, 80)}: ${JSON.stringify(answer)}`);
    assert.match(String(answer.error.message), why);
  }
  const slow = new ReadableStream({ start() {} });
  const late = await server.handle(new Request("http://x/v1/completions", { method: "POST", body: slow }));
  assert.equal(late.status, 408);
  await late.body?.cancel();
  const [status] = await post("/v1/completions", { ...greedy, prompt: PROMPT });
  assert.equal(status, 200);
});

Deno.test("server: a full queue says so, a client that vanishes frees its place", async () => {
  const ask = () => post("/v1/completions", { ...greedy, prompt: PROMPT, max_tokens: 60 });
  const all = await Promise.all([ask(), ask(), ask(), ask(), ask()]);
  const statuses = all.map(([s]) => s);
  assert.deepEqual(statuses.slice(0, 3), [200, 200, 200]);
  assert.deepEqual(statuses.slice(3), [429, 429]);
  const gone = await server.handle(
    new Request("http://x/v1/completions", {
      method: "POST",
      body: JSON.stringify({ ...greedy, prompt: PROMPT, stream: true, max_tokens: 100 }),
    }),
  );
  const reader = gone.body!.getReader();
  await reader.read();
  await reader.cancel();
  const [status, answer] = await ask();
  assert.deepEqual([status, answer.usage.completion_tokens], [200, 60]);
});

Deno.test("server: who vanishes while waiting leaves the line at once", async () => {
  using long = await LanguageModel.load(STORIES, { context: 512 });
  const to = new ModelServer(long, { queue: 2 });
  const counts = async () => {
    const { running, waiting } = await (await to.handle(new Request("http://x/health"))).json() as Any;
    return [running, waiting];
  };
  const ask = (more: object) => {
    const body = JSON.stringify({ ...greedy, prompt: PROMPT, ...more });
    return to.handle(new Request("http://x/v1/completions", { method: "POST", body }));
  };
  const [first, ...waiting] = await Promise.all([ask({ max_tokens: 500, n: 8 }), ask({}), ask({ stream: true })]);
  assert.deepEqual(await counts(), [1, 2]);
  assert.equal((await ask({})).status, 429);
  for (const response of waiting) await response.body!.cancel();
  assert.deepEqual(await counts(), [1, 0]);
  const next = await ask({});
  assert.deepEqual([(await first.json()).usage.completion_tokens, (await next.json()).choices[0].text], [4000, STORY]);
  assert.deepEqual(await counts(), [0, 0]);
});

Deno.test("server: an answer that fails at once has the status of it, and one that never begins is refused", async () => {
  const gone = await LanguageModel.load(STORIES, { context: 128 }), to = new ModelServer(gone);
  gone[Symbol.dispose]();
  const running = async () => (await (await to.handle(new Request("http://x/health"))).json()).running;
  const body = JSON.stringify({ ...greedy, prompt: PROMPT });
  const response = await to.handle(new Request("http://x/v1/completions", { method: "POST", body }));
  assert.deepEqual([response.status, /disposed/.test((await response.json()).error.message)], [400, true]);
  assert.equal(await running(), 0);
  const file = await readGguf(STORIES),
    metadata = new Map(file.metadata).set("tokenizer.ggml.add_bos_token", { type: "bool", list: false, value: false });
  using unmarked = new LanguageModel({ ...file, metadata }, "stories260K");
  for (const path of ["/v1/embeddings", "/v1/completions"]) {
    const [status, { error }] = await post(path, { input: [""], prompt: [""] }, new ModelServer(unmarked));
    assert.deepEqual([status, /is empty/.test(String(error.message))], [400, true], path);
  }
});

Deno.test("server: HEAD gives the head of GET, and a wrong method is told the right ones", async () => {
  for (const path of ["/", "/health", "/v1/models", "/v1/models/stories260K"]) {
    const [head, get] = await Promise.all(["HEAD", "GET"].map(async (method) => {
      const response = await server.handle(new Request(`http://x${path}`, { method }));
      return [response.status, response.headers.get("content-type"), (await response.text()).length] as const;
    }));
    assert.deepEqual(head, [200, get[1], 0]);
    assert.ok(get[2] > 0);
  }
  const rows = [["POST", "/health", "GET, HEAD"], ["HEAD", CHAT, "POST"], ["PUT", CHAT, "POST"], [
    "OPTIONS",
    CHAT,
    "POST",
  ]];
  for (const [method, path, allow] of rows) {
    const response = await server.handle(new Request(`http://x${path}`, { method }));
    assert.deepEqual([response.status, response.headers.get("allow")], [405, allow], `${method} ${path}`);
    await response.body?.cancel();
  }
});

Deno.test("server: requests at once are answered side by side, each as alone", async () => {
  using several = await LanguageModel.load(STORIES, { context: 128, sequences: 3 });
  const to = new ModelServer(several, { queue: 1, speculate: 3 }), order: number[] = [];
  const ask = async (i: number): Promise<string> => {
    const body = JSON.stringify({ ...greedy, prompt: PROMPT, stream: true });
    const { body: stream } = await to.handle(new Request("http://x/v1/completions", { method: "POST", body }));
    let text = "";
    for await (const part of stream!.pipeThrough(new TextDecoderStream())) {
      order.push(i);
      const data = part.slice(6);
      if (!data.startsWith("[DONE]")) text += (JSON.parse(data) as Any).choices[0].text;
    }
    return text;
  };
  assert.deepEqual(await Promise.all([0, 1, 2, 3].map(ask)), Array(4).fill(STORY));
  const [first, last] = [0, 1, 2].map((i) => [order.indexOf(i), order.lastIndexOf(i)]).reduce((a, b) => [
    Math.max(a[0], b[0]),
    Math.min(a[1], b[1]),
  ]);
  assert.ok(first < last, `all have begun before one ends: ${order}`);
});

Deno.test("server: prompts of one request are answered side by side where there is room, each as alone", async () => {
  using several = await LanguageModel.load(STORIES, { context: 128, sequences: "auto" });
  assert.equal(several.sequences, 4);
  const to = new ModelServer(several), prompts = [PROMPT, "The little dog", "One day", "Tom and", "A big", PROMPT];
  const running = async () => (await (await to.handle(new Request("http://x/health"))).json()).running as number;
  let most = 0, done = false;
  const watch = (async () => {
    while (!done) {
      most = Math.max(most, await running());
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  })();
  const [status, all] = await post("/v1/completions", { ...greedy, max_tokens: 40, prompt: prompts }, to);
  done = true;
  await watch;
  assert.equal(status, 200);
  assert.ok(most > 1, `${most} at once`);
  assert.equal(await running(), 0);
  for (const [i, prompt] of prompts.entries()) {
    const [, alone] = await post("/v1/completions", { ...greedy, max_tokens: 40, prompt });
    assert.deepEqual([all.choices[i].text, all.choices[i].index], [alone.choices[0].text, i], prompt);
  }
});

Deno.test("server: pages of an origin may ask where that is wanted, and of no other", async () => {
  const origin = "https://example.org", to = new ModelServer(model, { cors: origin, key: "secret" });
  const preflight = await to.handle(
    new Request(`http://x${CHAT}`, {
      method: "OPTIONS",
      headers: { origin, "access-control-request-method": "POST", "access-control-request-headers": "x-own" },
    }),
  );
  const of = (r: Response, name: string) => r.headers.get(`access-control-allow-${name}`);
  assert.deepEqual([preflight.status, of(preflight, "origin"), of(preflight, "headers"), of(preflight, "methods")], [
    204,
    origin,
    "x-own",
    "GET, POST",
  ]);
  const refused = await to.handle(new Request("http://x/v1/models"));
  assert.deepEqual([refused.status, of(refused, "origin"), refused.headers.get("vary")], [401, origin, "origin"]);
  const closed = await server.handle(new Request(`http://x${CHAT}`, { method: "OPTIONS" }));
  assert.deepEqual([closed.status, of(closed, "origin")], [405, null]);
  assert.throws(() => new ModelServer(model, { cors: "example.org" }), /cors is "example.org", no origin as/);
  assert.equal(of(await new ModelServer(model, { cors: "*" }).handle(new Request("http://x/health")), "origin"), "*");
});

Deno.test("server: ids of responses are said once, and a tool at fault by its own place", async () => {
  using long = await LanguageModel.load(STORIES, { context: 512 });
  const to = new ModelServer(long);
  const tools = [{
    type: "function",
    name: "f",
    parameters: { type: "object", properties: { x: { type: "string" } } },
  }];
  const ask = { input: PROMPT, temperature: 0, max_output_tokens: 40 };
  const [status, r] = await post("/v1/responses", { ...ask, tools, tool_choice: "required" }, to);
  assert.equal(status, 200);
  assert.match(String(r.id), /^resp_[0-9a-z]+$/);
  const [call] = r.output as unknown as Any[];
  assert.match(`${call.id} ${call.call_id}`, /^fc_([0-9a-f]{24}) call_\1$/);
  // the answer is as long as it may be, and ends in the arguments
  if (String(r.status) === "incomplete") assert.equal(call.status, "incomplete");
  const [, { output: [message] }] = await post("/v1/responses", ask, to) as unknown as [number, { output: Any[] }];
  assert.match(String(message.id), /^msg_[0-9a-z]+$/);
  const [bad, { error }] = await post("/v1/responses", { ...ask, tools: [{ type: "function", name: "a b" }] });
  assert.deepEqual([bad, error.param], [400, "tools[0].name"]);
});

Deno.test("server: a call in which the answer is cut off comes with what there is of it", async () => {
  using long = await LanguageModel.load(STORIES, { context: 512 });
  const to = new ModelServer(long);
  const parameters = { type: "object", properties: { x: { type: "string", minLength: 200 } }, required: ["x"] };
  const body = {
    ...greedy,
    messages: [{ role: "user", content: PROMPT }],
    max_tokens: 60,
    tools: [{ type: "function", function: { name: "f", parameters } }],
    tool_choice: "required",
  };
  const [status, { choices: [choice] }] = await post(CHAT, body, to) as unknown as [number, { choices: Any[] }];
  assert.deepEqual([status, choice.finish_reason], [200, "length"]);
  const [call] = choice.message.tool_calls as unknown as Any[];
  assert.equal(call.function.name, "f");
  assert.match(String(call.function.arguments), /^\{\s*"x"\s*:\s*"[^"]*$/);
  const parts = await events({ ...body, stream: true }, CHAT, to);
  assert.equal(parts.at(-1)!.choices[0].finish_reason, "length");
});

Deno.test("server: it listens on this machine, wants its key, and stops", async () => {
  const running = serve(model, { port: 0, key: "secret" });
  try {
    assert.match(running.url, /^http:\/\/127\.0\.0\.1:\d+$/);
    const without = await fetch(`${running.url}/v1/models`);
    assert.deepEqual([without.status, (await without.json()).error.code], [401, "invalid_api_key"]);
    const headers = { authorization: "Bearer secret" };
    const answer = await fetch(`${running.url}/v1/completions`, {
      method: "POST",
      headers,
      body: JSON.stringify({ ...greedy, prompt: PROMPT }),
    });
    assert.equal((await answer.json()).choices[0].text, STORY);
    assert.equal((await (await fetch(`${running.url}/health`)).json()).status, "ok");
  } finally {
    await running.stop();
  }
  await assert.rejects(() => fetch(running.url));
});

/** A program of a user: a server whose clients stay, go while they are answered, and go while they wait. */
const LEAVING = `
import { LanguageModel, serve } from "${ROOT}src/llm/llm.ts";
const model = await LanguageModel.load(new URL("${STORIES}"), { device: "WASM", context: 512, sequences: 1 });
const server = serve(model, { port: 0 });
const get = async (path) => await (await fetch(server.url + path)).text();
const ask = (more, signal) => fetch(server.url + "/v1/completions", {
  method: "POST", signal, body: JSON.stringify({ prompt: "Once upon a time", temperature: 0, max_tokens: 8, ...more }),
});
const until = async (running, waiting) => {
  for (;;) {
    const health = JSON.parse(await get("/health"));
    if (health.running === running && health.waiting === waiting) return;
    await new Promise((go) => setTimeout(go, 2));
  }
};
const written = async () => Number(/^dinograd_completion_tokens_total (.*)$/m.exec(await get("/metrics"))[1]);
console.log((await (await ask({})).json()).choices[0].text);
await (await ask({ stream: true })).text();
for (const stream of [false, true]) {
  const stop = [new AbortController(), new AbortController()], before = await written();
  const leave = ({ signal }) => ask({ max_tokens: 480, n: 16, stream }, signal).then((r) => r.text()).catch((e) => e.name);
  const left = [leave(stop[0])];
  await until(1, 0);
  left.push(leave(stop[1]));
  await until(1, 1);
  stop[1].abort();
  await until(1, 0);
  stop[0].abort();
  await until(0, 0);
  console.log((await Promise.all(left)).join(), await written() - before < 4000);
}
console.log((await (await ask({})).json()).choices[0].text);
await server.stop();
`;

Deno.test("server: clients that go end their answers, and a program is told of no flags of Deno", async () => {
  const script = await Deno.makeTempFile({ suffix: ".js" });
  await Deno.writeTextFile(script, LEAVING);
  const { code, stdout, stderr } = await runDeno(["run", "-A", "--no-check", script]);
  await Deno.remove(script);
  const text = ", there was a little girl";
  assert.deepEqual([stderr, code, stdout.trim().split("\n")], ["", 0, [
    text,
    "AbortError,AbortError true",
    "AbortError,AbortError true",
    text,
  ]]);
});

Deno.test("server: the official client gets what it expects, where it can be fetched", async () => {
  const outcome = await runWithNpm("openai", "tests/llm/openai_client.ts");
  if (outcome === undefined) return;
  const { code, stdout, stderr } = outcome;
  assert.equal(code, 0, stderr);
  assert.equal(stdout.trim(), "17 checks");
});
