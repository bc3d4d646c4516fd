/**
 * What WebGPU can do within given limits: of an adapter that is open, or those that every adapter has.
 *
 * @module
 */
import { dtypes } from "../dtype/dtype.ts";
import { Ops } from "../uop/core/ops.ts";
import { type Capabilities, COMMON_DTYPES, SCALAR_CAPS } from "./renderer.ts";

/** Bindings begin at multiples of this. */
const ALIGN = 256;

/** Limits that kernels and buffers are made by, as WebGPU calls them. */
export interface WebGpuLimits {
  readonly maxStorageBufferBindingSize: number;
  readonly maxBufferSize: number;
  readonly maxStorageBuffersPerShaderStage: number;
  readonly maxComputeWorkgroupStorageSize: number;
  readonly maxComputeInvocationsPerWorkgroup: number;
  readonly maxComputeWorkgroupSizeX: number;
  readonly maxComputeWorkgroupSizeY: number;
  readonly maxComputeWorkgroupSizeZ: number;
  readonly maxComputeWorkgroupsPerDimension: number;
}

/** What every adapter has: the default limits of the WebGPU specification. */
export const DEFAULT_LIMITS: WebGpuLimits = {
  maxStorageBufferBindingSize: 1 << 27,
  maxBufferSize: 1 << 28,
  maxStorageBuffersPerShaderStage: 8,
  maxComputeWorkgroupStorageSize: 16384,
  maxComputeInvocationsPerWorkgroup: 256,
  maxComputeWorkgroupSizeX: 256,
  maxComputeWorkgroupSizeY: 256,
  maxComputeWorkgroupSizeZ: 64,
  maxComputeWorkgroupsPerDimension: 65535,
};

/** What a device with these limits and features can do. */
export function webGpuCaps(limits: WebGpuLimits, hasF16: boolean, isSoftware: boolean): Capabilities {
  const compute = COMMON_DTYPES.filter((d) => d !== dtypes.float64);
  if (hasF16) compute.push(dtypes.float16);
  const groups = limits.maxComputeWorkgroupsPerDimension, threads = limits.maxComputeInvocationsPerWorkgroup;
  return {
    ...SCALAR_CAPS,
    vectorBytes: 16,
    registers: 64,
    maxBuffers: limits.maxStorageBuffersPerShaderStage,
    hasMulAcc: true,
    hasGrid: true,
    flushesSubnormals: true,
    grid: {
      maxGroups: [groups, groups, groups],
      maxGroupSize: [
        limits.maxComputeWorkgroupSizeX,
        limits.maxComputeWorkgroupSizeY,
        limits.maxComputeWorkgroupSizeZ,
      ],
      maxGroupThreads: threads,
      sharedBytes: limits.maxComputeWorkgroupStorageSize,
      // bools and what else has fewer bits are words of their own (wgsl.ts), but for floats of 16 bits where there are such
      sharedItem: (d) => hasF16 && d.scalar === dtypes.float16 ? d.itemsize : Math.max(4 * d.count, d.itemsize),
      // subgroups have no size that may be relied upon, and no order of lanes
      warp: 1,
      units: isSoftware ? 4 : 64,
      unitThreads: Math.max(1024, threads),
      unitRegisters: 65536,
      unitShared: Math.max(65536, limits.maxComputeWorkgroupStorageSize),
      hasAsyncCopy: false,
      tensorCores: [],
    },
    maxBufferBytes: limits.maxBufferSize - limits.maxBufferSize % ALIGN,
    bufferAlignment: ALIGN,
    nativeOps: [Ops.SQRT, Ops.TRUNC],
    computeDTypes: compute,
    storageDTypes: compute,
    vectorLanes: (d) => d.bits === 64 ? 1 : 4,
  };
}
