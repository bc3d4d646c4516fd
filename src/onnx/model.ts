/**
 * A loaded ONNX model. In: a path or bytes, then tensors; out: tensors. Weights are tensors of the model's device, read
 * from the file once; what a call computes is a lazy graph like any other.
 *
 * @module
 */
import { type Checked, type DeviceName, getDevice } from "../device/device.ts";
import { dtypes } from "../dtype/dtype.ts";
import { ArgumentError, DTypeError, FormatError, ShapeError } from "../helpers/errors.ts";
import { hasState } from "../helpers/stateful.ts";
import { showAs } from "../helpers/text.ts";
import { checkBoolean, checkOptions, describe, isPlain } from "../helpers/options.ts";
import { bytesIn, fileBytes, folderOf, isInMemory, type Loadable, pathOf, placeOf } from "../state/source.ts";
import { Tensor } from "../tensor/tensor.ts";
import { deviceOf } from "../uop/core/shape.ts";
import { allTensors, checkModel } from "./graph/check.ts";
import { type Machine, runModel, weightOf } from "./graph/run_graph.ts";
import { findOperator } from "./ops/operators.ts";
import type { Steps } from "./values/node_call.ts";
import {
  type External,
  type Fault,
  HOST_LIMIT,
  hostNumbers,
  type Item,
  knownValue,
  Mapping,
  Optional,
  Sequence,
  Value,
  valueOf,
} from "./values/value.ts";
import { elementType, STRING, typeName } from "./wire/element_types.ts";
import { faultOf, type ModelProto, readModel, type TensorProto, type TypeProto } from "./wire/messages.ts";

/**
 * What an input may be given as: a tensor, numbers, texts (nested lists, or one), a list for a sequence, or null. Whole
 * numbers that are no tensors are known to the host: those that decide on shapes or branches are given so under `jit`.
 */
export type OnnxInput = Tensor | number | boolean | string | null | readonly OnnxInput[];
/**
 * What an output is: a tensor, texts in nested lists, a list where it is a sequence, numbers by class where it is a map, or
 * null for an absent optional.
 */
export type OnnxOutput = Tensor | string | null | readonly OnnxOutput[] | Readonly<Record<string, number>>;

/** What a call gives: outputs by name, and in the order of the model where it is taken apart as a list. */
export type OnnxResults = Record<string, OnnxOutput> & Iterable<OnnxOutput>;

/** An input or output of a model. */
export interface OnnxPort {
  /** Its name. */
  readonly name: string;
  /** The type of its elements, as ONNX calls it: `float`, `int64`, `string`. */
  readonly type: string;
  /** Sizes; names of those that are free; undefined where the model does not say. */
  readonly shape: readonly (number | string)[] | undefined;
  /** Whether it is a tensor, a sequence of such, or may be absent. */
  readonly kind: "tensor" | "sequence" | "optional" | "map" | "sparse" | "unknown";
}

/** An input or output as it is told. */
export function portText({ name, type, shape, kind }: OnnxPort): string {
  const sizes = shape === undefined ? "" : `[${shape.map((n) => n === "" ? "?" : n).join(", ")}]`;
  return `${name}: ${kind === "tensor" ? "" : `${kind} of `}${type}${sizes}`;
}
function portsText(ports: readonly OnnxPort[]): string {
  return `(${ports.map(portText).join(", ")})`;
}

/** Options of everything that loads a model. */
export interface WeightOptions {
  /** Where weights and constants go; the default device unless given. */
  readonly device?: DeviceName;
  /** Whether weights of floats are to have gradients; false unless given. */
  readonly requiresGrad?: boolean;
}

/** Options of {@linkcode load}. */
export interface LoadOptions extends WeightOptions {
  /** Files of weights beside a model in memory, by the names that the model gives them: `{ "model.onnx.data": bytes }`. */
  readonly files?: Readonly<Record<string, Uint8Array | ArrayBuffer>>;
}

/** Where the weights of a model go, and whether they have gradients. @throws {ArgumentError} */
export function weightPlace(
  action: string,
  options: WeightOptions,
  more: readonly string[] = [],
): { readonly device: string; readonly trained: boolean } {
  checkOptions(action, options, ["device", "requiresGrad", ...more]);
  return { device: placeOf(options), trained: checkBoolean(action, "requiresGrad", options.requiresGrad ?? false) };
}

