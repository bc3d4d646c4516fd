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
  /** Kernel-level STOREs (PARAM slot = entry id); empty for others than kernels. */
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

/** Nodes while they are merged: what must run before which, kept up to date instead of found anew. */
class MergeGraph {
  private readonly before: Set<number>[];
  private readonly after: Set<number>[];
  private readonly index: ReadonlyMap<Node, number>;
  private readonly readers = new Map<VersionKey, Set<Node>>();
  /** When a node was last visited by a search, by the number of the search. */
  private readonly seen: Uint32Array;
  private search = 0;

  constructor(nodes: readonly Node[]) {
    this.index = new Map(nodes.map((n, i) => [n, i]));
    this.before = predecessors(nodes);
    this.after = nodes.map(() => new Set());
    this.before.forEach((b, i) => {
      for (const j of b) this.after[j].add(i);
    });
    this.seen = new Uint32Array(nodes.length);
    for (const n of nodes) this.addReads(n);
  }

  private addReads(n: Node): void {
    for (const r of n.reads) {
      const list = this.readers.get(r);
      if (list === undefined) this.readers.set(r, new Set([n]));
      else list.add(n);
    }
  }

  /** The position of a node among all that there were. */
  at(n: Node): number {
    return this.index.get(n)!;
  }

  /** Whether a node other than `n` reads a version. */
  isReadBeside(key: VersionKey, n: Node): boolean {
    const list = this.readers.get(key);
    return list !== undefined && list.size > (list.has(n) ? 1 : 0);
  }

  /** True when some third node must run after one of `a`, `b` and before the other. */
  separated(a: Node, b: Node): boolean {
    const i = this.at(a), j = this.at(b);
    return this.reaches(i, j) || this.reaches(j, i);
  }

  /** Whether `to` must run before `from` because of a node between them. */
  private reaches(from: number, to: number): boolean {
    const { before, seen } = this, search = ++this.search;
    const stack: number[] = [];
    for (const i of before[from]) if (i !== to) stack.push(i);
    while (stack.length > 0) {
      const i = stack.pop()!;
      if (seen[i] === search) continue;
      seen[i] = search;
      for (const j of before[i]) {
        if (j === to) return true;
        stack.push(j);
      }
    }
    return false;
  }

  /** `g`, whose reads are by now those of both, takes the place of `n`. */
  merged(g: Node, n: Node): void {
    const { before, after } = this, i = this.at(g), j = this.at(n);
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

/**
 * Merges kernels of equal loops without reduces, greedily in order, where they share an input or feed each other
 * element by element, no other kernel stands between them, and the result takes at most `maxBuffers` buffers.
 */
export function mergeOutputs(nodes: Node[], maxBuffers: (device: string) => number): Node[] {
  const graph = new MergeGraph(nodes), gone = new Set<Node>();
  const keys = new Map(nodes.map((n) => [n, loopsKey(n)]));
  /** Kernels that may take others in, by the entries that they touch. */
  const touching = new Map<number, Set<Node>>();
  const writer = new Map<VersionKey, Node>(), writes = new Map<Node, WriteGroup>();
  const touch = (n: Node, keys: Iterable<VersionKey>): void => {
    for (const k of keys) {
      const e = entryOfKey(k), list = touching.get(e);
      if (list === undefined) touching.set(e, new Set([n]));
      else list.add(n);
    }
  };
  for (const n of nodes) {
    const key = keys.get(n);
    const before = key !== undefined && n.writes.length === 1 ? writer.get(n.writes[0] - 1) : undefined;
    if (before !== undefined && keys.get(before) !== undefined) {
      let group = writes.get(before);
      if (group === undefined) writes.set(before, group = new WriteGroup(before));
      if (group.take(n, graph, maxBuffers(n.device))) {
        writer.set(n.writes[0], before);
        gone.add(n);
        touch(before, n.reads);
        continue;
      }
    }
    for (const w of n.writes) writer.set(w, n);
    if (key === undefined) continue;
    const candidates = new Set<Node>();
    for (const r of n.reads) {
      for (const g of touching.get(entryOfKey(r)) ?? []) if (keys.get(g) === key) candidates.add(g);
    }
    let into: Node | undefined;
    for (const g of [...candidates].sort((a, b) => graph.at(a) - graph.at(b))) {
      const made = tryMerge(g, n, graph, maxBuffers(n.device));
      if (made === undefined) continue;
      Object.assign(g, made);
      g.line ??= n.line;
      graph.merged(g, n);
      writes.delete(g);
      for (const w of n.writes) writer.set(w, g);
      gone.add(n);
      into = g;
      break;
    }
    touch(into ?? n, n.reads);
    touch(into ?? n, n.writes);
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
 * writes (or to the very same part: then the later one stands), if nobody reads the version between them.
 */
class WriteGroup {
  private readonly entry: number;
  /** Parts that are written, in order, each with the position of its store. */
  private readonly parts: { readonly low: number; readonly high: number; readonly store: number }[] = [];
  private readonly entries: Set<number>;
  private readonly ranges: readonly UOp[];
  /** False where the kernel writes several entries, or parts in a way that is not followed. */
  private readonly open: boolean;

  constructor(private readonly node: Node) {
    const { stores, writes, reads } = node;
    this.entry = entryOfKey(writes[0]);
    this.entries = new Set([...reads, ...writes].map(entryOfKey));
    this.ranges = rangesOf(stores[0].src[0]);
    stores.forEach((s, store) => {
      const [low, high] = extent(s);
      this.parts.push({ low, high, store });
    });
    this.parts.sort((a, b) => a.low - b.low);
    this.open = writes.every((w) => entryOfKey(w) === this.entry) &&
      this.parts.every((p, i) => i === 0 || this.parts[i - 1].high < p.low);
  }

  /** Takes `n` in, if it may; what both read and write is then `node`'s. */
  take(n: Node, graph: MergeGraph, maxBuffers: number): boolean {
    const { node, entry, parts, entries } = this, [w] = n.writes, [store] = n.stores;
    if (!this.open || n.stores.length !== 1 || entryOfKey(w) !== entry) return false;
    const reads = [...n.reads].map(entryOfKey);
    if (reads.includes(entry) || graph.isReadBeside(w - 1, node)) return false;
    const more = reads.filter((e) => !entries.has(e));
    if (entries.size + new Set(more).size > maxBuffers) return false;
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
    if (hit !== undefined && node.stores[hit.store].src[0] !== store.src[0]) return false;
    if (graph.separated(node, n)) return false;
    if (hit !== undefined) node.stores[hit.store] = store;
    else {
      parts.splice(from, 0, { low, high, store: node.stores.length });
      node.stores.push(store);
    }
    for (const e of more) entries.add(e);
    for (const r of n.reads) node.reads.add(r);
    node.writes.push(w);
    graph.merged(node, n);
    return true;
  }
}

function tryMerge(
  g: Node,
  n: Node,
  graph: MergeGraph,
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
  if (graph.separated(g, n)) return undefined;
  const stores = n.stores.map((s) => inline.size === 0 ? s : s.withSrc([s.src[0], substitute(s.src[1], inline)]));
  const reads = new Set([...g.reads, ...n.reads].filter((r) => !g.writes.includes(r)));
  return { stores: [...g.stores, ...stores], reads, writes: [...g.writes, ...n.writes] };
}
