/** Decompositions, systems and transforms: what they must satisfy, on matrices that golden cases do not have. */
import { assert, assertClose, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { ArgumentError, Device, DTypeError, jit, ShapeError, Tensor, vmap } from "../../../mod.ts";
import { devicesHere } from "../../fixtures/devices.ts";

Device.default = "JS";
const on = { device: "JS" };

function matrix(rows: number, columns: number, dtype = "float32"): Tensor {
  const values = Array.from({ length: rows * columns }, (_, i) => ((i * 7919 + 3) % 1009) / 256 - 2);
  return new Tensor(values, { dtype, ...on }).reshape([rows, columns]);
}
async function near(a: Tensor, b: Tensor, tolerance: number): Promise<void> {
  const x = await a.data(), y = await b.data();
  assertEquals(a.shape, b.shape);
  const worst = Array.from(x as ArrayLike<number>, (v, i) => Math.abs(v - Number(y[i]))).reduce(
    (a, b) => Math.max(a, b),
    0,
  );
  assert(worst <= tolerance, `differs by ${worst}`);
}
const identity = (n: number) => Tensor.eye(n, n, on);

for (const [m, n] of [[5, 3], [3, 5], [1, 4], [4, 1], [6, 6]]) {
  Deno.test(`decompositions: qr and svd of ${m} by ${n}`, async () => {
    const a = matrix(m, n), [q, r] = a.qr();
    await near(q.matmul(r), a, 1e-5);
    await near(q.T.matmul(q), identity(m), 1e-5);
    assertEquals(await r.tril(-1).abs().sum().item(), 0);
    const [u, s, vt] = a.svd(), k = Math.min(m, n);
    assertEquals([u.shape, s.shape, vt.shape], [[m, m], [k], [n, n]]);
    await near(u.at("...", [0, k]).mul(s).matmul(vt.at([0, k])), a, 2e-5);
    await near(u.T.matmul(u), identity(m), 1e-5);
    await near(vt.matmul(vt.T), identity(n), 1e-5);
    const [reduced, , rows] = a.svd(false);
    assertEquals([reduced.shape, rows.shape], [[m, k], [k, n]]);
    await near(reduced, u.at(":", [0, k]), 1e-5);
    const [few, upper] = a.qr({ mode: "reduced" });
    assertEquals([few.shape, upper.shape], [[m, k], [k, n]]);
    await near(few, q.at(":", [0, k]), 1e-5);
    await near(upper, r.at([0, k]), 1e-5);
    const [full] = a.qr({ mode: "complete" });
    assertEquals(full.shape, [m, m]);
  });
}

const hasC = await Device.open("CLANG").then(() => true, () => false);
for (
  const [m, n, rank, dtype] of [[7, 4, 4, "float64"], [4, 9, 4, "float32"], [12, 12, 3, "float64"], [
    20,
    9,
    9,
    "float32",
  ]] as const
) {
  Deno.test({
    name: `decompositions: svd and eigh in C, ${m} by ${n} of rank ${rank}, ${dtype}`,
    ignore: !hasC,
    fn: async () => {
      const eps = dtype === "float64" ? 1e-12 : 1e-4, on = { device: "CLANG", dtype };
      const part = (rows: number, columns: number) =>
        new Tensor(Array.from({ length: rows * columns }, (_, i) => ((i * 7919 + 3) % 1009) / 256 - 2), on).reshape([
          rows,
          columns,
        ]);
      const a = rank < Math.min(m, n) ? part(m, rank).matmul(part(rank, n)) : part(m, n), k = Math.min(m, n);
      const [u, s, vt] = a.svd(), unit = (n: number) => Tensor.eye(n, on);
      assertEquals([u.shape, s.shape, vt.shape], [[m, m], [k], [n, n]]);
      await near(u.at("...", [0, k]).mul(s).matmul(vt.at([0, k])), a, eps);
      await near(u.T.matmul(u), unit(m), eps);
      await near(vt.matmul(vt.T), unit(n), eps);
      assertEquals(await a.matrixRank().item(), await a.to("JS").matrixRank().item());
      const square = a.matmul(a.T), [w, v] = square.eigh();
      await near(v.mul(w).matmul(v.T), square, 100 * eps);
      const captured = jit((x: Tensor) => x.svd(false)[1]);
      for (const by of [1, 2, 3]) await near(captured(a.mul(by).realize()), s.mul(by), 10 * eps);
      await near(vmap((x: Tensor) => x.svd(false)[1])(a.unsqueeze(0)), s.unsqueeze(0), eps);
    },
  });
}

Deno.test("decompositions: reduced qr of batches, with gradients, without a matrix of m by m", async () => {
  const a = Tensor.stack([matrix(4, 2, "float64"), matrix(4, 2, "float64").add(matrix(2, 4, "float64").T)], 0);
  const slope = (mode: "complete" | "reduced") => {
    const x = a.detach().realize();
    x.requiresGrad = true;
    const [q, r] = x.qr({ mode });
    const weights = matrix(4, 2, "float64");
    q.at("...", [0, 2]).mul(weights).sum().add(r.at(":", [0, 2]).square().mul(matrix(2, 2, "float64")).sum())
      .backward();
    return x.grad!;
  };
  await near(slope("reduced"), slope("complete"), 1e-9);
  const tall = new Tensor(Float32Array.from({ length: 60000 }, (_, i) => (i * 7919 + 3) % 1009), on).reshape([
    20000,
    3,
  ]);
  const [q, r] = tall.qr({ mode: "reduced" });
  assertEquals([q.shape, r.shape], [[20000, 3], [3, 3]]);
  await near(q.T.matmul(q), identity(3), 1e-3);
  assertEquals((await tall.svd({ fullMatrices: false })[0].at(0).data()).length, 3);
  assertThrows(() => a.qr({ mode: "r" } as never), ArgumentError, 'unknown mode "r"; known are complete, reduced');
  assertThrows(() => a.qr({ full: true } as never), ArgumentError, 'unknown option "full"');
  assertThrows(() => a.svd({ full: true } as never), ArgumentError, 'unknown option "full"');
});

Deno.test("decompositions: a vector for each of several matrices", async () => {
  const a = Tensor.stack([matrix(3, 3), matrix(3, 3).add(identity(3))], 0), b = matrix(2, 3);
  const x = a.solve(b);
  await near(a.matmul(x.unsqueeze(-1)).squeeze(-1), b, 1e-4);
  const shapes = ([[3], [2, 3], [2, 3, 1], [3, 2]] as const).map((shape) => a.solve(Tensor.ones([...shape], on)).shape);
  assertEquals(shapes, [[2, 3], [2, 3], [2, 3, 1], [2, 3, 2]]);
});

Deno.test("decompositions: an orthogonal basis completes a matrix of low rank", async () => {
  const a = new Tensor([[1, 2], [2, 4], [3, 6]], { dtype: "float64", ...on }), [u, s, vt] = a.svd();
  const values = await s.data();
  assert(Math.abs(Number(values[0]) - Math.sqrt(70)) < 1e-12 && Math.abs(Number(values[1])) < 1e-12, `${values}`);
  await near(u.T.matmul(u), identity(3).double(), 1e-12);
  await near(vt.matmul(vt.T), identity(2).double(), 1e-12);
});

Deno.test("decompositions: systems that need exchanges of rows, and singular ones behind a computation", async () => {
  const a = new Tensor([[0, 1], [1, 0]], { dtype: "float32", ...on });
  assertEquals(await a.solve(new Tensor([3, 4], on)).tolist(), [4, 3]);
  assertEquals(await a.det().item(), -1);
  assertEquals(await a.mul(0).det().item(), 0);
  assertEquals(await a.solve(Tensor.ones([2, 0], on)).tolist(), [[], []]);
  const nothing = await a.mul(0).inv().data();
  assert(Array.from(nothing as ArrayLike<number>).every((x) => !Number.isFinite(x)));
  assert(Number.isNaN(await new Tensor([[-1]], { dtype: "float32", ...on }).cholesky().item()));
  assertEquals(await new Tensor([[4, 2], [2, 5]], on).cholesky({ upper: true }).tolist(), [[2, 1], [0, 2]]);
});

Deno.test("decompositions: of the matrix of cholesky one triangle is looked at, and its gradient is symmetric", async () => {
  // torch.linalg.cholesky, PyTorch 2.13, of a matrix that is not symmetric
  const wide = { dtype: "float64", ...on } as const;
  const a = new Tensor([[4, 1], [2, 5]], wide), im = new Tensor([[0, 1], [-1, 0]], wide);
  assertEquals(await a.cholesky().tolist(), [[2, 0], [1, 2]]);
  await near(a.cholesky({ upper: true }), new Tensor([[2, 0.5], [0, 2.179449471770337]], wide), 1e-12);
  const [g] = a.cholesky().mul(new Tensor([[1, 2], [3, 4]], wide)).sum().gradient([a]);
  await near(g, new Tensor([[0.125, 0.25], [0.25, 1]], wide), 1e-12);
  const c = Tensor.complex(a, im), low = c.cholesky(), high = c.cholesky({ upper: true });
  await near(low.real(), new Tensor([[2, 0], [1, Math.sqrt(3.75)]], wide), 1e-12);
  await near(low.imag(), new Tensor([[0, 0], [-0.5, 0]], wide), 1e-12);
  await near(high.real(), new Tensor([[2, 0.5], [0, Math.sqrt(4.5)]], wide), 1e-12);
  await near(high.imag(), new Tensor([[0, 0.5], [0, 0]], wide), 1e-12);
});

Deno.test("decompositions: condition numbers of singular matrices are infinite by every norm with an inverse", async () => {
  const few = new Tensor([[[1, 2], [2, 4]], [[1, 2], [2, 5]], [[0, 0], [0, 0]], [[1, NaN], [2, 5]]], on).float();
  assertEquals(await few.cond(1).tolist(), [Infinity, 49, Infinity, NaN]);
  assertEquals(await few.at(0).cond("fro").item(), Infinity);
});

Deno.test("decompositions: the gradient of a determinant is its cofactors", async () => {
  const a = matrix(3, 3, "float64");
  const [g] = a.det().gradient([a]);
  await near(g, a.inv().T.mul(a.det()), 1e-9);
});

Deno.test("decompositions: determinants of singular matrices have gradients, and those have", async () => {
  const weights = new Tensor([[1, 2, 3], [4, 5, 6], [7, 8, 9]], { dtype: "float64", ...on });
  for (
    const [rows, want, second] of [
      [[[1, 2, 3], [2, 4, 6], [1, 0, 1]], [[4, 4, -4], [-2, -2, 2], [0, 0, 0]], undefined],
      [[[0, 0, 1], [2, 0, 0], [0, 0, 0]], [[0, 0, 0], [0, 0, 0], [0, 2, 0]], undefined],
      // of rank n - 2: no gradient, but one of it: the minors of 2 x 2 that are left
      [[[1, 2, 3], [2, 4, 6], [3, 6, 9]], [[0, 0, 0], [0, 0, 0], [0, 0, 0]], [[-3, 6, -3], [6, -12, 6], [-3, 6, -3]]],
      [[[0, 0, 0], [0, 0, 0], [0, 0, 0]], [[0, 0, 0], [0, 0, 0], [0, 0, 0]], [[0, 0, 0], [0, 0, 0], [0, 0, 0]]],
    ]
  ) {
    for (const device of ["JS", "WASM"]) {
      const a = new Tensor(rows, { dtype: "float64", device }), [g] = a.det().gradient([a]);
      const [h] = g.mul(weights.to(device)).sum().gradient([a]);
      await near(g, new Tensor(want!, { dtype: "float64", device }), 1e-12);
      if (second !== undefined) await near(h, new Tensor(second, { dtype: "float64", device }), 1e-9);
    }
  }
});

Deno.test("decompositions: gradients by formula, and theirs, are what differences are", async () => {
  const spd = matrix(3, 3, "float64"), positive = spd.matmul(spd.T).add(identity(3).double());
  const pair = matrix(6, 3, "float64").reshape([2, 3, 3]), side = matrix(3, 2, "float64");
  const weights = (t: Tensor) =>
    new Tensor(Array.from({ length: t.numel() }, (_, i) => Math.sin(1.3 * i + 0.4)), { dtype: "float64", ...on })
      .reshape(t.shape);
  const total = (t: Tensor) => t.mul(weights(t)).sum();
  const cases: [string, Tensor, (x: Tensor) => Tensor][] = [
    ["inv", pair, (x) => x.inv()],
    ["det", pair, (x) => x.det()],
    ["solve, of the matrix", pair, (x) => x.solve(side)],
    ["solve, of the side", side, (x) => pair.solve(x)],
    ["cholesky", positive, (x) => x.cholesky()],
    ["upper cholesky", positive, (x) => x.cholesky({ upper: true })],
    ["Q", pair, (x) => x.qr()[0]],
    ["R", pair, (x) => x.qr()[1]],
    ["tall Q", matrix(4, 2, "float64"), (x) => x.qr()[0].at("...", [0, 2])],
    // the basis that is left is any: what it spans is one
    ["projection", matrix(4, 2, "float64"), (x) => x.qr()[0].at("...", [2, 4]).square().sum(1)],
    ["tall R", matrix(4, 2, "float64"), (x) => x.qr()[1]],
    ["wide Q", matrix(2, 4, "float64"), (x) => x.qr()[0]],
    ["wide R", matrix(2, 4, "float64"), (x) => x.qr()[1]],
  ];
  for (const [name, at, f] of cases) {
    const a = at.detach().contiguous().realize(), step = 1e-6;
    // of symmetric matrices one triangle is looked at, and the gradient is that of both
    const along = name.endsWith("cholesky") ? weights(a).add(weights(a).T) : weights(a);
    const slope = (x: Tensor) => total(f(x)).gradient([x])[0];
    const moved = (by: number) => a.add(along.mul(by)).detach().contiguous().realize();
    const values = async (t: Tensor) => [...await t.data()].map(Number);
    const [ahead, behind] = [moved(step), moved(-step)];
    for (
      const [what, got, change] of [
        ["gradient", slope(a).mul(along).sum(), total(f(ahead)).sub(total(f(behind)))],
        ["second", total(slope(a)).gradient([a])[0].mul(along).sum(), total(slope(ahead)).sub(total(slope(behind)))],
      ] as const
    ) {
      const [x] = await values(got), y = (await values(change))[0] / (2 * step);
      assertClose(x, y, 1e-6, `${name}, ${what}`);
    }
  }
});

Deno.test("decompositions: gradients of singular values and vectors, also where columns are odd or many", async () => {
  for (const [m, n] of [[3, 3], [5, 3], [3, 5], [31, 31]]) {
    const a = matrix(m, n, "float64"), [u, s, vt] = a.svd(false);
    await near(s.sum().gradient([a])[0], u.dot(vt), 1e-9); // d sum(S) = U Vᵀ
    const [first] = u.at(":", [0, 1]).mul(s.at([0, 1])).dot(vt.at([0, 1])).sum().gradient([a]);
    const moved = (by: number) => {
      const [p, q, r] = a.add(Tensor.full([m, n], by, { dtype: "float64", ...on })).svd(false);
      return p.at(":", [0, 1]).mul(q.at([0, 1])).dot(r.at([0, 1])).sum();
    };
    if (m < 30) await near(first.sum(), moved(1e-6).sub(moved(-1e-6)).div(2e-6), 1e-6);
  }
  const a = matrix(3, 3, "float64"), slope = (x: Tensor) => x.svd()[1].square().sum().gradient([x])[0]; // 2 a
  await near(slope(a).mul(a).sum().gradient([a])[0], a.mul(4), 1e-9);
});

Deno.test("fourier: inverses, lengths and norms", async () => {
  for (const n of [1, 2, 9, 30, 71, 128, 130]) {
    const x = matrix(n, 2);
    await near(x.fft().ifft(), x, 2e-6);
    await near(x.fft(-1, { norm: "ortho" }).ifft(-1, { norm: "ortho" }), x, 2e-6);
    await near(x.fft(-1, { norm: "forward" }).ifft(-1, { norm: "forward" }), x, 2e-6);
    const real = x.at(":", 0);
    await near(real.rfft().irfft(-1, { n }), real, 2e-6);
  }
  // Parseval
  const x = matrix(40, 2, "float64");
  await near(x.fft().square().sum(), x.square().sum().mul(40), 1e-9);
  for (const n of [6, 67, 128]) {
    const y = matrix(n, 2, "float64"), slope = (t: Tensor, of: Tensor) => of.square().sum().gradient([t])[0];
    await near(slope(y, y.fft()), y.mul(2 * n), 1e-9);
    const real = y.at(":", 0), half = real.rfft(), twice = half.at([1, Math.ceil(n / 2)]).square().sum();
    await near(half.square().sum().add(twice).gradient([real])[0], real.mul(2 * n), 1e-9);
  }
  assertEquals(matrix(3, 2).fft(-1, { n: 5 }).shape, [5, 2]);
  assertEquals(Tensor.ones([2, 8, 3], on).rfft(1).shape, [2, 5, 3, 2]);
});

const values = (t: Tensor): Promise<number[]> => t.data().then((d) => Array.from(d as ArrayLike<number>, Number));
const far = async (a: Tensor, b: Tensor): Promise<number> => Math.max(...await values(a.sub(b).abs().flatten()));

for (const device of await devicesHere()) {
  Deno.test(`decompositions of complex matrices on ${device}`, async () => {
    const list = (n: number, by: number) => Array.from({ length: n }, (_, i) => ((i * by) % 17 - 8) / 8);
    const matrix = (m: number, n: number): Tensor => {
      const [re, im] = [7, 5].map((by) => new Tensor(list(m * n, by), { dtype: "float32", device }).reshape([m, n]));
      return Tensor.complex(re, im).add(Tensor.eye(m, n).to(device)).realize();
    };
    const turned = (t: Tensor): Tensor => t.conj().transpose(-1, -2),
      one = (n: number): Tensor => Tensor.eye(n).to(device);
    for (const [m, n] of [[4, 3], [3, 4]]) {
      const a = matrix(m, n), [q, r] = a.qr();
      assert(await far(q.dot(r), a) < 1e-5 && await far(turned(q).dot(q), one(m)) < 1e-5);
      assert(Math.max(...await values(r.diagonal().imag().abs())) < 1e-5);
      const [u, s, vh] = a.svd(false), p = a.pinv();
      assert(s.dtype.name === "float32" && await far(u.mul(s.unsqueeze(0)).dot(vh), a) < 1e-5);
      assert(await far(turned(u).dot(u), one(3)) < 1e-5 && await far(a.dot(p).dot(a), a) < 1e-4);
    }
    const b = matrix(3, 3), h = b.dot(turned(b)).add(one(3)).realize(), [w, v] = h.eigh(), L = h.cholesky();
    assert(await far(h.dot(v), v.mul(w.unsqueeze(0))) < 1e-4 && await far(L.dot(turned(L)), h) < 1e-4);
    assert(await far(L.triu(1), L.mul(0)) === 0 && await far(h.slogdet()[1], h.det().abs().log()) < 1e-4);
    h.requiresGrad = true;
    const [slope] = h.eigvalsh().sum().gradient([h]); // of the trace
    assert(await far(slope, one(3)) < 1e-5);
    const tall = matrix(4, 3);
    tall.requiresGrad = true;
    assertThrows(() => tall.qr()[0].abs().sum().backward(), DTypeError, 'give { mode: "reduced" }');
    const x = matrix(3, 3), [values3, vectors] = await x.eig();
    assert(await far(x.dot(vectors), vectors.mul(values3.unsqueeze(0))) < 1e-5);
    assert(await far(values3.exp().sum(), x.matrixExp().trace()) < 1e-4);
  });
}

for (const device of await devicesHere()) {
  Deno.test(`svd: pairs of equal values, by rotations on ${device}`, async () => {
    const list = (by: number): number[] => Array.from({ length: 15 }, (_, i) => Math.sin(i * by + by) * 2);
    const [re, im] = [1.7, 0.9].map((by) => new Tensor(list(by), { dtype: "float32" }).reshape([5, 3]));
    const row = (a: Tensor, b: Tensor): Tensor => a.cat([b], 1), pairs = row(re, im.neg()).cat([row(im, re)], 0);
    const a = pairs.to(device).realize(),
      [u, s, v] = vmap((t: Tensor) => t.svd(false))(a.unsqueeze(0)).map((t) => t.squeeze(0));
    assert(await far(u.mul(s.unsqueeze(0)).dot(v), a) < 1e-5);
    assert(await far(v.dot(v.transpose(0, 1)), Tensor.eye(6).to(device)) < 1e-5);
  });
}

Deno.test("eig: values and vectors of real matrices, their gradients, and what has none", async () => {
  const a = new Tensor([[1, 2, 0.5], [-3, 0.25, 1], [0.5, -1, 2]], { dtype: "float64", requiresGrad: true });
  const [w] = await a.eig(), near = (x: number[]) => x.map((v) => Number(v.toFixed(4)));
  w.abs().pow(4).sum().backward(); // PyTorch's
  assertEquals(near(await values(a.grad!)), [
    12.2366,
    85.3746,
    16.9256,
    -58.2282,
    22.7581,
    27.1464,
    9.055,
    -31.0818,
    38.2172,
  ]);
  const [v, vectors] = await new Tensor([[2, 0], [0, 3]]).eig();
  assertEquals([await v.real().tolist(), await vectors.abs().tolist()], [[2, 3], [[1, 0], [0, 1]]]);
  const broken = await new Tensor([[[NaN, 1], [1, 1]], [[1, 0], [0, 5]]]).eigvals();
  assertEquals(await broken.real().tolist(), [[NaN, NaN], [1, 5]]);
  assertEquals((await Tensor.zeros([0, 3, 3]).eig())[1].shape, [0, 3, 3]);
  await assertRejects(() => Tensor.zeros([2, 3]).eig(), ShapeError, "it takes square matrices");
});

for (const device of await devicesHere()) {
  Deno.test(`pinv on ${device}: of full rank its gradient is that of inv, and what is left of rounding is not multiplied`, async () => {
    const list = Array.from({ length: 16 }, (_, i) => ((i * 7919 + 3) % 1009) / 256 - 2).with(0, 1.5);
    for (let i = 8; i < 12; i++) list[i] = Math.fround(list[i - 8] + list[i - 4] + 0.03 * list[i]); // nearly of rank 3
    const slope = (make: (t: Tensor) => Tensor, dtype: "float32" | "float64", device: string): Tensor => {
      const at = new Tensor(list, { dtype, device }).reshape([4, 4]).realize();
      at.requiresGrad = true;
      return make(at).square().sum().gradient([at])[0];
    };
    const exact = await values(slope((t) => t.inv(), "float64", "JS"));
    const found = await values(slope((t) => t.pinv(), "float32", device)), size = Math.max(...exact.map(Math.abs));
    // the slope is of the third degree in the inverse, which a rounding of the matrix moves by its condition
    const at = new Tensor(list, { dtype: "float64", device: "JS" }).reshape([4, 4]), condition = await at.cond().item();
    const allowed = 3 * condition * 2 ** -24 * size;
    for (const [i, x] of found.entries()) assert(Math.abs(x - exact[i]) <= allowed, `${i}: ${x}, not ${exact[i]}`);
    const one = new Tensor([[2, 0], [0, 0]], { dtype: "float32", device, requiresGrad: true });
    const weight = new Tensor([[1, 2], [3, 4]], { dtype: "float32", device });
    const [g] = one.pinv().mul(weight).sum().gradient([one]); // of rank 1: by the formula of Golub and Pereyra
    assertEquals(await g.tolist(), [[-0.25, 0.75], [0.5, 0]]);
  });
}

Deno.test("pinv of what is said to be Hermitian: values and slopes are those of the lower triangle, as PyTorch's where it is", async () => {
  const slope = (list: number[][], imaginary?: number[][]): Tensor => {
    const f64 = { dtype: "float64", device: "JS" } as const, re = new Tensor(list, f64);
    const a = (imaginary === undefined ? re : Tensor.complex(re, new Tensor(imaginary, f64))).realize();
    a.requiresGrad = true;
    const weight = Tensor.arange(9, f64).reshape([3, 3]), p = a.pinv({ hermitian: true });
    const sum = p.mul(imaginary === undefined ? weight : Tensor.complex(weight, weight.mul(2))).sum();
    return (imaginary === undefined ? sum : sum.real()).gradient([a])[0];
  };
  // torch.linalg.pinv(a, hermitian=True)
  const want = [[1.2840, -0.3765, 0.0432], [-0.4877, 0.1358, -0.0525], [-0.5123, 0.1142, -0.1975]];
  assertClose(await slope([[5, 6, 4], [6, 10, 4], [4, 4, 6]]).tolist(), want, 1e-3);
  assertClose(await slope([[5, 700, NaN], [6, 10, -3], [4, 4, 6]]).tolist(), want, 1e-3); // what is above is not looked at
  const lower = await slope([[10, 8, 6], [8, 12, 8], [6, 8, 16]], [[0, 4, 0], [-4, 0, 2], [0, -2, 0]]).viewAsReal()
    .tolist();
  assertClose(lower, [
    [[0.6272, -0.6104], [-0.6636, -0.2048], [0.1560, 0.2380]],
    [[0.0156, 0.7408], [0.5072, -0.2704], [-0.2320, -0.0160]],
    [[-0.4456, -0.1508], [0.0528, 0.3904], [0.0720, -0.1040]],
  ], 1e-4);
});
