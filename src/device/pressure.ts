/**
 * Letting others have a turn, and the garbage collector see device memory. Timers, frames, signals and finalizers run in
 * no synchronous loop and in no await of resolved promises, only between macrotasks: so whatever is awaited here, a read
 * first of all, ends with one where 10 ms would have gone by since the last at the next, or 64 MB or 256 blocks were
 * allocated (it costs 6 µs; looking at the clock 0.1). V8 counts only the small handles of device memory: it is collected
 * first where that has grown by a quarter since the last collection. A collection costs 7 ms and more.
 *
 * V8 also lets the garbage of graphs pile up to several times the size of what is alive: a process that builds graphs in
 * a loop would grow for minutes. So graphs count, results of replays a little, and the heap is collected where it has grown
 * by half and 12 MB.
 *
 * @module
 */
import { envNumber } from "../helpers/env.ts";
import { nodeModule } from "../helpers/node.ts";
import { rotateInternTable } from "../uop/core/uop.ts";
import { allocated, shortages } from "./allocator.ts";
import { freeUnreachable } from "./buffer.ts";
import { openDevices } from "./device.ts";
import { currentScope } from "./scopes.ts";

/** Nobody waits for a turn longer than this, but for what runs synchronously meanwhile. */
const TURN_MS = 10;
const YIELD_BYTES = 64 * 2 ** 20, YIELD_COUNT = 256;
/** Device memory held below this is no reason to collect. */
const QUIET_BYTES = 64 * 2 ** 20;
const GROWTH = 1.25;
/** The heap is looked at every so many schedules; it may grow to `HEAP_GROWTH` of what was alive, and `HEAP_SLACK`. */
const HEAP_INTERVAL = 32, HEAP_GROWTH = 1.5, HEAP_SLACK = 12 * 2 ** 20;
/** What a replay leaves behind, as a part of what a schedule does. */
export const REPLAY_SHARE: number = 1 / 64;

/** What node:vm offers. */
interface VM {
  runInNewContext(code: string): unknown;
  createContext(object: object, options: { readonly microtaskMode: "afterEvaluate" }): object;
  runInContext(code: string, context: object): unknown;
}
interface V8 {
  setFlagsFromString(flag: string): void;
  getHeapStatistics(): { readonly used_heap_size: number };
}
interface Collector {
  collect(): void;
  /** Lets the collector take what a WeakRef names, also what this job has seen of it; false where it cannot. */
  letGo(): boolean;
  /** Bytes of JavaScript objects, dead ones included. */
  heapBytes(): number;
}

let collector: Collector | null | undefined;
let yieldedBytes = 0, yieldedCount = 0, yieldedAt = -Infinity, lookedAt = 0;
let heldAfterCollection = 0;
let piled = 0, heapLimit = 0;
/** True from a collection until the macrotask in which finalizers have run. */
let pending = false;

/** V8's collector, reached without a flag or a permission; null where there is none (a browser). */
function findCollector(): Collector | null {
  try {
    const v8 = nodeModule("node:v8") as V8 | undefined;
    const vm = nodeModule("node:vm") as VM | undefined;
    if (v8 === undefined || vm === undefined) return null;
    v8.setFlagsFromString("--expose-gc");
    const gc = vm.runInNewContext("gc");
    if (typeof gc !== "function") return null;
    return {
      collect: () => (gc as () => void)(),
      letGo: () => endsJob(vm),
      heapBytes: () => v8.getHeapStatistics().used_heap_size,
    };
  } catch {
    return null; // finalizers still run when V8 collects by itself
  }
}

let jobs: object | undefined;

/**
 * WeakRefs made or read in a job keep what they name until its end. A context with microtasks of its own ends with them:
 * what it leaves can be collected.
 */
function endsJob(vm: VM): boolean {
  try {
    jobs ??= vm.createContext({}, { microtaskMode: "afterEvaluate" });
    vm.runInContext("Promise.resolve().then(() => 0)", jobs);
    return true;
  } catch {
    return false;
  }
}

/** Bytes that may be allocated, or held, without a thought: less where MAX_MEMORY is little. */
function quietBytes(bytes: number): number {
  const most = envNumber("MAX_MEMORY");
  return most > 0 ? Math.min(bytes, most / 4) : bytes;
}

