/**
 * Gives the phases of a kernel (uop/algebra/row_phases.ts) their threads: the ranges of a STAGE or STORE become what a thread
 * does one after the other, threads, and copies; those of short sums become copies too. In: a kernel AST with STAGEs of scope
 * phase. Out: the same, with the number of its memory in each STAGE, which holds a TUPLE now: the value, where it lies, and,
 * where threads have nothing to do, the condition under which it is written. And how many threads a group has.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { simplifyKernel } from "../../uop/algebra/valid.ts";
import { type GroupLimits, isPhase, type Phase, phasesOf, placeOf } from "../../uop/algebra/row_phases.ts";
import { argOf, AxisKind, StageArg } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { freeIds, sizeOf } from "../../uop/core/ranges.ts";
import { constant, index, range, toposort, type UOp, uop } from "../../uop/core/uop.ts";
import { andGate } from "../../uop/graph/movement_index.ts";
import { plus, times } from "../ast/alu_builder.ts";
import { rebuildKernel } from "../ast/replace_ranges.ts";

/** What the ranges of a phase become. */
interface Shares {
  readonly values: ReadonlyMap<UOp, UOp>;
  readonly own: readonly UOp[];
  /** Whether a thread has something to do; undefined where all have. */
  readonly isBusy: UOp | undefined;
}

/** Shares a phase out among `threads`: each has one number after the other, of which the ranges are digits. */
function shareOut({ ranges, inner, work, parts, isLoop }: Phase, threads: number, next: { range: number }): Shares {
  const { int32 } = dtypes, values = new Map<UOp, UOp>();
  const fresh = (n: number, kind: AxisKind, dtype = int32): UOp => range(constant(n, dtype), next.range++, kind);
  const part = parts > 1 ? fresh(parts, isLoop ? AxisKind.LOOP : AxisKind.UPCAST) : undefined;
  const thread = fresh(threads, AxisKind.LOCAL), own = part === undefined ? [thread] : [part, thread];
  const flat = plus(part && times(part, threads), thread), isWhole = parts * threads === work;
  const isBusy = isWhole ? undefined : flat.lt(work);
  const at = isBusy === undefined ? flat : isBusy.where(flat, constant(work - 1, int32));
  let left = work;
  ranges.forEach((r, i) => {
    const n = sizeOf(r) / inner[i], shifted = (left /= n) === 1 ? at : at.floorDiv(left);
    let value = n === 1 ? constant(0, int32) : left * n === work ? shifted : shifted.floorMod(n);
    if (inner[i] > 1) {
      const copy = fresh(inner[i], AxisKind.UPCAST);
      own.push(copy);
      value = value.mul(inner[i]).add(copy);
    }
    values.set(r, r.dtype === int32 ? value : value.cast(r.dtype));
  });
  return { values, own, isBusy };
}

/** The AST with all of its phases laid out, and the threads of a group. */
export function layPhases(ast: UOp, limits: GroupLimits): { readonly ast: UOp; readonly threads: number } {
  const { threads, phases } = phasesOf(ast, limits), next = freeIds(toposort(ast));
  const map = new Map<UOp, UOp>(), shares = new Map<UOp, { readonly phase: Phase; readonly own: Shares }>();
  for (const phase of phases) {
    const own = shareOut(phase, threads, next);
    shares.set(phase.root, { phase, own });
    for (const [r, value] of own.values) map.set(r, value);
    for (const r of phase.unrolled) {
      map.set(r, range(r.src[0], argOf(r, Ops.RANGE).id, AxisKind.UNROLL));
    }
  }
  const made = rebuildKernel(ast, (u, src) => {
    if (u.op === Ops.RANGE) return map.has(u) ? [map.get(u)!] : undefined;
    if (u.op === Ops.INDEX && isPhase(u.src[0])) return [index(src[0], placeOf(src[1], u.src[0].dtype), src[2])];
    const share = shares.get(u);
    if (share === undefined) return undefined;
    const { phase: { ranges, home }, own: { own, values, isBusy } } = share;
    if (u.op === Ops.STORE) {
      const [base, at, gate] = src[0].src;
      return isBusy === undefined ? undefined : [u.withSrc([index(base, at, andGate(gate, isBusy)), src[1]])];
    }
    let at: UOp | undefined, stride = 1;
    for (const r of ranges.toReversed()) {
      at = plus(at, times(values.get(r)!, stride));
      stride *= sizeOf(r);
    }
    const parts = [src[0], placeOf(at ?? constant(0, dtypes.int32), u.dtype), ...isBusy === undefined ? [] : [isBusy]];
    return [uop(Ops.STAGE, u.dtype, [uop(Ops.TUPLE, dtypes.void, parts), ...own], new StageArg(home, "phase"))];
  });
  return { ast: simplifyKernel(made), threads };
}
