/**
 * A short run of random exports; long ones are by hand: `deno run -A tests/export/random_exports.ts --count 500`.
 */
import { assert, assertEquals } from "@std/assert";
import { Device } from "../../mod.ts";
import { compilersHere } from "./build.ts";
import { FORMS, randomExports } from "./random_exports.ts";

Device.default = "WASM";

Deno.test("exports of random programs compute what the reference does", async () => {
  const compilers = compilersHere();
  const forms = FORMS.filter((f) => f === "wasm" || compilers.some((c) => c.isCpp === f.endsWith("C++")));
  const { compared, failures } = await randomExports({ seed: 1, count: 8, forms });
  assertEquals(failures, []);
  for (const form of forms) assert(compared[form] >= 4, `${form}: ${compared[form]}`);
});
