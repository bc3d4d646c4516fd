/** Reading and realizing change no gradient; what ends a graph does: detach, an optimizer's step, a write to a weight. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { ArgumentError, Device, nn, scope, StaleReadError, Tensor, Variable } from "../../../mod.ts";
import { nodesMade } from "../../../src/uop/core/uop.ts";
import { difference } from "../../tolerance.ts";

Device.default = "WASM"; // reads synchronously
Device.get(); // devices open outside of tests

const leaf = (data: number[]) => new Tensor(data, { dtype: "float32", requiresGrad: true });
const values = (t: Tensor | undefined) => t === undefined ? undefined : [...t.dataSync()];

/** What a program does with a tensor on its way: nothing, or something that looks at it. */
type Look = (t: Tensor) => Tensor;

const PROGRAMS: Readonly<Record<string, (w: Tensor, look: Look) => Tensor>> = {
  "a product": (w, look) => look(look(w.reshape([2, 3])).matmul(Tensor.ones([3, 2]).mul(2))).sum(),
  "a chain": (w, look) => look(look(w.exp()).mul(w)).square().sum(),
  "read twice": (w, look) => look(look(w.mul(3))).mul(w).sum(),
  "rearranged": (w, look) =>
    look(w.reshape([2, 3]).permute([1, 0])).permute([1, 0]).square().mul(look(w.flip(0)).reshape([2, 3])).sum(),
  "padded, cut and expanded": (w, look) =>
    look(look(w.pad([[1, 2]])).shrink([[0, 5]]).reshape([5, 1]).expand([5, 2])).square().sum(),
  "another dtype": (w, look) => look(look(w.cast("float64")).mul(1.5)).cast("float32").square().sum(),
  "a copy": (w, look) => look(look(w.mul(2)).clone()).square().sum(),
  "contiguous": (w, look) => look(look(w.mul(2)).contiguous().reshape([3, 2])).square().sum(),
  "joined": (w, look) => Tensor.cat([look(w.mul(2)), look(w.square())]).square().sum(),
  "a softmax": (w, look) => look(look(w.softmax()).log()).mul(w).sum(),
  "a scalar": (w, look) => look(look(w.sum()).mul(w.mean())).square(),
  "both read and not": (w, look) => {
    const h = w.square(), early = h.sum();
    return look(h).mul(w).sum().add(early);
  },
  "detached in part": (w, look) => look(look(w.square()).detach()).mul(look(w.mul(2))).sum(),
  "written into": (w, look) => {
    const t = Tensor.zeros([8]).clone();
    t.setAt([[1, 7]], look(w.square()));
    return t.mul(t).sum();
  },
  "of a bound length": (w, look) => look(look(w.shrink([[0, new Variable("n", 1, 6).bind(4)]])).square()).mul(2).sum(),
};

const LOOKS: Readonly<Record<string, Look>> = {
  "read": (t) => (t.dataSync(), t),
  "realized": (t) => t.realize(),
  "realized with its square": (t) => t.realize([t.square()]),
  "read as another shape": (t) => (t.reshape([-1, 1]).dataSync(), t),
  "read detached": (t) => (t.detach().dataSync(), t),
  "realized with its detached self": (t) => (Tensor.realize([t.detach(), t, t.detach().mul(1)]), t),
};

/** Kernels are cut elsewhere, so that sums may round otherwise. */
function assertSame(got: Tensor | undefined, want: ArrayLike<number>): void {
  assertEquals(difference(got!.dataSync() as Float32Array, want, { relative: 1e-6, absolute: 1e-6 }), undefined);
}

for (const [name, program] of Object.entries(PROGRAMS)) {
  const w = leaf([1, -2, 3, 0.5, -1, 2]), plain = program(w, (t) => t);
  plain.backward();
  const want = w.grad!.dataSync() as Float32Array, loss = plain.dataSync() as Float32Array;
  for (const [how, look] of Object.entries(LOOKS)) {
    if (name === "of a bound length" && how === "read as another shape") continue;
    Deno.test(`origins: ${name}, ${how}`, () => {
      const w = leaf([1, -2, 3, 0.5, -1, 2]), l = program(w, look);
      assertSame(l, loss);
      l.backward();
      assertSame(w.grad, want);
      const v = leaf([1, -2, 3, 0.5, -1, 2]);
      assertSame(program(v, look).gradient([v])[0], want);
    });
  }
}

