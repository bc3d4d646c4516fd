/** Graphs of the page: how long it takes to place them. */
import { assert } from "@std/assert";
import { graphOfNodes, graphSvg, layoutGraph } from "../../../src/story/viz/page_graph.ts";
import { graph } from "./graphs.ts";

Deno.test("page graph: 400 boxes are placed at once", () => {
  const nodes = graph(460, 5).map((n) => ({ ...n, op: "ADD" })), spec = graphOfNodes(nodes, nodes.keys(), () => "new");
  const start = performance.now();
  graphSvg(spec, layoutGraph(spec));
  assert(performance.now() - start < 1000);
});
