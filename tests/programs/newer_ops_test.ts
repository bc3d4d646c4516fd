/**
 * Twelve programs in what came latest, as users of PyTorch, NumPy and SciPy write it: systems, spectra, losses, pools and
 * resizing, grids, loops, derivatives of functions, CTC, complex numbers, Fourier transforms, spectra over time, distinct
 * values and segments. tests/fixtures/programs/newer_ops.py has the same programs in PyTorch, and wrote what they give.
 */
import { assert, assertClose, assertEquals, assertThrows } from "@std/assert";
import {
  type DTypeLike,
  fft,
  grad,
  hessian,
  jacobian,
  jvp,
  scan,
  Tensor,
  vmap,
  whileLoop,
  windows,
} from "../../mod.ts";
import { onDevice } from "../support/on_device.ts";

interface Expected {
  readonly shape: readonly number[];
  readonly values: readonly number[];
}
const WANTED: Readonly<Record<string, Expected>> = JSON.parse(
  Deno.readTextFileSync(new URL("../fixtures/programs/newer_ops.json", import.meta.url)),
);
const seen = new Set<string>();

/** The numbers that both sides begin with: element i of [0, 997), by a polynomial. */
function raw(shape: readonly number[], seed: number): number[] {
  const n = shape.reduce((a, b) => a * b, 1);
  return Array.from({ length: n }, (_, i) => (i * i * 31 + i * 7919 + seed * 613 + 17) % 997);
}
const data = (shape: readonly number[], seed: number, dtype: DTypeLike = "float32") =>
  new Tensor(raw(shape, seed).map((x) => x / 498.5 - 1), { dtype }).reshape(shape);
const cdata = (shape: readonly number[], seed: number) => Tensor.complex(data(shape, seed), data(shape, seed + 1));
const ints = (shape: readonly number[], seed: number, below: number) =>
  new Tensor(raw(shape, seed).map((x) => x % below), { dtype: "int32" }).reshape(shape);
const eye = (n: number) => Tensor.eye(n);

type Put = (name: string, x: Tensor) => void;
type Slope = (name: string, fn: (...xs: Tensor[]) => Tensor | readonly Tensor[], ...xs: Tensor[]) => void;

/** A program names what it computes; all of it is compared with what PyTorch computed, in shape and value. */
function program(name: string, run: (put: Put, slope: Slope) => void | Promise<void>): void {
  Deno.test(`newer ops: ${name}`, async () => {
    await onDevice("JS", async () => {
      const found: [string, Tensor][] = [];
      const put: Put = (name, x) => {
        found.push([name, x]);
      };
      await run(put, (name, fn, ...given) => {
        const xs = given.map((x) => x.detach());
        for (const x of xs) x.requiresGrad = true;
        const ys = [fn(...xs)].flat(), squares = ys.map((y) => y.abs().square().sum());
        squares.reduce((a, b) => a.add(b)).gradient(xs).forEach((g, i) => put(`${name} d${i}`, g));
      });
      const all = found.map(([, x]) => x.isComplex() ? x.viewAsReal() : x);
      Tensor.realize(all);
      const wrong: string[] = [];
      for (const [i, [name]] of found.entries()) {
        const want = WANTED[name];
        assert(want !== undefined && !seen.has(name), name);
        seen.add(name);
        assertEquals(all[i].shape, want.shape, name);
        const got = (await all[i].flatten().tolist<number[]>()).map(Number);
        const size = Math.max(1, ...want.values.filter(Number.isFinite).map(Math.abs));
        const bad = want.values.findIndex((w, k) => !(Object.is(w, got[k]) || Math.abs(w - got[k]) <= 2e-5 * size));
        if (bad >= 0) wrong.push(`${name}: element ${bad} is ${got[bad]}, not ${want.values[bad]} of ${size}`);
      }
      assertEquals(wrong, []);
    });
  });
}

