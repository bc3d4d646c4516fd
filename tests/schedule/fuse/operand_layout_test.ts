import { assert, assertClose, assertEquals } from "@std/assert";
import { Device, dtypes, schedule, Tensor } from "../../../mod.ts";
import { toProgram } from "../../../src/codegen/to_program.ts";
import { sharedBytesOf } from "../../../src/renderer/lanes.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { optimized } from "../../fixtures/optimized.ts";
import { registerSim } from "../../fixtures/sim.ts";

registerSim();

/** A convolution of random images with `channels` channels, and the kernels that it takes. */
async function convolve(device: string, dtype: "float16" | "float32", channels: number): Promise<[number[], number]> {
  const value = (i: number): number => (i * 37 % 17 - 8) / 4;
  const make = (shape: number[]): Tensor => {
    const n = shape.reduce((a, b) => a * b, 1);
    return new Tensor(Float32Array.from({ length: n }, (_, i) => value(i)), { device }).reshape(shape).cast(dtype)
      .realize();
  };
  const x = make([1, channels, 6, 6]), w = make([64, channels, 3, 3]);
  const y = x.conv2d(w, undefined, { padding: 1 }).cast(dtypes.float32);
  const kernels = schedule([y]).filter((s) => s.runner.kind === "CompiledKernel").length;
  return [Array.from(await y.realize().data() as Float32Array), kernels];
}

Deno.test("layout: images are copied once to have their channels next to each other, for matrix units", async () => {
  Device.get("SIM");
  const [want] = await convolve("JS", "float16", 16), [got, kernels] = await convolve("SIM", "float16", 16);
  assertEquals(kernels, 2);
  assertClose(got, want, 1e-2);
});

Deno.test("layout: nothing is copied without a matrix unit, or where channels are too few for wide accesses", async () => {
  assertEquals((await convolve("SIM", "float32", 16))[1], 1);
  assertEquals((await convolve("SIM", "float16", 6))[1], 1);
  assertEquals((await convolve("JS", "float16", 16))[1], 1);
});

Deno.test(
  "layout: tiles of a large convolution fit the device's memory",
  optimized(() => {
    const { renderer } = Device.get("SIM"), on = { dtype: dtypes.float16, device: "SIM" };
    for (const [n, channels, side, k] of [[64, 256, 56, 3], [64, 128, 56, 3], [16, 64, 28, 5], [8, 256, 14, 3]]) {
      const x = Tensor.empty([n, channels, side, side], on), w = Tensor.empty([channels, channels, k, k], on);
      const asts = schedule([x.conv2d(w, undefined, { padding: k >> 1 })]).flatMap((i) => i.ast ?? []);
      const products = asts.map((ast) => toProgram(ast, renderer)).filter((p) => p.uops.some((u) => u.op === Ops.WMMA));
      assertEquals(products.length, 1);
      const bytes = sharedBytesOf(products[0]);
      assert(bytes > 0 && bytes <= renderer.caps.grid!.sharedBytes, `${products[0].name}: ${bytes} bytes`);
    }
  }),
);
