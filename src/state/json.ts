/**
 * A strict JSON reader for file headers: unlike `JSON.parse` it rejects duplicate keys, and it gives objects as Maps,
 * so that no key ("__proto__") is special.
 *
 * @module
 */

/** A JSON value; objects are Maps in the order of the text. */
export type Json = string | number | boolean | null | readonly Json[] | ReadonlyMap<string, Json>;

const MAX_DEPTH = 32;

/** Reads the tokens of one text. */
class Reader {
  private at = 0;
  constructor(private readonly text: string) {}

  private fail(what: string): never {
    throw new SyntaxError(`${what} at character ${this.at}`);
  }
  private space(): void {
    while (" \t\n\r".includes(this.text[this.at] ?? "x")) this.at++;
  }
  private take(c: string): boolean {
    this.space();
    if (this.text[this.at] !== c) return false;
    this.at++;
    return true;
  }
  private token(pattern: RegExp, what: string): string {
    this.space();
    pattern.lastIndex = this.at;
    const m = pattern.exec(this.text);
    if (m === null) this.fail(what);
    this.at += m[0].length;
    return m[0];
  }
  private string(): string {
    if (this.text[this.at] !== '"') this.fail("no string");
    // to the first quote after an even number of backslashes; a regular expression runs out of stack on long strings
    let end = this.at;
    for (let escaped = true; escaped;) {
      end = this.text.indexOf('"', end + 1);
      if (end < 0) this.fail("no string: it does not end");
      let back = end;
      while (this.text[back - 1] === "\\") back--;
      escaped = (end - back) % 2 === 1;
    }
    try {
      const value = JSON.parse(this.text.slice(this.at, end + 1)) as string;
      this.at = end + 1;
      return value;
    } catch {
      this.fail("no string that JSON allows");
    }
  }

  value(depth: number): Json {
    if (depth > MAX_DEPTH) this.fail("nested too deeply");
    if (this.take("{")) {
      const map = new Map<string, Json>();
      if (this.take("}")) return map;
      do {
        this.space();
        const key = this.string();
        if (map.has(key)) this.fail(`duplicate key ${JSON.stringify(key)}`);
        if (!this.take(":")) this.fail("no colon");
        map.set(key, this.value(depth + 1));
      } while (this.take(","));
      if (!this.take("}")) this.fail("no closing brace");
      return map;
    }
    if (this.take("[")) {
      const list: Json[] = [];
      if (this.take("]")) return list;
      do list.push(this.value(depth + 1)); while (this.take(","));
      if (!this.take("]")) this.fail("no closing bracket");
      return list;
    }
    this.space();
    if (this.text[this.at] === '"') return this.string();
    const word = this.token(/true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y, "no value");
    return JSON.parse(word) as number | boolean | null;
  }
  end(): void {
    this.space();
    if (this.at < this.text.length) this.fail("text after the value");
  }
}

/** The value of `text`. @throws {SyntaxError} saying what is wrong, and where */
export function parseJson(text: string): Json {
  const reader = new Reader(text), value = reader.value(0);
  reader.end();
  return value;
}
