import { deepStrictEqual as assertEquals, match, ok, strictEqual, throws } from "node:assert/strict";
import {
  checkpoint,
  context,
  Device,
  DisposedError,
  GlobalCounters,
  jit,
  JitError,
  nn,
  state,
  Tensor,
  Variable,
} from "../../../mod.ts";
import { realFloats as made } from "../../support/tensors.ts";

Device.default = "WASM";

function fails(action: () => unknown, text: RegExp): void {
  throws(action, (error: unknown) => {
    ok(error instanceof JitError, String(error));
    match(error.message, text);
    return true;
  });
}

// What tinygrad's users reported, by issue.

Deno.test("jit: tensors in a list are inputs (tinygrad 10850)", async () => {
  const f = jit((xs: Tensor[]) => xs[0].add(xs[1]));
  for (let i = 0; i < 5; i++) assertEquals(await f([made([i]), made([2 * i])]).tolist(), [3 * i]);
  strictEqual(f.stats.replays, 3);
});

Deno.test("jit: a number is not frozen (tinygrad 10956)", async () => {
  const f = jit((x: Tensor, k: number) => x.mul(k));
  for (let i = 0; i < 12; i++) assertEquals(await f(made([i]), i % 3).tolist(), [i * (i % 3)]);
  assertEquals([f.stats.eager, f.stats.captures, f.stats.replays, f.stats.retraces], [3, 3, 6, 2]);
});

Deno.test("jit: inputs that are views are as good as others (tinygrad 13361)", async () => {
  const f = jit((x: Tensor) => x.add(1));
  for (let i = 0; i < 4; i++) {
    const x = made([[i, 2], [3, 4]]);
    assertEquals(await f(x.T).tolist(), [[i + 1, 4], [3, 5]]);
    assertEquals(await f(x.flip(0).at([0, 2])).tolist(), [[4, 5], [i + 1, 3]]);
  }
});

Deno.test("jit: a function that realizes nothing is told so (tinygrad 7637, 5184)", () => {
  const f = jit((x: Tensor) => x.shape[0]);
  const x = made([1, 2]);
  f(x);
  fails(() => f(x), /^Cannot capture a function: it realizes nothing: return a tensor computed from the arguments/);
});

Deno.test("jit: results are not overwritten by later calls (tinygrad 14045)", async () => {
  const f = jit((x: Tensor) => x.mul(x).sum());
  const losses = Array.from({ length: 20 }, (_, i) => f(made([i, 1])));
  assertEquals(await Promise.all(losses.map((l) => l.item())), losses.map((_, i) => i * i + 1));
  const g = jit((x: Tensor) => x.mul(x), { reuseOutputs: true });
  const [, , a, b] = [1, 2, 3, 4].map((i) => g(made([i])));
  assertEquals([await a.tolist(), await b.tolist()], [[16], [16]]);
});

Deno.test("jit: the same tensor twice, and one that is closed over, too (tinygrad 13701)", async () => {
  const f = jit((a: Tensor, b: Tensor) => a.mul(10).add(b));
  for (let i = 0; i < 3; i++) {
    const x = made([i]);
    assertEquals(await f(x, x).tolist(), [11 * i]);
  }
  assertEquals(await f(made([1]), made([2])).tolist(), [12]);
  const w = made([7]), g = jit((x: Tensor) => x.mul(10).add(w));
  for (let i = 0; i < 3; i++) assertEquals(await g(w).tolist(), [77]);
  assertEquals(await g(made([1])).tolist(), [17]);
});

Deno.test("jit: values cannot be read inside (tinygrad 16276)", async () => {
  const bodies = [(x: Tensor) => x.itemSync(), (x: Tensor) => x.tolistSync(), (x: Tensor) => x.dataSync()[0]];
  for (const body of bodies) {
    const f = jit((x: Tensor) => x.add(body(x.sum()) as number));
    const x = made([1]);
    f(x);
    fails(() => f(x), /^Cannot read a tensor: a function under jit\(\) cannot read values; return the tensor/);
  }
  assertEquals(await jit((x: Tensor) => x.add(1))(made([1])).tolist(), [2]); // nothing listens any more
});

