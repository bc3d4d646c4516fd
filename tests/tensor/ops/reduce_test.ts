/** Reductions, the softmax family, normalizations and scans: values by the oracle, dtypes, and what is refused. */
import { valueOf } from "../graph.ts";
import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { ArgumentError, ShapeError } from "../../../src/helpers/errors.ts";
import { Tensor } from "../../../src/tensor/tensor.ts";
import type { ShapeArg } from "../../../src/uop/core/args.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { toposort } from "../../../src/uop/core/uop.ts";
import { evaluateTensor } from "../../reference.ts";

const m = new Tensor([[1, 2, 3], [4, 5, 6]]), f = m.float();
const empty = Tensor.zeros([0, 3]), nan = NaN, inf = Infinity;
const u8 = new Tensor([200, 100], { dtype: "uint8" }), half = new Tensor([2048, 1, 1], { dtype: "float16" });

const values: readonly [string, Tensor, unknown, string][] = [
  ["sum", m.sum(), 21, "int32"],
  ["sum axis", m.sum(0), [5, 7, 9], "int32"],
  ["sum keepdim", m.sum(-1, { keepdim: true }), [[6], [15]], "int32"],
  ["sum axes", m.sum([1, 0]), 21, "int32"],
  ["sum no axes", m.sum([]), [[1, 2, 3], [4, 5, 6]], "int32"],
  ["sum of bools", m.gt(2).sum(), 4, "int32"],
  ["sum of uint8 widens", u8.sum(), 300, "uint32"],
  ["sum of half accumulates in float32", half.sum(), 2050, "float16"],
  ["sum dtype", m.sum(0, { dtype: "float64" }), [5, 7, 9], "float64"],
  ["sum empty", empty.sum(0), [0, 0, 0], "float32"],
  ["sum of nothing left", empty.sum(1), [], "float32"],
  ["sum of a scalar", new Tensor(3).sum(), 3, "int32"],
  ["prod", m.prod(1), [6, 120], "int32"],
  ["prod empty", empty.prod(), 1, "float32"],
  ["max", m.max(0), [4, 5, 6], "int32"],
  ["max empty", empty.max(0), [-inf, -inf, -inf], "float32"],
  ["max empty of ints", Tensor.zeros([0], { dtype: "int8" }).max(), -128, "int8"],
  ["min", m.min(1), [1, 4], "int32"],
  ["min of uint8", u8.min(), 100, "uint8"],
  ["min empty", empty.min(0), [inf, inf, inf], "float32"],
  ["min empty of ints", Tensor.zeros([0], { dtype: "int8" }).min(), 127, "int8"],
  ["max NaN", new Tensor([1, nan, 2]).max(), nan, "float32"],
  ["max of bools", m.gt(5).max(), true, "bool"],
  ["any", m.gt(5).any(1), [false, true], "bool"],
  ["any empty", empty.any(0), [false, false, false], "bool"],
  ["all", m.gt(3).all(1), [false, true], "bool"],
  ["all empty", empty.all(), true, "bool"],
  ["all of floats", new Tensor([0.5, nan]).all(), true, "bool"],
  ["mean", m.mean(0), [2.5, 3.5, 4.5], "float32"],
  ["mean of half", half.mean(), 683.5, "float16"],
  ["mean empty", empty.mean(), nan, "float32"],
  ["var", f.var(1), [1, 1], "float32"],
  ["var population", f.var(1, { correction: 0 }), [Math.fround(2 / 3), Math.fround(2 / 3)], "float32"],
  ["var of too few", new Tensor([1.5]).var(), nan, "float32"],
  [
    "std",
    f.std(0, { keepdim: true }),
    [[Math.fround(Math.sqrt(4.5)), 2.1213202476501465, 2.1213202476501465]],
    "float32",
  ],
  ["allclose", f.allclose(f.add(1e-7)), true, "bool"],
  ["argmax", m.argmax(), 5, "int32"],
  ["argmax first", new Tensor([1, 3, 3]).argmax(), 1, "int32"],
  ["argmax axis", m.argmax(1, { keepdim: true }), [[2], [2]], "int32"],
  ["argmax NaN", new Tensor([1, nan, 3, nan]).argmax(), 1, "int32"],
  ["argmax of bools", new Tensor([false, true, true]).argmax(), 1, "int32"],
  ["argmin", m.argmin(0), [0, 0, 0], "int32"],
  ["argmin unsigned", u8.argmin(), 1, "int32"],
  ["argmax of a scalar", new Tensor(5).argmax(), 0, "int32"],
  ["softmax of a scalar", new Tensor(5).softmax(), 1, "float32"],
  ["softmax of large", new Tensor([1000, 1000.0]).softmax(), [0.5, 0.5], "float32"],
  ["softmax of -inf", new Tensor([-inf, 0]).softmax(), [0, 1], "float32"],
  ["softmax dtype", m.softmax(0, { dtype: "float16" }).sum(0), [1, 1, 1], "float16"],
  ["softmin", new Tensor([0, inf]).softmin(), [1, 0], "float32"],
  ["logsumexp of -inf", new Tensor([-inf, -inf]).logsumexp(), -inf, "float32"],
  ["logsumexp of inf", new Tensor([inf, 0]).logsumexp(), inf, "float32"],
  ["batchnorm", f.batchnorm([1, 2, 3], [0, 0, 1], [1, 2, 3], [1, 1, 2]), [[0, 0, 1], [3, 6, 19]], "float32"],
  [
    "batchnorm bare",
    f.batchnorm(null, null, new Tensor([1, 2]), new Tensor([1, 1]), 0),
    [[0, 1, 2], [2, 3, 4]],
    "float32",
  ],
  ["normalize", new Tensor([[3, 4], [0, 0]]).normalize(), [[Math.fround(0.6), Math.fround(0.8)], [0, 0]], "float32"],
  ["normalize p 1", new Tensor([[1, 3]]).normalize({ p: 1 }), [[0.25, 0.75]], "float32"],
  ["normalize p 0", new Tensor([[1, 3, 0]]).normalize({ p: 0 }), [[0.5, 1.5, 0]], "float32"],
  ["cumsum", m.cumsum(1), [[1, 3, 6], [4, 9, 15]], "int32"],
  ["cumsum axis 0", m.cumsum(), [[1, 2, 3], [5, 7, 9]], "int32"],
  ["cumsum of bools", m.gt(2).cumsum(1), [[0, 0, 1], [1, 2, 3]], "int32"],
  ["cumsum widens as sum does", u8.cumsum(), [200, 300], "uint32"],
  ["cumprod widens as sum does", new Tensor([100, 100]).cast("int8").cumprod(0), [100, 10000], "int32"],
  ["prod widens as sum does", u8.prod(), 20000, "uint32"],
  ["prod of bools", m.gt(2).prod(1), [0, 1], "int32"],
  ["einsum widens as sum does", Tensor.einsum("i,i->", [u8, u8]), 50000, "uint32"],
  ["sum in float16 accumulates wide", Tensor.full([4096], 1).sum(0, { dtype: "float16" }), 4096, "float16"],
  ["cumsum of a scalar", new Tensor(3).cumsum(), 3, "int32"],
  ["cumsum empty", empty.cumsum(), [], "float32"],
  ["cumprod", m.cumprod(1), [[1, 2, 6], [4, 20, 120]], "int32"],
  ["cummax values", new Tensor([1, 3, 3, 2]).cummax()[0], [1, 3, 3, 3], "int32"],
  ["cummax indices", new Tensor([1, 3, 3, 2]).cummax()[1], [0, 1, 1, 1], "int32"],
  ["cummax NaN", new Tensor([1, nan, 5]).cummax()[1], [0, 1, 1], "int32"],
  ["cummin values", new Tensor([[3, 1], [2, 5]]).cummin(0)[0], [[3, 1], [2, 1]], "int32"],
  ["cummin indices", new Tensor([[3, 1], [2, 5]]).cummin(0)[1], [[0, 0], [1, 0]], "int32"],
  ["logcumsumexp", new Tensor([-inf, 0, 0, 1000]).logcumsumexp(), [-inf, 0, Math.fround(Math.LN2), 1000], "float32"],
];
for (const [name, x, want, dtype] of values) {
  Deno.test(`reduce: ${name}`, () => {
    assertEquals(valueOf(x), want as ReturnType<typeof valueOf>);
    assertEquals(x.dtype.name, dtype);
  });
}

