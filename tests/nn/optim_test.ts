/** Optimizers against PyTorch over four steps; what they refuse; what one step realizes. @module */
import assert from "node:assert/strict";
import { ArgumentError, jit, nn, state, Tensor } from "../../mod.ts";
import { close, fill, golden } from "./support.ts";

type Make = (p: Tensor[]) => nn.optim.Optimizer;
const TABLE: readonly (readonly [string, Make])[] = [
  ["sgd", (p) => new nn.optim.SGD(p, { lr: 0.1 })],
  ["momentum", (p) => new nn.optim.SGD(p, { lr: 0.1, momentum: 0.9, weightDecay: 0.01 })],
  ["nesterov", (p) => new nn.optim.SGD(p, { lr: 0.1, momentum: 0.9, nesterov: true })],
  ["adam", (p) => new nn.optim.Adam(p, { lr: 0.01 })],
  ["adamwd", (p) => new nn.optim.Adam(p, { lr: 0.01, weightDecay: 0.1, betas: [0.8, 0.99] })],
  ["adamwd", (p) => new nn.optim.Adam(p, { lr: 0.01, weightDecay: 0.1, b1: 0.8, b2: 0.99 })],
  ["adamw", (p) => new nn.optim.AdamW(p, { lr: 0.01, weightDecay: 0.1 })],
  ["rmsprop", (p) => new nn.optim.RMSprop(p, { lr: 0.01 })],
  [
    "rmspropall",
    (p) => new nn.optim.RMSprop(p, { lr: 0.01, alpha: 0.9, momentum: 0.5, centered: true, weightDecay: 0.1 }),
  ],
  [
    "rmspropall",
    (p) =>
      new nn.optim.RMSprop(p, { lr: 0.01, alpha: 0.9, momentum: 0.5, centered: true, weightDecay: 0.1, fused: true }),
  ],
  ["adagrad", (p) => new nn.optim.Adagrad(p, { lr: 0.1 })],
  [
    "adagradall",
    (p) => new nn.optim.Adagrad(p, { lr: 0.1, weightDecay: 0.1, initialAccumulatorValue: 0.2, fused: true }),
  ],
  ["adadelta", (p) => new nn.optim.Adadelta(p)],
  [
    "adadeltaall",
    (p) => new nn.optim.Adadelta(p, { lr: 0.5, rho: 0.8, eps: 1e-4, weightDecay: 0.1, fused: true }),
  ],
  ["rprop", (p) => new nn.optim.Rprop(p, { lr: 0.1 })],
  ["rpropall", (p) => new nn.optim.Rprop(p, { lr: 0.1, etas: [0.3, 1.5], stepSizes: [0.01, 0.2], fused: true })],
  ["nadam", (p) => new nn.optim.NAdam(p, { lr: 0.01 })],
  [
    "nadamall",
    (p) =>
      new nn.optim.NAdam(p, {
        ...{ lr: 0.01, b1: 0.8, b2: 0.99, momentumDecay: 0.1, weightDecay: 0.1 },
        ...{ decoupledWeightDecay: true, fused: true },
      }),
  ],
  ["radam", (p) => new nn.optim.RAdam(p, { lr: 0.01, weightDecay: 0.1 })],
  [
    "radamshort",
    (p) => new nn.optim.RAdam(p, { lr: 0.01, b1: 0.8, b2: 0.6, weightDecay: 0.1, decoupledWeightDecay: true }),
  ],
  ["adamax", (p) => new nn.optim.Adamax(p, { lr: 0.01 })],
  ["adamaxall", (p) => new nn.optim.Adamax(p, { lr: 0.01, b1: 0.8, b2: 0.9, weightDecay: 0.1, fused: true })],
  ["asgd", (p) => new nn.optim.ASGD(p, { lr: 0.1 })],
  ["asgdall", (p) => new nn.optim.ASGD(p, { lr: 0.1, lambd: 0.3, alpha: 0.6, t0: 1, weightDecay: 0.1 })],
  ["asgdall", (p) => new nn.optim.ASGD(p, { lr: 0.1, lambd: 0.3, alpha: 0.6, t0: 1, weightDecay: 0.1, fused: true })],
  ["adafactor", (p) => new nn.optim.Adafactor(p)],
  [
    "adafactorall",
    (p) => new nn.optim.Adafactor(p, { lr: 0.3, beta2Decay: -0.5, eps: [0.1, 0.05], d: 1.2, weightDecay: 0.1 }),
  ],
  ["lars", (p) => new nn.optim.LARS(p, { lr: 0.1, momentum: 0.9, weightDecay: 0.01, tcoef: 0.02 })],
  ["lamb", (p) => new nn.optim.LAMB(p, { lr: 0.1, weightDecay: 0.05 })],
  ["momentum", (p) => new nn.optim.SGD(p, { lr: 0.1, momentum: 0.9, weightDecay: 0.01, fused: true })],
  ["adamw", (p) => new nn.optim.AdamW(p, { lr: 0.01, weightDecay: 0.1, fused: true })],
  ["adam", (p) => new nn.optim.Adam(p, { lr: 0.01, device: "WASM" })],
];

