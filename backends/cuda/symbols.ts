/**
 * The functions of the driver (libcuda) and of the run-time compiler (libnvrtc) that are called, in one table each.
 *
 * Handles (contexts, streams, events, modules, functions, graphs), device pointers and host addresses are all `u64`:
 * in the ABI they are the same as pointers, and a bigint costs a foreign call far less than a pointer object. What the
 * callee fills in is a `buffer`. Every function gives a status, 0 for success. Names end in `_v2` where the plain name is
 * an older function with 32-bit sizes; `cuGraphAddKernelNode` and `cuGraphExecKernelNodeSetParams` are called in their
 * first form, which every driver since 10.0 has.
 *
 * @module
 */

type Words<S extends string> = S extends `${infer First} ${infer Rest}` ? [First, ...Words<Rest>] : [S];
/** Functions for `Deno.dlopen`, from their parameters as words. */
type Symbols<T extends Record<string, string>> = {
  readonly [K in keyof T]: { readonly parameters: Words<T[K]>; readonly result: "i32" };
};
function symbols<T extends Record<string, string>>(table: T): Symbols<T> {
  const rows = Object.entries(table).map(([name, words]) => [name, { parameters: words.split(" "), result: "i32" }]);
  return Object.fromEntries(rows) as Symbols<T>;
}

/** libcuda: every driver since CUDA 11.4 has them all. */
const DRIVER = {
  cuInit: "u32", // (flags = 0). Before anything else.
  // (int *version): 1000 * major + 10 * minor of the newest CUDA that the driver supports.
  cuDriverGetVersion: "buffer",

  cuDeviceGetCount: "buffer", // (int *count): of those that CUDA_VISIBLE_DEVICES shows.
  cuDeviceGet: "buffer i32", // (CUdevice *device, int ordinal)
  cuDeviceGetName: "buffer i32 i32", // (char *name, int length, CUdevice)
  // (int *value, CUdevice_attribute, CUdevice): sizes, counts and clocks; capabilities are made of them.
  cuDeviceGetAttribute: "buffer i32 i32",
  cuDeviceCanAccessPeer: "buffer i32 i32", // (int *can, CUdevice, CUdevice peer)

  cuDevicePrimaryCtxRetain: "buffer i32", // (CUcontext *, CUdevice): the context that libraries of one process share.
  cuDevicePrimaryCtxRelease_v2: "i32", // (CUdevice): the last release destroys it.
  cuCtxSetCurrent: "u64", // (CUcontext): what the calls of this thread mean from now on.
  cuCtxEnablePeerAccess: "u64 u32", // (CUcontext peer, flags = 0): direct copies between two cards.

  cuMemGetInfo_v2: "buffer buffer", // (size_t *free, size_t *total): what the allocator's budget is made of.
  cuMemAlloc_v2: "buffer u64", // (CUdeviceptr *, size_t bytes): aligned to 256 at least.
  cuMemFree_v2: "u64", // (CUdeviceptr): waits for what uses it.
  // (void **, size_t bytes, flags = 0): pinned host memory, through which copies are asynchronous.
  cuMemHostAlloc: "buffer u64 u32",
  cuMemFreeHost: "u64", // (void *)
  // (void *, size_t bytes, flags = 0): pins memory that exists, for one large read.
  cuMemHostRegister_v2: "u64 u64 u32",
  cuMemHostUnregister: "u64", // (void *)
  cuMemcpyHtoDAsync_v2: "u64 u64 u64 u64", // (CUdeviceptr to, const void *from, size_t bytes, CUstream)
  cuMemcpyDtoHAsync_v2: "u64 u64 u64 u64", // (void *to, CUdeviceptr from, size_t bytes, CUstream)
  cuMemcpyDtoDAsync_v2: "u64 u64 u64 u64", // (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream)
  // (CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes, CUstream): between two devices.
  cuMemcpyPeerAsync: "u64 u64 u64 u64 u64 u64",

  // (CUstream *, flags): CU_STREAM_NON_BLOCKING (1) keeps apart from the legacy stream of other libraries.
  cuStreamCreate: "buffer u32",
  cuStreamDestroy_v2: "u64", // (CUstream)
  cuStreamSynchronize: "u64", // (CUstream): blocks until all of it is done; tells of errors in kernels.
  cuStreamWaitEvent: "u64 u64 u32", // (CUstream, CUevent, flags = 0): orders streams of two devices.
  cuEventCreate: "buffer u32", // (CUevent *, flags): CU_EVENT_DISABLE_TIMING (2) where only order is wanted.
  cuEventRecord: "u64 u64", // (CUevent, CUstream)
  cuEventQuery: "u64", // (CUevent): CUDA_ERROR_NOT_READY (600) until it is reached; what asynchronous reads poll.
  cuEventSynchronize: "u64", // (CUevent): blocks.
  cuEventElapsedTime: "buffer u64 u64", // (float *ms, CUevent start, CUevent end)
  cuEventDestroy_v2: "u64", // (CUevent)

  // (CUmodule *, const void *image, unsigned n, CUjit_option *, void **values): a cubin, or PTX ending in NUL.
  cuModuleLoadDataEx: "buffer buffer u32 buffer buffer",
  cuModuleUnload: "u64", // (CUmodule)
  cuModuleGetFunction: "buffer u64 buffer", // (CUfunction *, CUmodule, const char *name)
  cuFuncGetAttribute: "buffer i32 u64", // (int *value, CUfunction_attribute, CUfunction): registers, spilled bytes.
  // (CUfunction, CUfunction_attribute, int): allows dynamic shared memory beyond 48 KB.
  cuFuncSetAttribute: "u64 i32 i32",
  // (CUfunction, grid x y z, block x y z, shared bytes, CUstream, void **params = 0, void **extra)
  cuLaunchKernel: "u64 u32 u32 u32 u32 u32 u32 u32 u64 u64 u64",

  // (CUstream, CUstreamCaptureMode): what is queued there, and on streams that wait for it, becomes a graph instead.
  cuStreamBeginCapture_v2: "u64 i32",
  cuStreamEndCapture: "u64 buffer", // (CUstream, CUgraph *)
  // (CUstream, status *, u64 *id, CUgraph *, const CUgraphNode **, size_t *n): the nodes that the next one comes after.
  cuStreamGetCaptureInfo_v2: "u64 buffer buffer buffer buffer buffer",
  cuGraphCreate: "buffer u32", // (CUgraph *, flags = 0)
  // (CUgraphNode *, CUgraph, const CUgraphNode *dependencies, size_t n, const CUDA_KERNEL_NODE_PARAMS_v1 *)
  cuGraphAddKernelNode: "buffer u64 buffer u64 u64",
  cuGraphInstantiateWithFlags: "buffer u64 u64", // (CUgraphExec *, CUgraph, unsigned long long flags = 0)
  // (CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v1 *): other arguments from the next launch on.
  cuGraphExecKernelNodeSetParams: "u64 u64 u64",
  cuGraphLaunch: "u64 u64", // (CUgraphExec, CUstream)
  cuGraphExecDestroy: "u64", // (CUgraphExec)
  cuGraphDestroy: "u64", // (CUgraph)
} as const;

