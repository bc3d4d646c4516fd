/**
 * Plans of kernels on grids: they split axes as the kernel does that they are applied to, and compute the same as the kernel
 * without opts, on a simulated grid.
 *
 * @module
 */
import assert from "node:assert/strict";
import { Tensor, Variable } from "../../../mod.ts";
import { simplifyRanges } from "../../../src/codegen/ast/simplify.ts";
import { GridCandidates } from "../../../src/codegen/choose/grid_candidates.ts";
import { gridAxes } from "../../../src/codegen/choose/grid_plans.ts";
import { regionsOf } from "../../../src/codegen/machine/access.ts";
import { GridModel } from "../../../src/codegen/machine/grid_model.ts";
import { inlineRows } from "../../../src/codegen/opt/inline_rows.ts";
import { Kernel } from "../../../src/codegen/opt/kernel.ts";
import { optText } from "../../../src/codegen/opt/opt.ts";
import { Draw } from "../../fuzz/kernels.ts";
import { SIM_GRID, simCaps, SMALL_GRID } from "../../fixtures/sim.ts";
import { openObserving } from "../../support/snapshot_writers.ts";
import { expectSame, integers, paramsOf, run } from "../harness.ts";

type Graph = (empty: (...shape: number[]) => Tensor) => Tensor;

/** An end that only the run knows. */
const N = new Variable("n", 1, 48).bind(37);

const GRAPHS: Readonly<Record<string, Graph>> = {
  "a transposed copy": (empty) => empty(24, 40).transpose().contiguous(),
  "a sum of rows": (empty) => empty(5, 100).sum(1),
  "a sum of columns": (empty) => empty(100, 24).sum(0),
  "a sum over outer axes": (empty) => empty(6, 10, 32).sum([0, 1]),
  "a maximum over axes around": (empty) => empty(8, 6, 20).max([0, 2]),
  "a centered row": (empty) => {
    const x = empty(12, 48);
    return x.sub(x.sum(1, { keepdim: true }));
  },
  "a centered column": (empty) => {
    const x = empty(48, 12);
    return x.sub(x.sum(0, { keepdim: true })).mul(x.max(0, { keepdim: true }));
  },
  "a pool": (empty) => empty(2, 12, 13).maxPool2d([3, 3], { stride: 2 }),
  "a softmax of some rows' beginnings": (empty) => empty(4, 48).at(":", [0, N]).softmax(1),
  "a sum of the first rows": (empty) => empty(48, 12).at([0, N]).sum(0),
  "the first rows": (empty) => empty(48, 12).at([0, N]).mul(2),
  "rows that share a factor": (empty) => empty(4, 64).mul(empty(9, 1, 64)).sum(-1),
};

for (const [name, graph] of Object.entries(GRAPHS)) {
  for (const [grid, caps] of [["large", simCaps(SIM_GRID)], ["small", simCaps(SMALL_GRID)]] as const) {
    Deno.test(`candidates: ${name} on a ${grid} grid`, () => {
      const device = openObserving("JS"), draw = new Draw(3, 1), made: string[] = [];
      const items = graph((...shape) => Tensor.empty(shape, { device: device.name })).schedule();
      const asts = items.flatMap(({ ast }) => ast === undefined ? [] : [ast]);
      assert.equal(asts.length, 1);
      const ast = inlineRows(simplifyRanges(asts[0])), kernel = new Kernel(ast, true);
      const axes = gridAxes(kernel), vars = axes.some((a) => a.isOpen) ? [37] : [];
      const { regions } = regionsOf(ast, axes), isParallel = (i: number): boolean => kernel.isParallel(i);
      const model = new GridModel(regions, axes, caps);
      const plans = new GridCandidates({ regions, axes, caps, isParallel }).all();
      const fitting = plans.filter((p) => model.estimate(p) !== undefined);
      assert.ok(fitting.length >= 4, `${fitting.length} of ${plans.length}`);
      for (const p of fitting) assert.ok(model.estimate(p)!.time >= model.floor * 0.99, p.opts.map(optText).join(" "));
      const data = integers(paramsOf(asts[0])), want = run(asts[0], data, [], {}, vars);
      for (let n = 0; n < 8; n++) {
        const plan = fitting[draw.below(fitting.length)], text = plan.opts.map(optText).join(" ");
        const now = new Kernel(ast, true);
        for (const o of plan.opts) now.apply(o);
        plan.axes.forEach((a, i) => {
          const block = a.copies * a.threads, rest = a.isOpen ? block > 1 ? 1 : 0 : a.rest;
          const size = !a.isOpen ? a.size : block > 1 ? block : 0;
          assert.deepEqual([now.axes[i].size, now.axes[i].rest], [size, rest], `axis ${i} of ${text}`);
        });
        expectSame(asts[0], run(asts[0], data, plan.opts, caps, vars), want, text);
        made.push(text);
      }
      assert.ok(new Set(made).size > 1, made.join("\n"));
    });
  }
}
