/**
 * Calls in answers: however the text is cut, calls and the text between them are the same; what is no call is text.
 */
import assert from "node:assert/strict";
import { type ToolCall, ToolCallReader } from "../../src/llm/text/tool_calls.ts";
import { Random } from "../support/random.ts";
import { FORMS } from "./tool_forms.ts";

const CALL = '{"name": "f", "arguments": {"x": "}\\"{"}}', F = { name: "f", arguments: '{"x":"}\\"{"}' };

const TEXTS: readonly (readonly [string, string, string, readonly ToolCall[]])[] = [
  ["hermes", "no call < here", "no call < here", []],
  ["hermes", `well <tool_call>\n${CALL}\n</tool_call>`, "well ", [F]],
  ["hermes", `<tool_call>${CALL}</tool_call>\n<tool_call>\n${CALL}\n</tool_call> done`, "done", [F, F]],
  ["hermes", `<tool_call>\n${CALL}`, "", [F]],
  ["hermes", '<tool_call>{"name": "unknown"}</tool_call>', '<tool_call>{"name": "unknown"}</tool_call>', []],
  ["hermes", "<tool_call> none", "<tool_call> none", []],
  ["hermes", '<tool_call>{"name": "f', '<tool_call>{"name": "f', []],
  ["hermes", "a <tool_", "a <tool_", []],
  ["mistral", `[TOOL_CALLS][${CALL}, ${CALL}]`, "", [F, F]],
  ["mistral", `[TOOL_CALLS][${CALL}]`, "", [F]],
  ["llama", '{"name": "f", "parameters": {}}', "", [{ name: "f", arguments: "{}" }]],
  ["llama", 'I say {"name": "f", "parameters": {}}', 'I say {"name": "f", "parameters": {}}', []],
  ["llama", '{"a": 1} is JSON', '{"a": 1} is JSON', []],
  ["llama", " ", " ", []],
];

Deno.test("tool calls: calls and text are told apart, however they come", () => {
  const random = new Random(2);
  for (const [name, text, want, calls] of TEXTS) {
    for (let n = 0; n < 60; n++) {
      const reader = new ToolCallReader(FORMS[name], new Set(["f"])), found: ToolCall[] = [];
      let shown = "";
      const take = (p: { text: string; calls: readonly ToolCall[] }) => {
        shown += p.text;
        found.push(...p.calls);
      };
      for (let at = 0; at < text.length;) {
        const size = n === 0 ? text.length : random.int(1, 1 + random.below(9));
        take(reader.push(text.slice(at, at + size)));
        at += size;
      }
      take(reader.end());
      assert.deepEqual([shown, found], [want, calls], `${name}: ${text}`);
    }
  }
});

Deno.test("tool calls: where the answer is cut off in a call, its beginning is one", () => {
  const begin = '<tool_call>{"name": "f"', part = { name: "f", arguments: "", cut: true as const };
  for (
    const [text, want] of [
      ['<tool_call>{"name": "f', '<tool_call>{"name": "f'],
      ['<tool_call>{"name": "g", "arguments": {', '<tool_call>{"name": "g", "arguments": {'],
      [begin, part],
      [`${begin}, "arg`, part],
      [`${begin}, "arguments": {"x": "}`, { ...part, arguments: '{"x": "}' }],
      [`<tool_call>${CALL.slice(0, -1)}`, { ...part, arguments: CALL.slice(27, -1) }],
      [`<tool_call>${CALL}`, F],
    ] as const
  ) {
    const reader = new ToolCallReader(FORMS.hermes, new Set(["f"])), a = reader.push(text), b = reader.end(true);
    const calls = [...a.calls, ...b.calls];
    assert.deepEqual(calls.length === 0 ? a.text + b.text : calls[0], want, text);
    // what the model ended itself is no call
    const other = new ToolCallReader(FORMS.hermes, new Set(["f"]));
    other.push(text);
    assert.equal(other.end().calls.some((c) => c.cut), false);
  }
});

Deno.test("tool calls: a call whose begin stood in the prompt", () => {
  const reader = new ToolCallReader(FORMS.hermes, new Set(["f"]), true);
  assert.deepEqual([reader.push(CALL.slice(0, 9)), reader.push(CALL.slice(9)), reader.end()], [
    { text: "", calls: [] },
    { text: "", calls: [F] },
    { text: "", calls: [] },
  ]);
});
