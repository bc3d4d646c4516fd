/** A short run of the fuzzer of programs like attention (long ones are by hand: attention.ts). */
import { assertEquals } from "@std/assert";
import { Device } from "../../mod.ts";
import { optimized } from "../fixtures/optimized.ts";
import { Random } from "../support/random.ts";
import { checkAttention, drawAttention } from "./attention.ts";

Device.default = "SIM";

for (const seed of [3, 6, 7, 35, 1039]) {
  Deno.test(
    `attention: random programs on SIM, seed ${seed}`,
    optimized(async () => assertEquals(await checkAttention(drawAttention(new Random(seed)), "SIM"), undefined)),
  );
}

Deno.test(
  "attention: what is computed in 16 bits between two products is rounded after each operation",
  optimized(async () => {
    const sizes = { heads: 1, shared: 1, rows: 32, keys: 32, width: 16, columns: 16, isInside: false } as const;
    const form = { product: "matmul", scores: ["cap", "scale"], weights: "square", result: "gradients" } as const;
    assertEquals(await checkAttention({ dtype: "float16", ...sizes, ...form }, "SIM"), undefined);
  }),
);
