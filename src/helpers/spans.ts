/**
 * What takes time, told as it ends: schedules, passes, kernels that are lowered and compiled, launches, copies, reads and
 * replays. In: the places that do the work. Out: whoever listens (`record`, `profile`, VIZ, PROFILE); while nobody does,
 * no clock is read and nothing is allocated. And how several hear what is told to one.
 *
 * @module
 */

/**
 * What a span is of: "trace" a function of `jit` that is captured; "schedule" from a graph to its steps; "pass" one pass of
 * scheduling or of code generation; "lower" a kernel on its way to linear UOps; "compile" these to code; "run" the steps of
 * a schedule; "replay" those of a captured call; "launch" a kernel; "copy" a copy or a fill; "collective" a step that several
 * ranks do together; "read" values that the program asks for.
 */
export type SpanKind =
  | "trace"
  | "schedule"
  | "pass"
  | "lower"
  | "compile"
  | "run"
  | "replay"
  | "launch"
  | "copy"
  | "collective"
  | "read";

/** Something that took time. Spans are told when they end, so inner ones before outer ones. */
export interface Span {
  /** What it is of. */
  readonly kind: SpanKind;
  /** The name of the pass, the kernel, or what is copied. */
  readonly name: string;
  /** Milliseconds, as `performance.now()` counts them. */
  readonly startMs: number;
  /** Likewise; for a launch that is only queued, when it has been. */
  readonly endMs: number;
  /** The device; absent where the host alone is at work. */
  readonly device?: string;
  /** Milliseconds by the device's own clock, where it has one; absent where the host's is all that is known. */
  readonly deviceMs?: number;
  /** Whether it was only queued when it ended: when the device did it is not known. */
  readonly isQueued?: boolean;
  /** When it began and ended by the device's clock, set to `performance.now()`, where that is known only later. */
  readonly later?: Promise<readonly [startMs: number, endMs: number]>;
  /** What it is about: a bound schedule, the record of a kernel, a step of a schedule. */
  readonly subject?: unknown;
}

/** A step that launches a kernel. */
export interface LaunchedStep {
  /** The kernel: its name, and where it runs. */
  readonly runner: { readonly name: string; readonly device: string };
}

/** A copy, as a span tells of it. */
export interface CopyName {
  readonly name: string;
  readonly device: string;
}

/** Hears spans. */
export interface SpanListener {
  /** Called with each span. */
  (span: Span): void;
  /**
   * Hears launches that a device has timed, of many kernels at once: their steps, when the first began, and how many
   * milliseconds after that each ended: as many of `ends` as there are steps, until the call returns. Where it is absent
   * each is told as a span.
   */
  launches?(items: readonly LaunchedStep[], startMs: number, ends: Float64Array): void;
  /** The same of a replay whose steps are these launches, and the replay: where it is absent both are told one by one. */
  replays?(
    name: string,
    startMs: number,
    endMs: number,
    items: readonly LaunchedStep[],
    originMs: number,
    ends: Float64Array,
  ): void;
  /**
   * Hears of a schedule, its run and the one copy that this was, by one call and three readings of the clock in place of three
   * and six: a program's batches come so. Where it is absent, or others listen, they are told one by one.
   */
  copied?(copy: CopyName, startMs: number, scheduledMs: number, endMs: number): void;
  /** False where it wants no lines of the user's with operations, for now: each costs a stack. {@linkcode tellLines} says so. */
  lines?: boolean;
}

/**
 * Lets several hear what is told to `listener`, each until it ends, in whatever order they do; undefined while there is
 * nobody, so that nothing is made for it.
 */
export class Listeners<L> {
  /** Whom to tell, if anybody. */
  listener: L | undefined = undefined;
  /** How many have begun to listen so far. */
  begun = 0;
  /** All who listen now. */
  readonly all: L[] = [];

  /**
   * @param joined one that tells all of these, of which there are two or more
   * @param changed called when somebody began or ended
   */
  constructor(private readonly joined: (all: readonly L[]) => L, private readonly changed: () => void = () => {}) {}

  /** Lets `listener` hear all from now on, beside others, until what it returns is called. */
  listen(listener: L): () => void {
    this.begun++;
    this.all.push(listener);
    this.update();
    return () => {
      const at = this.all.indexOf(listener);
      if (at < 0) return;
      this.all.splice(at, 1);
      this.update();
    };
  }

  private update(): void {
    const { all } = this;
    this.listener = all.length < 2 ? all[0] : this.joined([...all]);
    this.changed();
  }
}

/** Those who hear spans. */
class Spans extends Listeners<SpanListener> {
  /** Whether they want lines of the user's. */
  wantsLines = true;
  /** How often one was asked for. */
  lines = 0;

  constructor() {
    super((all) => (span) => all.forEach((f) => f(span)), () => tellLines());
  }
}
/** Who listens now, if anybody does. */
export const spans: Spans = new Spans();

/** Calls `fn` while `listener` hears spans, beside who heard them before. */
export function listening<T>(listener: SpanListener, fn: () => T): T {
  const stop = listen(listener);
  try {
    return fn();
  } finally {
    stop();
  }
}

/** Lets `listener` hear spans from now on, beside who heard them before, until the function that is returned is called. */
export function listen(listener: SpanListener): () => void {
  return spans.listen(listener);
}

/** To be called when a listener wants lines that it did not want, or no longer. */
export function tellLines(): void {
  spans.wantsLines = spans.all.length === 0 || spans.all.some((l) => l.lines !== false);
}

/** Calls `fn`, and tells of it as a span where somebody listens; `more` says what it was about. */
export function timed<T>(
  kind: SpanKind,
  name: string,
  fn: () => T,
  more?: (made: T) => Partial<Pick<Span, "name" | "device" | "subject">>,
): T {
  if (spans.listener === undefined) return fn();
  const startMs = performance.now(), made = fn(), endMs = performance.now();
  // whoever began to listen, or ended, in between
  const { listener } = spans;
  if (listener === undefined) return made;
  const own = more?.(made);
  tellSpan(listener, kind, own?.name ?? name, startMs, endMs, own?.device, own?.subject);
  return made;
}

/** Tells of what the host did: all such spans have one shape, which listeners read fastest. */
export function tellSpan(
  listener: SpanListener,
  kind: SpanKind,
  name: string,
  startMs: number,
  endMs: number,
  device: string | undefined,
  subject: unknown,
): void {
  listener({ kind, name, startMs, endMs, device, deviceMs: undefined, isQueued: undefined, later: undefined, subject });
}