/** Prototypes of what calls give. */
const RESULTS = new WeakSet<object>();
/** Whether something is tensors by name. */
function isByName(x: unknown): x is Record<string, unknown> {
  return isPlain(x) || typeof x === "object" && x !== null && RESULTS.has(Object.getPrototypeOf(x) ?? x);
}

/** The side of a model that its users see of a ValueInfo. */
export function portOf(v: { readonly name: string; readonly type: TypeProto | undefined }): OnnxPort {
  const { name, type } = v;
  return { name, type: typeName(type?.element ?? 0), shape: type?.shape, kind: type?.kind ?? "unknown" };
}

/**
 * A model, ready to be called. Computation is lazy, as everywhere: `call` makes a graph, and reading a result runs it.
 * Arithmetic on shapes is done on the host.
 */
export class OnnxModel {
  static {
    hasState(OnnxModel.prototype, (x: OnnxModel) => x.weights); // saved, loaded and named as in the file
    showAs(OnnxModel.prototype, (x) => `OnnxModel ${[x.inputs, x.outputs].map(portsText).join(" -> ")} ${x.device}`);
  }

  /** What it takes: inputs that are no initializers. */
  readonly inputs: readonly OnnxPort[];
  /** What it gives. */
  readonly outputs: readonly OnnxPort[];
  private readonly types: readonly (TypeProto | undefined)[];
  private readonly results: object;
  private readonly order: readonly number[];

  /** Use {@linkcode load}. */
  constructor(private readonly machine: Machine) {
    const { graph } = machine.model, weights = new Set(graph.initializers.map((t) => t.name));
    const asked = graph.inputs.map((v, i) => ({ v, i })).filter(({ v }) => !weights.has(v.name));
    this.inputs = asked.map(({ v }) => portOf(v));
    this.types = asked.map(({ v }) => v.type);
    this.order = asked.map(({ i }) => i);
    const outputs = this.outputs = graph.outputs.map(portOf);
    // keys that are whole numbers, as PyTorch names outputs, come first and sorted in every object: so it has an order of its own
    const inOrder = function* (this: Record<string, OnnxOutput>): Generator<OnnxOutput> {
      for (const { name } of outputs) yield this[name];
    };
    this.results = Object.create(Object.prototype, { [Symbol.iterator]: { value: inOrder } });
    RESULTS.add(this.results);
  }

  /** Where its weights are. */
  get device(): DeviceName {
    return this.machine.device as DeviceName;
  }

  /** The initializers that are numbers, by name: tensors of the model's device. */
  get weights(): Record<string, Tensor> {
    const { machine } = this, out: Record<string, Tensor> = {};
    for (const t of machine.model.graph.initializers) {
      const v = weightOf(machine, t);
      if (v.type !== STRING) out[t.name] = v.tensor(machine.device);
    }
    return out;
  }

  /**
   * The outputs by name, or in order as `const [y, z] = model.call(x)`, for inputs by name or in order. Lazy; under `jit` it
   * is captured. Where a value decides on
   * shapes it is read at once, which a device that cannot be read at once refuses: then use {@linkcode OnnxModel.run}.
   *
   * @throws {ArgumentError} for inputs that are absent or unknown, {DTypeError} and {ShapeError} for those that do not
   * fit, {FormatError} naming the node that failed
   */
  call(...inputs: readonly OnnxInput[] | readonly [Readonly<Record<string, OnnxInput>>]): OnnxResults {
    const steps = runModel(this.machine, this.items(inputs));
    for (let s = steps.next();; s = steps.next()) {
      if (s.done) return this.named(s.value);
      s.value.data = hostNumbers(s.value.tensor(this.machine.device).dataSync());
    }
  }
  /** As {@linkcode OnnxModel.call}, where values that decide on shapes are awaited: works on every device. */
  async run(
    ...inputs: readonly OnnxInput[] | readonly [Readonly<Record<string, OnnxInput>>]
  ): Promise<OnnxResults> {
    const steps: Steps<Item[]> = runModel(this.machine, this.items(inputs));
    for (let s = steps.next();; s = steps.next()) {
      if (s.done) return this.named(s.value);
      s.value.data = hostNumbers(await s.value.tensor(this.machine.device).data() as ArrayLike<number>);
    }
  }

