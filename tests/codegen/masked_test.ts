/** Vectors that end inside of their axis: the rest of a sum under a mask, tiles copied by lanes from a padded input. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import type { LinearProgram } from "../../src/renderer/renderer.ts";
import { AxisKind, type RangeArg } from "../../src/uop/core/args.ts";
import { opCarrier, reduce } from "../../src/uop/core/carrier.ts";
import { dtypes } from "../../src/dtype/dtype.ts";
import { Ops } from "../../src/uop/core/ops.ts";
import { constant, index, load, param, range, sink, store, type UOp } from "../../src/uop/core/uop.ts";
import { parseOpts } from "../../src/codegen/opt/opt.ts";
import { optimized } from "../fixtures/optimized.ts";
import { CAPS, compile, integers, opts, paramsOf, run } from "./harness.ts";
import { Random } from "../support/random.ts";

const f32 = dtypes.float32;
const at = (slot: number, size: number, i: UOp, gate?: UOp): UOp => load(index(param(slot, f32, size), i, gate));

/** out[r] = the sum, or the largest, of a[r, k] * b[r, k] over `n`. */
function rows(n: number, op: Ops, size = 64): UOp {
  const r = range(size, 0, AxisKind.LOOP), k = range(n, 1, AxisKind.REDUCE), i = r.mul(n).add(k);
  const value = at(1, size * n, i).mul(at(2, size * n, i));
  return sink([store(index(param(0, f32, size), r), reduce(opCarrier(op, f32), [value], [k]))]);
}

/** out[o, x] = the sum of w[o, c, k] * in[c, x + k - 1], where that is inside of the input. */
function convolution(channels: number, width: number): UOp {
  const o = range(64, 0, AxisKind.LOOP), x = range(width, 1, AxisKind.LOOP);
  const c = range(channels, 2, AxisKind.REDUCE), k = range(3, 3, AxisKind.REDUCE), from = x.add(k).add(-1);
  const inside = from.lt(0).ne(1).and(from.lt(width));
  const product = at(1, channels * width, c.mul(width).add(from), inside)
    .mul(at(2, 64 * channels * 3, o.mul(channels * 3).add(c.mul(3)).add(k)));
  return sink([
    store(index(param(0, f32, 64 * width), o.mul(width).add(x)), reduce(opCarrier(Ops.ADD, f32), [product], [c, k])),
  ]);
}

function loopsOver(p: LinearProgram, size: number): number {
  return p.uops.filter((u) => u.op === Ops.RANGE && u.src[0].isConst(size)).length;
}

for (const n of [2, 15, 17, 18, 20, 33, 47, 63, 64, 65]) {
  for (const op of [Ops.ADD, Ops.MAX] as const) {
    Deno.test(`masked: ${op === Ops.ADD ? "sums" : "maxima"} of rows of ${n}`, () => {
      const ast = rows(n, op), data = integers(paramsOf(ast), n).map((d) => d.map((v) => v - 7) as typeof d);
      assertEquals(run(ast, data, undefined, CAPS.large)[0], run(ast, data, [])[0]);
    });
  }
}

Deno.test(
  "masked: the rest of a sum of products is a vector, and nothing is selected",
  optimized(() => {
    const p = compile(rows(31, Ops.ADD), undefined, CAPS.large);
    assertMatch(p.opts ?? "", /PADTO:1:(8|16) VECTOR:1:/);
    assertEquals(p.uops.filter((u) => u.op === Ops.WHERE && u.dtype.count > 1).length, 0);
    const without = compile(rows(31, Ops.ADD), undefined, { ...CAPS.large, hasMaskedLoads: false });
    assert(!without.opts?.includes("PADTO:1") && loopsOver(p, 3) === 0 && loopsOver(without, 3) > 0, without.opts);
  }),
);

Deno.test(
  "masked: a maximum ignores the lanes behind its end",
  optimized(() => {
    const p = compile(rows(31, Ops.MAX), parseOpts("PADTO:1:8 VECTOR:1:8"), CAPS.large);
    assert(p.uops.some((u) => u.op === Ops.WHERE && u.dtype.count > 1), p.opts);
  }),
);

const masks = (p: LinearProgram): number => p.uops.filter((u) => u.op === Ops.LOAD && u.src.length > 2).length;

for (const hasMaskedLoads of [true, false]) {
  Deno.test(
    `masked: a padded input is packed by ${hasMaskedLoads ? "vectors" : "lanes"}, and its sums have no gates`,
    optimized(() => {
      const ast = convolution(64, 56), caps = { ...CAPS.large, hasMaskedLoads }, p = compile(ast, undefined, caps);
      assertMatch(p.opts ?? "", /STAGE:1/);
      const inner = p.uops.findLastIndex((u) => u.op === Ops.RANGE);
      assert(p.uops.slice(inner).every((u) => u.op !== Ops.WHERE && u.op !== Ops.IF && u.src.length < 4));
      const loops = p.uops.filter((u) => u.op === Ops.RANGE && (u.arg as RangeArg).kind === AxisKind.VECTOR).length;
      assertEquals([loops > 0, masks(p) > 0], [!hasMaskedLoads, hasMaskedLoads]);
      const data = integers(paramsOf(ast), 5);
      assertEquals(run(ast, data, undefined, caps)[0], run(ast, data, [])[0]);
    }),
  );
}

Deno.test("masked: lanes are read where each of some conditions holds, of either direction, and nowhere else", () => {
  const random = new Random(29);
  let masked = 0;
  for (let i = 0; i < 100; i++) {
    const n = random.int(17, 70), lanes = random.pick([4, 8, 16]), k = range(random.int(1, 4), 1, AxisKind.REDUCE);
    const x = range(n, 0, AxisKind.LOOP),
      from = x.add(k).add(random.int(-9, 9)),
      back = from.mul(-1).add(random.int(0, n));
    // bounds of the input first: what lies outside must not be read
    const conditions = [from.lt(0).ne(1), from.lt(n)];
    for (let c = random.below(3); c > 0; c--) {
      const side = random.pick([from, back]), bound = random.int(-5, n);
      const less = random.below(2) === 0 ? side.lt(bound) : constant(bound, side.dtype).lt(side);
      conditions.push(random.below(2) === 0 ? less : less.ne(1));
    }
    if (random.below(2) === 0) conditions.push(k.lt(random.int(0, 3)));
    const value = at(1, n, from, conditions.reduce((a, b) => a.and(b)));
    const ast = sink([store(index(param(0, f32, n), x), reduce(opCarrier(Ops.ADD, f32), [value], [k]))]);
    const data = integers(paramsOf(ast), i),
      o = opts(`PADTO:0:${lanes} VECTOR:0:${lanes}`),
      p = compile(ast, o, CAPS.large);
    masked += Math.min(1, masks(p));
    assertEquals(run(ast, data, undefined, CAPS.large, [], p)[0], run(ast, data, [])[0], `case ${i}`);
  }
  assert(masked > 60, `${masked} of 100 load under a mask`);
});
