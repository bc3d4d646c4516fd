/** The cache by structure: equal structures are one entry, and the entry not used for longest goes first. */
import { assertEquals } from "@std/assert";
import { Device, Tensor } from "../../../mod.ts";
import { StructureCache } from "../../../src/schedule/cache/structure_cache.ts";
import { type GraphKey, graphKey } from "../../../src/schedule/cache/graph_key.ts";

Device.default = "JS";
const keyOf = (n: number): GraphKey => graphKey([new Tensor([1, 2, 3, 4]).realize().pad([[0, n]]).uop]);

Deno.test("cache: equal structures on other buffers are one entry", () => {
  const cache = new StructureCache<string>(4);
  cache.add(keyOf(1), "one");
  assertEquals([cache.get(keyOf(1)), cache.get(keyOf(2)), cache.size], ["one", undefined, 1]);
});

Deno.test("cache: beyond its limit the entry not used for longest goes", () => {
  const cache = new StructureCache<number>(3);
  for (const n of [1, 2, 3]) cache.add(keyOf(n), n);
  cache.get(keyOf(1));
  cache.add(keyOf(4), 4);
  assertEquals([1, 2, 3, 4].map((n) => cache.get(keyOf(n))), [1, undefined, 3, 4]);
  assertEquals(cache.size, 3);
  cache.clear();
  assertEquals([cache.size, cache.get(keyOf(1))], [0, undefined]);
});

Deno.test("cache: structures of one hash are told apart, and go together", () => {
  const cache = new StructureCache<number>(2), same = (n: number): GraphKey => ({ ...keyOf(n), hash: 7 });
  cache.add(same(1), 1);
  cache.add(same(2), 2);
  cache.add(same(3), 3);
  assertEquals([cache.get(same(1)), cache.get(same(2)), cache.get(same(3))], [1, 2, 3]);
  cache.add(keyOf(4), 4);
  assertEquals([cache.size, cache.get(same(1)), cache.get(keyOf(4))], [1, undefined, 4]);
});
