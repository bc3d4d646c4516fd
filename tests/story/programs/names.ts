import { jit, Tensor } from "../../../mod.ts";
// names that a script may have itself, and one name in many scopes
const data = new Tensor([1, 2, 3, 4]).realize();
const isFar = data.mul(2).contiguous().realize();
const i = isFar.add(1).contiguous().realize();
const results = i.sum().sqrt().exp().contiguous().realize();
const data_recorded = results.sub(data).contiguous().realize();
function make(scale: number) {
  const x = Tensor.full([3], scale);
  return (y: Tensor) => {
    const x2 = x.mul(y);
    return [1, 2].map((i) => {
      const x = x2.add(i);
      return x;
    }).reduce((a, b) => a.mul(b));
  };
}
const f = make(2), g = make(3), h = jit((t: Tensor) => f(t).add(g(t)));
const Float32Array_ = i.shrink([[1, 4]]).mul(0.5).contiguous().realize();
for (let k = 0; k < 3; k++) h(Float32Array_).realize();
const [first, second] = [f(Float32Array_), g(Float32Array_)], { out } = { out: first.sub(second) };
const difference = out.abs().sum();
const floor = difference.add(h(Float32Array_).max());
console.log(await floor.item(), await data_recorded.tolist());
const größe = floor.mul(0.5);
const 变量 = größe.sqrt();
console.log(await größe.item(), await 变量.item());
