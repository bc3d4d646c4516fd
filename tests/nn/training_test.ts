/** Clipping, loss scaling and learning-rate schedules: against PyTorch, and under jit. @module */
import assert from "node:assert/strict";
import { ArgumentError, jit, nn, Tensor } from "../../mod.ts";
import { close, fill, golden } from "./support.ts";

const { optim } = nn;

function withGrads(): [Tensor, Tensor] {
  const a = Tensor.zeros([3], { requiresGrad: true }), b = Tensor.zeros([2, 2], { requiresGrad: true });
  a.mul(fill([3], 1, 0.2)).sum().add(b.mul(fill([2, 2], 0.7, 1).mul(2)).sum()).backward();
  return [a, b];
}
const CLIPS: readonly (readonly [string, (p: Tensor[]) => Tensor | void])[] = [
  ["clip2", (p) => optim.clipGradNorm(p, 1.5)],
  ["clipInf", (p) => optim.clipGradNorm(p, 0.5, { normType: Infinity })],
  ["clip1", (p) => optim.clipGradNorm(p, 100, { normType: 1 })],
  ["clipValue", (p) => optim.clipGradValue(p, 0.4)],
];
for (const [name, clip] of CLIPS) {
  Deno.test(`optim: ${name} agrees with PyTorch`, async () => {
    const [a, b] = withGrads(), norm = clip([a, b]);
    await close(a.grad, golden[name].a);
    await close(b.grad, golden[name].b);
    if (norm) await close(norm, golden[name].n);
  });
}

Deno.test("optim: a loss can be read after clipping and the step, also under jit", async () => {
  const w = Tensor.ones([2], { requiresGrad: true }), optimizer = new optim.SGD([w], { lr: 1 });
  const step = jit((x: Tensor) =>
    Tensor.train(() => {
      optimizer.zeroGrad();
      const loss = w.mul(x).sum().backward();
      const norm = optim.clipGradNorm([w], 1);
      optimizer.step({ also: [norm] });
      return [loss, norm];
    })
  );
  let want = 2 - 0 * 7;
  for (let i = 0; i < 4; i++) {
    const [loss, norm] = step(new Tensor([3, 4], { dtype: "float32" }).realize());
    await close(loss, [i === 0 ? 7 : 7 - 5 * i]);
    await close(norm, [5]);
    want -= 1.4;
  }
  await close(w.sum(), [want], 1e-4);
});

Deno.test("optim: the loss and the norm are read after a step as PyTorch's loops have it, also scaled and under jit", async () => {
  for (const [isScaled, isCaptured] of [[false, false], [false, true], [true, false], [true, true]]) {
    const w = Tensor.ones([2], { requiresGrad: true }), optimizer = new optim.SGD([w], { lr: 1 });
    const scaler = new optim.GradScaler({ initScale: 8 });
    const body = (x: Tensor) =>
      Tensor.train(() => {
        optimizer.zeroGrad();
        const loss = w.mul(x).sum();
        (isScaled ? scaler.scale(loss) : loss).backward();
        if (isScaled) scaler.unscale(optimizer);
        const norm = optim.clipGradNorm([w], 1);
        if (isScaled) scaler.step(optimizer);
        else optimizer.step();
        scaler.update();
        return { loss, norm };
      });
    const step = isCaptured ? jit(body) : body, seen: number[][] = [];
    for (let i = 0; i < 4; i++) {
      const { loss, norm } = step(new Tensor([3, 4], { dtype: "float32" }).realize());
      seen.push([Math.round(await loss.item()), Math.round(await norm.item())]);
    }
    assert.deepEqual(seen, [[7, 5], [2, 5], [-3, 5], [-8, 5]]);
  }
});

