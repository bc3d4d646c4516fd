import { scope, Tensor } from "../../../mod.ts";
let kept = Tensor.zeros([4]).realize();
for (let i = 0; i < 5; i++) {
  kept = scope(() => {
    const grown = kept.add(i);
    const halved = grown.mul(0.5);
    return halved.realize();
  });
}
using last = kept.sum().realize();
console.log(await kept.tolist(), await last.item());
