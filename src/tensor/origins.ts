/**
 * The graphs of realized tensors, for gradients. Reading a tensor replaces its node by a buffer; what it was computed from
 * stays known to graphs that were built before, and to the tensor itself until its gradients are used. What is built on it
 * later starts from its values.
 *
 * @module
 */
import { Ops } from "../uop/ops.ts";
import { latest } from "../uop/resolve.ts";
import type { UOp } from "../uop/uop.ts";
import { gradLeaves, type TensorBase } from "./base.ts";

/** What stands for a handle without keeping it alive. */
const tokens = new WeakMap<TensorBase, object>();
const origins = new WeakMap<object, UOp>();

/** The object that stands for a handle. */
export function tokenOf(t: TensorBase): object {
  let token = tokens.get(t);
  if (token === undefined) tokens.set(t, token = {});
  return token;
}

/** The storage that a node is a shape of, or that it will have. */
function ownerOf(u: UOp): UOp {
  let owner = latest(u);
  while (owner.op === Ops.RESHAPE) owner = latest(owner.src[0]);
  return owner;
}

/** The storages of tensors. */
export function ownersOf(tensors: readonly TensorBase[]): Set<UOp> {
  return new Set(tensors.map((t) => ownerOf(t.uop)));
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

/** The realized nodes from `root` on through which gradients go to `targets`; undefined if none go at all. */
export function realizedWays(root: UOp, targets: ReadonlySet<UOp>): Set<UOp> | undefined {
  const ways = new Map<UOp, boolean>(), realized = new Set<UOp>(), stack = [root];
  while (stack.length > 0) {
    const u = stack[stack.length - 1];
    const ends = u.op === Ops.DETACH || !u.dtype.isFloat || (u.op === Ops.AFTER && u.becomes !== undefined);
    const open = ends ? [] : u.src.filter((s) => !ways.has(s));
    stack.push(...open);
    if (open.length > 0) continue;
    stack.pop();
    const passes = !ends && u.src.some((s) => ways.get(s));
    if (passes && u.becomes !== undefined) realized.add(u);
    ways.set(u, passes || targets.has(ownerOf(u)));
  }
  return ways.get(root) ? realized : undefined;
}

/** Keeps the graphs of `tensors`, which are about to be realized, if they lead to what requires gradients. */
export function keepOrigins(tensors: readonly TensorBase[]): void {
  if (gradLeaves.size === 0) return;
  let leaves: Set<UOp> | undefined;
  for (const t of tensors) {
    const u = t.uop;
    if (u.src.length === 0 || u.op === Ops.AFTER || t.requiresGrad) continue;
    if (realizedWays(u, leaves ??= ownersOf(liveLeaves())) !== undefined) origins.set(tokenOf(t), u);
  }
}

/** The node to differentiate: that of which the tensor was realized, if it is known and the tensor still names its values. */
export function originOf(t: TensorBase): UOp {
  const origin = origins.get(tokenOf(t)), now = t.uop;
  return origin !== undefined && latest(origin) === now ? origin : now;
}

/** Forgets the graph of the handle that `token` stands for. */
export function forgetOrigin(token: object): void {
  origins.delete(token);
}
