/**
 * The public face of devices: `Device.default`, `Device.get("WASM").info()`, `await Device.open("WEBGPU")`, memory and
 * synchronization. The registry behind it is device.ts.
 *
 * @module
 */
import { envNumber } from "../helpers/env.ts";
import { ArgumentError, type MemoryHolder } from "../helpers/errors.ts";
import { checkOptions, describe } from "../helpers/options.ts";
import {
  canonicalize,
  defaultDevice,
  type Device as OpenDevice,
  type DeviceName,
  getDevice,
  listBackends,
  openDevice,
  openDevices,
  refusalOf,
  setDefaultDevice,
} from "./device.ts";
import { isLate, partsReady } from "./parts.ts";
import { takeTurn } from "./pressure.ts";

/** A backend as `Device.list()` tells of it. */
export interface DeviceListing {
  /** Canonical: "WASM". */
  readonly name: string;
  /** What it is, in a line. */
  readonly description: string;
  /** Whether it can open here. */
  readonly available: boolean;
  /** Why it cannot open here; undefined where it can. */
  readonly reason: string | undefined;
  /** The flags that it needs under Deno. */
  readonly permissions: readonly string[];
}

/** Memory of one device. */
export interface DeviceMemory {
  /** Bytes handed out. */
  readonly bytes: number;
  /** Blocks handed out. */
  readonly count: number;
  /** Bytes kept for reuse. */
  readonly cached: number;
  /** The most bytes that were handed out at one time. */
  readonly peak: number;
  /** Under DEBUG_MEMORY=1: who holds them, largest first, with the line that made each. */
  readonly holders?: readonly MemoryHolder[];
}

/** The type of {@linkcode Device}. */
export interface DeviceApi {
  /** The name of the device that tensors are made on. Setting it opens the device. @throws {DeviceError} */
  default: DeviceName;
  /** The device by name, the default without, opened if need be. @throws {DeviceError} */
  get<N extends string>(name?: DeviceName<N>): OpenDevice;
  /** Opens a device, also those that open asynchronously. @throws {DeviceError} */
  open<N extends string>(name: DeviceName<N>): Promise<OpenDevice>;
  /** "cuda:0" to "CUDA". @throws {DeviceError} for a malformed name */
  canonicalize(name: string): string;
  /** All known devices, available or why not. */
  list(): DeviceListing[];
  /** Bytes and blocks of each open device. */
  memory(): Record<string, DeviceMemory>;
  /** Settles when all queued work is done, on one device or all that are open; rejects with what went wrong in it. */
  synchronize<N extends string>(name?: DeviceName<N>): Promise<void>;
}

/** Devices, by name. */
export const Device: DeviceApi = {
  get default(): string {
    return defaultDevice();
  },
  set default(name: string) {
    setDefaultDevice(name);
  },
  get(name?: string): OpenDevice {
    return getDevice(name ?? defaultDevice());
  },
  open: openDevice,
  canonicalize,
  list(): DeviceListing[] {
    return listBackends().map((b) => {
      const reason = b.unavailable() ?? refusalOf(b.name)?.message;
      return {
        name: b.name,
        description: b.description,
        available: reason === undefined,
        reason,
        permissions: b.permissions,
      };
    });
  },
  memory(): Record<string, DeviceMemory> {
    return Object.fromEntries(
      openDevices().map(({ name, allocator }) => {
        const { used: bytes, count, cached, peak } = allocator;
        if (envNumber("DEBUG_MEMORY") === 0) return [name, { bytes, count, cached, peak }];
        const holders = allocator.largest().map(({ nbytes, dtype, size, shape, use, line }) => (
          { nbytes, dtype: String(dtype), size, shape, use, line }
        ));
        return [name, { bytes, count, cached, peak, holders }];
      }),
    );
  },
  async synchronize(name?: string): Promise<void> {
    if (isLate()) await partsReady();
    const devices = name === undefined ? openDevices() : [getDevice(name)];
    await Promise.all(devices.map((d) => d.synchronize()));
    await takeTurn();
  },
};

/**
 * Opens what opens asynchronously (WEBGPU) where it is available, so that it can be the default; with `devices` exactly
 * those. Gives the names of the devices that are open.
 *
 * @throws {DeviceError} if a device that was named cannot open
 */
export async function init(options: { readonly devices?: readonly string[] } = {}): Promise<string[]> {
  checkOptions("initialize", options, ["devices"]);
  if (isLate()) await partsReady();
  if (options.devices !== undefined) {
    if (!Array.isArray(options.devices)) {
      throw new ArgumentError("initialize", {
        reason: `devices must be a list of names, not ${describe(options.devices)}`,
      });
    }
    for (const name of options.devices) await Device.open(name);
  } else {
    for (const backend of listBackends()) {
      if (backend.openAsync === undefined || backend.unavailable() !== undefined) continue;
      await Device.open(backend.name).catch(() => undefined);
    }
  }
  return openDevices().map((d) => d.name);
}
