import { Tensor } from "../../../mod.ts";
import { areas } from "./lib/shape.ts";
export const sides: Tensor = new Tensor([1, 2, 3.5]);
export const out: Tensor = areas(sides);
console.log(await out.tolist());
