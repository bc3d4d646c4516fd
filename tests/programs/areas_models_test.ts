/** Ten programs of strangers: control, quantum circuits, transport, sparse regression, Gaussian processes, factors, finance, poses, dynamic programming, survival and texts. Values are those of NumPy and SciPy. */
import { Device, grad, Tensor } from "../../mod.ts";
import { is } from "./areas.ts";

Device.default = "WASM";
const f64 = { dtype: "float64" } as const;
const T = (x: number[] | number[][] | number[][][]): Tensor => new Tensor(x, f64);

Deno.test("areas: control: Riccati's and Lyapunov's equations", async () => {
  const A = T([[1, .1], [0, 1]]), B = T([[.005], [.1]]), Q = Tensor.eye(2, f64), R = T([[.1]]);
  let P = Q;
  for (let i = 0; i < 300; i++) {
    const G = R.add(B.T.matmul(P).matmul(B));
    P = Q.add(A.T.matmul(P).matmul(A)).sub(
      A.T.matmul(P).matmul(B).matmul(G.inv()).matmul(B.T).matmul(P).matmul(A),
    ).realize();
  }
  const K = R.add(B.T.matmul(P).matmul(B)).solve(B.T.matmul(P).matmul(A));
  await is("riccati", () => P.flatten(), [13.31722444, 3.20156212, 3.20156212, 4.60351402]);
  await is("gain", () => K.flatten(), [2.5857009, 3.44343592]);
  const M = A.sub(B.matmul(K));
  await is("poles", async () => (await M.eigvals()).abs().sort()[0], [0.7435576, 0.89917031]);
  const X = Tensor.eye(4, f64).sub(M.kron(M)).solve(Tensor.eye(2, f64).reshape([4, 1])).reshape([2, 2]);
  await is("lyapunov", () => X.flatten(), [8.57026917, -5.0125, -5.0125, 5.7401872]);
});

Deno.test("areas: quantum circuits", async () => {
  const H = T([[1, 1], [1, -1]]).div(Math.SQRT2), CX = T([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]);
  const s = CX.matmul(H.kron(Tensor.eye(2, f64))).matmul(T([1, 0, 0, 0]));
  await is("bell", () => s, [0.70710678, 0.0, 0.0, 0.70710678]);
  const rho = s.outer(s.conj()).reshape([2, 2, 2, 2]), r = Tensor.einsum("ijkj->ik", rho), w = r.eigvalsh();
  await is("entropy", () => w.mul(w.log2()).sum().neg(), 1.0);
  const Y = Tensor.complex(Tensor.zeros([2, 2], f64), T([[0, -1], [1, 0]]));
  const U = Y.mul(Tensor.complex(T([0]), T([-0.15]))).matrixExp();
  await is("rotation", () => Tensor.cat([U.real().flatten(), U.imag().flatten()]), [
    0.98877108,
    -0.14943813,
    0.14943813,
    0.98877108,
    0.0,
    0.0,
    0.0,
    0.0,
  ]);
  const z = U.matmul(Tensor.complex(T([1, 0]), T([0, 1])));
  await is("phase", () => z.at(1).angle(), 1.42079633);
});

Deno.test("areas: optimal transport", async () => {
  const a = T([.2, .3, .5]), b = T([.4, .6]), C = T([[0, 1], [1, 0], [2, 1]]), K = C.neg().div(.1).exp();
  let u = a.onesLike(), v = b.onesLike();
  for (let i = 0; i < 200; i++) {
    v = b.div(K.T.matmul(u)).realize();
    u = a.div(K.matmul(v)).realize();
  }
  const plan = u.unsqueeze(1).mul(K).mul(v);
  await is("plan", () => plan.flatten(), [0.2, 0.0, 0.075, 0.225, 0.125, 0.375]);
  await is("cost", () => plan.mul(C).sum(), 0.7);
});

Deno.test("areas: sparse regression by shrinkage", async () => {
  const A = Tensor.arange(24, f64).pow(1.3).sin().reshape([6, 4]), y = A.matmul(T([1, 0, -2, 0]));
  const L = A.matrixNorm({ ord: 2 }).square();
  let x = Tensor.zeros([4], f64);
  for (let i = 0; i < 500; i++) {
    x = x.sub(A.T.matmul(A.matmul(x).sub(y)).div(L));
    x = x.sign().mul(x.abs().sub(L.reciprocal().mul(.1)).relu()).realize();
  }
  await is("lasso", () => x, [0.75777713, -0.0, -1.81908771, 0.0]);
  await is("lasso softshrink", () => T([3, -.2]).softshrink(.5), [2.5, 0]);
});

