/**
 * From lazy nodes to a list of steps with real buffers: resolve, check versions, look the structure up in the cache or
 * lower it, bind buffers and values. Nothing runs here; `commit` records what the nodes have become once it has.
 *
 * @module
 */
import { dtypes } from "../dtype/dtype.ts";
import { attachBuffer, Buffer, bufferOf } from "../device/buffer.ts";
import { defaultDevice, getDevice } from "../device/device.ts";
import { envNumber, wantsLines } from "../helpers/env.ts";
import { DeviceError, DisposedError, StaleReadError } from "../helpers/errors.ts";
import { userLine } from "../helpers/stack.ts";
import { type BufferArg, Storage, type VariableArg } from "../uop/args.ts";
import { extentsOf, isBoundNode, withExtents } from "../uop/extent.ts";
import { reshape } from "../uop/movement.ts";
import { opName, Ops } from "../uop/ops.ts";
import { latest, resolve } from "../uop/resolve.ts";
import { specTensor, verify } from "../uop/spec.ts";
import { deviceOf, shapeOf } from "../uop/shape.ts";
import { bufferNode, sink, type UOp, variable } from "../uop/uop.ts";
import { StructureCache } from "./cache.ts";
import { type GraphKey, graphKey } from "./key.ts";
import { isOnOneDevice, lowerGraph, rebuild } from "./lower.ts";
import { type MemoryPlan, planMemory } from "./memory.ts";
import type { EntryInfo, Template, TemplateItem } from "./template.ts";

/** A template compiled for some values of its scalar constants: those in `abstracted` are arguments. */
export interface Variant extends Template {
  /** Positions in the key's list of constants that are arguments here. */
  readonly abstracted: ReadonlySet<number>;
  readonly constants: readonly number[];
  /** Names of the bound variables, in the key's order. */
  readonly boundNames: readonly string[];
  readonly plan: MemoryPlan;
  /** Whether some of its buffers are parts of others. */
  readonly hasViews: boolean;
  /** Set by the engine: what it compiled for each item. */
  programs: unknown[] | undefined;
}

/** A step with its buffers. */
export interface BoundItem {
  readonly template: TemplateItem;
  readonly buffers: readonly Buffer[];
  /** The user's line, where recorded. */
  readonly line: string | undefined;
}

/** A schedule ready to run. */
export interface BoundSchedule {
  readonly variant: Variant;
  readonly items: readonly BoundItem[];
  /** Values of scalar arguments by name. */
  readonly vars: ReadonlyMap<string, number>;
  /** Buffers to free when it has run. */
  readonly temporaries: readonly Buffer[];
  /** Storages that it writes in place, with the number of writes. */
  readonly written: readonly { readonly storage: Storage; readonly writes: number }[];
  /** Storages of the entries that have one: whoever replays the items must hold them. */
  readonly storages: readonly (Storage | undefined)[];
  /** Those among them that this schedule makes. */
  readonly made: readonly Storage[];
  /** Nodes of the graph, and whether it was found in the cache: for DEBUG=1. */
  readonly nodes: number;
  readonly cached: boolean;
  /** Records the results: nodes become buffers, versions advance. Call once, after it ran. */
  commit(): void;
}

/** Structures that are kept. */
const MAX_STRUCTURES = 1024;

/** The variants of each structure. */
const cache = new StructureCache<Variant[]>(MAX_STRUCTURES);
/** Hits and misses of the schedule cache. */
export const scheduleCacheStats: { hits: number; misses: number } = { hits: 0, misses: 0 };

/** Empties the schedule cache. */
export function clearScheduleCache(): void {
  cache.clear();
}

function checkVersions(key: GraphKey): void {
  for (let i = 0; i < key.order.length; i++) {
    const u = key.order[i];
    if (u.op !== Ops.BUFFER) continue;
    const { storage, version } = u.arg as BufferArg;
    if (storage.disposedAt !== "") {
      throw new DisposedError("realize a graph", { disposedAt: String(storage.disposedAt) });
    }
    if (version !== storage.version) {
      const reader = key.order.find((x) => x.src.includes(u) && x.line !== undefined);
      throw new StaleReadError({
        writtenAt: String(storage.writtenAt || "an unknown line"),
        readAt: String(reader?.line ?? userLine()),
      });
    }
  }
}

