/** What jit functions read, write, close over and give, real or not: in each call what plain calls give. @module */
import { deepStrictEqual as assertEquals, ok, strictEqual, throws } from "node:assert/strict";
import { context, Device, jit, nn, Tensor } from "../../../mod.ts";

const DEVICES = ["JS", "WASM"];
for (const name of DEVICES) await Device.open(name);

Deno.test("jit: what one argument overwrites is read by another before that", async () => {
  Device.default = "JS";
  for (const JIT_CHECK of [0, 1]) {
    await context({ JIT_CHECK }, async () => {
      const read = jit((x: Tensor, y: Tensor) => x.sub(y)), both = jit((x: Tensor, y: Tensor) => [x.mul(1), y.add(x)]);
      const write = jit((x: Tensor, y: Tensor) => y.addInPlace(x).mul(1));
      for (let i = 0; i < 4; i++) {
        const t = new Tensor([7, 5, 0], { dtype: "int32" }).realize(), same = t.flip([]);
        t.setAt([1], 3);
        assertEquals(await read(t, same).tolist(), [0, -2, 0]);
        const next = t.flip([]);
        t.setAt([2], 1);
        assertEquals(await Promise.all(both(next, t).map((x) => x.tolist())), [[7, 3, 0], [14, 6, 1]]);
        const last = t.flip([]);
        t.setAt([2], 2);
        assertEquals(await write(t, last).tolist(), [14, 6, 4]);
        assertEquals(await t.tolist(), [14, 6, 4]);
      }
    });
  }
});

Deno.test("jit: captures serve what they can", () => {
  const made = (): Tensor => new Tensor([1, 2], { dtype: "float32" }).realize();
  const write = jit((x: Tensor) => x.addInPlace(1)), own = made();
  for (let i = 0; i < 3; i++) write(own);
  for (let i = 0; i < 10; i++) write(made());
  strictEqual(write.stats.captures, 2); // one of what may be closed over, one of all others
  const read = jit((x: Tensor, y: Tensor) => x.add(y)),
    leaves = [1, 2, 3].map(() => new Tensor([1, 2], { dtype: "float32", requiresGrad: true }));
  for (const x of leaves) for (const y of [x, ...leaves, own]) read(x, y);
  ok(read.stats.captures <= 3, `${read.stats.captures} captures`);
});

Deno.test("jit: results are values, also without jit and within another function", async () => {
  const made = (values: number[]): Tensor => new Tensor(values, { dtype: "float32" }).realize();
  for (const JIT of [1, 0]) {
    for (const form of ["alone", "nested"]) {
      await context({ JIT }, async () => {
        const h = made([0]), add = jit((x: Tensor) => ({ state: h.addInPlace(x), x })), x = made([1]);
        const outer = form === "alone" ? add : jit((x: Tensor) => add(x)), results: Tensor[] = [];
        for (let i = 0; i < 4; i++) {
          const r = outer(x);
          results.push(r.state);
          assertEquals(await r.x.tolist(), [1]);
        }
        for (const [i, r] of results.entries()) assertEquals(await r.tolist(), [i + 1], `${form} ${JIT}`);
        results[3].addInPlace(10);
        assertEquals(await h.tolist(), [4]);
      });
    }
  }
});

Deno.test("jit: a value that is assigned to is what it was assigned at the end of the call", async () => {
  const h = new Tensor([[1, 2], [3, 4]], { dtype: "int32" }).clone(), x = h.sum().add(h.flip(0));
  x.setAt([x.gt(12)], 2);
  const f = jit((x: Tensor) => {
    x.assign(h);
    h.setAt([0], 9);
    return h.mul(1);
  });
  for (let i = 0; i < 4; i++) {
    assertEquals(await f(x).tolist(), [[9, 9], [3, 4]]);
    assertEquals(await x.tolist(), i === 0 ? [[1, 2], [3, 4]] : [[9, 9], [3, 4]]);
  }
});

