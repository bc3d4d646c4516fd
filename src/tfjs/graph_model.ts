/**
 * A graph model of TensorFlow.js: TensorFlow's operators as JSON, weights beside it. In: `model.json` and its files; out: a
 * model of the same operators as those of ONNX files, with what such a model can.
 *
 * @module
 */
import type { Checked, DeviceName } from "../device/device.ts";
import { FormatError } from "../helpers/errors.ts";
import { isPlain } from "../helpers/options.ts";
import { checkModel } from "../onnx/graph/check.ts";
import { modelOf, type OnnxModel, weightPlace } from "../onnx/model.ts";
import { codeOf, FLOAT, INT32, STRING } from "../onnx/wire/element_types.ts";
import type { ValueInfo } from "../onnx/wire/messages.ts";
import { pathOf } from "../state/source.ts";
import { GraphBuilder, protoOf } from "./graph_builder.ts";
import type { LayersSource } from "./layers_model.ts";
import { TF_OPS, type TfNode } from "./tf_ops.ts";
import { type Fault, listOf, readModelFiles, recordOf, weightEntries } from "./weights_manifest.ts";

/** Options of {@linkcode loadGraphModel}. */
export interface GraphOptions {
  /** Where weights go; the default device unless given. */
  readonly device?: DeviceName;
  /** Whether weights of floats are to have gradients; false unless given. */
  readonly requiresGrad?: boolean;
}

/** Types of TensorFlow by name and number, as codes of ONNX: int64 is int32, as in TensorFlow.js. */
const TYPES: Readonly<Record<string, number>> = {
  DT_FLOAT: FLOAT,
  DT_DOUBLE: FLOAT,
  DT_HALF: FLOAT,
  DT_INT32: INT32,
  DT_INT64: INT32,
  DT_UINT8: 2,
  DT_INT8: 3,
  DT_BOOL: 9,
  DT_STRING: STRING,
};
const NUMBERED: Readonly<Record<number, string>> = {
  1: "DT_FLOAT",
  2: "DT_DOUBLE",
  3: "DT_INT32",
  4: "DT_UINT8",
  6: "DT_INT8",
  7: "DT_STRING",
  9: "DT_INT64",
  10: "DT_BOOL",
  19: "DT_HALF",
};

type Json = Readonly<Record<string, unknown>>;
interface GraphNode {
  readonly name: string;
  readonly op: string;
  readonly inputs: readonly string[];
  readonly attr: Json;
}

/** The code of a type that an attribute names. */
function typeCode(x: unknown, otherwise: number): number {
  const name = typeof x === "number" ? NUMBERED[x] : x;
  return TYPES[String(name)] ?? otherwise;
}
/** Text: bytes in a list, or in base 64. */
function textOf(x: unknown, bad: Fault): string {
  if (Array.isArray(x)) return String.fromCharCode(...x as number[]);
  try {
    return atob(String(x));
  } catch {
    throw bad(`an attribute has the text ${JSON.stringify(x)}, which is not base 64`);
  }
}
function shapeOf(x: unknown): (number | string)[] | undefined {
  const dim = isPlain(x) && isPlain(x.shape) ? (x.shape as Json).dim ?? [] : isPlain(x) ? x.dim : undefined;
  if (!Array.isArray(dim) || isPlain(x) && isPlain(x.shape) && (x.shape as Json).unknownRank === true) return undefined;
  return dim.map((d) => {
    const n = Number((d as Json)?.size ?? -1);
    return Number.isSafeInteger(n) && n >= 0 ? n : "";
  });
}

/** Where a value comes from: a node, and which of its results. */
function sourceOf(text: string): [node: string, result: number] {
  const [, name, at] = /^(.*?)(?::(\d+))?$/.exec(text)!;
  return [name, Number(at ?? 0)];
}

