/**
 * A model beside onnxruntime, on the same random inputs: `deno run -A --no-check tests/onnx/against_onnxruntime.ts MODEL...
 * [--device D] [--sizes name=n,...]`. Prints the largest difference of each output, and ends with 1 where one is larger
 * than 1e-4 of the largest value. Fetches npm's onnxruntime-node (114 MB); a program of its own, as packages are.
 *
 * @module
 */
import { parseArgs } from "@std/cli/parse-args";
import { type DeviceName, Tensor } from "../../mod.ts";
import { load, type OnnxModel } from "../../src/onnx/onnx.ts";
import { elementTypeNamed } from "../../src/onnx/wire/element_types.ts";

const LIBRARY: string = "npm:onnxruntime-node@1.30.0";
/** How far results may be apart, of the largest one. */
export const TOLERANCE = 1e-4;

/** As much of the library as is used here. */
interface OrtTensor {
  readonly data: ArrayLike<number | bigint>;
  readonly dims: readonly number[];
}
interface Ort {
  readonly Tensor: new (type: string, data: ArrayLike<number | bigint>, dims: readonly number[]) => OrtTensor;
  readonly InferenceSession: {
    create(model: string | Uint8Array, options: { logSeverityLevel: number }): Promise<{
      run(inputs: Record<string, OrtTensor>): Promise<Record<string, OrtTensor>>;
    }>;
  };
}
/** onnxruntime's names of types that are not ours. */
const ORT_NAMES: Readonly<Record<string, string>> = { float: "float32", double: "float64" };

/** onnxruntime, where it can be fetched. */
export async function onnxruntime(): Promise<Ort> {
  const found = await import(LIBRARY);
  return (found.default ?? found) as Ort;
}

/** What is compared: the largest difference of each output, and its largest value. */
export interface Compared {
  readonly name: string;
  readonly difference: number;
  readonly largest: number;
}

/** The outputs of both for the same inputs. */
export async function compareModels(
  ort: Ort,
  bytes: Uint8Array,
  inputs: Readonly<Record<string, Tensor>>,
  model: OnnxModel,
): Promise<Compared[]> {
  const session = await ort.InferenceSession.create(bytes, { logSeverityLevel: 3 }),
    theirs: Record<string, OrtTensor> = {};
  for (const port of model.inputs) {
    const t = inputs[port.name], data = await t.data() as ArrayLike<number | bigint>;
    theirs[port.name] = new ort.Tensor(ORT_NAMES[port.type] ?? port.type, data, t.shape);
  }
  const want = await session.run(theirs), got = await model.run(inputs), out: Compared[] = [];
  for (const { name } of model.outputs) {
    const a = got[name] as Tensor, b = want[name], data = await a.data() as ArrayLike<number | bigint>;
    if (String(a.shape) !== String(b.dims)) throw new Error(`${name} is [${a.shape}], and onnxruntime's [${b.dims}]`);
    let difference = 0, largest = 0;
    for (let i = 0; i < data.length; i++) {
      const d = Math.abs(Number(data[i]) - Number(b.data[i]));
      difference = Math.max(difference, Number.isNaN(d) && !Object.is(data[i], b.data[i]) ? Infinity : d || 0);
      largest = Math.max(largest, Math.abs(Number(b.data[i])) || 0);
    }
    out.push({ name, difference, largest });
  }
  return out;
}

/** Random inputs of a model: floats from -1 to 1, whole numbers of 0 and 1; free sizes by name, else 1. */
export function randomInputs(
  model: OnnxModel,
  sizes: ReadonlyMap<string, number>,
  device: DeviceName,
): Record<string, Tensor> {
  return Object.fromEntries(model.inputs.map(({ name, type, shape }) => {
    const dtype = elementTypeNamed(type)!.dtype,
      drawn = Tensor.rand((shape ?? []).map((n) => typeof n === "number" ? n : sizes.get(n) ?? 1), { device });
    return [name, (dtype.isFloat ? drawn.mul(2).sub(1) : drawn.add(0.5)).cast(dtype).contiguous().realize()];
  }));
}

if (import.meta.main) {
  const args = parseArgs(Deno.args, { string: ["device", "sizes"] }), device = (args.device ?? "WASM") as DeviceName;
  const pairs = (args.sizes ?? "").split(",").filter((s) => s !== "").map((s) => s.split("="));
  const sizes = new Map(pairs.map(([name, n]) => [name, Number(n)] as const)), ort = await onnxruntime();
  let wrong = 0;
  for (const path of args._) {
    const model = await load(path, { device }), inputs = randomInputs(model, sizes, device);
    for (const { name, difference, largest } of await compareModels(ort, await Deno.readFile(path), inputs, model)) {
      const ok = difference <= TOLERANCE * Math.max(1, largest);
      if (!ok) wrong++;
      console.log(
        `${path} ${name}: differs by ${difference.toExponential(2)} of ${largest.toPrecision(3)}${ok ? "" : " WRONG"}`,
      );
    }
  }
  Deno.exit(wrong > 0 ? 1 : 0);
}
