/**
 * Higher functions all over the range of their dtype: where a part of a series is too large or too small a number, the sum
 * may still be one. Wanted values were computed with 60 digits by other formulas (mpmath); then float32 is compared with
 * float64 at all magnitudes.
 */
import assert from "node:assert/strict";
import { Device, Tensor } from "../../../mod.ts";
import { devicesHere } from "../../fixtures/devices.ts";

/** Orders, arguments, and Hurwitz's zeta function of them. */
const ZETA: readonly (readonly [s: number, q: number, want: number])[] = [
  [1.0000001192092896, 3.0000000054977558e+38, 8388519.403622035],
  [1.0009765625, 9.999999933815813e+36, 942.2521653195807],
  [1.015625, 1, 64.57835222828153],
  [1.015625, 3.0000000054977558e+38, 16.031529346714013],
  [1.5, 1.0000000150474662e+30, 1.999999984952534e-15],
  [1.5, 3.0000000054977558e+38, 1.1547005373212078e-19],
  [2, 1.0000000200408773e+20, 9.99999979959123e-21],
  [2, 1.0000000150474662e+30, 9.99999984952534e-31],
  [2.5, 999999995904, 6.666666707631667e-19],
  [7.25, 1000, 2.854149196870242e-20],
  [40, 0.75, 99437.33224819363],
  [1e6, 1, 1],
];
/** Orders, arguments, and polygamma functions of them. */
const POLYGAMMA: readonly (readonly [n: number, x: number, want: number])[] = [
  [1, 999999986991104, 1.0000000130088966e-15],
  [5, 1e6, 2.400006000006e-29],
  [30, 24, -6.090237491327586e-11],
  [30, 100, -1.0236429687189539e-29],
  [34, 17, -2.9433086440900334e-5],
  [40, 2.5, -3.945528236109492e+31],
  [40, 7, -18384697575431.664],
  [40, 40, -2.6723971492473376e-18],
  [80, 3, -1.6140095133979885e+80],
  [80, 40, -1.4175843384670927e-11],
  [170, 20, -2.4252478874086773e+84],
  [170, 60, -666.0567445274287],
  [170, 1000, -4.642275481885541e-206],
  [30, -0.5, -9.2221270661620558e+26],
  [40, -5.5, -383206179189698.23],
  [40, -0.5, -4.9193015712427579e+40],
  [25, -7.25, 6.9856279771238406e+40],
  [30, -3.125, 2.6269370855717061e+60],
  [31, 0.25, 1.5168460021302642e+53],
];
/** Arguments, and Airy's function of them. */
const AIRY: readonly (readonly [x: number, want: number])[] = [
  [-1000, 0.055971895773019919],
  [-200, 0.14889394248381025],
  [-120, -0.10139729484759988],
  [-100, 0.17675339323955288],
  [-10.033699989318848, 0.0065021899959977555],
  [-9, -0.022133721547341404],
  [-5.099999904632568, 0.30952604345470673],
  [-4.900000095367432, 0.37453634069087805],
  [-4.7129998207092285, 0.37001592539092637],
  [-3.700000047683716, -0.28201303405530333],
  [-2.3399999141693115, -0.001327042230290418],
  [-0.30000001192092896, 0.43090309815310222],
  [0.75, 0.17933630547864523],
  [1.9900000095367432, 0.035458538057663747],
  [2.5, 0.01572592338047049],
  [5, 0.00010834442813607442],
  [8, 4.6922076160992316e-8],
];

type Float = "float32" | "float64";
const EPSILON: Readonly<Record<Float, number>> = { float32: 2 ** -23, float64: 2 ** -52 };
/** The least number whose digits are all there, on devices that take smaller ones for 0 as well. */
const LEAST: Readonly<Record<Float, number>> = { float32: 2 ** -126, float64: 2 ** -1022 };

/** What is further off than so many units in the last place, relative to `size` where that is more than what is wanted. */
function wrong(got: number[], want: number[], dtype: Float, most: number[] | number, size = 0): string[] {
  return want.flatMap((number, i) => {
    const w = dtype === "float32" && Number.isFinite(number) && Math.abs(number) > 3.4028235e38
      ? Math.sign(number) * Infinity
      : number;
    if (Object.is(got[i], w) || got[i] === w) return [];
    const units = Math.abs(got[i] - w) / Math.max(Math.abs(w), LEAST[dtype], size) / EPSILON[dtype];
    return units <= (typeof most === "number" ? most : most[i]) ? [] : [`${i}: ${got[i]}, want ${w}`];
  });
}

for (const name of await devicesHere()) {
  for (const dtype of ["float32", "float64"] as const) {
    if (!(await Device.open(name)).renderer.caps.computeDTypes.some((d) => d.name === dtype)) continue;
    Deno.test(`range: zeta, polygamma and Airy's function in ${dtype} on ${name}`, async () => {
      const of = (values: readonly number[]): Tensor => new Tensor(values, { dtype, device: name });
      const zeta = of(ZETA.map(([s]) => s)).zeta(of(ZETA.map(([, q]) => q)));
      assert.deepEqual(wrong(await zeta.tolist() as number[], ZETA.map(([, , w]) => w), dtype, 8), []);
      const poly = await Promise.all(POLYGAMMA.map(([n, x]) => of([x]).polygamma(n).item()));
      // x + k is rounded before it is raised to the power n + 1
      const most = POLYGAMMA.map(([n]) => 16 + n / 2);
      assert.deepEqual(wrong(poly as number[], POLYGAMMA.map(([, , w]) => w), dtype, most), []);
      const airy = of(AIRY.map(([x]) => x)).airyAi();
      assert.deepEqual(wrong(await airy.tolist() as number[], AIRY.map(([, w]) => w), dtype, 8, 0.1), []);
    });
  }
}

/** Functions of one number that are of one sign, or that go through 0 where `size` tells how large they are around that. */
const UNARY: Readonly<Record<string, number>> = {
  besselJ0: 1,
  besselJ1: 1,
  sphericalBesselJ0: 1,
  modifiedBesselK0: 0,
  modifiedBesselK1: 0,
  scaledModifiedBesselK0: 0,
  scaledModifiedBesselK1: 0,
  i0e: 0,
  i1e: 0,
  lgamma: 1,
  digamma: 1,
  erfcx: 0,
  airyAi: 1,
};

Deno.test("range: float32 is near float64 at all magnitudes, below 0 too", async () => {
  const points = Array.from({ length: 250 }, (_, i) => Math.fround(2 ** (i - 125) * (1 + (i * 7 % 16) / 16)));
  const wanted = [...points, ...points.map((x) => -x), NaN, Infinity].filter((x) => !(x < 0 && x % 1 === 0));
  const [narrow, wide] = (["float32", "float64"] as const).map((dtype) => new Tensor(wanted, { dtype, device: "JS" }));
  const found: string[] = [];
  for (const [name, size] of Object.entries(UNARY) as ["lgamma", number][]) {
    const got = await narrow[name]().tolist() as number[], want = await wide[name]().tolist() as number[];
    found.push(
      ...wrong(got, want, "float32", 128, size).map((text) => `${name} of ${wanted[parseInt(text)]}: ${text}`),
    );
  }
  assert.deepEqual(found, []);
});