Deno.test("jit: tensors that are values without memory, when they are written", async () => {
  for (const device of DEVICES) {
    Device.default = device;
    const x = new Tensor([1, 2, 3], { dtype: "float32" }).realize();
    // one that is closed over, read, and written outside
    const read = x.add(1), f = jit((x: Tensor) => x.mul(read)), got: unknown[] = [];
    for (let i = 0; i < 6; i++) {
      if (i === 3) read.setAt([0], 10);
      got.push(await f(x).tolist());
    }
    assertEquals(got, [...[0, 1, 2].map(() => [2, 6, 12]), ...[0, 1, 2].map(() => [10, 6, 12])]);
    // one that equals another, and is written inside; the state that it gives is a copy
    const a = x.mul(2), b = x.mul(2), g = jit((x: Tensor) => a.addInPlace(x)), results: Tensor[] = [];
    for (let i = 0; i < 5; i++) results.push(g(x));
    results[0].addInPlace(100);
    assertEquals([await a.tolist(), await b.tolist()], [[7, 14, 21], [2, 4, 6]]);
    for (let i = 1; i < 5; i++) assertEquals(await results[i].tolist(), [3 + i, 6 + 2 * i, 9 + 3 * i]);
    // one that gets memory only in the capture
    const late = x.add(x), takes = jit((x: Tensor) => x.assign(late).mul(1));
    const own = [0, 1, 2].map((i) => new Tensor([i, 0, 0], { dtype: "float32" }).realize()), taken: unknown[] = [];
    for (const i of [0, 1, 0, 2]) {
      taken.push(await takes(own[i]).tolist());
      late.mulInPlace(2);
    }
    assertEquals(taken, [1, 2, 4, 8].map((k) => [2 * k, 4 * k, 6 * k]));
    // one whose lazy readers ask for its values after the next call
    const h = new Tensor([0], { dtype: "float32" }).realize(), one = h.add(1).realize(), reads: Tensor[] = [];
    const count = jit((x: Tensor) => h.addInPlace(x).sum());
    for (let i = 0; i < 5; i++) {
      h.mulInPlace(2); // nobody realizes it
      reads.push(h.add(0.5).realize());
      await count(one).item();
    }
    assertEquals(await Promise.all(reads.map((r) => r.item())), [0.5, 2.5, 6.5, 14.5, 30.5]);
  }
});

/** What is realized inside while it equals the state, which is then written. */
const KEPT: Record<string, (w: Tensor) => Tensor | void> = {
  "a shape of x * 1, with the write": (w) => {
    const old = w.mul(1).reshape([-1, 1]);
    w.assign(w.sub(0.5));
    Tensor.realize([old, w]);
    return old;
  },
  "a shape of contiguous(), before the write": (w) => {
    const old = w.contiguous().reshape([-1, 1]).realize();
    w.assign(w.sub(0.5));
    return old;
  },
  "a shape of where(true, x, x), between writes": (w) => {
    w.subInPlace(0.5);
    const old = new Tensor(true).where(w, w).reshape([1, -1]).realize();
    w.assign(w.mul(2));
    return old;
  },
  "a shape that nobody asks for": (w) => {
    w.mul(1).reshape([1, -1]).realize();
    w.setAt([0], w.at(0).sub(0.5));
  },
  "a shape, before a write through a view": (w) => {
    const view = w.reshape([-1, 1]);
    w.add(0).reshape([1, -1]).realize();
    view.subInPlace(0.5);
    return view;
  },
  "the value and a shape of it": (w) => {
    const same = w.mul(1), shape = same.reshape([-1, 1]);
    Tensor.realize([same, shape]);
    w.subInPlace(0.5);
    return same.add(shape.sum());
  },
};

for (const device of DEVICES) {
  for (const [name, body] of Object.entries(KEPT)) {
    Deno.test(`jit: state is written where it is after a value of it was realized: ${name} (${device})`, async () => {
      Device.default = device;
      const got: unknown[][] = [[], []];
      for (const k of [0, 1]) {
        const w = Tensor.full([2], 1.5).contiguous().realize(), f = k === 0 ? () => body(w) : jit(() => body(w));
        for (let i = 0; i < 4; i++) {
          const result = f();
          got[k].push(await w.tolist(), await result?.tolist());
        }
      }
      assertEquals(got[1], got[0]);
    });
  }
}

Deno.test("jit: a weight whose loss is a shape of it is trained in each call", async () => {
  for (const device of DEVICES) {
    Device.default = device;
    const w = new Tensor([1.5], { requiresGrad: true }), optimizer = new nn.optim.SGD([w], { lr: 0.25 });
    const step = jit(() =>
      Tensor.train(() => {
        optimizer.zeroGrad();
        w.mul(1).sum().backward();
        optimizer.step();
      })
    );
    const got: unknown[] = [];
    for (let i = 0; i < 4; i++) {
      context({ JIT_CHECK: i % 2 }, step);
      got.push(await w.item());
    }
    assertEquals(got, [1.25, 1, 0.75, 0.5]);
  }
});

