/**
 * Fusion by rules: user programs, the kernels that they take, and values against the reference. No rule knows a program by
 * name, so the table is of programs. Then the guards of the rules: infinities, masks, constant rows, large offsets.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { CompiledKernel, context, Device, record, schedule, Tensor } from "../../../mod.ts";
import { cascadeOf } from "../../../src/schedule/fuse/cascade.ts";
import { planFusion } from "../../../src/schedule/fuse/fuse.ts";
import { stripReshape } from "../../../src/schedule/fuse/fusion_plan.ts";
import { foldTensorGraph } from "../../../src/schedule/fuse/fold_tensors.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { toposort, type UOp } from "../../../src/uop/core/uop.ts";
import { makeJsDevice } from "../../../backends/js/js.ts";
import { registerBackend } from "../../../src/device/device.ts";
import { simBackend, simCaps } from "../../fixtures/sim.ts";
import { evaluateTensor } from "../../reference.ts";
import { optimized } from "../../fixtures/optimized.ts";
import { openObserving } from "../../support/snapshot_writers.ts";
import { difference } from "../../tolerance.ts";

const DEVICES = ["JS", "WASM"];
const ALL_DEVICES = [...DEVICES, ...Device.list().flatMap((d) => d.name === "CLANG" && d.available ? [d.name] : [])];
// a grid with so little cache that a row of a megabyte is read once
registerBackend({ ...simBackend, open: () => makeJsDevice({ ...simCaps(), l2: 1 << 16 }, "SIM") });
for (const d of [...ALL_DEVICES, "SIM"]) Device.get(d);

function kernels(ts: readonly Tensor[]): number {
  return schedule([...ts]).filter((i) => i.runner instanceof CompiledKernel).length;
}

/** Values that look random, the same each time. */
function real(shape: number[], seed = 1): Tensor {
  const n = shape.reduce((a, b) => a * b, 1);
  return new Tensor(Float32Array.from({ length: n }, (_, i) => Math.sin(i * 12.9898 + seed) * 2)).reshape(shape)
    .contiguous().realize();
}

function labels(n: number, classes: number): Tensor {
  return new Tensor(Array.from({ length: n }, (_, i) => i * 7 % classes), { dtype: "int32" }).realize();
}

const heads = (s: number, seed: number, h = 2): Tensor => real([1, h, s, 16], seed);

function softcap(x: Tensor): Tensor {
  return x.div(5).tanh().mul(5);
}

function attention(score: (x: Tensor) => Tensor): Tensor {
  const [q, k, v] = [heads(24, 1), heads(24, 2), heads(24, 3)];
  return score(q.matmul(k.transpose(-2, -1)).mul(0.25)).softmax(-1).matmul(v);
}

/** The gradient of the sum of `f` with respect to its input. */
function gradient(x: Tensor, f: (x: Tensor) => Tensor): Tensor {
  x.requiresGrad = true;
  const y = f(x);
  y.mul(real([...y.shape], 5)).sum().backward();
  return x.grad!;
}

