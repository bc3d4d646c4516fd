/**
 * Kernels and what orders them. A kernel reads versions of entries and writes the next; readers of a version come after
 * its writer and before the writer of the next. Kernels with the same loops are merged into one with several outputs
 * where no other kernel must run between them.
 *
 * @module
 */
import { CycleError } from "../../helpers/errors.ts";
import { sameArray } from "../../helpers/math.ts";
import type { Line } from "../../helpers/stack.ts";
import { vmax, vmin } from "../../uop/algebra/bounds.ts";
import { Ops } from "../../uop/core/ops.ts";
import { rangesOf } from "../../uop/core/ranges.ts";
import { mayHave, type UOp } from "../../uop/core/uop.ts";
import { substitute } from "../../uop/rewrite/rewrite.ts";
import { factsOf, loadsOf, renumber, Slots, slotWritten } from "../kernels/slots.ts";
import type { TemplateItem } from "./template.ts";

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

/** A kernel, or another step, before ordering. */
export interface Node {
  readonly device: string;
  /** The step that it is; undefined for kernels that are still to be made. */
  readonly step: TemplateItem | undefined;
  /** Kernel-level STOREs, where it is a kernel. */
  stores: UOp[];
  /** The entries of their PARAMs. */
  slots: Slots;
  reads: Set<VersionKey>;
  /** Versions it makes. */
  writes: VersionKey[];
  /** The nodes of the graph that it computes. */
  readonly roots: UOp[];
  /** The user's line, for errors about assignments. */
  line: Line | undefined;
  /** Position in the graph's order of the node that it computes, for the user's line of each schedule. */
  readonly at: number | undefined;
}

/** Which node makes each version. @throws {CycleError} where two do */
export function writersOf(nodes: readonly Node[]): Map<VersionKey, number> {
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
  return writer;
}

/** Sources of the edges into each node: what must run before it. */
export function predecessors(nodes: readonly Node[]): Set<number>[] {
  const writer = writersOf(nodes);
  const before = nodes.map(() => new Set<number>());
  nodes.forEach((n, i) => {
    n.reads.forEach((r) => {
      const made = writer.get(r);
      if (made !== undefined && made !== i) before[i].add(made);
      const next = writer.get(r + 1);
      if (next !== undefined && next !== i) before[next].add(i);
    });
    for (let k = 0; k < n.writes.length; k++) {
      const w = n.writes[k], made = writer.get(w - 1);
      if (made !== undefined && made !== i && entryOfKey(w - 1) === entryOfKey(w)) before[i].add(made);
    }
  });
  return before;
}

/**
 * Positions in an order in which each stands before those that `edges` names for it: always that one of what is ready at
 * which `pick` finds it. What stands in a circle is left out.
 */
export function ordered(edges: readonly Iterable<number>[], pick: (ready: readonly number[]) => number): number[] {
  const missing = new Int32Array(edges.length), ready: number[] = [], out: number[] = [];
  for (const list of edges) for (const j of list) missing[j]++;
  missing.forEach((m, i) => m === 0 && ready.push(i));
  while (ready.length > 0) {
    const at = pick(ready), i = ready[at];
    ready[at] = ready[ready.length - 1];
    ready.pop();
    out.push(i);
    for (const j of edges[i]) if (--missing[j] === 0) ready.push(j);
  }
  return out;
}

/** Order of the nodes, stable by position; undefined where there is none. */
export function orderNodes(nodes: readonly Node[]): number[] | undefined {
  const after: number[][] = nodes.map(() => []);
  predecessors(nodes).forEach((b, i) => b.forEach((j) => after[j].push(i)));
  // positions are in source-before-user order; the smallest ready one keeps that order
  const out = ordered(after, (ready) => {
    let best = 0;
    for (let i = 1; i < ready.length; i++) if (ready[i] < ready[best]) best = i;
    return best;
  });
  return out.length < nodes.length ? undefined : out;
}

/** A candidate group: the loops of its stores as a key. */
function loopsKey(n: Node, common: Slots): string | undefined {
  if (n.step !== undefined || n.stores.some((s) => factsOf(s).hasReduce)) return undefined;
  const at = n.stores[0].src[0].src[1];
  return `${n.device} ${(mayHave(at, Ops.PARAM) ? renumber(at, n.slots, common) : at).hash}`;
}

/** Nodes while they are merged: what must run before which, kept up to date instead of found anew. */
class MergeGraph {
  private readonly before: Set<number>[];
  private readonly after: Set<number>[];
  private readonly index: ReadonlyMap<Node, number>;
  private readonly readers = new Map<VersionKey, Set<Node>>();
  /** Whether each node stands behind what must run before it: none then waits for one that stands behind it. */
  private readonly isInOrder: boolean;
  /** What must run before something that one node waits for: which node, and when each was found, by the number of the search. */
  private readonly seen: Uint32Array;
  private search = 0;
  private searched = -1;

