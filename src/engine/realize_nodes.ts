/**
 * Running a graph: schedule, compile, run, record. Synchronous. A capture (the JIT's) may listen.
 *
 * @module
 */
import { releaseStorage } from "../device/buffer.ts";
import { watchMemory } from "../device/ledger.ts";
import { relieveDevices } from "../device/pressure.ts";
import { envNumber } from "../helpers/env.ts";
import { type SpanListener, spans, tellSpan, timed } from "../helpers/spans.ts";
import { type BoundSchedule, scheduleNodes, type TakeBuffer } from "../schedule/schedule.ts";
import { Storage } from "../uop/core/args.ts";
import { Ops } from "../uop/core/ops.ts";
import { rotateInternTable, toposort, type UOp } from "../uop/core/uop.ts";
import { besideOf } from "../uop/graph/beside.ts";
import { bare } from "../uop/graph/complex.ts";
import { resolve, writeOf } from "../uop/graph/resolve.ts";
import { memoryOf } from "../uop/graph/writes.ts";
import { passTimes } from "../uop/rewrite/record.ts";
import { debugRewrites, debugSchedule, watchStats } from "./debug.ts";
import { runAgreed } from "./collective.ts";
import { execItems, runCopy, runItems, stepLog } from "./exec.ts";
import { type Capture, currentCapture, readLog, setCapture, type UseListener, useLog } from "./front/listening.ts";
import type { ExecItem } from "./front/runners.ts";
import { printedAsTable } from "./step_table.ts";

/** Larger uploads are not kept for reuse: the next batch of values brings memory of its own. */
const KEEP_UPLOAD = 1 << 20;

/** Where the call begins that is listened to: what was asked for before it is no part of it. */
function callStart(): number {
  return currentCapture()?.since ?? useLog.listener?.since ?? 0;
}
/** While what is no part of a call is realized, only what was there before the call goes with it. */
let until = Infinity;

/**
 * Realizes nodes: afterwards each has become a buffer (or a view of one). `beside` are the open writes that go with them;
 * those from before a call that listens are unheard, and done before it where it is captured.
 */
export function realizeNodes(
  nodes: readonly UOp[],
  beside: readonly UOp[] = besideOf(nodes, undefined, until),
): void {
  const capture = currentCapture();
  nodes = nodes.map(bare);
  let heard = nodes;
  if (beside.length > 0) {
    const start = callStart(), foreign = beside.filter((u) => u.seq < start);
    heard = [...nodes, ...beside.filter((u) => u.seq >= start)];
    if (capture !== undefined && foreign.length > 0) realizeUnheard(foreign);
    nodes = capture === undefined ? [...nodes, ...beside] : heard;
  }
  if (capture !== undefined) realizeForeign(capture, nodes);
  watchStats();
  watchMemory();
  relieveDevices();
  readLog.look?.(nodes);
  const below = useLog.listener === undefined ? [] : belowOf(heard);
  const debug = envNumber("DEBUG"), counted = debug >= 2 ? passTimes() : undefined, start = performance.now();
  const hearer = hearerOfCopies(debug), take = capture?.take;
  const bound = debugRewrites(() => hearer === undefined ? scheduled(nodes, take) : scheduleNodes(nodes, take));
  const end = hearer === undefined ? 0 : performance.now(), isHeard = hearer !== undefined && isCopy(bound);
  if (hearer !== undefined && !isHeard) tellSpan(hearer, "schedule", "schedule", start, end, undefined, bound);
  if (bound.variant.items.length > 0) {
    if (debug >= 1) debugSchedule(bound, performance.now() - start, counted);
    const items = execItems(bound);
    try {
      const runAll = (run: () => void): void => runAgreed(bound.variant, items, run);
      if (isHeard) runAll(() => runCopy(items[0], start, end));
      else timed("run", "run", () => runAll(() => runItems(items)), () => ({ subject: bound }));
    } catch (error) {
      for (const storage of bound.made) releaseStorage(storage);
      throw error;
    } finally {
      if (capture === undefined) { for (const t of bound.temporaries) t.free(); }
    }
    capture?.add(bound);
  }
  bound.commit();
  if (useLog.listener !== undefined) tellUses(useLog.listener, below);
  if (capture === undefined) releaseUploads(bound);
  rotateInternTable();
}

/** Who hears by one call of a schedule that is a copy, and of its run: only where nobody else listens. */
function hearerOfCopies(debug: number): SpanListener | undefined {
  const { listener } = spans;
  return listener?.copied !== undefined && debug < 2 && stepLog.listener === undefined ? listener : undefined;
}

function isCopy({ variant: { items } }: BoundSchedule): boolean {
  return items.length === 1 && items[0].kind === "copy";
}

/** What nodes are computed from, whichever of it a schedule is to make. */
function belowOf(nodes: readonly UOp[]): UOp[] {
  return toposort(nodes.map((u) => resolve(u))).filter(({ op }) => op === Ops.BUFFER || op === Ops.AFTER);
}

/** Tells what a schedule has used for nodes that were computed from those `below`; of writes those that were asked for since. */
function tellUses(listener: UseListener, below: readonly UOp[]): void {
  for (const u of below) {
    const memory = memoryOf(u);
    if (memory instanceof Storage) listener.uses(memory, u.op === Ops.AFTER && writeOf(u) >= listener.since);
  }
}

function realizeForeign(listening: Capture, nodes: readonly UOp[]): void {
  const foreign = listening.foreign(nodes);
  if (foreign.length > 0) realizeUnheard(foreign);
}

/** Realizes what is no part of what is captured: once, and not in each replay. */
export function realizeUnheard(nodes: readonly UOp[]): void {
  const listening = currentCapture(), { listener } = useLog, before = until;
  until = Math.min(until, callStart() || Infinity);
  useLog.listener = undefined;
  setCapture(undefined);
  try {
    realizeNodes(nodes);
  } finally {
    [useLog.listener, until] = [listener, before];
    setCapture(listening);
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
  return printedAsTable(debugRewrites(() => execItems(scheduled(nodes.map(bare)))));
}

function scheduled(nodes: readonly UOp[], take?: TakeBuffer): BoundSchedule {
  return timed("schedule", "schedule", () => scheduleNodes(nodes, take), (bound) => ({ subject: bound }));
}
