import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { SpecError } from "../../../src/helpers/errors.ts";
import { C_LANGUAGE } from "../../../src/renderer/c/c.ts";
import { CStyleRenderer, unwrap } from "../../../src/renderer/c/cstyle.ts";
import { programOf, SCALAR_CAPS } from "../../../src/renderer/renderer.ts";
import { AxisKind, Int64, LocalArg } from "../../../src/uop/core/args.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import {
  constant,
  index,
  int,
  load,
  param,
  range,
  store,
  toposort,
  type UOp,
  uop,
  variable,
} from "../../../src/uop/core/uop.ts";
import { addKernel, addThreadVector, padKernel, sumKernel } from "../../fixtures/kernels.ts";

const renderer = new CStyleRenderer(C_LANGUAGE, SCALAR_CAPS);
const f32 = dtypes.float32, v4 = f32.vec(4), none = int(0);

/** Declared names and the function. */
function write(name: string, uops: readonly UOp[]): [string[], string] {
  const { declarations, body } = renderer.parts(programOf(name, uops), name);
  return [[...declarations.keys()], body];
}

/** What stands before a loop around others that adds nothing up. */
const ROLLED = `_Pragma("clang loop unroll(disable)") `;

for (
  const [k, declared, body] of [
    [
      addKernel(10),
      [],
      `void add(void **bufs, const unsigned long long *vars, int begin, int end) {
  float *restrict b0 = bufs[0];
  const float *restrict b1 = bufs[1];
  const float *restrict b2 = bufs[2];
  for (long long i0 = 0; i0 < 10; i0++) {
    b0[i0] = b1[i0] + b2[i0];
  }
}
`,
    ],
    [
      addThreadVector(3),
      ["prelude", "f32x4"],
      `void add_thread_vector(void **bufs, const unsigned long long *vars, int begin, int end) {
  float *restrict b0 = bufs[0];
  const float *restrict b1 = bufs[1];
  const float *restrict b2 = bufs[2];
  ${ROLLED}for (long long i0 = begin; i0 < end; i0++) {
    for (long long i1 = 0; i1 < 2; i1++) {
      long long v0 = (i0 * 8) + (i1 * 4);
      *(f32x4_u *)&b0[v0] = (*(const f32x4_u *)&b1[v0]) + (*(const f32x4_u *)&b2[v0]);
    }
  }
}
`,
    ],
    [
      sumKernel(5, 7),
      [],
      `void sum(void **bufs, const unsigned long long *vars, int begin, int end) {
  float *restrict b0 = bufs[0];
  const float *restrict b1 = bufs[1];
  for (long long i0 = 0; i0 < 5; i0++) {
    float acc0 = 0.0f;
    long long v0 = i0 * 7;
    for (long long i1 = 0; i1 < 7; i1++) {
      acc0 = acc0 + b1[v0 + i1];
    }
    b0[i0] = acc0;
  }
}
`,
    ],
    [
      padKernel(5, 2),
      [],
      `void pad(void **bufs, const unsigned long long *vars, int begin, int end) {
  float *restrict b0 = bufs[0];
  const float *restrict b1 = bufs[1];
  for (long long i0 = 0; i0 < 7; i0++) {
    b0[i0] = ((i0 < 2) != 1) ? b1[i0 + (-2)] : 0.0f;
  }
}
`,
    ],
  ] as const
) {
  Deno.test(`cstyle: ${k.name}`, () => assertEquals(write(k.name, k.linear!), [[...declared], body]));
}

/** The text that is stored when `value` is. */
function stored(value: UOp): string {
  const body = write("k", toposort(store(index(param(0, value.dtype.scalar, 64), none), value)))[1];
  return /b0\[0\] = (.*);\n\}/.exec(body)![1];
}
const x = load(index(param(1, f32, 8), none)), n = variable("n", 0, 100), big = variable("m", -(2 ** 31), 2 ** 31 - 1);

