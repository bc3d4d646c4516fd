/**
 * How long a user waits for the first step of a training program when nothing is cached:
 * `deno run -A bench/cold_start.ts [--device CLANG] [--only resnet18,gru] [--warm]`. Each program runs in a process of its
 * own with an empty cache folder, and prints a JSON line: `first_ms` is the first step (graph, schedule, compiling, running),
 * `second_ms` the second (captured by jit), `third_ms` the third (replayed); `schedule_ms`, `lower_ms` and `compile_ms` are
 * parts of the first; `cpu_ms` is processor time of the process, `compilers_ms` that of the compilers it started.
 * `--warm` adds a second process on the cache that the first one filled.
 *
 * @module
 */
import { Device, jit, nn, state, Tensor } from "../mod.ts";
import { compileStats } from "../src/engine/compile_cache.ts";
import { option } from "./json.ts";
import { type Layer, trainStep } from "./models.ts";

/** A residual block of ResNet-18: two 3x3 convolutions. */
class BasicBlock implements Layer {
  readonly conv1: nn.Conv2d;
  readonly bn1: nn.BatchNorm;
  readonly conv2: nn.Conv2d;
  readonly bn2: nn.BatchNorm;
  readonly downsample: readonly [nn.Conv2d, nn.BatchNorm] | undefined;

  constructor(from: number, to: number, stride: number) {
    this.conv1 = new nn.Conv2d(from, to, 3, { stride, padding: 1, bias: false });
    this.bn1 = new nn.BatchNorm(to);
    this.conv2 = new nn.Conv2d(to, to, 3, { padding: 1, bias: false });
    this.bn2 = new nn.BatchNorm(to);
    this.downsample = stride !== 1 || from !== to
      ? [new nn.Conv2d(from, to, 1, { stride, bias: false }), new nn.BatchNorm(to)]
      : undefined;
  }
  call(x: Tensor): Tensor {
    let y = this.bn1.call(this.conv1.call(x)).relu();
    y = this.bn2.call(this.conv2.call(y));
    const skip = this.downsample === undefined ? x : this.downsample[1].call(this.downsample[0].call(x));
    return y.add(skip).relu();
  }
}

/** ResNet-18 (He et al., arXiv 1512.03385) with the stem for small images. `[N, 1, 8, 8]` to `[N, 10]`. */
class ResNet18 implements Layer {
  readonly conv1: nn.Conv2d = new nn.Conv2d(1, 64, 3, { padding: 1, bias: false });
  readonly bn1: nn.BatchNorm = new nn.BatchNorm(64);
  readonly blocks: BasicBlock[] = [];
  readonly fc: nn.Linear = new nn.Linear(512, 10);

  constructor() {
    let from = 64;
    for (const [i, to] of [64, 128, 256, 512].entries()) {
      this.blocks.push(new BasicBlock(from, to, i === 0 ? 1 : 2), new BasicBlock(to, to, 1));
      from = to;
    }
  }
  call(x: Tensor): Tensor {
    x = this.bn1.call(this.conv1.call(x)).relu();
    for (const block of this.blocks) x = block.call(x);
    return this.fc.call(x.mean([2, 3]));
  }
}

/** A gated recurrent unit over 100 steps, and a linear layer on its last output. `[32, 100, 8]` to `[32, 10]`. */
class GruClassifier implements Layer {
  readonly gru: nn.GRU = new nn.GRU(8, 64, { batchFirst: true });
  readonly head: nn.Linear = new nn.Linear(64, 10);
  call(x: Tensor): Tensor {
    const [output] = this.gru.call(x);
    return this.head.call(output.at(":", -1));
  }
}

/** A program that trains. */
export interface Program {
  readonly model: () => Layer;
  /** A batch: inputs and labels. */
  readonly batch: () => Promise<[Tensor, Tensor]>;
}

