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
  Deno.test(`accuracy ${device}: powers within 1 ulp, and exact where they are floats`, async () => {
    let state = 7;
    const random = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
    const draws: Record<string, () => [base: number, exponent: number]> = {
      "near 1": () => [1 + (random() - 0.5) / 2, (random() - 0.5) * 600],
      "at 1": () => [1 + (random() - 0.5) * 2 ** (-23 * random()), (random() - 0.5) * 2 ** (30 * random())],
      wide: () => [2 ** ((random() - 0.5) * 250), (random() - 0.5) * 4],
      "small and large": () => [random() * 20, (random() - 0.5) * 40],
      whole: () => [Math.floor(random() * 40) - 20, Math.floor(random() * 24) - 4],
    };
    const pairs = Object.values(draws).flatMap((draw) => Array.from({ length: 1000 }, draw));
    const xs = Float32Array.from(pairs.map(([x]) => x)), ys = Float32Array.from(pairs.map(([, y]) => y));
    const powers = await new Tensor(xs, { device }).pow(new Tensor(ys, { device })).data() as Float32Array;
    const found: [x: number, y: number, got: number][] = Array.from(powers, (got, i) => [xs[i], ys[i], got]);
    for (const n of [4, 63, 65, -3, 1.5]) {
      const bases = Float32Array.from({ length: 200 }, () => 2 ** ((random() - 0.5) * 120 / Math.abs(n)));
      const got = await new Tensor(bases, { device }).pow(n).data() as Float32Array;
      bases.forEach((x, i) => found.push([x, n, got[i]]));
    }
    for (const [x, y, got] of found) {
      const want = Math.pow(x, y), size = Math.abs(want), exact = Math.fround(want) === want;
      const fits = !Number.isFinite(Math.fround(want)) || (exact && size >= 2 ** -126)
        ? Object.is(got, Math.fround(want))
        : size < 2 ** -126
        ? Math.abs(got - want) < 2 ** -126 // devices may flush these
        : ulps(got, want) <= 1;
      assertEquals(fits, true, `${x} to the power ${y} is ${got}, want ${want}`);
    }
  });
  Deno.test(`accuracy ${device}: powers at the edges are those of IEEE 754`, async () => {
    const list = [0, -0, 1, -1, 2, -2, 0.5, 3, -3, 2.5, -2.5, 1e30, 2 ** 24, Infinity, -Infinity, NaN];
    const pairs = list.flatMap((x) => list.map((y) => [x, y]));
    const [base, exponent] = [0, 1].map((k) => new Tensor(Float32Array.from(pairs.map((p) => p[k])), { device }));
    const got = await base.pow(exponent).data() as Float32Array;
    pairs.forEach(([x, y], i) => {
      // JavaScript has NaN here
      const want = x === 1 || (x === -1 && Math.abs(y) === Infinity) ? 1 : Math.fround(Math.pow(Math.fround(x), y));
      const rounded = Math.abs(got[i] - want) <= Math.abs(want) * 2 ** -23;
      assertEquals(Object.is(got[i], want) || (rounded && want !== 0), true, `${x} to the power ${y} is ${got[i]}`);
    });
  });
  Deno.test(`accuracy ${device}: one random number`, async () => {
    Tensor.manualSeed(0);
    const [x] = await Tensor.rand([1], { device }).tolist() as number[];
    assertEquals(x >= 0 && x < 1, true);
  });
}
