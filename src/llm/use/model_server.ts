/**
 * A model behind the OpenAI protocol: /v1/models, /v1/chat/completions, /v1/completions, streamed or whole, /health and
 * /metrics. Requests are answered one after the other; those that wait are counted, and a full queue says so.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import { checkInteger, checkOptions, checkText } from "../../helpers/options.ts";
import type { TokenLogprobs } from "../model/sequence.ts";
import { ApiError, type Body, chatRequest, type CommonRequest, completionRequest } from "./api_requests.ts";
import type { GenerateOptions, Piece, Usage } from "./generation.ts";
import type { LanguageModel } from "./language_model.ts";

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
  /** How long a client may take to send its request; 30,000 ms unless given. */
  readonly bodyMs?: number;
}

/** A server that runs. */
export interface RunningServer {
  /** Where it listens. */
  readonly url: string;
  /** Answers no more requests, and ends the one that is answered. */
  stop(): Promise<void>;
}

const encoder = new TextEncoder(), decoder = new TextDecoder("utf-8", { fatal: true });

/** One after the other, at most so many of them waiting. */
class Queue {
  /** The one whose turn it is, and those that wait. */
  private present = 0;
  private last: Promise<void> = Promise.resolve();
  constructor(private readonly limit: number) {}

  get waiting(): number {
    return Math.max(0, this.present - 1);
  }
  /** Waits until all earlier ones are done; what it gives ends the turn. @throws {ApiError} where too many wait */
  async enter(): Promise<() => void> {
    if (this.present > this.limit) {
      throw new ApiError(429, `${this.waiting} requests are waiting, try again later`, null, "queue_full");
    }
    this.present++;
    const before = this.last, { promise, resolve } = Promise.withResolvers<void>();
    this.last = promise;
    await before;
    return () => {
      this.present--;
      resolve();
    };
  }
}

/** The body of a request, at most so many bytes in so much time. */
async function bodyOf(request: Request, limit: number, timeMs: number): Promise<Body> {
  const tooLarge = () => new ApiError(413, `the body has more than ${limit} bytes`, null, "body_too_large");
  if (Number(request.headers.get("content-length") ?? 0) > limit) throw tooLarge();
  const reader = request.body?.getReader(), parts: Uint8Array[] = [];
  let size = 0, timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new ApiError(408, `the body did not come within ${timeMs} ms`)), timeMs);
  });
  try {
    for (; reader !== undefined;) {
      const { done, value } = await Promise.race([reader.read(), late]);
      if (done) break;
      size += value.length;
      if (size > limit) throw tooLarge();
      parts.push(value);
    }
  } finally {
    clearTimeout(timer);
    late.catch(() => {});
    reader?.cancel().catch(() => {});
  }
  const all = new Uint8Array(size);
  let at = 0;
  for (const p of parts) {
    all.set(p, at);
    at += p.length;
  }
  let body: unknown;
  try {
    body = JSON.parse(decoder.decode(all));
  } catch {
    throw new ApiError(400, "the body is no JSON in UTF-8", null, "invalid_json");
  }
  if (typeof body !== "object" || body === null || Array.isArray(body)) {
    throw new ApiError(400, "the body is no JSON object", null, "invalid_json");
  }
  return body as Body;
}

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

/** How a kind of request writes what it answers. */
interface Form {
  readonly prefix: string;
  readonly object: string;
  readonly streamObject: string;
  /** The choice of a whole answer. */
  whole(index: number, text: string, pieces: readonly Piece[], finish: string): unknown;
  /** The first choice of a stream, if there is one. */
  first?(index: number): unknown;
  /** The choice with a piece. */
  part(index: number, piece: Piece): unknown;
  last(index: number, finish: string): unknown;
}

/** One text to generate. */
interface Job {
  readonly prompt: readonly number[];
  readonly options: GenerateOptions;
  /** What a completion shows before its answer. */
  readonly echo: string;
}

/** Answers requests with a model; {@linkcode serve} listens for them. */
export class ModelServer {
  private readonly queue: Queue;
  private readonly maxBody: number;
  private readonly bodyMs: number;
  private readonly key: string | undefined;
  private readonly created = Math.floor(Date.now() / 1000);
  private readonly counts = { requests: 0, errors: 0, promptTokens: 0, cachedTokens: 0, completionTokens: 0 };
  private readonly closing = new AbortController();
  private serial = 0;

