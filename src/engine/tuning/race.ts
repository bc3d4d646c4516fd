/**
 * Which of several programs of one kernel is the fastest, on a machine that others use too: all that are left run once in
 * each round, in an order of its own, and count by their time over that of the first one in the same round. Those that
 * cannot win any more drop out.
 *
 * @module
 */
import type { Program } from "../../device/program.ts";
import { mix } from "../../helpers/hash.ts";
import type { Trial } from "./trial.ts";

/** After so many rounds those drop out whose best ratio is so many times the best one. */
const DROPS: readonly (readonly [rounds: number, ratio: number])[] = [[1, 2.5], [3, 1.3], [7, 1.12], [11, 1.05]];
/** What takes so many times as long when it first runs, and a bit, never runs again. */
const HOPELESS = 4, BIT_MS = 0.1;
/** Rounds of a race, and those that are run to the end with the few that are left. */
const ROUNDS = 15;
/** A winner takes at most this share of the first one's time, in at least so many of all rounds: so little is no chance. */
const GAIN = 0.97, CERTAIN = 0.8;

/** What runs programs: a Trial. */
export type Timer = Pick<Trial, "time" | "wrong" | "firstMs">;

/** How a program did. */
export interface Standing {
  /** Median of its time over that of the first one in the same round; NaN where it did not run. */
  readonly ratio: number;
  /** Median of its times, and the least of them. */
  readonly ms: number;
  readonly leastMs: number;
  readonly rounds: number;
  /** Whether it is faster for certain. */
  readonly isFaster: boolean;
  /** Why it is left out: it is wrong, or fails. */
  readonly problem?: string;
}

/** The middle one of several numbers; NaN of none. */
export function median(values: readonly number[]): number {
  if (values.length === 0) return NaN;
  const sorted = values.toSorted((a, b) => a - b), mid = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[mid] : (sorted[mid - 1] + sorted[mid]) / 2;
}

/** What a race may take. */
export interface RaceOptions {
  /** When it must end, as `performance.now()` has it. */
  readonly until?: number;
  readonly rounds?: number;
  /** Is told before a program runs for the first time, by position; what it throws ends the race. */
  readonly onFirst?: (index: number) => void;
}

/** An error that is not of the program which ran but of the device: nothing runs on it any more. */
function isFatal(trial: Timer, reference: Program): boolean {
  try {
    trial.time(reference);
    return false;
  } catch {
    return true;
  }
}

/**
 * Runs `programs` against the first one, which is right by definition. Gives how each did, by position.
 * @throws what the device throws where after a failure the first one fails too: the device is lost
 */
export function race(trial: Timer, programs: readonly Program[], options: RaceOptions = {}): Standing[] {
  const { until = Infinity, rounds = ROUNDS } = options, [reference] = programs;
  const times = programs.map((): number[] => []), ratios = programs.map((): number[] => []);
  const problems = new Map<number, string>();
  const guarded = (i: number, run: () => void): void => {
    try {
      run();
    } catch (error) {
      if (i === 0 || isFatal(trial, reference)) throw error;
      problems.set(i, (error as Error).message);
    }
  };
  const expected = trial.time(reference);
  let live = [...programs.keys()].filter((i) => {
    if (performance.now() >= until) return i === 0;
    let isHopeless = false;
    if (i > 0) {
      guarded(i, () => {
        options.onFirst?.(i);
        const wrong = trial.wrong(programs[i]), { firstMs } = trial;
        isHopeless = firstMs > HOPELESS * expected + BIT_MS;
        if (wrong !== undefined) problems.set(i, wrong);
        else if (isHopeless) {
          times[i].push(firstMs);
          ratios[i].push(firstMs / expected);
        } else trial.time(programs[i]);
      });
    }
    return !isHopeless && !problems.has(i);
  });
  for (let round = 1; round <= rounds && live.length > 1 && performance.now() < until; round++) {
    const order = live.filter((i) => i > 0).sort((a, b) => mix(round, a) - mix(round, b)),
      now = new Map<number, number>();
    guarded(0, () => now.set(0, trial.time(reference)));
    for (const i of order) guarded(i, () => now.set(i, trial.time(programs[i])));
    // what ran first and last tells how the machine changed meanwhile
    const base = order.length > 4 ? (now.get(0)! + trial.time(reference)) / 2 : now.get(0)!;
    for (const [i, ms] of now) {
      times[i].push(ms);
      ratios[i].push(ms / base);
    }
    const limit = DROPS.find(([n]) => n === round)?.[1] ?? Infinity;
    const best = Math.min(...live.map((i) => Math.min(...ratios[i])));
    live = live.filter((i) => i === 0 || (!problems.has(i) && Math.min(...ratios[i]) <= limit * best));
  }
  return programs.map((_, i): Standing => {
    const ratio = i === 0 ? 1 : median(ratios[i]), wins = ratios[i].filter((x) => x < 1).length;
    const isWhole = ratios[i].length >= Math.min(rounds, ROUNDS);
    const isFaster = i > 0 && !problems.has(i) && isWhole && ratio < GAIN && wins >= CERTAIN * ratios[i].length;
    const problem = problems.get(i);
    return {
      ratio,
      ms: i === 0 && times[0].length === 0 ? expected : median(times[i]),
      leastMs: Math.min(...times[i], ...(i === 0 ? [expected] : [])),
      rounds: ratios[i].length,
      isFaster,
      ...(problem === undefined ? {} : { problem }),
    };
  });
}
