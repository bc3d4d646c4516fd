/** Devices with a grid, as data: one like a GPU with warps, one with the least that WebGPU promises. */
import { dtypes } from "../../src/dtype/dtype.ts";
import type { Capabilities, GridCaps } from "../../src/renderer/renderer.ts";
import { MMA_BF16, MMA_F16, MMA_INT8, MMA_TF32 } from "../../src/renderer/tensor_core.ts";
import { Ops } from "../../src/uop/ops.ts";

const BIG: GridCaps = {
  maxGroups: [2 ** 31 - 1, 65535, 65535],
  maxGroupSize: [1024, 1024, 64],
  maxGroupThreads: 1024,
  sharedBytes: 227 << 10,
  warp: 32,
  units: 132,
  unitThreads: 2048,
  unitRegisters: 65536,
  unitShared: 227 << 10,
  hasAsyncCopy: true,
  tensorCores: [MMA_BF16, MMA_F16, MMA_TF32, MMA_INT8],
};

const COMMON: Partial<Capabilities> = {
  hasGrid: true,
  vectorBytes: 16,
  bufferAlignment: 16,
  registers: 255,
  threads: 1,
  hasMulAcc: true,
  nativeOps: [Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.SQRT, Ops.TRUNC],
  vectorLanes: (d) => 16 / d.itemsize,
};

/** A device with warps, asynchronous copies and matrix units. */
export const GPU: Partial<Capabilities> = { ...COMMON, grid: BIG };

/** A device with neither, and small limits. */
export const WEB: Partial<Capabilities> = {
  ...COMMON,
  vectorLanes: (d) => d === dtypes.float32 || d === dtypes.int32 || d === dtypes.uint32 ? 4 : 1,
  grid: {
    ...BIG,
    maxGroups: [65535, 65535, 65535],
    maxGroupSize: [256, 256, 64],
    maxGroupThreads: 256,
    sharedBytes: 16 << 10,
    warp: 1,
    units: 16,
    unitThreads: 1024,
    unitShared: 32 << 10,
    hasAsyncCopy: false,
    tensorCores: [],
  },
};
