/** Three programs of strangers: graphs, images, simulations. Values are those of NumPy, SciPy and PyTorch. */
import { Device, grad, jit, scan, Tensor, whileLoop } from "../../mod.ts";
import { is } from "./areas.ts";

Device.default = "WASM";
const f64 = { dtype: "float64" } as const;

Deno.test("areas: paths, ranks and components of graphs", async () => {
  const INF = Infinity, W = new Tensor([[0, 3, INF, 7], [8, 0, 2, INF], [5, INF, 0, 1], [2, INF, INF, 0]]);
  await is("floyd", () => {
    let d = W;
    for (let k = 0; k < 4; k++) d = d.minimum(d.at(":", [k, k + 1]).add(d.at([k, k + 1])));
    return d;
  }, [[0, 3, 5, 6], [5, 0, 2, 3], [3, 6, 0, 1], [2, 5, 7, 0]]);
  const src = new Tensor([0, 1, 2, 4, 5, 7]), dst = new Tensor([1, 2, 0, 5, 6, 8]);
  await is(
    "components",
    async () =>
      (await whileLoop((s: [Tensor, Tensor]) => s[1], ([l]: [Tensor, Tensor]): [Tensor, Tensor] => {
        const m = l.scatterReduce(0, dst, l.at(src), "amin").scatterReduce(0, src, l.at(dst), "amin");
        return [m, m.ne(l).any()];
      }, [Tensor.arange(9), new Tensor(true)] as [Tensor, Tensor]))[0],
    [0, 0, 0, 3, 4, 4, 4, 7, 7],
  );
  const A = Tensor.zeros([6, 6]);
  A.setAt([new Tensor([0, 0, 1, 2, 3, 4, 5, 2]), new Tensor([1, 2, 2, 0, 4, 5, 3, 3])], 1);
  await is("pagerank", () => {
    const P = A.div(A.sum(1, { keepdim: true })).T;
    let r = Tensor.full([6], 1 / 6);
    for (let k = 0; k < 60; k++) r = P.matmul(r).mul(0.85).add(0.15 / 6).realize();
    return r;
  }, [0.067067161, 0.0535035434, 0.0989815554, 0.275681552, 0.259333761, 0.245432428]);
  await is("triangles", () => {
    const S = A.maximum(A.T);
    return S.matrixPower(3).trace().div(6);
  }, 2);
  await is("bfs", () => {
    let seen = Tensor.zeros([6]).contiguous(), dist = Tensor.full([6], -1);
    seen.setAt([0], 1);
    dist.setAt([0], 0);
    let front = seen;
    for (let d = 1; d < 6; d++) {
      front = A.T.matmul(front).gt(0).logicalAnd(seen.eq(0)).float();
      dist = front.gt(0).where(d, dist);
      seen = seen.add(front);
    }
    return dist;
  }, [0, 1, 1, 2, 3, 4]);
  await is("laplacian", () => {
    const S = A.maximum(A.T), L = S.sum(1).diag().sub(S);
    return L.double().eigvalsh();
  }, [1.41553436e-15, 0.438447187, 3, 3, 3, 4.56155281]);
  await is("degree", () => A.sum(0).int(), [1, 1, 2, 2, 1, 1]);
  await is("toposort", () => {
    const D = Tensor.zeros([4, 4]);
    D.setAt([new Tensor([0, 0, 1, 2]), new Tensor([1, 2, 3, 3])], 1);
    let lvl = Tensor.zeros([4]);
    for (let k = 0; k < 4; k++) lvl = lvl.maximum(D.mul(lvl.add(1).unsqueeze(1)).max(0));
    return lvl;
  }, [0, 1, 1, 2]);
  await is("closure", () => {
    let r = A.gt(0);
    for (let k = 0; k < 3; k++) r = r.logicalOr(r.float().matmul(r.float()).gt(0));
    return r.sum(1);
  }, [6, 6, 6, 3, 3, 3]);
  await is("gcn", () => {
    const S = A.maximum(A.T).add(Tensor.eye(6)), d = S.sum(1).rsqrt();
    return S.mul(d).mul(d.unsqueeze(1)).matmul(Tensor.arange(6).float());
  }, [0.910683603, 0.910683603, 1.53867513, 3.84807621, 3.8660254, 3.8660254]);
  await is("edges", async () => (await A.nonzero()).at([0, 3]), [[0, 1], [0, 2], [1, 2]]);
  await is("kruskalweight", async () => {
    const u = [0, 0, 1, 1, 2], v = [1, 2, 2, 3, 3], w = new Tensor([4, 1, 2, 5, 8]);
    const order = await w.argsort().tolist() as number[];
    const p = [0, 1, 2, 3];
    const find = (a: number): number => p[a] === a ? a : find(p[a]);
    const used: number[] = [];
    for (const e of order) {
      const a = find(u[e]), b = find(v[e]);
      if (a !== b) {
        p[a] = b;
        used.push(e);
      }
    }
    return w.at(new Tensor(used)).sum();
  }, 8);
});