program("systems", (put, slope) => {
  const A = data([4, 4], 1).add(eye(4).mul(2)), B = data([4, 2], 2), b = data([4], 3);
  const tall = data([6, 3], 4), wide = data([3, 5], 5), batch = data([2, 3, 3], 6).add(eye(3).mul(2));
  const [P, L, U] = A.lu(), [p, l, u] = tall.lu(), [LU, pivots] = A.luFactor();
  put("lu P", P), put("lu L", L), put("lu U", U);
  put("lu tall P", p), put("lu tall L", l), put("lu tall U", u);
  put("luFactor", LU), put("luFactor pivots", pivots), put("luSolve", LU.luSolve(pivots, B));
  put("solve", A.solve(B)), put("solve vector", A.solve(b));
  put("solve right", A.solve(B.T, { left: false })), put("solve batch", batch.solve(data([3, 2], 7)));
  const T = A.triu();
  put("triangular upper", T.solveTriangular(B, { upper: true }));
  put("triangular lower unit", A.solveTriangular(B, { upper: false, unitriangular: true }));
  put("triangular right", T.solveTriangular(B.T, { upper: true, left: false }));
  const [fit, residuals] = tall.lstsq(data([6, 2], 8));
  put("lstsq", fit), put("lstsq residuals", residuals);
  put("lstsq wide", wide.lstsq(data([3, 1], 9))[0]);
  put("lstsq batch", data([2, 5, 2], 10).lstsq(data([2, 5, 1], 11))[0]);
  const [sign, logdet] = batch.slogdet();
  put("slogdet sign", sign), put("slogdet", logdet), put("det", batch.det()), put("inv", batch.inv());
  const factor = A.matmul(A.T).cholesky();
  put("cholesky", factor), put("choleskySolve", B.choleskySolve(factor));
  slope("solve", (a, y) => a.solve(y), A, B), slope("lu", (a) => a.lu().slice(1), A);
  slope("triangular", (a, y) => a.solveTriangular(y, { upper: true }), T, B);
  slope("lstsq", (a, y) => a.lstsq(y)[0], tall, data([6, 2], 8)), slope("slogdet", (a) => a.slogdet()[1], batch);
});

program("spectra of matrices", async (put, slope) => {
  const A = data([4, 4], 1).add(eye(4).mul(2)), tall = data([6, 3], 4), wide = data([3, 5], 5);
  const batch = data([2, 3, 3], 6).add(eye(3).mul(2)), S = A.add(A.T), one = data([4], 13).outer(data([3], 14));
  const [w, v] = S.eigh();
  put("eigh", w), put("eigh vectors", v.abs()), put("eigvalsh U", A.eigvalsh({ uplo: "U" }));
  put("svdvals", tall.svdvals()), put("svd", tall.svd(false)[0].abs());
  put("svd Vh", wide.svd()[2].at([0, 3]).abs()), put("svd batch", data([2, 4, 3], 12).svd()[1]);
  const [Q, R] = tall.qr({ mode: "reduced" });
  put("qr R", R), put("qr Q", Q), put("pinv", tall.pinv()), put("pinv wide", wide.pinv());
  put("pinv rank 1", one.pinv()), put("pinv hermitian", S.pinv({ hermitian: true }));
  put("rank", one.matrixRank()), put("rank full", batch.matrixRank());
  put("matrixExp", A.matrixExp()), put("matrixExp batch", batch.mul(3).matrixExp());
  put("cond", A.cond()), put("cond 1", A.cond(1)), put("nuc", tall.matrixNorm({ ord: "nuc" }));
  put("norm 2", tall.matrixNorm({ ord: 2 })), put("matrixPower", A.matrixPower(5));
  put("matrixPower negative", A.matrixPower(-2));
  const e = await data([4, 4], 15).eigvals();
  put("eigvals sorted", e.real().sort()[0]), put("eigvals product", e.prod());
  slope("eigh", (a) => a.eigvalsh(), S), slope("svd", (a) => a.svdvals(), tall);
  slope("pinv", (a) => a.pinv(), tall), slope("matrixExp", (a) => a.matrixExp(), A);
  slope("eigh projector", (a) => {
    const [, v] = a.eigh(), first = v.at(":", [0, 2]);
    return first.matmul(first.T);
  }, S);
});

