/** A short run of random opts over random kernels (opts.ts, which runs more of them). */
import { assert, assertEquals } from "@std/assert";
import { clangBackend } from "../../backends/clang/clang.ts";
import { runCases, runInProcesses, runOnUnits } from "./opts.ts";

for (const [place, count] of [["JS", 60], ["GRID", 20]] as const) {
  Deno.test(`opts: random ones on ${place} compute the same, within their buffers`, () => {
    const { possible, failures } = runCases(place, { seed: 20261122, first: 0, count });
    assertEquals(failures, []);
    assert(2 * possible >= count, `${possible} of ${count} were possible`);
  });
}

Deno.test("opts: matrix units compute products and chains over axes that end at variables", () => {
  const { possible, failures } = runOnUnits({ seed: 20261129, first: 0, count: 24 });
  assertEquals(failures, []);
  assert(possible >= 8, `units did ${possible}`);
});

Deno.test({
  name: "opts: random ones on CLANG compute the same, within guarded buffers",
  ignore: clangBackend.unavailable() !== undefined,
  fn: () => {
    const { possible, failures } = runInProcesses({ seed: 20261122, first: 0, count: 48 });
    assertEquals(failures, []);
    assert(possible >= 24, `${possible} were possible`);
  },
});
