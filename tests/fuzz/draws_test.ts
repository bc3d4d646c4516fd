/** Random programs that draw, under explain: draws are told as such. Long runs are by hand: draws.ts. */
import { assert, assertEquals } from "@std/assert";
import { Device, Tensor } from "../../mod.ts";
import { drawProgram, fuzzDraws, threefry2x32, wrongDraws } from "./draws.ts";

await Device.open("WASM");

Deno.test("draws: scripts of random programs tell each draw, and come to what was recorded", async () => {
  const report = await fuzzDraws({ seed: 20261127, count: 7, seconds: 300, device: "WASM" });
  assertEquals(report.failures, []);
  assertEquals(report.programs, 7);
});

Deno.test("draws: bits are threefry2x32 of key and counter, as Random123 has it", async () => {
  // its own vectors
  assertEquals(threefry2x32([0, 0], [0, 0]), [0x6b200159, 0x99ba4efe]);
  assertEquals(threefry2x32([0xffffffff, 0xffffffff], [0xffffffff, 0xffffffff]), [0x1cb996fc, 0xbb002be7]);
  assertEquals(threefry2x32([0x13198a2e, 0x03707344], [0x243f6a88, 0x85a308d3]), [0xc4923a9c, 0x483df7a0]);
  for (const [key, counter] of [[[1, 2], 5], [[0xdeadbeef, 7], 2 ** 32 - 2], [[0, 1], 2 ** 40]] as const) {
    const bits = await Tensor.randomBits(key, counter, 4).data();
    const want = Array.from({ length: 4 }, (_, i) => {
      const at = counter + i, [a, b] = threefry2x32(key, [Math.floor(at / 2 ** 32), at % 2 ** 32 >>> 0]);
      return (a ^ b) >>> 0;
    });
    assertEquals(Array.from(bits, Number), want);
  }
});

Deno.test("draws: programs vary, and one without draws is found", () => {
  const kinds = new Set(
    Array.from({ length: 40 }, (_, i) => drawProgram(1, i).lines.join().match(/Tensor\.(\w+)/g)?.join()),
  );
  assert(kinds.size > 30);
  const none = { seed: "1", counter: 0, lines: ["const outs = [Tensor.arange(3).mul(2)];"] };
  assert(/kernel: no draw is told/.test(wrongDraws(none, "WASM") ?? ""));
});
