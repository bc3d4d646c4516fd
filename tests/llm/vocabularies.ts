/**
 * Small vocabularies of each kind, as GGUF contents, and texts that are hard to cut: llama.cpp's ids of them were written
 * down (fixtures/tokens.json, by llama_cpp.ts).
 *
 * @module
 */
import {
  type GgufContents,
  type GgufInput,
  Metadata,
  readGguf,
  Tokenizer,
  typed,
  vocabularyOf,
} from "../../src/llm/llm.ts";
import { BYTE_CHARACTERS, SPACE } from "../../src/llm/text/encoders.ts";
import { PRE_TOKENIZERS, preTokenizer } from "../../src/llm/text/pretokenize.ts";
import type { Loadable } from "../../src/state/source.ts";
import { Random } from "../support/random.ts";
import { hashOf } from "./hash_of.ts";
import { randomText } from "./random_texts.ts";

const SOURCE =
  "Once upon a time there was a little girl who didn't know that we'll see 1234567 things, isn't it? THE End " +
  'of the story: she\'d said "HELLO world" in 2024!  Über straße café naïve été; привет мир, 你好世界。 ' +
  "the cat and the hat and the house with the other things that they think there are    for (int i = 0; i < 10; i++) {\n" +
  "    return x;\n}\n";

/** The texts. */
export const TEXTS: readonly string[] = [
  ...[
    "",
    " ",
    "  ",
    "   ",
    "\t",
    "\n",
    "\n\n",
    "\n\n\n \t\n",
    "a",
    " a",
    "a ",
    "Hello world",
    " Hello World",
    "HELLO",
    "hElLo",
  ],
  ...["I'll you're don't WE'VE it's 'tis 'S", "1", "12", "123", "1234", "12345678", "3.14159 1,000,000 0x1F", "½ ² Ⅷ"],
  ...[
    "!!!??",
    "... --- ###",
    "$100 <a href='x'>=5%</a>",
    "a_b-c/d\\e",
    "=== ~~~ ^^^ ```",
    "👍 🎉🎉 👨‍👩‍👧",
    "é à ü ñ",
    "e\u0301",
  ],
  ...[
    "привет, мир!",
    "你好世界",
    "こんにちは 世界",
    "안녕하세요",
    "مرحبا بالعالم",
    "नमस्ते",
    "ไทย",
    "\u00a0\u3000 x\u2003y",
    "\u200b\ufeff",
  ],
  ...[
    "a\r\nb\r\r\nc",
    "  leading",
    "trailing  ",
    "x  y   z    w",
    "\u0000",
    "ﬁ ﬂ ①",
    "<s>hi</s>",
    "<|end|> <|user|>x",
    "<unk>",
  ],
  SOURCE,
  ...fuzzed(40),
];

/** Texts of random characters, many of which are spaces, digits and marks. */
function fuzzed(count: number): string[] {
  const r = new Random(3),
    kinds = ["  \n\t", "abcdeTHE'st", "0123456789", ".,!?-_'\"()", "éßжñ", "世界你好", "👍½²\u0301", "<s>|/"];
  return Array.from({ length: count }, () => {
    let text = "";
    for (let n = r.int(1, 30); n > 0; n--) {
      const from = [...kinds[r.int(0, kinds.length - 1)]];
      text += from[r.int(0, from.length - 1)];
    }
    return text;
  });
}

/** The tokens and merges that come of merging the most frequent pair of the source again and again. */
function trained(symbols: (word: string) => string[], count: number): readonly [tokens: string[], merges: string[]] {
  const words = (SOURCE.match(/ ?\S+|\s+/g) ?? []).map(symbols), tokens: string[] = [], merges: string[] = [];
  for (let k = 0; k < count; k++) {
    const found = new Map<string, number>();
    for (const w of words) {
      for (let i = 0; i + 1 < w.length; i++) {
        found.set(`${w[i]} ${w[i + 1]}`, (found.get(`${w[i]} ${w[i + 1]}`) ?? 0) + 1);
      }
    }
    const [best] = [...found].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))[0];
    const [a, b] = best.split(" ");
    merges.push(best);
    if (!tokens.includes(a + b)) tokens.push(a + b);
    for (const w of words) {
      for (let i = 0; i + 1 < w.length; i++) if (w[i] === a && w[i + 1] === b) w.splice(i, 2, a + b);
    }
  }
  return [tokens, merges];
}

