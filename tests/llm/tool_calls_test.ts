/**
 * Calls in answers: however the text is cut, calls and the text between them are the same; what is no call is text.
 */
import assert from "node:assert/strict";
import { type ToolCall, ToolCallReader, type ToolForm } from "../../src/llm/text/tool_calls.ts";
import { Random } from "../support/random.ts";

const form = (prefix: string, suffix: string, argumentsKey = "arguments"): ToolForm => ({
  prefix,
  suffix,
  nameKey: "name",
  argumentsKey,
  inTemplate: true,
});
const FORMS: Readonly<Record<string, ToolForm>> = {
  hermes: form("<tool_call>\n", "\n</tool_call>"),
  mistral: form("[TOOL_CALLS][", "]"),
  llama: form("", "", "parameters"),
};
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

Deno.test("tool calls: a call whose begin stood in the prompt", () => {
  const reader = new ToolCallReader(FORMS.hermes, new Set(["f"]), true);
  assert.deepEqual([reader.push(CALL.slice(0, 9)), reader.push(CALL.slice(9)), reader.end()], [
    { text: "", calls: [] },
    { text: "", calls: [F] },
    { text: "", calls: [] },
  ]);
});