function parameters(): [Tensor, Tensor] {
  const w = fill([3, 2], 0.37, 0.2, 0.1), b = fill([2], 0.3, 0.4);
  w.requiresGrad = b.requiresGrad = true;
  return [w, b];
}

for (const [i, [name, make]] of TABLE.entries()) {
  for (const jitted of [false, true]) {
    Deno.test(`optim: ${name} (${i}) agrees with PyTorch${jitted ? " under jit" : ""}`, async () => {
      const [w, b] = parameters(), optimizer = make([w, b]), want = golden[name];
      const step = (x: Tensor) =>
        Tensor.train(() => {
          optimizer.zeroGrad();
          const loss = x.matmul(w).add(b).tanh().sub(0.3).square().mean().backward();
          optimizer.step();
          return loss;
        });
      const run = jitted ? jit(step) : step;
      for (let i = 0; i < 4; i++) await close(run(fill([4, 3], 0.53, 0.1 * i).realize()), [want.l[i]]);
      await close(w, want.w);
      await close(b, want.b);
      if (optimizer instanceof nn.optim.ASGD) await close(optimizer.averages[0].flatten().at([0, 6]), want.ax);
    });
  }
}

for (
  const [text, make] of [
    ["Cannot make RMSprop: alpha", (w: Tensor) => new nn.optim.RMSprop([w], { alpha: 2 })],
    ["Cannot make RMSprop: momentum", (w: Tensor) => new nn.optim.RMSprop([w], { momentum: -1 })],
    [
      "Cannot make Adagrad: initialAccumulatorValue",
      (w: Tensor) => new nn.optim.Adagrad([w], { initialAccumulatorValue: -1 }),
    ],
    ["Cannot make Adadelta: rho", (w: Tensor) => new nn.optim.Adadelta([w], { rho: 1.5 })],
    ["Cannot make NAdam: momentumDecay", (w: Tensor) => new nn.optim.NAdam([w], { momentumDecay: -1 })],
    ["Cannot make RAdam: b2", (w: Tensor) => new nn.optim.RAdam([w], { b2: 1.5 })],
    ["Cannot make Adamax: eps", (w: Tensor) => new nn.optim.Adamax([w], { eps: -1 })],
    ["Cannot make Adafactor: d", (w: Tensor) => new nn.optim.Adafactor([w], { d: 0.5 })],
    ["Cannot make Adafactor: eps are two", (w: Tensor) => new nn.optim.Adafactor([w], { eps: 1 as never })],
    ["Cannot make ASGD: t0", (w: Tensor) => new nn.optim.ASGD([w], { t0: -1 })],
    [
      "Cannot make AdamW: betas are two numbers, not",
      (w: Tensor) => new nn.optim.AdamW([w], { betas: [0.9] as never }),
    ],
    ['Cannot make Adagrad: unknown option "alpha"', (w: Tensor) => new nn.optim.Adagrad([w], { alpha: 1 } as never)],
  ] as const
) {
  Deno.test(`optim: ${text} is refused`, () => {
    const w = fill([2], 0.3, 0.4);
    w.requiresGrad = true;
    assert.throws(() => make(w), (e: Error) => e instanceof ArgumentError && e.message.startsWith(text));
  });
}

