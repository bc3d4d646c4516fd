/**
 * A layers model of TensorFlow.js: Keras's topology as JSON, weights beside it. In: `model.json` and its files, then
 * tensors; out: tensors. Layers are looked up by class; those that are not known can be given as functions.
 *
 * @module
 */
import { type Checked, type DeviceName, getDevice } from "../device/device.ts";
import { ArgumentError, FormatError, ShapeError } from "../helpers/errors.ts";
import { hasState } from "../helpers/stateful.ts";
import { checkOptions, describe, isPlain } from "../helpers/options.ts";
import { pathOf, placeOf } from "../state/source.ts";
import { Tensor } from "../tensor/tensor.ts";
import { KERAS_LAYERS } from "./keras_layers.ts";
import { type Fault, listOf, readModelFiles, readWeights, recordOf } from "./weights_manifest.ts";

/** What a layer computes: its inputs, and its config as the file has it. */
export type LayerFunction = (inputs: readonly Tensor[], config: Readonly<Record<string, unknown>>) => Tensor;
/** Options of {@linkcode loadLayersModel}. */
export interface LayersOptions {
  /** Where weights go; the default device unless given. */
  readonly device?: DeviceName;
  /** Layers of other classes, by class. */
  readonly layers?: Readonly<Record<string, LayerFunction>>;
}
/** A model that is in memory: `model.json` as text or parsed, and its weight files by the names that it calls them. */
export interface LayersSource {
  /** The text of `model.json`, or what it parses to. */
  readonly model: unknown;
  /** Bytes of weight files. */
  readonly files: Readonly<Record<string, Uint8Array | ArrayBuffer>>;
}
/** An input of a model. */
export interface LayersInput {
  /** Its name. */
  readonly name: string;
  /** Sizes; null for those that are free. */
  readonly shape: readonly (number | null)[];
}

/** A layer as it lies in the file. */
interface LayerSpec {
  readonly name: string;
  readonly type: string;
  readonly config: Readonly<Record<string, unknown>>;
  /** By call, the values that it takes: a layer, and which of its calls. */
  readonly calls: readonly (readonly (readonly [layer: string, call: number])[])[];
}

/** A model, ready to be called. */
export class LayersModel {
  static {
    hasState(LayersModel.prototype, (x: LayersModel) => x.weights);
  }

  /** Use {@linkcode loadLayersModel}. */
  constructor(
    /** What it takes. */
    readonly inputs: readonly LayersInput[],
    /** Tensors by the names that the file has, as `dense/kernel`. */
    readonly weights: Readonly<Record<string, Tensor>>,
    private readonly parts: {
      readonly layers: readonly LayerSpec[];
      readonly outputs: readonly (readonly [string, number])[];
      readonly custom: Readonly<Record<string, LayerFunction>>;
      readonly bad: Fault;
    },
  ) {}

  /**
   * The outputs for inputs in order: floats whose shapes fit `inputs`. Lazy, as everywhere.
   *
   * @throws {ArgumentError} for another number of inputs @throws {ShapeError} for one that does not fit
   */
  call(...inputs: readonly Tensor[]): Tensor[] {
    const action = "run a layers model", { layers, outputs } = this.parts, values = new Map<string, Tensor>();
    if (inputs.length !== this.inputs.length) {
      const names = this.inputs.map((i) => i.name).join(", ");
      throw new ArgumentError(action, { reason: `it takes ${names}, and was given ${inputs.length} inputs` });
    }
    this.inputs.forEach(({ name, shape }, i) => {
      const x = inputs[i];
      if (!(x instanceof Tensor)) {
        throw new ArgumentError(action, { reason: `"${name}" is ${describe(x)}, not a tensor` });
      }
      if (x.ndim !== shape.length || shape.some((n, axis) => n !== null && n !== x.shape[axis])) {
        throw new ShapeError(`${action} on`, {
          shapes: [x.shape],
          reason: `"${name}" has the axes [${shape.map((n) => n ?? "?").join(", ")}]`,
        });
      }
      values.set(`${name}:0`, x);
    });
    for (const layer of layers) {
      layer.calls.forEach((sources, k) => {
        values.set(
          `${layer.name}:${k}`,
          this.apply(layer, sources.map(([from, call]) => values.get(`${from}:${call}`)!)),
        );
      });
    }
    return outputs.map(([name, call]) => values.get(`${name}:${call}`)!);
  }

