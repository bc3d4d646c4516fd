/** Making tensors: dtypes by value, shapes, bytes, printing, and what is refused. */
import { valueOf } from "../graph.ts";
import { assert, assertEquals, assertThrows } from "@std/assert";
import { dtypes } from "../../../src/dtype/dtype.ts";
import { context } from "../../../src/helpers/env.ts";
import { ArgumentError, DTypeError, ShapeError } from "../../../src/helpers/errors.ts";
import { nestedOf, packHost, typedArrayOf } from "../../../src/tensor/nodes/host.ts";
import { Tensor } from "../../../src/tensor/tensor.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { toposort } from "../../../src/uop/core/uop.ts";

const cases: readonly [string, Tensor, unknown, string][] = [
  ["int", new Tensor(3), 3, "int32"],
  ["float", new Tensor(1.5), 1.5, "float32"],
  ["large numbers are floats", new Tensor(2 ** 31), 2 ** 31, "float32"],
  ["-0 is a float", new Tensor(-0), -0, "float32"],
  ["bool", new Tensor(true), true, "bool"],
  ["bigint", new Tensor(2n ** 62n), 2n ** 62n, "int64"],
  ["nothing", new Tensor(), [], "float32"],
  ["empty list", new Tensor([]), [], "float32"],
  ["empty rows", new Tensor([[], []]), [[], []], "float32"],
  ["ints", new Tensor([[1, 2], [3, 4]]), [[1, 2], [3, 4]], "int32"],
  ["any float makes floats", new Tensor([[1, 2], [3, 0.5]]), [[1, 2], [3, 0.5]], "float32"],
  ["NaN is a float", new Tensor([1, NaN]), [1, NaN], "float32"],
  ["bools", new Tensor([true, false]), [true, false], "bool"],
  ["bools and ints", new Tensor([true, 2]), [1, 2], "int32"],
  ["bigints and ints", new Tensor([1n, 2]), [1, 2], "int64"],
  ["dtype", new Tensor([1, 2], { dtype: "float16" }), [1, 2], "float16"],
  ["dtype of a number", new Tensor(-1, { dtype: "uint8" }), 255, "uint8"],
  ["dtype rounds", new Tensor([0.1], { dtype: "bfloat16" }), [0.10009765625], "bfloat16"],
  ["constant rounds", new Tensor(0.1, { dtype: "float16" }), 0.0999755859375, "float16"],
  ["dtype object", new Tensor([1], { dtype: dtypes.double }), [1], "float64"],
  ["dtype wraps", new Tensor([300, -1.5], { dtype: "uint8" }), [44, 255], "uint8"],
  ["dtype bool", new Tensor([0, 0.5], { dtype: "bool" }), [false, true], "bool"],
  ["uint64", new Tensor([-1], { dtype: "uint64" }), [2n ** 64n - 1n], "uint64"],
  ["requiresGrad makes floats", new Tensor([1, 2], { requiresGrad: true }), [1, 2], "float32"],
  ["Float32Array", new Tensor(new Float32Array([1, 2])), [1, 2], "float32"],
  ["Float64Array", new Tensor(new Float64Array([0.1])), [0.1], "float64"],
  ["Float16Array", new Tensor(new Float16Array([0.5])), [0.5], "float16"],
  ["Uint8Array", new Tensor(new Uint8Array([1, 255])), [1, 255], "uint8"],
  ["Uint8ClampedArray", new Tensor(new Uint8ClampedArray([7])), [7], "uint8"],
  ["BigInt64Array", new Tensor(new BigInt64Array([-1n])), [-1], "int64"],
  ["Uint16Array", new Tensor(new Uint16Array([65535])), [65535], "uint16"],
  ["ArrayBuffer", new Tensor(new Uint8Array([1, 2]).buffer), [1, 2], "uint8"],
  ["TypedArray to a dtype", new Tensor(new Uint8Array([1, 255]), { dtype: "int8" }), [1, -1], "int8"],
  ["full", Tensor.full([2], 3), [3, 3], "int32"],
  ["full float", Tensor.full([1, 2], 0.5), [[0.5, 0.5]], "float32"],
  ["full bool", Tensor.full([1], true), [true], "bool"],
  ["zeros", Tensor.zeros([2]), [0, 0], "float32"],
  ["ones dtype", Tensor.ones([2], { dtype: "int8" }), [1, 1], "int8"],
  ["zeros of no axes", Tensor.zeros([]), 0, "float32"],
  ["arange", Tensor.arange(3), [0, 1, 2], "int32"],
  ["arange start stop", Tensor.arange(2, 5), [2, 3, 4], "int32"],
  ["arange step", Tensor.arange(5, 0, -2), [5, 3, 1], "int32"],
  ["arange floats", Tensor.arange(0, 1, 0.25), [0, 0.25, 0.5, 0.75], "float32"],
  ["arange dtype", Tensor.arange(3, undefined, undefined, { dtype: "float64" }), [0, 1, 2], "float64"],
  ["arange stop, options", Tensor.arange(3, { dtype: "float64" }), [0, 1, 2], "float64"],
  ["arange start stop, options", Tensor.arange(1, 3, { dtype: "int8" }), [1, 2], "int8"],
  ["arange start stop step, options", Tensor.arange(1, 6, 2, { dtype: "int64" }), [1, 3, 5], "int64"],
  ["eye, options", Tensor.eye(2, { dtype: "int32" }), [[1, 0], [0, 1]], "int32"],
  ["eye of two sizes, options", Tensor.eye(1, 2, { dtype: "int32" }), [[1, 0]], "int32"],
  ["arange wrong way", Tensor.arange(3, 0), [], "int32"],
  ["arange int64", Tensor.arange(2 ** 33, 2 ** 33 + 2), [2 ** 33, 2 ** 33 + 1], "int64"],
  ["linspace", Tensor.linspace(0, 1, 5), [0, 0.25, 0.5, 0.75, 1], "float32"],
  ["linspace ends", Tensor.linspace(0.1, 0.7, 2), [Math.fround(0.1), Math.fround(0.7)], "float32"],
  ["linspace one", Tensor.linspace(2, 3, 1), [2], "float32"],
  ["linspace ints", Tensor.linspace(0, 9, 4, { dtype: "int32" }), [0, 3, 6, 9], "int32"],
  ["eye", Tensor.eye(2, 3), [[1, 0, 0], [0, 1, 0]], "float32"],
  ["eye square", Tensor.eye(2, undefined, { dtype: "bool" }), [[true, false], [false, true]], "bool"],
  ["zerosLike", new Tensor([[1, 2]]).zerosLike(), [[0, 0]], "int32"],
  ["onesLike dtype", new Tensor([1, 2]).onesLike({ dtype: "float16" }), [1, 1], "float16"],
  ["fullLike", new Tensor([1, 2]).fullLike(7), [7, 7], "int32"],
  ["of a node", new Tensor(new Tensor([1, 2]).uop, { dtype: "float32" }), [1, 2], "float32"],
  ["sequential", new Tensor([1, 2]).sequential([(x) => x.add(1), (x) => x.mul(2)]), [4, 6], "int32"],
];
for (const [name, x, want, dtype] of cases) {
  Deno.test(`creation: ${name}`, () => {
    assertEquals(valueOf(x), want as ReturnType<typeof valueOf>);
    assertEquals(x.dtype.name, dtype);
  });
}

