/** Counting, searching and order statistics: large inputs, options and sizes beyond the golden cases. */
import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { ArgumentError, context, Device, Tensor, Variable } from "../../../mod.ts";
import { devicesHere } from "../../fixtures/devices.ts";

Device.default = "JS";
const on = { device: "JS" };
const devices = await devicesHere();
const ints = (n: number, below: number) => Array.from({ length: n }, (_, i) => (i * 7919 + 13) % 10007 % below);

Deno.test("statistics: bincount of many keys agrees with counting, with and without weights", async () => {
  const keys = ints(3000, 700), weights = keys.map((_, i) => (i % 8) / 4);
  const count = new Array<number>(700).fill(0), sum = new Array<number>(700).fill(0);
  keys.forEach((k, i) => {
    count[k]++;
    sum[k] += weights[i];
  });
  const t = new Tensor(keys, on);
  assertEquals(await t.bincount({ size: 700 }).tolist(), count);
  assertEquals(await t.bincount({ size: 700, weights: new Tensor(weights, on) }).tolist(), sum);
  assertEquals(await (await t.bincount({ minlength: 800 })).tolist(), [...count, ...new Array(100).fill(0)]);
});

Deno.test("statistics: distinct slices along an axis, in order, with places and counts", async () => {
  const rows = [[2, 1, 0], [1, 9, 9], [2, 1, 0], [1, 9, 8], [2, 1, 0]];
  for (const device of devices) {
    const x = new Tensor(rows, { device });
    const [values, index, inverse, counts] = await x.unique({
      dim: 0,
      returnIndex: true,
      returnInverse: true,
      returnCounts: true,
    });
    assertEquals(await values.tolist(), [[1, 9, 8], [1, 9, 9], [2, 1, 0]]);
    assertEquals([await index.tolist(), await inverse.tolist(), await counts.tolist()], [[3, 1, 0], [2, 1, 2, 0, 2], [
      1,
      1,
      3,
    ]]);
    assertEquals(await (await x.transpose(0, 1).unique({ dim: 1 })).tolist(), [[1, 1, 2], [9, 9, 1], [8, 9, 0]]);
    assertEquals(await x.unique({ dim: 0, size: 4, fillValue: -1 }).tolist(), [[1, 9, 8], [1, 9, 9], [2, 1, 0], [
      -1,
      -1,
      -1,
    ]]);
    const [steps, which, often] = await new Tensor([[1, 2], [1, 2], [3, 2], [1, 2]], { device }).uniqueConsecutive({
      dim: 0,
    });
    assertEquals(await steps.tolist(), [[1, 2], [3, 2], [1, 2]]);
    assertEquals([await which.tolist(), await often.tolist()], [[0, 0, 1, 2], [2, 1, 1]]);
  }
  const empty = await new Tensor([], on).reshape([0, 3]).unique({ dim: 0 });
  assertEquals(empty.shape, [0, 3]);
  const nan = await new Tensor([[NaN, 1], [0.5, 1], [NaN, 1]], on).unique({ dim: 0 });
  assertEquals(await nan.tolist(), [[0.5, 1], [NaN, 1]]);
});

Deno.test("statistics: quantiles at shares of a tensor, with gradients, and positions by a sorter", async () => {
  const x = new Tensor([3, 1, 2, 5], { dtype: "float32", ...on }), q = new Tensor([0.5, 1 / 3], on);
  q.requiresGrad = true;
  const found = x.quantile(q);
  assertEquals(Array.from(await found.data(), (v) => Math.round(Number(v) * 1e5) / 1e5), [2.5, 2]);
  const [slope] = found.sum().gradient([q]);
  assertEquals((await slope.data())[0], 3); // from 2 to 3, in a third
  assertEquals(await new Tensor([[1, NaN, 3], [NaN, NaN, NaN]], on).nanquantile(new Tensor(0.5, on), 1).tolist(), [
    2,
    NaN,
  ]);
  assertEquals(await new Tensor([1, Infinity, Infinity], on).nanquantile([0, 0.5], 0).tolist(), [1, Infinity]);
  const order = x.argsort();
  assertEquals(await x.searchsorted(new Tensor([2, 4], on), { sorter: order }).tolist(), [1, 3]);
  assertEquals(await x.searchsorted(new Tensor([2, 4], on), { sorter: order, side: "right" }).tolist(), [2, 3]);
});

