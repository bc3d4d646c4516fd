/**
 * How the steps of a schedule run: kernels of one device that follow each other go to it as one list of launches.
 *
 * @module
 */
import { KernelInfo } from "../codegen/opt/opt.ts";
import { Buffer } from "../device/buffer.ts";
import { type Device, getDevice } from "../device/device.ts";
import type { Launch, Program } from "../device/program.ts";
import { writeScalar } from "../dtype/convert.ts";
import type { DType } from "../dtype/dtype.ts";
import { envNumber } from "../helpers/env.ts";
import { byteText, SpecError } from "../helpers/errors.ts";
import type { Line } from "../helpers/stack.ts";
import { sum } from "../helpers/math.ts";
import { type LaunchedStep, Listeners, type SpanListener, spans, tellSpan } from "../helpers/spans.ts";
import type { TemplateItem } from "../schedule/order/template.ts";
import type { BoundSchedule, Variant } from "../schedule/schedule.ts";
import { argOf, Int64 } from "../uop/core/args.ts";
import { owesNotes } from "../uop/core/notes.ts";
import { Ops } from "../uop/core/ops.ts";
import type { UOp } from "../uop/core/uop.ts";
import { compileKernels, compileSteps, kernelsSeen } from "./compile_cache.ts";
import { startCollective, UnderWay } from "./collective.ts";
import { copyBuffer, isTransfer } from "./copy_buffer.ts";
import { debugKernel, debugStep } from "./debug.ts";
import {
  type Access,
  BufferCopy,
  BufferXfer,
  CollectiveStep,
  CompiledKernel,
  compiling,
  CustomOp,
  EmptyOp,
  ExecItem,
  type Runner,
  ViewOp,
} from "./front/runners.ts";
import { GlobalCounters } from "./stats.ts";
import { runTimed } from "./timing.ts";
import { difference, roundedOf } from "./validate.ts";

/** Whether a step reads the second half of its buffers, all of them, and writes the first. */
function isMove({ kind }: Runner): boolean {
  return kind === "BufferCopy" || kind === "BufferXfer" || kind === "CollectiveStep";
}

/** What a step does to its buffers. */
export function accessOf({ runner, bufs }: ExecItem): Access {
  return runner instanceof CompiledKernel ? accessIn(runner.program, bufs) : accessBeside(isMove(runner), bufs);
}

/** What a step of a template does to its entries, by any numbers. */
export function accessOfEntries({ kind }: TemplateItem, entries: readonly number[], program?: Program): Access<number> {
  return program === undefined
    ? accessBeside(kind === "copy" || kind === "collective", entries)
    : accessIn(program, entries);
}

function accessIn<T>({ linear }: Program, bufs: readonly T[]): Access<T> {
  const reads: T[] = [], writes: T[] = [];
  linear.params.forEach((p, slot) => {
    if (p.writes) writes.push(bufs[slot]);
    // copies that a device makes on its own are no loads
    if (p.reads || !p.writes) reads.push(bufs[slot]);
  });
  return { reads, writes };
}

/** What is no kernel. */
function accessBeside<T>(moves: boolean, bufs: readonly T[]): Access<T> {
  if (moves) return { reads: bufs.slice(bufs.length / 2), writes: bufs.slice(0, bufs.length / 2) };
  return { reads: [], writes: bufs.slice(0, 1) };
}

/** The schedule's name of each scalar argument of a kernel, in the order of its program. */
export function varNamesOf(item: ExecItem): string[] {
  return varNamesIn((item.runner as CompiledKernel).program, item.varNames);
}

/** The same of a program, whose variables v0, v1, ... have these names. */
export function varNamesIn({ linear }: Program, names: readonly string[]): string[] {
  return linear.vars.map((v) => names[Number(argOf(v, Ops.VARIABLE).name.slice(1))]);
}

