/** Text as C has it, and what Deno grants. */
import { assertEquals } from "@std/assert";
import { cString, isGranted, textOf, whyNoForeignCode } from "../../src/device/foreign.ts";

Deno.test("foreign: text to C and back", () => {
  for (const text of ["", "libcuda.so.1", "größer"]) assertEquals(textOf(cString(text)), text);
  assertEquals(textOf(new Uint8Array([97, 98])), "ab");
  assertEquals(textOf(new Uint8Array([97, 0, 98])), "a");
});

Deno.test("foreign: asked of Deno without a prompt", () => {
  assertEquals(isGranted({ name: "read" }), Deno.permissions.querySync({ name: "read" }).state === "granted");
  assertEquals(whyNoForeignCode(), undefined);
});
