/** Two programs of strangers: Bayesian sampling and filtering, tables as pandas has them. Values are those of NumPy, SciPy and PyTorch. */
import { Device, grad, jacobian, scan, Tensor } from "../../mod.ts";
import { is } from "./areas.ts";

Device.default = "WASM";
const f64 = { dtype: "float64" } as const;

Deno.test("areas: posteriors, filters, hidden states and mixtures", async () => {
  const u = Tensor.arange(40, f64).mul(0.6180339887498949).mod(1).realize(),
    z = u.mul(2).sub(1).clamp(-0.999, 0.999).erfinv().mul(Math.SQRT2).realize();
  await is("grid", () => {
    const p = Tensor.linspace(0.01, 0.99, 99, f64), l = p.log().mul(7).add(p.neg().log1p().mul(3)), w = l.softmax(0);
    return Tensor.stack([p.mul(w).sum(), p.square().mul(w).sum()]);
  }, [0.666666703, 0.461538521]);
  await is("metropolis", () => {
    const lp = (x: Tensor) => x.square().div(-2);
    const [, xs] = scan(
      (x: Tensor, [e, v]: [Tensor, Tensor]): [Tensor, Tensor] => {
        const n = x.add(e.mul(1.5)), ok = v.log().lt(lp(n).sub(lp(x))), y = ok.where(n, x) as Tensor;
        return [y, y];
      },
      new Tensor(0.5, f64),
      [z, u.flip(0)] as [Tensor, Tensor],
    ) as [Tensor, Tensor];
    return xs.at([30, 40]);
  }, [
    1.817498,
    0.319965676,
    1.46355709,
    1.06456498,
    -2.26781539,
    -1.76530685,
    -1.76530685,
    -0.0950256885,
    -0.150341064,
    -2.04458255,
  ]);
  await is("kalman", () => {
    const ys = z.at([0, 20]).cumsum();
    const [, out] = scan(
      ([m, P]: [Tensor, Tensor], y: Tensor): [[Tensor, Tensor], Tensor] => {
        const p = P.add(1), K = p.div(p.add(0.5)), n = m.add(K.mul(y.sub(m)));
        return [[n, p.mul(K.neg().add(1))], n];
      },
      [new Tensor(0, f64), new Tensor(1, f64)] as [Tensor, Tensor],
      ys,
    ) as [unknown, Tensor];
    return out.at([15, 20]);
  }, [-4.37523137, -3.60807011, -3.39043918, -4.17562135, -3.90906177]);
  await is("gp", () => {
    const x = Tensor.linspace(0, 4, 9, f64),
      y = x.sin(),
      q = new Tensor([0.3, 2.2, 5], f64),
      K = (a: Tensor, b: Tensor) => a.unsqueeze(1).sub(b).square().div(-2).exp(),
      L = K(x, x).add(Tensor.eye(9, f64).mul(0.01)).cholesky(),
      al = y.unsqueeze(1).choleskySolve(L),
      m = K(q, x).matmul(al).squeeze(1),
      v = L.solveTriangular(K(x, q), { upper: false });
    return Tensor.stack([m, v.square().sum(0).neg().add(1)]);
  }, [[0.279293257, 0.803147104, -0.666904234], [0.00631642787, 0.0056132688, 0.408164826]]);
  await is("hmm", () => {
    const A = new Tensor([[0.7, 0.3], [0.4, 0.6]], f64).log(),
      B = new Tensor([[0.1, 0.4, 0.5], [0.6, 0.3, 0.1]], f64).log(),
      obs = new Tensor([2, 1, 0, 0, 2, 1]);
    const first = new Tensor([0.6, 0.4], f64).log().add(B.at(":", 2));
    const [end] = scan(
      (a: Tensor, o: Tensor): [Tensor, Tensor] => {
        const n = a.unsqueeze(1).add(A).logsumexp(0).add(B.at(":", o));
        return [n, n];
      },
      first,
      obs.at([1, null]),
    ) as [Tensor, Tensor];
    return end.logsumexp(0);
  }, -6.61721056);
  await is("viterbi", async () => {
    const A = new Tensor([[0.7, 0.3], [0.4, 0.6]], f64).log(),
      B = new Tensor([[0.1, 0.4, 0.5], [0.6, 0.3, 0.1]], f64).log(),
      obs = [2, 1, 0, 0, 2, 1];
    let d: Tensor = new Tensor([0.6, 0.4], f64).log().add(B.at(":", 2));
    const back: Tensor[] = [];
    for (const o of obs.slice(1)) {
      const s = d.unsqueeze(1).add(A);
      back.push(s.argmax(0));
      d = s.max(0).add(B.at(":", o));
    }
    let k = await d.argmax().item();
    const path = [k];
    for (const b of back.reverse()) {
      k = await b.at(k).item();
      path.unshift(k);
    }
    return path;
  }, [0, 0, 1, 1, 0, 0]);
  await is("em", () => {
    const x = Tensor.cat([z.at([0, 20]).sub(2), z.at([20, 40]).mul(0.5).add(3)]);
    let mu: Tensor = new Tensor([-1, 1], f64),
      s: Tensor = new Tensor([1, 1], f64),
      w: Tensor = new Tensor([0.5, 0.5], f64);
    for (let k = 0; k < 10; k++) {
      const l = x.unsqueeze(1).sub(mu).div(s).square().div(-2).sub(s.log()).add(w.log()),
        r = l.softmax(1),
        n = r.sum(0);
      mu = r.mul(x.unsqueeze(1)).sum(0).div(n);
      s = r.mul(x.unsqueeze(1).sub(mu).square()).sum(0).div(n).sqrt().realize();
      w = n.div(40);
      Tensor.realize([mu, s, w]);
    }
    return Tensor.stack([mu, s, w]);
  }, [[-2.18902271, 2.96881189], [1.12814377, 0.506225492], [0.500186426, 0.499813574]]);
  await is("laplace", () => {
    const x = z.at([0, 12]).reshape([6, 2]),
      y = new Tensor([1, 0, 1, 1, 0, 0], f64),
      f = (w: Tensor) => x.matmul(w).binaryCrossentropyLogits(y, { reduction: "sum" }).add(w.square().sum().div(2));
    let w: Tensor = Tensor.zeros([2], f64);
    const g = grad(f);
    for (let k = 0; k < 6; k++) w = w.sub(jacobian(g)(w).solve(g(w))).realize();
    return w;
  }, [-0.45024339, -1.06958698]);
  await is("beta", () => {
    const a = new Tensor([2, 5], f64), b = new Tensor([3, 1], f64);
    return a.lgamma().add(b.lgamma()).sub(a.add(b).lgamma());
  }, [-2.48490665, -1.60943791]);
  await is("digamma", () => new Tensor([0.5, 3.5], f64).digamma(), [-1.96351003, 1.10315664]);
  await is("kl", () => {
    const p = new Tensor([0.2, 0.5, 0.3], f64), q = new Tensor([0.3, 0.3, 0.4], f64);
    return p.mul(p.log().sub(q.log())).sum();
  }, 0.0880151685);
  await is("ess", () => {
    const x = z.sub(z.mean()), ac = x.correlate(x, { mode: "full" }).at([39, null]), r = ac.div(ac.at(0));
    return r.at([1, 6]);
  }, [-0.254618638, -0.0450982174, 0.0263344749, -0.2490882, 0.336173779]);
  await is("resample", () => {
    const w = u.at([0, 6]).div(u.at([0, 6]).sum()), c = w.cumsum(), at = Tensor.arange(6, f64).add(0.5).div(6);
    return c.searchsorted(at);
  }, [1, 1, 3, 3, 3, 4]);
  await is("mvn", () => {
    const S = new Tensor([[2, 0.5], [0.5, 1]], f64),
      x = new Tensor([[0, 0], [1, -1]], f64),
      L = S.cholesky(),
      y = L.solveTriangular(x.T, { upper: false });
    return y.square().sum(0).add(L.diagonal().log().sum().mul(2)).add(2 * Math.log(2 * Math.PI)).div(-2);
  }, [-2.11768496, -3.2605421]);
});