program("losses", (put, slope) => {
  const logits = data([5, 4], 20).mul(3), labels = new Tensor([0, 3, 1, 2, 3]);
  const weight = data([4], 21).abs().add(0.5), other = data([5, 4], 22), hot = logits.gt(0).float();
  put("ce weight", logits.crossEntropy(labels, weight));
  put("ce weight sum", logits.crossEntropy(labels, { weight, reduction: "sum" }));
  const holes = new Tensor([0, -100, 1, -100, 3]);
  put("ce ignore", logits.crossEntropy(holes, weight, { labelSmoothing: 0.1, ignoreIndex: -100 }));
  put("ce probabilities", logits.crossEntropy(other.softmax(1), weight));
  put("ce image", data([2, 3, 2, 2], 23).crossEntropy(ints([2, 2, 2], 24, 3), { reduction: "none" }));
  put("nll weight", logits.logSoftmax(1).nllLoss(labels, weight));
  put("bce weight", other.sigmoid().binaryCrossentropy(hot, { weight: data([5, 4], 25).abs() }));
  put("bce logits pos", other.binaryCrossentropyLogits(hot, { posWeight: weight }));
  put("kl", logits.logSoftmax(1).klDiv(other.softmax(1), { reduction: "batchmean" }));
  put("kl log", logits.logSoftmax(1).klDiv(other.logSoftmax(1), { logTarget: true }));
  put("huber", logits.huberLoss(other, { delta: 0.7 })), put("smoothL1", logits.smoothL1Loss(other, { beta: 0.5 }));
  put("poisson", other.poissonNllLoss(labels.unsqueeze(1).expand([5, 4]).float(), { full: true }));
  put("gaussian", logits.gaussianNllLoss(other, data([5, 4], 26).abs().add(0.1), { full: true }));
  put("cosine", logits.cosineEmbeddingLoss(other, new Tensor([1, -1, 1, -1, 1]), { margin: 0.1 }));
  put("triplet", logits.tripletMarginLoss(other, data([5, 4], 27), { swap: true }));
  put("multi margin", logits.multiMarginLoss(labels, weight, { p: 2 }));
  put("multilabel", logits.multilabelSoftMarginLoss(other.gt(0).float(), weight));
  const first = (t: Tensor) => t.at(":", 0);
  put("margin", first(logits).marginRankingLoss(first(other), new Tensor([1, -1, 1, -1, 1]), { margin: 0.2 }));
  put("hinge", logits.hingeEmbeddingLoss(other.gt(0).where(1, -1)));
  slope("ce weight", (x) => x.crossEntropy(labels, weight), logits);
  slope("huber", (x, y) => x.huberLoss(y, { delta: 0.7 }), logits, other);
  slope("kl", (x, y) => x.logSoftmax(1).klDiv(y.softmax(1), { reduction: "batchmean" }), logits, other);
});

