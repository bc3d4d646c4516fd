/**
 * Why things are as they are: notes that the scheduler and the optimizer leave where they decide, as compilers leave
 * remarks. Each is a sentence that somebody could have asked for, with the numbers that were compared. While nobody
 * listens, nothing is made of them.
 *
 * @module
 */
import { Listeners } from "../../helpers/spans.ts";
import type { Work } from "./recording.ts";
import type { UOp } from "./uop.ts";

/** "passed": something was done; "missed": it was not; "analysis": a number that is worth knowing. */
export type NoteKind = "passed" | "missed" | "analysis";

/** A note. */
export interface Note {
  /** Whether something was done, not done, or found. */
  readonly kind: NoteKind;
  /** What it is about. */
  readonly node: UOp;
  /** A sentence without a period, which goes with the numbers. */
  readonly text: string;
  /** What was compared, by name. */
  readonly numbers: Readonly<Record<string, number>>;
  /** The schedule or the kernel it was made for. */
  readonly of: Work | undefined;
}

/** Hears notes. */
export type NoteListener = (note: Note) => void;

/** Who listens now, if anybody does. */
export const notes: Listeners<NoteListener> = new Listeners((all) => (note) => all.forEach((hear) => hear(note)));

/** True where somebody listens: ask before a note is made that takes work. */
export function wantsNotes(): boolean {
  return notes.listener !== undefined;
}

/** How many had begun to listen when it was last told why something is as it is. */
const told = new WeakMap<object, number>();

/**
 * Whether somebody listens who began after it was told why `made` is as it is, which was made before: then it is to be told
 * again. It counts as told from then on.
 */
export function owesNotes(made: object): boolean {
  const { listener, begun } = notes;
  if (listener === undefined || told.get(made) === begun) return false;
  told.set(made, begun);
  return true;
}

/** Calls `fn`, of which no note tells. */
export function unnoted<T>(fn: () => T): T {
  const { listener } = notes;
  notes.listener = undefined;
  try {
    return fn();
  } finally {
    notes.listener = listener;
  }
}

/** Has `listener` hear notes, beside who hears them already, until what it returns is called. */
export function listenToNotes(listener: NoteListener): () => void {
  return notes.listen(listener);
}
