/**
 * A captured call made ready to run again. In, the steps of its bound templates and what of their memory others can
 * see; out, the steps that are needed, with their intermediates planned into one arena a device as those of a template
 * are, bound again, as graphs in which the buffers and numbers of each call are put. What depends on no call (uploads
 * of constants, and what is made of them alone) is not repeated.
 *
 * @module
 */
import type { Work } from "../collectives/communicator.ts";
import { attachBuffer, Buffer } from "../device/buffer.ts";
import { getDevice } from "../device/device.ts";
import type { Graph, Insertion, Launch } from "../device/program.ts";
import { dtypes } from "../dtype/dtype.ts";
import { envNumber } from "../helpers/env.ts";
import { sum } from "../helpers/math.ts";
import { spans, timed } from "../helpers/spans.ts";
import { neighborsOf } from "../schedule/order/join_collectives.ts";
import { lastBeside, waitsOf } from "../schedule/order/under_way.ts";
import { planMemory } from "../schedule/order/memory_plan.ts";
import type { TemplateItem } from "../schedule/order/template.ts";
import { Storage } from "../uop/core/args.ts";
import type { CapturedStep, Recording } from "./capture.ts";
import { canCapture, copyProgram, needsEnd, overlaps, runAgreed, startCollective } from "./collective.ts";
import {
  accessOfEntries,
  checksCustom,
  execItem,
  runItems,
  stepLog,
  tellLaunches,
  tellReplay,
  varNamesIn,
  varNamesOf,
  varValues,
} from "./exec.ts";
import { countText } from "./front/listening.ts";
import { type Access, CollectiveStep, type ExecItem } from "./front/runners.ts";
import { GlobalCounters } from "./stats.ts";

/** What a call brings: the buffer of each source, where its random numbers begin, and the values of its variables. */
export interface Call {
  buffer(source: number): Buffer;
  readonly counter: number;
  readonly bound: ReadonlyMap<string, number>;
}

/** What a replay is to be made of, besides the recording. */
export interface ReplaySpec {
  /** Buffers that each call brings its own of, by number of the source. */
  readonly sources: ReadonlyMap<Buffer, number>;
  /** Storages made in the call that others can see: they are written where they are. */
  readonly visible: ReadonlySet<Storage>;
  /** Storages that existed in name before the call, and were first filled in it: filled once, never again. */
  readonly older: ReadonlySet<Storage>;
  /** How a scalar argument follows from a call; undefined where it is the same in all. */
  variable(name: string, value: number, isGiven: boolean): ((call: Call) => number) | undefined;
}

/** A buffer argument that each call brings. */
export interface BufferPatch {
  /** Position among the items of a step. */
  readonly launch: number;
  readonly slot: number;
  readonly source: number;
}
/** A scalar argument that follows from the call. */
export interface VarPatch {
  readonly launch: number;
  readonly position: number;
  readonly value: (call: Call) => number;
}

/**
 * Kernels of one device that follow each other, as a graph, with the collectives between them where it takes them; or a step
 * that no graph takes: a copy between devices, a fill.
 */
export interface ReplayStep {
  readonly graph: Graph | undefined;
  /** By item, its launch in the graph; undefined where that is each item. */
  readonly launchOf: readonly number[] | undefined;
  /** The same one by one: also for DEBUG >= 2, JIT=2 and VALIDATE_WITH_JS. */
  readonly items: readonly ExecItem[];
  readonly patches: readonly BufferPatch[];
  readonly vars: readonly VarPatch[];
  readonly flops: number;
  readonly bytes: number;
  /** Whether the graph tells how long each launch took. */
  readonly timesLaunches: boolean;
  /** The steps with collectives that are waited for before this one. */
  readonly waits: readonly number[];
  /** What moves, where it is a collective. */
  readonly collective: CollectiveStep | undefined;
  /** Of collectives in the graph: how many there are, and what one run of it moves, once that is known. */
  readonly inside: { readonly count: number; moved: Moved | undefined };
}
/** As GlobalCounters counts. */
interface Moved {
  readonly collectives: number;
  readonly bytes: number;
}

