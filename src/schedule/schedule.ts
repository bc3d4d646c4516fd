/**
 * From lazy nodes to a list of steps with real buffers: resolve, check versions, look the structure up in the cache or
 * lower it, bind buffers and values. Nothing runs here; `commit` records what the nodes have become once it has.
 *
 * @module
 */
import { attachBuffer, Buffer, bufferOf } from "../device/buffer.ts";
import { defaultDevice, getDevice, togetherText } from "../device/device.ts";
import type { Program } from "../device/program.ts";
import { noteBecame, pendingScopes } from "../device/scopes.ts";
import { dtypeMax, dtypeMin, dtypes } from "../dtype/dtype.ts";
import { envNumber, wantsLines } from "../helpers/env.ts";
import { DeviceError, DisposedError, StaleReadError } from "../helpers/errors.ts";
import { type Line, userLine } from "../helpers/stack.ts";
import type { Capabilities } from "../renderer/renderer.ts";
import { type Arg, argOf, ShapeArg, Storage } from "../uop/core/args.ts";
import { mergingAll, pad, reshape, shrink } from "../uop/core/build_movement.ts";
import { opName, Ops } from "../uop/core/ops.ts";
import { deviceOf, movedToDevice, shapeOf } from "../uop/core/shape.ts";
import { specTensor, verify } from "../uop/core/spec.ts";
import { bufferNode, int, sink, type UOp, uop, variable } from "../uop/core/uop.ts";
import { owesNotes } from "../uop/core/notes.ts";
import { runWork } from "../uop/rewrite/record.ts";
import { rebuildAll } from "../uop/rewrite/walk.ts";
import { ARGUMENT, extentsOf, isBoundNode, window, withExtents } from "../uop/graph/extent.ts";
import { latest, resolve, unshaped, viewsOfRealized, writeBecomes } from "../uop/graph/resolve.ts";
import { notePartsWritten } from "../uop/graph/untouched.ts";
import { nodeView } from "../uop/graph/view.ts";
import { isAlias, isMemory, moveWrites, settleWrites } from "../uop/graph/writes.ts";
import { type GraphKey, graphKey } from "./cache/graph_key.ts";
import { slicesApart } from "./cache/slices_apart.ts";
import { StructureCache } from "./cache/structure_cache.ts";
import { stripReshape } from "./fuse/fusion_plan.ts";
import { isOnOneDevice } from "./fuse/settle_devices.ts";
import { lowerShards, type OnDevices } from "./multi/lower_shards.ts";
import { fixedValues } from "./order/share_kernels.ts";
import type { EntryInfo, TemplateItem } from "./order/template.ts";
import { type Lowered, lowerGraph } from "./schedule_passes.ts";
import { scheduleTarget } from "./schedule_target.ts";
import { type Arguments, type FreeOffset, storedSchedules } from "./stored_schedules.ts";

/** A graph's key, and what the nodes in it are that had to be told apart. */
interface Keyed {
  readonly key: GraphKey;
  readonly real: ReadonlyMap<UOp, UOp>;
}

const ITSELF: ReadonlyMap<UOp, UOp> = new Map();

/** The key of a graph with its slices apart. */
function keyOf(roots: readonly UOp[], extra: readonly Arg[]): Keyed {
  const key = graphKey(roots, extra), apart = key.offsets.length > 0 ? slicesApart(key.order, roots) : undefined;
  return apart === undefined ? { key, real: ITSELF } : { key: graphKey(apart.roots, extra), real: apart.real };
}

/** A template compiled for some values of its scalar constants and offsets: those in `free` are arguments. */
export interface Variant extends Lowered {
  readonly free: Arguments;
  readonly constants: readonly number[];
  readonly offsets: readonly number[];
  /** Names of the bound variables, in the key's order. */
  readonly boundNames: readonly string[];
  /** Arguments of kernels that are the same in each run, by name. */
  readonly fixed: ReadonlyMap<string, number>;
  /** Whether some of its buffers are parts of others. */
  readonly hasViews: boolean;
  /** Set by the engine: what it compiled for the steps that are kernels. */
  programs: ReadonlyMap<TemplateItem, Program> | undefined;
}

