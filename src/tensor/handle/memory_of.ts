/**
 * What nodes are of memory: whether they show it, in which order, and whether they are one by themselves.
 *
 * @module
 */
import { Ops } from "../../uop/core/ops.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { isAlias, isMemory, shown } from "../../uop/graph/writes.ts";

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
