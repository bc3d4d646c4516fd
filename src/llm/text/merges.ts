/**
 * Merging neighbors: what byte pair encoding and SentencePiece's BPE have in common. Of all pairs the one that comes first
 * is merged, the leftmost of several, until no pair is left. A heap of pairs makes it n log n.
 *
 * @module
 */
import { Heap } from "./heap.ts";

/** A pair that may be merged: where it begins, its rank, and what its halves were. */
interface Pair {
  readonly at: number;
  readonly next: number;
  readonly rank: number;
  readonly length: number;
}

function before(a: Pair, b: Pair): boolean {
  return a.rank < b.rank || a.rank === b.rank && a.at < b.at;
}

/**
 * The symbols that are left of `symbols` when all pairs are merged. `rank` says which pairs there are, and which of them
 * comes first: the smallest.
 */
export function mergePairs(symbols: string[], rank: (left: string, right: string) => number | undefined): string[] {
  const n = symbols.length, texts = [...symbols], heap = new Heap(before);
  const next = Int32Array.from(symbols, (_, i) => i + 1 < n ? i + 1 : -1),
    previous = Int32Array.from(symbols, (_, i) => i - 1);
  const consider = (at: number): void => {
    const after = at < 0 ? -1 : next[at];
    if (after < 0) return;
    const r = rank(texts[at], texts[after]);
    if (r !== undefined) heap.push({ at, next: after, rank: r, length: texts[at].length + texts[after].length });
  };
  for (let i = 0; i + 1 < n; i++) consider(i);
  for (let p = heap.pop(); p !== undefined; p = heap.pop()) {
    const { at, next: after } = p;
    // one of the halves may have been merged meanwhile
    if (texts[at] === "" || next[at] !== after || texts[at].length + texts[after].length !== p.length) continue;
    texts[at] += texts[after];
    texts[after] = "";
    next[at] = next[after];
    if (next[at] >= 0) previous[next[at]] = at;
    consider(previous[at]);
    consider(at);
  }
  return texts.filter((t) => t !== "");
}
