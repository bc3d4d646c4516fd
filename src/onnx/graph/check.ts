/**
 * What a model must be before anything of it runs. In: the records of a file; out: the same graphs with nodes in an order
 * in which each has its inputs, and what operators nobody knows. Refused with the node's name: names that nothing gives,
 * names given twice, cycles of nodes, functions that call themselves.
 *
 * @module
 */
import { nodeText } from "../values/node_call.ts";
import { MAX_NODES } from "../values/room.ts";
import type { Fault } from "../values/value.ts";
import {
  functionKey,
  type FunctionProto,
  type Graph,
  type ModelProto,
  type Node,
  type TensorProto,
} from "../wire/messages.ts";
import { checkInitializers } from "./declared_types.ts";

/** The graphs in attributes of a node. */
function graphsOf(node: Node): Graph[] {
  return [...node.attributes.values()].flatMap((a) => a.g === undefined ? [] : [a.g]);
}

/** The nodes so that each follows what it needs, in place; `known` are the names around them. */
function sortNodes(nodes: Node[], known: ReadonlySet<string>, bad: Fault): void {
  const given = new Map<string, Node>();
  for (const node of nodes) {
    for (const name of node.outputs) {
      if (name === "") continue;
      if (given.has(name) || known.has(name)) throw bad(`${nodeText(node)} gives "${name}", which is given already`);
      given.set(name, node);
    }
  }
  const state = new Map<Node, "open" | "done">(), order: Node[] = [];
  for (const root of nodes) {
    const stack: [Node, string[]][] = state.has(root) ? [] : [[root, needs(root)]];
    while (stack.length > 0) {
      const [node, left] = stack[stack.length - 1];
      state.set(node, state.get(node) ?? "open");
      const name = left.pop();
      if (name === undefined) {
        stack.pop();
        state.set(node, "done");
        order.push(node);
        continue;
      }
      const from = given.get(name);
      if (from === undefined) {
        if (!known.has(name)) {
          throw bad(`${nodeText(node)} takes "${name}", which is no input, no initializer and given by no node`);
        }
      } else if (state.get(from) === "open") {
        throw bad(
          `${nodeText(from)} needs what is made of its own result "${name}": a cycle through ${nodeText(node)}`,
        );
      } else if (state.get(from) === undefined) stack.push([from, needs(from)]);
    }
  }
  nodes.splice(0, nodes.length, ...order);
}

/** The names that a node takes, those of graphs within it from outside included. */
function needs(node: Node): string[] {
  const names = new Set(node.inputs.filter((n) => n !== ""));
  for (const graph of graphsOf(node)) for (const n of freeNames(graph)) names.add(n);
  return [...names].reverse();
}
/** The names that a graph takes from around it. */
function freeNames(graph: Graph): Set<string> {
  const own = new Set<string>([...graph.inputs, ...graph.initializers].map((v) => v.name)), free = new Set<string>();
  for (const node of graph.nodes) for (const name of node.outputs) own.add(name);
  for (const node of graph.nodes) for (const name of needs(node)) if (!own.has(name)) free.add(name);
  for (const { name } of graph.outputs) if (!own.has(name)) free.add(name);
  return free;
}

/** Sorts a graph and those within it. */
function checkGraph(graph: Graph, around: ReadonlySet<string>, bad: Fault): void {
  const own = new Set([...graph.inputs, ...graph.initializers].map((v) => v.name));
  const given = new Set(graph.nodes.flatMap((n) => n.outputs));
  sortNodes(graph.nodes, new Set([...own, ...[...around].filter((n) => !given.has(n))]), bad);
  const all = new Set([...around, ...own, ...given]);
  for (const { name } of graph.outputs) {
    if (!all.has(name)) throw bad(`output "${name}" of graph "${graph.name}" is given by no node`);
  }
  for (const node of graph.nodes) for (const inner of graphsOf(node)) checkGraph(inner, all, bad);
}
function calledBy(nodes: readonly Node[], model: ModelProto): FunctionProto[] {
  return nodes.flatMap((node) => {
    const f = model.functions.get(functionKey(node, node.op));
    return [...f ? [f] : [], ...graphsOf(node).flatMap((g) => calledBy(g.nodes, model))];
  });
}

