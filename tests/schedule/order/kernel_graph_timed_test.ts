/** Long chains of steps that share their weights: how long they take to schedule. */
import { assert } from "@std/assert";
import { context, Device, nn, state, Tensor } from "../../../mod.ts";
import { scheduleNodes } from "../../../src/schedule/schedule.ts";

Device.get(Device.default); // its library is opened outside of the tests

/** Milliseconds to schedule the gradients of a gated recurrent unit over `n` steps. */
function recurrentMs(n: number): number {
  const gru = new nn.GRU(4, 8, { batchFirst: true }), weights = state.getParameters(gru);
  for (const t of weights) t.replace(Tensor.empty(t.shape, { device: "NULL" }).realize());
  const [output] = gru.call(Tensor.empty([2, n, 4], { device: "NULL" }).realize());
  const gradients = output.square().sum().gradient(weights);
  const start = performance.now();
  const { variant: { items } } = context({ SCACHE: 0, SPEC: 0 }, () => scheduleNodes(gradients.map((g) => g.uop)));
  const ms = performance.now() - start;
  assert(items.length >= n, `${items.length} kernels for ${n} steps`);
  return ms;
}

Deno.test("kernel graph: four times the steps of a recurrent network take about four times the time", () => {
  recurrentMs(50);
  let one = Infinity, four = Infinity;
  for (let k = 0; k < 3; k++) {
    one = Math.min(one, recurrentMs(50));
    four = Math.min(four, recurrentMs(200));
  }
  assert(four <= 8 * one, `${one.toFixed(1)} ms for 50, ${four.toFixed(1)} ms for 200`); // quadratic would be 16
});
