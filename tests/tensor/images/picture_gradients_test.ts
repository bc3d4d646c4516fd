/**
 * Gradients of what reads pictures at strides: resizing is the transpose of the map that it is, transposed convolutions are
 * those of their definition, and the gradient of a maximum goes to one element, whatever stands in a window.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { Device, Tensor } from "../../../mod.ts";
import { Random } from "../../support/random.ts";

await Device.open(Device.default); // before the tests

/** Random cases of each: each has kernels of its own, which a C compiler takes long for. */
const COUNT = Device.default === "JS" ? 60 : 8;

const small = (r: Random, count: number): number[] => Array.from({ length: count }, () => r.below(9) - 4);

Deno.test("interpolate: gradients are those of the map that it is, for all sizes and modes", async () => {
  const r = new Random(5), modes = ["linear", "nearest", "nearest-exact"] as const;
  for (let i = 0; i < COUNT; i++) {
    const n = 1 + r.below(12), out = 1 + r.below(25), mode = r.pick(modes);
    const options = mode === "linear" ? { mode, alignCorners: r.below(2) === 0 } : { mode };
    const x = new Tensor(small(r, 2 * n)).float().reshape([2, n]), g = new Tensor(small(r, 2 * out)).float();
    const [slope] = x.interpolate([out], options).mul(g.reshape([2, out])).sum().gradient([x]);
    const columns = Tensor.eye(n).interpolate([out], options); // row i is what element i gives to all places
    const want = g.reshape([2, out]).matmul(columns.transpose(0, 1));
    const off = Number(await slope.sub(want).abs().max().item());
    assert(off < 1e-4, `${n} to ${out}, ${JSON.stringify(options)}: ${off}`);
  }
});

/** A transposed convolution in one axis, by what each element adds. */
function spread(x: number[][], w: number[][][], stride: number, padding: number, more: number): number[][] {
  const [n, k, outs] = [x[0].length, w[0][0].length, w[0].length], size = (n - 1) * stride + k - 2 * padding + more;
  const y = Array.from({ length: outs }, () => new Array<number>(size).fill(0));
  x.forEach((row, c) =>
    row.forEach((v, i) =>
      w[c].forEach((taps, o) =>
        taps.forEach((t, j) => {
          const at = i * stride + j - padding;
          if (at >= 0 && at < size) y[o][at] += v * t;
        })
      )
    )
  );
  return y;
}

Deno.test("convTranspose2d: what each element adds, whatever stride, kernel and padding", async () => {
  const r = new Random(8);
  for (let i = 0; i < COUNT; i++) {
    const stride = 1 + r.below(3),
      k = r.below(3) === 0 ? 1 + r.below(5) : stride * (1 + r.below(3)),
      n = 1 + r.below(6);
    const padding = r.below(Math.min(k, 1 + Math.floor(((n - 1) * stride + k - 1) / 2))), more = r.below(stride);
    const [cin, outs] = [1 + r.below(3), 1 + r.below(3)];
    const x = Array.from({ length: cin }, () => small(r, n));
    const w = Array.from({ length: cin }, () => Array.from({ length: outs }, () => small(r, k)));
    const options = { stride: [stride], padding: [padding], outputPadding: [more] };
    const a = new Tensor([x]).float(), b = new Tensor(w).float(), y = a.convTranspose2d(b, undefined, options);
    const text = JSON.stringify({ n, k, ...options });
    // <g, f(x)> is linear in both: the gradients are found by elements of one
    const g = new Tensor(small(r, y.numel())).float().reshape(y.shape), [da, db] = y.mul(g).sum().gradient([a, b]);
    const whole = await y.mul(g).sum().item();
    assertEquals([await da.mul(a).sum().item(), await db.mul(b).sum().item()], [whole, whole], text);
    assertEquals(await y.tolist(), [spread(x, w, stride, padding, more)], text);
  }
});

Deno.test("convTranspose2d: two axes, groups and a bias, and what is infinite stays where it is", async () => {
  const x = Tensor.arange(2 * 4 * 3 * 2).float().reshape([2, 4, 3, 2]), w = Tensor.arange(4 * 2 * 16).float();
  const weight = w.reshape([4, 2, 4, 4]), bias = new Tensor([1, 2, 3, 4]).float();
  const whole = x.convTranspose2d(weight, bias, { stride: 2, padding: 1, groups: 2 });
  const parts = [0, 1].map((i) =>
    x.at(":", [2 * i, 2 * i + 2]).convTranspose2d(weight.at([2 * i, 2 * i + 2]), bias.at([2 * i, 2 * i + 2]), {
      stride: 2,
      padding: 1,
    })
  );
  assertEquals(await whole.tolist(), await Tensor.cat(parts, 1).tolist());
  const taps = new Tensor([[[1, Infinity]]]).float(), one = new Tensor([[[1, 2]]]).float();
  assertEquals(await one.convTranspose2d(taps, undefined, { stride: [2] }).tolist(), [[[1, Infinity, 2, Infinity]]]);
});

Deno.test("maxPool2d: the gradient goes to the first of equals, or to the last NaN, of every window", async () => {
  const r = new Random(2);
  for (let i = 0; i < COUNT; i++) {
    const n = 3 + r.below(8), k = 2 + r.below(2), stride = 1 + r.below(3), padding = r.below(2);
    const values = Array.from({ length: n }, () => r.below(6) === 0 ? NaN : r.below(3));
    const x = new Tensor(values).float().reshape([1, n]), options = { stride: [stride], padding: [padding] };
    const y = x.maxPool2d([k], options), [slope] = y.where(1, 1).mul(y).sum().gradient([x]);
    const want = new Array<number>(n).fill(0), places: number[] = [];
    for (let o = 0; o * stride + k <= n + 2 * padding; o++) {
      const window = Array.from({ length: k }, (_, j) => o * stride - padding + j).filter((p) => p >= 0 && p < n);
      const bad = window.filter((p) => Number.isNaN(values[p])), most = Math.max(...window.map((p) => values[p]));
      places.push(bad.length > 0 ? bad.at(-1)! : window.find((p) => values[p] === most)!);
      want[places.at(-1)!] += 1;
    }
    const [, at] = x.maxPool2d([k], { ...options, returnIndices: true });
    assertEquals(await at.tolist(), [places], `${values} by ${k}`);
    assertEquals(await slope.tolist(), [want], `${values} by ${k}`);
  }
});

Deno.test("adaptiveAvgPool2d: whole parts are means of them, others as they are defined", async () => {
  const x = Tensor.arange(48).float().reshape([1, 6, 8]), part = await x.adaptiveAvgPool2d([3, 2]).tolist();
  assertEquals(part, await x.avgPool2d([2, 4]).tolist());
  assertEquals(await x.adaptiveAvgPool2d([1, 8]).tolist(), await x.mean(1, { keepdim: true }).tolist());
  assertEquals(await Tensor.arange(5).float().adaptiveAvgPool1d([2]).tolist(), [1, 3]);
});