  constructor(nodes: readonly Node[]) {
    this.index = new Map(nodes.map((n, i) => [n, i]));
    this.before = predecessors(nodes);
    this.after = nodes.map(() => new Set());
    this.before.forEach((b, i) => {
      for (const j of b) this.after[j].add(i);
    });
    this.isInOrder = this.before.every((b, i) => [...b].every((j) => j < i));
    this.seen = new Uint32Array(nodes.length);
    for (const n of nodes) this.addReads(n, n.reads);
  }

  /** Counts a node among the readers of versions. */
  addReads(n: Node, keys: Iterable<VersionKey>): void {
    for (const r of keys) {
      const list = this.readers.get(r);
      if (list === undefined) this.readers.set(r, new Set([n]));
      else list.add(n);
    }
  }

  /** The position of a node among all that there were. */
  at(n: Node): number {
    return this.index.get(n)!;
  }

  /** Whether a node other than these reads a version. */
  isReadBeside(key: VersionKey, a: Node, b: Node): boolean {
    const list = this.readers.get(key);
    return list !== undefined && list.size > (list.has(a) ? 1 : 0) + (list.has(b) ? 1 : 0);
  }

  /** True when some third node must run after `a` and before `b`, which stands behind it, or the other way round. */
  separated(a: Node, b: Node): boolean {
    const i = this.at(a), j = this.at(b);
    return this.isBetween(i, j) || (!this.isInOrder && this.isBetween(j, i));
  }

  /** Whether `to` must run before `from` because of a node between them. */
  private isBetween(to: number, from: number): boolean {
    const { before, seen, isInOrder } = this;
    if (this.searched !== from || !isInOrder) { // once for all that `from` may be merged with
      const search = ++this.search, stack = [...before[from]].filter((i) => isInOrder || i !== to);
      this.searched = from;
      seen[from] = search;
      // what it waits for itself may yet be merged with it
      for (let i = stack.pop(); i !== undefined; i = stack.pop()) {
        for (const j of before[i]) {
          if (seen[j] === search) continue;
          seen[j] = search;
          if (isInOrder || j !== to) stack.push(j);
        }
      }
    }
    return seen[to] === this.search;
  }

  /** `g`, whose reads are by now those of both, takes the place of `n`. */
  merged(g: Node, n: Node): void {
    const { before, after } = this, i = this.at(g), j = this.at(n);
    this.searched = -1;
    for (const k of before[j]) {
      after[k].delete(j);
      if (k === i) continue;
      before[i].add(k);
      after[k].add(i);
    }
    for (const k of after[j]) {
      before[k].delete(j);
      if (k === i) continue;
      before[k].add(i);
      after[i].add(k);
    }
    before[j].clear();
    after[j].clear();
    for (const r of n.reads) {
      const list = this.readers.get(r)!;
      list.delete(n);
      if (g.reads.has(r)) list.add(g);
    }
  }
}

/** Weight of a kernel beyond which it takes no other in, and none that is computed from what it makes. */
const MOST_WEIGHT = 1 << 13, MOST_CHAINED = 1 << 11;

/** Weight of stores, each by itself. */
export function weightOf(stores: readonly UOp[]): number {
  return stores.reduce((n, s) => n + factsOf(s).weight, 0);
}

/** Buffers that stores take besides one for each entry, at most. */
function resizedIn(stores: readonly UOp[]): number {
  return stores.reduce((n, s) => n + factsOf(s).resized, 0);
}

/** What a kernel touches, for quick answers. */
class Touched {
  /** Entries that it reads or writes. */
  readonly entries: Set<number> = new Set();
  readonly readEntries: Set<number> = new Set();
  /** Versions that it writes, by entry. */
  readonly written: Map<number, VersionKey[]> = new Map();
  /** Weight of its stores, at most. */
  weight = 0;
  /** Buffers that they take besides one for each entry. */
  resized = 0;

  constructor(node: Node) {
    this.add(node);
  }
  add({ reads, writes, stores }: Node): void {
    this.addStores(stores);
    for (const r of reads) this.addRead(r);
    for (const w of writes) {
      const e = entryOfKey(w), list = this.written.get(e);
      this.entries.add(e);
      if (list === undefined) this.written.set(e, [w]);
      else list.push(w);
    }
  }
  addStores(stores: readonly UOp[]): void {
    this.weight += weightOf(stores);
    this.resized += resizedIn(stores);
  }
  addRead(r: VersionKey): void {
    this.entries.add(entryOfKey(r));
    this.readEntries.add(entryOfKey(r));
  }
}

