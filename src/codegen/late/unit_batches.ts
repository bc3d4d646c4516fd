/**
 * Orders matrix units that read shared memory and go on with that while the threads do something else. In and out: a linear
 * program. Products that follow each other are a batch; what reads their sums waits for all of them, and a barrier, behind
 * which others may write what they read, for all but those that it may leave on their way.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { readsShared } from "../../renderer/lanes.ts";
import { Ops } from "../../uop/core/ops.ts";
import { type UOp, uop } from "../../uop/core/uop.ts";

/** The loops that have such products in them. */
function loopsOf(uops: readonly UOp[]): Set<UOp> {
  const open: UOp[] = [], found = new Set<UOp>();
  for (const u of uops) {
    if (u.op === Ops.RANGE) open.push(u);
    else if (u.op === Ops.END) open.pop();
    else if (readsShared(u)) { for (const r of open) found.add(r); }
  }
  return found;
}

/** The program with batches of products, and what waits for them. */
export function batchProducts(uops: readonly UOp[]): readonly UOp[] {
  if (!uops.some(readsShared)) return uops;
  const loops = loopsOf(uops), products = new Set<UOp>(), sums = new Set<UOp>(), out: UOp[] = [];
  // where conditions begin that are open: all lanes of a unit wait, whatever holds for each
  const conditions: number[] = [];
  let isOpen = false, isPending = false;
  const order = (arg: string | number): void => {
    out.splice(conditions.length === 0 ? out.length : conditions[0]++, 0, uop(Ops.UNIT, dtypes.void, [], arg));
  };
  const close = (): void => {
    if (isOpen) order("commit");
    isPending ||= isOpen;
    isOpen = false;
  };
  const waitFor = (left: number): void => {
    close();
    if (isPending) order(left);
    isPending &&= left > 0;
  };
  for (const u of uops) {
    const isKept = u.op === Ops.STORE && u.src[0].op === Ops.ACC;
    if (readsShared(u)) {
      if (!isOpen) order("begin");
      isOpen = true;
      products.add(u);
    } else if (u.op === Ops.RANGE) {
      close();
      isPending ||= loops.has(u);
    } else if (u.op === Ops.END) close();
    else if (u.op === Ops.IF) conditions.push(out.length);
    else if (u.op === Ops.ENDIF) conditions.pop();
    else if (u.op === Ops.BARRIER) {
      waitFor(u.arg as number | undefined ?? 0);
      order("publish");
    } else if (isKept) {
      if (products.has(u.src[1])) sums.add(u);
    } else if (u.src.some((s) => products.has(s) || sums.has(s))) waitFor(0);
    out.push(u);
  }
  return out;
}
