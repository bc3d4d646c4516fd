/**
 * A captured call made ready to run again. In, the steps that it took and what of their memory others can see; out, the
 * steps that are needed, with their intermediates planned into one arena a device, as graphs in which the buffers and
 * numbers of each call are put. What depends on no call (uploads of constants, and what is made of them alone) is not
 * repeated.
 *
 * @module
 */
import type { Work } from "../collectives/communicator.ts";
import { attachBuffer, Buffer } from "../device/buffer.ts";
import { getDevice } from "../device/device.ts";
import type { Graph, Launch } from "../device/program.ts";
import { dtypes } from "../dtype/dtype.ts";
import { envNumber } from "../helpers/env.ts";
import { spans, timed } from "../helpers/spans.ts";
import { neighborsOf } from "../schedule/order/join_collectives.ts";
import { lastBeside, waitsOf } from "../schedule/order/under_way.ts";
import { planMemory } from "../schedule/order/memory_plan.ts";
import { Storage } from "../uop/core/args.ts";
import type { Recording } from "./capture.ts";
import { needsEnd, overlaps, runAgreed, startCollective } from "./collective.ts";
import { accessOf, checksCustom, runItems, stepLog, tellLaunches, tellReplay, varNamesOf, varValues } from "./exec.ts";
import { countText } from "./front/listening.ts";
import { CollectiveStep, CompiledKernel, type ExecItem } from "./front/runners.ts";
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
  variable(name: string, value: number): ((call: Call) => number) | undefined;
}

