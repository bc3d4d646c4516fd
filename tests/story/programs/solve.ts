import { Tensor } from "../../../mod.ts";
const a = new Tensor([[4, 1, 0], [1, 3, 1], [0, 1, 2]], { dtype: "float64" });
const b = new Tensor([[1], [2], [3]], { dtype: "float64" });
const x = a.solve(b), det = a.det();
const lower = a.cholesky();
console.log(
  await x.tolist(),
  await det.item(),
  await lower.matmul(lower.transpose(0, 1)).sub(a).abs().max().lt(1e-12).item(),
);