/** The values of a kernel's scalar arguments, in the order of its program. */
export function varValues(item: ExecItem): number[] {
  return varNamesOf(item).map((name) => item.vars.get(name) ?? 0);
}

/** Bytes on the host while a buffer is filled, a multiple of every element's. */
const FILL_BYTES = 2 ** 16;

/** Fills a buffer with one value. */
function fillBuffer(buffer: Buffer, value: number | Int64, dtype: DType): void {
  const one = new Uint8Array(dtype.itemsize);
  writeScalar(new DataView(one.buffer), 0, dtype, value instanceof Int64 ? value.toBigInt() : value);
  const bytes = new Uint8Array(Math.min(buffer.nbytes, FILL_BYTES));
  if (one.some((b) => b !== 0)) {
    bytes.set(one);
    for (let n = one.length; n < bytes.length; n *= 2) bytes.copyWithin(n, 0, Math.min(n, bytes.length - n));
  }
  const { allocator } = buffer.device;
  for (let at = 0; at < buffer.nbytes; at += bytes.length) {
    const part = buffer.nbytes - at < bytes.length ? bytes.subarray(0, buffer.nbytes - at) : bytes;
    allocator.copyIn(buffer.memory, buffer.offset + at, part);
  }
}

/** What does a step of a template; `program` where it is a kernel. */
function runnerOf(step: TemplateItem, bufs: readonly Buffer[], program: Program | undefined): Runner {
  const [to, from] = bufs;
  switch (step.kind) {
    case "kernel":
      return new CompiledKernel(step.device, step, program);
    case "empty":
      return new EmptyOp();
    case "fill": {
      const value = argOf(step.ast!, Ops.CONST);
      return new CustomOp("fill", ([b]) => fillBuffer(b, value, b.dtype));
    }
    case "collective":
      return new CollectiveStep(step.collective!, sum(bufs.slice(bufs.length / 2).map((b) => b.nbytes)));
    case "view":
      return new ViewOp(to.offset - from.offset, to.nbytes);
    case "copy":
      return new (isTransfer(to, from) ? BufferXfer : BufferCopy)(to.device.name, from.device.name, from.nbytes);
  }
}

/** The steps of a bound schedule as ExecItems; kernels compiled, all of a device in one call. */
export function execItems({ variant, buffers, lines, vars }: BoundSchedule): ExecItem[] {
  const programs = programsOf(variant);
  return variant.items.map((item, i) =>
    execItem(item, item.entries.map((e) => buffers[e]), programs.get(item), vars, lines?.[i])
  );
}

/** A step of a template on its buffers; `program` where it is a kernel, which takes `vars`. */
export function execItem(
  item: TemplateItem,
  bufs: readonly Buffer[],
  program: Program | undefined,
  vars: ReadonlyMap<string, number>,
  line: Line | undefined,
): ExecItem {
  return new ExecItem(runnerOf(item, bufs, program), bufs, item.vars, vars, line);
}

/** The kernels of a template, compiled. */
function programsOf(variant: Variant): ReadonlyMap<TemplateItem, Program> {
  const { items, programs: known } = variant;
  if (kernelsSeen.listener !== undefined) {
    for (const step of items) if (step.kind === "kernel") kernelsSeen.listener(step.device, step.ast!);
  }
  if (known !== undefined && !owesNotes(known)) return known;
  const programs = new Map<TemplateItem, Program>(), kernels = items.filter((s) => s.kind === "kernel");
  for (const device of new Set(kernels.map((s) => s.device))) {
    const steps = kernels.filter((s) => s.device === device);
    const made = compileSteps(getDevice(device), steps);
    for (let i = 0; i < steps.length; i++) programs.set(steps[i], made[i]);
  }
  owesNotes(programs); // they are told
  compiling.lowered.schedules.keep(variant, programs);
  return variant.programs = programs;
}

