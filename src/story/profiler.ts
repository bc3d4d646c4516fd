/**
 * What a profile is made of, collected while a program runs. In: spans as they are told. Out: the same as objects, when they
 * are asked for. Until then each is a few numbers behind those of the one before, so that a launch costs little: no object is
 * made that lives on, and nothing is looked at twice.
 *
 * @module
 */
import { getDevice, openDevices } from "../device/device.ts";
import type { ThreadCounts, ThreadWatch } from "../device/program.ts";
import type { CompiledKernel, ExecItem } from "../engine/front/runners.ts";
import {
  type CopyName,
  listen,
  type Span,
  type SpanKind,
  type SpanListener,
  spans,
  tellLines,
} from "../helpers/spans.ts";
import { lineText } from "../helpers/stack.ts";
import type { LinearProgram } from "../renderer/renderer.ts";
import type { Work } from "../uop/core/recording.ts";

/** A kernel in a profile. */
export interface ProfiledKernel {
  /** Its name: its kind and the sizes of its loops. */
  readonly name: string;
  /** Where it ran. */
  readonly device: string;
  /** How often. */
  launches: number;
  /** Milliseconds of all launches: by the device's clock where it has one. */
  timeMs: number;
  /** Arithmetic operations of all launches. */
  flops: number;
  /** Bytes that all launches touched. */
  bytes: number;
  /** The line of the program that computes with it, where known. */
  line: string | undefined;
  /** What the threads of all launches counted, where that was asked for and the system counts: CLANG on Linux. */
  counts?: ThreadCounts;
}

/** A span of a profile: it holds no graph and no buffer. */
export interface ProfiledSpan {
  readonly kind: SpanKind;
  readonly name: string;
  readonly startMs: number;
  readonly endMs: number;
  readonly device: string | undefined;
  readonly kernel: ProfiledKernel | undefined;
  /** Numbers of the arrows that lead from it, or to it. */
  flows: readonly number[];
  readonly isQueued: boolean;
}

/** A part of a launch that a thread ran. */
export interface ThreadPart {
  readonly kernel: ProfiledKernel;
  readonly thread: number;
  readonly core: number;
  readonly startMs: number;
  readonly endMs: number;
  readonly counts: ThreadCounts | undefined;
}

/** What a profile is made of. */
export interface Collected {
  readonly startMs: number;
  readonly endMs: number;
  /** In the order in which they ended. */
  readonly spans: readonly ProfiledSpan[];
  readonly kernels: readonly ProfiledKernel[];
  /** Bytes in use on each device, when they changed. */
  readonly samples: ReadonlyMap<string, readonly (readonly [ms: number, bytes: number])[]>;
  readonly parts: readonly ThreadPart[];
  /** What cannot be counted here, and why. */
  readonly uncounted: string | undefined;
  /** Spans that came when there was no room for more. */
  readonly dropped: number;
}

/** Whether a device does what a span is of. */
export function isWork(kind: SpanKind): boolean {
  return kind === "launch" || kind === "copy" || kind === "collective";
}

/** Spans that are kept; of a longer program the beginning. */
const MAX_SPANS = 1_000_000;
/**
 * Milliseconds that the user's line of an operation takes, about, with what collects it again; so many in all, and these
 * parts of the time and of that in which kernels are compiled, go into lines at most. Where all kernels have theirs, and so
 * many lines have told of no other kernel, none are taken until there is one.
 */
const LINE_MS = 0.025, LINES_MS = 40, LINES_PART = 0.001, COMPILE_PART = 0.03, LINES_OF_NOTHING = 1000;
/** Numbers of a piece of the log. */
const PIECE = 1 << 15;
/** Schedules that may wait until they run, with an arrow: most run at once, what throws in between never does. */
const MAX_SCHEDULED = 8;

/** Kinds of spans by number. */
const KINDS: readonly SpanKind[] = [
  "trace",
  "schedule",
  "pass",
  "lower",
  "compile",
  "run",
  "replay",
  "launch",
  "copy",
  "collective",
  "read",
];

