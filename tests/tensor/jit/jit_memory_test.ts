/** Arguments of jit functions that are one another, or what the function closes over: in each call what plain calls give. */
import { deepStrictEqual as assertEquals, ok, strictEqual, throws } from "node:assert/strict";
import { context, Device, jit, StaleReadError, Tensor } from "../../../mod.ts";

const DEVICES = ["JS", "WASM"];
for (const name of DEVICES) await Device.open(name);

type Pick = (t: Tensors) => Tensor[];
/** Tensors of memory of their own: `w` and `v` are leaves. */
interface Tensors {
  readonly a: Tensor;
  readonly b: Tensor;
  readonly h: Tensor;
  readonly w: Tensor;
  readonly v: Tensor;
}
/** A function of some of them, and the arguments of its calls. */
type Row = readonly [name: string, fn: (t: Tensors, x: Tensor, y: Tensor) => Tensor | Tensor[], calls: readonly Pick[]];

function four(...picks: Pick[]): Pick[] {
  return [0, 1, 2, 3].flatMap(() => picks);
}

const ROWS: readonly Row[] = [
  ["state that is the argument, read after it is written", (t, x) => {
    t.h.addInPlace(1);
    return x.sum();
  }, four((t) => [t.h])],
  ["state that is the argument, read before it is written", (t, x) => {
    const sum = x.sum();
    t.h.addInPlace(1);
    return sum;
  }, four((t) => [t.h])],
  ["state that is the argument, now and then", (t, x) => {
    t.h.addInPlace(1);
    return x.sum();
  }, four((t) => [t.a], (t) => [t.h], (t) => [t.b], (t) => [t.h])],
  ["an argument that is written, and read under its own name", (t, x) => {
    x.addInPlace(1);
    return t.a.sum();
  }, four((t) => [t.b], (t) => [t.b], (t) => [t.a])],
  ["one tensor twice", (_, x, y) => {
    x.addInPlace(1);
    return y.sum();
  }, four((t) => [t.a, t.a])],
  ["one tensor twice, or two", (_, x, y) => {
    x.addInPlace(1);
    return y.mul(x);
  }, four((t) => [t.a, t.b], (t) => [t.a, t.a], (t) => [t.b, t.a], (t) => [t.b, t.b])],
  ["two that are written", (_, x, y) => {
    x.addInPlace(1);
    y.mulInPlace(2);
    return x.add(y);
  }, four((t) => [t.a, t.a], (t) => [t.a, t.b], (t) => [t.b, t.a])],
  ["one is assigned to the other, and state", (t, x, y) => {
    x.assign(y);
    t.h.addInPlace(x);
    return y.mul(1);
  }, four((t) => [t.a, t.h], (t) => [t.h, t.h], (t) => [t.h, t.a], (t) => [t.a, t.b])],
  ["through a view", (t, x) => {
    t.h.at([0, 1]).addInPlace(1);
    return x.sum();
  }, four((t) => [t.h], (t) => [t.a])],
  [
    "a view of what is written",
    (_, x) => x.addInPlace(1),
    four((t) => [t.a.reshape([2, 1])], (t) => [t.b.reshape([2, 1])]),
  ],
  [
    "a view of a written argument comes back",
    (_, x) => x.addInPlace(1).reshape([2, 1]),
    four((t) => [t.a], (t) => [t.b]),
  ],
  ["a part of a tensor", (_, x) => x.addInPlace(1).sum(), four((t) => [t.a.at([0, 1])], (t) => [t.b.at([1, 2])])],
  [
    "a part comes back",
    (_, x) => x.mulInPlace(2),
    four((t) => [t.a.at(1)], (t) => [t.b.at(0)], (t) => [t.a.flip(0).at(0)]),
  ],
  ["a part of a part", (_, x) => x.at(0).addInPlace(1).mul(1), four((t) => [t.a.at([0, 1])], (t) => [t.b.at([1, 2])])],
  ["parts of one tensor", (_, x, y) => {
    x.assign(y);
    y.addInPlace(1);
    return x.add(y);
  }, four((t) => [t.a.at(0), t.a.at(1)], (t) => [t.a.at(1), t.a.at(1)], (t) => [t.b.at(0), t.a.at(0)])],
  ["a part, and all", (_, x, y) => {
    x.addInPlace(1);
    return y.sum();
  }, four((t) => [t.a.at([0, 1]), t.a], (t) => [t.a.at([0, 1]), t.b], (t) => [t.a.reshape([2, 1]).at(0), t.a])],
  ["all, and a part", (_, x, y) => {
    x.addInPlace(1);
    return y.mul(2);
  }, four((t) => [t.a, t.a.at(0)], (t) => [t.b, t.a.at(0)])],
  ["a part of state that is written, too", (t, x) => {
    t.h.addInPlace(1);
    return x.sum();
  }, four((t) => [t.h.at([0, 1])], (t) => [t.a.at([0, 1])])],
  ["it comes back beside state", (t, x) => {
    t.h.addInPlace(x);
    return [x, t.h];
  }, four((t) => [t.a], (t) => [t.h])],
  ["it comes back as it is", (t, x, y) => [t.h.addInPlace(y).mul(1), x], four((t) => [t.a, t.b], (t) => [t.b, t.a])],
  ["it is assigned to itself", (t, x) => t.h.assign(x).mul(1), four((t) => [t.h], (t) => [t.h], (t) => [t.a])],
  ["a leaf, and its name", (t, x) => x.add(t.w), four((t) => [t.w], (t) => [t.v], (t) => [t.a])],
  ["a leaf twice", (_, x, y) => {
    x.mul(y).sum().backward();
    return x.sum();
  }, four((t) => [t.w, t.w])],
  ["gradients of each leaf that is an argument", (_, x) => {
    x.square().sum().backward();
    return x.sum();
  }, four((t) => [t.w], (t) => [t.v])],
];