Deno.test("jit: a chain of blocks gives bit for bit what it gives without (tinygrad 6803, 16191)", async () => {
  Tensor.manualSeed(5);
  const layers = Array.from({ length: 4 }, () => ({ l: new nn.Linear(16, 16), n: new nn.LayerNorm(16) }));
  const net = (x: Tensor): Tensor => layers.reduce((h, { l, n }) => n.call(l.call(h).gelu()).add(h), x).softmax(1);
  const f = jit(net);
  for (let i = 0; i < 4; i++) {
    const x = Tensor.randn([8, 16]).realize();
    assertEquals(await f(x).data(), await net(x).data());
  }
  await context({ JIT_CHECK: 1 }, async () => void await f(Tensor.randn([8, 16])).data());
});

for (const realizes of [true, false]) {
  Deno.test(`jit: gradients accumulate over calls${realizes ? ", realized" : ""} (tinygrad 13642)`, async () => {
    const run = async (wrap: <A extends unknown[], R>(f: (...a: A) => R) => (...a: A) => R): Promise<unknown[]> => {
      const w = made([1, 2], true), opt = new nn.optim.SGD([w], { lr: 2 ** -6 }), out: unknown[] = [];
      const micro = wrap((x: Tensor) => {
        const loss = w.mul(x).square().sum().backward();
        if (realizes) Tensor.realize([loss, w.grad!]);
        return loss;
      });
      const step = wrap(() => Tensor.train(() => opt.step()) as undefined ?? w.sum());
      for (let i = 0; i < 4; i++) {
        for (let k = 0; k < 4; k++) out.push(await micro(made([i % 2, k % 2])).item());
        out.push(await w.grad!.tolist());
        out.push(await step().item());
        opt.zeroGrad();
      }
      return [...out, await w.tolist()];
    };
    assertEquals(await run((f) => jit(f as never)), await run((f) => f));
  });
}

Deno.test("jit: gradients accumulate within a call", async () => {
  const run = async (jitted: boolean): Promise<unknown[]> => {
    const w = made([1, 2], true), opt = new nn.optim.Adam([w], { lr: 0.1 }), out: unknown[] = [];
    const body = (xs: Tensor[]): Tensor =>
      Tensor.train(() => {
        opt.zeroGrad();
        let total = Tensor.zeros([]);
        for (const x of xs) total = total.add(w.mul(x).square().sum().backward());
        Tensor.realize([total, ...opt.scheduleStep()]);
        return total;
      });
    const step = jitted ? jit(body) : body;
    for (let i = 0; i < 5; i++) out.push(await step([made([i, 1]), made([1, i])]).item());
    return [...out, await w.tolist()];
  };
  assertEquals(await run(true), await run(false));
});

Deno.test("jit: checkpoint, and mixed precision with a scaled loss", async () => {
  const run = async (jitted: boolean): Promise<unknown[]> => {
    Tensor.manualSeed(3);
    const l1 = new nn.Linear(6, 8), l2 = new nn.Linear(8, 3), params = state.getParameters([l1, l2]);
    const opt = new nn.optim.SGD(params, { lr: 0.1 }), scale = made([128]), good = made([0]), out: unknown[] = [];
    const half = (l: nn.Linear, x: Tensor): Tensor =>
      x.cast("float16").matmul(l.weight.cast("float16").T).add(l.bias!.cast("float16"));
    const block = checkpoint((x: Tensor) => half(l1, x).relu());
    const body = (x: Tensor, y: Tensor): Tensor =>
      Tensor.train(() => {
        opt.zeroGrad();
        const loss = half(l2, block(x)).cast("float32").crossEntropy(y), k = scale.reshape([]);
        loss.mul(k).backward();
        let finite = Tensor.ones([]).cast("bool");
        for (const p of params) finite = finite.mul(p.grad!.isfinite().all());
        for (const p of params) p.grad = finite.where(p.grad!.div(k), 0);
        const again = good.add(1).mod(3);
        scale.assign(finite.where(again.eq(0).where(scale.mul(2), scale), scale.div(2)));
        good.assign(finite.where(again, 0).cast("float32"));
        Tensor.realize([loss, scale, good, ...opt.scheduleStep()]);
        return loss;
      });
    const step = jitted ? jit(body) : body;
    for (let i = 0; i < 6; i++) {
      const x = Tensor.randn([5, 6]).realize();
      out.push(await step(x, new Tensor([0, 1, 2, 0, 1])).item());
    }
    return [...out, await scale.item(), await l1.weight.tolist()];
  };
  assertEquals(await run(true), await run(false));
});

