/**
 * Functions of which only 16-bit floats become: their quick forms, with relative errors of some 2^-16, do where the device
 * has such. In and out: a graph of stage P.
 *
 * What a value goes through on its way to the rounding keeps relative errors as small as they are: products, quotients,
 * choices, and sums of what is not negative. After any other op all bits count.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import type { Capabilities } from "../../renderer/renderer.ts";
import { Ops } from "../../uop/ops.ts";
import { toposort, type UOp, uop } from "../../uop/uop.ts";
import { rebuild } from "../replace_ranges.ts";

function isLanes(u: UOp): boolean {
  return u.op === Ops.VECTORIZE || u.op === Ops.BROADCAST || u.op === Ops.EXTRACT;
}

/** What is known of floats by bound: at least 0, at least 1. */
type Known = readonly [Map<UOp, boolean>, Map<UOp, boolean>];

/** Is a float at least `least`, or no number? */
function isAtLeast(u: UOp, least: 0 | 1, known: Known): boolean {
  const before = known[least].get(u);
  if (before !== undefined) return before;
  const is = (s: UOp): boolean => isAtLeast(s, least, known), isPositive = (s: UOp): boolean => isAtLeast(s, 0, known);
  let answer = least === 0 && u.op === Ops.EXP2;
  if (u.op === Ops.CONST) answer = u.value >= least;
  else if (u.op === Ops.WHERE) answer = u.src.slice(1).every(is);
  else if (isLanes(u)) answer = u.src.every(is);
  else if (u.op === Ops.ADD) answer = u.src.every(isPositive) && (least === 0 || u.src.some(is));
  else if (u.op === Ops.MUL) answer = (least === 0 && u.src[0] === u.src[1]) || u.src.every(is);
  else if (u.op === Ops.FDIV) answer = least === 0 && u.src.every(is);
  known[least].set(u, answer);
  return answer;
}

/** Does `u` keep the relative error of its operand number `i`? */
function keepsError(u: UOp, i: number, known: Known): boolean {
  if (u.op === Ops.MUL || u.op === Ops.FDIV || u.op === Ops.NEG || isLanes(u)) return true;
  if (u.op === Ops.WHERE) return i > 0;
  return u.op === Ops.ADD && u.src.every((s) => isAtLeast(s, 0, known));
}

/** Gives functions the arg "rounded" where their quick form does. */
export function markRounded(sink: UOp, caps: Capabilities): UOp {
  const quick = caps.roundedOps ?? [], order = toposort(sink);
  if (!order.some((u) => quick.includes(u.op))) return sink;
  const known: Known = [new Map(), new Map()], exact = new Set<UOp>();
  for (let k = order.length - 1; k >= 0; k--) {
    const u = order[k], isRounding = u.op === Ops.CAST && u.dtype.isFloat && u.dtype.scalar.bits <= 16;
    u.src.forEach((s, i) => {
      if (!isRounding && (exact.has(u) || !keepsError(u, i, known))) exact.add(s);
    });
  }
  exact.add(sink);
  const marked = order.filter((u) =>
    quick.includes(u.op) && !exact.has(u) && u.dtype.scalar === dtypes.float32 && u.arg === undefined &&
    (u.op !== Ops.FDIV || isAtLeast(u.src[1], 1, known))
  );
  if (marked.length === 0) return sink;
  const set = new Set(marked);
  return rebuild(sink, (u, src) => set.has(u) ? [uop(u.op, u.dtype, src, "rounded")] : undefined);
}
