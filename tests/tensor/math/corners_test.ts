/** Norms, factors, bags and places of what is empty, has one element or one class, or is narrower than what is computed. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { Device, type NormOrder, ShapeError, Tensor } from "../../../mod.ts";

Device.default = "JS";

const f64 = (data: number[][] | number[]): Tensor => new Tensor(data, { dtype: "float64" });
const empty = (...shape: number[]): Tensor => Tensor.zeros(shape);
/** Reproducible numbers around 0. */
const numbers = (n: number, seed: number): number[] =>
  Array.from({ length: n }, (_, i) => Math.sin(seed + 7.3 * i * i));
async function apart(a: Tensor, b: Tensor): Promise<number> {
  assertEquals(a.shape, b.shape);
  return await a.sub(b).abs().max().item();
}

Deno.test("norms of nothing are 0, and the least of nothing is refused: as torch.linalg.matrix_norm and cond", async () => {
  const orders: NormOrder[] = ["fro", "nuc", 1, 2, Infinity];
  for (const shape of [[0, 0], [0, 3], [3, 0], [2, 0, 0], [2, 0, 3], [0, 2, 2]]) {
    const lead = shape.slice(0, -2), zeros = Array(lead[0] ?? 1).fill(0), [m, n] = shape.slice(-2);
    for (const ord of orders) {
      const norm = empty(...shape).matrixNorm({ ord });
      assertEquals([norm.shape, await norm.flatten().tolist()], [lead, zeros], `${shape} ${ord}`);
    }
    const isRefused: [number, boolean][] = [[-1, n === 0], [-Infinity, m === 0], [-2, m === 0 || n === 0]];
    for (const [ord, refused] of isRefused) {
      const act = () => empty(...shape).matrixNorm({ ord });
      if (refused) assertThrows(act, ShapeError, `nothing has no norm of order ${ord}`);
      else assertEquals(await act().flatten().tolist(), zeros);
    }
    if (m !== n || m > 0) continue;
    for (const p of [...orders, -1, -2]) assertEquals(await empty(...shape).cond(p).flatten().tolist(), zeros, `${p}`);
  }
  assertEquals(await empty(2, 0).vectorNorm({ ord: Infinity, dim: -1 }).tolist(), [0, 0]);
  assertEquals(await empty(2, 0).cdist(empty(1, 0), Infinity).tolist(), [[0], [0]]);
  assertThrows(() => empty(2, 0).vectorNorm({ ord: -1, dim: -1 }), ShapeError, "nothing has no norm of order -1");
  assertEquals(empty(0, 2).vectorNorm({ ord: -1, dim: -1 }).shape, [0]);
});

Deno.test("products of no reflections are identities, of any number of rows", async () => {
  assertEquals(empty(0, 0).householderProduct(empty(0)).shape, [0, 0]);
  assertEquals(await empty(2, 0).ormqr(empty(0), Tensor.eye(2)).tolist(), [[1, 0], [0, 1]]);
  assertEquals(empty(0, 5, 5).ormqr(empty(0, 5), empty(0, 5, 2)).shape, [0, 5, 2]);
  assertEquals(empty(2, 0, 0).ormqr(empty(2, 0), empty(2, 4, 0), { left: false }).shape, [2, 4, 0]);
  assertEquals(empty(5, 0).ormqr(empty(0), empty(5, 0), { transpose: true }).dtype.name, "float32");
});

