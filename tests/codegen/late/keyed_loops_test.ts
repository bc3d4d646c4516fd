/**
 * Reductions by key as loops over their terms, beside loops of this file: random shapes, dtypes and reductions, duplicates,
 * keys that are negative or out of range, several indices, gradients; which kernels go that way, and which do not.
 *
 * @module
 */
import assert from "node:assert/strict";
import { Device, dtypes, schedule, Tensor } from "../../../mod.ts";
import { isByKey } from "../../../src/codegen/late/keyed_loops.ts";
import { devicesHere } from "../../fixtures/devices.ts";
import { Random } from "../../support/random.ts";

/** How many of the kernels that compute `t` go by key. */
function byKey(t: Tensor, device: string): number {
  const { caps } = Device.get(device).renderer;
  return schedule([t]).filter((item) => item.ast !== undefined && isByKey(item.ast, caps)).length;
}

const FOLDS: Readonly<Record<string, (a: number, b: number) => number>> = {
  sum: (a, b) => a + b,
  prod: (a, b) => a * b,
  amax: Math.max,
  amin: Math.min,
  last: (_, b) => b,
};
const DTYPES = ["float32", "float16", "float64", "int32", "int64", "int8", "uint8"] as const;
/** What sums and products of them have exactly in every dtype: products of a few ones and twos. */
const TERMS = [0, 1, 1, 1, 1, 2];

interface Drawn {
  readonly fold: string;
  readonly dtype: typeof DTYPES[number];
  /** Before the axis, along it (of what is written to, of the index), and behind it. */
  readonly lead: number;
  readonly size: number;
  readonly n: number;
  readonly width: number;
  readonly isExpanded: boolean;
  readonly includesSelf: boolean;
}

function drawn(random: Random): Drawn {
  const width = random.pick([1, 1, 3, 8, 16, 17, 35, 64]), lead = random.pick([1, 1, 2, 3]);
  return {
    fold: random.pick(Object.keys(FOLDS)),
    dtype: random.pick(DTYPES),
    lead,
    width,
    n: random.int(200, 700),
    size: random.int(300, 900),
    isExpanded: random.int(0, 3) > 0,
    includesSelf: random.int(0, 2) > 0,
  };
}

/** A number in a dtype of few bits. */
function wrapped(x: number, dtype: string): number {
  return dtype === "int8" ? (x << 24) >> 24 : dtype === "uint8" ? x & 255 : x;
}

async function checkDrawn(d: Drawn, random: Random, device: string): Promise<number> {
  const { fold, dtype, lead, size, n, width, isExpanded, includesSelf } = d, isLast = fold === "last";
  const isSelf = includesSelf || isLast, spread = random.pick([size, 3 + size >> 2]);
  const key = (): number =>
    random.int(0, 20) === 0 ? random.int(-2 * size, 2 * size) : random.below(spread) - spread / 4 | 0;
  const keys = Array.from({ length: lead * n * (isExpanded ? 1 : width) }, key);
  const from = Array.from({ length: lead * n * width }, () => random.pick(TERMS));
  const to = Array.from({ length: lead * size * width }, () => random.pick(TERMS));
  const want = to.slice(), touched = new Set<number>();
  for (let l = 0; l < lead; l++) {
    for (let i = 0; i < n; i++) {
      for (let j = 0; j < width; j++) {
        let k = keys[isExpanded ? l * n + i : (l * n + i) * width + j];
        if (k < 0) k += size;
        if (k < 0 || k >= size) continue;
        const at = (l * size + k) * width + j, x = from[(l * n + i) * width + j];
        want[at] = !isSelf && !touched.has(at) ? x : FOLDS[fold](want[at], x);
        touched.add(at);
      }
    }
  }
  const given = new Tensor(keys.map((k) => k - 1), { device, dtype: "int32" }).realize().add(1); // unknown on the host
  const index = isExpanded ? given.reshape([lead, n, 1]).expand([lead, n, width]) : given.reshape([lead, n, width]);
  const x = new Tensor(to, { device }).cast(dtype).reshape([lead, size, width]).realize();
  const v = new Tensor(from, { device }).cast(dtype).reshape([lead, n, width]).realize();
  const made = isLast ? x.scatter(1, index, v) : x.scatterReduce(1, index, v, fold as "sum", includesSelf);
  const have = await made.double().reshape([-1]).tolist() as number[], text = JSON.stringify(d);
  want.forEach((w, i) => {
    assert.equal(have[i], dtype === "float16" && w > 65504 ? Infinity : wrapped(w, dtype), `element ${i} of ${text}`);
  });
  return byKey(isLast ? x.scatter(1, index, v) : x.scatterReduce(1, index, v, fold as "sum", includesSelf), device);
}

const SEED = Number(Deno.env.get("KEYED_SEED") ?? 7), COUNT = Number(Deno.env.get("KEYED_COUNT") ?? 12);

