/** Which lines of the program each step computes. */
import { assertEquals } from "@std/assert";
import type { BoundSchedule } from "../../../src/schedule/schedule.ts";
import { stepLines } from "../../../src/schedule/order/step_lines.ts";
import { context, Device, jit, record, Tensor } from "../../../mod.ts";

Device.get(); // devices open outside of tests

/** The lines of the steps of a schedule, counted from the first of them all. */
function linesOf(fn: () => Tensor): number[][] {
  const { events } = context({ SCACHE: 0 }, () => record(() => fn().realize()));
  const { order, variant } = events.find((e) => e.kind === "schedule")!.subject as BoundSchedule;
  const lines = stepLines(order, variant).map((step) => step.map((line) => Number(String(line).split(":")[1])));
  const first = Math.min(...lines.flat());
  return lines.map((step) => step.map((line) => line - first));
}

Deno.test("step lines: a kernel has all lines between what it makes and what it reads", () => {
  const lines = linesOf(() => {
    const x = Tensor.empty([6, 4], { device: "NULL" });
    const y = x.add(1.5)
      .exp()
      .sum(1);
    const z = y.contiguous();
    return z.mul(2)
      .sqrt();
  });
  assertEquals(lines.filter((step) => step.length > 1), [[0, 1, 2, 3, 4], [5, 6]]);
});

Deno.test("step lines: memory has the line that makes it, a result of a replay that of the call", () => {
  const step = jit((t: Tensor) => t.mul(2)), x = Tensor.ones([6, 4], { device: "NULL" }).realize();
  for (let i = 0; i < 3; i++) step(x).dispose();
  const lines = linesOf(() => {
    const y = step(x);
    const z = Tensor.empty([6, 4], { device: "NULL" });
    const one = new Tensor([[1, 2, 3, 4]], { device: "NULL" });

    return y.add(z)
      .mul(one);
  });
  assertEquals([step.stats.replays, lines.at(-1)!.toSorted()], [2, [0, 1, 2, 4, 5]]);
});