/**
 * Merges kernels of equal loops without reduces, greedily in order, where they share an input or feed each other
 * element by element, no other kernel stands between them, and the result takes at most `maxBuffers` buffers.
 */
export function mergeOutputs(nodes: Node[], maxBuffers: (device: string) => number): Node[] {
  const graph = new MergeGraph(nodes), gone = new Set<Node>();
  const common = new Slots(), keys = new Map(nodes.map((n) => [n, loopsKey(n, common)]));
  const touched = new Map<Node, Touched>();
  const writer = new Map<VersionKey, Node>(), writes = new Map<Node, WriteGroup>();
  /**
   * Kernels that may take others in, by the versions that they read, make and overwrite: of two that read other versions
   * of an entry which neither writes, some third one stands between.
   */
  const beside = new Map<VersionKey, Set<Node>>();
  const place = (g: Node, v: VersionKey): void => {
    const list = beside.get(v);
    if (list === undefined) beside.set(v, new Set([g]));
    else list.add(g);
  };
  for (const n of nodes) {
    const key = keys.get(n);
    const before = key !== undefined && n.writes.length === 1 ? writer.get(n.writes[0] - 1) : undefined;
    if (before !== undefined && keys.get(before) !== undefined) {
      let group = writes.get(before);
      if (group === undefined) writes.set(before, group = new WriteGroup(before, touched.get(before)!));
      if (group.take(n, graph, maxBuffers(n.device))) {
        writer.set(n.writes[0], before);
        gone.add(n);
        for (const r of n.reads) place(before, r);
        place(before, n.writes[0]);
        continue;
      }
    }
    for (const w of n.writes) writer.set(w, n);
    if (key === undefined) continue;
    const candidates = new Set<Node>();
    for (const r of n.reads) for (const g of beside.get(r) ?? []) if (keys.get(g) === key) candidates.add(g);
    let into = n;
    for (const g of [...candidates].sort((a, b) => graph.at(a) - graph.at(b))) {
      if (!tryMerge(g, touched.get(g)!, n, graph, maxBuffers(n.device))) continue;
      writes.delete(g);
      for (const w of n.writes) writer.set(w, g);
      gone.add(n);
      into = g;
      break;
    }
    if (into === n) touched.set(n, new Touched(n));
    for (const r of n.reads) place(into, r);
    for (const w of n.writes) {
      place(into, w);
      place(into, w - 1);
    }
  }
  return nodes.filter((n) => !gone.has(n));
}

/** The part of a buffer that a store may touch, in elements. */
function extent(store: UOp): readonly [number, number] {
  const at = store.src[0].src[1];
  return [vmin(at), vmax(at)];
}

/**
 * A kernel that takes in later writes to its entry: those with the same loops, to parts that do not overlap what it
 * writes (or to the very same part: then the later one stands), if nobody reads the version between them. A write may
 * read what was in its own place.
 */
class WriteGroup {
  private readonly entry: number;
  /** Parts that are written, in order, each with the position of its store. */
  private readonly parts: { readonly low: number; readonly high: number; readonly store: number }[] = [];
  private readonly ranges: readonly UOp[];
  /** False where the kernel writes several entries, or parts that overlap. */
  private readonly open: boolean;
  /** What is there before any of it. */
  private readonly old: VersionKey;

  constructor(private readonly node: Node, private readonly touched: Touched) {
    const { stores, writes } = node;
    this.entry = entryOfKey(writes[0]);
    this.old = writes[0] - 1;
    this.ranges = rangesOf(stores[0].src[0]);
    stores.forEach((s, store) => {
      const [low, high] = extent(s);
      this.parts.push({ low, high, store });
    });
    this.parts.sort((a, b) => a.low - b.low);
    this.open = touched.written.size === 1 && this.parts.every((p, i) => i === 0 || this.parts[i - 1].high < p.low);
  }

