/**
 * Sums of products of which both operands are gated alike: the gradient of windows, where it overlaps them in part. In: a
 * kernel AST for loops on a CPU. Out: the AST where an operand that lies in memory anyway has no gate, and the product is
 * selected instead: the operand can be packed once for all iterations, and whole iterations are skipped (expander.ts).
 *
 * @module
 */
import { vmax, vmin } from "../../uop/algebra/bounds.ts";
import { factorsOf } from "../../uop/algebra/contraction.ts";
import { joinAnd, splitAnd } from "../../uop/algebra/valid.ts";
import { argOf } from "../../uop/core/args.ts";
import { carrierOf, reduce } from "../../uop/core/carrier.ts";
import { Ops } from "../../uop/core/ops.ts";
import { constant, index, load, mayHave, type UOp } from "../../uop/core/uop.ts";
import { lanesOf, rebuildKernel } from "./replace_ranges.ts";

/** The gate of a factor of a product: that of the LOAD below casts, with 0 where it does not hold. undefined for none. */
export function gateOf(u: UOp): UOp | undefined {
  while (u.op === Ops.CAST) u = u.src[0];
  if (u.op !== Ops.LOAD || u.src.length > 1 || u.src[0].op !== Ops.INDEX) return undefined;
  return u.src[0].src[2] as UOp | undefined;
}

/** A factor without some clauses of its gate; undefined where it would reach out of memory. */
function without(u: UOp, clauses: readonly UOp[]): UOp | undefined {
  if (u.op === Ops.CAST) {
    const below = without(u.src[0], clauses);
    return below === undefined ? undefined : u.withSrc([below]);
  }
  const [base, idx, gate] = u.src[0].src;
  if (base.op !== Ops.PARAM || vmin(idx) < 0 || vmax(idx) >= argOf(base, Ops.PARAM).size) return undefined;
  const rest = splitAnd(gate).filter((c) => !clauses.includes(c));
  return load(index(base, idx, rest.length === 0 ? undefined : joinAnd(rest)));
}

/** The sum of products `u`, whose gates are those of the product; undefined for others. */
function selected(u: UOp, product: UOp): UOp | undefined {
  const factors = factorsOf(u, product);
  if (factors === undefined) return undefined;
  const [a, b] = factors, [ga, gb] = [gateOf(a), gateOf(b)];
  if (ga === undefined || gb === undefined) return undefined;
  const others = splitAnd(gb), common = splitAnd(ga).filter((c) => others.includes(c));
  if (common.length === 0) return undefined;
  const free = without(b, common), other = free === undefined ? without(a, common) : undefined;
  if (free === undefined && other === undefined) return undefined;
  const [x, y] = [other ?? a, free ?? b];
  return joinAnd(common).where(x.alu(Ops.MUL, y), constant(0, product.dtype));
}

/** The product that a sum adds under a condition on its loops, and 0 else; undefined where it is no such sum. */
export function guardedProduct(u: UOp): UOp | undefined {
  const [lift] = u.src;
  if (u.op !== Ops.REDUCE || lift.op !== Ops.WHERE) return undefined;
  const [condition, product, other] = lift.src, isProduct = factorsOf(u, product) !== undefined;
  return isProduct && Object.is(other.arg, 0) && !mayHave(condition, Ops.LOAD) ? product : undefined;
}

/** Selects products instead of gating both of their operands. */
export function ungate(ast: UOp): UOp {
  if (!mayHave(ast, Ops.REDUCE) || !mayHave(ast, Ops.CMPLT)) return ast;
  return rebuildKernel(ast, (u, src) => {
    if (u.op !== Ops.REDUCE) return undefined;
    const lift = selected(u, src[0]);
    return lift === undefined ? undefined : lanesOf(reduce(carrierOf(u), [lift], src.slice(1)));
  });
}
