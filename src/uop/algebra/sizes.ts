/**
 * Simplifying sizes that are expressions. The rules (symbolic.ts) are set with the engine, which who makes a variable asks
 * for: without one constants alone are folded, which is all that numbers need.
 *
 * @module
 */
import type { UOp } from "../core/uop.ts";
import { foldConst } from "./eval.ts";

/** Constants folded, nothing else. */
function folded(u: UOp): UOp {
  if (u.src.length === 0) return u;
  const src = u.src.map(folded);
  return foldConst(u.op, u.dtype, src) ?? u.withSrc(src);
}

let rules: (u: UOp) => UOp = folded;

/** Sets what simplifies. */
export function setSimplify(simplify: (u: UOp) => UOp): void {
  rules = simplify;
}

/** A size, a place or an end of something, simplified. */
export function simplifySize(u: UOp): UOp {
  return rules(u);
}
