/**
 * /v1/responses (https://platform.openai.com/docs/api-reference/responses): its requests become those of chats, and
 * answers become items, whole or as events.
 *
 * @module
 */
import type { Tool } from "../text/chat_template.ts";
import type { Answer, NumberedCall } from "./answers.ts";
import { type Body, contentOf, given, isObject, textOf, unsupported, wrong } from "./api_fields.ts";
import { formatOf } from "./api_requests.ts";

/** One thing of the input as a message of a chat. */
function messageOf(item: unknown, at: string): Record<string, unknown> {
  if (!isObject(item)) throw wrong(at, "must be an object");
  switch (item.type ?? "message") {
    case "message": {
      if (typeof item.role !== "string" || item.role === "") throw wrong(`${at}.role`, "must be a text");
      return {
        role: item.role,
        content: contentOf(item.content, `${at}.content`, ["input_text", "output_text", "text"]),
      };
    }
    case "function_call": {
      const id = String(item.call_id ?? item.id ?? "");
      return { role: "assistant", tool_calls: [{ id, function: { name: item.name, arguments: item.arguments } }] };
    }
    case "function_call_output":
      return {
        role: "tool",
        tool_call_id: String(item.call_id ?? ""),
        content: contentOf(item.output, `${at}.output`, ["input_text"]),
      };
    default:
      throw wrong(`${at}.type`, "must be message, function_call or function_call_output");
  }
}

/** The body of a chat that asks the same, but for its tools. @throws {ApiError} naming the field at fault */
export function chatBodyOf(body: Body): Body {
  for (const key of ["previous_response_id", "conversation", "prompt"]) {
    if (given(body, key) !== undefined) {
      throw unsupported(key, "is not kept by this server; send the whole conversation");
    }
  }
  if (body.background === true) throw unsupported("background", "is not done by this server");
  const { input } = body, instructions = textOf(body, "instructions");
  if (typeof input !== "string" && !(Array.isArray(input) && input.length > 0)) {
    throw wrong("input", "must be a text or a list of items");
  }
  const messages = typeof input === "string"
    ? [{ role: "user", content: input }]
    : input.map((x, i) => messageOf(x, `input[${i}]`));
  const text = given(body, "text");
  if (text !== undefined && !isObject(text)) throw wrong("text", "must be an object");
  const format = formatOf(text?.format ?? undefined, "text.format", false);
  const kept = [
    "model",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "stop",
    "tool_choice",
    "stream",
    "logit_bias",
  ];
  return {
    ...Object.fromEntries(kept.map((k) => [k, body[k]])),
    messages: instructions === undefined ? messages : [{ role: "system", content: instructions }, ...messages],
    max_completion_tokens: body.max_output_tokens,
    ...format.schema === undefined
      ? {}
      : { response_format: { type: "json_schema", json_schema: { schema: format.schema } } },
  };
}

/** The parts of a response that its request fixes. */
export interface ResponseHead {
  readonly id: string;
  readonly created: number;
  readonly model: string;
  readonly body: Body;
  readonly tools: readonly Tool[];
}

function messageItem(id: string, text: string, status: string): Record<string, unknown> {
  return {
    id: `msg_${id}`,
    type: "message",
    status,
    role: "assistant",
    content: status === "completed" ? [textPart(text)] : [],
  };
}
function textPart(text: string): Record<string, unknown> {
  return { type: "output_text", text, annotations: [] };
}
/** The id of the item of a call. */
function itemOf(id: string): string {
  return id.replace(/^call_/, "fc_");
}
function callItem(call: NumberedCall, status: string): Record<string, unknown> {
  const { id, name, arguments: text } = call;
  return {
    id: itemOf(id),
    type: "function_call",
    status: status === "completed" && call.cut ? "incomplete" : status,
    call_id: id,
    name,
    arguments: status === "completed" ? text : "",
  };
}

