/**
 * Random programs (tests/fuzz/programs.ts) as exports: written as C in both styles and as WebAssembly, built, run, and
 * compared with the reference within the error bounds that tracked.ts derives. All C of one style is one library.
 *
 * Run: `deno run -A tests/export/random_exports.ts --count 200 --seed 1`; `--forms plain,fast,wasm`, `--case 17` for one.
 */
import { parseArgs } from "@std/cli/parse-args";
import { Device, Tensor } from "../../mod.ts";
import { bf16BitsToF32, fp8BitsToF32 } from "../../src/dtype/convert.ts";
import { type DType, dtypes } from "../../src/dtype/dtype.ts";
import { type Exported, exportModel, type PlanArray } from "../../src/export/export.ts";
import { type Names, type Program, runLines } from "../fuzz/parts/program_maker.ts";
import { compareTracked, evaluateTracked, type Tracked } from "../fuzz/parts/tracked.ts";
import { programOf } from "../fuzz/programs.ts";
import { compilersHere, run } from "./build.ts";
import { casesOf } from "../support/parts.ts";

/** How exports are written. */
export const FORMS: readonly string[] = ["plain", "fast", "wasm"];

/** What became of them. */
export interface RandomReport {
  /** Programs that were exported and compared, by form. */
  readonly compared: Record<string, number>;
  /** Programs that are no functions: they write, or draw random numbers. */
  readonly left: number;
  readonly failures: readonly string[];
}

/** The numbers in the memory of an output. */
function decode({ dtype, size }: PlanArray, bytes: Uint8Array<ArrayBuffer>): ArrayLike<number | bigint> {
  const { buffer } = bytes.slice();
  const views: [DType, (b: ArrayBuffer) => ArrayLike<number | bigint>][] = [
    [dtypes.float32, (b) => new Float32Array(b)],
    [dtypes.float64, (b) => new Float64Array(b)],
    [dtypes.float16, (b) => new Float16Array(b)],
    [dtypes.bfloat16, (b) => Array.from(new Uint16Array(b), bf16BitsToF32)],
    [dtypes.bool, (b) => new Uint8Array(b)],
    [dtypes.int8, (b) => new Int8Array(b)],
    [dtypes.uint8, (b) => new Uint8Array(b)],
    [dtypes.int16, (b) => new Int16Array(b)],
    [dtypes.uint16, (b) => new Uint16Array(b)],
    [dtypes.int32, (b) => new Int32Array(b)],
    [dtypes.uint32, (b) => new Uint32Array(b)],
    [dtypes.int64, (b) => new BigInt64Array(b)],
    [dtypes.uint64, (b) => new BigUint64Array(b)],
  ];
  const view = views.find(([d]) => d === dtype)?.[1];
  const all = view === undefined ? Array.from(new Uint8Array(buffer), (x) => fp8BitsToF32(x, dtype)) : view(buffer);
  return Array.from(all as ArrayLike<number>).slice(0, size);
}

/** A program as a function of nothing: what its leaves hold are weights. */
function functionOf({ lines, outputs }: Program): { f: () => Tensor[]; leaves: Names } {
  Tensor.manualSeed(1);
  const leaves = runLines(lines.filter((l) => l.kind === "leaf"), false);
  Tensor.realize(Object.values(leaves));
  const ops = lines.filter((l) => l.kind === "op");
  const f = (): Tensor[] => {
    const names = runLines(ops, false, { ...leaves });
    return outputs.map((name) => names[name].contiguous());
  };
  return { f, leaves };
}

/** One export with the bytes of its outputs, filled when it has run. */
interface Case {
  readonly at: number;
  readonly program: Program;
  readonly made: Exported;
  readonly outputs: readonly PlanArray[];
  readonly bytes: Uint8Array<ArrayBuffer>[];
  /** What they are, by the reference: of the function, whose leaves are memory. */
  readonly want: readonly Tracked[];
}

async function exportCase(at: number, seed: number, form: string): Promise<Case | undefined> {
  const program = programOf(seed, at);
  if (program.lines.some((l) => l.kind === "write" || /rand|dropout|multinomial|bernoulli/i.test(l.text))) {
    return undefined;
  }
  const { f, leaves } = functionOf(program);
  const want = evaluateTracked(f().map((t) => t.uop));
  const options = form === "wasm" ? { target: "wasm" } as const : { target: "c", style: form as "plain" } as const;
  const made = await exportModel(f, [], { ...options, name: `p${at}`, weights: leaves });
  if (made.plan.draws > 0) return undefined;
  const outputs = made.plan.arrays.filter((a) => a.space === "output");
  return {
    at,
    program,
    made,
    outputs,
    bytes: outputs.map((a) => new Uint8Array(Math.max(8, a.size * a.dtype.itemsize))),
    want,
  };
}

