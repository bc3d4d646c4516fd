/** Resuming: a saved state goes on as if nothing had happened, for each schedule with each optimizer. @module */
import assert from "node:assert/strict";
import { ArgumentError, jit, JitError, nn, scope, state, Tensor } from "../../mod.ts";
import { fill } from "./support.ts";

const { optim } = nn;
type Driven = nn.optim.Optimizer | nn.optim.OptimizerGroup;
type Schedule = { step(metric?: number): void; lastEpoch?: number };

const OPTIMIZERS: Readonly<Record<string, (w: Tensor, b: Tensor) => Driven>> = {
  SGD: (w, b) => new optim.SGD([w, b], { lr: 0.1, momentum: 0.9 }),
  Adam: (w, b) => new optim.Adam([w, b], { lr: 0.1 }),
  AdamW: (w, b) => new optim.AdamW([w, b], { lr: 0.1, fused: true }),
  Adadelta: (w, b) => new optim.Adadelta([w, b]),
  Rprop: (w, b) => new optim.Rprop([w, b], { lr: 0.1 }),
  NAdam: (w, b) => new optim.NAdam([w, b], { lr: 0.1 }),
  RAdam: (w, b) => new optim.RAdam([w, b], { lr: 0.1, b2: 0.8 }),
  Adamax: (w, b) => new optim.Adamax([w, b], { lr: 0.1 }),
  ASGD: (w, b) => new optim.ASGD([w, b], { lr: 0.1, lambd: 0.1, t0: 1 }),
  Adafactor: (w, b) => new optim.Adafactor([w, b]),
  LAMB: (w, b) => new optim.LAMB([w, b], { lr: 0.1 }),
  LARS: (w, b) => new optim.LARS([w, b], { lr: 0.1 }),
  Muon: (w) => new optim.Muon([w], { lr: 0.1 }),
  group: (w, b) => new optim.OptimizerGroup(new optim.Adam([w], { lr: 0.1 }), new optim.SGD([b], { lr: 0.3 })),
};
const SCHEDULES: Readonly<Record<string, (o: Driven) => Schedule>> = {
  LambdaLR: (o) => new optim.LambdaLR(o, (t) => 1 / (t + 1)),
  StepLR: (o) => new optim.StepLR(o, { stepSize: 2 }),
  MultiStepLR: (o) => new optim.MultiStepLR(o, { milestones: [2, 5] }),
  ExponentialLR: (o) => new optim.ExponentialLR(o, { gamma: 0.7 }),
  LinearLR: (o) => new optim.LinearLR(o, { totalIters: 7 }),
  PolynomialLR: (o) => new optim.PolynomialLR(o, { totalIters: 8, power: 2 }),
  CosineAnnealingLR: (o) => new optim.CosineAnnealingLR(o, { tMax: 3, warmupSteps: 2 }),
  CosineAnnealingWarmRestarts: (o) => new optim.CosineAnnealingWarmRestarts(o, { t0: 2, tMult: 2 }),
  CyclicLR: (o) => new optim.CyclicLR(o, { baseLr: 0.1, maxLr: 0.5, stepSizeUp: 3 }),
  SequentialLR: (o) => {
    const schedulers = [new optim.ConstantLR(o, { totalIters: 3 }), new optim.ExponentialLR(o, { gamma: 0.7 })];
    return new optim.SequentialLR(o, { schedulers, milestones: [3] });
  },
  ChainedScheduler: (o) => {
    const schedulers = [new optim.ConstantLR(o, { totalIters: 3 }), new optim.ExponentialLR(o, { gamma: 0.7 })];
    return new optim.ChainedScheduler(o, { schedulers });
  },
  PolynomialDecayWithWarmup: (o) => new optim.PolynomialDecayWithWarmup(o, { totalSteps: 9, warmupSteps: 2 }),
  OneCycleLR: (o) => new optim.OneCycleLR(o, { maxLr: 0.5, totalSteps: 9 }),
  ReduceLROnPlateau: (o) =>
    new optim.ReduceLROnPlateau(o, { factor: 0.5, patience: 1, cooldown: 1, threshold: 0.5 }) as Schedule,
  LRSchedulerGroup: (o) => new optim.LRSchedulerGroup(new optim.StepLR(o, { stepSize: 3 })),
};

