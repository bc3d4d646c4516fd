/**
 * Reductions by key (uop/graph/keyed_reduce.ts) in kernels of their own, on devices whose kernels are loops: there a result is
 * read, combined with a term and stored. In: the nodes of a tensor graph. Out: those to be kept in memory, and what combines
 * them with other values.
 *
 * @module
 */
import type { Capabilities } from "../../renderer/renderer.ts";
import { numelOf } from "../../uop/core/build_movement.ts";
import { unnoted } from "../../uop/core/notes.ts";
import { isAlu, isMovement, Ops } from "../../uop/core/ops.ts";
import { mayHave, toposort, type UOp } from "../../uop/core/uop.ts";
import { reducesByKey } from "../../uop/graph/keyed_reduce.ts";
import { collapseReduces } from "./collapse.ts";
import { type Combination, combinationsOf, type Reading, type Use, useOf } from "./combine_there.ts";
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
  /** What combines those of `kept` with other values. */
  readonly combinations: readonly Combination[];
}

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

/** The reductions by key of the graph below `roots`. */
export function planKeyed(roots: readonly UOp[], capsOf: (u: UOp) => Capabilities): KeyedPlan {
  const sequence = toposort(roots), isRoot = new Set(roots), kept: UOp[] = [], inside: UOp[] = [];
  const uses: Use[] = [];
  let reading: Reading | undefined, compare: ReadonlySet<UOp> | undefined;
  for (const u of sequence) {
    if (u.op !== Ops.REDUCE || !(mayHave(u, Ops.CMPEQ) || mayHave(u, Ops.CMPNE)) || !mayHave(u, Ops.IOTA)) continue;
    if (numelOf(u.src[0]) < LEAST_TERMS) continue;
    const caps = capsOf(u);
    if (caps.hasGrid || !(compare ??= comparing(sequence)).has(u.src[0])) continue;
    let entered = 0;
    const conditions = toposort(u.src[0], (x) => isInline(x) && ++entered <= MOST_NODES).filter((x) => compare!.has(x));
    if (entered > MOST_NODES) continue;
    const use = useOf(u, reading ??= { roots: isRoot, readers: readersOf(sequence) }), { top, stored } = use;
    const isByKey = (top: UOp): boolean =>
      unnoted(() => reducesByKey(collapseReduces(trialKernel(top, (x) => x !== u && !isInline(x))), caps)) !==
        undefined;
    if (stored !== undefined && isByKey(stored)) {
      inside.push(...conditions, u, use.way[0]);
      continue;
    }
    const made = top !== u && isByKey(top) ? top : isByKey(u) ? u : undefined;
    if (made === undefined) continue;
    kept.push(made);
    inside.push(...conditions, ...made === u ? [] : [u]);
    if (stored === undefined) uses.push(use);
  }
  return { kept, inside, combinations: reading === undefined ? [] : combinationsOf(uses, reading) };
}