/** What is told of each step before it runs and when it has, with the milliseconds that it took. */
export interface StepListener {
  before(item: ExecItem): void;
  after(item: ExecItem, timeMs: number): void;
}
/** What listens now: steps then run one by one, those of replays too. */
export const stepLog: Listeners<StepListener> = new Listeners((all) => ({
  before: (item) => all.forEach((l) => l.before(item)),
  after: (item, timeMs) => all.forEach((l) => l.after(item, timeMs)),
}));

/** Runs ExecItems in order. */
export function runItems(items: readonly ExecItem[]): void {
  const debug = envNumber("DEBUG"), isWatched = stepLog.listener !== undefined;
  const checks = debug >= 2 || isWatched || envNumber("VALIDATE_WITH_JS") > 0 || checksCustom(items);
  const underWay = new UnderWay();
  try {
    runBeside(items, underWay, debug, checks);
  } catch (error) {
    underWay.abandon();
    throw error;
  }
  underWay.joinAll();
}

/** Runs ExecItems in order, each once the collectives that it has to wait for have ended. */
function runBeside(items: readonly ExecItem[], underWay: UnderWay, debug: number, checks: boolean): void {
  for (let i = 0; i < items.length;) {
    const { runner, bufs } = items[i];
    if (!underWay.isEmpty) underWay.joinFor(accessOf(items[i]));
    if (!(runner instanceof CompiledKernel)) {
      runOther(items[i++], debug, underWay);
      if (checks) underWay.joinAll();
      continue;
    }
    const { name } = bufs[0].device, device = getDevice(name);
    const launches: Launch[] = [], from = i, times = device.timesLaunches === true || device.timeLater !== undefined;
    const singly = checks || (spans.listener !== undefined && !times);
    for (; i < items.length; i++) {
      const it = items[i];
      if (!(it.runner instanceof CompiledKernel) || it.bufs[0].device.name !== name) break;
      if (i > from && !underWay.isEmpty && underWay.meets(accessOf(it))) break;
      const { program } = it.runner;
      launches.push({ program, buffers: it.bufs, vars: varValues(it) });
      GlobalCounters.kernelCount++;
      GlobalCounters.globalOps += program.linear.flops;
      GlobalCounters.globalMem += program.linear.bytes;
      if (singly) break;
    }
    if (singly) runOne(device, items[i++], launches[0], debug);
    else if (spans.listener === undefined) device.run(launches);
    else if (device.timeLater !== undefined) tellLater(device, items.slice(from, i), launches);
    else tellLaunches(items.slice(from, i), (ends) => device.run(launches, ends));
  }
}

/** Runs steps, all kernels of one device that is not waited for, and tells of each that it is queued. */
function tellLater(device: Device, items: readonly ExecItem[], launches: readonly Launch[]): void {
  const startMs = performance.now(), stamps = device.timeLater!(launches);
  if (stamps === undefined) device.run(launches);
  stamps?.catch(() => {}); // whoever listens may not care
  const endMs = performance.now();
  items.forEach((item, i) => {
    const { name } = item.runner as CompiledKernel, later = stamps?.then((all) => all[i]);
    later?.catch(() => {});
    spans.listener?.(
      { kind: "launch", name, startMs, endMs, device: device.name, isQueued: true, later, subject: item },
    );
  });
}

/** Where devices write when each launch ended. */
let ends = new Float64Array(64);

/** Runs steps, all kernels of one device that times launches, and tells of each; `items` are not changed afterwards. */
export function tellLaunches(items: readonly ExecItem[], run: (ends: Float64Array<ArrayBuffer>) => void): void {
  const startMs = performance.now(), own = timedRun(items.length, run);
  if (spans.listener !== undefined) tellTimed(items as readonly LaunchedStep[], startMs, own);
}