/** A schedule ready to run. */
export interface BoundSchedule {
  readonly variant: Variant;
  /** By entry of the template. */
  readonly buffers: readonly Buffer[];
  /** The user's line of each step, where lines are recorded. */
  readonly lines: readonly (Line | undefined)[] | undefined;
  /** Values of scalar arguments by name. */
  readonly vars: ReadonlyMap<string, number>;
  /** The names of those that are arguments of a function that is being captured. */
  readonly given: ReadonlySet<string>;
  /** Buffers to free when it has run. */
  readonly temporaries: readonly Buffer[];
  /** Storages that it writes in place, with the number of writes. */
  readonly written: readonly { readonly storage: Storage; readonly writes: number }[];
  /** Storages of the entries that have one: whoever replays the items must hold them. */
  readonly storages: readonly (Storage | undefined)[];
  /** Those among them that this schedule makes. */
  readonly made: readonly Storage[];
  /** The nodes of the graph, sources first. */
  readonly order: readonly UOp[];
  /** Whether it was found in the cache, or another process had made it. */
  readonly cached: boolean;
  /** Records the results: nodes become buffers, versions advance. Call once, after it ran. */
  commit(): void;
}

/** What the machine that a graph is scheduled for can do. */
function capsOf(device: string): Capabilities {
  return scheduleTarget.now?.caps ?? getDevice(device).renderer.caps;
}

/** Structures that are kept. */
const MAX_STRUCTURES = 1024;

/** The variants of each structure. */
const cache = new StructureCache<Variant[]>(MAX_STRUCTURES);
/** Hits and misses of the schedule cache, and how many of what it missed another process had made. */
export const scheduleCacheStats: { hits: number; misses: number; read: number } = { hits: 0, misses: 0, read: 0 };

/** Empties the schedule cache. */
export function clearScheduleCache(): void {
  cache.clear();
}

/** What to do about a read of weights that an optimizer has stepped. */
const BEFORE_STEP =
  "gradients and what the weights computed are read before the optimizer's step, or realized with it: " +
  "Tensor.realize([w.grad, accuracy, ...optimizer.scheduleStep()])";

/** The same where weights are stepped again: what is read is in their gradient. */
const BEFORE_LAST_STEP =
  "it is from before the optimizer's last step: realize what is carried on, as the state of a recurrent network, with " +
  "each step: optimizer.step({ also: [state] }); where a gradient was added to one from then, call optimizer.zeroGrad() " +
  "before backward(), or, to add gradients up over steps, realize them: Tensor.realize([w.grad, ...optimizer.scheduleStep()])";

/** What to do about a read of an earlier value; undefined for what holds for all. */
function wayOutOf(key: GraphKey, storage: Storage, version: number): string | undefined {
  if (version > storage.stepped) return undefined;
  const isStepped = key.order.some((u) => u.op === Ops.AFTER && storageOf(u.src[0]) === storage);
  return isStepped ? BEFORE_LAST_STEP : BEFORE_STEP;
}

function checkVersions(key: GraphKey): void {
  for (let i = 0; i < key.order.length; i++) {
    const u = key.order[i];
    if (u.op !== Ops.BUFFER) continue;
    const { storage, version } = argOf(u, Ops.BUFFER);
    if (storage.disposedAt !== "") {
      throw new DisposedError("realize a graph", { disposedAt: String(storage.disposedAt) });
    }
    if (version !== storage.version) {
      const reader = key.order.find((x) => x.src.includes(u) && x.line !== undefined);
      throw new StaleReadError({
        writtenAt: String(storage.writtenAt || "an unknown line"),
        readAt: String(reader?.line ?? userLine()),
        wayOut: wayOutOf(key, storage, version),
      });
    }
  }
}

/** Throws where one node reads two devices: only a COPY moves values. @throws {DeviceError} */
function checkDevices(key: GraphKey, roots: readonly UOp[]): void {
  if (isOnOneDevice(roots, key.storages)) return;
  for (const u of key.order) {
    if (movedToDevice(u) !== undefined || u.src.length < 2) continue;
    let first: string | null = null;
    for (let i = 0; i < u.src.length; i++) {
      const device = deviceOf(u.src[i]);
      if (device === null || device === first) continue;
      if (first !== null) {
        throw new DeviceError(`compute ${opName[u.op]} of tensors on ${first} and ${device}`, {
          device,
          reason: `all must be on one device; ${togetherText(first, device)}${
            u.line === undefined ? "" : ` (${u.line})`
          }`,
        });
      }
      first = device;
    }
  }
}

