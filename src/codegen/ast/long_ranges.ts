/**
 * Loops that 32 bits cannot count become two, one inside the other: counters, threads and grids are int32 everywhere, and
 * only positions are int64. In and out: a kernel AST.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { ceilDiv, roundUp } from "../../helpers/math.ts";
import { argOf } from "../../uop/core/args.ts";
import { carrierOf, identityConst, reduce } from "../../uop/core/carrier.ts";
import { Ops } from "../../uop/core/ops.ts";
import { rangesOf, sizeOf } from "../../uop/core/ranges.ts";
import { index, int, INT32_MAX, range, toposort, type UOp } from "../../uop/core/uop.ts";
import { compareLoops } from "./range_facts.ts";
import { lanesOf, rebuildKernel, type Replacement, replaceRanges } from "./replace_ranges.ts";

/** Outer iterations that are tried for a number that divides the loop. */
const MOST_TRIED = 1 << 12;
/** A loop that nothing divides is made longer to inner loops of a multiple of this. */
const ROUND = 64;

/** Sizes of an outer and an inner loop of `n` iterations together, or somewhat more. */
function cut(n: number): [outer: number, inner: number] {
  const least = ceilDiv(n, INT32_MAX);
  for (let k = least; k < least + MOST_TRIED; k++) if (n % k === 0) return [k, n / k];
  const outer = ceilDiv(n, INT32_MAX - ROUND);
  return [outer, roundUp(ceilDiv(n, outer), ROUND)];
}

/** A loop with iterations beyond its end: what holds for the others. */
interface Guard {
  readonly ranges: readonly UOp[];
  readonly valid: UOp;
}

/** An AST in which no access and no reduction goes beyond the end of a loop. */
function guarded(ast: UOp, { ranges, valid }: Guard): UOp {
  const last = ranges[1];
  return rebuildKernel(ast, (u, src) => {
    if (u.op === Ops.INDEX && rangesOf(u).includes(last)) {
      return [index(src[0], src[1], src.length > 2 ? src[2].and(valid) : valid)];
    }
    if (u.op !== Ops.REDUCE || !u.src.includes(last)) return undefined;
    const carrier = carrierOf(u), n = carrier.lanes;
    const lifts = src.slice(0, n).map((x, i) => valid.where(x, identityConst(carrier, i)));
    const made = reduce(carrier, lifts, src.slice(n));
    return n === 1 ? [made] : lanesOf(made);
  });
}

/** Whether a loop counts in 64 bits. */
function isWide(r: UOp): boolean {
  return r.dtype === dtypes.int64 && r.src[0].op === Ops.CONST;
}

/** Cuts the loops of an AST that are longer than an int32. */
export function cutLongRanges(ast: UOp): UOp {
  const all = toposort(ast).filter((u) => u.op === Ops.RANGE);
  if (!all.some(isWide)) return ast;
  const map = new Map<UOp, Replacement>(), guards: Guard[] = [];
  let id = 0;
  for (const r of all.sort(compareLoops)) {
    const { kind } = argOf(r, Ops.RANGE), n = sizeOf(r);
    const fresh = (end: UOp): UOp => range(end, id++, kind);
    if (!isWide(r) || n <= INT32_MAX) {
      const to = fresh(isWide(r) ? int(n) : r.src[0]);
      map.set(r, { value: to.cast(r.dtype), ranges: [to] });
      continue;
    }
    const [outer, inner] = cut(n), ranges = [fresh(int(outer)), fresh(int(inner))];
    const [a, b] = ranges.map((x) => x.cast(dtypes.int64)), value = a.mul(inner).add(b);
    map.set(r, { value, ranges });
    if (outer * inner > n) guards.push({ ranges, valid: value.lt(n) });
  }
  return guards.reduce(guarded, replaceRanges(ast, map));
}
