import { Tensor } from "../../../mod.ts";
const t = Tensor.zeros([4, 5]).contiguous().realize();
t.setAt([1], 3);
t.setAt([[0, 2], 2], new Tensor([7, 8]));
t.setAt([new Tensor([3, 0]), 4], 9);
t.setAt([t.gt(7)], -1);
const view = t.at([1, 3]);
view.assign(view.mul(2));
t.assign(t.add(t.transpose().sum(0).unsqueeze(1)));
const big = new Tensor([1n << 40n, -5n], { dtype: "int64" }).contiguous().realize();
big.assign(big.mul(3).sub(1));
big.setAt([1], 7n);
const grid = Tensor.zeros([3, 3], { dtype: "int32" }).contiguous().realize();
for (let i = 0; i < 3; i++) for (let j = 0; j <= i; j++) grid.setAt([i, j], i * 10 + j);
const counts = Tensor.zeros([4], { dtype: "int32" }).scatterAdd(
  0,
  new Tensor([0, 1, 1, 3]),
  Tensor.ones([4], { dtype: "int32" }),
);
const mask = new Tensor([true, false, true]).contiguous().realize();
mask.assign(mask.logicalNot());
console.log(await t.tolist(), await big.tolist(), await grid.tolist(), await counts.tolist(), await mask.tolist());
