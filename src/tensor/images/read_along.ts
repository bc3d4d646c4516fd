/**
 * Elements of an axis at places that grow with where they are wanted, as resizing reads them: place j is at
 * floor((factor j + offset) / divisor). What is read together lies together, so that the gradient of an element is a sum over
 * the few places that may have read it, and not over all.
 *
 * @module
 */
import { prod } from "../../helpers/math.ts";
import { ReduceArg } from "../../uop/core/args.ts";
import { broadcastTo, reshape } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { constant, iota, positionDType, type UOp, uop } from "../../uop/core/uop.ts";
import { GradientArg, withGradient } from "../../uop/graph/given_gradient.ts";

/** Where `out` places read an axis of `n` elements. */
export interface Places {
  readonly n: number;
  readonly out: number;
  /** All are integers; the numerator is at least 0, whatever `offset` is. */
  readonly factor: number;
  readonly offset: number;
  readonly divisor: number;
  /** The element behind, of which the last one is its own. */
  readonly next?: boolean;
}

/** 0, 1, ... out - 1, in a dtype that holds all that is computed of them. */
export function placesOf({ n, out }: Places): UOp {
  return iota(out).cast(positionDType(2 * out * n + 2 * out));
}

/** What is divided for places `j`. */
export function numeratorOf({ factor, offset }: Places, j: UOp): UOp {
  return j.mul(factor).add(offset).max(0);
}

/** The elements that places `j` read. */
function elementOf(p: Places, j: UOp): UOp {
  const low = numeratorOf(p, j).floorDiv(p.divisor), high = low.add(1);
  return p.next === true ? high.lt(p.n).where(high, low) : low;
}

/** As many places as read one element, at most. */
function mostReaders({ n, out, factor, offset, divisor, next }: Places): number {
  let most = 0, run = 0, last = -1;
  for (let j = 0; j < out; j++) {
    const low = Math.floor(Math.max(0, factor * j + offset) / divisor),
      at = next === true ? Math.min(low + 1, n - 1) : low;
    run = at === last ? run + 1 : 1;
    last = at;
    most = Math.max(most, run);
  }
  return most;
}

/**
 * Elements `index` (of any shape, which stands in place of the axis) of one axis of `x`: a comparison and a sum, which the
 * scheduler folds to a load.
 */
function takeAlong(x: UOp, axis: number, index: UOp): UOp {
  const shape = shapeOf(x),
    to = shapeOf(index),
    count = prod(to),
    [lead, tail] = [shape.slice(0, axis), shape.slice(axis)];
  const full = [...lead, count, ...tail], along = (a: number, n: number) => full.map((_, i) => i === a ? n : 1);
  const values = broadcastTo(reshape(x, [...lead, 1, ...tail]), full);
  const place = broadcastTo(reshape(iota(shape[axis]), along(axis + 1, shape[axis])), full);
  const wanted = broadcastTo(reshape(index.cast(place.dtype), along(axis, count)), full);
  const chosen = place.eq(wanted).where(values, constant(0, x.dtype));
  const sum = uop(Ops.REDUCE, x.dtype, [chosen], new ReduceArg(Ops.ADD, [axis + 1]));
  return reshape(sum, [...lead, ...to, ...tail.slice(1)]);
}

/** The gradient of what is read along `axis`: for each element the places from the first one on that may have read it. */
function toReaders(axis: number, p: Places): GradientArg {
  const { n, out, factor, offset, divisor, next } = p, most = mostReaders(p);
  return new GradientArg((g) => {
    const element = iota(n).cast(placesOf(p).dtype), low = next === true ? element.add(-1) : element;
    // the first place j of which factor j + offset is at least divisor low, or the very first
    const first = factor === 0 ? low.mul(0) : low.mul(divisor).add(factor - 1 - offset).floorDiv(factor).max(0);
    const start = low.lt(1).where(constant(0, low.dtype), first), all = [n, most];
    const wide = (u: UOp, axis: number): UOp => broadcastTo(reshape(u, axis === 0 ? [n, 1] : [1, most]), all);
    const j = wide(start, 0).add(wide(iota(most).cast(low.dtype), 1));
    const reads = elementOf(p, j).eq(wide(element, 0)).and(j.lt(out)), shape = shapeOf(g);
    const read = takeAlong(g, axis, j), one = shape.flatMap((_, i) => i === axis ? all : [1]);
    const own = broadcastTo(reshape(reads, one), shapeOf(read)).where(read, constant(0, g.dtype));
    const sum = uop(Ops.REDUCE, g.dtype, [own], new ReduceArg(Ops.ADD, [axis + 1]));
    return [reshape(sum, shape.with(axis, n))];
  });
}

/** By axis and places: one formula each. */
const READERS = new Map<string, GradientArg>();

/** The elements along `axis` of `x` at `places`. */
export function readAlong(x: UOp, axis: number, places: Places): UOp {
  const found = takeAlong(x, axis, elementOf(places, placesOf(places)));
  if (!x.dtype.isFloat) return found;
  const { n, out, factor, offset, divisor, next } = places, key = [axis, n, out, factor, offset, divisor, next].join();
  let rule = READERS.get(key);
  if (rule === undefined) READERS.set(key, rule = toReaders(axis, places));
  return withGradient(found, [x], rule);
}
