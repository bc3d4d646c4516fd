import { Tensor } from "../../../mod.ts";
const n = new Tensor([1n, 255n, -1n, 2n ** 40n], { dtype: "int64" }),
  u = new Tensor([1, 2, 3, 0xffffffff], { dtype: "uint32" });
const mixed = u.mul(2654435761).bitwiseXor(u.rshift(16)), wide = n.mul(3n as never).add(1);
console.log(String(await mixed.tolist()), String(await wide.tolist()));
const [values, order] = new Tensor([5, 3, 9, 1, 7]).topk(3);
console.log(String(await values.tolist()), String(await order.tolist()));
const steps = new Tensor([3, 1, 2, 2]).cumsum(0), found = steps.searchsorted(new Tensor([0, 4, 7]));
console.log(String(await steps.tolist()), String(await found.tolist()));
console.log(String(await new Tensor([1.5, -2.5, 3e38, NaN]).cast("bfloat16").cast("float32").isnan().tolist()));
console.log(String(await Tensor.arange(10).float().quantile(new Tensor([0.25, 0.5])).tolist()));
