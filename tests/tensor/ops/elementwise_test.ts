/** Elementwise ops: values by the oracle, dtypes by promotion, accuracy of functions, and what is refused. */
import { valueOf } from "../graph.ts";
import { assert, assertClose, assertEquals, assertThrows } from "@std/assert";
import { type DType, dtypes } from "../../../src/dtype/dtype.ts";
import { ArgumentError, DTypeError, ShapeError } from "../../../src/helpers/errors.ts";
import { Tensor } from "../../../src/tensor/tensor.ts";
import { evaluateTensor } from "../../reference.ts";

const i = new Tensor([-7, -1, 0, 3, 8]);
const f = new Tensor([-1.5, -0.5, 0.5, 2.5]);
const b = new Tensor([true, false]), u8 = new Tensor([0, 1, 200, 255], { dtype: "uint8" });
const edges = new Tensor([NaN, Infinity, -Infinity, -0, 0]);
const nan = NaN, inf = Infinity;

const values: readonly [string, Tensor, unknown, string][] = [
  ["add", i.add(1), [-6, 0, 1, 4, 9], "int32"],
  ["add a float to ints", i.add(0.5), [-6.5, -0.5, 0.5, 3.5, 8.5], "float32"],
  ["add bools", b.add(true), [true, true], "bool"],
  ["add an int to bools", b.add(1), [2, 1], "int32"],
  ["add a list", i.add([1, 1, 1, 1, 1]), [-6, 0, 1, 4, 9], "int32"],
  ["add a bigint", u8.add(1n), [1, 2, 201, 0], "uint8"],
  ["add a number beyond uint8, which wraps", u8.add(257), [1, 2, 201, 0], "uint8"],
  ["add a large bigint to floats", new Tensor([1.5]).add(2n ** 40n), [2 ** 40], "float32"],
  ["uint8 wraps", u8.sub(1), [255, 0, 199, 254], "uint8"],
  ["uint8 minus 300", u8.sub(300), [212, 213, 156, 211], "uint8"],
  ["sub reverse", i.sub(1, { reverse: true }), [8, 2, 1, -2, -7], "int32"],
  ["half stays half", new Tensor([1.5], { dtype: "float16" }).add(1), [2.5], "float16"],
  ["mul bools", b.mul(b), [true, false], "bool"],
  ["div ints", i.div(2), [-3.5, -0.5, 0, 1.5, 4], "float32"],
  ["div trunc", i.div(2, { roundingMode: "trunc" }), [-3, 0, 0, 1, 4], "int32"],
  ["div floor", i.div(2, { roundingMode: "floor" }), [-4, -1, 0, 1, 4], "int32"],
  ["div floor of floats", f.div(1, { roundingMode: "floor" }), [-2, -1, 0, 2], "float32"],
  ["div reverse", f.div(3, { reverse: true }), [-2, -6, 6, 1.2000000476837158], "float32"],
  ["floorDiv", i.floorDiv(-2), [3, 0, 0, -2, -4], "int32"],
  ["floorDiv of floats", f.floorDiv(1), [-2, -1, 0, 2], "float32"],
  ["mod", i.mod(3), [2, 2, 0, 0, 2], "int32"],
  ["mod negative", i.mod(-3), [-1, -1, 0, 0, -1], "int32"],
  ["mod of floats", f.mod(1), [0.5, 0.5, 0.5, 0.5], "float32"],
  ["fmod", i.fmod(3), [-1, -1, 0, 0, 2], "int32"],
  ["fmod of floats", f.fmod(1), [-0.5, -0.5, 0.5, 0.5], "float32"],
  ["fmod of large floats", new Tensor([1e6 + 0.25]).fmod(0.1), [Math.fround(1e6 + 0.25) % Math.fround(0.1)], "float32"],
  ["fmod by infinity", new Tensor([1.5, inf]).fmod(inf), [1.5, nan], "float32"],
  ["mod by zero", f.mod(0), [nan, nan, nan, nan], "float32"],
  ["pow 0", i.pow(0), [1, 1, 1, 1, 1], "int32"],
  ["pow 3", i.pow(3), [-343, -1, 0, 27, 512], "int32"],
  ["pow half", new Tensor([0.25, 4]).pow(0.5), [0.5, 2], "float32"],
  ["pow -2", new Tensor([0.5, -4]).pow(-2), [4, 0.0625], "float32"],
  ["pow of a negative base", new Tensor([-2]).pow(0.3), [nan], "float32"],
  [
    "pow of tensors",
    new Tensor([2, -2, 0, 0, -2]).pow(new Tensor([3.0, 3, 0, -1, 0.5])),
    [8, -8, 1, inf, nan],
    "float32",
  ],
  ["pow of int tensors", i.pow(new Tensor([2, -1, 0, 4, -1])), [49, -1, 1, 81, 0], "int32"],
  ["pow reverse", new Tensor([3, 0]).pow(2, { reverse: true }), [8, 1], "int32"],
  ["maximum with NaN", edges.maximum(0), [nan, inf, 0, 0, 0], "float32"],
  ["minimum with NaN", edges.minimum(1), [nan, 1, -inf, -0, 0], "float32"],
  ["minimum of uint8", u8.minimum(7), [0, 1, 7, 7], "uint8"],
  ["minimum of bools", b.minimum(false), [false, false], "bool"],
  ["clamp", i.clamp(-2, 4), [-2, -1, 0, 3, 4], "int32"],
  ["clamp crossed", i.clamp(4, 1), [1, 1, 1, 1, 1], "int32"],
  ["clip above", i.clip(undefined, 1), [-7, -1, 0, 1, 1], "int32"],
  ["clamp keeps NaN", edges.clamp(-1, 1), [nan, 1, -1, -0, 0], "float32"],
  ["lerp", f.lerp(new Tensor([0, 0, 0, 0.0]), 0.5), [-0.75, -0.25, 0.25, 1.25], "float32"],
  ["copysign", new Tensor([1, -2, 3, 0]).float().copysign([-0, 1, -5, -1]), [-1, 2, -3, -0], "float32"],
  ["logaddexp", new Tensor([1000.5, -inf, inf, 0.0]).logaddexp([1000.5, -inf, inf, -inf]), [
    Math.fround(1000.5 + Math.LN2),
    -inf,
    inf,
    0,
  ], "float32"],
  ["lt", i.lt(0), [true, true, false, false, false], "bool"],
  ["le NaN", edges.le(0), [false, false, true, true, true], "bool"],
  ["gt", i.gt(0.5), [false, false, false, true, true], "bool"],
  ["ge", i.ge(3), [false, false, false, true, true], "bool"],
  ["eq NaN", edges.eq(edges), [false, true, true, true, true], "bool"],
  ["ne NaN", edges.ne(edges), [true, false, false, false, false], "bool"],
  ["compare beyond the dtype", u8.lt(300), [true, true, true, true], "bool"],
  ["compare bools", b.lt(true), [false, true], "bool"],
  ["eq of bools", b.eq(true), [true, false], "bool"],
  ["isclose", new Tensor([1, 1.1, inf, nan]).isclose([1.000001, 1, inf, nan]), [true, false, true, false], "bool"],
  ["isclose NaN", new Tensor([nan]).isclose([nan], { equalNan: true }), [true], "bool"],
  ["bitwise", i.bitwiseAnd(6).bitwiseOr(1).bitwiseXor(3), [2, 4, 2, 0, 2], "int32"],
  ["bitwiseNot", u8.bitwiseNot(), [255, 254, 55, 0], "uint8"],
  ["bitwiseNot of bools", b.bitwiseNot(), [false, true], "bool"],
  ["logicalNot", i.logicalNot(), [false, false, true, false, false], "bool"],
  ["lshift", u8.lshift(1), [0, 2, 144, 254], "uint8"],
  ["rshift keeps the sign", i.rshift(1), [-4, -1, 0, 1, 4], "int32"],
  ["shift beyond the width", i.lshift(40), [0, 0, 0, 0, 0], "int32"],
  ["rshift beyond the width", i.rshift(new Tensor([40, 40, 1, 1, 40])), [-1, -1, 0, 1, 0], "int32"],
  ["where", b.where(1, 2.5), [1, 2.5], "float32"],
  ["where of ints", b.where(1, 2), [1, 2], "int32"],
  ["where tensor", i.gt(0).where(i, 0.5), [0.5, 0.5, 0.5, 3, 8], "float32"],
  ["static where", Tensor.where(b, b, 7), [1, 7], "int32"],
  ["maskedFill", i.maskedFill(i.lt(0), 9), [9, 9, 0, 3, 8], "int32"],
  ["neg", i.neg(), [7, 1, 0, -3, -8], "int32"],
  ["neg of bools", b.neg(), [false, true], "bool"],
  ["neg of uint8", u8.neg(), [0, 255, 56, 1], "uint8"],
  ["abs", i.abs(), [7, 1, 0, 3, 8], "int32"],
  ["abs of edges", edges.abs(), [nan, inf, inf, 0, 0], "float32"],
  ["sign", edges.sign().add(0), [nan, 1, -1, 0, 0], "float32"],
  ["sign of ints", i.sign(), [-1, -1, 0, 1, 1], "int32"],
  ["round half to even", new Tensor([0.5, 1.5, 2.5, -0.5, -1.5, 8388609, nan]).round(), [
    0,
    2,
    2,
    -0,
    -2,
    8388609,
    nan,
  ], "float32"],
  ["round of ints", i.round(), [-7, -1, 0, 3, 8], "float32"],
  ["floor", f.floor(), [-2, -1, 0, 2], "float32"],
  ["ceil", f.ceil(), [-1, -0, 1, 3], "float32"],
  ["trunc", f.trunc(), [-1, -0, 0, 2], "float32"],
  ["floor of ints", i.floor(), [-7, -1, 0, 3, 8], "int32"],
  ["isnan", edges.isnan(), [true, false, false, false, false], "bool"],
  ["isnan of ints", i.isnan(), [false, false, false, false, false], "bool"],
  ["isinf", edges.isinf(), [false, true, true, false, false], "bool"],
  ["isinf negative", edges.isinf({ detectPositive: false }), [false, false, true, false, false], "bool"],
  ["isfinite", edges.isfinite(), [false, false, false, true, true], "bool"],
  ["square", i.square(), [49, 1, 0, 9, 64], "int32"],
  ["rsqrt", new Tensor([4, 0]).rsqrt(), [0.5, inf], "float32"],
  ["cast wraps", new Tensor([-1, 256.7, -300.5]).cast("uint8"), [255, 0, 212], "uint8"],
  ["cast to uint32", new Tensor([3e9, -1]).cast("uint32"), [3e9, 4294967295], "uint32"],
  ["cast to bool", edges.bool(), [true, true, true, false, false], "bool"],
  ["cast of a constant", new Tensor(300).cast("uint8"), 44, "uint8"],
  ["bitcast", new Tensor([1, -2]).float().bitcast("int32"), [1065353216, -1073741824], "int32"],
  ["bitcast narrower", new Tensor([258]).bitcast("uint8"), [2, 1, 0, 0], "uint8"],
  ["relu", edges.relu(), [nan, inf, 0, 0, 0], "float32"],
  ["relu of bools", b.relu(), [1, 0], "int32"],
  ["relu6", new Tensor([-1, 3, 9]).relu6(), [0, 3, 6], "int32"],
  ["sigmoid far out", new Tensor([-200, 0, 200]).sigmoid(), [0, 0.5, 1], "float32"],
  ["hardsigmoid", new Tensor([-9, 0, 9]).hardsigmoid(), [0, 0.5, 1], "float32"],
  ["hardtanh", new Tensor([-9, 0.5, 9]).hardtanh({ maxVal: 2 }), [-1, 0.5, 2], "float32"],
  ["leakyRelu", new Tensor([-2, 2]).leakyRelu(0.5), [-1, 2], "float32"],
  ["elu far out", new Tensor([-200, 300]).elu(2), [-2, 300], "float32"],
  ["softsign", new Tensor([-1, 3]).softsign(), [-0.5, 0.75], "float32"],
  ["softplus far out", new Tensor([-200, 200]).softplus(), [Math.fround(Math.exp(-200)), 200], "float32"],
  ["dropout outside of training", f.dropout(0.9), [-1.5, -0.5, 0.5, 2.5], "float32"],
  ["constLike", i.constLike(3, { dtype: "uint8" }), [3, 3, 3, 3, 3], "uint8"],
  ["int64 beyond 2^53", new Tensor([2n ** 60n]).add(1n), [2n ** 60n + 1n], "int64"],
  ["uint64 wraps", new Tensor([0], { dtype: "uint64" }).sub(1), [2n ** 64n - 1n], "uint64"],
];
for (const [name, x, want, dtype] of values) {
  Deno.test(`elementwise: ${name}`, () => {
    assertEquals(valueOf(x), want as ReturnType<typeof valueOf>);
    assertEquals(x.dtype.name, dtype);
  });
}

