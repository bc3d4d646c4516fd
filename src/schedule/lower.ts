/**
 * One graph to a schedule template: fold, choose what is realized, turn each realized node into a kernel, merge, order.
 * A template names buffers by entry, so that one serves all graphs of a key.
 *
 * @module
 */
import { SpecError } from "../helpers/errors.ts";
import type { DType } from "../dtype/dtype.ts";
import type { BufferArg, ParamArg, Storage, VariableArg } from "../uop/args.ts";
import { numelOf } from "../uop/movement.ts";
import { isMovement, Ops } from "../uop/ops.ts";
import { substitute } from "../uop/rewrite.ts";
import { deviceOf } from "../uop/shape.ts";
import { param, sink, toposort, type UOp, uop, variable } from "../uop/uop.ts";
import { foldTensorGraph, uniformOf } from "./fold.ts";
import { isLeaf, planFusion, stripReshape } from "./fuse.ts";
import { simplifyKernel } from "./collapse.ts";
import {
  entryOfKey,
  loadsOf,
  mergeOutputs,
  type Node,
  orderNodes,
  type VersionKey,
  versionKey,
} from "./kernel_graph.ts";
import { type Entry, type Layout, rangeify } from "./rangeify.ts";

/** A buffer of a schedule: one that exists (a storage of the graph, by slot) or one to be made. */
export interface EntryInfo {
  readonly device: string;
  readonly dtype: DType;
  /** In elements. */
  readonly size: number;
  /** Slot of the storage in the graph's key; undefined for new buffers. */
  readonly slot: number | undefined;
  /** Writes in this schedule. */
  versions: number;
  /** New buffers that outlive the schedule: some node becomes them. */
  kept: boolean;
}

/** A step of a template. `entries` by slot of the kernel; for a copy [to, from], for a fill [to]. */
export interface TemplateItem {
  readonly kind: "kernel" | "copy" | "fill" | "empty";
  readonly device: string;
  readonly entries: readonly number[];
  /** The kernel AST (PARAM slots 0, 1, ...), or the value of a fill. */
  readonly ast: UOp | undefined;
  /** Names of the schedule's variables that the kernel calls v0, v1, ... */
  readonly vars: readonly string[];
  /** Position in the key's order of the node that it computes. */
  readonly at: number | undefined;
}

/** What realizing a graph takes, in terms of entries. */
export interface Template {
  readonly entries: readonly EntryInfo[];
  readonly items: readonly TemplateItem[];
  /** Nodes of the graph that become (entry, version), by position in the key's order. */
  readonly becomes: readonly { readonly at: number; readonly entry: number; readonly version: number }[];
}

/** Limits and defaults that lowering asks for. */
export interface LowerOptions {
  readonly defaultDevice: string;
  readonly maxBuffers: (device: string) => number;
}

/** Assigns entries and versions to the storage-bearing nodes of a folded graph. */
class Entries implements Layout {
  readonly infos: EntryInfo[] = [];
  private readonly byStorage = new Map<Storage, number>();
  private readonly byNode = new Map<UOp, VersionKey>();
  reads: Set<VersionKey> = new Set();

  constructor(private readonly slotOf: ReadonlyMap<Storage, number>) {}

  private add(info: EntryInfo): number {
    this.infos.push(info);
    return this.infos.length - 1;
  }
  /** The (entry, version) that holds `u`, if it has storage. */
  keyOf(u: UOp): VersionKey | undefined {
    const known = this.byNode.get(u);
    if (known !== undefined) return known;
    if (u.op === Ops.BUFFER) {
      const { storage } = u.arg as BufferArg;
      let e = this.byStorage.get(storage);
      if (e === undefined) {
        const { device, dtype, size } = storage;
        e = this.add({ device, dtype, size, slot: this.slotOf.get(storage), versions: 0, kept: true });
        this.byStorage.set(storage, e);
      }
      this.byNode.set(u, versionKey(e, 0));
      return versionKey(e, 0);
    }
    if (u.op === Ops.AFTER) {
      const base = this.keyOf(stripReshape(u.src[0]));
      if (base === undefined) throw new SpecError("An AFTER on a node without storage");
      const key = base + u.src.length - 1;
      this.byNode.set(u, key);
      return key;
    }
    return undefined;
  }
  /** Makes a new entry for realized node `u`. */
  make(u: UOp, device: string): number {
    const e = this.add({ device, dtype: u.dtype, size: numelOf(u), slot: undefined, versions: 1, kept: false });
    this.byNode.set(u, versionKey(e, 1));
    return e;
  }
  entryOf(u: UOp): Entry | undefined {
    const key = this.keyOf(u);
    if (key === undefined) return undefined;
    this.reads.add(key);
    const id = entryOfKey(key);
    return { id, size: this.infos[id].size };
  }
}

