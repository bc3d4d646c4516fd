/** Indexing, gather and scatter, sorting, selection by masks: values by the oracle, and what is refused. */
import { valueOf } from "../graph.ts";
import { assert, assertEquals, assertThrows } from "@std/assert";
import { ArgumentError, DTypeError, IndexError, ShapeError } from "../../../src/helpers/errors.ts";
import type { Index } from "../../../src/tensor/index/indexing.ts";
import { Tensor } from "../../../src/tensor/tensor.ts";
import { isMovement, Ops } from "../../../src/uop/core/ops.ts";
import { toposort } from "../../../src/uop/core/uop.ts";
import { evaluateTensor } from "../../reference.ts";

const t = (...shape: number[]) => Tensor.arange(shape.reduce((a, b) => a * b, 1)).reshape(shape);
const ints = (x: number[] | number[][]) => new Tensor(x);
const m = t(3, 4);

const reads: readonly [string, Tensor, unknown][] = [
  ["number", m.at(1), [4, 5, 6, 7]],
  ["negative", m.at(-1, -1), 11],
  ["bigint", m.at(2n, 0), 8],
  ["slice", m.at([1, 3], [0, 2]), [[4, 5], [8, 9]]],
  ["slice open", m.at([null, 1], [2, null]), [[2, 3]]],
  ["slice negative", m.at([-2, null], [null, -2]), [[4, 5], [8, 9]]],
  ["slice clamped", m.at([1, 99], [-99, 1]), [[4], [8]]],
  ["slice empty", m.at([2, 1]), []],
  ["step", m.at(":", [0, null, 2]), [[0, 2], [4, 6], [8, 10]]],
  ["step off the end", t(5).at([0, null, 2]), [0, 2, 4]],
  ["step to the end", t(5).at([2, null, 2]), [2, 4]],
  ["step 3 of 8", t(8).at([1, null, 3]), [1, 4, 7]],
  ["step larger than the axis", t(3).at([1, null, 9]), [1]],
  ["backward", t(5).at([null, null, -1]), [4, 3, 2, 1, 0]],
  ["backward step", t(6).at([4, 0, -2]), [4, 2]],
  ["backward open", t(6).at([null, null, -2]), [5, 3, 1]],
  ["backward empty", t(6).at([0, 4, -1]), []],
  ["null", m.at(0, null, [0, 2]), [[0, 1]]],
  ["dots", t(2, 1, 3).at("...", 1), [[1], [4]]],
  ["dots of nothing", m.at(0, "...", 1), 1],
  ["colon", m.at(":", 1), [1, 5, 9]],
  ["nothing", m.at(), [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]],
  ["tensor", m.at(ints([2, 0])), [[8, 9, 10, 11], [0, 1, 2, 3]]],
  ["tensor negative", m.at(ints([-1]), -1), [11]],
  ["tensor on axis 1", m.at(":", ints([3, 0])), [[3, 0], [7, 4], [11, 8]]],
  ["tensor 2-D", t(4).at(ints([[0, 1], [3, 2]])), [[0, 1], [3, 2]]],
  ["tensor scalar", m.at(new Tensor(1)), [4, 5, 6, 7]],
  ["tensors together", m.at(ints([0, 2]), ints([1, 3])), [1, 11]],
  ["tensors broadcast", m.at(ints([[0], [2]]), ints([1, 3])), [[1, 3], [9, 11]]],
  ["tensors apart", t(2, 2, 2).at(ints([0, 1]), ":", ints([1, 0])), [[1, 3], [4, 6]]],
  ["tensors adjacent in the middle", t(2, 2, 2, 1).at(":", ints([0, 1]), ints([1, 0])), [[[1], [2]], [[5], [6]]]],
  ["tensor and slice", m.at([1, null], ints([0])), [[4], [8]]],
  ["tensor out of range reads 0", t(3).add(1).at(ints([0, 3]).mul(1)), [1, 0]],
  ["tensor of int64", t(3).at(new Tensor([2n, -1n])), [2, 2]],
  ["tensor of uint8", t(300).at(new Tensor([255], { dtype: "uint8" })), [255]],
  ["bool values", m.gt(4).at(ints([1])), [[false, true, true, true]]],
  ["NaN elsewhere does not matter", new Tensor([NaN, 2]).at(ints([1])), [2]],
  ["gather", m.gather(1, ints([[0, 3], [1, 1]])), [[0, 3], [5, 5]]],
  ["gather axis 0", m.gather(0, ints([[2, 0, 1]])), [[8, 1, 6]]],
  ["oneHot", ints([0, 2, 5]).oneHot(3), [[1, 0, 0], [0, 0, 1], [0, 0, 0]]],
  ["tril", t(3, 3).add(1).tril(), [[1, 0, 0], [4, 5, 0], [7, 8, 9]]],
  ["tril above", t(2, 3).add(1).tril(1), [[1, 2, 0], [4, 5, 6]]],
  ["triu", t(3, 3).add(1).triu(), [[1, 2, 3], [0, 5, 6], [0, 0, 9]]],
  ["triu below", t(3, 2).add(1).triu(-1), [[1, 2], [3, 4], [0, 6]]],
  ["diag", ints([1, 2]).diag(), [[1, 0], [0, 2]]],
  ["scatter", Tensor.zeros([3]).scatter(0, ints([2, 0]), new Tensor([1.5, 2.5])), [2.5, 0, 1.5]],
  ["scatter last wins", t(2).scatter(0, ints([1, 1]), ints([7, 8])), [0, 8]],
  ["scatter scalar", t(2, 2).scatter(1, ints([[1]]), 9), [[0, 9], [2, 3]]],
  ["scatter add", t(2).scatter(0, ints([1, 1]), ints([7, 8]), "add"), [0, 16]],
  ["scatterReduce prod", t(2).add(2).scatterReduce(0, ints([0, 0]), ints([2, 3]), "prod"), [12, 3]],
  ["scatterReduce amax", t(3).scatterReduce(0, ints([0, 2]), ints([5, 1]), "amax"), [5, 1, 2]],
  ["scatterReduce amin alone", t(3).scatterReduce(0, ints([0, 2]), ints([5, 1]), "amin", false), [5, 1, 1]],
  ["scatterReduce mean", new Tensor([1.0, 4]).scatterReduce(0, ints([0, 0]), ints([2, 6]), "mean"), [3, 4]],
  ["maskedSelect", m.maskedSelect(m.mod(5).eq(0), { size: 4, fillValue: -1 }), [0, 5, 10, -1]],
  ["maskedSelect cut", m.maskedSelect(m.gt(2), { size: 2 }), [3, 4]],
  ["maskedSelect nothing", m.maskedSelect(m.gt(99), { size: 2 }), [0, 0]],
  ["nonzero", m.mod(5).eq(0).nonzero({ size: 4, fillValue: 9 }), [[0, 0], [1, 1], [2, 2], [9, 9]]],
  ["sort", ints([3, 1, 2]).sort()[0], [1, 2, 3]],
  ["sort indices", ints([3, 1, 2]).sort()[1], [1, 2, 0]],
  ["sort is stable", ints([1, 0, 1, 0]).sort(0, { descending: true })[1], [0, 2, 1, 3]],
  ["sort NaN last", new Tensor([NaN, 1, -Infinity, -0, 0]).sort()[0], [-Infinity, -0, 0, 1, NaN]],
  ["sort axis 0", new Tensor([[3, 1], [2, 5]]).sort(0)[0], [[2, 1], [3, 5]]],
  ["sort bools", new Tensor([true, false]).sort()[0], [false, true]],
  ["sort uint64", new Tensor([1n << 63n, 1n], { dtype: "uint64" }).sort()[1], [1, 0]],
  ["argsort", ints([3, 1, 2]).argsort(), [1, 2, 0]],
  ["topk", ints([3, 9, 1, 7]).topk(2)[0], [9, 7]],
  ["topk in any order", ints([3, 9, 1, 7]).topk(2, 0, { sorted: false })[0], [9, 7]],
  ["topk smallest", ints([3, 9, 1, 7]).topk(2, 0, { largest: false })[1], [2, 0]],
];
for (const [name, x, want] of reads) {
  Deno.test(`indexing: ${name}`, () => assertEquals(valueOf(x), want as ReturnType<typeof valueOf>));
}

