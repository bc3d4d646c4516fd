/** Random numbers: known answers of threefry, the stream of the counter, moments, and what is refused. */
import { valueOf } from "../graph.ts";
import { assert, assertAlmostEquals, assertEquals, assertNotEquals, assertThrows } from "@std/assert";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { ArgumentError, DTypeError, ShapeError } from "../../../src/helpers/errors.ts";
import { currentCounter, drawWord, reserveCounter, threefryNode } from "../../../src/tensor/nodes/random.ts";
import { Tensor } from "../../../src/tensor/tensor.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { constant, toposort } from "../../../src/uop/core/uop.ts";
import { evaluate, evaluateTensor } from "../../reference.ts";

const u = (x: number) => constant(x, dtypes.uint32);

// Known answers of Random123's threefry2x32 with 20 rounds.
const answers: readonly [key: [number, number], counter: [number, number], want: [number, number]][] = [
  [[0, 0], [0, 0], [0x6b200159, 0x99ba4efe]],
  [[0xffffffff, 0xffffffff], [0xffffffff, 0xffffffff], [0x1cb996fc, 0xbb002be7]],
  [[0x13198a2e, 0x03707344], [0x243f6a88, 0x85a308d3], [0xc4923a9c, 0x483df7a0]],
];
for (const [key, counter, want] of answers) {
  Deno.test(`random: threefry of ${counter} under ${key}`, () => {
    const out = threefryNode([u(key[0]), u(key[1])], [u(counter[0]), u(counter[1])]);
    assertEquals(out.map((x) => evaluate(x).data[0]), want);
  });
}

/** threefry2x32 in plain JavaScript: the two words xor-ed. */
function bitsAt(key: readonly [number, number], high: number, low: number): number {
  const ks = [key[0], key[1], key[0] ^ key[1] ^ 0x1bd11bda];
  let a = (high + ks[0]) | 0, b = (low + ks[1]) | 0;
  const rotations = [[13, 15, 26, 6], [17, 29, 16, 24]];
  for (let r = 0; r < 5; r++) {
    for (const by of rotations[r % 2]) {
      a = (a + b) | 0;
      b = ((b << by) | (b >>> (32 - by))) ^ a;
    }
    a = (a + ks[(r + 1) % 3]) | 0;
    b = (b + ks[(r + 2) % 3] + r + 1) | 0;
  }
  return (a ^ b) >>> 0;
}

Deno.test("random: randomBits is the stream at 64-bit counters, with carry", () => {
  const at = (c: number) => bitsAt([1, 42], Math.floor(c / 2 ** 32), c % 2 ** 32);
  for (const start of [0, 7, 2 ** 32 - 2]) {
    const want = Array.from({ length: 5 }, (_, k) => at(start + k));
    assertEquals(valueOf(Tensor.randomBits([1, 42], start, 5)), want);
    assertEquals(valueOf(Tensor.randomBits(new Tensor([1, 42], { dtype: "uint32" }), BigInt(start), 5)), want);
  }
  const counter = new Tensor([2 ** 32 - 2, 3], { dtype: "uint32" });
  assertEquals(valueOf(Tensor.randomBits([1, 42], counter, 1)), [bitsAt([1, 42], 3, 2 ** 32 - 2)]);
  assertEquals(Tensor.randomBits([0, 0], 0, 0).shape, [0]);
});

Deno.test("random: rand fills the mantissa from the stream of the seed", () => {
  Tensor.manualSeed(2 ** 32 + 42);
  const first = Tensor.rand([2, 2]), second = Tensor.rand([3]);
  const uniform = (k: number) => (bitsAt([1, 42], 0, k) >>> 9) / 2 ** 23;
  // In any order of evaluation.
  assertEquals(valueOf(second), [4, 5, 6].map(uniform));
  assertEquals(valueOf(first), [[0, 1].map(uniform), [2, 3].map(uniform)]);
  assertEquals(currentCounter(), 7);
});

Deno.test("random: the same seed gives the same numbers, draws differ", () => {
  Tensor.manualSeed(7);
  const a = valueOf(Tensor.randn([4])), b = valueOf(Tensor.randn([4]));
  Tensor.manualSeed(7);
  assertEquals(valueOf(Tensor.randn([4])), a);
  assertNotEquals(a, b);
  const x = Tensor.rand([4]);
  assertEquals(valueOf(x), valueOf(x.add(0)));
});

