/**
 * An export as a page: shaders in WGSL with what runs them, made with the limits that every adapter has, the weights, and
 * the WebAssembly module for browsers without an adapter. In: plans that share weights and state; out: files of a folder.
 *
 * @module
 */
import { toProgram } from "../codegen/to_program.ts";
import type { Standalone } from "../device/standalone.ts";
import { dtypes } from "../dtype/dtype.ts";
import { base64 } from "../helpers/text.ts";
import { ExportError } from "../helpers/errors.ts";
import { roundUp } from "../helpers/math.ts";
import { CStyleRenderer, identifier } from "../renderer/c/cstyle.ts";
import { uniformWords, WGSL_LANGUAGE } from "../renderer/c/wgsl.ts";
import type { LinearProgram } from "../renderer/renderer.ts";
import { DEFAULT_LIMITS, webGpuCaps } from "../renderer/webgpu_caps.ts";
import { argOf } from "../uop/core/args.ts";
import { Ops } from "../uop/core/ops.ts";
import { toposort } from "../uop/core/uop.ts";
import type { ExportFiles } from "./c_export.ts";
import {
  arraysOf,
  entryName,
  type ExportPlan,
  placesOf,
  type PlanEntry,
  type PlanPart,
  type PlanScalar,
} from "./export_plan.ts";
import { loaderParameter } from "./export_names.ts";
import { gridExpression } from "./grid_expression.ts";
import {
  argumentsText,
  inputText,
  jsArray,
  methodType,
  needsOf,
  resultsText,
  SEED_TYPE,
  writeWasm,
} from "./wasm_export.ts";

/** Buffers are multiples of a vector; bindings begin at multiples of 256. */
const GRAIN = 16, BINDING = 256;
const LAYOUT = { viewAlign: BINDING, arenas: false, maxBytes: DEFAULT_LIMITS.maxBufferSize } as const;

/** Renders WGSL for any adapter. */
export const webRenderer: CStyleRenderer = new CStyleRenderer(WGSL_LANGUAGE, webGpuCaps(DEFAULT_LIMITS, false, false));

/** What JavaScript writes for sizes of a grid. */
const FORMS = {
  floorDiv: (a: string, b: string): string => `Math.floor(${a} / ${b})`,
  variable: loaderParameter,
  max: (a: string, b: string): string => `Math.max(${a}, ${b})`,
};

/** Memory of the page: each array its own buffer, those of a run shared by arrays that are not in use together. */
class Memory {
  /** Bytes, and from where in the file of weights they are filled; -1 for none. */
  readonly buffers: [nbytes: number, from: number][] = [];
  private readonly at = new Map<number, number>();
  private readonly inRun = new Map<ExportPlan, Map<number, number>>();

  constructor(entries: readonly PlanEntry[]) {
    for (const { plan } of entries) {
      plan.arrays.forEach((a, n) => {
        if (a.space === "arena" || this.at.has(n)) return;
        const from = a.space === "weight" ? a.offset : a.space === "state" ? plan.weightBytes + a.offset : -1;
        this.at.set(n, this.add(a.size * a.dtype.itemsize, from));
      });
    }
    const first = this.buffers.length; // of what is of one run: all functions share it
    for (const { plan } of entries) {
      const { blocks, places } = placesOf(plan, LAYOUT);
      blocks.forEach((nbytes, i) => {
        const known = this.buffers[first + i];
        if (known === undefined) this.add(nbytes, -1);
        else known[0] = Math.max(known[0], sizeOf(nbytes));
      });
      this.inRun.set(plan, new Map([...places].map(([n, { block }]) => [n, first + block])));
    }
  }
  /** The buffer of an array as a function of this plan uses it. */
  of(plan: ExportPlan, array: number): number {
    return this.at.get(array) ?? this.inRun.get(plan)!.get(array)!;
  }
  add(nbytes: number, from: number): number {
    return this.buffers.push([sizeOf(nbytes), from]) - 1;
  }
}

/** Bytes of the buffer of an array. */
function sizeOf(nbytes: number): number {
  return roundUp(Math.max(nbytes, GRAIN), GRAIN);
}

/**
 * WGSL in fewer characters: without indentation, spaces beside signs, and types of values that follow from what they are.
 * Two minuses stay apart, for together they are another sign.
 */
