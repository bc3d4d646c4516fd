/** Races of programs whose times are made up: who wins, who drops out, and what is left out. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import type { Program } from "../../../src/device/program.ts";
import { median, race, type Timer } from "../../../src/engine/tuning/race.ts";

/** A machine on which program number i takes `ms[i]`, which `noise` multiplies, by round. */
class Machine implements Timer {
  firstMs = 0;
  runs = 0;
  readonly programs: readonly Program[];
  constructor(
    readonly ms: readonly number[],
    private readonly noise: (run: number) => number = () => 1,
    private readonly wrongs: Readonly<Record<number, string>> = {},
    private readonly fails: (index: number, run: number) => boolean = () => false,
  ) {
    this.programs = ms.map((_, i) => ({ number: i }) as unknown as Program);
  }
  time(p: Program): number {
    const i = this.programs.indexOf(p);
    if (this.fails(i, ++this.runs)) throw new Error(`program ${i} fails`);
    return this.ms[i] * this.noise(this.runs);
  }
  wrong(p: Program): string | undefined {
    this.firstMs = this.time(p);
    return this.wrongs[this.programs.indexOf(p)];
  }
}

const run = (m: Machine, options = {}) => race(m, m.programs, options);

Deno.test("race: the fastest is faster for certain, what is as fast is not, slow ones drop out", () => {
  const [first, fast, same, slow] = run(new Machine([1, 0.8, 0.99, 3]));
  assertEquals([first.ratio, first.isFaster], [1, false]);
  assertEquals([fast.isFaster, same.isFaster, slow.isFaster], [true, false, false]);
  assert(slow.rounds < 3 && fast.rounds === 15, `${slow.rounds} ${fast.rounds}`);
});

Deno.test("race: a machine that gets slower and slower favors nobody", () => {
  const [, fast, same] = run(new Machine([1, 0.9, 1], (n) => 1 + n / 20));
  assert(fast.isFaster && !same.isFaster, `${fast.ratio} ${same.ratio}`);
});

Deno.test("race: a gain that comes and goes is none", () => {
  // every fourth run of all takes a third of the time
  const m = new Machine([1, 1.02, 1.02], (n) => n % 4 === 0 ? 0.33 : 1);
  assertEquals(run(m).map((s) => s.isFaster), [false, false, false]);
});

Deno.test("race: what is wrong or fails is left out with the reason, the others go on", () => {
  const m = new Machine([1, 0.5, 0.5, 0.7], undefined, { 1: "element 3 is 4, not 5" }, (i) => i === 2);
  const [, wrong, failing, good] = run(m);
  assertEquals([wrong.problem, failing.problem, good.problem], ["element 3 is 4, not 5", "program 2 fails", undefined]);
  assertEquals([wrong.isFaster, failing.isFaster, good.isFaster], [false, false, true]);
});

Deno.test("race: where the first one fails too, the device is lost", () => {
  const m = new Machine([1, 0.5, 0.7], undefined, {}, (_, n) => n > 9);
  assertThrows(() => run(m), Error, "fails");
});

Deno.test("race: without time nothing runs but the first", () => {
  const m = new Machine([1, 0.5]);
  assertEquals(run(m, { until: performance.now() - 1 }).map((s) => [s.isFaster, s.rounds]), [[false, 0], [false, 0]]);
  assertEquals(m.runs, 1);
});

Deno.test("race: what takes hopelessly long runs once", () => {
  const started: number[] = [], m = new Machine([1, 50, 0.9]);
  const [, slow] = run(m, { onFirst: (i: number) => started.push(i) });
  assertEquals([slow.ratio, slow.rounds, started], [50, 1, [1, 2]]);
});

Deno.test("race: median", () => {
  assertEquals([median([3, 1, 2]), median([4, 1, 2, 3]), median([])], [2, 2.5, NaN]);
});
