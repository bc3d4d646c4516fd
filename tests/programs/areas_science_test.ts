/** Three programs of strangers who come from SciPy: signals, statistics, interpolation. Values are those of NumPy, SciPy and PyTorch. */
import { Device, fft, grad, scan, Tensor, windows } from "../../mod.ts";
import { is } from "./areas.ts";

Device.default = "WASM";
const f64 = { dtype: "float64" } as const;

Deno.test("areas: filters, spectra and envelopes of signals", async () => {
  const n = 128, t = Tensor.arange(n, f64).div(64);
  const x = t.mul(2 * Math.PI * 4).sin().add(t.mul(2 * Math.PI * 21).sin().mul(0.3)).realize();
  const b = new Tensor([0.0674552738890719, 0.1349105477781438, 0.0674552738890719], f64),
    a = [1, -1.142980502539901, 0.412801598096189];
  // direct form II transposed
  const [, y] = scan(
    (z: Tensor, v: Tensor): [Tensor, Tensor] => {
      const o = v.mul(b.at(0)).add(z.at(0));
      return [Tensor.stack([v.mul(b.at(1)).sub(o.mul(a[1])).add(z.at(1)), v.mul(b.at(2)).sub(o.mul(a[2]))]), o];
    },
    Tensor.zeros([2], f64),
    x,
  ) as [Tensor, Tensor];
  await is("lfilter", () => y.at([60, 64]), [-0.536926235, -0.801187548, -0.931795185, -0.900034288]);
  await is("fir", () => x.convolve(windows.hann(9, { periodic: false }).double(), { mode: "valid" }).at([0, 4]), [
    3.377281,
    3.15377889,
    2.40561173,
    1.27997342,
  ]);
  const w = windows.hann(32).double();
  const seg = x.unfold(0, 32, 16).sub(x.unfold(0, 32, 16).mean(1, { keepdim: true })).mul(w);
  const p = fft.rfft(seg).abs().square().mean(0).div(w.square().sum().mul(64));
  await is(
    "welch",
    () => p.mul(Tensor.cat([Tensor.ones([1]), Tensor.ones([15]).mul(2), Tensor.ones([1])]).double()).at([0, 5]),
    [1.8730289e-5, 0.0416745387, 0.166672128, 0.0416618916, 2.08847656e-8],
  );
  const h = Tensor.zeros([n], f64);
  h.setAt([0], 1);
  h.setAt([n / 2], 1);
  h.setAt([[1, n / 2]], 2);
  await is("hilbert", () => fft.ifft(fft.fft(x).mul(h)).abs().at([10, 14]), [
    0.869860828,
    1.27245933,
    1.14874282,
    0.718217097,
  ]);
  const F = fft.rfft(x);
  await is("resample", () => fft.irfft(F, -1, { n: 256 }).mul(2).at([0, 5]), [
    9.86076132e-32,
    0.452408905,
    0.647259812,
    0.570290535,
    0.457665897,
  ]);
  await is("autocorr", () => fft.irfft(fft.rfft(x, -1, { n: 256 }).abs().square(), -1, { n: 256 }).at([0, 4]), [
    69.76,
    56.4130449,
    42.4736947,
    30.8164612,
  ]);
  await is(
    "peaks",
    () =>
      x.at([1, -1]).gt(x.at([0, -2])).logicalAnd(x.at([1, -1]).gt(x.at([2, null]))).nonzero().then((i) =>
        i.flatten().add(1)
      ),
    [
      1,
      4,
      7,
      10,
      13,
      16,
      19,
      22,
      25,
      28,
      34,
      37,
      40,
      43,
      47,
      50,
      52,
      55,
      58,
      62,
      65,
      68,
      71,
      74,
      77,
      80,
      83,
      86,
      89,
      92,
      98,
      101,
      104,
      107,
      111,
      114,
      116,
      119,
      122,
      126,
    ],
  );
  await is("decimate", () => x.at([null, null, 16]), [
    0,
    0.3,
    -7.8414534e-16,
    -0.3,
    -3.91144199e-16,
    0.3,
    -2.35243602e-15,
    -0.3,
  ]);
  await is("rms", () => x.square().unfold(0, 32, 32).mean(1).sqrt(), [
    0.738241153,
    0.738241153,
    0.738241153,
    0.738241153,
  ]);
  await is("detrend", () => {
    const A = Tensor.stack([t, t.onesLike()], 1);
    const [c] = A.lstsq(x.add(t.mul(3)).unsqueeze(1));
    return c.flatten();
  }, [2.87794991, 0.121096571]);
  await is("dct2", () => {
    const v = x.at([0, 8]), N = 8;
    const k = Tensor.arange(8, f64);
    return k.unsqueeze(1).mul(k.mul(2).add(1)).mul(Math.PI / (2 * N)).cos().matmul(v).mul(2);
  }, [10.5737711, -1.72565712, -2.66320443, -0.228426055, 0.559918252, -1.46942731, -1.41962082, 0.101165295]);
  await is(
    "stft",
    () =>
      x.float().stft(32, { hopLength: 16, window: windows.hann(32), center: false, returnComplex: true }).abs().at([
        3,
        6,
      ], 2),
    [4.00000048, 0.00292444718, 0.00475587184],
  );
  await is("medfilt", () => x.pad([2, 2]).unfold(0, 5, 1).median(-1).at([0, 4]), [
    0,
    0.457665897,
    0.647259812,
    0.691976397,
  ]);
});

