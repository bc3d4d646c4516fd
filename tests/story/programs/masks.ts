import { Tensor } from "../../../mod.ts";
const scores = Tensor.arange(12).reshape([3, 4]).sub(5).float();
const isGood = scores.gt(0);
const kept = scores.maskedFill(isGood.logicalNot(), -Infinity).softmax(-1);
const table = Tensor.zeros([5, 2]).contiguous();
table.setAt([new Tensor([0, 3, 4])], Tensor.ones([3, 2]).mul(new Tensor([[1], [2], [3]])));
const picked = scores.gather(1, new Tensor([[0, 3], [1, 2], [3, 3]]));
console.log(await kept.nanToNum().sum().item(), await table.tolist(), await picked.tolist());
