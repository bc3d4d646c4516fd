/**
 * Whose memory is whose while functions under `scope` overlap. A scope lists the storages that its function and what that
 * awaits gave memory; at its end it frees those that were made in it. In a synchronous scope that is what became of nodes
 * made since it began; beside a pending one others make nodes, too, so then it is noted who makes a handle on what.
 *
 * @module
 */
import { currentHold, Hold } from "../helpers/async_local.ts";
import type { Storage } from "../uop/core/args.ts";
import { nodesMade, type UOp } from "../uop/core/uop.ts";

/** Storages that got memory: large ones only as long as somebody else holds them. */
export type Tracked = (Storage | WeakRef<Storage>)[];

/** A scope that has not ended; one without a list keeps memory out of the scopes around it. */
export class ScopeHold extends Hold {
  /** The number of the first node that is made in it. */
  readonly start: number = nodesMade();
  /** That of the first node which others may have made: where it awaits for the first time. */
  awaitedAt: number = Infinity;
  /** Tensors made before it that were pointed at other nodes in it, by their numbers: they keep what they need. */
  readonly older: Map<Handle, number> = new Map();
  /** @param made gets each storage that gets memory @param handles how many handles there were when it began */
  constructor(readonly made: Tracked | undefined, readonly handles: number = 0) {
    super(currentHold());
  }
}

/** A tensor, as far as this module knows it. */
interface Handle {
  readonly uop: UOp;
}

/** The async scopes that have not ended. */
export const pendingScopes: Set<ScopeHold> = new Set();

/** The innermost scope that holds here. */
export function currentScope(): ScopeHold | undefined {
  return scopeOf(currentHold());
}
function scopeOf(hold: Hold | undefined): ScopeHold | undefined {
  while (hold !== undefined && !(hold.isOpen && hold instanceof ScopeHold)) hold = hold.outer;
  return hold;
}

/** The scope around `hold`, which is to free what that leaves. */
export function scopeAround(hold: ScopeHold): ScopeHold | undefined {
  return scopeOf(hold.outer);
}

/** Notes that a handle, the `serial`-th one, was pointed at another node in `scope`, if it is older than that. */
export function notePointed(t: Handle, serial: number, scope: ScopeHold | undefined): void {
  if (scope?.made !== undefined && serial < scope.handles) scope.older.set(t, serial);
}

/** By node that handles name, or by what it became: the scope that they were all made in; null where there is none. */
let owners = new WeakMap<UOp | Storage, ScopeHold | null>();

/** The innermost scope that both are in. */
function common(a: ScopeHold | null, b: ScopeHold | null): ScopeHold | null {
  for (let x: Hold | undefined = a ?? undefined; x !== undefined; x = x.outer) {
    if (!(x instanceof ScopeHold)) continue;
    for (let y: Hold | undefined = b ?? undefined; y !== undefined; y = y.outer) if (x === y) return x;
  }
  return null;
}

/** The scope that a node or storage belongs to, as far as it was noted or nobody else could have made it. */
function ownerOf(place: UOp | Storage): ScopeHold | null | undefined {
  const known = owners.get(place);
  if (known !== undefined) return known;
  const at = "seq" in place ? place.seq : place.born;
  for (const s of pendingScopes) if (s.start <= at && at < s.awaitedAt) return s;
  return undefined;
}

/** Notes that a handle on `place` is made here. To be called while {@linkcode pendingScopes} has any. */
export function noteHandle(place: UOp | Storage): void {
  const known = ownerOf(place), here = currentScope() ?? null;
  owners.set(place, known === undefined ? here : common(known, here));
}

/** Notes that a node became a storage. To be called while {@linkcode pendingScopes} has any. */
export function noteBecame(node: UOp, storage: Storage): void {
  const owner = ownerOf(node);
  if (owner === undefined) return;
  const known = owners.get(storage);
  owners.set(storage, known === undefined ? owner : common(known, owner));
}

/** Whether a storage on the list of a scope was made in it, by it or by scopes within. */
export function belongsTo(storage: Storage, scope: ScopeHold): boolean {
  if (storage.born < scope.start) return false;
  const owner = owners.get(storage);
  return owner === undefined || (owner !== null && common(owner, scope) === scope);
}

/** An async scope begins to wait. */
export function addPending(scope: ScopeHold): void {
  scope.awaitedAt = nodesMade();
  pendingScopes.add(scope);
}

/** A scope ends. */
export function removePending(scope: ScopeHold): void {
  if (pendingScopes.delete(scope) && pendingScopes.size === 0) owners = new WeakMap();
}