Deno.test("statistics: bincount of negative numbers", async () => {
  const x = new Tensor([3, -2, 3], on);
  await assertRejects(() => x.bincount(), ArgumentError, "-2 is negative; with { size } what lies outside");
  await assertRejects(() => x.mul(2).bincount({ minlength: 9 }), ArgumentError, "-4 is negative");
  assertEquals(await x.bincount({ size: 5 }).tolist(), [0, 0, 0, 2, 0]);
  assertEquals(await (await new Tensor([0, 0], on).bincount()).tolist(), [2]);
  assertEquals(await (await new Tensor([true, false, true], on).bincount()).tolist(), [1, 2]);
  assertEquals(await (await new Tensor([3, 1], { dtype: "uint8", ...on }).bincount()).tolist(), [0, 1, 0, 1]);
  assertEquals(await (await new Tensor([2n, 0n], on).bincount()).tolist(), [1, 0, 1]);
});

Deno.test("statistics: scatter of many places takes the last, adds all, and finds extrema", async () => {
  const at = ints(2500, 600), values = ints(2500, 1000);
  const last = new Array<number>(600).fill(-1), sum = new Array<number>(600).fill(-1), most = sum.slice();
  at.forEach((k, i) => {
    last[k] = values[i];
    sum[k] += values[i];
    most[k] = Math.max(most[k], values[i]);
  });
  const base = Tensor.full([600], -1, on), index = new Tensor(at, on), source = new Tensor(values, on);
  assertEquals(await base.scatter(0, index, source).tolist(), last);
  assertEquals(await base.scatterReduce(0, index, source, "sum").tolist(), sum);
  assertEquals(await base.scatterReduce(0, index, source, "amax").tolist(), most);
});

Deno.test("statistics: unique in fixed sizes, with first places, inverses and counts", async () => {
  const t = new Tensor([3, 1, 3, NaN, 2, NaN], on);
  const lists = async (ts: readonly Tensor[]) => await Promise.all(ts.map((x) => x.tolist()));
  const flags = { returnIndex: true, returnInverse: true, returnCounts: true } as const;
  assertEquals(await lists(await t.unique(flags)), [[1, 2, 3, NaN], [1, 4, 0, 3], [2, 0, 2, 3, 1, 3], [1, 1, 2, 2]]);
  assertEquals(await t.unique({ size: 6, fillValue: -1 }).tolist(), [1, 2, 3, NaN, -1, -1]);
  assertEquals(await lists(t.unique({ size: 2, returnCounts: true })), [[1, 2], [1, 1]]);
  assertEquals(await lists(await new Tensor([], on).unique({ returnCounts: true })), [[], []]);
  assertEquals(await (await new Tensor([true, false, true], on).unique()).tolist(), [false, true]);
});

Deno.test("statistics: histogram with ranges, edges, weights and density", async () => {
  const t = new Tensor([1, 2, 1, 4, 5, NaN], on);
  const counts = async (...args: Parameters<Tensor["histogram"]>) => await t.histogram(...args)[0].tolist();
  assertEquals(await counts(4, { min: 0, max: 4 }), [0, 2, 1, 1]);
  assertEquals(await counts([1, 2, 5]), [2, 3]);
  assertEquals(await counts([1, 2, 5], { weights: new Tensor([1, 2, 3, 4, 5, 6], on) }), [4, 11]);
  assertEquals(await counts([1, 2, 4], { density: true }), [0.5, 0.25]);
  assertEquals(await new Tensor([2, 2], on).histogram(2)[1].tolist(), [1.5, 2, 2.5]);
});

Deno.test("statistics: histograms of whole numbers and whole or short bins are those of plain arithmetic", async () => {
  for (const device of devices) {
    const counts = async (x: Tensor, bins: number) => await x.histogram(bins)[0].tolist();
    assertEquals(await counts(Tensor.arange(101, undefined, 1, { device }), 10), [...new Array(9).fill(10), 11]);
    assertEquals(await counts(new Tensor([4.5, 1, 7, 7, -2, 0.25], { device }), 3), [2, 1, 3]);
    const sweep = device === "JS" ? [[-5, 1], [-3, 0.75], [0, 3], [2, 2.5], [100, 1.25]] : [[-5, 1], [2, 2.5]];
    for (const [low, width] of sweep) {
      for (const bins of device === "JS" ? [3, 5, 6, 7, 10] : [6, 7]) {
        const data = Array.from({ length: 4 * bins + 1 }, (_, i) => low + i * width / 4);
        const want = new Array<number>(bins).fill(0);
        for (const x of data) want[Math.min(bins - 1, Math.floor((x - low) / width))]++;
        const [count, edges] = new Tensor(data, { device, dtype: "float32" }).histogram(bins);
        assertEquals(await count.tolist(), want, `${device} ${low} ${width} ${bins}`);
        assertEquals(await edges.tolist(), Array.from({ length: bins + 1 }, (_, i) => low + i * width));
      }
    }
  }
});

