/** What a function under jit does to gradients, against the same function without: wherever they were made. @module */
import assert from "node:assert/strict";
import { context, Device, jit, nn, Tensor } from "../../../mod.ts";

const DEVICES = ["JS", "WASM", "CLANG"].filter((d) =>
  Device.list().some(({ name, available }) => name === d && available)
);
// what devices load stays loaded
for (const device of DEVICES) new Tensor([1, 2], { device }).add(1).realize();

type Body = (w: Tensor, x: Tensor) => unknown;

/** Functions that find a gradient, and leave one; all but those of {@linkcode FILLS} need one to begin with. */
const CHANGES: Record<string, Body> = {
  "norm clipped": (w) => nn.optim.clipGradNorm([w], 1),
  "values clipped": (w) => nn.optim.clipGradValue([w], 7),
  "clipped twice": (w) => [nn.optim.clipGradValue([w], 7), nn.optim.clipGradNorm([w], 1)],
  "read": (w) => w.grad!.sum(),
  "replaced": (w) => w.grad!.replace(w.grad!.mul(2)),
  "replaced by the argument": (w, x) => w.grad!.replace(x),
  "replaced, and added to": (w, x) => [w.grad!.replace(w.grad!.mul(2)), w.mul(x).sum().backward()],
  "scaled in place": (w) => w.grad!.mulInPlace(2),
  "assigned": (w, x) => w.grad!.assign(x.mul(3)),
  "another one": (w) => w.grad = w.grad!.mul(2),
};
const FILLS: Record<string, Body> = {
  "of a product": (w, x) => w.mul(x).sum().backward(),
  "of a dot product": (w, x) => w.dot(x).backward(),
  "that is the argument": (w, x) => w.backward(x),
  "that is the argument, reshaped": (w, x) => w.add(1).reshape([2, 1]).backward(x.reshape([2, 1])),
  "that is the argument, turned": (w, x) => w.flip(0).backward(x),
  "set to the argument": (w, x) => w.grad = x,
  "set to the argument, detached": (w, x) => w.grad = x.detach(),
  "and clipped": (w, x) => [w.mul(x).sum().backward(), nn.optim.clipGradNorm([w], 1)],
  "and returned": (w, x) => [w.backward(x), w.grad],
};

/** The gradients of five calls, of which those kept are read at the end, too. */
async function gradients(device: string, body: Body, outside: boolean, adds: boolean, jitted: boolean) {
  const make = (values: number[], requiresGrad = false) =>
    new Tensor(values, { dtype: "float32", device, requiresGrad }).realize();
  const w = make([0.5, -2], true), run = (x: Tensor) => (body(w, x), x.sum());
  const f = jitted ? jit(run) : run, out: unknown[] = [], kept: Tensor[] = [];
  for (let i = 1; i < 6; i++) {
    if (!adds) w.grad = undefined;
    if (outside) w.mul(make([3 * i, 4 * i])).sum().backward();
    out.push(await f(make([i, -i])).item(), await w.grad!.tolist());
    kept.push(w.grad!);
  }
  if (!adds && !outside) { for (const g of kept) out.push(await g.tolist()); }
  return out;
}

for (const device of DEVICES) {
  for (const [bodies, outside] of [[CHANGES, true], [FILLS, true], [FILLS, false]] as const) {
    for (const [name, body] of Object.entries(bodies)) {
      for (const adds of [false, true]) {
        const form = `${outside ? ", beside one made outside" : ""}${adds ? ", over calls" : ""}`;
        Deno.test(`jit: a gradient ${name}${form} (${device})`, async () => {
          const want = await gradients(device, body, outside, adds, false);
          assert.deepEqual(await gradients(device, body, outside, adds, true), want);
          await context({ JIT_CHECK: 1 }, async () => {
            assert.deepEqual(await gradients(device, body, outside, adds, true), want);
          });
        });
      }
    }
  }
  Deno.test(`jit: gradients of two leaves change places (${device})`, async () => {
    const make = (values: number[], requiresGrad = false) =>
      new Tensor(values, { dtype: "float32", device, requiresGrad }).realize();
    const a = make([1, 2], true), b = make([3, 4], true);
    const swaps: (() => unknown)[] = [
      () => [a.grad, b.grad] = [b.grad, a.grad],
      () => a.grad = b.grad,
      () => a.grad!.replace(b.grad!),
      () => [a.grad!.replace(b.grad!), b.grad!.replace(b.grad!.mul(2))],
    ];
    for (const swap of swaps) {
      const run = (x: Tensor) => (swap(), x.add(1)), f = jit(run), got: unknown[] = [], want: unknown[] = [];
      for (const [call, out] of [[run, want], [f, got]] as const) {
        for (let i = 1; i < 6; i++) {
          a.grad = b.grad = undefined;
          a.mul(make([i, 1])).add(b.mul(make([-i, 2]))).sum().backward();
          call(make([i]));
          out.push(await a.grad!.tolist(), await b.grad!.tolist());
        }
      }
      assert.deepEqual(got, want, String(swap));
    }
  });
  Deno.test(`jit: an optimizer steps outside with a gradient that is the argument (${device})`, async () => {
    const w = new Tensor([0, 0], { dtype: "float32", device, requiresGrad: true });
    const optimizer = new nn.optim.SGD([w], { lr: 1 });
    const f = jit((x: Tensor) => {
      optimizer.zeroGrad();
      w.backward(x);
    });
    for (let i = 1, sum = 0; i < 6; i++) {
      f(new Tensor([i, 2 * i], { dtype: "float32", device }));
      Tensor.train(() => optimizer.step());
      sum += i;
      assert.deepEqual(await w.tolist(), [-sum, -2 * sum]);
    }
  });
}