Deno.test("areas: a Gaussian process", async () => {
  const X = Tensor.linspace(0, 3, 7, f64), t = X.sin(), Xs = T([.25, 1.6, 4]);
  const k = (p: Tensor, q: Tensor): Tensor => p.unsqueeze(1).sub(q).square().mul(-.5).exp();
  const K = k(X, X).add(Tensor.eye(7, f64).mul(.01)), Ks = k(Xs, X), L = K.cholesky();
  const alpha = t.unsqueeze(1).choleskySolve(L);
  await is("gpmean", () => Ks.matmul(alpha).squeeze(1), [0.23475889, 1.00278572, -0.27342122]);
  const V = L.solveTriangular(Ks.T, { upper: false });
  await is("gpvar", () => V.square().sum(0).neg().add(1), [0.00622857, 0.00579854, 0.40848201]);
  const lik = t.dot(alpha.squeeze(1)).mul(-.5).sub(L.diagonal().log().sum()).sub(3.5 * Math.log(2 * Math.PI));
  await is("gplik", () => lik, -1.06449353);
});

Deno.test("areas: nonnegative factors", async () => {
  const V = T([[1, 2, 3], [2, 4.2, 6], [1, 0, 1], [.5, 1, 1.4]]);
  let W = T([[1, .5], [.5, 1], [1, .2], [.3, .9]]), H = T([[1, .4, .8], [.3, 1, .5]]);
  for (let i = 0; i < 100; i++) {
    H = H.mul(W.T.matmul(V)).div(W.T.matmul(W).matmul(H).add(1e-9)).realize();
    W = W.mul(V.matmul(H.T)).div(W.matmul(H).matmul(H.T).add(1e-9)).realize();
  }
  await is("nmf", () => V.sub(W.matmul(H)).norm(), 0.1083135);
  await is("nmfH", () => H.flatten(), [1.94210373, 0.17125434, 1.96491291, 0.15554808, 2.2618012, 2.39395772]);
});

Deno.test("areas: options, volatility and drawdowns", async () => {
  const price = (S: Tensor, sigma: Tensor): Tensor => {
    const [K, r, t] = [105, .02, .5];
    const d1 = S.div(K).log().add(sigma.square().div(2).add(r).mul(t)).div(sigma.mul(Math.sqrt(t)));
    return S.mul(d1.ndtr()).sub(d1.sub(sigma.mul(Math.sqrt(t))).ndtr().mul(K * Math.exp(-r * t)));
  };
  const S = new Tensor(100, f64), sigma = new Tensor(.25, f64);
  await is("call", () => price(S, sigma), 5.37662059);
  await is("delta", () => grad(price)(S, sigma), 0.44787106);
  await is("gamma", () => grad(grad(price))(S, sigma), 0.02237465);
  await is("vega", () => grad(price, { argnums: 1 })(S, sigma), 27.96830949);
  const p = T([100, 102, 101, 105, 103, 107]), r = p.log().diff();
  const n = Tensor.arange(5), weights = n.unsqueeze(1).sub(n);
  const decay = new Tensor(.94, f64).pow(weights.double()).tril();
  const first = Tensor.cat([r.square().at([0, 1]), r.square().at([1, null]).mul(.06)]);
  await is("ewma", () => decay.matmul(first).sqrt(), [0.01980263, 0.01935044, 0.02103533, 0.02093148, 0.02233685]);
  await is("drawdown", () => p.div(p.cummax(0)[0]).sub(1).min(), -0.01904762);
});