/** A SHRINK or PAD whose offsets along some axes are expressions. */
function movedTo(u: UOp, starts: ReadonlyMap<number, UOp>): UOp {
  const from = shapeOf(u.src[0]), to = shapeOf(u), isPad = u.op === Ops.PAD;
  const still = argOf(u, Ops.SHRINK).pairs.map((p, axis) =>
    !starts.has(axis) ? p : isPad ? [0, 0] as const : [0, from[axis]] as const
  );
  let x = isPad ? pad(u.src[0], still) : shrink(u.src[0], still);
  for (const [axis, start] of starts) x = window(x, axis, isPad ? start.mul(-1) : start, int(to[axis]));
  return x;
}

function lower({ key, real }: Keyed, free: Arguments, views: boolean): Variant {
  const roots = key.rootAt.map((at) => key.order[at]);
  if (envNumber("SPEC") > 0) verify(sink(roots), specTensor, "before scheduling");
  checkDevices(key, roots);
  const map = new Map<UOp, UOp>(), boundNames = boundNamesOf(key);
  key.boundAt.forEach((at, i) => {
    const u = key.order[at];
    const arg = argOf(u.src[0], Ops.VARIABLE);
    map.set(u, variable(boundNames[i], arg.min, arg.max, u.dtype));
  });
  for (const i of free.constants) {
    const u = key.order[key.constantAt[i]], { dtype } = u;
    map.set(u, variable(`c${i}`, dtypeMin(dtype), dtypeMax(dtype), dtype));
  }
  const starts = new Map<UOp, Map<number, UOp>>();
  for (const [i, { unit, first }] of free.offsets) {
    const { at, axis, max } = key.offsets[i], u = key.order[at], n = variable(`o${first}`, 0, Math.floor(max / unit));
    if (!starts.has(u)) starts.set(u, new Map());
    starts.get(u)!.set(axis, unit === 1 ? n : n.mul(unit));
  }
  const slotOf = new Map(key.storages.map((s, i) => [s, i] as const));
  // positions of `order` follow the abstraction, so that what becomes what is found by position
  const all = map.size + starts.size + real.size === 0 ? key.order : rebuildAll(key.order, (u, src) => {
    const at = starts.get(u), known = map.get(u);
    if (known !== undefined || at !== undefined) return known ?? movedTo(u.withSrc(src), at!);
    return real.has(u) ? uop(u.op, u.dtype, src, u.arg) : undefined; // one again
  });
  const limit = envNumber("MAX_KERNEL_BUFFERS");
  return variantOf(
    lowerGraph(all, key.rootAt, slotOf, {
      get defaultDevice(): string {
        return defaultDevice();
      },
      caps: capsOf,
      maxBuffers: (device) => Math.min(capsOf(device).maxBuffers, limit > 0 ? limit : Infinity),
      viewAlign: (device) => views ? viewAlign(device) : undefined,
      memoryLayout: (device) => getDevice(device).allocator.layout,
    }),
    key,
    free,
  );
}

/** Names of the bound variables, in the key's order. */
function boundNamesOf({ boundAt, order }: GraphKey): string[] {
  return boundAt.map((at, i) => `${argOf(order[at].src[0], Ops.VARIABLE).name}_${i}`);
}

/** A template as the variant for a key. */
function variantOf(template: Lowered, key: GraphKey, free: Arguments): Variant {
  return {
    ...template,
    free,
    constants: key.constants,
    offsets: key.offsets.map((o) => o.value),
    boundNames: boundNamesOf(key),
    fixed: fixedValues(template.items),
    hasViews: template.items.some((i) => i.kind === "view"),
    programs: undefined,
  };
}

/** Lowers a graph: where it has been, to tell again why `known` is as it is. */
function lowered(keyed: Keyed, free: Arguments, views: boolean, known?: Variant): Variant {
  return runWork({ kind: "schedule", device: "" }, () => {
    const made = lower(keyed, free, views);
    return known ?? made;
  });
}