program("pools and resizing", (put, slope) => {
  const img = data([2, 3, 7, 5], 30), img3 = data([1, 2, 4, 5, 3], 31), columns = data([1, 12, 12], 37);
  put("adaptive avg", img.adaptiveAvgPool2d([3, 2])), put("adaptive avg null", img.adaptiveAvgPool2d([null, 2]));
  put("adaptive avg 1", data([2, 3, 7], 32).adaptiveAvgPool1d(4)),
    put("adaptive avg 3", img3.adaptiveAvgPool3d([2, 3, 2]));
  const [most, at] = img.adaptiveMaxPool2d([3, 2], { returnIndices: true });
  put("adaptive max", most), put("adaptive max at", at), put("bicubic", img.interpolate([10, 9], { mode: "bicubic" }));
  put("bicubic corners", img.interpolate([4, 8], { mode: "bicubic", alignCorners: true }));
  put("bilinear factor", img.interpolate(null, { scaleFactor: 1.5, mode: "bilinear" }));
  put("area", img.interpolate([3, 4], { mode: "area" })),
    put("nearest-exact", img.interpolate([3, 8], { mode: "nearest-exact" }));
  put("trilinear", img3.interpolate([3, 7, 4], { mode: "trilinear", alignCorners: true }));
  put("linear", data([1, 2, 6], 33).interpolate([9], { mode: "linear" }));
  put("pixelShuffle", data([1, 8, 2, 3], 34).pixelShuffle(2)),
    put("pixelUnshuffle", data([1, 2, 4, 6], 35).pixelUnshuffle(2));
  put("channelShuffle", data([1, 6, 2, 2], 36).channelShuffle(3));
  put("unfold", img.im2col([3, 2], { padding: 1, stride: 2 })), put("fold", columns.fold([4, 5], [2, 2]));
  put("fold stride", data([2, 8, 9], 38).fold([7, 7], [2, 2], { dilation: 2, stride: 2 }));
  put("lrn", img.localResponseNorm(2));
  put("lp", img.square().avgPool2d(2).mul(4).sqrt());
  slope("bicubic", (x) => x.interpolate([10, 9], { mode: "bicubic" }), img);
  slope("adaptive max", (x) => x.adaptiveMaxPool2d([3, 2]), img), slope("fold", (x) => x.fold([4, 5], [2, 2]), columns);
});

program("grids", (put, slope) => {
  const theta = new Tensor([[[0.8, -0.3, 0.1], [0.2, 0.9, -0.2]], [[1.1, 0, 0.3], [-0.4, 0.7, 0]]]);
  const img = data([2, 3, 7, 5], 30), img3 = data([1, 2, 4, 5, 3], 31), far = data([2, 3, 4, 2], 40).mul(1.7);
  put("affineGrid", theta.affineGrid([2, 3, 4, 6]));
  put("affineGrid corners", theta.affineGrid([2, 3, 4, 6], { alignCorners: true }));
  for (const mode of ["bilinear", "nearest", "bicubic"] as const) {
    for (const paddingMode of ["zeros", "border", "reflection"] as const) {
      for (const [alignCorners, name] of [[false, "False"], [true, "True"]] as const) {
        put(`grid ${mode} ${paddingMode} ${name}`, img.gridSample(far, { mode, paddingMode, alignCorners }));
      }
    }
  }
  put("grid 3", img3.gridSample(data([1, 2, 3, 2, 3], 41).mul(1.2)));
  slope("grid", (x, g) => x.gridSample(g), img, far);
  slope(
    "grid bicubic",
    (x, g) => x.gridSample(g, { mode: "bicubic", paddingMode: "border", alignCorners: true }),
    img,
    far,
  );
});

program("loops", async (put, slope) => {
  const xs = data([9, 3], 50), w = data([3, 3], 51);
  const rnn = (xs: Tensor, w: Tensor) =>
    scan(
      (h: Tensor, x: Tensor): [Tensor, Tensor] => {
        const next = x.add(h.matmul(w)).tanh();
        return [next, next];
      },
      Tensor.zeros([3]),
      xs,
    )[1];
  put("scan", rnn(xs, w)), slope("scan", rnn, xs, w);
  const start = { n: new Tensor(27), steps: new Tensor(0) };
  const { steps } = await whileLoop(
    ({ n }: typeof start) => n.ne(1),
    ({ n, steps }) => ({ n: n.mod(2).eq(0).where(n.floorDiv(2), n.mul(3).add(1)), steps: steps.add(1) }),
    start,
  );
  put("while", steps.reshape([1]));
});