export function compact(wgsl: string): string {
  return wgsl.trim().replace(/^ +/gm, "").replace(/^let (\w+): [^=]*=/gm, "let $1 =")
    .replace(/ ([-+*/%=<>!&|^?:]+) (?!-)/g, "$1").replace(/([,:;]) /g, "$1");
}

/** What the functions of a page share. */
class Shaders {
  readonly programs: readonly LinearProgram[];
  readonly texts: string[] = [];
  private readonly known = new Map<string, number>();

  constructor({ kernels }: ExportPlan, readonly memory: Memory) {
    this.programs = kernels.map(({ ast }) => toProgram(ast, webRenderer));
  }
  /** The number of the shader of a program. */
  of(program: LinearProgram): number {
    const source = webRenderer.parts(program, identifier(program.name));
    const text = [...source.declarations.values(), source.body].join("\n");
    let shader = this.known.get(text);
    if (shader === undefined) this.known.set(text, shader = this.texts.push(text) - 1);
    return shader;
  }
}

/** What stands in the list of steps of a function. */
class Steps {
  readonly lines: string[] = [];
  private readonly memory: Memory;

  constructor(private readonly action: string, private readonly plan: ExportPlan, private readonly shaders: Shaders) {
    const { programs } = shaders;
    this.memory = shaders.memory;
    for (const s of plan.steps) {
      if (s.kind === "copy") this.copy(this.place(s.to), this.place(s.from), s.nbytes);
      else this.kernel(s, programs[s.kernel]);
    }
  }

  private place({ array, offset }: PlanPart): readonly [buffer: number, offset: number] {
    return [this.memory.of(this.plan, array), offset];
  }
  private copy(to: readonly [number, number], from: readonly [number, number], nbytes: number): void {
    if ((to[1] | from[1]) % 4 !== 0) {
      throw this.refused("a tensor begins inside a word of another; take a contiguous() copy");
    }
    this.lines.push(`c(${to[0]}, ${to[1]}, ${from[0]}, ${from[1]}, ${roundUp(nbytes, 4)});`);
  }
  private refused(reason: string): ExportError {
    return new ExportError(this.action, { reason });
  }

  private kernel(step: ExportPlan["steps"][number] & { kind: "kernel" }, program: LinearProgram): void {
    const shader = this.shaders.of(program);
    const params = program.params.filter((p) => p !== undefined),
      after: (() => void)[] = [],
      bound = new Map<number, boolean>();
    const bindings = params.map((p) => {
      const part = step.parts[p.slot], [buffer, offset] = this.place(part), nbytes = part.size * part.dtype.itemsize;
      const clashes = bound.has(buffer) && (p.writes || bound.get(buffer) === true);
      bound.set(buffer, p.writes || bound.get(buffer) === true);
      if (nbytes > DEFAULT_LIMITS.maxStorageBufferBindingSize) {
        throw this.refused(`an array of ${nbytes} bytes is more than one binding of every adapter holds`);
      }
      if (offset % BINDING === 0 && !clashes) return [p.slot, buffer, offset];
      const own = this.memory.add(nbytes, -1);
      this.copy([own, 0], [buffer, offset], nbytes);
      if (p.writes) after.push(() => this.copy([buffer, offset], [own, 0], nbytes));
      return [p.slot, own, 0];
    });
    const { at, words } = uniformWords(program), scalars: string[] = [];
    program.vars.forEach((v, i) => {
      const s = step.scalars.get(argOf(v, Ops.VARIABLE).name)!;
      const [low, high] = wordsOf(s);
      scalars[at[i]] = low;
      if (v.dtype.bits === 64) scalars[at[i] + 1] = high;
    });
    for (let i = 0; i < words; i++) scalars[i] ??= "0";
    const uniform = words > 0 ? `, ${program.params.length}, [${scalars.join(", ")}]` : "";
    const groups = (program.grid?.groups ?? []).map((g) => gridExpression(this.action, g, step.scalars, FORMS));
    while (groups.length > 1 && groups.at(-1) === "1") groups.pop();
    this.lines.push(`k(${shader}, ${JSON.stringify(bindings)}, [${groups.join(", ") || "1"}]${uniform});`);
    for (const write of after) write();
  }
}

