import { Tensor } from "../../../mod.ts";
Tensor.manualSeed(42);
const a = Tensor.rand([20]),
  b = Tensor.randn([4, 5]),
  p = Tensor.randperm(9),
  k = Tensor.randint([7], { low: 0, high: 10 });
const m = Tensor.rand([3, 4]).multinomial({ numSamples: 2 });
console.log(await a.mean().item(), await b.std().item(), await p.tolist(), await k.tolist(), await m.tolist());
console.log(await Tensor.train(() => b.dropout(0.5).tolist()));
