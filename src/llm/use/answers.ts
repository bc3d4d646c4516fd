/**
 * Answers to requests, as they are written: text and calls of tools, piece by piece, counted; and what the protocol says
 * about tokens.
 *
 * @module
 */
import type { TokenLogprobs } from "../model/sequence.ts";
import { type ToolCall, ToolCallReader, type ToolForm } from "../text/tool_calls.ts";
import type { Tokenizer } from "../text/tokenizer.ts";
import type { CompletionToken, FinishReason, GenerateOptions, Piece, Usage } from "./generation.ts";
import type { LanguageModel } from "./language_model.ts";

/** One text to write. */
export interface Job {
  readonly prompt: readonly number[];
  readonly options: GenerateOptions;
  /** What a completion shows before its answer. */
  readonly echo: string;
  /** Whether log probabilities of the prompt are told with it. */
  readonly scored?: boolean;
  /** Where tools may be called: how, which, and whether the call's begin stood in the prompt. */
  readonly tools?: { readonly form: ToolForm; readonly names: ReadonlySet<string>; readonly opened: boolean };
}
/** A call with the id that the client answers by. */
export interface NumberedCall extends ToolCall {
  readonly id: string;
}
/** One answer. */
export interface Answer {
  readonly text: string;
  /** The tokens of the prompt, where their log probabilities are told. */
  readonly read: readonly CompletionToken[];
  readonly pieces: readonly Piece[];
  readonly calls: readonly NumberedCall[];
  /** "stop", "length" or "tool_calls". */
  readonly finish: string;
  readonly usage: Usage;
}
/** Who hears of pieces. */
export interface Listener {
  read?(tokens: readonly CompletionToken[]): void;
  piece(piece: Piece): void;
  call(call: NumberedCall, index: number): void;
}
/** What was done so far. */
export interface Counts {
  promptTokens: number;
  cachedTokens: number;
  completionTokens: number;
  promptMs: number;
  completionMs: number;
}

/** Writes an answer to the end, or until `signal`. */
export async function writeAnswer(
  model: LanguageModel,
  job: Job,
  signal: AbortSignal,
  counts: Counts,
  listener?: Listener,
): Promise<Answer> {
  const { tools } = job, reader = tools && new ToolCallReader(tools.form, tools.names, tools.opened);
  const pieces: Piece[] = [], calls: NumberedCall[] = [];
  const take = (piece: Piece): void => {
    pieces.push(piece);
    if (piece.text !== "" || piece.logprobs !== undefined) listener?.piece(piece);
  };
  const call = (c: ToolCall): void => {
    const numbered = { ...c, id: `call_${crypto.randomUUID().replaceAll("-", "").slice(0, 24)}` };
    calls.push(numbered);
    listener?.call(numbered, calls.length - 1);
  };
  const read = (piece: Piece, last?: FinishReason): void => {
    if (reader === undefined) return take(piece);
    const found = reader.push(piece.text), rest = last === undefined ? undefined : reader.end(last === "length");
    const text = found.text + (rest?.text ?? "");
    if (last === undefined || text !== "") take({ ...piece, text });
    [...found.calls, ...rest?.calls ?? []].forEach(call);
  };
  const best = job.options.logprobs ?? 0, known = job.scored ? await model.promptLogprobs(job.prompt, { best }) : [];
  if (known.length > 0) listener?.read?.(known);
  const written = model.generate(job.prompt, { ...job.options, signal });
  for (;;) {
    const { done, value } = await written.next();
    if (!done) {
      read(value);
      continue;
    }
    if (reader !== undefined) read({ text: "", id: undefined, logprobs: undefined }, value.finish);
    counts.promptTokens += value.promptTokens;
    counts.cachedTokens += value.cachedTokens;
    counts.completionTokens += value.completionTokens;
    counts.promptMs += value.promptMs;
    counts.completionMs += value.completionMs;
    const finish = calls.length > 0 && !calls.at(-1)!.cut
      ? "tool_calls"
      : value.finish === "abort"
      ? "stop"
      : value.finish;
    const text = job.echo + pieces.map((p) => p.text).join("");
    return { text, read: known, pieces, calls, finish, usage: value };
  }
}

/** Tokens of all texts; a prompt counts once, however many texts go on with it. */
export function usageOf(answers: readonly Answer[], jobs: readonly Job[]): Record<string, unknown> {
  const prompts = new Map(jobs.map((j, i) => [j.prompt, answers[i].usage]));
  const sum = (f: (u: Usage) => number, of: Iterable<Usage>) => [...of].reduce((n, u) => n + f(u), 0);
  const prompt_tokens = sum((u) => u.promptTokens, prompts.values());
  const completion_tokens = sum((u) => u.completionTokens, answers.map((a) => a.usage));
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens: prompt_tokens + completion_tokens,
    prompt_tokens_details: { cached_tokens: Math.min(prompt_tokens, answers[0]?.usage.cachedTokens ?? 0) },
  };
}

/** JSON has no infinity. */
function finite(x: number): number {
  return Math.max(x, -9999);
}
const decoder = new TextDecoder();
function tokenText(tokenizer: Tokenizer, id: number): { token: string; bytes: number[] } {
  const bytes = tokenizer.bytesOf(id, true);
  return { token: decoder.decode(bytes), bytes: [...bytes] };
}
type Told = Piece & { readonly id: number; readonly logprobs: TokenLogprobs };
function withLogprobs(pieces: readonly Piece[]): Told[] {
  return pieces.filter((p): p is Told => p.logprobs !== undefined);
}
/** Log probabilities as chats tell them. */
export function logprobRows(tokenizer: Tokenizer, pieces: readonly Piece[]): unknown {
  const rows = withLogprobs(pieces);
  if (rows.length === 0) return null;
  const content = rows.map(({ id, logprobs }) => ({
    ...tokenText(tokenizer, id),
    logprob: finite(logprobs.own),
    top_logprobs: logprobs.best.map((b) => ({ ...tokenText(tokenizer, b.id), logprob: finite(b.logprob) })),
  }));
  return { content, refusal: null };
}
/** How many letters tokens, or what was given out without one, stand for in the offsets of completions. */
export function lettersOf(tokenizer: Tokenizer, { id, text }: Piece): number {
  return (id === undefined ? text : tokenText(tokenizer, id).token).length;
}
/**
 * Log probabilities as completions tell them, of tokens of the prompt, of which the first has none, and of pieces behind so
 * many letters of the text.
 */
export function logprobLists(
  tokenizer: Tokenizer,
  pieces: readonly Piece[],
  start: number,
  read: readonly CompletionToken[] = [],
): unknown {
  const text = (id: number) => tokenText(tokenizer, id).token;
  const written = withLogprobs(pieces), rows: readonly CompletionToken[] = [...read, ...written];
  if (rows.length === 0) return null;
  const ends = read.map((_, i) => tokenizer.decode(read.slice(0, i + 1).map((r) => r.id)).length);
  let at = start;
  return {
    tokens: rows.map((r) => text(r.id)),
    token_logprobs: rows.map(({ logprobs }) => logprobs === undefined ? null : finite(logprobs.own)),
    top_logprobs: rows.map(({ logprobs }) =>
      logprobs === undefined ? null : Object.fromEntries(logprobs.best.map((b) => [text(b.id), finite(b.logprob)]))
    ),
    text_offset: [
      ...read.map((_, i) => ends[i - 1] ?? 0),
      ...written.map((r) => {
        const offset = at;
        at += text(r.id).length;
        return offset;
      }),
    ],
  };
}
