/**
 * Rules of JSON's parts: texts with limits, numbers in ranges, texts that are none of some, dates.
 *
 * @module
 */
import {
  chars,
  choice,
  type CodeRange,
  type Grammar,
  LAST_CODE,
  maybe,
  named,
  otherChars,
  readGbnf,
  repeat,
  type Rule,
  sequence,
  text,
} from "./grammar.ts";

/** What values are made of. Surrogates are not written as escapes, since a half of a pair is no character. */
const VALUES = String.raw`
space ::= " "? | "\n"{1,2} [ \t]{0,20}
plain ::= [^"\\\x00-\x1F\x7F]
hex ::= [0-9a-fA-F]
char ::= plain | "\\" (["\\/bfnrt] | "u" ([0-9a-cA-CeEfF] hex{3} | [dD] [0-7] hex{2}))
string ::= "\"" char* "\""
digits ::= "0" | [1-9] [0-9]{0,14}
integer ::= "-"? digits
number ::= "-"? digits ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,2})?
boolean ::= "true" | "false"
null ::= "null"
array ::= "[" space (value ("," space value)*)? "]"
pair ::= string ":" space value
object ::= "{" space (pair ("," space pair)*)? "}"
value ::= (string | number | boolean | null | array | object) space
date ::= [0-9]{4} "-" ("0" [1-9] | "1" [0-2]) "-" ("0" [1-9] | "1" [0-9] | "2" [0-8])
time ::= ([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9] ":" [0-5] [0-9] ("." [0-9]{3})? ("Z" | [+-] ([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9])
date-time ::= date "T" time
uuid ::= hex{8} "-" hex{4} "-" hex{4} "-" hex{4} "-" hex{12}
`;
let read: Grammar | undefined;
/** The rules of values, read when they are first asked for. */
export function jsonRules(): Grammar {
  return read ??= readGbnf(VALUES);
}

/** Formats of texts that are kept to; others are only said. */
export const FORMATS: ReadonlySet<string> = new Set(["date", "time", "date-time", "uuid"]);

const QUOTE = 34, BACKSLASH = 92, CONTROLS: CodeRange = [0, 31], DELETE: CodeRange = [127, 127];
const SHORT: Readonly<Record<number, string>> = { 8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r" };

/** One of these characters, as JSON writes it inside of a text. */
export function jsonChar(ranges: readonly CodeRange[]): Rule {
  const has = (code: number) => ranges.some(([a, b]) => a <= code && code <= b), written: Rule[] = [];
  for (let c = 0; c < 32; c++) {
    if (has(c)) written.push(text(SHORT[c] ?? `\\u00${c.toString(16).padStart(2, "0")}`));
  }
  if (has(QUOTE)) written.push(text('\\"'));
  if (has(BACKSLASH)) written.push(text("\\\\"));
  const bare = otherChars([...otherChars(ranges), CONTROLS, DELETE, [QUOTE, QUOTE], [BACKSLASH, BACKSLASH]]);
  if (bare.length > 0) written.push(chars(...bare));
  return choice(...written);
}

/** A text in quotes that is none of `names`; it is written without escapes. */
export function textBut(names: readonly string[]): Rule {
  const plain: CodeRange[] = otherChars([CONTROLS, DELETE, [QUOTE, QUOTE], [BACKSLASH, BACKSLASH]]);
  const rest = (words: readonly (readonly string[])[]): Rule => {
    const ends = words.some((w) => w.length === 0), by = new Map<string, (readonly string[])[]>();
    for (const [c, ...more] of words) if (c !== undefined) by.set(c, [...by.get(c) ?? [], more]);
    const isPlain = (c: string) => plain.some(([a, b]) => a <= c.codePointAt(0)! && c.codePointAt(0)! <= b);
    const branches = [...by].filter(([c]) => isPlain(c)).map(([c, w]) => sequence(text(c), rest(w)));
    const taken = [...by.keys()].map((c): CodeRange => [c.codePointAt(0)!, c.codePointAt(0)!]);
    const other = otherChars([...otherChars(plain), ...taken]);
    return choice(
      ...branches,
      sequence(chars(...other), repeat(chars(...plain), 0), text('"')),
      ...ends ? [] : [text('"')],
    );
  };
  return sequence(text('"'), rest(names.map((n) => [...n])));
}

const digit = chars([48, 57]), between = (a: number, b: number) => chars([48 + a, 48 + b]);

/** Digits from `a` to `b`, of one length. */
function sameLength(a: string, b: string): Rule {
  if (a === b) return text(a);
  if (/^0+$/.test(a) && /^9+$/.test(b)) return repeat(digit, a.length, a.length);
  const rest = a.length - 1, x = Number(a[0]), y = Number(b[0]);
  if (rest === 0) return between(x, y);
  if (x === y) return sequence(text(a[0]), sameLength(a.slice(1), b.slice(1)));
  return choice(
    sequence(text(a[0]), sameLength(a.slice(1), "9".repeat(rest))),
    ...x + 1 < y ? [sequence(between(x + 1, y - 1), repeat(digit, rest, rest))] : [],
    sequence(text(b[0]), sameLength("0".repeat(rest), b.slice(1))),
  );
}
/** Whole numbers from `a` to `b`, neither below 0. */
function natural(a: number, b: number): Rule {
  const first = String(a), last = String(b), rows: Rule[] = [];
  for (let n = first.length; n <= last.length; n++) {
    rows.push(sameLength(n > first.length ? "1" + "0".repeat(n - 1) : first, n < last.length ? "9".repeat(n) : last));
  }
  return choice(...rows);
}

/** Beyond these, numbers are not written. */
const LARGEST = 1e15 - 1;

/** Whole numbers from `min` to `max`; undefined where there are none. */
export function wholeRange(min: number, max: number): Rule | undefined {
  const low = Math.max(Math.ceil(min), -LARGEST), high = Math.min(Math.floor(max), LARGEST), rows: Rule[] = [];
  if (low > high) return undefined;
  if (low < 0) rows.push(sequence(text("-"), natural(Math.max(1, -high), -low)));
  if (high >= 0) rows.push(natural(Math.max(0, low), high));
  return choice(...rows);
}

/** Numbers between whole bounds, perhaps without those; undefined where there are none. */
export function numberRange(min: number, max: number, openMin: boolean, openMax: boolean): Rule | undefined {
  const low = Math.max(min, -LARGEST), high = Math.min(max, LARGEST), rows: Rule[] = [];
  const fraction = sequence(text("."), repeat(digit, 0, 8), chars([49, 57]), repeat(digit, 0, 6));
  const whole = wholeRange(openMin ? low + 1 : low, openMax ? high - 1 : high);
  if (whole !== undefined) rows.push(whole);
  // what lies between whole numbers, on each side of 0
  if (high > 0 && high > low) rows.push(sequence(natural(Math.max(0, low), high - 1), fraction));
  if (low < 0 && high > low) rows.push(sequence(text("-"), natural(Math.max(0, -high), -low - 1), fraction));
  return rows.length === 0 ? undefined : choice(...rows);
}

/** A text in quotes of so many characters. */
export function sizedText(min: number, max: number): Rule {
  return sequence(text('"'), repeat(named("char"), min, max), text('"'));
}
/** Items with commas between them, so many. */
export function listOf(item: Rule, min: number, max: number): Rule {
  if (max === 0) return text("");
  const more = repeat(sequence(text(","), named("space"), item), Math.max(0, min - 1), max - 1);
  return min === 0 ? maybe(sequence(item, more)) : sequence(item, more);
}
/** All characters. */
export const ANY_CHAR: readonly CodeRange[] = [[0, LAST_CODE]];