Deno.test("areas: poses from points", async () => {
  const P = T([[0, 0, 0], [1, 0, 0], [0, 2, 0], [0, 0, 3], [1, 1, 1]]), [w, x, y, z] = T([.5, .5, .5, .5]).unbind(0);
  const row = (...t: Tensor[]): Tensor => Tensor.stack(t);
  const two = (a: Tensor, b: Tensor, c: Tensor, d: Tensor, sign: number): Tensor =>
    a.mul(b).add(c.mul(d).mul(sign)).mul(2);
  const diag = (a: Tensor, b: Tensor): Tensor => a.square().add(b.square()).mul(-2).add(1);
  const R = Tensor.stack([
    row(diag(y, z), two(x, y, w, z, -1), two(x, z, w, y, 1)),
    row(two(x, y, w, z, 1), diag(x, z), two(y, z, w, x, -1)),
    row(two(x, z, w, y, -1), two(y, z, w, x, 1), diag(x, y)),
  ]);
  const moved = P.matmul(R.T).mul(1.5).add(T([1, 2, 3])), center = (t: Tensor): Tensor => t.sub(t.mean(0));
  const [U, s, Vt] = center(moved).T.matmul(center(P)).svd(),
    d = Tensor.stack([T([1]), T([1]), U.matmul(Vt).det().reshape([1])]).flatten();
  await is("procrustes", () => U.mul(d).matmul(Vt).flatten(), [-0.0, 0.0, 1.0, 1.0, -0.0, 0.0, 0.0, 1.0, -0.0]);
  await is("scale", () => s.mul(d).sum().div(center(P).square().sum()), 1.5);
  await is("turned", () => P.matmul(R.T), await P.matmul(R.transpose()).tolist() as number[][]);
});

Deno.test("areas: dynamic programming", async () => {
  const a = T([0, 1, 2, 3, 2]), b = T([0, 0, 1, 3, 2, 2]), cost = a.unsqueeze(1).sub(b).abs();
  const D = Tensor.full([6, 7], Infinity, f64).clone();
  D.setAt([0, 0], 0);
  for (let i = 0; i < 5; i++) {
    for (let j = 0; j < 6; j++) {
      const best = D.at(i, j).minimum(D.at(i, j + 1)).minimum(D.at(i + 1, j));
      D.setAt([i + 1, j + 1], cost.at(i, j).add(best));
    }
  }
  await is("dtw", () => D.at(5, 6), 1.0);
  const P = T([[[.8, .2, 0], [.1, .8, .1], [0, 0, 1]], [[.2, .8, 0], [0, .3, .7], [0, 0, 1]]]);
  const R = T([[0, -.5, 1], [-.2, -.5, 1]]);
  let v = Tensor.zeros([3], f64), q = R;
  for (let i = 0; i < 400; i++) {
    q = R.add(P.matmul(v).mul(.9)).realize();
    v = q.max(0);
  }
  await is("values", () => v, [6.73237554, 7.94520548, 10.0]);
  await is("policy", () => q.argmax(0), [1.0, 1.0, 0.0]);
});

Deno.test("areas: survival, clusters and texts", async () => {
  const time = T([5, 6, 6, 2, 4, 4, 7]), event = new Tensor([1, 0, 1, 1, 1, 0, 1]).bool();
  const times = await (await time.maskedSelect(event)).unique() as Tensor;
  const died = time.eq(times.unsqueeze(1)).logicalAnd(event).sum(1), there = time.ge(times.unsqueeze(1)).sum(1);
  await is("km", () => died.div(there).neg().add(1).cumprod(0), [0.85714286, 0.71428571, 0.53571429, 0.35714286, 0.0]);
  const X = T([[0, 0], [0, 1], [5, 5], [5, 6], [9, 0]]);
  let C = X.at(new Tensor([0, 2, 4]));
  for (let i = 0; i < 5; i++) {
    const hot = X.cdist(C).argmin(1).oneHot(3).double();
    C = hot.T.matmul(X).div(hot.sum(0).unsqueeze(1)).realize();
  }
  await is("kmeans", () => C.flatten(), [0.0, 0.5, 5.0, 5.5, 9.0, 0.0]);
  const texts = [[0, 1, 2, 0], [1, 3], [2, 2, 2, 3, 0]];
  const tf = Tensor.stack(texts.map((d) => new Tensor(d).bincount({ size: 4 }))).double();
  const idf = tf.gt(0).sum(0).add(1).double().reciprocal().mul(4).log().add(1),
    weights = tf.mul(idf).normalize({ dim: 1 });
  await is("tfidf", () => weights.flatten(), [
    0.81649658,
    0.40824829,
    0.40824829,
    0.0,
    0.0,
    0.70710678,
    0.0,
    0.70710678,
    0.30151134,
    0.0,
    0.90453403,
    0.30151134,
  ]);
  await is("cos", () => weights.cosineSimilarity(weights.at([0, 1])), [1.0, 0.28867513, 0.61545745]);
});
