/** Movement: values by the oracle, shapes, and what each method refuses. */
import { CompiledKernel, schedule } from "../../../mod.ts";
import { valueOf } from "../graph.ts";
import { assert, assertEquals, assertThrows } from "@std/assert";
import { ArgumentError, ShapeError } from "../../../src/helpers/errors.ts";
import { Tensor } from "../../../src/tensor/tensor.ts";

const t = (...shape: number[]) => Tensor.arange(shape.reduce((a, b) => a * b, 1)).reshape(shape);

const values: readonly [string, Tensor, unknown][] = [
  ["reshape", t(6).reshape([2, -1]), [[0, 1, 2], [3, 4, 5]]],
  ["reshape to scalar", t(1).reshape([]), 0],
  ["reshape null keeps", t(2, 3).reshape([null, 3, 1]), [[[0], [1], [2]], [[3], [4], [5]]]],
  ["view", t(4).view([2, 2]), [[0, 1], [2, 3]]],
  ["expand", t(2, 1).expand([-1, 3]), [[0, 0, 0], [1, 1, 1]]],
  ["expand leading", t(2).expand([2, 2]), [[0, 1], [0, 1]]],
  ["expand null", t(1, 2).expand([2, null]), [[0, 1], [0, 1]]],
  ["expand scalar", new Tensor(7).expand([2]), [7, 7]],
  ["permute", t(2, 3).permute([1, 0]), [[0, 3], [1, 4], [2, 5]]],
  ["permute negative", t(1, 2, 3).permute([-1, 0, 1]).reshape([3, 2]), [[0, 3], [1, 4], [2, 5]]],
  ["transpose default", t(2, 2).transpose(), [[0, 2], [1, 3]]],
  ["transpose of equal axes", t(2, 2).transpose(1, 1), [[0, 1], [2, 3]]],
  ["T", t(2, 3).T, [[0, 3], [1, 4], [2, 5]]],
  ["flip one", t(3).flip(0), [2, 1, 0]],
  ["flip both", t(2, 2).flip([0, -1]), [[3, 2], [1, 0]]],
  ["shrink", t(3, 3).shrink([[1, 3], null]), [[3, 4, 5], [6, 7, 8]]],
  ["shrinkTo", t(3, 3).shrinkTo([1, null]), [[0, 1, 2]]],
  ["pad flat", t(2).add(1).pad([1, 2]), [0, 1, 2, 0, 0]],
  ["pad flat last axis first", t(1, 1).add(1).pad([1, 0, 0, 1]), [[0, 1], [0, 0]]],
  ["pad pairs", t(1, 2).add(1).pad([[1, 0], null]), [[0, 0], [1, 2]]],
  ["pad value", t(2).pad([1, 1], { value: 9 }), [9, 0, 1, 9]],
  ["pad bool", new Tensor([true]).pad([1, 1], { value: true }), [true, true, true]],
  ["pad negative", t(4).pad([-1, 1]), [1, 2, 3, 0]],
  ["pad cuts all and grows", t(2).add(5).pad([-2, 1]), [0]],
  ["pad reflect", t(4).pad([2, 1], { mode: "reflect" }), [2, 1, 0, 1, 2, 3, 2]],
  ["pad replicate", t(3).pad([2, 2], { mode: "replicate" }), [0, 0, 0, 1, 2, 2, 2]],
  ["pad circular", t(3).pad([2, 1], { mode: "circular" }), [1, 2, 0, 1, 2, 0]],
  ["pad an empty axis", Tensor.ones([0]).pad([1, 1], { value: 3 }), [3, 3]],
  ["padTo", t(2).add(1).padTo([4], { value: -1 }), [1, 2, -1, -1]],
  ["squeeze", t(1, 2, 1).squeeze(), [0, 1]],
  ["squeeze one", t(1, 2, 1).squeeze(0), [[0], [1]]],
  ["squeeze no-op", t(2, 1).squeeze(0), [[0], [1]]],
  ["unsqueeze", t(2).unsqueeze(-1), [[0], [1]]],
  ["flatten", t(2, 2).flatten(), [0, 1, 2, 3]],
  ["flatten part", t(2, 1, 2).flatten(1), [[0, 1], [2, 3]]],
  ["flatten scalar", new Tensor(3).flatten(), [3]],
  ["unflatten", t(4).unflatten(0, [2, -1]), [[0, 1], [2, 3]]],
  ["cat", t(2).cat([t(1), t(3)]), [0, 1, 0, 0, 1, 2]],
  ["cat axis 1", t(2, 1).cat([t(2, 2)], 1), [[0, 0, 1], [1, 2, 3]]],
  ["cat promotes", t(1).cat([new Tensor([0.5])]), [0, 0.5]],
  ["cat of bools", new Tensor([true]).cat([new Tensor([false])]), [true, false]],
  ["cat with empty", t(2).cat([Tensor.zeros([0])]), [0, 1]],
  ["cat keeps -0 and NaN", new Tensor([-0, NaN]).cat([new Tensor([-0])]).reciprocal(), [-Infinity, NaN, -Infinity]],
  ["static cat", Tensor.cat([t(1), t(2)]), [0, 0, 1]],
  ["stack", t(2).stack([t(2).add(5)]), [[0, 1], [5, 6]]],
  ["stack last", Tensor.stack([t(2), t(2).add(5)], -1), [[0, 5], [1, 6]]],
  ["stack scalars", new Tensor(1).stack([new Tensor(2)]), [1, 2]],
  ["repeat", t(2).repeat([2, 2]), [[0, 1, 0, 1], [0, 1, 0, 1]]],
  ["repeatInterleave", t(2, 1).repeatInterleave(2, 0), [[0], [0], [1], [1]]],
  ["repeatInterleave flat", t(2, 1).repeatInterleave(2), [0, 0, 1, 1]],
  ["roll", t(5).roll(2), [3, 4, 0, 1, 2]],
  ["roll two axes", t(2, 2).roll([1, -1], [0, 1]), [[3, 2], [1, 0]]],
  ["roll flat", t(2, 2).roll(1), [[3, 0], [1, 2]]],
  ["unfold overlapping", t(5).unfold(0, 3, 1), [[0, 1, 2], [1, 2, 3], [2, 3, 4]]],
  ["unfold step 2", t(6).unfold(0, 3, 2), [[0, 1, 2], [2, 3, 4]]],
  ["unfold gaps", t(5).unfold(0, 1, 3), [[0], [3]]],
  ["unfold an outer axis", t(3, 2).unfold(0, 2, 1), [[[0, 2], [1, 3]], [[2, 4], [3, 5]]]],
  ["diagonal", t(3, 3).diagonal(), [0, 4, 8]],
  ["diagonal above", t(2, 3).diagonal({ offset: 1 }), [1, 5]],
  ["diagonal below", t(3, 2).diagonal({ offset: -1 }), [2, 5]],
  ["diagonal beyond", t(2, 2).diagonal({ offset: 5 }), []],
  ["diagonal of axes", t(2, 1, 2).diagonal({ dim1: 0, dim2: 2 }), [[0, 3]]],
  ["rearrange split", t(4, 1).rearrange("(a b) c -> a (b c)", { a: 2 }), [[0, 1], [2, 3]]],
  ["rearrange dots", t(1, 2, 2).rearrange("... a b -> ... b a"), [[[0, 2], [1, 3]]]],
  ["rearrange ones", t(2, 1).rearrange("a 1 -> 1 a ()"), [[[0], [1]]]],
  ["rearrange dots in a group", t(2, 2, 1).rearrange("... c -> (... c)"), [0, 1, 2, 3]],
];
for (const [name, x, want] of values) {
  Deno.test(`movement: ${name}`, () => assertEquals(valueOf(x), want as ReturnType<typeof valueOf>));
}

