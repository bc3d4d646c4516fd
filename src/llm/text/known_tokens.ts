/**
 * Tokens that mean something whatever a file says of them, by their texts, as llama.cpp knows them: they end a turn,
 * mark the parts of a file, or are shown. Files of some models have wrong kinds, and GGUF has no place for what is left
 * out beside a token.
 *
 * @module
 */

/** Kinds of tokens, by their numbers in files. */
export const TokenKind = { NORMAL: 1, UNKNOWN: 2, CONTROL: 3, USER: 4, UNUSED: 5, BYTE: 6 } as const;

const set = (texts: string): ReadonlySet<string> => new Set(texts.split(" "));
const TURN_ENDS = set(
  "<|eot_id|> <|im_end|> <|end|> <|return|> <|call|> <|flush|> <|calls|> <end_of_turn> <|endoftext|> </s> <|eom_id|> <EOT> " +
    "_<EOT> [EOT] [EOS] <|end_of_text|> <end_of_utterance> <eos> <turn|> <|tool_response> <｜end▁of▁sentence｜> [e~[",
);
/** Between files, of models of code. */
const FILE_ENDS = set(
  "<|fim_pad|> <fim-pad> <fim_pad> <PAD> [PAD] <|fim_repo|> <|repo_name|> <fim-repo> <REPO> <reponame> <|file_sep|>",
);
/** Around a gap that is filled. */
const GAPS = set(
  "<|fim_prefix|> <fim-prefix> <fim_prefix> <｜fim▁begin｜> <PRE> ▁<PRE> <|code_prefix|> <|prefix|> <|fim_suffix|> " +
    "<fim-suffix> <fim_suffix> <｜fim▁hole｜> <SUF> ▁<SUF> <|code_suffix|> <|suffix|> <|fim_middle|> <fim-middle> " +
    "<fim_middle> <｜fim▁end｜> <MID> ▁<MID> <|code_middle|> <|middle|>",
);
/** What stands around the parts of an answer, which is read by them. */
const PARTS = set("<|channel|> <|message|> <|start|> <|constrain|>");

/** What is known of tokens. */
export interface KnownTokens {
  /** By id: those of the file, but where it is known better. */
  readonly kinds: readonly number[];
  /** Ids after which an answer is over, beside those that the file names. */
  readonly ends: readonly number[];
  /** Ids before and after which white space is left out. */
  readonly stripsBefore: ReadonlySet<number>;
  readonly stripsAfter: ReadonlySet<number>;
}

/** What is known of the tokens of a file; `of` are the names that it has for the model and how it cuts texts. */
export function knownTokens(
  tokens: readonly string[],
  given: readonly number[],
  of: { readonly name: string; readonly pre: string; readonly architecture: string },
): KnownTokens {
  const kinds = [...given], ends = new Set<number>(), all = new Map<string, number>();
  tokens.forEach((t, i) => {
    if (TURN_ENDS.has(t) || FILE_ENDS.has(t)) ends.add(i);
    if (TURN_ENDS.has(t) || FILE_ENDS.has(t) || GAPS.has(t)) kinds[i] = TokenKind.CONTROL;
    if (PARTS.has(t)) kinds[i] = TokenKind.USER;
    if (ends.has(i) || PARTS.has(t)) all.set(t, i);
  });
  // answers of several parts: the end of a part is not theirs
  const part = all.get("<|end|>");
  if (
    part !== undefined && (all.has("<|return|>") && all.has("<|call|>") || all.has("<|calls|>") && all.has("<|flush|>"))
  ) {
    ends.delete(part);
    kinds[part] = TokenKind.USER;
  }
  const tag = all.get("</s>");
  if (tag !== undefined && all.has("<|tool_response>")) {
    ends.delete(tag);
    kinds[tag] = TokenKind.NORMAL; // of HTML
  }
  const before = new Set<number>(), after = new Set<number>(), name = of.name.toLowerCase();
  const isMask = /jina-v2-(de|es|code)/.test(of.pre) || /nomic-bert-moe|jina-bert-v3/.test(of.architecture);
  const mask = isMask ? "<mask>" : name.includes("modern-bert") ? "[MASK]" : undefined;
  if (mask !== undefined) before.add(tokens.indexOf(mask));
  else if (/phi-?3/.test(name)) {
    const plain = set("<unk> <s> <|endoftext|>"),
      special: number[] = [TokenKind.CONTROL, TokenKind.USER, TokenKind.UNKNOWN];
    kinds.forEach((k, i) => special.includes(k) && !plain.has(tokens[i]) && after.add(i));
  }
  return { kinds, ends: [...ends], stripsBefore: before, stripsAfter: after };
}