/** Counts what nodes run, functions at each of their calls. */
class Counts {
  private readonly known = new Map<FunctionProto, number>();
  constructor(private readonly model: ModelProto) {}
  private ofNode(node: Node): number {
    const f = this.model.functions.get(functionKey(node, node.op));
    const inner = graphsOf(node).reduce((n, g) => n + this.ofNodes(g.nodes), 0);
    if (f === undefined) return 1 + inner;
    let n = this.known.get(f);
    if (n === undefined) this.known.set(f, n = this.ofNodes(f.nodes));
    return n + inner;
  }
  private ofNodes(nodes: readonly Node[]): number {
    return nodes.reduce((n, node) => n + this.ofNode(node), 0);
  }
  /** @throws {FormatError} by `bad`, where a node runs too many */
  check(nodes: readonly Node[], bad: Fault): void {
    for (const node of nodes) {
      const n = this.ofNode(node);
      if (n > MAX_NODES) {
        throw bad(`${nodeText(node)} calls functions of ${n} nodes, more than ${MAX_NODES}`);
      }
    }
  }
}

/** Checks and sorts all graphs of a model. @throws {FormatError} by `bad` */
export function checkModel(model: ModelProto, bad: Fault): void {
  if (!model.opsets.has("") && model.graph.nodes.some((n) => n.domain === "")) {
    throw bad("it does not say which version of the operators it uses (opset_import)");
  }
  checkInitializers(model, bad);
  checkGraph(model.graph, new Set(), bad);
  const done = new Set<FunctionProto>();
  const visit = (f: FunctionProto, trail: readonly FunctionProto[]): void => {
    if (trail.includes(f)) throw bad(`function "${f.name}" calls itself`);
    if (done.has(f)) return;
    for (const g of calledBy(f.nodes, model)) visit(g, [...trail, f]);
    done.add(f);
  };
  for (const f of model.functions.values()) {
    visit(f, []);
    const graph: Graph = {
      name: f.name,
      nodes: f.nodes,
      initializers: [],
      inputs: f.inputs.map((name) => ({ name, type: undefined })),
      outputs: f.outputs.map((name) => ({ name, type: undefined })),
    };
    checkGraph(graph, new Set(), bad);
  }
  new Counts(model).check(model.graph.nodes, bad);
}

/** Every node of a model, those of branches, loops and functions included. */
export function* allNodes(model: ModelProto): Generator<{ node: Node; opsets: ReadonlyMap<string, number> }> {
  function* within(nodes: readonly Node[], opsets: ReadonlyMap<string, number>): ReturnType<typeof allNodes> {
    for (const node of nodes) {
      yield { node, opsets };
      for (const g of graphsOf(node)) yield* within(g.nodes, opsets);
    }
  }
  yield* within(model.graph.nodes, model.opsets);
  for (const f of model.functions.values()) yield* within(f.nodes, f.opsets);
}

/** Every tensor of a model: initializers, and constants of nodes, those of branches, loops and functions included. */
export function* allTensors(model: ModelProto): Generator<TensorProto> {
  function* partsOf(t: TensorProto | undefined): ReturnType<typeof allTensors> {
    if (t !== undefined) yield t;
    if (t?.indices !== undefined) yield t.indices;
  }
  for (const t of model.graph.initializers) yield* partsOf(t);
  for (const { node } of allNodes(model)) {
    for (const g of graphsOf(node)) for (const t of g.initializers) yield* partsOf(t);
    for (const a of node.attributes.values()) for (const t of [a.t, ...a.tensors]) yield* partsOf(t);
  }
}