Deno.test("jit: a closed-over expression that a function gives as it is, when it is written outside", async () => {
  const x = new Tensor([9, 3], { dtype: "int32" }).realize(),
    y = x.add(1),
    f = jit((_: Tensor) => y),
    got: unknown[] = [];
  for (let i = 0; i < 6; i++) {
    if (i === 3) y.setAt([0], 8);
    got.push(await f(x).tolist());
  }
  assertEquals(got, [[10, 4], [10, 4], [10, 4], [8, 4], [8, 4], [8, 4]]);
});

Deno.test("jit: state that is another tensor when it is captured, of memory that is not its own, or of none", async () => {
  for (const device of DEVICES) {
    Device.default = device;
    for (const real of [0, 1, 2]) {
      const x = new Tensor([1.5, 2.5]).realize(), model = { w: new Tensor([0.5, 0.5]).realize() }, got: unknown[] = [];
      const step = jit(() => model.w.assign(model.w.sub(0.5)).sum());
      for (let i = 0; i < 5; i++) {
        if (i === 1) {
          const equal = [x.add(1), x.add(1)];
          Tensor.realize(equal.slice(0, real));
          model.w = equal[1];
        }
        step();
        got.push(await model.w.tolist());
      }
      assertEquals(got, [[0, 0], [2, 3], [1.5, 2.5], [1, 2], [0.5, 1.5]]);
      strictEqual(step.stats.replays, 2);
    }
  }
});

const CHANGES: Readonly<Record<string, (t: Tensor) => unknown>> = {
  setAt: (t) => t.setAt([0], 8),
  assign: (t) => t.assign(7),
  replace: (t) => t.replace(t.add(5)),
  "a write through a view": (t) => t.at([1, 2]).assign(3),
  "in place": (t) => t.addInPlace(1),
};
Deno.test("jit: what was not real when it was captured, and is read and written later, is what it is then", () => {
  Device.default = "JS";
  for (const make of [(t: Tensor) => t.contiguous(), (t: Tensor) => t.mul(2), (t: Tensor) => t.at([0, 2]).add(1)]) {
    for (const [name, change] of Object.entries(CHANGES)) {
      for (const isRead of [true, false]) {
        const t = make(new Tensor([9, 3, 3, -2], { dtype: "int32" }).realize()), f = jit((x: Tensor) => t.add(x.sum()));
        const zero = new Tensor([0, 0], { dtype: "int32" }).realize();
        for (let i = 0; i < 3; i++) f(zero);
        if (isRead) t.tolistSync();
        change(t);
        for (let i = 0; i < 3; i++) assertEquals(f(zero).tolistSync(), t.tolistSync(), `${make} ${name}`);
        strictEqual(f.stats.replays, 3);
      }
    }
  }
});

Deno.test("jit: a lazy tensor outside that is equal to what a function computes is not what it gives from then on", () => {
  Device.default = "JS";
  const w = new Tensor([1, 2], { dtype: "float32", requiresGrad: true }).realize();
  const loss = () => w.mul(w).sum(), opt = new nn.optim.SGD([w], { lr: 0.25 });
  const gone = new Tensor([1]).realize(), late = gone.mul(2);
  gone.dispose();
  const train = (also: Tensor[]): Tensor =>
    Tensor.train(() => {
      opt.zeroGrad();
      const l = loss().backward();
      opt.step({ also });
      return l;
    });
  const plain = jit(loss), step = jit(() => train([]));
  plain();
  step();
  const outside = loss(); // of the same value of w as the captures
  plain();
  throws(() => train([late])); // leaves gradients, and their loss
  const got = [0, 1, 2, 3].map(() => [step().itemSync(), plain().itemSync()]);
  assertEquals(got, [[1.25, 0.3125], [0.3125, 0.078125], [0.078125, 0.01953125], [0.01953125, 0.0048828125]]);
  ok(!outside.isRealized);
  strictEqual(plain.stats.replays + step.stats.replays, 7);
});

Deno.test("jit: gradients of an argument that is a leaf are those of the call, also where it writes what they read", () => {
  Device.default = "JS";
  const x = new Tensor([1, 2], { dtype: "float32", requiresGrad: true }).realize(),
    y = new Tensor([3, 4]).float().realize();
  const f = jit((x: Tensor, y: Tensor) => {
    x.mul(y).sum().backward();
    return y.addInPlace(1).sum();
  });
  const got: unknown[] = [];
  for (let i = 0; i < 5; i++) {
    f(x, y);
    got.push(x.grad!.tolistSync());
  }
  assertEquals(got, [[3, 4], [7, 9], [12, 15], [18, 22], [25, 30]]);
});

