/** Gradients of what was built on a tensor before it was realized, where the graph had passed by its shape. */
import { assertEquals } from "@std/assert";
import { Tensor } from "../../../mod.ts";
import { onDevice } from "../../support/on_device.ts";

const grad = { dtype: "float32", requiresGrad: true } as const;

for (const device of ["JS", "WASM"] as const) {
  Deno.test(`gradients of memory that two nodes of one graph have become, ${device}`, () =>
    onDevice(device, async () => {
      for (
        const make of [() => new Tensor([[1, 2], [3, 4], [5, 6]], grad), () => Tensor.rand([3, 2], grad)]
      ) {
        for (const isRealized of [false, true]) {
          const leaf = make(), turned = leaf.reshape([3, 1, 2]).expand([3, 4, 2]);
          const rows = leaf.at(new Tensor([0, 2, 2])), loss = turned.mul(2).sum().add(rows.sum());
          if (isRealized) await leaf.tolist();
          assertEquals(await loss.gradient([leaf])[0].tolist(), [[9, 9], [8, 8], [10, 10]]);
          loss.backward();
          assertEquals(await leaf.grad!.tolist(), [[9, 9], [8, 8], [10, 10]]);
        }
      }
    }));
}
