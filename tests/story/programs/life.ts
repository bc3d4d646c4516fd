import { Tensor } from "../../../mod.ts";
let world = Tensor.zeros([8, 8], { dtype: "uint8" }).contiguous();
for (const [y, x] of [[0, 1], [1, 2], [2, 0], [2, 1], [2, 2]]) world.setAt([y, x], 1);
const before = await world.sum().item();
for (let step = 0; step < 8; step++) {
  let around = Tensor.zeros([8, 8], { dtype: "uint8" });
  for (const dy of [-1, 0, 1]) {
    for (const dx of [-1, 0, 1]) if (dy !== 0 || dx !== 0) around = around.add(world.roll([dy, dx], [0, 1]));
  }
  world = around.eq(3).bitwiseOr(world.bool().bitwiseAnd(around.eq(2))).cast("uint8").realize();
}
console.log(before, await world.sum().item(), JSON.stringify(await world.at(2).tolist()));