const PROGRAMS: readonly (readonly [name: string, count: number, make: () => Tensor])[] = [
  ["var", 1, () => real([16, 64]).var(-1)],
  ["std of everything", 1, () => real([16, 64]).std()],
  ["softmax", 1, () => real([16, 64]).softmax(-1)],
  ["softmax of another axis", 1, () => real([16, 24, 8]).softmax(1)],
  ["softmax of odd rows", 1, () => real([12, 77]).softmax(-1)],
  ["logSoftmax", 1, () => real([16, 64]).logSoftmax(-1)],
  ["logsumexp", 1, () => real([16, 64]).logsumexp(-1)],
  ["layernorm", 1, () => real([16, 64]).layernorm()],
  ["rmsnorm", 1, () => {
    const x = real([16, 64]);
    return x.mul(x.square().mean(-1, { keepdim: true }).add(1e-5).rsqrt());
  }],
  ["rmsnorm and a product", 1, () => {
    const x = real([16, 64]);
    return x.mul(x.square().mean(-1, { keepdim: true }).add(1e-5).rsqrt()).matmul(real([64, 8], 2));
  }],
  ["l2-normalize", 1, () => {
    const x = real([16, 64]);
    return x.div(x.square().sum(-1, { keepdim: true }).sqrt());
  }],
  ["cosine of rows", 1, () => {
    const [x, y] = [real([16, 64]), real([16, 64], 2)];
    return x.div(x.square().sum(-1, { keepdim: true }).sqrt()).mul(y).sum(-1);
  }],
  ["statistics of a batch", 1, () => {
    const x = real([4, 8, 6, 6]), axes = [0, 2, 3];
    const mean = x.mean(axes, { keepdim: true }), v = x.var(axes, { keepdim: true, correction: 0 });
    return x.sub(mean).mul(v.add(1e-5).rsqrt());
  }],
  ["cross entropy of labels", 1, () => real([32, 10]).sparseCategoricalCrossentropy(labels(32, 10))],
  ["cross entropy of probabilities", 1, () => real([32, 10]).crossEntropy(real([32, 10], 2).softmax(-1).realize())],
  ["argmax", 1, () => real([16, 64]).argmax(-1)],
  ["argmax of softmax", 1, () => real([16, 64]).softmax(-1).argmax(-1)],
  ["attention", 1, () => attention((x) => x)],
  ["attention, causal", 1, () =>
    heads(24, 1).scaledDotProductAttention(heads(24, 2), heads(24, 3), undefined, {
      isCausal: true,
    })],
  [
    "attention, masked",
    1,
    () => heads(24, 1).scaledDotProductAttention(heads(24, 2), heads(24, 3), real([24, 24], 4).gt(-1).realize()),
  ],
  ["attention with a bias", 1, () => attention((x) => x.add(real([24, 24], 4)))],
  ["attention with a cap", 1, () => attention(softcap)],
  [
    "attention of shared heads",
    1,
    () => heads(24, 1, 4).scaledDotProductAttention(heads(24, 2), heads(24, 3), undefined, { enableGqa: true }),
  ],
  ["attention of 77 keys", 1, () => heads(40, 1).scaledDotProductAttention(heads(77, 2), heads(77, 3))],
  ["pooled convolution", 1, () => real([64, 4, 3, 3]).conv2d(real([64, 4, 1, 1], 2)).relu().mean([2, 3])],
  // the sums over channels and over windows are one, whatever made the gradient that they read
  [
    "gradient of convolutions",
    3,
    () => gradient(real([2, 4, 8, 8]), (x) => x.conv2d(real([8, 4, 3, 3], 2)).relu().conv2d(real([6, 8, 3, 3], 3))),
  ],
  ["gradient of softmax", 1, () => gradient(real([16, 64]), (x) => x.softmax(-1))],
  ["gradient of logSoftmax", 1, () => gradient(real([16, 64]), (x) => x.logSoftmax(-1))],
  ["gradient of layernorm", 1, () => gradient(real([16, 64]), (x) => x.layernorm())],
  // up to four steps of a network in one kernel, and one that reads the values
  ["sort", 1 + 2 + 2 + 2 + 1, () => real([3, 128]).sort(1)[0]],
  ["sort of wide keys", 18, () => real([3, 64]).cast("float64").sort(1)[0].cast("float32")],
  ["topk of many", 1 + 2 + 1 + 1, () => real([3, 512]).topk(9)[0]],
  ["transform of 256", 2 + 1, () => real([3, 256, 2]).fft()],
  ["power spectrum of 256", 2 + 1, () => real([3, 256]).rfft().square().sum(-1)],
  ["gradient of a transform of 256", 2 + 1, () => gradient(real([3, 256, 2]), (x) => x.fft())],
  ["a sum and a difference", 1, () => {
    const [x, y] = [real([3, 1, 16]), real([3, 1, 16], 2)];
    const first = Tensor.arange(2).reshape([1, 2, 1]).lt(1).expand([3, 2, 16]);
    return first.where(x.sin().add(y).expand([3, 2, 16]), x.sin().sub(y).expand([3, 2, 16]));
  }],
];
for (const device of DEVICES) {
  for (const [name, count, make] of PROGRAMS) {
    Deno.test(`fuse ${device}: ${name} takes ${count}`, async () => {
      Device.default = device;
      const t = make();
      const want = evaluateTensor(t);
      assertEquals(kernels([t]), count);
      const why = difference(Array.from(await t.data() as Float32Array), want.data, { relative: 2e-5, absolute: 2e-5 });
      assert(why === undefined, why);
    });
  }
}

