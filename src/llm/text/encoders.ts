/**
 * Texts to token ids, a way for each kind of vocabulary: SentencePiece's BPE by scores, byte-level BPE by merges, WordPiece,
 * and unigram by the best sum of scores. What is given is text between special tokens.
 *
 * @module
 */
import { FormatError } from "../../helpers/errors.ts";
import { Charsmap } from "./charsmap.ts";
import { mergePairs } from "./merges.ts";
import { cutText, PRE_TOKENIZERS, type PreTokenizer } from "./pretokenize.ts";
import { TokenKind } from "./known_tokens.ts";
import { preTokenizerOf, type Vocabulary } from "./vocabulary.ts";

/** Ids of a text; `first` says that nothing, or a special token, stands before it. */
export type Encode = (text: string, first: boolean) => number[];

/** What stands for a space in vocabularies of texts. */
export const SPACE = "\u2581";
const utf8 = new TextEncoder();

/** The characters that stand for bytes in byte-level vocabularies: printable ones are themselves. */
export const BYTE_CHARACTERS: readonly string[] = byteCharacters();
function byteCharacters(): string[] {
  let other = 256;
  return Array.from({ length: 256 }, (_, b) => {
    const printable = b >= 33 && b <= 126 || b >= 161 && b !== 173;
    return String.fromCharCode(printable ? b : other++);
  });
}

/** Ids of the tokens by their texts; of two with one text the first. */
export function idsOf(vocabulary: Vocabulary): Map<string, number> {
  const ids = new Map<string, number>();
  vocabulary.tokens.forEach((t, i) => ids.has(t) || ids.set(t, i));
  return ids;
}

/** Ids of the bytes of a symbol that is no token. */
function byteIds(symbol: string, ids: ReadonlyMap<string, number>, unknown: number | undefined): number[] {
  return Array.from(
    utf8.encode(symbol),
    (b) => ids.get(`<0x${b.toString(16).toUpperCase().padStart(2, "0")}>`) ?? unknown,
  )
    .filter((id) => id !== undefined);
}

function spm(vocabulary: Vocabulary, ids: ReadonlyMap<string, number>): Encode {
  const { scores, unknown, addSpace = true } = vocabulary;
  const rank = (a: string, b: string): number | undefined => {
    const id = ids.get(a + b);
    return id === undefined ? undefined : -scores[id];
  };
  return (text, first) => {
    const escaped = (addSpace && first ? " " + text : text).replaceAll(" ", SPACE);
    return mergePairs([...escaped], rank).flatMap((s) => ids.get(s) ?? byteIds(s, ids, unknown));
  };
}

function bpe(vocabulary: Vocabulary, ids: ReadonlyMap<string, number>, pre: PreTokenizer): Encode {
  const ranks = new Map<string, number>(), known = new Map<string, readonly number[]>();
  vocabulary.merges.forEach((m, i) => ranks.has(m) || ranks.set(m, i));
  const rank = (a: string, b: string): number | undefined => ranks.get(`${a} ${b}`);
  const { unknown } = vocabulary;
  const rest = (s: string): number[] => {
    if (!pre.byteLevel) return byteIds(s, ids, unknown);
    return Array.from(s, (c) => ids.get(c)).filter((id) => id !== undefined);
  };
  const piece = (p: string): readonly number[] => {
    const symbols = pre.byteLevel ? Array.from(utf8.encode(p), (b) => BYTE_CHARACTERS[b]) : [...p];
    const whole = pre.whole || pre.wholeLines && /^\n+$/.test(p) ? ids.get(symbols.join("")) : undefined;
    return whole !== undefined ? [whole] : mergePairs(symbols, rank).flatMap((s) => ids.get(s) ?? rest(s));
  };
  const remembered = (p: string): readonly number[] => {
    let found = known.get(p);
    if (found === undefined) {
      found = piece(p);
      if (known.size >= 10000) known.clear();
      known.set(p, found);
    }
    return found;
  };
  const prefix = !pre.byteLevel && vocabulary.addSpace === true;
  return (text, first) => {
    const escaped = pre.byteLevel ? text : ((prefix && first ? " " : "") + text).replaceAll(" ", SPACE);
    return cutText(escaped, pre.patterns).flatMap((p) => p.length < 64 ? remembered(p) : piece(p));
  };
}

/** Chinese characters as BERT's code has them: one alone is a word. */
const IDEOGRAPHS = "\\u4e00-\\u9fff\\u3400-\\u4dbf\\u{20000}-\\u{2a6df}\\u{2a700}-\\u{2b73f}\\u{2b740}-\\u{2b81f}" +
  "\\u{2b920}-\\u{2ceaf}\\uf900-\\ufaff\\u{2f800}-\\u{2fa1f}";
