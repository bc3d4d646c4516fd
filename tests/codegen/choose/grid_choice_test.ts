/**
 * What is chosen for kernels on a grid where rules of thumb do badly: what a thread does one after the other, and how often
 * what is in memory is read.
 *
 * @module
 */
import assert from "node:assert/strict";
import { context, dtypes, Tensor } from "../../../mod.ts";
import { baseOf, pricedPlans } from "../../../src/codegen/choose/grid_choice.ts";
import { beforeOpts } from "../../../src/codegen/passes.ts";
import { prod } from "../../../src/helpers/math.ts";
import type { LinearProgram } from "../../../src/renderer/renderer.ts";
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
  Deno.test(`grid choice: ${name}`, () => {
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

Deno.test("grid choice: windows that a cache holds are not shared by threads", () => {
  const device = openObserving("CUDA"), options = { device: device.name, dtype: dtypes.float16 };
  const x = Tensor.empty([8, 6, 57, 57], options), w = Tensor.empty([8, 3, 5, 5], options);
  const [dx] = x.conv2d(w, undefined, { padding: 4, groups: 2 }).float().square().sum().gradient([x]);
  dx.realize();
  const { opts, name } = device.kernels[device.kernels.length - 1].program;
  assert.match(opts!, /LOCAL/);
  assert.doesNotMatch(opts!, /GROUP/, name);
});

Deno.test("grid choice: a reduction inside of another one keeps no output axis from being shared", () => {
  const device = openObserving("CUDA"), empty = (...s: number[]) => Tensor.empty(s, { device: device.name });
  empty(16, 500, 64).matmul(empty(16, 512, 64).transpose(1, 2)).matmul(empty(16, 512, 64)).realize();
  for (const { program: { grid, opts, name } } of device.kernels) assert.ok(prod(grid!.size) >= 32, `${name} ${opts}`);
});

Deno.test("grid choice: a product too short for tiles is summed by threads that share it", () => {
  const device = openObserving("CUDA"), empty = (...s: number[]) => Tensor.empty(s, { device: device.name });
  empty(16, 224).matmul(empty(224, 31)).realize();
  empty(2048, 2048).matmul(empty(2048, 2048)).realize();
  const [short, long] = device.kernels.map((k) => k.program.opts!);
  assert.match(short, /GROUP/);
  assert.match(long, /STAGE/);
});

Deno.test("grid choice: what a plan costs does not depend on the plans that were priced before", () => {
  const device = openObserving("CUDA"), { renderer } = device;
  const empty = (...s: number[]) => Tensor.empty(s, { device: device.name });
  const graph = empty(8, 8, 80).matmul(empty(8, 80, 1000)).softmax(-1).matmul(empty(8, 1000, 80));
  let compared = 0;
  for (const { ast } of graph.schedule()) {
    if (ast === undefined) continue;
    const before = beforeOpts(ast, renderer), [first, ...others] = pricedPlans(before, renderer, Infinity, true);
    for (const { base, plan, time } of [first, ...others.filter((_, i) => i % 7 === 0)]) {
      if (base !== first.base) continue;
      const alone = baseOf(before, renderer, [])!.model.estimate(plan)!.time;
      assert.ok(Math.abs(alone - time) < 1e-6 * time, `${alone} and ${time}`);
      compared++;
    }
  }
  assert.ok(compared > 10, `${compared} plans`);
});