Deno.test("movement: split, chunk and meshgrid", () => {
  const parts = (xs: Tensor[]) => xs.map(valueOf);
  assertEquals(parts(t(5).split(2)), [[0, 1], [2, 3], [4]]);
  assertEquals(parts(t(5).split([1, 4])), [[0], [1, 2, 3, 4]]);
  assertEquals(parts(t(1, 3).split(2, 1)), [[[0, 1]], [[2]]]);
  assertEquals(parts(t(5).chunk(3)), [[0, 1], [2, 3], [4]]);
  assertEquals(t(5).chunk(4).length, 3);
  assertEquals(parts(t(2).meshgrid([t(3)])), [[[0, 0, 0], [1, 1, 1]], [[0, 1, 2], [0, 1, 2]]]);
  assertEquals(t(2).meshgrid([t(3)], { indexing: "xy" }).map((x) => x.shape), [[3, 2], [3, 2]]);
});

Deno.test("movement: size", () => {
  assertEquals([t(2, 3).size(), t(2, 3).size(-1)], [[2, 3], 3]);
});

type Thrown = new (...args: never[]) => Error;
const errors: readonly [string, () => unknown, Thrown, string][] = [
  [
    "reshape",
    () => t(6).reshape([4, 2]),
    ShapeError,
    "Cannot reshape shapes [6] and [4, 2]: they have 6 and 8 elements",
  ],
  ["two -1", () => t(6).reshape([-1, -1]), ShapeError, "only one size may be -1"],
  ["-1 does not divide", () => t(6).reshape([4, -1]), ShapeError, "6 elements do not divide into parts of 4"],
  ["-1 beside 0", () => Tensor.zeros([0]).reshape([0, -1]), ShapeError, "ambiguous"],
  ["negative size", () => t(6).reshape([-2, -3]), ShapeError, "size -2 of axis 0"],
  ["expand", () => t(2).expand([3]), ShapeError, "Cannot expand shapes [2] and [3]: axis 0 has size 2"],
  ["expand to fewer", () => t(2, 1).expand([2]), ShapeError, "fewer axes"],
  ["permute", () => t(2, 3).permute([0, 0]), ShapeError, "Cannot permute shape [2, 3]: [0, 0] is no permutation"],
  ["permute axis", () => t(2, 3).permute([0, 2]), ShapeError, "axis 2 is outside [-2, 2)"],
  ["flip twice", () => t(2, 3).flip([1, -1]), ShapeError, "axis 1 is given twice"],
  ["shrink", () => t(3).shrink([[1, 4]]), ShapeError, "[1, 4] does not lie within axis 0 of size 3"],
  ["shrink count", () => t(3).shrink([]), ShapeError, "one [start, stop] or null for each axis"],
  ["pad odd", () => t(3).pad([1]), ShapeError, "odd length"],
  ["pad too many", () => t(3).pad([1, 1, 1, 1]), ShapeError, "2 pairs for 1 axes"],
  ["pad mode", () => t(3).pad([1, 1], { mode: "wrap" as "circular" }), ArgumentError, 'unknown mode "wrap"'],
  ["pad option", () => t(3).pad([1, 1], { fill: 1 } as never), ArgumentError, 'Cannot pad: unknown option "fill"'],
  ["pad reflect too far", () => t(3).pad([3, 0], { mode: "reflect" }), ShapeError, "at most 2"],
  ["pad circular twice around", () => t(3).pad([4, 0], { mode: "circular" }), ShapeError, "at most 3"],
  ["pad cuts too much", () => t(3).pad([-4, 0]), ShapeError, "axis 0 of size 3"],
  ["padTo smaller", () => t(3).padTo([2]), ShapeError, "axis 0 is larger already"],
  ["squeeze axis", () => t(3).squeeze(1), ShapeError, "Cannot squeeze shape [3]: axis 1 is outside [-1, 1)"],
  ["unsqueeze axis", () => t(3).unsqueeze(2), ShapeError, "axis 2 is outside [-2, 2)"],
  ["unflatten", () => t(6).unflatten(0, [4, 2]), ShapeError, "does not split into [4, 2]"],
  ["split sum", () => t(5).split([2, 2]), ShapeError, "[2, 2] adds up to 4, axis 0 has size 5"],
  [
    "cat axis",
    () => t(2, 2).cat([t(3, 2)], 1),
    ShapeError,
    "Cannot cat shapes [2, 2] and [3, 2]: axis 0 has sizes 2 and 3",
  ],
  ["cat rank", () => t(2).cat([t(2, 2)]), ShapeError, "different ranks"],
  ["cat scalars", () => new Tensor(1).cat([new Tensor(2)]), ShapeError, "use stack"],
  ["cat a number", () => t(2).cat([1]), ShapeError, "Cannot cat shapes [2] and []: scalars have no axis to join along"],
  ["cat no list", () => t(2).cat("a" as never), ArgumentError, "Cannot cat: it takes a list of tensors"],
  ["stack", () => t(2).stack([t(3)]), ShapeError, "Cannot stack shapes [2] and [3]"],
  ["repeat", () => t(2, 2).repeat([2]), ShapeError, "at least 2 repeats"],
  ["roll", () => t(2).roll([1, 2], [0]), ShapeError, "2 shifts for 1 axes"],
  ["unfold", () => t(3).unfold(0, 4, 1), ShapeError, "windows of 4 do not fit axis 0 of size 3"],
  ["unfold step", () => t(3).unfold(0, 2, 0), ArgumentError, "step must be an integer of at least 1"],
  ["diagonal", () => t(2, 2).diagonal({ dim2: 0 }), ShapeError, "two different axes"],
  ["meshgrid", () => t(2, 2).meshgrid([t(1)]), ShapeError, "1-D or a scalar"],
  ["meshgrid indexing", () => t(2).meshgrid([], { indexing: "yx" as "xy" }), ArgumentError, 'unknown indexing "yx"'],
  ["rearrange arrow", () => t(2).rearrange("a b"), ArgumentError, `there must be one "->"`],
  ["rearrange rank", () => t(2).rearrange("a b -> b a"), ShapeError, "names 2 axes, the tensor has 1"],
  ["rearrange size", () => t(5).rearrange("(a b) -> a b", { a: 2 }), ShapeError, "axis 0 of size 5 does not split"],
  ["rearrange open", () => t(4).rearrange("(a b) -> a b"), ShapeError, "the sizes of a and b are not given"],
  ["rearrange name", () => t(4).rearrange("a -> b"), ArgumentError, '"a" must stand on both sides'],
  ["rearrange twice", () => t(2, 2).rearrange("a a -> a"), ArgumentError, '"a" stands twice'],
  ["rearrange parenthesis", () => t(2).rearrange("(a -> a"), ArgumentError, "not closed"],
];
for (const [name, f, type, text] of errors) {
  Deno.test(`movement error: ${name}`, () => {
    assertThrows(f, type as new (...args: unknown[]) => Error, text);
  });
}