Deno.test("optim: GradScaler leaves out steps that overflow, shrinks, and grows again, under jit", async () => {
  for (const jitted of [false, true]) {
    const w = Tensor.ones([2], { dtype: "float16", requiresGrad: true }), optimizer = new optim.SGD([w], { lr: 1 / 8 });
    const scaler = new optim.GradScaler({ initScale: 2 ** 14, growthInterval: 2 });
    const body = (x: Tensor) =>
      Tensor.train(() => {
        optimizer.zeroGrad();
        const loss = scaler.backward(w.mul(x).sum());
        scaler.step(optimizer);
        return loss;
      });
    const step = jitted ? jit(body) : body;
    const seen: number[][] = [];
    // 8 * 2^14 is beyond float16; 1 * 2^14 is not, and 1 * 2^16 is
    for (const x of [8, 1, 1, 1, 1, 8, 1, 1]) {
      const loss = step(new Tensor([x, x], { dtype: "float16" }).realize());
      assert.ok(Number.isFinite(await loss.item()));
      seen.push([Number(await w.at(0).item()), Math.log2(Number(await scaler.scaleFactor.item()))]);
    }
    assert.deepEqual(seen, [
      [1, 13],
      [0.875, 13],
      [0.75, 14],
      [0.625, 14],
      [0.5, 15],
      [0.5, 14],
      [0.375, 14],
      [0.25, 15],
    ]);
  }
});

Deno.test("optim: unscaled gradients can be clipped before a scaled step; a small gradient survives float16", async () => {
  const w = Tensor.ones([1], { dtype: "float16", requiresGrad: true }), optimizer = new optim.SGD([w], { lr: 2 ** 24 });
  const scaler = new optim.GradScaler({ initScale: 2 ** 15 });
  let norm: Tensor | undefined;
  Tensor.train(() => {
    scaler.backward(w.mul(2 ** -14).mul(2 ** -14).float().sum());
    scaler.unscale(optimizer);
    norm = optim.clipGradNorm([w], 1);
    scaler.step(optimizer, { also: [norm] });
  });
  await close(norm, [2 ** -28]);
  await close(w, [1 - 2 ** -4]);
});

