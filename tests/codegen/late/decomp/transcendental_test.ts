import { assert, assertEquals } from "@std/assert";
import { exp, exp2, sin } from "../../../../src/codegen/late/decomp/transcendental.ts";
import { type DType, dtypes } from "../../../../src/dtype/dtype.ts";
import { AxisKind, type ConstValue } from "../../../../src/uop/core/args.ts";
import { Ops } from "../../../../src/uop/core/ops.ts";
import {
  index,
  int,
  load,
  param,
  range,
  sink,
  store,
  toposort,
  type UOp,
  uop,
  variable,
} from "../../../../src/uop/core/uop.ts";
import { evalOp } from "../../../../src/uop/algebra/eval.ts";
import { compile, opts, run } from "../../harness.ts";
import { Random } from "../../../support/random.ts";

const SPECIAL = [
  0,
  -0,
  1,
  -1,
  2,
  3,
  NaN,
  Infinity,
  -Infinity,
  1e-40,
  -1e-40,
  1.1754942e-38,
  3e38,
  -3e38,
  128,
  127.99999,
];
const MORE = [
  -126.5,
  -149,
  -149.6,
  -151,
  1e5,
  12345678,
  1.5707964,
  3.1415927,
  8191.9,
  8192.1,
  0.99999994,
  2 ** -149,
  -2.5,
];

function kernel(dtype: DType, n: number, op: Ops): UOp {
  const i = range(n, 0, AxisKind.LOOP);
  return sink([store(index(param(0, dtype, n), i), load(index(param(1, dtype, n), i)).alu(op))]);
}

/** The worst error in units of the last place; special values must be equal. */
function worst(dtype: DType, op: Ops, ref: (x: number) => number, points: readonly number[], o = ""): number {
  const A = dtype === dtypes.float32 ? Float32Array : Float64Array;
  const a = A.from(points);
  const got = run(kernel(dtype, a.length, op), [new A(a.length), a], opts(o), {
    vectorBytes: 32,
    nativeOps: [Ops.SQRT],
    vectorLanes: () => 4,
  })[0];
  const [digits, least] = dtype === dtypes.float32 ? [23, -149] : [52, -1074];
  let max = 0;
  a.forEach((x, i) => {
    const want = ref(x), rounded = dtype === dtypes.float32 ? Math.fround(want) : want, g = Number(got[i]);
    if (Object.is(rounded, g)) return;
    assert(Number.isFinite(rounded) && Number.isFinite(g), `at ${x}: ${g}, not ${rounded}`);
    const ulp = 2 ** Math.max(Math.floor(Math.log2(Math.abs(want) || 1e-320)) - digits, least);
    max = Math.max(max, Math.abs(g - want) / ulp);
  });
  return max;
}

const numbers = new Random(1), random = (): number => numbers.next();
const points = (n: number, f: (u: number) => number): number[] => Array.from({ length: n }, () => f(random()));

const CASES: [string, Ops, (x: number) => number, (u: number) => number, ulp32: number, ulp64: number][] = [
  ["exp2", Ops.EXP2, (x) => 2 ** x, (u) => (u - 0.5) * 300, 1.5, 2],
  ["exp2 near 0", Ops.EXP2, (x) => 2 ** x, (u) => u - 0.5, 1.5, 2],
  ["log2", Ops.LOG2, Math.log2, (u) => Math.exp((u - 0.5) * 170), 2, 3],
  ["log2 near 1", Ops.LOG2, Math.log2, (u) => 1 + (u - 0.5) * 0.2, 2, 4],
  ["sin", Ops.SIN, Math.sin, (u) => (u - 0.5) * 12, 2.5, 3],
  ["sin by parts", Ops.SIN, Math.sin, (u) => (u - 0.5) * 16000, 3, 3],
  ["sin of large", Ops.SIN, Math.sin, (u) => (random() < 0.5 ? -1 : 1) * Math.exp(u * 30), 3, 3],
  ["cos", Ops.COS, Math.cos, (u) => (u - 0.5) * 12, 2.5, 3],
  ["cos by parts", Ops.COS, Math.cos, (u) => (u - 0.5) * 16000, 3, 3],
  ["cos of large", Ops.COS, Math.cos, (u) => (random() < 0.5 ? -1 : 1) * Math.exp(u * 30), 3, 3],
  ["cos near its zeros", Ops.COS, Math.cos, (u) => (Math.floor(u * 2000) + 0.5) * Math.PI, 3, 3],
  ["trunc", Ops.TRUNC, Math.trunc, (u) => (u - 0.5) * 100, 0, 0],
];

