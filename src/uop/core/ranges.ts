/**
 * The free loop ranges of a node: the RANGEs below it that no node between closes. Memoized in `rangesMemo`, and the
 * closed ones in `closedMemo`; equal lists are shared.
 *
 * Closing: a kernel REDUCE and a STAGE close their own ranges, END its range, and a LOAD of an accumulator that is
 * ordered after a write closes the accumulator's ranges. An ACC stands outside its ranges.
 *
 * @module
 */
import { argOf } from "./args.ts";
import { CarrierArg } from "./carrier.ts";
import { Ops } from "./ops.ts";
import { range, toposort, type UOp } from "./uop.ts";

const NONE: readonly UOp[] = Object.freeze([]);

/** The iterations of a range, 0 where they are not constant. */
export function sizeOf(r: UOp): number {
  return r.src[0].op === Ops.CONST ? r.src[0].value : 0;
}

/** The same loop by another number. */
export function renumbered(r: UOp, id: number): UOp {
  const { kind, sub } = argOf(r, Ops.RANGE);
  return range(r.src[0], id, kind, sub);
}

/** Order of ranges: by id, then by the piece, then by kind. */
export function compareRanges(a: UOp, b: UOp): number {
  const x = argOf(a, Ops.RANGE), y = argOf(b, Ops.RANGE);
  return x.id - y.id || x.sub - y.sub || x.kind - y.kind || (a.hash - b.hash);
}

/** The iterations of loops in each other, 0 where they are not constant. */
export function iterationsOf(ranges: readonly UOp[]): number {
  return ranges.reduce((n, r) => n * sizeOf(r), 1);
}

/** True when every element of `b` is in `a`; both sorted. */
function covers(a: readonly UOp[], b: readonly UOp[]): boolean {
  if (a === b || b.length === 0) return true;
  if (b.length > a.length) return false;
  let i = 0;
  for (let j = 0; j < b.length; j++) {
    while (i < a.length && a[i] !== b[j]) i++;
    if (i === a.length) return false;
    i++;
  }
  return true;
}

/** Sorted union; one of the operands where it covers the other. */
function union(a: readonly UOp[], b: readonly UOp[]): readonly UOp[] {
  if (covers(a, b)) return a;
  if (covers(b, a)) return b;
  const out: UOp[] = [];
  let i = 0, j = 0;
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      out.push(a[i++]);
      j++;
    } else if (compareRanges(a[i], b[j]) <= 0) out.push(a[i++]);
    else out.push(b[j++]);
  }
  while (i < a.length) out.push(a[i++]);
  while (j < b.length) out.push(b[j++]);
  return out;
}

function without(a: readonly UOp[], closed: readonly UOp[], from: number): readonly UOp[] {
  const out = a.filter((r) => closed.indexOf(r, from) < 0);
  return out.length === a.length ? a : out.length === 0 ? NONE : out;
}

/** Where in its sources the ranges begin that a node closes; -1 where it closes none. */
export function closingStart(u: UOp): number {
  switch (u.op) {
    case Ops.REDUCE:
      return u.arg instanceof CarrierArg ? u.arg.lanes : -1;
    case Ops.STAGE:
      return 1;
    case Ops.WMMA:
      return 3;
    case Ops.END:
      return 0;
    default:
      return -1;
  }
}

function derive(u: UOp): void {
  const { src } = u;
  if (u.op === Ops.ACC) {
    u.rangesMemo = src[0].rangesMemo!;
    u.closedMemo = src[0].closedMemo!;
    return;
  }
  let free = NONE, closed = NONE;
  for (let i = 0; i < src.length; i++) {
    free = union(free, src[i].rangesMemo!);
    closed = union(closed, src[i].closedMemo!);
  }
  if (u.op === Ops.RANGE) free = union(free, [u]);
  else {
    let by = src, from = closingStart(u);
    if (u.op === Ops.LOAD && src.length > 1 && src[0].op === Ops.ACC && src[1].op !== Ops.RANGE) {
      by = src[0].src;
      from = 1;
    }
    if (from >= 0) {
      const left = without(free, by, from);
      if (left !== free) {
        closed = union(closed, without(free, left, 0));
        free = left;
      }
    }
  }
  u.rangesMemo = free;
  u.closedMemo = closed;
}

function fill(root: UOp): void {
  for (const u of toposort(root, (u) => u.rangesMemo === undefined)) if (u.rangesMemo === undefined) derive(u);
}

/** The free ranges of `u`, sorted by id and piece. Do not change the list. */
export function rangesOf(u: UOp): readonly UOp[] {
  if (u.rangesMemo === undefined) fill(u);
  return u.rangesMemo!;
}

/** The ranges that `u` itself closes. */
export function ownRanges(u: UOp): readonly UOp[] {
  const from = closingStart(u);
  return from < 0 ? NONE : u.src.slice(from);
}

/** The ranges below `u` that are closed there: those of its REDUCEs, STAGEs and finished accumulators. */
export function closedRangesOf(u: UOp): readonly UOp[] {
  if (u.closedMemo === undefined) fill(u);
  return u.closedMemo!;
}

/** The first numbers of RANGEs and STAGEs that none of `nodes` has. */
export function freeIds(nodes: readonly UOp[]): { range: number; stage: number } {
  let range = 0, stage = 0;
  for (const u of nodes) {
    if (u.op === Ops.RANGE) range = Math.max(range, argOf(u, Ops.RANGE).id + 1);
    else if (u.op === Ops.STAGE) stage = Math.max(stage, argOf(u, Ops.STAGE).id + 1);
  }
  return { range, stage };
}

/** True when `u` depends on `range`. */
export function dependsOn(u: UOp, range: UOp): boolean {
  return rangesOf(u).includes(range);
}