/** Low and high word of a scalar, as JavaScript. */
function wordsOf(s: PlanScalar): [low: string, high: string] {
  switch (s.kind) {
    case "variable":
      return [loaderParameter(s.name), `${loaderParameter(s.name)} >> 31`];
    case "counter":
      return [`lo(counter + ${s.offset}n)`, `lo(counter + ${s.offset}n >> 32n)`];
    case "counterHigh":
      return ["lo(counter >> 32n)", "0"];
    case "seed":
      return [s.word === 0 ? "lo(seed >> 32n)" : "lo(seed)", "0"];
  }
}

/** A function of the module that runs shaders. */
function functionText(action: string, e: PlanEntry, shaders: Shaders): string {
  const { plan } = e, { variables, draws } = plan, slot = (n: number): number => shaders.memory.of(plan, n);
  const inputs = arraysOf(plan, "input"), outputs = arraysOf(plan, "output"), name = entryName(e);
  const parameters = [...inputs.map(([, a]) => a), ...variables].map((x) => loaderParameter(x.name));
  const results = outputs.map(([n, a]) => `${a.name}: [${slot(n)}, ${jsArray(a.dtype)}, ${a.size}]`);
  const lines = [
    ...variables.map(({ name, min, max }) => {
      const x = loaderParameter(name);
      return `if (!(${x} >= ${min} && ${x} <= ${max})) throw new RangeError("${name} is from ${min} to ${max}");`;
    }),
    ...inputs.map(([n, a]) => {
      const x = loaderParameter(a.name);
      return `if (${x}) write(${slot(n)}, ${jsArray(a.dtype)}.from(taken("${a.name}", ${a.size}, ${x})));`;
    }),
    `const out = await queue("${name}", { ${results.join(", ")} }, (c, k) => {`,
    ...new Steps(action, plan, shaders).lines.map((l) => `  ${l}`),
    ...(draws > 0 ? [`  counter += ${draws}n;`] : []),
    "});",
    `return ${outputs.length === 1 ? `out.${outputs[0][1].name}` : "out"};`,
  ];
  return [`    async ${name}(${parameters.join(", ")}) {`, ...lines.map((l) => `      ${l}`), "    },"].join("\n");
}

/** The module that runs shaders. */
function pageModule(action: string, entries: readonly PlanEntry[]): string {
  const [{ plan }] = entries, { name } = plan, memory = new Memory(entries), shaders = new Shaders(plan, memory);
  const functions = entries.map((e) => functionText(action, e, shaders)).join("\n"), needs = needsOf(entries);
  const texts = shaders.texts.map((s) => `  \`${compact(s).replace(/[\\`$]/g, "\\$&")}\`,`);
  const bytes = plan.weightBytes + plan.stateBytes;
  const byWasm = entries.map(entryName).map((n) => `${n}: async (...args) => own(m.${n}(...args))`);
  return `// ${name}: shaders and what runs them; WebAssembly where there is no adapter. Written by dinograd.
const SHADERS = [
${texts.join("\n")}
];
const BUFFERS = ${JSON.stringify(memory.buffers)};
${needs.draws ? "const lo = (x) => Number(BigInt.asUintN(32, x));\n" : ""}${
    needs.inputs ? `const taken = ${inputText(entries, "name, n, x", "n", "return x")}` : ""
  }
const own = (y) => y?.slice?.() ?? (y && Object.fromEntries(Object.entries(y).map(([n, a]) => [n, a.slice()])));
export async function load(weights, device) {
${
    needs.weights
      ? `  if (!weights?.byteLength) {
    weights = await (await fetch(weights ?? new URL("./${name}.bin", import.meta.url))).arrayBuffer();
  }
  const bytes = new Uint8Array(weights.buffer ?? weights, weights.byteOffset, weights.byteLength);
  if (bytes.length !== ${bytes}) throw RangeError(\`weights: \${bytes.length} of ${bytes} bytes\`);`
      : "  const bytes = new Uint8Array(0);"
  }
  if (device === undefined) device = await (await globalThis.navigator?.gpu?.requestAdapter())?.requestDevice();
  if (!device) {
    const m = await (await import(new URL("./${name}.js", import.meta.url))).load(undefined${
    needs.weights ? ", bytes" : ""
  });
    return { ...m, device: "WASM", ${byWasm.join(", ")} };
  }
  const buffers = BUFFERS.map(([size]) => device.createBuffer({ size, usage: 0x8c }));
  const write = (i, b) => {
    const all = b.byteLength % 4 ? new Uint8Array(b.byteLength + 3 & ~3) : undefined;
    all?.set(new Uint8Array(b.buffer, b.byteOffset, b.byteLength));
    device.queue.writeBuffer(buffers[i], 0, all ?? b);
  };
  const reset = () => BUFFERS.forEach(([size, from], i) => from >= 0 && write(i, bytes.subarray(from, from + size)));
  reset();
  const pipelines = await Promise.all(SHADERS.map((code) =>
    device.createComputePipelineAsync({ layout: "auto", compute: { module: device.createShaderModule({ code }) } })));
