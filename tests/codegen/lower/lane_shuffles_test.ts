/** Lanes that are no neighbors come from whole vectors: what is read and written stays the same, and nothing is accessed alone. */
import { deepStrictEqual as assertEquals, ok } from "node:assert/strict";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { AxisKind } from "../../../src/uop/core/args.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { opCarrier, reduce } from "../../../src/uop/core/carrier.ts";
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

/** What lanes give that are combined as a tree of neighbors, each step rounded. */
function neighborTree(values: readonly number[], combine: (a: number, b: number) => number): number {
  let row = values.slice();
  while (row.length > 1) row = row.flatMap((a, i) => i % 2 === 1 ? [] : [Math.fround(combine(a, row[i + 1]))]);
  return row[0];
}

for (const [op, combine] of [[Ops.ADD, (a, b) => a + b], [Ops.MAX, Math.max]] as [Ops, typeof Math.max][]) {
  for (const [copies, lanes] of [[1, 16], [2, 4], [4, 4], [6, 8], [7, 4], [8, 8], [8, 16], [12, 16], [16, 4]]) {
    Deno.test(`lane shuffles: ${op === Ops.ADD ? "sums" : "maxima"} of ${copies} rows side by side, ${lanes} lanes`, () => {
      const rows = 2 * copies, n = 3 * lanes, f32 = dtypes.float32;
      const i = range(rows, 0, AxisKind.LOOP), k = range(n, 1, AxisKind.REDUCE);
      const row = load(index(param(1, f32, rows * n), i.mul(n).add(k)));
      const ast = sink([store(index(param(0, f32, rows), i), reduce(opCarrier(op, f32), [row], [k]))]);
      const x = Float32Array.from({ length: rows * n }, (_, at) => Math.sin(at * at) * 10 ** (at % 7 - 3));
      const chosen = `VECTOR:1:${lanes}${copies === 1 ? "" : ` UPCAST:0:${copies}`}`;
      const linear = compile(ast, opts(chosen), CAPS.large), out = new Float32Array(rows);
      const [got] = run(ast, [out, x], undefined, CAPS.large, [], linear);
      const want = Float32Array.from({ length: rows }, (_, r) => {
        const sums = Array.from({ length: lanes }, (_, l) => {
          const own = [0, 1, 2].map((v) => x[r * n + v * lanes + l]);
          return own.reduce((a, b) => Math.fround(combine(a, b)));
        });
        return neighborTree(sums, combine);
      });
      assertEquals(got, want);
      // of m rows m - 1 steps leave one vector, and the rest are for all of them; two shuffles each
      let steps = 0;
      for (let rest = copies, m = 1; rest > 0; rest -= m) {
        for (m = 1; 2 * m <= Math.min(rest, lanes);) m *= 2;
        steps += m - 1 + Math.log2(lanes / m);
      }
      const count = (op: Ops): number => linear.uops.filter((u) => u.op === op).length;
      // and lanes of which only the first are results are taken from the vector that is stored
      const stored = linear.uops.filter((u) => u.op === Ops.STORE && u.src[0].op === Ops.INDEX);
      const parts = stored.filter((u) => u.src[1].op === Ops.LANES && u.src[1].dtype.count < lanes).length;
      assertEquals(count(Ops.LANES) - parts, 2 * steps);
      assertEquals(stored.reduce((n, u) => n + u.src[1].dtype.count, 0), copies);
      ok(copies < 4 || stored.length <= copies / 4 + copies % 4, `${stored.length} stores`);
    });
  }
}
