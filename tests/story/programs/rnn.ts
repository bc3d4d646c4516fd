import { nn, Tensor } from "../../../mod.ts";
Tensor.manualSeed(2);
const cell = new nn.LSTMCell(3, 5);
let h = Tensor.zeros([2, 5]), c = Tensor.zeros([2, 5]);
const xs = Tensor.randn([4, 2, 3]);
for (let t = 0; t < 4; t++) {
  const [nextH, nextC] = cell.call(xs.at(t), [h, c]);
  [h, c] = [nextH, nextC];
}
console.log(await h.tolist());
