/**
 * An export as one WebAssembly module that owns its memory, with a loader of a kilobyte and its types. The module imports
 * nothing: any host calls `init`, puts weights and inputs into its memory, and calls `run`. In: a plan; out: files.
 *
 * @module
 */
import { toProgram } from "../codegen/to_program.ts";
import { listBackends } from "../device/device.ts";
import type { Standalone, StandaloneScalar } from "../device/standalone.ts";
import { arrayName, type DType, dtypes } from "../dtype/dtype.ts";
import { ExportError } from "../helpers/errors.ts";
import { roundUp } from "../helpers/math.ts";
import { argOf } from "../uop/core/args.ts";
import { Ops } from "../uop/core/ops.ts";
import type { ExportFiles } from "./c_export.ts";
import { arraysOf, EXPORT_ALIGN, type ExportPlan, placesOf, type PlanPart, type PlanScalar } from "./export_plan.ts";

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

/** The module of a plan. */
export function wasmModule(plan: ExportPlan, writer: Standalone): Uint8Array<ArrayBuffer> {
  let end = roundUp(plan.weightBytes, EXPORT_ALIGN);
  const initial = end;
  end += roundUp(plan.stateBytes, EXPORT_ALIGN); // what state begins with follows the weights, as in the file
  const at = new Map<number, number>(), arena = placesOf(plan, LAYOUT);
  plan.arrays.forEach((a, n) => {
    if (a.space === "weight") at.set(n, a.offset);
    else if (a.space !== "arena") {
      at.set(n, end);
      end = roundUp(end + a.size * a.dtype.itemsize, EXPORT_ALIGN);
    }
  });
  for (const [n, { offset }] of arena.places) at.set(n, end + offset);
  end += arena.blocks.reduce((a, b) => a + b, 0);
  const programs = plan.kernels.map((k) => toProgram(k.ast, writer.renderer));
  const place = ({ array, offset }: PlanPart): number => at.get(array)! + offset;
  const scalar = (s: PlanScalar): StandaloneScalar =>
    s.kind === "variable" ? { kind: s.kind, position: plan.variables.findIndex((v) => v.name === s.name) } : s;
  const names = plan.weightBytes + plan.stateBytes > 0 ? [{ name: "weights", place: 0 }] : [];
  for (const space of ["input", "output", "state"] as const) {
    for (const [n, a] of arraysOf(plan, space)) names.push({ name: a.name, place: at.get(n)! });
  }
  return writer.module({
    programs,
    steps: plan.steps.map((s) => {
      if (s.kind === "copy") return { kind: "copy", to: place(s.to), from: place(s.from), nbytes: s.nbytes };
      const program = programs[s.kernel];
      return {
        kind: "kernel",
        program: s.kernel,
        places: s.parts.map(place),
        scalars: program.vars.map((v) => scalar(s.scalars.get(argOf(v, Ops.VARIABLE).name)!)),
      };
    }),
    variables: plan.variables,
    draws: plan.draws,
    counter: BigInt(plan.test.counter),
    seed: plan.test.seed,
    nbytes: end,
    exports: names,
    init: arraysOf(plan, "state").map(([n, a]) => (
      { to: at.get(n)!, from: initial + a.offset, nbytes: a.size * a.dtype.itemsize }
    )),
  });
}

/** What arrays a loader shows: name, TypedArray, elements. */
function shown(plan: ExportPlan): [name: string, array: string, size: number][] {
  return (["input", "output", "state"] as const).flatMap((space) =>
    arraysOf(plan, space).map(([, a]): [string, string, number] => [a.name, jsArray(a.dtype), a.size])
  );
}

/** What loaders take for an input, also nested lists, as text; of symbolic sizes there may be fewer numbers. */
export function takenText(plan: ExportPlan): string {
  const fits = plan.variables.length > 0 ? "<=" : "===";
  return `const taken = (name, size, x) => {
  if (Array.isArray(x)) x = x.flat(1 / 0);
  if (!(x.length ${fits} size)) throw new RangeError(\`\${name} takes \${size} numbers, not \${x.length}\`);
  return x;
};`;
}