/** A product of long rows, each result of which `copies` elements read. */
function spread(copies: number): Tensor {
  const product = real([32, 96]).matmul(real([96, 32], 2));
  return product.reshape([32, 32, 1]).expand([32, 32, copies]).mul(real([32, 32, copies], 3));
}

Deno.test("fuse: a long product keeps its lanes, a few readers of each result are a kernel of their own", async () => {
  const taken: number[] = [];
  for (const [device, copies] of [["WASM", 2], ["WASM", 16], ["JS", 2]] as const) {
    Device.default = device;
    const t = spread(copies), want = evaluateTensor(t);
    taken.push(kernels([t]));
    const why = difference(Array.from(await t.data() as Float32Array), want.data, { relative: 2e-5, absolute: 2e-5 });
    assert(why === undefined, why);
  }
  assertEquals(taken, [2, 1, 1]);
});

/** Mean and variance in double precision, in two passes. */
function twoPass(x: ArrayLike<number>): { mean: number; variance: number } {
  let sum = 0, squares = 0;
  for (let i = 0; i < x.length; i++) sum += x[i];
  const mean = sum / x.length;
  for (let i = 0; i < x.length; i++) squares += (x[i] - mean) ** 2;
  return { mean, variance: squares / x.length };
}

const LONG = 1 << 18;

/** Rows too long to be kept, of a kind: what the carriers are for. */
const LONG_ROWS: readonly (readonly [name: string, at: (i: number) => number])[] = [
  ["noise", (i) => Math.sin(i * 12.9898) * 3],
  ["noise at 1e8", (i) => 1e8 + Math.round(Math.sin(i * 12.9898) * 50) * 8],
  ["noise at -1e4", (i) => Math.sin(i * 12.9898) - 1e4],
  ["constant", () => 7.25],
  ["large constant", () => 3e30],
  ["one far from all others", (i) => i === 0 ? 1e6 : Math.sin(i * 12.9898)],
  ["steps", (i) => i < LONG / 2 ? -1000 : 1000 + (i % 5)],
];
for (const device of ALL_DEVICES) {
  for (const [name, at] of LONG_ROWS) {
    Deno.test(`fuse ${device}: moments of a long row in one pass: ${name}`, async () => {
      Device.default = device;
      const length = Math.max(LONG, Device.get(device).renderer.caps.l2 / 4); // as long as the cache that could keep it
      const data = Float32Array.from({ length }, (_, i) => at(i)), x = new Tensor(data).realize();
      const { variance } = twoPass(data), t = x.var(undefined, { correction: 0 });
      assertEquals(kernels([t]), 1);
      const got = await t.item();
      assert(Math.abs(got - variance) <= 2e-4 * variance, `${got}, want ${variance}`);
    });
  }
}

for (const [name, at] of LONG_ROWS) {
  Deno.test(`fuse SIM: moments of a row that groups share are read once: ${name}`, async () => {
    Device.default = "SIM";
    const length = 2 * LONG + 1000, data = Float32Array.from({ length }, (_, i) => at(i));
    const x = new Tensor(data).realize(), t = x.var(undefined, { correction: 0 });
    // parts, and what puts them together
    assertEquals(kernels([t]), 2);
    const { variance } = twoPass(data), got = await t.item();
    assert(Math.abs(got - variance) <= 2e-4 * variance, `${got}, want ${variance}`);
  });
}

