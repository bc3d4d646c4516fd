/**
 * Runs a graph node by node. In: a model, items for its inputs; out: items for its outputs, lazily: tensors are nodes of
 * our own graph, which nothing has computed. Where a value decides on shapes, or which way to go, the run yields it, and
 * goes on when it was read: at once or asynchronously is the caller's business.
 *
 * @module
 */
import { FormatError } from "../../helpers/errors.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { Call, nodeError, type OpRow, type Result, type Steps, unheeded } from "../values/node_call.ts";
import { foldOnHost } from "../values/host_ops.ts";
import { decodeTensor, type External, type Fault, type Item, Value, valueOf } from "../values/value.ts";
import {
  type Attribute,
  domainOf,
  functionKey,
  type FunctionProto,
  type Graph,
  type ModelProto,
  type Node,
  type TensorProto,
} from "../wire/messages.ts";

/** The operator of a node: the newest row that is not newer than the version in use. */
export type Lookup = (domain: string, name: string, version: number) => OpRow | undefined;

/** What a run knows of its model. */
export interface Machine {
  readonly model: ModelProto;
  readonly device: string;
  readonly lookup: Lookup;
  readonly bad: Fault;
  readonly external: External | undefined;
  readonly trained: boolean;
  /** Initializers, decoded once. */
  readonly weights: Map<TensorProto, Value>;
}
/** What is around nodes: versions, and in a function the attributes of its call. */
interface Surroundings {
  readonly opsets: ReadonlyMap<string, number>;
  readonly attributes: ReadonlyMap<string, Attribute> | undefined;
}

/** Names and what they stand for, inner ones first. */
class Scope {
  private readonly items = new Map<string, Item>();
  constructor(private readonly outer: Scope | undefined) {}
  get(name: string): Item | undefined {
    return this.items.get(name) ?? this.outer?.get(name);
  }
  set(name: string, item: Item): void {
    this.items.set(name, item);
  }
}

/** An initializer. */
export function weightOf(m: Machine, t: TensorProto): Value {
  let v = m.weights.get(t);
  if (v === undefined) {
    const bad: Fault = (reason) => m.bad(`initializer "${t.name}" ${reason}`);
    v = decodeTensor(t, bad, { device: m.device, external: m.external, trained: m.trained });
    m.weights.set(t, v);
  }
  return v;
}

/** Runs the graph of the model. */
export function* runModel(m: Machine, inputs: readonly (Item | undefined)[]): Steps<Item[]> {
  return yield* runGraph(m, m.model.graph, inputs, undefined, { opsets: m.model.opsets, attributes: undefined });
}

function* runGraph(
  m: Machine,
  graph: Graph,
  inputs: readonly (Item | undefined)[],
  outer: Scope | undefined,
  around: Surroundings,
): Steps<Item[]> {
  const scope = new Scope(outer);
  for (const t of graph.initializers) scope.set(t.name, weightOf(m, t));
  graph.inputs.forEach(({ name }, i) => {
    const item = inputs[i];
    if (item !== undefined) scope.set(name, item);
  });
  yield* runNodes(m, graph.nodes, scope, around);
  return graph.outputs.map(({ name }) => {
    const item = scope.get(name);
    if (item === undefined) throw m.bad(`output "${name}" is given by no node`);
    return item;
  });
}

function* runNodes(m: Machine, nodes: readonly Node[], scope: Scope, around: Surroundings): Steps<void> {
  for (const node of nodes) {
    const inputs = node.inputs.map((name) => name === "" ? undefined : scope.get(name));
    const results = yield* runNode(m, node, inputs, scope, around);
    node.outputs.forEach((name, i) => {
      const item = results[i];
      if (name !== "" && item !== undefined) scope.set(name, item);
    });
  }
}

/** The attributes of a node: of one in a function, those of the call where it refers to them. */
function attributesOf(node: Node, around: Surroundings): ReadonlyMap<string, Attribute> {
  if (around.attributes === undefined) return node.attributes;
  const out = new Map<string, Attribute>();
  for (const [name, a] of node.attributes) {
    const found = a.ref === "" ? a : around.attributes.get(a.ref);
    if (found !== undefined) out.set(name, found);
  }
  return out;
}

function* runNode(
  m: Machine,
  node: Node,
  inputs: readonly (Item | undefined)[],
  scope: Scope,
  around: Surroundings,
): Steps<readonly (Item | undefined)[]> {
  const attributes = attributesOf(node, around), own = m.model.functions.get(functionKey(node, node.op));
  if (own !== undefined) return yield* runFunction(m, own, inputs, attributes);
  const domain = domainOf(node.domain), version = around.opsets.get(domain) ?? 1;
  const row = m.lookup(domain, node.op, version);
  if (row === undefined) {
    throw nodeError(
      node,
      `no operator ${node.op} of ${domain || "ai.onnx"} ${version} is known, and the model has none`,
    );
  }
  const other = unheeded(row, attributes);
  if (other !== undefined) throw nodeError(node, `its attribute ${other} is not known`);
  const inner = (graph: Graph, items: readonly Item[]) => runGraph(m, graph, items, scope, around);
  const call = new Call(node, inputs, version, m, attributes, inner);
  try {
    for (const i of row.host === "all" ? inputs.keys() : row.host) {
      const v = inputs[i];
      if (v instanceof Value && v.data === undefined) yield v;
    }
    const folded = foldOnHost(call);
    if (folded !== undefined) return folded;
    const made = row.run(call), result = isSteps(made) ? yield* made : made;
    const list = Array.isArray(result) ? result as readonly (Item | Tensor | undefined)[] : [result as Item | Tensor];
    return list.map((r) => r instanceof Tensor ? valueOf(r) : r);
  } catch (error) {
    if (error instanceof FormatError || !(error instanceof Error)) throw error;
    throw nodeError(node, error.message, error);
  }
}

function isSteps(x: Result | Steps<Result>): x is Steps<Result> {
  return typeof (x as Steps<Result> | undefined)?.next === "function";
}

function* runFunction(
  m: Machine,
  f: FunctionProto,
  inputs: readonly (Item | undefined)[],
  given: ReadonlyMap<string, Attribute>,
): Steps<(Item | undefined)[]> {
  const scope = new Scope(undefined), attributes = new Map([...f.defaults, ...given]);
  f.inputs.forEach((name, i) => {
    const item = inputs[i];
    if (item !== undefined) scope.set(name, item);
  });
  yield* runNodes(m, f.nodes, scope, { opsets: f.opsets, attributes });
  return f.outputs.map((name) => scope.get(name));
}