Deno.test("random: counter and key are bound variables, so graphs differ in nothing else", () => {
  Tensor.manualSeed(7);
  const names = (t: Tensor) => toposort(t.uop).filter((n) => n.op === Ops.BIND).map((n) => String(n.src[0].arg)).sort();
  const a = Tensor.rand([4]), b = Tensor.rand([4]);
  assertEquals(names(a), names(b));
  assertEquals(names(a).length, 4);
  assertEquals(toposort(a.uop).length, toposort(b.uop).length);
});

Deno.test("random: a draw does not straddle a multiple of 2^32", () => {
  Tensor.manualSeed(7);
  reserveCounter(2 ** 32 - 3);
  assertEquals(reserveCounter(5), 2 ** 32);
  assertEquals(currentCounter(), 2 ** 32 + 5);
});

for (const dtype of ["float16", "bfloat16", "float32", "float64"]) {
  Deno.test(`random: moments of ${dtype}`, () => {
    Tensor.manualSeed(3);
    const n = 4000, xs = evaluateTensor(Tensor.rand([n], { dtype })).data;
    assert(xs.every((x) => x >= 0 && x < 1));
    const mean = xs.reduce((s, x) => s + x, 0) / n;
    assertAlmostEquals(mean, dtype === "bfloat16" ? 0.5 - 1 / 256 : 0.5, 0.02);
    const zs = evaluateTensor(Tensor.randn([n], { dtype })).data;
    const m = zs.reduce((s, x) => s + x, 0) / n;
    assertAlmostEquals(m, 0, 0.06);
    assertAlmostEquals(zs.reduce((s, x) => s + (x - m) ** 2, 0) / n, 1, 0.08);
  });
}

Deno.test("random: ranges and bounds", () => {
  Tensor.manualSeed(5);
  const range = (t: Tensor) => {
    const xs = evaluateTensor(t).data.map(Number);
    return [Math.min(...xs), Math.max(...xs)];
  };
  assertEquals(range(Tensor.randint([500])), [0, 9]);
  assertEquals(range(Tensor.randint([500], { low: -2, high: 2, dtype: "int8" })), [-2, 1]);
  assertEquals(Tensor.randint([3], { low: 0, high: 2 ** 32, dtype: "uint32" }).dtype, dtypes.uint32);
  const within = (t: Tensor, bound: number) => {
    const [low, high] = range(t);
    assert(low >= -bound && high <= bound && high - low > bound, `[${low}, ${high}] for ±${bound}`);
  };
  within(Tensor.uniform([200], { low: -3, high: 3 }), 3);
  within(Tensor.scaledUniform([10, 20]), 200 ** -0.5);
  within(Tensor.glorotUniform([10, 20]), Math.sqrt(6 / 30));
  within(Tensor.kaimingUniform([10, 20]), Math.sqrt(6 / (20 * 1.0001)));
  const normal = evaluateTensor(Tensor.normal([2000], { mean: 5, std: 2 })).data;
  assertAlmostEquals(normal.reduce((s, x) => s + x, 0) / 2000, 5, 0.2);
  assertEquals(Tensor.kaimingNormal([4, 3], { requiresGrad: true }).requiresGrad, true);
  assertEquals(Tensor.uniform([3], { high: 9, dtype: "int32" }).dtype, dtypes.int32);
  assertEquals(Tensor.ones([2], { dtype: "float16" }).randLike().dtype, dtypes.float16);
  assertEquals(Tensor.ones([2, 3]).randnLike().shape, [2, 3]);
});

const ENDS: readonly [low: number, high: number, dtype: string, most: number][] = [
  [1e6, 1e6 + 1, "float32", 1e6 + 0.9375],
  [100, 101, "float32", 101 - 2 ** -17],
  [-2, -1, "float32", -1 - 2 ** -23],
  [0, 3, "float32", 3 - 2 ** -21],
  [16777216, 16777218, "float32", 16777216],
  [0, 0.1, "float32", Math.fround(0.1) - 2 ** -27],
  [100, 101, "float16", 101 - 2 ** -4],
  [1, 2, "float16", 2 - 2 ** -10],
  [1, 2, "bfloat16", 2 - 2 ** -7],
  [100, 102, "bfloat16", 101.5],
  [1e15, 1e15 + 1, "float64", 1e15 + 0.875],
];
for (const [low, high, dtype, most] of ENDS) {
  Deno.test(`random: uniform of ${dtype} stays below ${high}`, () => {
    Tensor.manualSeed(11);
    const xs = evaluateTensor(Tensor.uniform([4000], { low, high, dtype })).data.map(Number);
    const [least, largest] = [Math.min(...xs), Math.max(...xs)];
    assert(least >= low && largest < high && largest <= most, `[${least}, ${largest}]`);
    if (dtype !== "float32" || high - low < 2 && high > 1000) assertEquals(largest, most);
  });
}

