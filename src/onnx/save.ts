/**
 * A function of tensors as an ONNX model. In: the function and arguments that it can be called with; out: the bytes of a
 * model, or files.
 *
 * @module
 */
import { weightNames } from "../export/export_names.ts";
import { ArgumentError, ExportError } from "../helpers/errors.ts";
import { type Callable, checkCallable, checkOptions, describe, isPlain } from "../helpers/options.ts";
import { getStateDict } from "../state/state_dict.ts";
import { folderOf, pathOf } from "../state/source.ts";
import { writeFile } from "../state/write.ts";
import { Tensor } from "../tensor/tensor.ts";
import { lower } from "./write/lower_graph.ts";
import { type Dynamic, trace } from "./write/trace.ts";
import { type ModelBytes, modelBytes } from "./write/write_model.ts";

/** Options of {@linkcode save} and {@linkcode toBytes}. */
export interface SaveOptions {
  /** Names of the inputs, in the order of the tensors among the arguments; those of the parameters unless given. */
  readonly inputs?: readonly string[];
  /** Names of the outputs; `y`, or the keys of what the function returns, unless given. */
  readonly outputs?: readonly string[];
  /** Axes whose sizes are free: `{ x: { 0: "batch" } }`. */
  readonly dynamic?: Dynamic;
  /** Whatever has the weights inside: they are called as in its state dict. That of a model is the model unless given. */
  readonly weights?: unknown;
  /** What the graph is called. Default "model". */
  readonly name?: string;
}

const KNOWN = ["inputs", "outputs", "dynamic", "weights", "name"];
/** Models of more bytes have their weights in a file beside them: protocol buffers end at 2 GiB. */
const MAX_BYTES = 2 ** 31 - 2 ** 20;

/** @throws {ArgumentError} for an option that is none of its kind */
function checkSaveOptions(action: string, options: SaveOptions): SaveOptions {
  const checked = checkOptions(action, options, KNOWN);
  for (const key of ["inputs", "outputs"] as const) {
    const list: unknown = checked[key];
    if (list === undefined || Array.isArray(list) && list.every((n) => typeof n === "string" && n !== "")) continue;
    throw new ArgumentError(action, { reason: `${key} must be a list of names, not ${describe(list)}` });
  }
  const { dynamic, name } = checked as { dynamic?: unknown; name?: unknown };
  const isAxes = (x: unknown): boolean =>
    isPlain(x) && Object.values(x).every((n) => typeof n === "string" && n !== "");
  if (dynamic !== undefined && !(isPlain(dynamic) && Object.values(dynamic).every(isAxes))) {
    throw new ArgumentError(action, {
      reason: `dynamic must name axes by input, as { x: { 0: "batch" } }, not be ${describe(dynamic)}`,
    });
  }
  if (name !== undefined && typeof name !== "string") {
    throw new ArgumentError(action, { reason: `name must be text, not ${describe(name)}` });
  }
  return checked;
}

async function made(
  action: string,
  model: Callable,
  args: readonly unknown[],
  options: SaveOptions,
  external: string | undefined,
): Promise<ModelBytes> {
  const f = checkCallable(action, "f", model);
  if (!Array.isArray(args)) {
    throw new ArgumentError(action, { reason: `args must be a list of the arguments, not ${describe(args)}` });
  }
  const own = typeof model === "object" ? model : undefined;
  const { weights = own, name = "model", ...rest } = checkSaveOptions(action, options);
  if (f.constructor.name === "AsyncFunction") {
    throw new ExportError(action, { reason: "it is async: a graph computes all that it gives, and reads nothing" });
  }
  if (typeof weights === "object" && weights !== null) Tensor.realize(Object.values(getStateDict(weights)));
  const names = weightNames(weights), traced = trace(action, f, args, rest);
  const { graph, inputs, outputs } = await lower(action, traced, names);
  const bytes = [...graph.initializers.values()].reduce((n, t) => n + t.bytes.length, 0), isLarge = bytes > MAX_BYTES;
  if (isLarge && external === undefined) {
    throw new ExportError(action, {
      reason: `its weights have ${bytes} bytes, and one message ends at 2 GiB: use save()`,
    });
  }
  return modelBytes({ name, graph, inputs, outputs, axes: traced.axes, external: isLarge ? external : undefined });
}

/**
 * The bytes of the ONNX model (version 21 of the operators) that a function of tensors is, or a model by its method
 * `call`, whose weights are then called as in its state dict. The function is called with
 * tensors of the shapes and dtypes of `args`, once and once more for each dynamic axis, and nothing of it is run.
 *
 * ```ts
 * import { nn, Tensor } from "../../mod.ts";
 * import { load, toBytes } from "./onnx.ts";
 * const layer = new nn.Linear(4, 2);
 * const bytes = await toBytes((x: Tensor) => layer.call(x).softmax(), [Tensor.zeros([1, 4])], {
 *   dynamic: { x: { 0: "batch" } },
 *   weights: layer,
 * });
 * const model = await load(bytes);
 * console.log(model.inputs[0].shape, (model.call(Tensor.ones([3, 4])).y as Tensor).shape); // ["batch", 4] [3, 2]
 * ```
 *
 * @throws {ArgumentError} for an option that is none @throws {ExportError} for a function that reads values, draws random
 * numbers or assigns, for an op that ONNX has no form for, and for a dynamic axis on which the computation depends
 */
export async function toBytes(
  f: Callable,
  args: readonly unknown[],
  options: SaveOptions = {},
): Promise<Uint8Array<ArrayBuffer>> {
  const { model } = await made("export a function to ONNX", f, args, options, undefined);
  return model.length === model.buffer.byteLength ? model : model.slice(); // who takes its buffer gets no more
}

/**
 * Writes {@linkcode toBytes} to a file. Weights of more than 2 GiB lie in `PATH.data` beside it.
 *
 * @throws {FormatError} for a path that cannot be written, and as {@linkcode toBytes}
 */
export async function save(
  f: Callable,
  args: readonly unknown[],
  path: string | URL,
  options: SaveOptions = {},
): Promise<void> {
  const action = "export a function to ONNX", file = pathOf(action, path);
  const external = `${file.slice(folderOf(file).length)}.data`;
  const { model, data } = await made(action, f, args, options, external);
  if (data.length > 0) {
    await writeFile(`${file}.data`, async (put) => {
      for (const part of data) await put(part);
    });
  }
  await writeFile(file, async (put) => await put(model));
}
