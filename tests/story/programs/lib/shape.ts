import type { Tensor } from "../../../../mod.ts";
/** Areas of circles with these radii. */
export function areas(radii: Tensor): Tensor {
  const squared = radii.square();
  return squared.mul(Math.PI);
}
