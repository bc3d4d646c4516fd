/**
 * What the threads of a grid do between them: on random shapes and axes no kernel with reductions reads much more than its
 * loops have to, and no thread stores alone what its group could.
 *
 * @module
 */
import assert from "node:assert/strict";
import { context, dtypes, Tensor } from "../../../mod.ts";
import { prod } from "../../../src/helpers/math.ts";
import type { LinearProgram } from "../../../src/renderer/renderer.ts";
import { Draw } from "../../fuzz/kernels.ts";
import { bufferAccesses } from "../../support/buffer_accesses.ts";
import { openObserving } from "../../support/snapshot_writers.ts";

/** What one launch reads and writes of buffers, in elements and by all its threads, and the most that one thread stores. */
function trafficOf(program: LinearProgram): { loads: number; stores: number; alone: number; threads: number } {
  const { groups, size } = program.grid!, threads = prod(size), all = prod(groups.map((g) => g.value)) * threads;
  let loads = 0, alone = 0;
  for (const { isStore, lanes, times } of bufferAccesses(program)) {
    if (isStore) alone += times * lanes;
    else loads += times * lanes;
  }
  return { loads: loads * all, stores: alone * all, alone, threads };
}

/** Graphs of several reductions over the same axes: how often each reads its input, and the graph. */
const GRAPHS: Readonly<Record<string, readonly [reads: number, graph: (x: Tensor, axes: number[]) => Tensor]>> = {
  variance: [2, (x, axes) => x.var(axes)],
  standardized: [3, (x, axes) => {
    const [variance, mean] = x.varMean(axes, { correction: 0, keepdim: true });
    return x.sub(mean).mul(variance.add(1e-5).rsqrt());
  }],
  softmax: [3, (x, axes) => {
    const e = x.sub(x.max(axes, { keepdim: true })).exp();
    return e.div(e.sum(axes, { keepdim: true }));
  }],
  spread: [3, (x, axes) => x.sub(x.mean(axes, { keepdim: true })).abs().max(axes)],
};

Deno.test("grid: threads that share one reduction share the others, and what is stored after", () => {
  const draw = new Draw(5, 2 ** 28), next = (n: number): number => draw.below(n);
  let compared = 0;
  for (let i = 0; i < 40; i++) {
    const rank = 2 + next(3), shape = Array.from({ length: rank }, () => draw.pick([4, 24, 32, 56, 64, 100, 128, 256]));
    const axes = shape.map((_, i) => i).filter(() => next(2) === 0);
    if (axes.length === 0) axes.push(next(rank));
    const [name, [reads, graph]] = draw.pick(Object.entries(GRAPHS)), elements = shape.reduce((a, b) => a * b, 1);
    const length = axes.reduce((n, a) => n * shape[a], 1);
    const device = openObserving("CUDA");
    context({ NOOPT: 0 }, () => void graph(Tensor.empty(shape, { device: device.name }), axes).realize());
    for (const { program } of device.kernels) {
      if (!program.name.startsWith("r_")) continue;
      const { loads, stores, alone, threads } = trafficOf(program);
      const what = `${name} of [${shape}] over [${axes}]: ${program.name} ${program.opts}`;
      // padding and peeling at most double what is read; a row of a few elements each thread reads itself
      if (length >= 64) assert.ok(loads <= 2 * reads * elements, `${what} reads ${loads} of ${elements}`);
      // masked stores, too: at most twice what there is
      if (name === "standardized" || name === "softmax") {
        assert.ok(stores <= 2 * elements * Math.max(1, threads / length), `${what} stores ${stores} of ${elements}`);
      }
      assert.ok(alone <= Math.max(64, 2 * elements / threads), `${what}: a thread stores ${alone}`);
      compared++;
    }
  }
  assert.ok(compared >= 40, `${compared} kernels were looked at`);
});

