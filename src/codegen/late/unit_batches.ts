/**
 * Orders matrix units that read shared memory and go on with that while the threads do something else. In and out: a linear
 * program. Products that follow each other are a batch; what reads their sums waits for all of them, and a barrier, behind
 * which others may write what they read, for all but those that it may leave on their way.
 *
 * Products with an operand in registers begin when all of their batch have theirs, and are over where the loop around them
 * ends: then it may have other values. Where the loop found the operand there, it is read once more behind it: ptxas (13.0)
 * gives its registers to others after the last product of an iteration, where the loop has branches.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { readsShared, unitOf } from "../../renderer/tensor_core_table.ts";
import { isShared } from "../../renderer/visitor.ts";
import { argOf } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { baseOf } from "../../uop/rewrite/walk.ts";
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

/** Does the unit of a product, which reads shared memory, read registers too? */
function readsRegisters(u: UOp): boolean {
  return readsShared(u) && unitOf(u).shared![0] === undefined;
}

function isKept(u: UOp): boolean {
  return u.op === Ops.STORE && u.src[0].op === Ops.ACC;
}

/** Does a thread write shared memory, which units would read otherwise? */
function writesShared(u: UOp): boolean {
  if (u.op === Ops.ASYNC_COPY) return true;
  const base = u.op === Ops.STORE ? baseOf(u.src[0]) : undefined;
  return base !== undefined && isShared(base);
}

/** Where products can wait for others no longer. */
const ENDS: ReadonlySet<Ops> = new Set<Ops>([Ops.RANGE, Ops.END, Ops.IF, Ops.ENDIF, Ops.BARRIER]);

/** The program with the products that read registers behind what else stands between those of a batch. */
function gathered(uops: readonly UOp[]): readonly UOp[] {
  if (!uops.some(readsRegisters)) return uops;
  const out: UOp[] = [], batch = new Set<UOp>();
  let at = 0;
  const flush = (): void => {
    out.splice(at, 0, ...batch);
    batch.clear();
  };
  for (const u of uops) {
    const isProduct = readsRegisters(u), isSum = isKept(u) && batch.has(u.src[1]);
    if (isProduct || isSum) {
      if (isProduct) at = out.length;
      batch.add(u);
      continue;
    }
    if (ENDS.has(u.op) || u.src.some((s) => batch.has(s))) flush();
    out.push(u);
  }
  flush();
  return out;
}

/** What the products that follow each other from `from` on find in registers: their left operands, and what they add to. */
function heldBy(uops: readonly UOp[], from: number): UOp[] {
  const found = new Set<UOp>();
  for (let i = from; i < uops.length; i++) {
    const u = uops[i];
    if (!readsRegisters(u)) {
      if (!isKept(u)) break;
      continue;
    }
    for (const s of [u.src[0], u.src[2]]) if (s.op !== Ops.CONST && !readsShared(s)) found.add(s);
  }
  return [...found];
}

/** By the outermost loop that finds them in registers: left operands of products. */
function foundBy(uops: readonly UOp[]): Map<UOp, Set<UOp>> {
  const found = new Map<UOp, Set<UOp>>(), inside = new Map<UOp, number>(), open: UOp[] = [];
  for (const u of uops) {
    if (u.op === Ops.RANGE) open.push(u);
    else if (u.op === Ops.END) open.pop();
    inside.set(u, open.length);
    const loop = readsRegisters(u) ? open[inside.get(u.src[0]) ?? 0] : undefined;
    if (loop === undefined) continue;
    const list = found.get(loop) ?? new Set();
    found.set(loop, list.add(u.src[0]));
  }
  return found;
}

/** The program with batches of products, and what waits for them. */
export function batchProducts(list: readonly UOp[]): readonly UOp[] {
  if (!list.some(readsShared)) return list;
  const uops = gathered(list), loops = loopsOf(uops), products = new Set<UOp>(), sums = new Set<UOp>(), out: UOp[] = [];
  // where conditions begin that are open: all lanes of a unit wait, whatever holds for each
  const conditions: number[] = [];
  const writes = uops.some(writesShared), found = foundBy(uops);
  let isOpen = false, isPending = false, isHeld = false, isNew = false;
  const order = (arg: string | number, held: readonly UOp[] = []): void => {
    out.splice(conditions.length === 0 ? out.length : conditions[0]++, 0, uop(Ops.UNIT, dtypes.void, held, arg));
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
    isHeld &&= isPending;
  };
  uops.forEach((u, i) => {
    if (readsShared(u)) {
      if (!isOpen) order("begin", heldBy(uops, i));
      isOpen = true;
      isHeld ||= readsRegisters(u);
      products.add(u);
    } else if (u.op === Ops.RANGE) {
      close();
      isPending ||= loops.has(u);
    } else if (u.op === Ops.END) isHeld ? waitFor(0) : close();
    else if (u.op === Ops.IF) conditions.push(out.length);
    else if (u.op === Ops.ENDIF) conditions.pop();
    else if (u.op === Ops.BARRIER) {
      waitFor(argOf(u, Ops.BARRIER) ?? 0);
      if (writes || isNew) order("publish");
      isNew = false;
    } else if (u.op === Ops.MBARRIER) isNew ||= u.arg === "init";
    else if (isKept(u)) {
      if (products.has(u.src[1])) sums.add(u);
    } else if (u.src.some((s) => products.has(s) || sums.has(s))) waitFor(0);
    out.push(u);
    const left = u.op === Ops.END ? found.get(u.src[0]) : undefined;
    if (left !== undefined) order("found", [...left]);
  });
  return out;
}
