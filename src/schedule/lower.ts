/**
 * One graph to a schedule template: fold, choose what is realized, turn each realized node into a kernel, merge, order.
 * A template names buffers by entry, so that one serves all graphs of a key.
 *
 * @module
 */
import { SpecError } from "../helpers/errors.ts";
import type { DType } from "../dtype/dtype.ts";
import type { Capabilities } from "../renderer/renderer.ts";
import type { BufferArg, ParamArg, Storage, VariableArg } from "../uop/args.ts";
import type { CustomArg } from "../uop/custom.ts";
import { numelOf } from "../uop/movement.ts";
import { isMovement, Ops } from "../uop/ops.ts";
import { substitute } from "../uop/rewrite.ts";
import { deviceOf } from "../uop/shape.ts";
import { isRange, nodeView } from "../uop/view.ts";
import { mayHave, param, sink, toposort, type UOp, uop, variable } from "../uop/uop.ts";
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
import { orderForMemory } from "./order.ts";
import { layOut } from "./layout.ts";
import { buffersOf, cutInputs } from "./limits.ts";
import { type Entry, type Layout, rangeify } from "./rangeify.ts";
import { planOnline } from "./online.ts";
import { keepOnChip } from "./rows.ts";
import { splitKernel } from "./split.ts";

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
  /** Where the buffer is part of another entry's: of which, and from which byte on. */
  readonly view: { readonly base: number; readonly offset: number } | undefined;
}

/** A step of a template. `entries` by slot of the kernel; for a copy [to, from], a view [view, base], a fill [to]. */
export interface TemplateItem {
  readonly kind: "kernel" | "copy" | "fill" | "empty" | "view";
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
  /** What a device can do, to split reductions. */
  readonly caps: (device: string) => Capabilities;
  /** Byte offsets of views are multiples of this; undefined: no views, but copies. */
  readonly viewAlign: (device: string) => number | undefined;
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
        const slot = this.slotOf.get(storage);
        e = this.add({ device, dtype, size, slot, versions: 0, kept: true, view: undefined });
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
    return this.place(u, 1, { device, dtype: u.dtype, size: numelOf(u), slot: undefined, view: undefined });
  }
  /** Makes an entry of the elements of `base`, a BUFFER, from `offset` on, for `u`. */
  makeView(u: UOp, base: UOp, offset: number): TemplateItem {
    const of = entryOfKey(this.keyOf(base)!), { device } = this.infos[of];
    const view = { base: of, offset: offset * u.dtype.itemsize };
    const e = this.place(u, 0, { device, dtype: u.dtype, size: numelOf(u), slot: undefined, view });
    return { kind: "view", device, entries: [e, of], ast: undefined, vars: [], at: undefined };
  }
  private place(u: UOp, versions: number, info: Omit<EntryInfo, "versions" | "kept">): number {
    const e = this.add({ ...info, versions, kept: false });
    this.byNode.set(u, versionKey(e, versions));
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

/** The entries of one kernel, numbered as they appear in it: kernels that differ in nothing else are one node. */
class OwnEntries implements Layout {
  private readonly ids: number[] = [];

  constructor(private readonly entries: Entries) {}

  /** The number of entry `id` here. */
  own(id: number): number {
    const at = this.ids.indexOf(id);
    return at >= 0 ? at : this.ids.push(id) - 1;
  }
  entryOf(u: UOp): Entry | undefined {
    const entry = this.entries.entryOf(u);
    return entry && { id: this.own(entry.id), size: entry.size };
  }
  /** The kernel with the numbers that the schedule has for its entries. */
  restore(kernel: UOp): UOp {
    const map = new Map<UOp, UOp>();
    for (const u of toposort(kernel)) {
      if (u.op !== Ops.PARAM) continue;
      const { slot, size } = u.arg as ParamArg;
      map.set(u, param(this.ids[slot], u.dtype, size));
    }
    return substitute(kernel, map);
  }
}

/** `roots` with nodes changed: `change` gives what stands for a node `u`, which is `made` with its sources changed. */
export function rebuild(roots: readonly UOp[], change: (u: UOp, made: UOp) => UOp): UOp[] {
  const memo = new Map<UOp, UOp>();
  for (const u of toposort(roots)) {
    const same = u.src.length === 0 || u.op === Ops.BIND;
    const made = change(u, same ? u : u.withSrc(u.src.map((s) => memo.get(s)!)));
    made.line ??= u.line;
    memo.set(u, made);
  }
  return roots.map((r) => memo.get(r)!);
}

/** Times a graph is lowered again with more of it realized. */
const MAX_ATTEMPTS = 16;

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
  let folded = settleDevices(foldTensorGraph(roots), roots, () => options.defaultDevice);
  const capsOf = (u: UOp): Capabilities => options.caps(deviceOf(u) ?? options.defaultDevice);
  if (roots.some((r) => capsOf(r).hasGrid)) {
    const made = rebuild([...folded.values()], (_, made) => layOut(made, capsOf));
    folded = new Map([...folded.keys()].map((u, i) => [u, made[i]]));
  }
  for (let attempt = 0;; attempt++) {
    const result = attemptLower(roots, order, folded, slotOf, options);
    if (!(result instanceof Set)) return result;
    if (attempt >= MAX_ATTEMPTS) throw new SpecError("Scheduling does not settle");
    // of a store the value is computed before it is written
    const contiguous = (u: UOp): UOp => uop(Ops.CONTIGUOUS, u.dtype, [u]);
    const made = rebuild([...folded.values()], (u, made) => {
      if (!result.has(u)) return made;
      return u.op === Ops.STORE ? made.withSrc([made.src[0], contiguous(made.src[1])]) : contiguous(made);
    });
    folded = new Map([...folded.keys()].map((u, i) => [u, made[i]]));
  }
}