/** The programs by name. */
export const PROGRAMS: Readonly<Record<string, Program>> = {
  resnet18: {
    model: () => new ResNet18(),
    batch: async () => {
      const { pixels, digits } = await nn.datasets.digits();
      return [
        new Tensor(Float32Array.from(pixels.subarray(0, 64 * 64), (p) => p / 16)).reshape([64, 1, 8, 8]),
        new Tensor(Int32Array.from(digits.subarray(0, 64))),
      ];
    },
  },
  gru: {
    model: () => new GruClassifier(),
    batch: () =>
      Promise.resolve([Tensor.randn([32, 100, 8]), new Tensor(Int32Array.from({ length: 32 }, (_, i) => i % 10))]),
  },
};

/** Processor time in milliseconds: of this process, and of those it has started and waited for. */
function processorMs(): [own: number, children: number] {
  try {
    const fields = Deno.readTextFileSync("/proc/self/stat").replace(/^.*\) /, "").split(" ").map(Number);
    const [user, system, childUser, childSystem] = fields.slice(11, 15); // in hundredths of a second
    return [10 * (user + system), 10 * (childUser + childSystem)];
  } catch {
    return [NaN, NaN];
  }
}

/** Runs one program and prints its line. */
async function measure(name: string, cache: string): Promise<void> {
  const program = PROGRAMS[name], model = program.model(), weights = state.getParameters(model);
  const optimizer = new nn.optim.Adam(weights, { lr: 1e-3 });
  const [x, y] = await program.batch();
  Tensor.realize([x, y, ...weights]); // initial values are kernels, too, and belong to the wait
  const step = jit((x: Tensor, y: Tensor) => trainStep(model, optimizer, x, y));
  const times: number[] = [], losses: number[] = [];
  const before = { ...compileStats };
  for (let i = 0; i < 3; i++) {
    const start = performance.now();
    losses.push(Number(await step(x, y).item()));
    times.push(performance.now() - start);
    if (i === 0) {
      Object.assign(before, {
        lowered: compileStats.lowered - before.lowered,
        lowerMs: compileStats.lowerMs - before.lowerMs,
        compileMs: compileStats.compileMs - before.compileMs,
      });
    }
  }
  if (!(losses[2] < losses[0])) throw new Error(`${name} does not learn: ${losses.join(", ")}`);
  const [own, compilers] = processorMs(), ms = (x: number): number => Math.round(x);
  console.log(JSON.stringify({
    program: name,
    device: Device.default,
    cache,
    first_ms: ms(times[0]),
    second_ms: ms(times[1]),
    third_ms: ms(times[2]),
    kernels: step.stats.kernels,
    unique: before.lowered,
    lower_ms: ms(before.lowerMs),
    compile_ms: ms(before.compileMs),
    cpu_ms: own,
    compilers_ms: compilers,
    total_ms: ms(performance.now()),
  }));
}

/** Runs one program in a process of its own. */
async function runFresh(name: string, device: string, folder: string, cache: string): Promise<boolean> {
  const { success } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", import.meta.url, "--measure", name, "--cache", cache],
    env: { CACHEDIR: folder, DEV: device },
    stdout: "inherit",
    stderr: "inherit",
  }).output();
  return success;
}

if (import.meta.main) {
  const args = Deno.args.filter((a) => a !== "--"), one = option(args, "measure");
  if (one !== undefined) await measure(one, option(args, "cache") ?? "cold");
  else {
    const names = (option(args, "only") ?? Object.keys(PROGRAMS).join(",")).split(",");
    const device = option(args, "device") ?? "CLANG";
    let good = true;
    for (const name of names) {
      const folder = Deno.makeTempDirSync({ prefix: "dinograd-cold-" });
      try {
        good = await runFresh(name, device, folder, "cold") && good;
        if (args.includes("--warm")) good = await runFresh(name, device, folder, "warm") && good;
      } finally {
        Deno.removeSync(folder, { recursive: true });
      }
    }
    if (!good) Deno.exit(1);
  }
}
