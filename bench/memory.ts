/**
 * What memory does: `deno run -A bench/memory.ts [--device D] [--only plans,naive,carried,scope,jit,reads] [--steps N]`.
 *
 * A JSON line each: for models, the bytes of a schedule's intermediates as planned, the least that any plan takes
 * (`bound`), and without a plan; for loops, each in a process of its own, live device bytes and resident memory at step
 * `from` (100) and at the end: what is left when all that is unreachable has been collected, `raw` as they stood before,
 * and the most that there were in between. Exits with 1 where what is left at the end is not within 10 % of that.
 *
 * @module
 */
import { settleMemory } from "../src/device/pressure.ts";
import { scheduleNodes } from "../src/schedule/schedule.ts";
import { internedCount } from "../src/uop/core/uop.ts";
import { Device, jit, nn, scope, state, Tensor } from "../mod.ts";
import { GRAPHS } from "./compile_bench.ts";
import { option } from "./json.ts";
import { Mlp, trainStep } from "./models.ts";

/** Bytes held on all devices. */
function live(): number {
  return Object.values(Device.memory()).reduce((n, m) => n + m.bytes, 0);
}

const BATCH = 32;

/** A training step of an MLP (784 to 512 to 10, Adam) on values of the host. */
function trainer(): () => Tensor {
  const model = new Mlp(), optimizer = new nn.optim.Adam(state.getParameters(model));
  const pixels = Float32Array.from({ length: BATCH * 784 }, (_, i) => (i * 7 % 251) / 251);
  const labels = Int32Array.from({ length: BATCH }, (_, i) => i % 10);
  return () => {
    const x = new Tensor(pixels).reshape([BATCH, 784]), y = new Tensor(labels);
    return trainStep(model, optimizer, x, y);
  };
}

/** A loop: how many steps, from which one on it must be flat (100 unless given: V8 warms up), and what makes a step. */
interface Loop {
  readonly steps: number;
  readonly from?: number;
  readonly make: () => () => unknown;
}

const LOOPS: Readonly<Record<string, Loop>> = {
  naive: {
    steps: 10_000,
    make: () => {
      const step = trainer();
      return () => step().item();
    },
  },
  carried: { // a state and a sum that each step builds on, realized and never detached
    steps: 3_000,
    make: () => {
      const w = Tensor.rand([64, 64]).mul(0.1), u = Tensor.rand([64, 64]).mul(0.1);
      const optimizer = new nn.optim.SGD([w, u], { lr: 1e-3 });
      let h = Tensor.zeros([8, 64]).clone(), total = Tensor.zeros([]).clone();
      return () =>
        Tensor.train(() => {
          optimizer.zeroGrad();
          h = h.matmul(w).add(Tensor.rand([8, 64]).matmul(u)).tanh();
          const loss = h.square().mean().backward();
          total = total.add(loss);
          Tensor.realize([loss, h, total]);
          optimizer.step();
          return total.item();
        });
    },
  },
  scope: {
    steps: 10_000,
    make: () => {
      const step = trainer();
      return () => scope(() => void step());
    },
  },
  jit: {
    steps: 1_000_000,
    from: 20_000,
    make: () => {
      const x = Tensor.rand([64]).realize(), w = Tensor.rand([64, 64]).realize();
      const step = jit((x: Tensor) => x.matmul(w).relu().sum());
      let i = 0;
      return () => {
        const y = step(x);
        return ++i % 10 === 0 ? y.item() : y;
      };
    },
  },
  reads: {
    steps: 2_000,
    make: () => () => Tensor.full([1 << 19], 1, { dtype: "float32" }).contiguous().add(1).contiguous().at(0).item(),
  },
};

interface Sample {
  readonly live: number;
  readonly rss: number;
  readonly rawLive: number;
  readonly rawRss: number;
  readonly nodes: number;
}

async function sample(): Promise<Sample> {
  const rawLive = live(), rawRss = Deno.memoryUsage().rss, nodes = internedCount();
  await settleMemory();
  return { live: live(), rss: Deno.memoryUsage().rss, rawLive, rawRss, nodes };
}

