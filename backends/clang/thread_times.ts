/**
 * What each thread of the CLANG device did of each launch, while somebody watches: the rows of numbers that the runtime
 * writes, and records made of them.
 *
 * @module
 */
import type { ThreadCounts, ThreadTime, ThreadTimes } from "../../src/device/program.ts";

/** What is counted, in the order of a row and of the runtime's bits, and what it is called. */
const COUNTED: readonly (readonly [keyof ThreadCounts, string])[] = [
  ["pageFaults", "page faults"],
  ["contextSwitches", "context switches"],
  ["cpuMs", "time on cores"],
  ["cycles", "cycles"],
  ["instructions", "instructions"],
  ["cacheMisses", "cache misses"],
];
/** Numbers of a row: launch, thread and core in one, begin, end; and of one with what is counted, whose first is below 0. */
const WORDS = 3, COUNTED_WORDS = WORDS + COUNTED.length;
/** Threads, and cores, fewer than these: in the first number of a row launch, thread and core + 1 are digits. */
const BASE = 4096;
/** Numbers that are kept of one list of launches. */
const ROOM = 1 << 17;

/** The rows. */
export class ThreadRows implements ThreadTimes {
  /** Where the runtime writes; undefined while nobody watches. */
  rows: Float64Array<ArrayBuffer> | undefined;
  private counts = false;
  private written = 0;
  private watchers = 0;
  /** What was taken last: a step that runs again fills as many rows. */
  private taken: Float64Array<ArrayBuffer> | undefined;

  /** @param uncounted what the system does not count */
  constructor(readonly uncounted: () => string | undefined) {}

  start(counts: boolean): void {
    this.watchers++;
    this.rows ??= new Float64Array(ROOM);
    this.counts ||= counts;
  }
  stop(): void {
    if (--this.watchers > 0) return;
    this.rows = this.taken = undefined;
    this.counts = false;
    this.written = 0;
  }

  /** Numbers that there is room for, as the runtime takes it: negative where counters are read. */
  get limit(): number {
    return this.counts ? -ROOM : ROOM;
  }
  /** Notes that a list of launches has written so many numbers. */
  note(length: number): void {
    this.written = length;
  }

  take(): Float64Array<ArrayBuffer> | undefined {
    const { written } = this; // of the list that ran last: each who watches takes it
    if (written === 0) return undefined;
    if (this.taken?.length !== written) this.taken = this.rows?.subarray(0, written);
    return this.taken;
  }
  read(rows: Float64Array): ThreadTime[] {
    const out: ThreadTime[] = [];
    for (let at = 0, end = 0; at < rows.length; at = end) {
      end = at + (rows[at] < 0 ? COUNTED_WORDS : WORDS);
      const [first, beginMs, endMs, ...counts] = rows.subarray(at, end), id = first < 0 ? -1 - first : first;
      const core = id % BASE - 1, thread = Math.floor(id / BASE) % BASE, launch = Math.floor(id / BASE ** 2);
      const known = COUNTED.map(([name], i) => [name, counts[i]] as const).filter(([, n]) => n >= 0);
      const isCounted = known.length > 0;
      out.push({ launch, thread, core, beginMs, endMs, counts: isCounted ? Object.fromEntries(known) : undefined });
    }
    return out;
  }
}

/** Why the system refuses counters of the processor, by what it says: what can be done, or what it means. */
const REASONS: readonly (readonly [RegExp, string])[] = [
  [/no such file|not supported/i, "it shows no counters of the processor, as most virtual machines do not"],
  [/permission denied/i, "/proc/sys/kernel/perf_event_paranoid of 2 or less allows it"],
  [/not permitted|not implemented/i, "a container may have to be given perf_event_open"],
];

/**
 * What a system does not count, and why.
 *
 * @param found what it counts, a bit each
 * @param why its own words for the first that it does not
 */
export function uncountedText(found: number, why: string): string | undefined {
  const missing = COUNTED.filter((_, i) => (found & 1 << i) === 0).map(([, name]) => name);
  if (missing.length === 0) return undefined;
  const meaning = REASONS.find(([pattern]) => pattern.test(why))?.[1];
  return `this system does not count ${missing.join(", ").replace(/, (?=[^,]*$)/, " and ")}: ${why}${
    meaning === undefined ? "" : `; ${meaning}`
  }`;
}
