/**
 * Requests of the OpenAI protocol (https://platform.openai.com/docs/api-reference): bodies are checked field by field and
 * become options of `LanguageModel`; what is wrong becomes an error with a status.
 *
 * @module
 */
import type { ChatMessage } from "../text/chat_template.ts";
import type { GenerateOptions } from "./generation.ts";

/** An error that is told to the client. */
export class ApiError extends Error {
  /** The name of the class. */
  override readonly name: string = "ApiError";
  /** `param` names the field at fault, `code` what went wrong. */
  constructor(
    readonly status: number,
    message: string,
    readonly param: string | null = null,
    readonly code: string | null = null,
  ) {
    super(message);
  }

  /** The body of the response. */
  body(): Record<string, unknown> {
    const { status, message, param, code } = this;
    const type = status === 401
      ? "authentication_error"
      : status === 429
      ? "rate_limit_error"
      : status >= 500
      ? "server_error"
      : "invalid_request_error";
    return { error: { message, type, param, code } };
  }
}

/** A body that was parsed. */
export type Body = Readonly<Record<string, unknown>>;

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
}
/** Texts to go on with. */
export interface CompletionRequest extends CommonRequest {
  readonly prompts: readonly (string | readonly number[])[];
  readonly echo: boolean;
}

const wrong = (param: string, what: string) => new ApiError(400, `'${param}' ${what}`, param, "invalid_value");

function given(body: Body, key: string): unknown {
  return body[key] ?? undefined; // null is as good as nothing
}
function numberOf(body: Body, key: string, min: number, max: number): number | undefined {
  const x = given(body, key);
  if (x === undefined) return undefined;
  if (typeof x !== "number" || !(x >= min && x <= max)) throw wrong(key, `must be a number from ${min} to ${max}`);
  return x;
}
function wholeOf(body: Body, key: string, min: number, max: number): number | undefined {
  const x = numberOf(body, key, min, max);
  if (x !== undefined && !Number.isInteger(x)) throw wrong(key, "must be a whole number");
  return x;
}
function flagOf(body: Body, key: string): boolean {
  const x = given(body, key);
  if (x !== undefined && typeof x !== "boolean") throw wrong(key, "must be true or false");
  return x === true;
}
function isObject(x: unknown): x is Record<string, unknown> {
  return typeof x === "object" && x !== null && !Array.isArray(x);
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

/** What is understood, and would change the answer, but is not done. */
function refuseUnsupported(body: Body): void {
  const tools = given(body, "tools") ?? given(body, "functions");
  if (tools !== undefined && !(Array.isArray(tools) && tools.length === 0)) {
    throw new ApiError(400, "'tools' are not supported by this server", "tools", "unsupported_parameter");
  }
  const format = given(body, "response_format");
  if (format !== undefined && !(isObject(format) && format.type === "text")) {
    throw new ApiError(
      400,
      "'response_format' other than text is not supported by this server",
      "response_format",
      "unsupported_parameter",
    );
  }
}

function commonOf(body: Body, vocabulary: number, defaultTokens: number | undefined): CommonRequest {
  refuseUnsupported(body);
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
    options: Object.fromEntries(entries.filter(([, value]) => value !== undefined)),
    count: wholeOf(body, "n", 1, 16) ?? 1,
    stream,
    includeUsage: streamOptions !== undefined && flagOf(streamOptions as Body, "include_usage"),
  };
}

function contentOf(x: unknown, at: string): string {
  if (typeof x === "string") return x;
  if (x === null || x === undefined) return "";
  if (!Array.isArray(x)) throw wrong(at, "must be a text or a list of parts");
  return x.map((part) => {
    if (isObject(part) && part.type === "text" && typeof part.text === "string") return part.text;
    throw wrong(at, "may only have parts of the type text");
  }).join("");
}

/** The request of a body of /v1/chat/completions. @throws {ApiError} naming the field at fault */
export function chatRequest(body: Body, vocabulary: number): ChatRequest {
  const { messages } = body;
  if (!Array.isArray(messages) || messages.length === 0) {
    throw wrong("messages", "must be a list of at least one message");
  }
  const list = messages.map((m, i): ChatMessage => {
    const at = `messages[${i}]`;
    if (!isObject(m) || typeof m.role !== "string" || m.role === "") throw wrong(`${at}.role`, "must be a text");
    return { role: m.role === "developer" ? "system" : m.role, content: contentOf(m.content, `${at}.content`) };
  });
  const common = commonOf(body, vocabulary, undefined), best = wholeOf(body, "top_logprobs", 0, 20);
  if (best !== undefined && !flagOf(body, "logprobs")) throw wrong("top_logprobs", "needs 'logprobs' to be true");
  const options = flagOf(body, "logprobs") ? { ...common.options, logprobs: best ?? 0 } : common.options;
  return { ...common, options, messages: list };
}

/** The request of a body of /v1/completions. @throws {ApiError} naming the field at fault */
export function completionRequest(body: Body, vocabulary: number): CompletionRequest {
  const prompt = given(body, "prompt") ?? "",
    isId = (x: unknown) => Number.isInteger(x) && (x as number) >= 0 && (x as number) < vocabulary;
  const isPrompt = (x: unknown) => typeof x === "string" || Array.isArray(x) && x.length > 0 && x.every(isId);
  const prompts = isPrompt(prompt) ? [prompt] : prompt;
  if (!Array.isArray(prompts) || prompts.length === 0 || prompts.length > 32 || !prompts.every(isPrompt)) {
    throw wrong("prompt", `must be a text, a list of tokens below ${vocabulary}, or up to 32 of those`);
  }
  const common = commonOf(body, vocabulary, 16), logprobs = wholeOf(body, "logprobs", 0, 20);
  const options = logprobs === undefined ? common.options : { ...common.options, logprobs };
  return { ...common, options, prompts: prompts as (string | number[])[], echo: flagOf(body, "echo") };
}
