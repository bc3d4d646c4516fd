/**
 * What each thread of the CLANG device did of each launch, while somebody watches: the rows of numbers that the runtime
 * writes, and records made of them.
 *
 * @module
 */
import type { ThreadTime, ThreadTimes } from "../../src/device/program.ts";

/** Numbers of a row: launch, thread, core, begin, end, page faults, cycles, instructions, cache misses. */
const WORDS = 9;
/** Rows that are kept of one list of launches. */
const ROWS = 1 << 14;

/** The rows. */
export class ThreadRows implements ThreadTimes {
  /** Where the runtime writes; undefined while nobody watches. */
  rows: Float64Array<ArrayBuffer> | undefined;
  private counts = false;
  private written = 0;
  private watchers = 0;

  /** @param uncounted what the system does not count */
  constructor(readonly uncounted: () => string | undefined) {}

  start(counts: boolean): void {
    this.watchers++;
    this.rows ??= new Float64Array(ROWS * WORDS);
    this.counts ||= counts;
  }
  stop(): void {
    if (--this.watchers > 0) return;
    this.rows = undefined;
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
    const rows = this.written === 0 ? undefined : this.rows?.subarray(0, this.written * WORDS);
    this.written = 0;
    return rows;
  }
  read(rows: Float64Array): ThreadTime[] {
    const out: ThreadTime[] = [];
    for (let at = 0; at < rows.length; at += WORDS) {
      const [launch, thread, core, beginMs, endMs, ...counts] = rows.subarray(at, at + WORDS);
      const [pageFaults, cycles, instructions, cacheMisses] = counts;
      const known = Object.entries({ cycles, instructions, cacheMisses, pageFaults }).filter(([, n]) => n >= 0);
      const isCounted = known.length > 0;
      out.push({ launch, thread, core, beginMs, endMs, counts: isCounted ? Object.fromEntries(known) : undefined });
    }
    return out;
  }
}