${needs.draws ? `  let seed = ${plan.test.seed}n, counter = ${plan.test.counter}n;\n` : ""}  const groups = new Map();
  // queues the steps of a function, and reads what they give
  const queue = async (name, outputs, steps) => {
    const encoder = device.createCommandEncoder();
    let pass, step = 0;
    const c = (to, toAt, from, fromAt, n) => {
      pass = pass?.end();
      encoder.copyBufferToBuffer(buffers[from], fromAt, buffers[to], toAt, n);
    };
    const k = (shader, slots, [x, y = 1, z = 1], at, words) => {
      const key = name + step++;
      if (x * y * z === 0) return;
      let g = groups.get(key);
      if (g === undefined) {
        const entries = slots.map(([binding, i, offset]) => ({ binding, resource: { buffer: buffers[i], offset } }));
        const uniform = words && device.createBuffer({ size: words.length * 4, usage: 0x48 });
        if (words) entries.push({ binding: at, resource: { buffer: uniform } });
        g = [device.createBindGroup({ layout: pipelines[shader].getBindGroupLayout(0), entries }), uniform];
        groups.set(key, g);
      }
      if (words) device.queue.writeBuffer(g[1], 0, new Uint32Array(words));
      pass ??= encoder.beginComputePass();
      pass.setPipeline(pipelines[shader]);
      pass.setBindGroup(0, g[0]);
      pass.dispatchWorkgroups(x, y, z);
    };
    steps(c, k);
    pass?.end();
    const out = {}, reads = Object.entries(outputs).map(([name, [i, A, n]]) => {
      const size = BUFFERS[i][0], to = device.createBuffer({ size, usage: 0x9 });
      encoder.copyBufferToBuffer(buffers[i], 0, to, 0, size);
      return async () => {
        await to.mapAsync(1);
        out[name] = new A(to.getMappedRange().slice(0, n * A.BYTES_PER_ELEMENT));
        to.destroy();
      };
    });
    device.queue.submit([encoder.finish()]);
    await Promise.all(reads.map((f) => f()));
    return out;
  };
  return {
    device: "WEBGPU",
    reset,
${needs.draws ? "    seed: (s, n = 0n) => [seed, counter] = [BigInt(s), BigInt(n)],\n" : ""}${functions}
  };
}
`;
}

/** The types of the module that runs shaders. */
function pageTypes(entries: readonly PlanEntry[]): string {
  const [{ plan: { name } }] = entries, { draws, weights } = needsOf(entries);
  const title = `${name[0].toUpperCase()}${name.slice(1)}Web`;
  return [
    `import type { Numbers } from "./${name}.js";`,
    `/** What runs by shaders, or, as \`device\` says, by WebAssembly. */`,
    `export interface ${title} {`,
    '  readonly device: "WEBGPU" | "WASM";',
    "  /** State as in the beginning. */",
    "  reset(): void;",
    ...(draws ? SEED_TYPE : []),
    ...entries.flatMap((e) => methodType(e, true)),
    "}",
    "/**",
    ...(weights ? [" * @param weights as bytes or by URL; without them, the file beside this one"] : []),
    " * @param device a GPUDevice of yours, or null for WebAssembly; without it, the adapter that the browser offers",
    " */",
    `export function load(weights?: ${
      weights ? "string | URL | BufferSource" : "undefined"
    }, device?: object | null): Promise<${title}>;`,
    "",
  ].join("\n");
}

/** Code that makes addresses of files that lie in the page: modules name those before them. */
function embedded(files: ExportFiles): string {
  const list = [...files].map(([name, content]) => {
    const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
    return `  ${JSON.stringify(name)}: "${base64(bytes)}",`;
  });
  return `const at = {};
for (const [name, text] of Object.entries({
${list.join("\n")}
})) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0)), isCode = name.endsWith(".js");
  const code = isCode && Object.entries(at).reduce((all, [n, url]) =>
    all.replaceAll(\`new URL("./\${n}", import.meta.url)\`, JSON.stringify(url)), new TextDecoder().decode(bytes));
  at[name] = URL.createObjectURL(new Blob([code || bytes], { type: isCode ? "text/javascript" : "" }));
}
`;
}

/**
 * A page with a form: numbers in, numbers out, and the time that it took; of several functions one is chosen. Its files lie
 * beside it, or, where they are given, in it.
 */
function page(entries: readonly PlanEntry[], inside?: ExportFiles): string {
  const [{ name: first, plan: { name } }] = entries, isOne = first === "";
  const file = (end: string): string => inside === undefined ? `"./${name}${end}"` : `at["${name}${end}"]`;
  const calls = entries.map((e) =>
    `  ${entryName(e)}: async (given) => (${
      resultsText(e, `await model.${entryName(e)}(${argumentsText(e, "given")})`)
    }),`
  );
  const choice = isOne ? "" : `<label for="entry">Function</label>
<select id="entry">${entries.map((e) => `<option>${e.name}</option>`).join("")}</select>
`;
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,">
<title>${name}</title>
<style>body { font: 16px system-ui; max-width: 50em; margin: 2em auto; padding: 0 1em } textarea { width: 100% }</style>
<h1>${name}</h1>
${choice}<label for="input">Input, as numbers</label>
<textarea id="input" rows="8"></textarea>
<p><button id="run">Run</button> <span id="state" role="status">loading</span></p>
<pre id="output"></pre>
<script type="module">
${inside === undefined ? "" : embedded(inside)}const { load } = await import(new URL(${
    file("_web.js")
  }, location.href));
const $ = (id) => document.getElementById(id);
const typed = (A, list) => A.from(list.flat(Infinity), A.name.startsWith("Big") ? BigInt : Number);
const test = await (await fetch(${file(".test.json")})).json();
const model = await load(undefined, location.hash === "#wasm" ? null : undefined);
const calls = {
${calls.join("\n")}
};
const entry = () => ${isOne ? '"run"' : '$("entry").value'};
const show = () => {
  const { inputs, sizes } = ${isOne ? "test" : "test[entry()]"};
  $("input").value = JSON.stringify({ inputs, sizes });
};
const run = async () => {
  try {
    const given = JSON.parse($("input").value), start = performance.now();
    globalThis.results = await calls[entry()](given);
    const ms = performance.now() - start;
    $("output").textContent = Object.entries(globalThis.results).map(([n, list]) => n + ": " + Array.from(list).join(", ")).join("\\n");
    $("state").textContent = ms.toFixed(1) + " ms on " + model.device;
  } catch (error) {
    $("state").textContent = String(error);
  }
};
$("run").onclick = run;
${isOne ? "" : '$("entry").onchange = show;\n'}show();
await run();
</script>
</html>
`;
}

/** Dtypes that no shader computes in. @throws {ExportError} */
function checkDTypes(action: string, plan: ExportPlan): void {
  for (const { ast, line } of plan.kernels) {
    if (!toposort([ast]).some((u) => u.dtype.scalar === dtypes.float64)) continue;
    throw new ExportError(action, {
      reason:
        `it computes in float64${
          line === undefined ? "" : ` (${line})`
        }, which WebGPU has not; cast to float32, or take ` +
        '{ target: "wasm" }',
    });
  }
}

/** The files of an export as a page: a folder, or, as a `single` one, one file that needs no server. */
export function writeWeb(
  action: string,
  entries: readonly PlanEntry[],
  writer: Standalone,
  weights: Uint8Array<ArrayBuffer>,
  single: boolean,
): ExportFiles {
  const [{ plan }] = entries, { name } = plan;
  checkDTypes(action, plan);
  const files = new Map(writeWasm(entries, writer, weights));
  files.set(`${name}_web.js`, `// @ts-self-types="./${name}_web.d.ts"\n${pageModule(action, entries)}`);
  files.set(`${name}_web.d.ts`, pageTypes(entries));
  if (!single) return files.set("index.html", page(entries));
  const inside = [".wasm", ".bin", ".test.json", ".js", "_web.js"].map((end) => name + end).filter((n) => files.has(n));
  return new Map([["index.html", page(entries, new Map(inside.map((n) => [n, files.get(n)!])))]]);
}
