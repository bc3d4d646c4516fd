/**
 * A training loop with all that stands around it: batches of handwritten digits, mixed precision, an average of the weights,
 * clipped gradients, checkpoints, a progress bar, a log and learning curves.
 *
 *     deno run --allow-read --allow-write examples/train.ts --out runs/digits
 *     deno run --allow-read --allow-write examples/train.ts --out runs/digits --epochs 12 --resume
 *
 * Options: --epochs N (8), --out FOLDER (runs/digits), --resume goes on with the last checkpoint there, --autocast bfloat16
 * or float16 computes products in that, --seed N (0).
 */
import { autocast, jit, nn, state, Tensor } from "../mod.ts";
import { CSVLogger, plotCurves, progress } from "../src/train/train.ts";

function option(name: string, fallback: string): string {
  const at = Deno.args.indexOf(`--${name}`);
  return at < 0 ? fallback : Deno.args[at + 1] ?? fallback;
}
const epochs = Number(option("epochs", "8")), out = option("out", "runs/digits"), dtype = option("autocast", "");

class Net {
  readonly first = new nn.Linear(64, 96);
  readonly norm = new nn.LayerNorm(96);
  readonly second = new nn.Linear(96, 10);

  call(x: Tensor): Tensor {
    return this.second.call(this.norm.call(this.first.call(x)).gelu().dropout(0.2));
  }
}

Tensor.manualSeed(Number(option("seed", "0")));
const { images, labels, attribution } = await nn.datasets.digits();
const digits = new nn.data.TensorDataset(images.flatten(1).realize(), labels.realize());
const rows = Array.from({ length: digits.length }, (_, i) => i);
// the last 360 images are by other writers
const train = new nn.data.Subset(digits, rows.slice(0, -360)), test = new nn.data.Subset(digits, rows.slice(-360));

const model = new Net();
const optimizer = new nn.optim.AdamW(state.getParameters(model), { lr: 0.004 });
const schedule = new nn.optim.ExponentialLR(optimizer, { gamma: 0.9 });
const ema = new nn.EMA(model, { decay: 0.98, warmup: true });
const loader = new nn.data.DataLoader(train, { batchSize: 64, shuffle: true, dropLast: true });
const parts = { model, optimizer, schedule, ema, loader };

const mixed = <T>(fn: () => T): T => dtype === "" ? fn() : autocast({ dtype }, fn);
const scaler = new nn.optim.GradScaler({ initScale: dtype === "float16" ? 1024 : 1 });
const step = jit((x: Tensor, y: Tensor) =>
  Tensor.train(() => {
    optimizer.zeroGrad();
    const loss = mixed(() => model.call(x).crossEntropy(y, { labelSmoothing: 0.05 }));
    scaler.backward(loss);
    scaler.unscale(optimizer);
    nn.utils.clipGradNorm(optimizer.params, 1);
    scaler.step(optimizer);
    ema.update();
    return loss;
  })
);
const predict = jit((x: Tensor) => mixed(() => model.call(x)));

async function evaluate(): Promise<{ testLoss: number; accuracy: number }> {
  const accuracy = new nn.metrics.Accuracy(), loss = new nn.metrics.Mean();
  for await (const [x, y] of new nn.data.DataLoader(test, { batchSize: 120 })) {
    const scores = predict(x);
    accuracy.update(scores, y);
    loss.update(scores.float().crossEntropy(y));
  }
  return { testLoss: await loss.compute(), accuracy: await accuracy.compute() };
}

let history: Record<string, number>[] = [];
const last = Deno.args.includes("--resume") ? state.latestCheckpoint(out) : undefined;
if (last !== undefined) {
  const all = { ...parts, scaler };
  ({ history } = await state.loadCheckpoint<{ history: typeof history }>(last, all));
  console.log(`goes on from ${last}`);
} else console.log(attribution);

using log = new CSVLogger(`${out}/log.csv`, { append: last !== undefined });
for (let epoch = history.length + 1; epoch <= epochs; epoch++) {
  const mean = new nn.metrics.Mean(), bar = progress(loader, { label: `epoch ${epoch}` });
  let count = 0;
  for await (const [x, y] of bar) {
    const loss = step(x, y);
    mean.update(loss);
    if (count++ % 8 === 0) bar.set({ loss: await loss.item() });
  }
  schedule.step();
  const row = { epoch, loss: await mean.compute(), ...await ema.use(() => Tensor.noGrad(evaluate)) };
  history.push(row);
  log.log(row);
  const file = `${out}/epoch-${String(epoch).padStart(3, "0")}.safetensors`;
  await state.saveCheckpoint(file, { ...parts, scaler, history }, { keep: 2 });
  console.log(`epoch ${epoch}  loss ${row.loss.toFixed(4)}  test accuracy ${(100 * row.accuracy).toFixed(2)} %`);
}
const losses = history.map(({ epoch, loss, testLoss }) => ({ epoch, loss, testLoss }));
await Deno.writeTextFile(
  `${out}/curves.svg`,
  plotCurves(losses, { title: "digits", yLabel: "cross entropy", logY: true }),
);
console.log(`${out} has log.csv, curves.svg and the last checkpoints`);
