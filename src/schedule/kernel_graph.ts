/**
 * Kernels and what orders them. A kernel reads versions of entries and writes the next; readers of a version come after
 * its writer and before the writer of the next. Kernels with the same loops are merged into one with several outputs
 * where no other kernel must run between them.
 *
 * @module
 */
import { CycleError } from "../helpers/errors.ts";
import type { Line } from "../helpers/stack.ts";
import type { ParamArg } from "../uop/args.ts";
import { Ops } from "../uop/ops.ts";
import { rangesOf } from "../uop/ranges.ts";
import { substitute } from "../uop/rewrite.ts";
import { sameArray } from "../helpers/math.ts";
import { vmax, vmin } from "../uop/bounds.ts";
import { toposort, type UOp } from "../uop/uop.ts";

/** One version of one entry, as a number. */
export type VersionKey = number;

/** More writes than one schedule can hold: what separates the versions of one entry from those of the next. */
const MAX_VERSIONS = 2 ** 24;

/** Packs entry and version; the next version is one more. */
export function versionKey(entry: number, version: number): VersionKey {
  return entry * MAX_VERSIONS + version;
}
/** The entry of a packed version. */
export function entryOfKey(key: VersionKey): number {
  return Math.floor(key / MAX_VERSIONS);
}

/** A kernel or copy before ordering. */
export interface Node {
  readonly kind: "kernel" | "copy" | "fill" | "empty";
  readonly device: string;
  /** Kernel-level STOREs (PARAM slot = entry id); empty for copies and fills. */
  stores: UOp[];
  reads: Set<VersionKey>;
  /** Versions it makes. */
  writes: VersionKey[];
  /** The user's line, for errors about assignments. */
  line: Line | undefined;
  /** Position in the graph's order of the node that it computes, for the user's line of each schedule. */
  readonly at: number | undefined;
  /** The constant that a fill writes. */
  readonly fillValue?: UOp;
}

/** Sources of the edges into each node: what must run before it. */
function predecessors(nodes: readonly Node[]): Set<number>[] {
  const writer = new Map<VersionKey, number>();
  nodes.forEach((n, i) => {
    for (const w of n.writes) {
      const other = writer.get(w);
      if (other !== undefined && other !== i) {
        throw new CycleError([nodes[other], n].map(({ line }) => String(line ?? "an unknown line")));
      }
      writer.set(w, i);
    }
  });
  const before = nodes.map(() => new Set<number>());
  nodes.forEach((n, i) => {
    for (const r of n.reads) {
      const made = writer.get(r);
      if (made !== undefined && made !== i) before[i].add(made);
      const next = writer.get(r + 1);
      if (next !== undefined && next !== i) before[next].add(i);
    }
    for (const w of n.writes) {
      const made = writer.get(w - 1);
      if (made !== undefined && made !== i && entryOfKey(w - 1) === entryOfKey(w)) before[i].add(made);
    }
  });
  return before;
}

/** Order of the nodes, stable by position. @throws {CycleError} */
export function orderNodes(nodes: readonly Node[]): number[] {
  const before = predecessors(nodes);
  const after: number[][] = nodes.map(() => []);
  const missing = before.map((b, i) => {
    for (const j of b) after[j].push(i);
    return b.size;
  });
  const ready: number[] = [];
  missing.forEach((m, i) => m === 0 && ready.push(i));
  const out: number[] = [];
  // positions are in source-before-user order; the smallest ready one keeps that order
  while (ready.length > 0) {
    let best = 0;
    for (let i = 1; i < ready.length; i++) if (ready[i] < ready[best]) best = i;
    const i = ready[best];
    ready[best] = ready[ready.length - 1];
    ready.pop();
    out.push(i);
    for (const j of after[i]) if (--missing[j] === 0) ready.push(j);
  }
  if (out.length < nodes.length) {
    const done = new Set(out);
    const stuck = nodes.filter((n, i) => !done.has(i) && n.line !== undefined).map((n) => String(n.line));
    throw new CycleError(stuck.length > 0 ? [...new Set(stuck)] : ["an unknown line"]);
  }
  return out;
}

/** The loads of PARAM `entry` in an expression. */
export function loadsOf(root: UOp, entry: number): UOp[] {
  return toposort(root).filter((u) =>
    u.op === Ops.LOAD && u.src[0].src[0].op === Ops.PARAM && (u.src[0].src[0].arg as ParamArg).slot === entry
  );
}

function hasReduce(store: UOp): boolean {
  return toposort(store).some((u) => u.op === Ops.REDUCE);
}

/** A candidate group: the loops of its stores as a key. */
function loopsKey(n: Node): string | undefined {
  if (n.kind !== "kernel" || n.stores.some(hasReduce)) return undefined;
  const at = n.stores[0].src[0].src[1];
  return `${n.device} ${at.hash}`;
}

/**
 * Merges kernels of equal loops without reduces, greedily in order, where they share an input or feed each other
 * element by element, no other kernel stands between them, and the result takes at most `maxBuffers` buffers.
 */
