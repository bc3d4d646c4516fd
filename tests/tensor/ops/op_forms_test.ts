/** Forms of ops that PyTorch and einops have, with their values, and arguments that say nothing sensible. */
import { assertEquals, assertThrows } from "@std/assert";
import { ArgumentError, DTypeError, Tensor } from "../../../mod.ts";

new Tensor([1]).realize(); // opens the device
const row = () => new Tensor([0, 1, 2, 3, 4], { dtype: "float32" });

Deno.test("forms: pad adds what was there before the other side is cut", async () => {
  assertEquals(await row().pad([3, -3], { mode: "reflect" }).tolist(), [3, 2, 1, 0, 1]);
  assertEquals(await row().pad([-3, 2], { mode: "replicate" }).tolist(), [3, 4, 4, 4]);
  assertEquals(await row().pad([2, -4]).tolist(), [0, 0, 0]);
});

Deno.test("forms: a convolution with negative padding cuts", async () => {
  const x = row().reshape([1, 1, 5]), w = Tensor.ones([1, 1, 2]);
  assertEquals(await x.conv2d(w, undefined, { padding: -1 }).tolist(), [[[3, 5]]]);
  assertThrows(() => x.conv2d(w, undefined, { padding: -3 }), RangeError, "Cannot convolve");
});

Deno.test("forms: normalize by a negative p", async () => {
  const x = new Tensor([[1, 2]], { dtype: "float32" });
  assertEquals(await x.normalize({ p: -1 }).tolist(), [[1.5, 3]]);
  assertEquals(await x.normalize({ p: -Infinity }).tolist(), [[1, 2]]);
});

Deno.test("forms: uint8 interpolates and rounds", async () => {
  const x = new Tensor(new Uint8Array([0, 255]));
  assertEquals(await x.interpolate([3], { alignCorners: true }).tolist(), [0, 128, 255]);
  assertThrows(() => x.int().interpolate([3]), DTypeError);
});

Deno.test("forms: (...) joins axes on the right", () => {
  assertEquals(Tensor.zeros([2, 3]).rearrange("... -> (...)").shape, [6]);
  assertEquals(Tensor.zeros([2, 3, 4]).rearrange("a ... -> (...) a").shape, [12, 2]);
  assertThrows(() => Tensor.zeros([2, 3]).rearrange("(...) -> ..."), ArgumentError, "on the left");
});

Deno.test("forms: the dtype of linear is that of the result", () => {
  const x = Tensor.ones([2, 3]), half = { dtype: "float16" };
  assertEquals(x.linear(Tensor.ones([3, 2]), Tensor.ones([2]), half).dtype.name, "float16");
  assertEquals(x.linear(Tensor.ones([3]), Tensor.ones([3]), half).dtype.name, "float16");
});

Deno.test("forms: what says nothing is an error", () => {
  const x = row(), loose = (f: unknown) => f as never;
  assertThrows(() => Tensor.normal([2], { std: -1 }), ArgumentError, "std must be at least 0");
  assertThrows(() => Tensor.linspace(0, 1, 2, { dtype: "bool" }), DTypeError, "bool");
  assertThrows(() => x.to(loose(null)), ArgumentError, "not null");
  assertThrows(() => x.gt(0).where(loose(undefined), 1), ArgumentError, "Cannot where: undefined");
});

Deno.test("forms: uint32 sorts by value, not by sign", async () => {
  for (const n of [4, 40]) {
    const values = Array.from({ length: n }, (_, i) => (i * 2654435761) % 2 ** 32),
      x = new Tensor(new Uint32Array(values));
    const sorted = values.toSorted((a, b) => a - b);
    assertEquals(await x.sort()[0].tolist(), sorted);
    assertEquals(await x.sort(0, { descending: true })[0].tolist(), sorted.toReversed());
    assertEquals(await x.topk(2)[0].tolist(), sorted.toReversed().slice(0, 2));
    assertEquals(await x.unique().then((u) => u.tolist()), sorted);
    assertEquals(await x.argsort().tolist(), sorted.map((v) => values.indexOf(v)));
  }
});

Deno.test("forms: a diagonal is a view, with offsets and among other axes", async () => {
  const x = Tensor.zeros([2, 3, 4]).contiguous().realize();
  x.diagonal({ offset: 1, dim1: 1, dim2: 2 }).assign(1);
  const rows = [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]];
  assertEquals(await x.tolist(), [rows, rows]);
  const m = new Tensor([[1, 2, 3], [4, 5, 6]], { dtype: "float32", requiresGrad: true });
  for (const [offset, want] of [[0, [1, 5]], [1, [2, 6]], [2, [3]], [3, []], [-1, [4]], [-2, []]] as const) {
    assertEquals(await m.diagonal({ offset }).tolist(), [...want]);
  }
  m.diagonal({ offset: 1 }).mul(new Tensor([2, 3])).sum().backward();
  assertEquals(await m.grad!.tolist(), [[0, 2, 0], [0, 0, 3]]);
});

Deno.test("forms: NaN is true, bigints that do not fit are refused, a null gradient is none", async () => {
  assertEquals(await new Tensor([NaN, 0], { dtype: "bool" }).tolist(), [true, false]);
  assertEquals(await Tensor.full([1], NaN, { dtype: "bool" }).tolist(), [true]);
  assertThrows(
    () => Tensor.full([1], 300n, { dtype: "uint8" }),
    DTypeError,
    "Cannot fill a tensor with 300 in dtype uint8",
  );
  assertThrows(() => Tensor.full([1], 2n ** 63n), DTypeError);
  const w = new Tensor([1.5], { requiresGrad: true });
  (w as unknown as { grad: null }).grad = null;
  w.square().sum().backward();
  assertEquals(await w.grad!.tolist(), [3]);
});

Deno.test("forms: sizes are one array, and JSON is made of values", () => {
  const x = Tensor.zeros([2, 3]);
  for (const method of ["reshape", "view", "flip", "repeat", "expand"] as const) {
    const call = x[method] as unknown as (...sizes: number[]) => Tensor;
    const error = assertThrows(() => call.call(x, 1, 0), ArgumentError);
    assertEquals(error.message, `Cannot ${method}: it takes one array, not 2 arguments: ${method}([1, 0])`);
  }
  assertThrows(() => JSON.stringify({ x }), ArgumentError, "JSON.stringify(await t.tolist())");
});