/** The loader: an ES module without imports. */
export function wasmLoader(plan: ExportPlan): string {
  const { name, variables } = plan, inputs = arraysOf(plan, "input").map(([, a]) => a.name);
  const outputs = arraysOf(plan, "output").map(([, a]) => a.name);
  const hasWeights = plan.weightBytes + plan.stateBytes > 0;
  const parameters = [...inputs, ...variables.map((v) => v.name)];
  const views = shown(plan).map(([n, array, size]) => `    ${n}: new ${array}(b, e.${n}.value, ${size}),`);
  const result = outputs.length === 1 ? `m.${outputs[0]}` : `{ ${outputs.map((n) => `${n}: m.${n}`).join(", ")} }`;
  const call = `e.run(${variables.map((v) => v.name).join(", ")})`;
  return [
    `// @ts-self-types="./${name}.d.ts"`,
    `const get = async (x) => typeof x === "string" || x instanceof URL ? (await fetch(x)).arrayBuffer() : x;`,
    ...(inputs.length > 0 ? [takenText(plan)] : []),
    `/** Both as bytes, or by URL; without them, the files beside this one. */`,
    `export async function load(wasm = new URL("./${name}.wasm", import.meta.url)${
      hasWeights ? `, weights = new URL("./${name}.bin", import.meta.url)` : ""
    }) {`,
    "  const { instance: { exports: e } } = await WebAssembly.instantiate(await get(wasm)), b = e.memory.buffer;",
    ...(hasWeights ? ["  new Uint8Array(b, e.weights.value).set(new Uint8Array(await get(weights)));"] : []),
    "  e.init();",
    "  const m = {",
    ...views,
    "    reset: e.init,",
    ...(plan.draws > 0
      ? ["    seed(s, n = 0n) { new BigUint64Array(b, e.counter.value, 2).set([BigInt(n), BigInt(s)]); },"]
      : []),
    `    run(${parameters.join(", ")}) {`,
    ...inputs.map((n) => `      if (${n} && ${n} !== m.${n}) m.${n}.set(taken("${n}", m.${n}.length, ${n}));`),
    ...(variables.length > 0
      ? [
        `      if (${call}) throw new RangeError("sizes: ${
          variables.map((v) => `${v.name} ${v.min} to ${v.max}`).join(", ")
        }");`,
      ]
      : [`      ${call};`]),
    `      return ${outputs.length > 0 ? result : "undefined"};`,
    "    },",
    "  };",
    "  return m;",
    "}",
    "",
  ].join("\n");
}

/** The types of the loader. */
export function wasmTypes(plan: ExportPlan): string {
  const { name } = plan, outputs = arraysOf(plan, "output"), title = name[0].toUpperCase() + name.slice(1);
  const hasWeights = plan.weightBytes + plan.stateBytes > 0, bytes = "string | URL | BufferSource";
  const result = outputs.length === 0
    ? "undefined"
    : outputs.length === 1
    ? jsArray(outputs[0][1].dtype)
    : `{ ${outputs.map(([, a]) => `${a.name}: ${jsArray(a.dtype)}`).join("; ")} }`;
  const parameters = [
    ...arraysOf(plan, "input").map(([, a]) =>
      `${a.name}${plan.variables.length > 0 ? ": " : "?: "}${jsArray(a.dtype)}${
        plan.variables.length > 0 ? " | undefined" : ""
      }`
    ),
    ...plan.variables.map((v) => `${v.name}: number`),
  ];
  return [
    `/** Views of the module's memory, and the run of it. */`,
    `export interface ${title} {`,
    ...shown(plan).map(([n, array, size]) => `  /** ${size} numbers. */\n  readonly ${n}: ${array};`),
    "  /** State as in the beginning. */",
    "  reset(): void;",
    ...(plan.draws > 0
      ? ["  /** Where random numbers begin. */", "  seed(seed: number | bigint, counter?: number | bigint): void;"]
      : []),
    "  /** Copies inputs that are given into the module, and runs it; the next run overwrites what this one gives. */",
    `  run(${parameters.join(", ")}): ${result};`,
    "}",
    `export function load(wasm?: ${bytes}${hasWeights ? `, weights?: ${bytes}` : ""}): Promise<${title}>;`,
    "",
  ].join("\n");
}

/** A number of a recorded call as JSON holds it. */
function jsonNumber(x: number | bigint): number | string {
  return typeof x === "bigint" || !Number.isFinite(x) ? String(x) : x;
}

/** The recorded call as data. */
export function recordedJson(plan: ExportPlan): string {
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
    const View = constructors[jsArray(plan.arrays[n].dtype) as keyof typeof constructors];
    return Array.from(new View(bytes.slice().buffer) as ArrayLike<number | bigint>, jsonNumber);
  };
  const all = (from: ReadonlyMap<number, Uint8Array>): object =>
    Object.fromEntries([...from].map(([n, bytes]) => [plan.arrays[n].name, list(n, bytes)]));
  return `${
    JSON.stringify({
      inputs: all(plan.test.inputs),
      sizes: Object.fromEntries(plan.test.variables),
      outputs: all(plan.test.outputs),
      // leading elements that are defined
      counts: Object.fromEntries([...plan.test.counts].map(([n, count]) => [plan.arrays[n].name, count])),
    })
  }\n`;
}

