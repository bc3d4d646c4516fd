/**
 * Conversations of all forms that chat templates know: what `chat_oracle.py` renders by Python's jinja2, as
 * transformers sets it up, and the tests by `renderChat`.
 *
 * @module
 */
import { Random } from "../support/random.ts";

/** What a template is given. */
export type ChatValues = Readonly<Record<string, unknown>> & { readonly messages: readonly unknown[] };

/** How many conversations there are. */
export const CONVERSATIONS = 20;

const WORDS: readonly string[] = [
  ...["weather", "Tokyo", "naïve café", "日本語", "👍", "a < b & c > d", `"quoted"`, "it's", "x\\y", "1,000.5"],
  ...["</think>", "<think>hm</think>", "{{ x }}", "Straße", "\u2028", "end."],
];
const AROUND: readonly string[] = ["", "", "\n", "\n\n  indented\n", "\ttab", "  "];
const TOOLS: readonly unknown[] = [
  {
    name: "get_weather",
    description: "Get the weather of a city, e.g. Zürich.\nUnits are “metric” by default.",
    parameters: {
      type: "object",
      properties: {
        city: { type: "string", description: "The city's name" },
        unit: { type: "string", enum: ["celsius", "fahrenheit"], default: "celsius" },
        days: { type: "integer", minimum: 1, maximum: 7.5 },
        places: { type: "array", items: { type: "object", properties: { lat: { type: "number" } } } },
      },
      required: ["city"],
    },
  },
  {
    name: "calculate",
    description: "Evaluates an expression",
    parameters: {
      type: "object",
      properties: {
        expression: { type: ["string", "null"], description: "What to compute: 1 < 2 && 3 > 2" },
        options: { anyOf: [{ type: "boolean" }, { type: "object", additionalProperties: { type: "string" } }] },
      },
      required: ["expression", "options"],
    },
    strict: true,
  },
  { name: "now", description: "The time", parameters: { type: "object", properties: {} } },
];
const ARGUMENTS: readonly unknown[] = [
  { city: "Paris", unit: "celsius", days: 3 },
  { expression: "1 < 2 && \"x\" == 'y'", options: { exact: "yes", "naïve": "ja" } },
  {},
  { city: "東京", places: [{ lat: 35.5 }, { lat: -0.25 }], nested: [[1, 2], [], null, true, 1.5e-7, 1e21] },
];
const NAMES = ["get_weather", "calculate", "now", "get_weather"];
const EXTRAS: readonly Readonly<Record<string, unknown>>[] = [
  {},
  { enable_thinking: true },
  { enable_thinking: false },
  { reasoning_effort: "high", thinking: true },
  { documents: [{ title: "A", text: "of A" }, { title: "B's", text: "<b>" }], date_string: "26 Jul 2024" },
  { functions: [{ name: "f" }], datetime: "now", tool_choice: "auto" },
  { tools_in_user_message: false, keep_past_thinking: true, thinking: false },
];

/** Conversation number `index`: what templates look at changes with it, texts are random. */
export function conversation(index: number): ChatValues {
  const random = new Random(index + 1), has = (...rests: number[]) => rests.includes(index % 7);
  const text = () =>
    random.pick(AROUND) + Array.from({ length: random.int(1, 5) }, () => random.pick(WORDS)).join(" ") +
    random.pick(AROUND);
  const content = () => {
    if (index % 5 !== 4) return text();
    const parts: unknown[] = Array.from({ length: random.int(1, 2) }, () => ({ type: "text", text: text() }));
    return index === 9 ? [...parts, { type: "image" }] : parts;
  };
  const withTools = index % 2 === 1, messages: unknown[] = [];
  if (!has(0, 3)) messages.push({ role: index === 11 ? "developer" : "system", content: content() });
  const turns = random.int(1, 3);
  for (let turn = 0; turn < turns; turn++) {
    const thoughts = has(1, 3, 5) ? { reasoning_content: text() } : index === 16 ? { reasoning: text() } : {};
    messages.push({ role: "user", content: content() });
    if (withTools && (turn === 0 || has(2, 3))) {
      const calls = Array.from({ length: random.int(1, 2) }, () => random.below(4));
      const ids = calls.map((_, i) => `call${turn}${i}abc`);
      messages.push({
        ...{ role: "assistant", content: has(0, 4) ? "" : has(1) ? null : text(), ...thoughts },
        tool_calls: calls.map((c, i) => ({
          ...{ id: ids[i], type: "function" },
          function: { name: NAMES[c], arguments: index % 6 === 5 ? JSON.stringify(ARGUMENTS[c]) : ARGUMENTS[c] },
        })),
      });
      calls.forEach((c, i) => {
        const content = has(2, 5) ? JSON.stringify({ ok: true, result: text() }) : text();
        messages.push({ role: "tool", tool_call_id: ids[i], name: NAMES[c], content });
      });
      if (turn === turns - 1 && has(1, 4)) break;
    }
    if (turn < turns - 1 || has(0, 5)) messages.push({ role: "assistant", content: content(), ...thoughts });
  }
  return {
    ...{ messages, add_generation_prompt: index % 3 !== 2, bos_token: "<s>", eos_token: "</s>" },
    ...withTools && index !== 13 ? { tools: TOOLS.map((f) => ({ type: "function", function: f })) } : {},
    ...EXTRAS[index % EXTRAS.length],
  };
}