for (const [b2, steps] of [[0.999, 300], [0.9999, 40]]) {
  Deno.test(`optim: RAdam with b2 ${b2} knows how long its averages are, from the first step on`, async () => {
    const w = new Tensor([0], { dtype: "float32", requiresGrad: true });
    const optimizer = new nn.optim.RAdam([w], { lr: 1, b2, eps: 0 }), most = 2 / (1 - b2) - 1;
    for (let t = 1, last = 0; t <= steps; t++) {
      Tensor.train(() => {
        optimizer.zeroGrad();
        w.sum().backward();
        optimizer.step();
      });
      // of equal gradients of 1 the step is the rectification alone
      const rho = most - 2 * t * b2 ** t / (1 - b2 ** t), now = await w.item();
      const rect = rho > 5 ? Math.sqrt((rho - 4) * (rho - 2) * most / ((most - 4) * (most - 2) * rho)) : 1;
      assert.ok(Math.abs(last - now - rect) < 2e-5 * (1 + Math.abs(now)), `${t}: ${last - now}, not ${rect}`);
      last = now;
    }
  });
}

Deno.test("optim: Muon agrees with PyTorch", async () => {
  const w = fill([2, 3], 0.37, 0.2, 0.1), b = fill([2], 0.3, 0.4), want = golden.muon;
  w.requiresGrad = true;
  const optimizer = new nn.optim.Muon([w], { lr: 0.1 });
  for (let i = 0; i < 4; i++) {
    const loss = Tensor.train(() => {
      optimizer.zeroGrad();
      const x = fill([4, 3], 0.53, 0.1 * i);
      const loss = x.matmul(w.transpose()).add(b).tanh().sub(0.3).square().mean().backward();
      optimizer.step();
      return loss;
    });
    await close(loss, [want.l[i]], 1e-4);
  }
  await close(w, want.w, 1e-4);
});

Deno.test("optim: classic momentum keeps the learning rates of its steps", async () => {
  const [w, b] = parameters(), optimizer = new nn.optim.SGD([w, b], { lr: 0.1, momentum: 0.9, classic: true });
  for (let i = 0; i < 4; i++) {
    optimizer.setLr(0.1 / (i + 1));
    Tensor.train(() => {
      optimizer.zeroGrad();
      fill([4, 3], 0.53, 0.1 * i).matmul(w).add(b).tanh().sub(0.3).square().mean().backward();
      optimizer.step();
    });
  }
  await close(w, golden.classic.w);
  await close(b, golden.classic.b);
});

Deno.test("optim: float16 parameters keep moments in float32", async () => {
  const w = Tensor.ones([4], { dtype: "float16", requiresGrad: true }), optimizer = new nn.optim.Adam([w], { lr: 0.5 });
  Tensor.train(() => {
    w.mul(1e-4).sum().backward();
    optimizer.step();
  });
  await close(w, [0.5, 0.5, 0.5, 0.5], 1e-3);
  assert.equal(w.dtype.name, "float16");
});

Deno.test("optim: the learning rate changes inside a captured step", async () => {
  const w = new Tensor([1], { requiresGrad: true, dtype: "float32" });
  const optimizer = new nn.optim.SGD([w], { lr: 0 });
  const step = jit((x: Tensor) =>
    Tensor.train(() => {
      optimizer.zeroGrad();
      const loss = w.mul(x).sum().backward();
      optimizer.step();
      return loss;
    })
  );
  let want = 1;
  for (const lr of [0.5, 0.25, 0, 1, 2]) {
    optimizer.setLr(lr);
    step(new Tensor([1], { dtype: "float32" }).realize());
    await close(w, [want -= lr]);
  }
});

Deno.test("optim: statistics given to the optimizer are realized by its step", async () => {
  const layer = new nn.BatchNorm(2), optimizer = new nn.optim.SGD(state.getParameters(layer), { lr: 0.1 });
  assert.equal(optimizer.params.length, 2);
  assert.equal(optimizer.buffers.length, 3);
  for (let i = 0; i < 3; i++) {
    Tensor.train(() => {
      optimizer.zeroGrad();
      layer.call(Tensor.full([4, 2, 1, 1], 2)).square().mean().backward();
      optimizer.step();
    });
  }
  await close(layer.numBatchesTracked, [3]);
  await close(layer.runningMean, [2 * (1 - 0.9 ** 3), 2 * (1 - 0.9 ** 3)]);
});

