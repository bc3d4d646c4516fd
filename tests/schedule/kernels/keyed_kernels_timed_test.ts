/** Reductions by key are looked for in graphs of any size: how long that takes. */
import { assert, assertEquals } from "@std/assert";
import { Tensor } from "../../../mod.ts";
import { planKeyed } from "../../../src/schedule/kernels/keyed_kernels.ts";
import { LOOPS_CAPS } from "../../fixtures/sim.ts";

/** Milliseconds to look through `n` sums of values that each are made of the one before, below a comparison of positions. */
function lookMs(n: number): number {
  const keys = Tensor.empty([1 << 14], { dtype: "int32", device: "NULL" }),
    y = Tensor.empty([1 << 14], { device: "NULL" });
  let x = Tensor.arange(1 << 14).eq(keys).where(y, 0);
  const sums = Array.from({ length: n }, () => (x = x.mul(y)).sum().uop);
  const start = performance.now();
  assertEquals(planKeyed(sums, () => LOOPS_CAPS).kept, []);
  return performance.now() - start;
}

Deno.test("reductions by key: four times the sums along a chain are looked at in about four times the time", () => {
  lookMs(1000);
  let one = Infinity, four = Infinity;
  for (let k = 0; k < 3; k++) { // in turn, so that what else runs meanwhile slows both
    one = Math.min(one, lookMs(2500));
    four = Math.min(four, lookMs(10000));
  }
  assert(four <= 8 * one, `${one.toFixed(1)} ms for 2500, ${four.toFixed(1)} ms for 10000`); // quadratic would be 16
});