// Arguments

Deno.test("jit: tensors in objects, classes, maps and sets; results of such forms", async () => {
  class Pair {
    constructor(readonly a: Tensor, readonly name: string, readonly more: Map<string, Tensor>) {}
    sum(): Tensor {
      return this.a.add(this.more.get("b")!);
    }
  }
  const f = jit((p: Pair, rest: { deep: { set: Set<Tensor> } }) => {
    const [c] = rest.deep.set;
    return new Pair(p.sum().add(c), p.name, new Map([["b", c.mul(2)]]));
  });
  for (let i = 0; i < 4; i++) {
    const got = f(new Pair(made([i]), "p", new Map([["b", made([10])]])), { deep: { set: new Set([made([i])]) } });
    ok(got instanceof Pair);
    strictEqual(got.name, "p");
    assertEquals([await got.a.tolist(), await got.more.get("b")!.tolist(), await got.sum().tolist()], [
      [10 + 2 * i],
      [2 * i],
      [10 + 4 * i],
    ]);
  }
  strictEqual(f.stats.replays, 2);
});

Deno.test("jit: cycles in arguments, functions and arrays of numbers as arguments", async () => {
  const node: { x: Tensor; self?: unknown } = { x: made([1]) };
  node.self = node;
  const f = jit((n: typeof node, g: (t: Tensor) => Tensor, v: Float32Array) => g(n.x).add(v[0]));
  const twice = (t: Tensor): Tensor => t.mul(2), thrice = (t: Tensor): Tensor => t.mul(3);
  for (let i = 0; i < 8; i++) {
    node.x = made([i]);
    const k = i % 2;
    const want = [i * (k === 0 ? 2 : 3) + k];
    assertEquals(await f(node, k === 0 ? twice : thrice, Float32Array.of(k)).tolist(), want);
  }
  strictEqual(f.stats.captures, 2);
  fails(() => f(node, twice, new Float32Array(5000)), /an argument is a Float32Array of 20000 bytes.* pass a tensor/);
});

Deno.test("jit: other shapes, dtypes and devices are captured for themselves", async () => {
  const f = jit((o: { a: Tensor; b: Tensor }) => o.a.add(o.b.cast("float32").to("WASM")));
  const good = (): { a: Tensor; b: Tensor } => ({ a: made([1, 2]), b: made([1, 2]) });
  const others = [made([1]), new Tensor([1, 2], { dtype: "int32" }), made([1, 2]).to("JS").realize()];
  for (let i = 0; i < 4; i++) {
    assertEquals(await f(good()).tolist(), [2, 4]);
    for (const b of others) assertEquals(await f({ ...good(), b }).tolist(), b === others[0] ? [2, 3] : [2, 4]);
  }
  const { calls, eager, captures, replays, retraces } = f.stats;
  assertEquals({ calls, eager, captures, replays, retraces }, {
    calls: 16,
    eager: 4,
    captures: 4,
    replays: 8,
    retraces: 3,
  });
});

