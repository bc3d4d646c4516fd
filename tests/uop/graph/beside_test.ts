/** Open writes that read what a schedule overwrites: they are done with it, in eager programs and beside jit functions. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { Device, jit, nn, scope, StaleReadError, Tensor } from "../../../mod.ts";

await Device.open("JS");
Device.default = "JS";

const make = (x: readonly number[], requiresGrad = false) =>
  new Tensor([...x], { dtype: "float32", requiresGrad }).realize();

/** A weight [1, 2] and a step that halves it. */
function halving(): { w: Tensor; step: () => Tensor } {
  const w = make([1, 2], true), opt = new nn.optim.SGD([w], { lr: 0.25 });
  return {
    w,
    step: () =>
      Tensor.train(() => {
        opt.zeroGrad();
        const loss = w.square().sum().backward();
        opt.step();
        return loss;
      }),
  };
}

/** By how often the weight was halved before each of six reads, what their mean of rate 1/2 is. */
function meanOf(first: number): number[] {
  let mean = 0;
  for (let i = 0; i < 6; i++) mean = mean / 2 + 2 ** -(i + first);
  return [mean, 2 * mean];
}

const STEPS: Readonly<Record<string, (step: () => Tensor, inside: () => void) => () => unknown>> = {
  eager: (step, inside) => () => (inside(), step()),
  "jit, written before it": (step, inside) => {
    const f = jit(step);
    return () => (inside(), f());
  },
  "jit, written in it": (step, inside) => jit(() => (inside(), step())),
  "jit in jit, written in the outer one": (step, inside) => {
    const f = jit(step);
    return jit(() => (inside(), f()));
  },
  "jit in jit, written before both": (step, inside) => {
    const inner = jit(step), f = jit(() => inner());
    return () => (inside(), f());
  },
};

for (const [name, stepped] of Object.entries(STEPS)) {
  Deno.test(`beside: a mean of weights that nobody realizes, ${name}`, () => {
    const { w, step } = halving(), mean = make([0, 0]);
    const go = stepped(step, () => void mean.assign(mean.mul(0.5).add(w)));
    for (let i = 0; i < 6; i++) go();
    assertEquals([mean.tolistSync(), w.tolistSync()], [meanOf(0), [1 / 64, 2 / 64]]);
  });
  Deno.test(`beside: two such, the second of the first, ${name}`, () => {
    const { w, step } = halving(), a = make([0, 0]), b = make([0, 0]);
    const go = stepped(step, () => {
      b.assign(b.add(a));
      a.addInPlace(w);
    });
    for (let i = 0; i < 3; i++) go();
    assertEquals([a.tolistSync(), b.tolistSync()], [[1.75, 3.5], [2.5, 5]]);
  });
}

const WRITES: readonly (readonly [name: string, write: (w: Tensor) => Tensor, want: readonly number[]])[] = [
  ["assign to a value", (w) => Tensor.zeros([2], { device: "JS" }).assign(w.mul(2)), [2, 4]],
  ["setAt on a value", (w) => Tensor.zeros([2], { device: "JS" }).setAt([0], w.sum()).setAt([1], w.at(0)), [3, 1]],
  ["setAt on a copy", (w) => Tensor.zeros([2], { device: "JS" }).clone().setAt([1], w.sum()), [0, 3]],
  ["in place", (w) => make([1, 1]).addInPlace(w).mulInPlace(w), [2, 6]],
  ["at a mask", (w) => make([5, 5]).setAt([w.gt(1)], w), [5, 2]],
  ["through a view", (w) => {
    const t = make([1, 1]);
    t.at([0, 1]).addInPlace(w.sum());
    return t;
  }, [4, 1]],
  ["a clone", (w) => w.detach().clone(), [1, 2]],
];
for (const [name, write, want] of WRITES) {
  Deno.test(`beside: ${name}, then a step`, () => {
    const { w, step } = halving(), t = write(w);
    step();
    assertEquals([t.tolistSync(), w.tolistSync()], [want, [0.5, 1]]);
  });
}

Deno.test("beside: a chain of writes is done in one schedule, each of what was there before", () => {
  const a = make([1]), b = make([2]), c = make([0]), w = make([3]);
  c.assign(b.add(a));
  b.assign(a.mul(10));
  a.assign(w.add(1));
  w.assign([7]).realize();
  assert(a.isRealized && b.isRealized && c.isRealized);
  assertEquals([a, b, c, w].map((t) => t.tolistSync()), [[4], [10], [3], [7]]);
});

Deno.test("beside: what reads nothing that is overwritten waits", () => {
  const a = make([1]), b = make([2]), other = make([5]), w = make([3]);
  a.assign(other.add(1));
  b.assign(w.add(1)); // of what the schedule makes
  w.assign([4]);
  const c = make([0]).assign(w.add(1));
  w.realize();
  assertEquals([a.isRealized, b.isRealized, c.isRealized], [false, true, false]);
  assertEquals([a, b, c].map((t) => t.tolistSync()), [[6], [4], [5]]);
});

