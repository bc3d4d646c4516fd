/**
 * How threads that share a reduction hand partial results to each other through shared memory: in one hop, or in two where
 * one thread would read too many. The lowering takes them (lower/group_reduce.ts), and the model counts what they take.
 *
 * @module
 */

/**
 * Partial results that one thread reads from shared memory, at most, in one hop: of all copies together where lanes cannot
 * exchange and two hops are to come, else of each.
 */
const HOP = 32;

/** How many partial results of each copy a thread reads in the hop that starts with `left` of them. */
export function hopOf(left: number, copies: number): number {
  return left * copies <= HOP ? left : 2 ** Math.ceil(Math.log2(left) / 2);
}

/**
 * Places in shared memory for each copy of what `threads` reduce together, in all hops. `lanes` of them have exchanged
 * their values before: then one of each has a partial result.
 */
export function hopPlaces(threads: number, lanes: number, copies: number): number {
  let left = threads / Math.min(threads, lanes), places = 0;
  for (let first = true; left > 1; first = false) {
    places += left;
    left /= hopOf(left, lanes > 1 || !first ? 1 : copies);
  }
  return places;
}