  /** The inputs of the graph, in its order. */
  private items(given: readonly unknown[]): (Item | undefined)[] {
    const action = "run the ONNX model", ports = this.inputs;
    const byName = given.length === 1 && isByName(given[0]) ? given[0] : undefined;
    if (byName !== undefined) {
      const unknown = Object.keys(byName).find((k) => !ports.some((p) => p.name === k));
      if (unknown !== undefined) {
        throw new ArgumentError(action, { reason: `it has no input "${unknown}", but ${namesOf(ports)}` });
      }
    } else if (given.length > ports.length) {
      throw new ArgumentError(action, { reason: `it takes ${namesOf(ports)}, and was given ${given.length} inputs` });
    }
    const sizes = new Map<string, [number, string]>(), out: (Item | undefined)[] = [];
    ports.forEach((port, i) => {
      const x = byName === undefined ? given[i] : byName[port.name];
      if (x === undefined && port.kind !== "optional") {
        throw new ArgumentError(action, { reason: `input "${port.name}" is missing; it takes ${namesOf(ports)}` });
      }
      const item = this.item(port, x ?? null, this.types[i]);
      if (item instanceof Value) checkSizes(port, item.shape, sizes);
      out[this.order[i]] = item;
    });
    return out;
  }

  /** An input as an item of the type that the model says. */
  private item(port: OnnxPort, x: unknown, type: TypeProto | undefined): Item {
    const action = `give "${port.name}" to the ONNX model`, { device } = this.machine;
    if (type?.kind === "optional") return new Optional(x === null ? undefined : this.item(port, x, type.of));
    if (type?.kind === "sequence") {
      if (!Array.isArray(x)) {
        throw new ArgumentError(action, { reason: `it is a sequence: give a list, not ${describe(x)}` });
      }
      return new Sequence(x.map((e) => this.item(port, e, type.of)));
    }
    if (type?.element === STRING) {
      const shape: number[] = [], texts = (Array.isArray(x) ? x.flat(Infinity) : [x]) as unknown[];
      for (let e: unknown = x; Array.isArray(e); e = e[0]) shape.push(e.length);
      if (!texts.every((t) => typeof t === "string") || texts.length !== shape.reduce((a, b) => a * b, 1)) {
        throw new ArgumentError(action, { reason: "it takes texts, in lists of one length" });
      }
      return knownValue(STRING, shape, texts as string[]);
    }
    const want = elementType(type?.element ?? 0);
    if (!(x instanceof Tensor)) {
      if (typeof x !== "number" && typeof x !== "boolean" && !Array.isArray(x)) {
        const shape = port.shape?.map((n) => typeof n === "number" ? n : -1).join(", ") ?? "-1";
        const way = ArrayBuffer.isView(x) ? `: make one by new Tensor(data).reshape([${shape}])` : "";
        throw new ArgumentError(action, { reason: `it takes a tensor, not ${describe(x)}${way}` });
      }
      const t = new Tensor(x as number[], { dtype: want?.dtype ?? dtypes.float32, device: device as DeviceName });
      const flat = (Array.isArray(x) ? x.flat(Infinity) : [x]).map(Number),
        whole = want?.dtype.isInt || want?.dtype.isBool;
      // whole numbers stay known on the host as well: they may decide on shapes and branches, under jit too
      return whole && flat.length <= HOST_LIMIT && flat.every(Number.isSafeInteger)
        ? new Value(want!.code, t.shape, { tensor: t, data: flat })
        : valueOf(t, want?.code);
    }
    if (want === undefined) return valueOf(x.to(device as DeviceName));
    const fits = x.dtype === want.dtype || x.dtype.isInt && want.dtype.isInt ||
      x.dtype.isFloat === want.dtype.isFloat && !x.dtype.isBool && !want.dtype.isBool;
    if (!fits) {
      throw new DTypeError(action, { dtypes: [x.dtype], reason: `it takes ${want.name}; use .cast("${want.dtype}")` });
    }
    return valueOf(x.to(device as DeviceName).cast(want.dtype), want.code);
  }