/** A response: without an answer one that begins. */
export function responseObject(
  { id, created, model, body, tools }: ResponseHead,
  answer?: Answer,
): Record<string, unknown> {
  const short = answer?.finish === "length", usage = answer?.usage;
  const said = answer !== undefined && (answer.text !== "" || answer.calls.length === 0);
  return {
    id: `resp_${id}`,
    object: "response",
    created_at: created,
    status: answer === undefined ? "in_progress" : short ? "incomplete" : "completed",
    error: null,
    incomplete_details: short ? { reason: "max_output_tokens" } : null,
    instructions: body.instructions ?? null,
    max_output_tokens: body.max_output_tokens ?? null,
    metadata: body.metadata ?? {},
    model,
    output: answer === undefined ? [] : [
      ...said ? [messageItem(id, answer.text, "completed")] : [],
      ...answer.calls.map((c) => callItem(c, "completed")),
    ],
    parallel_tool_calls: true,
    previous_response_id: null,
    store: false,
    temperature: body.temperature ?? 1,
    text: body.text ?? { format: { type: "text" } },
    tool_choice: body.tool_choice ?? "auto",
    tools: tools.map((t) => ({ type: "function", ...t.function })),
    top_p: body.top_p ?? 1,
    truncation: "disabled",
    usage: usage === undefined ? null : {
      input_tokens: usage.promptTokens,
      input_tokens_details: { cached_tokens: usage.cachedTokens },
      output_tokens: usage.completionTokens,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: usage.promptTokens + usage.completionTokens,
    },
  };
}

/** The events of a response as it is written. */
export class ResponseEvents {
  private serial = 0;
  private items = 0;
  private text: string | undefined;
  constructor(private readonly head: ResponseHead, private readonly send: (event: string, data: unknown) => void) {}

  private emit(type: string, more: Record<string, unknown>): void {
    this.send(type, { type, sequence_number: this.serial++, ...more });
  }
  /** The first ones. */
  begin(): void {
    const response = responseObject(this.head);
    this.emit("response.created", { response });
    this.emit("response.in_progress", { response });
  }
  /** Some text. */
  write(delta: string): void {
    const place = { item_id: `msg_${this.head.id}`, output_index: this.items, content_index: 0 };
    if (this.text === undefined) {
      this.emit("response.output_item.added", {
        output_index: this.items,
        item: messageItem(this.head.id, "", "in_progress"),
      });
      this.emit("response.content_part.added", { ...place, part: textPart("") });
    }
    this.text = (this.text ?? "") + delta;
    if (delta !== "") this.emit("response.output_text.delta", { ...place, delta, logprobs: [] });
  }
  private endText(): void {
    if (this.text === undefined) return;
    const { text } = this, place = { item_id: `msg_${this.head.id}`, output_index: this.items, content_index: 0 };
    this.emit("response.output_text.done", { ...place, text, logprobs: [] });
    this.emit("response.content_part.done", { ...place, part: textPart(text) });
    this.emit("response.output_item.done", {
      output_index: this.items++,
      item: messageItem(this.head.id, text, "completed"),
    });
    this.text = undefined;
  }
  /** A call. */
  call(call: NumberedCall): void {
    this.endText();
    const place = { item_id: itemOf(call.id), output_index: this.items };
    this.emit("response.output_item.added", { output_index: this.items, item: callItem(call, "in_progress") });
    this.emit("response.function_call_arguments.delta", { ...place, delta: call.arguments });
    this.emit("response.function_call_arguments.done", { ...place, arguments: call.arguments, name: call.name });
    this.emit("response.output_item.done", { output_index: this.items++, item: callItem(call, "completed") });
  }
  /** The last ones. */
  end(answer: Answer): void {
    if (this.items === 0) this.write("");
    this.endText();
    const response = responseObject(this.head, answer);
    this.emit(answer.finish === "length" ? "response.incomplete" : "response.completed", { response });
  }
  /** What went wrong. */
  fail(message: string, code: string | null): void {
    this.emit("error", { message, code, param: null });
  }
}
