/**
 * dinograd: a tensor compiler and runtime for Deno. Lazy tensors with autograd; WebAssembly, clang, WebGPU and CUDA
 * behind one module; no native add-on, no install step, no third-party import.
 *
 * ```ts
 * import { Tensor } from "./mod.ts";
 * const x = new Tensor([[1, 2], [3, 4]]);
 * console.log(await x.matmul(x).tolist()); // [[7, 10], [15, 22]]
 * ```
 *
 * @module
 */
import { clangBackend } from "./backends/clang/clang.ts";
import { cudaBackend } from "./backends/cuda/cuda.ts";
import { diskBackend } from "./backends/disk/disk.ts";
import { jsBackend } from "./backends/js/js.ts";
import { nullBackend } from "./backends/null/null.ts";
import { wasmBackend } from "./backends/wasm/wasm_device.ts";
import { webgpuBackend } from "./backends/webgpu/webgpu.ts";
import { registerBackend } from "./src/device/device.ts";
import { setEngine } from "./src/engine/front/engine.ts";
import { loweredKernels } from "./src/engine/lowered/lowered_store.ts";
import { wholeEngine } from "./src/engine/whole_engine.ts";
import { isWatched } from "./src/helpers/env.ts";
import { setJitCalls } from "./src/tensor/jit/jit.ts";
import { FAMILIES } from "./src/tensor/families.ts";
import { addFamilies } from "./src/tensor/handle/members.ts";
import { Jit } from "./src/tensor/jit/jit_calls.ts";
import { LATE_FAMILIES } from "./src/tensor/late_families.ts";
import { Tensor as TensorClass } from "./src/tensor/tensor.ts";
import type { TensorConstructor } from "./src/tensor/types.ts";

const backends = [clangBackend, wasmBackend, jsBackend, nullBackend, diskBackend, webgpuBackend, cudaBackend];
for (const backend of backends) registerBackend(backend);
setEngine({ ...wholeEngine, lowered: loweredKernels });
setJitCalls((fn, options) => new Jit(fn, options));
addFamilies(TensorClass, FAMILIES);
addFamilies(TensorClass, LATE_FAMILIES);
// what watches whole programs is loaded where it is asked for, and is no part of bundles
if (isWatched()) await (await import(new URL("src/story/watch.ts", import.meta.url).href)).startWatching();

/**
 * A multi-dimensional array that is computed when it is needed: `new Tensor(data, { dtype, device, requiresGrad })`, and
 * functions that make others. What it can do is in docs/tensor.md.
 *
 * ```ts
 * import { Tensor } from "./mod.ts";
 * const x = new Tensor([[1, 2], [3, 4]], { dtype: "float32" });
 * console.log(await x.mul(2).sum(0).tolist()); // [8, 12]
 * ```
 */
export const Tensor: TensorConstructor = TensorClass;
/** What {@linkcode Tensor} makes. */
export type Tensor = TensorClass;
export { Device, init } from "./src/device/api.ts";
export type { Checked, DeviceKind, DeviceName, KnownDevice, Named } from "./src/device/device.ts";
export {
  type DType,
  type DTypeKind,
  type DTypeLike,
  type DTypeName,
  type DTypes,
  dtypes,
  type MadeText,
} from "./src/dtype/dtype.ts";
export { finfo, type FloatInfo, iinfo, type IntegerInfo } from "./src/dtype/limits.ts";
export {
  BufferCopy,
  BufferXfer,
  CollectiveStep,
  CompiledKernel,
  CustomOp,
  EmptyOp,
  ExecItem,
  type Runner,
  ViewOp,
} from "./src/engine/front/runners.ts";
export { type CompileEvent, onCompile } from "./src/engine/progress.ts";
export { GlobalCounters } from "./src/engine/stats.ts";
export type { Problem } from "./src/engine/tuning/search.ts";
export { tune } from "./src/engine/tuning/tune.ts";
export type { TuneEvent, TuneOptions, TuneResult } from "./src/engine/tuning/tune_options.ts";
export { context, CONTEXT_VARS, type ContextValues, type ContextVar } from "./src/helpers/env.ts";
export {
  ArgumentError,
  CompileError,
  CycleError,
  DataError,
  DeviceError,
  DisposedError,
  DTypeError,
  FormatError,
  IndexError,
  JitError,
  OutOfMemoryError,
  ShapeError,
  SpecError,
  StaleReadError,
} from "./src/helpers/errors.ts";
export { nn } from "./src/nn/nn_namespace.ts";
export { state } from "./src/state/state_namespace.ts";
export { kernel } from "./src/tensor/kernel_parts.ts";
export { type Display, display, type DisplayOptions, type MimeBundle } from "./src/tensor/handle/display.ts";
export { jit, type JitFunction, type JitOptions, type JitStats, type Synchronous } from "./src/tensor/jit/jit.ts";
export { scope } from "./src/tensor/handle/scope.ts";
export { fft, windows } from "./src/tensor/spectral.ts";
export { schedule, type Tensor as TensorClass } from "./src/tensor/tensor.ts";
export { autocast, type AutocastOptions } from "./src/tensor/transforms/autocast.ts";
export { checkpoint, grad, jvp, valueAndGrad, vmap } from "./src/tensor/transforms/transforms.ts";
export {
  hessian,
  type Hessians,
  jacobian,
  type JacobianOptions,
  type Jacobians,
  scan,
  type ScanOptions,
  whileLoop,
} from "./src/tensor/jit/loops.ts";
export type {
  Argnums,
  Gradient,
  Gradients,
  GradOptions,
  TensorFunction,
  VmapOptions,
} from "./src/tensor/transforms/transforms.ts";
export type * from "./src/tensor/types.ts";
export { Variable } from "./src/tensor/variable.ts";
export { type View, viewOf } from "./src/tensor/handle/view_of.ts";
export { record } from "./src/uop/rewrite/record.ts";