Deno.test("optim: LAMB and groups step", async () => {
  const [w, b] = parameters();
  const group = new nn.optim.OptimizerGroup(new nn.optim.LAMB([w], { lr: 0.1 }), new nn.optim.SGD([b], { lr: 0.1 }));
  const losses: number[] = [];
  for (let i = 0; i < 3; i++) {
    const loss = Tensor.train(() => {
      group.zeroGrad();
      const loss = fill([4, 3], 0.53, 0).matmul(w).add(b).square().mean().backward();
      group.step();
      return loss;
    });
    losses.push(Number(await loss.item()));
  }
  assert.ok(losses[2] < losses[1] && losses[1] < losses[0], String(losses));
  group.lr = 0.25;
  assert.deepEqual(group.optimizers.map((o) => o.getLr()), [0.25, 0.25]);
  assert.deepEqual(await Promise.all(group.lr.map((t) => t.item())), [0.25, 0.25]);
  assert.throws(() => group.lr = -1, /learning rate: it must be a number of at least 0, not -1/);
});

Deno.test("optim: what it refuses", () => {
  const [w] = parameters(), optimizer = new nn.optim.SGD([w]);
  assert.throws(() => optimizer.step(), /SGD.*Tensor.training is false/);
  assert.throws(() => Tensor.train(() => optimizer.step()), /no parameter has a gradient/);
  assert.throws(() => new nn.optim.Adam([w], { beta1: 0.5 } as object), ArgumentError);
  assert.throws(() => new nn.optim.Adam([w], { lr: -1 }), ArgumentError);
  assert.throws(() => new nn.optim.SGD([w], { nesterov: true }), ArgumentError);
  assert.throws(() => new nn.optim.LAMB([w], { fused: true } as object), ArgumentError);
  assert.throws(() => Tensor.train(() => optimizer.step({ when: Tensor.ones([1]) })), /no parameter has a gradient/);
  w.sum().backward();
  assert.throws(() => Tensor.train(() => optimizer.step({ when: Tensor.ones([1]) })), /when is float32 with 1/);
  const rate = jit((x: Tensor) => {
    optimizer.setLr(0.5);
    return x.add(1);
  });
  assert.throws(() => [1, 2].map(() => rate(Tensor.ones([1]).realize())), /under jit\(\) would keep this value/);
  const fixed = new Tensor([1, 2]);
  assert.throws(() => new nn.optim.SGD([fixed]), /none of its tensors requires a gradient/);
});

Deno.test("optim: a step that fails leaves parameters and state as they were, also after a write of the user's", async () => {
  const makes: Make[] = [
    (p) => new nn.optim.SGD(p, { lr: 0.5, momentum: 0.5 }),
    (p) => new nn.optim.AdamW(p, { lr: 0.25 }),
    (p) => new nn.optim.Adam(p, { lr: 0.25, fused: true }),
  ];
  for (const make of makes) {
    for (
      const write of [(_: Tensor) => {}, (w: Tensor) => void w.addInPlace(1), (w: Tensor) => void w.at(0).assign(3)]
    ) {
      for (const jitted of [false, true]) {
        const run = async (failsAt: number): Promise<unknown[]> => {
          const w = new Tensor([1, 2], { dtype: "float32", requiresGrad: true }).realize(), optimizer = make([w]);
          const scaler = new nn.optim.GradScaler({ initScale: 2 });
          const body = (x: Tensor, k: Tensor): Tensor =>
            Tensor.train(() => {
              optimizer.zeroGrad();
              const loss = w.mul(x).mul(k).square().sum();
              scaler.backward(loss);
              scaler.step(optimizer);
              return loss;
            });
          const f = jitted ? jit(body) : body, got: unknown[] = [];
          for (let i = 0; i < 5; i++) {
            const x = new Tensor([1, 2], { dtype: "float32" }).realize(), k = x.mul(1), freed = x.add(1).realize();
            const lost = freed.mul(k);
            freed.dispose();
            if (i === 2) write(w);
            if (i === failsAt) assert.throws(() => body(x, lost), /disposed/);
            if (i === failsAt) got.push(await w.tolist());
            await f(x, k).tolist();
          }
          return [await w.tolist(), await scaler.scaleFactor.item(), got.length];
        };
        const [want] = await run(-1);
        for (const at of [0, 2, 4]) {
          const [w, scale, count] = await run(at);
          assert.equal(scale, 2);
          (w as number[]).forEach((v, i) => assert(Math.abs(v - (want as number[])[i]) < 1e-5, `${w} and not ${want}`));
          assert.equal(count, 1);
        }
      }
    }
  }
});
