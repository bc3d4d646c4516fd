/**
 * An export as one WebAssembly module that owns its memory, with a loader of a kilobyte and its types. The module imports
 * nothing: any host calls `init`, puts weights and inputs into its memory, and calls `run`, or one of several functions by
 * its name. In: plans that share weights and state; out: files.
 *
 * @module
 */
import { toProgram } from "../codegen/to_program.ts";
import { listBackends } from "../device/device.ts";
import type { Standalone, StandaloneEntry, StandaloneScalar } from "../device/standalone.ts";
import { arrayName, type DType, dtypes } from "../dtype/dtype.ts";
import { ExportError } from "../helpers/errors.ts";
import { roundUp } from "../helpers/math.ts";
import { argOf } from "../uop/core/args.ts";
import { Ops } from "../uop/core/ops.ts";
import type { ExportFiles } from "./c_export.ts";
import { loaderParameter, Names } from "./export_names.ts";
import {
  arraysOf,
  entryName,
  EXPORT_ALIGN,
  type ExportPlan,
  placesOf,
  type PlanEntry,
  type PlanPart,
  type PlanScalar,
} from "./export_plan.ts";

const LAYOUT = { viewAlign: 1, arenas: true, maxBytes: Infinity } as const;

/** What writes modules. @throws {ExportError} where the library was loaded without it */
export function wasmWriter(action: string): Standalone {
  const found = listBackends().find((b) => b.name === "WASM")?.standalone;
  if (found !== undefined) return found;
  throw new ExportError(action, { reason: "the WASM backend is not there; import mod.ts" });
}

/** The TypedArray of a dtype; floats of fewer than 32 bits but float16 are their bits. */
export function jsArray(d: DType): string {
  if (d === dtypes.float16) return "Uint16Array";
  if (d.isFloat && d.bits < 32) return d.bits === 16 ? "Uint16Array" : "Uint8Array";
  return arrayName(d);
}

/** What stands in a module or a loader beside what the functions are given and give. */
const OWN_NAMES = ["memory", "init", "reset", "seed", "counter", "weights", "device"];

/** What arrays are called outside: as in the plan, those of one of several functions after it. */
function shownNames(entries: readonly PlanEntry[]): ReadonlyMap<number, string> {
  const names = new Names("t", [...OWN_NAMES, ...entries.map(entryName)]), out = new Map<number, string>();
  for (const { name, plan } of entries) {
    for (const [n, a] of [...arraysOf(plan, "input"), ...arraysOf(plan, "output")]) {
      out.set(n, names.take(name === "" ? a.name : `${name}_${a.name}`));
    }
  }
  for (const [n, a] of arraysOf(entries[0].plan, "state")) out.set(n, names.take(a.name));
  return out;
}

/** The module of an export. */
function wasmModule(entries: readonly PlanEntry[], writer: Standalone): Uint8Array<ArrayBuffer> {
  const [{ plan }] = entries, shown = shownNames(entries);
  let end = roundUp(plan.weightBytes, EXPORT_ALIGN);
  const initial = end;
  end += roundUp(plan.stateBytes, EXPORT_ALIGN); // what state begins with follows the weights, as in the file
  const at = new Map<number, number>();
  plan.arrays.forEach((a, n) => {
    if (a.space === "weight") at.set(n, a.offset);
    else if (shown.has(n)) {
      at.set(n, end);
      end = roundUp(end + a.size * a.dtype.itemsize, EXPORT_ALIGN);
    }
  });
  const programs = plan.kernels.map((k) => toProgram(k.ast, writer.renderer));
  // one call at a time runs, so that all share the memory of a run
  const arenas = entries.map((e) => placesOf(e.plan, LAYOUT));
  const made = entries.map((e, i): StandaloneEntry => {
    const { steps, variables, draws } = e.plan, { places } = arenas[i];
    const place = ({ array, offset }: PlanPart): number => {
      return offset + (at.get(array) ?? end + places.get(array)!.offset);
    };
    const scalar = (s: PlanScalar): StandaloneScalar =>
      s.kind === "variable" ? { kind: s.kind, position: variables.findIndex((v) => v.name === s.name) } : s;
    return {
      name: entryName(e),
      steps: steps.map((s) => {
        if (s.kind === "copy") return { kind: "copy", to: place(s.to), from: place(s.from), nbytes: s.nbytes };
        const program = programs[s.kernel];
        return {
          kind: "kernel",
          program: s.kernel,
          places: s.parts.map(place),
          scalars: program.vars.map((v) => scalar(s.scalars.get(argOf(v, Ops.VARIABLE).name)!)),
        };
      }),
      variables,
      draws,
    };
  });
  const names = plan.weightBytes + plan.stateBytes > 0 ? [{ name: "weights", place: 0 }] : [];
  return writer.module({
    programs,
    entries: made,
    counter: BigInt(plan.test.counter),
    seed: plan.test.seed,
    nbytes: end + Math.max(...arenas.map(({ blocks }) => blocks.reduce((a, b) => a + b, 0))),
    exports: [...names, ...[...shown].map(([n, name]) => ({ name, place: at.get(n)! }))],
    init: arraysOf(plan, "state").map(([n, a]) => (
      { to: at.get(n)!, from: initial + a.offset, nbytes: a.size * a.dtype.itemsize }
    )),
  });
}

