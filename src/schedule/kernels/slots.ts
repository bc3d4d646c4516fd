/**
 * The buffers of one kernel while a graph is lowered. A kernel numbers its PARAMs itself, and says aside which entry each
 * slot stands for: kernels that differ in their entries alone are one node, and what is known of one is known of all.
 *
 * @module
 */
import { argOf } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { param, toposort, type UOp } from "../../uop/core/uop.ts";
import { substitute } from "../../uop/rewrite/rewrite.ts";
import { bodyWeight } from "../fuse/recompute.ts";

/** The entries of a kernel by slot. */
export class Slots {
  /** By slot. */
  readonly entries: number[] = [];
  private readonly at = new Map<number, number>();

  /** The slot of an entry, if it has one. */
  find(entry: number): number | undefined {
    return this.at.get(entry);
  }
  /** The slot of an entry: the next one where it has none. */
  take(entry: number): number {
    let slot = this.at.get(entry);
    if (slot === undefined) this.at.set(entry, slot = this.entries.push(entry) - 1);
    return slot;
  }
}

/** What is asked of a kernel's STORE again and again. */
export interface StoreFacts {
  /** Its PARAMs, in the order of `toposort`. */
  readonly params: readonly UOp[];
  /** How many of them are a slot that is read as another dtype too. */
  readonly resized: number;
  /** The LOADs of each slot that it reads. */
  readonly loads: ReadonlyMap<number, readonly UOp[]>;
  readonly hasReduce: boolean;
  /** The weight of its nodes. */
  readonly weight: number;
  /** Whether a loop ends at a variable. */
  readonly isSymbolic: boolean;
}

const known = new WeakMap<UOp, StoreFacts>();

/** The facts of a STORE. */
export function factsOf(store: UOp): StoreFacts {
  let facts = known.get(store);
  if (facts !== undefined) return facts;
  const params: UOp[] = [], loads = new Map<number, UOp[]>();
  let hasReduce = false, isSymbolic = false;
  let weight = 0;
  for (const u of toposort(store)) {
    weight += bodyWeight(u);
    if (u.op === Ops.PARAM) params.push(u);
    else if (u.op === Ops.REDUCE) hasReduce = true;
    else if (u.op === Ops.RANGE) isSymbolic ||= u.src[0].op !== Ops.CONST;
    else if (u.op === Ops.LOAD && u.src[0].src[0].op === Ops.PARAM) {
      const slot = slotOf(u.src[0].src[0]), list = loads.get(slot);
      if (list === undefined) loads.set(slot, [u]);
      else list.push(u);
    }
  }
  const resized = params.length - new Set(params.map(slotOf)).size;
  known.set(store, facts = { params, resized, loads, hasReduce, weight, isSymbolic });
  return facts;
}

const NONE: readonly UOp[] = [];

/** The LOADs of a slot in a STORE. */
export function loadsOf(store: UOp, slot: number | undefined): readonly UOp[] {
  return slot === undefined ? NONE : factsOf(store).loads.get(slot) ?? NONE;
}

/** The slot of a PARAM. */
export function slotOf(p: UOp): number {
  return argOf(p, Ops.PARAM).slot;
}

/** The slot that a STORE writes. */
export function slotWritten(store: UOp): number {
  return slotOf(store.src[0].src[0]);
}

/** An expression of the kernel with slots `from`, as the kernel with slots `to` has it. */
export function renumber(u: UOp, from: Slots, to: Slots): UOp {
  const map = new Map<UOp, UOp>();
  const params = u.op === Ops.STORE ? factsOf(u).params : toposort(u).filter((x) => x.op === Ops.PARAM);
  for (const p of params) {
    const { slot, size } = argOf(p, Ops.PARAM), now = to.take(from.entries[slot]);
    if (now !== slot) map.set(p, param(now, p.dtype, size));
  }
  return substitute(u, map);
}