/** A buffer of the call. */
interface Entry {
  readonly buffer: Buffer;
  readonly storage: Storage | undefined;
  /** Where each call brings another one: which of its sources. */
  readonly source: number | undefined;
  /** Whether nobody but the steps themselves can see it. */
  readonly isInner: boolean;
}
/** A step of the call, with what it does to entries. */
interface Step extends CapturedStep, Access<number> {}

/** What calls bring to collectives is copied, for the sake of graphs, up to this many bytes. */
const COPY_APART = 1 << 24;
/** Results of steps that are not repeated stay; larger ones are made again rather than kept. */
const KEEP_CONSTANT = 1 << 24;

/** A captured call that can run again. */
export class Replay {
  /** The steps: graphs, and what stands between them. */
  readonly steps: readonly ReplayStep[];
  /** What the ranks of a mesh compare before a run; undefined where nothing moves between devices. */
  private readonly compared: readonly ExecItem[] | undefined;
  /** Kernels of one run. */
  readonly kernels: number;
  /** What its spans are called. */
  private readonly name: string;
  /** Bytes that intermediates take. */
  readonly arenaBytes: number;
  /** By source, the first and the last step that uses its buffer. */
  readonly uses: ReadonlyMap<number, readonly [first: number, last: number]>;
  /** Storages that the steps use, but those of sources. */
  readonly held: readonly Storage[];
  /** Storages among them that the steps write. */
  readonly targets: readonly Storage[];
  /** The blocks of the arena. */
  readonly arena: readonly Storage[];
  /** What is the same in all calls, and was computed once. */
  readonly constants: readonly Storage[];

  /** Takes what `recording` heard apart; the recording's own intermediates are freed. */
  constructor(recording: Recording, spec: ReplaySpec) {
    const heard = entriesOf(recording, spec);
    const needed = prune(dropFirstFills(stepsOf(recording), heard, spec), heard);
    const { steps: repeated, entries, constants } = hoist(needed, heard, spec), steps = setApart(repeated, entries);
    recording.release();
    const waits = waitsFor(steps, entries), { buffers, arena } = plan(steps, entries, waits);
    this.arena = arena;
    this.constants = constants;
    this.arenaBytes = sum(arena.map((s) => s.nbytes));
    const held = new Set<Storage>(), targets = new Set<Storage>(), uses = new Map<number, readonly [number, number]>();
    for (const [i, step] of steps.entries()) {
      for (const e of step.entries) {
        const { source, storage, isInner } = entries[e];
        if (source !== undefined) uses.set(source, [uses.get(source)?.[0] ?? i, i]);
        else if (storage !== undefined && !isInner) held.add(storage);
      }
      for (const e of step.writes) {
        const { storage } = entries[e];
        if (storage !== undefined && held.has(storage)) targets.add(storage);
      }
    }
    this.uses = uses;
    this.held = [...held];
    this.targets = [...targets];
    const items = steps.map((step) => itemOf(step, buffers));
    this.steps = makeSteps(steps, items, entries, spec, waits);
    this.compared = steps.some(({ item }) => item.kind === "collective") ? items : undefined;
    this.kernels = steps.filter(({ item }) => item.kind === "kernel").length;
    this.name = countText(this.kernels, "kernel");
  }

  /** The graphs, to be disposed of when nobody can run them any more. */
  get graphs(): Graph[] {
    return this.steps.flatMap((s) => s.graph ?? []);
  }

  /** Runs the steps with what `call` brings. */
  run(call: Call): void {
    const { steps, name } = this, [step] = steps;
    if (spans.listener === undefined) this.runAll(call);
    else if (steps.length === 1 && step.timesLaunches && runsAsGraph(step, runsSingly())) {
      tellReplay(name, step.items, (ends) => runGraph(step, call, ends));
    } else timed("replay", name, () => this.runAll(call));
  }

  private runAll(call: Call): void {
    const { compared } = this;
    if (compared === undefined) this.runBeside(call, [], () => {}); // nothing is under way
    else runAgreed(this, compared, () => this.runJoined(call));
  }

