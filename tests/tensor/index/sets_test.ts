/** Sets of values, bins, and NumPy's other names: values are NumPy's; slopes that PyTorch has not; what is refused. @module */
import assert from "node:assert/strict";
import { Device, Tensor } from "../../../mod.ts";

await Device.open(Device.default); // its library is no leak of the first test
const a = (): Tensor => new Tensor([[3, 1], [2, 1]]), b = (): Tensor => new Tensor([5, 2, 5]);

Deno.test("sets: of integers, floats, lists and nothing", async () => {
  assert.deepEqual(await (await a().union1d(b())).tolist(), [1, 2, 3, 5]);
  assert.deepEqual(await (await a().intersect1d(b())).tolist(), [2]);
  assert.deepEqual(await (await a().setdiff1d(b())).tolist(), [1, 3]);
  assert.deepEqual(await (await a().setxor1d(b())).tolist(), [1, 3, 5]);
  assert.deepEqual(await (await a().union1d([0.5, 1])).tolist(), [0.5, 1, 2, 3]);
  assert.deepEqual(await (await a().intersect1d(3)).tolist(), [3]);
  assert.deepEqual(await (await a().intersect1d([7, 8])).tolist(), []);
  assert.deepEqual(await (await a().setdiff1d([1, 2, 3])).tolist(), []);
  const none = Tensor.zeros([0]);
  assert.deepEqual(await (await none.union1d(b())).tolist(), [2, 5]);
  assert.deepEqual(await (await none.intersect1d(b())).tolist(), []);
  assert.deepEqual(await (await b().setdiff1d(none)).tolist(), [2, 5]);
  assert.deepEqual(await (await none.setxor1d(none)).tolist(), []);
  assert.equal((await b().union1d(new Tensor([1n]))).dtype.name, "int64");
});

Deno.test("sets: bins that are computed ascend or descend as well", async () => {
  const x = new Tensor([0.5, 2, 9]), edges = new Tensor([1, 2, 3]).add(0).realize();
  for (const right of [false, true]) {
    for (const [e, known] of [[edges, [1, 2, 3]], [edges.flip(0), [3, 2, 1]]] as const) {
      assert.deepEqual(await x.digitize(e, { right }).tolist(), await x.digitize(known, { right }).tolist());
    }
  }
  assert.deepEqual(await x.digitize(edges.flip(0)).tolist(), [3, 1, 0]);
  assert.deepEqual(await x.digitize([2]).tolist(), [0, 1, 1]);
  assert.deepEqual(await x.digitize(new Tensor([]).float()).tolist(), [0, 0, 0]);
});

Deno.test("sets: histc of nothing, of one value, of NaN", async () => {
  assert.deepEqual(await Tensor.zeros([0]).histc(3).tolist(), [0, 0, 0]);
  assert.deepEqual(await new Tensor([4, 4, 4]).histc(3).tolist(), [0, 3, 0]);
  assert.deepEqual(await new Tensor([1, NaN, 3]).histc(2).tolist(), [1, 1]);
  assert.equal(new Tensor([1, 2]).half().histc(2).dtype.name, "float16");
});

Deno.test("sets: the gradient of asStridedScatter goes to what is not written over", async () => {
  const x = Tensor.arange(6).float(), src = Tensor.ones([2, 2]);
  const ramp = Tensor.arange(1, 7).float();
  const [dx, ds] = x.asStridedScatter(src, [2, 2], [3, 1]).mul(ramp).sum().gradient([x, src]);
  assert.deepEqual(await dx.tolist(), [0, 0, 3, 0, 0, 6]);
  assert.deepEqual(await ds.tolist(), [[1, 2], [4, 5]]);
});

