/** The table of ops: each has a number of its own, and names are found by it. */
import { assertEquals } from "@std/assert";
import { OP_COUNT, opName, Ops } from "../../../src/uop/core/ops.ts";

Deno.test("ops: numbers are 0, 1, 2, ..., each of one op", () => {
  const numbers = Object.values(Ops).sort((a, b) => a - b);
  assertEquals(numbers, Array.from({ length: OP_COUNT }, (_, i) => i));
  for (const [name, op] of Object.entries(Ops)) assertEquals(opName[op], name);
});
