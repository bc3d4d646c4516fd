/**
 * Where byte-level BPE cuts a text before it merges: the patterns of the models' tokenizers, by the name that GGUF files
 * give them (`tokenizer.ggml.pre`). A text is cut by the patterns one after the other; what a pattern matches is a piece,
 * and what lies between is one too.
 *
 * @module
 */

/** How a family of models cuts its text. */
export interface PreTokenizer {
  readonly patterns: readonly RegExp[];
  /** Whether a piece that is a token is that token, whatever its merges would be. */
  readonly whole: boolean;
  /** Whether a piece of line ends that is a token is that token. */
  readonly wholeLines: boolean;
  /** Whether bytes stand as characters; otherwise spaces are "▁" and pieces are texts. */
  readonly byteLevel: boolean;
  /** Whether a begin token comes first unless the file says otherwise. */
  readonly begin: boolean;
}

/** A pattern with white space as Unicode has it, and every character one unit. */
function pattern(text: string): RegExp {
  return new RegExp(text.replaceAll("\\s", "\\p{White_Space}").replaceAll("\\S", "\\P{White_Space}"), "gu");
}

const SUFFIX = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])", LOWER_SUFFIX = "'s|'t|'re|'ve|'m|'ll|'d";
/** What stands last in most patterns: line ends, and spaces of which the last goes to the next word. */
const SPACES = "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const WORD = "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+", MARKS = " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*";
const GPT2 = `${LOWER_SUFFIX}| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)`;
const words = (digits: string, tail = SPACES) => `${SUFFIX}|${WORD}|${digits}|${MARKS}|${tail}`;
const LLAMA3 = words("\\p{N}{1,3}"), QWEN2 = words("\\p{N}");
/** Words that are cut where small letters are followed by large ones. */
const UPPER = "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]",
  SMALL = "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]",
  LEAD = "[^\\r\\n\\p{L}\\p{N}]?";
const cased = (suffix: string, digits: string) =>
  `${LEAD}${UPPER}*${SMALL}+${suffix}|${LEAD}${UPPER}+${SMALL}*${suffix}|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|${SPACES}`;
/** The same without Chinese characters, which are words of their own. */
const NOT_HAN = "(?!\\p{Script=Han})",
  kimi = (first: string, then: string) =>
    `${LEAD}(?:${NOT_HAN}${UPPER})${first}(?:${NOT_HAN}${SMALL})${then}${SUFFIX}?`;
const ASCII_MARKS = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~]";
const DEEPSEEK3 =
  `${ASCII_MARKS}[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|${SPACES}`;
const DEEPSEEK_LINES = DEEPSEEK3.replace("[\\r\\n]*|\\s*[\\r\\n]+", "|[\\r\\n]");
const HAN = "[\\u4e00-\\u9fa5\\u0800-\\u4e00\\uac00-\\ud7ff]+";
/** The letters that have two cases, as DeepSeek's list of them is. */
const CASED_LETTERS = "[A-Za-z\\u00b5\\u00c0-\\u00d6\\u00d8-\\u00f6\\u00f8-\\u01ba\\u01bc-\\u01bf\\u01c4-\\u0293" +
  "\\u0295-\\u02af\\u0370-\\u0373\\u0376\\u0377\\u037b-\\u037d\\u037f\\u0386\\u0388-\\u038a\\u038c\\u038e-\\u03a1" +
  "\\u03a3-\\u03f5\\u03f7-\\u0481\\u048a-\\u052f\\u0531-\\u0556\\u10a0-\\u10c5\\u13a0-\\u13f5\\u13f8-\\u13fd" +
  "\\u1c90-\\u1cba\\u1cbd-\\u1cbf\\u1d00-\\u1d2b\\u1d6b-\\u1d77\\u1d79-\\u1d9a\\u1e00-\\u1f15\\u1f18-\\u1f1d" +
  "\\u1f20-\\u1f45\\u1f48-\\u1f4d\\u1f50-\\u1f57\\u1f59\\u1f5b\\u1f5d\\u1f5f-\\u1f7d\\u1f80-\\u1fb4\\u1fb6-\\u1fbc" +
  "\\u1fbe\\u1fc2-\\u1fc4\\u1fc6-\\u1fcc\\u1fd0-\\u1fd3\\u1fd6-\\u1fdb\\u1fe0-\\u1fec\\u1ff2-\\u1ff4\\u1ff6-\\u1ffc" +
  "\\u2102\\u2107\\u210a-\\u2113\\u2115\\u2119-\\u211d\\u2124\\u2126\\u2128\\u212a-\\u212d\\u212f-\\u2134\\u2139" +
  "\\u213c-\\u213f\\u2145-\\u2149\\u214e\\u2183\\u2184\\u2c00-\\u2c7b\\u2c7e-\\u2ce4\\u2ceb-\\u2cee\\u2cf2\\u2cf3" +
  "\\ua640-\\ua66d\\ua680-\\ua69b\\ua722-\\ua76f\\ua771-\\ua787\\ua78b-\\ua78e\\uab70-\\uabbf\\ufb00-\\ufb06" +
  "\\ufb13-\\ufb17\\uff21-\\uff3a\\uff41-\\uff5a\\u{10400}-\\u{1044f}\\u{104b0}-\\u{104d3}\\u{104d8}-\\u{104fb}" +
  "\\u{10c80}-\\u{10cb2}\\u{10cc0}-\\u{10cf2}\\u{118a0}-\\u{118df}\\u{1e900}-\\u{1e943}]";
