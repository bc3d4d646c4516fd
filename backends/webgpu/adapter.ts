/**
 * Adapter and GPUDevice: limits raised to what the adapter has, step by step down to the defaults where it refuses.
 *
 * @module
 */
import { isGranted } from "../../src/device/foreign.ts";
import { envNumber, envText } from "../../src/helpers/env.ts";
import { DeviceError } from "../../src/helpers/errors.ts";

/** What {@linkcode openGpu} found. */
export interface Opened {
  readonly device: GPUDevice;
  /** The limits to keep to: the device's, or lower ones. */
  readonly limits: Limits;
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
/** A number for each limit that kernels and buffers are made by. */
export type Limits = Readonly<Record<(typeof LIMITS)[number], number>>;

const FEATURES = ["shader-f16", "timestamp-query"] as const;

const VULKAN = "on Linux it takes the Vulkan loader and a driver: " +
  '"apt-get install libvulkan1" and the driver of the card, or "apt-get install mesa-vulkan-drivers" for others and ' +
  "for a software adapter (VK_DRIVER_FILES and DENO_WEBGPU_BACKEND choose among them)";
const NO_ADAPTER = `no adapter was found; ${VULKAN}; WEBGPU_OPENGL=1 asks OpenGL, too`;

/** What names the backends that Deno asks, and those that are no OpenGL. */
const BACKENDS_NAME = "DENO_WEBGPU_BACKEND", BACKENDS = "vulkan,metal,dx12";

/** Software adapters that were warned about. */
const warned = new Set<string>();

function fail(reason: string, cause?: unknown): DeviceError {
  return new DeviceError("open device WEBGPU", { device: "WEBGPU", reason, cause });
}

/** What OpenGL is taken to have: no limit of bindings, and buffers as large as an int32 counts. */
const OPENGL = { maxBindingsPerBindGroup: 2 ** 32 - 1, maxBufferSize: 2 ** 31 - 1 } as const;

/**
 * Whether an adapter is OpenGL's. Deno has Vulkan, Metal, Direct3D 12 and, where a machine has none of them, OpenGL, and
 * does not say which; but only for OpenGL it knows both no limit of bindings and none of buffers but that of an int32
 * (NVIDIA's Vulkan has the first alone, Mesa's the second). Browsers have bounds for all.
 */
function isOpenGL(adapter: GPUAdapter): boolean {
  const limits = adapter.limits as unknown as Record<string, number>;
  return Object.entries(OPENGL).every(([name, value]) => limits[name] === value);
}

/** The words of a rejection. */
function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/**
 * Requests an adapter; under Deno none of OpenGL, unless that is wanted. Deno loads what it asks for adapters, and the libEGL
 * of libglvnd frees what a thread has of it twice where the thread ends while the process does, as threads of modules do
 * under `deno test` and `deno bench`: "double free or corruption", after all tests have passed.
 */
async function requestAdapter(gpu: GPU): Promise<GPUAdapter | null> {
  const { Deno: deno } = globalThis as { Deno?: typeof Deno },
    options = { powerPreference: "high-performance" } as const;
  const isOurs = deno?.permissions?.querySync !== undefined && envNumber("WEBGPU_OPENGL") === 0 &&
    isGranted({ name: "env", variable: BACKENDS_NAME }) && deno.env.get(BACKENDS_NAME) === undefined;
  if (isOurs) deno.env.set(BACKENDS_NAME, BACKENDS);
  try {
    return await gpu.requestAdapter(options);
  } finally {
    if (isOurs) deno.env.delete(BACKENDS_NAME);
  }
}

/** Requests an adapter and its device. @throws {DeviceError} where there is none, saying how to get one */
export async function openGpu(gpu: GPU): Promise<Opened> {
  let adapter: GPUAdapter | null;
  try {
    adapter = await requestAdapter(gpu);
  } catch (error) {
    throw fail(`${NO_ADAPTER}; the request failed: ${textOf(error)}`, error);
  }
  if (adapter === null) throw fail(NO_ADAPTER);
  const { info } = adapter;
  const description = info?.description || info?.device || info?.vendor || "unknown";
  const openGL = isOpenGL(adapter);
  if (openGL && envNumber("WEBGPU_OPENGL") === 0) {
    throw fail(
      `the only adapter (${description}) is one of OpenGL, whose compilers lose values; ${VULKAN}; ` +
        "WEBGPU_OPENGL=1 uses it nevertheless",
    );
  }
  const isSoftware = (info as { isFallbackAdapter?: boolean } | undefined)?.isFallbackAdapter === true ||
    /llvmpipe|lavapipe|swiftshader|basic render/i.test(`${description} ${info?.architecture ?? ""}`);
  if (isSoftware && !warned.has(description)) {
    warned.add(description);
    console.warn(`WEBGPU runs on a software adapter (${description}): results are right, but slow`);
  }
  const device = await requestDevice(adapter);
  return {
    device,
    limits: limitsOf(device),
    description: openGL ? `${description}, OpenGL` : description,
    isSoftware,
  };
}

/** The limits of a device, or what WEBGPU_LIMITS lowers them to: "name=number", by commas. */
function limitsOf(device: GPUDevice): Limits {
  const limits = Object.fromEntries(LIMITS.map((name) => [name, device.limits[name]])) as Record<string, number>;
  for (const part of envText("WEBGPU_LIMITS").split(",")) {
    if (part === "" || part === "default") continue;
    const [name, text] = part.split("="), value = Number(text);
    if (typeof limits[name] !== "number" || !Number.isInteger(value) || value < 1) {
      throw fail(`WEBGPU_LIMITS is "${part}", and takes default or <limit>=<number>; limits are ${LIMITS.join(", ")}`);
    }
    limits[name] = Math.min(limits[name], value);
  }
  return limits as Limits;
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
  const clamped = envText("WEBGPU_LIMITS").split(",").includes("default");
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