  /** Runs the steps, and waits for all collectives among them. */
  private runJoined(call: Call): void {
    const works = this.steps.map((): readonly Work[] => []);
    const join = (k: number): void => {
      const own = works[k];
      works[k] = [];
      for (const w of own) w.join();
    };
    const joinAll = (): void => this.steps.forEach((_, k) => join(k));
    try {
      this.runBeside(call, works, join);
    } catch (error) {
      try {
        joinAll();
      } catch { /* the first error says more */ }
      throw error;
    }
    joinAll();
  }

  /** Runs the steps, each once the collectives that it has to wait for have ended; what is under way is put in `works`. */
  private runBeside(call: Call, works: (readonly Work[])[], join: (step: number) => void): void {
    const singly = runsSingly();
    this.steps.forEach((step, k) => {
      const { timesLaunches, collective } = step, isHeard = spans.listener !== undefined;
      step.waits.forEach(join);
      if (collective !== undefined && !singly && !isHeard) works[k] = startStep(step, collective, call);
      else if ((isHeard && !timesLaunches) || !runsAsGraph(step, singly)) runOneByOne(step, call);
      else if (isHeard) tellLaunches(step.items, (ends) => runGraph(step, call, ends));
      else runGraph(step, call);
    });
  }
}

/** Whether steps are looked at one by one. */
function runsSingly(): boolean {
  return stepLog.listener !== undefined || envNumber("DEBUG") >= 2 || envNumber("JIT") >= 2 ||
    envNumber("VALIDATE_WITH_JS") > 0;
}

/** Whether the kernels of a step are launched together. */
function runsAsGraph({ graph, items }: ReplayStep, singly: boolean): boolean {
  return graph !== undefined && !singly && !(envNumber("SPEC") > 0 && checksCustom(items));
}

/** Launches the kernels of a step together, with what `call` brings. */
function runGraph(step: ReplayStep, call: Call, ends?: Float64Array<ArrayBuffer>): void {
  const { patches, vars, launchOf, inside } = step, graph = step.graph!;
  for (let i = 0; i < patches.length; i++) {
    const { launch, slot, source } = patches[i];
    graph.setBuffer(launchOf?.[launch] ?? launch, slot, call.buffer(source));
  }
  for (let i = 0; i < vars.length; i++) {
    const { launch, position, value } = vars[i];
    graph.setVar(launchOf?.[launch] ?? launch, position, value(call));
  }
  const { collectiveCount: count, collectiveBytes: bytes } = GlobalCounters;
  graph.run(ends);
  if (inside.count > 0) {
    GlobalCounters.copyCount += inside.count;
    const collectives = GlobalCounters.collectiveCount - count;
    if (collectives > 0) inside.moved = { collectives, bytes: GlobalCounters.collectiveBytes - bytes };
    else if (inside.moved !== undefined) { // the graph repeats what was started once
      GlobalCounters.collectiveCount += inside.moved.collectives;
      GlobalCounters.collectiveBytes += inside.moved.bytes;
    }
  }
  GlobalCounters.kernelCount += step.items.length - inside.count;
  GlobalCounters.globalOps += step.flops;
  GlobalCounters.globalMem += step.bytes;
}

/** Starts the collective of a step with the buffers of `call`. */
function startStep({ items: [item], patches }: ReplayStep, { what }: CollectiveStep, call: Call): readonly Work[] {
  GlobalCounters.copyCount++;
  let { bufs } = item;
  if (patches.length > 0) {
    bufs = [...bufs];
    for (const p of patches) (bufs as Buffer[])[p.slot] = call.buffer(p.source);
  }
  return startCollective(what, bufs, item.line);
}

/** What is known of the buffers of a call, by number. */
function entriesOf(recording: Recording, spec: ReplaySpec): readonly Entry[] {
  return recording.buffers.map((buffer, e): Entry => {
    const storage = recording.storages[e], source = spec.sources.get(buffer);
    const isOwn = storage === undefined
      ? recording.isTemporary(buffer)
      : recording.made.has(storage) && !spec.visible.has(storage);
    return { buffer, storage, source, isInner: source === undefined && isOwn };
  });
}

/** The steps of a call, with what they do to its buffers. */
function stepsOf({ steps }: Recording): Step[] {
  return steps.map((step) => ({ ...step, ...accessOfEntries(step.item, step.entries, step.program) }));
}