program("derivatives of functions", (put) => {
  const x = data([3], 60), W = data([4, 3], 61), v = data([3], 62), many = data([2, 3], 63);
  const f = (x: Tensor) => W.matmul(x).tanh().mul(x.sum());
  const g = (x: Tensor) => W.matmul(x).sin().square().sum().add(x.prod());
  put("jacobian", jacobian(f)(x)), put("hessian", hessian(g)(x));
  put("jacobian 2", jacobian((x: Tensor, W: Tensor) => W.matmul(x), { argnums: 1 })(x, W));
  put("jvp", jvp(f, [x], [v])[1]), put("vmap jacobian", vmap(jacobian(f))(many));
  put("hessian vector", jvp(grad(g), [x], [v])[1]), put("jacobian matrix", jacobian((x: Tensor) => x.outer(x))(x));
  put("third", jacobian(hessian(g))(x)), put("laplacian", vmap((x: Tensor) => hessian(g)(x).trace())(many));
  const loss = (w: Tensor, x: Tensor, y: Tensor) => w.matmul(x).tanh().sub(y).square().sum();
  put("sample gradients", vmap(grad(loss), { inAxes: [null, 0, 0] })(W, data([5, 3], 64), data([5, 4], 65)));
});

program("CTC", (put, slope) => {
  const lp = data([8, 2, 5], 70).mul(2).logSoftmax(2), targets = new Tensor([[1, 2, 2, 3], [4, 1, 0, 0]]);
  for (const reduction of ["mean", "sum", "none"] as const) {
    put(`ctc ${reduction}`, lp.ctcLoss(targets, [8, 6], [4, 2], { reduction }));
  }
  put("ctc joined", lp.ctcLoss(new Tensor([1, 2, 2, 3, 4, 1]), [8, 6], [4, 2], { blank: 0 }));
  put("ctc blank", lp.ctcLoss(new Tensor([[1, 2, 0], [0, 1, 3]]), [8, 8], [3, 3], { blank: 4 }));
  const long = new Tensor([[1, 1, 1, 1, 1], [1, 2, 3, 1, 1]]);
  put("ctc zero infinity", lp.ctcLoss(long, [8, 8], [5, 5], { zeroInfinity: true }));
  slope("ctc", (x) => x.logSoftmax(2).ctcLoss(targets, [8, 6], [4, 2]), data([8, 2, 5], 70));
});