/** The offsets that views may have on a device; none where what shares memory could not part again. */
function viewAlign(device: string): number | undefined {
  const { transfer, copyOut, layout } = getDevice(device).allocator;
  return transfer === undefined && copyOut === undefined ? undefined : layout.viewAlign;
}

const NOTHING_FREE: Arguments = { constants: new Set(), offsets: new Map() };
/** So many slices of computed values are arguments as soon as one offset of a graph is; of more only those that differ. */
const FEW_OFFSETS = 8;

/** Whether a variant serves the constants and offsets of a key. */
function serves({ free, constants, offsets }: Variant, key: GraphKey): boolean {
  for (let i = 0; i < key.offsets.length; i++) {
    const { value } = key.offsets[i], o = free.offsets.get(i);
    if (o === undefined ? value !== offsets[i] : value % o.unit !== 0 || value !== key.offsets[o.first].value) {
      return false;
    }
  }
  return key.constants.every((c, i) => free.constants.has(i) || Object.is(c, constants[i]));
}

/**
 * What the next variant of a structure has as arguments: what was one, and what differs from the others. With the first
 * offset that differs go those of all slices of memory, and a few others: they would differ later.
 */
function nextFree(key: GraphKey, variants: readonly Variant[]): Arguments {
  const constants = new Set<number>(), moving = new Set<number>();
  for (const v of variants) {
    for (const i of v.free.constants) constants.add(i);
    for (const i of v.free.offsets.keys()) moving.add(i);
    key.constants.forEach((c, i) => !Object.is(c, v.constants[i]) && constants.add(i));
    key.offsets.forEach((o, i) => o.value !== v.offsets[i] && moving.add(i));
  }
  if (moving.size === 0) return { constants, offsets: new Map() };
  const others = key.offsets.filter((o) => !o.isRead && !o.isFixed).length;
  key.offsets.forEach((o, i) => !o.isFixed && (o.isRead || others <= FEW_OFFSETS) && moving.add(i));
  const offsets = new Map<number, FreeOffset>(), known = new Map<string, number>();
  for (const i of [...moving].sort((a, b) => a - b)) {
    const { at, axis, max, value } = key.offsets[i], { src: [x], op } = key.order[at];
    const name = [op, x.at, axis, max, value, ...variants.map((v) => v.offsets[i])].join();
    const first = known.get(name) ?? i, unit = unitOf(key, variants, i);
    if (first === i) known.set(name, i);
    offsets.set(i, { unit, first });
  }
  return { constants, offsets };
}

/**
 * What an offset is taken to be a multiple of, so that wide accesses and views, where a device asks for their addresses to
 * be aligned, are so for all values: the largest power of two that divides those seen, where that is no coincidence. That
 * one was 0 so far says nothing of what it will be.
 */
function unitOf(key: GraphKey, variants: readonly Variant[], i: number): number {
  const device = deviceOf(key.order[key.offsets[i].at]);
  if (device === null) return 1;
  const { renderer, allocator } = getDevice(device);
  if (!renderer.caps.hasGrid && allocator.layout.viewAlign === 1) return 1;
  if (variants.some((v) => v.free.offsets.get(i)?.unit === 1)) return 1;
  const values = [key.offsets[i].value, ...variants.map((v) => v.offsets[i])];
  let unit = MAX_UNIT;
  for (const value of values) while (value % unit !== 0) unit /= 2;
  const isLikely = unit >= CHANCE && values.some((v) => v !== 0);
  return isLikely || (variants.some((v) => v.hasViews) && isAligned(key, i, unit, allocator.layout.viewAlign))
    ? unit
    : 1;
}

/** Whether slices of memory stay aligned where one of their offsets is any multiple of `unit`. */
function isAligned(key: GraphKey, i: number, unit: number, align: number): boolean {
  const { at, axis } = key.offsets[i], u = key.order[at];
  if (u.op !== Ops.SHRINK) return false;
  const { base, view } = nodeView(u.src[0]);
  return base.op === Ops.BUFFER && view !== undefined && unit * view.strides[axis] * base.dtype.itemsize % align === 0;
}

/** The largest unit of offsets, and the least that is no coincidence. */
const MAX_UNIT = 64, CHANCE = 16;

