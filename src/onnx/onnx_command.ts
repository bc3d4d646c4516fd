/**
 * `deno task onnx MODEL`: what a model takes, gives and consists of; with `--bench` how long it loads and runs, on random
 * inputs, under `jit`. Sizes that are free are 1 unless `--sizes name=n,…` says otherwise; whole numbers that decide on
 * branches are given by `--values name=n,…`.
 *
 * @module
 */
import { defaultDevice, type DeviceName } from "../device/device.ts";
import { GlobalCounters } from "../engine/stats.ts";
import { jit } from "../tensor/jit/jit.ts";
import { Tensor } from "../tensor/tensor.ts";
import { elementTypeNamed } from "./wire/element_types.ts";
import { info, load, type OnnxPort } from "./onnx.ts";

const USAGE = "deno task onnx MODEL [--bench] [--device D] [--sizes name=n,...] [--values name=n,...] [--runs N]";

/** What was asked for. @throws {Error} for what is not known */
function readArguments(args: readonly string[]): { file: string; bench: boolean; options: Map<string, string> } {
  const options = new Map<string, string>(), files: string[] = [];
  let bench = false;
  for (let i = 0; i < args.length; i++) {
    const m = /^--(\w+)(?:=(.*))?$/.exec(args[i]);
    if (m === null) files.push(args[i]);
    else if (m[1] === "bench") bench = true;
    else if (["device", "sizes", "values", "runs"].includes(m[1])) options.set(m[1], m[2] ?? args[++i] ?? "");
    else throw new Error(`There is no option --${m[1]}: ${USAGE}`);
  }
  if (files.length !== 1) throw new Error(`Name one model: ${USAGE}`);
  return { file: files[0], bench, options };
}

/** Random numbers for an input: floats from -1 to 1, whole numbers of 0 or 1. */
function randomInput(port: OnnxPort, sizes: ReadonlyMap<string, number>, device: DeviceName): Tensor {
  const shape = (port.shape ?? []).map((n) => typeof n === "number" ? Math.max(1, n) : sizes.get(n) ?? 1);
  const dtype = elementTypeNamed(port.type)?.dtype;
  if (dtype === undefined || port.kind !== "tensor") throw new Error(`"${port.name}" is no tensor of numbers`);
  const drawn = Tensor.rand(shape, { device });
  return (dtype.isFloat ? drawn.mul(2).sub(1) : drawn.add(0.5)).cast(dtype).contiguous().realize();
}

/** `name=n,...` of an option. */
function pairsOf(options: ReadonlyMap<string, string>, option: string): Map<string, number> {
  return new Map(
    (options.get(option) ?? "").split(",").filter((s) => s !== "").map((pair) => {
      const [name, n] = pair.split("=");
      if (!Number.isInteger(Number(n))) throw new Error(`--${option} takes name=n, not "${pair}": ${USAGE}`);
      return [name, Number(n)] as const;
    }),
  );
}

/** Names of `--sizes` and `--values` that the model has not. @throws {Error} */
function checkNames(option: string, given: ReadonlyMap<string, number>, known: Iterable<string>): void {
  const names = new Set(known);
  for (const name of given.keys()) {
    if (!names.has(name)) {
      const list = names.size === 0 ? "none is free" : [...names].join(", ");
      throw new Error(`There is no "${name}" for --${option}: ${list}`);
    }
  }
}

async function bench(file: string, options: ReadonlyMap<string, string>): Promise<void> {
  const device = (options.get("device") ?? defaultDevice()) as DeviceName, runs = Number(options.get("runs") ?? 20);
  if (!(Number.isInteger(runs) && runs > 0)) throw new Error(`--runs takes a number, not "${options.get("runs")}"`);
  const sizes = pairsOf(options, "sizes"), values = pairsOf(options, "values");
  const start = performance.now(), model = await load(file, { device }), loaded = performance.now();
  const isFree = (n: number | string): n is string => typeof n === "string" && n !== "";
  const free = new Set(model.inputs.filter((p) => !values.has(p.name)).flatMap((p) => p.shape ?? []).filter(isFree));
  checkNames("sizes", sizes, free);
  checkNames("values", values, model.inputs.map((p) => p.name));
  const drawn = model.inputs.filter((p) => !values.has(p.name)),
    inputs = drawn.map((p) => randomInput(p, sizes, device));
  const call = jit((...xs: Tensor[]) => {
    const out = model.call({
      ...Object.fromEntries(values),
      ...Object.fromEntries(drawn.map((p, i) => [p.name, xs[i]])),
    });
    return Object.values(out).filter((t): t is Tensor => t instanceof Tensor);
  });
  const once = async (): Promise<number> => {
    const from = performance.now();
    for (const t of call(...inputs)) await t.data();
    return performance.now() - from;
  };
  const first = await once().catch((cause) => {
    const taken = [...free].filter((n) => !sizes.has(n)).map((n) => `${n}=1`);
    const hint = taken.length > 0 ? `; free sizes were ${taken.join(",")}: give others by --sizes name=n,...` : "";
    throw new Error(`${cause instanceof Error ? cause.message : cause}${hint}`, { cause });
  });
  await once();
  GlobalCounters.reset();
  const times: number[] = [];
  for (let i = 0; i < runs; i++) times.push(await once());
  const median = times.sort((a, b) => a - b)[Math.floor(runs / 2)], kernels = GlobalCounters.kernelCount / runs;
  console.log(`${device}: loaded in ${(loaded - start).toFixed(0)} ms, first run ${first.toFixed(0)} ms`);
  console.log(`then ${median.toFixed(3)} ms a run (median of ${runs}), ${kernels} kernels`);
}

if (import.meta.main) {
  try {
    const { file, bench: timed, options } = readArguments(Deno.args);
    console.log(String(await info(file)));
    if (timed) await bench(file, options);
  } catch (error) {
    console.error(error instanceof Error ? `${error.name}: ${error.message}` : error);
    Deno.exit(1);
  }
}
