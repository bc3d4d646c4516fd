import { Tensor } from "../../../mod.ts";
const q = new Tensor([-128, 127, 5, -7], { dtype: "int8" }), r = new Tensor([true, false, true, true]);
const h = new Tensor([0.1, 65504, 1e-7, -3], { dtype: "float16" });
console.log(await q.mul(q).tolist(), await q.add(1).tolist());
console.log(await r.logicalNot().tolist(), await r.sum().item(), await r.where(h, h.neg()).tolist());
console.log(await h.mul(2).tolist(), await h.sum().item(), await h.cast("int8").tolist());
console.log(await q.cast("float16").div(3).tolist(), await q.bitcast("uint8").tolist());
console.log(await h.cast("bfloat16").exp().tolist());
