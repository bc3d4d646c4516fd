/** Checkpoints: training that is stopped and gone on with is bit by bit the same; what is kept, and what is refused. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { ArgumentError, Device, FormatError, jit, nn, ShapeError, state, Tensor } from "../../mod.ts";
import { inFolder } from "../support/folder.ts";

Device.default = "JS"; // the host code is what is tested
Device.get();

/** All that a training loop is made of. */
function start() {
  const model = { a: new nn.Linear(4, 8), norm: new nn.BatchNorm(8), b: new nn.Linear(8, 2) };
  const optimizer = new nn.optim.AdamW(state.getParameters(model), { lr: 0.05 });
  const schedule = new nn.optim.CosineAnnealingLR(optimizer, { tMax: 12 });
  const scaler = new nn.optim.GradScaler({ initScale: 8, growthInterval: 3 });
  const x = Tensor.arange(48).reshape([12, 4]).div(48).realize(), y = Tensor.arange(12).mod(2).realize();
  const loader = new nn.data.DataLoader(new nn.data.TensorDataset(x, y), { batchSize: 4, shuffle: true });
  const step = jit((x: Tensor, y: Tensor) =>
    Tensor.train(() => {
      optimizer.zeroGrad();
      const hidden = model.norm.call(model.a.call(x)).relu().dropout(0.3);
      const loss = scaler.backward(model.b.call(hidden).crossEntropy(y));
      scaler.step(optimizer);
      return loss;
    })
  );
  return { parts: { model, optimizer, schedule, scaler, loader }, step };
}

/** Trains, and calls `after` each step; gives the losses. */
async function train(
  { parts, step }: ReturnType<typeof start>,
  steps: number,
  after: (n: number) => Promise<void> = async () => {},
): Promise<number[]> {
  const losses: number[] = [];
  while (losses.length < steps) {
    for await (const [x, y] of parts.loader) {
      losses.push(await step(x, y).item());
      parts.schedule.step();
      await after(losses.length);
      if (losses.length === steps) break;
    }
  }
  return losses;
}

Deno.test("checkpoint: goes on bit by bit, with dropout, shuffling, a schedule and a scaler, in mid-epoch", () =>
  inFolder(async (dir) => {
    Tensor.manualSeed(11);
    const path = (n: number) => `${dir}/step-${n}.safetensors`;
    const first = start(),
      losses = await train(first, 9, async (n) => {
        if (n === 4 || n === 6) {
          await state.saveCheckpoint(path(n), { ...first.parts, step: n, best: Infinity, names: ["a", { b: 1n }] });
        }
      });
    for (const from of [4, 6]) {
      Tensor.manualSeed(99);
      const second = start();
      const values = await state.loadCheckpoint<{ step: number }>(path(from), second.parts);
      assertEquals(values as unknown, { step: from, best: Infinity, names: ["a", { b: 1n }] });
      assertEquals(await train(second, 9 - values.step), losses.slice(from), `from step ${from}`);
    }
    assertEquals(state.latestCheckpoint(dir), path(6));
    const names = Object.keys(await state.safeLoad(path(4)));
    assert(names.includes("model.a.weight") && !names.some((n) => n.startsWith("optimizer.params")), "each once");
  }));

Deno.test("checkpoint: of many the newest are kept, and others in the folder stay", () =>
  inFolder(async (dir) => {
    const model = new nn.Linear(1, 1), names = () => [...Deno.readDirSync(dir)].map((e) => e.name).sort();
    await Deno.writeTextFile(`${dir}/notes-1.txt`, "x");
    await state.saveCheckpoint(`${dir}/other-1.safetensors`, { model });
    for (const n of [8, 9, 10, 11]) await state.saveCheckpoint(`${dir}/run-${n}.safetensors`, { model }, { keep: 2 });
    assertEquals(names(), ["notes-1.txt", "other-1.safetensors", "run-10.safetensors", "run-11.safetensors"]);
    await state.saveCheckpoint(`${dir}/run-3.safetensors`, { model }, { keep: 1 });
    assertEquals(names(), ["notes-1.txt", "other-1.safetensors", "run-3.safetensors"], "the one just written stays");
    assertEquals(state.latestCheckpoint(`${dir}/nowhere`), undefined);
    await assertRejects(
      () => state.saveCheckpoint(`${dir}/run.safetensors`, { model }, { keep: 2 }),
      ArgumentError,
      "the name must have a number",
    );
  }));

