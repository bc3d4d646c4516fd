/** Windows, convolution and pooling: windows against plain loops, shapes, errors. Values are checked by the golden cases. */
import { assertEquals, assertThrows } from "@std/assert";
import { ArgumentError, IndexError, ShapeError, Tensor } from "../../../mod.ts";
import { pool } from "../../../src/tensor/nodes/windows.ts";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { reshape } from "../../../src/uop/core/build_movement.ts";
import { shapeOf } from "../../../src/uop/core/shape.ts";
import { uop } from "../../../src/uop/core/uop.ts";
import { evaluate } from "../../reference.ts";

Deno.test("pool: every window of one axis, by size, kernel, stride and dilation", () => {
  for (let n = 1; n <= 9; n++) {
    for (let k = 1; k <= 4; k++) {
      for (let s = 1; s <= 5; s++) {
        for (let d = 1; d <= 4; d++) {
          if (d * (k - 1) + 1 > n) continue;
          const p = pool(uop(Ops.IOTA, dtypes.int32, [], n), [k], [s], [d]);
          const count = Math.floor((n - d * (k - 1) - 1) / s) + 1;
          const want = Array.from({ length: count * k }, (_, i) => Math.floor(i / k) * s + (i % k) * d);
          assertEquals(shapeOf(p), [count, k], `n=${n} k=${k} s=${s} d=${d}`);
          assertEquals(evaluate(p).data, want, `n=${n} k=${k} s=${s} d=${d}`);
        }
      }
    }
  }
});

Deno.test("pool: two axes of different kinds, behind another", () => {
  const x = reshape(uop(Ops.IOTA, dtypes.int32, [], 2 * 5 * 6), [2, 5, 6]);
  const p = pool(x, [2, 3], [3, 1], [1, 2]), { data } = evaluate(p);
  assertEquals(shapeOf(p), [2, 2, 2, 2, 3]);
  let i = 0;
  for (let b = 0; b < 2; b++) {
    for (let oy = 0; oy < 2; oy++) {
      for (let ox = 0; ox < 2; ox++) {
        for (let ky = 0; ky < 2; ky++) {
          for (let kx = 0; kx < 3; kx++) assertEquals(data[i++], (b * 5 + oy * 3 + ky) * 6 + ox + kx * 2);
        }
      }
    }
  }
});

const t = (shape: number[]) => Tensor.ones(shape, { device: "JS" });

const shapes: readonly [string, Tensor, number[]][] = [
  ["conv1d", t([2, 3, 8]).conv2d(t([4, 3, 3])), [2, 4, 6]],
  ["conv2d same", t([1, 3, 8, 8]).conv2d(t([4, 3, 3, 3]), t([4]), { padding: 1 }), [1, 4, 8, 8]],
  [
    "conv2d padding by side, last axis first",
    t([1, 1, 4, 4]).conv2d(t([1, 1, 1, 1]), undefined, { padding: [0, 1, 2, 3] }),
    [1, 1, 9, 5],
  ],
  ["conv2d groups", t([1, 4, 4, 4]).conv2d(t([8, 1, 3, 3]), undefined, { groups: 4 }), [1, 8, 2, 2]],
  ["conv3d", t([1, 1, 4, 4, 4]).conv2d(t([2, 1, 2, 2, 2]), undefined, { stride: 2 }), [1, 2, 2, 2, 2]],
  [
    "convTranspose2d",
    t([1, 3, 4, 4]).convTranspose2d(t([3, 2, 3, 3]), undefined, { stride: 2, padding: 1, outputPadding: 1 }),
    [1, 2, 8, 8],
  ],
  ["maxPool2d", t([1, 3, 5, 5]).maxPool2d(), [1, 3, 2, 2]],
  ["maxPool2d ceil", t([1, 3, 5, 5]).maxPool2d(2, { ceilMode: true }), [1, 3, 3, 3]],
  ["maxPool 1d", t([1, 3, 6]).maxPool2d([2]), [1, 3, 3]],
  ["avgPool 3d", t([1, 1, 4, 4, 4]).avgPool2d([2, 2, 2]), [1, 1, 2, 2, 2]],
];
for (const [name, x, shape] of shapes) Deno.test(`conv shape: ${name}`, () => assertEquals(x.shape, shape));

