import { Tensor } from "../../../mod.ts";
const lazy = Tensor.ones([1000, 1000]).matmul(Tensor.ones([1000, 1000]));
console.log(lazy.shape, lazy.dtype.name);
