/**
 * A GPT by several processes: batches divided along "data", layers along "model", what the optimizer keeps along "data", too.
 *
 *     mpirun -n 4 deno run -A examples/train_gpt.ts text.txt --model 2 --out runs/gpt
 *     mpirun -n 2 deno run -A examples/train_gpt.ts text.txt --out runs/gpt --steps 2000   # goes on, with other ranks
 *
 * A run goes on from the last whole checkpoint in its folder, also on another number of ranks or another mesh, as after a
 * crash: the launcher ends all ranks when one dies, and starts them again. Batches follow from the seed and the step alone.
 *
 * Options: --model N ranks that a layer is divided among (1); the others of a batch; --steps N (200); --batch N texts of a
 * step (16); --context N bytes (64); --layers N (2); --heads N (4); --width N (64); --lr RATE (0.003); --every N steps
 * between checkpoints (50); --seed N; --out FOLDER (runs/gpt); --zero 1 or 2; --crash N ends rank 1 at that step, to try it.
 */
import { parseArgs } from "@std/cli/parse-args";
import { jit, nn, state, Tensor } from "../mod.ts";
import * as dist from "../src/dist/dist.ts";
import { Gpt } from "./gpt_support.ts";

const args = parseArgs(Deno.args, {
  string: [
    "model",
    "steps",
    "batch",
    "context",
    "layers",
    "heads",
    "width",
    "lr",
    "every",
    "seed",
    "out",
    "zero",
    "crash",
  ],
});
const number = (name: string, otherwise: number): number => Number(args[name] ?? otherwise);
const [path] = args._, out = args.out ?? "runs/gpt", seed = number("seed", 0), crash = number("crash", -1);
const steps = number("steps", 200), every = number("every", 50), batch = number("batch", 16);

await dist.init();
const { rank, size } = dist, inner = number("model", 1);
const say = (text: string): void => rank === 0 ? console.log(text) : undefined;
if (path === undefined || size % inner !== 0 || batch % (size / inner) !== 0) {
  say(
    "usage: train_gpt.ts TEXT.txt --out FOLDER --model N, which divides the ranks; the others divide --batch (see the file)",
  );
  Deno.exit(2);
}
const shape = {
  vocabulary: 256,
  context: number("context", 64),
  layers: number("layers", 2),
  heads: number("heads", 4),
  width: number("width", 64),
};

// ---- the same on all ranks: the text, the weights, and which texts a step takes
const bytes = await Deno.readFile(String(path)), axes = { data: size / inner, model: inner };
const mesh = size === 1 ? dist.Mesh.of(axes, { devices: [Tensor.empty([1]).device] }) : dist.Mesh.of(axes);
Tensor.manualSeed(seed);
const model = new Gpt(shape, mesh), zero = number("zero", 1) === 2 ? 2 : 1;
state.place(model, mesh, axes.data > 1 ? { shard: "data", zero } : {});
const parameters = state.getParameters(model);
const optimizer = new nn.optim.AdamW(parameters, { lr: number("lr", 0.003), weightDecay: 0.01 });

/** Texts of a step, with the bytes that come next. */
function texts(step: number): [tokens: Tensor, next: Tensor] {
  const rows = new Int32Array(batch * shape.context), next = new Int32Array(rows.length);
  let s = (seed * 1_000_003 + step * 7919 + 1) >>> 0;
  for (let b = 0; b < batch; b++) {
    s = (Math.imul(s, 1664525) + 1013904223) >>> 0;
    const from = Math.floor(s / 2 ** 32 * (bytes.length - shape.context - 1));
    for (let i = 0; i < shape.context; i++) {
      rows[b * shape.context + i] = bytes[from + i];
      next[b * shape.context + i] = bytes[from + i + 1];
    }
  }
  const put = (values: Int32Array) => new Tensor(values).reshape([batch, shape.context]).shard(mesh, ["data", null]);
  return [put(rows).realize(), put(next).realize()];
}

const train = jit((tokens: Tensor, next: Tensor) =>
  Tensor.train(() => {
    optimizer.zeroGrad();
    const loss = model.loss(tokens, next).backward();
    nn.utils.clipGradNorm(parameters, 1);
    Tensor.realize([loss, ...optimizer.scheduleStep()]);
    return loss;
  })
);

// ---- checkpoints: a folder each, named in `latest` once it is whole
const latest = `${out}/latest`;
/** The last whole checkpoint; undefined where there is none. */
async function lastStep(): Promise<number | undefined> {
  try {
    return Number(await Deno.readTextFile(latest));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}
async function save(step: number): Promise<void> {
  const folder = `${out}/step-${step}`;
  if (rank === 0) await Deno.mkdir(folder, { recursive: true });
  await dist.barrier();
  await state.distSave({ model, optimizer }, `${folder}/model.safetensors`);
  if (rank === 0) {
    await Deno.writeTextFile(`${latest}.new`, String(step));
    await Deno.rename(`${latest}.new`, latest);
  }
  await dist.barrier();
}

const first = await lastStep() ?? 0;
if (first > 0) await state.distLoad({ model, optimizer }, `${out}/step-${first}/model.safetensors`);
say(
  `${size} ranks, data ${axes.data} x model ${axes.model}, ${first > 0 ? `from step ${first}` : "from the beginning"}`,
);
for (let step = first; step < steps; step++) {
  if (step === crash && rank === size - 1) Deno.exit(3);
  const loss = await train(...texts(step)).item();
  if (step % 10 === 0 || step === steps - 1) say(`step ${step}  loss ${Number(loss).toFixed(4)}`);
  if ((step + 1) % every === 0 || step === steps - 1) await save(step + 1);
}
