/**
 * Byte pair encoding learned from a text (Sennrich and others, https://arxiv.org/abs/1508.07909), over bytes as GPT-2 does:
 * the pair of symbols that is most frequent becomes a symbol, again and again.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import { checkInteger, checkOptions, describe } from "../../helpers/options.ts";
import { type GgufInput, typed } from "../files/gguf_write.ts";
import { BYTE_CHARACTERS } from "./encoders.ts";
import { Heap } from "./heap.ts";
import { cutText, PRE_TOKENIZERS, preTokenizer } from "./pretokenize.ts";
import { TokenKind } from "./known_tokens.ts";

/** Options of {@linkcode trainBpe}. */
export interface TrainBpeOptions {
  /** How many tokens there shall be: 256 for bytes, one that begins and ends texts, and merges. */
  readonly size: number;
  /** How texts are cut before pairs are counted: a name of `PRE_TOKENIZERS`; "gpt-2" unless given. */
  readonly pre?: string;
  /** The text of the token that begins and ends texts; "<|endoftext|>" unless given. */
  readonly end?: string;
}

/** A piece of text as symbols, and how often it is there. */
interface Word {
  symbols: number[];
  readonly count: number;
}
/** A pair with the count that it had when it was written down. */
interface Candidate {
  readonly pair: number;
  readonly count: number;
}
/** Pairs are numbers: the left symbol times this, and the right one. */
const RIGHT = 1 << 24;

/** How often each pair is in the words, and in which. */
class PairCounts {
  private readonly counts = new Map<number, number>();
  private readonly places = new Map<number, Set<number>>();
  private readonly heap = new Heap<Candidate>((a, b) => a.count > b.count || a.count === b.count && a.pair < b.pair);

  constructor(private readonly words: readonly Word[]) {
    words.forEach((_, i) => this.add(i, 1));
    for (const [pair, count] of this.counts) this.heap.push({ pair, count });
  }
  /** Adds or takes away the pairs of word `i`. Gives those. */
  private add(i: number, sign: 1 | -1): number[] {
    const { symbols, count } = this.words[i], pairs: number[] = [];
    for (let k = 0; k + 1 < symbols.length; k++) {
      const pair = symbols[k] * RIGHT + symbols[k + 1];
      this.counts.set(pair, (this.counts.get(pair) ?? 0) + sign * count);
      if (sign > 0) this.places.set(pair, (this.places.get(pair) ?? new Set()).add(i));
      pairs.push(pair);
    }
    return pairs;
  }
  /** The most frequent pair, if one is there twice. */
  best(): number | undefined {
    for (let top = this.heap.pop(); top !== undefined; top = this.heap.pop()) {
      const count = this.counts.get(top.pair) ?? 0;
      if (count === top.count) return count > 1 ? top.pair : undefined;
      if (count > 0) this.heap.push({ pair: top.pair, count });
    }
    return undefined;
  }
  /** Makes a pair the symbol `made` in all words. */
  merge(pair: number, made: number): void {
    const left = Math.floor(pair / RIGHT), right = pair % RIGHT, changed = new Set<number>();
    for (const i of this.places.get(pair) ?? []) {
      this.add(i, -1);
      const { symbols } = this.words[i], next: number[] = [];
      for (let k = 0; k < symbols.length; k++) {
        const both = symbols[k] === left && symbols[k + 1] === right;
        next.push(both ? made : symbols[k]);
        if (both) k++;
      }
      this.words[i].symbols = next;
      for (const p of this.add(i, 1)) changed.add(p);
    }
    this.places.delete(pair);
    for (const p of changed) this.heap.push({ pair: p, count: this.counts.get(p)! });
  }
}

/**
 * A vocabulary of a text or of several, as values of a GGUF file's metadata. The same texts give the same vocabulary. Where pairs run
 * out before `size` is reached, there are fewer tokens.
 *
 * ```ts
 * import { Metadata, Tokenizer, trainBpe, vocabularyOf } from "../llm.ts";
 * import { entriesOf } from "../files/llama2c.ts";
 * const values = trainBpe(["low lower lowest"], { size: 262 });
 * const tokenizer = new Tokenizer(vocabularyOf(new Metadata(entriesOf(values), "small")), "small");
 * console.log(tokenizer.encode("lower", { add: false }).length); // 3
 * ```
 *
 * @throws {ArgumentError} for what are no texts, a size that has no room for bytes, or a pre-tokenizer that is not known
 */
export function trainBpe(texts: string | Iterable<string>, options: TrainBpeOptions): Record<string, GgufInput> {
  const action = "train a tokenizer", list = typeof texts === "string" ? [texts] : texts;
  const { size, pre = "gpt-2", end = "<|endoftext|>" } = checkOptions(action, options, ["size", "pre", "end"]);
  const cut = preTokenizer(pre);
  if (typeof (list as Partial<Iterable<string>> | null | undefined)?.[Symbol.iterator] !== "function") {
    throw new ArgumentError(action, { reason: `it learns from a text or a list of texts, not ${describe(texts)}` });
  }
  checkInteger(action, "size", size, 257);
  if (size >= RIGHT) {
    throw new ArgumentError(action, { reason: `size is ${size}; there are at most ${RIGHT - 1} tokens` });
  }
  if (cut === undefined || !cut.byteLevel) {
    throw new ArgumentError(action, {
      reason: `"${pre}" is no pre-tokenizer of bytes; known are ${PRE_TOKENIZERS.join(", ")}`,
    });
  }
  const pieces = new Map<string, number>(), utf8 = new TextEncoder();
  for (const text of list) for (const p of cutText(text, cut.patterns)) pieces.set(p, (pieces.get(p) ?? 0) + 1);
  const words = [...pieces].map(([p, count]): Word => ({ symbols: [...utf8.encode(p)], count }));
  const counts = new PairCounts(words), symbols = [...BYTE_CHARACTERS], merges: string[] = [];
  while (symbols.length + 1 < size) {
    const pair = counts.best();
    if (pair === undefined) break;
    const [left, right] = [symbols[Math.floor(pair / RIGHT)], symbols[pair % RIGHT]];
    merges.push(`${left} ${right}`);
    counts.merge(pair, symbols.length);
    symbols.push(left + right);
  }
  const at = "tokenizer.ggml.", last = symbols.length;
  return {
    [`${at}model`]: "gpt2",
    [`${at}pre`]: pre,
    [`${at}tokens`]: [...symbols, end],
    [`${at}token_type`]: typed("int32", [...symbols.map(() => TokenKind.NORMAL), TokenKind.CONTROL]),
    [`${at}merges`]: merges,
    [`${at}bos_token_id`]: typed("uint32", last),
    [`${at}eos_token_id`]: typed("uint32", last),
    [`${at}add_bos_token`]: true,
  };
}