const INF = Infinity;
const EDGES: readonly (readonly [name: string, fill: (i: number) => number])[] = [
  ["finite", (i) => Math.sin(i * 12.9898) * 40],
  ["all -infinity", () => -INF],
  ["mostly -infinity", (i) => i % 1000 === 999 ? i % 7 : -INF],
  ["an infinity", (i) => i === 5000 ? INF : i % 7],
  ["not a number", (i) => i === 70000 ? NaN : i % 7],
  ["very negative", (i) => -3e30 + i % 3],
  ["constant", () => -5],
];
for (const device of DEVICES) {
  for (const [name, fill] of EDGES) {
    Deno.test(`fuse ${device}: exponentials, maxima and moments of long rows: ${name}`, async () => {
      Device.default = device;
      const x = new Tensor(Float32Array.from({ length: 1 << 17 }, (_, i) => fill(i))).realize();
      const bare = x.sub(x.max()).exp().sum();
      // the mean of very large numbers is not exact enough for two passes
      for (const t of [x.logsumexp(), x.argmax(), bare, ...(name === "very negative" ? [] : [x.var()])]) {
        const want = evaluateTensor(t), got = await t.item();
        const why = difference([got], want.data, { relative: 1e-4, absolute: 1e-5 });
        assert(why === undefined, why);
      }
    });
    Deno.test(`fuse ${device}: softmax and attention: ${name}`, async () => {
      Device.default = device;
      const x = new Tensor(Float32Array.from({ length: 12 * 64 }, (_, i) => i < 64 ? fill(i) : Math.sin(i))).reshape([
        12,
        64,
      ])
        .realize();
      const [v, w] = [real([64, 8]), real([12, 64], 3)];
      for (const t of [x.softmax(-1), x.logSoftmax(-1), x.add(w).softmax(-1).matmul(v), x.logsumexp(-1)]) {
        const want = evaluateTensor(t);
        const got = Array.from(await t.data() as Float32Array);
        const why = difference(got, want.data, { relative: 2e-5, absolute: 2e-5 });
        assert(why === undefined, why);
      }
    });
  }
}

Deno.test("cascades: found by their algebra, and nothing else is", () => {
  Device.default = "JS";
  const x = real([4, 64]), y = real([4, 64], 2);
  const kinds = (t: Tensor): string[] => {
    const nodes = toposort(foldTensorGraph([t.uop], [t.uop])[0]);
    return nodes.flatMap((u) => u.op === Ops.REDUCE ? cascadeOf(u)?.kind ?? [] : []);
  };
  const mean = x.mean(1, { keepdim: true }), top = x.max(1, { keepdim: true });
  const cases: readonly (readonly [Tensor, string[]])[] = [
    [x.var(1), ["moments"]],
    [x.logsumexp(1), ["rescale"]],
    [x.sub(top).exp().mul(y).sum(1), ["rescale"]],
    [x.argmax(1), ["select"]],
    [x.sub(mean).sum(1), []],
    [x.sub(mean).mul(y).sum(1), []],
    [x.sub(top).mul(-1).exp().sum(1), []], // grows without bound
    [x.sub(top).exp2().sum(0), []], // over another axis
    [x.mul(top).exp().sum(1), []],
  ];
  for (const [t, want] of cases) assertEquals(kinds(t), want);
});

Deno.test("fuse: what the backward pass reads of a function step by step is computed again, not kept", () => {
  const [w, v] = [0, 1].map(() => Tensor.ones([64, 64], { requiresGrad: true }).realize());
  const x = Tensor.ones([128, 64]).contiguous().realize();
  const loss = x.matmul(w).gelu().matmul(v).gelu().mean().backward();
  const items = schedule([loss, w.grad!, v.grad!]);
  assertEquals(items.filter((i) => i.bufs.length > 5).map(String), []);
});

Deno.test("fuse: a sine that two kernels read is computed once", () => {
  const z = Tensor.rand([64, 128]).realize().sin();
  const asts = schedule([z.mul(3), z.sum(1)]).flatMap((i) => i.ast ?? []);
  const sines = asts.flatMap((ast) => toposort(ast).filter((u) => u.op === Ops.SIN));
  assertEquals(sines.length, 1);
});