/** A buffer argument that each call brings. */
export interface BufferPatch {
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

/** Kernels of one device that follow each other, as a graph; or a step that no graph takes: a copy between devices, a fill. */
export interface ReplayStep {
  readonly graph: Graph | undefined;
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
}

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
    const inner = (b: Buffer): boolean => isInner(recording, spec, b);
    const needed = prune(dropFirstFills(recording, spec), inner);
    const { items, constants } = hoist(needed, recording, spec, inner);
    recording.release();
    const isPlanned = (b: Buffer): boolean => inner(b) && !constants.has(b);
    const waits = waitsFor(items, isPlanned, (b) => spec.sources.has(b)), planned = plan(items, isPlanned, waits);
    this.arena = planned.arena;
    this.constants = [...constants.values()];
    this.arenaBytes = planned.arena.reduce((n, s) => n + s.nbytes, 0);
    const held = new Set<Storage>(), targets = new Set<Storage>(), uses = new Map<number, readonly [number, number]>();
    for (const [i, item] of items.entries()) {
      for (const b of item.bufs) {
        const source = spec.sources.get(b);
        if (source !== undefined) uses.set(source, [uses.get(source)?.[0] ?? i, i]);
        const storage = recording.storages.get(b);
        if (storage !== undefined && !spec.sources.has(b) && !inner(b)) held.add(storage);
      }
      for (const b of accessOf(item).writes) {
        const storage = recording.storages.get(b);
        if (storage !== undefined && held.has(storage)) targets.add(storage);
      }
    }
    this.uses = uses;
    this.held = [...held];
    this.targets = [...targets];
    this.steps = makeSteps(planned.items, spec, waits);
    this.compared = items.some((i) => i.runner instanceof CollectiveStep) ? planned.items : undefined;
    this.kernels = items.filter((i) => i.runner instanceof CompiledKernel).length;
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
  const { patches, vars } = step, graph = step.graph!;
  for (let i = 0; i < patches.length; i++) {
    graph.setBuffer(patches[i].launch, patches[i].slot, call.buffer(patches[i].source));
  }
  for (let i = 0; i < vars.length; i++) graph.setVar(vars[i].launch, vars[i].position, vars[i].value(call));
  graph.run(ends);
  GlobalCounters.kernelCount += step.items.length;
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

/** Whether nobody but the steps themselves can see a buffer. */
function isInner(recording: Recording, spec: ReplaySpec, buffer: Buffer): boolean {
  if (spec.sources.has(buffer)) return false;
  const storage = recording.storages.get(buffer);
  if (storage === undefined) return recording.isTemporary(buffer);
  return recording.made.has(storage) && !spec.visible.has(storage);
}

/** The steps without those that fill, for the first time, what is older than the call. */
function dropFirstFills({ items, storages }: Recording, { older }: ReplaySpec): ExecItem[] {
  if (older.size === 0) return [...items];
  const filled = new Set<Storage>();
  return items.filter((item) => {
    const { writes } = accessOf(item);
    const fresh = writes.map((b) => storages.get(b)).filter((s) => s !== undefined && older.has(s) && !filled.has(s));
    for (const s of fresh) filled.add(s!);
    return fresh.length === 0 || fresh.length < writes.length;
  });
}

/** The steps that something visible depends on. */
function prune(items: readonly ExecItem[], inner: (b: Buffer) => boolean): ExecItem[] {
  const live = new Set<Buffer>(), out: ExecItem[] = [];
  for (let i = items.length - 1; i >= 0; i--) {
    const { reads, writes } = accessOf(items[i]);
    if (!writes.some((b) => !inner(b) || live.has(b))) continue;
    for (const b of reads) live.add(b);
    for (const b of writes) live.add(b);
    out.push(items[i]);
  }
  return out.reverse();
}

/**
 * Parts the steps that give the same in each call: they read nothing but host values and each other, take no number, and
 * are alone in writing what they write, which nobody else sees. They run once more, into memory that stays.
 */
function hoist(
  items: readonly ExecItem[],
  recording: Recording,
  spec: ReplaySpec,
  inner: (b: Buffer) => boolean,
): { items: ExecItem[]; constants: Map<Buffer, Storage> } {
  const writers = new Map<Buffer, number>();
  for (const item of items) for (const b of accessOf(item).writes) writers.set(b, (writers.get(b) ?? 0) + 1);
  const constants = new Map<Buffer, Storage>(), moved = new Map<Buffer, Buffer>();
  const isConstant = (b: Buffer): boolean => constants.has(b) || recording.storages.get(b)?.staging === true;
  const rest: ExecItem[] = [], once: ExecItem[] = [];
  for (const item of items) {
    const { reads, writes } = accessOf(item);
    const fixed = reads.every(isConstant) && writes.length > 0 &&
      writes.every((b) => inner(b) && writers.get(b) === 1 && !reads.includes(b) && b.nbytes <= KEEP_CONSTANT) &&
      !(item.runner instanceof CompiledKernel &&
        varNamesOf(item).some((name) => spec.variable(name, item.vars.get(name) ?? 0) !== undefined));
    if (!fixed) {
      rest.push(item);
      continue;
    }
    for (const b of writes) {
      const storage = new Storage(b.device.name, b.dtype, b.size),
        own = new Buffer(getDevice(b.device.name), b.dtype, b.size);
      own.use = "constants of a jit function";
      attachBuffer(storage, own);
      constants.set(b, storage);
      moved.set(b, own);
    }
    once.push(onBuffers(item, (b) => moved.get(b) ?? b));
  }
  runItems(once);
  return { items: rest.map((item) => onBuffers(item, (b) => moved.get(b) ?? b)), constants };
}

function onBuffers(item: ExecItem, change: (b: Buffer) => Buffer): ExecItem {
  return item.on(item.bufs.map(change));
}

/**
 * By step, the collectives that are waited for before it. Buffers that each call brings may be parts of each other, and of
 * all memory but that of intermediates.
 */
function waitsFor(
  items: readonly ExecItem[],
  inner: (b: Buffer) => boolean,
  isSource: (b: Buffer) => boolean,
): readonly (readonly number[])[] {
  const moved = (i: number): CollectiveStep | undefined => {
    const { runner } = items[i];
    return runner instanceof CollectiveStep ? runner : undefined;
  };
  if (!items.some((_, i) => moved(i) !== undefined)) return [];
  const access = items.map(accessOf);
  const meets = (a: Buffer, b: Buffer): boolean => {
    if (a === b) return true;
    if (inner(a) || inner(b)) return false;
    return isSource(a) || isSource(b) || overlaps(a, b);
  };
  return waitsOf({
    count: items.length,
    movedBytes: (i) => moved(i)?.nbytes,
    conflicts: (i, c) => needsEnd(access[i], items[c].bufs, meets),
  });
}

/** Gives all inner buffers of the steps places in one arena a device. */
function plan(
  items: readonly ExecItem[],
  inner: (b: Buffer) => boolean,
  waits: readonly (readonly number[])[],
): { items: ExecItem[]; arena: Storage[] } {
  const entries: Buffer[] = [], at = new Map<Buffer, number>();
  const steps = items.map(({ bufs }) => {
    const used: number[] = [];
    for (const b of bufs) {
      if (!inner(b)) continue;
      let e = at.get(b);
      if (e === undefined) {
        at.set(b, e = entries.length);
        entries.push(b);
      }
      used.push(e);
    }
    return { entries: used };
  });
  const collectives = items.flatMap(({ runner, bufs }) =>
    runner instanceof CollectiveStep && bufs.length > 2 && bufs.every(inner)
      ? [{ entries: bufs.map((b) => at.get(b)!), collective: runner.what }]
      : []
  );
  const infos = entries.map((b) => (
    { device: b.device.name, dtype: b.dtype, size: b.size, slot: undefined, kept: false, view: undefined }
  ));
  const plannable = { entries: infos, items: steps, neighbors: neighborsOf(collectives), beside: lastBeside(waits) };
  const { blocks, places } = planMemory(plannable, (d) => getDevice(d).allocator.layout);
  const arena: Storage[] = [],
    memory = blocks.map(({ device, nbytes }) => {
      const storage = new Storage(device, dtypes.uint8, nbytes),
        block = new Buffer(getDevice(device), dtypes.uint8, nbytes);
      block.use = "intermediates of a jit function";
      attachBuffer(storage, block);
      arena.push(storage);
      return block;
    });
  const moved = entries.map((b, e) => {
    const { block, offset } = places[e]!;
    return new Buffer(getDevice(b.device.name), b.dtype, b.size, memory[block], offset);
  });
  const change = (b: Buffer): Buffer => at.has(b) ? moved[at.get(b)!] : b;
  return { items: items.map((item) => onBuffers(item, change)), arena };
}

function makeSteps(
  items: readonly ExecItem[],
  spec: ReplaySpec,
  waits: readonly (readonly number[])[],
): ReplayStep[] {
  const steps: ReplayStep[] = [], stepOf = new Map<number, number>();
  let before: number[] = [];
  const deviceOf = ({ runner }: ExecItem): string | undefined =>
    runner instanceof CompiledKernel ? runner.device : undefined;
  const isFree = (i: number): boolean => (waits[i]?.length ?? 0) === 0;
  for (let i = 0; i < items.length;) {
    const start = i, device = deviceOf(items[i++]), { kind } = items[start].runner;
    while (device !== undefined && i < items.length && deviceOf(items[i]) === device && isFree(i)) i++;
    for (const c of waits[start] ?? []) before.push(stepOf.get(c)!);
    if (kind === "EmptyOp" || kind === "ViewOp") continue;
    stepOf.set(start, steps.length);
    steps.push(makeStep(items.slice(start, i), device, spec, before));
    before = [];
  }
  return steps;
}

/** Kernels of `device`, or one other step. */
function makeStep(
  items: readonly ExecItem[],
  device: string | undefined,
  spec: ReplaySpec,
  waits: readonly number[],
): ReplayStep {
  const launches: Launch[] = [], patches: BufferPatch[] = [], vars: VarPatch[] = [];
  let flops = 0, bytes = 0;
  items.forEach((item, launch) => {
    item.bufs.forEach((b, slot) => {
      const source = spec.sources.get(b);
      if (source !== undefined) patches.push({ launch, slot, source });
    });
    if (!(item.runner instanceof CompiledKernel)) return;
    const { program } = item.runner, values = varValues(item);
    launches.push({ program, buffers: item.bufs, vars: values });
    flops += program.linear.flops;
    bytes += program.linear.bytes;
    varNamesOf(item).forEach((name, position) => {
      const value = spec.variable(name, values[position]);
      if (value !== undefined) vars.push({ launch, position, value });
    });
  });
  const on = device === undefined ? undefined : getDevice(device);
  const graph = on?.graph(launches), timesLaunches = on?.timesLaunches === true;
  const [{ runner }] = items, collective = runner instanceof CollectiveStep ? runner : undefined;
  return { graph, items, patches, vars, flops, bytes, timesLaunches, waits, collective };
}

/** Runs a step without its graph, with the buffers and numbers of `call`. */
function runOneByOne({ items, patches, vars }: ReplayStep, call: Call): void {
  const bufs = items.map((it) => [...it.bufs]), values = items.map((it) => new Map(it.vars));
  for (const p of patches) bufs[p.launch][p.slot] = call.buffer(p.source);
  for (const v of vars) values[v.launch].set(varNamesOf(items[v.launch])[v.position], v.value(call));
  runItems(items.map((it, i) => it.on(bufs[i], values[i])));
}
