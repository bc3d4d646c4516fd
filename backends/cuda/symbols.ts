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

/** libcuda: every driver since CUDA 11.4 has them all. */
export const DRIVER_SYMBOLS = {
  /** (flags = 0). Before anything else. */
  cuInit: { parameters: ["u32"], result: "i32" },
  /** (int *version): 1000 * major + 10 * minor of the newest CUDA that the driver supports. */
  cuDriverGetVersion: { parameters: ["buffer"], result: "i32" },

  /** (int *count): of those that CUDA_VISIBLE_DEVICES shows. */
  cuDeviceGetCount: { parameters: ["buffer"], result: "i32" },
  /** (CUdevice *device, int ordinal) */
  cuDeviceGet: { parameters: ["buffer", "i32"], result: "i32" },
  /** (char *name, int length, CUdevice) */
  cuDeviceGetName: { parameters: ["buffer", "i32", "i32"], result: "i32" },
  /** (int *value, CUdevice_attribute, CUdevice): sizes, counts and clocks; capabilities are made of them. */
  cuDeviceGetAttribute: { parameters: ["buffer", "i32", "i32"], result: "i32" },
  /** (int *can, CUdevice, CUdevice peer) */
  cuDeviceCanAccessPeer: { parameters: ["buffer", "i32", "i32"], result: "i32" },

  /** (CUcontext *, CUdevice): the context that libraries of one process share. */
  cuDevicePrimaryCtxRetain: { parameters: ["buffer", "i32"], result: "i32" },
  /** (CUdevice): the last release destroys it. */
  cuDevicePrimaryCtxRelease_v2: { parameters: ["i32"], result: "i32" },
  /** (CUcontext): what the calls of this thread mean from now on. */
  cuCtxSetCurrent: { parameters: ["u64"], result: "i32" },
  /** (CUcontext peer, flags = 0): direct copies between two cards. */
  cuCtxEnablePeerAccess: { parameters: ["u64", "u32"], result: "i32" },

  /** (size_t *free, size_t *total): what the allocator's budget is made of. */
  cuMemGetInfo_v2: { parameters: ["buffer", "buffer"], result: "i32" },
  /** (CUdeviceptr *, size_t bytes): aligned to 256 at least. */
  cuMemAlloc_v2: { parameters: ["buffer", "u64"], result: "i32" },
  /** (CUdeviceptr): waits for what uses it. */
  cuMemFree_v2: { parameters: ["u64"], result: "i32" },
  /** (void **, size_t bytes, flags = 0): pinned host memory, through which copies are asynchronous. */
  cuMemHostAlloc: { parameters: ["buffer", "u64", "u32"], result: "i32" },
  /** (void *) */
  cuMemFreeHost: { parameters: ["u64"], result: "i32" },
  /** (void *, size_t bytes, flags = 0): pins memory that exists, for one large read. */
  cuMemHostRegister_v2: { parameters: ["u64", "u64", "u32"], result: "i32" },
  /** (void *) */
  cuMemHostUnregister: { parameters: ["u64"], result: "i32" },
  /** (CUdeviceptr to, const void *from, size_t bytes, CUstream) */
  cuMemcpyHtoDAsync_v2: { parameters: ["u64", "u64", "u64", "u64"], result: "i32" },
  /** (void *to, CUdeviceptr from, size_t bytes, CUstream) */
  cuMemcpyDtoHAsync_v2: { parameters: ["u64", "u64", "u64", "u64"], result: "i32" },
  /** (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream) */
  cuMemcpyDtoDAsync_v2: { parameters: ["u64", "u64", "u64", "u64"], result: "i32" },
  /** (CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes, CUstream): between two devices. */
  cuMemcpyPeerAsync: { parameters: ["u64", "u64", "u64", "u64", "u64", "u64"], result: "i32" },

  /** (CUstream *, flags): CU_STREAM_NON_BLOCKING (1) keeps apart from the legacy stream of other libraries. */
  cuStreamCreate: { parameters: ["buffer", "u32"], result: "i32" },
  /** (CUstream) */
  cuStreamDestroy_v2: { parameters: ["u64"], result: "i32" },
  /** (CUstream): blocks until all of it is done; tells of errors in kernels. */
  cuStreamSynchronize: { parameters: ["u64"], result: "i32" },
  /** (CUstream, CUevent, flags = 0): orders streams of two devices. */
  cuStreamWaitEvent: { parameters: ["u64", "u64", "u32"], result: "i32" },
  /** (CUevent *, flags): CU_EVENT_DISABLE_TIMING (2) where only order is wanted. */
  cuEventCreate: { parameters: ["buffer", "u32"], result: "i32" },
  /** (CUevent, CUstream) */
  cuEventRecord: { parameters: ["u64", "u64"], result: "i32" },
  /** (CUevent): CUDA_ERROR_NOT_READY (600) until it is reached; what asynchronous reads poll. */
  cuEventQuery: { parameters: ["u64"], result: "i32" },
  /** (CUevent): blocks. */
  cuEventSynchronize: { parameters: ["u64"], result: "i32" },
  /** (float *ms, CUevent start, CUevent end) */
  cuEventElapsedTime: { parameters: ["buffer", "u64", "u64"], result: "i32" },
  /** (CUevent) */
  cuEventDestroy_v2: { parameters: ["u64"], result: "i32" },

  /** (CUmodule *, const void *image, unsigned n, CUjit_option *, void **values): a cubin, or PTX ending in NUL. */
  cuModuleLoadDataEx: { parameters: ["buffer", "buffer", "u32", "buffer", "buffer"], result: "i32" },
  /** (CUmodule) */
  cuModuleUnload: { parameters: ["u64"], result: "i32" },
  /** (CUfunction *, CUmodule, const char *name) */
  cuModuleGetFunction: { parameters: ["buffer", "u64", "buffer"], result: "i32" },
  /** (int *value, CUfunction_attribute, CUfunction): registers, spilled bytes. */
  cuFuncGetAttribute: { parameters: ["buffer", "i32", "u64"], result: "i32" },
  /** (CUfunction, CUfunction_attribute, int): allows dynamic shared memory beyond 48 KB. */
  cuFuncSetAttribute: { parameters: ["u64", "i32", "i32"], result: "i32" },
  /** (CUfunction, grid x y z, block x y z, shared bytes, CUstream, void **params = 0, void **extra) */
  cuLaunchKernel: {
    parameters: ["u64", "u32", "u32", "u32", "u32", "u32", "u32", "u32", "u64", "u64", "u64"],
    result: "i32",
  },

  /** (CUgraph *, flags = 0) */
  cuGraphCreate: { parameters: ["buffer", "u32"], result: "i32" },
  /** (CUgraphNode *, CUgraph, const CUgraphNode *dependencies, size_t n, const CUDA_KERNEL_NODE_PARAMS_v1 *) */
  cuGraphAddKernelNode: { parameters: ["buffer", "u64", "buffer", "u64", "u64"], result: "i32" },
  /** (CUgraphExec *, CUgraph, unsigned long long flags = 0) */
  cuGraphInstantiateWithFlags: { parameters: ["buffer", "u64", "u64"], result: "i32" },
  /** (CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v1 *): other arguments from the next launch on. */
  cuGraphExecKernelNodeSetParams: { parameters: ["u64", "u64", "u64"], result: "i32" },
  /** (CUgraphExec, CUstream) */
  cuGraphLaunch: { parameters: ["u64", "u64"], result: "i32" },
  /** (CUgraphExec) */
  cuGraphExecDestroy: { parameters: ["u64"], result: "i32" },
  /** (CUgraph) */
  cuGraphDestroy: { parameters: ["u64"], result: "i32" },
} as const;

