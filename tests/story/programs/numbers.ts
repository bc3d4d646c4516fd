import { grad, hessian, nn, Tensor, vmap } from "../../../mod.ts";
Tensor.manualSeed(8);
const rosen = (x: Tensor) =>
  x.at([1, null]).sub(x.at([0, -1]).square()).square().mul(100).add(x.at([0, -1]).sub(1).square()).sum();
const x0 = new Tensor([0.5, -1, 2], { dtype: "float64" });
const g = grad(rosen)(x0) as Tensor, H = hessian(rosen)(x0) as Tensor;
console.log(await g.tolist(), await H.tolist());
const dots = vmap((a: Tensor, b: Tensor) => a.mul(b).sum())(
  Tensor.arange(6).reshape([2, 3]).float(),
  Tensor.ones([2, 3]),
);
console.log(await dots.tolist());
const A = new Tensor([[4, 1], [2, 3]], { dtype: "float64" }).realize(),
  inverse = A.inv(),
  det = A.det(),
  [q, r] = A.qr();
console.log((await det.item() as number).toFixed(3), await inverse.tolist(), q.shape, r.shape);
const [vals, idx] = Tensor.randn([3, 6]).topk(2),
  cum = Tensor.arange(10).float().cumsum(0).cumprod(0).log(),
  e = Tensor.einsum("ij,kj->ik", A, A);
console.log(await idx.tolist(), vals.shape, await e.tolist(), cum.shape, (await cum.sum().item() as number).toFixed(3));
const lstm = new nn.LSTMCell(3, 4), [h, c] = lstm.call(Tensor.ones([2, 3]));
const up = Tensor.arange(4).reshape([1, 1, 2, 2]).float().interpolate([4, 4], { mode: "linear" }),
  tr = up.convTranspose2d(Tensor.ones([1, 1, 2, 2]), undefined, { stride: 2 });
console.log(h.shape, (await c.sum().item() as number).toFixed(4), (await tr.sum().item() as number).toFixed(3));