Deno.test("jit: a gradient that is a donated argument keeps its memory", async () => {
  const w = new Tensor([0, 0], { dtype: "float32", device: "JS", requiresGrad: true });
  const f = jit((x: Tensor) => void w.backward(x), { donate: true });
  for (let i = 1; i < 6; i++) {
    w.grad = undefined;
    f(new Tensor([i, i], { dtype: "float32", device: "JS" }));
    assert.deepEqual(await w.grad!.tolist(), [i, i]);
  }
});

Deno.test("jit: gradients go through an argument to what it was computed from, in whichever call", async () => {
  Device.default = "JS";
  const run = async (wrap: typeof jit, detached: boolean) => {
    const w = new Tensor([0.5, -2], { requiresGrad: true }), out: unknown[] = [];
    const dot = wrap((x: Tensor, y: Tensor) => x.mul(y).sum().backward());
    const taken = wrap((y: Tensor) => y.square().sum().gradient([w])[0]);
    for (let i = 1; i < 6; i++) {
      w.grad = undefined;
      const y = w.mul(i), loss = dot(w, detached ? y.detach() : y);
      out.push(await loss.item(), await w.grad!.tolist());
      if (!detached) out.push(await taken(w.mul(i)).tolist());
    }
    return [out, (dot as unknown as { stats?: { replays: number } }).stats?.replays] as const;
  };
  for (const detached of [false, true]) {
    const [want] = await run(((f: unknown) => f) as typeof jit, detached), [got, replays] = await run(jit, detached);
    assert.deepEqual(got, want);
    assert.equal(replays, detached ? 3 : 0);
  }
});

/** Two weights of which a step trains those that require gradients. */
class Two {
  readonly a: Tensor = new Tensor([1.5, 2], { requiresGrad: true });
  readonly b: Tensor = new Tensor([0.5, 0.25], { requiresGrad: true });
  readonly optimizer: nn.optim.SGD = new nn.optim.SGD([this.a, this.b], { lr: 0.25 });
  step(): Tensor {
    return Tensor.train(() => {
      this.optimizer.zeroGrad();
      const loss = this.a.mul(this.b).sum().backward();
      this.optimizer.step();
      return loss;
    });
  }
  async values(): Promise<unknown[]> {
    const { a, b } = this;
    return [await a.tolist(), await b.tolist(), a.grad !== undefined, b.grad !== undefined];
  }
}

/** By call, which weights are frozen. */
const FROZEN: Record<string, readonly string[]> = {
  "from a call on": ["", "", "", "b", "b", "b"],
  "and thawed": ["b", "b", "b", "", "", ""],
  "in turns": ["a", "b", "a", "b", "a", "b", "a", "b"],
  "for one call": ["", "", "", "a", "", "b", ""],
};
for (const [name, calls] of Object.entries(FROZEN)) {
  Deno.test(`jit: weights are frozen outside: ${name}`, async () => {
    Device.default = "JS";
    const got: unknown[][] = [[], []];
    for (const k of [0, 1]) {
      const two = new Two(), replayed = jit(() => two.step()), f = k === 0 ? () => two.step() : replayed;
      for (const frozen of calls) {
        two.a.requiresGrad = frozen !== "a";
        two.b.requiresGrad = frozen !== "b";
        got[k].push(await f().item(), ...await two.values());
      }
      if (name === "in turns") assert.equal(replayed.stats.captures, 2 * k);
    }
    assert.deepEqual(got[1], got[0]);
  });
}

Deno.test("jit: an argument requires a gradient, or does no more", async () => {
  Device.default = "JS";
  const make = (requiresGrad: boolean): Tensor => new Tensor([1.5, 2.5], { requiresGrad });
  const w = make(true),
    f = jit((x: Tensor) => {
      x.grad = w.grad = undefined;
      return x.mul(w).sum().backward();
    });
  const kept = make(false), got: boolean[] = [];
  for (const required of [false, false, false, true, true, false, true]) {
    const x = make(required);
    kept.requiresGrad = required;
    f(x);
    f(kept);
    got.push((x.grad !== undefined) === required, (kept.grad !== undefined) === required);
    assert.deepEqual(await x.grad?.tolist(), required ? [1.5, 2.5] : undefined);
    kept.grad = undefined;
  }
  assert.ok(got.every((same) => same), String(got));
});

