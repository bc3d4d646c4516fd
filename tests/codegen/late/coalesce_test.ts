/** Accesses that lie side by side are wide ones on a grid, wherever in its images a tile begins. @module */
import { assertEquals } from "@std/assert";
import { Device, Tensor } from "../../../mod.ts";
import { registerSim } from "../../fixtures/sim.ts";
import { openObserving, WRITERS } from "../../support/snapshot_writers.ts";
import { optimized } from "../../fixtures/optimized.ts";

Device.get(); // opened before the tests

/** Of the kernel that a product over images ends with: how many halves its stores have, each width once. */
function widthsOf(side: number, channels: number, out: number): number[] {
  const device = openObserving("CUDA");
  const empty = (...shape: number[]): Tensor => Tensor.empty(shape, { device: device.name, dtype: "float16" });
  const skip = empty(64, out, side, side), scale = empty(out).reshape([1, -1, 1, 1]);
  empty(64, channels, side, side).conv2d(empty(out, channels, 1, 1)).mul(scale).add(skip).relu().realize();
  const text = WRITERS.CUDA.text(device.kernels[device.kernels.length - 1].program);
  const widths = [...text.matchAll(/^ *(?:\*\((\w+) \*\)&)?b0\[\w+\] = /gm)].map(([, type]) =>
    ({ unsigned: 2, uint2: 4, uint4: 8 })[type] ?? 1
  );
  return [...new Set(widths)].sort();
}

Deno.test(
  "coalesce: stores to images are as wide as their sizes allow, also where tiles cut through them",
  optimized(() => {
    // 784 = 98 * 8 and 196 = 49 * 4 places an image, in tiles of 256
    assertEquals(widthsOf(28, 128, 512), [8]);
    assertEquals(widthsOf(14, 256, 1024), [4]);
    assertEquals(widthsOf(20, 128, 512), [8]);
  }),
);

Deno.test("coalesce: where a position was read from memory, what wrote it is done once", async () => {
  registerSim();
  const x = Tensor.arange(4000, undefined, undefined, { dtype: "float32", device: "SIM" as string }).reshape([2, 2000]);
  const index = Tensor.arange(3000, undefined, undefined, { device: "SIM" as string }).mul(7).mod(2000);
  const [slope] = x.at(":", index).mul(2).sum().gradient([x]);
  const times = Array.from({ length: 2000 }, () => 0);
  for (let i = 0; i < 3000; i++) times[7 * i % 2000] += 2;
  assertEquals(await slope.tolist(), [times, times]);
});