/** A model, its optimizer and its schedule, made anew; `run(n)` gives the losses of n steps. */
function training(makeOptimizer: (w: Tensor, b: Tensor) => Driven, makeSchedule: (o: Driven) => Schedule) {
  const w = fill([3, 2], 0.37, 0.2, 0.1), b = fill([2], 0.3, 0.4);
  w.requiresGrad = b.requiresGrad = true;
  const optimizer = makeOptimizer(w, b), schedule = makeSchedule(optimizer), x = fill([4, 3], 0.53, 0.1).realize();
  const run = (steps: number): number[] =>
    Array.from({ length: steps }, () => {
      const loss = Tensor.train(() => {
        optimizer.zeroGrad();
        const loss = x.matmul(w).add(b).tanh().sub(0.3).square().mean().backward();
        optimizer.step();
        return loss;
      });
      const value = Number(loss.itemSync());
      schedule.step(value);
      return value;
    });
  return { all: { net: { w, b }, optimizer, schedule }, schedule, run };
}

for (const [optimizer, makeOptimizer] of Object.entries(OPTIMIZERS)) {
  for (const [schedule, makeSchedule] of Object.entries(SCHEDULES)) {
    Deno.test(`resume: ${schedule} of ${optimizer} goes on bit by bit, also from bytes`, async () => {
      const first = training(makeOptimizer, makeSchedule), losses = first.run(3);
      assert.ok(losses.every(Number.isFinite));
      const bytes = await state.safeBytes(state.getStateDict(first.all)), want = first.run(3);
      const second = training(makeOptimizer, makeSchedule);
      if (schedule === "StepLR") second.run(1); // what was done before is forgotten
      state.loadStateDict(second.all, state.safeParse(bytes));
      assert.deepEqual(second.run(3), want);
      assert.equal(second.schedule.lastEpoch, first.schedule.lastEpoch);
    });
  }
}

function driven(): { w: Tensor; optimizer: nn.optim.SGD } {
  const w = Tensor.zeros([1], { requiresGrad: true });
  return { w, optimizer: new optim.SGD([w], { lr: 0.5 }) };
}

Deno.test("resume: a state dictionary has what a schedule counts by name, and the optimizer once", () => {
  const { optimizer } = driven(), plateau = new optim.ReduceLROnPlateau(optimizer);
  const scaler = new optim.GradScaler(), schedule = new optim.StepLR(optimizer, { stepSize: 2 });
  assert.deepEqual(Object.keys(state.getStateDict({ optimizer, schedule, scaler })), [
    ...["params.0", "lr"].map((name) => `optimizer.${name}`),
    ...["lastEpoch", "baseLrs", "lastLr"].map((name) => `schedule.${name}`),
    ...["scaleFactor", "growthTracker"].map((name) => `scaler.${name}`),
  ]);
  assert.deepEqual(Object.keys(state.getStateDict(plateau)), [
    ...["lastEpoch", "baseLrs", "lastLr", "best", "bad", "resting"],
  ]);
});

Deno.test("resume: counters are those of the moment of saving, and survive a scope; a list of names stays live", () => {
  const { optimizer } = driven(), schedule = new optim.ExponentialLR(optimizer, { gamma: 0.1 });
  const dict = state.getStateDict(schedule);
  for (let i = 0; i < 3; i++) scope(() => schedule.step());
  assert.equal(dict.lastEpoch.itemSync(), 3);
  assert.deepEqual([schedule.lastEpoch, schedule.lastLr, optimizer.getLr()], [3, [0.5 * 0.1 ** 3], 0.5 * 0.1 ** 3]);
  const copy = new optim.ExponentialLR(driven().optimizer, { gamma: 0.1 });
  state.loadStateDict(copy, dict);
  scope(() => schedule.step());
  assert.deepEqual([schedule.lastEpoch, copy.lastEpoch], [4, 3]);
  copy.lastEpoch = 7;
  assert.equal(state.getStateDict(copy).lastEpoch.itemSync(), 7);
  assert.throws(() => copy.lastEpoch = -1, ArgumentError);
});

Deno.test("resume: a learning rate that was loaded or assigned is the one that is read", () => {
  const { optimizer } = driven(), other = driven().optimizer;
  optimizer.setLr(0.25);
  state.loadStateDict(other, state.getStateDict(optimizer));
  assert.equal(other.getLr(), 0.25);
  other.lr.assign([0.125]);
  assert.equal(other.getLr(), 0.125);
});

Deno.test("resume: what a schedule or scaler counts is no weight to train", () => {
  const { w, optimizer } = driven(), schedule = new optim.ReduceLROnPlateau(optimizer);
  schedule.step(1);
  const all = state.getParameters({ w, schedule, scaler: new optim.GradScaler() });
  assert.deepEqual(new optim.SGD(all).params, [w]);
});

