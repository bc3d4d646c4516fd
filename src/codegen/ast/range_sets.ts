/**
 * Sets of ranges as small integers: equal sets have one number, unions are looked up, and 0 is the empty set. Kernels
 * have few distinct sets and many nodes, so one number a node makes the analyses of codegen linear.
 *
 * @module
 */
import { carrierOf } from "../../uop/core/carrier.ts";
import { Ops } from "../../uop/core/ops.ts";
import type { UOp } from "../../uop/core/uop.ts";

/** Interned sets of RANGE nodes. A range is also known by its position in {@linkcode RangeSets.ranges}. */
export class RangeSets {
  /** The ranges seen so far. */
  readonly ranges: UOp[] = [];
  /** The positions in each set, ascending, by set number. */
  readonly members: (readonly number[])[] = [[]];
  private readonly positions = new Map<UOp, number>();
  private readonly singles: number[] = [];
  private readonly byKey = new Map<string, number>([["", 0]]);
  private readonly unions = new Map<number, number>();

  /** Position of a range. */
  position(range: UOp): number {
    let p = this.positions.get(range);
    if (p === undefined) {
      this.positions.set(range, p = this.ranges.length);
      this.ranges.push(range);
    }
    return p;
  }

  /** The set of one range. */
  single(range: UOp): number {
    const p = this.position(range);
    return this.singles[p] ??= this.intern([p]);
  }

  /** The set of these positions, ascending. */
  intern(positions: readonly number[]): number {
    const key = positions.join();
    let id = this.byKey.get(key);
    if (id === undefined) {
      this.byKey.set(key, id = this.members.length);
      this.members.push(positions);
    }
    return id;
  }

  union(a: number, b: number): number {
    if (a === b || b === 0) return a;
    if (a === 0) return b;
    const key = a < b ? a * 0x4000000 + b : b * 0x4000000 + a;
    let id = this.unions.get(key);
    if (id === undefined) {
      this.unions.set(key, id = this.intern(merged(this.members[a], this.members[b])));
    }
    return id;
  }

  /** The set without the ranges of `list` from `start` on. */
  without(set: number, list: readonly UOp[], start: number): number {
    if (set === 0 || start >= list.length) return set;
    const members = this.members[set];
    let left: number[] | undefined;
    for (let i = start; i < list.length; i++) {
      const at = (left ?? members).indexOf(this.position(list[i]));
      if (at >= 0) (left ??= members.slice()).splice(at, 1);
    }
    return left === undefined ? set : this.intern(left);
  }

  has(set: number, range: UOp): boolean {
    const p = this.positions.get(range);
    return p !== undefined && this.members[set].includes(p);
  }

  /** The ranges of a set. */
  list(set: number): UOp[] {
    return this.members[set].map((p) => this.ranges[p]);
  }
}

/** What is in one of two ascending lists, ascending. */
function merged(a: readonly number[], b: readonly number[]): number[] {
  const out: number[] = [];
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    const x = i < a.length ? a[i] : Infinity, y = j < b.length ? b[j] : Infinity;
    out.push(Math.min(x, y));
    if (x <= y) i++;
    if (y <= x) j++;
  }
  return out;
}

/** The free ranges of each of `nodes` (sources first): a kernel's REDUCE and STAGE close their own. */
export function freeSets(nodes: readonly UOp[], sets: RangeSets): Map<UOp, number> {
  const free = new Map<UOp, number>();
  for (let k = 0; k < nodes.length; k++) {
    const u = nodes[k];
    let s = 0;
    for (let i = 0; i < u.src.length; i++) {
      const t = free.get(u.src[i])!;
      if (t !== s && t !== 0) s = sets.union(s, t);
    }
    if (u.op === Ops.RANGE) s = sets.union(s, sets.single(u));
    else if (u.op === Ops.REDUCE) s = sets.without(s, u.src, carrierOf(u).lanes);
    else if (u.op === Ops.STAGE) s = sets.without(s, u.src, 1);
    else if (u.op === Ops.WMMA) s = sets.without(s, u.src, 3);
    free.set(u, s);
  }
  return free;
}
