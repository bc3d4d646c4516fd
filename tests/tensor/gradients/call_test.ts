/** Functions with gradients of their own, and the small openings of the graph. */
import { assertEquals, assertThrows } from "@std/assert";
import { ArgumentError, Device, DTypeError, ShapeError, Tensor } from "../../../mod.ts";
import { Ops } from "../../../src/uop/core/ops.ts";

Device.default = "JS";
const on = { device: "JS" };

Deno.test("call: the gradient given is used, and differentiated again", async () => {
  const x = new Tensor([1, 2], { requiresGrad: true, ...on }), y = new Tensor([3, 4], { requiresGrad: true, ...on });
  const product = x.call([y], (a, b) => a.mul(b), { gradFxn: (g, a, b) => [g.mul(b).mul(10), g.mul(a)] });
  const [gx, gy] = product.sum().gradient([x, y]);
  assertEquals(await gx.sum().gradient([y])[0].tolist(), [10, 10]);
  assertEquals(await gx.tolist(), [30, 40]);
  assertEquals(await gy.tolist(), [1, 2]);
  assertEquals(await product.tolist(), [3, 8]);
  const plain = x.call([y], (a, b) => a.mul(b));
  assertEquals(await plain.sum().gradient([x])[0].tolist(), [3, 4]);
});

Deno.test("call: an input without a gradient, a wrong shape, and what is no function", async () => {
  const x = new Tensor([1, 2], { requiresGrad: true, ...on });
  const stopped = x.mul(3).call([], (t) => t.square(), { gradFxn: () => [undefined] });
  assertEquals(await stopped.sum().gradient([x])[0].tolist(), [0, 0]);
  const bad = x.call([], (t) => t.square(), { gradFxn: (g) => [g.sum()] });
  assertThrows(() => bad.sum().gradient([x]), ShapeError, "it must have the shape of input 0");
  assertThrows(() => x.call([], (() => 3) as unknown as (t: Tensor) => Tensor), ArgumentError, "it must give a tensor");
  assertEquals(await stopped.tolist(), [9, 36]);
});

Deno.test("call: ops, sums and products of lists, constants and sizes", async () => {
  const x = new Tensor([1, 2, 3], on);
  assertEquals(await x.alu(Ops.ADD, 1).tolist(), [2, 3, 4]);
  assertThrows(() => x.alu(Ops.REDUCE), ArgumentError, "REDUCE is not elementwise");
  assertThrows(() => x.alu(Ops.SUB, 1), ArgumentError, "SUB is made by t.sub(x)");
  assertEquals(await x.alu(Ops.ADD, new Tensor([[1n], [2n]], on)).tolist(), [[2, 3, 4], [3, 4, 5]]);
  assertEquals(await x.alu(Ops.MUL, [0.5, 1, 2]).tolist(), [0.5, 2, 6]);
  assertEquals(await x.gt(1).alu(Ops.WHERE, x, 7).tolist(), [7, 2, 3]);
  assertEquals(await x.alu(Ops.CMPLT, 2.5).tolist(), [true, true, false]);
  assertThrows(() => x.float().alu(Ops.XOR, 1), DTypeError, "Cannot apply XOR to dtypes float32 and float32");
  assertThrows(() => x.alu(Ops.EXP2), DTypeError, "only floats");
  assertThrows(() => x.alu(Ops.WHERE, 1, 2), DTypeError, "a bool");
  assertEquals(await x.usum([1, x]).tolist(), [3, 5, 7]);
  assertEquals(await x.uprod([2, x]).tolist(), [2, 8, 18]);
  assertEquals([x.ufix(2).dtype.name, x.ufix(2.5).dtype.name], ["int32", "float32"]);
  assertEquals([x.length, x.maxShape, x.maxNumel], [3, [3], 3]);
  assertThrows(() => Tensor.const(1).length, ShapeError);
  assertEquals([Tensor.const(2.5).shape, Tensor.const(1, "int8").dtype.name], [[], "int8"]);
  assertEquals(Tensor.invalids([2, 3], on).shape, [2, 3]);
});

Deno.test("tensors have methods, not operators: numbers cannot be made of them", () => {
  const x = new Tensor([1, 2], on);
  assertThrows(() => Number(x), ArgumentError, "JavaScript cannot overload them");
  assertEquals(`${x}`.includes("[2]"), true);
});