/** Each write on a tensor without memory (a select) and, as far as it needs no device, by its merged value. */
const writes: readonly [string, number[], Index[], Tensor | number | boolean, unknown][] = [
  ["number", [2, 2], [1], 9, [[0, 0], [9, 9]]],
  ["element", [2, 2], [0, -1], 9, [[0, 9], [0, 0]]],
  ["slice", [4], [[1, 3]], new Tensor([7, 8]), [0, 7, 8, 0]],
  ["step", [5], [[0, null, 2]], new Tensor([1, 2, 3]), [1, 0, 2, 0, 3]],
  ["step inside", [6], [[1, null, 3]], new Tensor([1, 2]), [0, 1, 0, 0, 2, 0]],
  ["backward", [4], [[null, null, -1]], new Tensor([1, 2, 3, 4]), [4, 3, 2, 1]],
  ["backward step", [5], [[4, null, -2]], new Tensor([1, 2, 3]), [3, 0, 2, 0, 1]],
  ["dots", [2, 2], ["...", 0], 5, [[5, 0], [5, 0]]],
  ["all", [2], [":"], new Tensor([1, 2]), [1, 2]],
  ["new axis", [2], [null], new Tensor([[1, 2]]), [1, 2]],
  ["broadcast", [2, 2], [":", [0, 1]], new Tensor([[3]]), [[3, 0], [3, 0]]],
  ["cast", [2], [0], 2.75, [2, 0]],
  ["empty", [2], [[2, 2]], 9, [0, 0]],
  ["tensor", [4], [new Tensor([3, 0])], new Tensor([1, 2]), [2, 0, 0, 1]],
  ["tensor scalar value", [3, 2], [new Tensor([0, 2])], 4, [[4, 4], [0, 0], [4, 4]]],
  ["tensor twice the same", [3], [new Tensor([1, 1])], new Tensor([5, 6]), [0, 6, 0]],
  ["tensors together", [2, 2], [new Tensor([0, 1]), new Tensor([1, 0])], new Tensor([5, 6]), [[0, 5], [6, 0]]],
  ["tensor on axis 1", [2, 3], [":", new Tensor([2, 0])], new Tensor([[1, 2], [3, 4]]), [[2, 0, 1], [4, 0, 3]]],
  ["tensor and slice", [3, 2], [[1, null], new Tensor([1])], new Tensor([[8], [9]]), [[0, 0], [0, 8], [0, 9]]],
  ["mask", [2, 2], [new Tensor([[true, false], [false, true]])], 7, [[7, 0], [0, 7]]],
  ["mask of rows", [2, 2], [new Tensor([false, true])], new Tensor([1, 2]), [[0, 0], [1, 2]]],
  ["mask of columns", [2, 2], [":", new Tensor([false, true])], 3, [[0, 3], [0, 3]]],
];
for (const [name, shape, index, value, want] of writes) {
  Deno.test(`setAt: ${name}`, () => {
    const x = Tensor.zeros(shape, { dtype: "int32" });
    assert(x.setAt(index, value) === x);
    assertEquals(x.shape, shape);
    assertEquals(valueOf(x), want as ReturnType<typeof valueOf>);
    assert(!toposort(x.uop).some((u) => u.op === Ops.STORE), "zeros have no memory to store into");
  });
  Deno.test(`setAt on memory: ${name}`, () => {
    const x = new Tensor(new Int32Array(shape.reduce((a, b) => a * b, 1))).reshape(shape);
    x.setAt(index, value);
    assertEquals(valueOf(x), want as ReturnType<typeof valueOf>);
    for (const s of toposort(x.uop).filter((u) => u.op === Ops.STORE)) {
      let v = s.src[0];
      for (; isMovement(v.op); v = v.src[0]) assert(v.op !== Ops.PAD && v.op !== Ops.EXPAND);
    }
  });
}

