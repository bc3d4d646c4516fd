/**
 * Programs with reductions by key: histograms, means of groups, gradients of bags, messages of graphs, counts, confusion
 * matrices, grids of voxels. Each beside a scalar loop, for keys that repeat, that are missing, that lie outside.
 */
import { assertClose, assertEquals } from "@std/assert";
import { Device, nn, Tensor } from "../../mod.ts";
import { onDevice } from "../support/on_device.ts";

const DEVICES = ["JS", "WASM", "CLANG"] as const;

/** Whole numbers below `n` from `low` on that look random. */
function whole(seed: number, count: number, n: number, low = 0): number[] {
  let s = seed;
  return Array.from(
    { length: count },
    () => low + Math.floor((s = Math.imul(s, 1664525) + 1013904223 >>> 0) / 2 ** 32 * n),
  );
}

/** Multiples of 1/8, whose sums are exact in float32. */
function eighths(seed: number, count: number): number[] {
  return whole(seed, count, 64, -32).map((x) => x / 8);
}

function rowsOf(flat: readonly number[], width: number): number[][] {
  return Array.from({ length: flat.length / width }, (_, i) => flat.slice(i * width, (i + 1) * width));
}

function zeros(n: number, width: number): number[][] {
  return Array.from({ length: n }, () => new Array<number>(width).fill(0));
}

/** Rows of `values` added by key. */
function addRows(keys: readonly number[], values: readonly (readonly number[])[], n: number): number[][] {
  const out = zeros(n, values[0]?.length ?? 0);
  keys.forEach((k, i) => values[i].forEach((v, j) => out[k][j] += v));
  return out;
}

function program(name: string, run: () => Promise<void>): void {
  for (const device of DEVICES) {
    const ignore = !Device.list().some((d) => d.name === device && d.available);
    Deno.test({ name: `keyed programs: ${name}, ${device}`, ignore, fn: () => onDevice(device, run) });
  }
}

program("brightness of a picture by channel", async () => {
  const pixels = whole(1, 3 * 4096, 256), wide = rowsOf(pixels, 4096);
  const want = wide.map((c) => Array.from({ length: 16 }, (_, b) => c.filter((p) => p >> 4 === b).length));
  const image = new Tensor(wide, { dtype: "uint8" }), at = image.int().rshift(4);
  assertEquals(await at.oneHot(16).sum(1).tolist(), want);
  assertEquals(await Tensor.zeros([3, 16], { dtype: "int32" }).scatterAdd(1, at, at.onesLike()).tolist(), want);
  for (const [c, counts] of want.entries()) assertEquals(await image.at(c).float().histc(16, 0, 256).tolist(), counts);
});

program("means of groups, of which one has nobody", async () => {
  const keys = whole(2, 3000, 40).map((k) => k === 7 ? 8 : k), values = rowsOf(eighths(3, 3000 * 5), 5);
  const sums = addRows(keys, values, 40),
    counts = Array.from({ length: 40 }, (_, k) => keys.filter((x) => x === k).length);
  const of = new Tensor(keys), x = new Tensor(values, { dtype: "float32" });
  const sum = Tensor.zeros([40, 5]).indexAdd(0, of, x), count = of.bincount({ size: 40 });
  assertEquals(await sum.tolist(), sums);
  assertEquals(await count.tolist(), counts);
  const mean = await sum.div(count.maximum(1).unsqueeze(1)).tolist();
  assertClose(mean, sums.map((r, k) => r.map((v) => v / Math.max(counts[k], 1))), 1e-6);
  const index = of.unsqueeze(1).expand([3000, 5]);
  const same = Tensor.zeros([40, 5]).scatterReduce(0, index, x, "mean", false);
  assertClose(await same.tolist(), mean, 1e-6);
});

program("gradient of a bag of embeddings, with padding and repeated words", async () => {
  const words = whole(4, 64 * 20, 50), bags = rowsOf(words, 20), given = rowsOf(eighths(5, 64 * 16), 16), pad = 3;
  const rows = rowsOf(eighths(6, 50 * 16), 16), table = new Tensor(rows, { dtype: "float32", requiresGrad: true });
  const bag = new Tensor(bags), keep = bag.ne(pad).float().unsqueeze(2);
  const out = table.at(bag).mul(keep).sum(1);
  const add = (list: readonly number[]): number[] =>
    list.reduce((sum, w) => w === pad ? sum : sum.map((s, j) => s + rows[w][j]), new Array<number>(16).fill(0));
  assertEquals(await out.tolist(), bags.map(add));
  const [slope] = out.mul(new Tensor(given, { dtype: "float32" })).sum().gradient([table]);
  const want = zeros(50, 16);
  bags.forEach((b, i) => b.forEach((w) => w === pad || given[i].forEach((g, j) => want[w][j] += g)));
  assertEquals(await slope.tolist(), want);
});