const KANA = "[\\u4e00-\\u9fa5\\u3040-\\u309f\\u30a0-\\u30ff]+";
const HANGUL = "[가-힣ㄱ-ㆎ]+", CHINESE_MARKS = "[！…“”‘’—：；，、-〿︰-﹏]+", BOPOMOFO = "[ㄅ-ㄯ]+";
const ASIAN = "[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+";
const PUNCTUATION = "[\\p{P}\\$\\+<=>\\^~\\|";

/** What differs from the usual: pieces are merged, bytes are characters, no begin token. */
type Options = Partial<Omit<PreTokenizer, "patterns">>;
type Row = readonly [names: string, patterns: readonly string[], options?: Options];
const HALVING = [512, 256, 128, 64, 32, 16, 8, 4, "1,2"].map((n) => `\\s{${n}}(?!\\S)`).join("|");
const LINES = "[^\\n]+|[\\n]+";
const ROWS: readonly Row[] = [
  ["default", [`${PUNCTUATION}]+`, GPT2, "\\p{N}+", "[0-9][0-9][0-9]"]],
  ["llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano", [LLAMA3], {
    whole: true,
    begin: true,
  }],
  ["dbrx smaug-bpe glm4 chatglm-bpe", [LLAMA3]],
  ["qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2", [QWEN2]],
  ["qwen35", [
    `${SUFFIX}|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|${SPACES}`,
  ]],
  [
    "gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert exaone4 mpt olmo jais trillion " +
    "granite-docling jina-v1-en jina-v2-code roberta-bpe",
    [GPT2],
  ],
  ["starcoder refact command-r smollm codeshell exaone minerva-7b mellum2", ["\\p{N}", GPT2]],
  ["falcon", [`${PUNCTUATION}\`]+`, GPT2, "[0-9][0-9][0-9]"]],
  ["tekken", [cased("", "\\p{N}")], { whole: true, begin: true }],
  ["gpt-4o llama4 kanana2 talkie minimax-m2", [cased(`${SUFFIX}?`, "\\p{N}{1,3}")]],
  ["granite-embed-multi-97m", [cased(`${SUFFIX}?`, "\\p{N}{1,3}")], { whole: true }],
  ["deepseek-llm", [
    "[\\r\\n]",
    `\\s?${CASED_LETTERS}+`,
    "\\s?[!-/:-~\\uff01-\\uff0f\\uff1a-\\uff5e\\u2018-\\u201f\\u3000-\\u3002]+",
    "\\s+$",
    HAN,
    "\\p{N}+",
  ]],
  ["deepseek-coder", ["[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", HAN, "\\p{N}"]],
  ["deepseek-v3 hunyuan-dense joyai-llm hy_v4", ["\\p{N}{1,3}", KANA, DEEPSEEK3]],
  ["spark2_5", ["\\p{N}{1,3}", KANA, DEEPSEEK_LINES, "\\p{N}"]],
  ["afmoe", ["(?<!\\p{N})\\p{N}{1,2}(?=(?:\\p{N}{3})*(?!\\p{N}))|\\p{N}{3}", ASIAN, DEEPSEEK3]],
  ["youtu", [`${HANGUL}|${CHINESE_MARKS}|${BOPOMOFO}|${KANA}`, cased(`${SUFFIX}?`, "\\p{N}")], { whole: true }],
  ["kimi-k2", [
    `\\p{Script=Han}+|${kimi("*", "+")}|${kimi("+", "*")}|\\p{N}{1,3}|${MARKS}|${SPACES}`,
  ]],
  ["jais-2", [words("\\p{N}{1,3}", `\\s*[\\r\\n]+|${HALVING}|\\s`)]],
  ["exaone-moe", [
    `${SUFFIX}|${LEAD}(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+`,
  ]],
  ["chameleon", [
    "<sentinel:[0-9]+>",
    "IMGIMG[A-I]{1,4}Z",
    "[\\t\\n]|    |  ",
    "\\p{N}",
    "[\\p{P}!-\\/:-@\\[-`\\{-~]",
    GPT2,
  ], { begin: true }],
  ["poro-chat bloom gpt3-finnish", [" ?[^(\\s|.,!?…。，、।۔،)]+"]],
  ["viking", [" ?[^(\\s|.,!?…。，、।۔،)]+", "\\p{N}"]],
  ["bailingmoe bailingmoe2 llada-moe", [
    `'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|${WORD}|\\p{N}|${MARKS}|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+`,
  ]],
  ["seed-coder", [`${SUFFIX}|${WORD}|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|${SPACES}`]],
  ["ufakzeka", [`${WORD}|\\p{N}|${MARKS}|${SPACES}`]],
  ["superbpe", ["\\p{N}+", "(?=(\\d{3})+(?!\\d))"]],
  ["laguna", [LINES, QWEN2]],
  ["minicpm5", ["\\p{N}{1,3}", words("\\p{N}+")], { whole: true }],
  ["tiny_aya cohere2moe", ["\\d{1,3}(?=(?:\\d{3})*\\b)", cased(`${SUFFIX}?`, "\\p{N}{1,3}")]],
  ["gemma4 granite-embed-multi-311m", [LINES], { byteLevel: false, wholeLines: true, begin: true }],
  ["sarvam-moe", [LINES], { byteLevel: false }],
];

