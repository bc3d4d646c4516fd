/**
 * What goes with a schedule. A write that is not done yet (an assignment, `setAt`, an op in place) and a clone are of what
 * memory held when they were asked for: the schedule that overwrites what one of them reads does it as well, for
 * assignments of one schedule are simultaneous. In: the nodes that are to be realized. Out: the writes and clones that go
 * with them. Where nothing is open, or all that is is realized anyway, this costs next to nothing.
 *
 * @module
 */
import { argOf, Storage } from "../core/args.ts";
import { Ops } from "../core/ops.ts";
import { mayHave, type UOp } from "../core/uop.ts";
import { latest, readNow, writeOf } from "./resolve.ts";
import { isMemory, memoryOf, openNodes, shown } from "./writes.ts";

/** A node, or the write that it is. */
type Named = UOp | number;

function nameOf(u: UOp): Named {
  return u.op === Ops.AFTER ? writeOf(u) : u;
}

/** What a schedule does to memory. */
class Effects {
  /** Its nodes. */
  private readonly nodes: Set<Named> = new Set();
  /** Those that are memory once it is done. */
  private readonly made: Set<Named> = new Set();
  /** What it overwrites: memory, and versions that it makes itself. */
  private readonly over: Set<Named | Storage> = new Set();

  constructor(private readonly isWritten: (storage: Storage) => boolean) {}

  /** Adds what is to be realized. */
  add(roots: readonly UOp[]): void {
    const { nodes, made, over } = this, stack = [...roots];
    for (const root of roots) {
      let u = latest(root);
      while (u.op === Ops.RESHAPE) u = latest(u.src[0]);
      made.add(nameOf(u));
    }
    while (stack.length > 0) {
      const u = readNow(stack.pop()!);
      const name = nameOf(u);
      if (nodes.has(name)) continue;
      nodes.add(name);
      if (isMemory(u)) made.add(name);
      if (u.op === Ops.AFTER) {
        const { base } = shown(u.src[0]), memory = memoryOf(base);
        over.add(base.op === Ops.BUFFER && memory instanceof Storage ? memory : nameOf(base));
      }
      for (const s of u.src) stack.push(s);
    }
  }

  /** Whether `u` is one of its nodes. */
  has(u: UOp): boolean {
    return this.nodes.has(nameOf(u));
  }

  /** Whether `u` reads what is overwritten, and nothing that has been overwritten, or freed, before. */
  meets(root: UOp): boolean {
    const { made, over, isWritten } = this, seen = new Set<UOp>(), stack = [root];
    let meets = false;
    while (stack.length > 0) {
      const u = readNow(stack.pop()!);
      if (seen.has(u)) continue;
      seen.add(u);
      if (u.op === Ops.BUFFER) {
        const { storage, version } = argOf(u, Ops.BUFFER);
        if (storage.version !== version || storage.disposedAt !== "") return false;
        meets ||= over.has(storage) || isWritten(storage);
        continue;
      }
      const name = nameOf(u);
      meets ||= over.has(name);
      if (made.has(name)) continue;
      // of where something is written nothing is read
      for (let i = u.op === Ops.STORE ? 1 : 0; i < u.src.length; i++) stack.push(u.src[i]);
    }
    return meets;
  }
}

const NONE: readonly UOp[] = [];
const never = (): boolean => false;

/** The writes before the `until`-th node that an open node made since comes after: they are as open as that. */
function writesBefore(u: UOp, until: number): readonly UOp[] {
  if (u.seq < until) return [u];
  const found: UOp[] = [], seen = new Set<UOp>(), stack = [u];
  while (stack.length > 0) {
    const x = latest(stack.pop()!);
    if (seen.has(x)) continue;
    seen.add(x);
    if (x.op === Ops.AFTER && x.seq < until) found.push(x);
    else stack.push(...x.src);
  }
  return found;
}

/**
 * The open writes and clones that read what a schedule of `nodes` overwrites, or storages of which `isWritten` is true,
 * and are no part of it. A value in the schedule that only happens to have been made by a write is one of its
 * intermediates. Of those that are not older than `until` nodes the writes that are.
 */
export function besideOf(
  nodes: readonly UOp[],
  isWritten: (storage: Storage) => boolean = never,
  until: number = Infinity,
): readonly UOp[] {
  let open = openNodes();
  if (open.length === 0 || (isWritten === never && !nodes.some((u) => mayHave(u, Ops.AFTER)))) return NONE;
  if (until !== Infinity) open = [...new Set(open.flatMap((u) => writesBefore(u, until)))];
  const roots = new Set(nodes.map((u) => shown(u).base));
  let left = open.filter((u) => !roots.has(u));
  if (left.length === 0) return NONE;
  const effects = new Effects(isWritten), found: UOp[] = [];
  effects.add(nodes);
  left = left.filter((u) => !effects.has(u));
  for (let before = -1; before !== found.length;) {
    before = found.length;
    left = left.filter((u) => {
      if (!effects.meets(u)) return true;
      found.push(u);
      effects.add([u]);
      return false;
    });
  }
  return found;
}
