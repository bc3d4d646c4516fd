/**
 * Everyday programs of people who compute: fits, decompositions, transforms, equations and derivatives, written without a
 * cast or a way around, against what is known of their answers.
 */
import { assert, assertClose, assertEquals } from "@std/assert";
import { fft, grad, hessian, jacobian, jit, jvp, nn, scan, state, Tensor, vmap } from "../../mod.ts";
import { programs } from "./everyday.ts";

const program = programs("everyday science", 5);

program("least squares: a parabola through noise", async () => {
  const x = Tensor.linspace(-1, 1, 50), A = Tensor.stack([x.square(), x, Tensor.ones([50])], 1);
  const y = x.square().mul(2).sub(x).add(0.5).add(Tensor.randn([50]).mul(0.01)).realize();
  const [a, b, c] = await A.T.matmul(A).solve(A.T.matmul(y.unsqueeze(1))).flatten().tolist<number[]>();
  const r2 = 1 - await A.matmul(new Tensor([a, b, c])).sub(y).square().sum().item() /
      await y.sub(y.mean()).square().sum().item();
  assertClose([a, b, c], [2, -1, 0.5], 0.03);
  assert(r2 > 0.99);
});

program("principal components by the singular values", async () => {
  const direction = new Tensor([[3, 4]]).div(5);
  const x = Tensor.randn([40, 1]).mul(5).matmul(direction).add(Tensor.randn([40, 2]).mul(0.1)).realize();
  const [, s, vt] = x.sub(x.mean(0)).svd(false), explained = s.square().div(s.square().sum());
  assert(await explained.at(0).item() > 0.99);
  assertClose(await vt.at(0).mul(direction.flatten()).sum().abs().item(), 1, 1e-2);
});

program("draws with a covariance, by Cholesky", async () => {
  const cov = new Tensor([[2, 0.6], [0.6, 1]]), L = cov.cholesky();
  const x = Tensor.randn([4000, 2]).matmul(L.T).realize(), centered = x.sub(x.mean(0));
  assertClose(await L.matmul(L.T).tolist(), [[2, 0.6], [0.6, 1]], 1e-5);
  assertClose(await centered.T.matmul(centered).div(3999).tolist(), [[2, 0.6], [0.6, 1]], 0.15);
});

program("a low pass by the Fourier transform", async () => {
  const n = 128, t = Tensor.arange(n).div(n), slow = t.mul(2 * Math.PI * 3).sin(), fast = t.mul(2 * Math.PI * 40).sin();
  const spectrum = fft.rfft(slow.add(fast)), keep = Tensor.arange(n / 2 + 1).lt(10);
  const filtered = fft.irfft(spectrum.mul(keep), -1, { n });
  assertClose(await filtered.sub(slow).abs().max().item(), 0, 1e-5);
});

program("Poisson's equation on a ring of squares, by fft2", async () => {
  const n = 16, x = Tensor.arange(n).mul(2 * Math.PI / n), u = x.sin().unsqueeze(1).mul(x.mul(2).cos());
  const k = fft.fftfreq(n, { d: 1 / n }), k2 = k.square().unsqueeze(1).add(k.square());
  const solved = fft.ifft2(fft.fft2(u.mul(-5)).div(k2.eq(0).where(1, k2.neg()))).real();
  assertClose(await solved.sub(u).abs().max().item(), 0, 1e-4);
});

program("heat on a grid: a captured step, the total stays", async () => {
  const step = jit((u: Tensor) => {
    const sides = [u.roll(1, 0), u.roll(-1, 0), u.roll(1, 1), u.roll(-1, 1)];
    return u.add(sides.reduce((a, b) => a.add(b)).sub(u.mul(4)).mul(0.2));
  });
  let u = Tensor.zeros([32, 32]).contiguous();
  u.setAt([16, 16], 100);
  u = u.realize();
  for (let i = 0; i < 100; i++) u = step(u).realize();
  assertClose(await u.sum().item(), 100, 1e-2);
  assert(await u.max().item() < 1);
  assertEquals(await u.flatten().argmax().item(), 16 * 32 + 16);
});

program("k-means: centers of three clouds", async () => {
  const truth = new Tensor([[0, 0], [5, 0], [0, 5]], { dtype: "float32" });
  const x = truth.repeatInterleave(20, 0).add(Tensor.randn([60, 2]).mul(0.3)).realize();
  let centers = x.at(new Tensor([0, 20, 40]));
  for (let i = 0; i < 5; i++) {
    const own = x.unsqueeze(1).sub(centers).square().sum(-1).argmin(1).oneHot(3).float();
    centers = own.T.matmul(x).div(own.sum(0).unsqueeze(1)).realize();
  }
  assertClose(await centers.tolist(), await truth.tolist(), 0.3);
});