/**
 * What a record is: the lowest digit of its first number, to the base of how many there are. The digits above it are of a span
 * its kind, whether it is queued, device + 1, and its text or, of a launch, its kernel; of launches how many there are; of
 * memory the device; of an arrow its number: it is of the span before it; of a copy, told with its schedule and its run, what
 * a span has. Records are short: what they cost is most of all the memory that the system gives for them, page by page.
 */
const SPAN = 0, LAUNCHES = 1, MEMORY = 2, FLOW = 3, COPY = 4, RECORDS = 5;
/** Numbers of a record: of a span, of memory, of a copy, and of launches before the ends of two in each. */
const SPAN_SIZE = 3, MEMORY_SIZE = 3, COPY_SIZE = 4, LAUNCHES_HEAD = 6;
/** Spans of a record of a copy. */
const COPY_SPANS = 3;
/** Digits: one of a kind, what a span that is queued has more, and one of a device. */
const KIND_UNIT = RECORDS, QUEUED = KIND_UNIT * 16, DEVICE_UNIT = QUEUED * 2, DEVICES = 2 ** 16;
const NAME_UNIT = DEVICE_UNIT * DEVICES;
/** Lists of launches, fewer than these: replay + 1 is the digit above. */
const LISTS = 2 ** 26;

/** Records one behind the other, in pieces: what was written is never moved. */
class Log {
  private readonly full: Float64Array<ArrayBuffer>[] = [];
  /** Where is written now. */
  piece: Float64Array<ArrayBuffer> = new Float64Array(PIECE);
  /** The same, as twice as many numbers. */
  halves: Float32Array<ArrayBuffer> = new Float32Array(this.piece.buffer);
  private end = 0;

  /** Where in `piece` a record of so many numbers goes. */
  reserve(size: number): number {
    if (this.end + size > this.piece.length) {
      this.full.push(this.piece.subarray(0, this.end));
      this.piece = new Float64Array(Math.max(PIECE, size));
      this.halves = new Float32Array(this.piece.buffer);
      this.end = 0;
    }
    const at = this.end;
    this.end += size;
    return at;
  }
  /** All that was written. */
  pieces(): Float64Array[] {
    return [...this.full, this.piece.subarray(0, this.end)];
  }
}

/** Texts by number. */
class Texts {
  private readonly numbers = new Map<string, number>();
  readonly list: string[] = [];

  number(text: string): number {
    let at = this.numbers.get(text);
    if (at === undefined) this.numbers.set(text, at = this.list.push(text) - 1);
    return at;
  }
}

/** Kernels that were launched together: their number among such, and the threads of their device, if it tells of them. */
interface KernelList {
  readonly number: number;
  readonly threads: ThreadWatch | undefined;
}

/** Collects while it listens. */
export class Profiler {
  private readonly log = new Log();
  private count = 0;
  private dropped = 0;
  /** Names of spans, and of devices. */
  private readonly texts = new Texts();
  private readonly devices = new Texts();
  private readonly kernels: ProfiledKernel[] = [];
  private readonly kernelOf = new Map<LinearProgram, number>();
  /** Kernels that were launched together, by number. */
  private readonly lists: (readonly number[])[] = [];
  /** Of steps that run again and again, and of kernels that are launched alone, by kernel. */
  private readonly listOf = new WeakMap<readonly unknown[], KernelList>();
  private readonly aloneOf: KernelList[] = [];
  private readonly listener: SpanListener;
  private readonly stopListening: () => void;
  /** Lines that had been asked for when it began, and when there was a new kernel, or the line of one. */
  private readonly linesBefore = spans.lines;
  private linesAtNews = spans.lines;
  /** Kernels without a line. */
  private unlined = 0;
  /** Milliseconds in which kernels were compiled. */
  private compileMs = 0;
  private readonly startMs: number = performance.now();
  private opened = openDevices();
  /** Bytes that were in use last on each of these. */
  private used: number[] = [];
  /** What was scheduled last and has not run yet, with the arrow to where it does. */
  private readonly scheduled: (readonly [subject: unknown, flow: number])[] = [];
  private flows = 0;
  /** What the device tells later of launches. */
  private readonly later: Promise<unknown>[] = [];
  private readonly watched = new Map<string, ThreadWatch>();
  private uncounted: string | undefined;
  private isStopped = false;