/** The variant of the cache that serves these constants and offsets, lowered if need be; with views only if they may be. */
function findVariant(keyed: Keyed, views: boolean): Variant {
  const { key } = keyed;
  if (envNumber("SCACHE") === 0 || envNumber("FUSE") === 0) return lowered(keyed, NOTHING_FREE, views);
  const variants = cache.get(key) ?? cache.add(key, []);
  for (const v of variants) {
    if ((v.hasViews && !views) || !serves(v, key)) continue;
    scheduleCacheStats.hits++;
    if (owesNotes(v)) lowered(keyed, v.free, views && v.hasViews, v);
    return v;
  }
  scheduleCacheStats.misses++;
  const free = nextFree(key, variants.filter((v) => views || !v.hasViews));
  const read = (known: Lowered): Variant => {
    scheduleCacheStats.read++;
    return variantOf(known, key, free);
  };
  const make = (): Variant => lowered(keyed, free, views);
  const isStored = scheduleTarget.now === undefined;
  const made = isStored ? storedSchedules.now.before({ key, free, views }, read, make) : make();
  owesNotes(made); // they are told
  variants.push(made);
  return made;
}

/** The storage of a reshaped BUFFER node. */
function storageBelow(u: UOp): Storage {
  while (u.op !== Ops.BUFFER) u = u.src[0];
  return argOf(u, Ops.BUFFER).storage;
}

/** The storage of a reshaped BUFFER, if it is one. */
function storageOf(u: UOp): Storage | undefined {
  u = unshaped(u);
  return u.op === Ops.BUFFER ? argOf(u, Ops.BUFFER).storage : undefined;
}

/** Notes that a node became a reshaped BUFFER: when that was born, and who holds it. */
function noteMade(u: UOp, made: UOp): void {
  const storage = storageBelow(made);
  storage.born = Math.min(storage.born, u.seq);
  storage.claims += u.claims;
  u.claims = 0;
  let base = u;
  while (isAlias(base.op)) base = base.src[0];
  const isShape = isMemory(base) && base !== u && storageOf(base) === storage;
  if (base === u && isMemory(u)) storage.names += u.op === Ops.AFTER || u.names === 0 ? 0 : 1;
  else if (!isShape) {
    // views of other tensors may go through a view, but not through the cut of a value that no tensor names
    const isCut = u.op === Ops.DETACH && u.src[0].names === 0;
    storage.names += u.names + (base === u || isCut ? 0 : 1);
  }
  if (pendingScopes.size > 0) noteBecame(u, storage);
}

/** How temporaries get their memory; the JIT keeps its own. */
export type TakeBuffer = (device: string, nbytes: number) => Buffer;

const takeFresh: TakeBuffer = (device, nbytes) => {
  const buffer = new Buffer(getDevice(device), dtypes.uint8, nbytes);
  buffer.use = "intermediates of the running schedule";
  return buffer;
};

/**
 * Schedules lazy nodes. With `take` given, the steps may run again: then no buffer is, or stays, part of another's.
 *
 * @throws {StaleReadError} if the graph reads a version that has been overwritten
 * @throws {CycleError} if assignments need each other's old values
 */
export function scheduleNodes(nodes: readonly UOp[], take?: TakeBuffer): BoundSchedule {
  return mergingAll(() => scheduleMerged(nodes, take));
}

function scheduleMerged(nodes: readonly UOp[], take: TakeBuffer | undefined): BoundSchedule {
  const memo = new Map<UOp, UOp>();
  const resolved = [...new Set(nodes.map((u) => resolve(u, memo)))], local = lowerShards(resolved);
  const roots = local === undefined ? resolved : [...new Set(local.roots)];
  const options =
    (["NOOPT", "BEAM", "MAX_KERNEL_BUFFERS", "NO_MEMORY_PLANNER", "MAX_BUFFER_SIZE", "ALLOW_TF32"] as const).map(
      envNumber,
    );
  // what has a device needs no default one, which may not be open yet
  const home = roots.some((r) => deviceOf(r) === null) ? defaultDevice() : "";
  const keyed = keyOf(roots, [`${home}${scheduleTarget.now?.name ?? ""}`, ...options]), { key } = keyed;
  checkVersions(key);
  const { hits, read } = scheduleCacheStats, variant = findVariant(keyed, take === undefined);
  const cached = scheduleCacheStats.hits > hits || scheduleCacheStats.read > read;
  return bind(variant, keyed, memo, take, cached, local?.made);
}

