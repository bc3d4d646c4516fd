/** Powers of e whose exponents are made in all ways, in float32: within a unit of float64's power of the same exponent. */
import assert from "node:assert/strict";
import { Tensor } from "../../../mod.ts";
import { devicesHere } from "../../fixtures/devices.ts";

const f = Math.fround;
/** Units that a result may be off: WGSL allows several, PTX's ex2.approx two; without opts WASM adds what it multiplied in two roundings. */
const UNITS: Readonly<Record<string, number>> = { WEBGPU: 8, CUDA: 2, WASM: Deno.env.get("NOOPT") === "1" ? 2 : 1 };
/** How an exponent is made of x, on tensors and on numbers, with the rounding of each step. */
const EXPONENTS: Readonly<Record<string, readonly [(x: Tensor) => Tensor, (x: number) => number]>> = {
  "x": [(x) => x, (x) => x],
  "-x": [(x) => x.neg(), (x) => -x],
  "0 - x": [(x) => x.mul(0).sub(x), (x) => -x],
  "x * -1": [(x) => x.mul(-1), (x) => -x],
  "x / -1": [(x) => x.div(-1), (x) => -x],
  "-(-x)": [(x) => x.neg().neg(), (x) => x],
  "x / 2": [(x) => x.div(2), (x) => x / 2],
  "x * -0.5": [(x) => x.mul(-0.5), (x) => x * -0.5],
  "x * 0.3": [(x) => x.mul(0.3), (x) => f(x * f(0.3))],
  "1 - x": [(x) => x.neg().add(1), (x) => f(1 - x)],
  "-(x * x) / 64": [(x) => x.mul(x).neg().div(64), (x) => -f(x * x) / 64],
  "-|x|": [(x) => x.abs().neg(), (x) => -Math.abs(x)],
  "min(-x, 3)": [(x) => x.neg().minimum(3), (x) => Math.min(-x, 3)],
};

for (const device of await devicesHere()) {
  Deno.test(`powers of e with exponents made in many ways are near on ${device}`, async () => {
    const n = 2001, xs = Float32Array.from({ length: n }, (_, i) => (i - 1000) * 0.0797);
    const x = new Tensor(xs, { device }).realize();
    for (const [name, [make, of]] of Object.entries(EXPONENTS)) {
      const got = await make(x).exp().data() as Float32Array;
      xs.forEach((v, i) => {
        const want = Math.exp(of(v)), unit = 2 ** (Math.floor(Math.log2(want)) - 23);
        if (want < 1.2e-38 || want > 3.4e38) return; // subnormal numbers may be 0
        const off = Math.abs(got[i] - want) / unit;
        assert.ok(off <= (UNITS[device] ?? 1), `e^(${name}) at ${v}: ${got[i]}, ${off.toFixed(1)} units off`);
      });
    }
  });
}
