import { Tensor } from "../../../mod.ts";
const x = Tensor.arange(12).reshape([3, 4]).float().realize(), w = Tensor.ones([4, 2]).contiguous().realize();
const scores = x
  .matmul(w)
  // between calls, and in them, ( may stand what is no bracket
  .add(
    Tensor.full([2], ")".length),
  )
  .softmax(-1)
  .contiguous();
const rows = scores.sum(1)
  .contiguous()
  .mul(3)
  .contiguous();
const best = await rows
  ?.max()
  .item();
console.log(Math.round(best), (await scores.data()).length);
function halved(t: Tensor) {
  return t
    .div(2)
    .contiguous();
}
console.log(await halved(rows).sum().item());