Deno.test("areas: filters, colors and histograms of images", async () => {
  const img = Tensor.arange(64).mul(37).mod(256).reshape([8, 8]).cast("uint8").realize(),
    x = img.float().reshape([1, 1, 8, 8]);
  const sob = new Tensor([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]).float();
  await is("sobel", () => {
    const k = Tensor.stack([sob, sob.T]).unsqueeze(1), g = x.conv2d(k);
    return g.square().sum(1).sqrt().at(0, 2, [0, 4]);
  }, [435.908247, 75.4718491, 650.759556, 650.759556]);
  await is("blur", () => {
    const r = Tensor.arange(-2, 3).float(), g = r.square().div(-2).exp(), k = g.div(g.sum());
    return x.pad([2, 2, 2, 2], { mode: "reflect" }).conv2d(k.reshape([1, 1, 1, 5])).conv2d(k.reshape([1, 1, 5, 1])).at(
      0,
      0,
      0,
      [0, 4],
    );
  }, [54.3895215, 69.2864595, 102.254297, 137.73416]);
  await is("equalize", () => {
    const h = img.flatten().int().bincount({ size: 256 }), c = h.cumsum(), lo = c.gt(0).where(c, 1000).min();
    return c.sub(lo).mul(255).div(c.at(-1).sub(lo)).round().cast("uint8").at(img.int()).at(0);
  }, [0, 40, 77, 113, 150, 186, 223, 4]);
  await is("otsu", () => {
    const h = img.flatten().int().bincount({ size: 256 }).double(),
      p = h.div(h.sum()),
      w = p.cumsum(),
      m = p.mul(Tensor.arange(256)).cumsum(),
      mt = m.at(-1);
    const v = mt.mul(w).sub(m).square().div(w.mul(w.neg().add(1)));
    return v.nanToNum({ nan: 0, posinf: 0 }).argmax();
  }, 120);
  await is("dilate", () => x.maxPool2d(3, { stride: 1, padding: 1 }).at(0, 0, 3), [
    197,
    234,
    234,
    234,
    231,
    228,
    163,
    163,
  ]);
  await is("erode", () => x.neg().maxPool2d(3, { stride: 1, padding: 1 }).neg().at(0, 0, 3), [
    80,
    80,
    15,
    12,
    9,
    9,
    9,
    46,
  ]);
  await is("integral", () => {
    const s = img.int().cumsum(0).cumsum(1).pad([1, 0, 1, 0]);
    return s.at(6, 7).sub(s.at(2, 7)).sub(s.at(6, 3)).add(s.at(2, 3));
  }, 1576);
  await is("resize", () => x.interpolate([4, 4], { mode: "bilinear" }).at(0, 0, 1), [118.5, 192.5, 74.5, 84.5]);
  await is("bicubic", () => x.interpolate([16, 16], { mode: "bicubic" }).at(0, 0, 5, [0, 4]), [
    87.9726562,
    98.9570312,
    116.589844,
    139.542969,
  ]);
  await is("area", () => x.interpolate([3, 3], { mode: "area" }).at(0, 0, 1), [155.666672, 109.5, 106]);
  await is("rot90", () => img.rot90().at(0), [3, 43, 83, 123, 163, 203, 243, 27]);
  const rgb = new Tensor([[0.2, 0.4, 0.6], [0.9, 0.1, 0.3], [0.5, 0.5, 0.5]]);
  await is("hsv", () => {
    const mx = rgb.max(1), mn = rgb.min(1), d = mx.sub(mn), [r, g, b] = rgb.unbind(1), k = d.eq(0).where(1, d);
    const h = mx.eq(r).where(g.sub(b).div(k).mod(6), mx.eq(g).where(b.sub(r).div(k).add(2), r.sub(g).div(k).add(4)))
      .div(6);
    return Tensor.stack([h, mx.eq(0).where(0, d.div(mx)), mx], 1);
  }, [[0.583333333, 0.666666667, 0.6], [0.958333333, 0.888888889, 0.9], [0, 0, 0.5]]);
  await is("gray", () => rgb.matmul(new Tensor([0.299, 0.587, 0.114])), [0.363, 0.362, 0.5]);
  await is("saturate", () => img.int().add(100).clamp(0, 255).cast("uint8").at(0), [
    100,
    137,
    174,
    211,
    248,
    255,
    255,
    103,
  ]);
  await is("wrap", () => img.add(100).at(0), [100, 137, 174, 211, 248, 29, 66, 103]);
  await is("median", () => x.unfold(2, 3, 1).unfold(3, 3, 1).flatten(4).median(-1).at(0, 0, 0), [
    77,
    114,
    151,
    185,
    185,
    46,
  ]);
  await is("psnr", () => {
    const n = img.float().add(Tensor.arange(8).sub(4)), mse = n.sub(img.float()).square().mean();
    return mse.reciprocal().mul(255 * 255).log10().mul(10);
  }, 40.7271767);
  await is("affine", () => {
    const th = new Tensor([[[0, -1, 0], [1, 0, 0]]]).float();
    return x.gridSample(th.affineGrid([1, 1, 8, 8])).at(0, 0, 0);
  }, [3, 43, 83, 123, 163, 203, 243, 27]);
  await is("patches", () => img.rearrange("(a p) (b q) -> (a b) (p q)", { p: 4, q: 4 }).at(1, [0, 6]), [
    148,
    185,
    222,
    3,
    188,
    225,
  ]);
  await is("onehotmask", () => img.div(64).floor().int().oneHot(4).sum([0, 1]), [19, 15, 15, 15]);
  await is("blend", () => img.lerp(img.flip(1), 0.25).at(0, [0, 3]), [0.75, 83.25, 101.75]);
});

