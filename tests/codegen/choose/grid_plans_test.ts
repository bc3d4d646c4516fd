/**
 * What is chosen for kernels on a grid where rules of thumb do badly: what a thread does one after the other, and how often
 * what is in memory is read.
 *
 * @module
 */
import { optimized } from "../../fixtures/optimized.ts";
import assert from "node:assert/strict";
import { context, dtypes, Tensor } from "../../../mod.ts";
import { baseOf, pricedPlans } from "../../../src/codegen/choose/grid_plans.ts";
import { Kernel } from "../../../src/codegen/opt/kernel.ts";
import { beforeOpts } from "../../../src/codegen/passes.ts";
import { prod } from "../../../src/helpers/math.ts";
import type { LinearProgram } from "../../../src/renderer/renderer.ts";
import { sizeOf } from "../../../src/uop/core/ranges.ts";
import { bufferAccesses } from "../../support/buffer_accesses.ts";
import { openObserving } from "../../support/snapshot_writers.ts";

/** Elements that a thread of a kernel loads of buffers, and all threads. */
function loadsOf(program: LinearProgram): { one: number; all: number } {
  const { groups, size } = program.grid!, threads = prod([...groups.map((g) => g.value), ...size]);
  const one = bufferAccesses(program).reduce((n, { isStore, lanes, times }) => isStore ? n : n + times * lanes, 0);
  return { one, all: one * threads };
}

type Graph = (empty: (...shape: number[]) => Tensor) => Tensor;

/** Graphs; elements that a thread loads at most, and how often each element of the input is loaded. */
const GRAPHS: Readonly<Record<string, readonly [one: number, reads: number, graph: Graph]>> = {
  "columns that are softened stay in registers": [128, 1.2, (empty) => empty(4096, 16384).softmax(0)],
  "a norm over axes around the channels": [4096, 6, (empty) => {
    const x = empty(128, 49, 64, 112), [v, m] = x.varMean([0, 1, 3], { keepdim: true });
    return x.sub(m).mul(v.add(1e-5).rsqrt());
  }],
  "a norm over short rows": [512, 6, (empty) => {
    const x = empty(4096, 5, 64, 51), [v, m] = x.varMean([1, 3], { keepdim: true });
    return x.sub(m).mul(v.add(1e-5).rsqrt());
  }],
  "a sum of a few neighbors": [64, 1.1, (empty) => empty(2048, 4096, 8).sum(2)],
  "a sum over axes around, whose inner ones lie side by side": [128, 1.2, (empty) => empty(56, 768, 776).max([0, 2])],
  "a transposed copy with a broadcast": [
    128,
    2.2,
    (empty) => empty(2048, 64, 512).mul(2).permute([1, 2, 0]).contiguous(),
  ],
};

for (const [name, [one, reads, graph]] of Object.entries(GRAPHS)) {
  Deno.test(`grid plans: ${name}`, () => {
    const device = openObserving("CUDA");
    let elements = 0;
    const made = graph((...shape) => {
      elements += shape.reduce((n, k) => n * k, 1);
      return Tensor.empty(shape, { device: device.name });
    });
    context({ NOOPT: 0 }, () => void made.realize());
    const loads = device.kernels.map((k) => ({ ...loadsOf(k.program), text: `${k.name} ${k.program.opts}` }));
    for (const l of loads) assert.ok(l.one <= one, `a thread loads ${l.one} elements: ${l.text}`);
    const all = loads.reduce((n, l) => n + l.all, 0);
    assert.ok(all <= reads * elements, `${all} of ${elements} elements:\n${loads.map((l) => l.text).join("\n")}`);
  });
}

Deno.test(
  "grid plans: what a transposed copy reads apart is on its way together, and it stores whole rows",
  optimized(() => {
    const { name, kernels } = openObserving("CUDA"), empty = (...s: number[]) => Tensor.empty(s, { device: name });
    empty(31, 3, 768, 939).mul(empty(31, 1, 768, 1)).permute([2, 3, 1, 0]).realize();
    const [{ program: { opts, grid } }] = kernels;
    assert.match(opts!, /UPCAST:2:3/); // 93 elements side by side
    assert.ok(grid!.size[0] * grid!.size[1] >= 128, opts);
  }),
);

Deno.test("grid plans: windows that a cache holds are not shared by threads", () => {
  const device = openObserving("CUDA"), options = { device: device.name, dtype: dtypes.float16 };
  const x = Tensor.empty([8, 6, 57, 57], options), w = Tensor.empty([8, 3, 5, 5], options);
  const [dx] = x.conv2d(w, undefined, { padding: 4, groups: 2 }).float().square().sum().gradient([x]);
  dx.realize();
  const { opts, name } = device.kernels[device.kernels.length - 1].program;
  assert.match(opts!, /LOCAL/);
  assert.doesNotMatch(opts!, /GROUP/, name);
});

Deno.test(
  "grid plans: a reduction inside of another one keeps no output axis from being shared",
  optimized(() => {
    const device = openObserving("CUDA"), empty = (...s: number[]) => Tensor.empty(s, { device: device.name });
    empty(16, 500, 64).matmul(empty(16, 512, 64).transpose(1, 2)).matmul(empty(16, 512, 64)).realize();
    for (const { program: { grid, opts, name } } of device.kernels) {
      assert.ok(prod(grid!.size) >= 32, `${name} ${opts}`);
    }
  }),
);

