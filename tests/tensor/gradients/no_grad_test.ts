/** Tensor.noGrad: what is computed there is a constant to gradients, whatever made it; writes and leaves are as ever. */
import { assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { ArgumentError, Device, grad, hessian, jit, jvp, nn, Tensor } from "../../../mod.ts";

Device.get("JS");
Device.get(); // devices open outside of tests
const JS = { device: "JS" } as const;
const leaf = (data: number[]) => new Tensor(data, { dtype: "float32", requiresGrad: true, ...JS });

/** What makes something of a leaf of two elements. */
const MADE: Readonly<Record<string, (w: Tensor) => Tensor>> = {
  "a product": (w) => w.mul(3),
  "a shape": (w) => w.reshape([2, 1]),
  "the same shape": (w) => w.reshape([2]),
  "a part": (w) => w.at([0, 1]),
  "a shape of a product": (w) => w.mul(3).reshape([2, 1]).permute([1, 0]),
  "a copy": (w) => w.clone(),
  "contiguous": (w) => w.contiguous(),
  "another dtype": (w) => w.cast("float64"),
  "another device": (w) => w.to("NULL"),
  "several ops": (w) => w.softmax().log().sum(),
  "joined": (w) => Tensor.cat([w, w]),
  "written into others": (w) => Tensor.zeros([2], JS).contiguous().setAt([0], w.at(1)),
  "assigned to others": (w) => Tensor.zeros([2], JS).contiguous().assign(w),
};

for (const [name, make] of Object.entries(MADE)) {
  Deno.test(`noGrad: ${name} is a constant`, () => {
    const w = leaf([1, 2]), made = Tensor.noGrad(() => make(w));
    assertThrows(() => made.sum().backward(), ArgumentError, "with Tensor.noGrad");
    assertEquals(make(w).sum().backward().shape, []);
    assertEquals(w.grad?.shape, [2], "outside it is none");
  });
}

Deno.test("noGrad: of a product only what was made outside counts", () => {
  const w = leaf([1, 2]);
  w.mul(Tensor.noGrad(() => w.mul(10))).sum().backward();
  assertEquals(w.grad!.tolistSync(), [10, 20]);
});

Deno.test("noGrad: a step by hand, and a write through a view, reach the leaf", () => {
  const w = leaf([1, 2]);
  for (let i = 0; i < 2; i++) {
    w.square().sum().backward();
    Tensor.noGrad(() => w.subInPlace(w.grad!.mul(0.25)));
    w.grad = undefined;
  }
  assertEquals([w.tolistSync(), w.requiresGrad], [[0.25, 0.5], true]);
  Tensor.noGrad(() => w.at(0).assign(5));
  w.square().sum().backward();
  assertEquals([w.tolistSync(), w.grad!.tolistSync()], [[5, 0.5], [10, 1]]);
});

Deno.test("noGrad: leaves made there are leaves; what required a gradient later is one from then on", () => {
  const [w, late] = Tensor.noGrad(() => [leaf([3]), leaf([2]).mul(2)]);
  late.requiresGrad = true;
  w.mul(late).sum().backward();
  assertEquals([w.grad!.tolistSync(), late.grad!.tolistSync()], [[4], [3]]);
});

Deno.test("noGrad: gradients that are asked for there are of what is computed there", () => {
  const x = leaf([1, 2]);
  Tensor.noGrad(() => {
    assertEquals(grad((t: Tensor) => t.square().sum())(x).tolistSync(), [2, 4]);
    assertEquals(jvp((t: Tensor) => t.square(), [x], [x])[1].tolistSync(), [2, 8]);
    assertEquals(hessian((t: Tensor) => t.square().sum())(x).tolistSync(), [[2, 0], [0, 2]]);
  });
  const slope = grad((t: Tensor) => Tensor.noGrad(() => t.mul(3)).mul(t).sum());
  assertEquals(slope(x).tolistSync(), [3, 6]);
});

Deno.test("noGrad: nests, and holds for what it awaits and nothing beside it", async () => {
  const w = leaf([1, 2]), seen: boolean[] = [];
  const late = Tensor.noGrad(async () => {
    await Promise.resolve();
    seen.push(Tensor.isGradEnabled());
    return w.mul(2);
  });
  seen.push(Tensor.isGradEnabled());
  const made = await late;
  assertThrows(() => made.sum().backward(), ArgumentError);
  seen.push(Tensor.inferenceMode(() => Tensor.isGradEnabled()), Tensor.isGradEnabled());
  assertEquals(seen, [true, false, false, true]);
  const open = Tensor.noGrad(() => Tensor.enableGrad(() => w.mul(2)));
  open.sum().backward();
  assertEquals(w.grad!.tolistSync(), [2, 2]);
  await assertRejects(() => Tensor.noGrad(() => Promise.reject(new Error("x"))), Error, "x");
  assertThrows(() => Tensor.noGrad(1 as never), ArgumentError, "fn must be a function, not 1");
  assertThrows(() => Tensor.noGrad(function* () {}), ArgumentError, "run a generator in Tensor.noGrad()");
});

Deno.test("noGrad: what is captured inside is not what is captured outside", () => {
  const w = leaf([1, 2]), x = Tensor.ones([2], JS).realize();
  const step = jit((x: Tensor) => {
    const y = w.mul(x);
    try {
      w.grad = undefined;
      y.sum().backward();
      return w.grad!;
    } catch (error) {
      assertMatch((error as Error).message, /noGrad/);
      return y;
    }
  });
  for (let i = 0; i < 3; i++) {
    assertEquals(step(x).tolistSync(), [1, 1]);
    assertEquals(Tensor.noGrad(() => step(x)).tolistSync(), [1, 2]);
  }
});

Deno.test("noGrad: a captured call reads the arguments of each call, and what they are parts of", () => {
  const w = leaf([1, 2]).realize(),
    whole = new Tensor([[1, 2], [3, 4], [5, 6], [7, 8]], { dtype: "float32", ...JS }).realize();
  const dot = jit((x: Tensor) => x.mul(w).sum()), update = jit((x: Tensor) => x.addInPlace(w));
  Tensor.noGrad(() => {
    for (let i = 0; i < 4; i++) {
      const x = new Tensor([i, 1], { dtype: "float32", ...JS }).realize();
      assertEquals(dot(x).itemSync(), i + 2, `call ${i}`);
      assertEquals(dot(whole.at(i)).itemSync(), 6 * i + 5, `row ${i}`);
      update(x);
      assertEquals(x.tolistSync(), [i + 1, 3]);
    }
  });
});

Deno.test("noGrad: an optimizer steps there, and evaluation between steps changes nothing of training", () => {
  const run = (evaluates: boolean): unknown => {
    Tensor.manualSeed(3);
    const layer = new nn.Linear(2, 1), optimizer = new nn.optim.Adam([layer.weight, layer.bias!], { lr: 0.1 });
    const x = new Tensor([[1, 2], [0.5, -1]]);
    const losses: number[] = [];
    for (let i = 0; i < 3; i++) {
      Tensor.train(() => {
        optimizer.zeroGrad();
        const loss = layer.call(x).square().mean().backward();
        Tensor.noGrad(() => optimizer.step());
        losses.push(loss.itemSync());
      });
      if (evaluates) Tensor.noGrad(() => layer.call(x).square().mean().itemSync());
    }
    return losses;
  };
  assertEquals(run(true), run(false));
});
