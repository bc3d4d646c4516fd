/** Kernels as PTX compute what they compute without opts: those of tests/codegen and random ones, under random opts. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { findPtx } from "../../fuzz/ptx.ts";
import { interpret } from "./interpret.ts";

Deno.test("ptx: random kernels under random opts compute the same, within their memory", () => {
  const { ran, failures } = findPtx({ seed: 20261123, first: 0, count: 60 });
  assertEquals(failures, []);
  assert(ran >= 30, `${ran} ran`);
});

const HEAD = ".visible .entry k(\n  .param .u64 k_b0\n)\n.maxntid 32, 1, 1\n{\n";
function run(body: string, memory = new Uint8Array(16)): Int32Array {
  interpret(`${HEAD}${body}\n  ret;\n}\n`, { args: [memory], groups: [1, 1, 1], threads: [32, 1, 1], shared: 128 });
  return new Int32Array(memory.buffer);
}
const BASE = "  ld.param.u64 %rd0, [k_b0];\n  mov.u32 %r0, %tid.x;\n";

Deno.test("ptx: what the interpreter finds", () => {
  const sum = [1, 2, 4, 8, 16].map((mask, i) =>
    `  shfl.sync.bfly.b32 %r${i + 10}, %r${i === 0 ? 0 : i + 20}, ${mask}, 31, -1;\n` +
    `  add.s32 %r${i + 21}, %r${i === 0 ? 0 : i + 20}, %r${i + 10};`
  ).join("\n");
  assertEquals(run(`${BASE}${sum}\n  st.global.s32 [%rd0+4], %r25;`)[1], 496);
  assertThrows(() => run(`${BASE}  st.global.s32 [%rd0+16], %r0;`), Error, "4 bytes at 16 of global memory of 16");
  assertThrows(() => run(`${BASE}  st.global.s32 [%rd0+2], %r0;`), Error, "are not aligned");
  assertThrows(() => run("  mov.u32 %r1, shared;\n  st.shared.f32 [%r1+128], 0f00000000;"), Error, "of shared memory");
  const some = "  setp.lt.s32 %p0, %r0, 16;\n  @%p0 bra $L0;\n";
  assertThrows(() => run(`${BASE}${some}  bar.sync 0;\n$L0:`), Error, "while others wait at a barrier");
  assertThrows(() => run(`${BASE}  add.s32 %r1, %r0, %r9;`), Error, "%r9 is read before it is written");
});