program("Monte Carlo: pi, and an option", async () => {
  const [x, y] = [Tensor.rand([40000]), Tensor.rand([40000])];
  const inside = await x.square().add(y.square()).le(1).mean().item() * 4;
  const prices = Tensor.randn([40000]).mul(0.2).sub(0.02).exp().mul(100), call = prices.sub(100).relu().mean();
  assertClose([inside, await call.item() / 7.966], [Math.PI, 1], 0.05);
});

program("a network that solves u'' = -u, by the derivatives of its outputs", async () => {
  const net = { a: new nn.Linear(1, 12), b: new nn.Linear(12, 1) };
  const u = (x: Tensor) => net.b.call(net.a.call(x.reshape([1, 1])).tanh()).reshape([]);
  const second = grad(grad(u)), residual = vmap((x: Tensor) => second(x).add(u(x)));
  const optimizer = new nn.optim.Adam(state.getParameters(net), { lr: 0.02 }), x = Tensor.linspace(0, 1.5, 8);
  const zero = new Tensor(0, { dtype: "float32" }), slope = grad(u);
  const step = jit(() =>
    Tensor.train(() => {
      optimizer.zeroGrad();
      const loss = residual(x).square().mean().add(u(zero).square()).add(slope(zero).sub(1).square()).backward();
      optimizer.step();
      return loss;
    })
  );
  const first = await step().item();
  let last = first;
  for (let i = 0; i < 40; i++) last = await step().item();
  assert(last < first / 4, `${first} to ${last}`);
});

program("the Jacobian of a change to polar coordinates", async () => {
  const polar = (p: Tensor) => Tensor.stack([p.at(0).mul(p.at(1).cos()), p.at(0).mul(p.at(1).sin())]);
  const J = jacobian(polar)(new Tensor([2, 0.5]));
  assertClose(await J.det().item(), 2, 1e-5);
  assertClose(await J.tolist(), [[Math.cos(0.5), -2 * Math.sin(0.5)], [Math.sin(0.5), 2 * Math.cos(0.5)]], 1e-5);
});

program("a Hessian, its product with a vector, and a step of Newton's method", async () => {
  const f = (x: Tensor) => x.at(0).square().add(x.at(0).mul(x.at(1))).add(x.at(1).square().mul(2)).sub(x.sum());
  const at = new Tensor([1.5, -0.5]), v = new Tensor([1, 2], { dtype: "float32" });
  const [, product] = jvp(grad(f), [at], [v]), H = hessian(f)(at);
  const next = at.sub(H.solve(grad(f)(at).unsqueeze(1)).flatten());
  assertClose(await H.tolist(), [[2, 1], [1, 4]], 1e-5);
  assertClose(await product.tolist(), [4, 9], 1e-5);
  assertClose(await grad(f)(next).tolist(), [0, 0], 1e-5);
});

program("third derivatives", async () => {
  const third = grad(grad(grad((x: Tensor) => x.sin())));
  const values: number[] = [];
  for (const x of [0, 0.5, 2]) values.push(await third(new Tensor(x, { dtype: "float32" })).item());
  assertClose(values, [-1, -Math.cos(0.5), -Math.cos(2)], 1e-5);
});

program("gradients of each sample, and their norms clipped", async () => {
  const w = new Tensor([0.5, -1]), x = Tensor.randn([6, 2]).realize(), y = Tensor.randn([6]).realize();
  const loss = (w: Tensor, x: Tensor, y: Tensor) => x.matmul(w).sub(y).square();
  const each = vmap(grad(loss), { inAxes: [null, 0, 0] })(w, x, y), norms = each.square().sum(1).sqrt();
  const clipped = each.mul(norms.clamp(1).reciprocal().unsqueeze(1));
  const whole = grad((w: Tensor) => x.matmul(w).sub(y).square().sum())(w);
  assertClose(await each.sum(0).tolist(), await whole.tolist(), 1e-4);
  assert(await clipped.square().sum(1).max().item() <= 1.0001);
});

program("a filter along time, as a scan with its gradient", async () => {
  const xs = Tensor.arange(10).cast("float32"), decay = new Tensor(0.5);
  const filter = (decay: Tensor) =>
    scan(
      (s: Tensor, x: Tensor): [Tensor, Tensor] => {
        const next = s.mul(decay).add(x);
        return [next, next];
      },
      new Tensor(0, { dtype: "float32" }),
      xs,
    );
  const [last, all] = filter(decay), slope = grad((d: Tensor) => filter(d)[0])(decay);
  let s = 0, ds = 0;
  for (let x = 0; x < 10; x++) [s, ds] = [s * 0.5 + x, ds * 0.5 + s];
  assertClose([await last.item(), await slope.item()], [s, ds], 1e-4);
  assertEquals(all.shape, [10]);
});
