import { assertClose, assertEquals, assertRejects, assertThrows } from "@std/assert";
import {
  ArgumentError,
  checkpoint,
  context,
  Device,
  DisposedError,
  DTypeError,
  grad,
  jit,
  jvp,
  kernel,
  ShapeError,
  Tensor,
  valueAndGrad,
  vmap,
} from "../../../mod.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { toposort, type UOp } from "../../../src/uop/core/uop.ts";

Device.get();
const t = (x: number[] | number[][]): Tensor => new Tensor(x, { dtype: "float32" });

async function close(got: unknown, want: unknown, tolerance = 1e-5): Promise<void> {
  assertEquals((got as Tensor).shape, (want as Tensor).shape);
  assertClose(await (got as Tensor).data(), await (want as Tensor).data(), tolerance);
}

const cube = (x: Tensor): Tensor => x.pow(3).sum();

Deno.test("grad: first, second and third derivative", async () => {
  const x = t([1, 2.5]);
  await close(grad(cube)(x), t([3, 18.75]));
  const second = grad((y: Tensor) => grad(cube)(y).sum());
  await close(second(x), t([6, 15]));
  await close(grad((y: Tensor) => second(y).sum())(x), t([6, 6]));
});

Deno.test("grad: trees, argnums, aux, and what is closed over", async () => {
  const c = t([2, 3]);
  const f = (p: { w: Tensor; b: Tensor[] }, x: Tensor): [Tensor, Tensor] => {
    const y = p.w.mul(x).add(p.b[0]).mul(c);
    return [y.sum(), y];
  };
  const p = { w: t([1, 2]), b: [t([5, 7])] }, x = t([10, 20]);
  const [[value, aux], g] = valueAndGrad(f, { hasAux: true })(p, x);
  await close(value, new Tensor(171));
  await close(aux, t([30, 141]));
  await close(g.w, t([20, 60]));
  await close(g.b[0], t([2, 3]));
  const [gp, gx] = grad((a: Tensor, b: Tensor) => a.mul(b).sum(), { argnums: [0, 1] })(x, c) as [Tensor, Tensor];
  await close(gp, c);
  await close(gx, x);
  await close(grad((a: Tensor) => a.mul(0).sum().add(c.sum()))(x), t([0, 0]));
  await close(grad((_: Tensor) => c.sum())(x), t([0, 0]));
});

Deno.test("grad: one tensor passed twice has two gradients", async () => {
  const x = t([2, 3]);
  const [a, b] = grad((p: Tensor, q: Tensor) => p.mul(p).mul(q).sum(), { argnums: [0, 1] })(x, x) as Tensor[];
  await close(a, t([8, 18]));
  await close(b, t([4, 9]));
});

Deno.test("grad: stand-ins of classes keep their methods", async () => {
  class Line {
    constructor(readonly k: Tensor) {}
    call(x: Tensor): Tensor {
      return this.k.mul(x);
    }
  }
  const g = grad((l: Line, x: Tensor) => l.call(x).sum())(new Line(t([1, 1])), t([3, 4]));
  await close(g.k, t([3, 4]));
});

Deno.test("jvp: agrees with differences", async () => {
  const f = (x: Tensor): Tensor => x.sin().mul(x.exp()).softmax().matmul(x);
  const x = t([0.3, -0.7, 1.1]), v = t([1, 0.5, -2]);
  const [y, dy] = jvp(f, [x], [v]);
  await close(y, f(x));
  const h = 1e-2;
  await close(dy, f(x.add(v.mul(h))).sub(f(x.sub(v.mul(h)))).div(2 * h), 1e-3);
});

Deno.test("jvp: integers in the value have no tangent, independent values a zero one", async () => {
  const x = t([1, 2]);
  const [, d] = jvp((a: Tensor) => ({ i: a.cast("int32"), c: Tensor.ones([2]) }), [x], [x]);
  assertEquals(await d.i.tolist(), [0, 0]);
  assertEquals(await d.c.tolist(), [0, 0]);
});

Deno.test("vmap: a Hessian", async () => {
  const g = (x: Tensor): Tensor => x.matmul(x).mul(x.sum()).sum();
  const x = t([1.5, 2.5, -1.5]);
  await close(
    vmap((v: Tensor) => jvp(grad(g), [x], [v])[1])(Tensor.eye(3)),
    t([[11, 8, 0], [8, 15, 2], [0, 2, -1]]),
  );
});