Deno.test("areas: tests, moments and tables of statistics", async () => {
  const i = Tensor.arange(50, f64),
    x = i.mul(37).mod(23).add(i.mul(0.1)).realize(),
    y = x.mul(0.7).add(i.mul(11).mod(17)).realize();
  await is("ttest", () => x.mean().sub(y.mean()).div(x.var().div(50).add(y.var().div(50)).sqrt()), -2.881635);
  await is("pearson", () => Tensor.stack([x, y]).corrcoef().at(0, 1), 0.701302406);
  const rank = (v: Tensor) => v.argsort().argsort();
  await is("spearman", () => Tensor.stack([rank(x).double(), rank(y).double()]).corrcoef().at(0, 1), 0.684897959);
  await is("skewkurt", () => {
    const c = x.sub(x.mean()), s = c.square().mean();
    return Tensor.stack([c.pow(3).mean().div(s.pow(1.5)), c.pow(4).mean().div(s.square()).sub(3)]);
  }, [-0.025578888, -1.08361457]);
  await is("linreg", () => {
    const A = Tensor.stack([x, x.onesLike()], 1), [c] = A.lstsq(y.unsqueeze(1));
    const r = y.sub(A.matmul(c).squeeze(1)), s2 = r.square().sum().div(48);
    return Tensor.cat([c.flatten(), A.T.matmul(A).inv().diagonal().mul(s2).sqrt()]);
  }, [0.69885828, 8.05521913, 0.102534446, 1.54155689]);
  await is("ks", () => {
    const s = x.sort()[0], all = Tensor.cat([x, y]).sort()[0];
    const cx = s.searchsorted(all, { right: true }).double().div(50),
      cy = y.sort()[0].searchsorted(all, { right: true }).double().div(50);
    return cx.sub(cy).abs().max();
  }, 0.26);
  await is("normcdf", () => Tensor.linspace(-2, 2, 5, f64).div(Math.SQRT2).erf().add(1).div(2), [
    0.0227501319,
    0.158655254,
    0.5,
    0.841344746,
    0.977249868,
  ]);
  await is("normppf", () => new Tensor([0.025, 0.5, 0.9], f64).mul(2).sub(1).erfinv().mul(Math.SQRT2), [
    -1.95996398,
    0,
    1.28155157,
  ]);
  await is("chi2", () => {
    const o = new Tensor([[10, 20, 30], [6, 9, 17]], f64);
    const e = o.sum(1, { keepdim: true }).mul(o.sum(0, { keepdim: true })).div(o.sum());
    return o.sub(e).square().div(e).sum();
  }, 0.271574652);
  await is("chi2sf", () => new Tensor([1.0], f64).igammac(new Tensor([0.27157465150403504 / 2], f64)), [0.873028283]);
  await is("gamma", () => new Tensor([2.5, 7.5], f64).lgamma(), [0.28468287, 7.53436424]);
  await is("mad", () => x.sub(x.median()).abs().median(), 5.9);
  await is("mode", () => x.floor().mode()[0], 6);
  await is(
    "hist2d",
    () => x.div(10).floor().mul(4).add(y.div(10).floor()).int().bincount({ size: 16 }).reshape([4, 4]),
    [[8, 9, 1, 0], [0, 11, 10, 0], [0, 3, 8, 0], [0, 0, 0, 0]],
  );
  await is("entropy", async () => {
    const c = (await x.floor().int().bincount()).double(), p = c.div(c.sum());
    return p.mul(p.gt(0).where(p, 1).log()).sum().neg();
  }, 3.18381193);
  await is("trimmed", () => x.sort()[0].at([5, -5]).mean(), 13.36);
  await is("cov", () => Tensor.stack([x, y]).cov(), [[49.3347959, 34.4780306], [34.4780306, 48.9915194]]);
  await is("mahal", () => {
    const d = Tensor.stack([x, y], 1), c = d.sub(d.mean(0));
    return c.matmul(d.T.cov().inv()).mul(c).sum(1).at([0, 3]);
  }, [6.20797223, 0.364151276, 1.71323692]);
  await is("ecdfq", () => x.quantile(new Tensor([0.1, 0.5, 0.9], f64)), [4.43, 13.45, 22.47]);
  await is("winsor", () => x.clamp(x.quantile(0.05), x.quantile(0.95)).mean(), 13.3502);
});

