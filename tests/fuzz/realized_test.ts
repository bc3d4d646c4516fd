/** Random programs that realize values before and between gradients of what was computed. Long runs are by hand: realized.ts. */
import { assertEquals } from "@std/assert";
import { Device } from "../../mod.ts";
import { wrongRealized } from "./realized.ts";

await Device.open("WASM");

Deno.test("realized: gradients are those of programs in which nothing is realized", async () => {
  for (let at = 0; at < 40; at++) assertEquals(await wrongRealized(20261128, at, "WASM"), undefined, `case ${at}`);
});