const promotions: readonly [DType, DType, string][] = [
  [dtypes.bool, dtypes.uint8, "uint8"],
  [dtypes.int8, dtypes.uint8, "int16"],
  [dtypes.int32, dtypes.uint32, "int64"],
  [dtypes.int64, dtypes.uint64, "float32"],
  [dtypes.int64, dtypes.float16, "float16"],
  [dtypes.float16, dtypes.bfloat16, "float32"],
  [dtypes.float32, dtypes.float64, "float64"],
];
for (const [p, q, want] of promotions) {
  Deno.test(`elementwise: ${p} + ${q}`, () => {
    const x = Tensor.ones([1], { dtype: p }), y = Tensor.ones([1], { dtype: q });
    assertEquals([x.add(y).dtype.name, y.add(x).dtype.name], [want, want]);
  });
}

/** Distance in units in the last place of float32 (or float64) at `want`. */
function ulps(got: number, want: number, wide: boolean): number {
  if (Object.is(got, want) || got === want) return 0;
  const a = Math.abs(want);
  if (!Number.isFinite(a) || !Number.isFinite(got)) return Infinity;
  const exponent = Math.max(Math.floor(Math.log2(a || 1e-300)), wide ? -1022 : -126);
  return Math.abs(got - want) / 2 ** (exponent - (wide ? 52 : 23));
}

