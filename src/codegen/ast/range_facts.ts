/**
 * What codegen asks of a RANGE: its kind, its size, and its place among other loops.
 *
 * @module
 */
import { argOf, AxisKind } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import type { UOp } from "../../uop/core/uop.ts";

/** The kind of a range. */
export function kindOf(r: UOp): AxisKind {
  return argOf(r, Ops.RANGE).kind;
}

/** True for kinds that are hardware indices. */
export function isThreadKind(kind: AxisKind): boolean {
  return kind === AxisKind.GLOBAL || kind === AxisKind.LOCAL || kind === AxisKind.WARP ||
    kind === AxisKind.GROUP_REDUCE;
}

/** True for kinds that a REDUCE closes: loops, and threads that share it. */
export function isReduceKind(kind: AxisKind): boolean {
  return kind === AxisKind.REDUCE || kind === AxisKind.GROUP_REDUCE;
}

/** Is `u` a range of threads that share a reduction? */
export function isGroup(u: UOp): boolean {
  return u.op === Ops.RANGE && kindOf(u) === AxisKind.GROUP_REDUCE;
}

/** Order of loops where nothing else decides: THREAD outermost, then output loops, then reduces, each by id and piece. */
export function compareLoops(a: UOp, b: UOp): number {
  const x = argOf(a, Ops.RANGE), y = argOf(b, Ops.RANGE);
  return rank(x.kind) - rank(y.kind) || x.id - y.id || x.sub - y.sub;
}

function rank(kind: AxisKind): number {
  if (kind === AxisKind.THREAD || kind === AxisKind.GLOBAL) return 0;
  return isReduceKind(kind) ? 2 : 1;
}
