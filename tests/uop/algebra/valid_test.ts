/** What a condition says about an index: [condition, index] to [condition, index]; gates of loads. */
import { assertEquals, assertStrictEquals } from "@std/assert";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { AxisKind } from "../../../src/uop/core/args.ts";
import { exprText } from "../../../src/uop/core/print.ts";
import { graphRewrite } from "../../../src/uop/rewrite/rewrite.ts";
import { constant, index, load, param, range, sink, store, type UOp, variable } from "../../../src/uop/core/uop.ts";
import { pmMoveGates, simplifyKernel, simplifyValid, splitAnd } from "../../../src/uop/algebra/valid.ts";

const r = (end: number, id: number): UOp => range(end, id, AxisKind.LOOP);
const i = r(8, 0), j = r(4, 1), k = r(3, 2), f = r(100, 0), p = variable("p", 0, 1, dtypes.bool);
const ge = (u: UOp, c: number): UOp => u.lt(c).ne(1);
const CASES: [string, UOp, UOp, string, string][] = [
  ["upper bound", i.lt(3), i.floorMod(3), "r0l < 3", "r0l"],
  ["lower bound", ge(i, 2), i.add(-2).max(0), "!(r0l < 2)", "r0l + -2"],
  ["both bounds", ge(i, 2).and(i.lt(6)), i.add(-2).floorMod(4), "!(r0l < 2) & r0l < 6", "r0l + -2"],
  ["implied clause", i.lt(6).and(i.lt(7)), i, "r0l < 6", "r0l"],
  ["implied by a sum", i.lt(5).and(i.add(j).lt(3)), i, "r0l + r1l < 3", "r0l"],
  ["always true", i.lt(8).and(j.lt(4)), i.floorDiv(3), "true", "r0l // 3"],
  ["contradiction", i.lt(3).and(ge(i, 4)), i, "false", "r0l"],
  ["contradiction of sums", i.add(j).lt(2).and(ge(i, 2)), i, "false", "r0l"],
  ["of a sum", i.add(j).lt(4), i.add(j).floorDiv(4), "r0l + r1l < 4", "0"],
  [
    "convolution window",
    ge(i.add(k).add(-1), 0).and(i.add(k).add(-1).lt(8)),
    i.add(k).add(-1).floorMod(8),
    "!(r0l + r2l < 1) & r0l + r2l < 9",
    "r0l + r2l + -1",
  ],
  ["padded reshape", f.lt(64), f.floorDiv(8).floorMod(8).mul(8).add(f.floorMod(8)), "r0l < 64", "r0l"],
  ["equality", i.eq(3), i.mul(4).add(j), "r0l == 3", "r1l + 12"],
  ["any bool", p.and(i.lt(3)), p.where(i, j).floorMod(3), "p & r0l < 3", "r0l"],
  ["negated bool", p.ne(1).and(i.lt(3)), p.where(i, j), "!p & r0l < 3", "r1l"],
  ["one clause under another", i.lt(3).and(i.add(j).lt(20)), i, "r0l < 3", "r0l"],
];
for (const [name, valid, idx, wantValid, wantIdx] of CASES) {
  Deno.test(`valid: ${name}`, () => {
    const [v, x] = simplifyValid(valid, idx);
    assertEquals([exprText(v), exprText(x)], [wantValid, wantIdx]);
    const again = simplifyValid(v, x);
    assertStrictEquals(again[0], v);
    assertStrictEquals(again[1], x);
  });
}

const f32 = dtypes.float32, zero = constant(0, f32), one = constant(1, f32);
const inp = param(1, f32, 64), out = param(0, f32, 64);
const at = (u: UOp, gate?: UOp): UOp => index(inp, u, gate);
const long = load(at(i.mul(4).add(j)));
const MOVES: [string, UOp, UOp][] = [
  ["into the gate", i.lt(3).where(load(at(i)), zero), load(at(i, i.lt(3)))],
  ["with a value", i.lt(3).where(load(at(i)), one), load(at(i, i.lt(3)), one)],
  ["the other branch", i.lt(3).where(zero, load(at(i))), load(at(i, ge(i, 3)))],
  ["joins a gate", i.lt(3).where(load(at(i, p)), zero), load(at(i, p.and(i.lt(3))))],
  ["another value stays", i.lt(3).where(load(at(i, p)), one), i.lt(3).where(load(at(i, p)), one)],
  ["inner loops stay", k.lt(2).where(load(at(i)), zero), k.lt(2).where(load(at(i)), zero)],
  ["in part", k.lt(2).and(i.lt(3)).where(long, zero), k.lt(2).where(load(at(i.mul(4).add(j), i.lt(3))), zero)],
  [
    "a product of gated loads needs none",
    i.lt(3).where(load(at(i, i.lt(3))).mul(load(at(j, i.lt(3).and(p)))), zero),
    load(at(i, i.lt(3))).mul(load(at(j, i.lt(3).and(p)))),
  ],
  [
    "half gated, a product stays",
    i.lt(3).where(load(at(i, i.lt(3))).mul(load(at(j))), zero),
    i.lt(3).where(load(at(i, i.lt(3))).mul(load(at(j))), zero),
  ],
  [
    "a product with another value stays",
    i.lt(3).where(load(at(i, i.lt(3)), one).mul(load(at(j, i.lt(3)))), zero),
    i.lt(3).where(load(at(i, i.lt(3)), one).mul(load(at(j, i.lt(3)))), zero),
  ],
  [
    "a product with -0 stays",
    i.lt(3).where(load(at(i, i.lt(3)), constant(-0, f32)).mul(load(at(j, i.lt(3)))), zero),
    i.lt(3).where(load(at(i, i.lt(3)), constant(-0, f32)).mul(load(at(j, i.lt(3)))), zero),
  ],
  ["loads stay", long.lt(2).where(long, zero), long.lt(2).where(long, zero)],
];
for (const [name, u, want] of MOVES) {
  Deno.test(`valid: gate ${name}`, () => assertStrictEquals(graphRewrite(u, pmMoveGates), want));
}

Deno.test("valid: a whole kernel", () => {
  const idx = i.add(-2), gate = ge(i, 2).and(i.lt(20));
  const ast = sink([store(index(out, i), load(index(inp, idx.floorMod(6), gate)))]);
  assertStrictEquals(simplifyKernel(ast), sink([store(index(out, i), load(at(i.add(-2), ge(i, 2))))]));
  const never = sink([store(index(out, i), load(index(inp, i, i.lt(0))))]);
  assertStrictEquals(simplifyKernel(never), sink([store(index(out, i), zero)]));
});

Deno.test("valid: a loop goes as far whatever the condition", () => {
  const v = variable("v", 0, 5, dtypes.int32), loop = range(v.add(-1).max(0), 7, AxisKind.REDUCE);
  const [, at] = simplifyValid(ge(v, 2).and(i.lt(3)), loop.add(v.max(1)));
  assertStrictEquals(at, v.add(loop));
});

Deno.test("valid: clauses", () => {
  assertEquals(splitAnd(p.and(i.lt(3)).and(p)).map((c) => exprText(c)), ["p", "r0l < 3"]);
});

Deno.test("valid: a load inside of an index keeps its own gate", () => {
  const inner = load(index(param(1, dtypes.int32, 5), i, i.lt(5)));
  const outer = load(index(param(2, dtypes.float32, 9), inner, i.lt(5)));
  const at = simplifyKernel(sink([store(index(param(0, dtypes.float32, 8), i), outer)])).src[0].src[1].src[0];
  assertStrictEquals(at.src[1], inner);
});