Deno.test("jit: a smaller last batch, in training", async () => {
  const run = async (wrap: (f: (x: Tensor) => Tensor) => (x: Tensor) => Tensor): Promise<unknown> => {
    const w = made([1, 2], true), opt = new nn.optim.Adam([w], { lr: 0.1 });
    const step = wrap((x) =>
      Tensor.train(() => {
        opt.zeroGrad();
        const loss = x.mul(w).square().mean().backward();
        opt.step();
        return loss;
      })
    );
    const losses: unknown[] = [];
    for (let epoch = 0; epoch < 3; epoch++) {
      for (const rows of [3, 3, 3, 2]) losses.push(await step(Tensor.full([rows, 2], 1 + epoch / 4).clone()).item());
    }
    return [losses, await w.tolist()];
  };
  assertEquals(await run((f) => jit(f)), await run((f) => f));
});

Deno.test("jit: what is not called for longest is forgotten first, with its memory", () => {
  const lines: string[] = [], { error } = console;
  console.error = (line: string) => void lines.push(line);
  try {
    const f = jit(function total(x: Tensor): Tensor {
      return x.add(1).contiguous().sum();
    });
    const call = (n: number): void => void f(Tensor.ones([n]).contiguous().realize());
    for (const n of [1, 1, 2, 2]) call(n);
    for (let n = 3; n < 3 + 62; n++) call(n);
    const { replays, eager } = f.stats;
    call(1); // still there
    strictEqual(f.stats.replays, replays + 1);
    call(65); // 2 goes
    call(2);
    strictEqual(f.stats.eager, eager + 2);
  } finally {
    console.error = error;
  }
  strictEqual(lines.length, 1);
  match(
    lines[0],
    /^jit: total has been called with tensors of 9 different shapes.*; pad them to few shapes, or cut them/,
  );
});

Deno.test("jit: whole numbers without a dtype are floats where floats are", async () => {
  const f = jit((x: Tensor) => x.div(2).add(x.eq(x.floor()).cast("float32")));
  const g = jit((o: { obs: Tensor }) => o.obs.mul(0.5));
  for (const values of [[0.5, 1.5], [0.5, 2], [1, 0], [3, 5], [0.25, 1]]) {
    const want = values.map((v) => v / 2 + (Number.isInteger(v) ? 1 : 0));
    for (const x of [new Tensor(values), new Tensor(values).realize()]) assertEquals(await f(x).tolist(), want);
    assertEquals(await f(new Tensor([values]).squeeze(0)).tolist(), want);
    assertEquals(await g({ obs: new Tensor([values]).T }).tolist(), values.map((v) => [v / 2]));
  }
  assertEquals([f.stats.captures, f.stats.retraces, g.stats.captures], [1, 0, 1]);
  // a number, and constants
  const h = jit((t: Tensor) => t.mul(2));
  for (const t of [new Tensor(0.5), new Tensor(1.5), new Tensor(3), Tensor.full([], 4)]) h(t);
  assertEquals([h.stats.captures, h.stats.replays], [1, 2]);
  // what was given a dtype keeps it
  strictEqual(h(new Tensor(3, { dtype: "int32" })).dtype.name, "int32");
  // and so they are where they are assigned
  assertEquals(await made([0.5, 0.5]).assign(new Tensor([1, 2])).tolist(), [1, 2]);
  throws(() => made([0.5]).assign(new Tensor([1], { dtype: "int32" })), /Cannot assign dtype int32/);
  // integers first: floats are captured for themselves, and from then on lists are taken for them
  const k = jit((t: Tensor) => t.add(0));
  const names = [[1], [2], [0.5], [0.5], [3]].map((values) => k(new Tensor(values)).dtype.name);
  assertEquals(names, ["int32", "int32", "float32", "float32", "float32"]);
});

Deno.test("jit: -0 is not 0 in the key", () => {
  const f = jit((x: Tensor, n: number) => x.add(n).reciprocal());
  const x = new Tensor([-0], { dtype: "float32", device: "JS" }).realize();
  for (const n of [0, 0, 0, -0, -0, -0, 0]) strictEqual(f(x, n).itemSync(), Object.is(n, -0) ? -Infinity : Infinity);
});