for (const device of await devicesHere()) {
  const { caps } = Device.get(device).renderer, isOnLoops = !caps.hasGrid;
  if (!caps.computeDTypes.includes(dtypes.float64)) continue;

  Deno.test(`by key ${device}: random scatters`, async () => {
    const random = new Random(SEED);
    let found = 0;
    for (let i = 0; i < COUNT; i++) found += await checkDrawn(drawn(random), random, device);
    if (isOnLoops) assert.ok(found >= COUNT, `${found} kernels of ${COUNT} programs go by key`);
    else assert.equal(found, 0);
  });

  Deno.test(`by key ${device}: counts, with weights, of few and of many places`, async () => {
    const n = 6000, keys = Array.from({ length: n }, (_, i) => (i * 7919 + (i >> 4)) % 997);
    const i = new Tensor(keys, { device, dtype: "int32" }).realize(), counts = new Array(1000).fill(0);
    for (const k of keys) counts[k]++;
    assert.deepEqual(await i.bincount({ size: 1000 }).tolist(), counts);
    const weights = Float32Array.from({ length: n }, (_, i) => i % 9), sums = new Array(1000).fill(0);
    keys.forEach((k, i) => sums[k] += weights[i]);
    const w = new Tensor(weights, { device }).realize();
    assert.deepEqual(await i.bincount({ size: 1000, weights: w }).tolist(), sums);
    assert.equal(byKey(i.bincount({ size: 1000 }), device), isOnLoops ? 1 : 0);
    // lanes look at all terms for each of a few results in less time
    const few = i.mod(3).realize();
    assert.deepEqual(
      await few.bincount({ size: 3 }).tolist(),
      [0, 1, 2].map((p) => keys.filter((k) => k % 3 === p).length),
    );
    if (caps.vectorBytes > 0) assert.equal(byKey(few.bincount({ size: 3 }), device), 0);
  });

  Deno.test(`by key ${device}: gradients of rows that are read, and of elements by two indices`, async () => {
    const [m, places, width] = [900, 700, 24], rows = Array.from({ length: m }, (_, i) => (i * 31 + (i >> 5)) % places);
    const x = Tensor.arange(places * width, undefined, undefined, { device }).float().reshape([places, width])
      .realize();
    const up = Float32Array.from({ length: m * width }, (_, i) => i % 13 - 6),
      g = new Tensor(up, { device }).reshape([m, width]).realize();
    const at = new Tensor(rows, { device, dtype: "int32" }).realize();
    const [grad] = x.at(at).mul(g).sum().gradient([x]), want = new Array(places * width).fill(0);
    rows.forEach((r, i) => {
      for (let j = 0; j < width; j++) want[r * width + j] += up[i * width + j];
    });
    assert.deepEqual(await grad.flatten().tolist(), want);
    const columns = rows.map((r) => (r * 7) % width), c = new Tensor(columns, { device, dtype: "int32" }).realize();
    const first = new Tensor(up.subarray(0, m), { device }).realize();
    const picks = (): Tensor => x.at(at, c).mul(first).sum().gradient([x])[0], both = new Array(places * width).fill(0);
    rows.forEach((r, i) => both[r * width + columns[i]] += up[i]);
    assert.deepEqual(await picks().flatten().tolist(), both);
    assert.equal(byKey(picks(), device), isOnLoops ? 1 : 0);
  });

  Deno.test(`by key ${device}: NaN stays where its key says, and nowhere means nowhere`, async () => {
    const n = 800,
      size = 600,
      keys = Array.from({ length: n }, (_, i) => i === 5 ? 3 : i % 2 === 0 ? -1 - 5 * size : 10 + i % 400);
    const i = new Tensor(keys.map((k) => k - 1), { device, dtype: "int32" }).realize().add(1);
    const v = new Tensor(Float32Array.from({ length: n }, (_, i) => i === 5 || i % 2 === 0 ? NaN : 1), { device })
      .realize();
    const zeros = Tensor.zeros([size], { device }), sums = zeros.scatterReduce(0, i, v, "sum");
    const have = await sums.tolist() as number[];
    assert.deepEqual(have.flatMap((x, at) => Number.isNaN(x) ? [at] : []), [3]);
    assert.equal(have.filter((x) => !Number.isNaN(x)).reduce((a, b) => a + b), n / 2 - 1);
    const empty = new Tensor([], { device, dtype: "int32" });
    assert.deepEqual(
      await zeros.scatterReduce(0, empty, new Tensor([], { device, dtype: "float32" }), "sum").sum().item(),
      0,
    );
  });

  Deno.test(`by key ${device}: reruns are bit-equal, with terms in their order`, async () => {
    const n = 5000, size = 300, width = 40, random = new Random(5);
    const i = new Tensor(Array.from({ length: n }, () => random.below(size)), { device, dtype: "int32" }).realize();
    const values = Float32Array.from({ length: n * width }, () => random.next() * 2 ** random.int(-8, 8)),
      keys = await i.data();
    const v = new Tensor(values, { device }).reshape([n, width]).realize();
    const sums = (): Tensor => Tensor.zeros([size, width], { device }).indexAdd(0, i, v);
    const first = await sums().data(), again = await sums().data();
    assert.deepEqual(again, first);
    if (!isOnLoops) return;
    const want = new Float32Array(size * width);
    keys.forEach((k, t) => {
      for (let j = 0; j < width; j++) want[Number(k) * width + j] += values[t * width + j];
    });
    assert.deepEqual(first, want);
  });
}

for (const device of await devicesHere()) {
  Deno.test(`keyed loops ${device}: keys and terms that are bytes of other memory`, async () => {
    const n = 1 << 14, words = Int32Array.from({ length: n / 4 }, (_, i) => Math.imul(i + 1, 0x9e3779b1));
    const bytes = new Tensor(words, { device }).add(1).bitcast("uint8"), want = new Int32Array(256);
    const read = new Uint8Array(words.map((w) => w + 1).buffer);
    for (const b of read) want[b] += b;
    const zeros = Tensor.zeros([256], { dtype: "int32", device });
    const sums = zeros.scatterAdd(0, bytes.cast("int32"), bytes.cast("int32"));
    assert.deepEqual([...await sums.data()], [...want]);
    // a reduction that is no sum by key, over such bytes under a comparison of positions
    const own = bytes.cast("int32").reshape([64, n / 64]),
      first = Tensor.arange(n / 64, { dtype: "int32", device }).eq(3);
    const picked = await first.where(own, 0).sum(1).data();
    assert.deepEqual([...picked], Array.from({ length: 64 }, (_, i) => read[i * (n / 64) + 3]));
  });
}
