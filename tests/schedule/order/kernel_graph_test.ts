/** Versions of entries as numbers: any number of writes stays with its entry. */
import { assertEquals } from "@std/assert";
import { entryOfKey, versionKey } from "../../../src/schedule/order/kernel_graph.ts";

for (const [entry, version] of [[0, 0], [1, 4095], [1, 4096], [3, 100_000], [5000, 1 << 20]]) {
  Deno.test(`kernel graph: version ${version} of entry ${entry}`, () => {
    assertEquals(entryOfKey(versionKey(entry, version)), entry);
    assertEquals(versionKey(entry, version) + 1, versionKey(entry, version + 1));
  });
}
