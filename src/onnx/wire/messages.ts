/**
 * The messages of ONNX as plain records. In: bytes of a ModelProto, or of one of the messages that test data consists
 * of; out: records whose tensors still are ranges of those bytes. Field numbers are those of onnx.proto (ONNX 1.21).
 * Nothing is believed here but the wire; what names mean is checked in graph/check.ts.
 *
 * @module
 */
import { FormatError } from "../../helpers/errors.ts";
import { ProtoReader } from "../../helpers/protobuf.ts";

/** A tensor, as it lies in the file. */
export interface TensorProto {
  name: string;
  type: number;
  readonly dims: number[];
  raw: Uint8Array | undefined;
  readonly floats: number[];
  readonly doubles: number[];
  readonly ints: number[];
  readonly int64s: bigint[];
  readonly strings: Uint8Array[];
  /** Where the data is, if not here: location, offset, length. */
  readonly external: Map<string, string>;
  isExternal: boolean;
  /** Of a sparse one: where the values are. */
  indices?: TensorProto;
}
/** A type: of a tensor, or what it is made of. */
export interface TypeProto {
  readonly kind: "tensor" | "sequence" | "optional" | "map" | "sparse" | "unknown";
  /** Of elements. */
  readonly element: number;
  /** Sizes, or their names; undefined where nothing is said. */
  readonly shape: readonly (number | string)[] | undefined;
  readonly of: TypeProto | undefined;
}
/** A name with a type. */
export interface ValueInfo {
  readonly name: string;
  readonly type: TypeProto | undefined;
}
/** An attribute; which field counts is said by the type, or by what is there. */
export interface Attribute {
  name: string;
  type: number;
  f: number;
  i: number;
  s: Uint8Array;
  t: TensorProto | undefined;
  g: Graph | undefined;
  tp: TypeProto | undefined;
  readonly floats: number[];
  readonly ints: number[];
  readonly strings: Uint8Array[];
  readonly tensors: TensorProto[];
  /** Of a node of a function: the attribute of the call that it stands for. */
  ref: string;
}
/** A node. */
export interface Node {
  name: string;
  op: string;
  domain: string;
  overload: string;
  readonly inputs: string[];
  readonly outputs: string[];
  readonly attributes: Map<string, Attribute>;
}
/** A graph: of a model, or of a branch or loop. */
export interface Graph {
  name: string;
  readonly nodes: Node[];
  readonly initializers: TensorProto[];
  readonly inputs: ValueInfo[];
  readonly outputs: ValueInfo[];
  /** What is said of other names. */
  readonly values?: ValueInfo[];
}
/** A function of a model. */
export interface FunctionProto {
  name: string;
  domain: string;
  overload: string;
  readonly inputs: string[];
  readonly outputs: string[];
  readonly attributes: string[];
  readonly defaults: Map<string, Attribute>;
  readonly nodes: Node[];
  readonly opsets: Map<string, number>;
}
/** A model. */
export interface ModelProto {
  irVersion: number;
  producer: string;
  graph: Graph;
  /** Versions by domain; that of ai.onnx is "". */
  readonly opsets: Map<string, number>;
  /** By domain, name and overload, joined by `:`. */
  readonly functions: Map<string, FunctionProto>;
}

/** The domain, of which ai.onnx has two names. */
export function domainOf(domain: string): string {
  return domain === "ai.onnx" ? "" : domain;
}

/** The key of a function. */
export function functionKey(f: { domain: string; overload: string }, name: string): string {
  return `${domainOf(f.domain)}:${name}:${f.overload}`;
}

function opset(r: ProtoReader, into: Map<string, number>): void {
  let domain = "", version = 0;
  while (r.next()) {
    if (r.field === 1) domain = r.text();
    else if (r.field === 2) version = r.int();
    else r.skip();
  }
  into.set(domainOf(domain), version);
}

function entry(r: ProtoReader, into: Map<string, string>): void {
  let key = "", value = "";
  while (r.next()) {
    if (r.field === 1) key = r.text();
    else if (r.field === 2) value = r.text();
    else r.skip();
  }
  into.set(key, value);
}

