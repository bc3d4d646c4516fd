/** Lazy gradients: what overwrites memory that one of them reads computes it as well, and the loss that filled it. */
import { assertEquals, assertThrows } from "@std/assert";
import { Device, jit, nn, StaleReadError, Tensor } from "../../../mod.ts";

await Device.open("JS");
Device.default = "JS";

const make = (x: number, requiresGrad = true) => new Tensor([x], { dtype: "float32", requiresGrad }).realize();
const step = (opt: nn.optim.Optimizer) => Tensor.train(() => opt.step());

/** How weights may be stepped by hand: each is done before the next one begins. */
const BY_HAND: Readonly<Record<string, (p: Tensor) => unknown>> = {
  "realized": (p) => p.assign(p.detach().sub(p.grad!.mul(1 / 8))).realize(),
  "read": (p) => p.subInPlace(p.grad!.mul(1 / 8)).tolistSync(),
  "by a jit function": (p) => jit((p: Tensor, g: Tensor) => void p.subInPlace(g.mul(1 / 8)).realize())(p, p.grad!),
  "by a part of it": (p) => p.at([0, 1]).assign(p.sub(p.grad!.mul(1 / 8))).realize(),
};

for (const [name, done] of Object.entries(BY_HAND)) {
  Deno.test(`open gradients: weights stepped by hand, each ${name}`, () => {
    const w = make(2), b = make(1);
    for (let i = 0, e = 3; i < 5; i++, e /= 2) {
      w.grad = b.grad = undefined;
      const loss = w.add(b).square().sum().backward();
      for (const p of [w, b]) done(p);
      assertEquals(loss.itemSync(), e * e);
    }
    assertEquals([w.itemSync(), b.itemSync()], [0.5 + 1.5 / 32, -0.5 + 1.5 / 32]);
  });
}

Deno.test("open gradients: an input that is moved along its gradient before the weights are stepped", () => {
  const x = make(1), w = make(2), opt = new nn.optim.SGD([w], { lr: 1 / 4 });
  const loss = x.mul(w).sum().backward();
  x.addInPlace(x.grad!.sign().mul(1 / 2)).realize();
  step(opt);
  assertEquals([x.itemSync(), w.itemSync(), loss.itemSync()], [1.5, 1.75, 2]);
});

Deno.test("open gradients: batches that follow one another in the same memory, with their losses read", () => {
  const x = make(0, false), w = make(2), opt = new nn.optim.SGD([w], { lr: 1 / 4 }), losses = [];
  for (const batch of [1, 3, 5]) {
    x.assign([batch]);
    losses.push(x.mul(w).sum().backward().itemSync());
  }
  step(opt);
  assertEquals([losses, w.itemSync()], [[2, 6, 10], 2 - 9 / 4]);
});

Deno.test("open gradients: another optimizer's step, also one that is replayed, and a loss that nobody keeps", () => {
  const w = make(2), v = make(1), ow = new nn.optim.SGD([w], { lr: 1 / 4 }), ov = new nn.optim.SGD([v], { lr: 1 / 4 });
  const f = () =>
    Tensor.train(() => {
      w.grad = undefined;
      w.square().sum().backward();
      ow.step();
    });
  let [a, b] = [2, 1];
  for (const g of [f, jit(f)]) {
    for (let i = 0; i < 4; i++) {
      v.grad = undefined;
      w.mul(v).sum().backward();
      g();
      step(ov);
      [a, b] = [a / 2, b - a / 4];
    }
  }
  assertEquals([w.itemSync(), v.itemSync()], [a, b]);
});

Deno.test("open gradients: one that reads what was overwritten before is in nobody's way", () => {
  const w = make(2), x = make(1), old = make(4, false);
  const loss = x.mul(old).mul(w).sum();
  old.assign([5]).realize();
  loss.backward();
  w.assign([3]).realize();
  assertThrows(() => x.grad!.itemSync(), StaleReadError);
  w.assign([4]).realize();
  assertEquals(w.itemSync(), 4);
});

Deno.test("open gradients: a state that is carried on over steps is realized with each, as the error says", () => {
  for (const also of [false, true]) {
    const w = make(2), opt = new nn.optim.SGD([w], { lr: 1 / 4 });
    let state = make(1, false), [a, s] = [2, 1];
    const go = () =>
      Tensor.train(() => {
        opt.zeroGrad();
        state = state.mul(w).detach().add(w);
        state.mul(2).sum().backward();
        opt.step(also ? { also: [state] } : {});
        state = state.detach();
        [s, a] = [s * a + a, a - 1 / 2];
      });
    go();
    if (!also) {
      assertThrows(() => [1, 2, 3].forEach(go), StaleReadError, "optimizer.step({ also: [state] })");
      continue;
    }
    for (let i = 0; i < 3; i++) go();
    assertEquals([w.itemSync(), state.itemSync()], [a, s]);
  }
});
