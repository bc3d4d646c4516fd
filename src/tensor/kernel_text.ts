/**
 * Kernels as text: what a user says about one, checked, as the arg of its node. No text is read here: whether it does
 * what it says is between the user and the compiler of the device.
 *
 * @module
 */
import { listBackends } from "../device/device.ts";
import { ArgumentError, DeviceError } from "../helpers/errors.ts";
import { checkInteger, checkOptions, describe } from "../helpers/options.ts";
import { type GridSize, TextArg } from "../uop/core/custom_arg.ts";

/** A kernel in the languages of devices. */
export interface KernelText {
  /** The function in the texts. */
  readonly name: string;
  /**
   * By device: C for CLANG, a function `void name(float *out, const float *x)` that is called once; CUDA C for CUDA,
   * `extern "C" __global__ void name(...)` alike; WGSL for WEBGPU, with the entry point `name`, and the tensors as
   * `@group(0) @binding(0)`, 1, ..., `var<storage, read_write>` where it writes them and `var<storage, read>` where not.
   */
  readonly text: Readonly<Record<string, string>>;
  /** Which tensors it writes: 0 is the one that it is called on. Default [0]. */
  readonly writes?: readonly number[];
  /** Groups of a launch, up to three dimensions; on devices with a grid. Default [1]. */
  readonly groups?: readonly number[];
  /** Threads of a group, up to three dimensions; WGSL says it itself. Default [1]. */
  readonly threads?: readonly number[];
}

const KNOWN = ["name", "text", "writes", "groups", "threads"];

function gridSize(action: string, name: string, sizes: unknown): GridSize {
  if (!Array.isArray(sizes) || sizes.length < 1 || sizes.length > 3) {
    throw new ArgumentError(action, { reason: `${name} must be a list of one to three sizes, not ${describe(sizes)}` });
  }
  const [x, y = 1, z = 1] = sizes.map((n) => checkInteger(action, name, n, 1));
  return [x, y, z];
}

/** What the kernel on `device` is, for `count` buffers. @throws {DeviceError} where no text is for the device */
export function textArg(action: string, kernel: KernelText, device: string, count: number): TextArg {
  checkOptions(action, kernel, KNOWN);
  const { name, text, writes = [0], groups = [1], threads = [1] } = kernel;
  if (typeof name !== "string" || !/^[A-Za-z_]\w*$/.test(name)) {
    throw new ArgumentError(action, { reason: `its name must be an identifier, not ${describe(name)}` });
  }
  if (typeof text !== "object" || text === null) {
    throw new ArgumentError(action, { reason: `its text must be one a device, not ${describe(text)}` });
  }
  const languages = new Map(listBackends().map((b) => [b.name, b.textLanguage]));
  for (const key of Object.keys(text)) {
    if (languages.get(key) !== undefined && typeof text[key] === "string") continue;
    const known = [...languages.keys()].filter((name) => languages.get(name) !== undefined).sort().join(", ");
    throw new ArgumentError(action, {
      reason: `there may be texts for ${known}, not ${describe(text[key])} for ${key}`,
    });
  }
  const backend = device.split(":")[0], language = languages.get(backend);
  if (language === undefined || text[backend] === undefined) {
    throw new DeviceError(`run kernel ${name}`, {
      device,
      reason: `the tensors are on ${device}, and its text is for ${Object.keys(text).join(", ") || "no device"}`,
    });
  }
  const given: unknown = writes;
  if (!Array.isArray(given) || given.length === 0) {
    throw new ArgumentError(action, { reason: `writes must list the tensors that it writes, not ${describe(given)}` });
  }
  for (const slot of given) {
    if (checkInteger(action, "writes", slot, 0) < count) continue;
    throw new ArgumentError(action, { reason: `writes names tensor ${slot}, and there are ${count}` });
  }
  const written = [...new Set(writes)].sort((a, b) => a - b);
  const [g, t] = [gridSize(action, "groups", groups), gridSize(action, "threads", threads)];
  return new TextArg(language, name, text[backend], written, g, t);
}
