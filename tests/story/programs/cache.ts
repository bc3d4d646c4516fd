import { jit, Tensor, Variable } from "../../../mod.ts";
Tensor.manualSeed(9);
const dim = 8,
  keys = Tensor.zeros([16, dim]).contiguous().realize(),
  vals = Tensor.zeros([16, dim]).contiguous().realize();
const wq = Tensor.randn([dim, dim]).realize(),
  wk = Tensor.randn([dim, dim]).realize(),
  wv = Tensor.randn([dim, dim]).realize();
const at = new Variable("at", 0, 15);
const one = jit((x: Tensor, pos: Variable | number) => {
  const p = pos as number;
  keys.setAt([p], x.matmul(wk));
  vals.setAt([p], x.matmul(wv));
  const scores = x.matmul(wq).matmul(keys.transpose()).div(Math.sqrt(dim));
  const seen = Tensor.arange(16).le(p as number);
  return seen.where(scores, -Infinity).softmax().matmul(vals);
});
let x = Tensor.ones([dim]).realize();
for (let i = 0; i < 4; i++) x = one(x, at.bind(i) as never).realize();
console.log((await x.data()).length, Number.isFinite(await x.sum().item()));
