/**
 * Functions of which only 16-bit floats become: their quick forms, with relative errors of some 2^-16, do where the device
 * has such. In and out: a graph of stage P.
 *
 * What a value goes through on its way to the rounding keeps relative errors as small as they are: products, quotients,
 * choices, and sums of what is not negative. After any other op all bits count.
 *
 * @module
 */
import { dtypes } from "../../../dtype/dtype.ts";
import type { Capabilities } from "../../../renderer/renderer.ts";
import { Ops } from "../../../uop/core/ops.ts";
import { toposort, type UOp, uop } from "../../../uop/core/uop.ts";
import { rebuildKernel } from "../../ast/replace_ranges.ts";
import { logisticOf, quickLogistic } from "./logistic.ts";

function isLanes(u: UOp): boolean {
  return u.op === Ops.VECTORIZE || u.op === Ops.BROADCAST || u.op === Ops.EXTRACT || u.op === Ops.LANES;
}

/** Floats that are at least 0 or no numbers, and those of them that are at least 1 or no numbers. */
interface Bounded {
  readonly positive: ReadonlySet<UOp>;
  readonly large: ReadonlySet<UOp>;
}

/** What is known of the floats in `order`, sources first. */
function boundsOf(order: readonly UOp[]): Bounded {
  const positive = new Set<UOp>(), large = new Set<UOp>();
  for (const u of order) {
    if (!u.dtype.isFloat) continue;
    const all = (known: ReadonlySet<UOp>, from = 0): boolean => u.src.every((s, i) => i < from || known.has(s));
    let isPositive = u.op === Ops.EXP2, isLarge = false;
    if (u.op === Ops.CONST) [isPositive, isLarge] = [u.value >= 0, u.value >= 1];
    else if (u.op === Ops.WHERE) [isPositive, isLarge] = [all(positive, 1), all(large, 1)];
    else if (isLanes(u)) [isPositive, isLarge] = [all(positive), all(large)];
    else if (u.op === Ops.MUL) [isPositive, isLarge] = [u.src[0] === u.src[1] || all(positive), all(large)];
    else if (u.op === Ops.FDIV) isPositive = all(positive);
    else if (u.op === Ops.ADD) {
      isPositive = all(positive);
      isLarge = isPositive && u.src.some((s) => large.has(s));
    }
    if (isPositive) positive.add(u);
    if (isLarge) large.add(u);
  }
  return { positive, large };
}

/** Does `u` keep the relative error of its operand number `i`? */
function keepsError(u: UOp, i: number, { positive }: Bounded): boolean {
  if (u.op === Ops.MUL || u.op === Ops.FDIV || u.op === Ops.NEG || isLanes(u)) return true;
  if (u.op === Ops.WHERE) return i > 0;
  return u.op === Ops.ADD && u.src.every((s) => positive.has(s));
}

/** How often each node is a source. */
function usesOf(order: readonly UOp[]): ReadonlyMap<UOp, number> {
  const uses = new Map<UOp, number>();
  for (const u of order) for (const s of u.src) uses.set(s, (uses.get(s) ?? 0) + 1);
  return uses;
}

/** Gives functions the arg "rounded" where their quick form does; logistic functions of such become theirs. */
export function markRounded(sink: UOp, caps: Capabilities): UOp {
  const quick = caps.roundedOps ?? [], order = toposort(sink);
  if (!order.some((u) => quick.includes(u.op))) return sink;
  const bounds = boundsOf(order), exact = new Set<UOp>();
  for (let k = order.length - 1; k >= 0; k--) {
    const u = order[k], isRounding = u.op === Ops.CAST && u.dtype.isFloat && u.dtype.scalar.bits <= 16;
    u.src.forEach((s, i) => {
      if (!isRounding && (exact.has(u) || !keepsError(u, i, bounds))) exact.add(s);
    });
  }
  exact.add(sink);
  const marked = order.filter((u) =>
    quick.includes(u.op) && !exact.has(u) && u.dtype.scalar === dtypes.float32 && u.arg === undefined &&
    (u.op !== Ops.FDIV || bounds.large.has(u.src[1]))
  );
  if (marked.length === 0) return sink;
  const set = new Set(marked), uses = usesOf(order);
  return rebuildKernel(sink, (u, src) => {
    if (set.has(u)) return [uop(u.op, u.dtype, src, "rounded")];
    const logistic = logisticOf(u);
    if (logistic === undefined) return undefined;
    const { x, slope, power, quotient } = logistic;
    // what others need is computed anyway
    if (!set.has(power) || !set.has(quotient) || uses.get(power) !== 2 || uses.get(quotient) !== 2) return undefined;
    return [quickLogistic(src[0].src[0], slope, uses.get(x) === 2)];
  });
}
