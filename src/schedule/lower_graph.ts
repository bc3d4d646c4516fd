/**
 * One graph to a schedule template: fold, choose what is realized, turn each realized node into a kernel, merge, order.
 * A template names buffers by entry, so that one serves all graphs of a key.
 *
 * @module
 */
import { SpecError } from "../helpers/errors.ts";
import type { Capabilities } from "../renderer/renderer.ts";
import { argOf, type Storage } from "../uop/core/args.ts";
import { numelOf, reshape } from "../uop/core/build_movement.ts";
import type { CustomArg } from "../uop/core/custom_arg.ts";
import { isMovement, isView, Ops } from "../uop/core/ops.ts";
import { deviceOf, shapeOf } from "../uop/core/shape.ts";
import { mayHave, toposort, type UOp, uop } from "../uop/core/uop.ts";
import { isRange, type Moving, nodeView } from "../uop/graph/view.ts";
import { foldTensorGraph, uniformOf } from "./fuse/fold_tensors.ts";
import { isLeaf, planFusion, stripReshape } from "./fuse/fuse.ts";
import { layOut } from "./fuse/operand_layout.ts";
import { buffersOf, cutInputs } from "./kernels/buffer_limits.ts";
import { simplifyKernel } from "./kernels/collapse.ts";
import { planOnline } from "./kernels/join_online.ts";
import { keepOnChip } from "./kernels/kept_rows.ts";
import { type Entry, type Layout, rangeify } from "./kernels/rangeify.ts";
import { factsOf, loadsOf, Slots } from "./kernels/slots.ts";
import { findCuts } from "./order/hazards.ts";
import { entryOfKey, mergeOutputs, type Node, orderNodes, type VersionKey, versionKey } from "./order/kernel_graph.ts";
import { makeItems } from "./order/kernel_items.ts";
import { orderForMemory } from "./order/memory_order.ts";
import { shareKernels } from "./order/share_kernels.ts";
import type { EntryInfo, Template, TemplateItem, ViewInfo } from "./order/template.ts";

/** The argument of a CONTIGUOUS that makes memory of its own of other memory: it may share that until either is written. */
const OWN = "own";

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
  private readonly nodes = new Map<VersionKey, UOp>();

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
      const { storage } = argOf(u, Ops.BUFFER);
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
  /** Makes an entry of part of a BUFFER, for `u`. */
  makeView(u: UOp, { base, offset, moving }: Range): TemplateItem {
    const of = entryOfKey(this.keyOf(base)!), { device } = this.infos[of];
    const view = { base: of, offset, moving };
    const e = this.place(u, 0, { device, dtype: u.dtype, size: numelOf(u), slot: undefined, view });
    return { kind: "view", device, entries: [e, of], ast: undefined, vars: [], at: undefined };
  }
  private place(u: UOp, versions: number, info: Omit<EntryInfo, "versions" | "kept">): number {
    const e = this.add({ ...info, versions, kept: false });
    this.byNode.set(u, versionKey(e, versions));
    return e;
  }
  /** Adds the older ones of several versions of an entry that were read. */
  addOlder(hazards: Set<UOp>): void {
    if (this.reads.size < 2) return;
    for (const key of olderVersions(this.reads)) hazards.add(this.nodes.get(key)!);
  }
  entryOf(u: UOp): Entry | undefined {
    const key = this.keyOf(u);
    if (key === undefined) return undefined;
    this.reads.add(key);
    this.nodes.set(key, u);
    const id = entryOfKey(key);
    return { id, size: this.infos[id].size };
  }
}

/** The older ones of several versions of one entry that a kernel reads: in it they would be one. */
function olderVersions(reads: ReadonlySet<VersionKey>): VersionKey[] {
  const last = new Map<number, VersionKey>(), older: VersionKey[] = [];
  for (const key of reads) {
    const entry = entryOfKey(key), other = last.get(entry);
    if (other !== undefined) older.push(Math.min(other, key));
    last.set(entry, Math.max(other ?? key, key));
  }
  return older;
}

/** The entries of one kernel, numbered as they appear in it. */
class OwnEntries implements Layout {
  readonly slots: Slots = new Slots();

  constructor(private readonly entries: Entries) {}

