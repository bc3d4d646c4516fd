/**
 * Random texts that tokenizers find hard: of all of Unicode, runs of white space and digits, code, emoji of several
 * characters, texts of special tokens and parts of them, halves of surrogate pairs.
 *
 * @module
 */
import type { Random } from "../support/random.ts";

/** First and last characters of blocks whose classes differ. */
const BLOCKS: readonly (readonly [number, number])[] = [
  ...[[0x20, 0x7e], [0x20, 0x7e], [0xa0, 0xff], [0x100, 0x24f], [0x250, 0x2ff], [0x300, 0x36f], [
    0x370,
    0x3ff,
  ]] as const,
  ...[[0x400, 0x4ff], [0x531, 0x5ff], [0x600, 0x6ff], [0x900, 0x97f], [0xe00, 0xe7f], [0xf00, 0xfff]] as const,
  ...[[0x10a0, 0x11ff], [0x1200, 0x137f], [0x13a0, 0x13ff], [0x1c80, 0x1cbf], [0x1d00, 0x1dff]] as const,
  ...[[0x1e00, 0x1fff], [0x2000, 0x206f], [0x2070, 0x20cf], [0x2100, 0x218f], [0x2190, 0x2bff]] as const,
  ...[[0x2c00, 0x2dff], [0x2e80, 0x303f], [0x3040, 0x30ff], [0x3100, 0x33ff], [0x4e00, 0x9fff]] as const,
  ...[[0xa640, 0xa7ff], [0xab30, 0xabbf], [0xac00, 0xd7a3], [0xe000, 0xe0ff], [0xf900, 0xfaff]] as const,
  ...[[0xfb00, 0xfdff], [0xfe00, 0xfeff], [0xff00, 0xffef], [0xfff0, 0xffff], [0, 0x1f], [0x7f, 0x9f]] as const,
  ...[[0x10000, 0x1047f], [0x10900, 0x10fff], [0x11000, 0x11fff], [0x16f00, 0x16fff], [0x1b000, 0x1b2ff]] as const,
  ...[[0x1d400, 0x1d7ff], [0x1e900, 0x1e95f], [0x1f000, 0x1faff], [0x20000, 0x2a6df], [0xe0000, 0xe01ef]] as const,
  [0x100000, 0x10ffff],
];
const SPACES = [..." \t\n\r \u00a0\u3000\u2028\u0085\u2003\u200b\ufeff\v\f\u1680\u180e\u202f", "\r\n", "\n\n", "  "];
const DIGITS = ["0123456789", "٠١٢٣٤٥٦٧٨٩", "０１２３", "²³¹½¼", "ⅣⅧⅻ", "०१२३", "𝟎𝟏𝟐"];
const EMOJI = [..."👍🏽 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 👩🏿‍🚀 ❤️ 1️⃣ ☎️ 🏴󠁧󠁢󠁥󠁮󠁧󠁿 🫠".split(" "), "\u200d", "\ufe0f"];
const WORDS = [
  ..."the The THE house don't DON'T we'll 'S l'été naïve straße ﬁn Ǆ Ångström İstanbul ſet Σίσυφος".split(" "),
  ..."привет Ёлка 你好世界 こんにちは カタカナ 안녕하세요 สวัสดี नमस्ते שלום مرحبا Ελλάδα ქართული ᏣᎳᎩ".split(" "),
  ..."camelCase HTTPServer snake_case x1y2 3.14e-10 1,000,000 0xFFee https://a.b/c?d=e#f %20 C:\\dir\\f".split(" "),
  ...[
    "for (let i = 0; i < n; ++i) {\n\t",
    "def f(x):\n    return x ** 2\n\n\n",
    "</div>\n  <p class='a'>",
    "/* ... */\r\n",
  ],
  ...[
    "\\n",
    "...",
    "---",
    "!!!",
    "```ts\n",
    "$x^{2}$",
    "&amp;",
    "«»„“”",
    "—–‐",
    "…",
    "。，、",
    "▁",
    "▁▁",
    "<0x41>",
    "Ġ",
  ],
];

/** Letters and marks of Unicode 16 and later, which tables of oracles do not have. */
const NEW =
  /[\u{1c89}\u{1c8a}\u{a7cb}-\u{a7dc}\u{10d40}-\u{10d8f}\u{10ec2}-\u{10efc}\u{11380}-\u{113e2}\u{116d0}-\u{116e3}\u{11bc0}-\u{11bf9}]/u;

function character(r: Random): string {
  const [from, to] = r.pick(BLOCKS), c = r.int(from, to), text = String.fromCodePoint(c);
  return c >= 0xd800 && c <= 0xdfff || NEW.test(text) ? "x" : text;
}
function some(r: Random, most: number, next: () => string): string {
  let text = "";
  for (let n = r.int(1, most); n > 0; n--) text += next();
  return text;
}

/** A text; `tokens` are what it may have of a vocabulary. */
export function randomText(r: Random, tokens: readonly string[] = []): string {
  const kinds: readonly (() => string)[] = [
    () => some(r, 8, () => character(r)),
    () => some(r, 6, () => r.pick(SPACES)),
    () => some(r, 8, () => " "),
    () => some(r, 3, () => r.pick(DIGITS.map((d) => some(r, 5, () => r.pick([...d]))))),
    () => r.pick(EMOJI),
    () => (r.below(2) === 0 ? " " : "") + r.pick(WORDS),
    () => some(r, 4, () => r.pick(WORDS)),
    () => r.pick(WORDS) + some(r, 3, () => String.fromCodePoint(r.int(0x300, 0x345))),
    () => tokens.length === 0 ? "" : r.pick(tokens),
    () => tokens.length === 0 ? "" : r.pick(tokens).slice(0, r.int(1, 6)),
    () => r.below(4) === 0 ? String.fromCharCode(r.int(0xd800, 0xdfff)) : r.pick(WORDS).toUpperCase(),
  ];
  return some(r, 10, () => r.pick(kinds)());
}

/** The shortest text that `isBad`, of one: characters are left out as long as it stays so. */
export function shortest(text: string, isBad: (text: string) => boolean): string {
  let all = [...text];
  for (let size = all.length >> 1; size >= 1; size = size > 1 ? size >> 1 : 0) {
    for (let at = 0; at < all.length;) {
      const rest = [...all.slice(0, at), ...all.slice(at + size)];
      if (isBad(rest.join(""))) all = rest;
      else at += size;
    }
  }
  return all.join("");
}