for (
  const [name, make, decision] of [
    ["elementwise work", (x) => [x.exp().mul(2)], "in place: computed once"],
    [
      "the sum of a row for all of it",
      (x) => [x.sum(1, { keepdim: true }).add(x)],
      "in place: outside of the inner loops",
    ],
    ["a sum that two kernels read", (x) => {
      const s = x.sum();
      return [x.mul(s).sum(0), x.add(s).sum(1)];
    }, "realize: reduced for several kernels"],
    ["a sum of sums", (x) => [x.sum(1).add(1).sum()], "in place: reduced once"],
    ["exponentials of rows that are summed and divided", (x) => [x.softmax(1)], "in place: outside of the inner loops"],
    [
      "rows of a product that are summed",
      (x) => [x.matmul(x.transpose()).softmax(1)],
      "keep row: a row that its kernel keeps",
    ],
    [
      "a function that each element of a product is multiplied by",
      (x) => [x.gelu().matmul(x.gelu().transpose())],
      "realize: each element many times",
    ],
  ] as [string, (x: Tensor) => Tensor[], string][]
) {
  Deno.test(`fuse: a record tells why ${name}: ${decision}`, () => {
    const x = real([32, 32]);
    const { passes } = context({ SCACHE: 0 }, () => record(() => schedule(make(x))));
    const decisions = passes.find((p) => p.name === "fuse")!.changes.map((c) => c.rule);
    assert(decisions.includes(decision), [...new Set(decisions)].join("; "));
  });
}

Deno.test("fuse: elements at positions are read inside of sums, which loops do not repeat", () => {
  const device = openObserving("CUDA");
  const empty = (shape: number[], dtype: "float32" | "int32") =>
    Tensor.empty(shape, { device: device.name, dtype }).realize();
  const words = empty([65536, 768], "float32"),
    at = empty([50257, 16], "int32"),
    counts = empty([50257, 1, 1], "int32");
  const inside = Tensor.arange(16, { device: device.name }).reshape([1, 16, 1]).lt(counts);
  for (const bags of [words.at(at), inside.where(words.at(at), 0)]) {
    const before = device.kernels.length;
    bags.sum(1).realize();
    const made = device.kernels.slice(before).map((k) => k.program);
    // nothing but the sum is as long as the rows that it reads
    assert(made.every((p) => p.name.startsWith("r_") === p.bytes > 1e6), made.map((p) => p.name).join());
    assert(!/_in\d/.test(made.at(-1)!.name) && made.at(-1)!.grid!.size.every((n) => n <= 256), made.at(-1)!.name);
  }
});

/** The names of the kernels that a card would run for what `make` gives. */
async function kernelNames(make: (device: string) => Tensor[]): Promise<string[]> {
  const device = openObserving("CUDA"), ts = make(device.name), before = device.kernels.length;
  await Tensor.realize(ts);
  return device.kernels.slice(before).map((k) => k.name);
}

Deno.test(
  "fuse: an element at a position, of what a row's sum is subtracted from, is read where the row is",
  optimized(async () => {
    const names = await kernelNames((device) => {
      const x = Tensor.empty([512, 50257], { device }).realize();
      return [x.sparseCategoricalCrossentropy(Tensor.zeros([512], { device, dtype: "int32" }).contiguous().realize())];
    });
    // maximum and exponentials of a row, its loss; the mean
    assertEquals(names.length, 2, names.join(" "));
    assert(/^r_512_\d+_\d+_50_50$/.test(names[0]), names[0]);
  }),
);

Deno.test(
  "fuse: the elements that a loss takes from what a product made are not sums in one thread",
  optimized(async () => {
    const names = await kernelNames((device) => {
      const [h, w] = [[256, 64], [5021, 64]].map((s) => Tensor.empty(s, { device, requiresGrad: true }).realize());
      const y = Tensor.zeros([256], { device, dtype: "int32" }).contiguous().realize();
      return Tensor.train(() => {
        const loss = h.matmul(w.T).sparseCategoricalCrossentropy(y).backward();
        return [loss, h.grad!, w.grad!];
      });
    });
    for (const name of names) assert(!/_5021$/.test(name), name);
  }),
);

Deno.test("fuse: a product in tiles has no other sum beside it, however short", async () => {
  const names = await kernelNames((device) => {
    const [a, b] = [[512, 256], [256, 512]].map((s) => Tensor.empty(s, { device }).realize());
    const c = Tensor.empty([512, 512, 4], { device }).realize();
    return [a.matmul(b).add(c.exp().sum(2))];
  });
  assertEquals(names.length, 2, names.join(" "));
});