Deno.test("resume: a step captured before loading goes on with what was loaded", async () => {
  const make = () => {
    const w = new Tensor([1.5, 2], { requiresGrad: true }), optimizer = new optim.Adam([w], { lr: 0.1 });
    const schedule = new optim.ExponentialLR(optimizer, { gamma: 0.5 });
    const step = jit(() =>
      Tensor.train(() => {
        optimizer.zeroGrad();
        const loss = w.square().sum().backward();
        optimizer.step();
        return loss;
      })
    );
    const run = (steps: number) =>
      Array.from({ length: steps }, () => {
        const loss = Number(step().itemSync());
        schedule.step();
        return loss;
      });
    return { all: { w, optimizer, schedule }, run };
  };
  const first = make(), second = make();
  first.run(4);
  second.run(3);
  const bytes = await state.safeBytes(state.getStateDict(first.all));
  state.loadStateDict(second.all, state.safeParse(bytes));
  assert.deepEqual(second.run(3), first.run(3));
});

Deno.test("resume: a schedule refuses to step inside a captured function", () => {
  const schedule = new optim.StepLR(driven().optimizer, { stepSize: 5 });
  const inside = jit((x: Tensor) => {
    schedule.step();
    return x.add(1);
  });
  inside(new Tensor([1]));
  assert.throws(() => inside(new Tensor([1])), /Cannot step StepLR: a function under jit\(\) would keep/);
});

Deno.test("resume: a scaler goes on scaling where it was", async () => {
  const make = () => {
    const { w, optimizer } = driven(), scaler = new optim.GradScaler({ initScale: 8, growthInterval: 3 });
    const run = () =>
      Tensor.train(() => {
        optimizer.zeroGrad();
        scaler.backward(w.mul(3).sum());
        scaler.step(optimizer);
        return [scaler.scaleFactor, scaler.growthTracker].map((t) => Number(t.itemSync()));
      });
    return { all: { w, optimizer, scaler }, run };
  };
  const first = make(), second = make();
  first.run();
  first.run();
  state.loadStateDict(second.all, state.safeParse(await state.safeBytes(state.getStateDict(first.all))));
  assert.deepEqual([second.run(), second.run()], [[16, 0], [16, 1]]);
});

Deno.test("optim: lr takes a number or a tensor, also beside a captured step", async () => {
  const { w, optimizer } = driven();
  const step = jit((x: Tensor) =>
    Tensor.train(() => {
      optimizer.zeroGrad();
      w.mul(x).sum().backward();
      optimizer.step();
    })
  );
  let want = 0;
  const kept = optimizer.lr;
  for (const lr of [0.5, 0.25, new Tensor([2]), new Tensor(4, { dtype: "int32" }), new Tensor([[0.5]]), 0]) {
    optimizer.lr = lr;
    step(new Tensor([-1], { dtype: "float32" }).realize());
    const value = lr instanceof Tensor ? Number(await lr.item()) : lr;
    assert.equal(await w.item(), want += value);
    assert.equal(optimizer.getLr(), value);
  }
  assert.equal(optimizer.lr, kept);
  for (const bad of [-1, NaN, "0.1", undefined, new Tensor([1, 2])]) {
    assert.throws(() => optimizer.lr = bad as number, ArgumentError);
  }
  const inside = jit((x: Tensor) => {
    optimizer.lr = 1;
    return x.add(1);
  });
  inside(new Tensor([1]));
  assert.throws(() => inside(new Tensor([1])), JitError);
});

Deno.test("optim: the numbers of a rule may be set until a step is captured", async () => {
  const { w, optimizer } = driven();
  const step = () =>
    Tensor.train(() => {
      optimizer.zeroGrad();
      w.sum().backward();
      optimizer.step();
    });
  step();
  assert.equal(await w.item(), -0.5);
  optimizer.momentum = 0.5;
  step();
  step();
  assert.equal(await w.item(), -0.5 - 0.5 - 0.75);
  optimizer.momentum = 0;
  optimizer.weightDecay = 1;
  step();
  assert.equal(await w.item(), -1.75 - 0.5 * (1 - 1.75));
  for (
    const set of [
      () => optimizer.momentum = 2,
      () => optimizer.weightDecay = "1" as never,
      () => optimizer.nesterov = true,
      () => optimizer.nesterov = 1 as never,
      () => new optim.Adam([w]).b1 = NaN,
      () => new optim.Adam([w]).eps = -1,
    ]
  ) assert.throws(set, ArgumentError);
  const adam = new optim.Adam([w], { lr: 0 });
  adam.b1 = 0.5;
  adam.b2 = 0.25;
  assert.deepEqual([adam.b1, adam.b2, adam.eps, adam.weightDecay], [0.5, 0.25, 1e-8, 0]);
  const run = jit(() =>
    Tensor.train(() => {
      w.sum().backward();
      adam.step();
    })
  );
  run();
  run(); // the second call is captured
  assert.throws(() => adam.weightDecay = 1, /Cannot set weightDecay of Adam: a step under jit\(\) keeps/);
});
