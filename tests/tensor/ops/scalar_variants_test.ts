/**
 * Scalars that change: from the second value on they are arguments of the kernel, in every float dtype, those included
 * that a device only stores. Each value gives what it gives alone, and -0 is not 0.
 */
import { assertEquals } from "@std/assert";
import { context, jit, Tensor } from "../../../mod.ts";
import { devicesHere } from "../../fixtures/devices.ts";

const DTYPES = ["float16", "bfloat16", "fp8e4m3", "fp8e5m2", "float32"];
const VALUES = [0.5, 0.25, 3, 0.75, 1.5];

const OPS: Readonly<Record<string, (x: Tensor, c: number) => Tensor>> = {
  add: (x, c) => x.add(c),
  mul: (x, c) => x.mul(c),
  div: (x, c) => x.div(c),
  maximum: (x, c) => x.maximum(c),
  lt: (x, c) => x.lt(c),
  where: (x, c) => x.gt(2).where(x, c),
  maskedFill: (x, c) => x.maskedFill(x.gt(2), c),
  clamp: (x, c) => x.clamp(0, c),
  "mul and sum": (x, c) => x.mul(c).sum(),
  full: (x, c) => Tensor.full([3], c, { dtype: x.dtype, device: x.device }).contiguous(),
  "full, cast": (x, c) => Tensor.full([4], c / 3, { device: x.device }).cast(x.dtype).add(x),
  setAt: (x, c) => x.clone().setAt([1], c),
};

for (const device of await devicesHere()) {
  for (const dtype of DTYPES) {
    if (device === "WEBGPU" && dtype.startsWith("fp8")) continue; // the same emulation, and slow to compile there
    Deno.test(`scalar variants ${device}: ${dtype}`, async () => {
      const x = new Tensor([1, 2, 3, 4], { device }).cast(dtype).realize();
      const step = jit((t: Tensor, c: number) => t.mul(c).add(c));
      for (const [name, f] of Object.entries({ ...OPS, jit: (t: Tensor, c: number) => step(t, c) })) {
        for (const c of VALUES) {
          const alone = await context({ SCACHE: 0 }, () => (OPS[name]?.(x, c) ?? x.mul(c).add(c)).realize()).tolist();
          assertEquals(await f(x, c).tolist(), alone, `${name} of ${c}`);
        }
      }
    });
  }
}
