/**
 * Regular expressions of JSON schemas as rules of the texts in JSON that they match: what has neither memory nor a look
 * around.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import { choice, type CodeRange, otherChars, repeat, type Rule, sequence, text } from "./grammar.ts";
import { ANY_CHAR, jsonChar } from "./json_rules.ts";

const range = (a: string, b = a): CodeRange => [a.codePointAt(0)!, b.codePointAt(0)!];
const SETS: Readonly<Record<string, readonly CodeRange[]>> = {
  d: [range("0", "9")],
  w: [range("0", "9"), range("A", "Z"), range("a", "z"), range("_")],
  s: [
    range(" "),
    [9, 13],
    [0xa0, 0xa0],
    [0x1680, 0x1680],
    [0x2000, 0x200a],
    [0x2028, 0x2029],
    [0x202f, 0x202f],
    [
      0x205f,
      0x205f,
    ],
    [0x3000, 0x3000],
    [0xfeff, 0xfeff],
  ],
};
const CONTROL: Readonly<Record<string, number>> = { n: 10, r: 13, t: 9, f: 12, v: 11, "0": 0 };
const LINE_ENDS: readonly CodeRange[] = [[10, 10], [13, 13], [0x2028, 0x2029]];

class RegexReader {
  private at = 0;
  private depth = 0;
  constructor(private readonly source: string) {}

  /** What stands between the quotes. */
  read(): Rule {
    const any = repeat(jsonChar(ANY_CHAR), 0), rows: Rule[] = [];
    do {
      const begins = this.take("^"), row = this.row(), ends = this.take("$");
      rows.push(sequence(...begins ? [] : [any], row, ...ends ? [] : [any]));
    } while (this.take("|"));
    if (this.at < this.source.length) this.fail();
    return choice(...rows);
  }
  private fail(what = `"${this.source.slice(this.at, this.at + 4)}"`): never {
    throw new ArgumentError("use a JSON schema", {
      reason: `its pattern ${JSON.stringify(this.source)} has ${what} at ${this.at}, which cannot be kept to`,
    });
  }
  private take(s: string): boolean {
    if (!this.source.startsWith(s, this.at)) return false;
    this.at += s.length;
    return true;
  }
  private row(): Rule {
    const items: Rule[] = [];
    for (let item = this.item(); item !== undefined; item = this.item()) items.push(this.repeated(item));
    return sequence(...items);
  }
  private item(): Rule | undefined {
    const c = this.source[this.at];
    if (c === undefined || "|)$".includes(c)) return undefined;
    if (this.take("(")) return this.group();
    if (this.take("[")) return this.characters();
    if (this.take(".")) return jsonChar(otherChars(LINE_ENDS));
    if ("^*+?{}".includes(c)) this.fail();
    return jsonChar(this.take("\\") ? this.escaped() : [this.literal()]);
  }
  private literal(): CodeRange {
    const code = this.source.codePointAt(this.at);
    if (code === undefined) this.fail("an end");
    this.at += code > 0xffff ? 2 : 1;
    return [code, code];
  }
  private escaped(): readonly CodeRange[] {
    const c = this.source[this.at++] ?? "";
    if (Object.hasOwn(SETS, c)) return SETS[c];
    if (Object.hasOwn(SETS, c.toLowerCase())) return otherChars(SETS[c.toLowerCase()]);
    if (Object.hasOwn(CONTROL, c)) return [[CONTROL[c], CONTROL[c]]];
    const digits = c === "x" ? 2 : c === "u" ? 4 : 0, hex = this.source.slice(this.at, this.at + digits);
    if (digits > 0 && hex.length === digits && /^[0-9A-Fa-f]+$/.test(hex)) {
      this.at += digits;
      return [[parseInt(hex, 16), parseInt(hex, 16)]];
    }
    if (!/^[^\w\s]$/.test(c)) this.fail(`"\\${c}"`);
    return [range(c)];
  }
  private group(): Rule {
    if (++this.depth > 100) this.fail("more than 100 groups in each other");
    if (this.source[this.at] === "?" && !this.take("?:")) this.fail();
    const rows = [this.row()];
    while (this.take("|")) rows.push(this.row());
    if (!this.take(")")) this.fail();
    this.depth--;
    return choice(...rows);
  }
  private characters(): Rule {
    const other = this.take("^"), ranges: CodeRange[] = [];
    const one = (): readonly CodeRange[] =>
      this.take("\\") ? this.take("b") ? [[8, 8]] : this.escaped() : [this.literal()];
    while (!this.take("]")) {
      const low = one();
      if (this.source[this.at] !== "-" || this.source[this.at + 1] === "]") ranges.push(...low);
      else {
        this.at++;
        ranges.push([low[0][0], one()[0][1]]);
      }
    }
    const of = other ? otherChars(ranges) : ranges;
    if (of.length === 0 || of.some(([a, b]) => a > b)) this.fail("a class of no characters");
    return jsonChar(of);
  }
  private repeated(item: Rule): Rule {
    const m = /^(?:[*+?]|\{(\d+)(,?)(\d*)\})\??/.exec(this.source.slice(this.at, this.at + 40));
    if (m === null) return item;
    this.at += m[0].length;
    const [, low, comma, high] = m, sign = m[0][0];
    if (sign !== "{") return repeat(item, sign === "+" ? 1 : 0, sign === "?" ? 1 : Infinity);
    const min = Number(low), max = comma === "" ? min : high === "" ? Infinity : Number(high);
    if (max < min) this.fail("a repetition that ends before it begins");
    return repeat(item, min, max);
  }
}

/** A text in quotes that the pattern matches. @throws {ArgumentError} for what is no pattern, or has a look around */
export function patternText(pattern: string): Rule {
  return sequence(text('"'), new RegexReader(pattern).read(), text('"'));
}