Deno.test("sets: slopes of cbrt, of reductions that pass over NaN and of what is unwrapped", async () => {
  const x = new Tensor([-8, 27, 0, Infinity]).float(), [slope] = x.cbrt().sum().gradient([x]);
  const got = await slope.tolist() as number[];
  [1 / 12, 1 / 27, Infinity, 0].forEach((want, i) => {
    assert.ok(Object.is(got[i], want) || Math.abs(got[i] - want) < 1e-8, `${got}`);
  });
  const y = new Tensor([[2, NaN, 5], [NaN, NaN, NaN]]).float();
  const of = async (f: (y: Tensor) => Tensor): Promise<unknown> => await f(y).sum().gradient([y])[0].tolist();
  assert.deepEqual(await of((t) => t.nanmax(1)), [[0, 0, 1], [0, 0, 0]]);
  assert.deepEqual(await of((t) => t.nanprod(1)), [[5, 0, 2], [0, 0, 0]]);
  assert.deepEqual(await of((t) => t.nancumsum(1)), [[3, 0, 1], [0, 0, 0]]);
  assert.deepEqual(await of((t) => t.at(0).nanvar()), [[-3, 0, 3], [0, 0, 0]]);
  const z = new Tensor([0, 3, -3, 0.5]).float();
  assert.deepEqual(await z.unwrap().mul(Tensor.arange(4)).sum().gradient([z])[0].tolist(), [0, 1, 2, 3]);
  const p = new Tensor([2, 0, 1]).float(), t = new Tensor([3]).float();
  const [dp, dt] = p.polyval(t).sum().gradient([p, t]);
  assert.deepEqual([await dp.tolist(), await dt.tolist()], [[9, 3, 1], [12]]);
});

Deno.test("sets: dtypes stay, complex coefficients, one-element axes", async () => {
  assert.equal(new Tensor([1, 2]).ptp().dtype.name, "int32");
  assert.equal(new Tensor([1, 2]).nanmax().dtype.name, "int32");
  assert.equal(new Tensor([1, 2]).average().dtype.name, "float32");
  assert.equal(new Tensor([0, 5, 9]).unwrap(0, { period: 4 }).dtype.name, "int32");
  const i = Tensor.complex(new Tensor([0]).float(), new Tensor([1]).float());
  const [re, im] = [new Tensor([1, 0, 1]).polyval(i).real(), new Tensor([1, 0, 1]).polyval(i).imag()];
  assert.deepEqual([await re.tolist(), await im.tolist()], [[0], [0]]); // i^2 + 1
  assert.deepEqual(await new Tensor([[7]]).unwrap().tolist(), [[7]]);
  assert.deepEqual(await new Tensor([2, NaN]).nanvar(0, { correction: 0 }).tolist(), 0);
  assert.ok(Number.isNaN(await new Tensor([2, NaN]).nanvar().item()));
});

Deno.test("polynomials: roots with zeros at both ends, of lines, constants and complex ones, and with gradients", async () => {
  const of = async (c: readonly number[]): Promise<string[]> =>
    ((await (await new Tensor(c).float().roots()).tolist()) as { re: number; im: number }[])
      .map(({ re, im }) => `${re.toFixed(4).replace("-0.0000", "0.0000")} ${Math.abs(im).toFixed(4)}`).sort();
  assert.deepEqual(await of([0, 2, -3, 1, 0]), ["0.0000 0.0000", "0.5000 0.0000", "1.0000 0.0000"]);
  assert.deepEqual(await of([2, 1]), ["-0.5000 0.0000"]);
  assert.deepEqual(await of([5]), []);
  assert.deepEqual(await of([3, 0, 0]), ["0.0000 0.0000", "0.0000 0.0000"]);
  assert.deepEqual(await of([1, 0, 4]), ["0.0000 2.0000", "0.0000 2.0000"]);
  const c = new Tensor([1, -5, 6], { dtype: "float32", requiresGrad: true }),
    [d] = (await c.roots()).real().square().sum().gradient([c]);
  // the sum of squares is (b^2 - 2 a c) / a^2
  (await d.tolist() as number[]).forEach((x, i) => assert.ok(Math.abs(x - [-38, -10, -2][i]) < 1e-3, `${x}`));
  await assert.rejects(new Tensor([0, 0]).roots(), /ArgumentError: Cannot roots: all coefficients are 0/);
  await assert.rejects(a().roots(), /ShapeError: Cannot roots shape \[2, 2\]: coefficients are 1-D/);
});