/** A template, or the nodes that must be realized (of STOREs: the values) before there is one. */
function attemptLower(
  roots: readonly UOp[],
  order: readonly UOp[],
  folded: ReadonlyMap<UOp, UOp>,
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
  const wantedRoots = kernelRoots.filter((r) => !isLeaf(r) || r.op === Ops.AFTER || r.op === Ops.IOTA);
  const capsOf = (u: UOp): Capabilities => options.caps(deviceOf(u) ?? options.defaultDevice);
  const plan = planFusion(wantedRoots, capsOf, planOnline(wantedRoots, capsOf));
  const { realized } = plan;
  for (const r of kernelRoots) {
    if (r.op === Ops.IOTA || r.op === Ops.CONST || r.op === Ops.VARIABLE || r.op === Ops.BIND) realized.add(r);
  }
  for (const f of fills.keys()) realized.add(f);
  const entries = new Entries(slotOf);
  const nodes: Node[] = [];
  const hazards = new Set<UOp>(), views: TemplateItem[] = [];
  const sequenceOfNodes = toposort(bases);
  const rangeOf = rangeFinder(sequenceOfNodes, options.viewAlign);
  const tooMany = (u: UOp, store: UOp, device: string): boolean => {
    const most = options.maxBuffers(device);
    if (buffersOf(store) <= most) return false;
    for (const cut of cutInputs(u, (x) => entries.keyOf(x) !== undefined, most, device)) hazards.add(cut);
    return true;
  };
  // layers that are alike have kernels that are: each is simplified once
  const done = new Map<string, Map<UOp, UOp>>();
  const finished = (kernel: UOp, device: string): UOp => {
    let known = done.get(device);
    if (known === undefined) done.set(device, known = new Map());
    let made = known.get(kernel);
    if (made === undefined) {
      const body = simplifyKernel(kernel);
      known.set(kernel, made = isSymbolic([body]) ? body : keepOnChip(body, options.caps(device)));
    }
    return made;
  };
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
      const store = lowerStore(u, device, entries, nodes, hazards, at);
      if (store !== undefined) tooMany(u, store, device);
      continue;
    }
    if (u.op === Ops.CUSTOM) {
      nodes.push(lowerCustom(u, device, entries, at));
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
    const part = rangeOf(u);
    if (part !== undefined) {
      views.push({ ...entries.makeView(u, part.base, part.offset), at });
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
    const own = new OwnEntries(entries);
    const kernel = rangeify(u, own, { id: own.own(e), size: out.size }, plan.kernels.get(u));
    const store = own.restore(finished(kernel, device));
    const reads = entries.reads;
    if (tooMany(u, store, device)) continue;
    nodes.push({
      kind: "kernel",
      device,
      stores: [store],
      reads,
      writes: [versionKey(e, 1)],
      line: undefined,
      at,
    });
  }
  if (hazards.size > 0) return hazards;
  for (const n of nodes) pruneReads(n);
  const merged = mergeOutputs(nodes, options.maxBuffers);
  const becomes = whatBecomes(roots, order, folded, new Set(sequenceOfNodes), entries);
  for (const b of becomes) entries.infos[b.entry].kept = true;
  const sequence = orderForMemory(orderNodes(merged).map((i) => merged[i]), (e) => {
    const { kept, slot, view, size, dtype } = entries.infos[e];
    return kept || slot !== undefined || view !== undefined ? 0 : size * dtype.itemsize;
  });
  for (const n of sequence) {
    for (const w of n.writes) {
      const info = entries.infos[entryOfKey(w)];
      info.versions = Math.max(info.versions, w - versionKey(entryOfKey(w), 0));
    }
  }
  // views run nothing: in front they do not part the kernels
  return { entries: entries.infos, items: [...views, ...makeItems(sequence, entries.infos, options)], becomes };
}