Deno.test(
  "fuse: a sum along one operand of a product on matrix units leaves it to them, one along both is theirs",
  optimized(async () => {
    const device = openObserving("CUDA"), before = device.kernels.length;
    const bf = (...shape: number[]) =>
      Tensor.empty(shape, { device: device.name }).cast("bfloat16").contiguous().realize();
    const parts = bf(3, 16, 512), [gate, up] = [bf(1024, 512), bf(1024, 512)];
    const product = (w: Tensor) => parts.matmul(w.T, { dtype: "float32" }).sum(0);
    await Tensor.realize([product(gate).silu().mul(product(up))]);
    const onUnits = () =>
      device.kernels.slice(before).filter((k) => k.program.uops.some((u) => u.op === Ops.WMMA)).length;
    assertEquals(onUnits(), 2);
    const [x, g] = [bf(4, 64, 1024), bf(4, 64, 1024)], kernels = device.kernels.length;
    await Tensor.realize([x.transpose(1, 2).matmul(g, { dtype: "float32" }).sum(0)]);
    assertEquals([onUnits(), device.kernels.length - kernels], [3, 1]);
  }),
);

Deno.test("fuse: what sums that are kept anyway make is computed again where it is read, not kept with them", async () => {
  const classes = 5021, rows = 256;
  const names = await kernelNames((device) => {
    const [h, w] = [[rows, 64], [classes, 64]].map((s) => Tensor.empty(s, { device, requiresGrad: true }).realize());
    const y = Tensor.zeros([rows], { device, dtype: "int32" }).contiguous().realize();
    return Tensor.train(() => {
      const loss = h.matmul(w.T).sparseCategoricalCrossentropy(y).backward();
      return [loss, h.grad!, w.grad!];
    });
  });
  // of kernels that are no products only the gradient writes a tensor of all logits, and nothing else does
  assertEquals(names.filter((name) => name.startsWith("E_")).length, 2, names.join(" "));
  assertEquals(names.length, 10, names.join(" "));
});

for (const device of ALL_DEVICES) {
  Deno.test(`fuse ${device}: blocks that add to what they read take as many kernels each, however many there are`, async () => {
    Device.default = device;
    const block = (x: Tensor, at: number): Tensor => {
      const norm = x.mul(x.square().mean(-1, { keepdim: true }).add(1e-5).rsqrt()).mul(real([32], at));
      return x.add(norm.matmul(real([32, 48], at + 1)).silu().matmul(real([48, 32], at + 2)).mul(0.01));
    };
    const after = (depth: number): Tensor => {
      let x = real([1, 32]);
      for (let i = 0; i < depth; i++) x = block(x, 3 * i);
      return x;
    };
    const one = kernels([after(1)]);
    for (const depth of [2, 4, 7]) assertEquals(kernels([after(depth)]), depth * one);
    const x = after(7),
      want = evaluateTensor(x),
      why = difference(await x.data() as Float32Array, want.data, {
        relative: 1e-4,
        absolute: 1e-4,
      });
    assert(why === undefined, why);
  });
}

Deno.test("fuse: a kept sum that nothing above was decided over asks for no other plan", () => {
  const empty = (...shape: number[]): Tensor => Tensor.empty(shape, { device: "JS" }).realize();
  /** Decisions that planning takes: each asks first whether the node is a part of a chain. */
  const decisions = (roots: readonly Tensor[]): number => {
    let count = 0;
    const inside = new Set<UOp>();
    inside.has = () => (count++, false);
    const chains = { inside, realized: new Set<UOp>(), weights: new Set<UOp>(), notes: [] },
      { caps } = Device.get("JS").renderer!;
    planFusion(roots.map((t) => stripReshape(t.uop)), () => caps, chains);
    return count;
  };
  const product = empty(64, 96).matmul(empty(96, 128)).relu(); // kept: two products read it
  const layers = [product.matmul(empty(128, 32)), product.matmul(empty(128, 48))];
  const total = empty(200, 300).sum(1); // kept: two kernels read it
  const sums = [total.exp(), total.mul(empty(200))];
  const [ofLayers, ofSums] = [layers, sums].map(decisions);
  assert(ofLayers > 0 && ofSums > 0);
  assertEquals(decisions([...layers, ...sums]), ofLayers + ofSums);
});

