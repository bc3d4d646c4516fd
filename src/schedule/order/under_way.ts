/**
 * Which collectives are under way while other steps run, and where each is waited for. In: steps with what they touch. Out:
 * by step, the collectives that must have ended before it. A function of the steps alone, so that it is the same on all
 * ranks.
 *
 * @module
 */

/** Bytes that collectives under way may hold together; the oldest is waited for when there are more. Two buckets. */
const MOST_UNDER_WAY = 50e6;

/** What there is to know of steps. */
export interface Timeline {
  /** How many steps there are. */
  readonly count: number;
  /** Bytes that step `i` moves beside others; undefined where nothing else may run before it has ended. */
  movedBytes(i: number): number | undefined;
  /** Whether step `i` writes what collective `c`, an earlier step, reads or writes, or reads what that writes. */
  conflicts(i: number, c: number): boolean;
}

/** By step, the collectives that are waited for before it, the oldest first; those of the last entry at the end. */
export function waitsOf({ count, movedBytes, conflicts }: Timeline): readonly (readonly number[])[] {
  const NONE: readonly number[] = [], out: (readonly number[])[] = [];
  let underWay: number[] = [], bytes = 0;
  for (let i = 0; i < count; i++) {
    const own = movedBytes(i);
    if (underWay.length === 0) out.push(NONE);
    else {
      let over = own === undefined ? 0 : bytes + own - MOST_UNDER_WAY;
      const ended = underWay.filter((c) => {
        const isNeeded = over > 0 || conflicts(i, c);
        if (isNeeded) over -= movedBytes(c)!;
        return isNeeded;
      });
      out.push(ended.length === 0 ? NONE : ended);
      if (ended.length > 0) {
        underWay = underWay.filter((c) => !ended.includes(c));
        bytes = underWay.reduce((n, c) => n + movedBytes(c)!, 0);
      }
    }
    if (own === undefined) continue;
    underWay.push(i);
    bytes += own;
  }
  out.push(underWay);
  return out;
}

/** By collective of {@linkcode waitsOf}, the last step that runs beside it. */
export function lastBeside(waits: readonly (readonly number[])[]): ReadonlyMap<number, number> {
  const out = new Map<number, number>();
  waits.forEach((ended, i) => {
    for (const c of ended) if (i - 1 > c) out.set(c, i - 1);
  });
  return out;
}
