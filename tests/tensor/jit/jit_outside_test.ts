/** Tensors outside of jit functions, which these read, write and replace: on every device, call by call. @module */
import { deepStrictEqual as assertEquals, strictEqual, throws } from "node:assert/strict";
import { devicesHere } from "../../fixtures/devices.ts";
import { Device, DisposedError, jit, nn, Tensor } from "../../../mod.ts";
import { onDevice } from "../../support/on_device.ts";
import { realFloats as made } from "../../support/tensors.ts";

Device.default = "WASM";

Deno.test("jit: what is closed over is read where it is, and moves on", async () => {
  const w = made([1]), total = made([0]);
  const f = jit((x: Tensor) => {
    const y = x.mul(w);
    total.assign(total.add(y)).realize();
    return y;
  });
  let sum = 0;
  for (let i = 1; i < 7; i++) {
    assertEquals(await f(made([i])).tolist(), [i * i]);
    assertEquals(await total.tolist(), [sum += i * i]);
    w.assign(new Tensor([i + 1], { dtype: "float32" })).realize();
  }
});

const DEVICES = await devicesHere("WEBGPU", "CUDA");

/** Runs a check on every device. */
async function everywhere(check: () => Promise<void>): Promise<void> {
  for (const name of DEVICES) {
    await onDevice(name, check);
  }
}

Deno.test("jit: a lazy write to state outside comes once, before the next call", () =>
  everywhere(async () => {
    const want = [[2, 4, 6, 8, 10], [2, 2, 4, 6, 8], [2, 4, 2, 4, 6], [2, 4, 6, 2, 4]];
    for (let at = 0; at < 4; at++) {
      for (const start of [Tensor.zeros([2]).realize(), Tensor.zeros([2])]) {
        const h = start, f = jit((x: Tensor) => h.addInPlace(x).sum()), got: unknown[] = [];
        for (let i = 0; i < 5; i++) {
          if (i === at) h.assign(0);
          got.push(await f(made([1, 1])).item());
        }
        assertEquals(got, want[at]);
        strictEqual(f.stats.replays, 3);
      }
    }
    // state that is only read, through a view, in a ring, and many writes between two calls
    const buf = Tensor.zeros([4, 2]).realize(), row = buf.at([3]), sums: unknown[] = [];
    const total = jit((x: Tensor) => buf.sum().add(x));
    for (let i = 0; i < 7; i++) {
      buf.setAt([i % 3], made([i, i]));
      row.addInPlace(1);
      row.addInPlace(1);
      sums.push(await total(made([0])).item());
    }
    assertEquals(sums, [4, 10, 18, 28, 38, 48, 58]);
    const other = made([5]), reads = jit((x: Tensor) => x.add(1));
    for (let i = 0; i < 4; i++) {
      other.addInPlace(1); // nobody reads it
      assertEquals(await reads(made([i])).tolist(), [i + 1]);
    }
    assertEquals(await other.tolist(), [9]);
  }));

Deno.test("jit: a learning rate that is assigned to between steps", () =>
  everywhere(async () => {
    const p = made([0], true), opt = new nn.optim.SGD([p], { lr: 0.5 }), got: unknown[] = [];
    const step = jit((x: Tensor) =>
      Tensor.train(() => {
        opt.zeroGrad();
        p.mul(x).sum().backward();
        opt.step();
        return x.sum();
      })
    );
    for (let i = 1; i <= 5; i++) {
      opt.lr.assign(i);
      step(made([1]));
      got.push(await p.item());
    }
    assertEquals(got, [-1, -3, -6, -10, -15]);
  }));

Deno.test("jit: state and arguments that are written inside, and not realized there, are written in each call", () =>
  everywhere(async () => {
    const h = Tensor.zeros([2]).realize();
    const f = jit((x: Tensor) => {
      h.addInPlace(x);
      h.at(0).addInPlace(1);
      return x.sum();
    });
    for (let i = 1; i <= 5; i++) {
      f(made([1, 1]));
      if (i !== 3) assertEquals(await h.tolist(), [2 * i, i]);
    }
    const bn = new nn.BatchNorm(1, { momentum: 0.5 }), g = jit((x: Tensor) => Tensor.train(() => bn.call(x).sum()));
    for (let i = 1; i <= 5; i++) {
      g(Tensor.full([2, 1, 1, 1], 32, { dtype: "float32" }).realize());
      assertEquals(await bn.runningMean!.tolist(), [32 - 32 / 2 ** i]);
    }
    const set = jit((c: Tensor, x: Tensor) => {
      c.setAt([0], x);
      return x.sum();
    });
    const c = Tensor.zeros([3, 2]).realize(), d = Tensor.zeros([3, 2]).realize();
    for (let i = 1; i <= 6; i++) {
      const at = i < 5 ? c : d;
      at.addInPlace(1);
      set(at, made([i, i]));
      const rest = i < 5 ? i : i - 4;
      assertEquals(await at.tolist(), [[i, i], [rest, rest], [rest, rest]]);
    }
  }));

