/**
 * Requests of the OpenAI protocol (https://platform.openai.com/docs/api-reference): bodies are checked field by field and
 * become options of `LanguageModel`; what is wrong becomes an error with a status.
 *
 * @module
 */
import type { ChatMessage, Tool } from "../text/chat_template.ts";
import {
  type Body,
  contentOf,
  flagOf,
  given,
  isObject,
  numberOf,
  textOf,
  unsupported,
  wholeOf,
  wrong,
} from "./api_fields.ts";
import { type ToolChoice, toolChoiceOf, toolsOf } from "./api_tools.ts";
import type { GenerateOptions } from "./generation.ts";

/** What both kinds of requests have in common. */
export interface CommonRequest {
  readonly options: GenerateOptions;
  readonly count: number;
  readonly stream: boolean;
  readonly includeUsage: boolean;
}
/** A conversation. */
export interface ChatRequest extends CommonRequest {
  readonly messages: readonly ChatMessage[];
  /** What the model may call, and whether it must. */
  readonly tools: readonly Tool[];
  readonly choice: ToolChoice;
}
/** Texts to go on with. */
export interface CompletionRequest extends CommonRequest {
  readonly prompts: readonly (string | readonly number[])[];
  readonly echo: boolean;
}

function stopOf(body: Body): GenerateOptions["stop"] {
  const x = given(body, "stop");
  if (x === undefined) return undefined;
  const list = typeof x === "string" ? [x] : x;
  if (!Array.isArray(list) || list.length > 16 || !list.every((s) => typeof s === "string" && s !== "")) {
    throw wrong("stop", "must be a text or up to 16 texts that are not empty");
  }
  return list as string[];
}
function biasOf(body: Body, vocabulary: number): Record<string, number> | undefined {
  const x = given(body, "logit_bias");
  if (x === undefined) return undefined;
  const fine = ([id, v]: [string, unknown]) =>
    /^\d+$/.test(id) && Number(id) < vocabulary && typeof v === "number" && Math.abs(v) <= 100;
  if (!isObject(x) || !Object.entries(x).every(fine)) {
    throw wrong("logit_bias", `must map tokens below ${vocabulary} to numbers from -100 to 100`);
  }
  return x as Record<string, number>;
}

/** A schema that the text keeps to, of a format as both kinds of chats have it. */
export function formatOf(format: unknown, param: string, nested: boolean): GenerateOptions {
  if (format === undefined) return {};
  const type = isObject(format) ? format.type : undefined;
  if (type === "text") return {};
  if (type === "json_object") return { schema: { type: "object" } };
  if (type !== "json_schema") throw wrong(param, "must have the type text, json_object or json_schema");
  const holder = nested ? (format as Body).json_schema : format, schema = isObject(holder) ? holder.schema : undefined;
  if (!isObject(schema)) {
    throw wrong(nested ? `${param}.json_schema.schema` : `${param}.schema`, "must be a JSON schema");
  }
  return { schema };
}
/** What the text must be, of a body. */
function constraintOf(body: Body): GenerateOptions {
  const format = formatOf(given(body, "response_format"), "response_format", true), grammar = textOf(body, "grammar");
  if (grammar === undefined) return format;
  if (format.schema !== undefined) throw wrong("grammar", "and 'response_format' cannot both be kept to");
  return { grammar };
}

function commonOf(body: Body, vocabulary: number, defaultTokens: number | undefined): CommonRequest {
  const maxTokens = wholeOf(body, "max_completion_tokens", 1, 1e9) ?? wholeOf(body, "max_tokens", 0, 1e9) ??
    defaultTokens;
  const stream = flagOf(body, "stream"), streamOptions = given(body, "stream_options");
  if (streamOptions !== undefined && !isObject(streamOptions)) throw wrong("stream_options", "must be an object");
  if (streamOptions !== undefined && !stream) throw wrong("stream_options", "is only for streams");
  const entries: [keyof GenerateOptions, unknown][] = [
    ["temperature", numberOf(body, "temperature", 0, 2) ?? 1],
    ["topP", numberOf(body, "top_p", 0, 1)],
    ["topK", wholeOf(body, "top_k", 0, 1e9)],
    ["minP", numberOf(body, "min_p", 0, 1)],
    ["presencePenalty", numberOf(body, "presence_penalty", -2, 2)],
    ["frequencyPenalty", numberOf(body, "frequency_penalty", -2, 2)],
    ["repetitionPenalty", numberOf(body, "repetition_penalty", 0.01, 10)],
    ["seed", wholeOf(body, "seed", -Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER)],
    ["stop", stopOf(body)],
    ["logitBias", biasOf(body, vocabulary)],
    ["maxTokens", maxTokens],
  ];
  return {
    options: { ...Object.fromEntries(entries.filter(([, value]) => value !== undefined)), ...constraintOf(body) },
    count: wholeOf(body, "n", 1, 16) ?? 1,
    stream,
    includeUsage: streamOptions !== undefined && flagOf(streamOptions as Body, "include_usage"),
  };
}