  private named(items: readonly Item[]): OnnxResults {
    const out: OnnxResults = Object.create(this.results);
    this.outputs.forEach((p, i) => out[p.name] = this.output(items[i]));
    return out;
  }
  private output(item: Item): OnnxOutput {
    if (item instanceof Sequence) return item.items.map((x) => this.output(x));
    if (item instanceof Optional) return item.item === undefined ? null : this.output(item.item);
    if (item instanceof Mapping) return Object.fromEntries(item.entries);
    if (item.isText) return nested(item.data as ArrayLike<string>, item.shape);
    const { device } = this.machine, t = item.tensor(device);
    return deviceOf(t.uop) === null ? t.to(device as DeviceName) : t; // a constant belongs to no device
  }
}

function namesOf(ports: readonly OnnxPort[]): string {
  return ports.length === 0 ? "no inputs" : ports.map((p) => `"${p.name}"`).join(", ");
}

/** Texts in lists, as a shape says. */
function nested(data: ArrayLike<string>, shape: readonly number[], start = 0): OnnxOutput {
  if (shape.length === 0) return data[start];
  const step = shape.slice(1).reduce((a, b) => a * b, 1);
  return Array.from({ length: shape[0] }, (_, i) => nested(data, shape.slice(1), start + i * step));
}

/**
 * Throws where sizes are others than the model says, or one name stands for two. A tensor without elements stands for one
 * that is not there yet, as caches of decoders do before the first step: its free axes may have any size.
 */
function checkSizes(port: OnnxPort, shape: readonly number[], names: Map<string, [number, string]>): void {
  if (port.shape === undefined || port.kind !== "tensor") return;
  const action = `give "${port.name}" to the ONNX model as`, want = port.shape.map((n) => n === "" ? "?" : n);
  if (shape.length !== want.length) {
    throw new ShapeError(action, { shapes: [shape], reason: `it has the axes [${want.join(", ")}]` });
  }
  want.forEach((n, axis) => {
    if (typeof n === "string" && shape.includes(0)) return;
    const known = typeof n === "number" ? [n, `[${want.join(", ")}]`] as const : names.get(n);
    if (known !== undefined && known[0] !== shape[axis] && known[0] > 0) {
      const reason = typeof n === "number"
        ? `axis ${axis} is ${n} in ${known[1]}`
        : `axis ${axis}, which is ${n}, is ${known[0]} in "${known[1]}"`;
      throw new ShapeError(action, { shapes: [shape], axis, reason });
    }
    if (typeof n === "string" && n !== "?") names.set(n, [shape[axis], port.name]);
  });
}

/** The bytes of a model, and what its errors call it. */
export async function modelBytes(
  action: string,
  from: Loadable,
): Promise<[Uint8Array, string]> {
  const isGiven = isInMemory(from), file = isGiven ? "model in memory" : pathOf(action, from, true);
  const bytes = isGiven ? await bytesIn(from) : await fileBytes(file), start = bytes.subarray(0, 48);
  // no model begins with letters: pages in place of files that were not found do, and pointers to large files of Git
  if (start.length > 1 && start.every((b) => b === 9 || b === 10 || b === 13 || b >= 32 && b < 127)) {
    const text = JSON.stringify(new TextDecoder().decode(start));
    throw new FormatError(action, {
      file: isGiven ? "in memory" : file,
      reason: `it is text, which begins with ${text}`,
    });
  }
  return [bytes, file];
}

