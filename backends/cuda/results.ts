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

/** All codes of CUresult (CUDA 13.0), without their prefix: the first of a row, then one more each. */
const NAMES = new Map<number, string>();
for (
  const [first, names] of [
    [1, "INVALID_VALUE OUT_OF_MEMORY NOT_INITIALIZED DEINITIALIZED PROFILER_DISABLED PROFILER_NOT_INITIALIZED"],
    [7, "PROFILER_ALREADY_STARTED PROFILER_ALREADY_STOPPED"],
    [34, "STUB_LIBRARY"],
    [36, "CALL_REQUIRES_NEWER_DRIVER"],
    [46, "DEVICE_UNAVAILABLE"],
    [100, "NO_DEVICE INVALID_DEVICE DEVICE_NOT_LICENSED"],
    [200, "INVALID_IMAGE INVALID_CONTEXT CONTEXT_ALREADY_CURRENT"],
    [205, "MAP_FAILED UNMAP_FAILED ARRAY_IS_MAPPED ALREADY_MAPPED NO_BINARY_FOR_GPU ALREADY_ACQUIRED NOT_MAPPED"],
    [212, "NOT_MAPPED_AS_ARRAY NOT_MAPPED_AS_POINTER ECC_UNCORRECTABLE UNSUPPORTED_LIMIT CONTEXT_ALREADY_IN_USE"],
    [217, "PEER_ACCESS_UNSUPPORTED INVALID_PTX INVALID_GRAPHICS_CONTEXT NVLINK_UNCORRECTABLE JIT_COMPILER_NOT_FOUND"],
    [222, "UNSUPPORTED_PTX_VERSION JIT_COMPILATION_DISABLED UNSUPPORTED_EXEC_AFFINITY UNSUPPORTED_DEVSIDE_SYNC"],
    [226, "CONTAINED"],
    [300, "INVALID_SOURCE FILE_NOT_FOUND SHARED_OBJECT_SYMBOL_NOT_FOUND SHARED_OBJECT_INIT_FAILED OPERATING_SYSTEM"],
    [400, "INVALID_HANDLE ILLEGAL_STATE LOSSY_QUERY"],
    [500, "NOT_FOUND"],
    [600, "NOT_READY"],
    [700, "ILLEGAL_ADDRESS LAUNCH_OUT_OF_RESOURCES LAUNCH_TIMEOUT LAUNCH_INCOMPATIBLE_TEXTURING"],
    [704, "PEER_ACCESS_ALREADY_ENABLED PEER_ACCESS_NOT_ENABLED"],
    [708, "PRIMARY_CONTEXT_ACTIVE CONTEXT_IS_DESTROYED ASSERT TOO_MANY_PEERS HOST_MEMORY_ALREADY_REGISTERED"],
    [713, "HOST_MEMORY_NOT_REGISTERED HARDWARE_STACK_ERROR ILLEGAL_INSTRUCTION MISALIGNED_ADDRESS"],
    [717, "INVALID_ADDRESS_SPACE INVALID_PC LAUNCH_FAILED COOPERATIVE_LAUNCH_TOO_LARGE TENSOR_MEMORY_LEAK"],
    [800, "NOT_PERMITTED NOT_SUPPORTED SYSTEM_NOT_READY SYSTEM_DRIVER_MISMATCH COMPAT_NOT_SUPPORTED_ON_DEVICE"],
    [805, "MPS_CONNECTION_FAILED MPS_RPC_FAILURE MPS_SERVER_NOT_READY MPS_MAX_CLIENTS_REACHED"],
    [809, "MPS_MAX_CONNECTIONS_REACHED MPS_CLIENT_TERMINATED CDP_NOT_SUPPORTED CDP_VERSION_MISMATCH"],
    [900, "STREAM_CAPTURE_UNSUPPORTED STREAM_CAPTURE_INVALIDATED STREAM_CAPTURE_MERGE STREAM_CAPTURE_UNMATCHED"],
    [904, "STREAM_CAPTURE_UNJOINED STREAM_CAPTURE_ISOLATION STREAM_CAPTURE_IMPLICIT CAPTURED_EVENT"],
    [908, "STREAM_CAPTURE_WRONG_THREAD TIMEOUT GRAPH_EXEC_UPDATE_FAILURE EXTERNAL_DEVICE INVALID_CLUSTER_SIZE"],
    [913, "FUNCTION_NOT_LOADED INVALID_RESOURCE_TYPE INVALID_RESOURCE_CONFIGURATION KEY_ROTATION"],
    [999, "UNKNOWN"],
  ] as const
) names.split(" ").forEach((name, i) => NAMES.set(first + i, name));

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
  const name = NAMES.get(code), meaning = MEANINGS[code];
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
