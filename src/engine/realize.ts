/**
 * Running a graph: schedule, compile, run, record. Synchronous. A capture (the JIT's) may listen.
 *
 * @module
 */
import { envNumber } from "../helpers/env.ts";
import { type BoundSchedule, scheduleNodes, type TakeBuffer } from "../schedule/schedule.ts";
import { rotateInternTable, type UOp } from "../uop/uop.ts";
import { type ExecItem, execItems, runItems } from "./exec.ts";

/** What listens while a function is captured. */
export interface Capture {
  /** Where temporaries come from: they must live as long as the capture. */
  readonly take: TakeBuffer;
  add(items: readonly ExecItem[], bound: BoundSchedule): void;
}

let capture: Capture | undefined;

/** Makes `c` listen to every realize until it is set again. */
export function setCapture(c: Capture | undefined): void {
  capture = c;
}
/** The capture that listens now. */
export function currentCapture(): Capture | undefined {
  return capture;
}

/** Realizes nodes: afterwards each has become a buffer (or a view of one). */
export function realizeNodes(nodes: readonly UOp[]): void {
  const bound = scheduleNodes(nodes, capture?.take);
  if (bound.items.length > 0) {
    const items = execItems(bound);
    if (envNumber("DEBUG") >= 1) console.error(`schedule of ${items.length} items`);
    try {
      runItems(items);
    } finally {
      if (capture === undefined) { for (const t of bound.temporaries) t.free(); }
    }
    capture?.add(items, bound);
  }
  bound.commit();
  rotateInternTable();
}

/** A graph's steps, without running them. */
export function scheduleItems(nodes: readonly UOp[]): ExecItem[] {
  return execItems(scheduleNodes(nodes));
}
