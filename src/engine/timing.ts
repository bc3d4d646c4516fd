/** How long a launch takes, by the clock of the device where it has one. @module */
import type { Device } from "../device/device.ts";
import type { Launch } from "../device/program.ts";

/** Runs one launch and waits for it, where the device can wait at once. Gives milliseconds. */
export function runTimed(device: Device, launch: Launch): number {
  if (device.timeSync !== undefined) return device.timeSync(() => device.run([launch]));
  const start = performance.now(), { copyOut } = device.allocator, out = launch.buffers[0];
  device.run([launch]);
  // where launches are only queued, reading a byte waits for them
  if (device.renderer.caps.hasGrid && copyOut !== undefined) copyOut(new Uint8Array(1), out.memory, out.offset);
  return performance.now() - start;
}
