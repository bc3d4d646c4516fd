/**
 * Lists of JavaScript beside tensors: TypedArrays as operands, values, indices and rows of nested lists; tensors as lists
 * of their rows; numbers where a tensor is differentiated by.
 */
import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import {
  ArgumentError,
  Device,
  DeviceError,
  DTypeError,
  grad,
  IndexError,
  jvp,
  ShapeError,
  Tensor,
  Variable,
} from "../../mod.ts";

Device.default = "WASM";
const floats = () => new Tensor([1.5, 2.5]), f32 = (...values: number[]) => new Float32Array(values);
const zeros = () => Tensor.zeros([3]).realize();
// deno-fmt-ignore
const values: [name: string, make: () => Tensor, want: unknown, dtype?: string][] = [
  ["add", () => floats().add(f32(1, 2)), [2.5, 4.5]],
  ["an integer array beside floats", () => floats().add(new Int32Array([1, 2])), [2.5, 4.5], "float32"],
  ["a wider float", () => floats().add(new Float64Array([1, 2])), [2.5, 4.5], "float64"],
  ["small integers", () => new Tensor([1, 2]).add(new Uint8Array([1, 255])), [2, 257], "int32"],
  ["tensors and numbers", () => new Tensor([floats().sum(), 1, new Tensor(2)]), [4, 1, 2], "float32"],
  ["tensors in lists of lists", () => new Tensor([[floats(), floats().neg()]]), [[[1.5, 2.5], [-1.5, -2.5]]]],
  ["tensors of float16 and a number", () => new Tensor([floats().sum().half(), 0.5]), [4, 0.5], "float16"],
  ["tensors of integers and a fraction", () => new Tensor([new Tensor(1), 0.5]), [1, 0.5], "float32"],
  ["tensors, in a dtype", () => new Tensor([floats().sum(), 1], { dtype: "int8" }), [4, 1], "int8"],
  ["tensors in an operand", () => floats().add(loose([new Tensor(1), 2])), [2.5, 4.5], "float32"],
  ["tensors under a mask of bits", () => new Tensor([7, 6]).bitwiseAnd(loose([new Tensor(3), 5])), [3, 4], "int32"],
  ["variables", () => new Tensor([new Variable("v", 0, 9).bind(4), 1]), [4, 1], "int32"],
  ["clamped bytes", () => new Tensor([1, 2]).add(new Uint8ClampedArray([1, 255])), [2, 257], "int32"],
  ["64-bit integers", () => new Tensor([1, 2]).mul(new BigInt64Array([2n ** 40n, 1n])), [2 ** 40, 2], "int64"],
  ["matmul", () => floats().matmul(f32(1, 2)), 6.5],
  ["linear", () => floats().linear([f32(1, 2), f32(3, 4)], f32(1, 1)), [10, 14]],
  ["where", () => floats().gt(2).where(f32(7, 8), f32(1, 2)), [1, 8]],
  ["clamp", () => floats().clamp(f32(2, 2), f32(3, 2.25)), [2, 2.25]],
  ["eq", () => floats().eq(f32(1.5, 2)), [true, false], "bool"],
  ["scatter", () => zeros().scatter(0, new Tensor([0, 2]), f32(5, 6)), [5, 0, 6]],
  ["assign", () => zeros().assign(new Int8Array([7, 8, -9])), [7, 8, -9], "float32"],
  ["setAt", () => zeros().setAt([[1, 3]], new Uint8Array([7, 8])), [0, 7, 8], "float32"],
  ["addInPlace", () => zeros().addInPlace(f32(1, 2, 3)), [1, 2, 3]],
  ["an index", () => new Tensor([10, 20, 30]).at(new Int32Array([2, 0])), [30, 10]],
  ["an index to write at", () => zeros().setAt([new Uint8Array([2, 0])], 5), [5, 0, 5]],
  ["rows", () => new Tensor([f32(0, 0.5), f32(1, 2)]), [[0, 0.5], [1, 2]], "float32"],
  ["rows of whole numbers", () => new Tensor([f32(1, 2)]), [[1, 2]], "float32"],
  ["rows of two dtypes", () => new Tensor([new Int8Array([1, 2]), new Float32Array([3, 4])]), [[1, 2], [3, 4]], "float32"],
  ["rows beside lists", () => new Tensor([new Uint8Array([1, 2]), [300, 4]]), [[1, 2], [300, 4]], "int32"],
  ["empty rows", () => new Tensor([f32()]), [[]], "float32"],
  ["rows in a dtype", () => new Tensor([f32(1, 2)], { dtype: "int32" }), [[1, 2]], "int32"],
  ["a gradient", () => grad((x: Tensor) => x.pow(3))(2 as never) as Tensor, 12, "float32"],
  ["a gradient of a gradient", () => grad((x: Tensor) => grad((y: Tensor) => y.pow(3))(x))(2 as never) as Tensor, 12],
  ["jvp", () => jvp((x: Tensor) => x.mul(x), [3 as never], [1 as never])[1], 6, "float32"],
  ["cumprod of a list", () => new Tensor([1, 2, 3]).cumprod(), [1, 2, 6]],
  ["cat of lists", () => Tensor.cat([[1, 2], [3]]), [1, 2, 3], "int32"],
  ["cat of a list and floats", () => Tensor.cat([[1, 2], floats()]), [1, 2, 1.5, 2.5], "float32"],
  ["cat of a wider array", () => floats().cat([new Float64Array([1])]), [1.5, 2.5, 1], "float64"],
  ["stack of lists", () => Tensor.stack([[1, 2], [3, 4]], 1), [[1, 3], [2, 4]], "int32"],
  ["stack of numbers and a sum", () => Tensor.stack([1, floats().sum(), 2]), [1, 4, 2], "float32"],
  ["stack of a whole number and a fraction", () => new Tensor(1).stack([0.5]), [1, 0.5], "float32"],
  ["where, the condition a list", () => Tensor.where([true, false], f32(7, 8), 0), [7, 0], "float32"],
  ["einsum", () => Tensor.einsum("i,ij->j", [floats(), [[1, 2], [3, 4]]]), [9, 13], "float32"],
  ["hstack", () => Tensor.hstack([[1], floats()]), [1, 1.5, 2.5]],
  ["vstack", () => Tensor.vstack([floats(), [1, 2]]), [[1.5, 2.5], [1, 2]]],
  ["dstack", () => Tensor.dstack([[1, 2], [3, 4]]), [[[1, 3], [2, 4]]]],
  ["columnStack", () => Tensor.columnStack([[1, 2], floats()]), [[1, 1.5], [2, 2.5]]],
  ["blockDiag", () => Tensor.blockDiag([[1], new Tensor([[2, 3]])]), [[1, 0, 0], [0, 2, 3]]],
  ["cartesianProd", () => Tensor.cartesianProd([[1, 2], [3]]), [[1, 3], [2, 3]]],
  ["multiDot", () => Tensor.multiDot([floats(), [[1, 2], [3, 4]], [1, 0]]), 9],
  ["meshgrid", () => Tensor.meshgrid([[1, 2], [3, 4, 5]], { indexing: "xy" })[0], [[1, 2], [1, 2], [1, 2]]],
  ["destructuring", () => {
    const [a, b] = new Tensor([[1, 2], [3, 4]]);
    return a.sub(b);
  }, [-2, -2]],
  ["rows joined again", () => Tensor.stack([...new Tensor([[1, 2], [3, 4]])].reverse()), [[3, 4], [1, 2]]],
];
for (const [name, make, want, dtype] of values) {
  Deno.test(`lists: ${name}`, async () => {
    const made = make();
    assertEquals(await made.tolist(), want as number[]);
    if (dtype !== undefined) assertEquals(made.dtype.name, dtype);
  });
}