  /** The options are those of {@linkcode serve}. */
  constructor(readonly model: LanguageModel, options: ServeOptions = {}) {
    const action = "serve a model",
      count = (name: "queue" | "maxBody" | "bodyMs", fallback: number) =>
        options[name] === undefined ? fallback : checkInteger(action, name, options[name], 1);
    checkOptions(action, options, ["port", "hostname", "key", "queue", "maxBody", "bodyMs"]);
    this.queue = new Queue(count("queue", 16));
    this.maxBody = count("maxBody", 4 << 20);
    this.bodyMs = count("bodyMs", 30_000);
    this.key = options.key === undefined ? undefined : checkText(action, "key", options.key);
  }

  /** The response to a request; it never throws. */
  async handle(request: Request): Promise<Response> {
    this.counts.requests++;
    try {
      return await this.route(request);
    } catch (error) {
      this.counts.errors++;
      const e = asApiError(error);
      return json(e.status, e.body());
    }
  }
  /** Ends the answers that are being written. */
  close(): void {
    this.closing.abort();
  }

  private async route(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url), { method } = request;
    const reads: Readonly<Record<string, () => Response>> = {
      "/health": () => json(200, { status: "ok", waiting: this.queue.waiting }),
      "/metrics": () => new Response(this.metrics(), { headers: { "content-type": "text/plain; version=0.0.4" } }),
      "/v1/models": () => json(200, { object: "list", data: [this.card()] }),
    };
    const writes: Readonly<Record<string, (body: Body, r: Request) => Promise<Response>>> = {
      "/v1/chat/completions": (body, r) => this.chat(body, r),
      "/v1/completions": (body, r) => this.completions(body, r),
    };
    const read = Object.hasOwn(reads, pathname) ? reads[pathname] : undefined,
      write = Object.hasOwn(writes, pathname) ? writes[pathname] : undefined;
    const wants = read !== undefined || pathname.startsWith("/v1/models/")
      ? "GET"
      : write !== undefined
      ? "POST"
      : undefined;
    if (wants === undefined) throw new ApiError(404, `there is no ${pathname}`, null, "not_found");
    if (method !== wants) {
      throw new ApiError(405, `${pathname} takes ${wants}, not ${method}`, null, "method_not_allowed");
    }
    if (
      pathname !== "/health" && this.key !== undefined && request.headers.get("authorization") !== `Bearer ${this.key}`
    ) {
      throw new ApiError(401, "the key in the Authorization header is missing or wrong", null, "invalid_api_key");
    }
    if (read !== undefined) return read();
    if (write === undefined) {
      this.checkModel(decodeURIComponent(pathname.slice("/v1/models/".length)));
      return json(200, this.card());
    }
    const body = await bodyOf(request, this.maxBody, this.bodyMs);
    const model = body.model ?? this.model.name;
    if (typeof model !== "string") throw new ApiError(400, "'model' must be a text", "model", "invalid_value");
    this.checkModel(model);
    return await write(body, request);
  }
  private checkModel(name: string): void {
    if (name !== this.model.name) {
      throw new ApiError(404, `there is no model '${name}'; this is '${this.model.name}'`, "model", "model_not_found");
    }
  }
  private card(): Record<string, unknown> {
    return { id: this.model.name, object: "model", created: this.created, owned_by: "dinograd" };
  }
  private metrics(): string {
    const { requests, errors, promptTokens, cachedTokens, completionTokens } = this.counts, { waiting } = this.queue;
    const rows = {
      requests,
      errors,
      prompt_tokens: promptTokens,
      cached_tokens: cachedTokens,
      completion_tokens: completionTokens,
    };
    const counters = Object.entries(rows).map(([name, n]) =>
      `# TYPE dinograd_${name}_total counter\ndinograd_${name}_total ${n}`
    );
    return [...counters, `# TYPE dinograd_waiting gauge\ndinograd_waiting ${waiting}`].join("\n") + "\n";
  }

  private async chat(body: Body, request: Request): Promise<Response> {
    const { model } = this,
      parsed = chatRequest(body, model.decoder.vocabulary),
      prompt = await model.chatIds(parsed.messages);
    const content = (pieces: readonly Piece[]) =>
      pieces.some((p) => p.logprobs) ? { content: this.logprobRows(pieces), refusal: null } : null;
    const form: Form = {
      prefix: "chatcmpl",
      object: "chat.completion",
      streamObject: "chat.completion.chunk",
      whole: (index, text, pieces, finish_reason) => ({
        index,
        message: { role: "assistant", content: text, refusal: null },
        logprobs: content(pieces),
        finish_reason,
      }),
      first: (index) => ({ index, delta: { role: "assistant", content: "" }, logprobs: null, finish_reason: null }),
      part: (index, p) => ({ index, delta: { content: p.text }, logprobs: content([p]), finish_reason: null }),
      last: (index, finish_reason) => ({ index, delta: {}, logprobs: null, finish_reason }),
    };
    return await this.answer(form, parsed, this.jobs(parsed, [prompt]), request);
  }
  private async completions(body: Body, request: Request): Promise<Response> {
    const { model } = this, parsed = completionRequest(body, model.decoder.vocabulary);
    const prompts = parsed.prompts.map((p) => model.promptIds(p));
    const form: Form = {
      prefix: "cmpl",
      object: "text_completion",
      streamObject: "text_completion",
      whole: (index, text, pieces, finish_reason) => ({
        text,
        index,
        logprobs: this.logprobLists(pieces),
        finish_reason,
      }),
      part: (index, p) => ({ text: p.text, index, logprobs: this.logprobLists([p]), finish_reason: null }),
      last: (index, finish_reason) => ({ text: "", index, logprobs: null, finish_reason }),
    };
    const echoes = parsed.echo ? prompts.map((ids) => model.tokenizer.decode(ids)) : [];
    return await this.answer(form, parsed, this.jobs(parsed, prompts, echoes), request);
  }
  /** So many texts of each prompt; each of them draws otherwise. */
  private jobs(
    { options, count }: CommonRequest,
    prompts: readonly (readonly number[])[],
    echoes: readonly string[] = [],
  ): Job[] {
    const { context } = this.model.decoder, long = prompts.find((p) => p.length >= context);
    if (long !== undefined) {
      throw new ApiError(
        400,
        `the prompt has ${long.length} tokens, and the context is ${context}`,
        null,
        "context_length_exceeded",
      );
    }
    return prompts.flatMap((prompt, p) =>
      Array.from({ length: count }, (_, i) => ({
        prompt,
        options: options.seed === undefined ? options : { ...options, seed: options.seed + i },
        echo: echoes[p] ?? "",
      }))
    );
  }

  private async answer(form: Form, parsed: CommonRequest, jobs: readonly Job[], request: Request): Promise<Response> {
    const leave = await this.queue.enter(), gone = new AbortController();
    // a stream learns by its end that the client is gone
    const ends = parsed.stream ? gone.signal : request.signal, signal = AbortSignal.any([ends, this.closing.signal]);
    const id = `${form.prefix}-${Date.now().toString(36)}${(this.serial++).toString(36)}`,
      created = Math.floor(Date.now() / 1000);
    const envelope = (object: string) => ({ id, object, created, model: this.model.name });
    if (parsed.stream) return this.streamed(form, parsed, jobs, signal, envelope(form.streamObject), leave, gone);
    try {
      const choices: unknown[] = [], usages: Usage[] = [];
      for (const [i, job] of jobs.entries()) {
        const pieces: Piece[] = [], usage = await this.run(job, signal, (p) => void pieces.push(p));
        usages.push(usage);
        choices.push(form.whole(i, job.echo + pieces.map((p) => p.text).join(""), pieces, finishOf(usage)));
      }
      return json(200, { ...envelope(form.object), choices, usage: usageOf(usages, jobs) });
    } finally {
      leave();
    }
  }
  /** Events as they come; what goes wrong after the first is an event too. */
  private streamed(
    form: Form,
    parsed: CommonRequest,
    jobs: readonly Job[],
    signal: AbortSignal,
    envelope: Record<string, unknown>,
    leave: () => void,
    gone: AbortController,
  ): Response {
    const start = async (out: ReadableStreamDefaultController<Uint8Array>): Promise<void> => {
      const send = (data: unknown) => {
        if (!gone.signal.aborted) {
          out.enqueue(encoder.encode(`data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`));
        }
      };
      const event = (choice: unknown) =>
        send({ ...envelope, choices: [choice], ...parsed.includeUsage ? { usage: null } : {} });
      try {
        const usages: Usage[] = [];
        for (const [i, job] of jobs.entries()) {
          if (form.first !== undefined) event(form.first(i));
          if (job.echo !== "") event(form.part(i, { text: job.echo, id: undefined, logprobs: undefined }));
          const usage = await this.run(job, signal, (p) => {
            if (p.text !== "" || p.logprobs !== undefined) event(form.part(i, p));
          });
          usages.push(usage);
          event(form.last(i, finishOf(usage)));
        }
        if (parsed.includeUsage) send({ ...envelope, choices: [], usage: usageOf(usages, jobs) });
        send("[DONE]");
      } catch (error) {
        this.counts.errors++;
        send(asApiError(error).body());
      } finally {
        leave();
        if (!gone.signal.aborted) out.close();
      }
    };
    const stream = new ReadableStream<Uint8Array>({ start: (out) => void start(out), cancel: () => gone.abort() });
    return new Response(stream, {
      headers: { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" },
    });
  }
  private async run(job: Job, signal: AbortSignal, take: (p: Piece) => void): Promise<Usage> {
    const pieces = this.model.generate(job.prompt, { ...job.options, signal });
    for (;;) {
      const { done, value } = await pieces.next();
      if (!done) {
        take(value);
        continue;
      }
      this.counts.promptTokens += value.promptTokens;
      this.counts.cachedTokens += value.cachedTokens;
      this.counts.completionTokens += value.completionTokens;
      return value;
    }
  }

  private tokenText(id: number): { token: string; bytes: number[] } {
    const bytes = this.model.tokenizer.bytesOf(id, true);
    return { token: new TextDecoder().decode(bytes), bytes: [...bytes] };
  }
  private logprobRows(pieces: readonly Piece[]): unknown[] {
    return pieces.filter((p): p is Piece & { id: number; logprobs: TokenLogprobs } => p.logprobs !== undefined).map((
      { id, logprobs },
    ) => ({
      ...this.tokenText(id),
      logprob: finite(logprobs.own),
      top_logprobs: logprobs.best.map((b) => ({ ...this.tokenText(b.id), logprob: finite(b.logprob) })),
    }));
  }
  private logprobLists(pieces: readonly Piece[]): unknown {
    const rows = pieces.filter((p): p is Piece & { id: number; logprobs: TokenLogprobs } => p.logprobs !== undefined);
    if (rows.length === 0) return null;
    let at = 0;
    return {
      tokens: rows.map((r) => this.tokenText(r.id).token),
      token_logprobs: rows.map((r) => finite(r.logprobs.own)),
      top_logprobs: rows.map((r) =>
        Object.fromEntries(r.logprobs.best.map((b) => [this.tokenText(b.id).token, finite(b.logprob)]))
      ),
      text_offset: rows.map((r) => {
        const offset = at;
        at += this.tokenText(r.id).token.length;
        return offset;
      }),
    };
  }
}

