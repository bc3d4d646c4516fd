/**
 * Golden cases from PyTorch: first through the reference evaluator, which needs no kernel, then on each device that can
 * open here. A case checks dtype, shape and values of its outputs, and gradients with respect to its inputs.
 */
import { context, Device, DTypeError } from "../../mod.ts";
import type { WebGpuDevice } from "../../backends/webgpu/webgpu_device.ts";
import { dawnComplaints, hasDawn } from "../fixtures/dawn.ts";
import { kernelsElsewhere } from "../fixtures/kernels_elsewhere.ts";
import { registerSim } from "../fixtures/sim.ts";
import { evaluate } from "../reference.ts";
import {
  BATCH,
  batches,
  build,
  cases,
  checkAll,
  devicesOpen,
  firstOfEach,
  isBeyond,
  isInSoftware,
  MOST_SLOW,
  readAll,
  type UlpLimit,
} from "./golden.ts";
import { isMeasured, MEASURED, readUlps, ulpsAllowed } from "./ulps.ts";

/** What has arrays of millions on its way, which the reference goes through one by one: devices alone compute them. */
const LARGE = new Set(["gather | many", "gather | columns", "at list | many"]);
/** Powers of e at 90, which the reference takes as powers of two at a rounded product: its error there is 90 times that. */
const FAR_POWERS = new Set(["i0 | far", "i1 | far"]);

for (const c of cases) {
  if (LARGE.has(c.name) || FAR_POWERS.has(c.name)) continue;
  Deno.test(`golden reference: ${c.name}`, async () => {
    checkAll(c, await build(c, "JS"), (t) => evaluate(t.uop).data);
  });
}

if (Deno.env.get("DEV") === "SIM") registerSim();
await Device.open(Device.default); // before the tests
/** Devices that open here, or the one that DEV names; the others are named with the reason. */
const devices = await devicesOpen((name, error) => console.log(`golden: ${name} is left out: ${error.message}`));

const ulps = readUlps();

/** Four times what was measured of a device; of an adapter that was not, four times the worst of all that were. */
function ulpLimit(device: string): UlpLimit | undefined {
  if (!isMeasured(device)) return undefined;
  if (device !== "WEBGPU" || isInSoftware(device)) return (key) => ulpsAllowed(ulps, key, device);
  return (key) => Math.max(...MEASURED.map((d) => ulpsAllowed(ulps, key, d)));
}

/** Runs what a case needs on its device, where DEV names that, too. */
async function within<T>(device: string, fn: () => Promise<T>): Promise<T> {
  return await context({ DEV: device }, fn);
}

/** One batch of cases in so many, and of a program so many cases. */
const every = Number(Deno.env.get("GOLDEN_EVERY") ?? 1), most = Number(Deno.env.get("GOLDEN_MOST") ?? Infinity);

for (const device of devices) {
  const chosen = firstOfEach(isInSoftware(device) ? Math.min(most, MOST_SLOW) : most), get = batches(device, chosen);
  const limit = ulpLimit(device);
  cases.forEach((c, i) => {
    if (Math.floor(i / BATCH) % every !== 0 || !chosen.has(i)) return;
    const run = async (): Promise<void> => {
      const b = await get(i), read = await readAll(b);
      checkAll(c, b, (t) => read.get(t)!, limit);
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
