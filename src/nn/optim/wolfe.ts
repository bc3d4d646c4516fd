/**
 * A search along a line for a step that lowers a function enough and leaves little slope: the strong conditions of Wolfe
 * (Nocedal and Wright, Numerical Optimization, algorithms 3.5 and 3.6, with cubic interpolation, 3.59). In: a function of
 * the step with its slope. Out: the point found.
 *
 * @module
 */

/** A step, the function there, and its slope along the line. */
export interface Point {
  /** The step. */
  readonly t: number;
  /** The value. */
  readonly f: number;
  /** Its derivative by the step. */
  readonly slope: number;
}

/** How much of what the slope promises must come, and how much slope may be left. */
const LEAST_DESCENT = 1e-4, MOST_SLOPE = 0.9;
/** Points that are looked at. */
const MOST_POINTS = 25;

/** Where the cubic through two points with their slopes is least between `low` and `high`; the middle where it has no least. */
function cubicLeast(a: Point, b: Point, low: number, high: number): number {
  const [p, q] = a.t <= b.t ? [a, b] : [b, a];
  const d1 = p.slope + q.slope - 3 * (p.f - q.f) / (p.t - q.t), square = d1 * d1 - p.slope * q.slope;
  if (!(square >= 0)) return (low + high) / 2;
  const d2 = Math.sqrt(square), t = q.t - (q.t - p.t) * ((q.slope + d2 - d1) / (q.slope - p.slope + 2 * d2));
  return Number.isNaN(t) ? (low + high) / 2 : Math.min(Math.max(t, low), high);
}

/**
 * From `start`, at step 0, a point on the line that has both conditions, or the lowest that was found. `first` is the step
 * that is tried first; an interval shorter than `least` is not divided. What is no number counts as too high.
 */
export async function strongWolfe<P extends Point>(
  at: (t: number) => Promise<P>,
  start: P,
  first: number,
  least: number,
): Promise<P> {
  const isHigh = (p: Point): boolean => !(p.f <= start.f + LEAST_DESCENT * p.t * start.slope);
  const isFlat = (p: Point): boolean => Math.abs(p.slope) <= -MOST_SLOPE * start.slope;
  let before = start, t = first, points = 0, low: P | undefined, high: P | undefined;
  // further out, until a least value lies between
  while (points < MOST_POINTS) {
    const p = await at(t);
    points++;
    if (isHigh(p) || (points > 1 && p.f >= before.f)) {
      [low, high] = [before, p];
      break;
    }
    if (isFlat(p)) return p;
    if (p.slope >= 0) {
      [low, high] = [p, before];
      break;
    }
    t = cubicLeast(before, p, p.t + 0.01 * (p.t - before.t), 10 * p.t);
    before = p;
  }
  if (low === undefined || high === undefined) return before;
  while (points < MOST_POINTS && Math.abs(high.t - low.t) > least) {
    const [left, right] = [Math.min(low.t, high.t), Math.max(low.t, high.t)], margin = 0.1 * (right - left);
    const isUsable = Number.isFinite(high.f) && Number.isFinite(high.slope);
    const p = await at(isUsable ? cubicLeast(low, high, left + margin, right - margin) : (left + right) / 2);
    points++;
    if (isHigh(p) || p.f >= low.f) high = p;
    else {
      if (isFlat(p)) return p;
      if (p.slope * (high.t - low.t) >= 0) high = low;
      low = p;
    }
  }
  return low;
}
