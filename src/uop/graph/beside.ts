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
import { latest, readNow, untouched, writeOf } from "./resolve.ts";
import { isMemory, memoryOf, openNodes, shown } from "./writes.ts";

const NONE: readonly UOp[] = [];
const never = (): boolean => false;

/** A node, or the write that it is. */
type Named = UOp | number;

function nameOf(u: UOp): Named {
  return u.op === Ops.AFTER ? writeOf(u) : u;
}

/** What a schedule does to memory. */
export class Effects {
  /** Its nodes. */
  private readonly nodes: Set<Named> = new Set();
  /** Those that are memory once it is done. */
  private readonly made: Set<Named> = new Set();
  /** What it overwrites: memory, and versions that it makes itself. */
  private readonly over: Set<Named | Storage> = new Set();

  /** @param isWritten whether memory is overwritten by what is no part of its graph */
  constructor(private readonly isWritten: (storage: Storage) => boolean = never) {}

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

  /** Of nodes those that read what is overwritten, and nothing that has been overwritten, or freed, before; and those that do. */
  meeting(roots: readonly UOp[]): { readonly met: UOp[]; readonly lost: UOp[] } {
    const { made, over, isWritten } = this, verdicts = new Map<UOp, number>(), stack = roots.map(readNow);
    const sourcesOf = (u: UOp): readonly UOp[] =>
      made.has(nameOf(u)) ? NONE : u.op === Ops.STORE ? u.src.slice(1) : u.src; // where it writes it reads nothing
    while (stack.length > 0) {
      const u = stack[stack.length - 1], depth = stack.length;
      if (!verdicts.has(u)) {
        const part = u.op === Ops.SHRINK ? untouched.below(u, readNow) : undefined;
        const sources = part === undefined ? sourcesOf(u) : NONE;
        let verdict = over.has(nameOf(u)) || (part !== undefined && (over.has(part) || isWritten(part))) ? MEETS : 0;
        for (const s of sources) {
          const known = verdicts.get(readNow(s));
          if (known === undefined) stack.push(readNow(s));
          else verdict |= known;
        }
        if (stack.length > depth) continue;
        if (u.op === Ops.BUFFER) {
          const { storage, version } = argOf(u, Ops.BUFFER);
          if (storage.version !== version || storage.disposedAt !== "") verdict = LOST;
          else if (over.has(storage) || isWritten(storage)) verdict = MEETS;
        }
        verdicts.set(u, verdict);
      }
      stack.pop();
    }
    const of = (u: UOp): number => verdicts.get(readNow(u))!;
    return { met: roots.filter((u) => of(u) === MEETS), lost: roots.filter((u) => (of(u) & LOST) !== 0) };
  }
}

/** What is known of a node: it reads what is overwritten; it reads what has been. */
const MEETS = 1, LOST = 2;

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
  for (;;) {
    const { met } = effects.meeting(left);
    if (met.length === 0) return found;
    found.push(...met);
    effects.add(met);
    left = left.filter((u) => !met.includes(u));
  }
}