Deno.test("reduce: softmax, logSoftmax, logsumexp, layernorm and moments agree with their formulas", () => {
  const xs = [0.5, -1, 2, 0.25], x = new Tensor(xs), n = xs.length;
  const total = xs.reduce((a, v) => a + Math.exp(v), 0), mean = xs.reduce((a, v) => a + v, 0) / n;
  const variance = xs.reduce((a, v) => a + (v - mean) ** 2, 0);
  const near = (t: Tensor, want: number[]) =>
    evaluateTensor(t).data.forEach((v, k) => assertAlmostEquals(v, want[k], 1e-6));
  near(x.softmax(), xs.map((v) => Math.exp(v) / total));
  near(x.logSoftmax(), xs.map((v) => v - Math.log(total)));
  near(x.logsumexp(), [Math.log(total)]);
  near(x.layernorm(), xs.map((v) => (v - mean) / Math.sqrt(variance / n + 1e-5)));
  const [s, mu] = x.stdMean();
  near(s, [Math.sqrt(variance / (n - 1))]);
  near(mu, [mean]);
  near(x.varMean(0)[0], [variance / (n - 1)]);
});

Deno.test("reduce: long scans go by blocks", () => {
  const n = 3000;
  const xs = Array.from({ length: n }, (_, k) => ((k * 7919) % 101) - 50);
  const x = new Tensor(xs);
  const sums: number[] = [], highs: number[] = [], at: number[] = [];
  xs.forEach((v, k) => {
    sums.push(v + (sums[k - 1] ?? 0));
    const isNew = k === 0 || v > highs[k - 1];
    highs.push(isNew ? v : highs[k - 1]);
    at.push(isNew ? k : at[k - 1]);
  });
  assertEquals(evaluateTensor(x.cumsum()).data, sums);
  const [high, index] = x.cummax();
  assertEquals(evaluateTensor(high).data, highs);
  assertEquals(evaluateTensor(index).data, at);
  const y = x.float().mul(0.1);
  const logs = evaluateTensor(y.logcumsumexp()).data, last = evaluateTensor(y.logsumexp()).data[0];
  assertAlmostEquals(logs[n - 1], last, 1e-4);
  assertEquals(evaluateTensor(x.reshape([3, 1000]).cumsum(1)).data.slice(0, 1000), sums.slice(0, 1000));
  // many rows go by shorter blocks
  const many = evaluateTensor(x.reshape([1, n]).expand([22, n]).contiguous().cumsum(1)).data;
  assertEquals([0, 999, 21 * n + 64, 22 * n - 1].map((i) => many[i]), [sums[0], sums[999], sums[64], sums[n - 1]]);
  const sizes = toposort(x.cumsum().uop).filter((u) => u.op === Ops.EXPAND).map((u) => (u.arg as ShapeArg).shape);
  assert(sizes.every((s) => s.reduce((p, q) => p * q, 1) <= 64 * n), "a scan must not be quadratic");
});

