/** Operands that are copied before matrix units multiply them. */
import { assert, assertClose, assertEquals } from "@std/assert";
import { Device, dtypes, schedule, Tensor } from "../../../mod.ts";
import { toProgram } from "../../../src/codegen/to_program.ts";
import { cudaCaps } from "../../../src/renderer/cuda_caps.ts";
import { sharedBytesOf } from "../../../src/renderer/lanes.ts";
import { layOut } from "../../../src/schedule/fuse/operand_layout.ts";
import { internals } from "../../../src/tensor/handle/base.ts";
import { Ops } from "../../../src/uop/core/ops.ts";
import { shapeOf } from "../../../src/uop/core/shape.ts";
import { toposort } from "../../../src/uop/core/uop.ts";
import { rebuildAll } from "../../../src/uop/rewrite/walk.ts";
import { optimized } from "../../fixtures/optimized.ts";
import { registerSim } from "../../fixtures/sim.ts";
import { openObserving } from "../../support/snapshot_writers.ts";

registerSim();
Device.default = "WASM";

/** Kernels of the product of an m x k and a k x n matrix on a Hopper card, operands as they are (n) or transposed (t): their opts. */
function productOn(writer: string, [m, k, n]: readonly number[], forms: string, dtype = dtypes.bfloat16): string[] {
  const device = openObserving(writer), on = { dtype, device: device.name };
  const a = Tensor.empty(forms[0] === "t" ? [k, m] : [m, k], on).realize();
  const b = Tensor.empty(forms[1] === "t" ? [n, k] : [k, n], on).realize();
  (forms[0] === "t" ? a.T : a).matmul(forms[1] === "t" ? b.T : b).realize();
  return device.kernels.map((k) => k.program.opts ?? "");
}

Deno.test(
  "layout: operands whose rows do not begin with lines are copied for a copy engine, where a product is long",
  optimized(() => {
    const rows: [shape: number[], forms: string, kernels: number][] = [
      [[1024, 1023, 1024], "nn", 2],
      [[1024, 1023, 1024], "nt", 3],
      [[1024, 1023, 1024], "tn", 1], // rows of both are as long as a multiple of lines
      [[1023, 1023, 1023], "tt", 3],
      [[2048, 1000, 2048], "nn", 2], // 16 bytes, though no line
      [[1024, 1000, 1024], "nn", 1], // each element is used too rarely for that
      [[2048, 328, 2048], "nn", 1], // rows would be a sixth longer
    ];
    for (const [shape, forms, kernels] of rows) {
      const opts = productOn("PTX", shape, forms), boxes = opts[opts.length - 1].match(/:boxes/g)?.length ?? 0;
      assertEquals(
        [opts.length, boxes > 0],
        [kernels, kernels > 1 || boxes > 0],
        `${shape} ${forms}: ${opts.join(", ")}`,
      );
      if (kernels > 1) assertEquals(boxes, 2, `${shape} ${forms}: ${opts.join(", ")}`);
    }
    assertEquals(productOn("PTX", [255, 255, 255], "nn").length, 1, "a copy would take longer than the product");
    assertEquals(productOn("PTX", [1024, 1023, 1024], "nt", dtypes.float32).length, 1, "no unit multiplies float32");
  }),
);

Deno.test("layout: a product of copied rows is the product", async () => {
  const caps = cudaCaps({ arch: "sm_90a", hasTensorMaps: true });
  const make = (shape: number[], by: number): Tensor =>
    Tensor.arange(shape[0] * shape[1]).mul(by).mod(7).sub(3).cast("bfloat16").reshape(shape)
      .realize();
  for (const transposed of [false, true]) {
    const a = make([1024, 511], 5), b = transposed ? make([515, 511], 3).T : make([511, 515], 3), c = a.matmul(b);
    const laid = internals.wrap(c, rebuildAll(toposort(c.uop), (u, src) => layOut(u.withSrc(src), () => caps)).at(-1)!);
    const copies = toposort(laid.uop).filter((u) => u.op === Ops.CONTIGUOUS).map((u) => shapeOf(u)[1]);
    assertEquals(copies, transposed ? [512, 512] : [512, 576]);
    assertEquals(await laid.sub(c).abs().max().item(), 0);
  }
});

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
  Device.get("SIM" as string);
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
    const { renderer } = Device.get("SIM" as string), on = { dtype: dtypes.float16, device: "SIM" };
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