Deno.test("random: uniform beyond a dtype", () => {
  assertThrows(() => Tensor.uniform([2], { high: 1e6, dtype: "float16" }), ArgumentError, "not 0 and 1000000");
  assertThrows(() => Tensor.uniform([2], { high: Infinity }), ArgumentError, "must be finite");
});

Deno.test("random: randperm is a permutation", () => {
  const xs = evaluateTensor(Tensor.randperm(50)).data;
  assertEquals([...xs].sort((a, b) => a - b), Array.from({ length: 50 }, (_, k) => k));
  assertEquals(Tensor.randperm(3, { dtype: "int64" }).dtype, dtypes.int64);
});

Deno.test("random: multinomial draws what has weight", () => {
  const w = new Tensor([[0, 1, 0, 3], [5, 0, 0, 0]]);
  const many = valueOf(w.multinomial({ numSamples: 40, replacement: true })) as number[][];
  assertEquals([...new Set(many[0])].sort(), [1, 3]);
  assertEquals([...new Set(many[1])], [0]);
  const apart = valueOf(new Tensor([1, 1, 1, 1.0]).multinomial({ numSamples: 4 })) as number[];
  assertEquals([...apart].sort(), [0, 1, 2, 3]);
});

Deno.test("random: bernoulli draws 1 as often as it is told, at each place, with a gradient of 0", () => {
  const shares = new Tensor([0, 0.25, 0.5, 1], { requiresGrad: true }), drawn = shares.expand([4000, 4]).bernoulli();
  const [none, quarter, half, all] = valueOf(drawn.mean(0)) as number[];
  assertEquals([none, all], [0, 1]);
  assertAlmostEquals(quarter, 0.25, 0.03);
  assertAlmostEquals(half, 0.5, 0.03);
  drawn.sum().backward();
  assertEquals(valueOf(shares.grad!), [0, 0, 0, 0]);
  const whole = Tensor.zeros([2000], { dtype: "int64" }).bernoulli(0.75), mean = whole.sum();
  assertEquals(whole.dtype, dtypes.int64);
  assertAlmostEquals(Number(valueOf(mean)) / 2000, 0.75, 0.04);
});

Deno.test("random: gumbelSoftmax draws categories as softmax says, by each axis", () => {
  const logits = new Tensor([0, 1, 2]), want = valueOf(logits.softmax()) as number[];
  for (const dim of [0, 1]) {
    const many = dim === 1 ? logits.expand([6000, 3]) : logits.unsqueeze(1).expand([3, 6000]);
    const drawn = many.gumbelSoftmax(dim, { hard: true });
    assertEquals([...new Set(evaluateTensor(drawn.sum(dim)).data)], [1]);
    const shares = valueOf(drawn.mean(1 - dim)) as number[];
    shares.forEach((share, k) => assertAlmostEquals(share, want[k], 0.03));
  }
});

Deno.test("random: gumbelSoftmax is relaxed by its temperature, and hard draws have the gradient of relaxed ones", () => {
  const made = (tau: number, hard: boolean) => {
    Tensor.manualSeed(11);
    const logits = new Tensor([0.5, -1, 2], { requiresGrad: true }), y = logits.gumbelSoftmax(0, { tau, hard });
    y.mul(new Tensor([1, -2, 3])).sum().backward();
    return { y: valueOf(y) as number[], grad: valueOf(logits.grad!) as number[] };
  };
  const soft = made(0.7, false), hard = made(0.7, true), sharp = made(0.01, false);
  assertAlmostEquals(soft.y.reduce((a, b) => a + b), 1, 1e-6);
  assertEquals(hard.y.indexOf(Math.max(...hard.y)), soft.y.indexOf(Math.max(...soft.y)));
  hard.grad.forEach((g, k) => assertAlmostEquals(g, soft.grad[k], 1e-6));
  // y (g - sum(g y)) / tau, of softmax
  const g = [1, -2, 3], sum = soft.y.reduce((a, y, k) => a + y * g[k], 0);
  soft.grad.forEach((got, k) => assertAlmostEquals(got, soft.y[k] * (g[k] - sum) / 0.7, 1e-5));
  assertAlmostEquals(Math.max(...sharp.y), 1, 1e-3);
});

