/**
 * A model of TensorFlow Lite (`.tflite`, now LiteRT). In: a path or bytes; out: a model of the same operators as those of
 * ONNX files. Tensors of 8 bits are computed in whole numbers as far as tflite_integer.ts goes, others that are quantized as
 * the floats that they stand for, and rounded where the file rounds them.
 * Source: TensorFlow Lite's schema, version 3.
 *
 * @module
 */
import type { Checked } from "../device/device.ts";
import { FormatError } from "../helpers/errors.ts";
import { prod } from "../helpers/math.ts";
import { checkModel } from "../onnx/graph/check.ts";
import { modelBytes, modelOf, type OnnxModel, weightPlace } from "../onnx/model.ts";
import {
  BOOL,
  DOUBLE,
  elementType,
  FLOAT,
  FLOAT16,
  INT32,
  INT4,
  INT64,
  INT8,
  packedBytes,
  STRING,
  UINT8,
} from "../onnx/wire/element_types.ts";
import type { Graph, ValueInfo } from "../onnx/wire/messages.ts";
import type { Loadable } from "../state/source.ts";
import { FlatTable } from "./flatbuffer.ts";
import { GraphBuilder, protoOf } from "./graph_builder.ts";
import { type GraphOptions, numbersOf } from "./graph_model.ts";
import { type Quantized, WHOLE_OPS } from "./tflite_integer.ts";
import { LITE_NAMES, LITE_OPS } from "./tflite_ops.ts";
import type { Fault } from "./weights_manifest.ts";

/** Codes of ONNX by those of the schema. */
const TYPES: readonly (number | undefined)[] = [
  FLOAT,
  FLOAT16,
  INT32,
  UINT8,
  INT64,
  STRING,
  BOOL,
  5,
  undefined,
  INT8,
  DOUBLE,
  undefined,
  13,
  undefined,
  undefined,
  12,
  4,
  INT4,
];

/** A tensor of the file. */
interface LiteTensor {
  readonly name: string;
  readonly shape: readonly number[];
  /** The code of its elements. */
  readonly type: number;
  readonly buffer: number;
  readonly quantized: Quantized | undefined;
}

function tensorOf(t: FlatTable, i: number, bad: Fault): LiteTensor {
  const name = t.text(3) || `tensor ${i}`, type = TYPES[t.byte(1)], q = t.table(4);
  if (type === undefined) throw bad(`tensor "${name}" has type ${t.byte(1)}, which is not known`);
  const shape = t.ints(0), signature = t.ints(7), scale = q?.floats(2) ?? [], zero = q?.longs(3) ?? [];
  if (shape.some((n) => n < 0)) throw bad(`tensor "${name}" has the shape [${shape.join(", ")}]`);
  if (t.table(6) !== undefined) throw bad(`tensor "${name}" is sparse, which is not known`);
  const axis = q?.int(6) ?? 0, isWhole = elementType(type)?.dtype.isInt === true && type !== INT64;
  if (scale.length > 1 && scale.length !== shape[axis] || zero.length > 1 && zero.length !== scale.length) {
    throw bad(`tensor "${name}" has ${scale.length} scales for the axis ${axis} of [${shape.join(", ")}]`);
  }
  const quantized = isWhole && scale.length > 0 ? { scale, zero, axis } : undefined;
  return { name, shape: signature.length === shape.length ? signature : shape, type, buffer: t.uint(2), quantized };
}

/** Constants of the file as tensors of the graph; names by number. */
class LiteGraph {
  readonly g: GraphBuilder;
  readonly names: (string | undefined)[] = [];
  private readonly floats: Map<number, string> = new Map();

  constructor(
    readonly tensors: readonly LiteTensor[],
    readonly buffers: readonly FlatTable[],
    readonly bad: Fault,
    private readonly prefix: string,
  ) {
    this.g = new GraphBuilder(prefix);
  }