Deno.test("statistics: NaN and infinities fall into no bin and set no ends; bad ends and edges are errors", async () => {
  const lists = async (ts: readonly Tensor[]) => await Promise.all(ts.map((x) => x.tolist()));
  const of = (data: number[], options = {}) => lists(new Tensor(data, on).histogram(2, options));
  assertEquals(await of([1, NaN, 2, Infinity]), [[1, 1], [1, 1.5, 2]]);
  assertEquals(await of([-Infinity, 2, 4]), [[1, 1], [2, 3, 4]]);
  assertEquals(await of([NaN, Infinity]), [[0, 0], [0, 0.5, 1]]);
  assertEquals(await of([3, 4, 2], { min: 3, max: 3 }), [[0, 1], [2.5, 3, 3.5]]);
  assertEquals(await of([1, 2, 3], { min: 5 }), [[0, 0], [4.5, 5, 5.5]]);
  assertEquals(await lists(new Tensor([0, 1], on).histogram([0, 0, 1])), [[0, 2], [0, 0, 1]]);
  const x = new Tensor([1, 2], on);
  assertThrows(() => x.histogram([3, 2, 0]), ArgumentError, "edges must ascend, but edge 1 is 2");
  assertThrows(() => x.histogram([0, NaN]), ArgumentError, "edges must ascend, but edge 1 is NaN");
  assertThrows(() => x.histogram(2, { max: Infinity }), ArgumentError, "max must be a finite number, not Infinity");
});

Deno.test("statistics: medians and quantiles beside infinities", async () => {
  const at = async (data: number[], q: number[]) => await new Tensor(data, on).quantile(q).tolist();
  const far = Infinity;
  assertEquals(await new Tensor([far, far], on).median().item(), far);
  assertEquals(await at([far, far, 1], [0, 0.25, 0.75, 1]), [1, far, far, far]);
  assertEquals(await at([-far, -far, 1, 2], [0.1, 0.5, 0.9]), [-far, -far, 1.7000000476837158]);
  assertEquals(await at([-far, far], [0, 0.5, 1]), [-far, NaN, far]);
  assertEquals(await at([NaN, far], [0.5]), [NaN]);
  assertEquals(await at([-far, 1], [0.25, 0.75]), [-far, -far]);
});

Deno.test("statistics: the slope of a quantile is shared by its two elements, infinite ones, too", async () => {
  const I = Infinity, n = new Variable("n", 1, 8).bind(4);
  for (const row of [[3, 1, 1, 2], [1, 1, 1, 1], [I, I, 1, I], [-1, -I, -I, -I], [0, I, -5, I]]) {
    const x = new Tensor([...row, 9, 9, 9, 9], { dtype: "float64" }),
      order = [0, 1, 2, 3].sort((a, b) => row[a] === row[b] ? a - b : row[a] - row[b]);
    for (const t of [x.at([0, 4]), x.at([0, n])]) {
      for (const [share, low, weight] of [[0.5, 1, 0.5], [0.25, 0, 0.75], [0.75, 2, 0.25]] as const) {
        const want = [0, 0, 0, 0, 0, 0, 0, 0], [slope] = t.quantile(share).gradient([x]);
        want[order[low]] = 1 - weight;
        want[order[low + 1]] = weight;
        assertEquals(await slope.tolist(), want, `${row} at ${share}`);
      }
    }
  }
});

Deno.test("statistics: quantiles by every interpolation, over several axes", async () => {
  const t = new Tensor([[4, 1], [3, 2]], on);
  const q = async (interpolation: "linear" | "lower" | "higher" | "midpoint" | "nearest") =>
    await t.quantile(0.4, null, { interpolation }).item();
  assertEquals(Math.abs(await q("linear") as number - 2.2) < 1e-6, true);
  assertEquals([await q("lower"), await q("higher"), await q("midpoint"), await q("nearest")], [2, 3, 2.5, 2]);
  assertEquals(await t.median(0, { keepdim: true }).tolist(), [[3.5, 1.5]]);
  assertEquals(await t.quantile([0, 1], [0, 1]).tolist(), [1, 4]);
});

Deno.test("statistics: searchsorted puts NaN last and finds runs from both sides", async () => {
  const sorted = new Tensor([1, 2, 2, NaN], on), values = new Tensor([2, NaN, 5], on);
  assertEquals(await sorted.searchsorted(values).tolist(), [1, 3, 3]);
  assertEquals(await sorted.searchsorted(values, { right: true }).tolist(), [3, 4, 3]);
});

Deno.test("uniqueConsecutive, zerosLike and the like stay on the device of their tensor", async () => {
  const x = new Tensor([1, 1, 2], { device: "JS" }), of = async () => await x.at([0, 1]).uniqueConsecutive();
  const made = await context({ DEV: "WASM" }, async () => {
    return [x.zerosLike(), x.onesLike().contiguous(), x.fullLike(3), ...await of()].map((t) => t.device);
  });
  assertEquals(made, made.map(() => "JS"));
});
