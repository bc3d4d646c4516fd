/**
 * Adapter and GPUDevice: limits raised to what the adapter has, step by step down to the defaults where it refuses.
 *
 * @module
 */
import { envText } from "../../src/helpers/env.ts";
import { DeviceError } from "../../src/helpers/errors.ts";

/** What {@linkcode openGpu} found. */
export interface Opened {
  readonly device: GPUDevice;
  /** The adapter in words. */
  readonly description: string;
  /** Whether the adapter is a program on the CPU. */
  readonly isSoftware: boolean;
}

/** Limits that kernels and buffers are made by. */
const LIMITS = [
  "maxStorageBufferBindingSize",
  "maxBufferSize",
  "maxStorageBuffersPerShaderStage",
  "maxComputeWorkgroupStorageSize",
  "maxComputeInvocationsPerWorkgroup",
  "maxComputeWorkgroupSizeX",
  "maxComputeWorkgroupSizeY",
  "maxComputeWorkgroupSizeZ",
  "maxComputeWorkgroupsPerDimension",
] as const;
const FEATURES = ["shader-f16", "timestamp-query"] as const;

const NO_ADAPTER = "no adapter was found; on Linux it takes the Vulkan loader and a driver: " +
  '"apt-get install libvulkan1" and the driver of the card, or "apt-get install mesa-vulkan-drivers" for others and ' +
  "for a software adapter (VK_DRIVER_FILES and DENO_WEBGPU_BACKEND choose among them)";

let warned = false;

function fail(reason: string, cause?: unknown): DeviceError {
  return new DeviceError("open device WEBGPU", { device: "WEBGPU", reason, cause });
}

/** The words of a rejection. */
function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Requests an adapter and its device. @throws {DeviceError} where there is none, saying how to get one */
export async function openGpu(gpu: GPU): Promise<Opened> {
  let adapter: GPUAdapter | null;
  try {
    adapter = await gpu.requestAdapter({ powerPreference: "high-performance" });
  } catch (error) {
    throw fail(`${NO_ADAPTER}; the request failed: ${textOf(error)}`, error);
  }
  if (adapter === null) throw fail(NO_ADAPTER);
  const { info } = adapter;
  const description = info?.description || info?.device || info?.vendor || "unknown";
  const isSoftware = (info as { isFallbackAdapter?: boolean } | undefined)?.isFallbackAdapter === true ||
    /llvmpipe|lavapipe|swiftshader|basic render/i.test(`${description} ${info?.architecture ?? ""}`);
  if (isSoftware && !warned) {
    warned = true;
    console.warn(`WEBGPU runs on a software adapter (${description}): results are right, but slow`);
  }
  return { device: await requestDevice(adapter), description, isSoftware };
}

async function requestDevice(adapter: GPUAdapter): Promise<GPUDevice> {
  const requiredFeatures = FEATURES.filter((f) => adapter.features.has(f)) as GPUFeatureName[];
  const all: Record<string, number> = {};
  for (const name of LIMITS) if (adapter.limits[name] !== undefined) all[name] = adapter.limits[name];
  const { maxStorageBufferBindingSize, maxBufferSize } = all;
  const steps: GPUDeviceDescriptor[] = [
    { requiredFeatures, requiredLimits: all },
    { requiredFeatures, requiredLimits: { maxStorageBufferBindingSize, maxBufferSize } },
    { requiredFeatures },
    {},
  ];
  const clamped = envText("WEBGPU_LIMITS") === "default";
  let why: unknown;
  for (const step of clamped ? steps.slice(2) : steps) {
    try {
      return await adapter.requestDevice(step);
    } catch (error) {
      why = error;
    }
  }
  throw fail(`the adapter gives no device, even with default limits: ${textOf(why)}`, why);
}
