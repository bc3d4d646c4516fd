/**
 * Histograms: how many elements fall into bins, equal ones or between edges.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { floatOf, promote } from "../../dtype/promotion.ts";
import { ArgumentError, ShapeError } from "../../helpers/errors.ts";
import { checkInteger, checkNumber, checkOptions, describe } from "../../helpers/options.ts";
import { broadcastTo, reshape } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { constant, iota, type UOp, uop } from "../../uop/core/uop.ts";
import { type NestedArray, TensorBase, type TensorLike } from "../handle/base.ts";
import { placed } from "../handle/creation.ts";
import { floatConst } from "../nodes/numeric.ts";
import { castNode } from "../nodes/scalars.ts";
import { equalBins, searchNode } from "../nodes/segments.ts";
import { hostValues } from "../nodes/select.ts";
import type { StatisticsTensor } from "./statistics.ts";

/** Options of {@linkcode HistogramTensor.histogram}. */
export interface HistogramOptions {
  /** Where the first bin begins. Default: the smallest value. */
  readonly min?: number;
  /** Where the last bin ends. Default: the largest value. */
  readonly max?: number;
  /** What each element counts, of the same shape. Default 1. */
  readonly weights?: TensorLike;
  /** Whether to divide so that the integral is 1. Default false. */
  readonly density?: boolean;
}
function own(u: UOp): UOp {
  return uop(Ops.CONTIGUOUS, u.dtype, [u]);
}

/**
 * A float over a whole number. Devices divide float32 differently, some to a few units in the last place: where a number
 * of 16 bits is the quotient, it is that one on all of them.
 */
function shortQuotient(x: UOp, by: number): UOp {
  const divisor = floatConst(by, x.dtype), quotient = x.fdiv(divisor);
  if (x.dtype !== dtypes.float32) return quotient;
  const bits = quotient.bitcast(dtypes.uint32).add(constant(0x80, dtypes.uint32));
  const short = bits.and(constant(0xffffff00, dtypes.uint32)).bitcast(x.dtype);
  return short.mul(divisor).eq(x).where(short, quotient);
}

/** The families that it is written in. */
export interface HistogramTensor extends StatisticsTensor {}
/** Tensors with histograms. */
export abstract class HistogramTensor extends TensorBase {
  /**
   * How many elements fall into each bin, and the edges of the bins: `[bins]` and `[bins + 1]`. `bins` is a number of
   * equal bins between `min` and `max` (of the finite data), or ascending edges; the last bin is closed. Edges are float32
   * (float64 for float64), exact where bins are as wide as a whole number or a short fraction; where min and max are equal
   * they are half below and half above, and without data 0 to 1. Counts are int32; with `weights` or `density` floats. NaN falls into no bin, nor
   * does what lies outside of the edges.
   *
   * ```ts
   * import { Tensor } from "../../../mod.ts";
   * const [counts, edges] = Tensor.arange(7).histogram(3);
   * console.log(await counts.tolist(), await edges.tolist()); // [2, 2, 3] [0, 2, 4, 6]
   * ```
   *
   * @throws {ArgumentError} for no bins, min > max, ends that are not finite, or edges known on the host that descend;
   * {ShapeError} for weights of another shape
   */
  histogram(bins: number | TensorBase | NestedArray = 10, options: HistogramOptions = {}): [counts: this, edges: this] {
    const action = "histogram";
    checkOptions(action, options, ["min", "max", "weights", "density"]);
    const { min, max, density = false } = options, weights = this.weightsOf(action, options.weights);
    const d = promote(floatOf(this.dtype), dtypes.float32);
    const x = this.wrap(own(reshape(castNode(this.uop, d), [this.numel()])));
    let edges: this;
    if (typeof bins === "number") {
      checkInteger(action, "bins", bins, 1);
      for (const [name, end] of [["min", min], ["max", max]] as const) {
        if (end === undefined || Number.isFinite(end)) continue;
        throw new ArgumentError(action, { reason: `${name} must be a finite number, not ${describe(end)}` });
      }
      if (min !== undefined && max !== undefined && !(min <= max)) {
        throw new ArgumentError(action, { reason: `min must not be above max, not ${min} and ${max}` });
      }
      const isNone = this.numel() === 0;
      if (isNone && (min === undefined) !== (max === undefined)) {
        throw new ArgumentError(action, { reason: "nothing has no range; give min and max" });
      }
      const ends = (isNone && min === undefined ? [0, 1] : [min, max]).map((x) =>
        x === undefined ? undefined : this.wrap(floatConst(x, d))
      );
      edges = x.equalEdges(bins, ends[0], ends[1]);
    } else {
      const given = this.operand(bins, action) as this;
      edges = given.cast(d);
      if (edges.ndim !== 1 || edges.shape[0] < 2) {
        throw new ShapeError(action, { shapes: [edges.shape], reason: "edges are 1-D, at least two" });
      }
      const known = hostValues(given.uop),
        bad = known?.findIndex((v, i) => v !== v || (i > 0 && v < known[i - 1])) ?? -1;
      if (bad >= 0) {
        throw new ArgumentError(action, { reason: `edges must ascend, but edge ${bad} is ${known![bad]}` });
      }
    }
    edges = this.wrap(placed(own(edges.uop), this.device)); // between given ends they are constants, which live nowhere
    const count = edges.shape[0] - 1;
    const last = edges.at(count);
    const ends = typeof bins === "number" && min !== undefined && max !== undefined ? [min, max] : undefined;
    const place = ends && equalBins(edges.uop, x.uop, ends[0], ends[1]);
    const found = this.wrap(place ?? searchNode(edges.uop, x.uop, true).add(-1));
    const bin = x.eq(last).where(count - 1, x.gt(last).logicalNot().bitwiseAnd(x.eq(x)).where(found, -1)) as this;
    let counts = bin.counted(count, weights === undefined ? undefined : this.wrap(weights.uop).flatten());
    if (density) {
      const c = counts.cast(d);
      counts = c.div(c.sum()).div(edges.at([1, null]).sub(edges.at([0, count])));
    }
    return [counts, edges];
  }