function contents(
  values: Readonly<Record<string, GgufInput>>,
  tokens: readonly string[],
  kinds: readonly number[],
): GgufContents {
  const metadata: Record<string, GgufInput> = {
    "general.architecture": "llama",
    "llama.block_count": 1,
    "llama.context_length": 64,
    "llama.embedding_length": 32,
    "llama.feed_forward_length": 32,
    "llama.attention.head_count": 1,
    "llama.attention.layer_norm_rms_epsilon": typed("float32", 1e-5),
    "tokenizer.ggml.tokens": tokens,
    "tokenizer.ggml.token_type": typed("int32", kinds),
  };
  for (const [key, value] of Object.entries(values)) metadata[`tokenizer.ggml.${key}`] = value;
  return { metadata, tensors: {} };
}

function byteLevel(pre: string): GgufContents {
  const [made, merges] = trained((w) => Array.from(new TextEncoder().encode(w), (b) => BYTE_CHARACTERS[b]), 180);
  const special = ["<s>", "</s>", "<|end|>", "<|user|>"], tokens = [...special, ...BYTE_CHARACTERS, ...made];
  const kinds = tokens.map((_, i) => i < 3 ? 3 : i === 3 ? 4 : 1);
  return contents({ model: "gpt2", pre, merges, bos_token_id: 0, eos_token_id: 1 }, tokens, kinds);
}

function pieces(): GgufContents {
  const bytes = Array.from({ length: 256 }, (_, b) => `<0x${b.toString(16).toUpperCase().padStart(2, "0")}>`);
  const [made] = trained((w) => [...w.replaceAll(" ", SPACE)], 150),
    letters = [...new Set(SOURCE.replaceAll(" ", SPACE).replaceAll("\n", ""))];
  const tokens = ["<unk>", "<s>", "</s>", ...bytes, ...made.filter((t) => !t.includes("\n")), ...letters, "<|user|>"];
  const kinds = tokens.map((_, i) => i === 0 ? 2 : i < 3 ? 3 : i < 259 ? 6 : i === tokens.length - 1 ? 4 : 1);
  const scores = tokens.map((_, i) => i < 259 ? 0 : 258 - i);
  return contents(
    { model: "llama", scores: typed("float32", scores), bos_token_id: 1, eos_token_id: 2, unknown_token_id: 0 },
    tokens,
    kinds,
  );
}

function words(): GgufContents {
  const letters = [..."abcdefghijklmnopqrstuvwxyz0123456789.,!?'-"],
    known = ["the", "hello", "world", "time", "cafe", "girl", "uber", "house"];
  const ends = ["ing", "s", "ed", "n", "t", "lo", "23"], chinese = ["你", "好", "世", "界"];
  const tokens = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    ...known.map((w) => SPACE + w),
    ...letters.map((c) => SPACE + c),
    ...letters,
    ...ends,
    ...chinese.map((c) => SPACE + c),
  ];
  const kinds = tokens.map((_, i) => i < 4 ? 3 : 1);
  return contents(
    {
      model: "bert",
      unknown_token_id: 1,
      bos_token_id: 2,
      cls_token_id: 2,
      seperator_token_id: 3,
      padding_token_id: 0,
    },
    [...new Set(tokens)],
    kinds.slice(0, new Set(tokens).size),
  );
}

function probable(): GgufContents {
  const letters = [...new Set(SOURCE.replaceAll(" ", SPACE).replaceAll("\n", ""))],
    [made] = trained((w) => [...w.replaceAll(" ", SPACE)], 120);
  const tokens = ["<pad>", "</s>", "<unk>", ...new Set([...letters, ...made.filter((t) => !t.includes("\n"))])];
  const kinds = tokens.map((_, i) => i === 2 ? 2 : i < 2 ? 3 : 1);
  const scores = tokens.map((t, i) => i < 3 ? 0 : -3 - 4 / t.length - i % 7 / 8);
  return contents(
    {
      model: "t5",
      scores: typed("float32", scores),
      eos_token_id: 1,
      unknown_token_id: 2,
      padding_token_id: 0,
      add_space_prefix: true,
      remove_extra_whitespaces: true,
    },
    tokens,
    kinds,
  );
}

const PRES = [
  "default",
  "gpt-2",
  "llama-bpe",
  "qwen2",
  "qwen35",
  "deepseek-v3",
  "deepseek-coder",
  "deepseek-llm",
  "falcon",
  "starcoder",
  "tekken",
  "gpt-4o",
  "bailingmoe",
  "seed-coder",
  "superbpe",
  "minicpm5",
];