/** erf by its series (small) or continued fraction (large), in double. */
function erf(x: number): number {
  const a = Math.abs(x);
  if (a < 2.5) {
    let term = a, sum = a;
    for (let n = 1; n < 100; n++) sum += (term *= -a * a / n) / (2 * n + 1);
    return Math.sign(x) * sum * 2 / Math.sqrt(Math.PI);
  }
  let k = 0;
  for (let n = 100; n > 0; n--) k = n / 2 / (a + k);
  return Math.sign(x) * (1 - Math.exp(-a * a) / Math.sqrt(Math.PI) / (a + k));
}

/** log(x / (1 - x)); 2 x - 1 is exact around 1/2. */
const logit = (x: number) => Math.abs(x - 0.5) < 0.1 ? Math.log1p((2 * x - 1) / (1 - x)) : Math.log(x / (1 - x));

const grid = (low: number, high: number, n = 401) =>
  Array.from({ length: n }, (_, k) => low + (high - low) * k / (n - 1));
const near0 = [1e-30, -1e-10, 1e-4, -1e-3, 0];
const accuracy: readonly [string, (x: Tensor) => Tensor, (x: number) => number, number[], number][] = [
  ["log", (x) => x.log(), Math.log, [...grid(0.1, 4), 1e-30, 1e30], 3],
  ["log10", (x) => x.log10(), Math.log10, [...grid(2, 9), 1e-30, 1e30], 3],
  ["cos", (x) => x.cos(), Math.cos, [...grid(-20, 20), 1000, 4000.5], 4],
  ["cos of large arguments", (x) => x.cos().sub(0), Math.cos, [1e5, 1e6, 123456.789], 8],
  ["tan", (x) => x.tan(), Math.tan, [...grid(-5, 5), ...near0], 5],
  ["asin", (x) => x.asin(), Math.asin, [...grid(-1, 1), ...near0], 3],
  ["acos", (x) => x.acos(), Math.acos, grid(-1, 1), 3],
  ["atan", (x) => x.atan(), Math.atan, [...grid(-8, 8), ...near0, 1e20], 3],
  ["sinh", (x) => x.sinh(), Math.sinh, [...grid(-3, 3), ...near0], 4],
  ["cosh", (x) => x.cosh(), Math.cosh, [...grid(-3, 3), ...near0], 4],
  ["tanh", (x) => x.tanh(), Math.tanh, [...grid(-6, 6), ...near0, 100, -1e30], 3],
  ["asinh", (x) => x.asinh(), Math.asinh, [...grid(-9, 9), ...near0, 1e20], 4],
  ["acosh", (x) => x.acosh(), Math.acosh, [...grid(1, 9), 1e20], 4],
  ["atanh", (x) => x.atanh(), Math.atanh, [...grid(-0.99, 0.99), ...near0], 4],
  ["erf", (x) => x.erf(), erf, [...grid(-4.5, 4.5), ...near0, 20], 3],
  ["sigmoid", (x) => x.sigmoid(), (x) => 1 / (1 + Math.exp(-x)), grid(-4, 4), 4],
  ["expm1 by elu", (x) => x.elu(), (x) => x > 0 ? x : Math.expm1(x), [...grid(-4, 4), ...near0], 4],
  ["log1p by softplus", (x) => x.softplus(), (x) => Math.log1p(Math.exp(x)), grid(-4, 4), 5],
  ["logit", (x) => x.logit(), logit, [...grid(0.01, 0.99), ...near0.map((x) => x + 0.5), 0.42, 0.58, 1e-30], 5],
  ["gelu", (x) => x.gelu(), (x) => x * (1 + erf(x / Math.SQRT2)) / 2, grid(-1, 5), 5],
];
for (const [name, apply, truth, points, limit] of accuracy) {
  for (const dtype of [dtypes.float32, dtypes.float64]) {
    const wide = dtype === dtypes.float64;
    if (wide && (name === "erf" || name === "gelu")) continue; // the truth above is not that good
    Deno.test(`elementwise accuracy: ${name} ${dtype}`, () => {
      const xs = wide ? points : points.map(Math.fround);
      const got = evaluateTensor(apply(new Tensor(xs, { dtype }))).data;
      xs.forEach((x, k) => {
        const error = ulps(got[k], truth(x), wide);
        assert(error <= limit, `${name}(${x}) is ${got[k]}, want ${truth(x)}: ${error.toFixed(1)} ulp`);
      });
    });
  }
}