Deno.test("jit: what requires gradients is changed inside, and leaves are made there", () => {
  Device.default = "JS";
  const d = new Tensor([1.5, 2.5], { requiresGrad: true }), g = new Tensor([0.5, 0.25], { requiresGrad: true });
  const f = jit(() => {
    g.requiresGrad = false;
    d.grad = undefined;
    d.mul(g).sum().backward();
    d.assign(d.sub(d.grad!));
    g.requiresGrad = true;
    new Tensor([1.5], { requiresGrad: true }).mul(d.detach()).sum().backward();
  });
  for (let i = 0; i < 6; i++) f();
  assert.equal(f.stats.replays, 4);
});

Deno.test("jit: JIT_CHECK finds nothing where a call clears gradients, and writes what they read", async () => {
  await context({ JIT_CHECK: 1 }, async () => {
    const w = new Tensor([1, 2], { dtype: "float32", requiresGrad: true }), got: unknown[] = [];
    const fill = jit((x: Tensor) => w.mul(x).sum().backward());
    const step = jit(() => {
      w.assign(w.detach().sub(w.grad!.mul(0.5)));
      w.grad = undefined;
    });
    const both = jit((x: Tensor) => {
      w.grad = undefined;
      const loss = w.mul(x).sum().backward();
      w.assign(w.detach().sub(w.grad!.mul(0.5)));
      return loss;
    });
    for (let i = 0; i < 4; i++) {
      fill(new Tensor([1, i]));
      step();
      got.push(await w.tolist(), w.grad);
    }
    for (let i = 0; i < 4; i++) got.push(await both(new Tensor([1, i])).item(), await w.tolist());
    const steps = [[0.5, 2], undefined, [0, 1.5], undefined, [-0.5, 0.5], undefined, [-1, -1], undefined];
    assert.deepEqual(got, [...steps, -1, [-1.5, -1], -2.5, [-2, -1.5], -5, [-2.5, -2.5], -10, [-3, -4]]);
  });
});

Deno.test("jit: calls that add to a gradient which reads weights as they were before a step leave it lost, and go on", () => {
  Device.default = "JS";
  for (const modes of [{}, { JIT_CHECK: 1 }, { JIT: 0 }]) {
    const w = new Tensor([2, 3], { dtype: "float32" }).realize(), got: unknown[] = [];
    const x = new Tensor([1, 4], { dtype: "float32", requiresGrad: true }).realize();
    const opt = new nn.optim.SGD([w], { lr: 0.25 });
    const f = jit((x: Tensor, y: Tensor) => {
      x.mul(y).mul(2).sum().backward();
      return x.sum();
    });
    for (let i = 0; i < 8; i++) {
      if (i % 3 === 2) {
        Tensor.train(() => {
          opt.zeroGrad();
          w.mul(w).sum().backward();
          opt.step();
        });
      }
      if (i === 6) w.grad = undefined;
      x.grad = undefined;
      context(modes, () => f(x, w));
      const isLost = i >= 2 && i < 6;
      if (isLost) assert.throws(() => w.grad!.tolistSync(), { name: "StaleReadError" });
      got.push(x.grad!.tolistSync(), isLost ? undefined : w.grad!.tolistSync());
    }
    assert.deepStrictEqual(got, [
      ...[[4, 6], [2, 8], [4, 6], [4, 16]],
      ...[[2, 3], undefined, [2, 3], undefined, [2, 3], undefined, [1, 1.5], undefined],
      ...[[1, 1.5], [2, 8], [1, 1.5], [4, 16]],
    ], JSON.stringify(modes));
  }
});

Deno.test("jit: a step in a function that another one calls, which leaves gradients that nobody reads, steps as it does by itself", async () => {
  const run = async (wrap: (f: () => void) => () => void): Promise<unknown[]> => {
    const [a, b] = [[1, -1], [2, 1, 0.5]].map((v) =>
      new Tensor(v, { device: "JS", dtype: "float32", requiresGrad: true }).realize()
    );
    const opt = new nn.optim.SGD([a, b], { lr: 0.25, momentum: 0.5 }), out: unknown[] = [];
    const step = wrap(() =>
      Tensor.train(() => {
        opt.zeroGrad();
        a.mul(a).sum().add(b.mul(b).sum()).backward();
        opt.step();
      })
    );
    for (let i = 0; i < 5; i++) {
      step();
      out.push(await a.tolist(), await b.tolist());
    }
    return out;
  };
  const nested = (f: () => void) => {
    const inner = jit(f);
    return jit(() => inner());
  };
  const want = await run((f) => f);
  assert.deepEqual(await run(jit), want);
  assert.deepEqual(await run(nested), want);
});