Deno.test("random: dropout keeps the mean, and draws anew", () => {
  const x = Tensor.ones([2000]);
  const [a, b] = Tensor.train(() => [x.dropout(0.25), x.dropout(0.25)]);
  const xs = evaluateTensor(a).data;
  assertEquals([...new Set(xs)].sort(), [0, Math.fround(4 / 3)]);
  assertAlmostEquals(xs.reduce((s, v) => s + v, 0) / 2000, 1, 0.05);
  assertNotEquals(xs, evaluateTensor(b).data);
  assert(Tensor.train(() => x.dropout(0)) === x);
  assertEquals(evaluateTensor(Tensor.train(() => x.dropout(1)).sum()).data, [0]);
  assert(x.dropout(0.5) === x);
});

type Thrown = new (...args: never[]) => Error;
const errors: readonly [string, () => unknown, Thrown, string][] = [
  ["rand dtype", () => Tensor.rand([2], { dtype: "int32" }), DTypeError, "Cannot draw uniform numbers of dtype int32"],
  ["rand shape", () => Tensor.rand([-2]), ShapeError, "size -2 of axis 0 is no size"],
  ["rand option", () => Tensor.rand([2], { type: "x" } as never), ArgumentError, 'unknown option "type"'],
  ["randint", () => Tensor.randint([2], { low: 3, high: 3 }), ArgumentError, "low < high"],
  ["randint dtype", () => Tensor.randint([2], { dtype: "float32" }), DTypeError, "it must be an integer"],
  ["uniform", () => Tensor.uniform([2], { low: 1, high: 0 }), ArgumentError, "low must be below high"],
  ["seed", () => Tensor.manualSeed(0.5), ArgumentError, "Cannot set the seed"],
  ["key", () => Tensor.randomBits([1] as never, 0, 2), ArgumentError, "the key must have two words"],
  ["weight below 0", () => new Tensor([-1, 2]).multinomial(), ArgumentError, "finite and at least 0, not -1"],
  ["weight NaN", () => new Tensor([NaN, 2]).float().multinomial(), ArgumentError, "finite and at least 0, not NaN"],
  [
    "no weights",
    () => new Tensor([0, 0]).float().multinomial(),
    ArgumentError,
    "1 of the weights must be above 0, and 0 are",
  ],
  [
    "too few weights",
    () => new Tensor([[1, 1, 0], [0, 0.5, 0]]).multinomial({ numSamples: 2 }),
    ArgumentError,
    "2 of the weights must be above 0, and 1 are in row 1",
  ],
  ["multinomial", () => Tensor.ones([2]).multinomial({ numSamples: 3 }), ArgumentError, "need replacement: true"],
];
for (const [name, make, type, text] of errors) {
  Deno.test(`random error: ${name}`, () => {
    assertThrows(make, type as new (...args: unknown[]) => Error, text);
  });
}

Deno.test("random: the state goes on with the same numbers, on devices and the host", () => {
  Tensor.manualSeed(0x123456789abcn);
  Tensor.rand([7]);
  const saved = JSON.parse(JSON.stringify(Tensor.getRngState()));
  assertEquals(saved, { seed: String(0x123456789abcn), counter: 7 });
  const draw = () => [evaluateTensor(Tensor.rand([3])).data, drawWord(), evaluateTensor(Tensor.randn([2])).data];
  const first = draw();
  Tensor.manualSeed(1);
  Tensor.setRngState(saved);
  assertEquals(draw(), first);
  Tensor.setRngState({ seed: saved.seed, counter: 11 });
  const bits = evaluateTensor(Tensor.randomBits([0x1234, 0x56789abc], 11, 2)).data;
  assertEquals([drawWord(), drawWord()], Array.from(bits, Number));
  for (const bad of [undefined, 5, { seed: 1, counter: 0 }, { seed: "1", counter: -1 }]) {
    assertThrows(() => Tensor.setRngState(bad as never), ArgumentError, "it must be what Tensor.getRngState() gave");
  }
});
