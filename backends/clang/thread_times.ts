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
/** Numbers of a row: launch, thread, core, begin, end, and what is counted. */
const WORDS = 5 + COUNTED.length;
/** Rows that are kept of one list of launches. */
const ROWS = 1 << 14;

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
    this.rows ??= new Float64Array(ROWS * WORDS);
    this.counts ||= counts;
  }
  stop(): void {
    if (--this.watchers > 0) return;
    this.rows = this.taken = undefined;
    this.counts = false;
    this.written = 0;
  }

  /** Rows that there is room for, as the runtime takes it: negative where counters are read. */
  get limit(): number {
    return this.counts ? -ROWS : ROWS;
  }
  /** Notes that a list of launches has filled so many rows. */
  note(rows: number): void {
    this.written = Math.min(rows, ROWS);
  }

  take(): Float64Array<ArrayBuffer> | undefined {
    const length = this.written * WORDS; // of the list that ran last: each who watches takes it
    if (length === 0) return undefined;
    if (this.taken?.length !== length) this.taken = this.rows?.subarray(0, length);
    return this.taken;
  }
  read(rows: Float64Array): ThreadTime[] {
    const out: ThreadTime[] = [];
    for (let at = 0; at < rows.length; at += WORDS) {
      const [launch, thread, core, beginMs, endMs, ...counts] = rows.subarray(at, at + WORDS);
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