/** What loaders do with an input `x`, also with nested lists, as text; of symbolic sizes there may be fewer numbers. */
export function inputText(entries: readonly PlanEntry[], parameters: string, size: string, then: string): string {
  const isOther = entries.some((e) => e.plan.variables.length > 0) ? `!(x.length <= ${size})` : `x.length != ${size}`;
  return `(${parameters}) => {
  x = x.flat?.(99) ?? x;
  if (${isOther}) throw RangeError(\`\${name} takes \${${size}} numbers, not \${x.length}\`);
  ${then};
};`;
}

/** Whether any function of an export is given an array, draws random numbers, or needs the file of weights. */
export function needsOf(entries: readonly PlanEntry[]): {
  readonly inputs: boolean;
  readonly draws: boolean;
  readonly weights: boolean;
} {
  const [{ plan: { weightBytes, stateBytes } }] = entries;
  return {
    inputs: entries.some((e) => arraysOf(e.plan, "input").length > 0),
    draws: entries.some((e) => e.plan.draws > 0),
    weights: weightBytes + stateBytes > 0,
  };
}

/**
 * What loaders make bytes of, as text: of files by URL, those on disk too, which not every runtime's `fetch` reads, and of
 * views of any type. What is not there is told; so are weights of another size, as where a server answers by a page. What
 * reads files is named where no bundler looks for it.
 */
function bytesText(): string {
  return `const get = async (x, n, fs = "node:fs") => {
  if (!x.byteLength) {
    const r = /^file:/.test(x) ? new Response((await import(fs)).readFileSync(new URL(x))) : await fetch(x);
    if (!r.ok) throw Error(x + " " + r.status);
    x = await r.arrayBuffer();
  }
  x = new Uint8Array(x.buffer ?? x, x.byteOffset, x.byteLength);
  if (n - x.length) throw RangeError(\`weights: \${x.length} of \${n} bytes\`);
  return x;
};`;
}

/** The method of a loader that calls a function of the module. */
function methodText(e: PlanEntry, shown: ReadonlyMap<number, string>): string[] {
  const { variables } = e.plan, inputs = arraysOf(e.plan, "input"), outputs = arraysOf(e.plan, "output");
  const sizes = variables.map((v) => loaderParameter(v.name));
  const parameters = [...inputs.map(([, a]) => loaderParameter(a.name)), ...sizes];
  const views = outputs.map(([n, a]) => [a.name, `m.${shown.get(n)}`]);
  const result = views.length === 1 ? views[0][1] : `{ ${views.map((v) => v.join(": ")).join(", ")} }`;
  const call = `e.${entryName(e)}(${sizes.join(", ")})`;
  return [
    `    ${entryName(e)}(${parameters.join(", ")}) {`,
    ...inputs.map(([n, { name }]) => {
      const view = `m.${shown.get(n)}`, x = loaderParameter(name);
      return `      if (${x}) put("${name}", ${view}, ${x});`;
    }),
    ...(variables.length > 0
      ? [
        `      if (${call}) throw new RangeError("sizes: ${
          variables.map((v) => `${v.name} ${v.min} to ${v.max}`).join(", ")
        }");`,
      ]
      : [`      ${call};`]),
    `      return ${views.length > 0 ? result : "undefined"};`,
    "    },",
  ];
}

/** The loader: an ES module without imports. */
function wasmLoader(entries: readonly PlanEntry[]): string {
  const [{ plan }] = entries, { name, arrays } = plan, needs = needsOf(entries), shown = shownNames(entries);
  const views = [...shown].map(([n, known]) => {
    const { dtype, size } = arrays[n];
    return `    ${known}: new ${jsArray(dtype)}(b, e.${known}.value, ${size}),`;
  });
  return [
    `// @ts-self-types="./${name}.d.ts"`,
    bytesText(),
    ...(needs.inputs
      ? [`const put = ${inputText(entries, "name, to, x", "to.length", "if (x != to) to.set(x)")}`]
      : []),
    `export async function load(wasm = new URL("./${name}.wasm", import.meta.url)${
      needs.weights ? `, weights = new URL("./${name}.bin", import.meta.url)` : ""
    }) {`,
    "  const e = (await WebAssembly.instantiate(await get(wasm))).instance.exports, b = e.memory.buffer;",
    ...(needs.weights
      ? [`  new Uint8Array(b, e.weights.value).set(await get(weights, ${plan.weightBytes + plan.stateBytes}));`]
      : []),
    "  e.init();",
    "  const m = {",
    ...views,
    "    reset: e.init,",
    ...(needs.draws
      ? ["    seed(s, n = 0n) { new BigUint64Array(b, e.counter.value, 2).set([BigInt(n), BigInt(s)]); },"]
      : []),
    ...entries.flatMap((e) => methodText(e, shown)),
    "  };",
    "  return m;",
    "}",
    "",
  ].join("\n");
}

