/**
 * `tune`: measures candidates for the kernels of a function within a budget of time. What measures is in
 * tune_kernels.ts, which is loaded when it is asked for.
 *
 * @module
 */
import { partsReady } from "../../device/parts.ts";
import type { TuneOptions, TuneResult } from "./tune_options.ts";

/**
 * Makes the kernels that `fn` runs faster, by measuring other ways to compute them for up to `budgetMs`: those that take
 * most time first. `fn` is called once, with its jit functions as plain ones; from then on every function that runs the
 * same kernels uses what was found, and so does another process that calls `tune`, or sets `BEAM`. Each way is checked
 * against what it would replace, on made-up operands, and taken only where it is at least 3 % faster for certain.
 *
 * ```ts
 * import { Tensor, tune } from "../../../mod.ts";
 * const a = Tensor.rand([64, 64], { device: "WASM" }).realize();
 * const { kernels } = await tune(() => a.matmul(a).realize(), { budgetMs: 100 });
 * console.log(kernels); // 1
 * ```
 *
 * @throws {ArgumentError} for a budget or width that is none @throws {DeviceError} where a device has no clock (NULL,
 * WEBGPU), or is lost meanwhile: what was found until then is kept
 */
export async function tune(fn: () => unknown, options: TuneOptions = {}): Promise<TuneResult> {
  await partsReady();
  const { tuneKernels } = await import("./tune_kernels.ts");
  return await tuneKernels(fn, options);
}