const ALONE = new RegExp(`[\\p{P}${IDEOGRAPHS}$+<=>^\`|~]`, "gu");
/** Words of BERT's vocabularies: marks and Chinese characters alone, where it says so without accents and capitals. */
function wordsOf(text: string, { lowercase, stripAccents }: Vocabulary): string[] {
  const clean = text.replace(/(?!\p{White_Space})[\p{Cc}\p{Cf}\p{Co}\ufffd]/gu, "");
  const plain = stripAccents ? clean.normalize("NFD").replace(/\p{Mn}/gu, "") : clean;
  // character by character: what stands beside a letter does not matter
  const small = lowercase ? Array.from(plain, (c) => c.toLowerCase()).join("") : plain;
  return small.replace(ALONE, " $& ").split(/\p{White_Space}+/u).filter((w) => w !== "");
}

function wordPiece(vocabulary: Vocabulary, ids: ReadonlyMap<string, number>): Encode {
  const unknown = vocabulary.unknown ?? 0;
  const longest = vocabulary.tokens.reduce((n, t) => Math.max(n, t.length), 0);
  const word = (w: string): number[] => {
    const text = SPACE + w, found: number[] = [];
    for (let at = 0; at < text.length;) {
      let end = Math.min(text.length, at + longest);
      while (end > at && !ids.has(text.slice(at, end))) end--;
      if (end === at) return [unknown];
      found.push(ids.get(text.slice(at, end))!);
      at = end;
    }
    return found;
  };
  return (text) => wordsOf(text, vocabulary).flatMap(word);
}

function unigram(vocabulary: Vocabulary, ids: ReadonlyMap<string, number>): Encode {
  const { tokens, scores, kinds, unknown = 0, addSpace = false, removeSpaces } = vocabulary;
  const charsmap = vocabulary.charsmap && new Charsmap(vocabulary.charsmap);
  const longest = tokens.reduce((n, t) => Math.max(n, t.length), 0);
  const users = tokens.filter((_, i) => kinds[i] === TokenKind.USER);
  let least = Infinity;
  scores.forEach((s, i) => kinds[i] === TokenKind.NORMAL && (least = Math.min(least, s)));
  const normal = (text: string): string => {
    const mapped = charsmap === undefined ? text : charsmap.apply(text, users);
    const spaced = removeSpaces ? mapped.replace(/ +/g, " ").replace(/^ | $/g, "") : mapped;
    return spaced === "" ? "" : ((addSpace ? " " : "") + spaced).replaceAll(" ", SPACE);
  };
  return (text) => {
    const s = normal(text), n = s.length;
    const best = new Float64Array(n + 1).fill(-Infinity), from = new Int32Array(n + 1), token = new Int32Array(n + 1);
    best[0] = 0;
    for (let at = 0; at < n;) {
      const width = s.codePointAt(at)! > 0xffff ? 2 : 1;
      let alone = false;
      for (let end = at + 1; end <= Math.min(n, at + longest); end++) {
        const id = ids.get(s.slice(at, end));
        if (id === undefined || kinds[id] === TokenKind.CONTROL || kinds[id] === TokenKind.UNKNOWN) continue;
        if (end === at + width) alone = true;
        const score = best[at] + (kinds[id] === TokenKind.USER ? 0 : scores[id]);
        if (score > best[end]) [best[end], from[end], token[end]] = [score, at, id];
      }
      const end = at + width, score = best[at] + least - 10;
      if (!alone && score > best[end]) [best[end], from[end], token[end]] = [score, at, unknown];
      at = end;
    }
    const out: number[] = [];
    for (let at = n; at > 0; at = from[at]) {
      if (token[at] !== unknown || out.at(-1) !== unknown) out.push(token[at]); // unknown neighbors are one
    }
    return out.reverse();
  };
}

/** How a vocabulary's texts become ids. @throws {FormatError} for a pre-tokenizer that is not known */
export function encoderOf(vocabulary: Vocabulary, file: string): Encode {
  const ids = idsOf(vocabulary);
  switch (vocabulary.kind) {
    case "spm":
      return spm(vocabulary, ids);
    case "wordpiece":
      return wordPiece(vocabulary, ids);
    case "unigram":
      return unigram(vocabulary, ids);
    case "bpe": {
      const pre = preTokenizerOf(vocabulary);
      if (pre !== undefined) return bpe(vocabulary, ids, pre);
      throw new FormatError("load", {
        file,
        reason: `its pre-tokenizer is "${vocabulary.pre}"; known are ${PRE_TOKENIZERS.join(", ")}`,
      });
    }
  }
}