  /** An entry as the kernel has it. */
  own(id: number): Entry {
    return { id: this.slots.take(id), size: this.entries.infos[id].size };
  }
  entryOf(u: UOp): Entry | undefined {
    const entry = this.entries.entryOf(u);
    return entry && this.own(entry.id);
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
const MAX_ATTEMPTS = 64;

/** Whether a node is memory, or will be, that an AFTER may write. */
function isMemory(u: UOp): boolean {
  return u.op === Ops.BUFFER || u.op === Ops.AFTER || u.op === Ops.CONTIGUOUS || u.op === Ops.COPY;
}

/**
 * `roots` with the nodes of `kept` in memory of their own: of a STORE its value, computed before it is written; of what is
 * memory already a copy, for all who read it. What is written to stays what it is.
 */
function keep(roots: readonly UOp[], kept: ReadonlySet<UOp>): UOp[] {
  const values = new Map<UOp, UOp>(), targets = new Map<UOp, UOp>();
  const contiguous = (u: UOp): UOp => uop(Ops.CONTIGUOUS, u.dtype, [u]);
  const valueOf = (u: UOp): UOp => values.get(u)!, targetOf = (u: UOp): UOp => targets.get(u)!;
  for (const u of toposort(roots)) {
    let made = u, target = u;
    if (u.src.length > 0 && u.op !== Ops.BIND) {
      switch (u.op) {
        case Ops.STORE:
          made = u.withSrc([targetOf(u.src[0]), kept.has(u) ? contiguous(valueOf(u.src[1])) : valueOf(u.src[1])]);
          break;
        case Ops.AFTER:
          made = u.withSrc([targetOf(u.src[0]), ...u.src.slice(1).map(valueOf)]);
          break;
        case Ops.CUSTOM: {
          const { written } = u.arg as CustomArg;
          made = u.withSrc(u.src.map((s, slot) => written.includes(slot) ? targetOf(s) : valueOf(s)));
          break;
        }
        default:
          made = u.withSrc(u.src.map(valueOf));
      }
      target = isView(u.op) ? u.withSrc([targetOf(u.src[0]), ...u.src.slice(1).map(valueOf)]) : made;
    }
    made.line ??= u.line;
    target.line ??= u.line;
    targets.set(u, target);
    values.set(u, kept.has(u) && u.op !== Ops.STORE ? contiguous(made) : made);
  }
  // what becomes a version of a buffer is that one, and not its copy
  return roots.map((r) => isMemory(stripReshape(r)) ? targetOf(r) : valueOf(r));
}

/** A graph to lower, and what became of it by folding. */
interface Folded {
  /** Its nodes, sources first. */
  readonly order: readonly UOp[];
  /** Positions of the roots in it. */
  readonly rootAt: readonly number[];
  /** What each node of `order` became. */
  readonly now: readonly UOp[];
}

/** Whether all of a graph is on one device, the storages of which are `storages`. */
export function isOnOneDevice(roots: readonly UOp[], storages: Iterable<Storage>): boolean {
  let device: string | undefined;
  for (const s of storages) if ((device ??= s.device) !== s.device) return false;
  return !roots.some((r) => mayHave(r, Ops.COPY));
}

/**
 * Lowers the graph whose nodes, sources first, are `order`, for the roots at positions `rootAt`. `slotOf` numbers its
 * storages.
 * @throws {CycleError} where assignments need each other's old values
 */
export function lowerGraph(
  order: readonly UOp[],
  rootAt: readonly number[],
  slotOf: ReadonlyMap<Storage, number>,
  options: LowerOptions,
): Template {
  const roots = rootAt.map((i) => order[i]);
  let now = settleDevices({ order, rootAt, now: foldTensorGraph(roots, order) }, slotOf, () => options.defaultDevice);
  now = ownValues(order, rootAt, now);
  const capsOf = (u: UOp): Capabilities => options.caps(deviceOf(u) ?? options.defaultDevice);
  if (roots.some((r) => capsOf(r).hasGrid)) now = rebuild(now, (_, made) => layOut(made, capsOf));
  for (let attempt = 0;; attempt++) {
    const result = attemptLower({ order, rootAt, now }, slotOf, options);
    if (!(result instanceof Set)) return result;
    if (attempt >= MAX_ATTEMPTS) throw new SpecError("Scheduling does not settle");
    now = keep(now, result);
  }
}

/**
 * Values that folding found to be memory which has a name already, as `x * 1`: they get memory of their own, once it is
 * written. What a value is a shape of becomes that memory with it, and never the named one: handles may name it, and
 * would keep the tensor that is written from being written where it is.
 */
function ownValues(order: readonly UOp[], rootAt: readonly number[], now: readonly UOp[]): readonly UOp[] {
  let made: UOp[] | undefined;
  for (const i of rootAt) {
    let base = stripReshape(now[i]);
    while (isView(base.op) && base.op !== Ops.BITCAST) base = base.src[0];
    if (!isNamed(base)) continue;
    let u = order[i];
    while (isView(u.op)) u = u.src[0];
    if (isNamed(u)) continue;
    const at = order.lastIndexOf(stripReshape(order[i]), i), value = now[at];
    const own = uop(Ops.CONTIGUOUS, value.dtype, [value], OWN);
    made ??= now.slice();
    made[at] = own;
    made[i] = reshape(own, shapeOf(now[i]));
  }
  return made ?? now;
}

/** Whether a node is memory that has an identity. */
function isNamed(u: UOp): boolean {
  return u.op === Ops.BUFFER || u.op === Ops.AFTER || u.op === Ops.COPY ||
    (u.op === Ops.CONTIGUOUS && u.arg !== undefined);
}

/** What nodes that are no kernels of the schedule's have in common. */
const NO_KERNEL = { stores: [], slots: new Slots(), line: undefined };

/** A template, or the nodes that must be realized (of STOREs: the values) before there is one. */
function attemptLower(
  folded: Folded,
  slotOf: ReadonlyMap<Storage, number>,
  options: LowerOptions,
): Template | Set<UOp> {
  const { rootAt, now } = folded;
  const bases: UOp[] = [], fills = new Map<UOp, UOp>();
  for (const i of rootAt) {
    const base = stripReshape(now[i]);
    const c = uniformOf(base);
    if (c !== undefined && numelOf(base) > 0) fills.set(base, c);
    bases.push(base);
  }
  // CONTIGUOUS and COPY of uniform values are filled by the host
  const kernelRoots = bases.filter((b) => !fills.has(b));
  const sequenceOfNodes = toposort(bases), isAnywhere = (op: Ops): boolean => bases.some((b) => mayHave(b, op));
  if (isAnywhere(Ops.CONTIGUOUS) || isAnywhere(Ops.COPY)) {
    for (const u of sequenceOfNodes) {
      if ((u.op !== Ops.CONTIGUOUS && u.op !== Ops.COPY) || numelOf(u) === 0) continue;
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
  const rangeOf = rangeFinder(isAnywhere(Ops.AFTER) ? sequenceOfNodes : [], options.viewAlign);
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
      known.set(kernel, made = factsOf(body).isSymbolic ? body : keepOnChip(body, options.caps(device)));
    }
    return made;
  };
  let wanted: Map<UOp, string> | undefined;
  const positionOf = positions(now);
  for (let k = 0; k < sequenceOfNodes.length; k++) {
    const u = sequenceOfNodes[k];
    if (!realized.has(u)) continue;
    const device = deviceOf(u) ?? (wanted ??= devicesWanted(sequenceOfNodes)).get(u) ?? options.defaultDevice;
    const fill = fills.get(u), at = positionOf(u);
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
      nodes.push({ ...NO_KERNEL, kind: "empty", device, reads: new Set(), writes, roots: [u], at });
      continue;
    }
    if (fill !== undefined) {
      const e = entries.make(u, device);
      const writes = [versionKey(e, 1)];
      nodes.push({ ...NO_KERNEL, kind: "fill", device, reads: new Set(), writes, roots: [u], at, fillValue: fill });
      continue;
    }
    const part = rangeOf(u);
    if (part !== undefined) {
      views.push({ ...entries.makeView(u, part), at });
      continue;
    }
    entries.reads = new Set();
    if (u.op === Ops.COPY) {
      if (entries.entryOf(stripReshape(u.src[0])) === undefined) {
        throw new SpecError("A COPY of a node without storage");
      }
      const reads = entries.reads;
      const e = entries.make(u, device);
      nodes.push({ ...NO_KERNEL, kind: "copy", device, reads, writes: [versionKey(e, 1)], roots: [u], at });
      continue;
    }
    const e = entries.make(u, device), own = new OwnEntries(entries);
    const store = finished(rangeify(u, own, own.own(e), plan.kernels.get(u)), device);
    const { reads } = entries, { slots } = own;
    entries.addOlder(hazards);
    if (tooMany(u, store, device)) continue;
    nodes.push({
      kind: "kernel",
      device,
      stores: [store],
      slots,
      reads,
      writes: [versionKey(e, 1)],
      roots: [u],
      line: undefined,
      at,
    });
  }
  if (hazards.size > 0) return hazards;
  for (const n of nodes) pruneReads(n);
  const merged = mergeOutputs(nodes, options.maxBuffers), ordered = orderNodes(merged);
  if (ordered === undefined) return findCuts(merged, (u) => entries.keyOf(u));
  const becomes = whatBecomes(folded, sequenceOfNodes, entries);
  for (const b of becomes) entries.infos[b.entry].kept = true;
  const sequence = orderForMemory(ordered.map((i) => merged[i]), (e) => {
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
  return {
    entries: entries.infos,
    items: [...views, ...shareKernels(makeItems(sequence, entries.infos, options.caps))],
    becomes,
  };
}

/** A part of a BUFFER that needs no copy. */
interface Range extends Omit<ViewInfo, "base"> {
  readonly base: UOp;
}

/** Bytes for each one of a variable; undefined where a start is not a variable, or a multiple of one. */
function movingOf({ start, stride }: Moving, itemsize: number): ViewInfo["moving"][number] | undefined {
  const [u, factor] = start.op === Ops.MUL && start.src[1].op === Ops.CONST
    ? [start.src[0], start.src[1].value]
    : [start, 1];
  if (u.op !== Ops.VARIABLE) return undefined;
  return { name: argOf(u, Ops.VARIABLE).name, nbytes: factor * stride * itemsize };
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
    if (base.op === Ops.BUFFER) written.add(argOf(base, Ops.BUFFER).storage);
  }
  return (u) => {
    const isCopy = u.op === Ops.CONTIGUOUS && (u.arg === undefined || u.arg === OWN);
    if (!isCopy && !isMovement(u.op)) return undefined;
    const { base, view, moving: starts } = nodeView(u.op === Ops.CONTIGUOUS ? u.src[0] : u);
    if (base.op !== Ops.BUFFER || base === u || view === undefined || !isRange(view)) return undefined;
    const { storage } = argOf(base, Ops.BUFFER), align = viewAlign(storage.device);
    if (align === undefined || storage.staging || written.has(storage)) return undefined;
    const { itemsize } = base.dtype, offset = view.offset * itemsize;
    const moving = starts.map((m) => movingOf(m, itemsize)).filter((m) => m !== undefined);
    const isAligned = offset % align === 0 && moving.every((m) => m.nbytes % align === 0);
    return isAligned && moving.length === starts.length ? { base, offset, moving } : undefined;
  };
}

/** Finds the first node of the graph, by position, that became a node under any shape. Kept in `at` of the nodes. */
function positions(now: readonly UOp[]): (u: UOp) => number | undefined {
  for (let i = now.length - 1; i >= 0; i--) stripReshape(now[i]).at = i;
  return (u) => u.at < now.length && stripReshape(now[u.at]) === u ? u.at : undefined;
}

/** For nodes that live nowhere (constants, indices, random bits): the device of what reads them. */
function devicesWanted(order: readonly UOp[]): Map<UOp, string> {
  const wanted = new Map<UOp, string>();
  for (let i = order.length - 1; i >= 0; i--) {
    const { src } = order[i], device = deviceOf(order[i]) ?? wanted.get(order[i]);
    if (device === undefined) continue;
    for (let k = 0; k < src.length; k++) if (deviceOf(src[k]) === null) wanted.set(src[k], device);
  }
  return wanted;
}

/**
 * A node that lives nowhere is computed on the device of one that reads it; readers on other devices get a COPY. What was
 * on a device before folding left nothing but constants of it is still wanted there. Where all is on one device, nothing
 * changes.
 */
function settleDevices(
  { order: before, rootAt, now }: Folded,
  slotOf: ReadonlyMap<Storage, number>,
  defaultDevice: () => string,
): readonly UOp[] {
  const homes = new Map<number, string>(), roots = rootAt.map((i) => before[i]);
  for (const i of rootAt) {
    const home = deviceOf(before[i]);
    if (home !== null && deviceOf(now[i]) === null) homes.set(i, home);
  }
  if (homes.size === 0 && isOnOneDevice(roots, slotOf.keys())) return now;
  const order = toposort(now);
  const devices = new Set([...order.map(deviceOf), ...homes.values()].filter((d) => d !== null));
  if (devices.size < 2 && [...homes.values()].every((d) => d === defaultDevice())) return now;
  const wanted = devicesWanted(order);
  const isElsewhere = (s: UOp, device: string): boolean => {
    const home = wanted.get(s);
    return s.src.length > 0 && s.op !== Ops.BIND && deviceOf(s) === null && home !== undefined && home !== device;
  };
  const copy = (u: UOp, device: string): UOp => uop(Ops.COPY, u.dtype, [u], device);
  const settled = rebuild(now, (u, made) => {
    const device = deviceOf(u) ?? wanted.get(u);
    if (device === undefined || u.op === Ops.COPY || !u.src.some((s) => isElsewhere(s, device))) return made;
    return made.withSrc(made.src.map((s, i) => isElsewhere(u.src[i], device) ? copy(s, device) : s));
  });
  for (const [i, home] of homes) settled[i] = copy(settled[i], home);
  return settled;
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
  while (isView(base.op)) base = base.src[0];
  const key = entries.keyOf(base);
  if (key === undefined) throw new SpecError("A STORE to a node without storage");
  const id = entryOfKey(key);
  if (numelOf(u.src[0]) === 0) return undefined;
  entries.reads = new Set();
  const own = new OwnEntries(entries), out = own.own(id);
  const store = simplifyKernel(rangeify(u, own, out));
  const { reads } = entries, { slots } = own;
  entries.addOlder(hazards);
  const at = store.src[0].src[1];
  if (loadsOf(store, out.id).some((l) => l.src[0].src[1] !== at || l.src[0].src.length > 2)) hazards.add(u);
  const writes = [key + 1], { line } = u;
  nodes.push({ kind: "kernel", device, stores: [store], slots, reads, writes, roots: [u], line, at: position });
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
    ...NO_KERNEL,
    kind: "custom",
    device,
    reads: new Set(keys),
    writes: written.map((slot) => keys[slot] + 1),
    roots: [u],
    line: u.line,
    at,
    custom: { ast: kernel, entries: keys.map(entryOfKey) },
  };
}

/** Drops reads of entries that simplification removed from the kernel. */
function pruneReads({ kind, stores, slots, reads }: Node): void {
  if (kind !== "kernel") return;
  for (const r of reads) if (stores.every((s) => loadsOf(s, slots.find(entryOfKey(r))).length === 0)) reads.delete(r);
}

function whatBecomes(
  { order, rootAt, now }: Folded,
  live: readonly UOp[],
  entries: Entries,
): { at: number; entry: number; version: number }[] {
  const rootSet = new Set(rootAt.map((i) => stripReshape(order[i])));
  for (const i of rootAt) rootSet.add(order[i]);
  for (let k = 0; k < live.length; k++) live[k].at = k;
  const out: { at: number; entry: number; version: number }[] = [];
  order.forEach((u, at) => {
    const lasting = rootSet.has(u) || u.op === Ops.AFTER || u.op === Ops.COPY ||
      (u.op === Ops.CONTIGUOUS && u.arg !== undefined);
    if (!lasting || u.op === Ops.BUFFER || u.op === Ops.STORE) return;
    const base = stripReshape(now[at]);
    if (live[base.at] !== base) return; // folding left nobody who reads it: it stays lazy, writes too
    const key = entries.keyOf(base);
    if (key === undefined) return;
    const entry = entryOfKey(key);
    out.push({ at, entry, version: key - versionKey(entry, 0) });
  });
  return out;
}