/** A part of a BUFFER that needs no copy: `offset` in elements. */
interface Range {
  readonly base: UOp;
  readonly offset: number;
}

/**
 * Finds the nodes that are nothing but a range of a buffer that this graph does not write: whoever reads them reads its
 * memory, in whatever order.
 */
function rangeFinder(
  order: readonly UOp[],
  viewAlign: (device: string) => number | undefined,
): (u: UOp) => Range | undefined {
  const written = new Set<Storage>();
  for (const u of order) {
    if (u.op !== Ops.AFTER) continue;
    const base = stripReshape(u.src[0]);
    if (base.op === Ops.BUFFER) written.add((base.arg as BufferArg).storage);
  }
  return (u) => {
    if (!(u.op === Ops.CONTIGUOUS && u.arg === undefined) && !isMovement(u.op)) return undefined;
    const { base, view } = nodeView(u.op === Ops.CONTIGUOUS ? u.src[0] : u);
    if (base.op !== Ops.BUFFER || base === u || view === undefined || !isRange(view)) return undefined;
    const { storage } = base.arg as BufferArg, align = viewAlign(storage.device);
    if (align === undefined || storage.staging || written.has(storage)) return undefined;
    const { offset } = view;
    return offset * base.dtype.itemsize % align === 0 ? { base, offset } : undefined;
  };
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

/**
 * A node that lives nowhere is computed on the device of one that reads it; readers on other devices get a COPY. What was
 * on a device before folding left nothing but constants of it is still wanted there. Where all is on one device, nothing
 * changes.
 */
function settleDevices(
  folded: ReadonlyMap<UOp, UOp>,
  roots: readonly UOp[],
  defaultDevice: () => string,
): ReadonlyMap<UOp, UOp> {
  const order = toposort([...folded.values()]), homes = new Map<UOp, string>();
  for (const r of roots) {
    const home = deviceOf(r), now = folded.get(r)!;
    if (home !== null && deviceOf(now) === null) homes.set(r, home);
  }
  const devices = new Set([...order.map(deviceOf), ...homes.values()].filter((d) => d !== null));
  if (devices.size < 2 && [...homes.values()].every((d) => d === defaultDevice())) return folded;
  const wanted = devicesWanted(order);
  const isElsewhere = (s: UOp, device: string): boolean => {
    const home = wanted.get(s);
    return s.src.length > 0 && s.op !== Ops.BIND && deviceOf(s) === null && home !== undefined && home !== device;
  };
  const copy = (u: UOp, device: string): UOp => uop(Ops.COPY, u.dtype, [u], device);
  const made = rebuild([...folded.values()], (u, made) => {
    const device = deviceOf(u) ?? wanted.get(u);
    if (device === undefined || u.op === Ops.COPY || !u.src.some((s) => isElsewhere(s, device))) return made;
    return made.withSrc(made.src.map((s, i) => isElsewhere(u.src[i], device) ? copy(s, device) : s));
  });
  return new Map([...folded.keys()].map((u, i) => [u, homes.has(u) ? copy(made[i], homes.get(u)!) : made[i]]));
}

function lowerStore(
  u: UOp,
  device: string,
  entries: Entries,
  nodes: Node[],
  hazards: Set<UOp>,
  position: number | undefined,
): UOp | undefined {
  let base = u.src[0];
  while (isMovement(base.op)) base = base.src[0];
  const key = entries.keyOf(base);
  if (key === undefined) throw new SpecError("A STORE to a node without storage");
  const id = entryOfKey(key);
  if (numelOf(u.src[0]) === 0) return undefined;
  entries.reads = new Set();
  const store = simplifyKernel(rangeify(u, entries, { id, size: entries.infos[id].size }));
  const reads = entries.reads;
  const at = store.src[0].src[1];
  if (loadsOf(store, id).some((l) => l.src[0].src[1] !== at || l.src[0].src.length > 2)) hazards.add(u);
  nodes.push({ kind: "kernel", device, stores: [store], reads, writes: [key + 1], line: u.line, at: position });
  return store;
}

/** A kernel of the user's: it runs as it is, on the memory of its sources. */
function lowerCustom(u: UOp, device: string, entries: Entries, at: number | undefined): Node {
  const { kernel, written } = u.arg as CustomArg;
  const keys = u.src.map((s) => {
    const key = entries.keyOf(stripReshape(s));
    if (key === undefined) throw new SpecError("A CUSTOM of a node without storage");
    return key;
  });
  return {
    kind: "custom",
    device,
    stores: [],
    reads: new Set(keys),
    writes: written.map((slot) => keys[slot] + 1),
    line: u.line,
    at,
    custom: { ast: kernel, entries: keys.map(entryOfKey) },
  };
}

/** Whether a loop of a kernel ends at a variable. */
function isSymbolic(stores: readonly UOp[]): boolean {
  if (!stores.some((s) => mayHave(s, Ops.VARIABLE))) return false;
  return toposort(stores).some((u) => u.op === Ops.RANGE && u.src[0].op !== Ops.CONST);
}

/** Drops reads of entries that simplification removed from the kernel. */
function pruneReads(n: Node): void {
  if (n.kind !== "kernel" || n.reads.size === 0) return;
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
  live: ReadonlySet<UOp>,
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
    if (!live.has(base)) return; // folding left nobody who reads it: it stays lazy, writes too
    const key = entries.keyOf(base);
    if (key === undefined) return;
    const entry = entryOfKey(key);
    out.push({ at, entry, version: key - versionKey(entry, 0) });
  });
  return out;
}

