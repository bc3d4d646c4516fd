/**
 * Kernels of the user's own: a function builds the AST of one from its buffers, or it is given as text in the language of
 * a device. It takes its place in the graph as a write to memory: scheduled with all else; ASTs are optimized by codegen and
 * compiled for whatever device the tensors are on.
 *
 * @module
 */
import { dtypes } from "../dtype/dtype.ts";
import { checkKernel } from "../engine/front/engine.ts";
import { ArgumentError } from "../helpers/errors.ts";
import { prod } from "../helpers/math.ts";
import { checkFunction, checkInteger, checkOptions, describe } from "../helpers/options.ts";
import { Site } from "../helpers/stack.ts";
import { reshape } from "../uop/core/build_movement.ts";
import { CustomArg } from "../uop/core/custom_arg.ts";
import { Ops } from "../uop/core/ops.ts";
import { param, sink, UOp, uop } from "../uop/core/uop.ts";
import { isMemory, noteWrite } from "../uop/graph/writes.ts";
import type { CallTensor } from "./gradients/call.ts";
import { TensorBase } from "./handle/base.ts";
import { checkSameDevice, cutHere, materializeShape } from "./handle/broadcast.ts";
import { firstRange } from "./kernel_parts.ts";
import { type KernelText, textArg } from "./kernel_text.ts";
import { detachNode } from "./nodes/numeric.ts";

/** Options of {@linkcode CustomTensor.customKernel}. */
export interface CustomKernelOptions<T> {
  /**
   * The gradients of something with respect to each tensor that the kernel only reads (undefined for none), given that
   * with respect to the first one that it writes, and the tensors that it only reads.
   */
  readonly gradFxn?: (gradient: T, ...inputs: T[]) => readonly (T | undefined)[];
}

/** A node without the RESHAPEs on top. */
function below(u: UOp): UOp {
  while (u.op === Ops.RESHAPE) u = u.src[0];
  return u;
}

/** The families that it is written in. */
export interface CustomTensor extends CallTensor {}
/** Tensors that custom kernels can run on. */
export abstract class CustomTensor extends TensorBase {
  /** The parameter of a kernel that stands for this tensor, its elements in a row, as number `slot`. */
  asParam(slot: number): UOp {
    checkInteger("make a kernel parameter", "the slot", slot, 0);
    return param(slot, this.dtype, prod(this.shape));
  }

  /**
   * Runs a kernel on the memory of this and `lst`, lazily. `fxn` gets a parameter for each, in this order, and gives the
   * stores of the kernel, made of the parts in {@linkcode kernel}. Gives the tensors as they are afterwards; those that
   * the kernel writes must have memory of their own ({@linkcode Tensor.empty}), and what they named before is
   * overwritten.
   *
   * ```ts
   * import { kernel, Tensor } from "../../mod.ts";
   * const a = new Tensor([1, 2, 3]), b = new Tensor([10, 20, 30]);
   * const [sum] = Tensor.empty([3], { dtype: "int32" }).customKernel([a, b], (out, x, y) => {
   *   const i = kernel.loop(3);
   *   return [kernel.write(out, i, kernel.read(x, i).add(kernel.read(y, i)))];
   * });
   * console.log(await sum.tolist()); // [11, 22, 33]
   * ```
   *
   * In place of the function a {@linkcode KernelText} gives the kernel as it is in the language of each device that the
   * program may run on: a function of the buffers' pointers, in the same order.
   *
   * ```ts ignore files
   * import { Tensor } from "../../mod.ts";
   * const CLANG = `void twice(int *out, const int *x) { for (int i = 0; i < 3; i++) out[i] = 2 * x[i]; }`;
   * const CUDA = `extern "C" __global__ void twice(int *out, const int *x) { out[threadIdx.x] = 2 * x[threadIdx.x]; }`;
   * const x = new Tensor([1, 2, 3], { device: "CLANG" }), out = Tensor.empty([3], { dtype: "int32", device: "CLANG" });
   * const [y] = out.customKernel([x], { name: "twice", text: { CLANG, CUDA }, threads: [3] });
   * ```
   *
   * @throws {ArgumentError} where the function gives no stores, or writes what has no memory of its own
   * @throws {DeviceError} for tensors on several devices, or a device that no text is for
   * @throws {IndexError} where positions leave a buffer; those that depend on data are checked on JS and under SPEC=1
   * @throws {SpecError} for a kernel that is none
   */
  customKernel(
    lst: readonly this[],
    fxn: ((...buffers: UOp[]) => UOp | readonly UOp[]) | KernelText,
    options: CustomKernelOptions<this> = {},
  ): this[] {
    const action = "run a custom kernel";
    checkOptions(action, options, ["gradFxn"]);
    const given: unknown = lst, isText = typeof fxn === "object" && fxn !== null;
    if (
      !Array.isArray(given) || !Array.from(given).every((t) => t instanceof TensorBase) ||
      !(isText || typeof fxn === "function")
    ) {
      throw new ArgumentError(action, {
        reason: "it takes a list of tensors and a function of kernel parameters, or texts",
      });
    }
    if (typeof fxn === "function") checkFunction(action, "fxn", fxn);
    const tensors: this[] = [this, ...lst], params = tensors.map((t, slot) => t.asParam(slot));
    const arg = new CustomArg(
      isText
        ? sink(params, textArg(action, fxn, this.device, params.length))
        : checkKernel(action, built(action, fxn, params), params),
    );
    const nodes = tensors.map((t, slot) => {
      const u = arg.written.includes(slot) ? t.uop : cutHere(t.uop), base = below(u);
      if (isMemory(base)) return base;
      if (arg.written.includes(slot)) {
        throw new ArgumentError(action, {
          reason: `it writes tensor ${slot}, which has no memory of its own; write to Tensor.empty([${t.shape}])`,
        });
      }
      return uop(Ops.CONTIGUOUS, u.dtype, [materializeShape(u, t.shape)]);
    });
    nodes.forEach((u) => checkSameDevice(action, nodes[0], u));
    const run = uop(Ops.CUSTOM, dtypes.void, nodes, arg), line = new Site();
    run.line ??= line;
    const results = tensors.map((t, slot) => {
      if (!arg.written.includes(slot)) return t;
      const after = uop(Ops.AFTER, t.dtype, [nodes[slot], run]);
      after.line ??= line;
      noteWrite(nodes[slot], after);
      return this.wrapNew(reshape(after, t.shape));
    });
    const { gradFxn } = options, [first, ...others] = arg.written;
    if (gradFxn === undefined) return results;
    const inputs = tensors.filter((_, slot) => !arg.written.includes(slot));
    results[first] = this.differentiated(results[first], inputs, gradFxn);
    for (const slot of others) results[slot] = results[slot].wrapView(detachNode(results[slot].uop));
    return results;
  }
}

/** The SINK of what a function builds. */
function built(action: string, fxn: (...buffers: UOp[]) => UOp | readonly UOp[], params: readonly UOp[]): UOp {
  firstRange(); // equal bodies are equal kernels
  const result: unknown = fxn(...params);
  if (result instanceof UOp && result.op === Ops.SINK) return result;
  const stores: readonly unknown[] = Array.isArray(result) ? result : [result];
  if (stores.length > 0 && stores.every((u) => u instanceof UOp && u.op === Ops.STORE)) return sink(stores as UOp[]);
  throw new ArgumentError(action, { reason: `the function must give stores, not ${describe(result)}` });
}
