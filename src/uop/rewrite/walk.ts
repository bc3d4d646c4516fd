/**
 * Walks of a graph that many stages take: steps down, past what only orders and to the memory of an address, and the way
 * up on which a graph is built anew.
 *
 * @module
 */
import { Ops } from "../core/ops.ts";
import { toposort, type UOp } from "../core/uop.ts";

/** What stands below AFTERs: a node without the order in which it is evaluated. */
export function throughAfter(u: UOp): UOp {
  while (u.op === Ops.AFTER) u = u.src[0];
  return u;
}

/** The memory of an address: the PARAM, LOCAL or ACC below INDEX and AFTER. */
export function baseOf(u: UOp): UOp {
  while (u.op === Ops.AFTER || u.op === Ops.INDEX) u = u.src[0];
  return u;
}

/** Comes once to each node below `roots` that a way leads to, the last one first: `next` gives those to go on with. */
export function descend(roots: readonly UOp[], next: (u: UOp) => readonly UOp[]): void {
  const seen = new Set<UOp>(), stack = [...roots];
  while (stack.length > 0) {
    const u = stack.pop()!;
    if (seen.has(u)) continue;
    seen.add(u);
    stack.push(...next(u));
  }
}

/**
 * Whether values of all of `src` are known, for a walk with a stack: those that are not come onto it, the first uppermost.
 * 1 where each source is its own value, 2 where some are others, 0 where some are yet to come.
 */
export function knownSources(src: readonly UOp[], known: (u: UOp) => UOp | undefined, stack: UOp[]): 0 | 1 | 2 {
  let isReady = true, isSame = true;
  for (let i = src.length - 1; i >= 0; i--) {
    const s = known(src[i]);
    if (s === undefined) {
      stack.push(src[i]);
      isReady = false;
    } else if (s !== src[i]) isSame = false;
  }
  return isReady ? isSame ? 1 : 2 : 0;
}

/** What stands for a node, whose sources are now `src`; undefined: the node with them. */
export type Change = (u: UOp, src: readonly UOp[]) => UOp | undefined;

/**
 * A graph built anew, sources first: `change` is asked for every node that is not in `memo`. Where `enter` is false, what is
 * below a node stays as it is. What stands for a node is of the user's line that the node is of. Iterative: graphs may be
 * deep. The sources of a BIND are its name and value, and stay.
 */
export function rebuild(root: UOp, change: Change, enter?: (u: UOp) => boolean, memo?: Map<UOp, UOp>): UOp {
  return rebuildAll([root], change, enter, memo)[0];
}

/** {@linkcode rebuild} of several roots of one graph. */
export function rebuildAll(
  roots: readonly UOp[],
  change: Change,
  enter?: (u: UOp) => boolean,
  memo: Map<UOp, UOp> = new Map(),
): UOp[] {
  const goes = (u: UOp): boolean => !memo.has(u) && (enter === undefined || enter(u));
  for (const u of toposort(roots, memo.size === 0 ? enter : goes)) {
    if (memo.has(u)) continue;
    const stays = u.op === Ops.BIND || (enter !== undefined && !enter(u));
    const src = stays ? u.src : changedSources(u.src, memo), made = change(u, src) ?? u.withSrc(src);
    made.line ??= u.line;
    memo.set(u, made);
  }
  return roots.map((r) => memo.get(r)!);
}

/** What stands for each of `src`: the list itself where all are what they were. */
function changedSources(src: readonly UOp[], memo: ReadonlyMap<UOp, UOp>): readonly UOp[] {
  for (let i = 0; i < src.length; i++) if (memo.get(src[i]) !== src[i]) return src.map((s) => memo.get(s)!);
  return src;
}