Deno.test("jit: many keys are told of once", () => {
  const lines: string[] = [], { error } = console;
  console.error = (line: string) => void lines.push(line);
  try {
    const f = jit(function scaled(x: Tensor, k: number): Tensor {
      return x.mul(k);
    });
    for (let i = 0; i < 12; i++) f(made([1]), i);
    strictEqual(f.stats.retraces, 11);
    const g = jit((x: Tensor, k: number) => x.mul(k)); // of these most calls are replays, which is no matter
    for (let i = 0; i < 96; i++) g(made([1]), i >> 3);
    for (let i = 0; i < 96; i++) g(Tensor.ones([(i >> 3) + 2]).contiguous().realize(), 0);
  } finally {
    console.error = error;
  }
  strictEqual(lines.length, 1);
  match(lines[0], /^jit: scaled has been called with 9 different values .*pass what changes as a tensor/);
});

Deno.test("jit: an argument is assigned to, or freed", async () => {
  const assigns = jit((x: Tensor, y: Tensor) => x.assign(x.add(y)).sum());
  const one = made([1, 2]), two = made([1, 1]), sums: unknown[] = [];
  for (let i = 0; i < 4; i++) sums.push(await assigns(one, two).item());
  assertEquals([sums, await one.tolist()], [[5, 7, 9, 11], [5, 6]]);
  for (let i = 0; i < 2; i++) assertEquals([await assigns(two, one).item(), i], [13 + 11 * i, i]);
  assertEquals([await assigns(one, one).item(), await one.tolist()], [22, [10, 12]]);
  const frees = jit((y: Tensor, x: Tensor) => {
    const z = x.add(y).realize();
    x.dispose();
    return z;
  });
  fails(() => frees(made([1]), made([2])), /it disposes of argument tensor 1 \(at .*jit_test.ts:\d+:\d+\)/);
  fails(() => frees(made([1]), made([2])), /dispose of it outside$/);
});

Deno.test("jit: async functions, in whatever form", () => {
  // @ts-expect-error: refused by its type, too
  fails(() => jit(async (x: Tensor) => await x.item()), /^Cannot capture an async function: jit\(\) takes a sync/);
  const hidden = jit(((x: Tensor) => Promise.resolve(x)) as unknown as (x: Tensor) => Tensor);
  fails(() => hidden(made([1])), /^Cannot capture an async function/);
});

// State

Deno.test("jit: donated arguments give their memory to results", async () => {
  const held = () => Object.values(Device.memory()).reduce((n, m) => n + m.bytes, 0);
  const f = jit((state: { a: Tensor; b: Tensor }, x: Tensor) => {
    const sum = state.a.sum().add(state.b.sum());
    return { a: state.a.add(x.sum()), b: sum.add(x).contiguous().realize().mul(2) };
  }, { donate: [0] });
  const x = made([1, 2, 3, 4]);
  let s = { a: made([0, 0, 0, 0]), b: made([1, 1, 1, 1]) }, before = 0;
  const want = { a: [0, 0, 0, 0], b: [1, 1, 1, 1] };
  for (let i = 0; i < 6; i++) {
    const old = s, sum = [...want.a, ...want.b].reduce((p, v) => p + v);
    s = f(s, x);
    throws(() => old.a.dataSync(), DisposedError);
    want.a = want.a.map((v) => v + 10);
    want.b = [1, 2, 3, 4].map((v) => 2 * (sum + v));
    assertEquals([await s.a.tolist(), await s.b.tolist()], [want.a, want.b]);
    if (i === 2) before = held();
  }
  strictEqual(held(), before);
  await context({ JIT_CHECK: 1 }, async () => {
    s = f(s, x);
    assertEquals(await s.a.tolist(), want.a.map((v) => v + 10));
  });
  const whole = jit((x: Tensor) => x, { donate: [0] });
  for (let i = 0; i < 3; i++) await whole(made([i])).add(0).tolist();
});

// What is captured

