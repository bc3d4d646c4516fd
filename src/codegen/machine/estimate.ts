/**
 * What a kernel is called and how much it does: a name from the sizes of its axes, arithmetic operations, and bytes
 * touched at least once.
 *
 * @module
 */
import { vmax } from "../../uop/algebra/bounds.ts";
import { argOf, AxisKind } from "../../uop/core/args.ts";
import { carrierOf } from "../../uop/core/carrier.ts";
import { isAlu, Ops } from "../../uop/core/ops.ts";
import { toposort, type UOp } from "../../uop/core/uop.ts";
import { isPhase } from "../../uop/algebra/row_phases.ts";
import { freeSets, RangeSets } from "../ast/range_sets.ts";

/**
 * `r_64_64_4` where something is reduced, else `E_...`: sizes of loops, then of what was split off them. Of several phases
 * those of the last one, and how many there are: `E_64_64_4_in12`.
 */
export function nameOf(ast: UOp): string {
  const all = toposort(ast), phases = all.filter(isPhase).length;
  const nodes = phases > 0 ? toposort(ast, (u) => !isPhase(u)) : all;
  const ranges = nodes.filter((u) => u.op === Ops.RANGE);
  const rank = (u: UOp): number => {
    const { kind } = argOf(u, Ops.RANGE);
    return kind === AxisKind.REDUCE || kind === AxisKind.GROUP_REDUCE ? 1 : kind >= AxisKind.UPCAST ? 2 : 0;
  };
  ranges.sort((a, b) => {
    const x = argOf(a, Ops.RANGE), y = argOf(b, Ops.RANGE);
    return rank(a) - rank(b) || x.kind - y.kind || x.id - y.id || x.sub - y.sub;
  });
  const reduced = nodes.some((u) => u.op === Ops.REDUCE);
  return [reduced ? "r" : "E", ...ranges.map((r) => sizeText(r.src[0])), ...phases > 0 ? [`in${phases + 1}`] : []].join(
    "_",
  );
}

function sizeText(end: UOp): string {
  if (end.op === Ops.CONST) return String(end.value);
  if (end.op === Ops.VARIABLE) return argOf(end, Ops.VARIABLE).name.replace(/[^A-Za-z0-9_]/g, "_");
  return "n";
}

/** Work of one launch of a kernel. */
export interface Work {
  readonly flops: number;
  readonly bytes: number;
}

/**
 * Counts floating-point arithmetic, reductions, and the bytes of each buffer that are touched (an upper bound). An op is one
 * operation here, whatever it takes to compute it: what a user compares with a device's FLOP/s; what an op costs is `opWork`.
 */
export function workOf(ast: UOp): Work {
  const nodes = toposort(ast);
  const sets = new RangeSets();
  const free = freeSets(nodes, sets);
  const sizes = sets.ranges.map((r) => vmax(r.src[0]));
  const counts: number[] = [];
  const times = (set: number): number => {
    let n = counts[set];
    if (n === undefined) {
      n = 1;
      for (const p of sets.members[set]) n *= sizes[p];
      counts[set] = n;
    }
    return n;
  };
  let flops = 0;
  const touched = new Map<UOp, number>();
  for (const u of nodes) {
    const set = free.get(u)!;
    if (u.op === Ops.REDUCE) {
      const carrier = carrierOf(u);
      let inner = set;
      for (let i = carrier.lanes; i < u.src.length; i++) inner = sets.union(inner, sets.single(u.src[i]));
      flops += times(inner) * carrier.lanes;
    } else if (isAlu(u.op) && u.dtype.isFloat && u.op !== Ops.CAST && u.op !== Ops.BITCAST && u.op !== Ops.WHERE) {
      flops += times(set);
    } else if (u.op === Ops.INDEX && u.src[0].op === Ops.PARAM) {
      const p = u.src[0];
      touched.set(p, Math.min(argOf(p, Ops.PARAM).size, (touched.get(p) ?? 0) + times(set)));
    }
  }
  let bytes = 0;
  for (const [p, n] of touched) bytes += n * p.dtype.itemsize;
  return { flops, bytes };
}