/** Nodes of the file. */
function nodesOf(topology: unknown, bad: Fault): GraphNode[] {
  const { node, library } = recordOf(topology, "modelTopology", bad);
  const functions = isPlain(library) ? (library as Json).function : undefined;
  if (Array.isArray(functions) && functions.length > 0) {
    throw bad("it has functions, which control flow consists of: freeze it without, or convert it to ONNX");
  }
  return listOf(node, "its nodes", bad).map((x) => {
    const { name, op, input = [], attr = {} } = recordOf(x, "a node", bad);
    if (typeof name !== "string" || typeof op !== "string") throw bad("a node has no name or no operator");
    const inputs = listOf(input, `the inputs of "${name}"`, bad).map(String).filter((i) => !i.startsWith("^"));
    return { name, op, inputs, attr: recordOf(attr, `the attributes of "${name}"`, bad) };
  });
}

/** Attributes as the translation asks for them. */
function attributesOf(
  { name: node, op, attr }: GraphNode,
  bad: Fault,
): Omit<TfNode, "name" | "op" | "inputs" | "g" | "known" | "bad"> {
  const of = (name: string): Json | undefined =>
    attr[name] === undefined ? undefined : recordOf(attr[name], `attribute ${name} of "${node}"`, bad);
  const list = (name: string, key: string): unknown[] | undefined => {
    const found = of(name)?.list;
    return found === undefined ? undefined : listOf((found as Json)[key] ?? [], `attribute ${name} of "${node}"`, bad);
  };
  return {
    int: (name, otherwise) => {
      const n = Number(of(name)?.i ?? otherwise);
      if (!Number.isSafeInteger(n)) throw bad(`${op} "${node}" has no whole number ${name}`);
      return n;
    },
    float: (name, otherwise) => Number(of(name)?.f ?? otherwise),
    flag: (name, otherwise = false) => (of(name)?.b ?? otherwise) === true,
    text: (name, otherwise) => of(name)?.s === undefined ? otherwise : textOf(of(name)!.s, bad),
    ints: (name, otherwise = []) => list(name, "i")?.map(Number) ?? otherwise,
    texts: (name) => list(name, "s")?.map((s) => textOf(s, bad)) ?? [],
    type: (name, otherwise) => typeCode(of(name)?.type, otherwise),
  };
}

/** Reads a graph model from the path of its `model.json`, or from memory. Inputs of int64 take int32, as in TensorFlow.js.
 *
 * ```ts ignore files
 * import { Tensor } from "../../mod.ts";
 * import { loadGraphModel } from "./tfjs.ts";
 * const model = await loadGraphModel("model/model.json");
 * const { scores } = model.call(Tensor.zeros([1, 224, 224, 3]));
 * ```
 *
 * @throws {FormatError} for what is no graph model, and for operators that are not known, by the name of the node
 */
