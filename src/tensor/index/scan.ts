/**
 * Scans: cumulative sums, products, extrema. Short axes are one masked reduction; long ones are scanned in blocks of 16 or
 * 32, the blocks' totals are scanned the same way, and added: linear work, two kernels a level.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { floatOf, promote, sumDType, sumOf } from "../../dtype/promotion.ts";
import { ArgumentError, shapeText } from "../../helpers/errors.ts";
import { ceilDiv } from "../../helpers/math.ts";
import { broadcastTo, expand, numelOf, reshape, shrink } from "../../uop/core/build_movement.ts";
import { identityOf } from "../../uop/core/carrier.ts";
import { Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { constant, type UOp, uop } from "../../uop/core/uop.ts";
import { extentsOf, withExtents } from "../../uop/graph/extent.ts";
import { GradientArg, withGradient } from "../../uop/graph/given_gradient.ts";
import { resolveAxis } from "../handle/axes.ts";
import { TensorBase } from "../handle/base.ts";
import { maxNode, negNode } from "../nodes/compare_nodes.ts";
import { backTo, filled, iotaAlong, lastAxis, padConstant } from "../nodes/movement_nodes.ts";
import { detachNode, expNode, logaddexpNode, logNode } from "../nodes/numeric.ts";
import { reduceNode } from "../nodes/reduce_nodes.ts";
import { castNode, scalarConst } from "../nodes/scalars.ts";
import { foldKeys } from "../nodes/segments.ts";
import type { ElementwiseTensor } from "../ops/elementwise.ts";

/** Elements of an axis that is one block, and of the blocks of longer ones: of many elements short ones, which are less work. */
const SHORT = 64, BLOCK = 32, SHORT_BLOCK = 16, MANY = 1 << 16;

/** An associative operation to scan with. */
interface Scan {
  /** Scans a short last axis. */
  readonly direct: (x: UOp) => UOp;
  /** Combines what came before with what follows. */
  readonly combine: (before: UOp, after: UOp) => UOp;
  readonly identity: number;
}

/** Element j of the last axis for each i of it, `[..., n, n]`, and where j > i. */
function squareOf(x: UOp): { wide: UOp; beyond: UOp; square: number[] } {
  const shape = shapeOf(x), n = shape[shape.length - 1], square = [...shape.slice(0, -1), n, n], rank = square.length;
  const [row, column] = [rank - 2, rank - 1].map((axis) => broadcastTo(iotaAlong(n, axis, rank), square));
  return { wide: expand(reshape(x, [...shape.slice(0, -1), 1, n]), square), beyond: row.lt(column), square };
}

/** For each i of the last axis: REDUCE over j <= i. */
function triangle(x: UOp, op: Ops): UOp {
  const { wide, beyond, square } = squareOf(x);
  const seen = beyond.where(scalarConst(identityOf(op, x.dtype), x.dtype), wide);
  return reshape(reduceNode(seen, op, [square.length - 1]), shapeOf(x));
}

function opScan(op: typeof Ops.ADD | typeof Ops.MUL | typeof Ops.MAX, x: UOp): Scan {
  return {
    direct: (u) => triangle(u, op),
    combine: (a, b) => op === Ops.MAX ? maxNode(a, b) : a.alu(op, b),
    identity: identityOf(op, x.dtype),
  };
}

/** log of the running sum of e^x, shifted by the running maximum. */
function logSumTriangle(x: UOp): UOp {
  const d = x.dtype, shape = shapeOf(x), { wide, beyond, square } = squareOf(x);
  const max = detachNode(triangle(x, Ops.MAX));
  const finite = max.lt(constant(Infinity, d)).and(constant(-Infinity, d).lt(max));
  const base = finite.where(max, constant(0, d));
  const below = wide.add(negNode(expand(reshape(base, [...shape, 1]), square)));
  // The branch that is not seen must stay finite for the gradient.
  const e = beyond.where(constant(0, d), expNode(beyond.where(constant(0, d), below)));
  return logNode(reshape(reduceNode(e, Ops.ADD, [square.length - 1]), shape)).add(base);
}

/** Scans the last axis. */
function scanLast(x: UOp, scan: Scan): UOp {
  const shape = shapeOf(x), n = shape[shape.length - 1], lead = shape.slice(0, -1);
  if (n <= SHORT) return scan.direct(x);
  const block = numelOf(x) >= MANY ? SHORT_BLOCK : BLOCK, count = ceilDiv(n, block);
  const none = lead.map((): [number, number] => [0, 0]), all = lead.map((s): [number, number] => [0, s]);
  const padded = padConstant(x, [...none, [0, count * block - n]], scan.identity);
  const blocks = scan.direct(reshape(padded, [...lead, count, block]));
  const inner = uop(Ops.CONTIGUOUS, x.dtype, [blocks]);
  const totals = reshape(shrink(inner, [...all, [0, count], [block - 1, block]]), [...lead, count]);
  const running = shrink(scanLast(totals, scan), [...all, [0, count - 1]]);
  const before = reshape(padConstant(running, [...none, [1, 0]], scan.identity), [...lead, count, 1]);
  const joined = scan.combine(expand(before, [...lead, count, block]), inner);
  return shrink(reshape(joined, [...lead, count * block]), [...all, [0, n]]);
}

