/**
 * How each kind of request tells its answers: as a whole, and as events of a stream.
 *
 * @module
 */
import type { Tokenizer } from "../text/tokenizer.ts";
import { type Answer, lettersOf, logprobLists, logprobRows, type NumberedCall } from "./answers.ts";
import type { CompletionToken, Piece } from "./generation.ts";

/** Of one kind of request. A choice is one of the texts that were asked for. */
export interface AnswerForm {
  /** What ids begin with. */
  readonly prefix: string;
  readonly object: string;
  readonly streamObject: string;
  /** The choice of a whole answer. */
  whole(index: number, answer: Answer): unknown;
  /** The first choice of a stream, if there is one. */
  first?(index: number): unknown;
  /** The choice with a piece, and with the tokens that were read before it. */
  part(index: number, piece: Piece, read?: readonly CompletionToken[]): unknown;
  /** The choices with a call. */
  call(index: number, call: NumberedCall, n: number): readonly unknown[];
  /** The last choice. */
  last(index: number, finish: string): unknown;
}

function callObject({ id, name, arguments: text }: NumberedCall): Record<string, unknown> {
  return { id, type: "function", function: { name, arguments: text } };
}

/** Of /v1/chat/completions. */
export function chatForm(tokenizer: Tokenizer): AnswerForm {
  const delta = (index: number, delta: unknown, finish_reason: string | null = null, logprobs: unknown = null) => ({
    index,
    delta,
    logprobs,
    finish_reason,
  });
  return {
    prefix: "chatcmpl",
    object: "chat.completion",
    streamObject: "chat.completion.chunk",
    whole: (index, { text, calls, pieces, finish }) => ({
      index,
      message: {
        role: "assistant",
        content: text === "" && calls.length > 0 ? null : text,
        refusal: null,
        ...calls.length > 0 ? { tool_calls: calls.map(callObject) } : {},
      },
      logprobs: logprobRows(tokenizer, pieces),
      finish_reason: finish,
    }),
    first: (index) => delta(index, { role: "assistant", content: "" }),
    part: (index, piece) => delta(index, { content: piece.text }, null, logprobRows(tokenizer, [piece])),
    call: (index, call, n) => [
      delta(index, { tool_calls: [{ index: n, ...callObject({ ...call, arguments: "" }) }] }),
      delta(index, { tool_calls: [{ index: n, function: { arguments: call.arguments } }] }),
    ],
    last: (index, finish) => delta(index, {}, finish),
  };
}

/** Of /v1/completions. */
export function completionForm(tokenizer: Tokenizer): AnswerForm {
  const letters: number[] = []; // that were given out in a stream, of each answer
  return {
    prefix: "cmpl",
    object: "text_completion",
    streamObject: "text_completion",
    whole: (index, { text, read, pieces, finish }) => ({
      text,
      index,
      logprobs: logprobLists(tokenizer, pieces, text.length - pieces.reduce((n, p) => n + p.text.length, 0), read),
      finish_reason: finish,
    }),
    part: (index, p, read) => {
      const start = letters[index] ?? 0;
      letters[index] = start + lettersOf(tokenizer, p);
      return { text: p.text, index, logprobs: logprobLists(tokenizer, [p], start, read), finish_reason: null };
    },
    call: () => [],
    last: (index, finish_reason) => ({ text: "", index, logprobs: null, finish_reason }),
  };
}
