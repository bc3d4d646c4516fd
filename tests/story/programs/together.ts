import { Tensor } from "../../../mod.ts";
async function score(row: number): Promise<number> {
  const values = Tensor.arange(5).add(row);
  await Promise.resolve();
  const best = values.square().sum();
  return await best.item() as number;
}
const rows = await Promise.all([1, 2, 3, 4].map(score));
console.log(rows);
