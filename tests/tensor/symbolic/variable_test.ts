/** Variables as operands and indices: right values, one compilation for all of them, errors that name bounds and value. */
import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { ArgumentError, context, Tensor, Variable } from "../../../mod.ts";
import { devicesHere } from "../../fixtures/devices.ts";
import { compileStats } from "../../../src/engine/compile_cache.ts";

for (const device of await devicesHere()) {
  Deno.test(`variable ${device}: an operand and an index, compiled once`, async () => {
    const v = new Variable("v", 0, 9);
    const x = new Tensor([10, 20, 30, 40], { device }).realize();
    let lowered = 0;
    for (let i = 0; i < 4; i++) {
      assertEquals(await x.mul(v.bind(i)).add(1).tolist(), [10 * i + 1, 20 * i + 1, 30 * i + 1, 40 * i + 1]);
      assertEquals(await x.float().mul(v.bind(i)).tolist(), [10 * i, 20 * i, 30 * i, 40 * i]);
      assertEquals(await x.at(v.bind(i)).item(), 10 * (i + 1));
      if (i === 0) lowered = compileStats.lowered;
    }
    assertEquals(compileStats.lowered, lowered);
  });
}

Deno.test("variable: bounds that are equal leave a constant, legal at each stage", async () => {
  const v = new Variable("four", 4, 4).bind(4);
  await context({ SPEC: 1 }, async () => {
    assertEquals(await Tensor.arange(8).contiguous().at(v).item(), 4);
    assertEquals(await Tensor.arange(8).contiguous().at([null, v]).sum().item(), 6);
  });
});

Deno.test("variable: errors name the bounds and the value", () => {
  const v = new Variable("n", 1, 4);
  const error = assertThrows(() => v.bind(5), ArgumentError);
  for (const text of ["bind n to 5", "from 1 to 4"]) assertStringIncludes(error.message, text);
  assertThrows(() => v.bind(1.5), ArgumentError, "bind n to 1.5");
  assertThrows(() => new Variable("n", 4, 1), ArgumentError, "[4, 1]");
  assertThrows(() => new Variable("2n", 0, 1), ArgumentError, "letters");
});

Deno.test("variable: sizes and indices beyond int32 are exact, values of tensors wrap", async () => {
  const n = new Variable("n", 1, 100_000), m = new Variable("m", 1, 100_000);
  const far = () => n.bind(65536).mul(m.bind(65536)); // 2^32
  for (const device of ["JS", "WASM"]) {
    const x = Tensor.arange(10, 20).to(device).contiguous().realize();
    assertEquals(await far().to(device).item(), 0);
    assertEquals(await far().long().item(), 0); // it has wrapped by then
    assertEquals(await x.at(far().add(3)).item(), 0); // outside, as any index that is
    assertEquals(await x.at(far().sub(m.bind(65536).mul(65536)).add(3)).item(), 13);
    assertEquals(await x.at([0, far().add(3)]).sum().item(), 145);
    assertEquals(await x.at([0, n.bind(2).mul(m.bind(2))]).sum().item(), 46);
    assertEquals(await x.roll(far().add(1), 0).tolist(), [13, 14, 15, 16, 17, 18, 19, 10, 11, 12]);
    assertEquals(await Tensor.ones([2, 2], { device }).tril(far()).sum().item(), 4);
    assertEquals(await Tensor.ones([2, 2], { device }).tril(far().neg()).sum().item(), 0);
  }
  assertEquals(Tensor.ones([n.bind(3).mul(m.bind(2))]).boundShape, [6]);
  assertEquals(Tensor.arange(far().add(4)).boundShape, [2 ** 32 + 4]);
  assertThrows(() => new Variable("wide", 0, 2 ** 40), ArgumentError, "two int32");
});
