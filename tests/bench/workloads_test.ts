/** What the benches check: results that are wrong must be found, also where they are small. */
import { assertRejects } from "@std/assert";
import { operand, WORKLOADS } from "../../bench/workloads.ts";

Deno.test("workloads: attention that ignores its scores, or a part of them, is found", async () => {
  const { check, run } = WORKLOADS.attention_8x512x64("WASM");
  const [q, k, v] = [1, 2, 3].map((seed) => operand("WASM", seed, 1, 8, 512, 64).tensor);
  await check(run());
  await check(q.scaledDotProductAttention(k, v));
  await assertRejects(() => check(v.mean(-2, { keepdim: true }).expand([1, 8, 512, 64])), Error, "query 0, lane 0 is ");
  await assertRejects(() => check(q.mul(0.8).scaledDotProductAttention(k, v)), Error, "should be ");
  await assertRejects(() => check(run().mul(1.001)), Error, "should be ");
});

Deno.test("workloads: a row that is a thousandth off is found", async () => {
  const { check } = WORKLOADS.softmax_4096x1024("WASM"), x = operand("WASM", 1, 4096, 1024).tensor;
  await check(x.softmax(-1));
  await assertRejects(() => check(x.softmax(-1).mul(1.001)), Error, "of row 0 is ");
});