  /** The name of a constant; undefined for what has no data. */
  constant(i: number): string | undefined {
    const { name, shape, type, buffer } = this.tensors[i], b = this.buffers[buffer];
    if (b === undefined) throw this.bad(`tensor "${name}" is in buffer ${buffer} of ${this.buffers.length}`);
    const data = b.has(1) && b.long(1) > 1 ? b.outside(b.long(1), b.long(2)) : b.bytes(0);
    const bytes = packedBytes(elementType(type)!, prod(shape));
    if (data.length === 0 && bytes > 0) return undefined;
    if (data.length !== bytes || type === STRING) {
      throw this.bad(`tensor "${name}" has ${data.length} bytes, and [${shape.join(", ")}] of its type is ${bytes}`);
    }
    return this.g.weight(protoOf(`${this.prefix}${i} ${name}`, type, shape, data));
  }
  /** Scale and zero of a tensor as inputs of what quantizes. */
  private scales(i: number): [scale: string, zero: string | undefined, axis: Record<string, number>] {
    const { type, quantized } = this.tensors[i], { scale, zero, axis } = quantized!, { g } = this;
    const dims = scale.length === 1 ? [] : [scale.length];
    const s = g.weight(
      protoOf(`${this.prefix}${i} scale`, FLOAT, dims, new Uint8Array(Float32Array.from(scale).buffer)),
    );
    const { dtype } = elementType(type)!, numbers = scale.map((_, k) => zero[k] ?? zero[0] ?? 0);
    const raw = dtype.itemsize === 1
      ? Uint8Array.from(numbers)
      : dtype.itemsize === 2
      ? new Uint8Array(Int16Array.from(numbers).buffer)
      : new Uint8Array(Int32Array.from(numbers).buffer);
    return [s, g.weight(protoOf(`${this.prefix}${i} zero`, type, dims, raw)), scale.length === 1 ? {} : { axis }];
  }
  /** A tensor as it is. */
  raw(i: number): string {
    const name = this.names[i];
    if (name === undefined) throw this.bad(`tensor ${i}, "${this.tensors[i].name}", is taken before it is given`);
    return name;
  }
  /** A tensor as an input of operators: quantized ones as floats. */
  input(i: number): string {
    const name = this.raw(i), t = this.tensors[i];
    if (t.quantized === undefined) return name;
    let float = this.floats.get(i);
    if (float === undefined) {
      const [scale, zero, axis] = this.scales(i);
      this.floats.set(i, float = this.g.op("DequantizeLinear", [name, scale, zero], axis));
    }
    return float;
  }
  /** A result of an operator, rounded where the file rounds it. */
  output(i: number, result: string): void {
    const t = this.tensors[i];
    if (t.quantized === undefined) this.names[i] = result;
    else {
      const [scale, zero, axis] = this.scales(i);
      this.names[i] = this.g.op("QuantizeLinear", [result, scale, zero], axis);
    }
  }
}

function sameScale(a: Quantized | undefined, b: Quantized | undefined): boolean {
  return a?.scale.join() === b?.scale.join() && a?.zero.join() === b?.zero.join();
}

/** What all graphs of a file share. */
interface LiteFile {
  readonly graphs: readonly FlatTable[];
  readonly codes: readonly string[];
  readonly buffers: readonly FlatTable[];
  readonly bad: Fault;
}
interface Translated {
  readonly lite: LiteGraph;
  readonly ports: ValueInfo[];
  readonly outs: ValueInfo[];
}

