/**
 * Small ONNX models for tests, as bytes: nodes, initializers, inputs and outputs in a few words.
 *
 * @module
 */
import { protoBytes, type ProtoWriter } from "../../src/helpers/protobuf.ts";

/** What an attribute may be: a whole number by `int`, others by their kind. */
export type Attr =
  | { int: number }
  | { float: number }
  | { text: string }
  | { ints: readonly number[] }
  | { floats: readonly number[] }
  | { strings: readonly string[] }
  | { graph: GraphSpec }
  | { tensor: TensorSpec };
/** A node: `["Add", ["a", "b"], ["c"], { axis: { int: 1 } }, "name"]`. */
export type NodeSpec = readonly [
  op: string,
  inputs: readonly string[],
  outputs: readonly string[],
  attributes?: Readonly<Record<string, Attr>>,
  name?: string,
  domain?: string,
];
/** A tensor: floats unless `type` says otherwise. */
export interface TensorSpec {
  readonly name: string;
  readonly dims: readonly number[];
  readonly values: readonly number[];
  readonly type?: number;
  /** The elements as they lie in memory, in place of values. */
  readonly bytes?: Uint8Array;
  /** Where the data is instead, as external data says. */
  readonly external?: Readonly<Record<string, string>>;
}
/** A tensor's type: of its elements, and sizes. */
export type PortSpec = readonly [type: number, sizes: readonly (number | string)[]];
/** A graph; inputs and outputs are `name: [element type, sizes]`, or lists of floats by whole numbers. */
export interface GraphSpec {
  readonly nodes: readonly NodeSpec[];
  readonly inputs?: Readonly<Record<string, PortSpec>>;
  readonly outputs: Readonly<Record<string, PortSpec | "maps">>;
  readonly initializers?: readonly TensorSpec[];
  /** What is said of other names. */
  readonly values?: Readonly<Record<string, PortSpec>>;
}
/** A model: a graph, the version of its operators, and functions. */
export interface ModelSpec extends GraphSpec {
  readonly opset?: number;
  /** Another domain, of version 1. */
  readonly domain?: string;
  readonly functions?: readonly {
    name: string;
    domain: string;
    inputs: string[];
    outputs: string[];
    nodes: NodeSpec[];
  }[];
}

function writeTensor(w: ProtoWriter, t: TensorSpec): void {
  w.int64s(1, t.dims);
  w.uint(2, t.type ?? 1);
  w.text(8, t.name);
  if (t.external !== undefined) {
    for (const [key, value] of Object.entries(t.external)) {
      w.message(13, (e) => {
        e.text(1, key);
        e.text(2, value);
      });
    }
    w.uint(14, 1);
  } else if (t.bytes !== undefined) w.chunk(9, t.bytes);
  else if (t.type === 7) w.int64s(7, t.values);
  else if ((t.type ?? 1) === 1) w.floats(4, t.values);
  else w.int64s(5, t.values);
}
/** Codes of AttributeProto.AttributeType. */
const ATTRIBUTE_TYPES: Readonly<Record<string, number>> = {
  float: 1,
  int: 2,
  text: 3,
  tensor: 4,
  graph: 5,
  floats: 6,
  ints: 7,
  strings: 8,
};
function writeAttribute(w: ProtoWriter, name: string, a: Attr): void {
  w.text(1, name);
  if ("int" in a) w.int64(3, a.int);
  else if ("float" in a) w.float(2, a.float);
  else if ("text" in a) w.text(4, a.text);
  else if ("ints" in a) w.int64s(8, a.ints);
  else if ("floats" in a) w.floats(7, a.floats);
  else if ("strings" in a) a.strings.forEach((t) => w.text(9, t));
  else if ("tensor" in a) w.message(5, (t) => writeTensor(t, a.tensor));
  else w.message(6, (g) => writeGraph(g, a.graph));
  w.uint(20, ATTRIBUTE_TYPES[Object.keys(a)[0]]);
}
function writeNode(w: ProtoWriter, [op, inputs, outputs, attributes, name, domain]: NodeSpec): void {
  for (const i of inputs) w.text(1, i);
  for (const o of outputs) w.text(2, o);
  if (name !== undefined) w.text(3, name);
  w.text(4, op);
  for (const [key, a] of Object.entries(attributes ?? {})) w.message(5, (m) => writeAttribute(m, key, a));
  if (domain !== undefined) w.text(7, domain);
}
function writePort(w: ProtoWriter, name: string, port: PortSpec | "maps"): void {
  w.text(1, name);
  if (port === "maps") {
    const of = (field: number, write: (m: ProtoWriter) => void) => (m: ProtoWriter) => m.message(field, write);
    const float = of(1, (tensor) => tensor.uint(1, 1));
    const map = of(5, (m) => {
      m.uint(1, 7);
      m.message(2, float);
    });
    return w.message(2, of(4, (sequence) => sequence.message(1, map)));
  }
  const [type, sizes] = port;
  w.message(2, (t) =>
    t.message(1, (tensor) => {
      tensor.uint(1, type);
      tensor.message(2, (shape) => {
        for (const n of sizes) shape.message(1, (d) => typeof n === "number" ? d.int64(1, n) : d.text(2, n));
      });
    }));
}
function writeGraph(w: ProtoWriter, g: GraphSpec): void {
  for (const n of g.nodes) w.message(1, (m) => writeNode(m, n));
  w.text(2, "graph");
  for (const t of g.initializers ?? []) w.message(5, (m) => writeTensor(m, t));
  for (const [name, port] of Object.entries(g.inputs ?? {})) w.message(11, (m) => writePort(m, name, port));
  for (const [name, port] of Object.entries(g.outputs)) w.message(12, (m) => writePort(m, name, port));
  for (const [name, port] of Object.entries(g.values ?? {})) w.message(13, (m) => writePort(m, name, port));
}

/** The bytes of a model. */
export function buildModel(spec: ModelSpec): Uint8Array<ArrayBuffer> {
  return protoBytes((w) => {
    w.uint(1, 8);
    w.message(7, (g) => writeGraph(g, spec));
    w.message(8, (o) => o.uint(2, spec.opset ?? 17));
    if (spec.domain !== undefined && spec.domain !== "") {
      w.message(8, (o) => {
        o.text(1, spec.domain!);
        o.uint(2, 1);
      });
    }
    for (const f of spec.functions ?? []) {
      w.message(8, (o) => {
        o.text(1, f.domain);
        o.uint(2, 1);
      });
      w.message(25, (m) => {
        m.text(1, f.name);
        for (const i of f.inputs) m.text(4, i);
        for (const o of f.outputs) m.text(5, o);
        for (const n of f.nodes) m.message(7, (node) => writeNode(node, n));
        m.message(9, (o) => o.uint(2, spec.opset ?? 17));
        m.text(10, f.domain);
      });
    }
  });
}
