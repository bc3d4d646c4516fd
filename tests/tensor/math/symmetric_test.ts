/** Factors of symmetric and Hermitian matrices with pivots of size 1 and 2: PyTorch's numbers, batches, bad matrices. @module */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { ArgumentError, ShapeError, Tensor } from "../../../mod.ts";
import { devicesHere } from "../../fixtures/devices.ts";
import { onDevice } from "../../support/on_device.ts";

type Kind = "symmetric" | "complex" | "Hermitian";
/** torch.linalg.ldl_factor's pivots and last row of LD, and what ldl_solve gives for ones. */
const TORCH = [
  ["symmetric", 1, [-4, -4, -4, -4], [-0.392511065, 0.435685076, -1.024802276, 0.628147272], [
    0.672249178,
    -0.676191689,
    -1.348137086,
    0.847594508,
  ]],
  ["symmetric", 2, [1, 2, 3, 4], [-0.336276816, 0.498332924, -0.35943396, 0.563967296], [
    -0.123531487,
    -0.445574516,
    0.24170329,
    1.768340119,
  ]],
  ["complex", 1, [-4, -4, 3, 4], [
    -0.425095424,
    0.238597049,
    0.417622561,
    0.132261706,
    -0.816341087,
    -0.560901989,
    -0.164472031,
    -0.023055454,
  ], [0.089758326, 6.392397457, -12.570479975, 5.769368722, -12.45067396, -1.587120302, 3.703599971, 10.210629615]],
  ["complex", 2, [1, 2, 3, 4], [
    -0.253387218,
    0.10731057,
    0.518925058,
    -0.62838885,
    -0.291808264,
    -0.230214354,
    1.355943086,
    3.380745327,
  ], [-0.162393301, 0.490718062, 0.448091451, 0.230843579, -0.026325454, -0.522056674, 0.258241924, -0.128264323]],
  ["Hermitian", 1, [-4, -4, -4, -4], [
    -0.153622493,
    -0.279191723,
    0.136099539,
    -0.350128938,
    -0.127947,
    2.041374526,
    0.00620962,
    0.0,
  ], [1.070207298, -0.253774844, 0.412195254, 0.703792284, 0.27390325, -0.514363466, 0.515586147, 0.064346026]],
  ["Hermitian", 2, [1, 2, 3, 4], [
    -0.336276816,
    -1.079964592,
    -0.246257577,
    0.145826202,
    -0.265916466,
    0.463922944,
    3.587223451,
    0.0,
  ], [-0.196219418, -0.198188847, 0.368748753, 0.044611672, -0.247423218, 0.063259473, 0.57662823, 0.090317702]],
  ["Hermitian", 3, [-2, -2, -4, -4], [
    -0.205393272,
    -0.355146687,
    0.259717189,
    -1.018971551,
    -1.106800925,
    1.634468706,
    -0.465653404,
    0.0,
  ], [-0.217398873, 0.364770214, 0.39638974, -0.117922604, 0.480202743, -0.739761814, -0.575637127, 0.492914204]],
] as const;

/** A matrix of a kind; odd ones have no diagonal but what is imaginary, so that pivots are of size 2. */
function matrix(n: number, s: number, kind: Kind, dtype: "float32" | "float64"): Tensor {
  const make = (f: (i: number, j: number) => number): Tensor =>
    new Tensor(
      Array.from({ length: n }, (_, i) => Array.from({ length: n }, (_, j) => i === j && s % 2 ? 0 : f(i, j))),
      { dtype },
    );
  const re = make((i, j) => Math.sin(1 + i * 7 + j * 3 + s * 11));
  if (kind === "symmetric") return re.add(re.T);
  const b = Tensor.complex(re, make((i, j) => Math.cos(2 + i * 5 + j * 2 + s)));
  return b.add(kind === "Hermitian" ? b.conj().T : b.T);
}
const flat = (t: Tensor): Tensor => t.dtype.isComplex ? t.viewAsReal().flatten() : t.flatten();
const most = async (t: Tensor): Promise<number> => await t.abs().max().item();