/** A TensorProto. */
function readTensor(r: ProtoReader): TensorProto {
  const t: TensorProto = {
    name: "",
    type: 0,
    dims: [],
    raw: undefined,
    floats: [],
    doubles: [],
    ints: [],
    int64s: [],
    strings: [],
    external: new Map(),
    isExternal: false,
  };
  while (r.next()) {
    switch (r.field) {
      case 1:
        r.ints(t.dims);
        break;
      case 2:
        t.type = r.int();
        break;
      case 4:
        r.floats(t.floats);
        break;
      case 5:
        r.ints(t.ints);
        break;
      case 6:
        t.strings.push(r.chunk());
        break;
      case 7:
      case 11:
        r.int64s(t.int64s);
        break;
      case 8:
        t.name = r.text();
        break;
      case 9:
        t.raw = r.chunk();
        break;
      case 10:
        r.doubles(t.doubles);
        break;
      case 13:
        entry(r.message(), t.external);
        break;
      case 14:
        t.isExternal = r.int() === 1;
        break;
      default:
        r.skip();
    }
  }
  return t;
}

/** A SparseTensorProto: its values, with the dims of the whole, and the indices. */
function readSparse(r: ProtoReader): TensorProto {
  const dims: number[] = [];
  let values: TensorProto | undefined, indices: TensorProto | undefined;
  while (r.next()) {
    if (r.field === 1) values = readTensor(r.message());
    else if (r.field === 2) indices = readTensor(r.message());
    else if (r.field === 3) r.ints(dims);
    else r.skip();
  }
  const empty = readTensor(new ProtoReader(new Uint8Array(), () => new Error()));
  return { ...(values ?? empty), dims, indices: indices ?? empty };
}

function readType(r: ProtoReader): TypeProto {
  let type: TypeProto = { kind: "unknown", element: 0, shape: undefined, of: undefined };
  const nested = (kind: TypeProto["kind"], m: ProtoReader, field: number): void => {
    let of: TypeProto | undefined;
    while (m.next()) {
      if (m.field === field && m.wire === 2) of = readType(m.message());
      else m.skip();
    }
    type = { kind, element: of?.element ?? 0, shape: undefined, of };
  };
  while (r.next()) {
    if (r.field === 1 || r.field === 8) {
      const kind = r.field === 1 ? "tensor" : "sparse", m = r.message();
      let element = 0, shape: (number | string)[] | undefined;
      while (m.next()) {
        if (m.field === 1) element = m.int();
        else if (m.field === 2) {
          shape = [];
          const s = m.message();
          while (s.next()) {
            if (s.field !== 1) {
              s.skip();
              continue;
            }
            const d = s.message();
            let size: number | string = "";
            while (d.next()) {
              if (d.field === 1) size = d.int();
              else if (d.field === 2) size = d.text();
              else d.skip();
            }
            shape.push(size);
          }
        } else m.skip();
      }
      type = { kind, element, shape, of: undefined };
    } else if (r.field === 4) nested("sequence", r.message(), 1);
    else if (r.field === 9) nested("optional", r.message(), 1);
    else if (r.field === 5) nested("map", r.message(), 2);
    else r.skip();
  }
  return type;
}

function readValueInfo(r: ProtoReader): ValueInfo {
  let name = "", type: TypeProto | undefined;
  while (r.next()) {
    if (r.field === 1) name = r.text();
    else if (r.field === 2) type = readType(r.message());
    else r.skip();
  }
  return { name, type };
}

/** An attribute that holds nothing yet. */
export function emptyAttribute(name: string): Attribute {
  return {
    name,
    type: 0,
    f: 0,
    i: 0,
    s: new Uint8Array(),
    t: undefined,
    g: undefined,
    tp: undefined,
    floats: [],
    ints: [],
    strings: [],
    tensors: [],
    ref: "",
  };
}

function readAttribute(r: ProtoReader): Attribute {
  const a = emptyAttribute("");
  const wide: bigint[] = [];
  while (r.next()) {
    switch (r.field) {
      case 1:
        a.name = r.text();
        break;
      case 2:
        a.f = r.float();
        break;
      case 3:
        a.i = Number(r.int64());
        break;
      case 4:
        a.s = r.chunk();
        break;
      case 5:
        a.t = readTensor(r.message());
        break;
      case 6:
        a.g = readGraph(r.message());
        break;
      case 7:
        r.floats(a.floats);
        break;
      case 8:
        r.int64s(wide);
        break;
      case 9:
        a.strings.push(r.chunk());
        break;
      case 10:
        a.tensors.push(readTensor(r.message()));
        break;
      case 14:
        a.tp = readType(r.message());
        break;
      case 20:
        a.type = r.int();
        break;
      case 21:
        a.ref = r.text();
        break;
      case 22:
        a.t = readSparse(r.message());
        break;
      default:
        r.skip();
    }
  }
  a.ints.push(...wide.map(Number));
  return a;
}

