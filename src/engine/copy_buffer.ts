/**
 * Copies between buffers: by the device where it can, else through the host.
 *
 * @module
 */
import type { Buffer } from "../device/buffer.ts";
import { GlobalCounters } from "./stats.ts";

/** Whether a copy needs no host: within a device, or between devices that reach each other's memory. */
export function isTransfer(to: Buffer, from: Buffer): boolean {
  return to.device.allocator.peer(from.device.allocator);
}

/** Copies all of `from` into `to`. */
export function copyBuffer(to: Buffer, from: Buffer): void {
  GlobalCounters.copiedBytes += from.nbytes;
  if (from.nbytes === 0) return;
  if (isTransfer(to, from)) {
    const { allocator } = to.device, source = from.device.allocator;
    const peer = source === allocator ? undefined : source;
    allocator.transfer!(to.memory, to.offset, from.memory, from.offset, from.nbytes, peer);
  } else {
    const own = from.hostBytes();
    // what threads share is no argument of others' calls
    to.copyIn(own?.buffer instanceof ArrayBuffer ? own : from.copyOut(new Uint8Array(from.nbytes)));
  }
}
