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
import { FEWER, hugeResult, inputsText, MAX_NODES } from "../values/room.ts";
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
  type TypeProto,
} from "../wire/messages.ts";
import { declaredText, declaredTypes, misfit, otherSizes, otherThan } from "./declared_types.ts";

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
  /** Whether nodes are held to the types that the model declares, and to those that operators take. */
  readonly isOnnx: boolean;
  /** Initializers, decoded once. */
  readonly weights: Map<TensorProto, Value>;
  /** What graphs say of the names in them, looked up once. */
  readonly types: Map<Graph, ReadonlyMap<string, TypeProto>>;
  /** Outputs of which it was told that they have other sizes than the model says. */
  readonly told: Set<string>;
}
/** What is around nodes: versions, and in a function the attributes of its call. */
interface Surroundings {
  readonly opsets: ReadonlyMap<string, number>;
  readonly attributes: ReadonlyMap<string, Attribute> | undefined;
  /** What the graph says of names. */
  readonly types?: ReadonlyMap<string, TypeProto>;
  /** How many nodes have run, and the outermost of those that run graphs. */
  readonly run: { nodes: number };
  readonly within?: Node;
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
  const { graph, opsets } = m.model;
  const items = yield* runGraph(m, graph, inputs, undefined, { opsets, attributes: undefined, run: { nodes: 0 } });
  graph.outputs.forEach(({ name, type }, i) => {
    const sizes = otherSizes(type, items[i]);
    if (sizes === undefined || !m.isOnnx || m.told.has(name)) return;
    m.told.add(name);
    console.warn(`The ONNX model says that "${name}" is [${type!.shape!.join(", ")}], and gives [${sizes.join(", ")}]`);
  });
  return items;
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
  let types = m.types.get(graph);
  if (types === undefined) m.types.set(graph, types = m.isOnnx ? declaredTypes(graph) : new Map());
  yield* runNodes(m, graph.nodes, scope, { ...around, types });
  return graph.outputs.map(({ name }) => {
    const item = scope.get(name);
    if (item === undefined) throw m.bad(`output "${name}" is given by no node`);
    return item;
  });
}

function* runNodes(m: Machine, nodes: readonly Node[], scope: Scope, around: Surroundings): Steps<void> {
  for (const node of nodes) {
    const inputs = node.inputs.map((name) => name === "" ? undefined : scope.get(name));
    if (++around.run.nodes > MAX_NODES) {
      throw nodeError(
        around.within ?? node,
        `with all nodes within it this run has more than ${MAX_NODES}: loops are unrolled, let it have fewer turns`,
      );
    }
    const results = yield* runNode(m, node, inputs, scope, around);
    node.outputs.forEach((name, i) => {
      const item = results[i];
      if (name === "" || item === undefined) return;
      const type = around.types?.get(name), other = otherThan(type, item);
      if (other !== undefined) {
        throw nodeError(node, `it gives ${other}, and the model says that "${name}" is ${declaredText(type!)}`);
      }
      scope.set(name, item);
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
  if (own !== undefined) return yield* runFunction(m, own, inputs, attributes, around, node);
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
  const inner = (graph: Graph, items: readonly Item[]) =>
    runGraph(m, graph, items, scope, { ...around, within: around.within ?? node });
  const call = new Call(node, inputs, version, m, attributes, inner);
  try {
    for (const i of row.host === "all" ? inputs.keys() : row.host) {
      const v = inputs[i];
      if (v instanceof Value && v.data === undefined) yield v;
    }
    const wrong = domain === "" && m.isOnnx ? misfit(node.op, inputs) : undefined;
    if (wrong !== undefined) throw call.fail(wrong);
    const folded = foldOnHost(call);
    if (folded !== undefined) return folded;
    const made = row.run(call), result = isSteps(made) ? yield* made : made;
    const list = Array.isArray(result) ? result as readonly (Item | Tensor | undefined)[] : [result as Item | Tensor];
    const items = list.map((r) => r instanceof Tensor ? valueOf(r) : r);
    const huge = hugeResult(items, inputs, m.device);
    if (huge !== undefined) throw call.fail(huge);
    return items;
  } catch (error) {
    if (error instanceof FormatError || !(error instanceof Error)) throw error;
    // the host's own: lists of more elements than there may be
    if (error.constructor === RangeError) {
      throw nodeError(node, `its sizes are beyond what the host makes (${inputsText(inputs)}): ${FEWER}`, error);
    }
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
  around: Surroundings,
  node: Node,
): Steps<(Item | undefined)[]> {
  const scope = new Scope(undefined), attributes = new Map([...f.defaults, ...given]);
  f.inputs.forEach((name, i) => {
    const item = inputs[i];
    if (item !== undefined) scope.set(name, item);
  });
  yield* runNodes(m, f.nodes, scope, { opsets: f.opsets, attributes, run: around.run, within: around.within ?? node });
  return f.outputs.map((name) => scope.get(name));
}
