/**
 * The CUDA backend: NVIDIA cards through their driver alone. Kernels are CUDA C compiled by NVRTC where that is found, else
 * PTX assembled by the driver; no other library of the vendor is opened.
 *
 * @module
 */
import type { Backend } from "../../src/device/device.ts";
import { openCuda } from "./cuda_device.ts";
import { whyUnavailable } from "./driver.ts";

export { nvrtcCounters } from "./nvrtc.ts";

/** The CUDA backend. */
export const cudaBackend: Backend = {
  name: "CUDA",
  description: "NVIDIA cards through their driver; kernels by NVRTC where it is found, else by the driver itself",
  permissions: ["--allow-ffi"],
  rank: 0,
  textLanguage: "CUDA C",
  unavailable: whyUnavailable,
  open: openCuda,
};