Deno.test("setAt: other handles keep the old value, later writes see earlier ones", () => {
  const x = Tensor.zeros([3]), y = x.add(0);
  x.setAt([0], 1).setAt([[1, null]], x.at([0, 1]).add(1));
  assertEquals([valueOf(x), valueOf(y)], [[1, 2, 2], [0, 0, 0]]);
});

Deno.test("sort: a bitonic network beyond 32, for packed and wide keys", () => {
  const xs = Array.from({ length: 77 }, (_, k) => ((k * 37) % 41) - 20);
  const want = xs.map((v, k) => [v, k]).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  for (const dtype of ["int8", "int16", "int32", "float32", "float64", "int64"]) {
    const [v, at] = new Tensor(xs, { dtype }).sort();
    assertEquals(evaluateTensor(v).data.map(Number), want.map(([x]) => x));
    assertEquals(evaluateTensor(at).data, want.map(([, k]) => k));
  }
  const down = xs.map((v, k) => [v, k]).sort((a, b) => b[0] - a[0] || a[1] - b[1]).slice(0, 5);
  for (const dtype of ["int8", "int32"]) {
    const best = new Tensor(xs, { dtype }).reshape([1, 77]).topk(5)[1];
    assertEquals(evaluateTensor(best).data, down.map(([, k]) => k));
  }
});

