/** Axes that end at variables: in blocks with lanes and a rest, at sizes around those of blocks. */
import { match, ok, strictEqual, throws } from "node:assert/strict";
import { ArgumentError, schedule, Tensor, Variable } from "../../../mod.ts";
import { Kernel } from "../../../src/codegen/opt/kernel.ts";
import { simplifyRanges } from "../../../src/codegen/ast/simplify.ts";
import { CompiledKernel } from "../../../src/engine/front/runners.ts";
import { devicesHere } from "../../fixtures/devices.ts";
import { optimized } from "../../fixtures/optimized.ts";
import { difference, toleranceOf } from "../../tolerance.ts";
import { onDevice } from "../../support/on_device.ts";

const MAX = 256, n = new Variable("n", 0, MAX);
/** What `x` holds, `[6, MAX]`: sixty-fourths, whose sums are exact in any order. */
const VALUES = Float32Array.from({ length: 6 * MAX }, (_, i) => Math.round(Math.sin(i * 0.37) * 64) / 64);
/** Sizes about blocks of 16 and of 64: none, no whole one, whole ones, with a rest. */
const SIZES = [0, 1, 15, 16, 17, 63, 64, 65, 128, 200, MAX];

type Case = (x: Tensor, n: Tensor | number) => Tensor;

const CASES: Record<string, Case> = {
  "sum of rows": (x, n) => x.at(":", [0, n]).sum(1),
  "sum of columns": (x, n) => x.T.contiguous().at([0, n]).sum(0),
  "sum and maximum": (x, n) => x.at(":", [0, n]).relu().max(1).add(x.at(":", [0, n]).sum(1)),
  "integers": (x, n) => x.mul(9).cast("int32").at(":", [0, n]).sum(1),
  "small integers": (x, n) => x.mul(9).cast("int8").contiguous().at(":", [0, n]).add(1).contiguous(),
  elementwise: (x, n) => x.at(":", [0, n]).mul(2).add(1),
  "elementwise in one row": (x, n) => x.at(1, [0, n]).exp(),
  "of a start": (x, n) => x.at(":", [typeof n === "number" ? MAX - n : n.mul(-1).add(MAX), null]).sum(1),
  softmax: (x, n) => x.at(":", [0, n]).softmax(1),
  layernorm: (x, n) => x.at(":", [0, n]).layernorm(1),
  matmul: (x, n) => x.at(":", [0, n]).matmul(x.T.contiguous().at([0, n])),
  "matmul to columns": (x, n) => x.at(":", [0, 5]).matmul(x.at([0, 5], [0, n])),
  attention: (x, n) => {
    const q = x.at([0, 4], [0, 64]).reshape([1, 2, 2, 64]), kv = x.reshape([1, 2, MAX, 3]);
    const wide = kv.pad([null, null, null, [0, 61]]).contiguous().at(":", ":", [0, n]);
    return q.scaledDotProductAttention(wide, wide);
  },
};

for (const device of await devicesHere("JS", "WEBGPU", "CUDA")) {
  Deno.test(`blocks ${device}: sizes around those of blocks`, async (t) => {
    await onDevice(device, async () => {
      const x = new Tensor(VALUES).reshape([6, MAX])
        .realize();
      for (const [name, f] of Object.entries(CASES)) {
        await t.step(name, async () => {
          for (const size of SIZES) {
            if (size === 0 && ["softmax", "layernorm", "attention", "sum and maximum"].includes(name)) continue;
            const got = await f(x, n.bind(size)).float().data(), want = await f(x.to("JS"), size).float().data();
            const bad = difference(
              got as Float32Array,
              want as Float32Array,
              toleranceOf("accumulate", x.dtype),
            );
            strictEqual(bad, undefined, `${name} at ${size}: ${bad}`);
          }
        });
      }
    });
  });
}

/** The programs that realizing `t` takes. */
function programs(t: Tensor): CompiledKernel[] {
  return schedule([t]).map((s) => s.runner).filter((r) => r instanceof CompiledKernel);
}

Deno.test(
  "blocks: reductions, rows and stores get lanes",
  optimized(() => {
    onDevice("WASM", () => {
      const x = Tensor.ones([6, MAX]).contiguous().realize();
      for (const name of ["sum of rows", "elementwise", "softmax", "matmul"]) {
        const { opts = "" } = programs(CASES[name](x, n.bind(9))).at(-1)!.program.linear;
        match(opts, /PADTO:\d+:16 .*VECTOR/, name);
      }
    });
  }),
);

Deno.test("blocks: what cannot be cut says so", () => {
  const x = Tensor.ones([6, MAX]).contiguous().realize();
  const [runner] = programs(x.at(":", [0, n.bind(9)]).sum(1)), kernel = new Kernel(simplifyRanges(runner.ast));
  const axis = kernel.axes.findIndex((a) => a.isOpen);
  throws(
    () => kernel.apply({ op: "VECTOR", axis, size: 4 }),
    (e) => e instanceof ArgumentError && /no constant size/.test(e.message),
  );
  kernel.apply({ op: "PADTO", axis, size: 16 });
  ok(kernel.axes[axis].isOpen && kernel.axes[axis].size === 16 && kernel.axes[axis].expected === MAX / 2);
  throws(
    () => kernel.apply({ op: "PADTO", axis, size: 16 }),
    (e) => e instanceof ArgumentError && /tiles already/.test(e.message),
  );
  kernel.apply({ op: "VECTOR", axis, size: 4 }).apply({ op: "UNROLL", reduce: 0, size: 4 });
  ok(kernel.finish().src.length === 1);
});
