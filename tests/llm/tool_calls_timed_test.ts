/** Calls in answers: long ones are not looked at from the beginning each time. */
import assert from "node:assert/strict";
import { ToolCallReader } from "../../src/llm/text/tool_calls.ts";
import { FORMS } from "./tool_forms.ts";

Deno.test("tool calls: long arguments are looked at once", () => {
  const time = (n: number): number => {
    const reader = new ToolCallReader(FORMS.hermes, new Set(["f"])), start = performance.now();
    reader.push('<tool_call>{"name": "f", "arguments": {"x": "');
    for (let i = 0; i < n; i++) assert.equal(reader.push("ab").calls.length, 0);
    const { calls } = reader.push('"}}</tool_call>');
    assert.equal(calls[0].arguments.length, 8 + 2 * n);
    return performance.now() - start;
  };
  // 20,000 pieces take some 40 ms; looked at from the first letter each time they took more than 900
  time(1000);
  const least = Math.min(...Array.from({ length: 5 }, () => time(20_000)));
  assert.ok(least < 400, `${least} ms`);
});
