/** Bad input across the library's surface: every class of error, with the action, and at the call, not at realize. */
import "./graph.ts";
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { Device, init } from "../../src/device/api.ts";
import * as errors from "../../src/helpers/errors.ts";
import { checkInteger, checkOptions } from "../../src/helpers/options.ts";
import { Tensor } from "../../src/tensor/tensor.ts";

const { ArgumentError, DeviceError, DTypeError, IndexError, ShapeError } = errors;

Deno.test("errors: options are checked by name", () => {
  checkOptions("act", undefined, []);
  checkOptions("act", { a: undefined }, ["a"]);
  assertThrows(
    () => checkOptions("act", { b: 1 }, ["a", "c"]),
    ArgumentError,
    'Cannot act: unknown option "b"; known are a, c',
  );
  assertThrows(() => checkOptions("act", { b: 1 }, []), ArgumentError, "known are none");
  assertThrows(() => checkOptions("act", [1], ["a"]), ArgumentError, "must be an object with a, not a list of 1");
  assertThrows(() => checkOptions("act", null, ["a"]), ArgumentError, "not null");
  assertEquals(checkInteger("act", "n", 3, 0), 3);
  assertThrows(
    () => checkInteger("act", "n", -1, 0),
    ArgumentError,
    "Cannot act: n must be an integer of at least 0, not -1",
  );
});

Deno.test("errors: a tensor is not cloned into a message without its memory", () => {
  const x = new Tensor([1, 2]);
  for (const held of [x, x.add(1), { weights: [x] }, x.dtype]) {
    assertThrows(() => structuredClone(held), DOMException, "send `await t.data()` and `t.shape` instead of a tensor");
  }
  assertEquals([Deno.inspect(x.dtype), JSON.stringify(structuredClone(x.shape))], ["int32", "[2]"]);
});

Deno.test("errors: what is no list of sizes and no number is told as such, whatever it is", () => {
  const x = Tensor.zeros([1, 2, 3]), bad = [Symbol("s")] as never;
  assertThrows(() => x.affineGrid(1 as never), ShapeError, "[N, C, h, w]");
  assertThrows(() => x.isclose(x, { rtol: bad }), ArgumentError, "rtol must be a number, not a list of 1");
});

Deno.test("errors: they extend the nearest builtin", () => {
  const x = Tensor.zeros([2, 3]);
  assertThrows(() => x.reshape([7]), RangeError);
  assertThrows(() => x.at(9), RangeError);
  assertThrows(() => x.cast("nothing" as string), TypeError);
  assertThrows(() => x.sum(0, { axis: 1 } as never), TypeError);
  for (
    const [make, name] of [
      [() => x.reshape([7]), "ShapeError"],
      [() => x.at(9), "IndexError"],
      [() => x.bitwiseNot(), "DTypeError"],
    ] as const
  ) {
    try {
      make();
    } catch (error) {
      assertEquals((error as Error).name, name);
      assert(!(error as Error).message.endsWith("."));
    }
  }
});

Deno.test("errors: devices", async () => {
  assertThrows(() => new Tensor([1], { device: "TPU:x" }), DeviceError, 'Cannot use device "TPU:x"');
  assertThrows(() => Device.get("TPU" as string), DeviceError, "known devices are");
  assertThrows(() => Device.default = "TPU", DeviceError, "TPU");
  await assertRejects(() => Device.open("TPU" as string), DeviceError, "TPU");
  await assertRejects(() => init({ devices: ["TPU"] }), DeviceError, "TPU");
  await assertRejects(() => init({ device: "JS" } as never), ArgumentError, 'unknown option "device"');
});

Deno.test("errors: the public face of devices", () => {
  assertEquals(Device.canonicalize("js:0"), "JS");
  assertEquals(Device.canonicalize("cuda:1"), "CUDA:1");
  assert(Device.list().some((d) => d.name === "JS" && d.available && d.reason === undefined));
  const before = Device.memory()["JS"]?.bytes ?? 0;
  const x = new Tensor(new Float32Array(1024), { device: "JS" });
  assertEquals(Device.memory()["JS"].bytes - before, 4096);
  assertEquals(x.device, "JS");
});

Deno.test("errors: operators in place keep dtype and shape", () => {
  const x = Tensor.zeros([2], { dtype: "int32" }), y = Tensor.zeros([2], { dtype: "float16" });
  assertThrows(() => x.addInPlace(0.5), DTypeError, "Cannot assign dtype float32");
  assertThrows(() => x.mulInPlace(new Tensor([[1, 2], [3, 4]])), ShapeError, "Cannot assign");
  assertEquals(y.addInPlace(new Tensor([1.5, 2.5])).dtype.name, "float16");
});

Deno.test("errors: thrown at the call, before anything is computed", () => {
  const x = Tensor.empty([2, 3]);
  for (
    const [make, type] of [
      [() => x.matmul(Tensor.empty([2, 3])), ShapeError],
      [() => x.add(Tensor.empty([4])), ShapeError],
      [() => x.permute([0]), ShapeError],
      [() => x.at("...", "..."), IndexError],
      [() => x.gather(0, Tensor.empty([1, 1])), IndexError],
      [() => x.softmax(2), ShapeError],
      [() => x.lshift(1), DTypeError],
      [() => x.conv2d(Tensor.empty([1, 1, 1, 1])), ShapeError],
    ] as const
  ) assertThrows(make, type);
});

Deno.test("errors: the value of addcmul and addcdiv is a number", () => {
  const x = new Tensor([1, 2], { dtype: "float32" });
  for (const value of [x, [1], "2", true] as unknown as number[]) {
    assertThrows(() => x.addcmul(x, x, { value }), ArgumentError, "value must be");
    assertThrows(() => x.addcdiv(x, x, { value }), ArgumentError, "value must be");
  }
});
