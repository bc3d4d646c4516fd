/**
 * The entry point `./export`: a function of tensors becomes a program of its own, in C, as a WebAssembly module, a page, a
 * program for Deno, or CUDA. Nothing of this library is beside it.
 *
 * @module
 */
import "../../mod.ts"; // it registers the devices
import { hostFiles, NO_FILES } from "../device/host_files.ts";
import { pathOf } from "../state/source.ts";
import { writeFile } from "../state/write.ts";
import {
  type Callable,
  checkBoolean,
  checkCallable,
  checkCount,
  checkOptions,
  describe,
  isPlain,
} from "../helpers/options.ts";
import { ArgumentError, ExportError } from "../helpers/errors.ts";
import { cCaps, type CForm, type CStyle } from "./c_kernels.ts";
import { type ExportFiles, writeC } from "./c_export.ts";
import { type Begun, captureFor } from "./export_capture.ts";
import { type ExportPlan, type PlanEntry, planExports, weightFile } from "./export_plan.ts";
import { cudaRenderer, writeCuda } from "./cuda_export.ts";
import { webRenderer, writeWeb } from "./web_export.ts";
import { writeDeno } from "./deno_export.ts";
import { wasmWriter, writeWasm } from "./wasm_export.ts";
import type { Capabilities } from "../renderer/renderer.ts";

export { ExportError } from "../helpers/errors.ts";
export type { Callable } from "../helpers/options.ts";
export type {
  ExportPlan,
  PlanArray,
  PlanKernel,
  PlanPart,
  PlanScalar,
  PlanStep,
  PlanTest,
  PlanVariable,
  Space,
} from "./export_plan.ts";
export type { CStyle } from "./c_kernels.ts";

/** What an export becomes. */
export type ExportTarget = "c" | "wasm" | "web" | "deno" | "cuda";

/** Options of {@linkcode exportModel}. */
export interface ExportOptions {
  /** What it becomes. Default "c". */
  readonly target?: ExportTarget;
  /** C: "plain" loops to read, or "fast", the default: optimized kernels. */
  readonly style?: CStyle;
  /** C in the fast style: bytes of a vector, 0, 16, 32 or 64; 16 unless given, which x86-64 and ARM64 all have. */
  readonly vector?: number;
  /**
   * C in the fast style: threads that may share the loops of a run, at most; 1 unless given. Beside the files is a pool of
   * POSIX threads then, which a program may take, or leave.
   */
  readonly threads?: number;
  /** A page: whether all of it, weights and shaders too, is one HTML file that opens without a server. Default false. */
  readonly single?: boolean;
  /** Whatever has the weights inside: they are called as in its state dict. That of a model is the model unless given. */
  readonly weights?: unknown;
  /** What files and functions are called: letters, digits and underscores. Default "model". */
  readonly name?: string;
}

/**
 * What a program gives to `deno task export`, under the name `exported`: a function, or a model by its method `call`, or
 * several by name.
 */
export type Exportable = ExportableFunction | ExportableFunctions;

/** One function for `deno task export`. */
export interface ExportableFunction {
  /** The function, or a model. */
  readonly f: Callable;
  /** What it is called with: shapes and dtypes count, and the recorded call has these values. */
  readonly args: readonly unknown[];
  /** As in {@linkcode ExportOptions}. */
  readonly weights?: unknown;
  /** As in {@linkcode ExportOptions}; the file's unless given. */
  readonly name?: string;
}

/** Functions that share weights and state, for `deno task export`. */
export interface ExportableFunctions {
  /** As {@linkcode exportModels} takes them. */
  readonly entries: ExportEntries;
  /** As in {@linkcode ExportOptions}. */
  readonly weights?: unknown;
  /** As in {@linkcode ExportOptions}; the file's unless given. */
  readonly name?: string;
}

/** Files of an export, by name. */
export class Exported {
  /** Internal: use {@linkcode exportModel}. */
  constructor(
    /** What the files were written from. */
    readonly plan: ExportPlan,
    /** Text or bytes, by the name of the file. */
    readonly files: ReadonlyMap<string, string | Uint8Array<ArrayBuffer>>,
  ) {}

