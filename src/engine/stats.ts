/** Counters of the process, as tinygrad's GlobalCounters. @module */
import { openDevices } from "../device/device.ts";

/** What has run in the process since the start or the last reset, whichever function asked for it. */
export interface GlobalCounters {
  /** Arithmetic operations of all kernels. */
  globalOps: number;
  /** Bytes that kernels touched. */
  globalMem: number;
  /** Seconds that kernels and copies took, where timed (DEBUG >= 2). */
  timeSumS: number;
  /** Kernels run. */
  kernelCount: number;
  /** Copies and fills run. */
  copyCount: number;
  /** Bytes copied between devices and the host. */
  copiedBytes: number;
  /** Collectives run between devices. */
  collectiveCount: number;
  /** Bytes that devices gave to collectives, all together. */
  collectiveBytes: number;
  /** Bytes of device memory in use now, on all open devices. */
  readonly memUsed: number;
  /** Sets all but `memUsed` to 0. */
  reset(): void;
}

/** The counters. */
export const GlobalCounters: GlobalCounters = {
  globalOps: 0,
  globalMem: 0,
  timeSumS: 0,
  kernelCount: 0,
  copyCount: 0,
  copiedBytes: 0,
  collectiveCount: 0,
  collectiveBytes: 0,
  get memUsed(): number {
    let bytes = 0;
    for (const d of openDevices()) bytes += d.allocator.used;
    return bytes;
  },
  reset(): void {
    this.globalOps =
      this.globalMem =
      this.timeSumS =
      this.kernelCount =
      this.copyCount =
      this.copiedBytes =
      this.collectiveCount =
      this.collectiveBytes =
        0;
  },
};