type Make = (o: nn.optim.Optimizer) => { step(metric?: number): void };
const METRICS = [1, .9, .9, .95, .9, .91, .92, .3, .31, .32, .33, .34];
const SCHEDULES: readonly (readonly [string, Make])[] = [
  ["stepLR", (o) => new optim.StepLR(o, { stepSize: 3, gamma: 0.5 })],
  ["multiStepLR", (o) => new optim.MultiStepLR(o, { milestones: [2, 5, 5] })],
  ["exponentialLR", (o) => new optim.ExponentialLR(o, { gamma: 0.9 })],
  ["linearLR", (o) => new optim.LinearLR(o, { startFactor: 0.25, endFactor: 0.75, totalIters: 6 })],
  ["polynomialLR", (o) => new optim.PolynomialLR(o, { totalIters: 7, power: 2 })],
  ["lambdaLR", (o) => new optim.LambdaLR(o, (t) => 1 / (t + 1))],
  ["lambdaLR", (o) => new optim.LambdaLR(o, { lrLambda: (t) => 1 / (t + 1) })],
  ["cosine", (o) => new optim.CosineAnnealingLR(o, { tMax: 9, etaMin: 0.01 })],
  ["constantLR", (o) => new optim.ConstantLR(o, { factor: 0.25, totalIters: 4 })],
  ["restarts", (o) => new optim.CosineAnnealingWarmRestarts(o, { t0: 3, etaMin: 0.01 })],
  ["restartsLonger", (o) => new optim.CosineAnnealingWarmRestarts(o, { t0: 2, tMult: 2 })],
  ["cyclic", (o) => new optim.CyclicLR(o, { baseLr: 0.1, maxLr: 0.5, stepSizeUp: 3, stepSizeDown: 2 })],
  ["cyclic2", (o) => new optim.CyclicLR(o, { baseLr: 0.1, maxLr: 0.5, stepSizeUp: 2, mode: "triangular2" })],
  [
    "cyclicExp",
    (o) => new optim.CyclicLR(o, { baseLr: 0.1, maxLr: 0.5, stepSizeUp: 2, mode: "exp_range", gamma: 0.9 }),
  ],
  [
    "cyclicScale",
    (o) =>
      new optim.CyclicLR(o, {
        ...{ baseLr: 0.1, maxLr: 0.5, stepSizeUp: 2 },
        ...{ scaleFn: (t: number) => 1 / (1 + t), scaleMode: "iterations" as const },
      }),
  ],
  [
    "sequential",
    (o) => {
      const first = new optim.LinearLR(o, { startFactor: 0.1, totalIters: 4 });
      const second = new optim.CosineAnnealingLR(o, { tMax: 6, etaMin: 0.01 });
      const schedulers = [first, second, new optim.ConstantLR(o, { factor: 0.5, totalIters: 2 })];
      return new optim.SequentialLR(o, { schedulers, milestones: [4, 10] });
    },
  ],
  [
    "chained",
    (o) => {
      const first = new optim.LinearLR(o, { startFactor: 0.1, totalIters: 4 });
      const second = new optim.StepLR(o, { stepSize: 3, gamma: 0.5 });
      return new optim.ChainedScheduler(o, {
        schedulers: [first, second, new optim.CosineAnnealingLR(o, { tMax: 20 })],
      });
    },
  ],
  [
    "chainedFloor",
    (o) => {
      const schedulers = [new optim.CosineAnnealingLR(o, { tMax: 5, etaMin: 0.01 })];
      return new optim.ChainedScheduler(o, { schedulers: [...schedulers, new optim.ExponentialLR(o, { gamma: 0.9 })] });
    },
  ],
  [
    "chainedFloors",
    (o) => {
      const first = new optim.LinearLR(o, { startFactor: 0.1, totalIters: 4 });
      const second = new optim.CosineAnnealingLR(o, { tMax: 4, etaMin: 0.02 });
      return new optim.ChainedScheduler(o, { schedulers: [first, second] });
    },
  ],
  ["oneCycle", (o) => new optim.OneCycleLR(o, { maxLr: 0.5, totalSteps: 13 })],
  [
    "oneCycleLinear",
    (o) =>
      new optim.OneCycleLR(o, { maxLr: 0.5, totalSteps: 13, pctStart: 0.5, annealStrategy: "linear", divFactor: 5 }),
  ],
  ["plateau", (o) => new optim.ReduceLROnPlateau(o, { factor: 0.5, patience: 1, cooldown: 1, minLr: 0.03 }) as never],
  [
    "plateauMax",
    (o) => new optim.ReduceLROnPlateau(o, { mode: "max", patience: 2, threshold: 0.05, thresholdMode: "abs" }) as never,
  ],
];
for (const [name, make] of SCHEDULES) {
  Deno.test(`optim: ${name} agrees with PyTorch`, async () => {
    const optimizer = new optim.SGD([Tensor.zeros([1], { requiresGrad: true })], { lr: 0.2 }),
      schedule = make(optimizer);
    const got = [Number(await optimizer.lr.item())];
    for (let i = 0; i < 12; i++) {
      schedule.step(METRICS[i]);
      got.push(Number(await optimizer.lr.item()));
    }
    got.forEach((lr, i) =>
      assert.ok(Math.abs(lr - golden[name].lr[i]) < 1e-7, `${i}: ${lr}, not ${golden[name].lr[i]}`)
    );
  });
}

for (const schedulers of [[], [1], undefined] as const) {
  Deno.test(`optim: schedules that are ${JSON.stringify(schedulers)} are not chained`, () => {
    const o = new optim.SGD([Tensor.zeros([1], { requiresGrad: true })]);
    assert.throws(
      () => new optim.ChainedScheduler(o, { schedulers } as never),
      /ArgumentError: Cannot make ChainedScheduler: (schedulers must be a list of some|it takes schedulers that are)/,
    );
  });
}

for (
  const [text, make] of [
    ["SequentialLR: schedulers must be a list of some", () => ({ schedulers: [], milestones: [] })],
    ["SequentialLR: 1 schedulers have one milestone less", (s) => ({ schedulers: [s], milestones: [3] })],
    [
      "SequentialLR: milestones must rise from above 0, unlike 3, 3",
      (s) => ({ schedulers: [s, s, s], milestones: [3, 3] }),
    ],
    [
      "SequentialLR: it takes schedulers that are functions of steps",
      () => ({ schedulers: [1 as never], milestones: [] }),
    ],
  ] as [string, (s: nn.optim.StepSchedule) => nn.optim.SequentialLROptions][]
) {
  Deno.test(`optim: ${text} is refused`, () => {
    const o = new optim.SGD([Tensor.zeros([1], { requiresGrad: true })]);
    const options = make(new optim.StepLR(o, { stepSize: 1 }));
    assert.throws(() => new optim.SequentialLR(o, options), (e: Error) => e.message.startsWith(`Cannot make ${text}`));
  });
}