Deno.test("cat and stack: many small parts are joined in groups, whose kernels do not grow with their number", async () => {
  const parts = (n: number) => Array.from({ length: n }, (_, i) => new Tensor([i, i + 0.5], { device: "NULL" }));
  for (const [n, axis, most] of [[64, undefined, 1], [72, 1, 10], [400, undefined, 22]]) {
    const joined = axis === undefined ? Tensor.cat(parts(n!)) : Tensor.stack(parts(n!), axis);
    const kernels = schedule([joined]).filter(({ runner }) => runner instanceof CompiledKernel);
    assert(kernels.length <= most!, `${n} parts take ${kernels.length} kernels`);
    for (const { bufs } of kernels) assert(bufs.length <= 65, `a kernel takes ${bufs.length} buffers`);
  }
  const rows = Array.from({ length: 150 }, (_, i) => Array.from({ length: i % 3 }, (_, k) => i + k / 4));
  const joined = Tensor.cat(
    rows.map((row) => new Tensor(row, { dtype: "float32", device: "WASM" }).reshape([1, -1])),
    1,
  );
  assertEquals(await joined.tolist(), [rows.flat()]);
  assertThrows(
    () => Tensor.stack([...parts(99), new Tensor([1], { device: "NULL" })]),
    ShapeError,
    "Cannot stack shapes [2] and [1]: they must all be equal",
  );
});

Deno.test("movement: an error carries its fields", () => {
  try {
    t(2, 3).sum(5);
  } catch (error) {
    const e = error as ShapeError;
    assertEquals([e.action, e.shapes, e.axis], ["sum", [[2, 3]], 5]);
    return;
  }
  throw new Error("nothing was thrown");
});
