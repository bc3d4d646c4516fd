/** Averages of weights beside PyTorch's AveragedModel, under jit, applied and put back; and nn.utils. */
import { assertAlmostEquals, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { ArgumentError, Device, jit, JitError, nn, ShapeError, state, Tensor } from "../../mod.ts";

Device.default = "JS"; // the host code is what is tested
Device.get();

const set = (t: Tensor, v: number) => Tensor.noGrad(() => t.assign(Tensor.full(t.shape, v).float()).realize());
const close = (got: number[], want: number[]) => got.forEach((x, i) => assertAlmostEquals(x, want[i], 1e-6));

// torch.optim.swa_utils.AveragedModel, its default and get_ema_multi_avg_fn(0.9), of weights 1, 2, 4, -3
for (
  const [name, make, want] of [
    ["mean", (m: unknown) => new nn.AveragedModel(m), [1, 1.5, 2.3333332538604736, 1]],
    ["EMA", (m: unknown) => new nn.EMA(m, { decay: 0.9 }), [
      1,
      1.100000023841858,
      1.3899999856948853,
      0.9509999752044678,
    ]],
    ["EMA with warmup", (m: unknown) => new nn.EMA(m, { decay: 0.9, warmup: true }), [
      1,
      1.818182,
      3.454545,
      -1.013986,
    ]],
  ] as const
) {
  Deno.test(`averages: ${name}, at once and under jit`, () => {
    for (const captured of [false, true]) {
      const model = new nn.Linear(1, 1, { bias: false }), average = make(model), got: number[] = [];
      const update = captured ? jit(() => average.update()) : () => average.update();
      for (const v of [1, 2, 4, -3]) {
        set(model.weight, v);
        update();
        got.push(average.average.weight.tolistSync<number[][]>()[0][0]);
      }
      close(got, [...want]);
      assertEquals(average.updates.tolistSync(), [4]);
    }
  });
}

Deno.test("averages: take the place of the weights, in captured functions, too, and are put back", async () => {
  const model = { a: new nn.Linear(1, 1, { bias: false }), norm: new nn.BatchNorm(2) },
    ema = new nn.EMA(model, { decay: 0.5 });
  set(model.a.weight, 2);
  ema.update();
  set(model.a.weight, 4);
  ema.update();
  const forward = jit((x: Tensor) => model.a.call(x)), x = Tensor.ones([1, 1]).realize();
  const now = () => forward(x).tolistSync<number[][]>()[0][0];
  assertEquals([now(), ema.use(now), now()], [4, 3, 4]);
  assertEquals(await ema.use(() => Promise.resolve().then(now)), 3);
  await assertRejects(() => ema.use(() => Promise.reject(new Error("x"))), Error, "x");
  assertThrows(
    () =>
      ema.use(() => {
        throw new Error("y");
      }),
    Error,
    "y",
  );
  ema.apply();
  ema.apply();
  assertThrows(() => ema.update(), ArgumentError, "restore() first");
  assertEquals(now(), 3);
  ema.restore();
  assertEquals([now(), model.a.weight.requiresGrad], [4, true]);
  const other = { a: new nn.Linear(1, 1, { bias: false }), norm: new nn.BatchNorm(2) };
  ema.copyTo(other);
  assertEquals(other.a.weight.tolistSync(), [[3]]);
  assertThrows(() => ema.copyTo({}), ArgumentError, "the model has no a.weight");
  assertThrows(() => new nn.EMA({}), ArgumentError, "there are no tensors in an object");
  assertThrows(() => new nn.EMA(model, { decay: 2 }), ArgumentError, "decay is 2, outside [0, 1]");
  const captured = jit(() => ema.apply());
  captured();
  assertThrows(() => captured(), JitError, "put averages in place of weights");
});

Deno.test("averages: a captured training step updates them, and a checkpoint has them", async () => {
  const train = (steps: number, saved?: Uint8Array) => {
    Tensor.manualSeed(1);
    const model = new nn.Linear(2, 1), optimizer = new nn.optim.SGD(state.getParameters(model), { lr: 0.1 });
    const ema = new nn.EMA(model, { decay: 0.8 });
    const step = jit((x: Tensor) =>
      Tensor.train(() => {
        optimizer.zeroGrad();
        const loss = model.call(x).sub(1).square().mean().backward();
        optimizer.step();
        ema.update();
        return loss;
      })
    );
    return { model, optimizer, ema, step, steps, saved };
  };
  const x = new Tensor([[1, 2], [0.5, -1]]), first = train(6);
  let bytes = new Uint8Array();
  for (let i = 0; i < 6; i++) {
    first.step(x);
    if (i === 2) {
      bytes = (await state.checkpointBytes({ model: first.model, ema: first.ema })) as Uint8Array<ArrayBuffer>;
    }
  }
  const second = train(3);
  await state.loadCheckpoint(bytes, { model: second.model, ema: second.ema });
  for (let i = 0; i < 3; i++) second.step(x);
  const values = (e: nn.EMA) => Object.values(e.average).map((t) => t.tolistSync());
  assertEquals(values(second.ema), values(first.ema));
});

Deno.test("averages: of float16 weights are float32, so that small steps count", () => {
  const w = new Tensor([1], { dtype: "float16", requiresGrad: true }), ema = new nn.EMA({ w }, { decay: 0.9999 });
  ema.update();
  Tensor.noGrad(() => w.assign(w.add(1)).realize());
  ema.update();
  assertEquals(ema.average.w.dtype.name, "float32");
  assertAlmostEquals(ema.average.w.tolistSync<number[]>()[0], 1.0001, 1e-6);
  assertEquals(ema.use(() => w.dtype.name), "float16");
});

Deno.test("utils: norms and clipping, also of one tensor and by a norm that is known", () => {
  const a = new Tensor([3, 0], { requiresGrad: true }), b = new Tensor([4], { requiresGrad: true });
  const fill = () => {
    a.grad = b.grad = undefined;
    a.square().div(2).sum().add(b.square().div(2).sum()).backward();
  };
  fill();
  close([nn.utils.getTotalNorm([a.grad!, b.grad!]).itemSync()], [5]);
  close([nn.utils.getTotalNorm([a.grad!, b.grad!], { normType: Infinity }).itemSync()], [4]);
  close([nn.utils.getTotalNorm([a.grad!, b.grad!], { normType: 1 }).itemSync()], [7]);
  close([nn.utils.clipGradNorm([a, b], 1).itemSync()], [5]);
  close([...a.grad!.tolistSync<number[]>(), ...b.grad!.tolistSync<number[]>()], [0.6, 0, 0.8]);
  fill();
  close([nn.utils.clipGradNorm(b, 1).itemSync()], [4]);
  fill();
  nn.utils.clipGradsWithNorm([a, b], 1, new Tensor(10.5));
  close(b.grad!.tolistSync<number[]>(), [4 / 10.5]);
  fill();
  nn.utils.clipGradValue(a, 0.5);
  assertEquals(a.grad!.tolistSync(), [0.5, 0]);
  assertThrows(() => nn.utils.getTotalNorm([]), ArgumentError, "there are none");
  assertThrows(
    () => nn.utils.clipGradNorm([a], -1),
    ArgumentError,
    "maxNorm is -1 and normType 2; both must be positive",
  );
});

Deno.test("utils: parameters as a vector, and sequences of several lengths", () => {
  const layer = new nn.Linear(2, 2), params = state.getParameters(layer);
  const vector = nn.utils.parametersToVector(params).mul(2).realize(), want = vector.tolistSync();
  nn.utils.vectorToParameters(vector, params);
  assertEquals(nn.utils.parametersToVector(params).tolistSync(), want);
  assertEquals(params.every((p) => p.requiresGrad === true), true);
  assertThrows(() => nn.utils.vectorToParameters(Tensor.zeros([5]), params), ShapeError, "they have 6 elements");
  const parts = [new Tensor([1, 2, 3]), new Tensor([4])];
  assertEquals(nn.utils.padSequence(parts).tolistSync(), [[1, 4], [2, 0], [3, 0]]);
  const padded = nn.utils.padSequence(parts, { batchFirst: true, paddingValue: -1 });
  assertEquals(padded.tolistSync(), [[1, 2, 3], [4, -1, -1]]);
  assertEquals(nn.utils.unpadSequence(padded, [3, 1], { batchFirst: true }).map((t) => t.tolistSync()), [[1, 2, 3], [
    4,
  ]]);
  assertThrows(() => nn.utils.padSequence([Tensor.zeros([2, 2]), Tensor.zeros([2, 3])]), ShapeError, "first axes");
  assertThrows(
    () => nn.utils.unpadSequence(padded, [4, 1], { batchFirst: true }),
    ArgumentError,
    "2 lengths of at most 3",
  );
  assertThrows(() => nn.utils.unpadSequence(padded, undefined as never), ArgumentError, "needed, not undefined");
});
