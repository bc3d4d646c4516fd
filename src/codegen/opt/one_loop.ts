/**
 * Reductions over several loops run in one instead, whose index gives theirs by division: a ring of tiles is filled ahead,
 * and needs to know what comes next. In and out: a kernel AST with its opts applied.
 *
 * @module
 */
import { simplifyKernel } from "../../uop/algebra/valid.ts";
import { argOf, AxisKind } from "../../uop/core/args.ts";
import { Ops } from "../../uop/core/ops.ts";
import { sizeOf } from "../../uop/core/ranges.ts";
import { constant, toposort, type UOp, uop } from "../../uop/core/uop.ts";
import { compareLoops } from "../ast/range_facts.ts";
import { type Replacement, replaceRanges } from "../ast/replace_ranges.ts";

/** The AST with one loop for each REDUCE that had several. */
export function oneLoop(ast: UOp): UOp {
  const map = new Map<UOp, Replacement>();
  const loopsOf = (u: UOp): UOp[] =>
    u.src.filter((r) => r.op === Ops.RANGE && argOf(r, Ops.RANGE).kind === AxisKind.REDUCE).sort(compareLoops);
  const lists = toposort(ast).filter((u) => u.op === Ops.REDUCE).map(loopsOf);
  for (const loops of lists) {
    if (loops.length < 2 || loops.some((r) => map.has(r) || sizeOf(r) === 0)) continue;
    // another reduction with some of the loops keeps them
    if (
      lists.some((l) =>
        loops.some((r) => l.includes(r)) && (l.length !== loops.length || loops.some((r, i) => l[i] !== r))
      )
    ) continue;
    const [{ dtype, arg }] = loops;
    const count = loops.reduce((n, r) => n * sizeOf(r), 1);
    if (count > 2 ** 31 - 1) continue;
    const all = uop(Ops.RANGE, dtype, [constant(count, dtype)], arg);
    let left = count;
    loops.forEach((r, i) => {
      const shifted = (left /= sizeOf(r)) === 1 ? all : all.floorDiv(left);
      const digit = i === 0 ? shifted : shifted.floorMod(sizeOf(r));
      map.set(r, { value: digit.dtype === r.dtype ? digit : digit.cast(r.dtype), ranges: i === 0 ? [all] : [] });
    });
  }
  return map.size === 0 ? ast : simplifyKernel(replaceRanges(ast, map));
}