  /** The text of a file. @throws {ArgumentError} for one that is not there */
  text(name: string): string {
    const file = this.files.get(name);
    if (typeof file === "string") return file;
    throw new ArgumentError(`read ${name} of an export`, {
      reason: file === undefined ? `its files are ${[...this.files.keys()].join(", ")}` : "it is bytes, not text",
    });
  }

  /** Writes the files into a folder, which is made, and gives their paths. @throws {ExportError} where the runtime has no files */
  async write(folder: string | URL): Promise<string[]> {
    const into = pathOf("write an export", folder).replace(/\/$/, ""), files = hostFiles();
    if (files === undefined) {
      throw new ExportError("write an export", { reason: `${NO_FILES}; take them from its \`files\`` });
    }
    await files.mkdir(into, { recursive: true });
    const paths: string[] = [];
    for (const [name, content] of this.files) {
      const path = `${into}/${name}`;
      const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
      await writeFile(path, async (put) => await put(bytes));
      paths.push(path);
    }
    return paths;
  }
}

const KNOWN = ["target", "style", "vector", "threads", "single", "weights", "name"];
/** Threads that a C export is made for, at most. */
const MOST_THREADS = 256;
const TARGETS: readonly ExportTarget[] = ["c", "wasm", "web", "deno", "cuda"];

/** One of a list. @throws {ArgumentError} */
function oneOf<T>(action: string, name: string, value: unknown, list: readonly T[]): T {
  if (list.includes(value as T)) return value as T;
  const text = list.map((v) => JSON.stringify(v)).join(", ");
  throw new ArgumentError(action, { reason: `${name} must be one of ${text}, not ${describe(value)}` });
}

/**
 * Writes a function of tensors, or a model by its method `call`, down as a program of its own. The function is called three times with these arguments, as a
 * function under `jit` is; tensors that it closes over are weights, those that it assigns to are state, which begins with
 * what it is after two calls. Arguments that are bound variables are arguments of the program.
 *
 * ```ts
 * import { nn, Tensor } from "../../mod.ts";
 * import { exportModel } from "./export.ts";
 * const layer = new nn.Linear(4, 2);
 * const made = await exportModel((x: Tensor) => layer.call(x).relu(), [Tensor.zeros([1, 4])], {
 *   target: "c",
 *   style: "plain",
 *   weights: layer,
 *   name: "tiny",
 * });
 * console.log([...made.files.keys()]); // ["tiny.h", "tiny.c", "tiny.bin", "tiny_test.c", "Makefile"]
 * console.log(made.text("tiny.h").includes("void tiny_run(tiny_context *context, const float x[4], float y[2]);")); // true
 * ```
 *
 * @throws {ArgumentError} for an option that is none @throws {ExportError} for a function that reads values, computes on
 * several devices, or takes a size that is not bound
 */
export async function exportModel(
  model: Callable,
  args: readonly unknown[],
  options: ExportOptions = {},
): Promise<Exported> {
  const action = "export a function", f = checkCallable(action, "f", model);
  if (!Array.isArray(args)) {
    throw new ArgumentError(action, { reason: `args must be a list of the arguments, not ${describe(args)}` });
  }
  return await exported(action, [["", f, args]], {
    weights: typeof model === "object" ? model : undefined,
    ...checkOptions(action, options, KNOWN),
  });
}

/** Entry points of one program, by name: a function or a model, and its arguments. */
export type ExportEntries = Readonly<Record<string, readonly [f: Callable, args: readonly unknown[]]>>;

/** What an entry point cannot be called: other functions of a program have these names, and a promise has `then`. */
const TAKEN: ReadonlySet<string> = new Set(
  "init reset seed weights context run free launch memory counter device then".split(" "),
);

