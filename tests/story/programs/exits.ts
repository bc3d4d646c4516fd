import { Tensor } from "../../../mod.ts";
const sum = new Tensor([1, 2, 4]).add(0.5).sum();
console.log(await sum.item());
Deno.exit(3);