/** Replaces nodes of a folded graph by others and rebuilds what is above. */
function rebuild(map: Map<UOp, UOp>, by: ReadonlyMap<UOp, UOp>): void {
  const memo = new Map<UOp, UOp>();
  const visit = (root: UOp): UOp => {
    for (const u of toposort(root, (s) => !memo.has(s))) {
      if (memo.has(u)) continue;
      const swap = by.get(u);
      const made = swap ?? (u.src.length === 0 ? u : u.withSrc(u.src.map((s) => memo.get(s)!)));
      made.line ??= u.line;
      memo.set(u, made);
    }
    return memo.get(root)!;
  };
  for (const [k, v] of map) map.set(k, visit(v));
}

/**
 * Lowers the graph whose nodes, sources first, are `order`, for `roots`. `slotOf` numbers its storages.
 * @throws {CycleError} where assignments need each other's old values
 */
export function lowerGraph(
  roots: readonly UOp[],
  order: readonly UOp[],
  slotOf: ReadonlyMap<Storage, number>,
  options: LowerOptions,
): Template {
  const folded = foldTensorGraph(roots);
  for (let attempt = 0;; attempt++) {
    const result = attemptLower(roots, order, folded, slotOf, options);
    if (!(result instanceof Set)) return result;
    if (attempt >= 8) throw new SpecError("Scheduling does not settle");
    // hazards: the values of these stores are computed before they are written
    const swaps = new Map<UOp, UOp>();
    for (const s of result) swaps.set(s, s.withSrc([s.src[0], uop(Ops.CONTIGUOUS, s.src[1].dtype, [s.src[1]])]));
    rebuild(folded, swaps);
  }
}

