/** WGSL by expected text: bindings, packed words, vectors of memory, uniforms, constants that WGSL does not take. */
import { assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { type DType, dtypes } from "../../../src/dtype/dtype.ts";
import { DTypeError } from "../../../src/helpers/errors.ts";
import { CStyleRenderer } from "../../../src/renderer/c/cstyle.ts";
import { programOf, SCALAR_CAPS } from "../../../src/renderer/renderer.ts";
import { uniformWords, WGSL_LANGUAGE } from "../../../src/renderer/c/wgsl.ts";
import { AxisKind } from "../../../src/uop/core/args.ts";
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
import { Tensor } from "../../../mod.ts";
import { optimized } from "../../fixtures/optimized.ts";
import { openObserving, WRITERS } from "../../support/snapshot_writers.ts";
import { addKernel } from "../../fixtures/kernels.ts";

const renderer = new CStyleRenderer(WGSL_LANGUAGE, SCALAR_CAPS);
const { float32, float64, int32, int64, uint8 } = dtypes;
const vector = (at: UOp, dtype: DType): UOp => uop(Ops.LOAD, dtype, [at]);
const write = (...roots: UOp[]): string => renderer.render(programOf("test", toposort(roots)));

Deno.test("wgsl: a loop", () => {
  assertEquals(
    renderer.render(programOf("add", addKernel(10).linear!)),
    `@group(0) @binding(0) var<storage, read_write> b0: array<f32>;
@group(0) @binding(1) var<storage, read> b1: array<f32>;
@group(0) @binding(2) var<storage, read> b2: array<f32>;
@compute @workgroup_size(1, 1, 1)
fn main(@builtin(workgroup_id) gid: vec3<u32>, @builtin(local_invocation_id) lid: vec3<u32>) {
  for (var i0: i32 = 0; i0 < 10i; i0++) {
    b0[i0] = b1[i0] + b2[i0];
  }
}
`,
  );
});

Deno.test("wgsl: bytes are packed: parts of words atomically, whole words at once", () => {
  const part = write(store(index(param(0, uint8, 8), int(3)), load(index(param(1, uint8, 8), int(5)))));
  assertStringIncludes(part, "b0: array<atomic<u32>>;");
  assertStringIncludes(part, "store_b0(3i, load_b1(5i));");
  assertStringIncludes(part, "atomicAnd(&b0[i >> 2u], ~(255u << s)); atomicOr(&b0[i >> 2u], (x & 255u) << s);");
  const whole = write(
    store(index(param(0, uint8, 8), int(4)), vector(index(param(1, uint8, 8), int(0)), uint8.vec(4))),
  );
  assertStringIncludes(whole, "b0: array<u32>;");
  assertStringIncludes(whole, "store_b0x4(4i, load_b1x4(0i));");
});

Deno.test("wgsl: memory that is written by vectors is an array of vectors", () => {
  const v4 = float32.vec(4), from = param(1, float32, 8), x = vector(index(from, int(4)), v4);
  const text = write(
    store(index(param(0, float32, 8), int(4)), x.add(uop(Ops.BROADCAST, v4, [load(index(from, int(1)))]))),
  );
  assertStringIncludes(text, "b0: array<vec4<f32>>;");
  assertStringIncludes(text, "b0[(4i) >> 2u] = ");
  assertStringIncludes(text, "fn load_b1(i: i32) -> f32 { return b1[(i) >> 2u][(i) & 3]; }");
});

Deno.test("wgsl: scalar arguments are words of a uniform buffer; 64 bits start at an even one", () => {
  const n = variable("n", 0, 9, int32), m = variable("m", 0, 9, int64);
  const out = param(0, int64, 1);
  const program = programOf("test", toposort([store(index(out, int(0)), n.cast(int64).add(m))]));
  assertEquals(uniformWords(program), { at: [0, 2], words: 4 });
  const text = renderer.render(program);
  assertStringIncludes(text, "@binding(1) var<uniform> vars: array<vec4<u32>, 1>;");
  assertStringIncludes(text, "let var_m: vec2<u32> = vec2<u32>(vars[0].x, vars[0].y);");
  assertStringIncludes(text, "let var_n: i32 = bitcast<i32>(vars[0].z);");
  assertStringIncludes(text, "b0[0i] = wide_add(");
});

for (
  const [name, value, want] of [
    ["infinity", constant(Infinity, float32), "bitcast<f32>(inf_bits)"],
    ["NaN", constant(NaN, float32), "bitcast<f32>(nan_bits)"],
    ["minus zero", constant(-0, float32), "minus_zero()"],
    ["the least integer", constant(-(2 ** 31), int32), "i32(-2147483648)"],
    ["a large float", constant(1e30, float32), "1.0000000150474662e+30f"],
    ["a sum of constants", uop(Ops.ADD, int32, [int(2 ** 31 - 1), int(1)]), "opaque_i32(2147483647i) + 1i"],
    [
      "a division by zero",
      uop(Ops.FDIV, float32, [constant(2, float32), constant(0, float32)]),
      "* bitcast<f32>(inf_bits)",
    ],
    ["a shift beyond the width", uop(Ops.SHL, int32, [int(3), int(33)]), "<< 1u"],
    ["a negative float as unsigned", constant(-1, float32).cast(dtypes.uint32), "u32_of_f32(opaque_f32((-1f)))"],
  ] as const
) {
  Deno.test(`wgsl: ${name}`, () => {
    assertStringIncludes(write(store(index(param(0, value.dtype, 1), int(0)), value)), want);
  });
}

Deno.test("wgsl: NaN is told by its bits, and != by ==", () => {
  const x = load(index(param(1, float32, 2), int(0))), y = load(index(param(1, float32, 2), int(1)));
  const bool = (v: UOp): UOp => store(index(param(0, dtypes.bool, 1), int(0)), v);
  assertStringIncludes(write(bool(uop(Ops.CMPNE, dtypes.bool, [x, x]))), "is_nan(v0)");
  assertStringIncludes(write(bool(uop(Ops.CMPNE, dtypes.bool, [x, y]))), "!(b1[0i] == b1[1i])");
});

Deno.test("wgsl: what drivers guess wrong is computed from bits: x / x, x * 0, x + 0, 0 - x, 0 or -0", () => {
  const x = load(index(param(1, float32, 2), int(0))), y = load(index(param(1, float32, 2), int(1)));
  const text = (v: UOp): string => write(store(index(param(0, v.dtype, 1), int(0)), v));
  const zero = constant(0, float32), minus = constant(-0, float32), half = x.cast(dtypes.float16);
  assertStringIncludes(text(uop(Ops.FDIV, float32, [x, x])), "own_quotient(v0)");
  assertStringIncludes(text(uop(Ops.FDIV, dtypes.float16, [half, half])), "f16(own_quotient(f32(");
  assertEquals(text(uop(Ops.FDIV, float32, [x, y])).includes("own_quotient"), false);
  // by more than 2^126 no quotient is promised
  assertStringIncludes(text(uop(Ops.FDIV, float32, [x, y])), "quotient(b1[0i], b1[1i])");
  assertEquals(text(uop(Ops.FDIV, float32, [x, constant(3, float32)])).includes("quotient("), false);
  assertStringIncludes(text(uop(Ops.MUL, float32, [x, zero])), "= times_zero(");
  assertStringIncludes(text(uop(Ops.MUL, float32, [x, minus])), "= times_minus_zero(");
  assertStringIncludes(text(uop(Ops.ADD, float32, [x, zero])), "= plus_zero(");
  assertStringIncludes(text(uop(Ops.SUB, float32, [zero, x])), "= zero_minus(");
  assertEquals(text(uop(Ops.ADD, float32, [x, minus])).includes("plus_zero("), false);
  assertMatch(text(x.lt(y).where(minus, zero)), /bitcast<f32>\(select\(bitcast<u32>/);
});

Deno.test("wgsl: what drivers would fold as if floats were real numbers is hidden from them, and nothing else", () => {
  const [x, y, z, w] = [0, 1, 2, 3].map((i) => load(index(param(1, float32, 4), int(i)))), c = constant(3, float32);
  const hides = (v: UOp): boolean => write(store(index(param(0, v.dtype, 1), int(0)), v)).split("hidden(").length > 2;
  const op = (o: Ops, ...src: UOp[]): UOp => uop(o, float32, src), sum = x.add(y), root = op(Ops.SQRT, x);
  const hidden = [
    op(Ops.SUB, x, x),
    op(Ops.SUB, sum, x),
    op(Ops.SUB, y, sum),
    sum.add(c),
    x.mul(c).mul(c),
    root.mul(root),
    op(Ops.MULACC, x, y, op(Ops.NEG, x.mul(y))),
    uop(Ops.CMPLT, dtypes.bool, [sum, x]),
    op(Ops.FDIV, c, op(Ops.FDIV, c, x)),
  ];
  assertEquals(hidden.map(hides), hidden.map(() => true));
  const open = [
    op(Ops.SUB, x, y),
    sum.add(z),
    x.add(c),
    x.mul(x),
    op(Ops.MULACC, x, op(Ops.MULACC, x, c, c), c), // polynomials
    op(Ops.MULACC, x, y, op(Ops.MULACC, z, w, c)), // products
    uop(Ops.CMPLT, dtypes.bool, [sum, z]),
  ];
  assertEquals(open.map(hides), open.map(() => false));
  assertStringIncludes(
    write(store(index(param(0, float32, 1), int(0)), op(Ops.MULACC, x, constant(0, float32), y))),
    "times_zero(",
  );
});

Deno.test("wgsl: a remainder with a negative operand is computed from the quotient", () => {
  const at = (n: number, d = int32): UOp => load(index(param(n, d, 1), int(0)));
  const text = (a: UOp, b: UOp): string =>
    write(store(index(param(0, int32, 1), int(0)), uop(Ops.CMOD, int32, [a, b])));
  const small = at(1, dtypes.uint16).cast(int32);
  assertStringIncludes(text(at(1), small), "remainder_i32(");
  assertStringIncludes(text(small, at(2)), "remainder_i32(");
  assertEquals(text(small, at(2, dtypes.uint16).cast(int32)).includes("remainder_i32("), false);
});

Deno.test("wgsl: a NaN of the lesser or larger of two is told by its bits", () => {
  const x = load(index(param(1, float32, 2), int(0))), zero = constant(0, float32), yes = constant(1, dtypes.bool);
  const text = (v: UOp): string => write(store(index(param(0, float32, 1), int(0)), v));
  const orEqual = x.lt(zero).or(uop(Ops.CMPEQ, dtypes.bool, [x, zero]));
  for (const v of [x.lt(zero).where(zero, x), orEqual.where(zero, x), orEqual.ne(yes).where(x, zero)]) {
    assertStringIncludes(text(v), "v0, is_nan(v0))");
  }
  // NaN gives the constant, as min and max do
  assertEquals(text(x.lt(zero).where(x, zero)).includes("is_nan"), false);
  assertEquals(text(x.lt(zero).where(constant(1, float32), x)).includes("is_nan"), false);
});

Deno.test(
  "wgsl: bools that threads share are words of their own: neighbors are written at once",
  optimized(() => {
    const device = openObserving("WEBGPU"), at = Tensor.empty([7, 3], { device: device.name, dtype: "int32" });
    const [into, from] = [[5, 3], [7, 3]].map((shape) => Tensor.empty(shape, { device: device.name }));
    const product = into.scatterReduce(0, at, from, "prod", false);
    Tensor.realize([product, ...product.mul(product).sum().gradient([into, from])]);
    const text = device.kernels.map(({ program }) => WRITERS.WEBGPU.text(program)).join("\n");
    assertMatch(
      text,
      /var<workgroup> (\w+): array<u32, \d+>;[^]*\n +\1\[\w+\] = u32\([^]*let \w+: bool = \1\[\w+\] != 0u;/,
    );
    assertEquals(/var<workgroup> \w+: array<bool/.test(text), false);
  }),
);

Deno.test("wgsl: what it has no words for", () => {
  const i = range(4, 0, AxisKind.LOOP);
  const error = assertThrows(() => write(store(index(param(0, float64, 4), i), constant(1, float64))), DTypeError);
  assertEquals(error.dtypes, ["float64"]);
});