program("complex numbers", (put, slope) => {
  const z = cdata([3, 4], 80), y = cdata([4, 2], 82), i = Tensor.complex(new Tensor(0), 1);
  put("z matmul", z.matmul(y)), put("z abs", z.abs()), put("z angle", z.angle()), put("z conj", z.conj().mul(z));
  put("z exp", z.exp()), put("z log", z.log()), put("z sqrt", z.sqrt()), put("z pow", z.pow(2.5));
  put("z div", z.div(z.add(2))), put("z sin", z.sin()), put("z tanh", z.tanh()), put("z mean", z.mean());
  put("z prod", z.prod(1)), put("z cumsum", z.cumsum(0)), put("z reciprocal", z.reciprocal()), put("z sgn", z.sgn());
  put("z polar", Tensor.polar(data([3], 83).abs(), data([3], 84).mul(3))), put("z real", z.mul(i).viewAsReal());
  put("z eq", z.eq(z.conj().conj())), put("z var", z.var(1)), put("z norm", z.vectorNorm());
  put("z acos", z.acos()), put("z where", z.real().gt(0).where(z, 0));
  const square = cdata([3, 3], 85).add(eye(3).mul(2)), adjoint = (a: Tensor) => a.conj().transpose(-1, -2);
  put("z inv", square.inv()), put("z det", square.det()), put("z solve", square.solve(y.at([0, 3])));
  put("z eigvalsh", square.add(adjoint(square)).eigvalsh()), put("z svdvals", z.svdvals());
  put("z exp matrix", square.matrixExp()), put("z cholesky", square.matmul(adjoint(square)).cholesky());
  put("z outer", z.at(0).outer(z.at(1).conj())), put("z einsum", Tensor.einsum("ij,jk->ki", z, y));
  slope("z abs", (a) => a.abs(), z), slope("z matmul", (a, b) => a.matmul(b), z, y), slope("z log", (a) => a.log(), z);
  slope("z inv", (a) => a.inv(), square), slope("z mul", (a, b) => a.mul(b.conj()).add(a.exp()), z, z.mul(2));
  slope("z eigh", (a) => {
    const v = a.add(adjoint(a)).eigh()[1].at(":", [0, 2]);
    return v.matmul(adjoint(v)).mul(data([3, 3], 87));
  }, square);
  for (const [name, m] of [["square", square], ["tall", cdata([4, 3], 91)], ["wide", cdata([3, 4], 93)]] as const) {
    slope(`z svd ${name}`, (a) => {
      const [u, , vh] = a.svd(false);
      return u.at(":", [0, 1]).matmul(vh.at([0, 1])).mul(data(a.shape, 88));
    }, m);
    slope(`z qr ${name}`, (a) => {
      const [q, r] = a.qr({ mode: "reduced" });
      return [q.abs().mul(data(q.shape, 89)), r.abs().mul(data(r.shape, 90))];
    }, m);
  }
  slope("z angle", (a) => a.angle(), z), slope("z eigvalsh", (a) => a.add(adjoint(a)).eigvalsh(), square);
});

program("Fourier transforms", (put, slope) => {
  const sig = data([2, 12], 90), im2 = data([2, 6, 5], 91), half = cdata([2, 6], 93);
  put("fft", fft.fft(sig)), put("fft n", fft.fft(sig, -1, { n: 7 })), put("fft pad", fft.fft(sig, 0, { n: 15 }));
  put("ifft", fft.ifft(cdata([2, 9], 92), -1, { norm: "ortho" })), put("rfft", fft.rfft(sig));
  put("irfft", fft.irfft(half, -1, { n: 11 })), put("irfft even", fft.irfft(half)), put("fft2", fft.fft2(im2));
  put("ifft2", fft.ifft2(im2, [-2, -1], { norm: "forward" })), put("rfft2", fft.rfft2(im2));
  put("irfft2", fft.irfft2(fft.rfft2(im2), [-2, -1], { s: [6, 5] })), put("fftn", fft.fftn(im2));
  put("fftn s", fft.fftn(im2, [0, 1], { s: [4, 8] })),
    put("hfft", fft.hfft(cdata([6], 94))),
    put("ihfft", fft.ihfft(sig));
  put("fftshift", fft.fftshift(im2)), put("ifftshift", fft.ifftshift(im2, -1));
  put("fftfreq", fft.fftfreq(9, { d: 0.1 })), put("rfftfreq", fft.rfftfreq(9));
  const spectrum = (x: Tensor) => fft.rfft(x, -1, { n: 20 });
  put("convolve", fft.irfft(spectrum(sig).mul(spectrum(data([5], 95))), -1, { n: 20 }));
  slope("fft", (x) => fft.fft(x), sig), slope("rfft", (x) => fft.rfft(x), sig);
  slope("irfft", (a) => fft.irfft(a, -1, { n: 11 }), half), slope("fft2", (x) => fft.fft2(x), im2);
});

