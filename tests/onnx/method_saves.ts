/**
 * All methods of tensors as ONNX models: each golden case (tests/golden) is written, and onnxruntime, where it can be
 * fetched, gives what we give; or it is refused, by a named error. Without `--ort` our own reader runs the models.
 *
 * Run: `deno run -A --no-check tests/onnx/method_saves.ts --ort`; `--every 8` for one case in so many, `--from 3` from
 * that on, `--only sort` for the cases of a name.
 *
 * @module
 */
import { parseArgs } from "@std/cli/parse-args";
import { Device, Tensor } from "../../mod.ts";
import { ExportError } from "../../src/helpers/errors.ts";
import * as onnx from "../../src/onnx/onnx.ts";
import { cases, type GoldenCase, load } from "../golden/golden.ts";
import { type Program, programOf } from "../golden/golden_cases.ts";
import { VIEWS } from "../golden/golden_families.ts";
import { onnxruntime, TOLERANCE } from "./against_onnxruntime.ts";

/** What became of the cases. */
export interface MethodReport {
  readonly compared: number;
  /** Those for whose element types onnxruntime has no kernels. */
  readonly without: number;
  /** Families of cases that are refused, by reason. */
  readonly refused: Readonly<Record<string, readonly string[]>>;
  readonly failures: readonly string[];
}
/** Which cases are taken. */
export interface MethodOptions {
  readonly ort?: boolean;
  readonly every?: number;
  readonly from?: number;
  readonly only?: string;
}
type Ort = Awaited<ReturnType<typeof onnxruntime>>;
type Numbers = ArrayLike<number | bigint>;

/** Element types that do not cross to onnxruntime's JavaScript. */
const APART = /bfloat|fp8|float16|half/;
/** Families in which onnxruntime gives something else by its own rules. */
const OTHERWISE: Readonly<Record<string, string>> = {
  "max with NaN": "its maxima pass over NaN",
  "crossEntropy ignored": "it refuses indices outside of their axis, for which we give zero",
};
/** Why cases are refused, in a word of the message. */
const REASONS: readonly (readonly [RegExp, string])[] = [
  [/it is async|how many elements there will be is not known/, "their size is known only from values"],
  [/memory that is written in place/, "they write in place"],
  [/bits of numbers under another type/, "they look at the bits of numbers"],
];

/** What onnxruntime gives; undefined where it has no kernel. */
async function byOrt(
  ort: Ort,
  bytes: Uint8Array,
  model: onnx.OnnxModel,
  args: readonly Tensor[],
): Promise<Numbers[] | undefined> {
  const names: Readonly<Record<string, string>> = { float: "float32", double: "float64" },
    given: Record<string, never> = {};
  for (const port of model.inputs) {
    const t = args[Number(port.name.slice(2))], data = await t.data() as ArrayLike<number>;
    given[port.name] = new ort.Tensor(names[port.type] ?? port.type, data, t.shape) as never;
  }
  try {
    const session = await ort.InferenceSession.create(bytes, { logSeverityLevel: 4 }), out = await session.run(given);
    return model.outputs.map(({ name }) => out[name].data);
  } catch (error) {
    if (
      /NOT_IMPLEMENTED|Could not find an implementation|Unsupported data type|Failed to find kernel/.test(String(error))
    ) return undefined;
    throw error;
  }
}

/** Where two results differ by more than they may; "" where they do not. */
function differenceOf(got: Numbers, want: Numbers): string {
  if (got.length !== want.length) return `${got.length} elements, not ${want.length}`;
  const b = Array.from(want, Number), finite = b.filter(Number.isFinite).map(Math.abs);
  const most = TOLERANCE * Math.max(...finite, 1e-30);
  const at = b.findIndex((y, i) => {
    const x = Number(got[i]);
    return !(Object.is(x, y) || x === y || Math.abs(x - y) <= most || Number.isNaN(x) && Number.isNaN(y));
  });
  return at < 0 ? "" : `element ${at} is ${got[at]}, not ${want[at]}`;
}

/** A case as a function of its inputs, which have memory of their own. */
function functionOf(c: GoldenCase): { f: (...args: Tensor[]) => unknown; args: Tensor[] } {
  const args = c.inputs.map((input) => (VIEWS[input[3] ?? ""]?.(load(input, "WASM")) ?? load(input, "WASM")));
  const f = (...given: Tensor[]): unknown => programOf(c.name)(...given as Parameters<Program>);
  return { f, args: args.map((t) => t.contiguous().realize()) };
}

/** Writes the cases, runs what was written, and compares. */
export async function methodSaves(options: MethodOptions = {}): Promise<MethodReport> {
  const { every = 1, from = 0, only } = options, ort = options.ort ? await onnxruntime() : undefined;
  Device.default = "WASM";
  await Device.open("WASM");
  const isComplex = (c: GoldenCase): boolean => [...c.inputs, ...c.outputs].some(([d]) => d.startsWith("complex"));
  const isOther = (c: GoldenCase): boolean => ort !== undefined && Object.hasOwn(OTHERWISE, c.name.split(" | ")[0]);
  const taken = cases.filter((c) => !isComplex(c) && !isOther(c) && (only === undefined || c.name.startsWith(only)))
    .filter((_, i) => i % every === from % every);
  const refused: Record<string, Set<string>> = {}, failures: string[] = [];
  let compared = 0, without = 0;
  for (const c of taken) {
    const { f, args } = functionOf(c);
    try {
      const bytes = await onnx.toBytes(f, args, { inputs: args.map((_, i) => `in${i}`) });
      const model = await onnx.load(bytes), result = await f(...args);
      const want = result instanceof Tensor ? [result] : Object.values(result as Tensor[]);
      const isApart = ort !== undefined && [...args, ...want].some((t) => APART.test(t.dtype.name));
      const named = Object.fromEntries(args.map((t, i) => [`in${i}`, t]));
      const ours = ort === undefined ? await model.run(...model.inputs.map(({ name }) => named[name])) : {};
      const got = isApart
        ? undefined
        : ort !== undefined
        ? await byOrt(ort, bytes, model, args)
        : await Promise.all(Object.values(ours).map(async (t) => await (t as Tensor).data() as Numbers));
      if (got === undefined) without++;
      else {
        compared++;
        for (const [i, t] of want.entries()) {
          const why = differenceOf(got[i], await t.data() as Numbers);
          if (why !== "") failures.push(`${c.name}, output ${i}: ${why}`);
        }
      }
    } catch (error) {
      const { message } = error as Error, reason = REASONS.find(([pattern]) => pattern.test(message));
      const isRefused = error instanceof ExportError || /is not known on the host/.test(message);
      if (!isRefused || reason === undefined) failures.push(`${c.name}: ${message.slice(0, 300)}`);
      else (refused[reason[1]] ??= new Set()).add(c.name.split(/ /)[0]);
    }
  }
  const sorted = Object.fromEntries(Object.entries(refused).map(([why, names]) => [why, [...names].sort()]));
  return { compared, without, refused: sorted, failures };
}

if (import.meta.main) {
  const a = parseArgs(Deno.args, { string: ["every", "from", "only"], boolean: ["ort"] });
  const { compared, without, refused, failures } = await methodSaves({
    ...{ ort: a.ort, only: a.only, every: Number(a.every ?? 1), from: Number(a.from ?? 0) },
  });
  for (const [why, names] of Object.entries(refused)) console.log(`refused, ${why}: ${names.join(", ")}`);
  for (const failure of failures) console.log(failure);
  console.log(`${compared} cases compared, ${without} without kernels, ${failures.length} failed`);
  Deno.exit(failures.length > 0 ? 1 : 0);
}
