/**
 * What it costs to compute a value again in each kernel that reads it, instead of keeping it in a buffer. In: a node, the
 * kernels that read it, and what the planner knows of the graph around it. Out: work an element. Also what must be kept so that
 * a value need not be.
 *
 * @module
 */
import { numelOf } from "../../uop/core/build_movement.ts";
import { Ops, opWork } from "../../uop/core/ops.ts";
import { toposort, type UOp } from "../../uop/core/uop.ts";
import { isLeaf } from "./fusion_plan.ts";

/** Work an element beyond which a value is kept where each element would be computed at least eight times. */
export const KEEP_COST_REPEATED = 4;
/** Nodes below one whose work is counted one by one, at most: the search is quadratic in them. */
const MAX_BELOW = 512;

/** Work of one element of a node, its sources apart. A cast goes with what it is made of, at whatever cost that is kept. */
export function ownCost(u: UOp): number {
  return u.op === Ops.CAST ? 0 : opWork[u.op];
}

/** Weight of a node in the body of a kernel: about what it takes to compile it. */
export function bodyWeight(u: UOp): number {
  if (u.op === Ops.REDUCE) return 32;
  if (u.op === Ops.RESHAPE) return 8;
  return Math.max(1, ownCost(u));
}

/** Elements of a row for each of the reduces that it is made of, at least. */
const MANY_OF_ONE = 8;

/** What {@linkcode workAgain} asks of the planner. */
export interface Surroundings {
  /** By node: those that read it. */
  readonly readers: ReadonlyMap<UOp, readonly UOp[]>;
  /** Is it in memory? */
  readonly isStored: (u: UOp) => boolean;
  /** Does this kernel compute or read it, as far as is decided? */
  readonly isIn: (u: UOp, kernel: UOp) => boolean;
}

/** The readers of each node of a graph. */
export function readersIn(order: readonly UOp[]): Map<UOp, UOp[]> {
  const readers = new Map<UOp, UOp[]>();
  for (let k = 0; k < order.length; k++) {
    const r = order[k];
    for (let i = 0; i < r.src.length; i++) {
      const s = r.src[i], list = readers.get(s);
      if (list === undefined) readers.set(s, [r]);
      else list.push(r);
    }
  }
  return readers;
}

/**
 * Work that computing `u` again in all but one of `kernels` adds: that of the nodes below, each once, without those that
 * these kernels compute, or read, anyway for other readers. Of a chain whose every step a backward pass reads as well (a
 * polynomial), no step is worth a buffer of its own. Infinite where a reduce would run again, undefined where there is too
 * much below to tell; from `enough` on it is not counted further.
 */
export function workAgain(
  u: UOp,
  kernels: readonly UOp[],
  { readers, isStored, isIn }: Surroundings,
  enough: number,
): number | undefined {
  const list = [u], isBelow = (v: UOp): boolean => list[v.at] === v;
  u.at = 0;
  for (let k = 0; k < list.length; k++) {
    if (list.length > MAX_BELOW) return undefined;
    const { op, src } = list[k];
    if (k > 0 && (op === Ops.REDUCE || op === Ops.EXPAND)) continue;
    for (let i = 0; i < src.length; i++) {
      if (isBelow(src[i]) || isStored(src[i])) continue;
      src[i].at = list.length;
      list.push(src[i]);
    }
  }
  const isShared = (v: UOp): boolean => {
    let without = 0;
    for (let k = 0; k < kernels.length; k++) {
      const isRead = readers.get(v)!.some((r) => !isBelow(r) && isIn(r, kernels[k]));
      if (!isRead && ++without > 1) return false;
    }
    return true;
  };
  const needed = [u];
  let work = 0;
  for (let k = 0; k < needed.length && work < enough; k++) {
    const { op, src } = needed[k];
    if (op === Ops.REDUCE) return Infinity;
    if (op === Ops.EXPAND) work += KEEP_COST_REPEATED - 1;
    else {
      work += ownCost(needed[k]);
      for (let i = 0; i < src.length; i++) {
        const s = src[i];
        if (isBelow(s) && !needed.includes(s) && !isShared(s)) needed.push(s);
      }
    }
  }
  return work;
}

/**
 * Rows that got buffers because several kernels would run the reduces that they are made of, these, and what else has a buffer
 * below: differences from a maximum, and their exponentials, which a loss and its gradient read.
 */
interface SharedRows {
  readonly rows: readonly UOp[];
  readonly reduces: ReadonlySet<UOp>;
  readonly kept: readonly UOp[];
}

/** The groups of `rows`; a row that is made of what is about as large is in none. */
function groupsOf(rows: ReadonlySet<UOp>, isRealized: (u: UOp) => boolean): SharedRows[] {
  const isKept = (u: UOp): boolean => isLeaf(u) || (isRealized(u) && !rows.has(u));
  let groups: SharedRows[] = [];
  for (const row of rows) {
    const below = toposort(row.src, (u) => !isKept(u) && u.op !== Ops.REDUCE);
    const reduces = below.filter((u) => u.op === Ops.REDUCE && !isKept(u));
    if (reduces.length === 0 || reduces.some((u) => numelOf(u) * MANY_OF_ONE > numelOf(row))) continue;
    const shares = (g: SharedRows): boolean => reduces.some((u) => g.reduces.has(u)), mine = groups.filter(shares);
    const group: SharedRows = {
      rows: [...mine.flatMap((g) => g.rows), row],
      reduces: new Set([...mine.flatMap((g) => [...g.reduces]), ...reduces]),
      kept: [...mine.flatMap((g) => g.kept), ...below.filter((u) => isKept(u) && !isLeaf(u))],
    };
    groups = [...groups.filter((g) => !shares(g)), group];
  }
  return groups;
}

/**
 * The reduces to be kept in place of more rows, which are then computed where they are read, and what has a buffer below
 * these: of all groups, and of the largest alone.
 */
export function reducesOfRows(rows: readonly UOp[], isRealized: (u: UOp) => boolean): UOp[][] {
  const better = groupsOf(new Set(rows), isRealized).filter((g) => g.reduces.size < g.rows.length);
  const nbytesOf = (g: SharedRows): number => g.rows.reduce((n, u) => n + numelOf(u) * u.dtype.itemsize, 0);
  const lists = better.toSorted((a, b) => nbytesOf(b) - nbytesOf(a)).map((g) => [...g.reduces, ...g.kept]);
  return lists.length > 1 ? [lists.flat(), lists[0]] : lists;
}