Deno.test("lists: a tensor is the list of its rows, which are views of it", async () => {
  const t = new Tensor([[1, 2], [3, 4]]).realize(), seen: unknown[] = [];
  for (const row of t) seen.push(await row.tolist());
  assertEquals(seen, [[1, 2], [3, 4]]);
  assertEquals(Array.from(Tensor.zeros([0, 3])), []);
  for (const row of t) row.assign(row.mul(2));
  assertEquals(await t.tolist(), [[2, 4], [6, 8]]);
});

const loose = (x: unknown) => x as never;
for (
  const [name, act, type, text] of [
    ["a scalar has no rows", () => [...new Tensor(3)], ShapeError, "shape []"],
    [
      "an axis that changes",
      () => [...Tensor.zeros([9]).at([0, new Variable("rows", 1, 9).bind(2)])],
      ArgumentError,
      "axis 0 has the size rows",
    ],
    ["two lengths", () => new Tensor([f32(1, 2), f32(1)]), ShapeError, "data[1] has 1 entries"],
    ["rows beside values", () => new Tensor([f32(1, 2), 3]), ShapeError, "data[1] is a value"],
    ["tensors of two shapes", () => new Tensor([floats(), new Tensor(1)]), ShapeError, "must all have one shape"],
    ["a number beside rows", () => new Tensor([floats(), 1]), ShapeError, "must all have one shape"],
    ["tensors, ragged", () => new Tensor([[new Tensor(1)], []]), ShapeError, "the list is ragged"],
    ["raw memory", () => floats().add(loose(new ArrayBuffer(8))), ArgumentError, "an ArrayBuffer"],
    ["floats as an index", () => floats().at(f32(0)), IndexError, "float32"],
    ["sizes as arguments", () => Tensor.ones(loose(2), loose(3)), ArgumentError, "sizes are one array, as in [2, 3]"],
    ["axes as arguments", () => Tensor.ones([2, 3]).permute(1 as never, 0 as never), ArgumentError, "permute([1, 0])"],
    ["options as axis", () => floats().sum(loose({ keepdim: true })), ArgumentError, "sum(undefined, { ... })"],
    ["features", () => Tensor.ones([5, 3]).linear(Tensor.ones([4, 2])), ShapeError, "has 3 features, and the weight"],
    ["labels", () => Tensor.ones([2, 3]).crossEntropy(new Tensor([0, 3])), IndexError, "label 3 is none of 3 classes"],
    ["labels below 0", () => Tensor.ones([1, 3]).nllLoss(new Tensor([-100])), IndexError, "{ ignoreIndex: -100 }"],
    [
      "labels beside ignoreIndex",
      () => Tensor.ones([2, 3]).nllLoss(new Tensor([-1, 7]), undefined, { ignoreIndex: -1 }),
      IndexError,
      "label 7 is none of 3 classes; ignoreIndex is -1",
    ],
    ["several axes", () => Tensor.ones([2, 3]).cumprod(), ArgumentError, "t.cumprod(0)"],
    ["grad of a list", () => grad((x: Tensor) => x)(loose([1, 2])), ArgumentError, "argument 0 is a list of 2"],
    ["grad of numbers in a tree", () => grad((x: Tensor) => x)(loose({ a: 1 })), ArgumentError, "no tensor"],
    ["grad of nothing", () => grad((x: Tensor) => x)(loose(undefined)), ArgumentError, "argument 0 is undefined"],
    ["jvp of a list", () => jvp((x: Tensor) => x, loose([[3]]), loose([[1]])), ArgumentError, "argument 0"],
  ] as const
) {
  Deno.test(`lists: ${name}`, () => {
    assertThrows(act, type, text);
  });
}

