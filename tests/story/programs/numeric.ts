import { Tensor } from "../../../mod.ts";
const A = new Tensor([[4, 1, 2], [1, 3, 0], [2, 0, 5]], { dtype: "float64" });
let v = Tensor.ones([3], { dtype: "float64" });
for (let i = 0; i < 12; i++) {
  const w = A.matmul(v);
  v = w.div(w.square().sum().sqrt());
}
console.log(await v.dot(A.matmul(v)).item());
const r = new Tensor([3, 1, 2]).sort()[0].cumsum(0).reciprocal();
console.log(await r.tolist());
