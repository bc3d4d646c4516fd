/**
 * Reductions by key (uop/graph/keyed_reduce.ts) in kernels of their own, on devices whose kernels are loops: there a result is
 * read, combined with a term and stored. In: the nodes of a tensor graph. Out: those to be kept in memory, and those that are
 * better combined with what is in memory already, as all of a gradient that has another part.
 *
 * @module
 */
import type { Capabilities } from "../../renderer/renderer.ts";
import { reduceOf } from "../../uop/core/args.ts";
import { numelOf } from "../../uop/core/build_movement.ts";
import { unnoted } from "../../uop/core/notes.ts";
import { isAlu, isMovement, Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { after, mayHave, store, toposort, type UOp, uop } from "../../uop/core/uop.ts";
import { reducesByKey } from "../../uop/graph/keyed_reduce.ts";
import { rebuildAll } from "../../uop/rewrite/walk.ts";
import { uniformOf } from "../fuse/fold_tensors.ts";
import { OWN } from "../fuse/own_memory.ts";
import { collapseReduces } from "./collapse.ts";
import { readersOf, trialKernel } from "./trial_kernel.ts";

/** Nodes above memory that a reduction is looked at with, at most. */
const MOST_NODES = 2048;
/** Terms of all results together, from which a reduction is looked at: fewer are quick in any way (FEW of segments.ts). */
const LEAST_TERMS = 1 << 14;

/** Is it computed where it is read, whatever the fusion decides? Elements of another size are read from memory. */
function isInline({ op, dtype, src }: UOp): boolean {
  if (op === Ops.BITCAST && dtype.itemsize !== src[0].dtype.itemsize) return false;
  return isAlu(op) || isMovement(op) || op === Ops.CONST || op === Ops.IOTA || op === Ops.VARIABLE || op === Ops.BIND;
}

/** What fusion has to know of reductions by key. */
export interface KeyedPlan {
  /** The reductions, each in memory of its own. */
  readonly kept: readonly UOp[];
  /** What says which term goes where, of each term and result: kernels compute it in place, or not at all. */
  readonly inside: readonly UOp[];
  /** What combines one of `kept` with other values. */
  readonly combined: readonly Combined[];
}

/** What alone reads the results of a reduction, and combines them with `other` as the reduction does its terms. */
export interface Combined {
  readonly node: UOp;
  readonly other: UOp;
  /** The CONTIGUOUS that alone reads it. */
  readonly kept: UOp | undefined;
}

/** The argument of a CONTIGUOUS with which terms are combined where it is: it is nobody else's. */
const START = "start";

function isComparison(u: UOp): boolean {
  return (u.op === Ops.CMPEQ || u.op === Ops.CMPNE) && u.src[0].dtype.isInt;
}

/** Those of `nodes`, sources first, that compare positions, or are made of such comparisons where they are computed. */
function comparing(nodes: readonly UOp[]): ReadonlySet<UOp> {
  const positions = new Set<UOp>(), found = new Set<UOp>();
  for (const u of nodes) {
    if (!mayHave(u, Ops.IOTA) || !isInline(u)) continue;
    if (u.op === Ops.IOTA || u.src.some((s) => positions.has(s))) positions.add(u);
    if (u.src.some((s) => found.has(s)) || (positions.has(u) && isComparison(u))) found.add(u);
  }
  return found;
}

/** What becomes of the results of a reduction. */
interface Use {
  /** What alone reads them, in another order of their axes or as they are, so that they lie in memory as they are asked for. */
  readonly top: UOp;
  readonly combined?: Combined;
  /** What alone stores what is combined, in the place of `other`. */
  readonly stored?: UOp;
}

function useOf(u: UOp, roots: ReadonlySet<UOp>, readers: ReadonlyMap<UOp, readonly UOp[]>): Use {
  const next = (v: UOp): UOp | undefined => {
    const list = roots.has(v) ? undefined : readers.get(v);
    return list?.length === 1 ? list[0] : undefined;
  };
  let top = u, last = u, v = next(u);
  for (; v?.op === Ops.PERMUTE || v?.op === Ops.RESHAPE; v = next(v)) {
    last = v;
    if (v.op === Ops.PERMUTE) top = v;
  }
  if (v !== undefined && isOwnCopy(v)) return { top: v };
  if (v === undefined || v.op !== reduceOf(u).op) return { top };
  const other = v.src[v.src[0] === last ? 1 : 0];
  if (other === last || shapeOf(other).length !== shapeOf(v).length || uniformOf(other) !== undefined) return { top };
  const s = next(v), isThere = s?.op === Ops.STORE && s.src[0] === other;
  let kept = s;
  while (kept?.op === Ops.RESHAPE) kept = next(kept);
  const combined = { node: v, other, kept: kept !== undefined && isOwnCopy(kept) ? kept : undefined };
  return { top, combined, stored: isThere ? s : undefined };
}

/** Is it memory of its own, whatever it is made of? */
function isOwnCopy({ op, arg }: UOp): boolean {
  return op === Ops.CONTIGUOUS && arg !== OWN;
}

/**
 * `roots` in which what is in memory is combined with reductions by key where it is: `other` of each of `combined` gets memory
 * of its own, which is all that there is.
 */
export function combineThere(roots: readonly UOp[], combined: readonly Combined[]): UOp[] {
  const nodes = new Map(combined.map((c) => [c.node, c])), kept = new Set(combined.map((c) => c.kept));
  return rebuildAll(roots, (u, src) => {
    const c = nodes.get(u);
    if (c === undefined) return kept.has(u) ? src[0] : undefined;
    const i = u.src.indexOf(c.other), start = uop(Ops.CONTIGUOUS, u.dtype, [src[i]], START);
    const stored = store(start, u.withSrc(src.with(i, start)));
    start.line = stored.line = u.line;
    return after(start, stored);
  });
}

/** The reductions by key of the graph below `roots`. */
export function planKeyed(roots: readonly UOp[], capsOf: (u: UOp) => Capabilities): KeyedPlan {
  const sequence = toposort(roots), isRoot = new Set(roots), kept: UOp[] = [], inside: UOp[] = [];
  const found: Combined[] = [];
  let readers: ReadonlyMap<UOp, readonly UOp[]> | undefined, compare: ReadonlySet<UOp> | undefined;
  for (const u of sequence) {
    if (u.op !== Ops.REDUCE || !(mayHave(u, Ops.CMPEQ) || mayHave(u, Ops.CMPNE)) || !mayHave(u, Ops.IOTA)) continue;
    if (numelOf(u.src[0]) < LEAST_TERMS) continue;
    const caps = capsOf(u);
    if (caps.hasGrid || !(compare ??= comparing(sequence)).has(u.src[0])) continue;
    let entered = 0;
    const conditions = toposort(u.src[0], (x) => isInline(x) && ++entered <= MOST_NODES).filter((x) => compare!.has(x));
    if (entered > MOST_NODES) continue;
    readers ??= readersOf(sequence);
    const { top, combined, stored } = useOf(u, isRoot, readers);
    const isByKey = (top: UOp): boolean =>
      unnoted(() => reducesByKey(collapseReduces(trialKernel(top, (x) => x !== u && !isInline(x))), caps)) !==
        undefined;
    if (stored !== undefined && isByKey(stored)) {
      inside.push(...conditions, u, combined!.node);
      continue;
    }
    const made = top !== u && isByKey(top) ? top : isByKey(u) ? u : undefined;
    if (made === undefined) continue;
    kept.push(made);
    inside.push(...conditions, ...made === u ? [] : [u]);
    if (combined !== undefined) found.push(combined);
  }
  return { kept, inside, combined: found };
}