/** One graph of the file: the first, or a branch, whose inputs are `given` by the graph around it. */
function translated(
  file: LiteFile,
  at: number,
  given: readonly string[] | undefined,
  trail: readonly number[],
): Translated {
  const { graphs, codes, buffers, bad } = file, graph = graphs[at];
  if (graph === undefined || trail.includes(at)) {
    throw bad(graph === undefined ? `it has no graph ${at}` : `graph ${at} is within itself`);
  }
  const tensors = graph.tables(0).map((t, i) => tensorOf(t, i, bad)), operators = graph.tables(3);
  const lite = new LiteGraph(tensors, buffers, bad, given === undefined ? "" : `${[...trail, at].join(".")}/`);
  const { g, names } = lite;
  const place = (i: number): LiteTensor => {
    if (tensors[i] === undefined) throw bad(`tensor ${i} is asked for, and there are ${tensors.length}`);
    return tensors[i];
  };
  const infoOf = (name: string, { shape, type }: LiteTensor): ValueInfo => ({
    name,
    type: { kind: "tensor", element: type, shape: shape.map((n) => n < 0 ? "" : n), of: undefined },
  });
  const ports = graph.ints(1).map((i, k) => infoOf(names[i] = given?.[k] ?? place(i).name, place(i)));
  if (given === undefined && new Set(ports.map((p) => p.name)).size < ports.length) {
    throw bad("two of its inputs have one name");
  }
  const made = new Set(operators.flatMap((o) => o.ints(2)));
  tensors.forEach((_, i) => names[i] ??= made.has(i) ? undefined : lite.constant(i));
  for (const [k, o] of operators.entries()) {
    const op = codes[o.uint(0)], outputs = o.ints(2), first = outputs[0];
    if (op === undefined) throw bad(`operator ${k} is of kind ${o.uint(0)}, and there are ${codes.length}`);
    const name = outputs.length === 0 ? `operator ${k}` : place(first).name;
    outputs.forEach(place);
    g.at = `${k} ${name}`;
    if (op === "IF") {
      const [condition, ...more] = o.ints(1).map((i) => lite.raw(place(i) && i)), options = o.table(4);
      const branch = (n: number): Graph => {
        const inner = translated(file, n, more, [...trail, at]);
        return inner.lite.g.graph(`graph ${n}`, [], inner.outs);
      };
      const branches = { then_branch: branch(options?.int(0) ?? 0), else_branch: branch(options?.int(1) ?? 0) };
      g.ops("If", [condition], outputs.length, branches).forEach((result, n) => names[outputs[n]] = result);
      continue;
    }
    if (LITE_OPS[op] === undefined) throw bad(`operator ${k}, which gives "${name}", is ${op}, which is not known`);
    const { shape, type, quantized } = place(first), inputs = o.ints(1).map((i) => i < 0 ? undefined : place(i) && i);
    const known = (n: string | undefined): number[] | undefined => n === undefined ? undefined : numbersOf(g, n);
    const options = o.table(4), custom = o.bytes(5), results = outputs.length;
    const plain = (op: string, inputs: readonly (string | undefined)[]): string | string[] =>
      LITE_OPS[op]({ name, op, inputs, results, options, custom, g, bad, known, shape, type });
    const isWhole = outputs.every((i) => sameScale(tensors[i].quantized, quantized));
    const whole = !isWhole || quantized === undefined ? undefined : WHOLE_OPS[op]?.({
      op,
      inputs: inputs.map((i) => i === undefined ? undefined : { ...tensors[i], name: lite.raw(i) }),
      result: { shape, type, quantized },
      options,
      g,
      known,
      plain,
    });
    if (whole !== undefined) [whole].flat().forEach((result, at) => names[outputs[at]] = result);
    else {
      const found = [plain(op, inputs.map((i) => i === undefined ? undefined : lite.input(i)))].flat();
      outputs.forEach((i, at) => {
        if (found[at] !== undefined) lite.output(i, found[at]);
      });
    }
  }
  const taken = new Set(ports.map((p) => p.name));
  const outs = graph.ints(2).map((i, k) => {
    const { name } = place(i);
    const free = given !== undefined ? g.fresh() : taken.has(name) ? `${name}_${k}` : name;
    taken.add(free);
    g.rename(lite.raw(i), free);
    return infoOf(free, place(i));
  });
  return { lite, ports, outs };
}

/**
 * Reads a model of TensorFlow Lite from its path or its bytes. Inputs and outputs that are quantized are so here:
 * `model.inputs` tells their types.
 *
 * ```ts ignore files
 * import { Tensor } from "../../mod.ts";
 * import { loadTFLite } from "./tfjs.ts";
 * const model = await loadTFLite("model.tflite");
 * const [scores] = Object.values(model.call(Tensor.zeros([1, 96, 96, 3])));
 * ```
 *
 * @throws {FormatError} for what is no such model, and for operators that are not known, by name
 */
export async function loadTFLite<N extends string = string>(
  from: Loadable,
  options: Checked<GraphOptions, N> = {},
): Promise<OnnxModel> {
  const action = "load a model of TensorFlow Lite";
  const place = weightPlace(action, options);
  const [bytes, file] = await modelBytes(action, from);
  const bad = (reason: string): FormatError => new FormatError("read the model of TensorFlow Lite", { file, reason });
  if (String.fromCharCode(...bytes.subarray(4, 8)) !== "TFL3") {
    throw bad("it does not begin as such a file does (TFL3)");
  }
  const root = FlatTable.root(bytes, bad), graphs = root.tables(2);
  if (graphs.length === 0) throw bad("it has no graph");
  const codes = root.tables(1).map((c) => {
    const code = Math.max(c.int8(0), c.int(3)), name = LITE_NAMES[code] ?? `operator ${code}`;
    return name === "CUSTOM" ? c.text(1) : name;
  });
  const { lite, ports, outs } = translated({ graphs, codes, buffers: root.tables(4), bad }, 0, undefined, []);
  const model = lite.g.model("TensorFlow Lite", ports, outs);
  checkModel(model, bad);
  return modelOf(model, bad, place);
}
