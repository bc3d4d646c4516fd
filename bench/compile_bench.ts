/**
 * How long the compiler itself takes, on the NULL device: `deno run -A bench/compile_bench.ts --json [--only a,b]`.
 * A JSON line a graph: `fresh_ms` in a fresh process, `warm_ms` again in that process with nothing cached (the median of
 * five), `cached_ms` where the schedule is known; `phases` are those of the fresh run. Weights exist before the clock
 * starts; from there on the graph is built, scheduled, and each unique kernel lowered to its linear form.
 *
 * @module
 */
import { toProgram } from "../src/codegen/to_program.ts";
import { type GraphKey, graphKey, sameKey } from "../src/schedule/key.ts";
import { clearScheduleCache, scheduleNodes } from "../src/schedule/schedule.ts";
import type { UOp } from "../src/uop/uop.ts";
import { Device, nn, state, Tensor } from "../mod.ts";
import { option } from "./json.ts";
import { Gpt2, MnistConvNet, ResNet50 } from "./models.ts";

/** A graph: inputs, made anew for each pass (an equal graph of equal nodes would be the realized one), and what is built on them. */
export interface Graph {
  readonly inputs: () => Tensor[];
  readonly build: (inputs: readonly Tensor[]) => Tensor[];
}

/** Replaces weights by memory that holds nothing: the clock is not about initial values. */
function hollow(model: unknown): void {
  for (const t of state.getParameters(model)) t.replace(Tensor.empty(t.shape, { dtype: t.dtype }).realize());
}

function empty(shape: number[], dtype = "float32"): Tensor {
  return Tensor.empty(shape, { dtype }).realize();
}

/** The graphs by name; each makes its model first. */
export const GRAPHS: Readonly<Record<string, () => Graph>> = {
  resnet50: () => {
    const model = new ResNet50();
    hollow(model);
    return { inputs: () => [empty([64, 3, 224, 224])], build: ([x]) => [model.call(x)] };
  },
  mnistStep: () => {
    const model = new MnistConvNet();
    hollow(model);
    const optimizer = new nn.optim.Adam(state.getParameters(model));
    return {
      inputs: () => [empty([128, 1, 28, 28]), empty([128], "int32")],
      build: ([x, y]) =>
        Tensor.train(() => {
          optimizer.zeroGrad();
          model.call(x).sparseCategoricalCrossentropy(y).backward();
          return optimizer.scheduleStep();
        }),
    };
  },
  gpt2: () => {
    const model = new Gpt2();
    hollow(model);
    return { inputs: () => [empty([1, 64], "int32")], build: ([tokens]) => [model.call(tokens)] };
  },
};

interface Pass {
  readonly buildMs: number;
  readonly scheduleMs: number;
  readonly lowerMs: number;
  readonly totalMs: number;
  readonly kernels: number;
  readonly unique: number;
  readonly uops: number;
}

/** Builds, schedules and lowers once; then, off the clock, runs it (which launches nothing), so that steps do not pile up. */
function onePass(graph: Graph, lower: boolean): Pass {
  const inputs = graph.inputs();
  const renderer = Device.get("NULL").renderer;
  const start = performance.now();
  const tensors = graph.build(inputs);
  const built = performance.now();
  const items = scheduleNodes(tensors.map((t) => t.uop)).items;
  const scheduled = performance.now();
  const asts = items.flatMap(({ template }) => template.kind === "kernel" ? [template.ast!] : []);
  let uops = 0, unique = 0;
  if (lower) {
    for (const ast of distinct(asts)) {
      uops += toProgram(ast, renderer).uops.length;
      unique++;
    }
  }
  const end = performance.now();
  Tensor.realize(tensors);
  return {
    buildMs: built - start,
    scheduleMs: scheduled - built,
    lowerMs: end - scheduled,
    totalMs: end - start,
    kernels: asts.length,
    unique,
    uops,
  };
}

/** Kernels of different structure. */
function distinct(asts: readonly UOp[]): UOp[] {
  const seen = new Map<number, GraphKey[]>(), out: UOp[] = [];
  for (const ast of asts) {
    const key = graphKey([ast], [], true), bucket = seen.get(key.hash) ?? [];
    if (bucket.some((k) => sameKey(k, key))) continue;
    seen.set(key.hash, [...bucket, key]);
    out.push(ast);
  }
  return out;
}

function measureGraph(name: string): string {
  Device.default = "NULL";
  const make = GRAPHS[name];
  if (make === undefined) throw new Error(`no graph ${name}; known are ${Object.keys(GRAPHS).join(", ")}`);
  const graph = make();
  const fresh = onePass(graph, true);
  const warm: number[] = [], cached: number[] = [];
  for (let i = 0; i < 5; i++) {
    clearScheduleCache();
    warm.push(onePass(graph, true).totalMs);
  }
  for (let i = 0; i < 7; i++) cached.push(onePass(graph, false).totalMs);
  const median = (xs: number[]) => xs.sort((a, b) => a - b)[xs.length >> 1];
  const round = (x: number) => Number(x.toFixed(2));
  return JSON.stringify({
    graph: name,
    fresh_ms: round(fresh.totalMs),
    warm_ms: round(median(warm)),
    cached_ms: round(median(cached)),
    kernels: fresh.kernels,
    unique: fresh.unique,
    uops: fresh.uops,
    phases: { build: round(fresh.buildMs), schedule: round(fresh.scheduleMs), lower: round(fresh.lowerMs) },
  });
}

async function main(args: readonly string[]): Promise<number> {
  const one = option(args, "graph");
  if (one !== undefined) {
    console.log(measureGraph(one));
    return 0;
  }
  const names = option(args, "only")?.split(",") ?? Object.keys(GRAPHS);
  let failed = 0;
  for (const name of names) {
    const { success } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", import.meta.filename!, "--graph", name],
      stdout: "inherit",
      stderr: "inherit",
    }).output();
    if (!success) failed++;
  }
  return failed === 0 ? 0 : 1;
}

if (import.meta.main) Deno.exit(await main(Deno.args.filter((a) => a !== "--")));