Deno.test("origins: what is built on a realized tensor runs only what is new, forward and for the gradient", () => {
  const w = leaf([1, 2, 3]), h = w.exp2().realize(), l = h.square().sum();
  assertEquals(l.schedule().length, 1);
  const [g] = l.gradient([h]);
  assertEquals([g.schedule().length, values(g)], [1, [4, 8, 16]]);
});

Deno.test("origins: gradients of gradients", () => {
  const w = leaf([1, 2, 3]), h = w.square().realize();
  const [g] = h.mul(h).sum().gradient([w]); // w^4
  assertEquals(values(g), [4, 32, 108]);
  const [gg] = g.mul(1).sum().gradient([w]);
  assertEquals(values(gg), [12, 48, 108]);
});

Deno.test("origins: a leaf that was computed from another", () => {
  const w = leaf([1, 2]), h = w.square();
  h.requiresGrad = true;
  h.realize().mul(3).sum().backward();
  assertEquals([values(h.grad), values(w.grad)], [[3, 3], [6, 12]]);
});

Deno.test("origins: no way on where there was none", () => {
  const w = leaf([1, 2]), off = leaf([3, 4]);
  off.requiresGrad = false;
  const h = w.mul(off).realize(), d = h.detach().realize();
  assertThrows(() => d.mul(2).sum().backward(), ArgumentError);
  h.sum().backward();
  assertEquals([values(w.grad), off.grad], [[3, 4], undefined]);
});

Deno.test("origins: a read that comes after an optimizer's step says what to do, and that works", () => {
  const w = leaf([1, 2]), o = new nn.optim.SGD([w], { lr: 0.5 });
  const train = (step: (accuracy: Tensor) => void): Tensor =>
    Tensor.train(() => {
      o.zeroGrad();
      w.square().sum().backward();
      const accuracy = w.mul(5).sum();
      step(accuracy);
      return accuracy;
    });
  const late = train(() => o.step());
  const advice = "before the optimizer's step, or realized with it: Tensor.realize([w.grad, accuracy, ...";
  for (const read of [w.grad!, late, w.grad!.square().sum()]) {
    assertThrows(() => read.dataSync(), StaleReadError, advice);
  }
  w.assign([1, 2]).realize();
  const accuracy = train((accuracy) => Tensor.realize([w.grad!, accuracy, ...o.scheduleStep()]));
  assertEquals([values(w.grad), values(accuracy), values(w)], [[2, 4], [15], [0, 0]]);
});

Deno.test("origins: running statistics are written with the step, whether the optimizer was given them or not", () => {
  for (const all of [false, true]) {
    const layer = new nn.BatchNorm(2), w = leaf([1, 2]);
    const given = [w, layer.weight!, layer.bias!, ...all ? [layer.runningMean!, layer.runningVar!] : []];
    const o = new nn.optim.SGD(given, { lr: 0.5 });
    Tensor.train(() => {
      layer.call(w.mul(new Tensor([[1, 2], [3, 5]]))).square().mean().backward();
      o.step();
    });
    assertEquals(values(layer.runningMean), [0.2, 0.7].map(Math.fround));
  }
});

const lr = { lr: 0.5 };
const ADDED: Readonly<
  Record<string, (w: Tensor) => [o: nn.optim.Optimizer | nn.optim.OptimizerGroup, go: () => void]>
> = {
  "an optimizer": (w) => {
    const o = new nn.optim.SGD([w], lr);
    return [o, () => (w.square().sum().backward(), o.step())];
  },
  "a group": (w) => {
    const v = leaf([1, 1]), o = new nn.optim.OptimizerGroup(new nn.optim.SGD([w], lr), new nn.optim.SGD([v], lr));
    return [o, () => (w.square().mul(v.square()).sum().backward(), o.step())];
  },
  "clipped gradients": (w) => {
    const o = new nn.optim.SGD([w], lr);
    return [o, () => (w.square().sum().backward(), nn.optim.clipGradNorm([w], 100), o.step())];
  },
  "a scaler": (w) => {
    const o = new nn.optim.SGD([w], lr), scaler = new nn.optim.GradScaler();
    return [o, () => (scaler.backward(w.square().sum()), scaler.step(o))];
  },
};
for (const [name, make] of Object.entries(ADDED)) {
  Deno.test(`origins: a gradient that ${name} added up over a step says to call zeroGrad(), and that works`, () => {
    const w = leaf([1, 2]), [optimizer, go] = make(w), train = () => Tensor.train(go);
    train();
    assertEquals(values(w), [0, 0]);
    for (let i = 0; i < 2; i++) {
      assertThrows(train, StaleReadError, "call optimizer.zeroGrad() before backward(), or, to add gradients up over");
      assertEquals(values(w), [0, 0]);
    }
    w.assign([3, 1]).realize();
    optimizer.zeroGrad();
    if (name === "a group") return;
    train();
    assertEquals(values(w), [0, 0]);
  });
}

