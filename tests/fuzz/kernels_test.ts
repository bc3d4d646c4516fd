/**
 * Random kernels of every family can be made for every machine (kernels.ts, which runs more of them).
 *
 * @module
 */
import assert from "node:assert/strict";
import { findingOf } from "./kernels.ts";

for (const [writer, count] of [["CUDA", 25], ["WEBGPU", 8], ["CLANG", 6], ["WASM", 6]] as const) {
  Deno.test(`kernels: random ones of every family for ${writer}`, () => {
    let kernels = 0;
    for (let i = 0; i < count; i++) {
      const made = findingOf(writer, 77_000 + i);
      assert.equal(made.error, undefined, made.text);
      kernels += made.kernels;
    }
    assert.ok(kernels >= count, `${kernels} kernels were made`);
  });
}
