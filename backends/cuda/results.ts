/**
 * Status codes of the driver: their names as in cuda.h, what the common ones mean and what helps, and the errors made of
 * them.
 *
 * @module
 */
import { DeviceError } from "../../src/helpers/errors.ts";

/** Codes that the code asks for by name. */
export const Result = {
  SUCCESS: 0,
  OUT_OF_MEMORY: 2,
  NO_DEVICE: 100,
  NO_BINARY_FOR_GPU: 209,
  INVALID_PTX: 218,
  UNSUPPORTED_PTX_VERSION: 222,
  INVALID_SOURCE: 300,
  NOT_READY: 600,
  PEER_ACCESS_ALREADY_ENABLED: 704,
} as const;

/** All codes of CUresult (CUDA 13.0), without their prefix. */
const NAMES: Readonly<Record<number, string>> = {
  1: "INVALID_VALUE",
  2: "OUT_OF_MEMORY",
  3: "NOT_INITIALIZED",
  4: "DEINITIALIZED",
  5: "PROFILER_DISABLED",
  6: "PROFILER_NOT_INITIALIZED",
  7: "PROFILER_ALREADY_STARTED",
  8: "PROFILER_ALREADY_STOPPED",
  34: "STUB_LIBRARY",
  36: "CALL_REQUIRES_NEWER_DRIVER",
  46: "DEVICE_UNAVAILABLE",
  100: "NO_DEVICE",
  101: "INVALID_DEVICE",
  102: "DEVICE_NOT_LICENSED",
  200: "INVALID_IMAGE",
  201: "INVALID_CONTEXT",
  202: "CONTEXT_ALREADY_CURRENT",
  205: "MAP_FAILED",
  206: "UNMAP_FAILED",
  207: "ARRAY_IS_MAPPED",
  208: "ALREADY_MAPPED",
  209: "NO_BINARY_FOR_GPU",
  210: "ALREADY_ACQUIRED",
  211: "NOT_MAPPED",
  212: "NOT_MAPPED_AS_ARRAY",
  213: "NOT_MAPPED_AS_POINTER",
  214: "ECC_UNCORRECTABLE",
  215: "UNSUPPORTED_LIMIT",
  216: "CONTEXT_ALREADY_IN_USE",
  217: "PEER_ACCESS_UNSUPPORTED",
  218: "INVALID_PTX",
  219: "INVALID_GRAPHICS_CONTEXT",
  220: "NVLINK_UNCORRECTABLE",
  221: "JIT_COMPILER_NOT_FOUND",
  222: "UNSUPPORTED_PTX_VERSION",
  223: "JIT_COMPILATION_DISABLED",
  224: "UNSUPPORTED_EXEC_AFFINITY",
  225: "UNSUPPORTED_DEVSIDE_SYNC",
  226: "CONTAINED",
  300: "INVALID_SOURCE",
  301: "FILE_NOT_FOUND",
  302: "SHARED_OBJECT_SYMBOL_NOT_FOUND",
  303: "SHARED_OBJECT_INIT_FAILED",
  304: "OPERATING_SYSTEM",
  400: "INVALID_HANDLE",
  401: "ILLEGAL_STATE",
  402: "LOSSY_QUERY",
  500: "NOT_FOUND",
  600: "NOT_READY",
  700: "ILLEGAL_ADDRESS",
  701: "LAUNCH_OUT_OF_RESOURCES",
  702: "LAUNCH_TIMEOUT",
  703: "LAUNCH_INCOMPATIBLE_TEXTURING",
  704: "PEER_ACCESS_ALREADY_ENABLED",
  705: "PEER_ACCESS_NOT_ENABLED",
  708: "PRIMARY_CONTEXT_ACTIVE",
  709: "CONTEXT_IS_DESTROYED",
  710: "ASSERT",
  711: "TOO_MANY_PEERS",
  712: "HOST_MEMORY_ALREADY_REGISTERED",
  713: "HOST_MEMORY_NOT_REGISTERED",
  714: "HARDWARE_STACK_ERROR",
  715: "ILLEGAL_INSTRUCTION",
  716: "MISALIGNED_ADDRESS",
  717: "INVALID_ADDRESS_SPACE",
  718: "INVALID_PC",
  719: "LAUNCH_FAILED",
  720: "COOPERATIVE_LAUNCH_TOO_LARGE",
  721: "TENSOR_MEMORY_LEAK",
  800: "NOT_PERMITTED",
  801: "NOT_SUPPORTED",
  802: "SYSTEM_NOT_READY",
  803: "SYSTEM_DRIVER_MISMATCH",
  804: "COMPAT_NOT_SUPPORTED_ON_DEVICE",
  805: "MPS_CONNECTION_FAILED",
  806: "MPS_RPC_FAILURE",
  807: "MPS_SERVER_NOT_READY",
  808: "MPS_MAX_CLIENTS_REACHED",
  809: "MPS_MAX_CONNECTIONS_REACHED",
  810: "MPS_CLIENT_TERMINATED",
  811: "CDP_NOT_SUPPORTED",
  812: "CDP_VERSION_MISMATCH",
  900: "STREAM_CAPTURE_UNSUPPORTED",
  901: "STREAM_CAPTURE_INVALIDATED",
  902: "STREAM_CAPTURE_MERGE",
  903: "STREAM_CAPTURE_UNMATCHED",
  904: "STREAM_CAPTURE_UNJOINED",
  905: "STREAM_CAPTURE_ISOLATION",
  906: "STREAM_CAPTURE_IMPLICIT",
  907: "CAPTURED_EVENT",
  908: "STREAM_CAPTURE_WRONG_THREAD",
  909: "TIMEOUT",
  910: "GRAPH_EXEC_UPDATE_FAILURE",
  911: "EXTERNAL_DEVICE",
  912: "INVALID_CLUSTER_SIZE",
  913: "FUNCTION_NOT_LOADED",
  914: "INVALID_RESOURCE_TYPE",
  915: "INVALID_RESOURCE_CONFIGURATION",
  916: "KEY_ROTATION",
  999: "UNKNOWN",
};