Deno.test("areas: groups, windows, gaps and joins of tables", async () => {
  const key = new Tensor([2, 0, 1, 2, 0, 2, 1]),
    v = new Tensor([10, 20, 30, 40, 50, 60, 70], f64),
    nan = new Tensor([NaN, 1, NaN, NaN, 4, 5, NaN], f64);
  await is("gsum", () => Tensor.zeros([3], f64).indexAdd(0, key, v), [70, 100, 110]);
  await is("gmean", () => Tensor.zeros([3], f64).scatterReduce(0, key, v, "mean", false), [35, 50, 36.6666667]);
  await is("gmax", () => Tensor.zeros([3], f64).scatterReduce(0, key, v, "amax", false), [50, 70, 60]);
  await is("gmin", () => Tensor.zeros([3], f64).scatterReduce(0, key, v, "amin", false), [20, 30, 10]);
  await is("gprod", () => Tensor.ones([3], f64).scatterReduce(0, key, v, "prod"), [1000, 2100, 24000]);
  await is("gvar", () => {
    const n = key.bincount({ size: 3 }), m = Tensor.zeros([3], f64).indexAdd(0, key, v).div(n);
    return Tensor.zeros([3], f64).indexAdd(0, key, v.sub(m.at(key)).square()).div(n.sub(1));
  }, [450, 800, 633.333333]);
  await is("transform", () => v.sub(Tensor.zeros([3], f64).scatterReduce(0, key, v, "mean", false).at(key)), [
    -26.6666667,
    -15,
    -20,
    3.33333333,
    15,
    23.3333333,
    20,
  ]);
  await is("cumcount", () => {
    const o = key.argsort(), s = key.at(o), first = s.searchsorted(s);
    return Tensor.arange(7).sub(first).at(o.argsort());
  }, [0, 0, 0, 1, 1, 2, 1]);
  await is("gcumsum", () => {
    const o = key.argsort(), s = key.at(o), c = v.at(o).cumsum(), first = s.searchsorted(s);
    return c.sub(c.at(first)).add(v.at(o).at(first)).at(o.argsort());
  }, [10, 20, 30, 50, 70, 110, 100]);
  await is("rolling", () => v.unfold(0, 3, 1).mean(1), [20, 30, 40, 50, 60]);
  await is("rollmax", () => v.flip(0).unfold(0, 3, 2).max(1), [70, 50, 30]);
  await is("ewm", () => {
    const [, y] = scan(
      (s: Tensor, x: Tensor): [Tensor, Tensor] => {
        const n = s.mul(0.7).add(x.mul(0.3));
        return [n, n];
      },
      v.at(0),
      v.at([1, null]),
    ) as [Tensor, Tensor];
    return y;
  }, [13, 18.1, 24.67, 32.269, 40.5883, 49.41181]);
  await is("pct", () => v.diff().div(v.at([0, -1])), [1, 0.5, 0.333333333, 0.25, 0.2, 0.166666667]);
  await is("shift", () => Tensor.cat([new Tensor([NaN], f64), v.at([0, -1])]), [NaN, 10, 20, 30, 40, 50, 60]);
  await is("ffill", () => {
    const ok = nan.isnan().logicalNot(), last = ok.where(Tensor.arange(7), -1).cummax(0)[0];
    return last.ge(0).where(nan.at(last.clamp(0)), NaN);
  }, [NaN, 1, 1, 1, 4, 5, 5]);
  await is("bfill", () => {
    const r = nan.flip(0), ok = r.isnan().logicalNot(), last = ok.where(Tensor.arange(7), -1).cummax(0)[0];
    return last.ge(0).where(r.at(last.clamp(0)), NaN).flip(0);
  }, [1, 1, 4, 4, 4, 5, NaN]);
  await is("fillmean", () => nan.isnan().where(nan.nanmean(), nan), [
    3.33333333,
    1,
    3.33333333,
    3.33333333,
    4,
    5,
    3.33333333,
  ]);
  await is(
    "nanstats",
    () => Tensor.stack([nan.nansum(), nan.nanmean(), nan.nanmedian(), nan.nanquantile(0.25), nan.isnan().sum()]),
    [10, 3.33333333, 4, 2.5, 4],
  );
  await is("dropna", () => nan.maskedSelect(nan.isnan().logicalNot()), [1, 4, 5]);
  await is("counts", async () => {
    const [u, c] = await key.unique({ returnCounts: true });
    return Tensor.stack([u, c]);
  }, [[0, 1, 2], [2, 2, 3]]);
  await is("factorize", async () => {
    const [, inv] = await new Tensor([30, 10, 30, 20]).unique({ returnInverse: true });
    return inv;
  }, [2, 0, 2, 1]);
  await is("pivot", () => {
    const row = key, col = new Tensor([0, 1, 0, 1, 1, 0, 1]);
    return Tensor.zeros([6], f64).indexAdd(0, row.mul(2).add(col), v).reshape([3, 2]);
  }, [[0, 70], [30, 70], [70, 40]]);
  await is("rank", () => {
    const x = new Tensor([3, 1, 3, 2], f64),
      lo = x.sort()[0].searchsorted(x),
      hi = x.sort()[0].searchsorted(x, { right: true });
    return lo.add(hi).add(1).div(2);
  }, [3.5, 1, 3.5, 2]);
  await is("merge", async () => {
    const a = new Tensor([1, 3, 5, 7]),
      b = new Tensor([7, 3, 9]),
      o = b.argsort(),
      p = b.at(o).searchsorted(a).clamp(0, 2),
      hit = b.at(o).at(p).eq(a);
    return Tensor.stack([await a.maskedSelect(hit), o.at(await p.maskedSelect(hit))]);
  }, [[3, 7], [1, 0]]);
  await is("cut", () => v.digitize([25, 45]), [0, 0, 1, 1, 2, 2, 2]);
  await is("qcut", () => v.bucketize(v.quantile(new Tensor([0.25, 0.5, 0.75], f64))), [0, 0, 1, 1, 2, 3, 3]);
  await is("nlargest", () => v.topk(3)[1], [6, 5, 4]);
  await is("dups", () => {
    const o = key.argsort(), s = key.at(o);
    return Tensor.cat([new Tensor([false]), s.at([1, null]).eq(s.at([0, -1]))]).at(o.argsort());
  }, [false, false, false, true, true, true, true]);
  await is("crosstab", () => key.mul(2).add(new Tensor([0, 1, 0, 1, 1, 0, 1])).bincount({ size: 6 }).reshape([3, 2]), [
    [0, 2],
    [1, 1],
    [2, 1],
  ]);
  await is("melt", () => {
    const t = new Tensor([[1, 2], [3, 4], [5, 6]]);
    return Tensor.stack([Tensor.arange(3).repeat([2]), Tensor.arange(2).repeatInterleave(3), t.T.flatten()]);
  }, [[0, 1, 2, 0, 1, 2], [0, 0, 0, 1, 1, 1], [1, 3, 5, 2, 4, 6]]);
  await is("corr", () => Tensor.stack([v, v.square(), v.flip(0).sqrt()]).corrcoef(), [[1, 0.977355555, -0.991319271], [
    0.977355555,
    1,
    -0.995886154,
  ], [-0.991319271, -0.995886154, 1]]);
  await is("expanding", () => v.cumsum().div(Tensor.arange(1, 8)), [10, 15, 20, 25, 30, 35, 40]);
  await is("clipq", () => v.clip(v.quantile(0.1), v.quantile(0.9)), [16, 20, 30, 40, 50, 60, 64]);
  await is("sortby", () => {
    const o = v.neg().argsort(), p = key.at(o).argsort();
    return o.at(p);
  }, [4, 1, 6, 2, 5, 3, 0]);
  await is("interp", async () => {
    const i = Tensor.arange(7, f64), ok = nan.isnan().logicalNot();
    return i.interp(await i.maskedSelect(ok), await nan.maskedSelect(ok));
  }, [1, 1, 2, 3, 4, 5, 5]);
});