for (
  const [name, fn] of [
    ["elementwise", (x) => x.sin().mul(2).add(x)],
    ["reduces", (x) => x.softmax(-1).max(0).add(x.sum())],
    ["movement", (x) => x.permute([1, 0]).flip([0]).pad([[1, 0], [0, 2]]).reshape([-1])],
    ["slices", (x) => x.at([0, 2], 2).unsqueeze(0).expand([3, 2])],
    ["products", (x) => x.matmul(x.transpose()).matmul(x)],
    ["convolution", (x) => x.reshape([1, 1, 3, 4]).conv2d(Tensor.ones([2, 1, 2, 2]), undefined, { padding: 1 })],
    ["pooling", (x) => x.reshape([1, 1, 3, 4]).maxPool2d([2, 2], { stride: 1 })],
    ["gather", (x) => x.at(new Tensor([2, 0, 1, 1]))],
    ["sort", (x) => x.sort(-1)[0]],
    ["gather along an axis", (x) => x.gather(0, new Tensor([[2, 0, 1, 1], [0, 0, 2, 1]]))],
    ["scatter", (x) => x.scatterReduce(1, new Tensor([[0, 1, 1], [3, 3, 0], [2, 2, 2]]), x.mul(2), "sum")],
    ["topk", (x) => x.topk(2, 0)[0]],
    ["average pooling", (x) => x.reshape([1, 1, 3, 4]).avgPool2d(2, { stride: 1, padding: 1 })],
    ["cumulative sums and extrema", (x) => x.cumsum(1).add(x.cummax(0)[0]).add(x.cumprod(1))],
    ["Fourier transform", (x) => x.rfft().square().sum(-1)],
    ["a linear system", (x) => {
      const a = x.matmul(x.transpose()).add(Tensor.eye(3).mul(3));
      return a.cholesky().add(a.inv()).add(a.solve(x).sum());
    }],
    ["Winograd", (x) => context({ WINO: 1 }, () => x.reshape([1, 1, 3, 4]).conv2d(Tensor.ones([2, 1, 3, 3])))],
    ["losses", (x) => x.crossEntropy(new Tensor([0, 3, 1])).add(x.gelu().mean())],
    ["attention", (x) => x.scaledDotProductAttention(x.mul(2), x, undefined, { isCausal: true })],
    ["gradient", (x) => grad((y: Tensor) => y.mul(y).cumsum(1).sum())(x)],
    ["setAt", (x) => {
      const y = Tensor.zeros([3, 5]).contiguous();
      y.setAt([":", [1, 5]], x);
      return y.mul(2);
    }],
    ["setAt of what is shared", (x) => {
      const shared = Tensor.zeros([3, 2]).clone();
      return shared.setAt([[1, 3], 0], x.sum()).add(shared.setAt([0], x.at(0, 2)));
    }],
    ["constant", (_) => Tensor.arange(3)],
  ] as [string, (x: Tensor) => Tensor][]
) {
  Deno.test(`vmap: ${name}, as a loop over examples`, async () => {
    Tensor.manualSeed(3);
    const xs = Tensor.randn([4, 3, 4]).realize();
    const loop = Tensor.stack([0, 1, 2, 3].map((i) => fn(xs.at(i))));
    await close(vmap(fn)(xs), loop, 1e-4);
    await close(vmap(fn, { inAxes: 1, outAxes: -1 })(xs.permute([1, 0, 2])), loop.permute([...moved(loop.ndim)]), 1e-4);
  });
}

function moved(n: number): number[] {
  return [...Array.from({ length: n - 1 }, (_, i) => i + 1), 0];
}

Deno.test("vmap: a function with a gradient of its own keeps it", async () => {
  // values are squares, the gradient says twice the truth, and what is closed over counts, too
  const x = t([[1, 2], [3, 4], [5, 6]]), scale = t([[1], [10], [100]]);
  const own = (a: Tensor, s: Tensor) => a.call([s], (p) => p.square(), { gradFxn: (g, p) => [g.mul(p).mul(4).mul(s)] });
  const y = vmap(own)(x, scale), [slope] = y.sum().gradient([x]);
  assertEquals(await y.tolist(), [[1, 4], [9, 16], [25, 36]]);
  assertEquals(await slope.tolist(), [[4, 8], [120, 160], [2000, 2400]]);
  const each = vmap((a: Tensor, s: Tensor) => grad((b: Tensor) => own(b, s).sum())(a))(x, scale);
  assertEquals(await each.tolist(), [[4, 8], [120, 160], [2000, 2400]]);
  const twice = vmap((a: Tensor) => vmap((b: Tensor) => own(b, new Tensor(2, { dtype: "float32" })))(a))(x);
  assertEquals(await twice.sum().gradient([x])[0].tolist(), [[8, 16], [24, 32], [40, 48]]);
  const second = grad((p: Tensor) => grad((q: Tensor) => vmap(own)(q, scale).sum())(p).sum())(x);
  assertEquals(await second.tolist(), [[4, 4], [40, 40], [400, 400]]);
});