/** The type of what sets random numbers. */
export const SEED_TYPE: readonly string[] = [
  "  /** Where random numbers begin. */",
  "  seed(seed: number | bigint, counter?: number | bigint): void;",
];

/** The type of a method of the loader, or of one that gives numbers of its own, later. */
export function methodType(e: PlanEntry, isLater: boolean): string[] {
  const { variables } = e.plan, outputs = arraysOf(e.plan, "output").map(([, a]) => a), hasSizes = variables.length > 0;
  const result = outputs.length === 0
    ? "undefined"
    : outputs.length === 1
    ? jsArray(outputs[0].dtype)
    : `{ ${outputs.map((a) => `${a.name}: ${jsArray(a.dtype)}`).join("; ")} }`;
  const parameters = [
    ...arraysOf(e.plan, "input").map(([, a]) =>
      `${a.name}${hasSizes ? ": " : "?: "}${jsArray(a.dtype)} | Numbers${hasSizes ? " | undefined" : ""}`
    ),
    ...variables.map((v) => `${v.name}: number`),
  ];
  return [
    isLater
      ? "  /** Runs on inputs that are given, and on what the last run had for others. */"
      : "  /** Copies inputs that are given into the module, and runs it; the next run overwrites what this one gives. */",
    `  ${entryName(e)}(${parameters.join(", ")}): ${isLater ? `Promise<${result}>` : result};`,
  ];
}

/** The types of the loader. */
function wasmTypes(entries: readonly PlanEntry[]): string {
  const [{ plan: { name, arrays } }] = entries, title = name[0].toUpperCase() + name.slice(1);
  const needs = needsOf(entries), bytes = "string | URL | BufferSource";
  const isSized = entries.some((e) => e.plan.variables.length > 0);
  return [
    "/** Numbers in lists, or in lists of lists; bigint where the array has such. */",
    "export type Numbers = readonly (number | bigint | Numbers)[];",
    `/** Views of the module's memory, and the run of it. */`,
    `export interface ${title} {`,
    ...[...shownNames(entries)].map(([n, known]) => {
      const { dtype, size, shape } = arrays[n];
      return `  /** ${size} numbers${
        isSized && shape.length > 1 ? `, [${shape.join(", ")}] whatever the sizes are` : ""
      }. */\n  readonly ${known}: ${jsArray(dtype)};`;
    }),
    "  /** State as in the beginning. */",
    "  reset(): void;",
    ...(needs.draws ? SEED_TYPE : []),
    ...entries.flatMap((e) => methodType(e, false)),
    "}",
    "/** The module and its weights, as bytes or by URL; without them, the files beside this one. */",
    `export function load(wasm?: ${bytes}${needs.weights ? `, weights?: ${bytes}` : ""}): Promise<${title}>;`,
    "",
  ].join("\n");
}

/** A number of a recorded call as JSON holds it. */
function jsonNumber(x: number | bigint): number | string {
  return typeof x === "bigint" || !Number.isFinite(x) ? String(x) : x;
}

/** A recorded call. */
interface RecordedCall {
  readonly inputs: Record<string, (number | string)[]>;
  readonly sizes: Record<string, number>;
  readonly outputs: Record<string, (number | string)[]>;
  /** Leading elements that are defined. */
  readonly counts: Record<string, number>;
}

function recordedCall({ arrays, test }: ExportPlan): RecordedCall {
  const constructors = {
    Uint8Array,
    Int8Array,
    Uint16Array,
    Int16Array,
    Uint32Array,
    Int32Array,
    Float32Array,
    Float64Array,
    BigInt64Array,
    BigUint64Array,
  };
  const list = (n: number, bytes: Uint8Array): (number | string)[] => {
    const View = constructors[jsArray(arrays[n].dtype) as keyof typeof constructors];
    return Array.from(new View(bytes.slice().buffer) as ArrayLike<number | bigint>, jsonNumber);
  };
  const all = (from: ReadonlyMap<number, Uint8Array>): RecordedCall["inputs"] =>
    Object.fromEntries([...from].map(([n, bytes]) => [arrays[n].name, list(n, bytes)]));
  return {
    inputs: all(test.inputs),
    sizes: Object.fromEntries(test.variables),
    outputs: all(test.outputs),
    counts: Object.fromEntries([...test.counts].map(([n, count]) => [arrays[n].name, count])),
  };
}