  /** Begins to listen. @param counts whether counters of the processor are read, too */
  constructor(private readonly counts: boolean = false) {
    const listener: SpanListener = this.listener = (span) => this.hear(span);
    listener.launches = (items, startMs, ends) =>
      this.hearLaunches(items as readonly unknown[] as readonly ExecItem[], startMs, ends);
    listener.replays = (name, startMs, endMs, items, originMs, ends) => {
      const list = items as readonly unknown[] as readonly ExecItem[];
      this.hearLaunches(list, originMs, ends, startMs, endMs, this.texts.number(name));
      this.weighLines(endMs);
      this.sample(endMs);
    };
    listener.copied = (copy, startMs, scheduledMs, endMs) => this.hearCopy(copy, startMs, scheduledMs, endMs);
    for (const { name } of this.opened) this.threadsOf(name);
    this.stopListening = listen(listener);
  }

  /** Ends it. */
  stop(): void {
    if (this.isStopped) return;
    this.isStopped = true;
    this.stopListening();
    this.stopThreads();
  }
  private stopThreads(): void {
    for (const threads of this.watched.values()) threads.stop();
  }

  /** Settles when devices have told of all launches, when they ran. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.later);
  }

  /** The threads of a device, watched from now on. */
  private threadsOf(device: string): ThreadWatch | undefined {
    let threads = this.watched.get(device);
    const times = threads === undefined ? getDevice(device).threadTimes : undefined;
    if (times !== undefined) {
      this.watched.set(device, threads = times.start(this.counts));
      if (this.counts) this.uncounted = times.uncounted();
    }
    return threads;
  }

  /** Launches; `replay` is the number of the name of the replay that they are of, from `startMs` to `endMs`; -1 where of none. */
  private hearLaunches(
    items: readonly ExecItem[],
    originMs: number,
    ends: Float64Array,
    startMs: number = originMs,
    endMs: number = originMs,
    replay: number = -1,
  ): void {
    const n = items.length;
    if (this.count + n > MAX_SPANS) {
      if (this.dropped === 0) this.stopThreads();
      return void (this.dropped += n);
    }
    this.count += n;
    const list = n === 1 ? this.alone(items[0]) : this.listOf.get(items) ?? this.list(items), { threads } = list;
    const at = this.log.reserve(LAUNCHES_HEAD + (n + 1 >> 1)), { piece, halves } = this.log;
    piece[at] = LAUNCHES + RECORDS * n;
    piece[at + 1] = list.number + LISTS * (replay + 1);
    piece[at + 2] = threads === undefined ? 0 : threads.list;
    piece[at + 3] = originMs;
    piece[at + 4] = startMs;
    piece[at + 5] = endMs;
    // by one call: what runs so seldom is interpreted, and slow by numbers
    halves.set(ends.length === n ? ends : ends.subarray(0, n), 2 * (at + LAUNCHES_HEAD));
  }

  /** What is kept of steps that run again and again. */
  private list(items: readonly ExecItem[]): KernelList {
    const kernels = items.map((item) => this.kernel(item)), list = this.newList(kernels);
    this.listOf.set(items, list);
    return list;
  }
  private alone(item: ExecItem): KernelList {
    const kernel = this.kernel(item);
    return this.aloneOf[kernel] ??= this.newList([kernel]);
  }
  private newList(kernels: readonly number[]): KernelList {
    return { number: this.lists.push(kernels) - 1, threads: this.threadsOf(this.kernels[kernels[0]].device) };
  }

