/**
 * A model beside onnxruntime, on the same random inputs: `deno run -A --no-check tests/onnx/against_onnxruntime.ts MODEL...
 * [--device D] [--sizes name=n,...] [--bench RUNS]`. Prints the largest difference of each output, and ends with 1 where
 * one is larger than 1e-4 of the largest value; with `--bench` also how many times as long onnxruntime takes, as we run
 * under `jit`, in turns: by the clock and by the processor, and the geometric mean of all models. Fetches npm's
 * onnxruntime-node (114 MB); a program of its own, as packages are.
 *
 * @module
 */
import { cpuUsage } from "node:process";
import { parseArgs } from "@std/cli/parse-args";
import { type DeviceName, jit, Tensor } from "../../mod.ts";
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

/** Inputs as onnxruntime takes them. */
async function theirInputs(
  ort: Ort,
  inputs: Readonly<Record<string, Tensor>>,
  model: OnnxModel,
): Promise<Record<string, OrtTensor>> {
  const out: Record<string, OrtTensor> = {};
  for (const port of model.inputs) {
    const t = inputs[port.name], data = await t.data() as ArrayLike<number | bigint>;
    out[port.name] = new ort.Tensor(ORT_NAMES[port.type] ?? port.type, data, t.shape);
  }
  return out;
}

/** How many times as long onnxruntime takes for a run: medians of runs in turns, whose results are read. */
async function ratiosOf(
  ort: Ort,
  bytes: Uint8Array,
  inputs: Readonly<Record<string, Tensor>>,
  model: OnnxModel,
  runs: number,
): Promise<{ readonly clock: number; readonly processor: number }> {
  const session = await ort.InferenceSession.create(bytes, { logSeverityLevel: 3 });
  const theirs = await theirInputs(ort, inputs, model), step = jit((x: Record<string, Tensor>) => model.call(x));
  const ours = async (): Promise<void> => {
    for (const t of Object.values(step(inputs))) await (t as Tensor).data();
  };
  const both = [async () => void await session.run(theirs), ours],
    clock: number[][] = [[], []],
    busy: number[][] = [[], []];
  for (let i = -3; i < runs; i++) {
    for (const [k, run] of both.entries()) {
      const start = performance.now(), before = cpuUsage();
      await run();
      const { user, system } = cpuUsage(before);
      if (i < 0) continue; // not warm yet
      clock[k].push(performance.now() - start);
      busy[k].push(user + system);
    }
  }
  const median = (list: number[]): number => list.sort((a, b) => a - b)[list.length >> 1];
  return { clock: median(clock[0]) / median(clock[1]), processor: median(busy[0]) / median(busy[1]) };
}

/** The outputs of both for the same inputs. */
export async function compareModels(
  ort: Ort,
  bytes: Uint8Array,
  inputs: Readonly<Record<string, Tensor>>,
  model: OnnxModel,
): Promise<Compared[]> {
  const session = await ort.InferenceSession.create(bytes, { logSeverityLevel: 3 });
  const theirs = await theirInputs(ort, inputs, model),
    want = await session.run(theirs),
    got = await model.run(inputs),
    out: Compared[] = [];
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
  const args = parseArgs(Deno.args, { string: ["device", "sizes", "bench"] }),
    device = (args.device ?? "WASM") as DeviceName;
  const pairs = (args.sizes ?? "").split(",").filter((s) => s !== "").map((s) => s.split("="));
  const sizes = new Map(pairs.map(([name, n]) => [name, Number(n)] as const)), ort = await onnxruntime();
  const runs = Number(args.bench ?? 0), logs = { clock: 0, processor: 0 };
  let wrong = 0;
  for (const path of args._.map(String)) {
    const model = await load(path, { device }), inputs = randomInputs(model, sizes, device);
    for (const { name, difference, largest } of await compareModels(ort, await Deno.readFile(path), inputs, model)) {
      const ok = difference <= TOLERANCE * Math.max(1, largest);
      if (!ok) wrong++;
      console.log(
        `${path} ${name}: differs by ${difference.toExponential(2)} of ${largest.toPrecision(3)}${ok ? "" : " WRONG"}`,
      );
    }
    if (runs === 0) continue;
    const { clock, processor } = await ratiosOf(ort, await Deno.readFile(path), inputs, model, runs);
    console.log(`${path}: ${clock.toFixed(2)} by the clock, ${processor.toFixed(2)} by the processor`);
    logs.clock += Math.log(clock) / args._.length;
    logs.processor += Math.log(processor) / args._.length;
  }
  if (runs > 0) {
    const [clock, processor] = [logs.clock, logs.processor].map((x) => Math.exp(x).toFixed(2));
    console.log(`geometric mean: ${clock} by the clock, ${processor} by the processor`);
  }
  Deno.exit(wrong > 0 ? 1 : 0);
}
