/**
 * A graph of ONNX's operators, built node by node: what models of TensorFlow become. In: names of operators, inputs and
 * attributes; out: names of results, and in the end the records that a file would have given.
 *
 * @module
 */
import { FLOAT, INT64 } from "../onnx/wire/element_types.ts";
import {
  type Attribute,
  emptyAttribute,
  type Graph,
  type ModelProto,
  type Node,
  type TensorProto,
  type ValueInfo,
} from "../onnx/wire/messages.ts";

/** The version of the operators that are used. */
const OPSET = 21;
/** What an attribute may be. */
export type Attr = number | string | readonly number[] | { readonly float: number } | Graph;
const encoder = new TextEncoder();

/** A tensor that lies in memory as ONNX packs it. */
export function protoOf(name: string, type: number, dims: readonly number[], raw: Uint8Array): TensorProto {
  const none = { floats: [], doubles: [], ints: [], int64s: [], strings: [] };
  return { name, type, dims: [...dims], raw, ...none, external: new Map(), isExternal: false };
}

function attributeOf(name: string, value: Attr): Attribute {
  const a = emptyAttribute(name);
  if (typeof value === "number") a.i = value;
  else if (typeof value === "string") a.s = encoder.encode(value);
  else if (Array.isArray(value)) a.ints.push(...value as number[]);
  else if ("float" in value) a.f = (value as { float: number }).float;
  else a.g = value as Graph;
  return a;
}

/** See the module. */
export class GraphBuilder {
  /** @param prefix of names: what is within another graph sees the names there */
  constructor(private readonly prefix: string = "") {}
  private readonly nodes: Node[] = [];
  private readonly initializers: Map<string, TensorProto> = new Map();
  private readonly constants: Map<string, string> = new Map();
  private count = 0;
  /** What the node that is being translated is called, for errors and for names. */
  at = "";

  /** A name that nothing has. */
  fresh(): string {
    return `${this.prefix}${this.at}#${this.count++}`;
  }
  /** The result of an operator; an input that is not given is undefined. */
  op(type: string, inputs: readonly (string | undefined)[], attributes: Readonly<Record<string, Attr>> = {}): string {
    return this.ops(type, inputs, 1, attributes)[0];
  }
  /** All results of an operator. */
  ops(
    type: string,
    inputs: readonly (string | undefined)[],
    results: number,
    attributes: Readonly<Record<string, Attr>> = {},
  ): string[] {
    const outputs = Array.from({ length: results }, () => this.fresh());
    this.nodes.push({
      name: this.at,
      op: type,
      domain: "",
      overload: "",
      inputs: inputs.map((i) => i ?? ""),
      outputs,
      attributes: new Map(Object.entries(attributes).map(([name, value]) => [name, attributeOf(name, value)])),
    });
    return outputs;
  }
  /** Another name for a result. */
  rename(from: string, to: string): void {
    this.nodes.push({
      name: to,
      op: "Identity",
      domain: "",
      overload: "",
      inputs: [from],
      outputs: [to],
      attributes: new Map(),
    });
  }
  /** A tensor of the model. */
  weight(t: TensorProto): string {
    this.initializers.set(t.name, t);
    return t.name;
  }
  /** A tensor of the model by its name. */
  weightOf(name: string): TensorProto | undefined {
    return this.initializers.get(name);
  }
  /** Whole numbers: a list, or one. */
  ints(values: readonly number[] | number): string {
    const dims = typeof values === "number" ? [] : [values.length],
      list = typeof values === "number" ? [values] : values;
    return this.constant(`ints ${dims} ${list}`, () => {
      const raw = new Uint8Array(BigInt64Array.from(list, BigInt).buffer);
      return protoOf("", INT64, dims, raw);
    });
  }
  /** One float. */
  float(value: number): string {
    return this.constant(`float ${value}`, () => protoOf("", FLOAT, [], new Uint8Array(Float32Array.of(value).buffer)));
  }
  private constant(key: string, make: () => TensorProto): string {
    let name = this.constants.get(key);
    if (name === undefined) {
      this.constants.set(key, name = `${this.prefix}constant#${key}`);
      this.weight({ ...make(), name });
    }
    return name;
  }

  /** The whole as a graph. */
  graph(name: string, inputs: readonly ValueInfo[], outputs: readonly ValueInfo[]): Graph {
    const { nodes, initializers } = this;
    return { name, nodes, initializers: [...initializers.values()], inputs: [...inputs], outputs: [...outputs] };
  }
  /** The whole as a model. */
  model(producer: string, inputs: readonly ValueInfo[], outputs: readonly ValueInfo[]): ModelProto {
    return {
      irVersion: 10,
      producer,
      graph: this.graph(producer, inputs, outputs),
      opsets: new Map([["", OPSET]]),
      functions: new Map(),
    };
  }
}
