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

/** Arguments; the share of the normal distribution below them, its logarithm, and the error function's complement. */
const NORMAL: readonly (readonly [x: number, share: number, log: number, erfc: number])[] = [
  [-12.300000190734863, 4.5286962623219455e-35, -79.08004415753119, 2.0],
  [-9.699999809265137, 1.5074959869118093e-22, -50.246422058335063, 2.0],
  [-8.899999618530273, 2.7923439719933651e-19, -42.722235390437108, 2.0],
  [-7.300000190734863, 1.4388365984713014e-13, -29.569771339604366, 2.0],
  [-6.855716705322266, 3.5477934394165457e-12, -26.364695272055215, 2.0],
  [-6.099999904632568, 5.303426427130738e-10, -21.357497822585646, 2.0],
  [-4.599999904632568, 2.112455669610078e-6, -13.067659462735229, 1.9999999999225039],
  [-2.9000000953674316, 0.0018658127327063878, -6.2840585391995839, 1.9999589021458579],
  [-1.5, 0.066807201268858066, -2.7059444008238898, 1.9661051464753107],
  [-1.2999999523162842, 0.09680049275710183, -2.3351031942466341, 1.9340079350125213],
  [0.30000001192092896, 0.61791142673544968, -0.48141015423063529, 0.67137322824728458],
  [1.2999999523162842, 0.90319950724289817, -0.10181181171492687, 0.065992064987478653],
  [2.200000047683716, 0.9860965541780617, -0.014001004043974152, 0.0018628458725404295],
  [4.599999904632568, 0.99999788754433039, -2.1124579008476983e-6, 7.7496065506318733e-11],
  [6.099999904632568, 0.99999999946965736, -5.3034264285370546e-10, 6.3146095933600706e-18],
  [6.900000095367432, 0.99999999999739987, -2.6001252201013016e-12, 1.7036019278281548e-22],
  [8.899999618530273, 1.0, -2.7923439719933651e-19, 2.5053746159423379e-36],
];
/** As those, of arguments that are no float32. */
const NORMAL_WIDE: typeof NORMAL = [
  [-37.123456789, 5.8782802347808477e-302, -693.60943384214911, 2.0],
  [-24.7182818, 3.4012679541298123e-135, -309.62483926440906, 2.0],
  [-11.4293754, 1.4912318012344444e-30, -68.67795029916446, 2.0],
  [-8.31415926, 4.620249620972137e-17, -37.613497846751275, 2.0],
  [-6.02214076, 8.6062549185760302e-10, -20.87336167493369, 2.0],
  [5.43656, 0.99999997284047336, -2.7159527007495838e-8, 1.4892018495298915e-14],
  [7.38905609, 0.99999999999992606, -7.3937392015664833e-14, 1.4698427573729874e-25],
  [8.1, 0.99999999999999973, -2.7479593923982289e-16, 2.216308572065754e-30],
  [13.3, 1.0, -1.1573416283690326e-40, 6.3680064047232235e-79],
  [25.1, 1.0, -2.4866601882523464e-139, 5.5149401896856388e-276],
];

/** erfc(x) e^(x^2) below 0. */
const ERFCX: readonly (readonly [x: number, value: number])[] = [
  [-9.300000190734863, 7.2972844620529497895e+37],
  [-7.769999980926514, 3.3162494688792851383e+26],
  [-5.945000171661377, 4470042099005046.0352],
  [-3.0999999046325684, 29826.148820476084542],
  [-1.25, 9.1736434474828444344],
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
    Deno.test(`range: the normal distribution and its logarithm in ${dtype} on ${name}`, async () => {
      const rows = dtype === "float64" ? [...NORMAL, ...NORMAL_WIDE] : NORMAL, least = LEAST[dtype];
      const x = new Tensor(rows.map(([at]) => at), { dtype, device: name });
      for (const [i, made] of [x.ndtr(), x.logNdtr(), x.erfc()].entries()) {
        const got = await made.tolist() as number[], want = rows.map((row) => row[i + 1]);
        const known = [...want.keys()].filter((k) => Math.abs(want[k]) >= least || got[k] !== 0);
        assert.deepEqual(wrong(known.map((k) => got[k]), known.map((k) => want[k]), dtype, 8), [], String(i));
      }
      const scaled = new Tensor(ERFCX.map(([at]) => at), { dtype, device: name }).erfcx();
      assert.deepEqual(wrong(await scaled.tolist() as number[], ERFCX.map(([, w]) => w), dtype, 8), []);
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