Deno.test("jit: results are values, also where they are state", () =>
  everywhere(async () => {
    const shows: ((h: Tensor) => Tensor)[] = [
      (h) => h,
      (h) => h.reshape([2, 1]),
      (h) => h.flip(0),
      (h) => h.detach(),
      (h) => h.contiguous(),
      (h) => h.contiguous().reshape([2, 1]),
      (h) => h.cast("float32"),
      (h) => h.sum(0, { keepdim: true }),
    ];
    for (const show of shows) {
      const h = made([0, 0]), f = jit((x: Tensor) => ({ it: show(h.addInPlace(x)) })), results: Tensor[] = [];
      for (let i = 0; i < 5; i++) results.push(f(made([1, 1])).it);
      const sums: unknown[] = [];
      for (const r of results) sums.push(await r.sum().item());
      assertEquals(sums, [2, 4, 6, 8, 10]);
      for (const r of results) r.addInPlace(100);
      assertEquals(await h.tolist(), [5, 5]);
    }
    const h = made([0]), f = jit((_: Tensor) => h), results: Tensor[] = [];
    for (let i = 0; i < 5; i++) {
      results.push(f(made([1])));
      h.addInPlace(1);
    }
    for (const [i, r] of results.entries()) assertEquals(await r.tolist(), [i]);
    // an argument that comes back, written, is the caller's own
    const c = made([0]), add = jit((x: Tensor) => x.addInPlace(1));
    for (let i = 1; i < 5; i++) {
      strictEqual(add(c), c);
      assertEquals(await c.tolist(), [i]);
    }
  }));

Deno.test("jit: a closed-over tensor that is replaced is captured anew", async () => {
  const w = made([2]), f = jit((x: Tensor) => x.mul(w));
  for (let i = 0; i < 3; i++) assertEquals(await f(made([i])).tolist(), [2 * i]);
  w.replace(made([5]));
  for (let i = 0; i < 3; i++) assertEquals(await f(made([i])).tolist(), [5 * i]);
  assertEquals([f.stats.captures, f.stats.retraces], [2, 1]);
});

Deno.test("jit: a handle that the function itself replaces moves on", async () => {
  const h = made([1, 1]),
    f = jit((x: Tensor) => {
      h.replace(h.mul(2).add(x));
      return h.sum();
    });
  let want = 1;
  for (let i = 0; i < 6; i++) {
    want = 2 * want + i;
    strictEqual(await f(made([i, i])).item(), 2 * want);
    assertEquals(await h.tolist(), [want, want]);
  }
});

Deno.test("jit: an argument that is also state is read before it is written", async () => {
  const acc = made([1]), f = jit((x: Tensor) => acc.assign(acc.add(x)).mul(1));
  f(made([1])), f(made([1])), f(made([1]));
  assertEquals(await f(acc).tolist(), [8]);
  assertEquals(await acc.tolist(), [8]);
  const g = jit((x: Tensor) => acc.assign(acc.add(x)).mul(1));
  for (let i = 0; i < 3; i++) g(acc);
  assertEquals(await acc.tolist(), [64]);
});

Deno.test("jit: a tensor that is lazy outside is filled once", async () => {
  const lazy = Tensor.full([2], 3).clone(), f = jit((x: Tensor, k: number) => x.add(lazy).mul(k));
  f(made([1, 1]), 1);
  const later = Tensor.full([2], 5, { dtype: "float32" }).clone();
  const g = jit((x: Tensor, first: boolean) => first ? x.mul(1) : later.assign(later.add(x)).mul(1));
  g(made([0, 0]), true);
  for (let i = 0; i < 5; i++) {
    assertEquals(await g(made([i, i]), false).tolist(), [[5, 5], [6, 6], [8, 8], [11, 11], [15, 15]][i]);
  }
  assertEquals(await later.tolist(), [15, 15]);
});

Deno.test("jit: what a call made for itself says so when it is used", async () => {
  let kept: Tensor | undefined;
  const f = jit((x: Tensor) => {
    kept = x.add(1).realize();
    return kept.mul(2);
  });
  f(made([1]));
  assertEquals(await kept!.tolist(), [2]);
  f(made([1]));
  throws(
    () => kept!.dataSync(),
    (e) => e instanceof DisposedError && /the end of the captured call, which keeps/.test(e.message),
  );
  assertEquals(await f(made([4])).tolist(), [10]);
});

Deno.test("jit: random numbers go on as they would", async () => {
  const w = Tensor.rand([2]);
  const body = (x: Tensor): Tensor => x.add(Tensor.rand([2])).add(Tensor.randn([2])).add(w);
  const draw = async (f: (x: Tensor) => Tensor): Promise<unknown[]> => {
    Tensor.manualSeed(11);
    const out: unknown[] = [];
    for (let i = 0; i < 5; i++) {
      out.push(await f(made([i, 0])).tolist());
      if (i === 2) Tensor.rand([5]); // draws outside
      if (i === 3) Tensor.manualSeed(12);
    }
    return out;
  };
  assertEquals(await draw(jit(body)), await draw(body));
});
