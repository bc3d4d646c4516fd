/**
 * Where realized values come from, for gradients. Reading a tensor replaces its node by a buffer; what that buffer was
 * computed from stays known as long as the buffer does, so that reading changes no gradient. An optimizer's step ends the
 * graphs of its time: what was computed with the weights before it is values from then on.
 *
 * @module
 */
import type { Line } from "../../helpers/stack.ts";
import { argOf, type BufferArg, type Storage } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import type { UOp } from "../../uop/core/uop.ts";
import { extentsOf } from "../../uop/graph/extent.ts";
import { latest, unlabeled, unshaped, viewsOfRealized } from "../../uop/graph/resolve.ts";
import { gradLeaves, type TensorBase } from "../handle/base.ts";
import { forgetLineage, keepLineage } from "./lineage.ts";

/** What a buffer was computed as, and how many writes to leaves there had been when it led to one. */
interface Origin {
  readonly node: UOp;
  seen: number;
}

/** A weight that a graph reads and that has another value now: the line of the write. */
interface Overwritten {
  readonly writtenAt: Line | undefined;
  /** By an optimizer, whose step ends the graphs before it. */
  readonly stepped: boolean;
}

/** By BUFFER; where sizes are symbolic, by the node that says so. */
const origins = new WeakMap<UOp, Origin>();
/** What is known of an origin that has been forgotten because its weights were overwritten. */
const lost = new WeakMap<UOp, Overwritten>();

/** Tensors to differentiate with respect to. */
export interface Targets {
  /** The storages that they are shapes of, or that they will have. */
  readonly owners: ReadonlySet<UOp>;
  /** Those of them that have memory: a BUFFER, or a write to one. */
  readonly byStorage: ReadonlyMap<Storage, UOp>;
  /** How often their memory has been written. */
  readonly writes: number;
}

/** How gradients go from a node to targets. */
export interface Ways {
  /** Whether they reach any. */
  readonly open: boolean;
  /** The realized nodes on the way. */
  readonly unread: ReadonlySet<UOp>;
  /** The buffers on the way, and what each was computed as; what another one is computed from comes first. */
  readonly behind: ReadonlyMap<UOp, UOp>;
  /** A read of an earlier value of a target. */
  readonly overwritten: Overwritten | undefined;
}

function versionOf(buffer: UOp): BufferArg {
  return argOf(buffer, Ops.BUFFER);
}

/** The BUFFER that an owner is, or writes to. */
function bufferBelow(owner: UOp): UOp | undefined {
  while (owner.op === Ops.AFTER) owner = unshaped(owner.src[0]);
  return owner.op === Ops.BUFFER ? owner : undefined;
}

/** Tensors as targets. */
export function targetsOf(tensors: readonly TensorBase[]): Targets {
  const owners = new Set<UOp>(), byStorage = new Map<Storage, UOp>();
  for (const t of tensors) {
    const owner = unshaped(t.uop), buffer = bufferBelow(owner);
    owners.add(owner);
    if (buffer !== undefined) byStorage.set(versionOf(buffer).storage, owner);
  }
  let writes = 0;
  for (const storage of byStorage.keys()) writes += storage.version;
  return { owners, byStorage, writes };
}

/** The tensors that require gradients. */
export function liveLeaves(): TensorBase[] {
  const found: TensorBase[] = [];
  for (const ref of gradLeaves) {
    const leaf = ref.deref();
    if (leaf === undefined) gradLeaves.delete(ref);
    else found.push(leaf);
  }
  return found;
}

/** Where the origin of what `u` has become is kept. */
export function originPlace(u: UOp): UOp | undefined {
  const now = latest(u), base = unlabeled(now);
  if (base.op !== Ops.BUFFER) return undefined;
  return extentsOf(now) === null ? base : now;
}

/** Whether origins may be kept at a node. */
function isPlace(u: UOp): boolean {
  return u.op === Ops.BUFFER || u.op === Ops.WINDOW || isViewApart(u);
}

/** Whether a node is memory as a view that turns back shows it: of what that is a view, it says by itself. */
function isViewApart(u: UOp): boolean {
  return u.op === Ops.RESHAPE && argOf(u, Ops.RESHAPE).apart > 0;
}

/** A walk from nodes down to targets, also behind what is realized. */
class Walk {
  readonly unread = new Set<UOp>();
  readonly behind = new Map<UOp, UOp>();
  /** Nodes that are not realized yet, on the way. */
  readonly pending: UOp[] = [];
  private readonly open = new Map<UOp, boolean>();
  private readonly stale = new Map<UOp, Overwritten>();
  /** By RESHAPE, what it is a shape of: of many shapes each looks down to the next alone. */
  private readonly shaped = new Map<UOp, UOp>();
  /** By AFTER, the BUFFER that it writes to; undefined where there is none yet. */
  private readonly below = new Map<UOp, UOp | undefined>();

