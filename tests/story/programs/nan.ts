import { Tensor } from "../../../mod.ts";
const x = new Tensor([1, 2, 0, 4]);
const logs = x.sub(1).log();
const scaled = logs.mul(0.5).add(x);
console.log(await scaled.sum().item());
const mean = scaled.mean();
console.log(await mean.item());