/** JSON has no infinity. */
function finite(x: number): number {
  return Math.max(x, -9999);
}
function finishOf({ finish }: Usage): string {
  return finish === "abort" ? "stop" : finish;
}
/** Tokens of all texts; a prompt counts once, however many texts go on with it. */
function usageOf(usages: readonly Usage[], jobs: readonly Job[]): Record<string, unknown> {
  const prompts = new Map(jobs.map((j, i) => [j.prompt, usages[i]])),
    sum = (f: (u: Usage) => number, of: Iterable<Usage>) => [...of].reduce((n, u) => n + f(u), 0);
  const prompt_tokens = sum((u) => u.promptTokens, prompts.values()),
    completion_tokens = sum((u) => u.completionTokens, usages);
  const cached_tokens = Math.min(prompt_tokens, usages[0]?.cachedTokens ?? 0);
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens: prompt_tokens + completion_tokens,
    prompt_tokens_details: { cached_tokens },
  };
}

/**
 * Serves a model until it is stopped. Needs net permission for the address.
 *
 * ```ts ignore
 * const server = serve(await LanguageModel.load("model.gguf"), { port: 8000 });
 * console.log(server.url); // http://127.0.0.1:8000
 * ```
 *
 * @throws {ArgumentError} for an unknown option
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
