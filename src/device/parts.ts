/**
 * What is loaded when it is needed first. Where the whole of the library is there from the start (Deno, from the sources),
 * nothing is late. A page that loads the light entry of the package gets its compiler and devices with the first thing
 * that it awaits; Node.js and Bun load them in the middle of whatever needs them.
 *
 * @module
 */
import { DeviceError } from "../helpers/errors.ts";

/** How what is late comes. */
export interface LateParts {
  /** Loads it at once; false where this runtime cannot. */
  now(): boolean;
  /** Loads it. */
  later(): Promise<void>;
}

let late: LateParts | undefined;
let loading: Promise<void> | undefined;

/** Says how what is not there yet is loaded. */
export function setLateParts(parts: LateParts): void {
  late = parts;
  loading = undefined;
}

/** Whether something is not loaded yet. */
export function isLate(): boolean {
  return late !== undefined;
}

/** Loads what is late, before something that cannot wait. @throws {DeviceError} where that takes waiting */
export function needParts(action: string): void {
  if (late === undefined) return;
  if (!late.now()) {
    throw new DeviceError(action, {
      device: "",
      reason: "what compiles kernels is not loaded yet; await init() first, or any value",
    });
  }
  late = undefined;
}

/** Loads what is late. A failure, of the network perhaps, is no end: the next call tries again. */
export async function partsReady(): Promise<void> {
  if (late === undefined) return;
  try {
    await (loading ??= late.later());
    late = undefined;
  } catch (cause) {
    throw new DeviceError("load what compiles kernels", { device: "", reason: String(cause), cause });
  } finally {
    loading = undefined;
  }
}