for (const dtype of ["float16", "bfloat16"]) {
  Deno.test(`elementwise accuracy: ${dtype} is rounded once`, () => {
    const xs = new Tensor(grid(-3, 3, 61), { dtype });
    const got = evaluateTensor(xs.exp()).data, x = evaluateTensor(xs).data;
    const want = evaluateTensor(new Tensor(x.map(Math.exp), { dtype })).data;
    assert(got.filter((v, k) => v !== want[k]).length <= 1);
  });
}

Deno.test("elementwise: gradients at the joints of functions are finite and right", () => {
  const slope = (apply: (x: Tensor) => Tensor, at: number[]) => {
    const x = new Tensor(at, { requiresGrad: true, dtype: "float32" });
    return evaluateTensor(apply(x).sum().gradient([x])[0]).data;
  };
  assertClose(slope((x) => x.relu(), [-1, 0, 1]), [0, 0, 1]);
  assertClose(slope((x) => x.abs(), [-1, 0, 1]), [-1, 0, 1]);
  assertClose(slope((x) => x.sigmoid(), [-200, 0, 200]), [0, 0.25, 0]);
  assertClose(slope((x) => x.elu(), [-1000, -1, 0, 1, 1000]), [0, Math.exp(-1), 1, 1, 1]);
  assertClose(slope((x) => x.tanh(), [-1000, 0, 0.3, 0.7, 1000]), [
    0,
    1,
    1 - Math.tanh(0.3) ** 2,
    1 - Math.tanh(0.7) ** 2,
    0,
  ]);
  assertClose(
    slope((x) => x.erf(), [-9, 0, 0.5, 1.5, 9]),
    [-9, 0, 0.5, 1.5, 9].map((v) => 2 / Math.sqrt(Math.PI) * Math.exp(-v * v)),
  );
  assertClose(slope((x) => x.asin(), [-0.8, 0, 0.3]), [-0.8, 0, 0.3].map((v) => 1 / Math.sqrt(1 - v * v)));
  assertClose(slope((x) => x.atan(), [-8, 0, 0.7]), [-8, 0, 0.7].map((v) => 1 / (1 + v * v)));
  assertClose(slope((x) => x.softplus(), [-500, 0, 500]), [0, 0.5, 1]);
  assertClose(slope((x) => x.pow(2), [0, 3]), [0, 6]);
  assertClose(slope((x) => x.pow(new Tensor([2.5, 2.5])), [0, 4]), [0, 2.5 * 8]);
  assertClose(slope((x) => x.clamp(-1, 1), [-2, -1, 0, 1, 2]), [0, 1, 1, 1, 0]);
  assertClose(slope((x) => x.cos(), [0, 2, 10000]), [0, -Math.sin(2), -Math.sin(10000)]);
});