/** Operands of products that are made of several reads, with what they are multiplied by. */
const OPERANDS: readonly (readonly [name: string, make: (of: (...shape: number[]) => Tensor) => Tensor])[] = [
  ["a sum of two", (of) => of(512, 256).add(of(512, 256)).matmul(of(256, 512))],
  ["a second operand that is a sum", (of) => of(512, 256).matmul(of(256, 512).add(of(256, 512)))],
  ["scaled rows", (of) => of(512, 256).mul(of(512, 1)).matmul(of(256, 512))],
  ["rows less their mean", (of) => of(512, 256).sub(of(512, 1)).matmul(of(256, 512))],
  ["a bias before", (of) => of(512, 256).add(of(256)).relu().matmul(of(256, 512))],
  ["scaled columns", (of) => of(512, 256).matmul(of(256, 512).mul(of(512)))],
  ["itself turned", (of) => ((x: Tensor) => x.add(x.T).matmul(of(256, 512)))(of(256, 256))],
  ["pictures that are added", (of) => of(32, 128, 18, 18).add(of(32, 128, 18, 18)).conv2d(of(128, 128, 5, 5))],
];
for (const dtype of ["float32", "float16"] as const) {
  for (const [name, make] of OPERANDS) {
    Deno.test(
      `fuse: a product in tiles in ${dtype} of ${name}`,
      optimized(async () => {
        const device = openObserving("CUDA");
        await make((...shape) => Tensor.empty(shape, { device: device.name, dtype }).realize()).realize();
        const opts = device.kernels.map((k) => k.program.opts ?? "").filter((text) => text.includes("STAGE"));
        assertEquals(opts.length, 1, device.kernels.map((k) => `${k.name} ${k.program.opts}`).join("; "));
        assertEquals(opts[0].includes("TC"), dtype === "float16");
      }),
    );
  }
}

/** Products of float32 that are narrowed on the way, in 16 bits, and how many kernels narrow an operand first. */
const NARROWED:
  readonly (readonly [name: string, made: number, make: (of: (...shape: number[]) => Tensor) => Tensor])[] = [
    [
      "weights of a large layer",
      1,
      (of) => of(4096, 1024).cast("bfloat16").realize().matmul(of(1024, 768).cast("bfloat16")),
    ],
    [
      "weights as linear has them",
      1,
      (of) => of(4096, 1024).cast("float16").realize().matmul(of(768, 1024).cast("float16").T),
    ],
    ["both operands", 2, (of) => of(2048, 1024).cast("bfloat16").matmul(of(1024, 2048).cast("bfloat16"))],
    ["a small product", 0, (of) => of(128, 256).cast("bfloat16").matmul(of(256, 512).cast("bfloat16"))],
    [
      "many weights for a few rows",
      0,
      (of) => of(64, 8192).cast("bfloat16").realize().matmul(of(8192, 8192).cast("bfloat16")),
    ],
  ];
for (const [name, made, make] of NARROWED) {
  Deno.test(
    `fuse: units take operands narrow that large products narrow: ${name}`,
    optimized(async () => {
      const device = openObserving("CUDA"),
        result = make((...shape) => {
          return Tensor.empty(shape, { device: device.name }).realize();
        });
      const before = device.kernels.length;
      await result.realize();
      const now = device.kernels.slice(before), products = now.filter((k) => (k.program.opts ?? "").includes("TC"));
      assertEquals(
        [products.length, now.filter((k) => /^E_/.test(k.name)).length],
        [1, made],
        now.map((k) => `${k.name} ${k.program.opts}`).join("; "),
      );
      if (made > 0) assertMatch(products[0].program.opts!, /:boxes/); // copied as they lie
    }),
  );
}

/** The loss of a last layer on labels, and its gradients. */
function lossOfLayer(h: Tensor, w: Tensor, y: Tensor): Tensor[] {
  const loss = h.matmul(w.T).cast("float32").crossEntropy(y);
  return [loss, ...loss.gradient([h, w])];
}

