/**
 * Random programs (tests/fuzz/programs.ts) as exports: written as C in both styles and as WebAssembly, built, also as C++,
 * run, and compared with the reference within the error bounds that tracked.ts derives. Of what a program begins with, some
 * are inputs and the rest weights. All C of one style is one library.
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
import { realizedMemory } from "../../src/tensor/realize.ts";
import { type CCompiler, compilersHere, run } from "./build.ts";
import { casesOf } from "../support/parts.ts";

/** How exports are written. */
export const FORMS: readonly string[] = ["plain", "fast", "plain as C++", "fast as C++", "wasm"];

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

/** A program as a function of some of its leaves: what the others hold are weights. */
function functionOf({ lines, outputs }: Program, at: number): {
  f: (...inputs: Tensor[]) => Tensor[];
  inputs: Tensor[];
  weights: Names;
} {
  Tensor.manualSeed(1);
  const leaves = runLines(lines.filter((l) => l.kind === "leaf"), false);
  Tensor.realize(Object.values(leaves));
  const ops = lines.filter((l) => l.kind === "op"), memory = new Set<unknown>();
  const taken = Object.keys(leaves).filter((name, i) => {
    const buffer = realizedMemory(leaves[name].uop);
    if ((at + i) % 2 === 0 || buffer === undefined || memory.has(buffer)) return false;
    return buffer.size === leaves[name].numel() && memory.add(buffer) !== undefined;
  });
  const f = (...inputs: Tensor[]): Tensor[] => {
    const given = Object.fromEntries(taken.map((name, i) => [name, inputs[i]]));
    const names = runLines(ops, false, { ...leaves, ...given });
    return outputs.map((name) => names[name].contiguous());
  };
  const weights = Object.fromEntries(Object.entries(leaves).filter(([name]) => !taken.includes(name)));
  return { f, inputs: taken.map((name) => leaves[name]), weights };
}

/** One export with the bytes of its outputs, filled when it has run. */
interface Case {
  readonly at: number;
  readonly program: Program;
  readonly made: Exported;
  readonly outputs: readonly PlanArray[];
  /** What goes in, as the recorded call had it. */
  readonly inputs: readonly (readonly [PlanArray, Uint8Array<ArrayBuffer>])[];
  readonly bytes: Uint8Array<ArrayBuffer>[];
  /** What they are, by the reference: of the function, whose leaves are memory. */
  readonly want: readonly Tracked[];
}

async function exportCase(at: number, seed: number, form: string): Promise<Case | undefined> {
  const program = programOf(seed, at);
  if (program.lines.some((l) => l.kind === "write" || /rand|dropout|multinomial|bernoulli/i.test(l.text))) {
    return undefined;
  }
  const { f, inputs: args, weights } = functionOf(program, at);
  const want = evaluateTracked(f(...args).map((t) => t.uop)), style = form.split(" ")[0] as "plain";
  const options = form === "wasm" ? { target: "wasm" } as const : { target: "c", style } as const;
  const made = await exportModel(f, args, { ...options, name: `p${at}`, weights });
  if (made.plan.draws > 0) return undefined;
  const inputs = made.plan.arrays.flatMap((a, n) =>
    a.space === "input" ? [[a, made.plan.test.inputs.get(n)!.slice()] as const] : []
  );
  const outputs = made.plan.arrays.filter((a) => a.space === "output");
  return {
    at,
    program,
    made,
    outputs,
    inputs,
    bytes: outputs.map((a) => new Uint8Array(Math.max(8, a.size * a.dtype.itemsize))),
    want,
  };
}

/** Builds one library of all, and runs each. */
async function runC(cases: readonly Case[], compiler: CCompiler, folder: string): Promise<void> {
  const linkage = compiler.isCpp ? 'extern "C" ' : "";
  const language = compiler.isCpp ? ["-x", "c++", "-std=c++17"] : ["-std=c11"];
  const glue: string[] = [], flags = [...language, "-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC"];
  for (const { at, made, inputs, outputs } of cases) {
    await made.write(folder);
    const hasWeights = made.files.has(`p${at}.bin`);
    const header = made.text(`p${at}.h`), { 1: list } = new RegExp(`void p${at}_run\\(([^)]*)\\)`).exec(header)!;
    // what goes through one list of pointers is what each parameter says
    const types = list.split(",").slice(1).map((p) => p.trim().replace(/\[.*$/, "").replace(/\w+$/, "*"));
    if (types.length !== inputs.length + outputs.length) throw new Error(`p${at}_run takes ${list}`);
    const args = types.map((type, i) => `, (${type})io[${i}]`).join("");
    glue.push(
      `#include "p${at}.h"`,
      `static p${at}_context c${at};`,
      `${linkage}void go_p${at}(void **io);`,
      `${linkage}void go_p${at}(void **io) {`,
      `  (void)io;`,
      `  p${at}_init(&c${at}${hasWeights ? `, p${at}_weights()` : ""});`,
      `  p${at}_run(&c${at}${args});`,
      "}",
    );
    if (hasWeights) flags.push(`-DP${at}_EMBED`);
  }
  await Deno.writeTextFile(`${folder}/glue.c`, glue.join("\n") + "\n");
  const sources = cases.map((c) => `p${c.at}.c`), library = `${folder}/all.so`;
  await run(compiler.path, [...flags, "-O1", "-o", library, "glue.c", ...sources, "-lm"], folder);
  const symbols = Object.fromEntries(
    cases.map((c) => [`go_p${c.at}`, { parameters: ["buffer"], result: "void" } as const]),
  );
  const opened = Deno.dlopen(library, symbols);
  try {
    for (const { at, inputs, bytes } of cases) {
      const io = BigUint64Array.from(
        [...inputs.map(([, b]) => b), ...bytes],
        (b) => Deno.UnsafePointer.value(Deno.UnsafePointer.of(b)),
      );
      (opened.symbols[`go_p${at}`] as (io: Uint8Array<ArrayBuffer>) => void)(new Uint8Array(io.buffer));
    }
  } finally {
    opened.close();
  }
}

/** Runs one module. */
async function runWasm({ at, made, inputs, outputs, bytes }: Case): Promise<void> {
  const file = (end: string): Uint8Array<ArrayBuffer> | undefined => {
    return made.files.get(`p${at}.${end}`) as Uint8Array<ArrayBuffer> | undefined;
  };
  const { instance: { exports } } = await WebAssembly.instantiate(file("wasm")!);
  const e = exports as Record<string, WebAssembly.Global> & { memory: WebAssembly.Memory; init(): void; run(): void };
  const memory = new Uint8Array(e.memory.buffer), weights = file("bin");
  if (weights !== undefined) memory.set(weights, e.weights.value);
  e.init();
  for (const [a, data] of inputs) memory.set(data, e[a.name].value);
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
  const compilers = compilersHere();
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
      const at = `${folder}/${form.replaceAll(" ", "_")}`;
      await Deno.mkdir(at);
      if (form === "wasm") { for (const c of cases) await runWasm(c); }
      else await runC(cases, compilers.find((c) => c.isCpp === form.endsWith("C++"))!, at);
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
