import { Tensor } from "../../../mod.ts";
const a = Tensor.ones([3, 4]).add(1).realize();
console.log(await a.sum().item());
const b = Tensor.ones([5, 6]);
console.log(await a.matmul(b).item());
