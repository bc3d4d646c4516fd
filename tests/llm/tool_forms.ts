/** How models write calls. @module */
import type { ToolForm } from "../../src/llm/text/tool_calls.ts";

const form = (prefix: string, suffix: string, argumentsKey = "arguments"): ToolForm => ({
  prefix,
  suffix,
  nameKey: "name",
  argumentsKey,
  inTemplate: true,
});
/** By the family of models. */
export const FORMS: Readonly<Record<string, ToolForm>> = {
  hermes: form("<tool_call>\n", "\n</tool_call>"),
  mistral: form("[TOOL_CALLS][", "]"),
  llama: form("", "", "parameters"),
};
