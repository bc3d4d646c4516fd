import { assert, assertEquals, assertThrows } from "@std/assert";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { linearize } from "../../../src/codegen/late/program_order.ts";
import { separateNests, simplifyRanges } from "../../../src/codegen/ast/simplify.ts";
import { SpecError } from "../../../src/helpers/errors.ts";
import { AccArg, AxisKind } from "../../../src/uop/core/args.ts";
import { opName, Ops } from "../../../src/uop/core/ops.ts";
import { rangesOf } from "../../../src/uop/core/ranges.ts";
import {
  constant,
  index,
  load,
  param,
  range,
  sink,
  store,
  toposort,
  type UOp,
  uop,
} from "../../../src/uop/core/uop.ts";
import { compile, opts } from "../harness.ts";
import { KERNELS } from "../kernels.ts";

const f32 = dtypes.float32;
const ops = (uops: readonly UOp[]): string[] =>
  uops.filter((u) => u.op !== Ops.PARAM && u.op !== Ops.CONST).map((u) => opName[u.op]);

Deno.test("linearizer: what does not change in a loop is outside of it", () => {
  const i = range(4, 0, AxisKind.LOOP), j = range(8, 1, AxisKind.LOOP);
  const a = load(index(param(1, f32, 4), i));
  const list = linearize(sink([store(index(param(0, f32, 32), i.mul(8).add(j)), a.mul(2))]));
  assertEquals(ops(list), ["RANGE", "MUL", "INDEX", "LOAD", "MUL", "RANGE", "ADD", "INDEX", "STORE", "END", "END"]);
});

Deno.test("linearizer: updates of accumulators end their loop", () => {
  const list = compile(KERNELS.tuple, opts("")).uops;
  const end = list.findIndex((u) => u.op === Ops.END);
  assertEquals(list.slice(end - 2, end).map((u) => u.op), [Ops.STORE, Ops.STORE]);
});

Deno.test("linearizer: stores under one condition share an IF, and what only they need is inside", () => {
  const i = range(8, 0, AxisKind.LOOP), gate = i.lt(5);
  const x = load(index(param(2, f32, 8), i)).mul(3);
  const list = linearize(
    sink([store(index(param(0, f32, 8), i, gate), x), store(index(param(1, f32, 8), i, gate), x)]),
  );
  assertEquals(list.filter((u) => u.op === Ops.IF).length, 1);
  assert(list.findIndex((u) => u.op === Ops.LOAD) > list.findIndex((u) => u.op === Ops.IF));
});

Deno.test("linearizer: an accumulator without loops is set under conditions", () => {
  const i = range(8, 0, AxisKind.LOOP), c = i.lt(3);
  const acc = uop(Ops.ACC, f32, [constant(7, f32)], new AccArg(0));
  const set = store(acc, load(index(param(1, f32, 8), i)));
  const out = store(index(param(0, f32, 8), i), uop(Ops.LOAD, f32, [acc, set]));
  const list = linearize(sink([out, uop(Ops.GROUP, dtypes.void, [set, c])]));
  assertEquals(ops(list), [
    "RANGE",
    "CMPLT",
    "ACC",
    "INDEX",
    "IF",
    "INDEX",
    "LOAD",
    "STORE",
    "ENDIF",
    "LOAD",
    "STORE",
    "END",
  ]);
});

Deno.test("linearizer: a store inside of a reducing loop is an error", () => {
  const k = range(8, 0, AxisKind.REDUCE);
  assertThrows(() => linearize(sink([store(index(param(0, f32, 8), k), load(index(param(1, f32, 8), k)))])), SpecError);
});

Deno.test("simplify: ranges are merged, split and separated", () => {
  const count = (u: UOp): number => toposort(u).filter((x) => x.op === Ops.RANGE).length;
  assertEquals(count(simplifyRanges(KERNELS.merged)), 1);
  assertEquals(count(simplifyRanges(KERNELS.sum_two_axes)), 2);
  assertEquals(count(simplifyRanges(KERNELS.add_2d)), 2);
  assertEquals(rangesOf(simplifyRanges(KERNELS.reshaped).src[0]).length, 2);
  assertEquals(count(KERNELS.var), 2);
  assertEquals(count(separateNests(KERNELS.var)), 3);
});

Deno.test("linearizer: values that only a wish for an order needs are not computed", () => {
  const i = range(8, 0, AxisKind.LOOP);
  const x = load(index(param(1, f32, 8), i)), a = x.mul(2), b = x.mul(3);
  const root = store(index(param(0, f32, 8), i), a);
  const wishes = [uop(Ops.TUPLE, dtypes.void, [a]), uop(Ops.TUPLE, dtypes.void, [b.add(1)])];
  const list = linearize(sink([root, ...wishes]));
  assert(list.includes(a) && !list.includes(b) && list.length === linearize(sink([root])).length);
});