export function mergeOutputs(nodes: Node[], maxBuffers: (device: string) => number): Node[] {
  let live = nodes.slice();
  const groups = new Map<string, Node[]>();
  const writer = new Map<VersionKey, Node>();
  for (const n of nodes) {
    const before = n.kind === "kernel" && n.writes.length === 1 ? writer.get(n.writes[0] - 1) : undefined;
    if (before !== undefined && loopsKey(before) !== undefined && loopsKey(n) !== undefined) {
      const made = tryMergeWrites(before, n, live);
      if (made !== undefined) {
        Object.assign(before, made);
        writer.set(n.writes[0], before);
        live = live.filter((x) => x !== n);
        continue;
      }
    }
    for (const w of n.writes) writer.set(w, n);
    const key = loopsKey(n);
    if (key === undefined) continue;
    let list = groups.get(key);
    if (list === undefined) groups.set(key, list = []);
    let merged = false;
    for (const g of list) {
      const made = tryMerge(g, n, live, maxBuffers(n.device));
      if (made === undefined) continue;
      g.stores = made.stores;
      g.reads = made.reads;
      g.writes = made.writes;
      g.line ??= n.line;
      live = live.filter((x) => x !== n);
      for (const w of n.writes) writer.set(w, g);
      merged = true;
      break;
    }
    if (!merged) list.push(n);
  }
  return live;
}

/** True when some third node must run after one of `a`, `b` and before the other. */
function separated(a: number, b: number, before: readonly Set<number>[]): boolean {
  const reach = (from: number, to: number): boolean => {
    const seen = new Set<number>();
    const stack = [...before[from]].filter((i) => i !== to);
    while (stack.length > 0) {
      const i = stack.pop()!;
      if (seen.has(i)) continue;
      seen.add(i);
      for (const j of before[i]) {
        if (j === to) return true;
        stack.push(j);
      }
    }
    return false;
  };
  return reach(a, b) || reach(b, a);
}

/** The part of a buffer that a store may touch, in elements. */
function extent(store: UOp): readonly [number, number] {
  const at = store.src[0].src[1];
  return [vmin(at), vmax(at)];
}

/**
 * Two kernels with the same loops that write one entry after each other, in parts that do not overlap (or are the same:
 * then the later one stands): one kernel, if nobody reads the version between them.
 */
function tryMergeWrites(
  g: Node,
  n: Node,
  live: readonly Node[],
): Pick<Node, "stores" | "reads" | "writes"> | undefined {
  if (n.writes.length !== 1 || n.stores.length !== 1) return undefined;
  const [w] = n.writes, e = entryOfKey(w), [store] = n.stores;
  if (!g.writes.includes(w - 1) || g.writes.some((x) => entryOfKey(x) !== e)) return undefined;
  if ([...n.reads].some((r) => entryOfKey(r) === e)) return undefined;
  if (live.some((x) => x !== g && x.reads.has(w - 1))) return undefined;
  if (!sameArray(rangesOf(store.src[0]), rangesOf(g.stores[0].src[0]))) return undefined;
  const [low, high] = extent(store);
  const kept = g.stores.filter((s) => s.src[0] !== store.src[0]);
  for (const s of kept) {
    const [a, b] = extent(s);
    if (a <= high && low <= b) return undefined;
  }
  if (separated(live.indexOf(g), live.indexOf(n), predecessors(live))) return undefined;
  return { stores: [...kept, store], reads: new Set([...g.reads, ...n.reads]), writes: [...g.writes, w] };
}

function tryMerge(
  g: Node,
  n: Node,
  live: readonly Node[],
  maxBuffers: number,
): Pick<Node, "stores" | "reads" | "writes"> | undefined {
  const gEntries = new Set([...g.reads, ...g.writes].map(entryOfKey));
  const shares = [...n.reads].some((r) => gEntries.has(entryOfKey(r)));
  if (!shares) return undefined;
  const entries = new Set([...gEntries, ...[...n.reads, ...n.writes].map(entryOfKey)]);
  if (entries.size > maxBuffers) return undefined;
  const at = g.stores[0].src[0].src[1];
  if (n.stores.some((s) => s.src[0].src[1] !== at)) return undefined;
  // every entry written by one and touched by the other must be touched at the very index that is written
  const elementwise = (writer: Node, other: Node): boolean =>
    writer.writes.every((w) =>
      other.stores.every((s) =>
        loadsOf(s, entryOfKey(w)).every((l) => l.src[0].src[1] === at && l.src[0].src.length === 2)
      )
    );
  if (!elementwise(g, n) || !elementwise(n, g)) return undefined;
  // n may read what g makes (taken from registers) or what g overwrites, but not both of one entry
  const inline = new Map<UOp, UOp>();
  for (const w of g.writes) {
    const e = entryOfKey(w);
    if (n.writes.some((x) => entryOfKey(x) === e)) return undefined;
    const readsNew = n.reads.has(w), readsOld = n.reads.has(w - 1) && entryOfKey(w - 1) === e;
    if (readsNew && readsOld) return undefined;
    if (!readsNew) continue;
    const made = g.stores.find((s) => (s.src[0].src[0].arg as ParamArg).slot === e)!;
    for (const s of n.stores) for (const l of loadsOf(s, e)) inline.set(l, made.src[1]);
  }
  for (const w of n.writes) {
    const e = entryOfKey(w);
    if (g.reads.has(w)) return undefined; // g would need to run after n; the order of the list makes this rare
    if (g.reads.has(w - 1) && g.writes.some((x) => entryOfKey(x) === e)) return undefined;
  }
  const i = live.indexOf(g), j = live.indexOf(n);
  if (separated(i, j, predecessors(live))) return undefined;
  const stores = n.stores.map((s) => inline.size === 0 ? s : s.withSrc([s.src[0], substitute(s.src[1], inline)]));
  const reads = new Set([...g.reads, ...n.reads].filter((r) => !g.writes.includes(r)));
  return { stores: [...g.stores, ...stores], reads, writes: [...g.writes, ...n.writes] };
}
