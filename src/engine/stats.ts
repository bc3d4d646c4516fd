/** Counters of the process, as tinygrad's GlobalCounters. @module */

/** What has run since the start or the last reset. */
export interface GlobalCounters {
  /** Arithmetic operations of all kernels. */
  globalOps: number;
  /** Bytes that kernels touched. */
  globalMem: number;
  /** Seconds spent launching, where timed (DEBUG >= 2). */
  timeSumS: number;
  kernelCount: number;
  /** Bytes copied between devices and the host. */
  copiedBytes: number;
  reset(): void;
}

/** The counters. */
export const GlobalCounters: GlobalCounters = {
  globalOps: 0,
  globalMem: 0,
  timeSumS: 0,
  kernelCount: 0,
  copiedBytes: 0,
  reset(): void {
    this.globalOps =
      this.globalMem =
      this.timeSumS =
      this.kernelCount =
      this.copiedBytes =
        0;
  },
};