const BY_NAME = new Map<string, Row>(ROWS.flatMap((row) => row[0].split(" ").map((name) => [name, row] as const)));

/** The pre-tokenizers that are known by name. */
export const PRE_TOKENIZERS: readonly string[] = [...BY_NAME.keys()];

/** The pre-tokenizer of a name, if it is known. */
export function preTokenizer(name: string): PreTokenizer | undefined {
  const row = BY_NAME.get(name);
  return row &&
    { whole: false, wholeLines: false, byteLevel: true, begin: false, ...row[2], patterns: row[1].map(pattern) };
}

/** The name of the pre-tokenizer that cuts byte-level text by these patterns and no others, if there is one. */
export function preTokenizerName(patterns: readonly string[], whole: boolean): string | undefined {
  const key = (all: readonly string[]) =>
    all.map((p) => p.replace(/\(\?i:([^()]*)\)/g, (_, s: string) => `(?:${anyCase(s)})`)).join("\n");
  const row = ROWS.find(([, own, { byteLevel = true, whole: w = false } = {}]) =>
    byteLevel && w === whole && key(own) === key(patterns)
  );
  return row?.[0].split(" ")[0];
}
/** Suffixes in either case, as {@linkcode SUFFIX} has them. */
function anyCase(suffixes: string): string {
  return suffixes.replace(/[a-z]/g, (c) => `[${c}${c.toUpperCase()}]`);
}

/** A pre-tokenizer of patterns that a file has. @throws {SyntaxError} for what is no pattern */
export function customPreTokenizer(patterns: readonly string[], whole: boolean, byteLevel: boolean): PreTokenizer {
  return { patterns: patterns.map(pattern), whole, wholeLines: false, byteLevel, begin: false };
}

/** The pieces of `text`: nothing is lost. */
export function cutText(text: string, patterns: readonly RegExp[]): string[] {
  let pieces = text === "" ? [] : [text];
  for (const p of patterns) {
    const next: string[] = [];
    for (const piece of pieces) {
      let at = 0;
      for (const m of piece.matchAll(p)) {
        if (m.index > at) next.push(piece.slice(at, m.index));
        if (m[0] !== "") next.push(m[0]);
        at = m.index + m[0].length;
      }
      if (at < piece.length) next.push(piece.slice(at));
    }
    pieces = next;
  }
  return pieces;
}
