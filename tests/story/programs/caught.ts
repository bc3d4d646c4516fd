import { jit, Tensor } from "../../../mod.ts";
const f = jit((x: Tensor) => x.matmul(x).sum());
const good = Tensor.ones([3, 3]).realize(), bad = Tensor.ones([2, 3]).realize();
for (const x of [good, good, bad, good]) {
  try {
    console.log(await f(x).item());
  } catch (error) {
    console.log((error as Error).name);
  }
}