/** The recorded call as data; those of several functions by their names. */
function recordedJson(entries: readonly PlanEntry[]): string {
  const calls = entries.map((e) => [e.name, recordedCall(e.plan)] as const);
  return `${JSON.stringify(calls[0][0] === "" ? calls[0][1] : Object.fromEntries(calls))}\n`;
}

/** What a call of an entry point is given, as text, from a value of the shape of {@linkcode RecordedCall}. */
export function argumentsText({ plan }: PlanEntry, given: string): string {
  return [
    ...arraysOf(plan, "input").map(([, a]) => `typed(${jsArray(a.dtype)}, ${given}.inputs.${a.name})`),
    ...plan.variables.map((v) => `${given}.sizes.${v.name}`),
  ].join(", ");
}

/** What a call of an entry point gives, by the names of outputs, as text. */
export function resultsText({ plan }: PlanEntry, made: string): string {
  const outputs = arraysOf(plan, "output");
  if (outputs.length === 1) return `{ ${outputs[0][1].name}: ${made} }`;
  return outputs.length === 0 ? `(${made}, {})` : made;
}

/** A program for Deno, Node.js or Bun that does the recorded calls again. */
function wasmTest(entries: readonly PlanEntry[], load: string, imports: readonly string[]): string {
  const [{ plan: { name, stateBytes } }] = entries, { draws } = needsOf(entries);
  const calls = entries.flatMap((e) => {
    const { test } = e.plan, from = e.name === "" ? "test" : `test.${e.name}`;
    const call = resultsText(e, `m.${entryName(e)}(${argumentsText(e, from)})`);
    const before = e.name === "" ? [] : [
      ...(stateBytes > 0 ? ["m.reset();"] : []),
      ...(draws ? [`m.seed(${test.seed}n, ${test.counter}n);`] : []),
    ];
    return [...before, `compare("${e.name === "" ? "" : `${e.name} `}", ${call}, ${from});`];
  });
  return [
    `// Runs ${name} on the recorded input, prints what comes out, and compares it with what was recorded.`,
    ...imports,
    'const typed = (A, list) => A.from(list, A.name.startsWith("Big") ? BigInt : Number);',
    "let worst = 0;",
    "const compare = (call, made, { outputs, counts }) => {",
    "  for (const [name, want] of Object.entries(outputs)) {",
    "    const got = made[name], n = Math.min(counts[name], want.length);",
    '    console.log(`${call}${name}: ${Array.from(got.subarray(0, Math.min(n, 10))).join(" ")}${n > 10 ? " ..." : ""}`);',
    "    const finite = want.slice(0, n).map(Number).filter(Number.isFinite);",
    "    const scale = finite.reduce((a, x) => Math.max(a, Math.abs(x)), 1e-30);",
    "    for (let i = 0; i < n; i++) {",
    "      const a = Number(got[i]), b = Number(want[i]);",
    "      if (a !== b && !(a !== a && b !== b)) worst = Math.max(worst, Math.abs(a - b) / scale || Infinity);",
    "    }",
    "  }",
    "};",
    `const m = ${load};`,
    ...calls,
    "console.log(`largest difference from what was recorded, relative to the largest value: ${worst}`);",
    'if (worst > 1e-3) throw new Error("the recorded call gives other values");',
    "",
  ].join("\n");
}

/** The files of an export as WebAssembly. */
export function writeWasm(
  entries: readonly PlanEntry[],
  writer: Standalone,
  weights: Uint8Array<ArrayBuffer>,
): ExportFiles {
  const [{ plan: { name } }] = entries, files: ExportFiles = new Map(), hasWeights = weights.length > 0;
  files.set(`${name}.wasm`, wasmModule(entries, writer));
  files.set(`${name}.js`, wasmLoader(entries));
  files.set(`${name}.d.ts`, wasmTypes(entries));
  if (hasWeights) files.set(`${name}.bin`, weights);
  files.set(`${name}.test.json`, recordedJson(entries));
  const read = (file: string): string => `read(new URL("./${file}", import.meta.url))`;
  const load = `await load(${[`${name}.wasm`, ...(hasWeights ? [`${name}.bin`] : [])].map(read).join(", ")})`;
  files.set(
    `${name}_test.js`,
    wasmTest(entries, load, [
      'import { readFileSync as read } from "node:fs";',
      `import { load } from "./${name}.js";`,
      `const test = JSON.parse(read(new URL("./${name}.test.json", import.meta.url), "utf8"));`,
    ]),
  );
  return files;
}