  /** Wants lines where they may tell something, as long as they do not take too much of the time. */
  private weighLines(now: number): void {
    const { listener, linesBefore, linesAtNews, startMs, unlined } = this, { lines } = spans;
    const isWanted = listener.lines !== false;
    if (isWanted ? lines === linesBefore : unlined === 0) return;
    const given = LINES_MS + LINES_PART * (now - startMs) + COMPILE_PART * this.compileMs;
    const left = given - (lines - linesBefore) * LINE_MS;
    const isUsed = unlined > 0 || lines - linesAtNews < LINES_OF_NOTHING;
    // some hundred operations in a row, so that all of a step have theirs
    if (isWanted ? left > 0 && isUsed : left < 2) return;
    listener.lines = !isWanted;
    tellLines();
  }

  private hear({ kind, name, startMs, endMs, device, deviceMs, isQueued, later, subject }: Span): void {
    if (this.count >= MAX_SPANS) return void this.dropped++;
    this.count++;
    const isLaunch = kind === "launch", { texts, devices } = this;
    let flow = 0;
    if (kind === "schedule" || kind === "replay") this.weighLines(endMs);
    if (kind === "compile") {
      this.threadsOf(device!); // before the first of its kernels runs
      this.compileMs += endMs - startMs;
    }
    if (kind === "compile" || (kind === "copy" && !this.isOpened(device!))) {
      this.open();
    }
    if (kind === "schedule" && subject !== undefined) {
      if (this.scheduled.push([subject, flow = ++this.flows]) > MAX_SCHEDULED) this.scheduled.shift();
    } else if (kind === "run") flow = this.arrowTo(subject);
    // others take no memory
    if (kind === "run" || kind === "replay" || kind === "copy" || kind === "read") this.sample(endMs);
    const where = kind === "pass" ? (subject as Work | undefined)?.device || undefined : device;
    const of = isLaunch ? this.kernel(subject as ExecItem) : texts.number(name);
    const on = where === undefined ? 0 : devices.number(where) + 1, queued = isQueued === true ? QUEUED : 0;
    const at = this.log.reserve(SPAN_SIZE), { piece } = this.log;
    piece[at] = SPAN + KIND_UNIT * KINDS.indexOf(kind) + queued + DEVICE_UNIT * on + NAME_UNIT * of;
    // the host waits for the device: its own time ends when the host goes on
    piece[at + 1] = deviceMs !== undefined && isWork(kind) ? Math.max(startMs, endMs - deviceMs) : startMs;
    piece[at + 2] = endMs;
    if (flow > 0) {
      const after = this.log.reserve(1);
      this.log.piece[after] = FLOW + RECORDS * flow;
    }
    if (later === undefined) return;
    this.later.push(
      later.then(([startMs, endMs]) => {
        piece[at] -= queued;
        piece[at + 1] = startMs;
        piece[at + 2] = endMs;
      }, () => {}), // lost: it stays queued
    );
  }

  /** The arrow from a schedule to its run; 0 where there is none. Most often it is the last one. */
  private arrowTo(subject: unknown): number {
    const { scheduled } = this;
    for (let at = scheduled.length - 1; at >= 0; at--) {
      const [of, flow] = scheduled[at];
      if (of !== subject) continue;
      scheduled.splice(at, 1);
      return flow;
    }
    return 0;
  }

  /** Hears of a schedule of one copy, the copy and the run that it was. */
  private hearCopy({ name, device }: CopyName, startMs: number, scheduledMs: number, endMs: number): void {
    if (this.count + COPY_SPANS > MAX_SPANS) return void (this.dropped += COPY_SPANS);
    this.count += COPY_SPANS;
    this.weighLines(endMs);
    if (!this.isOpened(device)) this.open();
    this.sample(endMs);
    const of = DEVICE_UNIT * (this.devices.number(device) + 1) + NAME_UNIT * this.texts.number(name);
    const at = this.log.reserve(COPY_SIZE), { piece } = this.log;
    piece[at] = COPY + of;
    piece[at + 1] = startMs;
    piece[at + 2] = scheduledMs;
    piece[at + 3] = endMs;
  }