/** The same of a replay of which they are all steps, with the replay: the clock is read twice in all. */
export function tellReplay(
  name: string,
  items: readonly ExecItem[],
  run: (ends: Float64Array<ArrayBuffer>) => void,
): void {
  const startMs = performance.now(), own = timedRun(items.length, run), endMs = performance.now();
  if (spans.listener === undefined) return;
  const steps = items as readonly LaunchedStep[];
  // what is patched comes before the first launch, and nothing after the last
  const origin = Math.max(startMs, endMs - own[items.length - 1]);
  for (const listener of spans.all.slice()) {
    if (listener.replays !== undefined) listener.replays(name, startMs, endMs, steps, origin, own);
    else {
      tellTimedTo(listener, steps, origin, own);
      tellSpan(listener, "replay", name, startMs, endMs, undefined, undefined);
    }
  }
}

/** When each of so many launches ended, as they run. */
function timedRun(count: number, run: (ends: Float64Array<ArrayBuffer>) => void): Float64Array {
  if (count > ends.length) ends = new Float64Array(2 * count);
  run(ends);
  return ends;
}

/** Tells those who listen now of launches that a device has timed: at once to who hears them so, to others of each as a span. */
export function tellTimed(items: readonly LaunchedStep[], origin: number, ends: Float64Array): void {
  for (const listener of spans.all.slice()) tellTimedTo(listener, items, origin, ends);
}

function tellTimedTo(
  listener: SpanListener,
  items: readonly LaunchedStep[],
  origin: number,
  ends: Float64Array,
): void {
  if (listener.launches !== undefined) return listener.launches(items, origin, ends);
  for (let i = 0; i < items.length; i++) {
    const subject = items[i], { name, device } = subject.runner, endMs = origin + ends[i];
    const startMs = i === 0 ? origin : origin + ends[i - 1];
    listener({ kind: "launch", name, startMs, endMs, device, deviceMs: endMs - startMs, subject });
  }
}

function runOther(item: ExecItem, debug: number, underWay: UnderWay): void {
  const { runner, bufs } = item;
  stepLog.listener?.before(item);
  const isTold = spans.listener !== undefined || stepLog.listener !== undefined || debug >= 2;
  const start = isTold ? performance.now() : 0;
  const ended = (): void => {
    GlobalCounters.copyCount++;
    if (isTold) tellOther(item, debug, start);
  };
  if (runner instanceof CollectiveStep) {
    underWay.add(startCollective(runner.what, bufs, item.line), bufs, ended);
    return;
  }
  if (runner instanceof CustomOp) runner.fn(bufs);
  else if (runner instanceof BufferCopy || runner instanceof BufferXfer) copyBuffer(bufs[0], bufs[1]);
  else return stepLog.listener?.after(item, 0);
  ended();
}

/** Runs a copy, all that there was to do since `startMs`, scheduled until `scheduledMs`, and tells of the three by one call. */
export function runCopy(item: ExecItem, startMs: number, scheduledMs: number): void {
  const { bufs: [to, from] } = item;
  copyBuffer(to, from);
  GlobalCounters.copyCount++;
  spans.listener?.copied?.({ name: textOf(item), device: to.device.name }, startMs, scheduledMs, performance.now());
}

/** What a step does that is no kernel, for people. */
function textOf({ runner, bufs }: ExecItem): string {
  const { nbytes } = bufs[0];
  if (runner instanceof CollectiveStep) {
    return `${runner.what.kind} ${byteText(runner.nbytes)} ${runner.what.rankText}`;
  }
  if (runner instanceof CustomOp) return `${runner.name} ${byteText(nbytes)}`;
  const { to, from } = runner as BufferCopy | BufferXfer, last = copyTexts.get(nbytes);
  if (last?.to === to && last.from === from) return last.text;
  const text = `copy ${byteText(nbytes)}, ${to} <- ${from}`;
  if (copyTexts.size === MAX_TEXTS) copyTexts.clear();
  copyTexts.set(nbytes, { to, from, text });
  return text;
}
/** What is said of copies, by their bytes: those of a step are the same ones each time. */
const copyTexts = new Map<number, { readonly to: string; readonly from: string; readonly text: string }>();
/** How many of them are kept. */
const MAX_TEXTS = 64;

