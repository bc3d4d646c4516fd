/**
 * Where a function under jit leaves tensors besides what it returns: gradients, and handles that it makes name another
 * tensor. A gradient is found at its leaf, also where it is another handle in each call.
 *
 * @module
 */
import { argOf, Storage } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { toposort, type UOp } from "../../uop/core/uop.ts";
import { isGone, isStale } from "../../uop/graph/lost.ts";
import { resolve } from "../../uop/graph/resolve.ts";
import { isMemory, shown } from "../../uop/graph/writes.ts";
import { frozenLeaves, gradLeaves, internals, type TensorBase } from "../handle/base.ts";
import { placeOf } from "../handle/claims.ts";
import { movedHandles, realizedBuffer, type RealizeTensor, realizeTensors } from "../realize.ts";
import { leavesOfTree, replaceTensors } from "./jit_arguments.ts";

/** A tensor of the class of `like` on a node. */
export function wrap(like: TensorBase, u: UOp): TensorBase {
  return internals.wrapView(like, u);
}

/** What a view that is realized names, as a tensor of its own. */
export function parted(t: TensorBase): TensorBase {
  const own = wrap(t, t.uop);
  internals.rename(own, t.uop);
  return own;
}

/** The storage of a tensor, if it is realized. */
export function madeOf(t: TensorBase | undefined): Storage | undefined {
  const node = t === undefined ? undefined : realizedBuffer(t.uop);
  return node === undefined ? undefined : argOf(node, Ops.BUFFER).storage;
}
/** The storage of a realized tensor. */
export function storageOf(t: TensorBase): Storage {
  return madeOf(t)!;
}

/** The storage that a handle names, or shows. */
export function shownBy(t: TensorBase): Storage | undefined {
  const { base } = shown(t.uop);
  return base.op === Ops.BUFFER ? argOf(base, Ops.BUFFER).storage : undefined;
}

/** Whether a tensor can never be real: it reads what has been overwritten. */
export function isLost(t: TensorBase): boolean {
  return madeOf(t) === undefined && isStale(t.uop);
}

/** Those that could be realized, and are not. */
export function pendingOf(tensors: readonly TensorBase[]): TensorBase[] {
  const lazy = tensors.filter((t) => madeOf(t) === undefined), stale = new Set<UOp>(), memo = new Map<UOp, UOp>();
  const roots = lazy.map((t) => resolve(t.uop, memo));
  for (const u of toposort(roots)) if (isGone(u) || (stale.size > 0 && u.src.some((s) => stale.has(s)))) stale.add(u);
  return lazy.filter((_, i) => !stale.has(roots[i]));
}

/** A place where a call leaves a tensor: a gradient, or a handle that is made to name another tensor. */
export interface Place {
  /** Whether it is a handle that stays, and is made to name another tensor. */
  readonly moves: boolean;
  read(): TensorBase | undefined;
  write(t: TensorBase | undefined): void;
}

/** The gradient of a leaf: another handle, or, if it moves, what is there made to name another tensor. */
class GradientPlace implements Place {
  constructor(readonly leaf: WeakRef<TensorBase>, readonly moves: boolean) {}
  read(): TensorBase | undefined {
    return this.leaf.deref()?.grad ?? undefined;
  }
  write(t: TensorBase | undefined): void {
    const leaf = this.leaf.deref();
    if (leaf === undefined) return;
    if (!this.moves) leaf.grad = t;
    else if (t !== undefined && leaf.grad) internals.rename(leaf.grad, t.uop);
  }
}

/** Whether a place is the gradient of `leaf`. */
export function isFilledAt(place: Place, leaf: TensorBase): boolean {
  return place instanceof GradientPlace && place.leaf.deref() === leaf;
}

class HandlePlace implements Place {
  readonly moves = true;
  constructor(private readonly handle: WeakRef<TensorBase>) {}
  read(): TensorBase | undefined {
    return this.handle.deref();
  }
  write(t: TensorBase | undefined): void {
    const handle = this.handle.deref();
    if (handle !== undefined && t !== undefined) internals.rename(handle, t.uop);
  }
}

/** The leaves, also frozen ones, and their gradients: lazy ones are realized, so that they can be inputs. */
export function placesNow(): Map<WeakRef<TensorBase>, TensorBase | undefined> {
  const places = new Map<WeakRef<TensorBase>, TensorBase | undefined>(), found: TensorBase[] = [];
  for (const ref of [...gradLeaves, ...frozenLeaves]) {
    const leaf = ref.deref();
    if (leaf === undefined) {
      frozenLeaves.delete(ref);
      continue;
    }
    const grad = leaf.grad ?? undefined;
    places.set(ref, grad);
    if (grad !== undefined) found.push(grad);
  }
  const lazy = pendingOf(found);
  if (lazy.length > 0) realizeTensors(lazy);
  return places;
}