/** A step on buffers, by number. */
function itemOf({ item, entries, program, vars, line }: Step, buffers: readonly Buffer[]): ExecItem {
  return execItem(item, entries.map((e) => buffers[e]), program, vars, line);
}

/** The steps without those that fill, for the first time, what is older than the call. */
function dropFirstFills(steps: readonly Step[], entries: readonly Entry[], { older }: ReplaySpec): readonly Step[] {
  if (older.size === 0) return steps;
  const filled = new Set<Storage>();
  return steps.filter(({ writes }) => {
    const fresh = writes.flatMap((e) => entries[e].storage ?? []).filter((s) => older.has(s) && !filled.has(s));
    for (const s of fresh) filled.add(s);
    return fresh.length === 0 || fresh.length < writes.length;
  });
}

/** The steps that something visible depends on. */
function prune(steps: readonly Step[], entries: readonly Entry[]): Step[] {
  const live = new Set<number>();
  return steps.toReversed().filter(({ reads, writes }) => {
    if (!writes.some((e) => !entries[e].isInner || live.has(e))) return false;
    for (const e of reads) live.add(e);
    for (const e of writes) live.add(e);
    return true;
  }).reverse();
}

/**
 * Parts the steps that give the same in each call: they read nothing but host values and each other, take no number, and
 * are alone in writing what they write, which nobody else sees. They run once more, into memory that stays.
 */
function hoist(
  steps: readonly Step[],
  entries: readonly Entry[],
  spec: ReplaySpec,
): { steps: Step[]; entries: Entry[]; constants: Storage[] } {
  const writers = new Map<number, number>();
  for (const { writes } of steps) for (const e of writes) writers.set(e, (writers.get(e) ?? 0) + 1);
  const kept = entries.slice(), constants = new Map<number, Storage>(), rest: Step[] = [], once: Step[] = [];
  for (const step of steps) {
    const { reads, writes, program, item, vars, given } = step;
    const fixed = reads.every((e) => constants.has(e) || entries[e].storage?.staging === true) && writes.length > 0 &&
      writes.every((e) => {
        const { isInner, buffer } = entries[e];
        return isInner && writers.get(e) === 1 && !reads.includes(e) && buffer.nbytes <= KEEP_CONSTANT;
      }) &&
      !(program !== undefined &&
        varNamesIn(program, item.vars).some((name) => (
          spec.variable(name, vars.get(name) ?? 0, given.has(name)) !== undefined
        )));
    if (!fixed) {
      rest.push(step);
      continue;
    }
    for (const e of writes) {
      const { device, dtype, size } = entries[e].buffer, storage = new Storage(device.name, dtype, size);
      const buffer = new Buffer(getDevice(device.name), dtype, size);
      buffer.use = "constants of a jit function";
      attachBuffer(storage, buffer);
      constants.set(e, storage);
      kept[e] = { buffer, storage: undefined, source: undefined, isInner: false };
    }
    once.push(step);
  }
  const buffers = kept.map(({ buffer }) => buffer);
  runItems(once.map((step) => itemOf(step, buffers)));
  return { steps: rest, entries: kept, constants: [...constants.values()] };
}

/**
 * The same steps, with collectives that graphs take on memory of the replay's own: kernels copy what calls bring to it just
 * before, and from it before anything else that others can see is touched. Adds to `entries`.
 */