for (const device of await devicesHere()) {
  Deno.test(`ldlFactor, ldlSolve ${device}: PyTorch's numbers, and solutions in batches`, () =>
    onDevice(device, async () => {
      const dtype = device === "WEBGPU" ? "float32" : "float64", slack = dtype === "float64" ? 1e-8 : 2e-4;
      for (const [kind, s, pivots, last, solved] of device === "JS" ? TORCH : TORCH.filter((row) => row[1] === 1)) {
        const hermitian = kind === "Hermitian", a = matrix(4, s, kind as Kind, dtype);
        const [LD, p] = a.ldlFactor({ hermitian });
        assertEquals([await p.tolist(), p.dtype.name], [pivots, "int32"], `${kind} ${s}`);
        assert(await most(flat(LD.at(-1)).sub(new Tensor(last, { dtype }))) < slack, `${kind} ${s}`);
        const x = LD.ldlSolve(p, Tensor.ones([4, 1], { dtype }), { hermitian });
        assert(await most(flat(x).sub(new Tensor(solved, { dtype }))) < 50 * slack, `${kind} ${s}`);
      }
      const all = Tensor.stack([1, 3, 5].map((s) => matrix(5, s, "symmetric", "float32"))), [LD, p] = all.ldlFactor();
      const b = Tensor.arange(10).reshape([5, 2]).float(), x = LD.ldlSolve(p, b);
      assertEquals([LD.shape, p.shape, x.shape], [[3, 5, 5], [3, 5], [3, 5, 2]]);
      assert(await most(all.matmul(x).sub(b)) < 1e-4);
    }));
}

Deno.test("ldlFactor, ldlSolve: the other triangle is not looked at, and gradients are those of solve", () =>
  onDevice("JS", async () => {
    const a = matrix(4, 1, "symmetric", "float64").realize(), b = Tensor.eye(4, { dtype: "float64" });
    const by = (solve: () => Tensor): Tensor => solve().mul(Tensor.arange(16).reshape([4, 4])).sum().gradient([a])[0];
    const ours = by(() => {
      const [LD, p] = a.add(Tensor.ones([4, 4]).triu(1).mul(99)).ldlFactor();
      return LD.ldlSolve(p, b);
    });
    const theirs = by(() => a.solve(b));
    assert(await most(ours.sub(theirs.tril().add(theirs.triu(1).T))) < 1e-9);
    assertEquals(await most(ours.triu(1)), 0);
  }));

Deno.test("ldlFactor, ldlSolve: empty ones, zeros, NaN, half precision, and what they refuse", () =>
  onDevice("JS", async () => {
    for (const shape of [[0, 2, 2], [0, 0]]) {
      const [LD, p] = Tensor.zeros(shape).ldlFactor();
      assertEquals([LD.shape, p.shape], [shape, shape.slice(0, -1)]);
      assertEquals(LD.ldlSolve(p, Tensor.zeros([...shape.slice(0, -1), 3])).shape, [...shape.slice(0, -1), 3]);
    }
    const [LD, p] = Tensor.zeros([2, 2]).ldlFactor();
    assertEquals([await LD.tolist(), await p.tolist()], [[[0, 0], [0, 0]], [1, 2]]);
    assertEquals(await LD.ldlSolve(p, Tensor.ones([2, 1])).isfinite().any().item(), false);
    const bad = new Tensor([[1, 2, 0], [2, NaN, 1], [0, 1, 3]]).ldlFactor();
    assert(Boolean(await bad[0].isnan().any().item()));
    assertEquals(new Tensor([[2, 1], [1, 2]]).half().ldlFactor()[0].dtype.name, "float16");
    assertThrows(() => Tensor.ones([2, 3]).ldlFactor(), ShapeError, "ldlFactor");
    assertThrows(() => Tensor.ones([2, 2]).ldlFactor({ hermitian: 1 } as never), ArgumentError, "hermitian");
    assertThrows(() => LD.ldlSolve(p, Tensor.ones([3, 1])), ShapeError, "with n 2");
    assertThrows(() => LD.ldlSolve(p, Tensor.ones([2])), ShapeError, "ldlSolve");
    assertThrows(() => LD.ldlSolve(p.float(), Tensor.ones([2, 1])), ArgumentError, "pivots");
  }));