/** What lives until the process ends. */
const kept: unknown[] = [];

async function runLoop(name: string, device: string, steps: number): Promise<boolean> {
  Device.default = device;
  const { make, from = 100 } = LOOPS[name], step = make();
  kept.push(step);
  let first: Sample | undefined, mostLive = 0, mostRss = 0, ms = 0, start = performance.now();
  for (let i = 1; i <= steps; i++) {
    const value = step();
    if (value instanceof Promise) await value; // the others are one synchronous job between samples
    if (i % 50 === 0) {
      mostLive = Math.max(mostLive, live());
      mostRss = Math.max(mostRss, Deno.memoryUsage().rss);
    }
    if (i !== from) continue;
    first = await sample();
    start = performance.now();
  }
  ms = (performance.now() - start) / (steps - from);
  const last = await sample();
  const flat = last.live <= first!.live * 1.1 && last.rss <= first!.rss * 1.1;
  console.log(JSON.stringify({
    name: `loop_${name}`,
    device,
    steps,
    from,
    ms_step: Number(ms.toFixed(4)),
    live_from: first!.live,
    live_end: last.live,
    live_raw: [first!.rawLive, last.rawLive],
    live_max: mostLive,
    rss_from: first!.rss,
    rss_end: last.rss,
    rss_raw: [first!.rawRss, last.rawRss],
    rss_max: mostRss,
    nodes: [first!.nodes, last.nodes],
    flat,
  }));
  return flat;
}

/** What the intermediates of a schedule take. */
export interface PlanSummary {
  readonly intermediates: number;
  readonly blocks: number;
  /** Bytes of the blocks, the most that is in use at a time, and what a buffer for each would take. */
  readonly planned: number;
  readonly bound: number;
  readonly unplanned: number;
}

/** The plan for one of {@linkcode GRAPHS}, on the NULL device. */
export function planOf(name: string): PlanSummary {
  Device.default = "NULL";
  const graph = GRAPHS[name]();
  const { variant: { plan, entries } } = scheduleNodes(graph.build(graph.inputs()).map((t) => t.uop));
  const each = entries.flatMap(({ size, dtype }, e) => plan.places[e] === undefined ? [] : [size * dtype.itemsize]);
  return {
    intermediates: each.length,
    blocks: plan.blocks.length,
    planned: plan.blocks.reduce((n, b) => n + b.nbytes, 0),
    bound: plan.boundBytes,
    unplanned: each.reduce((a, b) => a + b, 0),
  };
}

/** The intermediates of models' schedules, planned and each for itself. */
function plans(): void {
  for (const name of Object.keys(GRAPHS)) {
    const plan = planOf(name), over = Number((plan.planned / plan.bound).toFixed(4));
    console.log(JSON.stringify({ name: `plan_${name}`, ...plan, planned_over_bound: over }));
  }
}

async function main(args: readonly string[]): Promise<number> {
  const device = option(args, "device") ?? Device.default, one = option(args, "loop");
  const count = option(args, "steps");
  if (one !== undefined) return await runLoop(one, device, Number(count ?? LOOPS[one].steps)) ? 0 : 1;
  const names = option(args, "only")?.split(",") ?? ["plans", ...Object.keys(LOOPS)];
  let failed = 0;
  for (const name of names) {
    if (name === "plans") {
      plans();
      continue;
    }
    if (LOOPS[name] === undefined) throw new Error(`no ${name}; known are plans, ${Object.keys(LOOPS).join(", ")}`);
    const more = count === undefined ? [] : ["--steps", count];
    const { success } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", import.meta.filename!, "--loop", name, "--device", device, ...more],
      stdout: "inherit",
      stderr: "inherit",
    }).output();
    if (!success) failed++;
  }
  return failed === 0 ? 0 : 1;
}

if (import.meta.main) Deno.exit(await main(Deno.args.filter((a) => a !== "--")));