/** Tells of what is no kernel, and has ended. */
function tellOther(item: ExecItem, debug: number, startMs: number): void {
  const endMs = performance.now(), ms = endMs - startMs, { name } = item.bufs[0].device, text = textOf(item);
  stepLog.listener?.after(item, ms);
  const kind = item.runner instanceof CollectiveStep ? "collective" : "copy";
  spans.listener?.({ kind, name: text, startMs, endMs, device: name, subject: item });
  if (debug < 2) return;
  GlobalCounters.timeSumS += ms / 1e3;
  debugStep(item, getDevice(name), text, ms);
}

/** Runs one kernel: checked against the interpreter, timed and printed, as asked for. */
function runOne(device: Device, item: ExecItem, launch: Launch, debug: number): void {
  const { program } = launch;
  if (debug >= 3) debugKernel(item, program, debug);
  const compares = envNumber("VALIDATE_WITH_JS") > 0,
    isOther = device.name !== "JS" && program.linear.text === undefined;
  const checks = isOther && (compares || checksCustom([item])) && device.allocator.copyOut !== undefined;
  const check = checks ? expectedOf(item.ast!, launch, compares) : undefined;
  stepLog.listener?.before(item);
  const ms = runTold(device, item, launch);
  stepLog.listener?.after(item, ms);
  GlobalCounters.timeSumS += ms / 1e3;
  check?.();
  if (debug >= 2) debugStep(item, device, program, ms);
}

/** Runs one kernel, waits for it where the device can wait, and tells of it. Gives milliseconds. */
function runTold(device: Device, item: ExecItem, launch: Launch): number {
  if (device.timesLaunches === true) {
    tellLaunches([item], (ends) => device.run([launch], ends));
    return ends[0];
  }
  const startMs = performance.now(), ms = runTimed(device, launch), endMs = performance.now();
  const { timeSync, allocator } = device, { name } = launch.program.linear;
  const deviceMs = timeSync === undefined ? undefined : ms;
  const isQueued = device.renderer.caps.hasGrid && deviceMs === undefined && allocator.copyOut === undefined;
  spans.listener?.({ kind: "launch", name, startMs, endMs, device: device.name, deviceMs, isQueued, subject: item });
  return ms;
}

/** Whether kernels of the user's are among the steps, whose accesses SPEC=1 has JS check before they run. */
export function checksCustom(items: readonly ExecItem[]): boolean {
  return envNumber("SPEC") > 0 && items.some((i) => i.ast?.arg instanceof KernelInfo);
}

/**
 * Runs a kernel on the JS interpreter, which checks each access; the result compares what the device made with it.
 * @throws {SpecError}
 */
function expectedOf(ast: UOp, { program, buffers, vars }: Launch, compares: boolean): () => void {
  const js = getDevice("JS"), bytesOf = (b: Buffer): Uint8Array => b.copyOut(new Uint8Array(b.nbytes));
  const twins = buffers.map((b) => new Buffer(js, b.dtype, b.size).copyIn(bytesOf(b)));
  try {
    js.run([{ program: compileKernels(js, [ast])[0], buffers: twins, vars }]);
  } catch (error) {
    for (const t of twins) t.free();
    throw error;
  }
  return () => {
    const rounded = compares ? roundedOf(ast) : undefined;
    for (const { slot, writes } of program.linear.params) {
      if (!writes || rounded === undefined) continue;
      const why = difference(bytesOf(buffers[slot]), bytesOf(twins[slot]), buffers[slot].dtype, rounded.get(slot));
      if (why !== undefined) {
        throw new SpecError(
          `Kernel ${program.linear.name} is wrong on ${buffers[slot].device.name}`,
          `buffer ${slot}: ${why}`,
        );
      }
    }
    for (const t of twins) t.free();
  };
}
