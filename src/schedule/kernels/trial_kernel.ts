/**
 * Kernels that are made to see what they would be, before it is decided that they are. In: a node of a tensor graph that may
 * end a kernel. Out: what else its kernel computes after it, and its STORE.
 *
 * @module
 */
import { simplifyKernel } from "../../uop/algebra/valid.ts";
import { numelOf } from "../../uop/core/build_movement.ts";
import { isMovement, isView, Ops } from "../../uop/core/ops.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { type Layout, rangeify } from "./rangeify.ts";

/** What may follow the last reduction in its kernel. */
export const FOLLOWERS: ReadonlySet<Ops> = new Set([Ops.RESHAPE, Ops.CAST, Ops.PERMUTE]);

/** The node that is moved and widened. */
export function stripped(u: UOp): UOp {
  while (isMovement(u.op) || (u.op === Ops.CAST && u.src[0].dtype.bits < u.dtype.bits)) u = u.src[0];
  return u;
}

/** Who reads each node. */
export function readersOf(order: readonly UOp[]): Map<UOp, UOp[]> {
  const readers = new Map<UOp, UOp[]>();
  for (const u of order) {
    for (const s of u.src) {
      const list = readers.get(s);
      if (list === undefined) readers.set(s, [u]);
      else if (list[list.length - 1] !== u) list.push(u);
    }
  }
  return readers;
}

/** The last node that the kernel of `u` may compute, up to `storage`. */
export function topOf(u: UOp, storage: ReadonlySet<UOp>, readers: ReadonlyMap<UOp, readonly UOp[]>): UOp {
  let top = u;
  while (!storage.has(u)) {
    const list = readers.get(u) ?? [];
    if (list.length !== 1 || !FOLLOWERS.has(list[0].op)) break;
    u = list[0];
    if (u.op !== Ops.RESHAPE) top = u;
  }
  return top;
}

/** The STORE of a kernel that computes `top`, or stores what it says, from storage and what `isKept` says is in memory. */
export function trialKernel(top: UOp, isKept: (u: UOp) => boolean): UOp {
  let memory = top.op === Ops.STORE ? top.src[0] : top;
  while (top.op === Ops.STORE && isView(memory.op)) [memory] = memory.src;
  const entries = new Map([[memory, 0]]);
  const layout: Layout = {
    entryOf(u) {
      if (u === top || (u.op !== Ops.BUFFER && u.op !== Ops.AFTER && !isKept(u))) return undefined;
      if (!entries.has(u)) entries.set(u, entries.size);
      return { id: entries.get(u)!, size: numelOf(u) };
    },
  };
  return simplifyKernel(rangeify(top, layout, { id: 0, size: numelOf(memory) }));
}
