/**
 * The WEBGPU backend. It opens asynchronously (`await Device.open("WEBGPU")`), and what it is made of is loaded then: pages
 * that never open it do not wait for it.
 *
 * @module
 */
import type { Backend, Device } from "../../src/device/device.ts";
import { DeviceError } from "../../src/helpers/errors.ts";
import type { WebGpuDevice } from "./webgpu_device.ts";

/** The open device, or its opening. */
let current: WebGpuDevice | undefined;
let opening: Promise<WebGpuDevice> | undefined;
/** Why it did not open: an adapter does not appear later. */
let failure: string | undefined;

function fail(reason: string): DeviceError {
  return new DeviceError("open device WEBGPU", { device: "WEBGPU", reason });
}

function checkOrdinal(ordinal: number): void {
  if (ordinal !== 0) throw fail(`there is no ordinal ${ordinal}: WebGPU offers one adapter, WEBGPU`);
}

/** The WEBGPU backend. The default only once it is open, on hardware. */
export const webgpuBackend: Backend = {
  name: "WEBGPU",
  description: "the GPU by WebGPU: compute shaders in WGSL",
  permissions: [],
  textLanguage: "WGSL",
  get rank(): number | undefined {
    return current !== undefined && !current.isLost && current.info().software === false ? 0.5 : undefined;
  },
  unavailable: () =>
    failure ??
      (typeof navigator === "object" && "gpu" in navigator
        ? undefined
        : "this JavaScript engine has no WebGPU (navigator.gpu); use Deno 2.8 or later, or a browser that has it"),
  open(ordinal: number): Device {
    checkOrdinal(ordinal);
    if (current === undefined || current.isLost) {
      throw fail('it opens asynchronously; call await Device.open("WEBGPU") or await init() first');
    }
    return current;
  },
  async openAsync(ordinal: number): Promise<Device> {
    checkOrdinal(ordinal);
    if (current !== undefined && !current.isLost) return current;
    opening ??= import("./webgpu_device.ts").then(async ({ openWebGpu }) => current = await openWebGpu()).finally(
      () => {
        opening = undefined;
      },
    );
    try {
      return await opening;
    } catch (error) {
      if (error instanceof DeviceError) failure = error.message.replace(/^Cannot .*?: /, "");
      throw error;
    }
  },
};
