/**
 * What nodes are of memory: whether they show it, in which order, whether they are one by themselves, and where.
 *
 * @module
 */
import { argOf, OwnArg } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { deviceOf } from "../../uop/core/shape.ts";
import { type UOp, uop } from "../../uop/core/uop.ts";
import { wholeOf } from "../../uop/graph/resolve.ts";
import { isAlias, isMemory, shown } from "../../uop/graph/writes.ts";

/** What handles say of casts. */
export const CAST_COPY: readonly [method: string, instead: string] = [
  "cast",
  "cast the value, and assign to that tensor",
];

/** Whether a node is a value, in another order than what it ends in, which has become memory by itself. */
export function isTurned(u: UOp): boolean {
  let turns = false;
  for (; isAlias(u.op); u = u.src[0]) turns ||= u.op !== Ops.RESHAPE && u.op !== Ops.DETACH;
  return turns && !isMemory(u);
}

/** Whether a node shows memory that somebody has put values in: a constant on a device is none. */
export function hasValues(u: UOp): boolean {
  const { base } = shown(u);
  return isMemory(base) && (base.op !== Ops.COPY || shown(base.src[0]).base.op === Ops.BUFFER);
}

/** True for nodes that no other tensor can share by accident: storage, copies of it, and marked leaves. */
export function hasIdentity(u: UOp): boolean {
  while (u.op === Ops.RESHAPE || u.op === Ops.COMPLEX) u = u.src[0];
  return u.op === Ops.BUFFER || u.op === Ops.AFTER || (u.op === Ops.CONTIGUOUS && u.arg !== undefined) ||
    (u.op === Ops.COPY && u.src[0].op === Ops.BUFFER) || (u.op === Ops.COPY && hasIdentity(u.src[0]));
}

/**
 * Memory for the value `u` that no other tensor shares, where that lives; of what lives nowhere by itself (constants,
 * random bits) where it is asked for, or on `device`: whoever reads it first, it stays there.
 */
export function ownMemory(u: UOp, identity: number, device: string): UOp {
  if (u.op === Ops.COPY && deviceOf(u.src[0]) === null) [u, device] = [u.src[0], argOf(u, Ops.COPY)];
  else if (deviceOf(u) !== null) return uop(Ops.CONTIGUOUS, u.dtype, [u], identity);
  return uop(Ops.CONTIGUOUS, u.dtype, [u], new OwnArg(identity, device));
}

/** What memory that nobody has computed is to hold, where that can be computed anywhere: to move it, nothing is copied. */
export function unplaced(u: UOp): UOp | undefined {
  return u.op === Ops.CONTIGUOUS && u.arg instanceof OwnArg ? u.src[0] : undefined;
}

/** By tensor, a value that has asked for memory of its own: what it named, and the copy. */
const copied = new WeakMap<object, readonly [from: UOp, to: UOp]>();

/** Notes that a tensor, which named `from`, names a copy of that now. */
export function noteCopied(tensor: object, from: UOp, to: UOp): void {
  copied.set(tensor, [from, to]);
}

/** What a tensor, which is `now`, named before it got memory of its own, as far as it is still that: gradients go by either. */
export function copiedFrom(tensor: object, now: UOp): UOp | undefined {
  const known = copied.get(tensor);
  return known !== undefined && wholeOf(known[1]) === wholeOf(now) ? known[0] : undefined;
}