Deno.test("jit: several realizes are one list of kernels without what is not needed, in one arena", async () => {
  const body = (x: Tensor): Tensor => {
    x.exp().realize(); // nobody reads it
    const a = x.add(1).contiguous().realize(), b = a.mul(2).contiguous().realize();
    const c = b.sub(3).contiguous().realize(), d = c.mul(c).contiguous().realize();
    return d.sum();
  };
  const f = jit(body), x = made(Array.from({ length: 1000 }, (_, i) => i));
  const want = await body(x).item();
  for (let i = 0; i < 4; i++) strictEqual(await f(x).item(), want);
  strictEqual(f.stats.kernels, 5);
  ok(f.stats.arenaBytes <= 2 * 4096, `${f.stats.arenaBytes} bytes`);
  GlobalCounters.reset();
  await f(x).item();
  strictEqual(GlobalCounters.kernelCount, 5);
});

Deno.test("jit: what no graph takes stands between graphs", async () => {
  const f = jit((x: Tensor) => x.add(1).contiguous().mul(2).to("JS").add(3).contiguous().to("WASM").flip(0).mul(x));
  for (let i = 0; i < 5; i++) assertEquals(await f(made([i, 1])).tolist(), [7 * i, 2 * i + 5]);
  assertEquals([f.stats.captures, f.stats.replays], [1, 3]);
});

Deno.test("jit: constants are uploaded once", async () => {
  const f = jit((x: Tensor) => x.mul(new Tensor([1, 2, 3], { dtype: "float32" })).add(Tensor.arange(3).contiguous()));
  for (let i = 0; i < 4; i++) {
    GlobalCounters.reset();
    assertEquals(await f(made([1, 1, i])).tolist(), [1, 3, 3 * i + 2]);
    if (i === 3) assertEquals([GlobalCounters.kernelCount, GlobalCounters.copyCount], [1, 1]); // the copy is made([...])'s
  }
});

Deno.test("jit: a jit function within another, captured or not", async () => {
  const inner = jit((x: Tensor) => x.mul(3));
  const outer = jit((x: Tensor) => inner(x.add(1)).add(inner(x)));
  for (let i = 0; i < 5; i++) assertEquals(await outer(made([i])).tolist(), [6 * i + 3]);
  const g = jit((x: Tensor) => inner(x));
  for (let i = 0; i < 5; i++) assertEquals(await g(made([i])).tolist(), [3 * i]);
  assertEquals(await inner(made([5])).tolist(), [15]);
});

Deno.test("jit: no gradient goes through a result, in whichever call", async () => {
  const w = made([2, 3], true), before = w.mul(5).realize();
  const f = jit((x: Tensor) => [w.mul(x), before] as const);
  for (let i = 0; i < 4; i++) {
    const [y] = f(made([1, i]));
    assertEquals(await y.tolist(), [2, 3 * i]);
    throws(() => y.sum().backward(), /ArgumentError: .*and with what jit\(\) returns/);
    assertEquals(await y.sum().gradient([w])[0].tolist(), [0, 0]);
    assertEquals(await y.mul(w).sum().gradient([w])[0].tolist(), [2, 3 * i]);
    assertEquals(await before.sum().gradient([w])[0].tolist(), [5, 5]); // what was there before stays as it is
  }
});

Deno.test("jit: a gradient through a jit function within another, in whichever call of either", async () => {
  const w = made([2, 3], true), inner = jit((x: Tensor) => w.mul(x).square());
  for (let i = 0; i < 3; i++) inner(made([1, 1])); // captured by itself
  const outer = jit((x: Tensor) => {
    w.grad = undefined;
    inner(x).sum().backward();
    return w.grad!;
  });
  for (let i = 0; i < 4; i++) assertEquals(await outer(made([1, i])).tolist(), [4, 6 * i * i]);
});

Deno.test("jit: reset forgets, and frees", async () => {
  let scale = 2;
  const f = jit((x: Tensor) => x.mul(scale));
  for (let i = 0; i < 3; i++) await f(made([i])).item();
  scale = 3;
  strictEqual(await f(made([1])).item(), 2); // what is no tensor is as it was captured
  f.reset();
  for (let i = 0; i < 3; i++) strictEqual(await f(made([i])).item(), 3 * i);
  strictEqual(f.stats.captures, 2);
});