program("messages along edges of a graph: sums, means, maxima, and their gradient", async () => {
  const nodes = 60, edges = 500, from = whole(7, edges, nodes), to = whole(8, edges, nodes - 10);
  const given = rowsOf(eighths(9, nodes * 8), 8), h = new Tensor(given, { dtype: "float32", requiresGrad: true });
  const messages = h.at(new Tensor(from)), at = new Tensor(to).unsqueeze(1).expand([edges, 8]);
  const sums = addRows(to, from.map((f) => given[f]), nodes);
  const sum = Tensor.zeros([nodes, 8]).scatterAdd(0, at, messages);
  assertEquals(await sum.tolist(), sums);
  const most = zeros(nodes, 8).map((r) => r.map(() => -Infinity));
  to.forEach((t, e) => given[from[e]].forEach((v, j) => most[t][j] = Math.max(most[t][j], v)));
  const max = Tensor.full([nodes, 8], -Infinity).scatterReduce(0, at, messages, "amax");
  assertEquals(await max.tolist(), most);
  const [slope] = sum.square().sum().gradient([h]), want = zeros(nodes, 8);
  from.forEach((f, e) => sums[to[e]].forEach((s, j) => want[f][j] += 2 * s));
  assertClose(await slope.tolist(), want, 1e-5);
});

program("counts with weights, of whole numbers of all widths", async () => {
  const keys = whole(10, 20000, 90), weights = eighths(11, 20000);
  const counts = new Array<number>(100).fill(0), sums = counts.slice();
  keys.forEach((k, i) => (counts[k]++, sums[k] += weights[i]));
  for (const dtype of ["int8", "int16", "int64"] as const) {
    const x = new Tensor(keys, { dtype });
    assertEquals(await x.bincount({ size: 100 }).tolist(), counts);
    assertEquals(await (await x.bincount({ minlength: 100 })).tolist(), counts);
    const w = new Tensor(weights, { dtype: "float32" });
    assertEquals(await x.bincount({ weights: w, size: 100 }).tolist(), sums);
  }
  // what lies outside of a size, below and above, is not counted
  const wild = whole(12, 20000, 60, -20);
  const want = Array.from({ length: 30 }, (_, k) => wild.filter((x) => x === k).length);
  assertEquals(await new Tensor(wild).bincount({ size: 30 }).tolist(), want);
  assertEquals(await new Tensor([], { dtype: "int32" }).bincount({ size: 3 }).tolist(), [0, 0, 0]);
});

program("all modes of scatterReduce, with and without what was there", async () => {
  const n = 4000, keys = whole(13, n, 50), values = whole(14, n, 9, -4);
  const start = eighths(15, 64), of = (k: number): number[] => values.filter((_, i) => keys[i] === k);
  const folds: Record<string, (v: readonly number[]) => number> = {
    sum: (v) => v.reduce((a, b) => a + b, 0),
    amax: (v) => Math.max(...v),
    amin: (v) => Math.min(...v),
    mean: (v) => v.reduce((a, b) => a + b, 0) / v.length,
  };
  for (const [mode, fold] of Object.entries(folds)) {
    for (const includeSelf of [true, false]) {
      const want = start.map((s, k) => {
        const all = [...includeSelf ? [s] : [], ...of(k)];
        return of(k).length === 0 ? s : fold(all);
      });
      const t = new Tensor(start, { dtype: "float32" });
      const made = t.scatterReduce(
        0,
        new Tensor(keys),
        new Tensor(values, { dtype: "float32" }),
        mode as "sum",
        includeSelf,
      );
      assertClose(await made.tolist(), want, 1e-6);
    }
  }
  // products of signs stay exact
  const signs = values.map((v) => v < 0 ? -1 : 1), product = new Array<number>(64).fill(1);
  keys.forEach((k, i) => product[k] *= signs[i]);
  const ones = Tensor.ones([64], { dtype: "float32" });
  const made = ones.scatterReduce(0, new Tensor(keys), new Tensor(signs, { dtype: "float32" }), "prod");
  assertEquals(await made.tolist(), product);
});