  private isOpened(device: string): boolean {
    return this.opened.some(({ name }) => name === device);
  }
  /** Looks for devices that have been opened. */
  private open(): void {
    const before = new Map(this.opened.map((d, i) => [d, this.used[i]]));
    this.opened = openDevices();
    this.used = this.opened.map((d) => before.get(d) ?? 0);
  }

  /** Notes how many bytes are in use, where that has changed. */
  private sample(ms: number): void {
    const { opened } = this;
    for (let i = 0; i < opened.length; i++) {
      const { used } = opened[i].allocator;
      if (this.used[i] === used) continue;
      this.used[i] = used;
      const device = this.devices.number(opened[i].name);
      const at = this.log.reserve(MEMORY_SIZE), { piece } = this.log;
      piece[at] = MEMORY + RECORDS * device;
      piece[at + 1] = ms;
      piece[at + 2] = used;
    }
  }

  /** The number of a kernel. */
  private kernel(item: ExecItem): number {
    const { device, program: { linear } } = item.runner as CompiledKernel;
    let at = this.kernelOf.get(linear);
    if (at === undefined) {
      const { line } = item, { name, flops, bytes } = linear, text = line === undefined ? undefined : lineText(line);
      at = this.kernels.push({ name, device, launches: 0, timeMs: 0, flops, bytes, line: text }) - 1;
      this.kernelOf.set(linear, at);
      this.linesAtNews = spans.lines;
      if (line === undefined) this.unlined++;
    } else if (item.site !== undefined && this.kernels[at].line === undefined) {
      this.kernels[at].line = lineText(item.site);
      this.linesAtNews = spans.lines;
      this.unlined--;
    }
    return at;
  }