function setApart(steps: readonly Step[], entries: Entry[]): readonly Step[] {
  const out: Step[] = [];
  let later: Step[] = [];
  for (const step of steps) {
    const { item } = step, { collective: what } = item;
    const brought = [...new Set(step.entries)].filter((e) => entries[e].source !== undefined);
    if (!step.entries.every((e) => entries[e].isInner)) out.push(...later.splice(0));
    if (
      what === undefined || brought.length === 0 || !canCapture(what) ||
      sum(brought.map((e) => entries[e].buffer.nbytes)) > COPY_APART
    ) {
      out.push(step);
      continue;
    }
    const apart = new Map(brought.map((e) => {
      const { device, dtype, size } = entries[e].buffer, buffer = new Buffer(device, dtype, size);
      return [e, entries.push({ buffer, storage: undefined, source: undefined, isInner: true }) - 1];
    }));
    const own = (list: readonly number[]): number[] => list.map((e) => apart.get(e) ?? e);
    const copy = (to: number, from: number): Step => {
      const { device } = item,
        { dtype, size } = entries[to].buffer,
        { ast, program } = copyProgram(device, dtype, size);
      const kernel: TemplateItem = { kind: "kernel", device, entries: [to, from], ast, vars: [], at: undefined };
      return { ...step, item: kernel, entries: [to, from], program, reads: [from], writes: [to] };
    };
    const { reads, writes } = step;
    out.push(...brought.filter((e) => reads.includes(e)).map((e) => copy(apart.get(e)!, e)));
    out.push({ ...step, entries: own(step.entries), reads: own(reads), writes: own(writes) });
    later = brought.filter((e) => writes.includes(e)).map((e) => copy(e, apart.get(e)!));
  }
  return [...out, ...later];
}

/**
 * By step, the collectives that are waited for before it. Buffers that each call brings may be parts of each other, and of
 * all memory but that of intermediates.
 */
function waitsFor(steps: readonly Step[], entries: readonly Entry[]): readonly (readonly number[])[] {
  if (!steps.some(({ item }) => item.kind === "collective")) return [];
  const meets = (i: number, k: number): boolean => {
    const a = entries[i], b = entries[k];
    if (i === k) return true;
    if (a.isInner || b.isInner) return false;
    return a.source !== undefined || b.source !== undefined || overlaps(a.buffer, b.buffer);
  };
  return waitsOf({
    count: steps.length,
    movedBytes: (i) => {
      const { item, reads } = steps[i];
      return item.kind === "collective" ? sum(reads.map((e) => entries[e].buffer.nbytes)) : undefined;
    },
    conflicts: (i, c) => needsEnd(steps[i], steps[c].entries, meets),
  });
}

/** The buffers of the entries: inner ones have places in one arena a device. */
function plan(
  steps: readonly Step[],
  entries: readonly Entry[],
  waits: readonly (readonly number[])[],
): { buffers: Buffer[]; arena: Storage[] } {
  const infos = entries.map(({ buffer: { device, dtype, size }, isInner }) => (
    { device: device.name, dtype, size, slot: undefined, kept: !isInner, view: undefined }
  ));
  const inner = steps.filter((s) => s.entries.every((e) => entries[e].isInner));
  const neighbors = neighborsOf(inner.map(({ item, entries }) => ({ entries, collective: item.collective })));
  const plannable = { entries: infos, items: steps, neighbors, beside: lastBeside(waits) };
  const { blocks, places } = planMemory(plannable, (d) => getDevice(d).allocator.layout);
  const arena: Storage[] = [];
  const memory = blocks.map(({ device, nbytes }) => {
    const storage = new Storage(device, dtypes.uint8, nbytes),
      block = new Buffer(getDevice(device), dtypes.uint8, nbytes);
    block.use = "intermediates of a jit function";
    attachBuffer(storage, block);
    arena.push(storage);
    return block;
  });
  const buffers = entries.map(({ buffer: b }, e) => {
    const place = places[e];
    return place === undefined ? b : new Buffer(b.device, b.dtype, b.size, memory[place.block], place.offset);
  });
  return { buffers, arena };
}

/**
 * What runs: kernels of one device that follow each other as one, with collectives between them where its graphs take them;
 * each of the others alone.
 */