/** Messages of a conversation. */
function messagesOf(messages: unknown): ChatMessage[] {
  if (!Array.isArray(messages) || messages.length === 0) {
    throw wrong("messages", "must be a list of at least one message");
  }
  return messages.map((m, i): ChatMessage => {
    const at = `messages[${i}]`;
    if (!isObject(m) || typeof m.role !== "string" || m.role === "") throw wrong(`${at}.role`, "must be a text");
    const message = {
      role: m.role === "developer" ? "system" : m.role,
      content: contentOf(m.content, `${at}.content`),
    };
    const id = textOf(m, "tool_call_id"), name = textOf(m, "name");
    return {
      ...message,
      ...m.tool_calls === undefined || m.tool_calls === null ? {} : { tool_calls: callsOf(m.tool_calls, at) },
      ...id === undefined ? {} : { tool_call_id: id },
      ...name === undefined ? {} : { name },
    };
  });
}
/** Calls that the model asked for before; templates want arguments as objects. */
function callsOf(calls: unknown, at: string): NonNullable<ChatMessage["tool_calls"]> {
  if (!Array.isArray(calls)) throw wrong(`${at}.tool_calls`, "must be a list");
  return calls.map((c, i) => {
    const path = `${at}.tool_calls[${i}].function`, f = isObject(c) ? c.function : undefined;
    if (!isObject(f) || typeof f.name !== "string" || typeof f.arguments !== "string") {
      throw wrong(path, "must have a name and arguments, both texts");
    }
    return {
      id: String((c as Body).id ?? ""),
      type: "function",
      function: { name: f.name, arguments: argumentsOf(f.arguments) },
    };
  });
}
/** The object of arguments in JSON; a model may have written none. */
function argumentsOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** The request of a body of /v1/chat/completions, or of one with these tools. @throws {ApiError} naming the field at fault */
export function chatRequest(
  body: Body,
  vocabulary: number,
  tools: readonly Tool[] = toolsOf(given(body, "tools")),
): ChatRequest {
  const common = commonOf(body, vocabulary, undefined), best = wholeOf(body, "top_logprobs", 0, 20);
  if (best !== undefined && !flagOf(body, "logprobs")) throw wrong("top_logprobs", "needs 'logprobs' to be true");
  const options = flagOf(body, "logprobs") ? { ...common.options, logprobs: best ?? 0 } : common.options;
  if (given(body, "functions") !== undefined) throw unsupported("functions", "is of old; give 'tools'");
  const choice = toolChoiceOf(given(body, "tool_choice"), tools);
  if (tools.length > 0 && choice !== "none" && (options.schema ?? options.grammar) !== undefined) {
    throw wrong("response_format", "and 'tools' cannot both be kept to");
  }
  return { ...common, options, messages: messagesOf(body.messages), tools, choice };
}

/** Texts or lists of tokens, one or several. */
function promptsOf(prompt: unknown, key: string, vocabulary: number): CompletionRequest["prompts"] {
  const isId = (x: unknown) => Number.isInteger(x) && (x as number) >= 0 && (x as number) < vocabulary;
  const isPrompt = (x: unknown) => typeof x === "string" || Array.isArray(x) && x.length > 0 && x.every(isId);
  const prompts = isPrompt(prompt) ? [prompt] : prompt;
  if (!Array.isArray(prompts) || prompts.length === 0 || prompts.length > 32 || !prompts.every(isPrompt)) {
    throw wrong(key, `must be a text, a list of tokens below ${vocabulary}, or up to 32 of those`);
  }
  return prompts as (string | number[])[];
}

/** Texts to embed. */
export interface EmbeddingRequest {
  readonly prompts: CompletionRequest["prompts"];
  /** Whether vectors are told as bytes. */
  readonly base64: boolean;
  /** How many numbers of a vector are told. */
  readonly dimensions: number;
}
/** The request of a body of /v1/embeddings, of vectors of `size`. @throws {ApiError} naming the field at fault */
export function embeddingRequest(body: Body, vocabulary: number, size: number): EmbeddingRequest {
  const format = given(body, "encoding_format") ?? "float";
  if (format !== "float" && format !== "base64") throw wrong("encoding_format", "must be float or base64");
  return {
    prompts: promptsOf(given(body, "input"), "input", vocabulary),
    base64: format === "base64",
    dimensions: wholeOf(body, "dimensions", 1, size) ?? size,
  };
}

/** The request of a body of /v1/completions. @throws {ApiError} naming the field at fault */
export function completionRequest(body: Body, vocabulary: number): CompletionRequest {
  const prompts = promptsOf(given(body, "prompt") ?? "", "prompt", vocabulary);
  const common = commonOf(body, vocabulary, 16), logprobs = wholeOf(body, "logprobs", 0, 20);
  const options = logprobs === undefined ? common.options : { ...common.options, logprobs };
  if ((given(body, "suffix") ?? "") !== "") throw wrong("suffix", "is not supported: texts are only gone on with");
  return { ...common, options, prompts, echo: flagOf(body, "echo") };
}