/** What a call has left at a place. */
export interface Left {
  readonly place: Place;
  /** What was there before it. */
  readonly before: TensorBase | undefined;
  /** What is there now: the same object only if it is the same tensor. */
  readonly after: TensorBase | undefined;
}

/**
 * What is at the leaves, and at handles that were `replaced`, which comes with what these were before. Handles that the
 * call made, after `start` nodes, are its own: a gradient among them is another one in each call.
 */
export function placesLeft(
  leaves: ReadonlyMap<WeakRef<TensorBase>, TensorBase | undefined>,
  replaced: ReadonlyMap<TensorBase, TensorBase>,
  start: number,
): Left[] {
  const left: Left[] = [], handles = new Map(replaced);
  for (const [ref, found] of leaves) {
    const after = ref.deref()?.grad ?? undefined, moved = found === undefined ? undefined : replaced.get(found);
    // a gradient that was scaled or clipped: the next call finds another handle here
    if (found !== undefined) handles.delete(found);
    const old = after === undefined || after === found ? undefined : handles.get(after);
    if (old !== undefined && (madeOf(old)?.born ?? start) >= start) handles.delete(after!);
    left.push({
      place: new GradientPlace(ref, moved !== undefined && after === found),
      before: moved ?? found,
      after,
    });
  }
  for (const [handle, before] of handles) {
    left.push({ place: new HandlePlace(new WeakRef(handle)), before, after: handle });
  }
  return left;
}

/**
 * The result of a jit function that is called within another function: tensors that are state are copies, as they are
 * where it is called by itself. What was there before `start` nodes or `handles`, and is no argument's, is state.
 */
export function copyState(
  result: unknown,
  start: number,
  handles: number,
  args: readonly TensorBase[],
): unknown {
  const inputs = new Set(args.map((t) => placeOf(t.uop)));
  return replaceTensors(result, (t) => {
    const place = placeOf(shown(t.uop).base);
    const isOld = place instanceof Storage
      ? place.born < start || place.born === Infinity
      : isMemory(place) && place.arg !== undefined && place.seq < start;
    const isArgument = inputs.has(place) || internals.aliases(t).some((a) => args.includes(a));
    return (isOld || isOlder(t, handles)) && !isArgument ? (t as RealizeTensor).clone() : t;
  });
}

/** Whether a tensor is one of the first `handles`, or a view of one. */
function isOlder(t: TensorBase, handles: number): boolean {
  return internals.aliases(t).some((a) => internals.isBefore(a, handles));
}

/** Whether a tensor shows memory, or what will be, that is older than `start` nodes and no argument's. */
function isState(t: TensorBase, start: number, inputs: readonly Storage[]): boolean {
  let { base } = shown(t.uop);
  while (base.op === Ops.AFTER) base = shown(base.src[0]).base;
  if (base.op !== Ops.BUFFER) return isMemory(base) && base.arg !== undefined && base.seq < start;
  const { storage } = argOf(base, Ops.BUFFER);
  // what no node has become is the host's own values
  return (storage.born < start || storage.born === Infinity) && !inputs.includes(storage);
}

/**
 * Realizes a result, and `others` with it, in one schedule. Tensors that are state are copied: what a result says does not
 * change when that is written. Arguments, of storages `inputs`, and views that are all of them or were written stay what
 * they are; other views are values.
 */
export function realizeResult(
  result: unknown,
  others: readonly TensorBase[],
  start: number,
  inputs: readonly Storage[],
  args: readonly TensorBase[],
): unknown {
  const isArgument = (t: TensorBase): boolean => internals.aliases(t).some((a) => args.includes(a));
  // a value may have become the memory of an argument, and is none of its views
  const isValueOf = (t: TensorBase): boolean => {
    const storage = madeOf(t);
    return storage !== undefined && inputs.includes(storage);
  };
  const valuesOf = (tree: unknown): unknown =>
    replaceTensors(
      tree,
      // an argument that is a part of another tensor shows that, once it has been written
      (t) => !isArgument(t) && (isState(t, start, inputs) || isValueOf(t)) ? (t as RealizeTensor).clone() : t,
    );
  // a handle from outside that names something new by now
  const own = replaceTensors(
    result,
    (t) => isOlder(t, movedHandles.since) && !isArgument(t) ? (t as RealizeTensor).clone() : t,
  );
  const tensorsOf = (tree: unknown): readonly TensorBase[] => leavesOfTree(tree, "call a jit function").tensors;
  const values = valuesOf(own);
  realizeTensors([...tensorsOf(values), ...others]);
  const real = valuesOf(values); // a node that computes nothing has become what it was made of
  if (real !== values) realizeTensors(tensorsOf(real));
  const written = movedHandles.assigned;
  for (const t of tensorsOf(real)) if (!args.includes(t) && !written?.has(t)) internals.settle(t);
  return real;
}
