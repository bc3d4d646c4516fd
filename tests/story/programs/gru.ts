import { jit, nn, Tensor } from "../../../mod.ts";
Tensor.manualSeed(12);
const cell = new nn.GRUCell(5, 7), memory = Tensor.zeros([2, 7]).contiguous().realize();
const listen = jit((frame: Tensor) => {
  const next = cell.call(frame, memory);
  memory.assign(next);
  return next.mean(1);
});
const told: number[][] = [];
for (let t = 0; t < 6; t++) {
  const frame = Tensor.arange(10).reshape([2, 5]).mul(0.1 * (t + 1)).contiguous().realize();
  told.push(await listen(frame).tolist() as number[]);
}
console.log(told.map((row) => row.map((x) => x.toFixed(4)).join(" ")).join("; "), await memory.sum().item());
