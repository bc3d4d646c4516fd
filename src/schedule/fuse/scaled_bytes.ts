/**
 * Values that are bytes and a scale, as quantized weights and activations are. In: a node of a tensor graph. Out: whether it
 * is one, of which sums of products are computed by words of bytes where a device has that.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { boundsOf } from "../../uop/algebra/bounds.ts";
import { isAlu, isMovement, Ops } from "../../uop/core/ops.ts";
import type { UOp } from "../../uop/core/uop.ts";

/** Nodes among which bytes, or a product of them, are looked for: they are near, and graphs may be deep. */
const NEAR = 64;

/** Is there a node that fulfils `isWanted` among `from` and what `next` leads to, near it? */
function isNear(from: UOp, next: (u: UOp) => readonly UOp[], isWanted: (u: UOp) => boolean): boolean {
  const found = new Set([from]);
  for (const u of found) { // grows meanwhile
    if (isWanted(u)) return true;
    if (found.size < NEAR) { for (const x of next(u)) found.add(x); }
  }
  return false;
}

/** What a value is times something, moved, or as a float. */
function unscaled(u: UOp): readonly UOp[] {
  if (isMovement(u.op)) return [u.src[0]];
  if (u.op === Ops.MUL && u.dtype.isFloat) return u.src;
  return u.op === Ops.CAST && u.dtype === dtypes.float32 && u.src[0].dtype.isInt ? [u.src[0]] : [];
}
function isByte(u: UOp): boolean {
  if (!u.dtype.isInt || isMovement(u.op)) return false;
  const [low, high] = boundsOf(u);
  return low >= -128 && high <= 255;
}
/** Is it a whole number of 8 bits, perhaps as a float and times something? */
function isScaledByte(u: UOp): boolean {
  return isNear(u, unscaled, isByte);
}

/** Is it such a number, and multiplied with another one on the way to what reads it? */
export function isTimesByte(u: UOp, readers: ReadonlyMap<UOp, readonly UOp[]>): boolean {
  const isWay = (r: UOp): boolean =>
    isMovement(r.op) || r.op === Ops.CAST || (isAlu(r.op) && r.dtype.isInt) ||
    (r.op === Ops.MUL && !r.src.every(isScaledByte));
  const isProduct = (r: UOp): boolean => r !== u && r.op === Ops.MUL && r.dtype === dtypes.float32 && !isWay(r);
  return isScaledByte(u) && isNear(u, (x) => x === u || isWay(x) ? readers.get(x) ?? [] : [], isProduct);
}