Deno.test("vmap: lookups that have rules of their own have gradients", async () => {
  const x = Tensor.arange(4000, undefined, undefined, { dtype: "float32" }).reshape([2, 2000]);
  const index = Tensor.arange(3000).mul(7).mod(2000);
  const [got, want] = [vmap((a: Tensor) => a.at(index).mul(2))(x), x.at(":", index).mul(2)];
  const slopes = [got, want].map((y) => y.sum().gradient([x])[0]);
  assertEquals(await got.tolist(), await want.tolist());
  assertEquals(await slopes[0].tolist(), await slopes[1].tolist());
});

Deno.test("vmap: nests", async () => {
  const a = t([[1, 2, 3], [4, 5, 6]]), b = t([[1, 1, 1], [0, 1, 0]]);
  const dot = (x: Tensor, y: Tensor): Tensor => x.mul(y).sum();
  await close(vmap((x: Tensor) => vmap((y: Tensor) => dot(x, y))(b))(a), t([[6, 2], [15, 5]]));
});

Deno.test("checkpoint: values and gradients of arguments and of what is closed over", async () => {
  Tensor.manualSeed(5);
  const w = Tensor.randn([4, 4]).realize(), x = Tensor.randn([3, 4]).realize();
  w.requiresGrad = x.requiresGrad = true;
  const block = (h: Tensor): Tensor => h.matmul(w).sin().matmul(w).exp();
  const run = (f: (h: Tensor) => Tensor): Tensor[] => f(f(x)).sum().gradient([w, x]);
  const plain = run(block), again = run(checkpoint(block));
  await close(again[0], plain[0], 1e-4);
  await close(again[1], plain[1], 1e-4);
  const second = (f: (h: Tensor) => Tensor): Tensor => f(x).sum().gradient([x])[0].mul(x).sum().gradient([w])[0];
  await close(second(checkpoint(block)), second(block), 1e-4);
});

Deno.test("checkpoint: intermediates are computed again", () => {
  const x = t([1, 2]);
  const nodes = (g: (h: Tensor) => Tensor): number => {
    const seen = valueAndGrad((h: Tensor) => g(h).sum())(x).flatMap((y) => toposort(y.uop));
    return [...new Set<UOp>(seen)].filter((u) => u.op === Ops.SIN).length;
  };
  const f = (h: Tensor): Tensor => h.sin().exp().sin();
  assertEquals(nodes(checkpoint(f)) > nodes(f), true);
});

for (
  const [name, error, text, run] of [
    [
      "a value that is no scalar",
      ShapeError,
      "must be a floating-point scalar",
      () => grad((x: Tensor) => x)(t([1, 2])),
    ],
    ["no tensor", ArgumentError, "not a tensor", () => grad((() => 3) as unknown as (x: Tensor) => Tensor)(t([1]))],
    ["integers", DTypeError, "only floating-point", () => grad(cube)(new Tensor([1, 2]))],
    ["no such argument", ArgumentError, "argnums names argument 2", () => grad(cube, { argnums: 2 })(t([1]))],
    [
      "an async function",
      ArgumentError,
      "asynchronous",
      () => grad((async () => await t([1])) as unknown as (x: Tensor) => Tensor)(t([1])),
    ],
    ["a tangent of another shape", ShapeError, "primal 0", () => jvp(cube, [t([1, 2])], [t([1])])],
    ["too few tangents", ArgumentError, "1 tensors in primals and 0", () => jvp(cube, [t([1])], [] as never)],
    ["nothing mapped", ArgumentError, "no argument is mapped", () => vmap(cube, { inAxes: null })(t([1]))],
    ["no such axis", ShapeError, "axis 1 is outside", () => vmap(cube, { inAxes: 1 })(t([1]))],
    [
      "sizes that differ",
      ShapeError,
      "mapped over 2 and 3",
      () => vmap((a: Tensor, b: Tensor) => a.add(b))(t([1, 2]), t([1, 2, 3])),
    ],
    [
      "axes for other arguments",
      ArgumentError,
      "inAxes has 2 axes for 1",
      () => vmap(cube, { inAxes: [0, 0] })(t([1])),
    ],
    [
      "a custom kernel",
      ArgumentError,
      "a custom kernel has no batched form",
      () =>
        vmap((x: Tensor) => Tensor.empty([2]).customKernel([x], (o, p) => kernel.write(o, 0, kernel.read(p, 0)))[0])(
          t([[1, 2], [3, 4]]),
        ),
    ],
    ["unknown options", ArgumentError, "inAxis", () => vmap(cube, { inAxis: 0 } as never)(t([1]))],
  ] as [string, new (...a: never[]) => Error, string, () => unknown][]
) {
  Deno.test(`transforms: ${name}`, () => {
    assertThrows(run, error, text);
  });
}