for (const device of DEVICES) {
  for (const [name, fn, calls] of ROWS) {
    Deno.test(`jit: memory of arguments: ${name} (${device})`, async () => {
      Device.default = device;
      type Wrap = (f: (x: Tensor, y: Tensor) => Tensor | Tensor[]) => (x: Tensor, y: Tensor) => Tensor | Tensor[];
      const run = async (wrap: Wrap): Promise<unknown[]> => {
        const made = (values: number[], requiresGrad = false): Tensor =>
          new Tensor(values, { dtype: "float32", requiresGrad }).realize();
        const t = {
          a: made([1, 2]),
          b: made([10, 20]),
          h: made([100, 200]),
          w: made([3, 4], true),
          v: made([5, 7], true),
        };
        const f = wrap((x, y) => fn(t, x, y)), out: unknown[] = [];
        for (const pick of calls) {
          const [x, y = x] = pick(t), results = [f(x, y)].flat();
          out.push(await Promise.all(results.map((r) => r.tolist())));
          const state = [...Object.values(t), ...[t.w, t.v].flatMap((leaf) => leaf.grad ?? [])];
          out.push(await Promise.all(state.map((s) => s.tolist())));
        }
        return out;
      };
      const want = await run((f) => f);
      assertEquals(await run(jit), want);
      assertEquals(await run((f) => jit(jit(f))), want);
      assertEquals(await context({ JIT: 0 }, () => run(jit)), want);
      await context({ JIT_CHECK: 1 }, async () => assertEquals(await run(jit), want));
    });
  }
}

Deno.test("jit: a part of a tensor stays one", async () => {
  const grid = Tensor.zeros([3, 2]).realize(), row = grid.at(1), sum = jit((x: Tensor) => x.sum());
  for (let i = 0; i < 3; i++) await sum(row).item();
  row.assign([1, 2]);
  assertEquals(await grid.tolist(), [[0, 0], [1, 2], [0, 0]]);
  const grow = jit((x: Tensor) => x.mulInPlace(2).add(1)), rest = grid.at([1, 3]);
  for (let i = 0; i < 3; i++) assertEquals(await grow(row).tolist(), [2 ** i * 2 + 1, 2 ** i * 4 + 1]);
  assertEquals([await row.tolist(), await grid.tolist()], [[8, 16], [[0, 0], [8, 16], [0, 0]]]);
  for (let i = 0; i < 3; i++) grow(rest.at(":", 0)); // a column of it
  assertEquals(await grid.tolist(), [[0, 0], [64, 16], [0, 0]]);
  strictEqual(grow.stats.replays, 3); // the first column was to tell whether the row is closed over, too
});

