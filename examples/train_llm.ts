/**
 * A language model from nothing: a tokenizer, a Llama, a training loop, and files that others read.
 *
 *     apt install bible-kjv && bible -f gen1:1-rev22:21 | sed 's/^[^ ]* //' > kjv.txt
 *     deno run -A examples/train_llm.ts kjv.txt --out runs/kjv --size 5m --steps 2000
 *     deno run -A examples/train_llm.ts kjv.txt --out runs/kjv --size 5m --steps 4000 --resume
 *     deno task chat runs/kjv/model.gguf --prompt "In the beginning"
 *
 * Options: --size tiny, 1m, 5m or 15m; --steps N (1000); --batch N texts of the context a step; --lr RATE (0.001);
 * --device D; --dtype bfloat16 or float32 of products (bfloat16 on CUDA); --every N steps between samples, evaluations
 * and checkpoints (100); --prompt TEXT of the samples; --seed N; --format F of model.gguf (F16; Q8_0, Q4_K_M ...).
 * The folder gets log.csv, curves.svg, checkpoints, model.gguf, and huggingface/ with safetensors.
 */
import { parseArgs } from "@std/cli/parse-args";
import { autocast, Device, type DTypeLike, jit, nn, state, Tensor, vmap } from "../mod.ts";
import {
  LanguageModel,
  type LlamaShape,
  type MixName,
  newLlama,
  quantizeModel,
  trainBpe,
  writeGguf,
  writeHfFolder,
} from "../src/llm/llm.ts";
import { CSVLogger, plotCurves } from "../src/train/train.ts";

/** Sizes, with the tokens of their vocabularies and the batch that suits them. */
const SIZES: Readonly<Record<string, LlamaShape & { readonly vocabulary: number; readonly batch: number }>> = {
  tiny: { layers: 1, dim: 32, heads: 2, context: 32, vocabulary: 300, batch: 4 },
  "1m": { layers: 4, dim: 128, heads: 4, kvHeads: 2, context: 128, vocabulary: 1024, batch: 16 },
  "5m": { layers: 6, dim: 256, heads: 8, kvHeads: 4, context: 256, vocabulary: 2048, batch: 32 },
  "15m": { layers: 8, dim: 384, heads: 8, kvHeads: 4, context: 256, vocabulary: 4096, batch: 64 },
};

const args = parseArgs(Deno.args, {
  string: ["out", "size", "steps", "batch", "lr", "device", "dtype", "every", "prompt", "seed", "format"],
  boolean: ["resume"],
});
const [path] = args._, out = args.out ?? "runs/llm", size = args.size ?? "1m";
if (path === undefined || SIZES[size] === undefined) {
  console.error(`usage: train_llm.ts TEXT.txt --out FOLDER --size ${Object.keys(SIZES).join("|")} (see the file)`);
  Deno.exit(2);
}
if (args.device !== undefined) Device.default = args.device;
const { vocabulary, batch: usual, ...shape } = SIZES[size], { context } = shape, device = Device.default;
const steps = Number(args.steps ?? 1000), every = Number(args.every ?? 100), batch = Number(args.batch ?? usual);
const dtype = (args.dtype ?? (device === "CUDA" ? "bfloat16" : "float32")) as DTypeLike;
Tensor.manualSeed(Number(args.seed ?? 0));

// ---- the text, its tokenizer, and a model
const text = await Deno.readTextFile(path);
const paragraphs = text.split(/\n(?=\n)/), tokenizer = trainBpe(paragraphs, { size: vocabulary });
const model = new LanguageModel(newLlama(shape, tokenizer, { name: `${size} of ${path}`, device }), "model.gguf", {
  device,
});
const { decoder } = model, ids = Int32Array.from(model.tokenizer.encode(text));
const held = Math.min(Math.floor(ids.length / 20), 64 * (context + 1)), known = ids.length - held;
const tokens = new Tensor(ids, { device }).realize();
console.log(
  `${text.length} characters, ${ids.length} tokens of ${decoder.vocabulary}; ${
    (decoder.parameters / 1e6).toFixed(2)
  } M parameters on ${device}, products in ${dtype}`,
);