Deno.test("creation: TypedArrays are copied", () => {
  const data = new Float32Array([1, 2]), x = new Tensor(data);
  data[0] = 9;
  assertEquals(valueOf(x), [1, 2]);
});

Deno.test("creation: constants need no memory", () => {
  for (const x of [Tensor.zeros([1000, 1000]), Tensor.full([9], 2), Tensor.arange(1e6), Tensor.eye(1000)]) {
    assert(!toposort(x.uop).some((u) => u.op === Ops.BUFFER));
  }
  assert(Tensor.zeros([4]).uop === Tensor.zeros([4]).uop);
});

Deno.test("creation: leaves that require gradients share no node", () => {
  const a = Tensor.zeros([2], { requiresGrad: true }), b = Tensor.zeros([2], { requiresGrad: true });
  assert(a.uop !== b.uop);
  assertEquals(a.requiresGrad, true);
});

Deno.test("creation: properties", () => {
  const x = Tensor.zeros([2, 3], { dtype: "float16" });
  assertEquals([x.shape, x.ndim, x.numel(), x.nbytes(), x.elementSize(), x.isFloatingPoint()], [
    [2, 3],
    2,
    6,
    12,
    2,
    true,
  ]);
  assertEquals([x.grad, x.requiresGrad], [undefined, undefined]);
  assertEquals(Tensor.empty([3]).emptyLike({ dtype: "int8" }).dtype, dtypes.int8);
});

