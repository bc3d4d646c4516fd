/** Comparing tensors in tests of models. @module */
import assert from "node:assert/strict";
import type { Tensor } from "../../mod.ts";

/** Fails where two tensors differ in shape or dtype, or by more than 1e-5 of the largest value. */
export async function assertClose(got: Tensor, want: Tensor): Promise<void> {
  assert.deepEqual([got.shape, got.dtype.name], [want.shape, want.dtype.name]);
  const a = Array.from(await got.data() as ArrayLike<number>, Number),
    b = Array.from(await want.data() as ArrayLike<number>, Number);
  const largest = b.reduce((m, v) => Math.max(m, Math.abs(v)), 1);
  a.forEach((v, i) => assert.ok(Math.abs(v - b[i]) <= 1e-5 * largest, `element ${i} is ${v}, want ${b[i]}`));
}
