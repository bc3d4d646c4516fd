/**
 * Pictures of what was written and what came of it: `graph(t)` for a tensor's graph or its schedule, GRAPH=1 for all of a
 * program. In: nodes or steps; out: DOT for Graphviz, and SVG drawn here.
 *
 * @module
 */
import { accessOf } from "../engine/exec.ts";
import { CompiledKernel, type ExecItem } from "../engine/front/runners.ts";
import { scheduleItems } from "../engine/realize_nodes.ts";
import { ArgumentError, byteText } from "../helpers/errors.ts";
import { checkChoice, checkOptions } from "../helpers/options.ts";
import { TensorBase } from "../tensor/handle/base.ts";
import { RecordingTable } from "../uop/core/recording.ts";
import type { UOp } from "../uop/core/uop.ts";
import { below, graphOfNodes, type GraphSpec, graphSvg, layoutGraph, nearNodes } from "./viz/page_graph.ts";

/** Boxes that a picture has at most. */
const MAX_BOXES = 400;

const STYLE =
  "<style>.picture{background:#fff}.edges path{fill:none;stroke:#8b959e}.box rect{fill:#f6f8fa;stroke:#c4ccd4}" +
  ".box.leaf rect{stroke-dasharray:3 2}.box.new rect{fill:#d6f5dd}.box text{font:12px monospace;text-anchor:middle}</style>";

/** A graph as a picture: notebooks show it, `String()` gives DOT. */
export class Picture {
  /** For Graphviz: all nodes. */
  readonly dot: string;
  /** A picture of at most 400 nodes. */
  readonly svg: string;

  /** Internal: use {@linkcode graph}. @param whole all boxes @param shown those that are drawn */
  constructor(whole: GraphSpec, shown: GraphSpec) {
    this.dot = dotText(whole);
    const left = whole.boxes.length - shown.boxes.length;
    const note = left <= 0 ? "" : `<text x="8" y="14" font-size="12">and ${left} nodes more</text>`;
    const svg = graphSvg(shown, layoutGraph(shown));
    this.svg = svg.replace(/data-width="(\d+)">/, `width="$1">${STYLE}${note}`);
  }
  /** DOT. */
  toString(): string {
    return this.dot;
  }
}

Object.defineProperty(Picture.prototype, Symbol.for("Jupyter.display"), {
  value(this: Picture): Record<string, string> {
    return { "image/svg+xml": this.svg, "text/plain": this.dot };
  },
});

function quoted(text: string): string {
  return `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
}

function dotText({ boxes, edges }: GraphSpec): string {
  const nodes = boxes.map((b) => `  n${b.id} [label=${quoted(b.label)}${b.look === "leaf" ? ", style=dashed" : ""}];`);
  const arrows = edges.map(([from, to]) => `  n${from} -> n${to};`);
  return ["digraph {", "  node [shape=box, fontname=monospace];", ...nodes, ...arrows, "}", ""].join("\n");
}

/** The graph below some nodes. */
export function nodesPicture(roots: readonly UOp[]): Picture {
  const table = new RecordingTable(), tops = roots.map((u) => table.node(u)), { nodes } = table;
  const look = (n: number): string => tops.includes(n) ? "new" : "";
  const all = graphOfNodes(nodes, below(nodes, tops, Infinity)!, look);
  return new Picture(
    all,
    all.boxes.length <= MAX_BOXES ? all : graphOfNodes(nodes, nearNodes(nodes, tops, MAX_BOXES), look),
  );
}

/** Steps and the buffers that go from one to another. */
export function stepsPicture(items: readonly ExecItem[]): Picture {
  const writer = new Map<unknown, number>(), edges: [number, number][] = [];
  const boxes = items.map((item, id) => {
    const { runner } = item, { reads, writes } = accessOf(item);
    for (const b of new Set(reads)) {
      const from = writer.get(b);
      if (from !== undefined && from !== id) edges.push([from, id]);
    }
    for (const b of writes) writer.set(b, id);
    const isKernel = runner instanceof CompiledKernel;
    return { id, label: isKernel ? runner.name : `${runner.kind} ${byteText(item.bufs[0]?.nbytes ?? 0)}`, look: "" };
  });
  const isShown = (n: number): boolean => n < MAX_BOXES;
  return new Picture({ boxes, edges }, {
    boxes: boxes.slice(0, MAX_BOXES),
    edges: edges.filter(([from, to]) => isShown(from) && isShown(to)),
  });
}

/** Options of {@linkcode graph}. */
export interface GraphOptions {
  /** What is drawn: the graph as it was written, or the steps that it comes to. Default "tensors". */
  readonly of?: "tensors" | "schedule";
}

/**
 * A picture of the graph of tensors, or of the schedule that they come to; nothing runs. Notebooks show it; `svg` and `dot`
 * are its text.
 *
 * ```ts
 * import { Tensor } from "../../mod.ts";
 * import { graph } from "./picture.ts";
 * const t = Tensor.rand([4, 3]).matmul(Tensor.rand([3, 2])).relu();
 * console.log(graph(t).svg.startsWith("<svg"), graph(t, { of: "schedule" }).dot.split("\n")[0]); // true digraph {
 * ```
 *
 * @throws {ArgumentError} for what is neither a tensor nor a list of them
 */
export function graph(tensors: TensorBase | readonly TensorBase[], options: GraphOptions = {}): Picture {
  checkOptions("draw a graph", options, ["of"]);
  const list: readonly unknown[] = Array.isArray(tensors) ? tensors : [tensors], { of = "tensors" } = options;
  if (list.length === 0 || !list.every((t) => t instanceof TensorBase)) {
    throw new ArgumentError("draw a graph", { reason: "it takes a tensor or a list of tensors" });
  }
  checkChoice("draw a graph", "of", of, ["tensors", "schedule"]);
  const nodes = (list as readonly TensorBase[]).map((t) => t.uop);
  return of === "tensors" ? nodesPicture(nodes) : stepsPicture(scheduleItems(nodes));
}
