import { Tensor } from "../../../mod.ts";
const table = new Map<string, Tensor>([["a b", Tensor.ones([3])], ["class", Tensor.full([3], 2)]]);
const [first, { deep: [, inner] }] = [Tensor.eye(3), { deep: [0, Tensor.arange(3).float()] as const }] as const;
const sum = [...table.values()].reduce((acc, t) => acc.add(t)),
  constructor = sum.mul(inner),
  await_ = constructor.matmul(first);
const $ = await_.cat([inner]);
const _ = $.flip(0), __proto = _.shrink([[1, 4]]);
label: for (const t of [sum, __proto]) {
  for (;;) {
    console.log(await t.sum().item());
    continue label;
  }
}
const pick = (x: Tensor) =>
  (x.ndim > 1 ? x.sum(0) : x)
    .add(1)
    .mul(
      table.get("class")!,
    );
console.log(String(await pick(first).tolist()), String(await pick(inner).tolist()));
