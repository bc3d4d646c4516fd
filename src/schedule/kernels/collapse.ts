/**
 * Simplification of kernel ASTs before codegen: index arithmetic, and reduces that select: a sum over r of
 * `where(r == e, body(r), 0)` is `body(e)` where 0 <= e < n. It is what makes indexing by tensors a load.
 *
 * @module
 */
import { simplify, symbolic } from "../../uop/algebra/symbolic.ts";
import { splitAnd } from "../../uop/algebra/valid.ts";
import { type CarrierArg, carrierOf, reduce } from "../../uop/core/carrier.ts";
import { Ops } from "../../uop/core/ops.ts";
import { dependsOn, sizeOf } from "../../uop/core/ranges.ts";
import { constant, type UOp } from "../../uop/core/uop.ts";
import { conditional, selects, substituteGated } from "../../uop/graph/selecting.ts";
import { PatternMatcher, rule } from "../../uop/rewrite/matcher.ts";
import { note } from "../../uop/rewrite/record.ts";
import { graphRewrite } from "../../uop/rewrite/rewrite.ts";
import { UPat } from "../../uop/rewrite/upat.ts";

/** A sum over `ranges` of (masked) sums is one sum over the ranges of both. */
function sumOfSums(carrier: CarrierArg, lift: UOp, ranges: readonly UOp[]): UOp | undefined {
  const masked = lift.op === Ops.WHERE && lift.src[2].isConst(0);
  const inner = masked ? lift.src[1] : lift;
  if (inner.op !== Ops.REDUCE || carrierOf(inner).key !== "ADD") return undefined;
  const own = inner.src.slice(1), body = inner.src[0];
  if (!ranges.some((r) => dependsOn(body, r))) return undefined;
  return reduce(carrier, [masked ? lift.src[0].where(body, lift.src[2]) : body], [...ranges, ...own]);
}

function collapseReduce(u: UOp): UOp | undefined {
  const carrier = carrierOf(u);
  if (carrier.key !== "ADD") return undefined;
  const lift = u.src[0], ranges = u.src.slice(1);
  const unused = ranges.filter((r) => !dependsOn(lift, r));
  if (unused.length > 0) {
    const rest = ranges.filter((r) => !unused.includes(r));
    const sum = rest.length === 0 ? lift : reduce(carrier, [lift], rest);
    note("passed", u, "terms of a sum that are all the same are not added: one is multiplied by how many there are", {
      loops: unused.length,
    });
    return unused.reduce(
      (x, r) => r.src[0].op === Ops.CONST ? x.mul(r.src[0].value) : x.mul(r.src[0].cast(x.dtype)),
      sum,
    );
  }
  const sums = sumOfSums(carrier, lift, ranges);
  if (sums !== undefined) {
    note("passed", u, "a sum of sums is one sum, in one kernel", { loops: sums.src.length - 1 });
    return sums;
  }
  const c = conditional(lift);
  if (c === undefined) return undefined;
  const parts = splitAnd(c.condition);
  for (let i = 0; i < parts.length; i++) {
    const s = selects(parts[i], ranges);
    if (s === undefined) continue;
    if (s.r.src[0].op === Ops.CONST) {
      const terms = sizeOf(s.r);
      note("passed", u, `of a sum of ${terms} terms all but one are zero: that one is computed, without a loop`, {
        terms,
      });
    } else note("passed", u, "of a sum all terms but one are zero: that one is computed, without a loop", {});
    const n = s.r.src[0].cast(s.e.dtype);
    const zero = constant(0, s.e.dtype);
    let valid = s.e.lt(zero).ne(1).and(s.e.lt(n));
    const at = s.e.cast(s.r.dtype);
    for (let j = 0; j < parts.length; j++) if (j !== i) valid = valid.and(substituteGated(parts[j], s.r, at, valid));
    valid = simplify(valid);
    const rest = ranges.filter((r) => r !== s.r);
    const value = substituteGated(c.value, s.r, at, valid);
    const picked = valid.where(value, constant(0, value.dtype));
    return rest.length === 0 ? picked : reduce(carrier, [picked], rest);
  }
  return undefined;
}

/** As {@linkcode symbolic}, and sums that select or repeat are what they select or repeat. Kernel ASTs before codegen. */
const collapsing: PatternMatcher = symbolic.concat(
  new PatternMatcher("collapse", [
    rule(UPat.op(Ops.REDUCE, { name: "u" }), ({ u }) => collapseReduce(u), "sum that selects or repeats"),
  ]),
).settles();

/** A kernel's STORE or SINK, simplified, without reduces that only select. */
export function collapseReduces(root: UOp): UOp {
  return graphRewrite(root, collapsing, { name: "collapse reduces" });
}
