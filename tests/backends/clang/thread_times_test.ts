/** Rows of threads as records, and what is said of counters that a system does not give. */
import { assert, assertEquals } from "@std/assert";
import type { ThreadTime } from "../../../src/device/program.ts";
import { groupBy } from "../../../src/helpers/math.ts";
import { ThreadRows, uncountedText } from "../../../backends/clang/thread_times.ts";

/** Words of a part before its rows. */
const HEAD = 16;

/** Rows of so many threads, in memory that comes page by page. */
function rowsOf(threads: number): ThreadRows {
  return new ThreadRows(() => undefined, () => threads, () => {});
}

/** Writes the row of a launch, as the runtime does: launch, counted from the first of the memory, and core + 1 are digits to the base 4096. */
function write(at: NonNullable<ReturnType<ThreadRows["place"]>>, thread: number, launch: number, row: number[]): void {
  const { rows, part, words } = at, [core, ...times] = row, begin = thread * part;
  const to = begin + HEAD + words * rows[begin]++;
  rows[to] = launch * 4096 + core + 1;
  new Float32Array(rows.buffer).set(times.slice(0, words - 1), to + 1);
}

/** What was read, by list. */
function read(watch: ReturnType<ThreadRows["start"]>): Map<number, ThreadTime[]> {
  return new Map(
    [...groupBy([...watch.read()], ([list]) => list)].map(([list, of]) => [list, of.map(([, time]) => time)]),
  );
}

Deno.test("thread rows: numbers become records of their lists, what is not counted is left out", () => {
  const rows = rowsOf(5);
  assertEquals([rows.place(1), rows.list], [undefined, 0], "nobody watches");
  const counted = rows.start(true), one = rows.place(2)!;
  assertEquals([one.isCounted, one.threads, rows.firstOf(one), counted.list], [true, 5, 0, 1]);
  write(one, 0, 0, [3, 0.5, 1.5, 2, 1, 0.75, -1, -1, -1]);
  write(one, 4, 1, [-1, 2, 3, -1, -1, -1, -1, -1, -1]);
  const plain = rows.start(false), two = rows.place(1)!;
  assertEquals([two === one, rows.firstOf(two), plain.list], [true, 2, 2]);
  write(two, 0, rows.firstOf(two), [1, 0, 1, 5, 0, 1, 7, 8, 9]);
  const first = [
    {
      launch: 0,
      thread: 0,
      core: 3,
      beginMs: 0.5,
      endMs: 1.5,
      counts: { pageFaults: 2, contextSwitches: 1, cpuMs: 0.75 },
    },
    { launch: 1, thread: 4, core: -1, beginMs: 2, endMs: 3, counts: undefined },
  ];
  const counts = { pageFaults: 5, contextSwitches: 0, cpuMs: 1, cycles: 7, instructions: 8, cacheMisses: 9 };
  const second = [{ launch: 0, thread: 0, core: 1, beginMs: 0, endMs: 1, counts }];
  assertEquals([...read(counted)], [[1, first], [2, second]]);
  assertEquals([...read(plain)], [[2, second]], "each has what ran since it began");
  counted.stop();
  counted.stop();
  const three = rows.place(1)!;
  assert(three !== two, "what was read is written no more");
  write(three, 1, rows.firstOf(three), [0, 0, 2, -1, -1, -1, -1, -1, -1]);
  plain.stop();
  assertEquals([rows.place(1), [...read(counted).keys()], [...read(plain).keys()]], [undefined, [1, 2], [2, 3]]);
  assertEquals(rows.start(false) && rows.place(1)!.isCounted, false, "who counted has ended");
});

Deno.test("thread rows: threads go on in another memory where the next list may not fit, and in a larger one for a long list", () => {
  const rows = rowsOf(16), watch = rows.start(false), memories = new Set();
  const each = Math.floor((2 ** 18 / 16 - HEAD) / 3), lists = 3 * Math.floor(each / 40);
  for (let i = 0; i < lists; i++) {
    const place = rows.place(40)!, first = rows.firstOf(place);
    memories.add(place);
    for (let k = 0; k < 40; k++) for (const t of [0, 15]) write(place, t, first + k, [t, k, k + 0.5]);
    for (const t of [0, 15]) assert(HEAD + 3 * place.rows[t * place.part] <= place.part);
  }
  const long = rows.place(100_000)!;
  memories.add(long);
  assert(long.part >= 300_000);
  write(long, 7, rows.firstOf(long) + 99_999, [2, 1, 2]);
  assertEquals([memories.size, rows.place(2 ** 20)], [4, undefined]);
  const all = read(watch);
  assertEquals([all.size, [...all.keys()].slice(0, 3)], [lists + 1, [1, 2, 3]]);
  for (let list = 1; list <= lists; list++) {
    assertEquals(
      all.get(list)!.map((t) => [t.launch, t.thread, t.core]),
      [0, 15].flatMap((t) => Array.from({ length: 40 }, (_, k) => [k, t, t])),
    );
  }
  assertEquals(all.get(lists + 1)!.map((t) => [t.launch, t.thread, t.core]), [[99_999, 7, 2]]);
});

const REFUSALS: readonly (readonly [found: number, why: string, said: string | undefined])[] = [
  [0b111111, "", undefined],
  [
    0b000111,
    "No such file or directory",
    "this system does not count cycles, instructions and cache misses: No such file or directory; " +
    "it shows no counters of the processor, as most virtual machines do not",
  ],
  [
    0b000111,
    "Permission denied",
    "this system does not count cycles, instructions and cache misses: Permission denied; " +
    "/proc/sys/kernel/perf_event_paranoid of 2 or less allows it",
  ],
  [
    0b011111,
    "Operation not permitted",
    "this system does not count cache misses: Operation not permitted; " +
    "a container may have to be given perf_event_open",
  ],
  [
    0b000100,
    "this system has no perf_event_open",
    "this system does not count page faults, context switches, cycles, instructions and cache misses: " +
    "this system has no perf_event_open",
  ],
];
for (const [found, why, said] of REFUSALS) {
  Deno.test(`thread rows: counters ${found.toString(2)}, ${why || "all there"}`, () => {
    assertEquals(uncountedText(found, why), said);
  });
}