  /** What was collected. */
  collected(): Collected {
    const { startMs, dropped, uncounted, lists } = this, { list: texts } = this.texts, { list: devices } = this.devices;
    const endMs = performance.now();
    const kernels = this.kernels.map((k) => ({ ...k })), samples = new Map<string, [number, number][]>();
    const spans: ProfiledSpan[] = [], parts: ThreadPart[] = [];
    let { flows } = this, pending = 0; // from there on launches and copies are in no run yet
    const arrows = (): number[] => {
      const out: number[] = [], seen = new Set<string>();
      for (const span of spans.slice(pending)) {
        if (!isWork(span.kind) || seen.has(span.device!)) continue;
        seen.add(span.device!);
        span.flows = [++flows];
        out.push(flows);
      }
      pending = spans.length;
      return out;
    };
    const nameOf = (head: number): number => Math.floor(head / NAME_UNIT);
    const deviceOf = (head: number): string | undefined => devices[digit(head, DEVICE_UNIT, NAME_UNIT) - 1];
    const readSpan = ([head, startMs, endMs]: Float64Array): void => {
      const kind = KINDS[digit(head, KIND_UNIT, QUEUED)], of = nameOf(head);
      const kernel = kind === "launch" ? kernels[of] : undefined;
      spans.push({
        kind,
        name: kernel?.name ?? texts[of],
        startMs,
        endMs,
        device: deviceOf(head),
        kernel,
        flows: kind === "run" || kind === "replay" ? arrows() : [],
        isQueued: digit(head, QUEUED, DEVICE_UNIT) === 1,
      });
    };
    const readCopy = ([head, startMs, scheduledMs, endMs]: Float64Array): void => {
      const arrow = [++flows], host = { device: undefined, kernel: undefined, isQueued: false };
      const name = texts[nameOf(head)], device = deviceOf(head);
      spans.push({ ...host, kind: "schedule", name: "schedule", startMs, endMs: scheduledMs, flows: arrow });
      spans.push({ ...host, kind: "copy", name, startMs: scheduledMs, endMs, device, flows: [] });
      spans.push({ ...host, kind: "run", name: "run", startMs: scheduledMs, endMs, flows: [...arrow, ...arrows()] });
    };
    const readFlow = (flow: number): void => {
      const span = spans[spans.length - 1];
      span.flows = [flow, ...span.flows];
    };
    /** By device, and by the number that its threads know them by. */
    const watchedLists = new Map<
      ThreadWatch,
      Map<number, readonly [kernels: readonly ProfiledKernel[], originMs: number]>
    >();
    const readLaunches = ([, which, watched, origin, startMs, endMs]: Float64Array, ends: Float32Array): void => {
      const own = lists[which % LISTS].map((k) => kernels[k]), replay = Math.floor(which / LISTS) - 1;
      const [{ device }] = own;
      own.forEach((kernel, i) => {
        const startMs = origin + (i === 0 ? 0 : ends[i - 1]), endMs = origin + ends[i];
        spans.push({ kind: "launch", name: kernel.name, startMs, endMs, device, kernel, flows: [], isQueued: false });
      });
      if (watched > 0) {
        const threads = this.watched.get(device)!, lists = watchedLists.get(threads) ?? new Map();
        watchedLists.set(threads, lists.set(watched, [own, origin]));
      }
      if (replay < 0) return;
      const about = { device: undefined, kernel: undefined, flows: arrows(), isQueued: false };
      spans.push({ kind: "replay", name: texts[replay], startMs, endMs, ...about });
    };
    const readMemory = (device: number, [, ms, bytes]: Float64Array): void => {
      const name = devices[device], of = samples.get(name);
      if (of === undefined) samples.set(name, [[ms, bytes]]);
      else of.push([ms, bytes]);
    };
    for (const piece of this.log.pieces()) {
      for (let at = 0, size = 0; at < piece.length; at += size) {
        const what = piece[at] % RECORDS, rest = Math.floor(piece[at] / RECORDS), record = piece.subarray(at);
        if (what === SPAN) {
          size = SPAN_SIZE;
          readSpan(record);
        } else if (what === MEMORY) {
          size = MEMORY_SIZE;
          readMemory(rest, record);
        } else if (what === FLOW) {
          size = 1;
          readFlow(rest);
        } else if (what === COPY) {
          size = COPY_SIZE;
          readCopy(record);
        } else {
          size = LAUNCHES_HEAD + (rest + 1 >> 1);
          readLaunches(record, new Float32Array(piece.buffer, piece.byteOffset + 8 * (at + LAUNCHES_HEAD), rest));
        }
      }
    }
    for (const [threads, lists] of watchedLists) {
      for (const [list, { launch, thread, core, beginMs, endMs, counts }] of threads.read()) {
        const at = lists.get(list);
        if (at === undefined) continue; // it ran while nobody listened to launches
        const [own, originMs] = at;
        parts.push({ kernel: own[launch], thread, core, startMs: originMs + beginMs, endMs: originMs + endMs, counts });
      }
    }
    return { startMs, endMs, spans, kernels: summed(kernels, spans, parts), samples, parts, uncounted, dropped };
  }
}

/** The digit of a number that begins at `unit` and ends before `next`. */
function digit(n: number, unit: number, next: number): number {
  return Math.floor(n % next / unit);
}

/** Kernels that ran, with what all their launches took. */
function summed(
  kernels: readonly ProfiledKernel[],
  spans: readonly ProfiledSpan[],
  parts: readonly ThreadPart[],
): ProfiledKernel[] {
  for (const { kernel, startMs, endMs } of spans) {
    if (kernel === undefined) continue;
    kernel.launches++;
    kernel.timeMs += endMs - startMs;
  }
  for (const { kernel, counts } of parts) if (counts !== undefined) kernel.counts = added(kernel.counts, counts);
  for (const k of kernels) {
    k.flops *= k.launches;
    k.bytes *= k.launches;
  }
  return kernels.filter((k) => k.launches > 0);
}

function added(a: ThreadCounts | undefined, b: ThreadCounts): ThreadCounts {
  const sum: Record<string, number> = { ...a };
  for (const [name, n] of Object.entries(b)) sum[name] = (sum[name] ?? 0) + n;
  return sum;
}
