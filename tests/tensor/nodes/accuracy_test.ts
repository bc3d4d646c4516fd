/** Units in the last place of functions that devices compute by polynomials, against JavaScript's double precision. */
import { assertEquals } from "@std/assert";
import { Device, Tensor } from "../../../mod.ts";
import { devicesHere } from "../../fixtures/devices.ts";

// Mesa's software adapter regroups sums of products, as WGSL allows: k * a + (k * b + c) becomes k * (a + b) + c
const devices = (await devicesHere()).filter((name) => Device.get(name).info().software !== true);

/** Distance of `got` from the exact `want`, in spacings of float32 around it. */
function ulps(got: number, want: number): number {
  const exponent = Math.max(Math.floor(Math.log2(Math.abs(want))), -126);
  return Math.abs(got - want) / 2 ** (exponent - 23);
}

const spread = (low: number, high: number, n: number) =>
  Float32Array.from({ length: n }, (_, i) => low + (high - low) * i / (n - 1));

/** x (1 + erf(x / sqrt 2)) / 2 far below 0, by the continued fraction of erfc. */
function geluTail(x: number): number {
  let fraction = x;
  for (let k = 100; k >= 1; k--) fraction = x + k / fraction;
  return -x / fraction * Math.exp(-x * x / 2) / Math.sqrt(2 * Math.PI);
}

const CASES: [name: string, xs: Float32Array, f: (t: Tensor) => Tensor, want: (x: number) => number, limit: number][] =
  [
    ["exp", spread(-87, 88, 4001), (t) => t.exp(), Math.exp, 2],
    ["exp2", spread(-126, 127, 4001), (t) => t.exp2(), (x) => 2 ** x, 2],
    ["log", spread(1e-3, 50, 4001), (t) => t.log(), Math.log, 3],
    ["sin", spread(-20, 20, 4001), (t) => t.sin(), Math.sin, 3],
    // computed as a power of two: exponents of up to 122 have 17 bits behind the point
    ["gelu exp tail", spread(-13, -2.5, 2001), (t) => t.gelu(), geluTail, 160],
  ];
for (const device of devices) {
  for (const [name, all, f, want, limit] of CASES) {
    // the host computes e^x as 2^(x log2 e) with the product rounded: good for small x, which is all that it is for
    const xs = device === "JS" && name === "exp" ? all.filter((x) => Math.abs(x) < 1) : all;
    Deno.test(`accuracy ${device}: ${name} within ${limit} ulp`, async () => {
      const got = await f(new Tensor(xs, { device })).data() as Float32Array;
      let worst = 0;
      // near a zero of the function one rounding of the argument is many units of the result
      xs.forEach((x, i) =>
        Math.abs(want(x)) > 1e-2 || name.includes("exp") ? worst = Math.max(worst, ulps(got[i], want(x))) : 0
      );
      assertEquals(worst <= limit, true, `worst ${worst.toFixed(2)} ulp`);
    });
  }
  Deno.test(`accuracy ${device}: exp of what is no number, infinite or out of range`, async () => {
    const x = new Tensor([NaN, Infinity, -Infinity, 89, 200, -104, -200, 0, -0], { dtype: "float32", device });
    assertEquals(await x.exp().tolist(), [NaN, Infinity, 0, Infinity, Infinity, 0, 0, 1, 1]);
  });
  Deno.test(`accuracy ${device}: one random number`, async () => {
    Tensor.manualSeed(0);
    const [x] = await Tensor.rand([1], { device }).tolist() as number[];
    assertEquals(x >= 0 && x < 1, true);
  });
}
