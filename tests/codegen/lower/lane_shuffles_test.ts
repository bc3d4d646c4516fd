/** Lanes that are no neighbors come from whole vectors: what is read and written stays the same, and nothing is accessed alone. */
import { deepStrictEqual as assertEquals, ok } from "node:assert/strict";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { AxisKind } from "../../../src/uop/core/args.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { index, load, param, range, sink, store, type UOp } from "../../../src/uop/core/uop.ts";
import { CAPS, compile, opts, run } from "../harness.ts";

/** out[place] = in[at]^2 at `i`, `j` of `rows` x `columns`, of as many elements as each may reach. */
function kernel(rows: number, columns: number, at: (i: UOp, j: UOp) => UOp, place: (i: UOp, j: UOp) => UOp): UOp {
  const i = range(rows, 0, AxisKind.LOOP), j = range(columns, 1, AxisKind.LOOP), size = 5 * rows * columns;
  const x = load(index(param(1, dtypes.float32, size), at(i, j)));
  return sink([store(index(param(0, dtypes.float32, size), place(i, j)), x.mul(x))]);
}

const R = 48, C = 80;
const across = (i: UOp, j: UOp): UOp => j.mul(R).add(i), along = (i: UOp, j: UOp): UOp => i.mul(C).add(j);
const each = (step: number, first = 0) => (i: UOp, j: UOp): UOp => i.mul(5 * C).add(j.mul(step)).add(first);

for (
  const [name, at, place, text, shuffles] of [
    ["columns of a matrix", across, along, "VECTOR:1:16 UPCAST:0:16", 64],
    ["some columns of a matrix", across, along, "VECTOR:1:16 UPCAST:0:4", 4 * 3 + 8],
    ["columns, eight at a time", across, along, "VECTOR:1:16 UPCAST:0:8", 8 + 24],
    ["columns of 12 rows", across, along, "VECTOR:1:16 UPCAST:0:12", 3 * (4 * 3 + 8)],
    ["four by four", across, along, "VECTOR:1:4 UPCAST:0:4", 8],
    ["a pair of lanes", across, along, "VECTOR:1:2 UPCAST:0:4", 2 * 2],
    ["rows where columns are written", along, across, "VECTOR:1:16 UPCAST:0:16", 64],
    ["some rows where columns are written", along, across, "VECTOR:1:16 UPCAST:0:4", 8 + 16],
    ["every second one", each(2), along, "VECTOR:1:16", 1],
    ["every second one, from the fourth on", each(2, 3), along, "VECTOR:1:8", 1],
    ["every third one", each(3, 1), along, "VECTOR:1:16", 2],
    ["every fourth one", each(4), along, "VECTOR:1:16", 3],
    ["every fourth one of four lanes", each(4), along, "VECTOR:1:4", 3],
    ["every third one of two lanes", each(3), along, "VECTOR:1:2", 2],
    ["the other way round", each(-1, C - 1), along, "VECTOR:1:16", 1],
  ] as const
) {
  Deno.test(`lane shuffles: ${name}`, () => {
    const ast = kernel(R, C, at, place), size = 5 * R * C;
    const data = [new Float32Array(size), Float32Array.from({ length: size }, (_, i) => i % 2039)];
    const linear = compile(ast, opts(text), CAPS.large),
      count = (op: Ops): number => linear.uops.filter((u) => u.op === op).length;
    ok(linear.uops.every((u) => u.op !== Ops.LOAD || u.dtype.count > 1), "a lane is loaded alone");
    ok(count(Ops.LANES) <= shuffles && count(Ops.LANES) > 0, `${count(Ops.LANES)} shuffles, not ${shuffles}`);
    ok(count(Ops.EXTRACT) === 0);
    assertEquals(run(ast, data, undefined, CAPS.large, [], linear), run(ast, data, [], CAPS.scalar));
  });
}
