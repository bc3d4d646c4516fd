/**
 * Slices of memory told apart. Two slices of one buffer that happen to start at the same place are one node: a batch of
 * random windows of which two meet would be another graph than one of which none do. In: a graph with a slice that is read
 * by several. Out: the graph in which each of them has a slice of its own; lowering makes one again of those that have
 * always been one.
 *
 * @module
 */
import { isMovement, Ops } from "../../uop/core/ops.ts";
import { UOp } from "../../uop/core/uop.ts";

/** A graph with its slices apart. */
export interface Apart {
  readonly roots: readonly UOp[];
  /** What each node that is another one now has been. */
  readonly real: ReadonlyMap<UOp, UOp>;
}

/** Nodes of a graph up to which slices and padding of computed values are told apart, too. */
const SMALL = 256;

/** Whether a node is a slice of memory (or, with `all`, of anything), or such under movement; `slices` are those below it. */
function isSlice(u: UOp, slices: ReadonlySet<UOp>, all: boolean): boolean {
  if (!isMovement(u.op)) return false;
  const [x] = u.src;
  if (slices.has(x) || (all && (u.op === Ops.SHRINK || u.op === Ops.PAD))) return true;
  return u.op === Ops.SHRINK && (x.op === Ops.BUFFER || (x.op === Ops.RESHAPE && x.src[0].op === Ops.BUFFER));
}

/** A graph, sources first, with a slice for each reader of one; undefined where each has one. */
export function slicesApart(order: readonly UOp[], roots: readonly UOp[]): Apart | undefined {
  const slices = new Set<UOp>(), seen = new Set<UOp>();
  let isShared = false;
  const read = (u: UOp): void => {
    if (!slices.has(u)) return;
    isShared ||= seen.has(u);
    seen.add(u);
  };
  for (const u of order) {
    if (isSlice(u, slices, order.length <= SMALL)) slices.add(u);
    for (let i = 0; i < u.src.length; i++) if (isMovement(u.src[i].op)) read(u.src[i]);
  }
  for (const r of roots) read(r);
  if (!isShared) return undefined;
  const memo = new Map<UOp, UOp>(), real = new Map<UOp, UOp>();
  /** A node of a chain of its own, which no other is equal to. */
  const own = (u: UOp): UOp => {
    if (!slices.has(u)) return memo.get(u)!;
    const made = new UOp(u.op, u.dtype, u.src.map(own), u.arg, u.hash);
    made.line = u.line;
    real.set(made, u);
    return made;
  };
  for (const u of order) {
    if (slices.has(u)) continue;
    const isLeaf = u.src.length === 0 || u.op === Ops.BIND;
    const made = isLeaf || u.src.every((s) => memo.get(s) === s) ? u : u.withSrc(u.src.map(own));
    if (made !== u) {
      made.line ??= u.line;
      real.set(made, u);
    }
    memo.set(u, made);
  }
  return { roots: roots.map(own), real };
}