Deno.test("creation: training mode", async () => {
  assertEquals([Tensor.training, Tensor.train(() => Tensor.training), Tensor.training], [false, true, false]);
  assertEquals(await Tensor.train(async () => (await Promise.resolve(), Tensor.training)), true);
  Tensor.training = true;
  assertEquals(Tensor.training, true);
  Tensor.training = false;
});

Deno.test("host: bytes and arrays of each dtype", () => {
  const rows: [string, (number | bigint | boolean)[], string, unknown[]][] = [
    ["bool", [true, 0, 3], "Uint8Array", [1, 0, 1]],
    ["int8", [-1, 128], "Int8Array", [-1, -128]],
    ["uint32", [-1, 2n ** 40n + 1n], "Uint32Array", [4294967295, 1]],
    ["int64", [1.9, 2n ** 63n], "BigInt64Array", [1n, -(2n ** 63n)]],
    ["uint64", [NaN, -1n], "BigUint64Array", [0n, 2n ** 64n - 1n]],
    ["float16", [1 / 3, 70000], "Float16Array", [0.333251953125, Infinity]],
    ["bfloat16", [1 / 3, -Infinity], "Float32Array", [0.333984375, -Infinity]],
    ["float64", [0.1, 2n], "Float64Array", [0.1, 2]],
  ];
  for (const [name, given, type, want] of rows) {
    const dtype = dtypes[name as "bool"], array = typedArrayOf(packHost(given, dtype), dtype);
    assertEquals([array.constructor.name, ...array], [type, ...want]);
    const shifted = new Uint8Array([0, ...packHost(given, dtype)]).subarray(1);
    assertEquals([...typedArrayOf(shifted, dtype)], want);
  }
  const edges = new BigInt64Array([2n ** 53n, -(2n ** 53n), -(2n ** 53n) - 1n]);
  assertEquals(nestedOf(edges, [3], dtypes.int64), [2 ** 53, -(2 ** 53), -(2n ** 53n) - 1n]);
  const big = new BigInt64Array([2n ** 53n + 1n, 5n]);
  assertEquals(nestedOf(big, [2, 1], dtypes.int64), [[2n ** 53n + 1n], [5]]);
  assertEquals(nestedOf(new Uint8Array([1, 0]), [2], dtypes.bool), [true, false]);
  assertEquals(nestedOf(new Float32Array([7]), [], dtypes.float32), 7);
});

Deno.test("printing: shape, dtype, device, and values that are on the host", () =>
  context({ DEV: "JS" }, () => {
    assertEquals(String(new Tensor([[1, 2], [3, 4]])), "Tensor [2, 2] int32 JS\n[[1, 2],\n [3, 4]]");
    assertEquals(String(new Tensor([0.1, -0])), "Tensor [2] float32 JS\n[0.1, -0]");
    assertEquals(`${new Tensor(3)}`, "Tensor [] int32 constant\n3");
    assertEquals(String(new Tensor([1]).add(1)), "Tensor [1] int32 JS (lazy)");
    assertEquals(String(new Tensor([1], { requiresGrad: true })), "Tensor [1] float32 JS requiresGrad\n[1]");
    assertEquals(Deno.inspect(new Tensor([true])), "Tensor [1] bool JS\n[true]");
    assert(String(new Tensor(new Float32Array(5000))).includes("[0, 0, 0, ..., 0, 0, 0]"));
    assertThrows(() => +(new Tensor([1]) as unknown as number), ArgumentError, "Cannot use an operator on a tensor");
  }));

