/**
 * Texts that come token by token: what is shown, when it ends, and how much it was.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import { checkInteger } from "../../helpers/options.ts";
import { SAMPLING_OPTIONS, type SamplingOptions } from "../model/sampler.ts";
import type { Tokenizer } from "../text/tokenizer.ts";
import type { TokenLogprobs } from "../model/sequence.ts";

/** A model that guesses, as another {@linkcode LanguageModel} does. */
export interface DraftModel {
  /** Its tokens must be those of the model that is helped. */
  readonly tokenizer: Tokenizer;
  /** At most so many tokens that may follow. */
  guess(tokens: readonly number[], count: number): Promise<readonly number[]>;
}

/** Options of a text that is generated. */
export interface GenerateOptions extends SamplingOptions {
  /** At most so many tokens; to the end of the context unless given. */
  readonly maxTokens?: number;
  /** Texts that end the answer; they are not part of it. */
  readonly stop?: string | readonly string[];
  /** Whether tokens come with log probabilities, and with those of how many others. */
  readonly logprobs?: number;
  /** What the text must be: rules in GBNF, the notation of llama.cpp. */
  readonly grammar?: string;
  /** A JSON schema: the text is a value that it allows. */
  readonly schema?: Readonly<Record<string, unknown>> | boolean;
  /**
   * How many tokens are guessed and computed together, 0 to 16; 0 unless given. The text is the same, and comes faster
   * where guesses are often right. Not with penalties, a grammar or log probabilities.
   */
  readonly speculate?: number;
  /** A smaller model with the same tokens, that guesses; without one what followed before is guessed again. */
  readonly draft?: DraftModel;
  /** Stops when it is aborted. */
  readonly signal?: AbortSignal;
}

/** The names of all options. */
export const GENERATE_OPTIONS: readonly string[] = [
  ...SAMPLING_OPTIONS,
  ...["maxTokens", "stop", "logprobs", "grammar", "schema", "speculate", "draft", "signal"],
];

/** Some text of an answer. */
export interface Piece {
  /** Empty where a token is part of a character, or may be part of a text that ends the answer. */
  readonly text: string;
  /** The token; undefined for what came out at the end. */
  readonly id: number | undefined;
  /** Where they were asked for. */
  readonly logprobs: TokenLogprobs | undefined;
}

/** Why an answer ended: the model, or a stop text; the limit; an abort. */
export type FinishReason = "stop" | "length" | "abort";

/** How much was read and written. */
export interface Usage {
  /** Tokens of the prompt. */
  readonly promptTokens: number;
  /** Of those, how many were still known from the text before. */
  readonly cachedTokens: number;
  /** Tokens that were generated. */
  readonly completionTokens: number;
  /** Of those, how many came by guesses. */
  readonly guessedTokens: number;
  /** Why it ended. */
  readonly finish: FinishReason;
  /** From the call to the first token, and from there to the last. */
  readonly promptMs: number;
  /** From the first token to the last. */
  readonly completionMs: number;
}

/** A token of an answer. */
export interface CompletionToken {
  /** Its number. */
  readonly id: number;
  /** Where they were asked for. */
  readonly logprobs: TokenLogprobs | undefined;
}

/** A whole answer. */
export interface Completion extends Usage {
  /** All pieces. */
  readonly text: string;
  /** The tokens that were generated, with their log probabilities where those were asked for. */
  readonly tokens: readonly CompletionToken[];
}

/** The texts that end an answer. @throws {ArgumentError} for what is none */
export function stopTexts(action: string, stop: GenerateOptions["stop"]): readonly string[] {
  const list = stop === undefined ? [] : typeof stop === "string" ? [stop] : stop;
  if (!Array.isArray(list) || !list.every((s) => typeof s === "string" && s !== "")) {
    throw new ArgumentError(action, { reason: "stop is no text, and no list of texts that are not empty" });
  }
  return list;
}

/** The limit of tokens. */
export function limitOf(action: string, maxTokens: number | undefined): number {
  return maxTokens === undefined ? Infinity : checkInteger(action, "maxTokens", maxTokens, 0);
}

/** Lets text through that can be no part of a stop text, and finds those. */
export class StopFilter {
  private pending = "";
  constructor(private readonly stops: readonly string[]) {}

  /** The text that may be shown, and whether a stop text came. */
  push(text: string): readonly [shown: string, stopped: boolean] {
    if (this.stops.length === 0) return [text, false];
    const all = this.pending + text;
    // the one that is complete first, of those the longest: however the text was cut
    const found = this.stops.map((s) => ({ at: all.indexOf(s), size: s.length })).filter(({ at }) => at >= 0)
      .sort((a, b) => a.at + a.size - b.at - b.size || a.at - b.at);
    if (found.length > 0) {
      this.pending = "";
      return [all.slice(0, found[0].at), true];
    }
    let kept = 0;
    for (const s of this.stops) {
      for (let n = Math.min(s.length - 1, all.length); n > kept; n--) if (all.endsWith(s.slice(0, n))) kept = n;
    }
    this.pending = all.slice(all.length - kept);
    return [all.slice(0, all.length - kept), false];
  }
  /** What was held back. */
  end(): string {
    const rest = this.pending;
    this.pending = "";
    return rest;
  }
}