/** Kernels with PARAMs renumbered: outputs first, then inputs in order of appearance. Dead stores are dropped. */
function makeItems(sequence: readonly Node[], infos: EntryInfo[], options: LowerOptions): TemplateItem[] {
  const readers = new Set<number>();
  for (const n of sequence) for (const r of n.reads) readers.add(entryOfKey(r));
  const items: TemplateItem[] = [];
  for (const n of sequence) {
    if (n.kind === "fill" || n.kind === "empty") {
      const made = n.writes.map(entryOfKey);
      items.push({ kind: n.kind, device: n.device, entries: made, ast: n.fillValue, vars: [], at: n.at });
      continue;
    }
    if (n.custom !== undefined) {
      const { ast, entries } = n.custom;
      items.push({ kind: "kernel", device: n.device, entries, ast, vars: [], at: n.at });
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
    const split = isSymbolic(stores) ? undefined : splitKernel(sink(stores), options.caps(n.device), infos.length);
    for (const { dtype, size } of split?.made ?? []) {
      infos.push({ device: n.device, dtype, size, slot: undefined, versions: 1, kept: false, view: undefined });
    }
    if (split === undefined) items.push(kernelItem(n, stores));
    else items.push(kernelItem(n, split.partial.src), kernelItem(n, split.combine.src));
  }
  return items;
}

/** The item of a kernel, its PARAMs renumbered. */
function kernelItem(n: Node, stores: readonly UOp[]): TemplateItem {
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
  return { kind: "kernel", device: n.device, entries: used, ast, vars, at: n.at };
}