function attemptLower(
  roots: readonly UOp[],
  order: readonly UOp[],
  folded: Map<UOp, UOp>,
  slotOf: ReadonlyMap<Storage, number>,
  options: LowerOptions,
): Template | Set<UOp> {
  const bases: UOp[] = [], fills = new Map<UOp, UOp>();
  for (const r of roots) {
    const base = stripReshape(folded.get(r)!);
    const c = uniformOf(base);
    if (c !== undefined && numelOf(base) > 0) fills.set(base, c);
    bases.push(base);
  }
  // CONTIGUOUS and COPY of uniform values are filled by the host
  const kernelRoots = bases.filter((b) => !fills.has(b));
  for (const u of toposort([...bases])) {
    if ((u.op === Ops.CONTIGUOUS || u.op === Ops.COPY) && numelOf(u) > 0) {
      const c = uniformOf(u.src[0]);
      if (c !== undefined) fills.set(u, c);
    }
  }
  const plan = planFusion(
    kernelRoots.filter((r) => !isLeaf(r) || r.op === Ops.AFTER || r.op === Ops.IOTA),
  );
  const { realized } = plan;
  for (const r of kernelRoots) {
    if (r.op === Ops.IOTA || r.op === Ops.CONST || r.op === Ops.VARIABLE || r.op === Ops.BIND) realized.add(r);
  }
  for (const f of fills.keys()) realized.add(f);
  const entries = new Entries(slotOf);
  const nodes: Node[] = [];
  const hazards = new Set<UOp>();
  const sequenceOfNodes = toposort(bases);
  const wanted = devicesWanted(sequenceOfNodes);
  const positions = new Map<UOp, number>();
  for (let i = order.length - 1; i >= 0; i--) {
    const now = folded.get(order[i]);
    if (now !== undefined) positions.set(stripReshape(now), i);
  }
  for (const u of sequenceOfNodes) {
    if (!realized.has(u)) continue;
    const device = deviceOf(u) ?? wanted.get(u) ?? options.defaultDevice;
    const fill = fills.get(u), at = positions.get(u);
    if (u.op === Ops.STORE) {
      lowerStore(u, device, entries, nodes, hazards, at);
      continue;
    }
    if (numelOf(u) === 0) {
      const writes = [versionKey(entries.make(u, device), 1)];
      nodes.push({ kind: "empty", device, stores: [], reads: new Set(), writes, line: undefined, at });
      continue;
    }
    if (fill !== undefined) {
      const e = entries.make(u, device);
      nodes.push({
        kind: "fill",
        device,
        stores: [],
        reads: new Set(),
        writes: [versionKey(e, 1)],
        line: undefined,
        at,
        fillValue: fill,
      });
      continue;
    }
    entries.reads = new Set();
    if (u.op === Ops.COPY) {
      if (entries.entryOf(stripReshape(u.src[0])) === undefined) {
        throw new SpecError("A COPY of a node without storage");
      }
      const reads = entries.reads;
      const e = entries.make(u, device);
      nodes.push({ kind: "copy", device, stores: [], reads, writes: [versionKey(e, 1)], line: undefined, at });
      continue;
    }
    const e = entries.make(u, device);
    const out = entries.infos[e];
    const store = rangeify(u, entries, { id: e, size: out.size }, plan.kernels.get(u));
    const reads = entries.reads;
    nodes.push({
      kind: "kernel",
      device,
      stores: [simplifyKernel(store)],
      reads,
      writes: [versionKey(e, 1)],
      line: undefined,
      at,
    });
  }
  if (hazards.size > 0) return hazards;
  for (const n of nodes) pruneReads(n);
  const merged = mergeOutputs(nodes, options.maxBuffers);
  const sequence = orderNodes(merged).map((i) => merged[i]);
  for (const n of sequence) {
    for (const w of n.writes) {
      const info = entries.infos[entryOfKey(w)];
      info.versions = Math.max(info.versions, w - versionKey(entryOfKey(w), 0));
    }
  }
  const becomes = whatBecomes(roots, order, folded, entries);
  for (const b of becomes) entries.infos[b.entry].kept = true;
  return { entries: entries.infos, items: makeItems(sequence, entries.infos), becomes };
}

/** For nodes that live nowhere (constants, indices, random bits): the device of what reads them. */
function devicesWanted(order: readonly UOp[]): Map<UOp, string> {
  const wanted = new Map<UOp, string>();
  for (let i = order.length - 1; i >= 0; i--) {
    const device = deviceOf(order[i]) ?? wanted.get(order[i]);
    if (device === undefined) continue;
    for (const s of order[i].src) if (deviceOf(s) === null) wanted.set(s, device);
  }
  return wanted;
}

function lowerStore(
  u: UOp,
  device: string,
  entries: Entries,
  nodes: Node[],
  hazards: Set<UOp>,
  position: number | undefined,
): void {
  let base = u.src[0];
  while (isMovement(base.op)) base = base.src[0];
  const key = entries.keyOf(base);
  if (key === undefined) throw new SpecError("A STORE to a node without storage");
  const id = entryOfKey(key);
  if (numelOf(u.src[0]) === 0) return;
  entries.reads = new Set();
  const store = simplifyKernel(rangeify(u, entries, { id, size: entries.infos[id].size }));
  const reads = entries.reads;
  const at = store.src[0].src[1];
  if (loadsOf(store, id).some((l) => l.src[0].src[1] !== at || l.src[0].src.length > 2)) hazards.add(u);
  nodes.push({ kind: "kernel", device, stores: [store], reads, writes: [key + 1], line: u.line, at: position });
}