program("spectra over time", (put, slope) => {
  const wave = data([2, 40], 100), window = windows.hann(8), ones = Tensor.ones([8]);
  put("hann", window), put("hamming", windows.hamming(7, { periodic: false })), put("blackman", windows.blackman(9));
  put("bartlett", windows.bartlett(6)), put("kaiser", windows.kaiser(8, { beta: 9 }));
  const X = wave.stft(8, { hopLength: 3, window });
  put("stft", X), put("istft", X.istft(8, { hopLength: 3, window }));
  put("istft length", X.istft(8, { hopLength: 3, window, length: 40 }));
  put("istft longer", X.istft(8, { hopLength: 3, window, length: 44 }));
  const short = { hopLength: 4, winLength: 8, window, normalized: true }, narrow = wave.stft(16, short);
  put("stft short", narrow), put("istft short", narrow.istft(16, short));
  const open = { hopLength: 4, center: false, window: ones }, frames = wave.stft(8, open);
  put("stft no center", frames), put("istft no center", frames.istft(8, open));
  put("stft constant", wave.at(0).stft(8, { padMode: "constant", window }));
  const both = { hopLength: 2, window, onesided: false }, two = wave.stft(8, both);
  put("stft two sides", two), put("istft two sides", two.istft(8, both));
  const zz = cdata([20], 101).stft(8, { hopLength: 2, window });
  put("stft complex", zz), put("istft complex", zz.istft(8, { ...both, returnComplex: true }));
  slope("stft", (x) => x.stft(8, { hopLength: 3, window }), wave);
  slope("istft", (x) => x.istft(8, { hopLength: 3, window }), X);
});

program("distinct values and segments", async (put, slope) => {
  const k = ints([30], 110, 6), values = data([30, 2], 111), rows = ints([8, 2], 112, 2), table = data([6, 3], 113);
  const flags = { returnInverse: true, returnCounts: true } as const;
  const [u, inverse, counts] = await k.unique(flags);
  put("unique", u), put("unique inverse", inverse), put("unique counts", counts);
  const [r, rowOf, rowCounts] = await rows.unique({ dim: 0, ...flags });
  put("unique rows", r), put("unique rows inverse", rowOf), put("unique rows counts", rowCounts);
  const [runs, runOf, runCounts] = await k.floorDiv(3).uniqueConsecutive();
  put("consecutive", runs), put("consecutive inverse", runOf), put("consecutive counts", runCounts);
  const index = k.unsqueeze(1).expand([-1, 2]), ones = Tensor.ones([6, 2]);
  for (const reduce of ["sum", "prod", "mean", "amax", "amin"] as const) {
    put(`segment ${reduce}`, ones.scatterReduce(0, index, values, reduce, false));
    slope(`segment ${reduce}`, (v) => ones.scatterReduce(0, index, v, reduce), values);
  }
  put("indexAdd", Tensor.zeros([6, 2]).indexAdd(0, k, values, { alpha: 0.5 }));
  put("bincount", await k.bincount({ weights: values.at(":", 0) }));
  put("bag", k.at([0, 12]).embeddingBag(table, new Tensor([0, 4, 4, 9]), { mode: "mean" }));
  put("bag max", k.at([0, 12]).reshape([3, 4]).embeddingBag(table, null, { mode: "max" }));
  put("bucketize", values.bucketize([-0.5, 0, 0.5], { right: true }));
  put("searchsorted", new Tensor([-0.5, 0, 0.5]).searchsorted(values.at(":", 0)));
  put("isin", k.isin(new Tensor([1, 4]))), put("mode", values.round().mode(0)[0]), put("median", values.median(0));
  put("kthvalue", values.kthvalue(4, 0)[0]), put("histc", values.histogram(5, { min: -1, max: 1 })[0]);
  const groups: Tensor[] = [];
  for (let i = 0; i < 6; i++) {
    groups.push((await values.maskedSelect(k.eq(i).unsqueeze(1).expand([30, 2]))).reshape([-1, 2]).std(0));
  }
  put("groups", Tensor.stack(groups));
});

Deno.test("newer ops: a rate matrix over a long time comes to rest", async () => {
  const rates = new Tensor([[-1, 0.5, 0.5], [0.2, -0.3, 0.1], [1, 1, -2]], { dtype: "float64", device: "JS" });
  const rest = [[5, 15, 2], [5, 15, 2], [5, 15, 2]].map((row) => row.map((x) => x / 22)); // torch: the same, to 9 digits
  for (const time of [1e3, 1e6]) assertClose(await rates.mul(time).matrixExp().tolist(), rest, 1e-8);
});

