/** Kernels that differ in where they begin share one. */
import { assert, assertEquals } from "@std/assert";
import { context, Device, GlobalCounters, jit, nn, Tensor } from "../../../mod.ts";
import { compileStats } from "../../../src/engine/compile_cache.ts";
import { registerSim } from "../../fixtures/sim.ts";

registerSim();
Device.get();
const devices = ["JS", "WASM", "SIM"];
for (const name of devices) Device.get(name);

/** `steps` steps of a recurrence over rows of `x`, all realized; what JavaScript makes of it. */
function recurrence(x: Tensor, steps: number): { outputs: Tensor[]; want: (values: number[][]) => number[][] } {
  const outputs: Tensor[] = [];
  const width = x.shape[1], { device } = x;
  const half = Tensor.eye(width, undefined, { device }).mul(0.5).contiguous().realize();
  let h = x.at([0, 1]);
  for (let t = 0; t < steps; t++) {
    h = h.matmul(half).add(x.at(t)).add(x.at(steps - t));
    outputs.push(h);
  }
  return {
    outputs,
    want: (values) => {
      let h = values[0];
      return Array.from(
        { length: steps },
        (_, t) => h = h.map((v, i) => v * 0.5 + values[t][i] + values[steps - t][i]),
      );
    },
  };
}

for (const device of devices) {
  Deno.test(`alike ${device}: steps of a recurrence are one kernel, and each reads its own rows`, async () => {
    const values = Array.from({ length: 41 }, (_, r) => Array.from({ length: 6 }, (_, c) => (r * 7 + c * 3) % 11 - 5));
    const x = new Tensor(values, { device, dtype: "float32" }).realize(), { outputs, want } = recurrence(x, 40);
    const before = compileStats.lowered, ran = GlobalCounters.kernelCount;
    Tensor.realize(outputs);
    assert(GlobalCounters.kernelCount - ran >= 40);
    assert(compileStats.lowered - before <= 6, `${compileStats.lowered - before} kernels for 40 steps`);
    const got = await Promise.all(outputs.map((t) => t.tolist()));
    want(values).forEach((row, t) => row.forEach((v, c) => assert(Math.abs((got[t] as number[][])[0][c] - v) < 1e-4)));
  });

  Deno.test(`alike ${device}: those that read under a condition`, async () => {
    const values = Array.from({ length: 64 }, (_, i) => i % 7), before = compileStats.lowered;
    const x = new Tensor(values, { device, dtype: "float32" }).realize(), steps: Tensor[] = [];
    let h = Tensor.zeros([7], { device }).contiguous().realize(), sum = 0;
    for (let i = 0; i < 16; i++) {
      const part = x.at([4 * i, 4 * i + 4]).pad([[1, 2]]).add(x.at([3 * i, 3 * i + 7]));
      steps.push(h = h.sum().mod(8).add(part).contiguous());
    }
    Tensor.realize(steps);
    assert(compileStats.lowered - before <= 6, `${compileStats.lowered - before} kernels for 16 steps`);
    for (const [i, t] of steps.entries()) {
      const part = [0, ...values.slice(4 * i, 4 * i + 4), 0, 0].map((v, k) => sum % 8 + v + values[3 * i + k]);
      assertEquals(await t.tolist(), part);
      sum = part.reduce((a, b) => a + b);
    }
  });

  Deno.test(`alike ${device}: under jit, too, and where they write`, async () => {
    const parts = jit((x: Tensor) => {
      const out = Array.from({ length: 8 }, (_, i) => x.at([i * 3, i * 3 + 3]).add(i).sum().reshape([1]).contiguous());
      return [Tensor.cat(out), ...out];
    });
    for (let k = 0; k < 4; k++) {
      const values = Array.from({ length: 24 }, (_, i) => i * k), x = new Tensor(values, { device, dtype: "float32" });
      const want = Array.from({ length: 8 }, (_, i) => k * (9 * i + 3) + 3 * i);
      assertEquals(await parts(x.realize())[0].tolist(), want);
    }
  });
}

Deno.test("alike: a GRU of many steps has as many kernels as one of few", () => {
  const counts = context({ DEV: "JS" }, () =>
    [12, 40].map((length) => {
      const gru = new nn.GRU(4, 8), x = Tensor.rand([length, 2, 4]).realize(), start = compileStats.lowered;
      const [output] = gru.call(x);
      Tensor.realize([output, ...output.square().sum().gradient([gru.weightsOf(0).weightHh])]);
      return compileStats.lowered - start;
    }));
  assert(counts[1] <= counts[0] + 6, `${counts} kernels for 12 and 40 steps`);
});
