/** Patterns: the compiled matcher and the interpreter agree on every case. */
import { assertEquals, assertStrictEquals } from "@std/assert";
import { context } from "../../../src/helpers/env.ts";
import { dtypes } from "../../../src/dtype/dtype.ts";
import {
  interpretRules,
  matchStats,
  PatternMatcher,
  resetMatchStats,
  type Rule,
  rule,
} from "../../../src/uop/rewrite/matcher.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { graphRewrite } from "../../../src/uop/rewrite/rewrite.ts";
import { UPat } from "../../../src/uop/rewrite/upat.ts";
import { constant, int, type UOp, uop, variable } from "../../../src/uop/core/uop.ts";

const x = UPat.var("x"), y = UPat.var("y"), c0 = UPat.cvar("c0"), c1 = UPat.cvar("c1");
const a = variable("a", 0, 9), b = variable("b", 0, 9), f = variable("f", 0, 9, dtypes.float32);
const v4 = variable("v", 0, 9, dtypes.int32.vec(4));
const tuple = (...src: UOp[]): UOp => uop(Ops.TUPLE, dtypes.void, src);
const yes = int(77);
const text = (u: UOp | undefined): string => u === undefined ? "none" : JSON.stringify([u.op, String(u.arg)]);

const CASES: [string, Rule, UOp, UOp | undefined][] = [
  ["identity", rule(x.add(0), ({ x }) => x), a.add(0), a],
  ["other order", rule(x.add(0), ({ x }) => x), int(0).add(a), a],
  ["other op", rule(x.add(0), ({ x }) => x), a.mul(0), undefined],
  ["other value", rule(x.add(0), ({ x }) => x), a.add(1), undefined],
  ["-0 is not 0", rule(x.add(0), ({ x }) => x), f.add(-0), undefined],
  ["nested", rule(x.add(c0).add(c1), ({ x, c0, c1 }) => x.add(c0.value * 10 + c1.value)), a.add(1).add(2), a.add(12)],
  ["nested, swapped", rule(x.add(c0).add(c1), ({ x }) => x), int(2).add(int(1).add(a)), a],
  ["ordered op", rule(x.lt(3), ({ x }) => x), int(3).lt(a), undefined],
  ["same name", rule(x.add(x), () => yes), a.add(a), yes],
  ["same name, other node", rule(x.add(x), () => yes), a.add(b), undefined],
  ["same name, deep", rule(x.mul(y).add(x), ({ y }) => y), b.add(a.mul(b)), a],
  ["ordered option", rule(UPat.op(Ops.ADD, { src: [c0, x], ordered: true }), () => yes), a.add(1), undefined],
  ["ops", rule(UPat.op([Ops.ADD, Ops.MUL], { src: [x, y] }), ({ y }) => y), a.mul(b), b],
  ["nothing but an op", rule(UPat.op(Ops.MUL).named("u"), ({ u }) => u.src[1]), a.mul(b), b],
  ["nothing but an op, no name", rule(UPat.op(Ops.MUL), () => yes), a.mul(b), yes],
  ["nothing but an op, declined", rule(UPat.op(Ops.MUL).named("u"), ({ u }) => u), a.mul(b), undefined],
  ["root name", rule(x.mul(y).named("u"), ({ u }) => u.src[0]), a.mul(b), a],
  ["arg", rule(UPat.op(Ops.GETTUPLE, { arg: 1, src: [x] }), ({ x }) => x), uop(Ops.GETTUPLE, dtypes.int32, [a], 1), a],
  ["other arg", rule(UPat.op(Ops.GETTUPLE, { arg: 1 }), () => yes), uop(Ops.GETTUPLE, dtypes.int32, [a], 0), undefined],
  ["dtype", rule(UPat.var("x", dtypes.int32).mul(2), ({ x }) => x), a.mul(2), a],
  ["dtype of lanes", rule(UPat.var("x", dtypes.int32).mul(2), ({ x }) => x), v4.mul(2), v4],
  ["vector dtype", rule(UPat.var("x", dtypes.int32.vec(4)).mul(2), ({ x }) => x), a.mul(2), undefined],
  ["other dtype", rule(UPat.var("x", [dtypes.int8, dtypes.float32]).mul(2), () => yes), a.mul(2), undefined],
  ["when", rule(UPat.op(Ops.ADD, { when: (u) => u.src[0] === a }), () => yes), a.add(b), yes],
  ["when not", rule(UPat.op(Ops.ADD, { when: (u) => u.src[0] === a }), () => yes), b.add(a), undefined],
  ["any", rule(UPat.any(x.add(1), x.mul(2)), () => yes), a.mul(2), yes],
  ["any, inside", rule(UPat.any(x.add(1), x.mul(2)).named("p").lt(y), ({ p }) => p), a.mul(2).lt(b), a.mul(2)],
  ["any, neither", rule(UPat.any(x.add(1), x.mul(2)), () => yes), a.mul(3), undefined],
  ["any, deep", rule(x.max(UPat.any(c0, UPat.cvar("c1").cast())), () => yes), a.max(int(1).cast(dtypes.int8)), yes],
  ["prefix", rule(UPat.op(Ops.TUPLE, { src: [x], allowAny: true }), ({ x }) => x), tuple(a, b), a],
  ["no prefix", rule(UPat.op(Ops.TUPLE, { src: [x] }), ({ x }) => x), tuple(a, b), undefined],
  ["every source", rule(UPat.op(Ops.TUPLE, { everySrc: UPat.cvar("k") }), () => yes), tuple(int(1), int(2)), yes],
  ["not every source", rule(UPat.op(Ops.TUPLE, { everySrc: UPat.cvar("k") }), () => yes), tuple(int(1), a), undefined],
  ["declined", rule(x.add(y), () => undefined), a.add(b), undefined],
  ["unchanged is no match", rule(x.add(y).named("u"), ({ u }) => u), a.add(b), undefined],
  ["second order after declining", rule(x.add(y), ({ x }) => x === b ? yes : undefined), a.add(b), yes],
  ["where", rule(x.where(c0, c1), ({ c1 }) => c1), a.lt(b).where(int(1), int(2)), int(2)],
  ["constant of any dtype", rule(x.mul(1), ({ x }) => x), f.mul(constant(1, dtypes.float32)), f],
];
for (const [name, r, u, want] of CASES) {
  Deno.test(`matcher: ${name}`, () => {
    assertEquals(text(new PatternMatcher("test", [r]).rewrite(u, undefined)), text(want));
    assertEquals(text(interpretRules([r])(u, undefined)), text(want));
    assertEquals(text(new PatternMatcher("test", [r]).rewriteTracked(u, undefined)), text(want));
  });
}

Deno.test("matcher: rules in order, context, concat is cached", () => {
  const first = new PatternMatcher<number>("first", [rule(x.add(y), (_, n: number) => int(n))]);
  const second = new PatternMatcher("second", [rule(x.add(y), () => yes), rule(x.mul(y), () => yes)]);
  const both = first.concat(second);
  assertStrictEquals(both, first.concat(second));
  assertStrictEquals(both.rewrite(a.add(b), 5), int(5));
  assertStrictEquals(both.rewrite(a.mul(b), 5), yes);
});

Deno.test("matcher: statistics count only when asked for", () => {
  const pm = new PatternMatcher("counted", [rule(x.add(0), ({ x }) => x, "add zero"), rule(x.add(y), () => undefined)]);
  const mine = () => matchStats().filter((s) => s.matcher === "counted");
  resetMatchStats();
  graphRewrite(a.add(b).add(0), pm);
  assertEquals(mine(), []);
  context({ TRACK_MATCH_STATS: 1 }, () => graphRewrite(a.add(b).add(0), pm));
  const zero = mine().find((s) => s.rule === "add zero");
  assertEquals([zero?.tries, zero?.hits], [2, 1]);
  resetMatchStats();
});
