/** What VIZ shows as data, and as JSON lines: complete, without values, with relative paths; other files are refused. */
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { context, FormatError, jit, record, Tensor } from "../../../mod.ts";
import { jsonLines } from "../../../src/story/json_lines.ts";
import { parseVizData, type VizData, vizData } from "../../../src/story/viz/viz_data.ts";
import { optimized } from "../../fixtures/optimized.ts";

const secret = 1234.5625;

let known: VizData | undefined;
const recorded = (): VizData => known ??= make();
const make = optimized((): VizData => {
  const x = new Tensor([secret, 2, 3, 4], { device: "WASM" });
  const step = jit((t: Tensor) => t.mul(2.5).add(1).sum());
  const recording = context({ SCACHE: 0 }, () =>
    record(() => {
      x.exp().contiguous().add(x).realize();
      for (let i = 0; i < 3; i++) step(x).realize();
      return x.dataSync();
    }));
  return JSON.parse(JSON.stringify(vizData(recording, "some")));
});

Deno.test("viz data: passes, kernels, schedules and events refer to each other", () => {
  const data = recorded(), { nodes, works, kernels, schedules, events, passes } = data;
  assert(kernels.length >= 2 && schedules.length >= 2 && passes.length > 20);
  for (const p of passes) assert(p.before < nodes.length && p.after < nodes.length && (p.of ?? 0) < works.length);
  for (const k of kernels) {
    assertEquals(works[k.work!].kind, "kernel");
    assertEquals(works[k.work!].name, k.name);
    assert(k.uops.length > 3 && k.source.length > 10 && k.uops.every((n) => n < nodes.length));
    assert(k.lines.every((l) => /^tests\/story\/viz\/viz_data_test\.ts:\d+:\d+$/.test(l)), k.lines.join());
  }
  assert(kernels.some((k) => k.lines.length > 0) && kernels.some((k) => k.ast !== undefined));
  // lines as a tree, callers before what they call
  assert(data.places.length > 0 && data.places.every((p, i) => (p.parent ?? -1) < i && /_test\.ts:\d+$/.test(p.line)));
  assert(kernels.every((k) => k.places.every((p) => k.lines.some((l) => l.startsWith(data.places[p].line)))));
  assert(data.places.some((p) => p.text === "x.exp().contiguous().add(x).realize();"));
  for (const s of schedules) {
    for (const step of s.steps) {
      assert(step.buffers.every((b) => b < s.buffers.length) && step.writes.every((b) => step.buffers.includes(b)));
      assertEquals(step.kind === "kernel", step.kernel !== undefined);
    }
  }
  const kinds = new Set(events.map((e) => e.kind));
  for (const kind of ["trace", "schedule", "lower", "compile", "run", "replay", "launch", "read"] as const) {
    assert(kinds.has(kind), kind);
  }
  assert(events.filter((e) => e.kind === "launch").every((e) => kernels[e.kernel!].name === e.name));
  assertEquals(data.dropped, 0);
});

Deno.test("viz data: no values, no paths of the machine", () => {
  const text = JSON.stringify(recorded());
  assert(!text.includes(String(secret)));
  assert(!text.includes(Deno.cwd()) && !text.includes("file://"));
});

Deno.test("viz data: as JSON lines", () => {
  const data = recorded();
  const rows = (["passes", "kernels", "notes", "timeline"] as const).map((k) =>
    jsonLines(data, k).map((l) => JSON.parse(l))
  );
  assertEquals(rows.map((r) => r.length), [
    data.passes.length,
    data.kernels.length,
    0,
    data.events.length + data.passes.length,
  ]);
  const rules = rows[0].flatMap((r) => Object.keys(r.rules));
  assert(rules.some((r) => /\(src\/\S+\.ts:\d+:\d+\)$/.test(r)), rules.join("; "));
  assert(rows[0].some((r) => r.of === "schedule 1" || /^schedule \d+$/.test(r.of)));
  assert(rows[1].every((r) => r.launches >= 0 && r.source.length > 0));
  rows[3].forEach((r, i) => assert(i === 0 || r.startMs >= rows[3][i - 1].startMs));
});

Deno.test("viz data: other files are refused, and why", () => {
  for (
    const [text, reason] of [
      ["{", /it is no JSON: /],
      ["[1]", /it is no recording; VIZ=name\.json makes one/],
      ["null", /it is no recording/],
      [`{"format":"dinograd recording","version":99}`, /it is of version 99, and this is version \d+: record it again/],
    ] as const
  ) assertMatch(assertThrows(() => parseVizData(text, "a.json"), FormatError).message, reason);
  assertEquals(parseVizData(JSON.stringify(recorded()), "a.json").title, "some");
});