/** What the common ones mean, and what helps. */
const MEANINGS: Readonly<Record<number, string>> = {
  1: "the driver refuses an argument",
  2: "the device has no memory left; free tensors, or use smaller batches",
  3: "the driver is not initialized",
  4: "the driver is shutting down: the process is ending",
  34: "the library that was found is the stub of the toolkit, for linking only; install the driver itself, or set " +
    "CUDA_DRIVER_PATH to its libcuda.so.1",
  36: "the driver is too old for this call; update it",
  46: "another process has the device for itself (exclusive mode), or it is being reset; nvidia-smi shows who",
  100:
    "the driver sees no device; check nvidia-smi and CUDA_VISIBLE_DEVICES, and that a container was given the card " +
    "(docker run --gpus all)",
  101: "there is no device of that ordinal",
  200: "the driver does not take the machine code of a kernel; an NVRTC newer than the driver makes such: update the " +
    "driver, or set PTX=1",
  201: "the context is gone",
  209: "there is no machine code for this card",
  214: "the card found an error in its memory that cannot be corrected; nvidia-smi -q tells more",
  218: "the driver's assembler does not take the PTX",
  220: "a link between cards failed",
  221: "the driver lacks its assembler (libnvidia-ptxjitcompiler.so.1); a container gets it with the driver " +
    "capability compute, or install NVRTC",
  222: "the driver is too old for this version of PTX; update it",
  300: "the driver does not take the source",
  304: "a call of the operating system failed",
  400: "a handle is no longer valid",
  500: "a name was not found",
  700: "a kernel read or wrote outside of its buffers",
  701: "a kernel needs more registers, threads or shared memory than the card has",
  702: "a kernel ran longer than the system allows for a card that drives a display",
  710: "an assertion in a kernel failed",
  714: "the stack of a kernel was corrupt or ran over",
  715: "a kernel came upon an instruction that the card does not have",
  716: "a kernel read or wrote an address that is not a multiple of the size of the access",
  717: "a kernel used an address of another memory space than its instruction is for",
  718: "a kernel jumped outside of its code",
  719: "a kernel failed",
  800: "the operation is not permitted",
  801: "this card or system does not support the operation",
  802: "the system is still starting (the fabric manager of NVSwitch systems must run); try again, or look at its log",
  803:
    "the driver library and the kernel module are of different versions; reboot, or mount the matching library into " +
    "the container",
  804: "the compatibility library (cuda-compat) does not support this card; remove it from the library path",
  999: "something failed in the driver or the card; look at dmesg for lines with Xid",
};

/** After these nothing more can be done in this process: the context is destroyed. */
const FATAL: ReadonlySet<number> = new Set([
  ...[4, 201, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 999],
]);

/** True where the context of the device is unusable after this code. */
export function isFatal(code: number): boolean {
  return FATAL.has(code);
}

/** "CUDA_ERROR_ILLEGAL_ADDRESS (700): a kernel read or wrote outside of its buffers". */
export function resultText(code: number): string {
  const name = NAMES[code], meaning = MEANINGS[code];
  const known = name === undefined ? `CUDA error ${code}` : `CUDA_ERROR_${name} (${code})`;
  return meaning === undefined ? known : `${known}: ${meaning}`;
}

/** The error of a failed call. @param action what was tried, as a verb and its object */
export function resultError(device: string, action: string, code: number, more: string = ""): DeviceError {
  return new DeviceError(action, { device, reason: `${resultText(code)}${more}` });
}

/** "12.4" of 12040. */
export function versionText(version: number): string {
  return `${Math.floor(version / 1000)}.${Math.floor(version % 1000 / 10)}`;
}
