/**
 * Golden cases from PyTorch: first through the reference evaluator, which needs no kernel, then on each device that can
 * open here. A case checks dtype, shape and values of its outputs, and gradients with respect to its inputs.
 */
import { type DType, toDType } from "../src/dtype/dtype.ts";
import { context, Device, DTypeError, type Tensor } from "../mod.ts";
import type { WebGpuDevice } from "../backends/webgpu/device.ts";
import { dawnComplaints, hasDawn } from "./fixtures/dawn.ts";
import { kernelsElsewhere } from "./fixtures/kernels_elsewhere.ts";
import { evaluate } from "./reference.ts";
import {
  batches,
  build,
  type Built,
  cases,
  devicesOpen,
  type GoldenCase,
  isBeyond,
  numberOf,
  readAll,
  type Stored,
} from "./golden.ts";
import { INT32_INDICES } from "./golden_cases.ts";
import { difference, toleranceOf } from "./tolerance.ts";

function check(
  c: GoldenCase,
  what: string,
  stored: Stored,
  got: { readonly dtype: DType; readonly shape: readonly number[]; readonly data: readonly (number | bigint)[] },
  gradient: boolean,
): void {
  const [name, shape, values] = stored;
  const want = toDType(name);
  const dtype = INT32_INDICES.has(c.name) && name === "int64" ? toDType("int32") : want;
  if (got.dtype !== dtype) throw new Error(`${what} is ${got.dtype}, want ${dtype}  (${c.program})`);
  if (got.shape.join() !== shape.join()) throw new Error(`${what} is [${got.shape}], want [${shape}]  (${c.program})`);
  const expected = values.map((v) => numberOf(v, want));
  const why = dtype.isInt && dtype.bits === 64
    ? expected.findIndex((v, i) => v !== got.data[i]) < 0 ? undefined : `[${got.data}], want [${expected}]`
    : difference(got.data.map(Number), expected.map(Number), toleranceOf(c.tol, dtype, gradient));
  if (why !== undefined) throw new Error(`${what}: ${why}  (${c.program})`);
}

function checkAll(c: GoldenCase, built: Built, read: (t: Tensor) => (number | bigint)[]): void {
  if (built.outputs.length !== c.outputs.length) throw new Error(`${built.outputs.length} outputs`);
  const value = (t: Tensor) => ({ dtype: t.dtype, shape: t.shape, data: read(t) });
  c.outputs.forEach((s, i) => check(c, `output ${i}`, s, value(built.outputs[i]), false));
  c.grads?.forEach((s, i) => {
    if (s !== null) check(c, `gradient ${i}`, s, value(built.grads[i]!), true);
  });
}

for (const c of cases) {
  Deno.test(`golden reference: ${c.name}`, async () => {
    checkAll(c, await build(c, "JS"), (t) => evaluate(t.uop).data);
  });
}

/** Devices that open here, or the one that DEV names; the others are named with the reason. */
const devices = await devicesOpen((name, error) => console.log(`golden: ${name} is left out: ${error.message}`));

/** Runs what a case needs on its device, where DEV names that, too. */
async function within<T>(device: string, fn: () => Promise<T>): Promise<T> {
  return await context({ DEV: device }, fn);
}

for (const device of devices) {
  const get = batches(device);
  cases.forEach((c, i) => {
    const run = async (): Promise<void> => {
      const b = await get(i), read = await readAll(b);
      checkAll(c, b, (t) => read.get(t)!);
    };
    Deno.test(`golden ${device}: ${c.name}`, async () => {
      const before = kernelsElsewhere(device);
      try {
        await within(device, run);
      } catch (error) {
        if (!isBeyond(c, device) || !(error instanceof DTypeError) || !error.dtypes.includes("float64")) throw error;
      }
      const others = kernelsElsewhere(device) - before;
      if (others > 0) throw new Error(`${others} kernels ran on other devices`);
    });
  });
}

if (devices.includes("WEBGPU")) {
  Deno.test({
    name: "golden WEBGPU: Dawn takes every kernel",
    ignore: !await hasDawn(),
    fn: async () => {
      const { compiler } = Device.get("WEBGPU") as unknown as WebGpuDevice;
      const complaints = await dawnComplaints(compiler.sources);
      if (complaints.length > 0) throw new Error(`${complaints.length} are rejected; the first:\n${complaints[0]}`);
      console.log(`Dawn compiled ${compiler.sources.length} kernels`);
    },
  });
}
