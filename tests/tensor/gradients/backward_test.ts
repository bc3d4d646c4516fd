/** backward() and gradient(): what is filled, what accumulates, what is refused. Values by the reference evaluator. */
import { assert, assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import { ArgumentError, Device, DTypeError, grad, ShapeError, StaleReadError, Tensor, vmap } from "../../../mod.ts";
import { forgetLosses, lossesOf } from "../../../src/tensor/gradients/backward.ts";
import { evaluateTensor } from "../../reference.ts";

Device.get(); // devices open outside of tests

const JS = { device: "JS" };
const leaf = (data: number[]) => new Tensor(data, { dtype: "float32", requiresGrad: true, ...JS });
const value = (t: Tensor | undefined) => t === undefined ? undefined : evaluateTensor(t).data;

Deno.test("backward: fills grad of what requires it, and of nothing else; returns the loss", () => {
  const a = leaf([1, 2, 3]), b = new Tensor([4, 5, 6], { dtype: "float32", ...JS }), other = leaf([7]);
  const loss = a.mul(b).sum();
  assertStrictEquals(loss.backward(), loss);
  assertEquals(value(a.grad), [4, 5, 6]);
  assertEquals(b.grad, undefined);
  assertEquals(other.grad, undefined);
  assertEquals([a.grad!.shape, a.grad!.dtype.name], [[3], "float32"]);
});

Deno.test("backward: accumulates over calls", () => {
  const a = leaf([1, 2]);
  a.square().sum().backward();
  a.sum().backward();
  assertEquals(value(a.grad), [3, 5]);
});

Deno.test("backward: reaches a leaf through any of its shapes", () => {
  const a = leaf([1, 2, 3, 4]).reshape([2, 2]);
  const w = leaf([1, 2, 3, 4]);
  w.reshape([2, 2]).matmul(a).add(w.reshape([2, 2]).T).sum().backward();
  assertEquals(value(w.grad), [4, 8, 4, 8]);
});

Deno.test("backward: constants with requiresGrad are leaves of their own", () => {
  const a = Tensor.ones([2], { requiresGrad: true, ...JS }), b = Tensor.ones([2], { requiresGrad: true, ...JS });
  a.mul(b).mul(a).sum().backward();
  assertEquals([value(a.grad), value(b.grad)], [[2, 2], [1, 1]]);
});

Deno.test("backward: a gradient of one's own, and detach", () => {
  const a = leaf([1, 2]);
  a.mul(a.detach()).backward([10, 100]);
  assertEquals(value(a.grad), [10, 200]);
});

Deno.test("backward: remembers losses weakly on the gradients, until forgotten", () => {
  const a = leaf([1, 2]), l1 = a.sum().backward(), l2 = a.square().sum().backward();
  const found = lossesOf([a.grad!]);
  assertEquals([found.length, found.some((t) => t.uop === l1.uop), found.some((t) => t.uop === l2.uop)], [
    2,
    true,
    true,
  ]);
  forgetLosses([a.grad!]);
  assertEquals(lossesOf([a.grad!]), []);
});

for (
  const [name, read] of [
    ["the loss", (_h: Tensor, l: Tensor) => l.realize()],
    ["what it is computed from", (h: Tensor) => h.realize()],
    ["both", (h: Tensor, l: Tensor) => void Tensor.realize([l, h])],
  ] as const
) {
  Deno.test(`backward: after ${name} has been read`, () => {
    const a = leaf([1, 2, 3]), h = a.square(), l = h.mul(h).sum();
    read(h, l);
    assertEquals(l.gradient([a, h]).map((t) => [...t.dataSync()]), [[4, 32, 108], [2, 8, 18]]);
    l.backward();
    assertEquals([...a.grad!.dataSync()], [4, 32, 108]);
    l.backward();
    assertEquals([...a.grad!.dataSync()], [8, 64, 216]);
    forgetLosses([a.grad!]);
  });
}

Deno.test("backward: a loss that has been read reads its intermediates again, and no weights of a later time", () => {
  const a = leaf([1, 2, 3]), h = a.exp2().contiguous(), l = h.square().sum();
  Tensor.realize([h, l]);
  const [g] = l.gradient([h]);
  assertEquals(g.schedule().length, 1);
  a.assign(a.add(1)).realize();
  const [late] = a.square().sum().realize().gradient([a]), w = leaf([2]), old = w.square().sum().realize();
  assertEquals([...late.dataSync()], [4, 6, 8]);
  w.assign(w.add(1)).realize();
  assertThrows(() => old.gradient([w]), StaleReadError, "backward_test.ts");
});

Deno.test("gradient: of intermediates, of unmarked tensors, and of gradients", () => {
  const x = new Tensor([2, 3], { dtype: "float32", ...JS }), y = x.mul(x), z = y.mul(y).sum();
  const [gx, gy] = z.gradient([x, y]);
  assertEquals([value(gx), value(gy)], [[32, 108], [8, 18]]);
  assertEquals(value(gx.sum().gradient([x])[0]), [48, 108]);
  assertEquals(value(z.gradient([x], { gradient: 10 })[0]), [320, 1080]);
});

Deno.test("backward: errors", () => {
  const a = leaf([1, 2]), i = new Tensor([1, 2], JS), constant = new Tensor(2.5);
  const rows: [() => unknown, new (...args: never[]) => Error, string][] = [
    [() => a.mul(2).backward(), ShapeError, "Cannot backward from a tensor of shape [2]: only a scalar has"],
    [() => a.backward([1, 2, 3]), ShapeError, "shapes [2] and [3]"],
    [() => i.sum().backward(), DTypeError, "int32"],
    [
      () => i.cast("float32").sum().backward(),
      ArgumentError,
      "nothing that this was computed from requires a gradient",
    ],
    [() => a.detach().sum().backward(), ArgumentError, "nothing that this was computed from requires a gradient"],
    [() => a.sum().gradient([i]), DTypeError, "int32"],
    [() => a.mul(2).sum().gradient([a.at([0, 1])]), ArgumentError, "compute from view.contiguous()"],
    [() => a.mul(constant).sum().gradient([constant]), ArgumentError, "constant"],
  ];
  for (const [run, kind, text] of rows) assertThrows(run, kind as new () => Error, text);
});

Deno.test("backward: what is flat gives zeros, and no error", () => {
  const flat: [string, (x: Tensor) => Tensor][] = [
    ["sign", (x) => x.sign()],
    ["copysign of another", (x) => new Tensor([2, 2, 2], { dtype: "float32", ...JS }).copysign(x)],
    ["x^0", (x) => x.pow(0)],
    ["round", (x) => x.round()],
    ["floorDiv", (x) => x.floorDiv(2)],
    ["dropout of all", (x) => Tensor.train(() => x.dropout(1))],
    ["the slope of a linear map", (x) => x.mul(2).sum().gradient([x])[0]],
    ["the determinant of an empty matrix", (x) => x.shrink([[0, 0]]).reshape([0, 1]).expand([0, 0]).det()],
    ["the sum of nothing", (x) => x.shrink([[0, 0]]).sum()],
  ];
  for (const [name, f] of flat) {
    const x = leaf([1, -2, 0]);
    f(x).sum().backward();
    assertEquals(value(x.grad)!.map((v) => Number(v) + 0), [0, 0, 0], name);
  }
});

Deno.test("gradient: zeros for a target that is not used, also of gradients", () => {
  const x = leaf([1, 2]), y = leaf([3]);
  assertEquals(value(x.square().sum().gradient([y])[0]), [0]);
  const [g] = x.mul(3).sum().gradient([x]);
  assertEquals(value(g), [3, 3]);
  assertEquals(value(g.mul(x).sum().gradient([x])[0]), [3, 3]);
  assertEquals(value(grad((v: Tensor) => grad((w: Tensor) => w.mul(3).sum())(v).sum())(x)), [0, 0]);
  const whole = leaf([1, 2, 3]), part = whole.at([0, 2]);
  assertThrows(() => whole.square().sum().gradient([part]), ArgumentError, "compute from view.contiguous()");
  const own = part.contiguous(); // the advice
  assertEquals(value(own.square().sum().gradient([own])[0]), [2, 4]);
});

Deno.test("gradient: vmap of functions with a formula", () => {
  const x = new Tensor([[1, -2], [0.5, 3]], { dtype: "float32", ...JS });
  const f = (v: Tensor) => v.abs().pow(1.5).add(v.cos()).sum();
  const each = vmap(grad(f))(x) as Tensor;
  assertEquals(value(each), [0, 1].flatMap((i) => [...value(grad(f)(x.at(i)))!]));
});

Deno.test("backward: tensors that are older than what was realized since stay there after a gradient read them", async () => {
  for (let realized = 0; realized < 4; realized++) {
    const x = new Tensor([2, 3], { dtype: "float32" }), w = new Tensor([5, realized], { dtype: "float32" });
    for (let i = 0; i < realized; i++) new Tensor([i, realized]).add(7).realize();
    for (let i = 0; i < 3; i++) {
      assertEquals(await grad((y: Tensor) => w.square().mul(y).sum())(x).tolist(), [25, realized ** 2]);
      assertEquals(await w.mul(x).sum().gradient([w])[0].tolist(), [2, 3]);
      assertEquals(await w.square().sum().gradient([w])[0].tolist(), [10, 2 * realized]);
    }
    assertEquals([await w.tolist(), await x.tolist()], [[5, realized], [2, 3]]);
  }
});

Deno.test("gradient: of what was read since it was computed is right or an error, and never zeros in silence", async () => {
  const made = (...values: number[]): Tensor => new Tensor(values, { dtype: "float32" }).realize();
  const lost: [string, () => Tensor | Promise<Tensor>][] = [
    ["realized", async () => {
      const x = made(1, 2), y = x.square().sum();
      await y.item();
      return y.gradient([x])[0];
    }],
    ["random and lazy", async () => {
      const x = Tensor.randn([2]), y = x.square().sum();
      await y.item();
      return y.gradient([x])[0];
    }],
    ["realized with it", () => {
      const x = Tensor.randn([2]), y = x.square().sum();
      Tensor.realize([x, y]);
      return y.gradient([x])[0];
    }],
    ["computed", async () => {
      const h = made(1, 2).mul(2), y = h.square().sum();
      await y.item();
      return y.gradient([h])[0];
    }],
    ["behind another", () => {
      const x = made(1, 2), h = x.mul(2).realize();
      return h.add(1).realize().square().sum().gradient([x])[0];
    }],
    ["there by another way, too", async () => {
      const x = made(1, 2), y = x.square().sum();
      await y.item();
      return y.mul(x).sum().gradient([x])[0];
    }],
    ["a gradient", async () => {
      const x = made(1, 2), [g] = x.pow(3).sum().gradient([x]);
      await g.tolist();
      return g.sum().gradient([x])[0];
    }],
    ["in grad", () => grad((x: Tensor) => x.square().sum().realize().mul(2))(made(1, 2))],
  ];
  for (const [name, make] of lost) {
    const error = await Promise.resolve().then(make).then(() => undefined, (e: unknown) => e as Error);
    assert(
      error instanceof ArgumentError && /set requiresGrad = true on the target/.test(error.message),
      `${name}: ${error}`,
    );
  }
  const x = made(-1, 2),
    unused = made(1),
    noise = Tensor.randn([2]).realize(),
    data = noise.sub(noise.mean()).realize();
  const right: [string, Tensor, number[]][] = [
    ["unused", x.square().sum().gradient([unused])[0], [0]],
    ["unused, beside data", x.mul(data).sum().gradient([unused])[0], [0]],
    ["a mask", x.mul(x.gt(0).cast("float32").realize()).sum().gradient([x])[0], [0, 1]],
    ["detached before", x.mul(x.detach().mul(2).realize()).sum().gradient([x])[0], [-2, 4]],
    ["detached after", x.mul(x.mul(2).realize().detach()).sum().gradient([x])[0], [-2, 4]],
    ["closed over by grad", grad((t: Tensor) => t.mul(x.mul(3).realize()).sum())(x), [-3, 6]],
  ];
  for (const [name, got, want] of right) assertEquals(await got.tolist(), want, name);
  let w = made(1, 2), b = made(0);
  for (let i = 0; i < 3; i++) { // weights of a loop by hand are values in each turn
    const [gw, gb] = x.mul(w).sum().add(b).square().sum().gradient([w, b]);
    w = w.sub(gw.mul(0.125));
    b = b.sub(gb.mul(0.125));
    Tensor.realize([w, b]);
  }
  assert(Number.isFinite(await w.sum().item()));
});

Deno.test("backward: gradients that it has filled are values, read or not, and whatever is written to weights since", async () => {
  const leaf = (x: number[]): Tensor => new Tensor(x, { dtype: "float32", requiresGrad: true }).realize();
  const losses: [name: string, loss: (w: Tensor, v: Tensor) => Tensor, slope: number[]][] = [
    ["a cube", (w) => w.mul(w).mul(w).sum(), [3, 12]],
    ["another leaf", (w, v) => w.mul(v).sum(), [3, 4]],
    ["another leaf, turned", (w, v) => w.mul(v.flip(0)).sum(), [4, 3]],
    ["what was read", (w, v) => w.mul(v.mul(2).realize()).sum(), [6, 8]],
  ];
  for (const [name, loss, slope] of losses) {
    for (const isRead of [false, true]) {
      for (const isWritten of [false, true]) {
        const w = leaf([1, 2]), v = leaf([3, 4]), u = leaf([1, 1]);
        loss(w, v).backward();
        const g = w.grad!, before = await v.grad?.tolist();
        if (isRead || isWritten) assertEquals(await g.tolist(), slope, name);
        if (isWritten) { for (const t of [w, v]) t.assign(0).realize(); }
        g.mul(u).sum().backward();
        assertEquals([await u.grad!.tolist(), await g.tolist()], [slope, slope], name);
        assertEquals([await w.grad!.tolist(), await v.grad?.tolist()], [slope, before], name);
      }
    }
  }
  const w = leaf([1, 2]), [slope] = w.mul(w).mul(w).sum().gradient([w]);
  slope.sum().backward(); // this one goes on
  assertEquals(await w.grad!.tolist(), [6, 12]);
  w.mul(w).sum().backward();
  w.mul(w).sum().backward();
  assertEquals(await w.grad!.tolist(), [10, 20]);
});
