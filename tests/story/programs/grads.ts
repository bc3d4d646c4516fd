import { grad, hessian, jacobian, Tensor, vmap } from "../../../mod.ts";
const rosen = (x: Tensor) => x.at(1).sub(x.at(0).square()).square().mul(100).add(x.at(0).neg().add(1).square());
let x = new Tensor([-1.2, 1], { dtype: "float64" });
for (let i = 0; i < 7; i++) x = x.sub(hessian(rosen)(x).inv().matmul(grad(rosen)(x))).realize();
console.log(String(await x.mul(1000).round().tolist()));
const j = jacobian((v: Tensor) => v.square().cumsum(0))(new Tensor([1, 2, 3]).float());
console.log(JSON.stringify(await j.tolist()));
const each = vmap((row: Tensor) => row.div(row.square().sum().sqrt()))(new Tensor([[3, 4], [5, 12]]).float());
console.log(JSON.stringify(await each.mul(65).round().tolist()));
