/**
 * Writes that no schedule has done yet. Memory (a storage, or a node that will become one) has one newest version, which
 * an AFTER names; whoever writes next, through whatever view, writes after that. In: what a view shows, and AFTERs as
 * they are made; out: the newest version. The schedule tells what it has written.
 *
 * @module
 */
import { argOf, Storage } from "../core/args.ts";
import { mergingAll } from "../core/build_movement.ts";
import { isMovement, isView, Ops } from "../core/ops.ts";
import { bufferNode, mayHave, type UOp, uop } from "../core/uop.ts";
import { latest, moveLike } from "./resolve.ts";

/** Memory: a storage, or the node that will become one. */
type Memory = Storage | UOp;

/** A write that is not done: the last of them, and the version of the storage that the first one was to follow. */
export interface Newest {
  /** The last version. */
  readonly after: UOp;
  /** The version of the storage. */
  version: number;
}

const newest = new WeakMap<Memory, Newest>();
/** How often a storage has had one noted: while it stands, no storage has got a write that is not done. */
export const noted: { count: number } = { count: 0 };
/** By AFTER: the memory that it is a version of. */
const written = new WeakMap<UOp, Memory>();

/**
 * Memory with a write that is not done, and values that were made by one. What the running job has asked for is kept: a
 * WeakRef would keep it until the job ends, too, and also what is done long before that.
 */
const open: { readonly young: Set<Memory>; readonly old: Set<WeakRef<Memory>>; isWaiting: boolean } = {
  young: new Set(),
  old: new Set(),
  isWaiting: false,
};

/** Tells of memory that waits for a write, or of a value that a write has made; of such, instead of `before`. */
export function noteOpen(memory: Memory, before?: UOp): void {
  noted.count++;
  if (before !== undefined) open.young.delete(before);
  if (!(memory instanceof Storage) && !newest.has(memory) && !memory.src.some(mayRead)) return; // it reads none
  keepOpen(memory);
}

/** Whether a node may be computed from memory, or from what will be. */
function mayRead(u: UOp): boolean {
  return mayHave(u, Ops.BUFFER) || mayHave(u, Ops.CONTIGUOUS) || mayHave(u, Ops.COPY);
}

/** Tells of a clone: what it is a copy of may become memory later, and be written. */
export function noteClone(copy: UOp): void {
  noted.count++;
  keepOpen(copy);
}

function keepOpen(memory: Memory): void {
  open.young.add(memory);
  if (open.isWaiting) return;
  open.isWaiting = true;
  queueMicrotask(() => {
    open.isWaiting = false;
    openNodes();
    for (const m of open.young) open.old.add(new WeakRef(m));
    open.young.clear();
  });
}

/** What would be realized for memory that waits for a write; undefined where that is done. */
function openNode(memory: Memory): UOp | undefined {
  const u = newest.get(memory)?.after ?? (memory instanceof Storage ? undefined : memory);
  return u !== undefined && latest(u) === u ? u : undefined;
}

/** The last writes that are not done, and values that writes have made, as far as somebody may read them. */
export function openNodes(): UOp[] {
  const { young, old } = open, nodes: UOp[] = [];
  for (const m of young) {
    const u = openNode(m);
    if (u === undefined) young.delete(m);
    else nodes.push(u);
  }
  for (const ref of old) {
    const m = ref.deref(), u = m && openNode(m);
    if (u === undefined) old.delete(ref);
    else if (!young.has(m!)) nodes.push(u);
  }
  return nodes;
}

/** Forgets what is made of nodes from the `start`-th on, but for what is `kept`: nobody is to read it. */
export function forgetOpen(start: number, kept: ReadonlyMap<UOp, UOp>): void {
  for (const m of open.young) if (!(m instanceof Storage) && m.seq >= start && !kept.has(m)) open.young.delete(m);
}

/** Whether a view op shows each element of its source at most once, and nothing else. */
export function isAlias(op: Ops): boolean {
  return isView(op) && op !== Ops.EXPAND && op !== Ops.PAD && op !== Ops.SKEW;
}

/** A node as views, outermost first, of `base`, which is none. */
export interface Shown {
  readonly base: UOp;
  readonly steps: readonly UOp[];
}

/**
 * What `u` shows of what, also where a view has been realized into memory of its own: down to `over`, where that is below
 * it, else as far as there are views.
 */
export function shown(u: UOp, over?: UOp): Shown {
  const steps: UOp[] = [];
  let base = u;
  for (;;) {
    if (base === over) break;
    if (isAlias(base.op)) {
      steps.push(base);
      base = base.src[0];
    } else {
      const now = latest(base);
      if (now === base) break;
      base = now;
    }
  }
  return { base, steps };
}