Deno.test("polynomials: what is fitted is found by polyval, at all degrees", async () => {
  const x = Tensor.linspace(-1, 2, 9), c = new Tensor([0.5, -1, 2, 3]).float();
  const fit = x.polyfit(c.polyval(x), 3);
  (await fit.sub(c).abs().tolist() as number[]).forEach((d) => assert.ok(d < 2e-5, `${d}`));
  assert.ok(
    Math.abs(Number(await x.polyfit(c.polyval(x), 0).item()) - Number(await c.polyval(x).mean().item())) < 1e-5,
  );
});

Deno.test("vdot of complex vectors conjugates the first", async () => {
  const z = Tensor.complex(new Tensor([1, 0]).float(), new Tensor([2, 1]).float());
  const { re, im } = await z.vdot(z.mul(2)).item() as unknown as { re: number; im: number };
  assert.deepEqual([re, im], [12, 0]);
});

for (
  const [text, act] of [
    ["ShapeError: Cannot vdot shapes [3] and [2, 2]: both must be 1-D and as long", () => b().vdot(a())],
    [
      "ShapeError: Cannot householderProduct shapes [2, 2] and [3]: they take the forms [..., m, n] and [..., k]",
      () => a().float().householderProduct(b().float()),
    ],
    [
      "ShapeError: Cannot ormqr shapes [2, 2] and [3, 1]: the other must have 2 rows",
      () => a().float().ormqr(Tensor.ones([2]), Tensor.ones([3, 1])),
    ],
    ["ShapeError: Cannot polyfit shapes [3] and [2, 2]: it takes points [n]", () => b().polyfit(a(), 1)],
    ["ArgumentError: Cannot percentile: q must lie in [0, 100], not 101", () => b().percentile(101)],
    ["ArgumentError: Cannot nanpercentile: q must lie in [0, 100], not", () => b().nanpercentile([-1])],
    [
      "DTypeError: Cannot nanquantile at shares of dtype bool: they must be floats",
      () => b().nanpercentile(new Tensor([true])),
    ],
    ["ShapeError: Cannot nanmax shape [0]: there are no elements to compare", () => Tensor.zeros([0]).nanmax()],
    [
      "ShapeError: Cannot average shapes [2, 2] and [3]: the weights must have the shape of the values",
      () => a().average(1, { weights: b() }),
    ],
    ["ShapeError: Cannot digitize shape [2, 2]: bins are 1-D", () => b().digitize(a())],
    [
      "ArgumentError: Cannot indexReduce: ",
      () => a().indexReduce(0, new Tensor([0]), new Tensor([[1, 2]]), "sum" as "prod"),
    ],
    [
      "ShapeError: Cannot asStridedScatter shape [2]: src must be [2, 2]",
      () => Tensor.zeros([6]).asStridedScatter(Tensor.zeros([2]), [2, 2], [3, 1]),
    ],
    [
      "ShapeError: Cannot asStridedScatter shape [6]: it has 6 elements, and size [3] by strides [4] from 0 reads number 8",
      () => Tensor.zeros([6]).asStridedScatter(Tensor.zeros([3]), [3], [4]),
    ],
    [
      "ArgumentError: Cannot asStrided: stride must be an integer of at least 0, not undefined",
      () => Tensor.zeros([6]).asStrided([3, 2], new Array(2)),
    ],
    ["ArgumentError: Cannot histc: ", () => b().histc(0)],
    ["ArgumentError: Cannot histogram: min must not be above max, not 3 and 1", () => b().histc(2, 3, 1)],
    ["ShapeError: Cannot correlate shape [2, 2]: it must be 1-D", () => a().correlate(b())],
    ["ShapeError: Cannot polyval shape [2, 2]: it must be 1-D", () => a().polyval(1)],
    ["ArgumentError: Cannot unwrap: period must be above 0, not 0", () => b().unwrap(0, { period: 0 })],
    ["ArgumentError: Cannot make a geomspace: 0 and 1 must have one sign", () => Tensor.geomspace(0, 1, 3)],
  ] as const
) {
  Deno.test(`sets: ${text} is said`, () => {
    assert.throws(act, (e: Error) => String(e).startsWith(text) || assert.fail(String(e)));
  });
}
