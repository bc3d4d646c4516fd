/** Pools over windows that are drawn, pools and convolutions by other names, strides; what they refuse. @module */
import assert from "node:assert/strict";
import { Device, nn, Tensor } from "../../../mod.ts";

await Device.open(Device.default); // its library is no leak of the first test

for (const [n, k, out] of [[9, 2, 5], [10, 3, 4], [7, 2, 6], [5, 2, 1], [8, 1, 8]]) {
  Deno.test(`fractional pools: ${out} windows of ${k} in ${n}`, async () => {
    const width = 6, x = Tensor.arange(2 * 3 * n * width).float().reshape([2, 3, n, width]).realize();
    const [most, at] = x.fractionalMaxPool2d([k, 2], { outputSize: [out, 3], returnIndices: true });
    assert.deepEqual([most.shape, at.shape, at.dtype.name], [[2, 3, out, 3], [2, 3, out, 3], "int32"]);
    const values = await most.tolist() as number[][][][], places = await at.tolist() as number[][][][];
    const step = out > 1 ? (n - k) / (out - 1) : 0;
    values.forEach((image, i) =>
      image.forEach((channel, c) => {
        const ends = channel.map((row) => Math.floor((row[0] % (n * width)) / width) + 1); // of rising values the last
        if (out > 1) assert.equal(ends[0], k);
        assert.equal(ends[out - 1], n);
        // between the first and the last, windows are one step apart, rounded
        ends.slice(1, -1).forEach((end, j) => assert.ok(Math.abs(end - ends[j] - step) < 1, String(ends)));
        channel.forEach((row, j) =>
          row.forEach((v, l) => assert.equal(v, (i * 3 + c) * n * width + places[i][c][j][l]))
        );
      })
    );
  });
}

Deno.test("fractional pools: gradients go to maxima, draws differ by channel and call, volumes", async () => {
  const x = Tensor.arange(64).float().reshape([1, 1, 8, 8]).realize();
  x.requiresGrad = true;
  const [most, at] = x.fractionalMaxPool2d(2, { outputRatio: 0.5, returnIndices: true });
  Tensor.realize([most, at]);
  most.sum().backward();
  const want = new Array<number>(64).fill(0);
  for (const p of (await at.flatten().tolist()) as number[]) want[p]++;
  assert.deepEqual(await x.grad!.flatten().tolist(), want);
  const many = Tensor.arange(20).float().reshape([1, 1, 20]).expand([50, 1, 20]).unsqueeze(1);
  const rows = await many.fractionalMaxPool2d([1, 2], { outputSize: [1, 6] }).tolist();
  assert.ok(new Set((rows as unknown[]).map((r) => JSON.stringify(r))).size > 3);
  const cube = Tensor.arange(4 * 5 * 6).float().reshape([1, 1, 4, 5, 6]);
  const [top, where] = cube.fractionalMaxPool3d([2, 2, 3], { outputSize: [2, 3, 2], returnIndices: true });
  assert.deepEqual(await top.tolist(), await where.float().tolist());
  assert.equal(await top.max().item(), 119);
});

Deno.test("other ranks: layers by PyTorch's names", async () => {
  const line = new Tensor([[[1, 5, 2, 4]]]), cube = Tensor.arange(8).reshape([1, 1, 2, 2, 2]);
  assert.deepEqual(await new nn.MaxPool1d(2).call(line).tolist(), [[[5, 4]]]);
  assert.deepEqual(await new nn.AvgPool1d(2, { stride: 1 }).call(line).tolist(), [[[3, 3.5, 3]]]);
  assert.deepEqual(await new nn.MaxPool3d(2).call(cube).flatten().tolist(), [7]);
  assert.deepEqual(await new nn.AvgPool3d([2, 1, 2]).call(cube).flatten().tolist(), [2.5, 4.5]);
  assert.deepEqual(await new nn.AdaptiveMaxPool1d(1).call(line).tolist(), [[[5]]]);
  assert.deepEqual(await new nn.AdaptiveMaxPool2d(1).call(cube.squeeze(0)).flatten().tolist(), [3, 7]);
  assert.deepEqual(await new nn.AdaptiveMaxPool3d([1, 2, 1]).call(cube).flatten().tolist(), [5, 7]);
});

const x = Tensor.ones([1, 2, 6, 6]);
for (
  const [text, act] of [
    [
      "ArgumentError: Cannot maxPool1d with kernelSize [2, 2]: it takes 1 integer of at least 1",
      () => x.maxPool1d([2, 2]),
    ],
    [
      "ArgumentError: Cannot adaptiveMaxPool3d with outputSize [2, 2]: it takes 3 integers of at least 0",
      () => x.adaptiveMaxPool3d([2, 2]),
    ],
    [
      "ShapeError: Cannot conv1d shapes [1, 2, 6, 6] and [2, 2, 2, 2]: the weight has 1 axes",
      () => x.conv1d(Tensor.ones([2, 2, 2, 2])),
    ],
    ["ArgumentError: Cannot fractionalMaxPool2d: it takes either", () => x.fractionalMaxPool2d(2, {})],
    [
      "ShapeError: Cannot fractionalMaxPool2d shape [1, 2, 6, 6]: axis 2 has room for 1 to 5 windows of 2, not 6",
      () => x.fractionalMaxPool2d(2, { outputSize: 6 }),
    ],
    [
      "ShapeError: Cannot asStrided shape [1, 2, 6, 6]: it has 72 elements, and size [3] by strides [40] from 0 reads number 80",
      () => x.asStrided([3], [40]),
    ],
    ["ShapeError: Cannot asStrided shape [3]: stride must be a list of 1 numbers, not", () => x.asStrided([3], [1, 2])],
  ] as const
) {
  Deno.test(`other ranks: ${text} is said`, () => {
    assert.throws(act, (e: Error) => String(e).startsWith(text) || assert.fail(String(e)));
  });
}