Deno.test("jit: JIT=0 calls, JIT=2 replays kernel by kernel", async () => {
  let calls = 0;
  const f = jit((x: Tensor) => {
    calls++;
    return x.add(1).contiguous().mul(2);
  });
  await context({ JIT: 0 }, async () => {
    for (let i = 0; i < 3; i++) assertEquals(await f(made([i])).tolist(), [2 * i + 2]);
  });
  strictEqual(calls, 3);
  await context({ JIT: 2 }, async () => {
    for (let i = 0; i < 4; i++) assertEquals(await f(made([i])).tolist(), [2 * i + 2]);
  });
  strictEqual(calls, 5);
});

Deno.test("jit: JIT_CHECK finds what has gone stale, and leaves the state of one call", async () => {
  let scale = 2;
  const w = made([1], true), opt = new nn.optim.SGD([w], { lr: 0.5 }), noise = made([0]);
  const f = jit((x: Tensor) =>
    Tensor.train(() => {
      opt.zeroGrad();
      const loss = w.mul(x).mul(scale).add(Tensor.rand([1])).sum().backward();
      noise.assign(noise.add(1));
      Tensor.realize([loss, noise, ...opt.scheduleStep()]);
      return loss;
    })
  );
  await context({ JIT_CHECK: 1 }, async () => {
    for (let i = 0; i < 6; i++) await f(made([0.25])).item();
    assertEquals([await w.tolist(), await noise.tolist()], [[1 - 6 * 0.25], [6]]);
    scale = 3;
    fails(() => f(made([0.25])), /JIT_CHECK: element 0 of result 0 has the bits [0-9a-f]{8}, the function called now/);
  });
});

