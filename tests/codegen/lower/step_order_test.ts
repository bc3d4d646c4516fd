/** In which order the copies of a sum are updated: such that few operands are held at a time. */
import { deepStrictEqual as assertEquals, ok } from "node:assert/strict";
import { simplifyRanges } from "../../../src/codegen/ast/simplify.ts";
import { dtypes } from "../../../src/dtype/dtype.ts";
import type { LinearProgram } from "../../../src/renderer/renderer.ts";
import { AxisKind } from "../../../src/uop/core/args.ts";
import { opCarrier, reduce } from "../../../src/uop/core/carrier.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { constant, index, load, param, range, sink, store, toposort, type UOp } from "../../../src/uop/core/uop.ts";
import { CAPS, compile, integers, opts, paramsOf, run } from "../harness.ts";

const ROWS = 48, COLUMNS = 96, DEPTH = 40;

/** A product of matrices, of which every term may have a condition. */
function product(isMasked: boolean): UOp {
  const i = range(ROWS, 0, AxisKind.LOOP), j = range(COLUMNS, 1, AxisKind.LOOP), k = range(DEPTH, 2, AxisKind.REDUCE);
  const at = (slot: number, size: number, x: UOp): UOp => load(index(param(slot, dtypes.float32, size), x));
  const term = at(1, ROWS * DEPTH, i.mul(DEPTH).add(k)).mul(at(2, DEPTH * COLUMNS, k.mul(COLUMNS).add(j)));
  const value = isMasked ? k.lt(DEPTH - 3).where(term, constant(0, dtypes.float32)) : term;
  const place = index(param(0, dtypes.float32, ROWS * COLUMNS), i.mul(COLUMNS).add(j));
  return simplifyRanges(sink([store(place, reduce(opCarrier(Ops.ADD, dtypes.float32), [value], [k]))]));
}

/** The most operands that are held while the sums of one iteration are updated, in the order of the program. */
function held({ uops }: LinearProgram): number {
  const updates = uops.filter((u) => u.op === Ops.STORE && u.src[0].op === Ops.ACC);
  const operands = updates.map((u) =>
    toposort(u.src[1], (x) => x.op !== Ops.INDEX).filter((x) => x.op === Ops.LOAD && x.src[0].op === Ops.INDEX)
  );
  let most = 0;
  for (let n = 0; n < operands.length; n++) {
    const before = new Set(operands.slice(0, n + 1).flat()), after = new Set(operands.slice(n).flat());
    most = Math.max(most, [...before].filter((x) => after.has(x)).length);
  }
  return most;
}

for (const isMasked of [false, true]) {
  for (
    const [text, most] of [
      ["VECTOR:1:16 UPCAST:0:8 UPCAST:1:3", 4],
      ["VECTOR:1:16 UPCAST:0:8 UPCAST:1:3 SWAP:0:1", 4],
      ["VECTOR:1:16 UPCAST:0:2 UPCAST:1:6", 3],
      ["VECTOR:1:16 UPCAST:0:4 UPCAST:1:3 UNROLL:0:2", 8],
    ] as const
  ) {
    Deno.test(`step order: ${isMasked ? "conditional " : ""}sums under ${text} hold few operands`, () => {
      const ast = product(isMasked), program = compile(ast, opts(text), CAPS.large), data = integers(paramsOf(ast));
      ok(held(program) <= most, `${held(program)} are held`);
      assertEquals(run(ast, data, opts(text), CAPS.large), run(ast, data, []));
    });
  }
}
