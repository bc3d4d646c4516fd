/** Random numbers for tests: the same for each seed. @module */

/** A seeded generator (mulberry32). */
export class Random {
  constructor(private state: number) {}
  /** A number in [0, 1), a multiple of 2^-32. */
  next(): number {
    let t = this.state = (this.state + 0x6d2b79f5) | 0;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }
  /** An integer in [lo, hi]. */
  int(lo: number, hi: number): number {
    return lo + this.below(hi - lo + 1);
  }
  /** An integer in [0, n). */
  below(n: number): number {
    return Math.floor(this.next() * n);
  }
  /** One of a list. */
  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)];
  }
}
