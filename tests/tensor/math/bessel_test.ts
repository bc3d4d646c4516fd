/**
 * Bessel functions, Airy's, Hurwitz's zeta function and orthogonal polynomials: what has a closed form, gradients against
 * differences, and the ends of their domains. Values are golden cases.
 */
import { assertEquals, assertThrows } from "@std/assert";
import { ArgumentError, Device, Tensor } from "../../../mod.ts";
import { POLYNOMIALS } from "../../../src/tensor/math/polynomials.ts";

Device.default = "JS";

type Unary = "besselJ0";
const NAMES = "besselJ0 besselJ1 besselY0 besselY1 modifiedBesselK0 modifiedBesselK1 scaledModifiedBesselK0 " +
  "scaledModifiedBesselK1 sphericalBesselJ0 airyAi";

/** The largest difference, as a share of the larger number, or of 1. */
async function apart(a: Tensor, b: Tensor): Promise<number> {
  return await a.sub(b).abs().div(a.abs().maximum(b.abs()).maximum(1)).max().item();
}

for (const name of NAMES.split(" ") as Unary[]) {
  Deno.test(`bessel: ${name} has the slope that differences show, and that has one`, async () => {
    const points = [
      0.3,
      1.1,
      1.9,
      2.1,
      4.9,
      5.2,
      7.9,
      8.2,
      13.7,
      ...(name as string) === "airyAi" ? [-0.4, -4.9, -5.1, -9.3] : [],
    ];
    const x = new Tensor(points, { dtype: "float64", requiresGrad: true }), h = 1e-5;
    const [slope] = x[name]().sum().gradient([x]), [curve] = slope.sum().gradient([x]);
    const of = (shift: number): Tensor => x.detach().add(shift)[name]();
    assertEquals(await apart(slope, of(h).sub(of(-h)).div(2 * h)) < 1e-8, true);
    assertEquals(await apart(curve, of(h).add(of(-h)).sub(of(0).mul(2)).div(h * h)) < 1e-4, true);
  });
}

Deno.test("bessel: what is known of pairs of them (DLMF 10.5.2, 10.28.2)", async () => {
  for (const dtype of ["float32", "float64"] as const) {
    const x = new Tensor([1e-3, 0.7, 2, 5.5, 8, 8.5, 31, 400], { dtype }), eps = dtype === "float32" ? 1e-6 : 1e-14;
    const waves = x.besselJ1().mul(x.besselY0()).sub(x.besselJ0().mul(x.besselY1())).mul(x);
    const powers = x.i0e().mul(x.scaledModifiedBesselK1()).add(x.i1e().mul(x.scaledModifiedBesselK0())).mul(x);
    assertEquals(await apart(waves, x.fullLike(2 / Math.PI)) < eps, true);
    assertEquals(await apart(powers, x.fullLike(1)) < eps, true);
  }
});

Deno.test("bessel: the ends of domains", async () => {
  const x = new Tensor([0, -1, NaN, Infinity]);
  assertEquals(await x.besselY0().tolist(), [-Infinity, NaN, NaN, NaN]);
  assertEquals(await x.besselY1().at([0, 2]).tolist(), [-Infinity, NaN]);
  assertEquals(await x.modifiedBesselK0().tolist(), [Infinity, NaN, NaN, 0]);
  assertEquals(await x.scaledModifiedBesselK1().tolist(), [Infinity, NaN, NaN, 0]);
  assertEquals(await x.sphericalBesselJ0().at([null, null, 3]).tolist(), [1, 0]);
  assertEquals(await new Tensor([Infinity, NaN, 200]).airyAi().tolist(), [0, NaN, 0]);
  assertEquals(await new Tensor([1, 2, 2, 0.5, 2, 2]).zeta(new Tensor([2, 0, -3, 1, -0.5, Infinity])).tolist(), [
    ...[Infinity, Infinity, Infinity, NaN, NaN, 0],
  ]);
  assertEquals(new Tensor([1, 2]).besselJ0().dtype.name, "float32");
  assertEquals(new Tensor([1, 2], { dtype: "float16" }).airyAi().dtype.name, "float16");
});

Deno.test("zeta: known values, and its slope by the second argument", async () => {
  const q = new Tensor([0.4, 1, 3.5, 60], { dtype: "float64", requiresGrad: true });
  const [slope] = new Tensor([2.5], { dtype: "float64" }).zeta(q).sum().gradient([q]);
  assertEquals(await apart(slope, new Tensor([3.5], { dtype: "float64" }).zeta(q.detach()).mul(-2.5)) < 1e-15, true);
  const known = new Tensor([2, 4], { dtype: "float64" }).zeta(1);
  const want = new Tensor([Math.PI ** 2 / 6, Math.PI ** 4 / 90], { dtype: "float64" });
  assertEquals(await apart(known, want) < 1e-15, true);
});

Deno.test("polynomials: Chebyshev's by angles, slopes by each other, and degrees that there are", async () => {
  const angle = new Tensor([0.2, 1, 2.5], { dtype: "float64" }), x = angle.cos(), leaf = x.detach();
  leaf.requiresGrad = true;
  for (const n of [0, 1, 2, 9, 64]) {
    const [t, u, v, w] = [angle.mul(n).cos(), angle.mul(n + 1).sin().div(angle.sin())].concat(
      [Math.cos, Math.sin].map((_, i) =>
        i === 0
          ? angle.mul(n + 0.5).cos().div(angle.mul(0.5).cos())
          : angle.mul(n + 0.5).sin().div(angle.mul(0.5).sin())
      ),
    );
    assertEquals(await apart(x.chebyshevPolynomialT(n), t) < 1e-12, true);
    assertEquals(await apart(x.chebyshevPolynomialU(n), u) < 1e-12, true);
    assertEquals(await apart(x.chebyshevPolynomialV(n), v) < 1e-12, true);
    assertEquals(await apart(x.chebyshevPolynomialW(n), w) < 1e-12, true);
  }
  const [slope] = leaf.hermitePolynomialHe(6).sum().gradient([leaf]); // He' of n is n He of n - 1
  assertEquals(await apart(slope, x.hermitePolynomialHe(5).mul(6)) < 1e-13, true);
  assertEquals(await new Tensor([NaN, 3]).legendrePolynomialP(0).tolist(), [1, 1]);
  for (const name of Object.keys(POLYNOMIALS) as "legendrePolynomialP"[]) {
    assertThrows(() => x[name](129), ArgumentError, `Cannot ${name}: n must be at most 128, not 129`);
    assertThrows(() => x[name](-1), ArgumentError, `Cannot ${name}: n must be `);
  }
});