/**
 * Writes several functions down as one program that share weights and state: a step and its beginning, reading and
 * answering. Each is a function of its name: `NAME_ENTRY` on the same context in C and CUDA, a method of what `load` gives in
 * the others. State begins with what it is when each was called twice.
 *
 * ```ts
 * import { nn, Tensor } from "../../mod.ts";
 * import { exportModels } from "./export.ts";
 * const layer = new nn.Linear(4, 2), x = Tensor.zeros([1, 4]);
 * const made = await exportModels({
 *   scores: [(x: Tensor) => layer.call(x), [x]],
 *   best: [(x: Tensor) => layer.call(x).argmax(1), [x]],
 * }, { weights: layer, name: "tiny" });
 * console.log(made.text("tiny.h").includes("void tiny_best(tiny_context *context, const float x[4], int y[1]);")); // true
 * ```
 *
 * @throws {ArgumentError} for names that are none @throws {ExportError} as `exportModel`
 */
export async function exportModels(entries: ExportEntries, options: ExportOptions = {}): Promise<Exported> {
  const action = "export functions";
  if (!isPlain(entries) || Object.keys(entries).length === 0) {
    throw new ArgumentError(action, {
      reason: `entries are functions with their arguments by name, not ${describe(entries)}`,
    });
  }
  const list = Object.entries(entries).map(([name, entry]) => {
    if (!/^[A-Za-z][A-Za-z0-9_]*$/.test(name) || TAKEN.has(name)) {
      throw new ArgumentError(action, { reason: `an entry cannot be called ${JSON.stringify(name)}` });
    }
    if (!Array.isArray(entry) || !Array.isArray(entry[1])) {
      throw new ArgumentError(action, { reason: `${name} must be [f, args], not ${describe(entry)}` });
    }
    return [name, checkCallable(action, name, entry[0]), entry[1]] as const;
  });
  return await exported(action, list, options);
}

async function exported(
  action: string,
  list: readonly (readonly [entry: string, f: (...args: never[]) => unknown, args: readonly unknown[]])[],
  options: ExportOptions,
): Promise<Exported> {
  const { name = "model", weights } = checkOptions(action, options, KNOWN);
  if (typeof name !== "string" || !/^[A-Za-z][A-Za-z0-9_]*$/.test(name)) {
    throw new ArgumentError(action, { reason: `name is letters, digits and underscores, not ${describe(name)}` });
  }
  const target = oneOf(action, "target", options.target ?? "c", TARGETS);
  const single = checkBoolean(action, "single", options.single ?? false);
  if (single && target !== "web") {
    throw new ArgumentError(action, { reason: `single is for { target: "web" }, not "${target}"` });
  }
  const form: CForm = {
    style: oneOf(action, "style", options.style ?? "fast", ["plain", "fast"]),
    vector: oneOf(action, "vector", options.vector ?? 16, [0, 16, 32, 64]),
    threads: checkCount(action, "threads", options.threads ?? 1, 1, MOST_THREADS),
  };
  if (form.threads > 1 && (target !== "c" || form.style !== "fast")) {
    throw new ArgumentError(action, { reason: 'threads are for { target: "c", style: "fast" }' });
  }
  if (list.some(([, f]) => f.constructor.name === "AsyncFunction")) {
    throw new ExportError(action, { reason: "it is async: an export computes all that it gives, and reads nothing" });
  }
  const writer = target === "c" || target === "cuda" ? undefined : wasmWriter(action);
  const caps: Capabilities = target === "c"
    ? cCaps(form)
    : target === "cuda"
    ? cudaRenderer.caps
    : (target === "web" ? webRenderer : writer!.renderer).caps;
  const begun: [string, Begun][] = list.map(([entry, f, args]) => {
    return [
      entry,
      captureFor(action, f, args, { weights, target: { name: `${target} ${JSON.stringify(form)}`, caps } }),
    ];
  });
  const calls: [string, Awaited<ReturnType<Begun["record"]>>][] = [];
  for (const [entry, b] of begun) calls.push([entry, await b.record()]);
  const entries: PlanEntry[] = await planExports(action, name, calls), [{ plan }] = entries;
  const weightBytes = weightFile(plan);
  let files: ExportFiles;
  if (target === "cuda") files = writeCuda(action, entries, weightBytes);
  else if (writer === undefined) files = writeC(entries, form, weightBytes);
  else if (target === "web") files = writeWeb(action, entries, writer, weightBytes, single);
  else files = (target === "deno" ? writeDeno : writeWasm)(entries, writer, weightBytes);
  return new Exported(plan, files);
}
