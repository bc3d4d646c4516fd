/**
 * Requests with something wrong, made at random of good ones: each is answered with a status and a reason, none ends the
 * server, and a good one behind it is answered as ever.
 */
import assert from "node:assert/strict";
import { Device, Tensor } from "../../mod.ts";
import { LanguageModel, ModelServer, serve } from "../../src/llm/llm.ts";
import { Random } from "../support/random.ts";

Device.default = "WASM";
Tensor.zeros([1]).realize(); // opened before the tests
const model = await LanguageModel.load(new URL("../../examples/models/stories260K.gguf", import.meta.url), {
  context: 128,
});
type Body = Record<string, unknown>;

const tool = {
  type: "function",
  function: { name: "f", description: "", parameters: { type: "object", properties: { x: { type: "boolean" } } } },
};
const call = { id: "c", type: "function", function: { name: "f", arguments: "{}" } };
const sampling = { temperature: 0.5, top_p: 0.9, seed: 3, stop: ["q"], n: 1, stream: false };
const GOOD: readonly (readonly [string, Body])[] = [
  ["/v1/completions", {
    ...sampling,
    prompt: "Once",
    max_tokens: 2,
    top_k: 5,
    min_p: 0.1,
    echo: true,
    logprobs: 1,
    logit_bias: { "5": 1 },
  }],
  ["/v1/chat/completions", {
    ...sampling,
    messages: [{ role: "system", content: "a" }, { role: "user", content: [{ type: "text", text: "b" }] }],
    max_completion_tokens: 2,
    presence_penalty: 0.5,
    frequency_penalty: 0.5,
    response_format: { type: "json_schema", json_schema: { name: "n", schema: { type: "integer", minimum: 0 } } },
    logprobs: true,
    top_logprobs: 2,
  }],
  ["/v1/chat/completions", {
    messages: [{ role: "user", content: "c" }, { role: "assistant", content: null, tool_calls: [call] }, {
      role: "tool",
      tool_call_id: "c",
      content: "1",
    }],
    tools: [tool],
    tool_choice: "none",
    max_tokens: 2,
    stream: true,
    stream_options: { include_usage: true },
  }],
  ["/v1/responses", {
    input: [{ role: "user", content: [{ type: "input_text", text: "d" }] }, {
      type: "function_call",
      call_id: "c",
      name: "f",
      arguments: "{}",
    }, { type: "function_call_output", call_id: "c", output: "2" }],
    instructions: "i",
    max_output_tokens: 2,
    tools: [{ type: "function", name: "f", parameters: { type: "object" } }],
    tool_choice: "none",
    temperature: 0,
  }],
  ["/v1/embeddings", { input: ["a", [1, 2]], encoding_format: "float", dimensions: 8 }],
];
const VALUES: readonly unknown[] = [
  ...[null, true, false, 0, -1, 1.5, 1e308, -1e308, 2 ** 53, "", "x", "\u0000\ud800", [], [[]], {}, { type: "x" }, [
    null,
  ], [1e9]],
  ...["__proto__", { constructor: 1 }, "x".repeat(5000), Array(600).fill("x"), { type: "json_schema" }, [{ role: 1 }]],
];

/** A copy with one field, at any depth, of another value, gone, or added. */
function spoiled(x: unknown, random: Random): unknown {
  const value = () => random.pick(VALUES);
  if (typeof x !== "object" || x === null || random.below(6) === 0) return value();
  if (Array.isArray(x)) {
    const at = random.below(x.length + 1);
    return at === x.length ? [...x, value()] : x.map((v, i) => i === at ? spoiled(v, random) : v);
  }
  const keys = Object.keys(x), key = random.pick([...keys, "more"]), old = (x as Body)[key];
  if (random.below(8) === 0) return Object.fromEntries(Object.entries(x).filter(([k]) => k !== key));
  return { ...x, [key]: spoiled(old, random) };
}
const server = new ModelServer(model, { queue: 4, maxBody: 20_000, bodyMs: 200 });
async function send(path: string, body: BodyInit, to: ModelServer = server): Promise<[number, string]> {
  const response = await to.handle(new Request(`http://x${path}`, { method: "POST", body }));
  return [response.status, await response.text()];
}

Deno.test("server: spoiled requests are answered, and the next good one too", async () => {
  const random = new Random(31), statuses = new Map<number, number>();
  for (let n = 0; n < 200; n++) {
    const [path, good] = random.pick(GOOD);
    let body = spoiled(good, random) as Body;
    if (random.below(3) === 0) body = spoiled(body, random) as Body;
    const whole = JSON.stringify(body) ?? "",
      cut = random.below(12) === 0 ? whole.slice(0, random.below(whole.length + 1)) : whole;
    const [status, text] = await send(path, cut);
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
    assert.ok([200, 400, 404, 413].includes(status), `${status} for ${cut.slice(0, 500)}: ${text}`);
    if (status !== 200) {
      const { error } = JSON.parse(text) as { error: { message: string; type: string } };
      assert.ok(error.message.length > 5 && error.type === "invalid_request_error", text);
      assert.doesNotMatch(
        error.message,
        /is not a function|undefined|Cannot read|\[object/,
        `${cut.slice(0, 500)}: ${text}`,
      );
    } else assert.doesNotMatch(text, /"server_error"/, cut.slice(0, 500));
  }
  assert.ok(statuses.get(200)! > 10 && statuses.get(400)! > 80, JSON.stringify([...statuses]));
  for (const [path, good] of GOOD) {
    const [status, text] = await send(path, JSON.stringify(good));
    assert.equal(status, 200, text);
  }
});

Deno.test("server: clients that are slow, vanish, or speak nonsense leave it as it was", async () => {
  const running = serve(model, { port: 0, queue: 4, maxBody: 20_000, bodyMs: 200 }),
    port = Number(new URL(running.url).port);
  const random = new Random(8), encoder = new TextEncoder();
  const good = JSON.stringify({ prompt: "Once", max_tokens: 2, temperature: 0 });
  const head = (more: string) => `POST /v1/completions HTTP/1.1\r\nhost: x\r\n${more}\r\n\r\n`;
  const whole = head(`content-length: ${good.length}`) + good;
  const stream = JSON.stringify({ prompt: "Once", max_tokens: 50, stream: true });
  try {
    for (let n = 0; n < 12; n++) {
      const connection = await Deno.connect({ port });
      const text = random.pick([
        whole.slice(0, random.below(whole.length)),
        head("content-length: 99999999999"),
        head("content-length: 500") + "{",
        head(`content-length: ${stream.length}`) + stream,
        "GET /\u0001 nonsense\r\n\r\n",
        head("transfer-encoding: chunked") + "zz\r\n",
      ]);
      await connection.write(encoder.encode(text));
      if (random.below(2) === 0) await connection.read(new Uint8Array(random.int(1, 200)));
      connection.close();
    }
    const answer = await fetch(`${running.url}/v1/completions`, { method: "POST", body: good });
    assert.deepEqual([answer.status, (await answer.json()).choices[0].text], [200, " upon a"]);
    const { running: now, waiting } = await (await fetch(`${running.url}/health`)).json();
    assert.deepEqual([now, waiting], [0, 0]);
  } finally {
    await running.stop();
  }
});