Deno.test("optim: warmups rise in a line; groups go together; captured steps follow", async () => {
  const ws = [0, 0].map(() => new Tensor([0], { dtype: "float32", requiresGrad: true }));
  const a = new optim.SGD([ws[0]], { lr: 1 }), b = new optim.SGD([ws[1]], { lr: 0.5 });
  const group = new optim.OptimizerGroup([a, b]);
  const schedule = new optim.CosineAnnealingLR(group, { tMax: 2, warmupSteps: 3 });
  const decay = new optim.SGD([Tensor.zeros([1], { requiresGrad: true })], { lr: 1 });
  const polynomial = new optim.PolynomialDecayWithWarmup(decay, {
    totalSteps: 5,
    warmupSteps: 1,
    endLr: 0.2,
    power: 1,
  });
  const both = new optim.LRSchedulerGroup([schedule, polynomial]);
  const step = jit((x: Tensor) =>
    Tensor.train(() => {
      group.zeroGrad();
      const loss = ws[0].add(ws[1]).mul(x).sum().backward();
      group.step();
      return loss;
    })
  );
  let want = 0;
  const rates: number[] = [];
  for (const lr of [0.25, 0.5, 0.75, 1, 0.5, 0]) {
    step(new Tensor([-1], { dtype: "float32" }).realize());
    want += lr;
    await close(ws[0], [want]);
    await close(ws[1], [want / 2]);
    rates.push(polynomial.lastLr[0]);
    both.step();
  }
  const expected = [0.5, 1, 0.8, 0.6, 0.4, 0.2];
  assert.ok(rates.every((r, i) => Math.abs(r - expected[i]) < 1e-12), String(rates));
});

const p = () => [Tensor.zeros([1], { requiresGrad: true })];
const sgd = () => new optim.SGD(p());
const BAD: readonly (readonly [string, () => unknown, RegExp])[] = [
  ["a norm that is not positive", () => optim.clipGradNorm(withGrads(), 0), /maxNorm is 0 and normType 2/],
  ["no gradient", () => optim.clipGradNorm(p(), 1), /no parameter has a gradient/],
  ["a negative value", () => optim.clipGradValue(withGrads(), -1), /clipValue is -1; it must be positive$/],
  ["a scaler that grows down", () => new optim.GradScaler({ growthFactor: 0.5 }), /growthFactor is 0.5, outside/],
  ["an unknown option", () => new optim.GradScaler({ scale: 1 } as object), /unknown option "scale"/],
  ["a step of 0", () => new optim.StepLR(sgd(), { stepSize: 0 }), /stepSize must be an integer of at least 1, not 0$/],
  ["no function", () => new optim.LambdaLR(sgd(), {} as never), /lrLambda must be a function, not undefined$/],
  ["a number", () => new optim.LambdaLR(sgd(), 3 as never), /the options must be an object with lrLambda, not 3$/],
  ["a lambda", () => new optim.LambdaLR(sgd(), { lambda: Math.sqrt } as never), /unknown option "lambda"/],
  ["no milestones", () => new optim.MultiStepLR(sgd(), { milestones: 3 as never }), /must be a list, not 3$/],
  ["no steps", () => new optim.CosineAnnealingLR(sgd(), { tMax: 0.5 }), /tMax must be an integer, not 0.5$/],
  [
    "a strategy",
    () => new optim.OneCycleLR(sgd(), { maxLr: 1, totalSteps: 5, annealStrategy: "x" as "cos" }),
    /unknown annealStrategy "x"/,
  ],
  [
    "a mode",
    () => new optim.ReduceLROnPlateau(sgd(), { mode: "best" as "min" }),
    /unknown mode "best"; known are min, max$/,
  ],
  ["a factor of 1", () => new optim.ReduceLROnPlateau(sgd(), { factor: 1 }), /factor is 1, not in \[0, 1\)$/],
  [
    "mixed fused",
    () => new optim.SGD([...p(), Tensor.zeros([1], { dtype: "float16", requiresGrad: true })], { fused: true }),
    /one dtype/,
  ],
];
for (const [name, fn, text] of BAD) {
  Deno.test(`optim: refuses ${name}`, () => {
    assert.throws(fn, (e: unknown) => e instanceof ArgumentError && text.test(e.message));
  });
}