/** Shortages of memory that have been seen to. */
let seenShortages = 0;

/**
 * Called before each schedule and replay. Inside a synchronous job no finalizer runs, so what is dropped there stays: but
 * within scope(), where the user has memory managed, and once after it was refused, what is unreachable is freed at once.
 */
export function relieveDevices(): void {
  const isShort = shortages.count !== seenShortages;
  if (!isShort && currentScope()?.made === undefined) return;
  if (!isShort && held() <= Math.max(quietBytes(QUIET_BYTES), heldAfterCollection * GROWTH)) return;
  seenShortages = shortages.count;
  if (collector === undefined) collector = findCollector();
  if (collector === null || !collector.letGo()) return;
  collect();
  freeUnreachable();
  heldAfterCollection = held();
}

function collect(): void {
  if (collector === undefined) collector = findCollector();
  if (collector === null) return;
  // the tables of nodes hold the last results
  rotateInternTable();
  rotateInternTable();
  collector.collect();
  heapLimit = collector.heapBytes() * HEAP_GROWTH + HEAP_SLACK;
  pending = true;
}

function held(): number {
  let bytes = 0;
  for (const d of openDevices()) bytes += d.allocator.used;
  return bytes;
}

/** Where there is no setImmediate (browsers), messages to oneself are the fastest tasks: timers are held back for 4 ms. */
let port: MessagePort | undefined;
const waiting: (() => void)[] = [];

function macrotask(): Promise<void> {
  const later = (globalThis as { setImmediate?: (fn: () => void) => unknown }).setImmediate;
  return new Promise((done) => {
    if (later !== undefined) return void later(done);
    if (typeof MessageChannel !== "function") return void setTimeout(done, 0);
    if (port === undefined) {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => waiting.shift()?.();
      port = port2;
    }
    waiting.push(done);
    port.postMessage(0);
  });
}

/**
 * Gives all others a turn if the last was long ago, and finalizers if much was allocated since; collects first under
 * pressure. To be awaited at the end of whatever may be awaited in a loop.
 */
export async function takeTurn(): Promise<void> {
  const much = allocated.bytes - yieldedBytes >= quietBytes(YIELD_BYTES);
  if (!much && !pending && allocated.count - yieldedCount < YIELD_COUNT) {
    // the next read comes as late after this one as this after the last
    const now = performance.now(), next = 2 * now - lookedAt;
    lookedAt = now;
    if (next - yieldedAt < TURN_MS) return;
  }
  yieldedCount = allocated.count;
  // bytes go on being counted over turns that others were given for the time alone
  if (much) {
    yieldedBytes = allocated.bytes;
    if (held() > Math.max(quietBytes(QUIET_BYTES), heldAfterCollection * GROWTH)) collect();
  }
  await macrotask();
  yieldedAt = lookedAt = performance.now();
  if (!pending) return;
  pending = false;
  heldAfterCollection = held();
}

/**
 * Called after each schedule, or a `share` of one: collects the garbage of graphs where it has piled up. The caller holds
 * nothing of what it has looked for by WeakRefs, and they let it go: leaves that nobody else holds can be collected.
 */
export function relieveHeap(share = 1): void {
  piled += share;
  if (piled < HEAP_INTERVAL) return;
  piled = 0;
  if (collector === undefined) collector = findCollector();
  if (collector === null) return;
  const bytes = collector.heapBytes();
  if (heapLimit === 0) heapLimit = bytes * HEAP_GROWTH + HEAP_SLACK; // the first graphs are no garbage yet
  else if (bytes > heapLimit) {
    collector.letGo();
    collect();
  }
}

/** Collects, and lets finalizers free what was unreachable: for tests and measurements. */
export async function settleMemory(): Promise<void> {
  // what a finalizer lets go may take another collection, and the first one may free nothing itself
  for (let unchanged = 0; unchanged < 2;) {
    const before = held();
    collect();
    await new Promise((done) => setTimeout(done, 0)); // finalizers are tasks of their own
    await macrotask();
    unchanged = held() === before ? unchanged + 1 : 0;
  }
  pending = false;
  heldAfterCollection = held();
}