/** The user's line of the node at a position: its own, else that of the next node that is computed from it. */
function lineAt(order: readonly UOp[], at: number | undefined): Line | undefined {
  if (at === undefined) return undefined;
  for (let i = at, u = order[at];;) {
    if (u.line !== undefined) return u.line;
    do i++; while (i < order.length && !order[i].src.includes(u));
    if (i >= order.length) return undefined;
    u = order[i];
  }
}

/** Before any view is made: nobody else's memory is written, and what is replayed finds its own where it was. */
function partBuffers({ entries }: Variant, key: GraphKey, replayed: boolean): void {
  for (const { slot, versions } of entries) {
    const buffer = slot === undefined ? undefined : bufferOf(key.storages[slot]);
    if (buffer !== undefined && (versions > 0 || (replayed && buffer.base !== buffer))) buffer.unshare();
  }
}

/** What a node of the graph has become: of what is divided all of it, in memory that knows how. */
function madeOf(
  u: UOp,
  now: ReadonlyMap<UOp, UOp>,
  divided: ReadonlyMap<UOp, OnDevices> | undefined,
): UOp | undefined {
  const own = divided?.get(u), made = now.get(own?.u ?? u);
  if (own === undefined || made === undefined) return made;
  const node = stripReshape(made), { storage, version } = argOf(node, Ops.BUFFER), { layout } = storage;
  if (own.layout === undefined ? layout !== undefined : layout !== undefined && !layout.same(own.layout)) {
    return undefined; // another node has become it
  }
  storage.layout = own.layout;
  return withExtents(reshape(bufferNode(storage, version), shapeOf(u)), extentsOf(u));
}