  /** Takes `n` in, if it may; what both read and write is then `node`'s. */
  take(n: Node, graph: MergeGraph, maxBuffers: number): boolean {
    const { node, entry, parts, touched } = this, [w] = n.writes, [store] = n.stores;
    if (!this.open || n.stores.length !== 1 || entryOfKey(w) !== entry) return false;
    if (touched.weight + weightOf(n.stores) > MOST_WEIGHT) return false;
    if (graph.isReadBeside(w - 1, node, n)) return false;
    const reads = [...n.reads], readsOwn = reads.some((r) => entryOfKey(r) === entry);
    if (readsOwn && !loadsOf(store, n.slots.find(entry)).every((l) => l.src[0] === store.src[0])) return false;
    const more = new Set(reads.map(entryOfKey).filter((e) => !touched.entries.has(e)));
    if (touched.entries.size + more.size + touched.resized + resizedIn([store]) > maxBuffers) return false;
    if (!sameArray(rangesOf(store.src[0]), this.ranges)) return false;
    const [low, high] = extent(store);
    // the first part that does not end before this one
    let from = 0, to = parts.length;
    while (from < to) {
      const mid = (from + to) >> 1;
      if (parts[mid].high < low) from = mid + 1;
      else to = mid;
    }
    const hit = from < parts.length && parts[from].low <= high ? parts[from] : undefined;
    if (hit !== undefined && readsOwn) return false;
    const taken = renumber(store, n.slots, node.slots);
    if (hit !== undefined && node.stores[hit.store].src[0] !== taken.src[0]) return false;
    if (graph.separated(node, n)) return false;
    if (hit !== undefined) node.stores[hit.store] = taken;
    else {
      parts.splice(from, 0, { low, high, store: node.stores.length });
      node.stores.push(taken);
    }
    for (const r of reads) {
      const now = entryOfKey(r) === entry ? this.old : r;
      node.reads.add(now);
      touched.addRead(now);
    }
    touched.written.get(entry)!.push(w);
    touched.addStores([taken]);
    node.writes.push(w);
    node.roots.push(...n.roots);
    graph.merged(node, n);
    if (readsOwn) graph.addReads(node, [this.old]);
    return true;
  }
}

/** Merges `n` into `g`, if it may be: what both read and write is then `g`'s. */
function tryMerge(g: Node, touched: Touched, n: Node, graph: MergeGraph, maxBuffers: number): boolean {
  const { entries, written, readEntries } = touched;
  const more = new Set([...n.reads, ...n.writes].map(entryOfKey).filter((e) => !entries.has(e)));
  const buffers = entries.size + more.size + touched.resized + resizedIn(n.stores);
  if (buffers > maxBuffers || touched.weight + weightOf(n.stores) > MOST_WEIGHT) return false;
  const at = g.stores[0].src[0].src[1], { slots } = g, isAt = (s: UOp): boolean => s.src[0].src[1] === at;
  const renumbered = (): UOp[] => n.stores.map((s) => renumber(s, n.slots, slots));
  // indices without PARAMs are the same in both: then n's stores are renumbered only when all else is settled
  const isPlain = !mayHave(at, Ops.PARAM),
    own = isPlain ? n.stores : renumbered(),
    ownSlots = isPlain ? n.slots : slots;
  if (!own.every(isAt)) return false;
  // every entry written by one and touched by the other must be touched at the very index that is written
  const elementwise = (stores: readonly UOp[], slot: number | undefined): boolean =>
    stores.every((s) => loadsOf(s, slot).every((l) => l.src[0].src[1] === at && l.src[0].src.length === 2));
  for (const w of n.writes) {
    const e = entryOfKey(w);
    if (written.has(e) || (readEntries.has(e) && !elementwise(g.stores, slots.find(e)))) return false;
    if (g.reads.has(w)) return false; // g would need to run after n; the order of the list makes this rare
  }
  // n may read what g makes (taken from registers) or what g overwrites, but not both of one entry
  const inner: number[] = [];
  for (const e of new Set([...n.reads].map(entryOfKey))) {
    const versions = written.get(e);
    if (versions === undefined) continue;
    if (!elementwise(own, ownSlots.find(e))) return false;
    if (versions.some((w) => n.reads.has(w) && n.reads.has(w - 1))) return false;
    if (versions.some((w) => n.reads.has(w))) inner.push(e);
  }
  if (inner.length > 0 && touched.weight + weightOf(n.stores) > MOST_CHAINED) return false;
  if (graph.separated(g, n)) return false;
  const taken = isPlain ? renumbered() : own, inline = new Map<UOp, UOp>();
  for (const e of inner) {
    const slot = slots.find(e), made = g.stores.find((s) => slotWritten(s) === slot)!;
    for (const s of taken) for (const l of loadsOf(s, slot)) inline.set(l, made.src[1]);
  }
  for (const s of taken) {
    g.stores.push(inline.size === 0 ? s : s.withSrc([s.src[0], substitute(s.src[1], inline)]));
  }
  for (const r of n.reads) {
    if (written.get(entryOfKey(r))?.includes(r) === true) continue;
    g.reads.add(r);
    touched.addRead(r);
  }
  touched.add({ ...n, reads: new Set() });
  g.writes.push(...n.writes);
  g.roots.push(...n.roots);
  g.line ??= n.line;
  graph.merged(g, n);
  return true;
}
