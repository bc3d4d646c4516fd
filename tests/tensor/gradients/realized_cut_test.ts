/** A tensor that shows all of a leaf's memory is realized: the leaf goes on having gradients. */
import { deepStrictEqual as assertEquals } from "node:assert/strict";
import { Tensor } from "../../../mod.ts";
import { onDevice } from "../../support/on_device.ts";

for (const device of ["JS", "WASM"] as const) {
  Deno.test(`realized cut: a leaf whose cut or copy for gradients was realized has its gradient, ${device}`, () =>
    onDevice(device, async () => {
      const x = new Tensor([[1, 2, 3], [4, 5, 6]], { dtype: "float32", requiresGrad: true });
      const v = x.contiguousBackward(), o = x.mul(7).sum();
      x.realize();
      const cut = x.detach().realize();
      v.realize();
      const loss = v.mul(2).sum().add(o).add(cut.mul(50).sum()).add(x.sum());
      assertEquals(await loss.gradient([x])[0].flatten().tolist(), [10, 10, 10, 10, 10, 10]);
    }));
}