Deno.test("beside: a write to what a schedule has as memory reads that, and not what it was computed from", () => {
  const w = make([7]).mul(1).assign([2]), product = make([3]).mul(w);
  w.addInPlace(1);
  product.mulInPlace(w); // it reads both versions of w
  const turned = product.flip(0), whole = product.detach();
  product.assign([9]);
  assertEquals([whole.tolistSync(), product.isRealized], [[18], false]);
  assertEquals([turned.tolistSync(), product.tolistSync(), w.tolistSync()], [[18], [9], [3]]);
});

Deno.test("beside: a written argument of a jit function, and reused results", () => {
  const sum = make([0]), x = make([1]), out = make([0]);
  const twice = jit((t: Tensor) => t.assign(t.mul(2)).add(0)),
    reused = jit((t: Tensor) => t.mul(3), { reuseOutputs: true });
  for (let i = 0; i < 5; i++) {
    sum.assign(sum.add(x));
    twice(x);
    out.assign(out.add(reused(x)));
  }
  assertEquals([sum, x, out].map((t) => t.tolistSync()), [[31], [32], [3 * 62]]);
});

Deno.test("beside: a step that fails does nothing, and the write is still to be done", () => {
  const { w, step } = halving(), mean = make([0, 0]).addInPlace(w), gone = make([1]), late = gone.mul(2);
  gone.dispose();
  const opt = new nn.optim.SGD([w], { lr: 0.25 });
  Tensor.train(() => {
    w.square().sum().backward();
    assertThrows(() => opt.step({ also: [late] }));
  });
  assertEquals(w.tolistSync(), [1, 2]);
  step();
  assertEquals([mean.tolistSync(), w.tolistSync()], [[1, 2], [0.5, 1]]);
});

Deno.test("beside: a lazy read is none, and a gradient through an overwritten weight is refused", () => {
  const { w, step } = halving(), read = w.mul(3), s = make([0, 0]).assign(w.mul(3));
  step();
  assertThrows(() => read.tolistSync(), StaleReadError);
  assertEquals(s.tolistSync(), [3, 6]);
  const t = make([0, 0]).assign(w.mul(3));
  w.assign([0, 0]).realize();
  assertThrows(() => t.add(w).sum().backward(), StaleReadError);
});

Deno.test("beside: what a step has made of weights beside it is a value from then on", () => {
  const w = new Tensor([[1, 2]], { dtype: "float32" }).reshape([2, 1]).realize(), x = make([1, 1], true);
  const mean = new Tensor([[0], [0]], { dtype: "float32" }).realize(), opt = new nn.optim.SGD([w], { lr: 0.25 });
  Tensor.train(() => {
    mean.assign(mean.mul(2).add(w));
    w.square().sum().backward();
    opt.step();
  });
  x.mul(mean.flatten()).sum().backward();
  assertEquals(x.grad!.tolistSync(), [1, 2]);
});

for (const [name, stepped] of Object.entries(STEPS)) {
  Deno.test(`beside: and after each of several, ${name}`, () => {
    const { w, step } = halving(), mean = make([0, 0]), x = make([1, 1], true);
    const go = stepped(step, () => void mean.assign(mean.mul(0.5).add(w)));
    for (let i = 0; i < 5; i++) {
      const lazy = w.add(1), kept = make([0, 0]).assign(lazy);
      go();
      x.grad = undefined;
      x.mul(mean).add(kept.mul(x)).sum().backward();
      assertEquals(x.grad!.tolistSync(), mean.add(kept).tolistSync());
    }
    const late = w.add(1);
    go();
    assertThrows(() => late.tolistSync(), StaleReadError, "before the optimizer's step");
  });
}

Deno.test("beside: what a scope leaves behind is forgotten", () => {
  const { w, step } = halving();
  step();
  const before = Device.memory().JS.bytes;
  for (let i = 0; i < 20; i++) {
    scope(() => {
      step();
      Tensor.zeros([1000], { device: "JS" }).clone().setAt([0], w.sum());
    });
  }
  assertEquals(Device.memory().JS.bytes, before);
});

Deno.test("beside: two weights that are stepped by hand, each by a gradient that reads both, between reads", async () => {
  const w = make([2], true), b = make([1], true);
  for (let i = 0, e = 3; i < 6; i++, e /= 2) {
    w.grad = b.grad = undefined;
    const loss = w.add(b).square().sum().backward();
    for (const p of [w, b]) p.subInPlace(p.grad!.mul(1 / 8));
    assertEquals(await loss.item(), e * e);
  }
  assertEquals([w.itemSync(), b.itemSync()], [0.5 + 1.5 / 64, -0.5 + 1.5 / 64]);
});
