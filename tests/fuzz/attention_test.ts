/** A short run of the fuzzer of programs like attention (long ones are by hand: attention.ts). */
import { assertEquals } from "@std/assert";
import { Device } from "../../mod.ts";
import { optimized } from "../fixtures/optimized.ts";
import { Random } from "../support/random.ts";
import { checkAttention, drawAttention } from "./attention.ts";

Device.default = "SIM";

for (const seed of [3, 6, 7, 35]) {
  Deno.test(
    `attention: random programs on SIM, seed ${seed}`,
    optimized(async () => assertEquals(await checkAttention(drawAttention(new Random(seed)), "SIM"), undefined)),
  );
}