Deno.test("jit: a part of what a function closes over is written through an argument", async () => {
  for (const JIT_CHECK of [0, 1]) {
    await context({ JIT_CHECK }, async () => {
      const grid = Tensor.zeros([3, 2]).realize(), turned = grid.flip(0), row = grid.at(2);
      const step = jit((x: Tensor) => (x.addInPlace(1), grid.sum())), got: unknown[] = [];
      const other = jit((x: Tensor) => turned.at(0).assign(x.addInPlace(1)).sum());
      for (let i = 0; i < 4; i++) got.push(await step(grid.at(1)).item(), await step(row).item());
      assertEquals(got, [2, 4, 6, 8, 10, 12, 14, 16]);
      for (let i = 0; i < 4; i++) assertEquals(await other(grid.at(0)).item(), 2 * i + 2);
      assertEquals(await grid.tolist(), [[4, 4], [4, 4], [4, 4]]);
      // one that is closed over by another function alone is no matter
      const free = jit((x: Tensor) => x.addInPlace(1).sum());
      for (let i = 0; i < 4; i++) free(grid.at(0));
      strictEqual(free.stats.replays, 1);
    });
  }
});

/** Views of a [4, 3] tensor. */
const VIEWS: Record<string, (t: Tensor) => Tensor> = {
  "itself": (t) => t,
  "turned": (t) => t.flip([1]),
  "transposed": (t) => t.permute([1, 0]),
  "a part": (t) => t.at([1, 3]),
  "as bits": (t) => t.at([0, 2]).bitcast("uint32"),
  "reshaped": (t) => t.reshape([3, 4]),
  "detached": (t) => t.detach(),
  "a row": (t) => t.at(1).reshape([1, 3]),
  "a view of views": (t) => t.permute([1, 0]).at([1, 3]).flip([0]),
};
const BODIES: readonly ((x: Tensor) => Tensor)[] = [
  (x) => (x.at([0, 1]).addInPlace(8), x),
  (x) => x.addInPlace(2).at([0, 1]),
  (x) => x.assign(x.flip([0]).add(1)).flip([0]),
  (x) => (x.addInPlace(1).realize(), x.mulInPlace(2)),
  (x) => (x.setAt([0], 5), x.mul(2)),
  (x) => x,
  (x) => x.flip([0]),
];
/** Calls whose results are arguments of later ones; what they give is read at the end. */
const CHAINS: readonly ((f: (x: Tensor) => Tensor, g: (x: Tensor) => Tensor, t: Tensor, x: Tensor) => Tensor[])[] = [
  (f, _, t, x) => [0, 1, 2, 3].reduce((all) => [...all, f(all[all.length - 1])], [t, x]),
  (f, g, t, x) => [f, g, f, g, f].reduce((all, h) => [...all, h(all[all.length - 1])], [t, x]),
  (f, _, t, x) => [t, f(x), f(x), f(x), f(x)],
  (f, _, t, x) => {
    const a = f(x);
    a.addInPlace(1);
    const b = f(a), c = f(x);
    t.addInPlace(1);
    return [t, f(b), f(c), x.clone()];
  },
  (f, _, t, x) => [t, ...[0, 1, 2, 3].map(() => f(x).addInPlace(1).clone())],
];
for (const [name, view] of Object.entries(VIEWS)) {
  Deno.test(`jit: results that are arguments, ${name}, are arguments again`, () => {
    Device.default = "JS";
    const run = (wrap: (f: (x: Tensor) => Tensor) => (x: Tensor) => Tensor): string[] =>
      BODIES.flatMap((body) =>
        CHAINS.map((chain) => {
          const t = new Tensor([[8, 2, 5], [1, 0, 3], [4, 7, 6], [9, 11, 10]], { dtype: "int32" });
          const all = chain(wrap(body), wrap((x) => x.addInPlace(x.flip([0]))), t, view(t));
          return JSON.stringify(all.map((x) => x.tolistSync()));
        })
      );
    const results = new WeakSet<Tensor>();
    const want = run((f) => (x) => {
      const y = f(x), isAll = y === x || (x.shape[0] === 1 && results.has(x)); // a part of an argument is a value
      const result = (isAll ? y : y.clone()).realize();
      results.add(result);
      return result;
    });
    assertEquals(run(jit), want);
    context({ JIT_CHECK: 1 }, () => assertEquals(run(jit), want));
  });
}

Deno.test("jit: state that got other memory in the first call is an argument, too", () => {
  Device.default = "JS";
  const run = (wrap: (f: (x: Tensor, y: Tensor) => Tensor) => (x: Tensor, y: Tensor) => Tensor): unknown[] => {
    const t = new Tensor([-1, 1, 4, 7], { dtype: "int32" }).reshape([4]), out: unknown[] = [];
    const f = wrap((x, y) => (t.addInPlace(y), x.at([0, 4])));
    for (let i = 0; i < 4; i++) {
      const x = f(t, t);
      out.push(x.tolistSync(), f(x, t).tolistSync(), t.tolistSync());
    }
    return out;
  };
  assertEquals(run(jit), run((f) => (x, y) => f(x, y).realize()));
});

