/**
 * Trains a convolutional network on handwritten digits: `deno task demo [--seed N] [--split writers] [--epochs N]`.
 *
 * The default split is a seeded permutation, 1,437 images to train on and 360 to test; `--split writers` tests on the
 * last 360 images, written by other people than the first 1,437. Test images choose nothing: no setting, no epoch.
 *
 * @module
 */
import { Device, GlobalCounters, jit, nn, state, Tensor } from "../mod.ts";
import { ConvNet, learningRate } from "./convnet_support.ts";
import { augment, confusionMatrix, drawDigits, gather, permutation, randomOf } from "./demo_support.ts";

const TRAIN = 1437, TEST = 360, BATCH = 64, PREDICT = 90, FILE = "digits.safetensors";
const WEIGHT_DECAY = 0.01, SMOOTHING = 0.1;
/** The share of epochs, at the end, that see the images as they are; the others see them distorted. */
const CLEAN = 0.15;

interface Options {
  readonly seed: number;
  readonly split: "random" | "writers";
  readonly epochs: number;
}

function parseOptions(args: readonly string[]): Options {
  let seed = 0, epochs = 40, split: Options["split"] = "random";
  for (let i = 0; i < args.length; i++) {
    const [name, inline] = args[i].split("=", 2);
    if (name === "--") continue;
    const value = inline ?? args[++i];
    const count = Number(value);
    if (name === "--seed" && Number.isInteger(count) && count >= 0) seed = count;
    else if (name === "--epochs" && Number.isInteger(count) && count > 0) epochs = count;
    else if (name === "--split" && (value === "writers" || value === "random")) split = value;
    else {
      console.error(`Cannot use ${args.join(" ")}: options are --seed N, --split writers|random, --epochs N`);
      Deno.exit(2);
    }
  }
  return { seed, split, epochs };
}

const showBar = Deno.stderr.isTerminal();
function progress(done: number, text: string): void {
  if (!showBar) return;
  const width = 30, full = Math.round(done * width);
  const line = `\r${"█".repeat(full)}${"░".repeat(width - full)} ${text}`;
  Deno.stderr.writeSync(new TextEncoder().encode(done >= 1 ? `\r${" ".repeat(line.length + 4)}\r` : line));
}

const { seed, split, epochs } = parseOptions(Deno.args);
const started = performance.now();
Tensor.manualSeed(seed);
const random = randomOf(seed);
const { pixels, digits, attribution } = await nn.datasets.digits();
const order = split === "writers" ? Array.from(digits.keys()) : permutation(digits.length, random);
const train = order.slice(0, TRAIN), test = order.slice(-TEST);
const device = (await Device.open(Device.default)).name;
console.log(`${attribution}\n`);
console.log(
  `device ${device}, seed ${seed}, split ${split}, ${epochs} epochs, ${TRAIN} images to train on, ${TEST} to test`,
);

const model = new ConvNet();
const optimizer = new nn.optim.AdamW(state.getParameters(model), { lr: 0, weightDecay: WEIGHT_DECAY });

const step = jit((x: Tensor, y: Tensor) =>
  Tensor.train(() => {
    optimizer.zeroGrad();
    const scores = model.call(x);
    const loss = scores.sparseCategoricalCrossentropy(y, { labelSmoothing: SMOOTHING }).backward();
    const right = scores.argmax(1).eq(y).sum();
    Tensor.realize([right, ...optimizer.scheduleStep()]);
    return [loss, right];
  })
);

/** The digits that `net` sees in the images `rows`, in batches. */
async function predict(net: ConvNet, rows: readonly number[]): Promise<number[]> {
  const forward = jit((x: Tensor) => net.call(x).argmax(1));
  const found: number[] = [];
  for (let i = 0; i < rows.length; i += PREDICT) {
    const part = rows.slice(i, i + PREDICT);
    const x = new Tensor(gather(pixels, part)).reshape([part.length, 1, 8, 8]);
    found.push(...Array.from(await forward(x).data(), Number));
  }
  return found;
}