  private apply({ name, type, config }: LayerSpec, inputs: readonly Tensor[]): Tensor {
    const { custom, bad } = this.parts;
    if (Object.hasOwn(custom, type)) return custom[type](inputs, config);
    const weight = (key: string): Tensor => {
      const found = this.weights[`${name}/${key}`];
      if (found === undefined) throw bad(`layer "${name}" (${type}) has no weight "${name}/${key}"`);
      return found;
    };
    return KERAS_LAYERS[type]({ inputs, config, weight, bad });
  }
}

/** Where a call is among the calls of a layer, as lists of the file say. */
function callOf(x: unknown, bad: Fault): [string, number] {
  const [layer, call] = listOf(x, "a connection of layers", bad);
  if (typeof layer !== "string" || !Number.isInteger(call)) throw bad(`a connection of layers is ${JSON.stringify(x)}`);
  return [layer, call as number];
}
/** The calls of a layer. */
function callsOf(name: string, nodes: unknown, bad: Fault): [string, number][][] {
  return listOf(nodes, `inbound_nodes of layer "${name}"`, bad).map((node) =>
    listOf(node, `a call of layer "${name}"`, bad).map((c) => callOf(c, bad))
  );
}

/** Layers in an order in which each follows what it takes. @throws for cycles and what is not there */
function ordered(layers: readonly LayerSpec[], given: ReadonlySet<string>, bad: Fault): LayerSpec[] {
  const byName = new Map(layers.map((l) => [l.name, l])),
    done = new Set(given),
    open = new Set<string>(),
    out: LayerSpec[] = [];
  const visit = (name: string, user: string): void => {
    if (done.has(name)) return;
    const layer = byName.get(name);
    if (layer === undefined) throw bad(`layer "${user}" takes "${name}", which is no layer`);
    if (open.has(name)) throw bad(`layer "${name}" takes what it gives`);
    open.add(name);
    for (const [from, call] of layer.calls.flat()) {
      visit(from, name);
      const count = given.has(from) ? 1 : byName.get(from)!.calls.length;
      if (call < 0 || call >= count) throw bad(`layer "${name}" takes call ${call} of "${from}", which has ${count}`);
    }
    done.add(name);
    out.push(layer);
  };
  for (const l of layers) visit(l.name, l.name);
  return out;
}

/** Layers, inputs and outputs of a topology. */
function graphOf(
  topology: unknown,
  bad: Fault,
): { layers: LayerSpec[]; inputs: LayersInput[]; outputs: [string, number][] } {
  const found = recordOf(topology, "modelTopology", bad),
    model = recordOf(found.model_config ?? found, "its model", bad);
  const kind = String(model.class_name), isChain = kind === "Sequential";
  if (!isChain && kind !== "Functional" && kind !== "Model") {
    throw bad(`its model is of class ${kind}, neither Sequential nor Functional`);
  }
  const config = Array.isArray(model.config) ? { layers: model.config } : recordOf(model.config, "its config", bad);
  const entries = listOf(config.layers, "its layers", bad).map((l) => recordOf(l, "a layer", bad));
  const inputs: LayersInput[] = [], layers: LayerSpec[] = [];
  let last = "";
  for (const entry of entries) {
    const type = String(entry.class_name), own = recordOf(entry.config, `the config of a ${type}`, bad);
    const name = String(entry.name ?? own.name), shape = own.batch_input_shape ?? own.batch_shape;
    const isInput = type === "InputLayer";
    if (isInput || isChain && last === "") {
      const input = isInput ? name : `${name}_input`;
      if (!Array.isArray(shape) || !shape.every((n) => n === null || Number.isSafeInteger(n))) {
        throw bad(`input "${input}" has the shape ${JSON.stringify(shape)}`);
      }
      inputs.push({ name: input, shape });
      last = input;
    }
    if (isInput) continue;
    const calls = isChain ? [[[last, 0] as [string, number]]] : callsOf(name, entry.inbound_nodes, bad);
    layers.push({ name, type, config: own, calls });
    last = name;
  }
  const names = [...inputs.map((i) => i.name), ...layers.map((l) => l.name)];
  const twice = names.find((n, i) => names.indexOf(n) !== i);
  if (twice !== undefined) throw bad(`two layers are called "${twice}"`);
  const outputs = isChain ? [[last, 0] as [string, number]] : outputsOf(config.output_layers, bad);
  for (const [name, call] of outputs) {
    const count = inputs.some((i) => i.name === name) ? 1 : layers.find((l) => l.name === name)?.calls.length ?? 0;
    if (call < 0 || call >= count) throw bad(`output "${name}", call ${call}, is none of its layers'`);
  }
  return { layers: ordered(layers, new Set(inputs.map((i) => i.name)), bad), inputs, outputs };
}
/** One output, or a list of such. */
function outputsOf(x: unknown, bad: Fault): [string, number][] {
  const list = listOf(x, "output_layers", bad);
  return typeof list[0] === "string" ? [callOf(list, bad)] : list.map((o) => callOf(o, bad));
}

