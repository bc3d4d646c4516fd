/** Graphs of the page: what is drawn, and where. */
import { assert, assertEquals } from "@std/assert";
import {
  below,
  graphOfNodes,
  type GraphSpec,
  graphSvg,
  layoutGraph,
  nearNodes,
} from "../../../src/story/viz/page_graph.ts";
import type { NodeData } from "../../../src/uop/core/recording.ts";
import { graph } from "./graphs.ts";

function check(spec: GraphSpec): void {
  const placed = layoutGraph(spec), at = new Map(spec.boxes.map((b, i) => [b.id, placed.places[i]] as const));
  for (const [from, to] of spec.edges) assert(at.get(from)!.y + 26 < at.get(to)!.y, "sources stand above");
  const layers = Map.groupBy(placed.places, (p) => p.y);
  for (const layer of layers.values()) {
    const sorted = layer.toSorted((a, b) => a.x - b.x);
    sorted.forEach((p, i) => assert(i === 0 || sorted[i - 1].x + sorted[i - 1].width <= p.x, "boxes stand apart"));
  }
  for (const p of placed.places) {
    assert(p.x >= 0 && p.x + p.width <= placed.width && p.y >= 0 && p.y + 26 <= placed.height, "within the picture");
  }
}

Deno.test("page graph: boxes stand apart, below what they come from, within the picture", () => {
  for (let seed = 1; seed <= 12; seed++) {
    const nodes = graph(1 + seed * 9, seed), shown = below(nodes, [nodes.length - 1], 1000)!;
    check(graphOfNodes(nodes, shown, () => ""));
  }
  check({ boxes: [], edges: [] });
  check({ boxes: [{ id: 4, label: "alone", look: "" }], edges: [] });
});

Deno.test("page graph: a graph with a cycle, which is none, is laid out too", () => {
  const boxes = [0, 1, 2].map((id) => ({ id, label: `b${id}`, look: "" }));
  const { places } = layoutGraph({ boxes, edges: [[0, 1], [1, 2], [2, 1], [2, 2], [7, 0]] });
  assert(places.every((p) => Number.isFinite(p.x) && Number.isFinite(p.y)));
});

Deno.test("page graph: what is below, and what is near", () => {
  const n = (op: string, ...src: number[]): NodeData => ({ op, dtype: "int32", src });
  const nodes = [n("PARAM"), n("CONST"), n("ADD", 0, 1), n("MUL", 2, 2), n("EXP2", 3)];
  assertEquals([...below(nodes, [3], 9)!].sort(), [0, 2, 3]);
  assertEquals([below(nodes, [4], 2), nearNodes(nodes, [3], 2)], [undefined, [3, 2]]);
  assertEquals(nearNodes(nodes, [2], 9, new Map([[2, [3]], [3, [4]]])), [2, 0, 3, 4]);
  const svg = graphSvg(
    { boxes: [{ id: 0, label: `<b>&"`, look: "new", href: `#a"b` }], edges: [] },
    layoutGraph({ boxes: [{ id: 0, label: "x", look: "" }], edges: [] }),
  );
  assert(svg.includes("&#60;b&#62;") && !svg.includes(`#a"b`));
});