/** The gradient of values that stand at an index along axis `at`: it is added up there. */
function toIndex(at: number): GradientArg {
  return new GradientArg((g, [x, index]) => {
    const sums = foldKeys(lastAxis(index, at), lastAxis(g, at), shapeOf(x)[at], Ops.ADD).values;
    return [backTo(sums, at), undefined];
  });
}

const TO_INDEX: GradientArg[] = [];

/** The families that it is written in. */
export interface ScanTensor extends ElementwiseTensor {}
/** Tensors with scans. */
export abstract class ScanTensor extends TensorBase {
  /** A scan along an axis. */
  private scanned(action: string, axis: number, x: UOp, scan: Scan): UOp {
    const shape = this.shape;
    const at = resolveAxis(action, axis, shape);
    if (shape.length === 0 || shape.includes(0)) return x;
    const all = filled(x, at, scan.identity); // what stands behind changes nothing before it
    return withExtents(backTo(scanLast(lastAxis(all, at), scan), at), extentsOf(x));
  }

  /**
   * Running sum along `axis`. Dtypes as those of `sum`: bools and small integers widen to int32 or uint32, small floats
   * accumulate in float32. @throws {ShapeError}
   */
  cumsum(axis = 0): this {
    const x = castNode(this.uop, sumDType(this.dtype));
    return this.wrap(this.scanned("cumsum", axis, x, opScan(Ops.ADD, x)).cast(sumOf(this.dtype)));
  }

  /**
   * Running product along `axis`, which a list (1-D) need not name; dtypes as {@linkcode cumsum}. @throws {ShapeError}
   * @throws {ArgumentError} without an axis where there are several
   */
  cumprod(axis: number | undefined = this.ndim < 2 ? 0 : undefined): this {
    if (axis === undefined) {
      throw new ArgumentError(`cumprod a tensor of shape ${shapeText(this.shape)}`, {
        reason: "it has several axes; name one, as in t.cumprod(0)",
      });
    }
    const x = castNode(this.uop, sumDType(this.dtype));
    return this.wrap(this.scanned("cumprod", axis, x, opScan(Ops.MUL, x)).cast(sumOf(this.dtype)));
  }

  /**
   * Running maximum along `axis` and its index, the earliest if equal (int32, or int64 where it is that long), to which the
   * gradient goes. @throws {ShapeError}
   */
  cummax(axis = 0): [values: this, indices: this] {
    return this.extremes("cummax", axis, (x) => x);
  }

  /**
   * Running minimum along `axis` and its index, the earliest if equal (int32, or int64 where it is that long), to which the
   * gradient goes. @throws {ShapeError}
   */
  cummin(axis = 0): [values: this, indices: this] {
    return this.extremes("cummin", axis, (x) => x.dtype.isFloat ? negNode(x) : x.xor(scalarConst(-1, x.dtype)));
  }

  /** Running extremes and their positions. */
  private extremes(action: string, axis: number, turn: (x: UOp) => UOp): [this, this] {
    const shape = this.shape, at = resolveAxis(action, axis, shape);
    if (shape.length === 0) return [this, this.constLike(0, { dtype: dtypes.int32 })];
    const bool = this.dtype.isBool;
    const own = turn(bool ? castNode(this.uop, dtypes.int32) : this.uop);
    const x = filled(own, at, identityOf(Ops.MAX, own.dtype));
    const best = this.scanned(action, at, x, opScan(Ops.MAX, x));
    const n = shape[at];
    const place = broadcastTo(iotaAlong(n, at, shape.length), shape);
    let earlier = best;
    if (n > 1) {
      const cut = shape.map((s, i): [number, number] => [0, i === at ? n - 1 : s]);
      const grow = shape.map((_, i): [number, number] => [i === at ? 1 : 0, 0]);
      earlier = padConstant(shrink(best, cut), grow, 0);
    }
    let isNew = place.lt(1).or(earlier.lt(x));
    if (x.dtype.isFloat) isNew = isNew.or(x.ne(x).and(earlier.eq(earlier)));
    const marks = isNew.where(place, constant(0, place.dtype));
    const index = this.scanned(action, at, marks, opScan(Ops.MAX, marks));
    const kept = x.dtype.isFloat && n > 0 ? withGradient(best, [x, index], TO_INDEX[at] ??= toIndex(at)) : best;
    const values = turn(kept), sized = (u: UOp) => this.wrap(withExtents(u, extentsOf(own)));
    return [sized(bool ? castNode(values, dtypes.bool) : values), sized(index)];
  }

  /** log of the running sum of e^x along `axis`, without overflow. @throws {ShapeError} */
  logcumsumexp(axis = 0): this {
    const d = floatOf(this.dtype);
    const x = castNode(this.uop, promote(d, dtypes.float32));
    const scan: Scan = { direct: logSumTriangle, combine: logaddexpNode, identity: -Infinity };
    return this.wrap(this.scanned("logcumsumexp", axis, x, scan).cast(d));
  }
}
