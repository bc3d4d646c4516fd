/**
 * How the scalar arguments of captured kernels follow from a call of the function. In: the name of an argument, and what it
 * was when it was captured; out: what gives it in each replay, or that it is a constant.
 *
 * @module
 */
import type { Call } from "../../engine/replay.ts";
import { RANDOM_VARIABLES, seedKey } from "../nodes/random.ts";

const WORD = 2 ** 32;

/** How scalar arguments follow from a call: random counters go on, variables take the value of the arguments. */
export function variableOf(
  counter: number,
  draws: number,
): (name: string, value: number, isGiven: boolean) => ((call: Call) => number) | undefined {
  return (name: string, value: number, isGiven: boolean): ((call: Call) => number) | undefined => {
    const end = name.lastIndexOf("_"), word = name.slice(0, end);
    if (end < 0) return undefined; // a constant of the graph
    switch (RANDOM_VARIABLES.indexOf(word)) {
      case 0: {
        const offset = (value - counter % WORD + WORD) % WORD;
        // a draw that was made before the call is the same in all
        return offset < draws ? (call) => (call.counter + offset) % WORD : undefined;
      }
      case 1:
        return (call) => Math.floor(call.counter / WORD);
      case 2:
      case 3: {
        const seeded = (): number => seedKey()[word === "rngKey0" ? 0 : 1].src[1].value;
        return seeded() === value ? seeded : undefined;
      }
    }
    // what is bound inside is a constant of the function
    return isGiven ? (call) => call.bound.get(word)! : undefined;
  };
}