/** Throws where one node reads two devices: only a COPY moves values. @throws {DeviceError} */
function checkDevices(key: GraphKey, roots: readonly UOp[]): void {
  if (isOnOneDevice(roots, key.storages)) return;
  for (const u of key.order) {
    if (u.op === Ops.COPY || u.src.length < 2) continue;
    let first: string | null = null;
    for (let i = 0; i < u.src.length; i++) {
      const device = deviceOf(u.src[i]);
      if (device === null || device === first) continue;
      if (first !== null) {
        throw new DeviceError(`compute ${opName[u.op]} of tensors on ${first} and ${device}`, {
          device,
          reason: `all must be on one device; move one with .to("${first}")${
            u.line === undefined ? "" : ` (${u.line})`
          }`,
        });
      }
      first = device;
    }
  }
}

function lower(key: GraphKey, roots: readonly UOp[], abstracted: ReadonlySet<number>, views: boolean): Variant {
  if (envNumber("SPEC") > 0) verify(sink(roots), specTensor, "before scheduling");
  checkDevices(key, roots);
  const map = new Map<UOp, UOp>();
  const boundNames = key.boundAt.map((at, i) => {
    const { src, arg } = key.order[at];
    return `${(src[0].arg as VariableArg).name}${arg ?? ""}_${i}`;
  });
  key.boundAt.forEach((at, i) => {
    const u = key.order[at];
    const arg = u.src[0].arg as VariableArg;
    map.set(u, variable(boundNames[i], arg.min, arg.max, u.dtype));
  });
  for (const i of abstracted) {
    map.set(key.order[key.constantAt[i]], variable(`c${i}`, -Infinity, Infinity, key.order[key.constantAt[i]].dtype));
  }
  const slotOf = new Map(key.storages.map((s, i) => [s, i] as const));
  // positions of `order` follow the abstraction, so that what becomes what is found by position
  const all = map.size === 0 ? key.order : rebuild(key.order, (u, made) => map.get(u) ?? made);
  const limit = envNumber("MAX_KERNEL_BUFFERS");
  const template = lowerGraph(all, key.rootAt, slotOf, {
    get defaultDevice(): string {
      return defaultDevice();
    },
    caps: (device) => getDevice(device).renderer.caps,
    maxBuffers: (device) => Math.min(getDevice(device).renderer.caps.maxBuffers, limit > 0 ? limit : Infinity),
    viewAlign: (device) => views ? viewAlign(device) : undefined,
  });
  return {
    ...template,
    abstracted,
    constants: key.constants,
    boundNames,
    plan: planMemory(template, (device) => getDevice(device).allocator.layout),
    hasViews: template.items.some((i) => i.kind === "view"),
    programs: undefined,
  };
}

/** The offsets that views may have on a device; none where what shares memory could not part again. */
function viewAlign(device: string): number | undefined {
  const { transfer, copyOut, layout } = getDevice(device).allocator;
  return transfer === undefined && copyOut === undefined ? undefined : layout.viewAlign;
}

/** The variant of the cache that serves these constants, lowered if need be; with views only if they may be. */
function findVariant(key: GraphKey, roots: readonly UOp[], views: boolean): Variant {
  if (envNumber("SCACHE") === 0) return lower(key, roots, new Set(), views);
  const variants = cache.get(key) ?? cache.add(key, []);
  for (const v of variants) {
    if (v.hasViews && !views) continue;
    if (key.constants.every((c, i) => v.abstracted.has(i) || Object.is(c, v.constants[i]))) {
      scheduleCacheStats.hits++;
      return v;
    }
  }
  scheduleCacheStats.misses++;
  const abstracted = new Set<number>();
  for (const v of variants) {
    if (v.hasViews && !views) continue;
    for (const i of v.abstracted) abstracted.add(i);
    key.constants.forEach((c, i) => !Object.is(c, v.constants[i]) && abstracted.add(i));
  }
  const made = lower(key, roots, abstracted, views);
  variants.push(made);
  return made;
}

