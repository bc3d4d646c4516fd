/**
 * The bytes of an ONNX model. In: a graph that was lowered; out: a ModelProto, and what is too large to lie in it.
 *
 * @module
 */
import { protoBytes, type ProtoWriter } from "../../helpers/protobuf.ts";
import { codeOf } from "../wire/element_types.ts";
import type { Initializer, OnnxGraph, Value, WrittenAttribute, WrittenNode } from "./onnx_graph.ts";
import { type DynamicAxis, isFixed, sameSize, type Shape } from "./traced_sizes.ts";

/** The version of the operators that is written, and of the format that came with it. */
const OPSET = 21, IR_VERSION = 10;
/** Data of tensors lies at multiples of this in its own file. */
const ALIGNMENT = 64;
/** Types of attributes. */
const FLOAT = 1, INT = 2, STRING = 3, INTS = 7;

/** What is written. */
export interface ModelParts {
  readonly name: string;
  readonly graph: OnnxGraph;
  readonly inputs: readonly Value[];
  readonly outputs: readonly Value[];
  readonly axes: readonly DynamicAxis[];
  /** The file beside the model that has the initializers; undefined where they lie in it. */
  readonly external: string | undefined;
}

/** Bytes of the model, and of its initializers where they are apart. */
export interface ModelBytes {
  readonly model: Uint8Array<ArrayBuffer>;
  readonly data: readonly Uint8Array[];
}

function writeAttribute(w: ProtoWriter, name: string, a: WrittenAttribute): void {
  w.text(1, name);
  if (typeof a === "number") w.int64(3, a);
  else if (typeof a === "string") w.text(4, a);
  else if ("float" in a) w.float(2, a.float);
  else w.int64s(8, a);
  w.uint(20, typeof a === "number" ? INT : typeof a === "string" ? STRING : "float" in a ? FLOAT : INTS);
}
function writeNode(w: ProtoWriter, { op, inputs, output, unread = [], attributes }: WrittenNode): void {
  for (const name of inputs) w.text(1, name);
  for (const name of unread) w.text(2, name);
  w.text(2, output);
  w.text(3, output);
  w.text(4, op);
  for (const [name, a] of Object.entries(attributes)) w.message(5, (m) => writeAttribute(m, name, a));
}
function writeInitializer(w: ProtoWriter, t: Initializer, place: readonly [string, number] | undefined): void {
  w.int64s(1, t.dims);
  w.uint(2, codeOf(t.dtype));
  w.text(8, t.name);
  if (place === undefined) return w.chunk(9, t.bytes);
  const entries = { location: place[0], offset: place[1], length: t.bytes.length };
  for (const [key, value] of Object.entries(entries)) {
    w.message(13, (e) => {
      e.text(1, key);
      e.text(2, String(value));
    });
  }
  w.uint(14, 1);
}
/** The name of a size, or "" for one that follows dynamic axes in another way. */
function axisName(size: Shape[number], axes: readonly DynamicAxis[]): string {
  return axes.find((a) => sameSize(a.size, size))?.name ?? "";
}
function writePort(w: ProtoWriter, v: Value, axes: readonly DynamicAxis[]): void {
  w.text(1, v.name);
  w.message(2, (type) =>
    type.message(1, (tensor) => {
      tensor.uint(1, codeOf(v.dtype));
      tensor.message(2, (shape) => {
        for (const n of v.shape) {
          shape.message(1, (d) => {
            if (isFixed(n)) d.int64(1, n[0]);
            else if (axisName(n, axes) !== "") d.text(2, axisName(n, axes));
          });
        }
      });
    }));
}

/** Nodes that lead to the outputs, and the initializers that they read. */
function needed(parts: ModelParts): { nodes: WrittenNode[]; initializers: Initializer[] } {
  const used = new Set(parts.outputs.map((o) => o.name)), nodes: WrittenNode[] = [];
  for (const n of parts.graph.nodes.toReversed()) {
    if (!used.has(n.output)) continue;
    nodes.push(n);
    for (const i of n.inputs) used.add(i);
  }
  const initializers = [...parts.graph.initializers.values()].filter((t) => used.has(t.name));
  return { nodes: nodes.reverse(), initializers };
}

/** Writes a model. */
export function modelBytes(parts: ModelParts): ModelBytes {
  const { nodes, initializers } = needed(parts), data: Uint8Array[] = [];
  let offset = 0;
  const place = (t: Initializer): readonly [string, number] | undefined => {
    if (parts.external === undefined || t.bytes.length < 1024) return undefined;
    const at = Math.ceil(offset / ALIGNMENT) * ALIGNMENT;
    data.push(new Uint8Array(at - offset), t.bytes);
    offset = at + t.bytes.length;
    return [parts.external, at];
  };
  const model = protoBytes((w) => {
    w.uint(1, IR_VERSION);
    w.text(2, "dinograd");
    w.message(7, (g) => {
      for (const n of nodes) g.message(1, (m) => writeNode(m, n));
      g.text(2, parts.name);
      for (const t of initializers) g.message(5, (m) => writeInitializer(m, t, place(t)));
      for (const v of parts.inputs) g.message(11, (m) => writePort(m, v, parts.axes));
      for (const v of parts.outputs) g.message(12, (m) => writePort(m, v, parts.axes));
    });
    w.message(8, (o) => {
      o.text(1, "");
      o.uint(2, OPSET);
    });
  });
  return { model, data };
}