program("rows added at places, of many dtypes, along each axis, of none", async () => {
  const keys = whole(16, 2000, 30),
    flat = whole(17, 2000 * 12, 7, -3),
    values = rowsOf(flat, 12),
    want = addRows(keys, values, 30);
  for (const dtype of ["int32", "float16", "float64"] as const) {
    const x = new Tensor(values, { dtype }), at = new Tensor(keys);
    assertEquals(await Tensor.zeros([30, 12], { dtype }).indexAdd(0, at, x).tolist(), want);
    const turned = Tensor.zeros([12, 30], { dtype }).indexAdd(1, at, x.transpose());
    assertEquals(await turned.transpose().tolist(), want);
  }
  const none = Tensor.ones([3, 2]).indexAdd(0, new Tensor([], { dtype: "int32" }), Tensor.zeros([0, 2]));
  assertEquals(await none.tolist(), [[1, 1], [1, 1], [1, 1]]);
});

program("different values and how often each is there", async () => {
  const values = whole(18, 9000, 300, -150), counts = new Map<number, number>();
  values.forEach((v) => counts.set(v, (counts.get(v) ?? 0) + 1));
  const want = [...counts].sort(([a], [b]) => a - b), x = new Tensor(values);
  const least = await x.min().item() as number, size = await x.max().item() as number - least + 1;
  const all = await x.sub(least).bincount({ size }).tolist() as number[];
  assertEquals(all.flatMap((c, i) => c > 0 ? [[i + least, c]] : []), want);
  assertEquals(await (await x.unique()).tolist(), want.map(([v]) => v));
});

program("a confusion matrix, with what is not labeled", async () => {
  const classes = 12,
    truth = whole(19, 5000, classes + 1, -1),
    guess = whole(20, 5000, classes),
    want = zeros(classes, classes);
  truth.forEach((t, i) => t >= 0 && want[t][guess[i]]++);
  const t = new Tensor(truth), g = new Tensor(guess), isKnown = t.ge(0);
  const place = isKnown.where(t.mul(classes).add(g), -1) as Tensor;
  assertEquals(await place.bincount({ size: classes * classes }).reshape([classes, classes]).tolist(), want);
  const hot = t.maximum(0).oneHot(classes).mul(isKnown.int().unsqueeze(1));
  assertEquals(await hot.transpose().matmul(g.oneHot(classes)).tolist(), want);
});

program("points in a grid of voxels: counts, centers and the highest", async () => {
  const side = 6, points = rowsOf(eighths(21, 3 * 4000).map((x) => x + 4), 3), cells = side ** 3;
  const cellOf = (p: readonly number[]): number =>
    p.reduce((a, v) => a * side + Math.min(Math.max(Math.floor(v), 0), side - 1), 0);
  const keys = points.map(cellOf), counts = new Array<number>(cells).fill(0), highest = counts.map(() => -100);
  keys.forEach((k, i) => (counts[k]++, highest[k] = Math.max(highest[k], points[i][2])));
  const x = new Tensor(points, { dtype: "float32" }), voxel = x.floor().clamp(0, side - 1).int();
  const cell = voxel.mul(new Tensor([side * side, side, 1])).sum(1);
  assertEquals(await cell.tolist(), keys);
  assertEquals(await cell.bincount({ size: cells }).tolist(), counts);
  const at = cell.unsqueeze(1).expand([4000, 3]), sums = Tensor.zeros([cells, 3]).scatterAdd(0, at, x);
  assertEquals(await sums.tolist(), addRows(keys, points, cells));
  const top = Tensor.full([cells], -100, { dtype: "float32" }).scatterReduce(0, cell, x.at("...", 2), "amax");
  assertEquals(await top.tolist(), highest);
});

program("one step of a classifier whose words are looked up", async () => {
  const words = whole(22, 96 * 6, 40), layer = new nn.Embedding(40, 4), ids = new Tensor(rowsOf(words, 6));
  layer.weight = new Tensor(rowsOf(eighths(23, 160), 4), { dtype: "float32", requiresGrad: true });
  const out = layer.call(ids).sum([1, 2]), given = eighths(24, 96);
  const [slope] = out.mul(new Tensor(given, { dtype: "float32" })).sum().gradient([layer.weight]);
  const want = zeros(40, 4);
  words.forEach((w, i) => want[w].forEach((_, j) => want[w][j] += given[Math.floor(i / 6)]));
  assertEquals(await slope.tolist(), want);
});
