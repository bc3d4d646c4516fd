/**
 * What realized values were computed from, by name. A value whose graph is gone is a constant to a gradient; that is right
 * for what was not computed from a target, and wrong without a word for the rest. In: tensors before and after they are
 * realized; out: whether a buffer was computed from a tensor. Nothing is kept alive for it: names are numbers.
 *
 * @module
 */
import { ArgumentError } from "../../helpers/errors.ts";
import { argOf, type Storage } from "../../uop/core/args.ts";
import { isMovement, Ops } from "../../uop/core/ops.ts";
import { toposort, UOp } from "../../uop/core/uop.ts";
import { unshaped, wholesOf } from "../../uop/graph/resolve.ts";
import { gradLeaves, type TensorBase } from "../handle/base.ts";

/** What something was computed from: names of buffers, and of nodes that users made of no others. */
interface Lineage {
  readonly names: ReadonlySet<number>;
  /** Names of nodes in between that users made: of the latest ones. */
  readonly inner: ReadonlySet<number>;
  /** Whether some are left out. */
  readonly isCut: boolean;
}

/** Names that are kept of one lineage. */
const MAX_NAMES = 256;
/** Values that are realized at once for each of which it is looked for by itself. */
const FEW = 16;

const lineages = new WeakMap<Storage, Lineage>();
/** Nodes on values that have been cut off from what they were computed from, which others may name, too. */
const cuts = new WeakSet<UOp>();

/** The storage of a node that has become one, under any shape. */
function storageOf(u: UOp): Storage | undefined {
  const v = unshaped(u);
  return v.op === Ops.BUFFER ? argOf(v, Ops.BUFFER).storage : undefined;
}

/** The name of a storage: of the node that became it, else its own. */
function nameOf(storage: Storage): number {
  return storage.born === Infinity ? -storage.id : storage.born;
}

/** The nodes below roots through which gradients would go, as far as they are not realized. */
function wayOf(roots: readonly UOp[]): UOp[] {
  return toposort(
    roots,
    (u) => u.becomes === undefined && u.op !== Ops.DETACH && (u.dtype.isFloat || u.op === Ops.STORE),
  );
}

/** What nodes are computed from. */
function lineageOf(way: readonly UOp[]): Lineage {
  const names = new Set<number>(), inner = new Set<number>(), above = new Set<UOp>();
  let isCut = false;
  for (const u of way) {
    if (!u.dtype.isFloat) continue;
    const storage = u.becomes !== undefined || u.op === Ops.BUFFER ? storageOf(u) : undefined;
    if (storage?.staging === true) continue; // the host's own values, on their way
    if (storage !== undefined) {
      const its = lineages.get(storage);
      names.add(nameOf(storage));
      for (const n of its?.names ?? []) names.add(n);
      for (const n of its?.inner ?? []) inner.add(n);
      isCut ||= its?.isCut === true;
      above.add(u);
    } else if (u.names > 0 && !u.src.some((s) => above.has(s))) names.add(u.seq);
    // a stand-in has a name of its own
    if (u.op === Ops.CONTIGUOUS_BACKWARD && u.arg !== undefined) names.add(u.seq);
    if (u.names > 0 || u.src.some((s) => above.has(s))) above.add(u);
    if (u.names > 0 && u.op !== Ops.BUFFER) inner.add(u.seq);
  }
  const isMore = names.size > MAX_NAMES;
  return { names: isMore ? lastOf(names) : names, inner: lastOf(inner), isCut: isCut || isMore };
}

/** The latest names, as many as are kept. */
function lastOf(names: ReadonlySet<number>): ReadonlySet<number> {
  return names.size <= MAX_NAMES ? names : new Set([...names].sort((a, b) => b - a).slice(0, MAX_NAMES));
}

/** Whether a node that has become memory shows all of what has: that says what it was computed from. */
function isShapeOfMade(u: UOp): boolean {
  const storage = isMovement(u.op) ? storageOf(u.src[0]) : undefined;
  return storage !== undefined && storage === storageOf(u);
}

/** Calls `realize`, which is to realize `roots`, and remembers what was computed from what. */
export function keepLineage(roots: readonly UOp[], realize: () => void): void {
  // what is cut off becomes memory with what that is all of
  const pending = wayOf(roots.flatMap(wholesOf)).filter((u) => u.becomes === undefined);
  realize();
  const kept = pending.filter((u) => u.becomes !== undefined && u.dtype.isFloat && !isShapeOfMade(u));
  // of many at once what all are computed from is that of each: updates of weights
  const shared = kept.length > FEW ? lineageOf(wayOf(kept.flatMap((u) => u.src))) : undefined;
  for (const u of kept) {
    const storage = storageOf(u), lineage = shared ?? lineageOf(wayOf(u.src));
    if (storage !== undefined && lineage.names.size > 0) lineages.set(storage, lineage);
  }
  for (const u of roots) {
    if (u.becomes !== undefined && wholesOf(u).some((x) => x.op === Ops.DETACH)) cuts.add(unshaped(u));
  }
}

/** Forgets what `u` was computed from: it is a value alone. */
export function forgetLineage(u: UOp): void {
  const storage = storageOf(u);
  if (storage !== undefined) lineages.delete(storage);
}

/** Whether the values in `storage` were computed from a tensor, or a stand-in; undefined where they may have been. */
function comesFrom(storage: Storage, t: TensorBase | UOp): boolean | undefined {
  const lineage = lineages.get(storage)!;
  if (t instanceof UOp) return lineage.names.has(t.seq);
  const own = storageOf(t.uop);
  if (own === storage) return false;
  const name = own === undefined ? t.uop.seq : nameOf(own);
  if (lineage.names.has(name) || lineage.inner.has(name)) return true;
  if (storage.born < name) return false;
  if (lineage.isCut) return undefined;
  const its = own === undefined ? lineageOf(wayOf([t.uop])) : lineages.get(own);
  return its !== undefined && [...its.names].some((n) => lineage.names.has(n)) ? undefined : false;
}

/**
 * The realized values that a gradient from `root` ends at, though they were computed from something: not `targets`, nor
 * leaves; made after `since` nodes.
 */
export function lostBelow(root: UOp, targets: readonly TensorBase[], since = 0): Storage[] {
  const found = new Set<Storage>();
  for (const u of wayOf([root])) {
    const storage = u.op === Ops.BUFFER && u.dtype.isFloat ? argOf(u, Ops.BUFFER).storage : undefined;
    if (storage === undefined || storage.born < since || cuts.has(u)) continue;
    if (lineages.has(storage)) found.add(storage);
  }
  if (found.size === 0) return [];
  for (const t of targets) found.delete(storageOf(t.uop)!);
  for (const ref of gradLeaves) {
    const leaf = ref.deref();
    if (leaf !== undefined) found.delete(storageOf(leaf.uop)!);
  }
  return [...found];
}

/** Throws where one of these was computed from target `i`, or, unless a gradient `isFound`, may have been. @throws {ArgumentError} */
export function checkLost(lost: readonly Storage[], t: TensorBase | UOp, i: number, isFound: boolean): void {
  for (const storage of lost) {
    const from = comesFrom(storage, t);
    if (from === false || (isFound && from === undefined)) continue;
    throw new ArgumentError(`compute the gradient with respect to target ${i}`, {
      reason:
        `what is differentiated goes through values (${storage.dtype}, ${storage.size} elements) that ${
          from ? "were" : "may have been"
        } computed from it and realized or read; their graph is kept only where a tensor requires a gradient: set ` +
        "requiresGrad = true on the target before computing from it, take the gradient before reading, or detach() what " +
        "is to be a constant",
    });
  }
}
