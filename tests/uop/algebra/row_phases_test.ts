/** Phases of a kernel: who does what, and in which memory. */
import { assert, assertEquals } from "@std/assert";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { elementsOfPhase, isPhase, phasesOf } from "../../../src/uop/algebra/row_phases.ts";
import { AxisKind, StageArg } from "../../../src/uop/core/args.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { index, load, param, range, sink, store, type UOp, uop } from "../../../src/uop/core/uop.ts";

/** A kernel of `count` phases before its STORE, over rows of `n`, each of which reads the one before it backwards. */
function chain(n: number, count: number): UOp {
  const block = range(8, 0, AxisKind.GLOBAL), size = 8 * n, f32 = dtypes.float32;
  let from: UOp | undefined, id = 1;
  const read = (r: UOp): UOp =>
    from === undefined
      ? load(index(param(1, f32, size), block.mul(n).add(r)))
      : load(index(from, r.mul(-1).add(n - 1))).add(1);
  for (let i = 0; i < count; i++) {
    const r = range(n, id++, AxisKind.LOOP);
    from = uop(Ops.STAGE, f32, [read(r), r], new StageArg(i, "phase"));
  }
  const r = range(n, id++, AxisKind.LOOP);
  return sink([store(index(param(0, f32, size), block.mul(n).add(r)), read(r))]);
}

Deno.test("phases: all elements are shared out, whatever the sizes", () => {
  for (const n of [1, 2, 31, 64, 100, 1021, 4096]) {
    for (const maxGroupThreads of [64, 256, 1024]) {
      const { threads, phases } = phasesOf(chain(n, 3), { maxGroupThreads, sharedBytes: 1 << 17 });
      assert(threads <= maxGroupThreads);
      for (const { root, work, inner, parts } of phases) {
        assertEquals(work * inner.reduce((a, b) => a * b, 1), elementsOfPhase(root));
        assert(parts * threads >= work && (parts - 1) * threads < work);
      }
    }
  }
});

Deno.test("phases: memory is that of two of them, and of one where there is little of it", () => {
  const ast = chain(2048, 6),
    homes = (sharedBytes: number): number[] =>
      phasesOf(ast, { maxGroupThreads: 1024, sharedBytes }).phases.filter((p) => isPhase(p.root)).map((p) => p.home);
  assertEquals(homes(1 << 17), [0, 1, 0, 1, 0, 1]);
  assertEquals(homes(1 << 14), [0, 0, 0, 0, 0, 0]);
});