/** Builds one library of all, and runs each. */
async function runC(cases: readonly Case[], style: string, folder: string): Promise<void> {
  const [compiler] = compilersHere();
  const glue: string[] = [], flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC"];
  for (const { at, made, outputs } of cases) {
    await made.write(folder);
    const hasWeights = made.files.has(`p${at}.bin`), args = outputs.map((_, i) => `, io[${i}]`).join("");
    glue.push(
      `#include "p${at}.h"`,
      `static p${at}_context c${at};`,
      `void go_p${at}(void **io);`,
      `void go_p${at}(void **io) {`,
      `  (void)io;`,
      `  p${at}_init(&c${at}${hasWeights ? `, p${at}_weights()` : ""});`,
      `  p${at}_run(&c${at}${args});`,
      "}",
    );
    if (hasWeights) flags.push(`-DP${at}_EMBED`);
  }
  await Deno.writeTextFile(`${folder}/glue.c`, glue.join("\n") + "\n");
  const sources = cases.map((c) => `p${c.at}.c`), library = `${folder}/${style}.so`;
  await run(compiler.path, [...flags, "-O1", "-o", library, "glue.c", ...sources, "-lm"], folder);
  const symbols = Object.fromEntries(
    cases.map((c) => [`go_p${c.at}`, { parameters: ["buffer"], result: "void" } as const]),
  );
  const opened = Deno.dlopen(library, symbols);
  try {
    for (const { at, bytes } of cases) {
      const io = BigUint64Array.from(bytes, (b) => Deno.UnsafePointer.value(Deno.UnsafePointer.of(b)));
      (opened.symbols[`go_p${at}`] as (io: Uint8Array<ArrayBuffer>) => void)(new Uint8Array(io.buffer));
    }
  } finally {
    opened.close();
  }
}

/** Runs one module. */
async function runWasm({ at, made, outputs, bytes }: Case): Promise<void> {
  const file = (end: string): Uint8Array<ArrayBuffer> | undefined => {
    return made.files.get(`p${at}.${end}`) as Uint8Array<ArrayBuffer> | undefined;
  };
  const { instance: { exports } } = await WebAssembly.instantiate(file("wasm")!);
  const e = exports as Record<string, WebAssembly.Global> & { memory: WebAssembly.Memory; init(): void; run(): void };
  const memory = new Uint8Array(e.memory.buffer), weights = file("bin");
  if (weights !== undefined) memory.set(weights, e.weights.value);
  e.init();
  e.run();
  outputs.forEach((a, i) =>
    bytes[i].set(memory.subarray(e[a.name].value, e[a.name].value + a.size * a.dtype.itemsize))
  );
}

/** What is wrong with a case that has run. */
function check({ at, program, outputs, bytes, want }: Case, form: string): string | undefined {
  for (const [i, a] of outputs.entries()) {
    const { why } = compareTracked(decode(a, bytes[i]), want[i]);
    if (why === undefined) continue;
    return `case ${at} as ${form}, output ${i}: ${why}\n${
      program.lines.map((l) => l.text).join("\n")
    }\n${program.outputs}`;
  }
}

/** Exports programs, runs them, compares. */
export async function randomExports(
  options: { readonly seed: number; readonly from?: number; readonly count: number; readonly forms: readonly string[] },
): Promise<RandomReport> {
  const { seed, from = 0, count, forms } = options, failures: string[] = [], compared: Record<string, number> = {};
  const folder = await Deno.makeTempDir({ prefix: "dinograd-exports-" });
  let left = 0;
  try {
    for (const form of forms) {
      const cases: Case[] = [];
      for (let at = from; at < from + count; at++) {
        try {
          const made = await exportCase(at, seed, form);
          if (made === undefined) left++;
          else cases.push(made);
        } catch (error) {
          failures.push(`case ${at} as ${form}: ${(error as Error).stack}`);
        }
      }
      const at = `${folder}/${form}`;
      await Deno.mkdir(at);
      if (form === "wasm") { for (const c of cases) await runWasm(c); }
      else await runC(cases, form, at);
      for (const c of cases) {
        const why = check(c, form);
        if (why !== undefined) failures.push(why);
      }
      compared[form] = cases.length;
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
  return { compared, left, failures };
}

if (import.meta.main) {
  const args = parseArgs(Deno.args, { string: ["count", "seed", "forms", "case"] });
  Device.default = "WASM";
  const report = await randomExports({
    ...casesOf(args, 50),
    forms: (args.forms ?? FORMS.join()).split(","),
  });
  for (const f of report.failures) console.log(`${f}\n`);
  console.log(JSON.stringify(report.compared), `left out ${report.left}, failures ${report.failures.length}`);
  if (report.failures.length > 0) Deno.exit(1);
}
