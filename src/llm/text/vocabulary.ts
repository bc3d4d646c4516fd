/**
 * What a tokenizer knows: its tokens with kinds and scores, merges, and which of them mean something; read from the
 * metadata of a GGUF file.
 *
 * @module
 */
import { ArgumentError, FormatError } from "../../helpers/errors.ts";
import { describe } from "../../helpers/options.ts";
import { checkMetadata, isMap } from "../files/given_arguments.ts";
import type { GgufEntry } from "../files/gguf.ts";
import { knownTokens } from "./known_tokens.ts";
import { customPreTokenizer, type PreTokenizer, preTokenizer } from "./pretokenize.ts";

/** How a text becomes tokens. */
export type TokenizerKind = "spm" | "bpe" | "wordpiece" | "unigram";

/** The tokens and rules of a model. */
export interface Vocabulary {
  /** How texts are cut. */
  readonly kind: TokenizerKind;
  /** The name of the pre-tokenizer, of BPE. */
  readonly pre: string;
  /** Texts by id. */
  readonly tokens: readonly string[];
  /** By id: higher ones are joined first, or more probable. */
  readonly scores: readonly number[];
  /** By id, a {@linkcode TokenKind}. */
  readonly kinds: readonly number[];
  /** Ids before and after which white space is left out. */
  readonly stripsBefore: ReadonlySet<number>;
  readonly stripsAfter: ReadonlySet<number>;
  /** How text is cut, of files that say it themselves. */
  readonly cut: PreTokenizer | undefined;
  /** "left right", of BPE, first come first. */
  readonly merges: readonly string[];
  /** The id that texts begin with. */
  readonly begin: number | undefined;
  /** The id that ends a text. */
  readonly end: number | undefined;
  /** The id of what no token stands for. */
  readonly unknown: number | undefined;
  /** Tokens after which an answer is over. */
  readonly ends: ReadonlySet<number>;
  /** Whether texts get the first id; undefined: as tokenizers of this kind do. */
  readonly addBegin: boolean | undefined;
  /** Whether texts get the last id. */
  readonly addEnd: boolean | undefined;
  /** Whether texts get a space in front. */
  readonly addSpace: boolean | undefined;
  /** Whether several spaces are one. */
  readonly removeSpaces: boolean;
  /** Whether capitals are small letters, and accents are dropped, of WordPiece. */
  readonly lowercase: boolean;
  readonly stripAccents: boolean;
  /** A compiled map of characters, of unigram models. */
  readonly charsmap: Uint8Array | undefined;
  /** The template of conversations, in Jinja. */
  readonly template: string | undefined;
}

const KINDS: Readonly<Record<string, TokenizerKind>> = {
  llama: "spm",
  gpt2: "bpe",
  bert: "wordpiece",
  t5: "unigram",
  gemma4: "bpe",
};

/** Reads typed values of metadata, and says what is wrong with them. */
export class Metadata {
  /** Of metadata, and the name of the file that errors tell. */
  constructor(private readonly values: ReadonlyMap<string, GgufEntry>, private readonly file: string) {
    if (isMap(values)) return;
    throw new ArgumentError("read metadata", { reason: `${describe(values)} is no map, as file.metadata is` });
  }

  /** An error about the file. */
  bad(reason: string): FormatError {
    return new FormatError("load", { file: this.file, reason });
  }
  /** Whether there is a value. */
  has(key: string): boolean {
    return this.values.has(key);
  }
  private get<T>(key: string, what: string, is: (x: unknown) => x is T, fallback: T | undefined): T {
    const value = this.values.get(key)?.value;
    if (value === undefined) {
      if (fallback === undefined) throw this.bad(`it has no value "${key}"`);
      return fallback;
    }
    if (!is(value)) throw this.bad(`its value "${key}" is no ${what}`);
    return value;
  }
  /** A finite number. @throws {FormatError} for another value, and where there is none and no fallback */
  number(key: string, fallback?: number): number {
    return this.get(key, "number", (x): x is number => typeof x === "number", fallback);
  }
  /** A whole number from 0 on. */
  count(key: string, fallback?: number): number {
    const n = this.number(key, fallback);
    if (!Number.isSafeInteger(n) || n < 0) throw this.bad(`its value "${key}" is ${n}, no count`);
    return n;
  }
  /** A text. @throws {FormatError} as {@linkcode Metadata.number} */
  text(key: string, fallback?: string): string {
    return this.get(key, "text", (x): x is string => typeof x === "string", fallback);
  }
  /** True or false. @throws {FormatError} as {@linkcode Metadata.number} */
  flag(key: string, fallback?: boolean): boolean {
    return this.get(key, "boolean", (x): x is boolean => typeof x === "boolean", fallback);
  }
  /** A list of texts. @throws {FormatError} as {@linkcode Metadata.number} */
  texts(key: string, fallback?: readonly string[]): readonly string[] {
    return this.get(
      key,
      "list of texts",
      (x): x is readonly string[] => Array.isArray(x) && x.every((t) => typeof t === "string"),
      fallback,
    );
  }
  /** A list of numbers. @throws {FormatError} as {@linkcode Metadata.number} */
  numbers(key: string, fallback?: readonly number[]): readonly number[] {
    return this.get(
      key,
      "list of numbers",
      (x): x is readonly number[] =>
        Array.isArray(x) && x.every((t) => typeof t === "number" || typeof t === "boolean"),
      fallback,
    );
  }
}

