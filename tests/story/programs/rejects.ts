import { Tensor } from "../../../mod.ts";
async function main(): Promise<void> {
  const root = new Tensor([4, 9]).sqrt().realize();
  console.log(await root.tolist());
  throw new Error("out of ideas");
}
main();