/** libnvrtc: from CUDA C++ to machine code, without a file or a process. Since 11.2. */
export const NVRTC_SYMBOLS = {
  /** (int *major, int *minor) */
  nvrtcVersion: { parameters: ["buffer", "buffer"], result: "i32" },
  /** (int *count) */
  nvrtcGetNumSupportedArchs: { parameters: ["buffer"], result: "i32" },
  /** (int *architectures): 80 for sm_80, ascending. */
  nvrtcGetSupportedArchs: { parameters: ["buffer"], result: "i32" },
  /** (nvrtcProgram *, const char *source, const char *name, int n = 0, headers = 0, names = 0) */
  nvrtcCreateProgram: { parameters: ["buffer", "buffer", "buffer", "i32", "u64", "u64"], result: "i32" },
  /** (nvrtcProgram, int n, const char **options) */
  nvrtcCompileProgram: { parameters: ["u64", "i32", "u64"], result: "i32" },
  /** (nvrtcProgram, size_t *) */
  nvrtcGetProgramLogSize: { parameters: ["u64", "buffer"], result: "i32" },
  /** (nvrtcProgram, char *) */
  nvrtcGetProgramLog: { parameters: ["u64", "buffer"], result: "i32" },
  /** (nvrtcProgram, size_t *) */
  nvrtcGetCUBINSize: { parameters: ["u64", "buffer"], result: "i32" },
  /** (nvrtcProgram, char *) */
  nvrtcGetCUBIN: { parameters: ["u64", "buffer"], result: "i32" },
  /** (nvrtcProgram *) */
  nvrtcDestroyProgram: { parameters: ["buffer"], result: "i32" },
} as const;

/** Attributes of a device (CUdevice_attribute). */
export const Attribute = {
  MAX_THREADS_PER_BLOCK: 1,
  MAX_BLOCK_DIM_X: 2,
  MAX_BLOCK_DIM_Y: 3,
  MAX_BLOCK_DIM_Z: 4,
  MAX_GRID_DIM_X: 5,
  MAX_GRID_DIM_Y: 6,
  MAX_GRID_DIM_Z: 7,
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