export async function loadGraphModel<N extends string = string>(
  from: string | URL | LayersSource,
  options: Checked<GraphOptions, N> = {},
): Promise<OnnxModel> {
  const action = "load a graph model";
  const place = weightPlace(action, options);
  const file = isPlain(from) ? "in memory" : pathOf(action, from as string | URL);
  const bad: Fault = (reason) => new FormatError("read the graph model", { file, reason });
  const { json, files } = await readModelFiles(from, file, bad);
  if (
    json.format === "layers-model" || isPlain(json.modelTopology) && (json.modelTopology as Json).node === undefined
  ) {
    throw bad("it is a layers model: load it by loadLayersModel");
  }
  const nodes = nodesOf(json.modelTopology, bad), g = new GraphBuilder();
  for (const { name, dtype, shape, bytes } of weightEntries(json.weightsManifest, files, bad)) {
    g.weight(protoOf(name, codeOf(dtype), shape, bytes));
  }
  const signature = json.signature ?? (json.userDefinedMetadata as Json | undefined)?.signature;
  const ports = (key: string): [string, Json][] =>
    Object.entries(isPlain(signature) ? recordOf((signature as Json)[key] ?? {}, `${key} of the signature`, bad) : {})
      .map(([name, x]) => [name, recordOf(x, `"${name}" of the signature`, bad)]);
  const results = new Map<string, readonly string[]>(), used = new Set<string>(), inputs: ValueInfo[] = [];
  const named = new Map(ports("inputs").map(([name, port]) => [sourceOf(String(port.name))[0], name]));
  for (const node of nodes) {
    if (node.op === "Placeholder") {
      const { shape, dtype } = node.attr as { shape?: unknown; dtype?: Json }, name = named.get(node.name) ?? node.name;
      const type = {
        kind: "tensor" as const,
        element: typeCode(dtype?.type, FLOAT),
        shape: shapeOf(shape),
        of: undefined,
      };
      inputs.push({ name, type });
      results.set(node.name, [name]);
    } else if (node.op === "Const") {
      if (g.weightOf(node.name) === undefined) throw bad(`the constant "${node.name}" is none of its weights`);
      results.set(node.name, [node.name]);
    }
  }
  for (const node of sorted(nodes, bad)) {
    if (results.has(node.name) || node.op === "NoOp") continue;
    const f = TF_OPS[node.op];
    if (f === undefined) throw bad(`node "${node.name}" is ${node.op}, an operator that is not known`);
    const given = node.inputs.map((text) => {
      const [name, at] = sourceOf(text), found = results.get(name)?.[at];
      if (found === undefined) throw bad(`node "${node.name}" takes "${text}", which nothing gives`);
      used.add(name);
      return found;
    });
    g.at = node.name;
    const known = (i: number): number[] | undefined => numbersOf(g, given[i]);
    const made = f({ name: node.name, op: node.op, inputs: given, g, bad, known, ...attributesOf(node, bad) });
    results.set(node.name, typeof made === "string" ? [made] : made);
  }
  const wanted: [string, string, Json][] = ports("outputs").map(([name, port]) => [name, String(port.name), port]);
  if (wanted.length === 0) {
    for (const { name, op } of nodes) {
      if (!used.has(name) && op !== "Const" && op !== "Placeholder" && results.has(name)) wanted.push([name, name, {}]);
    }
  }
  const byName = new Map(nodes.map((n) => [n.name, n]));
  const outputs = wanted.map(([name, text, port]): ValueInfo => {
    const [node, at] = sourceOf(text), found = results.get(node)?.[at];
    if (found === undefined) throw bad(`output "${name}" is "${text}", which nothing gives`);
    const free = inputs.some((i) => i.name === name) || g.weightOf(name) !== undefined ? `${name}_out` : name;
    g.rename(found, free);
    const own = byName.get(node)!.attr, type = own.DstT ?? own.T;
    const element = typeCode(port.dtype ?? (isPlain(type) ? (type as Json).type : undefined), FLOAT);
    return { name: free, type: { kind: "tensor", element, shape: shapeOf(port.tensorShape), of: undefined } };
  });
  const model = g.model("TensorFlow.js", inputs, outputs);
  checkModel(model, (reason) => bad(reason) as FormatError);
  return modelOf(model, (reason) => bad(reason) as FormatError, place);
}

/** Numbers of a constant, where they are few. */
export function numbersOf(g: GraphBuilder, name: string): number[] | undefined {
  const t = g.weightOf(name);
  if (t?.raw === undefined || t.raw.length > 2 ** 16) return undefined;
  const bytes = t.raw.slice().buffer;
  if (t.type === INT32) return Array.from(new Int32Array(bytes));
  if (t.type === FLOAT) return Array.from(new Float32Array(bytes));
  return t.type === 7 ? Array.from(new BigInt64Array(bytes), Number) : undefined;
}

/** Nodes so that each follows what it takes. */
function sorted(nodes: readonly GraphNode[], bad: Fault): GraphNode[] {
  const byName = new Map(nodes.map((n) => [n.name, n])),
    state = new Map<string, "open" | "done">(),
    out: GraphNode[] = [];
  for (const root of nodes) {
    const stack = [root.name];
    while (stack.length > 0) {
      const name = stack[stack.length - 1], node = byName.get(name);
      if (node === undefined || state.get(name) === "done") {
        stack.pop();
        continue;
      }
      const before = state.get(name);
      state.set(name, "open");
      const left = node.inputs.map((i) => sourceOf(i)[0]).filter((i) => byName.has(i) && state.get(i) !== "done");
      if (left.length === 0) {
        state.set(name, "done");
        out.push(node);
        stack.pop();
      } else if (before === "open" || left.some((i) => state.get(i) === "open")) {
        throw bad(`node "${name}" needs its own result`);
      } else stack.push(...left);
    }
  }
  return out;
}
