/** Pools, points and sizes: what the golden cases do not hold. */
import { assertEquals } from "@std/assert";
import { nn, Tensor } from "../../../mod.ts";
import { devicesHere } from "../../fixtures/devices.ts";

const devices = await devicesHere();

for (const device of devices) {
  Deno.test(`adaptive pools: places of what was picked twice on ${device}`, async () => {
    // the place is computed of what a loop within a position finds: its loops are not merged
    const values = [-8, -2, -4, -2.5, -7, 3, -9, -0.5, 3.5, -3, 5, 1, 4, 5.5, -4.5, 2];
    const x = new Tensor(values, { dtype: "float32", device }).reshape([1, 1, 4, 4]);
    const [most, at] = x.adaptiveMaxPool2d([2, 3], { returnIndices: true });
    assertEquals(await most.flatten().tolist(), [3, 3, -0.5, 5.5, 5.5, 5]);
    assertEquals(await at.flatten().tolist(), [5, 5, 7, 13, 13, 10]);
  });

  Deno.test(`gridSample: volumes, and points on the border, on ${device}`, async () => {
    const x = Tensor.arange(8, undefined, undefined, { dtype: "float32" }).to(device).reshape([1, 1, 2, 2, 2]);
    const grid = new Tensor([[0, 0, 0], [-1, -1, 1], [0.5, -1, -1]], { dtype: "float32", device });
    grid.requiresGrad = true;
    const y = x.gridSample(grid.reshape([1, 1, 1, 3, 3]), { alignCorners: true, paddingMode: "border" });
    assertEquals(await y.flatten().tolist(), [3.5, 4, 0.75]);
    const [slope] = y.sum().gradient([grid]);
    assertEquals(await slope.tolist(), [[0.5, 1, 2], [0, 0, 0], [0.5, 0, 0]]);
  });
}

Deno.test("convolutions of one sample, and layers of rows that pad", async () => {
  const x = Tensor.arange(12, undefined, undefined, { dtype: "float32" }).reshape([2, 6]), w = Tensor.ones([3, 2, 2]);
  assertEquals(await x.conv2d(w).tolist(), await x.unsqueeze(0).conv2d(w).squeeze(0).tolist());
  assertEquals(x.convTranspose2d(Tensor.ones([2, 3, 2]), undefined, { stride: 2 }).shape, [3, 12]);
  const layer = new nn.Embedding(4, 2, { paddingIdx: -1 });
  assertEquals(await layer.weight.at(3).tolist(), [0, 0]);
  const [slope] = layer.call(new Tensor([3, 0, 3])).sum().gradient([layer.weight]);
  assertEquals(await slope.tolist(), [[1, 1], [0, 0], [0, 0], [0, 0]]);
  const norm = new nn.RMSNorm([2, 6], { eps: 0 }), mean = Math.sqrt(506 / 12);
  assertEquals(Math.abs(Number((await norm.call(x).data())[11]) - 11 / mean) < 1e-6, true);
});

Deno.test("indexPut: several values at one place count as often, or the last stays", async () => {
  const x = Tensor.zeros([2, 3]), at = new Tensor([0, 0, 2]);
  const values = new Tensor([1, 2, 4], { dtype: "float32" });
  assertEquals(await x.indexPut([1, at], values, { accumulate: true }).tolist(), [[0, 0, 0], [3, 0, 4]]);
  assertEquals(await x.indexPut([1, at], values).tolist(), [[0, 0, 0], [2, 0, 4]]);
  assertEquals(await x.indexPut([":", 1], 5, { accumulate: true }).tolist(), [[0, 5, 0], [0, 5, 0]]);
});

Deno.test("polygamma below 0, its poles; renorm; the angle of doubles", async () => {
  const double = { dtype: "float64", device: "WASM" } as const; // a GPU may lack them
  const x = new Tensor([-0.5, -1.25, -3, 0], double);
  const found = Array.from(await x.polygamma(2).data(), (v) => Number(Number(v).toPrecision(12)));
  assertEquals(found, [-0.828796644234, 123.721366784, -Infinity, -Infinity]);
  assertEquals([...await x.polygamma(3).data()].slice(2), [Infinity, Infinity]);
  assertEquals(await new Tensor([-1], double).angle().tolist(), [Math.PI]);
  const y = await new Tensor([[3, 4], [0.5, 0]]).renorm(2, 0, 1).data();
  assertEquals(Array.from(y, (v) => Number(Number(v).toFixed(5))), [0.6, 0.8, 0.5, 0]);
});
