/**
 * Steps down a graph that many stages take: past what only orders, and to the memory of an address. In: a node. Out: the
 * node below.
 *
 * @module
 */
import { Ops } from "../core/ops.ts";
import type { UOp } from "../core/uop.ts";

/** What stands below AFTERs: a node without the order in which it is evaluated. */
export function throughAfter(u: UOp): UOp {
  while (u.op === Ops.AFTER) u = u.src[0];
  return u;
}

/** The memory of an address: the PARAM, LOCAL or ACC below INDEX and AFTER. */
export function baseOf(u: UOp): UOp {
  while (u.op === Ops.AFTER || u.op === Ops.INDEX) u = u.src[0];
  return u;
}
