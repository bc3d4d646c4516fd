import { Tensor } from "../../../mod.ts";
Tensor.manualSeed(6);
const moves = Tensor.randn([7, 7]).logSoftmax(-1).realize();
let beams = Tensor.zeros([1]), ends = new Tensor([0]);
for (let step = 0; step < 4; step++) {
  const all = beams.unsqueeze(1).add(moves.at(ends)).flatten();
  const [best, at] = all.topk(3);
  beams = best.contiguous();
  ends = at.mod(7).contiguous();
  Tensor.realize([beams, ends]);
}
console.log(await ends.tolist(), (await beams.tolist() as number[]).map((x) => x.toFixed(3)));