/** A program for Deno, Node.js or Bun that does the recorded call again. */
export function wasmTest(plan: ExportPlan, load: string, imports: readonly string[]): string {
  const { name } = plan, inputs = arraysOf(plan, "input").map(([, a]) => a);
  const args = [
    ...inputs.map((a) => `typed(${jsArray(a.dtype)}, test.inputs.${a.name})`),
    ...plan.variables.map((v) => `test.sizes.${v.name}`),
  ];
  return [
    `// Runs ${name} on the recorded input, prints what comes out, and compares it with what was recorded.`,
    ...imports,
    'const typed = (A, list) => A.from(list, A.name.startsWith("Big") ? BigInt : Number);',
    `const m = ${load};`,
    `m.run(${args.join(", ")});`,
    "let worst = 0;",
    "for (const [name, want] of Object.entries(test.outputs)) {",
    "  const got = m[name], n = Math.min(test.counts[name], want.length);",
    '  console.log(`${name}: ${Array.from(got.subarray(0, Math.min(n, 10))).join(" ")}${n > 10 ? " ..." : ""}`);',
    "  const finite = want.slice(0, n).map(Number).filter(Number.isFinite);",
    "  const scale = finite.reduce((a, x) => Math.max(a, Math.abs(x)), 1e-30);",
    "  for (let i = 0; i < n; i++) {",
    "    const a = Number(got[i]), b = Number(want[i]);",
    "    if (a !== b && !(a !== a && b !== b)) worst = Math.max(worst, Math.abs(a - b) / scale || Infinity);",
    "  }",
    "}",
    "console.log(`largest difference from what was recorded, relative to the largest value: ${worst}`);",
    'if (worst > 1e-3) throw new Error("the recorded call gives other values");',
    "",
  ].join("\n");
}

/** The files of an export as WebAssembly. */
export function writeWasm(plan: ExportPlan, writer: Standalone, weights: Uint8Array<ArrayBuffer>): ExportFiles {
  const { name } = plan, files: ExportFiles = new Map(), hasWeights = weights.length > 0;
  files.set(`${name}.wasm`, wasmModule(plan, writer));
  files.set(`${name}.js`, wasmLoader(plan));
  files.set(`${name}.d.ts`, wasmTypes(plan));
  if (hasWeights) files.set(`${name}.bin`, weights);
  files.set(`${name}.test.json`, recordedJson(plan));
  const read = (file: string): string => `read(new URL("./${file}", import.meta.url))`;
  const load = `await load(${[`${name}.wasm`, ...(hasWeights ? [`${name}.bin`] : [])].map(read).join(", ")})`;
  files.set(
    `${name}_test.js`,
    wasmTest(plan, load, [
      'import { readFileSync as read } from "node:fs";',
      `import { load } from "./${name}.js";`,
      `const test = JSON.parse(read(new URL("./${name}.test.json", import.meta.url), "utf8"));`,
    ]),
  );
  return files;
}

/**
 * The files of an export as a program for Deno: it reads numbers of the input as JSON, an object or, where there is one
 * input, a list, and writes those of the output; without input it does the recorded call.
 */
export function writeDeno(plan: ExportPlan, writer: Standalone, weights: Uint8Array<ArrayBuffer>): ExportFiles {
  const { name } = plan, files = new Map(writeWasm(plan, writer, weights)), hasWeights = weights.length > 0;
  const inputs = arraysOf(plan, "input"), outputs = arraysOf(plan, "output");
  const names = [`${name}.wasm`, ...(hasWeights ? [`${name}.bin`] : []), `${name}.test.json`];
  const read = (file: string): string => `Deno.readFileSync(import.meta.dirname + "/${file}")`;
  const args = [
    ...inputs.map(([, a]) => `typed(${jsArray(a.dtype)}, given.inputs.${a.name})`),
    ...plan.variables.map((v) => `given.sizes.${v.name}`),
  ];
  const only = inputs.length === 1 ? inputs[0][1].name : undefined;
  files.set(
    "main.ts",
    [
      `// ${name}: numbers in as JSON, numbers out. deno run --allow-read main.ts '{"inputs": {...}, "sizes": {...}}'`,
      `// deno compile --allow-read ${names.map((n) => `--include ${n}`).join(" ")} -o ${name} main.ts`,
      `import { load } from "./${name}.js";`,
      "",
      "type Numbers = (number | string)[];",
      "interface Given {",
      "  inputs: Record<string, Numbers>;",
      "  sizes: Record<string, number>;",
      "}",
      `const recorded: Given = JSON.parse(new TextDecoder().decode(${read(`${name}.test.json`)}));`,
      "const text = Deno.args[0], read = text === undefined ? recorded : JSON.parse(text);",
      `const given: Given = ${
        only === undefined
          ? "read"
          : `Array.isArray(read) ? { inputs: { ${only}: read }, sizes: recorded.sizes } : read`
      };`,
      "// deno-lint-ignore no-explicit-any",
      'const typed = (A: any, list: Numbers) => A.from(list, A.name.startsWith("Big") ? BigInt : Number);',
      `const m = await load(${[`${name}.wasm`, ...(hasWeights ? [`${name}.bin`] : [])].map(read).join(", ")});`,
      `m.run(${args.join(", ")});`,
      `console.log(JSON.stringify({ ${
        outputs.map(([, a]) => `${a.name}: Array.from(m.${a.name}, Number)`).join(", ")
      } }));`,
      "",
    ].join("\n"),
  );
  return files;
}
