/**
 * What a text may be: rules of characters, sequences, alternatives and repetitions. Read from GBNF, the notation of
 * llama.cpp (https://github.com/ggml-org/llama.cpp/tree/master/grammars), or made of a JSON schema; compiled by
 * automaton.ts.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";

/** First and last code point. */
export type CodeRange = readonly [low: number, high: number];

/** A part of a rule. */
export type Rule =
  | { readonly kind: "chars"; readonly ranges: readonly CodeRange[] }
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "sequence"; readonly items: readonly Rule[] }
  | { readonly kind: "choice"; readonly items: readonly Rule[] }
  | { readonly kind: "repeat"; readonly item: Rule; readonly min: number; readonly max: number }
  | { readonly kind: "name"; readonly name: string };

/** Rules by name; texts are what "root" says. */
export type Grammar = ReadonlyMap<string, Rule>;

/** The last code point. */
export const LAST_CODE = 0x10ffff;

/** These characters in a row. */
export function text(text: string): Rule {
  return { kind: "text", text };
}
/** One character of these ranges. */
export function chars(...ranges: readonly CodeRange[]): Rule {
  return { kind: "chars", ranges };
}
/** One after the other. */
export function sequence(...items: readonly Rule[]): Rule {
  return items.length === 1 ? items[0] : { kind: "sequence", items };
}
/** One of these. */
export function choice(...items: readonly Rule[]): Rule {
  return items.length === 1 ? items[0] : { kind: "choice", items };
}
/** From `min` to `max` times. */
export function repeat(item: Rule, min: number, max: number = Infinity): Rule {
  return { kind: "repeat", item, min, max };
}
/** Once or not. */
export function maybe(item: Rule): Rule {
  return repeat(item, 0, 1);
}
/** What the rule of this name says. */
export function named(name: string): Rule {
  return { kind: "name", name };
}

/** All characters but those of the ranges. */
export function otherChars(ranges: readonly CodeRange[]): CodeRange[] {
  const out: CodeRange[] = [];
  let next = 0;
  for (const [low, high] of [...ranges].sort((a, b) => a[0] - b[0])) {
    if (low > next) out.push([next, low - 1]);
    next = Math.max(next, high + 1);
  }
  return next > LAST_CODE ? out : [...out, [next, LAST_CODE]];
}

const ACTION = "read a grammar";
const NAME = /[A-Za-z0-9_-]+/y, SPACE = /(?:[ \t]|#[^\n]*)*/y, LINES = /(?:\s|#[^\n]*)*/y;
const ESCAPES: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t" };
const HEX: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 };
/** Groups within groups. */
const MAX_DEPTH = 200;

/** Reads GBNF. */
class GbnfReader {
  private at = 0;
  private depth = 0;
  constructor(private readonly source: string) {}

  /** All rules. */
  read(): Grammar {
    const rules = new Map<string, Rule>();
    for (this.skip(LINES); this.at < this.source.length; this.skip(LINES)) {
      const name = this.match(NAME);
      if (name === undefined) this.fail("a name of a rule is missing");
      this.skip(SPACE);
      if (!this.take("::=")) this.fail(`"::=" is missing behind "${name}"`);
      if (rules.has(name)) this.fail(`rule "${name}" is there twice`);
      rules.set(name, this.alternatives(false));
      if (this.at < this.source.length && !/[\r\n]/.test(this.source[this.at])) this.fail("a line should end here");
    }
    return rules;
  }