for (const left of [true, false]) {
  for (const adjoint of [true, false]) {
    Deno.test(`luSolve: left ${left}, adjoint ${adjoint}; matrices that broadcast, and complex ones`, async () => {
      const parts = [numbers(18, 1), numbers(18, 2)].map((x) => f64(x).reshape([2, 3, 3]));
      const complex = parts[0].add(parts[1].mul(new Tensor({ re: 0, im: 1 }, { dtype: "complex128" })));
      for (const a of [parts[0], complex]) {
        const [lu, pivots] = a.luFactor(), b = f64(numbers(12, 3)).reshape(left ? [3, 4] : [4, 3]);
        const x = lu.luSolve(pivots, b, { left, adjoint }), h = adjoint ? a.transpose(-1, -2).conj() : a;
        const back = left ? h.matmul(x) : x.matmul(h);
        assert(await apart(back, b.expand([2, ...b.shape]).cast(back.dtype)) < 1e-12);
      }
      const nothing = f64(numbers(9, 1)).reshape([3, 3]).luFactor();
      assertEquals(nothing[0].luSolve(nothing[1], empty(...left ? [3, 0] : [0, 3]), { left, adjoint }).shape, [
        ...left ? [3, 0] : [0, 3],
      ]);
    });
  }
}

for (const upper of [false, true]) {
  Deno.test(`choleskyInverse: its gradient is what differences show, and 0 beside the triangle, upper ${upper}`, async () => {
    const l = f64([[2, 0.3, -0.4], [0.5, 1.5, 0.2], [-0.7, 0.1, 1.8]]), weights = f64(numbers(9, 5)).reshape([3, 3]);
    const of = (x: Tensor): Tensor => x.choleskyInverse({ upper }).mul(weights).sum(), h = 1e-6;
    const leaf = l.detach().clone();
    leaf.requiresGrad = true;
    const [found] = of(leaf).gradient([leaf]), list: number[] = [];
    for (let i = 0; i < 9; i++) {
      const by = Tensor.arange(9).eq(i).reshape([3, 3]).cast("float64").mul(h);
      list.push(await of(l.add(by)).sub(of(l.sub(by))).div(2 * h).item());
    }
    assert(await apart(found, f64(list).reshape([3, 3])) < 1e-8);
    const beside = upper ? found.tril(-1) : found.triu(1);
    assertEquals(await beside.abs().max().item(), 0);
  });
}

Deno.test("asStridedScatter: places that are written over have no gradient, the others have all of it", async () => {
  const x = f64([0, 1, 2, 3]), src = f64([1, 1]);
  x.requiresGrad = src.requiresGrad = true;
  const y = x.asStridedScatter(src, [2], [2]), slopes = y.mul(f64([1, 2, 3, 4])).sum().gradient([x, src]);
  assertEquals(await Promise.all(slopes.map((t) => t.tolist())), [[0, 2, 0, 4], [1, 3]]);
});

Deno.test("vander: of matrices and scalars, as torch.linalg.vander, and of a vector as torch.vander", async () => {
  assertEquals(await f64([[2, 3], [4, 5]]).vander(3, { increasing: true }).tolist(), [
    [[1, 2, 4], [1, 3, 9]],
    [[1, 4, 16], [1, 5, 25]],
  ]);
  assertEquals(await f64([[2, 3]]).vander().tolist(), [[[2, 1], [3, 1]]]);
  assertEquals(await new Tensor(3).vander(2).tolist(), [[3, 1]]);
  assertEquals([empty(2, 3).vander(0).shape, empty(0).vander().shape], [[2, 3, 0], [0, 0]]);
});

Deno.test("multilabelMarginLoss: a scalar is one class", async () => {
  assertEquals(await new Tensor(5.5).multilabelMarginLoss(new Tensor(0)).item(), 0);
  assertEquals(await new Tensor(5.5).multilabelMarginLoss(new Tensor(-1), { reduction: "none" }).tolist(), 0);
});

Deno.test("unravelIndex: places are wider than positions of few bits", async () => {
  const at = new Tensor([3, 8, 13], { dtype: "uint8" });
  assertEquals(await Promise.all(at.unravelIndex([1 << 30, 4]).map((t) => t.tolist())), [[0, 2, 3], [3, 0, 1]]);
  assertEquals(at.unravelIndex([4, 5]).map((t) => t.dtype.name), ["int32", "int32"]);
  const long = new Tensor([2 ** 40 + 5], { dtype: "int64" }).unravelIndex([2 ** 12, 2 ** 33]);
  assertEquals(await Promise.all(long.map((t) => t.tolist())), [[128], [5]]);
  assertEquals(at.unravelIndex([2 ** 12, 2 ** 33])[0].dtype.name, "int64");
});

