/**
 * What an NVIDIA device can do, from the few numbers that its driver tells: the input of scheduling and code generation
 * for both of its languages, CUDA C and PTX.
 *
 * @module
 */
import { dtypes } from "../dtype/dtype.ts";
import { FUNCTION_OPS, Ops } from "../uop/core/ops.ts";
import { TMA } from "./copy_engine.ts";
import { type Capabilities, COMMON_DTYPES, SCALAR_CAPS } from "./renderer.ts";
import { MMA_BF16, MMA_F16, MMA_INT8, MMA_TF32, type TensorCore, WGMMA } from "./tensor_core_table.ts";

/** What differs between devices. Everything but `arch` has the value of common cards as default. */
export interface CudaLimits {
  /** As compilers name it: "sm_80", "sm_90a". */
  readonly arch: string;
  /** Multiprocessors. */
  readonly units?: number;
  /** Shared memory that one group may ask for, in bytes. */
  readonly sharedBytes?: number;
  /** Of one multiprocessor: shared memory in bytes, resident threads, 32-bit registers. */
  readonly unitShared?: number;
  /** Threads that can be resident on one multiprocessor. */
  readonly unitThreads?: number;
  /** 32-bit registers of one multiprocessor. */
  readonly unitRegisters?: number;
  /** Bytes of the second-level cache. */
  readonly l2?: number;
  /** Has its driver maps for the copy engine of Hopper? */
  readonly hasTensorMaps?: boolean;
  /** Allows products of float32 rounded to tf32 (10 bits of mantissa) on matrix units. */
  readonly tf32?: boolean;
}

/** 80 for "sm_80", 90 for "sm_90a". */
export function archNumber(arch: string): number {
  return Number(/\d+/.exec(arch)?.[0] ?? 0);
}

/** Ops that PTX has instructions for, in float32 and float64 alike. */
export const PTX_OPS: readonly Ops[] = [Ops.SQRT, Ops.TRUNC];

/**
 * Capabilities of an NVIDIA device, with the ops of CUDA C; {@linkcode PtxRenderer} narrows those to its own.
 * float16 and bfloat16 are loaded, stored and multiplied on matrix units; other arithmetic is in float32.
 */
export function cudaCaps(limits: CudaLimits): Capabilities {
  const arch = archNumber(limits.arch), isAmpere = arch >= 80, isLarge = arch === 80 || arch === 90 || arch === 100;
  const unitShared = limits.unitShared ?? (arch >= 90 ? 233472 : arch === 80 ? 167936 : isAmpere ? 102400 : 65536);
  const tensorCores: TensorCore[] = isAmpere ? [MMA_BF16, MMA_F16, MMA_INT8] : [];
  if (isAmpere && limits.tf32) tensorCores.push(MMA_TF32);
  if (limits.arch === "sm_90a") tensorCores.push(...WGMMA);
  return {
    ...SCALAR_CAPS,
    vectorBytes: 16,
    registers: 128,
    l1: 1 << 17,
    l2: limits.l2 ?? 40 << 20,
    maxBuffers: 256,
    hasMulAcc: true,
    avoidsShiftedNegations: true, // ptxas 13.0 may add (-x >> n) to a number as -(x >> n)
    hasGrid: true,
    bufferAlignment: 16,
    nativeOps: FUNCTION_OPS, // within two units in the last place
    roundedOps: [Ops.EXP2, Ops.FDIV],
    computeDTypes: COMMON_DTYPES,
    storageDTypes: [...COMMON_DTYPES, dtypes.float16, dtypes.bfloat16],
    vectorLanes: (d) => Math.max(1, 128 / d.bits),
    grid: {
      maxGroups: [2147483647, 65535, 65535],
      maxGroupSize: [1024, 1024, 64],
      maxGroupThreads: 1024,
      sharedBytes: limits.sharedBytes ?? unitShared - 1024,
      warp: 32,
      units: limits.units ?? (arch === 90 ? 132 : arch === 80 ? 108 : 64),
      unitThreads: limits.unitThreads ?? (isLarge ? 2048 : arch === 75 ? 1024 : 1536),
      unitRegisters: limits.unitRegisters ?? 65536,
      unitShared,
      hasAsyncCopy: isAmpere,
      ...(limits.arch === "sm_90a" && limits.hasTensorMaps === true ? { copyEngine: TMA } : {}),
      tensorCores,
    },
  };
}