const stepsPerEpoch = Math.floor(TRAIN / BATCH), steps = epochs * stepsPerEpoch;
const times: number[] = [];
let firstStepMs = 0, kernels = 0;
for (let epoch = 0; epoch < epochs; epoch++) {
  const rows = permutation(TRAIN, random).map((i) => train[i]);
  const seen = epoch < epochs * (1 - CLEAN) ? augment(pixels, rows, random) : gather(pixels, rows);
  const losses: Tensor[] = [], rights: Tensor[] = [], began = performance.now();
  for (let i = 0; i < stepsPerEpoch; i++) {
    const done = epoch * stepsPerEpoch + i;
    optimizer.setLr(learningRate(done / steps));
    const here = rows.slice(i * BATCH, (i + 1) * BATCH);
    const x = new Tensor(seen.slice(i * BATCH * 64, (i + 1) * BATCH * 64)).reshape([BATCH, 1, 8, 8]);
    const y = new Tensor(Int32Array.from(here, (row) => digits[row]));
    const before = GlobalCounters.kernelCount, at = performance.now();
    const [loss, right] = step(x.realize(), y.realize());
    kernels = GlobalCounters.kernelCount - before;
    losses.push(loss);
    rights.push(right);
    if (done === 0) {
      await Device.synchronize();
      firstStepMs = performance.now() - at;
    }
    progress((done + 1) / steps, `epoch ${epoch + 1}/${epochs}`);
  }
  // steps are queued one after the other, and read together: waiting for each would cost more than some steps
  const [meanLoss, sumRight] = [Tensor.stack(losses).mean(), Tensor.stack(rights).sum()];
  Tensor.realize([meanLoss, sumRight]);
  const loss = Number(await meanLoss.item()), right = Number(await sumRight.item());
  if (epoch > 0) times.push((performance.now() - began) / stepsPerEpoch);
  if (showBar) Deno.stderr.writeSync(new TextEncoder().encode(`\r${" ".repeat(70)}\r`));
  const accuracy = 100 * right / (stepsPerEpoch * BATCH);
  console.log(
    `epoch ${String(epoch + 1).padStart(2)}  loss ${loss.toFixed(4)}  train accuracy ${accuracy.toFixed(2)} %`,
  );
}
times.sort((a, b) => a - b);
console.log(
  `\n${kernels} kernels a step, ${(times[times.length >> 1] ?? firstStepMs).toFixed(2)} ms a step ` +
    `(first ${(firstStepMs / 1000).toFixed(2)} s with compiling), device ${device}`,
);

const predicted = await predict(model, test);
const truth = test.map((row) => digits[row]);
console.log(`\n${confusionMatrix(truth, predicted)}\n`);
const wrong = test.filter((_, i) => predicted[i] !== truth[i]).slice(0, 3);
const shown = [...wrong, ...test.filter((_, i) => predicted[i] === truth[i])].slice(0, 6);
console.log(
  drawDigits(pixels, shown, shown.map((row) => predicted[test.indexOf(row)]), shown.map((row) => digits[row])),
);

try {
  await state.safeSave(state.getStateDict(model), FILE, { metadata: { format: "dinograd", attribution } });
  const fresh = new ConvNet();
  state.loadStateDict(fresh, await state.safeLoad(FILE));
  const again = await predict(fresh, test);
  const equal = again.filter((digit, i) => digit === predicted[i]).length;
  console.log(`\nsaved ${FILE}, loaded it into a fresh model: ${equal} of ${TEST} predictions are equal`);
} catch (error) {
  if (!(error instanceof Deno.errors.NotCapable)) throw error;
  console.log(`\n${FILE} was not saved: ${error.message}`);
}
const right = predicted.filter((digit, i) => digit === truth[i]).length;
console.log(`${((performance.now() - started) / 1000).toFixed(1)} s in all`);
console.log(`test accuracy ${(100 * right / TEST).toFixed(2)} %`);