Deno.test("topk: lists that hold k elements grow no further, whatever is left over", () => {
  for (const [n, k] of [[33, 1], [40, 16], [65, 17], [100, 33], [129, 64], [300, 7], [520, 130]]) {
    const xs = Array.from({ length: 2 * n }, (_, i) => i % 31 === 7 ? NaN : ((i * 37) % 53) - 20);
    const [v, at] = new Tensor(xs, { dtype: "float32" }).reshape([2, n]).topk(k, 1, { largest: false });
    const want = [0, 1].flatMap((r) => {
      const row = xs.slice(r * n, r * n + n), rank = (x: number): number => Number.isNaN(x) ? Infinity : x;
      return row.map((x, i) => [rank(x), i]).sort((a, b) => (a[0] === b[0] ? 0 : a[0] - b[0]) || a[1] - b[1]).slice(
        0,
        k,
      )
        .map(([, i]) => [row[i], i]);
    });
    assertEquals(evaluateTensor(at).data, want.map(([, i]) => i), `${n} ${k}`);
    assertEquals(evaluateTensor(v).data, want.map(([x]) => x), `${n} ${k}`);
  }
});

Deno.test("maskedSelect: long masks are searched", () => {
  const x = t(200), got = x.maskedSelect(x.mod(7).eq(3), { size: 40 });
  const want = Array.from({ length: 200 }, (_, k) => k).filter((k) => k % 7 === 3);
  assertEquals(evaluateTensor(got).data, Array.from({ length: 40 }, (_, k) => want[k] ?? 0));
});

Deno.test("indexing: basic indices are movement only", () => {
  const x = Tensor.empty([4, 6]);
  for (const u of toposort(x.at(1, [0, null, 2]).uop)) assert(isMovement(u.op) || u.op === Ops.BUFFER);
});