Deno.test("jit: two names of one memory, of which an earlier call had one, are taken alike", () => {
  Device.default = "JS";
  const run = (wrap: (f: (x: Tensor, y: Tensor) => Tensor) => (x: Tensor, y: Tensor) => Tensor): unknown[] => {
    const t = new Tensor([-1, 5, 7], { dtype: "int32" }).realize(), square = t.mul(t), same = t.permute([0]);
    const f = wrap((_, y) => (y.mulInPlace(square), square.mul(1)));
    return [f(same, square), f(t, same), f(same, t)].map((x) => x.tolistSync());
  };
  assertEquals(run(jit), run((f) => (x, y) => f(x, y).realize()));
});

Deno.test("jit: arguments of which one is a view of the other are that inside", async () => {
  Device.default = "JS";
  const views = [(t: Tensor) => t.reshape([2, 1]), (t: Tensor) => t.at([0, 2]), (t: Tensor) => t.detach()];
  for (const view of views) {
    const f = jit((x: Tensor, y: Tensor) => (y.addInPlace(1), x.mul(1)));
    for (let i = 0; i < 5; i++) {
      const t = new Tensor([2, 3], { dtype: "int32" }).realize(), v = view(t);
      assertEquals(await f(t, v).tolist(), [3, 4]);
      assertEquals([await v.reshape([2]).tolist(), await t.tolist()], [[3, 4], [3, 4]]);
      const w = view(t); // of one more what a write to the other overwrites is read
      assertEquals(await f(view(t), w).reshape([2]).tolist(), [3, 4]);
      assertEquals([await w.reshape([2]).tolist(), await t.tolist()], [[4, 5], [4, 5]]);
    }
  }
});

Deno.test("jit: an argument that was overwritten again through what it is a view of does not show that", () => {
  Device.default = "JS";
  for (const JIT_CHECK of [0, 1]) {
    context({ JIT_CHECK }, () => {
      const t = new Tensor([2], { dtype: "int32" }).realize();
      const f = jit((x: Tensor) => (x.mulInPlace(3), t.addInPlace(t), x.sum()));
      for (let i = 0, want = 2; i < 4; i++, want *= 6) {
        const x = t.at([0, 1]);
        strictEqual(f(x).itemSync(), want * 3);
        throws(() => x.tolistSync(), StaleReadError);
        assertEquals(t.tolistSync(), [want * 6]);
      }
    });
  }
});

Deno.test("jit: what a call wrote through a part of it is no state of the function", async () => {
  Device.default = "JS";
  const made = (): Tensor => new Tensor([1, 2], { dtype: "int32" }).realize(), t = made();
  const f = jit((x: Tensor, y: Tensor) => (x.mulInPlace(3), y.at([0, 2]))), view = f(made(), t);
  t.setAt([0], 2);
  f(view, made());
  t.setAt([0], 7);
  f(made(), made()); // no reason to do that write
  ok(!t.isRealized);
  assertEquals(await Promise.all([view, t].map((x) => x.tolist())), [[7, 6], [7, 6]]);
});

Deno.test("jit: what was not real when it was closed over is an argument later", () => {
  Device.default = "JS";
  const run = (wrap: (f: (x: Tensor, y: Tensor) => Tensor) => (x: Tensor, y: Tensor) => Tensor): unknown[] => {
    const t = new Tensor([1, 3, 6], { dtype: "int32" }).realize(), square = t.mul(t), sum = t.sum().add(t.flip(0));
    const f = wrap((_, y) => (square.pad([0, 0]).reshape([3, 1]).realize(), y.at([0, 2]).addInPlace(9), y));
    const calls = [[sum, sum], [square, sum], [sum, square.detach()], [square, square]] as const;
    return calls.map(([x, y]) => [f(x, y), t, square].map((z) => z.tolistSync()));
  };
  const want = run((f) => (x, y) => f(x, y).realize());
  assertEquals(run(jit), want);
  assertEquals(run((f) => jit(jit(f))), want);
});