Deno.test(
  "grid plans: a product too short for tiles is summed by threads that share it",
  optimized(() => {
    const device = openObserving("CUDA"), empty = (...s: number[]) => Tensor.empty(s, { device: device.name });
    empty(16, 224).matmul(empty(224, 31)).realize();
    empty(2048, 2048).matmul(empty(2048, 2048)).realize();
    const [short, long] = device.kernels.map((k) => k.program.opts!);
    assert.match(short, /GROUP/);
    assert.match(long, /STAGE/);
  }),
);

Deno.test("grid plans: what a plan costs does not depend on the plans that were priced before", () => {
  const device = openObserving("CUDA"), { renderer } = device;
  const empty = (...s: number[]) => Tensor.empty(s, { device: device.name });
  const graph = empty(8, 8, 80).matmul(empty(8, 80, 1000)).softmax(-1).matmul(empty(8, 1000, 80));
  let compared = 0;
  for (const { ast } of graph.schedule()) {
    if (ast === undefined) continue;
    const before = beforeOpts(ast, renderer), [first, ...others] = pricedPlans(before, renderer.caps, Infinity, true);
    for (const { base, plan, time } of [first, ...others.filter((_, i) => i % 7 === 0)]) {
      if (base !== first.base) continue;
      const alone = baseOf(before, renderer.caps, [])!.model.estimate(plan)!.time;
      assert.ok(Math.abs(alone - time) < 1e-6 * time, `${alone} and ${time}`);
      compared++;
    }
  }
  assert.ok(compared > 10, `${compared} plans`);
});

Deno.test("grid plans: results that stand side by side already count as copies, in bytes and in registers", () => {
  const device = openObserving("CUDA"), { renderer } = device;
  let stacked = 0;
  for (const { ast } of Tensor.empty([1000, 50257], { device: device.name, dtype: "int32" }).sort()[0].schedule()) {
    if (ast === undefined) continue;
    const before = beforeOpts(ast, renderer),
      copies = new Kernel(before, true).copies.reduce((n, r) => n * sizeOf(r), 1);
    if (copies < 32 || copies > 64) continue; // rows of more are done in phases
    const [{ base, plan }] = pricedPlans(before, renderer.caps, Infinity, true).sort((a, b) => a.time - b.time);
    const own = plan.axes.reduce((n, a) => n * a.copies, 1), { registers } = base.model.estimate(plan)!;
    assert.ok(own <= Math.max(64, copies) && registers >= Math.min(own, 128), `${own} copies, ${registers} registers`);
    // most of 1,000 rows of 50,257 numbers is read, and written
    assert.ok(base.model.floor > 1000 * 50257 * 4 / 5e6, `${base.model.floor} us`);
    stacked++;
  }
  assert.ok(stacked > 5, `${stacked} kernels`);
});

Deno.test(
  "grid plans: a strided convolution of few groups has threads along its rows, which share its sums",
  optimized(() => {
    const device = openObserving("CUDA");
    const empty = (...s: number[]) => Tensor.empty(s, { device: device.name });
    empty(1, 64, 112, 112).conv2d(empty(16, 32, 3, 3), undefined, { stride: 2, padding: 1, dilation: 2, groups: 2 })
      .realize();
    const [{ program }] = device.kernels;
    assert.match(program.opts!, /LOCAL:3:.*GROUP|UNROLL/);
  }),
);

Deno.test(
  "grid plans: threads next to each other have columns next to each other where columns are rows of shared memory",
  optimized(() => {
    for (const isTransposed of [false, true]) {
      const device = openObserving("CUDA");
      const empty = (...s: number[]) => Tensor.empty(s, { device: device.name }).realize();
      empty(4096, 768).matmul(isTransposed ? empty(3072, 768).transpose() : empty(768, 3072)).realize();
      const own = device.kernels.at(-1)!.program.opts!.split(" ").filter((o) => /^(LOCAL|UPCAST):1:/.test(o));
      assert.match(own[0], isTransposed ? /LOCAL/ : /UPCAST/);
      assert.ok(own.some((o) => o.startsWith("UPCAST")), own.join(" "));
    }
  }),
);

Deno.test(
  "grid plans: windows with gates and quotients have neighbors along rows, whole warps, and threads for a long sum",
  optimized(() => {
    const chosen = (graph: (empty: (...s: number[]) => Tensor) => Tensor, at: number) => {
      const device = openObserving("CUDA");
      graph((...s) => Tensor.empty(s, { device: device.name })).realize();
      return device.kernels.at(at)!.program;
    };
    // quotients by 2 are shared by channels, and cost a shift: 61 neighbors, not 8 that share a sum
    const transposed = chosen(
      (empty) => empty(4, 8, 28, 28).convTranspose2d(empty(8, 4, 7, 7), undefined, { stride: 2 }),
      0,
    );
    assert.match(transposed.opts!, /LOCAL:3/);
    assert.ok(transposed.grid!.size[0] >= 32, transposed.opts);
    // the gradient of 7 x 7 weights: each thread sums for all of a row of them
    const weights = chosen((empty) => {
      const x = empty(4, 96, 57, 57), w = empty(96, 1, 7, 7);
      return x.conv2d(w, undefined, { padding: 3, groups: 96 }).square().sum().gradient([w])[0];
    }, -1);
    assert.match(weights.opts!, /UPCAST:\d:7 .*GROUP/);
    // four sums of 6,272 strided elements
    const few = chosen((empty) => {
      const x = empty(8, 4, 56, 56), w = empty(1, 4, 1, 1);
      return x.conv2d(w, undefined, { stride: 2 }).square().sum().gradient([w])[0];
    }, -1);
    assert.ok(prod(few.grid!.size) >= 256, few.opts);
  }),
);