Deno.test("areas: automata, equations of motion and chains", async () => {
  const glider = Tensor.zeros([6, 6], { dtype: "int32" }).contiguous();
  glider.setAt([new Tensor([0, 1, 2, 2, 2]), new Tensor([1, 2, 0, 1, 2])], 1);
  await is("life", () => {
    let g: Tensor = glider;
    for (let k = 0; k < 4; k++) {
      let n: Tensor = g.neg();
      for (const i of [-1, 0, 1]) for (const j of [-1, 0, 1]) n = n.add(g.roll([i, j], [0, 1]));
      g = n.eq(3).logicalOr(g.eq(1).logicalAnd(n.eq(2))).int();
    }
    return g;
  }, [[0, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0], [0, 0, 0, 1, 0, 0], [0, 1, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0], [
    0,
    0,
    0,
    0,
    0,
    0,
  ]]);
  const lorenz = (s: Tensor) => {
    const [x, y, z] = s.unbind();
    return Tensor.stack([y.sub(x).mul(10), x.mul(z.neg().add(28)).sub(y), x.mul(y).sub(z.mul(8 / 3))]);
  };
  const rk = (s: Tensor): Tensor => {
    const h = 0.01,
      a = lorenz(s),
      b = lorenz(s.add(a.mul(h / 2))),
      c = lorenz(s.add(b.mul(h / 2))),
      d = lorenz(s.add(c.mul(h)));
    return s.add(a.add(b.mul(2)).add(c.mul(2)).add(d).mul(h / 6));
  };
  await is("lorenz", () => {
    const [, path] = scan(
      (s: Tensor): [Tensor, Tensor] => {
        const n = rk(s);
        return [n, n];
      },
      new Tensor([1, 1, 1], f64),
      undefined,
      { length: 50 },
    ) as [Tensor, Tensor];
    return path.at(-1);
  }, [1.19856496, -8.867139, 32.4549326]);
  await is("lorenzjit", () => {
    const f = jit(rk);
    let s: Tensor = new Tensor([1, 1, 1], f64).realize();
    for (let k = 0; k < 50; k++) s = f(s);
    return s;
  }, [1.19856496, -8.867139, 32.4549326]);
  await is("implicit", () => {
    const n = 8,
      off = Tensor.ones([n - 1], f64),
      L = Tensor.eye(n, f64).mul(-2).add(off.diagEmbed({ offset: 1 })).add(off.diagEmbed({ offset: -1 }));
    let u: Tensor = Tensor.arange(n, f64).mul(7).mod(5);
    const M = Tensor.eye(n, f64).sub(L.mul(0.3)).inv();
    for (let k = 0; k < 5; k++) u = M.matmul(u);
    return u;
  }, [0.732431966, 1.51251539, 2.00332378, 1.97951157, 1.84793574, 1.61418664, 1.5330036, 1.12681265]);
  await is("wave", () => {
    let a: Tensor = Tensor.arange(16, f64).mul(2 * Math.PI / 16).sin(), b = a;
    for (let k = 0; k < 6; k++) [a, b] = [b, b.mul(2).sub(a).add(b.roll(1).add(b.roll(-1)).sub(b.mul(2)).mul(0.25))];
    return b.at([0, 4]);
  }, [2.16406754e-16, 0.113885878, 0.210433663, 0.27494483]);
  await is("nbody", () => {
    let p: Tensor = new Tensor([[0, 0], [1, 0], [0, 2]], f64), v: Tensor = new Tensor([[0, 0], [0, 1], [-0.5, 0]], f64);
    const m = new Tensor([1, 0.5, 0.1], f64);
    const acc = (p: Tensor) => {
      const d = p.unsqueeze(0).sub(p.unsqueeze(1)), r = d.square().sum(-1).add(0.01).pow(-1.5);
      return d.mul(r.unsqueeze(-1)).mul(m.reshape([1, 3, 1])).sum(1);
    };
    for (let k = 0; k < 10; k++) {
      v = v.add(acc(p).mul(0.005));
      p = p.add(v.mul(0.01));
      v = v.add(acc(p).mul(0.005));
    }
    return p;
  }, [[0.00246182859, 0.0002059321], [0.995027539, 0.0999276273], [-0.0497559795, 1.99830254]]);
  await is("logistic", () => {
    let x: Tensor = new Tensor([0.1, 0.2, 0.3], f64);
    const r = new Tensor([2.5, 3.2, 3.9], f64);
    for (let k = 0; k < 20; k++) x = r.mul(x).mul(x.neg().add(1));
    return x;
  }, [0.599999883, 0.79945549, 0.800274852]);
  await is("ca110", () => {
    let r: Tensor = Tensor.zeros([16], { dtype: "int32" }).contiguous();
    r.setAt([-1], 1);
    const rule = new Tensor([0, 1, 1, 1, 0, 1, 1, 0]);
    for (let k = 0; k < 6; k++) r = rule.at(r.roll(1).mul(4).add(r.mul(2)).add(r.roll(-1)));
    return r;
  }, [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1]);
  await is("markov", () => new Tensor([[0.9, 0.1, 0], [0.2, 0.7, 0.1], [0, 0.3, 0.7]], f64).matrixPower(50).at(0), [
    0.600004757,
    0.299997621,
    0.0999976213,
  ]);
  await is("expm", () => new Tensor([[0, 1], [-2, -3]], f64).matrixExp().matmul(new Tensor([1, 0], f64)), [
    0.600423599,
    -0.465088316,
  ]);
  await is("sandpile", async () => {
    const done = await whileLoop(
      (g: Tensor) => g.ge(4).any(),
      (g: Tensor): Tensor => {
        const t = g.floorDiv(4), p = t.pad([1, 1, 1, 1]);
        return g.sub(t.mul(4)).add(p.at([0, -2], [1, -1])).add(p.at([2, null], [1, -1])).add(p.at([1, -1], [0, -2]))
          .add(p.at([1, -1], [2, null]));
      },
      Tensor.zeros([5, 5], { dtype: "int32" }).add(
        new Tensor([[0, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 40, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]]),
      ) as Tensor,
    );
    return done;
  }, [[0, 1, 3, 1, 0], [1, 2, 3, 2, 1], [3, 3, 0, 3, 3], [1, 2, 3, 2, 1], [0, 1, 3, 1, 0]]);
  await is("randomwalk", () => Tensor.arange(10).mul(7).mod(3).sub(1).cumsum(), [-1, -1, 0, -1, -1, 0, -1, -1, 0, -1]);
  await is("ode_adjoint", () => {
    const k = new Tensor([0.7], f64);
    const f = (k: Tensor) => {
      let y: Tensor = new Tensor(1, f64);
      for (let i = 0; i < 10; i++) y = y.sub(k.sum().mul(y).mul(0.1));
      return y;
    };
    return grad(f)(k);
  }, [-0.520411083]);
});
