/**
 * How long the compiler itself takes, on the NULL device: `deno run -A bench/compile_bench.ts --json [--only a,b]`.
 * A JSON line a graph: `fresh_ms` in a fresh process, `warm_ms` again in that process with nothing cached (the median of
 * five), `cached_ms` where the schedule is known; `phases` are those of the fresh run. Weights exist before the clock
 * starts; from there on the graph is built, scheduled, and each unique kernel lowered to its linear form. `gpt2` is a
 * forward and backward pass. `--scaling` measures an MLP of 100 and of 200 layers, of which no two are alike, and adds a
 * line with the quotients of their times.
 *
 * @module
 */
import { toProgram } from "../src/codegen/to_program.ts";
import { clearScheduleCache, scheduleNodes } from "../src/schedule/schedule.ts";
import { Device, nn, state, Tensor } from "../mod.ts";
import { option } from "./json.ts";
import { Gpt2, MnistConvNet, ResNet50 } from "./models.ts";

/** A graph: inputs, made anew for each pass (an equal graph of equal nodes would be the realized one), and what is built on them. */
export interface Graph {
  readonly inputs: () => Tensor[];
  readonly build: (inputs: readonly Tensor[]) => Tensor[];
}

/** Replaces weights by memory that holds nothing: the clock is not about initial values. */
export function hollow(model: unknown): void {
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
    const weights = state.getParameters(model);
    return {
      inputs: () => [empty([1, 64], "int32"), empty([64], "int32")],
      build: ([tokens, next]) => {
        const loss = model.call(tokens).reshape([64, -1]).sparseCategoricalCrossentropy(next);
        return [loss, ...loss.gradient(weights)];
      },
    };
  },
  mlp100: () => deepMlp(100),
  mlp200: () => deepMlp(200),
};

/** Graphs that are measured unless others are asked for. */
const DEFAULT_GRAPHS: readonly string[] = ["resnet50", "mnistStep", "gpt2"];

/** `depth` layers, no two alike: each has a kernel of its own. Widths rise and fall, so that layers cost the same at any depth. */
function deepMlp(depth: number): Graph {
  const widths = Array.from({ length: depth + 1 }, (_, i) => 64 + Math.min(i, 200 - i));
  const layers = widths.slice(1).map((n, i) => new nn.Linear(widths[i], n));
  hollow(layers);
  return {
    inputs: () => [empty([32, widths[0]])],
    build: ([x]) => [layers.reduce((h, layer) => layer.call(h).relu(), x)],
  };
}

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
export function onePass(graph: Graph, lower: boolean): Pass {
  const inputs = graph.inputs();
  const renderer = Device.get("NULL").renderer;
  const start = performance.now();
  const tensors = graph.build(inputs);
  const built = performance.now();
  const items = scheduleNodes(tensors.map((t) => t.uop)).variant.items;
  const scheduled = performance.now();
  const asts = items.flatMap(({ kind, ast }) => kind === "kernel" ? [ast!] : []);
  let uops = 0, unique = 0;
  if (lower) {
    for (const ast of new Set(asts)) { // kernels that are alike are one node
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

/** What a line says. */
interface Result {
  readonly fresh_ms: number;
  readonly warm_ms: number;
  readonly cached_ms: number;
}

async function main(args: readonly string[]): Promise<number> {
  const one = option(args, "graph");
  if (one !== undefined) {
    console.log(measureGraph(one));
    return 0;
  }
  const scaling = args.includes("--scaling");
  const names = scaling ? ["mlp100", "mlp200"] : option(args, "only")?.split(",") ?? DEFAULT_GRAPHS;
  let failed = 0;
  const rows: Result[] = [];
  for (const name of names) {
    const { success, stdout } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", import.meta.filename!, "--graph", name],
      stdout: "piped",
      stderr: "inherit",
    }).output();
    const line = new TextDecoder().decode(stdout).trim();
    console.log(line);
    if (success) rows.push(JSON.parse(line));
    else failed++;
  }
  if (scaling && failed === 0) {
    const [small, large] = rows;
    const times = (key: "fresh_ms" | "warm_ms" | "cached_ms"): number => Number((large[key] / small[key]).toFixed(2));
    console.log(JSON.stringify({
      graph: "mlp200 / mlp100",
      fresh: times("fresh_ms"),
      warm: times("warm_ms"),
      cached: times("cached_ms"),
    }));
  }
  return failed === 0 ? 0 : 1;
}

if (import.meta.main) Deno.exit(await main(Deno.args.filter((a) => a !== "--")));
