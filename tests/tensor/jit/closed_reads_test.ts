/** Functions under jit whose variables are given other tensors: followed while they are, captured when that has ended. */
import { assertEquals } from "@std/assert";
import { Device, jit, nn, Tensor, Variable } from "../../../mod.ts";
import { settleMemory } from "../../../src/device/pressure.ts";

for (const name of ["JS", "WASM"]) await Device.open(name);

const made = (values: number[]): Tensor => new Tensor(values, { dtype: "float32" }).realize();

for (const device of ["JS", "WASM"]) {
  Deno.test(`jit closes over: state that the function gives its variables is followed (${device})`, async () => {
    Device.default = device;
    const run = async (wrap: (f: (x: Tensor) => Tensor) => (x: Tensor) => Tensor): Promise<unknown[]> => {
      const w = made([0.5, 2]), got: unknown[] = [];
      let h = Tensor.zeros([2]), c = Tensor.ones([2]);
      const cell = wrap((x) => {
        c = c.mul(w).add(x);
        h = h.add(c).tanh();
        return h;
      });
      for (let i = 0; i < 6; i++) got.push(await cell(made([i, -i])).tolist(), await h.tolist(), await c.tolist());
      return got;
    };
    const { error } = console, told: string[] = [];
    console.error = (text: string) => void told.push(text);
    try {
      assertEquals(await run(jit), await run((f) => f));
    } finally {
      console.error = error;
    }
    assertEquals(told.length, 1); // once, and with a way out
    assertEquals(
      /jit: a function .*variable that it closes over .*pass what changes as an argument/.test(told[0]),
      true,
    );
  });

  Deno.test(`jit closes over: state of an object, and of a list that is gone through, is followed (${device})`, async () => {
    Device.default = device;
    const { error } = console;
    console.error = () => {};
    try {
      const model = { h: made([1, 2]), calls: 0 }, batches = [made([1, 1]), made([2, 2]), made([3, 3])];
      const step = jit(() => {
        model.h = model.h.mul(0.5).add(batches[model.calls++ % 3]);
        return model.h;
      });
      let want = [1, 2];
      for (let i = 0; i < 7; i++) {
        want = want.map((v) => v * 0.5 + (i % 3 + 1));
        assertEquals(await step().tolist(), want);
      }
    } finally {
      console.error = error;
    }
  });
}

Deno.test("jit closes over: what a call leaves unread in a variable is that of its arguments, whoever drops or writes them", async () => {
  Device.default = "JS";
  for (const isReused of [false, true]) {
    const input = made([0, 0]), { error } = console;
    let total = Tensor.zeros([2]), h = Tensor.ones([2]), want = [0, 0];
    const step = jit((x: Tensor) => {
      total = total.add(x); // nobody reads it for now
      h = h.mul(2);
      return h;
    });
    console.error = () => {};
    try {
      for (let i = 1; i < 6; i++) {
        step(isReused ? input.assign(new Tensor([i, 1])) : made([i, 1]));
        want = [want[0] + i, want[1] + 1];
        if (isReused) total.realize(); // before its input is written again
        else await settleMemory();
      }
    } finally {
      console.error = error;
    }
    assertEquals([await total.tolist(), await h.tolist()], [want, [32, 32]]);
  }
});

Deno.test("jit closes over: what is made once, by the first call, costs one capture more", async () => {
  Device.default = "JS";
  const table = made([1, 2, 3]);
  let cache: Tensor | undefined;
  const f = jit((x: Tensor) => x.mul(cache ??= table.square().realize()));
  for (let i = 0; i < 6; i++) assertEquals(await f(made([1, 1, i])).tolist(), [1, 4, 9 * i]);
  assertEquals([f.stats.eager, f.stats.captures, f.stats.replays], [1, 2, 3]);
});

Deno.test("jit closes over: a variable that is given another tensor between the first calls is captured as it is then", async () => {
  Device.default = "JS";
  for (const when of [1, 2]) {
    let w = made([2]);
    const f = jit((x: Tensor) => x.mul(w));
    for (let i = 0; i < 6; i++) {
      if (i === when) w = made([3]);
      if (i === 2 && when === 2) f.reset(); // as the page says, once it is captured
      assertEquals(await f(made([i])).tolist(), [i * (i < when ? 2 : 3)]);
    }
    assertEquals(f.stats.replays, when === 1 ? 3 : 2);
  }
});

Deno.test("jit closes over: gradients, losses and other models are no variables of a function", async () => {
  Device.default = "JS";
  const w = new Tensor([1, 2], { requiresGrad: true }), opt = new nn.optim.SGD([w], { lr: 0.5 });
  const step = jit((x: Tensor) =>
    Tensor.train(() => {
      opt.zeroGrad();
      const loss = w.mul(x).sum().backward();
      opt.step();
      return loss;
    })
  );
  for (let i = 0; i < 6; i++) {
    const other = new Tensor([i], { requiresGrad: true });
    other.square().sum().backward();
    await step(made([1, 0])).item();
    assertEquals(await other.grad!.tolist(), [2 * i]);
  }
  assertEquals([await w.tolist(), step.stats.captures, step.stats.replays], [[-2, 2], 1, 4]);
});

Deno.test("jit closes over: a size among the arguments is none of them, though the first call makes what it closes over", async () => {
  const n = new Variable("n", 1, 5), x = Tensor.arange(5).float().contiguous().realize();
  let weight: Tensor | undefined;
  const f = jit((x: Tensor, n: Tensor) => x.shrink([[0, n]]).mul(weight ??= Tensor.full([1], 3).contiguous()).sum());
  const seen: unknown[] = [];
  for (const size of [2, 3, 4, 5]) seen.push(await f(x, n.bind(size)).item());
  assertEquals(seen, [3, 9, 18, 30]);
  assertEquals([f.stats.eager, f.stats.captures, f.stats.replays], [1, 1, 2]);
});