Deno.test("checkpoint: parts of one, bytes, and random draws only where wanted", async () => {
  const model = { a: new nn.Linear(2, 2) }, optimizer = new nn.optim.SGD(state.getParameters(model), { momentum: 0.9 });
  Tensor.manualSeed(5);
  const bytes = await state.checkpointBytes({ model, optimizer, lr: [0.5, -0, NaN] });
  const drawn = Tensor.rand([2]).tolistSync();
  const own = { a: new nn.Linear(2, 2) };
  const values = await state.loadCheckpoint(bytes, { model: own });
  assertEquals(values, { lr: [0.5, -0, NaN] });
  assertEquals(Tensor.rand([2]).tolistSync(), drawn);
  assertEquals(own.a.weight.tolistSync(), model.a.weight.tolistSync());
  const alone = new nn.optim.SGD(state.getParameters({ a: new nn.Linear(2, 2) }), { momentum: 0.9 });
  const before = Tensor.getRngState();
  await state.loadCheckpoint(bytes, { optimizer: alone }, { rng: false });
  assertEquals([Tensor.getRngState(), alone.params[0].tolistSync()], [before, model.a.weight.tolistSync()]);
  assertEquals(await state.loadCheckpoint(bytes), values);
});

Deno.test("checkpoint: what is refused, and then nothing has changed", () =>
  inFolder(async (dir) => {
    const model = new nn.Linear(2, 2), bytes = await state.checkpointBytes({ model, epoch: 1 });
    const other = { model: new nn.Linear(2, 3) }, before = Tensor.getRngState();
    await assertRejects(() => state.loadCheckpoint(bytes, other), ShapeError, "model.weight");
    await assertRejects(
      () => state.loadCheckpoint(bytes, { model, ema: model, epoch: 0 }),
      ArgumentError,
      "it has no ema, epoch; to load into it has model, and plain values are returned",
    );
    await assertRejects(
      () => state.loadCheckpoint(bytes, { model: [model] }),
      ArgumentError,
      "it lacks model.0.weight",
    );
    assertEquals(Tensor.getRngState(), before);
    const plain = await state.safeBytes(state.getStateDict(model));
    await assertRejects(() => state.loadCheckpoint(plain, { model }), FormatError, "it is no checkpoint");
    await assertRejects(() => state.loadCheckpoint(bytes.slice(0, 100), { model }), FormatError, "header");
    await assertRejects(() => state.loadCheckpoint(`${dir}/none.safetensors`, { model }), Error, "none.safetensors");
    await assertRejects(
      () => state.saveCheckpoint(`${dir}/a.safetensors`, { model, on: () => 1 }),
      ArgumentError,
      "on is a function, neither tensors nor a plain value",
    );
    await assertRejects(
      () => state.saveCheckpoint(`${dir}/no/such/a.safetensors`, { model }),
      FormatError,
      "no/such/a.safetensors",
    );
    assertEquals([...Deno.readDirSync(dir)], []);
    await assertRejects(
      () => state.saveCheckpoint(`${dir}/a`, [model] as never),
      ArgumentError,
      "{ model, optimizer, epoch }",
    );
  }));

Deno.test("checkpoints: damaged metadata and values that contain themselves are named errors", async () => {
  const ring: Record<string, unknown> = {}, list = [ring];
  ring.inner = list;
  await assertRejects(() => state.checkpointBytes({ ring }), ArgumentError, "ring.inner[0] contains itself");
  assertEquals(await state.loadCheckpoint(await state.checkpointBytes({ a: [1], b: [1] })), { a: [1], b: [1] });
  const whole = { trees: ["model"], values: {}, aliases: { "model.u": "model.none" }, rng: Tensor.getRngState() };
  for (
    const [checkpoint, text] of [
      ["{", "is damaged"],
      ["null", "is damaged"],
      ['{"trees":[1]}', "is damaged"],
      [JSON.stringify(whole), "model.u is model.none, which it lacks"],
    ]
  ) {
    const metadata = { format: "dinograd checkpoint", version: "1", checkpoint };
    const bytes = await state.safeBytes({ "model.w": Tensor.ones([2]) }, { metadata });
    await assertRejects(() => state.loadCheckpoint(bytes), FormatError, text);
  }
});