/** libcuda: what drivers have since CUDA 12.4; null where they do not. */
const NEWER = {
  // (CUtensorMap *, CUtensorMapDataType, rank, CUdeviceptr, const u64 *sizes, const u64 *byte strides from axis 1 on,
  // const u32 *box, const u32 *element strides, interleave, swizzle, promotion in the L2, fill): the map, at a multiple of 64
  cuTensorMapEncodeTiled: "buffer u32 u32 u64 buffer buffer buffer buffer u32 u32 u32 u32",
  cuFuncGetParamInfo: "u64 u64 buffer buffer", // (CUfunction, size_t argument, size_t *offset, size_t *bytes)
} as const;

/** libnvrtc: from CUDA C++ to machine code, without a file or a process. Since 11.2. */
const NVRTC = {
  nvrtcVersion: "buffer buffer", // (int *major, int *minor)
  nvrtcGetNumSupportedArchs: "buffer", // (int *count)
  nvrtcGetSupportedArchs: "buffer", // (int *architectures): 80 for sm_80, ascending.
  // (nvrtcProgram *, const char *source, const char *name, int n = 0, headers = 0, names = 0)
  nvrtcCreateProgram: "buffer buffer buffer i32 u64 u64",
  nvrtcCompileProgram: "u64 i32 u64", // (nvrtcProgram, int n, const char **options)
  nvrtcGetProgramLogSize: "u64 buffer", // (nvrtcProgram, size_t *)
  nvrtcGetProgramLog: "u64 buffer", // (nvrtcProgram, char *)
  nvrtcGetCUBINSize: "u64 buffer", // (nvrtcProgram, size_t *)
  nvrtcGetCUBIN: "u64 buffer", // (nvrtcProgram, char *)
  nvrtcDestroyProgram: "buffer", // (nvrtcProgram *)
} as const;

/** Functions that a library may lack. */
type Optional<T> = { readonly [K in keyof T]: T[K] & { readonly optional: true } };
function optional<T extends Record<string, object>>(table: T): Optional<T> {
  const rows = Object.entries(table).map(([name, row]) => [name, { ...row, optional: true }]);
  return Object.fromEntries(rows) as Optional<T>;
}

/** {@linkcode DRIVER} and {@linkcode NEWER} as `Deno.dlopen` takes them. */
export const DRIVER_SYMBOLS: Symbols<typeof DRIVER> & Optional<Symbols<typeof NEWER>> = {
  ...symbols(DRIVER),
  ...optional(symbols(NEWER)),
};
/** {@linkcode NVRTC} as `Deno.dlopen` takes it. */
export const NVRTC_SYMBOLS: Symbols<typeof NVRTC> = symbols(NVRTC);

/** Attributes of a device (CUdevice_attribute). */
export const Attribute = {
  MAX_THREADS_PER_BLOCK: 1,
  /** Then y and z. */
  MAX_BLOCK_DIM_X: 2,
  /** Then y and z. */
  MAX_GRID_DIM_X: 5,
  SHARED_PER_BLOCK: 8,
  WARP_SIZE: 10,
  /** In kHz. */
  CLOCK_RATE: 13,
  MULTIPROCESSORS: 16,
  /** In kHz; two transfers a cycle. */
  MEMORY_CLOCK_RATE: 36,
  /** In bits. */
  MEMORY_BUS_WIDTH: 37,
  L2_BYTES: 38,
  THREADS_PER_MULTIPROCESSOR: 39,
  MAJOR: 75,
  MINOR: 76,
  SHARED_PER_MULTIPROCESSOR: 81,
  REGISTERS_PER_MULTIPROCESSOR: 82,
  /** With CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES. */
  SHARED_PER_BLOCK_OPTIN: 97,
} as const;

/** Attributes of a function (CUfunction_attribute). */
export const FunctionAttribute = { LOCAL_BYTES: 3, REGISTERS: 4, MAX_DYNAMIC_SHARED: 8 } as const;

/** Options of cuModuleLoadDataEx (CUjit_option). */
export const JitOption = { INFO_LOG: 3, INFO_LOG_BYTES: 4, ERROR_LOG: 5, ERROR_LOG_BYTES: 6 } as const;