Deno.test("jit: JIT_CHECK tells a variable that was given another tensor since, and its advice helps", async () => {
  const rebinds: [string, (w: Tensor) => Tensor][] = [
    ["realized", (w) => w.mul(2).realize()],
    ["lazy", (w) => w.mul(2)],
    ["new", () => made([5, 6])],
  ];
  const text =
    /JIT_CHECK: element 0 of result 0 .*; it closes over a variable that has been given another tensor since it was captured \(float32 \[2\]/;
  for (const [name, rebind] of rebinds) {
    let w = made([1, 2]);
    const f = jit((x: Tensor) => x.mul(w));
    await context({ JIT_CHECK: 1, TRACEMETA: 1 }, async () => {
      for (let i = 0; i < 4; i++) assertEquals(await f(made([3, 4])).tolist(), [3, 8], name);
      w = rebind(w);
      fails(() => f(made([3, 4])), text);
      f.reset(); // as it says
      const want = await w.mul(made([3, 4])).tolist();
      for (let i = 0; i < 4; i++) assertEquals(await f(made([3, 4])).tolist(), want, name);
      if (name === "lazy") return; // a handle without memory, which nothing can find again
      w.replace(w.add(1).realize()); // as it says
      const next = await w.mul(made([3, 4])).tolist();
      for (let i = 0; i < 4; i++) assertEquals(await f(made([3, 4])).tolist(), next, name);
      w.assign(w.add(1)).realize(); // as it says
      assertEquals(await f(made([3, 4])).tolist(), await w.mul(made([3, 4])).tolist(), name);
    });
  }
});

Deno.test("jit: JIT_CHECK tells of values of the host that a variable was given since, where the host is the device", () => {
  const values = (v: number) => new Tensor([v], { device: "JS", dtype: "float32" }).realize();
  let w = values(1);
  const f = jit((x: Tensor) => x.mul(w));
  for (let i = 0; i < 3; i++) f(values(2));
  w = values(7);
  const told = /it closes over a variable that has been given another tensor since it was captured \(float32 \[1\]/;
  fails(() => context({ JIT_CHECK: 1 }, () => f(values(2))), told);
});

Deno.test("jit: a variable is an argument", async () => {
  const i = new Variable("i", 0, 9), x = made(Array.from({ length: 10 }, (_, k) => k * k));
  const f = jit((x: Tensor, at: Tensor) => x.at(at).add(at));
  for (const v of [3, 4, 0, 9, 5]) strictEqual(await f(x, i.bind(v)).item(), v * v + v);
  assertEquals([f.stats.captures, f.stats.replays], [1, 3]);
  fails(() => jit((a: Tensor, b: Tensor) => a.add(b))(i.bind(1), i.bind(2)), /bind variable i to 1 and to 2; use two/);
});

Deno.test("jit: a variable that is bound inside is a constant of the function", async () => {
  const i = new Variable("i", 0, 9), x = made(Array.from({ length: 10 }, (_, k) => k * k));
  const frozen = jit((x: Tensor) => x.at(i.bind(2)));
  for (let k = 0; k < 4; k++) strictEqual(await frozen(x).item(), 4);
  // also beside an argument of the same variable, and of the same value when it was captured
  const both = jit((x: Tensor, at: Tensor) => x.at(at).sub(x.at(i.bind(2))));
  for (const v of [2, 2, 3, 9, 2]) strictEqual(await both(x, i.bind(v)).item(), v * v - 4);
  strictEqual(both.stats.replays, 3);
  // and bound outside
  const outer = i.bind(2), closed = jit((x: Tensor, at: Tensor) => x.at(at).sub(x.at(outer)));
  for (const v of [2, 2, 3]) strictEqual(await closed(x, i.bind(v)).item(), v * v - 4);
});

Deno.test("jit: sizes of results, and variables that come back, are those of the call", async () => {
  const n = new Variable("n", 1, 5), x = made([1, 2, 3, 4, 5]);
  const f = jit((x: Tensor, k: Tensor) => ({
    part: x.at([0, k]).mul(2),
    rest: x.at([0, k.add(0)]).add(x.at([0, k])),
    k,
  }));
  for (const v of [2, 3, 5, 1]) {
    const { part, rest, k } = f(x, n.bind(v)), want = Array.from({ length: v }, (_, i) => 2 * i + 2);
    assertEquals([await part.tolist(), await rest.tolist(), await k.item()], [want, want, v]);
    // they go on with others of that size
    assertEquals(await part.add(x.at([0, n.bind(v)])).tolist(), want.map((w) => w * 1.5));
    assertEquals(await f(x.at([0, k]).add(0).padTo([5]), k).part.tolist(), want);
  }
});

Deno.test("jit: decompositions and linear systems", async () => {
  const matrix = (seed: number): Tensor => {
    const at = (i: number, j: number): number => Math.sin(seed + 3 * i + 7 * j) + (i === j ? 4 : 0);
    const rows = Array.from({ length: 4 }, (_, i) => Array.from({ length: 4 }, (_, j) => at(i, j)));
    return new Tensor(rows, { dtype: "float32" });
  };
  const functions: Record<string, (a: Tensor) => Tensor | Tensor[]> = {
    inv: (a) => a.inv(),
    det: (a) => a.det(),
    solve: (a) => a.solve(a.at(":", [0, 2])),
    cholesky: (a) => a.matmul(a.T).cholesky(),
    qr: (a) => a.qr(),
    svd: (a) => a.svd(),
    both: (a) => [a.inv(), a.matmul(a.T).cholesky(), a.det()],
  };
  for (const [name, fn] of Object.entries(functions)) {
    const f = jit((a: Tensor) => fn(a));
    for (let seed = 0; seed < 4; seed++) {
      const lists = (r: Tensor | Tensor[]): Promise<unknown[]> => Promise.all([r].flat().map((t) => t.tolist()));
      assertEquals(await lists(f(matrix(seed).realize())), await lists(fn(matrix(seed).realize())), name);
    }
    strictEqual(f.stats.replays, 2, name);
  }
});
