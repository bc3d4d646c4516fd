/**
 * The record of what each pass did, the times that passes take, and notes beside it. In: passes, of rewrite.ts and others.
 * Out: what `record` returns; nothing is allocated where nobody asks for it.
 *
 * @module
 */
import { envNumber } from "../../helpers/env.ts";
import { checkFunction } from "../../helpers/options.ts";
import { listening, type Span, spans, tellSpan, timed } from "../../helpers/spans.ts";
import { type NoteKind, notes, unnoted, wantsNotes } from "../core/notes.ts";
import { type PassRecord, Recording, type Work } from "../core/recording.ts";
import type { UOp } from "../core/uop.ts";

/** The lists that passes go to; nobody else sets it. */
export let recording: PassRecord[][] | undefined;
/** The pass that runs. */
let running: PassRecord | undefined;
let depth = 0;
/** What the passes that run belong to. */
let work: Work | undefined;

/**
 * Runs `fn` and returns its result with a record of every pass in it: the graph before and after, and each replacement
 * with the rule that made it. `JSON.stringify` takes the record.
 *
 * ```ts
 * import { record, Tensor } from "../../../mod.ts";
 * const { result, passes } = record(() => Tensor.arange(6).mul(2).sum().realize());
 * console.log(result.shape, passes.length > 0); // [] true
 * ```
 */
export function record<T>(fn: () => T): Recording<T> {
  checkFunction("record passes", "fn", fn);
  const passes: PassRecord[] = [], events: Span[] = [];
  const hear = (span: Span): void => void events.push(span);
  return new Recording(recordingTo([passes], () => listening(hear, fn)), passes, events);
}

/** Calls `fn`; the passes that run in it go to these lists, and to no other record. */
function recordingTo<T>(lists: PassRecord[][] | undefined, fn: () => T): T {
  const outer = recording, outerDepth = depth, outerRunning = running;
  recording = lists;
  running = undefined;
  depth = 0;
  try {
    return fn();
  } finally {
    recording = outer?.length === 0 ? undefined : outer;
    running = outerRunning;
    depth = outerDepth;
  }
}

/** Calls `fn`, of which no record, listener or note tells: what the library asks of a device for itself is no part of a program. */
export function unwatched<T>(fn: () => T): T {
  const hears = spans.listener;
  spans.listener = undefined;
  try {
    return unnoted(() => recordingTo(undefined, fn));
  } finally {
    spans.listener = hears;
  }
}

/**
 * From now on passes go to a list, too, but those inside of a {@linkcode record} that begins later, until what it returns is
 * called. For who watches a whole program.
 */
export function recordAll(passes: PassRecord[]): () => void {
  const lists = recording ??= [];
  lists.push(passes);
  return () => {
    lists.splice(lists.indexOf(passes), 1);
    if (lists.length === 0 && recording === lists) recording = undefined;
  };
}

const counts = { schedule: 0, kernel: 0 };

/** Makes something of a graph in passes that belong together, and says so to records; a kernel goes by what `nameOf` tells. */
export function runWork<T>(
  { kind, device, ast }: Pick<Work, "kind" | "device" | "ast">,
  make: () => T,
  nameOf?: (made: T) => string,
): T {
  const number = ++counts[kind];
  if (recording === undefined && spans.listener === undefined && !wantsNotes()) return make();
  const outer = work, own: Work = work = { kind, number, device, name: "", ast, made: undefined };
  const run = (): T => {
    const made = make();
    own.name = nameOf?.(made) ?? "";
    own.made = made;
    return made;
  };
  try {
    return kind === "schedule" ? run() : timed("lower", "lower", run, () => ({ name: own.name, subject: own }));
  } finally {
    work = outer;
  }
}

/** True inside {@linkcode record}. */
export function isRecording(): boolean {
  return recording !== undefined;
}

/** Whether a pass that is recorded has not ended. */
export function isInPass(): boolean {
  return running !== undefined;
}

/** One pass; what it makes is recorded as the graph that `graphOf` gives for it, from that which `before` gives. */
export function runPass<T>(name: string, before: () => UOp, fn: () => T, graphOf: (made: T) => UOp): T {
  if (recording === undefined && spans.listener === undefined && !countsPasses()) return fn();
  const start = performance.now();
  let made!: T;
  if (recording === undefined) made = fn();
  else recorded(name, before(), () => graphOf(made = fn()));
  const end = performance.now();
  passMs.set(name, (passMs.get(name) ?? 0) + end - start);
  if (spans.listener !== undefined) tellSpan(spans.listener, "pass", name, start, end, undefined, work);
  return made;
}

const passMs = new Map<string, number>();

function countsPasses(): boolean {
  return envNumber("DEBUG") >= 2 || envNumber("TRACK_MATCH_STATS") !== 0;
}

/** Milliseconds that each pass has taken so far, counted under DEBUG=2, TRACK_MATCH_STATS and `record`. */
export function passTimes(): Map<string, number> {
  return new Map(passMs);
}

/** Notes in the record of the pass that runs, if there is one, what a rule made of a node, or decided of it. */
export function noteChange(rule: string, from: UOp, to: UOp = from): void {
  running?.changes.push({ rule, from, to });
}

/**
 * Leaves a note beside the record: what was decided about a node, and why, as a sentence, with the numbers that decided.
 * Nobody may listen: where a sentence takes work to make, ask {@linkcode wantsNotes} first.
 */
export function note(kind: NoteKind, node: UOp, text: string, numbers: Readonly<Record<string, number>> = {}): void {
  notes.listener?.({ kind, node, text, numbers, of: work });
}

/** A pass within the record that is on. */
export function recorded(name: string, before: UOp, fn: (r: PassRecord) => UOp): UOp {
  const startMs = performance.now(), outer = running;
  const r: PassRecord = { name, depth, of: work, startMs, before, after: before, timeMs: 0, changes: [] };
  for (const list of recording!) list.push(r);
  running = r;
  depth++;
  try {
    return r.after = fn(r);
  } finally {
    r.timeMs = performance.now() - startMs;
    depth--;
    running = outer;
  }
}
