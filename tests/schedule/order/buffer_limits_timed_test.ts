/** Long chains of writes: how long they take to schedule. */
import { assert } from "@std/assert";
import { context, Tensor } from "../../../mod.ts";
import { scheduleNodes } from "../../../src/schedule/schedule.ts";

/** Milliseconds to schedule and lower `n` writes, one element each. */
function writesMs(n: number): number {
  const t = Tensor.empty([n], { device: "NULL" }).realize();
  const start = performance.now();
  for (let i = 0; i < n; i++) t.setAt([i], i % 97);
  const { variant: { items } } = context({ SCACHE: 0, SPEC: 0 }, () => scheduleNodes([t.uop]));
  const ms = performance.now() - start;
  // one kernel, or a few where one body would be too large
  assert(items.length <= Math.ceil(n / 1000), `${items.length} kernels for ${n} writes`);
  return ms;
}

Deno.test("limits: four times the writes to one tensor take about four times the time", () => {
  writesMs(1000);
  let one = Infinity, four = Infinity;
  for (let k = 0; k < 5; k++) { // in turn, so that what else runs meanwhile slows both
    one = Math.min(one, writesMs(1000));
    four = Math.min(four, writesMs(4000));
  }
  assert(four <= 8 * one, `${one.toFixed(1)} ms for 1000, ${four.toFixed(1)} ms for 4000`); // quadratic would be 16
});