Deno.test("areas: interpolation, quadrature and roots", async () => {
  const xs = new Tensor([0, 1, 2.5, 3, 4.5], f64),
    ys = new Tensor([1, 2, -1, 0.5, 3], f64),
    q = new Tensor([-1, 0.5, 2.75, 3.9, 9], f64);
  await is("linear", () => q.interp(xs, ys), [1, 1.5, -0.25, 2, 3]);
  await is("spline", () => { // natural cubic
    const h = xs.diff(), A = Tensor.zeros([5, 5], f64), r = Tensor.zeros([5], f64);
    A.setAt([0, 0], 1);
    A.setAt([4, 4], 1);
    const k = Tensor.arange(1, 4);
    A.setAt([k, k.sub(1)], h.at([0, -1]));
    A.setAt([k, k], h.at([0, -1]).add(h.at([1, null])).mul(2));
    A.setAt([k, k.add(1)], h.at([1, null]));
    const s = ys.diff().div(h);
    r.setAt([[1, 4]], s.diff().mul(3));
    const c = A.solve(r),
      b = s.sub(h.mul(c.at([0, -1]).mul(2).add(c.at([1, null]))).div(3)),
      d = c.diff().div(h.mul(3));
    const p = new Tensor([0.5, 2.75, 3.9], f64),
      i = xs.searchsorted(p, { right: true }).sub(1).clamp(0, 3),
      t = p.sub(xs.at(i));
    return ys.at(i).add(b.at(i).mul(t)).add(c.at(i).mul(t.square())).add(d.at(i).mul(t.pow(3)));
  }, [1.92069892, -0.361447133, 2.4163871]);
  await is("polyfit", () => xs.polyfit(ys, 4), [-0.475132275, 4.32169312, -11.6933862, 8.8468254, 1]);
  await is("polyval", () => (xs.polyfit(ys, 4) as Tensor).polyval(new Tensor([0, 1.5], f64)), [1, 0.14047619]);
  await is("lagrange", () => {
    const p = 1.7,
      d = xs.unsqueeze(1).sub(xs),
      top = Tensor.eye(5, f64).gt(0).where(1, xs.sub(p).neg().expand([5, 5])),
      bottom = Tensor.eye(5, f64).gt(0).where(1, d);
    return top.prod(1).div(bottom.prod(1)).mul(ys).sum();
  }, -0.490157037);
  const img = Tensor.arange(12, f64).square().reshape([3, 4]);
  await is("bilinear", () => {
    const y = new Tensor([0.5, 1.25], f64),
      x = new Tensor([1.5, 2.75], f64),
      y0 = y.floor().int(),
      x0 = x.floor().int(),
      fy = y.sub(y0),
      fx = x.sub(x0);
    const at = (a: Tensor, b: Tensor) => img.at(a, b);
    return at(y0, x0).mul(fy.neg().add(1)).mul(fx.neg().add(1)).add(at(y0.add(1), x0).mul(fy).mul(fx.neg().add(1))).add(
      at(y0, x0.add(1)).mul(fx).mul(fy.neg().add(1)),
    ).add(at(y0.add(1), x0.add(1)).mul(fx).mul(fy));
  }, [16.5, 63.25]);
  await is("gridSample", () => {
    const g = Tensor.stack([new Tensor([1.5, 2.75], f64).div(1.5).sub(1), new Tensor([0.5, 1.25], f64).sub(1)], -1)
      .reshape([1, 1, 2, 2]);
    return img.reshape([1, 1, 3, 4]).gridSample(g, { alignCorners: true }).flatten();
  }, [16.5, 63.25]);
  await is("nearest", () => {
    const pts = new Tensor([[0, 0], [1, 2], [3, 1]], f64), ask = new Tensor([[0.9, 1.2], [2.5, 1.5]], f64);
    return ask.cdist(pts).argmin(1);
  }, [1, 2]);
  await is("rbf", () => {
    const K = (a: Tensor, b: Tensor) => a.unsqueeze(1).sub(b).square().neg().exp();
    return K(new Tensor([0.7, 2.2], f64), xs).matmul(K(xs, xs).solve(ys));
  }, [2.0476018, -1.17676884]);
  await is("roots", () => new Tensor([1, -6, 11, -6], f64).roots().then((z) => z.real()), [3, 2, 1]);
  await is("trapz", () => ys.trapezoid(xs), 4.75);
  await is("cumtrapz", () => ys.cumulativeTrapezoid(xs), [1.5, 2.25, 2.125, 4.75]);
  await is("newton", () => {
    let x = new Tensor(1.5, f64);
    const f = (v: Tensor) => v.cos().sub(v).sum();
    for (let k = 0; k < 5; k++) x = x.sub(f(x).div(grad(f)(x))).realize();
    return x;
  }, 0.739085133);
  await is("simpson", () => {
    const x = Tensor.linspace(0, Math.PI, 101, f64), w = Tensor.arange(101).mod(2).mul(2).add(2).double();
    w.setAt([0], 1);
    w.setAt([-1], 1);
    return x.sin().mul(w).sum().mul(Math.PI / 300);
  }, 2.00000001);
});