  /**
   * @param all whether the targets are all leaves: then origins that lead to none of their values are forgotten
   * @param brief whether it is about what is not realized yet: all of that is visited, and origins are good enough that
   * have led to a leaf since the last write to one
   */
  constructor(private readonly targets: Targets, private readonly all: boolean, private readonly brief = false) {}

  /** Whether a gradient goes from `root` to a target. */
  visit(root: UOp): boolean {
    const { open } = this, stack = [root];
    while (stack.length > 0) {
      const u = stack[stack.length - 1], depth = stack.length;
      if (!open.has(u)) {
        const sources = this.sourcesOf(u);
        for (const s of sources) if (!open.has(s)) stack.push(s);
        if (this.brief && u.becomes === undefined && sources !== u.src) {
          for (const s of u.src) if (!open.has(s)) stack.push(s);
        }
        if (stack.length > depth) continue;
        this.settle(u, sources);
      }
      stack.pop();
    }
    return open.get(root)!;
  }

  /** Puts where it came to into a set. */
  placesTo(set: Set<UOp>): void {
    for (const u of this.open.keys()) if (isPlace(u) && !isViewApart(u)) set.add(u);
  }

  /** A read of an earlier value of a target below `root`. */
  overwritten(root: UOp): Overwritten | undefined {
    return this.stale.get(root);
  }

  /** What `u` hands its gradient on to. */
  private sourcesOf(u: UOp): readonly UOp[] {
    if (u.op === Ops.STORE) return [u.src[1]];
    if (u.op === Ops.CUSTOM) return u.src;
    if (u.op === Ops.DETACH || !u.dtype.isFloat) return [];
    if (u.op === Ops.AFTER && this.writesTarget(u)) {
      if (u.becomes !== undefined) return [unshaped(u)];
      if (this.targets.owners.has(u)) return [];
    }
    const origin = isPlace(u) ? origins.get(u) : undefined;
    if (origin === undefined) return u.src;
    return this.brief && origin.seen === this.targets.writes ? [] : [origin.node];
  }

  /** Decides on `u` once its sources are decided. */
  private settle(u: UOp, sources: readonly UOp[]): void {
    const { open, stale } = this, owner = this.ownerOf(u), origin = isPlace(u) ? origins.get(u) : undefined;
    let passes = false, old = isPlace(u) ? lost.get(u) : undefined;
    if (owner.op === Ops.BUFFER) old ??= this.replaced(owner);
    for (const s of sources) {
      passes ||= open.get(s)!;
      if (stale.size > 0 && (old === undefined || old.stepped)) old = stale.get(s) ?? old;
    }
    if (passes && u.becomes !== undefined) this.unread.add(u);
    else if (passes && origin !== undefined) this.behind.set(u, origin.node);
    else if (passes || old !== undefined) this.pending.push(u);
    if (origin !== undefined && passes && this.all) origin.seen = this.targets.writes;
    if (!passes && old !== undefined && (origin !== undefined || u.becomes !== undefined)) {
      if (this.all && origin !== undefined) this.forget(u, old);
      if (old.stepped) old = undefined; // a value from then on
    }
    if (old !== undefined) stale.set(u, old);
    open.set(u, passes || (origin !== undefined && sources.length === 0) || this.isTarget(owner));
  }

  /** What a node is, under any shape; what is below it has been asked for before. */
  private ownerOf(u: UOp): UOp {
    if (u.op !== Ops.RESHAPE || u.becomes !== undefined) return unshaped(u);
    const owner = this.shaped.get(u.src[0]) ?? unshaped(u.src[0]);
    this.shaped.set(u, owner);
    return owner;
  }

  /** Forgets an origin that leads to earlier values only. */
  private forget(place: UOp, old: Overwritten): void {
    origins.delete(place);
    if (!old.stepped) lost.set(place, old);
  }

  /** Whether a node is a write to a target, under any shape. */
  isTargetWrite(u: UOp): boolean {
    while (u.op === Ops.RESHAPE) {
      const owner = this.shaped.get(u);
      if (owner !== undefined && owner.op !== Ops.AFTER && owner.op !== Ops.BUFFER) return false; // it is computed
      u = u.src[0];
    }
    return u.op === Ops.AFTER && this.writesTarget(u);
  }

  /** Whether an AFTER writes to a target. */
  private writesTarget(u: UOp): boolean {
    const { owners, byStorage } = this.targets;
    if (owners.has(u)) return true;
    if (byStorage.size === 0) return false;
    const buffer = this.bufferBelow(unshaped(u));
    return buffer !== undefined && byStorage.has(versionOf(buffer).storage);
  }