Deno.test("maxUnpool2d: puts maxima back where they were", () => {
  const x = new Tensor([[[[1, 5, 2, 0], [3, 4, 8, 7]]]], { dtype: "float32", device: "JS" });
  const [most, at] = x.maxPool2d(2, { returnIndices: true });
  assertEquals(evaluate(at.uop).data, [1, 6]);
  assertEquals(evaluate(most.maxUnpool2d(at).uop).data, [0, 5, 0, 0, 0, 0, 8, 0]);
});

Deno.test("maxPool2d, maxUnpool2d: windows that overlap, ties, NaN", () => {
  const x = new Tensor([[[[0, 5, 5, 0, NaN, 1]]]], { dtype: "float32", device: "JS" });
  const [most, at] = x.maxPool2d([1, 2], { stride: [1, 1], returnIndices: true });
  assertEquals(evaluate(most.uop).data, [5, 5, 5, NaN, NaN]);
  assertEquals(evaluate(at.uop).data, [1, 1, 2, 4, 4]);
  const [g] = most.sum().gradient([x]);
  assertEquals(evaluate(g.uop).data, [0, 2, 1, 0, 2, 0]); // to the first of equal ones
  const back = most.maxUnpool2d(at, [1, 2], { stride: [1, 1] }), [h] = back.mul(2).sum().gradient([most]);
  assertEquals(evaluate(back.uop).data, [0, 5, 5, 0, NaN, 0]); // each written once
  assertEquals(evaluate(h.uop).data, [2, 2, 2, 2, 2]);
});

const errors: readonly [string, () => unknown, new (...args: never[]) => Error, string][] = [
  ["rank", () => t([8, 8]).conv2d(t([4, 3, 3, 3])), ShapeError, "Cannot convolve shapes [8, 8] and [4, 3, 3, 3]"],
  ["channels", () => t([1, 3, 8, 8]).conv2d(t([4, 2, 3, 3])), ShapeError, "3 channels"],
  ["groups", () => t([1, 4, 8, 8]).conv2d(t([3, 2, 3, 3]), undefined, { groups: 2 }), ShapeError, "2 groups"],
  ["kernel", () => t([1, 1, 2, 8]).conv2d(t([1, 1, 3, 3])), ShapeError, "larger than axis 2, of padded size 2"],
  ["bias", () => t([1, 1, 4, 4]).conv2d(t([2, 1, 3, 3]), t([3])), ShapeError, "it must be [2]"],
  ["stride", () => t([1, 1, 4, 4]).conv2d(t([2, 1, 3, 3]), undefined, { stride: 0 }), ArgumentError, "stride [0, 0]"],
  [
    "unknown option",
    () => t([1, 1, 4, 4]).conv2d(t([1, 1, 3, 3]), undefined, { strides: 2 } as object),
    ArgumentError,
    'unknown option "strides"',
  ],
  ["padding", () => t([1, 1, 4, 4]).maxPool2d(2, { padding: 2 }), ArgumentError, "1 for a kernel of 2"],
  ["padding of means", () => t([1, 1, 4, 4]).avgPool2d(3, { padding: [0, 2] }), ArgumentError, "1 for a kernel of 3"],
  [
    "indices of another shape",
    () => t([8, 8]).maxUnpool2d(Tensor.zeros([8, 7], { dtype: "int64" }), [3], { stride: [2] }),
    ShapeError,
    "an index for each value",
  ],
  [
    "indices beyond the result",
    () => t([1, 1, 1, 1]).maxUnpool2d(new Tensor([[[[4]]]], { device: "JS" }), 2),
    IndexError,
    "index 4 is out of range",
  ],
  ["window", () => t([1, 1, 2, 2]).maxPool2d(3), ShapeError, "a window of extent 3"],
];
for (const [name, run, kind, text] of errors) {
  Deno.test(`conv error: ${name}`, () => void assertThrows(run, kind as new () => Error, text));
}
