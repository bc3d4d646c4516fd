/** Text of the page: expressions, trees, comparisons, units. */
import { assert, assertEquals } from "@std/assert";
import { escapeHtml } from "../../../src/helpers/text.ts";
import type { NodeData } from "../../../src/uop/core/recording.ts";
import {
  countedText,
  diffHtml,
  diffLines,
  exprOf,
  nodeLabel,
  sourceHtml,
  timeText,
  treeLines,
} from "../../../src/story/viz/page_text.ts";

const node = (op: string, src: number[], arg?: string): NodeData => ({ op, dtype: "int32", src, arg });
const NODES = [
  node("VARIABLE", [], "a"),
  node("CONST", [], "2"),
  node("MUL", [0, 1]),
  node("ADD", [2, 0]),
  node("EXP2", [3]),
  node("WHERE", [0, 4, 1]),
];

Deno.test("page text: nodes as expressions", () => {
  assertEquals([3, 4, 5].map((n) => exprOf(NODES, n, 9)), [
    "((a * 2) + a)",
    "exp2(((a * 2) + a))",
    "(a ? exp2(((a * 2) + a)) : 2)",
  ]);
  assertEquals([exprOf(NODES, 5, 1), nodeLabel(NODES, 2), nodeLabel(NODES, 0)], ["(a ? … : 2)", "MUL 2", "VARIABLE a"]);
});

Deno.test("page text: nodes as a tree, each once, cut at a limit", () => {
  assertEquals(treeLines(NODES, [3], 99).map((l) => l.text), [
    "ADD int32",
    "  MUL int32",
    "    VARIABLE a int32",
    "    CONST 2 int32",
    "  VARIABLE a int32",
  ]);
  assertEquals(treeLines(NODES, [4, 3], 99).filter((l) => l.text.includes("as above")).length, 1);
  assertEquals(treeLines(NODES, [3], 2).at(-1)!.text, "… more than 2 lines");
});

Deno.test("page text: lines compared give both texts back, with as little as differs", () => {
  const texts: [string, string, number][] = [
    ["", "", 0],
    ["a b c", "a b c", 0],
    ["a b c", "a x c", 2],
    ["a b c d e", "b c e f", 3],
    ["x x x", "x", 2],
    ["a b", "c d", 4],
  ];
  for (const [a, b, changes] of texts) {
    const lines = diffLines(a.split(" "), b.split(" "));
    assertEquals(lines.filter((l) => l.sign !== "+").map((l) => l.text).join(" "), a);
    assertEquals(lines.filter((l) => l.sign !== "-").map((l) => l.text).join(" "), b);
    assertEquals(lines.filter((l) => l.sign !== " ").length, changes, `${a} | ${b}`);
  }
  const long = Array.from({ length: 3000 }, (_, i) => `a${i}`), other = long.map((t) => `${t}b`);
  assertEquals(diffLines(long, other).length, 6000);
  assertEquals(diffHtml(diffLines(["a"], ["a"])), `<p class="quiet">no difference</p>`);
  assert(diffHtml(diffLines(["<a>"], ["b"])).includes("&#60;a&#62;"));
});

Deno.test("page text: source is colored, and stays what it is", () => {
  const source = `// a < b\nfloat x = 1.5e-3f; if (a[0] & 0xff) "te\\"xt"; /* c */`;
  const html = sourceHtml(source), text = html.replace(/<\/?i[^>]*>/g, "");
  assertEquals(text, escapeHtml(source));
  for (const kind of ["comment", "word", "number", "text"]) assert(html.includes(`class="${kind}"`), kind);
});

Deno.test("page text: units", () => {
  assertEquals([0.0004, 0.25, 3.14159, 250, 61_000].map(timeText), [
    "0.4 µs",
    "250 µs",
    "3.14 ms",
    "250 ms",
    "61.00 s",
  ]);
  assertEquals([0, 999, 1500, 2_345_678].map((n) => countedText(n, "B")), ["0 B", "999 B", "1.50 kB", "2.35 MB"]);
});
