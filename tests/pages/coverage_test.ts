/** docs/coverage.md accounts for every row of the parity table, in order, and the table has lost none. */
import { assert, assertEquals } from "@std/assert";
import { PARITY } from "./parity.ts";

const page = await Deno.readTextFile(new URL("../../docs/coverage.md", import.meta.url));

/** Rows of each section of tinygrad's list. */
const COUNTS: Readonly<Record<string, number>> = {
  "1.1": 23,
  "1.2": 17,
  "1.3": 28,
  "1.4": 24,
  "1.5": 57,
  "1.6": 26,
  "1.7": 21,
  "1.8": 5,
  "1.9": 23,
  "1.10": 10,
  "1.11": 5,
  "1.12": 3,
  "1.13": 2,
  "1.14": 2,
  "1.15": 16,
  "1.16": 18,
  "1.17": 12,
  "1.18": 9,
  "1.19": 7,
  "2.1": 13,
  "2.2": 8,
  "2.3": 14,
  "2.4": 3,
  "3.1": 21,
  "3.2": 11,
  "3.3": 19,
  "3.4": 11,
};

/** The rows of a section of the page: what, and where values are checked. */
function rowsOf(title: string): [what: string, where: string][] {
  const from = page.indexOf(`### ${title}\n`), to = page.indexOf("\n### ", from + 1);
  return page.slice(from, to).split("\n").filter((l) => l.startsWith("| `")).map((l) => {
    // in a table a bar within code is escaped
    const [, what, where] = l.split(/(?<!\\)\|/);
    return [/`(.*)`/.exec(what)![1], where.trim()];
  });
}

Deno.test("coverage: the parity table has every section and row", () => {
  assertEquals(Object.fromEntries(PARITY.map(({ number, rows }) => [number, rows.length])), COUNTS);
});

Deno.test("coverage: the tests that rows name are those that the suite holds true", async () => {
  const asserted: Record<string, [string, string]> = JSON.parse(
    await Deno.readTextFile(new URL("asserted.json", import.meta.url)),
  );
  const named = PARITY.flatMap(({ number, title }) => rowsOf(`${number} ${title}`))
    .filter(([, where]) => /^\S+\.ts: /.test(where)).map(([what, where]) => [what, where.replaceAll("\\|", "|")]);
  const listed = new Map(Object.entries(asserted).map(([what, [file, name]]) => [what, `${file}: ${name}`]));
  for (const [what, where] of named) assertEquals(where, listed.get(what), what);
  assertEquals(new Set(named.map(([what]) => what)), new Set(listed.keys()));
  for (const [file, name] of Object.values(asserted)) {
    const text = await Deno.readTextFile(new URL(`../${file}`, import.meta.url));
    assert(text.includes("Deno.test("), `${file} has no test, so not ${name}`);
  }
});

for (const { number, title, rows } of PARITY) {
  Deno.test(`coverage: section ${number} of the page`, () => {
    const found = rowsOf(`${number} ${title}`);
    assertEquals(found.map(([what]) => what), rows.map(([name]) => name));
    assertEquals(found.filter(([, where]) => where === "" || where.startsWith("not yet")), []);
  });
}
