/**
 * A binary heap. @module
 */

/** What comes first by `before` is on top. */
export class Heap<T> {
  private readonly items: T[] = [];
  /** Empty. */
  constructor(private readonly before: (a: T, b: T) => boolean) {}

  /** Adds one. */
  push(p: T): void {
    const { items } = this;
    let i = items.length;
    items.push(p);
    while (i > 0) {
      const up = (i - 1) >> 1;
      if (!this.before(p, items[up])) break;
      items[i] = items[up];
      i = up;
    }
    items[i] = p;
  }
  /** Takes the first away; undefined where there is none. */
  pop(): T | undefined {
    const { items } = this, top = items[0], last = items.pop();
    if (last === undefined || items.length === 0) return top;
    let i = 0;
    for (;;) {
      let down = 2 * i + 1;
      if (down >= items.length) break;
      if (down + 1 < items.length && this.before(items[down + 1], items[down])) down++;
      if (!this.before(items[down], last)) break;
      items[i] = items[down];
      i = down;
    }
    items[i] = last;
    return top;
  }
}
