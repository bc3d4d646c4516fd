import { assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import { Copies, CopyMemo } from "../../../src/codegen/lower/copies.ts";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { ArgumentError } from "../../../src/helpers/errors.ts";
import { AxisKind } from "../../../src/uop/core/args.ts";
import { index, load, param, range, sink, store } from "../../../src/uop/core/uop.ts";

const { float32 } = dtypes;
const loop = range(8, 0, AxisKind.LOOP), copy = range(3, 1, AxisKind.UPCAST), lane = range(4, 2, AxisKind.VECTOR);
const at = loop.mul(12).add(copy.mul(4)).add(lane);
const row = load(index(param(1, float32, 24), loop.mul(3).add(copy)));
const kernel = sink([store(index(param(0, float32, 96), at), row.mul(2))]);

Deno.test("copies: what a node depends on, and the combinations of that", () => {
  const copies = new Copies(kernel), c = copies.sets.position(copy), l = copies.sets.position(lane);
  const [s] = kernel.src;
  assertEquals([loop, copy, lane].map((r) => copies.isExpanded(r)), [false, true, true]);
  assertEquals([...copies.expandedIn(s)].sort(), [c, l].sort());
  assertEquals(copies.expandedIn(row), [c]);
  assertEquals([copies.laneOf(s), copies.laneOf(row)], [l, -1]);
  assertEquals([copies.dependsOn(l)(at), copies.dependsOn(l)(row)], [true, false]);
  assertEquals([copies.changes.has(row), copies.changes.has(loop), copies.reads.has(row), copies.reads.has(at)], [
    true,
    false,
    true,
    false,
  ]);
  const keys: number[] = [], lanes: number[] = [];
  copies.each(copies.expandedIn(s), () => {
    keys.push(copies.keyOf(s));
    lanes.push(copies.env[l]);
  });
  // a copy for each of three, each with all lanes
  assertEquals([new Set(keys).size, lanes], [3, [4, 4, 4]]);
  assertEquals([0, 1, 4, 5].map((v) => copies.with(l, v, () => copies.keyOf(row))), [0, 0, 0, 0]);
  assertEquals(new Set([0, 1, 4, 5].map((v) => copies.with(l, v, () => copies.keyOf(s)))).size, 4);
});

Deno.test("copies: some lane is one new range", () => {
  const copies = new Copies(kernel), symbol = copies.symbol(copies.sets.position(lane));
  assertStrictEquals(copies.symbol(copies.sets.position(lane)), symbol);
  assertEquals([symbol === lane, symbol.src[0]], [false, lane.src[0]]);
});

Deno.test("copies: nodes that come later", () => {
  const copies = new Copies(kernel), later = row.add(lane.cast(float32));
  assertEquals(copies.isKnown(later), false);
  copies.register(later);
  assertEquals([copies.isKnown(later), copies.reads.has(later), copies.expandedIn(later).length], [true, true, 2]);
});

Deno.test("copies: two vector ranges in one value are an error", () => {
  const other = range(4, 3, AxisKind.VECTOR);
  const twice = sink([store(index(param(0, float32, 96), lane.mul(4).add(other)), row)]);
  assertThrows(() => new Copies(twice), ArgumentError, "two VECTOR axes");
});

Deno.test("copies: a memo by node and combination", () => {
  const memo = new CopyMemo<string>();
  assertEquals([memo.set(row, 0, "a"), memo.set(row, 1, "b")], ["a", "b"]);
  assertEquals([memo.get(row, 0), memo.get(row, 1), memo.get(row, 2), memo.get(at, 0)], [
    "a",
    "b",
    undefined,
    undefined,
  ]);
});