/** Drops reads of entries that simplification removed from the kernel. */
function pruneReads(n: Node): void {
  if (n.kind !== "kernel") return;
  const used = new Set<number>();
  for (const u of toposort(n.stores)) {
    if (u.op === Ops.LOAD && u.src[0].src[0].op === Ops.PARAM) used.add((u.src[0].src[0].arg as ParamArg).slot);
  }
  for (const r of n.reads) if (!used.has(entryOfKey(r))) n.reads.delete(r);
}

function whatBecomes(
  roots: readonly UOp[],
  order: readonly UOp[],
  folded: ReadonlyMap<UOp, UOp>,
  entries: Entries,
): { at: number; entry: number; version: number }[] {
  const rootSet = new Set(roots.map(stripReshape));
  for (const r of roots) rootSet.add(r);
  const out: { at: number; entry: number; version: number }[] = [];
  order.forEach((u, at) => {
    const lasting = rootSet.has(u) || u.op === Ops.AFTER || u.op === Ops.COPY ||
      (u.op === Ops.CONTIGUOUS && u.arg !== undefined);
    if (!lasting || u.op === Ops.BUFFER || u.op === Ops.STORE) return;
    const now = folded.get(u);
    if (now === undefined) return;
    const base = stripReshape(now);
    const key = entries.keyOf(base);
    if (key === undefined) return;
    const entry = entryOfKey(key);
    out.push({ at, entry, version: key - versionKey(entry, 0) });
  });
  return out;
}

/** Kernels with PARAMs renumbered: outputs first, then inputs in order of appearance. Dead stores are dropped. */
function makeItems(sequence: readonly Node[], infos: readonly EntryInfo[]): TemplateItem[] {
  const readers = new Set<number>();
  for (const n of sequence) for (const r of n.reads) readers.add(entryOfKey(r));
  const items: TemplateItem[] = [];
  for (const n of sequence) {
    if (n.kind === "fill" || n.kind === "empty") {
      const made = n.writes.map(entryOfKey);
      items.push({ kind: n.kind, device: n.device, entries: made, ast: n.fillValue, vars: [], at: n.at });
      continue;
    }
    if (n.kind === "copy") {
      items.push({
        kind: "copy",
        device: n.device,
        entries: [entryOfKey(n.writes[0]), entryOfKey([...n.reads][0])],
        ast: undefined,
        vars: [],
        at: n.at,
      });
      continue;
    }
    const stores = n.stores.filter((s) => {
      const e = (s.src[0].src[0].arg as ParamArg).slot;
      return infos[e].kept || infos[e].slot !== undefined || readers.has(e);
    });
    if (stores.length === 0) continue;
    const used: number[] = [];
    const map = new Map<UOp, UOp>();
    const take = (p: UOp): void => {
      if (map.has(p)) return;
      const { slot, size } = p.arg as ParamArg;
      // one slot for each (entry, dtype): a bitcast view is a parameter of its own
      map.set(p, param(used.length, p.dtype, size));
      used.push(slot);
    };
    for (const s of stores) take(s.src[0].src[0]);
    const vars: string[] = [];
    for (const u of toposort(stores)) {
      if (u.op === Ops.PARAM) take(u);
      else if (u.op === Ops.VARIABLE) {
        const { name, min, max } = u.arg as VariableArg;
        map.set(u, variable(`v${vars.length}`, min, max, u.dtype));
        vars.push(name);
      }
    }
    const ast = substitute(sink(stores), map);
    items.push({ kind: "kernel", device: n.device, entries: used, ast, vars, at: n.at });
  }
  return items;
}

/** Replaces constants by variables: `values[i]` of `nodes` becomes the argument named by `name(i)`. */
export function withVariables(roots: readonly UOp[], map: ReadonlyMap<UOp, UOp>): UOp[] {
  const memo = new Map<UOp, UOp>();
  for (const u of toposort(roots)) {
    const made = map.get(u) ??
      (u.src.length === 0 || u.op === Ops.BIND ? u : u.withSrc(u.src.map((s) => memo.get(s)!)));
    made.line ??= u.line;
    memo.set(u, made);
  }
  return roots.map((r) => memo.get(r)!);
}
