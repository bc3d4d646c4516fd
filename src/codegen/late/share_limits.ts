/**
 * Comparisons of the elements of a tile, x < y + c for many constants c, by one difference: x - y < c. In and out: the lowered
 * graph of a kernel on a grid. Where x changes in a loop and y does not, the limits y + c would wait outside of it, in a
 * register each.
 *
 * @module
 */
import { dtypes } from "../../dtype/dtype.ts";
import { vmax, vmin } from "../../uop/algebra/bounds.ts";
import { Ops } from "../../uop/core/ops.ts";
import { constant, toposort, type UOp, uop } from "../../uop/core/uop.ts";
import { substitute } from "../../uop/rewrite/rewrite.ts";
import { splitIndex } from "./coalesce.ts";

/** Comparisons from which a difference pays. */
const LEAST_SHARED = 4;

function fits(low: number, high: number): boolean {
  return low >= -(2 ** 31) && high < 2 ** 31;
}

/** The graph with one difference for all comparisons of two sums that differ by constants. */
export function shareLimits(sink: UOp): UOp {
  const groups = new Map<UOp, Map<UOp, UOp[]>>();
  for (const u of toposort(sink)) {
    if (u.op !== Ops.CMPLT || u.src[0].dtype !== dtypes.int32) continue;
    const [[x], [y]] = u.src.map(splitIndex);
    if (x === undefined || y === undefined) continue;
    let byRight = groups.get(x);
    if (byRight === undefined) groups.set(x, byRight = new Map());
    const list = byRight.get(y);
    if (list === undefined) byRight.set(y, [u]);
    else list.push(u);
  }
  const shared = new Map<UOp, UOp>();
  for (const [x, byRight] of groups) {
    for (const [y, list] of byRight) {
      if (list.length < LEAST_SHARED || !fits(vmin(x) - vmax(y), vmax(x) - vmin(y))) continue;
      const difference = uop(Ops.SUB, x.dtype, [x, y]);
      for (const u of list) {
        const [[, c], [, d]] = u.src.map(splitIndex);
        if (fits(d - c, d - c)) shared.set(u, uop(Ops.CMPLT, u.dtype, [difference, constant(d - c, x.dtype)]));
      }
    }
  }
  return shared.size === 0 ? sink : substitute(sink, shared);
}
