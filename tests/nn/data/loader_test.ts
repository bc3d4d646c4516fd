/** DataLoader: batches of all kinds of data sets, orders, resuming in the middle of an epoch, threads and their failures. */
import { assert, assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { ArgumentError, DataError, Device, nn, state, Tensor } from "../../../mod.ts";

Device.default = "JS"; // the host code is what is tested
Device.get();

const { DataLoader, TensorDataset } = nn.data;
const fixture = (name: string) => new URL(`./fixtures/${name}.ts`, import.meta.url);
const numbers = (n: number) => Array.from({ length: n }, (_, i) => i);

/** The numbers that a loader of numbers gives, batch by batch. */
async function epoch(loader: AsyncIterable<Tensor>): Promise<number[][]> {
  const out: number[][] = [];
  for await (const x of loader) out.push(await x.tolist<number[]>());
  return out;
}

Deno.test("data loader: batches of tensors, with the last one or without", async () => {
  const x = Tensor.arange(10).reshape([5, 2]), y = Tensor.arange(5), data = new TensorDataset(x, y);
  const loader = new DataLoader(data, { batchSize: 2 }), seen: unknown[] = [];
  for await (const [a, b] of loader) seen.push([await a.tolist(), await b.tolist()]);
  assertEquals(seen, [[[[0, 1], [2, 3]], [0, 1]], [[[4, 5], [6, 7]], [2, 3]], [[[8, 9]], [4]]]);
  assertEquals([loader.length, loader.epoch], [3, 1]);
  const even = new DataLoader(data, { batchSize: 2, dropLast: true });
  assertEquals([even.length, [...even].map(([a]) => a.shape)], [2, [[2, 2], [2, 2]]]);
  assertEquals([...new DataLoader(y, { batchSize: 4 })].map((t) => t.tolistSync()), [[0, 1, 2, 3], [4]]);
  assertEquals([...new DataLoader(new TensorDataset([x, y]), { batchSize: 5 })][0].length, 2);
  for (const [a] of new DataLoader(data, { batchSize: 2 })) assert(a.isRealized);
});

Deno.test("data loader: items of all kinds become batches", async () => {
  const items = numbers(3).map((i) => ({
    image: Float32Array.of(i, i + 0.5),
    box: [i, i + 1],
    label: i,
    flag: i > 0,
    name: `n${i}`,
    pair: [Tensor.full([2], i), "a"] as [Tensor, string],
    none: null,
  }));
  for await (const batch of new DataLoader(items, { batchSize: 3 })) {
    assertEquals(await batch.image.tolist(), [[0, 0.5], [1, 1.5], [2, 2.5]]);
    assertEquals([await batch.box.tolist(), await batch.label.tolist()], [[[0, 1], [1, 2], [2, 3]], [0, 1, 2]]);
    assertEquals([await batch.flag.tolist(), batch.name], [[false, true, true], ["n0", "n1", "n2"]]);
    assertEquals([await batch.pair[0].tolist(), batch.pair[1]], [[[0, 0], [1, 1], [2, 2]], ["a", "a", "a"]]);
    assertEquals([batch.none, batch.image.dtype.name, batch.label.dtype.name], [
      [null, null, null],
      "float32",
      "int32",
    ]);
  }
  const pairs = new DataLoader([[[0.5, 1], 0], [[2, 3], 1]] as [number[], number][], { batchSize: 2 });
  for await (const [x, y] of pairs) assertEquals([await x.tolist(), await y.tolist()], [[[0.5, 1], [2, 3]], [0, 1]]);
  const own = new DataLoader(["a", "bcd"], { batchSize: 2, collate: (texts) => texts.map((t) => t.length) });
  for await (const lengths of own) assertEquals(lengths, [1, 3]);
  const stream = async function* () {
    for (const i of numbers(5)) yield i;
  };
  assertEquals(await epoch(new DataLoader<number>(stream(), { batchSize: 2 })), [[0, 1], [2, 3], [4]]);
  assertEquals([...new DataLoader<number>(new Set([1, 2, 3]), { batchSize: 2 })].map((t) => t.shape), [[2], [1]]);
});

Deno.test("data loader: slow items are loaded side by side, and ahead where wanted", async () => {
  let running = 0, most = 0;
  const slow = {
    length: 8,
    async get(i: number): Promise<number> {
      most = Math.max(most, ++running);
      await new Promise((resolve) => setTimeout(resolve, 2));
      running--;
      return i;
    },
  };
  assertEquals(await epoch(new DataLoader(slow, { batchSize: 2 })), [[0, 1], [2, 3], [4, 5], [6, 7]]);
  assertEquals(most, 2);
  await epoch(new DataLoader(slow, { batchSize: 2, prefetchFactor: 2 }));
  assertEquals(most, 6);
  const promised = { length: 1, get: () => Promise.resolve(1) };
  assertThrows(() => [...new DataLoader(promised)], ArgumentError, "write for await");
});

Deno.test("data loader: shuffles by its seed, or by Tensor.manualSeed, another way each epoch", async () => {
  const data = numbers(20),
    orders = async (seed?: number, manual?: number): Promise<number[][]> => {
      if (manual !== undefined) Tensor.manualSeed(manual);
      const loader = new DataLoader(data, { batchSize: 20, shuffle: true, seed });
      return [(await epoch(loader))[0], (await epoch(loader))[0]];
    };
  const [a, b] = await orders(1);
  assertEquals([a.toSorted((x, y) => x - y), b.toSorted((x, y) => x - y)], [data, data]);
  assert(String(a) !== String(b) && String(a) !== String(data));
  assertEquals(await orders(1), [a, b]);
  assert(String((await orders(2))[0]) !== String(a));
  assertEquals(await orders(undefined, 7), await orders(undefined, 7));
  assert(String(await orders(undefined, 7)) !== String(await orders()));
  Tensor.manualSeed(3);
  const before = Tensor.getRngState();
  await epoch(new DataLoader(data));
  assertEquals(Tensor.getRngState(), before, "an order that is none draws nothing");
});

Deno.test("data loader: samplers", async () => {
  const { RandomSampler, WeightedRandomSampler, SubsetRandomSampler, DistributedSampler, BatchSampler } = nn.data;
  const data = numbers(10),
    all = async (sampler: Iterable<number>) => (await epoch(new DataLoader(data, { batchSize: 10000, sampler })))[0];
  assertEquals(await all([3, 1, 3]), [3, 1, 3]);
  assertEquals((await all(new SubsetRandomSampler([2, 4, 6], { seed: 1 }))).toSorted(), [2, 4, 6]);
  assertEquals((await all(new RandomSampler(data, { numSamples: 25, seed: 1 }))).length, 25);
  const drawn = await all(new RandomSampler(data, { replacement: true, numSamples: 200, seed: 1 }));
  assertEquals(new Set(drawn).size, 10);
  const weights = [0, 1, 3, 0, 0, 0, 0, 0, 0, 0];
  const heavy = await all(new WeightedRandomSampler(weights, 4000, { seed: 4 }));
  const share = heavy.filter((i) => i === 2).length / 4000;
  assert(Math.abs(share - 0.75) < 0.03 && heavy.every((i) => i === 1 || i === 2), String(share));
  assertEquals((await all(new WeightedRandomSampler(weights, 2, { replacement: false, seed: 1 }))).toSorted(), [1, 2]);
  const shares = [0, 1, 2].map((rank) => new DistributedSampler(data, 3, rank, { seed: 5 }));
  const parts = await Promise.all(shares.map(all));
  assertEquals([parts.map((p) => p.length), new Set(parts.flat()).size], [[4, 4, 4], 10]);
  shares[0].setEpoch(1);
  assert(String(await all(shares[0])) !== String(parts[0]));
  assertEquals(await all(new DistributedSampler(data, 3, 2, { shuffle: false, dropLast: true })), [2, 5, 8]);
  const batchSampler = new BatchSampler(new nn.data.SequentialSampler(data), 4, { dropLast: true });
  assertEquals((await epoch(new DataLoader(data, { batchSampler }))).length, 2);
  assertEquals(await epoch(new DataLoader(data, { batchSampler: [[1], [5, 6]] })), [[1], [5, 6]]);
});

Deno.test("data loader: goes on in the middle of an epoch, by a state dictionary", async () => {
  for (const seed of [undefined, 9]) {
    Tensor.manualSeed(21);
    const make = () => new DataLoader(numbers(12), { batchSize: 2, shuffle: true, seed });
    const first = make(), seen: number[][] = [];
    let saved: Record<string, Tensor> = {}, rng = Tensor.getRngState();
    await epoch(first);
    for await (const x of first) {
      seen.push(await x.tolist<number[]>());
      if (seen.length !== 2) continue;
      saved = state.safeParse(await state.safeBytes(state.getStateDict({ loader: first })), { device: "JS" });
      rng = Tensor.getRngState();
    }
    const next = await epoch(first);
    const second = make();
    state.loadStateDict({ loader: second }, saved);
    Tensor.setRngState(rng);
    assertEquals(second.epoch, 1);
    assertEquals(await epoch(second), seen.slice(2), `seed ${seed}`);
    assertEquals(await epoch(second), next);
    assertEquals(second.epoch, 3);
  }
});

Deno.test("data loader: an iteration that was left is over; the next one is a new epoch", async () => {
  const loader = new DataLoader(numbers(6), { batchSize: 2, shuffle: true, seed: 1 });
  for await (const _ of loader) break;
  const all = (await epoch(loader)).flat();
  assertEquals([all.toSorted(), loader.epoch], [numbers(6), 2]);
});

Deno.test("data loader: workers load in order, and are put together there where the module says so", async () => {
  const { dataset } = await import("./fixtures/squares.ts");
  const options = { batchSize: 3, numWorkers: 2, workerModule: fixture("squares") };
  const loader = new DataLoader(dataset, options), names: string[] = [];
  for await (const { x, y, name } of loader) {
    assertEquals((await x.tolist<number[][]>()).map((r) => r[0]), await y.tolist());
    names.push(...name);
  }
  assertEquals(names, numbers(10).map((i) => `item ${i}`));
  for await (const { name } of loader) if (name[0] === "item 3") break; // threads end, as the test's sanitizer sees
  const sums: unknown[] = [];
  const own = new DataLoader<number, { sum: number }>([1, 2, 3, 4, 5], {
    batchSize: 2,
    numWorkers: 1,
    workerModule: fixture("collating"),
  });
  for await (const { sum } of own) sums.push(sum);
  assertEquals(sums, [3, 7, 5]);
});

Deno.test("data loader: workers that fail say which, and why", async () => {
  const load = async (sampler: number[], timeout = 0, module = fixture("failing")): Promise<number[]> => {
    const seen: number[] = [];
    const loader = new DataLoader<number>(numbers(6), { numWorkers: 1, workerModule: module, sampler, timeout });
    for await (const x of loader) seen.push(...await x.tolist<number[]>());
    return seen;
  };
  assertEquals(await load([0, 0]), [0, 0]);
  const error = await assertRejects(() => load([0, 1]), DataError);
  assertEquals(
    error.message,
    "Cannot load items 1 in worker 0: RangeError: item 1 is broken in worker 0",
  );
  assertMatch(String((error.cause as Error).stack), /failing\.ts/);
  await assertRejects(() => load([2]), DataError, "the worker has ended: it called close()");
  await assertRejects(() => load([3]), DataError, "late");
  await assertRejects(() => load([4], 50), DataError, "it did not answer within 50 ms");
  await assertRejects(() => load([5]), DataError, "could not be cloned");
  await assertRejects(() => load([0], 0, fixture("nowhere")), DataError, "nowhere.ts");
});

Deno.test("data loader: what it refuses", async () => {
  const data = numbers(4),
    refused = (text: string, ...args: unknown[]) =>
      assertThrows(() => Reflect.construct(DataLoader, args), ArgumentError, text);
  refused("a data set is a list, a tensor, or an object with a length and get(index), not 5", 5);
  refused("not an object of length undefined", { get: () => 1 });
  refused("batchSize must be an integer of at least 1, not 0", data, { batchSize: 0 });
  refused('unknown option "batch_size"', data, { batch_size: 2 });
  refused("sampler and shuffle exclude each other", data, { sampler: [0], shuffle: true });
  refused("batchSampler and batchSize exclude each other", data, { batchSampler: [[0]], batchSize: 2 });
  refused("workers need workerModule", data, { numWorkers: 2 });
  refused("without length and get(index) and shuffle", new Set(data), { shuffle: true });
  assertThrows(() => new DataLoader(new Set(data)).length, ArgumentError, "its data set has no length");
  await assertRejects(() => epoch(new DataLoader(data, { sampler: [7] })), DataError, "items 0 to 3");
  const ragged = new DataLoader([[1, 2], [3]] as unknown as Float32Array[], { batchSize: 2 });
  await assertRejects(() => epoch(ragged), DataError, "the length of its item 0 is 2, and of item 1 1");
  const mixed = [{ a: Float32Array.of(1) }, { a: Float32Array.of(1, 2) }];
  assertThrows(() => nn.data.collate(mixed), DataError, "items.a: the length of its item 0 is 1, and of item 1 2");
  assertThrows(() => new TensorDataset(Tensor.zeros([2]), Tensor.zeros([3])), RangeError, "first axes");
  const broken = {
    length: 2,
    get(): number {
      throw new TypeError("mine");
    },
  };
  await assertRejects(() => epoch(new DataLoader(broken)), TypeError, "mine");
});

Deno.test("data sets: parts, splits and sums of others", () => {
  const data = new TensorDataset(Tensor.arange(10), Tensor.arange(10).mul(2));
  const [train, test, rest] = nn.data.randomSplit(data, [6, 3, 1], { seed: 1 });
  assertEquals([train.length, test.length, rest.length], [6, 3, 1]);
  assertEquals([...train.indices, ...test.indices, ...rest.indices].toSorted((a, b) => a - b), numbers(10));
  assertEquals(nn.data.randomSplit(data, [6, 3, 1], { seed: 1 })[0].indices, train.indices);
  assertEquals(nn.data.randomSplit(numbers(10), [0.5, 0.25, 0.25]).map((s) => s.length), [6, 2, 2]);
  for (const [x, y] of new DataLoader(new nn.data.Subset(data, [1, 3]), { batchSize: 2 })) {
    assertEquals([x.tolistSync(), y.tolistSync()], [[1, 3], [2, 6]]);
  }
  const both = new nn.data.ConcatDataset([[1, 2], [3]]);
  assertEquals([...new DataLoader(both, { batchSize: 3 })].map((t) => t.tolistSync()), [[1, 2, 3]]);
  assertThrows(() => nn.data.randomSplit(data, [6, 3]), ArgumentError, "add up to 9, neither to 10");
  assertThrows(() => new nn.data.Subset(data, [10]), DataError, "items 0 to 9");
});

Deno.test("data: named errors for what is no list, contains itself, or is too much", async () => {
  const D = nn.data, cyclic: unknown[] = [], ring: Record<string, unknown> = {}, wrong = (x: unknown) => x as never;
  cyclic.push(cyclic);
  ring.a = ring;
  for (
    const [act, text] of [
      [() => new D.Subset([1], wrong(3)), "indices must be iterable, not 3"],
      [() => new D.SubsetRandomSampler([1, 0.5]), "an index must be an integer of at least 0, not 0.5"],
      [() => new D.WeightedRandomSampler(wrong(undefined)), "weights must be iterable, not undefined"],
      [() => new D.RandomSampler(wrong("five")), 'a data set or a number of items, not "five"'],
      [() => new D.RandomSampler(3).order(wrong(undefined)), "the seed must be an integer of at least 0"],
      [() => [...new D.RandomSampler(2 ** 33)], "a permutation has at most 2^31 - 1"],
      [() => new D.DistributedSampler(4, 2, 0, wrong({ dropLast: 1 })), "dropLast must be a boolean, not 1"],
      [() => new D.DataLoader([1], { workerModule: wrong(1) }), "workerModule must be a URL or text, not 1"],
      [() => D.collate(wrong(undefined)), "a list of items, not undefined"],
    ] as const
  ) assertThrows(act as () => unknown, ArgumentError, text);
  for (const items of [[cyclic, cyclic], [ring, ring]]) {
    assertThrows(() => D.collate(wrong(items)), DataError, "itself");
  }
  assertThrows(() => new TensorDataset(Tensor.arange(3)).batch(wrong(1)), DataError, "a list of their indices, not 1");
  const typed = new DataLoader([1.5, 2.5], { batchSampler: wrong([Int32Array.of(1, 0)]) });
  assertEquals(await epoch(typed), [[2.5, 1.5]]);
  const [first] = new D.SequentialSampler(2 ** 40);
  assertEquals(first, 0, "its indices come one by one");
});