/** The patterns that a file has itself. */
function cutOf(meta: Metadata): PreTokenizer | undefined {
  if (!meta.has("dinograd.patterns")) return undefined;
  try {
    return customPreTokenizer(
      meta.texts("dinograd.patterns"),
      meta.flag("dinograd.whole"),
      !meta.flag("dinograd.spaces"),
    );
  } catch (error) {
    throw meta.bad(`its pre-tokenizer has a pattern that is none (${(error as Error).message})`);
  }
}

/** The vocabulary of a GGUF file. @throws {FormatError} where there is none, or of a kind that is not known */
export function vocabularyOf(meta: Metadata): Vocabulary {
  checkMetadata("read a vocabulary", meta);
  const at = "tokenizer.ggml.", name = meta.text(`${at}model`), kind = KINDS[name];
  if (kind === undefined) {
    throw meta.bad(`its tokenizer is "${name}"; known are ${Object.keys(KINDS).join(", ")}`);
  }
  const tokens = meta.texts(`${at}tokens`), n = tokens.length;
  const scores = meta.numbers(`${at}scores`, Array(n).fill(0)),
    given = meta.numbers(`${at}token_type`, Array(n).fill(1));
  if (scores.length !== n || given.length !== n) {
    throw meta.bad(`it has ${n} tokens, ${scores.length} scores and ${given.length} kinds of tokens`);
  }
  const pre = name === "gemma4" ? "gemma4" : meta.text(`${at}pre`, "default");
  const { kinds, ends, ...known } = knownTokens(tokens, given, {
    pre,
    name: meta.text("general.name", ""),
    architecture: meta.text("general.architecture", ""),
  });
  const id = (key: string, fallback?: number): number | undefined => {
    if (!meta.has(at + key)) return fallback;
    const i = meta.number(at + key);
    if (i === -1 || i === 0xffffffff) return undefined;
    if (!Number.isInteger(i) || i < 0 || i >= n) throw meta.bad(`its token "${key}" is ${i}, beyond the ${n} tokens`);
    return i;
  };
  const end = id("eos_token_id", kind === "spm" ? 2 : undefined);
  const more = [id("eot_token_id"), id("eom_token_id"), end].filter((x) => x !== undefined);
  const flag = (key: string): boolean | undefined => meta.has(at + key) ? meta.flag(at + key) : undefined;
  const lowercase = flag("normalizer.lowercase") ?? true;
  const charsmap = meta.numbers(`${at}precompiled_charsmap`, []);
  return {
    kind,
    pre,
    tokens,
    scores,
    kinds,
    stripsBefore: new Set([...known.stripsBefore, ...meta.numbers("dinograd.strips_before", [])]),
    stripsAfter: new Set([...known.stripsAfter, ...meta.numbers("dinograd.strips_after", [])]),
    cut: cutOf(meta),
    merges: kind === "bpe" ? meta.texts(`${at}merges`) : [],
    begin: id("bos_token_id", kind === "spm" ? 1 : kind === "wordpiece" ? id("cls_token_id", 101) : undefined),
    end: end ?? (kind === "wordpiece" ? id("seperator_token_id", 102) : undefined),
    unknown: id(
      "unknown_token_id",
      kind === "spm" ? 0 : kind === "wordpiece" ? 100 : kind === "unigram" ? 2 : undefined,
    ),
    ends: new Set([...more, ...ends]),
    addBegin: flag("add_bos_token"),
    addEnd: flag("add_eos_token"),
    addSpace: flag("add_space_prefix"),
    removeSpaces: flag("remove_extra_whitespaces") ?? false,
    lowercase,
    stripAccents: flag("normalizer.strip_accents") ?? lowercase,
    charsmap: charsmap.length > 0 ? Uint8Array.from(charsmap) : undefined,
    template: meta.has("tokenizer.chat_template") ? meta.text("tokenizer.chat_template") : undefined,
  };
}

/** How a vocabulary's text is cut, if that is known. */
export function preTokenizerOf(vocabulary: Vocabulary): PreTokenizer | undefined {
  return vocabulary.cut ?? preTokenizer(vocabulary.pre);
}