Deno.test("reduce: several axes are one REDUCE", () => {
  const x = Tensor.empty([2, 3, 4]);
  assertEquals(toposort(x.sum([0, 2]).uop).filter((u) => u.op === Ops.REDUCE).length, 1);
  assertEquals(x.sum([0, 2]).shape, [3]);
  assertEquals(toposort(Tensor.empty([1, 1]).sum().uop).filter((u) => u.op === Ops.REDUCE).length, 0);
});

Deno.test("reduce: gradients of scans", () => {
  const x = new Tensor([1, 2, 3, 4], { requiresGrad: true });
  assertEquals(evaluateTensor(x.cumsum().sum().gradient([x])[0]).data, [4, 3, 2, 1]);
  const g = evaluateTensor(x.logcumsumexp().at(-1).gradient([x])[0]).data;
  const soft = evaluateTensor(x.softmax()).data;
  g.forEach((v, k) => assertAlmostEquals(v, soft[k], 1e-6));
});

type Thrown = new (...args: never[]) => Error;
const errors: readonly [string, () => unknown, Thrown, string][] = [
  ["axis", () => m.sum(2), ShapeError, "Cannot sum shape [2, 3]: axis 2 is outside [-2, 2)"],
  ["axis twice", () => m.sum([0, -2]), ShapeError, "axis 0 is given twice"],
  ["axis kind", () => m.sum("0" as never), ArgumentError, 'axes must be a number or a list of numbers, not "0'],
  ["fraction", () => m.max(0.5), ArgumentError, "an axis must be an integer, not 0.5"],
  ["option", () => m.mean(0, { keepDim: true } as never), ArgumentError, 'unknown option "keepDim"; known are keepdim'],
  ["argmax", () => empty.argmax(0), ShapeError, "axis 0 has no elements"],
  ["softmax", () => m.softmax(3), ShapeError, "Cannot softmax shape [2, 3]: axis 3"],
  ["cumsum", () => m.cumsum(2), ShapeError, "Cannot cumsum shape [2, 3]: axis 2"],
  ["batchnorm", () => f.batchnorm([1, 2], null, 0, 1), ShapeError, "weight has 2 elements, axis 1 has 3"],
  ["normalize", () => f.normalize({ dim: 2 }), ShapeError, "Cannot normalize shape [2, 3]: axis 2"],
];
for (const [name, make, type, text] of errors) {
  Deno.test(`reduce error: ${name}`, () => {
    assertThrows(make, type as new (...args: unknown[]) => Error, text);
  });
}