function bind(
  variant: Variant,
  { key, real }: Keyed,
  memo: ReadonlyMap<UOp, UOp>,
  take: TakeBuffer | undefined,
  cached: boolean,
  divided: ReadonlyMap<UOp, OnDevices> | undefined,
): BoundSchedule {
  const fresh: Storage[] = [];
  const blocks = variant.plan.blocks.map((b) => (take ?? takeFresh)(b.device, b.nbytes));
  const storages: (Storage | undefined)[] = [], buffers: Buffer[] = [];
  partBuffers(variant, key, take !== undefined);
  const vars = new Map<string, number>();
  key.bound.forEach((v, i) => vars.set(variant.boundNames[i], v));
  const given = new Set(variant.boundNames.filter((_, i) => key.order[key.boundAt[i]].arg === ARGUMENT));
  for (const i of variant.free.constants) vars.set(`c${i}`, key.constants[i]);
  for (const [i, { unit, first }] of variant.free.offsets) {
    if (first === i) vars.set(`o${i}`, key.offsets[i].value / unit);
  }
  for (const [name, value] of variant.fixed) vars.set(name, value);
  variant.entries.forEach((info, e) => buffers.push(bufferFor(info, e)));
  function bufferFor(info: EntryInfo, e: number): Buffer {
    if (info.slot !== undefined) {
      const storage = storages[e] = key.storages[info.slot];
      const known = bufferOf(storage);
      if (known !== undefined) return known;
      const made = new Buffer(getDevice(info.device), info.dtype, info.size);
      attachBuffer(storage, made);
      return made;
    }
    const place = variant.plan.places[e];
    const device = getDevice(info.device);
    if (place !== undefined) return new Buffer(device, info.dtype, info.size, blocks[place.block], place.offset);
    const { view } = info, base = view === undefined ? undefined : buffers[view.base];
    const offset = view?.moving.reduce((n, { name, nbytes }) => n + vars.get(name)! * nbytes, view.offset) ?? 0;
    if (base !== undefined && !info.kept) return base.view(offset, info.size);
    const made = base === undefined ? new Buffer(device, info.dtype, info.size) : base.share(offset, info.size);
    if (info.kept) {
      const storage = storages[e] = new Storage(device.name, info.dtype, info.size);
      attachBuffer(storage, made);
      fresh.push(storage);
    }
    return made;
  }
  const lines = wantsLines() ? variant.items.map(({ at }) => lineAt(key.order, at)) : undefined;
  const written: { storage: Storage; writes: number }[] = [];
  variant.entries.forEach((info, e) => {
    if (info.slot !== undefined && info.versions > 0) written.push({ storage: storages[e]!, writes: info.versions });
  });
  const commit = (): void => {
    const before = storages.map((s) => s?.version ?? 0);
    variant.entries.forEach((info, e) => storages[e] !== undefined && (storages[e]!.version += info.versions));
    for (const { kind, entries: [to, from] } of variant.items) {
      if (kind === "copy" && storages[from]?.weak === true && storages[to] !== undefined) storages[to]!.weak = true;
    }
    const now = new Map<UOp, UOp>(), nodes = new Map<UOp, UOp>();
    for (const { at, entry, version } of variant.becomes) {
      const u = real.get(key.order[at]) ?? key.order[at], storage = storages[entry];
      // a constant stays one: it stands for all that are equal
      if (storage === undefined || isBoundNode(u) || u.op === Ops.CONST) continue;
      if (u.op === Ops.AFTER) storage.writtenAt = u.src[u.src.length - 1].line ?? storage.writtenAt;
      // one node for a value under several shapes: gradients find what they are of by it
      const value = stripReshape(u), end = before[entry] + version;
      let node = nodes.get(value);
      if (node === undefined || !isVersion(node, storage, end)) {
        nodes.set(value, node = bufferNode(storage, end, divided !== undefined));
      }
      now.set(u, withExtents(reshape(node, shapeOf(u)), extentsOf(u)));
      const buffer = buffers[entry];
      buffer.shape ??= shapeOf(u);
      if (lines !== undefined) buffer.madeAt ??= lineAt(key.order, at);
    }
    for (const [original, resolved] of memo) {
      const made = madeOf(resolved, now, divided);
      if (made === undefined) continue;
      noteMade(original, made);
      if (original.op === Ops.CONTIGUOUS || original.op === Ops.COPY) moveWrites(original, storageBelow(made));
      if (
        original.becomes === undefined && latest(original) !== made && (divided !== undefined || !isMemoryNow(original))
      ) {
        original.becomes = divided === undefined ? asBuilt(original, made) : made;
      }
    }
    for (const [u, made] of now) {
      if (u.becomes !== undefined || divided !== undefined || isMemoryNow(u)) continue;
      u.becomes = made;
      if (u.op === Ops.AFTER) writeBecomes(u, made);
      noteMade(u, made); // handles may name it that are of no root here
    }
    notePartsWritten(written, key.order);
    for (const { storage } of written) settleWrites(storage);
    for (const storage of fresh) settleWrites(storage);
  };
  const { order } = key;
  return {
    variant,
    buffers,
    lines,
    vars,
    given,
    temporaries: blocks,
    written,
    storages,
    made: fresh,
    order,
    cached,
    commit,
  };
}

/** How many views of memory there are that are told apart by number. */
let viewsApart = 0;

/**
 * What a node has become, as a view of what it is a view of: a gradient with respect to the one is no gradient with respect
 * to the other. Shapes are what they were; what else shows all of memory in order is a shape of its own.
 */
function asBuilt(u: UOp, made: UOp): UOp {
  const shown = u.dtype.isFloat && made.op !== Ops.WINDOW ? viewsOfRealized(u) : undefined;
  if (shown === undefined) return made;
  let { below } = shown;
  const { views } = shown, memory = stripReshape(below), { storage, version } = argOf(stripReshape(made), Ops.BUFFER);
  if (memory.op !== Ops.BUFFER || !isVersion(memory, storage, version)) return made;
  while (views.at(-1)?.op === Ops.RESHAPE) below = uop(Ops.RESHAPE, u.dtype, [below], views.pop()!.arg);
  return views.length === 0 ? below : uop(Ops.RESHAPE, u.dtype, [below], new ShapeArg(shapeOf(u), ++viewsApart));
}

/** Whether a node is a shape of memory already: what shows all of it may become that too, and be cut off from gradients. */
function isMemoryNow(u: UOp): boolean {
  return stripReshape(u).op === Ops.BUFFER;
}

function isVersion(node: UOp, storage: Storage, version: number): boolean {
  const arg = argOf(node, Ops.BUFFER);
  return arg.storage === storage && arg.version === version;
}