/**
 * Reads a layers model from the path of its `model.json`, or from memory. Of layers those are known that
 * networks of pictures consist of; others are given as `layers`, by class.
 *
 * ```ts
 * import { Tensor } from "../../mod.ts";
 * import { loadLayersModel } from "./tfjs.ts";
 * const dense = { class_name: "Dense", config: { name: "d", units: 1, activation: "relu", batch_input_shape: [null, 2] } };
 * const weights = [{ name: "d/kernel", shape: [2, 1], dtype: "float32" }, { name: "d/bias", shape: [1], dtype: "float32" }];
 * const model = await loadLayersModel({
 *   model: {
 *     modelTopology: { class_name: "Sequential", config: { layers: [dense] } },
 *     weightsManifest: [{ paths: ["a.bin"], weights }],
 *   },
 *   files: { "a.bin": new Uint8Array(Float32Array.of(2, 3, 1).buffer) },
 * });
 * const [y] = model.call(new Tensor([[10, 1]], { dtype: "float32" }));
 * console.log(await y.tolist()); // [[24]]
 * ```
 *
 * @throws {FormatError} for what is no layers model, and for layers of a class that is not known, by name
 */
export async function loadLayersModel<N extends string = string>(
  from: string | URL | LayersSource,
  options: Checked<LayersOptions, N> = {},
): Promise<LayersModel> {
  const action = "load a layers model", { layers: custom = {} } = checkOptions(action, options, ["device", "layers"]);
  const device = placeOf(options), isMemory = isPlain(from);
  if (!isPlain(custom) || !Object.values(custom).every((f) => typeof f === "function")) {
    throw new ArgumentError(action, { reason: `layers must be functions by class, not ${describe(custom)}` });
  }
  const file = isMemory ? "in memory" : pathOf(action, from as string | URL);
  const bad: Fault = (reason) => new FormatError("read the layers model", { file, reason });
  const { json: { format, modelTopology, weightsManifest }, files } = await readModelFiles(from, file, bad);
  if (format === "graph-model") throw bad("it is a graph model: load it by loadGraphModel");
  const { layers, inputs, outputs } = graphOf(modelTopology, bad);
  const unknown = layers.find((l) => !Object.hasOwn(custom, l.type) && !Object.hasOwn(KERAS_LAYERS, l.type));
  if (unknown !== undefined) {
    throw bad(
      `layer "${unknown.name}" is of class ${unknown.type}, which is not known: give it by { layers: { ${unknown.type}: (inputs, config) => … } }`,
    );
  }
  getDevice(device);
  const weights = readWeights(weightsManifest, files, device, bad);
  return new LayersModel(inputs, Object.fromEntries(weights), { layers, outputs, custom, bad });
}