  private fail(reason: string): never {
    const before = this.source.slice(0, this.at).split("\n");
    throw new ArgumentError(ACTION, {
      reason: `line ${before.length}, column ${before.at(-1)!.length + 1}: ${reason}`,
    });
  }
  private match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at;
    const m = pattern.exec(this.source);
    if (m === null) return undefined;
    this.at += m[0].length;
    return m[0];
  }
  private skip(pattern: RegExp): void {
    this.match(pattern);
  }
  private take(text: string): boolean {
    if (!this.source.startsWith(text, this.at)) return false;
    this.at += text.length;
    return true;
  }

  /** Inside of parentheses, and behind a bar, lines may end. */
  private alternatives(nested: boolean): Rule {
    const items: Rule[] = [];
    do {
      this.skip(LINES);
      items.push(this.row(nested));
    } while (this.take("|"));
    return choice(...items);
  }
  private row(nested: boolean): Rule {
    const items: Rule[] = [], blank = nested ? LINES : SPACE;
    for (this.skip(blank);; this.skip(blank)) {
      const item = this.item();
      if (item === undefined) return sequence(...items);
      items.push(this.repeated(item));
    }
  }
  private item(): Rule | undefined {
    if (this.take('"')) return text(this.quoted());
    if (this.take("[")) return this.characters();
    if (this.take("(")) return this.group();
    if (this.take(".")) return chars([0, LAST_CODE]);
    // a name before "::=" begins the next rule
    const start = this.at, name = this.match(NAME);
    if (name === undefined) return undefined;
    this.skip(SPACE);
    if (this.source.startsWith("::=", this.at)) {
      this.at = start;
      return undefined;
    }
    this.at = start + name.length;
    return named(name);
  }
  private group(): Rule {
    if (++this.depth > MAX_DEPTH) this.fail(`more than ${MAX_DEPTH} groups stand in each other`);
    const rule = this.alternatives(true);
    if (!this.take(")")) this.fail('")" is missing');
    this.depth--;
    return rule;
  }
  private repeated(item: Rule): Rule {
    for (let out = item;;) {
      this.skip(SPACE);
      if (this.take("*")) out = repeat(out, 0);
      else if (this.take("+")) out = repeat(out, 1);
      else if (this.take("?")) out = maybe(out);
      else if (this.take("{")) out = this.counted(out);
      else return out;
    }
  }
  private counted(item: Rule): Rule {
    const m = this.match(/\s*\d+\s*(?:,\s*\d*\s*)?\}/y);
    if (m === undefined) this.fail('"{" wants "{2}", "{2,}" or "{2,5}"');
    const [min, max] = m.slice(0, -1).split(",").map((s) => s.trim());
    const low = Number(min), high = max === undefined ? low : max === "" ? Infinity : Number(max);
    if (high < low) this.fail(`{${low},${high}} ends before it begins`);
    return repeat(item, low, high);
  }
  /** A character, perhaps escaped. */
  private character(): number {
    if (!this.take("\\")) {
      const code = this.source.codePointAt(this.at);
      if (code === undefined || code === 10) this.fail("the line ends in a text or a class");
      this.at += code > 0xffff ? 2 : 1;
      return code;
    }
    const c = this.source[this.at++] ?? "", digits = HEX[c];
    if (digits !== undefined) {
      const hex = this.source.slice(this.at, this.at + digits), code = parseInt(hex, 16);
      if (!/^[0-9A-Fa-f]+$/.test(hex) || hex.length < digits || code > LAST_CODE) {
        this.fail(`"\\${c}${hex}" is no character`);
      }
      this.at += digits;
      return code;
    }
    if (Object.hasOwn(ESCAPES, c)) return ESCAPES[c].charCodeAt(0);
    if (!/^[\\"\][/^-]$/.test(c)) this.fail(`"\\${c}" means nothing`);
    return c.charCodeAt(0);
  }
  private quoted(): string {
    let out = "";
    while (!this.take('"')) out += String.fromCodePoint(this.character());
    return out;
  }
  private characters(): Rule {
    const other = this.take("^"), ranges: CodeRange[] = [];
    while (!this.take("]")) {
      const low = this.character();
      const isRange = this.source[this.at] === "-" && this.source[this.at + 1] !== "]";
      const high = isRange && this.take("-") ? this.character() : low;
      if (high < low) this.fail("a range ends before it begins");
      ranges.push([low, high]);
    }
    const of = other ? otherChars(ranges) : ranges;
    if (of.length === 0) this.fail("a class of no characters");
    return chars(...of);
  }
}

/**
 * The rules of a text in GBNF.
 *
 * @throws {ArgumentError} with line and column
 */
export function readGbnf(source: string): Grammar {
  return new GbnfReader(source).read();
}
