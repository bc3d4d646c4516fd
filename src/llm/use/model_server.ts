/**
 * A model behind the OpenAI protocol: /v1/models, /v1/chat/completions, /v1/completions, /v1/responses, /v1/embeddings,
 * streamed or whole, /health, /metrics, and a page to chat at /. Requests that wait are counted, and a full line says so.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import { checkInteger, checkOptions, checkText } from "../../helpers/options.ts";
import { base64 } from "../../helpers/text.ts";
import { checkModel } from "../files/given_arguments.ts";
import { type AnswerForm, chatForm, completionForm } from "./answer_forms.ts";
import { type Answer, type Job, usageOf, writeAnswer } from "./answers.ts";
import { ApiError, type Body, given } from "./api_fields.ts";
import {
  type ChatRequest,
  chatRequest,
  type CommonRequest,
  completionRequest,
  embeddingRequest,
} from "./api_requests.ts";
import { CHAT_PAGE } from "./chat_page.ts";
import { askWithTools, toolsOf } from "./api_tools.ts";
import { bodyOf, Turns } from "./http_input.ts";
import type { CompletionToken } from "./generation.ts";
import type { LanguageModel } from "./language_model.ts";
import { chatBodyOf, ResponseEvents, type ResponseHead, responseObject } from "./responses_api.ts";

/** Options of {@linkcode serve}. */
export interface ServeOptions {
  /** 8000 unless given; 0 for one that is free. */
  readonly port?: number;
  /** "127.0.0.1" unless given: only this machine. */
  readonly hostname?: string;
  /** What clients must show as `Authorization: Bearer ...`. */
  readonly key?: string;
  /** How many requests may wait; 16 unless given. */
  readonly queue?: number;
  /** Of a request, in bytes; 4 MB unless given. */
  readonly maxBody?: number;
  /** How many tokens of answers are guessed and computed together; 0 unless given. */
  readonly speculate?: number;
  /** How long a client may take to send its request; 30,000 ms unless given. */
  readonly bodyMs?: number;
  /** Pages of which origin may ask: "https://example.org", or "*" for any; those of the server alone unless given. */
  readonly cors?: string;
}

/** A server that runs. */
export interface RunningServer {
  /** Where it listens. */
  readonly url: string;
  /** Answers no more requests, and ends the one that is answered. */
  stop(): Promise<void>;
}

const encoder = new TextEncoder();
/** How long the head of an answer waits for it: a client that leaves meanwhile is not heard of. */
const HEAD_MS = 50;

function json(status: number, body: unknown): Response {
  return Response.json(body, { status });
}
/** What the library refuses becomes the client's error, all else the server's. */
function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof ArgumentError) {
    const long = /and the context is/.test(error.message);
    return new ApiError(400, error.message, null, long ? "context_length_exceeded" : null);
  }
  return new ApiError(500, (error as Error)?.message ?? "something went wrong");
}

/** What needs no key: the page asks for one itself. */
const OPEN = ["/", "/health"];
const PAGE_HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": "default-src 'self'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:",
};