Deno.test("vmap: an argument that is read inside", async () => {
  const f = vmap((v: Tensor) => v.realize());
  await assertRejects(async () => void await f(t([[1, 2]])).tolist(), DisposedError, "no values");
  const read = (): unknown => vmap((x: Tensor) => x.mul(x.sum().itemSync() as number))(t([[1, 2]]));
  assertThrows(
    read,
    DisposedError,
    "Cannot realize a graph: it is, or reads, an argument of a function under vmap or jvp",
  );
});

Deno.test("grad: objects that refer to each other are walked once", async () => {
  type Node = { w: Tensor; next?: Node; back?: Node };
  const a: Node = { w: t([1, 2]) }, b: Node = { w: t([3, 4]), back: a };
  a.next = b;
  const g = grad((n: Node) => n.w.mul(n.next!.w).sum())(a);
  await close(g.w, t([3, 4]));
  await close(g.next!.w, t([1, 2]));
});

Deno.test("transforms: a jit function is differentiated and mapped as what it is of, whether captured or not", async () => {
  type Unary = (x: Tensor) => Tensor;
  const w = t([5, 7]), x = t([2, 3]), rows = t([[1, 2], [3, 4]]);
  const forms: [string, (f: Unary) => unknown][] = [
    ["grad", (f) => grad(f)(x)],
    ["grad of grad", (f) => grad((y: Tensor) => grad(f)(y).sum())(x)],
    ["grad, closed over", (f) => grad((y: Tensor) => f(w).mul(y).sum())(x)],
    ["grad, within jit", (f) => jit(grad(f))(x)],
    ["grad, within jit, replayed", (f) => {
      const step = jit(grad(f));
      return [1, 2, 3].map((i) => step(x.mul(i).realize())).at(-1);
    }],
    ["valueAndGrad", (f) => valueAndGrad(f)(x)[1]],
    ["vmap", (f) => vmap(f)(rows)],
    ["vmap of grad", (f) => vmap(grad(f))(rows)],
    ["jvp", (f) => jvp(f, [x], [w])[1]],
    ["checkpoint", (f) => {
      const leaf = new Tensor([2, 3], { dtype: "float32", requiresGrad: true });
      return checkpoint(f)(leaf).gradient([leaf])[0];
    }],
  ];
  for (const [name, run] of forms) {
    const f = jit(cube), want = await (run(cube) as Tensor).tolist();
    for (let i = 0; i < 4; i++) {
      assertEquals(await (run(f) as Tensor).tolist(), want, `${name}, call ${i}`);
      assertEquals(await f(t([i, 1])).item(), i ** 3 + 1); // its own captures
    }
    assertEquals([f.stats.captures, f.stats.replays], [1, 2], name);
  }
});

Deno.test("transforms: after an error in a function, jit functions replay as before", async () => {
  const f = jit(cube);
  const wrong = (_: Tensor): Tensor => {
    throw new RangeError("wrong");
  };
  for (const run of [() => grad(wrong)(t([1])), () => vmap(wrong)(t([1])), () => checkpoint(wrong)(t([1]))]) {
    assertThrows(run, RangeError, "wrong");
  }
  for (let i = 0; i < 4; i++) assertEquals(await f(t([i])).item(), i ** 3);
  assertEquals(f.stats.replays, 2);
});
