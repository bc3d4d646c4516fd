/** graphRewrite in both directions, maps, substitution, records, loops. */
import { assert, assertEquals, assertMatch, assertStrictEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { context } from "../../../src/helpers/env.ts";
import { SpecError } from "../../../src/helpers/errors.ts";
import { AxisKind, Storage } from "../../../src/uop/core/args.ts";
import { opCarrier, reduce } from "../../../src/uop/core/carrier.ts";
import { PatternMatcher, rule } from "../../../src/uop/rewrite/matcher.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { isRecording, record } from "../../../src/uop/rewrite/record.ts";
import {
  graphRewrite,
  graphRewriteEach,
  graphRewriteMap,
  type Pass,
  runPasses,
  settle,
  substitute,
} from "../../../src/uop/rewrite/rewrite.ts";
import { specKernel } from "../../../src/uop/core/spec.ts";
import { UPat } from "../../../src/uop/rewrite/upat.ts";
import { bufferNode, int, mayHave, range, sink, toposort, type UOp, variable } from "../../../src/uop/core/uop.ts";

const x = UPat.var("x"), y = UPat.var("y"), c0 = UPat.cvar("c0"), c1 = UPat.cvar("c1");
const a = variable("a", 0, 9), b = variable("b", 0, 9);
const pmFold = new PatternMatcher("fold", [
  rule(x.add(0), ({ x }) => x, "x+0"),
  rule(x.add(c0).add(c1), ({ x, c0, c1 }) => x.add(c0.value + c1.value), "constants"),
]);

const CASES: [string, UOp, UOp][] = [
  ["nothing to do", a.add(b), a.add(b)],
  ["at the root", a.add(0), a],
  ["below", b.mul(a.add(0)), b.mul(a)],
  ["to a fixed point", a.add(1).add(2).add(3), a.add(6)],
  ["results are rewritten", a.add(1).add(-1), a],
  ["everywhere it is used", a.add(0).mul(a.add(0)), a.mul(a)],
];
for (const [name, u, want] of CASES) {
  Deno.test(`rewrite: ${name}`, () => {
    assertStrictEquals(graphRewrite(u, pmFold), want);
    assertStrictEquals(graphRewrite(want, pmFold), want);
    assertStrictEquals(graphRewrite(u, pmFold, { bottomUp: true }), want);
  });
}

Deno.test("rewrite: what settles is visited once, by the matchers that extend it too", () => {
  let tries = 0;
  const declines = (op: Ops, name: string) =>
    rule(UPat.op(op, { name: "u" }), () => {
      tries++;
      return undefined;
    }, name);
  const plain = new PatternMatcher("plain", [declines(Ops.ADD, "sums")]);
  const settling = new PatternMatcher("settling", [declines(Ops.ADD, "sums")]).settles();
  const longer = settling.concat(new PatternMatcher("more", [declines(Ops.MUL, "products")])).settles();
  const inner = a.add(b).add(11), outer = inner.mul(b).add(13);
  const triesOf = (pm: PatternMatcher, u: UOp): number => {
    tries = 0;
    assertStrictEquals(graphRewrite(u, pm), u);
    return tries;
  };
  assertEquals([triesOf(plain, inner), triesOf(plain, inner)], [2, 2]);
  assertEquals([triesOf(settling, inner), triesOf(settling, inner)], [2, 0]);
  assertEquals([triesOf(longer, outer), triesOf(longer, outer)], [2, 0], "the product and the sum around it");
  assertEquals(triesOf(settling, outer), 0, "the longer list has the same rules");
  tries = 0;
  assertEquals(graphRewriteMap(inner, settling).size, 5, "a map has every node");
  assertEquals(tries, 2);
});

Deno.test("rewrite: a rule that throws leaves outer rewrites as they were", () => {
  const failing = new PatternMatcher("failing", [rule(x.mul(c0), () => {
    throw new RangeError("no");
  })]);
  const pm = new PatternMatcher("outer", [rule(x.add(17), ({ x }) => {
    assertThrows(() => graphRewrite(x.add(b.mul(3)), failing), RangeError);
    return x;
  })]);
  assertStrictEquals(graphRewrite(a.add(17).mul(b.add(17)), pm), a.mul(b));
});

Deno.test("mayHave: false is certain", () => {
  const u = a.mul(b).add(range(4, 0, AxisKind.LOOP));
  for (const op of [Ops.ADD, Ops.MUL, Ops.VARIABLE, Ops.RANGE, Ops.CONST]) assert(mayHave(u, op));
  for (const op of [Ops.STAGE, Ops.REDUCE, Ops.LOAD]) assert(!mayHave(u, op));
});

Deno.test("rewrite: sources first, or the node first", () => {
  const seen: string[] = [];
  const pm = new PatternMatcher<undefined>("order", [
    rule(UPat.op([Ops.ADD, Ops.MUL, Ops.VARIABLE], { name: "u" }), ({ u }) => {
      seen.push(u.op === Ops.ADD ? "add" : u.op === Ops.MUL ? "mul" : "leaf");
      return undefined;
    }),
  ]);
  graphRewrite(a.mul(3).add(a), pm);
  assertEquals(seen, ["leaf", "mul", "add"]);
  seen.length = 0;
  graphRewrite(a.mul(3).add(a), pm, { bottomUp: true });
  assertEquals(seen, ["add", "mul", "leaf"]);
});

Deno.test("rewrite: context and enter", () => {
  const pm = new PatternMatcher<Map<UOp, UOp>>("ctx", [
    rule(UPat.op(Ops.VARIABLE, { name: "v" }), ({ v }, ctx: Map<UOp, UOp>) => ctx.get(v)),
  ]);
  assertStrictEquals(graphRewrite(a.add(b), pm, { ctx: new Map([[a, int(5)]]) }), int(5).add(b));
  const u = a.mul(2).add(a);
  const kept = graphRewrite(u, pm, { ctx: new Map([[a, b]]), enter: (n) => n.op !== Ops.MUL });
  assertStrictEquals(kept, a.mul(2).add(b));
});

Deno.test("rewrite: map of what became what", () => {
  const u = a.add(1).add(2), v = b.mul(u);
  const map = graphRewriteMap([v, u], pmFold);
  assertStrictEquals(map.get(u), a.add(3));
  assertStrictEquals(map.get(v), b.mul(a.add(3)));
  assertStrictEquals(map.get(a), a);
  const each = graphRewriteEach([v], [a, u, v], pmFold);
  [a, a.add(3), b.mul(a.add(3))].forEach((want, i) => assertStrictEquals(each[i], want));
});

Deno.test("rewrite: a rule may rewrite inside", () => {
  const outer: PatternMatcher = new PatternMatcher("outer", [
    rule(x.lt(y), ({ x, y }) => {
      const p = graphRewrite(x, pmFold), q = graphRewrite(y, pmFold);
      return p === x && q === y ? undefined : p.mul(q);
    }),
  ]);
  const shared = a.add(1).add(2);
  assertStrictEquals(graphRewrite(sink([shared.lt(b), shared]), outer), sink([a.add(3).mul(b), shared]));
});

Deno.test("rewrite: nodes are left clean, also after a throw", () => {
  const bad = new PatternMatcher("bad", [rule(x.add(y), () => {
    throw new RangeError("stop");
  })]);
  const u = a.mul(3).add(b);
  assertThrows(() => graphRewrite(u, bad), RangeError, "stop");
  for (const n of toposort(u)) assertEquals([n.memoOwner, n.memoValue], [0, undefined]);
});

Deno.test("rewrite: loops name their rules", () => {
  const swap = new PatternMatcher("swap", [rule(x.add(y), ({ x, y }) => y.add(x), "x+y -> y+x")]);
  assertStringIncludes(assertThrows(() => graphRewrite(a.add(b), swap), SpecError).message, "rule x+y -> y+x");
  const grow = new PatternMatcher("grow", [rule(UPat.op(Ops.VARIABLE, { name: "v" }), ({ v }) => v.add(1), "grow")]);
  assertThrows(() => graphRewrite(a, grow), SpecError, "by rule grow");
  assertThrows(() => graphRewrite(a, grow, { bottomUp: true }), SpecError, "by rule grow");
});

Deno.test("rewrite: a loop is stopped with its pass, its rules and the graph", () => {
  const rows: [string, PatternMatcher, RegExp][] = [
    [
      "two rules that undo each other",
      new PatternMatcher("turns", [
        rule(x.mul(2), ({ x }) => x.add(x), "x*2 -> x+x"),
        rule(x.add(x), ({ x }) => x.mul(2), "x+x -> x*2"),
      ]),
      /^Cannot finish rewrite "index": it loops, by rule x\*2 -> x\+x and rule x\+x -> x\*2:\n/,
    ],
    [
      "a rule that wraps what it matched",
      new PatternMatcher("wraps", [rule(x.mul(2), ({ x }) => x.mul(2).max(0), "x*2 -> max(x*2, 0)")]),
      /^Cannot finish rewrite "index": it loops, by rule x\*2 -> max\(x\*2, 0\):\n/,
    ],
  ];
  for (const [name, pm, want] of rows) {
    const { message } = assertThrows(() => graphRewrite(sink([a.mul(2)]), pm, { name: "index" }), SpecError);
    assertMatch(message, want, name);
    assertMatch(message, /^0 VARIABLE +int32 +a\[0, 9\]$/m, name);
    assertEquals([a.memoOwner, a.memoValue], [0, undefined], name);
  }
});

Deno.test("rewrite: under SPEC=1 a pass that returns an illegal graph is named", () => {
  const list = [{ name: "bad pass", run: (u: UOp) => sink([u.src[0].exp2().sqrt()]), spec: specKernel }];
  const bad = (u: UOp): UOp => runPasses(list, u, undefined);
  const u = sink([a.add(b)]);
  context({ SPEC: 0 }, () => bad(u));
  const { message } = assertThrows(() => context({ SPEC: 1 }, () => bad(u)), SpecError);
  assertEquals(message.split("\n").map((line: string) => line.trimEnd()), [
    'Illegal EXP2 (int32) after pass "bad pass", by the table of the kernel stage: only floats have this op:',
    "  0 VARIABLE   int32     a[0, 9]",
    "  1 VARIABLE   int32     b[0, 9]",
    "  2 ADD        int32     (0, 1)",
    "> 3 EXP2       int32     (2)",
    "  4 SQRT       int32     (3)",
  ]);
});

Deno.test("rewrite: deep graphs need no stack", () => {
  let u: UOp = a;
  for (let i = 0; i < 40000; i++) u = u.mul(b).add(0);
  const out = graphRewrite(u, pmFold);
  assertEquals(toposort(out).length, 40002);
});

const i = range(4, 0, AxisKind.LOOP), j = range(5, 1, AxisKind.LOOP), k = range(6, 2, AxisKind.REDUCE);
Deno.test("substitute: ranges, closed ones too; values are not searched again", () => {
  const u = i.mul(5).add(j);
  assertStrictEquals(substitute(u, new Map([[i, i.add(1)]])), i.add(1).mul(5).add(j));
  assertStrictEquals(substitute(u, new Map([[i, j], [j, i]])), j.mul(5).add(i));
  assertStrictEquals(substitute(u, new Map([[k, i]])), u);
  const sum = reduce(opCarrier(Ops.ADD, dtypes.int32), [k.add(i)], [k]);
  const k2 = range(6, 9, AxisKind.REDUCE);
  assertStrictEquals(
    substitute(sum, new Map([[k, k2]])),
    reduce(opCarrier(Ops.ADD, dtypes.int32), [k2.add(i)], [k2]),
  );
});

Deno.test("substitute: any node; buffers stay themselves", () => {
  const buffer = bufferNode(new Storage("JS", dtypes.int32, 4));
  const u = buffer.add(a.mul(2));
  const out = substitute(u, new Map([[a.mul(2), b]]));
  assertStrictEquals(out, buffer.add(b));
  assertStrictEquals(out.src[0], buffer);
});

Deno.test("record: passes, rules, nesting; nothing when off", () => {
  const list: Pass<number>[] = [
    { name: "my pass", run: (u) => graphRewrite(u, pmFold) },
    { name: "not for 1", when: (x) => x !== 1, run: () => sink([]) },
  ];
  const pass = (u: UOp): UOp => runPasses(list, u, 1);
  const u = sink([a.add(1).add(2).add(0)]);
  assert(!isRecording());
  const { result, passes } = record(() => pass(u));
  assertStrictEquals(result, sink([a.add(3)]));
  assertEquals(passes.map((p) => [p.name, p.depth]), [["my pass", 0], ["fold", 1]]);
  assertStrictEquals(passes[0].after, result);
  assertEquals(passes[1].changes.map((c) => c.rule), ["constants", "x+0"]);
  assertStrictEquals(passes[1].changes[0].to, a.add(3));
});

Deno.test("rewrite: settle does what a rewrite does, and marks what is done", () => {
  const pm = new PatternMatcher("fold", pmFold.rules).settles();
  const deep = a.add(0).mul(3).add(b).mul(5).add(a).mul(7);
  for (const [, u] of CASES) assertStrictEquals(settle(u, pm), graphRewrite(u, pmFold));
  const done = settle(deep, pm);
  assertStrictEquals(done, graphRewrite(deep, pmFold));
  assert(
    (done.settled & pm.settledBit) !== 0 &&
      done.src.every((s) => (s.settled & pm.settledBit) !== 0 || s === done.src[1]),
  );
  assertStrictEquals(settle(done, pm), done);
});
