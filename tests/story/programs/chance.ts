import { Tensor } from "../../../mod.ts";
Tensor.manualSeed(2024);
const u = Tensor.uniform([3, 3], { low: -1, high: 1 }),
  n = Tensor.normal([4], { mean: 2, std: 3 }),
  b = Tensor.full([6], 0.3).bernoulli();
const perm = Tensor.randperm(7), pick = new Tensor([0.1, 0.2, 0.7]).multinomial({ numSamples: 5, replacement: true });
const like = u.randLike(), ints = Tensor.randint([5], { low: -3, high: 3 }), kaiming = Tensor.kaimingUniform([3, 2]);
const dropped = Tensor.train(() => Tensor.ones([5, 5]).dropout(0.4));
for (const t of [u, n, b, perm, pick, like, ints, kaiming, dropped]) {
  console.log(JSON.stringify(await t.tolist()).length > 3);
}
const state0 = Tensor.rand([2]);
console.log(await state0.add(Tensor.rand([2])).tolist());
const shuffled = Tensor.arange(8).at(Tensor.randperm(8));
console.log(await shuffled.sort()[0].tolist());