// ---- a step, and an evaluation on the end of the text, which is never trained on
const weights = Object.fromEntries([...decoder.weights].map(([name, w]) => [name, w.memory]));
for (const w of Object.values(weights)) w.requiresGrad = true;
// norms and what is no matrix do not decay
const [matrices, rest] = [true, false].map((is) => Object.values(weights).filter((w) => (w.ndim > 1) === is));
const adam = { lr: Number(args.lr ?? 1e-3), b2: 0.95 };
const optimizer = new nn.optim.OptimizerGroup(
  new nn.optim.AdamW(matrices, { ...adam, weightDecay: 0.1 }),
  new nn.optim.AdamW(rest, { ...adam, weightDecay: 0 }),
);
const warmupSteps = Math.min(100, Math.ceil(steps / 10));
const schedule = new nn.optim.CosineAnnealingLR(optimizer, { tMax: Math.max(1, steps - warmupSteps), warmupSteps });
const forward = vmap((t: Tensor) => decoder.forward(t));

/** Cross entropy of the texts that begin at `starts` `[B]`. */
function lossOf(starts: Tensor): Tensor {
  const windows = tokens.at(starts.unsqueeze(1).add(Tensor.arange(context + 1, { dtype: "int32", device })));
  const x = windows.at(":", [0, context]), y = windows.at(":", [1, context + 1]);
  const logits = dtype === "float32" ? forward(x) : autocast({ dtype }, () => forward(x));
  return logits.cast("float32").reshape([-1, decoder.vocabulary]).crossEntropy(y.reshape([-1]));
}
const step = jit((starts: Tensor) =>
  Tensor.train(() => {
    optimizer.zeroGrad();
    const loss = lossOf(starts);
    loss.backward();
    nn.utils.clipGradNorm(Object.values(weights), 1);
    optimizer.step();
    return loss.detach();
  })
);
const measure = jit((starts: Tensor) => Tensor.noGrad(() => lossOf(starts)));
async function evaluate(): Promise<number> {
  const starts = Array.from({ length: Math.max(1, Math.floor((held - 1) / context)) }, (_, i) => known + i * context);
  const mean = new nn.metrics.Mean();
  for (let i = 0; i + batch <= Math.max(batch, starts.length); i += batch) {
    const some = Array.from({ length: batch }, (_, k) => starts[(i + k) % starts.length]);
    mean.update(measure(new Tensor(Int32Array.from(some), { device })));
  }
  return await mean.compute();
}

// ---- the loop
interface Row {
  readonly [column: string]: number;
  readonly step: number;
  readonly loss: number;
  readonly heldLoss: number;
}
const parts = { weights, optimizer, schedule };
let history: Row[] = [];
await Deno.mkdir(out, { recursive: true });
const last = args.resume ? state.latestCheckpoint(out) : undefined;
if (last !== undefined) {
  ({ history } = await state.loadCheckpoint<{ history: Row[] }>(last, parts));
  console.log(`goes on from ${last}`);
}
using log = new CSVLogger(`${out}/log.csv`, { append: last !== undefined });
let sum = 0, count = 0, began = performance.now();
for (let at = (history.at(-1)?.step ?? 0) + 1; at <= steps; at++) {
  const loss = step(Tensor.randint([batch], { low: 0, high: known - context - 1, dtype: "int32", device }).realize());
  schedule.step();
  if (at % 10 === 0 || at === steps) [sum, count] = [sum + await loss.item(), count + 1];
  if (at % every !== 0 && at !== steps) continue;
  const seconds = (performance.now() - began) / 1e3, heldLoss = await evaluate();
  const row: Row = {
    step: at,
    loss: sum / count,
    heldLoss,
    tokensPerSecond: Math.round(every * batch * context / seconds),
  };
  history.push(row);
  log.log(row);
  await state.saveCheckpoint(`${out}/step-${String(at).padStart(6, "0")}.safetensors`, { ...parts, history }, {
    keep: 2,
  });
  model.reset();
  const sample = await model.complete(args.prompt ?? "In the beginning", {
    maxTokens: Math.min(48, context - 16),
    temperature: 0.8,
    topP: 0.95,
    seed: at,
  });
  console.log(
    `step ${at}  loss ${row.loss.toFixed(3)}  held ${heldLoss.toFixed(3)}  ${row.tokensPerSecond} tokens/s: ${
      JSON.stringify(sample.text)
    }`,
  );
  [sum, count, began] = [0, 0, performance.now()];
}

// ---- what is left of it
const curves = history.map(({ step, loss, heldLoss }) => ({ step, loss, heldLoss }));
await Deno.writeTextFile(`${out}/curves.svg`, plotCurves(curves, { title: model.name, yLabel: "cross entropy" }));
await writeGguf(`${out}/model.gguf`, quantizeModel(decoder.file(), (args.format ?? "F16") as MixName));
await Deno.mkdir(`${out}/huggingface`, { recursive: true });
await writeHfFolder(`${out}/huggingface`, decoder.file());
console.log(`${out} has model.gguf, huggingface/, curves.svg, log.csv and the last checkpoints`);