Deno.test("origins: gradients add up over steps where each is realized with its step, as the error says", () => {
  const w = leaf([1, 2]), o = new nn.optim.SGD([w], { lr: 0.25 });
  const train = () =>
    Tensor.train(() => {
      w.square().sum().backward();
      Tensor.realize([w.grad!, ...o.scheduleStep()]);
    });
  train();
  train();
  assertEquals([values(w), values(w.grad)], [[-0.25, -0.5], [3, 6]]);
});

Deno.test("origins: inside of scope()", () => {
  const w = leaf([1, 2]);
  scope(() => {
    w.square().realize().mul(w).sum().realize().backward();
    w.grad!.realize();
    return w;
  });
  assertEquals(values(w.grad), [3, 12]);
});

Deno.test("origins: a write to a weight makes earlier graphs stale, and says both lines", () => {
  for (const realize of [true, false]) {
    const w = leaf([1, 2]), other = leaf([1, 1]);
    const lazy = w.square().sum(), read = w.square().realize(), built = read.mul(other).sum();
    w.assign(w.add(1));
    if (realize) w.realize();
    for (const stale of [lazy, built, read.mul(2).sum(), read.mul(2).realize().sum()]) {
      const e = assertThrows(() => stale.backward(), StaleReadError, "or detach() what was computed before it");
      assert(/origins_test\.ts:\d+/.test(e.writtenAt) && /origins_test\.ts:\d+/.test(e.readAt), e.message);
    }
    assertEquals([w.grad, other.grad], [undefined, undefined]);
    read.detach().mul(w).sum().backward();
    assertEquals(values(w.grad), [1, 4]);
  }
});

/** A step of an optimizer on `w`, which is read by `loss`. */
function step(optimizer: nn.optim.Optimizer, loss: Tensor): void {
  Tensor.train(() => {
    optimizer.zeroGrad();
    loss.backward();
    optimizer.step();
  });
}

Deno.test("origins: zeroGrad() between forward and backward", () => {
  const w = leaf([1, 2]), optimizer = new nn.optim.SGD([w], { lr: 0.5 });
  for (let i = 0; i < 3; i++) {
    const h = w.mul(2).realize(), loss = h.sum().realize();
    step(optimizer, loss);
  }
  assertEquals(values(w), [-2, -1]);
});

Deno.test("origins: an optimizer's step ends the graphs of its time", () => {
  const w = leaf([1, 2]), optimizer = new nn.optim.SGD([w], { lr: 0.5 });
  const before = w.mul(2).realize(), total = w.sum().realize();
  step(optimizer, w.sum());
  optimizer.zeroGrad();
  before.mul(w).sum().add(total).backward();
  assertEquals(values(w.grad), [2, 4]);
  for (const past of [before.sum(), total]) {
    assertThrows(() => past.backward(), ArgumentError, "a graph ends with the optimizer's step");
  }
});

Deno.test("origins: a step of one optimizer leaves the graphs to the weights of another", () => {
  const g = leaf([1, 2]), d = leaf([3, 4]), made = g.square().realize();
  const optimizer = new nn.optim.SGD([d], { lr: 1 });
  const score = made.mul(d).realize();
  step(optimizer, made.detach().mul(d).sum());
  assertThrows(() => score.sum().backward(), StaleReadError);
  made.sum().backward();
  assertEquals(values(g.grad), [2, 4]);
});

Deno.test("origins: models that were trained before cost those that are trained now nothing", () => {
  const x = new Tensor([[1, 2, 3], [4, 5, 6]], { dtype: "float32" }).realize(), made: number[] = [];
  for (let k = 0; k < 6; k++) {
    const start = nodesMade(), layer = new nn.Linear(3, 2);
    const o = new nn.optim.LAMB([layer.weight, layer.bias!], { lr: 0.01 });
    for (let i = 0; i < 3; i++) {
      Tensor.train(() => {
        o.zeroGrad();
        layer.call(x).square().sum().backward();
        o.step();
      });
    }
    made.push(nodesMade() - start);
  }
  // walking the graphs of their gradients again made 13 nodes more for each model; a collection of garbage may make some once
  assert(Math.min(...made.slice(3)) - made[1] < 13, made.join());
});
