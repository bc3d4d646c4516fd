/** Gradients under jit: what a replay does not do anew. @module */
import assert from "node:assert/strict";
import { context, jit, nn, Tensor } from "../../../mod.ts";

Deno.test("jit: replays of a training step do not walk the graphs of the gradients that it leaves", () => {
  context({ DEV: "NULL" }, () => {
    const weights = Array.from({ length: 60 }, () => Tensor.full([4, 4], 0.25, { requiresGrad: true }).realize());
    const opt = new nn.optim.SGD(weights, { lr: 0.01 }), x = Tensor.ones([2, 4]).realize();
    const step = jit((x: Tensor) =>
      Tensor.train(() => {
        opt.zeroGrad();
        const loss = weights.reduce((y, w) => y.matmul(w).tanh(), x).sum().backward();
        opt.step();
        return loss;
      })
    );
    const timeOf = (count: number): number => {
      const start = performance.now();
      for (let i = 0; i < count; i++) step(x).dispose();
      return (performance.now() - start) / count;
    };
    step(x).dispose();
    const captured = timeOf(1), replayed = Math.min(...Array.from({ length: 10 }, () => timeOf(3)));
    assert.equal(step.stats.replays, 30);
    assert.ok(replayed < captured / 40, `a replay takes ${replayed} ms, the call that was captured ${captured} ms`);
  });
});