/** The name of a model in a path. */
function nameIn(pathname: string): string {
  const name = pathname.slice("/v1/models/".length);
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/** Answers requests with a model; {@linkcode serve} listens for them. */
export class ModelServer {
  private readonly turns: Turns;
  private readonly maxBody: number;
  private readonly speculate: number;
  private readonly bodyMs: number;
  private readonly key: string | undefined;
  private readonly cors: string | undefined;
  private readonly created = Math.floor(Date.now() / 1000);
  private readonly counts = {
    requests: 0,
    errors: 0,
    promptTokens: 0,
    cachedTokens: 0,
    completionTokens: 0,
    promptMs: 0,
    completionMs: 0,
  };
  private readonly closing = new AbortController();
  private serial = 0;

  /** The options are those of {@linkcode serve}. */
  constructor(readonly model: LanguageModel, options: ServeOptions = {}) {
    const action = "serve a model",
      count = (name: "queue" | "maxBody" | "bodyMs", fallback: number) =>
        options[name] === undefined ? fallback : checkInteger(action, name, options[name], 1);
    checkOptions(action, options, ["port", "hostname", "key", "queue", "maxBody", "bodyMs", "speculate", "cors"]);
    checkModel(action, model);
    this.turns = new Turns(model.sequences, count("queue", 16));
    this.maxBody = count("maxBody", 4 << 20);
    this.bodyMs = count("bodyMs", 30_000);
    this.speculate = options.speculate === undefined ? 0 : checkInteger(action, "speculate", options.speculate, 0);
    if (this.speculate > 16) throw new ArgumentError(action, { reason: "speculate is not from 0 to 16" });
    this.key = options.key === undefined ? undefined : checkText(action, "key", options.key);
    this.cors = options.cors === undefined ? undefined : checkText(action, "cors", options.cors);
    if (this.cors !== undefined && this.cors !== "*" && !/^https?:\/\/[^/\s]+$/.test(this.cors)) {
      throw new ArgumentError(action, {
        reason: `cors is "${this.cors}", no origin as "https://example.org", and not "*"`,
      });
    }
  }

  /** The response to a request; it never throws. */
  async handle(request: Request): Promise<Response> {
    this.counts.requests++;
    try {
      const response = await this.route(request);
      // the head of what GET gives (https://www.rfc-editor.org/rfc/rfc9110#name-head)
      return this.open(request.method === "HEAD" ? new Response(null, response) : response);
    } catch (error) {
      const e = this.failed(error);
      return this.open(json(e.status, e.body()));
    }
  }
  /** A response that pages elsewhere may read, where they may (https://fetch.spec.whatwg.org/#http-cors-protocol). */
  private open(response: Response): Response {
    if (this.cors === undefined) return response;
    response.headers.set("access-control-allow-origin", this.cors);
    if (this.cors !== "*") response.headers.append("vary", "origin");
    return response;
  }
  /** What browsers ask before a page elsewhere may. */
  private preflight(request: Request): Response {
    const wanted = request.headers.get("access-control-request-headers") ?? "authorization, content-type";
    const headers = {
      "access-control-allow-methods": "GET, POST",
      "access-control-allow-headers": wanted,
      "access-control-max-age": "600",
    };
    return new Response(null, { status: 204, headers });
  }
  /** Ends the answers that are being written. */
  close(): void {
    this.closing.abort();
  }

  private async route(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url), { method } = request;
    if (method === "OPTIONS" && this.cors !== undefined) return this.preflight(request);
    const reads: Readonly<Record<string, () => Response>> = {
      "/": () => new Response(CHAT_PAGE, { headers: PAGE_HEADERS }),
      "/health": () => json(200, { status: "ok", running: this.turns.running, waiting: this.turns.waiting }),
      "/metrics": () => new Response(this.metrics(), { headers: { "content-type": "text/plain; version=0.0.4" } }),
      "/v1/models": () => json(200, { object: "list", data: [this.card()] }),
    };
    const writes: Readonly<Record<string, (body: Body) => Response | Promise<Response>>> = {
      "/v1/chat/completions": (body) => this.chat(body),
      "/v1/completions": (body) => this.completions(body),
      "/v1/responses": (body) => this.responses(body),
      "/v1/embeddings": (body) => this.embeddings(body),
    };
    const read = Object.hasOwn(reads, pathname) ? reads[pathname] : undefined,
      write = Object.hasOwn(writes, pathname) ? writes[pathname] : undefined;
    const wants = read !== undefined || pathname.startsWith("/v1/models/")
      ? "GET"
      : write !== undefined
      ? "POST"
      : undefined;
    if (wants === undefined) throw new ApiError(404, `there is no ${pathname}`, null, "not_found");
    if (method !== wants && !(method === "HEAD" && wants === "GET")) {
      const e = this.failed(new ApiError(405, `${pathname} takes ${wants}, not ${method}`, null, "method_not_allowed"));
      const response = json(e.status, e.body());
      response.headers.set("allow", wants === "GET" ? "GET, HEAD" : wants);
      return response;
    }
    if (
      !OPEN.includes(pathname) && this.key !== undefined &&
      request.headers.get("authorization") !== `Bearer ${this.key}`
    ) {
      throw new ApiError(401, "the key in the Authorization header is missing or wrong", null, "invalid_api_key");
    }
    if (read !== undefined) return read();
    if (write === undefined) {
      this.checkModel(nameIn(pathname));
      return json(200, this.card());
    }
    const body = await bodyOf(request, this.maxBody, this.bodyMs);
    const model = body.model ?? this.model.name;
    if (typeof model !== "string") throw new ApiError(400, "'model' must be a text", "model", "invalid_value");
    this.checkModel(model);
    return await write(body);
  }
  private checkModel(name: string): void {
    if (name !== this.model.name) {
      throw new ApiError(404, `there is no model '${name}'; this is '${this.model.name}'`, "model", "model_not_found");
    }
  }
  private card(): Record<string, unknown> {
    return { id: this.model.name, object: "model", created: this.created, owned_by: "dinograd" };
  }
  /** In the text format of Prometheus (https://prometheus.io/docs/instrumenting/exposition_formats). */
  private metrics(): string {
    const { counts, turns } = this,
      rows: readonly (readonly [string, string, number, string])[] = [
        ["requests_total", "counter", counts.requests, "Requests that came"],
        ["errors_total", "counter", counts.errors, "Requests that were answered with an error"],
        ["prompt_tokens_total", "counter", counts.promptTokens, "Tokens of prompts"],
        ["cached_tokens_total", "counter", counts.cachedTokens, "Tokens of prompts that were known"],
        ["completion_tokens_total", "counter", counts.completionTokens, "Tokens that were written"],
        ["prompt_seconds_total", "counter", counts.promptMs / 1000, "Time of reading prompts"],
        ["completion_seconds_total", "counter", counts.completionMs / 1000, "Time of writing"],
        ["running", "gauge", turns.running, "Requests that are being answered"],
        ["waiting", "gauge", turns.waiting, "Requests that wait"],
      ];
    return rows.map(([name, type, value, help]) =>
      `# HELP dinograd_${name} ${help}\n# TYPE dinograd_${name} ${type}\ndinograd_${name} ${value}\n`
    ).join("");
  }

  private async chat(body: Body): Promise<Response> {
    const parsed = chatRequest(body, this.model.decoder.vocabulary), asked = await this.asked(parsed);
    return this.answer(chatForm(this.model.tokenizer), parsed, this.jobs(parsed, asked));
  }
  private completions(body: Body): Response | Promise<Response> {
    const { model } = this, parsed = completionRequest(body, model.decoder.vocabulary);
    const jobs = parsed.prompts.flatMap((p) => {
      const prompt = model.promptIds(p);
      return this.jobs(parsed, {
        prompt,
        options: parsed.options,
        echo: parsed.echo ? model.tokenizer.decode(prompt) : "",
        scored: parsed.echo && parsed.options.logprobs !== undefined,
      });
    });
    return this.answer(completionForm(model.tokenizer), parsed, jobs);
  }
  private async responses(body: Body): Promise<Response> {
    const tools = toolsOf(given(body, "tools"), true),
      parsed = chatRequest(chatBodyOf(body), this.model.decoder.vocabulary, tools),
      [job] = this.jobs(parsed, await this.asked(parsed));
    const head: ResponseHead = { ...this.head(""), model: this.model.name, body, tools };
    if (!parsed.stream) {
      return this.whole(async (signal) =>
        responseObject(head, await writeAnswer(this.model, job, signal, this.counts))
      );
    }
    return this.streamed(async (send, signal) => {
      const events = new ResponseEvents(head, (event, data) => send(data, event));
      events.begin();
      try {
        events.end(
          await writeAnswer(this.model, job, signal, this.counts, {
            piece: (p) => events.write(p.text),
            call: (c) => events.call(c),
          }),
        );
      } catch (error) {
        const { message, code } = this.failed(error);
        events.fail(message, code);
      }
    });
  }

  private embeddings(body: Body): Promise<Response> {
    const { model } = this, { spec, vocabulary } = model.decoder, parsed = embeddingRequest(body, vocabulary, spec.dim);
    const prompts = parsed.prompts.map((p) => model.promptIds(p));
    prompts.forEach((ids) => this.checkLength(ids, model.decoder.context + 1));
    const told = (x: Float32Array<ArrayBuffer>) => parsed.base64 ? base64(new Uint8Array(x.buffer)) : Array.from(x);
    const tokens = prompts.reduce((n, ids) => n + ids.length, 0);
    return this.whole(async (signal) => {
      const data: unknown[] = [];
      for (const [index, ids] of prompts.entries()) {
        signal.throwIfAborted();
        const embedding = told(shortened(await model.embed(ids), parsed.dimensions));
        data.push({ object: "embedding", index, embedding });
        this.counts.promptTokens += ids.length;
      }
      return { object: "list", data, model: model.name, usage: { prompt_tokens: tokens, total_tokens: tokens } };
    });
  }

  /** What a chat asks of the model. */
  private async asked({ messages, tools, choice, options }: ChatRequest): Promise<Job> {
    const { model } = this, withTools = tools.length > 0 || messages.some((m) => m.role === "tool" || m.tool_calls);
    if (!withTools) return { prompt: await model.chatIds(messages), options, echo: "" };
    const form = await model.toolForm(), { begin, schema, ...ask } = askWithTools(messages, tools, choice, form);
    const prompt = await model.chatIds(ask.messages, ask.values, begin);
    if (choice === "none") return { prompt, options, echo: "" };
    return {
      prompt,
      options: schema === undefined ? options : { ...options, schema },
      echo: "",
      tools: { form, names: new Set(tools.map((t) => t.function.name)), opened: schema !== undefined },
    };
  }
  /** So many texts of a prompt; each of them draws otherwise. */
  private jobs({ count }: CommonRequest, job: Job): Job[] {
    const options = { ...job.options, speculate: this.speculate };
    this.checkLength(job.prompt, this.model.decoder.context);
    this.model.checkConstraint(options);
    return Array.from({ length: count }, (_, i) => ({
      ...job,
      options: options.seed === undefined ? options : { ...options, seed: options.seed + i },
    }));
  }

  private checkLength({ length }: readonly number[], limit: number): void {
    if (length === 0) throw new ApiError(400, "the prompt is empty, and the model has no token to begin with");
    if (length < limit) return;
    const { context } = this.model.decoder;
    const why = `the prompt has ${length} tokens, and the context is ${context}`;
    throw new ApiError(400, why, null, "context_length_exceeded");
  }
  private head(prefix: string): { readonly id: string; readonly created: number } {
    const now = Date.now();
    return { id: `${prefix}${now.toString(36)}${(this.serial++).toString(36)}`, created: Math.floor(now / 1000) };
  }
  /**
   * The answers to all jobs, side by side where there are places that nobody waits for. Others begin when the first one
   * writes: what prompts have in common is read by then.
   */
  private async writeAll(jobs: readonly Job[], gone: AbortSignal): Promise<Answer[]> {
    const failed = new AbortController(), signal = AbortSignal.any([gone, failed.signal]), all: Answer[] = [];
    let next = 0, begun = false;
    const others: Promise<void>[] = [];
    const begin = (): void => {
      for (begun = true; next < jobs.length;) {
        const leave = this.turns.spare();
        if (leave === undefined) return;
        others.push(work().finally(leave));
      }
    };
    let failure: { readonly error: unknown } | undefined;
    const work = async (): Promise<void> => {
      while (next < jobs.length && failure === undefined) {
        const i = next++;
        try {
          const piece = () => begun || begin();
          all[i] = await writeAnswer(this.model, jobs[i], signal, this.counts, { piece, call: () => {} });
        } catch (error) {
          failure ??= { error };
          failed.abort();
        }
      }
    };
    await work();
    await Promise.all(others);
    if (failure !== undefined) throw (failure as { readonly error: unknown }).error;
    return all;
  }
  private answer(form: AnswerForm, parsed: CommonRequest, jobs: readonly Job[]): Response | Promise<Response> {
    const { model } = this, head = this.head(`${form.prefix}-`), usage = (answers: Answer[]) => usageOf(answers, jobs);
    const envelope = (object: string) => ({ ...head, object, model: model.name });
    if (!parsed.stream) {
      return this.whole(async (signal) => {
        const answers = await this.writeAll(jobs, signal), choices = answers.map((a, i) => form.whole(i, a));
        return { ...envelope(form.object), choices, usage: usage(answers) };
      });
    }
    const part = { ...envelope(form.streamObject), ...parsed.includeUsage ? { usage: null } : {} };
    return this.streamed(async (send, signal) => {
      const event = (choice: unknown) => send({ ...part, choices: [choice] }), answers: Answer[] = [];
      try {
        for (const [i, job] of jobs.entries()) {
          if (form.first !== undefined) event(form.first(i));
          const echo = (read: readonly CompletionToken[]) =>
            event(form.part(i, { text: job.echo, id: undefined, logprobs: undefined }, read));
          if (job.echo !== "" && !job.scored) echo([]);
          const answer = await writeAnswer(model, job, signal, this.counts, {
            read: echo,
            piece: (p) => event(form.part(i, p)),
            call: (c, n) => form.call(i, c, n).forEach(event),
          });
          answers.push(answer);
          event(form.last(i, answer.finish));
        }
        if (parsed.includeUsage) send({ ...part, choices: [], usage: usage(answers) });
        send("[DONE]");
      } catch (error) {
        send(this.failed(error).body());
      }
    });
  }
  /** What `work` gives, as JSON. What fails before the head goes out has the status that says so. */
  private async whole(work: (signal: AbortSignal) => Promise<unknown>): Promise<Response> {
    let isOut = false, timer: ReturnType<typeof setTimeout> | undefined;
    try {
      return await new Promise<Response>((resolve, reject) => {
        const later = this.inTurn({ "content-type": "application/json" }, async (send, signal) => {
          try {
            const made = await work(signal);
            if (isOut) send(JSON.stringify(made));
            else resolve(json(200, made));
          } catch (error) {
            if (isOut) throw error;
            reject(error);
          }
        });
        timer = setTimeout(() => {
          isOut = true;
          resolve(later);
        }, HEAD_MS);
      });
    } finally {
      clearTimeout(timer);
    }
  }
  /** Events as they come. */
  private streamed(write: (send: Send, signal: AbortSignal) => Promise<void>): Response {
    const headers = { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" };
    return this.inTurn(headers, (send, signal) =>
      write((data, event) => {
        const text = typeof data === "string" ? data : JSON.stringify(data);
        send(`${event === undefined ? "" : `event: ${event}\n`}data: ${text}\n\n`);
      }, signal));
  }
  /**
   * What is written when it has a place. The head goes out before: the stream behind it tells when the client goes, which
   * is when `write` hears that it is over, as when the server closes. Where `write` fails the stream ends with an error.
   *
   * @throws {ApiError} where too many wait
   */
  private inTurn(
    headers: Readonly<Record<string, string>>,
    write: (send: (text: string) => void, signal: AbortSignal) => Promise<void>,
  ): Response {
    const gone = new AbortController(), signal = AbortSignal.any([gone.signal, this.closing.signal]);
    const turn = this.turns.enter(gone.signal);
    const start = async (out: ReadableStreamDefaultController<Uint8Array>): Promise<void> => {
      try {
        const leave = await turn;
        try {
          await write((text) => gone.signal.aborted || out.enqueue(encoder.encode(text)), signal);
        } finally {
          leave();
        }
        if (!gone.signal.aborted) out.close();
      } catch (error) {
        if (!gone.signal.aborted) out.error(this.failed(error));
      }
    };
    const stream = new ReadableStream<Uint8Array>({ start: (out) => void start(out), cancel: () => gone.abort() });
    return new Response(stream, { headers });
  }
  private failed(error: unknown): ApiError {
    this.counts.errors++;
    return asApiError(error);
  }
}

/** The first numbers of a vector, of length 1 again. */
function shortened(x: Float32Array<ArrayBuffer>, count: number): Float32Array<ArrayBuffer> {
  if (count === x.length) return x;
  const part = x.slice(0, count), size = Math.hypot(...part) || 1;
  return part.map((v) => v / size);
}

/** Sends data, of an event with a name where it has one. */
type Send = (data: unknown, event?: string) => void;

/**
 * Serves a model until it is stopped. Needs net permission for the address.
 *
 * ```ts ignore files
 * import { LanguageModel, serve } from "../llm.ts";
 * const server = serve(await LanguageModel.load("model.gguf"), { port: 8000 });
 * console.log(server.url); // http://127.0.0.1:8000
 * await server.stop();
 * ```
 *
 * @throws {ArgumentError} for an unknown option, or what is no model
 */
export function serve(model: LanguageModel, options: ServeOptions = {}): RunningServer {
  const answers = new ModelServer(model, options), hostname = options.hostname ?? "127.0.0.1";
  const server = Deno.serve(
    { port: options.port ?? 8000, hostname, onListen: () => {} },
    (request) => answers.handle(request),
  );
  const { port } = server.addr as Deno.NetAddr;
  return {
    url: `http://${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`,
    stop: async () => {
      answers.close();
      await server.shutdown();
    },
  };
}