for (const [name, op, ref, at, ulp32, ulp64] of CASES) {
  Deno.test(`transcendental: ${name}`, () => {
    const special = [...SPECIAL, ...MORE];
    const e32 = worst(dtypes.float32, op, ref, [...special, ...points(6000, at)]);
    assert(e32 <= ulp32, `float32: ${e32} ulp`);
    const e4 = worst(dtypes.float32, op, ref, [...special.slice(0, 28), ...points(400, at)], "VECTOR:0:4");
    assert(e4 <= ulp32, `float32 by lanes: ${e4} ulp`);
    const e64 = worst(dtypes.float64, op, ref, [
      ...special.filter((x) => (op !== Ops.SIN && op !== Ops.COS) || !(Math.abs(x) > 1e15)),
      ...points(3000, at),
    ]);
    assert(e64 <= ulp64, `float64: ${e64} ulp`);
  });
}

Deno.test("transcendental: sin of the largest float32 numbers", () => {
  const e = worst(dtypes.float32, Ops.SIN, Math.sin, [...points(2000, (u) => Math.exp(u * 88)), 16367173 * 2 ** 72]);
  assert(e <= 3, `${e} ulp`);
});

Deno.test("transcendental: a bounded argument needs no reduction of large numbers", () => {
  const n = 8, i = range(n, 0, AxisKind.LOOP), f = dtypes.float32;
  const x = load(index(param(1, dtypes.uint32, n), i));
  const u = x.shr(9).or(0x3f800000).bitcast(f).sub(1).mul(2 * Math.PI);
  const size = (v: UOp): number =>
    compile(sink([store(index(param(0, f, n), i), v.sin())]), [], { nativeOps: [] }).uops.length;
  assert(size(u) < 90, `${size(u)} uops`);
});

Deno.test("functions: a bounded sine needs no reduction of large values, in whatever form its operand is", () => {
  const f = dtypes.float32, x = variable("x", 0, 9).cast(f), y = variable("y", 0, 9).cast(f), half = x.constLike(0.5);
  const count = (u: UOp): number => toposort(u).filter((n) => n.op !== Ops.CONST).length;
  const size = (u: UOp): number => count(sin(u)) - count(u);
  const bounded = size(x.mul(half).add(y));
  assertEquals(size(uop(Ops.MULACC, f, [x, half, y])), bounded);
  assertEquals(size(uop(Ops.SUB, f, [x, y])), size(x.add(y.mul(-1))));
  assertEquals(size(uop(Ops.NEG, f, [x])), size(x.mul(-1)));
  assert(size(load(index(param(1, f, 8), range(8, 0, AxisKind.LOOP)))) > bounded);
});

for (const [dtype, least, far] of [[dtypes.float32, 2 ** -126, 300], [dtypes.float64, 2 ** -1022, 2200]] as const) {
  for (const [name, f] of [["exp", exp], ["exp2", exp2]] as const) {
    Deno.test(`transcendental: ${name} in ${dtype.name} of what is far below makes no number that is too small to be normal`, () => {
      for (const at of [-Infinity, -1e30, -far]) {
        const x = load(index(param(0, dtype, 1), int(0))), made = f(x), values = new Map<UOp, ConstValue>([[x, at]]);
        for (const u of toposort([made], (v) => v !== x)) {
          if (u === x) continue;
          const of = u.src.map((s) => values.get(s)!);
          const value = u.op === Ops.CONST ? u.value : evalOp(u.op, u.dtype, u.src[0].dtype, of)!;
          values.set(u, value);
          const isExact = !u.dtype.isFloat || (u.op === Ops.MUL && of.includes(0));
          assert(isExact || value === 0 && u.op !== Ops.MUL || Math.abs(Number(value)) >= least, `${value} at ${at}`);
        }
        assertEquals(values.get(made), 0);
      }
    });
  }
}
