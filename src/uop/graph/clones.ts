/**
 * Clones that are not real yet. A clone is what its memory holds when it is asked for: a schedule that overwrites that
 * memory makes the clone as well. In: the nodes that are to be realized. Out: the clones that go with them.
 *
 * @module
 */
import { argOf, Storage } from "../core/args.ts";
import { Ops } from "../core/ops.ts";
import type { UOp } from "../core/uop.ts";
import { latest } from "./resolve.ts";
import { memoryOf, noted, shown } from "./writes.ts";

const clones = new Set<WeakRef<UOp>>();

/** Tells of `copy`, a clone. One of values that are not in memory, or wait for a write, is computed when it is read. */
export function noteClone(copy: UOp): void {
  const { base, steps } = shown(copy.src[0]);
  if (base.op !== Ops.BUFFER || steps.some((s) => s.src.length > 1)) return;
  clones.add(new WeakRef(copy));
  noted.count++;
}

/** The clones of storages of which `isWritten` is true. */
export function clonesOf(isWritten: (storage: Storage) => boolean): UOp[] {
  const list: UOp[] = [];
  for (const ref of clones) {
    const u = ref.deref(), base = u && shown(u.src[0]).base;
    const of = base?.op === Ops.BUFFER ? argOf(base, Ops.BUFFER) : undefined;
    const isOpen = of !== undefined && of.version === of.storage.version && of.storage.disposedAt === "";
    if (u === undefined || latest(u) !== u || !isOpen) clones.delete(ref);
    else if (isWritten(of.storage)) list.push(u);
  }
  return list;
}

/** The clones of what a schedule of `nodes` overwrites, but for those that are in it. */
export function clonesBeside(nodes: readonly UOp[]): UOp[] {
  if (clones.size === 0 || clonesOf(() => true).length === 0) return [];
  const written = new Set<Storage>(), seen = new Set<UOp>(), stack = [...nodes];
  while (stack.length > 0) {
    const u = latest(stack.pop()!);
    if (seen.has(u)) continue;
    seen.add(u);
    const memory = u.op === Ops.AFTER ? memoryOf(u) : undefined;
    if (memory instanceof Storage) written.add(memory);
    stack.push(...u.src);
  }
  return clonesOf((storage) => written.has(storage)).filter((u) => !seen.has(u));
}
