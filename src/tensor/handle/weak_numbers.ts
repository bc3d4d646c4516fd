/**
 * Whole numbers that were given without a dtype: JavaScript cannot tell 1.0 from 1, so where floats are expected they are
 * taken as such.
 *
 * @module
 */
import type { DType } from "../../dtype/dtype.ts";
import { argOf } from "../../uop/core/args.ts";
import { isMovement, Ops } from "../../uop/core/ops.ts";
import { toposort, type UOp } from "../../uop/core/uop.ts";
import { latest } from "../../uop/graph/resolve.ts";

/** A tensor, as far as this module knows it. */
interface Handle {
  readonly dtype: DType;
  readonly uop: UOp;
}

/** Handles of whole numbers that were given without a dtype, and have no storage to say so. */
const weakScalars = new WeakSet<Handle>();

/** Marks a handle on a constant as one of whole numbers that were given without a dtype. */
export function markWeak(t: Handle): void {
  weakScalars.add(t);
}

/** Whether a tensor is whole numbers that were given without a dtype, under any shape or order. */
export function isWeak(t: Handle): boolean {
  if (!t.dtype.isInt) return false;
  if (weakScalars.has(t)) return true;
  let u = t.uop;
  while (isMovement(u.op) || u.op === Ops.COPY || u.op === Ops.CONTIGUOUS) u = latest(u.src[0]);
  return u.op === Ops.BUFFER && argOf(u, Ops.BUFFER).storage.weak;
}

/** A tensor where floats of `dtype` are expected: in that dtype, if it is whole numbers that were given without one. */
export function asFloats<T extends Handle & { cast(dtype: DType): unknown }>(t: T, dtype: DType): T {
  return t.dtype !== dtype && dtype.isFloat && isWeak(t) ? t.cast(dtype) as T : t;
}

/** Why a tensor of integers has no gradient, and what to do about whole numbers that were meant as floats. */
export function noGradient(t: Handle): string {
  const reason = "only floating-point tensors have gradients";
  if (isWeak(t)) return `${reason}; make it with { dtype: "float32" }`;
  const weak = toposort(t.uop).some((u) => u.op === Ops.BUFFER && argOf(u, Ops.BUFFER).storage.weak);
  return weak ? `${reason}; make the lists that it is computed from tensors with { dtype: "float32" }` : reason;
}