/** How a tensor of a file is called in errors: constants of nodes have no name. */
function tensorText(t: TensorProto): string {
  return t.name === "" ? `a constant of [${t.dims.join(", ")}]` : `initializer "${t.name}"`;
}
/** Bytes that were given for a file beside the model. */
function givenFile(given: unknown, location: string, bad: Fault): Uint8Array {
  const found = isPlain(given) ? given[location] ?? given[location.replace(/^\.\//, "")] : undefined;
  if (found instanceof ArrayBuffer) return new Uint8Array(found);
  if (found instanceof Uint8Array) return found;
  const way = `give it as { files: { "${location}": bytes } }`;
  throw bad(
    found === undefined
      ? `it has weights in "${location}", which a model in memory cannot open: ${way}`
      : `"${location}" is ${describe(found)}, not bytes: ${way}`,
  );
}

/** Data that lies beside a model: files given by name, or those in its folder and nowhere else. */
async function externalData(
  model: ModelProto,
  from: { readonly folder: string } | { readonly given: unknown },
  bad: Fault,
): Promise<External> {
  const files = new Map<string, Uint8Array>();
  const entries = (t: TensorProto): [string, number, number | undefined] => {
    const location = t.external.get("location") ?? "", parts = location.split(/[/\\]/);
    if (location === "" || /^[/\\]|^[A-Za-z]:|^[a-z]+:\/\//.test(location) || parts.includes("..")) {
      throw bad(`${tensorText(t)} has its data in "${location}", which is not in the model's folder`);
    }
    const number = (key: string): number | undefined => {
      const text = t.external.get(key), n = Number(text);
      if (text !== undefined && !(Number.isSafeInteger(n) && n >= 0)) {
        throw bad(`${tensorText(t)} has ${key} "${text}" in "${location}"`);
      }
      return text === undefined ? undefined : n;
    };
    return [location, number("offset") ?? 0, number("length")];
  };
  for (const t of allTensors(model)) {
    if (!t.isExternal) continue;
    const [location] = entries(t);
    if (files.has(location)) continue;
    files.set(
      location,
      "folder" in from ? await fileBytes(from.folder + location) : givenFile(from.given, location, bad),
    );
  }
  return (t, nbytes) => {
    const [location, offset, length] = entries(t), bytes = files.get(location), n = length ?? nbytes;
    if (bytes === undefined) throw bad(`${tensorText(t)} has its data in "${location}", which was not read`);
    if (n !== nbytes || offset + n > bytes.length) {
      throw bad(
        `${tensorText(t)} needs ${nbytes} bytes at ${offset} of "${location}", which has ${bytes.length}`,
      );
    }
    return bytes.subarray(offset, offset + n);
  };
}

/**
 * Loads a model from a file, or from its bytes. Versions 7 to 28 of the operators are known; which ones, and what is not,
 * is in docs/onnx.md. Data outside of the model is read from its own folder only; of a model in memory it is given as
 * `files`.
 *
 * ```ts ignore files
 * import { Tensor } from "../../mod.ts";
 * import * as onnx from "./onnx.ts";
 * const model = await onnx.load("model.onnx");
 * const { y } = model.call({ x: Tensor.rand([1, 3, 224, 224]) });
 * ```
 *
 * @throws {FormatError} for a file that is no ONNX model, or one whose parts do not fit: with the node's name
 */
export async function load<N extends string = string>(
  from: Loadable,
  options: Checked<LoadOptions, N> = {},
): Promise<OnnxModel> {
  const action = "load an ONNX model";
  const place = weightPlace(action, options, ["files"]), { files } = options;
  if (files !== undefined && !isPlain(files)) {
    throw new ArgumentError(action, { reason: `files must be bytes by name, not ${describe(files)}` });
  }
  const [bytes, file] = await modelBytes(action, from), bad = faultOf(file), model = readModel(bytes, file);
  checkModel(model, bad);
  const isPath = files === undefined && (typeof from === "string" || from instanceof URL);
  const external = await externalData(model, isPath ? { folder: folderOf(file) } : { given: files }, bad);
  return modelOf(model, bad, { ...place, external, isOnnx: true });
}

/** A model of records that were checked, or built as they must be. */
export function modelOf(
  model: ModelProto,
  bad: Fault,
  { device, trained, external, isOnnx = false }: {
    readonly device: string;
    readonly trained: boolean;
    readonly external?: External;
    /** Whether the types that it declares are ONNX's: nodes are held to them. */
    readonly isOnnx?: boolean;
  },
): OnnxModel {
  getDevice(device);
  const machine: Machine = {
    model,
    device,
    lookup: findOperator,
    bad,
    external,
    trained,
    isOnnx,
    weights: new Map(),
    types: new Map(),
    told: new Set(),
  };
  for (const t of model.graph.initializers) {
    const v = weightOf(machine, t);
    if (trained && (elementType(v.type)?.dtype.isFloat ?? false)) v.tensor(device).requiresGrad = true;
  }
  return new OnnxModel(machine);
}
