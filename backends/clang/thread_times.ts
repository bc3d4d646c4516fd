/**
 * What each thread of the CLANG device did of each launch, while somebody watches: memory for the rows of numbers that the
 * runtime writes, and records made of them.
 *
 * @module
 */
import type { ThreadCounts, ThreadTime, ThreadTimes, ThreadWatch } from "../../src/device/program.ts";

/** What is counted, in the order of a row and of the runtime's bits, and what it is called. */
const COUNTED: readonly (readonly [keyof ThreadCounts, string])[] = [
  ["pageFaults", "page faults"],
  ["contextSwitches", "context switches"],
  ["cpuMs", "time on cores"],
  ["cycles", "cycles"],
  ["instructions", "instructions"],
  ["cacheMisses", "cache misses"],
];
/** Words of a row: launch and core in one, begin, end; of one with what is counted; and of a part before its rows. */
const WORDS = 3, COUNTED_WORDS = WORDS + COUNTED.length, HEAD = 16;
/** Cores, and launches of a memory, fewer than these: in the first word of a row launch and core + 1 are digits. */
const CORES = 2 ** 12, LAUNCHES = 2 ** 20;
/** Words of the memory that threads fill before the next one, at least. */
const ROOM = 1 << 18;

/** Memory for rows, a part for each thread. */
interface Memory {
  readonly rows: Uint32Array<ArrayBuffer>;
  /** Words of a part, and of a row. */
  readonly part: number;
  readonly words: number;
  /** Whether rows have what is counted. */
  readonly isCounted: boolean;
  readonly threads: number;
  /** The list of launches that was first written to it. */
  readonly first: number;
  /** The first launch of each list from that one on, counted from the first of the memory. */
  readonly starts: number[];
}

/** Who watches: the memory that was filled meanwhile, and from which list of launches on. */
class Watch implements ThreadWatch {
  readonly filled: Memory[] = [];
  private readonly first: number;

  constructor(private readonly owner: ThreadRows) {
    this.first = owner.list + 1;
  }
  get list(): number {
    return this.owner.list;
  }
  stop(): void {
    this.owner.end(this);
  }
  *read(): Generator<readonly [list: number, time: ThreadTime]> {
    this.owner.handOver();
    for (const memory of this.filled) for (const time of timesIn(memory)) if (time[0] >= this.first) yield time;
  }
}

/** What threads wrote, thread by thread: each with the list of launches that it is of. */
function* timesIn(
  { rows, part, words, threads, first, starts }: Memory,
): Generator<readonly [list: number, time: ThreadTime]> {
  const numbers = new Float32Array(rows.buffer);
  for (let thread = 0; thread < threads; thread++) {
    const begin = thread * part + HEAD, end = begin + rows[thread * part] * words;
    for (let at = begin, list = 0; at < end; at += words) {
      const core = rows[at] % CORES - 1, command = Math.floor(rows[at] / CORES);
      while (list + 1 < starts.length && starts[list + 1] <= command) list++; // rows of a thread are in order
      const known = COUNTED.map(([name], i) => [name, numbers[at + WORDS + i]] as const)
        .filter(([, n], i) => WORDS + i < words && n >= 0);
      yield [first + list, {
        launch: command - starts[list],
        thread,
        core,
        beginMs: numbers[at + 1],
        endMs: numbers[at + 2],
        counts: known.length > 0 ? Object.fromEntries(known) : undefined,
      }];
    }
  }
}

/**
 * The rows. Threads write them one behind the other, list of launches by list, each to a part of its own of one memory; when
 * that may not take those of the next list, threads go on in another one. What other threads wrote so stays in their caches
 * while the program runs, and nothing is copied: it is read when who watches asks.
 */
export class ThreadRows implements ThreadTimes {
  /** Lists of launches so far, of those that were watched. */
  list = 0;
  private memory: Memory | undefined;
  /** Launches since the memory is in use: no thread has more rows. */
  private used = 0;
  private counts = false;
  private readonly watches = new Set<Watch>();

  /**
   * @param uncounted what the system does not count
   * @param threads how many there are
   * @param populate readies new memory for writing
   */
  constructor(
    readonly uncounted: () => string | undefined,
    private readonly threads: () => number,
    private readonly populate: (rows: Uint32Array<ArrayBuffer>) => void,
  ) {}

  start(counts: boolean): ThreadWatch {
    if (counts && !this.counts) this.handOver(); // rows of one memory are alike
    this.counts ||= counts;
    const watch = new Watch(this);
    this.watches.add(watch);
    return watch;
  }
  /** Ends a watch, which has what was written until now. */
  end(watch: Watch): void {
    if (!this.watches.has(watch)) return;
    this.handOver();
    this.watches.delete(watch);
    if (this.watches.size === 0) this.counts = false;
  }

  /** Gives who watches what was written; what follows is written elsewhere. */
  handOver(): void {
    const { memory, watches } = this;
    if (memory !== undefined) { for (const watch of watches) watch.filled.push(memory); }
    this.memory = undefined;
    this.used = 0;
  }

  /** Where a list of so many launches is to be written; undefined while nobody watches, and for what is too long. */
  place(count: number): Memory | undefined {
    if (this.watches.size === 0) return undefined;
    this.list++;
    if (count >= LAUNCHES) return void this.handOver(); // lists of one memory follow each other
    const words = this.counts ? COUNTED_WORDS : WORDS;
    let { memory } = this;
    if (memory !== undefined && (HEAD + (this.used + count) * words > memory.part || this.used + count > LAUNCHES)) {
      this.handOver();
    }
    if ((memory = this.memory) === undefined) {
      const threads = this.threads(), part = 16 * Math.ceil(Math.max(ROOM / threads, HEAD + count * words) / 16);
      const rows = new Uint32Array(threads * part);
      this.populate(rows);
      memory = this.memory = { rows, part, words, isCounted: this.counts, threads, first: this.list, starts: [] };
    }
    memory.starts.push(this.used);
    this.used += count;
    return memory;
  }
  /** The number of the first launch of the list that is placed, in rows of this memory. */
  firstOf({ starts }: Memory): number {
    return starts[starts.length - 1];
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