type Thrown = new (...args: never[]) => Error;
const errors: readonly [string, () => unknown, Thrown, string][] = [
  ["out of range", () => m.at(3), IndexError, "Cannot index: index 3 is out of range for axis 0 of size 3"],
  ["below", () => m.at(0, -5), IndexError, "index -5 is out of range for axis 1 of size 4"],
  ["fraction", () => m.at(0.5), IndexError, "0.5 is no index"],
  ["too many", () => m.at(0, 0, 0), IndexError, "3 indices for a tensor of shape [3, 4]"],
  ["two dots", () => m.at("...", "..."), IndexError, 'only one "..." may be given'],
  ["text", () => m.at("1" as never), IndexError, '"1" is no index'],
  ["boolean", () => m.at(true as never), IndexError, "true is no index"],
  ["undefined", () => m.at(undefined as never), IndexError, "undefined is no index"],
  ["step 0", () => m.at([0, 2, 0]), IndexError, "the step of [0, 2, 0] is 0"],
  ["list of positions", () => m.at([0, 1, 2, 3] as never), IndexError, "pass lists of positions as an integer tensor"],
  ["mask", () => m.at(m.gt(2)), IndexError, "use `await t.maskedSelect(m)`"],
  ["float tensor", () => m.at(m.float()), IndexError, "an index tensor must have an integer dtype, not float32"],
  ["known index", () => m.at(ints([0, 3])), IndexError, "index 3 is out of range for axis 0 of size 3"],
  [
    "index shapes",
    () => m.at(ints([0, 1]), ints([0, 1, 2])),
    IndexError,
    "index tensors of shapes [2] and [3] do not broadcast",
  ],
  ["setAt index", () => t(2).setAt(0 as never, 1), ArgumentError, "the index is a list"],
  ["setAt value", () => t(4).setAt([[0, 2]], ints([1, 2, 3])), ShapeError, "Cannot setAt shapes [3] and [2]"],
  [
    "setAt mask",
    () => t(4).setAt([ints([1, 2]).gt(1)], 1),
    IndexError,
    "a mask of shape [2] does not fit axes of sizes [4]",
  ],
  ["setAt mask and tensor", () => m.setAt([m.at(":", 0).gt(1), ints([1])], 1), IndexError, "cannot be combined"],
  ["gather rank", () => m.gather(0, ints([0])), ShapeError, "the same number of axes"],
  ["gather size", () => m.gather(1, t(4, 1)), ShapeError, "axis 0 of the index has size 4, beyond 3"],
  ["gather dtype", () => m.gather(1, t(3, 1).float()), IndexError, "integer dtype, not float32"],
  ["scatter dtype", () => m.scatter(1, t(3, 1), t(3, 1).float()), DTypeError, "Cannot scatter float32 and int32"],
  ["scatter reduce", () => m.scatter(1, t(3, 1), 1, "max" as "add"), ArgumentError, 'unknown reduction "max"'],
  ["oneHot", () => m.float().oneHot(3), DTypeError, "classes are integers"],
  ["oneHot classes", () => m.oneHot(-1), ArgumentError, "numClasses must be an integer of at least 0"],
  ["tril", () => t(3).tril(), ShapeError, "at least two axes"],
  ["topk", () => t(3).topk(4), ShapeError, "axis 0 has no 4 elements"],
  ["maskedSelect", () => m.maskedSelect(m, { size: 1 }), DTypeError, "the mask must be a bool tensor"],
];
for (const [name, make, type, text] of errors) {
  Deno.test(`indexing error: ${name}`, () => {
    assertThrows(make, type as new (...args: unknown[]) => Error, text);
  });
}

Deno.test("indexing: rows by a mask, as the error of at says", () => {
  // of fixed size, which needs no device to count
  const x = t(3, 3), mask = new Tensor([true, false, true]), places = mask.nonzero({ size: 2 }).flatten();
  assertThrows(() => x.at(mask), IndexError, "use `t.at((await m.nonzero()).flatten())`");
  assertEquals(valueOf(x.at(places)), [[0, 1, 2], [6, 7, 8]]);
  assertThrows(() => x.at(":", mask), IndexError, 'use `t.at(":", (await m.nonzero()).flatten())`');
  assertEquals(valueOf(x.at(":", places)), [[0, 2], [3, 5], [6, 8]]);
  assertThrows(() => x.at(x.gt(4)), IndexError, "use `await t.maskedSelect(m)`");
  const y = t(2, 2, 3), both = new Tensor([[true, false], [false, true]]), p = both.nonzero({ size: 2 });
  assertThrows(() => y.at(both), IndexError, 'use `t.at(p.at(":", 0), p.at(":", 1))` with `p = await m.nonzero()`');
  assertEquals(valueOf(y.at(p.at(":", 0), p.at(":", 1))), [[0, 1, 2], [9, 10, 11]]);
});

Deno.test("indexing: a number beside integer tensors is no integer tensor", () => {
  const x = t(2, 3, 4), i = ints([1, 0, 1, 1, 0]);
  assertEquals([x.at(0, ":", i).shape, x.at(i, ":", i).shape, x.at(":", 0, i).shape], [[3, 5], [5, 3], [2, 5]]);
});