Deno.test("jit: state that waits for a write which reads what another one overwrites is written to by calls", () => {
  Device.default = "JS";
  const row = (...list: number[]): Tensor => new Tensor(list, { dtype: "int32" }).realize();
  for (const modes of [{}, { JIT_CHECK: 1 }, { JIT: 0 }]) {
    for (
      const write of [
        (t: Tensor) => t.setAt([1], 9),
        (t: Tensor) => t.addInPlace(1),
        (t: Tensor) => t.flip(0).assign(5),
      ]
    ) {
      const a = row(8, 3),
        b = row(-1, 7),
        plainA = row(8, 3),
        plainB = row(-1, 7),
        got: unknown[] = [],
        want: unknown[] = [];
      const swap = (x: Tensor, y: Tensor): void => {
        const sum = y.add(x);
        x.assign(y);
        y.assign(sum);
      };
      const f = jit((x: Tensor) => {
        write(b);
        return b.mul(x);
      });
      for (let i = 0; i < 5; i++) {
        swap(a, b);
        got.push(context(modes, () => f(row(2))).tolistSync(), a.tolistSync(), b.tolistSync());
        swap(plainA, plainB);
        write(plainB);
        want.push(plainB.mul(2).tolistSync(), plainA.tolistSync(), plainB.tolistSync());
      }
      assertEquals(got, want, `${JSON.stringify(modes)} ${write}`);
    }
  }
});

Deno.test("jit: writes that read an argument are done before a call that overwrites it, and wait where it does not", () => {
  Device.default = "JS";
  const row = (...list: number[]): Tensor => new Tensor(list, { dtype: "int32" });
  for (const modes of [{}, { JIT_CHECK: 1 }, { JIT: 0 }]) {
    const other = row(7, 7);
    // assigned to itself, or to what it is; and what overwrites it only from the second call on
    const bodies: [boolean, (x: Tensor, call: number) => Tensor][] = [
      [false, (x) => x.assign(x)],
      [false, (x) => x.assign(x).mul(1)],
      [true, (x, call) => call > 0 ? x.assign(other) : x.assign(x)],
      [true, (x) => x.addInPlace(1)],
    ];
    for (const [writes, body] of bodies) {
      let calls = 0;
      const f = jit((x: Tensor) => body(x, calls++));
      for (let i = 0; i < 5; i++) {
        const sum = row(1, 2), x = row(5, 6), late = sum.add(sum);
        sum.addInPlace(x);
        context(modes, () => f(x));
        const isOverwritten = writes && (i > 0 || body === bodies[3][1]);
        if (isOverwritten) throws(() => late.tolistSync(), { name: "StaleReadError" }, `${body} ${i}`);
        else assertEquals(late.tolistSync(), [2, 4], `${body} ${i}`);
        assertEquals(sum.tolistSync(), [6, 8], `${body} ${i}`);
      }
    }
  }
});

Deno.test("jit: parts of one tensor, one assigned to itself", () => {
  Device.default = "JS";
  for (const isFirst of [false, true]) {
    const f = jit((x: Tensor, y: Tensor) => (isFirst ? x.assign(x) : y.assign(y), x.add(y)));
    for (let i = 0; i < 4; i++) {
      const t = new Tensor([1, 2, 3, 4]).realize();
      assertEquals(f(t.at([0, 2]), t.at([1, 3])).tolistSync(), [3, 5]);
    }
  }
});

Deno.test("jit: an argument that is a view of what is closed over, assigned what it shows, then another one", () => {
  Device.default = "JS";
  const views: ((t: Tensor) => Tensor)[] = [(t) => t.bitcast("int32"), (t) => t.reshape([3]), (t) => t.detach()];
  for (const modes of [{}, { JIT_CHECK: 1 }, { JIT: 0 }]) {
    for (const view of views) {
      const t = new Tensor([6, 7, 8], { dtype: "int32" }).clone(), x = view(t), other = new Tensor([1, 2, 3]).int();
      const f = jit((x: Tensor, y: Tensor) => {
        x.assign(t);
        return y.mul(1);
      });
      for (const given of [x, t, other, t, x, other]) {
        const result = context(modes, () => f(given, given));
        assertEquals([result.tolistSync(), given.tolistSync()], [[6, 7, 8], [6, 7, 8]], String(view));
      }
    }
  }
});