Deno.test("jit: an argument that is a view of another tensor, written and given back, is that view", () => {
  Device.default = "JS";
  for (const isNested of [false, true]) {
    for (const first of [(t: Tensor) => t.clone(), (t: Tensor) => t.realize()]) {
      const base = first(new Tensor([6, 4, 8], { dtype: "int32" })), state = base.contiguous(), got: unknown[] = [];
      const inner = jit((x: Tensor) => {
        state.at([0, 1]).addInPlace(4);
        return x.assign(state);
      });
      const f = isNested ? jit((x: Tensor) => inner(x)) : inner;
      for (let i = 0, x = base.detach(); i < 4; i++) {
        x = f(x);
        got.push([base.tolistSync(), x.tolistSync()]);
      }
      assertEquals(got, [10, 14, 18, 22].map((n) => [[n, 4, 8], [n, 4, 8]]), `${isNested} ${first}`);
    }
  }
});

Deno.test("jit: a tensor that is assigned to itself waits for the write that it waited for", () => {
  Device.default = "JS";
  const t = new Tensor([6], { dtype: "int32" }).realize(), x = new Tensor([1], { dtype: "int32" }).realize();
  const f = jit((x: Tensor) => {
    t.assign(t);
    return x.mul(2);
  });
  const late = t.add(t);
  t.addInPlace(3);
  f(x);
  assertEquals([late.tolistSync(), t.tolistSync()], [[12], [9]]);
});

Deno.test("jit: an argument that is to be overwritten, and that calls write, is in each what it is in the first", () => {
  Device.default = "JS";
  const views = [(t: Tensor) => t.detach(), (t: Tensor) => t.reshape([2, 2]), (t: Tensor) => t.at([0, 4])];
  for (const first of [(t: Tensor) => t.clone(), (t: Tensor) => t.realize()]) {
    for (const view of views) {
      const f = jit((x: Tensor) => {
        const before = x.mul(2).sum();
        x.setAt([1], 9);
        return before;
      });
      const want = [32, view === views[1] ? [2, 3, 9, 9] : [2, 9, 5, 7]];
      for (let i = 0; i < 4; i++) {
        const t = first(new Tensor([1, 3, 5, 7], { dtype: "int32" })), x = view(t);
        t.setAt([0], 2);
        assertEquals([f(x).tolistSync(), t.tolistSync()], want, `${view} ${i}`);
        f(view(first(new Tensor([1, 3, 5, 7], { dtype: "int32" }))));
      }
    }
  }
});

Deno.test("jit: a part of a tensor that is given twice, and written as one of them, is written", () => {
  Device.default = "JS";
  for (const written of [0, 1]) {
    const f = jit((...given: Tensor[]) => {
      given[written].at([0, 2]).addInPlace(8);
      return given[1 - written].mul(1);
    });
    for (let i = 0; i < 4; i++) {
      const t = new Tensor([1, 3, 5], { dtype: "int32" }).realize(), part = t.flip([0]);
      assertEquals([f(part, part).tolistSync(), t.tolistSync()], [[13, 11, 1], [1, 11, 13]], `${written} ${i}`);
    }
  }
});

Deno.test("jit: an argument that an earlier call had in written memory, and that is not assigned to, is what it was", () => {
  Device.default = "JS";
  const views = [(t: Tensor) => t.flip([0]), (t: Tensor) => t.flip([0, 1]), (t: Tensor) => t.permute([1, 0])];
  for (const view of views) {
    const t = new Tensor([[4, 0], [9, 8], [6, 8]], { dtype: "int32" }).realize(), stale = view(t), late = view(t);
    const f = jit((_: Tensor, x: Tensor) => {
      t.setAt([0], 6);
      return x.mul(1);
    });
    f(t, t.reshape(stale.shape));
    for (const x of [stale, late]) throws(() => f(t, x), { name: "StaleReadError" }, String(view));
  }
});

Deno.test("jit: a view that is assigned to itself and written is after each call what it is without the first", () => {
  Device.default = "JS";
  for (const modes of [{}, { JIT_CHECK: 1 }, { JIT: 0 }]) {
    for (const first of [(t: Tensor) => t, (t: Tensor) => t.clone(), (t: Tensor) => t.realize()]) {
      const f = jit((x: Tensor, isItself: boolean) => {
        if (isItself) x.assign(x);
        return x.setAt([1], 4).mul(1);
      });
      for (let i = 0; i < 8; i++) {
        const t = first(new Tensor([8, 2, 5], { dtype: "int32" })), view = t.detach();
        const result = context(modes, () => f(view, i % 2 === 1));
        t.setAt([1], 7);
        assertEquals([view, t, result].map((x) => x.tolistSync()), [[8, 4, 5], [8, 7, 5], [8, 4, 5]], `${first} ${i}`);
      }
    }
  }
});