for (
  const [name, value, want] of [
    ["float constants", constant(0.1, f32), "0.10000000149011612f"],
    ["large float", constant(1e30, f32), "1.0000000150474662e+30f"],
    ["infinity", constant(-Infinity, f32), "-__builtin_inff()"],
    ["NaN", constant(NaN, dtypes.float64), '__builtin_nan("")'],
    ["minus zero", constant(-0, f32), "-0.0f"],
    ["int32 minimum", int(-(2 ** 31)), "-2147483647 - 1"],
    ["int64", constant(Int64.fromBigInt(-(2n ** 63n)), dtypes.int64), "-9223372036854775807ll - 1"],
    ["uint64", constant(Int64.fromBigInt(-1n), dtypes.uint64), "18446744073709551615ull"],
    ["splat", constant(2, v4), "SPLAT(f32x4, float, 2.0f)"],
    ["zero vector", constant(0, v4), "(f32x4){}"],
    ["sums that fit stay signed", n.mul(3).add(1), "(var_n * 3) + 1"],
    ["sums that may not fit wrap", big.add(1), "(int)((unsigned)var_m + (unsigned)1)"],
    ["division by a variable", n.cdiv(big), "cdiv_i32(var_n, var_m)"],
    ["relu", x.max(0), "maxc_f32(b1[0], 0.0f)"],
    ["maximum", x.max(x.add(1)), "max_f32(v0, (v0 + 1.0f))"],
    ["select", x.lt(0).where(x, x.constLike(1)), "(v0 < 0.0f) ? v0 : 1.0f"],
    ["bits", x.bitcast(dtypes.int32), "bits_f32_i32(b1[0])"],
    ["lane", uop(Ops.EXTRACT, f32, [uop(Ops.BROADCAST, v4, [x])], 2), "(SPLAT(f32x4, float, b1[0]))[2]"],
  ] as const
) {
  Deno.test(`cstyle: ${name}`, () => assertEquals(stored(value), want));
}

Deno.test("cstyle: masks keep the width of what was compared", () => {
  const d8 = dtypes.float64.vec(4);
  const a = uop(Ops.LOAD, v4, [index(param(1, f32, 4), none)]);
  const b = uop(Ops.LOAD, d8, [index(param(2, dtypes.float64, 4), none)]);
  const m = uop(Ops.CMPLT, dtypes.bool.vec(4), [b, constant(0, d8)]);
  const text = write("k", toposort(store(index(param(0, f32, 4), none), m.where(a, constant(1, v4)))))[1];
  assertStringIncludes(text, "SELECT(f32x4, i32x4, __builtin_convertvector(((i64x4)(");
});

Deno.test("cstyle: a value used twice gets a name, an index shared by load and store too", () => {
  const a = param(0, f32, 8), i = range(4, 0, AxisKind.LOOP), at = index(a, i.mul(2)), y = load(at);
  const uops = [a, int(4), int(2), i, i.mul(2), at, y, y.mul(y), store(at, y.mul(y)), uop(Ops.END, dtypes.void, [i])];
  assertStringIncludes(
    write("k", uops)[1],
    "    long long v0 = i0 * 2;\n    float v1 = b0[v0];\n    b0[v0] = v1 * v1;\n",
  );
});

Deno.test("cstyle: local arrays", () => {
  const local = uop(Ops.LOCAL, f32, [], new LocalArg(0, 8, "thread"));
  const y = load(index(local, int(3)));
  const uops = [param(0, f32, 1), none, int(3), local, constant(2, f32)];
  uops.push(index(local, int(3)), store(index(local, int(3)), uops[4]), y, index(uops[0], none));
  uops.push(store(uops[8], y));
  const text = write("k", uops)[1];
  assertStringIncludes(text, "  float local0[8] __attribute__((aligned(64)));\n  local0[3] = 2.0f;\n");
  assertStringIncludes(text, "b0[0] = local0[3];");
});

Deno.test("cstyle: a program out of order is a contradiction", () => {
  const k = addKernel(4), late = k.linear!.filter((u) => u.op !== Ops.ADD);
  assertThrows(() => renderer.render(programOf("late", late)), SpecError, "ADD is used before it stands");
});

Deno.test("cstyle: unwrap takes one pair off", () => {
  assertEquals(["(a)", "(a) + (b)", "((a))", "f(a)", ""].map(unwrap), ["a", "(a) + (b)", "(a)", "f(a)", ""]);
});
