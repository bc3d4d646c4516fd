/**
 * What is checked of kernels that users write (src/tensor/custom_kernel.ts) and of single ops, before they become part of a
 * graph. In: graphs. Out: errors that say what is wrong.
 *
 * @module
 */
import { ArgumentError, IndexError } from "../../helpers/errors.ts";
import { linearMax, linearMin, linearOf } from "../../uop/algebra/linear_form.ts";
import { KernelInfo } from "./opt.ts";
import { argOf } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { specKernel, specTensor, verify } from "../../uop/core/spec.ts";
import { toposort, type UOp, uop } from "../../uop/core/uop.ts";

/** A kernel that uses the given parameters, as given, and writes one. */
export function checkKernel(action: string, ast: UOp, params: readonly UOp[]): UOp {
  verify(ast, specKernel, "a custom kernel");
  for (const u of toposort(ast)) {
    if (u.op !== Ops.PARAM || u === params[argOf(u, Ops.PARAM).slot]) continue;
    const { slot } = argOf(u, Ops.PARAM), p = params[slot];
    if (p !== undefined && p.dtype === u.dtype && p.arg!.toString() === u.arg!.toString()) continue;
    throw new ArgumentError(action, { reason: `parameter ${slot} is not one that the function was given` });
  }
  for (const u of toposort(ast)) if (u.op === Ops.INDEX && u.src[0].op === Ops.PARAM) checkPosition(action, u);
  // what SPEC=1 knows a kernel of a user's by
  return ast.arg === undefined ? uop(Ops.SINK, ast.dtype, ast.src, new KernelInfo("custom")) : ast;
}

/**
 * Positions that are sums of loops, without a gate, take their least and greatest values: those must lie in the buffer.
 * Of others SPEC=1 and JS know when the kernel runs.
 *
 * @throws {IndexError}
 */
function checkPosition(action: string, u: UOp): void {
  const [buffer, position, gate] = u.src, sum = gate === undefined ? linearOf(position) : undefined;
  if (sum === undefined || !sum.factors.every((f) => f.op === Ops.RANGE && f.src[0].op === Ops.CONST)) return;
  if (sum.factors.some((f) => f.src[0].value === 0)) return;
  const { slot, size } = argOf(buffer, Ops.PARAM), least = linearMin(sum), greatest = linearMax(sum);
  if (least >= 0 && greatest < size) return;
  throw new IndexError(action, {
    reason: `it accesses element ${least < 0 ? least : greatest} of buffer ${slot}, which has ${size}`,
  });
}

/** Whether tensors may have a node of an op on these sources: true, or what is wrong. */
export function fitsTensor(u: UOp): true | string {
  return specTensor.tests[u.op]!(u);
}