type Thrown = new (...args: never[]) => Error;
const errors: readonly [string, () => unknown, Thrown, string][] = [
  [
    "shapes",
    () => new Tensor([1, 2]).add([1, 2, 3]),
    ShapeError,
    "Cannot add shapes [2] and [3]: axis 0 has sizes 2 and 3",
  ],
  ["operand", () => i.add("1" as never), ArgumentError, 'Cannot add: "1" is no tensor'],
  ["undefined operand", () => i.mul(undefined as never), ArgumentError, "Cannot multiply: undefined is no tensor"],
  [
    "a bigint beyond int32",
    () => i.add(2n ** 40n),
    DTypeError,
    "add 1099511627776 and a tensor of dtype int32: it does not fit; cast the tensor to int64",
  ],
  [
    "a bigint beyond uint8",
    () => u8.mul(256n),
    DTypeError,
    "multiply 256 and a tensor of dtype uint8: it does not fit; cast the tensor to int64",
  ],
  [
    "a bigint below uint8",
    () => u8.sub(-1n),
    DTypeError,
    "subtract -1 and a tensor of dtype uint8: it does not fit; cast the tensor to int64",
  ],
  [
    "a bigint beyond int64",
    () => i.cast("int64").maximum(2n ** 63n),
    DTypeError,
    "dtype int64: it does not fit; cast the tensor to uint64",
  ],
  [
    "a bigint beyond all",
    () => i.cast("int64").add(2n ** 64n),
    DTypeError,
    "dtype int64: no integer dtype holds it; use a number",
  ],
  ["a bigint to choose", () => b.where(2n ** 40n, i), DTypeError, "where 1099511627776 and a tensor of dtype int32"],
  [
    "a bigint to assign",
    () => i.clone().assign(2n ** 31n),
    DTypeError,
    "assign 2147483648 and a tensor of dtype int32",
  ],
  [
    "option",
    () => i.add(1, { reversed: true } as never),
    ArgumentError,
    'Cannot add: unknown option "reversed"; known are reverse',
  ],
  ["options", () => i.add(1, 2 as never), ArgumentError, "the options must be an object with reverse, not 2"],
  ["sub of bools", () => b.sub(b), DTypeError, "Cannot subtract dtypes bool and bool"],
  ["rounding mode", () => i.div(2, { roundingMode: "up" as "floor" }), ArgumentError, 'unknown roundingMode "up"'],
  ["negative power", () => i.pow(-1), ArgumentError, "Cannot raise a tensor of dtype int32 to -1"],
  ["clamp", () => i.clamp(), ArgumentError, "Cannot clamp: it needs min, max or both"],
  ["bits of floats", () => f.bitwiseAnd(1), DTypeError, "Cannot bitwiseAnd on dtypes float32"],
  ["not of floats", () => f.bitwiseNot(), DTypeError, "Cannot bitwiseNot on dtype float32"],
  ["shift of floats", () => f.lshift(1), DTypeError, "Cannot lshift on dtypes float32"],
  ["negative shift", () => i.rshift(-1), ArgumentError, "the amount must be at least 0, not -1"],
  ["dtype name", () => i.cast("float13" as string), DTypeError, 'Cannot use dtype "float13"'],
  [
    "bitcast",
    () => new Tensor([1, 2, 3]).cast("uint8").bitcast("int16"),
    ShapeError,
    "3 bytes of axis 0 are no multiple of 2",
  ],
  ["gelu", () => f.gelu({ approximate: "erf" as "tanh" }), ArgumentError, 'unknown approximation "erf"'],
  ["dropout", () => f.dropout(1.5), ArgumentError, "p must lie in [0, 1], not 1.5"],
  ["where", () => b.where(new Tensor([1, 2, 3]), 0), ShapeError, "Cannot where shapes [2], [3] and []"],
];
for (const [name, make, type, text] of errors) {
  Deno.test(`elementwise error: ${name}`, () => {
    assertThrows(make, type as new (...args: unknown[]) => Error, text);
  });
}

Deno.test("elementwise: one node for equal graphs, and no node for scalars to broadcast", () => {
  const x = new Tensor([1, 2]);
  assert(x.add(1).uop === x.add(1).uop);
  assert(x.add(1).uop.src[1].isConst(1));
});