  /** As the function of that name; of many writes to one tensor each looks down to the next alone. */
  private bufferBelow(owner: UOp): UOp | undefined {
    const { below } = this, passed: UOp[] = [];
    while (owner.op === Ops.AFTER && !below.has(owner)) {
      passed.push(owner);
      owner = unshaped(owner.src[0]);
    }
    const buffer = owner.op === Ops.BUFFER ? owner : below.get(owner);
    for (const u of passed) below.set(u, buffer);
    return buffer;
  }

  private isTarget(owner: UOp): boolean {
    const { owners, byStorage } = this.targets;
    if (owners.has(owner) || owner.op !== Ops.BUFFER) return owners.has(owner);
    const { storage, version } = versionOf(owner), own = byStorage.get(storage);
    return own?.op === Ops.BUFFER && versionOf(own).version === version;
  }

  /** Set if a BUFFER is an earlier value of a target. */
  private replaced(buffer: UOp): Overwritten | undefined {
    const { storage, version } = versionOf(buffer), owner = this.targets.byStorage.get(storage);
    if (owner === undefined || (owner.op === Ops.BUFFER && versionOf(owner).version <= version)) return undefined;
    return {
      writtenAt: owner.op === Ops.AFTER ? owner.line : storage.writtenAt,
      stepped: version <= storage.stepped,
    };
  }
}

/** While `set` is given, the nodes that a gradient may come to are put into it. */
export const reached: { set: Set<UOp> | undefined } = { set: undefined };

/** How gradients go from `root` to `targets`, which are `all` leaves or some tensors. */
export function waysTo(root: UOp, targets: Targets, all: boolean): Ways {
  const walk = new Walk(targets, all), open = walk.visit(root);
  if (reached.set !== undefined) walk.placesTo(reached.set);
  return { open, unread: walk.unread, behind: walk.behind, overwritten: walk.overwritten(root) };
}

/** Realizes `tensors`, and nodes `beside` them, by `realize`, and remembers what they were computed from if it leads to leaves. */
export function keepOrigins(tensors: readonly TensorBase[], beside: readonly UOp[], realize: () => void): void {
  const roots = [...tensors.map((t) => t.uop), ...beside];
  if (gradLeaves.size === 0) return keepLineage(roots, realize);
  const targets = targetsOf(liveLeaves()), walk = new Walk(targets, true, true);
  // weights and an optimizer's state are written: no gradient goes through that
  for (const t of tensors) if (t.requiresGrad === undefined || unshaped(t.uop).op !== Ops.AFTER) walk.visit(t.uop);
  // an optimizer's step ends the graphs of what is written beside it
  const isStep = beside.length > 0 && [...targets.byStorage.keys()].some((s) => s.stepped >= s.version);
  for (const u of beside) if (!isStep && !walk.isTargetWrite(u)) walk.visit(u);
  const kept = walk.pending.filter((u) => !walk.isTargetWrite(u));
  keepLineage(roots, realize);
  for (const u of kept) {
    let place = u.becomes === undefined ? undefined : originPlace(u);
    if (place === undefined) continue;
    const shown = viewsOfRealized(u)?.below;
    if (shown !== undefined && originPlace(shown) === place) {
      place = latest(u);
      if (!isViewApart(place)) continue; // what it is a view of says it
    }
    const old = walk.overwritten(u);
    if (walk.visit(u)) origins.set(place, { node: u, seen: targets.writes });
    else if (old?.stepped === false) lost.set(place, old);
  }
}

/** Whether a gradient may go on from what `u` has become to leaves that it was computed from. */
export function hasOrigin(u: UOp): boolean {
  const place = originPlace(u);
  return place !== undefined && origins.has(place);
}

/** Forgets what `u` was computed as. */
export function forgetOrigin(u: UOp): void {
  const place = originPlace(u);
  forgetLineage(u);
  if (place !== undefined) origins.delete(place);
}

/** Whether an optimizer is about to replace the present value of a weight. */
export function isStepped(t: TensorBase): boolean {
  const buffer = bufferBelow(unshaped(t.uop));
  return buffer !== undefined && versionOf(buffer).storage.stepped >= versionOf(buffer).storage.version;
}

/** Ends the graphs that read the present values of weights, which an optimizer is to replace. */
export function endGraphs(weights: readonly TensorBase[]): void {
  for (const t of weights) {
    const buffer = bufferBelow(unshaped(t.uop));
    if (buffer !== undefined) versionOf(buffer).storage.stepped = versionOf(buffer).version;
  }
}
