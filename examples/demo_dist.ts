/**
 * The demo by several processes: each has a share of every batch, gradients are averaged by MPI.
 *
 *     deno task demo:dist [--ranks N] [--epochs N] [--seed N]
 *     mpirun -n 4 deno run -A examples/demo_dist.ts
 *
 * Started alone it starts itself N times (4) by the mpirun that is here, on its processors where DEV names no
 * device. Images and split are those of `deno task demo`.
 *
 * @module
 */
import { jit, nn, state, Tensor } from "../mod.ts";
import * as dist from "../src/dist/dist.ts";
import { ConvNet, learningRate } from "./convnet_support.ts";
import { augment, deviceOfRanks, gather, permutation, randomOf } from "./demo_support.ts";

const TRAIN = 1437, TEST = 360, BATCH = 64;
const WEIGHT_DECAY = 0.01, SMOOTHING = 0.1, CLEAN = 0.15;

function option(name: string, otherwise: number): number {
  const at = Deno.args.indexOf(`--${name}`), value = at < 0 ? otherwise : Number(Deno.args[at + 1]);
  if (Number.isInteger(value) && value >= 0) return value;
  console.error(`Cannot use ${Deno.args.join(" ")}: options are --ranks N, --epochs N, --seed N`);
  Deno.exit(2);
}
const seed = option("seed", 0), epochs = option("epochs", 40), ranks = option("ranks", 4);

/** Starts this program `ranks` times by mpirun, and ends with its code. */
async function start(): Promise<never> {
  const program = new URL(import.meta.url).pathname;
  const env = { OMPI_ALLOW_RUN_AS_ROOT: "1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: "1", DEV: deviceOfRanks() };
  try {
    const { stdout } = await new Deno.Command("mpirun", { args: ["--version"] }).output();
    const extra = /Open MPI/.test(new TextDecoder().decode(stdout)) ? ["--oversubscribe"] : [];
    const args = [...extra, "-n", String(ranks), Deno.execPath(), "run", "-A", "--no-check", program, ...Deno.args];
    const { code } = await new Deno.Command("mpirun", { args, env, stdin: "null" }).spawn().status;
    Deno.exit(code);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    console.log("nothing was trained: there is no mpirun; install openmpi-bin or mpich (Debian)");
    Deno.exit(0);
  }
}

await dist.init();
const isStarted = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"].some((name) => Deno.env.get(name) !== undefined);
if (!isStarted && ranks > 1) await start();
const { rank, size } = dist;
const say = (text: string): void => rank === 0 ? console.log(text) : undefined;
if (BATCH % size !== 0) {
  say(`Cannot divide batches of ${BATCH} images among ${size} ranks: take 1, 2, 4 or 8`);
  Deno.exit(2);
}

Tensor.manualSeed(seed); // the same weights on all ranks
const random = randomOf(seed), { pixels, digits, attribution } = await nn.datasets.digits();
const order = permutation(digits.length, random), train = order.slice(0, TRAIN), test = order.slice(-TEST);
const model = new ConvNet(), parameters = state.getParameters(model);
const optimizer = new nn.optim.AdamW(parameters, { lr: 0, weightDecay: WEIGHT_DECAY });
say(`${attribution}\n\n${size} ranks, seed ${seed}, ${epochs} epochs, ${TRAIN} images to train on, ${TEST} to test`);

/** The loss of this rank's share, how many were right, and the gradients. */
const learn = jit((x: Tensor, y: Tensor) =>
  Tensor.train(() => {
    optimizer.zeroGrad();
    const scores = model.call(x);
    const loss = scores.sparseCategoricalCrossentropy(y, { labelSmoothing: SMOOTHING }).backward();
    return [loss, scores.argmax(1).eq(y).sum(), ...parameters.map((p) => p.grad!)];
  })
);
const update = jit((...gradients: Tensor[]) =>
  Tensor.train(() => {
    parameters.forEach((p, i) => p.grad = gradients[i]);
    Tensor.realize(optimizer.scheduleStep());
  })
);

const share = BATCH / size, stepsPerEpoch = Math.floor(TRAIN / BATCH), steps = epochs * stepsPerEpoch;
for (let epoch = 0; epoch < epochs; epoch++) {
  const rows = permutation(TRAIN, random).map((i) => train[i]);
  const seen = epoch < epochs * (1 - CLEAN) ? augment(pixels, rows, random) : gather(pixels, rows);
  const losses: Tensor[] = [], rights: Tensor[] = [];
  for (let i = 0; i < stepsPerEpoch; i++) {
    optimizer.setLr(learningRate((epoch * stepsPerEpoch + i) / steps));
    const from = i * BATCH + rank * share, to = from + share;
    const x = new Tensor(seen.slice(from * 64, to * 64)).reshape([share, 1, 8, 8]);
    const y = new Tensor(Int32Array.from(rows.slice(from, to), (row) => digits[row]));
    const [loss, right, ...gradients] = learn(x.realize(), y.realize());
    parameters.forEach((p, k) => p.grad = gradients[k]);
    await dist.averageGradients(parameters);
    update(...parameters.map((p) => p.grad!));
    losses.push(loss);
    rights.push(right);
  }
  const loss = await dist.allReduce(Tensor.stack(losses).mean(), { op: "mean" });
  const right = await dist.allReduce(Tensor.stack(rights).sum());
  const accuracy = 100 * Number(await right.item()) / (stepsPerEpoch * BATCH);
  say(
    `epoch ${String(epoch + 1).padStart(2)}  loss ${Number(await loss.item()).toFixed(4)}  ` +
      `train accuracy ${accuracy.toFixed(2)} %`,
  );
}

// each rank has seen its own shares: the statistics of batch normalization become the mean of all
for (const norm of [model.norm1, model.norm2, model.norm3]) {
  for (const name of ["runningMean", "runningVar"] as const) {
    norm[name]!.assign(await dist.allReduce(norm[name]!, { op: "mean" })).realize();
  }
}
const mine = test.slice(Math.floor(rank * TEST / size), Math.floor((rank + 1) * TEST / size));
const x = new Tensor(gather(pixels, mine)).reshape([mine.length, 1, 8, 8]);
const truth = new Tensor(Int32Array.from(mine, (row) => digits[row]));
const right = await dist.allReduce(model.call(x).argmax(1).eq(truth).sum());
say(`test accuracy ${(100 * Number(await right.item()) / TEST).toFixed(2)} %`);
