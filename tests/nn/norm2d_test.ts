/** LayerNorm2d: the channels of images, against LayerNorm of the same values with the channels last. */
import { assertEquals } from "@std/assert";
import { Device, nn, Tensor } from "../../mod.ts";

Device.default = "JS";

Deno.test("LayerNorm2d normalizes the channels of each pixel", async () => {
  const x = Tensor.arange(24, undefined, undefined, { dtype: "float32", device: "JS" }).square().reshape([2, 3, 2, 2]);
  const images = new nn.LayerNorm2d(3), rows = new nn.LayerNorm(3);
  const scale = new Tensor([1, 2, 0.5], { device: "JS" }), shift = new Tensor([0, -1, 0.25], { device: "JS" });
  for (const layer of [images, rows]) {
    layer.weight = scale;
    layer.bias = shift;
  }
  const want = rows.call(x.permute([0, 2, 3, 1])).permute([0, 3, 1, 2]);
  assertEquals(await images.call(x).tolist(), await want.tolist());
  assertEquals(images.call(x).shape, [2, 3, 2, 2]);
});
