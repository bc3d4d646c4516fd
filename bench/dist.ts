/**
 * Several ranks: what collectives take among processes of this machine, by MPI, and what a step of GPTs takes on machines that
 * are not here, by simulation.
 *
 *     deno task bench:dist [--ranks N] [--most N] [--chart FILE.svg] [--cards N]
 *
 * The first table is measured: all-reduces of N (2) ranks on the processors of the host, or the device that DEV names. The second one is a model
 * (src/dist/simulate.ts): up to --most (10000) cards of 400 TFLOP/s and 3 TB/s, 8 a host by 450 GB/s, hosts by 50 GB/s, 5 us
 * for a message. --chart draws it. --cards measures 1, 2, 4 … N NVIDIA cards of this host instead (dist_cards.ts); `torchrun
 * --nproc-per-node N bench/dist_peers.py` is PyTorch's side.
 *
 * @module
 */
import { parseArgs } from "@std/cli/parse-args";
import { deviceOfRanks } from "../examples/demo_support.ts";
import { Gpt, type GptShape } from "../examples/gpt_support.ts";
import { nn, state, Tensor } from "../mod.ts";
import * as dist from "../src/dist/dist.ts";
import { measureCards } from "./dist_cards.ts";
import { plotCurves } from "../src/train/train.ts";

const args = parseArgs(Deno.args, { string: ["ranks", "most", "chart", "cards"], boolean: ["rank"] });
const SIZES = [1 << 10, 1 << 16, 1 << 20], REPEATS = 20;

/** One rank of the measured table: prints microseconds by size, the median and the least. */
async function measure(): Promise<void> {
  await dist.init();
  for (const nbytes of SIZES) {
    const t = Tensor.ones([nbytes / 4]).contiguous().realize(), times: number[] = [];
    for (let i = 0; i < REPEATS; i++) {
      await dist.barrier();
      const start = performance.now();
      await dist.allReduce(t);
      times.push(1e3 * (performance.now() - start));
    }
    times.sort((a, b) => a - b);
    if (dist.rank === 0) console.log(JSON.stringify({ nbytes, median: times[REPEATS / 2], least: times[0] }));
  }
}

async function measured(ranks: number): Promise<void> {
  console.log(`all-reduce of float32 among ${ranks} processes of this machine`);
  const env = { OMPI_ALLOW_RUN_AS_ROOT: "1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: "1", THREADS: "1", DEV: deviceOfRanks() };
  try {
    const { stdout: said } = await new Deno.Command("mpirun", { args: ["--version"] }).output();
    const extra = /Open MPI/.test(new TextDecoder().decode(said)) ? ["--oversubscribe"] : [];
    const program = new URL(import.meta.url).pathname;
    const list = [...extra, "-n", String(ranks), Deno.execPath(), "run", "-A", "--no-check", program, "--rank"];
    const { stdout, stderr, code } = await new Deno.Command("mpirun", { args: list, env, stdin: "null" }).output();
    if (code !== 0) throw new Error(new TextDecoder().decode(stderr));
    for (const line of new TextDecoder().decode(stdout).trim().split("\n")) {
      const { nbytes, median, least } = JSON.parse(line) as Record<string, number>;
      console.log(
        `  ${String(nbytes).padStart(8)} bytes  ${median.toFixed(1).padStart(9)} us, at best ${least.toFixed(1)}`,
      );
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    console.log("  not measured: there is no mpirun; install openmpi-bin or mpich (Debian)");
  }
}

/** Layers and width as those of GPT-2 and GPT-3 (Brown et al., arXiv 2005.14165, table 2.1), with few layers: the rest repeats. */
const GPTS: Readonly<Record<string, GptShape>> = {
  "GPT-2 XL, 2 of 48 layers": { vocabulary: 50304, context: 1024, layers: 2, heads: 32, width: 1600 },
  "GPT-3 6.7B, 2 of 32 layers": { vocabulary: 50304, context: 2048, layers: 2, heads: 32, width: 4096 },
};
const MACHINE = { bandwidth: { data: 50e9, model: 450e9 }, latency: 5e-6, flops: 4e14, memoryBandwidth: 3e12 };

function simulated(most: number): Record<string, [x: number, y: number][]> {
  const curves: Record<string, [number, number][]> = {};
  console.log("\na step of training, simulated: 8 cards a host divide the layers, hosts the batch (4 texts each)");
  for (const [name, shape] of Object.entries(GPTS)) {
    console.log(`  ${name}\n     cards    step ms  overlapped  of it moving  GB sent  GB of memory`);
    curves[name] = [];
    for (const cards of [8, 16, 64, 256, 1024, 4096, 10_000].filter((n) => n <= most)) {
      const got = dist.simulate({ ...MACHINE, ranks: { data: cards / 8, model: 8 } }, (mesh) => {
        const model = new Gpt(shape, mesh), rows = 4 * mesh.sizeOf("data");
        state.place(model, mesh, cards > 8 ? { shard: "data", zero: 1 } : {});
        const optimizer = new nn.optim.AdamW(state.getParameters(model));
        const tokens = Tensor.zeros([rows, shape.context], { dtype: "int32" }).shard(mesh, ["data", null]).realize();
        return () =>
          Tensor.train(() => {
            optimizer.zeroGrad();
            model.loss(tokens, tokens).backward();
            optimizer.step();
          });
      });
      const cells = [got.timeMs, got.overlappedMs, got.collectiveMs].map((ms) => ms.toFixed(1).padStart(10));
      const bytes = [got.trafficBytes, got.memoryBytes].map((n) => (n / 1e9).toFixed(2).padStart(9));
      console.log(`  ${String(cards).padStart(8)} ${[...cells, ...bytes].join("  ")}`);
      curves[name].push([Math.log2(cards), 100 * got.computeMs / got.overlappedMs]);
    }
  }
  return curves;
}

if (args.rank) await measure();
else if (args.cards !== undefined) {
  Deno.exit(await measureCards(Number(args.cards)));
} else {
  await measured(Number(args.ranks ?? 2));
  const curves = simulated(Number(args.most ?? 10_000));
  if (args.chart !== undefined) {
    const options = {
      title: "how much of a step cards compute, simulated",
      xLabel: "cards, as powers of 2",
      yLabel: "%",
    };
    await Deno.writeTextFile(args.chart, plotCurves(curves, options) + "\n");
    console.log(`\n${args.chart}`);
  }
}