type Thrown = new (...args: never[]) => Error;
const errors: readonly [string, () => unknown, Thrown, string][] = [
  [
    "ragged",
    () => new Tensor([[1, 2], [3]]),
    ShapeError,
    "Cannot create a tensor: the list is ragged: data[1] has 1 entries, its first neighbor has 2",
  ],
  ["ragged depth", () => new Tensor([[1], 2]), ShapeError, "the list is ragged: data[1] is a value"],
  ["ragged value first", () => new Tensor([1, [2]]), ShapeError, "the list is ragged: data[1] is a list of 1"],
  ["entry", () => new Tensor([1, "2"] as never), ArgumentError, 'data[1] is "2", not a number'],
  ["null entry", () => new Tensor([null] as never), ArgumentError, "data[0] is null"],
  ["text", () => new Tensor("1" as never), ArgumentError, "a string is no data"],
  ["object", () => new Tensor({} as never), ArgumentError, "this object is no data"],
  [
    "option",
    () => new Tensor([1], { dType: "int8" } as never),
    ArgumentError,
    'Cannot create a tensor: unknown option "dType"; known are dtype, device, requiresGrad',
  ],
  ["dtype", () => new Tensor([1], { dtype: "f32" }), DTypeError, 'Cannot use dtype "f32": known are bool, int8'],
  [
    "gradient of ints",
    () => new Tensor([1], { dtype: "int32", requiresGrad: true }),
    DTypeError,
    "only floating-point tensors have gradients",
  ],
  [
    "gradient of whole numbers",
    () => (new Tensor([1]).requiresGrad = true),
    DTypeError,
    '; make it with { dtype: "float32" }',
  ],
  [
    "gradient of what was made of whole numbers",
    () => new Tensor([1, 2]).sum().backward(),
    DTypeError,
    '; make the lists that it is computed from tensors with { dtype: "float32" }',
  ],
  ["shape", () => Tensor.zeros([2, -1]), ShapeError, "Cannot make zeros shape [2, -1]: size -1 of axis 1 is no size"],
  ["shape kind", () => Tensor.ones("2" as never), ArgumentError, 'a shape must be a list of sizes, not "2"'],
  [
    "full value",
    () => Tensor.full([2], "3" as never),
    ArgumentError,
    'the value must be a scalar or a bound variable, not "3"',
  ],
  ["arange step", () => Tensor.arange(0, 3, 0), ArgumentError, "the step must not be 0"],
  [
    "arange after options",
    () => Tensor.arange(3, {} as never, 2),
    ArgumentError,
    "nothing follows its options, not 2",
  ],
  ["arange NaN", () => Tensor.arange(NaN), ArgumentError, "must be finite numbers, not NaN"],
  ["arange dtype", () => Tensor.arange(0, 300, 1, { dtype: "int8" }), DTypeError, "it cannot hold 0 to 299"],
  ["linspace", () => Tensor.linspace(0, 1, -1), ArgumentError, "steps must be an integer of at least 0"],
  ["eye", () => Tensor.eye(-1), ShapeError, "-1 is no size"],
  ["cat", () => Tensor.cat([]), ArgumentError, "it takes a list of at least one tensor"],
  ["hstack", () => Tensor.hstack([undefined as unknown as Tensor]), ArgumentError, "tensor, not [undefined]"],
  ["columnStack", () => Tensor.columnStack([null as unknown as Tensor]), ArgumentError, "tensor, not [null]"],
];
for (const [name, make, type, text] of errors) {
  Deno.test(`creation error: ${name}`, () => {
    assertThrows(make, type as new (...args: unknown[]) => Error, text);
  });
}

Deno.test("default dtypes: DEFAULT_INT and DEFAULT_FLOAT are those of values without one", () => {
  const names = () => [
    new Tensor([1, 2]).dtype.name,
    Tensor.arange(3).dtype.name,
    Tensor.full([2], 7).dtype.name,
    new Tensor([true]).add(1).dtype.name,
    new Tensor([1.5]).dtype.name,
    Tensor.zeros([2]).dtype.name,
    new Tensor([1], { dtype: "uint8" }).mul(2.5).dtype.name,
  ];
  assertEquals(names(), ["int32", "int32", "int32", "int32", "float32", "float32", "float32"]);
  const other = context({ DEFAULT_INT: "int64", DEFAULT_FLOAT: "float64" }, names);
  assertEquals(other, ["int64", "int64", "int64", "int64", "float64", "float64", "float64"]);
  context(
    { DEFAULT_INT: "float32" },
    () => assertThrows(() => new Tensor([1]), DTypeError, "DEFAULT_INT takes an integer dtype"),
  );
});
