/**
 * Selection by index nodes: `sum(where(r == index, x[r], 0))`, which the compiler folds into one gated load; so an index
 * out of range reads 0. Negative indices count from the end, once.
 *
 * @module
 */
import { bufferOf } from "../../device/buffer.ts";
import { dtypes } from "../../dtype/dtype.ts";
import { IndexError } from "../../helpers/errors.ts";
import { prod, rangeOf } from "../../helpers/math.ts";
import { argOf } from "../../uop/core/args.ts";
import { broadcastTo, expand, permute, reshape } from "../../uop/core/build_movement.ts";
import { Ops } from "../../uop/core/ops.ts";
import { shapeOf } from "../../uop/core/shape.ts";
import { constant, int, positionDType, type UOp } from "../../uop/core/uop.ts";
import { boundValue, exact, extentsOf } from "../../uop/graph/extent.ts";
import { type HostArray, typedArrayOf } from "./host.ts";
import { iotaAlong } from "./movement_nodes.ts";
import { reduceNode } from "./reduce_nodes.ts";
import { castNode, scalarConst } from "./scalars.ts";

/** The values of a node that came from the host and is not yet overwritten; undefined for all others. */
export function hostValues(u: UOp): HostArray | undefined {
  while (u.op === Ops.RESHAPE || u.op === Ops.COPY) u = u.src[0].becomes ?? u.src[0];
  if (u.op !== Ops.BUFFER) return undefined;
  const { storage, version } = argOf(u, Ops.BUFFER);
  const buffer = bufferOf(storage);
  if (storage.device !== "JS" || storage.version !== version || buffer === undefined || !buffer.isAllocated) {
    return undefined;
  }
  return typedArrayOf(buffer.copyOut(new Uint8Array(storage.nbytes)), storage.dtype);
}

/** {@linkcode hostValues} of a node or of what it was cast to a float from. */
export function hostValuesBehind(u: UOp): HostArray | undefined {
  while (u.op === Ops.CAST && u.dtype.isFloat) u = u.src[0].becomes ?? u.src[0];
  return hostValues(u);
}

/**
 * An index node as int32 (int64 where the axis has 2^31 elements or more), negatives counted from the end of axis `axis` of
 * `x`; what is out of range matches nothing.
 *
 * @throws {DTypeError} for floats and bools, {IndexError} for values known on the host that are out of range
 */
export function indexNode(action: string, index: UOp, x: UOp, axis: number): UOp {
  index = exact(index);
  const d = index.dtype, e = extentsOf(x)?.[axis], n = e === undefined ? shapeOf(x)[axis] ?? 1 : boundValue(e)!;
  if (!d.isInt) {
    throw new IndexError(action, { axis, reason: `an index tensor must have an integer dtype, not ${d}` });
  }
  const known = hostValues(index);
  if (known !== undefined && known.length <= 65536) {
    for (const v of known) {
      if (v >= -n && v < n) continue;
      throw new IndexError(action, { axis, reason: `index ${v} is out of range for axis ${axis} of size ${n}` });
    }
  }
  const zero = scalarConst(0, d), length = e === undefined ? undefined : broadcastTo(e, shapeOf(index));
  const size = length === undefined ? scalarConst(n, d) : castNode(length, d);
  const wrapped = d.isUnsigned ? index : index.lt(zero).where(index.add(size), index);
  const place = positionDType(n);
  if (d === place) return wrapped;
  if (d.bits < place.bits) {
    const wide = castNode(index, place);
    return d.isUnsigned ? wide : wide.lt(0).where(wide.add(length === undefined ? int(n).cast(place) : length), wide);
  }
  const inside = d.isUnsigned ? wrapped.lt(size) : wrapped.lt(size).and(wrapped.lt(zero).xor(constant(1, dtypes.bool)));
  return inside.where(castNode(wrapped, place), constant(-1, place));
}

/** Sum over `axes` (kept) of `x` where `condition`, else 0: x at the one position that the condition selects. */
export function selectNode(condition: UOp, x: UOp, axes: readonly number[]): UOp {
  const wide = x.dtype.isBool ? castNode(x, dtypes.int32) : x;
  return castNode(reduceNode(condition.where(wide, scalarConst(0, wide.dtype)), Ops.ADD, axes), x.dtype);
}

/** `x` at `index` (nonnegative) along `axis`; the other axes of both are equal. */
export function gatherNode(x: UOp, axis: number, index: UOp): UOp {
  const from = shapeOf(x), to = shapeOf(index), n = from[axis], rank = from.length;
  const full = [...to, n];
  const order = [...rangeOf(rank).filter((a) => a !== axis), axis];
  const turned = reshape(permute(x, order), [...to.with(axis, 1), n]);
  const position = expand(iotaAlong(n, rank, rank + 1), full);
  const at = expand(reshape(castNode(index, position.dtype), [...to, 1]), full);
  return reshape(selectNode(position.eq(at), expand(turned, full), [rank]), to);
}

/** Positions on several axes of `sizes` as one, row-major, `[1, count]`; -1 where one is out of range. */
export function flatPositions(indices: readonly UOp[], sizes: readonly number[], count: number): UOp {
  const d = positionDType(prod(sizes)), zero = constant(0, d);
  const all = indices.map((u) => castNode(reshape(u, [1, count]), d));
  const flat = all.reduce((p, u, i) => p.mul(sizes[i]).add(u));
  const inside = all.map((u, i) => u.lt(sizes[i]).and(u.lt(zero).xor(constant(1, dtypes.bool))));
  return inside.reduce((p, q) => p.and(q)).where(flat, constant(-1, d));
}