Deno.test("newer ops: a scan of nothing, and whole numbers that a step makes floats", async () => {
  const step = (sum: Tensor, x: Tensor): [Tensor, Tensor] => [sum.add(x), x.stack([x])];
  const none = scan(step, new Tensor(1.5), Tensor.zeros([0]));
  assertEquals([await none[0].item(), none[1].shape], [1.5, [0, 2]]);
  const xs = new Tensor([0.5, 2, 1], { requiresGrad: true }), [sum] = scan(step, new Tensor(0), xs);
  assertEquals(await sum.item(), 3.5);
  assertEquals(await sum.gradient([xs])[0].tolist(), [1, 1, 1]);
});

const probabilities = Tensor.ones([4, 1, 3]), spectrum = Tensor.complex(Tensor.ones([5, 4]), 0);
const grows = (sum: Tensor, x: Tensor): [Tensor, Tensor] => [sum.cat([x.unsqueeze(0)]), x];
const turnsFloat = (sum: Tensor, x: Tensor): [Tensor, Tensor] => [sum.add(x), x];
const MISUSE: readonly [string, () => unknown, string][] = [
  [
    "weights of other classes",
    () => Tensor.ones([2, 3]).crossEntropy(new Tensor([0, 1]), Tensor.ones([2])),
    "ShapeError: Cannot weigh classes by shape [2]: it must be [3], one weight a class",
  ],
  [
    "CTC of more steps",
    () => probabilities.ctcLoss(new Tensor([[1, 2]]), [5], [2]),
    "ArgumentError: Cannot ctcLoss: inputLengths must lie between 0 and 4, and one is 5",
  ],
  [
    "CTC of more labels",
    () => probabilities.ctcLoss(new Tensor([[1, 2]]), [4], [3]),
    "ArgumentError: Cannot ctcLoss: targetLengths must lie between 0 and 2, and one is 3",
  ],
  [
    "CTC of another label",
    () => probabilities.ctcLoss(new Tensor([[1, 7]]), [4], [2]),
    "IndexError: Cannot ctcLoss: label 7 is none of 3 classes",
  ],
  [
    "a short signal",
    () => new Tensor([1.5, 2]).stft(8),
    "ShapeError: Cannot stft shape [2]: a reflection of 4 values takes 5 or more; give { center: false } or another padMode",
  ],
  [
    "windows with gaps",
    () => spectrum.istft(8, { hopLength: 9 }),
    "ArgumentError: Cannot istft: windows of 8 values each 9 leave gaps; hopLength must be at most winLength",
  ],
  [
    "no frames",
    () => spectrum.at(":", [0, 0]).istft(8),
    "ShapeError: Cannot istft shape [5, 0]: it has no frames",
  ],
  [
    "a carry that grows",
    () => scan(grows, new Tensor([0.5]), new Tensor([1, 2.5])),
    "ShapeError: Cannot scan shapes [1] and [2]: a carry keeps its form, and a step changed its shape",
  ],
  [
    "a carry of another dtype",
    () => scan(turnsFloat, new Tensor(0, { dtype: "int32" }), new Tensor([1, 2.5])),
    "DTypeError: Cannot scan with carries of int32 and float32: a carry keeps its form, and a step changed its dtype; cast init, or what the step gives",
  ],
];
for (const [name, run, text] of MISUSE) {
  Deno.test(`newer ops error: ${name}`, () => {
    assertEquals(String(assertThrows(run)), text);
  });
}

Deno.test("newer ops: nothing that PyTorch gave is left out", () => {
  assertEquals(Object.keys(WANTED).filter((name) => !seen.has(name)), []);
});