function makeSteps(
  steps: readonly Step[],
  items: readonly ExecItem[],
  entries: readonly Entry[],
  spec: ReplaySpec,
  waits: readonly (readonly number[])[],
): ReplayStep[] {
  const made: ReplayStep[] = [], madeOf = new Map<number, number>();
  let before: number[] = [];
  /** The device whose graph takes a step. */
  const deviceOf = (i: number): string | undefined => {
    const { program, item, entries: own } = steps[i], { runner } = items[i];
    if (program !== undefined) return item.device;
    const isFixed = own.every((e) => entries[e].source === undefined);
    return runner instanceof CollectiveStep && isFixed && canCapture(runner.what) ? runner.what.mesh.device : undefined;
  };
  const add = (start: number, end: number, device: string | undefined): void => {
    for (const c of waits[start] ?? []) before.push(madeOf.get(c)!);
    const { kind } = steps[start].item;
    if (kind === "empty" || kind === "view") return;
    for (let i = start; i < end; i++) madeOf.set(i, made.length);
    const of = <T>(all: readonly T[]): readonly T[] => all.slice(start, end);
    made.push(makeStep(of(steps), of(items), device, entries, spec, before, waits, start));
    before = [];
  };
  for (let i = 0; i < steps.length;) {
    const start = i, device = deviceOf(i++);
    // what began before the graph is not waited for inside of it
    const isFree = (i: number): boolean => waits[i]?.every((c) => c >= start) ?? true;
    while (device !== undefined && i < steps.length && deviceOf(i) === device && isFree(i)) i++;
    if (steps.slice(start, i).some(({ program }) => program !== undefined)) add(start, i, device);
    else for (let k = start; k < i; k++) add(k, k + 1, undefined);
  }
  return made;
}

/**
 * Kernels of `device` with the collectives between them, or one other step.
 *
 * @param waits the steps with collectives that are waited for before this one
 * @param waitsOf by number of a step, the collectives that are waited for before it; the first of these has number `start`
 */
function makeStep(
  steps: readonly Step[],
  items: readonly ExecItem[],
  device: string | undefined,
  entries: readonly Entry[],
  spec: ReplaySpec,
  waits: readonly number[],
  waitsOf: readonly (readonly number[])[],
  start: number,
): ReplayStep {
  const launches: Launch[] = [], patches: BufferPatch[] = [], vars: VarPatch[] = [], launchOf: number[] = [];
  const insertions: Insertion[] = [], underWay = new Map<number, readonly Work[]>();
  const join = (c: number): void => {
    for (const work of underWay.get(c) ?? []) work.join();
    underWay.delete(c);
  };
  let flops = 0, bytes = 0;
  steps.forEach((step, launch) => {
    launchOf.push(launches.length);
    step.entries.forEach((e, slot) => {
      const { source } = entries[e];
      if (source !== undefined) patches.push({ launch, slot, source });
    });
    const { program } = step, item = items[launch], { runner } = item, at = launches.length;
    if (launch > 0) { for (const c of waitsOf[start + launch] ?? []) insertions.push({ at, queue: () => join(c) }); }
    if (device !== undefined && runner instanceof CollectiveStep) {
      const queue = () => void underWay.set(start + launch, startCollective(runner.what, item.bufs, item.line));
      insertions.push({ at, queue });
    }
    if (program === undefined) return;
    const values = varValues(item);
    launches.push({ program, buffers: item.bufs, vars: values });
    flops += program.linear.flops;
    bytes += program.linear.bytes;
    varNamesOf(item).forEach((name, position) => {
      const value = spec.variable(name, values[position], step.given.has(name));
      if (value !== undefined) vars.push({ launch, position, value });
    });
  });
  const on = device === undefined ? undefined : getDevice(device), count = steps.length - launches.length;
  const isShared = on !== undefined && count > 0; // by kernels and collectives
  if (isShared) insertions.push({ at: launches.length, queue: () => [...underWay.keys()].forEach(join) });
  const graph = on?.graph(launches, isShared ? insertions : undefined), timesLaunches = on?.timesLaunches === true;
  const [{ runner }] = items, collective = !isShared && runner instanceof CollectiveStep ? runner : undefined;
  return {
    graph,
    launchOf: isShared ? launchOf : undefined,
    items,
    patches,
    vars,
    flops,
    bytes,
    timesLaunches,
    waits,
    collective,
    inside: { count: isShared ? count : 0, moved: undefined },
  };
}

/** Runs a step without its graph, with the buffers and numbers of `call`. */
function runOneByOne({ items, patches, vars }: ReplayStep, call: Call): void {
  const bufs = items.map((it) => [...it.bufs]), values = items.map((it) => new Map(it.vars));
  for (const p of patches) bufs[p.launch][p.slot] = call.buffer(p.source);
  for (const v of vars) values[v.launch].set(varNamesOf(items[v.launch])[v.position], v.value(call));
  runItems(items.map((it, i) => it.on(bufs[i], values[i])));
}
