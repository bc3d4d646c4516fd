import { jit, Tensor, Variable } from "../../../mod.ts";
const x = Tensor.arange(40).reshape([10, 4]).cast("float32").contiguous().realize();
const n = new Variable("n", 1, 10);
const f = jit((t: Tensor) => t.mul(2).sum(0).realize());
for (let i = 2; i < 7; i++) console.log(await f(x.at([0, n.bind(i)])).tolist());
