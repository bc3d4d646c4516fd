/**
 * Running a graph: schedule, compile, run, record. Synchronous. A capture (the JIT's) may listen.
 *
 * @module
 */
import { releaseStorage } from "../device/buffer.ts";
import { watchMemory } from "../device/ledger.ts";
import { relieveDevices, relieveHeap } from "../device/pressure.ts";
import { envNumber } from "../helpers/env.ts";
import { type BoundSchedule, scheduleNodes, type TakeBuffer } from "../schedule/schedule.ts";
import type { Storage } from "../uop/core/args.ts";
import { rotateInternTable, type UOp } from "../uop/core/uop.ts";
import { besideOf } from "../uop/graph/beside.ts";
import { bare } from "../uop/graph/complex.ts";
import { passTimes } from "../uop/rewrite/rewrite.ts";
import { debugRewrites, debugSchedule, watchStats } from "./debug.ts";
import { type ExecItem, execItems, runItems } from "./exec.ts";

/** What listens while a function is captured. */
export interface Capture {
  /** Where temporaries come from: they must live as long as the capture. */
  readonly take: TakeBuffer;
  /** How many nodes there were when it began. */
  readonly since: number;
  /** Of what is about to be realized, that which is no part of what is captured: it is realized first, unheard. */
  foreign(nodes: readonly UOp[]): UOp[];
  add(items: readonly ExecItem[], bound: BoundSchedule): void;
}

/** Larger uploads are not kept for reuse: the next batch of values brings memory of its own. */
const KEEP_UPLOAD = 1 << 20;

let capture: Capture | undefined;

/** Makes `c` listen to every realize until it is set again. */
export function setCapture(c: Capture | undefined): void {
  capture = c;
}
/** What hears which storages schedules use, and which of them they write in place. */
export interface UseListener {
  /** How many nodes there were when it began. */
  readonly since: number;
  /** One of the storages that a schedule reads, writes or makes. */
  uses(storage: Storage, isWritten: boolean): void;
}
/** What listens now, if anything does. */
export const useLog: { listener: UseListener | undefined } = { listener: undefined };
/** While `look` is given, it is shown what is about to be realized. */
export const readLog: { look: ((nodes: readonly UOp[]) => void) | undefined } = { look: undefined };

/** The capture that listens now. */
export function currentCapture(): Capture | undefined {
  return capture;
}

/** Where the call begins that is listened to: what was asked for before it is no part of it. */
function callStart(): number {
  return capture?.since ?? useLog.listener?.since ?? 0;
}
/** While what is no part of a call is realized, only what was there before the call goes with it. */
let until = Infinity;

/**
 * Realizes nodes: afterwards each has become a buffer (or a view of one). `beside` are the open writes that go with them;
 * those from before a call that listens are done before, unheard.
 */
export function realizeNodes(
  nodes: readonly UOp[],
  beside: readonly UOp[] = besideOf(nodes, undefined, until),
): void {
  nodes = nodes.map(bare);
  if (beside.length > 0) {
    const start = callStart(), foreign = beside.filter((u) => u.seq < start);
    if (foreign.length > 0) realizeUnheard(foreign);
    nodes = [...nodes, ...beside.filter((u) => u.seq >= start)];
  }
  if (capture !== undefined) realizeForeign(capture, nodes);
  watchStats();
  watchMemory();
  relieveDevices();
  readLog.look?.(nodes);
  const debug = envNumber("DEBUG"), counted = debug >= 2 ? passTimes() : undefined, start = performance.now();
  const bound = debugRewrites(() => scheduleNodes(nodes, capture?.take));
  if (bound.variant.items.length > 0) {
    if (debug >= 1) debugSchedule(bound, performance.now() - start, counted);
    const items = execItems(bound);
    try {
      runItems(items);
    } catch (error) {
      for (const storage of bound.made) releaseStorage(storage);
      throw error;
    } finally {
      if (capture === undefined) { for (const t of bound.temporaries) t.free(); }
    }
    capture?.add(items, bound);
  }
  bound.commit();
  if (useLog.listener !== undefined) tellUses(useLog.listener, bound);
  if (capture === undefined) releaseUploads(bound);
  rotateInternTable();
  relieveHeap();
}

function tellUses(listener: UseListener, bound: BoundSchedule): void {
  for (const storage of bound.storages) if (storage !== undefined) listener.uses(storage, false);
  for (const { storage } of bound.written) listener.uses(storage, true);
}

function realizeForeign(listening: Capture, nodes: readonly UOp[]): void {
  const foreign = listening.foreign(nodes);
  if (foreign.length > 0) realizeUnheard(foreign);
}

/** Realizes what is no part of what is captured: once, and not in each replay. */
export function realizeUnheard(nodes: readonly UOp[]): void {
  const listening = capture, { listener } = useLog, before = until;
  until = Math.min(until, callStart() || Infinity);
  capture = useLog.listener = undefined;
  try {
    realizeNodes(nodes);
  } finally {
    [capture, useLog.listener, until] = [listening, listener, before];
  }
}

/** The host's bytes of values that are on their device now: the copy was the only reader. */
function releaseUploads(bound: BoundSchedule): void {
  for (const storage of bound.storages) {
    if (storage?.staging !== true) continue;
    storage.disposedAt = "its upload";
    releaseStorage(storage, storage.nbytes < KEEP_UPLOAD);
  }
}

/** A graph's steps, without running them. */
export function scheduleItems(nodes: readonly UOp[]): ExecItem[] {
  return debugRewrites(() => execItems(scheduleNodes(nodes.map(bare))));
}
