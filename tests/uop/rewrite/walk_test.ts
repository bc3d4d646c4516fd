/** Steps down a graph, and graphs built anew. */
import { assertEquals, assertStrictEquals } from "@std/assert";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { index, int, load, param, store, type UOp, uop, variable } from "../../../src/uop/core/uop.ts";
import { baseOf, descend, rebuild, rebuildAll, throughAfter } from "../../../src/uop/rewrite/walk.ts";

Deno.test("walk: past order, and to the memory of an address", () => {
  const memory = param(0, dtypes.float32, 8), at = index(memory, int(3)), write = store(at, load(at));
  const after = uop(Ops.AFTER, dtypes.float32, [uop(Ops.AFTER, dtypes.float32, [memory, write]), write]);
  assertStrictEquals(throughAfter(after), memory);
  assertStrictEquals(throughAfter(at), at);
  assertStrictEquals(baseOf(uop(Ops.AFTER, dtypes.float32, [index(after, int(2)), write])), memory);
});

Deno.test("walk: down, to each node once", () => {
  const a = variable("a", 0, 9), b = variable("b", 0, 9), sum = a.add(b), root = sum.mul(a), met: UOp[] = [];
  descend([root, b], (u) => (met.push(u), u.src));
  assertEquals(met, [b, root, a, sum]);
  met.length = 0;
  descend([root], (u) => (met.push(u), u === sum ? [] : u.src));
  assertEquals(met, [root, a, sum]);
  let deep: UOp = a, count = 0;
  for (let i = 0; i < 10_000; i++) deep = deep.mul(b);
  descend([deep], (u) => (count++, u.src));
  assertEquals(count, 10_002);
});

Deno.test("walk: a graph built anew", () => {
  const a = variable("a", 0, 9), b = variable("b", 0, 9), c = variable("c", 0, 9);
  const sum = a.add(b), root = sum.mul(c), asked: UOp[] = [];
  const to = (from: UOp, into: UOp) => (u: UOp): UOp | undefined => {
    asked.push(u);
    return u === from ? into : undefined;
  };
  assertStrictEquals(rebuild(root, to(b, c)), a.add(c).mul(c));
  assertEquals(asked, [a, b, sum, c, root]);
  assertStrictEquals(rebuild(root, to(root, a)), a);
  assertStrictEquals(rebuild(root, () => undefined), root);
  // what is below is left alone, the node itself is asked for
  assertStrictEquals(rebuild(root, to(b, c), (u) => u !== sum), root);
  assertStrictEquals(rebuild(root, to(sum, a), (u) => u !== sum), a.mul(c));
  // what is known is not asked for
  asked.length = 0;
  assertStrictEquals(rebuild(root, to(b, c), undefined, new Map([[sum, int(3)]])), int(3).mul(c));
  assertEquals(asked, [c, root]);
  assertEquals(rebuildAll([root, b], to(b, a)), [a.add(a).mul(c), a]);
  let deep: UOp = a, want: UOp = b;
  for (let i = 0; i < 10_000; i++) [deep, want] = [deep.mul(c), want.mul(c)];
  assertStrictEquals(rebuild(deep, to(a, b)), want);
});
