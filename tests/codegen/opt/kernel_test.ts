/**
 * Opts that a kernel refuses, with the reason: what is possible is decided before anything is lowered.
 *
 * @module
 */
import { assertThrows } from "@std/assert";
import { ArgumentError } from "../../../src/helpers/errors.ts";
import { simCaps } from "../../fixtures/sim.ts";
import { CAPS, compile, opts } from "../harness.ts";
import { KERNELS } from "../kernels.ts";

const GPU = simCaps();

for (
  const [kernel, text, caps, reason] of [
    ["mean_max", "VECTOR:1:4 VECTOR:0:4", CAPS.small, "another axis that has lanes"],
    ["matmul_odd", "VECTOR:1:4 VECTOR:2:4", CAPS.small, "another axis that has lanes"],
    ["add_odd", "VECTOR:0:5", CAPS.large, "the lanes of a vector are a power of two"],
    ["symbolic", "PADTO:0:12", CAPS.small, "its 16 iterations are less than two blocks of 12"],
    ["softmax_like", "GROUP:0:4 GROUP:1:4 LOCAL:1:24", GPU, "24 threads go on after a reduction that 4 threads share"],
    // the reduction does not depend on the threads once its indices are simplified
    ["shared_range", "MERGE:0:1 GROUP:0:2 LOCAL:0:4", GPU, "4 threads go on after a reduction that 2 threads share"],
  ] as const
) {
  Deno.test(`kernel: ${kernel} refuses ${text}`, () => {
    assertThrows(() => compile(KERNELS[kernel], opts(text), caps), ArgumentError, reason);
  });
}
