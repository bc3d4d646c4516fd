/**
 * Who listens while graphs are realized: a capture (the JIT's), what hears which memory schedules use, what is shown nodes
 * before they are realized. realize_nodes.ts tells them.
 *
 * @module
 */
import type { BoundSchedule, TakeBuffer } from "../../schedule/schedule.ts";
import type { Storage } from "../../uop/core/args.ts";
import type { UOp } from "../../uop/core/uop.ts";

/** What listens while a function is captured. */
export interface Capture {
  /** Where temporaries come from: they must live as long as the capture. */
  readonly take: TakeBuffer;
  /** How many nodes there were when it began. */
  readonly since: number;
  /** Of what is about to be realized, that which is no part of what is captured: it is realized first, unheard. */
  foreign(nodes: readonly UOp[]): UOp[];
  /** Takes a schedule that has run. */
  add(bound: BoundSchedule): void;
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

/** What hears which storages schedules use, and which of them they write in place. */
export interface UseListener {
  /** How many nodes there were when it began. */
  readonly since: number;
  /** One of the storages that a schedule reads or writes. */
  uses(storage: Storage, isWritten: boolean): void;
}
/** What listens now, if anything does. */
export const useLog: { listener: UseListener | undefined } = { listener: undefined };
/** While `look` is given, it is shown what is about to be realized. */
export const readLog: { look: ((nodes: readonly UOp[]) => void) | undefined } = { look: undefined };
/** How often kernels that were compiled have been forgotten: what was captured before is captured anew. */
export const forgotten: { count: number } = { count: 0 };

/** Writes a line, or several, to standard error. */
export function debugPrint(text: string): void {
  console.error(text);
}

/** "3 kernels", "1 copy". */
export function countText(n: number, one: string, many: string = `${one}s`): string {
  return `${n} ${n === 1 ? one : many}`;
}
