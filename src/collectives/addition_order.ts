/** In which order elements of several devices of one process are added up: what RING and ALL2ALL choose. @module */
import { envNumber } from "../helpers/env.ts";
import { ceilDiv, rangeOf } from "../helpers/math.ts";

/** Elements up to which each rank reduces all of it. */
const FEW = 256_000;

/** Elements that are reduced from rank `first` on. */
export interface Segment {
  readonly start: number;
  readonly stop: number;
  readonly first: number;
}

/**
 * The segments of `n` elements of `ranks` ranks: one that each rank reduces by itself; or one for each rank, which that rank
 * reduces for all, in the order of ranks (ALL2ALL) or in that of a ring, where it is the last (RING).
 */
export function segmentsOf(n: number, ranks: number): readonly Segment[] {
  const ring = envNumber("RING"), all = envNumber("ALL2ALL"), size = ceilDiv(n, ranks);
  const isExchange = all >= 2 || (all === 1 && n > FEW);
  const isRing = !isExchange && (ring >= 2 || (ring === 1 && ranks > 2 && n > FEW));
  if (!isExchange && !isRing) return [{ start: 0, stop: n, first: 0 }];
  return rangeOf(ranks).map((rank) => ({
    start: Math.min(n, rank * size),
    stop: Math.min(n, (rank + 1) * size),
    first: isRing ? (rank + 1) % ranks : 0,
  }));
}
