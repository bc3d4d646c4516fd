import { Tensor } from "../../../mod.ts";
async function main(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 20));
  const late = new Tensor([1, 2, 3]).mul(7);
  console.log(await late.tolist());
}
main();