Deno.test("grid: statistics of more than a group holds are read once", () => {
  const rows: readonly (readonly [shape: number[], axes: number[], reads: number])[] = [
    [[65536, 256], [0], 1],
    [[32, 64, 64, 64], [0, 2, 3], 1],
    [[512, 100000], [1], 1],
    [[512, 4096], [1], 2], // stays in registers
  ];
  for (const [shape, axes, reads] of rows) {
    const device = openObserving("CUDA"), elements = shape.reduce((a, b) => a * b, 1);
    context({ NOOPT: 0 }, () => void Tensor.empty(shape, { device: device.name }).var(axes).realize());
    const loads = device.kernels.reduce((n, { program }) => n + trafficOf(program).loads, 0);
    assert.ok(loads < (reads + 0.5) * elements, `the variance of [${shape}] over [${axes}] reads ${loads}`);
  }
});

/** Graphs in 16 bits with several products, and how many: each has matrix units of its own. */
const PRODUCTS: Readonly<
  Record<string, readonly [count: number, graph: (empty: (...shape: number[]) => Tensor) => Tensor]>
> = {
  "two over one operand, and one of both": [3, (empty) => {
    const x = empty(256, 512);
    return x.matmul(empty(512, 1024)).silu().mul(x.matmul(empty(512, 1024))).matmul(empty(1024, 512));
  }],
  "one after an activation": [2, (empty) => {
    return empty(256, 512).matmul(empty(512, 512)).add(empty(512)).gelu().matmul(empty(512, 256));
  }],
  "three of one operand, added": [3, (empty) => {
    const x = empty(512, 256);
    return x.matmul(empty(256, 512)).add(x.matmul(empty(256, 512)).mul(x.matmul(empty(256, 512))));
  }],
  "a convolution of small images": [1, (empty) => {
    return empty(64, 128, 14, 14).conv2d(empty(128, 128, 3, 3), undefined, { padding: 1 });
  }],
  "convolutions with a norm between": [2, (empty) => {
    const x = empty(16, 64, 28, 28).conv2d(empty(64, 64, 1, 1));
    const y = x.mul(empty(64, 1, 1)).add(empty(64, 1, 1)).relu();
    return y.conv2d(empty(64, 64, 3, 3), undefined, { padding: 1 });
  }],
};

for (const [name, [count, graph]] of Object.entries(PRODUCTS)) {
  for (const dtype of [dtypes.float16, dtypes.bfloat16]) {
    Deno.test(`grid: products of ${dtype} are on matrix units: ${name}`, () => {
      const device = openObserving("CUDA");
      context(
        { NOOPT: 0 },
        () => void graph((...shape) => Tensor.empty(shape, { device: device.name, dtype })).realize(),
      );
      const onUnits = device.kernels.filter(({ program: { opts } }) => opts!.includes("TC:"));
      assert.equal(onUnits.length, count, device.kernels.map((k) => `${k.name} ${k.program.opts}`).join("\n"));
    });
  }
}

/** Products whose operands come element by element or not, what their opts are like, and what they are not. */
const TILES: Readonly<
  Record<string, readonly [is: RegExp, not: RegExp, graph: (empty: (...shape: number[]) => Tensor) => Tensor]>
> = {
  // 147 terms are 10 of 16, not 3 of 64; all filters beside many pixels; nothing is copied asynchronously
  "a convolution of a few channels": [/^MERGE.* PADTO:2:16 TC:.*ring=2$/, /UNROLL|ring=[34]/, (empty) => {
    return empty(64, 3, 224, 224).conv2d(empty(64, 3, 7, 7), undefined, { stride: 2, padding: 3 });
  }],
  "a product of wide copies": [
    /UNROLL:0:4 .*ring=4:boxes$/,
    /PADTO/,
    (empty) => empty(4096, 4096).matmul(empty(4096, 4096)),
  ],
};

for (const [name, [is, not, graph]] of Object.entries(TILES)) {
  Deno.test(`grid: tiles of ${name}`, () => {
    const device = openObserving("CUDA");
    context(
      { NOOPT: 0 },
      () => void graph((...shape) => Tensor.empty(shape, { device: device.name, dtype: dtypes.float16 })).realize(),
    );
    const { opts } = device.kernels[device.kernels.length - 1].program;
    assert.match(opts!, is);
    assert.doesNotMatch(opts!, not);
  });
}
