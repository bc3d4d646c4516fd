/** Rows of threads as records, and what is said of counters that a system does not give. */
import { assertEquals } from "@std/assert";
import { ThreadRows, uncountedText } from "../../../backends/clang/thread_times.ts";

Deno.test("thread rows: numbers become records, what is not counted is left out", () => {
  const rows = new ThreadRows(() => undefined);
  rows.start(true);
  // launch, thread, core + 1 are digits to the base 4096; numbers below 0, less 1, are of rows with counters
  rows.rows!.set([-1 - 4, 0.5, 1.5, 2, 1, 0.75, -1, -1, -1, (1 * 4096 + 4) * 4096, 2, 3]);
  assertEquals([rows.limit < 0, rows.take()], [true, undefined]);
  rows.note(12);
  assertEquals(rows.read(rows.take()!), [
    {
      launch: 0,
      thread: 0,
      core: 3,
      beginMs: 0.5,
      endMs: 1.5,
      counts: { pageFaults: 2, contextSwitches: 1, cpuMs: 0.75 },
    },
    { launch: 1, thread: 4, core: -1, beginMs: 2, endMs: 3, counts: undefined },
  ]);
  rows.start(false);
  assertEquals(rows.take()!.length, 12, "each who watches takes it");
  rows.stop();
  rows.stop();
  assertEquals(rows.take(), undefined);
  assertEquals(rows.rows, undefined);
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
