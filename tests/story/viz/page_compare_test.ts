/** Two recordings compared: kernels that do the same are twins, and what differs is told, as rows and in the page. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { context, record, Tensor } from "../../../mod.ts";
import { jsonLines } from "../../../src/story/json_lines.ts";
import { differencesHtml, runsOf, twinsOf } from "../../../src/story/viz/page_compare.ts";
import type { Ui } from "../../../src/story/viz/page_parts.ts";
import { kernelHtml } from "../../../src/story/viz/page_views.ts";
import { inFolder } from "../../support/folder.ts";
import { runDeno } from "../../system/subprocess.ts";
import { type VizData, vizData } from "../../../src/story/viz/viz_data.ts";

/** Sums of rows and a sine; `isOther` also has a cosine, in place of a tangent. */
function recorded(title: string, noopt: number, isOther: boolean): VizData {
  const recording = context({ SCACHE: 0, NOOPT: noopt, DEV: "WASM" }, () =>
    record(() => {
      const x = Tensor.ones([48, 40]).contiguous().realize();
      x.add(0.5).contiguous().sum(1).realize();
      x.sin().realize();
      (isOther ? x.cos().sub(x) : x.tan().mul(x).sum()).realize();
    }));
  return JSON.parse(JSON.stringify(vizData(recording, title)));
}

const one = recorded("one", 0, false), again = recorded("again", 0, false), two = recorded("two", 1, true);

Deno.test("viz compare: a program recorded twice is the same", () => {
  const { of, left, differ } = twinsOf(one, again);
  assertEquals(of, one.kernels.map((_, i) => i));
  assertEquals([left, differ.flat(), jsonLines(one, "differences", again)], [[], [], []]);
});

Deno.test("viz compare: kernels go by what they compute, and what differs is named", () => {
  const { of, left, differ } = twinsOf(one, two), back = twinsOf(two, one);
  const alone = one.kernels.filter((_, i) => of[i] === undefined).length;
  assert(alone >= 1 && left.length >= 1 && alone < one.kernels.length);
  of.forEach((j, i) => {
    if (j === undefined) return;
    assertEquals(back.of[j], i, "twins are each other's");
    const [a, b] = [one.kernels[i], two.kernels[j]];
    assertEquals(differ[i].includes("opts"), a.opts !== b.opts);
    assertEquals(differ[i].includes("source"), a.source !== b.source);
    assertEquals([a.device, differ[i].includes("AST")], [b.device, false], a.name);
  });
  assert(differ.some((d) => d.includes("opts") && d.includes("source")));
  const rows = jsonLines(one, "differences", two).map((line) => JSON.parse(line));
  const count = (what: string): number => rows.filter((r) => r.differ.includes(what)).length;
  assertEquals([count("here alone"), count("there alone")], [alone, left.length]);
  const row = rows.find((r) => r.differ.includes("opts"));
  assert(row.opts !== row.was.opts && row.timeMs > 0 && row.was.timeMs > 0, JSON.stringify(row));
});

Deno.test("viz compare: the page counts what differs, and links each comparison", () => {
  const twins = twinsOf(one, two), runs = runsOf(one), at = twins.differ.findIndex((d) => d.includes("opts"));
  const ui = { data: one, other: two, twins, runs, selection: {}, graphs: new Map(), graphCount: 0 } as unknown as Ui;
  const html = differencesHtml(ui), same = twins.of.filter((j, i) => j !== undefined && twins.differ[i].length === 0);
  assertMatch(html, new RegExp(`Beside two: ${same.length} kernels are the same, \\d+ differ, \\d+ are here alone`));
  assert(html.includes(`href="#kernel=${at}&other=b${twins.of[at]}"`), html);
  ui.selection = { kernel: String(at), other: `b${twins.of[at]}` };
  const compared = kernelHtml(ui, at);
  assertMatch(compared, /In two: <a [^>]+>[^<]+<\/a>, another opts, source\./);
  assertMatch(
    compared,
    /<h3>opts<\/h3>.*<h3>AST<\/h3><p class="quiet">no difference<\/p><h3>passes<\/h3><pre class="diff">.*<h3>source<\/h3>/s,
  );
  assertMatch(compared, /A launch takes [\d.]+ [mµ]s; that of \w+ [\d.]+ [mµ]s\./);
});

Deno.test("viz compare: deno task viz --json FILE differences --with OTHER", () =>
  inFolder(async (folder) => {
    for (const [name, data] of [["a", one], ["b", { ...two, title: "one" }]] as const) {
      await Deno.writeTextFile(`${folder}/${name}.json`, JSON.stringify(data));
    }
    const viz = (...args: string[]): ReturnType<typeof runDeno> =>
      runDeno(["run", "-A", "--no-check", "bench/viz.ts", ...args]);
    const both = [`${folder}/a.json`, "--with", `${folder}/b.json`], what = ["--json", ...both, "differences"];
    const { code, stdout } = await viz(...what);
    assertEquals([code, stdout.trim().split("\n")], [0, jsonLines(one, "differences", two)]);
    const without = await viz("--json", `${folder}/a.json`, "differences");
    assertEquals(without.code, 2);
    assertMatch(without.stderr, /differences --with OTHER/);
    const gone = await viz("--json", `${folder}/a.json`, "differences", "--with", `${folder}/c.json`);
    assertEquals(gone.code, 1);
    assertMatch(gone.stderr, /c\.json/);
    assertEquals((await viz(...both, "--out", `${folder}/page.html`)).code, 0);
    assert((await Deno.stat(`${folder}/page.html`)).size > 50_000);
  }));