  /**
   * How many elements fall into each of `bins` equal bins between `min` and `max`, the last bin closed, in the dtype of this
   * (integers: the default float). Where both are equal, as they are unless given, the ends are those of the data. NaN and
   * what lies outside is not counted.
   *
   * ```ts
   * import { Tensor } from "../../../mod.ts";
   * console.log(await new Tensor([1, 2, 1, 5]).histc(4, 0, 3).tolist()); // [0, 2, 1, 0]
   * ```
   *
   * @throws {ArgumentError} for no bins, min > max, or ends that are not finite
   */
  histc(bins = 100, min = 0, max = 0): this {
    const action = "histc";
    for (const [name, x] of [["min", min], ["max", max]] as const) checkNumber(action, name, x);
    const more = min === max ? 1 : 0;
    const ends = min === max && this.numel() > 0 ? {} : { min: min - more, max: max + more };
    return this.histogram(checkInteger(action, "bins", bins, 1), ends)[0].cast(floatOf(this.dtype));
  }

  /** The edges of `bins` equal bins between two ends, by default those of the finite values of this, 1-D. */
  private equalEdges(bins: number, min: this | undefined, max: this | undefined): this {
    const d = this.dtype, finite = this.isfinite();
    const least = min ?? finite.where(this, Infinity).min() as this, most = max ?? finite.where(this, -Infinity).max();
    // One end may lie beyond all values. Without finite values there are no ends.
    const low = max === undefined ? least : least.minimum(max), high = min === undefined ? most : most.maximum(min);
    const none = low.gt(high), spread = low.eq(high).where(0.5, this.wrap(floatConst(0, d))) as this;
    const from = none.where(0, low).sub(spread) as this, to = none.where(1, high).add(spread) as this;
    const step = broadcastTo(shortQuotient(to.sub(from).uop, bins), [bins + 1]);
    // Counted from the nearer end, so that both are exact; apart from the sum, which would else be fused with it or not.
    const place = iota(bins + 1), front = place.mul(2).lt(bins);
    const steps = castNode(front.where(place, place.mul(-1).add(bins)), d);
    const away = this.wrap(own(steps.mul(step)));
    return this.wrap(front).where(from.add(away), to.sub(away)) as this;
  }
}