/** Views, outermost first, of another node. */
export function showAs(steps: readonly UOp[], x: UOp): UOp {
  for (let i = steps.length - 1; i >= 0; i--) {
    const { op, dtype, src, arg } = steps[i], own = op === Ops.BITCAST || op === Ops.COMPLEX ? dtype : x.dtype;
    x = uop(op, own, src.length === 1 ? [x] : [x, ...src.slice(1)], arg);
  }
  return x;
}

/** The same views, folded as the builders do, and without what changes gradients alone. */
export function folded(u: UOp): UOp {
  const { base, steps } = shown(u);
  return mergingAll(() =>
    steps.reduceRight((x, step) => {
      if (step.op === Ops.DETACH || step.op === Ops.CONTIGUOUS_BACKWARD) return x;
      return isMovement(step.op) && step.op !== Ops.WINDOW ? moveLike(step, x) : showAs([step], x);
    }, base)
  );
}

/** Whether a node is memory, or will be, that can be written. */
export function isMemory(u: UOp): boolean {
  return u.op === Ops.BUFFER || u.op === Ops.AFTER || u.op === Ops.COPY ||
    (u.op === Ops.CONTIGUOUS && u.arg !== undefined);
}

/** The memory that a node is a version of. */
export function memoryOf(u: UOp): Memory {
  while (u.op === Ops.AFTER) {
    const known = written.get(u);
    if (known !== undefined) return known instanceof Storage ? known : memoryNow(known);
    u = shown(u.src[0]).base;
  }
  return memoryNow(u);
}

/** What a node that is memory has become. */
function memoryNow(u: UOp): Memory {
  const { base } = shown(u);
  return base.op === Ops.BUFFER ? argOf(base, Ops.BUFFER).storage : base;
}

/** Whether two nodes are versions of one memory. */
export function isSameMemory(a: UOp, b: UOp): boolean {
  return memoryOf(a) === memoryOf(b);
}

/** Whether two nodes are one, or one version of a storage. */
export function isSameVersion(a: UOp, b: UOp): boolean {
  if (a.op !== Ops.BUFFER || b.op !== Ops.BUFFER) return a === b;
  const own = argOf(a, Ops.BUFFER), other = argOf(b, Ops.BUFFER);
  return own.storage === other.storage && own.version === other.version;
}

/** The newest version of the memory of which `base` is one, not reshaped. */
export function newestOf(base: UOp): UOp {
  const memory = memoryOf(base), known = newest.get(memory);
  if (!(memory instanceof Storage)) return known?.after ?? base;
  if (known !== undefined) {
    const now = shown(known.after).base;
    if (now.op === Ops.AFTER) {
      if (known.version !== memory.version && follows(now, memory)) known.version = memory.version;
      if (known.version === memory.version) return now;
    }
    newest.delete(memory); // done, or overtaken
  }
  const isNewest = base.op === Ops.AFTER || argOf(base, Ops.BUFFER).version === memory.version;
  return isNewest ? base : bufferNode(memory);
}

/** Whether the first of these writes that is not done is to follow the present version of a storage. */
function follows(after: UOp, { version }: Storage): boolean {
  let u = after;
  while (u.op === Ops.AFTER) u = shown(u.src[0]).base;
  return u.op === Ops.BUFFER && argOf(u, Ops.BUFFER).version === version;
}

/** Makes `after`, a write to the memory of `base`, its newest version. */
export function noteWrite(base: UOp, after: UOp): void {
  const memory = memoryOf(base);
  const version = memory instanceof Storage ? newest.get(memory)?.version ?? memory.version : 0;
  written.set(after, memory);
  newest.set(memory, { after, version });
  noteOpen(memory);
}

/** What is known of writes to the memory of `base`, for {@linkcode takeBack}. */
export function writesTo(base: UOp): Newest | undefined {
  return newest.get(memoryOf(base));
}
/** Makes the writes to the memory of `base` what they were `before`. */
export function takeBack(base: UOp, before: Newest | undefined): void {
  const memory = memoryOf(base);
  if (before === undefined) newest.delete(memory);
  else newest.set(memory, before);
  noteOpen(memory);
}

/** The last write to a storage that is not done, if there is one. */
export function pendingWrite(storage: Storage): UOp | undefined {
  if (!newest.has(storage)) return undefined;
  const now = newestOf(bufferNode(storage));
  return now.op === Ops.AFTER ? now : undefined;
}

/** Tells that `u`, which may have been written to, is a storage now. */
export function moveWrites(u: UOp, storage: Storage): void {
  const known = newest.get(u);
  if (known === undefined) return;
  newest.delete(u);
  // by the time of the first write there was nothing but what `u` computes
  newest.set(storage, { after: known.after, version: -1 });
  noteOpen(storage);
}

/** Tells that some writes to a storage are done: they, and what they were computed from, are kept no longer. */
export function settleWrites(storage: Storage): void {
  const known = newest.get(storage);
  if (known !== undefined && shown(known.after).base.op === Ops.BUFFER) newest.delete(storage);
}
