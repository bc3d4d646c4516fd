/** A recording as JSON: from it alone every graph and every replacement can be drawn again. */
import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import { PatternMatcher, rule } from "../../../src/uop/rewrite/matcher.ts";
import { opName } from "../../../src/uop/core/ops.ts";
import { argText, printUOp } from "../../../src/uop/core/print.ts";
import type { NodeData, RecordingData } from "../../../src/uop/core/recording.ts";
import { record } from "../../../src/uop/rewrite/record.ts";
import { graphRewrite } from "../../../src/uop/rewrite/rewrite.ts";
import { UPat } from "../../../src/uop/rewrite/upat.ts";
import { sink, toposort, variable } from "../../../src/uop/core/uop.ts";
import { context, Tensor } from "../../../mod.ts";
import { optimized } from "../../fixtures/optimized.ts";

const x = UPat.var("x"), c0 = UPat.cvar("c0"), c1 = UPat.cvar("c1");
const a = variable("a", 0, 9);
const pm = new PatternMatcher("fold", [
  rule(x.add(0), ({ x }) => x, "x+0"),
  rule(x.add(c0).add(c1), ({ x, c0, c1 }) => x.add(c0.value + c1.value), "constants"),
]);

Deno.test("recording: nodes, rules and passes by number", () => {
  const recording = record(() => graphRewrite(sink([a.add(1).add(2), a.add(0)]), pm));
  assertStrictEquals(recording.result, sink([a.add(3), a]));
  const data: RecordingData = JSON.parse(JSON.stringify(recording));
  const node = (op: string, src: number[], arg?: string): NodeData => ({
    op,
    dtype: op === "SINK" ? "void" : "int32",
    src,
    ...(arg === undefined ? {} : { arg }),
  });
  assertEquals(data.nodes, [
    node("VARIABLE", [], "a[0, 9]"),
    node("CONST", [], "1"),
    node("ADD", [0, 1]),
    node("CONST", [], "2"),
    node("ADD", [2, 3]),
    node("CONST", [], "0"),
    node("ADD", [0, 5]),
    node("SINK", [4, 6]),
    node("CONST", [], "3"),
    node("ADD", [0, 8]),
    node("SINK", [9, 0]),
  ]);
  assertEquals(data.rules.map((r) => r.name), ["constants", "x+0"]);
  for (const { line } of data.rules) assert(/^tests\/uop\/core\/recording_test\.ts:\d+:\d+$/.test(line!), line);
  const [{ timeMs, startMs, ...pass }] = data.passes;
  assertEquals([data.passes.length, startMs, data.works], [1, 0, []]);
  assert(timeMs >= 0);
  assertEquals(pass, { name: "fold", depth: 0, before: 7, after: 10, changes: [[0, 4, 9], [1, 6, 0]] });
});

/** The lines of the graph below `root`, as `printUOp` has them, from data alone. */
function draw(nodes: readonly NodeData[], root: number): string {
  const order: number[] = [], seen = new Set<number>();
  const visit = (n: number): void => {
    if (seen.has(n)) return;
    seen.add(n);
    nodes[n].src.forEach(visit);
    order.push(n);
  };
  visit(root);
  const width = String(order.length).length;
  return order.map((n, i) => {
    const { op, dtype, src, arg } = nodes[n];
    const refs = src.length === 0 ? "" : ` (${src.map((s) => order.indexOf(s)).join(", ")})`;
    return `${String(i).padStart(width)} ${op.padEnd(10)} ${dtype.padEnd(9)}${refs}${
      arg === undefined ? "" : ` ${arg}`
    }`;
  }).join("\n");
}

Deno.test(
  "recording: a whole realize can be drawn again",
  optimized(() => {
    const device = "NULL";
    const t = Tensor.empty([12, 16], { device }).softmax(-1).matmul(Tensor.empty([16, 8], { device })).relu();
    const recording = context({ SCACHE: 0 }, () => record(() => t.realize()));
    const data: RecordingData = JSON.parse(JSON.stringify(recording));
    assertEquals(data.passes.length, recording.passes.length);
    for (
      const name of [
        "fold",
        "fuse",
        "rangeify",
        "plan memory",
        "fold tensors",
        "simplify ranges",
        "apply opts",
        "expand, lower reduces",
        "late rules",
      ]
    ) {
      assert(data.passes.some((p) => p.name === name), `no pass "${name}"`);
    }
    data.nodes.forEach((n, i) => assert(n.src.every((s) => s < i), "sources come first"));
    let changes = 0;
    recording.passes.forEach((p, i) => {
      const d = data.passes[i];
      assertEquals([d.name, d.depth, d.changes.length], [p.name, p.depth, p.changes.length]);
      if (toposort(p.after).length < 400) {
        assertEquals(draw(data.nodes, d.before), printUOp(p.before, Infinity));
        assertEquals(draw(data.nodes, d.after), printUOp(p.after, Infinity));
      }
      p.changes.forEach(({ rule, from, to }, k) => {
        const [r, f, t] = d.changes[k];
        assertEquals(data.rules[r].name, rule);
        for (const [u, n] of [[from, f], [to, t]] as const) {
          assertEquals([data.nodes[n].op, data.nodes[n].arg ?? ""], [opName[u.op], argText(u)]);
        }
        changes++;
      });
    });
    assert(changes > 20, `${changes} changes`);
  }),
);

Deno.test("recording: passes belong to schedules and kernels, and what took time is told", () => {
  const device = "NULL", t = Tensor.empty([9, 7], { device }), u = t.add(1.75).sum(1).contiguous().mul(t.exp().sum());
  const recording = optimized(() => context({ SCACHE: 0 }, () => record(() => u.realize())))();
  const { passes, works } = JSON.parse(JSON.stringify(recording)) as RecordingData;
  const kernels = works.filter((w) => w.kind === "kernel"), schedules = works.filter((w) => w.kind === "schedule");
  assertEquals([schedules.length, kernels.length], [1, 2]);
  assert(kernels.every((k) => k.device === device && /^\w+_\d/.test(k.name)), JSON.stringify(kernels));
  assertEquals(kernels.map((k) => k.number - kernels[0].number), [0, 1]);
  const kindOf = (name: string) => works[passes.find((p) => p.name === name)!.of!].kind;
  assertEquals(["fuse", "plan memory", "apply opts", "late rules"].map(kindOf), [
    "schedule",
    "schedule",
    "kernel",
    "kernel",
  ]);
  for (const [i, p] of passes.entries()) assert(i === 0 || p.startMs >= passes[i - 1].startMs);
  const kinds = recording.events.map((e) => e.kind).filter((k) => k !== "pass");
  assertEquals(kinds, ["schedule", "lower", "lower", "compile", "launch", "launch", "run"]);
  for (const e of recording.events) assert(e.endMs >= e.startMs, e.name);
  const lowered = recording.events.filter((e) => e.kind === "lower").map((e) => e.name);
  assertEquals(lowered, kernels.map((k) => k.name));
  assertEquals(recording.events.filter((e) => e.kind === "launch").every((e) => lowered.includes(e.name)), true);
});

Deno.test("recording: lines of the program are recorded while it listens", () => {
  const recording = record(() => Tensor.empty([5], { device: "NULL" }).add(2.25).mul(3.5).realize());
  const { nodes } = JSON.parse(JSON.stringify(recording)) as RecordingData;
  const lines = new Set(nodes.map((n) => n.line).filter((l) => l !== undefined));
  assert(lines.size > 0);
  for (const line of lines) assert(/^tests\/uop\/core\/recording_test\.ts:\d+:\d+$/.test(line!), line);
});