function readNode(r: ProtoReader): Node {
  const n: Node = { name: "", op: "", domain: "", overload: "", inputs: [], outputs: [], attributes: new Map() };
  while (r.next()) {
    if (r.field === 1) n.inputs.push(r.text());
    else if (r.field === 2) n.outputs.push(r.text());
    else if (r.field === 3) n.name = r.text();
    else if (r.field === 4) n.op = r.text();
    else if (r.field === 5) {
      const a = readAttribute(r.message());
      n.attributes.set(a.name, a);
    } else if (r.field === 7) n.domain = domainOf(r.text());
    else if (r.field === 8) n.overload = r.text();
    else r.skip();
  }
  return n;
}

function readGraph(r: ProtoReader): Graph {
  const values: ValueInfo[] = [];
  const g: Graph = { name: "", nodes: [], initializers: [], inputs: [], outputs: [], values };
  while (r.next()) {
    if (r.field === 1) g.nodes.push(readNode(r.message()));
    else if (r.field === 2) g.name = r.text();
    else if (r.field === 5) g.initializers.push(readTensor(r.message()));
    else if (r.field === 11) g.inputs.push(readValueInfo(r.message()));
    else if (r.field === 12) g.outputs.push(readValueInfo(r.message()));
    else if (r.field === 13) values.push(readValueInfo(r.message()));
    else if (r.field === 15) g.initializers.push(readSparse(r.message()));
    else r.skip();
  }
  return g;
}

function readFunction(r: ProtoReader): FunctionProto {
  const f: FunctionProto = {
    name: "",
    domain: "",
    overload: "",
    inputs: [],
    outputs: [],
    attributes: [],
    defaults: new Map(),
    nodes: [],
    opsets: new Map(),
  };
  while (r.next()) {
    if (r.field === 1) f.name = r.text();
    else if (r.field === 4) f.inputs.push(r.text());
    else if (r.field === 5) f.outputs.push(r.text());
    else if (r.field === 6) f.attributes.push(r.text());
    else if (r.field === 7) f.nodes.push(readNode(r.message()));
    else if (r.field === 9) opset(r.message(), f.opsets);
    else if (r.field === 10) f.domain = domainOf(r.text());
    else if (r.field === 11) {
      const a = readAttribute(r.message());
      f.defaults.set(a.name, a);
    } else if (r.field === 13) f.overload = r.text();
    else r.skip();
  }
  return f;
}

/** Makes the errors of a file. */
export function faultOf(file: string, action = "read ONNX"): (reason: string) => FormatError {
  return (reason) => new FormatError(action, { file, reason });
}

/** A model. @throws {FormatError} naming the file, what is wrong, and at which byte */
export function readModel(bytes: Uint8Array, file: string): ModelProto {
  const bad = faultOf(file), r = new ProtoReader(bytes, bad);
  const model = { irVersion: 0, producer: "", opsets: new Map<string, number>(), functions: new Map() };
  let graph: Graph | undefined;
  while (r.next()) {
    if (r.field === 1) model.irVersion = r.int();
    else if (r.field === 2) model.producer = r.text();
    else if (r.field === 7) graph = readGraph(r.message());
    else if (r.field === 8) opset(r.message(), model.opsets);
    else if (r.field === 25) {
      const f = readFunction(r.message());
      model.functions.set(functionKey(f, f.name), f);
    } else r.skip();
  }
  if (graph === undefined) throw bad("it has no graph, so it is no ONNX model");
  return { ...model, graph };
}

/** What a file of test data holds: a tensor, a list of such, or something that may be absent. */
export type DataProto = TensorProto | readonly DataProto[] | { readonly held: DataProto | undefined };

/** A message of test data, of the type that the model says. */
export function readData(r: ProtoReader, type: TypeProto | undefined): DataProto {
  if (type?.kind === "sequence") {
    const items: DataProto[] = [];
    while (r.next()) {
      if (r.field === 3) items.push(readTensor(r.message()));
      else if (r.field === 5) items.push(readData(r.message(), type.of));
      else r.skip();
    }
    return items;
  }
  if (type?.kind === "optional") {
    let held: DataProto | undefined;
    while (r.next()) {
      if (r.field === 3 && r.wire === 2) held = readTensor(r.message());
      else if (r.field === 5) held = readData(r.message(), type.of);
      else r.skip();
    }
    return { held };
  }
  return readTensor(r);
}