Deno.test("histogram: nothing has the range 0 to 1, as NumPy's and PyTorch's", async () => {
  const [counts, edges] = empty(2, 0).histogram(2);
  assertEquals([await counts.tolist(), await edges.tolist()], [[0, 0], [0, 0.5, 1]]);
});

Deno.test("bilinear: small integers keep their dtype, as products do", async () => {
  const u8 = (n: number): Tensor => new Tensor(Array(n).fill(200), { dtype: "uint8" });
  const y = u8(2).bilinear(u8(2), u8(4).reshape([1, 2, 2]));
  assertEquals([y.dtype.name, await y.tolist()], ["uint8", [4 * 200 ** 3 % 256]]);
});

Deno.test("embeddingBag: what is padding counts nowhere, and the last offset ends the last bag", async () => {
  const table = [[1, 2], [3, 5], [-4, 7], [6, -8]], list = [1, 3, 0, 3, 2, 3, 1], starts = [0, 2, 2, 3, 6, 7];
  for (const mode of ["sum", "mean", "max"] as const) {
    for (const paddingIdx of [undefined, 3, -3]) {
      for (const includeLastOffset of [false, true]) {
        const row = paddingIdx !== undefined && paddingIdx < 0 ? paddingIdx + 4 : paddingIdx;
        const count = starts.length - (includeLastOffset ? 1 : 0);
        const bags = Array.from({ length: count }, (_, b) => list.slice(starts[b], starts[b + 1] ?? list.length));
        const want = bags.map((bag) => {
          const kept = bag.filter((i) => i !== row).map((i) => table[i]);
          return [0, 1].map((c) => {
            const column = kept.map((r) => r[c]);
            if (column.length === 0) return 0;
            const sum = column.reduce((a, b) => a + b, 0);
            return mode === "sum" ? sum : mode === "mean" ? sum / column.length : Math.max(...column);
          });
        });
        const got = new Tensor(list).embeddingBag(f64(table), new Tensor(starts), {
          mode,
          paddingIdx,
          includeLastOffset,
        });
        assert(await apart(got, f64(want)) < 1e-15, `${mode} ${paddingIdx} ${includeLastOffset}`);
      }
    }
    const rows = new Tensor([[1, 3], [3, 3]]).embeddingBag(f64(table), null, { mode, paddingIdx: 3 });
    assertEquals(await rows.tolist(), [[3, 5], [0, 0]]);
    assertEquals(
      await new Tensor([1]).reshape([1, 1]).at(":", [0, 0]).embeddingBag(f64(table), null, { mode }).tolist(),
      [
        [0, 0],
      ],
    );
  }
  const weight = f64(table);
  weight.requiresGrad = true;
  const [slope] = new Tensor([[1, 3], [3, 0]]).embeddingBag(weight, null, { paddingIdx: 3 }).sum().gradient([weight]);
  assertEquals(await slope.tolist(), [[1, 1], [1, 1], [0, 0], [0, 0]]);
});

Deno.test("embeddingBag: a padding that is no row, and bags without an end, are refused", () => {
  const bag = (options: object, offsets = [0]) => () =>
    new Tensor([0, 1]).embeddingBag(empty(3, 2), new Tensor(offsets, { dtype: "int32" }), options);
  assertThrows(bag({ paddingIdx: 3 }), RangeError, "Cannot embeddingBag: paddingIdx 3 is none of 3 rows");
  assertThrows(bag({ includeLastOffset: true }, []), ShapeError, "the last bag needs an offset where it ends");
});
