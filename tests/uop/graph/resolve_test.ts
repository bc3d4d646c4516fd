/** Reading realized nodes through. */
import { assertEquals, assertStrictEquals } from "@std/assert";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { Storage } from "../../../src/uop/core/args.ts";
import { mergingAll, permute, reshape } from "../../../src/uop/core/build_movement.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { latest, resolve } from "../../../src/uop/graph/resolve.ts";
import { bufferNode, renewed, rotateInternTable, type UOp } from "../../../src/uop/core/uop.ts";

const buffer = (size: number) => bufferNode(new Storage("JS", dtypes.float32, size));

Deno.test("resolve: a graph without realized nodes is itself", () => {
  const a = buffer(6), u = permute(reshape(a, [2, 3]), [1, 0]).mul(2).exp2();
  assertStrictEquals(resolve(u), u);
});

Deno.test("resolve: realized nodes are replaced, chains of them compressed", () => {
  const a = buffer(6), b = buffer(6), c = buffer(6), sum = reshape(a, [2, 3]).add(1), u = reshape(sum, [6]).mul(3);
  const step = reshape(b, [2, 3]);
  sum.becomes = step;
  step.becomes = reshape(c, [2, 3]);
  assertStrictEquals(latest(sum), step.becomes);
  assertStrictEquals(sum.becomes as UOp, step.becomes);
  const now = resolve(u);
  assertEquals([now.op, now.src[0].op, latest(now.src[0].src[0])], [Ops.MUL, Ops.RESHAPE, step.becomes]); // nodes of their own
  const merged = mergingAll(() => resolve(u));
  assertEquals([merged.op, merged.src[0]], [Ops.MUL, c]); // reshape of reshape of c is c
});

Deno.test("resolve: a node of an earlier generation is renewed", () => {
  const x = buffer(4), u = x.add(1).mul(2);
  assertStrictEquals(renewed(u), u);
  rotateInternTable();
  assertStrictEquals(resolve(u), u, "what the generation before has");
  rotateInternTable();
  rotateInternTable();
  // itself, so that who holds it sees what it becomes
  assertStrictEquals(resolve(u), u);
  assertStrictEquals(x.add(1).mul(2), u, "what is made now is that, too");
});

Deno.test("resolve: graphs of different generations meet", () => {
  const a = buffer(4), old = a.add(1);
  rotateInternTable();
  rotateInternTable();
  const young = a.add(1), memo = new Map<UOp, UOp>();
  assertStrictEquals(resolve(old, memo), resolve(young, memo));
});

Deno.test("resolve: deep graphs", () => {
  let u: UOp = buffer(1);
  for (let i = 0; i < 200_000; i++) u = u.add(1);
  assertStrictEquals(resolve(u), u);
});