Deno.test("jit: a part of a tensor that is written in the captured call first is written to its tensor, or refused", () => {
  Device.default = "JS";
  const parts = [(t: Tensor) => t.flip([0]), (t: Tensor) => t.at([1, 3]), (t: Tensor) => t.permute([1, 0])];
  for (const part of parts) {
    for (const isShared of [false, true]) {
      const make = (): Tensor => new Tensor([[1, 2], [3, 4], [5, 6]], { dtype: "int32" }).realize();
      let writes = false;
      const f = jit((x: Tensor, y: Tensor) => {
        if (writes) y.addInPlace(10);
        return x.sum();
      });
      for (let i = 0; i < 4; i++) {
        const t = make(), y = part(t), other = make(), want = part(t).add(i > 0 ? 10 : 0).tolistSync();
        if (isShared && i === 1) throws(() => f(t, y), { name: "JitError" }, String(part));
        else {
          f(isShared && i !== 2 ? t : other, y);
          assertEquals([part(t).tolistSync(), y.tolistSync()], [want, want], `${part} ${i}`);
        }
        writes = true;
      }
    }
  }
});

Deno.test("jit: what a function closes over and is not real is read as it is, before a write that waits and after it", () => {
  Device.default = "JS";
  const values: ((t: Tensor) => Tensor)[] = [
    (t) => t.contiguous(),
    (t) => t.mul(1),
    (t) => t.flip([0]),
    (t) => t.sum(),
  ];
  for (const value of values) {
    for (const modes of [{}, { JIT_CHECK: 1 }, { JIT: 0 }]) {
      const t = new Tensor([6, 7, 8], { dtype: "int32" }).clone(), late = value(t);
      const want = value(new Tensor([6, 7, 8], { dtype: "int32" })).tolistSync();
      t.setAt([1], 9);
      const f = jit((x: Tensor) => late.add(x)),
        zero = new Tensor([0], { dtype: "int32" }).reshape(late.ndim ? [1] : []);
      for (let i = 0; i < 4; i++) assertEquals(context(modes, () => f(zero)).tolistSync(), want, `${value} ${i}`);
      assertEquals(t.tolistSync(), [6, 9, 8]);
      throws(() => context(modes, () => f(zero)), { name: "StaleReadError" }, String(value));
    }
  }
});

Deno.test("jit: an argument that is a shape of another one, or of what is closed over, comes back as itself", () => {
  Device.default = "JS";
  for (const modes of [{}, { JIT_CHECK: 1 }, { JIT: 0 }]) {
    const t = new Tensor([1, 2, 3, 4], { dtype: "int32" }).realize();
    const f = jit((x: Tensor, y: Tensor) => {
      x.addInPlace(1);
      return y;
    });
    for (let i = 0; i < 4; i++) {
      const y = t.reshape([2, 2]), got = context(modes, () => f(t, y));
      assertEquals(got.shape, [2, 2]);
    }
    const state = new Tensor([1, 2], { dtype: "int32" }).realize();
    const g = jit((_: Tensor, y: Tensor) => {
      state.at([0, 1]).addInPlace(9);
      return y;
    });
    context(modes, () => g(state, state));
    for (let i = 1; i < 4; i++) {
      const before = state.tolistSync(), y = state.at([0, 2]), got = context(modes, () => g(state, y));
      assertEquals([got.tolistSync(), y.tolistSync(), state.tolistSync()], [before, before, [1 + 9 * (i + 1), 2]]);
    }
  }
});

Deno.test("jit: an argument that is all of another tensor, written and given back, shows what is written to that later", () => {
  Device.default = "JS";
  for (const modes of [{}, { JIT_CHECK: 1 }, { JIT: 0 }]) {
    const t = new Tensor([1, 2], { dtype: "int32" }).clone(), all = t.at(":");
    const f = jit((x: Tensor) => {
      x.addInPlace(x);
      return x;
    });
    for (let i = 0, want = 1; i < 5; i++, want = 2 * want + 1) {
      const other = i === 0 ? new Tensor([1, 2], { dtype: "int32" }) : all, got = context(modes, () => f(other));
      strictEqual(got, other);
      if (i === 0) continue;
      t.addInPlace(1).realize();
      assertEquals(got.tolistSync(), t.tolistSync());
    }
  }
});

Deno.test("jit: what a function assigns to may come to be what an argument is since the last call", () => {
  Device.default = "JS";
  for (const modes of [{}, { JIT_CHECK: 1 }, { JIT: 0 }]) {
    const t = new Tensor([1, 5, 7], { dtype: "int32" }).clone(), same = t.flip([]);
    const f = jit((_: Tensor, y: Tensor) => {
      t.assign(y);
      return t.mul(1);
    });
    let x = same;
    for (let i = 0; i < 4; i++) {
      x = context(modes, () => f(x, same));
      assertEquals([x.tolistSync(), t.tolistSync()], [[1, 5, 7], [1, 5, 7]]);
    }
  }
});
