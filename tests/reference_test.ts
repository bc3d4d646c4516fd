/** The oracle itself, against what the language offers: rounding, wrapping, bytes, writes into views. */
import { assertEquals } from "@std/assert";
import { type DType, dtypes } from "../src/dtype/dtype.ts";
import { Storage } from "../src/uop/core/args.ts";
import { flip, reshape, shrink } from "../src/uop/core/build_movement.ts";
import { Ops } from "../src/uop/core/ops.ts";
import { bufferNode, constant, type UOp, uop } from "../src/uop/core/uop.ts";
import { decode, encode, evaluate, roundTo } from "./reference.ts";

Deno.test("reference: float16 rounds as Float16Array does, bfloat16 to the nearest of its neighbors", () => {
  const half = new Float16Array(1);
  const edge = [
    65504,
    65519.99,
    65520,
    6e-8,
    2.98e-8,
    2.99e-8,
    1e-9,
    6.1e-5,
    6.1035e-5,
    1 / 3,
    -2049,
    2051,
    0,
    -0,
    NaN,
  ];
  for (const x of [...edge, ...Array.from({ length: 2000 }, (_, i) => Math.sin(i) * 10 ** (i % 11 - 6))]) {
    half[0] = x;
    assertEquals(roundTo(x, dtypes.float16), half[0], `${x}`);
    if (!Number.isFinite(x)) continue;
    const r = roundTo(x, dtypes.bfloat16);
    assertEquals(decode(encode([r], dtypes.bfloat16), dtypes.bfloat16), [r], `${x}`);
    assertEquals(Math.abs(r - x) <= Math.abs(x) * 2 ** -8 + 2 ** -134, true, `${x} to ${r}`);
  }
});

Deno.test("reference: bytes and back", () => {
  const rows: [DType, (number | bigint)[]][] = [
    [dtypes.int8, [-128, 127, -1]],
    [dtypes.uint16, [0, 65535]],
    [dtypes.uint32, [4294967295, 7]],
    [dtypes.int64, [-(2n ** 63n), 5n]],
    [dtypes.uint64, [2n ** 64n - 1n]],
    [dtypes.float16, [1.5, -0.25]],
    [dtypes.float64, [Math.PI]],
    [dtypes.bool, [0, 1]],
  ];
  for (const [d, data] of rows) assertEquals(decode(encode(data, d), d), data);
});

const of = (data: (number | bigint)[], d: DType) => {
  const node = bufferNode(new Storage("JS", d, data.length));
  return { node, data };
};

Deno.test("reference: integers wrap, and divide as Python and C do", () => {
  const rows: [UOp, (number | bigint)[]][] = [
    [constant(200, dtypes.uint8).add(100), [44]],
    [constant(100, dtypes.int8).mul(3), [44]],
    [constant(2 ** 31 - 1, dtypes.int32).mul(2 ** 31 - 1), [1]],
    [constant(-7, dtypes.int32).floorDiv(2), [-4]],
    [constant(-7, dtypes.int32).floorMod(2), [1]],
    [constant(-7, dtypes.int32).cdiv(2), [-3]],
    [constant(-7, dtypes.int32).cmod(2), [-1]],
    [constant(-8, dtypes.int32).shr(1), [-4]],
    [constant(2 ** 53 - 1, dtypes.int64).mul(4), [36028797018963964n]],
    [constant(300.7, dtypes.float32).cast(dtypes.uint8), [44]],
    [constant(-1.9, dtypes.float32).cast(dtypes.int32), [-1]],
  ];
  for (const [u, want] of rows) assertEquals(evaluate(u).data, want);
});

Deno.test("reference: writes into views, in order", () => {
  const { node, data } = of([0, 1, 2, 3, 4, 5], dtypes.float32);
  const grid = reshape(node, [2, 3]);
  const first = uop(Ops.STORE, dtypes.void, [shrink(grid, [[0, 1], [0, 2]]), constant(9, dtypes.float32)]);
  const turned = flip(grid, [1]);
  const second = uop(Ops.STORE, dtypes.void, [
    shrink(turned, [[0, 2], [1, 2]]),
    reshape(uop(Ops.IOTA, dtypes.float32, [], 2), [2, 1]),
  ]);
  const u = uop(Ops.AFTER, dtypes.float32, [grid, first, second]);
  assertEquals(evaluate(u, () => data).data, [9, 0, 2, 3, 1, 5]);
});

Deno.test("reference: bitcast to another size rescales the last axis", () => {
  const { node, data } = of([1n, -1n], dtypes.int64);
  const u = reshape(node, [2, 1]).bitcast(dtypes.int32), v = evaluate(u, () => data);
  assertEquals([v.shape, v.data], [[2, 2], [1, 0, -1, -1]]);
});
