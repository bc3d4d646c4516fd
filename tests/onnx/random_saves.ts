/**
 * Random programs (tests/fuzz/programs.ts) as ONNX models: their leaves are inputs. Each is written, loaded again by our
 * own reader, run, and compared with the reference within the error bounds that tracked.ts derives; with `--ort` by
 * onnxruntime as well, where it has the operators for the element types.
 *
 * Run: `deno run -A --no-check tests/onnx/random_saves.ts --count 200 --seed 1 --ort`; `--case 17` for one,
 * `--device CLANG` on another device than WASM.
 */
import { parseArgs } from "@std/cli/parse-args";
import { Device, type DeviceName, Tensor } from "../../mod.ts";
import { ExportError } from "../../src/helpers/errors.ts";
import * as onnx from "../../src/onnx/onnx.ts";
import { compareTracked, evaluateTracked, type Tracked } from "../fuzz/parts/tracked.ts";
import { type Program, runLines } from "../fuzz/parts/program_maker.ts";
import { programOf } from "../fuzz/programs.ts";
import { onnxruntime } from "./against_onnxruntime.ts";
import { casesOf } from "../support/parts.ts";

/** What became of random programs. */
export interface SaveReport {
  /** Programs that were written, loaded and compared. */
  readonly compared: number;
  /** Those that onnxruntime ran as well. */
  readonly byOrt: number;
  /** Why programs were refused, and how often. */
  readonly refused: Readonly<Record<string, number>>;
  readonly failures: readonly string[];
}
type Ort = Awaited<ReturnType<typeof onnxruntime>>;

/** A program as a function of its leaves; undefined for one that writes or draws. */
function functionOf({ lines, outputs }: Program): { f: (...args: Tensor[]) => Tensor[]; args: Tensor[] } | undefined {
  if (lines.some((l) => l.kind === "write" || /rand|dropout|multinomial|bernoulli/i.test(l.text))) return undefined;
  const leaves = runLines(lines.filter((l) => l.kind === "leaf"), false), names = Object.keys(leaves);
  // leaves that are one node would be one input in the program, and two in the model
  if (new Set(Object.values(leaves).map((t) => t.uop)).size < names.length) return undefined;
  Tensor.realize(Object.values(leaves));
  const ops = lines.filter((l) => l.kind === "op");
  const f = (...args: Tensor[]): Tensor[] => {
    const all = runLines(ops, false, Object.fromEntries(names.map((n, i) => [n, args[i]])));
    return outputs.map((name) => all[name]);
  };
  return { f, args: Object.values(leaves) };
}

/** What onnxruntime computes; undefined where it lacks an operator for a type. */
async function runOrt(
  ort: Ort,
  bytes: Uint8Array,
  model: onnx.OnnxModel,
  args: Tensor[],
): Promise<ArrayLike<number | bigint>[] | undefined> {
  const names: Readonly<Record<string, string>> = { float: "float32", double: "float64" };
  const given: Record<string, InstanceType<Ort["Tensor"]>> = {};
  for (const [i, { name, type }] of model.inputs.entries()) {
    const data = await args[i].data() as ArrayLike<number>;
    given[name] = new ort.Tensor(names[type] ?? type, data, args[i].shape);
  }
  try {
    const session = await ort.InferenceSession.create(bytes, { logSeverityLevel: 4 }), out = await session.run(given);
    return model.outputs.map(({ name }) => out[name].data);
  } catch (error) {
    if (/NOT_IMPLEMENTED|Could not find an implementation|Unsupported data type/.test(String(error))) return undefined;
    throw error;
  }
}

/** What is wrong with a program; "" where nothing is. */
async function checkCase(program: Program, ort: Ort | undefined): Promise<{ why: string; byOrt: boolean } | undefined> {
  const made = functionOf(program);
  if (made === undefined) return undefined;
  const { f, args } = made, bytes = await onnx.toBytes(f, args, { inputs: args.map((_, i) => `in${i}`) });
  const model = await onnx.load(bytes), want: Tracked[] = evaluateTracked(f(...args).map((t) => t.uop));
  const got = await model.run(...args), ours: ArrayLike<number | bigint>[] = [];
  for (const { name } of model.outputs) ours.push(await (got[name] as Tensor).data() as ArrayLike<number>);
  const theirs = ort === undefined || args.some((t) => /bfloat|fp8|float16/.test(t.dtype.name))
    ? undefined
    : await runOrt(ort, bytes, model, args);
  for (const [by, all] of [["our reader", ours], ["onnxruntime", theirs ?? []]] as const) {
    for (const [i, data] of all.entries()) {
      const { why } = compareTracked(data, want[i]);
      if (why !== undefined) return { why: `by ${by}, output ${i}: ${why}`, byOrt: theirs !== undefined };
    }
  }
  return { why: "", byOrt: theirs !== undefined };
}

/** Writes programs, reads and runs them, compares. */
export async function randomSaves(
  options: { readonly seed: number; readonly from?: number; readonly count: number; readonly ort?: Ort },
): Promise<SaveReport> {
  const { seed, from = 0, count, ort } = options, failures: string[] = [], refused: Record<string, number> = {};
  let compared = 0, byOrt = 0;
  for (let at = from; at < from + count; at++) {
    const program = programOf(seed, at),
      text = () => `${program.lines.map((l) => l.text).join("\n")}\n${program.outputs}`;
    try {
      const found = await checkCase(program, ort);
      if (found === undefined) continue;
      compared++;
      if (found.byOrt) byOrt++;
      if (found.why !== "") failures.push(`case ${at}, ${found.why}\n${text()}`);
    } catch (error) {
      const reason = error instanceof ExportError
        ? /no form for \w+ of \w+|random numbers|it assigns/.exec(error.message)?.[0]
        : undefined;
      if (reason !== undefined) refused[reason] = (refused[reason] ?? 0) + 1;
      else failures.push(`case ${at}: ${(error as Error).stack}\n${text()}`);
    }
  }
  return { compared, byOrt, refused, failures };
}

if (import.meta.main) {
  const args = parseArgs(Deno.args, { string: ["count", "seed", "case", "device"], boolean: ["ort"] });
  Device.default = (args.device ?? "WASM") as DeviceName;
  const report = await randomSaves({
    ...casesOf(args, 100),
    ort: args.ort ? await onnxruntime() : undefined,
  });
  for (const f of report.failures) console.log(f, "\n");
  console.log(
    `${report.compared} compared, ${report.byOrt} by onnxruntime, ${report.failures.length} failures`,
    report.refused,
  );
  Deno.exit(report.failures.length > 0 ? 1 : 0);
}
