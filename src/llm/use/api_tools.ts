/**
 * Tools of requests, and conversations for models that call them.
 *
 * @module
 */
import type { ChatMessage, Tool } from "../text/chat_template.ts";
import { callSchema, type ToolForm, toolsMessage } from "../text/tool_calls.ts";
import { isObject, wrong } from "./api_fields.ts";

/** Whether the model calls no tool, one if it wants, one in any case, or this one. */
export type ToolChoice = "none" | "auto" | "required" | { readonly name: string };

/** The tools of a request; those of /v1/responses have no object within. */
export function toolsOf(x: unknown, flat = false): readonly Tool[] {
  if (x === undefined) return [];
  if (!Array.isArray(x) || x.length > 128) throw wrong("tools", "must be a list of up to 128 tools");
  const tools = x.map((t, i): Tool => {
    const own = `tools[${i}]`, at = flat ? own : `${own}.function`;
    if (!isObject(t) || t.type !== "function") throw wrong(`${own}.type`, "must be function");
    const f = flat ? t : t.function;
    if (!isObject(f) || typeof f.name !== "string" || !/^[\w.-]{1,64}$/.test(f.name)) {
      throw wrong(`${at}.name`, "must be up to 64 letters, digits, _ . or -");
    }
    const { name, description, parameters } = f;
    if ((description ?? undefined) !== undefined && typeof description !== "string") {
      throw wrong(`${at}.description`, "must be a text");
    }
    if ((parameters ?? undefined) !== undefined && !isObject(parameters)) {
      throw wrong(`${at}.parameters`, "must be a JSON schema");
    }
    return {
      type: "function",
      function: {
        name,
        description: (description ?? "") as string,
        parameters: parameters ?? { type: "object", properties: {}, additionalProperties: false },
      },
    };
  });
  const names = tools.map((t) => t.function.name), twice = names.find((n, i) => names.indexOf(n) !== i);
  if (twice !== undefined) throw wrong("tools", `has two of the name ${twice}`);
  return tools;
}

/** What is asked of the model. */
export function toolChoiceOf(x: unknown, tools: readonly Tool[]): ToolChoice {
  if (x === undefined) return tools.length > 0 ? "auto" : "none";
  if (x === "none" || x === "auto") return tools.length > 0 ? x : "none";
  const inner = isObject(x) && x.type === "function" ? isObject(x.function) ? x.function : x : undefined;
  if (x !== "required" && typeof inner?.name !== "string") {
    throw wrong("tool_choice", "must be none, auto, required or name a function");
  }
  if (x === "required" && tools.length === 0) throw wrong("tool_choice", "needs 'tools'");
  if (x === "required") return "required";
  const name = inner!.name as string;
  if (!tools.some((t) => t.function.name === name)) {
    throw wrong("tool_choice", `names ${name}, which is none of 'tools'`);
  }
  return { name };
}

/** A conversation with tools, as a model of this form is asked. */
export interface AskedWithTools {
  readonly messages: readonly ChatMessage[];
  /** Values of the template. */
  readonly values: Readonly<Record<string, unknown>>;
  /** What the answer begins with, and the schema of what follows, where a call must come. */
  readonly begin: string;
  readonly schema: Readonly<Record<string, unknown>> | undefined;
}

/** A message with calls, or the answer of a tool, for templates that know neither. */
function told(m: ChatMessage, form: ToolForm): ChatMessage {
  const call = (f: { name: string; arguments: unknown }) =>
    form.prefix + JSON.stringify({ [form.nameKey]: f.name, [form.argumentsKey]: f.arguments }) + form.suffix;
  if (m.role === "tool") return { role: "user", content: `<tool_response>\n${m.content}\n</tool_response>` };
  if (m.tool_calls === undefined) return m;
  return {
    role: m.role,
    content: [m.content, ...m.tool_calls.map((c) => call(c.function))].filter((s) => s !== "").join("\n"),
  };
}

/** How a model of this form is asked. */
export function askWithTools(
  messages: readonly ChatMessage[],
  tools: readonly Tool[],
  choice: ToolChoice,
  form: ToolForm,
): AskedWithTools {
  const offered = choice === "none" ? [] : tools, forced = choice === "required" || typeof choice === "object";
  const able = typeof choice === "object" ? tools.filter((t) => t.function.name === choice.name) : tools;
  const common = { begin: forced ? form.prefix : "", schema: forced ? callSchema(able, form) : undefined };
  if (form.inTemplate) return { ...common, messages, values: offered.length > 0 ? { tools: offered } : {} };
  const list = messages.map((m) => told(m, form));
  if (offered.length === 0) return { ...common, messages: list, values: {} };
  const [first, ...rest] = list, text = toolsMessage(offered, form);
  const all = first.role === "system"
    ? [{ ...first, content: `${first.content}\n\n${text}` }, ...rest]
    : [{ role: "system", content: text }, ...list];
  return { ...common, messages: all, values: {} };
}
