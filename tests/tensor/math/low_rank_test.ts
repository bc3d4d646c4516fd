/** Parts of decompositions: against whole ones, SciPy's numbers of pairs of matrices, and what they refuse. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { ArgumentError, Device, ShapeError, Tensor } from "../../../mod.ts";
import { devicesHere } from "../../fixtures/devices.ts";

const before = Device.default;
const most = async (t: Tensor): Promise<number> => await t.abs().max().item();

for (const device of await devicesHere()) {
  Deno.test(`svdLowrank ${device}: values and vectors of a matrix of low rank, in batches, wide and tall`, async () => {
    Device.default = device;
    Tensor.manualSeed(3);
    for (const shape of device === "JS" ? [[9, 7], [7, 9], [2, 9, 7]] : [[2, 9, 7]]) {
      const [m, n] = shape.slice(-2), lead = shape.slice(0, -2);
      const a = Tensor.randn([...lead, m, 4]).matmul(Tensor.randn([...lead, 4, n])).realize();
      const [u, s, v] = a.svdLowrank({ niter: 1 });
      assertEquals([u.shape, s.shape, v.shape], [[...lead, m, 6], [...lead, 6], [...lead, n, 6]]);
      assert(await most(u.mul(s.unsqueeze(-2)).matmul(v.transpose(-1, -2)).sub(a)) < 2e-5);
      assert(await most(s.sub(a.svdvals().at("...", [0, 6]))) < 2e-4);
      assert(await most(u.transpose(-1, -2).matmul(u).sub(Tensor.eye(6))) < 2e-5);
    }
    Device.default = before;
  });
}

Deno.test("svdLowrank: complex numbers, half precision, a mean, and a gradient", async () => {
  Device.default = "JS";
  const z = Tensor.complex(Tensor.randn([6, 3]), Tensor.randn([6, 3])).realize(), [u, s, v] = z.svdLowrank({ q: 3 });
  assert(await most(u.mul(s).matmul(v.conj().T).sub(z)) < 1e-5);
  const h = Tensor.ones([5, 4]).half().svdLowrank({ q: 2, niter: 0 });
  assertEquals([h[0].dtype.name, h[1].dtype.name, Math.round(await h[1].at(0).item() * 100)], [
    "float16",
    "float16",
    447,
  ]);
  const x = Tensor.randn([20, 3]).add([5, 6, 7]).realize(), [, ps] = x.pcaLowrank({ q: 3 });
  const variances = await ps.square().div(19).sum().item() - await x.var(0).sum().item();
  assert(Math.abs(variances) < 1e-4);
  const [, whole] = x.pcaLowrank({ q: 3, center: false });
  assert(await most(whole.sub(x.svdvals())) < 1e-4);
  const g = whole.square().sum().gradient([x])[0]; // of the squared Frobenius norm
  assert(await most(g.sub(x.mul(2))) < 1e-3);
  Device.default = before;
});

Deno.test("lobpcg: SciPy's numbers, of one matrix and of two", async () => {
  Device.default = "JS";
  const A = new Tensor([[2, -1, 0, 0], [-1, 2, -1, 0], [0, -1, 2, -1], [0, 0, -1, 2]], { dtype: "float64" });
  const B = new Tensor([[4, 1, 0, 0], [1, 3, 0, 1], [0, 0, 2, 0], [0, 1, 0, 5]], { dtype: "float64" });
  const near = async (t: Tensor, want: number[]) =>
    assert(await most(t.sub(new Tensor(want, { dtype: "float64" }))) < 1e-10, `${await t.tolist()}`);
  await near(A.lobpcg()[0], [3.618033988749895]);
  await near(A.lobpcg({ k: 2, largest: false })[0], [0.381966011250105, 1.381966011250105]);
  const [E, X] = A.lobpcg({ k: 3, B });
  await near(E, [1.5255731170626672, 1.0000000000000002, 0.3409760442497906]);
  await near(A.matmul(X).sub(B.matmul(X).mul(E)).abs().max(0), [0, 0, 0]);
  await near(X.T.matmul(B).matmul(X).sub(Tensor.eye(3)).abs().max(0), [0, 0, 0]);
  Device.default = before;
});

Deno.test("svdLowrank, lobpcg: what they refuse", () => {
  const a = Tensor.ones([3, 4]), square = Tensor.eye(3);
  assertThrows(() => a.svdLowrank({ q: 4 }), ArgumentError, "q must be at most 3");
  assertThrows(() => a.svdLowrank({ q: -1 }), ArgumentError);
  assertThrows(() => a.at(0).svdLowrank(), ShapeError, "two axes");
  assertThrows(() => a.at(0).pcaLowrank(), ShapeError, "two axes");
  assertThrows(() => a.lobpcg(), ShapeError, "square");
  assertThrows(() => square.lobpcg({ k: 4 }), ArgumentError, "k must be at most 3");
  assertThrows(() => square.lobpcg({ B: Tensor.eye(4) }), ShapeError, "one size");
});
