/**
 * What a device of files (DISK) offers beside a Device: whoever loads weights sees files as memory that nothing has read.
 *
 * @module
 */
import { DeviceError } from "../helpers/errors.ts";
import type { Buffer } from "./buffer.ts";
import { type Device, getDevice } from "./device.ts";

/** The device whose memory is files. Reads are synchronous, and of exactly the bytes that are asked for. */
export interface FileDevice extends Device {
  /**
   * All bytes of a file, as a buffer that has not read them. Views of it are parts of the file; it goes with the last.
   * @throws what the runtime throws for a file that is missing or may not be read
   */
  openFile(path: string): Buffer;
}

/** The name of the device of files. */
export const FILES = "DISK";

/** The device of files. @throws {DeviceError} where the runtime has no files */
export function fileDevice(): FileDevice {
  const device = getDevice(FILES) as Partial<FileDevice> & Device;
  if (device.openFile === undefined) {
    throw new DeviceError("read a file", { device: FILES, reason: "this device opens no files" });
  }
  return device as FileDevice;
}
