/**
 * Which tensors' views were passed by. Builders of movement merge: the reshape of a reshape is one of what lies below it,
 * and a graph no longer tells what was computed from a view and what from that which it views. Their gradients differ, so
 * the builders note it. In: a view that handles name, and what stands for a view of it. Out: of a node the views that it
 * was made from, by name, and whether it was made otherwise as well. Names keep no node alive.
 *
 * @module
 */
import type { UOp } from "./uop.ts";

/** A view that was passed by: how it was made itself, and how many views before it. */
export interface PassedName {
  note: PassedNote | undefined;
  readonly depth: number;
}

/** How a node was made. */
export interface PassedNote {
  /** The views that were passed by. */
  readonly over: readonly PassedName[];
  /** Whether it was made, or is named, by itself, too. */
  readonly direct: boolean;
}

const names = new WeakMap<UOp, readonly PassedName[]>();
const notes = new WeakMap<UOp, PassedNote>();
const NONE: readonly PassedName[] = [];

/** Views of views, and views of which one node may be, that are told apart: of more it is any. */
const MOST = 32;
const ANY: PassedName = { note: undefined, depth: 0 };
const OF_ANY: PassedNote = { over: [ANY], direct: true };

/** The names of a node under which it was passed by. */
export function passedNames(u: UOp): readonly PassedName[] {
  return names.get(u) ?? NONE;
}

/** How a node was made; undefined where no view was passed by. */
export function passedNote(u: UOp): PassedNote | undefined {
  return notes.get(u);
}

function setNote(u: UOp, note: PassedNote): void {
  if (note.over.length > MOST) note = OF_ANY;
  notes.set(u, note);
  for (const name of passedNames(u)) if (name.note !== undefined) name.note = note;
}

/** Whether handles name a node, or what it was before it was realized. */
function isNamed(u: UOp): boolean {
  return u.names > 0 || names.has(u);
}

/** A name of a node that is passed by. */
export function nameOfPassed(u: UOp): PassedName {
  const known = names.get(u);
  if (known !== undefined) return known[0];
  const note = notes.get(u), depth = note === undefined ? 0 : 1 + Math.max(...note.over.map((name) => name.depth));
  const made: PassedName = depth > MOST ? { note: OF_ANY, depth: 1 } : { note, depth };
  names.set(u, [made]);
  return made;
}

/** Tells that `made`, a new node if `isNew`, stands for a view of `u`; returns it. */
export function passBy(u: UOp, made: UOp, isNew: boolean): UOp {
  const own = notes.get(u), known = notes.get(made);
  if (!isNamed(u) && own === undefined) return made.op === u.op ? passNone(made) : made;
  const over = isNamed(u) ? [nameOfPassed(u)] : own!.over, before = known?.over ?? NONE;
  // what lies below a view may be nobody's; another view that exists is somebody's
  const direct = (known?.direct ?? (!isNew && (isNamed(made) || made.op === u.op))) || (!isNamed(u) && own!.direct);
  if (direct === known?.direct && over.every((name) => before.includes(name))) return made;
  setNote(made, { over: [...new Set([...before, ...over])], direct });
  return made;
}

/** Tells that `made` was made of its source itself; returns it. */
export function passNone(made: UOp): UOp {
  const known = notes.get(made);
  if (known !== undefined && !known.direct) setNote(made, { over: known.over, direct: true });
  return made;
}

/** Tells that `made` is what `u` is now: a view that nobody else has is so as memory, too. */
export function passedBecame(u: UOp, made: UOp): void {
  if (made === u || !isNamed(u)) return;
  const note = notes.get(u);
  addPassed(made, [nameOfPassed(u), ...passedNames(u)], note?.direct === false ? note : undefined);
}

/** Gives a node names and a note, beside its own. */
export function addPassed(u: UOp, its: readonly PassedName[], note: PassedNote | undefined): void {
  if (its.length > 0) names.set(u, [...new Set([...passedNames(u), ...its])]);
  if (note === undefined) return;
  const known = notes.get(u), all = known === undefined ? note.over : [...new Set([...known.over, ...note.over])];
  setNote(u, { over: all, direct: note.direct || known?.direct === true });
}

/** Whether one of these names is among the views that led to a note. A view may lead back to what it views. */
function leadsFrom(note: PassedNote, from: ReadonlySet<PassedName>): boolean {
  const seen = new Set(note.over);
  for (const name of seen) {
    if (name === ANY || from.has(name)) return true;
    for (const next of name.note?.over ?? NONE) seen.add(next);
  }
  return false;
}

/** Whether all views that led to a note are of these names, or were made of such alone. */
function isOfAll(note: PassedNote, from: ReadonlySet<PassedName>): boolean {
  const seen = new Set<PassedName>(), notes = [note];
  for (let it = notes.pop(); it !== undefined; it = notes.pop()) {
    if (it.direct) return false;
    for (const name of it.over) {
      if (from.has(name) || seen.has(name)) continue;
      if (name.note === undefined) return false;
      seen.add(name);
      notes.push(name.note);
    }
  }
  return true;
}

/** Whether what a view with this note shows is that of views of these names alone (2), of others alone (0), or maybe (1). */
export function passedFrom(note: PassedNote, from: ReadonlySet<PassedName>): 0 | 1 | 2 {
  return !leadsFrom(note, from) ? 0 : isOfAll(note, from) ? 2 : 1;
}