Deno.test("lists: tensors in a list give gradients, and memory of its own where it is written", async () => {
  const x = new Tensor([3, 4], { requiresGrad: true });
  new Tensor([x.sum(), x.prod(), 1]).mul([1, 2, 3]).sum().backward();
  assertEquals(await x.grad!.tolist(), [9, 7]);
  const t = new Tensor([1, 2]).realize(), listed = new Tensor([t]);
  listed.setAt([0, 0], 9);
  assertEquals([await t.tolist(), await listed.tolist()], [[1, 2], [[9, 2]]]);
  assertThrows(() => new Tensor([t, new Tensor([1, 2], { device: "JS" }).realize()]), DeviceError);
});

Deno.test("lists: a tensor that is spread into numbers is an error that names item()", async () => {
  await assertRejects(async () => await Promise.resolve(Float32Array.from(loose(floats()))), ArgumentError, "item()");
});

Deno.test("lists: labels are left out as the error says, by each loss of labels", async () => {
  const x = Tensor.ones([2, 3]), labels = () => new Tensor([1, -100]), option = { ignoreIndex: -100 };
  const crossEntropy = (o?: typeof option) => x.crossEntropy(labels(), o);
  const nllLoss = (o?: typeof option) => x.logSoftmax().nllLoss(labels(), undefined, o);
  for (const loss of [crossEntropy, nllLoss]) {
    assertThrows(() => loss(), IndexError, "{ ignoreIndex: -100 }");
    assertEquals(Math.fround(await loss(option).item()), Math.fround(Math.log(3)));
  }
});

/** Whole numbers without a dtype, where floats are expected, are such. */
// deno-fmt-ignore
const weak: [name: string, make: (whole: (...x: number[]) => Tensor) => Tensor, want: unknown][] = [
  ["scatter", (w) => zeros().scatter(0, w(0, 2), w(5, 6)), [5, 0, 6]],
  ["scatterReduce", (w) => zeros().scatterReduce(0, w(0, 0), w(5, 6), "sum"), [11, 0, 0]],
  ["indexCopy", (w) => zeros().indexCopy(0, w(2), w(7)), [0, 0, 7]],
  ["indexAdd", (w) => zeros().indexAdd(0, w(1, 1), w(1, 2), { alpha: 0.5 }), [0, 1.5, 0]],
  ["put", (w) => zeros().put(w(2, 0), w(7, 8)), [8, 0, 7]],
  ["maskedScatter", (w) => zeros().maskedScatter(new Tensor([true, false, true]), w(7, 8)), [7, 0, 8]],
  ["quantile", (w) => floats().quantile(w(0, 1)), [1.5, 2.5]],
  ["bernoulli", (w) => w(0, 1).bernoulli(), [0, 1]],
  ["nextafter", (w) => w(1, 2).nextafter(w(1, 2)), [1, 2]],
  ["attention", (w) => w(1, 2).reshape([2, 1]).scaledDotProductAttention(zeros().reshape([3, 1]), w(3, 6, 9).reshape([3, 1])).flatten(), [6, 6]],
];
for (const [name, make, want] of weak) {
  Deno.test(`lists: whole numbers as floats: ${name}`, async () => {
    const made = make((...x) => new Tensor(x));
    assertEquals([made.dtype.name, await made.tolist()], ["float32", want]);
    const integers = (...x: number[]) => new Tensor(x, { dtype: "int32" });
    assertThrows(() => make(integers), DTypeError, "Cannot");
  });
}

Deno.test("lists: a source of integers is taken as the error says", async () => {
  const to = zeros(), at = new Tensor([0, 2]), from = new Tensor([5, 6], { dtype: "int32" });
  assertThrows(() => to.scatter(0, at, from), DTypeError, 'give its cast("float32")');
  assertEquals(await to.scatter(0, at, from.cast("float32")).tolist(), [5, 0, 6]);
});