Deno.test(
  "fuse: a loss of many classes and its gradient keep the maximum and the sum of a row, not its exponentials",
  optimized(async () => {
    const device = openObserving("CUDA"), on = { device: device.name }, [rows, classes] = [1024, 16384];
    const [h, w] = [rows, classes].map((n) => Tensor.empty([n, 512], { ...on, dtype: "bfloat16" }).realize());
    await Tensor.realize(lossOfLayer(h, w, Tensor.empty([rows], { ...on, dtype: "int32" }).realize()));
    // logits and their gradient in 16 bits, and what there is of each row
    assertEquals(Math.floor(device.planned / (rows * classes * 2)), 2, device.kernels.map((k) => k.name).join(" "));
  }),
);

Deno.test("fuse: a loss whose exponentials are computed again in its gradient is what it was", async () => {
  for (const device of ["SIM", "WASM"]) {
    const [h, w] = [real([33, 8]), real([520, 8], 2)].map((t) => t.to(device).realize());
    for (const t of lossOfLayer(h, w, labels(33, 520).to(device))) {
      const want = evaluateTensor(t), got = Array.from(await t.data() as Float32Array);
      assertEquals(difference(got, want.data, { relative: 2e-5, absolute: 2e-6 }), undefined, device);
    }
  }
});

Deno.test("fuse: a sum over windows is one with the product below it, whose operand another kernel keeps", async () => {
  const size = [2, 8, 9, 9], weight = [8, 4, 3, 3];
  const gradients = (x: Tensor, w: Tensor): Tensor[] =>
    x.convTranspose2d(w, undefined, { stride: 2 }).square().sum().gradient([x, w]);
  const device = openObserving("CUDA").name;
  const [x, w] = [size, weight].map((s) => Tensor.empty(s, { device }).realize());
  const written = schedule(gradients(x, w)).flatMap(({ runner }) =>
    runner instanceof CompiledKernel ? runner.program.linear.params.filter((p) => p.writes).map((p) => p.size) : []
  );
  // by itself the product has a value for each channel of the input, element of the window, and position of the output
  assert(written.every((n) => n < 2 * (8 * 9) * (19 * 19)), written.join(" "));
  const valuesOn = (device: string) =>
    Promise.all(gradients(real(size, 1).to(device), real(weight, 2).to(device)).map((t) => t.data()));
  const [want, got] = [await valuesOn("JS"), await valuesOn("SIM")];
  want.forEach((v, i) => assertEquals(difference(got[i], v, { absolute: 1e-3, relative: 1e-5 }), undefined));
});

Deno.test(
  "fuse: a norm of what several read squares what is in memory, and a sum of parts is no kernel",
  optimized(async () => {
    // a residual, whose sum several kernels read, and its norm
    const f = (x: Tensor, parts: Tensor, w: Tensor): Tensor[] => {
      const h = x.add(parts.matmul(w, { dtype: "float32" }).sum(0));
      return [h, h.mul(h.square().mean(-1, { keepdim: true }).add(1e-5).rsqrt()).contiguous()];
    };
    const device = openObserving("CUDA"), on = { device: device.name, dtype: "bfloat16" } as const;
    const x = Tensor.empty([16, 4096], { device: device.name }).realize(),
      parts = Tensor.empty([3, 16, 4096], on).realize();
    await Tensor.realize(f(x, parts, Tensor.empty([4096, 4096], on).realize()));
    assertEquals(device.kernels.length, 3, device.kernels.map((k) => k.name).join(" "));
    const valuesOn = (device: string) =>
      Promise.all(
        f(...[[4, 64], [3, 4, 64], [64, 64]].map((s, i) => real(s, i).to(device)) as [Tensor, Tensor, Tensor]).map((
          t,
        ) => t.data()),
      );
    const [want, got] = [await valuesOn("JS"), await valuesOn("SIM")];
    want.forEach((v, i) => assertEquals(difference(got[i], v, { absolute: 1e-4, relative: 1e-5 }), undefined));
  }),
);
