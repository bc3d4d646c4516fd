/** Constant folding per dtype: exact values, what is not folded. */
import { assertEquals, assertStrictEquals } from "@std/assert";
import { type DType, dtypes } from "../../../src/dtype/dtype.ts";
import { type ConstValue, Int64 } from "../../../src/uop/core/args.ts";
import { evalOp, foldConst, truncate } from "../../../src/uop/algebra/eval.ts";
import { FUNCTION_OPS, opName, Ops, opWork } from "../../../src/uop/core/ops.ts";
import { constant, int } from "../../../src/uop/core/uop.ts";

const { bool, int8, int32, uint32, int64, uint64, float16, float32, float64 } = dtypes;
const big = (x: bigint): Int64 => Int64.fromBigInt(x);
const BINARY: [Ops, DType, ConstValue, ConstValue, ConstValue | undefined][] = [
  [Ops.ADD, int8, 127, 1, -128],
  [Ops.ADD, int32, 2147483647, 1, -2147483648],
  [Ops.MUL, int32, 65537, 65537, 131073],
  [Ops.MUL, uint32, 4294967295, 4294967295, 1],
  [Ops.MUL, int64, 3037000500, 3037000500, big(9223372037000250000n - (1n << 64n))],
  [Ops.ADD, int64, big((1n << 63n) - 1n), 1, big(-(1n << 63n))],
  [Ops.ADD, uint64, big(-1n), 1, 0],
  [Ops.AND, int64, 0x1ffffffff, 0x100000003, 0x100000003],
  [Ops.SHR, int64, -8, 1, -4],
  [Ops.SHR, uint64, big(-1n), 60, 15],
  [Ops.FLOORDIV, int32, -7, 2, -4],
  [Ops.FLOORDIV, int32, 7, 0, undefined],
  [Ops.FLOORDIV, int64, 7, 0, undefined],
  [Ops.FLOORMOD, int32, -7, 2, 1],
  [Ops.FLOORMOD, int32, 7, -2, -1],
  [Ops.CDIV, int32, -7, 2, -3],
  [Ops.CDIV, int32, -2147483648, -1, -2147483648],
  [Ops.CMOD, int32, -7, 2, -1],
  [Ops.SHL, int32, 1, 31, -2147483648],
  [Ops.SHL, int32, 1, 32, undefined],
  [Ops.SHR, uint32, 4294967295, 31, 1],
  [Ops.XOR, uint32, 4294967295, 1, 4294967294],
  [Ops.ADD, bool, 1, 1, 1],
  [Ops.ADD, float32, 16777216, 1, 16777216],
  [Ops.ADD, float64, 16777216, 1, 16777217],
  [Ops.MUL, float16, 300, 300, Infinity],
  [Ops.FDIV, float32, 0, 0, NaN],
  [Ops.FDIV, float32, 1, -0, -Infinity],
  [Ops.MAX, float32, NaN, 1, NaN],
  [Ops.CMPLT, float32, NaN, 1, 0],
  [Ops.CMPNE, float32, NaN, NaN, 1],
  [Ops.CMPLT, uint64, 1, big(-1n), 1],
  [Ops.CMPLT, int64, 1, big(-(1n << 63n)), 0],
];
Deno.test("eval: binary ops", () => {
  for (const [op, d, a, b, want] of BINARY) {
    const out = op >= Ops.CMPLT && op <= Ops.CMPEQ ? bool : d;
    assertEquals(evalOp(op, out, d, [a, b]), want, `${opName[op]} ${d} ${a} ${b}`);
  }
});

const CASTS: [Ops, DType, DType, ConstValue, ConstValue | undefined][] = [
  [Ops.CAST, float32, int32, -1.9, -1],
  [Ops.CAST, float32, int32, 1e20, 2147483647],
  [Ops.CAST, float32, int32, NaN, 0],
  [Ops.CAST, float32, bool, NaN, 1],
  [Ops.CAST, float32, bool, -0, 0],
  [Ops.CAST, int32, int8, 300, 44],
  [Ops.CAST, int32, uint32, -1, 4294967295],
  [Ops.CAST, int64, int32, big((1n << 40n) + 5n), 5],
  [Ops.CAST, uint64, float32, big(-1n), 18446744073709552000],
  [Ops.CAST, float64, int64, 1e18, big(1000000000000000000n)],
  [Ops.CAST, float64, uint64, 1e30, big(-1n)],
  [Ops.CAST, float64, float16, 1.0001, 1],
  [Ops.BITCAST, float32, int32, 1, 0x3f800000],
  [Ops.BITCAST, uint32, float32, 0xbf800000, -1],
  [Ops.BITCAST, int32, uint32, -1, 4294967295],
  [Ops.BITCAST, float64, int64, 1, big(0x3ff0000000000000n)],
  [Ops.BITCAST, float32, float64, 1, undefined],
];
Deno.test("eval: casts", () => {
  for (const [op, from, to, x, want] of CASTS) assertEquals(evalOp(op, to, from, [x]), want, `${from} ${to} ${x}`);
});

Deno.test("eval: nodes", () => {
  assertStrictEquals(foldConst(Ops.ADD, int32, [int(2), int(3)]), int(5));
  const v = float32.vec(4);
  assertStrictEquals(foldConst(Ops.MUL, v, [constant(2, v), constant(3, v)]), constant(6, v));
  assertStrictEquals(foldConst(Ops.SQRT, float32, [constant(2, float32)]), constant(Math.fround(Math.SQRT2), float32));
  assertStrictEquals(foldConst(Ops.CDIV, int32, [int(2), int(0)]), undefined);
  assertEquals(truncate(2 ** 63, int64), big(-(1n << 63n)));
});

Deno.test("eval: each function of one float has a value and is named in lower case", () => {
  for (const op of FUNCTION_OPS) {
    const of = (Math as unknown as Record<string, (x: number) => number>)[opName[op].toLowerCase()];
    const want = op === Ops.EXP2 ? 2 ** 0.75 : of(0.75);
    assertEquals(evalOp(op, float64, float64, [0.75]), want, opName[op]);
  }
  assertEquals(FUNCTION_OPS.map((op) => opWork[op] > 0).includes(false), false);
});