/** The storage of a reshaped BUFFER node. */
function storageBelow(u: UOp): Storage {
  while (u.op !== Ops.BUFFER) u = u.src[0];
  return (u.arg as BufferArg).storage;
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
  const memo = new Map<UOp, UOp>();
  const roots = [...new Set(nodes.map((u) => resolve(u, memo)))];
  const options = (["NOOPT", "MAX_KERNEL_BUFFERS", "NO_MEMORY_PLANNER", "MAX_BUFFER_SIZE", "ALLOW_TF32"] as const).map(
    envNumber,
  );
  // what has a device needs no default one, which may not be open yet
  const home = roots.some((r) => deviceOf(r) === null) ? defaultDevice() : "";
  const key = graphKey(roots, [home, ...options]);
  checkVersions(key);
  const misses = scheduleCacheStats.misses, hits = scheduleCacheStats.hits;
  const variant = findVariant(key, roots, take === undefined);
  const cached = scheduleCacheStats.misses === misses && scheduleCacheStats.hits > hits;
  return bind(variant, key, memo, take, cached);
}

/** The user's line of the node at a position: its own, else that of the next node that is computed from it. */
function lineAt(order: readonly UOp[], at: number | undefined): string | undefined {
  if (at === undefined) return undefined;
  for (let i = at, u = order[at];;) {
    if (u.line !== undefined) return String(u.line);
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

function bind(
  variant: Variant,
  key: GraphKey,
  memo: ReadonlyMap<UOp, UOp>,
  take: TakeBuffer | undefined,
  cached: boolean,
): BoundSchedule {
  const fresh: Storage[] = [], lines = wantsLines();
  const blocks = variant.plan.blocks.map((b) => (take ?? takeFresh)(b.device, b.nbytes));
  const storages: (Storage | undefined)[] = [], buffers: Buffer[] = [];
  partBuffers(variant, key, take !== undefined);
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
    if (info.view !== undefined && !info.kept) return buffers[info.view.base].view(info.view.offset, info.size);
    const made = info.view === undefined
      ? new Buffer(device, info.dtype, info.size)
      : buffers[info.view.base].share(info.view.offset, info.size);
    if (info.kept) {
      const storage = storages[e] = new Storage(device.name, info.dtype, info.size);
      attachBuffer(storage, made);
      fresh.push(storage);
    }
    return made;
  }
  const items = variant.items.map((template) => ({
    template,
    buffers: template.entries.map((e) => buffers[e]),
    line: lines ? lineAt(key.order, template.at) : undefined,
  }));
  const vars = new Map<string, number>();
  key.bound.forEach((v, i) => vars.set(variant.boundNames[i], v));
  for (const i of variant.abstracted) vars.set(`c${i}`, key.constants[i]);
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
    const now = new Map<UOp, UOp>();
    for (const { at, entry, version } of variant.becomes) {
      const u = key.order[at], storage = storages[entry];
      if (storage === undefined || isBoundNode(u)) continue;
      if (u.op === Ops.AFTER) storage.writtenAt = u.src[u.src.length - 1].line ?? storage.writtenAt;
      now.set(u, withExtents(reshape(bufferNode(storage, before[entry] + version), shapeOf(u)), extentsOf(u)));
      const buffer = buffers[entry];
      buffer.shape ??= shapeOf(u);
      if (lines) buffer.line ??= lineAt(key.order, at);
    }
    for (const [original, resolved] of memo) {
      const made = now.get(resolved);
      if (made === undefined) continue;
      const storage = storageBelow(made);
      storage.born = Math.min(storage.born, original.seq);
      storage.claims += original.claims;
      original.claims = 0;
      if (original.becomes === undefined && latest(original) !== made) original.becomes = made;
    }
    for (const [u, made] of now) if (u.becomes === undefined) u.becomes = made;
  };
  const nodes = key.order.length;
  return { variant, items, vars, temporaries: blocks, written, storages, made: fresh, nodes, cached, commit };
}