/** The vocabularies by name. */
export const VOCABULARIES: Readonly<Record<string, () => GgufContents>> = {
  ...Object.fromEntries(PRES.map((pre) => [pre, () => byteLevel(pre)])),
  pieces,
  words,
  probable,
};

/** A vocabulary with other values. */
function changed(of: GgufContents, values: Readonly<Record<string, GgufInput>>): GgufContents {
  const metadata: Record<string, GgufInput> = { ...of.metadata as Record<string, GgufInput> };
  for (const [key, value] of Object.entries(values)) metadata[`tokenizer.ggml.${key}`] = value;
  return { ...of, metadata };
}

/** Merges of texts whose spaces are characters. */
function spaced(pre: string): GgufContents {
  const of = pieces(), merges = trained((w) => [...w.replaceAll(" ", SPACE)], 150)[1].filter((m) => !m.includes("\n"));
  return changed(of, { model: pre === "gemma4" ? pre : "gpt2", pre, merges });
}

/** Vocabularies for random texts, too: each pre-tokenizer by each of its names, and what files set otherwise. */
export const FUZZED: Readonly<Record<string, () => GgufContents>> = {
  ...Object.fromEntries(
    PRE_TOKENIZERS.map((pre) => [pre, () => preTokenizer(pre)!.byteLevel ? byteLevel(pre) : spaced(pre)] as const),
  ),
  pieces,
  words,
  probable,
  "pieces without a space": () => changed(pieces(), { add_space_prefix: false, add_eos_token: true }),
  "words as they are": () => changed(words(), { "normalizer.lowercase": false }),
  "words with accents": () => changed(words(), { "normalizer.strip_accents": false }),
  "probable, all spaces": () => changed(probable(), { remove_extra_whitespaces: false, add_space_prefix: false }),
};

/** The tokenizer of a file. */
export async function tokenizerOf(from: Loadable): Promise<Tokenizer> {
  return new Tokenizer(vocabularyOf(new Metadata((await readGguf(from)).metadata, String(from))));
}

/**
 * Where llama.cpp cuts a text otherwise than the patterns of the models' own tokenizer.json, which are ours: its engine
 * of patterns has no classes of letters by case, forgets what stands before a lookahead, and takes all white space for
 * one character.
 */
const BEYOND: readonly (readonly [name: RegExp, text: RegExp])[] = [
  [
    /^(tekken|gpt-4o|llama4|kanana2|talkie|minimax-m2|granite-embed-multi-97m)$/,
    /(?![A-Za-z])[\p{Lu}\p{Ll}\p{Lt}]|\p{M}/u,
  ],
  [/^(tiny_aya|cohere2moe)$/, /\d|\p{M}|\p{Lu}|\p{Lt}/u],
  [/^(youtu|kimi-k2)$/, /\p{Lu}|\p{Lt}|\p{M}/u],
  [/deepseek-llm/, /\u3000/u],
  // of a character in parts only the first is kept
  [/words|bert/, /[\uac00-\ud7a3]/],
  [/^afmoe$/, /\p{White_Space}\p{N}/u],
  // accents are nonspacing marks in BERT's own code, and all marks there
  [/words|bert/, /[\p{Mc}\p{Me}]/u],
  [/words with accents/, /İ/], // its small letter is two characters
];

/** Whether a text is one that llama.cpp cuts otherwise than a model's own tokenizer. */
export function isBeyond(name: string, text: string): boolean {
  return BEYOND.some(([n, t]) => n.test(name) && t.test(text));
}

/** A random text, with some tokens of a vocabulary, every other one with special ones. */
export function fuzzText(r: Random, { vocabulary: { tokens, kinds } }: Tokenizer): string {
  return randomText(r, r.below(2) === 0 ? tokens.filter((_, i) => kinds[i] > 1 && kinds[i] < 6) : tokens);
}

/** All ids of some random texts, short: without and with special tokens. */
export function fuzzHash(name: string, of: Tokenizer, encode: (text: string, special: boolean) => number[]): string {
  const r = new Random(5), texts = Array.from({ length: 60 }, () => fuzzText(r, of)).filter((t) => !isBeyond(name, t));
  const ids = texts.flatMap((t) => [...encode(t, false), ...encode(t, true)]);
  return `${texts.length} ${ids.length}:${hashOf(Float32Array.from(ids))}`;
}

/** Lists of ids, short. */
export function hashes(rows: readonly (readonly number[][])[]): string[] {
  return rows.map((row) => row.map((ids) => `${ids.length}:${hashOf(Float32Array.from(ids))}`).join(" "));
}
