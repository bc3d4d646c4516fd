/**
 * Reductions by key that are combined with other values in the way in which their terms are, as in a sum of all gradients of
 * a table: their terms are combined with these values where those are, and there is no memory for the reductions alone. In
 * and out: tensor graphs.
 *
 * @module
 */
import { sameArray } from "../../helpers/math.ts";
import { reduceOf } from "../../uop/core/args.ts";
import { reshape } from "../../uop/core/build_movement.ts";
import { identityOf } from "../../uop/core/carrier.ts";
import { Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { after, store, type UOp, uop } from "../../uop/core/uop.ts";
import { extentsOf } from "../../uop/graph/extent.ts";
import { rebuildAll } from "../../uop/rewrite/walk.ts";
import { uniformOf } from "../fuse/fold_tensors.ts";
import { mustRealize } from "../fuse/fusion_plan.ts";
import { OWN } from "../fuse/own_memory.ts";

/** Who reads the nodes of a graph. */
export interface Reading {
  readonly roots: ReadonlySet<UOp>;
  readonly readers: ReadonlyMap<UOp, readonly UOp[]>;
}

/** What becomes of the results of a reduction. */
export interface Use {
  /** What alone reads them, in another order of their axes, to keep them or combined with a number: so they lie in memory. */
  readonly top: UOp;
  /** What the first of `way` reads. */
  readonly leaf: UOp;
  /** Each what alone reads the one before: nodes that combine as the reduction does, and shapes of them. */
  readonly way: readonly UOp[];
  /** The STORE of what the first of `way` combines, in the place of what else that reads. */
  readonly stored: UOp | undefined;
}

/** Values that one op combines, elementwise. */
export interface Combination {
  /** What comes of all. */
  readonly node: UOp;
  /** The CONTIGUOUS that alone reads it. */
  readonly kept: UOp | undefined;
  /** Nodes between it, which is one of them, and the values. */
  readonly way: ReadonlySet<UOp>;
  /** Values of reductions by key, to be combined with what is there. */
  readonly there: readonly UOp[];
  /** What is there before, where that is one value that nothing else reads. */
  readonly alone: UOp | undefined;
}

/** What alone reads `u`. */
function readerOf(u: UOp | undefined, { roots, readers }: Reading): UOp | undefined {
  const list = u === undefined || roots.has(u) ? undefined : readers.get(u);
  return list?.length === 1 ? list[0] : undefined;
}

/** Is it memory of its own, whatever it is made of? */
function isOwnCopy(u: UOp | undefined): boolean {
  return u?.op === Ops.CONTIGUOUS && u.arg !== OWN;
}

/** Is it combined with one number by `op`? */
function isWithNumber({ op, src }: UOp, by: number): boolean {
  return op === by && src.some((x) => uniformOf(x) !== undefined);
}

/** How the results of REDUCE `u` are read. */
export function useOf(u: UOp, reading: Reading): Use {
  const { op } = reduceOf(u), next = (v: UOp | undefined): UOp | undefined => readerOf(v, reading), way: UOp[] = [];
  let top = u, leaf = u;
  for (let v = next(u); v !== undefined && !isOwnCopy(top); v = next(v)) {
    if (v.op === Ops.PERMUTE || isOwnCopy(v) || isWithNumber(v, op)) top = v;
    else if (v.op !== Ops.RESHAPE) break;
  }
  let v = next(u);
  for (; v?.op === Ops.PERMUTE || v?.op === Ops.RESHAPE; v = next(v)) leaf = v;
  for (; v !== undefined && (v.op === op || (v.op === Ops.RESHAPE && way.length > 0)); v = next(v)) {
    if (v.src[0] === v.src[1]) break;
    way.push(v);
  }
  while (way.at(-1)?.op === Ops.RESHAPE) way.pop();
  const s = next(way[0]), isStored = s?.op === Ops.STORE && way[0].src.some((x) => x !== leaf && x === s.src[0]);
  return { top, leaf, way, stored: isStored ? s : undefined };
}

/** A combination without the values that are combined `there`, of what stands for each other one. */
function restOf(node: UOp, way: ReadonlySet<UOp>, there: readonly UOp[], now: (u: UOp) => UOp): UOp | undefined {
  const none = identityOf(node.op, node.dtype);
  const rest = (v: UOp): UOp | undefined => {
    if (there.includes(v) || uniformOf(v)?.isConst(none)) return undefined;
    if (!way.has(v)) return now(v);
    const [a, b] = v.src.map(rest);
    if (v.op === Ops.RESHAPE) return a && reshape(a, shapeOf(v));
    return a === undefined ? b : b === undefined ? a : uop(v.op, v.dtype, [a, b]);
  };
  return rest(node);
}

/** The combinations of the results of reductions by key. */
export function combinationsOf(uses: readonly Use[], reading: Reading): Combination[] {
  const byNode = new Map<UOp, Use[]>();
  for (const use of uses) {
    const node = use.way.at(-1);
    if (node !== undefined) byNode.set(node, [...byNode.get(node) ?? [], use]);
  }
  return [...byNode].flatMap(([node, list]) => {
    const way = new Set(list.flatMap((use) => use.way)), all = list.map((use) => use.leaf);
    let there = all, rest = restOf(node, way, there, (u) => u);
    if (rest === undefined || !sameArray(shapeOf(rest), shapeOf(node)) || uniformOf(rest) !== undefined) {
      there = all.slice(1); // one of them is there
      rest = undefined;
    }
    if (there.length === 0 || extentsOf(node) !== null) return [];
    let kept = readerOf(node, reading), alone = rest;
    while (kept?.op === Ops.RESHAPE) kept = readerOf(kept, reading);
    while (alone?.op === Ops.RESHAPE) alone = readerOf(alone, reading) === undefined ? undefined : alone.src[0];
    if (alone !== undefined && (mustRealize(alone) || readerOf(alone, reading) === undefined)) alone = undefined;
    return [{ node, kept: isOwnCopy(kept) ? kept : undefined, way, there, alone }];
  });
}

/** How the argument of a CONTIGUOUS begins in the place of which values are combined, and how many there were: no two are one. */
const START = "start";
let starts = 0;

/** `roots` with memory of its own for what is in combinations but to be combined `there`, which then is all that there is. */
export function combineThere(roots: readonly UOp[], combinations: readonly Combination[]): UOp[] {
  const memo = new Map<UOp, UOp>(), now = (u: UOp): UOp => memo.get(u)!;
  const byNode = new Map(combinations.map((c) => [c.node, c])), kept = new Set(combinations.map((c) => c.kept));
  return rebuildAll(
    roots,
    (u, src) => {
      const c = byNode.get(u);
      if (c === undefined) return kept.has(u) ? src[0] : undefined;
      const { op, dtype, line } = u,
        start = uop(Ops.CONTIGUOUS, dtype, [restOf(u, c.way, c.there, now)!], START + starts++);
      start.line = line;
      return c.there.reduce((memory, leaf) => {
        const stored = store(memory, uop(op, dtype, [memory, reshape(now(leaf), shapeOf(u))]));
        stored.line = line;
        return after(memory, stored);
      }, start);
    },
    undefined,
    memo,
  );
}
